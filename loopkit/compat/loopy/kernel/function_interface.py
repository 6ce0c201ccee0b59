"""Functions of numbers with loopy's interface."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Self

import numpy as np

import loopkit as lk
from loopkit.compat.loopy.kernel.results import UserCall, function_of, value_dtype
from loopkit.compat.loopy.types import NumpyType
from loopkit.errors import PreconditionError, TypeInferenceError
from loopkit.expr.functions import functions_in

#: The dtypes of arguments for which a function is asked in advance.
_DTYPES = ("float32", "float64", "int32", "int64", "uint32", "uint64", "complex64", "complex128")


@dataclass(frozen=True)
class SideEffect:
    """A registered function without a result, whose calls are statements: ``f(x[i])``.

    :ivar text: its name in C.
    """

    name: str
    text: str
    preamble: str = ""


def functions_called(core: lk.LoopKernel) -> Mapping[str, lk.ScalarFunction]:
    """The functions of numbers that the statements and the rules of *core* call, by name.

    >>> [*functions_called(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = sin(x[i])"))]
    ['sin']
    """
    rules = (r.expr for r in core.substitutions.values())
    every = (*rules, *(e for s in core.statements for e in (s.expression, s.assignee, *s.predicates)))
    return {f.name: f for e in every for f in functions_in(e)}


@dataclass(frozen=True)
class ScalarCallable:
    """A function of numbers; a subclass has ``with_types``.

    :ivar arg_id_to_dtype: the dtypes of the arguments, by their places, and of the result, by the place -1.
    :ivar name_in_target: the name of the function in the generated text.
    """

    name: str
    arg_id_to_dtype: Mapping[Any, Any] | None = field(default=None, hash=False)
    arg_id_to_descr: Mapping[Any, Any] | None = field(default=None, hash=False)
    name_in_target: str | None = None

    def copy(self, **changes: Any) -> Self:
        return replace(self, **changes)

    def with_types(self, arg_id_to_dtype: Mapping[Any, Any], clbl_inf_ctx: Any) -> tuple[Any, Any]:
        """The function for arguments of the given dtypes."""
        raise NotImplementedError(f"{type(self).__name__} has no with_types")

    def generate_preambles(self, target: Any) -> Sequence[tuple[str, str]]:
        """The definitions that a generated text needs."""
        return ()

    def core(self, name: str, arity: int, target: Any) -> lk.ScalarFunction | SideEffect:
        """loopkit's function, called *name*; one without a result has side effects.

        :raises PreconditionError: it has no result, and another name in the text for each dtype.
        """
        known: dict[str, Any] = {}
        for dtypes in _combinations(arity):
            # a dtype that the function is not for raises an error of any class; a call with it raises the error again
            with suppress(Exception):
                names = [x.name for x in dtypes]
                known[names[0] if len({*names}) == 1 else ", ".join(names)] = self.typed(dtypes)
        preamble = "\n".join(text for _, text in sorted(self.generate_preambles(target)))
        counts = {len(_results(own)) for own in known.values()}
        if known and counts == {0}:
            texts = {own.name_in_target or name for own in known.values()}
            if len(texts) > 1:
                raise PreconditionError(f"The function '{name}' has no result, and in the text it has the names "
                                        f"{', '.join(sorted(texts))}.", subject=name,
                                        hint="one name_in_target for all dtypes")
            return SideEffect(name, texts.pop(), preamble)
        calls = {x: UserCall(own.name_in_target, _arguments(own), _results(own)) for x, own in known.items()}
        return function_of(lk.ScalarFunction(name, arity, self.result), calls, preamble, target)

    def typed(self, dtypes: Sequence[np.dtype[Any]]) -> Any:
        """The function for arguments of *dtypes*."""
        return self.with_types({k: NumpyType(dtype) for k, dtype in enumerate(dtypes)}, None)[0]

    def result(self, *dtypes: Any) -> np.dtype[Any]:
        """The dtype of a call with arguments of *dtypes*; :raises TypeInferenceError: there is none."""
        given = [np.dtype(d) for d in (dtypes[0] if len(dtypes) == 1 and isinstance(dtypes[0], tuple) else dtypes)]
        found = _results(self.typed(given))
        if not found:
            raise TypeInferenceError(f"'{self.name}' has no result for arguments of {', '.join(map(str, given))}.",
                                     subject=self.name)
        return value_dtype(found)


def _combinations(arity: int) -> Iterator[Sequence[np.dtype[Any]]]:
    """The dtypes of *arity* arguments for which a function is asked: all, or of many arguments those of one dtype and
    int32.
    """
    if arity < 3:
        yield from product(map(np.dtype, _DTYPES), repeat=arity)
        return
    yield from dict.fromkeys(each for x in _DTYPES for each in product({np.dtype(x), np.dtype("int32")}, repeat=arity))


def _results(function: Any) -> Sequence[np.dtype[Any]]:
    known = {k: x for k, x in (function.arg_id_to_dtype or {}).items() if isinstance(k, int) and k < 0}
    return [np.dtype(known[k].numpy_dtype) for k in sorted(known, reverse=True)]


def _arguments(function: Any) -> Sequence[np.dtype[Any]]:
    known = {k: x for k, x in (function.arg_id_to_dtype or {}).items() if isinstance(k, int) and k >= 0}
    return [np.dtype(known[k].numpy_dtype) for k in sorted(known)]
