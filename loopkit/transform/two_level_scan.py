"""make_two_level_scan: a scan split into reductions of blocks, a scan over the blocks, and a scan in each block."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pymbolic.primitives as p

from loopkit.analysis.constructors import Image, between_images, with_dependences
from loopkit.analysis.dependences import flow_of_values, reduction_dependences
from loopkit.analysis.legality import iname_range, require_legal
from loopkit.analysis.order import loops_of
from loopkit.analysis.scans import Scan, operands, require_alone, scan_along
from loopkit.errors import PreconditionError
from loopkit.expr.nodes import Neutral
from loopkit.kernel.data import TemporaryVariable
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel, unknown
from loopkit.kernel.statement import ReductionNode, Statement
from loopkit.kernel.tags import InameTag
from loopkit.kernel.tree import Leaf, Loop, Tree, leaves, nest, rewrite, seq
from loopkit.poly.affine import add, multiply, subtract
from loopkit.poly.relations import equal_coordinates, reindexing
from loopkit.poly.sets import InstanceSet, Map
from loopkit.transform.iname import split_iname
from loopkit.transform.reindex import substituted
from loopkit.transform.step import require_iname, require_positive, transform
from loopkit.transform.tags import tagged


@transform
def make_two_level_scan(kernel: LoopKernel, insn_id: str, scan_iname: str, sweep_iname: str, inner_length: int, *,
                        outer_iname: str | None = None, inner_iname: str | None = None,
                        outer_tag: str | InameTag | None = None, inner_tag: str | InameTag | None = None,
                        assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Split the scan over *scan_iname* in *insn_id* into blocks of *inner_length* along *sweep_iname*.

    The prefix of an element combines the blocks before its block with the prefix inside its block. The first statement
    reduces the operands of each block (``S_part`` for a statement ``S``). A scan over the blocks then gives the prefix
    of each block (``S_before``). Each result combines that prefix with a scan in its block. All three are reductions,
    to which ``realize_scan``, tags and further levels apply. The step regroups the operands.

    The proof of the scan property along the sweep is that of :func:`realize_scan`.

    :arg insn_id: the statement with the reduction.
    :arg inner_length: the number of elements in a block.
    :arg outer_iname: the number of the block, default ``i_outer`` for a sweep ``i``; *inner_iname*: counts in it.
    :arg outer_tag: tag for the outer iname, as for :func:`tag_inames`; likewise *inner_tag*.
    :raises UnknownNameError: there is no such statement, or it has no such reduction or sweep.
    :raises PreconditionError: the reduction is no scan, with the smallest sizes and instance that show it; its
        operation cannot be reordered; the sweep has a tag.
    :raises ScheduleError: a loop over *scan_iname* holds other statements.
    :raises UndecidedError: bounds or operands are read from memory, so the step cannot analyse them.
    :raises IllegalTransformError: an operand is computed too late to be reduced first; with its witness.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<=i}", "y[i] = sum(j, x[j])  {id=S}")
    >>> print(lk.make_two_level_scan(knl, "S", "j", "i", 128).statements_text)
    for i_outer
      <> S_part[i_outer] = sum(j_part, x[128*i_outer + j_part])  {id=S_part}
    end
    for i_outer_before
      <> S_before[i_outer_before] = sum(j_before, S_part[j_before])  {id=S_before}
    end
    for i_outer, i_inner
      y[128*i_outer + i_inner] = S_before[i_outer] + sum(j, x[128*i_outer + j])  {id=S}
    end
    """
    node = _node(kernel, insn_id, scan_iname)
    require_iname(kernel, sweep_iname)
    length = require_positive(inner_length, "inner_length")
    if not kernel.operation(node.operation).in_any_order:
        raise PreconditionError(f"The scan of '{node.final}' cannot be made in two levels: '{node.operation}' combines "
                                "its operands in their order.", subject=node.operation,
                                hint="ReductionOperation(..., reorderable=True), if it may be reordered")
    scan = scan_along(kernel, node, sweep_iname)
    require_alone(kernel, scan)
    split = split_iname(kernel, sweep_iname, length, outer_iname=outer_iname, inner_iname=inner_iname)
    outer, inner = (x for x in split.statement_by_id[node.init].inames if x not in scan.rows)
    result = _Levels.of(kernel, split, scan, length, outer, inner).kernel()
    step = f"make_two_level_scan({insn_id!r}, {scan_iname!r}, {sweep_iname!r}, {length})"
    result = require_legal(result, step, assume=assume, unsafe=unsafe)
    tags = {x: t for x, t in ((outer, outer_tag), (inner, inner_tag)) if t is not None}
    return tagged(result, tags, step, assume=assume, unsafe=unsafe) if tags else result


