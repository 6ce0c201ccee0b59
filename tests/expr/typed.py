"""Random typed expressions, what numpy makes of them, and how C computes them."""
from __future__ import annotations

import ctypes
import operator
import random
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.dtypes import Lookup, Type, resolve, type_of, weak
from loopkit.expr.kinds import is_of_ml_dtypes, kind_of, named_dtype
from loopkit.expr.nodes import TypeCast, product_of
from loopkit.target.c.conversions import Subscripts
from loopkit.target.c.dialect import Dialect
from loopkit.target.c.expressions import CText
from tests.compilers import c_compiler

N = 40
REALS = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
#: What ml_dtypes computes with.
BFLOATS = ("bfloat16", "bfloat16", "f4", "f8", "i1", "u1")
EIGHTS = ("float8_e4m3fn", "float8_e4m3fn", "f4", "f8", "i1", "u1")
VALUES = {"i": 5, "n": 7}


@cache
def arrays() -> dict[str, np.ndarray]:
    """An array of each dtype, and one (``d_...``) without zeros."""
    rng = np.random.default_rng(1)
    found = {}
    for name in dict.fromkeys((*REALS, *BFLOATS, *EIGHTS)):
        dtype = named_dtype(name)
        low = 0 if dtype.kind == "u" else -9
        values = rng.integers(low, 10, N) * (0.25 if kind_of(dtype) == "f" else 1)
        found[f"a_{name}"] = values.astype(dtype)
        found[f"d_{name}"] = np.where(values == 0, 3, values).astype(dtype)
    for name in ("c8", "c16"):
        found[f"a_{name}"] = (rng.normal(size=N) + 1j*rng.normal(size=N)).astype(name)
    found["t"] = rng.integers(0, 2, N).astype(bool)
    return found


def lookup(name: str) -> Type | None:
    return weak(np.dtype("int32")) if name in VALUES else arrays()[name].dtype


def plain_subscripts(name: str, indices: tuple[Expression, ...]) -> str:
    """The text of a scalar; :raises TypeError: *name* is subscripted."""
    if indices:
        raise TypeError(f"no text is known for the elements of '{name}'")
    return name


def constants_only(expr: Expression) -> bool:
    """Is *expr* a literal that is not negative?"""
    return isinstance(expr, int | np.integer) and bool(expr >= 0)


def to_c(expr: Expression, dialect: Dialect, names: Lookup, *, want: np.dtype | None = None,
         subscripts: Subscripts = plain_subscripts, nonnegative: Callable[[Expression], bool] = constants_only,
         axes: Mapping[str, str] | None = None) -> str:
    """*expr* as the text of *dialect*; :class:`CText` describes the arguments."""
    return CText(dialect, names, subscripts, nonnegative, axes or {}).text(expr, want)


class Maker:
    """Makes expressions that C and numpy compute alike to the last bit."""

    def __init__(self, seed: int, dtypes: Sequence[str] = REALS) -> None:
        self.random = random.Random(seed)
        self.dtypes = dtypes

    def array(self, stem: str = "a") -> Expression:
        return p.Subscript(p.Variable(f"{stem}_{self.random.choice(self.dtypes)}"), p.Variable("k"))

    def atom(self) -> Expression:
        choice = self.random.random()
        if choice < 0.6:
            return self.array()
        if choice < 0.8:
            return self.random.choice([0, 1, 2, 3, 5, 0.5, 2.0, 1.5])
        return p.Variable(self.random.choice("in"))

    def make(self, depth: int) -> Expression:
        if depth == 0 or self.random.random() < 0.1:
            return self.atom()
        a, b = self.make(depth - 1), self.make(depth - 1)
        match self.random.randrange(12):
            case 0 | 1:
                return p.Sum((a, b, self.atom()))
            case 2:
                return p.Sum((a, product_of(-1, b)))
            case 3 | 4:
                return product_of(a, self.atom())
            case 5:
                return p.Quotient(a, self.random.choice([2, 4.0, self.array("d")]))
            case 6:
                return p.FloorDiv(a, self.random.choice([2, 3, self.array("d")]))
            case 7:
                return p.Remainder(a, self.random.choice([2, 3, self.array("d")]))
            case 8:
                return self.random.choice([p.Min, p.Max])((a, b))
            case 9:
                return p.If(self.condition(depth - 1), a, b)
            case 10:
                return TypeCast(self.random.choice(["float32", "float64", "float16", "int64"]), self.atom())
            case _:
                return p.Power(self.array(), 2)

    def condition(self, depth: int) -> Expression:
        comparison = p.Comparison(self.make(depth), self.random.choice(["<", "<=", "==", "!=", ">"]), self.make(depth))
        choice = self.random.random()
        if choice < 0.2:
            return p.LogicalNot(comparison)
        if choice < 0.5:
            return self.random.choice([p.LogicalAnd, p.LogicalOr])((comparison, p.Subscript(p.Variable("t"),
                                                                                            p.Variable("k"))))
        return comparison


