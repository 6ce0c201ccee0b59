"""Dialects of the C family: one table for each language that expressions are printed in."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from loopkit.errors import NameConflictError
from loopkit.expr.functions import CallText, ScalarFunction
from loopkit.expr.kinds import code_of, is_narrow, is_tuple
from loopkit.expr.tuples import field_dtypes, struct_dtype, struct_name
from loopkit.instructions.base import InstructionTexts, Text, made_text
from loopkit.kernel.data import AddressSpace, CachePolicy
from loopkit.language.names import RESERVED

#: These spellings need no header in C and CUDA C++, and give int64 one type in both.
INTEGERS = {"int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
             "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
             "uint64": "unsigned long long"}
REALS = {"float32": "float", "float64": "double"}

#: Functions of reals with another name in C.
_REAL_NAMES = {"abs": "fabs", "min": "fmin", "max": "fmax", "round": "rint"}
_PREDICATES = frozenset({"isnan", "isinf", "isfinite", "signbit"})


def helper(name: str, dtype: np.dtype) -> str:
    """The name of the helper function *name* of operands of *dtype*: it ends in ``_f32``, ``_i64``, ``_bf16``, ..."""
    return f"{name}_{code_of(dtype)}"


def reference_name(function: ScalarFunction, value: np.dtype, arguments: Sequence[np.dtype]) -> str:
    """The name in a text of the Python reference of *function* for these dtypes: ``f_python_f64_f32``."""
    return reduce(helper, (value, *arguments), f"{function.name}_python")


@dataclass(frozen=True)
class Functions:
    """Functions of integers and reals; *qualifier* is that of a helper function.

    :ivar normal: the helpers that are faster than a function, for arguments that cannot be subnormal, with their texts.
    :ivar names: names of functions by ``"min_i32"``: the language's functions of integers, and the helpers for real
        functions that it lacks.
    :ivar int_predicates: ``isnan`` and similar functions return an int.
    :ivar texts: those of calls of functions whose arguments have several dtypes, by name.
    :ivar references: a call of the user's function without a text calls its Python reference.
    :ivar mark: the end of the names of float32 functions.
    :ivar operators: functions in place of operators on complex numbers, by the operator between the kinds of its
        operands (``"r+c"``: a real number and a complex one).
    """

    qualifier: str = ""
    normal: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    int_predicates: bool = True
    texts: Mapping[str, CallText] = field(default_factory=dict)
    references: bool = False
    mark: str = "f"
    operators: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Syntax:
    """The name of a language, and the layout of a text and of its functions.

    :ivar name: the language's name, for which users give texts of their functions.
    :ivar includes: the first lines of every text.
    :ivar truth: false and true.
    :ivar restrict: the qualifier of a pointer without aliases.
    :ivar constant_by_restrict: the compiler treats memory behind a const pointer with *restrict* as constant.
    :ivar unroll: lines before a loop that is to be unrolled.
    :ivar memories: the qualifiers of memory.
    :ivar has_bool: the language converts a value that is stored as a truth value to 0 or 1.
    :ivar constant: the qualifiers of a constant array that a function declares.
    """

    name: str
    includes: str = ""
    truth: tuple[str, str] = ("0", "1")
    restrict: str = "restrict"
    constant_by_restrict: bool = False
    unroll: tuple[str, ...] = ()
    memories: Mapping[AddressSpace, str] = field(default_factory=dict)
    has_bool: bool = True
    constant: str = "static const"


@dataclass(frozen=True)
class Dialect:
    """A C-family language.

    :ivar types: the names of types, by numpy's name of the dtype.
    :ivar texts: the lines that code needs in which a key occurs, in their order. A key is a regular expression for
        whole words, or several, joined by ``" & "``, which must all occur.
    :ivar overloaded: functions of complex numbers have one name for both dtypes, and a call of the type makes a number;
        else the names of functions of complex64 end in ``f``, and ``make_complex64`` makes a number.
    :ivar halves: names of the language's functions of reals of 16 bits; if there are none, it has no operators for
        them either, and they are computed in float32 and rounded, as reals of 8 bits are in each language.
    :ivar policies: the functions that store and load under a cache policy.
    :ivar instructions: texts of hardware instructions; nodes with other instructions are emitted as plain code.
    """

    types: Mapping[str, str]
    functions: Functions
    syntax: Syntax
    texts: Mapping[str, Text]
    overloaded: bool = False
    halves: Mapping[str, str] = field(default_factory=dict)
    policies: Mapping[CachePolicy, str] = field(default_factory=dict)
    instructions: InstructionTexts = field(default_factory=dict)

    def type_name(self, dtype: np.dtype) -> str:
        """The type of an element of *dtype*."""
        return struct_name(dtype) if is_tuple(dtype) else self.types[dtype.name]

    def has_operators(self, dtype: np.dtype) -> bool:
        """Has the language operators for numbers of a real *dtype*?"""
        return not is_narrow(dtype) or (bool(self.halves) and dtype.itemsize == 2)

    @property
    def long(self) -> str:
        """The end of a literal of 64 bits."""
        return "L" if self.types["int64"] == "long" else "LL"

    def function(self, name: str, dtype: np.dtype) -> str:
        """The name of the function *name* of operands of *dtype*: the language's, else that of a helper."""
        own = helper(name, dtype)
        if dtype.kind == "f" and name in _PREDICATES:
            return name
        if dtype.kind == "f" and own not in self.functions.names:
            return _REAL_NAMES.get(name, name) + (self.functions.mark if dtype.itemsize == 4 else "")
        if dtype.kind == "c":
            mark = "f" if dtype.itemsize == 8 and not self.overloaded else ""
            return f"{name}{mark}" if name == "conj" else f"c{name}{mark}"
        return self.functions.names.get(own, own)

    def call_text(self, function: ScalarFunction, value: np.dtype, arguments: Sequence[np.dtype]) -> str:
        """The text of a call of *function*, whose value and *arguments* have these dtypes.

        :raises PreconditionError: it has no text in this language.
        """
        by_python = (self.functions.references and function.reference is not None and not any(
            dtype.kind in "cV" for dtype in (value, *arguments)) and self.syntax.name not in function.text
            and function.name not in self.functions.texts)
        return reference_name(function, value, arguments) if by_python else \
            function.text_for(self.syntax.name, arguments, self.functions.texts)

    def preamble(self, text: str, more: Callable[[str], Iterable[str]] = lambda _code: ()) -> str:
        """The lines before *text*: what it names, and what these lines name. No name of a user equals such a name.

        :arg more: gives the further texts that code needs, which follow those of the dialect.
        """
        found, known = "", None
        while found != known:
            known, words = found, dict.fromkeys(re.findall(r"\w+", re.sub("//.*", "", f"{text}\n{found}")))
            code = " ".join(words)                              # each word once, as keys are words
            own = (made_text(part) for key, part in self.texts.items() if all(
                word in words if word.isidentifier() else re.search(rf"\b({word})\b", code)
                for word in key.split(" & ")))
            parts = (self.syntax.includes, *own, *self._structs(code), *self.helpers(code).values(), *more(code))
            found = "".join(part.strip("\n") + "\n" for part in parts if part)
        return found

    def _structs(self, code: str) -> Iterator[str]:
        """The structs of the tuples that *code* names; :raises NameConflictError: a field is a reserved word."""
        for name in dict.fromkeys(re.findall(r"\w+", code)):
            dtype = struct_dtype(name)
            if dtype is not None:
                if taken := RESERVED.intersection(field_dtypes(dtype)):
                    raise NameConflictError(f"The field '{min(taken)}' of a tuple is a reserved word of C or CUDA.",
                                            subject=min(taken), hint="give it another name")
                fields = "".join(f"    {self._aligned(own)} {field};\n" for field, own in field_dtypes(dtype).items())
                yield f"typedef struct {{\n{fields}}} {name};"

    def _aligned(self, dtype: np.dtype) -> str:
        """The type of a field: complex numbers are aligned to their size in all languages."""
        align = f"_Alignas({dtype.itemsize}) " if dtype.kind == "c" and not self.overloaded else ""
        return f"{align}{self.type_name(dtype)}"

    def helpers(self, code: str) -> dict[str, str]:
        """The texts of the helpers of one dtype that *code* names, such as ``floor_div_i32``."""
        normal = self.functions.normal
        return {name: normal.get(name) or self._helper(name) for name in sorted(set(re.findall(r"\w+", code)))
                if name in normal or _HELPER.fullmatch(name)}

    def _helper(self, name: str) -> str:
        found = _HELPER.fullmatch(name)
        assert found is not None
        function, kind, bits = found["function"], found["kind"], found["bits"]
        if exponent := found["exponent"]:
            parameters, body = "TYPE x", f"\n    return {self._power(int(exponent), f'{kind}{bits}')};\n"
        else:
            parameters, body = (_REAL if kind == "f" else _INTEGER)[function]
        type_name = self.types[{"i": "int", "u": "uint", "f": "float", "c": "complex"}[kind] + bits]
        text = f"{self.functions.qualifier} TYPE {name}({parameters})\n{{{body}}}"
        unsigned = self.types[f"uint{bits}"] if kind in "iu" else ""
        return text.replace("UNSIGNED", unsigned).replace("TYPE", type_name).replace("BITS", bits).replace(
            "MARK", self.functions.mark if bits == "32" else "")

    def _power(self, exponent: int, suffix: str) -> str:
        product = self.functions.operators.get("c*c") if suffix.startswith("c") else None
        if product is None:
            return "*".join(["x"] * exponent)
        text = "x"
        for _ in range(exponent - 1):
            text = f"{product}_{suffix}({text}, x)"
        return text


