"""The executions of a loop program as sets: the places and times of each assignment and each barrier.

A point of such a set is one execution: the coordinates of the block and the thread, then the variables of the loops
around. Loops, guards and named constants have the meaning of the C text, not of the kernel.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import data_params
from loopkit.analysis.order import loops_of
from loopkit.ast.check import divergent_nodes
from loopkit.ast.nodes import Assign, Block, Call, Define, For, Function, If, Instruction, Node, Region, Scope, Sync
from loopkit.ast.walk import expressions_of, nodes_in
from loopkit.expr.mappers import substitute, variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import Path, Step
from loopkit.lowering.lowered import Launch, Storage
from loopkit.poly.affine import NotAffineError, remainder, subtract
from loopkit.poly.piecewise import params_where, piecewise_relation, points_where, projected
from loopkit.poly.sets import Map, Set, lexmin_point
from loopkit.verification.report import Mismatch
from loopkit.verification.validation_grid import Grid

#: A region with an instruction, as a barrier for arrays in warp registers: the threads of each warp wait for each
#: other.
TOGETHER = Sync((), Scope.WARP)


@dataclass(frozen=True, eq=False)
class Execution:
    """An assignment, a barrier, a launch, or a loop with an instruction, at its place in the program.

    :ivar coordinates: the dimensions of *points*: those of the grid, then the loops around, outermost first.
    :ivar path: the child of each block or the branch taken, and the loops.
    :ivar names: the constants in scope in terms of the coordinates.
    :ivar conditions: the non-affine conditions around it, each with its truth value.
    :ivar instruction: that of the region, or of the loops, around it.
    """

    node: Assign | Sync | Call | For
    coordinates: tuple[str, ...]
    condition: Set
    path: Path
    names: Mapping[str, Expression]
    conditions: tuple[tuple[Expression, bool], ...]
    instruction: Instruction | None

    @property
    def assign(self) -> Assign:
        assert isinstance(self.node, Assign)
        return self.node

    @property
    def sync(self) -> Sync:
        assert isinstance(self.node, Sync)
        return self.node

    @property
    def loop(self) -> For:
        assert isinstance(self.node, For)
        return self.node

    @cached_property
    def points(self) -> Set:
        return projected(self.condition, (), self.coordinates)

    @cached_property
    def instance(self) -> Mapping[str, Expression]:
        """The values of the statement's inames here, in terms of the coordinates."""
        return {x: substitute(value, self.names) for x, value in self.assign.instance}

    def relation(self, values: Iterable[Expression]) -> Map:
        """From the executions to *values*."""
        return piecewise_relation(self.coordinates, tuple(values)).intersect_domain(self.points)

    def where(self, condition: Expression) -> Set:
        """The points at which *condition*, in terms of the coordinates, holds."""
        return self.points.intersect(points_where(condition, self.coordinates))

    @property
    def loops(self) -> tuple[str, ...]:
        return loops_of(self.path)


def executions(knl: LoopKernel, function: Function, grid: Grid) -> Iterator[Execution]:
    """Every assignment, every barrier and every loop with an instruction of *function*, in textual order."""
    known = frozenset({*knl.value_params, *grid.coordinates})
    return _of_block(function.body, Facts(knl, grid.coordinates, grid.points, known, grid.values))


def host_executions(knl: LoopKernel, order: Block) -> Iterator[Execution]:
    """Every launch of *order*, the host's part of a program."""
    return _of_block(order, Facts(knl, (), knl.assumptions, knl.value_params, {}))


