"""Prefix sums of an array in one launch, which reads and writes each element once."""
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
from loopkit.transform.block_flags import add_block_flags
from loopkit.transform.data import add_dtypes
from loopkit.transform.expansion import contract
from loopkit.transform.scan import realize_scan
from loopkit.transform.tags import tag_inames

#: Blocks of a group: a warp reads what all before the last of them have, a lane a value.
GROUP = WARP + 1
#: Bytes of a register.
_REGISTER = 4


@checked
def scan(dtype: npt.DTypeLike = np.float32, *, threads: int = 128, rows: int | None = None) -> LoopKernel:
    """``y[i]``, the sum of ``x[0]`` to ``x[i]``, in one launch: each block keeps its tile while it waits for others.

    What comes before a block is known when all blocks before it have added up their tiles. A block publishes that sum
    as soon as it has it (:func:`~loopkit.add_block_flags`), the last one of each 33 blocks what its group has, and the
    last one of each 33 groups what all up to it have. So a block adds up at most 32 sums of its group, 32 of groups,
    and one of all before, a lane each. These are the same in each run, in the same order, whichever block is faster,
    and so is every bit of the result.

    The form is that of decoupled look-back (Merrill and Garland, Single-pass Parallel Prefix Scan, 2016), whose blocks
    add up what they find at that moment on their way back, so that rounding depends on time.

    :arg threads: of a block, a multiple of 32.
    :arg rows: of 512 bytes that each warp has. They stay in registers: more of them are more loads under way, in fewer
        blocks at a time; fewer are more blocks that wait for each other. Default: 16, or 12 of elements of 8 bytes or
        more, whose sums take two registers: so five blocks fit on a multiprocessor.
    :raises PreconditionError: *threads* are no whole warps, or there are no *rows*.

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
    # no thread needs what another keeps
    for name in ("kept", "left", "done"):
        knl = contract(knl, name, ["w", "l"])
    return contract(contract(knl, "own", "w"), "row", "w")


@dataclass(frozen=True)
class _Tiles:
    """What a block does with its tile: *warps* parts of *rows* rows, in each of which a lane has *items* elements."""

    warps: int
    rows: int
    items: int

    @property
    def place(self) -> str:
        """Of a lane's first element in a row."""
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
                # what stands before b in its group; the number of the group that b ends; likewise of groups
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
