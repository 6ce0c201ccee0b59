"""Where the loops over ``vec`` inames may move elements in vector accesses.

An element may if its last subscript is the iname and what does not depend on it, its other subscripts do not depend
on the iname at all, and the first of the loop's elements lies at a multiple of the vector's length: so it is by the
kernel's own numbers, or it depends on the sizes, strides and addresses of a call, and is assumed of them.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import data_params, expanded_expression
from loopkit.analysis.shapes import Shape, array_shapes
from loopkit.ast.nodes import (
    AlignedArray,
    Assign,
    Assumed,
    Block,
    Define,
    DivisibleSize,
    For,
    If,
    Node,
    Region,
    Vector,
)
from loopkit.ast.vectors import WIDEST, certain_elements
from loopkit.expr.mappers import subexpressions, substitute, variables
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import VecTag
from loopkit.lowering.binding import Launch
from loopkit.lowering.lanes import CutLanes, lanes_of, loops_of_one
from loopkit.lowering.storage import Storage
from loopkit.poly.affine import add, affine_difference, multiply, readable_comparison, subtract
from loopkit.poly.remainders import is_multiple, known_remainder

Names = Mapping[str, Expression]

#: Elements of one access, the widest first.
_LENGTHS = (16, 8, 4, 2)

_OPPOSITE = {"<": ">=", ">": "<=", ">=": "<"}


def vector_inames(knl: LoopKernel) -> frozenset[str]:
    """The inames that are tagged ``vec``."""
    return frozenset(x for x, tag in knl.tags.items() if isinstance(tag, VecTag))


def with_vectors(body: Block, knl: LoopKernel, launch: Launch, storages: Mapping[str, Storage],
                 cut: Mapping[str, CutLanes]) -> Block:
    """*body*, the program of *launch*, where loops over ``vec`` inames say which elements are moved together.

    :arg cut: what :func:`cut_statements` found.
    """
    if not vector_inames(knl):
        return body
    return _finder(knl, launch, storages, cut).block(body, {}, set())


def cut_statements(knl: LoopKernel, launch: Launch, storages: Mapping[str, Storage]) -> Mapping[str, CutLanes]:
    """The statements of *launch* whose domain cuts lanes off their vectors, which are loaded whole all the same.

    None whose sizes would have to be such that no lane is cut off: then its loads are vectors where all lanes are in.
    """
    inames = vector_inames(knl)
    if not inames:
        return {}
    result: dict[str, CutLanes] = {}
    finder = _finder(knl, launch, storages, {})
    for x, s in loops_of_one(launch.tree, inames):
        bound = launch.statements[s]
        target = bound.statement.assignee
        if bound.auto or bound.statement.predicates or bound.statement.atomic or bound.statement.asynchronous \
                or data_params(knl, bound.statement.domain):        # a guard may stand before what it asks for is known
            continue
        lanes = lanes_of(bound.domain, x, knl.assumptions)
        if lanes is None:
            continue
        assign = Assign(target, expanded_expression(knl, bound.statement), bound.statement.combine, s)
        loop = For(x, lanes.low, lanes.high + 1, 1, Block((assign,)))
        every, whole = (tuple(finder.vectors(loop, assign, {}, set(), cut)) for cut in (None, lanes))
        whole = tuple(v for v in whole if v.serves is None)
        given = [a for v in whole for a in v.assumed if isinstance(a, DivisibleSize)]
        rows_anywhere = any(_anywhere(a) for v in whole for a in v.assumed)
        if (rows_anywhere or any(v.loaded for v in whole)) and len(whole) == len(every) and lanes.are_cut(given):
            result[s] = lanes
    return result


def _finder(knl: LoopKernel, launch: Launch, storages: Mapping[str, Storage], cut: Mapping[str, CutLanes]) -> _Finder:
    shapes = array_shapes(knl)
    places = {name: _Place(np.dtype(a.dtype), shapes[name], AddressSpace.GLOBAL, argument=True)
              for name, a in knl.array_args.items() if name in shapes}
    places |= {name: _Place(s.dtype, s.shape, s.space) for name, s in storages.items()
               if s.space is not AddressSpace.PRIVATE}
    written = frozenset(bound.statement.written for bound in launch.statements.values())
    return _Finder(knl, vector_inames(knl), places, knl.value_params - set(launch.hosts), cut, written)


@dataclass(frozen=True)
class _Place:
    """The memory of an array; what is private lies in registers anyway and has none."""

    dtype: np.dtype
    shape: Shape
    space: AddressSpace
    argument: bool = False


@dataclass(frozen=True)
class _Finder:
    """Finds the vectors of one launch.

    :ivar sizes: the integer arguments, which a call's text is chosen by.
    :ivar cut: statements of whose vectors not all lanes are computed.
    :ivar written: the arrays that the launch writes.
    :ivar where: the conditions that hold.
    """

    kernel: LoopKernel
    inames: frozenset[str]
    places: Mapping[str, _Place]
    sizes: frozenset[str]
    cut: Mapping[str, CutLanes]
    written: frozenset[str]
    where: tuple[Expression, ...] = ()

    # {{{ the program

    def block(self, block: Block, names: Names, taken: set[str]) -> Block:
        """*block*, where *names* are the constants in scope and *taken* the names of registers."""
        result: list[Node] = []
        for node in block.children:
            if isinstance(node, Define):
                names = {**names, node.name: substitute(node.value, names)}
            result.append(self._node(node, names, taken))
        return Block(tuple(result))

    def _node(self, node: Node, names: Names, taken: set[str]) -> Node:
        match node:
            case For() if node.iname in self.inames:
                return self._lanes(node, names, taken)
            case For():
                inside = {x: value for x, value in names.items() if x != node.iname}
                if node.step != 1:
                    number = multiply(node.step, p.Variable(f"{node.iname}'"))
                    inside[node.iname] = add(substitute(node.start, names), number)
                return replace(node, body=self.block(node.body, inside, {*taken}))
            case If():
                otherwise = None if node.otherwise is None else self.block(node.otherwise, names, {*taken})
                inside_if = replace(self, where=(*self.where, substitute(node.condition, names)))
                return replace(node, then=inside_if.block(node.then, names, {*taken}), otherwise=otherwise)
            case Region():
                return replace(node, body=self.block(node.body, names, taken))  # a target may print it without braces
            case Block():
                return self.block(node, names, {*taken})
            case _:
                return node

    def _lanes(self, loop: For, names: Names, taken: set[str]) -> Node:
        """A loop over a ``vec`` iname; conditions that hold for all of it or nothing come before it."""
        match loop.body.children:
            case (If(otherwise=None) as guard,) if _same_for_all(guard.condition, loop.iname):
                inside = self._lanes(replace(loop, body=guard.then), names, {*taken})
                return replace(guard, then=Block((inside,)))
            case (If(otherwise=None, then=Block(children=(Assign() as assign,))),) if assign.statement in self.cut:
                cut = self.cut[assign.statement]
                return replace(loop, vectors=tuple(self.vectors(loop, assign, names, taken, cut)))
            case (*constants, Assign() as assign) if all(isinstance(c, Define) for c in constants):
                own: dict[str, Expression] = {}
                for c in constants:
                    assert isinstance(c, Define)
                    own[c.name] = substitute(c.value, own)
                assign = _with_names(assign, own)
                found = tuple(self.vectors(loop, assign, names, taken))
                if assign.asynchronous and len({v.length for v in found}) + 1 != len(found):
                    return replace(loop, body=Block((assign,)))     # element by element: no registers are between
                return replace(loop, body=Block((assign,)), vectors=found) if found else loop
            case _:
                return loop

    def vectors(self, loop: For, assign: Assign, names: Names, taken: set[str],
                cut: CutLanes | None = None) -> Iterator[Vector]:
        """The vectors of *loop*, in which *assign* stands; those that are loaded as a whole where lanes are *cut*."""
        reads = dict.fromkeys(certain_elements(assign.value))
        if isinstance(assign.target, p.Subscript):
            reads |= dict.fromkeys(e for i in assign.target.index_tuple for e in certain_elements(i))
        elements: list[Expression] = [*reads, *([assign.target] if assign.target not in reads else [])]
        found: list[Vector] = []
        for element in elements:
            if not isinstance(element, p.Subscript) or (assign.atomic and element == assign.target):
                continue
            stored = element == assign.target
            loaded = element in reads or (stored and assign.combine is not None)
            vector = self._vector(loop, element, names)
            if vector is not None and loaded and cut is not None:
                vector = self._whole(vector, loop, names, cut)
            if vector is not None:
                found.append(self._named(replace(vector, loaded=loaded, stored=stored), taken))
        yield from found
        lanes = cut if cut is not None else self.cut.get(assign.statement)
        for element in reads if lanes is not None else ():
            if element != assign.target and not any(_are_close(element, v.element, loop) for v in found if v.loaded):
                assert lanes is not None
                beside = [self._named(v, taken) for v in self._beside(loop, element, names, lanes, found)]
                found += beside
                yield from beside

    def _named(self, vector: Vector, taken: set[str]) -> Vector:
        name = self.kernel.fresh_name(f"{vector.array}_vec", *taken)
        taken.add(name)
        return replace(vector, name=name)

    # }}}

    # {{{ one element

    def _vector(self, loop: For, element: p.Subscript, names: Names) -> Vector | None:
        """*element* as a vector with the most elements an access, if it is one."""
        assert isinstance(element.aggregate, p.Variable)
        place = self.places.get(element.aggregate.name)
        if place is None or not _moves_by_one(element, loop.iname):
            return None
        assert isinstance(loop.start, int)
        assert isinstance(loop.stop, int)
        vector = Vector("", element, 0, loaded=False, stored=False)
        for length in _LENGTHS:
            if (loop.stop - loop.start) % length or length * place.dtype.itemsize > WIDEST:
                continue
            first = vector.at(loop.iname, loop.start)
            assumed = self._assumed(place, first, length, names)
            if assumed is None:
                assumed = self._counted(place, first, length, names)
            if assumed is not None:
                return replace(vector, length=length, assumed=assumed)
        return None

    def _beside(self, loop: For, element: p.Subscript, names: Names, cut: CutLanes, others: Sequence[Vector]
                ) -> Iterator[Vector]:
        """Vectors with what *element* is along *loop*, which begins at no multiple itself.

        One lies before it and one behind it; what is only one lane of *element* is left to a load of its own. They are
        loaded whole, wherever they lie in their array, and ask nothing of a call but what *others* do.
        """
        assert isinstance(loop.start, int)
        assert isinstance(loop.stop, int)
        count = loop.stop - loop.start
        given = {a for v in others for a in v.assumed}
        *rows, last = element.index_tuple
        found: dict[int, Vector] = {}
        for by in range(1 - count, count):
            vector = self._vector(loop, p.Subscript(element.aggregate, (*rows, add(last, by))), names) if by else None
            if vector is not None and count - abs(by) > 1:
                whole = self._whole(replace(vector, loaded=True, serves=element), loop, names, cut)
                if whole is not None and given.issuperset(whole.assumed):
                    found[by] = whole
        longest = max((v.length for v in found.values()), default=0)
        for ahead in (False, True):
            on_one_side = [by for by, v in found.items() if v.length == longest and (by > 0) == ahead]
            if on_one_side:
                yield found[min(on_one_side, key=abs)]

    def _whole(self, vector: Vector, loop: For, names: Names, cut: CutLanes) -> Vector | None:
        """*vector*, if all of it lies in its array wherever one lane is in, and nobody writes it in this launch.

        Rows of an array with several axes begin at multiples of a vector. That their length is one, if it is a size,
        is assumed with it: so it is, unless there is something between the rows.
        """
        assert isinstance(loop.stop, int)
        place = self.places[vector.array]
        extent = place.shape[-1]
        if not place.argument or vector.array in self.written or extent is None:
            return None
        first, last = (substitute(vector.at(loop.iname, at).index_tuple[-1], names)
                       for at in (loop.start, loop.stop - 1))
        if any(_anywhere(a) for a in vector.assumed):
            return self._overlapping(vector, loop, names, cut)
        choices: list[tuple[DivisibleSize, ...]] = [()]
        if len(place.shape) > 1 and isinstance(extent, p.Variable) and extent.name in self.sizes:
            choices.append((DivisibleSize(extent, vector.length),))
        given = next((g for g in choices if cut.lie_in(extent, first, last, g)), None)
        return None if given is None else replace(vector, assumed=(*vector.assumed, *given))

    def _overlapping(self, vector: Vector, loop: For, names: Names, cut: CutLanes) -> Vector | None:
        """*vector* with where all of it lies in its array, whose rows follow each other: it may overlap the next ones.

        So nothing is asked but in the first row and in the last. A vector that is longer than a row is none.
        """
        assert isinstance(loop.stop, int)
        shape = self.places[vector.array].shape
        extent = shape[-1]
        if extent is None:
            return None
        first, last = (vector.at(loop.iname, at).index_tuple for at in (loop.start, loop.stop - 1))
        ends = [(k, e) for k, e in enumerate(shape[:-1]) if e is not None]
        before = [*((first[k], ">", 0) for k, _ in ends), (first[-1], ">=", 0)]
        behind = [*((last[k], "<", subtract(e, 1)) for k, e in ends), (last[-1], "<", extent)]
        low, high = (substitute(index[-1], names) for index in (first, last))
        if not all(map(cut.have_none, [("<", add(low, extent)), (">=", subtract(high, multiply(2, extent)))])):
            return None
        parts: list[Expression] = []
        for inside in (before, behind):
            missed = [(_OPPOSITE[op], subtract(substitute(a, names), b)) for a, op, b in inside]
            if not cut.have_none(*missed, where=self.where):
                found = tuple(readable_comparison(a, op, b) for a, op, b in inside)
                parts.append(found[0] if len(found) == 1 else p.LogicalOr(found))
        if not parts:
            return vector
        return replace(vector, inside=parts[0] if len(parts) == 1 else p.LogicalAnd(tuple(parts)))

    def _counted(self, place: _Place, first: p.Subscript, length: int, names: Names) -> tuple[Assumed, ...] | None:
        """What makes *first* lie at a multiple of *length* although not each row does: all elements before it count."""
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
        strides: tuple[Expression, ...] = ()
        for extent in reversed(place.shape[1:]):
            assert extent is not None
            strides = (multiply(extent, strides[0]) if strides else extent, *strides)
        return (AlignedArray(first.aggregate.name, length, strides),)

    def _assumed(self, place: _Place, first: p.Subscript, length: int, names: Names) -> tuple[Assumed, ...] | None:
        """What makes *first* lie at a multiple of *length*; ``None`` if nothing does."""
        assert isinstance(first.aggregate, p.Variable)
        result: list[Assumed] = []
        if place.argument:
            result.append(AlignedArray(first.aggregate.name, length))
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

    # }}}


def _anywhere(assumed: Assumed) -> bool:
    """Do rows of the array begin at no multiples of a vector?"""
    return isinstance(assumed, AlignedArray) and bool(assumed.strides)


def _are_close(element: p.Subscript, other: p.Subscript, loop: For) -> bool:
    """Is some of *element* along *loop* some of *other*, which is in the same row of the same array?"""
    assert isinstance(loop.start, int)
    assert isinstance(loop.stop, int)
    if element.aggregate != other.aggregate or element.index_tuple[:-1] != other.index_tuple[:-1]:
        return False
    by = affine_difference(element.index_tuple[-1], other.index_tuple[-1])
    return by is not None and abs(by) < loop.stop - loop.start


def _moves_by_one(element: p.Subscript, iname: str) -> bool:
    """Does the next value of *iname* have the next element of the same row?"""
    *rows, last = element.index_tuple
    if any(iname in variables(i) for i in rows) or iname not in variables(last):
        return False
    following = substitute(last, {iname: p.Sum((p.Variable(iname), 1))})
    return affine_difference(following, last) == 1


def _remainder(offset: Expression, length: int) -> Expression:
    """What *offset* has beside multiples of *length*."""
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


def _same_for_all(condition: Expression, iname: str) -> bool:
    """Is *condition* the same for all of a loop over *iname*, whatever the loop writes?"""
    return iname not in variables(condition) and not any(isinstance(e, p.Subscript) for e in subexpressions(condition))


def _with_names(assign: Assign, names: Names) -> Assign:
    """*assign* with the values of constants in their places."""
    target = substitute(assign.target, names)
    assert isinstance(target, p.Variable | p.Subscript)
    instance = tuple((x, substitute(value, names)) for x, value in assign.instance)
    return replace(assign, target=target, value=substitute(assign.value, names), instance=instance)
