"""nvcc, the CUDA compiler that is a program of the toolkit.

It is run as it is, not through ``pycuda.compiler``, which drops its messages, those about registers among them.
"""
from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from loopkit.runtime.cuda.binary import Binary, parse_ptxas_log
from loopkit.runtime.cuda.command import FILE_NAME, compile_options, refused
from loopkit.runtime.cuda.tools import find_tool
from loopkit.runtime.processes import run_quietly
from loopkit.target.cuda import CudaTarget


@dataclass(frozen=True)
class Nvcc:
    """An nvcc that was found.

    :ivar command: its full path.
    """

    command: str
    version: str
    name: str = "nvcc"

    def cubin(self, source: str, kernel: str, target: CudaTarget) -> Binary:
        """Machine code; :raises CompilerError: nvcc refuses *source* or does not run."""
        content, log = self._compiled(source, kernel, target, "-cubin")
        return Binary(content, log, parse_ptxas_log(log))

    def ptx(self, source: str, kernel: str, target: CudaTarget) -> str:
        """PTX; :raises CompilerError: nvcc refuses *source* or does not run."""
        content, _ = self._compiled(source, kernel, target, "-ptx")
        return content.decode(errors="replace")

    @property
    def supported(self) -> Sequence[str]:
        """The architectures that it knows, without those of one chip only (``sm_90a``)."""
        said = run_quietly([self.command, "--list-gpu-code"]).stdout
        return sorted(set(re.findall(r"sm_\d+", said)), key=lambda arch: int(arch.removeprefix("sm_")))

    def _compiled(self, source: str, kernel: str, target: CudaTarget, form: str) -> tuple[bytes, str]:
        with tempfile.TemporaryDirectory(prefix="loopkit-") as place:
            text, result = Path(place, FILE_NAME), Path(place, "kernel.out")
            text.write_text(source, encoding="utf-8")
            done = run_quietly([self.command, *compile_options(target), form, "-o", str(result), str(text)])
            log = (done.stdout + done.stderr).replace(str(text), FILE_NAME)
            if done.returncode != 0 or not result.exists():
                raise refused(f"{self.name} {self.version}", kernel, source, log, target, self.supported)
            return result.read_bytes(), log


def find_nvcc() -> Nvcc | None:
    """The nvcc of the machine, if there is one."""
    command = find_tool("nvcc")
    return None if command is None else _probed(command)


@lru_cache(maxsize=8)
def _probed(command: str) -> Nvcc | None:
    said = run_quietly([command, "--version"])
    release = re.search(r"release [\d.]+, V([\d.]+)", said.stdout)
    return None if said.returncode != 0 or release is None else Nvcc(command, release[1])
