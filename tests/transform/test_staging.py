"""add_prefetch, precompute, extract_subst, expand_subst."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from loopkit.kernel.tags import AutoLocalTag, UnrollTag
from loopkit.poly.sets import InstanceSet
from tests.language.outline import outline, text
from tests.transform.kernels import F32, matmul, matvec, scaled_matrix, stencil, triangle, twice, two_loops
from tests.transform.same import assert_domain, assert_same, step


def mapped_stencil() -> lk.LoopKernel:
    return lk.split_iname(stencil(), "i", 8, outer_tag="g.0", inner_tag="l.0")


def split_matvec() -> lk.LoopKernel:
    return lk.split_iname(matvec(), "k", 4)


def with_rule() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i,j]: 0<=i<16 and 0<=j<m}", "f(s) := x[s]*x[s+1]\ny[i,j] = f(i)*z[j] + f(i+2)")
    return lk.add_dtypes(knl, {"x,z": F32})


# Add_prefetch

def test_what_only_conditions_read() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "f(s) := 2*x[s]\ny[i] = 2 {if=x[i] > 0}\nz[i] = 3 {if=f(i) > 0}")
    with pytest.raises(lk.PreconditionError, match="Only conditions read 'x', such as that of 'insn'"):
        lk.add_prefetch(knl, "x")
    with pytest.raises(lk.PreconditionError, match="No statement reads 'f'") as caught:
        lk.precompute(knl, "f")
    assert caught.value.hint == "only conditions use the rule: they contain its body, which a copy cannot replace"


@pytest.mark.parametrize("wrong", ["a b", "", "1a", "if"])
def test_ids_are_names(wrong: str) -> None:
    with pytest.raises(lk.NameConflictError, match="cannot be the id of a statement"):
        lk.add_prefetch(twice(), "x", prefetch_insn_id=wrong)
    with pytest.raises(lk.NameConflictError, match="cannot be the id of a statement"):
        lk.buffer_array(split_matvec(), "y", [], init_insn_id=wrong)


@pytest.mark.deep
def test_the_copy_spans_the_halo() -> None:
    knl = step(mapped_stencil(), lk.add_prefetch, "a", "i_inner")
    assert outline(knl) == text("""
        for i_outer
          for a_dim_0
            a_fetch_rule: a_fetch[a_dim_0] = a[8*i_outer + a_dim_0 + -1]
          for i_inner
            insn: y[8*i_outer + i_inner] = a_fetch[i_inner] + 2*a_fetch[i_inner + 1] + a_fetch[i_inner + 2]
        """)
    assert knl.temporaries["a_fetch"].shape == (10,)
    assert knl.tags["a_dim_0"] == AutoLocalTag()
    for n in (2, 3, 9, 10, 37):
        assert_same(stencil(), knl, n=n)


def test_subscripts_of_what_is_written_read_the_copy_too() -> None:
    data = [lk.GlobalArg("a", F32, shape=(64,)), lk.GlobalArg("idx", np.dtype(np.int32)), "..."]
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<64}", "a[idx[i]] = 2*x[i] + idx[i]", data), {"x": F32})
    knl = step(lk.split_iname(plain, "i", 16), lk.add_prefetch, "idx", "i_inner", default_tag=None)
    assert outline(knl) == text("""
        for i_outer
          for idx_dim_0
            idx_fetch_rule: idx_fetch[idx_dim_0] = idx[16*i_outer + idx_dim_0]
          for i_inner
            insn: a[idx_fetch[i_inner]] = 2*x[16*i_outer + i_inner] + idx_fetch[i_inner]
        """)
    lk.check_equivalent(plain, knl, {"idx": np.random.default_rng(0).permutation(64).astype(np.int32)}, target="c")
    changed = lk.make_kernel("{[i]: 0<=i<64}", "idx[i] = idx[i+1] + 1\na[idx[i]] = 2", [data[0], "..."])
    with pytest.raises(lk.IllegalTransformError, match="a value's reader before its writer"):
        lk.add_prefetch(lk.split_iname(changed, "i", 16), "idx", "i_inner")


@pytest.mark.deep
def test_a_chunk_is_copied_like_any_tile() -> None:
    """Where a chunk starts is an affine form for each chunk alone."""
    plain = stencil()
    chunks = lk.split_iname(lk.chunk_iname(plain, "i", 3, outer_tag="g.0"), "i_inner", 4, inner_tag="l.0")
    knl = step(chunks, lk.add_prefetch, "a", "i_inner_inner")
    assert knl.temporaries["a_fetch"].shape == (6,)
    assert lk.verify(knl, full=True).proven
    for n in (2, 3, 7, 13, 29):
        assert_same(plain, knl, n=n)


@pytest.mark.deep(every=3)
@pytest.mark.parametrize(("swept", "shape"), [("j", (4,)), ("i, j", (24,)), ("", ())])
def test_subscripts_that_are_affine_for_each_value_only(swept: str, shape: tuple[int, ...]) -> None:
    plain = lk.make_kernel("{[i, j]: 0<=i<3 and 0<=j<4}", "y[i, j] = a[5*i*i + j]", [
        lk.GlobalArg("a", F32, (24,)), "..."])
    knl = step(plain, lk.add_prefetch, "a", swept, default_tag=None)
    assert knl.temporaries["a_fetch"].shape == shape
    assert_same(plain, knl)
    with pytest.raises(lk.PreconditionError, match="no box of constant size"):
        lk.add_prefetch(lk.make_kernel("{[i, j]: 0<=i<3 and 0<=j<4}", "y[i, j] = a[n*j + i]"), "a", "j")


def test_one_element_that_is_read_under_two_forms() -> None:
    written = lk.make_kernel("{[i, k]: 0<=i<m and 2<=k<=n}", "y[k, i] = x[2*i] - c[k - 2, i]*x[i + i]", [
        lk.GlobalArg("x,c", F32), "..."])
    knl = step(written, lk.add_prefetch, "x", ["k"])
    assert_domain(knl, "[m, n] -> { [i] : n >= 2 and 0 <= i < m }", "[m, n] -> { [i, k] : 0 <= i < m and 2 <= k <= n }")
    for n, m in ((1, 3), (2, 1), (5, 4)):
        assert_same(written, knl, n=n, m=m)


def test_only_what_is_read_is_copied() -> None:
    knl = lk.add_prefetch(mapped_stencil(), "a", "i_inner")
    first, _ = lk.fix_parameters(knl, n=12).domains_text.split("\n")
    assert_domain(lk.fix_parameters(knl, n=12), first,
                  "{ [i_outer, i_inner] : 0 <= i_inner < 8 and 1 <= 8i_outer + i_inner < 11 }")
    copied = {(o, a) for o in range(3) for a in range(10)
              if any(1 <= 8*o + i < 11 and 0 <= a - i <= 2 for i in range(8))}
    assert {(o, a) for o in range(3) for a in range(10) if holds(first, o, a)} == copied


def holds(domain: str, i_outer: int, a_dim_0: int) -> bool:
    point = InstanceSet.parse(f"{{ [i_outer, a_dim_0] : i_outer = {i_outer} and a_dim_0 = {a_dim_0} }}")
    return point.is_subset(InstanceSet.parse(domain))


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("before", [True, False], ids=["tags_first", "tags_last"])
def test_tags_come_before_or_after(before: bool) -> None:
    tags = {"i_outer": "g.1", "j_outer": "g.0", "i_inner": "l.1", "j_inner": "l.0"}
    knl = lk.split_iname(lk.split_iname(lk.split_iname(matmul(), "i", 4), "j", 8), "k", 2)
    if before:
        knl = lk.tag_inames(knl, tags)
    # without tags, sequential loops are sunk, and a sum needs a cell for each of their iterations
    knl = lk.add_prefetch(knl, "a", ["i_inner", "k_inner"], allow_global_storage=not before)
    knl = lk.add_prefetch(knl, "b", ["k_inner", "j_inner"], allow_global_storage=not before)
    if not before:
        knl = lk.tag_inames(knl, tags)
    for sizes in ({"n": 1, "m": 1, "l": 1}, {"n": 5, "m": 11, "l": 7}, {"n": 8, "m": 8, "l": 4}):
        assert_same(matmul(), knl, **sizes)


def test_the_copy_stands_in_the_innermost_loop_that_it_depends_on() -> None:
    knl = step(split_matvec(), lk.add_prefetch, "a", "k_inner", default_tag=None)
    assert outline(knl) == text("""
        for i
          insn.k.init: acc_k = neutral(sum)
          for k_outer
            for a_dim_1
              a_fetch_rule: a_fetch[a_dim_1] = a[i, 4*k_outer + a_dim_1]
            for k_inner
              insn.k.update: acc_k sum= a_fetch[k_inner]*x[4*k_outer + k_inner]
          insn: y[i] = acc_k
        """)
    assert_same(matvec(), knl, n=5, m=11)


def test_a_loop_on_which_nothing_depends_is_sunk() -> None:
    knl = step(split_matvec(), lk.add_prefetch, "x", "k_inner", default_tag=None, allow_global_storage=True)
    assert "i" not in knl.statement("x_fetch_rule").inames
    assert knl.temporaries["x_fetch"].shape == (4,)
    assert_same(matvec(), knl, n=5, m=11)


def test_the_place_can_be_given() -> None:
    knl = step(split_matvec(), lk.add_prefetch, "x", "k_inner", default_tag=None, fetch_outer_inames="i, k_outer")
    assert knl.statement("x_fetch_rule").inames[:2] == ("i", "k_outer")
    assert_same(matvec(), knl, n=5, m=11)


def test_names_can_be_given() -> None:
    knl = step(split_matvec(), lk.add_prefetch, "a", "k_inner", default_tag="unr", temporary_name="row",
               dim_arg_names=["c"], prefetch_insn_id="load")
    assert knl.statement("load").inames == ("i", "k_outer", "c")
    assert knl.tags["c"] == UnrollTag()
    assert "row" in knl.temporaries
    assert_same(matvec(), knl, n=5, m=11)


def test_nothing_swept_copies_one_element() -> None:
    knl = step(scaled_matrix(), lk.add_prefetch, "x")
    assert knl.temporaries["x_fetch"].shape == ()
    assert_same(scaled_matrix(), knl, n=3, m=4)


def test_prefetch_of_a_temporary() -> None:
    knl = lk.split_iname(two_loops(), "i", 4, within="second")
    knl = step(knl, lk.add_prefetch, "t", "i_inner", within="second", default_tag=None)
    assert knl.temporaries["t_fetch"].shape == (4,)
    assert_same(two_loops(), knl, n=13)


@pytest.mark.deep
def test_prefetch_of_a_prefetch() -> None:
    knl = lk.add_prefetch(mapped_stencil(), "a", "i_inner")
    knl = step(knl, lk.add_prefetch, "a_fetch", temporary_name="a_own", default_tag="unr")
    assert knl.temporaries["a_own"].shape == (3,)
    assert_same(stencil(), knl, n=21)


def test_prefetch_through_a_rule_writes_it_out() -> None:
    knl = step(with_rule(), lk.add_prefetch, "x", "i", default_tag=None)
    assert not knl.substitutions
    assert knl.temporaries["x_fetch"].shape == (19,)
    assert_same(with_rule(), knl, m=5)


@pytest.mark.deep
def test_a_box_larger_than_what_is_read_where_nothing_writes() -> None:
    """A star's footprint is filled up to a box: its copy needs no disjunctions."""
    plain = lk.make_kernel("{[i,j]: 1<=i<n-1 and 1<=j<n-1}", "y[i,j] = a[i-1,j] + a[i+1,j] - a[i,j-1] - a[i,j+1]")
    plain = lk.add_dtypes(plain, {"a": F32})
    knl = lk.split_iname(lk.split_iname(plain, "i", 4), "j", 4)
    knl = lk.add_prefetch(knl, "a", "i_inner, j_inner")
    assert " or " not in knl.domains_text
    for n in (3, 6, 11):
        assert_same(plain, knl, n=n)


