"""The precision of the operations of a kernel: the dtypes to which its statements round.

Loads, copies and conversions to a wider dtype do not round.

Matrix units multiply exactly, align the products of a block of 4 or more steps and the sum so far to the largest of
them, and drop the bits below; the sum is cut off again (Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of
NVIDIA tensor cores", PeerJ Computer Science 7:e330, 2021). The error is up to one eps for each of these, so at most 1.5
eps for each product. Rounding to the nearest number, as the reference does, has half an eps. Both together are the 2
eps that bounds allow for each step of a reduction.

This holds for factors in float16, bfloat16 and tf32, whose sums have the bits of float32. For floats of 8 bits the sums
of sm_89 and sm_90 have 13 bits of fraction ("DeepSeek-V3 Technical Report", 2024, measured it on H800), which an
instruction has as ``fraction_of_sums``.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import frexp, inf, isfinite, ldexp
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import expanded_expression
from loopkit.expr.dtypes import FLOAT32, Type, Weak, type_of
from loopkit.expr.functions import function_of
from loopkit.expr.kinds import epsilon, kind_of, promote, smallest_normal
from loopkit.expr.mappers import children
from loopkit.expr.nodes import Combined, MakeTuple, TypeCast
from loopkit.expr.tuples import field_dtypes
from loopkit.instructions.nests import NestInstruction
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement


@dataclass(frozen=True)
class Precision:
    """A precision to which operations round.

    :ivar epsilon: the distance from 1 to the next larger number; *least*: the smallest positive number.
    """

    name: str
    epsilon: float
    least: float


def precision_of(dtype: np.dtype[Any]) -> Precision:
    """The precision of a real or complex *dtype*."""
    return Precision(dtype.name, epsilon(dtype), ulp(0.0, dtype))


def ulp(value: float, dtype: np.dtype[Any]) -> float:
    """The distance from ``|value|`` to the next larger number of a real or complex *dtype*.

    >>> ulp(1.0, np.dtype(np.float32)), ulp(-6.0, np.dtype(np.float16))
    (1.1920928955078125e-07, 0.00390625)
    """
    if not isfinite(value):
        return inf
    lowest = frexp(smallest_normal(dtype))[1]
    return ldexp(epsilon(dtype), max(frexp(value)[1] if value else lowest, lowest) - 1)


#: The precision of factors of a matrix unit, as which computed float32 numbers are read.
_TF32 = Precision("tf32", 2.0**-10, ulp(0.0, FLOAT32))

#: Nodes whose value is one of their operands, or is made of them, or is a truth value.
_EXACT = (p.Variable, p.Subscript, p.If, p.Min, p.Max, p.Comparison, p.LogicalAnd, p.LogicalOr, p.LogicalNot, p.Lookup,
          MakeTuple)


def operations_round_to(knl: LoopKernel, statement: Statement, types: Mapping[str, Type]) -> Iterator[Precision]:
    """The precisions of the operations in the expression of *statement*, for the *types* of all names."""
    yield from _in(expanded_expression(knl, statement), knl, types)


def _in(expr: Expression, knl: LoopKernel, types: Mapping[str, Type]) -> Iterator[Precision]:
    if not isinstance(expr, p.ExpressionNode) or isinstance(expr, p.Subscript):
        return
    for child in children(expr):
        yield from _in(child, knl, types)
    found = None if isinstance(expr, _EXACT) else type_of(expr, types.get)
    if found is None or isinstance(found, Weak):
        return
    function = function_of(expr)
    if function is not None and function.name == "tf32":
        if not _is_input(expr, knl):
            yield _TF32
        return
    if isinstance(expr, TypeCast):
        given = type_of(expr.child, types.get)
        if given is None or isinstance(given, Weak) or promote(given, found) == found:
            return
    for dtype in field_dtypes(found).values() if isinstance(expr, Combined) and found.names else [found]:
        if kind_of(dtype) in "fc":
            yield precision_of(dtype)


def _is_input(call: Expression, knl: LoopKernel) -> bool:
    """Is the argument of *call* an element that no statement computes: of an argument, or a copy of one?"""
    assert isinstance(call, p.Call)
    name, seen = _loaded(call.parameters[0]), set[str]()
    while name is not None and name not in seen:
        seen.add(name)
        writers = [s for s in knl.statements if s.written == name]
        if not writers:
            return True
        sources = {_loaded(expanded_expression(knl, s)) for s in writers}
        name = sources.pop() if len(sources) == 1 else None
    return False


def _loaded(expr: Expression) -> str | None:
    """The array or the scalar that *expr* is an element of; ``None``: it is none."""
    match expr:
        case p.Variable(name=name) | p.Subscript(aggregate=p.Variable(name=name)):
            return str(name)
        case _:
            return None


def writes_round_to(knl: LoopKernel, statement: Statement, types: Mapping[str, Type]) -> Iterator[Precision]:
    """The precisions to which *statement* rounds what it writes; those of copies are none."""
    written = types.get(statement.written)
    expr = expanded_expression(knl, statement)
    if not isinstance(written, np.dtype) or (statement.combine is None and _loaded(expr) is not None
                                             and type_of(expr, types.get) == written):
        return
    dtypes = field_dtypes(written).values() if written.names else [written]
    yield from (precision_of(dtype) for dtype in dtypes if kind_of(dtype) in "fc")


def sums_round_to(knl: LoopKernel, statement: Statement, types: Mapping[str, Type]) -> Precision | None:
    """The coarsest precision of an update by *statement*, of its operand and of its sum; ``None``: it is exact.

    An instruction that adds up with fewer bits than the dtype of the sum has the precision of these bits.
    """
    found = [*operations_round_to(knl, statement, types), *writes_round_to(knl, statement, types)]
    bits = [i.fraction_of_sums for i in statement.instructions
            if isinstance(i, NestInstruction) and i.fraction_of_sums is not None]
    if bits and found:
        found.append(Precision(f"sums with {min(bits)} bits of fraction", 2.0**-min(bits), found[-1].least))
    return max(found, key=lambda own: own.epsilon, default=None)
