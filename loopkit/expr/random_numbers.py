"""Random numbers by Philox4x32-10, whose values are a function of a key and a counter.

J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

_MULTIPLIERS, _KEY_STEPS, _ROUNDS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85), 10
_LOW = 2**32 - 1


@lru_cache(maxsize=1024)
def philox_words(key: int, low: int, high: int) -> tuple[int, int, int, int]:
    """The four 32-bit words for a *key* of 64 bits and a counter of 128 bits, ``high*2**64 + low``.

    >>> [f"{word:08x}" for word in philox_words(0, 0, 0)]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    a, b, c, d = low & _LOW, low >> 32, high & _LOW, high >> 32
    keys = [key & _LOW, key >> 32]
    for _ in range(_ROUNDS):
        first, second = _MULTIPLIERS[0]*a, _MULTIPLIERS[1]*c
        a, b, c, d = second >> 32 ^ b ^ keys[0], second & _LOW, first >> 32 ^ d ^ keys[1], first & _LOW
        keys = [(k + step) & _LOW for k, step in zip(keys, _KEY_STEPS, strict=True)]
    return a, b, c, d


def _word(key: Any, low: Any, high: Any, word: Any) -> int:
    return philox_words(int(key), int(low), int(high))[int(word) & 3]


def _double_word(key: Any, low: Any, high: Any, word: Any) -> int:
    """53 bits of two words."""
    first, second = 2*int(word) & 3, 2*int(word) + 1 & 3
    return (_word(key, low, high, first) << 32 | _word(key, low, high, second)) >> 11


def _normal_f32(key: Any, low: Any, high: Any, word: Any) -> Any:
    pair, one, two = int(word) & 2, np.float32(1), np.float32(2)
    radius = (np.float32(_word(key, low, high, pair)) + one)*np.float32(2**-32)
    angle = np.float32(2*np.pi)*(np.float32(_word(key, low, high, pair + 1) >> 8)*np.float32(2**-24))
    return np.sqrt(-two*np.log(radius))*(np.sin(angle) if int(word) & 1 else np.cos(angle))


def _normal_f64(key: Any, low: Any, high: Any, word: Any) -> Any:
    radius = np.float64((_double_word(key, low, high, 0) + 1)*2.0**-53)
    angle = np.float64(2*np.pi*(_double_word(key, low, high, 1)*2.0**-53))
    return np.sqrt(-2*np.log(radius))*(np.sin(angle) if int(word) & 1 else np.cos(angle))


#: The functions of (key, low, high, word): the dtype of each value, and a function of numpy scalars.
RANDOM: Mapping[str, tuple[str, Callable[..., Any]]] = {
    "philox": ("uint32", lambda *given: np.uint32(_word(*given))),
    "philox_f32": ("float32", lambda *given: np.float32((_word(*given) >> 8)*2.0**-24)),
    "philox_f64": ("float64", lambda *given: np.float64(_double_word(*given)*2.0**-53)),
    "philox_normal_f32": ("float32", _normal_f32),
    "philox_normal_f64": ("float64", _normal_f64)}

_TEXTS: Mapping[str, str] = {
    "philox": """
// Philox4x32-10 of a key and a counter of two halves: one of its four words
QUALIFIER UINT32 philox(
    UINT64 key, UINT64 low, UINT64 high, int word)
{
    UINT32 a = (UINT32)low, b = (UINT32)(low >> 32);
    UINT32 c = (UINT32)high, d = (UINT32)(high >> 32);
    UINT32 k = (UINT32)key, m = (UINT32)(key >> 32);
    for (int round = 0; round < 10; ++round) {
        const UINT64 first = (UINT64)0xD2511F53u*a;
        const UINT64 second = (UINT64)0xCD9E8D57u*c;
        a = (UINT32)(second >> 32) ^ b ^ k;
        b = (UINT32)second;
        c = (UINT32)(first >> 32) ^ d ^ m;
        d = (UINT32)first;
        k += 0x9E3779B9u;
        m += 0xBB67AE85u;
    }
    return word & 2 ? word & 1 ? d : c : word & 1 ? b : a;
}
""",
    "philox_f32": """
// in [0, 1), a multiple of 2^-24
QUALIFIER float philox_f32(
    UINT64 key, UINT64 low, UINT64 high, int word)
{
    return (float)(philox(key, low, high, word) >> 8)*5.9604644775390625e-08f;
}
""",
    "philox_f64": """
// in [0, 1), a multiple of 2^-53
QUALIFIER double philox_f64(
    UINT64 key, UINT64 low, UINT64 high, int word)
{
    const UINT32 first = philox(key, low, high, 2*(word & 1));
    const UINT32 second = philox(key, low, high, 2*(word & 1) + 1);
    return (double)(((UINT64)first << 32 | second) >> 11)*1.1102230246251565e-16;
}
""",
    "philox_normal_f32": """
// one of the two normal numbers that Box and Muller make of two words
QUALIFIER float philox_normal_f32(
    UINT64 key, UINT64 low, UINT64 high, int word)
{
    const float radius = ((float)philox(key, low, high, word & 2) + 1.0f)*2.3283064365386963e-10f;
    const float angle = 6.2831855f*philox_f32(key, low, high, (word & 2) + 1);
    return sqrtMARK(-2.0f*logMARK(radius))*(word & 1 ? sinMARK(angle) : cosMARK(angle));
}
""",
    "philox_normal_f64": """
// one of the two normal numbers that Box and Muller make of two numbers of 53 bits
QUALIFIER double philox_normal_f64(
    UINT64 key, UINT64 low, UINT64 high, int word)
{
    const double radius = philox_f64(key, low, high, 0) + 1.1102230246251565e-16;
    const double angle = 6.283185307179586*philox_f64(key, low, high, 1);
    return sqrt(-2.0*log(radius))*(word & 1 ? sin(angle) : cos(angle));
}
"""}

#: The call of each function is its name, for the tables of languages.
RANDOM_CALLS: Mapping[str, str] = {name: name for name in RANDOM}


def random_texts(qualifier: str, types: Mapping[str, str], mark: str = "f") -> dict[str, str]:
    """The functions in a C-like language, by name, in the order in which they need each other.

    :arg types: the names of types, by numpy's name of the dtype.
    :arg mark: the end of the names of float32 functions, such as ``sqrtf``.
    """
    # a function is needed where a later one is
    keys = {"philox": r"philox\w*", "philox_f32": "philox_f32|philox_normal_f32",
            "philox_f64": "philox_f64|philox_normal_f64"}
    return {keys.get(name, name): text.replace("QUALIFIER", qualifier).replace("UINT32", types["uint32"]).replace(
        "UINT64", types["uint64"]).replace("MARK", mark) for name, text in _TEXTS.items()}
