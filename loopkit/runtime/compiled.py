"""Compiled kernels: called with arrays, made for each dtype and layout when first needed."""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from loopkit.errors import CallError, DeviceError, TypeInferenceError
from loopkit.expr.functions import DTYPE_NAMES
from loopkit.expr.kinds import spelled
from loopkit.kernel.data import GlobalArg
from loopkit.kernel.kernel import LoopKernel, require_kernel
from loopkit.runtime import stages
from loopkit.runtime.arguments import Bound, CallPlan, require_array, require_known
from loopkit.runtime.host import HostBackend
from loopkit.runtime.outputs import Outputs
from loopkit.runtime.program import (
    Backend,
    Program,
    ScratchPlan,
    integer_limits,
    no_cuda,
    require_in_range,
)
from loopkit.runtime.scalars import dtype_of
from loopkit.target.code import GeneratedCode, Layout

#: The targets that kernels can be run on, and what runs them.
BACKENDS: dict[str, Callable[[], Backend]] = {"c": HostBackend}


@dataclass(frozen=True)
class Timing:
    """How long calls took.

    :ivar seconds: the median.
    :ivar spread: half the distance between the quartiles, in seconds.
    :ivar runs: how many calls were timed.
    """

    seconds: float
    spread: float
    runs: int

    def __str__(self) -> str:
        scale, unit = next(((s, u) for s, u in ((1.0, "s"), (1e3, "ms"), (1e6, "us"))
                            if self.seconds * s >= 1), (1e6, "us"))
        return f"{self.seconds * scale:.3g} {unit} +- {self.spread * scale:.2g} {unit} ({self.runs} runs)"


class _Variant:
    """One text of a kernel, compiled."""

    def __init__(self, code: GeneratedCode, program: Program) -> None:
        self.code = code
        self.program = program
        self.scratch = ScratchPlan(code.kernels)
        self.limits = integer_limits(code.kernels)


class _Typed:
    """A kernel all of whose dtypes are known, with its texts by layout."""

    def __init__(self, knl: LoopKernel, target: str, backend: Backend) -> None:
        self.kernel = knl
        self.plan = CallPlan(knl)
        self._target = target
        self._backend = backend
        self._variants: dict[Layout, _Variant] = {}

    def variant(self, bound: Bound) -> _Variant:
        """The text that fits the arrays of a call."""
        wide = bound.wide
        found = self._variant(Layout(64 if wide else 32, bound.strided))
        if not wide and any(_elements(s) >= 2**31 for s in found.scratch.shapes(bound.values).values()):
            found = self._variant(Layout(64, bound.strided))
        return found

    def _variant(self, layout: Layout) -> _Variant:
        found = self._variants.get(layout)
        if found is None:
            code = stages.generate(self.kernel, self._target, layout)
            found = _Variant(code, self._backend.load(code, self.kernel.name))
            self._variants[layout] = found
        return found


