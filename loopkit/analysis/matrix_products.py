"""Statements whose operands the lanes of a warp may load for each other."""
from __future__ import annotations

from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import MmaTag


def product_inames(knl: LoopKernel, s: Statement) -> tuple[str, ...]:
    """The inames of *s* with the tag ``mma``, if it adds up products; ``()`` of all other statements."""
    node = knl.reductions.get(s.reduction or "")
    if node is None or s.id not in node.updates:
        return ()
    return tuple(x for x in s.inames if isinstance(knl.tags.get(x), MmaTag))


def is_product(knl: LoopKernel, s: Statement) -> bool:
    """May what an instance of *s* reads be loaded by any lane of its warp?"""
    return bool(product_inames(knl, s))
