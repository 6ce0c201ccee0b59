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
from loopkit.ast.check import divergent_names, divergent_nodes
from loopkit.ast.nodes import (
    Assign,
    Block,
    ByRole,
    Call,
    Define,
    For,
    Function,
    If,
    Instruction,
    Node,
    Region,
    Scope,
    Sync,
    Tiles,
)
from loopkit.ast.walk import mentioned
from loopkit.expr.mappers import substitute, variables
from loopkit.instructions.nests import Issue
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import Path, Step
from loopkit.lowering.lowered import BLOCK, Launch
from loopkit.lowering.stored import Storage
from loopkit.poly.affine import NotAffineError, remainder, subtract
from loopkit.poly.piecewise import params_where, piecewise_relation, points_where, projected
from loopkit.poly.sets import Map, Set, lexmin_point
from loopkit.verification.report import Mismatch
from loopkit.verification.threads import TOGETHER
from loopkit.verification.validation_grid import Grid


@dataclass(frozen=True, eq=False)
class Execution:
    """An assignment, a barrier, a launch, or a loop or a region with an instruction, at its place; without a node: any
    other place.

    :ivar coordinates: the dimensions of *points*: those of the grid, then the loops around, outermost first.
    :ivar condition: the points, as a condition on parameters.
    :ivar known: names that may occur in sets: parameters and coordinates.
    :ivar names: the constants in scope in terms of the coordinates.
    :ivar path: the child of each block or the branch taken, and the loops.
    :ivar conditions: the non-affine conditions around it, each with its truth value.
    :ivar instruction: the instruction of the region, or of the loops, around it.
    :ivar producer: the producer thread executes it, and other threads do otherwise.
    :ivar in_tiles: its threads execute it at each place of the grid that the block has.
    """

    coordinates: tuple[str, ...]
    condition: Set
    known: frozenset[str]
    names: Mapping[str, Expression]
    path: Path = ()
    conditions: tuple[tuple[Expression, bool], ...] = ()
    instruction: Instruction | None = None
    node: Assign | Sync | Call | For | Region | None = None
    producer: bool = False
    in_tiles: bool = False

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

    @property
    def region(self) -> Region:
        assert isinstance(self.node, Region)
        return self.node

    @property
    def loops(self) -> tuple[str, ...]:
        return loops_of(self.path)

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

    # Places further inside

    def at(self, position: int, iname: str | None = None) -> Execution:
        return replace(self, path=(*self.path, Step(position, iname)))

    def under(self, condition: Expression, holds: bool = True) -> Execution:
        """The place under *condition* (already in terms of coordinates), or under its opposite."""
        match condition:
            case p.LogicalNot(child=child):
                return self.under(child, not holds)
            case p.LogicalAnd(children=children) if holds:
                return reduce(Execution.under, children, self)
            case p.LogicalOr(children=children) if not holds:
                return reduce(Execution.under, map(p.LogicalNot, children), self)
        if variables(condition) <= self.known:
            with suppress(NotAffineError):
                points = params_where(condition if holds else p.LogicalNot(condition))
                return replace(self, condition=self.condition.intersect(points))
        return replace(self, conditions=(*self.conditions, (condition, holds)))

    def inside(self, loop: For) -> Execution:
        """The body of *loop*."""
        start, stop = (substitute(e, self.names) for e in (loop.start, loop.stop))
        x = p.Variable(loop.iname)
        bounds = (p.Comparison(start, "<=", x), p.Comparison(x, "<", stop),
                  p.Comparison(remainder(subtract(x, start), loop.step), "==", 0))
        names = {k: v for k, v in self.names.items() if k != loop.iname}
        return replace(self, condition=reduce(Set.intersect, map(params_where, bounds), self.condition), names=names,
                       coordinates=(*self.coordinates, loop.iname), known=self.known | {loop.iname},
                       instruction=loop.instruction or self.instruction).at(0, loop.iname)


