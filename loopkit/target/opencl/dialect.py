"""OpenCL C 1.2 as a table: its functions are selected by the dtype of their arguments, and work on every device.

Halves need no extension: they are stored in 16 bits, and computed in float and rounded after each operation, as on the
host. Complex numbers are vectors of two numbers, which OpenCL C adds and scales, but does not multiply.
"""
from __future__ import annotations

import re
from collections.abc import Mapping

from loopkit.expr.functions import CallText
from loopkit.expr.random_numbers import RANDOM_CALLS, random_texts
from loopkit.instructions.base import OPENCL_MEMORIES
from loopkit.instructions.table import OPENCL_HELPERS, OPENCL_TEXTS
from loopkit.target.c.dialect import Dialect, Functions, Syntax
from loopkit.target.complex_functions import COMPLEX_FUNCTIONS, DIVISION
from loopkit.target.narrow_reals import conversions

_INLINE = "static inline"

#: Conversions of halves to and from float. The bytes in between may be accessed as halves and as integers.
_HALVES = {
    "from_f16": """
INLINE float from_f16(ushort x)
{
    const uchar2 bytes = as_uchar2(x);
    return vload_half(0, (const __private half *)&bytes);
}
""",
    "to_f16": """
INLINE ushort to_f16(float x)
{
    uchar2 bytes;
    vstore_half_rte(x, 0, (__private half *)&bytes);
    return as_ushort(bytes);
}
""",
    "round_f16": """
INLINE float round_f16(float x)
{
    return from_f16(to_f16(x));
}
""",
    "from_bf16": """
INLINE float from_bf16(ushort x)
{
    return as_float((uint)x << 16);
}
""",
    "to_bf16": """
// to the nearest bfloat16, ties to even
INLINE ushort to_bf16(float x)
{
    const uint bits = as_uint(x);
    if (isnan(x))
        return (ushort)(bits >> 16 | 0x40u);
    return (ushort)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
""",
    "round_bf16": """
INLINE float round_bf16(float x)
{
    return from_bf16(to_bf16(x));
}
""",
    "odd_f32": """
// a float that rounds to the same float16 as x: what does not fit into it leaves a 1 in its last bit
INLINE float odd_f32(double x)
{
    const float value = (float)x;
    if (isnan(x) || (double)value == x)
        return value;
    return as_float((as_uint(value) - (uint)(fabs((double)value) > fabs(x))) | 1u);
}
"""}

#: The operators on complex numbers that OpenCL C lacks, by their functions: parameters, result and its value.
_OPERATORS = {
    "plus_real": ("NAME a, TYPE b", "NAME", "NAME(a.re + b, a.im)"),
    "real_plus": ("TYPE a, NAME b", "NAME", "NAME(a + b.re, b.im)"),
    "minus_real": ("NAME a, TYPE b", "NAME", "NAME(a.re - b, a.im)"),
    "real_minus": ("TYPE a, NAME b", "NAME", "NAME(a - b.re, -b.im)"),
    "times": ("NAME a, NAME b", "NAME", "NAME(a.re*b.re - a.im*b.im, a.re*b.im + a.im*b.re)"),
    "equal": ("NAME a, NAME b", "int", "a.re == b.re && a.im == b.im"),
    "equal_real": ("NAME a, TYPE b", "int", "a.re == b && a.im == 0"),
    "real_equal": ("TYPE a, NAME b", "int", "a == b.re && b.im == 0"),
    "unequal": ("NAME a, NAME b", "int", "a.re != b.re || a.im != b.im"),
    "unequal_real": ("NAME a, TYPE b", "int", "a.re != b || a.im != 0"),
    "real_unequal": ("TYPE a, NAME b", "int", "a != b.re || b.im != 0")}

#: Other functions take the place of those that multiply complex numbers, or divide by one.
_FUNCTIONS = {
    "over": DIVISION.replace("DIVIDE", "over_SUFFIX"),
    "real_over": """
QUALIFIER NAME real_over_SUFFIX(TYPE a, NAME b)
{
    return over_SUFFIX(NAME(a, 0), b);
}
""",
    **COMPLEX_FUNCTIONS,
    "ctanh": """
QUALIFIER NAME ctanh(NAME z)
{
    const TYPE t = tanh(z.re), u = tan(z.im);
    return over_SUFFIX(NAME(t, u), NAME(1, t*u));
}
""",
    "cpow": COMPLEX_FUNCTIONS["cpow"].replace("b*clog(a)", "times_SUFFIX(b, clog(a))")}


def _complex_texts(name: str, part: str, suffix: str, mark: str, digits: int) -> dict[str, str]:
    """The functions of the complex numbers *name*, two numbers of the type *part*.

    :arg mark: the end of a literal of this type, and of the names of the functions.
    :arg digits: the exponents of the numbers that need no scaling are below it.
    """
    words = {r"\bNAME\(": f"({part}2)(", r"\bNAME\b": f"{part}2", r"\bTYPE\b": part, "MARK": "", "SUFFIX": suffix,
             r"\bLARGE\b": f"1e{digits}{mark}", r"\bSMALL\b": f"1e-{digits}{mark}", "QUALIFIER": _INLINE,
             r"\.re\b": ".x", r"\.im\b": ".y",
             **{rf"\b{function}\(": f"{function}{mark}(" for function in COMPLEX_FUNCTIONS}}
    templates = {f"make_{name}": f"QUALIFIER NAME make_{name}(TYPE re, TYPE im) {{ return NAME(re, im); }}"}
    templates |= {f"{function}_{suffix}": f"QUALIFIER {result} {function}_SUFFIX({given}) {{ return {value}; }}"
                  for function, (given, result, value) in _OPERATORS.items()}
    templates |= {f"{key}{mark}" if key in COMPLEX_FUNCTIONS else f"{key}_{suffix}": text
                  for key, text in _FUNCTIONS.items()}
    for old, new in words.items():
        templates = {key: re.sub(old, new, text) for key, text in templates.items()}
    return templates


