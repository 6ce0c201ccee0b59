"""The error bound of an output: the precisions of operations, times the operations on the way to an element."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from loopkit.analysis.accesses import accesses_to, analysis_domain, reached
from loopkit.analysis.data_constraints import names_read
from loopkit.expr.kinds import kind_of
from loopkit.expr.mappers import variables
from loopkit.expr.tuples import field_dtypes
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.lowering.types import index_types
from loopkit.poly.sets import fix_params
from loopkit.runtime.precision import Precision, operations_round_to, precision_of, sums_round_to, writes_round_to


@dataclass(frozen=True)
class Accumulation:
    """Roundings one after the other in one output element.

    :ivar place: the reduction or the statement, in words.
    :ivar precision: the precision to which each of them rounds; ``None``: they are exact.
    """

    place: str
    length: int
    precision: Precision | None = None

    def __str__(self) -> str:
        return f"{self.length} in {self.place}"


@dataclass(frozen=True)
class ErrorBound:
    """The allowed error, relative to the largest magnitude of an output's reference.

    Each rounding of the kernel and of the reference counts as one eps of its precision, twice the error of rounding to
    the nearest number. So matrix units, which drop bits, are within the bound. The roundings are those of the
    accumulations, each in its own precision, and a few more in the coarsest precision of the kernel.

    :ivar precision: the coarsest one; ``None``: there are no real numbers. *source*: its origin, in words.
    :ivar parts: the accumulations of the kernel.
    :ivar rtol: the caller's own relative bound, in place of the computed one.
    """

    source: str
    precision: Precision | None
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
        return sum(own.epsilon*count for own, count in self._roundings.items())

    @property
    def _roundings(self) -> dict[Precision, int]:
        """The number of roundings to each precision, the coarsest first."""
        if self.precision is None:
            return {}
        lengths = {self.precision: 0}
        for part in self.parts:
            if part.precision is not None:
                lengths[part.precision] = lengths.get(part.precision, 0) + part.length
        return {own: 8 + 2*max(n, 1) if own == self.precision else 2*n for own, n in lengths.items()}

    def at(self, largest: float) -> float:
        """The allowed error of an output whose reference has the *largest* magnitude.

        Near zero the distance between two numbers does not shrink further: each rounding is off by up to the smallest
        number of its precision.
        """
        floor = sum(own.least*count for own, count in self._roundings.items()) if self.rtol is None else 0.0
        return max(self.relative*largest, floor)

    def text(self, largest: float) -> str:
        """The origin of the bound, in words."""
        if self.rtol is not None:
            return f"rtol {self.rtol:.3g}, times the largest |reference| {largest:.3g}"
        if self.precision is None:
            return "0: integers and truth values are equal or not"
        texts = []
        for own, count in self._roundings.items():
            by = "; ".join(str(part) for part in self.parts if part.precision == own) or (
                "single operations" if len(self._roundings) > 1 else "each element is computed by itself")
            if own == self.precision:
                texts.append(f"eps of {own.name} ({own.epsilon:.3g}, {self.source}), times 8 + 2*{(count - 8)//2} "
                             f"roundings ({by})")
            else:
                texts.append(f"eps of {own.name} ({own.epsilon:.3g}), times 2*{count//2} roundings ({by})")
        text = f"{', and '.join(texts)}, times the largest |reference| {largest:.3g}"
        if self.at(largest) > self.relative*largest:
            least = ", ".join(f"{own.name} {own.least:.3g}" for own in self._roundings)
            text += f"; at least the smallest {least} for each rounding"
        return text


def error_bound(knl: LoopKernel, sizes: Mapping[str, int], rtol: float | None = None) -> ErrorBound:
    """The error bound of the outputs of *knl*, whose dtypes are known, at *sizes*."""
    types, found = index_types(knl), dict[Precision, str]()
    for s in knl.statements:
        for own in writes_round_to(knl, s, types):
            found.setdefault(own, f"the dtype of '{s.written}'")
    for s in knl.statements:
        for own in operations_round_to(knl, s, types):
            found.setdefault(own, f"in '{s.id}'")
    # arrays are named before the statements that compute in their dtype, arguments first
    named = {precision_of(dtype): f"the dtype of '{name}'" for name, dtype in reversed(_floating(knl).items())}
    coarsest = max(found or named, key=lambda own: own.epsilon, default=None)
    source = "" if coarsest is None else named.get(coarsest) or found[coarsest]
    return ErrorBound(source, coarsest, tuple(accumulations(knl, sizes)), rtol)


def _floating(knl: LoopKernel) -> dict[str, np.dtype[Any]]:
    """The real and complex dtypes of the arrays of *knl* and of their fields, by name."""
    dtypes = {name: np.dtype(a.dtype) for data in (knl.array_args, knl.temporaries) for name, a in data.items()
              if a.dtype is not None}
    dtypes |= {f"{name}.{field}": own for name, dtype in dtypes.items() for field, own in field_dtypes(dtype).items()}
    return {name: dtype for name, dtype in dtypes.items() if kind_of(dtype) in "fc"}


# The accumulation length: a bound on the roundings in an output, from all reductions and recurrences

def accumulations(knl: LoopKernel, sizes: Mapping[str, int]) -> list[Accumulation]:
    """The reductions, and the statements that read values that they contribute to.

    The length of a reduction is the product of the extents of its inames. The length of a statement is the product of
    the extents of the inames that its element does not depend on (an accumulation), or the sum of those of all its
    inames (a recurrence). An extent that depends on data counts as the largest of *sizes*.
    """
    found, types = list[Accumulation](), index_types(knl)
    for node in knl.reductions.values():
        updates = [*map(knl.statement, node.updates)]
        length = sum(prod(_extents(knl, update, [x for x in node.inames if x in update.inames], sizes))
                     for update in updates)
        each = [own for s in updates if (own := sums_round_to(knl, s, types)) is not None]
        found.append(Accumulation(f"the {node.operation} over {', '.join(node.inames)} in '{node.final}'", length,
                                  max(each, key=lambda own: own.epsilon, default=None)))
    sources = names_read(knl)
    for statement in knl.statements:
        if statement.id not in knl.reduction_of and statement.written in reached(
                sources[statement.written], lambda name: sources.get(name, ())):
            kept = _kept_inames(knl, statement)
            lengths = _extents(knl, statement, [x for x in statement.inames if x not in (kept or ())], sizes)
            found.append(Accumulation(f"the updates of '{statement.written}' by '{statement.id}'",
                                      sum(lengths) if kept is None else prod(lengths),
                                      sums_round_to(knl, statement, types)))
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
