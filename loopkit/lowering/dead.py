"""Dead statements: those that never run, or whose values nothing reads, leave the kernel before storage allocation."""
from __future__ import annotations

from dataclasses import replace

from loopkit.analysis.accesses import accesses_of, analysis_domain
from loopkit.analysis.constructors import reindexed
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import leaves, without


def without_dead_statements(knl: LoopKernel) -> LoopKernel:
    """*knl* without statements that have no instance, and without writes to temporaries that no other one reads."""
    while True:
        # updates alone do not make an array live
        read = frozenset(a.array for s in knl.statements for a in accesses_of(knl, s)
                         if not a.is_write and a.array != s.written)
        dead = frozenset(s.id for s in knl.statements if analysis_domain(knl, s).is_empty()
                         or (s.written in knl.temporaries and s.written not in read))
        if not dead:
            return knl
        tree = without(knl.tree, dead)
        alive = frozenset(leaves(tree))
        reductions = {name: replace(node, updates=tuple(s for s in node.updates if s in alive))
                      for name, node in knl.reductions.items() if {node.init, node.final} <= alive}
        knl = reindexed(
            knl, dict.fromkeys(knl.statement_by_id.keys() - alive, ()),
            statements=tuple(s for s in knl.statements if s.id in alive), tree=tree,
            temporaries={k: t for k, t in knl.temporaries.items() if k in read},
            reductions={name: node for name, node in reductions.items() if node.updates})
