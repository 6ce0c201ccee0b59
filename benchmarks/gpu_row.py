"""What is measured in one row: its sizes, data, float64 reference, contestants and goals."""
from __future__ import annotations

import inspect
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gpu_peers as peers
import numpy as np
from gpu_machine import Machine, Run

Size = tuple[int, ...]
Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class Problem:
    """One set of arrays; its attributes are the arrays and scalars by name."""

    size: Size
    inputs: Arrays
    outputs: Arrays
    scalars: Mapping[str, float]

    def __getattr__(self, name: str) -> Any:
        for values in (self.inputs, self.outputs, self.scalars):
            if name in values:
                return values[name]
        raise AttributeError(name)

    def copied(self, machine: Machine) -> Problem:
        """The same numbers in other places."""
        return replace(self, **{part: {x: machine.copied(a) for x, a in getattr(self, part).items()}
                                for part in ("inputs", "outputs")})


@dataclass(frozen=True)
class Goal:
    """The goal for our time in a row.

    :ivar of: ``"copy"``: bytes a second over those of a copy of as many bytes; ``"peer"``: the best peer's time over
        ours; ``"peak"``: operations a second over the GPU's of float32.
    :ivar among: names of the peers that are meant; none: all.
    :ivar sustained: the goal is for sustained runs, and not for bursts in turns.
    """

    of: str
    must: float
    stretch: float
    among: tuple[str, ...] = ()
    sustained: bool = False

    def __str__(self) -> str:
        what = {"copy": "the copy rate", "peak": "the peak", "peer": " or ".join(self.among) or "the best peer"}
        return f"{self.must:.2f} of {what[self.of]}" + (", sustained" if self.sustained else "")


@dataclass(frozen=True)
class Row:
    """One line of work.

    :ivar even: sizes that tiles divide, *ragged*: one that they do not; *draw* gives one at run time. ``None``: the row
        has no such size.
    :ivar small: sizes for the host.
    :ivar inputs: shape of each input, or a function that makes its values; *outputs*: shape of each output.
    :ivar reference: the result from inputs in float64, with numpy's functions or torch's.
    :ivar compared: the part of a result that the reference gives; default: all of it.
    :ivar bytes: the least that one run has to move, *flops*: its operations.
    :ivar ours: kernels by label, each a function of the size; the first is the one with the library's defaults.
    :ivar tolerance: of a result's error. A sum of many terms in float32 has some; TF32 would have 3e-4.
    :ivar derived: makes further inputs from the others in float64.
    :ivar group: the rows that are measured together; *quick*: the row is one of a quick run.
    :ivar slow: peers that a quick run leaves out.
    :ivar sustained: the row is measured in sustained runs too, and loopkit's stages are timed.
    """

    name: str
    even: Sequence[Size]
    ragged: Size | None
    draw: Callable[[random.Random], Size] | None
    small: Sequence[Size]
    inputs: Callable[[Size], Mapping[str, Any]]
    outputs: Callable[[Size], Mapping[str, Size]]
    reference: Callable[[Any, Any], Any]
    bytes: Callable[[Size], float]
    flops: Callable[[Size], float]
    peers: Mapping[str, peers.Peer]
    goals: Sequence[Goal]
    ours: Mapping[str, Callable[[Size], Any]] = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)
    compared: Callable[[Any], Any] | None = None
    dtype: str = "float32"
    low: float = -1.0
    tolerance: float = 2e-6
    derived: Callable[[Machine, Problem], Arrays] | None = None
    group: str = "general"
    quick: bool = True
    slow: Sequence[str] = ()
    sustained: bool = False

    def by_flops(self, size: Size) -> bool:
        """Operations limit the row, and not bytes."""
        return self.sustained or self.flops(size) > 50*self.bytes(size)

    def problem(self, size: Size, machine: Machine) -> Problem:
        """Random inputs, and outputs of NaN."""
        inputs = {x: shape(machine) if callable(shape) else machine.random(shape, self.dtype, self.low)
                  for x, shape in self.inputs(size).items()}
        if self.derived is not None:
            inputs |= self.derived(machine, self.wide(Problem(size, inputs, {}, self.scalars), machine))
        outputs = {x: machine.nothing(shape, self.dtype) for x, shape in self.outputs(size).items()}
        return Problem(size, inputs, outputs, self.scalars)

    def wide(self, p: Problem, machine: Machine) -> Problem:
        """The inputs of *p* in float64."""
        return Problem(p.size, {x: machine.wide(a) for x, a in p.inputs.items()}, {}, self.scalars)


def loopkit(make: Callable[..., Any], **options: Any) -> Callable[[Size], Any]:
    """A pipeline that serves all sizes."""
    return lambda size: make(np.float32, **options)


class NotThereYetError(Exception):
    """The library has no such pipeline: an open goal, and not a failure."""


def library(name: str, *args: Any, **options: Any) -> Callable[[Size], Any]:
    """The pipeline ``lk.library.name(*args, **options)``, where the library has it.

    :arg options: values, or functions of the size.
    """
    def make(size: Size) -> Any:
        import loopkit as lk
        function = getattr(lk.library, name, None)
        if function is None:
            raise NotThereYetError(f"there is no lk.library.{name}")
        for option in options:
            if option not in inspect.signature(function).parameters:
                raise NotThereYetError(f"lk.library.{name} has no option {option}")
        try:
            return function(*args, **{x: v(size) if callable(v) else v for x, v in options.items()})
        except lk.PreconditionError as err:
            raise NotThereYetError(str(err).splitlines()[0]) from err
    return make


@dataclass(frozen=True)
class Relaxed:
    """A kernel that CUDA's compiler may make less exact, as Triton's does: no subnormal numbers, fast roots."""

    kernel: Any


@dataclass
class Stages:
    """The way from a formula to the text of ours.

    :ivar calls: how many transformations the kernel is made of.
    :ivar transform: seconds of these calls, *code*: of lowering and printing, *proof*: of the legality checks of the
        calls, their application included, and of the checks of the lowered kernel.
    """

    calls: int = 0
    transform: float = 0.0
    code: float = 0.0
    proof: float = 0.0


def bound(make: Callable[[], Any], machine: Machine, stages: Stages, timed: bool = False) -> Callable[[Problem], Run]:
    """From a problem to its run, all arguments fixed: what is timed is launches and no checks.

    :arg timed: fill in all of *stages*, for which the text is made once more.
    """
    import loopkit as lk
    start = time.perf_counter()
    knl = make()
    stages.transform = time.perf_counter() - start
    target: Any = machine.target
    if isinstance(knl, Relaxed):
        knl, target = knl.kernel, lk.CudaTarget(fast_math=True) if target == "cuda" else target
    stages.calls = len(knl.history)
    compiled = lk.compile(knl, target=target, verify=False if timed else None)
    if timed:
        start = time.perf_counter()
        compiled.source  # noqa: B018  # the text is not kept
        printed = time.perf_counter()
        lk.verify(knl, target)
        stages.code = printed - start
        stages.proof = (time.perf_counter() - printed
                        + sum(step.seconds for step in knl.history if step.verdict == "proven"))

    def run_of(p: Problem) -> Run:
        # peers may have further inputs
        own = {x: a for x, a in p.inputs.items() if x in knl.argument_by_name}
        call = compiled.bind(**own, **p.outputs, **p.scalars)

        def run() -> None:
            call()
        return run
    return run_of
