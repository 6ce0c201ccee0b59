"""Scalar functions, those of the language and those of the user: each one frozen value that a call carries."""
from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from types import TracebackType
from typing import Any, ClassVar, NoReturn

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import LoopkitError, PreconditionError
from loopkit.expr.bessel import bessel_j, bessel_y
from loopkit.expr.kinds import NUMBERS, dtype_of, is_tuple
from loopkit.expr.mappers import subexpressions
from loopkit.expr.random_numbers import RANDOM
from loopkit.shown import Declared

#: The rules for the dtype of a call that have a name, and that of a value with the dtype of the element it is put into.
RULES = ("promoted", "float", "real", "predicate")
UNKNOWN = "unknown"

#: The dtypes of arguments, and the dtype of the result.
Signatures = Mapping[tuple[np.dtype[Any], ...], np.dtype[Any]]

#: The text of a call, or one for each dtype of the arguments, or for several dtypes, ``"int32, float64"``.
CallText = str | Mapping[str, str]

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, eq=False, repr=False)
class ScalarFunction(Declared):
    """A function of numbers: ``make_kernel(..., functions=[...])`` adds it to the language.

    It has no side effects, and its value depends on its arguments only. For a function of the user this is a claim,
    which becomes an obligation of the kernel.

    >>> softplus = ScalarFunction(
    ...     "softplus", 1, "float", text={"c": {"float32": "log1pf(expf({0}))", "float64": "log1p(exp({0}))"}},
    ...     reference=lambda x: np.log1p(np.exp(x)))
    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*softplus(x[i])", functions=[softplus])
    >>> lk.add_dtypes(knl, {"x": np.float32})(x=np.zeros(2, np.float32)).y.round(3)
    array([1.386, 1.386], dtype=float32)

    :arg name: the name of the function in the language.
    :arg arity: the number of its arguments.
    :arg dtypes: the dtype of its result. ``"promoted"``: the dtype to which numpy promotes its arguments. ``"float"``:
        the same, but float64 for integers. ``"real"``: the dtype of the parts of ``"promoted"``. ``"predicate"``: bool.
        These rules convert all arguments to one dtype. A mapping, ``{("float32", "int32"): "float32"}``, lists the
        dtypes of the arguments, which are not converted, with the dtype of the result. A Python function gets the
        dtypes of the arguments and returns that of the result, which may be a tuple: its text returns the struct.
    :arg text: for each language of the targets (``"c"``, ``"cuda"``, ...) the name of a function in it, or an
        expression with the placeholders ``{0}``, ``{1}``, ... for the arguments, or a mapping from the dtype of the
        arguments, or from their dtypes (``"int32, float64"``), to such texts. Halves and floats of 8 bits are
        passed and returned as float32.
    :arg preamble: declarations and definitions that a generated text needs before it calls the function, for each
        language, or one for all languages in *text*. They are copied as they are.
    :arg reference: a Python function of numpy scalars with the value of a call, for the interpreter, and for code of
        the host if there is no text in C. :func:`~loopkit.check_equivalent` compares the texts with it.
    :arg operands: the kinds of numbers that its arguments may be, as numpy's letters.
    :raises PreconditionError: an argument has an illegal value, a text has other placeholders, or is not an expression.
    """

    name: str
    arity: int
    dtypes: str | Signatures | Callable[..., Any] = "promoted"
    text: Mapping[str, CallText] = field(default_factory=dict)
    preamble: Mapping[str, str] = field(default_factory=dict)
    reference: Callable[..., Any] | None = None
    operands: str = "biufc"
    rules: ClassVar[tuple[str, ...]] = RULES

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and _NAME.fullmatch(self.name)):
            raise PreconditionError(f"The name of a function cannot be {self.name!r}.", subject=str(self.name))
        if not isinstance(self.arity, int) or self.arity < 0:
            self._refuse("has the number of its arguments as arity=, which must not be negative, "
                         f"and not {self.arity!r}")
        if not self.arity and isinstance(self.dtypes, str) and self.dtypes in RULES:
            self._refuse(f"has no arguments, from which '{self.dtypes}' follows", "dtypes={(): 'float32'}")
        for x, given in (("reference", self.reference), ("dtypes", self.dtypes)):
            if not callable(given) and (given is not None if x == "reference" else
                                        not isinstance(given, Mapping) and given not in self.rules):
                self._refuse(f": {x}= cannot be {given!r}", "dtypes= is one of " + ", ".join(map(repr, RULES))
                             + ", a mapping or a function of dtypes" if x == "dtypes" else "give a Python function")
        if not (isinstance(self.operands, str) and set(self.operands) <= set("biufc") and self.operands):
            self._refuse(f": operands= has letters of 'biufc', and not {self.operands!r}")
        if isinstance(self.dtypes, Mapping):
            object.__setattr__(self, "dtypes", dict(map(self._signature, self.dtypes.items())))
        if not isinstance(self.text, Mapping):
            self._refuse(f": text= maps languages to texts, and cannot be {self.text!r}", "text={'c': 'name'}")
        for language, text in self.text.items():
            for one in text.values() if isinstance(text, Mapping) else [text]:
                if fault := template_fault(one, self.arity):
                    self._refuse(f": its text for {language} {fault}")
        preamble = dict.fromkeys(self.text, self.preamble) if isinstance(self.preamble, str) else self.preamble
        if not isinstance(preamble, Mapping) or not all(isinstance(x, str) for x in preamble.values()):
            self._refuse(": preamble= is a text, or a text for each language")
        if strangers := sorted(preamble.keys() - self.text.keys()):
            self._refuse(f" has a preamble, but no text for {strangers[0]}", f"text={{'{strangers[0]}': 'name'}}")
        object.__setattr__(self, "preamble", preamble)

    def _refuse(self, what: str, hint: str | None = None) -> NoReturn:
        raise PreconditionError(f"The function '{self.name}'{'' if what[0] in ': ' else ' '}{what}.",
                                subject=self.name, hint=hint)

    def _signature(self, item: tuple[object, object]) -> tuple[tuple[np.dtype[Any], ...], np.dtype[Any]]:
        key, value = item
        names = key if isinstance(key, tuple) else (key,)
        found, result = [x for x in map(dtype_of, names) if x is not None], dtype_of(value)
        if len(found) != len(names) or result is None or any(map(is_tuple, (*found, result))):
            self._refuse(f": dtypes= has an entry {key!r}: {value!r} that is not of dtypes of numbers", NUMBERS)
        if len(found) != self.arity:
            self._refuse(f" has {self.arity} arguments, but dtypes= has an entry for {len(found)}: {key!r}")
        return tuple(found), result

    def _key(self) -> tuple[object, ...]:
        texts = ((x, tuple(t.items()) if isinstance(t, Mapping) else t) for x, t in self.text.items())
        rule = tuple(self.dtypes.items()) if isinstance(self.dtypes, Mapping) else self.dtypes
        return (self.name, self.arity, rule, tuple(texts), tuple(self.preamble.items()), self.reference, self.operands)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, ScalarFunction) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.name, self.arity))

    @property
    def ground(self) -> str:
        """The reason for the claim."""
        return f"declared as a {type(self).__name__}"

    @property
    def claim(self) -> str:
        """The claim that its declaration makes."""
        return f"'{self.name}' has no side effects, and its value depends on its arguments only"

    @property
    def summary(self) -> str:
        """The function in a line of a printed kernel."""
        rule = self.dtypes if isinstance(self.dtypes, str) else "of its own" if callable(self.dtypes) else "; ".join(
            f"({', '.join(map(str, given))}) -> {value}" for given, value in self.dtypes.items())
        texts = [f"text for {x}{' with a preamble' if x in self.preamble else ''}" for x in self.text]
        return ", ".join([f"{self.name} of {self.arity}", f"dtype {rule}", *texts,
                          *(["Python reference"] if self.reference else [])])

    def text_for(self, language: str, dtypes: Sequence[np.dtype[Any]], own: Mapping[str, CallText]) -> str:
        """The text in *language* of a call whose arguments have *dtypes*.

        :arg own: the texts of the language's functions, by name.
        :raises PreconditionError: there is none.
        """
        names = [x.name for x in dtypes]
        key = names[0] if len({*names}) == 1 else ", ".join(names)
        text = own.get(self.name, self.text.get(language))
        found = text.get(key) if isinstance(text, Mapping) else text
        if found is None:
            entry = "..." if text is None else f"{{'{key}': ...}}"
            of_dtype = "" if text is None else f" and arguments of {key}"
            has = " and ".join(repr(x) for x in (text if isinstance(text, Mapping) else self.text))
            raise PreconditionError(
                f"The function '{self.name}' has no text for the language '{language}'{of_dtype}.", subject=self.name,
                hint=f"ScalarFunction('{'own_' if self.name in FUNCTIONS else ''}{self.name}', ..., "
                     f"text={{'{language}': {entry}}})" + (f"; it has texts for {has}" if has else ""))
        return found

    def value(self, *arguments: Any) -> Any:
        """The value for numpy scalars; :raises PreconditionError: the function has no Python reference."""
        if self.reference is None:
            raise PreconditionError(f"The function '{self.name}' has no value in Python.", subject=self.name,
                                    hint=f"ScalarFunction('{self.name}', ..., reference=a function of numpy scalars)")
        with OfReference(f"Python reference of '{self.name}'", self.name, arguments):
            return self.reference(*arguments)


