"""Running other programs; what all compilers share: the text shown to the user, the error if it is rejected."""
from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from loopkit.errors import CompilerError

_TIMEOUT = 300
_MOST_LINES = 40


def run_quietly(command: Sequence[str], timeout: float = _TIMEOUT) -> subprocess.CompletedProcess[str]:
    """Run *command* with messages in English; a start that fails, or more than *timeout* seconds, is an exit status."""
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout, check=False,
                              stdin=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"})
    except (subprocess.TimeoutExpired, OSError) as err:
        output = getattr(err, "stdout", None) or ""
        text = output if isinstance(output, str) else output.decode(errors="replace")
        return subprocess.CompletedProcess(command, 127, text, str(err))


def translated(command: Sequence[str], source: str, name: str, libraries: Sequence[str] = ()
               ) -> tuple[bytes | None, str]:
    """The file that a compiler makes of *source*, or ``None``, and the log, in which the text is called *name*."""
    with tempfile.TemporaryDirectory(prefix="loopkit-") as place:
        text, result = Path(place, name), Path(place, "kernel.so")
        text.write_text(source, encoding="utf-8")
        done = run_quietly([*command, "-o", str(result), str(text), *libraries])
        log = (done.stdout + done.stderr).replace(str(text), name)
        return result.read_bytes() if done.returncode == 0 and result.exists() else None, log


def rejected(compiler: str, kernel: str, source: str, log: str, error: str, *, hint: str) -> CompilerError:
    """The error for kernel *kernel* whose text is *source*.

    :arg error: a pattern of the log's first error, with a group for the number of its line.
    """
    lines, where = log.strip().splitlines()[:_MOST_LINES], ""
    found = re.search(error, log)
    if found is not None:
        line = int(found[found.lastindex or 0])
        where = f" at line {line}"
        text = source.splitlines()
        near = range(max(line - 3, 0), min(line + 2, len(text)))
        lines = [*(f"{'>' if i + 1 == line else ' '} {i + 1:4} | {text[i]}" for i in near), "", *lines]
    return CompilerError(f"{compiler} rejects the code of kernel '{kernel}'{where}.", log="\n".join(lines), hint=hint)


def dump(source: str, kernel: str, suffix: str) -> None:
    """Write a text before its compilation to ``$LOOPKIT_DUMP``, if that is set."""
    directory = os.environ.get("LOOPKIT_DUMP")
    if directory:
        place = Path(directory)
        digest = hashlib.sha256(source.encode()).hexdigest()[:12]
        try:
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{kernel}-{digest}{suffix}").write_text(source)
        except OSError as err:
            raise CompilerError(f"The text of kernel '{kernel}' cannot be written to $LOOPKIT_DUMP: {err}.",
                                hint="set it to a directory that can be written, or unset it") from None


@lru_cache(maxsize=1)
def version() -> str:
    """The installed version of loopkit."""
    try:
        return metadata.version("loopkit")
    except metadata.PackageNotFoundError:
        return "unknown"
