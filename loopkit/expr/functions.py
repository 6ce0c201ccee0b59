"""The functions and dtype names of the kernel language, as frozen data."""
from __future__ import annotations

from typing import NamedTuple


class ScalarFunction(NamedTuple):
    """A function that expressions may call.

    :ivar arity: the number of its arguments.
    :ivar kind: its result: ``"float"`` (floating, integers count as float64), ``"predicate"`` (bool), ``"real"`` (the
        dtype of its argument, or of a complex argument's parts), ``"complex"`` (the dtype of its argument).
    """

    arity: int
    kind: str


_FUNCTIONS = (
    ("sqrt rsqrt cbrt exp exp2 exp10 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh "
     "atanh sinpi cospi erf erfc lgamma tgamma fabs", ScalarFunction(1, "float")),
    ("pow atan2 fmod hypot copysign fmin fmax fdim remainder nextafter", ScalarFunction(2, "float")),
    ("fma", ScalarFunction(3, "float")), ("isnan isinf isfinite signbit", ScalarFunction(1, "predicate")),
    ("floor ceil round rint trunc abs real imag", ScalarFunction(1, "real")), ("conj", ScalarFunction(1, "complex")))

#: Every function of the language by name. ``min``, ``max``, ``if`` and ``cast`` are syntax, not functions.
FUNCTIONS = {name: function for listed, function in _FUNCTIONS for name in listed.split()}

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
