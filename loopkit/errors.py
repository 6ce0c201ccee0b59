"""The exception classes of loopkit: each message is one sentence in the user's terms, a witness and a way out."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopkit.lazy import LazyTable

#: Functions of higher floors that an error or a kernel offers (replaying, calling, the HTML form).
#: ``loopkit/__init__.py`` fills in their addresses.
ENTRY_POINTS = LazyTable[Callable[..., Any]]()


class LoopkitError(Exception):
    """Base of every error that loopkit raises on purpose.

    :ivar message: one sentence that names the thing in the user's terms.
    :ivar hint: a way out, or ``None``.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = message
        self._hint = hint
        super().__init__(message)

    @property
    def hint(self) -> str | None:
        return self._hint

    def details(self) -> Sequence[str]:
        """The lines between the sentence and the hint: a witness, a source line."""
        return ()

    def __str__(self) -> str:
        lines = [self.message, *(f"  {line}" for line in self.details())]
        if self.hint is not None:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class ParseError(LoopkitError):
    """Text that is not in the kernel language.

    :ivar line: number of the offending line, from 1.
    :ivar column: column of the offending place, from 1.
    :ivar expected: the token that would have been right there.
    :ivar source: the text of the line.
    """

    def __init__(self, message: str, *, line: int, column: int, expected: str, source: str,
                 hint: str | None = None) -> None:
        self.line = line
        self.column = column
        self.expected = expected
        self.source = source
        super().__init__(message, hint=hint)

    def details(self) -> Sequence[str]:
        return (f"line {self.line}, column {self.column}: expected {self.expected}",
                f"  {self.source}", "  " + " " * (self.column - 1) + "^")


class UnknownNameError(LoopkitError):
    """A name that the kernel does not have.

    :ivar kind: the kind of name expected (``"iname"``, ``"argument"``, ``"statement"``, ...).
    :ivar name: the name given.
    :ivar close: existing names that resemble it.
    """

    def __init__(self, kind: str, name: str, close: Sequence[str] = (), *, where: str = "the kernel",
                 hint: str | None = None) -> None:
        self.kind = kind
        self.name = name
        self.close = tuple(close)
        if hint is None and self.close:
            hint = "did you mean " + " or ".join(f"'{c}'" for c in self.close) + "?"
        super().__init__(f"'{name}' is not {_article(kind)} {kind} of {where}.", hint=hint)


class PreconditionError(LoopkitError):
    """A transformation or a call whose precondition does not hold.

    :ivar subject: the name or value that violates the precondition.
    """

    def __init__(self, message: str, *, subject: str = "", hint: str | None = None) -> None:
        self.subject = subject
        super().__init__(message, hint=hint)


class NameConflictError(PreconditionError):
    """A new name that is already taken in the kernel."""


class TypeInferenceError(PreconditionError):
    """A dtype that cannot be inferred, or two that contradict each other."""


class ShapeError(PreconditionError):
    """A shape that cannot be inferred or does not fit."""


class ScheduleError(PreconditionError):
    """An order of loops that the kernel's structure does not allow."""


class StorageError(PreconditionError):
    """A temporary whose declared storage cannot hold the values that are alive at once."""

    _tried: Callable[[str | None], str | None] | None = None

    @property
    def hint(self) -> str | None:
        """A way to make the storage large enough; computed at the first access."""
        if self._tried is not None:
            self._hint, self._tried = self._tried(self._hint), None
        return self._hint

    def try_hint(self, tried: Callable[[str | None], str | None]) -> None:
        """Let *tried* compute the hint, from the hint known so far, at the first access to :attr:`hint`."""
        self._tried = tried


