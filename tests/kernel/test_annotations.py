"""Wrong values for each argument of each public function: errors of ours, never Python's."""
from __future__ import annotations

import doctest
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import loopkit as lk
from loopkit.errors import InternalError
from loopkit.kernel.annotations import fits
from tests.transform.kernels import F32, twice

WRONG = [None, True, 3, 0, -1, 2.5, math.nan, "", "a b", "nosuch", b"i", [], {}, object(), [3], [None], ["a b"],
         [["i"]], ("i", None), {3: "i"}, {"i": None}, {"i": "x"}, {"i": 2.5}, {"a b": 4}, np.array([1, 2]), np.float32,
         lambda x: x]

#: The call that stands for one of a function whose docstring has none.
CALLS: Mapping[str, tuple[tuple[object, ...], dict[str, object]]] = {
    "check_equivalent": ((twice(), twice(), {"n": 4}), {"target": "c"}),
    "compile": ((twice(), "c"), {})}


#: Functions that write a file wherever an argument says.
WRITERS = {"assert_golden", "review"}


def functions() -> list[str]:
    return [name for name in lk.__all__ if inspect.isfunction(getattr(lk, name)) and name not in WRITERS]


def example(name: str) -> tuple[tuple[object, ...], dict[str, object]]:
    """The arguments of the last call of the function *name* in its docstring."""
    if name in CALLS:
        return CALLS[name]
    function, found = getattr(lk, name), []

    def recorded(*args: object, **kwargs: object) -> object:
        found.append((args, kwargs))
        return function(*args, **kwargs)
    library = SimpleNamespace(**{**vars(lk), name: recorded})
    examples = doctest.DocTestParser().get_examples(function.__doc__)
    names: dict[str, object] = {"lk": library, "np": np, name: recorded}
    for one in examples:
        exec(compile(one.source, "<docstring>", "exec"), names)
    return found[-1]


def arguments(name: str) -> tuple[inspect.Signature, dict[str, object]]:
    """The parameters of the function *name*, and arguments that it takes."""
    signature = inspect.signature(getattr(lk, name))
    args, kwargs = example(name)
    return signature, dict(signature.bind(*args, **kwargs).arguments)


def refused(call: Callable[[], object]) -> bool:
    """Whether *call* raises one of the errors that are meant for users."""
    try:
        call()
    except InternalError:
        raise
    except lk.LoopkitError:
        return True
    return False


def call_refused(name: str, given: Mapping[str, object]) -> bool:
    function = getattr(lk, name)
    bound = inspect.BoundArguments(inspect.signature(function), dict(given))               # type: ignore[arg-type]
    return refused(lambda: function(*bound.args, **bound.kwargs))


def wrong(given: Mapping[str, object], parameter: inspect.Parameter) -> Iterator[tuple[object, dict[str, object]]]:
    """Each wrong value, and *given* with it."""
    for value in WRONG:
        if isinstance(value, type) and "Callable" in str(parameter.annotation):
            continue                                                # a class is a function
        yield value, {**given, parameter.name: dict.fromkeys(given.get(parameter.name, {"nosuch": 0}), value)
                      if parameter.kind is parameter.VAR_KEYWORD else value}


@pytest.mark.parametrize("name", functions())
def test_wrong_values(name: str) -> None:
    """Each argument in turn, with the others right."""
    signature, given = arguments(name)
    assert not call_refused(name, given)
    for parameter in signature.parameters.values():
        is_text = parameter.annotation in ("str", "str | None")
        for value, changed in wrong(given, parameter):
            result = call_refused(name, changed)
            if is_text and not isinstance(value, str | None):
                assert result, f"{name}({parameter.name}={value!r})"
            if is_text and isinstance(value, str) and value == "a b" and parameter.name != "assume":
                assert result, f"{name}({parameter.name}={value!r})"


#: Values that are right for all needed arguments at once: of a kernel that may grow, and of one that permutes axes.
RIGHT = {"make_kernel": [], "make_einsum": "nosuch"}


