"""Calls on the GPU: checks, streams, graphs, bound calls, errors, timing."""
from __future__ import annotations

import ctypes
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.runtime.cuda.devices import find_gpu, gpu_count
from loopkit.runtime.cuda.driver import load_driver
from loopkit.runtime.cuda.launching import loaded_functions
from tests.cases import CASES
from tests.gpu.test_arrays import _to_numpy, rows, saxpy
from tests.lowering.host_loops import one_statement, over_blocks

F = np.float32


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


# What is refused

def test_refusals(torch: Any) -> None:
    knl = lk.compile(saxpy(), target="cuda")
    x, y = torch.rand(100, device="cuda"), torch.rand(100, device="cuda")
    z = torch.zeros(100, device="cuda")
    cases: list[tuple[str, dict[str, Any]]] = [
        ("'x' must be of dtype float32, not float64", {"x": x.double()}),
        ("'x' must have 1 dimension, not 2", {"x": x[:, None]}),
        ("contradict each other", {"y": y[:50]}),
        ("is too small", {"z": z[:99], "n": 100}),
        ("'z' is written and overlaps 'x'", {"z": x}),
        ("'z' is written, and some of its elements", {"z": z[:1].expand(100)}),
        ("requires a gradient", {"x": x.clone().requires_grad_()}),
        ("layout torch.sparse_coo", {"x": x.to_sparse()}),
        ("must be an array, not list", {"x": [1.0, 2.0]}),
        ("'beta' is not an argument", {"beta": 1}),
        ("'alpha' must be a real number", {"alpha": "2"}),
        ("overflows float32", {"alpha": 1e300}),
        ("is on the device 'meta'", {"x": torch.rand(100, device="meta")}),
    ]
    for match, changes in cases:
        before = z.clone()
        for _ in range(2):                             # what was refused once is refused again
            with pytest.raises(lk.CallError, match=match):
                knl(**{"x": x, "y": y, "z": z, "alpha": 2.0, **changes})
        assert torch.equal(z, before)
    with pytest.raises(lk.CallError, match="'x' is missing"):
        knl(y=y, alpha=1)
    with pytest.raises(lk.CallError, match="by name"):
        knl(x, y)
    knl(x=x, y=y, z=z, alpha=2.0)
    assert torch.equal(z, 2*x + y) or torch.allclose(z, 2*x + y)


def test_checks_look_at_each_call(torch: Any) -> None:
    """A call that looks like one before it but for the addresses is still checked."""
    knl = lk.compile(saxpy(), target="cuda")
    memory = torch.rand(400, device="cuda")
    x, y, z = memory[:100], memory[100:200], memory[200:300]
    for _ in range(3):
        knl(x=x, y=y, z=z, alpha=2)
        with pytest.raises(lk.CallError, match="'z' is written and overlaps 'x'"):
            knl(x=memory[150:250], y=y, z=z, alpha=2)
    even, odd = memory[0:200:2], memory[1:200:2]          # ranges that meet, and not an element in common
    expected = 2*odd.clone() + y[:100]
    strided = lk.compile(lk.make_kernel("{[i]: 0<=i<n}", "z[i] = 2*x[i] + y[i]"), target="cuda")
    other = torch.rand(100, device="cuda")
    strided(x=odd, y=other, z=even)
    torch.testing.assert_close(even, 2*odd + other)
    del expected


def test_complex_views_that_are_not_what_they_hold(torch: Any) -> None:
    knl = lk.compile(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), target="cuda")
    x = torch.rand(10, dtype=torch.complex64, device="cuda")
    torch.testing.assert_close(knl(x=x).y, 2*x)
    for odd in (x.conj(), x.conj().imag):
        with pytest.raises(lk.CallError, match="negated or conjugated"):
            knl(x=odd)
    torch.testing.assert_close(knl(x=x).y, 2*x)


