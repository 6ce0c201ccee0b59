"""Sums over all elements, over rows, columns and pairs of bodies, and histograms; shared sums take two launches."""
from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

import loopkit as lk
from loopkit.kernel.annotations import checked
from loopkit.kernel.target import WARP
from loopkit.library.defaults import in_vectors, items_a_thread, known_dtype, measured, vector, vector_of_rows
from loopkit.transform.step import require_positive


@checked
def full_sum(dtype: npt.DTypeLike = np.float32, *, blocks: int | None = None, threads: int | None = None,
             items: int | None = None) -> lk.LoopKernel:
    """``s[0]``, the sum of all ``x[i]``: *blocks* partial sums, and their sum in a second launch.

    The number of blocks is fixed, so the second launch has little work for any length of *x*. In each step all blocks
    together read one piece of memory, *items* vectors of 16 bytes per thread.

    :arg blocks: of the first launch, about as many as run at once; they are the terms of the second.
    :arg threads: of a block.
    :arg items: concurrent loads per thread.

    >>> lk.library.full_sum()(x=np.arange(5, dtype=np.float32)).s
    array([10.], dtype=float32)
    """
    known = known_dtype(dtype)
    blocks, threads, items = measured("full_sum", blocks=blocks, threads=threads, items=items)
    length = items_a_thread(known)
    step = threads*items*length
    place = f"{step*blocks}*r + {step}*b + {threads*length}*u + {length}*t + v"
    knl = lk.make_kernel(
        [f"{{[b, c]: 0<=b,c<{blocks}}}",
         f"[b] -> {{[r, u, t, v]: 0<=r and 0<=u<{items} and 0<=t<{threads} and 0<=v<{length} and {place} < n}}"],
        f"""
        for b
            <> partial[b] = sum([r, u, t, v], x[{place}])  {{id=partial}}
        end
        s[0] = sum(c, partial[c])  {{id=total}}
        """, name="full_sum")
    knl = lk.add_dtypes(knl, {"x,s": known})
    knl = lk.tag_inames(knl, {"b": "g.0", "t": "l.0", "u": "unr", "v": vector(length)})
    knl = lk.split_iname(knl, "c", threads, inner_tag="l.0")
    return lk.add_barrier(knl, "partial", "total.c.init")


@checked
def row_sum(dtype: npt.DTypeLike = np.float32, *, columns: int | None = None, threads: int | None = None
            ) -> lk.LoopKernel:
    """``s[i]``, the sum of row *i* of *x*; a block has a row.

    :arg columns: length of the rows, so that all loads of a thread run concurrently, in the longest vectors of up to 16
        bytes that divide the length; default: any, given by the arrays of a call.
    :arg threads: of a block; each adds up a part of the row, and shuffles add up the parts.

    >>> lk.library.row_sum()(x=np.ones((2, 3), np.float32)).s
    array([3., 3.], dtype=float32)
    """
    known = known_dtype(dtype)
    threads, = measured("row_sum", threads=threads)
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "s[i] = sum(j, x[i, j])", name="row_sum")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x,s": known}), {"i": "g.0"})
    if columns is None:
        return lk.split_iname(knl, "j", threads, inner_tag="l.0")
    knl = lk.fix_parameters(knl, m=columns)
    return in_vectors(knl, "j", vector_of_rows(columns, known), threads, outer_tag="unr")


