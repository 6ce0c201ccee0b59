"""Trees of loops taken apart and put together: loops moved inside others, loops distributed, copies placed."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby

from loopkit.analysis.order import loops_of
from loopkit.errors import ScheduleError
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import is_innermost, is_parallel
from loopkit.kernel.tree import Loop, Seq, Tree, leaves, nodes_in, rewrite_over, seq, without


def loops_in(tree: Tree) -> Iterator[Loop]:
    """The loops of *tree*, each before those inside it."""
    return (node for node in nodes_in(tree) if isinstance(node, Loop))


def parts_of(body: Tree) -> tuple[Tree, ...]:
    """The nodes in sequence in the *body* of a loop."""
    return body.children if isinstance(body, Seq) else (body,)


def restricted(tree: Tree, statements: Collection[str]) -> Tree:
    """*tree* with *statements* alone; an empty sequence if it has none of them."""
    return without(tree, frozenset(leaves(tree)).difference(statements))


def in_order_of(tree: Tree, statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """*statements* in the textual order of *tree*."""
    at = {s: i for i, s in enumerate(leaves(tree))}
    return tuple(sorted(statements, key=lambda s: at[s.id]))


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


def placed(kernel: LoopKernel, step: str, name: str, users: frozenset[str], outer: tuple[str, ...],
           put: Callable[[Tree], Tree]) -> Tree:
    """The tree with *put* applied to the body of the innermost loop of *outer*; other loops are moved inside."""
    def inside(node: Tree, loops: frozenset[str]) -> Tree:
        match node:
            case _ if not loops:
                return put(node)
            case Loop(iname, body) if iname in loops:
                return Loop(iname, inside(body, loops - {iname}))
            case Seq(children):
                for i, child in enumerate(children):
                    if users <= set(leaves(child)):
                        return seq(*children[:i], inside(child, loops), *children[i + 1:])
            case _:
                pass
        raise ScheduleError(f"{step}: the statements that use '{name}' do not stand in one loop over "
                            f"{', '.join(outer) or 'nothing'}.", subject=name,
                            hint="name the statements of one loop with within=, or give the outer inames")
    tree = kernel.tree
    before = loops_of(kernel.paths[next(iter(users))])
    for x in reversed(before[:before.index(outer[-1])] if outer else ()):
        if x not in outer:
            tree = with_loop_sunk(tree, x, outer[-1], around=users)
    return inside(tree, frozenset(outer))


def with_loops_kept(kernel: LoopKernel, users: Iterable[str], outer: tuple[str, ...], sweep: Collection[str]
                    ) -> tuple[str, ...]:
    """*outer* with the other sequential loops outside of the innermost of them, but for those of *sweep*.

    Inside all of these loops, only a swept loop must move to make room. The result is *outer* itself if the *users* do
    not share these loops.
    """
    found: set[tuple[str, ...]] = set()
    for s in users:
        loops = loops_of(kernel.paths[s])
        end = max((loops.index(x) for x in outer), default=-1)
        moved = {x for x in loops[:max(end, 0)] if not (is_parallel(tag := kernel.tags.get(x)) or is_innermost(tag))}
        found.add(tuple(x for x in loops if x in outer or (x in moved and x not in sweep)))
    return found.pop() if len(found) == 1 else outer


def around_users(body: Tree, users: frozenset[str], first: Tree, last: Tree, writers: frozenset[str]) -> Tree:
    """*first* in *body* right before the first part that holds one of *users*, and *last* right after the last.

    A loop in the first part that also holds one of *writers*, before a user, is distributed, so that *first* runs
    between the two.
    """
    children = parts_of(body)
    at = [i for i, c in enumerate(children) if not users.isdisjoint(leaves(c))]
    start, end = at[0], at[-1] + 1
    ahead = _ahead(children[start], users, writers)
    rest = [s for s in leaves(children[start]) if s not in ahead]
    return seq(*children[:start], restricted(children[start], ahead), first, restricted(children[start], rest),
               *children[start + 1:end], last, *children[end:])


def _ahead(tree: Tree, readers: frozenset[str], writers: frozenset[str]) -> list[str]:
    """The statements of *tree* that must run before a copy, because one of *writers* is among them."""
    match tree:
        case Loop(_, body):
            return _ahead(body, readers, writers)
        case Seq(children):
            at = next(i for i, c in enumerate(children) if not readers.isdisjoint(leaves(c)))
            before, inner = list(leaves(seq(*children[:at]))), _ahead(children[at], readers, writers)
            return [*before, *inner] if inner or not writers.isdisjoint(before) else []
        case _:
            return []
