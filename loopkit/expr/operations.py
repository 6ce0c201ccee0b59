"""User-defined reduction operations, each one frozen value."""
from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import PreconditionError
from loopkit.expr.dtypes import Type, TypedOperation, resolve, type_of
from loopkit.expr.evaluate import NoValueError, evaluate
from loopkit.expr.functions import function_of
from loopkit.expr.mappers import children, map_children, subexpressions, substitute, variables, with_children
from loopkit.expr.nodes import Combined, MakeTuple, TypeCast, to_text
from loopkit.expr.parsing import parse_expression
from loopkit.expr.tuple_operations import require_tuple
from loopkit.expr.tuples import field_dtypes, field_fault, field_of, tuple_dtype
from loopkit.shown import Declared

#: The operands that test a claim of a free order.
_SAMPLES = (-3, -2, 0, 1, 2, 3)

#: The same for the fields of tuples, and the largest number of tuples. No field is 0: the mean of no numbers, for
#: example, has no meaning.
_FEW_SAMPLES, _MOST_TUPLES = (2, 1, 3), 9


@dataclass(frozen=True, eq=False, repr=False)
class ReductionOperation(TypedOperation, Declared):
    """A user's reduction operation: ``make_kernel(..., reductions=[...])`` adds it to the language.

    A reduction with this operation combines its operands in the order of the loop. If the operation is *reorderable*,
    it may combine them in any order, so that its iname may be distributed over threads.

    >>> largest = ReductionOperation("largest", "if(abs(b) > abs(a), b, a)", neutral=0)
    >>> largest.expression == largest.apply(*map(parse_expression, "ab"))
    True

    If *neutral* maps names of fields to numbers, the operands are tuples with these fields. ``name(k, x, y)`` has an
    operand for each field, and *combine* has an expression for each, in ``a.n``, ``b.n`` and other fields; or it is
    one expression for the whole tuple.

    >>> mean = ReductionOperation("mean", {"n": "a.n + b.n", "m": "a.m + (b.m - a.m)*b.n/(a.n + b.n)"},
    ...                           neutral={"n": 0, "m": 0})
    >>> knl = lk.make_kernel("{[k]: 0<=k<l}", "n, m = mean(k, 1.0, x[k])", reductions=[mean], assumptions="l>=1")
    >>> [float(v) for v in knl(x=np.array([2.0, 3.0, 7.0]))]
    [4.0, 3.0]

    :arg name: the name of the operation in the language: ``name(k, operand)``.
    :arg combine: the new value, an expression in ``a``, the value so far, and ``b``, the next operand; for tuples also
        a mapping from each field to its expression.
    :arg neutral: the first value of ``a``, a number; for tuples a mapping from each field to a number.
    :arg reorderable: operands may be combined in any order and grouping. This claim is an obligation of the kernel.
    :raises ParseError: *combine* is not an expression.
    :raises PreconditionError: *combine* has other names, fields or subscripts, *neutral* is not a number, or small
        integers show that the operation is not reorderable.
    """

    combine: str | Mapping[str, str]
    neutral: complex | Mapping[str, complex] = 0
    reorderable: bool = False

    def __post_init__(self) -> None:
        for name in ("combine", "neutral"):
            if isinstance(given := getattr(self, name), Mapping):
                object.__setattr__(self, name, dict(given))
        _require_texts(self)
        strangers = variables(self.expression) - {"a", "b"}
        if strangers:
            raise PreconditionError(
                f"The reduction '{self.name}' combines the operands a and b; '{min(strangers)}' is neither.",
                subject=self.name, hint="write other names into the operand: f(k, w[k]*x[k])")
        _require_combination(self)
        if self.reorderable:
            _require_reorderable(self)

    def _key(self) -> tuple[object, ...]:
        combine = tuple(self.combine.items()) if isinstance(self.combine, Mapping) else self.combine
        return self.name, combine, self.reorderable, self.fields, tuple(map(_comparable, self.numbers))

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, ReductionOperation) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(self.neutral) if isinstance(self.neutral, Mapping) else ()

    @property
    def numbers(self) -> tuple[complex, ...]:
        """The neutral number, of each field if the operands are tuples."""
        return tuple(self.neutral.values()) if isinstance(self.neutral, Mapping) else (self.neutral,)

    @cached_property
    def parts(self) -> tuple[Expression, ...]:
        """The expression of each field, in variables ``a.n``."""
        return tuple(_with_names(field_of(self.expression, field)) for field in self.fields)

    @cached_property
    def expression(self) -> Expression:
        what = f"the reduction '{self.name}'"
        if isinstance(self.combine, str):
            return parse_expression(self.combine, what=what)
        return MakeTuple(self.fields, tuple(parse_expression(self.combine[x], what=what) for x in self.fields))

    @property
    def summary(self) -> str:
        """The operation in a line of a printed kernel."""
        start = MakeTuple(self.fields, self.numbers) if self.fields else self.numbers[0]
        return (f"{self.name}(a, b) := {to_text(self.expression)}, from {to_text(start)}, in "
                f"{'any ' if self.reorderable else ''}order")

    def neutral_of(self, dtype: np.dtype) -> object:
        """:raises PreconditionError: *dtype* has no such number."""
        if not self.fields:
            return self._number(self.numbers[0], dtype)
        each = zip(self.numbers, field_dtypes(dtype).values(), strict=True)
        return np.array(tuple(self._number(number, own) for number, own in each), dtype)[()]

    def _number(self, number: complex, dtype: np.dtype) -> object:
        fits = False
        # each kind of number has its own error for a dtype that cannot hold it
        with suppress(TypeError, ValueError, OverflowError), np.errstate(over="ignore"):
            whole = complex(number)
            if dtype.kind == "c" or not whole.imag:
                start = number if dtype.kind == "c" else number.real
                value = dtype.type(start)
                fits = bool(value == start) if dtype.kind in "biu" \
                    else all(f(complex(value)) == f(whole) for f in (np.isfinite, np.isnan))
        if not fits:
            raise PreconditionError(
                f"The reduction '{self.name}' starts from {number}, which its dtype {dtype} cannot hold.",
                subject=self.name, hint=f"another neutral=, or operands of another dtype: "
                                        f"{self.name}(k, cast(float64, x[k]))")
        return value

    def apply(self, a: Expression, b: Expression) -> Expression:
        return Combined(self, a, b) if self.fields else substitute(self.expression, {"a": a, "b": b})

    def merged(self, dtype: np.dtype) -> Expression:
        return self.expression

    def type_over(self, operand: Type) -> np.dtype:
        given: list[Type] = [*require_tuple(self, operand).values()] if self.fields else [operand]
        found = [*map(resolve, given)]
        parts = [field_of(self.expression, x) for x in self.fields] or [self.expression]
        for _ in range(3):
            types: dict[str, Type] = {"a": self._whole(found), "b": self._whole(given)}
            combined = [type_of(part, types.get) for part in parts]
            found = [new if isinstance(new, np.dtype) else old for new, old in zip(combined, found, strict=True)]
        return resolve(self._whole(found))

    def _whole(self, parts: Sequence[Type]) -> Type:
        return tuple_dtype(self.fields, map(resolve, parts)) if self.fields else parts[0]


