"""Text with positions, its tokens, and a cursor over them: the base of every parser of the kernel language."""
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


#: Reserved words of the syntax.
KEYWORDS = frozenset({"and", "or", "not", "if", "elif", "else", "for", "end", "true", "false", "True", "False"})

_TOKEN = re.compile(r"""
    (?:[ \t\r\f]+ | \#[^\n]* | \\[ \t\r]*\n)*
    (?: (?P<name>[A-Za-z_]\w*)
      | (?P<number>0[xX][0-9a-fA-F]+ | (?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\w*)
      | (?P<op>\*\*|//|:=|==|!=|<=|>=|->|\+=|-=|\*=|/=|[-+*/%<>=()\[\]{},:])
      | (?P<newline>\n)
      | (?P<other>.)
      | (?P<end>\Z) )""", re.VERBOSE | re.ASCII)

_CLOSERS = {"(": ")", "[": "]", "{": "}"}


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
            if token in _CLOSERS:
                opened.append((token, found.start(kind)))
            elif token in ")]}":
                if not opened or _CLOSERS[opened[-1][0]] != token:
                    expected = f"'{_CLOSERS[opened[-1][0]]}'" if opened else "no closing bracket"
                    raise source.error(found.start(kind), f"'{token}' in {source.what} closes nothing.", expected)
                opened.pop()
        kinds.append(kind)
        texts.append(found[kind])
        starts.append(found.start(kind))
    if opened:
        token, start = opened[-1]
        raise source.error(start, f"'{token}' in {source.what} is never closed.", f"'{_CLOSERS[token]}' behind it")
    kinds.append("end")
    texts.append("")
    starts.append(len(text))
    return tokens


@dataclass
class Cursor:
    """A position in *tokens*.

    :ivar at: the index of the current token.
    """

    tokens: Tokens
    at: int = 0

    @property
    def text(self) -> str:
        """The text of the current token."""
        return self.tokens.texts[self.at]

    @property
    def kind(self) -> str:
        """The kind of the current token."""
        return self.tokens.kinds[self.at]

    def error(self, expected: str, *, at: int | None = None, message: str | None = None,
              hint: str | None = None) -> ParseError:
        """The error for the token at *at* (the current one), in the place of which *expected* is allowed."""
        at = self.at if at is None else at
        if message is None:
            kind, what = self.tokens.kinds[at], self.tokens.source.what
            if kind in ("end", "newline"):
                message = f"The end of {'a line of ' if kind == 'newline' else ''}{what} comes too early."
            else:
                message = f"{what[:1].upper()}{what[1:]} cannot be read at '{self.tokens.texts[at]}'."
                hint = hint or self.foreign(at)
        return self.tokens.error(at, message, expected, hint=hint)

    def foreign(self, at: int) -> str | None:
        """A hint if the token at *at* has a meaning in other languages only."""

    def take(self, text: str, expected: str | None = None) -> None:
        """Step over *text*; :raises ParseError: the current token is another."""
        if not self.accept(text):
            raise self.error(expected or f"'{text}'")

    def accept(self, *texts: str) -> bool:
        """Step over the current token if it is one of *texts*."""
        if self.tokens.texts[self.at] in texts:
            self.at += 1
            return True
        return False

    def name(self, expected: str) -> str:
        """Step over a name that is no keyword."""
        word = self.text
        if self.kind != "name" or word in KEYWORDS:
            raise self.error(expected)
        self.at += 1
        return word

    def end(self, expected: str = "the end of the text") -> None:
        """:raises ParseError: tokens are left."""
        while self.kind == "newline":
            self.at += 1
        if self.kind != "end":
            raise self.error(expected)
