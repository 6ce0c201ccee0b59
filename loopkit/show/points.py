"""The points of a statement in a picture: which are drawn, where, and in which colour."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, takewhile

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_of, data_params
from loopkit.analysis.dependences import dependences, is_reorderable
from loopkit.analysis.order import execution_paths
from loopkit.analysis.sizes import sizes_at_least
from loopkit.errors import PreconditionError, require_known, values_text
from loopkit.interpreter.instances import MOST, Instance, clock, coordinates
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, Statement
from loopkit.kernel.tags import GroupTag, LocalTag
from loopkit.poly.affine import integer_factor, subtract
from loopkit.poly.points import all_points
from loopkit.poly.relations import at_sink
from loopkit.poly.sets import InstanceSet, fix_params, lexmin_point

Point = tuple[int, ...]

#: Inames that a picture shows along one side, the outermost first.
Axis = tuple[str, ...]

#: The most places along one side, the most panels, and the most points between which dependences are drawn.
MOST_PLACES, MOST_PANELS, MOST_LINKED = 40, 6, 400

#: Sizes that a picture tries, until its sides are as long as :data:`_FEWEST`.
_USUAL, _FEWEST = (8, 16, 32, 64), 6

COLOURS = ("block", "thread", "time")


@dataclass(frozen=True)
class PointGrid:
    """The points of a statement at given sizes, with all inames but those of the *axes* fixed.

    :ivar axes: down, across, and from panel to panel; the last ones may be without inames.
    :ivar points: in order, without those beyond the picture's limits.
    :ivar left_out: number of points beyond the limits.
    """

    knl: LoopKernel
    statement: Statement
    sizes: Mapping[str, int]
    fixed: Mapping[str, int]
    axes: tuple[Axis, Axis, Axis]
    points: tuple[Point, ...]
    left_out: int

    def values(self, point: Point, axis: int) -> Point:
        """The values of the inames of an axis at *point*."""
        return tuple(point[self.statement.inames.index(x)] for x in self.axes[axis])

    @cached_property
    def places(self) -> tuple[Mapping[Point, int], ...]:
        """For each axis the places of the values that occur."""
        return tuple({v: i for i, v in enumerate(sorted({self.values(x, axis) for x in self.points}))}
                     for axis in range(3))

    def place(self, point: Point) -> tuple[int, int, int]:
        """The row, the column and the panel of *point*."""
        down, across, panel = (self.places[axis][self.values(point, axis)] for axis in range(3))
        return down, across, panel


def grid_of(knl: LoopKernel, statement: Statement, inames: Sequence[str] | None, parameters: Mapping[str, int],
            fixed: Mapping[str, int]) -> PointGrid:
    """The points of *statement* along *inames*; see :func:`loopkit.show.domains.domain_picture` for the arguments.

    :raises PreconditionError: the points depend on data, there are too many or none.
    :raises UnknownNameError: a size or an iname is not one of the kernel or the statement.
    :raises CallError: the assumptions do not allow the sizes.
    """
    s = statement
    require_known("size", parameters, knl.value_params)
    require_known("iname", fixed, s.inames, where=f"the statement '{s.id}'")
    if data_params(knl, s.domain):
        raise PreconditionError(f"The bounds of '{s.id}' are read from memory, so that its points depend on data.",
                                subject=s.id, hint="choose another statement with statement=")
    axes = chosen_axes(knl, s, inames)
    sizes = (sizes_at_least(knl.assumptions, parameters, dict.fromkeys(sorted(knl.value_params), usual))
             for usual in _USUAL)
    found = (_grid(knl, s, axes, x, fixed) for x in sizes)
    first = next(found)
    fits = takewhile(lambda grid: not grid.left_out, chain((first,), found))
    return first if parameters.keys() >= set(s.domain.params) else next(filter(_is_long, fits), first)


def _is_long(grid: PointGrid) -> bool:
    return all(len(places) >= _FEWEST for places, axis in zip(grid.places[:2], grid.axes, strict=False) if axis)


def _grid(knl: LoopKernel, s: Statement, axes: tuple[Axis, Axis, Axis], sizes: Mapping[str, int],
          fixed: Mapping[str, int]) -> PointGrid:
    domain = _value_at(s.domain, fixed)
    least = lexmin_point(fix_params(domain.set, sizes), s.inames)
    where = values_text(sizes, " at {}")
    if least is None:
        raise PreconditionError(f"'{s.id}' has no instance{where}{values_text(fixed, ' with {}')}.", subject=s.id,
                                hint="pass other sizes (parameters=) or other values (fixed=)")
    rest = {x: least[1][x] for x in s.inames if not any(x in axis for axis in axes)}
    points = all_points(_value_at(domain, rest), sizes, MOST)
    if points is None:
        raise PreconditionError(f"'{s.id}' has too many points{where} for a picture.", subject=s.id,
                                hint="pass smaller sizes: parameters={'n': 8}")
    whole = PointGrid(knl, s, sizes, rest, axes, tuple(points), 0)
    limits = MOST_PLACES, MOST_PLACES, MOST_PANELS
    inside = tuple(x for x in points if all(at < most for at, most in zip(whole.place(x), limits, strict=True)))
    return PointGrid(knl, s, sizes, rest, axes, inside, len(points) - len(inside))


def _value_at(domain: InstanceSet, values: Mapping[str, int]) -> InstanceSet:
    return domain.where(*(("==", subtract(p.Variable(x), value)) for x, value in values.items()))


# The axes

def chosen_axes(knl: LoopKernel, s: Statement, inames: Sequence[str] | None) -> tuple[Axis, Axis, Axis]:
    """The axes that *inames* names, by default the first two, with the inames of one split on one axis.

    :raises UnknownNameError: the statement has no such iname.
    :raises PreconditionError: there are too many, or one is named twice.
    """
    found: list[Axis]
    if inames is None:
        found = [(), (), *_split_axes(knl, s)[:2]][-2:]
    else:
        found = [tuple(x.strip() for x in text.split(",")) for text in inames]
        names = [x for axis in found for x in axis]
        require_known("iname", names, s.inames, where=f"the statement '{s.id}'")
        if not 0 < len(found) <= 3 or len(set(names)) < len(names):
            raise PreconditionError("inames= names one to three axes, each iname at most once.", subject="inames",
                                    hint="for example inames=['i', 'j'], or inames=['i_outer, i_inner', 'j']")
        found = [(), *found] if len(found) == 1 else found
    return found[0], found[1], found[2] if len(found) == 3 else ()


def _split_axes(knl: LoopKernel, s: Statement) -> list[Axis]:
    """The inames of *s*; those that a subscript joins as ``4*i_outer + i_inner`` with ``0 <= i_inner < 4`` together."""
    joined: dict[str, Axis] = {}
    for expr in (e for a in accesses_of(knl, s) for e in a.subscripts):
        for axis in _digit_axes(s.domain, expr):
            if len(axis) > max(len(joined.get(x, ())) for x in axis):
                joined |= dict.fromkeys(axis, axis)
    return list(dict.fromkeys(joined.get(x, (x,)) for x in s.inames))


def _digit_axes(domain: InstanceSet, expr: Expression) -> Iterator[Axis]:
    """The inames that are digits of one number in the sum *expr*, the most significant first."""
    terms = expr.children if isinstance(expr, p.Sum) else (expr,)
    named = [(integer_factor(t), t.children[-1] if isinstance(t, p.Product) else t) for t in terms]
    factors = {x.name: factor for factor, x in named if isinstance(x, p.Variable) and x.name in domain.inames}
    axis: Axis = ()
    for x in sorted(factors, key=factors.__getitem__):
        low, high = domain.constant_range(axis[0]) if axis else (None, None)
        if axis and low == 0 and high is not None and factors[x] == factors[axis[0]]*(high + 1):
            axis = (x, *axis)
        else:
            if axis:
                yield axis
            axis = (x,)
    if axis:
        yield axis


# Colours

@dataclass(frozen=True)
class Colouring:
    """The *kind* of thing that the colours tell apart, its *names* in order, and the number of each point's."""

    kind: str
    names: tuple[str, ...]
    of: Mapping[Point, int]


