"""Where the headers of CUDA's runtime lie, which NVRTC does not bring along: texts with halves include two of them."""
from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from loopkit.errors import CompilerError

#: The header that tells a directory of CUDA's headers from others.
_HEADER = "cuda_fp16.h"

#: Where the toolkit is by default; ``$CUDA_PATH`` and ``$CUDA_HOME`` say otherwise.
_TOOLKIT = "/usr/local/cuda"


def needs_headers(source: str) -> bool:
    """Does a CUDA text include headers of CUDA's runtime?

    >>> needs_headers("#include <cuda_fp16.h>")
    True
    """
    return "#include <cuda_" in source


@cache
def header_directories() -> tuple[str, ...]:
    """Directories to pass to NVRTC as include paths: those of the wheels, else those of the toolkit.

    :raises CompilerError: there are none.
    """
    for found in _candidates():
        if (found / _HEADER).is_file():
            # the C++ library of newer toolkits lies beside their headers, in a folder of its own
            library = found / "cccl"
            return (str(found), str(library)) if library.is_dir() else (str(found),)
    raise CompilerError(f"The CUDA header {_HEADER} is not installed, which kernels with halves include.",
                        hint="pip install nvidia-cuda-runtime, or set CUDA_HOME to the CUDA toolkit's folder")


@cache
def headers_identity() -> str:
    """A hash of the headers that texts include, as their functions become part of the code."""
    digest = hashlib.sha256()
    for path in sorted(Path(header_directories()[0]).glob("cuda_[fb]*16.h*")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _candidates() -> Iterator[Path]:
    located = _located()
    if located is not None:
        yield Path(located)
    for root in (os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), _TOOLKIT):
        if root:
            yield Path(root, "include")


def _located() -> str | None:
    """The directory that ``cuda.pathfinder`` finds, where that is installed."""
    try:
        from cuda.pathfinder import find_nvidia_header_directory
    except ImportError:
        return None
    found: str | None = find_nvidia_header_directory("cudart")
    return found
