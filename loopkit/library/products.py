"""Matrix products: tiles in shared memory, and a tile of the result in each thread's registers."""
from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
import numpy.typing as npt

import loopkit as lk
from loopkit.kernel.annotations import checked
from loopkit.kernel.target import WARP
from loopkit.library.defaults import Tile, best_plan, items_a_thread, known_dtype, measured, vector_of_rows
from loopkit.library.matrix_units import UNITS, product_by_matrix_units
from loopkit.library.warpgroups import Form, Tiling, product_by_warpgroups
from loopkit.transform.step import require_positive

#: Threads of a warp along the rows and the columns of its tile: these read least shared memory.
LANES = (8, 4)

#: Names and lengths of the levels of an iname, from the outermost.
Levels = Mapping[str, int | None]


@checked
def matmul(dtype: npt.DTypeLike = np.float32, *, shape: tuple[int, int, int] | None = None,
           multiprocessors: int | None = None, tile: tuple[int, int, int] | None = None,
           warp: tuple[int, int] | None = None, depth: int | None = None, whole: bool | None = None,
           group: int | None = None, min_blocks: int | None = None, stages: int | None = None,
           mma: bool | None = None, wgmma: bool = False, a_transposed: bool = False, b_transposed: bool = False,
           result: npt.DTypeLike | None = None, epilogue: str | None = None, store: str | None = None
           ) -> lk.LoopKernel:
    """A kernel for the matrix product ``c[i, j] = sum(k, a[i, k]*b[k, j])``.

    A block computes a tile of *c* from strips of *a* and *b* in shared memory. Each warp computes a part of the tile,
    and each of its threads a part of that in registers. Vectors of 16 bytes load and read the strips, and the loads of
    the next strips run concurrently. Partial tiles compute with zeros beyond the edge, and store only the elements
    inside.

    Matrix instructions compute the parts of warps for float64, for factors of 16 and 8 bits, whose sums are in float32
    or int32, and with ``mma=True`` for float32, which they round to tf32.

    If *c* has few tiles, multiprocessors would be idle. With *depth*, a block computes only a part of the sums over
    *k*, and a second launch adds up the parts in a fixed order, so that each run gives the same bits.

    If vectors do not divide the rows of *a* or *b*, strips are loaded element by element. With *whole*, a first launch
    copies *a* and *b* with padding to full tiles, so that all strips are loaded in vectors and without conditions.

    :arg shape: the lengths ``(n, m, l)`` of ``c[n, m]``, ``a[n, l]`` and ``b[l, m]``; default: any, taken from the
        arrays of a call. With a shape, vectors that divide the rows load the strips. For float32
        :func:`~loopkit.library.defaults.best_plan` chooses *tile*, *warp*, *depth* and *whole*, and with *wgmma*
        *tile* has the least estimated time.
    :arg multiprocessors: the number of those of the GPU, for that choice and :func:`~loopkit.persistent` blocks.
    :arg tile: the rows and columns of a block's tile of *c*, and the number of steps of *k* copied at once. With
        *wgmma*: multiples of 64, at most 256, or 16, 32 or 48 rows; strips have 128 bytes of each row in any case.
    :arg warp: the rows and columns of a warp's part; default: 64 elements of *c* per thread, 32 of 8 bytes, 128 by mma.
    :arg depth: the number of steps of *k* that a block adds up; default: all, in one launch.
    :arg whole: compute from copies of *a* and *b* that are padded with zeros to full tiles; with *wgmma* and
        *shape*, the default for rows of no multiple of 16 bytes. For rows of *b* of an odd one, clusters share copies.
    :arg group: the number of rows of blocks that run column by column, so that concurrent ones share strips of *b*.
    :arg min_blocks: the least number of blocks of a multiprocessor; 0: any; default: 2 for a small *warp*, else 1.
    :arg stages: the strips of each matrix in shared memory; 1: a strip is stored between two barriers; 0: no prefetch.
        With *wgmma*: two or more.
    :arg mma: compute the parts of warps by ``mma.sync``; not on GPUs before sm_80, or sm_89 for floats of 8 bits.
    :arg wgmma: compute by the warpgroups of Hopper (``CudaTarget("sm_90a")``), from tiles that TMA copies: rows of *a*
        and *b* begin at multiples of 16 bytes, or *whole* copies do. Factors not of 16 bits need *b_transposed*.
    :arg b_transposed: *b* is stored as ``b[j, k]``; only with matrix instructions, as is *result*: the dtype of *c*.
        It is the dtype of factors of 16 bits by default, int32 for integers, else float32.
    :arg a_transposed: *a* is stored as ``a[k, i]``; only with *wgmma* and factors of 16 bits.
    :arg epilogue: the formula of an element of *c* in terms of the sum ``total``, of ``i`` and ``j``, and of further
        arrays, for example ``"max(total + bias[j], 0)"``; default: ``"total"``. Only with *wgmma*. Other names become
        arguments.
    :arg store: with *wgmma*, the way of *c* to memory: ``"tma"`` from a tile in shared memory, if rows begin at
        multiples of 16 bytes; ``"shared"``: neighbouring threads store neighbouring elements of such a tile;
        ``"registers"``: threads store their sums. Default: the first, or the second for *whole* copies, or by the rows
        of *c* if there is a *shape*.
    :raises PreconditionError: fewer than two rows, columns or steps of *k* are copied at once, a tile is not a multiple
        of its parts, matrix instructions do not support the dtype, or an argument does not apply to them.

    >>> lk.library.matmul()(a=np.ones((2, 3), np.float32), b=np.ones((3, 2), np.float32)).c
    array([[3., 3.],
           [3., 3.]], dtype=float32)
    """
    known = known_dtype(dtype)
    if wgmma:
        _require_inapplicable("warpgroups", warp=warp, depth=depth, min_blocks=min_blocks, mma=mma)
        form = Form(a_transposed, b_transposed, epilogue)
        tiles = Tiling(shape, multiprocessors, tile and tile[:2], stages, group)
        return product_by_warpgroups(known, result, form, tiles, whole, store)
    _require_inapplicable("products without wgmma", a_transposed=a_transposed or None, epilogue=epilogue, store=store)
    if mma is not False and known != np.float64 and (mma or known != np.float32) and known.name in UNITS:
        _require_inapplicable("matrix instructions", depth=depth, whole=whole, min_blocks=min_blocks)
        return product_by_matrix_units(known, result, tile, warp, stages, group, b_transposed=b_transposed)
    _require_inapplicable("products without matrix instructions", b_transposed=b_transposed or None, result=result)
    return _in_plain_arithmetic(known, shape, multiprocessors, tile, warp, min_blocks, depth, whole, group, stages, mma)


