"""Compiled launches: what a call hands over to them."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from loopkit.expr.evaluate import Evaluator, evaluator
from loopkit.runtime.scalars import integer_range, out_of_range
from loopkit.runtime.views import Array, ArrayLike
from loopkit.target.code import GeneratedKernel, ParameterKind


class ScratchPlan:
    """The temporaries in global memory of a program: allocated for each call, shared by its launches.

    :ivar cleared: those whose bytes are zero when a call begins; they come first.
    """

    def __init__(self, launches: Sequence[GeneratedKernel]) -> None:
        own = [p for launch in launches for p in launch.parameters if p.kind is ParameterKind.SCRATCH]
        found = {p.name: p for p in sorted(own, key=lambda p: not p.cleared)}
        self.cleared = tuple(p.name for p in found.values() if p.cleared)
        self._plans: tuple[tuple[str, np.dtype[Any], tuple[Evaluator, ...]], ...] = tuple(
            (p.name, np.dtype(p.dtype), tuple(evaluator(e) for e in p.shape)) for p in found.values())
        self._bytes = {p.name: p.element_bytes for p in found.values()}

    def byte_counts(self, values: dict[str, Any]) -> dict[str, int]:
        """How large each temporary is under the sizes *values*, one element at least."""
        shapes = self.shapes(values)
        return {name: max(prod(shapes[name]), 1) * self._bytes[name] for name, _, _ in self._plans}

    def shapes(self, values: dict[str, Any]) -> dict[str, tuple[int, ...]]:
        """The shape of each temporary under the sizes *values*."""
        return {name: tuple(max(f(values), 0) for f in extents) for name, _, extents in self._plans}

    def makers(self, values: dict[str, Any]) -> dict[str, Callable[[], Array]]:
        """What makes each temporary in the host's memory under the sizes *values*."""
        shapes = self.shapes(values)
        return {name: partial(np.empty, shapes[name], dtype) for name, dtype, _ in self._plans}


@dataclass(frozen=True)
class IntegerLimit:
    """The range of an integer parameter in one text, which may be narrower than the argument's."""

    name: str
    dtype: np.dtype[Any]
    low: int
    high: int


def integer_limits(launches: Sequence[GeneratedKernel]) -> tuple[IntegerLimit, ...]:
    """The ranges of all integers that *launches* take by value."""
    found = {p.name: np.dtype(p.dtype) for launch in launches for p in launch.parameters
             if p.kind is ParameterKind.VALUE and np.dtype(p.dtype).kind in "iu"}
    return tuple(IntegerLimit(name, dtype, *integer_range(dtype)) for name, dtype in found.items())


def require_in_range(limits: Sequence[IntegerLimit], values: dict[str, Any]) -> None:
    """:raises CallError: a value that the text's parameter cannot hold."""
    for limit in limits:
        if not limit.low <= values[limit.name] <= limit.high:
            raise out_of_range(limit.name, values[limit.name], limit.dtype)


def host_inames(launches: Sequence[GeneratedKernel]) -> tuple[str, ...]:
    """The inames of the host's loops whose values *launches* take."""
    return tuple(dict.fromkeys(p.name for launch in launches for p in launch.parameters
                               if p.kind is ParameterKind.HOST))


def stride(array: ArrayLike, axis: int) -> int:
    """The stride along *axis* in elements; 0 where there is only one, whose stride numpy leaves open."""
    return array.strides[axis] // array.itemsize if array.shape[axis] > 1 else 0
