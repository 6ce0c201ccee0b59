"""Values in C text: their precedence and type, literals, and conversions."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import isfinite

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import TypeInferenceError
from loopkit.expr.dtypes import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    UINT32,
    Lookup,
    Type,
    Weak,
    as_size,
    rank_of,
    real_dtype,
    resolve,
    type_of_node,
    weak,
)
from loopkit.expr.intervals import Interval, interval, is_linear, of_dtype
from loopkit.expr.kinds import is_narrow, is_of_ml_dtypes, is_tuple, kind_of, promote
from loopkit.expr.nodes import TypeCast
from loopkit.expr.tuples import field_dtype, field_dtypes, joined_tuples
from loopkit.target.c.dialect import Dialect, helper

#: Precedence of C's operators.
TERNARY, OR, AND, BITS, EQUALITY, RELATION, SHIFT, SUM, PRODUCT, UNARY, PRIMARY = range(1, 12)


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


# Literals

def real_literal(value: float, dtype: np.dtype) -> Piece:
    """*value* as a literal of a real *dtype*, or as one of the macros ``INFINITY`` and ``NAN``.

    C has no literals of halves: their text is the float32 literal of the same value, or of one that rounds to it.
    """
    if np.isfinite(value):
        with np.errstate(over="ignore"):
            rounded = dtype.type(value)
        if np.isfinite(float(rounded)):
            shown = _shortest(rounded) if is_of_ml_dtypes(dtype) else rounded
            plain = rounded == 0 or 1e-5 <= abs(float(rounded)) < 1e16
            text = np.format_float_positional(shown, trim="0") if plain else \
                np.format_float_scientific(shown, trim="-", exp_digits=1)
            text += "f" if dtype == FLOAT32 or is_narrow(dtype) else ""
            return Piece(text, UNARY if text.startswith("-") else PRIMARY, dtype, dtype)
        value = float(rounded)
    name = "NAN" if np.isnan(value) else "INFINITY"
    sign = "-" if value < 0 else ""
    return Piece(f"{sign}{name}", UNARY if sign else PRIMARY, dtype, dtype)


def integer_literal(value: int, dtype: np.dtype, *, typed: bool, long: str = "LL") -> Piece:
    """*value* as a literal of an integer *dtype*; *typed*: of this type in C too, instead of one that C converts.

    :arg long: the end of a literal of 64 bits.
    :raises TypeInferenceError: it does not fit.
    """
    info = np.iinfo(dtype)
    if not info.min <= value <= info.max and not -info.max <= value < 0:
        raise TypeInferenceError(f"The number {value} does not fit into {dtype}.", subject=str(value),
                                 hint=f"cast one operand to a wider dtype, or write cast({dtype}, ...)")
    wide = not -2**31 <= value < 2**31
    c_dtype = dtype if dtype.itemsize >= 4 and (wide or typed) else INT32
    mark = {INT32: "", UINT32: "u", INT64: long}.get(c_dtype, f"U{long}")
    if value in (-2**31, -2**63):
        text, precedence = f"({value + 1}{mark} - 1)", PRIMARY          # C has no negative literals
    else:
        text, precedence = f"{value}{mark}", UNARY if value < 0 else PRIMARY
    return Piece(text, precedence, dtype, c_dtype, value)


def _shortest(value: np.generic) -> np.float64:
    """The number with the fewest decimal digits that rounds to *value*, of a dtype of ml_dtypes."""
    rounded = (np.float64(f"{float(value):.{digits}e}") for digits in range(9))
    return next(found for found in rounded if value.dtype.type(found) == value)


#: Functions of halves whose result is a half again.
_EXACT = frozenset({"abs", "fabs", "floor", "ceil", "round", "rint", "trunc", "min", "max", "fmin", "fmax", "copysign"})

#: Name and subscripts of an element (``()``: a scalar) to its text.
Subscripts = Callable[[str, tuple[Expression, ...]], str]


@dataclass(frozen=True)
class CBase:
    """The context of every printed expression.

    :ivar lookup: the types of names; those of inames and value arguments are weak (:func:`dtypes.weak`).
    :ivar nonnegative: is an integer expression never negative? Then ``//`` and ``%`` are C's.
    :ivar axes: text of names that are built-in unsigned integers (``threadIdx.x``).
    :ivar sizes: value arguments and *bounds* are sizes of any dtype (:func:`dtypes.as_size`), as in subscripts and
        bounds.
    :ivar bounds: the temporaries that bound loops.
    """

    dialect: Dialect
    lookup: Lookup
    subscripts: Subscripts
    nonnegative: Callable[[Expression], bool]
    axes: Mapping[str, str] = field(default_factory=dict)
    sizes: bool = False
    bounds: AbstractSet[str] = frozenset()
    _types: dict[int, tuple[Expression, Type]] = field(default_factory=dict, init=False, repr=False)

    # Types

    def _type(self, expr: Expression) -> Type:
        known = self._types.get(id(expr))
        if known is None:
            is_axis = isinstance(expr, p.Variable) and expr.name in self.axes
            found = Weak(1, INT32) if is_axis else type_of_node(expr, self._named, self._type)
            if found is None:
                raise TypeInferenceError(f"The dtype of '{expr}' is not known.", subject=str(expr),
                                         hint="declare it with add_dtypes")
            known = self._types[id(expr)] = (expr, found)          # keeps the id alive
        return known[1]

    def _named(self, name: str) -> Type | None:
        found = self.lookup(name)
        if not self.sizes or found is None:
            return found
        return as_size(weak(found) if name in self.bounds and isinstance(found, np.dtype) else found)

    def never_negative(self, expr: Expression) -> bool:
        """Is the integer *expr* never negative, e.g. by the dtypes of its operands?"""
        if self.nonnegative(expr):
            return True
        found = interval(expr, self._leaf)
        return found.low >= 0 and found.inside(resolve(self._type(expr)))

    def _leaf(self, expr: Expression) -> Interval:
        given = self._type(expr)
        own = of_dtype(resolve(given) if rank_of(given) == 1 else INT64)
        if isinstance(expr, TypeCast) and rank_of(self._type(expr.child)) == 1:
            inner = interval(expr.child, self._leaf)
            child = self._type(expr.child)
            if inner.inside(resolve(given)) and (isinstance(child, Weak) or inner.inside(child)):
                return inner
            # a cast of an index to 64 bits keeps its sign; one to fewer bits may not
            expr = expr.child if isinstance(child, Weak) and given == INT64 else expr
        return replace(own, low=0) if self.nonnegative(expr) else own

    def of_sizes(self, expr: Expression) -> bool:
        """Does the integer *expr* consist of sizes, inames and literals only?"""
        found = self._type(expr)
        return isinstance(found, Weak) and found.rank == 1

    def _whole(self, expr: Expression) -> np.dtype:
        """The dtype that holds the exact value of *expr*, an integer of sizes.

        Linear forms are as long as a size. If the size is too long for 32 bits, the text is one of 64 bits.
        """
        size = resolve(as_size(self._type(expr)))
        if self.sizes or is_linear(expr) or interval(expr, self._leaf).inside(size):
            return size
        return INT64

    def _long_enough(self, expr: Expression, own: np.dtype, want: np.dtype) -> np.dtype:
        """The dtype for *expr*, an integer of sizes, where *want* is needed: *own* if its low bits are enough."""
        return own if want.kind in "iu" and want.itemsize <= own.itemsize else promote(own, self._whole(expr))

    def _own(self, given: Type, want: np.dtype) -> np.dtype:
        """The dtype for a value of type *given* where *want* is needed."""
        if not isinstance(given, Weak):
            return given
        if given.rank == 1:
            own = resolve(given)
            return promote(own, want) if want.kind == "i" else own
        rank = rank_of(want)
        if given.rank == 2 and rank >= 2:
            return real_dtype(want)
        return want if rank == 3 else resolve(given)

    # Conversions

    def _convert(self, piece: Piece, want: np.dtype) -> Piece:
        """*piece* with the dtype *want*; a cast if it has another one."""
        if piece.dtype == want:
            return piece
        if is_tuple(want) or is_tuple(piece.dtype):
            joined_tuples(piece.dtype, want, promote)
            return self._struct(want, [self._field(piece, name) for name in want.names or ()])
        if piece.literal is not None and kind_of(want) in "iuf":
            return self._literal(piece.literal, want)
        if is_narrow(piece.dtype):
            # through float32 unless *want* is a real number
            direct = self.dialect.has_operators(piece.dtype) and kind_of(want) in "iufb" and not is_narrow(want)
            return self._cast(self._stored(piece), want) if direct else self._convert(self._in_float(piece), want)
        piece = self._exact(piece)
        if piece.dtype.kind == "c" and want.kind != "c":
            real = self._call(self.dialect.function("real", piece.dtype), [piece], real_dtype(piece.dtype))
            return self._convert(real, want)
        return self._to_half(piece, want) if is_narrow(want) else self._cast(piece, want)

    def _struct(self, dtype: np.dtype, fields: Sequence[Piece]) -> Piece:
        """A tuple of *dtype* with the values *fields*."""
        values = [self._convert(x, own) for x, own in zip(fields, field_dtypes(dtype).values(), strict=True)]
        texts = ", ".join((self._stored(x) if is_narrow(x.dtype) else self._exact(x)).text for x in values)
        name = self.dialect.type_name(dtype)
        return Piece(f"{name if self.dialect.overloaded else f'({name})'}{{{texts}}}", PRIMARY, dtype, dtype)

    @staticmethod
    def _field(piece: Piece, name: str) -> Piece:
        """The field *name* of a tuple."""
        own = field_dtype(piece.dtype, name)
        return Piece(f"{inside(piece, PRIMARY)}.{name}", PRIMARY, own, own)

    def _cast(self, piece: Piece, want: np.dtype) -> Piece:
        type_name = self.dialect.type_name(want)
        if want.kind == "c" and (self.dialect.overloaded or self.dialect.functions.operators):
            part = real_dtype(want)
            if piece.dtype.kind != "c" and piece.dtype != part:
                piece = self._cast(piece, part)
            if self.dialect.overloaded:
                return self._call(type_name, [piece], want)
            return self._call(f"convert_{type_name}", [piece], want) if piece.dtype.kind == "c" else \
                self._call(f"make_{want.name}", [piece, self._literal(0, part)], want)
        if want == BOOL and not self.dialect.syntax.has_bool:
            return Piece(f"{inside(piece, RELATION)} != 0", EQUALITY, BOOL, BOOL)
        return Piece(f"({type_name}){inside(piece, UNARY)}", UNARY, want, want)

    def _exact(self, piece: Piece) -> Piece:
        """*piece* as a C value of exactly its own dtype. A half is in its memory form before."""
        if piece.exact:
            return piece
        if piece.literal is not None:
            return self._literal(piece.literal, piece.dtype, typed=True)
        return self._cast(replace(piece, dtype=piece.c_dtype), piece.dtype)

    # Literals

    def _literal(self, value: object, dtype: np.dtype, *, typed: bool = False) -> Piece:
        """The number *value* as one of *dtype*; *typed*: an integer's type is *dtype* in C too."""
        if dtype == BOOL:
            return Piece(self.dialect.syntax.truth[bool(value)], PRIMARY, BOOL, BOOL)
        if dtype.kind == "c":
            whole = complex(value)                                      # type: ignore[call-overload]
            part = real_dtype(dtype)
            parts = [self._literal(whole.real, part), self._literal(whole.imag, part)]
            return self._call(("" if self.dialect.overloaded else "make_") + dtype.name, parts, dtype)
        if kind_of(dtype) == "f":
            number = float(value)                                       # type: ignore[arg-type]
            if not is_narrow(dtype):
                # INFINITY and NAN are floats, which matters where the dtype of its arguments selects a function
                is_float = isfinite(number) or self.dialect.functions.mark or dtype == FLOAT32
                return real_literal(number, dtype) if is_float else self._cast(real_literal(number, FLOAT32), dtype)
            with np.errstate(over="ignore"):
                number = float(dtype.type(number))
            return replace(real_literal(number, FLOAT32), dtype=dtype, number=number)
        return integer_literal(int(value), dtype, typed=typed,          # type: ignore[call-overload]
                               long=self.dialect.long)

    # Halves: literals and computed values are floats until another form is needed

    def _stored(self, piece: Piece) -> Piece:
        """A half in its memory form."""
        if piece.exact:
            return piece
        if not self.dialect.has_operators(piece.dtype):
            return self._call(helper("to", piece.dtype), [piece], piece.dtype)
        if piece.number is None:
            return self._cast(piece, piece.dtype)
        return self._call(self.dialect.type_name(piece.dtype), [real_literal(piece.number, piece.dtype)], piece.dtype)

    def _in_float(self, piece: Piece) -> Piece:
        """The exact value of a half as a float32."""
        if not (piece.exact or piece.unrounded):
            return replace(piece, dtype=FLOAT32, number=None)
        if self.dialect.has_operators(piece.dtype):
            return self._cast(self._stored(piece), FLOAT32)
        return self._call(helper("from" if piece.exact else "round", piece.dtype), [piece], FLOAT32)

    def _half_operand(self, piece: Piece) -> Piece:
        """A half as an operand of the language's operators."""
        if self.dialect.has_operators(piece.dtype):
            return self._stored(piece)
        return replace(self._in_float(piece), dtype=piece.dtype)

    def _to_half(self, piece: Piece, want: np.dtype) -> Piece:
        """A real number rounded to *want*; through float32 to a dtype of ml_dtypes, as that rounds."""
        small = piece.dtype.itemsize == 1 and want.itemsize == 2
        if self.dialect.has_operators(want):
            if is_of_ml_dtypes(want) and piece.dtype != FLOAT32 and piece.dtype.itemsize > 2:
                piece = self._cast(piece, FLOAT32)
            return self._cast(piece, want)
        if piece.dtype == FLOAT64 and want == FLOAT16:
            piece = self._call("odd_f32", [piece], FLOAT32)
        elif piece.dtype != FLOAT32:
            piece = self._cast(piece, FLOAT32)
        return replace(piece, dtype=want, c_dtype=FLOAT32, unrounded=not small)

    # Functions

    def _computed(self, name: str, arguments: Sequence[Piece], own: np.dtype, named: Callable[[str, np.dtype], str]
                  ) -> Piece:
        """The function *name*, as *named* calls it for a dtype; of halves the language's own, else of float32."""
        if not is_narrow(own):
            computed = promoted(own)
            return self._call(named(name, computed), [self._exact(self._convert(x, computed)) for x in arguments], own,
                              computed)
        halves = [self._convert(x, own) for x in arguments]
        if name in self.dialect.halves and self.dialect.has_operators(own):
            return self._call(self.dialect.halves[name], list(map(self._stored, halves)), own)
        call = self._call(named(name, FLOAT32), list(map(self._in_float, halves)), own)
        return replace(call, c_dtype=FLOAT32, unrounded=name not in _EXACT)

    def _call(self, name: str, arguments: Sequence[Piece], dtype: np.dtype, c_dtype: np.dtype | None = None) -> Piece:
        return Piece(f"{name}({', '.join(a.text for a in arguments)})", PRIMARY, dtype, c_dtype or dtype)