def _in_plain_arithmetic(dtype: np.dtype, shape: tuple[int, int, int] | None, multiprocessors: int | None,
                         tile: tuple[int, int, int] | None, warp: tuple[int, int] | None, min_blocks: int | None,
                         depth: int | None, whole: bool | None, group: int | None, stages: int | None,
                         mma: bool | None) -> lk.LoopKernel:
    """The product by the arithmetic of threads, or by the instructions for float64."""
    if shape is not None and tile is None and depth is None and whole is None and dtype == np.float32:
        plan = best_plan(shape, multiprocessors)
        tile, warp, depth, whole = plan.tile.tile, warp or plan.tile.warp, plan.depth, plan.whole
        min_blocks = plan.tile.min_blocks if min_blocks is None else min_blocks
    mma = dtype == np.float64 if mma is None else mma
    _require_float64(dtype, mma)
    stages, warp, tile = measured("matmul", dtype, stages=stages, warp=warp, **{"tile_of_mma" if mma else "tile": tile})
    if min_blocks is None:
        min_blocks = 2 if warp[0]*warp[1]*dtype.itemsize <= 256*LANES[0]*LANES[1] else 1
    knl = _tiled(dtype, shape, Tile(tile, warp, min_blocks), depth, bool(whole), group, mma)
    if stages:
        knl = lk.pipeline(knl, "k_outer", stages, temporaries=["a_tile", "b_tile"])
    knl = _padded_copies(knl) if whole else knl
    return knl if depth is None else _added_up(knl, vector_of_rows(shape[1], dtype) if shape else 1)