@dataclass(frozen=True)
class OfReference:
    """Raises an exception of *what*, the Python code of *subject*, as an error that names its operands."""

    what: str
    subject: str
    operands: Sequence[Any]

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if isinstance(error, Exception) and not isinstance(error, LoopkitError):
            shown = ", ".join(map(str, self.operands))
            raise PreconditionError(f"The {self.what} has no value for ({shown}): {type(error).__name__}: {error}.",
                                    subject=self.subject, hint="let it return a number for every operand, or NaN"
                                    ) from error


@p.expr_dataclass()
class FunctionName(p.Variable):
    """The name of a user's *function* in a call: the call carries what it calls."""

    function: ScalarFunction


def function_of(expr: Expression) -> ScalarFunction | None:
    """The scalar function that *expr* calls; ``None``: it calls none.

    >>> function_of(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = sqrt(x[i])").statements[0].expression).name
    'sqrt'
    """
    match expr:
        case p.Call(function=FunctionName(function=function)):
            return function
        case p.Call(function=p.Variable(name=name)):
            return FUNCTIONS.get(name)
        case _:
            return None


def functions_in(expr: Expression) -> Iterator[ScalarFunction]:
    """The scalar functions that *expr* and its parts call."""
    return (found for part in subexpressions(expr)
            if isinstance(part, p.Call) and (found := function_of(part)) is not None)


