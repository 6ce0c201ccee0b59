"""loopy's names for the C compiler; loopkit finds and calls the compiler itself."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CCompiler:
    """A C compiler with its options."""

    cc: str = "cc"
    cflags: Any = ()
    ldflags: Any = ()
    libraries: Any = ()
    include_dirs: Any = ()
    library_dirs: Any = ()
    defines: Any = ()
    requires_separate_linkage: bool = False