@pytest.mark.deep
@pytest.mark.parametrize("space", ["local", "global"])
def test_the_address_space_can_be_given(space: str) -> None:
    knl = lk.add_prefetch(mapped_stencil(), "a", "i_inner", temporary_address_space=space)
    assert_same(stencil(), knl, n=37)


def test_an_address_space_that_cannot_serve_is_refused_in_lowering() -> None:
    knl = lk.add_prefetch(mapped_stencil(), "a", "i_inner", temporary_address_space="private")
    with pytest.raises(lk.StorageError, match="reads in another thread") as caught:
        lk.lower(knl)
    assert caught.value.subject == "a_fetch"
    assert caught.value.hint == "set_temporary_address_space(knl, 'a_fetch', 'shared')"


# Precompute

def test_precompute() -> None:
    knl = step(with_rule(), lk.precompute, "f", "i", default_tag=None)
    assert outline(knl) == text("""
        for f_dim_0
          f_0_rule: f_0[f_dim_0] = x[f_dim_0]*x[f_dim_0 + 1]
        for i
          for j
            insn: y[i, j] = f_0[i]*z[j] + f_0[i + 2]
        """)
    assert not knl.substitutions
    assert_same(with_rule(), knl, m=5)


@pytest.mark.deep
def test_precompute_over_the_threads() -> None:
    knl = lk.split_iname(with_rule(), "j", 8, outer_tag="g.0", inner_tag="l.0")
    knl = step(knl, lk.precompute, "f", "i")
    for m in (1, 8, 17):
        assert_same(with_rule(), knl, m=m)


