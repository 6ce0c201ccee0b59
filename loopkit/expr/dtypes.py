"""Dtype rules: numpy's promotion, in which Python's scalars, literals, inames and value arguments are weak.

A weak operand contributes its kind (int, float, complex) but not its width: ``i*a[j]`` and ``2.5*a[j]`` have the dtype
of ``a``. An expression that is weak as a whole gets the dtype of its value arguments, else int32, float64 or
complex128.

Three rules differ from numpy on purpose: ``/`` of integers gives float64 whatever their width, truth values count as
weak integers in arithmetic (numpy's ``True + True`` is ``True``), and a negative literal as the exponent of an integer
gives float64, as ``/`` does.
"""
from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import TypeInferenceError
from loopkit.expr.functions import UNKNOWN, ScalarFunction, function_of
from loopkit.expr.kinds import NUMBERS, dtype_of, is_narrow, is_tuple, kind_of, promote
from loopkit.expr.mappers import children
from loopkit.expr.nodes import Combined, MakeTuple, NumberOperation, Operation, TypeCast
from loopkit.expr.tuples import dtype_text, field_dtype, field_names, joined_tuples, tuple_dtype

BOOL, INT32, INT64, UINT32, UINT64, FLOAT16, FLOAT32, FLOAT64, COMPLEX64, COMPLEX128 = map(
    np.dtype, ("bool", "int32", "int64", "uint32", "uint64", "float16", "float32", "float64", "complex64",
               "complex128"))

_INT, _FLOAT, _COMPLEX = 1, 2, 3
_RANKS = {"b": 0, "i": _INT, "u": _INT, "f": _FLOAT, "c": _COMPLEX}
_DEFAULTS = {_INT: INT32, _FLOAT: FLOAT64, _COMPLEX: COMPLEX128}
_KINDS = {_INT: "int", _FLOAT: "float", _COMPLEX: "complex"}

@dataclass(frozen=True)
class Weak:
    """The type of an operand that adapts to its surroundings.

    :ivar rank: 1, 2 or 3 for an integer, a real or a complex number.
    :ivar dtype: the dtype if nothing else determines it; ``None`` for a literal.
    """

    rank: int
    dtype: np.dtype | None = None

    def __str__(self) -> str:
        return f"weak {_KINDS[self.rank]}"


Type = np.dtype | Weak

#: The type of a name (an array's is that of its elements); ``None`` where it is not known yet.
Lookup = Callable[[str], Type | None]

WEAK_INT, WEAK_FLOAT, WEAK_COMPLEX = Weak(_INT), Weak(_FLOAT), Weak(_COMPLEX)


@lru_cache(maxsize=64)
def weak(dtype: np.dtype) -> Type:
    """The type of an iname or a value argument of *dtype*; truth values are not weak."""
    return Weak(rank, dtype) if (rank := rank_of(dtype)) else dtype


def as_size(given: Type) -> Type:
    """*given* as the type of a size, which is a number like any other: no sum or product of sizes is cut off.

    >>> as_size(weak(np.dtype("uint8"))), as_size(weak(UINT32)), as_size(UINT32)
    (Weak(rank=1, dtype=dtype('int32')), Weak(rank=1, dtype=dtype('int64')), dtype('uint32'))
    """
    if not isinstance(given, Weak) or given.rank != _INT or given.dtype is None:
        return given
    return Weak(_INT, INT32 if given.dtype.itemsize < 4 else INT64) if given.dtype not in (INT32, INT64) else given


def resolve(given: Type) -> np.dtype:
    """The dtype of a type that nothing around it decides."""
    return given.dtype or _DEFAULTS[given.rank] if isinstance(given, Weak) else given


def rank_of(given: Type) -> int:
    """0 for truth values, 1 for integers, 2 for reals, 3 for complex numbers.

    :raises TypeInferenceError: *given* is the dtype of tuples.
    """
    if isinstance(given, Weak):
        return given.rank
    rank = _RANKS.get(kind_of(given))
    if rank is None:
        raise TypeInferenceError(f"A tuple {dtype_text(given)} is used as a number.", subject=dtype_text(given),
                                 hint=f"name one of its fields: t.{field_names(given)[0]}")
    return rank


