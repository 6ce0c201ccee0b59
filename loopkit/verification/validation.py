"""Translation validation: a proof that any loop program, however generated, executes the lowered kernel.

The order is checked here: dependent executions run in the order of the kernel, with barriers between threads. Modules
beside this one check the rest.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import product

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_by_array, commute, data_params
from loopkit.analysis.dependences import dependences, joined, shared_loops, without_assumed
from loopkit.analysis.events import Event
from loopkit.analysis.order import execution_paths, meeting_of
from loopkit.ast.nodes import (
    Assign,
    Call,
    Completion,
    For,
    Function,
    Instruction,
    Region,
    Scope,
    Sync,
    completion_of,
    covering,
    events_between,
)
from loopkit.ast.phases import Phase
from loopkit.errors import values_text
from loopkit.expr.mappers import array_of, substitute, variables
from loopkit.instructions.nests import Issue, statement_of
from loopkit.instructions.phases import StartPhases
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import Meeting, meeting, paths
from loopkit.lowering.lowered import Launch, Lowered, Storage
from loopkit.poly.affine import NotAffineError, floor_div
from loopkit.poly.limits import bounded, kept_by_kernel
from loopkit.poly.piecewise import equal_coordinates, piecewise_relation, projected
from loopkit.poly.relations import (
    apart_along,
    in_one_iteration,
    in_time_order,
    only_dims,
    other_instance,
    out_of_time_order,
    same_element,
    shared_dims,
    smallest_pair,
    with_same_dims,
)
from loopkit.poly.sets import InstanceSet, Map, Set, as_points, lexmin_point
from loopkit.verification.phases import PhaseEvent, Rings
from loopkit.verification.report import Mismatch
from loopkit.verification.threads import TOGETHER
from loopkit.verification.validation_grid import Grid, grid_of
from loopkit.verification.validation_instances import InstanceCheck
from loopkit.verification.validation_instructions import LOOP_CHECKS, WarpRegisterCheck
from loopkit.verification.validation_nests import NestCheck
from loopkit.verification.validation_walk import Execution, LaunchCheck, executions, host_executions

Calls = Mapping[str, Sequence[tuple[Execution, Map]]]


def validate(lowered: Lowered) -> tuple[Mismatch, ...]:
    """The mismatches between the loop program of *lowered* and its kernel; ``()`` if the program is proven right.

    The proof covers all sizes that the assumptions allow:

    - each statement executes each of its instances once on each thread of the instance, and no other instance;
    - the inames of blocks and threads have the values that the kernel's tags give them, as assumed by its legality;
    - each execution reads and writes the elements, and computes the expression, of its instance;
    - an old value is loaded in one step with the atomic update of the element;
    - executions that access one cell of a temporary, or depend on each other, run in the order of the kernel: on one
      thread by the order of the program, on two threads of a block by a barrier between them;
    - all threads of a block execute each barrier;
    - an element of an asynchronous access is accessed again only after a wait for that access;
    - vector accesses move the elements of their loop, at a time that keeps the loop's meaning, and are aligned under
      their assumptions;
    - an instruction of a warp reads the lane that holds the element of the statement; a thread reads elements of other
      lanes in no other way, and none that an inactive lane overwrites;
    - an instruction that executes a nest of loops takes from each lane the elements that the iterations of other lanes
      access; all lanes of the warp are active; its loads are ordered as if each lane read all of it;
    - blocks with inter-block flags take tickets in start order, and flagged values are stored and loaded by flags;
    - the host makes each launch once for each iteration of its loops, in an order that keeps the dependences.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> knl = lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", 32, outer_tag="g.0", inner_tag="l.0")
    >>> validate(lk.lower(knl))
    ()
    """
    with bounded(f"validating kernel '{lowered.kernel.name}'"):
        return tuple(findings(lowered))


def findings(lowered: Lowered) -> Iterator[Mismatch]:
    """The mismatches of :func:`validate`, one by one."""
    lowered.require_finished()
    functions = lowered.program.functions
    for launch, function in zip(lowered.launches, functions, strict=True):
        try:
            yield from _of_launch(lowered, launch, function)
        except NotAffineError as err:
            yield Mismatch("undecided", launch.name, "", f"'{err}' is not an affine form")
    yield from _of_host(lowered)


def _of_launch(lowered: Lowered, launch: Launch, function: Function) -> Iterator[Mismatch]:
    knl = launch.kernel
    if function.ticketed != launch.ticketed:
        how = "" if function.ticketed else "not "
        yield Mismatch("ticket", launch.name, "", f"the blocks are {how}numbered as they start")
    grid = grid_of(knl, function)
    every = list(executions(knl, function, grid))
    of_statements: dict[str, list[Execution]] = {}
    for e in every:
        if isinstance(e.node, Assign) and not e.condition.is_empty():
            of_statements.setdefault(e.node.statement, []).append(e)
    places = [e for e in every if isinstance(e.node, Sync)]
    subject = launch, lowered.storages, function, grid, of_statements, places
    decided = True
    for found in InstanceCheck(*subject).findings():
        yield found
        decided = decided and found.kind != "undecided"
    for e in every:
        if isinstance(e.node, For):
            yield from LOOP_CHECKS[type(e.node.instruction)](*subject, e).findings()
        elif isinstance(e.node, Region):
            yield from NestCheck(*subject, e).findings()
    yield from WarpRegisterCheck(*subject).findings()
    for fault in _rings(grid, every).faults():
        yield Mismatch("phase", launch.name, fault.statement, fault.text, fault.parameters, fault.place)
    if decided:
        yield from _OrderCheck(*subject).findings()


def _rings(grid: Grid, every: Sequence[Execution]) -> Rings:
    """The phases of a function, and the barriers of its blocks."""
    blocks = frozenset(grid.along("g"))

    def event(e: Execution) -> Event:
        names = tuple(x for x in e.coordinates if x not in grid.along("l"))
        points = InstanceSet(names, projected(e.condition, (), names))
        return Event(e.path, names, as_points(points.without_params(grid.along("l")).set))

    def placed(e: Execution, phase: Phase, statement: str = "") -> PhaseEvent:
        return PhaseEvent(event(e), replace(phase, number=substitute(phase.number, e.names)), statement)
    syncs = [e for e in every if isinstance(e.node, Sync)]
    copies = [placed(e, i.phase, statement_of(e.region)) for e in every if isinstance(e.node, Region)
              and (i := e.region.instruction) is not None and i.phase is not None]
    return Rings(blocks, copies,
                 [placed(e, i.phase) for e in syncs for i in e.sync.instructions if i.phase is not None],
                 [event(e) for e in syncs if e.sync.scope is Scope.BLOCK],
                 [(i, event(e)) for e in syncs for i in e.sync.instructions
                  if isinstance(i, StartPhases) and e.sync.scope is Scope.BLOCK])


# The host's part

def _of_host(lowered: Lowered) -> Iterator[Mismatch]:
    """The mismatches of the host's part of the program; the host's inames identify each call."""
    launches = {launch.name: launch for launch in lowered.launches}
    calls: dict[str, list[tuple[Execution, Map]]] = {name: [] for name in launches}
    for e in host_executions(lowered.kernel, lowered.program.order):
        assert isinstance(e.node, Call)
        values = [e.names.get(x, p.Variable(x)) for x in launches[e.node.name].hosts]
        calls[e.node.name].append((e, e.relation(values)))
    for launch in lowered.launches:
        yield from _iterations(lowered.kernel, launch, calls[launch.name])
    yield from _misordered_calls(lowered, calls)


def _iterations(knl: LoopKernel, launch: Launch, calls: Sequence[tuple[Execution, Map]]) -> Iterator[Mismatch]:
    """Each iteration in which a statement of *launch* may run is one call."""
    wanted = reduce(InstanceSet.union, (_iterations_of(knl, s, launch.hosts) for s in launch.statements))
    # a launch outside all loops is one call at all sizes
    left = as_points(wanted.set) if launch.hosts else InstanceSet((), as_points(knl.assumptions)).set

    def found(kind: str, text: str, points: Set, names: Sequence[str]) -> Iterator[Mismatch]:
        at = lexmin_point(points, names)
        if at is not None:
            yield Mismatch(kind, launch.name, "", f"the host {text}", *at)
    for e, relation in calls:
        run = relation.range()
        yield from found("twice", f"launches '{launch.name}' twice for one iteration",
                         other_instance(same_element(relation, relation)).domain(), e.coordinates)
        yield from found("outside", f"launches '{launch.name}' where none of its statements runs, or once more",
                         run.subtract(left), launch.hosts)
        left = left.subtract(run)
    yield from found("missing", f"does not launch '{launch.name}' for an iteration", left, launch.hosts)


def _iterations_of(knl: LoopKernel, statement: str, hosts: Sequence[str]) -> InstanceSet:
    domain = knl.statement_by_id[statement].domain
    points = domain.without_params(data_params(knl, domain)).onto(hosts)
    return InstanceSet(points.inames, as_points(points.set)).intersect_params(knl.assumptions)


def _misordered_calls(lowered: Lowered, calls: Calls) -> Iterator[Mismatch]:
    """Calls that depend on each other are made in the order of the kernel."""
    knl = lowered.kernel
    launch_of = {s: launch for launch in lowered.launches for s in launch.statements}
    paths = execution_paths(knl)

    def where(source: str, sink: str) -> Meeting | None:
        a, b = launch_of.get(source), launch_of.get(sink)
        return None if a is None or b is None or (a is b and not a.hosts) else meeting_of(paths, source, sink)
    in_global = [name for name, storage in lowered.storages.items() if storage.space is AddressSpace.GLOBAL]
    for (source, sink, array), pairs in _required_order(knl, lowered.storages, in_global, where):
        a, b = launch_of[source], launch_of[sink]
        apart = only_dims(pairs, [knl.statement_by_id[source].inames.index(x) for x in a.hosts],
                          [knl.statement_by_id[sink].inames.index(x) for x in b.hosts])
        for first, one in calls[a.name]:
            for second, other in calls[b.name]:
                here = meeting(first.path, second.path)
                met = one.apply_range(other_instance(apart) if a is b else apart).apply_range(other.reverse())
                late = out_of_time_order(met, shared_dims(first.coordinates, second.coordinates, here.loops),
                                         here.before)
                if late is not None:
                    parameters, _, place = smallest_pair(late, first.coordinates, second.coordinates)
                    yield Mismatch("order", b.name, sink, f"the host launches '{b.name}' with '{sink}' before "
                                   f"'{source}' in '{a.name}' is done, with which it conflicts on '{array}'",
                                   parameters, place)


# The order of executions

#: Two statements, and the array of their conflict.
Meet = tuple[str, str, str]


@dataclass(frozen=True)
class _Coordinates:
    """Some of the coordinates of an execution in its block. The coordinates of the block are parameters.

    :ivar every: all coordinates in the block.
    """

    execution: Execution
    every: tuple[str, ...]
    names: tuple[str, ...]

    @cached_property
    def points(self) -> Set:
        return projected(projected(self.execution.condition, (), self.every), self.every, self.names)

    @cached_property
    def instances(self) -> tuple[Map, list[int]]:
        """The map to the inames that these coordinates determine, and the places of those inames."""
        own = tuple(self.execution.instance.values())
        kept = [i for i, value in enumerate(own) if not variables(value) & set(self.every).difference(self.names)]
        values = [own[i] for i in kept]
        return piecewise_relation(self.names, values).intersect_domain(self.points), kept


@dataclass(frozen=True, eq=False)
class _OrderCheck(LaunchCheck):
    """The check of the order of dependent executions."""

    def findings(self) -> Iterator[Mismatch]:
        for _ in (node for node in self.divergent if not isinstance(node, For) and not (
                isinstance(node, Region) and isinstance(node.instruction, Issue))):
            yield from self.mismatch("divergent", "",
                                "a barrier is under a condition that may differ between the threads of a block")
        ways = paths(self.launch.tree)
        def where(source: str, sink: str) -> Meeting | None:
            return meeting(ways[source], ways[sink]) if source in ways and sink in ways else None
        required = joined(_required_order(self.kernel, self.storages, self.storages, where))
        for (source, sink, array), pairs in required.items():
            if array in self.storages:
                pairs = without_assumed(self.kernel, array, source, sink, pairs)
            for first, second in product(self.executions.get(source, ()), self.executions.get(sink, ())):
                yield from self._pair(array, first, second, pairs)

    @cached_property
    def _in_lanes(self) -> frozenset[str]:
        """The arrays whose elements are in the registers of lanes."""
        return frozenset(a.name for a in self.function.arrays if a.thread_axes)

    # One pair of executions

    def _pair(self, array: str, first: Execution, second: Execution, pairs: Map) -> Iterator[Mismatch]:
        storage = self.storages.get(array)
        private, shared = (storage is not None and storage.space is x for x in (
            AddressSpace.PRIVATE, AddressSpace.SHARED))
        between: dict[Completion | None, Sequence[Execution]] = {None: ()}
        one, other = map(_instructions_of, (first, second))
        own = completion_of(one)
        # the wait for a phase orders the accesses of all threads
        if self.launch.threads != 1 and own is not Completion.PHASE and not private:
            # warp instructions order arrays in warp registers only
            in_warp = storage is not None and storage.space is AddressSpace.WARP
            between[Completion.IMMEDIATE] = [b for b in self.places if b.sync.scope is not Scope.THREAD
                                             and (in_warp or b.node is not TOGETHER)]
        writes = array_of(first.assign.target) == array
        for wanted in events_between(one, other, writes=writes, shared=shared, private=private):
            between[wanted] = [b for b in self.places if covering(wanted, own, b.sync.instructions)]
        # at first without the coordinates of threads, in small sets: most pairs are not broken there
        rough = self._run(first, second, pairs, meeting(first.path, second.path).loops)
        # by the checks of lanes and of nests, only threads of one warp access an element of warp registers
        widest = Scope.THREAD if private else \
            Scope.WARP if array in self._in_lanes or self.launch.within_warp() else Scope.BLOCK
        for event, places in between.items():
            if self._left(*rough, event, places, widest) is not None:
                x, y, run = self._run(first, second, pairs, (*first.coordinates, *second.coordinates))
                wide = all(place.sync.scope >= widest for place in places)
                for scope, some in self._by_scope(event, x, y, run, wide=wide):
                    left = self._left(x, y, some, event, places, scope)
                    if left is not None:
                        left = with_same_dims(left, self.grid.along("g"))
                        yield from self._finding(event, array, first, second, left)
                        return

    def _run(self, first: Execution, second: Execution, pairs: Map, names: tuple[str, ...]
             ) -> tuple[_Coordinates, _Coordinates, Map]:
        """The *pairs* as executions of one block, by the coordinates that order them among barriers, and *names*."""
        x, y = (self._coordinates(e, names) for e in (first, second))
        (source, own), (sink, others) = x.instances, y.instances
        return x, y, source.apply_range(only_dims(pairs, own, others)).apply_range(sink.reverse())

    def _by_scope(self, event: Completion | None, x: _Coordinates, y: _Coordinates, pairs: Map, *, wide: bool
                  ) -> Iterator[tuple[Scope, Map]]:
        """The *pairs* of one block with the scope of the places that order them: those of one thread, or of an *event*
        for which the first one's thread waits; those of two threads, and those of two warps.

        :arg wide: every place is one of all threads of the block.
        """
        threads = [*map(x.every.index, self.grid.along("l"))]
        if event is None:
            yield Scope.THREAD, in_one_iteration(pairs, [(i, i) for i in threads])
            return
        if event.needs_wait:
            yield Scope.THREAD, pairs
            if wide or event is Completion.PHASE:
                return
        # any lane of a warp may load the operands of an instruction
        instructions = [z.execution.instruction for z in (x, y) if z.execution.instruction is not None]
        foreign = any(i.loads_for_others for i in instructions)
        for others in [pairs] if foreign else (apart for i in threads for apart in apart_along(pairs, i)):
            yield Scope.WARP, others
            if wide:
                continue
            # those of a warpgroup, for another warp
            if isinstance(self.launch.threads, int) and not any(
                    i.loads_for_others and i.scope > Scope.WARP for i in instructions):
                warp = [floor_div(self.thread_number, self.launch.machine.warp)]
                others = others.subtract(equal_coordinates(x.names, warp, y.names, warp))
            yield Scope.BLOCK, others

    def _finding(self, event: Completion | None, array: str, first: Execution, second: Execution, pairs: Map
                 ) -> Iterator[Mismatch]:
        a, b = first.assign.statement, second.assign.statement
        real = self.grid.real(pairs.domain(), first.coordinates)
        if real is None:
            text = f"whether '{b}' conflicts with '{a}' in an existing block is unknown"
            yield from self.mismatch("undecided", b, text)
            return
        parameters, source, sink = smallest_pair(pairs.intersect_domain(real), first.coordinates, second.coordinates)
        kind, what = (
            ("order", "runs later, although it must run first") if event is None else
            (event.value, "is asynchronous, with no wait between that is proven to cover it") if event.needs_wait else
            ("barrier", "runs on another thread with no barrier between"))
        on = f"on '{array}'" if array else "by dep="
        yield Mismatch(kind, self.launch.name, b, f"'{b}' conflicts with '{a}' {on}, which {what}"
                       + values_text(source, ", at {}"), parameters, sink)

    # Barriers and waits between

    def _left(self, x: _Coordinates, y: _Coordinates, pairs: Map, event: Completion | None,
              places: Sequence[Execution], scope: Scope) -> Map | None:
        """The *pairs* of executions, identified by *x* and *y*, that run in the wrong order, or with none of *places*
        of this *scope* between: barriers, or for the *event* of an asynchronous access waits. ``None``: none.
        """
        if event is None and not pairs.is_empty():
            pairs = pairs.subtract(self._first(x, y))
        for place in places:
            # a thread's wait covers other threads only after a barrier with them
            wait = None if event is None else _covering(x, place, event)
            widest = place.sync.scope if wait is None else max(place.sync.scope, wait.completes_for)
            if widest >= scope and not pairs.is_empty():
                behind = self._behind(x, place, event)
                pairs = pairs.subtract(behind.apply_range(self._first(self._at(place), y)))
        return None if pairs.is_empty() else pairs

    @kept_by_kernel
    def _coordinates(self, execution: Execution, also: tuple[str, ...]) -> _Coordinates:
        """The coordinates that order it among barriers, those of the loops with barriers; and *also*."""
        loops = (meeting(execution.path, place.path).loops for place in self.places)
        names = set(also).union(*loops, variables(self._number_of_phase(execution)))
        every = execution.coordinates[len(self.grid.along("g")):]
        return _Coordinates(execution, every, tuple(x for x in every if x in names))

    @staticmethod
    def _number_of_phase(execution: Execution) -> Expression:
        """The number of the phase of an access, or of a wait, in terms of the coordinates; 0: it has none."""
        phase = _phase_of(execution)
        return 0 if phase is None else substitute(phase.number, execution.names)

    @kept_by_kernel
    def _first(self, x: _Coordinates, y: _Coordinates) -> Map:
        """Pairs in one block, by *x* and by *y*, whose first runs before the second."""
        where = meeting(x.execution.path, y.execution.path)
        pairs = equal_coordinates(x.names, (), y.names, ())
        return in_time_order(pairs, shared_dims(x.names, y.names, where.loops), where.before)

    @kept_by_kernel
    def _at(self, place: Execution) -> _Coordinates:
        return self._coordinates(place, place.loops)

    @kept_by_kernel
    def _behind(self, x: _Coordinates, place: Execution, event: Completion | None) -> Map:
        """Executions of *x* and of *place* after it, which waits for an *event* that needs it."""
        def first(a: _Coordinates, b: _Coordinates) -> Map:
            return self._first(a, b).intersect_range(b.points)
        z = self._at(place)
        if event is None or not event.needs_wait:
            return first(x, z)
        wait = _covering(x, place, event)
        assert wait is not None

        def in_phase(a: _Coordinates, b: _Coordinates) -> Map | None:
            one, other = _phase_of(a.execution), wait.phase
            if one is None or other is None or one.ring != other.ring:
                return None
            return equal_coordinates(a.names, [self._number_of_phase(a.execution)],
                                     b.names, [substitute(other.number, b.execution.names)])
        found = wait.waits_for(x, z, {self._at(b): b.sync.instructions for b in self.places}, first, in_phase)
        return Map.empty(self._first(x, z).get_space()) if found is None else found


def _instructions_of(execution: Execution) -> tuple[Instruction, ...]:
    """The instructions that make the accesses of an execution of an assignment."""
    return (*execution.assign.instructions, *(() if execution.instruction is None else (execution.instruction,)))


def _covering(x: _Coordinates, place: Execution, event: Completion) -> Instruction | None:
    """The instruction of *place* by which *event* follows the accesses of *x*; ``None``: there is none."""
    return covering(event, completion_of(_instructions_of(x.execution)), place.sync.instructions)


def _phase_of(execution: Execution) -> Phase | None:
    """The phase of an access by an instruction; ``None``: it has none."""
    return None if execution.instruction is None else execution.instruction.phase


def _required_order(knl: LoopKernel, storages: Mapping[str, Storage], arrays: Collection[str],
                   where: Callable[[str, str], Meeting | None]) -> Iterator[tuple[Meet, Map]]:
    """Pairs of instances whose first must complete before the second starts, in the kernel's order.

    Both access one cell of one of *arrays*, temporaries, and one of them writes; or they depend on each other in
    arguments.

    :arg where: the loops that two statements share, and which of the two comes first; ``None`` for other statements.
    """
    found: list[tuple[Meet, Map]] = []
    for array in arrays:
        accessed_cells = storages[array].accessed_cells
        for a, b in product(accesses_by_array(knl).get(array, ()), repeat=2):
            met = where(a.statement, b.statement)
            if met is not None and (met.loops or met.before) and (a.is_write or b.is_write) and not commute(a, b):
                found.append(((a.statement, b.statement, array), same_element(accessed_cells(a), accessed_cells(b))))
    found += [((d.source, d.sink, d.array), d.relation) for d in dependences(knl) if d.array not in storages]
    for meet, pairs in found:
        source, sink, _ = meet
        met = where(source, sink)
        if met is not None:
            pairs = in_time_order(pairs, shared_loops(knl, source, sink, met.loops), met.before)
            if not pairs.is_empty():
                yield meet, pairs
