"""``python -m loopkit info``: what there is to run kernels with."""
from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Iterator, Sequence

from loopkit.runtime.cache import DEFAULT_LIMIT, DiskCache, cache_directory
from loopkit.runtime.compiled import BACKENDS
from loopkit.runtime.compiler import available_compilers
from loopkit.runtime.library import version


def info() -> Iterator[str]:
    """The lines of ``python -m loopkit info``."""
    cache = DiskCache(cache_directory())
    yield f"loopkit      {version()}, Python {platform.python_version()}, {platform.platform()}"
    yield f"targets      {', '.join(BACKENDS)} (runs here); cuda (generates code)"
    compilers = available_compilers(cache)
    for i, compiler in enumerate(compilers):
        notes = ["OpenMP" if compiler.openmp else "no OpenMP", "native" if compiler.native else "generic processor"]
        yield (f"{'C compiler' if i == 0 else '':12} {' '.join(compiler.command)}: {compiler.version} "
               f"({', '.join(notes)}){' <- used' if i == 0 else ''}")
    if not compilers:
        yield "C compiler   none; install gcc or clang, or: pip install 'loopkit[host]'"
    files, size = cache.size()
    yield f"cache        {cache.directory}: {files} files, {size / 2**20:.1f} of {DEFAULT_LIMIT / 2**20:.0f} MiB"


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