@dataclass(frozen=True)
class Witness:
    """A concrete pair of statement instances that a step would run in the wrong order.

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
        start = self._start()
        if self.kind == "explicit":
            return f"{start}{instance_text(*self.source)} must run before {instance_text(*self.sink)} (dep=)"
        if self.kind in ("missing", "value"):
            return self._of_copy(start)
        first, second = {"flow": ("writes", "reads"), "anti": ("reads", "writes"),
                         "output": ("writes", "writes too")}[self.kind]
        subscripts = "" if not self.element else f"[{', '.join(map(str, self.element))}]"
        return (f"{start}{instance_text(*self.source)} {first} {self.array}{subscripts}, which "
                f"{instance_text(*self.sink)} {second}")

    def _start(self) -> str:
        sizes = ", ".join(f"{k} = {v}" for k, v in self.parameters.items())
        parts = [*([] if self.smallest else ["one of several"]), *([f"with {sizes}"] if sizes else [])]
        return f"{', '.join(parts)}: " if parts else ""

    def _of_copy(self, start: str) -> str:
        cell = self.array + (f"[{', '.join(map(str, self.element))}]" if self.element else "")
        sink = instance_text(*self.sink)
        if self.kind == "missing":
            return f"{start}{sink} reads {cell}, which no instance of {self.source[0]} has written"
        return f"{start}{sink} reads {cell}, where {instance_text(*self.source)} has put another value"


def instance_text(statement: str, inames: Mapping[str, int]) -> str:
    """``S[i=0, j=1]``, the form of a statement instance in every message."""
    if not inames:
        return statement
    return f"{statement}[{', '.join(f'{k}={v}' for k, v in inames.items())}]"


class IllegalTransformError(LoopkitError):
    """A step that would run dependent statement instances in the wrong order, or at once.

    :ivar witness: the instances, the sizes and the element.
    :ivar before: the kernel before the step, or ``None``; *after*: the kernel after the step, or ``None`` if the step
        failed earlier. If lowering finds the conflict, both are the kernel itself. The type is ``Any`` because this
        floor does not import kernels.
    """

    def __init__(self, message: str, witness: Witness, hints: Sequence[str] = (), *, before: Any = None,
                 after: Any = None) -> None:
        self.witness = witness
        self.before = before
        self.after = after
        self._known = tuple(hints)
        self._tried: Callable[[Sequence[str]], Sequence[str]] | None = None
        self._found: tuple[str, ...] | None = None
        super().__init__(message)

    @property
    def hints(self) -> tuple[str, ...]:
        """Ways to make the step legal; computed at the first access."""
        if self._found is None:
            self._found = self._known if self._tried is None else tuple(self._tried(self._known))
        return self._found

    def try_hints(self, tried: Callable[[Sequence[str]], Sequence[str]]) -> None:
        """Let *tried* compute the hints, from the hints known so far, at the first access to :attr:`hints`."""
        self._tried, self._found = tried, None

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

        :arg seed: of the random data. Each element is drawn on its own, so no array needs a shape.
        :arg given: arrays and scalars by name in place of random ones; sizes in place of the witness's.
        :returns: a :class:`loopkit.Replay`.
        :raises PreconditionError: the error was raised before a step had made an order, or the kernel computes its own
            loop bounds.
        :raises CallError: an argument does not fit.
        """
        return ENTRY_POINTS["replay"](self, seed=seed, **given)

    @property
    def hint(self) -> str | None:
        return "; ".join(self.hints) or None


class UndecidedError(LoopkitError):
    """A question about legality that the analysis cannot decide, e.g. because a subscript is read from memory.

    :ivar reason: the obstacle.
    """

    def __init__(self, message: str, reason: str, *, hint: str | None = None) -> None:
        self.reason = reason
        super().__init__(message, hint=hint)

    def details(self) -> Sequence[str]:
        return (self.reason,)


@dataclass(frozen=True)
class AccessWitness:
    """A concrete statement instance that reads an element without a valid value.

    :ivar parameters: values of the kernel's size parameters.
    :ivar instance: id and iname values of the instance.
    :ivar array: the array that it reads.
    :ivar element: the subscripts.
    """

    parameters: Mapping[str, int]
    instance: tuple[str, Mapping[str, int]]
    array: str
    element: tuple[int, ...]

    def __str__(self) -> str:
        sizes = ", ".join(f"{k} = {v}" for k, v in self.parameters.items())
        subscripts = f"[{', '.join(map(str, self.element))}]" if self.element else ""
        return (f"{'with ' + sizes + ': ' if sizes else ''}{instance_text(*self.instance)} reads "
                f"{self.array}{subscripts}")


