"""Side effects: a step that stages data keeps given orders of loops, the storage of temporaries and the launches.

Where it cannot, it is refused, with the numbers and the argument that allows it.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from loopkit.analysis.accesses import accesses_of
from loopkit.analysis.moves import Moves, moves
from loopkit.errors import ENTRY_POINTS, InternalError, LoopkitError, PreconditionError, ScheduleError, StorageError
from loopkit.kernel.cost import SPACES, Cells, Cost, CostChange
from loopkit.kernel.given_order import ordered_pairs
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import GroupTag, LocalTag

Order = tuple[str, ...]


@dataclass(frozen=True)
class Allowed:
    """The changes that the caller allows beside the one that the step is for.

    :ivar reordering: loops whose order was given change places or are distributed.
    :ivar global_storage: temporaries get more cells, or cells in a larger address space.
    :ivar launches: there are more launches, or more loops on the host.
    """

    reordering: bool = False
    global_storage: bool = False
    launches: bool = False

    def __post_init__(self) -> None:
        for name in ("reordering", "global_storage", "launches"):
            if not isinstance(getattr(self, name), bool):
                raise PreconditionError(f"allow_{name}= is True or False, not {getattr(self, name)!r}.",
                                        subject=f"allow_{name}")


def with_fewest_side_effects(kernel: LoopKernel, step: str, allowed: Allowed, places: Iterable[Order],
                             made: Callable[[Order], LoopKernel]) -> LoopKernel:
    """*made* at the first of *places* where it is possible and keeps orders, storage and launches.

    :raises LoopkitError: there is none; said is why not at the first.
    """
    refusal: LoopkitError | None = None
    for place in dict.fromkeys(places):
        try:
            result = made(place)
            found = side_effect(kernel, result, step, allowed)
        except InternalError:
            raise
        except LoopkitError as error:
            found = error
        if found is None:
            return result
        refusal = refusal or found
    assert refusal is not None
    raise refusal


def without_side_effects(before: LoopKernel, after: LoopKernel, step: str, allowed: Allowed,
                         growing: Collection[str] = ()) -> LoopKernel:
    """*after*; :raises ScheduleError, StorageError: it is more than *step* promises; see :func:`side_effect`."""
    found = side_effect(before, after, step, allowed, growing)
    if found is not None:
        raise found
    return after


def side_effect(before: LoopKernel, after: LoopKernel, step: str, allowed: Allowed, growing: Collection[str] = ()
                ) -> LoopkitError | None:
    """Why *after* is more than *step* promises, unless *allowed*; ``None``: it is not.

    :arg growing: temporaries to which the step gives more cells, as its name says.
    """
    moved = moves(before, after)
    if not allowed.reordering and (found := _reordered(before, step, moved)) is not None:
        return found
    if (allowed.global_storage and allowed.launches) or not _may_cost(before, after, moved):
        return None
    costs = tuple(ENTRY_POINTS["cost"](knl) for knl in (before, after))
    if None in costs:
        return None                         # not known, which the history says
    change = CostChange.between(*costs)
    if not allowed.global_storage:
        grown = {x: pair for x, pair in change.grown().items() if x not in growing or _is_moved(*pair)}
        if grown:
            return _grown(step, grown, moved)
    return None if allowed.launches else _launching(step, costs, change)


def _may_cost(before: LoopKernel, after: LoopKernel, moved: Moves) -> bool:
    """May storage or launches differ? A new copy of what nobody writes, in each block of its own, changes neither.

    Unless it is the first on an axis of the block: threads read each other's values then.
    """
    on_grid = {x for x, tag in after.tags.items() if isinstance(tag, GroupTag)}
    if not before.temporaries and not on_grid:
        return False
    if any(isinstance(tag, LocalTag) and tag not in before.tags.values() for tag in after.tags.values()):
        return True
    added = [s for s in after.statements if s.id not in before.statement_by_id]
    if any(not on_grid.issubset(s.inames) for s in added):
        return True
    touched = {a.array for s in added for a in accesses_of(after, s)}
    return bool(moved) or not touched.isdisjoint(before.written_names)


def _is_moved(old: Cells, new: Cells) -> bool:
    return SPACES.index(new.space) > SPACES.index(old.space)


def _reordered(kernel: LoopKernel, step: str, moved: Moves) -> LoopkitError | None:
    given = ordered_pairs(kernel.given_order)
    broken = [(x, y) for x, y in moved.sunk if (x, y) in given]
    if broken:
        x, y = broken[0]
        inside = ", ".join(f"'{b}'" for a, b in broken if a == x)
        return ScheduleError(
            f"{step} would move the loop over '{x}' inside that over {inside}, and the order {x}, {y} was given.",
            subject=x, hint=f"prioritize_loops(knl, '{y}, {x}') first, which gives the other order, a parallel tag for "
                            f"'{x}', or allow_reordering=True")
    torn = [x for x in moved.distributed if any(x in pair for pair in given)]
    if torn:
        return ScheduleError(
            f"{step} would distribute the loop over '{torn[0]}', which stands in an order that was given, over its "
            "statements.", subject=torn[0],
            hint=f"distribute_loop(knl, '{torn[0]}', ...) first, a parallel tag for '{torn[0]}', or "
                 "allow_reordering=True")
    return None


def _grown(step: str, grown: dict[str, tuple[Cells, Cells]], moved: Moves) -> LoopkitError:
    names = [f"'{x}': {old} -> {new}" for x, (old, new) in grown.items()]
    cause = f", with {moved}" if moved else ""
    first = ""
    if moved.sunk:
        x, y = moved.sunk[0]
        first = f"prioritize_loops(knl, '{y}, {x}') first, which gives that order, a parallel tag for '{x}', or "
    return StorageError(f"{step} would enlarge {', '.join(names)}{cause}.", subject=next(iter(grown)),
                        hint=f"{first}allow_global_storage=True")


def _launching(step: str, costs: tuple[Cost, ...], change: CostChange) -> LoopkitError | None:
    before, after = change.launches
    hosts = change.added_hosts()
    if after <= before and not hosts:
        return None
    parts = [f"launches: {before} -> {after}"] if after > before else []
    parts += [f"{line}" for line in costs[1].launch_lines() if any(line.startswith(f"for {x}:") for x in hosts)]
    return ScheduleError(f"{step} would add launches ({'; '.join(parts)}).", subject=hosts[0] if hosts else step,
                         hint="allow_launches=True")
