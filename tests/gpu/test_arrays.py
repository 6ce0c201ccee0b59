"""Arrays of every library, on the GPU and not, in and out."""
from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import loopkit as lk

F = np.float32


def saxpy(dtype: Any = F) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "z[i] = alpha*x[i] + y[i]", name="saxpy")
    knl = lk.add_dtypes(knl, {"x": dtype, "y": dtype, "alpha": dtype})
    return lk.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")


def rows() -> lk.LoopKernel:
    """Two axes, so that strides matter."""
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "y[i,j] = 2*x[i,j]", name="rows")
    knl = lk.add_dtypes(knl, {"x": F})
    return lk.tag_inames(lk.split_iname(knl, "j", 32, inner_tag="l.0"), {"i": "g.0", "j_outer": "g.1"})


def _torch(a: np.ndarray) -> Any:
    return pytest.importorskip("torch").from_numpy(a).cuda()


def _cupy(a: np.ndarray) -> Any:
    return pytest.importorskip("cupy").asarray(a)


def _pycuda(a: np.ndarray) -> Any:
    from pycuda import autoprimaryctx, gpuarray
    assert autoprimaryctx.context                      # importing it makes the primary context current
    return gpuarray.to_gpu(a)


def _numba(a: np.ndarray) -> Any:
    return pytest.importorskip("numba.cuda").to_device(a)


def _torch_cpu(a: np.ndarray) -> Any:
    return pytest.importorskip("torch").from_numpy(a.copy())


def _to_numpy(x: Any) -> np.ndarray:
    for method in ("cpu", "copy_to_host", "get"):
        if hasattr(x, method) and not isinstance(x, np.ndarray):
            return np.asarray(getattr(x, method)())
    return np.asarray(x)


KINDS: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": lambda a: a.copy(), "torch": _torch, "cupy": _cupy, "pycuda": _pycuda, "numba": _numba,
    "torch_cpu": _torch_cpu}
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
def test_results_come_in_the_kind_that_went_in(kind: str) -> None:
    make = KINDS[kind]
    random = np.random.default_rng(0)
    for n in (1, 127, 1000, 100_000):
        x, y = random.random(n, F), random.random(n, F)
        z, = saxpy()(x=make(x), y=make(y), alpha=2.0)
        assert type(z) is type(make(x))
        np.testing.assert_allclose(_to_numpy(z), 2*x + y, rtol=1e-6)


@each_kind
def test_outputs_in_place(kind: str) -> None:
    make = KINDS[kind]
    x, y = np.arange(1000, dtype=F), np.ones(1000, F)
    z = make(np.zeros(1000, F))
    out = saxpy()(x=make(x), y=make(y), z=z, alpha=0.5)
    assert out.z is z
    np.testing.assert_array_equal(_to_numpy(z), 0.5*x + y)


@each_kind
def test_what_a_kernel_does_not_write_is_kept(kind: str) -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "z[2*i] = x[i]"), {"x": F})
    knl = lk.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    make = KINDS[kind]
    x = np.arange(1, 51, dtype=F)
    kept = make(np.full(100, 7, F))
    knl(x=make(x), z=kept)
    np.testing.assert_array_equal(_to_numpy(kept), np.where(np.arange(100) % 2, 7, np.repeat(x, 2)))
    fresh, = knl(x=make(x))
    np.testing.assert_array_equal(_to_numpy(fresh), np.where(np.arange(99) % 2, 0, np.repeat(x, 2)[:99]))


@pytest.mark.parametrize("kind", ["numpy", "torch", "cupy", "torch_cpu"])
def test_strides(kind: str) -> None:
    knl, make = rows(), KINDS[kind]
    base = np.arange(40*60, dtype=F).reshape(40, 60)
    for view in (lambda a: a, lambda a: a.T, lambda a: a[:, 5:50], lambda a: a[::2, ::3], lambda a: a[3:4, :1]):
        x = view(make(base))
        expected = 2*view(base)
        np.testing.assert_array_equal(_to_numpy(knl(x=x).y), expected)
        into = view(make(np.zeros_like(base)))
        assert knl(x=x, y=into).y is into
        np.testing.assert_array_equal(_to_numpy(into), expected)
    if kind in ("numpy", "cupy"):
        np.testing.assert_array_equal(_to_numpy(knl(x=make(base)[::-1, ::-1]).y), 2*base[::-1, ::-1])


def test_kinds_may_be_mixed() -> None:
    x, y = np.arange(500, dtype=F), np.ones(500, F)
    for a, b in permutations(KINDS, 2):
        z, = saxpy()(x=KINDS[a](x), y=KINDS[b](y), alpha=3)
        np.testing.assert_array_equal(_to_numpy(z), 3*x + y)


