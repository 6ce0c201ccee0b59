"""Prefix sums: of an array in three launches, and of rows with one block per row."""
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from loopkit.kernel.annotations import checked
from loopkit.kernel.data import TemporaryVariable
from loopkit.kernel.devices import WARP
from loopkit.kernel.kernel import LoopKernel
from loopkit.language.make import make_kernel
from loopkit.library.defaults import MOST_THREADS, THREADS, before_row, items_a_thread, known_dtype, longest_row
from loopkit.transform.data import add_dtypes
from loopkit.transform.expansion import contract
from loopkit.transform.fixing import fix_parameters
from loopkit.transform.iname import split_iname
from loopkit.transform.scan import realize_scan
from loopkit.transform.step import require_positive
from loopkit.transform.synchronization import add_barrier
from loopkit.transform.tags import tag_inames


@checked
def scan_in_launches(dtype: npt.DTypeLike = np.float32, *, threads: int = THREADS, tiles: int = 32) -> LoopKernel:
    """``y[i]``, the sum of ``x[0]`` to ``x[i]``: sums of chunks, their prefix sums, and the results of each chunk.

    A block has a chunk. Its prefix comes from an earlier launch instead of from waiting for other blocks: three
    launches read *x* twice; :func:`scan` reads it once. The second launch has a single block and little work.

    :arg threads: of a block; each has 16 bytes of *x* at a time, and those of all threads are a tile.
    :arg tiles: of a chunk. More tiles mean less work for the second launch, and fewer blocks in the others.

    >>> lk.library.scan_in_launches()(x=np.arange(5, dtype=np.float32)).y
    array([ 0.,  1.,  3.,  6., 10.], dtype=float32)
    """
    known = known_dtype(dtype)
    items, most = items_a_thread(known), MOST_THREADS
    tile = threads*items
    chunk, under_way = tile*tiles, min(tiles, 4)
    first = f"{chunk}*b + {tile*under_way}*g + {tile}*u + {items}*j"
    tiled = Tiled(f"{chunk}*b", "n", "x[{}]", "y[{}]", "before[b]", threads, items, tiles)
    knl = make_kernel(
        [f"{{[b]: 0<=b and {chunk}*b<n}}",
         f"[b] -> {{[g, u]: 0<=g and 0<=u<{under_way} and {under_way}*g + u < {tiles}}}",
         f"[b, g, u] -> {{[j]: 0<=j<{threads} and {first} < n}}",
         f"[b, g, u, j] -> {{[e]: 0<=e<{items} and {first} + e < n}}",
         f"{{[q]: 0<=q and {chunk*most}*q<n}}", "[q] -> {[p]: 0<=p<q}",
         f"[q] -> {{[s]: 0<=s<{most} and {chunk*most}*q + {chunk}*s < n}}", "[s] -> {[d]: 0<=d<s}", *tiled.domains],
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
        {tiled.text}
        """, tiled.arrays, name="scan_in_launches")
    knl = add_dtypes(knl, {"x,y": known})
    # the loads of several tiles run concurrently
    knl = tag_inames(knl, {"b": "g.0", "j": "l.0", "u": "unr", "e": tiled.vector, "s": "l.0", **tiled.tags})
    for iname, sweep in (("d", "s"), ("p", "q")):
        knl = realize_scan(knl, iname, sweep)
    knl = tiled.realized(contract(knl, "above", "q"))
    # a launch ends before blocks read values of other blocks
    return add_barrier(add_barrier(knl, "part", "offset.p.init"), "before", "base.o.init")


@checked
def row_scan(dtype: npt.DTypeLike = np.float32, *, columns: int | None = None, threads: int | None = None
             ) -> LoopKernel:
    """``y[i, j]``, the sum of ``x[i, 0]`` to ``x[i, j]``; a block has a row and scans it tile by tile.

    :arg columns: length of the rows, so that aligned vectors of 16 bytes move a thread's elements; default: any, given
        by the arrays of a call, with one element per thread.
    :arg threads: of a block; the elements that they have at a time are a tile. Default: 256, or 128 if vectors do not
        divide the rows. That case takes more instructions, and more blocks hide the barriers of one block. At most as
        many warps as the vectors of a row occupy.

    >>> lk.library.row_scan()(x=np.ones((2, 3), np.float32)).y
    array([[1., 2., 3.],
           [1., 2., 3.]], dtype=float32)
    """
    known = known_dtype(dtype)
    row = Tiled("0", "m", "x[b, {}]", "y[b, {}]", "0", threads or THREADS, 1, None)
    if columns is not None:
        items = items_a_thread(known)
        back = before_row("b", require_positive(columns, "columns"), items)
        row = replace(row, start=f"0 {back}", items=items, threads=threads or _threads_of_row(columns, items),
                      everywhere=True, cut=bool(back))
    knl = make_kernel(["{[b]: 0<=b<n}", *row.domains], row.text, row.arrays, name="row_scan")
    knl = add_dtypes(knl, {"x,y": known})
    if columns is not None:
        knl = fix_parameters(knl, m=columns)
    if columns is None or row.threads != WARP:
        return row.realized(tag_inames(knl, {"b": "g.0", **row.tags}))
    # a multiprocessor holds 32 blocks: blocks of one warp would leave half of it idle
    return row.realized(split_iname(tag_inames(knl, row.tags), "b", 4, outer_tag="g.0", inner_tag="l.1"))


def _threads_of_row(columns: int, items: int) -> int:
    """The threads of a block that has a row of *columns* elements, in vectors of *items*; a multiple of a warp."""
    vectors = -(-longest_row(columns, items) // items)
    return min(THREADS if columns % items == 0 else THREADS//2, WARP * -(-vectors // WARP))


@dataclass(frozen=True)
class Tiled:
    """The work of the block *b*: prefix sums from *start* to *end*, tile by tile.

    In a tile *r* thread *i* has *items* neighbouring elements in registers. A scan over the threads adds up the sums of
    these elements. Its result, plus the sum of the earlier tiles, is the prefix of the thread's first element.

    :ivar x: text of an element, with ``{}`` for its place; likewise *y*.
    :ivar before: text of the prefix of the first element.
    :ivar tiles: the most tiles; ``None``: no bound.
    :ivar everywhere: threads without elements take part too: whole warps need fewer conditions.
    :ivar cut: *start* is up to a vector before the first element, which has the place 0.
    """

    start: str
    end: str
    x: str
    y: str
    before: str
    threads: int
    items: int
    tiles: int | None
    everywhere: bool = False
    cut: bool = False

    @property
    def vector(self) -> str:
        return "vec" if self.items > 1 else "unr"

    @property
    def place(self) -> str:
        return f"{self.start} + {self.threads*self.items}*r + {self.items}*i"

    @property
    def domains(self) -> tuple[str, ...]:
        end, items = self.end, self.items
        some = "" if self.everywhere else f" and {self.place} < {end}"
        behind = f" and 0 <= {self.place} + {{}}" if self.cut else ""
        few = "" if self.tiles is None else f" and r<{self.tiles}"
        return (f"[b] -> {{[r]: 0<=r{few} and {self.start} + {self.threads*items}*r < {end}}}",
                "[r] -> {[o]: 0<=o<r}",
                f"[b, r] -> {{[i]: 0<=i<{self.threads}{some}}}", "[i] -> {[h]: 0<=h<i}",
                f"[b, r, i] -> {{[v]: 0<=v<{items} and {self.place} + v < {end}{behind.format('v')}}}",
                f"[b, r, i] -> {{[w]: 0<=w<{items}{'' if self.cut else f' and {self.place} + w < {end}'}}}",
                "[w] -> {[k]: 0<=k<=w}", *([f"{{[z]: 0<=z<{items}}}"] if self.cut else []))

    @property
    def text(self) -> str:
        at = f"{self.place} + v"
        nothing = ""
        if self.cut:
            nothing = """
            for i, z
                <> kept[i, z] = 0
            end"""
        return f"""
        for b, r
            {nothing}
            for i, v
                <> kept[i, v] = {self.x.format(at)}  {{id=load}}
            end
            for i
                <> own[i] = sum(w, kept[i, w])  {{id=own}}
            end
            <> whole[r] = sum(i, own[i])  {{id=whole}}
            <> base = {self.before} + sum(o, whole[o])  {{id=base}}
            for i
                <> start = base + sum(h, own[h])  {{id=start}}
                for w
                    <> done[i, w] = start + sum(k, kept[i, k])  {{id=done}}
                end
            end
            for i, v
                {self.y.format(at)} = done[i, v]  {{id=store}}
            end
        end
        """

    @property
    def arrays(self) -> list[TemporaryVariable | str]:
        shape = (self.threads, self.items)
        return [TemporaryVariable("kept", shape=shape), TemporaryVariable("done", shape=shape), "..."]

    @property
    def tags(self) -> dict[str, str]:
        return {"i": "l.0", "v": self.vector, "w": "unr", **({"z": "unr"} if self.cut else {})}

    def realized(self, knl: LoopKernel) -> LoopKernel:
        """*knl* with its sums as scans: over the elements of a thread, the threads, and the tiles."""
        for iname, sweep in (("k", "w"), ("h", "i"), ("o", "r")):
            knl = realize_scan(knl, iname, sweep)
        # no thread reads the elements of another, and a tile reads only the sum of the last one
        for name, iname in (("kept", "i"), ("done", "i"), ("whole", "r")):
            knl = contract(knl, name, iname)
        return knl
