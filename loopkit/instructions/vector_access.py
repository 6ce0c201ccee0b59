"""Vector access: a thread loads or stores consecutive elements at once.

The instruction belongs to a loop over the elements. The loop defines its result, element by element. A target loads and
stores the elements of each :class:`Vector` before and after the loop, several elements an access.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.assumed import Assumed
from loopkit.ast.nodes import Assign, Block, For, If, Instruction
from loopkit.ast.value_ranges import ValueRanges
from loopkit.expr.mappers import array_of, children, conjunction, conjuncts, map_children, substitute, variables
from loopkit.expr.nodes import to_text
from loopkit.instructions.base import OPENCL_MEMORIES, WIDEST, InstructionText, Printer, if_else
from loopkit.kernel.data import AddressSpace
from loopkit.poly.affine import add, affine_difference, readable_comparison, subtract


@dataclass(frozen=True)
class Vector:
    """The elements that a loop accesses by one subscript of its body, *loaded* before and *stored* after the loop.

    :ivar name: the name of the registers that hold them.
    :ivar element: the access in the body, whose subscript grows by 1 with the loop's variable.
    :ivar length: elements of one access; the first element of the loop is a multiple of it.
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
        return array_of(self.element)

    def at(self, iname: str, value: Expression) -> p.Subscript:
        """The element at the iteration *value* of the loop over *iname*."""
        index = tuple(add(substitute(i, {iname: value})) for i in self.element.index_tuple)
        return p.Subscript(self.element.aggregate, index)

    def __str__(self) -> str:
        verb = " and ".join(word for word, done in (("loaded", self.loaded), ("stored", self.stored)) if done)
        assuming = f", assuming {', '.join(map(str, self.assumed))}" if self.assumed else ""
        where = f" where {to_text(self.inside)}" if self.inside is not None else ""
        read = f" for {to_text(self.serves)}" if self.serves is not None else ""
        return f"{to_text(self.element)} as {self.name} {verb} {self.length} at a time{read}{where}{assuming}"


@dataclass(frozen=True)
class VectorAccess(Instruction):
    """The vector loads before a loop and the vector stores after it.

    :ivar vectors: the loaded and stored elements.
    :ivar computes_all: iterations that a condition excludes may be computed too, because the elements that they read
        exist; their results are not stored.
    :ivar copied: for copies that fill with zeros: the number of elements of a vector that exist, from its first one,
        at the iteration of the first one. ``None``: all exist.
    """

    vectors: tuple[Vector, ...]
    computes_all: bool = False
    copied: Expression | None = None

    noun: ClassVar[str] = "a vector access"

    @property
    def titles(self) -> tuple[str, ...]:
        return (*map(str, self.vectors), *(("all iterations are computed",) if self.computes_all else ()),
                *((f"of each vector {to_text(self.copied)} elements, then zeros",) if self.copied is not None else ()))

    @property
    def assumed(self) -> tuple[Assumed, ...]:
        return tuple(a for v in self.vectors for a in v.assumed)

    @property
    def alignments(self) -> Mapping[str, int]:
        return dict.fromkeys((v.array for v in self.vectors), WIDEST)


def vectors_of(loop: For) -> tuple[Vector, ...]:
    """The vectors loaded and stored around *loop*."""
    return loop.instruction.vectors if isinstance(loop.instruction, VectorAccess) else ()


def copied_by(loop: For) -> Expression | None:
    """The number of elements of each vector of *loop* that exist, if copies fill the others with zeros."""
    return loop.instruction.copied if isinstance(loop.instruction, VectorAccess) else None


def with_vector_access(loop: For, vectors: tuple[Vector, ...], *, computes_all: bool = False) -> For:
    """*loop* with *vectors* loaded and stored around it."""
    return replace(loop, instruction=VectorAccess(vectors, computes_all) if vectors else None)


def assignment_of(loop: For) -> tuple[Assign | None, Expression | None]:
    """The assignment in *loop*, if it has only one, and its condition."""
    match loop.body.children:
        case (Assign() as assign,):
            return assign, None
        case (If(condition=condition, then=Block(children=(Assign() as assign,)), otherwise=None),):
            return assign, condition
        case _:
            return None, None


def iterations(loop: For) -> range:
    """The values of the variable of *loop*, which has a constant trip count."""
    assert isinstance(loop.start, int)
    assert isinstance(loop.stop, int)
    return range(loop.start, loop.stop)


