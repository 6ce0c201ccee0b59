"""Engines that move tiles: threads through their registers, cp.async, and TMA; and the swizzled rows of a tile."""
from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from math import gcd
from typing import Self

import pymbolic.primitives as p

from loopkit.analysis.accesses import accesses_by_array, expanded_expression, require_operands
from loopkit.analysis.constructors import rewritten
from loopkit.analysis.match import Within
from loopkit.ast.tensor_maps import SWIZZLES, UNIT
from loopkit.errors import PreconditionError, require_known
from loopkit.expr.dtypes import resolve
from loopkit.instructions.asynchronous_copy import AsynchronousCopy
from loopkit.instructions.vector_access import copied_element, rise
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import AutoLocalTag, InameTag
from loopkit.transform.boxes import element_of_tile, in_swizzled_rows, inames_of_box
from loopkit.transform.buffering import buffer_array
from loopkit.transform.iname import split_iname
from loopkit.transform.nest_loops import extent_from_zero, type_of_copy
from loopkit.transform.step import as_tag, matching_statements, transform
from loopkit.transform.tags import tag_inames
from loopkit.transform.tensorize import tensorize

#: The engines that load tiles, and those that store them. The first one is that of copies without another one.
LOADS, STORES = ("register", "cp.async", "tma"), ("register", "tma")


@dataclass(frozen=True)
class Engine:
    """An engine that moves a tile.

    :ivar swizzle: the bytes of a row of the tile whose pieces are permuted; 0: rows are as they are.
    :ivar tag: the tag of the copy's inames. With ``"l.auto"``, ``cp.async`` copies vectors.
    :ivar stores: the copy reads the tile, and does not write it.
    """

    name: str
    swizzle: int
    tag: str | InameTag | None
    stores: bool

    @classmethod
    def of(cls, name: str, swizzle: int, tag: str | InameTag | None, *, stores: bool = False) -> Self:
        """:raises UnknownNameError, PreconditionError: there is no such engine, or no such swizzle, or it needs plain
        loops.
        """
        require_known("engine", [name], STORES if stores else LOADS, where="stores" if stores else "loads")
        found = cls(name, swizzle, tag, stores)
        if (name == "tma" or swizzle) and tag is not None and not found.has_auto:
            raise PreconditionError(f"Copies by TMA, and those of swizzled rows, need loops without the tag '{tag}'.",
                                    subject="default_tag", hint="leave default_tag out, and use tag_inames afterwards")
        if swizzle not in SWIZZLES:
            raise PreconditionError(
                f"A swizzle has {', '.join(map(str, SWIZZLES[1:-1]))} or {SWIZZLES[-1]} bytes, or 0 for none, and not "
                f"{swizzle!r}.", subject="swizzle", hint="swizzle=128 for rows with a multiple of 128 bytes")
        return found

    @property
    def is_plain(self) -> bool:
        """Do threads copy plain rows?"""
        return self.name == "register" and not self.swizzle

    @property
    def has_auto(self) -> bool:
        """Are the inames of the copy distributed over the threads of the block?"""
        return self.tag is not None and isinstance(as_tag(self.tag), AutoLocalTag)

    @property
    def tag_before(self) -> str | InameTag | None:
        """The tag of the copy's inames before :meth:`moving`, which sets ``"l.auto"`` itself if it changes the loops.
        """
        return None if self.has_auto and not self.is_plain else self.tag

    def moving(self, kernel: LoopKernel, copy: str) -> LoopKernel:
        """*kernel* whose statement *copy* moves its tile by the engine."""
        if self.is_plain:
            return kernel
        if self.name == "tma":
            swizzle, combines = f".swizzle{self.swizzle}"*(self.swizzle > 0), kernel.statement_by_id[copy].combine
            name = "tma.load" if not self.stores else "tma.store" if combines is None else "tma.add"
            return tensorize(kernel, copy, f"{name}{swizzle}")
        if self.swizzle:
            s, element = _tile_of(kernel, copy, stores=self.stores)
            kernel, _ = in_swizzled_rows(kernel, s, element, inames_of_box(kernel, s, element), self.swizzle)
        if self.name == "cp.async":
            kernel = with_asynchronous_copies(_in_vectors(kernel, copy) if self.has_auto else kernel, {copy})
        return _shared_by_threads(kernel, copy, stores=self.stores) if self.has_auto else kernel


def _tile_of(kernel: LoopKernel, copy: str, *, stores: bool) -> tuple[Statement, p.Subscript]:
    """The statement *copy*, and the element of the tile that it reads if it *stores* the tile, or else writes."""
    s = kernel.statement_by_id[copy]
    own = element_of_tile(kernel, s, loads=False, combine=s.combine) if stores else s.assignee
    if not isinstance(own, p.Subscript):
        raise PreconditionError(f"'{copy}' moves one element.", subject=copy, hint="name the inames that move a tile")
    return s, own


def _shared_by_threads(kernel: LoopKernel, copy: str, *, stores: bool) -> LoopKernel:
    """*kernel* whose threads share the elements of *copy*."""
    return tag_inames(kernel, dict.fromkeys(inames_of_box(kernel, *_tile_of(kernel, copy, stores=stores)), "l.auto"))


