"""Golden files of generated code: a test fails with the difference if the code of a kernel changes."""
from __future__ import annotations

import difflib
import os
from os import PathLike
from pathlib import Path

from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.target import Target
from loopkit.verification.checks import generate_code

#: The environment variable for writing new files; pytest's ``--update-golden`` sets it (loopkit.show.pytest_plugin).
UPDATE = "LOOPKIT_UPDATE_GOLDEN"

#: The most lines of a difference in a message.
SHOWN_LINES = 200


def assert_golden(knl: LoopKernel, path: str | PathLike[str], *, target: str | Target = "cuda",
                  update: bool | None = None) -> None:
    """Compare the generated code of *knl* with the golden file *path*, in a test.

    ``pytest --update-golden`` writes the files instead. Version control then shows their changes. Trailing empty
    lines do not count.

    :arg path: the file; a relative path starts at the current directory. ``Path(__file__).parent / "golden" /
        "axpy.cu"`` is beside the test.
    :arg target: as for :func:`loopkit.generate_code`.
    :arg update: ``True``: write the file; ``False``: compare; ``None``: write if pytest has the option.
    :raises AssertionError: the code differs from the file, or there is no file; with the difference.
    :raises LoopkitError: the errors of :func:`loopkit.generate_code`.

    >>> import tempfile
    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="twice")
    >>> knl = lk.add_dtypes(knl, {"x": np.float32})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lk.assert_golden(knl, f"{folder}/twice.c", target="c", update=True)
    ...     lk.assert_golden(knl, f"{folder}/twice.c", target="c")
    """
    __tracebackhide__ = True
    code = generate_code(knl, target)
    require_golden(str(code), Path(path), f"The {code.target} code of kernel '{knl.name}'",
                   update=UPDATE in os.environ if update is None else update)


def require_golden(text: str, path: Path, what: str, *, update: bool) -> None:
    """Compare *text*, which is *what*, with the file *path*; with *update* write the file if it differs.

    :raises AssertionError: the text differs from the file, or there is no file.
    """
    __tracebackhide__ = True
    new = text.rstrip("\n") + "\n"
    old = path.read_text(encoding="utf-8") if path.exists() else None
    if old == new:
        return
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(new, encoding="utf-8", newline="\n")
    elif old is None:
        raise AssertionError(f"{what} has no golden file {path} yet.\n"
                             "  hint: run pytest --update-golden, then read the file")
    else:
        lines = [*difflib.unified_diff(old.splitlines(), new.splitlines(), str(path), "now", lineterm="")]
        more = len(lines) - SHOWN_LINES
        shown = "\n".join([*lines[:SHOWN_LINES], *([f"... and {more} more lines"] if more > 0 else [])])
        raise AssertionError(f"{what} differs from the golden file {path}.\n{shown}\n"
                             "  hint: run pytest --update-golden if the change is meant, then read the file's diff")