def literal_type(value: object) -> Type:
    """The type of a number: numpy's scalars have their dtype, Python's are weak."""
    match value:
        case np.generic():
            return value.dtype
        case bool():
            return BOOL
        case int():
            return WEAK_INT if -2**31 <= value < 2**31 else Weak(_INT, INT64 if -2**63 <= value < 2**63 else UINT64)
        case float():
            return WEAK_FLOAT
        case complex():
            return WEAK_COMPLEX
        case _:
            raise TypeError(f"{value!r} is not a number of the kernel language")


@lru_cache(maxsize=1024)
def join(a: Type, b: Type) -> Type:
    """The common type of two values, as of the branches of an ``if``.

    >>> join(WEAK_INT, FLOAT32), join(INT32, FLOAT32)
    (dtype('float32'), dtype('float64'))
    """
    for one, other in ((a, b), (b, a)):
        if isinstance(one, np.dtype) and is_tuple(one):
            return joined_tuples(one, resolve(other), promote)
    if isinstance(a, Weak):
        return _join_weak(a, b) if isinstance(b, Weak) else _join_mixed(b, a)
    return _join_mixed(a, b) if isinstance(b, Weak) else promote(a, b)


def _join_weak(a: Weak, b: Weak) -> Weak:
    if a.rank != b.rank:
        return a if a.rank > b.rank else b
    if a.dtype is None or b.dtype is None:
        return b if a.dtype is None else a
    return Weak(a.rank, promote(a.dtype, b.dtype))


def _join_mixed(a: np.dtype, b: Weak) -> Type:
    rank = rank_of(a)
    if rank == 0 or b.rank <= rank:
        return a if rank else b
    return FLOAT64 if b.rank == _FLOAT else COMPLEX64 if a == FLOAT32 or is_narrow(a) else COMPLEX128


def arithmetic(a: Type, b: Type) -> Type:
    """The type of ``a + b`` and ``a*b``: :func:`join`, in which truth values are integers."""
    joined = join(a, b)
    return joined if rank_of(joined) else WEAK_INT


def comparison(a: Type, b: Type, literals: Iterable[object] = ()) -> Type:
    """The type in which ``a`` and ``b`` are compared; integers are compared as what they are, never wrapped.

    :arg literals: the operands that are integer literals.
    """
    joined = join(a, b)
    if rank_of(joined) != _INT or isinstance(joined, Weak) or not (isinstance(a, Weak) or isinstance(b, Weak)):
        return joined
    info = np.iinfo(joined)
    values = [v for v in literals if isinstance(v, int)]
    if values and all(info.min <= v <= info.max for v in values):
        return joined
    return promote(resolve(a), resolve(b))


def as_float(given: Type) -> Type:
    """Integers and truth values as the real type that functions compute them in."""
    if rank_of(given) > _INT:
        return given
    return WEAK_FLOAT if isinstance(given, Weak) else FLOAT64


def real_part(given: Type) -> Type:
    """The type of the real part of a number."""
    if not isinstance(given, Weak):
        return real_dtype(given)
    return given if given.rank < _COMPLEX else Weak(_FLOAT, given.dtype and real_dtype(given.dtype))


def real_dtype(dtype: np.dtype) -> np.dtype:
    """float32 for complex64, float64 for complex128, else *dtype*."""
    return {COMPLEX64: FLOAT32, COMPLEX128: FLOAT64}.get(dtype, dtype)


def type_of(expr: Expression, lookup: Lookup) -> Type | None:
    """The type of an expression; ``None`` if it depends on a name whose type is not known yet.

    :raises TypeInferenceError: an operation does not exist for its operands.
    """
    return type_of_node(expr, lookup, lambda e: type_of(e, lookup))


