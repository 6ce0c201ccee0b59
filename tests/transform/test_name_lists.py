"""A list of names is a list or a text with commas, in every transformation that takes one; never letters of a text."""
from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.kernel.history import TRANSFORMATIONS
from loopkit.kernel.printing import kernel_text

BOX = "{[ii,jj]: 0<=ii<8 and 0<=jj<4}"


def plain() -> lk.LoopKernel:
    return lk.make_kernel(BOX, "yy[ii,jj] = xx[ii,jj] + zz[jj,ii]")


def scalars() -> lk.LoopKernel:
    return lk.make_kernel(BOX, "for ii, jj\n <> ss = xx[ii,jj]\n <> tt = 2*ss\n yy[ii,jj] = ss + tt\nend")


def rules() -> lk.LoopKernel:
    return lk.make_kernel(BOX, "ff(aa, bb) := xx[aa,bb]\ngg(aa) := 2*aa\nyy[ii,jj] = ff(ii, jj) + gg(jj)")


def calling() -> lk.LoopKernel:
    functions = [lk.make_function("{[kk]: 0<=kk<4}", f"bb[kk] = {k}*aa[kk]", name=name)
                 for k, name in enumerate(("ff", "gg"), 2)]
    return lk.make_kernel("{[ii]: 0<=ii<8}", "for ii\nyy[ii, :] = ff(xx[ii, :])\nzz[ii, :] = gg(xx[ii, :])\nend",
                          functions=functions)


def nests() -> lk.LoopKernel:
    return lk.make_kernel(["{[ii]: 0<=ii<8}", "{[jj]: 0<=jj<8}"], "uu[ii] = xx[ii]\nvv[jj] = xx[jj]")


def scanned() -> lk.LoopKernel:
    knl = lk.make_kernel("{[ii,jj]: 0<=ii<8 and 0<=jj<4}", "for ii\n <> ss[jj] = xx[ii,jj] {id=put}\n"
                         " yy[ii,jj] = ss[jj] {id=take}\nend")
    return lk.split_iname(knl, "jj", 2)


def boxed() -> lk.LoopKernel:
    return lk.make_kernel(BOX, "yy[0] = 1 {inames=ii:jj}")


def typed() -> lk.LoopKernel:
    knl = lk.make_kernel(BOX, "<> ss[ii] = xx[ii,jj]\n<> tt[ii] = 2*xx[ii,jj]\nyy[ii,jj] = ss[ii] + tt[ii]")
    return lk.add_dtypes(knl, {"xx": "float64"})


def apart() -> lk.LoopKernel:
    knl = lk.make_kernel("{[ii]: 0<=ii<8}", "for ii\n<> ss = xx[ii]\nuu[ii] = ss\n<> tt = 2*xx[ii]\n"
                         "vv[ii] = tt\nend")
    return lk.add_dtypes(knl, {"xx": "float64"})


def sized() -> lk.LoopKernel:
    return lk.make_kernel(BOX, "<> ss = 2*xx[ii,jj]\nyy[ii,jj] = ss")


def summed() -> lk.LoopKernel:
    return lk.make_kernel("{[ii,jj,kk]: 0<=ii,jj,kk<4}", "yy[0] = sum([ii, jj, kk], xx[ii,jj])")


def tables() -> lk.LoopKernel:
    shared = [lk.TemporaryVariable(x, np.float32, (8, 4)) for x in ("ss", "tt")]
    text = "for ii, jj\n ss[ii,jj] = xx[ii,jj]\n tt[ii,jj] = ss[ii,jj]\n yy[ii,jj] = tt[ii,jj]\nend"
    return lk.make_kernel(BOX, text, [*shared, "..."])


def multiplied() -> lk.LoopKernel:
    knl = lk.make_kernel("{[ii,jj,kk]: 0<=ii,jj<8 and 0<=kk<4}", "cc[ii,jj] = sum(kk, aa[ii,kk]*bb[kk,jj])")
    return lk.add_dtypes(knl, {"aa,bb": "float64"})


def copied() -> lk.LoopKernel:
    text = "for bb\n ss[ii] = xx[bb,ii] {id=cc}\n tt[jj] = zz[bb,jj] {id=dd}\n yy[bb,kk] = ss[kk] + tt[kk]\nend"
    knl = lk.make_kernel("{[bb,ii,jj,kk]: 0<=bb<4 and 0<=ii,jj,kk<32}", text, [
        *(lk.TemporaryVariable(x, np.float32, (32,)) for x in ("ss", "tt")), "..."])
    knl = lk.tag_inames(lk.add_dtypes(knl, {"xx,zz": np.float32}), "bb:g.0, kk:l.0")
    return lk.tensorize(lk.tensorize(knl, "cc", "tma.load"), "dd", "tma.load")


