"""Boxes of arrays, loaded by TMA through the runtime's tensor maps, and compared byte by byte with numpy's."""
from __future__ import annotations

import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopkit as lk
from loopkit.ast.tensor_maps import MappedArray, TensorMap, requirements
from loopkit.runtime.cache import DiskCache, cache_directory
from loopkit.runtime.cuda.compiler import load_binary
from loopkit.runtime.cuda.devices import Gpu, find_gpu
from loopkit.runtime.cuda.driver import ANOTHER_CONTEXT
from loopkit.runtime.cuda.launching import PreparedLaunch, loaded_functions
from loopkit.runtime.cuda.memory import DeviceArray, allocate
from loopkit.runtime.cuda.tensor_maps import EncodedMap
from loopkit.runtime.views import ArrayView
from loopkit.target.code import GeneratedKernel, MapParameter, Pointer, Value
from loopkit.target.cuda.dialect import CUDA

F, BF16 = np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)

#: One thread begins the load of a box, all wait for it by the phase of an mbarrier, and write out its bytes.
_LOAD = """
extern "C" __global__ void load_RANK(const __grid_constant__ CUtensorMap x_map, unsigned char *out,
                                     const unsigned int bytes, COORDINATES)
{
    __shared__ __align__(1024) unsigned char box[40960];
    __shared__ __align__(8) unsigned long long barrier;
    const unsigned int to = __cvta_generic_to_shared(box), phase = __cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(phase));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(phase), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.tensor.RANKd.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {PLACES}], [%2];" :: "r"(to), "l"(&x_map), "r"(phase), OPERANDS : "memory");
    }
    unsigned int done = 0;
    for (int tries = 0; !done && tries < 1 << 20; ++tries)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(phase) : "memory");
    for (unsigned int i = threadIdx.x; done && i < bytes; i += blockDim.x)
        out[i] = box[i];
}
"""


def _load(rank: int) -> str:
    """The text for *rank* axes, whose coordinates begin with the last one."""
    names = [f"c{axis}" for axis in range(rank)]
    words = {"RANK": str(rank), "COORDINATES": ", ".join(f"const int {x}" for x in names),
             "PLACES": ", ".join(f"%{3 + k}" for k in range(rank)), "OPERANDS": ", ".join(f'"r"({x})' for x in names)}
    text = _LOAD
    for word, value in words.items():
        text = text.replace(word, value)
    return text


LOADS = "".join(map(_load, range(1, 6)))
LOADS = CUDA.preamble(LOADS) + LOADS


@pytest.fixture(name="gpu")
def _gpu() -> Gpu:
    found = find_gpu()
    if found.capability < (9, 0):
        pytest.skip(f"{found} has no TMA")
    return found


def on_gpu(gpu: Gpu, array: np.ndarray) -> DeviceArray:
    """A copy of the memory of *array*, which may have gaps, at the same strides."""
    view = ArrayView.of(array)
    memory = allocate(gpu, (view.span[1],), np.dtype(np.uint8))
    with gpu:
        base = array if array.base is None else array.base
        gpu.pycuda.memcpy_htod(memory.pointer, np.ascontiguousarray(base).reshape(-1).view(np.uint8)[:view.span[1]])
    return DeviceArray(ArrayView(view.dtype, view.shape, view.strides, memory.pointer, gpu.ordinal), memory)


def loaded(gpu: Gpu, array: np.ndarray, made: TensorMap, start: tuple[int, ...]) -> np.ndarray:
    """The bytes in shared memory of the box of *array* that begins at *start*."""
    rank, x = array.ndim, on_gpu(gpu, array)
    bytes_ = made.bytes_of_box(array.itemsize)
    out = allocate(gpu, (bytes_,), np.dtype(np.uint8))
    names = [f"c{axis}" for axis in range(rank)]
    kernel = GeneratedKernel(f"load_{rank}", (
        MapParameter("x_map", x.dtype, made), Pointer("out", np.dtype(np.uint8), written=True),
        Value("bytes", np.dtype(np.uint32)), *(Value(c, np.dtype(np.int32)) for c in names)))
    binary = load_binary(LOADS, "loads", lk.CudaTarget(arch=gpu.known_arch), DiskCache(cache_directory()))
    function = loaded_functions(gpu, binary.cubin, (kernel,))[kernel.name]
    values = {"bytes": bytes_, **dict(zip(names, reversed(start), strict=True))}
    launch = PreparedLaunch(gpu.driver, function, kernel, (1, 1, 1, 128, 1, 1), {"x": 0, "out": 1}, {"x": x.view},
                            values)
    result = np.zeros(bytes_, np.uint8)
    with gpu:
        gpu.pycuda.memset_d8(out.pointer, 0xEE, bytes_)
        for _ in range(2):                             # the second one takes the map that is kept
            code = launch.enter([x.pointer, out.pointer], 0)
            assert code == 0, gpu.driver.failure(code)
        gpu.driver.synchronize(0)
        gpu.pycuda.memcpy_dtoh(result, out.pointer)
    return result