def type_of_node(expr: Expression, lookup: Lookup, child: Callable[[Expression], Type | None]) -> Type | None:
    """The type of *expr* from the types of its operands, which *child* gives."""
    match expr:
        case p.Variable():
            return lookup(expr.name)
        case p.Subscript(aggregate=p.Variable(name=name)):
            return lookup(name)
        case p.Sum() | p.Product():
            found = _fold(arithmetic, expr.children, child)
            return WEAK_INT if found == BOOL else found
        case p.FloorDiv() | p.Remainder():
            return _no_complex("floor division" if isinstance(expr, p.FloorDiv) else "remainder",
                               _fold(arithmetic, children(expr), child))
        case p.LeftShift() | p.RightShift():
            return _type_of_bits(expr, arithmetic, child)
        case p.BitwiseAnd() | p.BitwiseOr() | p.BitwiseXor() | p.BitwiseNot():
            return _type_of_bits(expr, join, child)
        case p.Quotient() | p.Power():
            joined = _fold(arithmetic, children(expr), child)
            divides = isinstance(expr, p.Quotient) or (isinstance(expr.exponent, int) and expr.exponent < 0)
            return as_float(joined) if joined is not None and divides else joined
        case p.Min() | p.Max():
            return _no_complex("minimum" if isinstance(expr, p.Min) else "maximum", _fold(join, expr.children, child))
        case p.If():
            return _fold(join, (expr.then, expr.else_), child)
        case p.Comparison() | p.LogicalAnd() | p.LogicalOr() | p.LogicalNot():
            return BOOL
        case TypeCast():
            return expr.dtype
        case p.Call() if (function := function_of(expr)) is not None:
            if function.dtypes in ("predicate", UNKNOWN):
                return BOOL if function.dtypes == "predicate" else None
            known = [found for e in expr.parameters if (found := child(e)) is not None]
            return signature(function, known)[1] if len(known) == len(expr.parameters) else None
        case MakeTuple(fields=fields, values=values):
            each = [found for value in values if (found := child(value)) is not None]
            return tuple_dtype(fields, map(resolve, each)) if len(each) == len(values) else None
        case p.Lookup(aggregate=aggregate, name=name):
            whole = child(aggregate)
            return whole if whole is None else field_dtype(resolve(whole), name)
        case Combined(operation=operation):
            joined = _fold(join, children(expr), child)
            return joined if joined is None else reduction_type(operation, joined)
        case p.ExpressionNode():
            return None
        case _:
            return literal_type(expr)


def _type_of_bits(expr: Expression, f: Callable[[Type, Type], Type], child: Callable[[Expression], Type | None]
                  ) -> Type | None:
    """The type of an operation on bits; :raises TypeInferenceError: an operand is not an integer."""
    for operand in children(expr):
        found = child(operand)
        if found is not None and rank_of(found) > _INT:
            raise TypeInferenceError(f"'{expr}' operates on bits, and '{operand}' is {resolve(found)}.",
                                     subject=str(expr), hint=f"convert it: int64({operand})")
    joined = _fold(f, children(expr), child)
    if joined is not None and rank_of(joined) > _INT:
        raise TypeInferenceError(f"The operands of '{expr}' are int64 and uint64, which no integer dtype holds.",
                                 subject=str(expr), hint="convert one of them: int64(x)")
    return joined


def _fold(f: Callable[[Type, Type], Type], operands: tuple[Expression, ...],
          child: Callable[[Expression], Type | None]) -> Type | None:
    known = [found for operand in operands if (found := child(operand)) is not None]
    return reduce(f, known) if len(known) == len(operands) else None


