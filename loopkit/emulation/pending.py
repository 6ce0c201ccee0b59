"""Asynchronous accesses that a thread has started: the moments at which they take effect."""
from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

import numpy as np

from loopkit.emulation.memory import NumpyArray


@dataclass(frozen=True, eq=False)
class Effect:
    """The accesses of one instruction.

    :ivar threads: the threads that started it, by their numbers in the block; *lanes*: those whose part is pending.
    :ivar act: makes the accesses of the lanes that its argument chooses.
    """

    threads: NumpyArray
    lanes: NumpyArray
    act: Callable[[NumpyArray], None]

    def of(self, chosen: NumpyArray) -> Effect | None:
        """The part that belongs to the *chosen* threads of the block, if there is any."""
        lanes = self.lanes & chosen[self.threads]
        return replace(self, lanes=lanes) if lanes.any() else None

    def perform(self) -> None:
        self.act(self.lanes)


@dataclass
class _Group:
    """The effects that the *threads* of one commit had started since their last one."""

    threads: NumpyArray
    effects: list[Effect]


@dataclass
class CommitGroups:
    """The effects of one kind that a block's threads complete by commits and waits.

    :ivar late: an effect takes place at the wait that completes it, or never; else where it is started.
    """

    late: bool
    started: list[Effect] = field(default_factory=list)
    committed: list[_Group] = field(default_factory=list)

    def start(self, effect: Effect) -> None:
        if self.late:
            self.started.append(effect)
        else:
            effect.perform()

    def commit(self, threads: NumpyArray) -> None:
        """A commit of *threads*, given as a truth value for each thread of the block."""
        own = [part for e in self.started if (part := e.of(threads)) is not None]
        self.started = _remaining(self.started, threads)
        self.committed.append(_Group(threads, own))

    def wait(self, threads: NumpyArray, pending: int) -> None:
        """A wait of *threads* for all of their groups but the *pending* newest."""
        newer = np.zeros(len(threads), int)
        for group in reversed(self.committed):
            done = threads & group.threads & (newer >= pending)
            newer += group.threads
            for e in group.effects if done.any() else ():
                if (part := e.of(done)) is not None:
                    part.perform()
            group.effects = _remaining(group.effects, done)
            group.threads = group.threads & ~done
        self.committed = [group for group in self.committed if group.threads.any()]


def _remaining(effects: list[Effect], done: NumpyArray) -> list[Effect]:
    return [part for e in effects if (part := e.of(~done)) is not None]


#: The effects that a block's threads have started, by the kind of event that completes them.
Pending = dict[Hashable, CommitGroups]
