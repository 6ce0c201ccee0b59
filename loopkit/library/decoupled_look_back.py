"""Prefix sums of an array by decoupled look-back: one launch that reads and writes each element once."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loopkit.errors import PreconditionError
from loopkit.kernel.annotations import checked
from loopkit.kernel.data import TemporaryVariable
from loopkit.kernel.devices import WARP
from loopkit.kernel.kernel import LoopKernel
from loopkit.language.make import make_kernel
from loopkit.library.defaults import items_a_thread, known_dtype
from loopkit.transform.data import add_dtypes
from loopkit.transform.expansion import contract
from loopkit.transform.scan import realize_scan
from loopkit.transform.synchronization import add_block_flags
from loopkit.transform.tags import tag_inames

#: Blocks of a group: one warp reads the values of all blocks before the last one, one value per lane.
GROUP = WARP + 1
#: Bytes of a register.
_REGISTER = 4


@checked
def scan(dtype: npt.DTypeLike = np.float32, *, threads: int = 128, rows: int | None = None) -> LoopKernel:
    """``y[i]``, the sum of ``x[0]`` to ``x[i]``, in one launch: each block keeps its tile while it waits for others.

    The prefix of a block is the sum of the tiles of all earlier blocks. A block stores its tile's sum behind an
    inter-block flag as soon as it is computed (:func:`~loopkit.add_block_flags`). The last of each 33 blocks stores the
    sum of its group, and the last of each 33 groups the sum of all elements so far. A block therefore adds up at most
    32 sums of its group, 32 sums of groups, and one sum of all earlier elements, one per lane. The order of the
    additions does not depend on timing, so every run gives the same bits.

    The method is decoupled look-back (Merrill and Garland, Single-pass Parallel Prefix Scan, 2016) with a fixed order:
    the original adds up the sums available at the moment, and its rounding depends on timing.

    :arg threads: of a block, a multiple of 32.
    :arg rows: of 512 bytes per warp. They stay in registers: more rows mean more concurrent loads in fewer concurrent
        blocks; fewer rows mean more blocks that wait for each other. Default: 16, or 12 for elements of 8 bytes or
        more, whose sums take two registers; five blocks then fit on a multiprocessor.
    :raises PreconditionError: *threads* is not a multiple of 32, or *rows* is less than 1.

    >>> lk.library.scan()(x=np.arange(5, dtype=np.float32)).y
    array([ 0.,  1.,  3.,  6., 10.], dtype=float32)
    """
    if threads < WARP or threads % WARP:
        raise PreconditionError(f"A block of {threads} threads is not one of whole warps.", subject="threads",
                                hint=f"give a multiple of {WARP}")
    known = known_dtype(dtype)
    if rows is None:
        rows = 16 if known.itemsize <= _REGISTER else 12
    if rows < 1:
        raise PreconditionError(f"A warp cannot have {rows} rows.", subject="rows", hint="give at least 1")
    tiles = _Tiles(threads // WARP, rows, items_a_thread(known))
    shape = (tiles.warps, rows, WARP, tiles.items)
    kept = [TemporaryVariable(name, shape=shape) for name in ("kept", "done")]
    knl = make_kernel(tiles.domains, tiles.text, [*kept, "..."], name="scan")
    knl = add_dtypes(knl, {"x,y,before": known})
    knl = add_block_flags(knl, "sums, groups, before")
    knl = tag_inames(knl, {"b": "g.0", **dict.fromkeys("wf", "l.1"), **dict.fromkeys("lqc", "l.0"),
                           "v": "vec" if tiles.items > 1 else "unr", **dict.fromkeys("ureap", "unr")})
    for iname, sweep in (("h", "l"), ("k", "e"), ("o", "u")):
        knl = realize_scan(knl, iname, sweep)
    # no thread reads the values of another
    for name in ("kept", "left", "done"):
        knl = contract(knl, name, ["w", "l"])
    return contract(contract(knl, "own", "w"), "row", "w")


@dataclass(frozen=True)
class _Tiles:
    """The work of a block on its tile: *warps* parts of *rows* rows, with *items* elements of a row per lane."""

    warps: int
    rows: int
    items: int

    @property
    def place(self) -> str:
        """The place of a lane's first element in a row."""
        row = WARP*self.items
        return f"{self.warps*self.rows*row}*b + {self.rows*row}*w + {row}*u + {self.items}*l"

    @property
    def domains(self) -> tuple[str, ...]:
        warps, rows, items = self.warps, self.rows, self.items
        groups = GROUP*GROUP
        elements = f"{self.place} + {{0}} < n"
        return (f"{{[b]: 0<=b and {warps*rows*WARP*items}*b<n}}",
                f"[b] -> {{[w]: 0<=w<{warps}}}", "[w] -> {[p]: 0<=p<w}", "[b] -> {[f]: f=0}",
                f"[b, f] -> {{[a]: 0<=a<{warps}}}",
                f"[b, w] -> {{[u]: 0<=u<{rows}}}", "[u] -> {[o]: 0<=o<u}",
                f"[b, w] -> {{[l]: 0<=l<{WARP}}}", "[l] -> {[h]: 0<=h<l}",
                f"[b, w] -> {{[r]: 0<=r<{rows}}}",
                f"[b, w, u, l] -> {{[v]: 0<=v<{items} and {elements.format('v')}}}",
                f"[b, w, u, l] -> {{[e]: 0<=e<{items} and {elements.format('e')}}}", "[e] -> {[k]: 0<=k<=e}",
                # the blocks before b in its group; the number of the group that ends with b; likewise for groups
                f"[b, f] -> {{[q]: 0<=q<b mod {GROUP}}}", f"[b, f] -> {{[g]: {GROUP}*g + {GROUP - 1} = b}}",
                f"[b, f] -> {{[c]: 0<=c<(floor(b/{GROUP})) mod {GROUP}}}",
                f"[b, f] -> {{[s]: {groups}*s + {groups - 1} = b}}",
                f"[b, f] -> {{[z]: 0<=z and z = (floor(b/{groups})) - 1}}")

    @property
    def text(self) -> str:
        return f"""
        for b
            for w, u, l, v
                <> kept[w, u, l, v] = x[{self.place} + v]  {{id=load}}
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
                y[{self.place} + v] = done[w, u, l, v]  {{id=store}}
            end
        end
        """
