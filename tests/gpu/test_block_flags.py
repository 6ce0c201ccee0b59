"""Inter-block flags on the GPU: the bits of the host, in each run, whatever else the GPU does."""
from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import loopkit as lk


def drawn(dtype: npt.DTypeLike, n: int) -> np.ndarray:
    values = np.random.default_rng(0).uniform(-100, 100, n)
    return (values + 1j*values[::-1] if np.dtype(dtype).kind == "c" else values).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.complex64])
def test_bits_of_the_host(dtype: npt.DTypeLike) -> None:
    """Three levels of groups, and sizes that fill no tile."""
    knl = lk.library.scan(dtype, threads=32, rows=1)
    gpu, host = lk.compile(knl, target="cuda"), lk.compile(knl, target="c")
    for n in (1, 127, 128, 128*33 + 1, 128*33*33 + 77, 700_001):
        x = drawn(dtype, n)
        wanted = host(x=x).y
        for _ in range(3):
            assert gpu(x=x).y.tobytes() == wanted.tobytes(), n


def test_several_streams() -> None:
    """Launches at once, each with what its own blocks count and mark with."""
    torch = pytest.importorskip("torch")
    compiled = lk.compile(lk.library.scan(), target="cuda")
    x = torch.from_numpy(drawn(np.float32, 3_000_000)).cuda()
    wanted = compiled(x=x).y
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(3)]
    found = []
    for k in range(12):
        with torch.cuda.stream(streams[k % 3]):
            found.append(compiled(x=x).y)
    torch.cuda.synchronize()
    assert all(torch.equal(y, wanted) for y in found)


def test_graphs() -> None:
    """A graph clears the marks at each replay."""
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(drawn(np.float32, 100_000)).cuda()
    y = torch.zeros_like(x)
    run = lk.compile(lk.library.scan(), target="cuda").bind(x=x, y=y)
    run()
    wanted = y.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    for _ in range(3):
        y.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(y, wanted)
