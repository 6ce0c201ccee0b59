"""Sums over all other bodies."""
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loopkit.kernel.kernel import LoopKernel
from loopkit.language.make import make_kernel
from loopkit.library.defaults import checked
from loopkit.transform.data import add_dtypes
from loopkit.transform.iname import split_iname
from loopkit.transform.order import prioritize_loops
from loopkit.transform.prefetch import add_prefetch


def nbody(dtype: npt.DTypeLike = np.float32, *, softening: float = 0.01, threads: int = 128, bodies: int = 4,
          lanes: int = 4, unroll: int = 8) -> LoopKernel:
    """``phi[i] = sum(j, q[j]/sqrt(softening + |r[j] - r[i]|**2))``, the potential at bodies at ``x, y, z``.

    The bodies come past in tiles that a block copies to shared memory, so that one is loaded once for the whole
    block. From there each is loaded once for several bodies that a thread keeps in registers: a multiprocessor reads
    shared memory for a quarter of the pairs that it can compute. Fewer threads than bodies are few for a GPU;
    so some lanes of a warp share their bodies, each with its part of a tile, and shuffles add up what they found.

    :arg softening: keeps a body's own term finite.
    :arg threads: of a block, and bodies of a tile.
    :arg bodies: that a thread keeps.
    :arg lanes: threads that keep the same.
    :arg unroll: bodies of a tile that are one piece of code.

    >>> x, zeros, q = np.array([0, 3], np.float32), np.zeros(2, np.float32), np.array([1, 6], np.float32)
    >>> lk.library.nbody(softening=16)(x=x, y=zeros, z=zeros, q=q).phi
    array([1.45, 1.7 ], dtype=float32)
    """
    eps = float(softening)
    # the softening is the first term, so that each square is added by the instruction that multiplies
    # Whole blocks are computed: a guard of the last bodies would stand at each of their pairs, and their block would
    # be the last one to end by far.
    across = max(threads//lanes, 1)
    together = across*bodies
    knl = make_kernel(f"{{[i, j]: 0<=i<{together}*floor((n + {together - 1})/{together}) and 0<=j<n}}", f"""
        for i
            <> xi = if(i < n, x[i], 0)
            <> yi = if(i < n, y[i], 0)
            <> zi = if(i < n, z[i], 0)
            <> total = sum(j, q[j]*rsqrt({eps!r} + (x[j] - xi)**2 + (y[j] - yi)**2 + (z[j] - zi)**2))  {{id=phi}}
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
    knl = split_iname(knl, "j", threads)
    for name in "xyzq":
        knl = add_prefetch(knl, name, ["j_inner"], within="phi", temporary_name=f"{name}_tile",
                           fetch_outer_inames=["i_outer", "j_outer"])
    # of which each lane takes some at once, which lie side by side
    knl = split_iname(knl, "j_inner", lanes*unroll, outer_iname="j_group", inner_iname="j_some")
    knl = split_iname(knl, "j_some", unroll, outer_iname="j_lane", inner_iname="j_item", outer_tag="l.0",
                      inner_tag="unr")
    # what is loaded serves all bodies of the thread
    return prioritize_loops(knl, "j_outer, j_group, j_item, i_item")
