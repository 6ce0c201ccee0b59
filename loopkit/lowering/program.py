"""The function of each launch: loops, full and partial tiles, and declarations; and the host's loops."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from math import prod

from loopkit.analysis.accesses import accesses_of, data_params, origin
from loopkit.analysis.dependences import between_iterations, with_assumed
from loopkit.ast.arrays import Array
from loopkit.ast.check import divergent_names, divergent_nodes, is_one_step, noun_of, operation_of_load
from loopkit.ast.nodes import Assign, Block, Call, For, Function, Node, OneStep, Scope, Sync
from loopkit.ast.walk import as_block, rewritten, simplified, unrolled_loops, with_separate_iterations
from loopkit.errors import PreconditionError, ScheduleError
from loopkit.instructions.phases import SLOT, StartPhases
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import is_at_once, is_collective, is_simd
from loopkit.kernel.tree import (
    Barrier,
    Leaf,
    Loop,
    Seq,
    Tree,
    has_barrier,
    leaves,
    meeting,
    nodes_in,
    parts_of,
    paths,
    without,
)
from loopkit.lowering.binding import host_domain
from loopkit.lowering.code import (
    Coder,
    Level,
    condition_along_axis,
    generated,
    in_versions,
    runs_between_barriers,
    with_values,
)
from loopkit.lowering.guards import edges_are_small, full_block, full_iterations
from loopkit.lowering.lowered import GRID, Launch
from loopkit.lowering.scheduled import Schedule
from loopkit.lowering.stored import Storage
from loopkit.poly.codegen import CodeLoop, CodeTree
from loopkit.poly.limits import affordable
from loopkit.poly.sets import InstanceSet, Set, range_condition


def generate_loops(launch: Launch, storages: Mapping[str, Storage], full_tiles: bool) -> Function:
    """The function of *launch*: its loops with their bounds and conditions, and what it declares.

    :arg full_tiles: full tiles get a version without guards.
    :raises ScheduleError: a barrier is needed in a loop whose bounds may differ between the threads of a block.
    """
    body, cluster = _in_versions(Coder(launch, storages), _outermost(launch), full_tiles), launch.mapping.cluster
    if cluster > 1:
        why = "no block ends before all copies and arrivals of its cluster"
        body = Block((*body.children, Sync((why,), Scope.CLUSTER)))
    function = Function(launch.name, launch.mapping.extents, launch.mapping.coordinates,
                        tuple(_arrays(launch, storages)), body, launch.ticketed, cluster=cluster)
    _require_uniform_bounds(launch, function)
    return function


def _require_uniform_bounds(launch: Launch, function: Function) -> None:
    knl, domains = launch.kernel, {id(s.domain): s.domain for s in launch.kernel.statements}.values()
    bounds = {x for domain in domains for x in data_params(knl, domain)}
    divergent = divergent_names(function, launch.mapping.thread_names) if bounds else frozenset()
    names = sorted(bounds & divergent)
    for node, why in divergent_nodes(function.body, divergent) if names else ():
        s = next(s for s in knl.statements if s.written == names[0])
        each = [x for x in s.inames if x in launch.mapping.thread_inames]
        raise ScheduleError(
            f"{noun_of(node).capitalize()} is needed {why}, but its bounds ({', '.join(names)}) are "
            f"{origin(knl, names)} and may differ between the threads of a block: '{s.id}' computes {names[0]} "
            f"for each {', '.join(each) or 'thread'}.", subject=names[0],
            hint="compute such values per block instead of per thread, move the exchange of values out of this "
                 "loop, or bound it by a size parameter")


def unrolled(body: Block, knl: LoopKernel) -> Block:
    """*body* with unrolled loops written out, except those that instructions replace.

    Without the option of *knl*, these are only loops whose iterations have no statement in common.
    """
    kept = frozenset(x for x, tag in knl.tags.items() if is_at_once(tag) or is_collective(tag))
    if knl.options.textual_unroll:
        return simplified(Block((unrolled_loops(body, kept=kept),)))

    def separate(node: Node) -> Node:
        return with_separate_iterations(node) if isinstance(node, For) and node.iname not in kept else node
    new = rewritten(body, separate)
    return body if new is body else simplified(new)


def with_old_values(node: Node) -> Node:
    """*node*, if it is a block, with the load of each old value in it in one step with its update.

    :raises PreconditionError: the two do not follow each other.
    """
    if not isinstance(node, Block):
        return node
    children: list[Node] = []
    for child in node.children:
        pair = (*children[-1:], child)
        children[-1:] = [OneStep(pair)] if is_one_step(pair) else pair
    for child in children:
        if isinstance(child, Assign) and operation_of_load(child) is not None:
            raise PreconditionError(
                f"'{child.statement}' keeps the old value of an atomic update, but the update does not follow it "
                "directly, or uses the place where it is kept.", subject=child.statement,
                hint="keep the two statements in one loop, without ilp, and no statement between them")
    return replace(node, children=tuple(children)) if len(children) < len(node.children) else node


def _in_versions(generic: Coder, level: Level, wanted: bool) -> Block:
    """The text of *generic*, beside a version for full tiles of all of it, or of parts with guards."""
    launch = generic.launch
    if not wanted or (launch.threads == 1 and not any(map(is_simd, launch.kernel.tags.values()))):
        return generic.skeleton(level)
    undivided = has_barrier(launch.tree) and not launch.machine.barriers_in_branches
    # two roles start their rings once
    if undivided or launch.producer is not None or affordable(lambda: edges_are_small(launch), otherwise=False):
        return replace(generic, in_place=True).skeleton(level)

    def full_tiles() -> tuple[Set, Callable[[Level], Block]]:
        condition, absent = full_block(launch)
        own = launch if has_barrier(launch.tree) else replace(launch, tree=without(launch.tree, absent))
        return condition, replace(generic, launch=own, split=full_iterations(launch)).skeleton
    return as_block(in_versions(level, full_tiles, generic.skeleton))


def _outermost(launch: Launch) -> Level:
    """The conditions that hold in every block: the assumptions, and the ranges of the grid's inames."""
    knl = launch.kernel
    level = Level(knl.value_params, knl.assumptions)
    for x in launch.mapping.block_inames:
        level = level.knowing(condition_along_axis(launch, x), x)
    for axis in (axis for axis in GRID if axis in launch.mapping.extents):
        level = level.knowing(range_condition(axis, 0), axis)
    return level


