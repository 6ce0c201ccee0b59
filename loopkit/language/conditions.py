"""Conditions of the text: affine parts narrow the instance set, the others are tested at each instance."""
from __future__ import annotations

from collections.abc import Collection

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.mappers import conjuncts
from loopkit.poly.domains import is_affine_condition
from loopkit.poly.piecewise import is_affine_condition

_NEGATED = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def split(condition: Expression, names: Collection[str]) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    """The conjuncts of *condition* that are affine in *names*, and the others."""
    affine = tuple(c for c in conjuncts(condition) if is_affine_condition(c, names))
    return affine, tuple(c for c in conjuncts(condition) if c not in affine)


def opposite(condition: Expression, names: Collection[str]) -> Expression:
    """The negation of *condition*. Comparisons that are affine in *names* are inverted; others may compare a NaN."""
    if isinstance(condition, p.Comparison) and is_affine_condition(condition, names):
        return p.Comparison(condition.left, _NEGATED[condition.operator], condition.right)
    return condition.child if isinstance(condition, p.LogicalNot) else p.LogicalNot(condition)
