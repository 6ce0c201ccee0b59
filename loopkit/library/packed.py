"""Attention over sequences of several lengths, one after the other in one array."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as p

import loopkit as lk
from loopkit.kernel.annotations import checked
from loopkit.library.attention import _LEAST, Attention, on_warpgroups
from loopkit.library.defaults import known_dtype, measured


@checked
def packed_attention(dtype: npt.DTypeLike = "bfloat16", *, head: int, mask: str = "causal",
                     heads_shared: int | str = 1, scale: float | None = None, rows: int | None = None,
                     keys: int | None = None, stages: int | None = None) -> lk.LoopKernel:
    form = PackedAttention(known_dtype(dtype), head, mask, None, heads_shared, False, None, scale)
    form.require_known()
    tiles, stages = measured("masked_attention", tiles=None, stages=stages)
    length = min((x for x in tiles if int(x) >= head), key=int)
    rows, keys = rows or tiles[length][0], keys or tiles[length][1]
    form.require_tiles(rows, keys, stages)
    return on_warpgroups(form.kernel(rows, keys), form, rows, keys, stages, 0,
                         assume="tiles have queries of their own if starts does not decrease")


@dataclass(frozen=True)
class PackedAttention(Attention):
    """The formula."""

    def kernel(self, rows: int, keys: int) -> lk.LoopKernel:
        shared = self.heads_shared
        factor, score = self._score("", "")
        head = "0" if shared == "all" else "h" if shared == 1 else f"h // {shared}"
        heads = "key_heads = 1" if shared == "all" else f"heads = {shared}*key_heads"
        low = f"{factor!r}f*next"
        low = f"if(next <= {_LEAST}f, 0.0f, {low})" if self.mask != "full" and rows != keys else low
        last = "finish" if self.mask == "full" else f"(finish if finish < own + {rows} else own + {rows})"
        key = f"{keys}*(count - 1 - t)"
        queries = tuple(map(p.Variable, "batch heads n".split()))
        pairs = (p.Variable("batch"), p.Variable("key_heads"), p.Variable("n"), self.head)
        beyond = f"begin + {key} + j >= finish" if self.mask == "full" else f"begin + {key} + j > own + i"
        arrays = [lk.GlobalArg("q", self.dtype, shape=(*queries, self.head)),
                  lk.GlobalArg("k,v", self.dtype, shape=pairs),
                  lk.GlobalArg("starts", np.int32, shape=("sequences + 1",)),
                  lk.GlobalArg("o", self.dtype, shape=(*queries, self.head))]
        return lk.make_kernel([
            f"{{[z, x]: 0<=z and {rows}*z + {rows} <= n + {rows - 1}*sequences and 0<=x<sequences}}",
            f"{{[b, h, a, i, j, c, d, e]: 0<=b<batch and 0<=h<heads and 0<=a and "
            f"{rows}*a + {rows} <= n + {rows - 1}*sequences and 0<=i<{rows} and 0<=j,c<{keys} and 0<=d,e<{self.head}}}",
            "[count] -> {[t]: 0<=t<count}"], f"""
q_rows(b_, h_, row, column) := q[b_, h_, own + row, column] if own + row < n else 0
k_rows(b_, h_, row, column) := k[b_, h_, begin + {key} + row, column] if begin + {key} + row < n else 0
v_rows(b_, h_, row, column) := v[b_, h_, begin + {key} + row, column] if begin + {key} + row < finish else 0
for z
    <> before = 0
    <> first = 0
    <> low_ = 0
    <> high_ = 0
    for x
        <> tiles = (starts[x + 1] - starts[x] + {rows - 1}) // {rows}
        <> here = before <= z and z < before + tiles
        first = if(here, starts[x] + {rows}*(z - before), first)
        low_ = if(here, starts[x], low_)
        high_ = if(here, starts[x + 1], high_)
        before = before + tiles
    end
    <> tile_own[z] = first
    <> tile_begin[z] = low_
    <> tile_finish[z] = high_
end
for b, h, a
    <> own = tile_own[a]
    <> begin = tile_begin[a]
    <> finish = tile_finish[a]
    <> count = ({last} - begin + {keys - 1}) // {keys}
    for i
        <> top = {_LEAST}f  {{id=first_top}}
        <> total = 0.0f  {{id=first_total}}
        <> sums[e] = 0.0f  {{id=first_sums}}
        for t
            <> s[j] = {score.format(x=f"sum(d, q_rows(b, h, i, d)*k_rows(b, {head}, j, d))")}  {{id=scores}}
            s[j] = {_LEAST}f  {{id=mask, if={beyond}}}
            <> next = fmax(top, max(j, s[j]))  {{id=next}}
            <> low = {low}  {{id=low}}
            <> shrink = exp2_ftz({factor!r}f*top - low)  {{id=shrink}}
            <> w[j] = exp2_ftz({factor!r}f*s[j] - low)  {{id=weights}}
            total = total*shrink + sum(j, w[j])  {{id=total}}
            <{self.dtype.name}> p[j] = cast({self.dtype.name}, w[j])  {{id=factors}}
            sums[e] = sums[e]*shrink + sum(c, p[c]*v_rows(b, {head}, c, e))  {{id=sums}}
            top = next  {{id=top}}
        end
        o[b, h, own + i, e] = sums[e]/total  {{id=result, if=own + i < finish}}
    end
end
""", [*arrays, "..."], name="packed_attention",
            assumptions=f"batch, heads, key_heads, n, sequences >= 1 and {heads}")
