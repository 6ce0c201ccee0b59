"""loopy's steps for statements."""
from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

import loopkit as lk
from loopkit.analysis.match import matching
from loopkit.compat.loopy.check import check_kernel
from loopkit.compat.loopy.kernel.instruction import Assignment, core_instruction, shown_id
from loopkit.compat.loopy.kernel.kernel import KernelState, LoopKernel
from loopkit.compat.loopy.match import as_within
from loopkit.compat.loopy.transform.data import infer_unknown_types
from loopkit.compat.loopy.translation_unit import entered, for_each_kernel, kernels_of, same_step
from loopkit.errors import IllegalTransformError, PreconditionError, StorageError, UnknownNameError
from loopkit.expr.mappers import variables
from loopkit.kernel.tags import IlpTag


def find_instructions(program: Any, insn_match: Any) -> Sequence[Assignment]:
    """The statements that a match expression selects, of all kernels of *program*."""
    return [i for kernel in kernels_of(program) for i in kernel.instructions
            if i.id in _selected(kernel, insn_match, shown=True)]


_ACCUMULATOR = re.compile(r"writes:acc_(\w+)")


def _selected(kernel: LoopKernel, match: Any, *, shown: bool = False) -> frozenset[str]:
    """The ids of the statements that *match* selects; *shown*: with those of realized reductions."""
    text = as_within(match)
    name = _ACCUMULATOR.fullmatch(str(text))
    if name is not None and name[0].removeprefix("writes:") not in kernel.core.temporaries:
        # loopy names an accumulator by the inames that its reduction has in the end
        own = [node for node in kernel.core.reductions.values() if "_".join(node.inames) == name[1]]
        text = " or ".join(f"id:{node.update}" for node in own) or text
    try:
        found = frozenset(kernel.core.statement_by_id) if text is None else matching(kernel.core, text)
    except (UnknownNameError, PreconditionError):
        return frozenset()                                     # loopy's match may select nothing
    return frozenset(shown_id(x, kernel.realized if shown else frozenset()) for x in found)


@for_each_kernel
def add_dependency(kernel: LoopKernel, insn_match: Any, depends_on: Any) -> LoopKernel:
    """:func:`loopkit.add_dependency`, which may reorder instructions.

    On a barrier, the statements depend on those that run before it.

    :raises PreconditionError: a match selects nothing.
    """
    sinks, sources = _selected(kernel, insn_match), _selected(kernel, depends_on)
    order, known = kernel.origin.order, [str(s.id) for s in kernel.core.instructions]
    barriers = fnmatch.filter(order.after.keys() - known, str(depends_on).removeprefix("id:"))
    for match, found in ((insn_match, sinks), (depends_on, [*sources, *barriers])):
        if not found:
            raise PreconditionError(f"add_dependency: {match!r} selects no statement.", subject=str(match))
    core = kernel.core
    for source in sorted(sources.union(*(order.before(bar, known) for bar in barriers))):
        for sink in sorted(sinks - {source}):
            core = lk.add_dependency(core, f"id:{sink}", f"id:{source}", allow_reordering=source in sources)
    return kernel.with_core(core).with_order(
        after={x: order.after[x].union(barriers) for x in sinks & order.after.keys()})


@for_each_kernel
def add_nosync(kernel: LoopKernel, scope: Any, source: Any, sink: Any, bidirectional: bool = False,
               force: bool = False, empty_ok: bool = False) -> LoopKernel:
    """Claim that the statements *sink* need no order after *source*: code generation does not require one.

    Barriers do not change: lowering places exactly those that dependences need. Two statements of
    which none writes an array of the other get no claim, unless *force* is true.

    :raises PreconditionError: *source* or *sink* selects no statement, and *empty_ok* is false.
    """
    sources, sinks = _selected(kernel, source), _selected(kernel, sink)
    if not (empty_ok or (sources and sinks)):
        raise PreconditionError(f"add_nosync: {(sink if sources else source)!r} selects no statement.",
                                subject="sink" if sources else "source", hint="empty_ok=True")
    readers = kernel.reader_map()
    related = {frozenset(pair) for array, writers in kernel.writer_map().items()
               for pair in product(writers, writers | readers.get(array, frozenset()))}
    claims = {name: {*own} for name, own in kernel.origin.order.claims.items()}
    for x, y in product(sources, sinks):
        if force or frozenset((x, y)) in related:
            claims.setdefault(y, set()).add((x, scope))
            if bidirectional:
                claims.setdefault(x, set()).add((y, scope))
    return kernel.with_order(claims={name: frozenset(own) for name, own in claims.items()})


