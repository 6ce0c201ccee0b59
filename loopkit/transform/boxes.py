"""Copies of boxes by TMA: the loops of a copy, and the layout of its temporary in shared memory."""
from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import chain
from math import prod

import pymbolic.primitives as p

from loopkit.analysis.accesses import expanded_expression
from loopkit.analysis.constructors import annotated
from loopkit.analysis.shapes import array_shapes
from loopkit.ast.nodes import Completion
from loopkit.ast.tensor_maps import LINE, ROWS, SWIZZLES, UNIT, TensorMap, requirements
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
    loads = instruction.completion is Completion.PHASE
    if instruction.combine is not None and not copy.commutes:
        raise PreconditionError(f"'{statement}' is not an atomic update, and TMA adds to an element in any order.",
                                subject=statement, hint=f"make_atomic(knl, '{statement}'), if any order will do")
    element = element_of_tile(kernel, copy, loads=loads, combine=instruction.combine)
    tile = array_of(element)
    space = kernel.temporaries[tile].address_space
    if space not in (None, AddressSpace.SHARED):
        raise PreconditionError(f"'{copy.id}' accesses '{tile}' in {space} memory, and TMA copies to or from shared "
                                "memory only.", subject=copy.id,
                                hint=f"set_temporary_address_space(knl, '{tile}', 'shared')")
    names = inames_of_box(kernel, copy, element) if given is None else [*iname_list(kernel, given)]
    for x in names:
        require_untagged(kernel, x, "executed by an instruction")
    if foreign := [x for x in names if x not in copy.inames]:
        raise PreconditionError(f"'{foreign[0]}' is not an iname of '{statement}'.", subject=foreign[0],
                                hint=f"its inames are {', '.join(copy.inames)}")
    kernel = executed_by(kernel, statement, instruction)
    kernel = annotated(kernel, temporaries={**kernel.temporaries, tile: replace(
        kernel.temporaries[tile], address_space=AddressSpace.SHARED)})
    if instruction.row:
        kernel, names = in_swizzled_rows(kernel, copy, element, names, instruction.row)
    _require_box(kernel, statement, names, instruction.row, loads=loads)
    return kernel, dict.fromkeys(names, InstructionTag())


def _require_box(kernel: LoopKernel, statement: str, names: Collection[str], swizzle: int, *, loads: bool) -> None:
    """:raises PreconditionError: TMA cannot copy a box over the inames *names*, as far as its extents are known."""
    copy = kernel.statement_by_id[statement]
    copied = copied_element(expanded_expression(kernel, copy))
    assert copied is not None
    source = copied[0] if loads else copy.assignee
    array, axes = array_of(source), source.index_tuple if isinstance(source, p.Subscript) else ()
    own, moving = type_of_copy(kernel, array), [sorted(variables(i) & {*names}) for i in axes]
    extents = [extent_from_zero(kernel, x[0]) if x else 1 for x in moving]
    known = tuple(e for e in extents if e is not None)
    if own is not None and sorted(chain(*moving)) == sorted(names) and max(map(len, moving)) == 1 and known == (
            *extents,):
        requirements(TensorMap(f"{array}_map", array, known, swizzle), resolve(own), len(axes))


def inames_of_box(kernel: LoopKernel, copy: Statement, element: p.Subscript) -> list[str]:
    """The inames of *copy* without a tag that move *element*."""
    return [x for x in copy.inames if x in variables(element) and x not in kernel.tags]


def element_of_tile(kernel: LoopKernel, copy: Statement, *, loads: bool, combine: str | None = None) -> p.Subscript:
    """The element of a temporary that *copy* writes, or else reads.

    :raises PreconditionError: it does not copy, or combines elements by another operation than *combine*.
    """
    copied = copied_element(expanded_expression(kernel, copy))
    element = None if copied is None else copy.assignee if loads else copied[0]
    if not isinstance(element, p.Subscript) or array_of(element) not in kernel.temporaries or copy.combine != combine:
        what = "an element of an array to a temporary" if loads else "an element of a temporary to an array"
        raise PreconditionError(f"'{copy.id}' does not {'copy' if combine is None else 'add'} {what}.", subject=copy.id,
                                hint="add_prefetch and precompute make such copies" if loads else
                                     "buffer_array(..., default_tag=None) makes such a copy")
    return element


def in_swizzled_rows(kernel: LoopKernel, copy: Statement, element: p.Subscript, names: list[str], row: int
                     ) -> tuple[LoopKernel, list[str]]:
    """*kernel* whose tile has swizzled rows of so many bytes, each box one below another, and the inames of a box.

    :arg element: the one of the tile that *copy* accesses; *names*: the inames that move it, of which the last one is
        split.
    """
    tile, subscripts = array_of(element), element.index_tuple
    own = type_of_copy(kernel, tile)
    size = require_dtype(tile, None if own is None else resolve(own)).itemsize
    axes = [k for k, i in enumerate(subscripts) if variables(i) & {*names}]
    width = row // size
    last = axes[-1] if axes else 0
    x = next((x for x in names if axes and x in variables(subscripts[last])), "")
    length, extent = array_shapes(kernel)[tile][last] if axes else None, extent_from_zero(kernel, x) if x else None
    if len(names) < 2 or extent is None or extent != length or extent % width:
        narrow = [own for own in SWIZZLES[1:] if own < row and extent is not None and extent*size % own == 0]
        found = f"'{tile}' has rows of {length}" if len(names) > 1 else f"'{copy.id}' copies fewer than two axes"
        raise PreconditionError(
            f"A swizzle of {row} bytes needs rows of a multiple of {width} elements, and {found}.",
            subject=copy.id, hint=f"copy two axes or more, the last one with a multiple of {width} elements"
            + (f", or use a swizzle of {narrow[-1]} bytes" if narrow and len(names) > 1 else ""))
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
    rows = _row_axes(kernel, tile, len(names) - 1)
    return swizzle(kernel, tile, chunk=UNIT // size, period=row // UNIT, every=LINE // row, row_axes=rows), names


def _row_axes(kernel: LoopKernel, tile: str, most: int) -> int:
    """The number of axes, up to *most*, that count the rows of a box: as few as have a multiple of 8 rows."""
    *extents, _ = kernel.temporaries[tile].layout.in_memory(array_shapes(kernel)[tile])
    numbers = [prod(e for e in extents[len(extents) - k:] if isinstance(e, int)) for k in range(1, most + 1)]
    return next((k for k, rows in enumerate(numbers, 1) if rows % ROWS == 0), most)
