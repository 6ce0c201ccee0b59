"""Elements that a vector access can move in a loop over a ``vec`` iname, also those of partial vectors.

A partial vector has elements outside of the domain, for example at the end of a row. They are never stored,
and computed only if that is harmless. A vector access may load them with the others if they are in the array.
"""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.ranges import constant_range, iname_range
from loopkit.analysis.shapes import Shape
from loopkit.ast.assumed import AlignedArray, Assumed, DivisibleSize
from loopkit.ast.nodes import Assign, For
from loopkit.expr.kinds import is_tuple
from loopkit.expr.mappers import children, conjunction, conjuncts, subexpressions, substitute, variables
from loopkit.instructions.base import WIDEST
from loopkit.instructions.vector_access import (
    Vector,
    VectorAccess,
    condition_at,
    copied_element,
    for_all,
    iterations,
    must_read_elements,
    rise,
    slack_rise,
)
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import is_unrolled
from loopkit.lowering.guards import unless
from loopkit.lowering.lowered import PartialVectors
from loopkit.poly.affine import NotAffineError, add, multiply, readable_comparison, remainder, subtract
from loopkit.poly.piecewise import is_affine_condition, known_remainder, params_where
from loopkit.poly.sets import InstanceSet, Set, params_of, range_condition, universe_params

#: Elements of one access, the widest first.
LENGTHS = (16, 8, 4, 2)


def partial_vectors_of(knl: LoopKernel, domain: InstanceSet, iname: str) -> PartialVectors | None:
    """The partial vectors of *domain* along *iname*; ``None``: all are full."""
    low, high = constant_range(knl, domain, iname)
    assert low is not None
    assert high is not None
    domain = domain.intersect_params(knl.assumptions)
    partial = PartialVectors(iname, low, high, domain, domain.onto([x for x in domain.inames if x != iname]))
    return partial if partial.are_partial(()) else None


def known_where(known: Set, condition: Expression) -> Set:
    """*known* where *condition* holds, too, if that is affine."""
    with suppress(NotAffineError):
        return known.intersect(params_where(condition))
    return known


@dataclass(frozen=True)
class ArrayMemory:
    """The memory of an array. Private arrays are in registers and have none.

    :ivar most: the number of elements that are consecutive in memory, from each multiple of it.
    """

    dtype: np.dtype
    shape: Shape
    argument: bool = False
    most: int = LENGTHS[0]