def test_dlpack_alone() -> None:
    torch = pytest.importorskip("torch")

    class Opaque:
        """Nothing but the standard."""

        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

        def __dlpack__(self, **options: Any) -> Any:
            return self.tensor.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.tensor.__dlpack_device__()
    x, y = torch.rand(1000, device="cuda"), torch.rand(1000, device="cuda")
    z, = saxpy()(x=Opaque(x), y=Opaque(y), alpha=2)
    torch.testing.assert_close(torch.from_dlpack(z), 2*x + y)
    torch.testing.assert_close(torch.as_tensor(z, device="cuda"), 2*x + y)
    out = torch.empty_like(x)
    saxpy()(x=Opaque(x), y=Opaque(y), z=Opaque(out), alpha=2)
    torch.testing.assert_close(out, 2*x + y)
    found, = saxpy()(x=z, y=z, alpha=1)                  # our own arrays are arrays, too
    torch.testing.assert_close(torch.from_dlpack(found), 2*(2*x + y))


def test_jax() -> None:
    jax = pytest.importorskip("jax")
    try:
        device = jax.devices("cuda")[0]
    except RuntimeError as err:
        pytest.skip(f"JAX has no GPU: {err}")
    x = jax.device_put(np.arange(100, dtype=F), device)
    z, = saxpy()(x=x, y=x, alpha=2)
    assert isinstance(z, jax.Array)
    np.testing.assert_array_equal(np.asarray(z), 3*np.arange(100, dtype=F))
    with pytest.raises(lk.CallError, match="read-only"):
        saxpy()(x=x, y=x, z=x, alpha=2)


def test_large_arrays_from_the_host() -> None:
    """Copies in pieces: sizes around the pieces' edges, strides, and results in ordinary memory."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i] + 1", name="inc")
    knl = lk.split_iname(lk.add_dtypes(knl, {"x": np.int64}), "i", 256, outer_tag="g.0", inner_tag="l.0")
    piece = (16 << 20) // 8
    for n in (2*piece - 1, 2*piece, 2*piece + 1, 4*piece, 7*piece + 12345):
        x = np.arange(n)
        y, = knl(x=x)
        assert (y == x + 1).all()
    x = np.arange(6*piece)[::2]
    out = np.zeros(6*piece, np.int64)[::2]
    assert knl(x=x, y=out).y is out
    assert (out == x + 1).all()


def test_threads() -> None:
    knl = lk.compile(saxpy(), target="cuda")
    wrong: list[int] = []

    def work(i: int) -> None:
        torch = pytest.importorskip("torch")
        for k in range(20):
            n = 1000 + 10*i + k % 3
            x = np.full(n, i, F)
            if not (knl(x=x, y=x, alpha=k).z == i*(k + 1)).all():
                wrong.append(i)
            t = torch.full((n,), float(i), device="cuda")
            if not bool((knl(x=t, y=t, alpha=k).z == i*(k + 1)).all()):
                wrong.append(i)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize("order", [
    ("loopkit", "torch", "cupy", "numba.cuda"), ("torch", "loopkit", "numba.cuda", "cupy"),
    ("cupy", "numba.cuda", "loopkit", "torch"), ("numba.cuda", "cupy", "torch", "loopkit")], ids="-".join)
def test_any_import_order(order: tuple[str, ...]) -> None:
    """One process, all libraries, whichever comes first; numpy's arrays first of all."""
    uses = {"torch": "torch.rand(8, device='cuda').sum()", "cupy": "cupy.arange(8).sum()",
            "numba.cuda": "numba.cuda.to_device(np.ones(8))",
            "loopkit": "loopkit.make_kernel('{[i]: 0<=i<n}', 'y[i] = 2*x[i]')(x=np.ones(8))"}
    for name in order:
        pytest.importorskip(name)
    lines = ["import numpy as np"]
    for name in order:
        lines += [f"import {name}", uses[name]]
    lines += ["knl = loopkit.compile(loopkit.make_kernel('{[i]: 0<=i<n}', 'y[i] = 2*x[i]'), target='cuda')",
              "assert (knl(x=np.ones(8)).y == 2).all()",
              "assert bool((knl(x=torch.ones(8, device='cuda')).y == 2).all())",
              "assert bool((knl(x=cupy.ones(8)).y == 2).all())",
              "assert (knl(x=numba.cuda.to_device(np.ones(8))).y.copy_to_host() == 2).all()",
              "assert float(torch.ones(8, device='cuda').sum()) == 8 and int(cupy.arange(8).sum()) == 28"]
    done = subprocess.run([sys.executable, "-W", "error::UserWarning:pycuda", "-c", "\n".join(lines)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "PyCUDA" not in done.stderr
    assert "clean-up" not in done.stderr


def test_a_context_of_its_own_is_refused() -> None:
    """pycuda.autoinit makes one; its arrays cannot be reached from the primary context."""
    program = ("import pycuda.autoinit, numpy as np, loopkit as lk\n"
               "from pycuda import gpuarray\n"
               "x = gpuarray.to_gpu(np.ones(8, np.float32))\n"
               "knl = lk.compile(lk.make_kernel('{[i]: 0<=i<n}', 'y[i] = 2*x[i]'), target='cuda')\n"
               "assert (knl(x=np.ones(8, np.float32)).y == 2).all()\n"
               "try:\n    knl(x=x)\nexcept lk.CallError as err:\n    print(err)\n"
               "assert (x.get() == 1).all()\n")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "context of its own" in done.stdout, done.stderr
    assert done.returncode == 0
