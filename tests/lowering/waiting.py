"""Kernels that wait for asynchronous copies which the copying thread, its warp or its whole block reads."""
from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import loopkit as lk
from tests.deep import shared

#: Which element thread ``j`` of 64 reads of what each thread copied, by the threads that must wait for each other.
READS = {"thread": "j", "warp": "j + 1 - 2*(j % 2)", "block": "63 - j"}


@dataclass(frozen=True)
class Waiting:
    """Each of 64 threads copies *width* elements an iteration, which *reads* reads: the thread, its warp or its block.

    :ivar second: who reads what each thread copies of another array; ``""``: there is none.
    """

    reads: str
    stages: int
    width: int = 1
    second: str = ""

    def __str__(self) -> str:
        return f"{self.reads}, {self.stages} stages of {self.width}" + (f", beside {self.second}" * bool(self.second))

    @property
    def threads(self) -> str:
        """The threads that must wait for each other."""
        return max(self.reads, self.second or self.reads, key=list(READS).index)

    @cached_property
    def plain(self) -> lk.LoopKernel:
        """On one thread, with no copy ahead."""
        def at(thread: str, element: str) -> str:
            return f"{self.width}*({thread}) + {element}" if self.width > 1 else thread
        wide, two = self.width > 1, bool(self.second)
        copied, other = ("s[l] = b[k, l]  {id=other}", f" + s[{READS[self.second]}]") if two else ("", "")
        knl = lk.make_kernel(
            ["{[k, i, j]: 0<=k<n and 0<=i,j<64}", *["{[l]: 0<=l<64}"]*two, *[f"{{[v, w]: 0<=v,w<{self.width}}}"]*wide],
            f"""
            <> t[{at("i", "v")}] = a[k, {at("i", "v")}]  {{id=copy}}
            {"<> " * two}{copied}
            c[k, {at("j", "w")}] = t[{at(READS[self.reads], "w")}]{other}  {{id=use}}
            """, assumptions="n>=0")
        return lk.add_dtypes(knl, {x: np.float32 for x in "ab" if x in knl.array_args})

    @shared
    def make(self) -> lk.LoopKernel:
        tags = {"i": "l.0", "j": "l.0", "l": "l.0", "v": "vec", "w": "vec"}
        knl = lk.tag_inames(self.plain, {x: tag for x, tag in tags.items() if x in self.plain.inames})
        knl = lk.pipeline(knl, "k", self.stages, asynchronous=True)
        return lk.set_temporary_address_space(knl, ["t", "s"] if self.second else "t", "local")


WAITING = {str(way): way for way in (
    Waiting("thread", 2), Waiting("thread", 3), Waiting("thread", 2, 4), Waiting("thread", 3, 4),
    Waiting("thread", 2, 1, "warp"), Waiting("thread", 2, 1, "block"), Waiting("thread", 3, 4, "block"),
    Waiting("warp", 2), Waiting("warp", 3, 4), Waiting("warp", 3, 1, "thread"), Waiting("block", 3, 1, "thread"))}
