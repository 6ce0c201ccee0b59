"""Bounds checks of host C: an access outside of its array is an error with its instance, and is not made."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loopkit as lk
from loopkit.errors import AccessWitness, BoundsError, ParseError, PreconditionError
from tests.cases import CASES
from tests.deep import amount, shared
from tests.golden_files import GoldenFiles
from tests.targets import WarpsOf

F32, I32, I64 = np.float32, np.int32, np.int64
CHECKED = lk.CTarget(check_bounds=True)


def made(domains: str | list[str], statements: str, **dtypes: Any) -> lk.LoopKernel:
    return lk.add_dtypes(lk.make_kernel(domains, statements), dtypes)


@shared
def gather() -> lk.LoopKernel:
    return made("{[i]: 0<=i<n}", "y[i] = x[at[i]] {id=S}", x=F32, at=I32)


@shared
def gather_mapped() -> lk.LoopKernel:
    return lk.split_iname(gather(), "i", 4, outer_tag="g.0", inner_tag="l.0")


@shared
def scatter() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "z[2*at[i] + 1, j] = x[i,j] {id=S}",
                         [lk.GlobalArg("z", F32, "k,m"), lk.GlobalArg("x", F32), lk.GlobalArg("at", I64), "..."])
    return lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0", assume="no row is written twice")


@shared
def csr() -> lk.LoopKernel:
    knl = made("{[i,j]: 0<=i<n and first<=j<last}", """
        <int32> first = rowptr[i]
        <int32> last = rowptr[i+1]
        y[i] = sum(j, val[j]*x[col[j]]) {id=S}
        """, rowptr=I32, col=I32, val=F32, x=F32)
    return lk.split_iname(knl, "i", 2, outer_tag="g.0", inner_tag="l.0")


def witness_of(call: Callable[[], object]) -> AccessWitness:
    with pytest.raises(BoundsError) as err:
        call()
    assert err.value.check == "bounds"
    assert isinstance(err.value.witness, AccessWitness)
    return err.value.witness


def failed(knl: lk.LoopKernel, **arguments: Any) -> tuple[str, dict[str, int], str, tuple[int, ...]]:
    """The statement, the inames, the array and the subscripts of the error of a call."""
    found = witness_of(lambda: lk.compile(knl, target="c", check_bounds=True)(**arguments))
    statement, inames = found.instance
    return statement, dict(inames), found.array, found.element


def array(*numbers: float, dtype: Any = I32) -> np.ndarray:
    return np.array(numbers, dtype)


X = np.arange(5, dtype=F32)


# The text

@pytest.mark.parametrize("make", [gather, scatter, csr], ids=["gather", "scatter", "csr"])
def test_text(make: Callable[[], lk.LoopKernel], golden: GoldenFiles) -> None:
    golden.check(f"bounds/{make.__name__}.c", lk.generate_code(make(), target=CHECKED))


@pytest.mark.deep(every=6)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_proven_access_has_no_check(case: Any) -> None:
    checked = lk.generate_code(case.make(), target=CHECKED)
    data = {"csr_matvec": {"val[j", "col[j", "x[col"}, "histogram": {"h_buf"}}.get(case.name, set())
    assert {next((d for d in data if x.text.startswith(d)), x.text) for k in checked.kernels for x in k.checks} == data
    if not data:
        assert checked.source.count("inside_") == 0


def test_the_extent_of_an_axis_is_unknown_to_all_its_subscripts() -> None:
    """A call does not compare the length of x with n, as x[at[i]] may need any length."""
    knl = made("{[i]: 0<=i<n}", "y[i] = x[at[i]] + x[i] {id=S}", x=F32, at=I32)
    assert failed(knl, x=X, at=array(0, 0, 0, 0, 0, 0)) == ("S", {"i": 5}, "x", (5,))


def test_only_axes_that_are_not_proven_are_compared() -> None:
    text = str(lk.generate_code(scatter(), target=CHECKED))
    assert set(re.findall(r"!inside_\(.*, (\w+)\)\) {", text)) == {"z_extent_0"}


# The error

def test_error_names_statement_instance_and_element() -> None:
    with pytest.raises(BoundsError) as err:
        lk.compile(gather(), target="c", check_bounds=True)(x=X, at=array(0, 4, 5))
    assert str(err.value) == (
        "'S' reads 'x' outside its shape (5,).\n"
        "  with n = 3: S[i=2] reads x[5]\n"
        "  hint: correct the data behind x[at[i]], make 'x' larger, or guard the statement with if=")


def test_negative_subscript() -> None:
    assert failed(gather(), x=X, at=array(0, -1)) == ("S", {"i": 1}, "x", (-1,))


def test_element_of_an_array_without_elements() -> None:
    assert failed(gather(), x=X[:0], at=array(0)) == ("S", {"i": 0}, "x", (0,))


def test_a_view_ends_where_it_ends() -> None:
    assert failed(gather(), x=np.arange(20, dtype=F32)[::4], at=array(4, 5)) == ("S", {"i": 1}, "x", (5,))


@pytest.mark.parametrize("value", [5, 2**63 - 1, 2**63, 2**64 - 1])
def test_unsigned_subscripts_are_named_as_they_are(value: int) -> None:
    knl = made("{[i]: 0<=i<n}", "y[i] = x[i, at[i]] {id=S}", x=F32, at=np.uint64)
    x, at = np.ones((2, 5), F32), array(4, value, dtype=np.uint64)
    assert failed(knl, x=x, at=at) == ("S", {"i": 1}, "x", (1, value))
    through = made("{[i]: 0<=i<n}", "<> t = at[i]\ny[i] = x[i, t] {id=S}", x=F32, at=np.uint64)
    assert failed(through, x=x, at=at) == ("S", {"i": 1}, "x", (1, value))


def test_subscripts_have_64_bits() -> None:
    wide = made("{[i]: 0<=i<n}", "y[i] = x[at[i]] {id=S}", x=F32, at=I64)
    assert failed(wide, x=X, at=array(2**32 + 1, dtype=I64)) == ("S", {"i": 0}, "x", (2**32 + 1,))
    twice = made("{[i]: 0<=i<n}", "y[i] = x[at[i]*2**16] {id=S}", x=F32, at=I32)
    assert failed(twice, x=X, at=array(2**16)) == ("S", {"i": 0}, "x", (2**32,))


def test_subscript_that_is_computed_from_real_numbers() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "h[cast(int32, 10*x[i]) + 1] = 1 {id=S}",
                         [lk.GlobalArg("h", F32, "k"), lk.GlobalArg("x", F32), "..."])
    assert failed(knl, h=np.zeros(5, F32), x=array(0.05, 0.15, 0.45, dtype=F32)) == ("S", {"i": 2}, "h", (5,))


def test_extent_of_a_repeated_element() -> None:
    many = np.broadcast_to(np.ones(1, F32), (2**32 + 2,))
    knl = made("{[i]: 0<=i<n}", "y[i] = x[at[i]] {id=S}", x=F32, at=I64)
    y, = lk.compile(knl, target="c", check_bounds=True)(x=many, at=array(2**32 + 1, dtype=I64))
    assert y[0] == 1
    assert failed(knl, x=many, at=array(2**32 + 2, dtype=I64)) == ("S", {"i": 0}, "x", (2**32 + 2,))


def test_scatter_is_not_made() -> None:
    z = np.zeros((4, 3), F32)
    assert failed(scatter(), z=z, x=np.ones((3, 3), F32), at=array(1, 2, 0, dtype=I64)) == (
        "S", {"i_outer": 0, "i_inner": 1, "j": 0}, "z", (5, 0))
    np.testing.assert_array_equal(z, [[0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 1, 1]])


def test_update() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "h[b[i]] = h[b[i]] + 1 {id=S}",
                         [lk.GlobalArg("h", I32, "k"), lk.GlobalArg("b", I32), "..."])
    knl = lk.split_iname(lk.make_atomic(knl, "S"), "i", 4, outer_tag="g.0", inner_tag="l.0")
    assert failed(knl, h=np.zeros(3, I32), b=array(0, 1, 2, 2, 1, 3)) == (
        "S", {"i_outer": 1, "i_inner": 1}, "h", (3,))
    right, = lk.compile(knl, target="c", check_bounds=True)(h=np.zeros(3, I32), b=array(0, 1, 2, 2, 1, 1))
    np.testing.assert_array_equal(right, [1, 3, 2])


CSR = {"col": array(0, 1, 2), "val": np.ones(3, F32), "x": X}


@pytest.mark.parametrize(("wrong", "element"), [
    ({"rowptr": array(0, 2, 4)}, ({"i_outer": 0, "i_inner": 1, "j": 3}, "val", (3,))),
    ({"rowptr": array(0, -2, 3)}, ({"i_outer": 0, "i_inner": 1, "j": -2}, "val", (-2,))),
    # the loop of 2^31 iterations ends at its first access outside
    ({"rowptr": array(0, 2, 2**31 - 1)}, ({"i_outer": 0, "i_inner": 1, "j": 3}, "val", (3,))),
    ({"rowptr": array(0, 2, 3), "col": array(0, 5, 2)}, ({"i_outer": 0, "i_inner": 0, "j": 1}, "x", (5,)))])
def test_bounds_from_memory(wrong: dict[str, Any], element: tuple[Any, ...]) -> None:
    statement, *found = failed(csr(), **CSR | wrong)
    assert statement.startswith("S.")
    assert tuple(found) == element


def test_an_access_is_checked_only_if_it_is_made() -> None:
    knl = made("{[i]: 0<=i<n}", "y[i] = if(at[i] >= 0 and w[at[i]] > 0, x[at[i]], 7) {id=S}", x=F32, w=F32, at=I32)
    checked = lk.compile(knl, target="c", check_bounds=True)
    arguments = {"x": X[:2], "w": array(1, 1, 0, dtype=F32)}
    y, = checked(**arguments, at=array(1, 0, -1, 2))
    np.testing.assert_array_equal(y, [1, 0, 7, 7])
    assert failed(knl, **arguments, at=array(3)) == ("S", {"i": 0}, "w", (3,))
    assert failed(knl, x=X[:1], w=arguments["w"], at=array(1)) == ("S", {"i": 0}, "x", (1,))


def test_conditions_are_checked() -> None:
    knl = made("{[i,j]: 0<=i<n and 0<=j<3}", "y[i,j] = 1 {id=S, if=x[at[i]] > 0}", x=F32, at=I32)
    statement, inames, *found = failed(knl, x=X, at=array(1, 6))
    assert (statement, inames["i"], *found) == ("S", 1, "x", (6,))
    y, = lk.compile(knl, target="c", check_bounds=True)(x=X, at=array(0, 1))
    np.testing.assert_array_equal(y, [[0, 0, 0], [1, 1, 1]])


def test_nested_subscripts_are_checked_from_inside() -> None:
    knl = made("{[i]: 0<=i<n}", "y[i] = x[at[by[i]]] {id=S}", x=F32, at=I32, by=I32)
    assert failed(knl, x=X, at=array(9), by=array(1)) == ("S", {"i": 0}, "at", (1,))
    assert failed(knl, x=X, at=array(9), by=array(0)) == ("S", {"i": 0}, "x", (9,))


@pytest.mark.parametrize("space", [lk.AddressSpace.SHARED, lk.AddressSpace.GLOBAL])
def test_temporary(space: lk.AddressSpace) -> None:
    knl = lk.make_kernel("{[b,i,j]: 0<=b<n and 0<=i,j<4}", "t[at[b,i]] = x[b,i] {id=S}\ny[b,j] = t[j] {id=R}", [
        lk.GlobalArg("x", F32), lk.GlobalArg("at", I32), lk.TemporaryVariable("t", F32, shape=(4,)), "..."])
    knl = lk.set_temporary_address_space(knl, "t", space) if space is lk.AddressSpace.GLOBAL else knl
    knl = lk.add_dtypes(knl, {"y": F32})
    statement, inames, *found = failed(knl, x=np.ones((2, 4), F32), at=array(0, 1, 2, 3, 0, 1, 2, 4).reshape(2, 4))
    assert (statement, inames, *found) == ("S", {"b": 1, "i": 3}, "t", (4,))


def test_loop_of_the_host() -> None:
    knl = made("{[t,i]: 0<=t<m and 0<=i<n}", "a[i] = a[(i+1) % n] + x[at[t]] {id=S}", a=F32, x=F32, at=I32)
    knl = lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0", unsafe=True)
    statement, inames, *found = failed(knl, n=6, a=np.zeros(6, F32), x=X, at=array(0, 1, 7))
    assert (statement, inames, *found) == ("S", {"t": 2, "i_outer": 0, "i_inner": 0}, "x", (7,))


def test_the_first_block_is_reported_always() -> None:
    """Enough blocks that OpenMP's threads share them."""
    n = 100_000
    at = np.full(n, 5, I32)
    at[:1234] = 0
    knl = lk.split_iname(gather(), "i", 64, outer_tag="g.0", inner_tag="l.0")
    checked = lk.compile(knl, target="c", check_bounds=True)
    for _ in range(5):
        assert witness_of(lambda: checked(x=X, at=at)).instance == ("S", {"i_outer": 19, "i_inner": 18})


