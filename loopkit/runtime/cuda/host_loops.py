"""The launches of a call with host loops."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from loopkit.ast.nodes import Block
from loopkit.ast.walk import calls
from loopkit.expr.evaluate import Evaluator, evaluator
from loopkit.expr.mappers import variables
from loopkit.runtime.cuda.devices import Gpu
from loopkit.runtime.cuda.launching import PreparedClear, PreparedLaunch, require_grid
from loopkit.runtime.scalars import Scalar


class HostedLaunch:
    """One launch in one iteration.

    :ivar launch: the launched function.
    :ivar values: of the sizes, and of the inames of the host's loops.
    """

    __slots__ = ("_hosts", "_prepared", "grid", "launch", "values")

    def __init__(self, prepared: PreparedLaunch, grid: tuple[int, ...], hosts: Sequence[str],
                 values: Mapping[str, Any]) -> None:
        self.launch = prepared.launch
        self.grid = grid
        self.values = values
        self._hosts = hosts
        self._prepared = prepared

    def enter(self, addresses: Sequence[int], scalars: Sequence[Scalar], stream: int) -> int:
        """Launch with a call's addresses and scalars; returns the driver's ``CUresult``."""
        # outside of a loop its iname has no value and is not used
        hosts = (self.values.get(x, 0) for x in self._hosts)
        return self._prepared.enter_on(self.grid, addresses, [*scalars, *hosts], stream)


class HostedLaunches:
    """The launches of a call in order: generated at each call, since their number may be large.

    :arg prepared: the functions by name, each prepared for any of its launches; the values of the inames *hosts* are
        behind the scalars of a call.
    :arg values: the sizes of the call.
    :arg first: the operations before the launches.
    :raises LimitError: a grid is larger than the GPU allows.
    """

    def __init__(self, gpu: Gpu, prepared: Mapping[str, PreparedLaunch], order: Block, hosts: Sequence[str],
                 values: Mapping[str, Any], first: Sequence[PreparedClear] = ()) -> None:
        self._first = first
        self._prepared = prepared
        self._order = order
        self._hosts = tuple(hosts)
        self._values = values
        grids = {name: x.launch.grid for name, x in prepared.items()}
        self._varying = {name: tuple(map(evaluator, grid)) for name, grid in grids.items()
                         if any(variables(e) & set(hosts) for e in grid)}
        self._fixed = {name: _evaluated(map(evaluator, grid), values) for name, grid in grids.items()
                       if name not in self._varying}
        self._require_grids(gpu)

    def __iter__(self) -> Iterator[PreparedClear | HostedLaunch]:
        yield from self._first
        yield from self._launches()

    def _launches(self) -> Iterator[HostedLaunch]:
        for name, values in calls(self._order, self._values):
            grid = self._fixed.get(name) or _evaluated(self._varying[name], values)
            if min(grid) > 0:
                yield HostedLaunch(self._prepared[name], grid, self._hosts, values)

    def __len__(self) -> int:
        return self._number

    @cached_property
    def _number(self) -> int:
        return sum(1 for _ in self)

    def _require_grids(self, gpu: Gpu) -> None:
        checked: set[str] = set()
        for launch in self._launches():
            name = launch.launch.name
            if name not in checked:
                require_grid(gpu, launch.launch, launch.grid)
                if name in self._fixed:
                    checked.add(name)
            if len(checked) == len(self._prepared):
                return


def _evaluated(extents: Iterable[Evaluator], values: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(int(extent(values)) for extent in extents)