@dataclass(frozen=True)
class Elements:
    """The facts about the elements of one launch.

    :ivar sizes: the integer arguments, by which a call chooses its text.
    :ivar written: the arrays that the launch writes.
    :ivar where: the affine conditions that hold; *names*: the constants in scope.
    """

    kernel: LoopKernel
    places: Mapping[str, ArrayMemory]
    sizes: frozenset[str]
    written: frozenset[str]
    where: Set
    names: Mapping[str, Expression]

    def vector(self, loop: For, element: p.Subscript, most: int = LENGTHS[0]) -> Vector | None:
        """*element* as a vector with the most elements per access; ``None``: no vector access can move it."""
        vector = Vector("", element, 0, loaded=False, stored=False)
        place = self.places.get(vector.array)
        if place is None or is_tuple(place.dtype) or not _moves_by_one(element, loop.iname):
            return None
        first = vector.at(loop.iname, loop.start)
        for length in LENGTHS:
            if len(iterations(loop)) % length == 0 and length * place.dtype.itemsize <= WIDEST \
                    and length <= min(place.most, most):
                assumed = self._assumed(place, first, length)
                if assumed is None:
                    assumed = self._counted(place, first, length)
                if assumed is not None:
                    return replace(vector, length=length, assumed=assumed)
        return None

    def copies(self, loop: For, assign: Assign, sizes: Collection[int]) -> VectorAccess | None:
        """The source and the target of *assign*, a copy, as vectors of one of *sizes* in bytes, the longest.

        If conditions exclude elements, these must be the last ones of a vector.
        """
        copied = copied_element(assign.value)
        if copied is None or not isinstance(assign.target, p.Subscript):
            return None
        element, condition = copied
        for most in LENGTHS:
            source, target = (self.vector(loop, e, most) for e in (element, assign.target))
            if source is None or target is None:
                return None
            if source.length == target.length and source.length*self.places[target.array].dtype.itemsize in sizes:
                ends = replace(source, loaded=True), replace(target, stored=True)
                if condition is None:
                    return VectorAccess(ends)
                return None if source.array in self.written else self._zero_filled(loop, ends, condition)
        return None

    def _zero_filled(self, loop: For, ends: tuple[Vector, Vector], condition: Expression) -> VectorAccess | None:
        """The copies of vectors from one of *ends* to the other with zeros where *condition* fails."""
        length, every = ends[0].length, iterations(loop)
        known = self.where.intersect(self.kernel.assumptions).intersect(
            range_condition(loop.iname, every.start, every.stop - 1)).intersect(
            params_where(p.Comparison(remainder(subtract(p.Variable(loop.iname), every.start), length), "==", 0)))
        needed: list[Expression] = []
        partial: list[Expression] = []
        counts: list[Expression] = [length]
        for part in conjuncts(condition):
            rises = slack_rise(part, loop.iname) if loop.iname in variables(part) else 0
            last = condition_at(part, loop.iname, add(p.Variable(loop.iname), length - 1))
            first, last = (substitute(e, self.names) for e in (part, last))
            if not is_affine_condition(first, variables(first)) or rises not in (0, -1) \
                    or (rises and not isinstance(part, p.Comparison)):
                return None
            if not known.intersect(params_where(p.LogicalNot(first))).is_empty():
                needed.append(part)
            fails = known.intersect(params_where(p.LogicalNot(last)))
            if not fails.is_empty():
                partial.append(part)
                counts += [_slack(part)] if not fails.intersect(params_where(first)).is_empty() else []
        count = length if len(counts) == 1 else p.Min(tuple(counts))
        if not partial:
            return VectorAccess(ends)
        source = replace(ends[0], inside=for_all(conjunction(partial), loop))
        return VectorAccess((source, ends[1]), copied=p.If(conjunction(needed), count, 0) if needed else count)

    def beside(self, loop: For, element: p.Subscript, partial: PartialVectors, others: Sequence[Vector]
                ) -> Iterator[Vector]:
        """Aligned vectors that cover *element* along *loop*, if the first element of *loop* is not aligned.

        One begins before it and one after it; a single remaining element is loaded alone. The vectors are loaded
        whole wherever they are within their array, and need no assumption but those of *others*.
        """
        count = len(iterations(loop))
        given = {a for v in others for a in v.assumed}
        *rows, last = element.index_tuple
        found: dict[int, Vector] = {}
        for by in (*range(2 - count, 0), *range(1, count - 1)):
            vector = self.vector(loop, p.Subscript(element.aggregate, (*rows, add(last, by))))
            if vector is not None:
                found[by] = replace(vector, loaded=True, serves=element)
        longest = max((v.length for v in found.values()), default=0)
        for ahead in (False, True):
            near = min((by for by, v in found.items() if v.length == longest and (by > 0) == ahead), key=abs, default=0)
            whole = self.whole(found[near], loop, partial) if near else None
            if whole is not None and given.issuperset(whole.assumed):
                yield whole

    def whole(self, vector: Vector, loop: For, partial: PartialVectors) -> Vector | None:
        """*vector*, if it is in its array wherever one element is, and no statement of this launch writes the array.

        Rows of an array with several axes begin at multiples of a vector. If their length is a size, it is assumed to
        be such a multiple, too, as it is in an array without gaps between rows.
        """
        place = self.places[vector.array]
        extent = place.shape[-1]
        if not place.argument or vector.array in self.written or extent is None:
            return None
        if any(map(anywhere, vector.assumed)):
            return self._overlapping(vector, loop, partial)
        first, last = (substitute(index[-1], self.names) for index in _ends(vector, loop))
        choices: list[tuple[DivisibleSize, ...]] = [()]
        if len(place.shape) > 1 and isinstance(extent, p.Variable) and extent.name in self.sizes:
            choices.append((DivisibleSize(extent, vector.length),))
        given = next((g for g in choices if partial.lie_in(extent, first, last, universe_params(), g)), None)
        return None if given is None else replace(vector, assumed=(*vector.assumed, *given))

    def _overlapping(self, vector: Vector, loop: For, partial: PartialVectors) -> Vector | None:
        """*vector* with the condition that it is in its array without gaps between rows; it may overlap the next row.

        Only the first row and the last one need a condition. A vector must not be longer than a row.
        """
        shape = self.places[vector.array].shape
        extent = shape[-1]
        assert extent is not None
        first, last = _ends(vector, loop)
        ends = [(k, e) for k, e in enumerate(shape[:-1]) if e is not None]
        before = (*((first[k], ">", 0) for k, _ in ends), (first[-1], ">=", 0))
        behind = (*((last[k], "<", subtract(e, 1)) for k, e in ends), (last[-1], "<", extent))
        low, high = (substitute(index[-1], self.names) for index in (first, last))
        # from one row before the array's row to one after it
        if not partial.lie_in(multiply(3, extent), add(low, extent), add(high, extent), self.where):
            return None
        parts: list[Expression] = []
        for inside in (before, behind):
            found = tuple(readable_comparison(a, op, b) for a, op, b in inside)
            whole = found[0] if len(found) == 1 else p.LogicalOr(found)
            missed = partial.places(known_where(self.where, p.LogicalNot(substitute(whole, self.names))))
            if not missed.is_empty():
                parts.append(unless(whole, params_of(missed), self._iterations(variables(whole))))
        return replace(vector, inside=conjunction(parts)) if parts else vector

    def _iterations(self, inames: AbstractSet[str]) -> dict[str, tuple[int, int]]:
        """The ranges of those *inames* whose loops are unrolled."""
        found = {x: iname_range(self.kernel, x) for x in inames if is_unrolled(self.kernel.tags.get(x))}
        return {x: (low, low + extent - 1) for x, (low, extent) in found.items() if isinstance(low, int) and extent}

    def _counted(self, place: ArrayMemory, first: p.Subscript, length: int) -> tuple[Assumed, ...] | None:
        """The assumptions under which *first* is aligned to *length* elements although not each row is."""
        assert isinstance(first.aggregate, p.Variable)
        rests = [known_remainder(extent, length, self.kernel.assumptions) for extent in place.shape[1:]]
        if not any(rests) or None in rests:
            return None
        number: Expression = 0
        for rest, index in zip((0, *rests), first.index_tuple, strict=True):
            assert rest is not None
            number = add(multiply(rest, number), substitute(index, self.names))
        if known_remainder(_remainder(number, length), length, universe_params()) != 0:
            return None
        if not place.argument:
            return ()
        extents = [extent for extent in reversed(place.shape[1:]) if extent is not None]
        strides = tuple(accumulate(extents, lambda stride, extent: multiply(extent, stride)))
        return (AlignedArray(first.aggregate.name, length, strides[::-1]),)

    def _assumed(self, place: ArrayMemory, first: p.Subscript, length: int) -> tuple[Assumed, ...] | None:
        """The assumptions under which *first* is aligned to *length* elements; ``None`` if there are none."""
        assert isinstance(first.aggregate, p.Variable)
        result: list[Assumed] = [AlignedArray(first.aggregate.name, length)] if place.argument else []
        offsets: list[Expression] = [substitute(first.index_tuple[-1], self.names)]
        row = place.shape[-1] if len(place.shape) > 1 else None
        # each call checks the strides of an argument
        if row is not None and (isinstance(row, int) or not place.argument):
            offsets.append(row)
        for rest in (_remainder(offset, length) for offset in offsets):
            if rest == 0:
                continue
            if isinstance(rest, int) or not variables(rest) <= self.sizes:
                return None
            result.append(DivisibleSize(rest, length))
        return tuple(result)

    def may_compute_all(self, loop: For, assign: Assign, vectors: Sequence[Vector], partial: PartialVectors) -> bool:
        """Do all iterations of *loop* read only inputs without gaps, and does a vector store the results?"""
        gapless = {v.array: v.assumed for v in vectors if any(map(anywhere, v.assumed))}
        if assign.combine is not None or not any(v.stored and not v.loaded for v in vectors) \
                or any(v.inside is not None for v in vectors) or not _is_harmless(assign.value):
            return False
        for element in must_read_elements(assign.value):
            read = Vector("", element, 1, loaded=True, stored=False)
            place = self.places.get(read.array)
            if place is None or place.dtype.kind not in "fc" or read.array not in gapless \
                    or read.array in self.written or not _moves_by_one(element, loop.iname):
                return False
            for index, extent in zip(element.index_tuple[:-1], place.shape, strict=False):
                value = substitute(index, self.names)
                if extent is None or not partial.lie_in(extent, value, value, self.where):
                    return False
            whole = self._overlapping(replace(read, assumed=gapless[read.array]), loop, partial)
            if whole is None or whole.inside is not None:
                return False
        return True


