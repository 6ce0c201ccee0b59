"""Shared objects: compiled or taken from the cache, and loaded."""
from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import tempfile
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from loopkit.errors import CompilerError
from loopkit.runtime.cache import DiskCache
from loopkit.runtime.compiler import HostCompiler

_libraries: dict[str, ctypes.CDLL] = {}


def load_library(source: str, kernel: str, compiler: HostCompiler, cache: DiskCache) -> ctypes.CDLL:
    """The compiled and loaded *source*: from this process, from the disk cache, or compiled now.

    :raises CompilerError: the compiler rejects *source*, or the object cannot be loaded.
    """
    key = object_key(source, compiler)
    known = _libraries.get(key)
    if known is not None:
        return known
    dump(source, kernel, ".c")
    library = _load_kept(key, cache)
    if library is None:
        content = compiler.compile(source, kernel)
        path = cache.put(key, content, {"kernel": kernel, "compiler": list(compiler.command),
                                        "version": compiler.version, "flags": list(compiler.flags)}, ".so")
        try:
            library = _open(path, content)
        except OSError as err:
            raise CompilerError(f"The compiled object of kernel '{kernel}' cannot be loaded.",
                                log=str(err)) from None
    return _libraries.setdefault(key, library)


def object_key(source: str, compiler: HostCompiler) -> str:
    """The key of a compiled object: everything that its bytes depend on."""
    return hashlib.sha256(f"{source}\0{compiler.identity}\0{version()}".encode()).hexdigest()


def dump(source: str, kernel: str, suffix: str) -> None:
    """Write a text before its compilation to ``$LOOPKIT_DUMP``, if that is set."""
    directory = os.environ.get("LOOPKIT_DUMP")
    if directory:
        place = Path(directory)
        digest = hashlib.sha256(source.encode()).hexdigest()[:12]
        try:
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{kernel}-{digest}{suffix}").write_text(source)
        except OSError as err:
            raise CompilerError(f"The text of kernel '{kernel}' cannot be written to $LOOPKIT_DUMP: {err}.",
                                hint="set it to a directory that can be written, or unset it") from None


def _load_kept(key: str, cache: DiskCache) -> ctypes.CDLL | None:
    entry = cache.lookup(key, ".so")
    if entry is None:
        return None
    try:
        return _open(entry.path, entry.content)
    except OSError:
        # undamaged, but not for this machine (a library that it needs is missing): compile it here
        return None


def _open(path: Path | None, content: bytes) -> ctypes.CDLL:
    """Map the object *content*, from *path* if it is still there.

    :raises OSError: the loader rejects it.
    """
    if path is not None:
        # another process may have evicted it, or its directory may not allow execution
        with contextlib.suppress(OSError):
            return ctypes.CDLL(str(path))
    # a temporary file, removed after it is mapped
    with tempfile.TemporaryDirectory(prefix="loopkit-", ignore_cleanup_errors=True) as place:
        private = Path(place, "kernel.so")
        private.write_bytes(content)
        return ctypes.CDLL(str(private))


@lru_cache(maxsize=1)
def version() -> str:
    """The installed version of loopkit."""
    try:
        return metadata.version("loopkit")
    except metadata.PackageNotFoundError:
        return "unknown"
