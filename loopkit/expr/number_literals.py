"""The numbers in texts of the kernel language."""
from __future__ import annotations

import math
import re

from loopkit.expr.kinds import LITERAL_SUFFIXES
from loopkit.expr.nodes import TypeCast

#: The numbers without digits, which are written as calls: ``inf()``. Their names stay free for arguments.
SPECIAL_NUMBERS = {"inf": math.inf, "nan": math.nan}

_MOST_DIGITS = 1000
_NUMBER = re.compile(r"(0x\w*|[\d.]+(?:e[-+]?\d+)?)_?(\w*)", re.ASCII | re.IGNORECASE)


def read_number(text: str) -> int | float | complex | TypeCast | str:
    """The value of a literal, or (a string) what would be right instead of it.

    >>> [read_number(text) for text in ("1e-3", "0x1f", "2j", "2jf", "1.5f", "3x")]
    [0.001, 31, 2j, TypeCast('complex64', 2j), TypeCast('float32', 1.5), 'a product is written 3*x']
    """
    match = _NUMBER.fullmatch(text)
    assert match is not None
    digits, suffix = match.groups()
    if len(digits) > _MOST_DIGITS:
        return "fewer digits are enough for every dtype"
    try:
        value = int(digits, 16) if digits[:2] in ("0x", "0X") else int(digits) if digits.isdigit() else float(digits)
    except ValueError:
        return ""
    if isinstance(value, int) and value.bit_length() > 64:
        return "integers have 64 bits at most"
    if value == math.inf:
        return "the largest float64 is 1.797e308, and inf() is infinity"
    if suffix in LITERAL_SUFFIXES:
        return TypeCast(LITERAL_SUFFIXES[suffix], value)
    if suffix in ("jf", "Jf"):
        return TypeCast("complex64", value * 1j)
    return value if not suffix else value * 1j if suffix in ("j", "J") else f"a product is written {digits}*{suffix}"
