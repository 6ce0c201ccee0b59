"""The stage ``vectors``: finds the elements that vector accesses can move around the loops over ``vec`` inames.

A vector access loads or stores an element under three conditions. Its last subscript is the iname plus terms without
the iname. Its other subscripts do not depend on the iname. The first element of the loop is aligned to the vector's
length, or aligned neighbouring vectors cover it. The alignment follows from the kernel's constants, or it is assumed of
the sizes, strides and addresses of a call.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_of, data_params, expanded_expression
from loopkit.analysis.shapes import array_shapes
from loopkit.ast.assumed import DivisibleSize
from loopkit.ast.nodes import Assign, Block, Call, Define, For, If, Node, Region, Sync, Tiles, completion_of
from loopkit.ast.walk import nodes_in
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import array_of, conjunction, conjuncts, subexpressions, substitute, variables
from loopkit.expr.nodes import NumberOperation
from loopkit.instructions.base import MemoryInstruction, sizes_of
from loopkit.instructions.simd_loop import SimdLoop
from loopkit.instructions.vector_access import (
    Vector,
    assignment_of,
    distance,
    must_reads,
    vectors_of,
    with_vector_access,
)
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import is_at_once, is_simd
from loopkit.kernel.tree import Leaf, loops_in
from loopkit.lowering.lowered import GRID, BoundStatement, Launch, PartialVectors
from loopkit.lowering.stored import Storage, in_storage
from loopkit.lowering.vector_elements import LENGTHS, ArrayMemory, Elements, anywhere, known_where, partial_vectors_of
from loopkit.poly.affine import add, affine_difference, multiply
from loopkit.poly.relations import differing, in_one_iteration, same_element
from loopkit.poly.sets import InstanceSet, Set, range_condition, universe_params


def vector_inames(knl: LoopKernel) -> frozenset[str]:
    """The inames that are tagged ``vec``."""
    return frozenset(x for x, tag in knl.tags.items() if is_at_once(tag) and not is_simd(tag))


def with_vectors(body: Block, launch: Launch, storages: Mapping[str, Storage]) -> Block:
    """*body*, the program of *launch*, where loops over ``vec`` inames carry their vector accesses."""
    if not any(map(is_at_once, launch.kernel.tags.values())):
        return body
    for loop in loops_in(launch.tree):
        if is_simd(launch.kernel.tags.get(loop.iname)) and isinstance(loop.body, Leaf):
            _require_simd(launch.kernel, loop.iname, launch.statements[loop.body.statement].statement, storages)
    partial = {s: bound.partial for s, bound in launch.statements.items() if bound.partial is not None}
    result = replace(_finder(launch, storages, partial), where=_hardware_ranges(launch)).block(body)
    _require_sizes(result, storages)
    return result


def _require_sizes(body: Block, storages: Mapping[str, Storage]) -> None:
    """Check that each instruction serves an element or a vector of its statement in *body*.

    :raises PreconditionError: one serves none, because no vector is aligned or full.
    """
    vectors = {assign.statement for node in nodes_in(body) if isinstance(node, For) and vectors_of(node)
               for assign in [assignment_of(node)[0]] if assign is not None}
    for node in nodes_in(body):
        if isinstance(node, Assign) and node.statement not in vectors and (sizes := sizes_of(node.instructions)):
            storage = storages.get(array_of(node.target))
            if storage is not None and storage.dtype.itemsize not in sizes:
                for i in node.instructions:
                    if isinstance(i, MemoryInstruction):
                        i.refuse_size(node.statement, storage.dtype)


def _require_simd(knl: LoopKernel, iname: str, s: Statement, storages: Mapping[str, Storage]) -> None:
    """Check that the iterations of a loop over the ``cpu.simd`` iname *iname* can run *s* at once.

    The order of the accesses to arguments is proven with the tag. Cells of temporaries are known only now.

    :raises PreconditionError: they are atomic updates, access one cell, or combine values by an operation that OpenMP
        lacks.
    """
    node = knl.reduction_of.get(s.id)
    own, why = node is not None and iname in node.inames and s.id in node.updates, ""
    if s.commutes:
        why = "updates elements atomically, and the iterations of a SIMD loop cannot wait for each other"
    elif own and node is not None and not isinstance(knl.operation(node.operation), NumberOperation):
        why = f"combines values by '{node.operation}', which OpenMP lacks"
    elif not own and s.written in storages:
        *found, written = (storages[s.written].accessed_cells(a) for a in accesses_of(knl, s) if a.array == s.written)
        place = s.inames.index(iname)
        around = [(k, k) for k, x in enumerate(s.inames) if x != iname]
        if any(differing(in_one_iteration(same_element(written, other), around), [(place, place)]) is not None
               for other in (*found, written)):
            why = f"writes a cell of '{s.written}' that another iteration accesses"
    if why:
        raise PreconditionError(f"'{s.id}' {why}: '{iname}' cannot have the tag 'cpu.simd'.", subject=iname,
                                hint=f"untag_inames(knl, '{iname}')")


def with_partial_vectors(launch: Launch, storages: Mapping[str, Storage]) -> Launch:
    """*launch* with the partial vectors of its statements, if they are loaded whole.

    A statement has none if its vectors need sizes for which all vectors are full; then all of its loads are whole.
    """
    inames = vector_inames(launch.kernel)
    if not inames:
        return launch
    finder = _finder(launch, storages, {})
    found = {s: _partial_vectors(finder, launch.statements[s], x, storages)
             for x, s in ((loop.iname, loop.body.statement) for loop in loops_in(launch.tree)
                          if loop.iname in inames and isinstance(loop.body, Leaf))}
    return replace(launch, statements={s: replace(bound, partial=found.get(s))
                                       for s, bound in launch.statements.items()})


def _partial_vectors(finder: _VectorFinder, bound: BoundStatement, iname: str, storages: Mapping[str, Storage]
                     ) -> PartialVectors | None:
    knl, s = finder.kernel, bound.statement
    if bound.auto or s.predicates or s.instructions or data_params(knl, s.domain):
        return None                         # a guard may precede the values that it depends on
    cut = partial_vectors_of(knl, bound.domain, iname)
    if cut is None:
        return None
    target = in_storage(s.assignee, storages)
    assert isinstance(target, p.Variable | p.Subscript)
    assign = Assign(target, in_storage(expanded_expression(knl, s), storages), s.combine, s.id)
    loop = For(iname, cut.low, cut.high + 1, 1, Block((assign,)))
    every, found = finder.vectors(loop, assign), finder.vectors(loop, assign, cut)
    whole = [v for v in found if v.serves is None]
    assumed = [a for v in whole for a in v.assumed]
    given = [a for a in assumed if isinstance(a, DivisibleSize)]
    loaded = any(map(anywhere, assumed)) or any(v.loaded for v in whole)

    def is_kept(v: Vector) -> bool:
        """Do partial vectors have *v*, or a longer one with elements of it?"""
        return any(w.element == v.element or (w.loaded and v.length < w.length
                                              and distance(loop, w, v.element) is not None) for w in found)
    return cut if loaded and all(map(is_kept, every)) and cut.are_partial(given) else None


def _hardware_ranges(launch: Launch) -> Set:
    """The least and the greatest values of the hardware's inames in *launch*."""
    known = universe_params()
    for x, own in launch.mapping.ranges.items():
        if own is not None:
            known = known.intersect(range_condition(x, *own))
    for axis, extent in launch.mapping.extents.items():
        known = known.intersect(range_condition(axis, 0, extent - 1 if isinstance(extent, int) else None))
    for x, value in launch.mapping.coordinates.items():
        for least in (affine_difference(value, p.Variable(axis)) for axis in GRID):
            if least is not None:
                known = known.intersect(range_condition(x, least))
    return known


