"""Compilers of CUDA texts: their options, the resources reported by ptxas, and the error for a rejected text."""
from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from loopkit.errors import CompilerError
from loopkit.runtime.processes import rejected
from loopkit.target.cuda import CudaTarget


@dataclass(frozen=True)
class PtxasUsage:
    """The resources of one function.

    :ivar registers: 32-bit registers per thread.
    :ivar spill_stores: bytes that a thread stores for lack of registers; *spill_loads*: bytes that it loads back.
    :ivar stack: bytes of a thread's stack, for arrays outside registers.
    :ivar constant: bytes of constant memory, including parameters; 0 if ptxas does not report them.
    """

    registers: int
    spill_stores: int = 0
    spill_loads: int = 0
    stack: int = 0
    static_shared: int = 0
    barriers: int = 0
    constant: int = 0


@dataclass(frozen=True)
class Binary:
    """Machine code of one translation unit."""

    cubin: bytes
    log: str
    resources: Mapping[str, PtxasUsage]


_FUNCTION = re.compile(
    r"Compiling entry function '(?P<name>\w+)' for '\w+'"
    r".*?(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads"
    r".*?Used (?P<registers>\d+) registers(?P<rest>[^\n]*)", re.DOTALL)


def parse_ptxas_log(log: str) -> dict[str, PtxasUsage]:
    """The resources in the output of ``ptxas -v``, by function."""
    return {m["name"]: PtxasUsage(
        int(m["registers"]), int(m["stores"]), int(m["loads"]), int(m["stack"]),
        static_shared=_total(r"(\d+) bytes smem", m["rest"]), barriers=_total(r"used (\d+) barriers", m["rest"]),
        constant=_total(r"(\d+) bytes cmem", m["rest"])) for m in _FUNCTION.finditer(log)}


def _total(pattern: str, text: str) -> int:
    return sum(map(int, re.findall(pattern, text)))


#: The file name of a text in the compilers' messages.
FILE_NAME = "kernel.cu"

_ERROR = rf"{re.escape(FILE_NAME)}(?:\((\d+)\)|:(\d+)(?::\d+)?): (?:catastrophic |fatal )?error"
_NO_SUCH_ARCHITECTURE = re.compile(r"invalid value for --gpu-architecture|Unsupported gpu architecture")


def compile_options(target: CudaTarget) -> list[str]:
    """The options for *target*, its own last. The compiler's default decides about fused multiply-adds."""
    return [f"-arch={target.architecture}", f"-std={target.std}", "--ptxas-options=-v",
            *(["--use_fast_math"] if target.fast_math else []),
            *(["-lineinfo"] if target.line_info else []),
            *([f"--maxrregcount={target.max_registers}"] if target.max_registers is not None else []),
            *target.options]


class CudaCompiler(ABC):
    """A compiler for CUDA C++; several threads may use one at once.

    :ivar supported: the supported architectures, without those of one chip only (``sm_90a``).
    """

    name: ClassVar[str]
    version: str
    supported: Sequence[str]

    def cubin(self, source: str, kernel: str, target: CudaTarget) -> Binary:
        """Machine code of *source*.

        :raises CompilerError: the compiler rejects the text or does not run.
        """
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