def _in_vectors(kernel: LoopKernel, copy: str) -> LoopKernel:
    """*kernel* whose *copy* is in vectors of up to 16 bytes along the last axes, if these divide the rows of the tile.
    """
    s = kernel.statement_by_id[copy]
    own, copied = type_of_copy(kernel, s.written), copied_element(expanded_expression(kernel, s))
    if own is None or copied is None or not isinstance(s.assignee, p.Subscript):
        return kernel
    size, last = resolve(own).itemsize, [e.index_tuple[-1] for e in (s.assignee, copied[0])]
    for x in inames_of_box(kernel, s, s.assignee):
        extent = extent_from_zero(kernel, x)
        if extent is not None and all(rise(i, x) == 1 for i in last):
            items = gcd(extent, UNIT // size)
            return split_iname(kernel, x, items, inner_tag="vec") if items > 1 else kernel
    return kernel


def with_asynchronous_copies(kernel: LoopKernel, copies: AbstractSet[str]) -> LoopKernel:
    """*kernel* whose statements *copies* are asynchronous; :raises PreconditionError: one cannot be."""
    kernel = rewritten(kernel, statements=tuple(
        replace(s, instructions=(AsynchronousCopy(),)) if s.id in copies else s for s in kernel.statements))
    require_operands(kernel)
    return kernel


@transform
def store_via(kernel: LoopKernel, var_name: str, buffer_inames: str | Iterable[str] = (), *, engine: str = "tma",
              swizzle: int = 0, within: Within = None, temporary_name: str | None = None,
              store_insn_id: str | None = None, allow_reordering: bool = False, allow_launches: bool = False,
              assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Let an engine store what statements write to an array, from a tile in shared memory.

    ``"tma"`` (sm_90) copies boxes: one thread starts the copy, and all threads go on (:func:`tensorize`). If the
    statements are atomic updates by a sum, TMA adds the tile to the array. With ``"register"``, the threads of the
    block load the elements of the tile and store them.

    :arg var_name: an array, whose elements over *buffer_inames* get a tile by :func:`buffer_array`; or a temporary that
        is such a tile already, and that one statement copies to an array.
    :arg buffer_inames: the inames whose iterations share one tile; none for a temporary.
    :arg swizzle: 32, 64 or 128: the tile has rows of so many bytes, and their 16-byte pieces are permuted, as TMA
        reads them. 0: no permutation. Wider rows become several boxes, one below another. Threads that write columns of
        a tile then write to different banks.
    :arg within: the statements that use the tile; default: all that access the array.
    :arg temporary_name: the name of the tile; *store_insn_id*: the id of the copy; as for :func:`buffer_array`, and so
        are the arguments after them.
    :raises UnknownNameError: there is no such array, iname or engine.
    :raises PreconditionError: the swizzle is unknown; the bytes of a row of the tile are not a multiple of the swizzle,
        or for TMA of 16; or *var_name* is a temporary, and no statement or several copy it to an array.
    :raises ScheduleError, StorageError, IllegalTransformError: as :func:`buffer_array` and :func:`tensorize`.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i, j] = 2*x[i, j]")
    >>> knl = lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", 8, outer_tag="g.1", inner_iname="i_box")
    >>> knl = lk.split_iname(knl, "j", 32, outer_tag="g.0", inner_iname="j_box", inner_tag="l.0")
    >>> print(knl.statements_text)
    for i_outer [g.1], i_box, j_outer [g.0], j_box [l.0]
      y[8*i_outer + i_box, 32*j_outer + j_box] = 2*x[8*i_outer + i_box, 32*j_outer + j_box]  {id=insn}
    end
    >>> print(lk.store_via(knl, "y", "i_box, j_box").statements_text)
    for i_outer [g.1], j_outer [g.0]
      for i_box, j_box [l.0]
        y_buf[i_box, j_box] = 2*x[8*i_outer + i_box, 32*j_outer + j_box]  {id=insn}
      end
      for y_store_0 [instr], y_store_1 [instr]
        y[8*i_outer + y_store_0, 32*j_outer + y_store_1] = y_buf[y_store_0, y_store_1]  {id=store_y, by=tma.store}
      end
    end
    """
    mover = Engine.of(engine, swizzle, "l.auto", stores=True)
    require_known("array", [var_name], kernel.data)
    if var_name in kernel.temporaries and not buffer_inames:
        return mover.moving(kernel, _copy_from(kernel, var_name, within))
    result = buffer_array(kernel, var_name, buffer_inames, within=within, default_tag=mover.tag_before,
                          temporary_name=temporary_name, store_insn_id=store_insn_id,
                          allow_reordering=allow_reordering, allow_launches=allow_launches, assume=assume,
                          unsafe=unsafe)
    copies = [s for s in result.statements if s.id not in kernel.statement_by_id]
    for s in sorted(copies, key=lambda s: s.written != var_name):
        # threads load what the tile holds before its users run
        result = mover.moving(result, s.id) if s.written == var_name else _shared_by_threads(
            result, s.id, stores=False)
    return result


def _copy_from(kernel: LoopKernel, tile: str, within: Within) -> str:
    """The one statement that copies from *tile* to an array; :raises PreconditionError: there is not one."""
    chosen = matching_statements(kernel, within)
    readers = {a.statement for a in accesses_by_array(kernel).get(tile, ()) if not a.is_write}
    found = [s.id for s in kernel.statements if s.id in readers & chosen and (
        s.written in kernel.array_args or kernel.temporaries[s.written].address_space is AddressSpace.GLOBAL)]
    if len(found) != 1:
        raise PreconditionError(
            f"{len(found) or 'No'} statement{'s' if len(found) > 1 else ''} that store_via selects "
            f"{'copy' if len(found) > 1 else 'copies'} '{tile}' to an array.", subject=tile,
            hint="select one by within=, or name the array and the inames that share a tile")
    return found[0]
