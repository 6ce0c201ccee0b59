"""loopy's dtypes where they differ from loopkit's: declared for results, and as casts of operands."""
from __future__ import annotations

import loopkit as lk


def with_loopy_dtypes(core: lk.LoopKernel) -> lk.LoopKernel:
    """*core* with loopy's dtypes."""
    return core
