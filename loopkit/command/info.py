"""``python -m loopkit info``: the compilers, GPUs and cache of this machine."""
from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator

from loopkit.errors import DeviceError
from loopkit.kernel.target import TARGETS
from loopkit.runtime.cache import DEFAULT_LIMIT, DiskCache, cache_directory
from loopkit.runtime.compiler import HostCompiler, available_compilers, loopkit_version
from loopkit.runtime.cuda.compiler import available_cuda_compilers
from loopkit.runtime.cuda.devices import find_gpu, gpu_count, why_not
from loopkit.runtime.opencl.devices import opencl_devices


def info() -> Iterator[str]:
    """The lines of ``python -m loopkit info``."""
    cache = DiskCache(cache_directory())
    yield f"loopkit      {loopkit_version()}, Python {platform.python_version()}, {platform.platform()}"
    missing = why_not()
    runs_on = "the GPU if there is one, else c" if missing is None else "c"
    yield f"targets      {', '.join(TARGETS)}; kernels run on {runs_on}"
    yield from _host_compilers(cache)
    yield from _titled("CUDA", [f"{c.name}: {c.version}" for c in available_cuda_compilers()],
                       "no compiler; pip install 'loopkit[cuda]', or install the CUDA toolkit")
    if missing is None:
        yield from _titled("GPUs", map(_gpu, range(gpu_count())), "")
    else:
        yield f"GPUs         none can be used: {missing.message}" + (f" ({missing.hint})" if missing.hint else "")
    yield from opencl_lines()
    files, size = cache.size()
    yield f"cache        {cache.directory}: {files} files, {size / 2**20:.1f} of {DEFAULT_LIMIT / 2**20:.0f} MiB"


def opencl_lines() -> Iterator[str]:
    """The devices of OpenCL."""
    try:
        found = [f"{x.name.strip()}: {x.version.strip()}" for x in opencl_devices()]
    except DeviceError as err:
        yield f"OpenCL       no device can be used: {err.message}" + (f" ({err.hint})" if err.hint else "")
    else:
        yield from _titled("OpenCL", found, "")


def _host_compilers(cache: DiskCache) -> Iterator[str]:
    """Each compiler with its flags, and the flags with which it fails its trial."""
    found = list(zip(available_compilers(cache), available_compilers(cache, fast=True), strict=True))
    fit = [safe for safe, _ in found if safe.fit]
    if not found:
        yield f"{'C compiler':12} none; install gcc or clang, or: pip install 'loopkit[host]'"
    for i, (safe, fast) in enumerate(found):
        used = " <- used" if fit and safe is fit[0] and len(found) > 1 else ""
        yield f"{'C compiler' if i == 0 else '':12} {' '.join(safe.command)}: {safe.version}{_abilities(safe)}{used}"
        yield from (f"{'':12}   {line}" for line in _flag_lines(safe, fast))


def _abilities(compiler: HostCompiler) -> str:
    if not compiler.fit:
        return " (not used)"
    return (f" ({'OpenMP' if compiler.openmp else 'no OpenMP'}, "
            f"{'native' if compiler.native else 'generic processor'})")


def _flag_lines(safe: HostCompiler, fast: HostCompiler) -> Iterator[str]:
    if safe.fit:
        yield f"flags: {' '.join(safe.chosen)}"
    yield from (f"dropped: {dropped}" for dropped in safe.dropped)
    if fast.fit and (fast.chosen, fast.fit) != (safe.chosen, safe.fit):
        yield f"flags with fast=True: {' '.join(fast.chosen)}"
    yield from (f"dropped with fast=True: {dropped}" for dropped in fast.dropped if dropped not in safe.dropped)


def _gpu(ordinal: int) -> str:
    try:
        gpu = find_gpu(ordinal)
    except DeviceError as err:
        return err.message
    return f"{gpu}, {gpu.memory / 2**30:.0f} GiB"


def _titled(title: str, lines: Iterable[str], otherwise: str) -> Iterator[str]:
    """*lines* under *title*; the first one is used."""
    found = list(lines)
    for i, line in enumerate(found or [otherwise]):
        yield f"{title if i == 0 else '':12} {line}{' <- used' if i == 0 and len(found) > 1 else ''}"
