"""Thread distribution of ``l.auto`` inames in a kernel: parts on the axes of the block, and loops over rounds."""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod

from loopkit.analysis.constructors import reordered
from loopkit.analysis.legality import axis_inames
from loopkit.analysis.ranges import iname_range
from loopkit.errors import PreconditionError
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import LocalTag
from loopkit.transform.iname import split_into
from loopkit.transform.order import ordered


def distributed(kernel: LoopKernel, auto: Sequence[str], block: Mapping[int, int]
                ) -> tuple[LoopKernel, dict[str, int | None]]:
    """*kernel* with the inames *auto*, the fastest last, split for the threads of *block*; and the axis of each part.

    No part has a tag yet; one without an axis (``None``) counts the rounds. Without a *block*, there are no parts.
    Neighbouring threads take neighbouring points along the fastest iname, as lowering distributes ``l.auto``.
    """
    # parts of several inames on one axis are packed as their loops nest
    kernel = reordered(kernel, ordered(kernel.tree, auto), tags={x: t for x, t in kernel.tags.items() if x not in auto})
    axes: dict[str, int | None] = {}
    for x, digits in _thread_digits(kernel, auto, block) if block else ():
        names = [x] if len(digits) == 1 else [
            kernel.fresh_name(f"{x}_round" if axis is None else f"{x}_l{axis}") for _, axis in digits]
        if len(digits) > 1:
            lengths = {name: extent for name, (extent, _) in zip(names[1:], digits[1:], strict=True)}
            kernel = split_into(kernel, x, names[0], lengths, frozenset(kernel.statement_by_id),
                                iname_range(kernel, x)[0])
        axes.update((name, axis) for name, (_, axis) in zip(names, digits, strict=True))
    return kernel, axes


def block_of(kernel: LoopKernel, users: Collection[str]) -> dict[int, int]:
    """The constant numbers of threads along the axes of the block on which the statements *users* run."""
    result: dict[int, int] = {}
    for u in users:
        for axis, inames in axis_inames(kernel, kernel.statement_by_id[u].inames, LocalTag).items():
            if threads := prod(iname_range(kernel, x)[1] for x in inames):
                result[axis] = max(result.get(axis, 1), threads)
    return dict(sorted(result.items()))


def _thread_digits(kernel: LoopKernel, inames: Sequence[str], block: Mapping[int, int]
                   ) -> Iterator[tuple[str, list[tuple[int, int | None]]]]:
    """Each iname, the fastest first, in mixed radix: extents and axes of the block, or ``None`` for rounds."""
    axes = [[axis, extent] for axis, extent in block.items() if extent > 1]
    for x in reversed(inames):
        extent = iname_range(kernel, x)[1]
        if not extent:
            raise PreconditionError(f"'{x}' has no constant range, which the tag 'l.auto' needs.", subject=x,
                                    hint="split the iname, or fix the parameter")
        digits: list[tuple[int, int | None]] = []
        while axes and extent > 1:
            axis, threads = axes[0]
            digits.append((min(extent, threads), axis))
            if extent < threads and threads % extent == 0:
                axes[0][1] = threads // extent          # the next iname shares the rest of the axis
            else:
                del axes[0]
            extent = -(-extent // threads)
        if extent > 1 or not digits:
            digits.append((extent, None))
        yield x, digits[::-1]
