"""fuse_loops: adjacent loops become one."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import pymbolic.primitives as p

from loopkit.analysis.constructors import annotated
from loopkit.analysis.dependences import dependences, shared_loops
from loopkit.analysis.legality import require_legal
from loopkit.analysis.order import execution_paths, meeting_of
from loopkit.errors import NameConflictError, PreconditionError, ScheduleError
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import Loop, Seq, Tree, leaves, rewrite, seq
from loopkit.poly.relations import in_one_iteration
from loopkit.transform.reindex import Reindexing, reindex_each, require_shared_inames
from loopkit.transform.step import iname_list, matching_statements, require_fresh, transform


@transform
def fuse_loops(kernel: LoopKernel, inames: str | Iterable[str], new_iname: str | None = None, *,
               within: str | Collection[str] | None = None, assume: str | None = None,
               unsafe: bool = False) -> LoopKernel:
    """Fuse the adjacent loops over *inames* into one loop.

    Their bounds may differ: the fused loop runs through the union of their ranges, and each statement keeps its range.
    Statements between the loops that depend on the first of them, in the same iteration of the enclosing loops, move
    behind the fused loop; the others move in front of it. All groups of adjacent loops over all of *inames* are fused.
    To fuse the loops inside, call it once more.

    :arg inames: names; a single one fuses several loops of that name.
    :arg new_iname: the iname of the fused loop; default: the first of *inames*.
    :arg within: only loops around one of these statements; default: all.
    :raises UnknownNameError: one of them is no iname.
    :raises PreconditionError: their tags differ.
    :raises NameConflictError: a statement has an inner loop of the new name, or the name is taken.
    :raises ScheduleError: no such loops are adjacent.
    :raises IllegalTransformError: a dependence would be broken; with its witness.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 1<=j<=n}", '''
    ...     b[i] = 2*a[i]  {id=first}
    ...     c[j] = b[j-1]  {id=second}
    ...     ''')
    >>> print(knl.statements_text)
    for i
      b[i] = 2*a[i]  {id=first}
    end
    for j
      c[j] = b[j - 1]  {id=second}
    end
    >>> print(lk.fuse_loops(knl, ["i", "j"]).statements_text)
    for i
      b[i] = 2*a[i]  {id=first}
      c[i] = b[i - 1]  {id=second}
    end
    """
    names = tuple(dict.fromkeys(iname_list(kernel, inames)))
    if not names:
        raise PreconditionError("fuse_loops needs an iname.", subject="inames")
    _require_one_tag(kernel, names)
    new = new_iname if new_iname is not None else names[0]
    if new not in names:
        require_fresh(kernel, new)
    fusion = _Fusion(kernel, names, new, matching_statements(kernel, within))
    tree = rewrite(kernel.tree, fusion.at)
    if tree is kernel.tree:
        raise _not_side_by_side(names)
    result = _renamed(kernel, fusion, tree)
    require_shared_inames(result, f"fuse_loops({', '.join(names)})")
    return require_legal(result, f"fuse_loops({', '.join(names)})", assume=assume, unsafe=unsafe)


@dataclass
class _Fusion:
    """The fusion of loops into loops over *new*; *owners*: the statements in fused loops, by their former iname."""

    kernel: LoopKernel
    names: tuple[str, ...]
    new: str
    chosen: frozenset[str]
    owners: dict[str, set[str]] = field(default_factory=dict)

    def at(self, node: Tree) -> Tree:
        """*node* with its loops fused, if it is a sequence with loops over all of *names*."""
        if not isinstance(node, Seq):
            return node
        loops = [c for c in node.children if isinstance(c, Loop) and c.iname in self.names
                 and not self.chosen.isdisjoint(leaves(c))]
        if len(loops) < 2 or {loop.iname for loop in loops} != set(self.names):
            return node
        for loop in loops:
            self.owners.setdefault(loop.iname, set()).update(leaves(loop))
        first, end = node.children.index(loops[0]), node.children.index(loops[-1]) + 1
        before, after = list[Tree](), list[Tree]()
        late = set[str]()                       # statements no earlier than the new loop
        for child in node.children[first:end]:
            inside = frozenset(leaves(child))
            if child not in loops and not self._depends(inside, late):
                before.append(child)
                continue
            late |= inside
            if child not in loops:
                after.append(child)
        fused = Loop(self.new, seq(*(loop.body for loop in loops)))
        return seq(*node.children[:first], *before, fused, *after, *node.children[end:])

    def _depends(self, sinks: Collection[str], sources: Collection[str]) -> bool:
        """Must one of *sinks* run after one of *sources* in the same iteration of their shared loops?"""
        def binds(d: Dependence) -> bool:
            where = meeting_of(execution_paths(self.kernel), d.source, d.sink)
            loops = shared_loops(self.kernel, d.source, d.sink, where.loops)
            return not in_one_iteration(d.relation, loops).is_empty()
        return any(d.source in sources and d.sink in sinks and binds(d) for d in dependences(self.kernel))


def _renamed(kernel: LoopKernel, fusion: _Fusion, tree: Tree) -> LoopKernel:
    """*kernel* in the order *tree*, with the new iname for that of each fused loop."""
    new, tag = fusion.new, kernel.tags.get(fusion.names[0])
    steps: dict[str, Reindexing] = {}
    for old, owners in fusion.owners.items():
        step = Reindexing((old,), (new,), {old: p.Variable(new)})
        for s in sorted(owners) if old != new else ():
            if new in kernel.statement_by_id[s].inames:
                raise NameConflictError(f"'{s}' has an iname '{new}' beside '{old}'.", subject=new,
                                        hint="give another name with new_iname=, or rename that loop first")
            steps[s] = step
    result = reindex_each(kernel, steps, tree)
    return annotated(result, tags={**result.tags, new: tag}) if tag is not None else result


def _require_one_tag(kernel: LoopKernel, names: Sequence[str]) -> None:
    first = names[0]
    for x in names[1:]:
        if kernel.tags.get(x) != kernel.tags.get(first):
            shown = [f"'{y}' has {f'the tag {t}' if (t := kernel.tags.get(y)) else 'no tag'}" for y in (first, x)]
            raise PreconditionError(f"Loops to be fused need the same tag, but {' and '.join(shown)}.", subject=x,
                                    hint="fuse first and tag the new iname, or give both the same tag")


def _not_side_by_side(names: Sequence[str]) -> ScheduleError:
    if len(names) == 1:
        return ScheduleError(f"No two loops over '{names[0]}' stand side by side.", subject=names[0],
                             hint="name the inames of the loops to fuse; fuse the loops around them first")
    return ScheduleError(f"The loops over {', '.join(names)} do not stand side by side.", subject=names[0],
                         hint="fuse the loops around them first, or distribute those that hold only some of them")
