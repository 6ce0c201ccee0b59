"""Calls of functions as C text, directed by dtypes; a part of the printer of expressions."""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from pymbolic.typing import Expression

from loopkit.expr.dtypes import BOOL, COMPLEX64, FLOAT32, INT32, rank_of, real_dtype, resolve, signature
from loopkit.expr.functions import ScalarFunction, filled
from loopkit.expr.intervals import Bounds
from loopkit.expr.kinds import is_narrow, promote
from loopkit.target.c.conversions import PRIMARY, UNARY, CBase, Piece
from loopkit.target.c.dialect import helper


@dataclass(frozen=True)
class FunctionCalls(CBase, ABC):
    """Prints calls, for a printer of all expressions."""

    @abstractmethod
    def _operand(self, expr: Expression, want: np.dtype) -> Piece:
        """*expr* in the dtype of the rules, its literals in *want*."""

    def _converted(self, expr: Expression, want: np.dtype) -> Piece:
        """*expr* as a C value of exactly the type *want*."""
        return self._exact(self._convert(self._operand(expr, want), want))

    def _of_floats(self, name: str, arguments: Sequence[Expression], own: np.dtype) -> Piece:
        """The function *name*, whose arguments and result have the dtype *own*."""
        is_normal = helper(f"{name}_normal", own) in self.dialect.functions.normal and all(
            map(Bounds(own, self._type, self.nonnegative).is_normal, arguments))
        return self._computed(f"{name}_normal" if is_normal else name, [self._operand(e, own) for e in arguments], own,
                              helper if is_normal else self.dialect.function)

    def _function(self, function: ScalarFunction, arguments: Sequence[Expression], own: np.dtype) -> Piece:
        """A call of a function of the language that the language of the text has too."""
        if function.dtypes == "predicate":
            given, _ = signature(function, list(map(self._type, arguments)))
            return self._truth(self._of_floats(function.name, arguments, resolve(given[0])))
        if function.dtypes == "float":
            return self._of_floats(function.name, arguments, own)
        return self._part(function.name, arguments[0], own)

    def _truth(self, call: Piece) -> Piece:
        """The *call* of a predicate."""
        c_dtype = INT32 if self.dialect.functions.int_predicates else BOOL
        return replace(call, dtype=BOOL, c_dtype=c_dtype, unrounded=False)

    def _with_own_text(self, function: ScalarFunction, arguments: Sequence[Expression], own: np.dtype) -> Piece:
        """A call by a listed text, such as the user's; halves are passed and returned as float32."""
        given, value = signature(function, list(map(self._type, arguments)))
        dtypes = [self._own(x, own) for x in given]
        dtype = real_dtype(dtypes[0]) if function.dtypes == "real" else self._own(value, own)
        pieces = [self._convert(self._operand(e, x), x) for e, x in zip(arguments, dtypes, strict=True)]
        pieces = [self._in_float(x) if is_narrow(x.dtype) else self._exact(x) for x in pieces]
        computed = FLOAT32 if is_narrow(dtype) else dtype
        template = self.dialect.call_text(function, computed, [x.dtype for x in pieces])
        text, is_call = filled(template, [(x.text, x.precedence == PRIMARY) for x in pieces])
        if dtype == BOOL and not self.dialect.syntax.has_bool:
            return self._cast(Piece(text, PRIMARY if is_call else 0, INT32, INT32), BOOL)
        if not is_call:
            # C may compute an expression in another type
            text = f"({self.dialect.type_name(computed)})({text})"
        call = Piece(text, PRIMARY if is_call else UNARY, dtype, computed, unrounded=is_narrow(dtype))
        return self._truth(call) if dtype == BOOL and is_call else call

    def _part(self, name: str, argument: Expression, own: np.dtype) -> Piece:
        """``abs``, ``real``, ``imag``, ``conj`` and the roundings."""
        given = self._type(argument)
        if rank_of(given) < 3:
            if name in ("real", "conj") or (own.kind in "iub" and name not in ("abs", "imag")) or (
                    own.kind == "u" and name == "abs"):
                return self._convert(self._operand(argument, own), own)
            if name == "imag":
                return self._literal(0, own)
            return self._computed(name, (self._operand(argument, own),), own, self.dialect.function)
        operand = self._own(given, promote(own, COMPLEX64))
        args = [self._converted(argument, operand)]
        return self._convert(self._call(self.dialect.function(name, operand), args,
                                        operand if name == "conj" else real_dtype(operand)), own)
