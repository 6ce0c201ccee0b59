"""Constructors of sums, products and differences of any expressions.

pymbolic's types keep truth values out of arithmetic; the kernel language allows them there, as C and numpy do. These
functions convert between the two.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pymbolic.primitives as p
from pymbolic.typing import ArithmeticExpression, Expression


def sum_of(*terms: Expression) -> p.Sum:
    """``a + b + ...``, as one node."""
    return p.Sum(cast("tuple[ArithmeticExpression, ...]", terms))


def product_of(*factors: Expression) -> p.Product:
    """``a * b * ...``, as one node."""
    return p.Product(cast("tuple[ArithmeticExpression, ...]", factors))


def onto(node: Callable[[Any], Expression], left: Expression, right: Expression) -> Expression:
    """``left + right`` (or another operation of several operands) with the operands of *left* taken in."""
    taken_in = left.children if isinstance(left, p.Sum | p.Product | p.LogicalAnd | p.LogicalOr) \
        and type(left) is node else (left,)
    return node((*taken_in, right))


def negated(expr: Expression) -> Expression:
    """``-expr`` with the sign in the leading constant: ``-2*x`` for ``2*x``, ``-1*x`` for ``x``."""
    first, *rest = expr.children if isinstance(expr, p.Product) else (expr,)
    if not isinstance(first, int | float | complex) or isinstance(first, bool):
        return product_of(-1, first, *rest)
    if not rest:
        return -first
    if first == -1 and isinstance(first, int):
        return rest[0] if len(rest) == 1 else product_of(*rest)
    return product_of(-first, *rest)
