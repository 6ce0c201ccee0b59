"""loopy's counts: those of loopkit, of the kernel that a call of a program enters."""
from __future__ import annotations

from typing import Any

import loopkit as lk
from loopkit.analysis.counts import CountGranularity as CountGranularity
from loopkit.analysis.counts import Synchronization, ToCountMap
from loopkit.compat.loopy.match import as_within
from loopkit.compat.loopy.translation_unit import core_of
from loopkit.errors import PreconditionError
from loopkit.lowering import counts
from loopkit.poly.quasi_polynomials import PiecewiseQuasiPolynomial

Sync = Synchronization
ToCountPolynomialMap = ToCountMap
GuardedPwQPolynomial = PiecewiseQuasiPolynomial


def Op(*args: Any, **fields: Any) -> lk.Op:  # noqa: N802  # loopy's name
    """A :class:`loopkit.Op`; :raises ValueError: a field cannot have its value."""
    try:
        return lk.Op(*args, **fields)
    except PreconditionError as error:
        raise ValueError(str(error)) from error


def MemAccess(*args: Any, variable_tags: Any = None, **fields: Any) -> lk.MemAccess:  # noqa: N802  # loopy's name
    """A :class:`loopkit.MemAccess`; :raises ValueError: a field cannot have its value.

    :arg variable_tags: none, because the layer drops the tags of variables.
    """
    if variable_tags:
        raise ValueError(f"variable_tags={variable_tags!r}: accesses have no tags of variables.")
    try:
        return lk.MemAccess(*args, **fields)
    except PreconditionError as error:
        raise ValueError(str(error)) from error


def get_op_map(program: Any, count_redundant_work: bool = False, count_within_subscripts: bool = True,
               subgroup_size: Any = None, entrypoint: str | None = None, within: Any = None) -> ToCountMap:
    """:func:`loopkit.get_op_map`."""
    return lk.get_op_map(_entered(program, entrypoint), count_redundant_work, count_within_subscripts, subgroup_size,
                         within=as_within(within))


def get_mem_access_map(program: Any, count_redundant_work: bool = False, subgroup_size: Any = None,
                       entrypoint: str | None = None, within: Any = None) -> ToCountMap:
    """:func:`loopkit.get_mem_access_map`."""
    return lk.get_mem_access_map(_entered(program, entrypoint), count_redundant_work, subgroup_size,
                                 within=as_within(within))


def get_synchronization_map(program: Any, subgroup_size: Any = None, entrypoint: str | None = None) -> ToCountMap:
    """:func:`loopkit.get_synchronization_map`, in which each barrier is one of the group, as in loopy's texts."""
    found = lk.get_synchronization_map(_entered(program, entrypoint), subgroup_size)
    return ToCountMap.of((Sync("barrier_local", key.kernel_name) if key == Sync("barrier_warp", key.kernel_name) else
                          key, number) for key, number in found.items())


def gather_access_footprints(program: Any, ignore_uncountable: bool = False, entrypoint: str | None = None
                             ) -> dict[tuple[str, str], Any]:
    """:func:`loopkit.gather_access_footprints`."""
    return lk.gather_access_footprints(_entered(program, entrypoint), ignore_uncountable)


def gather_access_footprint_bytes(program: Any, ignore_uncountable: bool = False
                                  ) -> dict[tuple[str, str], PiecewiseQuasiPolynomial]:
    """:func:`loopkit.gather_access_footprint_bytes`."""
    return lk.gather_access_footprint_bytes(core_of(program), ignore_uncountable)


def count(kernel: Any, set: Any, space: Any = None) -> PiecewiseQuasiPolynomial:    # noqa: A002  # loopy's name
    """The number of elements of an isl set, for the sizes that the kernel's assumptions allow."""
    return counts.count(core_of(kernel), set)


def _entered(program: Any, entrypoint: str | None) -> lk.LoopKernel:
    return core_of(program if entrypoint is None else program[entrypoint])
