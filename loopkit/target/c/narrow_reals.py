"""Reals narrower than float in C11: their types, and their conversions to and from float.

C compilers differ in _Float16 and __bf16, so the text needs neither: halves are stored in 16 bits, and computed in
float and rounded after each operation. For + - * / and sqrt this gives the half nearest to the exact result: 24 bits
are enough. Floats of 8 bits are the same in 8 bits.
"""
from __future__ import annotations

from loopkit.target.narrow_reals import EIGHT_BIT_TYPES, conversions

NARROW_TYPES = {
    "float16": "typedef unsigned short float16;   // 1 bit of sign, 5 of exponent, 10 of fraction",
    "bfloat16": "typedef unsigned short bfloat16;  // the upper half of a float", **EIGHT_BIT_TYPES}

_ROUND = """
static inline float round_SUFFIX(float x)
{
    return from_SUFFIX(to_SUFFIX(x));
}
"""

#: Conversions of halves to and from float.
_HALVES = {
    "from_f16": """
static inline float from_f16(float16 x)
{
    const unsigned int sign = (x & 0x8000u) << 16, rest = x & 0x7fffu;
    union { unsigned int bits; float value; } result;
    if (rest >= 0x7c00u)                          // infinite or not a number
        result.bits = 0x7f800000u | (rest & 0x3ffu) << 13;
    else if (rest >= 0x400u)
        result.bits = (rest << 13) + (112u << 23);
    else                                          // a multiple of 2^-24
        result.value = (float)rest*0x1p-24f;
    result.bits |= sign;
    return result.value;
}
""",
    "to_f16": """
// to the nearest float16, ties to even
static inline float16 to_f16(float x)
{
    union { float value; unsigned int bits; } rest = {x};
    const unsigned int sign = rest.bits >> 16 & 0x8000u;
    rest.bits &= 0x7fffffffu;
    if (rest.bits > 0x7f800000u)                  // not a number
        return (float16)(sign | 0x7e00u | (rest.bits >> 13 & 0x3ffu));
    if (rest.bits >= 0x477ff000u)                 // 65520 and more
        return (float16)(sign | 0x7c00u);
    if (rest.bits < 0x38800000u) {                // the sum rounds to a multiple of 2^-24
        rest.value += 0.5f;
        return (float16)(sign | (rest.bits - 0x3f000000u));
    }
    rest.bits += 0xfffu + (rest.bits >> 13 & 1u);
    return (float16)(sign | (rest.bits - (112u << 23)) >> 13);
}
""",
    "round_f16": _ROUND.replace("SUFFIX", "f16"),
    "from_bf16": """
static inline float from_bf16(bfloat16 x)
{
    const union { unsigned int bits; float value; } result = {(unsigned int)x << 16};
    return result.value;
}
""",
    "to_bf16": """
// to the nearest bfloat16, ties to even
static inline bfloat16 to_bf16(float x)
{
    const union { float value; unsigned int bits; } from = {x};
    if (x != x)
        return (bfloat16)(from.bits >> 16 | 0x40u);
    return (bfloat16)((from.bits + 0x7fffu + (from.bits >> 16 & 1u)) >> 16);
}
""",
    "round_bf16": _ROUND.replace("SUFFIX", "bf16"),
    "odd_f32": """
// a float that rounds to the same float16 as x: what does not fit into it leaves a 1 in its last bit
static inline float odd_f32(double x)
{
    union { float value; unsigned int bits; } result = {(float)x};
    if (x == x && (double)result.value != x) {
        if (fabs((double)result.value) > fabs(x))
            --result.bits;
        result.bits |= 1u;
    }
    return result.value;
}
"""}

_FLOAT_BITS = {
    "bits_of_f32": """
static inline unsigned int bits_of_f32(float x)
{
    const union { float value; unsigned int bits; } both = {x};
    return both.bits;
}
""",
    "f32_of_bits": """
static inline float f32_of_bits(unsigned int x)
{
    const union { unsigned int bits; float value; } both = {x};
    return both.value;
}
"""}

#: The functions by name, in the order in which they need each other.
CONVERSIONS = {**_HALVES, **_FLOAT_BITS, **conversions({
    "QUALIFIER": "static inline", "UINT": "unsigned int", "AS_UINT": "bits_of_f32", "AS_FLOAT": "f32_of_bits"})}
