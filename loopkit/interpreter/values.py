"""The value of an expression, by numpy, in the dtypes of the kernel's rules."""
from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import PreconditionError
from loopkit.expr.dtypes import (
    BOOL,
    COMPLEX128,
    FLOAT32,
    FLOAT64,
    INT64,
    Type,
    Weak,
    as_float,
    comparison,
    join,
    rank_of,
    type_of_node,
)
from loopkit.expr.evaluate import COMPARE, truncated_quotient, truncated_remainder
from loopkit.expr.indices import as_index
from loopkit.expr.kinds import FUNCTIONS, is_half
from loopkit.expr.mappers import children
from loopkit.expr.nodes import TypeCast
from loopkit.poly.affine import TruncatedQuotient, TruncatedRemainder

#: The value of a scalar or an element: its name and its subscripts.
Read = Callable[[str, tuple[int, ...]], Any]


@dataclass(frozen=True)
class Evaluator:
    """The values of expressions, for the *types* of all names; *read* gives a value from memory."""

    types: Mapping[str, Type]
    read: Read
    _known: dict[int, tuple[Expression, Type]] = field(default_factory=dict, init=False, repr=False)
    _indices: dict[int, tuple[Expression, Expression]] = field(default_factory=dict, init=False, repr=False)

    def of(self, expr: Expression, names: Mapping[str, Any]) -> Any:
        """The value of *expr*, a Python number if its type is weak; :raises PreconditionError: there is none."""
        with np.errstate(all="ignore"):
            return self._value(expr, names)

    def subscripts(self, target: Expression, names: Mapping[str, Any]) -> tuple[int, ...]:
        """The element of a variable or a subscript."""
        if not isinstance(target, p.Subscript):
            return ()
        return tuple(int(self.of(self._index(i), names)) for i in target.index_tuple)

    def _value(self, expr: Expression, names: Mapping[str, Any]) -> Any:
        match expr:
            case p.Variable(name=name):
                return names[name] if name in names else self.read(name, ())
            case p.Subscript(aggregate=p.Variable(name=name)):
                return self.read(name, tuple(int(self._value(self._index(i), names)) for i in expr.index_tuple))
            case p.If(condition=condition, then=then, else_=else_):
                taken = then if self._value(condition, names) else else_
                return self._typed(expr, self._value(taken, names))
            case p.LogicalAnd():
                return np.bool_(all(self._value(c, names) for c in expr.children))
            case p.LogicalOr():
                return np.bool_(any(self._value(c, names) for c in expr.children))
            case p.LogicalNot(child=child):
                return np.bool_(not self._value(child, names))
            case p.Comparison(left=left, operator=op, right=right):
                return self._compared(str(op), left, right, names)
            case TypeCast(child=child):
                return converted(self._value(child, names), expr.dtype)
            case p.Call(function=p.Variable(name=name), parameters=parameters) if name in FUNCTIONS:
                return self._called(expr, name, parameters, names)
            case p.ExpressionNode():
                return self._arithmetic(expr, names)
            case _:
                return expr

    def _arithmetic(self, expr: p.ExpressionNode, names: Mapping[str, Any]) -> Any:
        operation = _OPERATIONS.get(type(expr))
        if operation is None:
            raise PreconditionError(f"No value is known for {expr}.", subject=str(expr))
        dtype = _computed_in(self._type(expr))
        return self._typed(expr, reduce(operation, [converted(self._value(e, names), dtype) for e in children(expr)]))

    def _compared(self, op: str, left: Expression, right: Expression, names: Mapping[str, Any]) -> Any:
        a, b = self._value(left, names), self._value(right, names)
        common = comparison(self._type(left), self._type(right), (left, right))
        if rank_of(common) > 1:
            a, b = (converted(v, _computed_in(common)) for v in (a, b))
        else:
            a, b = int(a), int(b)                      # Python's integers do not wrap around
        return np.bool_(COMPARE[op](a, b))

    def _called(self, expr: Expression, name: str, parameters: tuple[Expression, ...], names: Mapping[str, Any]
                ) -> Any:
        given = reduce(join, map(self._type, parameters))
        if FUNCTIONS[name].kind in ("float", "predicate"):
            given = as_float(given)
        values = [converted(self._value(e, names), _computed_in(given)) for e in parameters]
        return self._typed(expr, function_value(name, *values))

    def _index(self, subscript: Expression) -> Expression:
        if id(subscript) not in self._indices:
            self._indices[id(subscript)] = subscript, as_index(subscript, self._type, INT64)
        return self._indices[id(subscript)][1]

    def _type(self, expr: Expression) -> Type:
        known = self._known.get(id(expr))
        if known is None:
            found = type_of_node(expr, self.types.get, self._type)
            if found is None:
                raise PreconditionError(f"The dtype of {expr} is not known.", subject=str(expr))
            known = self._known[id(expr)] = (expr, found)      # keeps the id alive
        return known[1]

    def _typed(self, expr: Expression, value: Any) -> Any:
        """*value* in the dtype of *expr*; a Python number if that is weak."""
        found = self._type(expr)
        if isinstance(found, Weak):
            return converted(value, _computed_in(found)).item()
        return converted(value, found)


