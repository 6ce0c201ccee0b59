"""specialize_warps: a warp of a block of its own for copies, beside the threads that compute."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from loopkit.analysis.constructors import rewritten
from loopkit.ast.nodes import Completion
from loopkit.errors import PreconditionError
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import AutoLocalTag, LocalTag
from loopkit.transform.step import known_list, transform


@transform
def specialize_warps(kernel: LoopKernel, producers: str | Iterable[str]) -> LoopKernel:
    """Let a further warp of each block run the copies *producers*: its first thread is the *producer* thread.

    The other threads of the block are its consumers. The two roles run at once: the producer waits until the consumers
    have read a tile, and then copies another one to its place; the consumers wait until a tile has arrived.
    Two rings of mbarriers, of full and of empty tiles, have a phase for each tile.
    ``pipeline(knl, iname, stages, ahead=0)`` gives a tile several places. The producer is as many tiles ahead.

    :arg producers: the ids of copies by TMA, which one thread starts (:func:`tensorize`).
    :raises UnknownNameError: there is no such statement.
    :raises PreconditionError: a statement is no copy by TMA, or many threads run it.

    >>> knl = lk.make_kernel("{[t, i]: 0<=t<n and 0<=i<32}", "<> tile[i] = x[t, i]  {id=copy}\\n y[t, i] = 2*tile[i]")
    >>> knl = lk.add_dtypes(knl, {"x": np.float32})
    """
    names = known_list("statement", producers, kernel.statement_by_id)
    for s in map(kernel.statement_by_id.__getitem__, names):
        if s.completion is not Completion.PHASE:
            raise PreconditionError(f"'{s.id}' is no copy by TMA, and the producer thread starts nothing else.",
                                    subject=s.id, hint=f"tensorize(knl, '{s.id}', 'tma.load')")
        if many := [x for x in s.inames if isinstance(kernel.tags.get(x), LocalTag | AutoLocalTag)]:
            raise PreconditionError(f"'{s.id}' runs on many threads, by '{many[0]}', and the producer is one thread.",
                                    subject=many[0], hint=f"untag_inames(knl, '{many[0]}')")
    return rewritten(kernel, statements=tuple(
        replace(s, options=replace(s.options, producer=True)) if s.id in names else s for s in kernel.statements))