#: The texts in the order in which they need each other.
_COMPLEX = {**_complex_texts("complex64", "float", "c64", "f", 37),
            **_complex_texts("complex128", "double", "c128", "", 307)}

_AXES = {"gid": "get_group_id", "lid": "get_local_id"}

#: The functions of bits have the type of their argument. There are no Bessel functions.
_TEXTS: Mapping[str, CallText] = {"ldexp": "ldexp", "tf32": "tf32", "exp2_ftz": "exp2_ftz", **{name: {
    "int32": name, "uint32": f"convert_int({name}({{0}}))", "int64": f"convert_int({name}({{0}}))",
    "uint64": f"convert_int({name}({{0}}))"} for name in ("popcount", "clz")}}

_EXP2_FTZ = f"""
// 2**x, and 0 where that is subnormal
{_INLINE} float exp2_ftz(float x)
{{
    const float y = exp2(x);
    return y < 0x1p-126f ? 0 : y;
}}
"""

_TYPES = {
    "bool": "uchar", "int8": "char", "int16": "short", "int32": "int", "int64": "long", "uint8": "uchar",
    "uint16": "ushort", "uint32": "uint", "uint64": "ulong", "float8_e4m3fn": "uchar", "float8_e5m2": "uchar",
    "float16": "ushort", "bfloat16": "ushort", "float32": "float", "float64": "double",
    "complex64": "float2", "complex128": "double2"}

OPENCL = Dialect(
    _TYPES,
    Functions(_INLINE, int_predicates=False, mark="", names={
        f"{which}_{kind}{bits}": which for which in ("min", "max") for kind in "iu" for bits in (32, 64)},
        operators={"c+r": "plus_real", "r+c": "real_plus", "c-r": "minus_real", "r-c": "real_minus", "c*c": "times",
                   "c/c": "over", "r/c": "real_over", "c==c": "equal", "c==r": "equal_real", "r==c": "real_equal",
                   "c!=c": "unequal", "c!=r": "unequal_real", "r!=c": "real_unequal"},
              texts={**_TEXTS, **RANDOM_CALLS}),
    Syntax("opencl", restrict="restrict", constant_by_restrict=True, unroll=("#pragma unroll",),
           memories=OPENCL_MEMORIES, has_bool=False, constant="__constant"),
    {r"double\d*": "#pragma OPENCL EXTENSION cl_khr_fp64 : enable",
     r"atom_\w+": "#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n"
                  "#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable",
     **{name: f"#define {name}(AXIS) ((uint){function}(AXIS))" for name, function in _AXES.items()},
     **{name: text.replace("INLINE", _INLINE) for name, text in _HALVES.items()},
     **conversions({"QUALIFIER": _INLINE, "UINT": "uint", "AS_UINT": "as_uint", "AS_FLOAT": "as_float"}, "uchar"),
     **_COMPLEX, "exp2_ftz": _EXP2_FTZ, **OPENCL_HELPERS, **random_texts(_INLINE, _TYPES, mark="")},
    instructions=OPENCL_TEXTS)

_SCALARS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float", "double", "half")
_VECTORS = [f"{name}{length}" for name in _SCALARS for length in ("", 2, 3, 4, 8, 16)]

_WORDS = """
kernel global local constant private generic read_only write_only read_write uniform pipe quad sampler_t event_t
image1d_t image2d_t image3d_t get_group_id get_local_id barrier atomic_add atomic_min atomic_max atomic_cmpxchg
atom_add atom_min atom_max atom_cmpxchg vload_half vstore_half_rte as_float as_double as_int as_uint as_long
as_ulong as_ushort as_uchar2 CLK_LOCAL_MEM_FENCE CLK_GLOBAL_MEM_FENCE MAXFLOAT HUGE_VALF M_PI M_E"""

_FUNCTION_NAMES = """
abs_diff acospi add_sat all any asinpi async_work_group_copy atan2pi atanpi atomic_and atomic_dec atomic_inc
atomic_or atomic_sub atomic_xchg atomic_xor bitselect clamp clz cross degrees distance dot fast_distance fast_length
fast_normalize fract get_global_id get_global_offset get_global_size get_local_size get_num_groups get_work_dim hadd
isequal isordered length mad mad24 mad_hi mad_sat maxmag mem_fence minmag mix mul24 mul_hi normalize popcount pown
powr prefetch printf radians read_mem_fence rhadd rootn rotate select shuffle shuffle2 sign smoothstep step sub_sat
tanpi upsample vec_step wait_group_events write_mem_fence"""

#: Names with a meaning in OpenCL C, or in these texts, that no other name can hide.
RESERVED = frozenset([
    *(x for x in _VECTORS if not re.fullmatch(r"float16|char|short|int|long|float|double", x)),
    *_COMPLEX, *OPENCL_HELPERS, *(f"convert_{x}" for x in _VECTORS), *_WORDS.split()])

#: OpenCL C's functions and the macros of these texts, of whose names a kernel can have none, and an array any: a macro
#: with arguments is one only before a parenthesis.
FUNCTIONS = frozenset([*_AXES, *_FUNCTION_NAMES.split()])
