"""Matrix products by the warpgroups of Hopper: wgmma multiplies tiles in shared memory, which TMA copies."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

import loopkit as lk
from loopkit.ast.tensor_maps import UNIT
from loopkit.expr.mappers import array_of, elements_of, variables
from loopkit.library.defaults import DEVICE, items_a_thread, known_dtype, measured
from loopkit.library.matrix_units import ROW, UNITS
from loopkit.transform.step import require_positive

#: Rows of a product by a warpgroup; bytes of a step's elements; most columns.
ROWS, STEP, COLUMNS = 64, 32, 256

#: Fewer rows of a result are a multiple of this.
FEW = 16

#: Registers of a producer's thread, which leaves the others to several warpgroups: those of a thread of all of these
#: together, and most of a thread.
PRODUCER, REGISTERS, MOST = 32, 480, 255

#: The ways of a result to memory: through a tile in shared memory, or from the registers of its sums.
STORES = ("tma", "shared", "registers")


@dataclass(frozen=True)
class Form:
    """The formula of a product ``c[i, j] = sum(k, a[i, k]*b[k, j])``.

    :ivar a_transposed: *a* is stored as ``a[k, i]``; *b_transposed*: *b* as ``b[j, k]``.
    :ivar epilogue: the formula of an element of *c*, in terms of the sum ``total``; ``None``: the sum.
    :ivar batched: the matrices have a further first axis, with one product for each ``e``.
    """

    a_transposed: bool = False
    b_transposed: bool = False
    epilogue: str | None = None
    batched: bool = False

    def rows(self, shape: tuple[int, int, int]) -> tuple[int, int]:
        """The lengths of the rows of *a* and *b*."""
        n, m, steps = shape
        return n if self.a_transposed else steps, steps if self.b_transposed else m

    def kernel(self, dtype: np.dtype, result: np.dtype, *, turned: bool) -> lk.LoopKernel:
        """The kernel for factors of *dtype*, where ``insn`` has the sum; *turned*: with *b* as the left factor."""
        a, b = "k, i" if self.a_transposed else "i, k", "j, k" if self.b_transposed else "k, j"
        e, own = ("e, ", "0<=e<ne and ") if self.batched else ("", "")
        factors = f"a_rows({e}{a})", f"b_rows({e}{b})"
        knl = lk.make_kernel(f"{{[{e}i, j, k]: {own}0<=i<n and 0<=j<m and 0<=k<l}}", f"""
a_rows({e}row, column) := a[{e}row, column]
b_rows({e}row, column) := b[{e}row, column]
<> total = sum(k, {'*'.join(factors[::-1] if turned else factors)})  {{id=insn}}
c[{e}i, j] = {self.epilogue or 'total'}  {{id=result}}
""", [lk.GlobalArg("a", dtype), lk.GlobalArg("b", dtype), lk.GlobalArg("c", result), "..."],
                             name="batched_matmul" if self.batched else "matmul")
        require_epilogue(knl, "c", self.epilogue, {"a", "b", "k"})
        return lk.tag_inames(knl, {"e": "g.2"}) if self.batched else knl


def vectors_of_epilogue(knl: lk.LoopKernel, rows: int, columns: int) -> Mapping[str, str]:
    """The further arrays that the formula of *c* reads once for each row ``i`` or column ``j``, with that iname, as far
    as a thread has registers for their elements in a tile."""
    last = next(s for s in knl.statements if s.written == "c")
    reads = [(array_of(e), ", ".join(map(str, e.index_tuple))) for e in elements_of(last.expression, knl.array_args)]
    found = {name: index for name, index in reads if index in ("i", "j") and [x for x, _ in reads].count(name) == 1}
    # beside the sums, the elements of a few columns in turn, and addresses
    room = min(MOST, REGISTERS // (rows // ROWS)) - columns // 2 - 40
    across = [name for name, index in found.items() if index == "j"]
    return {name: index for name, index in found.items() if name not in across[max(room // (columns // 4), 0):]}


def require_epilogue(knl: lk.LoopKernel, array: str, epilogue: str | None, own: AbstractSet[str]) -> None:
    """:raises PreconditionError: the formula of the elements of *array* uses names that are the sum's *own*."""
    last = next(s for s in knl.statements if s.written == array)
    if epilogue is not None and (wrong := sorted(own & variables(last.expression))):
        of = [str(i) for i in last.subscripts]
        raise lk.PreconditionError(
            f"The epilogue '{epilogue}' cannot have '{wrong[0]}', which belongs to the sum.", subject="epilogue",
            hint=f"it has total, {', '.join(of)} and further arrays, such as bias[{of[-1]}]")


