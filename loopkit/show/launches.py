"""One launch at given sizes: its blocks, its threads, and the values of inames in each."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod

from loopkit.analysis.sizes import sizes_at_least
from loopkit.ast.nodes import Function
from loopkit.ast.walk import calls
from loopkit.errors import PreconditionError, require_known, values_text
from loopkit.expr.evaluate import evaluate
from loopkit.lowering.lowered import BLOCK, GRID, Launch, Lowered

#: Sizes that a picture of a grid tries.
_USUAL_GRID_SIZES = (8, 16, 32, 64, 128, 256, 512, 1024)

#: The coordinates of a block or a thread along x, y, z.
Coordinates = tuple[int, int, int]


@dataclass(frozen=True)
class LaunchAt:
    """A launch at given *sizes*.

    :ivar hosts: the values of the host's loops around it, in one iteration of them.
    :ivar grid: blocks along x, y, z; *block*: threads.
    """

    lowered: Lowered
    launch: Launch
    function: Function
    sizes: Mapping[str, int]
    hosts: Mapping[str, int]
    grid: Coordinates
    block: Coordinates

    @property
    def known(self) -> dict[str, int]:
        return {**self.sizes, **self.hosts}

    @property
    def warps(self) -> int:
        return -(-prod(self.block)//self.launch.machine.warp)

    def at(self, block: Coordinates, thread: Coordinates) -> dict[str, int]:
        """The values of the sizes, the axes and the inames on them in a thread."""
        values = {**self.known, **dict(zip(GRID, block, strict=True)), **dict(zip(BLOCK, thread, strict=True))}
        for iname, coordinate in self.function.coordinates.items():
            values[iname] = evaluate(coordinate, values)
        return values

    def thread(self, number: int) -> Coordinates:
        """The coordinates of the thread *number*, ``l.0`` fastest."""
        x, y, _ = self.block
        return number % x, number//x % y, number//(x*y)

    def require_block(self, block: Sequence[int]) -> Coordinates:
        """*block* as coordinates along x, y, z; :raises PreconditionError: the grid has no such block."""
        x, y, z = (*block, 0, 0, 0)[:3]
        given = x, y, z
        if len(block) > 3 or not all(0 <= at < most for at, most in zip(given, self.grid, strict=True)):
            raise PreconditionError(f"{tuple(block)} is not a block of the grid {extents_text(self.grid)}.",
                                    subject="block", hint="block= has the coordinates g.0, g.1, g.2, each from 0")
        return given

    @property
    def where(self) -> str:
        """The sizes and the host's iteration, for a title."""
        return values_text(self.known, ", {}")


def extents_text(extents: Sequence[int]) -> str:
    """``4 x 2``, without the last ones that are 1."""
    *shown, last = extents
    return extents_text(shown) if last == 1 and shown else " x ".join(map(str, extents))


def place_text(place: Coordinates, extents: Coordinates) -> str:
    """The coordinates along the axes that are in use."""
    used = max((i for i, extent in enumerate(extents) if extent > 1), default=0) + 1
    return f"({', '.join(map(str, place[:used]))})" if used > 1 else str(place[0])


def require_launches(lowered: Lowered) -> None:
    """:raises PreconditionError: no statement of the kernel runs."""
    if not lowered.launches:
        raise PreconditionError(f"Kernel '{lowered.kernel.name}' has no launch, because no statement of it runs.",
                                subject=lowered.kernel.name,
                                hint="a statement runs if its domain has points and its value reaches an argument")


def chosen_launch(lowered: Lowered, name: str | None, what: str) -> tuple[Launch, Function]:
    """The launch *name*, by default the first with several blocks or threads.

    :raises UnknownNameError: there is no such launch.
    :raises PreconditionError: there are none, or no iname of it is on an axis of blocks or threads.
    """
    require_launches(lowered)
    pairs = {f.name: (launch, f) for launch, f in zip(lowered.launches, lowered.program.functions, strict=True)}
    if name is not None:
        require_known("launch", [name], pairs, where=f"kernel '{lowered.kernel.name}'")
    launch, function = pairs[name] if name is not None else \
        next((x for x in pairs.values() if x[1].coordinates), next(iter(pairs.values())))
    if not function.coordinates:
        raise PreconditionError(
            f"No iname of launch '{function.name}' is on an axis of blocks or threads, so that one thread runs all of "
            f"it and {what} has nothing to show.", subject=function.name,
            hint="map one first: lk.split_iname(knl, iname, 128, outer_tag='g.0', inner_tag='l.0')")
    return launch, function


def launch_at(lowered: Lowered, launch: Launch, function: Function, parameters: Mapping[str, int],
              usual: Sequence[int] = _USUAL_GRID_SIZES, call: int = 0) -> LaunchAt:
    """*launch* at the sizes *parameters*; by default the first of *usual* at which each axis has several blocks.

    :arg call: the number of the launch's call, counted from 0; the last one if the host's loops make fewer.
    :raises UnknownNameError: a size is not one of the kernel.
    :raises CallError: the assumptions do not allow the sizes.
    :raises PreconditionError: the launch has no blocks at these sizes.
    """
    knl = lowered.kernel
    names = sorted(x for x in knl.value_params if x not in launch.hosts)
    require_known("size", parameters, names)
    sizes = (sizes_at_least(knl.assumptions, parameters, dict.fromkeys(names, size)) for size in usual)
    tried = (_if_it_runs(lowered, launch, function, x, call) for x in sizes)
    found = [x for x in tried if x is not None]
    if not found:
        raise PreconditionError(f"Launch '{function.name}' has no blocks at these sizes.",
                                subject=function.name, hint="pass larger sizes: parameters={...}")
    return next((x for x in found if all(x.grid[GRID.index(axis)] > 1 for axis, extent in function.extents.items()
                                         if axis in GRID and not isinstance(extent, int))), found[-1])


def _if_it_runs(lowered: Lowered, launch: Launch, function: Function, sizes: Mapping[str, int], call: int
                ) -> LaunchAt | None:
    """*launch* at a call of it; ``None``: it is not called, or has no blocks."""
    own = (values for name, values in calls(lowered.program.order, sizes) if name == function.name)
    hosts: Mapping[str, int] | None = None
    for values in islice(own, call + 1):
        hosts = dict(values)
    if hosts is None:
        return None
    extents = {axis: evaluate(e, hosts) for axis, e in function.extents.items()}
    grid, block = ((extents.get(x, 1), extents.get(y, 1), extents.get(z, 1)) for x, y, z in (GRID, BLOCK))
    inside = {x: hosts[x] for x in launch.hosts}
    found = LaunchAt(lowered, launch, function, sizes, inside, grid, block)
    return found if min(*grid, *block) > 0 else None
