"""Host order: each function is launched once for each iteration of the loops around it, in the order of the kernel."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

import pymbolic.primitives as p

from loopkit.analysis.accesses import data_params
from loopkit.analysis.order import execution_paths, meeting_of
from loopkit.ast.nodes import Call
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import Meeting, meeting
from loopkit.lowering.lowered import Launch, Lowered
from loopkit.poly.relations import (
    only_dims,
    other_instance,
    out_of_time_order,
    same_element,
    shared_dims,
    smallest_pair,
)
from loopkit.poly.sets import InstanceSet, Map, Set, as_points, lexmin_point
from loopkit.verification.report import Mismatch
from loopkit.verification.validation_order import required_order
from loopkit.verification.validation_walk import Execution, host_executions

Calls = Mapping[str, Sequence[tuple[Execution, Map]]]


def host_findings(lowered: Lowered) -> Iterator[Mismatch]:
    """The mismatches of the host's part of the program; the host's inames identify each call."""
    launches = {launch.name: launch for launch in lowered.launches}
    calls: dict[str, list[tuple[Execution, Map]]] = {name: [] for name in launches}
    for e in host_executions(lowered.kernel, lowered.program.order):
        assert isinstance(e.node, Call)
        values = [e.names.get(x, p.Variable(x)) for x in launches[e.node.name].hosts]
        calls[e.node.name].append((e, e.relation(values)))
    for launch in lowered.launches:
        yield from _iterations(lowered.kernel, launch, calls[launch.name])
    yield from _order(lowered, calls)


def _iterations(knl: LoopKernel, launch: Launch, calls: Sequence[tuple[Execution, Map]]) -> Iterator[Mismatch]:
    """Each iteration in which a statement of *launch* may run is one call."""
    wanted = reduce(InstanceSet.union, (_of_host(knl, s, launch.hosts) for s in launch.statements))
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


def _of_host(knl: LoopKernel, statement: str, hosts: Sequence[str]) -> InstanceSet:
    domain = knl.statement_by_id[statement].domain
    points = domain.without_params(data_params(knl, domain)).onto(hosts)
    return InstanceSet(points.inames, as_points(points.set)).intersect_params(knl.assumptions)


def _order(lowered: Lowered, calls: Calls) -> Iterator[Mismatch]:
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
                                   f"'{source}' in '{a.name}' is done, which it meets on '{array}'", parameters, place)
