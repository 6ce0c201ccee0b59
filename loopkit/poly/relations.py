"""Access and dependence relations between anonymous instance spaces, and lexicographic time order."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import islice

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import DIM, _aff, names_in, set_space, to_int
from loopkit.poly.limits import affordable, coalesced, without_empty_pieces
from loopkit.poly.sets import InstanceSet, T, checker, constant_range, fix_params, params_of, points_in_order, to_param

#: One shared loop as (dimension of the source, dimension of the sink).
SharedLoop = tuple[int, int]

#: A function that restricts pairs to those with an order of two of their dimensions.
Order = Callable[[isl.Map, isl.dim_type, int, isl.dim_type, int], isl.Map]

#: Values of the parameters, of the source's inames, and of the sink's.
SmallestPair = tuple[dict[str, int], dict[str, int], dict[str, int]]


@lru_cache(maxsize=65536)
def subscript_relation(inames: tuple[str, ...], subscripts: tuple[Expression, ...]) -> isl.Map:
    """``{ [inames] -> [subscripts] }``; :raises NotAffineError: a subscript is not quasi-affine."""
    params = tuple(sorted(set().union(*map(names_in, subscripts)).difference(inames)))
    space = isl.Space.from_domain(set_space(params, inames)).add_dims(DIM.out, len(subscripts))
    if not subscripts:
        return isl.Map.universe(space)
    affs = isl.AffList.alloc(isl.DEFAULT_CONTEXT, len(subscripts))
    for s in subscripts:
        affs = affs.add(_aff(s, inames, params))
    return isl.Map.from_multi_aff(isl.MultiAff.from_aff_list(space, affs))


def same_element(source: isl.Map, sink: isl.Map) -> isl.Map:
    """Pairs (source instance, sink instance) that access one element."""
    return source.apply_range(sink.reverse())


def identity_on(source: InstanceSet, sink: InstanceSet, shared: Sequence[str]) -> isl.Map:
    """Pairs of instances of two statements that agree in the inames *shared*."""
    names = tuple(map(p.Variable, shared))
    first, second = (subscript_relation(d.inames, names) for d in (source, sink))
    sources, sinks = first.intersect_domain(source.set), second.intersect_domain(sink.set)
    # where each instance of one has its partners, those are the pieces of the other: there is nothing to cut
    if len(source.inames) == len(shared) and source.set.n_basic_set() > 1 and sinks.range().is_subset(sources.range()):
        return same_element(first, sinks)
    if len(sink.inames) == len(shared) and sink.set.n_basic_set() > 1 and sources.range().is_subset(sinks.range()):
        return same_element(sources, second)
    return same_element(sources, sinks)


def by_first_difference(pairs: isl.Map, shared: Sequence[SharedLoop], order: Order = isl.Map.order_lt
                        ) -> Iterator[isl.Map]:
    """For each of the *shared* loops: the *pairs* that agree in those around it and whose source is earlier in it (or
    in another *order*); last, the pairs within one iteration of all."""
    for a, b in shared:
        yield order(pairs, DIM.in_, a, DIM.out, b)
        pairs = pairs.equate(DIM.in_, a, DIM.out, b)
    yield pairs


def in_time_order(pairs: isl.Map, shared: Sequence[SharedLoop], before: bool) -> isl.Map:
    """The *pairs* whose source runs before their sink; *before*: textually, in one iteration of the *shared* loops."""
    *earlier, within = by_first_difference(pairs, shared)
    return coalesced(reduce(isl.Map.union, [*earlier, *([within] if before else [])],
                            isl.Map.empty(pairs.get_space())))


def out_of_time_order(pairs: isl.Map, shared: Sequence[SharedLoop], before: bool) -> isl.Map | None:
    """The *pairs* whose source does not run before their sink; ``None`` if there are none."""
    *later, within = by_first_difference(pairs, shared, isl.Map.order_gt)
    return union_of_some([*later, *([] if before else [within])])


def union_of_some(parts: Sequence[T]) -> T | None:
    """The union of those of *parts*, sets or relations, that are not empty; ``None`` if all are."""
    some = [part for part in parts if not part.is_empty()]
    return union_of(some) if some else None


def union_of(parts: Sequence[T]) -> T:
    """The union of all *parts*, one at least: half by half, as isl copies both of two sets that it unites."""
    middle = len(parts)//2
    return union_of(parts[:middle]).union(union_of(parts[middle:])) if middle else parts[0]


def in_one_iteration(pairs: isl.Map, shared: Sequence[SharedLoop]) -> isl.Map:
    """The *pairs* that agree in all shared loops."""
    for a, b in shared:
        pairs = pairs.equate(DIM.in_, a, DIM.out, b)
    return pairs


def differing_first_at(pairs: isl.Map, shared: Sequence[SharedLoop], level: int) -> isl.Map:
    """The *pairs* that agree in the first *level* shared loops and whose source is earlier in the next one."""
    return next(islice(by_first_difference(pairs, shared), level, None))


def neighbouring(pairs: isl.Map, loop: SharedLoop) -> isl.Map:
    """The *pairs* whose sink is one iteration of *loop* after its source."""
    step = isl.Constraint.equality_alloc(isl.LocalSpace.from_space(pairs.get_space())).set_constant_val(-1)
    return pairs.add_constraint(
        step.set_coefficient_val(DIM.out, loop[1], 1).set_coefficient_val(DIM.in_, loop[0], -1))


def at_one_point(pairs: isl.Map, shared: Sequence[SharedLoop], names: Sequence[str]) -> isl.Map:
    """The *pairs* that agree in the *shared* dimensions; these become parameters called *names*."""
    pairs = in_one_iteration(pairs, shared)
    for _, b in sorted(shared, key=lambda dims: -dims[1]):
        pairs = pairs.project_out(DIM.out, b, 1)
    for (a, _), name in sorted(zip(shared, names, strict=True), key=lambda item: -item[0][0]):
        pairs = to_param(pairs, a, name, DIM.in_)
    return pairs


def with_same_dims(pairs: isl.Map, names: Sequence[str]) -> isl.Map:
    """*pairs* where the parameters *names* are the first dimensions of both instances."""
    for i, name in enumerate(names):
        pairs = pairs.insert_dims(DIM.in_, i, 1).insert_dims(DIM.out, i, 1)
        if (at := pairs.find_dim_by_name(DIM.param, name)) >= 0:
            pairs = pairs.equate(DIM.param, at, DIM.in_, i).project_out(DIM.param, at, 1)
        pairs = pairs.equate(DIM.in_, i, DIM.out, i)
    return pairs


def carry(relation: isl.Map, source: isl.Map | None, sink: isl.Map | None) -> isl.Map:
    """The dependence *relation* after its instances moved along *source* and *sink* (``None``: stayed)."""
    if source is not None:
        relation = relation.apply_domain(source)
    if sink is not None:
        relation = relation.apply_range(sink)
    return relation


def smallest_pair(pairs: isl.Map, source: tuple[str, ...], sink: tuple[str, ...], parameters: Sequence[str] = ()
                  ) -> SmallestPair:
    """The smallest (parameters, source inames, sink inames) of a non-empty relation; see :func:`points_in_order`."""
    return next(pairs_in_order(pairs, source, sink, parameters))


def pairs_in_order(pairs: isl.Map, source: tuple[str, ...], sink: tuple[str, ...], parameters: Sequence[str]
                   ) -> Iterator[SmallestPair]:
    """The pairs from :func:`smallest_pair` on, each the smallest of those after the one before it."""
    n, m = len(source), len(sink)
    flat = pairs.move_dims(DIM.in_, n, DIM.out, 0, m).domain()
    for params, values in points_in_order(flat, tuple(map(str, range(n + m))), parameters):
        point = tuple(values.values())
        yield params, dict(zip(source, point[:n], strict=True)), dict(zip(sink, point[n:], strict=True))


def element_at(relation: isl.Map, params: Mapping[str, int], point: Sequence[int]) -> tuple[int, ...]:
    """The one image of *point* under an access relation with its parameters fixed."""
    image = at_sink(relation.reverse(), params, point).domain().sample_point()
    return tuple(to_int(image.get_coordinate_val(DIM.set, i)) for i in range(relation.dim(DIM.out)))


def at_sink(pairs: isl.Map, params: Mapping[str, int], point: Sequence[int]) -> isl.Map:
    """The *pairs* whose sink is *point*, with their parameters fixed."""
    for i, value in enumerate(point):
        pairs = pairs.fix_val(DIM.out, i, value)
    return fix_params(pairs, params)


def apart_along(pairs: isl.Map, dim: int) -> tuple[isl.Map, isl.Map]:
    """The *pairs* whose source has the lesser value of *dim*, and those whose sink has it."""
    return pairs.order_lt(DIM.in_, dim, DIM.out, dim), pairs.order_gt(DIM.in_, dim, DIM.out, dim)


def differing(pairs: isl.Map, shared: Sequence[SharedLoop]) -> isl.Map | None:
    """The *pairs* that differ in one of the *shared* dimensions; ``None`` if there are none."""
    return union_of_some([order(pairs, DIM.in_, a, DIM.out, b) for a, b in shared
                           for order in (isl.Map.order_lt, isl.Map.order_gt)])


def distances(pairs: isl.Map, shared: Sequence[SharedLoop]) -> list[tuple[int | None, int | None]] | None:
    """For each of the *shared* loops the least and the greatest distance from source to sink, where it is bounded.

    ``None``: isl gave up.

    >>> distances(isl.Map("[n] -> { [i, j] -> [i + 1, k] : 0 <= i < n and k >= j }"), [(0, 0), (1, 1)])
    [(1, 1), (0, None)]
    """
    def found() -> list[tuple[int | None, int | None]] | None:
        apart = only_dims(pairs, [a for a, _ in shared], [b for _, b in shared]).deltas()
        return [constant_range(apart, i) for i in range(len(shared))]
    return affordable(found, otherwise=None)


def injective_given(relation: isl.Map, domain: InstanceSet, given: Sequence[int]) -> bool:
    """Do instances of *domain* that agree in the dimensions *given* and in their image under *relation* coincide?"""
    plain = _at_given(relation, given)      # most are injective on all points: one test
    return bool(plain.is_injective()) or bool(_at_given(relation.intersect_domain(domain.set), given).is_injective())


def _at_given(relation: isl.Map, given: Sequence[int]) -> isl.Map:
    """*relation* with its dimensions *given* as parameters: isl need not compare them then."""
    for i in sorted(set(given), reverse=True):
        relation = to_param(relation, i, f"given{i}'", DIM.in_)
    return relation


def joined_by_chains(pairs: isl.Map) -> isl.Map:
    """*pairs* of one statement's instances, and the first and last of each chain of them, if isl finds these."""
    chains, exact = affordable(without_empty_pieces(pairs).transitive_closure, otherwise=(pairs, False))
    return chains if exact else pairs


