"""Conversion of scalars to the kernel's dtypes: a value that does not fit is rejected, never wrapped."""
from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from loopkit.errors import CallError
from loopkit.expr.kinds import is_of_ml_dtypes, kind_of, largest_real

Scalar = bool | int | float | complex


@lru_cache(maxsize=512)
def converter(name: str, dtype: np.dtype[Any] | None) -> Callable[[object], Scalar]:
    """A function from the caller's value of *name* to a number that *dtype* can hold; ``None``: a size of any width."""
    if dtype is None:
        dtype = np.dtype(np.int64)
    kind = kind_of(dtype)
    if kind == "b":
        return partial(_boolean, name)
    if kind in "iu":
        return partial(_integer, name, dtype, *integer_range(dtype))
    if kind not in "fc":
        raise CallError(f"'{name}' has the dtype {dtype}, which cannot be passed by value.", argument=name)
    if kind == "c":
        return partial(_inexact, name, dtype)
    largest = largest_real(dtype)

    def convert(value: object) -> Scalar:
        # the fast path of nearly every call
        if type(value) is float and -largest <= value <= largest:
            return value
        return _inexact(name, dtype, value)
    return convert


def integer_range(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The smallest and the largest value of an integer *dtype*."""
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def dtype_of(name: str, value: object) -> np.dtype[Any]:
    """The dtype of a scalar: numpy's own, and for Python's numbers the widest of their kind.

    An integer that only uint64 can hold has this dtype.
    """
    if isinstance(value, np.generic | np.ndarray):
        return value.dtype
    for kind, dtype in ((bool, np.bool_), (int, np.int64), (float, np.float64), (complex, np.complex128)):
        if isinstance(value, kind):
            is_longer = isinstance(value, int) and 2**63 <= value < 2**64
            return np.dtype(np.uint64 if is_longer else dtype)
    raise _not_a_scalar(name, "a number", value)


def out_of_range(name: str, value: int, dtype: np.dtype[Any]) -> CallError:
    """The error for an integer that *dtype* cannot hold."""
    low, high = integer_range(dtype)
    return CallError(f"'{name}' is {value}, which {dtype} cannot hold (it goes from {low} to {high}).", argument=name,
                     hint=f"declare a wider dtype with add_dtypes(knl, {{'{name}': ...}})")


def _integer(name: str, dtype: np.dtype[Any], low: int, high: int, value: object) -> int:
    if type(value) is int:
        number = value
    elif isinstance(value, np.bool_):
        number = int(value)
    else:
        try:
            number = operator.index(value)          # type: ignore[arg-type]
        except TypeError:
            raise _not_a_scalar(name, "an integer", value) from None
    if not low <= number <= high:
        raise out_of_range(name, number, dtype)
    return number


def _boolean(name: str, value: object) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise _not_a_scalar(name, "a truth value", value)


def _inexact(name: str, dtype: np.dtype[Any], value: object) -> complex:
    if isinstance(value, np.ndarray):
        value = value[()]                           # a 0-dimensional array gives its scalar
    wanted = "a number" if dtype.kind == "c" else "a real number"
    if isinstance(value, np.generic) and is_of_ml_dtypes(value.dtype):
        value = float(value)                        # it is not a numpy number
    if not isinstance(value, bool | int | float | complex | np.bool_ | np.number) or (
            dtype.kind != "c" and isinstance(value, complex | np.complexfloating)):
        raise _not_a_scalar(name, wanted, value)
    number: complex
    try:
        number = complex(value) if dtype.kind == "c" else float(value)       # type: ignore[arg-type]
    except OverflowError:
        number = math.inf
    if dtype.itemsize < (16 if dtype.kind == "c" else 8) or number == math.inf:
        with np.errstate(over="ignore"):
            overflows = not np.isfinite(complex(dtype.type(number)))
        # an infinity or NaN that the caller passed is legal
        if overflows and not (isinstance(value, float | complex | np.inexact) and not np.isfinite(value)):
            raise CallError(f"'{name}' is {value}, which overflows {dtype}.", argument=name)
    return number


def _not_a_scalar(name: str, wanted: str, value: object) -> CallError:
    shown = repr(value)
    if len(shown) > 60:
        shown = type(value).__name__
    return CallError(f"'{name}' must be {wanted}, not {shown} ({type(value).__name__}).", argument=name,
                     hint=f"pass {name}={name}.item()" if hasattr(value, "item") else
                     f"convert it first, e.g. {name}=int(...)" if wanted == "an integer" else None)
