"""Reductions over the threads of a block by shuffles: each warp on its own, then the results of all warps.

Lane ``l`` of a warp adds what lane ``l + 16`` holds to its own value, then what lane ``l + 8`` holds, and so on to 1,
as far as these lanes exist: no shared memory, no barrier. The first lane then has the result. In a reduction over one
warp, the other lanes read the result by one more shuffle. In a reduction over several warps, the first lanes store
their results in shared memory, and behind one barrier every thread combines the results of all warps, in their order.
If the first warp alone did that, a second barrier would be needed, which costs more than reading at most 32
neighbouring elements, the same for all threads.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.legality import axis_inames, iname_range
from loopkit.expr.kinds import is_half
from loopkit.instructions.shuffle import Shuffle
from loopkit.kernel.data import AddressSpace, TemporaryVariable
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import ReductionNode, Statement
from loopkit.kernel.tags import InameTag, LocalTag, UnrollTag
from loopkit.kernel.tree import Leaf, Tree, leaves, nest
from loopkit.lowering.schedule import asked_apart
from loopkit.poly.affine import add, floor_div, remainder, subtract
from loopkit.poly.sets import InstanceSet


@dataclass(frozen=True)
class Written:
    """The statements that replace a reduction over threads behind its updates.

    :ivar trees: the statements in their order.
    :ivar result: what the accumulator is in the final statement.
    :ivar tags: of inames that are new.
    :ivar chains: arrays that statements one after another update. Each reads what the one before it wrote in the same
        iteration, and the first one's values where that wrote none.
    """

    statements: tuple[Statement, ...]
    trees: tuple[Tree, ...]
    temporaries: tuple[TemporaryVariable, ...]
    result: p.Variable | p.Subscript
    tags: dict[str, InameTag] = field(default_factory=dict)
    chains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class OverThreads:
    """One reduction over threads.

    :ivar lanes: its inames on ``l`` axes, outermost first.
    :ivar lane: the number of a thread among those that hold parts of one result, below *length*.
    :ivar rows: inames of the statement's own threads, each place of which has a result of its own.
    :ivar domain: the instances of its statement; *everywhere*: these on each of the lanes.
    :ivar warp: threads of a warp.
    """

    kernel: LoopKernel
    node: ReductionNode
    lanes: tuple[str, ...]
    lane: Expression
    length: int
    rows: tuple[str, ...]
    domain: InstanceSet
    everywhere: InstanceSet
    warp: int

    def element(self, array: str, *own: Expression) -> p.Subscript:
        """*own* among the elements that belong to the row of a thread."""
        rows = [subtract(p.Variable(x), iname_range(self.kernel, x)[0]) for x in self.rows]
        return p.Subscript(p.Variable(array), (*rows, *own))

    def whole(self, offset: int) -> bool:
        """Has each of the first *offset* lanes of each warp another one so many places further on?"""
        return all(i + offset < self.length for i in range(self.length) if i % self.warp < offset)

    def array(self, name: str, length: int, *, lanes: bool = False, note: str = "") -> TemporaryVariable:
        """Shared elements, *length* of them for each row."""
        rows = [iname_range(self.kernel, x)[1] for x in self.rows]
        return TemporaryVariable(name, self.kernel.temporaries[self.node.accumulator].dtype, (*rows, length),
                                 AddressSpace.LOCAL, lanes=lanes, note=note)


def in_order_of_threads(knl: LoopKernel, lanes: Sequence[str]) -> tuple[str, ...]:
    """*lanes* with those outermost whose axis varies slowest among the threads of a block."""
    axes = axis_inames(knl, lanes, LocalTag)
    return tuple(x for axis in sorted(axes, reverse=True) for x in axes[axis])


def no_shuffles(knl: LoopKernel, threads: OverThreads) -> str:
    """Why the lanes of warps cannot combine what they hold by shuffles; ``""``: they can.

    Neighbouring lanes must be neighbouring threads, the rows whole warps, or a part of one that divides it, and all
    threads of a warp must take part, or none. The blocks of another launch may have other threads.
    """
    if threads.length == 1:
        return "of one thread"
    extents = _extents(knl, threads.everywhere.inames)
    if not _of_whole_warps(knl, threads, extents):
        return "the block has other threads too"
    own, numbers = _numbers(knl, threads.lanes), _numbers(knl, threads.everywhere.inames)
    size = 1
    for extent in extents.values():
        size *= extent
    if any(own[x] != numbers[x] for x in threads.lanes):
        return "of threads that are no neighbours"
    if threads.length % threads.warp and threads.warp % threads.length and threads.length != size:
        return f"rows of {threads.length} threads are neither whole warps nor a part that divides one"
    return ""


def _of_whole_warps(knl: LoopKernel, threads: OverThreads, extents: Mapping[int, int]) -> bool:
    """Do the threads that take part fill whole warps? There are *extents* of them along the axes of the block.

    If the block is longer along an axis, warps must end where a place along the axis does, and the lanes lie before. A
    statement outside of an axis has its lanes at the first place along it; all other places read its result.
    """
    block: dict[int, int] = {}
    for s in _in_one_launch(knl, threads.node.final):
        for axis, extent in _extents(knl, s.inames).items():
            block[axis] = max(block.get(axis, 1), extent)
    last = max(axis_inames(knl, threads.lanes, LocalTag))
    before = 1
    for axis in sorted(block):
        if block[axis] > extents.get(axis, 1) and (axis not in extents or axis <= last or before % threads.warp):
            return False
        before *= block[axis]
    return True


def _in_one_launch(knl: LoopKernel, statement: str) -> Iterator[Statement]:
    """The statements that may run in one launch with *statement*: no launch is asked to end between them and it."""
    place = {s: i for i, s in enumerate(leaves(knl.tree))}
    ends = [(place[first], place[second]) for first, second in asked_apart(knl)]
    here = place[statement]
    for s in knl.statements:
        low, high = sorted((place[s.id], here))
        if not any(low <= first and second <= high for first, second in ends):
            yield s


def _extents(knl: LoopKernel, inames: Sequence[str]) -> dict[int, int]:
    """How long the axes of a block are that *inames* lie on."""
    result: dict[int, int] = {}
    for axis, own in axis_inames(knl, inames, LocalTag).items():
        result[axis] = 1
        for x in own:
            result[axis] *= iname_range(knl, x)[1]
    return result


def _numbers(knl: LoopKernel, inames: Sequence[str]) -> dict[str, int]:
    """By how much the number of a thread grows with each of *inames*, ``l.0`` fastest."""
    result: dict[str, int] = {}
    stride = 1
    for _, own in sorted(axis_inames(knl, inames, LocalTag).items()):
        for x in reversed(own):
            result[x] = stride
            stride *= iname_range(knl, x)[1]
    return result


def by_shuffles(knl: LoopKernel, threads: OverThreads) -> Written:
    """The reduction by shuffles in each warp, and from there to all threads."""
    node, length, size = threads.node, threads.length, threads.warp
    together = min(length, size)
    own, result = (knl.fresh_name(f"{node.accumulator}_{what}") for what in ("warp", "all"))
    held = threads.element(own, threads.lane)
    store = Statement(f"{node.name}.store", held, p.Variable(node.accumulator), threads.everywhere)
    steps = list(_steps(threads, own, together))
    trees = [nest(threads.lanes, leaf) for leaf in (Leaf(store.id), *(Leaf(s.id, how) for s, how in steps))]
    among = f"warps of {size}" if length > size else "the warp" if not threads.rows else f"rows of {length}"
    temporaries = [threads.array(own, length, lanes=True, note=f"combined by shuffles in {among}"),
                   TemporaryVariable(result, knl.temporaries[node.accumulator].dtype, ())]
    statements = [store, *(s for s, _ in steps)]
    tags: dict[str, InameTag] = {}
    if length <= size:
        handed = Statement(f"{node.name}.result", p.Variable(result), threads.element(own, 0), threads.domain)
        width = size if size % length else length
        statements.append(handed)
        trees.append(Leaf(handed.id, Shuffle(None, width)))
    else:
        warps, warp = -(-length // size), knl.fresh_name("warp")
        partial = threads.array(knl.fresh_name(f"{node.accumulator}_shared"), warps)
        temporaries.append(partial)
        if warps > 2:
            tags[warp] = UnrollTag()
        put, first, rest = _of_warps(threads, held, partial.name, result, warp, warps)
        statements += [put, first, rest]
        trees += [nest(threads.lanes, Leaf(put.id)), Leaf(first.id),
                  nest(() if warps == 2 else (warp,), Leaf(rest.id))]
    chain = tuple(s.id for s in statements[:len(steps) + 2])
    return Written(tuple(statements), tuple(trees), tuple(temporaries), p.Variable(result), tags, {own: chain})


def _steps(threads: OverThreads, array: str, together: int) -> Iterator[tuple[Statement, Shuffle]]:
    """``held[l] op= held[l + s]`` for s = the powers of two below *together*, from the largest down.

    The lanes from s on have no part in a step, nor in those behind it. They are left out where they must be: otherwise
    they combine too, what they find there is never read.
    """
    harmless = _harmless(threads.kernel, threads.node)
    inside = threads.lane if threads.length <= threads.warp else remainder(threads.lane, threads.warp)
    offset = 1
    while 2 * offset < together:
        offset *= 2
    number = 0
    while offset and together > 1:
        active = threads.everywhere.where(("<", add(inside, -offset)))
        if not threads.whole(offset):
            active = active.where(("<", add(threads.lane, offset - threads.length)))
        yield Statement(f"{threads.node.name}.step{number}", threads.element(array, threads.lane),
                        threads.element(array, add(threads.lane, offset)), active,
                        combine=threads.node.operation), Shuffle(offset, together, harmless and threads.whole(offset))
        offset //= 2
        number += 1


def _harmless(knl: LoopKernel, node: ReductionNode) -> bool:
    """May a lane combine whatever it finds? Integers could overflow, and nobody knows what a user's operation does."""
    dtype = knl.temporaries[node.accumulator].dtype
    assert dtype is not None
    return node.operation not in knl.operations and (dtype.kind in "fc" or is_half(dtype))


def _of_warps(threads: OverThreads, held: p.Subscript, shared: str, result: str, warp: str, warps: int
              ) -> tuple[Statement, Statement, Statement]:
    """The first lane of each warp stores what the warp holds; every thread combines that of all warps."""
    name = threads.node.name
    first_lanes = threads.everywhere.where(("==", remainder(threads.lane, threads.warp)))
    put = Statement(f"{name}.put", threads.element(shared, floor_div(threads.lane, threads.warp)), held, first_lanes)
    first = Statement(f"{name}.first", p.Variable(result), threads.element(shared, 0), threads.domain)
    other: Expression = 1
    others = threads.domain
    if warps > 2:
        other = p.Variable(warp)
        others = others.onto((*others.inames, warp)).where((">=", add(other, -1)), ("<", add(other, -warps)))
    rest = Statement(f"{name}.rest", p.Variable(result), threads.element(shared, other), others,
                     combine=threads.node.operation)
    return put, first, rest
