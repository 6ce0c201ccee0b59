"""Compilation of CUDA C++: the available compilers, the cache of their binaries in memory and on disk, disassembly.

nvcc is run directly instead of through ``pycuda.compiler``, which drops its messages, including those about registers.
"""
from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from loopkit.errors import CompilerError
from loopkit.runtime.cache import DiskCache
from loopkit.runtime.cuda.nvrtc import (
    FILE_NAME,
    RELEASE,
    CudaCompiler,
    Nvrtc,
    compile_options,
    expected_nvrtc,
    find_nvrtc,
    headers_identity,
    needs_headers,
    nvidia_path,
)
from loopkit.runtime.cuda.resources import Binary, parse_ptxas_log
from loopkit.runtime.processes import dump, run_quietly, translated, version
from loopkit.target.cuda import CudaTarget


def find_tool(name: str) -> str | None:
    """The full path of ``nvcc``, ``nvdisasm``, ...; ``None`` if there is none."""
    homes = [os.environ[home] for home in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(home)]
    in_homes = os.pathsep.join(str(Path(home, "bin")) for home in homes)
    return shutil.which(name) or shutil.which(name, path=in_homes) or nvidia_path("find_nvidia_binary_utility", name)


@dataclass(frozen=True)
class Nvcc(CudaCompiler):
    """An nvcc that was found."""

    name = "nvcc"
    command: str

    def translated(self, source: str, target: CudaTarget, form: str) -> tuple[bytes | None, str]:
        return translated([self.command, *compile_options(target), f"-{form}"], source, FILE_NAME)


def find_nvcc() -> Nvcc | None:
    """The machine's nvcc, if there is one."""
    command = find_tool("nvcc")
    return None if command is None else _probed(command)


@lru_cache(maxsize=8)
def _probed(command: str) -> Nvcc | None:
    shown = run_quietly([command, "--version"])
    release = RELEASE.search(shown.stdout)
    if shown.returncode != 0 or release is None:
        return None
    architectures = set(re.findall(r"sm_\d+", run_quietly([command, "--list-gpu-code"]).stdout))
    return Nvcc(release[1], tuple(sorted(architectures, key=lambda arch: int(arch.removeprefix("sm_")))), command)


def disassembly(cubin: bytes, kernel: str) -> str:
    """The function *kernel* of *cubin* as SASS; :raises CompilerError: no disassembler is installed, or it fails."""
    # cuobjdump needs nvdisasm, so nvdisasm alone is enough
    tool = find_tool("nvdisasm") or find_tool("cuobjdump")
    if tool is None:
        raise CompilerError("The machine code cannot be shown: there is neither nvdisasm nor cuobjdump.",
                            hint="pip install nvidia-cuda-nvdisasm, or put the CUDA toolkit's nvdisasm on the path")
    with tempfile.TemporaryDirectory(prefix="loopkit-") as place:
        path = Path(place, "kernel.cubin")
        path.write_bytes(cubin)
        options = ["--print-code"] if Path(tool).stem == "nvdisasm" else ["--dump-sass"]
        done = run_quietly([tool, *options, str(path)])
    if done.returncode != 0:
        raise CompilerError(f"{Path(tool).stem} cannot read the machine code of kernel '{kernel}'.",
                            log=(done.stdout + done.stderr).strip(),
                            hint="it may be older than the compiler; pip install -U nvidia-cuda-nvdisasm")
    for part in re.split(r"(?m)^(?=//-+ \.|[ \t]*Function : )", done.stdout):
        if re.match(rf"//-+ \.text\.{re.escape(kernel)}\s+-|[ \t]*Function : {re.escape(kernel)}\s", part):
            return part.strip("\n") + "\n"
    raise CompilerError(f"The machine code has no function '{kernel}'.")


def available_cuda_compilers() -> tuple[CudaCompiler, ...]:
    """Every CUDA compiler of this machine, the preferred one first."""
    return tuple(c for c in (find_nvrtc(), find_nvcc()) if c is not None)


def has_cuda_compiler() -> bool:
    """Is there a compiler? Checked without loading one if possible."""
    return expected_nvrtc() is not None or bool(available_cuda_compilers())


def find_cuda_compiler() -> CudaCompiler:
    """NVRTC, else nvcc; :raises CompilerError: there is neither."""
    found = find_nvrtc() or find_nvcc()
    if found is None:
        raise CompilerError("No compiler for CUDA was found: NVRTC cannot be loaded, and there is no nvcc.",
                            hint="pip install 'loopkit[cuda]' brings NVRTC; nvcc of the CUDA toolkit is taken from "
                                 "the path or from $CUDA_HOME")
    return found


@lru_cache(maxsize=1024)
def load_binary(source: str, kernel: str, target: CudaTarget, cache: DiskCache,
                compiler: CudaCompiler | None = None) -> Binary:
    """The machine code of *source*, kept in memory and on disk; :raises CompilerError: no compiler accepts it."""
    dump(source, kernel, ".cu")
    expected = expected_nvrtc() if compiler is None else None
    # loading a compiler takes longer than the rest of a first launch
    kept = _kept(binary_key(source, target, *expected), cache) if expected is not None else None
    if kept is not None:
        return kept
    compiler = compiler or find_cuda_compiler()
    key = binary_key(source, target, compiler.name, compiler.version)
    kept = _kept(key, cache)
    if kept is not None:
        return kept
    binary = compiler.cubin(source, kernel, target)
    cache.put(key, binary.cubin, {"kernel": kernel, "compiler": compiler.name, "version": compiler.version,
                                  "options": compile_options(target), "log": binary.log})
    return binary


def _kept(key: str, cache: DiskCache) -> Binary | None:
    """The binary of *key* in *cache*, if it is complete and undamaged."""
    entry = cache.lookup(key)
    log = "" if entry is None else str(entry.facts.get("log"))
    resources = parse_ptxas_log(log)                   # a record without a log has no resources either
    return Binary(entry.content, log, resources) if entry is not None and resources else None


def binary_key(source: str, target: CudaTarget, compiler: str, version_of_it: str) -> str:
    """The key of a binary: everything that its bytes depend on."""
    headers = headers_identity() if compiler == Nvrtc.name and needs_headers(source) else ""
    parts = (source, *compile_options(target), compiler, version_of_it, headers, version())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
