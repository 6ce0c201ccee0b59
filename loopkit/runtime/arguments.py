"""The calling contract: the arguments of a call, checked and completed to the arguments of a launch.

:class:`CallPlan` computes everything that does not depend on the values of a call, once. A call then uses only plain
tuples and closures.
"""
from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.dependences import needed_inputs
from loopkit.analysis.shapes import Shape, array_shapes, fully_written_outputs, output_shape_like
from loopkit.ast.value_ranges import largest_address, largest_magnitude
from loopkit.errors import CallError
from loopkit.expr.evaluate import evaluate, parameter_plus_constant
from loopkit.expr.kinds import spelled, without_titles
from loopkit.expr.mappers import subexpressions, variables
from loopkit.expr.nodes import to_text
from loopkit.kernel.data import AddressSpace, GlobalArg, ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.target import Machine
from loopkit.lowering.pipeline import lowered_once
from loopkit.lowering.types import unknown_dtypes
from loopkit.lowering.vectors import vector_inames
from loopkit.poly.affine import without_bits
from loopkit.poly.sets import InstanceSet, checker
from loopkit.runtime.scalars import converter
from loopkit.runtime.views import ArrayView, internal_overlap

#: The least number that needs 64-bit indices.
LIMIT_32 = 2**31


@dataclass(frozen=True)
class ArrayPlan:
    """The properties of an array argument that are known before a call.

    :ivar shape: in the kernel's parameters; an extent that depends on data is ``None``.
    :ivar exact: the shape was declared; else it is inferred and a lower bound.
    :ivar like: for an output, the input whose shape the allocated output takes.
    :ivar order: the axes in memory, the slowest first, if the array must have no gaps; ``()``: it may.
    :ivar strides: the declared strides in elements, in the kernel's parameters; ``None``: any.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[Expression | None, ...]
    exact: bool
    read: bool
    written: bool
    like: str | None
    order: tuple[int, ...] = ()
    strides: tuple[Expression | None, ...] = ()

    @classmethod
    def of(cls, a: GlobalArg, shape: Shape, read: bool, written: bool, like: str | None) -> ArrayPlan:
        axes = range(len(shape))
        order = {None: (), "C": axes, "F": reversed(axes)}[a.order] if isinstance(a.order, str | None) else a.order
        return cls(a.name, np.dtype(a.dtype), tuple(shape), a.shape is not None, read, written, like, tuple(order),
                   a.strides or ())

    def declared(self, shape: tuple[int, ...], values: Mapping[str, Any]) -> tuple[int | None, ...]:
        """The declared strides in elements of an array of this *shape*; ``None``: any."""
        if not self.order:
            return tuple(None if e is None else int(evaluate(e, values)) for e in self.strides) or (None,)*len(shape)
        return tuple(prod(shape[k] for k in self.order[self.order.index(axis) + 1:]) for axis in range(len(shape)))

    def require_strides(self, array: ArrayView, values: Mapping[str, Any]) -> None:
        """:raises CallError: *array* has other strides than the declared ones."""
        if (other := self.other_stride(array, values)) is None:
            return
        axis, want = other
        text = to_text(self.strides[axis]) if self.strides else ""              # type: ignore[arg-type]
        why = f" ({text})" if text not in ("", str(want)) else ""
        axes, name = tuple(range(len(array.shape))), self.name
        way = {axes[::-1]: f"np.asfortranarray({name})", axes: f"np.ascontiguousarray({name})"}.get(self.order)
        raise CallError(f"'{self.name}' must have the stride {want}{why} along axis {axis}, in elements, not "
                        f"{array.strides[axis] // array.itemsize}.", argument=self.name,
                        hint=f"pass {way or f'{self.name} with its declared layout'}")

    def other_stride(self, array: ArrayView, values: Mapping[str, Any]) -> tuple[int, int] | None:
        """An axis along which *array* has another stride than the declared one, and that; ``None``: there is none."""
        return next(((axis, want) for axis, want in enumerate(self.declared(array.shape, values))
                     if want is not None and array.shape[axis] > 1 and 0 not in array.shape
                     and array.strides[axis] // array.itemsize != want), None)



@dataclass(frozen=True)
class BoundArguments:
    """The checked arguments of one call.

    :ivar arrays: as the launches get them.
    :ivar strided: the arrays that are not in C order with exactly their shape.
    :ivar as_declared: those of them that have the strides that their arguments declare.
    :ivar fully_written: the arrays that the kernel writes completely and does not read before.
    """

    arrays: dict[str, ArrayView]
    values: dict[str, Any]
    strided: frozenset[str]
    as_declared: frozenset[str]
    fully_written: frozenset[str]
    wide: bool


class CallPlan:
    """The check of the calls of one kernel, all of whose dtypes are known and which is lowered for *machine*."""

    def __init__(self, knl: LoopKernel, machine: Machine) -> None:
        shapes = array_shapes(knl)
        reads, writes = needed_inputs(knl), knl.written_names
        like = output_shape_like(knl)
        self.kernel = knl.name
        self.arrays = tuple(
            ArrayPlan.of(a, shapes[a.name], a.name in reads, a.name in writes, like.get(a.name))
            for a in knl.arguments if isinstance(a, GlobalArg) and a.name in shapes and a.dtype is not None)
        values = [a for a in knl.arguments if isinstance(a, ValueArg)]
        longest = {a.name for a in values if a.dtype == np.uint64}
        signed = longest and size_values(knl) & longest
        self.values = {a.name: converter(a.name, None if a.name in signed else a.dtype) for a in values}
        self.outputs = tuple(a.name for a in knl.arguments if isinstance(a, GlobalArg) and a.name in writes)
        self.violated = checker(knl.assumptions)
        self._fully_written = fully_written_outputs(knl)
        self._structural = structural_values(knl)
        self._shift = largest_literal(knl) + 1
        self._requires_64 = lru_cache(maxsize=64)(lambda *values: requires_64(
            knl, machine, dict(zip(self.values, values, strict=True))))
        # 32-bit indices are enough for smaller sizes
        self._surely_small = LIMIT_32
        while self._surely_small and self._requires_64(*(self._surely_small for _ in values)):
            self._surely_small //= 2
        # for each parameter, the axes that determine it, whose extents are the parameter plus a constant
        self.solvable: dict[str, list[tuple[str, int, int]]] = {name: [] for name in self.values}
        for plan in self.arrays:
            for i, extent in enumerate(plan.shape):
                name, constant = (extent is not None and parameter_plus_constant(extent)) or ("", 0)
                if name in self.solvable:
                    self.solvable[name].append((plan.name, i, constant))
        # and those that only the stride of an axis determines
        self.by_stride = {stride.name: (plan.name, axis) for plan in self.arrays
                          for axis, stride in enumerate(plan.strides)
                          if isinstance(stride, p.Variable) and not self.solvable.get(stride.name, ())}

    def bind(self, given: Mapping[str, Any], *, copies: bool = False) -> BoundArguments:
        """Check *given*, solve for the sizes, add missing outputs; :raises CallError: an argument does not fit.

        :arg copies: the launches get copies of arrays in the host's memory, in C order.
        """
        arrays: dict[str, ArrayView] = {}
        for plan in self.arrays:
            array = given.get(plan.name)
            if array is not None:
                _require_fit(plan, array)
                arrays[plan.name] = ArrayView.packed(array.shape, array.dtype) if copies and array.on_host else array
            elif plan.read or not plan.written:
                why, how = ((": the kernel reads it as well as writing it", "; it is updated in place") if plan.written
                            else ("", ""))
                raise CallError(f"'{plan.name}' is missing{why}.", argument=plan.name,
                                hint=f"pass {plan.name}=...{how}")
        values: dict[str, Any] = {}
        for name, convert in self.values.items():
            value = given.get(name)
            values[name] = convert(self._solved(name, given, arrays) if value is None else value)
        text = self.violated(values)
        if text is not None:
            involved = [x for x in values if x in re.findall(r"\w+", text)]
            raise CallError(f"kernel '{self.kernel}' assumes {text}, and this call has "
                            f"{', '.join(f'{x} = {values[x]}' for x in involved)}.", argument=(*involved, "")[0])
        wide = False
        strided, as_declared = set[str](), set[str]()
        fully_written: set[str] = set()
        for plan in self.arrays:
            extents = [None if e is None else evaluate(e, values) for e in plan.shape]
            array = arrays.get(plan.name)
            if array is None:
                array = arrays[plan.name] = _new_output(plan, extents, arrays, values, packed=copies and all(
                    x.on_host for x in given.values() if isinstance(x, ArrayView)))
            elif plan.order or plan.strides:
                plan.require_strides(given[plan.name], values)
            # an array may be larger than its written part
            if plan.name in self._fully_written and not plan.read and list(array.shape) == extents:
                fully_written.add(plan.name)
            # the extent of the first axis is not part of an element's address
            if not _fits(plan, array.shape, extents, values) or not array.in_c_order:
                strided.add(plan.name)
                if plan.strides and not plan.order and plan.other_stride(array, values) is None:
                    as_declared.add(plan.name)
            wide = wide or _reach(array, self._shift) >= LIMIT_32
        largest = max([abs(values[x]) for x in self._structural], default=0)
        if largest >= self._surely_small:
            wide = wide or largest >= LIMIT_32 or self._requires_64(*values.values())
        return BoundArguments(arrays, values, frozenset(strided), frozenset(as_declared),
                              frozenset(fully_written), wide)

    def _solved(self, name: str, given: Mapping[str, Any], arrays: Mapping[str, ArrayView]) -> int:
        """The size *name*, from the extents or from a declared stride of the arrays."""
        array, axis = self.by_stride.get(name, ("", 0))
        if array in arrays and arrays[array].shape[axis] > 1:
            return int(given[array].strides[axis]) // arrays[array].itemsize
        found = self.solvable[name]
        if not any(axis[0] in arrays for axis in found):
            found = [*self._solvable_given(name, given)] or found
        if not found and (texts := [text for text in self._least_sizes(name, arrays) if text]):
            raise CallError(f"'{name}' is missing: a shape determines it only for sizes that are large enough.",
                            argument=name, hint=f"pass {name}=..., or declare it: assumptions=\"{texts[0]}\"")
        return solve(name, found, arrays)

    def _solvable_given(self, name: str, given: Mapping[str, Any]) -> Iterator[tuple[str, int, int]]:
        """The axes whose extents are the size *name* plus numbers that the call has."""
        known = {x: int(value) for x, value in given.items() if isinstance(value, int | np.integer)}
        for plan in self.arrays:
            for i, extent in enumerate(plan.shape):
                terms = extent.children if isinstance(extent, p.Sum) else ()
                numbers = [known.get(x.name, x) if isinstance(x, p.Variable) else x for x in terms]
                if (found := parameter_plus_constant(p.Sum(tuple(numbers)))) is not None and found[0] == name:
                    yield plan.name, i, found[1]

    def _least_sizes(self, name: str, arrays: Collection[str]) -> Iterator[str]:
        """For each extent of *arrays* that is *name* plus a constant for all larger sizes: these sizes."""
        for extent in (e for plan in self.arrays if plan.name in arrays for e in plan.shape):
            if extent is None or name not in (sizes := variables(extent)):
                continue
            most = 3 + max((abs(x) for x in subexpressions(extent) if isinstance(x, int)), default=0)
            apart = [int(evaluate(extent, {**dict.fromkeys(sizes, most), name: n})) - n for n in range(most + 1)]
            least = next(n for n in range(most + 1) if len({*apart[n:]}) == 1)
            if least < most:
                yield " and ".join(f"{x} >= {least if x == name else 1}" for x in sorted(sizes))

    def output_strides(self, name: str, view: ArrayView, values: Mapping[str, Any]) -> ArrayView:
        """*view* of an allocated output with the declared strides."""
        plan = next(x for x in self.arrays if x.name == name)
        return _with_declared_strides(plan, view, values)


#: The options of ``lk.compile``, which no call has.
COMPILE_OPTIONS = ("target", "device", "debug", "verify", "check_bounds")


def require_known(kernel: str, names: Any, given: Mapping[str, object]) -> None:
    """:raises CallError: *given* has a name that is not an argument."""
    if given.keys() <= names:
        return
    name = next(x for x in given if x not in names)
    close = difflib.get_close_matches(name, list(names), n=2)
    hint = f"did you mean {' or '.join(repr(c) for c in close)}?" if close else f"it takes {', '.join(names)}"
    if name in COMPILE_OPTIONS:
        hint = f"lk.compile(knl, {name}=...) has this option and returns the function to call"
    raise CallError(f"'{name}' is not an argument of kernel '{kernel}'.", argument=name, hint=hint)


def solve(name: str, axes: Sequence[tuple[str, int, int]], arrays: Mapping[str, ArrayView]) -> int:
    """The size *name* from the axes whose extent is the size plus a constant.

    Inferred extents are lower bounds: a stencil's output may be as long as its input although it needs less. The axis
    that gives the least size decides; every other axis must give the same size, or have the same length.
    """
    found = [(arrays[array].shape[axis], constant, array, axis) for array, axis, constant in axes if array in arrays]
    if not found:
        why = "cannot be found from the shapes of the arrays given" if axes else "is missing: no shape determines it"
        raise CallError(f"'{name}' {why}.", argument=name, hint=f"pass {name}=...")
    first_length, shift, first, first_axis = min(found, key=lambda x: x[0] - x[1])
    value = first_length - shift
    for length, constant, array, axis in found:
        if length - constant != value and length != first_length:
            raise CallError(
                f"the shapes of '{first}' and '{array}' contradict each other: axis {first_axis} of '{first}' has "
                f"{first_length} elements, so {name} = {value}, and axis {axis} of '{array}' has {length}, "
                f"so {name} = {length - constant}.", argument=array,
                hint=f"pass {name}=... if the longer one is meant to be used in part")
    if value < 0:
        raise CallError(f"'{first}' is too small: {first_length} elements along axis {first_axis} make "
                        f"{name} = {value}.", argument=first)
    return value


def _require_fit(plan: ArrayPlan, array: ArrayView) -> None:
    """:raises CallError: the dtype, rank or strides of *array* do not fit; each call checks the addresses."""
    name = plan.name
    if array.dtype != plan.dtype and without_titles(array.dtype) != without_titles(plan.dtype):
        swapped = " (another byte order)" if array.dtype.newbyteorder("=") == plan.dtype else ""
        way = f"pass {name}.astype({spelled(plan.dtype)})" if array.on_host else "convert it first"
        raise CallError(f"'{name}' must be of dtype {plan.dtype}, not {array.dtype}{swapped}.", argument=name,
                        hint=f"{way}; a call never casts")
    rank = len(plan.shape)
    if len(array.shape) != rank:
        raise CallError(f"'{name}' must have {rank} dimension{'' if rank == 1 else 's'}, not {len(array.shape)} (its "
                        f"shape is {array.shape}).", argument=name)
    if plan.written and not array.writeable:
        raise CallError(f"'{name}' is read-only, and the kernel writes it.", argument=name,
                        hint=f"pass {name}.copy(), or leave it out to have it allocated")
    if array.in_c_order:
        return
    itemsize = plan.dtype.itemsize
    odd = next((stride for stride in array.strides if stride % itemsize), None)
    if odd is not None:
        raise CallError(f"'{name}' has a stride of {odd} bytes, not a multiple of its {itemsize}-byte elements.",
                        argument=name, hint=f"pass {name}.copy()")
    if plan.written and internal_overlap(array):
        raise CallError(f"'{name}' is written, and some of its elements may share one address (its strides are "
                        f"{array.strides}).", argument=name, hint=f"pass {name}.copy()")


def _fits(plan: ArrayPlan, shape: tuple[int, ...], extents: list[int | None], values: Mapping[str, Any]) -> bool:
    """Is the array as long as its extents after the first axis? :raises CallError: its shape does not fit."""
    same = True
    for i, (length, extent) in enumerate(zip(shape, extents, strict=True)):
        if length != extent:
            if extent is not None and (length < extent or plan.exact):
                raise _wrong_shape(plan, shape, i, extent, values)
            same = same and i == 0
    return same


def _with_declared_strides(plan: ArrayPlan, view: ArrayView, values: Mapping[str, Any]) -> ArrayView:
    """*view* with the declared strides; :raises CallError: some are not known, or elements would share an address."""
    if not plan.order and not plan.strides:
        return view
    wanted = plan.declared(view.shape, values)
    result = replace(view, strides=tuple(0 if e is None else e*view.itemsize for e in wanted))
    if None in wanted or internal_overlap(result):
        raise CallError(f"'{plan.name}' is missing: its declared strides do not give the layout of a new array.",
                        argument=plan.name, hint=f"pass {plan.name}=...")
    return result


def _new_output(plan: ArrayPlan, extents: list[int | None], arrays: Mapping[str, ArrayView], values: Mapping[str, Any],
                *, packed: bool) -> ArrayView:
    """The output that a call allocates; if *packed*, the copy of it in C order that the launches get."""
    view = _new_shape(plan, extents, arrays)
    return view if packed else _with_declared_strides(plan, view, values)


def _new_shape(plan: ArrayPlan, extents: list[int | None], arrays: Mapping[str, ArrayView]) -> ArrayView:
    if plan.like is not None and plan.like in arrays and not plan.exact:
        model = arrays[plan.like].shape
        if len(model) == len(extents) and all(e is None or m >= e for m, e in zip(model, extents, strict=True)):
            return ArrayView.packed(model, plan.dtype)
    if None in extents:
        raise CallError(f"'{plan.name}' is missing: how long its axis {extents.index(None)} must be depends on data.",
                        argument=plan.name, hint=f"pass {plan.name}=np.zeros(...), large enough, or declare its shape")
    return ArrayView.packed(tuple(max(e or 0, 0) for e in extents), plan.dtype)


def _reach(array: ArrayView, shift: int) -> int:
    """The largest offset in the address of an element, or in a part of it before a shift back by *shift*."""
    axes = [(n, abs(s)) for n, s in zip(array.shape, array.strides, strict=True) if n > 1]
    reach: int = sum((n - 1) * s for n, s in axes) + shift * max((s for _, s in axes), default=0)
    return reach // array.itemsize + 1


def _wrong_shape(plan: ArrayPlan, shape: tuple[int, ...], axis: int, extent: int, values: Mapping[str, Any]
                 ) -> CallError:
    problem = "is too small" if shape[axis] < extent else "is not of its declared shape"
    needed = "at least " if not plan.exact else ""
    expression = plan.shape[axis] or 0
    sizes = ", ".join(f"{x} = {values[x]}" for x in values if x in variables(expression))
    why = f" ({to_text(expression)}, with {sizes})" if sizes else ""
    return CallError(f"'{plan.name}' {problem}: axis {axis} has {shape[axis]} elements and must have {needed}{extent}"
                     f"{why}.", argument=plan.name)


# The properties of a kernel that its calls depend on

def structural_values(knl: LoopKernel) -> frozenset[str]:
    """The value arguments that shapes, launches and the choice of a text may depend on."""
    extents = {extent for shape in array_shapes(knl).values() for extent in shape if extent is not None}
    found = {*InstanceSet((), knl.assumptions).params, *(x for s in knl.statements for x in s.domain.params),
             *(x for extent in extents for x in variables(extent))}
    found.update(x for a in knl.array_args.values() for e in a.strides or () if e is not None for x in variables(e))
    if vector_inames(knl):
        found |= knl.value_params           # the first element of a vector may depend on any
    # a size without a declared dtype is as wide as the text's indices
    found.update(a.name for a in knl.arguments if a.dtype is None)
    return frozenset(a.name for a in knl.arguments
                     if isinstance(a, ValueArg) and a.name in found.difference(unknown_dtypes(knl)))


def size_values(knl: LoopKernel) -> frozenset[str]:
    """The value arguments that are sizes, or that subscripts and comparisons use like sizes: signed integers."""
    like_sizes = (variables(node) for e in _expressions(knl) for node in subexpressions(e)
                  if isinstance(node, p.Subscript | p.Comparison))
    return knl.value_params & structural_values(knl).union(*like_sizes)


def requires_64(knl: LoopKernel, machine: Machine, values: Mapping[str, Any]) -> bool:
    """May an integer of the text need more than 32 bits: for a loop, a guard, a grid or a temporary's address?"""
    sizes = {x: int(value) for x, value in values.items() if isinstance(value, int | np.integer)}
    lowered, beyond = lowered_once(knl, machine), largest_literal(knl) + 1
    return largest_magnitude(lowered.program, sizes) >= LIMIT_32 or any(
        largest_address(s.shape, beyond, sizes) >= LIMIT_32
        for s in lowered.storages.values() if s.space is AddressSpace.GLOBAL)


def largest_literal(knl: LoopKernel) -> int:
    """The largest integer in a subscript: a text may overshoot an axis by this many steps."""
    expressions = [*_expressions(knl), *(rule.expr for rule in knl.substitutions.values())]
    parts = (without_bits(part) or part for e in expressions for node in subexpressions(e)
             if isinstance(node, p.Subscript) for index in node.index_tuple for part in subexpressions(index))
    return max((abs(n) for part in parts for n in subexpressions(part) if isinstance(n, int)), default=0)


def _expressions(knl: LoopKernel) -> list[Expression]:
    return [e for s in knl.statements for e in (s.assignee, s.expression, *s.predicates)]
