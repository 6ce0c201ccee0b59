"""Subscripts are integers: every value read in a subscript is converted to the index type before it is used.

So a subscript has the value that its text has for integers, whatever the dtypes of the values read. No step can change
that by moving terms or by replacing a size by a literal.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.dtypes import INT32, INT64, Lookup, Type, Weak, join, rank_of, resolve, type_of
from loopkit.expr.intervals import Interval, interval, is_linear, of_dtype
from loopkit.expr.kinds import is_tuple
from loopkit.expr.mappers import children, map_children, subexpressions
from loopkit.expr.nodes import TypeCast
from loopkit.poly.affine import from_aff, if_affine, to_aff

#: The type of an expression; ``None`` where it is not known yet.
Typed = Callable[[Expression], Type | None]


def as_index(expr: Expression, typed: Typed, index: np.dtype) -> Expression:
    """The subscript *expr* with all values read in it converted to integers of the dtype *index*.

    An explicit cast keeps its value, and its operand is computed as in any expression. An operation that depends on
    more than the last 32 bits of its operands gets operands of 64 bits if these may need them.

    >>> from loopkit.expr.dtypes import type_of
    >>> types = {"s": np.dtype("uint8"), "t": np.dtype("int32"), "i": Weak(1, np.dtype("int32"))}
    >>> s, t, i = map(p.Variable, types)
    >>> for e in (s + i, s*4, i, (s + 1)//2, (t + 1)//2, TypeCast("uint8", s + 200)):
    ...     print(as_index(e, lambda e: type_of(e, types.get), np.dtype("int32")))
    cast(int32, s) + i
    cast(int32, s)*4
    i
    (cast(int32, s) + 1) // 2
    (cast(int64, t) + 1) // 2
    cast(int32, cast(uint8, s + 200))
    """
    def convert(e: Expression) -> Expression:
        return as_index(e, typed, index)

    def exact(e: Expression) -> Expression:
        if index == INT64 or _is_no_integer(e, typed):
            return convert(e)
        # sizes for which a linear form is too long get a text of 64 bits
        if is_linear(e) if of_sizes(e) else interval(e, leaf).inside(INT32):
            return convert(e)
        wide = as_index(e, typed, INT64)
        return TypeCast("int64", wide) if isinstance(typed(wide), Weak) else wide

    def of_sizes(e: Expression) -> bool:
        return not any(isinstance(part, p.Variable | p.Subscript | TypeCast) and not isinstance(typed(part), Weak)
                       for part in subexpressions(e))

    def leaf(e: Expression) -> Interval:
        found = typed(e)
        return of_dtype(INT64 if found is None or rank_of(found) != 1 else resolve(found))
    match expr:
        case p.Variable() | p.Subscript() | p.Lookup() | TypeCast():
            # sizes and inames already are indices
            given = typed(expr)
            if isinstance(given, Weak) or (given is not None and (rank_of(given) != 1 or given == index)):
                return expr
            if given is not None and isinstance(expr, TypeCast) and isinstance(expr.child, int) \
                    and of_dtype(given).holds(expr.child):
                return expr.child
            return TypeCast(index.name, expr)
        case p.Sum() | p.Product() | p.Power(exponent=int()) | p.LogicalAnd() | p.LogicalOr() | p.LogicalNot() \
                | p.BitwiseAnd() | p.BitwiseOr() | p.BitwiseXor() | p.BitwiseNot():
            return map_children(expr, convert)
        case p.If(condition=condition):
            return map_children(expr, lambda e: exact(e) if e is condition else convert(e))
        case p.FloorDiv() | p.Remainder() | p.Min() | p.Max() | p.Comparison() | p.Call() | p.Power() \
                | p.LeftShift() | p.RightShift():
            return expr if is_of_values(expr, typed) else map_children(expr, exact)
        case _:
            return expr


def short_index(i: Expression) -> Expression:
    """The index *i* without the quotients and the remainders that it does not need.

    >>> n, x = p.Variable("n"), p.Variable("x")
    >>> print(short_index(8*((n + 7)//8) - 8*((n - 1)//8) + x))
    x + 8
    """
    def divides(i: Expression) -> bool:
        return any(isinstance(e, p.FloorDiv | p.Remainder) for e in subexpressions(i))
    found = if_affine(lambda: from_aff(to_aff(i, ()))) if divides(i) else None
    return i if found is None or divides(found) else found


def is_of_values(expr: Expression, typed: Typed) -> bool:
    """Are the operands of *expr*, a part of a subscript, ordinary values and not indices?

    Those of a cast are, and real ones: what compares them is a truth value.
    """
    if isinstance(expr, TypeCast):
        return True
    if not isinstance(expr, p.Comparison | p.Call):
        return False
    known = [t for e in children(expr) if (t := typed(e)) is not None]
    return bool(known) and rank_of(reduce(join, known)) > 1 and any(_is_no_integer(e, typed) for e in children(expr))


def _is_no_integer(expr: Expression, typed: Typed) -> bool:
    """Is a part of a subscript no integer? As a value an int8 and a uint64 are a float64 together, as indices not."""
    given = typed(expr)
    if given is not None and is_tuple(resolve(given)):
        return True
    if given is not None and rank_of(given) > 1:
        given = typed(as_index(expr, typed, INT64))
    return given is not None and rank_of(given) != 1


def index_value(expr: Expression, typed: Typed) -> Expression:
    """A part of a subscript as a separate value: an int64 if it is computed, else the value read.

    >>> types = {"s": np.dtype("uint8")}
    >>> for e in (p.Variable("s"), p.Variable("s")*4):
    ...     print(index_value(e, lambda e: type_of(e, types.get)))
    s
    cast(int64, s)*4
    """
    if isinstance(expr, p.Variable | p.Subscript | p.Lookup | TypeCast) or _is_no_integer(expr, typed):
        return expr
    index = as_index(expr, typed, INT64)
    return index if typed(index) == INT64 else TypeCast("int64", index)


def index_type(expr: Expression, lookup: Lookup) -> Type | None:
    """The type of a subscript, in which integers of all dtypes are indices; ``None`` if it is not known yet.

    >>> str(index_type(p.Variable("s") + p.Variable("u"), {"s": np.dtype("int32"), "u": np.dtype("uint64")}.get))
    'int64'
    """
    def typed(e: Expression) -> Type | None:
        return type_of(e, lookup)
    return typed(as_index(expr, typed, INT64))
