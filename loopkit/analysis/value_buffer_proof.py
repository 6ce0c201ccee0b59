"""The proof that a temporary's buffer serves: each read gets the value that it would have got without the buffer.

As :mod:`loopkit.analysis.buffer_proof`, it compares two kernels and knows nothing of how the second was made. A value
reaches its reader as before, or through the cells of the buffer: by way of the storing, of the loading, or of both.
"""
from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from loopkit.analysis.accesses import accesses_by_array, doubt_of
from loopkit.analysis.buffer_proof import another_flow, beyond, outside_of, relations_of
from loopkit.analysis.witnesses import Refusal, refuse_smallest, witness_at
from loopkit.errors import IllegalTransformError
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.sets import Map


def require_values_buffered(before: LoopKernel, after: LoopKernel, temporary: str, buffer: str, step: str) -> None:
    """Refuse *after* if a read of *temporary* or of its *buffer* may get another value than in *before*.

    :raises IllegalTransformError: with the instances and the sizes.
    """
    refuse_smallest(chain(outside_of(after, temporary, buffer, step), _other_values(before, after, temporary, buffer,
                                                                                    step)),
                    f"{step}: whether each read of '{temporary}' gets the same value afterwards")


def _other_values(before: LoopKernel, after: LoopKernel, temporary: str, buffer: str, step: str) -> Iterator[Refusal]:
    """Values that do not arrive where they did, or arrive elsewhere."""
    known = {s.id for s in before.statements}
    copies = {s.id for s in after.statements if s.id not in known}
    steps = [*relations_of(after, temporary, "flow").items(), *relations_of(after, buffer, "flow").items()]
    wanted = relations_of(before, temporary, "flow")
    found = _arrived(steps, copies)
    doubt = doubt_of(before, *accesses_by_array(before)[temporary])
    lost = [_lost(before, after, temporary, step, pair, pairs, doubt) for pair, pairs in beyond(wanted, found)]
    yield from lost or [another_flow(after, temporary, step, pair, pairs, "mistake", doubt)
                        for pair, pairs in beyond(found, wanted)]


def _lost(before: LoopKernel, after: LoopKernel, temporary: str, step: str, pair: tuple[str, str], lost: Map,
          doubt: str | None) -> Refusal:
    return Refusal(after, *pair, lost, lambda params, at_write, at_read: IllegalTransformError(
        f"{step} would lose a value of '{temporary}' on its way through the buffer.",
        witness_at(before, temporary, "flow", dict(params), (pair[0], dict(at_write)), (pair[1], dict(at_read))),
        after=after), doubt)


def _arrived(steps: list[tuple[tuple[str, str], Map]], copies: set[str]) -> dict[tuple[str, str], Map]:
    """From which statement to which a value goes, over as many *copies* as may lie between: storing and loading."""
    result: dict[tuple[str, str], Map] = {}
    arrived = [(pair, relation) for pair, relation in steps if pair[0] not in copies]
    for _ in range(len(copies) + 1):
        pending = []
        for (source, sink), relation in arrived:
            if sink not in copies:
                known = result.get((source, sink))
                result[source, sink] = relation if known is None else known.union(relation)
                continue
            for (first, second), further in steps:
                through = relation.apply_range(further) if first == sink else None
                if through is not None and not through.is_empty():
                    pending.append(((source, second), through))
        arrived = pending
    return result
