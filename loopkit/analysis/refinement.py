"""Refinement of dependences by facts that were unknown when the dependences were computed.

A size that becomes a number, or an assumption, may make a subscript affine or decide a condition. Instances that do
not access one element are then no longer a dependence, and a must-write hides the writes before it.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import product

from loopkit.analysis.accesses import accesses_to, commute
from loopkit.analysis.must_writes import is_must_write
from loopkit.kernel.dependence import Dependence, writing_ends
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.relations import same_element


def refined(knl: LoopKernel, found: Iterable[Dependence]) -> tuple[Dependence, ...]:
    """*found*, the dependences of *knl*, without pairs that do not access one element."""
    every = tuple(found)
    vague = [d for d in every if _is_vague(d)]
    if not vague:
        return every
    # references of one kind are refined together, as a dependence does not name its references
    joined: dict[tuple[object, ...], Dependence] = {}
    for d in vague:
        key = (d.kind, d.array, d.source, d.sink)
        joined[key] = replace(d, relation=joined[key].relation.union(d.relation)) if key in joined else d
    result = [d for d in every if not _is_vague(d)]
    for d in joined.values():
        result += _narrowed(knl, d)
    return tuple(_without_hidden(knl, result, {d.array for d in vague if d.of_value}))


def _is_vague(d: Dependence) -> bool:
    return not d.exact and not d.assumed and d.kind != "explicit"


def _narrowed(knl: LoopKernel, d: Dependence) -> Iterator[Dependence]:
    """A dependence for each pair of references that may access one element."""
    sources, sinks = (accesses_to(knl, s, d.array, is_write=is_write)
                      for s, is_write in zip((d.source, d.sink), writing_ends(d.kind), strict=True))
    pairs = [(a, b) for a, b in product(sources, sinks) if not commute(a, b)]
    if not pairs:                           # a step has replaced the references
        yield d
    for a, b in pairs:
        own = d.relation.intersect(same_element(a.relation, b.relation))
        if not own.is_empty():
            yield replace(d, relation=own, exact=a.exact and b.exact)


def _without_hidden(knl: LoopKernel, found: list[Dependence], arrays: Collection[str]) -> Iterator[Dependence]:
    """*found* without flow of values of *arrays* that a must-write hides.

    An output dependence orders two writes either of which may be the last. It decides which of them hides the other,
    and stays if some read may get the value of either.
    """
    def is_must(array: str, statement: str) -> bool:
        return any(map(is_must_write, accesses_to(knl, statement, array, is_write=True)))
    orders = [d for d in found if d.kind == "output" and d.array in arrays and is_must(d.array, d.sink)]
    flows: list[Dependence] = []
    for d in found:
        if d.array not in arrays or d.kind not in ("flow", "output"):
            yield d
        elif d.kind == "flow":
            relation = d.relation
            # a write of one element hides a pair only if the pair shares no other element
            known = _accesses_one(knl, d.source, d.array, is_write=True) or _accesses_one(
                knl, d.sink, d.array, is_write=False)
            for order in orders if known else ():
                for last in found:
                    if (order.array, order.source, last.kind, last.array, last.source, last.sink) == (
                            d.array, d.source, "flow", d.array, order.sink, d.sink):
                        relation = relation.subtract(order.relation.apply_range(last.relation))
            if not relation.is_empty():
                flows.append(replace(d, relation=relation))
    yield from flows
    for d in found:
        if d.array in arrays and d.kind == "output" and not (
                is_must(d.array, d.source) and is_must(d.array, d.sink)):     # only one of two must-writes is the last
            for first, second in product(_readings(flows, d.array, d.source), _readings(flows, d.array, d.sink)):
                if first.sink == second.sink:
                    relation = d.relation.intersect(same_element(first.relation, second.relation))
                    if not relation.is_empty():
                        yield replace(d, relation=relation)


def _accesses_one(knl: LoopKernel, statement: str, array: str, *, is_write: bool) -> bool:
    """Does each instance of *statement* access a single element of *array*?"""
    own = accesses_to(knl, statement, array, is_write=is_write)
    return len(own) == 1 and bool(own[0].relation.is_single_valued())


def _readings(flows: Iterable[Dependence], array: str, writer: str) -> list[Dependence]:
    return [d for d in flows if d.array == array and d.source == writer]