# Helper functions: those that C lacks or defines differently

#: Parameters and body by name; ``TYPE`` stands for the type, ``UNSIGNED`` for the unsigned one, ``BITS`` for its bits.
_INTEGER: Mapping[str, tuple[str, str]] = {
    "floor_div": ("TYPE a, TYPE b", """
    const TYPE q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
"""),
    "floor_mod": ("TYPE a, TYPE b", """
    const TYPE r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
"""),
    "int_power": ("TYPE x, int n", """
    TYPE result = 1;
    for (; n > 0; n >>= 1, x *= x)
        if (n & 1)
            result *= x;
    return result;
"""),
    # as in numpy for every count; the shift of an unsigned number cannot overflow
    "shift_left": ("TYPE a, TYPE n", "\n    return (UNSIGNED)n < BITS ? (TYPE)((UNSIGNED)a << n) : 0;\n"),
    "shift_right": ("TYPE a, TYPE n", "\n    return (UNSIGNED)n < BITS ? a >> n : a >> (BITS - 1) >> 1;\n"),
    "abs": ("TYPE x", "\n    return x < 0 ? -x : x;\n"),
    "min": ("TYPE a, TYPE b", "\n    return b < a ? b : a;\n"),
    "max": ("TYPE a, TYPE b", "\n    return a < b ? b : a;\n")}