def test_precompute_takes_names() -> None:
    knl = step(with_rule(), lk.precompute, "f", "i", precompute_inames=["q"], temporary_name="table",
               compute_insn_id="fill", default_tag=None, precompute_outer_inames=())
    assert knl.statement("fill").inames == ("q",)
    assert knl.temporaries["table"].shape == (18,)
    assert_same(with_rule(), knl, m=5)
    # one for each argument, which may share the name of the rule's own argument
    two = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<4}", "f(s, t) := x[s,t]\ny[i,j] = f(i, j)")
    assert lk.precompute(two, "f", "j", precompute_inames="s, t").statements[0].inames == ("i", "t")
    with pytest.raises(lk.NameConflictError, match="'j' is taken"):
        lk.precompute(two, "f", "j", precompute_inames="s, j")


def test_precompute_of_a_rule_without_arguments() -> None:
    plain = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "f := 2*x[i]\ny[i,j] = f*z[j] + f")
    plain = lk.add_dtypes(plain, {"x,z": F32})
    knl = step(plain, lk.precompute, "f", default_tag=None)
    assert knl.statement("f_0_rule").inames == ("i",)
    assert_same(plain, knl, n=3, m=4)


# Extract_subst, expand_subst

def test_extract_subst_names_what_matches() -> None:
    knl = step(stencil(), lk.extract_subst, "load", "a[s]", "s")
    assert "y[i] = load(i - 1) + 2*load(i) + load(i + 1)" in str(knl)
    assert_same(stencil(), knl, n=9)


