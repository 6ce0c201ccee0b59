"""Calls of OpenCL kernels: pyopencl's arrays and queues, choice of the device, errors."""
from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loopkit as lk
from loopkit.command.info import opencl_lines
from loopkit.runtime.opencl import devices
from loopkit.runtime.opencl.devices import OpenCLDevice
from loopkit.runtime.opencl.kinds import APART, PyopenclKind
from tests.deep import amount
from tests.opencl import opencl


@pytest.fixture(name="device", scope="module")
def _device() -> OpenCLDevice:
    return opencl()


@pytest.fixture(name="cl")
def _cl(device: OpenCLDevice) -> Any:
    return device.cl


@cache
def shifted() -> lk.LoopKernel:
    """Two outputs of the same sizes; rows may lie anywhere."""
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i, j] = x[i, j] + c\nz[i, j] = 2*x[i, j]", name="shifted")
    knl = lk.add_dtypes(knl, {"x": np.float32, "c": np.float32})
    return lk.tag_inames(lk.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0"), "i:g.1")


def test_arrays_in_shared_virtual_memory_are_pointers(device: OpenCLDevice, cl: Any) -> None:
    """PoCL is not asked: it crashes now and then in copies of such memory."""
    x = SimpleNamespace(size=4, offset=0, dtype=np.dtype("f4"), shape=(4,), strides=(4,), queue=device.queue,
                        context=device.context, allocator=None, base_data=SimpleNamespace(svm_ptr=4096), events=[])
    kind = PyopenclKind(cl)
    assert kind.view("x", x).pointer == 4096*APART
    part = SimpleNamespace(**{**vars(x), "offset": 16})
    with pytest.raises(lk.CallError, match="a part of an array in shared virtual memory"):
        kind.view("x", part)


@cache
def compiled() -> lk.CompiledKernel:
    return lk.compile(shifted(), target="opencl")


def numbers(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


# Arrays

def test_arrays_choose_the_target(device: OpenCLDevice, cl: Any) -> None:
    """The results are arrays of pyopencl on the queue of the first one; a passed array is the result."""
    x = numbers(5, 19)
    queue, other = cl.CommandQueue(device.context), cl.CommandQueue(device.context)
    out = shifted()(x=cl.array.to_device(queue, x), c=0.5)
    assert isinstance(out.y, cl.array.Array)
    assert out.y.queue == queue
    np.testing.assert_array_equal(out.y.get(), x + 0.5)
    y = cl.array.zeros(other, x.shape, x.dtype)
    out = shifted()(x=out.y, y=y, c=1)
    assert out.y is y
    # the queue of y waits for the launch on the other one
    np.testing.assert_array_equal(y.get(), x + 1.5)
    np.testing.assert_array_equal(out.z.get(), 2*x + 1)
    host = compiled()(x=x, c=0.5)
    assert isinstance(host.y, np.ndarray)
    np.testing.assert_array_equal(host.y, x + 0.5)


@settings(max_examples=amount(32))
@given(st.data())
def test_views_of_buffers(data: st.DataObject) -> None:
    """Inputs and outputs that begin anywhere, with any strides, each in one buffer with another or by itself."""
    device = opencl()
    array, queue = device.cl.array, device.queue

    def part(length: int) -> slice:
        start = data.draw(st.integers(0, 40))
        return slice(start, start + length*(step := data.draw(st.integers(1, 3))) - step + 1, step)
    n, m = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 9))
    places = {x: (part(n), part(m)) for x in "xyz"}
    before = {x: numbers(60, 80) + 1000*k for k, x in enumerate("xyz")}
    shared = data.draw(st.sampled_from([(), ("x", "y"), ("y", "z")]))
    buffers = {x: array.to_device(queue, a) for x, a in before.items()}
    for x in shared[1:]:
        buffers[x], before[x] = buffers[shared[0]], before[shared[0]]
    arguments = {x: buffers[x][places[x]] for x in "xyz"}
    after = {x: a.copy() for x, a in before.items()}
    for x in shared[1:]:
        after[x] = after[shared[0]]
    source = before["x"][places["x"]].copy()
    overlapping = [(a, b) for a, b in ("xy", "xz", "yz") if after[a] is after[b]
                   and np.shares_memory(after[a][places[a]], after[b][places[b]])]
    try:
        compiled()(**arguments, c=0.5)
        refusal = ""
    except lk.CallError as err:
        refusal = str(err)
    if refusal:
        # one that is written overlaps the other, or both are written and lie between each other
        assert shared
        assert overlapping or "lie between each other in one buffer" in refusal
        return
    assert not overlapping
    after["y"][places["y"]], after["z"][places["z"]] = source + 0.5, 2*source
    for x, a in after.items():
        np.testing.assert_array_equal(buffers[x].get(), a)