def _require_texts(operation: ReductionOperation) -> None:
    """:raises PreconditionError: names, texts and numbers are not of these kinds, or not for the same fields."""
    name, combine, neutral = operation.name, operation.combine, operation.neutral
    texts = [*combine.values()] if isinstance(combine, Mapping) else [combine]
    if not all(isinstance(text, str) for text in (name, *texts)):
        raise PreconditionError("The name and the combination of a reduction operation must be texts.",
                                subject=str(name))
    if isinstance(combine, Mapping) and not isinstance(neutral, Mapping):
        raise PreconditionError(f"The reduction '{name}' combines fields, but starts from a number.", subject=name,
                                hint="neutral= has a number for each field: {'n': 0, 'm': 0}")
    if not isinstance(neutral, Mapping):
        return
    if isinstance(combine, Mapping) and (other := combine.keys() ^ neutral.keys()):
        raise PreconditionError(f"The reduction '{name}' has the field '{min(map(str, other))}' only in one of "
                                "combine= and neutral=.", subject=name)
    for field in neutral:
        fault = "is not a name" if not (isinstance(field, str) and field.isidentifier()) else field_fault(field)
        if fault is not None or len(neutral) == 1:
            raise PreconditionError(f"The field '{field}' of the reduction '{name}' {fault or 'is its only one'}.",
                                    subject=name, hint="a tuple has two fields or more, called n, value, x2")


