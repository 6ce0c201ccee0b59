"""Vector access: a thread loads or stores consecutive elements at once.

The instruction belongs to a loop over the elements. The loop is its meaning, element by element. A target loads and
stores the elements of each :class:`Vector` before and after the loop, several elements an access.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Assumed, Block, For, If, Instruction
from loopkit.ast.signs import Signs
from loopkit.ast.walk import nodes_in
from loopkit.expr.mappers import children, map_children, substitute, variables
from loopkit.expr.text import to_text
from loopkit.instructions.text import InstructionText, Printer, indented, or_else
from loopkit.poly.affine import add, affine_difference, readable_comparison, subtract

#: Bytes of the widest access of a thread.
WIDEST = 16

_ORDERS = ("<", "<=", ">", ">=")


@dataclass(frozen=True)
class Vector:
    """The elements that the iterations of one loop access by one subscript expression of its body.

    :ivar name: the name of the registers that hold them.
    :ivar element: the access in the body, whose subscript grows by 1 with the loop's variable.
    :ivar length: elements of one access; the first element of the loop is a multiple of it.
    :ivar loaded: they are read before the loop.
    :ivar stored: they are written after the loop.
    :ivar assumed: the assumptions about the arguments of a call that do not follow from the kernel.
    :ivar inside: the condition that all of it is in its array, if a partial vector may not be; else it is loaded
        element by element.
    :ivar serves: the access that it loads for, if that is not *element* but has elements next to it in the same row.
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
    """The vector loads before a loop and the vector stores after it.

    :ivar vectors: the loaded and stored elements.
    :ivar computes_all: iterations that a condition excludes may be computed too, as all that they read is in its
        array; they are not stored.
    """

    vectors: tuple[Vector, ...]
    computes_all: bool = False

    noun: ClassVar[str] = "a vector access"

    @property
    def titles(self) -> tuple[str, ...]:
        return (*map(str, self.vectors), *(("all are computed",) if self.computes_all else ()))

    @property
    def assumed(self) -> tuple[Assumed, ...]:
        return tuple(a for v in self.vectors for a in v.assumed)

    @property
    def aligned(self) -> frozenset[str]:
        return frozenset(v.array for v in self.vectors)


def vectors_of(loop: For) -> tuple[Vector, ...]:
    """The vectors loaded and stored around *loop*."""
    return loop.instruction.vectors if isinstance(loop.instruction, VectorAccess) else ()


def with_vector_access(loop: For, vectors: tuple[Vector, ...], *, computes_all: bool = False) -> For:
    """*loop* with *vectors* loaded and stored around it."""
    return replace(loop, instruction=VectorAccess(vectors, computes_all) if vectors else None)


def vectors_in(block: Block) -> Iterator[Vector]:
    """The vectors of all loops in *block*."""
    for node in nodes_in(block):
        if isinstance(node, For):
            yield from vectors_of(node)


def assignment_of(loop: For) -> tuple[Assign | None, Expression | None]:
    """The assignment in *loop*, if it has only one, and its condition."""
    match loop.body.children:
        case (Assign() as assign,):
            return assign, None
        case (If(condition=condition, then=Block(children=(Assign() as assign,)), otherwise=None),):
            return assign, condition
        case _:
            return None, None


def for_all(condition: Expression, loop: For) -> Expression:
    """The condition that *condition* holds for all iterations of *loop*, which has a constant trip count."""
    assert isinstance(loop.start, int)
    assert isinstance(loop.stop, int)
    result: dict[Expression, None] = {}
    for part in condition.children if isinstance(condition, p.LogicalAnd) else (condition,):
        rise = _rise(part, loop.iname)
        elements = range(loop.start, loop.stop) if rise is None else [loop.start if rise > 0 else loop.stop - 1]
        result.update((_at(part, loop.iname, x), None) for x in elements)
    return next(iter(result)) if len(result) == 1 else p.LogicalAnd(tuple(result))


def _rise(condition: Expression, iname: str) -> int | None:
    """The growth of the slack of *condition* with the next value of *iname*, if that is constant."""
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


def certain_elements(expr: Expression) -> Iterator[p.Subscript]:
    """The elements that *expr* reads whatever their values, the inner ones first."""
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


# {{{ CUDA: elements go through small arrays, which stay in registers

#: The built-in type of an access by dtype and bytes; for other dtypes, an unsigned type by bytes.
_OWN = {("float32", 8): "float2", ("float32", 16): "float4", ("float64", 16): "double2", ("complex64", 16): "float4",
        ("int32", 8): "int2", ("int32", 16): "int4"}