def _tiled(dtype: np.dtype, shape: tuple[int, int, int] | None, tile: Tile, depth: int | None, whole: bool,
           group: int | None, mma: bool) -> lk.LoopKernel:
    """The product in tiles, without the padding copies and the sum of the parts."""
    rows, columns, steps = tile.tile
    warp = tile.warp
    if group is None:                       # groups of equal size if the number of rows of blocks is known
        most, = measured("matmul", group=None)
        high = max(-(-shape[0]//rows), 1) if shape else most
        group = -(-high//-(-high//most))
    group = require_positive(group, "group")
    _require_strips(rows, columns, steps)
    items = items_a_thread(dtype)
    along_k, along_j = (vector_of_rows(length, dtype) for length in shape[:0:-1]) if shape and not whole else (items,)*2
    knl = lk.add_dtypes(_product(tile, depth, whole, mma), {"a,b,c": dtype})
    # partial tiles have the text of full ones, with conditions at loads and stores and none at products
    knl = lk.pad_domain(knl, {"i": rows, "j": columns, "k": steps})
    # a block has a tile; consecutive blocks are in the rows of one group
    outer: tuple[Levels, Levels] = ({"i_group": None, "i_block": group, "i_warp": _shares(rows, warp[0], "rows")},
                                    {"j_block": None, "j_warp": _shares(columns, warp[1], "columns")})
    blocks = ("part",)*(depth is not None) + ("i_group", "j_block", "i_block")
    tags = dict(zip(blocks[::-1], ("g.0", "g.0", "g.1", "g.2"), strict=False))
    if mma:
        knl = _over_warps(knl, warp, {"box": 16}, {"box": 8}, outer=outer)
        return _by_warps(lk.tag_inames(knl, tags), blocks, steps, 16)
    # a vector store needs its sums in neighbouring registers. With more than 64 sums the compiler can still place the
    # operands of a product in several banks; rows of partial sums are always vectors
    stored = depth is not None or (not whole if shape is None else vector_of_rows(shape[1], dtype) == items)
    knl = _over_warps(knl, warp, {"lane": LANES[0], "item": items}, {"lane": LANES[1], "item": items},
                      "vec" if warp[0]*warp[1] > 64*WARP and stored else "unr", outer)
    return _in_registers(lk.tag_inames(knl, tags), blocks, steps, dtype,
                         vectors=(min(along_k, vector_of_rows(steps, dtype)), along_j))


def _product(tile: Tile, depth: int | None, whole: bool, by_rows: bool) -> lk.LoopKernel:
    """The product; with *depth* its parts and their sum; if *whole*, from copies that are padded to full tiles."""
    options = lk.Options(min_blocks=tile.min_blocks)
    n, m, k = (f"{part}*floor(({x} + {part - 1})/{part})" for x, part in zip("nml", tile.tile, strict=True))
    copies = "_whole" if whole else ""
    text, product = _rules(f"a{copies}[", f"b{copies}[", by_rows=by_rows)
    domains = []
    if whole:
        domains = [f"{{[a_row, a_column]: 0<=a_row<{n} and 0<=a_column<{k}}}",
                   f"{{[b_row, b_column]: 0<=b_row<{k} and 0<=b_column<{m}}}"]
        text += """
        <> a_whole[a_row, a_column] = if(a_row < n and a_column < l, a[a_row, a_column], 0)  {id=a_whole}
        <> b_whole[b_row, b_column] = if(b_row < l and b_column < m, b[b_row, b_column], 0)  {id=b_whole}
        """
    k = k if whole else "l"
    if depth is None:
        return lk.make_kernel([*domains, f"{{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<{k}}}"],
                              f"{text} c[i, j] = sum(k, {product})  {{id=insn}}", name="matmul", options=options)
    depth = require_positive(depth, "depth")
    return lk.make_kernel(
        [*domains, f"{{[part, i, j]: 0<=i<n and 0<=j<m and 0<=part and {depth}*part<{k}}}",
         f"[part] -> {{[k]: {depth}*part<=k<{k} and k<{depth}*part + {depth}}}",
         f"{{[row, column, other]: 0<=row<n and 0<=column<m and 0<=other and {depth}*other<{k}}}"],
        f"""{text}
        for part, i, j
            <> partial[part, i, j] = sum(k, {product})  {{id=insn}}
        end
        for row, column
            c[row, column] = sum(other, partial[other, row, column])  {{id=total}}
        end
        """, name="matmul", options=options)


def _rules(a: str, b: str, *, by_rows: bool) -> tuple[str, str]:
    """Rules for the operands *a* and *b*, texts of the arrays up to the last axes, and the product of the two rules."""
    rule, use = ("a_rows(row, column)", "a_rows(i, k)") if by_rows else ("a_columns(column, row)", "a_columns(k, i)")
    return f"""
        {rule} := {a}row, column]
        b_rows(row, column) := {b}row, column]
        """, f"{use}*b_rows(k, j)"


def _padded_copies(knl: lk.LoopKernel) -> lk.LoopKernel:
    """The padding launch: copies, piece by piece."""
    width, across, items = measured("padded_copy", columns=None, threads=None, items=None)
    for x in "ab":
        knl = lk.split_iname(knl, f"{x}_column", width, outer_tag="g.0", inner_tag="l.0")
        block, item, thread = (f"{x}_row_{level}" for level in ("block", "item", "thread"))
        knl = lk.split_levels(knl, f"{x}_row", {block: None, item: items, thread: across},
                              tags={block: "g.1", item: "unr", thread: "l.1"})
    return lk.add_barrier(knl, "b_whole", "insn.k.init")


def _added_up(knl: lk.LoopKernel, items: int) -> lk.LoopKernel:
    """The launch that adds up the parts: neighbouring threads have neighbouring vectors of *items* columns."""
    threads, = measured("matmul", threads=None)
    vectors = {"column_item": items} if items > 1 else {}
    knl = lk.split_levels(knl, "column", {"column_block": None, "column_thread": threads//items, **vectors},
                          tags={"column_thread": "l.0", **dict.fromkeys(vectors, "vec")})
    knl = lk.tag_inames(knl, {"row": "g.0", "column_block": "g.0"})
    return lk.add_barrier(knl, "insn", "total.other.init")


@checked
def batched_matmul(dtype: npt.DTypeLike = np.float32, *, size: int | None = None, steps: int | None = None,
                   warp: tuple[int, int] | None = None, stages: int | None = None, asynchronous: bool | None = None,
                   mma: bool | None = None, wgmma: bool = False, shape: tuple[int, int, int, int] | None = None,
                   tile: tuple[int, int] | None = None, b_transposed: bool = False) -> lk.LoopKernel:
    """A kernel for ``c[e, i, j] = sum(k, a[e, i, k]*b[e, k, j])``, products of many small square matrices.

    A block computes one product, as :func:`matmul` computes one tile. Asynchronous copies move strips of four-byte
    elements to shared memory, two strips ahead of the strip in use. The strips keep the layout of the matrix.

    :arg size: the number of rows and of columns of each matrix; default: 64. Not with *wgmma*.
    :arg steps: the number of steps of *k* copied at once.
    :arg warp: the rows and columns of each warp's part of a product; default: 64 elements of *c* per thread, or 16 for
        elements of more than eight bytes; with *mma* at most 32 rows and columns that divide the product.
    :arg stages: as for :func:`matmul`; default: more with *asynchronous* and without *mma*.
    :arg asynchronous: copy strips by ``cp.async`` (sm_80 and later) instead of through registers; default: for
        four-byte elements, and with *mma*.
    :arg mma: compute the part of each warp by matrix multiply-accumulate instructions of 8x8 or 16x8 results; default:
        for small sizes in float64 that are multiples of such parts and of the given parts. GPUs before sm_80 need
        ``False``, and ``asynchronous=False``.
    :arg wgmma: compute by the warpgroups of Hopper, as :func:`matmul` does, for matrices of any sizes, those of the
        arrays; several blocks may compute one product, each a *tile* of rows and columns. With *b_transposed*, *b* is
        ``b[e, j, k]``.
    :arg shape: the number of products and the lengths of each, ``(ne, n, m, l)``, as of :func:`matmul`; default: any.
    :raises PreconditionError: fewer than two rows, columns or steps of *k* are copied at once, or a warp's part is not
        a multiple of the elements that its threads load at once. With *mma*: the parts do not divide the product, or
        it is not in float64.

    >>> a = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    >>> lk.library.batched_matmul(size=2, steps=2)(a=a, b=a).c
    array([[[ 2.,  3.],
            [ 6., 11.]],
    <BLANKLINE>
           [[46., 55.],
            [66., 79.]]], dtype=float32)
    """
    known = known_dtype(dtype)
    if wgmma:
        _require_inapplicable("warpgroups", size=size, steps=steps, warp=warp, asynchronous=asynchronous, mma=mma)
        tiles = Tiling(shape and shape[1:], None, tile, stages, None, shape[0] if shape else 1)
        return product_by_warpgroups(known, None, Form(b_transposed=b_transposed, batched=True), tiles, None, None)
    _require_inapplicable("products without wgmma", tile=tile, shape=shape, b_transposed=b_transposed or None)
    size = require_positive(64 if size is None else size, "size")
    most, low = measured("batched_matmul", most_by_mma=None, most_of_low_mma=None)
    if mma is None:
        mma = (known == np.float64 and size <= most and size % 8 == 0
               and (steps is None or steps % 4 == 0 == size % steps)
               and (warp is None or all(n % 8 == 0 == size % n for n in warp)))
    _require_float64(known, mma)
    steps, = measured("batched_matmul", known, steps=8 if steps is None and mma and size % 16 else steps)
    _require_strips(size, size, steps)
    if asynchronous is None:
        asynchronous = known.itemsize == 4 or (mma and stages != 1)
    stages, = measured("batched_matmul", **{"stages_of_asynchronous" if asynchronous and not mma else "stages": stages})
    text, product = _rules("a[e, ", "b[e, ", by_rows=mma or asynchronous)
    knl = lk.make_kernel(f"{{[e, i, j, k]: 0<=e<ne and 0<=i,j,k<{size}}}", f"{text} c[e, i, j] = sum(k, {product})",
                         name="batched_matmul")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"a,b,c": known}), {"e": "g.0"})
    if mma:
        knl = _small_by_warps(knl, size, steps, warp or _largest_part(size), low)
    else:
        warp, = measured("batched_matmul", known, warp=warp)
        items = items_a_thread(known)
        # the result is a third of the memory traffic: it is stored in vectors too
        knl = _over_warps(knl, warp, {"lane": LANES[0], "item": 1 if asynchronous else items},
                          {"lane": LANES[1], "item": items}, "vec")
        knl = _in_registers(knl, ("e",), steps, known, by_rows=asynchronous)
    return lk.pipeline(knl, "k_outer", stages, asynchronous=asynchronous) if stages else knl


def _small_by_warps(knl: lk.LoopKernel, size: int, steps: int, warp: tuple[int, int], low: int) -> lk.LoopKernel:
    """Products of this *size* by matrix instructions for float64; *low*: the largest size that waits for memory."""
    for part, what in ((steps, "steps"), (warp[0], "rows"), (warp[1], "columns")):
        _shares(size, part, what)
    # small products wait for memory, large ones for instructions: mma of 16 rows has twice the throughput of 8 rows
    high = 16 if size > low and warp[0] % 16 == 0 else 8
    return _by_warps(_over_warps(knl, warp, {"box": high}, {"box": 8}), ("e",), steps, high)


def _require_float64(dtype: np.dtype, mma: bool) -> None:
    if mma and dtype != np.float64:
        raise lk.PreconditionError(f"Matrix instructions need float64, not {dtype}.", subject="mma",
                                   hint="mma=False computes in any dtype")


def _require_inapplicable(what: str, **arguments: object) -> None:
    """:raises PreconditionError: one of *arguments* is given that has no meaning for *what*."""
    for name, value in arguments.items():
        if value is not None:
            raise lk.PreconditionError(f"The argument '{name}' does not apply to {what}.", subject=name,
                                       hint="leave it out, or choose another kind of product by mma= or wgmma=")


def _require_strips(rows: int, columns: int, steps: int) -> None:
    if min(rows, columns, steps) < 2:
        raise lk.PreconditionError(
            f"A tile of {rows} by {columns} with {steps} steps has a strip with fewer than two rows or columns.",
            hint="use at least two of each")


def _shares(length: int, part: int, what: str) -> int:
    if require_positive(length, what) % require_positive(part, what):
        raise lk.PreconditionError(f"{length} {what} are not a multiple of {part}.", subject=what,
                                   hint=f"use a multiple of {part}")
    return length // part


def _largest_part(size: int) -> tuple[int, int]:
    """Rows and columns of a warp's part, in units of eight: the largest part, then the most square, then the highest,
    with at most 32 results per lane."""
    sides = [n for n in range(8, size + 1, 8) if size % n == 0]
    return max(((n, m) for n in sides for m in sides if n*m <= 32*WARP),
               key=lambda part: (part[0]*part[1], min(part), part[0]))


def _by_warps(knl: lk.LoopKernel, blocks: tuple[str, ...], steps: int, rows_of_box: int) -> lk.LoopKernel:
    """The tile of a block in the registers of its warps, computed by matrix multiply-accumulate instructions."""
    knl = lk.split_levels(knl, "k", {"k_outer": None, "k_step": _shares(steps, 4, "steps"), "k_box": 4},
                          tags={"k_step": "unr"})
    knl = lk.prioritize_loops(
        knl, (*blocks, "i_warp", "j_warp", "k_outer", "k_step", "i_reg", "j_reg", "i_box", "j_box"))
    knl = lk.tensorize(knl, "insn", f"mma.m{rows_of_box}n8k4.f64", "i_box, j_box, k_box")
    rows, columns = ([y for y in knl.inames if y.startswith((f"{x}_warp", f"{x}_reg", f"{x}_box"))] for x in "ij")
    # the strips of both matrices have the layout of the matrices
    knl = _strips_staged(knl, "a_rows", [*rows, "k_step", "k_box"], [*columns, "k_step", "k_box"],
                         (items_a_thread(np.dtype(np.float64)),)*2)
    # the lanes of half a warp load four neighbours of each of four rows: these are in different banks
    return lk.add_padding(lk.add_padding(knl, "a_tile", 0, by=4), "b_tile", 0, by=4)


def _over_warps(knl: lk.LoopKernel, warp: tuple[int, int], rows: Mapping[str, int], columns: Mapping[str, int],
                along: str = "unr", outer: tuple[Levels, Levels] = ({"i_warp": None}, {"j_warp": None})
                ) -> lk.LoopKernel:
    """Split rows and columns over *outer*, then over pieces of a warp's tile. These are made of *rows* and *columns* of
    an mma shape (``box``), or of lanes (``lane``) and the elements of one load of a lane (``item``, tagged *along*)."""
    for x, above, length, inner in zip("ij", outer, warp, (rows, columns), strict=True):
        own = {f"{x}_{level}": n for level, n in inner.items() if n > 1}
        levels = {**above, f"{x}_reg": _shares(length, prod(own.values()), "rows or columns of a warp"), **own}
        tags = {f"{x}_warp": "l.0", f"{x}_reg": "unr", f"{x}_lane": "l.0", f"{x}_item": along if x == "j" else "unr"}
        knl = lk.split_levels(knl, x, levels, tags={y: tag for y, tag in tags.items() if y in levels})
    return knl


def _in_registers(knl: lk.LoopKernel, blocks: tuple[str, ...], steps: int, dtype: np.dtype, *, by_rows: bool = False,
                  vectors: tuple[int, int] | None = None) -> lk.LoopKernel:
    """The tile of a block in the registers of its threads; *by_rows*: the strip of *a* is stored as it is."""
    knl = lk.split_iname(knl, "k", steps, inner_tag="unr")
    rows, columns = ([f"{x}_{part}" for part in ("warp", "reg", "lane", "item") if f"{x}_{part}" in knl.inames]
                     for x in "ij")
    # lanes are neighbours within a warp; for each k a thread adds the products of its column of a and its row of b
    # to all of its tile
    own = [x for x in (*rows, *columns) if x.endswith(("_reg", "_item"))]
    knl = lk.prioritize_loops(knl, (*blocks, "i_warp", "j_warp", "i_lane", "j_lane", "k_outer", "k_inner", *own))
    # else the strip of a is stored transposed, so that a piece of a column is contiguous
    items = items_a_thread(dtype)
    knl = _strips_staged(knl, "a_rows" if by_rows else "a_columns", ["k_inner", *rows], ["k_inner", *columns],
                         vectors or (vector_of_rows(steps, dtype), items))
    # threads that store a row of the strip access different banks, and pieces stay aligned
    return lk.add_padding(knl, "a_tile", 0, by=items)


def _strips_staged(knl: lk.LoopKernel, a_rule: str, a_sweep: list[str], b_sweep: list[str], vectors: tuple[int, int]
                   ) -> lk.LoopKernel:
    """Copy the strips of *a* and *b* to shared memory, in *vectors* along the rows of the matrices."""
    for rule, sweep, inames in ((a_rule, a_sweep, ["a_k", "a_i"] if a_rule == "a_columns" else ["a_i", "a_k"]),
                                ("b_rows", b_sweep, ["b_k", "b_j"])):
        knl = lk.precompute(knl, rule, sweep, temporary_name=f"{rule[0]}_tile", precompute_inames=inames,
                            default_tag=None)
    shared = ["a_i", "b_k"]
    for x, length in zip(("a_k", "b_j"), vectors, strict=True):
        if length > 1:
            knl = lk.split_iname(knl, x, length, outer_iname=f"{x}_vec", inner_iname=f"{x}_item", outer_tag="l.auto",
                                 inner_tag="vec")
        else:
            shared.append(x)
    return lk.tag_inames(knl, dict.fromkeys(shared, "l.auto"))