def _require_combination(operation: ReductionOperation) -> None:
    """:raises PreconditionError: the combination has subscripts or unknown fields, or *neutral* has other than numbers.
    """
    name, fields, parts = operation.name, operation.fields, [*subexpressions(operation.expression)]
    read = [part.name for part in parts if isinstance(part, p.Lookup)]
    unknown = next((field for field in read if field not in fields), None)
    bare = sum(isinstance(part, p.Variable) for part in parts) > len(read)
    numbers = (x for x in operation.numbers if not isinstance(x, int | float | complex | np.number))
    wrong = next(numbers, None)
    for is_wrong, text in (
            (any(isinstance(part, p.Subscript) for part in parts),
             f" combines two numbers, but '{operation.combine}' subscripts one of them"),
            (unknown is not None, f" reads the field '{unknown}' of an operand, which has "
                                  f"{'the fields ' + ', '.join(fields) if fields else 'no fields'}"),
            (isinstance(operation.combine, Mapping) and bare, " computes a field from a whole operand"),
            (not isinstance(operation.reorderable, bool),
             f": reorderable= must be True or False, not {operation.reorderable!r}"),
            (wrong is not None, f": neutral= must be a number, not {wrong!r}")):
        if is_wrong:
            raise PreconditionError(f"The reduction '{name}'{text}.", subject=name)


def _comparable(number: complex) -> tuple[object, ...]:
    """A key that is equal for equal numbers: all NaNs are equal here, and zeros of two signs differ."""
    parts = (number, 0) if isinstance(number, int) else (complex(number).real, complex(number).imag)
    return tuple("nan" if x != x else (x, x == 0 and math.copysign(1, x)) for x in parts)


def _samples(operation: ReductionOperation) -> list[Any]:
    """Operands that test a claim of a free order."""
    if not operation.fields:
        return [*_SAMPLES]
    # some of the tuples, with equal values in one field and others in another
    every = list(itertools.product(_FEW_SAMPLES, repeat=len(operation.fields)))
    step = len(every)//_MOST_TUPLES
    return every[::step if step < 2 else step + 1]


def _require_reorderable(operation: ReductionOperation) -> None:
    """:raises PreconditionError: small integers contradict the claim. A claim that they cannot test is accepted."""
    start: Any = operation.numbers if operation.fields else operation.numbers[0]
    samples = _samples(operation)
    pairs = list(itertools.product(samples, repeat=2))
    # two nests of pairs that must be combined to one value
    claims: list[tuple[Any, Any, str]] = [(_Nest(x, y), _Nest(y, x), "") for x, y in pairs]
    claims += [(_Nest(_Nest(x, y), z), _Nest(x, _Nest(y, z)), "") for x, y, z in itertools.product(samples, repeat=3)]
    if start == start:                                          # no number equals a NaN
        # a combined pair becomes part of another pair, also of one without operands
        own = [x for pair in pairs if (x := _combined(operation, _Nest(*pair))) is not None]
        reason = f"each part starts from {start}, but "
        claims += [(nest, x, reason) for x in (*own, start) for nest in (_Nest(start, x), _Nest(x, start))]
    for first, second, reason in claims:
        left, right = _combined(operation, first), _combined(operation, second)
        if left is None or right is None or (not reason and (left is _UNDEFINED or right is _UNDEFINED)):
            continue
        if not _are_equal(left, right):
            but = f", but {_nest_text(operation, second)} is {_decimal_text(right)}" if isinstance(
                second, _Nest) else ""
            raise PreconditionError(
                f"The reduction '{operation.name}' is not reorderable: {reason}{_nest_text(operation, first)} is "
                f"{_decimal_text(left)}{but}.", subject=operation.name,
                hint="leave reorderable=True out; its loops keep their order")


