"""The box of elements that a copy of part of an array holds."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.ranges import constant_range, known_sizes
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.poly.affine import add, subtract
from loopkit.poly.footprint import BoxAxis, joined, swept_interval
from loopkit.transform.step import require_fresh


@dataclass(frozen=True)
class Box:
    """The box of a copy: per axis its interval; axes of one element have no iname."""

    intervals: tuple[BoxAxis, ...]
    inames: tuple[str | None, ...]

    def offsets(self, args: Sequence[Expression]) -> tuple[Expression, ...]:
        """Where the element of *args* lies in the copy."""
        return tuple(subtract(a, v.base) for a, v, x in zip(args, self.intervals, self.inames, strict=True)
                     if x is not None)

    def arguments(self) -> tuple[Expression, ...]:
        """The arguments at the point that the inames of the copy name."""
        return tuple(add(v.base, p.Variable(x)) if x is not None else v.base
                     for v, x in zip(self.intervals, self.inames, strict=True))

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(x for x in self.inames if x is not None)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(v.extent for v, x in zip(self.intervals, self.inames, strict=True) if x is not None)

    @property
    def conditions(self) -> list[tuple[str, Expression]]:
        """What holds of the inames of the copy, as of each that it lies in the box."""
        return [condition for x, length in zip(self.dims, self.shape, strict=True)
                for condition in ((">=", p.Variable(x)), ("<", add(p.Variable(x), -length)))]

    def lengthened(self, multiples: Sequence[int]) -> Box:
        """This box, the axes that have inames lengthened at their ends to multiples of these numbers."""
        numbers = iter(multiples)
        return replace(self, intervals=tuple(
            v if x is None else replace(v, extent=-(-v.extent // (by := next(numbers)))*by)
            for v, x in zip(self.intervals, self.inames, strict=True)))


@dataclass(frozen=True)
class Sweep:
    """What a box is asked for.

    :ivar step: the transformation, as in its call; *name* is what it is about.
    :ivar inames: the inames that sweep; *dim_names* the names asked for the inames of the copy.
    """

    step: str
    name: str
    inames: tuple[str, ...]
    dim_names: Sequence[str] | None


Arguments = tuple[Expression, ...]


def box_of(kernel: LoopKernel, sweep: Sweep, uses: Sequence[tuple[Statement, Sequence[Arguments]]],
           outer: tuple[str, ...]) -> Box:
    """The least box that holds all *uses* while the inames of *sweep* run and those of *outer* stand still.

    :raises PreconditionError: there is none of constant size, or too few names.
    """
    found: list[BoxAxis] | None = None
    for s, arguments in uses:
        ranges = _sweep_ranges(kernel, sweep, s, arguments)
        for args in arguments:
            intervals = []
            for axis, a in enumerate(args):
                interval = swept_interval(s.domain, a, outer, ranges, known_sizes(kernel))
                if interval is not None and found is not None:
                    interval = joined(found[axis], interval)
                if interval is None:
                    raise PreconditionError(
                        f"{sweep.step}: what is used along axis {axis} of '{sweep.name}' has no box of constant size.",
                        subject=sweep.name, hint="sweep inames of constant range only (split_iname), or name fewer "
                                                 "statements with within=")
                intervals.append(interval)
            found = intervals
    assert found is not None
    spanned = [k for k, v in enumerate(found) if v.extent > 1]
    names: list[str | None] = [None] * len(found)
    for number, k in enumerate(spanned):
        names[k] = _dim_name(kernel, sweep, number, k)
    return Box(tuple(found), tuple(names))


def _dim_name(kernel: LoopKernel, sweep: Sweep, number: int, axis: int) -> str:
    if sweep.dim_names is None:
        return kernel.fresh_name(f"{sweep.name}_dim_{axis}")
    if number >= len(sweep.dim_names):
        raise PreconditionError(f"{sweep.step} has more axes than names were given ({list(sweep.dim_names)}).",
                                subject=sweep.name)
    require_fresh(kernel, sweep.dim_names[number])
    return sweep.dim_names[number]


def _sweep_ranges(kernel: LoopKernel, sweep: Sweep, s: Statement, arguments: Sequence[Arguments]
                  ) -> dict[str, tuple[int, int]]:
    mentioned = frozenset[str]().union(*(variables(a) for args in arguments for a in args))
    ranges = {}
    for x in sweep.inames:
        if x not in s.inames or x not in mentioned:
            continue
        low, high = constant_range(kernel, s.domain, x)
        if low is None or high is None:
            raise PreconditionError(f"{sweep.step}: '{x}' has no constant range.", subject=x,
                                    hint=f"split_iname(knl, '{x}', 16) and sweep the inner iname")
        ranges[x] = (low, high)
    return ranges