def _finder(launch: Launch, storages: Mapping[str, Storage], partial: Mapping[str, PartialVectors]) -> _VectorFinder:
    knl = launch.kernel
    shapes = array_shapes(knl)
    places = {name: ArrayMemory(np.dtype(a.dtype), shapes[name], argument=True)
              for name, a in knl.array_args.items() if name in shapes}
    places |= {name: ArrayMemory(s.dtype, s.in_memory, most=LENGTHS[0] if s.swizzle is None else s.swizzle.chunk)
               for name, s in storages.items()
               if s.space not in (AddressSpace.PRIVATE, AddressSpace.CONSTANT) and not s.temporary.between_blocks}
    written = frozenset(bound.statement.written for bound in launch.statements.values())
    sizes = knl.value_params.difference(launch.hosts)
    return _VectorFinder(knl, places, sizes, written, universe_params(), {}, partial, set())


@dataclass(frozen=True)
class _VectorFinder(Elements):
    """Finds the vectors of one launch; *partial*: those of statements; *taken*: the names of registers in scope."""

    partial: Mapping[str, PartialVectors]
    taken: set[str]

    def inside(self) -> _VectorFinder:
        """This finder in braces, which are a scope for the names of registers."""
        return replace(self, taken={*self.taken})

    def block(self, block: Block) -> Block:
        """*block*, where loops over ``vec`` inames carry their vector accesses."""
        here, result = self, list[Node]()
        for node in block.children:
            if isinstance(node, Define):
                here = replace(here, names={**here.names, node.name: substitute(node.value, here.names)})
            result.append(here.node(node))
        return Block(tuple(result))

    def node(self, node: Node) -> Node:
        match node:
            case For() if node.instruction is not None:     # the instruction loads its own elements
                return node
            case For() if is_simd(self.kernel.tags.get(node.iname)):
                return replace(node, instruction=SimdLoop())
            case For() if is_at_once(self.kernel.tags.get(node.iname)):
                return self._single_elements(node)
            case For():
                return replace(node, body=self._in_loop(node).block(node.body))
            case If() if (loop := self._without_guard(node)) is not None:
                return loop
            case If():
                otherwise = None if node.otherwise is None else self.inside().block(node.otherwise)
                where = known_where(self.where, substitute(node.condition, self.names))
                return replace(node, then=replace(self.inside(), where=where).block(node.then), otherwise=otherwise)
            case Region() if node.instruction is not None and node.instruction.operands:
                return node                                     # it loads its own elements
            case Region():
                return replace(node, body=self.block(node.body))    # a target may print it without braces
            case Tiles(body):
                return replace(node, body=self.inside().block(body))
            case Block():
                return self.inside().block(node)
            case Assign() | Define() | Sync() | Call():
                return node

    def _single_elements(self, loop: For) -> Node:
        """A loop over a ``vec`` iname, after the conditions that hold for all of its iterations or none."""
        match loop.body.children:
            case (If(otherwise=None) as guard,) if _same_for_all(guard.condition, loop.iname):
                inside = self.inside().node(replace(loop, body=guard.then))
                return replace(guard, then=Block((inside,)))
            case (If(otherwise=None, then=Block(children=(Assign() as assign,))),) if assign.statement in self.partial:
                partial = self.partial[assign.statement]
                found = self.vectors(loop, assign, partial)
                return with_vector_access(loop, found, computes_all=self.may_compute_all(loop, assign, found, partial))
            case (Assign() as assign,):
                if not completion_of(assign.instructions).needs_wait:
                    return with_vector_access(loop, self.vectors(loop, assign))
                # or element by element, without registers between
                copies = self.copies(loop, assign, sizes_of(assign.instructions))
                if copies is not None:
                    named = tuple(map(self._named, copies.vectors))
                    return replace(loop, instruction=replace(copies, vectors=named))
            case _:
                pass
        return loop

    def _in_loop(self, loop: For) -> _VectorFinder:
        """This finder for the iterations of *loop*."""
        names = {x: value for x, value in self.names.items() if x != loop.iname}
        where = self.where
        if loop.step != 1:
            number = multiply(loop.step, p.Variable(f"{loop.iname}'"))
            names[loop.iname] = add(substitute(loop.start, self.names), number)
        else:
            x, start, stop = (substitute(e, names) for e in (p.Variable(loop.iname), loop.start, loop.stop))
            where = known_where(where, p.LogicalAnd((p.Comparison(start, "<=", x), p.Comparison(x, "<", stop))))
        return replace(self.inside(), where=where, names=names)

    def _without_guard(self, guard: If) -> For | None:
        """The loop after *guard*, with that condition moved into it, if all iterations may be computed.

        Later statements then do not wait behind a branch.
        """
        match guard:
            case If(otherwise=None, then=Block(children=(For(body=Block(children=(
                    If(otherwise=None, then=Block(children=(Assign() as assign,))) as element,))) as loop,))) \
                    if is_at_once(self.kernel.tags.get(loop.iname)) and assign.statement in self.partial:
                anywhere = InstanceSet((), self.kernel.assumptions.from_params())
                partial = replace(self.partial[assign.statement], vectors=anywhere)
                known = known_where(self.where, substitute(element.condition, self.names))
                parts = [c for c in conjuncts(guard.condition) if not partial.places(
                    known_where(known, p.LogicalNot(substitute(c, self.names)))).is_empty()]
                both = conjunction((*parts, *conjuncts(element.condition)))
                loop = replace(loop, body=Block((replace(element, condition=both),)))
                found = self.inside().vectors(loop, assign, partial)
                if self.may_compute_all(loop, assign, found, partial):
                    return with_vector_access(loop, found, computes_all=True)
        return None

    def vectors(self, loop: For, assign: Assign, partial: PartialVectors | None = None) -> tuple[Vector, ...]:
        """The vectors of *loop*, which contains *assign*; with *partial*, those that partial vectors load whole."""
        reads = must_reads(assign)
        # an instruction of the assignment makes these accesses, and nothing moves them around the loop
        claimed = {e for e in (*reads, assign.target) for i in assign.instructions if i.claims(e, assign.target)}
        found: list[Vector] = []
        for element in dict.fromkeys((*reads, assign.target)):
            if element in claimed or not isinstance(element, p.Subscript):
                continue
            stored = element == assign.target
            loaded = element in reads or assign.combine is not None
            vector = self.vector(loop, element)
            if vector is not None and loaded and partial is not None:
                vector = self.whole(vector, loop, partial)
            if vector is not None:
                found.append(self._named(replace(vector, loaded=loaded, stored=stored)))
        cut = partial if partial is not None else self.partial.get(assign.statement)
        if cut is not None:
            for element in reads:
                if element not in {*claimed, assign.target} \
                        and all(distance(loop, v, element) is None for v in found if v.loaded):
                    found += [*map(self._named, self.beside(loop, element, cut, found))]
        return tuple(found)

    def _named(self, vector: Vector) -> Vector:
        name = self.kernel.fresh_name(f"{vector.array}_vec", *self.taken)
        self.taken.add(name)
        return replace(vector, name=name)


def _same_for_all(condition: Expression, iname: str) -> bool:
    """Is *condition* the same for all iterations of a loop over *iname*, whatever the loop writes?"""
    return iname not in variables(condition) and not any(isinstance(e, p.Subscript) for e in subexpressions(condition))
