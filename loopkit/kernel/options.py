"""Options of a kernel: what may vary in its text without changing its meaning."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """Choices of code generation; see :func:`loopkit.set_options`.

    :ivar full_tiles: emit a version without guards beside the generic one where whole tiles exist.
    :ivar annotate: put statement ids and the dependence that each barrier serves into comments.
    :ivar textual_unroll: write ``unr`` loops out instead of ``#pragma unroll``.
    """

    full_tiles: bool = True
    annotate: bool = True
    textual_unroll: bool = False
