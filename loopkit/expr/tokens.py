"""Text with positions, its tokens, and a cursor over them: the base of every parser of the kernel language."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from loopkit.errors import ParseError, UnknownNameError

T = TypeVar("T")


#: For kinds of unknown names, the place where a kernel gets its own.
_WAYS_OUT = {"function": "make_kernel(..., functions=[...]) has functions of the user's own"}


@dataclass(frozen=True)
class Source:
    """A piece of the user's text, called *what* in messages; its errors have a line and a column.

    :ivar objects: objects among the lines, by the place of the line that stands for each; their errors print them.
    """

    text: str
    what: str
    objects: Mapping[int, object] = field(default_factory=dict)

    def line_of(self, offset: int) -> int:
        """The number of the line, from 1, of the character at *offset*."""
        return self.text.count("\n", 0, offset) + 1

    def place_of(self, offset: int) -> str:
        """The place *offset* in the words of a message: a line, or the object in place of one."""
        return f"'{self._object_text(offset)}'" if offset in self.objects else f"line {self.line_of(offset)}"

    def span_of(self, first: int, last: int) -> str:
        """The places from *first* to *last* in the words of a message."""
        if first in self.objects or last in self.objects:
            return f"{self.place_of(first)} to {self.place_of(last)}"
        return f"lines {self.line_of(first)} to {self.line_of(last)}"

    def _object_text(self, offset: int) -> str:
        """The text of the object at *offset*, unless it is nested too deeply for one."""
        try:
            return str(self.objects[offset])
        except RecursionError:
            return "an object too deep to print"

    def error(self, offset: int, message: str, expected: str, *, hint: str | None = None) -> ParseError:
        """The error with its caret under the character at *offset*, or with the object there."""
        if offset in self.objects:
            return ParseError(message, line=None, column=None, expected=expected, source=self._object_text(offset),
                              hint=hint)
        offset = min(offset, len(self.text))
        start = self.text.rfind("\n", 0, offset) + 1
        stop = self.text.find("\n", offset)
        line = self.text[start:stop if stop >= 0 else len(self.text)]
        return ParseError(message, line=self.line_of(offset), column=offset - start + 1, expected=expected,
                          source=line.rstrip(), hint=hint)

    def unknown(self, offset: int, kind: str, name: str, known: Iterable[str], *, where: str = "the kernel",
                hint: str | None = None) -> UnknownNameError:
        """The error for an unknown *name* at *offset*."""
        return UnknownNameError(kind, name, known, where=f"{where} ({self.place_of(offset)})",
                                hint=_WAYS_OUT.get(kind) if hint is None else hint)


#: Reserved words of the syntax; ``end`` is one only alone on a line.
KEYWORDS = frozenset({"and", "or", "not", "if", "elif", "else", "for", "end", "true", "false", "True", "False"})

_TOKEN = re.compile(r"""
    (?:[ \t\r\f]+ | \#[^\n]* | \\[ \t\r]*\n)*
    (?: (?P<name>[A-Za-z_]\w*)
      | (?P<number>0[xX][0-9a-fA-F]+ | (?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\w*)
      | (?P<op>\.\.\.|\*\*|//|:=|==|!=|<<|>>|<=|>=|->|\+=|-=|\*=|/=|[-+*/%<>=()\[\]{},:&|^~])
      | (?P<newline>\n)
      | (?P<other>.)
      | (?P<end>\Z) )""", re.VERBOSE | re.ASCII)

_CLOSERS = {"(": ")", "[": "]", "{": "}"}


class Token(NamedTuple):
    """A token and its place in the text. Kinds: ``name, number, op, newline, object, other, end``."""

    kind: str
    text: str
    start: int


def tokenize(source: Source) -> list[Token]:
    """The tokens of *source*, without line ends in brackets; :raises ParseError: its brackets do not match."""
    tokens: list[Token] = []
    opened: list[Token] = []
    for found in _TOKEN.finditer(source.text):
        kind = found.lastgroup or "other"
        start = found.start(kind)
        token = Token("object" if kind == "other" and start in source.objects else kind, found[kind], start)
        if kind == "end":
            break
        if kind == "newline":
            if opened or not tokens or tokens[-1].kind == "newline":
                continue
        elif token.text in _CLOSERS:
            opened.append(token)
        elif token.text in _CLOSERS.values():
            closer = _CLOSERS[opened[-1].text] if opened else None
            if closer != token.text:
                raise source.error(token.start, f"'{token.text}' in {source.what} closes nothing.",
                                   f"'{closer}'" if closer else "no closing bracket")
            opened.pop()
        tokens.append(token)
    if opened:
        _, bracket, start = opened[-1]
        raise source.error(start, f"'{bracket}' in {source.what} is never closed.", f"'{_CLOSERS[bracket]}' after it")
    return [*tokens, token]


@dataclass
class Cursor:
    """The position *at* in the tokens of *source*, the last of which has the kind ``"end"``."""

    source: Source
    tokens: Sequence[Token]
    at: int = 0

    @property
    def text(self) -> str:
        return self.tokens[self.at].text

    @property
    def kind(self) -> str:
        return self.tokens[self.at].kind

    @property
    def at_keyword(self) -> bool:
        """Is the current token a reserved word? ``end`` that is not alone on its line is a name."""
        alone = {self.tokens[max(self.at - 1, 0)].kind, self.tokens[min(self.at + 1, len(self.tokens) - 1)].kind}
        return self.text in KEYWORDS and (self.text != "end" or alone <= {"newline", "end"})

    def error(self, expected: str, *, at: int | None = None, message: str | None = None,
              hint: str | None = None) -> ParseError:
        """The error for the token at *at* (the current one), in the place of which *expected* is allowed."""
        at = self.at if at is None else at
        kind, text, start = self.tokens[at]
        if message is None:
            what = self.source.what
            if kind in ("end", "newline"):
                message = f"The end of {'a line of ' if kind == 'newline' else ''}{what} comes too early."
            else:
                message = f"{what[:1].upper()}{what[1:]} cannot be read at '{text}'."
                hint = hint or self.foreign(at)
        return self.source.error(start, message, expected, hint=hint)

    def foreign(self, at: int) -> str | None:
        """A hint if the token at *at* has a meaning in other languages only."""

    def take(self, text: str, expected: str | None = None) -> None:
        """Step over *text*; :raises ParseError: the current token is another."""
        if not self.accept(text):
            raise self.error(expected or f"'{text}'")

    def accept(self, *texts: str) -> bool:
        """Step over the current token if it is one of *texts*."""
        if self.text not in texts:
            return False
        self.at += 1
        return True

    def separated(self, read: Callable[[], T], separator: str = ",") -> list[T]:
        """The results of *read*, which is called once or several times, with *separator* between."""
        found = [read()]
        while self.accept(separator):
            found.append(read())
        return found

    def name(self, expected: str) -> str:
        """Step over a name other than a keyword."""
        word = self.text
        if self.kind != "name" or self.at_keyword:
            raise self.error(expected)
        self.at += 1
        return word

    def end(self, expected: str = "the end of the text") -> None:
        """:raises ParseError: tokens are left."""
        while self.kind == "newline":
            self.at += 1
        if self.kind != "end":
            raise self.error(expected)
