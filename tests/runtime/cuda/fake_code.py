"""Code for the fake GPUs: the host's C of the same kernel, called with the parameters of a launch."""
from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from loopkit.expr.evaluate import evaluate
from loopkit.kernel.kernel import LoopKernel
from loopkit.runtime.cache import DiskCache, cache_directory
from loopkit.runtime.compiler import OPENMP, HostCompiler, find_compiler
from loopkit.runtime.cuda.resources import Binary
from loopkit.runtime.host import _ctype, _function, load_library
from loopkit.target.c.target import CTarget
from loopkit.target.code import (
    GeneratedCode,
    GeneratedKernel,
    HostIname,
    Layout,
    MapParameter,
    Parameter,
    Pointer,
    ScratchPointer,
    Stride,
    Value,
)
from loopkit.target.cuda.target import CudaTarget
from tests.runtime.cuda.fake_gpu import Function, Machine

_DELAY = b"delay"
#: Cycles of the fake GPUs in a second.
_CYCLES = 1e9


def single_threaded(target: CTarget, cache: DiskCache) -> HostCompiler:
    """The host's compiler without OpenMP: for a few elements, its threads do nothing but wait for each other."""
    found = find_compiler(target, cache)
    return replace(found, chosen=tuple(f for f in found.chosen if f != OPENMP))


class Codes:
    """Texts by number; a "cubin" is that number.

    :ivar layouts: what each text was made for, in the order in which they were asked for.
    :ivar compiled: what those were made for that were compiled, in order.
    """

    def __init__(self, generate: Callable[..., GeneratedCode]) -> None:
        self._generate = generate
        self._made: dict[str, tuple[LoopKernel, Layout, GeneratedCode]] = {}
        self._libraries: dict[bytes, tuple[GeneratedCode, ctypes.CDLL | None]] = {}
        self._loaded: dict[int, tuple[bytes, int, Machine]] = {}
        self.layouts: list[Layout] = []
        self.compiled: list[Layout] = []

    def generate(self, knl: LoopKernel, target: CudaTarget | CTarget, layout: Layout) -> GeneratedCode:
        """Stands for :func:`loopkit.verification.checks.generate_code`."""
        code = self._generate(knl, target=target, layout=layout)
        if isinstance(target, CudaTarget):
            self.layouts.append(layout)
            self._made[code.source] = knl, layout, code
        return code

    def load_binary(self, source: str, kernel: str, target: CudaTarget, cache: DiskCache) -> Binary:
        """Stands for :func:`loopkit.runtime.cuda.compiler.load_binary`."""
        if source not in self._made:
            assert "clock64" in source
            self._libraries.setdefault(_DELAY, (GeneratedCode("cuda", source, ()), None))
            return Binary(_DELAY, "", {})
        knl, layout, cuda = self._made[source]
        name = f"{hash(source)} {target.arch}".encode()
        if name not in self._libraries:
            code = self._generate(knl, target=CTarget(), layout=layout)
            assert [_signature(x) for x in code.kernels] == [_signature(x) for x in cuda.kernels]
            disk = DiskCache(cache_directory())
            self.compiled.append(layout)
            self._libraries[name] = cuda, load_library(code.source, kernel, single_threaded(CTarget(), disk), disk)
        return Binary(name, "", {})

    def load(self, cubin: bytes, module: int, context: int, machine: Machine) -> None:
        if cubin != _DELAY:
            major, minor = machine.capabilities[machine.ordinal_of(context)]
            asked = int(cubin.decode().split("sm_")[1].rstrip("af"))
            assert asked // 10 == major
            assert asked % 10 <= minor
        self._loaded[module] = cubin, context, machine

    def function(self, module: int, name: str) -> Function:
        cubin, context, machine = self._loaded[module]
        code, library = self._libraries[cubin]
        if library is None:
            return Function(context, module, name, lambda *given: _delay(machine, given[3]))
        launch = next(x for x in code.kernels if x.name == name)
        on_host = replace(launch, parameters=tuple(p for p in launch.parameters if not _of_gpus(p)))
        return Function(context, module, name, _Reader(launch, _function(library, on_host)))


#: ``CUtensorMap``.
TensorMapBytes = ctypes.c_char * 128


class _Reader:
    """Reads the parameters of a launch as the driver does: through a table of pointers."""

    def __init__(self, launch: GeneratedKernel, function: Any) -> None:
        self._launch = launch
        self._function = function
        self._types = [TensorMapBytes if isinstance(p, MapParameter) else _ctype(p) for p in launch.parameters]

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], shared: int, table: int
                 ) -> tuple[dict[str, Any], list[int], Callable[[], None]]:
        launch = self._launch
        arguments = []
        for i, kind in enumerate(self._types):
            slot = ctypes.c_void_p.from_address(table + 8*i).value
            assert slot is not None
            assert slot % (64 if kind is TensorMapBytes else max(ctypes.alignment(kind), 1)) == 0
            arguments.append(kind.from_buffer_copy(ctypes.string_at(slot, ctypes.sizeof(kind))))
        values = {p.name: _plain(a) for p, a in zip(launch.parameters, arguments, strict=True)}
        sizes = {p.name: values[p.name] for p in launch.parameters
                 if isinstance(p, Value | HostIname)}
        for extents, given in ((launch.grid, grid), (launch.block, block)):
            assert tuple(int(evaluate(e, sizes)) for e in extents) == given, f"{launch.name} with {values} and {given}"
        assert launch.dynamic_shared_bytes == shared
        pointers = [values[p.name] or 0 for p in launch.parameters if isinstance(p, Pointer)]
        for p in launch.parameters:
            if isinstance(p, Pointer):
                assert (values[p.name] or 0) % np.dtype(p.dtype).itemsize == 0, f"{p.name} is not aligned"
        def run() -> None:
            for p in launch.parameters:
                if isinstance(p, ScratchPointer) and p.cleared:
                    # one element at least; what lies behind is not this one's
                    assert not any(ctypes.string_at(values[p.name], p.element_bytes)), f"{p.name} is not cleared"
            self._function(*(a for a, p in zip(arguments, launch.parameters, strict=True) if not _of_gpus(p)))
        return values, pointers, run


def _plain(argument: Any) -> Any:
    return argument.raw if isinstance(argument, TensorMapBytes) else \
        argument.value if hasattr(argument, "value") else argument


def _signature(launch: GeneratedKernel) -> tuple[Any, ...]:
    return (launch.name, [str(e) for e in (*launch.block, *launch.grid)],
            [(type(p), p.name, p.dtype, (p.array, p.axis) if isinstance(p, Stride) else None)
             for p in launch.parameters if not _of_gpus(p)])


def _of_gpus(p: Parameter) -> bool:
    """Is it a tensor map, or the count of blocks that have started? On the host they run in order."""
    return isinstance(p, MapParameter) or (isinstance(p, ScratchPointer) and p.cleared and p.element is None)


def _delay(machine: Machine, table: int) -> tuple[dict[str, Any], list[int], Callable[[], None]]:
    slot = ctypes.c_void_p.from_address(table).value
    assert slot is not None
    cycles = ctypes.c_longlong.from_address(slot).value

    def run() -> None:
        machine.clock += cycles / _CYCLES
    return {"cycles": cycles}, [], run
