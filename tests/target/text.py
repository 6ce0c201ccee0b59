"""Lines of generated text, for specifications."""
from __future__ import annotations

import loopkit as lk


def cuda_text(knl: lk.LoopKernel) -> str:
    return str(lk.generate_code(knl, target="cuda", verify=False))


def lines_with(knl: lk.LoopKernel, part: str) -> list[str]:
    """The lines of the CUDA text that hold *part*, each once, without indentation."""
    return list(dict.fromkeys(line.strip() for line in cuda_text(knl).split("\n") if part in line))
