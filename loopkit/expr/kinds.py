"""The dtypes of the kernel language; kinds of numbers by dtype.

bfloat16, which numpy takes for raw bytes, is one of the reals here.

The optional package ``ml_dtypes`` registers it. Its ``dtype.kind`` is ``"V"``, and ``np.finfo`` and
``np.promote_types`` do not support it. The functions of this module support all dtypes.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from loopkit.errors import PreconditionError

BFLOAT16 = "bfloat16"

_DTYPES = ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 "
           "complex128")

#: Every spelling of a dtype that the language reads, and numpy's name for it.
DTYPE_NAMES: dict[str, str] = {
    **{name: name for name in _DTYPES.split()},
    "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64",
    "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64",
    "f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128",
    "int": "int64", "half": "float16", "single": "float32", "float": "float64", "double": "float64",
    "complex": "complex128", "bool_": "bool"}

#: Suffixes of number literals: ``1.5f``, ``1.5f64``, ``1.5f16``, ``1.5bf16``, ``3i32``, ``3u8``.
LITERAL_SUFFIXES: dict[str, str] = {
    "f": "float32", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    **{f"{kind}{bits}": f"{name}{bits}" for kind, name in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)}}

#: The dtypes of numbers that kernels have, and all dtypes.
NUMBERS = ("dtypes are bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32, float64, complex64, "
           "complex128")
DTYPES = f"{NUMBERS}, and structs of two or more of them as C aligns them: np.dtype([...], align=True)"


def kind_of(dtype: np.dtype[Any]) -> str:
    """``dtype.kind``, and ``"f"`` for bfloat16."""
    return "f" if is_bfloat16(dtype) else dtype.kind


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Is *dtype* the 8 bits of exponent and 7 of fraction that are the upper half of a float32?"""
    return dtype.kind == "V" and dtype.name == BFLOAT16


def is_half(dtype: np.dtype[Any]) -> bool:
    """Is *dtype* float16 or bfloat16?"""
    return dtype.itemsize == 2 and kind_of(dtype) == "f"


def is_tuple(dtype: np.dtype[Any]) -> bool:
    """Is *dtype* that of tuples (:mod:`loopkit.expr.tuples`)?"""
    return dtype.names is not None


def struct_of(fields: Sequence[tuple[str, Any]]) -> np.dtype[Any]:
    """The dtype of a struct of C with these *fields*, names and dtypes; complex numbers are aligned to their size."""
    offsets, end, widest = list[int](), 0, 1
    for _, given in fields:
        dtype = np.dtype(given)
        align = dtype.itemsize if dtype.kind == "c" else dtype.alignment
        offsets.append(-(-end // align)*align)
        end, widest = offsets[-1] + dtype.itemsize, max(widest, align)
    names, formats = [name for name, _ in fields], [dtype for _, dtype in fields]
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": -(-end // widest)*widest})


def titles(dtype: np.dtype[Any]) -> dict[str, str]:
    """The second names of the fields of *dtype*: pyopencl's vectors have the fields ``s0``, ... also as ``x``, ..."""
    return {name: own[2] for name, own in (dtype.fields or {}).items() if len(own) == 3 and name in (dtype.names or ())}


def without_titles(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """*dtype* with one name for each field."""
    if not titles(dtype) or dtype.fields is None or dtype.names is None:
        return dtype
    fields = [dtype.fields[name] for name in dtype.names]
    return np.dtype({"names": [*dtype.names], "formats": [field[0] for field in fields],
                     "offsets": [field[1] for field in fields], "itemsize": dtype.itemsize})


def spelled(dtype: np.dtype[Any]) -> str:
    """*dtype* as Python text: ``np.int8``."""
    if dtype.names is not None:
        names, dtypes = dtype.names, [spelled(dtype[name]) for name in dtype.names]
        if dtype == np.dtype([(name, dtype[name]) for name in names], align=True):
            return f"np.dtype([{', '.join(map('({!r}, {})'.format, names, dtypes))}], align=True)"
        offsets = [dtype.fields[name][1] for name in names] if dtype.fields is not None else []
        return (f"np.dtype({{'names': {[*names]}, 'formats': [{', '.join(dtypes)}], 'offsets': {offsets}, "
                f"'itemsize': {dtype.itemsize}}})")
    return repr(BFLOAT16) if is_bfloat16(dtype) else f"np.{dtype.name}"


@lru_cache(maxsize=64)
def named_dtype(name: str) -> np.dtype[Any]:
    """The dtype that numpy, or for ``"bfloat16"`` ml_dtypes, calls *name*.

    :raises PreconditionError: it is bfloat16, and ml_dtypes is not installed.
    :raises TypeError: there is no such dtype.
    """
    if name != BFLOAT16:
        return np.dtype(name)
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        raise PreconditionError("The dtype bfloat16 needs the package ml_dtypes, which is not installed.",
                                subject=BFLOAT16, hint="pip install ml_dtypes") from None
    dtype: np.dtype[Any] = np.dtype(bfloat16)
    return dtype


def dtype_of(value: Any) -> np.dtype[Any] | None:
    """The dtype that *value* is or names; ``None``: it is none, or none that kernels have.

    >>> dtype_of("f4"), dtype_of(None), dtype_of(">f4")
    (dtype('float32'), None, None)
    """
    if value is None:                                      # numpy takes it for float64
        return None
    try:
        dtype: np.dtype[Any] = named_dtype(DTYPE_NAMES.get(value, value)) if isinstance(value, str) else np.dtype(value)
    except (TypeError, ValueError):
        return None
    if dtype.names is not None:
        fields = [(name, dtype_of(dtype[name])) for name in dtype.names]
        whole = all(own is not None and own.names is None for _, own in fields) and len(fields) > 1
        return dtype if whole and without_titles(dtype) == struct_of(fields) else None
    return dtype if dtype.name in DTYPE_NAMES and dtype.isnative else None


def epsilon(dtype: np.dtype[Any]) -> float:
    """The distance from 1 to the next larger number of a real or complex *dtype*."""
    return 2.0**-7 if is_bfloat16(dtype) else float(np.finfo(dtype).eps)


def smallest_normal(dtype: np.dtype[Any]) -> float:
    """The smallest positive number of a real or complex *dtype* that has full precision."""
    return 2.0**-126 if is_bfloat16(dtype) else float(np.finfo(dtype).smallest_normal)


def promote(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """numpy's ``promote_types``; where numpy has no result for bfloat16, its result for float16.

    So bfloat16 with int16 is float32 and with int32 float64, as for float16; the two halves together are float32.

    >>> promote(np.dtype(np.float16), np.dtype(np.int32))
    dtype('float64')
    """
    if a == b:
        return a
    for half, other in ((a, b), (b, a)):
        if is_bfloat16(half) and kind_of(other) in "iuf" and other.itemsize > 1:
            return np.promote_types(np.float32 if is_half(other) else np.float16, other)
    return np.promote_types(a, b)


def largest_real(dtype: np.dtype[Any]) -> float:
    """The largest finite number of a real *dtype*."""
    return (2.0 - 2.0**-7)*2.0**127 if is_bfloat16(dtype) else float(np.finfo(dtype).max)
