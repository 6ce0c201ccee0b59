"""Side effects of steps that stage data: such a step keeps given orders of loops, storage and launches.

A step with a side effect is refused; the error names the numbers and the argument that allows the effect.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from loopkit.analysis.accesses import accesses_of
from loopkit.analysis.legality import require_legal
from loopkit.analysis.moves import Moves, moves
from loopkit.errors import ENTRY_POINTS, InternalError, LoopkitError, ScheduleError, StorageError
from loopkit.kernel.cost import MEMORIES, SPACES, Cells, Cost, CostChange
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.given_order import ordered_pairs
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import GroupTag, LocalTag, is_parallel

Order = tuple[str, ...]


@dataclass(frozen=True)
class Allowed:
    """The side effects and broken dependences that the caller allows.

    :ivar reordering: loops with a given order are reordered or distributed.
    :ivar global_storage: temporaries get more cells, or cells in a larger address space.
    :ivar launches: there are more launches, or more loops on the host.
    :ivar assume: the reason why undecided pairs are legal; *unsafe*: refuted ones are accepted too.
    """

    reordering: bool
    global_storage: bool
    launches: bool
    assume: str | None
    unsafe: bool

    def legal(self, kernel: LoopKernel, step: str) -> LoopKernel:
        """*kernel*, if its order after *step* is legal; see :func:`loopkit.analysis.legality.require_legal`."""
        return require_legal(kernel, step, assume=self.assume, unsafe=self.unsafe)


def with_fewest_side_effects(kernel: LoopKernel, step: str, allowed: Allowed, places: Iterable[Order],
                             made: Callable[[Order], LoopKernel]) -> LoopKernel:
    """*made* at the first of *places* where it is possible and keeps orders, storage and launches.

    :raises LoopkitError: there is none; the error is that of the first place.
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
                         growing: Collection[str]) -> LoopKernel:
    """*after*; :raises ScheduleError, StorageError: it has a side effect, as in :func:`side_effect`."""
    found = side_effect(before, after, step, allowed, growing)
    if found is not None:
        raise found
    return after


def side_effect(before: LoopKernel, after: LoopKernel, step: str, allowed: Allowed, growing: Collection[str] = ()
                ) -> LoopkitError | None:
    """The error for a side effect of *step* that is not *allowed*; ``None``: there is none.

    :arg growing: temporaries that the step is meant to give more cells.
    """
    moved = moves(before, after)
    if not allowed.reordering and (found := _reordered(before, step, moved)) is not None:
        return found
    if (allowed.global_storage and allowed.launches) or not _may_cost(before, after, moved):
        return None
    costs: tuple[Cost, Cost] = ENTRY_POINTS["cost"](before), ENTRY_POINTS["cost"](after)
    change = CostChange.between(*costs)
    if not allowed.global_storage:
        grown = {x: pair for x, pair in change.grown().items() if x not in growing or _is_moved(*pair)}
        if grown:
            return _grown(before, step, grown, moved)
        doubtful = [x for x in change.unknown if x not in growing and _may_grow(before, after, moved, x)]
        if doubtful:
            return _not_known(before, step, doubtful[0], change.unknown[doubtful[0]], moved)
    if allowed.launches or (None in change.launches and not _may_launch(before, after, moved)):
        found = None
    else:
        found = _launching(step, costs, change)
    return found if found is not None or allowed.global_storage else _in_global_memory(after, step, change)


def _may_cost(before: LoopKernel, after: LoopKernel, moved: Moves) -> bool:
    """May storage or launches differ? A new block-private copy of an array without writers changes neither.

    Exceptions: the copy is the first statement on an axis of the block, as threads then read each other's values; or
    the copy is in a loop of threads, so that each thread might have a separate copy.
    """
    if not before.temporaries and not any(isinstance(tag, GroupTag | LocalTag) for tag in after.tags.values()):
        return False
    added = _added(before, after)
    return bool(moved) or _spread(before, after) or any(
        is_parallel(after.tags.get(x)) and not isinstance(after.tags.get(x), GroupTag)
        for s in added for x in s.inames if x in before.inames
    ) or not {a.array for s in added for a in accesses_of(after, s)}.isdisjoint(before.written_names)


def _spread(before: LoopKernel, after: LoopKernel) -> bool:
    """Is a new statement outside of a loop of blocks, or on an axis of the block that no statement had before?"""
    on_grid = {x for x, tag in after.tags.items() if isinstance(tag, GroupTag)}
    return any(isinstance(tag, LocalTag) and tag not in before.tags.values() for tag in after.tags.values()) or \
        any(not on_grid.issubset(s.inames) for s in _added(before, after))


def _may_grow(before: LoopKernel, after: LoopKernel, moved: Moves, name: str) -> bool:
    """May the temporary *name* have more cells now? Not if all of its users are old and kept their place."""
    loops = {*moved.distributed, *(x for pair in moved.sunk for x in pair)}
    users = [s for s in before.statements if name in {a.array for a in accesses_of(before, s)}]
    return _spread(before, after) or any(not loops.isdisjoint(s.inames) for s in users) or any(
        a.array == name for s in _added(before, after) for a in accesses_of(after, s))


