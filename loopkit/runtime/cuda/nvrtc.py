"""CUDA compilers, and NVRTC: a library that needs no toolkit and no GPU, and takes a few hundredths of a second.

NVRTC is called through ``cuda.bindings``, the base of ``cuda.core``: the bindings accept any option, while
``cuda.core`` has a fixed list, and load in a quarter of the time. NVRTC does not bring the headers of CUDA's runtime;
texts with halves include two of them.
"""
from __future__ import annotations

import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, cast

from loopkit.errors import CompilerError
from loopkit.runtime.cuda.resources import Binary, parse_ptxas_log
from loopkit.runtime.processes import rejected
from loopkit.target.cuda import CudaTarget

#: The file name of a text in the compilers' messages.
FILE_NAME = "kernel.cu"

_ERROR = rf"{re.escape(FILE_NAME)}(?:\((\d+)\)|:(\d+)(?::\d+)?): (?:catastrophic |fatal )?error"
_NO_SUCH_ARCHITECTURE = re.compile(r"invalid value for --gpu-architecture|Unsupported gpu architecture")

#: The header that identifies a directory of CUDA's headers.
_HEADER = "cuda_fp16.h"

#: The default place of the toolkit; ``$CUDA_PATH`` and ``$CUDA_HOME`` override it.
_TOOLKIT = "/usr/local/cuda"

RELEASE = re.compile(r"release [\d.]+, V([\d.]+)")


def compile_options(target: CudaTarget) -> list[str]:
    """The options for *target*, its own last. The compiler's default decides about fused multiply-adds."""
    return [f"-arch={target.architecture}", f"-std={target.std}", "--ptxas-options=-v",
            *(["--use_fast_math"] if target.fast_math else []),
            *(["-lineinfo"] if target.line_info else []),
            *([f"--maxrregcount={target.max_registers}"] if target.max_registers is not None else []),
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
        numbers = _checked(nvrtc.nvrtcGetSupportedArchs())
    except (RuntimeError, OSError):             # the library is missing, or too old for the query
        return None
    # only the PTX contains the build number, and another build may compile differently
    text, _ = _compile("", [f"-arch=compute_{max(numbers)}"], "PTX")
    release = RELEASE.search(decoded(text or b""))
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
    program = _checked(nvrtc.nvrtcCreateProgram(source.encode(), FILE_NAME.encode(), 0, [], []))
    try:
        status, = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        log = decoded(_read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program))
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            return None, log.strip() or status.name
        return _read(getattr(nvrtc, f"nvrtcGet{form}Size"), getattr(nvrtc, f"nvrtcGet{form}"), program), log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _read(size: Any, content: Any, program: object) -> bytes:
    """The content of *program*: *size* gives its length, *content* copies it."""
    room = bytes(_checked(size(program)))       # a new object, so that it may be written into
    _checked(content(program, room))
    return room


def _checked(result: tuple[Any, ...]) -> Any:
    """The value behind the status of *result*; :raises CompilerError: the status is a failure."""
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
