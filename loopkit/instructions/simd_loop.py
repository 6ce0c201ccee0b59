"""SIMD loop: the iterations of a loop over one assignment run in the vector units of the host's processor."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import pymbolic.primitives as p

from loopkit.ast.nodes import Assign, Define, For, If, Instruction, Node
from loopkit.ast.value_ranges import ValueRanges
from loopkit.ast.walk import as_block, mentioned, nodes_in, rewritten
from loopkit.errors import PreconditionError
from loopkit.expr.kinds import is_narrow
from loopkit.expr.mappers import array_of, variables
from loopkit.expr.nodes import REDUCTIONS
from loopkit.instructions.base import InstructionText, Printer, indented


@dataclass(frozen=True)
class SimdLoop(Instruction):
    """The iterations of a loop, at once and in no order. They access different elements, or add to one accumulator."""

    noun: ClassVar[str] = "a SIMD loop"
    titles: ClassVar[tuple[str, ...]] = ("simd",)


def assignment_in(loop: For) -> Assign:
    """The only assignment in a SIMD loop."""
    assign, = (node for node in nodes_in(loop.body) if isinstance(node, Assign))
    return assign


def is_accumulation(loop: For) -> bool:
    """Do all iterations of *loop* update one element?"""
    assign = assignment_in(loop)
    own = {loop.iname, *(node.name for node in nodes_in(loop.body) if isinstance(node, Define))}
    return assign.combine is not None and own.isdisjoint(variables(assign.target))


# C with OpenMP

#: The operators of reductions, by the combination of two values.
_OPERATORS = {"+": "+", "*": "*", "min": "min", "max": "max", "or": "||", "and": "&&", "&": "&", "|": "|", "^": "^"}


def _simd_lines(printer: Printer, loop: For, _: SimdLoop, bounds: ValueRanges) -> Iterator[str]:
    """The loop. An accumulation needs a variable, of which each lane of the vectors has a copy.

    :raises PreconditionError: OpenMP cannot add up the copies.
    """
    # compilers have lost elements that are stored under a condition, as the user's code may store them
    if any(isinstance(node, If) or (isinstance(node, Assign) and node.instructions) for node in nodes_in(loop.body)):
        yield from printer.loop(loop, bounds)
        return
    if not is_accumulation(loop):
        yield "#pragma omp simd"
        yield from printer.loop(loop, bounds)
        return
    assign = assignment_in(loop)
    dtype, operation = printer.dtype_of(assign.target), assign.combine
    assert operation is not None
    if dtype.kind == "c" or is_narrow(dtype):
        raise PreconditionError(
            f"'{assign.statement}' accumulates {dtype.name} along the cpu.simd iname '{loop.iname}', and OpenMP has no "
            "such reduction.", subject=loop.iname, hint=f"untag_inames(knl, '{loop.iname}')" if dtype.kind == "c" else
            f"set_accumulator_dtype, or untag_inames(knl, '{loop.iname}')")
    place = printer.place(assign.target, bounds, dtype)
    clause = f"#pragma omp simd reduction({_OPERATORS[REDUCTIONS[operation].combine]}: "
    if place.isidentifier():
        yield f"{clause}{place})"
        yield from printer.loop(loop, bounds)
        return
    copy = f"{array_of(assign.target)}_simd"
    while copy in mentioned(loop.body):
        copy += "_"

    def adding_to_copy(node: Node) -> Node:
        return replace(node, target=p.Variable(copy)) if isinstance(node, Assign) else node
    adding = replace(loop, body=as_block(rewritten(loop.body, adding_to_copy)))
    yield "{"
    yield from indented((f"{printer.type_name(dtype)} {copy} = {place};", f"{clause}{copy})"))
    yield from indented(printer.with_registers({copy: dtype}).loop(adding, bounds))
    yield from indented((f"{place} = {copy};",))
    yield "}"


C = InstructionText(loop=_simd_lines)
