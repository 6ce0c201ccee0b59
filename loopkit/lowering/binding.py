"""The stage ``binding``: hardware inames become coordinates of the grid and the block.

The inames on an axis are packed, each minus its minimum. A statement without an iname on an axis runs at every
coordinate if each has a copy of the variable that it writes, else at coordinate 0.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial, reduce
from itertools import accumulate
from math import prod
from operator import mul
from typing import cast

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_of, analysis_domain, data_params, fastest_last
from loopkit.analysis.constructors import annotated, with_dependences
from loopkit.analysis.dependences import shared_loops
from loopkit.analysis.legality import axis_inames, packing_order
from loopkit.analysis.order import loops_of
from loopkit.analysis.ranges import constant_range, iname_extent, iname_range, iname_span, known_sizes
from loopkit.ast.nodes import Block, Define, For, If, Node, Scope
from loopkit.ast.walk import as_block
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import conjunction, variables
from loopkit.expr.nodes import to_text
from loopkit.kernel.data import AddressSpace, ValueArg
from loopkit.kernel.kernel import LoopKernel, WholeKernel
from loopkit.kernel.statement import Dependence, Statement
from loopkit.kernel.tags import AutoLocalTag, GroupTag, LocalTag, is_parallel
from loopkit.kernel.target import Machine
from loopkit.kernel.tree import Leaf, Tree, leaves, nest, paths, rewrite
from loopkit.lowering.lowered import BLOCK, GRID, BoundStatement, HardwareMapping, Launch
from loopkit.lowering.scheduled import LaunchBody, Schedule
from loopkit.lowering.stored import Storage
from loopkit.poly.affine import add, digit_of, floor_div, integer_factor, is_quasi_affine, multiply, remainder, subtract
from loopkit.poly.codegen import condition_expression
from loopkit.poly.extents import first_value
from loopkit.poly.piecewise import at_least, known_remainder
from loopkit.poly.relations import at_one_point
from loopkit.poly.sets import InstanceSet, Set, params_of, range_condition
from loopkit.transform.clusters import blocks_of_cluster

#: An axis and the inames that lie on it in some statement, outermost first.
OnAxis = tuple[str, tuple[str, ...]]


def bind(schedule: Schedule, storages: Mapping[str, Storage], machine: Machine) -> tuple[Launch, ...]:
    """Bind each launch of *schedule* to the grid and the block of *machine*."""
    knl = schedule.kernel
    names = [knl.name] if len(schedule.launches) == 1 else [f"{knl.name}_{i}" for i in range(len(schedule.launches))]
    return tuple(_bound_launch(_launch_kernel(knl, part), part, name, storages, machine)
                 for name, part in zip(names, schedule.launches, strict=True))


def _bound_launch(knl: LoopKernel, part: LaunchBody, name: str, storages: Mapping[str, Storage], machine: Machine
                  ) -> Launch:
    statements = [knl.statement_by_id[s] for s in leaves(part.tree)]
    uses = {s.id: {f"{letter}.{axis}": inames for letter, kind in (("g", GroupTag), ("l", LocalTag))
                   for axis, inames in axis_inames(knl, s.inames, kind).items()} for s in statements}
    mapping = _mapping(knl, statements, uses)
    producer = _place_of_producer(knl, statements, uses, mapping, machine)
    if producer is not None:
        axis, first = producer
        inner = prod(n for x, n in mapping.extents.items() if x in BLOCK and x != axis and isinstance(n, int))
        behind = machine.threads_of(Scope.WARPGROUP if knl.options.producer_registers else Scope.WARP)
        mapping = replace(mapping, producer=producer,
                          extents={**mapping.extents, axis: first + max(behind // inner, 1)})
    if machine.roles and (cluster := blocks_of_cluster(knl, [s.id for s in statements])) > 1:
        extent = mapping.extents["g.0"]
        length = extent.then if isinstance(extent, p.If) else extent        # else there are no blocks at all
        if integer_factor(length) % cluster and known_remainder(length, cluster, knl.assumptions) != 0:
            raise PreconditionError(f"The grid has {to_text(length)} blocks along g.0, which are not known to be whole "
                                    f"clusters of {cluster}.", subject=name,
                                    hint=f"give all statements a multiple of {cluster} values along g.0")
        mapping = replace(mapping, cluster=cluster)
    tree = part.tree
    if all(mapping.extents.get(axis, 1) == 1 for axis in BLOCK):
        tree = rewrite(tree, partial(_auto_loops_sequential, knl))
    ways = paths(tree)
    domains: dict[tuple[object, ...], InstanceSet] = {}         # statements that share a set still share one
    bound = {}
    roles = _roles(knl, statements, storages) if producer is not None else {}
    for s in statements:
        loops = loops_of(ways[s.id])
        hardware = tuple(x for inames in uses[s.id].values() for x in inames)
        auto = tuple(x for x in s.inames if x not in loops and x not in hardware)
        run_by = roles.get(s.id, {False})
        own = producer if run_by == {True} else None
        alone = tuple(axis for axis in sorted(mapping.extents) if axis not in uses[s.id] and (
            (own is not None and axis in BLOCK) or not _replicated(knl, s, axis, storages)))
        key = (id(s.domain), loops, alone, own)
        bound[s.id] = BoundStatement(s, s.domain, hardware, auto, alone, own, len(run_by) > 1)
        if key not in domains:
            domain = s.domain.bound([x for x in s.inames if x not in loops]).onto(loops)
            domains[key] = domain.where(*(("==", subtract(p.Variable(axis), bound[s.id].place_on(axis)))
                                          for axis in alone))
        bound[s.id] = replace(bound[s.id], domain=domains[key])
    return Launch(name, tree, bound, mapping, part.hosts, knl, machine)


def _mapping(knl: LoopKernel, statements: Sequence[Statement], uses: Mapping[str, Mapping[str, tuple[str, ...]]]
             ) -> HardwareMapping:
    """The axes of *statements*; *uses*: the inames of each on each axis."""
    on_axes = tuple(dict.fromkeys(item for use in uses.values() for item in use.items()))
    coordinates = _coordinates(knl, on_axes)
    extents: dict[str, Expression] = {}
    for axis, inames in on_axes:
        extents[axis] = _larger(extents.get(axis), _packed_extent(knl, inames))
    for axis in extents:
        users = [s for s in statements if axis in uses[s.id]]
        if len(users) < len(statements) and not all(knl.assumptions.is_subset(s.domain.set.params()) for s in users):
            extents[axis] = _larger(1, extents[axis])        # the others run on coordinate 0
    extents, sizes = _without_idle_grids(knl, statements, [item for item in on_axes if item[0] in GRID], extents)
    ranges: dict[str, tuple[int, int] | None] = {}
    for axis, inames in on_axes:
        for x in inames:
            own = _range_along(knl, x, inames, extents[axis])
            if own is not None or (_follows(knl, inames, extents[axis]) and _has_ends(knl, x, sizes)):
                ranges[x] = own
    on_threads = frozenset(x for axis, inames in on_axes if axis in BLOCK for x in inames)
    return HardwareMapping(extents, coordinates, on_threads, ranges)


def _place_of_producer(knl: LoopKernel, statements: Sequence[Statement], uses: Mapping[str, Mapping[str, object]],
                       mapping: HardwareMapping, machine: Machine) -> tuple[str, int] | None:
    """The axis and the place of the producer thread, behind the block's other threads; ``None``: there is none."""
    producers = [s.id for s in statements if s.options.producer]
    if not producers or not machine.roles:
        return None
    own = {axis: n for axis, n in mapping.extents.items() if axis in BLOCK}
    axis = max((x for x, n in own.items() if n != 1), default="l.0")
    threads = [n for n in own.values() if isinstance(n, int)]
    what, unit = ("warp", machine.warp) if not knl.options.producer_registers else \
        ("warpgroup", machine.threads_of(Scope.WARPGROUP))
    if len(threads) < len(own) or prod(threads) % unit:
        count = prod(threads) if len(threads) == len(own) else "a number of"
        raise PreconditionError(
            f"'{producers[0]}' runs in a {what} of its own, and the block's other statements have {count} threads, not "
            f"whole {what}s of {unit}.", subject=producers[0],
            hint=f"tag inames such that a block has a multiple of {unit} threads")
    return axis, threads[[*own].index(axis)]


