"""Instances: a loop program executes each instance of each statement once, with the statement's own elements."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import data_params, expand_rules, expanded_expression
from loopkit.analysis.dependences import dependences
from loopkit.ast.check import is_one_step, operation_of_load
from loopkit.ast.nodes import Assign, OneStep
from loopkit.ast.walk import nodes_in
from loopkit.expr.dtypes import WEAK_INT, Type, type_of
from loopkit.expr.mappers import alike, children, elements_of, substitute, variables
from loopkit.expr.nodes import NumberOperation
from loopkit.instructions.phases import SLOT, StartPhases
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.statement import Statement
from loopkit.lowering.lowered import BoundStatement
from loopkit.lowering.stored import in_storage, instructions_of
from loopkit.lowering.types import index_types
from loopkit.poly.affine import NotAffineError, if_affine
from loopkit.poly.limits import kept_in_memo
from loopkit.poly.piecewise import points_where, projected, where_holds
from loopkit.poly.relations import other_instance, subscript_relation
from loopkit.poly.sets import InstanceSet, Set, as_points, universe_params
from loopkit.verification.report import Mismatch
from loopkit.verification.validation_walk import Execution, LaunchCheck


@dataclass(frozen=True, eq=False)
class InstanceCheck(LaunchCheck):
    """The check of the instances of each statement."""

    def findings(self) -> Iterator[Mismatch]:
        for s, bound in self.launch.statements.items():
            given = {tuple(x for x, _ in e.assign.instance) for e in self.executions.get(s, ())}
            if not given <= {bound.statement.inames}:
                yield from self.mismatch("undecided", s, f"the program does not determine the instances of '{s}'")
                continue
            try:
                yield from self._instances(bound, self.executions.get(s, ()))
                for execution in self.executions.get(s, ()):
                    yield from self._conditions(bound, execution)
                    yield from self._elements(bound, execution)
            except NotAffineError as err:
                yield from self.mismatch("undecided", s, f"'{err}' is not an affine form")
        for s in self.executions.keys() - self.launch.statements.keys():
            yield from self.mismatch("outside", s, f"'{s}' is not a statement of this launch")
        yield from self._boxes()
        yield from self._arrivals()
        yield from self._steps()

    # Executed instances

    def _instances(self, bound: BoundStatement, executions: Sequence[Execution]) -> Iterator[Mismatch]:
        s, axes = bound.statement, self._axes(bound)
        own = _own_names(s)
        names, wanted = (*axes, *own), self._wanted(bound, axes)
        existing = wanted.intersect(self.grid.onto(names, self.grid.must_exist(bound.hardware)))
        unplaced = self._domain(s.id).subtract(projected(existing, names, own))
        if not unplaced.is_empty():
            real = self.grid.without_place(unplaced, own, wanted, names)
            if real is None:
                text = f"whether each instance of '{s.id}' has a thread is undecided"
                yield from self.mismatch("undecided", s.id, text)
            else:
                yield from self.mismatch("missing", s.id, f"an instance of '{s.id}' has no thread", real, own)
        axis = self.grid.misplaced(s.inames)
        if axis is not None:
            text = f"'{s.id}' has its inames on the axis '{axis}' in another way than in the kernel"
            yield from self.mismatch("undecided", s.id, text)
            return
        left = wanted
        for execution in executions:
            unknown = set(InstanceSet((), execution.condition).params).difference(
                self.kernel.value_params, execution.coordinates, data_params(self.kernel, s.domain))
            if unknown:
                yield from self.mismatch("undecided", s.id, f"'{s.id}' is in a loop whose bounds are read from "
                                    f"'{min(unknown)}', unlike its instances")
                continue
            relation = execution.relation([*map(p.Variable, axes), *execution.instance.values()])
            if not relation.is_injective():
                pairs = other_instance(relation.apply_range(relation.reverse()))
                yield from self.mismatch("twice", s.id, f"'{s.id}' executes an instance twice", pairs.domain(),
                                    execution.coordinates)
            run = relation.range()
            yield from self.mismatch("outside", s.id, f"'{s.id}' is executed outside of its instances",
                                      run.subtract(wanted), names)
            yield from self.mismatch("twice", s.id, f"'{s.id}' executes an instance in two places",
                                      run.intersect(wanted).subtract(left), names)
            left = left.subtract(run)
        left = left if left.is_empty() else self._meant(s, left, names)
        yield from self.mismatch("missing", s.id, f"'{s.id}' does not execute an instance", left, names)

    def _meant(self, s: Statement, points: Set, names: tuple[str, ...]) -> Set:
        """*points* without those at which a condition fails that is affine there, e.g. at one value of an iname."""
        found = InstanceSet(names, points)
        own = {x: p.Variable(_own_name(x)) for x in s.inames}
        for condition, holds in self._conditioned(s).conditions:
            condition = substitute(condition if holds else p.LogicalNot(condition), own)
            held = where_holds(found, condition, self.kernel.value_params.union(names))
            found = found if held is None else held
        return as_points(found.set)

    @kept_in_memo
    def _domain(self, statement: str) -> Set:
        """The instances at which the affine conditions of the statement hold."""
        s = self.kernel.statement_by_id[statement]
        return as_points(s.domain.intersect_params(self.kernel.assumptions).set).intersect(self._conditioned(s).points)

    def _conditioned(self, s: Statement) -> Execution:
        """The instances of *s* at which its affine conditions hold, and its other conditions."""
        instances = Execution(s.inames, universe_params(), self.kernel.value_params.union(s.inames), {})
        return reduce(Execution.under, (expand_rules(e, self.kernel.substitutions) for e in s.predicates), instances)

    def _where(self, condition: Expression, dims: tuple[str, ...]) -> Set | None:
        """The points at which *condition* holds; ``None``: it is not affine in *dims* and sizes."""
        known = variables(condition) <= self.kernel.value_params.union(dims)
        return if_affine(lambda: points_where(condition, dims)) if known else None

    def _axes(self, bound: BoundStatement) -> tuple[str, ...]:
        """The coordinates that distinguish executions of one instance: all that the box is not distributed over."""
        own = {axis for x in bound.hardware for axis in variables(self.launch.mapping.coordinates[x])}
        return tuple(c for axis, cs in self.grid.on_axis.items() for c in cs
                     if axis in own or not bound.auto or axis.startswith("g"))

    def _wanted(self, bound: BoundStatement, axes: tuple[str, ...]) -> Set:
        """The required places of each instance: *axes*, then inames."""
        s = bound.statement
        dims = (*axes, *_own_names(s))
        result = projected(self._domain(s.id), _own_names(s), dims)
        result = result.intersect(self.grid.onto(dims, self.grid.points))
        for x in bound.hardware:
            value = p.Variable(x) if x in axes else self.grid.values[x]
            result = result.intersect(points_where(p.Comparison(p.Variable(_own_name(x)), "==", value), dims))
        for axis in bound.alone_on:
            result = result.intersect(points_where(p.Comparison(p.Variable(axis), "==", bound.place_on(axis)), dims))
        return result.intersect(self._of_roles(bound, dims))

    def _of_roles(self, bound: BoundStatement, dims: tuple[str, ...]) -> Set:
        """The places of the consumers; of the producer thread too, if both roles run the statement."""
        axis, place = self.launch.producer or ("", 0)
        if axis not in dims or bound.producer is not None:
            return points_where(True, dims)
        consumers = points_where(p.Comparison(p.Variable(axis), "<", place), dims)
        return consumers if not bound.in_both_roles else reduce(Set.intersect, (
            points_where(p.Comparison(p.Variable(x), "==", place if x == axis else 0), dims)
            for x in self.grid.along("l") if x in dims)).union(consumers)

    # Places of values

    def _arrivals(self) -> Iterator[Mismatch]:
        """A value in private cells is computed by each thread that reads it, a value in shared cells in its block."""
        for d in dependences(self.kernel):
            ends = self.launch.statements.get(d.source), self.launch.statements.get(d.sink)
            if d.kind != "flow" or not d.of_value or ends[0] is None or ends[1] is None:
                continue
            space = self.storages[d.array].space
            copies = tuple(c for axis, cs in self.grid.on_axis.items() for c in cs
                           if space is AddressSpace.PRIVATE
                           or (space is not AddressSpace.GLOBAL and axis.startswith("g")))
            if not copies:
                continue
            needed = self._there(ends[1], copies).apply(
                subscript_relation(copies, tuple(map(p.Variable, copies))).flat_product(d.relation.reverse()))
            # bounds read from memory may have extended the domain
            own = _own_names(ends[0].statement)
            needed = needed.intersect(projected(self._domain(ends[0].statement.id), own, (*copies, *own))).intersect(
                self.grid.onto((*copies, *own), self.grid.points)).intersect(self._of_roles(ends[1], (*copies, *own)))
            yield from self.mismatch(
                "value", d.source, f"'{d.sink}' reads '{d.array}' where '{d.source}' does not run",
                needed.subtract(self._there(ends[0], copies)), (*copies, *own))

    def _there(self, bound: BoundStatement, copies: tuple[str, ...]) -> Set:
        """The instances run by each of *copies*, some of the grid's coordinates."""
        axes = self._axes(bound)
        own = _own_names(bound.statement)
        return projected(self._wanted(bound, axes), (*axes, *own), (*copies, *own))

    # Computed values

    def _own(self, execution: Execution, expr: Expression) -> Expression:
        """An expression of the statement at *execution*, in terms of the coordinates."""
        return substitute(in_storage(expr, self.storages), execution.instance)

    def _conditions(self, bound: BoundStatement, execution: Execution) -> Iterator[Mismatch]:
        """The conditions on data around it are the statement's own."""
        s = bound.statement
        own = [(self._own(execution, c), h) for c, h in self._conditioned(s).conditions]
        for condition, holds in execution.conditions:
            if not any(holds == h and self._difference(execution, condition, c) is None for c, h in own):
                yield from self.mismatch("missing", s.id, f"'{s.id}' runs only where {condition} "
                                    f"{'holds' if holds else 'does not hold'}, which is not its own condition")
        for c, h in own:
            # it has this truth at all of these instances, or the program evaluates it
            around = (h, *(condition for condition, holds in execution.conditions if holds == h))
            if not any(self._difference(execution, c, other) is None for other in around):
                text = f"'{s.id}' runs even if {c} {'does not hold' if h else 'holds'}"
                yield from self.mismatch("outside", s.id, text)

    def _elements(self, bound: BoundStatement, execution: Execution) -> Iterator[Mismatch]:
        s, node = bound.statement, execution.assign
        value, combine = expanded_expression(self.kernel, s), s.combine
        if combine is not None and not isinstance(operation := self.kernel.operation(combine), NumberOperation):
            value, combine = operation.apply(s.assignee, value), None
        if node.combine != combine:
            yield from self.mismatch("value", s.id, f"'{s.id}' combines by {node.combine} instead of {combine}")
        if (expected := instructions_of(s, node.target, node.value, self.storages)) != node.instructions:
            has, needs = (", ".join(title for i in own for title in i.titles) or "plain"
                          for own in (node.instructions, expected))
            yield from self.mismatch("value", s.id, f"'{s.id}' is {has} instead of {needs}")
        for kind, expr, own in (("element", node.target, s.assignee), ("value", node.value, value)):
            found = self._difference(execution, substitute(expr, execution.names), self._own(execution, own))
            if found is not None:
                here, wanted, points = found
                yield from self.mismatch(kind, s.id, f"'{s.id}' has {here} instead of {wanted}", points,
                                    execution.coordinates)

    def _difference(self, execution: Execution, a: Expression, b: Expression, points: Set | None = None,
                    types: tuple[Type | None, Type | None] | None = None) -> tuple[Expression, Expression, Set] | None:
        """The first parts in which two expressions differ, and the points; ``None`` if they are equal.

        The program may have the branch alone that is taken, or a choice by another condition that is decided alike.

        :arg points: the points to compare at; default: all of *execution*.
        :arg types: those of the choices of which *a* and *b* are branches; default: their own.
        """
        points = execution.points if points is None else points
        if a == b or points.is_empty():
            return None
        apart = self._apart(execution, a, b)
        if apart is not None:
            apart = points.intersect(apart)
            return None if apart.is_empty() else (a, b, apart)
        whole = (self._type(a), self._type(b)) if types is None else types
        parts: list[tuple[Expression, Expression, Set]] = []
        for choice, in_a in ((a, True), (b, False)):
            holds = self._where(choice.condition, execution.coordinates) if isinstance(choice, p.If) else None
            if isinstance(choice, p.If) and holds is not None:
                if whole[0] is None or whole[1] is None or whole[0] != whole[1]:
                    return a, b, points             # a branch would be converted in one of them alone
                parts = [(branch, b, where) if in_a else (a, branch, where) for branch, where in (
                    (choice.then, points.intersect(holds)), (choice.else_, points.subtract(holds)))]
                types = whole
                break
        else:
            if not alike(a, b):
                return a, b, points
            parts, types = [(x, y, points) for x, y in zip(children(a), children(b), strict=True)], None
        found = (self._difference(execution, *part, types) for part in parts)
        return next((f for f in found if f is not None), None)

    def _apart(self, execution: Execution, a: Expression, b: Expression) -> Set | None:
        """The points at which two forms, or two conditions, differ; ``None``: they are not affine."""
        if not isinstance(a, p.Comparison | p.LogicalNot | p.LogicalAnd | p.LogicalOr):
            return self._where(p.Comparison(a, "!=", b), execution.coordinates)
        first, second = (self._where(e, execution.coordinates) for e in (a, b))
        return None if first is None or second is None else first.subtract(second).union(second.subtract(first))

    def _type(self, expr: Expression) -> Type | None:
        types = index_types(self.kernel)
        return type_of(expr, lambda name: types.get(name, WEAK_INT))        # all other names are coordinates

    def _steps(self) -> Iterator[Mismatch]:
        """No access comes between the load of an old value and its update, and nothing else is one step."""
        nodes = [*nodes_in(self.function.body)]
        steps = [x.children for x in nodes if isinstance(x, OneStep)]
        whole = [children[0] for children in steps if is_one_step(children)]
        apart = [x.statement for x in nodes if isinstance(x, Assign) and operation_of_load(x) is not None
                 and not any(x is load for load in whole)]
        if apart or len(whole) < len(steps):
            yield from self.mismatch("step", "".join(apart[:1]), "an old value is loaded apart from its update")

    def _boxes(self) -> Iterator[Mismatch]:
        """Accesses outside an array whose shape in the program differs from its storage."""
        rings = {i.ring: i for x in self.places for i in x.sync.instructions if isinstance(i, StartPhases)}
        for name in sorted({a.name for a in self.function.arrays} - self.storages.keys()):
            array = next(a for a in self.function.arrays if a.name == name)
            if name not in rings or not array.shared or array.dtype != SLOT or array.shape != (rings[name].slots,):
                yield from self.mismatch("box", "", f"'{name}' is not the ring of phases that starts")
        others = [a for a in self.function.arrays if a.name in self.storages
                  and a.shape != self.storages[a.name].in_memory]
        for array, s in product(others, self.launch.statements):
            for e in self.executions.get(s, ()):
                elements = (x for expr in (e.assign.target, e.assign.value)
                            for x in elements_of(substitute(expr, e.names), (array.name,)))
                for i, extent in ((i, n) for x in elements for i, n in zip(x.index_tuple, array.shape, strict=True)):
                    outside = p.LogicalOr((p.Comparison(i, "<", 0), p.Comparison(i, ">=", extent)))
                    text = f"'{s}' accesses an element beyond the {extent} elements along an axis of '{array.name}'"
                    yield from self.mismatch("box", s, text, e.where(outside), e.coordinates)


def _own_name(iname: str) -> str:
    """The dimension of a statement's *iname*, distinct from a coordinate of the same name."""
    return f"'{iname}"


def _own_names(s: Statement) -> tuple[str, ...]:
    return tuple(map(_own_name, s.inames))