@pytest.mark.parametrize("make", ["torch", "cupy"])
def test_another_gpu(make: str) -> None:
    if gpu_count() < 2:
        pytest.skip("one GPU only")
    torch, cupy = pytest.importorskip("torch"), pytest.importorskip("cupy")

    def ones(ordinal: int) -> Any:
        if make == "torch":
            return torch.ones(1000, device=f"cuda:{ordinal}")
        with cupy.cuda.Device(ordinal):
            return cupy.ones(1000, F)
    knl = lk.compile(saxpy(), target="cuda")
    for ordinal in (0, 1, 0, 1):
        z = knl(x=ones(ordinal), y=ones(ordinal), alpha=3).z
        assert (z.get_device() if make == "torch" else z.device.id) == ordinal
        assert (_to_numpy(z) == 4).all()
    with pytest.raises(lk.CallError, match="'x' lies on GPU 0 and 'y' on GPU 1"):
        knl(x=ones(0), y=ones(1), alpha=3)
    if make == "cupy":
        with cupy.cuda.Device(1), cupy.cuda.Stream(non_blocking=True) as stream:
            x = ones(1)
            z = knl(x=x, y=x, alpha=3).z
            stream.synchronize()
            assert (_to_numpy(z) == 4).all()
    second = lk.compile(saxpy(), target="cuda", device=1)
    assert (second(x=np.ones(10, F), y=np.ones(10, F), alpha=1).z == 2).all()
    with pytest.raises(lk.CallError, match="lies on GPU 0, and the kernel was compiled for GPU 1"):
        second(x=ones(0), y=ones(0), alpha=3)


def test_devices() -> None:
    with pytest.raises(lk.DeviceError, match="There is no GPU 99"):
        lk.compile(saxpy(), target="cuda", device=99)
    with pytest.raises(lk.DeviceError, match="is not a device"):
        lk.compile(saxpy(), target="cuda", device="gpu")
    torch = pytest.importorskip("torch")
    knl = lk.compile(saxpy(), device=torch.device("cuda", 0))
    assert knl.target == "cuda"
    assert (knl(x=np.ones(3, F), y=np.ones(3, F), alpha=1).z == 2).all()


def test_architectures() -> None:
    gpu = find_gpu()
    x = np.ones(10, F)
    with pytest.raises(lk.DeviceError, match="does not run on"):
        lk.compile(saxpy(), target=lk.CudaTarget(arch="sm_75"))(x=x, y=x, alpha=1)
    if gpu.arch == "sm_90":
        assert (lk.compile(saxpy(), target=lk.CudaTarget(arch="sm_90a"))(x=x, y=x, alpha=1).z == 2).all()


def test_grids_are_checked_before_the_launch() -> None:
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "y[i,j] = 1.0f")
    knl = lk.tag_inames(knl, {"i": "g.1", "j": "g.0"})
    with pytest.raises(lk.LimitError, match="70000 blocks along y"):
        knl(n=70_000, m=1)
    assert knl(n=65_535, m=1).y.all()


@pytest.mark.parametrize("n", [2**31 - 5, 2**31 + 5])
def test_arrays_at_the_edge_of_32_bits(torch: Any, n: int) -> None:
    """Every element is written, and nothing after the last."""
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i] + 1"), {"x": np.int8})
    knl = lk.compile(lk.split_iname(knl, "i", 1024, outer_tag="g.0", inner_tag="l.0"), target="cuda")
    memory = torch.zeros(n + 4096, dtype=torch.int8, device="cuda")
    x = torch.ones(n, dtype=torch.int8, device="cuda")
    knl(x=x, y=memory[:n])
    assert bool((memory[:n] == 2).all())
    assert not memory[n:].any()


def test_outputs_that_are_written_as_a_whole_are_not_cleared(torch: Any) -> None:
    knl = lk.compile(saxpy(), target="cuda")
    x = torch.rand(1 << 20, device="cuda")
    for _ in range(3):                                   # into memory that held something else
        torch.full((1 << 20,), float("nan"), device="cuda")
        torch.testing.assert_close(knl(x=x, y=x, alpha=2.0).z, 3*x)
    odd = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "z[2*i] = x[i]"), {"x": F})
    odd = lk.compile(lk.split_iname(odd, "i", 128, outer_tag="g.0", inner_tag="l.0"), target="cuda")
    torch.full((2 << 20,), float("nan"), device="cuda")
    assert not odd(x=x).z[1::2].any()


# Streams and graphs

