"""Atomic updates as text: CUDA's functions, and OpenMP's pragma on the host."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from loopkit.ast.nodes import Assign
from loopkit.errors import PreconditionError
from loopkit.expr.kinds import is_half
from loopkit.expr.nodes import REDUCTIONS
from loopkit.kernel.data import AddressSpace
from loopkit.lowering.binding import GRID, Launch
from loopkit.lowering.pipeline import Lowered

_INTEGERS = ("int32", "uint32", "int64", "uint64")
#: CUDA's functions and their dtypes, by what combines.
_FUNCTIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "+": ("atomicAdd", (*_INTEGERS, "float32", "float64")),
    "min": ("atomicMin", _INTEGERS), "max": ("atomicMax", _INTEGERS)}


@dataclass(frozen=True)
class Update:
    """The texts of an update: its *target*, its *operand*, and the *plain* statement; and the target's dtype."""

    target: str
    operand: str
    plain: str
    dtype: np.dtype


Updates = Callable[[Assign, Update], list[str]]


def cuda_update(node: Assign, update: Update) -> list[str]:
    """The lines of an atomic update on the GPU; its old value is not used, so that nothing waits for it.

    :raises PreconditionError: CUDA has no such function.
    """
    assert node.combine is not None
    function, dtypes = _FUNCTIONS.get(REDUCTIONS[node.combine].combine, ("", ()))
    name = update.dtype.name
    if name not in dtypes:
        raise PreconditionError(
            f"CUDA has no atomic {node.combine} of {name}, as '{node.statement}' needs it.", subject=node.statement,
            hint=f"the dtypes are {', '.join(dtypes)}" if dtypes else
            f"the atomic operations are {', '.join(op for op in REDUCTIONS if REDUCTIONS[op].combine in _FUNCTIONS)}")
    if function == "atomicAdd" and name == "int64":     # the sum of two's complements is the same
        return [f"atomicAdd((unsigned long long *)&{update.target}, (unsigned long long)({update.operand}));"]
    return [f"{function}(&{update.target}, {update.operand});"]


def host_updates(lowered: Lowered, launch: Launch) -> Updates:
    """The lines of an update on the host, where blocks may run at once, and the threads of each do not."""
    at_once = any(axis in launch.extents for axis in GRID) and not blocks_in_order(lowered, launch)

    def lines(node: Assign, update: Update) -> list[str]:
        name = lowered.kernel.statement_by_id[node.statement].written
        return ["#pragma omp atomic", update.plain] if at_once and _is_global(lowered, name) else [update.plain]
    return lines


def blocks_in_order(lowered: Lowered, launch: Launch) -> bool:
    """Can the blocks not run at once on the host? Some wait for others, or update what OpenMP cannot."""
    if launch.ticketed:
        return True
    for bound in launch.statements.values():
        s = bound.statement
        if s.commutes and _is_global(lowered, s.written):
            assert s.combine is not None
            dtype = _dtype(lowered, s.written)
            if REDUCTIONS[s.combine].combine not in ("+", "*") or dtype.kind == "c" or is_half(dtype):
                return True
    return False


def _is_global(lowered: Lowered, array: str) -> bool:
    storage = lowered.storages.get(array)
    return storage is None or storage.space is AddressSpace.GLOBAL


def _dtype(lowered: Lowered, array: str) -> np.dtype:
    storage = lowered.storages.get(array)
    dtype = lowered.kernel.array_args[array].dtype if storage is None else storage.dtype
    assert dtype is not None
    return np.dtype(dtype)
