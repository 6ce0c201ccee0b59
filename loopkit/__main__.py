"""``python -m loopkit info``: what there is to run kernels with."""
from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Iterable, Iterator, Sequence

from loopkit.errors import DeviceError
from loopkit.runtime.cache import DEFAULT_LIMIT, DiskCache, cache_directory
from loopkit.runtime.compiler import available_compilers
from loopkit.runtime.cuda.compiler import available_cuda_compilers
from loopkit.runtime.cuda.devices import find_gpu, gpu_count, why_not
from loopkit.runtime.library import version


def info() -> Iterator[str]:
    """The lines of ``python -m loopkit info``."""
    cache = DiskCache(cache_directory())
    yield f"loopkit      {version()}, Python {platform.python_version()}, {platform.platform()}"
    missing = why_not()
    runs_on = "the GPU if there is one, else c" if missing is None else "c"
    yield f"targets      c, cuda; kernels run on {runs_on}"
    yield from _host_compilers(cache)
    yield from _listed("CUDA", [f"{c.name}: {c.version}" for c in available_cuda_compilers()],
                       "no compiler; pip install 'loopkit[cuda]', or install the CUDA toolkit")
    if missing is None:
        yield from _listed("GPUs", map(_gpu, range(gpu_count())), "")
    else:
        yield f"GPUs         none can be used: {missing.message}" + (f" ({missing.hint})" if missing.hint else "")
    files, size = cache.size()
    yield f"cache        {cache.directory}: {files} files, {size / 2**20:.1f} of {DEFAULT_LIMIT / 2**20:.0f} MiB"


def _host_compilers(cache: DiskCache) -> Iterator[str]:
    lines = []
    for compiler in available_compilers(cache):
        notes = ["OpenMP" if compiler.openmp else "no OpenMP", "native" if compiler.native else "generic processor"]
        lines.append(f"{' '.join(compiler.command)}: {compiler.version} ({', '.join(notes)})")
    return _listed("C compiler", lines, "none; install gcc or clang, or: pip install 'loopkit[host]'")


def _gpu(ordinal: int) -> str:
    try:
        gpu = find_gpu(ordinal)
    except DeviceError as err:
        return err.message
    return f"{gpu}, {gpu.memory / 2**30:.0f} GiB"


def _listed(title: str, lines: Iterable[str], otherwise: str) -> Iterator[str]:
    """*lines* under *title*, the first one being what is used."""
    found = list(lines)
    for i, line in enumerate(found):
        yield f"{title if i == 0 else '':12} {line}{' <- used' if i == 0 and len(found) > 1 else ''}"
    if not found:
        yield f"{title:12} {otherwise}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m loopkit", description="Loop kernels, proven and run.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="what there is to run kernels with")
    parser.parse_args(arguments)
    for line in info():
        print(line)                                    # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
