"""add_dtypes, rename_argument, set_temporary_address_space, privatize, fix_parameters, assume, set_options."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from tests.language.outline import outline, text
from tests.nvrtc import compile_cuda
from tests.transform.kernels import F32, matmul, scaled_matrix, twice
from tests.transform.same import assert_domain, assert_same, step


def open_kernel() -> lk.LoopKernel:
    return lk.make_kernel("{[i]: 0<=i<n}", "<> t = x[i] + w[i]\ny[i] = 2*t")


def with_temporary() -> lk.LoopKernel:
    return lk.add_dtypes(lk.make_kernel("{[i]: 3<=i<9}", "<> t = 2*x[i]\ny[i] = t + 1"), {"x": F32})


# Add_dtypes

def test_add_dtypes_of_no_mapping() -> None:
    with pytest.raises(lk.PreconditionError, match="dtype_dict= must be a mapping of texts to dtypes, not 'x'"):
        lk.add_dtypes(open_kernel(), "x")                                      # type: ignore[arg-type]


def test_add_dtypes() -> None:
    knl = step(open_kernel(), lk.add_dtypes, {"x": np.float32, "w": "float64", "t": np.dtype(np.float32)})
    assert knl.argument_by_name["x"].dtype == np.float32
    assert knl.argument_by_name["w"].dtype == np.float64
    assert knl.temporaries["t"].dtype == np.float32
    assert knl.argument_by_name["y"].dtype is None


def test_several_names_share_a_key() -> None:
    knl = lk.add_dtypes(open_kernel(), {"x, w": np.float32})
    assert knl.argument_by_name["w"].dtype == np.float32


def test_the_same_dtype_again_is_no_trouble() -> None:
    knl = lk.add_dtypes(open_kernel(), {"x": np.float32})
    assert lk.add_dtypes(knl, {"x": "float32"}) == knl


@pytest.mark.deep
@pytest.mark.parametrize("dtype", [
    np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.bool_,
    np.complex64, np.complex128])
def test_every_dtype_computes(dtype: type) -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]"), {"x": dtype})
    assert_same(knl, lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0"), n=11)


# Rename_argument

def test_rename_of_an_array() -> None:
    knl = step(matmul(), lk.rename_argument, "a", "left")
    assert [a.name for a in knl.arguments] == [{"a": "left"}.get(a.name, a.name) for a in matmul().arguments]
    assert "left[i, k]" in str(knl)
    assert_same(matmul(), knl, called={"a": "left"}, n=2, m=3, l=4)


def test_rename_of_an_output() -> None:
    assert_same(matmul(), lk.rename_argument(matmul(), "c", "result"), called={"c": "result"}, n=2, m=3, l=4)


def test_rename_of_a_size() -> None:
    knl = step(twice(), lk.rename_argument, "n", "length")
    assert_domain(knl, "[length] -> { [i] : 0 <= i < length }")
    assert knl.value_params == {"length"}
    assert_same(twice(), knl, called={"n": "length"}, n=5)


def test_rename_of_a_size_after_steps() -> None:
    knl = lk.split_iname(twice(), "i", 4, outer_tag="g.0", inner_tag="l.0")
    assert_same(twice(), lk.rename_argument(knl, "n", "length"), called={"n": "length"}, n=7)


def test_rename_reaches_into_rules_and_shapes() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "f(s) := x[s]\ny[i] = f(i) + f(n-1)",
                         [lk.GlobalArg("x", F32, shape="n"), "..."])
    assert_same(knl, lk.rename_argument(knl, "n", "length"), called={"n": "length"}, n=5)
    assert_same(knl, lk.rename_argument(knl, "x", "source"), called={"x": "source"}, n=5)


# Set_temporary_address_space

@pytest.mark.deep(every=4)
@pytest.mark.parametrize("space", ["private", "shared", "global", lk.AddressSpace.SHARED])
def test_address_space(space: str | lk.AddressSpace) -> None:
    knl = step(with_temporary(), lk.set_temporary_address_space, "t", space)
    assert knl.temporaries["t"].address_space == lk.AddressSpace(space)
    assert_same(with_temporary(), knl)


def test_local_is_another_name_for_shared() -> None:
    knl = lk.set_temporary_address_space(with_temporary(), "t", "local")
    assert knl.temporaries["t"].address_space is lk.AddressSpace.SHARED is lk.AddressSpace.LOCAL


@pytest.mark.deep(every=3)
@pytest.mark.parametrize("space", ["private", "local", "global"])
def test_an_address_space_holds_for_mapped_kernels_too(space: str) -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[b,i]: 0<=b<n and 0<=i<16}", """
        for b
            <> s = 2*c[b]
            y[b,i] = s + x[b,i]
        end
        """), {"c,x": F32})
    knl = lk.set_temporary_address_space(lk.tag_inames(plain, "b:g.0, i:l.0"), "s", space)
    assert_same(plain, knl, n=5)


# Privatize

def test_privatize_gives_each_iteration_a_cell() -> None:
    knl = step(with_temporary(), lk.privatize, "i")
    assert outline(knl) == text("""
        for i
          insn: t[i + -3] = 2*x[i]
          insn_0: y[i] = t[i + -3] + 1
        """)
    assert knl.temporaries["t"].shape == (6,)
    assert_same(with_temporary(), knl)


def test_privatize_over_two_inames() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i,j]: 0<=i<4 and 0<=j<5}", "<> t = x[i]*j\ny[i,j] = t"), {"x": F32})
    knl = step(plain, lk.privatize, "i, j")
    assert knl.temporaries["t"].shape == (4, 5)
    assert_same(plain, knl)


def test_privatize_only_what_is_named() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<4}", "for i\n<> t = x[i]\n<> u = 2*t\ny[i] = t + u\nend"),
                          {"x": F32})
    knl = step(plain, lk.privatize, "i", "u")
    assert knl.temporaries["t"].shape == ()
    assert knl.temporaries["u"].shape == (4,)
    assert_same(plain, knl)


def test_privatize_of_an_array() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i,j]: 0<=i<3 and 0<=j<4}", """
        for i
            for j
                <> t[j] = x[i,j] {id=set}
            end
            for j
                y[i,j] = t[3-j] {id=use}
            end
        end
        """), {"x": F32})
    knl = step(plain, lk.privatize, "i", "t")
    assert "t[i, j]" in str(knl)
    assert_same(plain, knl)


# Fix_parameters, assume, set_options

def test_fix_parameters() -> None:
    knl = step(matmul(), lk.fix_parameters, n=4, l=3)
    assert [a.name for a in knl.arguments] == ["a", "b", "c", "m"]
    assert "[m] -> { [i, j] : 0 <= i <= 3 and 0 <= j < m }" in knl.domains_text
    assert_same(matmul(), knl, n=4, m=5, l=3)


def test_fix_parameters_after_steps() -> None:
    plain = scaled_matrix()
    knl = lk.fix_parameters(lk.tile(plain, {"i": 4, "j": 4}), n=6)
    assert_same(plain, knl, n=6, m=9)


def test_fixed_sizes_open_the_way_to_thread_axes() -> None:
    assert_same(twice(), lk.tag_inames(lk.fix_parameters(twice(), n=32), "i:l.0"), n=32)


@pytest.mark.deep
def test_assume() -> None:
    knl = step(twice(), lk.assume, "n >= 4 and n mod 4 = 0")
    assert "mod 4 = 0" in str(knl)
    knl = lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    assert "if" not in str(lk.generate_code(knl, target="cuda"))      # every tile is whole
    assert_same(twice(), knl, n=12)
    with pytest.raises(lk.CallError) as caught:
        knl(x=np.zeros(10, F32))
    assert caught.value.argument == "n"


def test_assumptions_add_up() -> None:
    knl = lk.assume(lk.assume(twice(), "n >= 4"), "n <= 8")
    for n, good in ((3, False), (4, True), (8, True), (9, False)):
        if good:
            knl(x=np.zeros(n, F32))
        else:
            with pytest.raises(lk.CallError):
                knl(x=np.zeros(n, F32))


def test_set_options() -> None:
    knl = step(twice(), lk.set_options, full_tiles=False, annotate=False)
    assert (knl.options.full_tiles, knl.options.annotate) == (False, False)
    assert lk.set_options(knl, annotate=True).options == lk.Options(full_tiles=False)


@pytest.mark.parametrize(("call", "error", "fields"), [
    (lambda: lk.add_dtypes(open_kernel(), {"q": F32}), lk.UnknownNameError, {"name": "q"}),
    (lambda: lk.add_dtypes(open_kernel(), {"i": F32}), lk.UnknownNameError, {"name": "i"}),
    (lambda: lk.add_dtypes(twice(), {"x": np.float64}), lk.PreconditionError, {"subject": "x"}),
    (lambda: lk.add_dtypes(open_kernel(), {"x": "floaty"}), lk.PreconditionError, {"subject": "x"}),
    (lambda: lk.add_dtypes(open_kernel(), {"x": object}), lk.PreconditionError, {"subject": "x"}),
    (lambda: lk.add_dtypes(open_kernel(), {"x": np.longdouble}), lk.PreconditionError, {"subject": "x"}),
    (lambda: lk.rename_argument(twice(), "q", "r"), lk.UnknownNameError, {"kind": "argument", "name": "q"}),
    (lambda: lk.rename_argument(twice(), "x", "y"), lk.NameConflictError, {"subject": "y"}),
    (lambda: lk.rename_argument(twice(), "x", "i"), lk.NameConflictError, {"subject": "i"}),
    (lambda: lk.rename_argument(twice(), "x", "two words"), lk.NameConflictError, {"subject": "two words"}),
    (lambda: lk.set_temporary_address_space(with_temporary(), "x", "local"), lk.UnknownNameError,
     {"kind": "temporary", "name": "x"}),
    (lambda: lk.set_temporary_address_space(with_temporary(), "t", "constant"), lk.PreconditionError,
     {"subject": "constant"}),
    (lambda: lk.privatize(with_temporary(), "q"), lk.UnknownNameError, {"kind": "iname", "name": "q"}),
    (lambda: lk.privatize(with_temporary(), "i", "x"), lk.UnknownNameError, {"kind": "temporary", "name": "x"}),
    (lambda: lk.privatize(lk.make_kernel("{[i,j]: 0<=i,j<4}", "<> t = 2*x[i] \ny[i,j] = t"), "j", "t"),
     lk.PreconditionError, {"subject": "t"}),
    (lambda: lk.fix_parameters(twice(), m=4), lk.UnknownNameError, {"kind": "value argument", "name": "m"}),
    (lambda: lk.fix_parameters(twice(), x=4), lk.UnknownNameError, {"kind": "value argument", "name": "x"}),
    (lambda: lk.fix_parameters(twice(), n=4.5), lk.PreconditionError, {"subject": "n"}),       # type: ignore[arg-type]
    (lambda: lk.fix_parameters(lk.assume(twice(), "n >= 8"), n=4), lk.PreconditionError, {"subject": "n"}),
    (lambda: lk.assume(twice(), "n >="), lk.ParseError, {"line": 1, "column": 5}),
    (lambda: lk.assume(twice(), "q >= 1"), lk.UnknownNameError, {"kind": "parameter", "name": "q"}),
    (lambda: lk.assume(twice(), 3), lk.PreconditionError, {"subject": "assumptions"}),
    (lambda: lk.assume(lk.assume(twice(), "n >= 8"), "n <= 4"), lk.PreconditionError, {"subject": "n <= 4"}),
    (lambda: lk.set_options(twice(), fulltiles=False), lk.UnknownNameError,
     {"kind": "option", "name": "fulltiles", "close": ("full_tiles",)}),
    (lambda: lk.set_options(twice(), full_tiles=1), lk.PreconditionError, {"subject": "full_tiles"}),
])
def test_refused(call: object, error: type[lk.LoopkitError], fields: dict[str, object]) -> None:
    with pytest.raises(lk.LoopkitError) as caught:
        call()                                                     # type: ignore[operator]
    assert type(caught.value) is error, caught.value
    assert {f: getattr(caught.value, f) for f in fields} == fields


def test_privatize_refuses_what_it_cannot_index() -> None:
    rule = lk.make_kernel("{[i]: 0<=i<4}", "f(s) := t*s\n<> t = x[i]\n y[i] = f(2)")
    with pytest.raises(lk.PreconditionError, match="substitution rule"):
        lk.privatize(rule, "i")
    assert "t[i]*2" in lk.privatize(lk.expand_subst(rule), "i").statements_text
    bound = lk.make_kernel(["{[i]: 0<=i<4}", "[i,h] -> {[j]: 0<=j<h}"],
                           "for i\n <> h = e[i]\n for j\n  y[i,j] = 1\n end\nend",
                           [lk.GlobalArg("e", np.int32), lk.GlobalArg("y", np.float64, shape=(4, 9)), "..."])
    with pytest.raises(lk.PreconditionError, match="bounds a loop"):
        lk.privatize(bound, "i")


@pytest.mark.parametrize(("dtype", "value"), [(np.int64, 46341), (np.uint8, 1), (np.bool_, 1)])
def test_what_a_literal_does_not_compute_is_not_fixed(dtype: type, value: int) -> None:
    """A literal has no dtype: a*a would overflow as an int32 that was right as an int64."""
    knl = lk.make_kernel("{[i]: 0<=i<4}", "y[i] = (a*a)*x[i]", [
        lk.GlobalArg("x", np.float64), lk.GlobalArg("y", np.float64), lk.ValueArg("a", dtype)])
    with pytest.raises(lk.PreconditionError, match=r"literal|truth value"):
        lk.fix_parameters(knl, a=value)


@pytest.mark.deep(every=5)
@pytest.mark.parametrize(("dtype", "text", "streaming"), [
    (np.float32, "y[i] = 2*x[i]", True), (np.int8, "y[i] = x[i]", True), (np.float16, "y[i] = x[i]", False),
    (np.complex64, "y[i] = x[i]", False), (np.float32, "y[i] = y[i] + x[i]", True)])
def test_streaming_stores_are_instructions_of_cuda_alone(dtype: type, text: str, streaming: bool) -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", text), {"x,y": dtype})
    plain = lk.split_iname(plain, "i", 32, outer_tag="g.0", inner_tag="l.0")
    knl = step(plain, lk.set_cache_policy, "y", "streaming")
    source = lk.generate_code(knl, target="cuda").source
    assert ("__stcs(&y[" in source) == streaming
    compile_cuda(source)
    assert lk.generate_code(knl, target="c").source == lk.generate_code(plain, target="c").source


def test_vectors_are_stored_whole_by_them() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i, v]: 0<=i<n and 0<=v<4}", "y[4*i + v] = x[4*i + v]"), {"x,y": np.float32})
    knl = lk.tag_inames(lk.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0"), "v:vec")
    source = lk.generate_code(lk.set_cache_policy(knl, "y", "streaming"), target="cuda").source
    assert "__stcs(reinterpret_cast<float4 *>(&y[" in source
    compile_cuda(source)


def test_only_what_is_written_has_streaming_stores() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "<> t = x[i]\ny[i] = t")
    with pytest.raises(lk.PreconditionError, match="Nothing writes to 'x'"):
        lk.set_cache_policy(knl, "x", "streaming")
    with pytest.raises(lk.UnknownNameError, match="t"):
        lk.set_cache_policy(knl, "y,t", "streaming")


@pytest.mark.deep(every=6)
@pytest.mark.parametrize(("dtype", "hinted"), [
    (np.float32, True), (np.int64, True), (np.int8, True), (np.float16, False), (np.complex64, False),
    (np.bool_, False)])
def test_evict_last_loads_are_instructions_of_cuda_alone(dtype: type, hinted: bool) -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]\nz[i] = x[0]"), {"x,y,z": dtype})
    plain = lk.split_iname(plain, "i", 32, outer_tag="g.0", inner_tag="l.0")
    knl = step(plain, lk.set_cache_policy, "x", "evict_last")
    source = lk.generate_code(knl, target="cuda").source
    assert ("= load_evict_last(&x[" in source) == hinted
    assert source.count("struct LoadEvictLast {") == source.count("    const LoadEvictLast load_evict_last;") == hinted
    compile_cuda(source)
    assert lk.generate_code(knl, target="c").source == lk.generate_code(plain, target="c").source


@pytest.mark.deep(every=3)
@pytest.mark.parametrize(("dtype", "length", "moved"), [
    (np.float32, 4, "float4"), (np.float64, 2, "double2"), (np.float16, 4, "uint2")])
def test_vectors_are_loaded_whole_by_them(dtype: type, length: int, moved: str) -> None:
    knl = lk.make_kernel(f"{{[i, v]: 0<=i<n and 0<=v<{length}}}", f"y[{length}*i + v] = x[{length}*i + v]")
    knl = lk.add_dtypes(knl, {"x,y": dtype})
    knl = lk.tag_inames(lk.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0"), "v:vec")
    source = lk.generate_code(lk.set_cache_policy(knl, "x", "evict_last"), target="cuda").source
    assert f"load_evict_last(reinterpret_cast<const {moved} *>(&x[" in source
    compile_cuda(source)


def test_cache_policies_by_name() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]")
    with pytest.raises(lk.PreconditionError, match="'write_back' is not a cache policy") as err:
        lk.set_cache_policy(knl, "x", "write_back")
    assert "evict_last, streaming" in err.value.hint
    again = lk.set_cache_policy(lk.set_cache_policy(knl, "x", "evict_last"), "x", None)
    assert again.arguments == knl.arguments


def test_what_is_written_has_no_evict_last_loads() -> None:
    """Its loads may be moved, over a store too."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", "<> t = x[i]\ny[i] = t")
    with pytest.raises(lk.PreconditionError, match="The kernel writes to 'y': a load with this policy could"):
        lk.set_cache_policy(knl, "y", "evict_last")
    with pytest.raises(lk.UnknownNameError, match="t"):
        lk.set_cache_policy(knl, "x,t", "evict_last")