_BITS = {2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}

def access_type(dtype: np.dtype, length: int) -> str:
    """The type by which *length* elements of *dtype* are loaded or stored at once."""
    size = length * dtype.itemsize
    return _OWN.get((dtype.name, size), _BITS[size])


def in_registers(loop: For) -> For:
    """*loop* with the elements of its vectors in registers, indexed from the first iteration.

    Neighbours of elements that are loaded and not written come from registers too, as far as these hold them; not if
    the vector may be loaded element by element. An excluded iteration is computed into registers if it has no effect,
    so that there is no branch.
    """
    assign, condition = assignment_of(loop)
    assert assign is not None
    written = assign.target.aggregate if isinstance(assign.target, p.Subscript) else assign.target
    loaded = [v for v in vectors_of(loop) if v.element.aggregate != written]
    certain = _certain_reads(assign)
    index = subtract(p.Variable(loop.iname), loop.start)
    places: dict[Expression, Expression] = {v.element: p.Subscript(p.Variable(v.name), index) for v in vectors_of(loop)}

    def moved(expr: Expression) -> Expression:
        if not isinstance(expr, p.Subscript):
            return map_children(expr, moved)
        if expr not in places:
            places[expr] = expr
            for v in loaded:
                if v.inside is None or expr in certain:
                    places[expr] = _neighbour(loop, v, expr, places[expr])
        return places[expr] if places[expr] is not expr else map_children(expr, moved)
    target = moved(assign.target)
    assert isinstance(target, p.Variable | p.Subscript)
    body = Block((replace(assign, target=target, value=moved(assign.value)),))
    if condition is not None and not (isinstance(loop.instruction, VectorAccess) and loop.instruction.computes_all):
        body = Block((If(condition, body),))
    return replace(loop, body=body, instruction=None)


def stored_by_elements(loop: For, vector: Vector) -> For:
    """The loop that stores the elements of *vector* in the iterations of *loop* that run, if not all of them do.

    Each store has the full condition: so it is predicated, and no branch delays later loads.
    """
    assign, condition = assignment_of(loop)
    assert assign is not None
    assert condition is not None
    held = p.Subscript(p.Variable(vector.name), subtract(p.Variable(loop.iname), loop.start))
    store = replace(assign, target=vector.element, value=held, combine=None)
    own = condition.children if isinstance(condition, p.LogicalAnd) else (condition,)
    alone = p.LogicalAnd((p.LogicalNot(for_all(condition, loop)), *own))
    return replace(loop, body=Block((If(alone, Block((store,))),)), instruction=None)


def loaded_by_elements(loop: For, vector: Vector) -> For:
    """The loop that loads the elements of *vector* that the iterations of *loop* that run need.

    An iteration may need the neighbour of its element, which an excluded iteration would have loaded.
    """
    assign, condition = assignment_of(loop)
    assert assign is not None
    others = {v.element for v in vectors_of(loop) if v is not vector}
    index = subtract(p.Variable(loop.iname), loop.start)
    loads: list[Assign | If] = []
    for element in _certain_reads(assign):
        by = None if element in others else _distance(loop, vector, element)
        if by is None:
            continue
        held = p.Subscript(p.Variable(vector.name), add(index, by))
        given = [] if condition is None else [condition]
        given += [_held(loop, by)] if by else []
        load = replace(assign, target=held, value=element, combine=None)
        loads.append(If(given[0] if len(given) == 1 else p.LogicalAnd(tuple(given)), Block((load,))) if given else load)
    return replace(loop, body=Block(tuple(loads)), instruction=None)


def _certain_reads(assign: Assign) -> dict[p.Subscript, None]:
    """The elements that *assign* reads whenever it runs."""
    index = assign.target.index_tuple if isinstance(assign.target, p.Subscript) else ()
    return dict.fromkeys(e for expr in (assign.value, *index) for e in certain_elements(expr))


def _distance(loop: For, vector: Vector, element: p.Subscript) -> int | None:
    """The number of iterations by which *element* is ahead of the elements of *vector*, if the vector has some of
    them.
    """
    if element.aggregate != vector.element.aggregate or element.index_tuple[:-1] != vector.element.index_tuple[:-1]:
        return None
    by = affine_difference(element.index_tuple[-1], vector.element.index_tuple[-1])
    assert isinstance(loop.start, int)
    assert isinstance(loop.stop, int)
    return by if by is not None and abs(by) < loop.stop - loop.start else None


