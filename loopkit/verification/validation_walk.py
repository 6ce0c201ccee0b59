"""The executions of a loop program as sets: the places and times of each assignment and each barrier.

A point of such a set is one execution: the coordinates of the block and the thread, then the variables of the loops
around. Loops, guards and named constants have the meaning of the C text, not of the kernel.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import data_params
from loopkit.ast.nodes import Assign, Block, Call, Define, For, Function, If, Instruction, Node, Region, Scope, Sync
from loopkit.ast.walk import nodes_in
from loopkit.expr.mappers import substitute, variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.affine import NotAffineError, remainder, subtract
from loopkit.poly.piecewise import as_points, params_condition, points_where
from loopkit.poly.sets import InstanceSet, Set
from loopkit.verification.validation_grid import Grid

#: A region with an instruction, as a barrier for arrays in warp registers: the threads of each warp wait for each
#: other.
TOGETHER = Sync((), Scope.WARP)

#: A path through the program: the child of a block or the branch taken, and the variables of loops.
ProgramPath = tuple[int | str, ...]


@dataclass(frozen=True, eq=False)
class Execution:
    """An assignment, a barrier, a launch, or a loop with an instruction, at its place in the program.

    :ivar coordinates: the dimensions of *points*: those of the grid, then the loops around, outermost first.
    :ivar path: the path to it.
    :ivar names: the constants in scope in terms of the coordinates.
    :ivar numbers: the constants that number several coordinates at once (``256*round + 16*l.1 + l.0``).
    :ivar conditions: the non-affine conditions around it, each with its truth value.
    :ivar instruction: that of the region, or of the loops, around it.
    """

    node: Assign | Sync | Call | For
    coordinates: tuple[str, ...]
    condition: Set
    path: ProgramPath
    names: Mapping[str, Expression]
    numbers: Mapping[str, Expression]
    conditions: tuple[tuple[Expression, bool], ...]
    data: frozenset[str]
    divergent: bool
    instruction: Instruction | None = None

    @cached_property
    def points(self) -> Set:
        return as_points(InstanceSet((), self.condition).onto(self.coordinates).set)

    @cached_property
    def instance(self) -> tuple[Expression, ...]:
        """The values of the statement's inames here, in terms of the coordinates."""
        assert isinstance(self.node, Assign)
        return tuple(substitute(value, self.names) for _, value in self.node.instance)

    @property
    def loops(self) -> tuple[str, ...]:
        return tuple(x for x in self.path if isinstance(x, str))


def executions(knl: LoopKernel, function: Function, grid: Grid) -> Iterator[Execution]:
    """Every assignment and every barrier of *function*, in textual order."""
    yield from (e for e in _walked(knl, function, grid) if not isinstance(e.node, For))


def annotated_loops(knl: LoopKernel, function: Function, grid: Grid) -> Iterator[Execution]:
    """Every loop of *function* with an instruction."""
    if any(isinstance(node, For) and node.instruction is not None for node in nodes_in(function.body)):
        yield from (e for e in _walked(knl, function, grid) if isinstance(e.node, For))


def _walked(knl: LoopKernel, function: Function, grid: Grid) -> Iterator[Execution]:
    known = frozenset({*knl.value_params, *grid.coordinates})
    threads = frozenset(c for axis, cs in grid.on_axis.items() if axis.startswith("l") for c in cs)
    walk = _Walk(grid.coordinates, knl)
    yield from walk.block(function.body, _Scope(grid.points, known, threads, dict(grid.values)))


def host_executions(knl: LoopKernel, order: Block) -> Iterator[Execution]:
    """Every launch of *order*, the host's part of a program."""
    scope = _Scope(knl.assumptions, knl.value_params, frozenset(), {})
    yield from _Walk((), knl).block(order, scope)


