"""Documents: what an object shows, apart from how it is drawn."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

#: ``note``: of less interest; ``good``, ``warning`` and ``bad``: a verdict, which the text gives too; the last four are
#: tokens of code.
Style = Literal["", "note", "good", "warning", "bad", "name", "comment", "keyword", "number", "string"]


@dataclass(frozen=True)
class Span:
    """A piece of a line.

    :ivar hint: a further text: on hovering in HTML, nowhere else.
    """

    text: str
    style: Style = ""
    hint: str = ""


#: A line, or the content of a table's cell: a text, or pieces of one.
Line = str | Span | tuple["str | Span", ...]


@dataclass(frozen=True)
class Paragraph:
    """Lines that may be wrapped."""

    lines: tuple[Line, ...]


@dataclass(frozen=True)
class CodeFold:
    """Lines of code from number *body* to *end* that can be folded away, behind those from *start* to *body*."""

    start: int
    body: int
    end: int


@dataclass(frozen=True)
class Code:
    """Lines of code, which are never wrapped.

    :ivar language: a target's name, such as ``"cuda"``, ``"python"``, or ``""`` for the kernel language.
    :ivar margin: for each line what it belongs to; empty: nothing is known. Hints of these appear over the whole line.
    :ivar folds: the parts that HTML can fold away, each before those inside it.
    """

    lines: tuple[Line, ...]
    language: str = ""
    margin: tuple[Span, ...] = ()
    folds: tuple[CodeFold, ...] = ()


@dataclass(frozen=True)
class Table:
    """Rows of cells under *head*."""

    head: tuple[str, ...]
    rows: tuple[tuple[Line, ...], ...]


@dataclass(frozen=True)
class Picture:
    """A drawing.

    :ivar svg: a whole ``<svg>`` element.
    :ivar text: the same content in words.
    """

    svg: str
    text: str


@dataclass(frozen=True)
class Fold:
    """A part with a title, which HTML can fold away."""

    title: str
    body: tuple[Block, ...]
    is_open: bool = True


Block = Paragraph | Code | Table | Picture | Fold


@dataclass(frozen=True)
class Document:
    """All that an object shows."""

    title: str
    body: tuple[Block, ...]


def spans(line: Line) -> tuple[Span, ...]:
    """*line* in pieces."""
    parts: Sequence[str | Span] = line if isinstance(line, tuple) else (line,)
    return tuple(Span(part) if isinstance(part, str) else part for part in parts)


def plain(line: Line) -> str:
    """The text of *line* alone."""
    return "".join(span.text for span in spans(line))


def section(title: str, lines: Iterable[Line], *, is_open: bool = True, is_code: bool = False) -> tuple[Fold, ...]:
    """A part of *lines* under *title*; nothing if there are none."""
    found = tuple(lines)
    return (Fold(title, (Code(found) if is_code else Paragraph(found),), is_open),) if found else ()


def table(title: str, head: Iterable[str], rows: Iterable[tuple[Line, ...]], notes: Iterable[Line] = ()
          ) -> tuple[Fold, ...]:
    """A table under *title*, without the columns that have no entry, and *notes* below; nothing without rows."""
    known, titles = tuple(rows), tuple(head)
    kept = [i for i in range(len(titles)) if any(plain(row[i]) for row in known)]
    own = Table(tuple(titles[i] for i in kept), tuple(tuple(row[i] for i in kept) for row in known))
    below = tuple(notes)
    return (Fold(title, (own, *((Paragraph(below),) if below else ()))),) if known else ()