def expected(array: np.ndarray, made: TensorMap, start: tuple[int, ...]) -> np.ndarray:
    """The same by numpy: zeros outside of the array, and each byte at its place."""
    box = np.zeros(made.box, array.dtype)
    inside = [range(max(s, 0), min(s + b, n)) for s, b, n in zip(start, made.box, array.shape, strict=True)]
    box[tuple(slice(r.start - s, r.stop - s) for r, s in zip(inside, start, strict=True))] = \
        array[tuple(slice(r.start, r.stop) for r in inside)]
    found = np.zeros(made.bytes_of_box(array.itemsize), np.uint8)
    found[[made.place(byte) for byte in range(len(found))]] = box.reshape(-1).view(np.uint8)
    return found


def numbers(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Elements whose bytes differ."""
    size = int(np.prod(shape))*np.dtype(dtype).itemsize
    return np.random.default_rng(size).integers(1, 120, size, np.uint8).view(dtype).reshape(shape)


@pytest.mark.parametrize(("shape", "dtype", "box", "swizzle", "start"), [
    ((70, 96), F, (64, 8), 32, (0, 8)), ((70, 96), F, (64, 16), 64, (3, 16)), ((70, 96), F, (64, 32), 128, (2, 32)),
    ((70, 96), F, (64, 40), 0, (2, 40)), ((256, 64), BF16, (256, 64), 128, (0, 0)),
    ((30, 64), np.int8, (16, 32), 32, (9, 32)),
    ((30, 24), np.float64, (7, 8), 64, (5, 16)), ((30, 24), np.complex64, (7, 16), 128, (5, 8)),
    # rows of which each begins at a multiple of 16 bytes, and that end at none; boxes that lie partly outside
    ((33, 52), F, (16, 32), 128, (-3, 32)), ((33, 52), F, (40, 16), 64, (20, -8)),
    ((33, 56), np.float16, (8, 8), 0, (33, 8)),
    ((1, 52), F, (4, 32), 128, (0, 0)), ((33, 1), np.int32, (4, 4), 0, (0, 0)),
    ((100,), F, (64,), 0, (48,)), ((100,), F, (32,), 128, (80,)),
    ((5, 6, 40), BF16, (2, 3, 32), 64, (4, 1, 8)), ((3, 4, 5, 16), F, (2, 2, 2, 8), 32, (1, 1, 1, 8)),
    ((2, 3, 4, 5, 16), np.uint8, (1, 2, 3, 4, 16), 0, (1, 2, 0, -1, 0))])
def test_a_box(gpu: Gpu, shape: tuple[int, ...], dtype: Any, box: tuple[int, ...], swizzle: int,
               start: tuple[int, ...]) -> None:
    made, array = TensorMap("x_map", "x", box, swizzle), numbers(shape, dtype)
    padded = np.zeros((*shape[:-1], -(-shape[-1]*array.itemsize // 16)*16 // array.itemsize + 16), array.dtype)
    padded[..., :shape[-1]] = array
    view = padded[..., :shape[-1]]                     # rows with gaps
    assert requirements(made, array.dtype, array.ndim).obstacle(view.shape, view.strides, view.itemsize) is None
    np.testing.assert_array_equal(loaded(gpu, view, made, start), expected(view, made, start))
    if MappedArray("x").obstacle(array.shape, array.strides, array.itemsize) is None:
        np.testing.assert_array_equal(loaded(gpu, array, made, start), expected(array, made, start))


def test_axes_in_another_order(gpu: Gpu) -> None:
    """The strides of a map need not fall from axis to axis."""
    array, made = numbers((6, 5, 16), F).transpose(1, 0, 2), TensorMap("x_map", "x", (3, 4, 16), 64)
    np.testing.assert_array_equal(loaded(gpu, array, made, (1, 3, 0)), expected(array, made, (1, 3, 0)))


@pytest.mark.parametrize(("box", "swizzle", "strides", "address", "is_right"), [
    ((256, 16), 64, (128, 4), 0, True), ((257, 8), 0, (128, 4), 0, False), ((8, 3), 0, (128, 4), 0, False),
    ((8, 32), 64, (128, 4), 0, False), ((8, 8), 0, (120, 4), 0, False), ((8, 8), 0, (128, 4), 8, False),
    ((8, 8), 0, (2**40, 4), 0, False)])
def test_the_driver_refuses_what_is_refused_here(
        gpu: Gpu, box: tuple[int, ...], swizzle: int, strides: tuple[int, ...], address: int, is_right: bool) -> None:
    view, memory = ArrayView(F, (300, 30), strides), allocate(gpu, (300*128,), np.dtype(np.uint8))
    made = EncodedMap(gpu.driver.tensor_map_encoder(), TensorMap("x_map", "x", box, swizzle), view)
    with gpu:
        assert (made.describe(memory.pointer + address) == 0) is is_right


def test_a_thread_without_a_context(gpu: Gpu) -> None:
    """It encodes a map, or fails in a way after which a call tries again in the runtime's context."""
    memory, codes = allocate(gpu, (4096,), np.dtype(np.uint8)), list[int]()
    made = EncodedMap(gpu.driver.tensor_map_encoder(), TensorMap("x_map", "x", (8, 8)), ArrayView.packed((32, 32), F))
    thread = threading.Thread(target=lambda: codes.append(made.describe(memory.pointer)))
    thread.start()
    thread.join()
    assert codes == [0] or codes[0] in ANOTHER_CONTEXT
