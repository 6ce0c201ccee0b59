"""What NVRTC and nvcc have in common: their options, and the way they say no."""
from __future__ import annotations

import re
from collections.abc import Sequence

from loopkit.errors import CompilerError
from loopkit.runtime.rejection import rejected
from loopkit.target.cuda import CudaTarget

#: The name under which the compilers see a text, and by which they speak of it.
FILE_NAME = "kernel.cu"

_LINE = re.compile(rf"{re.escape(FILE_NAME)}(?:\((\d+)\)|:(\d+)(?::\d+)?): (?:catastrophic |fatal )?error")
_NO_SUCH_ARCHITECTURE = re.compile(r"invalid value for --gpu-architecture|Unsupported gpu architecture")


def compile_options(target: CudaTarget) -> list[str]:
    """The options for *target*, its own last. Whether products and sums are contracted is the compiler's default."""
    return [f"-arch={target.architecture}", f"-std={target.std}", "--ptxas-options=-v",
            *(["--use_fast_math"] if target.fast_math else []),
            *(["-lineinfo"] if target.line_info else []),
            *([f"--maxrregcount={target.max_registers}"] if target.max_registers is not None else []),
            *target.options]


def refused(compiler: str, kernel: str, source: str, log: str, target: CudaTarget, supported: Sequence[str]
            ) -> CompilerError:
    """The error for a text that was not compiled.

    :arg compiler: its name and version.
    :arg supported: the architectures that it knows.
    """
    if _NO_SUCH_ARCHITECTURE.search(log):
        return CompilerError(f"{compiler} does not compile for '{target.architecture}', which kernel '{kernel}' is "
                             "for.", log=log.strip(),
                             hint=f"it compiles for {', '.join(supported)}: choose one of them, "
                                  "lk.CudaTarget(arch=...), or install another version")
    found = _LINE.search(log)
    return rejected(compiler, kernel, source, log, None if found is None else int(found[1] or found[2]),
                    hint="generate_code(knl, target='cuda') shows the whole text")
