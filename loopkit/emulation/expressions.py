"""Expressions of loop programs as functions of a strand, whose values are numbers or one number for each thread."""
from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import mul
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.emulation.memory import EmulatedArray, FlaggedArray, Lanes, Place
from loopkit.emulation.strands import Strand
from loopkit.errors import PreconditionError
from loopkit.expr.dtypes import (
    FLOAT32,
    FLOAT64,
    INT64,
    Type,
    Weak,
    comparison,
    rank_of,
    resolve,
    signature,
    type_of_node,
    weak,
)
from loopkit.expr.evaluate import COMPARE, truncated_quotient, truncated_remainder
from loopkit.expr.functions import ScalarFunction, function_of, power_value
from loopkit.expr.indices import as_index
from loopkit.expr.mappers import array_of, children
from loopkit.expr.nodes import Combined, MakeTuple, TypeCast
from loopkit.expr.tuples import field_dtypes
from loopkit.interpreter.interpreter import OPERATIONS, computed_in, converted
from loopkit.poly.affine import TruncatedQuotient, TruncatedRemainder

#: From a strand with at least one active thread to a value.
Value = Callable[[Strand], Lanes]

#: From a strand to the array of an element, and the element's place in it.
Element = Callable[[Strand], tuple[EmulatedArray, Place]]


def by_threads(f: Callable[..., Any], dtype: np.dtype[Any]) -> Callable[..., Lanes]:
    """A function of scalars as one of a strand and values; it is called for active threads only."""
    def call(s: Strand, *values: Lanes) -> Lanes:
        if not any(isinstance(v, np.ndarray) for v in values):
            return f(*values)
        found = np.zeros(len(s.threads), dtype)
        for k in np.flatnonzero(s.mask):
            found[k] = f(*(v[k] if isinstance(v, np.ndarray) else v for v in values))
        return found
    return call


#: Operations of two scalars that numpy does not have for arrays.
_OF_SCALARS: Mapping[type, Callable[[Any, Any], Any]] = {
    TruncatedQuotient: truncated_quotient, TruncatedRemainder: truncated_remainder, p.Power: power_value}


