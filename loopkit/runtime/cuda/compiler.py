"""Compilation of CUDA C++: NVRTC and nvcc, the cache of their binaries in memory and on disk, disassembly.

NVRTC needs no toolkit and no GPU, and takes a few hundredths of a second. It is called through ``cuda.bindings``, the
base of ``cuda.core``: the bindings accept any option, while ``cuda.core`` has a fixed list, and load in a quarter of
the time. NVRTC does not bring the headers of CUDA's runtime; texts with halves include two of them.

nvcc is run directly instead of through ``pycuda.compiler``, which drops its messages, including those about registers.
"""
from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, cast

from loopkit.errors import CompilerError
from loopkit.runtime.cache import DiskCache
from loopkit.runtime.compiler import (
    COMPILED,
    FROM_CACHE,
    LOG,
    KeptInMemory,
    dump,
    loopkit_version,
    rejected,
    run_quietly,
    translated,
)
from loopkit.runtime.cuda.resources import Binary, parse_ptxas_log
from loopkit.target.cuda.target import CudaTarget

#: The file name of a text in the compilers' messages.
_FILE_NAME = "kernel.cu"

_ERROR = rf"{re.escape(_FILE_NAME)}(?:\((\d+)\)|:(\d+)(?::\d+)?): (?:catastrophic |fatal )?error"
_NO_SUCH_ARCHITECTURE = re.compile(r"invalid value for --gpu-architecture|Unsupported gpu architecture")

#: The header that identifies a directory of CUDA's headers.
_HEADER = "cuda_fp16.h"

#: The default place of the toolkit; ``$CUDA_PATH`` and ``$CUDA_HOME`` override it.
_TOOLKIT = "/usr/local/cuda"

_RELEASE = re.compile(r"release [\d.]+, V([\d.]+)")


def compile_options(target: CudaTarget) -> list[str]:
    """The options for *target*, its own last. The compiler's default decides about fused multiply-adds.

    A limit of registers has no effect on a function with launch bounds unless it overrides them.
    """
    limit = target.max_registers
    return [f"-arch={target.architecture}", f"-std={target.std}", "--ptxas-options=-v",
            *(["--use_fast_math"] if target.fast_math else []),
            *(["-lineinfo"] if target.line_info else []),
            *([f"--maxrregcount={limit}", "--ptxas-options=--override-directive-values"] if limit is not None else []),
            *target.options]


@dataclass(frozen=True)
class CudaCompiler(ABC):
    """A compiler for CUDA C++; several threads may use one at once.

    :ivar supported: the supported architectures, without those of one chip only (``sm_90a``).
    """

    name: ClassVar[str]
    version: str
    supported: tuple[str, ...]

    def cubin(self, source: str, kernel: str, target: CudaTarget) -> Binary:
        """Machine code of *source*; :raises CompilerError: the compiler rejects the text or does not run."""
        content, log = self._accepted(source, kernel, target, "cubin")
        return Binary(content, log, parse_ptxas_log(log))

    def ptx(self, source: str, kernel: str, target: CudaTarget) -> str:
        """The PTX that the machine code is made from; raises the same errors as :meth:`cubin`."""
        content, _ = self._accepted(source, kernel, target, "ptx")
        return decoded(content)

    @abstractmethod
    def translated(self, source: str, target: CudaTarget, form: str) -> tuple[bytes | None, str]:
        """The *form* (``"cubin"``, ``"ptx"``) of *source*, ``None`` if it is rejected, and the log."""

    def _accepted(self, source: str, kernel: str, target: CudaTarget, form: str) -> tuple[bytes, str]:
        content, log = self.translated(source, target, form)
        if content is not None:
            return content, log
        compiler = f"{self.name} {self.version}"
        if _NO_SUCH_ARCHITECTURE.search(log):
            raise CompilerError(f"{compiler} does not compile for '{target.architecture}', which kernel '{kernel}' is "
                                "for.", log=log.strip(),
                                hint=f"it compiles for {', '.join(self.supported)}: choose one of them, "
                                     "lk.CudaTarget(arch=...), or install another version")
        raise rejected(compiler, kernel, source, log, _ERROR,
                       hint="generate_code(knl, target='cuda') shows the whole text")


def decoded(content: bytes) -> str:
    """A text of a compiler, which may end in zeros."""
    return content.rstrip(b"\0").decode(errors="replace")


# NVRTC