def numpy_value(expr: Expression) -> Any:
    """What numpy makes of *expr*: arrays for arrays, Python's numbers for what is weak."""
    match expr:
        case p.Variable(name=name):
            return VALUES[name]
        case p.Subscript(aggregate=p.Variable(name=name)):
            return arrays()[name]
        case p.Sum(children=children):
            result = numpy_value(children[0])
            for c in children[1:]:
                match c:
                    case p.Product(children=(-1, x)):
                        result = operator.sub(*_pair(result, numpy_value(x)))       # ``a - x`` is written so
                    case _:
                        result = operator.add(*_pair(result, numpy_value(c)))
            return result
        case p.Product(children=(-1, x)):
            return -numpy_value(x)
        case p.Product(children=children):
            result = numpy_value(children[0])
            for c in children[1:]:
                result = operator.mul(*_pair(result, numpy_value(c)))
            return result
        case p.Quotient():
            a, b = _pair(numpy_value(expr.numerator), numpy_value(expr.denominator))
            if isinstance(a, np.ndarray) and a.dtype.kind in "iu" and kind_of(np.result_type(a, b)) in "iu":
                a = a.astype(np.float64)             # small integers too: our one departure
            elif isinstance(b, np.ndarray) and b.dtype.kind in "iu" and kind_of(np.result_type(a, b)) in "iu":
                b = b.astype(np.float64)
            return a / b
        case p.FloorDiv():
            return operator.floordiv(*_pair(numpy_value(expr.numerator), numpy_value(expr.denominator)))
        case p.Remainder():
            return operator.mod(*_pair(numpy_value(expr.numerator), numpy_value(expr.denominator)))
        case p.Power():
            return numpy_value(expr.base) ** numpy_value(expr.exponent)
        case p.Min(children=(a, b)):
            return _of_two(np.fmin, min, numpy_value(a), numpy_value(b))
        case p.Max(children=(a, b)):
            return _of_two(np.fmax, max, numpy_value(a), numpy_value(b))
        case p.If():
            return _where(*map(numpy_value, (expr.condition, expr.then, expr.else_)))
        case p.Comparison():
            return _COMPARE[str(expr.operator)](*_pair(numpy_value(expr.left), numpy_value(expr.right)))
        case p.BitwiseNot():
            return ~numpy_value(expr.child)
        case p.BitwiseAnd(children=(a, b)) | p.BitwiseOr(children=(a, b)) | p.BitwiseXor(children=(a, b)) \
                | p.LeftShift(shiftee=a, shift=b) | p.RightShift(shiftee=a, shift=b):
            return _BITS[type(expr)](numpy_value(a), numpy_value(b))
        case p.LogicalNot():
            return np.logical_not(numpy_value(expr.child))
        case p.LogicalAnd(children=(a, b)):
            return np.logical_and(numpy_value(a), numpy_value(b))
        case p.LogicalOr(children=(a, b)):
            return np.logical_or(numpy_value(a), numpy_value(b))
        case TypeCast():
            return np.broadcast_to(numpy_value(expr.child), N).astype(expr.dtype)
        case _:
            return expr


