"""The check of a public function's arguments against its annotations, before the function runs."""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin

import numpy as np
import numpy.typing as npt

from loopkit.errors import PreconditionError
from loopkit.poly.domains import AnySet

P = ParamSpec("P")
R = TypeVar("R")

#: One of a kind, and several; other classes go by their name.
_WORDS: Mapping[object, tuple[str, str]] = {
    str: ("a text", "texts"), bool: ("True or False", "truth values"), int: ("an integer", "integers"),
    float: ("a number", "numbers"), NoneType: ("None", "None"), Any: ("a value", "values"),
    npt.DTypeLike: ("a dtype", "dtypes"), **dict.fromkeys(get_args(AnySet), ("a set of isl's", "sets of isl's"))}

#: The classes of numbers; True and False do not count.
_NUMBERS: Mapping[object, tuple[type, ...]] = {int: (int, np.integer), float: (int, float, np.integer, np.floating)}

_LONGEST = 60


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """*function* with a check of its arguments against its annotations."""
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given, named = tuple(map(read, args)), {name: read(value) for name, value in kwargs.items()}
        require_kinds(function, given, named)
        return function(*given, **named)

    def read(argument: Any) -> Any:                    # an iterator can be read only once
        return tuple(argument) if isinstance(argument, Iterator) else argument
    return call


def require_kinds(function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """:raises PreconditionError: an argument of *function* is of another kind than its annotation names."""
    parameters = _parameters(function)
    by_name = {p.name: p for p in parameters if p.kind is not p.POSITIONAL_ONLY}
    # Python itself checks for missing and surplus arguments
    for parameter, value in (*zip(parameters, args, strict=False),
                             *((by_name[name], value) for name, value in kwargs.items() if name in by_name)):
        if not fits(value, parameter.annotation):
            text = " ".join(repr(value).split())
            raise PreconditionError(
                f"{function.__name__}: {parameter.name}= is {_words(parameter.annotation)[0]}, not "
                f"{text if len(text) <= _LONGEST else text[:_LONGEST] + '...'}.", subject=parameter.name,
                hint=_example(function) if parameter.default is parameter.empty else
                f"the default is {parameter.name}={parameter.default!r}")


@functools.cache
def _parameters(function: Callable[..., object]) -> tuple[inspect.Parameter, ...]:
    """The named parameters, with their annotations as types."""
    return tuple(p for p in inspect.signature(function, eval_str=True).parameters.values()
                 if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))


def fits(value: object, kind: Any) -> bool:
    """Is *value* of the *kind* that an annotation names? Any value fits a kind that this function does not list.

    >>> fits({"i": 16}, Mapping[str, int]), fits(["i"], Mapping[str, int]), fits(True, int | str)
    (True, False, False)
    """
    origin: Any = get_origin(kind) or kind
    inner = get_args(kind)
    if kind == npt.DTypeLike or kind is Any or kind is inspect.Parameter.empty:       # a method's self
        return True
    if origin is Union or origin is UnionType:
        return any(fits(value, one) for one in inner)
    if kind in _NUMBERS:
        return isinstance(value, _NUMBERS[kind]) and not isinstance(value, bool)
    if not isinstance(origin, type):
        return True
    if not inner or origin is Callable:
        return isinstance(value, origin)
    if issubclass(origin, Mapping):
        return isinstance(value, origin) and all(fits(k, inner[0]) and fits(v, inner[1]) for k, v in value.items())
    if issubclass(origin, tuple) and inner[-1] is not ...:
        return isinstance(value, tuple | list) and len(value) == len(inner) and all(map(fits, value, inner))
    # a text, bytes and a mapping do not count as lists
    return not issubclass(origin, Iterable) or (isinstance(value, origin) and not isinstance(
        value, str | bytes | Mapping) and all(fits(item, inner[0]) for item in value))


def _words(kind: Any) -> tuple[str, str]:
    """The words of an error for one value of *kind*, and for several."""
    origin: Any = get_origin(kind) or kind
    inner = get_args(kind)
    if kind in _WORDS:
        return _WORDS[kind]
    if origin is Union or origin is UnionType:
        one, several = zip(*dict.fromkeys(map(_words, inner)), strict=True)
        return _listed(one), _listed(several)
    if not isinstance(origin, type) or kind is object:
        return "a value", "values"
    if origin is Callable:
        return "a function", "functions"
    if not inner:
        name = origin.__name__
        return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}", f"{name} objects"
    ones, several = zip(*map(_words, inner), strict=True)
    if issubclass(origin, Mapping):
        name, of = "mapping", f"of {' to '.join(several)}"
    elif issubclass(origin, tuple) and inner[-1] is not ...:
        name, of = "tuple", f"({', '.join(ones)})"
    else:
        name, of = "list", f"of {several[0]}"
    return f"a {name} {of}", f"{name}s {of}"


def _listed(parts: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _example(function: Callable[..., object]) -> str | None:
    """The first call of *function* in the examples of its docstring."""
    start = (doc := function.__doc__ or "").find(f"lk.{function.__name__}(")
    depth, end = 0, start
    for end in range(start, len(doc)) if start >= 0 else ():
        depth += {"(": 1, ")": -1}.get(doc[end], 0)
        if doc[end] == ")" and not depth:
            return f"for example {' '.join(doc[start:end + 1].split())}"
    return None
