"""CUDA C++ to a cubin with NVRTC, which needs no GPU, for tests of texts."""
from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache

import pytest

import loopkit as lk
from loopkit.runtime.cuda.compiler import Nvrtc, find_nvrtc
from loopkit.runtime.cuda.resources import Binary, PtxasUsage
from tests.compilers import without


@dataclass(frozen=True)
class CompiledCuda:
    """A binary for *arch*; the numbers are for texts of one function and give the largest of several."""

    arch: str
    binary: Binary

    @property
    def kernels(self) -> dict[str, PtxasUsage]:
        return dict(self.binary.resources)

    @property
    def registers(self) -> int:
        return max(k.registers for k in self.kernels.values())

    @property
    def spills(self) -> int:
        return max(k.spill_stores + k.spill_loads for k in self.kernels.values())

    @property
    def stack(self) -> int:
        return max(k.stack for k in self.kernels.values())

    @property
    def shared(self) -> int:
        return max(k.static_shared for k in self.kernels.values())


@cache
def compile_cuda(source: str, arch: str = "sm_90") -> CompiledCuda:
    """Compile *source*; the test fails with the compiler's log if it is not accepted, or not without warnings."""
    __tracebackhide__ = True
    try:
        binary = nvrtc().cubin(source, "text", lk.CudaTarget(arch))
    except lk.CompilerError as err:
        pytest.fail(f"NVRTC refuses this text for {arch}:\n{err}\n{source}", pytrace=False)
    if "warning" in binary.log:
        pytest.fail(f"NVRTC warns about this text for {arch}:\n{binary.log}\n{source}", pytrace=False)
    assert binary.resources, f"no kernel in this text, or a log of another form:\n{binary.log}\n{source}"
    return CompiledCuda(arch, binary)


def nvrtc() -> Nvrtc:
    """The test extra installs NVRTC wherever there are wheels of it; elsewhere, and not in CI, tests do without."""
    found = find_nvrtc()
    if found is not None:
        return found
    if sys.platform == "darwin":
        without("there are no NVRTC wheels for this platform")
    pytest.fail("NVRTC is not installed: pip install -e '.[test]'", pytrace=False)