def _roles(knl: LoopKernel, statements: Sequence[Statement], storages: Mapping[str, Storage]
           ) -> Mapping[str, AbstractSet[bool]]:
    """For each statement, whether the producer thread runs it (``True``), the consumers do, or both.

    Each role computes the values in registers that it needs, if each thread computes them for itself, from memory that
    the launch does not write.

    :raises PreconditionError: the producer needs a value that other threads compute.
    """
    readers, writers = dict[str, set[str]](), dict[str, set[str]]()
    for s in statements:
        for a in accesses_of(knl, s):
            (writers if a.is_write else readers).setdefault(a.array, set()).add(s.id)
    private = {x for x, storage in storages.items() if storage.space is AddressSpace.PRIVATE}
    copied = {s.id: s.written for s in statements if s.written in private and not s.options.producer
              and not any(isinstance(knl.tags.get(x), LocalTag | AutoLocalTag) for x in s.inames)
              and all(a.is_write or a.array in private or a.array not in writers for a in accesses_of(knl, s))}
    roles = {s.id: set[bool]() if s.id in copied else {s.options.producer} for s in statements}
    before: dict[str, set[bool]] = {}
    while roles != before:
        before = roles
        roles = {x: own.union(*(roles[r] for r in readers.get(copied[x], ()))) if x in copied else own
                 for x, own in roles.items()}
    roles = {x: own or {False} for x, own in roles.items()}
    for x in private & readers.keys():
        reader = next((r for r in readers[x] if True in roles[r]), None)
        writer = next((w for w in writers.get(x, ()) if True not in roles[w]), None)
        if reader is not None and writer is not None:
            raise PreconditionError(f"The producer thread needs '{x}' for '{reader}', and '{writer}' computes it in "
                                    "other threads.", subject=x,
                                    hint=f"compute '{x}' without inames on threads, from memory that the launch does "
                                         "not write")
    return roles


