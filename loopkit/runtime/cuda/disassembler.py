"""Machine code as text, by a program of the CUDA toolkit."""
from __future__ import annotations

import re
import tempfile
from pathlib import Path

from loopkit.errors import CompilerError
from loopkit.runtime.cuda.tools import find_tool
from loopkit.runtime.processes import run_quietly


def disassembly(cubin: bytes, kernel: str) -> str:
    """The instructions of the function *kernel* in *cubin* (SASS), by ``nvdisasm``, else by ``cuobjdump``.

    :raises CompilerError: there is neither, it fails, or there is no such function.
    """
    # cuobjdump runs nvdisasm, so that nvdisasm alone is enough
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