#: The value of a division by zero.
_UNDEFINED = "undefined"


def _are_equal(a: Any, b: Any) -> bool:
    """Are two values equal, but for the rounding of functions of real numbers?"""
    if a is _UNDEFINED:
        return False
    if isinstance(a, tuple):
        return all(map(_are_equal, a, b))
    return bool(a == b) or (float in (type(a), type(b)) and math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9))


def _decimal_text(value: Any) -> str:
    """*value* as decimal numbers."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_decimal_text, value))})"
    return f"{float(value):.6g}" if isinstance(value, Fraction | float) else str(value)


def _rational_value(expr: Expression, values: Mapping[str, Any]) -> Any:
    """The value of *expr* in rational numbers; functions of real numbers give float64.

    :raises NoValueError: there is no such value.
    """
    match expr:
        case p.Quotient():
            above, below = (Fraction(_rational_value(e, values)) for e in (expr.numerator, expr.denominator))
            value = above / below
            return value.numerator if value.denominator == 1 else value
        case p.FloorDiv() | p.Remainder():
            above, below = (_rational_value(e, values) for e in (expr.numerator, expr.denominator))
            return above // below if isinstance(expr, p.FloorDiv) else above % below
        case p.Power(exponent=int() as exponent):
            base = _rational_value(expr.base, values)
            return base**exponent if exponent >= 0 else Fraction(base)**exponent
        case p.If():
            return _rational_value(expr.then if _rational_value(expr.condition, values) else expr.else_, values)
        case TypeCast() if expr.dtype.kind == "f":
            return _rational_value(expr.child, values)
        case p.Call() if (function := function_of(expr)) is not None and function.reference is not None:
            with np.errstate(all="ignore"):
                found = float(function.value(*(np.float64(_rational_value(e, values)) for e in expr.parameters)))
            if not math.isfinite(found):
                raise NoValueError(function.name)
            return found
        case p.Variable() | TypeCast():
            return evaluate(expr, values)
        case p.ExpressionNode():
            parts = {f"part {k}": _rational_value(e, values) for k, e in enumerate(children(expr))}
            return evaluate(with_children(expr, tuple(map(p.Variable, parts))), parts)
        case float():
            return Fraction(expr)
        case _:
            return expr


class _Nest(NamedTuple):
    """Two operands that are to be combined; each is a number, a tuple of numbers, or such a pair."""

    a: Any
    b: Any


def _combined(operation: ReductionOperation, nest: Any) -> Any:
    """The result of combining a nest of pairs; ``None``: it has no value in rational numbers."""
    if not isinstance(nest, _Nest):
        return nest
    a, b = (_combined(operation, part) for part in nest)
    return None if a is None or b is None or _UNDEFINED in (a, b) else _value_of_pair(operation, a, b)


@lru_cache(maxsize=4096, typed=True)                # nests share most of their pairs
def _value_of_pair(operation: ReductionOperation, a: Any, b: Any) -> Any:
    try:
        if not operation.fields:
            return _rational_value(operation.expression, {"a": a, "b": b})
        values = {f"{x}.{field}": number for x, numbers in (("a", a), ("b", b))
                  for field, number in zip(operation.fields, numbers, strict=True)}
        return tuple(_rational_value(part, values) for part in operation.parts)
    except ZeroDivisionError:
        return _UNDEFINED
    except (NoValueError, TypeError, ValueError, ArithmeticError):
        return None                         # such as infinity's remainder


def _with_names(expr: Expression) -> Expression:
    """*expr* with a variable ``a.n`` for each field of an operand."""
    if isinstance(expr, p.Lookup):
        return p.Variable(str(expr))
    return map_children(expr, _with_names)


def _nest_text(operation: ReductionOperation, nest: Any) -> str:
    return f"{operation.name}({', '.join(_nest_text(operation, x) for x in nest)})" if isinstance(nest, _Nest) \
        else str(nest)
