"""Number literals."""
from __future__ import annotations

import math

from loopkit.expr.functions import LITERAL_SUFFIXES
from loopkit.expr.nodes import TypeCast

_MOST_DIGITS = 1000


def read_number(text: str) -> int | float | complex | TypeCast | str:
    """The value of a literal, or (a string) what would be right instead of it.

    >>> read_number("1e-3"), read_number("0x1f"), read_number("2j")
    (0.001, 31, 2j)
    >>> read_number("1.5f")
    TypeCast('float32', 1.5)
    >>> read_number("3x")
    'a product is written 3*x'
    """
    digits, suffix = (text, "") if text[:2] in ("0x", "0X") else _split(text)
    if len(digits) > _MOST_DIGITS:
        return "fewer digits are enough for every dtype"
    try:
        value = int(digits) if digits.isdigit() else _other(digits)
    except ValueError:
        return ""
    if isinstance(value, int) and value.bit_length() > 64:
        return "integers have 64 bits at most"
    if value == math.inf:
        return "the largest float64 is 1.797e308"
    if not suffix:
        return value
    if suffix in ("j", "J"):
        return value * 1j
    if suffix in LITERAL_SUFFIXES:
        return TypeCast(LITERAL_SUFFIXES[suffix], value)
    return f"a product is written {digits}*{suffix}"


def _other(digits: str) -> int | float:
    return int(digits, 16) if digits[:2] in ("0x", "0X") else float(digits)


def _split(text: str) -> tuple[str, str]:
    """The digits (with point and exponent) and the suffix of a number."""
    at, n = 0, len(text)
    while at < n and (text[at].isdigit() or text[at] == "."):
        at += 1
    if at < n and text[at] in "eE":
        stop = at + 2 if at + 1 < n and text[at + 1] in "+-" else at + 1
        if stop < n and text[stop].isdigit():
            at = stop
            while at < n and text[at].isdigit():
                at += 1
    return text[:at], text[at:].removeprefix("_")
