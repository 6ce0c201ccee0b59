"""Dialects of the C family: one table for each language that expressions are printed in."""
from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np

from loopkit.expr.kinds import is_bfloat16
from loopkit.instructions.text import InstructionTexts, TicketText
from loopkit.target.c.helpers import POWER, template

_SUFFIX = re.compile(r"(?P<name>\w+)_(?P<suffix>[iuf]\d+|c\d+)$")

#: Functions of reals with another name in C.
_REAL_NAMES = {"abs": "fabs", "min": "fmin", "max": "fmax", "round": "rint"}
_PREDICATES = frozenset({"isnan", "isinf", "isfinite", "signbit"})


#: These spellings need no header in C and CUDA C++, and give int64 one type in both.
INTEGERS = {"int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
             "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
             "uint64": "unsigned long long"}
REALS = {"float32": "float", "float64": "double"}

COMPLEX_FUNCTIONS = {"conj": "conj", **{name: f"c{name}" for name in (
    "abs", "real", "imag", "sqrt", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "pow")}}


def suffix(dtype: np.dtype) -> str:
    """``f32`` for float32, ``i64`` for int64, ``bf16`` for bfloat16: the suffix of helper functions."""
    return "bf16" if is_bfloat16(dtype) else f"{dtype.kind}{8 * dtype.itemsize}"


@dataclass(frozen=True)
class Dialect:
    """A C-family language.

    :ivar types: the name of each dtype's type, by numpy's name of the dtype.
    :ivar qualifier: the qualifier of a helper function.
    :ivar helped: real functions that the language lacks and a helper computes.
    :ivar normal_functions: by the suffix of a dtype, the functions with a faster helper for arguments that cannot be
        subnormal.
    :ivar integer_functions: names of the language's functions of integers, by ``"min_i32"``.
    :ivar complex_names: names of complex functions; *complex_marked*: with the suffix ``f`` for complex64.
    :ivar complex_calls: a conversion to complex is a call of the type.
    :ivar truth: false and true.
    :ivar int_predicates: ``isnan`` and similar functions return an int.
    :ivar constants: text of the macros ``INFINITY`` and ``NAN`` if the language has none.
    :ivar complex_text: the text for complex numbers, by dtype; ``None`` as the key: the text for all of them.
    :ivar half_text: the text for halves, by dtype: lines before the helpers.
    :ivar half_operators: the language has operators of halves; else halves are computed in float32 and rounded.
    :ivar half_functions: names of the language's functions of halves.
    :ivar half_helpers: text of the functions that convert halves if the language does not, by name.
    :ivar instructions: texts of hardware instructions; nodes with other instructions are emitted as plain code.
    :ivar ticket: how a block takes a ticket; ``None``: blocks with inter-block flags run one after the other.
    :ivar includes: the first lines of every text.
    :ivar restrict: the qualifier of a pointer without aliases.
    :ivar constant_by_restrict: the compiler treats memory behind a const pointer with *restrict* as constant.
    :ivar no_parameters: the parameter list of a function without parameters.
    :ivar unroll: lines before a loop that is to be unrolled.
    :ivar streaming_store: the function that stores with the cache policy evict_first.
    :ivar evict_last_load: the function that loads with the cache policy evict_last; *evict_last_text*: its text;
        *evict_last_start*: the first line of a function that uses it.
    """

    types: Mapping[str, str]
    qualifier: str
    helped: frozenset[str] = frozenset()
    normal_functions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    integer_functions: Mapping[str, str] = field(default_factory=dict)
    complex_names: Mapping[str, str] = field(default_factory=dict)
    complex_marked: bool = False
    complex_calls: bool = False
    complex_maker: str = "{0}"
    truth: tuple[str, str] = ("0", "1")
    int_predicates: bool = True
    constants: Mapping[str, str] = field(default_factory=dict)
    complex_text: Mapping[str | None, str] = field(default_factory=dict)
    half_text: Mapping[str, str] = field(default_factory=dict)
    half_operators: bool = False
    half_functions: Mapping[str, str] = field(default_factory=dict)
    half_helpers: Mapping[str, str] = field(default_factory=dict)
    instructions: InstructionTexts = field(default_factory=dict)
    ticket: TicketText | None = None
    includes: tuple[str, ...] = ()
    restrict: str = "restrict"
    constant_by_restrict: bool = False
    no_parameters: str = ""
    unroll: tuple[str, ...] = ()
    streaming_store: str = ""
    evict_last_load: str = ""
    evict_last_text: str = ""
    evict_last_start: str = ""

    def type_name(self, dtype: np.dtype) -> str:
        """The type of an element of *dtype*."""
        return self.types[dtype.name]

    def function(self, name: str, dtype: np.dtype) -> tuple[str, bool]:
        """The language's name for the function *name* of operands of *dtype*, and whether it is a helper."""
        if dtype.kind == "f":
            if name in _PREDICATES:
                return name, False
            if name not in self.helped:
                return _REAL_NAMES.get(name, name) + ("f" if dtype.itemsize == 4 else ""), False
        elif dtype.kind == "c":
            mark = "f" if self.complex_marked and dtype.itemsize == 8 else ""
            return self.complex_names[name] + mark, False
        full = f"{name}_{suffix(dtype)}"
        own = self.integer_functions.get(full)
        return (full, True) if own is None else (own, False)

    def preamble(self, used: AbstractSet[str]) -> str:
        """The text before expressions with the helpers *used*; ``""`` or whole lines."""
        parts = ["\n".join(self.includes)] if self.includes else []
        parts += [text for name, text in self.half_text.items() if name in used]
        parts += [text for name, text in self.constants.items() if name in used]
        own = {name: text for of in self.instructions.values() for name, text in of.helpers.items()}
        if self.ticket is not None:
            own[self.ticket.function] = self.ticket.text
        parts += [text for name, text in own.items() if name in used]
        complexes = [name for name in ("complex64", "complex128") if name in used]
        if complexes:
            parts += [self.complex_text[key] for key in (None, *complexes) if key in self.complex_text]
        parts += [text for name, text in self.half_helpers.items() if name in used]
        parts += [self.evict_last_text] if self.evict_last_load in used else []
        parts += [self._helper(name) for name in sorted(used - self.half_helpers.keys() - own.keys())
                  if _SUFFIX.match(name)]
        return "".join(part.strip("\n") + "\n" for part in parts)

    def _helper(self, name: str) -> str:
        found = _SUFFIX.match(name)
        assert found is not None, name
        kind, bits = found["suffix"][0], int(found["suffix"][1:])
        dtype = np.dtype({"i": "int", "u": "uint", "f": "float", "c": "complex"}[kind] + str(bits))
        power = POWER.match(found["name"])
        product = "*".join(["x"] * int(power["exponent"])) if power else ""
        return (template(found["name"], kind).replace("QUALIFIER", self.qualifier)
                .replace("TYPE", self.type_name(dtype)).replace("NAME", name).replace("PRODUCT", product)
                .replace("MARK", "f" if found["suffix"] == "f32" else ""))
