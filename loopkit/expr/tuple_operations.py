"""Reductions over tuples: ``argmin``, ``argmax`` and segmented reductions.

``argmin(i, x[i])`` is the tuple of the least value and the first index that has it, numpy's rules: a NaN is less (for
``argmax``, greater) than every number. Tuples are compared by value first and then by index, so the result does not
depend on the order in which threads combine them. Without operands, the value is that of ``min`` or ``max`` and the
index the largest number of its dtype.

``segmented(sum)(i, x[i], flag[i])`` starts again at each operand whose flag is not 0, and the flag of the result is 1
if there was one. Its operands may be grouped, but keep their order.
"""
from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import TypeInferenceError
from loopkit.expr.dtypes import Type, TypedOperation, rank_of, reduction_type, resolve
from loopkit.expr.kinds import is_tuple, kind_of
from loopkit.expr.nodes import REDUCTIONS, Combined, MakeTuple, NumberOperation, Operation
from loopkit.expr.tuples import dtype_text, field_dtypes, tuple_dtype


@dataclass(frozen=True)
class TupleOperation(TypedOperation):
    """An operation of the language on tuples."""

    def apply(self, a: Expression, b: Expression) -> Expression:
        return Combined(self, a, b)

    def type_over(self, operand: Type) -> np.dtype:
        return tuple_dtype(self.fields, self.field_types(dict(zip(
            self.fields, require_tuple(self, operand).values(), strict=True))))

    @abstractmethod
    def field_types(self, given: Mapping[str, np.dtype]) -> list[np.dtype]:
        """The dtypes of the result's fields, from those of an operand."""

    @abstractmethod
    def merged(self, dtype: np.dtype) -> Expression: ...


def require_tuple(operation: Operation, operand: Type) -> dict[str, np.dtype]:
    """The dtypes of the fields of *operand*; :raises TypeInferenceError: it has not those of *operation*."""
    found = resolve(operand)
    if found.names != operation.fields:
        fields = ", ".join(operation.fields)
        raise TypeInferenceError(
            f"The reduction '{operation.name}' combines tuples with the fields {fields}, not "
            f"{dtype_text(found) if is_tuple(found) else f'numbers of dtype {found}'}.", subject=operation.name,
            hint=f"give it one operand for each field: {operation.name}(k, {fields})")
    return field_dtypes(found)


@dataclass(frozen=True)
class Extremum(TupleOperation):
    """``argmin`` or ``argmax``; *least*: the operation of the value is ``min`` instead of ``max``."""

    least: bool

    @property
    def fields(self) -> tuple[str, ...]:
        return ("value", "index")

    def field_types(self, given: Mapping[str, np.dtype]) -> list[np.dtype]:
        for name, dtype in given.items():
            if rank_of(dtype) > 2:
                raise TypeInferenceError(f"The {name} of '{self.name}' is complex: complex numbers have no order.",
                                         subject=self.name, hint=f"{self.name}(k, abs(x[k]), k)")
        return list(given.values())

    def neutral_of(self, dtype: np.dtype) -> object:
        value, index = (dtype[name] for name in self.fields)
        worst = REDUCTIONS["min" if self.least else "max"].neutral_of(value)
        return np.array((worst, REDUCTIONS["min"].neutral_of(index)), dtype)[()]

    def merged(self, dtype: np.dtype) -> Expression:
        a, b = p.Variable("a"), p.Variable("b")
        old, new = p.Lookup(a, "value"), p.Lookup(b, "value")
        place, other = p.Lookup(a, "index"), p.Lookup(b, "index")
        is_nan = p.Variable("isnan")
        earlier: Expression = p.Comparison(other, "<", place)
        if kind_of(dtype["index"]) == "f":
            # an index that is NaN comes last, so that tuples have one order
            earlier = p.LogicalOr((earlier, p.LogicalAnd((p.Call(is_nan, (place,)),
                                                          p.LogicalNot(p.Call(is_nan, (other,)))))))
        wins: list[Expression] = [p.Comparison(new, "<" if self.least else ">", old),
                                  p.LogicalAnd((p.Comparison(new, "==", old), earlier))]
        if kind_of(dtype["value"]) == "f":
            # the first NaN wins against everything else
            wins.append(p.LogicalAnd((p.Call(is_nan, (new,)), p.LogicalOr(
                (p.LogicalNot(p.Call(is_nan, (old,))), earlier)))))
        return p.If(p.LogicalOr(tuple(wins)), b, a)


@dataclass(frozen=True)
class Segmented(TupleOperation):
    """A reduction that starts again where a flag is set; *inner* is the operation of one segment."""

    inner: NumberOperation
    reorderable = False

    @property
    def associative(self) -> bool:
        return True

    @property
    def fields(self) -> tuple[str, ...]:
        return ("value", "flag")

    def field_types(self, given: Mapping[str, np.dtype]) -> list[np.dtype]:
        if rank_of(given["flag"]) > 1:
            raise TypeInferenceError(f"The flag of '{self.name}' has the dtype {given['flag']}.", subject=self.name,
                                     hint=f"compare it: {self.name}(k, x[k], flag[k] > 0)")
        return [reduction_type(self.inner, given["value"]), given["flag"]]

    def neutral_of(self, dtype: np.dtype) -> object:
        return np.array((self.inner.neutral_of(dtype["value"]), 0), dtype)[()]

    def merged(self, dtype: np.dtype) -> Expression:
        (old, before), (new, starts) = ((p.Lookup(p.Variable(x), "value"), p.Lookup(p.Variable(x), "flag"))
                                        for x in "ab")
        return MakeTuple(self.fields, (p.If(starts, new, self.inner.apply(old, new)), p.LogicalOr((before, starts))))


TUPLE_REDUCTIONS: Mapping[str, TupleOperation] = {op.name: op for op in (
    Extremum("argmin", least=True), Extremum("argmax", least=False),
    *(Segmented(f"segmented({op.name})", op) for op in REDUCTIONS.values()))}

#: Every reduction of the language by name.
BUILT_IN: Mapping[str, Operation] = {**REDUCTIONS, **TUPLE_REDUCTIONS}