def for_all(condition: Expression, loop: For) -> Expression:
    """The condition that *condition* holds for all iterations of *loop*."""
    every = iterations(loop)
    result: dict[Expression, None] = {}
    for part in conjuncts(condition):
        growth = slack_rise(part, loop.iname)
        elements = every if growth is None else every[:1] if growth > 0 else every[-1:]
        result.update((condition_at(part, loop.iname, x), None) for x in elements)
    return conjunction(tuple(result))


def slack_rise(condition: Expression, iname: str) -> int | None:
    """The growth of the slack of *condition* with the next value of *iname*, if that is constant."""
    match condition:
        case p.LogicalOr(children=(*others, last)) if not any(iname in variables(c) for c in others):
            return slack_rise(last, iname)
        case p.Comparison(operator="<" | "<=", left=low, right=high) \
                | p.Comparison(operator=">" | ">=", left=high, right=low):
            return rise(subtract(high, low), iname)
        case _:
            return None


def rise(expr: Expression, iname: str) -> int | None:
    """The growth of *expr* with the next value of *iname*, if that is constant."""
    return affine_difference(substitute(expr, {iname: p.Sum((p.Variable(iname), 1))}), expr)


def condition_at(expr: Expression, iname: str, value: Expression) -> Expression:
    """The condition *expr* at the iteration *value* of a loop over *iname*."""
    match expr:
        case p.LogicalOr() | p.LogicalAnd():
            return map_children(expr, lambda part: condition_at(part, iname, value))
        case p.Comparison():
            left, right = (add(substitute(side, {iname: value})) for side in (expr.left, expr.right))
            return readable_comparison(left, expr.operator, right)
        case _:
            return substitute(expr, {iname: value})


def must_read_elements(expr: Expression) -> Iterator[p.Subscript]:
    """The elements that *expr* reads independently of their values, the inner ones first."""
    match expr:
        case p.If():
            yield from must_read_elements(expr.condition)
        case p.LogicalAnd() | p.LogicalOr():
            yield from must_read_elements(expr.children[0])
        case p.Subscript():
            for i in expr.index_tuple:
                yield from must_read_elements(i)
            yield expr
        case _:
            for child in children(expr):
                yield from must_read_elements(child)


def copied_element(value: Expression) -> tuple[p.Subscript, Expression | None] | None:
    """The element that *value* copies and the condition under which it does so; otherwise *value* is 0.

    ``None``: *value* is something else.
    """
    match value:
        case p.Subscript():
            return value, None
        case p.If(condition=condition, then=then, else_=other) if is_zero(other):
            inner = copied_element(then)
            return inner and (inner[0], conjunction((*conjuncts(condition), *(
                () if inner[1] is None else conjuncts(inner[1])))))
        case _:
            return None


def is_zero(value: Expression) -> bool:
    """Is *value* the number whose bits are all 0 in each dtype?"""
    return isinstance(value, int | float | np.number | np.bool_) and value == 0 and not np.signbit(float(value))


# CUDA: elements go through small arrays, which stay in registers

@dataclass(frozen=True)
class VectorForm:
    """The spelling of vectors in one language.

    :ivar registers: the declaration of a small array, from its type, name and extent, and its alignment in bytes.
    :ivar pointer: a pointer to a vector, from its constness, the dtype and number of its elements, the memory that they
        are in, and the pointer to the first one.
    """

    registers: Callable[[str, int], str]
    pointer: Callable[[str, np.dtype, int, AddressSpace, str], str]


#: CUDA's built-in type of an access by dtype and bytes; for other dtypes, an unsigned type by bytes.
_OWN = {("float32", 8): "float2", ("float32", 16): "float4", ("float64", 16): "double2", ("complex64", 16): "float4",
        ("int32", 8): "int2", ("int32", 16): "int4"}
_BITS = {2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}


