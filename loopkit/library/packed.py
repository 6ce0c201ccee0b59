"""Attention over sequences of any lengths, one after the other in one array, by the warpgroups of Hopper."""
from __future__ import annotations

from dataclasses import dataclass
from textwrap import indent

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as p

import loopkit as lk
from loopkit.kernel.annotations import checked
from loopkit.library.attention import Attention, on_warpgroups
from loopkit.library.defaults import known_dtype, measured
from loopkit.library.tiles import rows_of_tiles, table_of_tiles


@checked
def packed_attention(dtype: npt.DTypeLike = "bfloat16", *, head: int, mask: str = "causal",
                     heads_shared: int | str = 1, scale: float | None = None, rows: int | None = None,
                     keys: int | None = None, stages: int | None = None) -> lk.LoopKernel:
    """A kernel for attention within each of several sequences, with the results of :func:`attention` for each of them.

    Sequence ``s`` has the queries and keys ``starts[s] <= i, j < starts[s + 1]``. The array ``starts[sequences + 1]``
    of int32 does not decrease from 0 to at most *n*, and sequences may be empty. Results of other queries stay as they
    are.

    A first launch computes a table of tiles of queries: the first query of each tile, and the start and the end of its
    sequence. A block takes a tile from the table, and runs over the keys of its sequence alone: none, if there is no
    such tile. TMA copies zeros in place of values behind the end of a sequence, so that a NaN or an infinity in the
    next one does no harm. The kernel is for GPUs of ``CudaTarget("sm_90a")``.

    The arrays are ``q[batch, heads, n, head]``, ``k[batch, key_heads, n, head]``, *v* like *k* and *o* like *q*.
    Their last stride is 1 element, and the others are multiples of 16 bytes: for ``x[n, heads, head]`` pass
    ``x.transpose(0, 1)[None]``.

    :arg dtype: as for :func:`attention`; so are the arguments without a description here.
    :arg mask: ``"causal"``: the keys up to the query count; ``"full"``: all of its sequence.
    :raises PreconditionError: an argument cannot have such a value.

    >>> knl = lk.library.packed_attention(head=64)
    >>> print(*knl.argument_by_name["starts"].shape)
    sequences + 1
    """
    form = PackedAttention(known_dtype(dtype), head, mask, scale, None, heads_shared, False, None)
    form.require_known()
    tiles, stages = measured("masked_attention", tiles=None, stages=stages)
    length = min((x for x in tiles if int(x) >= head), key=int)
    rows, keys = rows or tiles[length][0], keys or tiles[length][1]
    form.require_tiles(rows, keys, stages)
    knl = on_warpgroups(form.kernel(rows, keys), form, rows, keys, stages, 0, 0,
                        assume="tiles have queries of their own if starts does not decrease")
    return lk.split_iname(knl, "z", 128, outer_tag="g.0", inner_tag="l.0")


@dataclass(frozen=True)
class PackedAttention(Attention):
    """The formula of attention within sequences."""

    def kernel(self, rows: int, keys: int) -> lk.LoopKernel:
        """The kernel for tiles of so many queries and keys."""
        # tiles run from the last one on, in which scores of keys beyond the end are replaced
        key = f"start + {keys}*(count - 1 - t)"
        last = "stop" if self.mask == "full" else f"if(stop < first + {rows}, stop, first + {rows})"
        starts = lk.GlobalArg("starts", np.dtype(np.int32), shape=(p.Variable("sequences") + 1,))
        domain, table = table_of_tiles(rows, "sequences", "starts[x]", "starts[x + 1]", "group_start")
        return lk.make_kernel([
            domain, f"{{[b, h, a, i, j, c, d, e]: 0<=b<batch and 0<=h<heads and "
            f"{rows_of_tiles('a', rows, 'sequences')} and 0<=i<{rows} and 0<=j,c<{keys} and 0<=d,e<{self.head}}}",
            "[count] -> {[t]: 0<=t<count}"], f"""
q_rows(b_, h_, row, column) := q[b_, h_, first + row, column] if first + row < n else 0
k_rows(b_, h_, row, column) := k[b_, h_, {key} + row, column] if {key} + row < n else 0
v_rows(b_, h_, row, column) := v[b_, h_, {key} + row, column] if {key} + row < stop else 0
{table}
for b, h, a
    <> start = tile_own[a]
    <> first = tile_first[a]
    <> stop = tile_stop[a]
    <> count = ({last} - start + {keys - 1}) // {keys}
    for i
{indent(self.of_query("first + i", key, ("i", ""), ("stop", "stop"), square=rows == keys), "    ")}
    end
end
""", self.arguments("n", starts), name="packed_attention", assumptions=self.assumptions("sequences"))
