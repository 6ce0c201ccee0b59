"""Scans over the threads of a block: by shuffles in each warp, or in shared memory; then what all warps before have.

In each of about log2(length) steps a thread combines with its own what the one so many places before it holds, 1, 2, 4
and so on, as far as there is one. It then holds the result up to its own operand. Each step has an array of its own,
since a thread that is behind must find what the one before it held until then; in lanes that is a register.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_of
from loopkit.analysis.constructors import Image, between_images, with_dependences
from loopkit.analysis.dependences import flow_of_values, identity_pairs
from loopkit.analysis.legality import packed_coordinate
from loopkit.analysis.ranges import constant_range
from loopkit.analysis.scans import Scan, operands, scan_along
from loopkit.errors import IllegalTransformError, PreconditionError, UndecidedError
from loopkit.expr.mappers import substitute
from loopkit.instructions.shuffle import Shuffle
from loopkit.kernel.data import TemporaryVariable
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import ReductionNode, Statement
from loopkit.kernel.tags import InameTag, LocalTag, UnrollTag
from loopkit.kernel.tree import Leaf, Loop, Tree, leaves, nest, rewrite, seq
from loopkit.lowering.shuffles import OverThreads, Written, no_shuffles
from loopkit.poly.affine import add, floor_div, multiply, remainder, subtract
from loopkit.poly.sets import Map
from loopkit.transform.expansion import contracted
from loopkit.transform.reindex import substituted
from loopkit.transform.scan import in_order


def write_out_scan(knl: LoopKernel, node: ReductionNode, warp: int) -> LoopKernel:
    """*knl* with *node*, which is a scan, over the threads of its sweep; in its order, if that has no threads any more.

    :arg warp: threads of a warp.
    :raises PreconditionError: steps behind ``realize_scan`` made something else of it.
    """
    assert node.sweep is not None
    if node.sweep not in knl.statement_by_id[node.init].inames:
        raise PreconditionError(f"'{node.sweep}', along which the scan of '{node.final}' runs, is no iname of it any "
                                "more.", subject=node.sweep, hint="split and rename inames before realize_scan")
    scan = scan_along(knl, node, node.sweep)
    if not isinstance(knl.tags.get(node.sweep), LocalTag):
        return in_order(knl, scan)
    return _over_threads(knl, scan, warp)


def _over_threads(knl: LoopKernel, scan: Scan, warp: int) -> LoopKernel:
    node = scan.node
    init, update, final = (knl.statement_by_id[s] for s in (node.init, node.update, node.final))
    # an operand stays in the thread of its own number, as far as one more shuffle brings it on from there
    offset = 0 if scan.shift == -1 else scan.shift
    moved = operands(knl, scan, offset)
    combined = substituted(replace(update, domain=update.domain.apply(moved, init.inames)),
                           {scan.iname: add(p.Variable(scan.sweep), offset)})
    rows = init.domain.onto(scan.rows)
    # an operand may belong to a thread that has no result
    low, high = constant_range(knl, init.domain.union(combined.domain), scan.sweep)
    assert low is not None
    assert high is not None
    sweep = p.Variable(scan.sweep)
    everywhere = rows.onto(init.inames).where((">=", add(sweep, -low)), ("<", add(sweep, -high - 1)))
    taking_part = {init.id: replace(init, domain=everywhere), update.id: combined}
    base = with_dependences(knl, partial(_of_operands, node, moved), tree=_without_loop(knl.tree, scan),
                          statements=tuple(taking_part.get(s.id, s) for s in knl.statements))
    threads = OverThreads(base, node, (scan.sweep,), packed_coordinate(base, (scan.sweep,)), high - low + 1,
                          tuple(x for x in scan.rows if isinstance(knl.tags.get(x), LocalTag)), rows, everywhere, warp)
    written = _Writer(base, threads, scan.shift == -1, init.expression, no_shuffles(base, threads)).written()
    new = {update.id: [combined, *written.statements],
           final.id: [_with_result(final, node.accumulator, written.result)]}
    result = with_dependences(
        base, partial(_dependences, node, written),
        statements=tuple(s for old in base.statements for s in new.get(old.id, [old])),
        tree=rewrite(base.tree, lambda t: seq(t, *written.trees) if t == Leaf(update.id) else t),
        tags={**knl.tags, **written.tags},
        temporaries={**knl.temporaries, **{t.name: t for t in written.temporaries}},
        reductions={name: r for name, r in knl.reductions.items() if name != node.name})
    return _in_registers(result, combined, scan.sweep)


def _in_registers(knl: LoopKernel, combined: Statement, sweep: str) -> LoopKernel:
    """*knl* where an operand that each thread keeps for itself has a cell in each, instead of an array of them all."""
    for name in dict.fromkeys(a.array for a in accesses_of(knl, combined) if not a.is_write):
        t = knl.temporaries.get(name)
        if t is not None and not t.fixed and t.address_space is None:
            # where a thread reads those of others, or several, it stays as it is
            with suppress(PreconditionError, UndecidedError, IllegalTransformError):
                knl = contracted(knl, name, (sweep,), "")
    return knl


def _with_result(final: Statement, accumulator: str, result: Expression) -> Statement:
    value = {accumulator: result}
    return replace(final, expression=substitute(final.expression, value),
                   predicates=tuple(substitute(e, value) for e in final.predicates))


def _without_loop(tree: Tree, scan: Scan) -> Tree:
    def one(old: Tree) -> Tree:
        inside = isinstance(old, Loop) and old.iname == scan.iname and scan.node.update in leaves(old)
        return Leaf(scan.node.update) if inside else old
    return rewrite(tree, one)


def _of_operands(node: ReductionNode, moved: Map, found: Sequence[Dependence], _: LoopKernel) -> Iterator[Dependence]:
    """The dependences but for the accumulator's, those of each operand where its thread combines it."""
    return between_images((d for d in found if d.array != node.accumulator), {node.update: [Image(node.update, moved)]})


