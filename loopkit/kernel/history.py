"""The history of a kernel is a value: it prints as a script, can be replayed on another kernel, and can be compared."""
from __future__ import annotations

import ast
import difflib
import inspect
import keyword
import math
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import Enum
from typing import Any, TypeVar, overload

import numpy as np
import pymbolic.primitives as p

from loopkit.errors import LoopkitError, PreconditionError, ReplayError
from loopkit.expr.functions import ScalarFunction
from loopkit.expr.kinds import BFLOAT16, DTYPE_NAMES, dtype_of, spelled
from loopkit.expr.operations import ReductionOperation
from loopkit.kernel.c_instruction import CInstruction
from loopkit.kernel.data import AddressSpace, GlobalArg, Options, SubstitutionRule, TemporaryVariable, ValueArg
from loopkit.kernel.tags import InameTag
from loopkit.lazy import LazyTable
from loopkit.poly.sets import Set
from loopkit.shown import ENTRY_POINTS, Shown

# The text of values, for a script with "import numpy as np" and "import loopkit as lk"

#: Classes in ``lk.`` whose values an argument may hold.
Ours = (GlobalArg | ValueArg | TemporaryVariable | SubstitutionRule | ReductionOperation | ScalarFunction | CInstruction
        | Options)


def literal(value: object) -> str:
    """Python text that evaluates to *value*; numbers, texts, dtypes and their lists have one, functions and files not.

    >>> print(literal({"x": np.dtype("float32"), "shape": (4, None)}))
    {'x': np.float32, 'shape': (4, None)}

    :raises PreconditionError: *value* has no such text.
    """
    match value:
        case None | bool() | range():
            return repr(value)
        case np.generic():
            if value.dtype.kind not in "biufc" or value.dtype.name not in DTYPE_NAMES:
                raise _no_value(value)
            return f"{_type(value.dtype)}({literal(value.item())})"
        case float():
            return repr(value) if math.isfinite(value) else f"float('{float(value)}')"
        case complex():
            # the repr of a complex number loses the sign of a zero
            return f"complex({literal(value.real)}, {literal(value.imag)})"
        case AddressSpace():
            return f"lk.AddressSpace.{value.name}"
        case InameTag():
            return repr(str(value))
        case Enum():
            raise _no_value(value)
        case int():
            return repr(int(value))
        case str():
            return _text_literal(str(value))
        case np.dtype() | type():
            return _type(value)
        case _ if value is ...:
            return "..."
        case _ if isinstance(value, Ours):
            return _of_ours(value)
        case p.ExpressionNode():
            return _expression(value)
        case np.ufunc(__name__=str(name)) if getattr(np, name, None) is value:
            return f"np.{name}"
        case Set():
            return f"isl.Set({str(value)!r})"
        case Mapping():
            return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(literal, value)) + "]"
        case tuple():
            return "(" + ", ".join(map(literal, value)) + ("," if len(value) == 1 else "") + ")"
        case set() | frozenset():
            items = "{" + ", ".join(sorted(map(literal, value))) + "}" if value else "()"
            return f"{type(value).__name__}({items})" if isinstance(value, frozenset) or not value else items
        case _:
            raise _no_value(value)


def shown(value: object) -> str:
    """*value* as in :func:`literal`, or in angle brackets if it has no text form."""
    try:
        return literal(value)
    except PreconditionError:
        return f"<{getattr(value, '__qualname__', type(value).__qualname__)}>"


def call_text(function: str, *args: str, **kwargs: str) -> str:
    """``function(args, name=...)`` from arguments that are text already."""
    plain = [f"{k}={v}" for k, v in kwargs.items() if k.isidentifier() and not keyword.iskeyword(k)]
    other = ", ".join(f"{k!r}: {v}" for k, v in kwargs.items() if not k.isidentifier() or keyword.iskeyword(k))
    return f"{function}({', '.join([*args, *plain, *(['**{' + other + '}'] if other else [])])})"


def _no_value(value: object) -> PreconditionError:
    what = getattr(value, "__qualname__", type(value).__qualname__)
    return PreconditionError(f"{what!r} cannot be written as Python text.", subject=what,
                             hint="pass numbers, text, dtypes, and lists or mappings of them")


def _text_literal(value: str) -> str:
    """Lines of text as separate lines, if these make the same text."""
    if "\n" in value:
        written = f'"""{value}"""'
        plain = all(c.isprintable() or c == "\n" for c in value) and "\\" not in value and '"""' not in value
        if plain and not value.endswith('"') and ast.literal_eval(written) == value:
            return written
    return repr(value)


