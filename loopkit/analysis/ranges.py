"""The values of inames, with what the assumptions say of sizes: all steps and stages ask here, so that they agree."""
from __future__ import annotations

from contextlib import suppress

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.affine import NotAffineError, subtract
from loopkit.poly.limits import kept
from loopkit.poly.sets import InstanceSet, Set, equalities

#: No parameter of a kernel is called so.
_VALUE = "value'"


def constant_range(knl: LoopKernel, domain: InstanceSet, iname: str) -> tuple[int | None, int | None]:
    """The smallest and largest value of *iname* in *domain* for all sizes, where they are bounded.

    A size that the assumptions fix is a number here. One that they only bound stays a size: an iname below an *n* of
    at most 8 has as many values as *n*, and what needs a number of them is refused.
    """
    return with_known_sizes(knl, domain).constant_range(iname)


def with_known_sizes(knl: LoopKernel, domain: InstanceSet) -> InstanceSet:
    """*domain* under the equalities of sizes that the assumptions state or imply, ``p = 4`` or ``n = m + 4``."""
    sizes = known_sizes(knl)
    if sizes.plain_is_universe():
        return domain
    memo = knl.memo.setdefault("with_known_sizes", {})        # the first of each entry keeps its id alive
    both: tuple[InstanceSet, InstanceSet] = kept(memo, id(domain), lambda: (domain, domain.intersect_params(sizes)))
    return both[1]


def known_sizes(knl: LoopKernel) -> Set:
    """The equalities of sizes, and nothing else, that hold for all sizes which the assumptions allow."""
    if knl.whole is not None:
        return knl.whole.known_sizes
    return kept(knl.memo, "known_sizes", lambda: equalities(knl.assumptions))


def known_value(knl: LoopKernel, expr: Expression) -> Expression:
    """*expr*, a form of sizes, or the number that it is for all sizes which the assumptions allow."""
    if isinstance(expr, int) or known_sizes(knl).plain_is_universe():
        return expr
    points = InstanceSet((), known_sizes(knl).from_params())
    with suppress(NotAffineError):
        low, high = points.onto((_VALUE,)).where(("==", subtract(expr, p.Variable(_VALUE)))).constant_range(_VALUE)
        return low if low is not None and low == high else expr
    return expr
