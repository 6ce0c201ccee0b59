"""loopy's precedence of operators, written out as parentheses where loopkit's, which is Python's, differs.

In a text of loopy, ``a*b % c`` is ``a*(b % c)``, ``not a > b`` is ``(not a) > b``, and ``a < b < c`` is
``(a < b) < c``. Comparisons bind tighter than operators of bits, and ``|`` binds as tight as ``^``.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from loopkit.expr.tokens import Source, Token, tokenize

#: Each operator of two operands: how tight it binds, and how tight the operators of its right operand must bind.
_BINARY = {"or": (80, 80), "and": (90, 90), "|": (120, 120), "^": (120, 120), "&": (130, 130),
           **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), (200, 200)), "<<": (205, 205), ">>": (205, 205),
           "+": (210, 210), "-": (210, 210), "*": (220, 210), "/": (220, 220), "//": (220, 220), "%": (220, 220),
           "**": (240, 220)}
_CHOICE, _UNARY = 75, 230
_BITS, _COMPARISON, _PRODUCT = (120, 130), 200, 220
_CLOSER = {"(": ")", "[": "]", "{": "}"}
_BLOCKS = frozenset({"if", "elif", "for", "with"})


class _Part(NamedTuple):
    """A part of an expression: its outermost operator, how tight it binds, and its place in the text."""

    operator: str
    binding: int
    start: int
    end: int
    divides: bool = False


def with_parentheses(text: str) -> str:
    """*text*, instructions of loopy, with the parentheses that keep loopy's meaning.

    >>> print(with_parentheses("y[3*i % 8] = a*b // 2 + c*d*e {if=not a > b}"))
    y[3*(i % 8)] = a*(b // 2) + c*d*e {if=(not a) > b}
    >>> print(with_parentheses("if 0 < a < 4 and not b"))
    if (0 < a) < 4 and not b
    """
    if not any(x in text for x in ("not", "*", "<", ">", "==", "!=", "|", "^", "&")):
        return text
    reader = _Reader(tokenize(Source(text, "the instructions")))
    reader.group("")
    for place, inserted in sorted(reader.found, key=lambda entry: entry[0], reverse=True):
        text = text[:place] + inserted + text[place:]
    return text


@dataclass
class _Reader:
    """A position in *tokens*, and the parentheses *found* so far: each a place and the text there."""

    tokens: list[Token]
    at: int = 0
    found: list[tuple[int, str]] = field(default_factory=list)

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def group(self, closer: str) -> None:
        """Read up to *closer*, or to the end."""
        while self.token.kind != "end" and self.token.text != closer:
            begins = self.at == 0 or self.tokens[self.at - 1].kind == "newline"
            if (begins and self.token.text in _BLOCKS) or self._expression(0) is None:
                self.at += 1

    def _expression(self, floor: int) -> _Part | None:
        """The longest expression from here whose operators bind tighter than *floor*; ``None``: none begins here."""
        left = self._operand()
        while left is not None:
            operator = self.token.text
            binding, right_floor = _BINARY.get(operator, (_CHOICE, _CHOICE) if operator == "if" else (0, 0))
            if binding <= floor:
                break
            self.at += 1
            right = self._expression(right_floor)
            if right is not None and operator == "if" and self.token.text == "else":
                self.at += 1
                right = self._expression(0)
            if right is None:
                break
            left = self._joined(left, operator, binding, right)
        return left

    def _joined(self, left: _Part, operator: str, binding: int, right: _Part) -> _Part:
        if binding == _COMPARISON or binding in _BITS:
            self._wrap(left, needed=left.binding == _COMPARISON or (
                left.binding in _BITS and left.operator != operator))
            self._wrap(right, needed=right.binding == _COMPARISON)
        if binding >= _BITS[0]:
            self._wrap(left, needed=left.operator == "not")
            self._wrap(right, needed=right.operator == "not")
        self._wrap(right, needed=operator == "*" and right.divides)
        divides = binding == _PRODUCT and (operator != "*" or left.divides)
        return _Part(operator, binding, left.start, right.end, divides)

    def _wrap(self, part: _Part, *, needed: bool) -> None:
        if needed:
            self.found += [(part.start, "("), (part.end, ")")]

    def _operand(self) -> _Part | None:
        kind, text, start = self.token
        if text in ("-", "+", "~", "not"):
            self.at += 1
            inner = self._expression(_UNARY)
            return None if inner is None else _Part(text, _UNARY, start, inner.end)
        if text == "{":
            self._options()
            return None
        if kind not in ("name", "number", "object") and text not in ("(", "["):
            return None
        if text not in _CLOSER:
            self.at += 1
        while self.token.text in ("(", "[", "."):
            closer = _CLOSER.get(self.token.text, "")
            self.at += 1
            if closer:
                self.group(closer)
            self.at += self.token.kind != "end"
        last = self.tokens[self.at - 1]
        return _Part("", 250, start, last.start + len(last.text))

    def _options(self) -> None:
        """Read options or a domain, of which only ``if=`` has expressions."""
        depth = 0
        while self.token.kind != "end":
            depth += (self.token.text == "{") - (self.token.text == "}")
            if not depth:
                return
            is_condition = self.token.text == "if" and self.tokens[self.at + 1].text == "="
            self.at += 2 if is_condition else 1
            if is_condition:
                self._expression(0)
