"""Questions about a kernel in linear form."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopkit.compat.loopy.schedule.linear import CallKernel, ReturnFromKernel, RunInstruction, ScheduleItem
from loopkit.errors import PreconditionError


def get_return_from_kernel_mapping(kernel: Any) -> Mapping[int, int | None]:
    """For each place in the linear form of *kernel* the place at which its launch ends; ``None``: outside of one."""
    found: dict[int, int | None] = {}
    end: int | None = None
    for k, item in reversed([*enumerate(_linear(kernel))]):
        end = k if isinstance(item, ReturnFromKernel) else end
        found[k] = end
        end = None if isinstance(item, CallKernel) else end
    return found


def get_subkernels(kernel: Any) -> tuple[str, ...]:
    """The launches of *kernel* by name."""
    return tuple(item.kernel_name for item in _linear(kernel) if isinstance(item, CallKernel))


def get_subkernel_to_insn_id_map(kernel: Any) -> Mapping[str, frozenset[str]]:
    """For each launch of *kernel* the ids of its statements."""
    found: dict[str, set[str]] = {}
    launch: set[str] = set()
    for item in _linear(kernel):
        if isinstance(item, CallKernel):
            launch = found.setdefault(item.kernel_name, set())
        elif isinstance(item, RunInstruction):
            launch.add(item.insn_id)
    return {name: frozenset(ids) for name, ids in found.items()}


def _linear(kernel: Any) -> tuple[ScheduleItem, ...]:
    """The linear form of *kernel*; :raises PreconditionError: it was not linearized."""
    form: tuple[ScheduleItem, ...] | None = kernel.linearization
    if form is None:
        raise PreconditionError(f"The kernel '{kernel.name}' is not in linear form.", subject=kernel.name,
                                hint="lp.get_one_linearized_kernel makes it")
    return form