def _neighbour(loop: For, vector: Vector, element: p.Subscript, otherwise: Expression) -> Expression:
    """*element* from the registers of *vector* in the iterations whose element is there, else *otherwise*."""
    by = _distance(loop, vector, element)
    if not by:
        return otherwise
    assert isinstance(loop.start, int)
    held = p.Subscript(p.Variable(vector.name), add(p.Variable(loop.iname), by - loop.start))
    return p.If(_held(loop, by), held, otherwise)


def _held(loop: For, by: int) -> p.Comparison:
    """The iterations for which the element that is *by* further than that of a vector is in its registers."""
    assert isinstance(loop.start, int)
    assert isinstance(loop.stop, int)
    x = p.Variable(loop.iname)
    return p.Comparison(x, "<", loop.stop - by) if by > 0 else p.Comparison(x, ">=", loop.start - by)


def registers(vector: Vector, loop: For, dtype: np.dtype, type_name: str) -> str:
    """The declaration of a vector's registers."""
    assert isinstance(loop.start, int)
    assert isinstance(loop.stop, int)
    return f"alignas({vector.length * dtype.itemsize}) {type_name} {vector.name}[{loop.stop - loop.start}];"


def moves(vector: Vector, loop: For, dtype: np.dtype, first: str, each: str, index: str, *, load: bool,
          policy: str = "") -> Iterator[str]:
    """The loads or stores of *vector* between memory and its registers.

    :arg first: the first element as text.
    :arg each: the element in terms of the loop's variable.
    :arg index: the type of the loop's variable.
    :arg policy: the function that loads or stores under the array's cache policy.
    """
    assert isinstance(loop.start, int)
    assert isinstance(loop.stop, int)
    moved = access_type(dtype, vector.length)

    def move(own: str, element: str) -> str:
        target, source = (own, f"&{element}") if load else (f"&{element}", own)
        if policy and not load:
            return f"{policy}(reinterpret_cast<{moved} *>({target}), *reinterpret_cast<const {moved} *>({source}));"
        value = f"reinterpret_cast<const {moved} *>({source})"
        value = f"{policy}({value})" if policy else f"*{value}"
        return f"*reinterpret_cast<{moved} *>({target}) = {value};"
    if loop.stop - loop.start == vector.length:
        yield move(vector.name, first)
        return
    x = loop.iname
    offset = x if loop.start == 0 else to_text(subtract(p.Variable(x), loop.start))
    yield "#pragma unroll"
    yield f"for ({index} {x} = {loop.start}; {x} < {loop.stop}; {x} += {vector.length})"
    yield f"    {move(f'&{vector.name}[{offset}]', each)}"


def _moved(printer: Printer, loop: For, access: VectorAccess, signs: Signs) -> Iterator[str]:
    """A loop with the vector loads before and the vector stores after it."""
    assign, condition = assignment_of(loop)
    assert assign is not None
    for i in assign.instructions:
        text = printer.text_of(i)
        if text is not None and text.vectors is not None and (lines := text.vectors(printer, loop, signs)) is not None:
            yield from lines
            return
    inside = signs.from_start(loop.iname, loop.start)
    dtypes = {v.name: printer.dtype_of(v.element) for v in access.vectors}
    for v in access.vectors:
        yield registers(v, loop, dtypes[v.name], printer.type_name(dtypes[v.name]))

    def moved(v: Vector, *, load: bool) -> Iterator[str]:
        first, each = printer.place(v.at(loop.iname, loop.start), signs), printer.place(v.element, inside)
        policy = printer.policy_load(v.array) if load else printer.policy_store(v.element)
        return moves(v, loop, dtypes[v.name], first, each, printer.index, load=load, policy=policy)
    emitter = printer.with_registers(dtypes)
    for v in access.vectors:
        if v.loaded and v.inside is None:
            yield from moved(v, load=True)
        elif v.loaded and v.inside is not None:
            yield f"if ({printer.condition(v.inside, signs)}) {{"
            yield from indented(moved(v, load=True))
            yield from or_else(list(emitter.loop(loaded_by_elements(loop, v), signs)))
    yield from emitter.loop(in_registers(loop), signs)
    for v in access.vectors:
        if v.stored and condition is None:
            yield from moved(v, load=False)
        elif v.stored and condition is not None:
            yield f"if ({printer.condition(for_all(condition, loop), signs)}) {{"
            yield from indented(moved(v, load=False))
            yield "}"
            if printer.annotate:
                yield "// otherwise one element at a time, each under its guard: a branch would hold up what follows"
            yield from emitter.loop(stored_by_elements(loop, v), signs)


CUDA = InstructionText(loop=_moved, assumes_layout=True)

# }}}
