"""A place in a list of tokens, from which a parser reads on."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loopkit.errors import ParseError
from loopkit.expr.tokens import Tokens

#: Reserved words of the syntax.
KEYWORDS = frozenset({"and", "or", "not", "if", "elif", "else", "for", "end", "true", "false", "True", "False"})

_CHOICE = "a choice is written if(condition, a, b)"
_LOGIC = "conditions are joined by and, or, not"
_BITS = "there are no operations on bits: 2**n, x // 2 and x % 2 are powers, quotients and remainders"

#: Operators of other languages, and their form in the kernel language.
_ELSEWHERE: Mapping[str, str] = {
    "if": _CHOICE, "?": _CHOICE, "&": _LOGIC, "|": _LOGIC, "!": _LOGIC, "^": _BITS, "~": _BITS,
    ";": "each statement stands on a line of its own",
    "in": "a loop is written 'for i', and the bounds of i stand in a domain"}


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
                message = f"{_capital(what)} cannot be read at '{self.tokens.texts[at]}'."
                hint = hint or self._elsewhere(at)
        return self.tokens.error(at, message, expected, hint=hint)

    def _elsewhere(self, at: int) -> str | None:
        """The kernel language's form of the token at *at*, if that has a meaning in Python or C."""
        text = self.tokens.texts[at]
        if text in ("<", ">") and at and self.tokens.texts[at - 1] == text:
            return _BITS
        return _ELSEWHERE.get(text)

    def take(self, text: str, expected: str | None = None) -> None:
        """Step over *text*; :raises ParseError: the current token is another."""
        if self.tokens.texts[self.at] != text:
            raise self.error(expected or f"'{text}'")
        self.at += 1

    def accept(self, text: str) -> bool:
        """Step over *text* if it is the current token."""
        if self.tokens.texts[self.at] == text:
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


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