def converted(value: Any, dtype: np.dtype[Any]) -> Any:
    """*value* as a scalar of *dtype*, converted like numpy's astype."""
    given = np.asarray(value)
    if given.dtype.kind == "c" and dtype.kind not in "cb":
        given = given.real
    if given.dtype.kind == "O":                        # an integer of more than 64 bits
        given = np.asarray(int(value) % 2**64, np.uint64)
    with np.errstate(all="ignore"):
        return given.astype(dtype)[()]


def _computed_in(found: Type) -> np.dtype[Any]:
    """The dtype in which an operation is computed: halves in float32, as in texts; weak numbers in the widest one."""
    if isinstance(found, Weak):
        return (BOOL, INT64, FLOAT64, COMPLEX128)[rank_of(found)]
    return FLOAT32 if is_half(found) else found


def function_value(name: str, *arguments: Any) -> Any:
    """The value of the language's function *name* for numpy scalars.

    >>> function_value("rsqrt", np.float64(4))
    np.float64(0.5)
    """
    return _FUNCTIONS[name](*arguments)


def _power(base: Any, exponent: Any) -> Any:
    if np.asarray(base).dtype.kind in "iu" and exponent < 0:
        return np.float64(base)**np.float64(exponent)
    return base**exponent


_OPERATIONS: Mapping[type, Callable[[Any, Any], Any]] = {
    p.Sum: operator.add, p.Product: operator.mul, p.Quotient: operator.truediv, p.FloorDiv: operator.floordiv,
    p.Remainder: operator.mod, TruncatedQuotient: truncated_quotient, TruncatedRemainder: truncated_remainder,
    p.Power: _power, p.Min: np.fmin, p.Max: np.fmax}


def _by_python(f: Callable[..., float]) -> Callable[..., Any]:
    """A function of Python's math module, with NaN where it raises."""
    def call(*args: Any) -> Any:
        try:
            return np.float64(f(*map(float, args)))
        except (ValueError, OverflowError):
            return np.float64("nan")
    return call


def _whole(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A rounding that leaves integers unchanged."""
    return lambda x: x if np.asarray(x).dtype.kind in "iub" else f(x)


_NUMPYS_OWN = ("sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh fmod hypot copysign fmin fmax "
               "nextafter isnan isinf isfinite signbit real imag conj fabs")
_ARCS = "sin cos tan sinh cosh tanh tan2"

_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in _NUMPYS_OWN.split()},
    **{f"a{name}": getattr(np, f"arc{name}") for name in _ARCS.split()},
    "abs": np.abs, "floor": _whole(np.floor), "ceil": _whole(np.ceil), "trunc": _whole(np.trunc),
    "rint": _whole(np.rint), "round": _whole(lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)),
    "rsqrt": lambda x: 1/np.sqrt(x), "exp10": lambda x: np.power(x.dtype.type(10), x),
    "sinpi": lambda x: np.sin(np.pi*x), "cospi": lambda x: np.cos(np.pi*x),
    "erf": _by_python(math.erf), "erfc": _by_python(math.erfc), "lgamma": _by_python(math.lgamma),
    "tgamma": _by_python(math.gamma), "remainder": _by_python(math.remainder),
    "pow": _power, "fdim": lambda x, y: np.fmax(x - y, x.dtype.type(0)), "fma": lambda x, y, z: x*y + z}
