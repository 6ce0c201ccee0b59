"""The exception classes of loopkit: each message is one sentence in the user's terms, a witness and a way out."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from loopkit.shown import ENTRY_POINTS, Shown


class LoopkitError(RuntimeError, Shown):
    """Base of every error that loopkit raises on purpose.

    :ivar message: one sentence that names the thing in the user's terms.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = message
        self._known: tuple[str, ...] = () if hint is None else (hint,)
        self._tried: Callable[[Sequence[str]], Sequence[str]] = tuple
        super().__init__(message)

    @cached_property
    def hints(self) -> tuple[str, ...]:
        """Ways out; those that must be tried are computed at the first access."""
        return tuple(self._tried(self._known))

    def try_hints(self, tried: Callable[[Sequence[str]], Sequence[str]]) -> None:
        """Let *tried* compute the hints, from the hints known so far, at the first access to :attr:`hints`."""
        self._tried = tried
        self.__dict__.pop("hints", None)

    @property
    def hint(self) -> str | None:
        """The hints as one text; ``None``: there are none."""
        return "; ".join(self.hints) or None

    def details(self) -> Sequence[str]:
        """The lines between the sentence and the hint: a witness, a source line."""
        return ()

    def __str__(self) -> str:
        lines = [self.message, *(f"  {line}" for line in self.details())]
        if self.hint is not None:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    @property
    def headline(self) -> str:
        return f"{type(self).__name__}: {self.message}"

    def plot(self) -> Any:
        """A picture of the witness: when its two instances run, before the step and after it.

        :raises PreconditionError: the error does not name two instances with an order.
        """
        return ENTRY_POINTS["plot_error"](self)

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython shows: the caller's own line and the message, without loopkit's frames."""
        return list(ENTRY_POINTS["traceback"](self))


class LoopkitWarning(UserWarning):
    """Base of the warnings of ``make_kernel`` about a kernel that is valid and probably not what its author meant.

    ``warnings.simplefilter("ignore", lk.LoopkitWarning)`` silences all of them, and a subclass in its place one kind.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)


class UnusedInameWarning(LoopkitWarning):
    """An iname of the domains that no statement uses."""


class MisspelledNameWarning(LoopkitWarning):
    """A scalar argument that is declared nowhere, and resembles another name of the kernel."""


class ParseError(LoopkitError):
    """Raised by ``make_kernel`` and by arguments that are texts: a text is not in the kernel language.

    :ivar line: number of the offending line, from 1; likewise *column*. ``None``: an object is wrong, not a text.
    :ivar expected: the token that would have been right there.
    :ivar source: the text of the line, or the printed object.
    """

    def __init__(self, message: str, *, line: int | None, column: int | None, expected: str, source: str,
                 hint: str | None = None) -> None:
        self.line = line
        self.column = column
        self.expected = expected
        self.source = source
        super().__init__(message, hint=hint)

    def details(self) -> Sequence[str]:
        if self.line is None or self.column is None:
            return f"in an object: expected {self.expected}", f"  {self.source}"
        return (f"line {self.line}, column {self.column}: expected {self.expected}",
                f"  {self.source}", "  " + " " * (self.column - 1) + "^")


class UnknownNameError(LoopkitError):
    """Raised if a text, a transformation or a call names something that the kernel does not have.

    :ivar kind: the kind of name expected (``"iname"``, ``"argument"``, ``"statement"``, ...).
    :ivar name: the name given.
    :ivar close: the known names that resemble it, which the hint then lists.
    """

    def __init__(self, kind: str, name: object, known: Iterable[str], *, where: str = "the kernel",
                 hint: str | None = None) -> None:
        self.kind = kind
        self.name = str(name)
        names = list(dict.fromkeys(known))
        self.close = tuple(get_close_matches(self.name, names, n=2))
        if self.close:
            hint = "did you mean " + " or ".join(f"'{c}'" for c in self.close) + "?"
        elif hint is None and 0 < len(names) <= 8:
            hint = f"there {'is only' if len(names) == 1 else 'are'} {', '.join(names)}"
        article = "an" if kind[:1] in "aeiou" else "a"
        super().__init__(f"'{name}' is not {article} {kind} of {where}.", hint=hint)