class Nvrtc(CudaCompiler):
    """The NVRTC that ``cuda.bindings`` finds; its *version* has the build number, which its PTX contains."""

    name = "NVRTC"

    def translated(self, source: str, target: CudaTarget, form: str) -> tuple[bytes | None, str]:
        options = compile_options(target)
        if form == "ptx":                              # ptxas does not run for it
            options[0] = f"-arch={target.architecture.replace('sm_', 'compute_')}"
        if needs_headers(source):                      # NVRTC searches no other place
            options += [f"-I{place}" for place in header_directories()]
        # from 12.9 on, NVRTC may take machine code from the driver's cache; it then does not report registers
        if tuple(int(x) for x in self.version.split(".")[:2] if x.isdigit()) >= (12, 9):
            options.append("--no-cache")
        return _compile(source, options, form.upper())


@cache
def find_nvrtc() -> Nvrtc | None:
    """NVRTC, if it can be loaded; a library once loaded stays."""
    try:
        from cuda.bindings import nvrtc
    except ImportError:
        return None
    try:
        _, major, minor = nvrtc.nvrtcVersion()
        supported = nvrtc.nvrtcGetSupportedArchs()
    except (RuntimeError, OSError):             # the library is missing, or too old for the query
        return None
    numbers = _checked(supported)
    # only the PTX contains the build number, and another build may compile differently
    text, _ = _compile("", [f"-arch=compute_{max(numbers)}"], "PTX")
    release = _RELEASE.search(decoded(text or b""))
    return Nvrtc(release[1] if release else f"{major}.{minor}", tuple(f"sm_{n}" for n in numbers))


def expected_nvrtc() -> tuple[str, str] | None:
    """Name and version of the NVRTC of a wheel, which ``cuda.bindings`` will find first; ``None`` without one."""
    for wheel in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"):
        try:
            bindings, library = metadata.version("cuda-bindings"), metadata.version(wheel)
        except metadata.PackageNotFoundError:
            continue
        if bindings.partition(".")[0] == library.partition(".")[0]:         # bindings load only their own major version
            return Nvrtc.name, library
    return None


def _compile(source: str, options: Sequence[str], form: str) -> tuple[bytes | None, str]:
    """The *form* (``"CUBIN"``, ``"PTX"``) of *source*, ``None`` if it is rejected, and the log."""
    from cuda.bindings import nvrtc
    program = _checked(nvrtc.nvrtcCreateProgram(source.encode(), _FILE_NAME.encode(), 0, [], []))
    try:
        status, = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        log = decoded(_read_content(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program))
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            return None, log.strip() or status.name
        return _read_content(getattr(nvrtc, f"nvrtcGet{form}Size"), getattr(nvrtc, f"nvrtcGet{form}"), program), log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _read_content(size: Any, content: Any, program: object) -> bytes:
    """The content of *program*: *size* gives its length, *content* copies it."""
    room = bytes(_checked(size(program)))       # a new object, so that it may be written into
    _checked(content(program, room))
    return room


def _checked(result: tuple[Any, ...]) -> Any:
    """The value beside the status of *result*; :raises CompilerError: the status is a failure."""
    status, *values = result
    if status.value:
        raise CompilerError(f"NVRTC fails: {status.name}.")
    return values[0] if values else None


def needs_headers(source: str) -> bool:
    """Does a CUDA text include headers of CUDA's runtime?"""
    return "#include <cuda_" in source


@cache
def header_directories() -> tuple[str, ...]:
    """The include paths of NVRTC: of the wheels, else of the toolkit; :raises CompilerError: there are none."""
    roots = (os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), _TOOLKIT)
    places = [nvidia_path("find_nvidia_header_directory", "cudart"),
              *(str(Path(root, "include")) for root in roots if root)]
    for found in map(Path, filter(None, places)):
        if (found / _HEADER).is_file():
            # newer toolkits have the C++ library in a folder of its own
            library = found / "cccl"
            return (str(found), str(library)) if library.is_dir() else (str(found),)
    raise CompilerError(f"The CUDA header {_HEADER} is not installed, which kernels with halves include.",
                        hint="pip install nvidia-cuda-runtime, or set CUDA_HOME to the CUDA toolkit's folder")


