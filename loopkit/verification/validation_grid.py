"""Blocks and threads of a launch as sets: the axes, and the parts of an axis whose lengths depend on sizes.

Inames share an axis in mixed radix. If the radices are sizes, as in ``i = g.0 // m`` and ``j = g.0 % m``, the inames
are not affine in the axis. Each of them is then a coordinate of its own, beside the axis: it runs from 0 to the length
of its part, and is at most the axis. More places than exist satisfy these conditions, so a proof for all of them holds
for the existing ones. Two facts come from comparing products of sizes term by term: the parts distinguish the places of
the axis, and the axis is as long as all of them need. Counterexamples are searched at single sizes, at which all
coordinates are affine.
"""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain, product

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.legality import axis_inames
from loopkit.analysis.ranges import iname_extent, iname_range
from loopkit.ast.nodes import Function
from loopkit.expr.evaluate import evaluate
from loopkit.expr.mappers import replaced, subexpressions, substitute, variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import GroupTag, LocalTag
from loopkit.poly.affine import NotAffineError, add, multiply, subtract
from loopkit.poly.piecewise import is_piecewise, params_where, projected
from loopkit.poly.sets import InstanceSet, Set, conjunction, lexmin_point, range_condition, universe_params


@dataclass(frozen=True)
class AxisPart:
    """The part of an axis that an iname runs through: ``axis // stride % length + low``.

    :ivar length: ``None``: all that the inner parts leave of the axis.
    """

    axis: str
    low: Expression
    stride: Expression
    length: Expression | None


@dataclass(frozen=True, eq=False)
class Grid:
    """Blocks and threads of a launch.

    :ivar on_axis: the coordinates of each axis, the axis first.
    :ivar parts: the part of its axis of each hardware iname.
    :ivar points: a superset of the places of the launch, as a condition on parameters; exact if all hardware inames are
        affine.
    """

    kernel: LoopKernel
    function: Function
    on_axis: Mapping[str, tuple[str, ...]]
    parts: Mapping[str, AxisPart]
    points: Set

    @cached_property
    def coordinates(self) -> tuple[str, ...]:
        """The coordinates that distinguish threads: the axes, and the inames on an axis that are not affine in it."""
        return (*self.along("g"), *self.along("l"))

    def along(self, kind: str) -> tuple[str, ...]:
        """The coordinates of the block (``"g"``), or of the thread in its block (``"l"``)."""
        return tuple(c for axis, cs in self.on_axis.items() if axis.startswith(kind) for c in cs)

    @cached_property
    def values(self) -> Mapping[str, Expression]:
        """The other hardware inames in terms of the coordinates."""
        return {x: value for x, value in self.function.coordinates.items() if x not in self.by_sizes}

    @cached_property
    def by_sizes(self) -> tuple[str, ...]:
        """The inames whose parts of an axis depend on sizes: coordinates of their own."""
        return tuple(x for x in self.coordinates if x in self.parts)

    def onto(self, dims: Sequence[str], points: Set) -> Set:
        """Coordinates that are a condition on parameters, as a set of the dimensions *dims*."""
        return projected(projected(points, (), self.coordinates), self.coordinates, dims)

    # Must-exist places of a statement

    def misplaced(self, inames: Sequence[str]) -> str | None:
        """An axis on which the program gives *inames* of a statement other parts than the kernel does; ``None``: none.

        Legality and dependences compare coordinates that follow from the kernel's packing of inames into axes.
        With the same packing, two instances have the same coordinate in the program exactly if they have it there.
        """
        for letter, kind in (("g", GroupTag), ("l", LocalTag)):
            for number, packed in axis_inames(self.kernel, inames, kind).items():
                if not self._packs(f"{letter}.{number}", packed):
                    return f"{letter}.{number}"
        return None

    def _packs(self, axis: str, inames: Sequence[str]) -> bool:
        """Is each of *inames*, outermost first, the part of *axis* that the others leave?"""
        stride: Expression = 1
        for x in reversed(inames):
            part, length = self.parts.get(x), iname_extent(self.kernel, x)
            if part is None or part.axis != axis or not _same_form(part.stride, stride) \
                    or not _same_form(part.low, iname_range(self.kernel, x)[0]):
                return False
            if part.length is None or x == inames[0]:
                return part.length is None and x == inames[0]
            if not (_same_form(part.length, length) or _same_form(part.length, p.Max((1, length)))):
                return False
            stride = multiply(stride, part.length)
        return True

    def must_exist(self, hardware: Collection[str]) -> Set:
        """Places of a statement with the inames *hardware* that must exist, among :attr:`points`.

        The result is a condition on parameters.
        """
        result = self.points
        for axis, extent in self.function.extents.items():
            parts = [x for x in self.by_sizes if x in hardware and self.parts[x].axis == axis]
            if not parts and is_piecewise(extent):
                continue                                 # the points are exact along this axis
            some = Set.empty(universe_params().get_space())
            for condition, length in _lengths(extent):
                some = some.union(condition.intersect(self._within(parts, length) if parts else
                                                      _below_a_factor(axis, length)))
            result = result.intersect(some)
        return result

    def _within(self, parts: Sequence[str], length: Expression) -> Set:
        """The places of *parts* that fit into an axis of *length*."""
        outermost = next((x for x in parts if self.parts[x].length is None), None)
        share = None if outermost is None else _share_of(self.kernel, outermost, self.parts[outermost], length)
        if share is None:
            return Set.empty(universe_params().get_space())
        below, positive = share
        return below.intersect(positive)

    # Places at given sizes

    def real(self, points: Set, names: Sequence[str]) -> Set | None:
        """Some of *points*, with the dimensions *names*, whose places exist; ``None``: none found."""
        exact = not self.by_sizes and all(map(is_piecewise, self.function.extents.values()))
        if exact or not set(names).intersection(self.coordinates):
            return points
        found = (points.intersect(self.onto(names, self.at(sizes))) for sizes in some_sizes(points, names))
        return next((there for there in found if not there.is_empty()), None)

    def without_place(self, instances: Set, own: Sequence[str], wanted: Set, names: Sequence[str]) -> Set | None:
        """Some of *instances*, with the dimensions *own*, that have no place; ``None``: none found.

        :arg wanted: the places of all instances, with the dimensions *names*: coordinates, then *own*.
        """
        for sizes in some_sizes(instances, own):
            there = projected(wanted.intersect(self.onto(names, self.at(sizes))), names, own)
            left = instances.intersect_params(conjunction(sizes)).subtract(there)
            if not left.is_empty():
                return left
        return None

    def at(self, sizes: Mapping[str, int]) -> Set:
        """The blocks and threads at the given *sizes*, as a condition on parameters; a size without a value is 1."""
        own = self.function.coordinates
        used = frozenset[str]().union(*map(variables, (*self.function.extents.values(), *own.values())))
        known = {**dict.fromkeys(used & self.kernel.value_params, 1), **sizes}
        conditions = [conjunction(known)]
        for axis, extent in self.function.extents.items():
            place = p.Variable(axis)
            conditions += [_condition(place, ">=", 0), _condition(place, "<", evaluate(extent, known))]
        conditions += [_condition(p.Variable(x), "==", substitute(own[x], known)) for x in self.by_sizes]
        return reduce(Set.intersect, conditions)