def _type(value: np.dtype | type) -> str:
    if isinstance(value, np.dtype):
        if dtype_of(value) is None:
            raise _no_value(value)
        return "np.bool_" if value.kind == "b" else spelled(value)
    if value in (bool, int, float, complex):
        return value.__name__
    if issubclass(value, np.generic) and value.__name__ == BFLOAT16:
        return repr(BFLOAT16)
    if issubclass(value, np.generic) and getattr(np, value.__name__, None) is value:
        return "np.bool_" if value is np.bool_ else f"np.{value.__name__}"
    raise _no_value(value)


def _of_ours(value: Ours) -> str:
    """The call of its class, with the arguments that differ from their defaults."""
    args, kwargs = [], {}
    for f in fields(value):
        given = getattr(value, f.name)
        if f.default is MISSING and f.default_factory is MISSING:
            args.append(literal(given))
        elif (bool(given) if f.default is MISSING else given is not f.default) and (
                f.default is None or given != f.default):               # float64 equals None for numpy
            kwargs[f.name] = literal(given)
    return call_text(f"lk.{type(value).__name__}", *args, **kwargs)


def _expression(value: p.ExpressionNode) -> str:
    node = type(value)
    if getattr(p, node.__name__, None) is not node:
        raise _no_value(value)
    parts = [getattr(value, f.name) for f in fields(value)]        # type: ignore[arg-type]
    return f"p.{node.__name__}({', '.join(repr(e.value) if isinstance(e, Enum) else literal(e) for e in parts)})"


# Steps and histories

#: The transformations by name: ``loopkit/__init__.py`` gives the addresses of ours, and the decorator adds each.
TRANSFORMATIONS = LazyTable[Callable[..., Any]]()

K = TypeVar("K")


@dataclass(frozen=True, repr=False)
class HistoryStep(Shown):
    """One transformation: its name, its arguments and the verdict on it.

    :ivar verdict: ``"structural"`` (no reordering), ``"proven"``, ``"assumed"`` or ``"unsafe"``.
    :ivar found_effects: :attr:`effects`, or computes them.
    """

    name: str
    args: tuple[object, ...]
    kwargs: tuple[tuple[str, object], ...]
    verdict: str = "structural"
    seconds: float = field(default=0.0, compare=False)
    found_effects: Callable[[], tuple[str, ...]] | tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def effects(self) -> tuple[str, ...]:
        """The side effects of the step, one per line, computed on first access.

        Side effects are loops reordered or distributed without a given order, changed cells of temporaries, launches,
        and loops of the host.
        """
        lines = self.found_effects if isinstance(self.found_effects, tuple) else self.found_effects()
        object.__setattr__(self, "found_effects", lines)    # the function refers to two kernels, the lines do not
        return lines

    def __getstate__(self) -> dict[str, Any]:
        """For pickling: the effects, without the kernels from which they are computed."""
        return {**self.__dict__, "found_effects": self.effects}

    def __hash__(self) -> int:
        # arguments may be mappings and lists
        return hash((self.name, len(self.args), tuple(k for k, _ in self.kwargs), self.verdict))

    def __str__(self) -> str:
        """The step as a line of a script; values without a text form appear in angle brackets."""
        return self.line(shown)

    def line(self, text: Callable[[object], str] = literal) -> str:
        """The step as a line of a script; :raises PreconditionError: an argument (a function) has no text form."""
        start = () if self.name == "make_kernel" else ("knl",)
        call = call_text(f"lk.{self.name}", *start, *map(text, self.args), **{k: text(v) for k, v in self.kwargs})
        return f"knl = {call}"

    def arguments(self) -> dict[str, object]:
        """The arguments by name."""
        function = TRANSFORMATIONS.get(self.name)
        names = ["domains", "instructions"] if self.name == "make_kernel" else []
        names = names if function is None else [*inspect.signature(function).parameters][1:]
        names += [f"argument {i}" for i in range(len(names) + 1, len(self.args) + 1)]
        return {**dict(zip(names, self.args, strict=False)), **dict(self.kwargs)}


