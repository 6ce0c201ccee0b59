"""The helper that compiles CUDA texts: it must not pass what NVRTC refuses."""
from __future__ import annotations

import pytest

from tests.nvrtc import compile_cuda

REVERSE = """
extern "C" __global__ void reverse(float const *__restrict__ a, float *__restrict__ out)
{
    __shared__ float tile[256];
    tile[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[255 - threadIdx.x];
}
"""


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_resources_are_read_from_the_log(arch: str) -> None:
    compiled = compile_cuda(REVERSE, arch)
    assert compiled.binary.cubin.startswith(b"\x7fELF")
    assert list(compiled.kernels) == ["reverse"]
    assert compiled.shared == 1024
    assert 1 <= compiled.registers <= 32
    assert compiled.spills == compiled.stack == 0


def test_local_memory_shows_as_stack() -> None:
    source = """extern "C" __global__ void scatter(int const *at, float *out)
    {
        float values[64];
        for (int i = 0; i < 64; ++i) values[at[i]] = out[i];
        for (int i = 0; i < 64; ++i) out[i] = values[at[i + 64]];
    }"""
    assert compile_cuda(source, "sm_90").stack >= 256


def test_each_kernel_has_its_own_resources() -> None:
    compiled = compile_cuda(REVERSE + 'extern "C" __global__ void zero(float *a) { a[threadIdx.x] = 0; }', "sm_90")
    assert compiled.kernels["reverse"].static_shared == 1024
    assert compiled.kernels["zero"].static_shared == 0


def test_an_error_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="NVRTC refuses"):
        compile_cuda('extern "C" __global__ void broken(float *a) { a[0] = b; }', "sm_90")


def test_a_warning_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="NVRTC warns"):
        compile_cuda('extern "C" __global__ void unused(float *a) { int i; a[0] = 1; }', "sm_90")
