"""A kernel with its dtypes known, and its texts, each made when a call first needs it."""
from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from loopkit.errors import CallError
from loopkit.expr.functions import DTYPE_NAMES
from loopkit.expr.kinds import spelled
from loopkit.kernel.data import GlobalArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.limits import bounded
from loopkit.runtime import stages
from loopkit.runtime.alignment import serves
from loopkit.runtime.arguments import BoundArguments, CallPlan, require_known
from loopkit.runtime.program import ScratchPlan, integer_limits, require_in_range
from loopkit.runtime.scalars import dtype_of
from loopkit.target.code import GeneratedCode, Layout
from loopkit.target.cuda import CudaTarget
from loopkit.target.host import CTarget

Target = CudaTarget | CTarget

#: Temporaries of so many elements get 64-bit indices; half of what 32 bits hold, as parts of an address may overshoot.
_SCRATCH_32 = 2**30


class Text:
    """One generated text, with what a call of it needs."""

    def __init__(self, code: GeneratedCode) -> None:
        self.code = code
        self.scratch = ScratchPlan(code.kernels)
        self.limits = integer_limits(code.kernels)


class TypedKernel:
    """A kernel all of whose dtypes are known."""

    def __init__(self, knl: LoopKernel) -> None:
        self.kernel = knl
        with bounded(f"calling kernel '{knl.name}'"):
            self.plan = CallPlan(knl)
        self._texts: dict[tuple[Target, Layout], Text] = {}

    def fitting(self, target: Target, bound: BoundArguments, strided: frozenset[str], *, vectors: bool = True) -> Text:
        """The text for the arrays of a call, of which those in *strided* have strides of their own.

        :arg vectors: it may have vector accesses, if shapes, strides and sizes let them; addresses are not looked at.
        :raises CallError: a value does not fit into the text's parameter.
        """
        found = self.text(target, Layout(64 if bound.wide else 32, strided, vectors))
        if not bound.wide and any(prod(s) >= _SCRATCH_32 for s in found.scratch.shapes(bound.values).values()):
            found = self.text(target, Layout(64, strided, vectors))
        if found.code.assumed and not serves(found.code.assumed, bound.arrays, bound.values):
            found = self.text(target, replace(found.code.layout, vectors=False))
        require_in_range(found.limits, bound.values)
        return found

    def text(self, target: Target, layout: Layout) -> Text:
        found = self._texts.get((target, layout))
        if found is None:
            found = self._texts[target, layout] = Text(stages.generate(self.kernel, target, layout))
        return found


class TypedKernels:
    """A kernel by the dtypes of the arguments that it leaves open.

    :ivar unknown: the names of those arguments.
    """

    def __init__(self, knl: LoopKernel) -> None:
        self.kernel = knl
        with bounded(f"calling kernel '{knl.name}'"):
            self.unknown = tuple(stages.unknown_dtypes(knl))
            typed = None if self.unknown else stages.infer_types(knl)
        self._known: dict[tuple[np.dtype[Any] | None, ...], TypedKernel] = {}
        self._lock = threading.Lock()
        if typed is not None:
            self._known[()] = TypedKernel(typed)

    @cached_property
    def structural(self) -> frozenset[str]:
        """The value arguments that shapes, launches and the choice of a text may depend on."""
        with bounded(f"calling kernel '{self.kernel.name}'"):
            return stages.structural_values(self.kernel)

    def of(self, given: Mapping[str, Any]) -> TypedKernel:
        """The kernel with its open dtypes taken from what is *given*: arrays with a numpy dtype, and scalars.

        :raises CallError: a dtype is not known, or no kernel has it.
        """
        signature = tuple(getattr(given.get(name), "dtype", None) for name in self.unknown)
        # Python's numbers carry no dtype: their kind decides, so they are looked up each time
        known = self._known.get(signature) if None not in signature else None
        if known is not None:
            return known
        dtypes = self._open_dtypes(given)
        signature = tuple(dtypes.get(name) for name in self.unknown)
        with self._lock:
            if signature not in self._known:
                with bounded(f"calling kernel '{self.kernel.name}'"):
                    typed = stages.infer_types(self._closed(dtypes))
                self._known[signature] = TypedKernel(typed)
            return self._known[signature]

    def _closed(self, dtypes: Mapping[str, np.dtype[Any]]) -> LoopKernel:
        """The kernel with *dtypes*, first for what it reads: an output's dtype follows from that where it can."""
        reads, writes = stages.needed_inputs(self.kernel), self.kernel.written_names
        typed = stages.with_dtypes(self.kernel, {k: v for k, v in dtypes.items() if k in reads or k not in writes})
        typed = stages.with_dtypes(typed, {k: dtypes[k] for k in stages.unknown_dtypes(typed) if k in dtypes})
        for name in stages.unknown_dtypes(typed):
            raise CallError(f"the dtype of '{name}' is not known.", argument=name,
                            hint=f"pass {name}=..., or declare it with add_dtypes(knl, {{'{name}': ...}})")
        return typed

    def _open_dtypes(self, given: Mapping[str, Any]) -> dict[str, np.dtype[Any]]:
        require_known(self.kernel.name, self.kernel.argument_by_name.keys(), given)
        dtypes: dict[str, np.dtype[Any]] = {}
        for name in self.unknown:
            value = given.get(name)
            if value is not None:
                is_array = isinstance(self.kernel.argument_by_name[name], GlobalArg)
                dtypes[name] = _supported(name, value.dtype if is_array else dtype_of(name, value))
        return dtypes


def _supported(name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.name not in DTYPE_NAMES:
        raise CallError(f"'{name}' has the dtype {dtype}, which kernels do not know.", argument=name,
                        hint="bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32, float64, "
                             "complex64, complex128")
    if not dtype.isnative:
        raise CallError(f"'{name}' is not in the byte order of this machine.", argument=name,
                        hint=f"pass {name}.astype({spelled(dtype)})")
    return dtype
