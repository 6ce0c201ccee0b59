"""Thread distribution: ``l.auto`` boxes as axes of the block and rounds."""
from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from loopkit.analysis.constructors import reordered
from loopkit.analysis.legality import axis_inames, iname_extent, iname_range
from loopkit.analysis.strides import fastest_last
from loopkit.errors import PreconditionError
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import AutoLocalTag, InameTag, LocalTag, UnrollTag
from loopkit.transform.iname import split_into
from loopkit.transform.tags import tagged
from loopkit.transform.trees import ordered


@dataclass(frozen=True)
class _Digit:
    """A part of an iname in mixed radix: its number of values, and the axis of the block or ``None`` for rounds."""

    extent: int
    axis: int | None


def distribute_over_threads(kernel: LoopKernel, copies: Sequence[str], users: Collection[str], step: str, *,
                            assume: str | None, unsafe: bool) -> LoopKernel:
    """*kernel* where the ``l.auto`` inames of *copies* are split into inames on the axes of the block and rounds.

    The threads are those of *users*; without such threads, loops over the inames remain. Neighbouring threads take
    neighbouring points along the iname with the smallest stride in the loaded array, or else along the last iname.
    Lowering distributes boxes in the same way.
    """
    block = _block(kernel, users)
    for c in copies:
        s = kernel.statement_by_id[c]
        auto = fastest_last(kernel, s.expression,
                            [x for x in s.inames if isinstance(kernel.tags.get(x), AutoLocalTag)])
        # parts of several inames on one axis are packed as their loops nest
        kernel = reordered(kernel, ordered(kernel.tree, auto),
                           tags={x: t for x, t in kernel.tags.items() if x not in auto})
        for x, digits in _digits(kernel, auto, block) if block else ():
            kernel = _with_digits(kernel, x, digits, step, assume, unsafe)
    return kernel


def _block(kernel: LoopKernel, users: Collection[str]) -> dict[int, int]:
    """The number of threads along each axis of the block."""
    result: dict[int, int] = {}
    for s in kernel.statements:
        for axis, inames in axis_inames(kernel, s.inames, LocalTag).items() if s.id in users else ():
            extents = [iname_extent(kernel, x) for x in inames]
            known = [e for e in extents if isinstance(e, int)]
            if len(known) == len(extents):
                result[axis] = max(result.get(axis, 1), prod(known))
    return dict(sorted(result.items()))


def _digits(kernel: LoopKernel, inames: Sequence[str], block: dict[int, int]) -> Iterator[tuple[str, list[_Digit]]]:
    """Each iname as digits, the first outermost: the fastest iname first, over the first axes of the block first."""
    axes = [[axis, extent] for axis, extent in block.items() if extent > 1]
    for x in reversed(inames):
        extent = iname_range(kernel, x)[1]
        if not extent:
            raise PreconditionError(f"'{x}' has no constant range, which the tag 'l.auto' needs.", subject=x,
                                    hint="split the iname, or fix the parameter")
        digits: list[_Digit] = []
        while axes and extent > 1:
            axis, threads = axes[0]
            digits.append(_Digit(min(extent, threads), axis))
            if extent < threads and threads % extent == 0:
                axes[0][1] = threads // extent          # the next iname shares the rest of the axis
            else:
                del axes[0]
            extent = -(-extent // threads)
        if extent > 1 or not digits:
            digits.append(_Digit(extent, None))
        yield x, digits[::-1]


def _with_digits(kernel: LoopKernel, iname: str, digits: Sequence[_Digit], step: str, assume: str | None,
                 unsafe: bool) -> LoopKernel:
    names = [iname] if len(digits) == 1 else [
        kernel.fresh_name(f"{iname}_round" if d.axis is None else f"{iname}_l{d.axis}") for d in digits]
    if len(digits) > 1:
        lengths = {name: d.extent for name, d in zip(names[1:], digits[1:], strict=True)}
        kernel = split_into(kernel, iname, names[0], lengths, frozenset(kernel.statement_by_id),
                            iname_range(kernel, iname)[0])
    tags: dict[str, InameTag] = {name: UnrollTag() if d.axis is None else LocalTag(d.axis)
                                 for name, d in zip(names, digits, strict=True)}
    return tagged(kernel, tags, step, assume=assume, unsafe=unsafe)
