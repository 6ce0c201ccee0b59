"""The definition of a kernel, which is made again when a function that it calls changes."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import loopkit as lk
from loopkit.errors import LoopkitError


@dataclass(frozen=True)
class Parts:
    """The parts of a kernel that a program builds step by step; they need to make sense when the kernel is used.

    :ivar iname_tags: tags of inames, as pairs.
    """

    name: str
    domains: Sequence[Any]
    instructions: Sequence[Any]
    args: Sequence[Any]
    temporary_variables: Mapping[str, Any]
    substitutions: Mapping[str, Any]
    iname_tags: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Definition:
    """The text of a kernel, and the steps since it was made.

    :ivar make: makes the kernel of the layer, with the functions that its text calls.
    :ivar calls: the names before parentheses in the text, each with the number of values in them.
    :ivar steps: functions of a kernel of the layer.
    :ivar fault: the reason why the kernel cannot be made without further functions.
    :ivar grow: makes the kernel of the layer from *parts*, which replace those of the text.
    """

    name: str
    make: Callable[[Sequence[lk.ScalarFunction | lk.LoopKernel]], Any]
    calls: Mapping[str, int]
    steps: tuple[Callable[[Any], Any], ...] = ()
    fault: LoopkitError | None = None
    grow: Callable[[Any], Any] | None = None
    parts: Parts | None = None


@dataclass(frozen=True)
class Again:
    """The step *apply* with its arguments, as a function of a kernel."""

    apply: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __call__(self, kernel: Any) -> Any:
        return self.apply(kernel, *self.args, **self.kwargs)
