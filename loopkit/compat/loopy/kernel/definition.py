"""The definition of a kernel, which is made again when a function that it calls changes."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import loopkit as lk
from loopkit.compat.loopy.order import Item
from loopkit.errors import LoopkitError


@dataclass(frozen=True)
class Definition:
    """The text of a kernel, and the steps since it was made.

    :ivar make: makes the kernel of the layer, with the functions that its text calls.
    :ivar calls: the names before parentheses in the text, each with the number of values in them.
    :ivar steps: functions of a kernel of the layer.
    :ivar fault: the reason why the kernel cannot be made without further functions.
    :ivar items: the statements of the text with their dependences.
    """

    name: str
    make: Callable[[Sequence[lk.ScalarFunction | lk.LoopKernel]], Any]
    calls: Mapping[str, int]
    steps: tuple[Callable[[Any], Any], ...] = ()
    fault: LoopkitError | None = None
    items: tuple[Item, ...] = ()

    @property
    def dependences(self) -> Mapping[str, frozenset[str]]:
        """For each statement and marker of the text those that run before it."""
        return {item.id: item.after for item in self.items}

    @property
    def barriers(self) -> frozenset[str]:
        """The ids of the global barriers."""
        return frozenset(item.id for item in self.items if item.text == "... gbarrier")


@dataclass(frozen=True)
class Again:
    """The step *apply* with its arguments, as a function of a kernel."""

    apply: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __call__(self, kernel: Any) -> Any:
        return self.apply(kernel, *self.args, **self.kwargs)