def require_known(kind: str, names: Iterable[str], known: Collection[str], *, where: str = "the kernel") -> None:
    """:raises UnknownNameError: one of *names* is not in *known*."""
    for name in names:
        if name not in known:
            raise UnknownNameError(kind, name, known, where=where)


class PreconditionError(LoopkitError):
    """Raised if the precondition of a transformation or of a call does not hold.

    :ivar subject: the name or value that violates the precondition.
    """

    def __init__(self, message: str, *, subject: str = "", hint: str | None = None) -> None:
        self.subject = subject
        super().__init__(message, hint=hint)


class NameConflictError(PreconditionError):
    """Raised if a new name is reserved or already taken in the kernel."""


class TypeInferenceError(PreconditionError):
    """Raised if a dtype cannot be inferred, two contradict each other, or an operation does not exist for one."""


class ShapeError(PreconditionError):
    """Raised if the shape of an array or a temporary cannot be inferred or does not fit its accesses, or if a call
    passes a smaller slice than its function declares.
    """


class ScheduleError(PreconditionError):
    """Raised if the nesting of the loops does not allow a transformation or a barrier."""


class StorageError(PreconditionError):
    """Raised if nothing writes a temporary that is read, or its address space, shape or layout cannot hold values."""


@dataclass(frozen=True, repr=False)
class Witness(Shown):
    """The two statement instances in an :class:`IllegalTransformError` or a :class:`VerificationError`: their order or
    their value would be wrong.

    :ivar parameters: values of the kernel's size parameters.
    :ivar source: id and iname values of the instance that must run first.
    :ivar sink: id and iname values of the instance that must run later.
    :ivar array: the array that both access.
    :ivar element: the subscripts that both access; ``None``: they are not affine.
    :ivar kind: ``"flow"``, ``"anti"``, ``"output"`` or ``"explicit"``; for a copy with a wrong value for its reader,
        ``"missing"`` (nothing was copied into the cell) or ``"value"`` (another value was copied).
    :ivar smallest: no smaller witness exists; ``False``: the search for the smallest was too expensive.
    """

    parameters: Mapping[str, int]
    source: tuple[str, Mapping[str, int]]
    sink: tuple[str, Mapping[str, int]]
    array: str
    element: tuple[int, ...] | None
    kind: str
    smallest: bool = True

    def __str__(self) -> str:
        sizes = values_text(self.parameters, "with {}: ")
        start = sizes if self.smallest else f"one of several{', ' if sizes else ': '}{sizes}"
        source, sink, cell = instance_text(*self.source), instance_text(*self.sink), cell_text(self.array, self.element)
        return start + {
            "explicit": f"{source} must run before {sink} (dep=)",
            "missing": f"{sink} reads {cell}, which no instance of {self.source[0]} has written",
            "value": f"{sink} reads {cell}, where {source} has put another value",
            "flow": f"{source} writes {cell}, which {sink} reads",
            "anti": f"{source} reads {cell}, which {sink} writes",
            "output": f"{source} writes {cell}, which {sink} writes too"}[self.kind]


def values_text(values: Mapping[str, int], form: str = "{}") -> str:
    """``n = 2, m = 3`` in its place in *form*; empty if there are no *values*."""
    return form.format(", ".join(f"{k} = {v}" for k, v in values.items())) if values else ""


def cell_text(array: str, element: Sequence[int] | None) -> str:
    """``a[0, 1]``; the array alone if it is a scalar or its subscripts are unknown."""
    return f"{array}[{', '.join(map(str, element))}]" if element else array


def instance_text(statement: str, inames: Mapping[str, int]) -> str:
    """``S[i=0, j=1]``, the form of a statement instance in every message."""
    if not inames:
        return statement
    return f"{statement}[{', '.join(f'{k}={v}' for k, v in inames.items())}]"


