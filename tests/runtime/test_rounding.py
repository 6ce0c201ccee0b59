"""The accumulation length of an error bound, and the index arrays that random numbers would break."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import ml_dtypes
import numpy as np
import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.analysis.constructors import rewritten
from loopkit.analysis.data_constraints import index_names
from loopkit.instructions.nests import NestInstruction
from loopkit.kernel.data import GlobalArg, TemporaryVariable, ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import ReductionNode, Statement
from loopkit.kernel.tree import Leaf, seq
from loopkit.lowering.types import infer_types
from loopkit.poly.sets import InstanceSet
from loopkit.runtime.rounding import error_bound

REAL, INTEGER = np.dtype("f4"), np.dtype("i4")
a, b, x, y, acc = (p.Variable(s) for s in ("a", "b", "x", "y", "acc"))
i, j = p.Variable("i"), p.Variable("j")
SQUARE = InstanceSet.parse("[n, m] -> { [i, j]: 0 <= i < n and 0 <= j < m }")
LINE = InstanceSet.parse("[n, m] -> { [i]: 0 <= i < n }")
SIZES = {"n": 10, "m": 7}


def kernel(*statements: Statement, temporaries: Mapping[str, np.dtype[np.generic]] = {},
           reductions: tuple[ReductionNode, ...] = ()) -> LoopKernel:
    arrays = tuple(GlobalArg(name, REAL) for name in ("a", "b", "x", "y"))
    return LoopKernel(name="knl", arguments=(*arrays, ValueArg("n", INTEGER), ValueArg("m", INTEGER)),
                      temporaries={k: TemporaryVariable(k, v, ()) for k, v in temporaries.items()},
                      statements=statements, tree=seq(*(Leaf(s.id) for s in statements)), derived=None,
                      reductions={r.name: r for r in reductions})


def length(*statements: Statement) -> int:
    return error_bound(kernel(*statements), SIZES).length


def test_elementwise() -> None:
    assert length(Statement("S", y[i], 2 * a[i], LINE)) == 1
    assert length(Statement("S", y[i], y[i] + a[i], LINE)) == 1


def test_accumulation() -> None:
    assert length(Statement("S", y[i], y[i] + a[i, j], SQUARE)) == 7
    assert length(Statement("S", y[0], y[0] + a[i, j], SQUARE)) == 70


def test_recurrence() -> None:
    assert length(Statement("S", y[i], y[i - 1] + a[i], LINE)) == 10
    assert length(Statement("S", x[i], y[i], LINE), Statement("T", y[i], x[i - 1] + a[i], LINE)) == 20


def test_reduction() -> None:
    node = ReductionNode("S.j", "sum", "acc", ("j",), "S.j.init", ("S.j.update",), "S")
    knl = kernel(Statement("S.j.init", acc, 0, LINE),
                 Statement("S.j.update", acc, a[i, j], SQUARE, combine="sum"),
                 Statement("S", y[i], acc, LINE), temporaries={"acc": REAL}, reductions=(node,))
    assert error_bound(knl, SIZES).length == 7


def test_index_arrays() -> None:
    assert index_names(kernel(Statement("S", y[i], a[i], LINE))) == frozenset()
    assert index_names(kernel(Statement("S", y[i], a[p.Subscript(b, (i,))], LINE))) == {"b"}
    assert index_names(kernel(Statement("S", y[p.Subscript(b, (i,))], a[i], LINE))) == {"b"}


def test_index_array_behind_a_bound() -> None:
    rows = InstanceSet.parse("[n, hi] -> { [i, j]: 0 <= i < n and 0 <= j < hi }")
    knl = kernel(Statement("S", p.Variable("hi"), p.Subscript(b, (i,)), LINE),
                 Statement("T", y[i], y[i] + a[j], rows), temporaries={"hi": INTEGER})
    assert index_names(knl) == {"b"}
    assert error_bound(knl, SIZES).length == 10                # how long a row is depends on data


# Precisions

F32, F16, BF16, E4M3 = 2.0**-23, 2.0**-10, 2.0**-7, 2.0**-3
MANY = {"n": 10, "m": 300}


def sums(operand: str, **dtypes: object) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", f"y[i] = sum(k, {operand})")
    return lk.add_dtypes(knl, dtypes)                                                    # type: ignore[arg-type]


def relative(knl: lk.LoopKernel) -> float:
    return error_bound(infer_types(knl), MANY).relative


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_sums_of_narrow_factors_in_float32(dtype: type) -> None:
    eps = {np.float16: F16, ml_dtypes.bfloat16: BF16}.get(dtype, E4M3)
    plain = sums("a[i,k]*x[k]", a=dtype, x=dtype)
    assert relative(plain) == (8 + 2*300)*eps
    wide = lk.set_accumulator_dtype(plain, np.float32)
    assert relative(wide) == (8 + 2*300)*F32
    assert relative(lk.add_prefetch(lk.split_iname(wide, "k", 10), "x", ["k_inner"])) == (8 + 2*300)*F32
    stored = lk.set_accumulator_dtype(sums("a[i,k]*x[k]", a=dtype, x=dtype, y=dtype), np.float32)
    assert relative(stored) == 10*eps + 2*300*F32
    assert relative(sums("cast(float32, a[i,k]*x[k])", a=dtype, x=dtype)) == (8 + 2*300)*eps


def test_the_bound_of_two_precisions_in_words() -> None:
    knl = lk.set_accumulator_dtype(sums("a[i,k]*x[k]", a=np.float16, x=np.float16, y=np.float16), np.float32)
    assert error_bound(infer_types(knl), MANY).text(2.0) == (
        "eps of float16 (0.000977, the dtype of 'a'), times 8 + 2*1 roundings (single operations), and eps "
        "of float32 (1.19e-07), times 2*300 roundings (300 in the sum over k in 'insn'), times the largest "
        "|reference| 2")


def test_sums_in_tf32() -> None:
    plain = sums("a[i,k]*x[k]", a=np.float32, x=np.float32)
    knl = lk.set_operand_precision(plain, "tf32")
    assert relative(knl) == relative(plain) == (8 + 2*300)*F32
    copied = lk.add_prefetch(lk.split_iname(knl, "k", 10), "x", ["k_inner"])
    assert relative(copied) == relative(plain)
    # a computed factor may be cut off at another number
    assert relative(sums("tf32(exp(a[i,k]))*tf32(x[k])", a=np.float32, x=np.float32)) == (8 + 2*300)*2.0**-10
    computed = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", "t[k] = exp(x[k])\ny[i] = sum(k, a[i,k]*tf32(t[k]))")
    assert relative(lk.add_dtypes(computed, {"a,x,t": np.float32})) == (8 + 2*300)*2.0**-10


def test_sums_of_integers_are_exact() -> None:
    knl = lk.set_accumulator_dtype(sums("a[i,k]*x[k]", a=np.int8, x=np.uint8), np.int32)
    assert relative(knl) == 0
    scaled = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", "y[i] = s[i]*cast(float32, sum(k, cast(int32, a[i,k])))")
    assert relative(lk.add_dtypes(scaled, {"a": np.int8, "s": np.float32})) == (8 + 2)*F32


class ShortSums(NestInstruction):
    """A matrix unit whose sums have fewer bits than their dtype."""

    @property
    def fraction_of_sums(self) -> int | None:
        return 13


def test_an_instruction_adds_up_with_its_own_bits() -> None:
    knl = infer_types(lk.set_accumulator_dtype(sums("a[i,k]*x[k]", a=ml_dtypes.float8_e4m3fn,
                                                    x=ml_dtypes.float8_e4m3fn), np.float32))
    short = rewritten(knl, statements=tuple(
        replace(s, instructions=(ShortSums("short"),)) if s.combine else s for s in knl.statements))
    bound = error_bound(short, MANY)
    assert bound.relative == 10*F32 + 2*300*2.0**-13
    assert "sums with 13 bits of fraction" in bound.text(1.0)


def test_a_wrong_sum_of_narrow_factors_is_found() -> None:
    knl = lk.set_accumulator_dtype(sums("a[i,k]*x[k]", a=ml_dtypes.bfloat16, x=ml_dtypes.bfloat16), np.float32)

    def right(a: np.ndarray, x: np.ndarray) -> np.ndarray:
        return a.astype(np.float32) @ x.astype(np.float32)
    lk.check_equivalent(right, knl, {"n": 3, "m": 90}, target="c")
    with pytest.raises(lk.EquivalenceError, match="eps of float32"):
        lk.check_equivalent(lambda a, x: right(a, x)*np.float32(1.001), knl, {"n": 3, "m": 90}, target="c")
    # a reference in bfloat16 has its own, larger errors
    lk.check_equivalent(sums("a[i,k]*x[k]", a=ml_dtypes.bfloat16, x=ml_dtypes.bfloat16, y=np.float32), knl,
                        {"n": 3, "m": 90}, target="c")
