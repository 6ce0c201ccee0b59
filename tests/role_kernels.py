"""Kernels whose tiles a producer thread copies, beside the threads that read them."""
from __future__ import annotations

import loopkit as lk


def rows(slots: int, factors: str = "a", blocks: int = 0, *, store: str = "plain", height: int = 64,
         slots_of_last: int = 0) -> lk.LoopKernel:
    """The sums along the rows of the products of the elements of the *factors*, with a row for each thread.

    :arg slots: the tiles of a factor held at once; *slots_of_last*: those of the last factor, if they are others.
    :arg blocks: as many run all places of the grid; 0: a block for each.
    :arg store: the way of the sums to memory: ``"tma"``, or ``"plain"``.
    """
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<l}", "\n".join(
        [f"{x}_rows(row, column) := {x}[row, column]" for x in factors]
        + [f"s[i] = sum(k, {'*'.join(f'{x}_rows(i, k)' for x in factors)})"]), name="rows")
    knl = lk.pad_domain(lk.add_dtypes(knl, dict.fromkeys(factors, "float32")), {"i": height, "k": 32})
    knl = lk.split_iname(knl, "i", height, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_iname(knl, "k", 32)
    for x in factors:
        knl = lk.precompute(knl, f"{x}_rows", ["i_inner", "k_inner"], temporary_name=f"{x}_tile", default_tag=None,
                            precompute_inames=[f"{x}_i", f"{x}_k"], dtype="float32")
        knl = lk.tensorize(knl, f"{x}_tile_rule", "tma.load")
    if store == "tma":
        knl = lk.buffer_array(knl, "s", ["i_inner"], temporary_name="s_tile", default_tag=None)
        knl = lk.tensorize(knl, "store_s", "tma.store")
    several = factors[:-1] if slots_of_last else factors
    for own, count in ((several, slots), (factors[len(several):], slots_of_last)):
        if own and count > 1:
            knl = lk.pipeline(knl, "k_outer", count, temporaries=[f"{x}_tile" for x in own], ahead=0)
    knl = lk.specialize_warps(knl, [f"{x}_tile_rule" for x in factors])
    return lk.persistent(knl, blocks) if blocks else knl
