"""Transformations of the order of loops: prioritize, interchange, tile, distribute, fuse, unroll and jam."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby

import pymbolic.primitives as p

from loopkit.analysis.constructors import annotated, reordered
from loopkit.analysis.dependences import dependences
from loopkit.analysis.fusion import in_sequence
from loopkit.analysis.legality import require_legal
from loopkit.analysis.match import Within
from loopkit.analysis.order import loops_of
from loopkit.errors import NameConflictError, PreconditionError, ScheduleError
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import owner
from loopkit.kernel.tags import UnrollTag
from loopkit.kernel.tree import Loop, Seq, Tree, leaves, loops_in, nest, parts_of, rewrite, rewrite_over, seq, without
from loopkit.transform.iname import split_iname
from loopkit.transform.reindex import Reindexing, reindex_each, require_shared_inames
from loopkit.transform.step import (
    iname_list,
    known_list,
    matching_statements,
    outer_and_inner,
    require_fresh,
    require_iname,
    require_positive,
    transform,
    with_given_order,
)


@transform
def prioritize_loops(kernel: LoopKernel, loop_priority: str | Iterable[str], *, assume: str | None = None,
                     unsafe: bool = False) -> LoopKernel:
    """Reorder loops so that those of *loop_priority* nest in that order, the first outermost.

    Other loops keep their place as far as they can. A loop that moves inside a sequence of statements is distributed
    over them.

    :arg loop_priority: ``"i, j, k"`` or a sequence of inames, the outermost first.
    :raises UnknownNameError: a name is not an iname.
    :raises ScheduleError: they never nest in one another.
    :raises IllegalTransformError: the new order would break a dependence; with its witness.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i, j] = 2*x[i, j]")
    >>> print(knl.statements_text)
    for i, j
      y[i, j] = 2*x[i, j]  {id=insn}
    end
    >>> print(lk.prioritize_loops(knl, "j, i").statements_text)
    for j, i
      y[i, j] = 2*x[i, j]  {id=insn}
    end
    """
    order = known_list("iname", loop_priority, kernel.inames)
    if len(set(order)) != len(order):
        raise PreconditionError("The order of loops contains an iname twice.", subject=", ".join(order))
    if len(order) > 1 and not any(len(set(order) & set(s.inames)) > 1 for s in kernel.statements):
        raise ScheduleError(f"No statement has two of the inames {', '.join(order)}: their loops never nest.",
                            subject=", ".join(order))
    result = with_given_order(reordered(kernel, ordered(kernel.tree, order)), order)
    return require_legal(result, f"prioritize_loops({', '.join(order)})", assume=assume, unsafe=unsafe)


@transform
def interchange(kernel: LoopKernel, outer: str, inner: str, *, assume: str | None = None, unsafe: bool = False
                ) -> LoopKernel:
    """Exchange the loops over *outer* and *inner*; the loops between them stay.

    If there are statements between the two loops, the outer loop is distributed over them.

    :raises UnknownNameError: a name is not an iname.
    :raises ScheduleError: neither loop is nested inside the other.
    :raises IllegalTransformError: the new order would break a dependence; with its witness.

    >>> knl = lk.make_kernel("{[i, j]: 1<=i<n and 0<=j<m}", "a[i, j] = a[i-1, j] + 1")
    >>> print(knl.statements_text)
    for i, j
      a[i, j] = a[i - 1, j] + 1  {id=insn}
    end
    >>> print(lk.interchange(knl, "i", "j").statements_text)
    for j, i
      a[i, j] = a[i - 1, j] + 1  {id=insn}
    end
    """
    known_list("iname", (outer, inner), kernel.inames)
    swapped = _swapped(kernel.tree, outer, inner)
    if swapped is kernel.tree:
        swapped = _swapped(kernel.tree, inner, outer)
    if swapped is kernel.tree:
        raise ScheduleError(f"Neither of the loops over '{outer}' and '{inner}' is inside the other.",
                            subject=outer)
    result = with_given_order(reordered(kernel, swapped), (inner, outer))
    return require_legal(result, f"interchange({outer}, {inner})", assume=assume, unsafe=unsafe)


def _swapped(tree: Tree, outer: str, inner: str) -> Tree:
    """*tree* with the loops over *inner* in place of those over *outer* that enclose them."""
    def one(loop: Loop) -> Tree:
        between: list[str] = []
        body = loop.body
        while isinstance(body, Loop) and body.iname != inner:
            between.append(body.iname)
            body = body.body
        return Loop(inner, nest((*between, outer), body.body)) if isinstance(body, Loop) else sunk(loop, inner)
    return rewrite_over(tree, outer, one)


@transform
def tile(kernel: LoopKernel, tile_sizes: Mapping[str, int], *, assume: str | None = None, unsafe: bool = False
         ) -> LoopKernel:
    """Split each iname by its size and move the tile loops (``i_outer``, ...) outside the point loops.

    :arg tile_sizes: a mapping from each iname to the number of its iterations in a tile; the order of the mapping is
        the order of the loops.
    :raises UnknownNameError: there is no such iname.
    :raises PreconditionError: there is no size, a size is not a positive integer, or an iname has a tag.
    :raises IllegalTransformError: running the iteration space tile by tile would break a dependence; with its witness.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[j, i] = x[i, j]")
    >>> print(lk.tile(knl, {"i": 32, "j": 32}).statements_text)
    for i_outer, j_outer, i_inner, j_inner
      y[32*j_outer + j_inner, 32*i_outer + i_inner] = x[32*i_outer + i_inner, 32*j_outer + j_inner]  {id=insn}
    end
    """
    if not tile_sizes:
        raise PreconditionError("tile needs at least one iname and its tile size.", subject="tile_sizes")
    outers, inners = [], []
    for iname, size in tile_sizes.items():
        outer, inner = outer_and_inner(kernel, iname)
        kernel = split_iname(kernel, iname, size, outer_iname=outer, inner_iname=inner)
        outers.append(outer)
        inners.append(inner)
    order = (*outers, *inners)
    result = with_given_order(reordered(kernel, ordered(kernel.tree, order)), order)
    step = f"tile({', '.join(f'{x}: {s}' for x, s in tile_sizes.items())})"
    return require_legal(result, step, assume=assume, unsafe=unsafe)


@transform
def distribute_loop(kernel: LoopKernel, iname: str, before: str, *, assume: str | None = None,
                    unsafe: bool = False) -> LoopKernel:
    """Split the loop over *iname* in two, in front of the statement *before*.

    The first loop keeps everything textually before the statement. The second loop gets the statement and the rest. If
    the statement is nested in loops further inside, these loops are split too. Both loops keep their iname;
    ``rename_iname`` with *within* gives them different names.

    :arg before: the id of a statement, which includes its reductions; ``S.k.update`` names a part of one.
    :raises UnknownNameError: there is no such iname or statement.
    :raises ScheduleError: the statement is in no loop over *iname*, or is the first in it.
    :raises IllegalTransformError: the dependences between the two parts form a cycle; with the witness.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", '''
    ...     for i
    ...         s[i] = 2*x[i]  {id=scale}
    ...         for j
    ...             y[i, j] = s[i]  {id=first}
    ...             z[i, j] = y[i, j] + j  {id=second}
    ...         end
    ...     end
    ...     ''')
    >>> print(lk.distribute_loop(knl, "i", before="second").statements_text)
    for i
      s[i] = 2*x[i]  {id=scale}
      for j
        y[i, j] = s[i]  {id=first}
      end
    end
    for i, j
      z[i, j] = y[i, j] + j  {id=second}
    end
    """
    require_iname(kernel, iname)
    kernel.statement(before)
    if not any(step.iname == iname for step in kernel.paths[before]):
        raise ScheduleError(f"'{before}' is not in a loop over '{iname}'.", subject=before,
                            hint="name a statement in the loop to split")

    def one(loop: Loop) -> Tree:
        inside = list(leaves(loop))
        if before not in inside:
            return loop
        # the parts of a reduction are textually before its statement
        at = next(i for i, s in enumerate(inside) if before in (s, owner(s)))
        if not at:
            raise ScheduleError(f"No statement is before '{before}' in the loop over '{iname}'.", subject=before,
                                hint="name the first statement of the second loop")
        return seq(without(loop, inside[at:]), without(loop, inside[:at]))
    result = reordered(kernel, rewrite_over(kernel.tree, iname, one))
    return require_legal(result, f"distribute_loop({iname}, before={before})", assume=assume, unsafe=unsafe)


@transform
def fuse_loops(kernel: LoopKernel, inames: str | Iterable[str], new_iname: str | None = None, *,
               within: Within = None, assume: str | None = None,
               unsafe: bool = False) -> LoopKernel:
    """Fuse the adjacent loops over *inames* into one loop.

    Their bounds may differ: the fused loop runs through the union of their ranges, and each statement keeps its range.
    Statements between the loops that depend on the first of them, in the same iteration of the enclosing loops, move
    after the fused loop; the others move in front of it. All groups of adjacent loops over all of *inames* are fused.
    To fuse the loops inside, call it once more.

    :arg inames: ``"i, j"`` or a sequence of inames; a single iname fuses several loops over it.
    :arg new_iname: the iname of the fused loop; default: the first of *inames*.
    :arg within: only loops around one of these statements; default: all.
    :raises UnknownNameError: a name is not an iname.
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
    names = iname_list(kernel, inames)
    if not names:
        raise PreconditionError("fuse_loops needs an iname.", subject="inames")
    tag = kernel.tags.get(names[0])
    if other := next((x for x in names if kernel.tags.get(x) != tag), None):
        raise PreconditionError(f"Fused loops need the same tag, but '{names[0]}' and '{other}' have different ones.",
                                subject=other, hint="fuse first and tag the new iname, or give both the same tag")
    new = new_iname if new_iname is not None else names[0]
    if new not in names:
        require_fresh(kernel, new)
    tree, owners = _fused(kernel, names, new, matching_statements(kernel, within))
    if tree is kernel.tree:
        raise ScheduleError(
            f"No two loops over {', '.join(names)} are adjacent.", subject=names[0],
            hint="fuse the loops around them first, or distribute loops that enclose only some of them")
    steps: dict[str, Reindexing] = {}
    for old in [x for x in owners if x != new]:
        if taken := next((s for s in sorted(owners[old]) if new in kernel.statement_by_id[s].inames), None):
            raise NameConflictError(f"'{taken}' has both inames '{new}' and '{old}'.", subject=new,
                                    hint="give another name with new_iname=, or rename that loop first")
        steps |= dict.fromkeys(owners[old], Reindexing((new,), {old: p.Variable(new)}))
    step = f"fuse_loops({', '.join(names)})"
    result = require_shared_inames(reindex_each(kernel, steps, tree), step)
    users = frozenset().union(*(kernel.user_tags.get(x, ()) for x in (*names, new)))
    result = annotated(result, tags=result.tags if tag is None else {**result.tags, new: tag},
                       user_tags={**kernel.user_tags, new: users} if users else kernel.user_tags)
    return require_legal(result, step, assume=assume, unsafe=unsafe)


def _fused(kernel: LoopKernel, names: tuple[str, ...], new: str, chosen: frozenset[str]
           ) -> tuple[Tree, dict[str, set[str]]]:
    """The tree with loops over *names* around *chosen* fused, and the statements in them by their former iname."""
    owners: dict[str, set[str]] = {}

    def at(node: Tree) -> Tree:
        if not isinstance(node, Seq):
            return node
        loops = [c for c in node.children if isinstance(c, Loop) and c.iname in names
                 and not chosen.isdisjoint(leaves(c))]
        if len(loops) < 2 or {loop.iname for loop in loops} != set(names):
            return node
        for loop in loops:
            owners.setdefault(loop.iname, set()).update(leaves(loop))
        first, end = node.children.index(loops[0]), node.children.index(loops[-1]) + 1
        before, after = list[Tree](), list[Tree]()
        late = set[str]()                       # statements no earlier than the new loop
        for child in node.children[first:end]:
            inside = frozenset(leaves(child))
            if child not in loops and not _depends(kernel, inside, late):
                before.append(child)
                continue
            late |= inside
            if child not in loops:
                after.append(child)
        fused = Loop(new, seq(*(loop.body for loop in loops)))
        return seq(*node.children[:first], *before, fused, *after, *node.children[end:])
    return rewrite(kernel.tree, at), owners


def _depends(kernel: LoopKernel, sinks: Collection[str], sources: Collection[str]) -> bool:
    """Must one of *sinks* run after one of *sources* in the same iteration of their shared loops?"""
    return any(d.source in sources and d.sink in sinks and not in_sequence(kernel, d).is_empty()
               for d in dependences(kernel))


@transform
def unroll_and_jam(kernel: LoopKernel, iname: str, factor: int, *, outer_iname: str | None = None,
                   inner_iname: str | None = None, within: Within = None,
                   assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Run *factor* iterations of *iname* at a time in the innermost loops, unrolled.

    Split *iname* by *factor*, move the inner iname inside all loops in its loop, and tag it ``unr``. The inner loop is
    distributed over statements and loops in sequence.

    :arg outer_iname: default ``i_outer`` for an iname ``i``; *inner_iname*: ``i_inner``.
    :arg within: the statements whose loops are split; default: all.
    :raises UnknownNameError: *iname* is not an iname of *kernel*.
    :raises PreconditionError: *factor* is not a positive integer, or *iname* has a tag.
    :raises IllegalTransformError: iterations of *iname* cannot run together; with the witness.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", '''
    ...     for i
    ...         s[i] = 2*x[i]  {id=scale}
    ...         for j
    ...             y[i, j] = s[i] + j  {id=use}
    ...         end
    ...     end
    ...     ''')
    >>> print(lk.unroll_and_jam(knl, "i", 4).statements_text)
    for i_outer
      for i_inner [unr]
        s[4*i_outer + i_inner] = 2*x[4*i_outer + i_inner]  {id=scale}
      end
      for j, i_inner [unr]
        y[4*i_outer + i_inner, j] = s[4*i_outer + i_inner] + j  {id=use}
      end
    end
    """
    length = require_positive(factor, "factor")
    outer, inner = outer_and_inner(kernel, iname, outer_iname, inner_iname)
    split = split_iname(kernel, iname, length, outer_iname=outer, inner_iname=inner, within=within)
    result = reordered(split, with_loop_sunk(split.tree, inner, None), tags={**split.tags, inner: UnrollTag()})
    nests = map(loops_of, result.paths.values())
    result = with_given_order(result, *(loops[loops.index(outer):] for loops in nests if inner in loops))
    return require_legal(result, f"unroll_and_jam({iname}, {length})", assume=assume, unsafe=unsafe)


def ordered(tree: Tree, order: Sequence[str]) -> Tree:
    """*tree* with the loops of *order* nested in that order wherever one is nested inside another."""
    for i, outer in enumerate(order):
        for inner in order[i + 1:]:
            tree = with_loop_sunk(tree, inner, outer)
    return tree


def with_loop_sunk(tree: Tree, iname: str, below: str | None, around: Collection[str] | None = None) -> Tree:
    """*tree* with loops over *iname*, all or those *around* statements, inside loops over *below*, or inside all."""
    return rewrite_over(tree, iname, lambda loop: sunk(loop, below) if around is None or any(
        x in around for x in leaves(loop)) else loop)


def sunk(loop: Loop, below: str | None) -> Tree:
    """The loop moved just inside the loops over *below* that it encloses, distributed over the nodes between."""
    def holds(tree: Tree) -> bool:
        return any(below in (None, inner.iname) for inner in loops_in(tree))
    match loop.body:
        case body if not holds(body):
            return loop
        case Loop(iname, body):
            return Loop(iname, sunk(Loop(loop.iname, body), below))
        case body:
            parts: list[Tree] = []
            for alone, run in groupby(parts_of(body), holds):
                parts += [sunk(Loop(loop.iname, child), below) for child in (run if alone else [seq(*run)])]
            return seq(*parts)