@dataclass(frozen=True, eq=False)
class Facts:
    """The facts that hold at a place.

    :ivar coordinates: those of the grid.
    :ivar known: names that may occur in sets: parameters, coordinates and loop variables.
    """

    kernel: LoopKernel
    coordinates: tuple[str, ...]
    points: Set
    known: frozenset[str]
    names: Mapping[str, Expression]
    path: Path = ()
    conditions: tuple[tuple[Expression, bool], ...] = ()
    instruction: Instruction | None = None

    def at(self, position: int, iname: str | None = None) -> Facts:
        return replace(self, path=(*self.path, Step(position, iname)))

    def value(self, expr: Expression) -> Expression:
        return substitute(expr, self.names)

    def where(self, condition: Expression, holds: bool = True) -> Facts:
        """The facts under *condition* (already in terms of coordinates), or under its opposite."""
        match condition:
            case p.LogicalNot(child=child):
                return self.where(child, not holds)
            case p.LogicalAnd(children=children) if holds:
                return reduce(Facts.where, children, self)
            case p.LogicalOr(children=children) if not holds:
                return reduce(Facts.where, map(p.LogicalNot, children), self)
        if variables(condition) <= self.known:
            with suppress(NotAffineError):
                points = params_where(condition if holds else p.LogicalNot(condition))
                return replace(self, points=self.points.intersect(points))
        return replace(self, conditions=(*self.conditions, (condition, holds)))

    def inside(self, loop: For) -> Facts:
        """The facts that hold in the body of *loop*."""
        start, stop, x = self.value(loop.start), self.value(loop.stop), p.Variable(loop.iname)
        bounds: list[Expression] = [p.Comparison(start, "<=", x), p.Comparison(x, "<", stop)]
        if loop.step != 1:
            bounds.append(p.Comparison(remainder(subtract(x, start), loop.step), "==", 0))
        points = reduce(Set.intersect, map(params_where, bounds), self.points)
        names = {k: v for k, v in self.names.items() if k != loop.iname}
        return replace(self, points=points, known=self.known | {loop.iname}, names=names,
                       instruction=loop.instruction or self.instruction).at(0, loop.iname)

    def execution(self, node: Assign | Sync | Call | For) -> Execution:
        facts = self
        if isinstance(node, Assign):
            s = self.kernel.statement_by_id[node.statement]
            data = frozenset(data_params(self.kernel, s.domain))
            if data and not any(data & variables(e) for e in s.predicates):
                # bounds that are read from memory, and by no condition: conditions on them are sets too
                facts = replace(self, known=self.known | data, conditions=())
                facts = reduce(lambda facts, condition: facts.where(*condition), self.conditions, facts)
        return Execution(node, (*self.coordinates, *loops_of(self.path)), facts.points, self.path, self.names,
                         facts.conditions, self.instruction)


def _of_block(block: Block, facts: Facts) -> Iterator[Execution]:
    for i, node in enumerate(block.children):
        if isinstance(node, Define):
            facts = replace(facts, names={**facts.names, node.name: facts.value(node.value)})
        else:
            yield from _of_node(node, facts.at(i))


def _of_node(node: Node, facts: Facts) -> Iterator[Execution]:
    match node:
        case Assign() | Sync() | Call():
            yield facts.execution(node)
        case For():
            if node.instruction is not None:
                yield facts.execution(node)
            yield from _of_block(node.body, facts.inside(node))
        case If():
            condition = facts.value(node.condition)
            yield from _of_block(node.then, facts.where(condition).at(0))
            if node.otherwise is not None:
                yield from _of_block(node.otherwise, facts.where(condition, holds=False).at(1))
        case Region(instruction=None):
            yield from _of_block(node.body, facts)
        case Region():
            # the threads of a warp synchronize before and behind it, as at a barrier
            yield facts.at(0).execution(TOGETHER)
            yield from _of_block(node.body, replace(facts.at(1), instruction=node.instruction))
            yield facts.at(2).execution(TOGETHER)
        case Block():
            yield from _of_block(node, facts)
        case Define():
            raise AssertionError(node)


@dataclass(frozen=True, eq=False)
class LaunchCheck:
    """A launch and the function that it became: the subject of each check of translation validation.

    :ivar executions: those of its assignments, by statement.
    :ivar places: barriers, commits of groups, and waits for groups.
    """

    launch: Launch
    storages: Mapping[str, Storage]
    function: Function
    grid: Grid
    executions: Mapping[str, Sequence[Execution]]
    places: Sequence[Execution]

    @cached_property
    def memo(self) -> dict[object, Any]:
        return {}

    @property
    def kernel(self) -> LoopKernel:
        return self.launch.kernel

    @cached_property
    def divergent(self) -> Sequence[Node]:
        """The barriers and the instructions of warps that not all of their threads may execute."""
        uniform = self.kernel.value_params.union(self.grid.along("g"))
        uniform |= {x for x, value in self.grid.values.items() if variables(value) <= uniform}
        names = (variables(e) for node in nodes_in(self.function.body) for e in expressions_of(node))
        return [node for node, _ in divergent_nodes(self.function.body, frozenset[str]().union(*names) - uniform)]

    def mismatch(self, kind: str, statement: str, text: str, points: Set | None = None, names: Sequence[str] = ()
                 ) -> Iterator[Mismatch]:
        """The mismatch at the smallest of *points*, with the dimensions *names*, whose place exists; none without any.

        The inames of the statement are those dimensions that begin with an apostrophe.

        :arg points: ``None``: the mismatch does not depend on them.
        """
        parameters, values = dict[str, int](), dict[str, int]()
        if points is not None:
            if points.is_empty():
                return
            real = self.grid.real(points, names)
            if real is None:
                kind = "undecided"
                text = (f"whether {text} cannot be told, as {', '.join(self.grid.by_sizes) or 'nothing'} share axes in "
                        "parts that sizes give")
            else:
                found = lexmin_point(real, names)
                assert found is not None
                parameters, values = found
        yield Mismatch(kind, self.launch.name, statement, text, parameters,
                       {x: v for x, v in values.items() if not x.startswith("'")},
                       {x[1:]: v for x, v in values.items() if x.startswith("'")})
