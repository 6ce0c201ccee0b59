"""Phases: each wait names one phase, which surely ends, and no thread can take it for another phase of its slot.

Copies arrive at a phase, and so do warps that have read a tile. A ring is correct if its arrivals end phases in the
order of their numbers, each with as many arrivals as the slots expect. A wait for phase *n* comes after the arrivals of
*n* and after a wait of its thread for *n* - *slots*. An arrival of phase *n* comes after all waits for *n* - *slots*:
behind a barrier, or between the two roles behind a phase of another ring. Then the parity of a slot tells whether the
phase has ended.

In a block with a producer, the order of the tree has each role's own order, and each arrival before the waits for it.
So no role waits for the other in a circle. A program has a branch for each role: there, what comes behind a wait in a
role must not come before it in the tree.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product

import pymbolic.primitives as p

from loopkit.analysis.events import Event
from loopkit.analysis.order import loops_of
from loopkit.ast.nodes import Scope
from loopkit.ast.phases import Phase
from loopkit.expr.mappers import variables
from loopkit.instructions.phases import ArrivePhase, StartPhases, WaitPhase
from loopkit.kernel.tags import is_collective
from loopkit.kernel.tree import Leaf, Path, Tree, leaves, placed_nodes
from loopkit.lowering.lowered import Launch
from loopkit.poly.affine import DIM, add, subtract
from loopkit.poly.piecewise import equal_coordinates, piecewise_relation, points_where
from loopkit.poly.relations import apart_along, in_one_iteration
from loopkit.poly.sets import InstanceSet, Map, Set, as_points, constant_range, lexmin_point


@dataclass(frozen=True)
class PhaseEvent:
    """An arrival of a phase, or a wait for it.

    :ivar statement: the id of the copy; ``""`` for a wait, and for warps.
    :ivar arrivals: the number of arrivals of one execution; 0: it is a wait.
    """

    event: Event
    phase: Phase
    statement: str = ""
    arrivals: int = 0

    @property
    def what(self) -> str:
        return f"'{self.statement}'" if self.statement else "an arrival of warps" if self.arrivals else "a wait"

    def counted(self) -> PhaseEvent:
        """It, without the executions whose phases have negative numbers: nothing happens there."""
        names = self.event.names
        points = self.event.points.intersect(points_where(p.Comparison(self.phase.number, ">=", 0), names))
        return replace(self, event=replace(self.event, points=points))


@dataclass(frozen=True)
class PhaseFault:
    """A fault at the smallest sizes and at the smallest place with which it happens."""

    text: str
    statement: str
    parameters: Mapping[str, int]
    place: Mapping[str, int]


@dataclass(frozen=True)
class Rings:
    """The phases of a launch, and the barriers of its blocks.

    :ivar blocks: the names of the grid's coordinates.
    :ivar copies: the arrivals, those of warps among them.
    :ivar starts: the barriers at which rings start.
    :ivar copied: the array of each copy, if blocks run several places of the grid; ``None``: each runs one.
    :ivar tree: the rings of the tree, which has both roles in one; ``None``: these are them.
    """

    blocks: frozenset[str]
    copies: Sequence[PhaseEvent]
    waits: Sequence[PhaseEvent]
    barriers: Sequence[Event]
    starts: Sequence[tuple[StartPhases, Event]]
    copied: Mapping[str, str] | None = None
    tree: Rings | None = None

    def faults(self) -> Iterator[PhaseFault]:
        """The faults of all rings."""
        for ring in dict.fromkeys(e.phase.ring for e in (*self.copies, *self.waits)):
            copies, given = ([e for e in events if e.phase.ring == ring] for events in (self.copies, self.waits))
            waits = [w.counted() for w in given]
            yield from self._started(ring, (*copies, *waits))
            yield from self._numbered(copies)
            yield from self._waited(copies, waits)
            yield from self._reused(copies, waits)
            if self.copied is not None:
                yield from self._balanced(ring, copies, given)
                for c in (c for c in copies if c.statement):
                    yield from self._overwriting(c, copies, self.copied[c.statement])
        yield from self._ordered()

    def unended(self) -> Iterator[PhaseFault]:
        """The faults in numbers: a wait for a phase without an arrival, a phase with too few or too many of them."""
        for ring in dict.fromkeys(e.phase.ring for e in (*self.copies, *self.waits)):
            copies = [e for e in self.copies if e.phase.ring == ring]
            waits = [w.counted() for w in self.waits if w.phase.ring == ring]
            numbers = [self._numbers(c) for c in copies]
            ended = reduce(Set.union, (n.range() for n in numbers)) if numbers else None
            if ended is not None:
                yield from self._complete(copies, numbers, ended)
            for w in waits:
                own = self._numbers(w)
                yield from self._fault("no arrival is of the phase of a wait", w,
                                       (own if ended is None else own.subtract_range(ended)).domain())

    # The relation of events

    def first(self, a: Event, b: Event) -> Map:
        """The pairs in one block in which *a* runs before *b*."""
        # a tree has one order for both roles, with that of each
        return a.in_order(replace(b, producer=a.producer) if self.tree is None else b, self.blocks)

    def _in_phases(self, a: PhaseEvent, b: PhaseEvent, later: int = 0) -> Map:
        """The pairs in which the phase of *b* is that of *a*, or *later* phases after it."""
        blocks = [*map(p.Variable, sorted(self.blocks))]
        found = equal_coordinates(a.event.names, [*blocks, add(a.phase.number, later)], b.event.names,
                                  [*blocks, b.phase.number])
        return found.intersect_domain(a.event.points).intersect_range(b.event.points)

    def _numbers(self, e: PhaseEvent) -> Map:
        """From the executions of *e* to the block and the number of the phase."""
        return piecewise_relation(e.event.names, (*map(p.Variable, sorted(self.blocks)), e.phase.number)
                                  ).intersect_domain(e.event.points)

    def _separated(self, a: Event, b: Event) -> Map:
        """The pairs with a barrier between; in two roles, with an arrival and a wait for its phase."""
        pairs = self.first(a, b)
        if a.producer is b.producer:
            between = [self.first(a, x).apply_range(self.first(x, b)) for x in self.barriers
                       if x.producer is a.producer]
        else:
            between = [self.first(a, x.event).apply_range(self._in_phases(x, y)).apply_range(self.first(y.event, b))
                       for x in self.copies for y in map(PhaseEvent.counted, self.waits) if x.phase.ring == y.phase.ring
                       and x.event.producer is a.producer and y.event.producer is b.producer]
        return reduce(Map.union, between, Map.empty(pairs.get_space()))

    def _fault(self, text: str, e: PhaseEvent, points: Set) -> Iterator[PhaseFault]:
        if not points.is_empty():
            found = lexmin_point(points, e.event.names)
            assert found is not None
            yield PhaseFault(text, e.statement, *found)

    # The properties

    def _started(self, ring: str, events: Sequence[PhaseEvent]) -> Iterator[PhaseFault]:
        """The ring starts once, and before its first use; all count its phases, and what arrives, in one way."""
        starts = [(start, event) for start, event in self.starts if start.ring == ring]
        several = self.copied is not None
        places = "several places" if several else "one place"
        for e in events:
            left = e.event.points
            if e.phase.in_tile is not several:
                yield PhaseFault(f"{e.what} does not count the phases of '{ring}' as in blocks that run {places} of "
                                 "the grid", e.statement, {}, {})
            for start, event in starts:
                both = replace(event, producer=e.event.producer)        # all threads execute it
                left = left.subtract(self.first(both, e.event).range())
                if start.slots != e.phase.slots:
                    yield PhaseFault(f"'{ring}' has {start.slots} slots, and {e.what} uses {e.phase.slots}",
                                     e.statement, {}, {})
                if e.arrivals and start.empty is bool(e.statement):
                    yield PhaseFault(f"'{ring}' is one of {'read' if start.empty else 'copied'} tiles, and {e.what} "
                                     "arrives", e.statement, {}, {})
            yield from self._fault(f"{e.what} uses '{ring}' before it starts", e, left)
        for start, _ in starts:
            if start.in_tiles is not several:
                yield PhaseFault(f"'{ring}' does not start as in blocks that run {places} of the grid", "", {}, {})
        for (one, a), (other, b) in product(starts, repeat=2):
            if not self.first(a, b).is_empty():
                yield PhaseFault(f"'{ring}' starts twice", "", {}, {})
            if one.arrivals < other.arrivals:           # two versions of the code, one of them for full tiles
                yield PhaseFault(f"'{ring}' expects {one.arrivals} or {other.arrivals} arrivals a phase", "", {}, {})

    def _numbered(self, copies: Sequence[PhaseEvent]) -> Iterator[PhaseFault]:
        """Arrivals end phases 0, 1, 2, ... in this order, with as many in each as the ring expects."""
        numbers = [self._numbers(c) for c in copies]
        if not numbers:
            return
        every = reduce(Set.union, (n.range() for n in numbers))
        last = len(self.blocks)
        names = (*sorted(self.blocks), "number")
        for c, own in zip(copies, numbers, strict=True):
            yield from self._fault(f"{c.what} is a copy of a phase with a negative number", c, own.intersect_range(
                points_where(p.Comparison(p.Variable("number"), "<", 0), names)).domain())
            before = piecewise_relation(names, (*map(p.Variable, names[:last]), subtract(p.Variable("number"), 1)))
            first = points_where(p.Comparison(p.Variable("number"), "<=", 0), names)
            missing = own.apply_range(before).intersect_domain(own.subtract_range(first).domain()).subtract_range(every)
            yield from self._fault(f"no arrival is of the phase before that of {c.what}", c, missing.domain())
        yield from self._complete(copies, numbers, every)
        for (c, own), (d, other) in product(zip(copies, numbers, strict=True), repeat=2):
            values = own.reverse().apply_range(self.first(c.event, d.event)).apply_range(other)
            _, falling = apart_along(values, last)
            yield from self._fault(f"the phases of {c.what} and {d.what} do not end in the order of their numbers", c,
                                   own.intersect_range(falling.domain()).domain())

    def _complete(self, copies: Sequence[PhaseEvent], numbers: Sequence[Map], every: Set) -> Iterator[PhaseFault]:
        """Each phase has as many arrivals as the ring expects, of all statements together."""
        ring = copies[0].phase.ring
        expected = next((start.arrivals for start, _ in self.starts if start.ring == ring), 0)
        made = {0: every}                                   # the phases by the number of their copies
        for c, own in zip(copies, numbers, strict=True):
            count = self._copies_of_phase(c)
            if count is None:
                yield PhaseFault(f"{c.what} does not make the same number of arrivals for each phase of '{ring}'",
                                 c.statement, {}, {})
                return
            has = own.range()
            without = {n: phases.subtract(has) for n, phases in made.items()}
            for n, phases in made.items():
                more = phases.intersect(has)
                without[n + count] = more.union(without[n + count]) if n + count in without else more
            made = without
        for (c, own), (n, phases) in product(zip(copies, numbers, strict=True), made.items()):
            if n != expected:
                yield from self._fault(f"a phase of '{ring}' has {expected} arrivals, and that of {c.what} has {n}", c,
                                       own.intersect_range(phases).domain())

    def _copies_of_phase(self, c: PhaseEvent) -> int | None:
        """The arrivals of *c* for each of its phases, those of a box of iterations; ``None``: there is no such
        number.
        """
        names = c.event.names
        used = self.blocks | variables(c.phase.number)
        outer = max((k + 1 for k, x in enumerate(names) if x in used), default=0)
        points = InstanceSet(names, c.event.points)
        box, copies = points.onto(names[:outer]).onto(names), c.arrivals
        for k, x in enumerate(names[outer:], outer):
            low, high = constant_range(c.event.points, k)
            if low is None or high is None:
                return None
            copies *= high - low + 1
            box = box.where((">=", subtract(p.Variable(x), low)), ("<=", subtract(p.Variable(x), high)))
        once = piecewise_relation(names[:outer], (*map(p.Variable, sorted(self.blocks)), c.phase.number))
        injective = once.intersect_domain(points.onto(names[:outer]).set).is_injective()
        return copies if injective and box.is_subset(points) else None

    def _waited(self, copies: Sequence[PhaseEvent], waits: Sequence[PhaseEvent]) -> Iterator[PhaseFault]:
        """Each wait comes after all arrivals of its phase, and after a wait for the phase before it in the slot."""
        for w in waits:
            started = w.event.points
            for c in copies:
                pairs = self._in_phases(c, w)
                if self.tree is None or c.event.producer is w.event.producer:
                    yield from self._fault(f"a wait may come before {c.what}, an arrival of its phase", w,
                                           pairs.subtract(self.first(c.event, w.event)).range())
                started = started.subtract(pairs.range())
            yield from self._fault("no arrival is of the phase of a wait", w, started)
            yield from self._follows(w, waits, w.phase.slots)

    def _follows(self, w: PhaseEvent, waits: Sequence[PhaseEvent], number: int) -> Iterator[PhaseFault]:
        """In phases from *number* on, *w* comes after one of *waits* for the phase before it in its slot."""
        unknown = self._from_phase(w, number)
        for x in waits:
            unknown = unknown.subtract(self._in_phases(x, w, w.phase.slots).intersect(
                self.first(x.event, w.event)).range())
        yield from self._fault("a wait has no wait for the phase before it in its slot", w, unknown)

    # The two roles of a program

    def _ordered(self) -> Iterator[PhaseFault]:
        """An event behind a wait of its role is behind it in the tree too, whose order is the witness against deadlock.

        Events of one phase at several places count as one: a second wait for it ends at once, and the phase ends with
        the last arrival.
        """
        tree = self.tree
        if tree is None or not any(w.event.producer for w in self.waits):
            return
        for w, x in product(map(PhaseEvent.counted, self.waits), (*self.copies, *map(PhaseEvent.counted, self.waits))):
            if w.event.producer is not x.event.producer:
                continue
            own = _by_phases(w, x, self.first(w.event, x.event))
            same = list(product(*([y for y in map(PhaseEvent.counted, (*tree.copies, *tree.waits))
                                   if (y.phase.ring, y.arrivals > 0, y.event.producer) == (
                                       e.phase.ring, e.arrivals > 0, e.event.producer)] for e in (w, x))))
            none = Map.empty(own.get_space())
            behind = reduce(Map.union, (_by_phases(a, b, tree.first(a.event, b.event)) for a, b in same), none)
            before = reduce(Map.union, (_by_phases(b, a, tree.first(b.event, a.event)).reverse() for a, b in same),
                            none)
            wrong = own.intersect(before).subtract(behind)
            if not wrong.is_empty():
                yield PhaseFault(f"{x.what} of '{x.phase.ring}' is behind a wait of '{w.phase.ring}', and before it in "
                                 "the order that both roles can keep", x.statement, {}, {})

    # Several places of the grid, one after another: the phases of a slot go on

    def _balanced(self, ring: str, copies: Sequence[PhaseEvent], waits: Sequence[PhaseEvent]) -> Iterator[PhaseFault]:
        """At each place of the grid, threads wait as often for each slot as phases end there, and in their order."""
        lag = next((start.slots if start.empty else 0 for start, _ in self.starts if start.ring == ring), 0)
        every = [self._numbers(c).range() for c in copies]
        own = [self._numbers(replace(w, phase=replace(w.phase, number=add(w.phase.number, lag)))) for w in waits]
        apart = all(a.range().is_disjoint(b.range()) for i, a in enumerate(own) for b in own[:i])
        once = apart and all(n.is_injective() for n in own)
        if not (once and every and own and reduce(Set.union, every).is_equal(
                reduce(Set.union, (n.range() for n in own)))):
            yield PhaseFault(f"threads do not wait once for each phase of '{ring}' at each place of the grid", "", {},
                             {})
        for w in waits:
            yield from self._follows(w, waits, w.phase.slots - lag)

    def _overwriting(self, c: PhaseEvent, copies: Sequence[PhaseEvent], array: str) -> Iterator[PhaseFault]:
        """The copy *c* comes after a wait for the tile that was in its cell, maybe at another place of the grid."""
        rings = {start.ring for start, _ in self.starts if start.empty and array in start.tiles}
        left = c.event.points
        for w in (w for w in self.waits if w.phase.ring in rings and w.event.producer is c.event.producer):
            left = left.subtract(self._in_phases(w, c, c.phase.slots).intersect(self.first(w.event, c.event)).range())
        yield from self._fault(f"{c.what} may overwrite a tile of another place of the grid", c, left)
        arrivals = [self._numbers(x).range() for x in self.copies if x.phase.ring in rings]
        if len(rings) != 1 or not (arrivals and reduce(Set.union, arrivals).is_equal(
                reduce(Set.union, (self._numbers(x).range() for x in copies)))):
            yield PhaseFault(f"warps do not arrive once for each tile of '{array}'", c.statement, {}, {})

    def _from_phase(self, e: PhaseEvent, number: int) -> Set:
        """The executions of *e* in phases from *number* on."""
        return e.event.points.intersect(points_where(p.Comparison(e.phase.number, ">=", number), e.event.names))

    def _reused(self, copies: Sequence[PhaseEvent], waits: Sequence[PhaseEvent]) -> Iterator[PhaseFault]:
        """All waits for a phase come before a barrier, and the arrivals of the next phase in its slot after it; or a
        phase of another ring is between them.
        """
        for c in copies:
            left, ended = self._from_phase(c, c.phase.slots), c.event.points
            for w in waits:
                pairs, apart = self._in_phases(w, c, c.phase.slots), self._separated(w.event, c.event)
                yield from self._fault(f"no barrier or phase is between a wait and {c.what}, which starts the next "
                                       "phase in its slot", c, pairs.subtract(apart).range())
                left = left.subtract(pairs.range())
                ended = ended.subtract(self._in_phases(w, c).range())
            yield from self._fault(f"no thread waits for the phase before that of {c.what} in its slot", c, left)
            if c.statement:
                yield from self._fault(f"no thread waits for {c.what}", c, ended)


def _by_phases(a: PhaseEvent, b: PhaseEvent, pairs: Map) -> Map:
    """*pairs* of executions of two events as pairs of numbers of phases, in any block."""
    first, second = (piecewise_relation(e.event.names, (e.phase.number,)) for e in (a, b))
    return first.reverse().apply_range(pairs).apply_range(second)


# The events of a launch

def is_of_block(scope: Scope, launch: Launch) -> bool:
    """Do all threads of a block wait for each other at a barrier of this *scope*?"""
    return scope >= Scope.BLOCK or (scope is Scope.WARP and launch.within_warp())


def rings_of(launch: Launch, tree: Tree, blocks: AbstractSet[str]) -> Rings:
    """The rings of *tree*, whose statements have the inames *blocks* on the grid, and run at known times."""
    of_threads = launch.mapping.thread_names.union(*(s.auto for s in launch.statements.values()))

    def event(way: Path, statements: Iterable[str], *, producer: bool, inner: Collection[str] = ()) -> Event:
        names = (*sorted(blocks), *(x for x in loops_of(way) if x not in inner))
        domains = (launch.statements[s].domain.onto(names).without_params(of_threads) for s in statements)
        points = reduce(InstanceSet.union, domains).intersect_params(launch.kernel.assumptions)
        return Event(way, names, as_points(points.set), producer)
    copies, awaited, barriers, starts = list[PhaseEvent](), list[PhaseEvent](), list[Event](), \
        list[tuple[StartPhases, Event]]()
    for node, way, body in placed_nodes(tree):
        if isinstance(node, Leaf):
            if node.instruction is not None and (phase := node.instruction.phase) is not None:
                inner = {x for x in loops_of(way) if is_collective(launch.kernel.tags.get(x))}
                own = launch.statements[node.statement].producer is not None
                copies.append(PhaseEvent(event(way, [node.statement], producer=own, inner=inner), phase,
                                         node.statement, 1))
            continue
        own_start = [i for i in node.instructions if isinstance(i, StartPhases)]
        here = event(way, leaves(body) if own_start else launch.beside(node, body), producer=node.producer)
        if node.left_out_last:
            here = _with_later_iteration(here)
        copies += [PhaseEvent(here, i.of, arrivals=launch.consumers // launch.machine.warp*i.blocks).counted()
                   for i in node.instructions if isinstance(i, ArrivePhase)]
        awaited += [PhaseEvent(here, i.of) for i in node.instructions if isinstance(i, WaitPhase)]
        if is_of_block(node.scope, launch):                # other threads see a start behind a barrier only
            barriers.append(here)
            # a start at each place of the grid would start the ring again
            starts += [(i, here) for i in own_start if node.outside or not launch.persistent]
    return Rings(frozenset(blocks), copies, awaited, barriers, starts, copied_arrays(launch))


def copied_arrays(launch: Launch) -> Mapping[str, str] | None:
    """The arrays of statements of a persistent launch; ``None``: it is not persistent."""
    return {s: bound.statement.written for s, bound in launch.statements.items()} if launch.persistent else None


def _with_later_iteration(event: Event) -> Event:
    """*event* without the last iteration of its innermost loop."""
    own = Map.from_domain_and_range(event.points, event.points)
    last = len(event.names) - 1
    later = in_one_iteration(own, [(k, k) for k in range(last)]).order_lt(DIM.in_, last, DIM.out, last)
    return replace(event, points=later.domain())
