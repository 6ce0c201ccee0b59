"""loopy's random numbers in the style of Random123: ``vals, ctr = philox4x32_f32(ctr, key)``; tuples are vectors."""
from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

import loopkit as lk
from loopkit.compat.loopy.spelling import Options, merged, parted, values_in, with_options
from loopkit.errors import PreconditionError
from loopkit.kernel.c_instruction import top_level

#: The number of words of a key, for each generator of four words of 32 bits.
_KEYS: Mapping[str, int] = {"philox4x32": 2, "threefry4x32": 4}

_KNUTH = 0x1BD11BDA
_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))


def threefry_words(key: tuple[int, ...], counter: tuple[int, ...]) -> tuple[int, ...]:
    """Threefry4x32-20: four words for the four words of a *key* and of a *counter*.

    J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011.

    >>> [f"{word:08x}" for word in threefry_words((0, 0, 0, 0), (0, 0, 0, 0))]
    ['9c6ca96a', 'e17eae66', 'fc10ecd4', '5256a7d8']
    """
    keys = [*key, _KNUTH ^ key[0] ^ key[1] ^ key[2] ^ key[3]]
    x = [(c + k) % 2**32 for c, k in zip(counter, keys, strict=False)]
    for round_ in range(20):
        for place, turn in zip((0, 2), _ROTATIONS[round_ % 8], strict=True):
            other = (place + (3 if round_ % 2 else 1)) % 4
            x[place] = (x[place] + x[other]) % 2**32
            x[other] = (x[other] << turn | x[other] >> 32 - turn) % 2**32 ^ x[place]
        if round_ % 4 == 3:
            step = round_ // 4 + 1
            x = [(word + keys[(step + k) % 5] + (step if k == 3 else 0)) % 2**32 for k, word in enumerate(x)]
    return tuple(x)


def _threefry(*given: Any) -> Any:
    """The word of the last number for the halves of a key and a counter."""
    halves = [int(x) for x in given[:4]]
    words = [part for half in halves for part in (half % 2**32, half >> 32)]
    return np.uint32(threefry_words(tuple(words[:4]), tuple(words[4:]))[int(given[4]) & 3])


_TEXT = """
// Threefry4x32-20 of a key and a counter, two halves each: one of its four words
QUALIFIER unsigned int threefry4x32_word(
    ULONG key, ULONG key_high, ULONG low, ULONG high, int word)
{
    const unsigned int k[5] = {
        (unsigned int)key, (unsigned int)(key >> 32), (unsigned int)key_high, (unsigned int)(key_high >> 32),
        0x1BD11BDAu ^ (unsigned int)key ^ (unsigned int)(key >> 32) ^ (unsigned int)key_high
            ^ (unsigned int)(key_high >> 32)};
    const int turns[16] = {10, 26, 11, 21, 13, 27, 23, 5, 6, 20, 17, 11, 25, 10, 18, 20};
    unsigned int x[4] = {
        (unsigned int)low + k[0], (unsigned int)(low >> 32) + k[1], (unsigned int)high + k[2],
        (unsigned int)(high >> 32) + k[3]};
    for (int round = 0; round < 20; ++round) {
        for (int place = 0; place < 4; place += 2) {
            const int other = (place + (round % 2 ? 3 : 1)) % 4, turn = turns[2*(round % 8) + place/2];
            x[place] += x[other];
            x[other] = (x[other] << turn | x[other] >> (32 - turn)) ^ x[place];
        }
        if (round % 4 == 3) {
            const int step = round/4 + 1;
            for (int i = 0; i < 4; ++i)
                x[i] += k[(step + i) % 5];
            x[3] += (unsigned int)step;
        }
    }
    return x[word & 3];
}
"""

_QUALIFIERS = {"c": ("static", "unsigned long long"), "cuda": ("__device__ static", "unsigned long long"),
               "opencl": ("static", "ulong")}

#: The function of the halves of a key and of a counter, and a number, with one word of 32 bits.
THREEFRY = lk.ScalarFunction(
    "threefry4x32_word", 5, {(np.dtype("uint64"),)*4 + (np.dtype("int32"),): np.dtype("uint32")}, text=dict.fromkeys(
        _QUALIFIERS, "threefry4x32_word"), reference=_threefry, preamble={
        language: _TEXT.replace("QUALIFIER", qualifier).replace("ULONG", wide)
        for language, (qualifier, wide) in _QUALIFIERS.items()})


_VECTOR = re.compile(r"\bmake_(?P<kind>uint|int|float|double)(?P<count>[24])\s*\(")
_GENERATOR = re.compile(r"(?P<results>[^=]*[^=<>!\s])\s*=\s*(?P<generator>philox|threefry)(?P<width>\dx\d\d)"
                        r"(?P<kind>|_f32|_f64)\s*\((?P<arguments>[^{}]*)\)", re.DOTALL)
