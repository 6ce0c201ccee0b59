"""Generated code in colours, with the statement of each line, and the steps that made it."""
from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from loopkit.ast.nodes import FULL_TILE
from loopkit.kernel.kernel import LoopKernel
from loopkit.show.document import Block, Code, CodeFold, Document, Fold, Span, table
from loopkit.show.kernels import VERDICT_STYLES
from loopkit.show.statement_steps import steps_of_statements
from loopkit.show.words import ranges_text
from loopkit.target.code import GeneratedCode

#: The comment of a statement, or of several that one comment is for.
_COMMENT = re.compile(r"\s*// (\S+)( \.\.\. .*)?$")

#: Starts of lines that belong to no statement.
_OTHER = re.compile(r"\s*(//|\}|\{|for \(|if \(|else|const |#|__sync|$)")

#: The start and the end of a guard; one inside of a sequence has no comment behind it.
_GUARD = re.compile(r"\s*(if \(|\})")


def code_document(code: GeneratedCode) -> Document:
    """The source of *code* with a margin that names the statement of each line and its steps, which a table lists."""
    history = () if code.kernel is None else code.kernel.history
    rows = [(str(number), str(step).removeprefix("knl = lk."), Span(step.verdict, VERDICT_STYLES[step.verdict]))
            for number, step in enumerate(history, 1)]
    notes = ["The margin of the code names the statement of a line, and the steps that made or changed this statement."]
    return Document(code.headline, (*source_blocks(code), *table("Steps", ("step", "call", "verdict"), rows, notes)))


def source_blocks(code: GeneratedCode, kernels: Sequence[LoopKernel] = ()) -> tuple[Block, ...]:
    """The source of *code* with its margin, and the launches of the host.

    :arg kernels: the results of the steps of the kernel, if they are known.
    """
    lines = tuple(code.source.splitlines())
    margin = () if code.kernel is None else tuple(_margin(lines, code.kernel, kernels))
    source = Code(lines, code.target, margin if any(span.text for span in margin) else (), tuple(_folds(lines)))
    host = Fold("Host", (Code(tuple(code.host.splitlines()), code.target),))
    return (source, host) if code.host else (source,)


def _margin(lines: Sequence[str], knl: LoopKernel, kernels: Sequence[LoopKernel]) -> Iterator[Span]:
    """For each line the id of its statement, which comments name, and the numbers of its steps.

    As a hint the statement, its domain, and the calls of the steps.
    """
    steps = steps_of_statements(knl.history, kernels)
    spans = {s.id: _statement_span(knl, s.id, steps) for s in knl.statements}
    current, is_sequence = Span(""), False
    for line, after in pairwise((*lines, "")):
        comment = _COMMENT.match(line)
        if comment and comment[1] in spans:
            current, is_sequence = spans[comment[1]], comment[2] is not None
        elif _OTHER.match(line) and not (is_sequence and _GUARD.match(line) and not _COMMENT.match(after)):
            current = Span("")
        yield current


def _statement_span(knl: LoopKernel, name: str, steps: Mapping[str, tuple[int, ...]]) -> Span:
    statement = knl.statement_by_id[name]
    lines = [str(statement), statement.domain.text]
    # lowering writes out reductions: their statements come from the steps of the update
    owner = next((node.update for node in knl.reductions.values() if name.startswith(f"{node.name}.")), name)
    own = steps.get(name) or steps.get(owner, ())
    if own:
        calls = ["make_kernel", *(str(step).removeprefix("knl = lk.") for step in knl.history)]
        lines += [f"{'changed' if i else 'made'} by step {number}: {calls[number]}" if number else "as written"
                  for i, number in enumerate(own)]
    return Span(f"{name} {ranges_text([number for number in own if number])}".rstrip(), "note", "\n".join(lines))


def _folds(lines: Sequence[str]) -> Iterator[CodeFold]:
    """The branches of each ``if`` for full tiles."""
    for number, line in enumerate(lines):
        if not line.endswith(f"{{  // {FULL_TILE}"):
            continue
        start = number
        while not lines[start].lstrip().startswith(("if (", "} else if (")):    # a wrapped condition
            start -= 1
        indent = len(lines[start]) - len(lines[start].lstrip())
        body = number + 1
        while body:
            end = next(i for i in range(body, len(lines)) if lines[i][indent:indent + 1] not in ("", " "))
            yield CodeFold(start, body, end)
            start = end
            is_branch = lines[end].lstrip().startswith("} else")
            body = next(i for i in range(end, len(lines)) if "{" in lines[i]) + 1 if is_branch else 0
