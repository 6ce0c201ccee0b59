"""Lanes that a domain cuts off a vector, as at the ends of rows.

Nobody computes them. Their elements may be loaded with the others all the same, where they are in the array.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.ranges import constant_range
from loopkit.ast.nodes import DivisibleSize
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import Leaf, Loop, Seq, Tree
from loopkit.poly.affine import NotAffineError, remainder, subtract
from loopkit.poly.piecewise import params_where
from loopkit.poly.sets import InstanceSet, params_of


@dataclass(frozen=True)
class CutLanes:
    """The lanes *low* to *high* of a statement along *iname*, of which *domain* has not all.

    :ivar vectors: the places at which it has one at least.
    """

    iname: str
    low: int
    high: int
    domain: InstanceSet
    vectors: InstanceSet

    def are_cut(self, given: Sequence[DivisibleSize]) -> bool:
        """Is a lane missing somewhere, although *given* holds?"""
        x = p.Variable(self.iname)
        lanes = self.vectors.onto(self.domain.inames).where((">=", subtract(x, self.low)),
                                                            ("<=", subtract(x, self.high)))
        return not lanes.subtract(self.domain).where(*_conditions(given)).is_empty()

    def lie_in(self, extent: Expression, first: Expression, last: Expression, given: Sequence[DivisibleSize]) -> bool:
        """Is every vector from the subscript *first* to *last* in an axis of *extent* elements, if *given* holds?"""
        return all(self.have_none(*_conditions(given), beyond)
                   for beyond in (("<", first), (">=", subtract(last, extent))))

    def have_none(self, *conditions: tuple[str, Expression], where: Sequence[Expression] = ()) -> bool:
        """Is there no vector at which all *conditions* hold, among those at which what is affine of *where* does?"""
        places = self.places(*conditions, where=where)
        return places is not None and places.is_empty()

    def places(self, *conditions: tuple[str, Expression], where: Sequence[Expression] = ()) -> InstanceSet | None:
        """The vectors at which all *conditions* hold, and what is affine of *where*, as parameters.

        ``None`` if a condition is no affine form.
        """
        try:
            places = InstanceSet((), params_of(self.vectors).from_params()).where(*conditions)
        except NotAffineError:
            return None
        for condition in where:
            if places.is_empty():
                break
            with suppress(NotAffineError):
                places = places.intersect_params(params_where(condition))
        return places


def lanes_of(knl: LoopKernel, domain: InstanceSet, iname: str) -> CutLanes | None:
    """The lanes of *domain* along *iname*, if they are some constant number; ``None`` also where none is cut off."""
    low, high = constant_range(knl, domain, iname)
    if low is None or high is None:
        return None
    domain = domain.intersect_params(knl.assumptions)
    lanes = CutLanes(iname, low, high, domain, domain.onto([x for x in domain.inames if x != iname]))
    return lanes if lanes.are_cut(()) else None


def loops_of_one(tree: Tree, inames: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Each of *inames* whose loop is around one statement and nothing else, with that statement."""
    match tree:
        case Loop(iname, Leaf(statement)) if iname in inames:
            yield iname, statement
        case Loop(_, body):
            yield from loops_of_one(body, inames)
        case Seq(children):
            for child in children:
                yield from loops_of_one(child, inames)
        case _:
            pass


def _conditions(given: Sequence[DivisibleSize]) -> list[tuple[str, Expression]]:
    return [("==", remainder(g.size, g.divisor)) for g in given]
