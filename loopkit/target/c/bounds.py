"""Bounds checks in host C: accesses that the analysis cannot prove to be inside of their arrays are compared first.

A block ends at its first access outside of an array, without the access. The function reports the access of the block
with the least number: the same one in every run, and never one that follows from an access that was left out.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_of, references
from loopkit.analysis.inside import unproven_axes
from loopkit.ast.nodes import Assign, Define, For, If
from loopkit.ast.value_ranges import ValueRanges
from loopkit.ast.walk import nodes_in
from loopkit.expr.mappers import array_of, element, subscripts_of, substitute, variables
from loopkit.expr.nodes import to_text
from loopkit.instructions.base import if_else
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.stored import in_storage
from loopkit.poly.affine import affine_difference
from loopkit.target.code import CheckedAccess, Extent, ViolationPointer
from loopkit.target.emit import Emitter

#: The helper functions of the checks.
HELPERS = {
    "inside_": """
static inline _Bool inside_(long long subscript, long long extent)
{
    return 0 <= subscript && subscript < extent;
}
""",
    "report_": """
// keeps an access outside of an array unless one of an earlier block is known: its number, subscripts and inames
static void report_(long long *violation, long long block, int access, int count, const long long *numbers)
{
    #pragma omp critical (report_)
    if (violation[0] == 0 || block + 1 < violation[0]) {
        violation[0] = block + 1;
        violation[1] = access;
        for (int i = 0; i < count; ++i)
            violation[2 + i] = numbers[i];
    }
}
"""}

#: The conditions under which an element is accessed.
_Conditions = tuple[Expression, ...]
_ALWAYS: _Conditions = ()

#: The label at the end of a block, and the parameter with the first access outside of an array.
_END, _VIOLATION = "end", "violation_"


@dataclass(frozen=True)
class BoundsChecks:
    """The checks of one function; printing them collects them.

    :ivar block: the number of the block.
    :ivar hosts: the inames of the host's loops around the launch.
    """

    lowered: Lowered
    block: Expression
    hosts: tuple[str, ...]
    accesses: list[CheckedAccess] = field(default_factory=list)
    extents: dict[tuple[str, int], Extent] = field(default_factory=dict)

    @property
    def parameters(self) -> tuple[Extent | ViolationPointer, ...]:
        """The parameters that the checks need."""
        record = ViolationPointer(_VIOLATION, np.dtype(np.int64), written=True, read=True)
        return (*self.extents.values(), record) if self.accesses else ()

    @property
    def end(self) -> tuple[str, ...]:
        """The last lines of a block."""
        return (f"{_END}: ;",) if self.accesses else ()

    def lines(self, emitter: Emitter, node: Assign | If, bounds: ValueRanges) -> Iterator[str]:
        """The checks before *node*: each in a place at which all earlier accesses are inside."""
        # a condition belongs to the first statement under it
        owner = next((x for x in nodes_in(node) if isinstance(x, Assign)), None)
        if owner is None:
            return
        instance = self._instance(owner, node)
        for e, how, conditions in dict.fromkeys(_elements_accessed(node)):
            axes = self._unproven(owner, e)
            if axes:
                name, subscripts = array_of(e), self._own_subscripts(e)
                access = CheckedAccess(owner.statement, name, how, to_text(element(name, subscripts)),
                                       tuple(map(self._is_unsigned, subscripts)), tuple(instance), self._shape(name))
                texts = [emitter.subscript(s, bounds) for s in subscripts]
                test = self._test(name, {axis: texts[axis] for axis in axes}, conditions, emitter, bounds)
                numbers = [*texts, *(emitter.text(value, bounds) for value in instance.values())]
                block = emitter.subscript(self.block, bounds)
                yield from if_else(test, (
                    f"report_({_VIOLATION}, {block}, {len(self.accesses)}, {len(numbers)}, "
                    f"(const long long[]){{{', '.join(numbers)}}});", f"goto {_END};"))
                self.accesses.append(access)

    def _is_unsigned(self, subscript: Expression) -> bool:
        name = array_of(subscript) if isinstance(subscript, p.Variable | p.Subscript) else ""
        data = self.lowered.kernel.data.get(name)
        return data is not None and data.dtype == np.uint64

    def _instance(self, owner: Assign, node: Assign | If) -> dict[str, Expression]:
        """The values of those inames of *owner*, in *node*, that are known before *node*."""
        later = {x.iname if isinstance(x, For) else x.name for x in nodes_in(node) if isinstance(x, For | Define)}
        values = {**{x: p.Variable(x) for x in self.hosts}, **dict(owner.instance)}
        return {x: values[x] for x in self.lowered.kernel.statement_by_id[owner.statement].inames
                if x in values and variables(values[x]).isdisjoint(later)}

    def _test(self, array: str, subscripts: Mapping[int, str], conditions: _Conditions, emitter: Emitter,
              bounds: ValueRanges) -> str:
        """The condition under which an access is outside: *subscripts* are those along unproven axes."""
        shape = self._shape(array)
        ends = {axis: self._extent(array, axis) if shape is None else emitter.text(shape[axis], bounds)
                for axis in subscripts}
        inside = [f"inside_({text}, {ends[axis]})" for axis, text in subscripts.items()]
        guards = [f"({emitter.condition(c, bounds)})" if isinstance(c, p.LogicalOr | p.If) else
                  emitter.condition(c, bounds) for c in conditions]
        return " && ".join((*guards, f"!{inside[0]}" if len(inside) == 1 else f"!({' && '.join(inside)})"))

    def _shape(self, array: str) -> tuple[Expression, ...] | None:
        """The shape of a temporary; ``None``: *array* is an argument."""
        storage = self.lowered.storages.get(array)
        return None if storage is None else storage.shape[len(storage.lead):]

    def _extent(self, array: str, axis: int) -> str:
        """The parameter with the extent of an argument."""
        if (array, axis) not in self.extents:
            name = self.lowered.kernel.fresh_name(f"{array}_extent_{axis}")
            self.extents[array, axis] = Extent(name, np.dtype(np.int64), array, axis)
        return self.extents[array, axis].name

    def _own_subscripts(self, e: Expression) -> tuple[Expression, ...]:
        """The subscripts of *e* without those of an expansion, in the order of the kernel."""
        storage, found = self.lowered.storages.get(array_of(e)), subscripts_of(e)
        if storage is None:
            return found
        own = found[len(storage.lead):]
        return tuple(own[storage.temporary.layout.place_of(axis)] for axis in range(len(own)))

    # The accesses of statements, to which the elements of a program belong

    def _unproven(self, owner: Assign, e: Expression) -> tuple[int, ...]:
        """The axes along which the element *e* of a program may be outside: all if it belongs to no known access."""
        axes = range(len(self._own_subscripts(e)))
        if not axes:
            return ()
        found = [unproven for a, unproven in self._of_statement(owner.statement) if self._is(a, e, owner)]
        return tuple(axis for axis in axes if not found or any(axis in unproven for unproven in found))

    def _of_statement(self, statement: str) -> list[tuple[Access, tuple[int, ...]]]:
        if statement not in self._known:
            knl = self.lowered.kernel
            self._known[statement] = [
                (a, unproven_axes(knl, a, self._shape(a.array) or self.lowered.shapes[a.array]))
                for a in accesses_of(knl, knl.statement_by_id[statement]) if a.subscripts]
        return self._known[statement]

    @cached_property
    def _known(self) -> dict[str, list[tuple[Access, tuple[int, ...]]]]:
        return {}

    def _is(self, a: Access, e: Expression, owner: Assign) -> bool:
        """Is *e* the element that the instance of *owner* accesses by *a*?"""
        if a.array != array_of(e):
            return False
        wanted = substitute(in_storage(element(a.array, a.subscripts), self.lowered.storages), dict(owner.instance))
        return all(s == w or affine_difference(s, w) == 0
                   for s, w in zip(subscripts_of(e), subscripts_of(wanted), strict=True))


def _elements_accessed(node: Assign | If) -> Iterator[tuple[Expression, str, _Conditions]]:
    """The elements that *node* itself reads, with the conditions under which it does, and the one that it writes."""
    expressions = (node.value, *subscripts_of(node.target)) if isinstance(node, Assign) else (node.condition,)
    for e in expressions:
        for name, subscripts, conditions in references(e, _ALWAYS, _under):
            yield element(name, subscripts), "reads", conditions
    if isinstance(node, Assign):
        yield node.target, "writes", _ALWAYS


def _under(condition: Expression, where: _Conditions, holds: bool) -> _Conditions:
    return (*where, condition if holds else p.LogicalNot(condition))