def in_registers(loop: For) -> For:
    """*loop* with the elements of its vectors in registers, indexed from the first iteration.

    Neighbours of loaded elements also come from registers if these hold them and no iteration writes them. This does
    not apply to a vector that may be loaded element by element. An excluded iteration is computed into registers if it
    has no effect, so that there is no branch.
    """
    assign, condition = assignment_of(loop)
    assert assign is not None
    loaded = [v for v in vectors_of(loop) if v.array != array_of(assign.target)]
    read = must_reads(assign)
    held = {v.element: _held(loop, v, 0) for v in vectors_of(loop)}

    def moved(expr: Expression) -> Expression:
        if not isinstance(expr, p.Subscript):
            return map_children(expr, moved)
        place: Expression = held.get(expr, expr)
        if place is expr:
            for v in loaded:
                if (v.inside is None or expr in read) and (by := distance(loop, v, expr)):
                    place = p.If(_is_held(loop, by), _held(loop, v, by), place)
        return map_children(expr, moved) if place is expr else place
    target = moved(assign.target)
    assert isinstance(target, p.Variable | p.Subscript)
    body = Block((replace(assign, target=target, value=moved(assign.value)),))
    if condition is not None and not (isinstance(loop.instruction, VectorAccess) and loop.instruction.computes_all):
        body = Block((If(condition, body),))
    return replace(loop, body=body, instruction=None)


def stored_by_elements(loop: For, vector: Vector) -> For:
    """The loop that stores the elements of *vector* in the executed iterations of *loop*, if some are not executed.

    Each store has the full condition: so it is predicated, and no branch delays later loads.
    """
    assign, condition = assignment_of(loop)
    assert assign is not None
    assert condition is not None
    store = replace(assign, target=vector.element, value=_held(loop, vector, 0), combine=None)
    alone = p.LogicalAnd((p.LogicalNot(for_all(condition, loop)), *conjuncts(condition)))
    return replace(loop, body=Block((If(alone, Block((store,))),)), instruction=None)


def loaded_by_elements(loop: For, vector: Vector) -> For:
    """The loop that loads the elements of *vector* for the executed iterations of *loop*.

    An iteration may need the neighbour of its element, which an excluded iteration would have loaded.
    """
    assign, condition = assignment_of(loop)
    assert assign is not None
    others = {v.element for v in vectors_of(loop) if v is not vector}
    loads: list[Assign | If] = []
    copied = copied_element(assign.value)
    for element, where in {**dict.fromkeys(must_reads(assign)), **dict([copied] if copied else [])}.items():
        by = None if element in others else distance(loop, vector, element)
        if by is not None:
            load = replace(assign, target=_held(loop, vector, by), value=element, combine=None)
            given = (*(e for e in (condition, where) if e is not None), *((_is_held(loop, by),) if by else ()))
            loads.append(If(conjunction(given), Block((load,))) if given else load)
    return replace(loop, body=Block(tuple(loads)), instruction=None)


def must_reads(assign: Assign) -> dict[p.Subscript, None]:
    """The elements that *assign* reads whenever it runs."""
    index = assign.target.index_tuple if isinstance(assign.target, p.Subscript) else ()
    return dict.fromkeys(e for expr in (assign.value, *index) for e in must_read_elements(expr))


def distance(loop: For, vector: Vector, element: p.Subscript) -> int | None:
    """The number of iterations by which *element* is ahead of those of *vector*; ``None``: it is not among them."""
    if element.aggregate != vector.element.aggregate or element.index_tuple[:-1] != vector.element.index_tuple[:-1]:
        return None
    by = affine_difference(element.index_tuple[-1], vector.element.index_tuple[-1])
    return by if by is not None and abs(by) < len(iterations(loop)) else None


def _held(loop: For, vector: Vector, by: int) -> p.Subscript:
    """The register of the element that is *by* further than that of *vector*."""
    return p.Subscript(p.Variable(vector.name), add(p.Variable(loop.iname), by - iterations(loop).start))


def _is_held(loop: For, by: int) -> p.Comparison:
    """The iterations for which the element that is *by* further than that of a vector is in its registers."""
    x, every = p.Variable(loop.iname), iterations(loop)
    return p.Comparison(x, "<", every.stop - by) if by > 0 else p.Comparison(x, ">=", every.start - by)


def in_steps(printer: Printer, loop: For, length: int, bounds: ValueRanges,
             move: Callable[[Expression, ValueRanges], str]) -> Iterator[str]:
    """The lines of *move* for each *length* iterations of *loop*; its argument is the first of these iterations."""
    x, every = loop.iname, iterations(loop)
    if len(every) == length:
        yield move(every.start, bounds)
        return
    yield "#pragma unroll"
    yield f"for ({printer.index} {x} = {every.start}; {x} < {every.stop}; {x} += {length})"
    yield f"    {move(p.Variable(x), bounds.inside(loop))}"