class CompiledKernel:
    """A kernel with what was compiled for it; call it with arrays and scalars by name.

    Dtypes that the kernel leaves open are taken from the arrays of each call. A text is generated and compiled
    when the first call needs it.

    :ivar kernel: the kernel, as it was given.
    :ivar target: ``"c"``.
    """

    def __init__(self, kernel: LoopKernel, target: str, device: object = None) -> None:
        self.kernel = kernel
        self.target = target
        self.device = device
        self._backend = BACKENDS[target]()
        self._unknown = tuple(stages.unknown_dtypes(kernel))
        self._typed: dict[tuple[np.dtype[Any] | None, ...], _Typed] = {}
        if not self._unknown:
            self._typed[()] = _Typed(stages.infer_types(kernel), target, self._backend)

    def __call__(self, *args: object, **kwargs: object) -> Outputs:
        """Run the kernel.

        :returns: one entry for each written argument. An array that was passed is written in place and is the entry.
        :raises CallError: an argument does not fit.
        """
        if args:
            raise CallError(f"kernel '{self.kernel.name}' takes its arguments by name.", argument="",
                            hint=f"call it as {self.kernel.name}({_by_name(self.kernel, len(args))})")
        typed, bound, variant = self._prepare(kwargs)
        variant.program.run(bound, variant.scratch.allocate(bound.values))
        outputs = typed.plan.outputs
        return Outputs(outputs, [bound.arrays[name] for name in outputs])

    @property
    def source(self) -> str:
        """The text for arrays in C order with exactly their shapes and 32-bit indices.

        :raises TypeInferenceError: the kernel leaves dtypes open.
        """
        if self._unknown:
            raise TypeInferenceError(
                f"the dtypes of {_listed(self._unknown)} are open until kernel '{self.kernel.name}' is called.",
                subject=self._unknown[0], hint="declare them with add_dtypes(knl, {...})")
        return stages.generate(self._typed[()].kernel, self.target, Layout()).source

    def time(self, *, duration: float = 0.2, **kwargs: Any) -> Timing:
        """How long a call takes; arrays that the kernel writes are copied first and left as they are.

        :arg duration: about how long to measure, in seconds.
        """
        kwargs = {k: v.copy(order="K") if k in self.kernel.written_names and isinstance(v, np.ndarray) else v
                  for k, v in kwargs.items()}
        _, bound, variant = self._prepare(kwargs)
        scratch = variant.scratch.allocate(bound.values)
        variant.program.run(bound, scratch)
        times: list[float] = []
        end = time.perf_counter() + duration
        while len(times) < 5 or (time.perf_counter() < end and len(times) < 10_000):
            start = time.perf_counter()
            variant.program.run(bound, scratch)
            times.append(time.perf_counter() - start)
        low, median, high = statistics.quantiles(times, n=4)
        return Timing(median, (high - low) / 2, len(times))

    def _prepare(self, given: Mapping[str, object]) -> tuple[_Typed, Bound, _Variant]:
        typed = self._for_dtypes(given) if self._unknown else self._typed[()]
        bound = typed.plan.bind(given)
        variant = typed.variant(bound)
        require_in_range(variant.limits, bound.values)
        return typed, bound, variant

    def _for_dtypes(self, given: Mapping[str, object]) -> _Typed:
        """The kernel with its open dtypes taken from what is *given*."""
        signature = tuple(getattr(given.get(name), "dtype", None) for name in self._unknown)
        # Python's numbers carry no dtype: their kind decides, so they are looked up each time
        known = self._typed.get(signature) if None not in signature else None
        if known is not None:
            return known
        dtypes = self._open_dtypes(given)
        signature = tuple(dtypes.get(name) for name in self._unknown)
        if signature not in self._typed:
            self._typed[signature] = _Typed(stages.infer_types(self._closed(dtypes)), self.target, self._backend)
        return self._typed[signature]

    def _closed(self, dtypes: Mapping[str, np.dtype[Any]]) -> LoopKernel:
        """The kernel with *dtypes*, first for what it reads: an output's dtype follows from that where it can."""
        reads, writes = stages.needed_inputs(self.kernel), self.kernel.written_names
        typed = stages.with_dtypes(self.kernel, {k: v for k, v in dtypes.items() if k in reads or k not in writes})
        typed = stages.with_dtypes(typed, {k: dtypes[k] for k in stages.unknown_dtypes(typed) if k in dtypes})
        for name in stages.unknown_dtypes(typed):
            raise CallError(f"the dtype of '{name}' is not known.", argument=name,
                            hint=f"pass {name}=..., or declare it with add_dtypes(knl, {{'{name}': ...}})")
        return typed

    def _open_dtypes(self, given: Mapping[str, object]) -> dict[str, np.dtype[Any]]:
        require_known(self.kernel.name, self.kernel.argument_by_name.keys(), given)
        dtypes: dict[str, np.dtype[Any]] = {}
        for name in self._unknown:
            value = given.get(name)
            if value is not None:
                is_array = isinstance(self.kernel.argument_by_name[name], GlobalArg)
                dtype = require_array(name, value).dtype if is_array else dtype_of(name, value)
                dtypes[name] = _supported(name, dtype)
        return dtypes

    def __reduce__(self) -> tuple[Any, ...]:
        return compile, (self.kernel, self.target, self.device)

    def __repr__(self) -> str:
        return f"<CompiledKernel '{self.kernel.name}' for target '{self.target}'>"


def choose_target(target: object = None) -> str:
    """The name of the target to run on: *target*'s own, or where it is ``None`` the host C target.

    :raises DeviceError: nothing here runs kernels of that target.
    """
    name = "c" if target is None else target if isinstance(target, str) else getattr(target, "name", str(target))
    if name in BACKENDS:
        return str(name)
    if name == "cuda":
        raise no_cuda()
    raise DeviceError(f"'{name}' is not a target that kernels can run on.", hint=f"there is {_listed(tuple(BACKENDS))}")


def compile(knl: LoopKernel, target: object = None,            # noqa: A001 (the public name)
            device: object = None) -> CompiledKernel:
    """Make *knl* ready to be called.

    :arg target: ``"c"``; ``None`` takes what the machine has.
    :arg device: which GPU; ``None`` takes the first.
    :raises DeviceError: *target* does not run here.
    :raises CompilerError: there is no compiler.
    """
    return CompiledKernel(require_kernel(knl, "compile"), choose_target(target), device)


def call(knl: LoopKernel, *args: object, **kwargs: object) -> Outputs:
    """Run *knl* as ``knl(...)`` does: compiled once, and kept with the kernel."""
    compiled: CompiledKernel | None = knl.memo.get("compiled")
    if compiled is None:
        compiled = knl.memo["compiled"] = compile(knl)
    return compiled(*args, **kwargs)


def _supported(name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.name not in DTYPE_NAMES:
        raise CallError(f"'{name}' has the dtype {dtype}, which kernels do not know.", argument=name,
                        hint="bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32, float64, "
                             "complex64, complex128")
    if not dtype.isnative:
        raise CallError(f"'{name}' is not in the byte order of this machine.", argument=name,
                        hint=f"pass {name}.astype({spelled(dtype)})")
    return dtype


def _elements(shape: tuple[int, ...]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


def _by_name(knl: LoopKernel, count: int) -> str:
    names = [a.name for a in knl.arguments][:count]
    return ", ".join(f"{n}={n}" for n in names) + (", ..." if count < len(knl.arguments) else "")


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{n}'" for n in names)

