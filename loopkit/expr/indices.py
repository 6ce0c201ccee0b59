"""Subscripts are integers: what inames and sizes take part in is as wide as an index, whatever is read beside them."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.dtypes import Type, Weak, rank_of
from loopkit.expr.kinds import promote
from loopkit.expr.mappers import map_children
from loopkit.expr.nodes import TypeCast

#: The type of an expression.
Typed = Callable[[Expression], Type]


def as_index(expr: Expression, typed: Typed, index: np.dtype) -> Expression:
    """The subscript *expr* as an integer of the dtype *index*, or one that adapts to it.

    A value that was read is converted before it meets an iname or a size, of which nothing is cut off then. What is
    computed from such values and literals alone is computed in their dtype, as everywhere.

    >>> from loopkit.expr.dtypes import type_of
    >>> types = {"s": np.dtype("uint8"), "i": Weak(1, np.dtype("int32"))}
    >>> s, i = p.Variable("s"), p.Variable("i")
    >>> for e in (p.Sum((s, i)), p.Product((s, 4)), i):
    ...     print(as_index(e, lambda e: type_of(e, types.get), np.dtype("int32")))
    cast(int32, s) + i
    cast(int32, s*4)
    i
    """
    if isinstance(typed(expr), Weak):
        return expr
    found = widened(expr, typed, index)
    given = typed(found)
    return found if isinstance(given, Weak) or rank_of(given) != 1 or given == index else TypeCast(index.name, found)


def widened(expr: Expression, typed: Typed, index: np.dtype) -> Expression:
    """*expr* with conversions of what was read where inames or sizes stand beside it."""
    match expr:
        case p.Sum() | p.Product():
            # in any order, and multiplied out: a sum of products is one operation
            mixed = _has_sizes(expr, typed)
            return map_children(expr, lambda e: _term(e, typed, index, mixed=mixed))
        case p.Min() | p.Max():
            mixed = any(_is_size(e, typed) for e in expr.children)
        case p.FloorDiv() | p.Remainder():
            mixed = _is_size(expr.numerator, typed) or _is_size(expr.denominator, typed)
        case p.If(condition=condition, then=then, else_=else_):
            mixed = _is_size(then, typed) or _is_size(else_, typed)
            return map_children(expr, lambda e: e if e is condition else _operand(e, typed, index, mixed=mixed))
        case p.Power():
            mixed = _is_size(expr.base, typed) or _is_size(expr.exponent, typed)
        case _:
            return expr
    return map_children(expr, lambda e: _operand(e, typed, index, mixed=mixed))


def _term(expr: Expression, typed: Typed, index: np.dtype, *, mixed: bool) -> Expression:
    if isinstance(expr, p.Sum | p.Product):
        return map_children(expr, lambda e: _term(e, typed, index, mixed=mixed))
    return _operand(expr, typed, index, mixed=mixed)


def _operand(expr: Expression, typed: Typed, index: np.dtype, *, mixed: bool) -> Expression:
    """An operand; if *mixed*, of an operation of which another one is an iname or a size."""
    found = widened(expr, typed, index)
    given = typed(found)
    if not mixed or isinstance(given, Weak) or given.kind not in "iu" or given.itemsize == 8:
        return found
    wide = promote(index, given)
    return found if wide == given else TypeCast(wide.name, found)


def _has_sizes(expr: Expression, typed: Typed) -> bool:
    if isinstance(expr, p.Sum | p.Product):
        return any(_has_sizes(e, typed) for e in expr.children)
    return _is_size(expr, typed)


def _is_size(expr: Expression, typed: Typed) -> bool:
    """Is *expr* an integer of inames and sizes, and no literal?"""
    given = typed(expr) if isinstance(expr, p.ExpressionNode) else None
    return isinstance(given, Weak) and given.rank == 1