# The text of a call

def template_fault(text: object, arity: int) -> str | None:
    """The fault of *text* as the text of a call with *arity* arguments, after "its text"; ``None``: it has none.

    >>> template_fault("f({0}, {2})", 2)
    "has the placeholder '{2}', but the arguments are {0}, {1}"
    """
    if not isinstance(text, str):
        return f"is {text!r}, and not a string"
    if _NAME.fullmatch(text):
        return None
    try:
        parts = list(Formatter().parse(text))
    except ValueError as err:
        return f"has wrong braces ({err}): a brace of C is written twice"
    wanted = [str(number) for number in range(arity)]
    used = [name for _, name, _, _ in parts if name is not None]
    strangers = [f"{{{x}}}" for x in used if x not in wanted]
    if strangers or any(spec or conversion for _, _, spec, conversion in parts):
        stranger = strangers[0] if strangers else text
        return f"has the placeholder '{stranger}', but the arguments are {', '.join(f'{{{x}}}' for x in wanted)}"
    if missing := [x for x in wanted if x not in used]:
        return f"leaves the argument {{{missing[0]}}} out: '{text}'"
    literal = "".join(part for part, _, _, _ in parts)
    if re.search(r"[;\n\\#\"'`]|//|/\*|\*/", literal):
        return f"is not one expression of C: '{text}'"
    return None if is_balanced(text.format(*wanted)) else f"has brackets that do not match: '{text}'"


def is_balanced(text: str) -> bool:
    """Does each bracket in *text* have its partner?"""
    opened: list[str] = []
    for c in text:
        if c in "([{":
            opened.append({"(": ")", "[": "]", "{": "}"}[c])
        elif c in ")]}" and (not opened or opened.pop() != c):
            return False
    return not opened


def filled(template: str, arguments: list[tuple[str, bool]]) -> tuple[str, bool]:
    """The text of a call by *template*, a name or an expression, and: is it a single call?

    :arg arguments: the text of each argument, and: is it a name, a number or a call?

    >>> filled("f", [("a + b", False)]), filled("{0} - g({0})", [("a + b", False)])
    (('f(a + b)', True), ('(a + b) - g(a + b)', False))
    """
    if _NAME.fullmatch(template):
        return f"{template}({', '.join(text for text, _ in arguments)})", True
    pieces, parts = list[str](), list(Formatter().parse(template))
    for number, (literal, name, _, _) in enumerate(parts):
        pieces.append(literal)
        if name is not None:
            text, is_single = arguments[int(name)]
            following = parts[number + 1][0] if number + 1 < len(parts) else ""
            alone = literal.rstrip()[-1:] in ("(", ",") and following.lstrip()[:1] in (")", ",")
            pieces.append(text if is_single or alone else f"({text})")
    shape = re.sub(r"[^()]", "", template)
    is_call = re.match(r"[A-Za-z_]\w*\(", template) and template.endswith(")") and is_balanced(shape[1:-1])
    return "".join(pieces), bool(is_call)


# The functions of the language

def _by_python(f: Callable[..., float]) -> Callable[..., Any]:
    """A function of Python's math module, with NaN where it raises."""
    def call(*args: Any) -> Any:
        try:
            return np.float64(f(*map(float, args)))
        except (ValueError, OverflowError):
            return np.float64("nan")
    return call


