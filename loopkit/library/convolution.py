"""Convolution by the warpgroups of Hopper: products of boxes of an image with filters, which TMA copies."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as p
from pymbolic.typing import Expression

import loopkit as lk
from loopkit.kernel.annotations import checked
from loopkit.library.defaults import DEVICE, known_dtype, measured
from loopkit.library.matrix_units import ROW, UNITS
from loopkit.library.warpgroups import (
    PRODUCER,
    ROWS,
    STEP,
    for_tma,
    parts_of_result,
    require_epilogue,
    require_tile,
    stages_of_strips,
    strip,
)
from loopkit.transform.step import require_positive

#: Two numbers, of the rows and of the columns.
Pair = tuple[int, int]

#: Images, rows, columns and channels of *x*, and filters.
Shape = tuple[int, int, int, int, int]

#: The largest number of elements of an array from one position to the next for TMA, and of a box along an axis.
MOST_STRIDE, MOST_OF_BOX = 8, 256


@dataclass(frozen=True)
class Window:
    """The places of an image that each position of the result reads.

    :ivar extents: rows and columns of a filter; *padding*: rows and columns of zeros on each side of an image.
    """

    extents: Pair
    stride: Pair
    padding: Pair
    dilation: Pair

    def place(self, axis: int, position: str, of_filter: str) -> str:
        """The row (*axis* 0) or the column of an image, for a *position* and a row or column *of_filter*."""
        shift = f" - {self.padding[axis]}" if self.padding[axis] else ""
        return f"{_multiple(self.stride[axis], position)} + {_multiple(self.dilation[axis], of_filter)}{shift}"

    def inside(self, axis: int, position: str, extent: str) -> str:
        """The condition that a *position* is one of the result, of an image with this *extent*."""
        last, around = self.dilation[axis]*(self.extents[axis] - 1), 2*self.padding[axis]
        return f"0<={position} and {_multiple(self.stride[axis], position)} + {last} < {extent} + {around}"

    def positions(self, axis: int, extent: int) -> int:
        """The number of positions of an image with this *extent*."""
        last = extent + 2*self.padding[axis] - self.dilation[axis]*(self.extents[axis] - 1) - 1
        return max(last // self.stride[axis] + 1, 0)

    def read(self, boxes: Boxes) -> int:
        """The elements of a channel that a tile reads: few in a compact box."""
        images, *box = boxes.extents
        return images*prod(n*stride + dilation*(extent - 1) for n, stride, dilation, extent in zip(
            box, self.stride, self.dilation, self.extents, strict=True))


def _multiple(factor: int, of: str) -> str:
    return of if factor == 1 else f"{factor}*{of}"


@dataclass(frozen=True)
class Boxes:
    """The tile of a block: the positions of a box of the result, and filters.

    :ivar extents: the images, the rows and the columns of the box.
    """

    extents: tuple[int, int, int]
    filters: int

    @property
    def positions(self) -> int:
        return prod(self.extents)

    @property
    def by_warps(self) -> bool:
        """Are the 16 positions of each warp a box, with a place that has no remainders of the number of the warp?"""
        images, rows, columns = self.extents
        return columns in (1, 2, 4, 8) and rows*columns % 16 == 0 and (images == 1 or rows*columns in (16, ROWS))

    def places(self, shape: tuple[int, int, int], filters: int) -> int:
        """The number of tiles of a result with this *shape* of positions."""
        return prod(-(-length // extent) for length, extent in zip(
            (*shape, filters), (*self.extents, self.filters), strict=True))


@checked
def conv2d(dtype: npt.DTypeLike = "bfloat16", *, filter_shape: int | Pair = 3, stride: int | Pair = 1,
           padding: int | Pair = 0, dilation: int | Pair = 1, filter_layout: str = "frsc",
           shape: Shape | None = None, multiprocessors: int | None = None,
           tile: tuple[int, int, int, int] | None = None, stages: int | None = None,
           result: npt.DTypeLike | None = None, epilogue: str | None = None, store: str | None = None
           ) -> lk.LoopKernel:
    """A kernel for 2-D convolution by the warpgroups of Hopper (``CudaTarget("sm_90a")``), with channels last.

    ``y[n, h, q, f] = sum((r, s, c), x[n, stride*h + dilation*r - padding, ..., c]*w[f, r, s, c])``, with zeros around
    the images *n*, for the positions *h*, *q* and the filters *f*.

    A block computes a tile: the positions of a box of images, rows and columns, times some filters. This is a product
    of matrices for each row *r* and column *s* of a filter and each 128 bytes of channels. TMA copies its factors: a
    box of *x*, shifted by *r* and *s*, with zeros outside of the image, and a strip of *w*. No copy of *x* with
    repeated elements is made. Warpgroups multiply while a warp of its own copies the next factors.

    The numbers of channels and of filters are multiples of 16 bytes. With ``store="registers"`` that of filters is any.

    :arg dtype: the dtype of *x* and *w*; ``"bfloat16"``, ``"float16"`` or another of the matrix units. Sums are in
        float32, or in int32 for integers. Factors not of 16 bits need a *filter_layout* that ends with ``c``.
    :arg filter_shape: the rows and columns of a filter. For this and the next three, one number serves both axes.
    :arg stride: from one position to the next; at most 8.
    :arg padding: the rows and columns of zeros on each side of an image.
    :arg dilation: from one row or column of a filter to the next, in an image.
    :arg filter_layout: the axes of *w* in memory, ending with ``c`` or ``f``: ``"frsc"``, ``"rscf"``, ``"rsfc"``, ...
    :arg shape: images, rows, columns and channels of *x*, and filters; default: any, taken from the arrays of a call.
        With a shape, *tile* is the one with which the last multiprocessor is done first.
    :arg multiprocessors: the number of those of the GPU, for that choice and :func:`~loopkit.persistent` blocks.
    :arg tile: images, rows and columns of a box of the result, and filters: a multiple of 64 positions and one of
        64 filters, each at most 256.
    :arg stages: the boxes of *x* and the strips of *w* in shared memory; two or more; default: as many as fit.
    :arg result: the dtype of *y*; default: that of factors of 16 bits, int32 for integers, else float32.
    :arg epilogue: the formula of an element of *y* in terms of the sum ``total``, of ``n``, ``h``, ``q`` and ``f``, and
        of further arrays, for example ``"max(total + bias[f], 0)"``; default: ``"total"``.
    :arg store: the way of *y* to memory: ``"tma"`` from a tile in shared memory, or ``"registers"``: threads store
        their sums. Default: the first, or by the number of filters if there is a *shape*.
    :raises PreconditionError: an argument is not of this kind, or matrix units do not support the dtype.

    >>> knl = lk.library.conv2d("float16", padding=1)
    >>> print(next(line for line in str(knl).splitlines() if "total = " in line).strip())
    <> total = sum((r, s, c), x_rows(n, h, q, r, s, c)*w_rows(f, r, s, c))  {id=insn}
    >>> x, w = np.ones((1, 3, 3, 8), np.float16), np.ones((8, 3, 3, 8), np.float16)
    >>> lk.compile(knl, target="c")(x=x, w=w).y[0, :, :, 0]
    array([[32., 48., 32.],
           [48., 72., 48.],
           [32., 48., 32.]], dtype=float16)
    """
    known, window = known_dtype(dtype), Window(*(
        _pair_of(value, what, least) for value, what, least in (
            (filter_shape, "filter_shape", 1), (stride, "stride", 1), (padding, "padding", 0),
            (dilation, "dilation", 1))))
    _require_supported(known, window, filter_layout)
    stored = known_dtype(UNITS[known.name].result if result is None else result)
    store = store or ("tma" if shape is None or for_tma(shape[-1], stored) else "registers")
    if store not in ("tma", "registers"):
        raise lk.PreconditionError(f"The result goes to memory by tma or registers, and not by {store!r}.",
                                   subject="store", hint="store='tma'")
    boxes = _chosen_boxes(window, shape, multiprocessors, tile, known)
    stages = stages_of_strips(boxes.positions, boxes.filters, stored.itemsize if store == "tma" else 0, stages)
    knl = _summed_windows(known, stored, window, filter_layout, epilogue)
    knl = _by_warpgroups(knl, known, boxes, filter_layout, stored if store == "tma" else None, stages)
    if shape is not None and (count := _persistent_blocks(window, shape, boxes, multiprocessors)):
        knl = lk.persistent(knl, count)
    # the place of a position in its box is a digit of its number, and these are inames again
    return lk.simplify_indices(knl)


def _by_warpgroups(knl: lk.LoopKernel, dtype: np.dtype, boxes: Boxes, layout: str, stored: np.dtype | None, stages: int
                   ) -> lk.LoopKernel:
    """The sums of *knl* as products by warpgroups; *stored*: the dtype of parts of the result in shared memory."""
    unit, size = UNITS[dtype.name], dtype.itemsize
    # tiles are whole: TMA fills them with zeros beyond the edges
    lengths = dict(zip("nhqf", (*boxes.extents, boxes.filters), strict=True))
    knl = lk.pad_domain(knl, {**lengths, "c": ROW // size})
    # a block has a box of positions for some filters; neighbours have the same box
    for x, length in lengths.items():
        knl = lk.split_levels(knl, x, {f"{x}_block": None, f"{x}_box": length}, tags={f"{x}_block": "g.0"})
    knl = lk.split_levels(knl, "c", {"c_outer": None, "c_step": ROW // STEP, "c_box": STEP // size},
                          tags={"c_step": "unr"})
    knl = lk.prioritize_loops(knl, _loops_of_block("n_box, h_box, q_box, c_outer, r, s, c_step, f_box, c_box"))
    # the positions of a box are the rows of a product, 64 for each warpgroup
    knl = lk.join_inames(knl, "n_box, h_box, q_box", "i")
    knl = lk.split_levels(knl, "i", {"i_warpgroup": None, "i_box": ROWS}, tags={"i_warpgroup": "l.0"})
    knl = lk.prioritize_loops(knl, _loops_of_block("i_warpgroup, c_outer, r, s, c_step, i_box, f_box, c_box"))
    # one thread lets TMA copy the factors, in rows of 128 bytes, swizzled as the matrix units read them
    knl = strip(knl, "x", ["i_warpgroup", "i_box", "c_step", "c_box"], [f"x_{axis}" for axis in "nhqrsc"])
    knl = strip(knl, "w", ["f_box", "c_step", "c_box"], [f"w_{axis}" for axis in layout])
    # one loop over all factors of a tile, so that copies run ahead from each row of a filter to the next
    knl = lk.join_inames(knl, "c_outer, r, s", "k")
    # products are exact in the dtype of the sums, and a warpgroup computes them at once
    knl = lk.set_operand_precision(knl, "tf32") if dtype == np.float32 else lk.set_accumulator_dtype(knl, unit.sums)
    knl = lk.tensorize(knl, "insn", unit.of_warpgroup(boxes.filters))
    if stored is not None:
        knl = parts_of_result(knl, "y", "f_box", stored, "tma", by_warps=boxes.by_warps)
    # a warp of its own copies factors as soon as there is room, also for the next tile of a block
    knl = lk.pipeline(knl, "k", stages, temporaries=["x_tile", "w_tile"], ahead=0)
    return lk.specialize_warps(knl, ["x_tile_rule", "w_tile_rule"],
                               registers=PRODUCER if boxes.positions > ROWS else 0)


def _loops_of_block(inner: str) -> str:
    """The order of the loops of a block, with these *inner* ones."""
    return f"n_block, h_block, q_block, f_block, {inner}"


def _summed_windows(dtype: np.dtype, result: np.dtype, window: Window, layout: str, epilogue: str | None
                    ) -> lk.LoopKernel:
    """The kernel, where the statement ``insn`` has the sum."""
    (r, s), index = window.extents, ", ".join(layout)
    images, rows, columns, channels, filters = map(p.Variable, ("images", "rows", "columns", "channels", "filters"))
    extents: dict[str, Expression] = {"f": filters, "r": r, "s": s, "c": channels}
    of_rule = {"f": "filter", "r": "a", "s": "b", "c": "channel"}
    arguments = ", ".join(of_rule[axis] for axis in layout)
    knl = lk.make_kernel(f"""{{[n, h, q, f, r, s, c]: 0<=n<images and {window.inside(0, 'h', 'rows')}
        and {window.inside(1, 'q', 'columns')} and 0<=f<filters and 0<=r<{r} and 0<=s<{s} and 0<=c<channels}}""", f"""
