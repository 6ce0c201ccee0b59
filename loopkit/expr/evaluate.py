"""Integer expressions of shapes, grids and bounds, compiled to closures that a call can afford."""
from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, reduce

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.mappers import children
from loopkit.poly.affine import TruncatedQuotient, TruncatedRemainder

#: Parameter values in, the expression's value out.
Evaluator = Callable[[Mapping[str, int]], int]

COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

#: The functions of the language that give an integer for an integer.
_OF_INTEGERS: Mapping[str, Callable[[int], int]] = {
    "abs": abs, "imag": lambda x: 0, **dict.fromkeys(("floor", "ceil", "round", "rint", "trunc", "real", "conj"),
                                                     lambda x: x)}


class NoValueError(Exception):
    """An expression has no value: it is not integer arithmetic, or one of its names has no value."""


class _KnownValues(dict[str, int]):
    def __missing__(self, name: str) -> int:
        raise NoValueError(name)


def evaluate(expr: Expression, values: Mapping[str, int]) -> int:
    """The value of an integer expression as generated texts compute it: ``//`` and ``%`` round down, but for C's nodes.

    >>> import pymbolic.primitives as p
    >>> evaluate(p.FloorDiv(p.Sum((p.Variable("n"), 15)), 16), {"n": 100})
    7

    :raises KeyError: a name of *expr* has no value in *values*.
    :raises NoValueError: the value depends on a node that is not integer arithmetic.
    """
    return evaluator(expr)(values)


def known_value(expr: Expression, values: Mapping[str, int]) -> int | None:
    """:func:`evaluate`; ``None`` where a name has no value in *values*, or *expr* is not integer arithmetic."""
    try:
        return int(evaluator(expr)(_KnownValues(values)))
    except NoValueError:
        return None


@lru_cache(maxsize=4096)
def evaluator(expr: Expression) -> Evaluator:
    """*expr* as a function of parameter values, which raises NoValueError at a node that is not integer arithmetic."""
    shifted = parameter_plus_constant(expr)
    if shifted is not None:
        name, constant = shifted
        return lambda values: values[name] + constant
    match expr:
        case int():
            constant = int(expr)
            return lambda values: constant
        case p.Sum() | p.Product() | p.Min() | p.Max() | p.LogicalAnd() | p.LogicalOr() | p.LogicalNot():
            combine, parts = _OF_SEVERAL[type(expr)], [evaluator(e) for e in children(expr)]
            return lambda values: combine(part(values) for part in parts)
        case p.FloorDiv() | p.Remainder():
            return _binary(_DIVISIONS[type(expr)], expr.numerator, expr.denominator)
        case p.LeftShift() | p.RightShift():
            return _binary(left_shift if isinstance(expr, p.LeftShift) else right_shift, expr.shiftee, expr.shift)
        case p.BitwiseAnd() | p.BitwiseOr() | p.BitwiseXor():
            operation, parts = _OF_BITS[type(expr)], [evaluator(e) for e in children(expr)]
            return lambda values: reduce(operation, [part(values) for part in parts])
        case p.BitwiseNot(child=child):
            inverted = evaluator(child)
            return lambda values: ~inverted(values)
        case p.Comparison(left=left, operator=op, right=right):
            return _binary(COMPARE[str(op)], left, right)
        case p.If():
            test, yes, no = map(evaluator, (expr.condition, expr.then, expr.else_))
            return lambda values: yes(values) if test(values) else no(values)
        case p.Power(base=base, exponent=int() as exponent) if exponent >= 0:
            return _binary(operator.pow, base, exponent)
        case p.Call(function=p.Variable(name=name), parameters=(operand,)) if name in _OF_INTEGERS:
            f, inner = _OF_INTEGERS[name], evaluator(operand)
            return lambda values: f(inner(values))
        case _:
            # a branch that is not taken needs no value
            def no_value(values: Mapping[str, int]) -> int:
                raise NoValueError(f"{expr!r} is not integer arithmetic")
            return no_value


def truncated_quotient(a: int, b: int) -> int:
    """C's ``a / b``."""
    return a // b if (a < 0) == (b < 0) else -(-a // b)


def truncated_remainder(a: int, b: int) -> int:
    """C's ``a % b``."""
    return a - b*truncated_quotient(a, b)


def left_shift(a: int, bits: int) -> int:
    """``a << bits`` of numpy's int64: 0 if *bits* is not a place of 64 bits."""
    return a << bits if 0 <= bits < 64 else 0


def right_shift(a: int, bits: int) -> int:
    """``a >> bits`` of numpy's int64: the sign if *bits* is not a place of 64 bits."""
    return a >> (bits if 0 <= bits < 64 else 64)


def parameter_plus_constant(expr: Expression) -> tuple[str, int] | None:
    """``(n, c)`` where *expr* is the variable ``n`` plus the integer ``c``, else ``None``."""
    terms = expr.children if isinstance(expr, p.Sum) else (expr,)
    names = [t.name for t in terms if isinstance(t, p.Variable)]
    constants = [t for t in terms if isinstance(t, int)]
    return (names[0], sum(constants)) if len(names) == 1 and len(constants) == len(terms) - 1 else None


def _binary(f: Callable[[int, int], int], left: Expression, right: Expression) -> Evaluator:
    a, b = evaluator(left), evaluator(right)
    return lambda values: int(f(a(values), b(values)))


_OF_SEVERAL: Mapping[type, Callable[[Iterable[int]], int]] = {
    p.Sum: sum, p.Product: math.prod, p.Min: min, p.Max: max,
    p.LogicalAnd: lambda parts: int(all(parts)), p.LogicalOr: lambda parts: int(any(parts)),
    p.LogicalNot: lambda parts: int(not any(parts))}

_OF_BITS: Mapping[type, Callable[[int, int], int]] = {
    p.BitwiseAnd: operator.and_, p.BitwiseOr: operator.or_, p.BitwiseXor: operator.xor}

_DIVISIONS: Mapping[type, Callable[[int, int], int]] = {
    TruncatedQuotient: truncated_quotient, TruncatedRemainder: truncated_remainder,
    p.FloorDiv: operator.floordiv, p.Remainder: operator.mod}