def test_extract_then_precompute_is_a_prefetch() -> None:
    knl = lk.precompute(lk.extract_subst(mapped_stencil(), "load", "a[s]", "s"), "load", "i_inner")
    assert_same(stencil(), knl, n=29)


def test_extract_within_one_statement() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i] {id=A}\nz[i] = 3*x[i] {id=B}"), {"x": F32})
    knl = step(plain, lk.extract_subst, "load", "x[s]", "s", within="B")
    assert "y[i] = 2*x[i]" in str(knl)
    assert "z[i] = 3*load(i)" in str(knl)
    assert_same(plain, knl, n=4)


def test_a_parameter_that_stands_twice_matches_one_thing() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]*x[i] + x[i]*x[i+1]"), {"x": F32})
    knl = lk.extract_subst(plain, "square", "x[s]*x[s]", "s")
    assert "square(i) + x[i]*x[i + 1]" in str(knl)
    assert_same(plain, knl, n=4)


def test_expand_subst_writes_rules_out() -> None:
    knl = step(with_rule(), lk.expand_subst)
    assert not knl.substitutions
    assert_same(with_rule(), knl, m=5)


def test_expand_one_rule_of_two() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "f(s) := 2*x[s]\ng(s) := f(s) + 1\ny[i] = g(i) + f(i)"),
                          {"x": F32})
    knl = step(plain, lk.expand_subst, "f")
    assert list(knl.substitutions) == ["g"]
    assert_same(plain, knl, n=5)
    assert_same(plain, lk.expand_subst(plain), n=5)


def test_expand_in_some_rules_alone() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "f(s) := 2*x[s]\ng(s) := f(s) + 1\ny[i] = g(i) + f(i)"),
                          {"x": F32})
    knl = step(plain, lk.expand_subst, "f", in_rules="g")
    assert str(knl.substitutions["g"].expr) == "2*x[s] + 1"
    assert "y[i] = g(i) + f(i)" in str(knl)
    assert_same(plain, knl, n=5)
    with pytest.raises(lk.PreconditionError, match="expand in two steps"):
        lk.expand_subst(plain, "f", within="insn", in_rules="g")


