"""Text with positions, and its tokens: what every parser of the kernel language starts from."""
from __future__ import annotations

import re
from dataclasses import dataclass, field

from loopkit.errors import ParseError


@dataclass(frozen=True)
class Source:
    """A piece of the user's text; its errors have a line and a column.

    :ivar text: the text as the user gave it.
    :ivar what: its name in messages (``"the instructions"``).
    """

    text: str
    what: str

    def line_of(self, offset: int) -> int:
        """The number of the line, from 1, of the character at *offset*."""
        return self.text.count("\n", 0, offset) + 1

    def error(self, offset: int, message: str, expected: str, *, hint: str | None = None) -> ParseError:
        """The error with its caret under the character at *offset*."""
        offset = min(offset, len(self.text))
        start = self.text.rfind("\n", 0, offset) + 1
        stop = self.text.find("\n", offset)
        line = self.text[start:stop if stop >= 0 else len(self.text)]
        return ParseError(message, line=self.line_of(offset), column=offset - start + 1, expected=expected,
                          source=line.rstrip(), hint=hint)


_TOKEN = re.compile(r"""
    (?:[ \t\r\f]+ | \#[^\n]* | \\[ \t\r]*\n)*
    (?: (?P<name>[A-Za-z_]\w*)
      | (?P<number>0[xX][0-9a-fA-F]+ | (?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\w*)
      | (?P<op>\*\*|//|:=|==|!=|<=|>=|->|\+=|-=|\*=|/=|[-+*/%<>=()\[\]{},:])
      | (?P<newline>\n)
      | (?P<other>.)
      | (?P<end>\Z) )""", re.VERBOSE | re.ASCII)

_CLOSERS = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True)
class Tokens:
    """The tokens of a source as parallel lists; the last is of kind ``"end"``.

    Line ends within brackets are no tokens. Kinds: ``name, number, op, newline, other, end``.
    """

    source: Source
    kinds: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)

    def error(self, index: int, message: str, expected: str, *, hint: str | None = None) -> ParseError:
        """The error whose caret stands under token *index*."""
        return self.source.error(self.starts[index], message, expected, hint=hint)


def tokenize(source: Source) -> Tokens:
    """Split *source*; :raises ParseError: its brackets do not match."""
    tokens = Tokens(source)
    kinds, texts, starts = tokens.kinds, tokens.texts, tokens.starts
    opened: list[tuple[str, int]] = []
    match, at, text = _TOKEN.match, 0, source.text
    while True:
        found = match(text, at)
        assert found is not None
        assert found.lastgroup is not None
        kind = found.lastgroup
        at = found.end()
        if kind == "end":
            break
        if kind == "newline":
            if opened or not kinds or kinds[-1] == "newline":
                continue
        elif kind == "op":
            token = found[kind]
            if token in "([{":
                opened.append((token, found.start(kind)))
            elif token in ")]}":
                if not opened or opened[-1][0] != _CLOSERS[token]:
                    expected = _closer(opened[-1][0]) if opened else "no closing bracket"
                    raise source.error(found.start(kind), f"'{token}' in {source.what} closes nothing.", expected)
                opened.pop()
        kinds.append(kind)
        texts.append(found[kind])
        starts.append(found.start(kind))
    if opened:
        token, start = opened[-1]
        raise source.error(start, f"'{token}' in {source.what} is never closed.", f"{_closer(token)} behind it")
    kinds.append("end")
    texts.append("")
    starts.append(len(text))
    return tokens


def _closer(opener: str) -> str:
    return {"(": "')'", "[": "']'", "{": "'}'"}[opener]
