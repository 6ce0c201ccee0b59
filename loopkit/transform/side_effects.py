"""Side effects of staging steps on given loop orders, storage and launches, and the errors for them."""
from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from loopkit.analysis.accesses import accesses_of
from loopkit.analysis.legality import require_legal
from loopkit.analysis.order import Moves, moves
from loopkit.errors import LoopkitError, ScheduleError, StorageError
from loopkit.kernel.cost import MEMORIES, SPACES, Cells, Cost, CostChange
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import GroupTag, LocalTag, is_parallel
from loopkit.shown import ENTRY_POINTS


@dataclass(frozen=True)
class Allowed:
    """The side effects and broken dependences that the caller allows, each under its argument's name."""

    reordering: bool
    global_storage: bool
    launches: bool
    assume: str | None
    unsafe: bool

    def legal(self, kernel: LoopKernel, step: str) -> LoopKernel:
        return require_legal(kernel, step, assume=self.assume, unsafe=self.unsafe)


def side_effect(before: LoopKernel, after: LoopKernel, step: str, allowed: Allowed, growing: Collection[str] = ()
                ) -> LoopkitError | None:
    """The error for a side effect of *step* that is not *allowed*; ``None``: there is none.

    :arg growing: temporaries that the step is meant to give more cells.
    """
    change = _Change(before, after, step, moves(before, after))
    if not allowed.reordering and (found := change.reordering()) is not None:
        return found
    if (allowed.global_storage and allowed.launches) or not change.may_cost():
        return None
    costs: tuple[Cost, Cost] = ENTRY_POINTS["cost"](before), ENTRY_POINTS["cost"](after)
    cost = CostChange.between(*costs)
    if not allowed.global_storage:
        if grown := {x: pair for x, pair in cost.grown().items() if x not in growing or _is_moved(*pair)}:
            return change.growth(grown)
        for name, reason in cost.unknown.items():
            if name not in growing and change.may_grow(name):
                return StorageError(f"{step} may enlarge '{name}'{change.text}, and its storage is unknown. {reason}",
                                    subject=name,
                                    hint=f"correct that first, {change.steps_first()}allow_global_storage=True")
    if not allowed.launches:
        if None in cost.launches and change.may_launch():
            return ScheduleError(f"{step} may add launches, and their number is unknown. "
                                 f"{costs[0].reason or costs[1].reason}", subject=step,
                                 hint="correct that first, or allow_launches=True")
        if cost.adds_launches():
            hosts, (first, second) = cost.added_hosts(), cost.launches
            parts = [f"launches: {first} -> {second}"] if first != second else []
            parts += [x for x in costs[1].launch_lines() if any(x.startswith(f"for {host}:") for host in hosts)]
            return ScheduleError(f"{step} would add launches ({'; '.join(parts)}).",
                                 subject=hosts[0] if hosts else step, hint="allow_launches=True")
    for name, cells in cost.scratch.items() if not allowed.global_storage and not cost.adds_launches() else ():
        if after.temporaries[name].address_space is not AddressSpace.GLOBAL:
            return StorageError(
                f"{step}: the copy '{name}' would be in {MEMORIES[cells.space]}, {cells}.", subject=name,
                hint="tag its loops and those around it first, choose other loops around it (fetch_outer_inames), "
                     "temporary_address_space='global', or allow_global_storage=True")
    return None


