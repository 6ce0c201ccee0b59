"""Placement of copy-in and copy-out in the tree."""
from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from loopkit.analysis.order import loops_of
from loopkit.errors import ScheduleError
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import is_innermost, is_parallel
from loopkit.kernel.tree import Barrier, Leaf, Loop, Seq, Tree, leaves, seq
from loopkit.transform.order import with_loop_sunk


def placed(kernel: LoopKernel, step: str, name: str, users: frozenset[str], outer: tuple[str, ...],
           put: Callable[[Tree], Tree]) -> Tree:
    """The tree with *put* applied to the body of the innermost loop of *outer*; other loops are moved inside.

    :raises ScheduleError: no one body of these loops holds all *users*.
    """
    tree = kernel.tree
    if outer:
        before = loops_of(kernel.paths[next(iter(users))])
        for x in reversed(before[:before.index(outer[-1])]):
            if x not in outer:
                tree = with_loop_sunk(tree, x, outer[-1], around=users)
    found = _inserted(tree, (), outer, users, put)
    if found is None:
        raise ScheduleError(f"{step}: the statements that use '{name}' do not stand in one loop over "
                            f"{', '.join(outer) or 'nothing'}.", subject=name,
                            hint="name the statements of one loop with within=, or give the outer inames")
    return found


def with_loops_kept(kernel: LoopKernel, users: Sequence[str], outer: tuple[str, ...], sweep: Collection[str]
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


def _inserted(tree: Tree, loops: tuple[str, ...], outer: tuple[str, ...], users: frozenset[str],
              put: Callable[[Tree], Tree]) -> Tree | None:
    if set(loops) == set(outer):
        return put(tree)
    match tree:
        case Loop(iname, body) if iname in outer and users <= set(leaves(body)):
            inner = _inserted(body, (*loops, iname), outer, users, put)
            return None if inner is None else Loop(iname, inner)
        case Seq(children):
            for i, child in enumerate(children):
                if users <= set(leaves(child)):
                    inner = _inserted(child, loops, outer, users, put)
                    return None if inner is None else seq(*children[:i], inner, *children[i + 1:])
        case Leaf() | Loop() | Barrier():
            pass
    return None


def around_users(body: Tree, users: frozenset[str], first: Tree | None, last: Tree | None, writers: frozenset[str]
                 ) -> Tree:
    """*first* in *body* right before the first part that holds one of *users*, and *last* right after the last.

    A loop in the first part that also holds one of *writers*, before a user, is distributed, so that *first* runs
    between the two.
    """
    children = body.children if isinstance(body, Seq) else (body,)
    at = [i for i, c in enumerate(children) if not users.isdisjoint(leaves(c))]
    ahead, rest = _parted(children[at[0]], users, writers)
    return seq(*children[:at[0]], *(t for t in (ahead, first) if t is not None), rest,
               *children[at[0] + 1:at[-1] + 1], *([] if last is None else [last]), *children[at[-1] + 1:])


def _parted(tree: Tree, readers: frozenset[str], writers: frozenset[str]) -> tuple[Tree | None, Tree]:
    """*tree* as the part that must run before a copy, if any, and the rest."""
    match tree:
        case Loop(iname, body):
            first, second = _parted(body, readers, writers)
            return (None, tree) if first is None else (Loop(iname, first), Loop(iname, second))
        case Seq(children):
            at = next(i for i, c in enumerate(children) if not readers.isdisjoint(leaves(c)))
            inner, rest = _parted(children[at], readers, writers)
            if inner is None and all(writers.isdisjoint(leaves(c)) for c in children[:at]):
                return None, tree
            return (seq(*children[:at], *([] if inner is None else [inner])) if at or inner is not None else None,
                    seq(rest, *children[at + 1:]))
        case _:
            return None, tree