def _moves(form: VectorForm, printer: Printer, loop: For, vector: Vector, bounds: ValueRanges, *, load: bool
           ) -> Iterator[str]:
    """The loads or stores of *vector* between memory and its registers."""
    dtype = printer.dtype_of(vector.element)
    memory = printer.memory_of(vector.element)
    policy = printer.policy(vector.array, load=load)

    def move(at: Expression, inside: ValueRanges) -> str:
        offset = subtract(at, loop.start)
        own = vector.name if offset == 0 else f"&{vector.name}[{to_text(offset)}]"
        element = f"&{printer.place(vector.at(loop.iname, at), inside)}"
        places = ((AddressSpace.PRIVATE, own), (memory, element))
        target, value = (form.pointer(const, dtype, vector.length, *place) for const, place in zip(
            ("", "const "), places if load else places[::-1], strict=True))
        if policy and not load:
            return f"{policy}({target}, *{value});"
        return f"*{target} = {policy}({value});" if policy else f"*{target} = *{value};"
    return in_steps(printer, loop, vector.length, bounds, move)


def _loop_with_vectors(form: VectorForm, printer: Printer, loop: For, access: VectorAccess, bounds: ValueRanges
                       ) -> Iterator[str]:
    """A loop with the vector loads before and the vector stores after it."""
    assign, condition = assignment_of(loop)
    assert assign is not None
    for i in assign.instructions:
        text = printer.text_of(i)
        if text is not None and text.vectors is not None and (lines := text.vectors(printer, loop, bounds)) is not None:
            yield from lines
            return
    dtypes = {v.name: printer.dtype_of(v.element) for v in access.vectors}
    for v in access.vectors:
        dtype = dtypes[v.name]
        yield form.registers(f"{printer.type_name(dtype)} {v.name}[{len(iterations(loop))}]",
                             v.length * dtype.itemsize)
    emitter = printer.with_registers(dtypes)
    for v in access.vectors:
        if v.loaded:
            loads = _moves(form, printer, loop, v, bounds, load=True)
            yield from loads if v.inside is None else if_else(
                printer.condition(v.inside, bounds), loads, emitter.loop(loaded_by_elements(loop, v), bounds))
    yield from emitter.loop(in_registers(loop), bounds)
    for v in access.vectors:
        if v.stored and condition is None:
            yield from _moves(form, printer, loop, v, bounds, load=False)
        elif v.stored and condition is not None:
            yield from if_else(printer.condition(for_all(condition, loop), bounds),
                               _moves(form, printer, loop, v, bounds, load=False))
            if printer.annotate:
                yield "// otherwise one element at a time, each under its guard: a branch would hold up what follows"
            yield from emitter.loop(stored_by_elements(loop, v), bounds)


def _pointer_in_cuda(const: str, dtype: np.dtype, length: int, _: AddressSpace, first: str) -> str:
    size = length * dtype.itemsize
    return f"reinterpret_cast<{const}{_OWN.get((dtype.name, size), _BITS[size])} *>({first})"


CUDA = InstructionText(loop=partial(_loop_with_vectors, VectorForm(
    lambda array, align: f"alignas({align}) {array};", _pointer_in_cuda)), assumes_layout=True)


# OpenCL: the vectors have the type of their elements

_OPENCL_ELEMENTS = {"float32": "float", "float64": "double", "complex64": "float", **{
    f"{sign}int{bits}": f"{sign}{name}" for sign in ("", "u")
    for bits, name in ((8, "char"), (16, "short"), (32, "int"), (64, "long"))}}


def _pointer_in_opencl(const: str, dtype: np.dtype, length: int, memory: AddressSpace, first: str) -> str:
    element = _OPENCL_ELEMENTS.get(dtype.name) or f"u{_OPENCL_ELEMENTS[f'int{8 * dtype.itemsize}']}"
    return f"({OPENCL_MEMORIES[memory]}{const}{element}{2 * length if dtype.kind == 'c' else length} *){first}"


OPENCL = InstructionText(loop=partial(_loop_with_vectors, VectorForm(
    lambda array, align: f"{array} __attribute__((aligned({align})));", _pointer_in_opencl)), assumes_layout=True)