@checked
def column_sum(dtype: npt.DTypeLike = np.float32, *, rows: int | None = None, threads: tuple[int, int] | None = None,
               items: int | None = None) -> lk.LoopKernel:
    """``s[j]``, the sum of column *j* of *x*: sums over *rows* rows each, and their sum in a second launch.

    A warp reads a piece of a row. As there are too few columns to occupy all threads of a GPU, several blocks share a
    column, and so do threads of a block.

    :arg rows: that a block adds up.
    :arg threads: of a block, along a row and across the rows.
    :arg items: concurrent loads per thread.

    >>> lk.library.column_sum()(x=np.ones((2, 3), np.float32)).s
    array([2., 2., 2.], dtype=float32)
    """
    rows, (along, across), items = measured("column_sum", rows=rows, threads=threads, items=items)
    knl = lk.make_kernel(
        [f"{{[b, j]: 0<=j<m and 0<=b and {rows}*b<n}}", f"[b] -> {{[i]: {rows}*b<=i<n and i<{rows}*b + {rows}}}",
         f"{{[k, c]: 0<=k<m and 0<=c and {rows}*c<n}}"],
        """
        for b, j
            <> partial[b, j] = sum(i, x[i, j])  {id=partial}
        end
        for k
            s[k] = sum(c, partial[c, k])  {id=total}
        end
        """, name="column_sum")
    knl = lk.add_dtypes(knl, {"x,s": known_dtype(dtype)})
    # a block has some rows, and as many columns as a warp has threads
    knl = lk.tag_inames(knl, {"b": "g.1"})
    knl = lk.split_iname(knl, "j", along, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_levels(knl, "i", {"i_outer": None, "i_item": items, "i_thread": across},
                          tags={"i_item": "unr", "i_thread": "l.1"})
    knl = lk.split_iname(knl, "k", along, outer_tag="g.0", inner_tag="l.0")
    return lk.add_barrier(knl, "partial", "total.c.init")


_COPIES = (1, 2, 4, 8, 16, 32)


@checked
def histogram(dtype: npt.DTypeLike = np.uint8, *, bins: int = 256, blocks: int | None = None,
              threads: int | None = None, items: int | None = None, copies: int | None = None) -> lk.LoopKernel:
    """``counts[k]``, the number of ``x[i]`` that equal the integer *k*; values outside ``0 <= k < bins`` do not count.

    Each block counts its elements in shared memory by atomic updates, and finally adds these counts to the result. It
    has several copies of the bins, those of a bin side by side: with one per lane, each lane has a bank of its own. In
    each step all blocks together read one piece of memory, *items* vectors of 16 bytes per thread.

    :arg dtype: of *x*; an integer dtype.
    :arg blocks: of the launch; default: as many as run at once.
    :arg threads: of a block.
    :arg items: concurrent loads per thread.
    :arg copies: of the bins in a block, a power of two; default: one per lane, or as many as shared memory holds.
    :raises PreconditionError: *dtype* is not an integer dtype, or *threads* or *copies* do not form whole warps.

    >>> lk.library.histogram(bins=6)(x=np.array([1, 3, 3, 5, 9], np.uint8)).counts
    array([0, 1, 0, 2, 0, 1], dtype=int32)
    """
    known = known_dtype(dtype)
    if known.kind not in "iu":
        raise lk.PreconditionError(f"A histogram counts integers, not {known}.", subject=str(known),
                                   hint="divide the range into bins first, and round")
    blocks, threads, items, most = measured(
        "histogram", blocks=blocks, threads=threads, items=items, bytes_of_copies=None)
    length, warps = items_a_thread(known), threads // WARP
    rows, row = _rows(known, bins)
    if copies is None:
        copies = max((c for c in _COPIES if 4*rows*c <= most), default=1)
    if copies not in _COPIES or threads % WARP:
        raise lk.PreconditionError(f"{copies} copies for {threads} threads are not made of warps.", subject="copies",
                                   hint=f"copies are one of {', '.join(map(str, _COPIES))}, threads whole warps")
    step = threads*items
    start = f"{length}*({step*blocks}*r + {step}*b + {threads}*u + {WARP}*w + {copies}*h + c)"
    place, rest = f"{start} + v", f"n - n % {length} + s"
    knl = lk.make_kernel(
        [f"{{[b, y, z, k, l, d, e]: 0<=b<{blocks} and 0<=y,k,l<{bins} and 0<=z<{rows} and 0<=d,e<{copies}}}",
         f"[b] -> {{[r, u, w, h, c, v]: 0<=r and 0<=u<{items} and 0<=w<{warps} and 0<=h<{WARP // copies} "
         f"and 0<=c<{copies} and 0<=v<{length} and {start} + {length} <= n}}",
         f"[b] -> {{[s]: 0<=s and b=0 and {rest} < n}}"],
        f"""
        counts[y] = 0  {{id=clear}}
        for b
            part[z, d] = 0  {{id=zero}}
            part[{row.format(place)}, c] = part[{row.format(place)}, c] + 1  {{id=count, atomic}}
            part[{row.format(rest)}, 0] = part[{row.format(rest)}, 0] + 1  {{id=rest, atomic}}
            <> total[k] = sum(e, part[k, e])
            counts[l] = counts[l] + total[l]  {{id=add, atomic}}
        end
        """, [lk.GlobalArg("x", known), lk.GlobalArg("counts", np.dtype(np.int32), shape=(bins,)),
              lk.TemporaryVariable("part", np.dtype(np.int32), (rows, copies), lk.AddressSpace.LOCAL), "..."],
        name="histogram", assumptions="n>=0")
    knl = lk.tag_inames(knl, {"b": "g.0", "w": "l.1", **dict.fromkeys("hcdes", "l.0"), "u": "unr", "v": vector(length)})
    knl = lk.split_iname(knl, "z", warps, inner_tag="l.1")
    # the lanes of a warp add up the copies of a bin; each lane then has one bin, and one request updates 32 neighbours
    knl = lk.split_iname(knl, "k", warps, inner_tag="l.1")
    knl = lk.split_levels(knl, "l", {"l_outer": None, "l_warp": warps, "l_lane": WARP},
                          tags={"l_warp": "l.1", "l_lane": "l.0"})
    knl = lk.split_iname(knl, "y", WARP, outer_tag="g.0", inner_tag="l.0")
    return lk.add_barrier(knl, "clear", "zero")


def _rows(dtype: np.dtype, bins: int) -> tuple[int, str]:
    """The number of rows of the copies, and the row that counts ``x[...]``: the last for other values."""
    info = np.iinfo(dtype)
    conditions = ["x[{0}] >= 0"]*(info.min < 0) + [f"x[{{0}}] < {bins}"]*(info.max >= bins)
    return (bins + 1, f"if({' and '.join(conditions)}, x[{{0}}], {bins})") if conditions else (bins, "x[{0}]")


@checked
def nbody(dtype: npt.DTypeLike = np.float32, *, softening: float = 0.01, bodies: int | None = None,
          warps: int | None = None, unroll: int | None = None) -> lk.LoopKernel:
    """``phi[i] = sum(j, q[j]/sqrt(softening + |r[j] - r[i]|**2))``, the potential at bodies at ``x, y, z``.

    The distance of two bodies is symmetric to the last bit, so the root of a pair is computed once and added to the
    sums of both bodies. Each body is paired with the bodies of its own tile and of all later tiles.

    All lanes of a warp keep the same *bodies* bodies, with a part of their sums in registers. Each lane takes one other
    body at a time. It sums the terms of that body over the kept bodies, so that one atomic update of *phi* serves many
    pairs. A first launch stores position and charge of each body side by side, so one vector load reads both.
    Atomic updates run in any order, so last bits may differ from run to run. :func:`nbody_direct` is deterministic.

    :arg softening: keeps a body's own term finite.
    :arg bodies: kept by a warp.
    :arg warps: of a block.
    :arg unroll: bodies that a lane takes at once.

    >>> x, zeros, q = np.array([0, 3], np.float32), np.zeros(2, np.float32), np.array([1, 6], np.float32)
    >>> lk.library.nbody(softening=16)(x=x, y=zeros, z=zeros, q=q).phi
    array([1.45, 1.7 ], dtype=float32)
    """
    known, eps = known_dtype(dtype), float(softening)
    bodies, warps, unroll = measured("nbody", bodies=bodies, warps=warps, unroll=unroll)
    parts = "vec" if known.itemsize == 4 else "unr"
    kept = require_positive(bodies, "bodies")*require_positive(warps, "warps")
    along = WARP*require_positive(unroll, "unroll")
    tile = math.lcm(kept, along)
    # the softening is the first term, so that a fused multiply-add adds each square
    knl = lk.make_kernel(["{[k, c]: 0<=k<n and 0<=c<4}", "{[i]: 0<=i<n}",
                          f"[i] -> {{[j]: {tile}*floor(i/{tile})<=j<n}}"], f"""
        for k
            phi[k] = 0  {{id=clear}}
            <> body[k, c] = if(c == 0, x[k], if(c == 1, y[k], if(c == 2, z[k], q[k])))
        end
        for i
            <> xi = x[i]
            <> yi = y[i]
            <> zi = z[i]
            <> qi = q[i]
            for j
                <> root = rsqrt({eps!r} + (body[j, 0] - xi)**2 + (body[j, 1] - yi)**2 + (body[j, 2] - zi)**2)
                phi[i] = phi[i] + body[j, 3]*root  {{id=at_i, atomic}}
                if j >= {tile}*(i//{tile}) + {tile}
                    phi[j] = phi[j] + qi*root  {{id=at_j, atomic}}
                end
            end
        end
        """, name="nbody")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x,y,z,q,phi": known}), {"c": parts})
    knl = lk.split_iname(knl, "k", WARP*warps, outer_tag="g.0", inner_tag="l.0")
    # a block keeps a piece of the bodies, a warp some of them
    knl = lk.split_levels(knl, "i", {"i_outer": None, "i_warp": warps, "i_item": bodies},
                          tags={"i_outer": "g.0", "i_warp": "l.1", "i_item": "unr"})
    # the lanes iterate over the other bodies; a lane's load is used for all bodies that its warp keeps
    knl = lk.split_levels(knl, "j", {"j_outer": None, "j_item": unroll, "j_lane": WARP},
                          tags={"j_item": "unr", "j_lane": "l.0"})
    knl = lk.prioritize_loops(knl, "j_outer, j_item, i_item")
    # one vector load right before its use
    knl = lk.add_prefetch(knl, "body", dim_arg_names=["part"], default_tag=parts, temporary_name="other",
                          fetch_outer_inames=["i_outer", "i_warp", "j_outer", "j_item", "j_lane"])
    # one update for many pairs
    knl = lk.buffer_array(knl, "phi", "i_item", within="at_j", default_tag=None)
    knl = lk.buffer_array(knl, "phi", "j_outer, j_item, i_item", within="at_i", default_tag="unr")
    # only a body's own tile needs the condition j >= ...
    return lk.peel(knl, "j_outer", first=tile//along)


@checked
def nbody_direct(dtype: npt.DTypeLike = np.float32, *, softening: float = 0.01, threads: int | None = None,
                 bodies: int | None = None, lanes: int | None = None, unroll: int | None = None,
                 tile: int | None = None, parts: int | None = None) -> lk.LoopKernel:
    """The potential of :func:`nbody`, with each pair computed twice and summed in one order: the same bits in each run.

    A block copies the bodies tile by tile to shared memory, position and charge of a body side by side. A thread loads
    each body from there once for all the bodies that it keeps in registers. As there are often too few bodies for one
    thread each, several lanes share their bodies: each takes a part of each tile, and shuffles add up the sums.

    A block takes only some of the tiles: many blocks balance the load, and a second launch adds up the parts. Blocks
    and tiles are padded with bodies of zero charge, so no pair has a guard.

    :arg softening: keeps a body's own term finite.
    :arg threads: of a block.
    :arg bodies: kept by a thread.
    :arg lanes: threads that keep the same bodies.
    :arg unroll: bodies of a tile in one unrolled piece of code.
    :arg tile: bodies that are copied to shared memory at once, a multiple of *lanes* times *unroll*.
    :arg parts: blocks that share the tiles.

    >>> x, zeros, q = np.array([0, 3], np.float32), np.zeros(2, np.float32), np.array([1, 6], np.float32)
    >>> lk.library.nbody_direct(softening=16)(x=x, y=zeros, z=zeros, q=q).phi
    array([1.45, 1.7 ], dtype=float32)
    """
    known, eps = known_dtype(dtype), float(softening)
    threads, bodies, lanes, unroll, tile, parts = measured(
        "nbody_direct", threads=threads, bodies=bodies, lanes=lanes, unroll=unroll, tile=tile, parts=parts)
    across = max(threads//lanes, 1)
    together = across*bodies
    at = f"{tile*require_positive(parts, 'parts')}*t + {tile}*p + j"
    knl = lk.make_kernel(
        [f"{{[i, p]: 0<=i<{together}*floor((n + {together - 1})/{together}) and 0<=p<{parts}}}",
         f"[p] -> {{[t, j]: 0<=t and {tile*parts}*t + {tile}*p < n and 0<=j<{tile}}}",
         f"{{[k, r]: 0<=k<n and 0<=r<{parts}}}"],
        f"""
        of(k, c) := if(k < n, if(c == 0, x[k], if(c == 1, y[k], if(c == 2, z[k], q[k]))), 0)
        for i, p
            <> xi = if(i < n, x[i], 0)
            <> yi = if(i < n, y[i], 0)
            <> zi = if(i < n, z[i], 0)
            <> partial[p, i] = sum([t, j], of({at}, 3)*rsqrt({eps!r} + (of({at}, 0) - xi)**2 + (of({at}, 1) - yi)**2
                                                             + (of({at}, 2) - zi)**2))  {{id=partial}}
        end
        phi[k] = sum(r, partial[r, k])  {{id=total}}
        """, name="nbody_direct")
    knl = lk.add_dtypes(knl, {"x,y,z,q,phi": known})
    knl = lk.split_iname(knl, "k", threads, outer_tag="g.0", inner_tag="l.0")
    # a block has a piece of the bodies, a thread some of them
    knl = lk.split_iname(knl, "i", together, outer_tag="g.0")
    knl = lk.split_iname(knl, "i_inner", across, outer_iname="i_item", inner_iname="i_thread", outer_tag="unr",
                         inner_tag="l.1")
    # a block copies the other bodies tile by tile; a thread copies all components of a body
    knl = lk.prioritize_loops(knl, "p, t, i_item")
    knl = lk.precompute(knl, "of", ["j"], within="partial", temporary_name="others", default_tag=None,
                        precompute_inames=["other", "other_part"], precompute_outer_inames=["i_outer", "p", "t"])
    knl = lk.tag_inames(knl, {"p": "g.1", "other": "l.auto", "other_part": "vec" if known.itemsize == 4 else "unr"})
    # neighbouring lanes take neighbouring bodies of the tile
    knl = lk.split_levels(knl, "j", {"j_group": None, "j_item": unroll, "j_lane": lanes},
                          tags={"j_item": "unr", "j_lane": "l.0"})
    # each load is used for all bodies of the thread
    knl = lk.prioritize_loops(knl, "t, j_group, j_item, i_item")
    # full blocks have no guard to fold except that of their results
    return lk.set_options(lk.add_barrier(knl, "partial", "total"), full_tiles=False)
