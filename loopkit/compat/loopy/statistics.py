"""loopy's counts: those of loopkit, of the kernel that a call of a program enters."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any

import loopkit as lk
from loopkit.analysis.counts import CountGranularity as CountGranularity
from loopkit.analysis.counts import Synchronization, ToCountMap
from loopkit.analysis.match import matching
from loopkit.compat.loopy.match import as_within
from loopkit.compat.loopy.spelling import VariableTags
from loopkit.compat.loopy.translation_unit import core_of, single_kernel
from loopkit.errors import PreconditionError, UndecidedError
from loopkit.kernel.statement import owner
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


@dataclass(frozen=True, repr=False, eq=False)
class MemAccess(lk.MemAccess):
    """A :class:`loopkit.MemAccess`; *variable_tags*: those of the variable in the text, ``a$tag[i]``, or ``None``.

    :raises ValueError: a field cannot have its value.
    """

    variable_tags: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "variable_tags", frozenset(self.variable_tags or ()) or None)
        try:
            super().__post_init__()
        except PreconditionError as error:
            raise ValueError(str(error)) from error


def get_op_map(program: Any, count_redundant_work: bool = False, count_within_subscripts: bool = True,
               subgroup_size: Any = None, entrypoint: str | None = None, within: Any = None) -> ToCountMap:
    """:func:`loopkit.get_op_map`."""
    return lk.get_op_map(_entered(program, entrypoint), count_redundant_work, count_within_subscripts, subgroup_size,
                         within=as_within(within))


def get_mem_access_map(program: Any, count_redundant_work: bool = False, subgroup_size: Any = None,
                       entrypoint: str | None = None, within: Any = None) -> ToCountMap:
    """:func:`loopkit.get_mem_access_map`, by the tags of the variables, too.

    :raises UndecidedError: a statement accesses a variable with several sets of tags.
    """
    kernel = single_kernel(program if entrypoint is None else program[entrypoint])
    core, tags = kernel.core, kernel.origin.variable_tags
    every = frozenset(map(owner, matching(core, as_within(within) or "*")))
    found = list[tuple[Any, PiecewiseQuasiPolynomial]]()
    for ids in (*([s] for s in sorted(every & tags.keys())), sorted(every - tags.keys())):
        own = tags.get(ids[0], {}) if ids else {}
        counted = lk.get_mem_access_map(core, count_redundant_work, subgroup_size,
                                        within=" or ".join(f"id:{x}" for x in ids)) if ids else {}
        for key, number in counted.items():
            assert isinstance(key, lk.MemAccess)
            fields = {f.name: getattr(key, f.name) for f in dataclass_fields(key)}
            found.append((MemAccess(**fields, variable_tags=_tags_of(key, own, ids)), number))
    return ToCountMap.of(found)


def _tags_of(key: lk.MemAccess, tags: VariableTags, ids: Iterable[str]) -> frozenset[str]:
    every: list[frozenset[str]] = [*tags.get((str(key.variable), str(key.direction)), [frozenset()])]
    if len(every) > 1:
        raise UndecidedError(f"'{key.variable}' has several tags in '{next(iter(ids))}', and the accesses of one "
                             "statement are counted together.", "the number for each tag is unknown",
                             hint="give each access a statement of its own")
    return every[0]


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
