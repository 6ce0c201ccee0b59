"""The words of docstrings and messages: sentences open with their subject, and refused words stay out."""
from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("analysis", "ast", "expr", "instructions", "kernel", "language", "library", "lowering", "poly", "transform",
            "verification")
FILES = [path for package in PACKAGES for path in sorted((ROOT / "loopkit" / package).rglob("*.py"))]

#: A pattern for each refused form, and the plain one.
REFUSED = {
    r"(?:^|[.?!:] +)(?:What|Of|Who|Where|Which|Whose|Whom)\b": "open the sentence with its subject",
    r":(?:arg|ivar) \w+: (?:of|what|where|who|which|whose|that) ": "open the description with a noun: 'number of ...'",
    r"\b(?:says?|said|sees|saw|knows|knew|wants|asks|asked|thinks|believes)\b": "code is no person: declares, has, is",
    r"(?<!here )\b(?:is|are|was|were) (?:no(?! longer\b)|none(?= \w))\b": "write 'is not a ...' or 'is unknown'",
    r"\b(?:shall|waived|owed|misread|overtaken|careless|handed|awaited|whole tiles?|sure writes?)\b":
        "the glossary has another word",
}


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the text of each string; ``{}`` stands for a value in an f-string, and code is left out."""
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.lineno, node.value


def prose(text: str) -> str:
    """*text* without its examples, and with ``x`` in place of code and of names of arguments."""
    plain = re.sub(r"^ *>>>.*?(?:\n *\n|\Z)", "", text, flags=re.MULTILINE | re.DOTALL)
    return " ".join(re.sub(r"``.*?``|(?<![\w*])\*\w+\*", "x", plain, flags=re.DOTALL).split())


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_words(path: Path) -> None:
    faults = []
    for line, text in texts(ast.parse(path.read_text(encoding="utf-8"))):
        faults += [f"{path.relative_to(ROOT)}:{line}: {match[0]!r}: {advice}"
                   for pattern, advice in REFUSED.items() for match in re.finditer(pattern, prose(text))]
    assert not faults, "\n".join(faults)