def _without_idle_grids(knl: LoopKernel, statements: Sequence[Statement], on_grid: Sequence[OnAxis],
                        extents: dict[str, Expression]) -> tuple[dict[str, Expression], Set]:
    """*extents*, with one of them zero for sizes at which no statement runs, and the sizes for which there are blocks.

    The extent of an iname is an expression for the sizes at which it has values. At others it may be positive, and
    what is known of the iname in each block would be false there.
    """
    sizes = knl.assumptions
    for axis in (*GRID, *BLOCK):
        some = at_least(extents.get(axis, 1), 1)
        if some is not None:
            sizes = sizes.intersect(some)
    idle = [axis for axis, inames in on_grid if _follows(knl, inames, extents[axis])
            and not all(sizes.is_subset(iname_span(knl, x).set.params()) for x in inames)]
    if not idle:
        return extents, sizes
    domains = {id(s.domain): analysis_domain(knl, s).set.params() for s in statements}
    runs = reduce(Set.union, domains.values())
    if sizes.is_subset(runs):
        return extents, sizes
    runs = runs.intersect(sizes)
    condition = condition_expression(runs, knl.assumptions)
    assert condition is not None
    return {**extents, min(idle): p.If(condition, extents[min(idle)], 0)}, runs


def _follows(knl: LoopKernel, inames: tuple[str, ...], extent: Expression) -> bool:
    """Is *extent*, of an axis of the grid, exactly the one that *inames* need, for all sizes with blocks?"""
    return not isinstance(extent, int) \
        and _packed_extent(knl, inames) == (extent.then if isinstance(extent, p.If) else extent)


