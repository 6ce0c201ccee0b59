"""Golden files: texts that are read in a diff and change only on purpose."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loopkit.show.golden import require_golden


@dataclass(frozen=True)
class GoldenFiles:
    """The files of *directory*, compared with or (*update*) rewritten."""

    directory: Path
    update: bool = False

    def check(self, name: str, text: object) -> None:
        """Fail unless ``str(text)`` is what the file *name* holds."""
        __tracebackhide__ = True
        require_golden(str(text), self.directory / name, name, update=self.update)
