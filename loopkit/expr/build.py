"""Arithmetic nodes of any expressions.

pymbolic's types keep truth values out of arithmetic; the kernel language allows them there, as C and numpy do. These
functions convert between the two.
"""
from __future__ import annotations

from typing import cast

import pymbolic.primitives as p
from pymbolic.typing import ArithmeticExpression, Expression


def sum_of(*terms: Expression) -> p.Sum:
    """``a + b + ...``, as one node."""
    return p.Sum(cast("tuple[ArithmeticExpression, ...]", terms))


def product_of(*factors: Expression) -> p.Product:
    """``a * b * ...``, as one node."""
    return p.Product(cast("tuple[ArithmeticExpression, ...]", factors))


def quotient(a: Expression, b: Expression) -> p.Quotient:
    """``a / b``."""
    return p.Quotient(cast("ArithmeticExpression", a), cast("ArithmeticExpression", b))


def floor_div(a: Expression, b: Expression) -> p.FloorDiv:
    """``a // b``."""
    return p.FloorDiv(cast("ArithmeticExpression", a), cast("ArithmeticExpression", b))


def remainder(a: Expression, b: Expression) -> p.Remainder:
    """``a % b``."""
    return p.Remainder(cast("ArithmeticExpression", a), cast("ArithmeticExpression", b))


def power(a: Expression, b: Expression) -> p.Power:
    """``a ** b``."""
    return p.Power(cast("ArithmeticExpression", a), cast("ArithmeticExpression", b))


# {{{ nodes in normal form: sums and products flat on the left, signs in the leading constant

def sum_onto(left: Expression, right: Expression) -> Expression:
    """``left + right`` with *left*'s terms taken in."""
    return sum_of(*left.children, right) if isinstance(left, p.Sum) else sum_of(left, right)


def product_onto(left: Expression, right: Expression) -> Expression:
    """``left * right`` with *left*'s factors taken in."""
    return product_of(*left.children, right) if isinstance(left, p.Product) else product_of(left, right)


def logical_onto(node: type[p.LogicalAnd | p.LogicalOr], left: Expression, right: Expression) -> Expression:
    """``left and right`` (or ``or``) with *left*'s parts taken in."""
    return node((*left.children, right)) if isinstance(left, node) else node((left, right))


def negated(expr: Expression) -> Expression:
    """``-expr`` with the sign in the leading constant: ``-2*x`` for ``2*x``, ``-1*x`` for ``x``."""
    if isinstance(expr, p.Product):
        first, *rest = expr.children
        if isinstance(first, int | float | complex) and not isinstance(first, bool):
            if first == -1 and isinstance(first, int):
                return rest[0] if len(rest) == 1 else p.Product(tuple(rest))
            return p.Product((-first, *rest))
        return p.Product((-1, *expr.children))
    if isinstance(expr, int | float | complex) and not isinstance(expr, bool):
        return -expr
    return product_of(-1, expr)

# }}}
