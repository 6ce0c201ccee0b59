"""Documents as text: plain, or with the colours of a terminal through rich."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

from loopkit.show.document import (
    Block,
    Code,
    Document,
    Fold,
    Line,
    Paragraph,
    Picture,
    Span,
    Style,
    Table,
    plain,
    spans,
)

#: Columns of a terminal, for lines that may be wrapped.
WIDTH = 100

#: Styles of rich.
_COLOURS: dict[Style, str] = {"": "", "note": "dim", "good": "green", "warning": "yellow", "bad": "bold red",
                              "name": "bold", "comment": "dim", "keyword": "magenta", "number": "cyan",
                              "string": "green"}

Pieces = tuple[Span, ...]


def as_text(document: Document, width: int = WIDTH) -> str:
    """*document* as plain text, with lines of at most *width* columns except for code and tables.

    A part that HTML folds away is written too, except for one inside another part, which is named only.

    >>> from loopkit.show.document import Document, section
    >>> print(as_text(Document("kernel 'k'", section("Domains", ["{ [i] : 0 <= i < n }"]))))
    kernel 'k'
    DOMAINS
      { [i] : 0 <= i < n }
    """
    return "\n".join(plain(line).rstrip() for line in text_lines(document, width))


def as_rich(document: Document) -> Any:
    """*document* for the console of rich, which a caller of this function has."""
    from rich.text import Text
    found = Text(no_wrap=True)
    for number, line in enumerate(text_lines(document)):
        found.append("\n" if number else "")
        for span in line:
            found.append(span.text, style=_COLOURS[span.style])
    return found


def text_lines(document: Document, width: int = WIDTH) -> Iterator[Pieces]:
    """The lines of *document* in pieces."""
    if document.title:
        yield (Span(document.title, "name"),)
    for block in document.body:
        yield from block_lines(block, width)


def block_lines(block: Block, width: int = WIDTH, *, is_inner: bool = False) -> Iterator[Pieces]:
    """The lines of *block* in pieces."""
    match block:
        case Paragraph(lines):
            for line in lines:
                yield from _fitted(spans(line), width)
        case Code():
            yield from _code_lines(block)
        case Table():
            yield from _table_lines(block)
        case Picture():
            yield from ((Span(line),) for line in block.text.splitlines())
        case Fold():
            is_section = not is_inner and block.title.replace(" ", "").isalpha()
            yield (Span(block.title.upper() if is_section else block.title, "name"),)
            if is_inner and not block.is_open:
                yield (Span("  ...", "note"),)
                return
            for part in block.body:
                yield from ((Span("  "), *line) for line in block_lines(part, width - 2, is_inner=True))


def _fitted(line: Pieces, width: int) -> Iterator[Pieces]:
    """*line* broken at spaces; continued lines are indented by four more columns than the line."""
    text = plain(line)
    indent = len(text) - len(text.lstrip()) + 4
    styles = [span.style for span in line for _ in span.text]
    start, lead = 0, ""
    while len(text) - start > width - len(lead):
        end = text.rfind(" ", start + 1, start + width - len(lead) + 1)
        if end <= start + (indent - 4 if not lead else 0):
            end = text.find(" ", start + width - len(lead))
        if end < 0:
            break
        yield _styled(lead, text[start:end], styles[start:end])
        start, lead = end + 1, " "*indent
    yield _styled(lead, text[start:], styles[start:])


def _styled(lead: str, text: str, styles: Sequence[Style]) -> Pieces:
    """*lead* and *text*, in pieces of one style."""
    cuts = [0, *(i for i in range(1, len(text)) if styles[i] != styles[i - 1]), len(text)]
    return Span(lead), *(Span(text[a:b], styles[a]) for a, b in pairwise(cuts) if a < b)


def _code_lines(code: Code) -> Iterator[Pieces]:
    width = max((len(span.text) for span in code.margin), default=0)
    for number, line in enumerate(code.lines):
        if width:
            span = code.margin[number]
            yield Span(f"{span.text:{width}} | ", "note"), *spans(line)
        else:
            yield spans(line)


def _table_lines(table: Table) -> Iterator[Pieces]:
    rows: list[tuple[Line, ...]] = [*([table.head] if any(table.head) else []), *table.rows]
    widths = [max(len(plain(cell)) for cell in column) for column in zip(*rows, strict=True)]
    starts = [0, *accumulate(width + 2 for width in widths)]
    for number, row in enumerate(rows):
        line: list[Span] = []
        for cell, start in zip(row, starts, strict=False):
            line.append(Span(" "*(start - len(plain(tuple(line))))))
            line += (Span(span.text, "note" if number == 0 and any(table.head) else span.style) for span in spans(cell))
        yield tuple(line)