def other_instance(pairs: isl.Map) -> isl.Map:
    """The *pairs* of two different instances of one statement."""
    return pairs.subtract(isl.Map.identity(pairs.get_space()))


def only_dims(pairs: isl.Map, source: Sequence[int], sink: Sequence[int]) -> isl.Map:
    """*pairs* by some of their dimensions, in this order: *source* of the first instance, *sink* of the second."""
    for kind, kept, apply in ((DIM.in_, source, isl.Map.apply_domain), (DIM.out, sink, isl.Map.apply_range)):
        names = tuple(f"x{i}" for i in range(pairs.dim(kind)))
        pairs = apply(pairs, subscript_relation(names, tuple(p.Variable(names[i]) for i in kept)))
    return pairs


def shared_dims(first: Sequence[str], second: Sequence[str], names: Sequence[str]) -> list[SharedLoop]:
    """The dimensions *names* in two lists of them, those that both have."""
    return [(first.index(x), second.index(x)) for x in names if x in first and x in second]


def pair_test(relation: isl.Map, values: Mapping[str, int]) -> Callable[[Sequence[int], Sequence[int]], bool]:
    """A function that returns whether two points are a pair of *relation* at the parameter *values*."""
    n, m = relation.dim(DIM.in_), relation.dim(DIM.out)
    names = (*(f"s{i}" for i in range(n)), *(f"t{i}" for i in range(m)))
    flat = fix_params(relation, values).move_dims(DIM.in_, n, DIM.out, 0, m).domain()
    tests = [checker(params_of(InstanceSet(names, isl.Set.from_basic_set(piece)))) for piece in flat.get_basic_sets()]

    def test(source: Sequence[int], sink: Sequence[int]) -> bool:
        point = dict(zip(names, (*source, *sink), strict=True))
        return any(t(point) is None for t in tests)
    return test
