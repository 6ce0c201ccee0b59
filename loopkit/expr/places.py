"""Subscripts of elements that are named by their places: ``a[[i*n + j]]`` is ``a[i, j]`` if ``a`` has n columns."""
from __future__ import annotations

from collections.abc import Sequence

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import add, floor_div, multiply, remainder


def subscripts_at(place: Expression, shape: Sequence[Expression]) -> tuple[Expression, ...]:
    """The subscripts of the element at *place* of an array of this *shape* in C order.

    The terms of *place* that an extent divides count the steps of the slower axes. The place of the subscripts is
    always *place*; checks of bounds decide whether each of them is within its axis.

    >>> i, j, n = map(p.Variable, "ijn")
    >>> print(*subscripts_at((i*n + j)*4 + 3, (n, n, 4)), sep=", ")
    i, j, 3
    >>> print(*subscripts_at(i, (n, 4)), sep=", ")
    i // 4, i % 4
    """
    *outer, last = shape
    if not outer:
        return (place,)
    steps, own = list[Expression](), list[Expression]()
    for term in place.children if isinstance(place, p.Sum) else (place,):
        divided = _without_factor(term, last)
        (own if divided is None else steps).append(term if divided is None else divided)
    if not steps and isinstance(last, int):
        return (*subscripts_at(floor_div(place, last), outer), remainder(place, last))
    return (*subscripts_at(add(0, *steps), outer), add(0, *own))


def _without_factor(term: Expression, by: Expression) -> Expression | None:
    """``term / by``; ``None``: *by* is not a factor of *term*."""
    if isinstance(by, p.Product):
        for factor in by.children:
            found = _without_factor(term, factor)
            if found is None:
                return None
            term = found
        return term
    if isinstance(term, int) or not isinstance(term, p.Product):
        return term // by if isinstance(term, int) and isinstance(by, int) and term % by == 0 else \
            1 if term == by else None
    for k, factor in enumerate(term.children):
        divided = _without_factor(factor, by)
        if divided is not None:
            rest: Expression = 1
            for other in (*term.children[:k], divided, *term.children[k + 1:]):
                rest = multiply(rest, other)
            return rest
    return None