@dataclass(frozen=True, repr=False)
class History(Sequence[HistoryStep], Shown):
    """The transformations that produced a kernel, in order: an immutable sequence of :class:`HistoryStep`.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> knl = lk.split_iname(knl, "i", 16)
    >>> [step.name for step in knl.history]
    ['split_iname']
    >>> print(knl.history.script())
    import loopkit as lk
    <BLANKLINE>
    knl = lk.make_kernel('{[i]: 0<=i<n}', 'y[i] = 2*x[i]')
    knl = lk.split_iname(knl, 'i', 16)

    :ivar made: the call of ``make_kernel`` before the steps; ``None``: the kernel was made in another way.
    :ivar proven: a step is running and has proven its legality; ``False`` in each finished kernel.
    """

    steps: tuple[HistoryStep, ...] = ()
    made: HistoryStep | None = None
    proven: bool = False

    def __len__(self) -> int:
        return len(self.steps)

    @overload
    def __getitem__(self, index: int) -> HistoryStep: ...

    @overload
    def __getitem__(self, index: slice) -> History: ...

    def __getitem__(self, index: int | slice) -> HistoryStep | History:
        return replace(self, steps=self.steps[index]) if isinstance(index, slice) else self.steps[index]

    def then(self, step: HistoryStep) -> History:
        """This history with one more step."""
        return replace(self, steps=(*self.steps, step))

    def __str__(self) -> str:
        """One line for each step, with its verdict and its time."""
        start = [str(self.made)] if self.made is not None else []
        steps = [f"{step}  # {number}: {'; '.join((f'{step.verdict}, {1000*step.seconds:.1f} ms', *step.effects))}"
                 for number, step in enumerate(self.steps, 1)]
        return "\n".join([*start, *steps])

    @property
    def headline(self) -> str:
        return f"of {len(self.steps)} steps: {', '.join(step.name for step in self.steps)}" if self else "of no steps"

    def script(self) -> str:
        """A Python script that makes the kernel, as ``knl``.

        The script has the arguments of the original calls. Each step is checked again when the script runs. Comments
        list the side effects of the steps (:attr:`HistoryStep.effects`).

        :raises PreconditionError: the kernel was not made by ``make_kernel``, or an argument of a step has no text
            form; the message names the step.
        """
        if self.made is None:
            raise PreconditionError("The kernel was not made by make_kernel, so it has no script.",
                                    subject="history", hint="history.replay(knl) applies its steps to a kernel")
        lines: list[str] = []
        for number, step in enumerate((self.made, *self.steps)):
            try:
                lines += [step.line(), *(f"#   {effect}" for effect in step.effects)]
            except PreconditionError as err:
                raise PreconditionError(f"Step {number} ({step.name}) cannot be written into a script. {err.message}",
                                        subject=err.subject, hint=err.hint) from None
        body = "\n".join(lines)
        return "\n".join([*_imports(body), "", body])

    def replay(self, kernel: K) -> K:
        """Apply the steps to *kernel*; see :func:`loopkit.replay`."""
        for number, step in enumerate(self.steps, 1):
            transformation = TRANSFORMATIONS.get(step.name)
            if transformation is None:
                raise ReplayError(f"Step {number} of the history is not a transformation of loopkit.",
                                  number=number, step=str(step))
            try:
                kernel = transformation(kernel, *step.args, **dict(step.kwargs))
            except LoopkitError as err:
                raise ReplayError(f"Step {number} of the history cannot be applied to this kernel.", number=number,
                                  step=str(step), cause=err) from err
        return kernel

    def show(self) -> Shown:
        """A document of the steps, each applied again: its verdict, its changes, the kernel and the CUDA code.

        A table lists the cost after each step: launches, threads, barriers, shared memory, and temporaries in global
        memory (scratch). Sizes are those of the kernel's text. The number of registers is known only after compilation
        (``lk.compile(knl).resources``). A notebook folds the kernel and the CUDA code of each step; ``print`` only
        names them.

        >>> knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), {"x": np.float32})
        >>> print(lk.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0").history.show())  # doctest: +ELLIPSIS
        History of 2 steps: add_dtypes, split_iname
        COST
          step               launches   threads a block  barriers  shared bytes a block  scratch bytes  full tiles
          0     make_kernel  not known
          1     add_dtypes   1          1                0         0                     0
          2     split_iname  1          16               0         0                     0              without guards
        ...
        2: split_iname(knl, 'i', 16, outer_tag='g.0', inner_tag='l.0')
          proven, ...
          Domains
            - [n] -> { [i] : 0 <= i < n }
            + [n] -> { [i_outer, i_inner] : i_outer >= 0 and 0 <= i_inner <= 15 and i_inner < n - 16i_outer }
          ...
          Statements
            - for i
            -   y[i] = 2*x[i]  {id=insn}
            + for i_outer [g.0], i_inner [l.0]
            +   y[16*i_outer + i_inner] = 2*x[16*i_outer + i_inner]  {id=insn}
              end
          ...

        :raises PreconditionError: the kernel was not made by ``make_kernel``.
        :raises ReplayError: a step cannot be applied again.
        """
        shown_steps: Shown = ENTRY_POINTS["steps"](self)
        return shown_steps

    def diff(self, other: History) -> HistoryDiff:
        """The differences between this history and *other*, step by step.

        >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
        >>> first = lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", 16)
        >>> second = lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", 32, inner_iname="lane")
        >>> print(first.history.diff(second.history))
          1  knl = lk.add_dtypes(knl, {'x': np.float32})
        - 2  knl = lk.split_iname(knl, 'i', 16)
        + 2  knl = lk.split_iname(knl, 'i', 32, inner_iname='lane')
             inner_length: 16 -> 32; inner_iname: added 'lane'
        """
        old, new = ([(i, s) for i, s in enumerate((h.made, *h.steps)) if s is not None] for h in (self, other))
        if old and new and old[0] == new[0] and old[0][0] == 0:
            del old[0], new[0]                          # an equal starting kernel is not listed
        changes = tuple(_changes(old, new))
        return HistoryDiff(changes, next((i for i, c in enumerate(changes) if c.kind != "kept"), len(changes)))


