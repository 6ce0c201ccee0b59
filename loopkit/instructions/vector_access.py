"""Vector access: consecutive elements that one thread loads or stores at once.

The instruction stands on a loop over the elements. The loop says what is computed, element by element; a target moves
what a :class:`Vector` names before and behind the loop, several elements an access.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import AlignedArray, Assign, Assumed, Block, DivisibleSize, For, Function, If, Instruction
from loopkit.ast.walk import nodes_in
from loopkit.expr.mappers import children, substitute, variables
from loopkit.expr.text import to_text
from loopkit.poly.affine import add, affine_difference, readable_comparison, subtract

#: Bytes of the widest access of a thread.
WIDEST = 16

_ORDERS = ("<", "<=", ">", ">=")


@dataclass(frozen=True)
class Vector:
    """The elements that the iterations of one loop touch at one place of its body.

    :ivar name: of the registers that hold them.
    :ivar element: as it stands in the body, in terms of the loop's variable, with which it moves one element on.
    :ivar length: elements of one access; the first of the loop is a multiple of it.
    :ivar loaded: they are read before the loop; *stored*: they are written behind it.
    :ivar assumed: what must hold of a call, and is not known from the kernel.
    :ivar inside: where all of it lies in its array, if lanes that are cut off may not; elsewhere it is loaded lane by
        lane.
    :ivar serves: what is read, if it is not *element* itself but elements next to it in the same row.
    """

    name: str
    element: p.Subscript
    length: int
    loaded: bool
    stored: bool
    assumed: tuple[Assumed, ...] = ()
    inside: Expression | None = None
    serves: p.Subscript | None = None

    @property
    def array(self) -> str:
        assert isinstance(self.element.aggregate, p.Variable)
        return self.element.aggregate.name

    def at(self, iname: str, value: Expression) -> p.Subscript:
        """The element at the iteration *value* of the loop over *iname*."""
        index = tuple(add(substitute(i, {iname: value})) for i in self.element.index_tuple)
        return p.Subscript(self.element.aggregate, index)

    def __str__(self) -> str:
        verb = " and ".join(word for word, done in (("loaded", self.loaded), ("stored", self.stored)) if done)
        given = f", given {', '.join(map(str, self.assumed))}" if self.assumed else ""
        where = f" where {to_text(self.inside)}" if self.inside is not None else ""
        read = f" for {to_text(self.serves)}" if self.serves is not None else ""
        return f"{to_text(self.element)} as {self.name} {verb} {self.length} at a time{read}{where}{given}"


@dataclass(frozen=True)
class VectorAccess(Instruction):
    """The vector loads before a loop and the vector stores behind it.

    :ivar vectors: what is moved.
    :ivar computes_all: iterations that a condition leaves out may be computed, too, and are not stored: all that they
        read is in its array.
    """

    vectors: tuple[Vector, ...]
    computes_all: bool = False

    noun: ClassVar[str] = "a vector access"

    @property
    def titles(self) -> tuple[str, ...]:
        return (*map(str, self.vectors), *(("all are computed",) if self.computes_all else ()))


def vectors_of(loop: For) -> tuple[Vector, ...]:
    """What is moved in vector accesses around *loop*."""
    return loop.instruction.vectors if isinstance(loop.instruction, VectorAccess) else ()


def with_vector_access(loop: For, vectors: tuple[Vector, ...], *, computes_all: bool = False) -> For:
    """*loop* with *vectors* moved around it."""
    return replace(loop, instruction=VectorAccess(vectors, computes_all) if vectors else None)


def vectors_in(block: Block) -> Iterator[Vector]:
    """The vectors of all loops in *block*."""
    for node in nodes_in(block):
        if isinstance(node, For):
            yield from vectors_of(node)


def assignment_of(loop: For) -> tuple[Assign | None, Expression | None]:
    """The one assignment in *loop*, if it is one, and the condition under which it stands."""
    match loop.body.children:
        case (Assign() as assign,):
            return assign, None
        case (If(condition=condition, then=Block(children=(Assign() as assign,)), otherwise=None),):
            return assign, condition
        case _:
            return None, None


def for_all(condition: Expression, loop: For) -> Expression:
    """*condition* for all iterations of *loop*, of which there are a constant number."""
    assert isinstance(loop.start, int)
    assert isinstance(loop.stop, int)
    result: dict[Expression, None] = {}
    for part in condition.children if isinstance(condition, p.LogicalAnd) else (condition,):
        rise = _rise(part, loop.iname)
        lanes = range(loop.start, loop.stop) if rise is None else [loop.start if rise > 0 else loop.stop - 1]
        result.update((_at(part, loop.iname, lane), None) for lane in lanes)
    return next(iter(result)) if len(result) == 1 else p.LogicalAnd(tuple(result))


def _rise(condition: Expression, iname: str) -> int | None:
    """By how much more *condition* holds with the next value of *iname*, if that is constant."""
    match condition:
        case p.LogicalOr(children=(*others, last)) if not any(iname in variables(c) for c in others):
            return _rise(last, iname)
        case p.Comparison(operator="<" | "<=", left=low, right=high):
            room = subtract(high, low)
        case p.Comparison(operator=">" | ">=", left=high, right=low):
            room = subtract(high, low)
        case _:
            return None
    return affine_difference(substitute(room, {iname: p.Sum((p.Variable(iname), 1))}), room)


def _at(expr: Expression, iname: str, value: Expression) -> Expression:
    if isinstance(expr, p.LogicalOr):
        return p.LogicalOr(tuple(_at(c, iname, value) for c in expr.children))
    if isinstance(expr, p.Comparison):
        left, right = (add(substitute(side, {iname: value})) for side in (expr.left, expr.right))
        return readable_comparison(left, expr.operator, right) if expr.operator in _ORDERS else \
            p.Comparison(left, expr.operator, right)
    return substitute(expr, {iname: value})


def assumed_by(functions: Iterable[Function]) -> tuple[Assumed, ...]:
    """What the vectors of *functions* take for granted of a call: of each array the most, of each size once."""
    found = dict.fromkeys(a for f in functions for v in vectors_in(f.body) for a in v.assumed)
    most: dict[AlignedArray, int] = {}
    for a in found:
        if isinstance(a, AlignedArray):
            rows = replace(a, elements=1)
            most[rows] = max(most.get(rows, 0), a.elements)
    arrays = [replace(rows, elements=elements) for rows, elements in most.items()]
    return (*arrays, *(a for a in found if isinstance(a, DivisibleSize)))


def certain_elements(expr: Expression) -> Iterator[p.Subscript]:
    """The elements that *expr* reads whatever their values are, the inner ones first."""
    match expr:
        case p.If():
            yield from certain_elements(expr.condition)
        case p.LogicalAnd() | p.LogicalOr():
            yield from certain_elements(expr.children[0])
        case p.Subscript():
            for i in expr.index_tuple:
                yield from certain_elements(i)
            yield expr
        case _:
            for child in children(expr):
                yield from certain_elements(child)
