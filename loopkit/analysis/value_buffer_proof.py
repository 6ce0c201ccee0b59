"""The proof that a temporary's buffer serves: each read gets the value that it would have got without the buffer.

As :mod:`loopkit.analysis.buffer_proof`, it compares two kernels and knows nothing of how the second was made. A value
reaches its reader as before, or through the cells of the buffer: by way of the storing, of the loading, or of both.
"""
from __future__ import annotations

from loopkit.analysis.buffer_proof import refuse_flow, relations_of, require_inside
from loopkit.analysis.legality import witness_at
from loopkit.errors import IllegalTransformError
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.relations import smallest_pair
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
    for pair, relation in wanted.items():
        lost = relation.subtract(found[pair]) if pair in found else relation
        if not lost.is_empty():
            writer, reader = (before.statement_by_id[s] for s in pair)
            params, at_write, at_read = smallest_pair(lost, writer.inames, reader.inames)
            raise IllegalTransformError(
                f"{step} would lose a value of '{temporary}' on its way through the buffer.",
                witness_at(before, temporary, "flow", params, (writer.id, at_write), (reader.id, at_read)), after=after)
    for pair, relation in found.items():
        wrong = relation.subtract(wanted[pair]) if pair in wanted else relation
        if not wrong.is_empty():
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
