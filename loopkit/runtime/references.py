"""The call of a reference function with a kernel's arguments, and its results as the kernel's outputs."""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import numpy as np

from loopkit.errors import CallError, require_known, values_text
from loopkit.expr.kinds import dtype_of, is_tuple, kind_of
from loopkit.kernel.kernel import LoopKernel
from loopkit.runtime.arguments import structural_values
from loopkit.runtime.views import NumpyArray

Function = Callable[..., Any]
Parameter = inspect.Parameter

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_SEVERAL = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class ReferenceCall:
    """A call of *function*: by position the arguments *args* of the kernel, by keyword *kwargs*.

    :ivar shown: the call as text, ``matmul(A=a, B=b)``.
    :ivar by_name: each parameter gets the kernel's argument of the same name.
    """

    function: Function
    args: tuple[str, ...]
    kwargs: Mapping[str, str]
    shown: str
    by_name: bool

    def __call__(self, given: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
        """The result for copies of *given*; an exception of the function gets a note with the *sizes*."""
        # copies, because the function may work in place
        def value(name: str) -> Any:
            return given[name].copy() if isinstance(given[name], np.ndarray) else given[name]
        args, kwargs = [value(x) for x in self.args], {k: value(x) for k, x in self.kwargs.items()}
        with _Noted(f"check_equivalent called the reference as {self.shown}{values_text(sizes, ' with {}')}; "
                    "parameters={...} chooses other sizes"):
            return self.function(*args, **kwargs)


@dataclass(frozen=True)
class _Noted:
    """Adds *note* to an exception."""

    note: str

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if error is not None:
            error.add_note(self.note)


# The parameters of a function

def parameters_of(ref: Function) -> Mapping[str, Parameter]:
    """The parameters of *ref*; those of a function in C without a signature are ``*args``."""
    if isinstance(ref, np.ufunc):
        return {f"x{k}": Parameter(f"x{k}", Parameter.POSITIONAL_ONLY) for k in range(1, ref.nin + 1)}
    try:
        return inspect.signature(ref).parameters
    except ValueError:
        return {"args": Parameter("args", Parameter.VAR_POSITIONAL)}


def reference_call(ref: Function, knl: LoopKernel, given: Collection[str], inputs: Sequence[str],
                   names: Mapping[str, str]) -> ReferenceCall:
    """The call of *ref* with the arguments *given* of *knl*.

    A parameter gets the argument that *names* chooses for it, else the one of its own name. The other parameters
    without a default get the remaining *inputs* by position. ``**kwargs`` gets all other arguments by name, except
    beside ``*args``, which gets the remaining inputs.

    :raises CallError: a parameter has no argument, or its argument is not clear.
    """
    parameters, by_name = parameters_of(ref), _matched_by_name(ref, given, names)
    has_rest = any(q.kind is q.VAR_POSITIONAL for q in parameters.values())
    remaining = [x for x in inputs if x not in by_name.values()]
    missing = [q for q in parameters.values() if q.name not in by_name and q.kind not in _SEVERAL]
    needed = [q for q in missing if q.default is q.empty]
    by_place = [*(q for q in needed if q.kind is not q.KEYWORD_ONLY),
                *(q for q in missing if q.default is not q.empty and q.kind is q.POSITIONAL_ONLY)]
    chosen = {**by_name, **{q.name: x for q, x in zip(by_place, remaining, strict=False)}}
    binding = _Binding(ref, knl, tuple(given), parameters, chosen)
    for q in needed:
        if q.name not in chosen:
            raise binding.without_value(q.name)
    rest = remaining[len(by_place):]
    if needed and rest and not has_rest:
        open_places = [q for q in missing if q.kind in _POSITIONAL]
        raise replace(binding, chosen=by_name).unclear(needed, open_places, remaining)
    keywords = {} if has_rest else {x: x for x in given if x not in parameters and x not in chosen.values()}
    return binding.call(rest if has_rest else [], keywords)


@dataclass(frozen=True)
class _Binding:
    """The *parameters* of *ref*, and the arguments of *knl* *chosen* for them so far."""

    ref: Function
    knl: LoopKernel
    given: tuple[str, ...]
    parameters: Mapping[str, Parameter]
    chosen: Mapping[str, str]

    def call(self, rest: Sequence[str], keywords: Mapping[str, str]) -> ReferenceCall:
        """The call with the arguments *rest* for ``*args``, and *keywords* for ``**kwargs``."""
        chosen = self.chosen
        args: list[str] = []
        kwargs: dict[str, str] = {x: y for x, y in chosen.items() if x not in self.parameters}
        shown: list[str] = []
        gap = ""                                        # a positional parameter that keeps its default
        for q in self.parameters.values():
            if q.kind is q.VAR_POSITIONAL and rest:
                if gap:
                    raise self.unclear([q], [q], rest)
                args += rest
                shown += rest
            elif q.kind is q.VAR_KEYWORD:
                kwargs |= keywords
            elif q.name in chosen:
                if gap and q.kind is q.POSITIONAL_ONLY:
                    raise self.without_value(gap)
                if gap or q.kind is q.KEYWORD_ONLY:
                    kwargs[q.name] = chosen[q.name]
                else:
                    args.append(chosen[q.name])
                shown.append(chosen[q.name] if q.kind is q.POSITIONAL_ONLY else _part_of_call(q.name, chosen))
            elif q.kind in _POSITIONAL:
                gap = gap or q.name
        shown += [_part_of_call(x, kwargs) for x in kwargs if x not in self.parameters]
        return ReferenceCall(self.ref, tuple(args), kwargs, f"{_reference_name(self.ref)}({', '.join(shown)})",
                             not rest and all(x == y for x, y in chosen.items()))

    def without_value(self, name: str) -> CallError:
        """The error for the parameter *name*, which gets no argument."""
        parts = [_part_of_call(q.name, self.chosen) for q in self.parameters.values()
                 if q.name in (name, *self.chosen) or (q.default is q.empty and q.kind not in _SEVERAL)]
        why = f"an output of kernel '{self.knl.name}' without a value before the call" \
            if name in self.knl.written_names else "which check_equivalent has no value for"
        call = f"{_reference_name(self.ref)}({', '.join(parts)})"
        return CallError(f"the reference function takes '{name}', {why}: {call}.", argument=name,
                         hint=self._right_call(f"choose one of {', '.join(self.given)} by", [name]))

    def unclear(self, needed: Sequence[Parameter], places: Sequence[Parameter], remaining: Sequence[str]) -> CallError:
        """The error for fewer parameters, *needed*, than *remaining* inputs.

        :arg places: all parameters that could get one, those with a default among them.
        """
        names = [q.name for q in needed]
        return CallError(f"it is not clear which inputs of kernel '{self.knl.name}' the reference function takes as "
                         f"{', '.join(map(repr, names))}: the inputs are {', '.join(map(repr, remaining))}.",
                         argument=names[0], hint=self._right_call("for example", [q.name for q in places]))

    def _right_call(self, words: str, parameters: Sequence[str]) -> str:
        """A way to pass arguments for *parameters*."""
        arrays = [x for x in self.given if x in self.knl.array_args]
        unused = [x for x in arrays or self.given if x not in self.chosen.values()] or arrays or self.given
        if not unused:
            return "the kernel has no arguments with a value before the call"
        names = ", ".join(f"'{name}': '{x}'" for name, x in zip(parameters, unused, strict=False))
        return (f"{words} names={{{names}}}, or wrap it: lambda {', '.join(arrays or self.given)}: "
                f"{_reference_name(self.ref)}(...)")


def _matched_by_name(ref: Function, given: Collection[str], names: Mapping[str, str]) -> dict[str, str]:
    """The argument of each parameter in *names*, and of each whose own name is that of an argument.

    :raises UnknownNameError: a name is not a parameter, or not an argument.
    """
    parameters = parameters_of(ref)
    if not any(q.kind is q.VAR_KEYWORD for q in parameters.values()):
        require_known("parameter", names, [q.name for q in parameters.values() if q.kind not in _SEVERAL],
                      where="the reference function")
    require_known("input", names.values(), given, where="the kernel")
    # the keywords of functools.partial have values
    fixed = ref.keywords if isinstance(ref, functools.partial) else {}
    own = {x: x for x, q in parameters.items() if x in given and x not in fixed and q.kind not in _SEVERAL}
    return {**own, **names}


def _part_of_call(name: str, chosen: Mapping[str, str]) -> str:
    return f"{name}={chosen.get(name, '?')}"


def _reference_name(ref: Function) -> str:
    """The name of *ref* in a call."""
    function = ref.func if isinstance(ref, functools.partial) else ref
    name = str(getattr(function, "__name__", type(function).__name__))
    return name if name.isidentifier() else "reference"


def positional_inputs(knl: LoopKernel, reads: Collection[str], given: Collection[str]) -> list[str]:
    """The arguments that a function may take by position: arrays that *knl* reads, and numbers other than sizes."""
    sizes = structural_values(knl)
    return [a.name for a in knl.arguments if a.name in given
            and (a.name in reads if a.name in knl.array_args else a.name not in sizes)]


# The results

def named_results(result: Any, got: Mapping[str, NumpyArray], knl: LoopKernel) -> dict[str, NumpyArray]:
    """The *result* of a reference function by output: a mapping, a tuple or list in *knl*'s order, or the only one.

    :arg got: the outputs of the kernel. A list of their shape is an array.
    :raises CallError: an output is missing, or is not an array.
    """
    names = list(got)
    only = names[0] if len(names) == 1 else None
    if isinstance(result, Mapping):
        found = dict(result)
    elif isinstance(result, tuple | list) and len(result) == len(names) and not (
            only is not None and isinstance(result, list) and got[only].ndim == 1 and np.isscalar(result[0])):
        found = dict(zip(names, result, strict=True))
    elif only is not None and result is not None and not isinstance(result, tuple):
        found = {only: result}
    else:
        what = f"{len(result)} values" if isinstance(result, tuple | list) else f"an object of {type(result).__name__}"
        raise CallError(f"the reference function gives no '{names[0]}': it returns "
                        f"{'None' if result is None else what}, and kernel '{knl.name}' has the output"
                        f"{'' if only else 's'} {', '.join(names)}.", argument=names[0], hint=_right_return(names))
    missing = [x for x in names if found.get(x) is None]
    if missing:
        raise CallError(f"the reference function gives no '{missing[0]}'.", argument=missing[0],
                        hint=_right_return(names))
    return {name: _number_array(name, found[name]) for name in names}


def _right_return(names: Sequence[str]) -> str:
    keys = ", ".join(f"'{x}': {x}" for x in names)
    return f"return {', '.join(names)}{' in this order' if len(names) > 1 else ''}, or the dict {{{keys}}}"


def _number_array(name: str, value: Any) -> NumpyArray:
    if np.ma.is_masked(value):
        raise CallError(f"the reference function gives a masked array for '{name}'.", argument=name,
                        hint=f"return {name}.filled(...)")
    try:
        array = np.asarray(value)
    except ValueError:                                     # rows of different lengths
        array = np.asarray(None)
    if kind_of(array.dtype) not in "biufc" and not (is_tuple(array.dtype) and dtype_of(array.dtype) is not None):
        raise CallError(f"the reference function gives no array of numbers for '{name}', but a "
                        f"{type(value).__name__}.", argument=name, hint=f"return {name} as a numpy array")
    return array
