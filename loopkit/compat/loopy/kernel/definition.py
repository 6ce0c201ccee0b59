"""The definition of a kernel, which is made again when a function that it calls changes."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import loopkit as lk
from loopkit.compat.loopy.order import Order
from loopkit.errors import LoopkitError


@dataclass(frozen=True)
class Definition:
    """The text of a kernel, and the steps since it was made.

    :ivar make: makes the kernel of the layer, with the functions that its text calls.
    :ivar calls: the names before parentheses in the text, each with the number of values in them.
    :ivar steps: functions of a kernel of the layer.
    :ivar fault: the reason why the kernel cannot be made without further functions.
    """

    name: str
    make: Callable[[Sequence[lk.ScalarFunction | lk.LoopKernel]], Any]
    calls: Mapping[str, int]
    steps: tuple[Callable[[Any], Any], ...] = ()
    fault: LoopkitError | None = None


@dataclass(frozen=True)
class Origin:
    """The facts about the text of a kernel that outlive its steps.

    :ivar functions: those with which the kernel was made.
    :ivar order: loopy's relation between the statements.
    """

    functions: tuple[lk.ScalarFunction | lk.LoopKernel, ...] = ()
    order: Order = field(default_factory=Order)


@dataclass(frozen=True)
class Again:
    """The step *apply* with its arguments, as a function of a kernel."""

    apply: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __call__(self, kernel: Any) -> Any:
        return self.apply(kernel, *self.args, **self.kwargs)