def executions(knl: LoopKernel, function: Function, grid: Grid) -> Iterator[Execution]:
    """Every assignment, every barrier and every loop with an instruction of *function*, in textual order."""
    known = frozenset({*knl.value_params, *grid.coordinates})
    return _of_block(knl, function.body, Execution(grid.coordinates, grid.points, known, grid.values))


def host_executions(knl: LoopKernel, order: Block) -> Iterator[Execution]:
    """Every launch of *order*, the host's part of a program."""
    return _of_block(knl, order, Execution((), knl.assumptions, knl.value_params, {}))


def _of_block(knl: LoopKernel, block: Block, place: Execution) -> Iterator[Execution]:
    for i, node in enumerate(block.children):
        if isinstance(node, Define):
            place = replace(place, names={**place.names, node.name: substitute(node.value, place.names)})
        else:
            yield from _of_node(knl, node, place.at(i))


def _of_node(knl: LoopKernel, node: Node, place: Execution) -> Iterator[Execution]:
    match node:
        case Assign():
            s = knl.statement_by_id[node.statement]
            data = frozenset(data_params(knl, s.domain))
            if data and not any(data & variables(e) for e in s.predicates):
                # bounds that are read from memory, and by no condition: conditions on them are sets too
                everywhere = replace(place, known=place.known | data, conditions=())
                place = reduce(lambda place, condition: place.under(*condition), place.conditions, everywhere)
            yield replace(place, node=node)
        case Sync() | Call():
            yield replace(place, node=node)
        case For():
            if node.instruction is not None:
                yield replace(place, node=node)
            yield from _of_block(knl, node.body, place.inside(node))
        case If():
            condition = substitute(node.condition, place.names)
            then = replace(place, producer=place.producer or isinstance(node, ByRole))
            yield from _of_block(knl, node.then, then.under(condition).at(0))
            if node.otherwise is not None:
                yield from _of_block(knl, node.otherwise, place.under(condition, holds=False).at(1))
        case Region(instruction=None):
            yield from _of_block(knl, node.body, place)
        case Region(instruction=Instruction(scope=Scope.THREAD)):
            yield replace(place, node=node)
            yield from _of_block(knl, node.body, replace(place, instruction=node.instruction))
        case Region():
            # the threads of a warp synchronize before and after it, as at a barrier
            yield replace(place.at(0), node=TOGETHER)
            if isinstance(node.instruction, Issue):
                yield replace(place.at(1), node=node)
            yield from _of_block(knl, node.body, replace(place.at(1), instruction=node.instruction))
            yield replace(place.at(2), node=TOGETHER)
        case Tiles():
            yield from _of_block(knl, node.body, replace(place, in_tiles=True))
        case Block():
            yield from _of_block(knl, node, place)
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

    @property
    def thread_number(self) -> Expression:
        """The number of a thread in its block, in terms of the axes."""
        return self.launch.thread_number(p.Variable(axis) if axis in self.grid.on_axis else 0 for axis in BLOCK)

    @cached_property
    def divergent(self) -> Sequence[Node]:
        """The barriers and the instructions of warps that not all of their threads may execute."""
        uniform = self.kernel.value_params.union(self.grid.along("g"))
        uniform |= {x for x, value in self.grid.values.items() if variables(value) <= uniform}
        body = self.function.body
        names = divergent_names(self.function, mentioned(body).difference(uniform, self.kernel.data))
        return [node for node, _ in divergent_nodes(body, names)]

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
                text = (f"whether {text} is undecided, because {', '.join(self.grid.by_sizes) or 'no inames'} share "
                        "axes in parts that depend on sizes")
            else:
                found = lexmin_point(real, names)
                assert found is not None
                parameters, values = found
        yield Mismatch(kind, self.launch.name, statement, text, parameters,
                       {x: v for x, v in values.items() if not x.startswith("'")},
                       {x[1:]: v for x, v in values.items() if x.startswith("'")})


@dataclass(frozen=True, eq=False)
class NodeCheck(LaunchCheck):
    """The check of one loop or region with an instruction; *execution* is its place."""

    execution: Execution

    def findings(self) -> Iterator[Mismatch]:
        """The mismatches between the instruction and its node."""
        raise NotImplementedError
