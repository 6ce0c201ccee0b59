"""What a kernel costs in storage and launches, as far as it can be told before the kernel is lowered."""
from __future__ import annotations

from collections.abc import Iterator

from loopkit.errors import LoopkitError, TypeInferenceError
from loopkit.kernel.cost import Cells, Cost
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.pipeline import Placed, placed_once, placed_without_types
from loopkit.lowering.schedule import HostLoop, HostNode
from loopkit.poly.limits import affordable, bounded

#: Operations of isl for one answer, about a second.
BUDGET = 1_000_000


def cost_of(knl: LoopKernel) -> Cost | None:
    """The cells of the temporaries, the launches and the host's loops of *knl*.

    ``None``: the kernel cannot be lowered as it is, or its schedule cannot be found within the budget. A kernel without
    dtypes has a cost in elements.

    >>> knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, a[i, k])")
    >>> print(cost_of(knl).cells["acc_k"])
    1 element a thread
    """
    if "cost" not in knl.memo:
        knl.memo["cost"] = _cost_of(knl)
    found: Cost | None = knl.memo["cost"]
    return found


def _cost_of(knl: LoopKernel) -> Cost | None:
    try:
        with bounded(f"looking at the storage of kernel '{knl.name}'"):
            placed = affordable(lambda: _placed(knl), otherwise=None, budget=BUDGET)
    except LoopkitError:
        return None                     # lowering says why, to whoever asks for the text
    if placed is None:
        return None
    ready, schedule, storages, _ = placed
    typed = knl.memo.get("placed") is placed
    cells = {x: Cells(s.space, s.shape, s.dtype.itemsize if typed or _has_dtype(knl, x) else None)
             for x, s in storages.items() if x in knl.temporaries and x in ready.temporaries}
    return Cost(cells, len(schedule.launches), tuple(_hosts(schedule.order)))


def _placed(knl: LoopKernel) -> Placed:
    try:
        return placed_once(knl)
    except TypeInferenceError:
        return placed_without_types(knl)


def _has_dtype(knl: LoopKernel, name: str) -> bool:
    return knl.temporaries[name].dtype is not None


def _hosts(nodes: tuple[HostNode, ...]) -> Iterator[tuple[str, int]]:
    for node in nodes:
        if isinstance(node, HostLoop):
            yield node.iname, _launches(node.body)
            yield from _hosts(node.body)


def _launches(nodes: tuple[HostNode, ...]) -> int:
    return sum(_launches(node.body) if isinstance(node, HostLoop) else 1 for node in nodes)