def test_the_current_stream_is_used(torch: Any) -> None:
    """On another stream the kernel would read what is not there yet, or its result be read too early."""
    knl = lk.compile(saxpy(), target="cuda")
    n = 1 << 22
    x, y, z = (torch.zeros(n, device="cuda") for _ in range(3))
    knl(x=x, y=y, z=z, alpha=1)
    torch.cuda.synchronize()
    for _ in range(5):
        x.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda._sleep(20_000_000)
            x.fill_(3)
            knl(x=x, y=y, z=z, alpha=2)
            total = z.sum()
        torch.cuda.current_stream().synchronize()
        torch.cuda.synchronize()
        assert float(total) == 6.0*n


def test_streams_of_two_libraries_are_ordered(torch: Any) -> None:
    cupy = pytest.importorskip("cupy")
    knl = lk.compile(saxpy(), target="cuda")
    n = 1 << 20
    for _ in range(5):
        x, y = torch.zeros(n, device="cuda"), cupy.zeros(n, F)
        torch.cuda.synchronize()
        own, other = torch.cuda.Stream(), cupy.cuda.Stream(non_blocking=True)
        with torch.cuda.stream(own), other:
            torch.cuda._sleep(20_000_000)
            x.fill_(1)
            y += 5
            z, = knl(x=x, y=y, alpha=2)
            assert float(z.sum()) == 7.0*n


