"""From an instance of a transformed kernel to the instance of the written one: steps undone in plain arithmetic."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import loopkit as lk

Point = dict[str, int]
#: From a statement and its inames after a step to its inames before.
Undo = Callable[[str, Point], Point]
Match = Callable[[lk.LoopKernel, lk.LoopKernel], Undo]

#: Steps that leave all instances as they are, whatever becomes of their order.
ORDERS = ("interchange", "prioritize_loops", "tag_inames", "untag_inames", "unroll", "add_prefetch", "precompute",
          "privatize", "distribute_loop", "set_options", "assume", "fix_parameters")


class Origin:
    """Undoes the steps between consecutive *kernels*.

    :arg match: undoes a step that this module does not know.
    """

    def __init__(self, kernels: Sequence[lk.LoopKernel], match: Match) -> None:
        self.kernels = kernels
        self.undo = [undone(before, after, match) for before, after in pairwise(kernels)]

    def point(self, statement: str, values: Mapping[str, int], back_to: int = 0) -> Point:
        """The inames of *statement* in one of the kernels: in the written one, unless *back_to* says which."""
        point = dict(values)
        for undo in reversed(self.undo[back_to:]):
            point = undo(statement, point)
        own = self.kernels[back_to].statement_by_id[statement].inames
        assert set(point) == set(own), f"{statement} had {own}, not {point}"
        return point


def undone(before: lk.LoopKernel, after: lk.LoopKernel, match: Match) -> Undo:
    """The last step of *after*, undone."""
    step = after.history[-1]
    kwargs = dict(step.kwargs)
    match step.name:
        case "split_iname" | "unroll_and_jam":
            return _split(before, *step.args[:2], kwargs)
        case "tile":
            undo: Undo = _unchanged
            kernel = before
            for iname, size in step.args[0].items():
                # fresh names are those of the kernel as it is by then
                undo = _then(_split(kernel, iname, size, {}), undo)
                kernel = lk.split_iname(kernel, iname, size)
            return undo
        case "join_inames":
            return _join(before, step.args[0], step.args[1] if len(step.args) > 1 else kwargs.get("new_iname"))
        case "rename_iname":
            old, new = step.args[:2]
            return lambda _, point: {(old if x == new else x): v for x, v in point.items()}
        case "fuse_loops":
            return lambda s, point: {old: point[new] for old, new in zip(
                before.statement_by_id[s].inames, after.statement_by_id[s].inames, strict=True)}
        case name if name in ORDERS:
            return _unchanged
        case _:
            return match(before, after)


def _unchanged(_: str, point: Point) -> Point:
    return point


def _then(first: Undo, second: Undo) -> Undo:
    return lambda s, point: second(s, first(s, point))


def _split(before: lk.LoopKernel, iname: str, length: int, kwargs: Mapping[str, Any]) -> Undo:
    outer = kwargs.get("outer_iname") or before.fresh_name(f"{iname}_outer")
    inner = kwargs.get("inner_iname") or before.fresh_name(f"{iname}_inner")

    def undo(_: str, point: Point) -> Point:
        if outer not in point:
            return point
        rest = {x: v for x, v in point.items() if x not in (outer, inner)}
        return {**rest, iname: length * point[outer] + point[inner]}
    return undo


def _join(before: lk.LoopKernel, inames: Sequence[str], new: str | None) -> Undo:
    name = new or before.fresh_name("_".join(inames))
    ranges = {}
    for x in inames[1:]:
        bounds = [s.domain.constant_range(x) for s in before.statements if x in s.inames]
        low = min(b[0] for b in bounds if b[0] is not None)
        ranges[x] = (low, max(b[1] for b in bounds if b[1] is not None) - low + 1)

    def undo(_: str, point: Point) -> Point:
        if name not in point:
            return point
        rest = {x: v for x, v in point.items() if x != name}
        number = point[name]
        for x in reversed(inames[1:]):
            low, extent = ranges[x]
            number, rest[x] = number // extent, low + number % extent
        return {**rest, inames[0]: number}
    return undo
