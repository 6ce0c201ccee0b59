"""Temporaries that share memory: all temporaries of one base storage become one temporary.

A kernel with base storages is the same program as the kernel of one temporary for each base storage: each read of an
element gets the value of the same write. The values of the members then share cells like the values of any temporary.
So the proof of storage allocation, the hazards, barriers and translation validation need no rule for shared memory.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeVar

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_by_array, is_of_c_code
from loopkit.analysis.constructors import with_dependences
from loopkit.analysis.dependences import assumed_dependences, dependences
from loopkit.analysis.shapes import array_shapes
from loopkit.analysis.values_preserved import clobbered_values, copied_over, in_cells
from loopkit.analysis.witnesses import BrokenPairs
from loopkit.errors import IllegalTransformError, StorageError
from loopkit.expr.mappers import element, map_children
from loopkit.expr.nodes import to_text
from loopkit.kernel.data import MemoryLayout, TemporaryVariable
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import with_expressions
from loopkit.poly.affine import add, multiply

Axes = tuple[Expression, ...]
T = TypeVar("T")


@dataclass(frozen=True)
class _Member:
    """A temporary of a base storage, with the extents of its axes.

    :ivar is_flat: its elements have one subscript, in the order of memory, in the base storage.
    """

    temporary: TemporaryVariable
    shape: Axes
    is_flat: bool

    @property
    def extents(self) -> Axes:
        """The extents in the order of memory, the slowest first."""
        return self.temporary.layout.in_memory(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """The number of elements from one element to the next along each axis, in the order of memory."""
        sizes = [e for e in self.extents[1:] if isinstance(e, int)]
        return tuple(int(np.prod(sizes[k:], dtype=np.int64)) for k in range(len(self.extents)))

    @property
    def cells(self) -> Expression:
        """The number of its elements."""
        return multiply(self.extents[0], self.strides[0]) if self.extents else 1

    def place(self, subscripts: Axes) -> Axes:
        """The subscripts in the base storage of the element at *subscripts*."""
        if not self.is_flat:
            return subscripts
        ordered = self.temporary.layout.in_memory(subscripts)
        return (add(0, *(multiply(e, stride) for e, stride in zip(ordered, self.strides, strict=True))),)


def in_base_storages(knl: LoopKernel) -> LoopKernel:
    """*knl* with one temporary for each base storage, in the place of its temporaries.

    :raises StorageError: the dtypes, address spaces or shapes of temporaries do not allow them to share memory.
    """
    groups: dict[str, list[TemporaryVariable]] = {}
    for t in knl.temporaries.values():
        if t.base_storage is not None:
            groups.setdefault(t.base_storage, []).append(t)
    return reduce(lambda kernel, base: _merged_conditions(kernel, base, groups[base]), groups, knl)


def require_apart(knl: LoopKernel, base: str) -> None:
    """:raises IllegalTransformError: a value of one temporary in *base* is overwritten by another before its reader."""
    members = [t for t in knl.temporaries.values() if t.base_storage == base]
    merged = _merged_conditions(knl, base, members)
    accesses = accesses_by_array(merged).get(base, ())
    flows = [d for d in dependences(merged) if d.array == base and d.kind == "flow"]
    copies = copied_over(merged, accesses, flows)
    read = {a.statement: t.name for t in members for a in accesses_by_array(knl).get(t.name, ()) if not a.is_write}
    for wrong in clobbered_values(merged, accesses, flows, lambda a: in_cells(merged, a, copies)):
        written, reads = knl.statement_by_id[wrong.source].written, read[wrong.sink]
        if not wrong.is_lost and written != reads:          # lowering gives values of one temporary cells of their own
            raise IllegalTransformError(
                f"'{written}' and '{reads}' cannot share memory: a value of '{written}' is written to a cell of "
                f"'{reads}' before its reader.",
                BrokenPairs.on_one_element(merged, base, "flow", wrong.source, wrong.sink, wrong.pairs).witness(),
                [f"leave '{written}' or '{reads}' out"])


def _merged_conditions(knl: LoopKernel, base: str, temporaries: Sequence[TemporaryVariable]) -> LoopKernel:
    """*knl* with the temporary *base* in the place of *temporaries*."""
    _require_plain(knl, base, temporaries)
    members = _members(knl, base, temporaries)

    def moved(expr: Expression, hidden: tuple[str, ...] = ()) -> Expression:
        match expr:
            case p.Subscript(aggregate=p.Variable(name=name)) if name in members:
                return element(base, members[name].place(tuple(moved(e, hidden) for e in expr.index_tuple)))
            case p.Variable(name=name) if name in members and name not in hidden:
                return element(base, members[name].place(()))
            case _:
                return map_children(expr, lambda e: moved(e, hidden))
    rest = {name: t for name, t in knl.temporaries.items() if t not in temporaries}
    return with_dependences(
        knl, lambda found, _: (replace(d, array=base) if d.array in members else d for d in found),
        statements=tuple(with_expressions(s, moved) for s in knl.statements),
        substitutions={name: replace(rule, expr=moved(rule.expr, rule.arguments))
                       for name, rule in knl.substitutions.items()},
        temporaries={**rest, base: _memory_of_all(base, tuple(members.values()))} if members else rest)


def _members(knl: LoopKernel, base: str, temporaries: Sequence[TemporaryVariable]) -> Mapping[str, _Member]:
    """The members that the kernel uses, by name; :raises StorageError: an element of one has no constant place."""
    used = {t.name: (t, array_shapes(knl)[t.name]) for t in temporaries if t.name in array_shapes(knl)}
    are_alike = len({(shape, t.layout) for t, shape in used.values()}) == 1
    members: dict[str, _Member] = {}
    for t, extents in used.values():
        shape = tuple(e for e in extents if e is not None)
        members[t.name] = member = _Member(t, shape, not are_alike)
        inner = next((e for e in member.extents[1:] if not isinstance(e, int)), None)
        if len(shape) < len(extents) or not (are_alike or inner is None):
            extent = "has no bound" if inner is None else f"is {to_text(inner)}"
            raise StorageError(f"'{t.name}' cannot share the memory '{base}': an extent of it {extent}.",
                               subject=t.name, hint="declare one shape for all of them, or constant extents")
        if not are_alike and t.layout.swizzle is not None:
            raise StorageError(f"'{t.name}' is swizzled, and shares '{base}' with temporaries of other shapes.",
                               subject=t.name, hint="swizzle all of them alike, or none")
    return members


def _memory_of_all(base: str, members: Sequence[_Member]) -> TemporaryVariable:
    """The temporary *base*, whose cells hold each of *members*."""
    first, own = members[0], [m.temporary for m in members]
    shape: Axes | None = first.shape
    if first.is_flat:
        cells = tuple(dict.fromkeys(m.cells for m in members))
        numbers = [e for e in cells if isinstance(e, int)]
        shape = ((max(numbers) if len(numbers) == len(cells) else p.Max(cells)) if len(cells) > 1 else cells[0],)
    elif all(t.shape is None for t in own):
        shape = None
    return TemporaryVariable(
        base, _common(base, "dtype", own, lambda t: t.dtype), shape,
        _common(base, "address space", own, lambda t: t.address_space), fixed=any(t.fixed for t in own),
        note=f"the memory of {', '.join(t.name for t in own)}", base_storage=base,
        layout=MemoryLayout() if first.is_flat else first.temporary.layout)


def _common(base: str, what: str, members: Sequence[TemporaryVariable], of: Callable[[TemporaryVariable], T]) -> T:
    """The value that all *members* with one have in common; :raises StorageError: two differ."""
    known: dict[T, str] = {}
    for t in members:
        known.setdefault(of(t), t.name)
    declared = [value for value in known if value is not None]
    if len(declared) > 1:
        (a, one), (b, other) = ((known[value], value) for value in declared[:2])
        raise StorageError(f"'{a}' and '{b}' cannot share the memory '{base}': one has the {what} {one}, and the other "
                           f"{other}.", subject=base, hint=f"give them one {what}, or two base storages")
    return declared[0] if declared else of(members[0])


def _require_plain(knl: LoopKernel, base: str, temporaries: Sequence[TemporaryVariable]) -> None:
    """:raises StorageError: some use of *temporaries* is not possible for memory that others share."""
    names = {t.name for t in temporaries}
    for t in temporaries:
        reason = next(_reasons_against(knl, t), None)
        if reason is not None:
            raise StorageError(f"'{t.name}' cannot share the memory '{base}': {reason}.", subject=t.name,
                               hint=f"leave out base_storage of '{t.name}'")
    for s in knl.statements:
        read = sorted({a for a in names for x in accesses_by_array(knl).get(a, ())
                       if x.statement == s.id and not x.is_write})
        if len(read) > 1:
            raise StorageError(f"'{s.id}' reads {' and '.join(map(repr, read))}, which share the memory '{base}'.",
                               subject=base, hint="give one of them memory of its own")


def _reasons_against(knl: LoopKernel, t: TemporaryVariable) -> Iterator[str]:
    accesses = accesses_by_array(knl).get(t.name, ())
    if t.instruction is not None:
        yield "an instruction accesses its elements"
    if any(t.name in s.domain.params for s in knl.statements):
        yield "it bounds a loop"
    if any(r.accumulator == t.name for r in knl.reductions.values()):
        yield "it is the accumulator of a reduction"
    if any(knl.statement_by_id[a.statement].instructions for a in accesses):
        yield "an instruction updates its elements, or copies them"
    if any(is_of_c_code(knl, knl.statement_by_id[a.statement]) for a in accesses):
        yield "C code accesses its elements, in an unknown order"
    if assumed_dependences(knl, t.name):
        yield "an obligation of the kernel speaks of its values"
    if accesses and not any(a.is_write for a in accesses):
        yield "nothing writes to it"