def test_a_chosen_stream(torch: Any) -> None:
    knl = lk.compile(saxpy(), target="cuda")
    x = torch.ones(100, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    for given in (stream, stream.cuda_stream, torch.cuda.ExternalStream(stream.cuda_stream)):
        z = torch.zeros(100, device="cuda")
        torch.cuda.synchronize()
        knl.on(given)(x=x, y=x, z=z, alpha=1)
        stream.synchronize()
        assert bool((z == 2).all())
    with pytest.raises(lk.CallError, match="not a CUDA stream"):
        knl.on("fast")


@pytest.mark.parametrize("how", ["call", "bind", "allocating"])
def test_graph_capture(torch: Any, how: str) -> None:
    knl = lk.compile(saxpy(), target="cuda")
    x, y, z = torch.rand(1000, device="cuda"), torch.rand(1000, device="cuda"), torch.zeros(1000, device="cuda")
    bound = knl.bind(x=x, y=y, z=z, alpha=2.0)
    knl(x=x, y=y, z=z, alpha=2.0)                        # compiled and loaded before the capture
    knl(x=x, y=y, alpha=2.0)
    z.zero_()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        if how == "call":
            knl(x=x, y=y, z=z, alpha=2.0)
        elif how == "bind":
            bound()
        else:
            z = knl(x=x, y=y, alpha=2.0).z
    x.fill_(4)
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(z, 2*x + y)


@pytest.mark.parametrize("how", ["call", "bind"])
def test_graph_capture_of_loops_on_the_host(torch: Any, how: str) -> None:
    """Each launch of the graph has the values of its iteration."""
    knl = lk.compile(over_blocks("i")(one_statement()), target="cuda")
    start = torch.arange(50, device="cuda", dtype=torch.float32)
    u = torch.zeros((6, 50), device="cuda")
    bound = knl.bind(u=u, T=5)
    knl(u=u, T=5)                                        # compiled and loaded before the capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        if how == "call":
            knl(u=u, T=5)
        else:
            bound()
    u.zero_()
    u[0] = start
    graph.replay()
    torch.cuda.synchronize()
    wanted = torch.zeros((6, 50))
    wanted[0] = start.cpu()
    for t in range(5):
        wanted[t + 1, 1:-1] = wanted[t, :-2] - wanted[t, 1:-1] + wanted[t, 2:]
    torch.testing.assert_close(u.cpu(), wanted)


def test_temporaries_in_global_memory(torch: Any) -> None:
    case = next(c for c in CASES if c.name == "two_launches")
    knl = lk.compile(case.make(), target="cuda")
    for sizes in case.sizes:
        given = case.data(np.random.default_rng(0), *sizes)
        wanted = case.expected({k: v.copy() if isinstance(v, np.ndarray) else v for k, v in given.items()})
        on_gpu = {k: torch.from_numpy(v).cuda() if isinstance(v, np.ndarray) else v for k, v in given.items()}
        bound = knl.bind(**on_gpu)
        for out in (knl(**on_gpu), bound(), knl(**given)):
            for name, value in wanted.items():
                np.testing.assert_allclose(np.asarray(torch.as_tensor(out[name]).cpu()), value, rtol=1e-5)


# Bound calls and timing

def test_bound_calls(torch: Any) -> None:
    knl = lk.compile(saxpy(), target="cuda")
    x, y, z = torch.rand(1000, device="cuda"), torch.rand(1000, device="cuda"), torch.zeros(1000, device="cuda")
    run = knl.bind(x=x, y=y, z=z, alpha=2.0)
    other = knl.bind(x=y, y=x, alpha=-1.0)
    assert run().z is z
    made = other().z
    torch.testing.assert_close(z, 2*x + y)
    torch.testing.assert_close(made, x - y)
    x.fill_(1)
    run()
    assert other().z is made
    torch.testing.assert_close(z, 2 + y)
    with pytest.raises(lk.CallError, match="overlaps"):
        knl.bind(x=x, y=y, z=x, alpha=1)
    a = np.ones(5, F)
    on_host = knl.bind(x=a, y=a, alpha=1)
    assert (on_host().z == 2).all()
    a[:] = 2
    assert (on_host().z == 4).all()


def test_time(torch: Any) -> None:
    knl = lk.compile(saxpy(), target="cuda")
    n = 1 << 24
    x, y = torch.rand(n, device="cuda"), torch.rand(n, device="cuda")
    z = torch.zeros(n, device="cuda")
    plain = knl.time(x=x, y=y, z=z, alpha=2, bytes=12*n, flops=2*n)
    assert not z.any()                                   # what is written is a copy
    assert plain.runs >= 5
    assert 12*n/20e12 < plain.seconds < 1                # above any memory's speed the clock would be wrong
    assert plain.gigabytes_per_second == pytest.approx(12*n/plain.seconds/1e9)
    assert plain.teraflops == pytest.approx(2*n/plain.seconds/1e12)
    assert "GB/s" in str(plain)
    a = np.ones(100_000, F)
    small = knl.time(x=a, y=a, alpha=2, duration=0.05)
    cold = knl.time(x=a, y=a, alpha=2, duration=0.05, rotate=True)
    assert 0 < small.seconds < 1e-2
    assert 0 < cold.seconds < 1e-2
    with pytest.raises(lk.CallError, match="too small to be rotated"):
        knl.time(x=a[:10], y=a[:10], alpha=2, rotate=True)
    strided = lk.compile(rows(), target="cuda").time(x=torch.rand(100, 200, device="cuda").T, duration=0.02)
    assert strided.seconds > 0


def test_occupancy_is_the_drivers() -> None:
    gpu = find_gpu()
    for case in CASES:
        knl = lk.compile(case.make(), target="cuda")
        runner = knl._runner
        text = runner.kernels.of({}).text(lk.CudaTarget(arch=gpu.arch), lk.target.code.Layout())
        functions = loaded_functions(gpu, knl.cubin, text.code.kernels)
        for launch in text.code.kernels:
            count = ctypes.c_int()
            with gpu:
                code = load_driver()._library.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    ctypes.byref(count), ctypes.c_void_p(functions[launch.name]),
                    ctypes.c_int(math.prod(launch.block)), ctypes.c_size_t(launch.dynamic_shared_bytes))
            assert code == 0
            assert knl.resources[launch.name].blocks_per_multiprocessor == count.value, f"{case.name}: {knl.resources}"


# Failures

