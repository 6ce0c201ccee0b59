"""The comparison of two runs: the worst element of each output, where the wrong elements lie, and the report."""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any

import numpy as np

from loopkit.errors import EquivalenceError, cell_text
from loopkit.expr.kinds import is_narrow, is_tuple, kind_of
from loopkit.expr.tuples import field_names
from loopkit.runtime.precision import ulp
from loopkit.runtime.rounding import ErrorBound
from loopkit.runtime.views import NumpyArray
from loopkit.shown import Shown

#: Most wrong elements that an error lists beside the worst one.
_MOST_LISTED = 5

#: The kinds of numbers, each of which holds those before it.
_RANKS = "biufc"


#: The origin of the bound of an output that has nothing to compare.
NO_NUMBERS = "0: all elements of the reference are NaN or infinite"


@dataclass(frozen=True, repr=False)
class OutputComparison(Shown):
    """One output of the two runs: its worst element.

    :ivar index: the element with the largest error; ``()`` for an output without axes or elements.
    :ivar got: the value of the kernel there, and *expected*: that of the reference; ``None``: there are no elements.
    :ivar error: the distance of the two; 0 if all elements are equal.
    :ivar ulps: the distance in units in the last place of the larger value, in the output's dtype; ``None`` for
        integers.
    :ivar bound: the allowed error, and *origin*: where it comes from, in words.
    """

    name: str
    error: float
    bound: float
    index: tuple[int, ...]
    got: Any = None
    expected: Any = None
    ulps: float | None = None
    origin: str = ""

    def __str__(self) -> str:
        return f"{self.name}: largest error {self.error:.3g}, allowed {self.bound:.3g}"


@dataclass(frozen=True, repr=False)
class EquivalenceRun(Shown):
    """One run of a kernel and its reference.

    :ivar sizes: the values of the integer arguments; *data*: the kind of the data.
    :ivar length: the number of operations in the error bound.
    """

    sizes: Mapping[str, int]
    data: str
    outputs: tuple[OutputComparison, ...]
    length: int

    def __str__(self) -> str:
        return f"{run_text(self.sizes, self.data)}: {'; '.join(map(str, self.outputs))}"


@dataclass(frozen=True, repr=False)
class EquivalenceReport(Shown):
    """The result of :func:`check_equivalent`: all runs, with the worst element of each output.

    :ivar kernel: the name of the compared kernel.
    :ivar reference: the call of the reference function, or the name of the reference kernel.
    """

    kernel: str
    reference: str
    runs: tuple[EquivalenceRun, ...]
    seed: int

    @property
    def outputs(self) -> tuple[OutputComparison, ...]:
        """Each output in the run in which its error is the largest part of the bound."""
        return tuple(max(same, key=lambda o: (o.error/o.bound if o.bound else 0.0, o.got is not None,
                                              o.origin != NO_NUMBERS))
                     for same in zip(*(run.outputs for run in reversed(self.runs)), strict=True))

    @property
    def error(self) -> float:
        """The largest error of all outputs in all runs."""
        return max((o.error for run in self.runs for o in run.outputs), default=0.0)

    @property
    def length(self) -> int:
        """The largest number of operations in an error bound."""
        return max(run.length for run in self.runs)

    @property
    def headline(self) -> str:
        several = f" (worst of {len(self.runs)} runs)" if len(self.runs) > 1 else ""
        return "; ".join(map(str, self.outputs)) + several


def run_text(sizes: Mapping[str, int], data: str) -> str:
    """The sizes and the data of a run, in words."""
    return ", ".join([*(f"{name} = {size}" for name, size in sizes.items()), f"data: {data}"])