class IllegalTransformError(LoopkitError):
    """Raised by a transformation that would run dependent statement instances in the wrong order, or at once.

    :ivar witness: the instances, the sizes and the element.
    :ivar before: the kernel before the step, or ``None``; *after*: the kernel after the step, or ``None`` if the step
        failed earlier. If lowering finds the conflict, both are the kernel itself. The type is ``Any`` because this
        module does not import kernels.
    """

    def __init__(self, message: str, witness: Witness, hints: Sequence[str] = (), *, before: Any = None,
                 after: Any = None) -> None:
        self.witness = witness
        self.before = before
        self.after = after
        super().__init__(message)
        self._known = tuple(hints)

    def details(self) -> Sequence[str]:
        return (str(self.witness),)

    def replay(self, *, seed: int = 0, **given: Any) -> Any:
        """Run both orders at the witness's sizes and show the cells that differ.

        numpy runs the statement instances one by one, in two orders: the order before the step, and an order that the
        step would have allowed. The second order runs the witness's second instance before the first. The order of
        threads and blocks is chosen so if the order of the loops leaves it open.

        >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "a[i+1] = a[i] + b[i]")
        >>> try:
        ...     lk.tag_inames(knl, {"i": "g.0"})
        ... except lk.IllegalTransformError as err:
        ...     print(err.replay(a=np.array([1., 0., 0.]), b=np.array([2., 3.])))
        with n = 2: insn[i=0] writes a[1], which insn[i=1] reads
          the second instance could run before the first
          insn[i=1] reads 3.0, and would read 0.0
        cells that differ, of 2 written (seed 0):
          a[2] is 6.0, and would be 3.0

        :arg seed: the seed of the random data. Each element is drawn on its own, so no array needs a shape.
        :arg given: arrays and scalars by name in place of random ones; sizes in place of the witness's.
        :returns: a :class:`loopkit.Replay`.
        :raises PreconditionError: the error was raised before a step had made an order, or the kernel computes its own
            loop bounds.
        :raises CallError: an argument does not fit.
        """
        return ENTRY_POINTS["replay"](self, seed=seed, **given)


class UndecidedError(LoopkitError):
    """Raised if the analysis cannot give an answer that a step needs, or not within its limits.

    :ivar reason: the obstacle.
    """

    def __init__(self, message: str, reason: str, *, hint: str | None = None) -> None:
        self.reason = reason
        super().__init__(message, hint=hint)

    def details(self) -> Sequence[str]:
        return (self.reason,)


@dataclass(frozen=True, repr=False)
class AccessWitness(Shown):
    """The access that a :class:`VerificationError` names: a statement instance reads an element without a valid value,
    or accesses an element outside its array.

    :ivar parameters: values of the kernel's size parameters.
    :ivar instance: id and iname values of the instance.
    :ivar how: ``"reads"``, ``"writes"`` or ``"accesses"``.
    """

    parameters: Mapping[str, int]
    instance: tuple[str, Mapping[str, int]]
    array: str
    element: tuple[int, ...]
    how: str = "reads"

    def __str__(self) -> str:
        return (f"{values_text(self.parameters, 'with {}: ')}{instance_text(*self.instance)} {self.how} "
                f"{cell_text(self.array, self.element)}")


class VerificationError(LoopkitError):
    """Raised by code generation and by ``Report.raise_if_refuted`` if a check refutes a kernel.

    :ivar check: the check: ``"races"``, ``"barriers"``, ``"coverage"``, ...
    :ivar witness: sizes, instances and the element; ``None`` if the check gives none.
    """

    def __init__(self, message: str, *, check: str, witness: Witness | AccessWitness | None = None,
                 hint: str | None = None) -> None:
        self.check = check
        self.witness = witness
        super().__init__(message, hint=hint)

    def details(self) -> Sequence[str]:
        return () if self.witness is None else (str(self.witness),)


class BoundsError(VerificationError):
    """Raised by code generation and ``Report.raise_if_refuted`` if an access is outside its array for some sizes.

    A call of a kernel compiled with ``check_bounds=True`` raises it for an access of this call, and ``make_kernel`` for
    an access of a function outside of a slice that a call in the text passes.
    """