def test_arrays_that_kernels_do_not_take(device: OpenCLDevice, cl: Any) -> None:
    x = cl.array.to_device(device.queue, numbers(4, 8))
    with pytest.raises(lk.CallError, match="'x' has negative strides"):
        shifted()(x=x[::-1], c=1)
    with pytest.raises(lk.CallError, match="'y' is written and overlaps 'x' in memory"):
        shifted()(x=x, y=x, c=1)
    elsewhere = cl.array.to_device(cl.CommandQueue(cl.Context([device.device])), numbers(4, 8))
    with pytest.raises(lk.CallError, match="'y' and 'x' are in different contexts of OpenCL"):
        shifted()(x=x, y=elsewhere, c=1)
    with pytest.raises(lk.CallError, match="'x' is in another context of OpenCL than the one that the kernel"):
        lk.compile(shifted(), target="opencl", device=device.queue)(x=elsewhere, c=1)
    with pytest.raises(lk.CallError, match="'x' is an array of the target 'opencl', and the kernel was compiled for"):
        lk.compile(shifted(), target="c")(x=x, c=1)
    assert shifted()(x=x[:0], c=1).y.shape == (0, 8)


def test_vector_accesses_need_aligned_arrays(device: OpenCLDevice, cl: Any) -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="twice")
    knl = lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", 32, outer_tag="g.0")
    knl = lk.split_iname(knl, "i_inner", 4, outer_tag="l.0", inner_tag="vec")
    call = lk.compile(knl, target="opencl")
    assert "(__global const float4 *)" in call.source
    x = numbers(100)
    for start in (0, 1, 4):
        given = cl.array.to_device(device.queue, x)[start:]
        np.testing.assert_array_equal(call(x=given).y.get(), 2*x[start:])


# Queues and devices

def test_a_queue_can_be_chosen(device: OpenCLDevice, cl: Any) -> None:
    queue = cl.CommandQueue(device.context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
    x = cl.array.to_device(device.queue, numbers(3, 8))
    for call in (compiled().on(queue), lk.compile(shifted(), target="opencl", device=queue, debug=True)):
        out = call(x=x, c=1)
        assert out.y.queue == queue
        np.testing.assert_array_equal(out.y.get(), numbers(3, 8) + 1)
    bound = compiled().bind(x=x, c=1)
    first = bound()
    assert bound().y is first.y
    assert bound.number_of_launches == 1
    assert compiled().time(x=x, c=1, duration=0.001, bytes=1).seconds > 0
    assert compiled().time(x=numbers(3, 8), c=1, duration=0.001).runs >= 5
    with pytest.raises(lk.CallError, match="3 is not a queue of OpenCL"):
        compiled().on(3)


def test_temporaries_have_the_memory_of_the_allocator_of_an_array_of_the_queue(device: OpenCLDevice, cl: Any) -> None:
    sizes = list[int]()

    def allocate(size: int) -> Any:
        sizes.append(size)
        return cl.Buffer(device.context, cl.mem_flags.READ_WRITE, size)

    knl = lk.make_kernel("{[i, j]: 0<=i,j<n}", "<> t[i] = 2*x[i]\n... gbarrier\ny[j] = t[n-1-j]")
    run = lk.compile(lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "i:g.0, j:g.0"), target="opencl")
    x = cl.array.to_device(device.queue, numbers(6), allocator=allocate)
    assert run(x=x).y.get().tolist() == [10, 8, 6, 4, 2, 0]
    assert sizes == [24, 24, 24]                       # x, y and t
    mode = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    for queue in (cl.CommandQueue(device.context), cl.CommandQueue(device.context, properties=mode)):
        assert run.on(queue)(x=x).y.get().tolist() == [10, 8, 6, 4, 2, 0]
    assert sizes == [24]*5


