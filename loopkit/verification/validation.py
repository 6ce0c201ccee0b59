"""Translation validation: a proof that any loop program, however generated, executes the lowered kernel.

Modules beside this one have the checks. The order of the launches is checked here.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pymbolic.primitives as p

from loopkit.analysis.accesses import data_params
from loopkit.analysis.events import Event
from loopkit.analysis.order import execution_paths, meeting_of
from loopkit.ast.nodes import (
    Assign,
    Block,
    ByRole,
    Call,
    For,
    Function,
    If,
    Node,
    Region,
    Sync,
    Tiles,
)
from loopkit.ast.phases import Phase
from loopkit.ast.walk import nodes_in
from loopkit.expr.mappers import substitute, variables
from loopkit.instructions.nests import statement_of
from loopkit.instructions.phases import ArrivePhase, StartPhases, WaitPhase
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import Meeting, meeting
from loopkit.lowering.lowered import BLOCK, Launch, Lowered
from loopkit.poly.affine import NotAffineError
from loopkit.poly.limits import bounded
from loopkit.poly.piecewise import projected
from loopkit.poly.relations import (
    only_dims,
    other_instance,
    out_of_time_order,
    same_element,
    shared_dims,
    smallest_pair,
)
from loopkit.poly.sets import InstanceSet, Map, Set, as_points, lexmin_point
from loopkit.verification.phases import PhaseEvent, PhaseFault, Rings, copied_arrays, is_of_block, rings_of
from loopkit.verification.report import Mismatch
from loopkit.verification.turns import turn_faults
from loopkit.verification.validation_butterflies import ButterflyCheck
from loopkit.verification.validation_clusters import ClusterCheck
from loopkit.verification.validation_grid import Grid, grid_of
from loopkit.verification.validation_instances import InstanceCheck
from loopkit.verification.validation_instructions import LOOP_CHECKS, WarpRegisterCheck
from loopkit.verification.validation_nests import NestCheck
from loopkit.verification.validation_order import OrderCheck, required_order
from loopkit.verification.validation_tiles import TileCheck
from loopkit.verification.validation_walk import Execution, executions, host_executions

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
    - each role of a block executes its own part, and phases order accesses in two roles; a block that runs several
      places of the grid has done with shared memory of one place before it uses it for the next one; a warpgroup's
      turn ends, whatever the others do;
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
    yield from _of_tiles(launch, function)
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
    yield from ButterflyCheck(*subject).findings()
    yield from _of_roles(launch, function)
    yield from turn_faults(launch, function)
    yield from _of_faults(launch, _rings(launch, function, grid, every).faults())
    if function.cluster > 1 or launch.mapping.cluster > 1:
        yield from ClusterCheck(*subject, every).findings()
    if decided:
        memo = dict[object, Any]()
        yield from OrderCheck(*subject, memo).findings()
        yield from TileCheck(*subject, memo).findings()


def unended_phases(lowered: Lowered) -> Iterator[Mismatch]:
    """The waits for phases in the program that never end, or end too early: a small part of :func:`validate`."""
    for launch, function in zip(lowered.launches, lowered.program.functions, strict=True):
        found = nodes_in(function.body)
        if any(isinstance(x, Sync) and any(i.phase is not None for i in x.instructions) for x in found):
            grid = grid_of(launch.kernel, function)
            every = list(executions(launch.kernel, function, grid))
            yield from _of_faults(launch, _rings(launch, function, grid, every).unended())


def _of_faults(launch: Launch, faults: Iterable[PhaseFault]) -> Iterator[Mismatch]:
    for fault in faults:
        yield Mismatch("phase", launch.name, fault.statement, fault.text, fault.parameters, fault.place)


def _of_tiles(launch: Launch, function: Function) -> Iterator[Mismatch]:
    """The roles of a persistent launch do all their work at each place of the grid that the block has.

    They have one loop over these places, or one each, under the same conditions at all places. Nothing outside is of
    one place.
    """
    fixed = {*launch.kernel.value_params, *BLOCK}

    def outside(block: Block, role: str) -> Iterator[tuple[str, Node]]:
        for node in block.children:
            if isinstance(node, If) and variables(node.condition) <= fixed:
                own = ("producer", "consumers") if isinstance(node, ByRole) else (role, role)
                yield from outside(node.then, own[0])
                yield from outside(node.otherwise or Block(), own[1])
            elif isinstance(node, Block):
                yield from outside(node, role)
            else:
                yield role, node
    once = list(outside(function.body, "both"))
    roles = {role for role, node in once if isinstance(node, Tiles)}
    every = [node for node in nodes_in(function.body) if isinstance(node, Tiles)]
    known = all((x.blocks, x.group) == (launch.persistent, launch.group) for x in every)
    others = [x for _, x in once if not isinstance(x, Tiles)] if launch.persistent else []
    if not known or len(roles) < len(every) or ("both" in roles and len(every) > 1) or not all(
            isinstance(x, Sync) and not any(i.phase for i in x.instructions) for x in others):
        yield Mismatch("tiles", launch.name, "", "the blocks do not run the places of the grid one after another")


def _of_roles(launch: Launch, function: Function) -> Iterator[Mismatch]:
    """Each role has its threads, and only barriers in it are without the other role."""
    roles = [node for node in nodes_in(function.body) if isinstance(node, ByRole)]
    if any(node.threads != launch.consumers for node in roles):
        yield Mismatch("roles", launch.name, "", f"other threads than the first {launch.consumers} are the consumers")
    inside = {id(x) for node in roles for x in nodes_in(node)}
    if any(isinstance(x, Sync) and x.threads and id(x) not in inside for x in nodes_in(function.body)):
        yield Mismatch("roles", launch.name, "", "a barrier of some threads is where others come too")


def _rings(launch: Launch, function: Function, grid: Grid, every: Sequence[Execution]) -> Rings:
    """The phases of a function, and the barriers of its blocks."""
    blocks = frozenset(grid.along("g"))

    def event(e: Execution) -> Event:
        names = tuple(x for x in e.coordinates if x not in grid.along("l"))
        points = InstanceSet(names, projected(e.condition, (), names))
        return Event(e.path, names, as_points(points.without_params(grid.along("l")).set), e.producer)

    def placed(e: Execution, phase: Phase, statement: str = "", arrivals: int = 0) -> PhaseEvent:
        return PhaseEvent(event(e), replace(phase, number=substitute(phase.number, e.names)), statement, arrivals)
    syncs = [e for e in every if isinstance(e.node, Sync)]
    barriers = [e for e in syncs if is_of_block(e.sync.scope, launch)]
    copies = [placed(e, i.phase, statement_of(e.region), 1) for e in every if isinstance(e.node, Region)
              and (i := e.region.instruction) is not None and i.phase is not None]
    warps = launch.consumers // launch.machine.warp
    arrivals = [placed(e, i.of, arrivals=warps*i.blocks).counted() for e in syncs for i in e.sync.instructions
                if isinstance(i, ArrivePhase)]
    return Rings(blocks, [*copies, *arrivals],
                 [placed(e, i.of) for e in syncs for i in e.sync.instructions if isinstance(i, WaitPhase)],
                 [event(e) for e in barriers],
                 # a start at each place of the grid would start the ring again
                 [(i, event(e)) for e in barriers for i in e.sync.instructions if isinstance(i, StartPhases)
                  and not e.in_tiles],
                 copied_arrays(launch), None if launch.producer is None else rings_of(
                     launch, launch.tree, frozenset(launch.mapping.block_inames)))


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
    for (source, sink, array), pairs in required_order(knl, lowered.storages, in_global, where):
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
