"""Outer loops whose order a compiler must be told to keep.

GCC (12 and 13 were tried) vectorizes outer loops, and unrolls them into their inner ones, without asking whether one
statement writes an element twice. Where an iteration of the outer loop reaches an element earlier in its inner loops
than the iteration before did, ``a[j + i]`` over ``j`` and ``i`` say, an older value stays.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Array, Assign, Block, Define, For, Function, If, Node, Region
from loopkit.expr.mappers import subexpressions, substitute
from loopkit.lowering.binding import BLOCK
from loopkit.poly.affine import NotAffineError, remainder, subtract
from loopkit.poly.piecewise import piecewise_relation, points_where
from loopkit.poly.relations import touched_against


@dataclass(frozen=True)
class _Place:
    """Where a node stands in a loop.

    :ivar loops: the variables of the loops around it, from that loop inwards; *conditions*: what holds of them.
    :ivar values: of the names that are defined on the way.
    :ivar in_region: there is a region on the way, in which private arrays begin anew.
    """

    loops: tuple[str, ...] = ()
    conditions: tuple[Expression, ...] = ()
    values: Mapping[str, Expression] = field(default_factory=dict)
    in_region: bool = False

    def inside(self, name: str, start: Expression, stop: Expression, step: int = 1) -> _Place:
        x, first = p.Variable(name), substitute(start, self.values)
        held = [p.Comparison(first, "<=", x), p.Comparison(x, "<", substitute(stop, self.values))]
        if step > 1:
            held.append(p.Comparison(remainder(subtract(x, first), step), "==", 0))
        return replace(self, loops=(*self.loops, name), conditions=(*self.conditions, *held))

    def where(self, condition: Expression) -> _Place:
        return replace(self, conditions=(*self.conditions, substitute(condition, self.values)))

    def defining(self, name: str, value: Expression) -> _Place:
        return replace(self, values={**self.values, name: substitute(value, self.values)})


def rewritten(loop: For, function: Function) -> list[str]:
    """The arrays of which an iteration of *loop* writes an element that an earlier one wrote later in its own loops.

    Where isl cannot say, it might be so.
    """
    place = _Place().inside(loop.iname, loop.start, loop.stop, loop.step)
    own = {a.name: a for a in function.arrays if not a.shared}
    return list(dict.fromkeys(_name(write) for write, where in _writes(loop.body, place, function)
                              if len(where.loops) > 1 and _meets_again(write, where, own.get(_name(write)))))


def _name(write: Assign) -> str:
    """The array or scalar that is written."""
    target = write.target.aggregate if isinstance(write.target, p.Subscript) else write.target
    assert isinstance(target, p.Variable)
    return target.name


def _writes(block: Block, place: _Place, function: Function) -> Iterator[tuple[Assign, _Place]]:
    for node in block.children:
        yield from _writes_of(node, place, function)
        if isinstance(node, Define):
            place = place.defining(node.name, node.value)


def _writes_of(node: Node, place: _Place, function: Function) -> Iterator[tuple[Assign, _Place]]:
    match node:
        case Assign():
            yield node, place
        case For():
            yield from _writes(node.body, place.inside(node.iname, node.start, node.stop, node.step), function)
        case If():
            yield from _writes(node.then, place.where(node.condition), function)
            if node.otherwise is not None:
                yield from _writes(node.otherwise, place.where(p.LogicalNot(node.condition)), function)
        case Region():                                 # loops over the threads, the first axis innermost
            for axis in reversed(BLOCK):
                if axis in function.extents:
                    place = place.inside(axis, 0, function.extents[axis])
            for name, value in function.coordinates.items():
                place = place.defining(name, value)
            yield from _writes(node.body, replace(place, in_region=True), function)
        case Block():
            yield from _writes(node, place, function)
        case _:
            pass


def _meets_again(write: Assign, place: _Place, own: Array | None) -> bool:
    """:arg own: what is written, if it is private to a thread."""
    if own is not None and not (own.across_regions or own.lanes) and (place.in_region or not own.shape):
        return False                                   # one of each iteration, or a variable, which is no memory
    # of a write and a read of the same element, compilers know
    if write.combine is not None or any(e == write.target for e in subexpressions(write.value)):
        return False
    indices = write.target.index_tuple if isinstance(write.target, p.Subscript) else ()
    threads = [p.Variable(axis) for axis in place.loops if own is not None and axis in BLOCK]
    try:
        elements = piecewise_relation(place.loops, [*threads, *(substitute(i, place.values) for i in indices)])
        for condition in place.conditions:
            try:
                elements = elements.intersect_domain(points_where(condition, place.loops))
            except NotAffineError:
                continue                               # more places than there are
        return touched_against(elements)
    except NotAffineError:
        return True
