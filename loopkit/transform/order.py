"""Transformations of the order of loops: prioritize, interchange, tile."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from loopkit.analysis.constructors import reordered
from loopkit.analysis.legality import require_legal
from loopkit.errors import PreconditionError, ScheduleError
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import Barrier, Leaf, Loop, Seq, Tree, leaves, rewrite, seq
from loopkit.language.names import name_list
from loopkit.transform.iname import split_iname
from loopkit.transform.step import require_iname, transform, with_given_order


@transform
def prioritize_loops(kernel: LoopKernel, loop_priority: str | Iterable[str], *, assume: str | None = None,
                     unsafe: bool = False) -> LoopKernel:
    """Reorder loops so that those of *loop_priority* nest in that order, the first outermost.

    Other loops keep their place as far as they can. A loop that moves inside a sequence of statements is distributed
    over them.

    :arg loop_priority: ``"i, j, k"`` or a sequence of inames.
    :raises UnknownNameError: one of them is no iname.
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
    order = name_list(loop_priority)
    for x in order:
        require_iname(kernel, x)
    if len(set(order)) != len(order):
        raise PreconditionError("An iname stands twice in the order of loops.", subject=", ".join(order))
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

    :raises UnknownNameError: one of them is no iname.
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
    for x in (outer, inner):
        require_iname(kernel, x)
    swapped = rewrite(kernel.tree, lambda node: _swapped(node, outer, inner))
    if swapped is kernel.tree:
        swapped = rewrite(kernel.tree, lambda node: _swapped(node, inner, outer))
    if swapped is kernel.tree:
        raise ScheduleError(f"Neither of the loops over '{outer}' and '{inner}' stands inside the other.",
                            subject=outer)
    result = with_given_order(reordered(kernel, swapped), (inner, outer))
    return require_legal(result, f"interchange({outer}, {inner})", assume=assume, unsafe=unsafe)


@transform
def tile(kernel: LoopKernel, tile_sizes: Mapping[str, int], *, assume: str | None = None, unsafe: bool = False
         ) -> LoopKernel:
    """Split each iname by its size and move the tile loops (``i_outer``, ...) outside the point loops.

    :arg tile_sizes: sizes by iname; the order of the mapping is the order of the loops.
    :raises IllegalTransformError: running the iteration space tile by tile would break a dependence.

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
        require_iname(kernel, iname)
        outer, inner = kernel.fresh_name(f"{iname}_outer"), kernel.fresh_name(f"{iname}_inner")
        kernel = split_iname(kernel, iname, size, outer_iname=outer, inner_iname=inner)
        outers.append(outer)
        inners.append(inner)
    order = (*outers, *inners)
    result = with_given_order(reordered(kernel, ordered(kernel.tree, order)), order)
    step = f"tile({', '.join(f'{x}: {s}' for x, s in tile_sizes.items())})"
    return require_legal(result, step, assume=assume, unsafe=unsafe)


# {{{ trees


def ordered(tree: Tree, order: tuple[str, ...]) -> Tree:
    """*tree* with the loops of *order* nested in that order wherever one is nested inside another."""
    for i, outer in enumerate(order):
        for inner in order[i + 1:]:
            tree = with_loop_sunk(tree, inner, outer)
    return tree


def with_loop_sunk(tree: Tree, iname: str, below: str, around: Collection[str] | None = None) -> Tree:
    """*tree* with the loops over *iname* moved inside the loops over *below* that they enclose.

    :arg around: only loops around one of these statements; ``None``: all.
    """
    def one(node: Tree) -> Tree:
        if not isinstance(node, Loop) or node.iname != iname:
            return node
        return sunk(node, below) if around is None or any(x in around for x in leaves(node)) else node
    return rewrite(tree, one)


def sunk(loop: Loop, below: str) -> Tree:
    """The loop moved just inside the loops over *below* that it encloses, distributed over the nodes between."""
    if not contains_loop(loop.body, below):
        return loop
    match loop.body:
        case Loop(iname, body) if iname == below:
            return Loop(iname, Loop(loop.iname, body))
        case Loop(iname, body):
            return Loop(iname, sunk(Loop(loop.iname, body), below))
        case Seq(children):
            return seq(*(sunk(part, below) for part in distributed(loop.iname, children,
                                                                  lambda c: contains_loop(c, below))))
        case _:
            return loop


def distributed(iname: str, children: tuple[Tree, ...], alone: Callable[[Tree], bool]) -> list[Loop]:
    """One loop over *iname* around each child that must stand *alone*, and around each run of others."""
    parts: list[Loop] = []
    run: list[Tree] = []
    for child in children:
        if alone(child):
            if run:
                parts.append(Loop(iname, seq(*run)))
                run = []
            parts.append(Loop(iname, child))
        else:
            run.append(child)
    if run:
        parts.append(Loop(iname, seq(*run)))
    return parts


def contains_loop(tree: Tree, iname: str) -> bool:
    """Does *tree* contain a loop over *iname*?"""
    match tree:
        case Loop(x, body):
            return x == iname or contains_loop(body, iname)
        case Seq(children):
            return any(contains_loop(c, iname) for c in children)
        case Leaf() | Barrier():
            return False


def _swapped(node: Tree, outer: str, inner: str) -> Tree:
    """The loop over *outer* with *inner* in its place, if *outer* encloses *inner*."""
    if not isinstance(node, Loop) or node.iname != outer or not contains_loop(node.body, inner):
        return node
    between: list[str] = []
    body = node.body
    while isinstance(body, Loop) and body.iname != inner:
        between.append(body.iname)
        body = body.body
    if isinstance(body, Loop):
        result: Tree = Loop(outer, body.body)
        for x in reversed(between):
            result = Loop(x, result)
        return Loop(inner, result)
    return sunk(node, inner)

# }}}