def _has_ends(knl: LoopKernel, iname: str, sizes: Set) -> bool:
    """Does *iname* take the values of the first and of the last block, for all *sizes*?

    An axis begins at the least value for any sizes where that is constant; there may be blocks before the first value.
    """
    points = iname_span(knl, iname)
    low, extent = iname_range(knl, iname)
    if not isinstance(low, int):
        return sizes.is_subset(points.set.params()) and low == first_value(points, knl.assumptions)
    ends = [low, low + extent - 1] if extent else [low]
    return all(sizes.is_subset(points.where(("==", subtract(p.Variable(iname), end))).set.params()) for end in ends)


def _replicated(knl: LoopKernel, s: Statement, axis: str, storages: Mapping[str, Storage]) -> bool:
    """Does *s*, which is outside *axis*, run at every place along it?"""
    if axis.startswith("l") and any(isinstance(knl.tags.get(x), AutoLocalTag) for x in s.inames):
        return True                      # all threads take part already
    storage = storages.get(s.written)
    if storage is None or storage.space is AddressSpace.GLOBAL:
        return False
    return storage.space is AddressSpace.PRIVATE or axis.startswith("g")


def _auto_loops_sequential(knl: LoopKernel, node: Tree) -> Tree:
    """In a block of one thread, ``l.auto`` inames are ordinary loops around their statement."""
    if not isinstance(node, Leaf):
        return node
    inames = knl.statement_by_id[node.statement].inames
    return nest(tuple(x for x in inames if isinstance(knl.tags.get(x), AutoLocalTag)), node)


def _unpacked(knl: LoopKernel, axis: str, inames: Sequence[str]) -> dict[str, Expression]:
    """Each of *inames*, outermost first, as a function of the axis that they share."""
    result: dict[str, Expression] = {}
    stride: Expression = 1
    for x in reversed(inames):
        rest = p.Variable(axis) if stride == 1 else floor_div(p.Variable(axis), stride)
        extent = iname_extent(knl, x)
        if not (isinstance(extent, int) or knl.assumptions.is_subset(iname_span(knl, x).set.params())):
            extent = p.Max((1, extent))     # blocks may exist for other statements
        result[x] = add(remainder(rest, extent) if x != inames[0] else rest, iname_range(knl, x)[0])
        stride = multiply(stride, extent)
    return dict(reversed(result.items()))


def _coordinates(knl: LoopKernel, on_axes: Iterable[OnAxis]) -> dict[str, Expression]:
    """Each iname as a function of its axis; :raises PreconditionError: two statements disagree on one."""
    found: dict[str, Expression] = {}
    packings: dict[str, tuple[str, ...]] = {}
    for axis, inames in on_axes:
        for x, value in _unpacked(knl, axis, inames).items():
            if found.setdefault(x, value) != value or packings.setdefault(x, inames)[:1] != inames[:1]:
                raise PreconditionError(
                    f"The statements have different inames on the hardware axis of '{x}': one has "
                    f"{', '.join(packings[x])}, another has {', '.join(inames)}.", subject=x,
                    hint="tag inames such that all statements have the same ones on this axis, or use another axis")
            packings.setdefault(x, inames)
    return found


def _packed_extent(knl: LoopKernel, inames: Sequence[str]) -> Expression:
    return reduce(multiply, (iname_extent(knl, x) for x in inames), cast(Expression, 1))


def _larger(a: Expression | None, b: Expression) -> Expression:
    if a is None or a == b:
        return b
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    parts = [*dict.fromkeys(part for e in (a, b) for part in (e.children if isinstance(e, p.Max) else (e,)))]
    numbers = [part for part in parts if isinstance(part, int)]
    if len(numbers) > 1:
        parts = [max(numbers) if part == numbers[0] else part for part in parts if part not in numbers[1:]]
    return p.Max(tuple(parts))