def _node(kernel: LoopKernel, insn_id: str, scan_iname: str) -> ReductionNode:
    kernel.statement(insn_id)
    own = [r for r in kernel.reductions.values() if r.final == insn_id]
    found = [r for r in own if scan_iname in r.inames]
    if not found:
        raise unknown("reduction iname", str(scan_iname), [x for r in own for x in r.inames], where=f"'{insn_id}'")
    return found[0]


@dataclass(frozen=True)
class _Level:
    """A new reduction, with the statement that stores its results.

    :ivar loops: the inames of its results and of its loops, from outside in.
    """

    node: ReductionNode
    statements: tuple[Statement, Statement, Statement]
    loops: tuple[str, ...]

    @property
    def tree(self) -> Tree:
        init, update, final = self.statements
        return nest(self.loops, seq(Leaf(init.id), nest(self.node.inames, Leaf(update.id)), Leaf(final.id)))


@dataclass(frozen=True)
class _Levels:
    """The parts of a scan in two levels.

    :ivar old: the kernel whose sweep is split.
    :ivar places: the operands in rows, by the block and the place in it; the place has the name of the scan's iname.
    """

    old: LoopKernel
    scan: Scan
    length: int
    outer: str
    inner: str
    places: InstanceSet

    @classmethod
    def of(cls, before: LoopKernel, split: LoopKernel, scan: Scan, length: int, outer: str, inner: str) -> _Levels:
        init, update = before.statement_by_id[scan.node.init], before.statement_by_id[scan.node.update]
        whole = update.domain.apply(operands(before, scan, scan.shift), init.inames)
        new = tuple(y for x in init.inames for y in ((outer, scan.iname) if x == scan.sweep else (x,)))
        place = p.Variable(scan.iname)
        values = tuple(add(multiply(length, p.Variable(outer)), place) if x == scan.sweep else p.Variable(x)
                       for x in init.inames)
        inside = InstanceSet.universe(new).where((">=", place), ("<", add(place, -length)))
        return cls(split, scan, length, outer, inner, whole.apply(reindexing(new, values, inside.set), new))

    # {{{ new reductions

    @property
    def node(self) -> ReductionNode:
        return self.scan.node

    def named(self, what: str) -> str:
        return self.old.fresh_name(f"{self.node.final}_{what}")

    def inames(self, block: str) -> tuple[str, ...]:
        """The inames of a block's values; *block* counts the blocks."""
        return tuple(block if x == self.outer else x for x in self.places.inames if x != self.scan.iname)

    def element(self, array: str, block: str, of: str) -> p.Subscript:
        """The element of *array* for *block*, one of those that *of* counts in its rows."""
        lows = {x: iname_range(self.old, self.outer if x == of else x)[0] for x in self.inames(of)}
        return p.Subscript(p.Variable(array), tuple(
            subtract(p.Variable(block if x == of else x), lows[x]) for x in self.inames(of)))

    def operand(self, place: str) -> Callable[[Statement], Statement]:
        """The update with the operand at *place* in the block."""
        at = add(multiply(self.length, p.Variable(self.outer)), p.Variable(place), self.scan.shift)
        return lambda update: substituted(update, {self.scan.iname: at})

    def level(self, name: str, block: str, iname: str, blocks: InstanceSet, terms: InstanceSet, update: Statement
              ) -> _Level:
        """*name* for each of *blocks*, reduced over *iname* in *terms*."""
        knl = self.old
        accumulator = knl.fresh_name(f"acc_{iname}")
        node = ReductionNode(f"{name}.{iname}", self.node.operation, accumulator, (iname,), f"{name}.{iname}.init",
                             (f"{name}.{iname}.update",), name)
        acc = p.Variable(accumulator)
        start = Statement(node.init, acc, Neutral(node.operation), blocks, reduction=node.name)
        combined = replace(update, id=node.update, assignee=acc, domain=terms, combine=node.operation,
                           reduction=node.name)
        stored = Statement(name, self.element(name, block, block), acc, blocks)
        loops = loops_of(knl.paths[self.node.init])
        inside = loops[loops.index(self.inner) + 1:]
        return _Level(node, (start, combined, stored), (block, *inside))

    def kernel(self) -> LoopKernel:
        knl, scan, node, places = self.old, self.scan, self.node, self.places
        init, update, final = (knl.statement_by_id[s] for s in (node.init, node.update, node.final))
        part, before = self.named("part"), self.named("before")
        term, block, other = (knl.fresh_name(x) for x in (
            f"{scan.iname}_part", f"{self.outer}_before", f"{scan.iname}_before"))
        with_operands = places.onto(self.inames(self.outer))
        first = self.level(part, self.outer, term, with_operands, _renamed(places, scan.iname, term),
                           self.operand(term)(update))
        rows = self.inames(block)
        results = _renamed(init.domain.onto(self.inames(self.outer)), self.outer, block)
        earlier = _renamed(with_operands, self.outer, other).onto((*rows, other)).intersect(
            results.onto((*rows, other))).where(("<", subtract(p.Variable(other), p.Variable(block))))
        second = self.level(before, block, other, results, earlier, Statement(
            "", p.Variable(before), self.element(part, other, block), earlier))
        own = init.domain.onto(update.inames).intersect(places.onto(update.inames)).where(
            (">=", subtract(p.Variable(self.inner), p.Variable(scan.iname))))
        total = knl.operation(node.operation).apply(self.element(before, self.outer, self.outer),
                                                    p.Variable(node.accumulator))
        new = {update.id: self.operand(scan.iname)(replace(update, domain=own)),
               final.id: substituted(final, {node.accumulator: total})}
        levels = (first, second)
        ahead = [s for level in levels for s in level.statements]
        return with_dependences(
            knl, partial(self._dependences, levels, (part, before)),
            statements=tuple(self._in_place(ahead, new)), tree=self._tree(levels),
            temporaries={**knl.temporaries,
                         **{x: TemporaryVariable(x) for x in (part, before)},
                         **{x.node.accumulator: TemporaryVariable(x.node.accumulator, shape=()) for x in levels}},
            reductions={**knl.reductions, **{x.node.name: x.node for x in levels}})

    def _in_place(self, ahead: Sequence[Statement], new: dict[str, Statement]) -> Iterator[Statement]:
        """The statements in the order of the text."""
        inside = self._around()
        first = next(s.id for s in self.old.statements if s.id in inside)
        for s in self.old.statements:
            if s.id == first:
                yield from ahead
            yield new.get(s.id, s)

    def _around(self) -> frozenset[str]:
        """The statements of the blocks' loop."""
        found: list[frozenset[str]] = []

        def seen(tree: Tree) -> Tree:
            if isinstance(tree, Loop) and tree.iname == self.outer and self.node.final in leaves(tree):
                found.append(frozenset(leaves(tree)))
            return tree
        rewrite(self.old.tree, seen)
        return found[0]

    def _tree(self, levels: Sequence[_Level]) -> Tree:
        def one(tree: Tree) -> Tree:
            around = isinstance(tree, Loop) and tree.iname == self.outer and self.node.final in leaves(tree)
            return seq(*(level.tree for level in levels), tree) if around else tree
        return rewrite(self.old.tree, one)

    # }}}

    def _dependences(self, levels: Sequence[_Level], arrays: Sequence[str], found: Sequence[Dependence],
                     new: LoopKernel) -> Iterator[Dependence]:
        """The former dependences of each operand, now read twice, and those of the new reductions and their results."""
        node = self.node
        first = levels[0].statements[1].id
        own = self._moved(new, node.update, self.scan.iname, (self.outer, self.inner))
        whole = self._moved(new, first, levels[0].node.inames[0], ())
        others = (d for d in found if d.array != node.accumulator)
        yield from between_images(others, {node.update: [Image(node.update, own), Image(first, whole)], node.init: []})
        for name in (node.name, *(level.node.name for level in levels)):
            yield from reduction_dependences(new, new.reductions[name])
        for array in arrays:
            yield from flow_of_values(new, array)

    def _moved(self, new: LoopKernel, update: str, place: str, same: Sequence[str]) -> Map:
        """From the old update to the one called *update*, whose operand is at *place* in its block."""
        old, to = self.old.statement_by_id[self.node.update], new.statement_by_id[update]
        rows = [*map(p.Variable, self.scan.rows), *map(p.Variable, same)]
        at = add(multiply(self.length, p.Variable(self.outer)), p.Variable(place), self.scan.shift)
        pairs = equal_coordinates(old.inames, [p.Variable(self.scan.iname), *rows], to.inames, [at, *rows])
        return pairs.intersect_range(to.domain.set)


def _renamed(points: InstanceSet, old: str, new: str) -> InstanceSet:
    return InstanceSet(tuple(new if x == old else x for x in points.inames), points.set)