class LimitError(LoopkitError):
    """Raised by code generation if a kernel needs more of a resource than the target has.

    :ivar what: the resource (``"threads per block"``, ``"shared memory per block (bytes)"``, ...).
    """

    def __init__(self, what: str, limit: int, required: int, *, where: str, hint: str | None = None) -> None:
        self.what = what
        self.limit = limit
        self.required = required
        super().__init__(f"{where} needs {required} {what}; the target has {limit}.", hint=hint)


class ReplayError(LoopkitError):
    """Raised by ``replay`` if a step of the history fails on the given kernel.

    :ivar number: place of the step in the history, from 1.
    :ivar step: the step, as the line of a script.
    :ivar cause: the step's own error, or ``None`` if no such transformation exists.
    """

    def __init__(self, message: str, *, number: int, step: str, cause: LoopkitError | None = None) -> None:
        self.number = number
        self.step = step
        self.cause = cause
        super().__init__(message)
        if cause is not None:
            self.try_hints(lambda _known: cause.hints)

    def details(self) -> Sequence[str]:
        if self.cause is None:
            return (self.step,)
        return (self.step, f"{type(self.cause).__name__}: {self.cause.message}",
                *(f"  {line}" for line in self.cause.details()))


class CallError(LoopkitError):
    """Raised by the call of a kernel if an argument does not fit."""

    def __init__(self, message: str, *, argument: str, hint: str | None = None) -> None:
        self.argument = argument
        super().__init__(message, hint=hint)


class CompilerError(LoopkitError):
    """Raised if a compiler is missing, miscompiles, or rejects the generated code.

    :ivar log: the output of the compiler, or ``""``.
    """

    def __init__(self, message: str, *, log: str = "", hint: str | None = None) -> None:
        self.log = log
        super().__init__(message, hint=hint)

    def details(self) -> Sequence[str]:
        return tuple(self.log.splitlines())


class DeviceError(LoopkitError):
    """Raised if a GPU, its driver or a library for it is missing or fails."""


class LaunchError(DeviceError):
    """Raised by a call on a GPU if a launch fails, by its own fault or because an earlier launch broke the context.

    :ivar launch: the generated function.
    :ivar grid: blocks along x, y, z; *block*: threads along x, y, z.
    :ivar arguments: one line for each argument of the launch.
    :ivar sticky: the context is lost, with all data on the GPU.
    """

    def __init__(self, message: str, *, kernel: str, launch: str, grid: Sequence[int], block: Sequence[int],
                 arguments: Sequence[str], sticky: bool, hint: str | None = None) -> None:
        self.kernel = kernel
        self.launch = launch
        self.grid = tuple(grid)
        self.block = tuple(block)
        self.arguments = tuple(arguments)
        self.sticky = sticky
        super().__init__(message, hint=hint)

    def details(self) -> Sequence[str]:
        grid, block = (" x ".join(map(str, extents)) for extents in (self.grid, self.block))
        return (f"grid {grid}, block {block}", *self.arguments)


class EquivalenceError(LoopkitError):
    """Raised by ``check_equivalent`` if the results of two kernels differ by more than the bound.

    :ivar output: the output with the largest difference.
    :ivar index: its worst element.
    :ivar error: the distance between the values *got* and *expected*; *ulps*: in units in the last place of the
        output's dtype, ``None`` if there are none.
    :ivar wrong: the worst wrong elements, first *index*.
    :ivar box: for each axis, the first and the last index of a wrong element.
    """

    def __init__(self, message: str, *, output: str, index: tuple[int, ...], got: object, expected: object,
                 error: float, bound: float, ulps: float | None = None, wrong: Sequence[tuple[int, ...]] = (),
                 box: Sequence[tuple[int, int]] = (), notes: Sequence[str] = ()) -> None:
        self.output = output
        self.index = index
        self.got = got
        self.expected = expected
        self.error = error
        self.bound = bound
        self.ulps = ulps
        self.wrong = tuple(wrong)
        self.box = tuple(box)
        self._notes = tuple(notes)
        super().__init__(message)

    def details(self) -> Sequence[str]:
        return self._notes


class InternalError(LoopkitError):
    """Raised if the result of a stage fails its own check: a fault in loopkit, never the user's."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="this is a fault in loopkit; please report it with the kernel")