def _arrays(launch: Launch, storages: Mapping[str, Storage]) -> Iterator[Array]:
    used = {a.array for s in launch.statements.values() for a in accesses_of(launch.kernel, s.statement)}
    by_engines = {a.array for s in launch.statements.values() for a in accesses_of(launch.kernel, s.statement)
                  if any(i.asynchronous_proxy for i in s.statement.instructions)}
    alive = _alive_across_regions(launch)
    for name, storage in storages.items():
        if name in used and storage.space is not AddressSpace.GLOBAL:
            shape = tuple(e for e in storage.in_memory if isinstance(e, int))
            assert len(shape) == len(storage.in_memory)
            note = _note(storage, name in by_engines) if launch.kernel.options.annotate else ""
            lasting = storage.space is AddressSpace.PRIVATE and name in alive
            shared = storage.space is AddressSpace.SHARED
            yield Array(name, storage.dtype, shape, shared, lasting, len(storage.lanes), note, storage.swizzle,
                        storage.temporary.constants)
    for start in (i for node in nodes_in(launch.tree) if isinstance(node, Barrier) for i in node.instructions):
        if isinstance(start, StartPhases):
            note = start.note if launch.kernel.options.annotate else ""
            yield Array(start.ring, SLOT, (start.slots,), shared=True, note=note)


def _note(storage: Storage, by_engines: bool) -> str:
    """:arg by_engines: TMA or the matrix units access it by themselves."""
    if storage.swizzle is None:
        return storage.temporary.note
    rows = prod(e for e in storage.swizzle.counted(storage.in_memory) if isinstance(e, int))
    chunk, period = storage.swizzle.chunk, storage.swizzle.period
    every = storage.swizzle.every
    number = "r" if every == 1 else f"r / {every}"
    row = number if rows <= every*period else f"{number} % {period}"
    row = row if row == "r" else f"({row})"
    mask = row if chunk == 1 else f"({chunk}*{row})"
    also = ", also for TMA and matrix descriptors" if by_engines else ""
    of_row = "row r" if storage.swizzle.row_axes == 1 else f"row r of {storage.swizzle.row_axes} axes"
    return "; ".join(filter(None, (storage.temporary.note, f"column c of {of_row} is at c ^ {mask}{also}")))


def _alive_across_regions(launch: Launch) -> frozenset[str]:
    """Temporaries whose values are alive across regions."""
    knl, ways = launch.kernel, paths(launch.tree)
    if not has_barrier(launch.tree):
        return frozenset()
    used = [{a.array for s in leaves(region) for a in accesses_of(knl, launch.statements[s].statement)}
            for region in _regions(launch.tree)]
    result = {array for array, count in Counter(chain.from_iterable(used)).items() if count > 1}
    for d in with_assumed(knl):
        if d.of_value and d.kind == "flow" and d.source in ways and d.sink in ways:
            loops = meeting(ways[d.source], ways[d.sink]).loops
            if between_iterations(knl, d, loops) is not None:
                result.add(d.array)
    return frozenset(result)


def _regions(tree: Tree) -> Iterator[Tree]:
    """The parts of *tree* between barriers."""
    if not has_barrier(tree) or isinstance(tree, Leaf):
        yield tree
    elif isinstance(tree, Loop):
        yield from _regions(tree.body)
    elif isinstance(tree, Seq):
        for part in runs_between_barriers(tree.children):
            yield from _regions(part)


# The host's loops

def host_order(schedule: Schedule, launches: tuple[Launch, ...]) -> Block:
    """The host's program: it launches exactly where an instance of the launch may run.

    A launch outside of all loops has no condition.
    """
    knl = schedule.kernel
    names = [launch.name for launch in launches]

    def code_tree(node: Tree, domains: dict[str, InstanceSet]) -> CodeTree:
        """*node*, with the domains of its launches recorded in *domains*."""
        match node:
            case Leaf(number):
                name, part = names[int(number)], schedule.launches[int(number)]
                domains[name] = host_domain(knl, part)
                return name
            case Loop(iname, body):
                return CodeLoop(iname, code_tree(body, domains))
            case _:
                return tuple(code_tree(part, domains) for part in parts_of(node))

    def looped(node: Tree) -> Node:
        if isinstance(node, Leaf):
            return Call(names[int(node.statement)])
        domains: dict[str, InstanceSet] = {}
        tree = code_tree(node, domains)
        return generated(knl, tree, domains, knl.assumptions,
                         lambda name, values: with_values(Call(name), values), on_host=True)
    return Block(tuple(map(looped, parts_of(schedule.order))))
