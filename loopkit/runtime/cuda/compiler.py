"""Compilation of CUDA C++: the available compilers, and the cache of their binaries in memory and on disk."""
from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, fields

from loopkit.errors import CompilerError
from loopkit.runtime.cache import DiskCache
from loopkit.runtime.cuda.binary import Binary, CudaCompiler, PtxasUsage, compile_options
from loopkit.runtime.cuda.nvrtc import Nvrtc, expected_nvrtc, find_nvrtc, headers_identity, needs_headers
from loopkit.runtime.cuda.toolkit import disassembly, find_nvcc
from loopkit.runtime.processes import dump, version
from loopkit.target.cuda import CudaTarget

__all__ = ["Binary", "CudaCompiler", "PtxasUsage", "available_cuda_compilers", "binary_key", "disassembly",
           "find_cuda_compiler", "has_cuda_compiler", "load_binary"]

_SUFFIX = ".cubin"
_MOST_BINARIES = 1024
_binaries: dict[str, Binary] = {}


def available_cuda_compilers() -> tuple[CudaCompiler, ...]:
    """Every CUDA compiler of this machine, the preferred one first."""
    return tuple(c for c in (find_nvrtc(), find_nvcc()) if c is not None)


def has_cuda_compiler() -> bool:
    """Is there a compiler? Checked without loading one if possible."""
    return expected_nvrtc() is not None or bool(available_cuda_compilers())


def find_cuda_compiler() -> CudaCompiler:
    """NVRTC, else nvcc.

    :raises CompilerError: there is neither.
    """
    found = find_nvrtc() or find_nvcc()
    if found is None:
        raise CompilerError("No compiler for CUDA was found: NVRTC cannot be loaded, and there is no nvcc.",
                            hint="pip install 'loopkit[cuda]' brings NVRTC; nvcc of the CUDA toolkit is taken from "
                                 "the path or from $CUDA_HOME")
    return found


def load_binary(source: str, kernel: str, target: CudaTarget, cache: DiskCache,
                compiler: CudaCompiler | None = None) -> Binary:
    """The machine code of *source*: from this process, from the disk cache, or compiled now.

    :raises CompilerError: there is no compiler, or it rejects *source*.
    """
    if compiler is None:
        # loading a compiler takes longer than the rest of a first launch
        expected = expected_nvrtc()
        kept = _kept(binary_key(source, target, *expected), cache) if expected is not None else None
        if kept is not None:
            return kept
        compiler = find_cuda_compiler()
    key = binary_key(source, target, compiler.name, compiler.version)
    if key in _binaries:
        return _binaries[key]
    dump(source, kernel, ".cu")
    kept = _kept(key, cache)
    if kept is not None:
        return kept
    binary = compiler.cubin(source, kernel, target)
    cache.put(key, binary.cubin, {
        "kernel": kernel, "compiler": compiler.name, "version": compiler.version,
        "options": compile_options(target), "log": binary.log,
        "resources": {name: asdict(usage) for name, usage in binary.resources.items()}}, _SUFFIX)
    return _remembered(key, binary)


def _kept(key: str, cache: DiskCache) -> Binary | None:
    """The binary of *key* in memory or in *cache*, if it is complete and undamaged."""
    entry = None if key in _binaries else cache.lookup(key, _SUFFIX)
    if entry is None:
        return _binaries.get(key)
    log, resources = entry.facts.get("log"), _usages(entry.facts.get("resources"))
    return _remembered(key, Binary(entry.content, log, resources)) if isinstance(log, str) and resources else None


def _remembered(key: str, binary: Binary) -> Binary:
    if len(_binaries) >= _MOST_BINARIES:
        _binaries.clear()                       # loaded modules stay loaded, and the disk keeps the binaries
    return _binaries.setdefault(key, binary)


def binary_key(source: str, target: CudaTarget, compiler: str, version_of_it: str) -> str:
    """The key of a binary: everything that its bytes depend on."""
    headers = headers_identity() if compiler == Nvrtc.name and needs_headers(source) else ""
    parts = (source, *compile_options(target), compiler, version_of_it, headers, version())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _usages(stored: object) -> Mapping[str, PtxasUsage] | None:
    """The functions' resources in a record, if :func:`load_binary` wrote it."""
    names = {f.name for f in fields(PtxasUsage)}
    if isinstance(stored, dict) and all(
            isinstance(usage, dict) and usage.keys() == names
            and all(type(number) is int and number >= 0 for number in usage.values()) for usage in stored.values()):
        return {name: PtxasUsage(**usage) for name, usage in stored.items()}
    return None
