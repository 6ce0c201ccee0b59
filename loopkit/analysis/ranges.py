"""Value ranges of inames for all sizes; of the assumptions only equalities count."""
from __future__ import annotations

from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.limits import kept_by_kernel
from loopkit.poly.sets import InstanceSet, Set, equalities


def constant_range(knl: LoopKernel, domain: InstanceSet, iname: str) -> tuple[int | None, int | None]:
    """The least and the greatest value of *iname* in *domain* for all sizes; ``None`` if unbounded.

    A size counts as a number if the assumptions fix it, and not if they only bound it: an iname below an *n* of at
    most 8 has *n* values, and a step that needs a constant extent refuses it.
    """
    return with_known_sizes(knl, domain).constant_range(iname)


def with_known_sizes(knl: LoopKernel, domain: InstanceSet) -> InstanceSet:
    """*domain* with the equalities of sizes that the assumptions state or imply, ``p = 4`` or ``n = m + 4``."""
    sizes = known_sizes(knl)
    return domain if sizes.plain_is_universe() else domain.intersect_params(sizes)


@kept_by_kernel
def known_sizes(knl: LoopKernel) -> Set:
    """The equalities of sizes, and no other constraints, that the assumptions imply."""
    return equalities(knl.assumptions) if knl.whole is None else knl.whole.known_sizes
