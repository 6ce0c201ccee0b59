"""Elements of a loop over a ``vec`` iname that vectors can move, and those that may be loaded beyond the iterations.

A domain may cut lanes off a vector, as at the ends of rows. Nobody computes them. Their elements may be loaded with the
others all the same, where they are in the array.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.legality import iname_range
from loopkit.analysis.ranges import constant_range
from loopkit.analysis.shapes import Shape
from loopkit.ast.nodes import AlignedArray, Assign, Assumed, DivisibleSize, For
from loopkit.expr.mappers import children, subexpressions, substitute, variables
from loopkit.instructions.vector_access import WIDEST, Vector, certain_elements
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import is_unrolled
from loopkit.lowering.guard_folding import unless
from loopkit.poly.affine import (
    NotAffineError,
    add,
    affine_difference,
    multiply,
    readable_comparison,
    remainder,
    subtract,
)
from loopkit.poly.piecewise import is_multiple, known_remainder, params_where
from loopkit.poly.sets import InstanceSet, params_of

Names = Mapping[str, Expression]

#: Elements of one access, the widest first.
LENGTHS = (16, 8, 4, 2)

_OPPOSITE = {"<": ">=", ">": "<=", ">=": "<"}


@dataclass(frozen=True)
class CutLanes:
    """The lanes *low* to *high* of a statement along *iname*, of which *domain* has not all.

    :ivar vectors: the places at which it has one at least.
    """

    iname: str
    low: int
    high: int
    domain: InstanceSet
    vectors: InstanceSet

    def are_cut(self, given: Sequence[DivisibleSize]) -> bool:
        """Is a lane missing somewhere, although *given* holds?"""
        x = p.Variable(self.iname)
        lanes = self.vectors.onto(self.domain.inames).where((">=", subtract(x, self.low)),
                                                            ("<=", subtract(x, self.high)))
        return not lanes.subtract(self.domain).where(*_conditions(given)).is_empty()

    def lie_in(self, extent: Expression, first: Expression, last: Expression, given: Sequence[DivisibleSize]) -> bool:
        """Is every vector from the subscript *first* to *last* in an axis of *extent* elements, if *given* holds?"""
        return all(self.have_none(*_conditions(given), beyond)
                   for beyond in (("<", first), (">=", subtract(last, extent))))

    def have_none(self, *conditions: tuple[str, Expression], where: Sequence[Expression] = ()) -> bool:
        """Is there no vector at which all *conditions* hold, among those at which what is affine of *where* does?"""
        places = self.places(*conditions, where=where)
        return places is not None and places.is_empty()

    def places(self, *conditions: tuple[str, Expression], where: Sequence[Expression] = ()) -> InstanceSet | None:
        """The vectors at which all *conditions* hold, and what is affine of *where*, as parameters.

        ``None`` if a condition is no affine form.
        """
        try:
            places = InstanceSet((), params_of(self.vectors).from_params()).where(*conditions)
        except NotAffineError:
            return None
        for condition in where:
            if places.is_empty():
                break
            with suppress(NotAffineError):
                places = places.intersect_params(params_where(condition))
        return places


def lanes_of(knl: LoopKernel, domain: InstanceSet, iname: str) -> CutLanes | None:
    """The lanes of *domain* along *iname*, if they are some constant number; ``None`` also where none is cut off."""
    low, high = constant_range(knl, domain, iname)
    if low is None or high is None:
        return None
    domain = domain.intersect_params(knl.assumptions)
    lanes = CutLanes(iname, low, high, domain, domain.onto([x for x in domain.inames if x != iname]))
    return lanes if lanes.are_cut(()) else None


def _conditions(given: Sequence[DivisibleSize]) -> list[tuple[str, Expression]]:
    return [("==", remainder(g.size, g.divisor)) for g in given]


@dataclass(frozen=True)
class ArrayMemory:
    """The memory of an array; what is private lies in registers anyway and has none.

    :ivar most: so many elements at a multiple of that lie side by side.
    """

    dtype: np.dtype
    shape: Shape
    space: AddressSpace
    argument: bool = False
    most: int = LENGTHS[0]


@dataclass(frozen=True)
class Elements:
    """The facts about the elements of one launch.

    :ivar sizes: the integer arguments, which a call's text is chosen by.
    :ivar written: the arrays that the launch writes.
    :ivar where: the conditions that hold.
    """

    kernel: LoopKernel
    places: Mapping[str, ArrayMemory]
    sizes: frozenset[str]
    written: frozenset[str]
    where: tuple[Expression, ...]

    def vector(self, loop: For, element: p.Subscript, names: Names) -> Vector | None:
        """*element* as a vector with the most elements an access, if it is one."""
        vector = Vector("", element, 0, loaded=False, stored=False)
        place = self.places.get(vector.array)
        if place is None or not _moves_by_one(element, loop.iname):
            return None
        first = vector.at(loop.iname, loop.start)
        for length in LENGTHS:
            if len(_trips(loop)) % length == 0 and length * place.dtype.itemsize <= WIDEST and length <= place.most:
                assumed = self._assumed(place, first, length, names)
                if assumed is None:
                    assumed = self._counted(place, first, length, names)
                if assumed is not None:
                    return replace(vector, length=length, assumed=assumed)
        return None

    def beside(self, loop: For, element: p.Subscript, names: Names, cut: CutLanes, others: Sequence[Vector]
                ) -> Iterator[Vector]:
        """Vectors with what *element* is along *loop*, which begins at no multiple itself.

        One lies before it and one behind it; what is only one lane of *element* is left to a load of its own. They are
        loaded whole, wherever they lie in their array, and ask nothing of a call but what *others* do.
        """
        count = len(_trips(loop))
        given = {a for v in others for a in v.assumed}
        *rows, last = element.index_tuple
        found: dict[int, Vector] = {}
        for by in (*range(2 - count, 0), *range(1, count - 1)):
            vector = self.vector(loop, p.Subscript(element.aggregate, (*rows, add(last, by))), names)
            if vector is not None:
                found[by] = replace(vector, loaded=True, serves=element)
        longest = max((v.length for v in found.values()), default=0)
        for ahead in (False, True):
            near = min((by for by, v in found.items() if v.length == longest and (by > 0) == ahead), key=abs, default=0)
            whole = self.whole(found[near], loop, names, cut) if near else None
            if whole is not None and given.issuperset(whole.assumed):
                yield whole

    def whole(self, vector: Vector, loop: For, names: Names, cut: CutLanes) -> Vector | None:
        """*vector*, if all of it lies in its array wherever one lane is in, and nobody writes it in this launch.

        Rows of an array with several axes begin at multiples of a vector. If their length is a size, it is assumed to
        be such a multiple, too, as it is in an array without gaps between rows.
        """
        place = self.places[vector.array]
        extent = place.shape[-1]
        if not place.argument or vector.array in self.written or extent is None:
            return None
        if any(map(anywhere, vector.assumed)):
            return self._overlapping(vector, loop, names, cut)
        first, last = (substitute(index[-1], names) for index in _ends(vector, loop))
        choices: list[tuple[DivisibleSize, ...]] = [()]
        if len(place.shape) > 1 and isinstance(extent, p.Variable) and extent.name in self.sizes:
            choices.append((DivisibleSize(extent, vector.length),))
        given = next((g for g in choices if cut.lie_in(extent, first, last, g)), None)
        return None if given is None else replace(vector, assumed=(*vector.assumed, *given))

    def _overlapping(self, vector: Vector, loop: For, names: Names, cut: CutLanes) -> Vector | None:
        """*vector* with where all of it lies in its array, whose rows follow each other: it may overlap the next ones.

        So nothing is asked but in the first row and in the last. A vector that is longer than a row is none.
        """
        shape = self.places[vector.array].shape
        extent = shape[-1]
        if extent is None:
            return None
        first, last = _ends(vector, loop)
        ends = [(k, e) for k, e in enumerate(shape[:-1]) if e is not None]
        before = [*((first[k], ">", 0) for k, _ in ends), (first[-1], ">=", 0)]
        behind = [*((last[k], "<", subtract(e, 1)) for k, e in ends), (last[-1], "<", extent)]
        low, high = (substitute(index[-1], names) for index in (first, last))
        if not all(cut.have_none(beyond, where=self.where)
                   for beyond in (("<", add(low, extent)), (">=", subtract(high, multiply(2, extent))))):
            return None
        parts: list[Expression] = []
        for inside in (before, behind):
            missed = cut.places(*((_OPPOSITE[op], subtract(substitute(a, names), b)) for a, op, b in inside),
                                where=self.where)
            if missed is None:
                return None
            if not missed.is_empty():
                found = tuple(readable_comparison(a, op, b) for a, op, b in inside)
                whole = found[0] if len(found) == 1 else p.LogicalOr(found)
                parts.append(unless(whole, params_of(missed), self._iterations(variables(whole))))
        if not parts:
            return vector
        return replace(vector, inside=parts[0] if len(parts) == 1 else p.LogicalAnd(tuple(parts)))

    def _iterations(self, inames: AbstractSet[str]) -> dict[str, tuple[int, int]]:
        """The ranges of those *inames* whose loops are unrolled."""
        found = {x: iname_range(self.kernel, x) for x in inames if is_unrolled(self.kernel.tags.get(x))}
        return {x: (low, low + extent - 1) for x, (low, extent) in found.items() if isinstance(low, int) and extent}

    def _counted(self, place: ArrayMemory, first: p.Subscript, length: int, names: Names) -> tuple[Assumed, ...] | None:
        """The assumptions under which *first* lies at a multiple of *length* although not each row does."""
        assert isinstance(first.aggregate, p.Variable)
        rests = [known_remainder(extent, length, self.kernel.assumptions) for extent in place.shape[1:]]
        if not any(rests) or None in rests:
            return None
        number: Expression = 0
        for rest, index in zip((0, *rests), first.index_tuple, strict=True):
            assert rest is not None
            number = add(multiply(rest, number), substitute(index, names))
        if not is_multiple(_remainder(number, length), length):
            return None
        if not place.argument:
            return ()
        extents = [extent for extent in reversed(place.shape[1:]) if extent is not None]
        strides = tuple(accumulate(extents, lambda stride, extent: multiply(extent, stride)))
        return (AlignedArray(first.aggregate.name, length, strides[::-1]),)

    def _assumed(self, place: ArrayMemory, first: p.Subscript, length: int, names: Names) -> tuple[Assumed, ...] | None:
        """The assumptions under which *first* lies at a multiple of *length*; ``None`` if there are none."""
        assert isinstance(first.aggregate, p.Variable)
        result: list[Assumed] = [AlignedArray(first.aggregate.name, length)] if place.argument else []
        offsets: list[Expression] = [substitute(first.index_tuple[-1], names)]
        if len(place.shape) > 1:
            row = place.shape[-1]
            # the strides of an argument are looked at themselves
            if row is None or (place.argument and not isinstance(row, int)):
                row = 0
            offsets.append(row)
        for offset in offsets:
            rest = _remainder(offset, length)
            if isinstance(rest, int):
                if rest:
                    return None
            elif variables(rest) <= self.sizes:
                result.append(DivisibleSize(rest, length))
            else:
                return None
        return tuple(result)

    def may_compute_all(self, loop: For, assign: Assign, vectors: Sequence[Vector], names: Names, cut: CutLanes
                        ) -> bool:
        """Is all that any iteration of *loop* reads in inputs without gaps, and what it computes stored by a vector?"""
        gapless = {v.array: v.assumed for v in vectors if any(map(anywhere, v.assumed))}
        if assign.combine is not None or not any(v.stored and not v.loaded for v in vectors) \
                or any(v.inside is not None for v in vectors) or not _is_harmless(assign.value):
            return False
        for element in certain_elements(assign.value):
            read = Vector("", element, 1, loaded=True, stored=False)
            place = self.places.get(read.array)
            if place is None or place.dtype.kind not in "fc" or read.array not in gapless \
                    or read.array in self.written or not _moves_by_one(element, loop.iname):
                return False
            for index, extent in zip(element.index_tuple[:-1], place.shape, strict=False):
                value = substitute(index, names)
                if extent is None or not all(cut.have_none(beyond, where=self.where)
                                             for beyond in (("<", value), (">=", subtract(value, extent)))):
                    return False
            whole = self._overlapping(replace(read, assumed=gapless[read.array]), loop, names, cut)
            if whole is None or whole.inside is not None:
                return False
        return True


def anywhere(assumed: Assumed) -> bool:
    """Do rows of the array begin at no multiples of a vector?"""
    return isinstance(assumed, AlignedArray) and bool(assumed.strides)


def _is_harmless(value: Expression) -> bool:
    """May *value* be computed of any numbers? It is made of sums, products and elements at known places."""
    match value:
        case p.Sum() | p.Product():
            return all(map(_is_harmless, value.children))
        case p.Subscript():
            return not any(isinstance(e, p.Subscript) for i in value.index_tuple for e in subexpressions(i))
        case _:
            return not children(value) and not isinstance(value, p.Variable)


def are_close(element: p.Subscript, other: p.Subscript, loop: For) -> bool:
    """Is some of *element* along *loop* some of *other*, which is in the same row of the same array?"""
    if element.aggregate != other.aggregate or element.index_tuple[:-1] != other.index_tuple[:-1]:
        return False
    by = affine_difference(element.index_tuple[-1], other.index_tuple[-1])
    return by is not None and abs(by) < len(_trips(loop))


def _trips(loop: For) -> range:
    """The values of the variable of *loop*, which has a constant trip count."""
    assert isinstance(loop.start, int)
    assert isinstance(loop.stop, int)
    return range(loop.start, loop.stop)


def _ends(vector: Vector, loop: For) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    """The subscripts of *vector* in the first iteration of *loop* and in the last one."""
    trips = _trips(loop)
    return vector.at(loop.iname, trips.start).index_tuple, vector.at(loop.iname, trips.stop - 1).index_tuple


def _moves_by_one(element: p.Subscript, iname: str) -> bool:
    """Does the next value of *iname* have the next element of the same row?"""
    *rows, last = element.index_tuple
    if any(iname in variables(i) for i in rows) or iname not in variables(last):
        return False
    following = substitute(last, {iname: p.Sum((p.Variable(iname), 1))})
    return affine_difference(following, last) == 1


def _remainder(offset: Expression, length: int) -> Expression:
    """The part of *offset* that is no multiple of *length*."""
    total = add(offset)
    rest: list[Expression] = []
    for term in total.children if isinstance(total, p.Sum) else (total,):
        match term:
            case int():
                rest.append(term % length)
            case p.Product(children=(int() as factor, *others)):
                rest.append(multiply(factor % length, others[0] if len(others) == 1 else p.Product(tuple(others))))
            case _:
                rest.append(term)
    return add(*rest)