@dataclass(frozen=True, eq=False)
class _Scope:
    """The facts that hold at a place.

    :ivar known: names that may occur in sets: parameters, coordinates and loop variables.
    :ivar divergent: names that differ between threads; *apart*: may threads diverge on the path here?
    """

    points: Set
    known: frozenset[str]
    divergent: frozenset[str]
    names: Mapping[str, Expression]
    numbers: Mapping[str, Expression] = field(default_factory=dict)
    path: ProgramPath = ()
    loops: tuple[str, ...] = ()
    conditions: tuple[tuple[Expression, bool], ...] = ()
    data: frozenset[str] = frozenset()
    apart: bool = False
    instruction: Instruction | None = None

    def at(self, step: int | str) -> _Scope:
        return replace(self, path=(*self.path, step))

    def value(self, expr: Expression) -> Expression:
        return substitute(expr, self.names)

    def naming(self, name: str, value: Expression) -> _Scope:
        """The scope behind a constant, whose *value* is in terms of coordinates."""
        numbers = {k: v for k, v in self.numbers.items() if k != name}
        if isinstance(value, p.Sum) and len(variables(value)) > 1:
            numbers[name] = value
        return replace(self, names={**self.names, name: value}, numbers=numbers)

    def where(self, condition: Expression, holds: bool = True) -> _Scope:
        """The scope under *condition* (already in terms of coordinates), or under its opposite."""
        match condition:
            case p.LogicalNot(child=child):
                return self.where(child, not holds)
            case p.LogicalAnd(children=children) if holds:
                scope = self
                for child in children:
                    scope = scope.where(child)
                return scope
            case p.LogicalOr(children=children) if not holds:
                scope = self
                for child in children:
                    scope = scope.where(child, holds=False)
                return scope
        names = variables(condition)
        apart = self.apart or bool(names & self.divergent) or not names <= self.known
        if names <= self.known:
            try:
                points = params_condition(points_where(condition if holds else p.LogicalNot(condition), ()))
            except NotAffineError:
                pass
            else:
                return replace(self, points=self.points.intersect(points), apart=apart)
        return replace(self, conditions=(*self.conditions, (condition, holds)), apart=apart)

    def bounded_by(self, data: frozenset[str]) -> _Scope:
        """The scope of a statement with bounds *data* that are read from memory: conditions on them are sets too."""
        if not data:
            return self
        scope = replace(self, known=self.known | data, conditions=())
        for condition, holds in self.conditions:
            scope = scope.where(condition, holds)
        return replace(scope, known=self.known, apart=self.apart)

    def inside(self, loop: For) -> _Scope:
        """The scope of the body of *loop*."""
        start, stop, x = self.value(loop.start), self.value(loop.stop), p.Variable(loop.iname)
        bounds: list[Expression] = [p.Comparison(start, "<=", x), p.Comparison(x, "<", stop)]
        if loop.step != 1:
            bounds.append(p.Comparison(remainder(subtract(x, start), loop.step), "==", 0))
        points = self.points
        for bound in bounds:
            points = points.intersect(params_condition(points_where(bound, ())))
        used = variables(start) | variables(stop)
        data = used - self.known
        names = {k: v for k, v in self.names.items() if k != loop.iname}
        apart = bool(used & self.divergent) or bool(data)
        divergent = self.divergent | {loop.iname} if apart else self.divergent - {loop.iname}
        return replace(self, points=points, known=self.known | {loop.iname}, divergent=divergent, names=names,
                       path=(*self.path, loop.iname), loops=(*self.loops, loop.iname), data=self.data | data,
                       apart=self.apart or apart)


@dataclass(frozen=True)
class _Walk:
    coordinates: tuple[str, ...]
    kernel: LoopKernel

    def block(self, block: Block, scope: _Scope) -> Iterator[Execution]:
        for i, node in enumerate(block.children):
            if isinstance(node, Define):
                scope = scope.naming(node.name, scope.value(node.value))
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
        return Execution(node, (*self.coordinates, *scope.loops), scope.points, scope.path, scope.names,
                         scope.numbers, scope.conditions, scope.data, scope.apart, scope.instruction)

    def _data(self, statement: str) -> frozenset[str]:
        """Bounds of *statement* that are read from memory; none if its conditions read the same values."""
        s = self.kernel.statement_by_id[statement]
        data = frozenset(data_params(self.kernel, s.domain))
        asked = frozenset[str]().union(*map(variables, s.predicates))
        return data if data.isdisjoint(asked) else frozenset()
