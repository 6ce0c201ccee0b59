"""The host C backend: functions of a shared object, called through ctypes."""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from loopkit.expr.kinds import is_half
from loopkit.runtime.arguments import Array, Bound
from loopkit.runtime.cache import DiskCache, cache_directory
from loopkit.runtime.compiler import find_compiler
from loopkit.runtime.library import load_library
from loopkit.runtime.program import Getter, getter
from loopkit.target.code import GeneratedCode, Launch, Parameter, ParameterKind


class _Complex64(ctypes.Structure):
    # passed in registers just like C's ``float complex`` on the ABIs in use (x86-64, aarch64)
    _fields_ = [("re", ctypes.c_float), ("im", ctypes.c_float)]


class _Complex128(ctypes.Structure):
    _fields_ = [("re", ctypes.c_double), ("im", ctypes.c_double)]


_CTYPES: dict[str, Any] = {
    "bool": ctypes.c_bool, "float16": ctypes.c_uint16, "bfloat16": ctypes.c_uint16,
    "float32": ctypes.c_float, "float64": ctypes.c_double,
    "complex64": _Complex64, "complex128": _Complex128,
    **{f"{sign}int{bits}": getattr(ctypes, f"c_{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)}}


class HostProgram:
    """The launches of one translation unit as functions of a loaded library."""

    def __init__(self, library: ctypes.CDLL, launches: Sequence[Launch]) -> None:
        self._library = library
        self._calls: tuple[tuple[Any, tuple[Getter, ...]], ...] = tuple(
            (_function(library, launch), tuple(_argument(p) for p in launch.parameters)) for launch in launches)

    def run(self, bound: Bound, scratch: dict[str, Array]) -> None:
        for function, getters in self._calls:
            function(*[get(bound, scratch) for get in getters])


class HostBackend:
    """Compiles with the host's C compiler, keeps the objects on disk, and loads them.

    :arg compiler: the compiler's command; found where it is not given.
    """

    def __init__(self, compiler: str | None = None) -> None:
        self.cache = DiskCache(cache_directory())
        self.compiler = find_compiler(compiler, self.cache)

    def load(self, code: GeneratedCode, kernel: str) -> HostProgram:
        return HostProgram(load_library(code.source, kernel, self.compiler, self.cache), code.kernels)


def _function(library: ctypes.CDLL, launch: Launch) -> Any:
    function = getattr(library, launch.name)
    function.argtypes = [_ctype(p) for p in launch.parameters]
    function.restype = None
    return function


def _ctype(parameter: Parameter) -> Any:
    if parameter.kind in (ParameterKind.ARRAY, ParameterKind.SCRATCH):
        return ctypes.c_void_p
    return _CTYPES[np.dtype(parameter.dtype).name]


def _argument(parameter: Parameter) -> Getter:
    if parameter.kind is ParameterKind.VALUE and np.dtype(parameter.dtype).kind == "c":
        pair, name = _CTYPES[np.dtype(parameter.dtype).name], parameter.name
        return lambda bound, scratch: pair(bound.values[name].real, bound.values[name].imag)
    if parameter.kind is ParameterKind.VALUE and is_half(parameter.dtype):
        dtype, name = parameter.dtype, parameter.name
        return lambda bound, scratch: int(np.array(bound.values[name], dtype).view(np.uint16))
    return getter(parameter, _address)


def _address(array: Array) -> int:
    return array.ctypes.data
