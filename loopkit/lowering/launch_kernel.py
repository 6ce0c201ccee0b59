"""A launch in a loop of the host, as a kernel of its own: the host's inames are parameters there."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

from loopkit.analysis.accesses import data_params
from loopkit.analysis.dependences import Dependence, shared_loops, with_waived
from loopkit.analysis.legality import iname_range
from loopkit.kernel.data import ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import is_parallel
from loopkit.kernel.tree import leaves
from loopkit.lowering.schedule import Part
from loopkit.poly.relations import at_one_point
from loopkit.poly.sets import InstanceSet, params_of


def host_domain(knl: LoopKernel, part: Part) -> InstanceSet:
    """The iterations of the host's loops around *part* in which one of its statements may run."""
    domains = {id(s.domain): s.domain for s in map(knl.statement, leaves(part.tree))}.values()
    return reduce(InstanceSet.union, (d.without_params(data_params(knl, d)).onto(part.hosts) for d in domains))


def launch_kernel(knl: LoopKernel, part: Part) -> LoopKernel:
    """The statements of *part* as a kernel whose every call is one iteration of the host's loops; else *knl*."""
    if not part.hosts:
        return knl
    domains: dict[int, InstanceSet] = {}

    def bound(domain: InstanceSet) -> InstanceSet:
        # statements with one set keep one
        return domains.setdefault(id(domain), domain.bound(part.hosts))
    own = frozenset(leaves(part.tree))
    result = knl.copy(
        arguments=(*knl.arguments, *map(ValueArg, part.hosts)), tree=part.tree,
        statements=tuple(replace(s, domain=bound(s.domain)) for s in knl.statements if s.id in own),
        assumptions=knl.assumptions.intersect(params_of(host_domain(knl, part))),
        carried=lambda: tuple(_within(knl, own, part.hosts)))
    # places on an axis count from where the whole kernel's do, by which they were compared
    result.memo["iname_range"] = {x: iname_range(knl, x) for x in result.inames if is_parallel(knl.tags.get(x))}
    return result


def _within(knl: LoopKernel, statements: frozenset[str], hosts: tuple[str, ...]) -> Iterator[Dependence]:
    """The dependences of *knl* among *statements*, within one iteration of the loops *hosts*."""
    for d in with_waived(knl):
        if d.source in statements and d.sink in statements:
            relation = at_one_point(d.relation, shared_loops(knl, d.source, d.sink, hosts), hosts)
            if not relation.is_empty():
                yield replace(d, relation=relation)
