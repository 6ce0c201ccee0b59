"""The statement instances of a kernel at given sizes, one by one, and the orders in which they may run."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from loopkit.analysis.accesses import data_params
from loopkit.analysis.dependences import dependences
from loopkit.analysis.legality import axis_inames, packed_coordinate
from loopkit.analysis.order import execution_paths
from loopkit.errors import PreconditionError, instance_text
from loopkit.expr.evaluate import evaluate
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, Statement
from loopkit.kernel.tags import AutoLocalTag, GroupTag, InameTag, LocalTag, is_at_once, is_parallel, is_simd
from loopkit.kernel.tree import Path
from loopkit.lowering.schedule import launches_of
from loopkit.poly.points import all_points
from loopkit.poly.relations import at_sink
from loopkit.poly.sets import fix_params

#: Most instances of a statement that are run one by one.
MOST = 100_000


@dataclass(frozen=True)
class Instance:
    """One instance of a statement; *point* has the values of the statement's inames, in their order."""

    statement: str
    point: tuple[int, ...]

    def inames(self, knl: LoopKernel) -> dict[str, int]:
        return dict(zip(knl.statement_by_id[self.statement].inames, self.point, strict=True))

    def text(self, knl: LoopKernel) -> str:
        return instance_text(self.statement, self.inames(knl))


#: Part of an instance: with ``False`` everything before its write, with ``True`` the write.
Half = tuple[Instance, bool]

#: An order in which instances run: its effect on the two instances of a witness, as text, and the instances.
Order = tuple[str, Sequence[Instance | Half]]

#: The value that an instance writes, computed from data that no statement writes.
BoundValue = Callable[[Statement, Instance], int]


# All instances

def instances(knl: LoopKernel, sizes: Mapping[str, int], bound_value: BoundValue) -> list[Instance]:
    """All instances of *knl*; *bound_value* gives bounds from memory; :raises PreconditionError: there are too many."""
    found: list[Instance] = []
    for s in knl.statements:
        if data_params(knl, s.domain):
            points: Sequence[tuple[int, ...]] | None = sorted(_data_bounded(knl, s, sizes, bound_value))
        else:
            points = all_points(s.domain, sizes, MOST)
        if points is None or len(found) + len(points) > MOST:
            raise PreconditionError(f"'{s.id}' has too many instances at these sizes to run them one by one.",
                                    subject=s.id, hint="pass smaller sizes (err.replay(n=4)), or try smaller tiles")
        found += [Instance(s.id, x) for x in points]
    return found


def _data_bounded(knl: LoopKernel, s: Statement, sizes: Mapping[str, int], bound_value: BoundValue
                  ) -> Iterator[tuple[int, ...]]:
    """The instances of a statement with bounds from memory: for each tuple of bounds, the instances within them."""
    names = data_params(knl, s.domain)
    for writers in itertools.product(*(_writers(knl, name, s, sizes) for name in names)):
        values = {name: bound_value(knl.statement_by_id[d.source], w)
                  for name, (d, w) in zip(names, writers, strict=True)}
        reached = s.domain.named(fix_params(s.domain.set, values))
        for d, writer in writers:
            reached = reached.intersect(s.domain.named(at_sink(d.relation.reverse(), sizes, writer.point).domain()))
        points = all_points(reached, sizes, MOST)
        if points is None:
            raise PreconditionError(f"The bounds of '{s.id}' that are read from memory leave it without end.",
                                    subject=s.id, hint="pass the arrays that they are read from")
        yield from points


def _writers(knl: LoopKernel, name: str, reader: Statement, sizes: Mapping[str, int]
             ) -> list[tuple[Dependence, Instance]]:
    result = []
    for d in dependences(knl):
        if d.kind == "flow" and d.array == name and d.sink == reader.id:
            points = all_points(knl.statement_by_id[d.source].domain, sizes, MOST)
            if points is None:
                raise PreconditionError(f"The bound '{name}' of '{reader.id}' depends on another that is read from "
                                        "memory; such kernels are not run one instance at a time.", subject=name)
            result += [(d, Instance(d.source, x)) for x in points]
    return result


# Their orders

def reference_order(knl: LoopKernel, found: Sequence[Instance]) -> list[Instance]:
    """The instances in the order of the kernel's tree, with ascending parallel inames."""
    return sorted(found, key=clock(knl, knl.paths))


def execution_order(knl: LoopKernel, found: Sequence[Instance]) -> list[Instance]:
    """The instances in their execution order; concurrent ones in the order of the kernel's tree."""
    tree, time = clock(knl, knl.paths), clock(knl, execution_paths(knl))
    return sorted(found, key=lambda x: (time(x), tree(x)))