def grid_of(knl: LoopKernel, function: Function) -> Grid:
    """The blocks and threads of *function*.

    :raises NotAffineError: a hardware iname is not a part of its axis, or the length of a part may not be positive.
    """
    parts = {x: _part_of(value, function.extents) for x, value in function.coordinates.items()}
    own = {x for x in parts if not is_piecewise(function.coordinates[x])}
    on_axis = {axis: (axis, *(x for x in parts if x in own and parts[x].axis == axis))
               for axis in sorted(function.extents)}
    points = knl.assumptions
    for x in sorted(own):
        points = points.intersect(_conditions_along(knl, parts[x], p.Variable(x)))
    for axis, extent in sorted(function.extents.items()):
        shares = {x: parts[x] for x in on_axis[axis][1:] if parts[x].length is None}
        points = points.intersect(_condition(p.Variable(axis), ">=", 0)).intersect(_on_axis(knl, axis, extent, shares))
    return Grid(knl, function, on_axis, parts, points)


def some_sizes(points: Set, names: Sequence[str]) -> Iterator[dict[str, int]]:
    """A few sizes at which there are *points*, with the dimensions *names*: the smallest, and some larger ones."""
    sizes = InstanceSet((), points.params()).params
    for low, larger in ((0, ()), *((low, sizes) for low in (1, 2, 3)), *((4, (x,)) for x in sizes)):
        some = points
        for x in larger:
            some = some.intersect_params(range_condition(x, low))
        found = lexmin_point(some, names)
        if found is not None:
            yield found[0]


# Parts of an axis

