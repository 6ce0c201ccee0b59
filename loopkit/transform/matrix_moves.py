"""Moves of small matrices by the lanes of a warp: the loops of a copy, for ldmatrix and stmatrix."""
from __future__ import annotations

from dataclasses import replace
from math import gcd

import pymbolic.primitives as p

from loopkit.analysis.accesses import expanded_expression
from loopkit.analysis.constructors import annotated
from loopkit.analysis.order import loops_of
from loopkit.errors import PreconditionError
from loopkit.expr.dtypes import resolve
from loopkit.expr.mappers import array_of, subexpressions
from loopkit.instructions.matrix_moves import MatrixMove
from loopkit.instructions.nests import WORD
from loopkit.instructions.stmatrix import StMatrix
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import InstructionTag, UnrollTag, VecTag
from loopkit.transform.iname import split_levels
from loopkit.transform.nest_loops import Tags, executed_by, extent_from_zero, type_of_copy


def moved_by_lanes(kernel: LoopKernel, statement: str, move: MatrixMove) -> tuple[LoopKernel, Tags]:
    """*kernel* where *move* executes the loops around *statement*, and the tags of their inames."""
    copy = kernel.statement_by_id[statement]
    if isinstance(move, StMatrix):
        kernel = _stored(kernel, copy)
    given = type_of_copy(kernel, copy.written)
    size = 0 if given is None else resolve(given).itemsize
    own = {x: tag for x in loops_of(kernel.paths[statement])
           if isinstance(tag := kernel.tags.get(x), UnrollTag | InstructionTag | VecTag)}
    loops = [*own]
    if not isinstance(move, StMatrix):
        _require_load(kernel, copy, size, loops)
    # the innermost loop is over the elements of a register
    tags: Tags = {}
    if size < WORD and loops:
        x = loops.pop()
        if isinstance(own[x], UnrollTag):
            _require_unshared(kernel, statement, x)
            tags[x] = InstructionTag()
    count = 1
    for x in [x for x in loops if not isinstance(own[x], UnrollTag)]:       # of another instruction, too
        count *= extent_from_zero(kernel, x) or 1
        loops.remove(x)
    while count < move.count and loops:
        x = loops.pop()
        extent, wanted = extent_from_zero(kernel, x) or 1, move.count // count
        part = gcd(extent, wanted)
        if part > 1:
            _require_unshared(kernel, statement, x)
        if part == extent:
            tags[x] = InstructionTag()
        elif part > 1:
            outer, inner = (kernel.fresh_name(f"{x}_{what}") for what in (
                "outer", "store" if isinstance(move, StMatrix) else "load"))
            kernel = split_levels(annotated(kernel, tags={y: t for y, t in kernel.tags.items() if y != x}), x,
                                  {outer: None, inner: part})
            tags |= {outer: UnrollTag(), inner: InstructionTag()}
        count *= part
    if count != move.count:
        most = next(x for x in (4, 2, 1) if count % x == 0)
        raise PreconditionError(f"'{statement}' copies {count} matrices for each lane, which is not a multiple of "
                                f"{move.count}.", subject=statement, hint=f"use {move.name.partition('.')[0]}.x{most}")
    return executed_by(kernel, statement, move), tags


def _require_unshared(kernel: LoopKernel, statement: str, iname: str) -> None:
    """:raises PreconditionError: another instruction executes loops that *iname* is around."""
    other = next((s.id for s in kernel.statements if s.id != statement and s.has_nest and iname in s.inames), None)
    if other is not None:
        raise PreconditionError(f"'{iname}' is also an iname of '{other}', which an instruction executes.",
                                subject=iname, hint=f"duplicate_inames(knl, '{iname}', within='{statement}')")


def _require_load(kernel: LoopKernel, copy: Statement, size: int, loops: list[str]) -> None:
    """:raises PreconditionError: *copy* does not copy from memory to a fragment with elements of this *size*."""
    temporary = kernel.temporaries.get(copy.written)
    if temporary is None or temporary.address_space is not AddressSpace.WARP or size not in (1, 2, 4) or not loops:
        raise PreconditionError(f"'{copy.id}' does not write a fragment with elements of at most 4 bytes.",
                                subject=copy.id, hint="tensorize a product first, with a factor in a temporary of "
                                                      "the address space 'warp'")
    source = expanded_expression(kernel, copy)
    if not isinstance(source, p.Subscript) or any(isinstance(e, p.Subscript) for i in source.index_tuple
                                                  for e in subexpressions(i)):
        raise PreconditionError(f"'{copy.id}' copies {source}, which is not an element of an array in shared memory.",
                                subject=copy.id, hint="compute the values into shared memory first")


def _stored(kernel: LoopKernel, copy: Statement) -> LoopKernel:
    """*kernel* whose *copy* stores values in registers of a thread to shared memory.

    :raises PreconditionError: it does something else.
    """
    source, tile = expanded_expression(kernel, copy), kernel.temporaries.get(copy.written)
    held = kernel.temporaries.get(array_of(source)) if isinstance(source, p.Variable | p.Subscript) else None
    if tile is None or held is None or copy.combine is not None or \
            tile.address_space not in (None, AddressSpace.SHARED) or \
            held.address_space not in (None, AddressSpace.PRIVATE):
        raise PreconditionError(f"'{copy.id}' does not copy values in registers to a tile in shared memory.",
                                subject=copy.id, hint="compute the values into a temporary, in loops of its own")
    return annotated(kernel, temporaries={
        **kernel.temporaries, tile.name: replace(tile, address_space=AddressSpace.SHARED),
        held.name: replace(held, address_space=AddressSpace.PRIVATE)})
