"""Updates: expressions that combine what is written with something else, ``h[i] + w`` for ``h[i]``."""
from __future__ import annotations

from pymbolic.typing import Expression

from loopkit.expr.mappers import children, with_children
from loopkit.expr.nodes import COMBINED, REDUCTIONS

#: The reductions by the nodes of their operations.
_REDUCTIONS = {COMBINED[operation.combine]: name for name, operation in REDUCTIONS.items()}


def update_of(target: Expression, expression: Expression) -> tuple[str, Expression] | None:
    """The reduction operation and its operand, if *expression* is *target* combined with an operand; else ``None``.

    >>> import pymbolic.primitives as p
    >>> h, w = map(p.Variable, "hw")
    >>> update_of(h, p.Sum((h, w, 1)))
    ('sum', Sum((Variable('w'), 1)))
    >>> update_of(h, 2*w) is None
    True
    """
    name, operands = _REDUCTIONS.get(type(expression)), list(children(expression))
    if name is None or target not in operands:
        return None
    operands.remove(target)
    return name, operands[0] if len(operands) == 1 else with_children(expression, tuple(operands))
