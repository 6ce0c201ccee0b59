"""The storage and the launches of a kernel, found by lowering it up to the stage ``launches``."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from loopkit.analysis.constructors import annotated
from loopkit.errors import LoopkitError, TypeInferenceError
from loopkit.kernel.cost import Cells, Cost
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.target import GPU
from loopkit.kernel.tree import leaves, loops_in
from loopkit.lowering.lowered import Lowered, Storage
from loopkit.lowering.pipeline import lowered_as_typed, placed_once
from loopkit.lowering.storage import each_storage
from loopkit.lowering.types import infer_types
from loopkit.poly.limits import affordable, bounded, kept_by_kernel

#: Operations of isl for one answer. Kernels of the library take at most a tenth, so that no answer depends on results
#: of earlier questions, which save operations.
BUDGET = 4_000_000


@kept_by_kernel
def cost_of(knl: LoopKernel) -> Cost:
    """The cells of the temporaries, the launches and the host's loops of *knl*, as far as they are known.

    If one temporary can have no cells as it is, or takes isl more than the budget, those of others are known still. A
    kernel without dtypes has a cost in elements.

    >>> knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, a[i, k])")
    >>> print(cost_of(knl).cells["acc_k"])
    1 element a thread
    """
    def cells_of(storage: Storage) -> Cells:
        known = inferred or knl.temporaries[storage.name].dtype is not None
        return Cells(storage.space, storage.shape, storage.dtype.itemsize if known else None)

    def unknown(reason: str) -> Cost:
        return Cost({}, None, unknown=dict.fromkeys(knl.temporaries, reason), reason=reason)
    with bounded(f"looking at the storage of kernel '{knl.name}'"):
        found = _attempt(lambda: _with_types(knl))
        if isinstance(found, str):
            return unknown(found)
        typed, inferred = found
        placed = _attempt(lambda: placed_once(knl) if inferred else lowered_as_typed(typed, GPU, "launches"))
        if isinstance(placed, Lowered):
            cells = {x: cells_of(s) for x, s in placed.storages.items() if x in knl.temporaries}
            hosts = ((loop.iname, len([*leaves(loop)])) for loop in loops_in(placed.scheduled.order))
            return Cost(cells, len(placed.scheduled.launches), tuple(hosts))
        # of each temporary of a kernel that cannot be lowered as it is, as far as its schedule gives them
        storages = _attempt(lambda: dict(each_storage(lowered_as_typed(typed, GPU, "memory").scheduled)))
        if isinstance(storages, str):
            return replace(unknown(storages), reason=placed)
        results = {x: _attempt(allocate) for x, allocate in storages.items() if x in knl.temporaries}
    return Cost({x: cells_of(result[0]) for x, result in results.items() if not isinstance(result, str)}, None,
                unknown={x: result for x, result in results.items() if isinstance(result, str)}, reason=placed)


def _with_types(knl: LoopKernel) -> tuple[LoopKernel, bool]:
    """*knl* with its dtypes, or with ``int32`` for unknown ones of temporaries; are they known?"""
    try:
        return infer_types(knl), True
    except TypeInferenceError:
        temporaries = {name: t if t.dtype is not None else replace(t, dtype=np.dtype(np.int32))
                       for name, t in knl.temporaries.items()}
        return annotated(knl, temporaries=temporaries), False


T = TypeVar("T")


def _attempt(question: Callable[[], T]) -> T | str:
    """The result of *question*, or the reason why there is none."""
    try:
        found = affordable(question, otherwise=None, budget=BUDGET)
    except LoopkitError as error:
        return error.message
    return "It takes too long to find." if found is None else found
