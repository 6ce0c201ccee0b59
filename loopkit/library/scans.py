"""Prefix sums of an array and of rows."""
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loopkit.kernel.data import TemporaryVariable
from loopkit.kernel.kernel import LoopKernel
from loopkit.language.make import make_kernel
from loopkit.library.defaults import MOST_THREADS, THREADS, checked, items_a_thread
from loopkit.transform.barrier import add_barrier
from loopkit.transform.data import add_dtypes
from loopkit.transform.expansion import contract
from loopkit.transform.iname import split_iname
from loopkit.transform.scan import realize_scan
from loopkit.transform.tags import tag_inames


def scan(dtype: npt.DTypeLike = np.float32, *, threads: int = THREADS, tiles: int = 32) -> LoopKernel:
    known = checked(dtype)
    items = items_a_thread(known)
    tile, most = threads*items, MOST_THREADS
    chunk = tile*tiles
    under_way = min(tiles, 4)
    first = f"{chunk}*b + {tile*under_way}*g + {tile}*u + {items}*j"
    place = f"{chunk}*b + {tile}*r + {items}*i"
    knl = make_kernel(
        [f"{{[b]: 0<=b and {chunk}*b<n}}",
         f"[b] -> {{[r]: 0<=r<{tiles} and {chunk}*b + {tile}*r < n}}",
         f"[b, r] -> {{[i]: 0<=i<{threads} and {place} < n}}",
         f"[b, r, i] -> {{[v]: 0<=v<{items} and {place} + v < n}}",
         f"[b, r, i] -> {{[w]: 0<=w<{items} and {place} + w < n}}",
         "[i] -> {[h]: 0<=h<i}", "[w] -> {[k]: 0<=k<=w}", "[r] -> {[o]: 0<=o<r}",
         f"[b] -> {{[g, u]: 0<=g and 0<=u<{under_way} and {under_way}*g + u < {tiles}}}",
         f"[b, g, u] -> {{[j]: 0<=j<{threads} and {first} < n}}",
         f"[b, g, u, j] -> {{[e]: 0<=e<{items} and {first} + e < n}}",
         f"{{[q]: 0<=q and {chunk*most}*q<n}}",
         f"[q] -> {{[s]: 0<=s<{most} and {chunk*most}*q + {chunk}*s < n}}",
         "[s] -> {[d]: 0<=d<s}", "[q] -> {[p]: 0<=p<q}"],
        f"""
        for b
            <> part[b] = sum([g, u, j, e], x[{first} + e])  {{id=part}}
        end
        for q
            <> above[q] = sum(s, part[{most}*q + s])  {{id=above}}
            <> offset = sum(p, above[p])  {{id=offset}}
            for s
                <> before[{most}*q + s] = offset + sum(d, part[{most}*q + d])  {{id=before}}
            end
        end
        for b, r
            for i, v
                <> kept[i, v] = x[{place} + v]  {{id=load}}
            end
            for i
                <> own[i] = sum(w, kept[i, w])  {{id=own}}
            end
            <> whole[r] = sum(i, own[i])  {{id=whole}}
            <> base = before[b] + sum(o, whole[o])  {{id=base}}
            for i
                <> start = base + sum(h, own[h])  {{id=start}}
                for w
                    <> done[i, w] = start + sum(k, kept[i, k])  {{id=done}}
                end
            end
            for i, v
                y[{place} + v] = done[i, v]  {{id=store}}
            end
        end
        """, [TemporaryVariable("kept", shape=(threads, items)), TemporaryVariable("done", shape=(threads, items)), "..."],
        name="scan")
    knl = add_dtypes(knl, {"x,y": known})
    knl = tag_inames(knl, {"b": "g.0", "i": "l.0", "s": "l.0", "j": "l.0", "u": "unr", "w": "unr", **dict.fromkeys("ev", "vec" if items > 1 else "unr")})
    for iname, sweep in (("k", "w"), ("h", "i"), ("o", "r"), ("d", "s"), ("p", "q")):
        knl = realize_scan(knl, iname, sweep)
    for name, iname in (("kept", "i"), ("done", "i"), ("whole", "r"), ("above", "q")):
        knl = contract(knl, name, iname)
    knl = add_barrier(knl, "part", "offset.p.init")
    return add_barrier(knl, "before", "base.o.init")
