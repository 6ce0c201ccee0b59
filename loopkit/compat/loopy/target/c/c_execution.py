"""loopy's names for the C compiler; loopkit finds and calls the compiler itself."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CCompiler:
    """A C compiler with its options.

    :ivar cc: its command; default: the compiler that loopkit finds. loopkit chooses the flags by itself.
    """

    cc: str | None = None
    cflags: Any = ()
    ldflags: Any = ()
    libraries: Any = ()
    include_dirs: Any = ()
    library_dirs: Any = ()
    defines: Any = ()
    requires_separate_linkage: bool = False

    @property
    def command(self) -> str | None:
        """The command that the user chose."""
        return self.cc
