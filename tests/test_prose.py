"""The sentences of the documentation: the usual terms, a subject at the start, no persons, and not too long."""
from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted((ROOT / "docs").rglob("*.rst")), ROOT / "README.md", *sorted((ROOT / "notebooks").glob("*.ipynb"))]

#: Words for which the field has a term, and that term.
REPLACED = {
    "waived": "assumed", "given up": "assumed", "owed": "obligation", "sure write": "must-write",
    "certainty": "must-write", "misread": "clobbered", "overtaken": "clobbered", "settling": "storage allocation",
    "settled": "storage allocation", "fetch rule": "copy-in", "dealing": "thread distribution",
    "dealt": "thread distribution", "crossing": "cross-block dependence", "awaited": "inter-block flag",
    "handed": "inter-block flag", "handing": "warp shuffle", "published": "inter-block flag", "whole tile": "full tile",
    "lasting": "index type", "widened": "index widening", "begun": "asynchronous copy"}
#: A program does none of this.
PERSONAL = ("say", "says", "said", "see that", "sees", "saw", "know", "knows", "asks", "wants", "thinks", "looks at")
#: The start of a relative clause, or of a sentence whose subject comes late.
OPENINGS = ("What", "Of", "Where", "Who", "Whose", "Which", "Whatever", "Whoever", "Wherever", "Whichever", "Nor")
LONGEST = 32


def paragraphs(text: str, markdown: bool) -> Iterator[str]:
    """The paragraphs, list items and table cells of a page, without code, directives and titles."""
    text = re.sub(r"^```.*?^```\n", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^( *)\.\. (?!glossary|list-table)[\w-]+::.*\n(?:(?:\1 +.*)?\n)*", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"^.+\n([-=~])\1{3,}\n", "\n", text, flags=re.MULTILINE)
    for block in re.split(r"\n(?: *\n)+", text):
        if re.match(r"={3,}  ", block):
            yield from cells(block)
        elif block.startswith("|") and markdown:
            yield from (cell for row in block.splitlines() for cell in row.split("|") if cell.strip(" -"))
        elif not re.match(r" *(>>>|#|\.\.|:\w+:)" if not markdown else r" {4}|#", block):
            yield from items(block)


def items(block: str) -> Iterator[str]:
    """The parts of *block*: one begins at each bullet, and where the indentation grows."""
    part, indent = "", 0
    for line in block.splitlines():
        bullet = re.match(r" *(?:\* - |[-*] )", line)
        line = bullet[0].replace("*", " ").replace("-", " ") + line[bullet.end():] if bullet else line
        begins = len(line) - len(line.lstrip())
        if bullet or begins > indent:
            yield part
            part = ""
        part, indent = f"{part} {line.strip()}", begins
    yield part


def cells(table: str) -> Iterator[str]:
    """The cells of a simple table with two columns, without code that stands alone."""
    width = table.index(" ") + 2
    column = ""
    for line in table.splitlines():
        if line[:width].strip() and column:
            yield column
            column = ""
        if not line.startswith("==="):
            column = f"{column} {line[width:].strip()}"
    yield column


def sentences(path: Path) -> Iterator[str]:
    """The sentences of a page; ``X`` stands for code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = "\n\n".join(cell.source for cell in nbformat.reads(text, 4).cells if cell.cell_type == "markdown")
    for paragraph in paragraphs(text, path.suffix != ".rst"):
        plain = re.sub(r"(?<!:)`[^`]+`(?!_)", "X", re.sub(r"``.+?``|:\w+:`.+?`", "X", paragraph))
        plain = re.sub(r"\[(.+?)\]\(.+?\)", r"\1", plain)
        yield from filter(None, (part.strip(" *") for part in re.split(r"(?<=[.!?])\s+|(?<=[.!?][)*])\s+", plain)))


def test_paragraphs_are_found() -> None:
    page = ("Title\n=====\n\nOne. Two ``a. B``.\n\n- Three\n  four.\n- Five.\n\n>>> 6\n7\n\n.. code-block:: text\n\n"
            "   8\n\n.. glossary::\n   :sorted:\n\n   term\n      Nine. Ten.\n\n====  ====\n``a`` Xi\n"
            "      xii\n====  ====\n")
    assert [" ".join(part.split()) for part in paragraphs(page, markdown=False) if part.strip()] == [
        "One. Two ``a. B``.", "Three four.", "Five.", "term", "Nine. Ten.", "Xi xii"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_sentences(path: Path) -> None:
    found = list(sentences(path))
    assert len(found) > 5
    faults = [f"{fault}: {sentence}" for sentence in found for fault in faults_of(sentence)]
    assert not faults, "\n" + "\n".join(faults)


def faults_of(sentence: str) -> Iterator[str]:
    for word, term in REPLACED.items():
        if re.search(rf"\b{word}\b", sentence, re.IGNORECASE):
            yield f"{word!r}, for which the term is {term!r}"
    for word in PERSONAL:
        if re.search(rf"\b{word}\b", sentence):
            yield f"{word!r}, which a program does not do"
    if (opening := re.match(r"\w+", sentence)) and opening[0] in OPENINGS:
        yield f"it begins with {opening[0]!r} in place of its subject"
    if (length := len(sentence.split())) > LONGEST:
        yield f"{length} words"
