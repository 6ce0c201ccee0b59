"""Updates: expressions that combine what is written with something else, ``h[i] + w`` for ``h[i]``."""
from __future__ import annotations

from collections.abc import Mapping

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.build import product_of, sum_of

#: The reduction operations by the expressions that combine two values so.
_OPERATIONS: Mapping[type, str] = {
    p.Sum: "sum", p.Product: "product", p.Min: "min", p.Max: "max", p.LogicalAnd: "all", p.LogicalOr: "any"}


def update_of(target: Expression, expression: Expression) -> tuple[str, Expression] | None:
    """The reduction operation and its operand, if *expression* is *target* combined with an operand; else ``None``.

    >>> h, w = p.Variable("h"), p.Variable("w")
    >>> update_of(h, sum_of(h, w, 1))
    ('sum', Sum((Variable('w'), 1)))
    >>> update_of(h, product_of(2, w)) is None
    True
    """
    name = _OPERATIONS.get(type(expression))
    if name is None:
        return None
    assert isinstance(expression, p.Sum | p.Product | p.Min | p.Max | p.LogicalAnd | p.LogicalOr)
    at = next((i for i, e in enumerate(expression.children) if e == target), None)
    if at is None:
        return None
    rest = (*expression.children[:at], *expression.children[at + 1:])
    if len(rest) == 1:
        return name, rest[0]
    match expression:
        case p.Sum():
            return name, sum_of(*rest)
        case p.Product():
            return name, product_of(*rest)
        case _:
            return name, type(expression)(rest)
