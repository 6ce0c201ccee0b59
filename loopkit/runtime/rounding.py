"""The error bound of an output: the rounding of a dtype, times the operations on the way to an element."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import frexp, inf, isfinite, ldexp, prod
from typing import Any

import numpy as np

from loopkit.analysis.accesses import accesses_to, analysis_domain, reached
from loopkit.analysis.data_constraints import names_read
from loopkit.expr.kinds import epsilon, kind_of, smallest_normal
from loopkit.expr.mappers import variables
from loopkit.expr.tuples import field_dtypes
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.poly.sets import fix_params


@dataclass(frozen=True)
class Accumulation:
    """Roundings one after the other in one output element.

    :ivar place: the reduction or the statement, in words.
    """

    place: str
    length: int

    def __str__(self) -> str:
        return f"{self.length} in {self.place}"


@dataclass(frozen=True)
class ErrorBound:
    """The allowed error, relative to the largest magnitude of an output's reference.

    :ivar array: the argument or temporary of the coarsest floating-point dtype; *dtype*: that; ``None``: there is none.
    :ivar parts: the accumulations of the kernel.
    :ivar rtol: the caller's own relative bound, in place of the computed one.
    """

    array: str
    dtype: np.dtype[Any] | None
    parts: tuple[Accumulation, ...]
    rtol: float | None = None

    @property
    def length(self) -> int:
        """The accumulation length: the operations on the way to an element, up to a constant."""
        return max(sum(part.length for part in self.parts), 1)

    @property
    def relative(self) -> float:
        """The allowed error over the largest magnitude."""
        if self.rtol is not None:
            return self.rtol
        return 0.0 if self.dtype is None else epsilon(self.dtype)*self._roundings

    @property
    def _roundings(self) -> int:
        return 8 + 2*self.length

    def at(self, largest: float) -> float:
        """The allowed error of an output whose reference has the *largest* magnitude.

        Near zero the distance between two numbers does not shrink further: each rounding is off by up to the smallest
        number of the dtype.
        """
        floor = 0.0 if self.dtype is None or self.rtol is not None else self._roundings*ulp(0.0, self.dtype)
        return max(self.relative*largest, floor)

    def text(self, largest: float) -> str:
        """The origin of the bound, in words."""
        if self.rtol is not None:
            return f"rtol {self.rtol:.3g}, times the largest |reference| {largest:.3g}"
        if self.dtype is None:
            return "0: integers and truth values are equal or not"
        by = "; ".join(map(str, self.parts)) or "each element is computed by itself"
        text = (f"eps of {self.dtype} ({epsilon(self.dtype):.3g}, the dtype of '{self.array}'), times "
                f"8 + 2*{self.length} roundings ({by}), times the largest |reference| {largest:.3g}")
        if self.at(largest) > self.relative*largest:
            text += f"; at least the smallest {self.dtype} {ulp(0.0, self.dtype):.3g} for each rounding"
        return text


def error_bound(knl: LoopKernel, sizes: Mapping[str, int], rtol: float | None = None) -> ErrorBound:
    """The error bound of the outputs of *knl*, whose dtypes are known, at *sizes*."""
    dtypes = {name: np.dtype(a.dtype) for data in (knl.array_args, knl.temporaries) for name, a in data.items()
              if a.dtype is not None}
    dtypes |= {f"{name}.{field}": own for name, dtype in dtypes.items() for field, own in field_dtypes(dtype).items()}
    floating = {name: dtype for name, dtype in dtypes.items() if kind_of(dtype) in "fc"}
    coarsest = max(floating, key=lambda name: epsilon(floating[name]), default="")
    return ErrorBound(coarsest, floating.get(coarsest), tuple(accumulations(knl, sizes)), rtol)


def ulp(value: float, dtype: np.dtype[Any]) -> float:
    """The distance from ``|value|`` to the next larger number of a real or complex *dtype*.

    >>> ulp(1.0, np.dtype(np.float32)), ulp(-6.0, np.dtype(np.float16))
    (1.1920928955078125e-07, 0.00390625)
    """
    if not isfinite(value):
        return inf
    lowest = frexp(smallest_normal(dtype))[1]
    return ldexp(epsilon(dtype), max(frexp(value)[1] if value else lowest, lowest) - 1)


# The accumulation length: a bound on the roundings in an output, from all reductions and recurrences

def accumulations(knl: LoopKernel, sizes: Mapping[str, int]) -> list[Accumulation]:
    """The reductions, and the statements that read values that they contribute to.

    The length of a reduction is the product of the extents of its inames. The length of a statement is the product of
    the extents of the inames that its element does not depend on (an accumulation), or the sum of those of all its
    inames (a recurrence). An extent that depends on data counts as the largest of *sizes*.
    """
    found = []
    for node in knl.reductions.values():
        length = sum(prod(_extents(knl, update, [x for x in node.inames if x in update.inames], sizes))
                     for update in map(knl.statement, node.updates))
        found.append(Accumulation(f"the {node.operation} over {', '.join(node.inames)} in '{node.final}'", length))
    sources = names_read(knl)
    for statement in knl.statements:
        if statement.id not in knl.reduction_of and statement.written in reached(
                sources[statement.written], lambda name: sources.get(name, ())):
            kept = _kept_inames(knl, statement)
            lengths = _extents(knl, statement, [x for x in statement.inames if x not in (kept or ())], sizes)
            found.append(Accumulation(f"the updates of '{statement.written}' by '{statement.id}'",
                                      sum(lengths) if kept is None else prod(lengths)))
    return found


def _extents(knl: LoopKernel, statement: Statement, inames: Sequence[str], sizes: Mapping[str, int]) -> list[int]:
    domain = analysis_domain(knl, statement)
    fixed = domain.named(fix_params(domain.set, sizes))
    return [0 if fixed.is_empty() else max(sizes.values(), default=1) if low is None or high is None else high - low + 1
            for low, high in map(fixed.constant_range, inames)]


def _kept_inames(knl: LoopKernel, statement: Statement) -> frozenset[str] | None:
    """The inames of the element that *statement* accumulates into; ``None`` where it reads another element."""
    reads, [written] = (accesses_to(knl, statement.id, statement.written, is_write=kind) for kind in (False, True))
    if not reads or any(a.subscripts != written.subscripts for a in reads):
        return None
    return frozenset(name for s in written.subscripts for name in variables(s))