@pytest.mark.deep(every=61)
@pytest.mark.parametrize("name", functions())
def test_all_wrong(name: str) -> None:
    signature, _ = arguments(name)
    for value in WRONG:
        needed = {p.name: value for p in signature.parameters.values() if p.default is p.empty
                  and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
        if not (isinstance(value, str | list) and value == RIGHT.get(name)):
            assert call_refused(name, needed), f"{name}({needed})"


LIBRARY = {name: f for name, f in vars(lk.library).items() if inspect.isfunction(f)}


@pytest.mark.parametrize("name", LIBRARY)
def test_wrong_kinds_for_the_library(name: str) -> None:
    """Each argument of another kind than its annotation is refused, before a kernel is made."""
    function = LIBRARY[name]
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        for value in WRONG:
            if not fits(value, parameter.annotation):
                needed = {"rowptr": np.array([0, 2, 5])} if name == "csr_pieces" else {}
                with pytest.raises(lk.PreconditionError, match=f"{name}: {parameter.name}= must be "):
                    function(**{**needed, parameter.name: value})


def test_a_length_of_rows_is_a_number() -> None:
    for wrong_length in (math.nan, math.inf, -1.0):
        assert refused(lambda length=wrong_length: lk.library.csr_matvec(row_length=length))   # type: ignore[misc]
    assert refused(lambda: lk.library.csr_matvec(row_length=4, lanes=0))


DECLARATIONS = [lk.GlobalArg("x", F32, "n"), lk.ValueArg("a", F32), lk.TemporaryVariable("t", F32, (4,), "private")]


@pytest.mark.parametrize("declared", DECLARATIONS, ids=lambda d: type(d).__name__)
def test_wrong_declarations(declared: Any) -> None:
    def made(declaration: object) -> lk.LoopKernel:
        return lk.make_kernel("{[i]: 0<=i<4}", "t[i] = a*x[i]\ny[i] = t[i]",
                              [declaration, *(d for d in DECLARATIONS if d is not declared), "..."])
    made(declared)
    for field in vars(declared):
        for value in WRONG:
            changed = {**vars(declared), field: value}
            refused(lambda changed=changed: made(type(declared)(**changed)))               # type: ignore[misc]


@pytest.mark.parametrize("made", [
    lambda: lk.GlobalArg(3), lambda: lk.ValueArg(3), lambda: lk.TemporaryVariable(3),        # type: ignore[arg-type]
    lambda: lk.GlobalArg("y", F32, shape=2.5), lambda: lk.GlobalArg("y", F32, shape=(True,)),  # type: ignore[arg-type]
    lambda: lk.GlobalArg("y", F32, shape={"n": 3}), lambda: lk.GlobalArg("y", F32, shape=-3),  # type: ignore[arg-type]
    lambda: lk.GlobalArg("y", F32, cache_policy=3)])                                             # type: ignore[arg-type]
def test_refused_declarations(made: Callable[[], object]) -> None:
    with pytest.raises(lk.PreconditionError):
        lk.make_kernel("{[i]: 0<=i<3}", "y[i] = 2*x[i]", [made(), "..."])


@pytest.mark.parametrize("made", [lk.Options, lk.CudaTarget, lk.CTarget, lk.ReductionOperation])
def test_wrong_fields(made: Any) -> None:
    given = {"name": "largest", "combine": "max(a, b)"} if made is lk.ReductionOperation else {}
    made(**given)
    for field in inspect.signature(made).parameters:
        for value in WRONG:
            changed = {**given, field: value}
            refused(lambda changed=changed: made(**changed))                               # type: ignore[misc]


@pytest.mark.parametrize(("value", "kind", "expected"), [
    (np.int64(3), int, True), (True, int, False), (2.0, int, False), (3, float, True), (np.float32(3), float, True),
    ("3", float, False), (True, float, False), (3j, float, False), (None, int | None, True),
    ("i", Iterable[str], False), (b"i", Iterable[str], False), ({"i": 3}, Iterable[str], False),
    ({"i"}, Iterable[str], True), ({"i"}, Sequence[str], False),
    (("i", 3), Sequence[str], False), (("i", None), Sequence[str | None], True),
    (["i", 3], tuple[str, int], True), (("i",), tuple[str, int], False), (("i", "j"), tuple[str, ...], True),
    ({"i": 3}, Mapping[str, int], True), ({"i": "x"}, Mapping[str, int], False), ({3: 3}, Mapping[str, int], False),
    (len, Callable[..., Any], True), (3, Callable[..., Any], False), (3, npt.DTypeLike, True), (3, Any, True),
    (3, object, True)])
def test_fits(value: object, kind: Any, expected: bool) -> None:
    assert fits(value, kind) is expected


@pytest.mark.parametrize(("call", "message", "hint"), [
    (lambda: lk.tile(twice(), ["i"]),                                                      # type: ignore[arg-type]
     "tile: tile_sizes= must be a mapping of texts to integers, not ['i'].",
     'for example lk.tile(knl, {"i": 32, "j": 32})'),
    (lambda: lk.reverse(twice(), "i", within=3),                                           # type: ignore[arg-type]
     "reverse: within= must be a text, a user tag, a class, a list of texts, user tags or classes or None, not 3.",
     "the default is within=None"),
    (lambda: lk.tag_inames(twice(), ["i:l.0"]),                                            # type: ignore[list-item]
     "tag_inames: iname_to_tag= must be a mapping of texts to texts, InameTag objects, user tags or lists of texts, "
     "InameTag objects or user tags, a list of tuples (a text, a text, an InameTag, a user tag or a list of texts, "
     "InameTag objects or user tags) or a text, not ['i:l.0'].", None),
    (lambda: lk.make_kernel("{[i]: 0<=i<n}", "y[i] = f(i)", functions=lk.ScalarFunction("f", 1)),   # type: ignore[arg-type]
     "make_kernel: functions= must be a list of ScalarFunction objects or LoopKernel objects, not "
     "ScalarFunction(name='f', arity=1).", "functions=[f]"),
    (lambda: lk.library.copy(threads="256"),                                               # type: ignore[arg-type]
     "copy: threads= must be an integer or None, not '256'.", "the default is threads=None")])
def test_messages(call: Callable[[], object], message: str, hint: str | None) -> None:
    with pytest.raises(lk.PreconditionError) as caught:
        call()
    assert caught.value.message == message
    assert hint is None or caught.value.hint == hint
