"""Programs of the CUDA toolkit: nvcc and the disassemblers.

nvcc is run directly instead of through ``pycuda.compiler``, which drops its messages, including those about registers.
"""
from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, cast

from loopkit.errors import CompilerError
from loopkit.runtime.cuda.binary import FILE_NAME, CudaCompiler, compile_options
from loopkit.runtime.processes import run_quietly
from loopkit.target.cuda import CudaTarget


def find_tool(name: str) -> str | None:
    """The full path of ``nvcc``, ``nvdisasm``, ...; ``None`` if there is none."""
    found = shutil.which(name)
    if found is not None:
        return found
    homes = [os.environ[home] for home in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(home)]
    return shutil.which(name, path=os.pathsep.join(str(Path(home, "bin")) for home in homes)) or _elsewhere(name)


def _elsewhere(name: str) -> str | None:
    """The program's path by NVIDIA's own search: Python and conda packages, and the system's directories."""
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
        return cast("str | None", find_nvidia_binary_utility(name))
    except (ImportError, RuntimeError, ValueError):    # it is not installed, or does not support the name
        return None


@dataclass(frozen=True)
class Nvcc(CudaCompiler):
    """An nvcc that was found."""

    command: str
    version: str
    supported: Sequence[str]
    name: ClassVar[str] = "nvcc"

    def translated(self, source: str, target: CudaTarget, form: str) -> tuple[bytes | None, str]:
        with tempfile.TemporaryDirectory(prefix="loopkit-") as place:
            text, result = Path(place, FILE_NAME), Path(place, "kernel.out")
            text.write_text(source, encoding="utf-8")
            done = run_quietly([self.command, *compile_options(target), f"-{form}", "-o", str(result), str(text)])
            log = (done.stdout + done.stderr).replace(str(text), FILE_NAME)
            return result.read_bytes() if done.returncode == 0 and result.exists() else None, log


def find_nvcc() -> Nvcc | None:
    """The machine's nvcc, if there is one."""
    command = find_tool("nvcc")
    return None if command is None else _probed(command)


@lru_cache(maxsize=8)
def _probed(command: str) -> Nvcc | None:
    said = run_quietly([command, "--version"])
    release = re.search(r"release [\d.]+, V([\d.]+)", said.stdout)
    if said.returncode != 0 or release is None:
        return None
    architectures = re.findall(r"sm_\d+", run_quietly([command, "--list-gpu-code"]).stdout)
    return Nvcc(command, release[1], tuple(sorted(set(architectures), key=lambda arch: int(arch.removeprefix("sm_")))))


def disassembly(cubin: bytes, kernel: str) -> str:
    """The instructions of the function *kernel* in *cubin* (SASS), by ``nvdisasm``, else by ``cuobjdump``.

    :raises CompilerError: neither is installed, it fails, or the function does not exist.
    """
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
