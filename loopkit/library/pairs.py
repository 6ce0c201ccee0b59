"""Sums over all other bodies."""
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loopkit.kernel.kernel import LoopKernel
from loopkit.language.make import make_kernel
from loopkit.library.defaults import checked
from loopkit.transform.data import add_dtypes, set_options
from loopkit.transform.iname import split_iname
from loopkit.transform.order import prioritize_loops
from loopkit.transform.prefetch import precompute


def nbody(dtype: npt.DTypeLike = np.float32, *, softening: float = 0.01, threads: int = 128, bodies: int = 8,
          lanes: int = 8, unroll: int = 4, tile: int = 256) -> LoopKernel:
    """``phi[i] = sum(j, q[j]/sqrt(softening + |r[j] - r[i]|**2))``, the potential at bodies at ``x, y, z``.

    The bodies come past in tiles that a block copies to shared memory, so that one is loaded once for the whole
    block. From there each is loaded once for several bodies that a thread keeps in registers: a multiprocessor reads
    shared memory for a small part of the pairs that it can compute. Fewer threads than bodies are few for a GPU;
    so some lanes of a warp share their bodies, each with its part of a tile, and shuffles add up what they found.

    What is known of a body lies side by side in a tile, so that it comes in one vector load.

    Blocks and tiles are filled up with bodies of no charge, so that no pair has a guard: a guarded block would be the
    last one to end by far.

    :arg softening: keeps a body's own term finite.
    :arg threads: of a block.
    :arg bodies: that a thread keeps.
    :arg lanes: threads that keep the same.
    :arg unroll: bodies of a tile that are one piece of code.
    :arg tile: bodies that are copied to shared memory at once, a multiple of what the lanes take.

    >>> x, zeros, q = np.array([0, 3], np.float32), np.zeros(2, np.float32), np.array([1, 6], np.float32)
    >>> lk.library.nbody(softening=16)(x=x, y=zeros, z=zeros, q=q).phi
    array([1.45, 1.7 ], dtype=float32)
    """
    eps = float(softening)
    across = max(threads//lanes, 1)
    together = across*bodies
    # the softening is the first term, so that each square is added by the instruction that multiplies
    knl = make_kernel(f"{{[i, j]: 0<=i<{_up_to_whole(together)} and 0<=j<{_up_to_whole(tile)}}}", f"""
        part(k, c) := if(k < n, if(c == 0, x[k], if(c == 1, y[k], if(c == 2, z[k], q[k]))), 0)
        for i
            <> xi = if(i < n, x[i], 0)
            <> yi = if(i < n, y[i], 0)
            <> zi = if(i < n, z[i], 0)
            <> total = sum(j, part(j, 3)*rsqrt({eps!r} + (part(j, 0) - xi)**2 + (part(j, 1) - yi)**2
                                               + (part(j, 2) - zi)**2))  {{id=phi}}
            if i < n
                phi[i] = total
            end
        end
        """, name="nbody")
    knl = add_dtypes(knl, {"x,y,z,q,phi": checked(dtype)})
    # a block has a piece of the bodies, a thread some of them
    knl = split_iname(knl, "i", together, outer_tag="g.0")
    knl = split_iname(knl, "i_inner", across, outer_iname="i_item", inner_iname="i_thread", outer_tag="unr",
                      inner_tag="l.1")
    # the others come in tiles
    knl = split_iname(knl, "j", tile)
    knl = precompute(knl, "part", ["j_inner"], within="phi", temporary_name="others",
                     precompute_inames=["other", "other_part"], precompute_outer_inames=["i_outer", "j_outer"])
    # of which lanes side by side take bodies side by side
    knl = split_iname(knl, "j_inner", lanes*unroll, outer_iname="j_group", inner_iname="j_some")
    knl = split_iname(knl, "j_some", lanes, outer_iname="j_item", inner_iname="j_lane", outer_tag="unr",
                      inner_tag="l.0")
    # what is loaded serves all bodies of the thread
    knl = prioritize_loops(knl, "j_outer, j_group, j_item, i_item")
    # whole blocks have no guard to save but that of their results
    return set_options(knl, full_tiles=False)


def _up_to_whole(size: int) -> str:
    """``n`` rounded up to a multiple of *size*, as a bound."""
    return f"{size}*floor((n + {size - 1})/{size})"
