"""Legality of an execution order with parallel inames: proven, refuted with a witness, or undecided.

A dependence is legal if its pairs are in time order in the shared loops and a launch can end between blocks. The cost
is linear in the number of dependences.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_of, why_undecided
from loopkit.analysis.constructors import with_dependences
from loopkit.analysis.dependences import dependences, is_reorderable, reduction_within, shared_loops
from loopkit.analysis.order import execution_paths, loops_of, meeting_of, not_separable, obstacle
from loopkit.analysis.ranges import iname_extent, iname_range
from loopkit.analysis.values_preserved import clobbered_flows
from loopkit.analysis.witnesses import Violation, smallest_violation
from loopkit.errors import IllegalTransformError, PreconditionError, UndecidedError
from loopkit.expr.mappers import element, update_of, variables
from loopkit.expr.nodes import to_text
from loopkit.expr.places import subscripts_at
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, Obligation, Statement
from loopkit.kernel.tags import GroupTag, InameTag, LocalTag, is_at_once, is_parallel, is_simd
from loopkit.poly.affine import add, affine_difference, is_quasi_affine, multiply, subtract
from loopkit.poly.limits import kept_in_memo
from loopkit.poly.piecewise import equal_coordinates, smaller_coordinates
from loopkit.poly.relations import differing, in_one_iteration, joined_by_chains, out_of_time_order
from loopkit.poly.sets import InstanceSet, Map

#: The inames on each axis of the grid or of the block, outermost first.
OnAxes = dict[int, tuple[str, ...]]


def violations(knl: LoopKernel) -> Iterator[Violation]:
    """The dependences that the execution order or the parallel inames of *knl* break, with all broken pairs."""
    paths = execution_paths(knl)
    cache: dict[object, list[tuple[Map, str]]] = {}
    for d in dependences(knl):
        where = meeting_of(paths, d.source, d.sink)
        a, b = knl.statement_by_id[d.source], knl.statement_by_id[d.sink]
        loops = (*_threads_in_order(knl, d), *where.loops)
        key = (id(d.relation), a.inames, b.inames, loops, where.before, is_reorderable(knl, d), d.of_value,
               is_between_blocks(knl, d))
        if key not in cache:
            cache[key] = list(_broken(knl, d, loops, where.before))
        for pairs, reason in cache[key]:
            broken = not_separable(knl, d, where, pairs) if reason == "blocks" else pairs
            if broken is not None:
                # an assumption is about all blocks, also where a loop of the host could run them in turn
                yield Violation(d, broken if d.exact else pairs, reason,
                                reason != "blocks" or _places_on(knl, *_axes(knl, d)) is not None)
        if (meeting := _in_one_vector(knl, d)) is not None:
            yield Violation(d, meeting, "order")


def _broken(knl: LoopKernel, d: Dependence, loops: Sequence[str], before: bool) -> Iterator[tuple[Map, str]]:
    if not is_reorderable(knl, d):
        late = out_of_time_order(not_to_later_blocks(knl, d), shared_loops(knl, d.source, d.sink, loops), before)
        if late is not None:
            yield late, "order"
    if (loops or not before) and (apart := across_blocks(knl, d)) is not None:
        yield apart, "blocks"


def _threads_in_order(knl: LoopKernel, d: Dependence) -> tuple[str, ...]:
    """The inames of threads that share the updates of *d*, if they combine their parts in the order of the threads."""
    node = reduction_within(knl, d)
    if node is None or not knl.operation(node.operation).associative:
        return ()
    return in_order_of_threads(knl, [x for x in node.inames if isinstance(knl.tags.get(x), LocalTag)])


def in_order_of_threads(knl: LoopKernel, lanes: Sequence[str]) -> tuple[str, ...]:
    """*lanes* with those outermost whose axis varies slowest among the threads of a block."""
    axes = axis_inames(knl, lanes, LocalTag)
    return tuple(x for axis in sorted(axes, reverse=True) for x in axes[axis])


def across_blocks(knl: LoopKernel, d: Dependence, kind: type[InameTag] = GroupTag) -> Map | None:
    """The pairs of *d* that run in different blocks, or along other axes of *kind* apart; ``None``: there are none."""
    source, sink, axes = _axes(knl, d, kind)
    if not axes:
        return None
    if any((x in source) != (x in sink) for x in axes):
        return None if d.relation.is_empty() else d.relation
    a, b = knl.statement_by_id[d.source].inames, knl.statement_by_id[d.sink].inames
    apart, places = not_to_later_blocks(knl, d), _places_on(knl, source, sink, axes)
    if places is not None:                  # else any two may be in different blocks
        dims = [(a.index(x.name), b.index(y.name)) for x, y in places
                if isinstance(x, p.Variable) and isinstance(y, p.Variable)]
        if len(dims) == len(places):
            return differing(apart, dims)
        apart = apart.subtract(equal_coordinates(a, [x for x, _ in places], b, [y for _, y in places]))
    return None if apart.is_empty() else apart


def _axes(knl: LoopKernel, d: Dependence, kind: type[InameTag] = GroupTag) -> tuple[OnAxes, OnAxes, list[int]]:
    """The inames of both statements on each axis of *kind*, and the axes along which their places may differ."""
    source, sink = (axis_inames(knl, knl.statement_by_id[s].inames, kind) for s in (d.source, d.sink))
    # a value computed outside an axis is replicated in every block along it
    return source, sink, sorted(source if d.of_value else {*source, *sink})


def _places_on(knl: LoopKernel, source: OnAxes, sink: OnAxes, axes: Sequence[int]
               ) -> list[tuple[Expression, ...]] | None:
    """Pairs of coordinates of both statements, on those of *axes* that both have; ``None``: unknown."""
    found = [places_on_axis(knl, source[x], sink[x]) for x in axes if x in source and x in sink]
    known = [pair for places in found if places is not None for pair in places]
    return None if None in found else known


def _in_one_vector(knl: LoopKernel, d: Dependence) -> Map | None:
    """The pairs of *d* within one vector: the second instance reads an element that the first one writes, although all
    reads of a vector come before all of its writes. In a SIMD loop the two instances run in no order.

    Vectors of several threads run at once too; between those any pair counts.
    """
    if d.source != d.sink or is_reorderable(knl, d):
        return None
    inames = knl.statement_by_id[d.source].inames
    others = [x for x in inames if not is_at_once(knl.tags.get(x))]
    if len(others) == len(inames):
        return None
    sequential = [x for x in others if not is_parallel(knl.tags.get(x))]
    pairs = in_one_iteration(d.relation, shared_loops(knl, d.source, d.sink, sequential))
    if d.kind != "flow" and not any(is_simd(knl.tags.get(x)) for x in inames):
        pairs = pairs.subtract(in_one_iteration(d.relation, shared_loops(knl, d.source, d.sink, others)))
    return None if pairs.is_empty() else pairs


def is_between_blocks(knl: LoopKernel, d: Dependence) -> bool:
    """Does *d* carry values by an inter-block flag?"""
    temporary = knl.temporaries.get(d.array)
    return temporary is not None and temporary.between_blocks and d.kind == "flow"


def not_to_later_blocks(knl: LoopKernel, d: Dependence) -> Map:
    """The pairs of *d*, without those that an inter-block flag orders: from a block to one with a greater number."""
    return d.relation.subtract(to_later_blocks(knl, d.source, d.sink, d.relation)) if is_between_blocks(knl, d) \
        else d.relation


def to_later_blocks(knl: LoopKernel, source: str, sink: str, pairs: Map) -> Map:
    """The *pairs* whose sink runs in a block with a greater number than the source's.

    Blocks are numbered along ``g.0`` first. Empty if the statements are on different axes of the grid.
    """
    a, b = knl.statement_by_id[source].inames, knl.statement_by_id[sink].inames
    first, second = axis_inames(knl, a, GroupTag), axis_inames(knl, b, GroupTag)
    known = _places_on(knl, first, second, sorted(first, reverse=True)) if first.keys() == second.keys() else None
    places = known or ()
    return pairs.intersect(smaller_coordinates(a, [x for x, _ in places], b, [y for _, y in places]))


def axis_inames(knl: LoopKernel, inames: Sequence[str], kind: type[InameTag]) -> OnAxes:
    """The *inames* on each axis of *kind*, outermost first, as their loops nest."""
    result: OnAxes = {}
    own = [x for x in inames if isinstance(knl.tags.get(x), kind)]
    for x in sorted(own, key=packing_order(knl).__getitem__) if len(own) > 1 else own:
        tag = knl.tags[x]
        assert isinstance(tag, GroupTag | LocalTag)
        result[tag.axis] = (*result.get(tag.axis, ()), x)
    return result


@kept_in_memo
def packing_order(knl: LoopKernel) -> Mapping[str, int]:
    """The position of each iname among those that share an axis: one order for all statements, after that of the
    loops.
    """
    if knl.whole is not None:
        return knl.whole.packing_order
    order: list[str] = []
    for path in knl.paths.values():
        place = 0
        for x in loops_of(path):
            if x not in order:
                order.insert(place, x)
            place = order.index(x) + 1
    order += [x for x in knl.inames if x not in order]
    return {x: i for i, x in enumerate(order)}


def places_on_axis(knl: LoopKernel, *packings: tuple[str, ...]) -> list[tuple[Expression, ...]] | None:
    """Coordinates of several statements on one axis: instances share a block or thread if all coordinates are equal.

    Each tuple has one coordinate for each statement. ``None`` if the statements pack different inames with extents
    that depend on sizes: the number of a place is then a product of sizes and inames, and not affine.

    :arg packings: the inames of each statement on the axis, outermost first.
    """
    if len(set(packings)) == 1:
        return [(p.Variable(x),)*len(packings) for x in packings[0]]
    # the number of a place, if it is an affine form in the inames
    if all(isinstance(iname_extent(knl, x), int) for inames in packings for x in inames[1:]):
        numbers = tuple(packed_coordinate(knl, inames) for inames in packings)
        if all(affine_difference(number, number) is not None for number in numbers):
            return [numbers]
    return None


@kept_in_memo
def packed_coordinate(knl: LoopKernel, inames: tuple[str, ...]) -> Expression:
    """Several inames on one axis as a mixed-radix number; a single iname counted from its least value.

    An affine form if the extents of all but the first are constant.
    """
    result: Expression = 0
    for i, x in enumerate(inames):
        index = subtract(p.Variable(x), iname_range(knl, x)[0])
        result = add(multiply(iname_extent(knl, x), result), index) if i else index
    return result


def require_legal(knl: LoopKernel, step: str, *, assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """*knl*, after a check that its order after *step* keeps all dependences, except those that the caller allows.

    Allowed pairs become assumed dependences with an obligation.

    :arg assume: the reason why undecided pairs are legal.
    :arg unsafe: accept refuted pairs too.
    :raises PreconditionError: *assume* gives no reason.
    :raises IllegalTransformError: with the instances, the sizes and the element.
    :raises UndecidedError: the pair comes from a subscript or bound that is not affine.
    """
    require_reason(step, assume)
    found = list(violations(knl))
    return proven(knl) if not found else accepted(knl, step, found, _sentence, hosts_obstacle, assume, unsafe)


def proven(knl: LoopKernel) -> LoopKernel:
    """*knl* with its last step marked as proven."""
    return knl.with_history(replace(knl.history, proven=True), knl.given_pairs)


def require_reason(step: str, assume: str | None) -> None:
    """:raises PreconditionError: *assume* gives no reason."""
    if assume is not None and not assume.strip():
        raise PreconditionError(f"{step}: assume= must be a text with the reason why the step is legal.",
                                subject="assume", hint='assume="the rows of index are permutations"')


def accepted(knl: LoopKernel, step: str, found: Sequence[Violation], sentence: Callable[[str, Violation], str],
             hints: Callable[[LoopKernel, Violation], Sequence[str]], assume: str | None, unsafe: bool) -> LoopKernel:
    """*knl* with the violations *found* as assumed dependences, or the error for the smallest of them.

    :arg sentence: the effect of the step on the pairs of a violation.
    """
    exact = [v for v in found if v.exact]
    if exact and not unsafe:
        worst, witness = smallest_violation(knl, exact, [v for v in found if not v.dependence.exact])
        raise IllegalTransformError(sentence(step, worst), witness, hints(knl, worst), after=knl)
    if not exact and assume is None and not unsafe:
        d = found[0].dependence
        why = why_undecided(knl, d.array, d.source, d.sink) if not d.exact else (
            "the inames of the two share an axis of the grid in bounds that depend on sizes, so that their blocks are "
            "not known; put one of them on another axis")
        two = f"'{d.source}' and '{d.sink}'" if d.source != d.sink else f"two instances of '{d.source}'"
        raise UndecidedError(
            f"{step}: whether it keeps the order of {two} cannot be decided.",
            "; ".join([f"both access '{d.array}', and {why}", *hosts_obstacle(knl, found[0])]),
            hint=f"{_atomic_hint(knl, d)}keep these statements in their order, {_affine_form(knl, d)}, or state why it "
                 'is legal: assume="..."')
    result = _assumed(knl, step, found, assume)
    clobbered = list(_clobbered(result, found))
    return result if not clobbered else _assumed(result, step, clobbered, assume)


def _atomic_hint(knl: LoopKernel, d: Dependence) -> str:
    """The hint to make two statements atomic that update one array by one operation, or store one number in it."""
    statements = [knl.statement_by_id[x] for x in dict.fromkeys((d.source, d.sink))]
    found = [_free_key(s) for s in statements if s.written == d.array and s.id not in knl.reduction_of]
    if len(found) < len(statements) or len({*found}) > 1 or None in found:
        return ""
    names = [s.id for s in statements]
    return f"if their order does not matter, make_atomic(knl, {repr(names[0]) if len(names) == 1 else names}); else "


def _affine_form(knl: LoopKernel, d: Dependence) -> str:
    """The advice to write ``a[i, j]`` in the place of ``a[i*m + j]``, if *d* has such an access."""
    def fits(domain: InstanceSet, subscript: Expression, size: Expression) -> bool:
        return is_quasi_affine(subscript) and domain.where(("<", subscript)).is_empty() \
            and domain.where((">=", subtract(subscript, size))).is_empty()
    for a in (a for s in (d.source, d.sink) for a in accesses_of(knl, knl.statement_by_id[s]) if a.array == d.array):
        if a.affine or len(a.subscripts) > 1:
            continue
        sizes = [p.Variable(x) for x in sorted(variables(a.subscripts[0]) & knl.value_params)]
        for shape in (s for axes in range(1, 3) for s in permutations(sizes, axes)):
            first, *rest = own = subscripts_at(a.subscripts[0], (1, *shape))
            if is_quasi_affine(first) and all(map(partial(fits, a.domain), rest, shape)):
                return f"write {to_text(element(a.array, own))} in place of {to_text(element(a.array, a.subscripts))}"
    return "rewrite the access in an affine form"


def _free_key(s: Statement) -> str | None:
    """The key of the accesses that *s* makes in any order if it is atomic; ``None``: their order counts."""
    update = update_of(s.assignee, s.expression)
    return update[0] if update is not None else None if variables(s.expression) else f"= {to_text(s.expression)}"


def _assumed(knl: LoopKernel, step: str, found: Sequence[Violation], assume: str | None) -> LoopKernel:
    """*knl* with the pairs of *found* as assumed dependences, and with an obligation for each of *found*."""
    obligations: dict[Obligation, None] = {}
    for v in found:
        d = v.dependence
        what = "value may be lost" if v.reason == "lost" else "order does not matter"
        claim = (f"this {what}: {v.broken(knl).witness()}" if d.exact
                 else f"'{d.source}' and '{d.sink}' never access one element of '{d.array}' in the opposite order")
        obligations[Obligation(step, claim, None if d.exact else assume)] = None

    def bound(known: Sequence[Dependence], _: LoopKernel) -> Iterator[Dependence]:
        for d in known:
            relation = d.relation
            # found by comparison, as isl's relations change their hashes while they are compared
            own = next((v.dependence for v in found if v.dependence == d), None)
            for pairs in (v.pairs for v in found if v.dependence is own):
                relation = relation.subtract(pairs)
                if d.of_value:
                    # an order that only assumed pairs imply is assumed with them
                    chains = joined_by_chains(pairs) if d.exact and d.source == d.sink else pairs
                    yield replace(d, relation=chains, assumed=True)
            if relation is d.relation:
                yield d
            elif not relation.is_empty():
                yield replace(d, relation=relation)
    new = tuple(o for o in obligations if o not in knl.obligations)
    return with_dependences(knl, bound, obligations=(*knl.obligations, *new))


def _clobbered(knl: LoopKernel, found: Sequence[Violation]) -> Iterator[Violation]:
    """The other values of temporaries that are clobbered if the pairs of *found* run in the other order."""
    turned = [replace(v.dependence, relation=v.pairs) for v in found
              if v.reason != "lost" and v.dependence.of_value and v.dependence.exact]
    for array in dict.fromkeys(d.array for d in turned):
        for d, pairs in clobbered_flows(knl, array, [x for x in turned if x.array == array]):
            yield Violation(d, pairs, "lost")


def _sentence(step: str, v: Violation) -> str:
    d = v.dependence
    if v.reason == "blocks":
        return (f"{step} would run '{d.source}' and '{d.sink}' in different blocks at once, although the second "
                "needs the first.")
    what = {"flow": "a value's reader before its writer", "anti": "a write before a read of the old value",
            "output": "two writes of one element in the wrong order",
            "explicit": "two statements against the order that dep= requires"}[d.kind]
    return f"{step} would run {what}, or both at once."


def hosts_obstacle(knl: LoopKernel, v: Violation) -> list[str]:
    """The reason why the host cannot run the loop that carries a cross-block dependence, as a list of hints."""
    d = v.dependence
    why = obstacle(knl, d.source, meeting_of(execution_paths(knl), d.source, d.sink).loops) \
        if v.reason == "blocks" else None
    return [] if why is None else [f"the host cannot run the loop, one launch an iteration: {why}"]
