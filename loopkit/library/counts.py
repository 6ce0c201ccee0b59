"""Histograms: the number of occurrences of each value."""
from __future__ import annotations

import numpy as np
import numpy.typing as npt

import loopkit as lk
from loopkit.kernel.annotations import checked
from loopkit.kernel.target import WARP
from loopkit.library.defaults import items_a_thread, known_dtype, vector

#: Bytes of shared memory for a block's copies of the bins. Four blocks then fit on a multiprocessor.
MOST_BYTES = 40 << 10
_COPIES = (1, 2, 4, 8, 16, 32)


@checked
def histogram(dtype: npt.DTypeLike = np.uint8, *, bins: int = 256, blocks: int = 528, threads: int = 512,
              items: int = 2, copies: int | None = None) -> lk.LoopKernel:
    """``counts[k]``, the number of ``x[i]`` that equal the integer *k*; values outside ``0 <= k < bins`` do not count.

    Each block counts its elements in shared memory by atomic updates, and finally adds these counts to the result.
    Lanes wait for each other if they update one bin or one memory bank. A block therefore has several copies of the
    bins, with the copies of a bin side by side: with one copy per lane, each lane has a bank of its own.
    In each step all blocks together read one piece of memory, *items* vectors of 16 bytes per thread.

    :arg dtype: of *x*; an integer dtype.
    :arg blocks: of the launch; default: as many as run at once, four for each multiprocessor of an H200.
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
    length, warps = items_a_thread(known), threads // WARP
    rows, row = _rows(known, bins)
    if copies is None:
        copies = max((c for c in _COPIES if 4*rows*c <= MOST_BYTES), default=1)
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
    """The number of rows of the copies, and the row that counts ``x[...]``; the last row may count all other values."""
    info = np.iinfo(dtype)
    conditions = ["x[{0}] >= 0"]*(info.min < 0) + [f"x[{{0}}] < {bins}"]*(info.max >= bins)
    return (bins + 1, f"if({' and '.join(conditions)}, x[{{0}}], {bins})") if conditions else (bins, "x[{0}]")
