"""The steps that made a kernel, as a value."""
from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from loopkit.expr.kinds import BFLOAT16, spelled
from loopkit.kernel.tags import InameTag


@dataclass(frozen=True)
class HistoryStep:
    """One transformation: its name, its arguments and the verdict on it.

    :ivar verdict: ``"structural"`` where nothing was reordered, ``"proven"``, ``"assumed"`` or ``"unsafe"``.
    :ivar seconds: how long it took; outside equality and hash.
    """

    name: str
    args: tuple[object, ...]
    kwargs: tuple[tuple[str, object], ...]
    verdict: str = "structural"
    seconds: float = field(default=0.0, compare=False)

    def __str__(self) -> str:
        shown = ["knl", *map(_literal, self.args), *(f"{k}={_literal(v)}" for k, v in self.kwargs)]
        return f"knl = lk.{self.name}({', '.join(shown)})"


def _literal(value: object) -> str:
    """*value* as Python text that makes it again, in a script with ``import numpy as np, loopkit as lk``."""
    match value:
        case np.dtype():
            return spelled(value)
        case type() if issubclass(value, np.generic):
            return repr(BFLOAT16) if value.__name__ == BFLOAT16 else f"np.{value.__name__}"
        case dict():
            return "{" + ", ".join(f"{_literal(k)}: {_literal(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_literal, value)) + "]"
        case tuple():
            return "(" + ", ".join(map(_literal, value)) + ("," if len(value) == 1 else "") + ")"
        case InameTag() | Enum():
            return repr(str(value))
        case _:
            return repr(value)
