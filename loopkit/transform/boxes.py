"""Copies of boxes by TMA: the loops of a copy, and the layout of its temporary in shared memory."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

import pymbolic.primitives as p

from loopkit.analysis.accesses import expanded_expression
from loopkit.analysis.constructors import annotated
from loopkit.analysis.shapes import array_shapes
from loopkit.ast.nodes import Completion
from loopkit.ast.tensor_maps import LINE, ROWS, UNIT
from loopkit.errors import PreconditionError
from loopkit.expr.dtypes import resolve
from loopkit.expr.mappers import array_of, variables
from loopkit.instructions.boxes import BoxCopy
from loopkit.instructions.vector_access import copied_element
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import InstructionTag
from loopkit.transform.array_axes import split_array_axis
from loopkit.transform.iname import split_levels
from loopkit.transform.layout import swizzle, tag_array_axes
from loopkit.transform.nest_loops import Tags, executed_by, extent_from_zero, type_of_copy, with_loop_order
from loopkit.transform.step import iname_list, require_dtype, require_untagged


def copied_by_boxes(kernel: LoopKernel, statement: str, instruction: BoxCopy, given: str | Iterable[str] | None
                    ) -> tuple[LoopKernel, Tags]:
    """*kernel* whose copy *statement* consists of boxes, and the tags of their inames."""
    copy = kernel.statement_by_id[statement]
    tile, subscripts = _tile_of(kernel, copy, instruction)
    moving = {x for i in subscripts for x in variables(i)}
    names = [x for x in copy.inames if x in moving and x not in kernel.tags] if given is None else \
        [*iname_list(kernel, given)]
    for x in names:
        require_untagged(kernel, x, "executed by an instruction")
    if foreign := [x for x in names if x not in copy.inames]:
        raise PreconditionError(f"'{foreign[0]}' is not an iname of '{statement}'.", subject=foreign[0],
                                hint=f"its inames are {', '.join(copy.inames)}")
    kernel = executed_by(kernel, statement, instruction)
    kernel = annotated(kernel, temporaries={**kernel.temporaries, tile: replace(
        kernel.temporaries[tile], address_space=AddressSpace.SHARED)})
    if instruction.row:
        kernel, names = _in_rows(kernel, copy, tile, names, instruction)
    return kernel, dict.fromkeys(names, InstructionTag())


def _tile_of(kernel: LoopKernel, copy: Statement, instruction: BoxCopy) -> tuple[str, tuple[p.Expression, ...]]:
    """The temporary in shared memory that *copy* writes or reads, and its subscripts."""
    loads = instruction.completion is Completion.PHASE
    copied = copied_element(expanded_expression(kernel, copy))
    element = None if copied is None else copy.assignee if loads else copied[0]
    if element is None or array_of(element) not in kernel.temporaries or copy.combine is not None:
        what = "an element of an array to a temporary" if loads else "an element of a temporary to an array"
        raise PreconditionError(f"'{copy.id}' does not copy {what}.", subject=copy.id,
                                hint="add_prefetch and precompute make such copies" if loads else
                                     "buffer_array(..., default_tag=None) makes such a copy")
    tile = array_of(element)
    space = kernel.temporaries[tile].address_space
    if space not in (None, AddressSpace.SHARED):
        raise PreconditionError(f"'{copy.id}' copies '{tile}' in {space} memory, and TMA boxes of shared memory.",
                                subject=copy.id, hint=f"set_temporary_address_space(knl, '{tile}', 'shared')")
    return tile, element.index_tuple if isinstance(element, p.Subscript) else ()


def _in_rows(kernel: LoopKernel, copy: Statement, tile: str, names: list[str], instruction: BoxCopy
             ) -> tuple[LoopKernel, list[str]]:
    """*kernel* whose *tile* has swizzled rows, each box one below another, and the inames of a box."""
    _, subscripts = _tile_of(kernel, copy, instruction)
    axes = [k for k, i in enumerate(subscripts) if variables(i) & {*names}]
    own = type_of_copy(kernel, tile)
    size = require_dtype(tile, None if own is None else resolve(own)).itemsize
    width = instruction.row // size
    last = axes[-1] if axes else 0
    x = next((x for x in names if axes and x in variables(subscripts[last])), "")
    length, extent = array_shapes(kernel)[tile][last] if axes else None, extent_from_zero(kernel, x) if x else None
    if len(names) < 2 or extent is None or extent != length or extent % width:
        raise PreconditionError(
            f"The boxes of '{copy.id}' have rows of {width} elements, and '{tile}' has rows of {length}.",
            subject=copy.id, hint=f"copy two axes or more, the last one with a multiple of {width} elements")
    if extent > width:
        part, item = (kernel.fresh_name(f"{x}_{what}") for what in ("part", "item"))
        kernel = split_levels(kernel, x, {part: None, item: width})
        others = [y for y in names if y != x]
        kernel = with_loop_order(kernel, copy.id, [part, *others, item])
        names = [*others, item]
        kernel = split_array_axis(kernel, tile, last, width)
        rank = len(subscripts) + 1
        order = [*range(axes[0]), last, *(k for k in range(axes[0], rank) if k != last)]
        kernel = tag_array_axes(kernel, tile, ",".join(f"N{rank - 1 - order.index(k)}" for k in range(rank)))
    return swizzle(kernel, tile, chunk=UNIT // size, period=instruction.row // UNIT, every=LINE // instruction.row,
                   row_axes=_row_axes(kernel, tile, len(names) - 1)), names


def _row_axes(kernel: LoopKernel, tile: str, most: int) -> int:
    """The number of axes, up to *most*, that count the rows of a box: as few as have a multiple of 8 rows."""
    *extents, _ = kernel.temporaries[tile].layout.in_memory(array_shapes(kernel)[tile])
    numbers = [prod(e for e in extents[len(extents) - k:] if isinstance(e, int)) for k in range(1, most + 1)]
    return next((k for k, rows in enumerate(numbers, 1) if rows % ROWS == 0), most)