def _imports(body: str) -> Iterator[str]:
    """The imports that *body* needs."""
    third_party = [line for used, line in ((r"\bisl\.Set", "import islpy as isl"), (r"\bnp\.", "import numpy as np"),
                                           (r"\bp\.[A-Z]", "import pymbolic.primitives as p"))
                   if re.search(used, body)]
    if third_party:
        yield from (*third_party, "")
    yield "import loopkit as lk"


#: A step with its number in its history.
_Numbered = tuple[int, HistoryStep]


@dataclass(frozen=True, repr=False)
class Change(Shown):
    """One line of a comparison of two histories.

    :ivar kind: ``"kept"``, ``"changed"``, ``"removed"`` or ``"added"``.
    :ivar old: the step of the first history; ``None`` if it was added. Step 0 is the call of ``make_kernel``.
    :ivar new: the step of the second history; ``None`` if it was removed.
    """

    kind: str
    old: _Numbered | None
    new: _Numbered | None

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        for mark, step in ((" ", self.new),) if self.kind == "kept" else (("-", self.old), ("+", self.new)):
            if step is not None:
                first, *rest = str(step[1]).splitlines()
                yield f"{mark} {step[0]}  {first}"
                yield from (f"{mark}    {line}" for line in rest)
        if self.kind == "changed" and self.old is not None and self.new is not None:
            yield f"     {'; '.join(_changed_arguments(self.old[1], self.new[1]))}"


@dataclass(frozen=True, repr=False)
class HistoryDiff(Shown):
    """The differences between two histories. It prints as lines, and is false if the histories are equal.

    :ivar common: the number of steps that the two share before the first difference.
    """

    changes: tuple[Change, ...]
    common: int

    def __bool__(self) -> bool:
        return any(c.kind != "kept" for c in self.changes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes)) if self else "The histories are equal."


def _changes(old: Sequence[_Numbered], new: Sequence[_Numbered]) -> Iterator[Change]:
    """The changes from *old* to *new*: among the steps that differ, those of one name are paired in their order."""
    for equal, a, b in _blocks(old, new, lambda step: step):
        for paired, x, y in [(True, a, b)] if equal else _blocks(a, b, lambda step: step.name):
            if paired:
                yield from (Change("kept" if equal else "changed", *both) for both in zip(x, y, strict=True))
            else:
                yield from (Change("removed", step, None) for step in x)
                yield from (Change("added", None, step) for step in y)


def _blocks(old: Sequence[_Numbered], new: Sequence[_Numbered], key: Callable[[HistoryStep], Hashable]
            ) -> Iterator[tuple[bool, Sequence[_Numbered], Sequence[_Numbered]]]:
    """Blocks of consecutive steps of both histories, alternately with equal and with different keys."""
    matcher = difflib.SequenceMatcher(None, [key(s) for _, s in old], [key(s) for _, s in new], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        yield tag == "equal", old[i1:i2], new[j1:j2]


def _changed_arguments(old: HistoryStep, new: HistoryStep) -> Iterator[str]:
    before, after = ({k: shown(v) for k, v in step.arguments().items()} for step in (old, new))
    for name in dict.fromkeys((*before, *after)):
        a, b = before.get(name), after.get(name)
        if a is None or b is None:
            yield f"{name}: added {b}" if a is None else f"{name}: removed {a}"
        elif a != b:
            yield f"{name}: {a} -> {b}" if "\n" not in a + b else f"{name}: other text"
    if old.verdict != new.verdict:
        yield f"verdict: {old.verdict} -> {new.verdict}"
