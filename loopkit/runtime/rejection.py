"""The error for a text that a compiler does not take, with the lines that it means."""
from __future__ import annotations

from loopkit.errors import CompilerError

_MOST_LINES = 40


def rejected(compiler: str, kernel: str, source: str, log: str, line: int | None, *, hint: str) -> CompilerError:
    """The error for kernel *kernel* whose text is *source*.

    :arg compiler: how the sentence calls it.
    :arg log: the compiler's own words.
    :arg line: the line that it means, where it says so.
    """
    said = log.strip().splitlines()[:_MOST_LINES]
    where = ""
    if line is not None:
        where = f" at line {line}"
        said = [*_neighbours(source, line), "", *said]
    return CompilerError(f"{compiler} rejects the code of kernel '{kernel}'{where}.", log="\n".join(said), hint=hint)


def _neighbours(source: str, number: int) -> list[str]:
    """The line *number* of *source* with two lines on either side."""
    lines = source.splitlines()
    first, last = max(number - 3, 0), min(number + 2, len(lines))
    return [f"{'>' if i + 1 == number else ' '} {i + 1:4} | {lines[i]}" for i in range(first, last)]
