"""Calls of kernels that are emulated: their arguments as at any call, their launches block by block."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from loopkit.ast.nodes import Function, Program, Tiles
from loopkit.ast.walk import calls, nodes_in
from loopkit.emulation.expressions import Compiler
from loopkit.emulation.instructions import EMULATIONS
from loopkit.emulation.memory import EmulatedArray, FlaggedArray, of_argument, of_function, poisoned
from loopkit.emulation.program import NodeCompiler
from loopkit.emulation.strands import BlockState, Choices, Rendezvous, Strand, run_blocks
from loopkit.errors import DeviceError, PreconditionError
from loopkit.expr.evaluate import evaluate
from loopkit.kernel.annotations import checked
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.target import Target
from loopkit.lowering.lowered import BLOCK, GRID
from loopkit.lowering.pipeline import lowered_once
from loopkit.lowering.types import index_types
from loopkit.poly.limits import kept
from loopkit.runtime.calls import BoundCall, CallArray, CallSignatures, CheckedCall, Runner
from loopkit.runtime.kinds import ArrayKinds, host_view
from loopkit.runtime.results import Outputs, Timing, TimingRequest
from loopkit.target.code import TextTarget, resolve_text_target


@checked
def emulate(knl: LoopKernel, arguments: Mapping[str, Any] | None = None, /, *, target: Target | str = "cuda",
            completion: str = "last", order: str = "forward", lockstep: int = 32, contracted: bool = False,
            program: Program | None = None, **kwargs: Any) -> Outputs:
    """Run the loop program of *knl* for a GPU on the host, without a GPU and without generated code.

    Each block runs by itself. Warp instructions work on the registers of the lanes by their real layouts, and
    asynchronous copies write shared memory at a chosen moment. Memory without a value holds NaN, or an odd number. A
    missing barrier or wait thus gives a wrong result for one of the choices here; :func:`loopkit.verify` proves that
    none is missing.

    :arg arguments: arguments whose names are taken by the options here.
    :arg completion: ``"last"``: asynchronous accesses take effect at the wait that completes them, or never;
        ``"first"``: where they are started.
    :arg order: ``"forward"``: the first warp of a block runs up to a barrier before the next one starts;
        ``"backward"``: the last warp is the first to run.
    :arg lockstep: the number of threads that run together, at most a warp; with fewer, a missing warp barrier shows.
    :arg contracted: round a product of float32 numbers and the sum that it is a term of once, as CUDA's compiler may.
    :arg program: another loop program than ``lk.lower(knl, target).program``, of the same arguments and temporaries.
    :returns: the outputs, as of a call of *knl*.
    :raises CallError: an argument does not fit.
    :raises PreconditionError: an option has an illegal value, or the program has an instruction without an emulation.
    :raises BoundsError: an access is outside its array.
    :raises VerificationError: some threads do not reach a barrier, or wait for a value that no earlier block stores.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i,j<64}", "<> t[i] = x[i]\\n y[j] = t[63 - j]")
    >>> knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "i:l.0, j:l.0")
    >>> lk.emulate(knl, x=np.arange(64, dtype=np.float32)).y[:4]
    array([63., 62., 61., 60.], dtype=float32)
    """
    for name, value, known in (("completion", completion, ("last", "first")),
                               ("order", order, ("forward", "backward"))):
        if value not in known:
            raise PreconditionError(f"{name}= is {' or '.join(map(repr, known))}, and not {value!r}.", subject=name)
    if lockstep < 1 or 32 % lockstep:
        raise PreconditionError(f"lockstep= is a divisor of 32, and not {lockstep}.", subject="lockstep")
    choices = Choices(completion == "last", order == "backward", lockstep, contracted)
    resolved = resolve_text_target(target)
    runner = kept(knl.memo, ("emulated", resolved), lambda: _EmulatedRunner(knl, resolved))
    return runner.choosing(choices, program).call({**(arguments or {}), **kwargs})


class _EmulatedRunner(Runner):
    """Runs one kernel by emulation."""

    def __init__(self, knl: LoopKernel, target: TextTarget) -> None:
        super().__init__(knl, target)
        self._choices, self._kinds = Choices(), ArrayKinds()
        self._program: Program | None = None

    def choosing(self, choices: Choices, program: Program | None) -> _EmulatedRunner:
        """The same runner with *choices*, for *program* if it is not ``None``."""
        other = copy(self)
        other.__dict__.update(_choices=choices, _program=program, _signatures={})
        return other

    @property
    def kinds(self) -> ArrayKinds:
        return self._kinds

    def time(self, given: Mapping[str, Any], request: TimingRequest) -> Timing:
        raise self._without("times")

    def _plan(self, known: CallSignatures, values: Sequence[Any]) -> _EmulatedPlan:
        arrays = self._arrays(known, values)
        for array in arrays:
            host_view(array.name, values[array.position])      # an error for an array on a GPU
        found = self._checked(known, values, arrays, self.text_target)
        given = {**dict(zip(known.names, values, strict=True)), **{a.name: a.view for a in arrays}}
        lowered = lowered_once(self.kernels.of(given).kernel, self.text_target.machine)
        program, layout = self._program or lowered.program, found.text.code.layout
        types = index_types(lowered.kernel, layout.index)
        emulations = {i: e for i, e in EMULATIONS.items() if layout.vectors or not e.assumes_layout}

        def launch(function: Function, memory: Mapping[str, EmulatedArray], numbers: Mapping[str, Any]) -> None:
            names = {*memory, *(a.name for a in function.arrays)}
            expressions = Compiler(types, names, layout.index, contracted=self._choices.contracted)
            nodes = NodeCompiler(expressions, emulations, frozenset(
                a.name for a in function.arrays if a.thread_axes), frozenset(EMULATIONS.keys() - emulations.keys()))
            _launch(function, nodes, memory, numbers, self._choices)
        functions = {f.name: partial(launch, f) for f in program.functions}
        return _EmulatedPlan(found, program, functions, self._choices)


@dataclass(frozen=True)
class _EmulatedPlan:
    """The launches of one call."""

    checked: CheckedCall
    program: Program
    functions: Mapping[str, Any]
    choices: Choices

    def allocated(self, values: Sequence[Any]) -> Mapping[str, Any]:
        return {}

    def bound(self, values: Sequence[Any], addresses: Sequence[int], originals: Sequence[Any]) -> BoundCall:
        raise DeviceError("An emulated call cannot be bound.", hint="call emulate(knl, ...) again")

    def run(self, values: Sequence[Any], addresses: Sequence[int], originals: Sequence[Any]) -> Outputs:
        found, text = self.checked, self.checked.text
        found.check(addresses)
        made = [self._new(x) for x in found.outputs]
        memory = {x.name: x.kind.numpy(values[x.position]) for x in found.inputs}
        memory |= {x.name: x.kind.numpy(new) for x, new in zip(found.outputs, made, strict=True)}
        cells = {name: of_argument(name, array) for name, array in memory.items()}
        shapes = text.scratch_shapes(found.bound.values)
        for x in text.scratch:
            new = poisoned(shapes[x.name], x.dtype)
            cells[x.name] = FlaggedArray(x.name, new, new.shape, self.choices.late) if x.cleared \
                else of_argument(x.name, new)
        numbers = {x: int(v) if isinstance(v, int | np.integer) and not isinstance(v, bool) else v
                   for x, v in found.bound.values.items()}
        with np.errstate(all="ignore"):
            for name, seen in calls(self.program.order, numbers):
                self.functions[name](cells, seen)
        return found.results(originals, made)

    @staticmethod
    def _new(x: CallArray) -> Any:
        """A new output, without values where the kernel writes all of it."""
        new = x.new()
        if x.fully_written:
            own = x.kind.numpy(new)
            own[...] = poisoned(own.shape, own.dtype)
        return new


def _launch(function: Function, nodes: NodeCompiler, memory: Mapping[str, EmulatedArray], numbers: Mapping[str, Any],
            choices: Choices) -> None:
    """Run all blocks of a launch, one after another."""
    run = nodes.run(function.body)
    coordinates = {x: nodes.expressions.value(value) for x, value in function.coordinates.items()}
    grid, block = (tuple(int(evaluate(function.extents.get(axis, 1), numbers)) for axis in axes)
                   for axes in (GRID, BLOCK))
    threads = prod(block)
    own = np.arange(threads)
    inside = dict(zip(BLOCK, (own % block[0], own // block[0] % block[1], own // (block[0]*block[1])), strict=True))
    every = range(min([prod(grid), *(x.blocks for x in nodes_in(function.body) if isinstance(x, Tiles))]))

    def enter(s: Strand, place: tuple[int, int, int]) -> None:
        """Give a strand the coordinates of a place of the grid."""
        s.names |= zip(GRID, place, strict=True)
        s.names |= {x: value(s) for x, value in coordinates.items()}

    def entered(number: int, s: Strand) -> Iterator[Rendezvous]:
        enter(s, (number % grid[0], number // grid[0] % grid[1], number // (grid[0]*grid[1])))
        yield from run(s)
    # tickets are in the order in which blocks start
    for first in every[::function.cluster] if function.ticketed else choices.ordered(every[::function.cluster]):
        states = [BlockState(number, threads, {**memory, **{
            a.name: of_function(a, threads) for a in function.arrays}}, choices, grid=grid, enter=enter)
            for number in range(first, first + function.cluster)]
        for state in states:
            state.cluster = states
        run_blocks([(state, partial(entered, state.number)) for state in states], {**numbers, **inside})
