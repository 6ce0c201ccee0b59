"""The host's loops around launches, and each launch in them as a kernel."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

from pymbolic.typing import Expression

from loopkit.analysis.accesses import data_params
from loopkit.analysis.constructors import annotated, with_dependences
from loopkit.analysis.dependences import shared_loops
from loopkit.analysis.legality import axis_inames, iname_range, iname_span, packing_order
from loopkit.analysis.ranges import known_sizes
from loopkit.ast.nodes import Block, Call, Node
from loopkit.expr.mappers import variables
from loopkit.kernel.data import ValueArg
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel, WholeKernel
from loopkit.kernel.tags import GroupTag, is_parallel
from loopkit.kernel.tree import leaves
from loopkit.lowering.code import code_seq, generated, with_values
from loopkit.lowering.lowered import HostLoop, HostNode, Launch, LaunchBody, Schedule
from loopkit.poly import codegen
from loopkit.poly.affine import is_quasi_affine, rounded_once
from loopkit.poly.codegen import CodeLoop, CodeTree
from loopkit.poly.extents import first_value
from loopkit.poly.relations import at_one_point
from loopkit.poly.sets import InstanceSet, params_of


def host_domain(knl: LoopKernel, part: LaunchBody) -> InstanceSet:
    """The iterations of the host's loops around *part* in which one of its statements may run."""
    domains = {id(s.domain): s.domain for s in map(knl.statement, leaves(part.tree))}.values()
    return reduce(InstanceSet.union, (d.without_params(data_params(knl, d)).onto(part.hosts) for d in domains))


def host_order(schedule: Schedule, launches: tuple[Launch, ...]) -> Block:
    """The host's program: it launches exactly where an instance of the launch may run.

    A launch outside of all loops has no condition.
    """
    knl = schedule.kernel
    names = [launch.name for launch in launches]
    domains = {names[i]: host_domain(knl, part) for i, part in enumerate(schedule.launches) if part.hosts}
    nodes = (_looped(knl, node, names, domains) if isinstance(node, HostLoop) else Call(names[node])
             for node in schedule.order)
    return Block(tuple(nodes))


def _looped(knl: LoopKernel, loop: HostLoop, names: list[str], domains: Mapping[str, InstanceSet]) -> Node:
    tree = _code_tree(loop, names)
    return generated(knl, tree, {name: domains[name] for name in codegen.leaves(tree)}, knl.assumptions,
                     lambda name, values: with_values(Call(name), values))


def _code_tree(node: HostNode, names: list[str]) -> CodeTree:
    if not isinstance(node, HostLoop):
        return names[node]
    return CodeLoop(node.iname, code_seq([_code_tree(child, names) for child in node.body]))


def launch_kernel(knl: LoopKernel, part: LaunchBody) -> LoopKernel:
    """The statements of *part* as a kernel, each call of which is one iteration of the host's loops; *knl* without such
    loops.
    """
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
        low = rounded_once(first_value(iname_span(launch, inames[0]), launch.assumptions))
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
