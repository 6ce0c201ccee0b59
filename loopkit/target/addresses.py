"""The memory of arrays: their declarations, and addresses of elements as text."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Array, Swizzle
from loopkit.poly.affine import add, arithmetic, integer_factor, multiply
from loopkit.target.c.dialect import Dialect

Print = Callable[[Expression], str]


@dataclass(frozen=True)
class Flat:
    """An array in one piece of memory: in C order, or with *strides*, the names of parameters."""

    shape: tuple[Expression | None, ...]
    strides: tuple[str, ...] = ()

    def offset(self, indices: tuple[Expression, ...]) -> Expression:
        if self.strides:
            return _sum(multiply(add(i), p.Variable(s)) for i, s in zip(indices, self.strides, strict=True))
        result: Expression = 0
        for axis, index in enumerate(indices):
            if axis:
                extent = self.shape[axis]
                assert extent is not None
                result = p.Product((result, arithmetic(add(extent)))) if isinstance(result, p.Sum) \
                    and not isinstance(extent, int) else multiply(result, add(extent))
            result = _sum((result, add(index)))
        return result


@dataclass(frozen=True)
class Nested:
    """An array declared in the function: ``name[i][j]``.

    :ivar lead: text of subscripts before the array's own (the thread, on the host).
    :ivar array: it, if its columns may be permuted.
    :ivar thread_axes: of an array in warp registers: a thread names its own element, without this many last subscripts.
    """

    lead: str = ""
    array: Array | None = None
    thread_axes: int = 0


def array_declaration(array: Array, dialect: Dialect, lead: str = "") -> str:
    """``float acc[4][4]``."""
    return f"{dialect.type_name(array.dtype)} {array.name}{lead}{extents_text(array)}"


def extents_text(array: Array) -> str:
    """``[4][4]``."""
    return "".join(f"[{extent}]" for extent in array.shape)


def note_of(array: Array) -> str:
    """A comment about *array* for readers, behind its declaration."""
    return f"  // {array.note}" if array.note else ""


@dataclass(frozen=True)
class Addresses:
    """The memory of every array that a function accesses.

    :ivar spelled: text for names with another spelling (``l0_`` for the axis ``l.0``).
    :ivar loaders: the helper functions that load from some arrays.
    """

    arrays: Mapping[str, Flat | Nested]
    spelled: Mapping[str, str] = field(default_factory=dict)
    loaders: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str, indices: tuple[Expression, ...], expr: Print) -> str:
        """An element as text; *expr* prints an integer expression."""
        place = self.arrays.get(name)
        if place is None:
            return self.spelled.get(name, name)         # a value, or a scalar of the function
        if isinstance(place, Flat):
            return f"{name}[{expr(place.offset(indices)) if indices else 0}]"
        own = [expr(add(i)) for i in indices[:len(indices) - place.thread_axes]]
        if place.array is not None and place.array.swizzle is not None:
            own[-1] = _swizzled(indices, place.array, place.array.swizzle, expr)
        return f"{name}{place.lead}{''.join(f'[{i}]' for i in own)}"


def _swizzled(indices: tuple[Expression, ...], array: Array, swizzle: Swizzle, expr: Print) -> str:
    """The column of the element with *indices*, as text."""
    row, column = add(indices[swizzle.axis]), add(indices[-1])
    if isinstance(row, int):
        row %= swizzle.period
    elif array.shape[swizzle.axis] > swizzle.period:
        row = p.Remainder(arithmetic(row), swizzle.period)
    mask = multiply(swizzle.chunk, row)
    if isinstance(column, int) and isinstance(mask, int):
        return str(column ^ mask)
    # compilers warn about sums and products beside "^" without parentheses
    left, right = (f"({text})" if " " in text or "*" in text or "%" in text else text
                   for text in (expr(column), expr(mask)))
    return f"{left} ^ {right}"


def _sum(terms: Iterable[Expression]) -> Expression:
    """The terms in order, subtracted ones last, products unchanged."""
    parts = [part for t in terms for part in (t.children if isinstance(t, p.Sum) else (t,))]
    constant = sum(part for part in parts if isinstance(part, int))
    others = sorted((part for part in parts if not isinstance(part, int)), key=lambda part: integer_factor(part) < 0)
    if constant > 0 and others and integer_factor(others[0]) < 0:
        others.insert(0, constant)
    elif constant or not others:
        others.append(constant)
    return others[0] if len(others) == 1 else p.Sum(tuple(arithmetic(e) for e in others))