def test_bound_and_timed_calls_raise_too() -> None:
    checked = lk.compile(gather(), target="c", check_bounds=True)
    at = array(0, 1)
    bound = checked.bind(x=X, at=at)
    np.testing.assert_array_equal(bound().y, [0, 1])
    at[1] = 5
    assert witness_of(bound).element == (5,)
    assert witness_of(lambda: checked.time(x=X, at=at, duration=0)).element == (5,)
    at[1] = 4
    np.testing.assert_array_equal(bound().y, [0, 4])


def test_a_kernel_that_was_refuted_is_checked_without_verification() -> None:
    knl = made("{[i]: 0<=i<n}", "y[i] = x[i-1] {id=S}", x=F32)
    with pytest.raises(BoundsError):
        lk.compile(knl, target="c", check_bounds=True)(x=X)
    checked = lk.compile(knl, target="c", check_bounds=True, verify=False)
    assert witness_of(lambda: checked(x=X)).element == (-1,)


# Targets

def test_equivalence_checks_bounds_by_the_target() -> None:
    with pytest.raises(BoundsError):
        lk.check_equivalent(gather(), gather_mapped(), {"n": 2, "x": X, "at": array(0, 7)}, target=CHECKED)


def test_a_target_without_checks_names_one_with_them() -> None:
    with pytest.raises(PreconditionError, match="The target 'cuda' has no bounds checks") as err:
        lk.compile(gather(), target="cuda", check_bounds=True)
    assert "target='c'" in (err.value.hint or "")
    assert "compute-sanitizer" in (err.value.hint or "")
    with pytest.raises(PreconditionError, match="has no text"):
        lk.compile(gather(), target=WarpsOf(4), check_bounds=True)
    with pytest.raises(PreconditionError, match="no bounds checks"):
        lk.compile(gather(), device=0, check_bounds=True)


