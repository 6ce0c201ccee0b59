"""The words of docstrings, messages and comments: sentences open with their subject, and refused words stay out."""
from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_prose import OPENINGS, PERSONAL, REPLACED

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "loopkit").rglob("*.py"))

#: A pattern for each refused form, and the plain one. Titles of up to three words may open with any word.
REFUSED = {
    rf"(?:^|[.?!:] +)(?:{'|'.join(OPENINGS)})\b(?! \S+(?: \S+)?$)": "open the sentence with its subject",
    r":(?:arg|ivar) \w+: (?:of|what|where|who|which|whose|that) ": "open the description with a noun: 'number of ...'",
    rf"\b(?:{'|'.join(PERSONAL)})\b": "code is no person: declares, has, is",
    r"(?<!here )\b(?:is|are|was|were) (?:no(?! longer\b)|none(?= \w))\b": "write 'is not a ...' or 'is unknown'",
    **{rf"\b{word}\b": f"write '{term}'" for word, term in REPLACED.items()},
}
#: Any of them: most texts have none.
ANY = re.compile("|".join([*[*REFUSED][:-len(REPLACED)], rf"\b(?:{'|'.join(REPLACED)})\b"]))


def texts(source: str) -> Iterator[tuple[int, str]]:
    """The line and the text of each comment and each string; ``{}`` stands for a value in an f-string."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#: ")
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.JoinedStr | ast.Constant)]
    inner = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node.value, str) and id(node) not in inner:
            yield node.lineno, node.value


def prose(text: str) -> str:
    """*text* without its examples, and with ``x`` in place of code and of names of arguments."""
    plain = re.sub(r"^ *>>>.*?(?:\n *\n|\Z)", "", text, flags=re.MULTILINE | re.DOTALL)
    return " ".join(re.sub(r"``.*?``|(?<![\w*])\*\w+\*", "x", plain, flags=re.DOTALL).split())


def faults(text: str) -> list[str]:
    plain = prose(text)
    if not ANY.search(plain):
        return []
    return [f"{match[0]!r}: {advice}" for pattern, advice in REFUSED.items() for match in re.finditer(pattern, plain)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_words(path: Path) -> None:
    """Also each description of an argument begins its own line, where Sphinx finds it."""
    found = [f"{path.relative_to(ROOT)}:{line}: {fault}"
             for line, text in texts(path.read_text(encoding="utf-8"))
             for fault in [*faults(text), *re.findall(r"\S :(?:arg|ivar) \w+:", text)]]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("text", [
    "It is checked. What differs is kept.", "Of two loops, the first.", ":arg threads: of a block",
    "the domain says it", "'i' is no iname", "the parts that are none of these", "a value that is handed on"])
def test_refused(text: str) -> None:
    assert len(faults(text)) == 1


@pytest.mark.parametrize("text", [
    "Where values live",
    "there is no such iname", "it is no longer an iname", "``what is no name``", "the bounds *wants*",
    "Copy it.\n\n    >>> knl = made()   # What is no name\n"])
def test_accepted(text: str) -> None:
    assert not faults(text)
