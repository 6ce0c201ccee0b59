"""CUB called directly, built by CUDA's compiler at its first use."""
from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("gpu_cub.cu")


def histogram(p: Any) -> Callable[[], Any]:
    """A run of CUB's histogram with bins of one width, for which CUB needs no search."""
    import torch
    counts = torch.empty(p.size[1], dtype=torch.int32, device="cuda")
    run = _call("histogram", p.x, counts, p.size[1], len(p.x))

    def counted() -> Any:
        run()
        return counts
    return counted


def scan(p: Any) -> Callable[[], None]:
    return _call("scan", p.x, p.y, len(p.x))


def _call(name: str, x: Any, *others: Any) -> Callable[[], None]:
    """A call of the library's function *name* for *x*'s dtype, on torch's arrays and integers, with its own memory.

    :raises ImportError: there is no compiler, or no CUB.
    :raises RuntimeError: CUDA's error.
    """
    import torch
    function = getattr(_library(), f"{name}_{str(x.dtype).removeprefix('torch.')}")
    given = [ctypes.c_int(a) if isinstance(a, int) else ctypes.c_void_p(a.data_ptr()) for a in (x, *others)]
    size = ctypes.c_size_t()

    def run() -> None:
        address = ctypes.c_void_p(memory[0].data_ptr()) if memory else None
        if code := function(address, ctypes.byref(size), *given):
            raise RuntimeError(f"CUB's {name}: CUDA's error {code}")
    memory: list[Any] = []
    run()
    memory.append(torch.empty(max(size.value, 1), dtype=torch.uint8, device=x.device))
    return run


@cache
def _library() -> ctypes.CDLL:
    folder = Path(os.environ.get("LOOPKIT_CACHE_DIR") or tempfile.mkdtemp(prefix="loopkit-cub-"))
    built = folder / f"cub-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}.so"
    if not built.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = built.with_suffix(f".{os.getpid()}")
        _build(unfinished)
        unfinished.rename(built)
    return ctypes.CDLL(str(built))


def _build(target: Path) -> None:
    """:raises ImportError: there is no compiler, or no CUB."""
    compiler = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if compiler is None:
        raise ImportError("CUB is built by nvcc, which is not there")
    for headers in _headers():
        command = [compiler, "-O3", "-std=c++17", "-arch=native", "-shared", "-Xcompiler", "-fPIC", *headers]
        done = subprocess.run([*command, "-o", str(target), str(SOURCE)], check=False, text=True, capture_output=True)
        if done.returncode == 0:
            return
    raise ImportError(f"CUB: {(done.stderr.strip() or 'nvcc failed').splitlines()[0]}")


def _headers() -> Iterator[list[str]]:
    """Options: the compiler's own headers, then those that CuPy brings."""
    yield []
    found = importlib.util.find_spec("cupy")
    if found is not None and found.origin is not None:
        root = Path(found.origin).parent / "_core/include/cupy/_cccl"
        yield [part for name in ("cub", "thrust", "libcudacxx") for part in ("-isystem", str(root / name))]
