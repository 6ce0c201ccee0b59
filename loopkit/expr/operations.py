"""User-defined reduction operations, each one frozen value."""
from __future__ import annotations

import itertools
import math
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import PreconditionError
from loopkit.expr.dtypes import Type, resolve, type_of
from loopkit.expr.evaluate import NoValueError, evaluate
from loopkit.expr.mappers import subexpressions, substitute, variables
from loopkit.expr.nodes import Operation, to_text
from loopkit.expr.parsing import parse_expression
from loopkit.shown import Declared

#: The operands that test a claim of a free order.
_SAMPLES = (-3, -2, 0, 1, 2, 3)


@dataclass(frozen=True, eq=False, repr=False)
class ReductionOperation(Operation, Declared):
    """A user's reduction operation: ``make_kernel(..., reductions=[...])`` adds it to the language.

    A reduction with this operation combines its operands in the order of the loop. If the operation is *reorderable*,
    it may combine them in any order, so that its iname may be distributed over threads.

    >>> largest = ReductionOperation("largest", "if(abs(b) > abs(a), b, a)", neutral=0)
    >>> largest.expression == largest.apply(*map(parse_expression, "ab"))
    True

    :arg name: the name of the operation in the language: ``name(k, operand)``.
    :arg combine: the new value, an expression in ``a``, the value so far, and ``b``, the next operand.
    :arg neutral: the first value of ``a``, a number.
    :arg reorderable: operands may be combined in any order and grouping. This claim is an obligation of the kernel.
    :raises ParseError: *combine* is not an expression.
    :raises PreconditionError: *combine* has other names or subscripts, *neutral* is not a number, or small
        integers show that the operation is not reorderable.
    """

    neutral: complex = 0
    reorderable: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and isinstance(self.combine, str)):
            raise PreconditionError("The name and the combination of a reduction operation must be texts.",
                                    subject=str(self.name))
        strangers = variables(self.expression) - {"a", "b"}
        if strangers:
            raise PreconditionError(
                f"The reduction '{self.name}' combines the operands a and b; '{min(strangers)}' is neither.",
                subject=self.name, hint="write other names into the operand: f(k, w[k]*x[k])")
        subscripts = any(isinstance(part, p.Subscript) for part in subexpressions(self.expression))
        for is_wrong, text in (
                (subscripts, f" combines two numbers, but '{self.combine}' subscripts one of them"),
                (not isinstance(self.reorderable, bool),
                 f": reorderable= must be True or False, not {self.reorderable!r}"),
                (not isinstance(self.neutral, int | float | complex | np.number),
                 f": neutral= must be a number, not {self.neutral!r}")):
            if is_wrong:
                raise PreconditionError(f"The reduction '{self.name}'{text}.", subject=self.name)
        if self.reorderable:
            _require_reorderable(self)

    def _key(self) -> tuple[object, ...]:
        return self.name, self.combine, self.reorderable, _comparable(self.neutral)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, ReductionOperation) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    @cached_property
    def expression(self) -> Expression:
        return parse_expression(self.combine, what=f"the reduction '{self.name}'")

    @property
    def summary(self) -> str:
        """The operation in a line of a printed kernel."""
        return (f"{self.name}(a, b) := {to_text(self.expression)}, from {self.neutral}, in "
                f"{'any ' if self.reorderable else ''}order")

    def neutral_of(self, dtype: np.dtype) -> object:
        """:raises PreconditionError: *dtype* has no such number."""
        fits = False
        # each kind of number has its own error for a dtype that cannot hold it
        with suppress(TypeError, ValueError, OverflowError), np.errstate(over="ignore"):
            whole = complex(self.neutral)
            if dtype.kind == "c" or not whole.imag:
                start = self.neutral if dtype.kind == "c" else self.neutral.real
                value = dtype.type(start)
                fits = bool(value == start) if dtype.kind in "biu" \
                    else bool(np.isfinite(complex(value)) == np.isfinite(whole))
        if not fits:
            raise PreconditionError(
                f"The reduction '{self.name}' starts from {self.neutral}, which its dtype {dtype} cannot hold.",
                subject=self.name, hint=f"another neutral=, or operands of another dtype: "
                                        f"{self.name}(k, cast(float64, x[k]))")
        return value

    def apply(self, a: Expression, b: Expression) -> Expression:
        return substitute(self.expression, {"a": a, "b": b})

    def type_over(self, operand: Type) -> np.dtype:
        """The dtype of the accumulator: one that combining keeps."""
        found = resolve(operand)
        for _ in range(3):
            types: dict[str, Type] = {"a": found, "b": operand}
            combined = type_of(self.expression, types.get)
            if isinstance(combined, np.dtype):
                found = combined
        return found


def _comparable(number: complex) -> tuple[object, ...]:
    """A key that is equal for equal numbers: all NaNs are equal here, and zeros of two signs differ."""
    parts = (number, 0) if isinstance(number, int) else (complex(number).real, complex(number).imag)
    return tuple("nan" if x != x else (x, x == 0 and math.copysign(1, x)) for x in parts)


def _require_reorderable(operation: ReductionOperation) -> None:
    """:raises PreconditionError: small integers contradict the claim. A claim that they cannot test is accepted."""
    start = operation.neutral
    pairs = list(itertools.product(_SAMPLES, repeat=2))
    # two nests of pairs that must be combined to one value
    claims: list[tuple[Any, Any, str]] = [((x, y), (y, x), "") for x, y in pairs]
    claims += [(((x, y), z), (x, (y, z)), "") for x, y, z in itertools.product(_SAMPLES, repeat=3)]
    # a combined pair becomes part of another pair; integers do not test the result for a NaN
    claims += [((start, x), x, f"each part starts from {start}, but ") for pair in pairs if start == start
               and (x := _combined(operation, pair)) is not None]
    for first, second, reason in claims:
        left, right = _combined(operation, first), _combined(operation, second)
        if left is not None and right is not None and left != right:
            but = f", but {_nest_text(operation, second)} is {right}" if isinstance(second, tuple) else ""
            raise PreconditionError(
                f"The reduction '{operation.name}' is not reorderable: {reason}{_nest_text(operation, first)} is "
                f"{left}{but}.", subject=operation.name,
                hint="leave reorderable=True out; its loops keep their order")


def _combined(operation: ReductionOperation, nest: Any) -> Any:
    """The result of combining a nest of pairs; ``None``: it has no value in integers."""
    if not isinstance(nest, tuple):
        return nest
    a, b = (_combined(operation, part) for part in nest)
    try:
        return None if a is None or b is None else evaluate(operation.expression, {"a": a, "b": b})
    except (NoValueError, TypeError, ValueError, ArithmeticError):
        return None                         # such as infinity's remainder


def _nest_text(operation: ReductionOperation, nest: Any) -> str:
    return f"{operation.name}({', '.join(_nest_text(operation, x) for x in nest)})" if isinstance(nest, tuple) \
        else str(nest)
