"""Instance-wise dependences: computed once in the reference order, then carried along by every step.

Arguments are storage: flow, anti and output dependences bind between all pairs of references, whatever the values.
Temporaries carry values: only the flow from the last write to each read binds, as lowering allocates their storage
later. If data decides which of several writes is the last, their order binds too.

A reduction has dependences from init to updates to final statement, and among updates (ordered unless reorderable).
Atomic updates of one array by one operation do not depend on each other. To all other accesses of the array they are
reads and writes, and the value of each flows to every later read.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import product
from typing import TypeVar

import pymbolic.primitives as p

from loopkit.analysis.accesses import Access, accesses_by_array, accesses_to, analysis_domain, commute
from loopkit.analysis.constructors import reference_pairs
from loopkit.analysis.must_writes import is_must_write, joint_must_writes
from loopkit.analysis.order import execution_paths, loops_of, meeting_of
from loopkit.analysis.shapes import array_shapes
from loopkit.analysis.shared_values import sure_and_maybe, values_in
from loopkit.kernel.kernel import Derivation, LoopKernel
from loopkit.kernel.statement import Dependence, ReductionNode, kind_of, writing_ends
from loopkit.kernel.tree import Path, relative_paths
from loopkit.poly.affine import if_affine
from loopkit.poly.elements import reaches_all
from loopkit.poly.flow import TimedAccess, value_flow
from loopkit.poly.limits import IMPORTANT, affordable, kept, kept_in_memo
from loopkit.poly.piecewise import cells
from loopkit.poly.relations import SharedLoop, carry, differing, identity_on, in_time_order, same_element
from loopkit.poly.sets import InstanceSet, Map, Set

K = TypeVar("K")
Points = TypeVar("Points", Map, Set, InstanceSet)

#: Two statements.
Pair = tuple[str, str]


@kept_in_memo
def dependences(knl: LoopKernel) -> tuple[Dependence, ...]:
    """The dependences that bind *knl*, between its current instances."""
    every = with_assumed(knl)
    return tuple(d for d in every if not d.assumed) if knl.obligations else every


def with_assumed(knl: LoopKernel) -> tuple[Dependence, ...]:
    """The dependences of *knl*, the assumed ones included: an obligation allows those to be broken."""
    # from the oldest kernel on: a recursive call for each earlier step would be too deep
    waiting = [knl]
    while _KEY not in waiting[-1].memo and isinstance(waiting[-1].derivation, Derivation):
        waiting.append(waiting[-1].derivation.before)
    while len(waiting) > 1:
        _derived(waiting.pop())
    return _derived(knl)


_KEY = "dependences with assumed ones"


def _derived(knl: LoopKernel) -> tuple[Dependence, ...]:
    def found() -> tuple[Dependence, ...]:
        match knl.derivation:
            case None:
                return tuple(_compute(knl))
            case Derivation(before, derive):
                return tuple(derive(_derived(before), knl))
            case known:
                return known
    return kept(knl.memo, _KEY, found)


def in_words(kind: str, array: str, source: str, sink: str) -> str:
    """The text of a dependence for a report or for generated code.

    >>> in_words("anti", "a", "use", "next")
    'a: use reads, next overwrites'
    """
    first, second = {"flow": ("writes", "reads"), "anti": ("reads", "overwrites"),
                     "output": ("writes", "overwrites"), "explicit": ("is done", "starts")}[kind]
    return f"{array or 'dep='}: {source} {first}, {sink} {second}"


def shared_loops(knl: LoopKernel, source: str, sink: str, loops: Sequence[str]) -> tuple[SharedLoop, ...]:
    """The dimensions of *loops* in the two statements."""
    a, b = knl.statement_by_id[source].inames, knl.statement_by_id[sink].inames
    return tuple((a.index(x), b.index(x)) for x in loops)


def between_iterations(knl: LoopKernel, d: Dependence, loops: Sequence[str]) -> Map | None:
    """The pairs of *d* between different iterations of *loops*; ``None``: there are none.

    Separate cells for each iteration would lose the values of these pairs, if *d* is a flow dependence.
    """
    return differing(d.relation, shared_loops(knl, d.source, d.sink, loops))


def in_order(knl: LoopKernel, source: str, sink: str, pairs: Map, paths: Mapping[str, Path] | None = None) -> Map:
    """The *pairs* of instances of two statements whose source runs first on *paths*, by default those of execution."""
    where = meeting_of(execution_paths(knl) if paths is None else paths, source, sink)
    return in_time_order(pairs, shared_loops(knl, source, sink, where.loops), where.before)


def _compute(knl: LoopKernel) -> Iterator[Dependence]:
    accumulators = {r.accumulator for r in knl.reductions.values()}
    patterns: dict[object, list[_Found]] = {}
    by_array = accesses_by_array(knl)   # keeps the ids in pattern keys unique
    for array, accesses in by_array.items():
        if array in accumulators or array not in knl.written_names:
            continue
        of_value = array in knl.temporaries
        key = (of_value, *_access_pattern(knl, accesses))
        if key not in patterns:
            patterns[key] = list(_value_order(knl, accesses, knl.paths) if of_value else _storage_order(knl, accesses))
        yield from _between(accesses, patterns[key], of_value)
    for node in knl.reductions.values():
        yield from reduction_dependences(knl, node)
    yield from explicit_dependences(knl, {s.id: s.options.depends_on for s in knl.statements})


def explicit_dependences(knl: LoopKernel, depends_on: Mapping[str, Collection[str]]) -> Iterator[Dependence]:
    """The dependences of each statement on those of *depends_on*, in the same iterations of the loops of both."""
    for sink, sources in depends_on.items():
        for source in sorted(sources):
            yield Dependence("explicit", "", source, sink, identity_pairs(knl, source, sink))


#: A dependence between two of a list of accesses, by their indices; does each pair access one element, whatever the
#: data in inexact subscripts?
_Found = tuple[int, int, str, Map, bool]


def _between(accesses: Sequence[Access], found: Iterable[_Found], of_value: bool = True) -> Iterator[Dependence]:
    """The dependences *found* between *accesses* to one array."""
    for i, j, kind, relation, sure in found:
        a, b = accesses[i], accesses[j]
        yield Dependence(kind, a.array, a.statement, b.statement, relation, exact=sure or (a.exact and b.exact),
                         of_value=of_value)


def _access_pattern(knl: LoopKernel, accesses: Sequence[Access]) -> tuple[object, ...]:
    """The key of the dependences among *accesses*: domains, subscripts and relative positions."""
    paths = [knl.paths[a.statement] for a in accesses]
    return (joint_must_writes(knl, accesses), relative_paths(paths),
            *((a.is_write, values_in(knl, a), a.affine, a.doubt is None, a.update, a.any_order, id(a.domain),
               a.subscripts, loops_of(path))
              for a, path in zip(accesses, paths, strict=True)))


def _storage_order(knl: LoopKernel, accesses: Sequence[Access]) -> Iterator[_Found]:
    """Flow, anti and output pairs in time order, between all pairs of references with a write."""
    for (i, a), (j, b) in _pairs_by_constants(accesses):
        where = meeting_of(knl.paths, a.statement, b.statement)
        if (a.is_write or b.is_write) and not commute(a, b) and (where.loops or where.before):
            for pairs, is_sure in zip(sure_and_maybe(knl, a, b), (True, False), strict=True):
                ordered = None if pairs is None else in_order(knl, a.statement, b.statement, pairs, knl.paths)
                if ordered is not None and not ordered.is_empty():
                    yield i, j, kind_of(a.is_write, b.is_write), ordered, is_sure


def _pairs_by_constants(accesses: Sequence[Access]) -> Iterator[tuple[tuple[int, Access], tuple[int, Access]]]:
    """All pairs of *accesses*, with indices, but those that differ in an axis whose subscripts are all numbers."""
    axes = [k for k, every in enumerate(zip(*(a.subscripts for a in accesses), strict=True))
            if all(isinstance(s, int) for s in every)]
    alike: dict[object, list[tuple[int, Access]]] = {}
    keys = [tuple(a.subscripts[k] for k in axes) for a in accesses]
    for key, numbered in zip(keys, enumerate(accesses), strict=True):
        alike.setdefault(key, []).append(numbered)
    return ((first, second) for key, first in zip(keys, enumerate(accesses), strict=True) for second in alike[key])


def _value_order(knl: LoopKernel, accesses: Sequence[Access], paths: Mapping[str, Path], apart: Sequence[str] = ()
                 ) -> Iterator[_Found]:
    """The flow from the last writes before each read, and output pairs between several last writes of one read.

    An atomic update has an anti dependence on a read before it, as it does not start a new value.
    """
    flows = list(_value_flow(knl, accesses, paths, apart))
    yield from flows

    def ordered(i: int, j: int, kind: str, pairs: Map) -> Iterator[_Found]:
        found = in_order(knl, accesses[i].statement, accesses[j].statement, pairs, paths)
        if not found.is_empty():
            yield i, j, kind, found, False
    for (i, sink, _, first, _), (j, other, _, second, _) in product(flows, repeat=2):
        # only one of two must-writes is the last
        if other == sink and not (is_must_write(accesses[i]) and is_must_write(accesses[j])) \
                and not commute(accesses[i], accesses[j]):
            yield from ordered(i, j, "output", first.apply_range(second.reverse()))
        if i == j and accesses[other].update is not None and accesses[sink].update is None:
            yield from ordered(sink, other, "anti", first.reverse().apply_range(second))


def _value_flow(knl: LoopKernel, accesses: Sequence[Access], paths: Mapping[str, Path], apart: Sequence[str] = ()
                ) -> Iterator[_Found]:
    """The flow from the last write before each read, on *paths*.

    :arg apart: inames each of whose iterations has its own copy of the temporary.
    """
    accessed = [timed(a, paths[a.statement], apart) for a in accesses]
    for source, sink, relation in value_flow(accessed, joint_must_writes(knl, accesses)):
        if not commute(accesses[source], accesses[sink]):
            yield source, sink, "flow", relation, False


def timed(a: Access, path: Path, apart: Sequence[str] = ()) -> TimedAccess:
    """*a* with its time on *path*, to a copy of its elements for each value of the inames *apart*."""
    inames = a.domain.inames
    steps = [("at", step.position) if step.iname is None else ("loop", inames.index(step.iname))
             for step in path if step.iname not in apart]
    relation = a.relation.flat_range_product(cells(inames, [p.Variable(x) for x in apart])) if apart else a.relation
    # an instance reads before it writes
    return TimedAccess(relation, a.is_write, is_must_write(a), (*steps, ("at", int(a.is_write))))


def reduction_dependences(knl: LoopKernel, node: ReductionNode) -> Iterator[Dependence]:
    """Init before every update before the final statement; updates of one element among themselves."""
    assert not node.others                  # only in a kernel whose dependences are computed anew
    for source, sink in ((node.init, node.update), (node.update, node.final), (node.init, node.final)):
        yield Dependence("flow", node.accumulator, source, sink, identity_pairs(knl, source, sink), of_value=True)
    yield among_updates(knl, node)


def among_updates(knl: LoopKernel, node: ReductionNode) -> Dependence:
    """The flow of the accumulator of *node* from update to update."""
    among = identity_pairs(knl, node.update, node.update, but=node.inames)
    if not knl.operation(node.operation).reorderable:
        loops = shared_loops(knl, node.update, node.update, loops_of(knl.paths[node.update]))
        among = in_time_order(among, loops, before=False)
    return Dependence("flow", node.accumulator, node.update, node.update, among, of_value=True)


def is_reorderable(knl: LoopKernel, d: Dependence) -> bool:
    """May the pairs of *d* run in any order, but not concurrently? They are updates of one reduction."""
    node = reduction_within(knl, d)
    return node is not None and knl.operation(node.operation).reorderable


def reduction_within(knl: LoopKernel, d: Dependence) -> ReductionNode | None:
    """The reduction whose updates *d* orders, by its accumulator; ``None``: *d* is another dependence."""
    node = knl.reduction_of.get(d.source)
    return node if node is not None and d.array == node.accumulator and {d.source, d.sink} <= {*node.updates} else None


def identity_pairs(knl: LoopKernel, source: str, sink: str, but: Collection[str] = ()) -> Map:
    """Pairs of instances of two statements that agree in every iname of both except those in *but*."""
    a, b = knl.statement_by_id[source], knl.statement_by_id[sink]
    return identity_on(analysis_domain(knl, a), analysis_domain(knl, b),
                       [x for x in a.inames if x in b.inames and x not in but])


def flow_of_values(knl: LoopKernel, array: str) -> Iterator[Dependence]:
    """The flow of the values of one temporary in the reference order of *knl*."""
    accesses = accesses_by_array(knl).get(array, ())
    return _between(accesses, _value_flow(knl, accesses, knl.paths))


def order_of_values(knl: LoopKernel, array: str, apart: Sequence[str] | None = None) -> Iterator[Dependence]:
    """The dependences of the values of one temporary in the reference order of *knl*.

    :arg apart: in the execution order: inames of all accesses, each of whose iterations has its own copy of the
        temporary.
    """
    accesses = accesses_by_array(knl)[array]
    return _between(accesses, _value_order(knl, accesses, knl.paths if apart is None else execution_paths(knl),
                                           apart or ()))


def joined(parts: Iterable[tuple[K, Points]]) -> dict[K, Points]:
    """The sets or relations of each key, united: two statements may have dependences through several references."""
    result: dict[K, Points] = {}
    for key, points in parts:
        result[key] = result[key].union(points) if key in result else points
    return result


def joined_relations(found: Iterable[Dependence]) -> dict[Pair, Map]:
    """The relations of *found*, united for each pair of statements."""
    return joined(((d.source, d.sink), d.relation) for d in found)


def relations_of(knl: LoopKernel, array: str, kind: str | None = None) -> dict[Pair, Map]:
    """The dependences of *array* between each two statements, those of one *kind* or all."""
    return joined_relations(d for d in dependences(knl) if d.array == array and kind in (None, d.kind))


def reads_of(knl: LoopKernel, write: Access) -> Iterator[tuple[str, Map]]:
    """The statements that would read the value of *write*, an access added to *knl*, each with the pairs of instances.
    """
    accesses = (*accesses_by_array(knl)[write.array], write)
    for source, sink, _, relation, _ in _value_flow(knl, accesses, knl.paths):
        if source == len(accesses) - 1:
            yield accesses[sink].statement, relation


def needed_inputs(knl: LoopKernel) -> frozenset[str]:
    """The arrays with an element that is read and that no must-write of the kernel wrote before.

    Includes an array if following its values exceeds isl's budget.
    """
    return frozenset(
        array for array, accesses in accesses_by_array(knl).items()
        if array in knl.array_args and not all(a.is_write for a in accesses)
        and affordable(partial(_reads_before_writes, knl, accesses), otherwise=True, budget=IMPORTANT))


def _reads_before_writes(knl: LoopKernel, accesses: Sequence[Access]) -> bool:
    """May an element of the one array of *accesses* be read before it is written?"""
    flows = list(_value_flow(knl, accesses, knl.paths)) if any(a.is_write for a in accesses) else []
    for i, a in enumerate(accesses):
        if a.is_write:
            continue
        sources = [(accesses[source], relation) for source, sink, _, relation, _ in flows
                   if sink == i and accesses[source].exact]
        unwritten = reduce(Set.subtract, (relation.range() for _, relation in sources), a.domain.set)
        if not unwritten.is_empty() or not (a.affine or _any_is_written(knl, a, sources)):
            return True
    return False


def _any_is_written(knl: LoopKernel, read: Access, sources: Sequence[tuple[Access, Map]]) -> bool:
    """Do the *sources* of *read* write every element of the array before *read*, which may read any element?"""
    written = [flow.reverse().apply_range(write.relation) for write, flow in sources]
    return bool(sources and if_affine(lambda: reaches_all(
        written, read.domain.set, array_shapes(knl)[read.array], knl.assumptions)))


# Assumed dependences

# A refuted pair (unsafe=True) accesses one element in either order, so that its read may find any value. An undecided
# pair (assume=) never accesses one element. Lowering and its checks rely on these claims alone.

@kept_in_memo
def assumed_dependences(knl: LoopKernel, array: str) -> tuple[Dependence, ...]:
    """The assumed dependences of the temporary *array*."""
    return tuple(d for d in with_assumed(knl) if d.assumed and d.array == array) if knl.obligations else ()


def without_assumed(knl: LoopKernel, array: str, source: str, sink: str, pairs: Map) -> Map:
    """*pairs*, instances that access one element of the temporary *array*, without the assumed ones in either order."""
    for d in assumed_dependences(knl, array):
        if (d.source, d.sink) == (source, sink):
            pairs = pairs.subtract(d.relation)
        if (d.sink, d.source) == (source, sink):
            pairs = pairs.subtract(d.relation.reverse())
    return pairs


def assumed_flows(knl: LoopKernel, array: str) -> Iterator[Dependence]:
    """The assumed flows of the temporary *array* whose two instances access one element."""
    for d in assumed_dependences(knl, array):
        if d.exact and d.kind == "flow":
            # a later step may have expanded the array, so that the two no longer share an element
            for w, r in reference_pairs(knl, d):
                both = d.relation.intersect(same_element(w.relation, r.relation))
                if not both.is_empty():
                    yield replace(d, relation=both)


def clobbered_reads(knl: LoopKernel, array: str, statement: str) -> Set | None:
    """The instances of *statement* that may read any value from *array*; ``None``: there are none.

    Also ``None`` if *statement* reads *array* by several subscripts, as a dependence does not tell these apart.
    """
    reads = {a.subscripts for a in accesses_to(knl, statement, array, is_write=False)}
    found = [d.relation.range() for d in assumed_dependences(knl, array)
             if d.exact and d.kind == "flow" and d.sink == statement]
    return reduce(Set.union, found) if found and len(reads) == 1 else None


#: One end of a dependence after the step: a statement, whether it writes the array there or reads it, and the relation
#: from the instances that were at this end before the step to those of the statement; ``None``: the same ones.
End = tuple[str, bool, Map | None]


@dataclass(frozen=True)
class Moved:
    """A dependence *d* before the step, and the one *after* the step, with the relations of its two ends."""

    d: Dependence
    after: Dependence
    moves: tuple[Map | None, Map | None]

    def origin(self, pairs: Map) -> Map:
        """The instances of *d* that *pairs*, instances of *after*, replace."""
        source, sink = (None if move is None else move.reverse() for move in self.moves)
        return self.d.relation.intersect(carry(pairs, source, sink))

    def on_one_element(self, knl: LoopKernel) -> Dependence:
        """The dependence after the step to *knl*, between instances whose accesses at both ends are to one element."""
        d = self.after
        return replace(d, relation=d.relation.intersect(same_element(*(
            accessed_elements(knl, s, d.array, is_write=w)
            for s, w in zip((d.source, d.sink), writing_ends(d.kind), strict=True)))))


def moved_dependences(kernel: LoopKernel, arrays: Collection[str], ends: Callable[[Dependence, str, bool], list[End]]
                      ) -> Iterator[Moved]:
    """The dependences of *kernel*, with those of *arrays* moved to the ends that they have after the step.

    :arg ends: the new ends for an end of a dependence: a statement, and whether the end is a write.
    """
    for d in with_assumed(kernel):
        sources, sinks = (ends(d, s, w) if d.array in arrays else [(s, w, None)]
                          for s, w in zip((d.source, d.sink), writing_ends(d.kind), strict=True))
        for (source, writes, first), (sink, overwrites, second) in product(sources, sinks):
            if first is None and second is None:
                yield Moved(d, d, (None, None))
            elif writes or overwrites:
                yield Moved(d, replace(d, kind=kind_of(writes, overwrites), source=source, sink=sink,
                                       relation=carry(d.relation, first, second)), (first, second))


def accessed_elements(knl: LoopKernel, statement: str, array: str, *, is_write: bool) -> Map:
    """The access relation of *statement* to *array*: its writes if *is_write*, else its reads."""
    return reduce(Map.union, (a.relation for a in accesses_to(knl, statement, array, is_write=is_write)))
