"""Prefix sums: of an array in one launch or in three, and of rows with one block per row."""
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

import loopkit as lk
from loopkit.kernel.annotations import checked
from loopkit.kernel.target import WARP
from loopkit.library.defaults import (
    MOST_THREADS,
    before_row,
    items_a_thread,
    known_dtype,
    longest_row,
    measured,
    vector,
)
from loopkit.transform.step import require_positive

#: Blocks of a group: one warp reads the values of all blocks before the last one, one value per lane.
GROUP = WARP + 1


@checked
def scan(dtype: npt.DTypeLike = np.float32, *, threads: int | None = None, rows: int | None = None
         ) -> lk.LoopKernel:
    """A kernel for the prefix sums ``y[i] = x[0] + ... + x[i]`` of an array, in one launch.

    A block keeps its tile while it waits for the sums of earlier blocks. Each block stores the sum of its tile behind
    an inter-block flag (:func:`~loopkit.add_block_flags`). 33 blocks form a group: the last block of a group also
    stores the sum of the group, and the last of each 33 groups the sum of all elements so far. So a block adds up at
    most 32 sums of its group, 32 sums of groups and one sum of all earlier elements, one per lane.

    The method is decoupled look-back (Merrill and Garland, Single-pass Parallel Prefix Scan, 2016) with a fixed order
    of additions, so every run gives the same bits. The original adds up the sums that are available at the moment.

    :arg threads: the number of threads of a block, a multiple of 32.
    :arg rows: the number of rows of 512 bytes that a warp keeps in registers. More rows mean more concurrent loads in
        fewer concurrent blocks.
    :raises PreconditionError: *threads* is not a multiple of 32, or *rows* is less than 1.

    >>> lk.library.scan()(x=np.arange(5, dtype=np.float32)).y
    array([ 0.,  1.,  3.,  6., 10.], dtype=float32)
    """
    known = known_dtype(dtype)
    threads, rows = measured("scan", known, threads=threads, rows=rows)
    if threads < WARP or threads % WARP:
        raise lk.PreconditionError(f"{threads} threads of a block do not form whole warps.", subject="threads",
                                   hint=f"use a multiple of {WARP}")
    items = items_a_thread(known)
    domains, text = _look_back(threads // WARP, require_positive(rows, "rows"), items)
    kept = lk.TemporaryVariable("kept,done", shape=(threads // WARP, rows, WARP, items))
    knl = lk.make_kernel(domains, text, [kept, "..."], name="scan")
    knl = lk.add_dtypes(knl, {"x,y,before": known})
    knl = lk.add_block_flags(knl, "sums, groups, before")
    knl = lk.tag_inames(knl, {"b": "g.0", **dict.fromkeys("wf", "l.1"), **dict.fromkeys("lqc", "l.0"),
                              "v": vector(items), **dict.fromkeys("ureap", "unr")})
    for iname, sweep in (("h", "l"), ("k", "e"), ("o", "u")):
        knl = lk.realize_scan(knl, iname, sweep)
    # no thread reads the values of another
    for name in ("kept", "left", "done"):
        knl = lk.contract(knl, name, ["w", "l"])
    return lk.contract(lk.contract(knl, "own", "w"), "row", "w")


def _look_back(warps: int, rows: int, items: int) -> tuple[list[str], str]:
    row, groups = WARP*items, GROUP*GROUP
    # the subscript of a lane's first element in a row
    place = f"{warps*rows*row}*b + {rows*row}*w + {row}*u + {items}*l"
    domains = [
        f"{{[b]: 0<=b and {warps*rows*row}*b<n}}",
        f"[b] -> {{[w]: 0<=w<{warps}}}", "[w] -> {[p]: 0<=p<w}",
        "[b] -> {[f]: f=0}", f"[b, f] -> {{[a]: 0<=a<{warps}}}",
        f"[b, w] -> {{[u]: 0<=u<{rows}}}", "[u] -> {[o]: 0<=o<u}",
        f"[b, w] -> {{[l]: 0<=l<{WARP}}}", "[l] -> {[h]: 0<=h<l}", f"[b, w] -> {{[r]: 0<=r<{rows}}}",
        f"[b, w, u, l] -> {{[v]: 0<=v<{items} and {place} + v < n}}",
        f"[b, w, u, l] -> {{[e]: 0<=e<{items} and {place} + e < n}}", "[e] -> {[k]: 0<=k<=e}",
        # the blocks before b in its group; the number of the group that ends with b; likewise for groups
        f"[b, f] -> {{[q]: 0<=q<b mod {GROUP}}}", f"[b, f] -> {{[g]: {GROUP}*g + {GROUP - 1} = b}}",
        f"[b, f] -> {{[c]: 0<=c<(floor(b/{GROUP})) mod {GROUP}}}", f"[b, f] -> {{[s]: {groups}*s + {groups - 1} = b}}",
        f"[b, f] -> {{[z]: 0<=z and z = (floor(b/{groups})) - 1}}"]
    return domains, f"""
    for b
        for w, u, l, v
            <> kept[w, u, l, v] = x[{place} + v]  {{id=load}}
        end
        for w, u, l
            <> own[w, u, l] = sum(e, kept[w, u, l, e])  {{id=own}}
        end
        for w
            <> warp[w] = sum([r, l], own[w, r, l])  {{id=warp}}
        end
        for f
            <> tile = sum(a, warp[a])  {{id=tile}}
            <> sums[b] = tile  {{id=sums}}
        end
        for w, u
            <> above = sum(o, row[w, o])  {{id=above}}
            <> row[w, u] = sum(l, own[w, u, l])  {{id=row}}
            for l
                <> left[w, u, l] = above + sum(h, own[w, u, h])  {{id=left}}
            end
        end
        for f
            <> near = sum(q, sums[{GROUP}*(b // {GROUP}) + q])  {{id=near}}
            for g
                <> groups[g] = near + tile  {{id=groups}}
            end
            <> far = sum(c, groups[{GROUP}*(b // {GROUP*GROUP}) + c])  {{id=far}}
            <> base[f] = sum(z, before[z]) + far + near  {{id=base}}
            for s
                <> before[s] = base[f] + tile  {{id=before}}
            end
        end
        for w
            <> start = base[0] + sum(p, warp[p])  {{id=start}}
            for u, l
                <> first = start + left[w, u, l]  {{id=first}}
                for e
                    <> done[w, u, l, e] = first + sum(k, kept[w, u, l, k])  {{id=done}}
                end
            end
        end
        for w, u, l, v
            y[{place} + v] = done[w, u, l, v]  {{id=store}}
        end
    end
    """


@checked
def scan_in_launches(dtype: npt.DTypeLike = np.float32, *, threads: int | None = None,
                     tiles: int | None = None) -> lk.LoopKernel:
    """A kernel for the prefix sums of :func:`scan` in three launches, without inter-block flags.

    The first launch computes the sum of each chunk, one block per chunk. The second launch, a single block, computes
    the prefix sums of these. The third launch computes the results of each chunk. The launches read *x* twice, and
    :func:`scan` reads it once.

    :arg threads: the number of threads of a block. Each thread has 16 bytes of *x* at a time; the elements of all
        threads of a block are a tile.
    :arg tiles: the number of tiles of a chunk. More tiles mean less work for the second launch, and fewer blocks in the
        others.

    >>> lk.library.scan_in_launches()(x=np.arange(5, dtype=np.float32)).y
    array([ 0.,  1.,  3.,  6., 10.], dtype=float32)
    """
    known = known_dtype(dtype)
    threads, tiles, loads = measured("scan_in_launches", threads=threads, tiles=tiles, loads=None)
    items, most = items_a_thread(known), MOST_THREADS
    tile = threads*items
    chunk, under_way = tile*tiles, min(tiles, loads)
    first = f"{chunk}*b + {tile*under_way}*g + {tile}*u + {items}*j"
    tiled = Tiled(f"{chunk}*b", "n", "", "before[b]", threads, items, tiles)
    knl = lk.make_kernel(
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
    knl = lk.add_dtypes(knl, {"x,y": known})
    # the loads of several tiles run concurrently
    knl = lk.tag_inames(knl, {"b": "g.0", "j": "l.0", "u": "unr", "e": vector(items), "s": "l.0", **tiled.tags})
    for iname, sweep in (("d", "s"), ("p", "q")):
        knl = lk.realize_scan(knl, iname, sweep)
    knl = tiled.realized(lk.contract(knl, "above", "q"))
    # a launch ends before blocks read values of other blocks
    return lk.add_barrier(lk.add_barrier(knl, "part", "offset.p.init"), "before", "base.o.init")


@checked
def row_scan(dtype: npt.DTypeLike = np.float32, *, columns: int | None = None, threads: int | None = None
             ) -> lk.LoopKernel:
    """A kernel for the prefix sums ``y[i, j] = x[i, 0] + ... + x[i, j]`` of each row; a block scans a row tile by tile.

    :arg columns: the number of elements of a row. Aligned vectors of 16 bytes then move the elements of a thread.
        Default: any, taken from the arrays of a call, with one element per thread.
    :arg threads: the number of threads of a block; their elements are a tile. Default: fewer if vectors do not divide
        the rows, and at most as many warps as the vectors of a row occupy.

    >>> lk.library.row_scan()(x=np.ones((2, 3), np.float32)).y
    array([[1., 2., 3.],
           [1., 2., 3.]], dtype=float32)
    """
    known = known_dtype(dtype)
    most, most_single, rows = measured("row_scan", threads=threads, threads_of_single=threads, rows_of_warps=None)
    row = Tiled("0", "m", "b, ", "0", most, 1)
    if columns is not None:
        items = items_a_thread(known)
        back = before_row("b", require_positive(columns, "columns"), items)
        # whole warps for the vectors of a row
        most, warps = most if columns % items == 0 else most_single, -(-longest_row(columns, items) // (items*WARP))
        row = replace(row, items=items, threads=threads or min(most, WARP*warps), back=back)
    knl = lk.make_kernel(["{[b]: 0<=b<n}", *row.domains], row.text, row.arrays, name="row_scan")
    knl = lk.add_dtypes(knl, {"x,y": known})
    if columns is not None:
        knl = lk.fix_parameters(knl, m=columns)
    if columns is None or row.threads != WARP:
        return row.realized(lk.tag_inames(knl, {"b": "g.0", **row.tags}))
    # blocks of one warp would leave a part of the multiprocessor idle
    return row.realized(lk.split_iname(lk.tag_inames(knl, row.tags), "b", rows, outer_tag="g.0", inner_tag="l.1"))


@dataclass(frozen=True)
class Tiled:
    """The work of the block *b*: prefix sums from *start* to *end*, tile by tile.

    In a tile *r* thread *i* has *items* neighbouring elements in registers.

    :ivar row: the subscripts before the place of an element, as text.
    :ivar before: text of the prefix of the first element.
    :ivar tiles: the most tiles; ``None``: no bound.
    :ivar back: text that moves the first tile up to a vector before *start*, whose place is 0. If given, even empty,
        threads without elements take part too: whole warps need fewer conditions.
    """

    start: str
    end: str
    row: str
    before: str
    threads: int
    items: int
    tiles: int | None = None
    back: str | None = None

    @property
    def _tile(self) -> str:
        """The place of a tile's first element."""
        first = f"{self.start} {self.back}" if self.back else self.start
        return f"{'' if first == '0' else f'{first} + '}{self.threads*self.items}*r"

    @property
    def _place(self) -> str:
        """The place of a thread's first element in a tile."""
        return f"{self._tile} + {'' if self.items == 1 else f'{self.items}*'}i"

    @property
    def domains(self) -> tuple[str, ...]:
        place, end, items = self._place, self.end, self.items
        first = f" and 0 <= {place} + v" if self.back else ""
        some = f" and {place} < {end}" if self.back is None else ""
        few = "" if self.tiles is None else f" and r<{self.tiles}"
        return (f"[b] -> {{[r]: 0<=r{few} and {self._tile} < {end}}}", "[r] -> {[o]: 0<=o<r}",
                f"[b, r] -> {{[i]: 0<=i<{self.threads}{some}}}", "[i] -> {[h]: 0<=h<i}",
                f"[b, r, i] -> {{[v]: 0<=v<{items} and {place} + v < {end}{first}}}",
                f"[b, r, i] -> {{[w]: 0<=w<{items}{'' if self.back else f' and {place} + w < {end}'}}}",
                "[w] -> {[k]: 0<=k<=w}", *([f"{{[z]: 0<=z<{items}}}"] if self.back else []))

    @property
    def text(self) -> str:
        at = f"{self.row}{self._place} + v"
        nothing = """
            for i, z
                <> kept[i, z] = 0
            end""" if self.back else ""
        return f"""
        for b, r
            {nothing}
            for i, v
                <> kept[i, v] = x[{at}]  {{id=load}}
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
                y[{at}] = done[i, v]  {{id=store}}
            end
        end
        """

    @property
    def arrays(self) -> list[lk.TemporaryVariable | str]:
        return [lk.TemporaryVariable("kept,done", shape=(self.threads, self.items)), "..."]

    @property
    def tags(self) -> dict[str, str]:
        return {"i": "l.0", "v": vector(self.items), "w": "unr", **({"z": "unr"} if self.back else {})}

    def realized(self, knl: lk.LoopKernel) -> lk.LoopKernel:
        """*knl* with its sums as scans."""
        for iname, sweep in (("k", "w"), ("h", "i"), ("o", "r")):
            knl = lk.realize_scan(knl, iname, sweep)
        # no thread reads the elements of another, and a tile reads only the sum of the last one
        for name, iname in (("kept", "i"), ("done", "i"), ("whole", "r")):
            knl = lk.contract(knl, name, iname)
        return knl