def run(program: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, as the context does not survive what is tried."""
    head = "import numpy as np, torch, loopkit as lk\nF = np.float32\n"
    return subprocess.run([sys.executable, "-c", head + program], capture_output=True, text=True, check=False)


#: Reads where its subscripts say, which nobody can check before.
GATHER = ("knl = lk.compile(lk.split_iname(lk.add_dtypes(lk.make_kernel('{[i]: 0<=i<n}', 'y[i] = x[at[i]]', "
          "name='gather'), {'x': F, 'at': np.int32}), 'i', 64, outer_tag='g.0', inner_tag='l.0'), target='cuda'%s)\n"
          "x = torch.rand(10, device='cuda')\n"
          "at = torch.full((1000,), 2**30, dtype=torch.int32, device='cuda')\n")


@pytest.mark.device_fault
def test_an_illegal_access_in_debug_mode() -> None:
    done = run(GATHER % ", debug=True" + "try:\n    knl(x=x, at=at)\nexcept lk.LaunchError as err:\n"
               "    print(err, err.sticky, err.launch, err.grid, err.block)\n")
    assert "'gather' of kernel 'gather' failed on GPU 0" in done.stdout, done.stderr
    assert "CUDA_ERROR_" in done.stdout
    assert "grid 16 x 1 x 1, block 64 x 1 x 1" in done.stdout
    assert "x: float32, shape (10,)" in done.stdout
    assert "n = 1000" in done.stdout
    assert "True gather (16, 1, 1) (64, 1, 1)" in done.stdout


@pytest.mark.device_fault
def test_an_illegal_access_is_seen_at_a_later_launch() -> None:
    # a GPU that others use comes to it late
    done = run(GATHER % "" + "import time\ny = torch.zeros(1000, device='cuda')\nknl(x=x, at=at, y=y)\n"
               "try:\n    for _ in range(100):\n        time.sleep(0.2)\n        knl(x=x, at=at, y=y)\n"
               "except lk.LaunchError as err:\n    print(err)\n")
    assert "CUDA_ERROR_" in done.stdout, done.stderr
    assert "something that was launched before" in done.stdout


@pytest.mark.device_fault
def test_an_illegal_access_on_arrays_of_the_host() -> None:
    done = run("knl = lk.compile(lk.make_kernel('{[i]: 0<=i<n}', 'y[i] = x[at[i]]', name='gather'), target='cuda')\n"
               "try:\n    knl(x=np.ones(4, F), at=np.full(9, 2**30, np.int32))\n"
               "except lk.LaunchError as err:\n    print(err)\n"
               "try:\n    knl(x=np.ones(4, F), at=np.zeros(9, np.int32))\n"
               "except lk.DeviceError as err:\n    print(err)\n")
    assert "CUDA_ERROR_" in done.stdout, done.stderr
    assert "debug=True" in done.stdout
    assert "cannot run kernel 'gather'" in done.stdout or "cannot be used any more" in done.stdout
    assert "Traceback" not in done.stderr


def test_too_little_memory() -> None:
    knl = lk.compile(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 1.0f"), target="cuda")
    stride = np.lib.stride_tricks.as_strided(np.ones(1, F), (2**40,), (0,))
    copy = lk.compile(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]", assumptions="n>=1"), target="cuda")
    with pytest.raises((lk.DeviceError, MemoryError)):
        copy(x=stride)
    assert knl(n=10).y.all()


def test_fork() -> None:
    done = run("import os, warnings\nwarnings.simplefilter('ignore')\n"
               "knl = lk.compile(lk.make_kernel('{[i]: 0<=i<n}', 'y[i] = 2*x[i]'), target='cuda')\n"
               "knl(x=np.ones(4, F))\n"
               "if os.fork() == 0:\n"
               "    try:\n        knl(x=np.ones(4, F))\n"
               "    except lk.DeviceError as err:\n        print(err, flush=True)\n"
               "    os._exit(0)\nos.wait()\n")
    assert "fork" in done.stdout, done.stdout + done.stderr


def test_sass_is_there() -> None:
    knl = lk.compile(saxpy(), target="cuda")
    assert ".entry" in knl.ptx
    assert knl.cubin.startswith(b"\x7fELF")
    assert "FFMA" in knl.sass


def test_the_launch_takes_the_block_from_the_arguments(torch: Any) -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i, j] = 2*x[i, j]", name="rows")
    compiled = lk.compile(lk.tag_inames(lk.add_dtypes(knl, {"x": F}), "i:l.1, j:l.0"), target="cuda")
    for n, m in ((3, 5), (20, 7), (0, 4)):
        x = torch.rand(n, m, device="cuda")
        assert torch.equal(compiled(x=x)[0], 2*x)
    with pytest.raises(lk.LimitError, match="needs 1025 threads along x"):
        compiled(x=torch.zeros(1, 1025, device="cuda"))