x_around(image, row, column, channel) := (x[image, row, column, channel]
    if 0 <= row and row < rows and 0 <= column and column < columns else 0)
x_rows(image, u, v, a, b, channel) := x_around(image, {window.place(0, 'u', 'a')}, {window.place(1, 'v', 'b')}, channel)
w_rows({arguments}) := w[{arguments}]
<> total = sum((r, s, c), x_rows(n, h, q, r, s, c)*w_rows({index}))  {{id=insn}}
y[n, h, q, f] = {epilogue or 'total'}  {{id=result}}
""", [lk.GlobalArg("x", dtype, (images, rows, columns, channels)),
      lk.GlobalArg("w", dtype, tuple(extents[axis] for axis in layout)), lk.GlobalArg("y", result), "..."],
                         name="conv2d")
    require_epilogue(knl, "y", epilogue, {"x", "w", "r", "s", "c"})
    return knl


def _chosen_boxes(window: Window, shape: Shape | None, multiprocessors: int | None,
                  tile: tuple[int, int, int, int] | None, dtype: np.dtype) -> Boxes:
    """The tile that the user names, or the one with which the last multiprocessor is done first."""
    if tile is None and shape is not None:
        known, (most,) = DEVICE["warpgroups"], measured("warpgroups", multiprocessors=multiprocessors)
        positions, filters, steps = _lengths_of_product(window, shape, dtype)

        def time(boxes: Boxes, strip: int) -> tuple[int, int]:
            places = boxes.places(positions, filters)
            return -(-places // most)*(strip*steps + known["block"]), places*window.read(boxes)
        return min(_known_tiles(window), key=lambda x: time(*x))[0]
    *extents, filters = measured("conv2d", tile=tile)[0]
    for value in (*extents, filters):
        require_positive(value, "the length of a tile")
    require_tile(prod(extents), filters)
    return Boxes((extents[0], extents[1], extents[2]), filters)


def _known_tiles(window: Window) -> Iterator[tuple[Boxes, int]]:
    """The tiles whose time is known, with that of a strip; their positions in each box that TMA can copy."""
    for name, strip_time in DEVICE["warpgroups"]["strips"].items():
        positions, filters = map(int, name.split("x"))
        for columns in _divisors(positions):
            for rows in _divisors(positions // columns):
                if max(rows*window.stride[0], columns*window.stride[1]) <= MOST_OF_BOX:
                    yield Boxes((positions // columns // rows, rows, columns), filters), strip_time


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def _lengths_of_product(window: Window, shape: Shape, dtype: np.dtype) -> tuple[tuple[int, int, int], int, int]:
    """The positions of the result along each axis, the filters, and the number of strips of 128 bytes of each tile."""
    images, rows, columns, channels, filters = shape
    r, s = window.extents
    return (images, window.positions(0, rows), window.positions(1, columns)), filters, \
        r*s*-(-channels*dtype.itemsize // ROW)


def _persistent_blocks(window: Window, shape: Shape, boxes: Boxes, multiprocessors: int | None) -> int:
    """The number of blocks that run several tiles each; 0: there are no more tiles than multiprocessors."""
    most, = measured("warpgroups", multiprocessors=multiprocessors)
    images, rows, columns, _, filters = shape
    places = boxes.places((images, window.positions(0, rows), window.positions(1, columns)), filters)
    return int(most) if places > most else 0


def _pair_of(value: int | Pair, what: str, least: int) -> Pair:
    """:raises PreconditionError: a number is too small."""
    found = (value, value) if isinstance(value, int) else value
    if min(found) < least:
        raise lk.PreconditionError(f"The argument '{what}' is {least} or more along each axis, and not {min(found)}.",
                                   subject=what, hint=f"{what}={least}")
    return found


def _require_supported(dtype: np.dtype, window: Window, layout: str) -> None:
    """:raises PreconditionError: the matrix units or TMA do not support the dtype, the layout or the stride."""
    if dtype.name not in UNITS:
        raise lk.PreconditionError(f"wgmma does not multiply factors of {dtype}.", subject="dtype",
                                   hint=f"use one of {', '.join(UNITS)}")
    if sorted(layout) != ["c", "f", "r", "s"] or layout[-1] not in "cf":
        raise lk.PreconditionError(f"A filter has the axes f, r, s and c, the last one c or f, and not {layout!r}.",
                                   subject="filter_layout", hint="filter_layout='frsc'")
    if dtype.itemsize != 2 and layout[-1] != "c":
        raise lk.PreconditionError(f"wgmma multiplies factors of {dtype} only if both are K-major.",
                                   subject="filter_layout", hint="filter_layout='frsc'")
    if max(window.stride) > MOST_STRIDE:
        raise lk.PreconditionError(f"TMA copies every element up to every {MOST_STRIDE}th, and the stride is "
                                   f"{max(window.stride)}.", subject="stride", hint="use a smaller stride")