def test_precompute_follows_rules_inside_of_a_rule() -> None:
    """A rule that mentions an iname freely ties the copy to its loop, and a swept one gets the iname of the copy."""
    knl = lk.add_dtypes(lk.make_kernel("{[t,i]: 0<=i<8 and 0<=t<4}", "e(k) := x[k]*t\nf(k) := 2*e(k)\ny[t,i] = f(i)"),
                        {"x": F32})
    made = step(knl, lk.precompute, "f", "i", default_tag=None)
    assert made.statement_by_id["f_0_rule"].inames == ("t", "f_dim_0")
    assert_same(knl, made)
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<8}", "e() := x[i]\nf() := e()*e()\ny[i] = f()"), {"x": F32})
    made = step(knl, lk.precompute, "f", "i", default_tag=None)
    assert "f_0[f_dim_0] = e()*e()" in str(made)
    assert str(made.substitutions["e"].expr) == "x[f_dim_0]"
    assert_same(knl, made)


def test_expand_of_an_extract_gives_the_expressions_back() -> None:
    assert outline(lk.expand_subst(lk.extract_subst(twice(), "f", "x[s]", "s"))) == outline(twice())


@pytest.mark.deep(every=23)
@pytest.mark.parametrize(("call", "error", "fields"), [
    (lambda: lk.add_prefetch(twice(), "q", "i"), lk.UnknownNameError, {"kind": "array", "name": "q"}),
    (lambda: lk.add_prefetch(twice(), "x", "q"), lk.UnknownNameError, {"kind": "iname", "name": "q"}),
    (lambda: lk.add_prefetch(twice(), "y", "i"), lk.PreconditionError, {"subject": "y"}),
    (lambda: lk.add_prefetch(twice(), "x", "i"), lk.PreconditionError, {"subject": "i"}),
    (lambda: lk.add_prefetch(mapped_stencil(), "a", "i_inner", temporary_name="y"), lk.NameConflictError,
     {"subject": "y"}),
    (lambda: lk.add_prefetch(mapped_stencil(), "a", "i_inner", prefetch_insn_id="insn"), lk.NameConflictError,
     {"subject": "insn"}),
    (lambda: lk.add_prefetch(mapped_stencil(), "a", "i_inner", dim_arg_names=["n"]), lk.NameConflictError,
     {"subject": "n"}),
    (lambda: lk.add_prefetch(mapped_stencil(), "a", "i_inner", dim_arg_names=[]), lk.PreconditionError,
     {"subject": "a"}),
    (lambda: lk.add_prefetch(mapped_stencil(), "a", "i_inner", fetch_outer_inames="q"), lk.UnknownNameError,
     {"kind": "iname", "name": "q"}),
    (lambda: lk.add_prefetch(mapped_stencil(), "a", "i_inner", within="nothing"), lk.UnknownNameError,
     {"kind": "statement", "name": "nothing"}),
    (lambda: lk.add_prefetch(mapped_stencil(), "a", "i_inner", default_tag="auto"), lk.PreconditionError,
     {"subject": "auto"}),
    (lambda: lk.add_prefetch(mapped_stencil(), "a", "i_inner", temporary_address_space="constant"),
     lk.PreconditionError, {"subject": "constant"}),
    (lambda: lk.add_prefetch(lk.make_kernel("{[i]: 0<=i<8}", "y[i] = x[idx[i]]"), "x", "i"), lk.PreconditionError,
     {"subject": "x"}),
    (lambda: lk.add_prefetch(lk.split_iname(lk.split_iname(triangle(), "i", 4), "j", 4), "x", "i_inner"),
     lk.PreconditionError, {"subject": "x"}),
    (lambda: lk.add_prefetch(lk.make_kernel("{[i,j]: 0<=i,j<n}", "y[i] = x[i]\nz[j] = x[j]"), "x"), lk.ScheduleError,
     {"subject": "x"}),
    (lambda: lk.precompute(with_rule(), "g", "i"), lk.UnknownNameError, {"kind": "substitution rule", "name": "g"}),
    (lambda: lk.precompute(with_rule(), "f", "q"), lk.UnknownNameError, {"kind": "iname", "name": "q"}),
    (lambda: lk.precompute(with_rule(), "f", "i", temporary_name="z"), lk.NameConflictError, {"subject": "z"}),
    (lambda: lk.extract_subst(twice(), "y", "x[s]", "s"), lk.NameConflictError, {"subject": "y"}),
    (lambda: lk.extract_subst(twice(), "f", "w[s]", "s"), lk.PreconditionError, {"subject": "w[s]"}),
    (lambda: lk.extract_subst(twice(), "f", "x[i]", "s"), lk.PreconditionError, {"subject": "s"}),
    (lambda: lk.extract_subst(twice(), "f", "x[", "s"), lk.ParseError, {"line": 1, "column": 2}),
    (lambda: lk.expand_subst(with_rule(), "g"), lk.UnknownNameError, {"kind": "substitution rule", "name": "g"}),
])
def test_refused(call: object, error: type[lk.LoopkitError], fields: dict[str, object]) -> None:
    with pytest.raises(lk.LoopkitError) as caught:
        call()                                                     # type: ignore[operator]
    assert type(caught.value) is error, caught.value
    assert {f: getattr(caught.value, f) for f in fields} == fields


