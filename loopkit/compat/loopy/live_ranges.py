"""An order of statements in which temporaries that share memory are in use one after the other.

In loopy the statements have no order beyond their dependences, so that one may be chosen for the shared memory.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import loopkit as lk
from loopkit.analysis.accesses import accesses_by_array
from loopkit.analysis.dependences import dependences
from loopkit.kernel.statement import owner
from loopkit.kernel.tree import LoopPlace
from loopkit.poly.limits import bounded


def with_uses_apart(core: lk.LoopKernel, names: Collection[str]) -> lk.LoopKernel:
    """*core* with all statements that access one of *names* before those that access the next one, where possible.

    A loop that holds accesses to several of *names* is split.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i,j<8}", [
    ...     "<> a[i] = x[i]", "<> b[i] = 2*x[i]", "y[j] = a[7 - j]", "z[j] = b[7 - j]"])
    >>> print(with_uses_apart(knl, ["a", "b"]).statements_text)
    for i
      <> a[i] = x[i]  {id=insn}
    end
    for j
      y[j] = a[7 - j]  {id=insn_1}
    end
    for i
      <> b[i] = 2*x[i]  {id=insn_0}
    end
    for j
      z[j] = b[7 - j]  {id=insn_2}
    end

    :raises IllegalTransformError: the order breaks a dependence.
    """
    with bounded(f"finding an order of the statements of kernel '{core.name}'"):
        return lk.apply_schedule(core, _Uses(core, names).times())


@dataclass(frozen=True)
class _Uses:
    """The statements of a kernel by their numbers in the text, with those that access each of *names*."""

    core: lk.LoopKernel
    names: Collection[str]

    @cached_property
    def number(self) -> Mapping[str, int]:
        return {str(i.id): k for k, i in enumerate(self.core.instructions)}

    @cached_property
    def loops(self) -> Sequence[tuple[LoopPlace, ...]]:
        return [() if i.place is None else i.place.loops for i in self.core.instructions]

    @cached_property
    def users(self) -> Sequence[frozenset[int]]:
        """The statements that access each of the names that any statement accesses."""
        accesses = accesses_by_array(self.core)
        return [frozenset(self.number[owner(a.statement)] for a in accesses[name])
                for name in self.names if accesses.get(name)]

    @cached_property
    def around(self) -> tuple[LoopPlace, ...]:
        """The loops around all users."""
        every = frozenset[int]().union(*self.users)
        loops = self.loops[min(every)]
        while any(self.loops[k][:len(loops)] != loops for k in every):
            loops = loops[:-1]
        return loops

    @cached_property
    def parts(self) -> list[list[int]]:
        """The statements in the loops around all users, those that stay together in one list."""
        depth = len(self.around)
        whole = dict[LoopPlace | int, list[int]]()
        for k, loops in enumerate(self.loops):
            if loops[:depth] == self.around:
                whole.setdefault(loops[depth] if len(loops) > depth else k, []).append(k)
        mixed = [part for part in whole.values() if sum(not own.isdisjoint(part) for own in self.users) > 1]
        return [one for part in whole.values() for one in ([[k] for k in part] if part in mixed else [part])]

    def order(self) -> Sequence[list[int]]:
        """The parts in their new order: first those that the first temporary needs whose uses end."""
        place = {k: at for at, part in enumerate(self.parts) for k in part}
        before = dict[int, set[int]]()
        for d in dependences(self.core):
            source, sink = (place.get(self.number.get(owner(s), -1)) for s in (d.source, d.sink))
            if source is not None and sink is not None and source < sink:
                before.setdefault(sink, set()).add(source)
        done = list[int]()

        def take(at: int) -> None:
            for other in sorted(before.get(at, ())):
                take(other)
            if at not in done:
                done.append(at)
        for own in sorted(self.users, key=max):
            for at in sorted({place[k] for k in own}):
                take(at)
        for at in range(len(self.parts)):
            take(at)
        return [self.parts[at] for at in done]

    def times(self) -> Mapping[str, Sequence[str | int]]:
        """For each statement its loops, with a constant before each of them for the new order."""
        new = {k: at for at, part in enumerate(self.order()) for k in part}
        times = dict[str, Sequence[str | int]]()
        for name, k in self.number.items():
            places = [*(self.number[owner(first)] for _, first in self.loops[k]), k]
            if k in new:
                places[len(self.around)] = new[k]
            times[name] = [*(x for place, (iname, _) in zip(places, self.loops[k], strict=False)
                             for x in (place, iname)), places[-1]]
        return times
