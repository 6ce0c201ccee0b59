"""Expressions as C and CUDA text, directed by dtypes.

The text computes the result of the dtype rules of :mod:`loopkit.expr.dtypes`: it has casts only where C's own
conversions differ. A literal is spelled in the dtype of its context, so that a float32 kernel has no double arithmetic.
``min`` and ``max`` of reals are C's ``fmin`` and ``fmax``: a NaN loses against a number (numpy's ``minimum`` keeps it).
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import TypeInferenceError
from loopkit.expr.dtypes import (
    BOOL,
    FLOAT32,
    INT32,
    INT64,
    UINT32,
    Weak,
    comparison,
    literal_type,
    rank_of,
    real_dtype,
    resolve,
)
from loopkit.expr.functions import FunctionName, function_of
from loopkit.expr.intervals import is_linear
from loopkit.expr.kinds import is_narrow, kind_of, promote
from loopkit.expr.mappers import children, with_children
from loopkit.expr.nodes import Combined, MakeTuple, TypeCast, negated
from loopkit.expr.tuples import combining_name, field_dtypes
from loopkit.poly.affine import TruncatedQuotient, TruncatedRemainder
from loopkit.target.c.conversions import (
    AND,
    BITS,
    EQUALITY,
    OR,
    PRIMARY,
    PRODUCT,
    RELATION,
    SHIFT,
    SUM,
    TERNARY,
    UNARY,
    Piece,
    inside,
    promoted,
    usual_conversion,
)
from loopkit.target.c.dialect import helper
from loopkit.target.c.function_calls import FunctionCalls

_BITWISE: Mapping[type, str] = {p.BitwiseAnd: "&", p.BitwiseOr: "|", p.BitwiseXor: "^"}


@dataclass(frozen=True)
class CText(FunctionCalls):
    """Prints expressions; :class:`loopkit.target.c.conversions.CBase` lists its fields."""

    def text(self, expr: Expression, want: np.dtype | None = None) -> str:
        """*expr* as text, converted to *want*; ``None``: in the dtype of the rules.

        :raises TypeInferenceError: its operands do not support an operation, or a name has no type.
        """
        piece = self._operand(expr, resolve(self._type(expr))) if want is None else \
            self._convert(self._operand(expr, want), want)
        if piece.dtype == BOOL and not self.dialect.syntax.has_bool:
            return self._exact(piece).text
        return (self._stored(piece) if is_narrow(piece.dtype) else piece).text

    def condition(self, expr: Expression) -> str:
        """*expr* as the condition of an ``if``."""
        return self._condition(expr).text

    # Nodes

    def _operand(self, expr: Expression, want: np.dtype) -> Piece:
        """*expr* as an operand where *want* is needed: weak ones adapt to it, others keep their dtype."""
        if not isinstance(expr, p.ExpressionNode):
            given = literal_type(expr)
            is_whole = isinstance(given, Weak) and given.rank == 1 and kind_of(want) in "iufc"
            return self._literal(expr, real_dtype(want) if is_whole else self._own(given, want))
        own = self._own(self._type(expr), want)
        if self.of_sizes(expr):
            own = self._long_enough(expr, own, want)
            if isinstance(expr, p.FloorDiv | p.Remainder | p.Min | p.Max | p.Call | p.LeftShift | p.RightShift):
                # these depend on more than the low bits of their operands
                own = reduce(promote, map(self._whole, children(expr)), own)
        match expr:
            case p.Variable(name=name):
                return self._name(name, ())
            case p.Subscript(aggregate=p.Variable(name=name)):
                return self._name(name, expr.index_tuple)
            case p.Sum():
                return self._folded(expr, own, self._added)
            case p.Product():
                return self._product(expr, own)
            case p.Quotient():
                return self._folded(expr, own, lambda left, right, dtype: self._binary(
                    " / ", PRODUCT, left, self._operand(right, dtype), dtype, modular=False))
            case p.FloorDiv() | p.Remainder():
                return self._division(expr, own)
            case p.LeftShift() | p.RightShift():
                return self._shift(expr, own)
            case p.BitwiseAnd() | p.BitwiseOr() | p.BitwiseXor():
                return self._of_bits(expr, own)
            case p.BitwiseNot():
                if own == BOOL:
                    return self._operand(p.LogicalNot(expr.child), want)
                inverted = self._prepared(self._convert(self._operand(expr.child, own), own), own, modular=True)
                return Piece(f"~{inside(inverted, UNARY)}", UNARY, own, promoted(inverted.c_dtype))
            case p.Power():
                return self._power(expr.base, expr.exponent, own)
            case p.Min() | p.Max():
                return self._extremum(expr, own)
            case p.Comparison():
                return self.compared(expr)
            case p.LogicalAnd():
                return self._logical(" && ", AND, expr.children)
            case p.LogicalOr():
                return self._logical(" || ", OR, expr.children)
            case p.LogicalNot():
                return Piece(f"!{inside(self._condition(expr.child), UNARY)}", UNARY, BOOL, BOOL)
            case p.If():
                return self._if(expr, own)
            case TypeCast():
                return self._type_cast(expr)
            case p.Call() if (function := function_of(expr)) is not None:
                if isinstance(function.dtypes, Mapping) or isinstance(expr.function, FunctionName):
                    return self._with_own_text(function, expr.parameters, own)
                return self._function(function, expr.parameters, own)
            case MakeTuple(values=values):
                dtype = want if want.names == own.names else own
                fields = zip(values, field_dtypes(dtype).values(), strict=True)
                return self._struct(dtype, [self._operand(value, field) for value, field in fields])
            case p.Lookup(aggregate=aggregate, name=name):
                return self._field(self._operand(aggregate, resolve(self._type(aggregate))), name)
            case Combined(operation=operation):
                both = [self._converted(e, own) for e in children(expr)]
                return self._call(combining_name(operation.name, own), both, own)
            case _:
                raise TypeError(f"{type(expr).__name__} cannot be printed as C: {expr}")

    def _name(self, name: str, indices: tuple[Expression, ...]) -> Piece:
        if name in self.axes:
            return Piece(self.axes[name], PRIMARY, UINT32, UINT32)
        given = self.lookup(name)
        assert given is not None                        # its type was looked up before
        dtype = resolve(given)
        text = self.subscripts(name, indices)
        piece = Piece(text, UNARY if text.startswith("*") else PRIMARY, dtype, dtype)
        wanted = self._named(name)
        assert wanted is not None
        return self._convert(piece, resolve(wanted))

    def _folded(self, expr: p.ExpressionNode, own: np.dtype,
                step: Callable[[Piece, Expression, np.dtype], Piece]) -> Piece:
        """The operands of *expr* combined by *step* from the left, each time in the dtype of those so far."""
        operands, dtypes = children(expr), list[np.dtype]()
        for number in range(2, len(operands) + 1):
            part = expr if number == len(operands) else with_children(expr, operands[:number])
            found = self._type(part)
            dtype = self._own(found, own) if found != BOOL else BOOL
            if isinstance(part, p.Sum | p.Product) and self.of_sizes(part):
                dtype = self._long_enough(part, dtype, own)         # it may be larger than its operands
            dtypes.append(dtype)
        piece = self._operand(operands[0], dtypes[0] if dtypes else own)
        for operand, dtype in zip(operands[1:], dtypes, strict=True):
            piece = step(piece, operand, dtype)
        return piece

    def _added(self, piece: Piece, term: Expression, dtype: np.dtype) -> Piece:
        first = term.children[0] if isinstance(term, p.Product) else term
        is_negative = isinstance(first, int | float) and not isinstance(first, bool) and first < 0 and first != -2**31
        operator = "-" if is_negative else "+"
        right = self._operand(negated(term) if is_negative else term, dtype)
        if operator == "+" and dtype.kind in "iu" and piece.c_dtype == right.c_dtype == right.dtype == dtype:
            # i + (j + k) of one integer type is i + j + k
            right = replace(right, precedence=PRODUCT if right.precedence == SUM else right.precedence)
        return self._binary(f" {operator} ", SUM, piece, right, dtype)

    def _product(self, expr: p.Product, own: np.dtype) -> Piece:
        factors = expr.children
        if len(factors) > 1 and isinstance(factors[0], int) and factors[0] == -1:
            inner = self._operand(factors[1], own) if len(factors) == 2 else self._product(p.Product(factors[1:]), own)
            if inner.dtype == BOOL:
                inner = replace(inner, dtype=INT32, c_dtype=INT32)
            elif inner.dtype.kind == "u" and own.kind == "i":
                inner = self._convert(inner, own)
            return self._negated(inner)
        return self._folded(expr, own, lambda piece, factor, dtype: self._binary(
            "*", PRODUCT, piece, self._operand(factor, dtype), dtype))

    def _negated(self, piece: Piece) -> Piece:
        if is_narrow(piece.dtype) and not piece.unrounded:
            piece = self._half_operand(piece)
        text = inside(piece, PRODUCT)
        text = f"-({text})" if text.startswith("-") else f"-{text}"
        return Piece(text, PRODUCT if piece.precedence == PRODUCT else UNARY, piece.dtype,
                     promoted(piece.c_dtype), unrounded=piece.unrounded)

    def _binary(self, operator: str, precedence: int, left: Piece, right: Piece, dtype: np.dtype, *,
                modular: bool = True) -> Piece:
        """``left operator right`` computed in *dtype*.

        :arg modular: operands may be congruent to the value modulo 2^bits of *dtype*.
        """
        halves = is_narrow(dtype)
        left, right = (self._half_operand(self._convert(x, dtype)) if halves else
                       self._prepared(x, dtype, modular=modular) for x in (left, right))
        if not halves and not self._common_is(left, right, dtype, modular=modular):
            if left.literal is not None and right.literal is None and right.dtype != dtype:
                right = self._exact(self._convert(right, dtype))
            else:
                left = self._exact(self._convert(left, dtype))
            if not self._common_is(left, right, dtype, modular=modular):
                right = self._exact(self._convert(right, dtype))
        if dtype.kind == "c":
            kinds = ("c" if x.c_dtype.kind == "c" else "r" for x in (left, right))
            function = self.dialect.functions.operators.get(operator.strip().join(kinds))
            if function is not None:
                return self._call(helper(function, dtype), [left, right], dtype)
        if operator == "*" and left.precedence == PRODUCT and left.divides:
            left = replace(left, precedence=SUM)       # (a / b)*c: parentheses for readers, not for C
        text = f"{inside(left, precedence)}{operator}{inside(right, precedence + 1)}"
        if right.text.startswith("-") and operator in ("-", "+", "*") and right.precedence >= precedence + 1:
            text = f"{inside(left, precedence)}{operator}({right.text})"
        c_dtype = dtype if dtype.kind == "c" else usual_conversion(left.c_dtype, right.c_dtype)
        return Piece(text, precedence, dtype, c_dtype, divides=operator in (" / ", " % "),
                     unrounded=halves and c_dtype != dtype)

    def _prepared(self, piece: Piece, dtype: np.dtype, *, modular: bool) -> Piece:
        """*piece* as an operand: a value computed wider than its dtype is converted if its high bits matter."""
        if piece.literal is not None or (modular and piece.dtype == dtype and dtype.kind in "iu"):
            return piece
        return self._convert(piece, dtype) if is_narrow(piece.dtype) else self._exact(piece)

    def _common_is(self, left: Piece, right: Piece, dtype: np.dtype, *, modular: bool) -> bool:
        """Does C compute an operation of these two in *dtype* without a cast?"""
        if dtype.kind == "c":
            part = real_dtype(dtype)
            kinds = {left.c_dtype, right.c_dtype}
            return dtype in kinds and kinds <= {dtype, part}
        common = usual_conversion(left.c_dtype, right.c_dtype)
        if dtype.kind in "iub":
            wide_enough = common.kind in "iu" and common.itemsize >= dtype.itemsize
            return wide_enough and (modular or common == promoted(dtype))
        return common == dtype

    def _division(self, expr: p.FloorDiv | p.Remainder, own: np.dtype) -> Piece:
        """Python's ``//`` and ``%``, which round down, by C's operators or helpers."""
        a, b = expr.numerator, expr.denominator
        is_quotient = isinstance(expr, p.FloorDiv)
        left, right = self._operand(a, own), self._operand(b, own)
        as_in_c = isinstance(expr, TruncatedQuotient | TruncatedRemainder)
        if own.kind in "iu" and (as_in_c or own.kind == "u" or (self.never_negative(a) and self.never_negative(b))):
            return self._binary(" / " if is_quotient else " % ", PRODUCT, left, right, own, modular=False)
        return self._computed("floor_div" if is_quotient else "floor_mod", (left, right), own, helper)

    def _of_bits(self, expr: p.BitwiseAnd | p.BitwiseOr | p.BitwiseXor, own: np.dtype) -> Piece:
        def joined(piece: Piece, operand: Expression, dtype: np.dtype) -> Piece:
            found = self._bitwise(_BITWISE[type(expr)], BITS, piece, self._operand(operand, dtype), dtype)
            return replace(found, c_dtype=BOOL) if dtype == BOOL else found
        return self._folded(expr, own, joined)

    def _bitwise(self, operator: str, precedence: int, left: Piece, right: Piece, dtype: np.dtype, *,
                 modular: bool = True) -> Piece:
        """:meth:`_binary` with parentheses around all operands that are operations: C's precedence misleads readers."""
        left, right = (replace(x, text=inside(x, UNARY), precedence=max(x.precedence, UNARY)) for x in (left, right))
        return self._binary(f" {operator} ", precedence, left, right, dtype, modular=modular)

    def _shift(self, expr: p.LeftShift | p.RightShift, own: np.dtype) -> Piece:
        """numpy's shifts: a helper where C's are undefined, for negative or large counts and for overflow."""
        is_left = isinstance(expr, p.LeftShift)
        shifted, count = self._operand(expr.shiftee, own), self._operand(expr.shift, own)
        in_range = count.literal is not None and 0 <= count.literal < 8*own.itemsize
        if in_range and (not is_left or own.kind == "u" or self.never_negative(expr)):
            return self._bitwise("<<" if is_left else ">>", SHIFT, shifted, count, own, modular=is_left)
        return self._computed("shift_left" if is_left else "shift_right", (shifted, count), own, helper)

    def _power(self, base: Expression, exponent: Expression, own: np.dtype) -> Piece:
        if isinstance(exponent, float) and exponent.is_integer() and kind_of(own) in "fc":
            exponent = int(exponent)
        if isinstance(exponent, int) and not isinstance(exponent, bool) and abs(exponent) <= 16:
            return self._small_power(base, exponent, own)
        if own.kind in "iu":
            computed = promoted(own)
            args = [self._converted(base, computed), self._converted(exponent, INT32)]
            return self._call(helper("int_power", computed), args, own, computed)
        if exponent == 0.5 and kind_of(own) == "f":
            return self._of_floats("sqrt", (base,), own)
        return self._of_floats("pow", (base, exponent), own)

    def _small_power(self, base: Expression, exponent: int, own: np.dtype) -> Piece:
        """Powers with a literal exponent, by multiplication; those of halves in float32, rounded once."""
        piece = self._convert(self._operand(base, own), own)
        if is_narrow(own) and exponent == 2 and isinstance(base, p.Variable | p.Subscript):
            return self._binary("*", PRODUCT, piece, piece, own)
        if is_narrow(own) and exponent not in (0, 1):
            return replace(self._multiplied(base, self._in_float(piece), exponent, FLOAT32), dtype=own, c_dtype=FLOAT32,
                           unrounded=True)
        return self._multiplied(base, piece if is_narrow(own) else self._exact(piece), exponent, own)

    def _multiplied(self, base: Expression, piece: Piece, exponent: int, own: np.dtype) -> Piece:
        """``piece**exponent``, where *piece* is *base* in *own*."""
        if exponent < 0:
            return self._binary(" / ", PRODUCT, self._literal(1, own), self._multiplied(base, piece, -exponent, own),
                                own)
        if exponent == 0:
            return self._literal(1, own)
        if exponent == 1:
            return piece
        is_name = isinstance(base, p.Variable | p.Subscript) and piece.precedence == PRIMARY
        if is_name and exponent <= 3 and not (own.kind == "c" and self.dialect.functions.operators):
            return Piece("*".join([piece.text] * exponent), PRODUCT, own, promoted(own))
        computed = promoted(own)
        return self._call(helper(f"power{exponent}", computed), [piece], own, computed)

    def _extremum(self, expr: p.Min | p.Max, own: np.dtype) -> Piece:
        """``min`` and ``max``, from the left."""
        which = "min" if isinstance(expr, p.Min) else "max"

        def joined(piece: Piece, operand: Expression, dtype: np.dtype) -> Piece:
            left, right = (self._convert(x, dtype) for x in (piece, self._operand(operand, dtype)))
            if dtype != BOOL:
                return self._computed(which, (left, right), dtype, self.dialect.function)
            operator, precedence = (" && ", AND) if which == "min" else (" || ", OR)
            exact = self._binary(operator, precedence, self._exact(left), self._exact(right), dtype)
            return replace(exact, c_dtype=BOOL)
        return self._folded(expr, own, joined)

    def compared(self, expr: p.Comparison) -> Piece:
        """A comparison; sizes and inames are compared as integers, like in the analyses."""
        as_sizes = self if self.sizes else replace(self, sizes=True)
        are_sizes = as_sizes.of_sizes(expr.left) and as_sizes.of_sizes(expr.right)
        if are_sizes != self.sizes:
            return replace(self, sizes=are_sizes).compared(expr)
        given = comparison(self._type(expr.left), self._type(expr.right),
                           [e for e in (expr.left, expr.right) if isinstance(e, int)])
        dtype = INT64 if self.sizes and not is_linear(expr) else resolve(given)
        if dtype.kind in "iu":
            dtype = reduce(promote, [self._whole(e) for e in (expr.left, expr.right) if self.of_sizes(e)], dtype)
        operator = str(expr.operator)
        if dtype.kind == "c" and operator not in ("==", "!="):
            raise TypeInferenceError("Complex numbers have no order.", subject=str(expr),
                                     hint="compare their abs, real or imag")
        precedence = EQUALITY if operator in ("==", "!=") else RELATION
        left, right = self._operand(expr.left, dtype), self._operand(expr.right, dtype)
        piece = self._binary(f" {operator} ", precedence, left, right, dtype, modular=False)
        return replace(piece, dtype=BOOL, c_dtype=BOOL, unrounded=False)

    def _logical(self, operator: str, precedence: int, operands: Sequence[Expression]) -> Piece:
        # gcc warns about && inside || without parentheses
        texts = [inside(self._condition(e), precedence + (1 if precedence == AND else 2)) for e in operands]
        return Piece(operator.join(texts), precedence, BOOL, BOOL)

    def _condition(self, expr: Expression) -> Piece:
        """*expr* as a truth value of C."""
        given = self._type(expr)
        if rank_of(given) == 3:
            raise TypeInferenceError("A complex number cannot be a condition.", subject=str(expr), hint="compare it")
        piece = self._operand(expr, BOOL if self.of_sizes(expr) else resolve(given))
        if is_narrow(piece.dtype):
            return self._in_float(piece)
        return piece if piece.dtype == BOOL else self._exact(piece)

    def _if(self, expr: p.If, own: np.dtype) -> Piece:
        condition = self._condition(expr.condition)
        if kind_of(condition.dtype) == "f":                     # OpenCL C does not choose by these
            condition = Piece(f"{inside(condition, EQUALITY)} != 0", EQUALITY, BOOL, BOOL)
        then, otherwise = (self._convert(self._operand(e, own), own) for e in (expr.then, expr.else_))
        if is_narrow(own) and not (then.exact and otherwise.exact):
            then, otherwise = (x if x.unrounded and not self.dialect.has_operators(own) else self._half_operand(x)
                               for x in (then, otherwise))
        else:
            then, otherwise = self._exact(then), self._exact(otherwise)
        c_dtype = then.c_dtype if then.c_dtype == otherwise.c_dtype else promoted(own)
        text = f"{inside(condition, OR)} ? {inside(then, OR)} : {inside(otherwise, TERNARY)}"
        return Piece(text, TERNARY, own, c_dtype, unrounded=then.unrounded or otherwise.unrounded)

    def _type_cast(self, expr: TypeCast) -> Piece:
        dtype = expr.dtype
        if not isinstance(expr.child, p.ExpressionNode):
            value = expr.child
            if isinstance(value, int) and dtype.kind in "iu":
                low = int(np.iinfo(dtype).min)
                value = (value - low) % 2**(8*dtype.itemsize) + low
                return self._exact(self._literal(value, dtype)) if dtype.itemsize >= 4 else \
                    self._cast(self._literal(value, INT32), dtype)
            if not (isinstance(value, float | complex) and dtype.kind in "iub"):
                return self._literal(value, dtype)
        piece = self._convert(self._operand(expr.child, dtype), dtype)
        return piece if is_narrow(dtype) else self._exact(piece)