@cache
def headers_identity() -> str:
    """A hash of the headers that texts include, because their functions become part of the code."""
    digest = hashlib.sha256()
    for path in sorted(Path(header_directories()[0]).glob("cuda_[fb]*16.h*")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def nvidia_path(function: str, name: str) -> str | None:
    """The path of *name* by NVIDIA's own search (packages, the system's directories), a *function* of
    ``cuda.pathfinder``; ``None`` if it is not installed, finds nothing or does not support the name."""
    try:
        from cuda import pathfinder
        return cast("str | None", getattr(pathfinder, function)(name))
    except (ImportError, RuntimeError, ValueError):
        return None


# The tools of the toolkit

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
        return translated([self.command, *compile_options(target), f"-{form}"], source, _FILE_NAME)


def find_nvcc() -> Nvcc | None:
    """The machine's nvcc, if there is one."""
    command = find_tool("nvcc")
    return None if command is None else _probed(command)


@lru_cache(maxsize=8)
def _probed(command: str) -> Nvcc | None:
    shown = run_quietly([command, "--version"])
    release = _RELEASE.search(shown.stdout)
    if shown.returncode != 0 or release is None:
        return None
    architectures = set(re.findall(r"sm_\d+", run_quietly([command, "--list-gpu-code"]).stdout))
    return Nvcc(release[1], tuple(sorted(architectures, key=lambda arch: int(arch.removeprefix("sm_")))), command)


def disassembly(cubin: bytes, kernel: str) -> str:
    """The function *kernel* of *cubin* as SASS; :raises CompilerError: no disassembler is installed, or it fails."""
    tool = find_tool("nvdisasm")                       # the toolkit's cuobjdump needs it, too
    if tool is None:
        raise CompilerError("The machine code cannot be shown: there is no nvdisasm.",
                            hint="pip install nvidia-cuda-nvdisasm, or put the CUDA toolkit's nvdisasm on the path")
    with tempfile.TemporaryDirectory(prefix="loopkit-") as place:
        path = Path(place, "kernel.cubin")
        path.write_bytes(cubin)
        done = run_quietly([tool, "--print-code", str(path)])
    if done.returncode != 0:
        raise CompilerError(f"nvdisasm cannot read the machine code of kernel '{kernel}'.",
                            log=(done.stdout + done.stderr).strip(),
                            hint="it may be older than the compiler; pip install -U nvidia-cuda-nvdisasm")
    for part in re.split(r"(?m)^(?=//-+ \.)", done.stdout):
        if re.match(rf"//-+ \.text\.{re.escape(kernel)}\s+-", part):
            return part.strip("\n") + "\n"
    raise CompilerError(f"The machine code has no function '{kernel}'.")


# Compilation

def available_cuda_compilers()-> tuple[CudaCompiler, ...]:
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


@KeptInMemory
def load_binary(source: str, kernel: str, target: CudaTarget, cache: DiskCache,
                compiler: CudaCompiler | None = None) -> Binary:
    """The machine code of *source*, kept in memory and on disk; :raises CompilerError: no compiler accepts it."""
    dump(source, kernel, ".cu")
    expected = expected_nvrtc() if compiler is None else None
    # loading a compiler takes longer than the rest of a first launch
    kept = _binary_in_cache(binary_key(source, target, *expected), cache, kernel) if expected is not None else None
    if kept is not None:
        return kept
    compiler = compiler or find_cuda_compiler()
    key = binary_key(source, target, compiler.name, compiler.version)
    kept = _binary_in_cache(key, cache, kernel)
    if kept is not None:
        return kept
    binary = compiler.cubin(source, kernel, target)
    LOG.debug(COMPILED, kernel)
    cache.put(key, binary.cubin, {"kernel": kernel, "compiler": compiler.name, "version": compiler.version,
                                  "options": compile_options(target), "log": binary.log})
    return binary


def _binary_in_cache(key: str, cache: DiskCache, kernel: str) -> Binary | None:
    """The binary of *key* in *cache*, for *kernel*, if it is complete and undamaged."""
    content, facts = cache.lookup(key) or (b"", {})
    log = str(facts.get("log"))
    resources = parse_ptxas_log(log)                   # a record without a log has no resources either
    if not resources:
        return None
    LOG.debug(FROM_CACHE, kernel)
    return Binary(content, log, resources)


def binary_key(source: str, target: CudaTarget, compiler: str, version_of_it: str) -> str:
    """The key of a binary: everything that its bytes depend on."""
    headers = headers_identity() if compiler == Nvrtc.name and needs_headers(source) else ""
    parts = (source, *compile_options(target), compiler, version_of_it, headers, loopkit_version())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