def _part_of(value: Expression, axes: Collection[str]) -> AxisPart:
    """*value*, a hardware iname, as a part of one of *axes*; :raises NotAffineError: it is not one."""
    terms = value.children if isinstance(value, p.Sum) else (value,)
    place = next((t for t in terms if not variables(t).isdisjoint(axes)), None)
    if place is None:
        raise NotAffineError(value)
    low = subtract(value, place)
    quotient, length = (place.numerator, place.denominator) if isinstance(place, p.Remainder) else (place, None)
    within, stride = (quotient.numerator, quotient.denominator) if isinstance(quotient, p.FloorDiv) else (quotient, 1)
    others = variables(low) | variables(stride) | (frozenset() if length is None else variables(length))
    if not isinstance(within, p.Variable) or within.name not in axes or not others.isdisjoint(axes) \
            or not is_piecewise(low):
        raise NotAffineError(value)
    return AxisPart(within.name, low, stride, length)


def _conditions_along(knl: LoopKernel, part: AxisPart, iname: p.Variable) -> Set:
    """The known conditions on the value of *iname* on its *part*, as a condition on parameters."""
    place = subtract(iname, part.low)
    points = _condition(place, ">=", 0).intersect(_condition(place, "<=", p.Variable(part.axis)))
    if part.length is None:
        return points
    if not knl.assumptions.is_subset(_condition(part.length, ">=", 1)):
        raise NotAffineError(part.length)
    return points.intersect(_condition(place, "<", part.length))


def _on_axis(knl: LoopKernel, axis: str, extent: Expression, outermost: Mapping[str, AxisPart]) -> Set:
    """The known conditions on places below *extent*; the inames *outermost* take the rest of the axis."""
    result = Set.empty(universe_params().get_space())
    for condition, length in _lengths(extent):
        points = condition
        if is_piecewise(length):
            points = points.intersect(_condition(p.Variable(axis), "<", length))
        for x, part in outermost.items():
            share = _share_of(knl, x, part, length)
            if share is not None:
                below, positive = share
                points = points.intersect(below.union(positive.complement()))
        result = result.union(points)
    return result


def _share_of(knl: LoopKernel, iname: str, part: AxisPart, length: Expression) -> tuple[Set, Set] | None:
    """The values of *iname*, outermost on its axis, in *length* places, and the conditions for that; ``None``: unknown.
    """
    count = iname_extent(knl, iname)
    rest = subtract(length, multiply(count, part.stride))
    # max(1, size) is a size that must be positive
    sizes: dict[Expression, Expression] = {
        e: e.children[1] for e in subexpressions(rest) if isinstance(e, p.Max) and e.children[0] == 1}
    if not is_piecewise(count) or _as_sum_of_products(replaced(rest, sizes)) != 0:
        return None
    return (_condition(subtract(p.Variable(iname), part.low), "<", count),
            reduce(Set.intersect, [_condition(size, ">=", 1) for size in sizes.values()], universe_params()))


def _lengths(extent: Expression) -> Iterator[tuple[Set, Expression]]:
    """A place is below *extent* if it is below one of these lengths whose condition holds."""
    match extent:
        case p.Max(children=children):
            for child in children:
                yield from _lengths(child)
        case p.If(condition=condition, then=then, else_=0):        # no blocks at all at some sizes
            holds = params_where(condition)
            yield from ((holds.intersect(own), length) for own, length in _lengths(then))
        case _:
            yield universe_params(), extent


def _below_a_factor(axis: str, length: Expression) -> Set:
    """Places that must be below *length*: those below one of its factors if no other factor is less than 1."""
    factors = length.children if isinstance(length, p.Product) and not is_piecewise(length) else (length,)
    if not all(map(is_piecewise, factors)):
        return Set.empty(universe_params().get_space())
    below = reduce(Set.union, [_condition(p.Variable(axis), "<", f) for f in factors])
    return reduce(Set.intersect, [_condition(f, ">=", 1) for f in factors], below)


def _as_sum_of_products(expr: Expression) -> Expression:
    """*expr* as a sum of products with sorted factors, like terms collected: 0 if two equal ones were subtracted."""
    match expr:
        case p.Sum(children=children):
            return add(*map(_as_sum_of_products, children))
        case p.Product(children=children):
            sums = [e.children if isinstance(e, p.Sum) else (e,) for e in map(_as_sum_of_products, children)]
            factors = (chain.from_iterable(e.children if isinstance(e, p.Product) else (e,) for e in term)
                       for term in product(*sums))
            return add(*(reduce(multiply, sorted(own, key=lambda e: (not isinstance(e, int), str(e))))
                         for own in factors))
        case _:
            return expr


def _same_form(a: Expression, b: Expression) -> bool:
    return _as_sum_of_products(subtract(a, b)) == 0


def _condition(left: Expression, operator: str, right: Expression) -> Set:
    return params_where(p.Comparison(left, operator, right))