_DTYPES = {"uint": "uint32", "int": "int32", "float": "float32", "double": "float64"}


def with_random_numbers(lines: Iterable[str], groups: dict[str, frozenset[str]]) -> Iterator[str]:
    """*lines* with tuples for vectors, and statements for the calls of generators.

    :arg groups: gets the statements of each call, by its id.
    """
    for line in lines:
        code, options = parted(line)
        call = _GENERATOR.fullmatch(code)
        if call is None:
            yield _with_tuples(line)
        else:
            yield from _generated(call, options, groups)


def _with_tuples(line: str) -> str:
    """*line* with ``make_tuple`` for ``make_uint4`` and the like."""
    while found := _VECTOR.search(line):
        values, end = values_in(line, found.end())
        if len(values) != int(found["count"]):
            raise PreconditionError(f"{found[0].rstrip('( ')} takes {found['count']} numbers, and not {len(values)}.",
                                    subject=found[0].rstrip("( "))
        dtype = _DTYPES[found["kind"]]
        line = f"{line[:found.start()]}{_tuple(f'cast({dtype}, {x})' for x in values)}{line[end + 1:]}"
    return line


def _tuple(values: Any) -> str:
    return f"make_tuple({', '.join(f's{k}={x}' for k, x in enumerate(values))})"


def _generated(call: re.Match[str], options: dict[str, str | None], groups: dict[str, frozenset[str]]
               ) -> Iterator[str]:
    """The statements of a *call* with *options*: for the numbers, and for the counter after them."""
    name = call["generator"] + call["width"]
    results, arguments = list(top_level(call["results"], ",")), list(top_level(call["arguments"], ","))
    if name not in _KEYS or len(results) != 2 or not all(re.fullmatch(r"[A-Za-z_]\w*", x) for x in arguments) or len(
            arguments) != 2:
        raise PreconditionError(f"loopkit has no '{call[0].strip()}'.", subject=name, hint=(
            f"vals, ctr = f(ctr, key) with names of vectors, where f begins with {' or '.join(_KEYS)}"))
    counter, key = arguments
    own = options.pop("id", None) or f"random_{counter}_{len(groups)}"
    words = [f"{counter}.s{k}" for k in range(4)]
    yield from _halves(f"{own}_key", [f"{key}.s{k}" for k in range(_KEYS[name])], options)
    yield from _halves(own, words, options)
    keys = [f"{own}_key_{k}" for k in range(_KEYS[name]//2)]
    function = {"philox4x32": "philox", "threefry4x32": THREEFRY.name}[name]
    first = [f"{function}({', '.join((*keys, f'{own}_0', f'{own}_1'))}, cast(int32, {k}))" for k in range(4)]
    bumped, parts = _bumped(words), [f"{own}_key_{k}" for k in range(len(keys))] + [f"{own}_0", f"{own}_1"]
    if call["kind"] == "_f64":
        yield from _halves(f"{own}_next", bumped, options)
        parts += [f"{own}_next_0", f"{own}_next_1"]
        second = (f"{function}({', '.join((*keys, f'{own}_next_0', f'{own}_next_1'))}, cast(int32, {k}))"
                  for k in range(4))
        first = [f"cast(float64, {x})*{2.**-32!r} + cast(float64, {y})*{2.**-64!r}"
                 for x, y in zip(first, second, strict=True)]
        bumped = _bumped(bumped)
    elif call["kind"] == "_f32":
        first = [f"cast(float32, {x})*cast(float32, {2.**-32!r})" for x in first]
    groups[own] = frozenset({own, f"{own}_counter", *parts})
    yield with_options(f"{results[0]} = {_tuple(first)}", {"id": own, **options})
    # the counter changes after its last reader
    yield with_options(f"{results[1]} = {_tuple(bumped)}", merged({"id": f"{own}_counter", "dep": own}, options))


def _halves(name: str, words: list[str], options: Options) -> Iterator[str]:
    """Temporaries for the 64-bit halves of *words* of 32 bits."""
    for k, (low, high) in enumerate(zip(words[::2], words[1::2], strict=True)):
        wide = f"cast(uint64, {low}) + cast(uint64, {high})*cast(uint64, 4294967296)"
        yield with_options(f"<uint64> {name}_{k} = {wide}", {"id": f"{name}_{k}", **options})


def _bumped(words: list[str]) -> list[str]:
    """The counter plus one, in its first three words, as Random123's wrapper in loopy counts."""
    one = "cast(uint32, 1)"
    first = f"cast(uint32, {words[0]} + {one})"
    second = f"if({first} == 0, cast(uint32, {words[1]} + {one}), {words[1]})"
    third = f"if({first} == 0 and {second} == 0, cast(uint32, {words[2]} + {one}), {words[2]})"
    return [first, second, third, words[3]]
