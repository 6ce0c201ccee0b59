"""Functions of the user with several results, ``a, b = f(x)``, or with complex numbers of another type than loopkit's.

In loopy's texts, such a function returns its first result, and writes the others through pointers behind its arguments.
"""
from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import loopkit as lk
from loopkit.compat.loopy.spelling import logical_lines, options_of
from loopkit.errors import PreconditionError
from loopkit.expr.tuples import place_names, tuple_dtype
from loopkit.kernel.c_instruction import top_level
from loopkit.target.c.target import C
from loopkit.target.cuda.dialect import CUDA
from loopkit.target.opencl.dialect import OPENCL

DIALECTS = {"c": C, "opencl": OPENCL, "cuda": CUDA}
_QUALIFIERS = {"c": "static", "opencl": "static", "cuda": "__device__ static"}


@dataclass(frozen=True, eq=False)
class SeveralResults(lk.ScalarFunction):
    """A function whose value is a tuple of its results; *count*: their number."""

    count: int = 2


def value_dtype(results: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    """The dtype of the value of a function with these *results*."""
    return results[0] if len(results) == 1 else tuple_dtype(place_names(len(results)), results)


@dataclass(frozen=True)
class UserCall:
    """The user's function for some dtypes: its *name* in the text, ``None`` for that in loopy's language."""

    name: str | None
    arguments: Sequence[np.dtype[Any]]
    results: Sequence[np.dtype[Any]]


def function_of(plain: lk.ScalarFunction, calls: Mapping[str, UserCall], preamble: str, target: Any
                ) -> lk.ScalarFunction:
    """The function *plain* with the texts of *calls*, by the dtypes of the arguments, and of their *preamble*."""
    texts, preambles, count = dict[str, dict[str, str]](), dict[str, str](), 1
    for language in DIALECTS:
        own = getattr(target, "complex_prefixes", {}) if language == "opencl" else {}
        wrappers = _Wrappers(plain.name, language, own)
        found = {x: wrappers.text_of(call) for x, call in calls.items()}
        texts[language] = {x: text for x, text in found.items() if text is not None}
        parts = (target.complex_includes if wrappers.texts and own else "", preamble, wrappers.preamble)
        if text := "\n".join(filter(None, parts)):
            preambles[language] = text
        count = max((count, *(len(call.results) for call in calls.values())))
    fields: dict[str, Any] = {"text": texts, "preamble": preambles}
    return replace(plain, **fields) if count == 1 else SeveralResults(
        plain.name, plain.arity, plain.dtypes, **fields, count=count)


@dataclass
class _Wrappers:
    """Functions of one language around the user's, with loopkit's types of complex numbers and tuples of results.

    :ivar prefixes: prefixes of the functions of the user's complex types, by dtype: ``cdouble`` for ``cdouble_new``.
    :ivar texts: the wrappers by their signatures.
    """

    name: str
    language: str
    prefixes: Mapping[str, str] = field(default_factory=dict)
    texts: dict[tuple[object, ...], tuple[str, str]] = field(default_factory=dict)

    def text_of(self, call: UserCall) -> str | None:
        """The name of the function to call; ``None``: that in loopy's language."""
        dtypes = (*call.arguments, *call.results)
        if len(call.results) == 1 and not any(dtype.name in self.prefixes for dtype in dtypes):
            return call.name
        key = call.name, len(call.results), *dtypes
        if key not in self.texts:
            name = f"{self.name}_call{len(self.texts)}"
            self.texts[key] = name, "\n".join(self._lines(name, call))
        return self.texts[key][0]

    @property
    def preamble(self) -> str:
        return "\n".join(text for _, text in self.texts.values())

    def _lines(self, name: str, call: UserCall) -> Iterator[str]:
        own, arguments, results = call.name or self.name, call.arguments, call.results
        dialect = DIALECTS[self.language]
        value = dialect.type_name(value_dtype(results))
        given = ", ".join(f"{dialect.type_name(dtype)} a{k}" for k, dtype in enumerate(arguments))
        yield f"{_QUALIFIERS[self.language]} {value} {name}({given})"
        yield "{"
        for k, dtype in enumerate(results):
            prefix = self.prefixes.get(dtype.name)
            yield f"    {dialect.type_name(dtype) if prefix is None else f'{prefix}_t'} r{k};"
        passed = [*map(self._passed, range(len(arguments)), arguments), *(f"&r{k}" for k in range(1, len(results)))]
        yield f"    r0 = {own}({', '.join(passed)});"
        found = [self._returned(k, dtype) for k, dtype in enumerate(results)]
        if len(found) == 1:
            yield f"    return {found[0]};"
        else:
            yield f"    {value} found;"
            parts = zip(place_names(len(found)), found, strict=True)
            yield from (f"    found.{part} = {text};" for part, text in parts)
            yield "    return found;"
        yield "}"

    def _passed(self, k: int, dtype: np.dtype[Any]) -> str:
        prefix = self.prefixes.get(dtype.name)
        return f"a{k}" if prefix is None else f"{prefix}_new(a{k}.x, a{k}.y)"

    def _returned(self, k: int, dtype: np.dtype[Any]) -> str:
        prefix = self.prefixes.get(dtype.name)
        return f"r{k}" if prefix is None else f"({DIALECTS[self.language].type_name(dtype)})(r{k}.real, r{k}.imag)"


#: ``a, b = f(x) {options}``
_CALL = re.compile(r"(?P<targets>[^=]*,[^=]*?)\s*=\s*(?P<call>(?P<name>[A-Za-z_]\w*)\s*\((?P<arguments>[^{}]*)\))\s*"
                   r"(?:\{(?P<options>[^{}]*)\})?\s*(?:#.*)?", re.DOTALL)


def with_tuples_of_results(text: str, functions: Mapping[str, lk.ScalarFunction], groups: dict[str, frozenset[str]]
                           ) -> Iterator[str]:
    """The lines of *text*, in which ``a, b = f(x)`` stores the tuple of the results, and then each of its fields.

    :arg groups: gets the statements of each call, by its id.
    :raises PreconditionError: a function has another number of results.
    """
    for line in logical_lines(text):
        found = _CALL.fullmatch(line)
        function = functions.get(found["name"]) if found is not None else None
        if found is None or not isinstance(function, SeveralResults):
            yield line
            continue
        targets, options = [*top_level(found["targets"], ",")], list(options_of(found["options"] or ""))
        if len(targets) != function.count:
            raise PreconditionError(f"'{function.name}' has {function.count} results, and '{line.strip()}' has "
                                    f"{len(targets)} targets.", subject=function.name)
        held = f"{function.name}_results_{len(groups)}"
        named = {key: value for key, _, value in (x.partition("=") for x in options)}
        own = named.get("id") or f"{named.get('id_prefix', '')}{held}"
        others = [x for x in options if not x.startswith(("id=", "id_prefix=", "dep="))]
        after = [x.removeprefix("dep=") for x in options if x.startswith("dep=")]
        first = f"{own}_tuple"
        groups[own] = frozenset((first, *(f"{own}_{k}" for k in range(len(targets)))))
        yield f"<> {held} = {found['call']} {{{', '.join((f'id={first}', *(f'dep={x}' for x in after), *others))}}}"
        for k, (target, part) in enumerate(zip(targets, place_names(len(targets)), strict=True)):
            every = (f"id={own}_{k}", f"dep={':'.join((first, *after))}", *others)
            yield f"{target.strip()} = {held}.{part} {{{', '.join(every)}}}"
