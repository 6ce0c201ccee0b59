"""Assumptions of a text about a call: alignment of arrays, divisible sizes."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from textwrap import wrap

from loopkit.ast.nodes import AlignedArray, Assumed, DivisibleSize, Function
from loopkit.ast.walk import instructions_in
from loopkit.expr.text import to_text

#: Characters of a comment's line.
_WIDTH = 107


def assumed_by(functions: Iterable[Function]) -> tuple[Assumed, ...]:
    """The assumptions of the instructions of *functions*: for each array the strongest, for each size once."""
    found = dict.fromkeys(a for f in functions for i in instructions_in(f.body) for a in i.assumed)
    most: dict[AlignedArray, int] = {}
    for a in found:
        if isinstance(a, AlignedArray):
            rows = replace(a, elements=1)
            most[rows] = max(most.get(rows, 0), a.elements)
    arrays = [replace(rows, elements=elements) for rows, elements in most.items()]
    return (*arrays, *(a for a in found if isinstance(a, DivisibleSize)))


def assumption_lines(assumed: tuple[Assumed, ...], sizes: Mapping[str, int]) -> Iterator[str]:
    """Their text for readers; *sizes* are the bytes of an element of each array."""
    by_bytes: dict[tuple[int, str], list[str]] = {}
    for a in assumed:
        if isinstance(a, AlignedArray):
            rows = "rows without gaps" if a.strides else "row by row"
            by_bytes.setdefault((a.elements * sizes[a.array], rows), []).append(a.array)
    parts = [f"{', '.join(names)} at multiples of {count} bytes, {rows}" for (count, rows), names in by_bytes.items()]
    parts += [f"{to_text(a.size)} is a multiple of {a.divisor}" for a in assumed if isinstance(a, DivisibleSize)]
    if parts:
        text = f"vector accesses: {'; '.join(parts)}; other calls run a text without them"
        yield from wrap(text, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