class VerificationError(LoopkitError):
    """A kernel that a check refutes.

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


class BoundsError(LoopkitError):
    """An access outside its array.

    :ivar array: the array.
    :ivar parameters: values of the size parameters at which the access is outside.
    :ivar instance: id and iname values of the statement instance.
    :ivar element: the subscripts.
    """

    def __init__(self, message: str, *, array: str, parameters: Mapping[str, int],
                 instance: tuple[str, Mapping[str, int]], element: tuple[int, ...],
                 hint: str | None = None) -> None:
        self.array = array
        self.parameters = dict(parameters)
        self.instance = instance
        self.element = element
        super().__init__(message, hint=hint)

    def details(self) -> Sequence[str]:
        sizes = ", ".join(f"{k} = {v}" for k, v in self.parameters.items())
        return (f"{'with ' + sizes + ': ' if sizes else ''}{instance_text(*self.instance)} accesses "
                f"{self.array}[{', '.join(map(str, self.element))}]",)


class LimitError(LoopkitError):
    """A resource of which the kernel needs more than the target has.

    :ivar what: the resource (``"threads per block"``, ``"shared memory per block (bytes)"``, ...).
    :ivar limit: the amount that the target has.
    :ivar required: the amount that the kernel needs.
    """

    def __init__(self, what: str, limit: int, required: int, *, where: str, hint: str | None = None) -> None:
        self.what = what
        self.limit = limit
        self.required = required
        super().__init__(f"{where} needs {required} {what}; the target has {limit}.", hint=hint)


class ReplayError(LoopkitError):
    """A step of a history that fails on another kernel; its cause is the error of the step there.

    :ivar number: place of the step in the history, from 1.
    :ivar step: the step, as the line of a script.
    :ivar cause: the step's own error, or ``None`` if no such transformation exists.
    """

    def __init__(self, message: str, *, number: int, step: str, cause: LoopkitError | None = None) -> None:
        self.number = number
        self.step = step
        self.cause = cause
        super().__init__(message)

    @property
    def hint(self) -> str | None:
        return None if self.cause is None else self.cause.hint

    def details(self) -> Sequence[str]:
        if self.cause is None:
            return (self.step,)
        return (self.step, f"{type(self.cause).__name__}: {self.cause.message}",
                *(f"  {line}" for line in self.cause.details()))


class CallError(LoopkitError):
    """A kernel called with an argument that does not fit.

    :ivar argument: the argument's name.
    """

    def __init__(self, message: str, *, argument: str, hint: str | None = None) -> None:
        self.argument = argument
        super().__init__(message, hint=hint)


class CompilerError(LoopkitError):
    """A compiler that is missing or that rejected the generated text.

    :ivar log: the output of the compiler, or ``""``.
    """

    def __init__(self, message: str, *, log: str = "", hint: str | None = None) -> None:
        self.log = log
        super().__init__(message, hint=hint)

    def details(self) -> Sequence[str]:
        return tuple(self.log.splitlines())


class DeviceError(LoopkitError):
    """A GPU, its driver or a library for it that is missing or fails."""


class LaunchError(DeviceError):
    """A launch that failed, by its own fault or because an earlier launch had broken the context.

    :ivar kernel: the kernel.
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
        return (f"grid {_by(self.grid)}, block {_by(self.block)}", *self.arguments)


def _by(extents: Sequence[int]) -> str:
    return " x ".join(map(str, extents))


class EquivalenceError(LoopkitError):
    """Two kernels whose results differ by more than the bound.

    :ivar output: the output with the largest difference.
    :ivar index: the worst element.
    :ivar got: its value.
    :ivar expected: the reference's value.
    :ivar error: the distance between the two values.
    :ivar bound: the largest allowed distance.
    """

    def __init__(self, message: str, *, output: str, index: tuple[int, ...], got: object, expected: object,
                 error: float, bound: float) -> None:
        self.output = output
        self.index = index
        self.got = got
        self.expected = expected
        self.error = error
        self.bound = bound
        super().__init__(message)


class InternalError(LoopkitError):
    """A stage whose result fails its own check: a fault in loopkit, never the user's."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="this is a fault in loopkit; please report it with the kernel")


def _article(kind: str) -> str:
    return "an" if kind[:1] in "aeiou" else "a"
