"""Golden files: texts that are read in a diff and change only on purpose."""
from __future__ import annotations

import difflib
import itertools
from dataclasses import dataclass
from pathlib import Path

import pytest

#: More lines of a difference than anybody reads in a test's output.
SHOWN_LINES = 200


@dataclass(frozen=True)
class GoldenFiles:
    """The files of *directory*, compared with or (*update*) rewritten."""

    directory: Path
    update: bool = False

    def check(self, name: str, text: object) -> None:
        """Fail unless ``str(text)`` is what the file *name* holds."""
        __tracebackhide__ = True
        new = str(text).rstrip("\n") + "\n"
        path = self.directory / name
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_text(encoding="utf-8") != new:
                path.write_text(new, encoding="utf-8", newline="\n")
            return
        if not path.exists():
            pytest.fail(f"there is no golden file {name} yet: run pytest --update-golden, then read it", pytrace=False)
        old = path.read_text(encoding="utf-8")
        if old != new:
            difference = difflib.unified_diff(old.splitlines(), new.splitlines(), f"golden/{name}", "now", lineterm="")
            shown = "\n".join(itertools.islice(difference, SHOWN_LINES))
            pytest.fail(f"{name} has changed; if that is meant, run pytest --update-golden\n{shown}", pytrace=False)
