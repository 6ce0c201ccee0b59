"""Barriers that the user requests, beside those that lowering places."""
from __future__ import annotations

from loopkit.analysis.constructors import annotated
from loopkit.analysis.host_loops import require_barriers_in_place
from loopkit.errors import PreconditionError
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import RequestedBarrier
from loopkit.transform.step import transform

_KINDS = ("local", "global")


@transform
def add_barrier(kernel: LoopKernel, insn_before: str, insn_after: str, *, synchronization_kind: str = "global"
                ) -> LoopKernel:
    """Put a barrier between two statements.

    Correctness never needs this: lowering places barriers and splits launches by itself. An extra barrier may make the
    kernel faster or its text clearer.

    :arg insn_before: the id of the statement before the barrier; *insn_after*: the id of the one behind it. The barrier
        is placed in the innermost loop around both. The name of a statement includes all parts of its reductions.
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
    if synchronization_kind not in _KINDS:
        raise PreconditionError(f"There is no barrier of the kind {synchronization_kind!r}.",
                                subject="synchronization_kind", hint=f"the kinds are {' and '.join(_KINDS)}")
    barrier = RequestedBarrier(insn_before, insn_after, synchronization_kind)
    if barrier in kernel.barriers:
        return annotated(kernel)
    result = annotated(kernel, barriers=(*kernel.barriers, barrier))
    require_barriers_in_place(result)
    return result
