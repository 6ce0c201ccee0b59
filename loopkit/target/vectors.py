"""Vector loads and stores as CUDA text: elements go through small arrays, which stay in registers."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from textwrap import wrap

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import AlignedArray, Assign, Assumed, Block, DivisibleSize, For, If
from loopkit.expr.mappers import map_children
from loopkit.expr.text import to_text
from loopkit.instructions.vector_access import (
    Vector,
    VectorAccess,
    assignment_of,
    certain_elements,
    for_all,
    vectors_of,
)
from loopkit.poly.affine import add, affine_difference, subtract

#: The built-in type that is moved, by the bytes of an access: of some dtypes their own, for all else its bits.
_OWN = {("float32", 8): "float2", ("float32", 16): "float4", ("float64", 16): "double2", ("complex64", 16): "float4",
        ("int32", 8): "int2", ("int32", 16): "int4"}
_BITS = {2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}

#: Characters of a line of a comment.
_WIDTH = 107


def access_type(dtype: np.dtype, length: int) -> str:
    """The type by which *length* elements of *dtype* are moved at once."""
    size = length * dtype.itemsize
    return _OWN.get((dtype.name, size), _BITS[size])


def assumption_lines(assumed: tuple[Assumed, ...], sizes: Mapping[str, int]) -> Iterator[str]:
    """What a reader is told of them; *sizes* are the bytes of an element of each array."""
    by_bytes: dict[tuple[int, str], list[str]] = {}
    for a in assumed:
        if isinstance(a, AlignedArray):
            rows = "rows without gaps" if a.strides else "row by row"
            by_bytes.setdefault((a.elements * sizes[a.array], rows), []).append(a.array)
    parts = [f"{', '.join(names)} at multiples of {count} bytes, {rows}" for (count, rows), names in by_bytes.items()]
    parts += [f"{to_text(a.size)} is a multiple of {a.divisor}" for a in assumed if isinstance(a, DivisibleSize)]
    if parts:
        text = f"vector accesses: {'; '.join(parts)}; other calls run a text without them"
        yield from wrap(text, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def in_registers(loop: For) -> For:
    """*loop* with its vectors' elements in their registers, which count from the first iteration.

    Neighbours of what is loaded, and not written, are taken from there too as far as they are. What may not be read is
    not there if lanes load it. Registers hold what iterations compute that a condition leaves out, where that does no
    harm: then there is nothing to branch for.
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


def lane_by_lane(loop: For, vector: Vector) -> For:
    """The loop that stores *vector* of *loop*, element by element, in the lanes that are in, where not all of them are.

    Each store has all of its condition to itself: it is a predicate then, and no branch that keeps the loads of what
    follows behind it.
    """
    assign, condition = assignment_of(loop)
    assert assign is not None
    assert condition is not None
    held = p.Subscript(p.Variable(vector.name), subtract(p.Variable(loop.iname), loop.start))
    store = replace(assign, target=vector.element, value=held, combine=None)
    own = condition.children if isinstance(condition, p.LogicalAnd) else (condition,)
    alone = p.LogicalAnd((p.LogicalNot(for_all(condition, loop)), *own))
    return replace(loop, body=Block((If(alone, Block((store,))),)), instruction=None)


def loaded_by_lanes(loop: For, vector: Vector) -> For:
    """The loop that loads *vector* of *loop*, element by element, as far as a lane that is in needs it.

    That may be an element beside its own, which a lane that is not in would have loaded.
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
    """The elements that *assign* reads wherever it runs."""
    index = assign.target.index_tuple if isinstance(assign.target, p.Subscript) else ()
    return dict.fromkeys(e for expr in (assign.value, *index) for e in certain_elements(expr))


def _distance(loop: For, vector: Vector, element: p.Subscript) -> int | None:
    """By how many iterations what *vector* has is ahead of *element*, if it has some of it."""
    if element.aggregate != vector.element.aggregate or element.index_tuple[:-1] != vector.element.index_tuple[:-1]:
        return None
    by = affine_difference(element.index_tuple[-1], vector.element.index_tuple[-1])
    assert isinstance(loop.start, int)
    assert isinstance(loop.stop, int)
    return by if by is not None and abs(by) < loop.stop - loop.start else None


def _neighbour(loop: For, vector: Vector, element: p.Subscript, otherwise: Expression) -> Expression:
    """*element*, from the registers of *vector* in the iterations whose element is there, in others *otherwise*."""
    by = _distance(loop, vector, element)
    if not by:
        return otherwise
    assert isinstance(loop.start, int)
    held = p.Subscript(p.Variable(vector.name), add(p.Variable(loop.iname), by - loop.start))
    return p.If(_held(loop, by), held, otherwise)


def _held(loop: For, by: int) -> p.Comparison:
    """The iterations whose element, *by* further than that of a vector, is in its registers."""
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
          streaming: bool = False, loader: str = "") -> Iterator[str]:
    """All of *vector* between memory and its registers.

    :arg first: the first element as text; *each*: the element in terms of the loop's variable, of which *index* is the
        type.
    :arg streaming: caches evict first what is stored; *loader*: the function that loads what they evict last.
    """
    assert isinstance(loop.start, int)
    assert isinstance(loop.stop, int)
    moved = access_type(dtype, vector.length)

    def move(own: str, element: str) -> str:
        target, source = (own, f"&{element}") if load else (f"&{element}", own)
        if streaming and not load:
            return f"__stcs(reinterpret_cast<{moved} *>({target}), *reinterpret_cast<const {moved} *>({source}));"
        value = f"reinterpret_cast<const {moved} *>({source})"
        value = f"{loader}({value})" if loader and load else f"*{value}"
        return f"*reinterpret_cast<{moved} *>({target}) = {value};"
    if loop.stop - loop.start == vector.length:
        yield move(vector.name, first)
        return
    x = loop.iname
    offset = x if loop.start == 0 else to_text(subtract(p.Variable(x), loop.start))
    yield "#pragma unroll"
    yield f"for ({index} {x} = {loop.start}; {x} < {loop.stop}; {x} += {vector.length})"
    yield f"    {move(f'&{vector.name}[{offset}]', each)}"