def test_the_host_is_the_target_with_checks() -> None:
    assert lk.compile(gather(), check_bounds=True).target == "c"


def test_options_of_the_target_stay() -> None:
    target = lk.CTarget(options=("-O1",))
    assert lk.compile(gather(), target=target, check_bounds=True)(x=X, at=array(3)).y[0] == 3


@pytest.mark.parametrize("wrong", [1, "yes", None])
def test_bad_option(wrong: Any) -> None:
    with pytest.raises(PreconditionError, match="check_bounds"):
        lk.compile(gather(), target="c", check_bounds=wrong)
    with pytest.raises(PreconditionError, match="check_bounds"):
        lk.CTarget(check_bounds=wrong)


@pytest.mark.parametrize("name", ["inside_", "report_", "violation_", "tile_full_parities_"])
def test_names_of_the_text_are_reserved(name: str) -> None:
    with pytest.raises(ParseError, match="is used in generated code"):
        lk.make_kernel("{[i]: 0<=i<n}", f"y[i] = {name}[i]")


def test_names_of_extents_are_new() -> None:
    knl = made("{[i]: 0<=i<n}", "y[i] = x[at[i]] + x_extent_0[i] {id=S}", x=F32, at=I32, x_extent_0=F32)
    assert failed(knl, x=X, at=array(5), x_extent_0=np.zeros(1, F32)) == ("S", {"i": 0}, "x", (5,))