@pytest.mark.parametrize(("text", "sweep", "shape"), [
    ("y[i,j] = f(i)*f(i+2)", "i", "(n + 2)"), ("y[i,j] = f(j)", "j", "(m + n + -1)"), ("y[i,j] = f(j-i)", "i,j", "(m)"),
])
def test_a_box_in_global_memory_has_the_length_of_its_loops(text: str, sweep: str, shape: str) -> None:
    knl = lk.make_kernel("{[i,j]: 0<=i<n and i<=j<i+m}", f"f(s) := 3*x[s] + 1\n{text}", assumptions="n>=1 and m>=1")
    knl = lk.add_dtypes(knl, {"x": F32})
    made = step(knl, lk.precompute, "f", sweep, default_tag=None, temporary_address_space="global",
                allow_global_storage=True, allow_reordering=True, allow_launches=True)
    assert "({})".format(", ".join(map(str, made.temporaries["f_0"].shape or ()))) == shape
    assert_same(knl, made, n=5, m=3)


# What the copy does not serve

def test_a_reader_that_goes_on_reading_keeps_its_dependences() -> None:
    """The copy serves the expression; the condition reads the array still."""
    knl = lk.make_kernel("{[i,j]: 1<=i<8 and 0<=j<7}", """
        for i, j
            y[i,j] = b[i,j] {if=b[i-1,j+1] > 3}
            b[i,j] = x[i,j]
        end
        """, [lk.GlobalArg(a, np.float64, shape=(8, 8)) for a in "bxy"])
    fetched = lk.add_prefetch(knl, "b", [], default_tag=None)
    assert_same(knl, fetched)
    for kernel in (knl, fetched):
        with pytest.raises(lk.UndecidedError):
            lk.interchange(kernel, "i", "j")


@pytest.mark.deep
def test_a_read_in_a_condition_still_ends_the_launch() -> None:
    knl = lk.make_kernel("{[i]: 1<=i<8}", """
        for i
            t[i] = x[i]
        end
        for i
            y[i] = t[i] {if=t[i] + t[8-i] > 3}
        end
        """, [*(lk.GlobalArg(a, np.float64, shape=(8,)) for a in "txy"), "..."])
    fetched = lk.tag_inames(lk.add_prefetch(knl, "t", [], default_tag=None), "i:g.0")
    assert len(lk.generate_code(fetched).kernels) == 2
    assert_same(knl, fetched)


