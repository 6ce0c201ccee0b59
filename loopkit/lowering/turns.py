"""Turns of warpgroups: their begin and end in the order of a launch."""
from __future__ import annotations

from functools import partial

from loopkit.ast.nodes import Scope, Sync
from loopkit.errors import PreconditionError
from loopkit.instructions.turns import MOST, Turn, others_may_wait
from loopkit.kernel.statement import RequestedBarrier
from loopkit.kernel.tree import Barrier, Seq, Tree, leaves, nodes_in, rewrite, seq
from loopkit.lowering.lowered import BLOCK, Launch


def turns_of(launch: Launch) -> tuple[RequestedBarrier, ...]:
    """The turns that warpgroups of *launch* take; there are none without a producer.

    :raises PreconditionError: a launch has one of the two statements of a turn.
    """
    found = () if launch.producer is None else tuple(x for x in launch.kernel.barriers if x.kind == "turns")
    if bad := next((x for x in found if len({x.first, x.second} & launch.statements.keys()) == 1), None):
        raise _without_loop(bad)
    return tuple(x for x in found if x.first in launch.statements)


def _without_loop(turn: RequestedBarrier) -> PreconditionError:
    return PreconditionError(f"Warpgroups take turns from '{turn.first}' to '{turn.second}', and no loop has both.",
                             subject=turn.first, hint="take_turns with two statements of one loop")


def start_of_turns(launch: Launch) -> tuple[Sync, ...]:
    """The place at which all turns start, if warpgroups of *launch* take any."""
    count = launch.consumers // launch.machine.threads_of(Scope.WARPGROUP)
    return (Sync((), Scope.THREAD, (Turn("start", count),)),) if turns_of(launch) else ()


def with_turns(launch: Launch, tree: Tree) -> Tree:
    """*tree* with the begin and the end of each turn.

    :raises PreconditionError: the block has no two warpgroups of consumers along ``l.0``; no loop has both statements
        of a turn; or a warpgroup waits for others in its turn, which could last forever.
    """
    for turn in turns_of(launch):
        count, rest = divmod(launch.consumers, launch.machine.threads_of(Scope.WARPGROUP))
        if rest or not 2 <= count <= MOST or any(launch.mapping.extents.get(axis, 1) != 1 for axis in BLOCK[1:]):
            raise PreconditionError(f"Warpgroups take turns from '{turn.first}' to '{turn.second}', and the block has "
                                    f"{launch.consumers} consumers.", subject=turn.first,
                                    hint=f"2 to {MOST} warpgroups along l.0, or no take_turns")
        placed = rewrite(tree, partial(_with_turn, turn, count))
        if placed == tree:
            raise _without_loop(turn)
        tree = placed
    return tree


def _with_turn(turn: RequestedBarrier, count: int, node: Tree) -> Tree:
    """*node*, with the begin and the end of *turn* if its first and last statement are in two parts of it."""
    parts = node.children if isinstance(node, Seq) else ()
    of = {s: i for i, part in enumerate(parts) for s in leaves(part)}
    if not {turn.first, turn.second} <= of.keys() or of[turn.first] == of[turn.second]:
        return node
    first, end = of[turn.first], of[turn.second] + 1
    inside = [x for part in parts[first:end] for x in nodes_in(part) if isinstance(x, Barrier)]
    if bad := next(filter(others_may_wait, inside), None):
        raise PreconditionError(f"The turn from '{turn.first}' to '{turn.second}' contains a synchronization with "
                                f"other threads, which can deadlock: {bad.title}.", subject=turn.first,
                                hint="let the turn end earlier, or begin later")
    why = f"warpgroups take turns from {turn.first} to {turn.second}"
    return seq(*parts[:first], Barrier((why,), Scope.THREAD, (Turn("begin", count),)), *parts[first:end],
               Barrier((), Scope.THREAD, (Turn("end", count),)), *parts[end:])
