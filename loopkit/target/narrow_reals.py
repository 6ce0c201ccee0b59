"""Conversions of floats of 8 bits to and from float, and to tf32, for all languages.

Those of 8 bits are bit for bit those of ml_dtypes.

They round to the nearest number, ties to even. Numbers that are too large become NaN in float8_e4m3fn, which has no
infinities, and infinite in float8_e5m2. The instructions of GPUs would make the largest number of them.
"""
from __future__ import annotations

from collections.abc import Mapping

from loopkit.expr.kinds import ML_DTYPES
from loopkit.target.complex_functions import filled

_FROM = """
QUALIFIER float from_CODE(STORED x)
{
READ    const UINT sign = (UINT)(x & 0x80u) << 24, rest = x & 0x7fu;
    if (rest SPECIAL)
        return AS_FLOAT(sign | VALUE);
    if (rest < FIRSTu)                                // a multiple of 2^LEAST
        return AS_FLOAT(sign | AS_UINT((float)rest*UNITf));
    return AS_FLOAT(sign | ((rest << SHIFT) + (OFFSETu << 23)));
END}
"""

_TO = """
// to the nearest DTYPE, ties to even
QUALIFIER STORED to_CODE(float x)
{
    const UINT sign = AS_UINT(x) >> 24 & 0x80u, rest = AS_UINT(x) & 0x7fffffffu;
    if (rest > 0x7f800000u)                           // not a number
        return (STORED)(sign | NANu);
    if (rest OVERFLOWSu)                      // LIMIT
        return (STORED)(sign | LARGEu);
WRITE    if (rest < NORMALu)                           // the sum rounds to a multiple of 2^LEAST
        return (STORED)(sign | (AS_UINT(AS_FLOAT(rest) + SUMMANDf) - AS_BITSu));
    return (STORED)(sign | ((rest + HALFu + (rest >> SHIFT & 1u) - (OFFSETu << 23)) >> SHIFT));
END}
"""

_ROUND = """
QUALIFIER float round_CODE(float x)
{
    return from_CODE(to_CODE(x));
}
"""

_TF32 = """
// without the low 13 bits of the fraction, as matrix units read a float
QUALIFIER float tf32(float x)
{
    return AS_FLOAT(AS_UINT(x) & 0xffffe000u);
}
"""

#: The bits of NaN, the test for numbers that are not finite and its bits in float, the test for numbers that are too
#: large and their value.
_SPECIAL = {
    "float8_e4m3fn": {"NAN": "0x7f", "SPECIAL": "== 0x7fu", "VALUE": "0x7fc00000u",
                      "OVERFLOWS": "> 0x43e80000", "LIMIT": "more than 464", "LARGE": "0x7f"},
    "float8_e5m2": {"NAN": "0x7e", "SPECIAL": ">= 0x7cu", "VALUE": "(rest == 0x7cu ? 0x7f800000u : 0x7fc00000u)",
                    "OVERFLOWS": ">= 0x47700000", "LIMIT": "61440 and more", "LARGE": "0x7c"}}

#: Types of their elements, for languages without such numbers.
EIGHT_BIT_TYPES = {
    "float8_e4m3fn": "typedef unsigned char float8_e4m3fn;  // 1 bit of sign, 4 of exponent, 3 of fraction",
    "float8_e5m2": "typedef unsigned char float8_e5m2;  // the upper half of a float16"}


def conversions(words: Mapping[str, str], stored: str = "DTYPE", instructions: tuple[str, str, str] = ("", "", "")
                    ) -> dict[str, str]:
    """The functions of a language by name: ``from_e4m3``, ``to_e4m3``, ``round_e4m3``, those of e5m2, and ``tf32``.

    :arg words: the language's words for ``QUALIFIER``, ``UINT`` (of 32 bits), and ``AS_UINT`` and ``AS_FLOAT``, which
        keep all bits.
    :arg stored: the type of an element. ``CODE`` and ``DTYPE`` in it stand for the names of the format.
    :arg instructions: lines before the conversion by bits to float, before that of numbers that are not too large from
        float, and after each of them.
    """
    texts = {"tf32": filled(_TF32, {word: words[word] for word in sorted(words, key=len, reverse=True)})}
    for dtype, special in _SPECIAL.items():
        own = ML_DTYPES[dtype]
        least, shift, offset = own.lowest - own.fraction, 23 - own.fraction, 126 + own.lowest
        names = {"CODE": own.code, "DTYPE": dtype}
        format_words = {
            **special, "FIRST": str(1 << own.fraction), "LEAST": str(least), "UNIT": f"{2.0**least:.17g}",
            "SHIFT": str(shift), "OFFSET": str(offset), "NORMAL": hex(offset + 1 << 23),
            "SUMMAND": str(2.0**(23 + least)), "AS_BITS": hex(150 + least << 23), "HALF": hex((1 << shift - 1) - 1)}
        lines = (filled(x, names) for x in instructions)
        every = {"STORED": filled(stored, names), **dict(zip(("READ", "WRITE", "END"), lines, strict=True)), **words,
                 **names, **format_words}
        # a word may begin another one
        ordered = {word: every[word] for word in sorted(every, key=len, reverse=True)}
        for name, template in (("from", _FROM), ("to", _TO), ("round", _ROUND)):
            texts[f"{name}_{own.code}"] = filled(template, ordered)
    return texts
