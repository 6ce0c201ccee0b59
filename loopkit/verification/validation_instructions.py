"""The checks of instructions of loops: each instruction executes the iterations of its loop."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from loopkit.ast.nodes import For, Function, Instruction
from loopkit.instructions.mma import Mma
from loopkit.instructions.vector_access import VectorAccess
from loopkit.lowering.lowered import Launch, Lowered
from loopkit.verification.validation_findings import Mismatch
from loopkit.verification.validation_grid import Grid
from loopkit.verification.validation_mma import ProductCheck
from loopkit.verification.validation_vectors import VectorCheck
from loopkit.verification.validation_walk import Execution

#: The check of a loop with an instruction, by the class of the instruction.
Check = Callable[[Lowered, Launch, Function, Grid, Execution], Iterator[Mismatch]]


def instruction_findings(lowered: Lowered, launch: Launch, function: Function, grid: Grid, loop: Execution
                         ) -> Iterator[Mismatch]:
    """The mismatches of the instruction of *loop*."""
    assert isinstance(loop.node, For)
    yield from _CHECKS[type(loop.node.instruction)](lowered, launch, function, grid, loop)


def _vector(lowered: Lowered, launch: Launch, function: Function, _grid: Grid, loop: Execution) -> Iterator[Mismatch]:
    return VectorCheck(launch.kernel, launch.name, lowered.storages, function, loop).findings()


def _product(lowered: Lowered, launch: Launch, _function: Function, grid: Grid, loop: Execution) -> Iterator[Mismatch]:
    assert isinstance(loop.node, For)
    assert isinstance(loop.node.instruction, Mma)
    return ProductCheck(launch.kernel, launch, lowered.storages, grid, loop, loop.node.instruction).findings()


_CHECKS: Mapping[type[Instruction | None], Check] = {VectorAccess: _vector, Mma: _product}