@dataclass(frozen=True)
class _Change:
    before: LoopKernel
    after: LoopKernel
    step: str
    moved: Moves

    @cached_property
    def added(self) -> list[Statement]:
        return [s for s in self.after.statements if s.id not in self.before.statement_by_id]

    @property
    def text(self) -> str:
        return f", with {self.moved}" if self.moved else ""

    def may_cost(self) -> bool:
        """May storage or launches differ? A new block-private copy of an array without writers changes neither.

        Exceptions: the copy is the first statement on an axis of the block, as threads then read each other's values;
        or the copy is in a loop of threads, so that each thread might have a separate copy.
        """
        tags = self.after.tags
        if not self.before.temporaries and not any(isinstance(tag, GroupTag | LocalTag) for tag in tags.values()):
            return False
        return bool(self.moved) or self._spread() or any(
            is_parallel(tags.get(x)) and not isinstance(tags.get(x), GroupTag)
            for s in self.added for x in s.inames if x in self.before.inames
        ) or any(self._reads_written(s) for s in self.added)

    def may_grow(self, name: str) -> bool:
        """May the temporary *name* have more cells now? Not if all of its users are old and kept their place."""
        loops = {*self.moved.distributed, *(x for pair in self.moved.sunk for x in pair)}
        return self._spread() or any(name in _accessed(self.after, s) for s in self.added) or any(
            name in _accessed(self.before, s) and not loops.isdisjoint(s.inames) for s in self.before.statements)

    def may_launch(self) -> bool:
        """May the new statements need a further launch? Not if each block computes all that it alone reads."""
        return bool(self._grid) and (bool(self.moved) or any(
            self._is_outside(s, s.written) or self._reads_written(s) for s in self.added))

    @cached_property
    def _grid(self) -> set[str]:
        return {x for x, tag in self.after.tags.items() if isinstance(tag, GroupTag)}

    def _spread(self) -> bool:
        """Is a new statement outside of a loop of blocks, or on an axis of the block that no statement had before?"""
        return any(isinstance(tag, LocalTag) and tag not in self.before.tags.values()
                   for tag in self.after.tags.values()) or any(self._is_outside(
                       s, *(_accessed(self.after, s) - self.after.argument_by_name.keys())) for s in self.added)

    def _is_outside(self, s: Statement, *arrays: str) -> bool:
        """Is *s* outside of a loop of blocks around a statement that uses one of *arrays*, too?"""
        return any(not self._grid.intersection(other.inames) <= {*s.inames} for other in self.after.statements
                   if not _accessed(self.after, other).isdisjoint(arrays))

    def _reads_written(self, s: Statement) -> bool:
        return not _accessed(self.after, s).isdisjoint(self.before.written_names)

    def reordering(self) -> LoopkitError | None:
        given = self.before.given_pairs
        broken = [(x, y) for x, y in self.moved.sunk if (x, y) in given]
        if broken:
            x, y = broken[0]
            inside = ", ".join(f"'{b}'" for a, b in broken if a == x)
            return ScheduleError(f"{self.step} would move the loop over '{x}' inside that over {inside}, but the order "
                                 f"{x}, {y} was given.", subject=x, hint=f"{self.steps_first()}allow_reordering=True")
        torn = next((x for x in self.moved.distributed if any(x in pair for pair in given)), None)
        return None if torn is None else ScheduleError(
            f"{self.step} would distribute the loop over '{torn}', which belongs to a given order, over its "
            "statements.", subject=torn, hint=f"{self.steps_first(torn)}allow_reordering=True")

    def growth(self, grown: Mapping[str, tuple[Cells, Cells]]) -> LoopkitError:
        elsewhere = [f"'{x}' to {MEMORIES[new.space]}: {old} -> {new}" for x, (old, new) in grown.items()
                     if _is_moved(old, new)]
        larger = [f"'{x}': {old} -> {new}" for x, (old, new) in grown.items() if not _is_moved(old, new)]
        parts = [f"{verb} {', '.join(names)}" for verb, names in (("enlarge", larger), ("move", elsewhere)) if names]
        return StorageError(f"{self.step} would {' and '.join(parts)}{self.text}.", subject=next(iter(grown)),
                            hint=f"{self.steps_first()}allow_global_storage=True")

    def steps_first(self, torn: str | None = None) -> str:
        """Hint text: the steps to call first for the moved loops, or for the distribution of the loop over *torn*."""
        inner = dict.fromkeys(x for x, _ in self.moved.sunk)
        nodes = self.before.reductions.values()
        if self.moved.sunk and (torn is None or torn in inner):
            ways = [f"prioritize_loops(knl, '{', '.join(self.moved.order)}') first, which gives that order"]
        elif torn is not None:
            second, inner = self.moved.distributed[torn], {torn: None}
            ways = [] if any(second in node.parts and second != node.init for node in nodes) \
                else [f"distribute_loop(knl, '{torn}', '{second}') first"]
        else:
            return ""
        reduced = {x for node in nodes for x in node.inames}        # not every axis accepts reduction inames
        if not any(x in self.before.tags or x in reduced for x in inner):
            ways.append(f"a parallel tag for {', '.join(map(repr, inner))}")
        return "".join(f"{way}, " for way in ways) + "or " if ways else ""


def _accessed(knl: LoopKernel, s: Statement) -> set[str]:
    return {a.array for a in accesses_of(knl, s)}


def _is_moved(old: Cells, new: Cells) -> bool:
    return SPACES.index(new.space) > SPACES.index(old.space)
