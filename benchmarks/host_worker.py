"""The contestants of host.py: each kernel for each package, their results compared with numpy's, and their times."""
from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import loopy as lp
import numba
import numpy as np
from threadpoolctl import threadpool_info

import loopkit as lk

Arrays = dict[str, Any]
Run = Callable[[Arrays], Any]


@dataclass(frozen=True)
class Kernel:
    """One kernel: its data, and how each contestant runs it; *work*: the operations or bytes of a call."""

    name: str
    data: Callable[[], Arrays]
    run: Mapping[str, Run]
    work: Callable[[Arrays], tuple[float, str]]
    result: str


def compiled(knl: lk.LoopKernel, out: str, **options: Any) -> Run:
    """loopkit's code for *knl*, which writes the array *out* of the data."""
    ready = lk.compile(knl, target=lk.CTarget(**options))
    names = {a.name for a in knl.arguments} - set(knl.value_params)
    return lambda data: ready(**{x: data[x] for x in names if x in data})[out]


def of_loopy(domains: Any, text: str, shapes: Mapping[str, Any], dtypes: Mapping[str, Any]) -> Run:
    """loopy's code for its C target, one thread."""
    knl = lp.make_kernel(domains, text, [*(lp.GlobalArg(x, np.dtype(dtypes[x]), shape) for x, shape in shapes.items()),
                                         "..."], target=lp.ExecutableCTarget(), lang_version=(2018, 2))
    executor = knl.executor()

    def run(data: Arrays) -> Any:
        with contextlib.redirect_stdout(None):          # errors print the kernel
            return executor(**{x: data[x] for x in shapes})[1][0]
    return run


fast = numba.njit(parallel=True, fastmath=True)


# Products

@fast
def numba_matmul(a: Any, b: Any, c: Any) -> Any:
    for i in numba.prange(a.shape[0]):
        for j in range(b.shape[1]):
            c[i, j] = 0
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] += a[i, k]*b[k, j]
    return c


def product(dtype: Any, n: int) -> Kernel:
    def data() -> Arrays:
        rng = np.random.default_rng(1)
        return {"a": rng.random((n, n)).astype(dtype), "b": rng.random((n, n)).astype(dtype),
                "c": np.zeros((n, n), dtype)}
    text = "c[i, j] = sum(k, a[i, k]*b[k, j])"
    plain = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", text)
    return Kernel(f"matmul {np.dtype(dtype)} {n}", data, {
        "numpy": lambda d: np.matmul(d["a"], d["b"], out=d["c"]),
        "numba": lambda d: numba_matmul(d["a"], d["b"], d["c"]),
        "loopy": of_loopy("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", text, {"a": "n,l", "b": "l,m", "c": "n,m"},
                          dict.fromkeys("abc", dtype)),
        "no tags": compiled(lk.add_dtypes(plain, {"a,b": dtype}), "c"),
        "loopkit": compiled(lk.library.cpu_matmul(dtype), "c", contract=True)},
        lambda d: (2*float(n)**3, "operations"), "c")


# Stencils

