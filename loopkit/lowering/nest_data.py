"""The nests of loops that instructions execute, as data that lowering and its checks share."""
from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from pymbolic.typing import Expression

from loopkit.analysis.legality import axis_inames
from loopkit.analysis.ranges import iname_range
from loopkit.analysis.shapes import array_shapes
from loopkit.ast.nodes import Region, Scope
from loopkit.instructions.nests import ElementMemory, Nest, NestInstruction, NoMatchError, nest_in
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import GroupTag, LocalTag
from loopkit.lowering.lowered import Launch
from loopkit.lowering.stored import Storage


def nest_instruction(s: Statement) -> NestInstruction | None:
    """The instruction that executes the nest of loops around *s*."""
    return next((i for i in s.instructions if isinstance(i, NestInstruction)), None)


def nest_of(launch: Launch, storages: Mapping[str, Storage], region: Region, names: Mapping[str, Expression]) -> Nest:
    """The nest of loops in *region*; *names*: the constants in scope.

    :raises NoMatchError: it is not a nest around one assignment, or a warp of its blocks may lack threads.
    """
    loops, condition, assign = nest_in(region)
    length = launch.length("l.0")
    if assign is None:
        raise NoMatchError("it is not one assignment in a nest of loops")
    instruction = nest_instruction(launch.kernel.statement_by_id[assign.statement])
    scope = Scope.WARP if instruction is None else instruction.scope
    if condition is not None and (instruction is None or not instruction.has_condition):
        raise NoMatchError("a condition in its loops excludes some iterations",
                           "pad_domain lets loops run over whole boxes")
    if scope is not Scope.THREAD and (not isinstance(length, int) or length % launch.machine.threads_of(scope)):
        raise NoMatchError(f"its blocks must have whole {scope.name.lower()}s along l.0, and not {length} threads",
                           f"give l.0 a multiple of {launch.machine.threads_of(scope)} threads in all statements")
    node = launch.kernel.reduction_of.get(assign.statement)
    fixed = {x: low for x in launch.kernel.statement_by_id[assign.statement].inames
             for low, extent in [iname_range(launch.kernel, x)] if extent == 1}
    lanes, blocks = (_inames_on_first_axis(launch.kernel, assign.statement, kind) for kind in (LocalTag, GroupTag))
    return Nest(loops, assign, {**fixed, **names}, frozenset(() if node is None else node.inames), lanes, blocks,
                partial(_element_memory, launch.kernel, storages), launch.kernel.assumptions, condition)


def _inames_on_first_axis(kernel: LoopKernel, statement: str, kind: type[LocalTag | GroupTag]
                          ) -> tuple[tuple[str, int | None], ...]:
    """The inames of *statement* on the first axis of a *kind*, each with its extent if it runs from 0, slowest first.
    """
    inames = axis_inames(kernel, kernel.statement_by_id[statement].inames, kind).get(0, ())
    ranges = ((x, *iname_range(kernel, x)) for x in inames)
    return tuple((x, extent if low == 0 and isinstance(extent, int) else None) for x, low, extent in ranges)


def _element_memory(kernel: LoopKernel, storages: Mapping[str, Storage], array: str) -> ElementMemory:
    """The memory of an argument or a temporary."""
    storage = storages.get(array)
    if storage is None:
        dtype = kernel.array_args[array].dtype
        assert dtype is not None
        shape = array_shapes(kernel)[array]
        return ElementMemory(np.dtype(dtype), AddressSpace.GLOBAL, tuple(e for e in shape if e is not None))
    return ElementMemory(storage.dtype, storage.space, storage.in_memory, len(storage.lanes), storage.swizzle)
