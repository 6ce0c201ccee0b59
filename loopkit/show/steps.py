"""The steps that made a kernel, as a table."""
from __future__ import annotations

from collections.abc import Mapping

from loopkit.kernel.history import History
from loopkit.show.document import Block, Span, Style, table

#: The style of each verdict on a step, a check or a finding.
VERDICT_STYLES: Mapping[str, Style] = {"structural": "note", "proven": "good", "assumed": "warning",
                                       "unsafe": "bad", "undecided": "warning", "refuted": "bad"}


def steps_table(history: History) -> tuple[Block, ...]:
    """The steps of *history* with their verdicts and side effects; nothing if there are none."""
    rows = [(str(number), str(step).removeprefix("knl = lk."), Span(step.verdict, VERDICT_STYLES[step.verdict]),
             Span("; ".join(step.effects), "warning")) for number, step in enumerate(history, 1)]
    return table("Steps", ("step", "call", "verdict", "also changes"), rows)
