"""Turns of warpgroups: their begin and end in the order of a launch."""
from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopkit.ast.nodes import Scope, Sync
from loopkit.errors import PreconditionError
from loopkit.instructions.phases import ArrivePhase
from loopkit.instructions.turns import MOST, Turn
from loopkit.kernel.statement import RequestedBarrier
from loopkit.kernel.tree import Barrier, Loop, Tree, leaves, nodes_in, parts_of, rewrite, seq
from loopkit.lowering.lowered import BLOCK, Launch


def turns_of(launch: Launch) -> tuple[RequestedBarrier, ...]:
    """The turns that warpgroups of *launch* take; there are none without a producer."""
    return () if launch.producer is None else tuple(
        x for x in launch.kernel.barriers if x.kind == "turns" and {x.first, x.second} <= launch.statements.keys())


def start_of_turns(launch: Launch) -> tuple[Sync, ...]:
    """The place at which all turns start, if warpgroups of *launch* take any."""
    count = launch.consumers // launch.machine.threads_of(Scope.WARPGROUP)
    return (Sync((), Scope.THREAD, (Turn("start", count),)),) if turns_of(launch) else ()


def with_turns(launch: Launch, tree: Tree) -> Tree:
    """*tree* with the begin and the end of each turn.

    :raises PreconditionError: the block has no two warpgroups of consumers along ``l.0``; or a warpgroup waits for
        others in its turn, which could last forever.
    """
    for turn in turns_of(launch):
        count, rest = divmod(launch.consumers, launch.machine.threads_of(Scope.WARPGROUP))
        if rest or not 2 <= count <= MOST or any(launch.mapping.extents.get(axis, 1) != 1 for axis in BLOCK[1:]):
            raise PreconditionError(f"Warpgroups take turns from '{turn.first}' to '{turn.second}', and the block has "
                                    f"{launch.consumers} consumers.", subject=turn.first,
                                    hint=f"2 to {MOST} warpgroups along l.0, or no take_turns")
        begin, end = (Barrier((f"warpgroups take turns from {turn.first} to {turn.second}",) if act == "begin" else (),
                              Scope.THREAD, (Turn(act, count),)) for act in ("begin", "end"))
        tree = rewrite(tree, lambda node: seq(*_within(turn, parts_of(node), begin, end)) if (
            not isinstance(node, Loop) and _places(turn, node) is not None) else node)
    return tree


def _places(turn: RequestedBarrier, node: Tree) -> tuple[int, int] | None:
    """The parts of *node* with the first and with the last statement of *turn*; ``None``: one part has both, or none
    has one of them.
    """
    of = {s: i for i, part in enumerate(parts_of(node)) for s in leaves(part)}
    places = of.get(turn.first, -1), of.get(turn.second, -1)
    return None if -1 in places or (places[0] == places[1] and turn.first != turn.second) else places


def _within(turn: RequestedBarrier, parts: Sequence[Tree], begin: Barrier, end: Barrier) -> Iterator[Tree]:
    """*parts* with a turn in them."""
    first, last = _places(turn, seq(*parts)) or (0, 0)
    inside = [node for part in parts[first:last + 1] for node in nodes_in(part) if isinstance(node, Barrier)]
    if bad := next((x for x in inside if waits_for_warpgroups(x)), None):
        raise PreconditionError(f"Turns from '{turn.first}' to '{turn.second}' could last forever, because others may "
                                f"wait for what a warpgroup does in its turn: {bad.title}.", subject=turn.first,
                                hint="let the turn end earlier, or begin later")
    yield from (*parts[:first], begin, *parts[first:last + 1], end, *parts[last + 1:])


def waits_for_warpgroups(sync: Sync) -> bool:
    """Do warpgroups meet here, or may the producer wait until all of them come here?"""
    return sync.scope is Scope.BLOCK or any(isinstance(i, ArrivePhase | Turn) for i in sync.instructions)
