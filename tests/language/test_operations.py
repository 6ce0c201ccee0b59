"""Reductions with operations of the user's own: what they compute, and in which order they may."""
from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import loopkit as lk

F32 = np.float32
HORNER = lk.ReductionOperation("horner", "2*a + b")
LARGEST = lk.ReductionOperation("largest", "max(abs(a), abs(b))", reorderable=True)


def over_rows(operation: lk.ReductionOperation) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<11}", f"y[i] = 1 + {operation.name}(k, x[i, k])",
                         reductions=[operation])
    return lk.add_dtypes(knl, {"x": F32})


def horner(x: np.ndarray) -> np.ndarray:
    result = np.zeros(x.shape[0], F32)
    for column in x.T:
        result = 2*result + column
    return 1 + result


def rows(n: int = 7) -> np.ndarray:
    return np.random.default_rng(3).uniform(-1, 1, (n, 11)).astype(F32)


@pytest.mark.deep
@pytest.mark.parametrize("transformed", [
    lambda knl: knl,
    lambda knl: lk.split_iname(knl, "k", 4),
    lambda knl: lk.unroll(knl, "k"),
    lambda knl: lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0"),
    lambda knl: lk.add_prefetch(lk.split_iname(lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0"), "k", 4),
                                "x", ["i_inner", "k_inner"])])
def test_in_order(transformed: object) -> None:
    assert callable(transformed)
    y, = lk.compile(transformed(over_rows(HORNER)), target="c")(x=rows())
    assert (y == horner(rows())).all()                   # the same operations in the same order


@pytest.mark.parametrize("step", [
    lambda knl: lk.tag_inames(knl, "k:l.0"),
    lambda knl: lk.split_iname(knl, "k", 4, inner_tag="l.0"),
    lambda knl: lk.prioritize_loops(lk.split_iname(knl, "k", 4), "k_inner, k_outer")])
def test_another_order_is_refused(step: object) -> None:
    assert callable(step)
    with pytest.raises(lk.IllegalTransformError) as caught:
        step(over_rows(HORNER))
    witness = caught.value.witness
    assert witness.array == "acc_k"
    assert witness.source[0] == witness.sink[0] == "insn.k.update"


def test_a_reorderable_one_goes_over_threads() -> None:
    mapped = lk.tag_inames(over_rows(LARGEST), "i:g.0, k:l.0")
    x = rows()
    y, = lk.compile(mapped, target="c")(x=x)
    assert (y == 1 + np.abs(x).max(axis=1)).all()
    owed, = mapped.obligations
    assert "largest" in owed.claim


def test_it_is_shown() -> None:
    text = str(over_rows(HORNER))
    assert "horner(a, b) := 2*a + b, from 0, in order" in text
    assert "y[i] = 1 + horner(k, x[i, k])" in text


@pytest.mark.parametrize(("operand", "combine", "expected"), [
    (F32, "a + b", F32), (F32, "a + cast(float64, b)", np.float64), (np.int32, "max(a, b)", np.int32),
    (np.int32, "a + b/2", np.float64), (np.complex64, "a*b", np.complex64)])
def test_dtypes(operand: type, combine: str, expected: type) -> None:
    knl = lk.make_kernel("{[k]: 0<=k<n}", "y = f(k, x[k])", reductions=[lk.ReductionOperation("f", combine, 1)])
    typed = lk.lower(lk.add_dtypes(knl, {"x": operand}), stop="types").kernel
    assert typed.temporaries["acc_k"].dtype == expected


def test_neutral() -> None:
    knl = lk.make_kernel("{[k]: 0<=k<n}", "y = f(k, x[k])", reductions=[lk.ReductionOperation("f", "a*b + 1", 5)])
    y, = lk.compile(lk.add_dtypes(knl, {"x": np.float64}), target="c")(x=np.array([2.0, 3.0]))
    assert y == (5*2 + 1)*3 + 1
    y, = lk.compile(lk.add_dtypes(knl, {"x": np.float64}), target="c")(x=np.zeros(0))
    assert y == 5


def summed(neutral: complex, dtype: object) -> lk.LoopKernel:
    knl = lk.make_kernel("{[k]: 0<=k<n}", "y = f(k, x[k])", reductions=[lk.ReductionOperation("f", "a + b", neutral)])
    return lk.add_dtypes(knl, {"x": dtype})


@pytest.mark.parametrize(("neutral", "dtype"), [
    (-1000, np.int8), (-1, np.uint8), (0.5, np.int32), (np.inf, np.int64), (np.nan, np.int32), (2**63, np.int64),
    (1j, F32), (np.complex64(1j), np.float64), (1j, np.int32), (1e30, np.float16), (1e39, F32), (10**400, np.float64),
    (2, np.bool_)])
def test_the_dtype_has_the_neutral_element(neutral: complex, dtype: type) -> None:
    with pytest.raises(lk.PreconditionError, match="cannot hold") as caught:
        lk.lower(summed(neutral, dtype))
    assert caught.value.hint is not None


@pytest.mark.deep(every=12)
@pytest.mark.parametrize(("neutral", "dtype"), [
    (-128, np.int8), (255, np.uint8), (3.0, np.int32), (2 + 0j, F32), (1j, np.complex64), (np.inf, F32),
    (-np.inf, np.float16), (0.1, F32), (2**62, np.float64), (np.float32(2), np.int64), (2**63 - 1, np.int64),
    (2**64 - 1, np.uint64)])
def test_it_starts_from_the_neutral_element(neutral: complex, dtype: type) -> None:
    y, = lk.compile(summed(neutral, dtype), target="c")(x=np.zeros(0, dtype))
    assert y == np.dtype(dtype).type(neutral if np.dtype(dtype).kind == "c" else neutral.real)


def test_two_kernels_of_two_operations_differ() -> None:
    assert over_rows(lk.ReductionOperation("f", "2*a + b")) != over_rows(lk.ReductionOperation("f", "3*a + b"))
    assert over_rows(HORNER) == over_rows(HORNER)


def ignoring_nan() -> lk.LoopKernel:
    return over_rows(lk.ReductionOperation("some", "fmax(a, b)", float("nan"), reorderable=True))


def test_a_nan_equals_itself() -> None:
    """Each call makes a NaN of its own, and no NaN equals another."""
    knl = ignoring_nan()
    assert knl == ignoring_nan()
    assert hash(knl.operations["some"]) == hash(ignoring_nan().operations["some"])
    split = lk.split_iname(knl, "k", 4)
    assert lk.replay(ignoring_nan(), split.history) == split
    assert not split.history.diff(lk.split_iname(ignoring_nan(), "k", 4).history)
    assert pickle.loads(pickle.dumps(split)) == split
    assert copy.deepcopy(split) == split
    scope: dict[str, object] = {}
    exec(split.history.script(), scope)
    assert scope["knl"] == split
    assert lk.lower(knl, stop="types").kernel == lk.lower(ignoring_nan(), stop="types").kernel
    x = rows()
    x[2, 3] = np.nan
    y, = lk.compile(lk.tag_inames(knl, "i:g.0, k:l.0"), target="c")(x=x)
    assert np.allclose(y, 1 + np.nanmax(x, axis=1))


@pytest.mark.parametrize(("one", "other"), [(0.0, -0.0), (np.nan, 0.0), (complex(0, np.nan), complex(np.nan, 0))])
def test_other_starts_are_other_operations(one: complex, other: complex) -> None:
    assert lk.ReductionOperation("f", "a + b", one) != lk.ReductionOperation("f", "a + b", other)
    assert lk.ReductionOperation("f", "a + b", one) == lk.ReductionOperation("f", "a + b", copy.copy(complex(one)))


@pytest.mark.parametrize(("one", "other"), [(2, 2.0), (2, np.float32(2)), (0, 0.0), (2, 2 + 0j)])
def test_equal_starts_are_equal_operations(one: complex, other: complex) -> None:
    first, second = (lk.ReductionOperation("f", "a + b", x) for x in (one, other))
    assert first == second
    assert hash(first) == hash(second)


@pytest.mark.parametrize(("arguments", "message"), [
    (("f", "a + c"), "'c' is neither"),
    (("f", "a[b]"), "subscripts one of them"),
    (("f", "a + b[0]"), "subscripts one of them"),
    (("f", "a", "0"), "neutral= must be a number"),
    ((3, "a"), "must be texts"),
    (("f", "a - b", 0, True), r"f\(-3, -2\) is -1, but f\(-2, -3\) is 1"),
    (("f", "a*b*b", 1, True), "not reorderable"),
    (("f", "2*a*b", 0, True), "part starts from 0"),
    (("f", "(a + b)//2", 0, True), "not reorderable"),
    (("f", "a + b", 1.0, True), "each part starts from 1.0"),
    (("f", "a + b", np.float32(1), True), "each part starts from 1.0"),
    (("f", "max(a, b)", -2.5, True), r"f\(-2.5, -3\) is -2.5"),
    (("f", "a % b", 0, True), "not reorderable"),
    (("f", "if(abs(b) > abs(a), b, a)", 0, True), r"f\(-3, 3\) is -3, but f\(3, -3\) is 3"),
    (("f", "a - floor(b)", 0, True), "not reorderable"),
    (("f", "a + real(b)**2", 0, True), "not reorderable"),
    (("f", "abs(a) + imag(b)", 0, True), "not reorderable"),
    *((("f", text, 0, True), "not reorderable") for text in (
        "a - b/2", "(a + b)/2", "a - 0.5*b", "a - sin(b)", "a + cast(float32, b)*b")),
    (("f", {"n": "a.n + b.n", "m": "a.m + b.m/2"}, {"n": 0, "m": 0}, True), "not reorderable"),
    (("f", {"n": "a.n + b.n", "m": "(a.n*a.m + b.n*b.m)/(a.n + b.n)"}, {"n": 0, "m": 0}, True),
     r"each part starts from \(0, 0\), but f\(\(0, 0\), \(0, 0\)\) is undefined"),
    (("f", "if(b*b > a*a, b, a)", 0, True), r"f\(-3, 3\) is -3, but f\(3, -3\) is 3")])
def test_refused_operations(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(lk.PreconditionError, match=message):
        lk.ReductionOperation(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(("combine", "neutral"), [
    ("a + b", 0.0), ("a*b", 1 + 0j), ("max(a, b)", float("-inf")), ("min(a, b)", np.inf), ("a + b + a*b", 0),
    ("max(a, b)", -1e30), ("max(abs(a), abs(b))", 0), ("a + trunc(b)", 0), ("fmax(a, b)", np.nan),
    ("max(a, b)", np.nan)])
def test_claims_that_hold(combine: str, neutral: complex) -> None:
    assert lk.ReductionOperation("f", combine, neutral, reorderable=True).reorderable


def test_text_that_is_no_expression() -> None:
    with pytest.raises(lk.ParseError, match="the reduction 'f'"):
        lk.ReductionOperation("f", "a +")


@pytest.mark.parametrize("name", ["sum", "sqrt", "k", "n", "x", "y", "for", "1f"])
def test_names_that_are_taken(name: str) -> None:
    with pytest.raises(lk.LoopkitError):
        lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<8}", "y[i] = sum(k, x[i, k])",
                       reductions=[lk.ReductionOperation(name, "a + b")])


def test_wrong_lists() -> None:
    with pytest.raises(lk.PreconditionError, match="reductions= must be a list of ReductionOperation objects, not"):
        lk.make_kernel("{[k]: 0<=k<8}", "y = sum(k, x[k])", reductions=["a + b"])  # type: ignore[list-item]
    with pytest.raises(lk.UnknownNameError):
        lk.make_kernel("{[k]: 0<=k<8}", "y = unheard(k, x[k])", reductions=[HORNER])


@pytest.mark.parametrize(("text", "neutral"), [
    ("a + b", 0), ("sqrt(a*a + b*b)", 0), ("a + b + 0.5*a*b", 0), ("log(exp(a) + exp(b))", float("-inf")),
    ("a*b/(a + b)", float("inf")), ("cast(float64, a) + b", 0)])
def test_operations_of_real_numbers_may_be_reorderable(text: str, neutral: float) -> None:
    assert lk.ReductionOperation("f", text, neutral, reorderable=True).reorderable


def test_weighted_means_are_reorderable() -> None:
    mean = "if(a.n + b.n == 0, 0.0, (a.n*a.m + b.n*b.m)/(a.n + b.n))"
    assert lk.ReductionOperation("f", {"n": "a.n + b.n", "m": mean}, {"n": 0, "m": 0}, reorderable=True).reorderable


def test_pairs_of_means_and_squares_are_reorderable() -> None:
    """Welford's formula, which has squares of fractions."""
    change = "(b.mean - a.mean)"
    parts = {"n": "a.n + b.n", "mean": f"if(b.n == 0, a.mean, a.mean + {change}*b.n/(a.n + b.n))",
             "m2": f"if(b.n == 0, a.m2, a.m2 + b.m2 + {change}**2*a.n*b.n/(a.n + b.n))"}
    assert lk.ReductionOperation("f", parts, dict.fromkeys(parts, 0), reorderable=True).reorderable
    parts["m2"] = parts["m2"].replace("**2", "**3")
    with pytest.raises(lk.PreconditionError, match="not reorderable"):
        lk.ReductionOperation("f", parts, dict.fromkeys(parts, 0), reorderable=True)