def broken_orders(knl: LoopKernel, found: Sequence[Instance], sizes: Mapping[str, int], source: Instance,
                  sink: Instance) -> Iterator[Order]:
    """Orders that *knl* allows in which *sink* does not wait for *source*; all other instances follow the tree.

    If the order of the loops does not swap the two, the order of threads and blocks does. If the two instances are
    concurrent, the sink runs first. If they belong to two blocks, the sink's block runs first, up to the sink. If only
    a barrier separates two threads, the sink's thread does not wait for it; one of the two may then also read before
    the other writes, and write after it. There is no order if *knl* allows none, e.g. between two launches, since one
    ends before the next begins.
    """
    time, order = clock(knl, execution_paths(knl)), execution_order(knl, found)
    first, second = order.index(source), order.index(sink)
    if second < first:
        tree = clock(knl, knl.paths)
        parallel = any(is_parallel(knl.tags.get(iname)) for x in (source, sink) for iname in x.inames(knl))
        free = parallel and tree(source) < tree(sink)
        yield f"the second instance {'could' if free else 'would'} run before the first", order
        return
    if time(source) == time(sink):
        ahead = [sink]
    else:
        launch = _launch_of(knl)
        if launch(source) != launch(sink):
            return
        places = (partial(coordinates, knl, sizes, kind) for kind in (GroupTag, LocalTag))
        place = next((place for place in places if place(source) != place(sink)), None)
        if place is None:
            yield from _vector_order(knl, order, source, sink)
            return
        ahead = [x for x in order[first + 1:second + 1] if place(x) == place(sink)]
    moved = set(ahead)
    start, rest = [*order[:first], *ahead[:-1]], [x for x in order[first + 1:] if x not in moved]
    yield "the second instance could run before the first", [*start, sink, source, *rest]
    for x, other, title in (
            (sink, source, "the second instance could read before the first writes"),
            (source, sink, "the first instance could read before the second writes, and write after it")):
        yield title, [*start, (x, False), other, (x, True), *rest]


def _vector_order(knl: LoopKernel, order: Sequence[Instance], source: Instance, sink: Instance) -> Iterator[Order]:
    """The orders of a vector that contains both instances: it reads as a whole before it writes.

    The iterations of a SIMD loop also run in any order.
    """
    def place(x: Instance) -> tuple[str, Mapping[str, int]]:
        return x.statement, {k: v for k, v in x.inames(knl).items() if not is_at_once(knl.tags.get(k))}
    if place(source) != place(sink):
        return
    vector = [x for x in order if place(x) == place(source)]
    start = order.index(vector[0])
    if any(is_simd(knl.tags.get(iname)) for iname in sink.inames(knl)):
        yield ("the second instance could run before the first, both in one SIMD loop",
               [*order[:start], sink, *(x for x in order[start:] if x != sink)])
    halves = ((x, writes) for writes in (False, True) for x in vector)
    yield ("the second instance would read before the first writes, both in one vector",
           [*order[:start], *halves, *order[start + len(vector):]])


def clock(knl: LoopKernel, paths: Mapping[str, Path]) -> Callable[[Instance], tuple[int, ...]]:
    """The time of an instance along *paths*; concurrent instances have one time."""
    places = {s.id: [(step.position, None if step.iname is None else s.inames.index(step.iname))
                     for step in paths[s.id]] for s in knl.statements}

    def time(x: Instance) -> tuple[int, ...]:
        return tuple(position if dim is None else x.point[dim] for position, dim in places[x.statement])
    return time


def _launch_of(knl: LoopKernel) -> Callable[[Instance], tuple[int, ...]]:
    """The launch of an instance: its number, and the iteration of the host's loops around it."""
    places = launches_of(knl)

    def launch(x: Instance) -> tuple[int, ...]:
        place, inames = places[x.statement], x.inames(knl)
        return (place.launch, *(inames[iname] for iname in place.hosts))
    return launch


def coordinates(knl: LoopKernel, sizes: Mapping[str, int], kind: type[InameTag], x: Instance) -> dict[object, int]:
    """The coordinates of an instance's block, or of its thread in the block, by the *kind* of tag."""
    inames = x.inames(knl)
    axes = axis_inames(knl, knl.statement_by_id[x.statement].inames, kind)
    found: dict[object, int] = {axis: evaluate(packed_coordinate(knl, own), {**sizes, **inames})
                                for axis, own in axes.items()}
    if kind is LocalTag:                    # inames still to be distributed count one by one
        found.update((iname, v) for iname, v in inames.items() if isinstance(knl.tags.get(iname), AutoLocalTag))
    return found
