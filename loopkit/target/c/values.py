"""Values in C text: their precedence and type, and the spelling of literals."""
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from loopkit.errors import TypeInferenceError
from loopkit.expr.dtypes import FLOAT32, INT32, INT64, UINT32
from loopkit.expr.kinds import is_bfloat16, is_half

#: Precedence of C's operators.
TERNARY, OR, AND, EQUALITY, RELATION, SUM, PRODUCT, UNARY, PRIMARY = range(1, 10)


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of a value.

    :ivar dtype: the dtype of the value by loopkit's rules.
    :ivar c_dtype: the type of the text in C. If it is wider than *dtype*, the C value is congruent to the value modulo
        2^bits of *dtype*.
    :ivar divides: its outermost operator is ``/`` or ``%``.
    :ivar unrounded: a half that was computed in float32 and is not yet rounded; other halves with the *c_dtype* float32
        are exact.
    :ivar number: the value of a literal that is a half; its text is that of a float32.
    """

    text: str
    precedence: int
    dtype: np.dtype
    c_dtype: np.dtype
    literal: int | None = None
    divides: bool = False
    unrounded: bool = False
    number: float | None = None

    @property
    def exact(self) -> bool:
        return self.dtype == self.c_dtype


def promoted(dtype: np.dtype) -> np.dtype:
    """C's integer promotion."""
    return INT32 if dtype.kind in "iub" and dtype.itemsize < 4 else dtype


@lru_cache(maxsize=1024)
def usual_conversion(a: np.dtype, b: np.dtype) -> np.dtype:
    """C's usual arithmetic conversions of real types."""
    return max(promoted(a), promoted(b), key=lambda dtype: (dtype.kind == "f", dtype.itemsize, dtype.kind == "u"))


def inside(piece: Piece, precedence: int) -> str:
    """*piece* as an operand of an operator with this *precedence*."""
    return piece.text if piece.precedence >= precedence else f"({piece.text})"


# {{{ literals

def real_literal(value: float, dtype: np.dtype) -> Piece:
    """*value* as a literal of a real *dtype*, or as one of the macros ``INFINITY`` and ``NAN``.

    C has no literals of halves: their text is the float32 literal of the same value, or of one that rounds to it.
    """
    if np.isfinite(value):
        with np.errstate(over="ignore"):
            rounded = dtype.type(value)
        if np.isfinite(float(rounded)):
            shown = _shortest(rounded) if is_bfloat16(dtype) else rounded
            plain = rounded == 0 or 1e-5 <= abs(float(rounded)) < 1e16
            text = np.format_float_positional(shown, trim="0") if plain else \
                np.format_float_scientific(shown, trim="-", exp_digits=1)
            text += "f" if dtype == FLOAT32 or is_half(dtype) else ""
            return Piece(text, UNARY if text.startswith("-") else PRIMARY, dtype, dtype)
        value = float(rounded)
    name = "NAN" if np.isnan(value) else "INFINITY"
    sign = "-" if value < 0 else ""
    return Piece(f"{sign}{name}", UNARY if sign else PRIMARY, dtype, dtype)


def integer_literal(value: int, dtype: np.dtype, *, typed: bool) -> Piece:
    """*value* as a literal of an integer *dtype*; *typed*: of this type in C too, instead of one that C converts.

    :raises TypeInferenceError: it does not fit.
    """
    info = np.iinfo(dtype)
    if not info.min <= value <= info.max and not -info.max <= value < 0:
        raise TypeInferenceError(f"The number {value} does not fit into {dtype}.", subject=str(value),
                                 hint=f"cast one operand to a wider dtype, or write cast({dtype}, ...)")
    wide = not -2**31 <= value < 2**31
    c_dtype = dtype if dtype.itemsize >= 4 and (wide or typed) else INT32
    mark = {INT32: "", UINT32: "u", INT64: "LL"}.get(c_dtype, "ULL")
    if value in (-2**31, -2**63):
        text, precedence = f"({value + 1}{mark} - 1)", PRIMARY          # C has no negative literals
    else:
        text, precedence = f"{value}{mark}", UNARY if value < 0 else PRIMARY
    return Piece(text, precedence, dtype, c_dtype, value)


def _shortest(value: np.generic) -> np.float64:
    """The number with the fewest decimal digits that rounds to the bfloat16 *value*."""
    for digits in range(1, 9):
        found = np.float64(f"{float(value):.{digits - 1}e}")
        if value.dtype.type(found) == value:
            return found
    return np.float64(value)

# }}}
