"""The smallest witness: a check collects all pairs that a step would break, and its error shows the smallest.

Pairs compare by parameters in argument order (0 if irrelevant), then by the first instance (its statement's place in
the text, then its inames), then by the second.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_to, data_params, expand_rules, expanded_expression, references
from loopkit.errors import IllegalTransformError, UndecidedError, Witness
from loopkit.expr.evaluate import known_value
from loopkit.expr.mappers import variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, Statement, writing_ends
from loopkit.poly.limits import kept
from loopkit.poly.relations import SmallestPair, element_at, pairs_in_order, smallest_pair
from loopkit.poly.sets import Map, Set, range_condition

#: The key by which pairs of instances are compared.
Size = tuple[object, ...]

#: The element that a witness shows, of its parameters and the inames of its two instances.
Element = Callable[[dict[str, int], dict[str, int], dict[str, int]], tuple[int, ...] | None]


def element_of(relation: Map, *, source: bool = False) -> Element:
    """The element that *relation* gives the second instance; or, of the *source*, the first."""
    return lambda params, first, second: element_at(relation, params, tuple((first if source else second).values()))


def shared_element(knl: LoopKernel, array: str, kind: str, source: str, sink: str) -> Element:
    """The element of *array* that two instances of statements of *knl* both access."""
    def element(params: dict[str, int], first: dict[str, int], second: dict[str, int]) -> tuple[int, ...] | None:
        own, other = (_elements_at(knl, s, at, array, is_write, params) for s, at, is_write in zip(
            (source, sink), (first, second), writing_ends(kind), strict=True))
        return next((e for e in own if e in other), None)
    return element


@dataclass(frozen=True)
class BrokenPairs:
    """Pairs of instances, at least one, whose order or value flow is broken.

    :ivar knl: a kernel that has the statements *source* and *sink*.
    :ivar pairs: from inames of *source* to inames of *sink*; if *alone*, from the point without coordinates to those
        of *sink*.
    :ivar kind: as in :class:`loopkit.errors.Witness`.
    """

    knl: LoopKernel
    source: str
    sink: str
    pairs: Map
    array: str
    kind: str
    element: Element | None = None
    alone: bool = False

    @classmethod
    def of_points(cls, knl: LoopKernel, source: str, sink: str, points: Set, array: str, kind: str = "missing",
                  element: Element | None = None) -> BrokenPairs:
        """Single instances of *sink* that have no value from *source*."""
        return cls(knl, source, sink, Map.from_range(points), array, kind, element, alone=True)

    @classmethod
    def on_one_element(cls, knl: LoopKernel, array: str, kind: str, source: str, sink: str, pairs: Map) -> BrokenPairs:
        """Pairs that access one element of *array* in *knl*."""
        return cls(knl, source, sink, pairs, array, kind, shared_element(knl, array, kind, source, sink))

    @property
    def smallest(self) -> SmallestPair:
        """The smallest of the pairs."""
        knl = self.knl
        source = () if self.alone else knl.statement_by_id[self.source].inames
        sink = knl.statement_by_id[self.sink].inames
        # statements of one instance set share their relations; the first of each entry keeps its id alive
        return kept(knl.memo.setdefault("smallest_pairs", {}), (id(self.pairs), source, sink),
                    lambda: (self.pairs, smallest_pair(self.pairs, source, sink, parameters_of(knl))))[1]

    def size(self, pair: SmallestPair | None = None) -> Size:
        """The key by which broken pairs are compared: that of *pair*, by default of the smallest."""
        places = kept(self.knl.memo, "places", lambda: {s.id: i for i, s in enumerate(self.knl.statements)})
        params, first, second = pair or self.smallest
        return ([params.get(x, 0) for x in parameters_of(self.knl)], -1 if self.alone else places.get(self.source, -1),
                *first.values(), places[self.sink], *second.values())

    def witness(self, pair: SmallestPair | None = None) -> Witness:
        """That of *pair*, by default of the smallest."""
        params, first, second = pair or self.smallest
        element = None if self.element is None else self.element(params, first, second)
        return Witness(params, (self.source, first), (self.sink, second), self.array, element, self.kind)


@dataclass(frozen=True)
class Refusal:
    """The refusal of a step because of *broken* pairs.

    :ivar sentence: the effect of the step.
    :ivar after: the kernel that the step would have made.
    :ivar doubt: the reason why a pair may not be broken; ``None``: every pair is.
    """

    broken: BrokenPairs
    sentence: str
    hints: Sequence[str] = ()
    after: LoopKernel | None = None
    doubt: str | None = None


def refuse_smallest(found: Iterable[Refusal], undecided: str) -> None:
    """Raise the error of the smallest pair of *found*, if it has any.

    :arg undecided: the subject of the error if every pair is in doubt.
    :raises IllegalTransformError: a pair is broken.
    :raises UndecidedError: all pairs are in doubt.
    """
    refusals = [r for r in found if not r.broken.pairs.is_empty()]
    sure = [r for r in refusals if r.doubt is None]
    if sure:
        least = min(sure, key=lambda r: r.broken.size())
        raise IllegalTransformError(least.sentence, least.broken.witness(), least.hints, after=least.after)
    if refusals:
        raise UndecidedError(f"{undecided} cannot be decided.", str(refusals[0].doubt),
                             hint="leave this statement out with within=, or write its subscripts and conditions in "
                                  "an affine form")


def parameters_of(knl: LoopKernel) -> tuple[str, ...]:
    """The names of possible parameters, in the order in which their values are compared."""
    return tuple(a.name for a in knl.arguments)


@dataclass(frozen=True)
class Violation:
    """Pairs of a dependence that the order breaks.

    :ivar reason: ``"order"`` (the sink may run first), ``"blocks"`` (they run in different blocks of one launch, and
        no launch can end between them), or ``"lost"`` (no storage keeps the value from the source to the sink).
    :ivar placed: the blocks in which the two run are known; else a pair may be in one block.
    """

    dependence: Dependence
    pairs: Map
    reason: str
    placed: bool = True

    @property
    def exact(self) -> bool:
        """Is each of the pairs really broken?"""
        return self.dependence.exact and self.placed

    def broken(self, knl: LoopKernel) -> BrokenPairs:
        d = self.dependence
        return BrokenPairs.on_one_element(knl, d.array, d.kind, d.source, d.sink, self.pairs)


#: The greatest number of pairs of instances that are evaluated to find whether they access one element.
_MOST_TRIED = 64


def smallest_violation(knl: LoopKernel, found: Sequence[Violation], doubtful: Sequence[Violation]
                       ) -> tuple[Violation, Witness]:
    """The violation with the smallest pair of instances, and its witness.

    :arg doubtful: violations whose pairs may not be broken, as a subscript or condition is not affine. Their smaller
        pairs are evaluated one by one; if these are too many, the witness states that it may not be the smallest.
    """
    least = min(found, key=lambda v: v.broken(knl).size())
    broken = least.broken(knl)
    pair, limit, open_from = broken.smallest, broken.size(), list[Size]()
    for v in doubtful:
        other = v.broken(knl)
        if other.size() < limit:
            smaller, left = _first_true(other, limit, v.dependence.of_value)
            open_from += [] if left is None else [left]
            if smaller is not None:
                least, broken, pair, limit = v, other, smaller, other.size(smaller)
    return least, replace(broken.witness(pair), smallest=all(left >= limit for left in open_from))


def _first_true(broken: BrokenPairs, limit: Size, of_value: bool) -> tuple[SmallestPair | None, Size | None]:
    """The smallest pair below *limit* that is broken whatever the data, and the size from which pairs are not tried.

    The second is ``None`` if no other pair below *limit* is broken whatever the data.
    """
    knl, pairs = broken.knl, broken.pairs
    a, b = knl.statement_by_id[broken.source], knl.statement_by_id[broken.sink]
    for x in sorted(knl.value_params & (_names(knl, a) | _names(knl, b))):
        pairs = pairs.intersect_params(range_condition(x, 0))  # their elements depend on it, though no relation has it
    independent = False
    for i, pair in enumerate(pairs_in_order(pairs, a.inames, b.inames, parameters_of(knl))):
        size = broken.size(pair)
        if size >= limit:
            break
        params, at_source, at_sink = pair
        ends = zip((a, b), (at_source, at_sink), writing_ends(broken.kind), strict=True)
        first, second = (accesses_at(knl, s, broken.array, {**params, **at}, is_write=writes) for s, at, writes in ends)
        if first is not None and second is not None:
            if first & second - {None}:
                # another write of the temporary may come between the two
                return (None, size) if of_value else (pair, None)
            independent = independent or {None} not in (first, second)
        if i == _MOST_TRIED:
            return None, size if independent else None      # else data decides about all pairs
    return None, None


def _names(knl: LoopKernel, s: Statement) -> frozenset[str]:
    """The names on which the elements and conditions of an instance of *s* depend."""
    return frozenset().union(*map(variables, (s.assignee, expanded_expression(knl, s), *s.predicates)))


def _elements_at(knl: LoopKernel, statement: str, point: dict[str, int], array: str, is_write: bool,
                 params: dict[str, int]) -> list[tuple[int, ...]]:
    # a parameter without a value does not matter
    at = {**dict.fromkeys(knl.value_params, 0), **params, **point}
    found = accesses_at(knl, knl.statement_by_id[statement], array, at, is_write=is_write)
    if found is not None:
        return sorted(element for element in found if element is not None)
    return [element_at(a.subscript_relation, params, tuple(point.values()))
            for a in accesses_to(knl, statement, array, is_write=is_write) if a.affine]


def accesses_at(knl: LoopKernel, statement: Statement, array: str, point: Mapping[str, int], *, is_write: bool
                ) -> frozenset[tuple[int, ...] | None] | None:
    """The elements of *array* that one instance of *statement* writes (or reads, if not *is_write*), by evaluation.

    An element that depends on data is ``None``. Subscripts and conditions need not be affine. Empty if a condition of
    the statement fails; ``None`` if data decides whether the instance runs.

    :arg point: the values of parameters and inames.
    """
    if data_params(knl, statement.domain):
        return None
    predicates = [expand_rules(e, knl.substitutions) for e in statement.predicates]
    holds = [known_value(e, point) for e in predicates]
    if 0 in holds or None in holds:
        return frozenset() if 0 in holds else None

    def element(subscripts: tuple[Expression, ...]) -> tuple[int, ...] | None:
        values = [known_value(s, point) for s in subscripts]
        known = tuple(v for v in values if v is not None)
        return known if len(known) == len(values) else None

    def branch(condition: Expression, runs: bool | None, wanted: bool) -> bool | None:
        value = known_value(condition, point)
        return runs and (None if value is None else bool(value) is wanted)
    start: bool | None = True
    own = {element(statement.subscripts)} if statement.written == array and (is_write or statement.combine) else set()
    return frozenset(own if is_write else own.union(
        element(at) if runs else None for e in (*predicates, expanded_expression(knl, statement), *statement.subscripts)
        for name, at, runs in references(e, start, branch) if name == array and runs is not False))
