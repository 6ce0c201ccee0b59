"""Reductions over the threads of a block: by shuffles in each warp and then over all warps, or as a tree in shared
memory.

Lane ``l`` of a warp adds the value of lane ``l + 16`` to its own, then the value of lane ``l + 8``, and so on to 1, as
far as these lanes exist: no shared memory, no barrier. The first lane then has the result. In a reduction over one
warp, all lanes need it: the two lanes of each pair exchange their values and both add them up, if this gives the same
bits in both. Otherwise the other lanes read the result by one more shuffle. In a reduction over several warps, the
first lanes store their results in shared memory, and after one barrier every thread combines the results of all warps,
in their order.
If the first warp alone combined them, a second barrier would be needed. It costs more than reading at most 32
neighbouring elements, the same for all threads. Without shuffles, the threads combine as a tree in shared memory:
the lower half combines the values of the upper half, and element 0 has the result.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from math import inf, prod

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_of, data_params
from loopkit.analysis.constructors import with_dependences
from loopkit.analysis.dependences import among_updates, flow_of_values, identity_pairs
from loopkit.analysis.legality import axis_inames, packed_coordinate
from loopkit.analysis.ranges import iname_range
from loopkit.expr.kinds import is_narrow
from loopkit.expr.mappers import substitute
from loopkit.expr.tuple_operations import Extremum
from loopkit.instructions.shuffle import Excluded, Shuffle, may_exchange
from loopkit.kernel.data import AddressSpace, TemporaryVariable
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, ReductionNode, Statement
from loopkit.kernel.tags import InameTag, LocalTag, UnrollTag
from loopkit.kernel.tree import Leaf, Tree, nest
from loopkit.lowering.schedule import in_one_launch
from loopkit.poly.affine import add, floor_div, multiply, remainder, subtract
from loopkit.poly.relations import same_element
from loopkit.poly.sets import InstanceSet, bounded_by

#: A new statement, and the shuffle that executes it, if one does.
Part = tuple[Statement, Shuffle | None]


@dataclass(frozen=True)
class OverThreads:
    """One reduction over threads.

    :ivar inames: its inames on ``l`` axes, outermost first.
    :ivar length: the number of threads that hold parts of one result.
    :ivar domain: the instances of its statement; *everywhere*: these on each of the lanes.
    """

    kernel: LoopKernel
    node: ReductionNode
    inames: tuple[str, ...]
    length: int
    domain: InstanceSet
    everywhere: InstanceSet
    warp: int

    @property
    def number(self) -> Expression:
        """The number of a thread among those that hold parts of one result."""
        return packed_coordinate(self.kernel, self.inames)

    @property
    def own_inames(self) -> tuple[str, ...]:
        """The inames along which one thread combines several operands."""
        every = self.kernel.statement_by_id[self.node.update].inames
        return tuple(x for x in self.node.inames if x in every and x not in self.inames)

    @property
    def rows(self) -> tuple[str, ...]:
        """The other inames of the statement's threads: each of their values has a result of its own."""
        return tuple(x for x in self.domain.inames if isinstance(self.kernel.tags.get(x), LocalTag))

    def element(self, array: str, *own: Expression) -> p.Subscript:
        """The element *own* of the row of a thread."""
        rows = [subtract(p.Variable(x), iname_range(self.kernel, x)[0]) for x in self.rows]
        return p.Subscript(p.Variable(array), (*rows, *own))

    @property
    def dtype(self) -> np.dtype:
        """The accumulator's dtype."""
        dtype = self.kernel.temporaries[self.node.accumulator].dtype
        assert dtype is not None
        return np.dtype(dtype)

    def scalar(self, name: str) -> TemporaryVariable:
        """A value of each thread, of the accumulator's dtype."""
        return TemporaryVariable(name, self.dtype, ())

    def array(self, name: str, length: int, space: AddressSpace, note: str = "") -> TemporaryVariable:
        """Elements of the threads, *length* of them for each row."""
        rows = [iname_range(self.kernel, x)[1] for x in self.rows]
        return replace(self.scalar(name), shape=(*rows, length), address_space=space, note=note)

    def statement(self, name: str, target: p.Variable | p.Subscript, value: Expression, domain: InstanceSet,
                  combine: str | None = None) -> Statement:
        """A new statement of the reduction."""
        return Statement(f"{self.node.name}.{name}", target, value, domain, combine=combine)

    def store(self, array: str) -> Statement:
        """Each thread stores its part."""
        return self.statement("store", self.element(array, self.number), p.Variable(self.node.accumulator),
                              self.everywhere)

    def over_warps(self, target: str, shared: str, value: Expression, neutral: Expression | None = None
                   ) -> tuple[list[Part], dict[str, InameTag]]:
        """One lane of each warp stores the warp's *value*, and every thread combines these; and the tags of new inames.

        :arg neutral: for a scan: each thread combines the values of the warps before its own.
        """
        size, number = self.warp, self.number
        warps = range(-(-self.length // size))
        start: Expression
        if neutral is None:
            lanes, domain = self.everywhere.where(("==", remainder(number, size))), self.domain
            start, others = self.element(shared, 0), warps[1:]
        else:
            lanes = self.everywhere.where(("==", add(remainder(number, size), 1 - size)),
                                          ("<", add(number, -warps[-1]*size)))
            domain, start, others = self.everywhere, neutral, warps[:-1]
        put = self.statement("put", self.element(shared, floor_div(number, size)), value, lanes)
        first = self.statement("first", p.Variable(target), start, domain)
        other: Expression = others[0]
        loop: tuple[str, ...] = ()
        if len(others) > 1:
            loop = (self.kernel.fresh_name("warp"),)
            other = p.Variable(*loop)
            domain = domain.onto((*domain.inames, *loop)).where(*bounded_by(*loop, others.start, others.stop))
        if neutral is not None:
            domain = domain.where((">=", subtract(add(number, -size), multiply(size, other))))
        rest = self.statement("rest", p.Variable(target), self.element(shared, other), domain, self.node.operation)
        return [(put, None), (first, None), (rest, None)], {x: UnrollTag() for x in loop}


@dataclass(frozen=True)
class Written:
    """The statements that replace a reduction over threads after its updates.

    :ivar parts: the statements in their order.
    :ivar result: the expression in place of the accumulator in the final statement.
    :ivar tags: the tags of new inames.
    :ivar chain: an array, and the statements that update it one after another. Each reads the element that the one
        before it wrote in the same iteration, or the first one's if that wrote none.
    """

    parts: Sequence[Part]
    temporaries: Sequence[TemporaryVariable]
    result: p.Variable | p.Subscript
    tags: Mapping[str, InameTag] = field(default_factory=dict)
    chain: tuple[str, Sequence[Part]] | None = None

    @property
    def statements(self) -> list[Statement]:
        return [s for s, _ in self.parts]

    def trees(self, around: Sequence[str]) -> list[Tree]:
        """The order of each statement, inside of the loops *around*."""
        return [nest(tuple(x for x in s.inames if x not in around), Leaf(s.id, how)) for s, how in self.parts]

    def with_result(self, final: Statement, accumulator: str) -> Statement:
        """The *final* statement with the result in place of the *accumulator*."""
        value = {accumulator: self.result}
        return replace(final, expression=substitute(final.expression, value),
                       predicates=tuple(substitute(e, value) for e in final.predicates))


def written_out(threads: OverThreads, written: Written, new: Mapping[str, Sequence[Statement]], tree: Tree
                ) -> LoopKernel:
    """The kernel with the reduction of each thread alone: *new* statements replace some, in the order of *tree*."""
    knl, node = threads.kernel, threads.node
    own = replace(node, inames=threads.own_inames, final=written.statements[0].id, sweep=None)
    return with_dependences(
        knl, partial(_dependences_over_lanes, threads, written), tree=tree,
        statements=tuple(s for old in knl.statements for s in new.get(old.id, (old,))),
        tags={**knl.tags, **written.tags},
        temporaries={**knl.temporaries, **{t.name: t for t in written.temporaries}},
        reductions={**knl.reductions, node.name: own})


def _dependences_over_lanes(threads: OverThreads, written: Written, found: Sequence[Dependence], new: LoopKernel
                            ) -> Iterator[Dependence]:
    """The old dependences without those of the accumulator, whose values stay in their threads until stored."""
    node, acc, store = threads.node, threads.node.accumulator, written.statements[0].id
    bounds = data_params(new, threads.domain)
    for d in found:
        if d.array in bounds and d.sink == node.final:
            # the loops around the result are those around all of its statements
            for sink in (node.init, *(s.id for s in written.statements)):
                carried = d.relation.apply_range(identity_pairs(new, node.final, sink))
                yield replace(d, sink=sink, relation=carried)
        if d.array != acc and not (d.array in bounds and d.sink == node.init):
            yield d
    for source, sink in ((node.init, node.update), (node.init, store), (node.update, store)):
        yield Dependence("flow", acc, source, sink, identity_pairs(new, source, sink), of_value=True)
    if node.sweep is None or threads.own_inames:
        yield among_updates(new, new.reductions[node.name])
    array, chain = written.chain or ("", ())
    yield from _flow_along(new, array, [s.id for s, _ in chain], threads.inames)
    for t in written.temporaries:
        if t.name != array:
            yield from flow_of_values(new, t.name)


def _flow_along(knl: LoopKernel, array: str, chain: Sequence[str], lanes: Sequence[str]) -> Iterator[Dependence]:
    """The flow of *array* along a chain: to each statement from the one before it, and from the first.

    isl would find the same flow in a time that grows with the square of the chain's length.
    """
    for before, sink in pairwise(chain):
        for read in accesses_of(knl, knl.statement_by_id[sink]):
            if read.array != array or read.is_write:
                continue
            rest = read.domain.set
            for source in dict.fromkeys((before, chain[0])):
                write = accesses_of(knl, knl.statement_by_id[source])[-1]
                relation = same_element(write.relation, read.relation).intersect(
                    identity_pairs(knl, source, sink, but=lanes)).intersect_range(rest)
                rest = rest.subtract(relation.range())
                if not relation.is_empty():
                    yield Dependence("flow", array, source, sink, relation, exact=write.exact and read.exact,
                                     of_value=True)


def no_shuffles(threads: OverThreads) -> str:
    """The reason why the lanes of warps cannot combine their values by shuffles; ``""``: they can.

    Neighbouring lanes must be neighbouring threads, the rows whole warps, or a part of one that divides it, and all
    threads of a warp must take part, or none. The blocks of another launch may have other threads.
    """
    knl, inames = threads.kernel, threads.everywhere.inames
    if threads.length == 1:
        return "of one thread"
    if threads.warp == 1:
        return "the target has no warps"
    extents = _axis_extents(knl, inames)
    if not _of_whole_warps(threads, extents):
        return "the block has other threads too"
    own, numbers = _numbers(knl, threads.inames), _numbers(knl, inames)
    if any(own[x] != numbers[x] for x in threads.inames):
        return "of threads that are not neighbours"
    if threads.length % threads.warp and threads.warp % threads.length and threads.length != prod(extents.values()):
        return f"rows of {threads.length} threads are neither whole warps nor a part that divides one"
    return ""


def _of_whole_warps(threads: OverThreads, extents: Mapping[int, int]) -> bool:
    """Do the threads of a reduction form whole warps? *extents*: their number along each axis of the block.

    If the block is longer along an axis, a warp must not reach from one coordinate on it to the next. A statement
    outside of an axis runs on the threads at coordinate 0; all other coordinates read its result.
    """
    knl = threads.kernel
    block: dict[int, float] = {}
    for s in in_one_launch(knl, threads.node.final):
        for axis, extent in _axis_extents(knl, s.inames).items():
            block[axis] = max(block.get(axis, 1), extent or inf)    # it may depend on the sizes
    last = max(axis_inames(knl, threads.inames, LocalTag))
    before: float = 1
    for axis in sorted(block):
        if block[axis] > extents.get(axis, 1) and (axis not in extents or axis <= last or before % threads.warp):
            return False
        before *= block[axis]
    return True


def _axis_extents(knl: LoopKernel, inames: Sequence[str]) -> dict[int, int]:
    """The extents of the axes of the block that *inames* are on."""
    return {axis: prod(iname_range(knl, x)[1] for x in own) for axis, own in axis_inames(knl, inames, LocalTag).items()}


def _numbers(knl: LoopKernel, inames: Sequence[str]) -> dict[str, int]:
    """The stride of the number of a thread along each of *inames*, ``l.0`` fastest."""
    result: dict[str, int] = {}
    stride = 1
    for _, own in sorted(axis_inames(knl, inames, LocalTag).items()):
        for x in reversed(own):
            result[x] = stride
            stride *= iname_range(knl, x)[1]
    return result


def combined(threads: OverThreads) -> Written:
    """The reduction by shuffles in each warp, and from there to all threads; or as a tree in shared memory."""
    node, length, size, fresh = threads.node, threads.length, threads.warp, threads.kernel.fresh_name
    why, reorderable = no_shuffles(threads), threads.kernel.operation(node.operation).reorderable
    own = fresh(f"{node.accumulator}_{'shared' if why else 'warp'}")
    parts = [(threads.store(own), None), *_halving_steps(threads, own, length if why else min(length, size), why)]
    if why:
        array = threads.array(own, length, AddressSpace.SHARED, f"combined as a tree: {why}" if length > 1 else "")
        return Written(parts, (array,), threads.element(own, 0))
    among = f"warps of {size}" if length > size else "the warp" if not threads.rows else f"rows of {length}"
    result = fresh(f"{node.accumulator}_all")
    temporaries = [threads.array(own, length, AddressSpace.WARP, f"combined by shuffles in {among}"),
                   threads.scalar(result)]
    if length <= size:
        last = threads.statement("result", p.Variable(result), threads.element(own, 0), threads.domain)
        same = Excluded.SAME if _in_butterflies(threads) else Excluded.KEPT
        parts.append((last, Shuffle(None, size if size % length else length, same)))
        return Written(parts, temporaries, p.Variable(result), chain=(own, parts) if reorderable else None)
    shared = fresh(f"{node.accumulator}_shared")
    more, tags = threads.over_warps(result, shared, threads.element(own, threads.number))
    temporaries.append(threads.array(shared, -(-length // size), AddressSpace.SHARED))
    chain = (own, [*parts, more[0]]) if reorderable else None
    return Written([*parts, *more], temporaries, p.Variable(result), tags, chain)


def _halving_steps(threads: OverThreads, array: str, together: int, why: str) -> Iterator[Part]:
    """``held[l] op= held[l + s]`` for s = the powers of two below *together*, from the largest down.

    The lanes from s on take no part in a step and later ones. A guard excludes them only if it must: otherwise they
    combine too, and no lane reads their results, or all lanes get the same.

    :arg why: the reason against shuffles; ``""``: lanes shuffle.
    """
    knl, node = threads.kernel, threads.node
    harmless, butterfly = _may_combine_any(threads), _in_butterflies(threads)
    inside = threads.number if threads.length <= together else remainder(threads.number, together)
    if not knl.operation(node.operation).reorderable:
        yield from _steps_in_order(threads, array, together, inside, why)
        return
    for number, exponent in enumerate(reversed(range((together - 1).bit_length()))):
        offset = 1 << exponent
        # has each of the first lanes another one so many places further on?
        whole = all(i + offset < threads.length for i in range(threads.length) if i % together < offset)
        active = threads.everywhere.where(("<", add(inside, -offset)))
        if not whole:
            active = active.where(("<", add(threads.number, offset - threads.length)))
        step = threads.statement(f"step{number}", threads.element(array, threads.number),
                                 threads.element(array, add(threads.number, offset)), active, node.operation)
        excluded = Excluded.SAME if butterfly else Excluded.UNUSED if harmless and whole else Excluded.KEPT
        yield step, None if why else Shuffle(offset, together, excluded)


def _may_combine_any(threads: OverThreads) -> bool:
    """May a lane combine any values? Integers may overflow, and an operation of the user may have any effect."""
    knl, name = threads.kernel, threads.node.operation
    return isinstance(knl.operation(name), Extremum) or (
        name not in knl.operations and (threads.dtype.kind in "fc" or is_narrow(threads.dtype)))


def _in_butterflies(threads: OverThreads) -> bool:
    """Do the two lanes of each pair exchange their values, so that each lane of a group has the result?

    All lanes of the group must exist. Both lanes of a pair combine the same two values, one in the opposite order, so
    the operation must give the same bits in either. The values in each lane are then values of the first lanes. Only
    lanes of rows that take no part combine others.
    """
    return threads.length <= threads.warp and threads.length & (threads.length - 1) == 0 \
        and may_exchange(threads.kernel.operation(threads.node.operation), threads.dtype) \
        and (_may_combine_any(threads) or not threads.rows)


def _steps_in_order(threads: OverThreads, array: str, together: int, inside: Expression, why: str) -> Iterator[Part]:
    """``held[l] op= held[l + s]`` for s = 1, 2, 4, ... and the multiples l of 2*s*: operands keep their order."""
    for number in range((together - 1).bit_length()):
        offset = 1 << number
        active = threads.everywhere.where(
            ("==", remainder(threads.number, 2*offset)), ("<", add(inside, offset - together)),
            ("<", add(threads.number, offset - threads.length)))
        yield threads.statement(f"step{number}", threads.element(array, threads.number),
                                threads.element(array, add(threads.number, offset)), active, threads.node.operation
                                ), None if why else Shuffle(offset, together)
