"""The order in which statement instances run, as far as it is sequential."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import InameTag, VecTag, is_innermost, is_parallel
from loopkit.kernel.tree import Meeting, Path, Step, meeting
from loopkit.poly.limits import kept

T = TypeVar("T")


def execution_paths(knl: LoopKernel) -> Mapping[str, Path]:
    """The path to each statement through its *sequential* loops.

    Leaves out parallel loops; ``ilp`` and ``vec`` loops are innermost.
    """
    return kept(knl.memo, "execution_paths", lambda: {s: _sequential(path, knl.tags) for s, path in knl.paths.items()})


def _sequential(path: Path, tags: Mapping[str, InameTag]) -> Path:
    if not tags:
        return path
    outer: list[Step] = []
    innermost: list[Step] = []
    for step in path:
        tag = None if step.iname is None else tags.get(step.iname)
        if is_innermost(tag):
            innermost.append(step)
        elif not is_parallel(tag):
            outer.append(step)
    return (*outer, *vectors_last(innermost, lambda step: step.iname, tags))


def vectors_last(loops: Sequence[T], iname: Callable[[T], str | None], tags: Mapping[str, InameTag]) -> list[T]:
    """*loops*, outermost first, with those over ``vec`` inames moved to the end."""
    return sorted(loops, key=lambda loop: isinstance(tags.get(iname(loop) or ""), VecTag))


def meeting_of(paths: Mapping[str, Path], source: str, sink: str) -> Meeting:
    """The loops that two statements share along *paths*, and whether *source* comes first in them."""
    return meeting(paths[source], paths[sink])


def loops_of(path: Path) -> tuple[str, ...]:
    """The inames of the loops on *path*, outermost first."""
    return tuple(step.iname for step in path if step.iname is not None)
