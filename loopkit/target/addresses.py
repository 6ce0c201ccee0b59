"""The memory of arrays: their declarations, and addresses of elements as text."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Array, Swizzle
from loopkit.poly.affine import add, arithmetic, multiply
from loopkit.target.c.dialect import Dialect


@dataclass(frozen=True)
class Flat:
    """An array in one piece of memory: in C order, or with *strides*, the names of parameters."""

    shape: tuple[Expression | None, ...]
    strides: tuple[str, ...] = ()

    def offset(self, indices: tuple[Expression, ...]) -> Expression:
        if self.strides:
            return _sum([multiply(add(i), p.Variable(s)) for i, s in zip(indices, self.strides, strict=True)])
        result: Expression = 0
        for axis, index in enumerate(indices):
            if axis:
                extent = self.shape[axis]
                assert extent is not None
                result = p.Product((result, arithmetic(add(extent)))) if isinstance(result, p.Sum) \
                    and not isinstance(extent, int) else multiply(result, add(extent))
            result = _sum([result, add(index)])
        return result


@dataclass(frozen=True)
class Nested:
    """An array declared in the function: ``name[i][j]``.

    :ivar lead: text of subscripts before the array's own (the thread, on the host).
    :ivar rows: the number of rows that *swizzle*, the permutation of its columns, depends on.
    """

    lead: str = ""
    swizzle: Swizzle | None = None
    rows: int = 0


def declared(array: Array, lead: str = "") -> Nested:
    """*array* as the function declares it."""
    return Nested(lead, array.swizzle, array.shape[array.swizzle.axis] if array.swizzle is not None else 0)


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
class Register:
    """An array in warp registers: a thread names its own element; the last subscripts select the thread."""

    thread_axes: int


@dataclass(frozen=True)
class Addresses:
    """The memory of every array that a function accesses.

    :ivar spelled: text for names with another spelling (``l0_`` for the axis ``l.0``).
    :ivar loaders: the helper functions that load from some arrays.
    """

    arrays: Mapping[str, Flat | Nested | Register]
    spelled: Mapping[str, str] = field(default_factory=dict)
    loaders: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str, indices: tuple[Expression, ...], expr: Callable[[Expression], str]) -> str:
        """An element as text; *expr* prints an integer expression."""
        place = self.arrays.get(name)
        if place is None:
            return self.spelled.get(name, name)         # a value, or a scalar of the function
        if isinstance(place, Register):
            return f"{name}{''.join(f'[{expr(add(i))}]' for i in indices[:-place.thread_axes])}"
        if isinstance(place, Nested):
            own = [expr(add(i)) for i in indices]
            if place.swizzle is not None:
                own[-1] = _swizzled(indices, place.swizzle, place.rows, expr)
            return f"{name}{place.lead}{''.join(f'[{i}]' for i in own)}"
        if not indices:
            return f"{name}[0]"
        return f"{name}[{expr(place.offset(indices))}]"


def _swizzled(indices: tuple[Expression, ...], swizzle: Swizzle, rows: int, expr: Callable[[Expression], str]) -> str:
    """The column of the element with *indices*, as text."""
    row, column = add(indices[swizzle.axis]), add(indices[-1])
    if isinstance(row, int):
        row %= swizzle.period
    elif rows > swizzle.period:
        row = p.Remainder(arithmetic(row), swizzle.period)
    mask = multiply(swizzle.chunk, row)
    if isinstance(column, int) and isinstance(mask, int):
        return str(column ^ mask)
    # compilers warn about sums and products beside "^" without parentheses
    left, right = (f"({text})" if " " in text or "*" in text or "%" in text else text
                   for text in (expr(column), expr(mask)))
    return f"{left} ^ {right}"


def _sum(terms: list[Expression]) -> Expression:
    """The terms in order, subtracted ones last, products unchanged."""
    parts = [part for t in terms for part in (t.children if isinstance(t, p.Sum) else (t,))]
    constant = sum(part for part in parts if isinstance(part, int))
    others = [part for part in parts if not isinstance(part, int)]
    taken = [part for part in others if isinstance(part, p.Product) and isinstance(part.children[0], int)
             and part.children[0] < 0]
    flat: list[Expression] = [part for part in others if part not in taken]
    if constant > 0 and not flat:
        flat, constant = [constant], 0
    flat += taken
    if constant or not flat:
        flat.append(constant)
    return flat[0] if len(flat) == 1 else p.Sum(tuple(arithmetic(e) for e in flat))
