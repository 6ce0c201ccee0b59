"""replay: the steps of one kernel's history, made on another kernel."""
from __future__ import annotations

from loopkit.kernel.annotations import checked
from loopkit.kernel.history import History
from loopkit.kernel.kernel import LoopKernel


@checked
def replay(kernel: LoopKernel, history: History | LoopKernel) -> LoopKernel:
    """Make the steps of *history* on *kernel*.

    Each step is checked on *kernel* as in a direct call: a proof for the kernel of the history need not hold for
    *kernel*.

    :arg history: ``knl.history``, a slice of one (``knl.history[2:]``), or a kernel, which stands for its history.
    :raises ReplayError: a step cannot be made on *kernel*; with the step, its number and its error.

    >>> mapped = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> mapped = lk.split_iname(mapped, "i", 128, outer_tag="g.0", inner_tag="l.0")
    >>> knl = lk.make_kernel("{[i]: 0<=i<m}", "z[i] = a[i] + b[i]")
    >>> print(lk.replay(knl, mapped.history).statements_text)
    for i_outer [g.0], i_inner [l.0]
      z[128*i_outer + i_inner] = a[128*i_outer + i_inner] + b[128*i_outer + i_inner]  {id=insn}
    end
    """
    steps = history.history if isinstance(history, LoopKernel) else history
    return steps.replay(kernel)