def _range_along(knl: LoopKernel, iname: str, inames: tuple[str, ...], length: Expression) -> tuple[int, int] | None:
    """The values of *iname* on an axis of that *length*, which may be longer than it needs; ``None``: not constant."""
    low, extent = iname_range(knl, iname)[0], iname_extent(knl, iname)
    if iname == inames[0]:                  # the first one has the rest of the axis
        inner = _packed_extent(knl, inames[1:])
        extent = -(-length // inner) if isinstance(length, int) and isinstance(inner, int) else length
    return (low, low + extent - 1) if isinstance(low, int) and isinstance(extent, int) else None


# Each launch as a kernel

def host_domain(knl: LoopKernel, part: LaunchBody) -> InstanceSet:
    """The iterations of the host's loops around *part* in which one of its statements may run."""
    domains = {id(s.domain): s.domain for s in map(knl.statement, leaves(part.tree))}.values()
    return reduce(InstanceSet.union, (d.without_params(data_params(knl, d)).onto(part.hosts) for d in domains))


def _launch_kernel(knl: LoopKernel, part: LaunchBody) -> LoopKernel:
    """The statements of *part* as a kernel, each call of which is one iteration of the host's loops."""
    if not part.hosts:
        return knl
    domains: dict[int, InstanceSet] = {}

    def bound(domain: InstanceSet) -> InstanceSet:
        # statements that share a set still share one
        return domains.setdefault(id(domain), domain.bound(part.hosts))
    own = frozenset(leaves(part.tree))
    launch = with_dependences(
        knl, partial(_within, knl, own, part.hosts),
        arguments=(*knl.arguments, *map(ValueArg, part.hosts)), tree=part.tree,
        statements=tuple(replace(s, domain=bound(s.domain)) for s in knl.statements if s.id in own),
        assumptions=knl.assumptions.intersect(params_of(host_domain(knl, part))))
    # places on an axis count from the whole kernel's start, as in the comparisons of places
    ranges = {x: iname_range(knl, x) for x in launch.inames if is_parallel(knl.tags.get(x))}
    whole = WholeKernel(packing_order(knl), known_sizes(knl), ranges)
    shrinking = dict(_shrinking(annotated(launch, whole=whole), part.hosts))
    return annotated(launch, whole=replace(whole, ranges={**ranges, **shrinking}))


def _shrinking(launch: LoopKernel, hosts: tuple[str, ...]) -> Iterator[tuple[str, tuple[Expression, int]]]:
    """The ``g`` inames whose least value depends on the host's loops: no block is launched below it.

    Only an iname that is alone on its axis of the grid: then equal places are equal values, whatever the start of the
    count.
    """
    on_axis: dict[int, set[tuple[str, ...]]] = {}
    for s in launch.statements:
        for axis, inames in axis_inames(launch, s.inames, GroupTag).items():
            on_axis.setdefault(axis, set()).add(inames)
    for packings in on_axis.values():
        inames = next(iter(packings))
        if len(packings) > 1 or len(inames) > 1:
            continue
        low = first_value(iname_span(launch, inames[0]), launch.assumptions)
        if is_quasi_affine(low) and not variables(low).isdisjoint(hosts):
            yield inames[0], (low, 0)


def _within(knl: LoopKernel, statements: frozenset[str], hosts: tuple[str, ...], found: Sequence[Dependence],
            _: LoopKernel) -> Iterator[Dependence]:
    """The dependences of *knl* among *statements*, within one iteration of the loops *hosts*."""
    for d in found:
        if d.source in statements and d.sink in statements:
            relation = at_one_point(d.relation, shared_loops(knl, d.source, d.sink, hosts), hosts)
            if not relation.is_empty():
                yield replace(d, relation=relation)


# Thread distribution of "l.auto": maps a box of instances to block axes and a loop of rounds
#
# All threads take part, neighbouring threads take neighbouring points along one iname of the box, and the number of
# rounds is constant. That iname has the smallest stride in the loaded array; without a load it is the last one. If its
# length is that of l.0, it is bound to l.0.

#: Rounds of a fetch loop that are still unrolled.
MOST_UNROLLED = 32


def spread_over_threads(launch: Launch, bound: BoundStatement, context: Set, statement: Callable[[Set], Node]) -> Node:
    """Code that runs *statement* once for each point of its box, each by one thread.

    :arg statement: gives the guarded statement, from what is known of the box's inames.
    """
    knl = launch.kernel
    box = {x: _iname_values(knl, bound, x) for x in fastest_last(knl, bound.statement.expression, bound.auto)}
    for x, values in box.items():
        context = context.intersect(range_condition(x, values.start, values.stop - 1))
    body = statement(context)
    axes, idle = launch.axes_for(bound)
    here: list[Node] = []
    last = [*box][-1]
    if axes.get("l.0") == len(box[last]):
        here.append(Define(last, add(_thread_id({"l.0": axes.pop("l.0")}), box.pop(last).start)))
    threads = prod(axes.values())
    rounds = _in_rounds(box, threads, _thread_id(axes), Block((*here, body)), bound.statement.id.replace(".", "_"), knl)
    alone = conjunction(p.Comparison(p.Variable(axis), "==", 0) for axis in idle)
    return If(alone, as_block(rounds)) if idle else rounds


def _iname_values(knl: LoopKernel, bound: BoundStatement, iname: str) -> range:
    low, high = constant_range(knl, bound.statement.domain, iname)
    if low is None or high is None:
        raise PreconditionError(f"'{iname}' has no constant range, which the tag 'l.auto' needs.", subject=iname,
                                hint="split the iname, or fix the parameter")
    return range(low, high + 1)


def _thread_id(axes: Mapping[str, int]) -> Expression:
    """The number of a thread along *axes* with their extents, the first fastest."""
    strides = accumulate(axes.values(), mul, initial=1)
    return add(*reversed([multiply(stride, p.Variable(axis))
                          for (axis, n), stride in zip(axes.items(), strides, strict=False) if n > 1]))


def _in_rounds(box: Mapping[str, range], threads: int, thread: Expression, body: Block, name: str, knl: LoopKernel
               ) -> Node:
    """*body* for each point of *box*, distributed over *threads* threads; this thread has the number *thread*."""
    if not box:
        return body if threads == 1 else If(p.Comparison(thread, "==", 0), body)
    points = prod(map(len, box.values()))
    count = -(-points // threads)
    counter = knl.fresh_name(f"{name}_round")
    number = thread if count == 1 else add(multiply(threads, p.Variable(counter)), thread)
    if len(box) == 1:
        (x, values), = box.items()
        named: list[Node] = [Define(x, add(number, values.start))]
        number, digits = add(p.Variable(x), -values.start), []
    else:
        point = knl.fresh_name(f"{name}_point")
        named, number = [Define(point, number)], p.Variable(point)
        digits = _digits(box, number)
    inner = Block((*digits, *body.children))
    if count * threads != points:
        inner = Block((If(p.Comparison(number, "<", points), inner),))
    inner = Block((*named, *inner.children))
    return inner if count == 1 else For(counter, 0, count, 1, inner, unroll=count <= MOST_UNROLLED)


def _digits(box: Mapping[str, range], number: Expression) -> list[Node]:
    """Each coordinate of a box as a digit of the number of its point, the last one fastest."""
    result: list[Node] = []
    weight = 1
    for x, values in reversed([*box.items()]):
        slowest = len(result) == len(box) - 1
        digit = digit_of(number, weight, 0 if slowest and len(values) > 1 else len(values))
        result.append(Define(x, add(digit, values.start)))
        weight *= len(values)
    return result[::-1]
