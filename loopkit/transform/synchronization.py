"""Synchronization requested by the user: barriers beside those of lowering, and inter-block flags."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from loopkit.analysis.between_blocks import require_one_write
from loopkit.analysis.constructors import annotated
from loopkit.analysis.legality import require_legal
from loopkit.analysis.order import require_barriers_in_place
from loopkit.errors import PreconditionError
from loopkit.instructions.block_flag import BlockFlag
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import RequestedBarrier
from loopkit.transform.step import temporary_list, transform


@transform
def add_barrier(kernel: LoopKernel, insn_before: str, insn_after: str, *, synchronization_kind: str = "global"
                ) -> LoopKernel:
    """Put a barrier between two statements.

    Lowering places all barriers that correctness needs. A further one may make the kernel faster or its text clearer.

    :arg insn_before: the id of the statement before the barrier; *insn_after*: of the one behind it. The barrier is in
        the innermost loop around both. The name of a statement includes all parts of its reductions.
    :arg synchronization_kind: ``"global"`` ends the launch, so that all blocks wait; the host then runs the loops
        around both statements. ``"local"``: the threads of a block wait.
    :raises UnknownNameError: there is no such statement.
    :raises PreconditionError: another kind of barrier.
    :raises ScheduleError: *insn_after* does not follow *insn_before*, or the host cannot run a loop around both.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i,j<n}", '''
    ...     a[i] = 2*x[i]  {id=first}
    ...     b[j] = 3*x[j]  {id=second}
    ...     ''')
    >>> print(lk.lower(lk.add_dtypes(knl, {"x": np.float32}), stop="schedule"))
    launch 0:
      for i
        first
      for j
        second
    >>> knl = lk.add_barrier(knl, "first", "second")
    >>> print(lk.lower(lk.add_dtypes(knl, {"x": np.float32}), stop="schedule"))
    launch 0:
      for i
        first
    launch 1:
      for j
        second
    """
    for s in (insn_before, insn_after):
        kernel.statement(s)
    if synchronization_kind not in ("local", "global"):
        raise PreconditionError(f"There is no barrier of the kind {synchronization_kind!r}.",
                                subject="synchronization_kind", hint="the kinds are local and global")
    barrier = RequestedBarrier(insn_before, insn_after, synchronization_kind)
    if barrier in kernel.barriers:
        return annotated(kernel)
    result = annotated(kernel, barriers=(*kernel.barriers, barrier))
    require_barriers_in_place(result)
    return result


@transform
def add_block_flags(kernel: LoopKernel, temporary_names: str | Iterable[str]) -> LoopKernel:
    """Let blocks wait for values of the temporaries *temporary_names* that other blocks of their launch compute.

    A cross-block dependence otherwise ends the launch. With this step the writer sets an inter-block flag for each
    element as soon as it is written, and a reader waits for the flag. Blocks take tickets in the order in which they
    start (along ``g.0`` first). A value may flow only within a block or to one with a greater ticket, so the first
    unfinished block never waits, and no deadlock is possible. The C target runs blocks in ticket order.

    Each element is written once, by a statement that runs regardless of the data. Results therefore do not depend on
    the speed of blocks and are the same to the last bit in every run.

    :raises UnknownNameError: a name is no temporary.
    :raises StorageError: an element is read that no statement writes, is read before it is written, or is written
        twice. Lowering checks this again, and that no value flows to a block before the writer's.
    :raises UndecidedError: one of these conditions depends on data.

    >>> knl = lk.make_kernel(
    ...     "{[b, i]: 0<=b<n and 0<=i<256}",
    ...     '''for b
    ...            <> part[b] = sum(i, x[b, i])  {id=part}
    ...            y[b] = if(b > 0, part[b - 1], part[b])
    ...        end''')
    >>> knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "b:g.0, i:l.0")
    >>> len(lk.generate_code(knl, target="cuda").kernels)
    2
    >>> len(lk.generate_code(lk.add_block_flags(knl, "part"), target="cuda").kernels)
    1
    """
    names = temporary_list(kernel, temporary_names)
    for name in names:
        require_one_write(kernel, name)
    result = annotated(kernel, temporaries={t.name: replace(t, instruction=BlockFlag()) if t.name in names else t
                                            for t in kernel.temporaries.values()})
    return require_legal(result, f"add_block_flags({', '.join(map(repr, names))})")