def signature(function: ScalarFunction, given: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    """The types to which a call converts arguments of the types *given*, and the type of its value.

    >>> signature(ScalarFunction("f", 2, {("float32", "int32"): "float32"}), (FLOAT32, WEAK_INT))
    ((dtype('float32'), dtype('int32')), dtype('float32'))

    :raises TypeInferenceError: *function* takes no such arguments.
    """
    name, rule = function.name, function.dtypes
    for found in given:
        _require_operand(function, found)
    if isinstance(rule, Mapping):
        return _listed_signature(function, rule, given)
    if not isinstance(rule, str):
        return _computed_signature(function, rule, given)
    joined = reduce(join, given)
    if name == "nextafter" and is_narrow(resolve(joined)):
        raise TypeInferenceError(f"'{name}' takes no {resolve(joined)}: the next float32 would round back.",
                                 subject=name, hint=f"write {name}(cast(float32, x), ...)")
    if rule in ("float", "predicate"):
        joined = as_float(joined)
    value = BOOL if rule == "predicate" else joined if rule != "real" else \
        WEAK_INT if joined == BOOL else real_part(joined)
    return (joined,)*len(given), value


def _require_operand(function: ScalarFunction, given: Type) -> None:
    """:raises TypeInferenceError: *function* takes no numbers of such a kind."""
    rank = rank_of(given)
    kinds = ("b", "iufc", "fc", "c")[rank] if isinstance(given, Weak) else kind_of(given)
    if set(kinds).isdisjoint(function.operands):
        name = function.name
        what = "complex numbers" if rank == _COMPLEX else "real numbers" if rank == _FLOAT else f"{given}"
        wanted = next(dtype for dtype in (INT32, UINT32, FLOAT64, COMPLEX128, BOOL) if dtype.kind in function.operands)
        raise TypeInferenceError(
            f"'{name}' takes no {what}.", subject=name, hint="apply it to real(z), imag(z) or abs(z)"
            if rank == _COMPLEX else f"write {name}(cast({wanted}, x))")


def _listed_signature(function: ScalarFunction, rule: Mapping[tuple[np.dtype, ...], np.dtype], given: Sequence[Type]
                      ) -> tuple[tuple[Type, ...], Type]:
    """The first entry of *rule* with the dtypes of the arguments; a weak argument has each dtype that can hold it."""
    for dtypes, value in rule.items():
        if all(rank_of(x) <= rank_of(dtype) if isinstance(x, Weak) else x == dtype
               for x, dtype in zip(given, dtypes, strict=True)):
            return dtypes, value
    listed = " or ".join(f"({', '.join(map(str, dtypes))})" for dtypes in rule)
    raise TypeInferenceError(f"'{function.name}' takes no arguments ({', '.join(map(str, given))}).",
                             subject=function.name, hint=f"it takes {listed}: cast the arguments")


def _computed_signature(function: ScalarFunction, rule: Callable[..., object], given: Sequence[Type]
                        ) -> tuple[tuple[Type, ...], Type]:
    """The dtypes of the arguments, and what the user's *rule* makes of them; weak arguments adapt to the others."""
    strong: list[Type] = [x for x in given if not isinstance(x, Weak)]
    common = reduce(join, strong) if strong else None
    dtypes = tuple(x if not isinstance(x, Weak) else resolve(
        common if common is not None and rank_of(x) <= rank_of(common) else x) for x in given)
    value = rule(*dtypes)
    found = dtype_of(value)
    if found is None:
        raise TypeInferenceError(f"The dtypes= of the function '{function.name}' gives {value!r} for "
                                 f"({', '.join(map(str, dtypes))}), which is not a dtype of numbers.",
                                 subject=function.name, hint=NUMBERS)
    return dtypes, found


class TypedOperation(Operation):
    """An operation with a dtype rule of its own."""

    @abstractmethod
    def type_over(self, operand: Type) -> np.dtype:
        """The dtype of the accumulator: one that combining keeps.

        :raises TypeInferenceError: the operation does not exist for such operands.
        """


def reduction_type(operation: Operation, operand: Type) -> np.dtype:
    """The dtype of an accumulator: its operand's, int32 for truth values that are counted.

    :raises TypeInferenceError: the minimum or maximum of complex numbers, or an operand that the operation lacks.
    """
    if isinstance(operation, TypedOperation):
        return operation.type_over(operand)
    assert isinstance(operation, NumberOperation)
    rank, combine = rank_of(operand), operation.combine
    if combine in ("&", "|", "^") and rank > _INT:
        raise TypeInferenceError(f"'{operation.name}' operates on bits, and its operand is {resolve(operand)}.",
                                 subject=operation.name, hint="convert it: int64(x)")
    if combine in ("and", "or"):
        return BOOL
    if combine in ("min", "max") and rank == _COMPLEX:
        raise TypeInferenceError(f"Complex numbers have no {combine}imum.", subject=f"{combine}imum",
                                 hint="reduce their abs")
    dtype = resolve(operand)
    return INT32 if dtype == BOOL and combine in ("+", "*") else dtype


def _no_complex(what: str, found: Type | None) -> Type | None:
    if found is not None and rank_of(found) == _COMPLEX:
        raise TypeInferenceError(f"Complex numbers have no {what}.", subject=what)
    return found
