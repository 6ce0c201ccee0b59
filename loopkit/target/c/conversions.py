"""Types of expressions in C text, conversions between them, literals, and names of functions."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

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
    Lookup,
    Type,
    Weak,
    as_size,
    literal_type,
    rank_of,
    real_dtype,
    resolve,
    type_of_node,
    weak,
)
from loopkit.expr.intervals import Interval, interval, is_linear, of_dtype
from loopkit.expr.kinds import is_bfloat16, is_half, kind_of, promote
from loopkit.expr.nodes import TypeCast
from loopkit.target.c.dialect import Dialect, helper
from loopkit.target.c.values import PRIMARY, UNARY, Piece, inside, integer_literal, real_literal

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

    # {{{ types

    def _type(self, expr: Expression) -> Type:
        if id(expr) not in self._types:
            is_axis = isinstance(expr, p.Variable) and expr.name in self.axes
            found = Weak(1, INT32) if is_axis else type_of_node(expr, self._named, self._type)
            if found is None:
                raise TypeInferenceError(f"The dtype of '{expr}' is not known.", subject=str(expr),
                                         hint="declare it with add_dtypes")
            self._types[id(expr)] = (expr, found)          # keeps the id alive
        return self._types[id(expr)][1]

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
            expr = expr.child if isinstance(child, Weak) else expr
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
        rank = rank_of(want)
        if given.rank == 1:
            own = resolve(given)
            return promote(own, want) if want.kind == "i" else own
        if given.rank == 2 and rank >= 2:
            return real_dtype(want)
        return want if rank == 3 else resolve(given)

    # }}}

    # {{{ conversions

    def _convert(self, piece: Piece, want: np.dtype) -> Piece:
        """*piece* with the dtype *want*; a cast if it has another one."""
        if piece.dtype == want:
            return piece
        if piece.literal is not None and kind_of(want) in "iuf":
            return self._literal(piece.literal, want)
        if is_half(piece.dtype):
            return self._convert(self._from_half(piece, want), want)
        piece = self._exact(piece)
        if piece.dtype.kind == "c" and want.kind != "c":
            real = self._call(self.dialect.function("real", piece.dtype), [piece], real_dtype(piece.dtype))
            return self._convert(real, want)
        return self._to_half(piece, want) if is_half(want) else self._cast(piece, want)

    def _cast(self, piece: Piece, want: np.dtype) -> Piece:
        if want.kind == "c" and self.dialect.overloaded:
            part = real_dtype(want)
            if piece.dtype.kind != "c" and piece.dtype != part:
                piece = self._cast(piece, part)
            return self._call(self.dialect.type_name(want), [piece], want)
        return Piece(f"({self.dialect.type_name(want)}){inside(piece, UNARY)}", UNARY, want, want)

    def _exact(self, piece: Piece) -> Piece:
        """*piece* as a C value of exactly its own dtype."""
        if piece.exact:
            return piece
        if piece.literal is not None:
            return self._literal(piece.literal, piece.dtype, typed=True)
        if is_half(piece.dtype):
            return self._stored(piece)
        return self._cast(replace(piece, dtype=piece.c_dtype), piece.dtype)

    # }}}

    # {{{ literals

    def _literal_dtype(self, value: object, want: np.dtype) -> np.dtype:
        given = literal_type(value)
        if isinstance(given, Weak) and given.rank == 1 and kind_of(want) in "iufc":
            return real_dtype(want)
        return self._own(given, want)

    def _literal(self, value: object, dtype: np.dtype, *, typed: bool = False) -> Piece:
        """The number *value* as one of *dtype*; *typed*: an integer's type is *dtype* in C too."""
        if isinstance(value, np.generic):
            value = value.item()
        if dtype == BOOL:
            return Piece(self.dialect.syntax.truth[bool(value)], PRIMARY, BOOL, BOOL)
        if dtype.kind == "c":
            whole = complex(value)                                      # type: ignore[call-overload]
            part = real_dtype(dtype)
            parts = [self._literal(whole.real, part), self._literal(whole.imag, part)]
            return self._call(("" if self.dialect.overloaded else "make_") + dtype.name, parts, dtype)
        if kind_of(dtype) == "f":
            number = float(value)                                       # type: ignore[arg-type]
            return self._half_literal(number, dtype) if is_half(dtype) else real_literal(number, dtype)
        return integer_literal(int(value), dtype, typed=typed)          # type: ignore[call-overload]

    # }}}

    # {{{ halves: literals and computed values are floats until another form is needed

    def _half_literal(self, value: float, dtype: np.dtype) -> Piece:
        with np.errstate(over="ignore"):
            number = float(dtype.type(value))
        return replace(real_literal(number, FLOAT32), dtype=dtype, number=number)

    def _stored(self, piece: Piece) -> Piece:
        """A half in its memory form."""
        if piece.exact:
            return piece
        if not self.dialect.halves:
            return self._call(helper("to", piece.dtype), [piece], piece.dtype)
        if piece.number is None:
            return self._cast(piece, piece.dtype)
        return self._call(self.dialect.type_name(piece.dtype), [real_literal(piece.number, piece.dtype)], piece.dtype)

    def _in_float(self, piece: Piece) -> Piece:
        """The exact value of a half as a float32."""
        if not (piece.exact or piece.unrounded):
            return replace(piece, dtype=FLOAT32, number=None)
        if self.dialect.halves:
            return self._cast(self._stored(piece), FLOAT32)
        return self._call(helper("from" if piece.exact else "round", piece.dtype), [piece], FLOAT32)

    def _half_operand(self, piece: Piece) -> Piece:
        """A half as an operand of the language's operators."""
        if self.dialect.halves:
            return self._stored(piece)
        return replace(self._in_float(piece), dtype=piece.dtype)

    def _from_half(self, piece: Piece, want: np.dtype) -> Piece:
        """A half converted to *want*: through float32 unless *want* is a real number."""
        if self.dialect.halves and kind_of(want) in "iufb" and not is_half(want):
            return self._cast(self._stored(piece), want)
        return self._in_float(piece)

    def _to_half(self, piece: Piece, want: np.dtype) -> Piece:
        """A real number rounded to *want*; to bfloat16 through float32, as ml_dtypes rounds."""
        small = piece.dtype.itemsize == 1
        if self.dialect.halves:
            if is_bfloat16(want) and piece.dtype != FLOAT32 and piece.dtype.itemsize > 2:
                piece = self._cast(piece, FLOAT32)
            return self._cast(piece, want)
        if piece.dtype == FLOAT64 and want == FLOAT16:
            piece = self._call("odd_f32", [piece], FLOAT32)
        elif piece.dtype != FLOAT32:
            piece = self._cast(piece, FLOAT32)
        return replace(piece, dtype=want, c_dtype=FLOAT32, unrounded=not small)

    def _half_function(self, name: str, arguments: Sequence[Piece], own: np.dtype, text: str | None = None) -> Piece:
        """The function *name* of halves: the language's own, else that of float32 (*text*, a helper), rounded."""
        native = self.dialect.halves.get(name)
        if native is not None:
            return self._call(native, [self._stored(x) for x in arguments], own)
        call = self._call(text or self.dialect.function(name, FLOAT32), [self._in_float(x) for x in arguments], own)
        return replace(call, c_dtype=FLOAT32, unrounded=name not in _EXACT)

    # }}}

    # {{{ functions

    def _call(self, name: str, arguments: Sequence[Piece], dtype: np.dtype, c_dtype: np.dtype | None = None) -> Piece:
        return Piece(f"{name}({', '.join(a.text for a in arguments)})", PRIMARY, dtype, c_dtype or dtype)

    # }}}
