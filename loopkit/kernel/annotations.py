"""The check of a public function's arguments against its annotations, before the function runs."""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, NamedTuple, ParamSpec, TypeVar, Union, get_args, get_origin

import numpy as np
import numpy.typing as npt
from pytools.tag import Tag

from loopkit.errors import PreconditionError
from loopkit.kernel.loopy_names import LOOPY_ARGUMENTS, no_argument
from loopkit.poly.domains import AnyMap, AnySet
from loopkit.poly.sets import InstanceSet

P = ParamSpec("P")
R = TypeVar("R")

#: One of a kind, and several; other classes go by their name.
_WORDS: Mapping[object, tuple[str, str]] = {
    str: ("a text", "texts"), bool: ("True or False", "truth values"), int: ("an integer", "integers"),
    float: ("a number", "numbers"), NoneType: ("None", "None"), Any: ("a value", "values"),
    npt.DTypeLike: ("a dtype", "dtypes"), InstanceSet: ("a domain of a kernel", "domains of a kernel"),
    Tag: ("a user tag", "user tags"), type: ("a class", "classes"),
    **dict.fromkeys(get_args(AnySet), ("an isl set", "isl sets")),
    **dict.fromkeys(get_args(AnyMap), ("an isl map", "isl maps"))}

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
    by_name = {p.name: (p, kind) for p, kind in parameters if p.kind is not p.POSITIONAL_ONLY}
    if surplus := [x for x in kwargs if x in LOOPY_ARGUMENTS.get(function.__name__, ()) and x not in by_name]:
        raise TypeError(no_argument(function.__name__, surplus[0]))
    # Python itself checks for other missing and surplus arguments
    for (parameter, kind), value in (*zip(parameters, args, strict=False),
                                     *((by_name[name], value) for name, value in kwargs.items() if name in by_name)):
        if not kind.has(value):
            text = " ".join(repr(value).split())
            raise PreconditionError(
                f"{function.__name__}: {parameter.name}= must be {kind.one}, not "
                f"{text if len(text) <= _LONGEST else text[:_LONGEST] + '...'}.", subject=parameter.name,
                hint=f"{parameter.name}=[{getattr(value, 'name', '...')}]" if kind.has([value]) else
                _example(function) if parameter.default is parameter.empty else
                f"the default is {parameter.name}={parameter.default!r}")


@functools.cache
def _parameters(function: Callable[..., object]) -> tuple[tuple[inspect.Parameter, _Kind], ...]:
    """The named parameters, each with the kind that its annotation names."""
    return tuple((p, _kind(p.annotation)) for p in inspect.signature(function, eval_str=True).parameters.values()
                 if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))


def fits(value: object, annotation: Any) -> bool:
    """Is *value* of the kind that *annotation* names?

    >>> fits({"i": 16}, Mapping[str, int]), fits(["i"], Mapping[str, int]), fits(True, int | str)
    (True, False, False)
    """
    return _kind(annotation).has(value)


class _Kind(NamedTuple):
    """The values that an annotation allows, and the words of an error for one of them, and for several."""

    has: Callable[[Any], bool]
    one: str
    several: str


@functools.cache
def _kind(annotation: Any) -> _Kind:
    """The kind that *annotation* names; any value is of a kind that this function does not list."""
    origin: Any = get_origin(annotation) or annotation
    inner = get_args(annotation)
    if origin is Callable:
        return _Kind(callable, "a function", "functions")
    if annotation in _NUMBERS:
        return _Kind(lambda value: isinstance(value, _NUMBERS[annotation]) and not isinstance(value, bool),
                     *_WORDS[annotation])
    if annotation in (Any, npt.DTypeLike):
        return _Kind(lambda value: True, *_WORDS[annotation])
    kinds = [_kind(part) for part in inner if part is not ...]
    if origin is Union or origin is UnionType:
        one, several = zip(*dict.fromkeys((kind.one, kind.several) for kind in kinds), strict=True)
        return _Kind(lambda value: any(kind.has(value) for kind in kinds), _either_of(one), _either_of(several))
    # a method's self has no annotation
    if not isinstance(origin, type) or annotation in (object, inspect.Parameter.empty):
        return _Kind(lambda value: True, "a value", "values")
    if not inner:
        name = origin.__name__
        words = f"{'an' if name[0] in 'AEIOU' else 'a'} {name}", f"{name} objects"
        return _Kind(lambda value: isinstance(value, origin), *_WORDS.get(annotation, words))
    if issubclass(origin, Mapping):
        of = f"of {' to '.join(kind.several for kind in kinds)}"
        return _Kind(lambda value: isinstance(value, origin) and all(
            kinds[0].has(k) and kinds[1].has(v) for k, v in value.items()), f"a mapping {of}", f"mappings {of}")
    if issubclass(origin, tuple) and inner[-1] is not ...:
        parts = f"({', '.join(kind.one for kind in kinds)})"
        return _Kind(lambda value: isinstance(value, tuple | list) and len(value) == len(kinds) and all(
            kind.has(part) for kind, part in zip(kinds, value, strict=True)), f"a tuple {parts}", f"tuples {parts}")
    # a text, bytes and a mapping do not count as lists
    return _Kind(lambda value: not issubclass(origin, Iterable) or (isinstance(value, origin) and not isinstance(
        value, str | bytes | Mapping) and all(map(kinds[0].has, value))),
        f"a list of {kinds[0].several}", f"lists of {kinds[0].several}")


def _either_of(parts: Sequence[str]) -> str:
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
