"""The dtypes of the kernel language; kinds of numbers by dtype.

bfloat16, float8_e4m3fn and float8_e5m2, which numpy takes for raw bytes, are reals here.

The optional package ``ml_dtypes`` registers them. Their ``dtype.kind`` is ``"V"`` for most, and ``np.finfo`` and
``np.promote_types`` do not support them. The functions of this module support all dtypes.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from loopkit.errors import PreconditionError


@dataclass(frozen=True)
class RealFormat:
    """A format of real numbers that the package ``ml_dtypes`` has, and numpy has not.

    :ivar code: its short name, in the names of generated functions.
    :ivar fraction: the bits of a fraction.
    :ivar lowest: the exponent of the smallest number of full precision.
    """

    code: str
    fraction: int
    lowest: int
    largest: float


#: The dtypes of ml_dtypes that kernels have, by their names there.
ML_DTYPES: Mapping[str, RealFormat] = {
    "bfloat16": RealFormat("bf16", 7, -126, (2 - 2.0**-7)*2.0**127),
    "float8_e4m3fn": RealFormat("e4m3", 3, -6, 448.0),
    "float8_e5m2": RealFormat("e5m2", 2, -14, 57344.0)}

_DTYPES = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), *ML_DTYPES, "float16",
           "float32", "float64", "complex64", "complex128")

#: Every spelling of a dtype that the language reads, and numpy's name for it.
DTYPE_NAMES: dict[str, str] = {
    **{name: name for name in _DTYPES},
    "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64",
    "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64",
    "f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128",
    "int": "int64", "half": "float16", "single": "float32", "float": "float64", "double": "float64",
    "complex": "complex128", "bool_": "bool"}

#: Suffixes of number literals: ``1.5f``, ``1.5f64``, ``1.5f16``, ``1.5bf16``, ``1.5f8e4m3``, ``3i32``, ``3u8``.
LITERAL_SUFFIXES: dict[str, str] = {
    "f": "float32", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
    **{f"{kind}{bits}": f"{name}{bits}" for kind, name in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)}}

#: The dtypes of numbers that kernels have, and all dtypes.
NUMBERS = ("dtypes are bool, int8 to int64, uint8 to uint64, float8_e4m3fn, float8_e5m2, float16, bfloat16, float32, "
           "float64, complex64, complex128")
DTYPES = f"{NUMBERS}, and structs of two or more of them as C aligns them: np.dtype([...], align=True)"


def kind_of(dtype: np.dtype[Any]) -> str:
    """``dtype.kind``, and ``"f"`` for the reals of ml_dtypes."""
    return "f" if is_of_ml_dtypes(dtype) else dtype.kind


def is_of_ml_dtypes(dtype: np.dtype[Any]) -> bool:
    """Is *dtype* a real dtype that numpy has from the package ml_dtypes only?"""
    return dtype.itemsize <= 2 and dtype.kind in "Vf" and dtype.name in ML_DTYPES


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Is *dtype* real and narrower than float32, so that operations are computed in float32 and rounded?"""
    return dtype.itemsize <= 2 and kind_of(dtype) == "f"


def code_of(dtype: np.dtype[Any]) -> str:
    """The short name of a number's dtype: ``f32``, ``i64``, ``bf16``, ``e4m3``."""
    return ML_DTYPES[dtype.name].code if is_of_ml_dtypes(dtype) else f"{dtype.kind}{8*dtype.itemsize}"


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
    return repr(dtype.name) if is_of_ml_dtypes(dtype) else f"np.{dtype.name}"


@lru_cache(maxsize=64)
def named_dtype(name: str) -> np.dtype[Any]:
    """The dtype that numpy, or for ``"bfloat16"`` and floats of 8 bits ml_dtypes, calls *name*.

    :raises PreconditionError: it is of ml_dtypes, which is not installed.
    :raises TypeError: there is no such dtype.
    """
    if name not in ML_DTYPES:
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise PreconditionError(f"The dtype {name} needs the package ml_dtypes, which is not installed.",
                                subject=name, hint="pip install ml_dtypes") from None
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
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
    return 2.0**-ML_DTYPES[dtype.name].fraction if is_of_ml_dtypes(dtype) else float(np.finfo(dtype).eps)


def smallest_normal(dtype: np.dtype[Any]) -> float:
    """The smallest positive number of a real or complex *dtype* that has full precision."""
    return 2.0**ML_DTYPES[dtype.name].lowest if is_of_ml_dtypes(dtype) else float(np.finfo(dtype).smallest_normal)


def largest_real(dtype: np.dtype[Any]) -> float:
    """The largest finite number of a real *dtype*."""
    return ML_DTYPES[dtype.name].largest if is_of_ml_dtypes(dtype) else float(np.finfo(dtype).max)


def promote(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """numpy's ``promote_types``; where it has no result for a real of ml_dtypes, its result for float16.

    So bfloat16 and floats of 8 bits with int16 are float32 and with int32 float64, as float16 is. Two different reals
    that are narrower than float32 give float32. With int8, uint8 and truth values, reals of ml_dtypes keep their dtype,
    as ml_dtypes has it.

    >>> promote(np.dtype(np.float16), np.dtype(np.int32))
    dtype('float64')
    """
    if a == b:
        return a
    for real, other in ((a, b), (b, a)):
        if is_of_ml_dtypes(real):
            if is_narrow(other):
                return np.dtype(np.float32)
            return real if other.kind in "biu" and other.itemsize == 1 else np.promote_types(np.float16, other)
    return np.promote_types(a, b)
