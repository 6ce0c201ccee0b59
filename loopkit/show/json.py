"""Documents as data for other programs: what ``json.dumps`` takes."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from loopkit.show.document import Block, Code, Document, Fold, Line, Paragraph, Picture, Table, plain


def as_data(document: Document) -> dict[str, Any]:
    """*document* as dictionaries, lists and texts; each block has its ``kind``.

    >>> from loopkit.show.document import Document, section
    >>> as_data(Document("kernel 'k'", section("Domains", ["{ [i] : 0 <= i < n }"])))["body"]
    [{'kind': 'part', 'title': 'Domains', 'body': [{'kind': 'text', 'lines': ['{ [i] : 0 <= i < n }']}]}]
    """
    return {"title": document.title, "body": list(map(_block_data, document.body))}


def _block_data(block: Block) -> dict[str, Any]:
    match block:
        case Paragraph(lines):
            return {"kind": "text", "lines": _texts(lines)}
        case Code(lines, language):
            margin = {"margin": [span.text for span in block.margin]} if block.margin else {}
            return {"kind": "code", "language": language, "lines": _texts(lines), **margin}
        case Table(head, rows):
            return {"kind": "table", "head": list(head), "rows": list(map(_texts, rows))}
        case Picture(_, text):
            return {"kind": "picture", "text": text}
        case Fold(title, body):
            return {"kind": "part", "title": title, "body": list(map(_block_data, body))}


def _texts(lines: Iterable[Line]) -> list[str]:
    return list(map(plain, lines))