@pytest.mark.deep
def test_a_copy_has_what_the_branches_read() -> None:
    """At the ends of the array a branch does not read, and neither may the copy."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = if(i>0, x[i-1], 0) + if(i<n-1, x[i+1], 0)",
                         [lk.GlobalArg("x", np.float64), lk.GlobalArg("y", np.float64), "..."])
    mapped = lk.add_prefetch(lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0"), "x", ["i_inner"])
    for n in (1, 2, 4, 5, 9, 12):
        assert_same(knl, mapped, n=n)


@pytest.mark.deep
@pytest.mark.parametrize("text", [
    "f(p) := 2*x[p]\ny[i] = if(i < n-1, f(i+1), 0)",
    "f(p) := 2*x[p]\ny[i] = if(0 < i and i < n-1, f(i+1) - f(i-1), 0)",
    "f(p) := 2*x[p]\ny[i] = if(i == 0 or f(i-1) > 2, 1, 2)",
    "f(p) := x[p]*x[p+1]\ny[i] = if(i < n-1, f(i), x[i])",
    "f(p) := 2*x[p+1]\ng(q) := if(q < n-1, f(q), 0)\ny[i] = 3*g(i)"])
def test_values_are_computed_where_the_branches_use_them(text: str) -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", text, [lk.GlobalArg("x", F32, shape=("n",)), lk.GlobalArg("y", F32), "..."])
    before = lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    mapped = lk.precompute(before, "f", "i_inner")
    assert lk.verify(mapped).proven
    for n in (1, 2, 4, 5, 9, 12):
        assert_same(knl, mapped, n=n)


def test_values_without_a_dtype_of_their_own_are_not_stored() -> None:
    """In y's int64 the product is right; a cell of int32 would overflow."""
    text = "f(s) := {}\ny[i] = f(i+7)*100000"
    data = [lk.GlobalArg("y", np.int64), "..."]
    with pytest.raises(lk.PreconditionError, match="determines the dtype of the rule 'f'"):
        lk.precompute(lk.make_kernel("{[i]: 0<=i<8}", text.format("s*100000"), data), "f", "i")
    knl = lk.make_kernel("{[i]: 0<=i<8}", text.format("cast(int64, s)*100000"), data)
    assert_same(knl, lk.precompute(knl, "f", "i"))
    weak = lk.make_kernel("{[i]: 0<=i<8}", text.format("s*100000"), data)
    assert_same(knl, lk.precompute(weak, "f", "i", dtype="int64"))
    with pytest.raises(lk.PreconditionError, match="The rule 'f' cannot have the dtype 'integer'"):
        lk.precompute(weak, "f", "i", dtype="integer")