def tagged() -> lk.LoopKernel:
    return lk.tag_inames(plain(), {"ii": "g.0", "jj": "l.0"})


#: For each parameter: a kernel, the other arguments, and the names.
CALLS: Mapping[tuple[str, str], tuple[Callable[[], lk.LoopKernel], dict[str, Any], list[str]]] = {
    ("add_inames_to_insn", "inames"): (nests, {"insn_match": "writes:uu"}, ["jj"]),
    ("add_prefetch", "sweep_inames"): (plain, {"var_name": "xx"}, ["ii", "jj"]),
    ("add_prefetch", "dim_arg_names"): (plain, {"var_name": "xx", "sweep_inames": ["ii", "jj"]}, ["pp", "qq"]),
    ("add_prefetch", "fetch_outer_inames"): (plain, {"var_name": "xx", "sweep_inames": []}, ["ii", "jj"]),
    ("affine_map_inames", "old_inames"): (plain, {"new_inames": ["pp", "qq"], "equations": "pp = ii + jj, qq = jj"},
                                          ["ii", "jj"]),
    ("affine_map_inames", "new_inames"): (plain, {"old_inames": ["ii", "jj"], "equations": "pp = ii + jj, qq = jj"},
                                          ["pp", "qq"]),
    ("add_block_flags", "temporary_names"): (scalars, {}, ["ss", "tt"]),
    ("alias_temporaries", "names"): (apart, {}, ["ss", "tt"]),
    ("assignment_to_subst", "extra_arguments"): (sized, {"lhs_name": "ss"}, ["ii", "jj"]),
    ("buffer_array", "buffer_inames"): (plain, {"var_name": "yy"}, ["ii", "jj"]),
    ("concatenate_arrays", "array_names"): (typed, {}, ["ss", "tt"]),
    ("contract", "inames"): (scanned, {"temporary": "ss"}, ["jj_outer", "jj_inner"]),
    ("duplicate_inames", "inames"): (plain, {"within": "insn"}, ["ii", "jj"]),
    ("duplicate_inames", "new_inames"): (plain, {"inames": ["ii", "jj"], "within": "insn"}, ["pp", "qq"]),
    ("expand", "inames"): (scalars, {"temporary": "ss"}, ["ii", "jj"]),
    ("expand_subst", "subst_names"): (rules, {}, ["ff", "gg"]),
    ("expand_subst", "in_rules"): (rules, {"subst_names": ["gg"]}, ["ff", "gg"]),
    ("extract_subst", "parameters"): (plain, {"subst_name": "hh", "template": "xx[pp,qq]"}, ["pp", "qq"]),
    ("fuse_loops", "inames"): (nests, {}, ["ii", "jj"]),
    ("inline_callable_kernel", "function_name"): (calling, {}, ["ff", "gg"]),
    ("join_inames", "inames"): (plain, {}, ["ii", "jj"]),
    ("pipeline", "temporaries"): (scanned, {"iname": "ii"}, ["ss"]),
    ("precompute", "sweep_inames"): (rules, {"subst_use": "ff"}, ["ii", "jj"]),
    ("precompute", "precompute_inames"): (rules, {"subst_use": "ff", "sweep_inames": ["ii", "jj"]}, ["pp", "qq"]),
    ("precompute", "precompute_outer_inames"): (rules, {"subst_use": "ff", "sweep_inames": []}, ["ii", "jj"]),
    ("prioritize_loops", "loop_priority"): (plain, {}, ["jj", "ii"]),
    ("privatize", "privatizing_inames"): (scalars, {}, ["ii", "jj"]),
    ("privatize", "only_var_names"): (scalars, {"privatizing_inames": ["ii"]}, ["ss", "tt"]),
    ("reduction_arg_to_subst_rule", "inames"): (summed, {}, ["ii", "jj", "kk"]),
    ("remove_inames_from_insn", "inames"): (boxed, {"insn_match": None}, ["ii", "jj"]),
    ("remove_unused_inames", "inames"): (plain, {}, ["ii", "jj"]),
    ("rename_inames", "old_inames"): (nests, {"new_iname": "pp"}, ["ii", "jj"]),
    ("set_argument_order", "arg_names"): (plain, {}, ["zz", "yy", "xx"]),
    ("set_cache_policy", "var_names"): (nests, {"policy": "streaming"}, ["uu", "vv"]),
    ("set_temporary_address_space", "temporary_names"): (scalars, {"address_space": "private"}, ["ss", "tt"]),
    ("specialize_warps", "producers"): (copied, {}, ["cc", "dd"]),
    ("split_array_axis", "array_names"): (plain, {"axis_nr": 0, "count": 4}, ["xx", "yy"]),
    ("split_reduction_inward", "inames"): (summed, {}, ["ii", "jj"]),
    ("split_reduction_outward", "inames"): (summed, {}, ["ii", "jj"]),
    ("tag_array_axes", "ary_names"): (plain, {"dim_tags": "F"}, ["xx", "yy"]),
    ("store_via", "buffer_inames"): (plain, {"var_name": "yy", "engine": "register"}, ["ii", "jj"]),
    ("swizzle", "variable"): (tables, {"period": 2}, ["ss", "tt"]),
    ("tensorize", "inames"): (multiplied, {"statement": "insn", "instruction": "mma.m8n8k4.f64"}, ["ii", "jj", "kk"]),
    ("to_batched", "batch_varying_args"): (plain, {"nbatches": 3}, ["xx", "yy"]),
    ("unroll", "inames"): (plain, {}, ["ii", "jj"]),
    ("untag_inames", "inames"): (tagged, {}, ["ii", "jj"])}


