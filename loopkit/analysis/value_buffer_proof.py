"""The proof that a temporary's buffer serves: each read gets the value that it would have got without the buffer.

As :mod:`loopkit.analysis.buffer_proof`, it compares two kernels and knows nothing of how the second was made. A value
reaches its reader as before, or through the cells of the buffer: by way of the storing, of the loading, or of both.
"""
from __future__ import annotations

from loopkit.analysis.buffer_proof import refuse_flow, relations_of, require_inside
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.sets import Map


def require_values_buffered(before: LoopKernel, after: LoopKernel, temporary: str, buffer: str, step: str) -> None:
    """Refuse *after* if a read of *temporary* or of its *buffer* may get another value than in *before*.

    :raises IllegalTransformError: with the instances and the sizes.
    """
    require_inside(after, temporary, buffer, step)
    known = {s.id for s in before.statements}
    copies = {s.id for s in after.statements if s.id not in known}
    steps = [*relations_of(after, temporary, "flow").items(), *relations_of(after, buffer, "flow").items()]
    wanted = relations_of(before, temporary, "flow")
    found = _arrived(steps, copies)
    for pair in {**wanted, **found}:
        if pair not in found or not wanted.get(pair, found[pair]).is_subset(found[pair]):
            lost = wanted[pair].subtract(found[pair]) if pair in found else wanted[pair]
            refuse_flow(after, temporary, step, pair, lost, "lose")
        if pair not in wanted or not found[pair].is_subset(wanted[pair]):
            wrong = found[pair].subtract(wanted[pair]) if pair in wanted else found[pair]
            refuse_flow(after, temporary, step, pair, wrong, "mistake")


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
