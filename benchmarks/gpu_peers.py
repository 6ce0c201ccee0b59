"""What others offer for each row: torch, torch.compile, Triton, CuPy.

A peer is a function from a problem to its run. A library is imported where it is used; without it the peer is left out.
What a run returns is its result; ``None`` stands for the problem's output.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

Run = Callable[[], Any]
Peer = Callable[[Any], Run]

#: Of Jacobi's method, in one run.
SWEEPS = 4


# Torch


def torch_copy(p: Any) -> Run:
    return lambda: p.y.copy_(p.x)


def torch_axpy(p: Any) -> Run:
    import torch
    return lambda: torch.add(p.y, p.x, alpha=p.alpha, out=p.z)


def torch_add(p: Any) -> Run:
    import torch
    return lambda: torch.add(p.x, p.y, out=p.z)


def torch_transpose(p: Any) -> Run:
    return lambda: p.b.copy_(p.a.T)


def torch_full_sum(p: Any) -> Run:
    return lambda: p.x.sum().reshape(1)


def torch_row_sum(p: Any) -> Run:
    import torch
    return lambda: torch.sum(p.x, 1, out=p.s)


def torch_column_sum(p: Any) -> Run:
    import torch
    return lambda: torch.sum(p.x, 0, out=p.s)


def torch_softmax(p: Any) -> Run:
    import torch
    return lambda: torch.softmax(p.x, 1)


def torch_layer_norm(p: Any) -> Run:
    from torch.nn.functional import layer_norm
    return lambda: layer_norm(p.x, (p.size[1],), p.weight, p.bias, 1e-5)


def torch_matmul(p: Any) -> Run:
    import torch
    return lambda: torch.matmul(p.a, p.b, out=p.c)


def torch_bmm(p: Any) -> Run:
    import torch
    return lambda: torch.bmm(p.a, p.b, out=p.c)


def torch_csr(p: Any) -> Run:
    import torch
    n, m = p.size[:2]
    matrix = torch.sparse_csr_tensor(p.rowptr, p.col, p.val, size=(n, m))
    return lambda: matrix @ p.x

# Torch.compile


@cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled for each shape anew, as the kernels of a fixed length are."""
    import torch
    from torch._dynamo import config
    config.recompile_limit = 256
    return torch.compile(function, dynamic=False)


def _softmax(x: Any) -> Any:
    import torch
    return torch.softmax(x, 1)


def _layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    from torch.nn.functional import layer_norm
    return layer_norm(x, (x.shape[1],), weight, bias, 1e-5)


def _stencil_2d(a: Any, out: Any) -> None:
    out[1:-1, 1:-1] = a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] - 4*a[1:-1, 1:-1]


def _stencil_3d(a: Any, out: Any) -> None:
    out[1:-1, 1:-1, 1:-1] = (a[:-2, 1:-1, 1:-1] + a[2:, 1:-1, 1:-1] + a[1:-1, :-2, 1:-1] + a[1:-1, 2:, 1:-1]
                             + a[1:-1, 1:-1, :-2] + a[1:-1, 1:-1, 2:] - 6*a[1:-1, 1:-1, 1:-1])


def _jacobi(a: Any) -> Any:
    for _ in range(SWEEPS):
        out = a.clone()
        out[1:-1, 1:-1] = 0.25*(a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        a = out
    return a


def _nbody(x: Any, y: Any, z: Any, q: Any) -> Any:
    import torch
    distance = (x[None] - x[:, None])**2 + (y[None] - y[:, None])**2 + (z[None] - z[:, None])**2
    return (q[None]*torch.rsqrt(distance + 0.01)).sum(1)


def inductor_nbody(p: Any) -> Run:
    f = _compiled(_nbody)
    return lambda: f(p.x, p.y, p.z, p.q)


def inductor_softmax(p: Any) -> Run:
    f = _compiled(_softmax)
    return lambda: f(p.x)


def inductor_layer_norm(p: Any) -> Run:
    f = _compiled(_layer_norm)
    return lambda: f(p.x, p.weight, p.bias)


def inductor_stencil_2d(p: Any) -> Run:
    f = _compiled(_stencil_2d)
    return lambda: f(p.a, p.out)


def inductor_stencil_3d(p: Any) -> Run:
    f = _compiled(_stencil_3d)
    return lambda: f(p.a, p.out)


def inductor_jacobi(p: Any) -> Run:
    f = _compiled(_jacobi)
    return lambda: f(p.a)

# Triton


def triton_peer(name: str) -> Peer:
    """The function *name* of ``gpu_triton``."""
    def peer(p: Any) -> Run:
        import gpu_triton
        run: Run = getattr(gpu_triton, name)(p)

        def without_result() -> None:
            run()                                     # Triton returns the compiled kernel
        return without_result
    return peer

# CuPy: the same memory, seen as CuPy's arrays; both libraries launch on the default stream


def cupy_full_sum(p: Any) -> Run:
    import cupy
    x, s = cupy.asarray(p.x), cupy.asarray(p.s)

    def run() -> None:
        cupy.sum(x, out=s.reshape(()))
    return run


def cupy_row_sum(p: Any) -> Run:
    import cupy
    x, s = cupy.asarray(p.x), cupy.asarray(p.s)

    def run() -> None:
        cupy.sum(x, axis=1, out=s)
    return run


def cupy_csr(p: Any) -> Run:
    import cupy
    from cupyx.scipy.sparse import csr_matrix
    n, m = p.size[:2]
    matrix = csr_matrix((cupy.asarray(p.val), cupy.asarray(p.col), cupy.asarray(p.rowptr)), shape=(n, m))
    x = cupy.asarray(p.x)
    return lambda: matrix @ x


def cupy_scan(p: Any) -> Run:
    import cupy
    x, y = cupy.asarray(p.x), cupy.asarray(p.y)

    def run() -> None:
        cupy.cumsum(x, out=y)
    return run


def torch_scan(p: Any) -> Run:
    import torch
    return lambda: torch.cumsum(p.x, 0, out=p.y)


def cupy_row_scan(p: Any) -> Run:
    import cupy
    x, y = cupy.asarray(p.x), cupy.asarray(p.y)

    def run() -> None:
        cupy.cumsum(x, axis=1, out=y)
    return run


def torch_row_scan(p: Any) -> Run:
    import torch
    return lambda: torch.cumsum(p.x, 1, out=p.y)


def cupy_histogram(p: Any) -> Run:
    """CUB's histogram by the borders of its bins, which is the one that CuPy has."""
    import cupy
    from cupy.cuda import cub
    x = cupy.asarray(p.x)
    borders = cupy.arange(p.size[1] + 1, dtype=cupy.int32)
    counts = cupy.zeros(p.size[1], cupy.int64)

    def run() -> Any:
        cub.device_histogram(x, counts, borders)
        return counts
    return run


def cupy_bincount(p: Any) -> Run:
    import cupy
    x = cupy.asarray(p.x)
    return lambda: cupy.bincount(x, minlength=p.size[1])


def torch_histogram(p: Any) -> Run:
    import torch
    return lambda: torch.bincount(p.x, minlength=p.size[1])