@dataclass(frozen=True, eq=False)
class Compiler:
    """Makes functions of expressions.

    :ivar types: the types of names; another name is an index of the program.
    :ivar arrays: the names of arrays, and of variables in memory.
    :ivar index: the dtype of indices.
    :ivar flagged: the arrays whose inter-block flags a read waits for.
    :ivar contracted: a product of float32 and the sum that it is a term of are rounded once.
    """

    types: Mapping[str, Type]
    arrays: Collection[str]
    index: np.dtype[Any]
    flagged: Collection[str] = ()
    contracted: bool = False
    _known: dict[int, tuple[Expression, Type]] = field(default_factory=dict, init=False)

    def with_names(self, types: Mapping[str, Type], arrays: Collection[str] = ()) -> Compiler:
        """This one for more names, some of *arrays*."""
        return replace(self, types={**self.types, **types}, arrays={*self.arrays, *arrays})

    def waiting_for(self, arrays: Collection[str]) -> Compiler:
        return replace(self, flagged=arrays)

    # Elements

    def dtype_of(self, element: Expression) -> np.dtype[Any]:
        return resolve(self._name_type(array_of(element)))

    def element(self, expr: p.Variable | p.Subscript, *, vector: bool = False) -> Element:
        """The place of an element of an array, or of a variable in memory; *vector*: a vector begins there."""
        name = array_of(expr)
        index = [self._subscript(i) for i in expr.index_tuple] if isinstance(expr, p.Subscript) else []

        def place(s: Strand) -> tuple[EmulatedArray, Place]:
            cells = s.block.memory[name]
            # the last subscripts of an array in warp registers name the thread itself
            at = [i(s) for i in index[:len(cells.extents)]]
            return cells, cells.vector_place(s, at) if vector else cells.place(s, at)
        return place

    def read(self, expr: p.Variable | p.Subscript) -> Value:
        """The value of an element."""
        place, waits = self.element(expr), array_of(expr) in self.flagged

        def load(s: Strand) -> Lanes:
            cells, at = place(s)
            if waits and isinstance(cells, FlaggedArray):
                return cells.load_flagged(s, at)
            return cells.load(s, at)
        return load

    def _subscript(self, expr: Expression) -> Value:
        index = as_index(expr, self._type, INT64)
        value = self.value(index)
        return value if isinstance(self._type(index), Weak) or isinstance(index, int) else _to(INT64, value)

    # Values

    def converted(self, expr: Expression, dtype: np.dtype[Any]) -> Value:
        """The value of *expr*, converted to *dtype*."""
        if not isinstance(expr, p.ExpressionNode):
            constant = converted(expr, dtype)
            return lambda _: constant
        return _to(dtype, self.value(expr))

    def condition(self, expr: Expression) -> Value:
        """The truth value of *expr*."""
        value = self.value(expr)

        def truth(s: Strand) -> Lanes:
            found = value(s)
            return found.astype(bool) if isinstance(found, np.ndarray) else bool(found)
        return truth

    def value(self, expr: Expression) -> Value:
        """The value of *expr* in the dtype of the rules; a Python integer, or an int64, if that is weak.

        :raises PreconditionError: the emulation has no value for a node of it.
        """
        match expr:
            case p.Variable(name=name) if name not in self.arrays:
                return lambda s: s.names[name]
            case p.Variable() | p.Subscript():
                return self.read(expr)
            case p.If():
                return self._if(expr)
            case p.LogicalAnd() | p.LogicalOr():
                return self._logical([self.condition(c) for c in expr.children], all_of=isinstance(expr, p.LogicalAnd))
            case p.LogicalNot(child=child):
                inner = self.condition(child)
                return lambda s: np.logical_not(inner(s))
            case p.BitwiseNot(child=child):
                inside = self._operand(child, expr)
                return self._typed(expr, lambda s: ~inside(s))
            case p.Comparison(left=left, operator=op, right=right):
                return self._compared(str(op), left, right)
            case TypeCast(child=child):
                return self.converted(child, expr.dtype)
            case p.Call(parameters=parameters) if (function := function_of(expr)) is not None:
                return self._called(expr, function, parameters)
            case MakeTuple(values=values):
                return self._tuple(resolve(self._type(expr)), values)
            case p.Lookup(aggregate=aggregate, name=field_name):
                whole = self.value(aggregate)
                return lambda s: whole(s)[field_name]
            case Combined():
                return self._combined(expr)
            case p.ExpressionNode():
                return self._arithmetic(expr)
            case _:
                return lambda _: expr

    def _arithmetic(self, expr: p.ExpressionNode) -> Value:
        found = self._type(expr)
        if isinstance(found, Weak) and not any(isinstance(e, p.ExpressionNode) for e in children(expr)):
            with suppress(TypeError, ZeroDivisionError):
                constant = reduce(OPERATIONS[type(expr)], children(expr))
                return lambda _: constant
        if self.contracted and isinstance(expr, p.Sum) and found == FLOAT32:
            return self._contracted_sum(expr)
        parts = [self._operand(e, expr) for e in children(expr)]
        if type(expr) in _OF_SCALARS:
            scalar = by_threads(_OF_SCALARS[type(expr)], computed_in(found))
            a, b = parts
            return self._typed(expr, lambda s: scalar(s, a(s), b(s)))
        if type(expr) not in OPERATIONS:
            raise PreconditionError(f"The emulation has no value for {expr}.", subject=str(expr))
        operation = OPERATIONS[type(expr)]
        if len(parts) == 2:
            one, other = parts
            return self._typed(expr, lambda s: operation(one(s), other(s)))
        return self._typed(expr, lambda s: reduce(operation, [part(s) for part in parts]))

    def _contracted_sum(self, expr: p.Sum) -> Value:
        """A sum of float32, which is rounded once, as are terms other than products."""
        terms = list[list[Value]]()
        for e in expr.children:
            parts = e.children if isinstance(e, p.Product) and self._type(e) == FLOAT32 else (e,)
            terms.append([_to(FLOAT64, self.converted(part, FLOAT32)) for part in parts])

        def total(s: Strand) -> Lanes:
            return sum(reduce(mul, [part(s) for part in parts]) for parts in terms)
        return _to(FLOAT32, total)

    def _operand(self, expr: Expression, whole: Expression) -> Value:
        """*expr* in the dtype in which *whole* is computed."""
        found = self._type(whole)
        if _is_unbounded(found) and _is_unbounded(self._type(expr)):
            return self.value(expr)
        return self.converted(expr, computed_in(found))

    def _typed(self, expr: Expression, value: Value) -> Value:
        found = self._type(expr)
        return value if _is_unbounded(found) else _to(computed_in(found) if isinstance(found, Weak) else found, value)

    def _if(self, expr: p.If) -> Value:
        condition, found = self.condition(expr.condition), self._type(expr)
        own = [self.value(e) if _is_unbounded(found) else self.converted(
            e, computed_in(found) if isinstance(found, Weak) else found) for e in (expr.then, expr.else_)]
        then, other = own

        def chosen(s: Strand) -> Lanes:
            holds, outer = condition(s), s.mask
            if not isinstance(holds, np.ndarray):
                return then(s) if holds else other(s)
            branches = list[Lanes]()
            for branch, mask in ((then, outer & holds), (other, outer & ~holds)):
                s.mask = mask
                branches += [branch(s)] if mask.any() else []
            s.mask = outer
            return np.where(holds, *branches) if len(branches) == 2 else branches[0]
        return chosen

    @staticmethod
    def _logical(parts: Sequence[Value], *, all_of: bool) -> Value:
        """``and`` or ``or``: a thread computes no further part once the result is known."""
        def joined(s: Strand) -> Lanes:
            outer, result = s.mask, None
            for part in parts:
                found = part(s)
                result = found if result is None else result & found if all_of else result | found
                if not isinstance(result, np.ndarray):
                    if result != all_of:
                        break
                    continue
                s.mask = outer & (result if all_of else ~result)
                if not s.mask.any():
                    break
            s.mask = outer
            return result
        return joined

    def _compared(self, op: str, left: Expression, right: Expression) -> Value:
        common = comparison(self._type(left), self._type(right), (left, right))
        # integers of different dtypes are compared as they are
        a, b = (self.value(e) if rank_of(common) <= 1 else self.converted(e, computed_in(common))
                for e in (left, right))
        compare = COMPARE[op]
        return lambda s: compare(a(s), b(s))

    def _called(self, expr: Expression, function: ScalarFunction, parameters: Sequence[Expression]) -> Value:
        given, _ = signature(function, [self._type(e) for e in parameters])
        values = [self.converted(e, computed_in(x)) for e, x in zip(parameters, given, strict=True)]
        reference = function.reference
        if isinstance(reference, np.ufunc):
            return self._typed(expr, lambda s: reference(*(v(s) for v in values)))
        call = by_threads(function.value, computed_in(self._type(expr)))
        return self._typed(expr, lambda s: call(s, *(v(s) for v in values)))

    def _tuple(self, dtype: np.dtype[Any], values: Sequence[Expression]) -> Value:
        fields = {name: self.converted(e, own)
                  for e, (name, own) in zip(values, field_dtypes(dtype).items(), strict=True)}

        def make(s: Strand) -> Lanes:
            found = {name: value(s) for name, value in fields.items()}
            lanes = any(isinstance(v, np.ndarray) for v in found.values())
            new = np.zeros(len(s.threads) if lanes else (), dtype)
            for name, value in found.items():
                new[name] = value
            return new[()]
        return make

    def _combined(self, expr: Combined) -> Value:
        dtype = resolve(self._type(expr))
        merged = Compiler({"a": dtype, "b": dtype}, (), self.index).converted(expr.operation.merged(dtype), dtype)
        left, right = (self.converted(e, dtype) for e in (expr.left, expr.right))

        def combine(s: Strand) -> Lanes:
            return merged(replace(s, names={"a": left(s), "b": right(s)}))
        return combine

    # Types

    def _name_type(self, name: str) -> Type:
        return self.types.get(name) or weak(self.index)

    def _type(self, expr: Expression) -> Type:
        known = self._known.get(id(expr))
        if known is None:
            found = type_of_node(expr, self._name_type, self._type)
            if found is None:
                raise PreconditionError(f"The dtype of {expr} is not known.", subject=str(expr))
            known = self._known[id(expr)] = (expr, found)       # keeps the id alive
        return known[1]


def _is_unbounded(found: Type) -> bool:
    """Are values of this type integers that no dtype cuts off?"""
    return isinstance(found, Weak) and found.rank == 1


def _to(dtype: np.dtype[Any], value: Value) -> Value:
    """*value*, converted to *dtype*."""
    def convert(s: Strand) -> Lanes:
        found = value(s)
        return found if getattr(found, "dtype", None) == dtype else converted(found, dtype)
    return convert