#: The same for reals; ``MARK`` stands for the ``f`` of a float32 function.
_REAL: Mapping[str, tuple[str, str]] = {
    "floor_mod": ("TYPE a, TYPE b", """
    const TYPE r = fmodMARK(a, b);
    if (r == 0)
        return copysignMARK(r, b);
    return (r < 0) != (b < 0) ? r + b : r;
"""),
    "floor_div": ("TYPE a, TYPE b", """
    if (b == 0)
        return a / b;
    // the quotient of what b divides is exact; infinite b divide nothing but 0
    const TYPE r = fmodMARK(a, b);
    const TYPE q = (a - r) / b - (r != 0 && (r < 0) != (b < 0));
    return q == 0 ? copysignMARK(q, a / b) : rintMARK(q);
"""),
    "min": ("TYPE a, TYPE b", "\n    return a < b || b != b ? a : b;\n"),
    "max": ("TYPE a, TYPE b", "\n    return a > b || b != b ? a : b;\n"),
    "rsqrt": ("TYPE x", "\n    return 1 / sqrtMARK(x);\n"),
    "exp10": ("TYPE x", "\n    return powMARK(10, x);\n"),
    "sinpi": ("TYPE x", """
    const TYPE r = fmodMARK(x, 2);
    return sinMARK((TYPE)3.141592653589793*r);
"""),
    "cospi": ("TYPE x", """
    const TYPE r = fmodMARK(x, 2);
    return cosMARK((TYPE)3.141592653589793*r);
""")}

#: The names of these functions.
_HELPER = re.compile(rf"(?P<function>{'|'.join((*_INTEGER, *_REAL))}|power(?P<exponent>\d+))"
                     r"_(?P<kind>[iufc])(?P<bits>\d+)")
