"""Generated code in colours, with the statement of each line."""
from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from loopkit.kernel.kernel import LoopKernel
from loopkit.show.document import Block, Code, Document, Fold, Span
from loopkit.target.code import GeneratedCode

#: Starts of lines that belong to no statement.
_OTHER = re.compile(r"\s*(//|\}|\{|for \(|if \(|else|const |#|__sync|$)")


def code_document(code: GeneratedCode) -> Document:
    """The source of *code* with a margin that names the statement of each line, and the launches of the host."""
    lines = tuple(code.source.splitlines())
    margin = () if code.kernel is None else tuple(_margin(lines, code.kernel))
    body: list[Block] = [Code(lines, code.target, margin if any(span.text for span in margin) else ())]
    if code.host:
        body.append(Fold("Host", (Code(tuple(code.host.splitlines()), code.target),)))
    return Document(code.headline, tuple(body))


def _margin(lines: Sequence[str], knl: LoopKernel) -> Iterator[Span]:
    """For each line the id of its statement, which comments name; as a hint the statement and its domain."""
    hints = {s.id: f"{s}\n{s.domain.text}" for s in knl.statements}
    current = ""
    for line in lines:
        comment = line.strip().removeprefix("// ")
        if line.lstrip().startswith("//") and comment in knl.statement_by_id:
            current = comment
        elif _OTHER.match(line):
            current = ""
        yield Span(current, "note", hints[current] if current else "")
