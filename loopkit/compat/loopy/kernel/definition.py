"""The definition of a kernel, which is made again when a function that it calls changes."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, Protocol, Self

import numpy as np

import loopkit as lk
from loopkit.compat.loopy.kernel.function_interface import SideEffect
from loopkit.compat.loopy.nesting import Nesting
from loopkit.compat.loopy.order import Order
from loopkit.compat.loopy.spelling import VariableTags
from loopkit.errors import LoopkitError

#: The functions that statements call: those of numbers, those without results, and kernels.
Callee = lk.ScalarFunction | SideEffect | lk.LoopKernel


class Text(Protocol):
    """The arguments of make_kernel.

    :ivar calls: the names before parentheses in the text, each with the number of values in them.
    :ivar fixed: the parameters that get values when the kernel is made.
    :ivar arguments: the arguments of make_kernel, without the target and the options.
    """

    @property
    def name(self) -> str: ...

    @property
    def calls(self) -> Mapping[str, int]: ...

    @property
    def fixed(self) -> Mapping[str, Any]: ...

    @property
    def arguments(self) -> Mapping[str, Any]: ...

    def made(self, functions: Sequence[Callee] = (), facts: Iterable[str] = (),
             packed: frozenset[str] = frozenset()) -> Any:
        """The kernel of the layer, with the *functions* that the text calls."""

    def grown(self, kernel: Any) -> Any:
        """The kernel of the layer with the parts of *kernel*, which grows."""

    def renamed(self, old: str, new: str) -> Self:
        """The text with another name of a function, or of the kernel."""

    def extended(self, preambles: Iterable[tuple[str, str]], manglers: Iterable[Callable[[Any, str], Any]]) -> Self:
        """The text with further preambles and symbol manglers."""


@dataclass(frozen=True)
class Parts:
    """The parts of a kernel that a program builds step by step; they need to make sense when the kernel is used.

    :ivar iname_tags: tags of inames, as pairs.
    """

    name: str
    domains: Sequence[Any]
    instructions: Sequence[Any]
    args: Sequence[Any]
    temporary_variables: Mapping[str, Any]
    substitutions: Mapping[str, Any]
    iname_tags: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Definition:
    """The text of a kernel, and the steps since it was made.

    :ivar steps: functions of a kernel of the layer.
    :ivar packed: the functions that get slices of another rank than their arguments.
    :ivar fault: the reason why the kernel cannot be made without further functions, or with those that it has.
    :ivar parts: those of a kernel that grows, which replace those of the text.
    """

    text: Text
    steps: tuple[Callable[[Any], Any], ...] = ()
    packed: frozenset[str] = frozenset()
    fault: LoopkitError | None = field(default=None, compare=False)
    parts: Parts | None = None

    @property
    def name(self) -> str:
        return self.text.name

    @property
    def calls(self) -> Mapping[str, int]:
        return self.text.calls

    def make(self, functions: Sequence[Callee]) -> Any:
        """The kernel of the layer, before the steps."""
        return self.text.made(functions, list(self._facts()), self.packed)

    def renamed(self, old: str, new: str) -> Definition:
        """The definition with another name of a function, or of the kernel."""
        return replace(self, text=self.text.renamed(old, new), packed=frozenset(
            new if x == old else x for x in self.packed))

    def _facts(self) -> Iterator[str]:
        """The assumptions of the steps, which the checks of calls need from the start; other names may come later."""
        yield from _values(self.text.fixed)
        for step in self.steps:
            name = step.apply.__name__ if isinstance(step, Again) else ""
            if name == "rename_argument":
                return
            if isinstance(step, Again) and name == "_assumed":
                yield condition_of(step.args[0] if step.args else step.kwargs["assumptions"])
            if isinstance(step, Again) and name == "fix_parameters":
                yield from _values(step.kwargs)


def _values(fixed: Mapping[str, Any]) -> Iterator[str]:
    """The values of *fixed* parameters as conditions."""
    return (f"{x} = {value}" for x, value in fixed.items() if isinstance(value, Integral))


#: A set of parameters in isl's notation.
_PARAMETERS = re.compile(r"(?:\[[^\]]*\]\s*->\s*)?\{\s*:?(?P<condition>[^{}]*)\}", re.DOTALL)


def condition_of(assumptions: Any) -> str:
    """*assumptions*, a condition or a set of parameters, as a condition.

    >>> condition_of("[n] -> { : n >= 1 }")
    'n >= 1'
    """
    text = str(assumptions).strip()
    whole = _PARAMETERS.fullmatch(text)
    return text if whole is None else whole["condition"].strip()


@dataclass(frozen=True)
class Origin:
    """The facts about the text of a kernel that outlive its steps.

    :ivar functions: those with which the kernel was made.
    :ivar order: loopy's relation between the statements.
    :ivar nesting: the order of loops that the user gave.
    :ivar realized: the statements whose reductions are shown as their init, their updates and their final value.
    :ivar tagged: the rules that stand for tagged names: the name and the tag of each.
    :ivar index_dtype: loopy's dtype of indices; loopkit chooses one for each text.
    :ivar variable_tags: tags of the variables in each statement, by variable and direction.
    """

    functions: tuple[Callee, ...] = ()
    order: Order = field(default_factory=Order)
    nesting: Nesting = field(default_factory=Nesting)
    realized: frozenset[str] = frozenset()
    tagged: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    index_dtype: Any = np.int32
    variable_tags: Mapping[str, VariableTags] = field(default_factory=dict)


@dataclass(frozen=True)
class Again:
    """The step *apply* with its arguments, as a function of a kernel."""

    apply: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __call__(self, kernel: Any) -> Any:
        return self.apply(kernel, *self.args, **self.kwargs)