def test_devices(device: OpenCLDevice) -> None:
    for given_ in (0, device.device, device.context, device.queue):
        assert devices.find_opencl(given_).device == device.device
    with pytest.raises(lk.DeviceError, match="There is no OpenCL device 99"):
        lk.compile(shifted(), target="opencl", device=99)
    with pytest.raises(lk.DeviceError, match="'gpu' is not an OpenCL device"):
        lk.compile(shifted(), target="opencl", device="gpu")
    with pytest.raises(lk.DeviceError, match="for the target 'opencl', which has no machine code for GPUs"):
        lk.compile(shifted(), target="opencl").cubin                # noqa: B018
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]", name="wide")
    length = device.limits.threads + 1
    wide = lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", length, outer_tag="g.0", inner_tag="l.0")
    with pytest.raises(lk.LimitError, match=f"'wide' on .* needs {length} threads per block"):
        lk.compile(wide, target="opencl")(x=np.ones(3, np.float32))
    assert device.name in next(opencl_lines())


def test_what_the_compiler_rejects_is_an_error() -> None:
    opencl()
    with pytest.raises(lk.CompilerError, match="rejects the code of kernel 'shifted'"):
        lk.compile(shifted(), target=lk.OpenCLTarget(options=("-no-such-option",)))(x=numbers(2, 8), c=1)


@pytest.fixture
def _forgotten() -> Iterator[None]:
    def forget() -> None:
        devices.import_pyopencl.cache_clear()
        devices.default_context.cache_clear()
    forget()
    yield
    forget()


@pytest.mark.usefixtures("_forgotten")
def test_without_pyopencl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(lk.DeviceError, match="needs the package pyopencl, which is not installed") as err:
        lk.compile(shifted(), target="opencl")(x=numbers(2, 8), c=1)
    assert "loopkit[opencl]" in (err.value.hint or "")
    assert next(opencl_lines()).startswith("OpenCL       no device can be used: Running OpenCL kernels needs")
    assert "__kernel" in lk.compile(shifted(), target="opencl").source


@pytest.mark.usefixtures("_forgotten")
def test_without_a_platform(cl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> list[Any]:
        raise cl.LogicError("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")
    monkeypatch.setattr(cl, "get_platforms", none)
    with pytest.raises(lk.DeviceError, match="There is no OpenCL device on this machine") as err:
        lk.compile(shifted(), target="opencl")(x=numbers(2, 8), c=1)
    assert "pocl-binary-distribution" in (err.value.hint or "")


def test_equivalence() -> None:
    opencl()
    report = lk.check_equivalent(lambda x, c: {"y": x + c, "z": 2*x}, shifted(), {"n": 3, "m": 9}, target="opencl")
    assert report.error == 0
    with pytest.raises(lk.EquivalenceError, match="y"):
        lk.check_equivalent(lambda x, c: {"y": x, "z": 2*x}, shifted(), {"n": 3, "m": 9}, target="opencl")


def test_the_launch_takes_the_block_from_the_arguments(device: OpenCLDevice) -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i, j] = 2*x[i, j]", name="rows")
    compiled = lk.compile(lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "i:l.1, j:l.0"), target="opencl")
    for n, m in ((3, 5), (20, 7), (0, 4)):
        x = np.arange(n*m, dtype=np.float32).reshape(n, m)
        np.testing.assert_array_equal(compiled(x=x)[0], 2*x)
    with pytest.raises(lk.LimitError, match=r"'rows' on .* needs 1000000 threads") as caught:
        compiled(x=np.zeros((1, 1000000), np.float32))
    assert "the block is m x n" in (caught.value.hint or "")


def test_loops_behind_the_last_barrier_of_a_condition(device: OpenCLDevice) -> None:
    scan = lk.make_kernel("{[j, k]: 0<=j<n and 0<=k<=j}", "y[j] = sum(k, x[k])  {id=S}")
    scan = lk.compile(lk.make_two_level_scan(scan, "S", "k", "j", 2, inner_tag="l.0"), target="opencl")
    for n in (2, 1, 5):                                    # of the loop of thread 1, one iteration, none and two
        np.testing.assert_array_equal(scan(x=np.ones(n)).y, np.arange(1, n + 1))
