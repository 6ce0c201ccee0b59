"""Kernels in which inames of one statement share an axis of the grid, in parts that sizes give."""
from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

import loopkit as lk

F64 = np.dtype(np.float64)


def made(domains: list[str], text: str, tags: Mapping[str, str], *, split: Mapping[str, int] | None = None,
         assumptions: str | None = None, inner: Mapping[str, str] | None = None) -> lk.LoopKernel:
    """The kernel of *text* with *tags*; *split* gives the lengths of inames whose outer part is tagged, *inner* the
    tags of their inner parts."""
    data = [lk.GlobalArg("c, z", F64, ("n + 8", "m + 8")), lk.GlobalArg("a, b, x", F64, ("n + m + 8",)), "..."]
    used = [a for a in data if isinstance(a, str) or any(f"{q}[" in text for q in a.name.split(", "))]
    knl = lk.make_kernel(domains, text, used, assumptions=assumptions)
    for x, length in (split or {}).items():
        tag = (inner or {}).get(x)
        knl = lk.split_iname(knl, x, length, outer_tag=tags[x], **({} if tag is None else {"inner_tag": tag}))
    return lk.tag_inames(knl, {x: tag for x, tag in tags.items() if x not in (split or {})})


def plain() -> lk.LoopKernel:
    return made(["{[i, j]: 0<=i<n and 0<=j<m}"], "c[i, j] = 2*z[i, j]", {"i": "g.0", "j": "g.0"})


def beside_one_block() -> lk.LoopKernel:
    """The first block runs what is in no loop, also where there is nothing else to do."""
    return made(["{[i]: 1<=i<n}", "[i] -> {[j]: 0<=j<i}"], """
        a[0] = x[1]
        for i, j
            c[i, j] = x[j] + i
        end
        """, {"i": "g.0", "j": "g.0"}, assumptions="n>=0 and m>=n")


def halves() -> lk.LoopKernel:
    """``i_outer + j_outer*((n + 1) // 2)``, with threads inside."""
    return made(["{[i, j]: 0<=i<n and 0<=j<m}"], """
        for j, i
            c[i, j] = z[i, j] + 1
        end
        a[0] = x[1]
        """, {"i": "g.0", "j": "g.0"}, split={"i": 2}, inner={"i": "l.0"})


def three_parts() -> lk.LoopKernel:
    return made(["{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<3}"], """
        for i, k, j
            c[i + k, j] = c[i + k, j] + z[i, j] {atomic}
        end
        """, {"i": "g.0", "j": "g.0", "k": "g.0"})


def old_values() -> lk.LoopKernel:
    """Each instance keeps the value that it updates."""
    return made(["{[i, j]: 0<=i<n and 0<=j<m}"], """
        for i, j
            c[i, j], b[j] = b[j], b[j] + x[i] {atomic}
        end
        """, {"i": "g.0", "j": "g.0"})


def two_ways() -> lk.LoopKernel:
    """Two statements that need nothing of each other, and a third one by itself."""
    return made(["{[i, j]: 0<=i<n and 0<=j<m}", "{[k]: 0<=k<n}", "[k] -> {[l]: k<=l<=k+2}", "{[q]: 0<=q<m}"], """
        for i, j
            c[i, j] = z[i, j]
        end
        for k, l
            b[k] = b[k] + x[l] {atomic}
        end
        for q
            a[q] = 3
        end
        """, {"i": "g.0", "j": "g.0", "k": "g.0", "l": "g.0", "q": "g.0"})


def row_values() -> lk.LoopKernel:
    """A value of the outer iname that each block computes for itself."""
    return made(["{[i, j]: 2<=i<=n and 0<=j<m}"], """
        for i
            <> t = x[i] + 1
            for j
                c[i, j] = t + z[i, j]
            end
        end
        """, {"j": "g.0", "i": "g.0"}, split={"i": 3})


def in_the_hosts_loop() -> lk.LoopKernel:
    return made(["{[t]: 0<=t<m}", "[t] -> {[i, j]: t+1<=i<n and t<=j<m}"], """
        for t
            for i, j
                c[i, j] = c[i, j] - c[i, t]*c[t, j] {if=j > t}
            end
        end
        """, {"i": "g.0", "j": "g.0"}, assumptions="n>=m")


def staged() -> lk.LoopKernel:
    """The threads of a block share a copy, after a barrier."""
    knl = made(["{[i, j]: 0<=i<n and 0<=j<m}", "{[k]: 0<=k<3}"], """
        for i, j
            c[i, j] = sum(k, z[i, j + k])
        end
        """, {"i": "g.0", "j": "g.0"}, split={"j": 4}, inner={"j": "l.0"})
    return lk.add_prefetch(knl, "z", ["j_inner", "k"], default_tag="l.auto")


PACKED: Mapping[str, Callable[[], lk.LoopKernel]] = {f.__name__: f for f in (
    plain, beside_one_block, halves, three_parts, old_values, two_ways, row_values, in_the_hosts_loop, staged)}