# Random gathers

#: A statement that reads two arrays and scatters, and one that reads with an offset.
BOTH = """
    z[p[i]] = x[at[i]] + w[by[i], at[i]] {id=S}
    y[i] = x[by[i] + 1] {id=R}
    """


@shared
def random_kernel(mapped: bool) -> tuple[lk.CompiledKernel, lk.CompiledKernel]:
    """The kernel with and without checks."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", BOTH, [
        lk.GlobalArg("z", F32, "k"), lk.GlobalArg("x", F32, "a"), lk.GlobalArg("w", F32, "b,a"),
        lk.GlobalArg("at,by,p", I32), lk.GlobalArg("y", F32), "..."])
    if mapped:
        knl = lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0", assume="p has no number twice")
    return lk.compile(knl, target="c", check_bounds=True), lk.compile(knl, target="c")


@pytest.mark.parametrize("mapped", [False, True], ids=["loop", "blocks"])
@settings(max_examples=amount(200))
@given(st.data())
def test_random_gathers(mapped: bool, data: st.DataObject) -> None:
    checked, plain = random_kernel(mapped)
    n, a, b = data.draw(st.integers(1, 20)), data.draw(st.integers(2, 6)), data.draw(st.integers(1, 5))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    # by + 1 is a subscript of x, and by is one of w
    extents = {"at": a, "by": min(b, a - 1), "p": n}
    values = {"at": rng.integers(0, a, n), "by": rng.integers(0, extents["by"], n), "p": rng.permutation(n)}
    for _ in range(data.draw(st.integers(0, 3))):
        name = data.draw(st.sampled_from(sorted(values)))
        far = data.draw(st.sampled_from([-1, -5, -2**31, extents[name], a, a + 3, 2**31 - 2]))
        values[name][data.draw(st.integers(0, n - 1))] = far
    arguments = {name: v.astype(I32) for name, v in values.items()} | {
        "x": rng.random(a, F32), "w": rng.random((b, a), F32), "k": n}

    def accesses(i: int) -> list[tuple[str, str, str, tuple[int, ...], tuple[int, ...]]]:
        at, by, p = (int(values[name][i]) for name in ("at", "by", "p"))
        return [("S", "reads", "x", (at,), (a,)), ("S", "reads", "w", (by, at), (b, a)),
                ("S", "writes", "z", (p,), (n,)), ("R", "reads", "x", (by + 1,), (a,))]
    wrong = next(((i, x) for i in range(n) for x in accesses(i)
                  if not all(0 <= e < extent for e, extent in zip(x[3], x[4], strict=True))), None)
    if wrong is None:
        for got, expected in zip(checked(**arguments, z=np.zeros(n, F32)), plain(**arguments, z=np.zeros(n, F32)),
                                 strict=True):
            np.testing.assert_array_equal(got, expected)
        return
    i, (statement, how, name, element, _) = wrong
    found = witness_of(lambda: checked(**arguments, z=np.zeros(n, F32)))
    inames = {"i_outer": i//4, "i_inner": i % 4} if mapped else {"i": i}
    assert (found.instance, found.how, found.array, found.element) == ((statement, inames), how, name, element)
    assert found.parameters["n"] == n