_BITS: dict[type, Any] = {
    p.BitwiseAnd: operator.and_, p.BitwiseOr: operator.or_, p.BitwiseXor: operator.xor,
    p.LeftShift: operator.lshift, p.RightShift: operator.rshift}

_COMPARE = {"<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal, ">": np.greater}


def _pair(a: Any, b: Any) -> tuple[Any, Any]:
    """*a* and *b*, a Python number as a bfloat16 beside an array of them: for ml_dtypes it would be a float32."""
    for x, y in ((a, b), (b, a)):
        if isinstance(x, np.ndarray) and is_of_ml_dtypes(x.dtype) and isinstance(y, float):
            y = x.dtype.type(y)
            return (x, y) if x is a else (y, x)
    return a, b


def _of_two(ufunc: Any, scalar: Any, a: Any, b: Any) -> Any:
    a, b = _pair(a, b)
    if not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray):
        return type(a + b)(scalar(a, b))
    return ufunc(a, b)


def _where(condition: Any, a: Any, b: Any) -> Any:
    a, b = _pair(a, b)
    if any(isinstance(x, np.ndarray) for x in (a, b)):
        return np.where(condition, a, b)
    # two weak branches: numpy would make an array of them, our rules keep them weak
    kind = type(a + b)
    if not isinstance(condition, np.ndarray):
        return kind(a if condition else b)
    raise WeakArrayError


class WeakArrayError(Exception):
    """A value that is weak and differs between elements: numpy has no such thing."""


def parameters(dialect: Dialect) -> str:
    return ", ".join([*(f"const {dialect.type_name(a.dtype)} *{name}" for name, a in arrays().items()),
                      *(f"int {name}" for name in VALUES)])


def dtype_of(expr: Expression, lookup: Lookup) -> np.dtype | None:
    """The dtype of an expression by itself; ``None`` where it is not known yet."""
    found = type_of(expr, lookup)
    return None if found is None else resolve(found)


def source(exprs: Sequence[Expression], dialect: Dialect, head: str) -> tuple[str, list[np.dtype]]:
    """A function for each of *exprs*, over all elements."""
    listed = parameters(dialect)
    functions, dtypes = [], []
    for number, expr in enumerate(exprs):
        printer = CText(dialect, lookup, lambda name, index: f"{name}[k]" if index else name, constants_only)
        dtype = dtype_of(expr, lookup)
        assert dtype is not None
        dtypes.append(dtype)
        functions.append(f"{head} f{number}({listed}, {dialect.type_name(dtype)} *out)\n{{\n"
                         f"    for (int k = 0; k < {N}; ++k)\n        out[k] = {printer.text(expr, dtype)};\n}}\n")
    return dialect.preamble("\n".join(functions)) + "\n" + "\n".join(functions), dtypes


def run_c(exprs: Sequence[Expression], dialect: Dialect, place: Path) -> list[np.ndarray]:
    """The values of *exprs* by compiled C."""
    text, dtypes = source(exprs, dialect, "void")
    (place / "f.c").write_text(text)
    # wrapping integers are numpy's; without -fwrapv they would be undefined
    done = subprocess.run([c_compiler(), "-std=c11", "-O1", "-fwrapv", "-ffp-contract=off", "-Wall",
                           "-Wno-unused-function", "-Wno-bool-compare", "-Wno-bool-operation", "-Wno-div-by-zero",
                           "-Wno-tautological-compare", "-Werror", "-fPIC", "-shared",
                           "-o", str(place / "f.so"), str(place / "f.c"), "-lm"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    library = ctypes.CDLL(str(place / "f.so"))
    results = []
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in arrays().values()]
    for number, dtype in enumerate(dtypes):
        out = np.zeros(N, dtype)
        getattr(library, f"f{number}")(*pointers, *VALUES.values(), out.ctypes.data_as(ctypes.c_void_p))
        results.append(out)
    return results