def stages_of_strips(rows: int, columns: int, stored: int, stages: int | None) -> int:
    """The strips of each factor in shared memory: *stages*, or as many as fit.

    :arg stored: the bytes of an element of the result in shared memory, of which two parts of a tile are there at
        once; 0: none is.
    """
    parts = min(2*ROW, columns*stored)*rows if stored else 0
    most = (DEVICE["warpgroups"]["shared_bytes"] - parts) // ((rows + columns)*ROW)
    found = max(min(most, DEVICE["warpgroups"]["most_stages"]), 2) if stages is None else stages
    if found < 2:
        raise lk.PreconditionError(f"Warpgroups need two strips of each factor or more, and not {found}.",
                                   subject="stages", hint="stages=2")
    return found


@dataclass(frozen=True)
class Tiling:
    """The tiles of a product, as far as the user names them.

    :ivar shape: the lengths of the product; *multiprocessors*: those of the GPU.
    :ivar products: the number of products of these lengths.
    """

    shape: tuple[int, int, int] | None
    multiprocessors: int | None
    tile: tuple[int, int] | None
    stages: int | None
    group: int | None
    products: int = 1

    def of_result(self, dtype: np.dtype, *, few: bool) -> tuple[int, int]:
        """The rows and the columns of a block's tile of the result; *few*: the tile may have fewer than 64 rows."""
        (rows, columns), = measured("warpgroups", tile=self.tile or self._fastest(dtype, few=few))
        require_tile(rows, columns, few=True)
        return rows, columns

    def turned(self) -> Tiling:
        """The tiling of the transposed result."""
        return self if self.shape is None else replace(self, shape=(self.shape[1], self.shape[0], self.shape[2]))

    def order(self, rows: int, columns: int, cluster: int) -> tuple[int, int]:
        """Rows of tiles that run column by column, and the number of blocks if each runs several tiles, else 0.

        The last group may have places without a tile. Blocks that run several places take the time of one there too.

        :arg cluster: the blocks of a cluster, of which each runs one tile; 1: there are no clusters.
        """
        group, = measured("warpgroups", group=self.group)
        if self.shape is None or cluster > 1:
            return group, 0
        (n, m, _), (multiprocessors,) = self.shape, measured("warpgroups", multiprocessors=self.multiprocessors)
        down, across = max(-(-n // rows), 1), max(-(-m // columns), 1)*self.products
        if down*across <= multiprocessors:
            return (group if self.group is not None else min(group, down)), 0
        some = [group] if self.group is not None else sorted(
            {min(x, down) for x in range(group // 2, 2*group + 1)}, key=lambda x: abs(x - group))
        return min(some, key=lambda x: -(-(-(-down // x)*x*across) // multiprocessors)), multiprocessors

    def cluster(self, rows: int, columns: int) -> int:
        """The blocks of a cluster that share copies of a *b* for which TMA is slow; 1: there are no clusters.

        The more blocks share a copy, the less they wait. But a cluster has blocks beyond the last tile too, and only so
        many multiprocessors run its blocks at once.
        """
        known, (multiprocessors,) = DEVICE["warpgroups"], measured("warpgroups", multiprocessors=self.multiprocessors)
        if self.shape is None or self.shape[0] <= known["reads_of_slow"]*COLUMNS:
            return 1
        down, across, near = -(-self.shape[0] // rows), -(-self.shape[1] // columns)*self.products, known["near"]

        def waves(blocks: int) -> int:
            at_once: int = multiprocessors if blocks == 1 else max(multiprocessors // near*near // blocks, 1)
            return -(-(-(-down // blocks)*across) // at_once)
        found = {int(x): float(time) for x, time in known["waves"].items()}
        return min((x for x in found if (self.group or x) % x == 0), key=lambda x: waves(x)*found[x])

    def _fastest(self, dtype: np.dtype, *, few: bool) -> tuple[int, int] | None:
        """The tile with which the last multiprocessor is done first; ``None``: the shape is not known."""
        if self.shape is None:
            return None
        n, m, steps = self.shape
        if few and n <= ROWS:
            return -(-n // FEW)*FEW, ROWS
        known, (multiprocessors,) = DEVICE["warpgroups"], measured("warpgroups", multiprocessors=self.multiprocessors)

        def time(tile: tuple[int, int], strip: int) -> tuple[int, int]:
            waves = -(-(self.products*-(-n // tile[0])*-(-m // tile[1])) // multiprocessors)
            return waves*(strip*-(-steps*dtype.itemsize // ROW) + known["block"]), -tile[1]
        found = [(rows, columns) for rows, columns in (map(int, x.split("x")) for x in known["strips"])]
        return min(zip(found, known["strips"].values(), strict=True), key=lambda x: time(*x))[0]


def product_by_warpgroups(dtype: np.dtype, result: npt.DTypeLike | None, form: Form, tiles: Tiling, whole: bool | None,
                          store: str | None) -> lk.LoopKernel:
    """The product *form*, as :func:`~loopkit.library.matmul`."""
    if dtype.name not in UNITS:
        raise lk.PreconditionError(f"wgmma does not multiply factors of {dtype}.", subject="dtype",
                                   hint=f"use one of {', '.join(UNITS)}, or leave out wgmma")
    unit, size = UNITS[dtype.name], dtype.itemsize
    if size != 2 and (form.a_transposed or not form.b_transposed):
        raise lk.PreconditionError(f"wgmma multiplies factors of {dtype} only if both are K-major.",
                                   subject="b_transposed", hint="store a as a[i, k] and b as b[j, k], contiguous along "
                                                                "k, with b_transposed=True")
    stored = known_dtype(unit.result if result is None else result)
    copied = [x for k, x in enumerate("ab") if whole or (whole is None and tiles.shape is not None and not for_tma(
        form.rows(tiles.shape)[k], dtype))]
    rows, columns = tiles.of_result(dtype, few=not form.a_transposed and store in (None, "registers"))
    # a product has 64 rows or more, but few columns: those are the rows of a tile with fewer
    turned = rows < ROWS
    store = store or ("registers" if turned else _way_of_result(tiles.shape, stored, whole=bool(copied)))
    _require_way(store, form, rows)
    (x, rows), (y, columns) = (("j", columns), ("i", rows)) if turned else (("i", rows), ("j", columns))
    slow = whole is None and not turned and tiles.shape is not None and _is_slow(form.rows(tiles.shape)[1], dtype)
    cluster = tiles.cluster(rows, columns) if slow else 1
    group, blocks = (tiles.turned() if turned else tiles).order(rows, columns, cluster)
    stages = stages_of_strips(rows, columns, 0 if store == "registers" else stored.itemsize, tiles.stages)
    steps = ROW // size
    knl = form.kernel(dtype, stored, turned=turned)
    vectors = vectors_of_epilogue(knl, rows, columns)
    # tiles are whole: TMA fills them with zeros beyond the edges
    knl = lk.pad_domain(knl, {x: rows*cluster, y: columns, "k": steps})
    for factor in copied:
        knl = _padded_copy(knl, factor, "i, k" if factor == "a" else "j, k", dtype)
    # a block has a tile, and a warpgroup 64 of its rows; blocks run column by column in groups of rows
    knl = lk.split_levels(
        knl, x, {f"{x}_group": None, f"{x}_block": group, f"{x}_warpgroup": rows // ROWS, f"{x}_box": ROWS},
        tags={f"{x}_group": "g.1", f"{x}_block": "g.0", f"{x}_warpgroup": "l.0"})
    knl = lk.split_levels(knl, y, {f"{y}_block": None, f"{y}_box": columns}, tags={f"{y}_block": "g.0"})
    knl = lk.split_levels(knl, "k", {"k_outer": None, "k_step": ROW // STEP, "k_box": STEP // size},
                          tags={"k_step": "unr"})
    knl = lk.prioritize_loops(knl, ("e, " if form.batched else "") + f"{x}_group, {y}_block, {x}_block, {x}_warpgroup, "
                                                                     f"k_outer, k_step, {x}_box, {y}_box")
    # one thread lets TMA copy the strips, whose rows of 128 bytes are swizzled as the matrix units read them
    of = {x: [f"{x}_warpgroup", f"{x}_box"], y: [f"{y}_box"]}
    knl = strip(knl, "a", [*of["i"], "k_step", "k_box"], ["a_k", "a_i"] if form.a_transposed else ["a_i", "a_k"])
    knl = strip(knl, "b", [*of["j"], "k_step", "k_box"], ["b_j", "b_k"] if form.b_transposed else ["b_k", "b_j"])
    # products are exact in the dtype of the sums, and a warpgroup computes them at once
    knl = lk.set_operand_precision(knl, "tf32") if dtype == np.float32 else lk.set_accumulator_dtype(knl, unit.sums)
    knl = lk.tensorize(knl, "insn", unit.of_warpgroup(columns))
    if store != "registers":
        # loads of all parts of the result are under way at once
        for array in vectors:
            knl = lk.add_prefetch(knl, array, temporary_address_space="private")
        along = [f"{array}_fetch" for array, iname in vectors.items() if iname == "j"]
        knl = parts_of_result(knl, "c", "j_box", stored, store, along=along)
    # a warp of its own copies strips as soon as there is room, also for the next tile of a block
    knl = lk.pipeline(knl, "k_outer", stages, temporaries=["a_tile", "b_tile"], ahead=0)
    knl = lk.specialize_warps(knl, ["a_tile_rule", "b_tile_rule"], registers=PRODUCER if rows > ROWS else 0)
    if cluster > 1:
        # blocks with the same columns share the copies of b, as the products wait for them
        return lk.cluster(knl, f"{x}_block", cluster)
    if not blocks:
        return knl
    if rows > ROWS and store != "registers" and form.epilogue is None and not form.batched:
        # a warpgroup multiplies while another one stores; an epilogue would keep the others waiting for longer
        knl = lk.take_turns(knl, "insn", "store_c")
    return lk.persistent(knl, blocks)


def _require_way(store: str, form: Form, rows: int) -> None:
    """:raises PreconditionError: the results of a tile with *rows* cannot go to memory in the way *store*, or it cannot
    have so few."""
    if store not in STORES:
        raise lk.PreconditionError(f"The result goes to memory by {', '.join(STORES)}, and not by {store!r}.",
                                   subject="store", hint=f"use one of {', '.join(map(repr, STORES))}")
    if rows < ROWS and form.a_transposed:
        raise lk.PreconditionError(f"Tiles of {rows} rows need an 'a' that is stored along the sums.", subject="tile",
                                   hint=f"tile=({ROWS}, {ROWS}, {ROW}), or store a as a[i, k]")
    if rows < ROWS and store != "registers":
        raise lk.PreconditionError(f"Tiles of {rows} rows go to memory by registers, and not by {store!r}.",
                                   subject="store", hint=f"store='registers', or tile=({ROWS}, {ROWS}, {ROW})")


def _padded_copy(knl: lk.LoopKernel, x: str, sweep: str, dtype: np.dtype) -> lk.LoopKernel:
    """A copy of a factor, padded with zeros to full tiles: its rows begin where TMA can read them."""
    width, across, items, vector = measured("padded_copy", columns=None, threads=None, items=None, vector=None)
    copy, row, column = f"{x}_whole", f"{x}_row", f"{x}_column"
    knl = lk.precompute(knl, f"{x}_padded", sweep, temporary_name=copy, precompute_inames=[row, column],
                        default_tag=None, dtype=dtype, temporary_address_space="global", allow_global_storage=True,
                        allow_launches=True)
    # threads load elements, since no vector divides the rows, and store vectors
    knl = lk.split_levels(knl, column, {f"{column}_block": None, f"{column}_thread": width, f"{column}_item": vector},
                          tags={f"{column}_block": "g.0", f"{column}_thread": "l.0", f"{column}_item": "unr"})
    knl = lk.split_levels(knl, row, {f"{row}_block": None, f"{row}_item": items, f"{row}_thread": across},
                          tags={f"{row}_block": "g.1", f"{row}_item": "unr", f"{row}_thread": "l.1"})
    return lk.buffer_array(knl, copy, f"{column}_item", within=f"writes:{copy}", temporary_name=f"{x}_items",
                           default_tag="vec")


def strip(knl: lk.LoopKernel, x: str, sweep: list[str], inames: list[str] | None = None, *, nest: str = ""
          ) -> lk.LoopKernel:
    """A strip of a factor, or of its copy, in shared memory, in boxes of rows of 128 bytes.

    :arg nest: the first letters of the names of the strip and of its rule.
    """
    tile, copy = f"{nest}{x}_tile", f"{x}_whole"
    if copy in knl.temporaries:
        return lk.add_prefetch(knl, copy, sweep, temporary_name=tile, dim_arg_names=inames, engine="tma", swizzle=ROW)
    return lk.precompute(knl, f"{nest}{x}_rows", sweep, temporary_name=tile, precompute_inames=inames, engine="tma",
                         swizzle=ROW, dtype=knl.data[x].dtype)


def parts_of_result(knl: lk.LoopKernel, c: str, columns: str, dtype: np.dtype, store: str, *, by_warps: bool = True,
                    along: Sequence[str] = ()) -> lk.LoopKernel:
    """Parts of a tile of *c* in shared memory, which TMA stores in boxes of rows of 128 bytes, or neighbouring threads
    do: one part is stored while threads compute the next one.

    :arg columns: the iname over all of them.
    :arg by_warps: each warp stores the part of its own rows, and waits for no other warp.
    :arg along: temporaries with a value for each column.
    """
    # the sums of a thread are values of their own, which later loops read part by part
    knl = lk.privatize(knl, f"{columns}_part", only_var_names=["total", *along])
    knl = lk.duplicate_inames(knl, f"{columns}_part", within="id:result", new_inames=f"{c}_column")
    knl = lk.split_iname(knl, f"{c}_column", ROW // dtype.itemsize // 8, outer_iname=f"{c}_part",
                         inner_iname=f"{c}_box", outer_tag="unr", inner_tag="unr")
    rows = ("" if by_warps else "i_warpgroup, i_box_warp, ") + "i_box_part, i_box_lane"
    swept = f"{rows}, {c}_box, {columns}_lane, {columns}_item"
    if f"{c}_tile" in knl.temporaries:
        # a tile has all parts, which statements store in a loop over 'part'
        knl = lk.prioritize_loops(knl, f"{c}_part, i_warpgroup, i_box_warp, i_box_lane, {columns}_lane, i_box_part, "
                                       f"{c}_box")
        knl = lk.contract(lk.fuse_loops(knl, f"{c}_part, part"), f"{c}_tile", f"{c}_part")
    elif store == "tma":
        knl = lk.store_via(knl, c, swept, temporary_name=f"{c}_tile", engine="tma", swizzle=ROW)
    else:
        knl = lk.buffer_array(knl, c, swept, temporary_name=f"{c}_tile", default_tag=None)
        knl = lk.split_levels(knl, f"{c}_store_1", {f"{c}_item": None, f"{c}_octet": 8, f"{c}_quad": 4},
                              tags={f"{c}_item": "unr", f"{c}_octet": "l.0", f"{c}_quad": "l.0"})
        knl = lk.tag_inames(knl, {f"{c}_store_0": "unr"})
    if store != "tma":
        knl = lk.swizzle(knl, f"{c}_tile", chunk=items_a_thread(np.dtype(knl.data[c].dtype)))
    return lk.pipeline(knl, f"{c}_part", 2, temporaries=[f"{c}_tile"], ahead=0, registers=False)


def _way_of_result(shape: tuple[int, int, int] | None, dtype: np.dtype, *, whole: bool) -> str:
    """The way of a result to memory; *whole*: the factors have rows that TMA cannot read."""
    return "tma" if (not whole if shape is None else for_tma(shape[1], dtype)) else "shared"


def for_tma(row: int, dtype: np.dtype) -> bool:
    """Does each of several rows of so many elements begin where TMA can read it?"""
    return row*dtype.itemsize % UNIT == 0


def _is_slow(row: int, dtype: np.dtype) -> bool:
    """Is TMA slow for rows of so many elements, and can read them?"""
    return for_tma(row, dtype) and row*dtype.itemsize % DEVICE["warpgroups"]["fast_unit"] != 0


def require_tile(rows: int, columns: int, *, few: bool = False) -> None:
    """:raises PreconditionError: warpgroups cannot compute a tile of these extents, or with *few* one of fewer rows."""
    of_rows = (FEW, ROWS - FEW) if few and rows < ROWS else (ROWS, 256)
    for what, length, part, most in (("rows", rows, *of_rows), ("columns", columns, 64, COLUMNS)):
        if require_positive(length, what) % part or length > most:
            raise lk.PreconditionError(f"A tile of warpgroups has a multiple of {part} {what}, at most {most}, and not "
                                       f"{length}.", subject=what,
                                       hint=f"use {', '.join(map(str, range(part, most, part)))} or {most}")
