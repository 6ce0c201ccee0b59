"""A kernel with known dtypes, and its texts, each generated at the first call that needs it."""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from loopkit.analysis.dependences import needed_inputs
from loopkit.ast.assumed import AlignedArray, Assumed
from loopkit.ast.tensor_maps import MappedArray
from loopkit.errors import CallError
from loopkit.expr.evaluate import evaluate
from loopkit.expr.kinds import NUMBERS
from loopkit.expr.kinds import dtype_of as kernel_dtype
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.target import Machine
from loopkit.lowering.types import infer_types, unknown_dtypes
from loopkit.poly.limits import bounded
from loopkit.runtime.arguments import BoundArguments, CallPlan, structural_values
from loopkit.runtime.scalars import dtype_of, integer_range, out_of_range
from loopkit.runtime.views import ArrayView
from loopkit.target.code import GeneratedCode, HostIname, Layout, ScratchPointer, TextTarget, Value, host_side
from loopkit.transform.data import with_dtypes
from loopkit.verification.checks import generate_code

#: Least number of elements of temporaries with 64-bit indices; half the 32-bit range, since parts of an address may
#: overshoot.
_SCRATCH_32 = 2**30


class Text:
    """One generated text, with the data for its calls.

    :ivar scratch: its temporaries in global memory: allocated for each call, shared by its launches. Those that are
        zeroed before a call come first.
    :ivar integers: the dtypes of all integers that it takes by value, which may be narrower than the arguments'.
    """

    def __init__(self, code: GeneratedCode) -> None:
        self.code = code
        parameters = {p.name: p for launch in code.kernels for p in host_side(launch.parameters)}.values()
        self.scratch = sorted((p for p in parameters if isinstance(p, ScratchPointer)), key=lambda p: not p.cleared)
        self.integers = {p.name: p.dtype for p in parameters if isinstance(p, Value) and p.dtype.kind in "iu"}
        self.hosts = tuple(p.name for p in parameters if isinstance(p, HostIname))

    def views(self, bound: BoundArguments) -> dict[str, ArrayView]:
        """The arrays of a call, as the launches get them, and its temporaries, without their addresses."""
        shapes = self.scratch_shapes(bound.values)
        return {**bound.arrays, **{p.name: ArrayView.packed(shapes[p.name], p.dtype) for p in self.scratch}}

    def scratch_shapes(self, values: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        """The shape of each temporary at the sizes *values*."""
        return {p.name: tuple(max(evaluate(e, values), 0) for e in p.shape) for p in self.scratch}


class TypedKernel:
    """A kernel all of whose dtypes are known, lowered for *machine*."""

    def __init__(self, knl: LoopKernel, machine: Machine) -> None:
        self.kernel = knl
        with bounded(f"calling kernel '{knl.name}'"):
            self.plan = CallPlan(knl, machine)
        self._texts: dict[tuple[TextTarget, Layout], Text] = {}

    def fitting(self, target: TextTarget, bound: BoundArguments, *, vectors: bool = True) -> Text:
        """The text for the arrays of a call.

        :arg vectors: allow vector accesses and tensor maps, if shapes, strides and sizes permit; addresses are not
            checked.
        :raises CallError: a value does not fit into the text's parameter, or each text needs a tensor map of an array
            that none can describe.
        """
        layout = Layout(64 if bound.wide else 32, bound.strided, vectors, bound.as_declared)
        found = self.text(target, layout)
        if not bound.wide and any(prod(s) >= _SCRATCH_32 for s in found.scratch_shapes(bound.values).values()):
            found = self.text(target, replace(layout, index_bits=64))
        if found.code.assumed and not serves(found.code.assumed, found.views(bound), bound.values):
            found = self.text(target, replace(found.code.layout, vectors=False))
            require_mapped(found.code.assumed, found.views(bound))
        for name, dtype in found.integers.items():
            low, high = integer_range(dtype)
            if not low <= bound.values[name] <= high:
                raise out_of_range(name, bound.values[name], dtype)
        return found

    def text(self, target: TextTarget, layout: Layout) -> Text:
        found = self._texts.get((target, layout))
        if found is None:
            found = self._texts[target, layout] = Text(generate_code(self.kernel, target=target, layout=layout))
        return found


class TypedKernels:
    """A kernel by the dtypes of the arguments that it leaves open."""

    def __init__(self, knl: LoopKernel, machine: Machine) -> None:
        self.kernel = knl
        self._machine = machine
        self._known: dict[tuple[np.dtype[Any] | None, ...], TypedKernel] = {}
        self._lock = threading.Lock()
        with bounded(f"calling kernel '{knl.name}'"):
            self.unknown = tuple(unknown_dtypes(knl))
        if not self.unknown:
            self.of({})

    @cached_property
    def structural(self) -> frozenset[str]:
        """The value arguments that shapes, launches and the choice of a text may depend on."""
        with bounded(f"calling kernel '{self.kernel.name}'"):
            return structural_values(self.kernel)

    def of(self, given: Mapping[str, Any]) -> TypedKernel:
        """The kernel with its open dtypes from *given*; :raises CallError: one is not known, or not supported."""
        arrays = self.kernel.array_args
        # the plan of the calls refuses arrays of another byte order
        dtypes = {name: (value.dtype if name in arrays else dtype_of(name, value)).newbyteorder("=")
                  for name in self.unknown if (value := given.get(name)) is not None}
        signature = tuple(dtypes.get(name) for name in self.unknown)
        with self._lock:
            if signature not in self._known:
                for name, dtype in dtypes.items():
                    if kernel_dtype(dtype) is None:
                        raise CallError(f"'{name}' has the dtype {dtype}, which kernels do not support.", argument=name,
                                        hint=NUMBERS)
                with bounded(f"calling kernel '{self.kernel.name}'"):
                    known = closed(self.kernel, dtypes.get) if self.unknown else self.kernel
                    for name in unknown_dtypes(known):
                        raise CallError(f"'{name}' is missing, and its dtype is not known.", argument=name,
                                        hint=f"pass {name}=..., or declare it with add_dtypes(knl, {{'{name}': ...}})")
                    typed = infer_types(known)
                self._known[signature] = TypedKernel(typed, self._machine)
            return self._known[signature]


def closed(knl: LoopKernel, chosen: Callable[[str], np.dtype[Any] | None]) -> LoopKernel:
    """*knl* with the open dtypes that are *chosen*, first those of its inputs: they may determine an output's."""
    reads, writes = needed_inputs(knl), knl.written_names
    for only_inputs in (True, False):
        names = [x for x in unknown_dtypes(knl) if not only_inputs or x in reads or x not in writes]
        knl = with_dtypes(knl, {x: dtype for x in names if (dtype := chosen(x)) is not None})
    return knl


def serves(assumed: Iterable[Assumed], arrays: Mapping[str, ArrayView], values: Mapping[str, Any]) -> bool:
    """Does everything in *assumed* hold, apart from addresses?"""
    def holds(a: Assumed) -> bool:
        if isinstance(a, AlignedArray):
            return _has_rows(arrays[a.array], a, values)
        if isinstance(a, MappedArray):
            array = arrays[a.array]
            return 0 not in array.shape and a.obstacle(array.shape, array.strides, array.itemsize) is None
        return bool(evaluate(a.size, values) % a.divisor == 0)
    return all(map(holds, assumed))


def require_mapped(assumed: Iterable[Assumed], arrays: Mapping[str, ArrayView]) -> None:
    """:raises CallError: *assumed* has an array that no tensor map can describe; the launch refuses an empty one."""
    for a in (a for a in assumed if isinstance(a, MappedArray)):
        array = arrays[a.array]
        found = a.obstacle(array.shape, array.strides, array.itemsize)
        if found is not None:
            raise unmapped(a.array, *found)


def unmapped(array: str, why: str, hint: str) -> CallError:
    """The error for an *array* that no tensor map can describe."""
    return CallError(f"No tensor map can describe '{array}': {why}.", argument=array, hint=hint)


def _has_rows(array: ArrayView, assumed: AlignedArray, values: Mapping[str, Any]) -> bool:
    """Is the last stride one element, and each other stride as *assumed*, or a multiple of its elements?"""
    if array.shape[-1] > 1 and array.strides[-1] != array.itemsize:
        return False
    if assumed.strides:
        wanted = (evaluate(s, values)*array.itemsize for s in assumed.strides)
        return all(s == w or n == 1 for n, s, w in zip(array.shape, array.strides, wanted, strict=False))
    rows = zip(array.shape[:-1], array.strides, strict=False)
    return all(s % (assumed.elements * array.itemsize) == 0 for n, s in rows if n > 1)
