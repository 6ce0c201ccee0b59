"""specialize_warps: a warp of a block of its own for copies, beside the threads that compute."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from loopkit.analysis.constructors import rewritten
from loopkit.ast.nodes import Completion
from loopkit.errors import PreconditionError
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import AutoLocalTag, LocalTag
from loopkit.transform.step import known_list, require_positive, transform


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


@transform
def persistent(kernel: LoopKernel, blocks: int) -> LoopKernel:
    """Let *blocks* blocks run all places of the grid in launches with a producer thread, each several places in turn.

    The producer copies the first tiles of the next place while the other threads finish the one before
    (:func:`specialize_warps`). Block *b* runs the places *b*, *b* + *blocks*, ..., in the order in which a GPU starts
    blocks. The places remain independent of each other.

    :arg blocks: as many as the GPU runs at once: the number of its multiprocessors if each holds one block.
    :raises PreconditionError: *blocks* is not positive, or no statement runs in the producer thread.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> lk.persistent(knl, 132)
    Traceback (most recent call last):
    ...
    loopkit.errors.PreconditionError: No statement runs in a producer thread, so blocks would gain nothing.
      hint: specialize_warps(knl, copies) first
    """
    require_positive(blocks, "blocks")
    if not any(s.options.producer for s in kernel.statements):
        raise PreconditionError("No statement runs in a producer thread, so blocks would gain nothing.",
                                subject="blocks", hint="specialize_warps(knl, copies) first")
    return rewritten(kernel, options=replace(kernel.options, persistent=blocks))
