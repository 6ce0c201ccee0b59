"""CUDA C++ to a cubin with NVRTC, which needs no GPU, and what ptxas says about each kernel in it."""
from __future__ import annotations

import importlib.util
import io
import os
import re
import sys
from dataclasses import dataclass
from functools import cache

import pytest

from loopkit.runtime.cuda.headers import header_directories, needs_headers


@dataclass(frozen=True)
class KernelResources:
    """What one kernel takes, by ptxas.

    :ivar registers: 32-bit registers a thread.
    :ivar spills: bytes of spill stores and loads a thread.
    :ivar stack: bytes of stack frame a thread (arrays in local memory among them).
    :ivar shared: bytes of static shared memory a block.
    """

    name: str
    registers: int
    spills: int
    stack: int
    shared: int


@dataclass(frozen=True)
class CompiledCuda:
    """A cubin for *arch*, the compiler's log, and the resources of its kernels.

    :ivar kernels: by name; the single-valued properties are for texts of one kernel and give the largest of several.
    """

    arch: str
    cubin: bytes
    log: str
    kernels: dict[str, KernelResources]

    @property
    def registers(self) -> int:
        return max(k.registers for k in self.kernels.values())

    @property
    def spills(self) -> int:
        return max(k.spills for k in self.kernels.values())

    @property
    def stack(self) -> int:
        return max(k.stack for k in self.kernels.values())

    @property
    def shared(self) -> int:
        return max(k.shared for k in self.kernels.values())


_KERNEL = re.compile(
    r"Compiling entry function '(?P<name>\w+)' for '\w+'"
    r".*?(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads"
    r".*?Used (?P<registers>\d+) registers(?P<rest>[^\n]*)", re.DOTALL)


def parse_ptxas_log(log: str) -> dict[str, KernelResources]:
    """The lines that ``ptxas -v`` prints, by kernel."""
    found = {}
    for m in _KERNEL.finditer(log):
        shared = re.search(r"(\d+) bytes smem", m["rest"])
        found[m["name"]] = KernelResources(
            m["name"], registers=int(m["registers"]), spills=int(m["stores"]) + int(m["loads"]),
            stack=int(m["stack"]), shared=int(shared[1]) if shared else 0)
    return found


@cache
def compile_cuda(source: str, arch: str = "sm_90") -> CompiledCuda:
    """Compile *source*; the test fails with the compiler's log if it is not accepted, or not without warnings."""
    __tracebackhide__ = True
    _require_nvrtc()
    from cuda.core import Program, ProgramOptions
    from cuda.core._utils.cuda_utils import NVRTCError
    messages = io.StringIO()
    include = list(header_directories()) if needs_headers(source) else None
    try:
        program = Program(source, "c++", ProgramOptions(arch=arch, ptxas_options=["-v"], include_path=include))
        cubin = program.compile("cubin", logs=messages).code
    except NVRTCError as err:
        pytest.fail(f"NVRTC refuses this text for {arch}:\n{err}\n{source}", pytrace=False)
    log = messages.getvalue()
    if "warning" in log:
        pytest.fail(f"NVRTC warns about this text for {arch}:\n{log}\n{source}", pytrace=False)
    kernels = parse_ptxas_log(log)
    assert kernels, f"no kernel in this text, or a log of another form:\n{log}\n{source}"
    return CompiledCuda(arch, bytes(cubin), log, kernels)


def _require_nvrtc() -> None:
    """The test extra installs NVRTC wherever there are wheels of it; elsewhere, and not in CI, tests do without."""
    if all(map(importlib.util.find_spec, ("cuda", "cuda.core"))):
        return
    if sys.platform == "darwin" and "CI" not in os.environ:
        pytest.skip("there are no NVRTC wheels for this platform")
    pytest.fail("cuda.core is not installed: pip install -e '.[test]'", pytrace=False)
