"""Scans (prefix sums): reductions whose upper bound moves with an iname, computed along it or by blocks."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import analysis_domain
from loopkit.analysis.constructors import Image, between_images, rewritten, with_dependences
from loopkit.analysis.dependences import flow_of_values, reduction_dependences
from loopkit.analysis.legality import require_legal, violations
from loopkit.analysis.match import Within
from loopkit.analysis.order import loops_of
from loopkit.analysis.ranges import constant_range, iname_extent, iname_range
from loopkit.analysis.scans import Scan, require_alone, scan_along
from loopkit.errors import IllegalTransformError, LoopkitError, PreconditionError, UndecidedError, require_known
from loopkit.expr.mappers import element
from loopkit.expr.nodes import Neutral
from loopkit.kernel.data import TemporaryVariable
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, ReductionNode, Statement
from loopkit.kernel.tags import AutoLocalTag, GroupTag, InameTag, LocalTag
from loopkit.kernel.tree import Leaf, Loop, Tree, in_order_of, leaves, nest, rewrite, rewrite_over, seq
from loopkit.poly.affine import add, multiply, subtract
from loopkit.poly.piecewise import equal_coordinates
from loopkit.poly.relations import identity_on
from loopkit.poly.sets import InstanceSet, Map, bounded_by
from loopkit.transform.expansion import contracted
from loopkit.transform.iname import split_iname
from loopkit.transform.reindex import substituted
from loopkit.transform.step import matching_statements, require_iname, require_positive, transform
from loopkit.transform.tags import tagged


@transform
def realize_scan(kernel: LoopKernel, scan_iname: str, sweep_iname: str | None = None, *,
                 within: Within = None, assume: str | None = None, unsafe: bool = False
                 ) -> LoopKernel:
    """Compute the reductions over *scan_iname* as scans (prefix sums): each result from the previous one.

    Such a reduction has a fixed lower bound, and its upper bound moves with an iname, the sweep. The step proves that
    each iteration of the sweep adds operands after those of the iteration before, one or several (``0<=j<=2*i``), and
    that an operand has the same value at every read. The tag
    that the sweep has already selects the algorithm, so :func:`tag_inames` comes first:

    - Without a tag, or unrolled: sequential. The accumulator carries the value from one iteration to the next. The
      order of the operands stays the same, so no bit of a result changes.
    - ``l.0`` (``l.1``, ``l.2``): the threads of a block compute the scan together, by warp shuffles or in shared
      memory. The operands may be regrouped: by all operations of the language, and by reorderable ones of the user.

    :arg scan_iname: the iname of the reductions.
    :arg sweep_iname: the iname along which their upper bounds move; default: the only such iname.
    :arg within: the statements with the reductions; default: all.
    :raises UnknownNameError: *scan_iname* is not an iname, or a statement does not have *sweep_iname*.
    :raises PreconditionError: no reduction runs over *scan_iname*, or one is not a scan (the message has the smallest
        sizes and instance that show it); the sweep has a tag that no scan can have, or the operation cannot be
        reordered.
    :raises ScheduleError: a loop over *scan_iname* holds other statements.
    :raises UndecidedError: bounds or operands are read from memory, so the step cannot analyse them.
    :raises IllegalTransformError: the order would break a dependence, with its witness.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<=i}", "y[i] = sum(j, x[j])")
    >>> print(lk.realize_scan(knl, "j").statements_text)
    <> acc_j = 0  {id=insn.j.init}
    for i
      acc_j = acc_j + x[i]  {id=insn.j.update}
      y[i] = acc_j  {id=insn}
    end
    """
    chosen = matching_statements(kernel, within)
    every = kernel.reductions.values()
    _require_reduction(kernel, scan_iname)
    nodes = [node for node in every if scan_iname in node.inames and not chosen.isdisjoint((node.final, node.update))]
    if not nodes:
        raise PreconditionError(f"No statement that within= selects has a reduction over '{scan_iname}'.",
                                subject=scan_iname)
    result = kernel
    for node in nodes:
        result = _realized(result, node, _sweep(result, node) if sweep_iname is None else sweep_iname)
    return require_legal(result, f"realize_scan({scan_iname})", assume=assume, unsafe=unsafe)


def _require_reduction(kernel: LoopKernel, iname: str) -> None:
    inames = [x for node in kernel.reductions.values() for x in node.inames]
    if iname in kernel.inames and iname not in inames:
        k = kernel.fresh_name("k")
        raise PreconditionError(
            f"No reduction runs over '{iname}', so no scan does.", subject=iname,
            hint=f"write each result as a reduction whose bound moves, sum({k}, x[{k}]) over 0<={k}<={iname}; then "
                 f"realize_scan(knl, '{k}')")
    require_known("reduction iname", [iname], inames)


def _sweep(kernel: LoopKernel, node: ReductionNode) -> str:
    sums, terms = (analysis_domain(kernel, kernel.statement_by_id[s]) for s in (node.init, node.update))
    moving = []
    for x in sums.inames:
        others = terms.onto([y for y in terms.inames if y != x]).onto(terms.inames)
        if not others.intersect(sums).is_subset(terms):
            moving.append(x)
    # an iname of one iteration is a sweep too
    ranges = {x: constant_range(kernel, sums, x) for x in (sums.inames if not moving else ())}
    moving = moving or [x for x, (low, high) in ranges.items() if low is not None and low == high]
    if not moving:
        raise PreconditionError(f"The reduction of '{node.final}' is not a scan: no iname moves its bounds.",
                                subject=node.name, hint="the upper bound of a scan moves: sum(j, x[j]) over 0<=j<=i")
    if len(moving) > 1:
        raise PreconditionError(f"The bounds of the reduction of '{node.final}' move with several inames "
                                f"({', '.join(moving)}).", subject=node.name, hint=_sweep_hint(kernel, node, moving))
    return moving[0]


def _sweep_hint(kernel: LoopKernel, node: ReductionNode, moving: Sequence[str]) -> str:
    """One of *moving* along which the reduction is a scan; else the step that splits a scan."""
    for sweep in reversed(moving):
        with suppress(LoopkitError):
            # along the inner iname of a split, the first instance has the operands of all blocks before it
            if scan_along(kernel, node, sweep).shift is not None:
                return f"sweep_iname='{sweep}'"
    return (f"if a split made {' and '.join(moving)}: make_two_level_scan(knl, '{node.final}', '{node.inames[0]}', "
            "...) instead of the split makes a scan of the blocks and one in each block")


def _realized(kernel: LoopKernel, node: ReductionNode, sweep: str) -> LoopKernel:
    scan = scan_along(kernel, node, sweep)
    require_alone(kernel, scan)
    match kernel.tags.get(sweep):
        case LocalTag():
            if not kernel.operation(node.operation).associative:
                raise PreconditionError(
                    f"Threads cannot compute the scan of '{node.final}' together: '{node.operation}' must combine its "
                    "operands in order.", subject=node.operation,
                    hint="ReductionOperation(..., reorderable=True), if it may be reordered, or untag_inames")
            return rewritten(kernel, reductions={**kernel.reductions, node.name: replace(node, sweep=sweep)})
        case GroupTag() | AutoLocalTag() as tag:
            raise PreconditionError(
                f"The scan of '{node.final}' cannot run along '{sweep}', which has the tag '{tag}': the results of a "
                "block depend on all blocks before it.", subject=sweep,
                hint=f"make_two_level_scan(knl, '{node.final}', '{scan.iname}', '{sweep}', 1024) before '{sweep}' is "
                     "tagged" if isinstance(tag, GroupTag) else "tag it l.0")
        case _:
            return in_order(kernel, scan)


def in_order(kernel: LoopKernel, scan: Scan) -> LoopKernel:
    """*scan* in a loop: the accumulator carries the value from one iteration of the sweep to the next.

    An operand that counts from the next iteration on is combined after the statement if dependences allow it. This
    shortens the life of values.
    """
    if scan.shift == -1:
        after = _combining(kernel, scan, 0, after=True)
        if next(violations(after), None) is None:
            return after
    return _combining(kernel, scan, scan.shift, after=False)


def moved_operands(kernel: LoopKernel, scan: Scan, offset: int | None) -> tuple[Map, Statement]:
    """The update of *scan* with each operand ``j`` at ``sweep = j - offset``: where its instances go, and itself.

    :arg offset: ``None``: each operand stays in the first instance that has it, and keeps its loop.
    """
    init, update = (kernel.statement_by_id[s] for s in (scan.node.init, scan.node.update))
    if offset is None:
        same = identity_on(update.domain, scan.newest, [scan.iname, *scan.rows])
        return same, replace(update, domain=update.domain.intersect(scan.newest))
    at, rows = add(p.Variable(scan.sweep), offset), [*map(p.Variable, scan.rows)]
    moved = equal_coordinates(update.inames, [p.Variable(scan.iname), *rows], init.inames, [at, *rows])
    return moved, substituted(replace(update, domain=update.domain.apply(moved, init.inames)), {scan.iname: at})


def _combining(kernel: LoopKernel, scan: Scan, offset: int | None, *, after: bool) -> LoopKernel:
    """*scan* with the operand at ``sweep + offset`` combined in each iteration, before its statement or *after* it.

    :arg offset: as for :func:`moved_operands`.
    """
    node, init = scan.node, kernel.statement_by_id[scan.node.init]
    moved, combined = moved_operands(kernel, scan, offset)
    # the loops inside the sweep and around the reduction: each of their iterations has a separate scan
    loops = loops_of(kernel.paths[node.init])
    inside = loops[loops.index(scan.sweep) + 1:]
    cell = element(node.accumulator, tuple(subtract(p.Variable(x), iname_range(kernel, x)[0]) for x in inside))
    # an instance without terms keeps the init, which has no effect
    rows = init.domain.onto(scan.rows) if scan.rows else InstanceSet.universe(())
    start = replace(init, domain=rows, assignee=cell,
                    options=replace(init.options, depends_on=frozenset()))
    new = {node.init: start, node.update: replace(combined, assignee=cell),
           node.final: substituted(kernel.statement_by_id[node.final], {node.accumulator: cell})}
    tree = _tree(kernel, scan, inside, after)
    statements = tuple(new.get(s, kernel.statement_by_id[s]) for s in leaves(tree))
    result = with_dependences(
        kernel, partial(_along_the_sweep, node, moved), tree=tree, statements=statements,
        temporaries={**kernel.temporaries, node.accumulator: replace(
            kernel.temporaries[node.accumulator], shape=tuple(iname_extent(kernel, x) for x in inside))},
        reductions={name: r for name, r in kernel.reductions.items() if r is not node},
        tags={x: t for x, t in kernel.tags.items() if any(x in s.inames for s in statements)})
    for x in inside:
        if isinstance(kernel.tags.get(x), LocalTag):        # the cell becomes private to a thread where possible
            with suppress(PreconditionError, UndecidedError, IllegalTransformError):
                result = contracted(result, node.accumulator, (x,), "")
    return result


def _tree(kernel: LoopKernel, scan: Scan, inside: tuple[str, ...], after: bool) -> Tree:
    node = scan.node

    def one(tree: Tree) -> Tree:
        match tree:
            case Loop(scan.iname, body) if node.update in leaves(body):
                return tree if scan.shift is None else seq() if after else body
            case Leaf(node.init):
                return seq()
            case Leaf(node.final) if after:
                return seq(tree, Leaf(node.update))
            case Loop(scan.sweep) if node.final in leaves(tree):
                return seq(nest(inside, Leaf(node.init)), tree)
            case _:
                return tree
    return rewrite(kernel.tree, one)


def _along_the_sweep(node: ReductionNode, moved: Map, found: Sequence[Dependence], after: LoopKernel
                     ) -> Iterator[Dependence]:
    """The dependences of each operand at its new place, and the flow of the accumulator."""
    others = (d for d in found if d.array != node.accumulator)
    yield from between_images(others, {node.update: [Image(node.update, moved)], node.init: []})
    yield from flow_of_values(after, node.accumulator)


@transform
def make_two_level_scan(kernel: LoopKernel, insn_id: str, scan_iname: str, sweep_iname: str, inner_length: int, *,
                        outer_iname: str | None = None, inner_iname: str | None = None,
                        outer_tag: str | InameTag | None = None, inner_tag: str | InameTag | None = None,
                        assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Split the scan over *scan_iname* in *insn_id* into blocks of *inner_length* along *sweep_iname*.

    The prefix of an element combines the blocks before its block with the prefix inside its block. The first statement
    reduces the operands of each block (``S_part`` for a statement ``S``). A scan over the blocks then gives the prefix
    of each block (``S_before``). Each result combines that prefix with a scan in its block. All three are reductions:
    ``realize_scan``, tags and further levels apply to them. The step regroups the operands, so real results are rounded
    differently.

    The proof of the scan property along the sweep is that of :func:`realize_scan`.

    :arg insn_id: the statement with the reduction.
    :arg inner_length: the number of elements in a block.
    :arg outer_iname: the iname that counts the blocks, default ``i_outer`` for a sweep ``i``; *inner_iname*: the iname
        that counts the elements of a block, default ``i_inner``.
    :arg outer_tag: tag for the outer iname, as for :func:`tag_inames`; likewise *inner_tag*.
    :raises UnknownNameError: there is no such statement, or it has no such reduction or sweep.
    :raises PreconditionError: the reduction is not a scan (the message has the smallest sizes and instance that show
        it); its operation cannot be reordered; the sweep has a tag.
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
    kernel.statement(insn_id)
    own = [r for r in kernel.reductions.values() if r.final == insn_id]
    require_known("reduction iname", [scan_iname], [x for r in own for x in r.inames], where=f"'{insn_id}'")
    node = next(r for r in own if scan_iname in r.inames)
    require_iname(kernel, sweep_iname)
    length = require_positive(inner_length, "inner_length")
    if not kernel.operation(node.operation).associative:
        raise PreconditionError(f"The scan of '{node.final}' cannot have two levels: '{node.operation}' must combine "
                                "its operands in order.", subject=node.operation,
                                hint="ReductionOperation(..., reorderable=True), if it may be reordered")
    scan = scan_along(kernel, node, sweep_iname)
    require_alone(kernel, scan)
    if scan.shift is None:
        raise PreconditionError(f"The scan of '{node.final}' cannot have two levels: an iteration of '{sweep_iname}' "
                                "has several new operands, or their distance from it varies.", subject=node.name,
                                hint="reduce the operands of each iteration first, into an array, and scan that")
    split = split_iname(kernel, sweep_iname, length, outer_iname=outer_iname, inner_iname=inner_iname)
    outer, inner = (x for x in split.statement_by_id[node.init].inames if x not in scan.rows)
    result = _Levels(split, scan, length, outer, inner).kernel()
    step = f"make_two_level_scan({insn_id!r}, {scan_iname!r}, {sweep_iname!r}, {length})"
    result = require_legal(result, step, assume=assume, unsafe=unsafe)
    return tagged(result, {outer: outer_tag, inner: inner_tag}, step, assume=assume, unsafe=unsafe)


@dataclass(frozen=True)
class _Levels:
    """A scan in blocks of *length* elements; *old* has its sweep split into *outer* and *inner*."""

    old: LoopKernel
    scan: Scan
    length: int
    outer: str
    inner: str

    def inames(self, block: str) -> tuple[str, ...]:
        """The inames of a block's values; *block* counts the blocks."""
        return tuple(block if x == self.outer else x
                     for x in self.old.statement_by_id[self.scan.node.init].inames if x != self.inner)

    def element(self, array: str, block: str) -> p.Subscript:
        """The element of *array* for *block* in its row."""
        starts = (iname_range(self.old, x)[0] for x in self.inames(self.outer))
        return p.Subscript(p.Variable(array), tuple(map(subtract, map(p.Variable, self.inames(block)), starts)))

    def operand_at(self, place: str) -> Expression:
        shift = self.scan.shift
        assert shift is not None
        return add(multiply(self.length, p.Variable(self.outer)), p.Variable(place), shift)

    def level(self, name: str, block: str, iname: str, blocks: InstanceSet, terms: InstanceSet, update: Statement
              ) -> tuple[ReductionNode, tuple[Statement, ...], Tree]:
        """*name* for each of *blocks*, reduced over *iname* in *terms*: its node, its statements and their loops."""
        knl = self.old
        accumulator = knl.fresh_name(f"acc_{iname}")
        node = ReductionNode(f"{name}.{iname}", self.scan.node.operation, accumulator, (iname,), f"{name}.{iname}.init",
                             (f"{name}.{iname}.update",), name)
        acc = p.Variable(accumulator)
        start = Statement(node.init, acc, Neutral(node.operation), blocks)
        combined = replace(update, id=node.update, assignee=acc, domain=terms, combine=node.operation)
        stored = Statement(name, self.element(name, block), acc, blocks)
        loops = loops_of(knl.paths[self.scan.node.init])
        inside = loops[loops.index(self.inner) + 1:]
        body = seq(Leaf(node.init), Loop(iname, Leaf(node.update)), Leaf(name))
        return node, (start, combined, stored), nest((block, *inside), body)

    def kernel(self) -> LoopKernel:
        knl, scan, node = self.old, self.scan, self.scan.node
        init, update, final = (knl.statement_by_id[s] for s in (node.init, node.update, node.final))
        # the operands by block and place in it
        every = InstanceSet.universe([scan.iname if x == self.inner else x for x in init.inames])
        every = every.where(*bounded_by(scan.iname, 0, self.length))
        places = update.domain.apply(self._moved(every, scan.iname), every.inames)
        part, before = (knl.fresh_name(f"{final.id}_{what}") for what in ("part", "before"))
        term, block, other = (knl.fresh_name(x) for x in (
            f"{scan.iname}_part", f"{self.outer}_before", f"{scan.iname}_before"))
        with_operands = places.onto(self.inames(self.outer))
        first, summing, over_terms = self.level(
            part, self.outer, term, with_operands, _renamed(places, scan.iname, term),
            substituted(update, {scan.iname: self.operand_at(term)}))
        rows = self.inames(block)
        results = _renamed(init.domain.onto(self.inames(self.outer)), self.outer, block)
        earlier = _renamed(with_operands, self.outer, other).onto((*rows, other)).intersect(results).where(
            ("<", subtract(p.Variable(other), p.Variable(block))))
        second, scanning, over_blocks = self.level(before, block, other, results, earlier, Statement(
            "", p.Variable(before), self.element(part, other), earlier))
        own = init.domain.onto(update.inames).intersect(places).where(
            (">=", subtract(p.Variable(self.inner), p.Variable(scan.iname))))
        total = knl.operation(node.operation).apply(self.element(before, self.outer), p.Variable(node.accumulator))
        new = {update.id: substituted(replace(update, domain=own), {scan.iname: self.operand_at(scan.iname)}),
               final.id: substituted(final, {node.accumulator: total})}
        tree = rewrite_over(knl.tree, self.outer, lambda loop: seq(over_terms, over_blocks, loop)
                            if final.id in leaves(loop) else loop)
        cells = [*(TemporaryVariable(x) for x in (part, before)),
                 *(TemporaryVariable(x.accumulator, shape=()) for x in (first, second))]
        return with_dependences(
            knl, partial(self._dependences, first, second), tree=tree, statements=in_order_of(
                tree, [*summing, *scanning, *(new.get(s.id, s) for s in knl.statements)]),
            temporaries={**knl.temporaries, **{t.name: t for t in cells}},
            reductions={**knl.reductions, first.name: first, second.name: second})

    def _dependences(self, first: ReductionNode, second: ReductionNode, found: Sequence[Dependence], new: LoopKernel
                     ) -> Iterator[Dependence]:
        """The former dependences of each operand, now read twice, and those of the new reductions and their results."""
        node = self.scan.node
        own = self._moved(new.statement_by_id[node.update].domain, self.scan.iname, self.outer, self.inner)
        whole = self._moved(new.statement_by_id[first.update].domain, first.inames[0])
        others = (d for d in found if d.array != node.accumulator)
        yield from between_images(others, {node.update: [Image(node.update, own), Image(first.update, whole)],
                                           node.init: []})
        for name in (node.name, first.name, second.name):
            yield from reduction_dependences(new, new.reductions[name])
        for array in (first.final, second.final):
            yield from flow_of_values(new, array)

    def _moved(self, to: InstanceSet, place: str, *same: str) -> Map:
        """From the old update to the instances *to*, whose operand is at *place* in its block."""
        rows = [*map(p.Variable, (*self.scan.rows, *same))]
        return equal_coordinates(
            self.old.statement_by_id[self.scan.node.update].inames, [p.Variable(self.scan.iname), *rows], to.inames,
            [self.operand_at(place), *rows]).intersect_range(to.set)


def _renamed(points: InstanceSet, old: str, new: str) -> InstanceSet:
    return InstanceSet(tuple(new if x == old else x for x in points.inames), points.set)
