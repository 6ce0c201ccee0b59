"""The order over parallel inames: each statement runs for all of their values before the next one that needs it.

loopkit runs all statements of one iteration before the next iteration, also if the iname is parallel. In loopy a
barrier separates two statements that access one element of local memory, so that all threads run the first one before
any runs the second. A global barrier in the text does the same for global memory. The orders differ if a statement
accesses an element that an earlier statement of a later iteration accesses, too. The layer then ends the parallel loop
between the two statements.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile

import pymbolic.primitives as p

import loopkit as lk
from loopkit.analysis.accesses import Access, accesses_by_array, commute
from loopkit.expr.mappers import called, subscripts_of, variables
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.instruction import Assignment, StatementPlace
from loopkit.kernel.statement import owner
from loopkit.kernel.tags import GroupTag, InameTag, is_parallel
from loopkit.kernel.tree import LoopPlace
from loopkit.poly.limits import bounded
from loopkit.poly.relations import by_first_difference, in_one_iteration, same_element, shared_dims


def in_lockstep(kernel: lk.LoopKernel, tags: Mapping[str, InameTag], *, once: bool = False) -> lk.LoopKernel:
    """*kernel* with loopy's order of its statements for the *tags* that its inames are to have.

    Each thread reads the value of another one:

    >>> text = "for t, i\\n <> s[i] = x[t,i]\\n y[t,i] = s[7-i]\\nend"
    >>> knl = lk.make_kernel("{[t,i]: 0<=t<n and 0<=i<8}", text)
    >>> print(in_lockstep(knl, lk.tag_inames(knl, "i:l.0").tags).statements_text)
    for t
      for i
        <> s[i] = x[t, i]  {id=insn}
      end
      for i
        y[t, i] = s[7 - i]  {id=insn_0}
      end
    end

    :arg once: a statement that stores one value in one element for all values of a parallel iname runs once.
    :raises PreconditionError: the order of *kernel* cannot be that of a definition.
    """
    every = {**kernel.tags, **tags}
    if not any(map(is_parallel, tags.values())):
        return kernel
    with bounded(f"finding the order of threads in kernel '{kernel.name}'"):
        threads = _Threads(kernel, every)
        for array, accesses in accesses_by_array(kernel).items():
            if (memory := threads.memory_of(array, accesses)) is not AddressSpace.PRIVATE:
                threads.separate(accesses, memory)
        if once:
            threads.find_repeated(tags)
        crossing = threads.crossing() if threads.ends else {}
    for name, inames in crossing.items():
        kernel = lk.expand(kernel, name, inames)
    return lk.with_statements(kernel, threads.placed(kernel.instructions)) if threads.ends else kernel


@dataclass(frozen=True)
class _Threads:
    """The parallel loops of a kernel, and the places at which they end.

    :ivar tags: those that the inames are to have.
    :ivar ends: for the number of an instruction, the parallel loops around it that begin anew there.
    :ivar repeated: for the number of an instruction, the parallel loops all of whose threads would do the same.
    """

    kernel: lk.LoopKernel
    tags: Mapping[str, InameTag]
    ends: dict[int, set[LoopPlace]] = field(default_factory=dict)
    repeated: dict[int, set[LoopPlace]] = field(default_factory=dict)

    @cached_property
    def loops(self) -> Sequence[tuple[LoopPlace, ...]]:
        """The loops around each instruction."""
        return [() if i.place is None else i.place.loops for i in self.kernel.instructions]

    @cached_property
    def number(self) -> Mapping[str, int]:
        """The number of each instruction."""
        return {str(i.id): k for k, i in enumerate(self.kernel.instructions)}

    def memory_of(self, array: str, accesses: Sequence[Access]) -> AddressSpace:
        """The memory of *array* in loopy: undeclared, the inames in the subscripts of its writes decide."""
        t = self.kernel.temporaries.get(array)
        if t is None:
            return AddressSpace.GLOBAL
        if t.address_space is not None:
            return t.address_space
        own = [self.tags.get(x) for a in accesses if a.is_write for e in a.subscripts for x in variables(e)]
        return AddressSpace.GLOBAL if any(isinstance(tag, GroupTag) for tag in own) else \
            AddressSpace.SHARED if any(map(is_parallel, own)) else AddressSpace.PRIVATE

    def separate(self, accesses: Sequence[Access], memory: AddressSpace) -> None:
        """End loops so that all threads make an access before any makes the next one to the same element."""
        places = sorted(((self.number[owner(a.statement)], a) for a in accesses if owner(a.statement) in self.number),
                        key=lambda entry: entry[0])
        for last, late in places:
            for first, early in places:
                if first < last and (late.is_write or early.is_write) and not commute(early, late):
                    self._separate(first, early, last, late, memory)

    def _separate(self, first: int, early: Access, last: int, late: Access, memory: AddressSpace) -> None:
        shared = [x for x, other in takewhile(lambda both: both[0] == both[1],
                                              zip(self.loops[first], self.loops[last], strict=False))]
        # each block has local memory of its own
        apart = [x for x in shared if is_parallel(tag := self.tags.get(x[0])) and not (
            memory is AddressSpace.SHARED and isinstance(tag, GroupTag))]
        if late.array in self.kernel.temporaries:       # else every thread has a value of its own
            apart = [x for x in apart if all(x[0] in variables(p.Call(p.Variable(late.array), a.subscripts))
                                             for a in (early, late) if a.is_write)]
        if not apart or any(self.ends.get(k, set()).issuperset(apart) for k in range(first + 1, last + 1)) or (
                memory is AddressSpace.GLOBAL and not self._global_barrier(first, last)):
            return

        def dims(names: Sequence[LoopPlace]) -> Sequence[tuple[int, int]]:
            return shared_dims(late.domain.inames, early.domain.inames, [x for x, _ in names])
        pairs = in_one_iteration(same_element(late.relation, early.relation),
                                 dims([x for x in shared if x not in apart]))
        *before, _ = by_first_difference(pairs, dims(apart))
        if not all(some.is_empty() for some in before):
            self.ends.setdefault(last, set()).update(apart)

    def _global_barrier(self, first: int, last: int) -> bool:
        """Does a global barrier of the text lie between two instructions?"""
        return any(b.kind == "global" and first <= self.number[b.first] and self.number[b.second] <= last
                   for b in self.kernel.barriers if {b.first, b.second} <= self.number.keys())

    def find_repeated(self, new: Collection[str]) -> None:
        """Find the instructions that store one value in one element for all values of a parallel iname among *new*.

        They do not read what they write, and need not run repeatedly. They may access memory that belongs to one of
        these values only if such instructions alone write to it: all values then have the same there.
        """
        accesses = accesses_by_array(self.kernel)
        memory = {x: self.memory_of(x, accesses.get(x, ())) for x in self.kernel.data}
        writes = [a for own in accesses.values() for a in own if a.is_write and owner(a.statement) in self.number]
        private = {x: {self.number[owner(a.statement)] for a in writes if a.array == x}
                   for x, space in memory.items() if space is AddressSpace.PRIVATE}
        users = dict[int, frozenset[str]]()
        for k, insn in enumerate(self.kernel.instructions):
            assert not isinstance(insn.assignee, str)
            parts = [insn.expression, *insn.predicates, *subscripts_of(insn.assignee)]
            names = frozenset[str]().union(*map(variables, parts))
            used = {memory[x] for x in (*names, insn.written) if x in memory}
            users[k] = (names | {insn.written}) & private.keys()
            if insn.instructions or insn.written in names or any(
                    called(e) & self.kernel.substitutions.keys() for e in parts):
                continue
            same = {(x, at) for x, at in self.loops[k] if x in new and is_parallel(tag := self.tags[x])
                    and x not in names and not (isinstance(tag, GroupTag) and AddressSpace.SHARED in used)}
            self.repeated[k] = same
        while any(self._keep_alike(k, {w for name in users[k] for w in private[name]}) for k in self.repeated):
            pass
        needed = {k for k in self.repeated if self.kernel.instructions[k].written not in private}
        while more := {w for k in needed if self.repeated[k] for name in users[k] for w in private[name]} - needed:
            needed |= more
        for k in self.repeated:
            self.repeated[k] = self.repeated[k] if k in needed else set()
            for at in (k, k + 1) if self.repeated[k] else ():
                self.ends.setdefault(at, set()).update(self.repeated[k])

    def _keep_alike(self, k: int, writers: Collection[int]) -> bool:
        """Leave out the loops for which *writers* of private memory of instruction *k* have several values."""
        differ = {x for w in writers for x, _ in {*self.loops[w]} - self.repeated.get(w, set())}
        before, self.repeated[k] = self.repeated[k], {loop for loop in self.repeated[k] if loop[0] not in differ}
        return before != self.repeated[k]

    def crossing(self) -> Mapping[str, tuple[str, ...]]:
        """The private temporaries alive where parallel loops end: each with the inames whose values have one each."""
        inner, found = self._inner_loops(), dict[str, tuple[str, ...]]()
        for name, accesses in accesses_by_array(self.kernel).items():
            around = {inner[self.number[owner(a.statement)]] for a in accesses if owner(a.statement) in self.number}
            if name in self.kernel.temporaries and len(around) > 1 \
                    and self.memory_of(name, accesses) is AddressSpace.PRIVATE:
                common = set.intersection(*({x for x, _ in loops} for loops in around))
                found |= {name: tuple(sorted(common))} if common else {}
        return found

    def placed(self, instructions: Sequence[Assignment]) -> list[Assignment]:
        """*instructions* in their new loops: parallel ones that end somewhere are the innermost."""
        ended = set[LoopPlace]().union(*self.ends.values())
        found = list[Assignment]()
        for k, (insn, inner) in enumerate(zip(instructions, self._inner_loops(), strict=True)):
            if insn.place is not None and ended.intersection(self.loops[k]):
                once = {x for x, _ in self.repeated.get(k, ())}
                domain = insn.place.domain.onto(tuple(x for x in insn.place.domain.inames if x not in once))
                insn = insn.copy(within_inames=frozenset(domain.inames), place=StatementPlace(
                    domain, (*(loop for loop in self.loops[k] if loop not in ended), *inner)))
            found.append(insn)
        return found

    def _inner_loops(self) -> Sequence[tuple[LoopPlace, ...]]:
        """For each instruction the new loops in place of those that end somewhere."""
        ended = set[LoopPlace]().union(*self.ends.values())
        begun: dict[LoopPlace, str] = {}
        found, before = list[tuple[LoopPlace, ...]](), tuple[LoopPlace, ...]()
        for k, insn in enumerate(self.kernel.instructions):
            outer = tuple(loop for loop in self.loops[k] if loop not in ended)
            gone = begun.keys() if outer != before else self.ends.get(k, set())
            begun = {loop: first for loop, first in begun.items() if loop not in gone}
            before = outer
            found.append(tuple((loop[0], begun.setdefault(loop, str(insn.id))) for loop in self.loops[k]
                               if loop in ended and loop not in self.repeated.get(k, ())))
        return found