def _whole(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A rounding that leaves integers unchanged."""
    return lambda x: x if np.asarray(x).dtype.kind in "iub" else f(x)


def power_value(base: Any, exponent: Any) -> Any:
    """``base**exponent`` of numpy scalars; a float64 where the exponent of an integer is negative."""
    if np.asarray(base).dtype.kind in "iu" and exponent < 0:
        return np.float64(base)**np.float64(exponent)
    return base**exponent


_NUMPYS_OWN = "sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh fabs"

_SINGLES: Mapping[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in _NUMPYS_OWN.split()},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "rsqrt": lambda x: 1/np.sqrt(x), "exp10": lambda x: np.power(x.dtype.type(10), x),
    "sinpi": lambda x: np.sin(np.pi*x), "cospi": lambda x: np.cos(np.pi*x), "erf": _by_python(math.erf),
    "erfc": _by_python(math.erfc), "lgamma": _by_python(math.lgamma), "tgamma": _by_python(math.gamma)}

_PAIRS: Mapping[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("fmod", "hypot", "copysign", "fmin", "fmax", "nextafter")},
    "pow": power_value, "atan2": np.arctan2, "fdim": lambda x, y: np.fmax(x - y, x.dtype.type(0)),
    "remainder": _by_python(math.remainder)}

_ROUNDINGS: Mapping[str, Callable[..., Any]] = {
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
    "round": np.rint}

_COMPLEX = frozenset({
    "sqrt", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh",
    "atanh", "pow"})


def _of_floats(arity: int, references: Mapping[str, Callable[..., Any]]) -> Iterator[ScalarFunction]:
    return (ScalarFunction(name, arity, "float", reference=f, operands="biufc" if name in _COMPLEX else "biuf")
            for name, f in references.items())


_FLOATS, _INTEGERS = ("float64", "float32"), ("int32", "int64", "uint32", "uint64")


def _of_several_dtypes(name: str, signatures: Mapping[tuple[str, ...], str], reference: Callable[..., Any]
                       ) -> ScalarFunction:
    """A function whose arguments have several dtypes; the table of a language lists its texts."""
    return ScalarFunction(name, len(next(iter(signatures))), signatures, reference=reference)  # type: ignore[arg-type]


def _bits(f: Callable[[int, int], int]) -> Callable[..., Any]:
    """A function of the bits of an integer, without a sign, and of their number."""
    return lambda x: np.int32(f(int(x) % 2**(8*x.dtype.itemsize), 8*x.dtype.itemsize))


def _tf32(x: Any) -> Any:
    """A float32 as the operand of a matrix unit: without the low 13 of the 23 bits of its fraction."""
    return (np.asarray(x).view(np.uint32) & np.uint32(0xffffe000)).view(np.float32)[()]


def _exp2_ftz(x: Any) -> Any:
    """2**x; 0 where that is subnormal."""
    y = np.exp2(x)
    return np.where(y < np.finfo(np.float32).tiny, np.float32(0), y)[()]


#: Every function of the language by name. The table of each target's language has their texts. ``min``, ``max``,
#: ``if`` and ``cast`` are syntax, not functions.
FUNCTIONS: Mapping[str, ScalarFunction] = {f.name: f for f in (
    *_of_floats(1, _SINGLES), *_of_floats(2, _PAIRS),
    *_of_floats(3, {"fma": lambda x, y, z: x*y + z}),
    *(ScalarFunction(name, 1, "predicate", reference=getattr(np, name), operands="biuf")
      for name in ("isnan", "isinf", "isfinite", "signbit")),
    *(ScalarFunction(name, 1, "real", reference=_whole(f), operands="biuf") for name, f in _ROUNDINGS.items()),
    *(ScalarFunction(name, 1, "real", reference=getattr(np, name)) for name in ("abs", "real", "imag")),
    ScalarFunction("conj", 1, "promoted", reference=np.conj),
    *(_of_several_dtypes(name, {("int32", x): x for x in _FLOATS}, lambda n, x, f=f: x.dtype.type(f(int(n), float(x))))
      for name, f in (("bessel_jn", bessel_j), ("bessel_yn", bessel_y))),
    _of_several_dtypes("ldexp", {(x, "int32"): x for x in _FLOATS}, np.ldexp),
    _of_several_dtypes("tf32", {("float32",): "float32"}, _tf32),
    _of_several_dtypes("exp2_ftz", {("float32",): "float32"}, _exp2_ftz),
    _of_several_dtypes("popcount", {(x,): "int32" for x in _INTEGERS}, _bits(lambda x, _: x.bit_count())),
    _of_several_dtypes("clz", {(x,): "int32" for x in _INTEGERS}, _bits(lambda x, bits: bits - x.bit_length())),
    *(_of_several_dtypes(name, {("uint64", "uint64", "uint64", "int32"): dtype}, f)
      for name, (dtype, f) in RANDOM.items()))}
