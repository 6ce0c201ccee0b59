"""Kernels whose tiles a producer thread copies, beside the threads that read them."""
from __future__ import annotations

import numpy as np

import loopkit as lk
from tests.deep import shared


@shared
def rows(slots: int, factors: str = "a", blocks: int = 0, *, store: str = "plain", height: int = 64,
         slots_of_last: int = 0, registers: int = 0) -> lk.LoopKernel:
    """The sums along the rows of the products of the elements of the *factors*, with a row for each thread.

    :arg slots: the tiles of a factor held at once; *slots_of_last*: those of the last factor, if they are others.
    :arg blocks: as many run all places of the grid; 0: a block for each.
    :arg store: the way of the sums to memory: ``"tma"``, or ``"plain"``.
    :arg registers: those of the producer.
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
    knl = lk.specialize_warps(knl, [f"{x}_tile_rule" for x in factors], registers=registers)
    return lk.persistent(knl, blocks) if blocks else knl


@shared
def twice_read(slots: int, blocks: int) -> lk.LoopKernel:
    """The sums of the rows of a matrix, plus twice those of the next row of a block: two loops read each tile."""
    knl = lk.make_kernel(
        ["{[io, ii]: 0<=64*io<n and 0<=ii<64}", "{[ko, ci, ck, k1, k2]: 0<=32*ko<l and 0<=ci<64 and 0<=ck,k1,k2<32}"],
        f"""
        for io
            <> u[ii] = 0  {{id=init}}
            for ko
                tile[ko % {slots}, ci, ck] = a[64*io + ci, 32*ko + ck] \
                    if 64*io + ci < n and 32*ko + ck < l else 0  {{id=copy}}
                u[ii] = u[ii] + tile[ko % {slots}, ii, k1]  {{id=own, dep=copy:init}}
                u[ii] = u[ii] + 2*tile[ko % {slots}, (ii + 1) % 64, k2]  {{id=next, dep=copy:own}}
            end
            s[64*io + ii] = u[ii]  {{if=64*io + ii < n, dep=next}}
        end
        """, [lk.TemporaryVariable("tile", np.float32, (slots, 64, 32), address_space="shared"),
              lk.TemporaryVariable("u", np.float32, (64,)), lk.GlobalArg("a", np.float32, "n, l"),
              lk.GlobalArg("s", np.float32, "n"), "..."], name="twice_read", assumptions="n >= 1 and l >= 1")
    knl = lk.tensorize(lk.tag_inames(knl, "io:g.0, ii:l.0"), "copy", "tma.load", "ci, ck")
    return lk.persistent(lk.specialize_warps(knl, "copy"), blocks)


@shared
def rows_of_data(slots: int, blocks: int) -> lk.LoopKernel:
    """The sums of 64 rows of a matrix for each block: its first row and its number of strips are read from memory."""
    knl = lk.make_kernel(["{[g, i]: 0<=g<groups and 0<=i<64}", "[steps] -> {[k]: 0<=k<32*steps}"], """
        a_rows(row, k) := a[top + row, k] if top + row < n and k < l else 0
        for g
            <> top = tops[g]
            <> steps = lengths[g]
            for i
                s[g, i] = sum(k, a_rows(i, k))
            end
        end
        """, [lk.GlobalArg("a", np.float32, "n, l"), lk.GlobalArg("tops, lengths", np.int32, "groups"), "..."],
                         name="rows_of_data", assumptions="groups, n, l >= 1")
    knl = lk.split_iname(lk.tag_inames(knl, "g:g.0, i:l.0"), "k", 32)
    knl = lk.precompute(knl, "a_rows", ["i", "k_inner"], temporary_name="a_tile", default_tag=None,
                        precompute_inames=["a_i", "a_k"], dtype="float32")
    knl = lk.pipeline(lk.tensorize(knl, "a_tile_rule", "tma.load"), "k_outer", slots, temporaries=["a_tile"], ahead=0)
    knl = lk.specialize_warps(knl, "a_tile_rule")
    return lk.persistent(knl, blocks) if blocks else knl
