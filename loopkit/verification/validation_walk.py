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
from loopkit.ast.nodes import Assign, Block, Call, Define, For, Function, If, Instruction, Node, Region, Scope, Sync
from loopkit.ast.walk import expressions_of, nodes_in
from loopkit.expr.mappers import substitute, variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import Path, Step
from loopkit.lowering.lowered import Launch, Storage
from loopkit.poly.affine import NotAffineError, remainder, subtract
from loopkit.poly.piecewise import params_where, piecewise_relation, points_where, projected
from loopkit.poly.sets import Map, Set, lexmin_point
from loopkit.verification.divergence import divergent_nodes
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
    scope = _Scope(grid.points, frozenset({*knl.value_params, *grid.coordinates}), grid.values)
    return _Walk(grid.coordinates, knl).block(function.body, scope)


def host_executions(knl: LoopKernel, order: Block) -> Iterator[Execution]:
    """Every launch of *order*, the host's part of a program."""
    return _Walk((), knl).block(order, _Scope(knl.assumptions, knl.value_params, {}))


@dataclass(frozen=True, eq=False)
class _Scope:
    """The facts that hold at a place.

    :ivar known: names that may occur in sets: parameters, coordinates and loop variables.
    """

    points: Set
    known: frozenset[str]
    names: Mapping[str, Expression]
    path: Path = ()
    conditions: tuple[tuple[Expression, bool], ...] = ()
    instruction: Instruction | None = None

    def at(self, position: int, iname: str | None = None) -> _Scope:
        return replace(self, path=(*self.path, Step(position, iname)))

    def value(self, expr: Expression) -> Expression:
        return substitute(expr, self.names)

    def where(self, condition: Expression, holds: bool = True) -> _Scope:
        """The scope under *condition* (already in terms of coordinates), or under its opposite."""
        match condition:
            case p.LogicalNot(child=child):
                return self.where(child, not holds)
            case p.LogicalAnd(children=children) if holds:
                return reduce(_Scope.where, children, self)
            case p.LogicalOr(children=children) if not holds:
                return reduce(_Scope.where, map(p.LogicalNot, children), self)
        if variables(condition) <= self.known:
            with suppress(NotAffineError):
                points = params_where(condition if holds else p.LogicalNot(condition))
                return replace(self, points=self.points.intersect(points))
        return replace(self, conditions=(*self.conditions, (condition, holds)))

    def bounded_by(self, data: frozenset[str]) -> _Scope:
        """The scope of a statement with bounds *data* that are read from memory: conditions on them are sets too."""
        if not data:
            return self
        scope = replace(self, known=self.known | data, conditions=())
        for condition, holds in self.conditions:
            scope = scope.where(condition, holds)
        return replace(scope, known=self.known)

    def inside(self, loop: For) -> _Scope:
        """The scope of the body of *loop*."""
        start, stop, x = self.value(loop.start), self.value(loop.stop), p.Variable(loop.iname)
        bounds: list[Expression] = [p.Comparison(start, "<=", x), p.Comparison(x, "<", stop)]
        if loop.step != 1:
            bounds.append(p.Comparison(remainder(subtract(x, start), loop.step), "==", 0))
        points = reduce(Set.intersect, map(params_where, bounds), self.points)
        names = {k: v for k, v in self.names.items() if k != loop.iname}
        return replace(self, points=points, known=self.known | {loop.iname}, names=names).at(0, loop.iname)


@dataclass(frozen=True)
class _Walk:
    coordinates: tuple[str, ...]
    kernel: LoopKernel

    def block(self, block: Block, scope: _Scope) -> Iterator[Execution]:
        for i, node in enumerate(block.children):
            if isinstance(node, Define):
                scope = replace(scope, names={**scope.names, node.name: scope.value(node.value)})
            else:
                yield from self.node(node, scope.at(i))

    def node(self, node: Node, scope: _Scope) -> Iterator[Execution]:
        match node:
            case Assign() | Sync() | Call():
                yield self._execution(node, scope)
            case For():
                inside = scope.inside(node)
                if node.instruction is not None:
                    yield self._execution(node, scope)
                    inside = replace(inside, instruction=node.instruction)
                yield from self.block(node.body, inside)
            case If():
                condition = scope.value(node.condition)
                yield from self.block(node.then, scope.where(condition).at(0))
                if node.otherwise is not None:
                    yield from self.block(node.otherwise, scope.where(condition, holds=False).at(1))
            case Region(instruction=None):
                yield from self.block(node.body, scope)
            case Region():
                # the threads of a warp synchronize before and behind it, as at a barrier
                yield from self.node(TOGETHER, scope.at(0))
                yield from self.block(node.body, replace(scope.at(1), instruction=node.instruction))
                yield from self.node(TOGETHER, scope.at(2))
            case Block():
                yield from self.block(node, scope)
            case Define():
                raise AssertionError(node)

    def _execution(self, node: Assign | Sync | Call | For, scope: _Scope) -> Execution:
        if isinstance(node, Assign):
            scope = scope.bounded_by(self._data(node.statement))
        return Execution(node, (*self.coordinates, *loops_of(scope.path)), scope.points, scope.path, scope.names,
                         scope.conditions, scope.instruction)

    def _data(self, statement: str) -> frozenset[str]:
        """Bounds of *statement* that are read from memory; none if its conditions read the same values."""
        s = self.kernel.statement_by_id[statement]
        data = frozenset(data_params(self.kernel, s.domain))
        conditions = frozenset[str]().union(*map(variables, s.predicates))
        return data if data.isdisjoint(conditions) else frozenset()


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
