"""Trees of loops taken apart and put together: loops moved inside others, loops distributed."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby

from loopkit.kernel.statement import Statement
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
