"""Tensor maps in CUDA's text: parameters of the kernel, and the host's C++ that makes them."""
from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

import loopkit as lk
from loopkit.ast.tensor_maps import MappedArray, TensorMap
from loopkit.show import program
from loopkit.target.code import Layout, MapParameter
from tests.compilers import cpp_compiler
from tests.gpu.test_tensor_maps import LOADS
from tests.nvrtc import compile_cuda
from tests.runtime.cuda.work import rows, through_memory
from tests.target.test_host_text import as_plain_cpp
from tests.tensor_maps import MapUse, OptionalMapUse, allow, generating, mapped, text

X_MAP = TensorMap("x_map", "x", (16, 32), 128)


@pytest.fixture(autouse=True)
def _uses(monkeypatch: pytest.MonkeyPatch) -> None:
    allow(monkeypatch)


def test_a_kernel_takes_its_maps() -> None:
    code = text(mapped(rows(), X_MAP, TensorMap("y_map", "y", (1, 4))))
    assert code.source.startswith(
        "// tensor maps: x, y at multiples of 16 bytes, row by row; other calls are refused\n\n#ifdef __CUDACC_RTC__\n")
    assert """\
rows(const float *__restrict__ x, float *__restrict__ y, const __grid_constant__ CUtensorMap x_map,
    const __grid_constant__ CUtensorMap y_map, const int m, const int n)
{""" in code.source
    assert [p.name for p in code.kernels[0].parameters if isinstance(p, MapParameter)] == ["x_map", "y_map"]
    assert code.assumed == (MappedArray("x"), MappedArray("y"))
    compile_cuda(code.source, "sm_90")


def test_elements_at_a_distance() -> None:
    code = text(mapped(rows(), TensorMap("x_map", "x", (16, 32), 128, (2, 1))))
    assert "// x_map: boxes of 16 x 32 elements, 2 x 1 apart, of x[n][m]" in code.source
    assert "const cuuint32_t x_map_box[] = {32, 32};" in code.host
    assert "const cuuint32_t x_map_steps[] = {1, 2};" in code.host


def test_loads_of_boxes_compile() -> None:
    """The text of the tests on a GPU."""
    assert len(compile_cuda(LOADS, "sm_90").kernels) == 5


def test_a_text_for_other_arrays() -> None:
    """It has the maps that its instructions still use."""
    for use, is_left in ((MapUse, True), (OptionalMapUse, False)):
        low = mapped(rows(), X_MAP, use=use)
        first, other = text(low), text(low, layout=Layout(vectors=False))
        assert first.assumed == (MappedArray("x"),)
        assert ("other calls are refused" if is_left else "other calls run a text without them") in first.source
        assert other.assumed == ((MappedArray("x"),) if is_left else ())
        assert ("CUtensorMap" in other.source, "CUtensorMap" in other.host) == (is_left, is_left)
    assert "x_map" not in lk.generate_code(rows(), "c").source


def test_refusals() -> None:
    with pytest.raises(lk.PreconditionError, match="'x' is copied by TMA, which sm_80 does not have") as caught:
        text(mapped(rows(), X_MAP), "sm_80")
    assert caught.value.hints == ("target sm_90 or later",)
    with pytest.raises(lk.PreconditionError, match="the box of 'x_map' has 256 bytes, and its swizzle has 128"):
        text(mapped(rows(np.float64), X_MAP))
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<8}", "y[i, j] = x[p[i], j]", name="gather")
    knl = lk.add_dtypes(knl, {"x": np.float32, "p": np.int32})
    with pytest.raises(lk.PreconditionError, match="'x' is copied by TMA, and its first extent depends") as caught:
        text(mapped(knl, TensorMap("x_map", "x", (8, 8))))
    assert caught.value.hints == ("declare the shape of 'x'",)