@fast
def numba_stencil(a: Any, out: Any) -> Any:
    for i in numba.prange(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            out[i, j] = a[i-1, j] + a[i+1, j] + a[i, j-1] + a[i, j+1] - 4*a[i, j]
    return out


def numpy_stencil(d: Arrays) -> Any:
    a, inner = d["a"], d["out"][1:-1, 1:-1]
    np.add(a[:-2, 1:-1], a[2:, 1:-1], out=inner)
    inner += a[1:-1, :-2]
    inner += a[1:-1, 2:]
    inner -= 4*a[1:-1, 1:-1]
    return d["out"]


def stencil(dtype: Any, n: int) -> Kernel:
    def data() -> Arrays:
        return {"a": np.random.default_rng(2).random((n, n)).astype(dtype), "out": np.zeros((n, n), dtype)}
    text = "out[i, j] = a[i-1, j] + a[i+1, j] + a[i, j-1] + a[i, j+1] - 4*a[i, j]"
    plain = lk.make_kernel("{[i, j]: 1<=i<n-1 and 1<=j<m-1}", text)
    return Kernel(f"stencil {np.dtype(dtype)} {n}", data, {
        "numpy": numpy_stencil, "numba": lambda d: numba_stencil(d["a"], d["out"]),
        "loopy": of_loopy("{[i, j]: 1<=i<n-1 and 1<=j<m-1}", text, {"a": "n,m", "out": "n,m"},
                          {"a": dtype, "out": dtype}),
        "no tags": compiled(lk.add_dtypes(plain, {"a": dtype}), "out"),
        "loopkit": compiled(lk.library.cpu_stencil_2d(dtype), "out")},
        lambda d: (2.0*d["a"].nbytes, "bytes"), "out")


# Rows

@fast
def numba_softmax(x: Any, y: Any) -> Any:
    for i in numba.prange(x.shape[0]):
        top = x[i, 0]
        for j in range(x.shape[1]):
            top = max(top, x[i, j])
        total = x[i, 0]*0
        for j in range(x.shape[1]):
            y[i, j] = np.exp(x[i, j] - top)
            total += y[i, j]
        scale = 1/total
        for j in range(x.shape[1]):
            y[i, j] *= scale
    return y


def numpy_softmax(d: Arrays) -> Any:
    x, y = d["x"], d["y"]
    np.exp(x - x.max(axis=1, keepdims=True), out=y)
    y /= y.sum(axis=1, keepdims=True)
    return y


SOFTMAX = """
    for i
        <> top = max(j, x[i, j])
        for k
            y[i, k] = exp(x[i, k] - top)
        end
        <> scale = 1/sum(l, y[i, l])
        for h
            y[i, h] = y[i, h]*scale
        end
    end
"""


def softmax(dtype: Any, n: int, m: int) -> Kernel:
    def data() -> Arrays:
        return {"x": np.random.default_rng(3).normal(size=(n, m)).astype(dtype), "y": np.zeros((n, m), dtype)}
    domain = "{[i, j, k, l, h]: 0<=i<n and 0<=j,k,l,h<m}"
    return Kernel(f"softmax {np.dtype(dtype)} {n}x{m}", data, {
        "numpy": numpy_softmax, "numba": lambda d: numba_softmax(d["x"], d["y"]),
        "loopy": of_loopy_softmax(dtype),
        "no tags": compiled(lk.add_dtypes(lk.make_kernel(domain, SOFTMAX), {"x,y": dtype}), "y"),
        "loopkit": compiled(lk.library.cpu_softmax(dtype), "y")},
        lambda d: (float(d["x"].size), "elements"), "y")


def of_loopy_softmax(dtype: Any) -> Run:
    # loopy orders statements only by the dependences that the text names
    text = """
        for i
            <> top = max(j, x[i, j])  {id=top}
            for k
                y[i, k] = exp(x[i, k] - top)  {id=exp,dep=top}
            end
            <> scale = 1/sum(l, y[i, l])  {id=scale,dep=exp}
            for h
                y[i, h] = y[i, h]*scale  {dep=scale}
            end
        end
    """
    domains = ["{[i]: 0<=i<n}", *(f"{{[{x}]: 0<={x}<m}}" for x in "jklh")]
    return of_loopy(domains, text, {"x": "n,m", "y": "n,m"}, {"x": dtype, "y": dtype})


# Sparse matrices

@fast
def numba_csr(rowptr: Any, col: Any, val: Any, x: Any, y: Any) -> Any:
    for i in numba.prange(len(y)):
        total = val[0]*0
        for k in range(rowptr[i], rowptr[i+1]):
            total += val[k]*x[col[k]]
        y[i] = total
    return y


CSR = """
    for i
        <> first = rowptr[i]
        <> last = rowptr[i+1]
        y[i] = sum(k, val[k]*x[col[k]])
    end
"""


def csr(dtype: Any, n: int, mean: int) -> Kernel:
    def data() -> Arrays:
        rng = np.random.default_rng(4)
        lengths = rng.integers(1, 2*mean, n)
        rowptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        return {"rowptr": rowptr, "col": rng.integers(0, n, rowptr[-1]).astype(np.int32),
                "val": rng.random(rowptr[-1]).astype(dtype), "x": rng.random(n).astype(dtype), "y": np.zeros(n, dtype)}
    domains = ["{[i]: 0<=i<n}", "[first, last] -> {[k]: first<=k<last}"]
    dtypes = {"val": dtype, "x": dtype, "y": dtype, "rowptr": np.int32, "col": np.int32}
    return Kernel(f"csr {np.dtype(dtype)} {n} rows of {mean}", data, {
        "numpy": lambda d: np.add.reduceat(d["val"]*d["x"][d["col"]], d["rowptr"][:-1], out=d["y"]),
        "numba": lambda d: numba_csr(d["rowptr"], d["col"], d["val"], d["x"], d["y"]),
        "loopy": of_loopy(domains, CSR, {"val": None, "col": None, "rowptr": "n+1", "x": "n", "y": "n"}, dtypes),
        "no tags": compiled(lk.add_dtypes(lk.make_kernel(["{[i]: 0<=i<n}", "{[k]: first<=k<last}"], CSR), dtypes), "y"),
        "loopkit": compiled(lk.library.cpu_csr_matvec(dtype, row_length=mean), "y")},
        lambda d: (2.0*d["rowptr"][-1], "operations"), "y")


def kernels() -> dict[str, Callable[[], Kernel]]:
    return {"matmul float64": lambda: product(np.float64, 768), "matmul float32": lambda: product(np.float32, 1024),
            "stencil float32": lambda: stencil(np.float32, 2000), "stencil float64": lambda: stencil(np.float64, 2000),
            "softmax float32": lambda: softmax(np.float32, 2000, 1000),
            "softmax float64": lambda: softmax(np.float64, 2000, 1000),
            "csr float64 short": lambda: csr(np.float64, 200_000, 12),
            "csr float32 long": lambda: csr(np.float32, 20_000, 150)}


# Measuring

#: A contestant that takes this many times loopkit's time has three rounds.
SLOW = 10


def times(kernel: Kernel, rounds: int) -> tuple[dict[str, list[float]], dict[str, str]]:
    """The seconds of each contestant in each round, and the reasons of those that fail."""
    data = kernel.data()
    wanted = np.array(kernel.run["numpy"](data))
    found: dict[str, list[float]] = {}
    failed: dict[str, str] = {}
    for name, run in kernel.run.items():
        try:
            # arrays start at multiples of different sizes from one data set to another: all get the same
            got = np.asarray(run(data))
            inner = tuple(slice(1, -1) for _ in wanted.shape) if kernel.name.startswith("stencil") else ...
            np.testing.assert_allclose(got[inner], wanted[inner], rtol=1e-3, atol=1e-3)
            found[name] = []
        except Exception as error:  # noqa: BLE001 (whatever a package raises is shown)
            failed[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    for turn in range(rounds):
        for name in list(found) if turn % 2 else list(found)[::-1]:
            if turn >= 3 and min(found[name]) > SLOW*min(found["loopkit"]):
                continue
            start = time.perf_counter()
            kernel.run[name](data)
            found[name].append(time.perf_counter() - start)
    return found, failed


def main(only: str, rounds: int) -> None:
    for x in threadpool_info():
        print(f"{x['internal_api']} {x['version']}: {x.get('architecture', '')}, {x['num_threads']} threads")
    numba_version, loopy_version = numba.__version__, lp.version.VERSION_TEXT
    print(f"numba {numba_version}, numpy {np.__version__}, loopy {loopy_version} (one thread)")
    print(f"{'':32}{'':>12}  median ms (median ratio to loopkit's, ratio of the fastest times)")
    for name, make in kernels().items():
        if only not in name:
            continue
        kernel = make()
        with contextlib.suppress(BrokenPipeError):
            found, failed = times(kernel, rounds)
        ours = found["loopkit"]
        amount, unit = kernel.work(kernel.data())
        rate = f"{amount/statistics.median(ours)/1e9:.2f} G{unit[:2]}/s"
        ratios = {x: statistics.median(a/b for a, b in zip(t, ours, strict=False)) for x, t in found.items()}
        cells = [f"{x} {1e3*statistics.median(t):.2f} ({ratios[x]:.2f}, {min(t)/min(ours):.2f})"
                 for x, t in found.items()]
        print(f"{kernel.name:32}{rate:>12}  {'  '.join(cells)}", *(f"{x}: {why}" for x, why in failed.items()),
              flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