def anywhere(assumed: Assumed) -> bool:
    """May rows of the array begin at addresses that are not aligned to a vector?"""
    return isinstance(assumed, AlignedArray) and bool(assumed.strides)


def _slack(condition: Expression) -> Expression:
    """The number of elements at which *condition* holds, if it holds at this one, and its slack falls by 1."""
    assert isinstance(condition, p.Comparison)
    low, high = condition.left, condition.right
    if condition.operator in (">", ">="):
        low, high = high, low
    return add(subtract(high, low), 0 if condition.operator in ("<", ">") else 1)


def _is_harmless(value: Expression) -> bool:
    """May *value* be computed from any numbers? It must consist of sums, products and elements at known places."""
    match value:
        case p.Sum() | p.Product():
            return all(map(_is_harmless, value.children))
        case p.Subscript():
            return not any(isinstance(e, p.Subscript) for i in value.index_tuple for e in subexpressions(i))
        case _:
            return not children(value) and not isinstance(value, p.Variable)


def _ends(vector: Vector, loop: For) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    """The subscripts of *vector* in the first iteration of *loop* and in the last one."""
    every = iterations(loop)
    return vector.at(loop.iname, every[0]).index_tuple, vector.at(loop.iname, every[-1]).index_tuple


def _moves_by_one(element: p.Subscript, iname: str) -> bool:
    """Does the next value of *iname* select the next element of the same row?"""
    *rows, last = element.index_tuple
    return not any(iname in variables(i) for i in rows) and rise(last, iname) == 1


def _remainder(offset: Expression, length: int) -> Expression:
    """The part of *offset* that is not a multiple of *length*."""
    def rest(term: Expression) -> Expression:
        match term:
            case int():
                return term % length
            case p.Product(children=(int() as factor, *others)):
                return multiply(factor % length, others[0] if len(others) == 1 else p.Product(tuple(others)))
            case _:
                return term
    total = add(offset)
    return add(*map(rest, total.children if isinstance(total, p.Sum) else (total,)))
