"""N-body potentials: sums over all pairs of bodies."""
from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

import loopkit as lk
from loopkit.kernel.annotations import checked
from loopkit.kernel.target import WARP
from loopkit.library.defaults import known_dtype, measured
from loopkit.transform.step import require_positive


@checked
def nbody(dtype: npt.DTypeLike = np.float32, *, softening: float = 0.01, bodies: int | None = None,
          warps: int | None = None, unroll: int | None = None) -> lk.LoopKernel:
    """A kernel for the potential ``phi[i] = sum(j, q[j]/sqrt(softening + |r[j] - r[i]|**2))`` of bodies.

    The bodies have the positions ``r[i] = (x[i], y[i], z[i])`` and the charges ``q[i]``.

    The distance of two bodies is symmetric to the last bit, so the root for a pair is computed once and added to the
    sums of both bodies. Each body is paired with the bodies of its own tile and of all later tiles.

    All lanes of a warp keep the same *bodies* bodies in registers, with a part of their sums. Each lane takes one other
    body at a time and sums its terms over the kept bodies. One atomic update of *phi* then serves many pairs. A first
    launch stores the position and the charge of each body in adjacent cells, so that one vector load reads them. Atomic
    updates run in any order, so last bits may differ from run to run. :func:`nbody_direct` is deterministic.

    :arg softening: keeps a body's own term finite.
    :arg bodies: the number of bodies that a warp keeps.
    :arg warps: the number of warps of a block.
    :arg unroll: the number of bodies that a lane takes at once.

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
    """A kernel for the potential of :func:`nbody` that gives the same bits in each run: it computes each pair twice.

    A block copies the bodies tile by tile to shared memory, with the position and the charge of a body in adjacent
    cells. A thread loads each body from there once for all the bodies that it keeps in registers. There are often too
    few bodies for one thread each. So several lanes share their bodies: each takes a part of each tile, and shuffles
    add up the sums.

    A block takes only some of the tiles, so that many blocks balance the load, and a second launch adds up the parts.
    Blocks and tiles are padded with bodies of zero charge, so no pair has a guard.

    :arg softening: keeps a body's own term finite.
    :arg threads: the number of threads of a block.
    :arg bodies: the number of bodies that a thread keeps.
    :arg lanes: the number of threads that keep the same bodies.
    :arg unroll: the number of bodies of a tile in one unrolled piece of code.
    :arg tile: the number of bodies copied to shared memory at once, a multiple of *lanes* times *unroll*.
    :arg parts: the number of blocks that share the tiles.

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