def _dependences(node: ReductionNode, written: Written, found: Sequence[Dependence], new: LoopKernel
                 ) -> Iterator[Dependence]:
    """The old ones, and those of what is new: the accumulator's values stay in their thread."""
    yield from found
    store = written.statements[0].id
    for source, sink in ((node.init, node.update), (node.init, store), (node.update, store)):
        yield Dependence("flow", node.accumulator, source, sink, identity_pairs(new, source, sink), of_value=True)
    for t in written.temporaries:
        yield from flow_of_values(new, t.name)


# {{{ the statements

@dataclass(frozen=True)
class _Writer:
    """Writes the statements of one scan.

    :ivar exclusive: the result of a thread does not have its own operand.
    :ivar neutral: the neutral element.
    :ivar why: why the threads do not shuffle; ``""``: they do.
    """

    kernel: LoopKernel
    threads: OverThreads
    exclusive: bool
    neutral: Expression
    why: str

    @property
    def together(self) -> int:
        """How many threads a step may reach over."""
        return self.threads.length if self.why else min(self.threads.length, self.threads.warp)

    @property
    def inside(self) -> Expression:
        """The number of a thread among those."""
        lane = self.threads.lane
        return lane if self.together == self.threads.length else remainder(lane, self.threads.warp)

    def written(self) -> Written:
        threads, node, lane = self.threads, self.threads.node, self.threads.lane
        names = list(self._names())
        store = Statement(f"{node.name}.store", threads.element(names[0], lane), p.Variable(node.accumulator),
                          threads.everywhere)
        statements, trees = [store], list[Tree]([Leaf(store.id)])
        for s, shuffle in self._steps(names):
            statements.append(s)
            trees.append(Leaf(s.id, shuffle))
        held = threads.element(names[-1], lane)
        temporaries = [self._array(name, i == 0) for i, name in enumerate(names)]
        if self.together == threads.length:
            result = self.kernel.fresh_name(f"{node.accumulator}_all")
            both = Statement(f"{node.name}.result", p.Variable(result), held, threads.everywhere)
            # unlike what is in lanes, it may be needed in a later launch
            scalar = TemporaryVariable(result, temporaries[0].dtype, ())
            return Written((*statements, both), (*trees, Leaf(both.id)), (*temporaries, scalar), p.Variable(result))
        own = threads.element(names[-2], lane) if self.exclusive else held
        more, added, arrays, total, tags = self._of_warps(own, held)
        return Written((*statements, *more), (*trees, *added), (*temporaries, *arrays), total, tags)

    def _names(self) -> Iterator[str]:
        """The arrays of the steps: what a thread holds at first, and behind each step."""
        own = self.kernel.fresh_name(f"{self.threads.node.accumulator}_{'shared' if self.why else 'warp'}")
        yield own
        count = (self.together - 1).bit_length() + self.exclusive
        yield from (self.kernel.fresh_name(f"{own}_{k + 1}") for k in range(count))

    def _array(self, name: str, first: bool) -> TemporaryVariable:
        among = "" if self.threads.length <= self.threads.warp else f" of {self.threads.warp}"
        note = (f"scanned in shared memory: {self.why}" if self.why else f"scanned by shuffles in warps{among}") \
            if first and self.threads.length > 1 else ""
        return self.threads.array(name, self.threads.length, lanes=not self.why, note=note)

    def _steps(self, names: list[str]) -> Iterator[tuple[Statement, Shuffle | None]]:
        """``next[t] = held[t - s] op held[t]`` for s = 1, 2, 4, ...; at last, in an exclusive one, ``held[t - 1]``."""
        node, lane, everywhere = self.threads.node, self.threads.lane, self.threads.everywhere
        count = (self.together - 1).bit_length()
        for k in range(count):
            before, now = names[k], names[k + 1]
            yield Statement(f"{node.name}.keep{k}", self.threads.element(now, lane),
                            self.threads.element(before, lane), everywhere), None
            yield Statement(f"{node.name}.step{k}", self.threads.element(now, lane),
                            self.threads.element(before, add(lane, -(1 << k))),
                            everywhere.where((">=", add(self.inside, -(1 << k)))), combine=node.operation), \
                self._shuffle(1 << k)
        if self.exclusive:
            target = self.threads.element(names[-1], lane)
            yield Statement(f"{node.name}.none", target, self.neutral, everywhere), None
            yield Statement(f"{node.name}.shift", target, self.threads.element(names[-2], add(lane, -1)),
                            everywhere.where((">=", add(self.inside, -1)))), self._shuffle(1)

    def _shuffle(self, offset: int) -> Shuffle | None:
        return None if self.why else Shuffle(-offset, self.together)

    def _of_warps(self, whole: Expression, held: Expression
                  ) -> tuple[list[Statement], list[Tree], list[TemporaryVariable], p.Variable, dict[str, InameTag]]:
        """The last lane of each warp but the last stores what the warp has; every thread combines those before its own.

        :arg whole: what a lane has with its own operand; *held*: what its result takes of its warp.
        """
        knl, threads = self.kernel, self.threads
        node, lane, name = threads.node, threads.lane, threads.node.name
        size = threads.warp
        warps, warp = -(-threads.length // size), knl.fresh_name("warp")
        before, result = (knl.fresh_name(f"{node.accumulator}_{what}") for what in ("before", "all"))
        shared = threads.array(knl.fresh_name(f"{node.accumulator}_shared"), warps - 1)
        dtype = shared.dtype
        last = threads.everywhere.where(("==", add(remainder(lane, size), 1 - size)),
                                        ("<", add(lane, -(warps - 1)*size)))
        put = Statement(f"{name}.put", threads.element(shared.name, floor_div(lane, size)), whole, last)
        first = Statement(f"{name}.first", p.Variable(before), self.neutral, threads.everywhere)
        other: Expression = 0
        others = threads.everywhere
        if warps > 2:
            other = p.Variable(warp)
            others = others.onto((*others.inames, warp)).where((">=", other), ("<", add(other, 1 - warps)))
        others = others.where((">=", subtract(add(lane, -size), multiply(size, other))))
        rest = Statement(f"{name}.rest", p.Variable(before), threads.element(shared.name, other), others,
                         combine=node.operation)
        both = Statement(f"{name}.result", p.Variable(result),
                         knl.operation(node.operation).apply(p.Variable(before), held), threads.everywhere)
        trees: list[Tree] = [Leaf(put.id), Leaf(first.id), nest(() if warps == 2 else (warp,), Leaf(rest.id)),
                             Leaf(both.id)]
        scalars = [TemporaryVariable(x, dtype, ()) for x in (before, result)]
        return [put, first, rest, both], trees, [shared, *scalars], p.Variable(result), \
            {warp: UnrollTag()} if warps > 2 else {}

# }}}