@pytest.mark.deep
def test_a_whole_box_of_values_has_the_corners_too() -> None:
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", """
        f(p,q) := if(1<=p and p<n-1, x[p-1,q] + x[p+1,q], x[p,q])
        y[i,j] = if(0<i and i<n-1 and 0<j and j<m-1, f(i-1,j) + f(i+1,j) + f(i,j-1) + f(i,j+1), 0)""")
    knl = lk.add_dtypes(knl, {"x": F32})
    tiled = lk.split_iname(lk.split_iname(knl, "i", 4, outer_tag="g.1"), "j", 8, outer_tag="g.0")
    whole = step(tiled, lk.precompute, "f", ["i_inner", "j_inner"], fetch_bounding_box=True)
    assert " or " in lk.precompute(tiled, "f", ["i_inner", "j_inner"]).domains_text
    assert " or " not in whole.domains_text
    assert_domain(whole, "[m, n] -> { [i_outer, j_outer, f_dim_0, f_dim_1] : n >= 3 and m >= 3 and 0 <= i_outer and "
                  "4i_outer <= n - 2 and 0 <= j_outer and 8j_outer <= m - 2 and 0 <= f_dim_0 < 6 and 0 <= f_dim_1 < 10 "
                  "and 1 <= 4i_outer + f_dim_0 <= n and 1 <= 8j_outer + f_dim_1 <= m }",
                  whole.domains_text.split("\n")[1])
    assert lk.verify(whole).proven
    for n, m in ((1, 1), (3, 3), (4, 9), (9, 18)):
        assert_same(knl, whole, n=n, m=m)


@pytest.mark.deep
def test_a_whole_box_of_lengths_that_threads_divide() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "y[i,j] = x[i,j] + x[i+2,j]"), {"x": F32})
    knl = lk.split_iname(lk.split_iname(knl, "i", 4, outer_tag="g.0"), "j", 8)
    whole = step(knl, lk.add_prefetch, "x", ["i_inner", "j_inner"], fetch_bounding_box=True, box_multiples=(4, 1))
    assert whole.temporaries["x_fetch"].shape == (8, 8)
    assert_domain(whole, "[m, n] -> { [i_outer, j_outer, x_dim_0, x_dim_1] : 0 <= 4i_outer < n and "
                  "0 <= 8j_outer < m and 0 <= x_dim_0 < 8 and 0 <= x_dim_1 < 8 and 4i_outer + x_dim_0 < n + 2 and "
                  "8j_outer + x_dim_1 < m }", knl.domains_text)
    assert lk.verify(whole).proven
    for n, m in ((1, 1), (3, 9), (5, 16)):
        assert_same(knl, whole, n=n, m=m)
    both = lk.add_prefetch(knl, "x", ["i_inner", "j_inner"], fetch_bounding_box=True, box_multiples=5)
    assert both.temporaries["x_fetch"].shape == (10, 10)
    for multiples, more, why in (((4,), {}, "2 axes of more than one element, but box_multiples= has 1"),
                                 ((4, 0), {}, "positive integer, not 0"), ("4", {}, "a list of integers, not '4'"),
                                 (4, {"fetch_bounding_box": False}, "needs fetch_bounding_box=True")):
        with pytest.raises(lk.PreconditionError, match=why):
            lk.add_prefetch(knl, "x", ["i_inner", "j_inner"], **{"fetch_bounding_box": True, **more},
                            box_multiples=multiples)


@pytest.mark.parametrize(("text", "why"), [
    ("f(p) := x[p]*x[p+1]\ny[i] = f(i-1) + f(i+1) {id=s}\nx[i] = 1 {dep=s}", "which the kernel may not have written"),
    ("<> t[i] = x[i]\nf(p) := t[p]\ny[i] = f(i-1) + f(i+1)", "which the kernel may not have written"),
    ("f(p) := x[idx[p]]\ny[i] = f(i-1) + f(i+1)", "needs the extents of 'x'")])
def test_a_whole_box_takes_nothing_that_may_not_be_there(text: str, why: str) -> None:
    knl = lk.make_kernel("{[i]: 2<=i<n}", text, [lk.GlobalArg("x", F32), lk.GlobalArg("idx", np.int32), "..."])
    knl = lk.split_iname(knl, "i", 4, within="iname:i")
    with pytest.raises(lk.PreconditionError, match=why):
        lk.precompute(knl, "f", "i_inner", fetch_bounding_box=True, default_tag=None)


def test_a_free_iname_must_be_around_the_copy() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<16 and 0<=j<m}", "f(s) := x[s]*j\ny[i, j] = f(i)")
    with pytest.raises(lk.PreconditionError, match="uses the iname 'j', which is not around the copy"):
        lk.precompute(lk.add_dtypes(knl, {"x": F32}), "f", "i", precompute_outer_inames="")


def test_what_a_subscript_compares_has_a_dtype() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<16}", "f(s) := if(u[s] < 1, q[s], 0)\ny[i] = x[f(i)]",
                         [lk.GlobalArg("q", np.int32), "..."])
    with pytest.raises(lk.PreconditionError, match="'f' compares operands of unknown dtypes in a subscript"):
        lk.precompute(knl, "f", "i")


def test_a_copy_of_elements_read_by_index_from_a_written_array() -> None:
    knl = lk.make_kernel(["{[j]: 0<=j<n}", "{[i]: 0<=i<16}"], "f(s) := a[q[s]]\na[j] = x[j]\ny[i] = f(i)",
                         [lk.GlobalArg("q", np.int32), "..."])
    staged = lk.precompute(knl, "f", "i")
    assert [s.id for s in staged.statements] == ["insn", "f_0_rule", "insn_0"]


def test_uses_that_a_fixed_iname_moves_apart_are_in_one_box() -> None:
    knl = lk.make_kernel("{[c, i, j]: 0<=c<n and 1<=i<6 and 0<=j<5}", "f(s) := x[c, s]*2\ny[c, i, j] = f(i)*f(j + 2)",
                         [lk.GlobalArg("x", F32), "..."])
    staged = step(knl, lk.precompute, "f", "j", default_tag=None)
    assert staged.temporaries["f_0"].shape == (6,)          # 1 to 6, for all values of i
    assert_same(knl, staged, n=3)
    with pytest.raises(lk.PreconditionError, match="along axis 0 of 'f' have no box of constant size"):
        lk.precompute(lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<5}", "f(s) := x[s]*2\ny[i, j] = f(i)*f(j)",
                                     [lk.GlobalArg("x", F32), "..."]), "f", "j")