def _may_launch(before: LoopKernel, after: LoopKernel, moved: Moves) -> bool:
    """May the new statements need a further launch? Not if each block computes all that it alone reads."""
    if not any(isinstance(tag, GroupTag) for tag in after.tags.values()):
        return False

    def blocks(s: Statement) -> set[str]:
        return {x for x in s.inames if isinstance(after.tags.get(x), GroupTag)}
    return bool(moved) or any(
        not blocks(reader) <= blocks(s) or not {a.array for a in accesses_of(after, s)}.isdisjoint(before.written_names)
        for s in _added(before, after) for reader in after.statements
        if s.written in {a.array for a in accesses_of(after, reader)})


def _added(before: LoopKernel, after: LoopKernel) -> list[Statement]:
    return [s for s in after.statements if s.id not in before.statement_by_id]


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
            subject=x, hint=f"{_first(kernel, moved)}allow_reordering=True")
    torn = [x for x in moved.distributed if any(x in pair for pair in given)]
    if torn:
        return ScheduleError(
            f"{step} would distribute the loop over '{torn[0]}', which stands in an order that was given, over its "
            "statements.", subject=torn[0], hint=f"{_first(kernel, moved, torn[0])}allow_reordering=True")
    return None


def _grown(kernel: LoopKernel, step: str, grown: Mapping[str, tuple[Cells, Cells]], moved: Moves) -> LoopkitError:
    larger, elsewhere = [], []
    for x, (old, new) in grown.items():
        if _is_moved(old, new):
            elsewhere.append(f"'{x}' to {MEMORIES[new.space]}: {old} -> {new}")
        else:
            larger.append(f"'{x}': {old} -> {new}")
    parts = [f"{verb} {', '.join(names)}" for verb, names in (("enlarge", larger), ("move", elsewhere)) if names]
    return StorageError(f"{step} would {' and '.join(parts)}{_with(moved)}.", subject=next(iter(grown)),
                        hint=f"{_first(kernel, moved)}allow_global_storage=True")


def _not_known(kernel: LoopKernel, step: str, name: str, reason: str, moved: Moves) -> LoopkitError:
    return StorageError(f"{step} may enlarge '{name}'{_with(moved)}, and its storage is not known. {reason}",
                        subject=name, hint=f"mend that first, {_first(kernel, moved)}allow_global_storage=True")


def _in_global_memory(after: LoopKernel, step: str, change: CostChange) -> LoopkitError | None:
    """The error for a copy in global memory, if neither global storage nor a further launch is allowed."""
    if change.adds_launches():
        return None
    for name, cells in change.scratch.items():
        if after.temporaries[name].address_space is not AddressSpace.GLOBAL:
            return StorageError(
                f"{step}: the copy '{name}' would lie in {MEMORIES[cells.space]}, {cells}.", subject=name,
                hint="tags for its loops and those around it first, other loops around it (fetch_outer_inames), "
                     "temporary_address_space='global', or allow_global_storage=True")
    return None


def _with(moved: Moves) -> str:
    return f", with {moved}" if moved else ""


def _first(kernel: LoopKernel, moved: Moves, torn: str | None = None) -> str:
    """Hint text: the steps to call first for *moved*, or for the distribution of the loop over *torn*."""
    inner = dict.fromkeys(x for x, _ in moved.sunk)
    if moved.sunk and (torn is None or torn in inner):
        ways = [f"prioritize_loops(knl, '{', '.join(moved.order)}') first, which gives that order"]
    elif torn is not None:
        second, inner = moved.distributed[torn], {torn: None}
        parts = {x for node in kernel.reductions.values() for x in node.parts if x != node.init}
        ways = [] if second in parts else [f"distribute_loop(knl, '{torn}', '{second}') first"]
    else:
        return ""
    reduced = {x for node in kernel.reductions.values() for x in node.inames}  # not every axis accepts reduction inames
    if not any(x in kernel.tags or x in reduced for x in inner):
        ways.append(f"a parallel tag for {', '.join(map(repr, inner))}")
    return "".join(f"{way}, " for way in ways) + "or " if ways else ""


def _launching(step: str, costs: tuple[Cost, Cost], change: CostChange) -> LoopkitError | None:
    if None in change.launches:
        return ScheduleError(f"{step} may add launches, and their number is not known. "
                             f"{costs[0].reason or costs[1].reason}", subject=step,
                             hint="mend that first, or allow_launches=True")
    if not change.adds_launches():
        return None
    hosts = change.added_hosts()
    first, second = change.launches
    parts = [f"launches: {first} -> {second}"] if first != second else []
    parts += [f"{line}" for line in costs[1].launch_lines() if any(line.startswith(f"for {x}:") for x in hosts)]
    return ScheduleError(f"{step} would add launches ({'; '.join(parts)}).", subject=hosts[0] if hosts else step,
                         hint="allow_launches=True")
