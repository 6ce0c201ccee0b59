"""The history of a kernel is a value: it prints as a script, can be replayed on another kernel, and can be compared."""
from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, overload

from loopkit.errors import LoopkitError, PreconditionError, ReplayError
from loopkit.kernel.literals import call_text, literal, modules_of_tags, shown
from loopkit.lazy import LazyTable
from loopkit.shown import ENTRY_POINTS, Shown

# Steps and histories

#: The transformations by name: ``loopkit/__init__.py`` gives the addresses of ours, and the decorator adds each.
TRANSFORMATIONS = LazyTable[Callable[..., Any]]()

K = TypeVar("K")


@dataclass(frozen=True, repr=False)
class HistoryStep(Shown):
    """One transformation: its name, its arguments and the verdict on it.

    :ivar verdict: ``"structural"`` (no reordering), ``"proven"``, ``"assumed"`` or ``"unsafe"``; ``"defined"``: the
        step defines another program, and later steps are proven for that one.
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
        return f"knl = {self.call('knl', text)}"

    def call(self, kernel: str, text: Callable[[object], str] = literal) -> str:
        """The call of the step on *kernel*, a text."""
        start = () if self.name == "make_kernel" else (kernel,)
        return call_text(f"lk.{self.name}", *start, *map(text, self.args), **{k: text(v) for k, v in self.kwargs})

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
        modules = {x for step in (self.made, *self.steps) for given in (step.args, dict(step.kwargs))
                   for x in modules_of_tags(given)}
        return "\n".join([*(f"import {x}" for x in sorted(modules)), *_imports(body), "", body])

    def expression(self) -> str:
        """The kernel as one expression; :raises PreconditionError: it has none, as in :meth:`script`."""
        if self.made is None:
            raise PreconditionError("The kernel was not made by make_kernel, so it has no text.", subject="history")
        return functools.reduce(lambda text, step: step.call(text), (self.made, *self.steps), "")

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