#: Of these the kernels are refused, by name.
REFUSED = {("add_block_flags", "temporary_names"), ("pipeline", "temporaries"),
           ("contract", "inames")}


def _lists() -> list[tuple[str, str]]:
    """The parameters that take names by their annotations; *within* takes match expressions, *batches* a mapping."""
    return [(name, p.name) for name, function in sorted(TRANSFORMATIONS.items())
            for p in inspect.signature(function).parameters.values()
            if re.search(r"(Sequence|Iterable|Collection)\[str\b", str(p.annotation))
            and p.name not in ("within", "batches")]


def test_every_list_is_tried() -> None:
    assert sorted(CALLS) == sorted(_lists())


def _outcome(name: str, parameter: str, names: object) -> str:
    made, others, _ = CALLS[name, parameter]
    knl = made()
    try:
        return kernel_text(getattr(lk, name)(knl, **{**others, parameter: names}))
    except lk.LoopkitError as refusal:
        return f"{type(refusal).__name__}: {refusal}"


@pytest.mark.parametrize("key", CALLS, ids=".".join)
def test_a_text_is_a_list(key: tuple[str, str]) -> None:
    """With commas or without, and an iterator that is read once."""
    names = CALLS[key][2]
    listed = _outcome(*key, names)
    assert ("Error" in listed.partition(":")[0]) == (key in REFUSED), listed
    assert _outcome(*key, ", ".join(names)) == listed
    assert _outcome(*key, ",".join(names)) == listed
    assert _outcome(*key, iter(names)) == listed
    assert _outcome(*key, names[0]) == _outcome(*key, names[:1])


#: The parameters that take new names, or names of functions.
NEW_NAMES = {"dim_arg_names", "new_inames", "extra_arguments", "parameters", "precompute_inames"}


@pytest.mark.parametrize("key", [key for key in CALLS if key[1] not in NEW_NAMES], ids=".".join)
def test_a_pattern_is_a_list(key: tuple[str, str]) -> None:
    """Each name of the kernel that matches, once."""
    names = CALLS[key][2]
    assert _outcome(*key, [f"{x[0]}[{x[0]}]{x[2:]}" for x in names]) == _outcome(*key, names)
    assert "UnknownNameError" in _outcome(*key, "no*")


@pytest.mark.deep(every=196)
@pytest.mark.parametrize("names", [5, [5], [None, "ii"], [["ii"]], object(), 1.5, True])
@pytest.mark.parametrize("key", CALLS, ids=".".join)
def test_others_are_refused(key: tuple[str, str], names: object) -> None:
    with pytest.raises(lk.LoopkitError):
        getattr(lk, key[0])(CALLS[key][0](), **{**CALLS[key][1], key[1]: names})


def test_arguments_of_make_kernel() -> None:
    assert [a.name for a in lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]", "x, n, y").arguments] == ["x", "n", "y"]
    assert [a.name for a in lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]", "y, ...").arguments] == ["y", "n", "x"]