@for_each_kernel
def set_instruction_priority(kernel: LoopKernel, insn_match: Any, priority: int) -> LoopKernel:
    """Nothing changes: a kernel has an order from the start."""
    return kernel


@for_each_kernel
def map_instructions(kernel: LoopKernel, insn_match: Any, f: Callable[[Assignment], Assignment]) -> LoopKernel:
    """:func:`loopkit.map_instructions`, with loopy's instructions, whose reductions are whole.

    :raises IllegalTransformError: a statement gets a dependence on one that runs after it.
    """
    chosen, old = _selected(kernel, insn_match), {i.id: i for i in kernel.core.instructions}
    whole = replace(kernel, state=KernelState.INITIAL, origin=replace(kernel.origin, realized=frozenset()))
    mapped = {str(i.id): (i, f(i)) for i in whole.instructions if i.id in chosen}
    new = {name: core_instruction(i, old[name]) for name, (_, i) in mapped.items()}
    core = lk.with_statements(kernel.core, [new.get(str(i.id), i) for i in kernel.core.instructions])
    for before, after in mapped.values():
        for name in sorted(after.depends_on - before.depends_on):
            core = lk.add_dependency(core, f"id:{after.id}", f"id:{name}")
    known = kernel.origin.order.after.keys()
    return kernel.with_core(core).with_order(after={
        str(after.id): after.depends_on for before, after in mapped.values()
        if before.id in known and before.depends_on != after.depends_on})


@for_each_kernel
def remove_instructions(kernel: LoopKernel, insn_ids: Any) -> LoopKernel:
    """:func:`loopkit.remove_instructions`; *insn_ids* are ids, or a match expression."""
    gone = _selected(kernel, insn_ids) if isinstance(insn_ids, str) else frozenset(insn_ids)
    return kernel.with_core(lk.remove_instructions(kernel.core, sorted(gone))) if gone else kernel


def preprocess_program(program: Any) -> Any:
    """:func:`infer_unknown_types`, and a cell of temporaries for each iteration of ``ilp`` loops.

    :raises UnknownNameError: a kernel that a call enters calls a function that does not exist.
    """
    for kernel in entered(program):
        if not kernel.origin.order.circle:                     # a use of the kernel tells the circle
            kernel.require_made()
    return _preprocessed(infer_unknown_types(program))


@for_each_kernel
def _preprocessed(kernel: LoopKernel) -> LoopKernel:
    core = kernel.core
    for x in [x for x, tag in core.tags.items() if isinstance(tag, IlpTag)]:
        shared = {s.written for s in core.statements if x in s.inames and x not in variables(s.assignee)}
        for t in sorted(shared & core.temporaries.keys()):
            # storage allocation makes the cells of a temporary that this step refuses
            with suppress(PreconditionError, IllegalTransformError, StorageError):
                core = lk.expand(core, t, x, trailing=True)
    return replace(kernel if core is kernel.core else kernel.with_core(core), state=KernelState.PREPROCESSED)


@for_each_kernel
def uniquify_instruction_ids(kernel: LoopKernel) -> LoopKernel:
    """Nothing changes: statements get different ids when their kernel is made."""
    return kernel


preprocess_kernel = infer_arg_descr = preprocess_program


@for_each_kernel
def linearize(kernel: LoopKernel) -> LoopKernel:
    """The kernel with its :attr:`linearization`, until the next step.

    >>> import loopkit.compat.loopy as lp
    >>> knl = lp.make_kernel("{[i]: 0<=i<8}", "y[i] = i", target=lp.CTarget())
    >>> for item in lp.linearize(knl)["loopy_kernel"].linearization:
    ...     print(item)
    CallKernel(kernel_name='loopy_kernel')
    EnterLoop(iname='i')
    RunInstruction(insn_id='insn')
    LeaveLoop(iname='i')
    ReturnFromKernel(kernel_name='loopy_kernel')

    :raises LoopyError: see :func:`~loopkit.compat.loopy.check.check_kernel`.
    """
    check_kernel(kernel)
    return replace(kernel, state=KernelState.LINEARIZED)


def get_one_linearized_kernel(kernel: LoopKernel, callables_table: Any = None) -> LoopKernel:
    """:func:`linearize`."""
    linear: LoopKernel = linearize(kernel)
    return linear


get_one_scheduled_kernel = get_one_linearized_kernel

remove_inames_from_insn = same_step(lk.remove_inames_from_insn)
remove_predicates_from_insn = same_step(lk.remove_predicates_from_insn)
replace_instruction_ids = same_step(lk.replace_instruction_ids)
tag_instructions = same_step(lk.tag_instructions)
