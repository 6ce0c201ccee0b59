"""Prefix sums of an array and of rows."""
from __future__ import annotations

import numpy as np
import numpy.typing as npt

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
    tile, above = threads*items, MOST_THREADS
    chunk = tile*tiles
    place = f"{chunk}*b + {tile}*r + {items}*i"
    knl = make_kernel(
        [f"{{[b]: 0<=b and {chunk}*b<n}}",
         f"[b] -> {{[r]: 0<=r<{tiles} and {chunk}*b + {tile}*r < n}}",
         f"[b, r] -> {{[i]: 0<=i<{threads} and {place} < n}}",
         f"[b, r, i] -> {{[v]: 0<=v<{items} and {place} + v < n}}",
         f"[b, r, i] -> {{[w]: 0<=w<{items} and {place} + w < n}}",
         "[i] -> {[h]: 0<=h<i}", "[w] -> {[k]: 0<=k<=w}", "[r] -> {[o]: 0<=o<r}",
         f"{{[q]: 0<=q and {chunk*above}*q<n}}",
         f"[q] -> {{[s]: 0<=s<{above} and {chunk*above}*q + {chunk}*s < n}}",
         "[s] -> {[d]: 0<=d<s}", "[q] -> {[p]: 0<=p<q}"],
        f"""
        for b
            <> part[b] = sum([r, i, v], x[{place} + v])  {{id=part}}
        end
        for q
            <> all[q] = sum(s, part[{above}*q + s])  {{id=all}}
            for s
                <> before[{above}*q + s] = sum(p, all[p]) + sum(d, part[{above}*q + d])  {{id=before}}
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
        """, name="scan")
    knl = add_dtypes(knl, {"x,y": known})
    knl = tag_inames(knl, {"b": "g.0", "i": "l.0", "s": "l.0", "w": "unr", "v": "vec" if items > 1 else "unr"})
    for iname, sweep in (("k", "w"), ("h", "i"), ("o", "r"), ("d", "s"), ("p", "q")):
        knl = realize_scan(knl, iname, sweep)
    for name, iname in (("kept", "i"), ("done", "i"), ("whole", "r"), ("all", "q")):
        knl = contract(knl, name, iname)
    return knl