def parts(name: str, got: NumpyArray, expected: NumpyArray, before: NumpyArray | None
          ) -> Iterator[tuple[str, NumpyArray, NumpyArray, NumpyArray | None]]:
    """The arguments of :func:`compared` for an output: for each field, if its elements are tuples of the same fields.

    >>> both = np.zeros(3, [("value", "f4"), ("index", "i4")])
    >>> [name for name, *_ in parts("y", both, both, None)]
    ['y.value', 'y.index']
    """
    if not is_tuple(got.dtype) or got.dtype != expected.dtype:
        yield name, got, expected, before
    else:
        for field in field_names(got.dtype):
            yield f"{name}.{field}", got[field], expected[field], None if before is None else before[field]


def compared(name: str, got: NumpyArray, expected: NumpyArray, bound: ErrorBound,
             tiles: Sequence[Collection[int]], context: Sequence[str] = (), before: NumpyArray | None = None
             ) -> OutputComparison:
    """The worst element of one output.

    :arg tiles: for each axis, the lengths of tiles in the kernel.
    :arg context: lines about the run, for the error.
    :arg before: the output before the call; ``None``: the call allocated it.
    :raises EquivalenceError: the output has another shape or dtype than *expected*, or an error is above the bound.
    """
    _require_alike(name, got, expected, context)
    if got.size == 0:
        return OutputComparison(name, 0.0, 0.0, ())
    largest = _largest_magnitude(expected)
    floating = kind_of(got.dtype) in "fc"
    allowed = bound.at(largest) if floating else 0.0
    distance = _distance(_computable(got), _computable(expected))
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(distance)), distance.shape))
    error = float(distance[index])
    found = OutputComparison(
        name, error, allowed, index, got[index], expected[index],
        _ulps(error, (got[index], expected[index]), got.dtype) if floating else None,
        bound.text(largest) if floating else "0: integers and truth values are equal or not")
    if error > allowed:
        unwritten = [] if before is None else _unwritten_note(got, before, distance > allowed)
        raise _difference(found, distance, got.dtype, tiles, [*context, *unwritten])
    return found if np.isfinite(_computable(expected)).any() else replace(found, bound=0.0, origin=NO_NUMBERS)


def _require_alike(name: str, got: NumpyArray, expected: NumpyArray, context: Sequence[str]) -> None:
    """:raises EquivalenceError: *expected* has another shape, or numbers that the dtype of *got* cannot hold."""
    found: object = got.shape
    right: object = expected.shape
    sentence = f"'{name}' has the shape {found}, and the reference's is {right}."
    if found == right:
        found, right = got.dtype, expected.dtype
        sentence = f"'{name}' is of dtype {found}, and the reference's is {right}."
        own, other = (_RANKS.find(kind_of(x.dtype)) for x in (got, expected))
        # truth values may be compared with the integers 0 and 1; tuples have no rank
        if -1 < other <= max(own, _RANKS.index("u")) and own > -1:
            return
    raise EquivalenceError(sentence, output=name, index=(), got=found, expected=right, error=inf, bound=0.0,
                           notes=context)


def _computable(array: NumpyArray) -> NumpyArray:
    """Halves as float32: ml_dtypes warns about each NaN."""
    return array.astype(np.float32) if is_narrow(array.dtype) else array


def _largest_magnitude(expected: NumpyArray) -> float:
    """The largest finite magnitude."""
    magnitudes = np.abs(_computable(expected)) if kind_of(expected.dtype) in "fc" else expected.astype(np.float64)
    return float(np.max(np.abs(magnitudes), initial=0, where=np.isfinite(magnitudes)))


