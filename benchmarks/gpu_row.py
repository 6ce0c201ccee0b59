"""What is measured in one row: its sizes, data, float64 reference, contestants and goals."""
from __future__ import annotations

import random
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
    """

    of: str
    must: float
    stretch: float
    among: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = {"copy": "the copy rate", "peak": "the peak", "peer": " or ".join(self.among) or "the best peer"}
        return f"{self.must:.2f} of {what[self.of]}"


@dataclass(frozen=True)
class Row:
    """One line of work.

    :ivar even: sizes that tiles divide, *ragged*: one that they do not; *draw* gives one at run time.
    :ivar small: sizes for the host.
    :ivar inputs: shape of each input, or a function that makes its values; *outputs*: shape of each output.
    :ivar reference: the result from inputs in float64, with numpy's functions or torch's.
    :ivar compared: the part of a result that the reference gives; default: all of it.
    :ivar bytes: the least that one run has to move, *flops*: its operations.
    :ivar ours: kernels by label, each a function of the size; the first is the one with the library's defaults.
    :ivar tolerance: of a result's error. A sum of many terms in float32 has some; TF32 would have 3e-4.
    :ivar result: the output that the reference gives.
    """

    name: str
    even: Sequence[Size]
    ragged: Size
    draw: Callable[[random.Random], Size]
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

    @property
    def result(self) -> str:
        return next(iter(self.outputs(self.even[0])))

    def problem(self, size: Size, machine: Machine) -> Problem:
        """Random inputs, and outputs of NaN."""
        inputs = {x: shape(machine) if callable(shape) else machine.random(shape, self.dtype, self.low)
                  for x, shape in self.inputs(size).items()}
        outputs = {x: machine.nothing(shape, self.dtype) for x, shape in self.outputs(size).items()}
        return Problem(size, inputs, outputs, self.scalars)


def loopkit(make: Callable[..., Any], **options: Any) -> Callable[[Size], Any]:
    """A pipeline that serves all sizes."""
    return lambda size: make(np.float32, **options)


@dataclass(frozen=True)
class Relaxed:
    """A kernel that CUDA's compiler may make less exact, as Triton's does: no subnormal numbers, fast roots."""

    kernel: Any


def bound(knl: Any, machine: Machine) -> Callable[[Problem], Run]:
    """From a problem to its run, all arguments fixed: what is timed is launches and no checks."""
    import loopkit as lk
    target: Any = machine.target
    if isinstance(knl, Relaxed):
        knl, target = knl.kernel, lk.CudaTarget(fast_math=True) if target == "cuda" else target
    compiled = lk.compile(knl, target=target)

    def run_of(p: Problem) -> Run:
        call = compiled.bind(**p.inputs, **p.outputs, **p.scalars)

        def run() -> None:
            call()
        return run
    return run_of