def colouring(grid: PointGrid, colour: str | None) -> Colouring:
    """The points by *colour*; by default by block, thread or time: the first that differs between points.

    :raises UnknownNameError: there is no such colour.
    """
    if colour is not None:
        require_known("colour", [colour], COLOURS, where="a picture of points")
        return _by(grid, colour)
    found = (_by(grid, kind) for kind in COLOURS)
    return next(c for c in found if len(c.names) > 1 or c.kind == COLOURS[-1])


def _by(grid: PointGrid, kind: str) -> Colouring:
    knl, s = grid.knl, grid.statement
    if kind == "time":
        time = clock(knl, execution_paths(knl))
        keys = {x: time(Instance(s.id, x)) for x in grid.points}
    else:
        tag = GroupTag if kind == "block" else LocalTag
        found = {x: coordinates(knl, grid.sizes, tag, Instance(s.id, x)) for x in grid.points}
        keys = {x: tuple(at[axis] for axis in sorted(at, key=str)) for x, at in found.items()}
    known = sorted(set(keys.values()), key=lambda key: key[::-1] if kind != "time" else key)
    number = {key: i for i, key in enumerate(known)}
    names = [f"time {i}" if kind == "time" else f"{kind} {key[0]}" if len(key) == 1 else f"{kind} {key}" if key
             else f"one {kind}" for i, key in enumerate(known)]
    return Colouring(kind, tuple(names), {x: number[key] for x, key in keys.items()})


# Dependences

@dataclass(frozen=True)
class Links:
    """A dependence, and its pairs of points in the picture."""

    dependence: Dependence
    pairs: tuple[tuple[Point, Point], ...]


def links(grid: PointGrid) -> Iterator[Links]:
    """The dependences between the points of each panel, without those whose order is free.

    An instance of another statement is at the point with its values, if that statement has all inames of the axes.
    """
    knl, s, inside = grid.knl, grid.statement, set(grid.points)
    shown = {x for axis in grid.axes for x in axis}
    for d in dependences(knl):
        other = knl.statement_by_id[d.source if d.sink == s.id else d.sink]
        if s.id in (d.source, d.sink) and not is_reorderable(knl, d) and shown <= {*other.inames}:
            pairs = [pair for point in grid.points for pair in _pairs_at(grid, d, other, point)
                     if inside.issuperset(pair) and len({*pair}) == 2 and len({grid.place(x)[2] for x in pair}) == 1]
            if pairs:
                yield Links(d, tuple(dict.fromkeys(pairs)))


def _pairs_at(grid: PointGrid, d: Dependence, other: Statement, point: Point) -> Iterator[tuple[Point, Point]]:
    """The pairs of *d* of which *point* is an end, the other end as a point of the grid."""
    is_sink = d.sink == grid.statement.id
    relation = d.relation if is_sink else d.relation.reverse()
    fixed = {x: v for x, v in grid.fixed.items() if x in other.inames}
    ends = other.domain.named(at_sink(relation, grid.sizes, point).domain())
    for values in all_points(_value_at(ends, fixed), grid.sizes, MOST) or ():
        at = {**grid.fixed, **dict(zip(other.inames, values, strict=True))}
        end = tuple(at[x] for x in grid.statement.inames)
        yield (end, point) if is_sink else (point, end)