#: As much of the driver's header as the text uses; the numbers of each map are noted.
DRIVER = """\
#define __grid_constant__
typedef unsigned long long cuuint64_t;
typedef unsigned int cuuint32_t;
struct CUtensorMap { unsigned long long opaque[16]; };
enum CUresult { CUDA_SUCCESS };
enum { CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7, CU_TENSOR_MAP_INTERLEAVE_NONE = 0, CU_TENSOR_MAP_SWIZZLE_NONE = 0,
       CU_TENSOR_MAP_SWIZZLE_128B = 3, CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0 };
extern "C" { long long maps_[100]; int count_ = 0; }
static CUresult cuTensorMapEncodeTiled(
    CUtensorMap *, int type, cuuint32_t rank, void *data, const cuuint64_t *extents, const cuuint64_t *strides,
    const cuuint32_t *box, const cuuint32_t *steps, int interleave, int swizzle, int promotion, int fill)
{
    maps_[count_++] = reinterpret_cast<long long>(data), maps_[count_++] = type, maps_[count_++] = swizzle;
    for (unsigned int axis = 0; axis < rank; ++axis) {
        maps_[count_++] = extents[axis], maps_[count_++] = axis ? strides[axis - 1] : 0, maps_[count_++] = box[axis];
        if (steps[axis] != 1 || interleave || promotion != 3 || fill)
            maps_[0] = -1;
    }
    return CUDA_SUCCESS;
}
"""


def test_the_host_makes_them(tmp_path: Path) -> None:
    """Of an array with strides and of one in C order, where there are blocks to launch."""
    code = text(mapped(rows(), X_MAP, TensorMap("y_map", "y", (1, 4))), layout=Layout(64, strided=frozenset({"x"})))
    (tmp_path / "host.cc").write_text(DRIVER + as_plain_cpp(code))
    subprocess.run([cpp_compiler(), "-std=c++17", "-Wall", "-Werror", "-Wno-unused-function", "-shared", "-fPIC", "-o",
                    str(tmp_path / "host.so"), str(tmp_path / "host.cc")], check=True)
    library = ctypes.CDLL(str(tmp_path / "host.so"))

    def made(n: int, m: int) -> list[int]:
        count = ctypes.c_int.in_dll(library, "count_")
        count.value = 0
        library.launch_rows(ctypes.c_void_p(0x1000), ctypes.c_void_p(0x2000), *map(ctypes.c_longlong, (m, n, 200, 1)))
        return list((ctypes.c_longlong*100).in_dll(library, "maps_")[:count.value])
    # address, type, swizzle; then along each axis, the last one first, extent, stride in bytes, box
    assert made(5, 100) == [0x1000, 7, 3, 100, 0, 32, 5, 800, 16, 0x2000, 7, 0, 100, 0, 4, 5, 400, 1]
    assert made(0, 100) == made(5, 0) == []


def test_the_standalone_program_makes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "generate_code", generating(program.generate_code, X_MAP))
    monkeypatch.setattr(program, "lowered_once", lambda knl: mapped(knl, X_MAP))
    source = program.standalone_program(rows(), {"n": 40, "m": 24})
    assert "// Build and run it: nvcc -arch=sm_90 -o rows rows.cu -lcuda && ./rows" in source
    assert "cuTensorMapEncodeTiled(&x_map," in source
    assert "::launch_rows(x.device, y.device, m, n);" in source
    with pytest.raises(lk.CallError, match="No tensor map can describe 'x': its stride along axis 0 is 100 bytes"):
        program.standalone_program(rows(), {"n": 40, "m": 25})


def test_the_map_of_a_temporary() -> None:
    code = text(mapped(through_memory(), TensorMap("t_map", "t", (64,))))
    launch = code.host.partition("through_memory_0<<<")[0].partition("if (1 <= n) {")[2]
    assert launch.split(";")[:4] == [
        "\n        CUtensorMap t_map", "  // boxes of t\n        const cuuint64_t t_map_extents[] = {cuuint64_t(n)}",
        "\n        const cuuint64_t t_map_strides[] = {0}", "\n        const cuuint32_t t_map_box[] = {64}"]
    assert code.host.count("cudaMalloc(&t,") == 1
    assert code.host.count("(&t_map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 1, const_cast<float *>(t),") == 2