def _distance(got: NumpyArray, expected: NumpyArray) -> NumpyArray:
    """Elementwise ``|got - expected|``; infinite if only one is NaN, or if infinities differ."""
    # languages and libraries differ in the parts of complex numbers that are not finite
    is_special = (lambda x: ~np.isfinite(x)) if "c" in (got.dtype.kind, expected.dtype.kind) else np.isnan
    same = (got == expected) | (is_special(got) & is_special(expected))
    if got.dtype.kind in "fc" or expected.dtype.kind in "fc":
        wide = np.result_type(got.dtype, expected.dtype, np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            difference = np.abs(got.astype(wide) - expected.astype(wide))
    else:
        # Python's integers: no difference of two int64 or uint64 wraps around to a small one
        difference = np.abs(got.astype(object) - expected.astype(object)).astype(np.float64)
    return np.where(same, 0.0, np.where(np.isfinite(difference), difference, np.inf))


def _ulps(error: float, values: Sequence[Any], dtype: np.dtype[Any]) -> float:
    """*error* in units in the last place of the larger one of *values*; infinite if one of different two is."""
    unit = ulp(max(float(np.abs(value)) for value in values), dtype) if error else 1.0
    return error/unit if isfinite(unit) else inf


# The error

def _difference(found: OutputComparison, distance: NumpyArray, dtype: np.dtype[Any],
                tiles: Sequence[Collection[int]], context: Sequence[str]) -> EquivalenceError:
    """The error for the worst element *found*, with the place of all wrong elements."""
    wrong = np.argwhere(distance > found.bound)
    order = np.argsort(-distance[tuple(wrong.T)], kind="stable") if wrong.shape[1] else [0]
    indices = [tuple(int(i) for i in wrong[k]) for k in order[:1 + _MOST_LISTED]]
    box = tuple((int(low), int(high)) for low, high in zip(wrong.min(axis=0), wrong.max(axis=0), strict=True))
    notes = list(context)
    if found.ulps is not None and isfinite(found.ulps):
        notes.append(f"the error is {found.ulps:.3g} ulps of {dtype}")
    notes.append(f"the bound is {found.origin}")
    if len(wrong) < distance.size:
        notes += _where_wrong(found.name, wrong, box, distance.shape, tiles)
    if indices[1:]:
        notes.append(f"other wrong elements: {', '.join(cell_text(found.name, x) for x in indices[1:])}"
                     f"{', ...' if len(wrong) > len(indices) else ''}")
    return EquivalenceError(
        f"{cell_text(found.name, found.index)} is {found.got} and should be {found.expected}: the error "
        f"{found.error:.3g} is above the bound {found.bound:.3g} ({len(wrong)} of {distance.size} elements are).",
        output=found.name, index=found.index, got=found.got, expected=found.expected, error=found.error,
        bound=found.bound, ulps=found.ulps, wrong=indices, box=box, notes=notes)


def _unwritten_note(got: NumpyArray, before: NumpyArray, wrong: NumpyArray) -> Sequence[str]:
    """That the elements which are *wrong* are as *before* the call, if they are."""
    if not np.array_equal(got[wrong], before[wrong]):
        return ()
    return ["the wrong elements have the values from before the call: the kernel may not write them"]


def _where_wrong(name: str, wrong: NumpyArray, box: Sequence[tuple[int, int]], shape: Sequence[int],
                 tiles: Sequence[Collection[int]]) -> Iterator[str]:
    """The box of the wrong elements, and how it lies in the tiles of each axis."""
    ranges = [str(low) if low == high else f"{low}..{high}" for low, high in box]
    places = [f"axis {axis}: {place}" for axis, lengths in enumerate(tiles[:len(shape)])
              if (place := _place_in_tiles(wrong[:, axis], shape[axis], lengths))]
    if len(wrong) > 1:
        yield f"all wrong elements lie in {name}[{', '.join(ranges)}]{''.join(f'; {x}' for x in places)}"
    elif places:
        yield "; ".join(places)


def _place_in_tiles(values: NumpyArray, extent: int, lengths: Collection[int]) -> str:
    """The part of the tiles of an axis that has all of *values*; empty if none is known."""
    for length in sorted(lengths, reverse=True):
        within = values % length
        start = extent//length*length
        if start < extent and extent > length and values.min() >= start:
            return f"the last, partial tile of {length} ({start}..{extent - 1})"
        if values.min() < values.max() and within.min() == within.max() and within[0] in (0, length - 1):
            return f"the {'last' if within[0] else 'first'} element of tiles of {length}"
    return ""
