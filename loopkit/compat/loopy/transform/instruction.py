"""loopy's steps for statements."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import loopkit as lk
from loopkit.analysis.match import matching
from loopkit.compat.loopy.dtypes import with_inferred
from loopkit.compat.loopy.kernel.instruction import Assignment, core_instruction
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.match import as_within
from loopkit.compat.loopy.translation_unit import TranslationUnit, for_each_kernel
from loopkit.errors import IllegalTransformError, PreconditionError, StorageError, UnknownNameError
from loopkit.expr.mappers import variables
from loopkit.kernel.statement import owner
from loopkit.kernel.tags import IlpTag


def find_instructions(program: Any, insn_match: Any) -> Sequence[Assignment]:
    """The statements that a match expression selects, of all kernels of *program*."""
    kernels = program.kernels.values() if isinstance(program, TranslationUnit) else [program]
    return [i for kernel in kernels for i in kernel.instructions if i.id in _selected(kernel, insn_match)]


def _selected(kernel: LoopKernel, match: Any) -> frozenset[str]:
    text = as_within(match)
    try:
        found = frozenset(kernel.core.statement_by_id) if text is None else matching(kernel.core, text)
    except (UnknownNameError, PreconditionError):
        return frozenset()                                     # loopy's match may select nothing
    return frozenset(map(owner, found))


@for_each_kernel
def add_dependency(kernel: LoopKernel, insn_match: Any, depends_on: Any) -> LoopKernel:
    """:func:`loopkit.add_dependency`; nothing changes if a match selects nothing."""
    if not (_selected(kernel, insn_match) and _selected(kernel, depends_on)):
        return kernel
    return kernel.with_core(lk.add_dependency(kernel.core, as_within(insn_match), as_within(depends_on)))


@for_each_kernel
def add_nosync(kernel: LoopKernel, scope: Any, source: Any, sink: Any, bidirectional: bool = False,
               force: bool = False, empty_ok: bool = False) -> LoopKernel:
    """Nothing changes: lowering places exactly the barriers that dependences need."""
    return kernel


@for_each_kernel
def set_instruction_priority(kernel: LoopKernel, insn_match: Any, priority: int) -> LoopKernel:
    """Nothing changes: a kernel has an order from the start."""
    return kernel


@for_each_kernel
def map_instructions(kernel: LoopKernel, insn_match: Any, f: Callable[[Assignment], Assignment]) -> LoopKernel:
    """:func:`loopkit.map_instructions`, with loopy's instructions."""
    chosen, old = _selected(kernel, insn_match), {i.id: i for i in kernel.core.instructions}
    new = {str(i.id): core_instruction(f(i), old[i.id]) for i in kernel.instructions if i.id in chosen}
    return kernel.with_core(lk.with_statements(kernel.core, [new.get(str(i.id), i) for i in kernel.core.instructions]))


@for_each_kernel
def remove_instructions(kernel: LoopKernel, insn_ids: Any) -> LoopKernel:
    """:func:`loopkit.remove_instructions`; *insn_ids* are ids, or a match expression."""
    gone = _selected(kernel, insn_ids) if isinstance(insn_ids, str) else frozenset(insn_ids)
    return kernel.with_core(lk.remove_instructions(kernel.core, sorted(gone))) if gone else kernel


@for_each_kernel
def replace_instruction_ids(kernel: LoopKernel, replacements: Mapping[str, Any]) -> LoopKernel:
    """:func:`loopkit.replace_instruction_ids`."""
    return kernel.with_core(lk.replace_instruction_ids(kernel.core, replacements))


@for_each_kernel
def tag_instructions(kernel: LoopKernel, new_tag: Any, within: Any = None) -> LoopKernel:
    """:func:`loopkit.tag_instructions`."""
    return kernel.with_core(lk.tag_instructions(kernel.core, new_tag, within=as_within(within)))


@for_each_kernel
def preprocess_program(kernel: LoopKernel) -> LoopKernel:
    """The dtypes that follow from the known ones, and a cell of temporaries for each iteration of ``ilp`` loops.

    A kernel of loopkit needs no other preparation.
    """
    core = with_inferred(kernel.core)
    for x in [x for x, tag in core.tags.items() if isinstance(tag, IlpTag)]:
        shared = {s.written for s in core.statements if x in s.inames and x not in variables(s.assignee)}
        for t in sorted(shared & core.temporaries.keys()):
            # storage allocation makes the cells of a temporary that this step refuses
            with suppress(PreconditionError, IllegalTransformError, StorageError):
                core = lk.expand(core, t, x, trailing=True)
    return kernel.with_core(core)


preprocess_kernel = preprocess_program
