"""The stage ``loops``: builds the loop program as a skeleton and its regions.

isl keeps the *set* of instances, not program points, so it may put a barrier under a condition that differs
between threads. Hence the skeleton of loops, barriers and opaque regions is built with the threads projected
out, and each region on its own, with the skeleton's loops as parameters. A part with parameters of its own
(unrolled loops, bounds read from memory, copies distributed over the block) is opaque in the same way.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import groupby

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import data_params, expanded_expression, integer_names
from loopkit.analysis.ranges import constant_range, iname_range, iname_span
from loopkit.ast.nodes import FULL_TILE, Assign, Block, Define, For, If, Node, Region, Sync
from loopkit.ast.walk import as_block
from loopkit.expr.mappers import subexpressions, substitute, variables
from loopkit.expr.nodes import NumberOperation
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import is_at_once, is_collective, is_unrolled
from loopkit.kernel.tree import (
    Barrier,
    Leaf,
    Loop,
    LoopPlace,
    Seq,
    Tree,
    has_barrier,
    leaves,
    loop_place,
    parts_of,
    seq,
)
from loopkit.lowering.binding import spread_over_threads
from loopkit.lowering.guards import VERSION, folded, full_tile_here, with_limited_conditions
from loopkit.lowering.lowered import BLOCK, BoundStatement, Launch
from loopkit.lowering.roles import in_roles, of_role
from loopkit.lowering.stored import Storage, in_storage, instructions_of
from loopkit.lowering.types import index_types
from loopkit.poly import codegen
from loopkit.poly.affine import subtract
from loopkit.poly.codegen import Builder, CodeLoop, CodeTree
from loopkit.poly.limits import affordable
from loopkit.poly.sets import InstanceSet, Set, at_most_one, params_of, plain_hull, range_condition, runs_first
from loopkit.poly.unions import in_plain_bounds, joined

#: The values of a leaf's inames that are not the variables of its loops.
Values = Mapping[str, Expression]


@dataclass(frozen=True)
class Level:
    """The place of a part of the program.

    :ivar known: names that may be in its bounds and guards.
    :ivar context: the conditions on them that hold.
    :ivar in_region: each thread runs the part, which has no barrier.
    :ivar bound: the loops outside of the tree that isl builds: parameters here.
    :ivar loops: the loops of that tree around the part.
    :ivar sides: its side of the condition of each split loop.
    :ivar statements: all statements of the innermost loop: threads reach a barrier whenever one of them may run.
    """

    known: frozenset[str]
    context: Set
    in_region: bool = False
    bound: tuple[str, ...] = ()
    loops: tuple[str, ...] = ()
    sides: tuple[tuple[bool, Set], ...] = ()
    statements: tuple[str, ...] = ()

    def inside(self, domain: InstanceSet) -> Level:
        """The level of a part that is built on its own, for one point of *domain*."""
        return replace(self.knowing(params_of(domain), *domain.inames), bound=(*self.bound, *domain.inames), loops=(),
                       sides=())

    def knowing(self, condition: Set, *names: str) -> Level:
        return replace(self, known=self.known.union(names), context=self.context.intersect(condition))

    def on_sides(self, points: InstanceSet) -> InstanceSet:
        """The *points* on the part's sides of the conditions of split loops."""
        for is_full, condition in self.sides:
            tile = InstanceSet((), condition)
            points = points.intersect(tile) if is_full else points.subtract(tile)
        return points


#: A leaf of the tree that isl gets: its points, and a function that makes its node.
Part = tuple[InstanceSet, Callable[[Values], Node]]


@dataclass(frozen=True)
class Coder:
    """Builds the program of one launch.

    :ivar split: for a loop, the condition under which its tile is full (see guards).
    :ivar in_place: parts with a tile's loops only get a version for full tiles in their place.
    """

    launch: Launch
    storages: Mapping[str, Storage]
    split: Mapping[LoopPlace, Set] = field(default_factory=dict)
    in_place: bool = False

    @property
    def kernel(self) -> LoopKernel:
        return self.launch.kernel

    # The two levels

    def skeleton(self, level: Level) -> Block:
        """The whole launch: loops with barriers outside, regions inside."""
        return self.of_one_role(level) if self.launch.producer is None else self._by_role(level)

    def of_one_role(self, level: Level) -> Block:
        """The whole launch, or the part of a role."""
        if not has_barrier(self.launch.tree):
            return Block((self._region(self.launch.tree, level),))
        return self._build(self.launch.tree, level)

    def _by_role(self, level: Level) -> Block:
        """The whole launch: the start of its rings, then each role by itself."""
        assert self.launch.producer is not None
        (axis, place), children = self.launch.producer, parts_of(self.launch.tree)
        start, end = ([Sync(node.serves, node.scope, node.instructions) for node in own
                       if isinstance(node, Barrier) and node.outside] for own in (children[:1], children[1:]))
        tree = seq(*(node for node in children if not (isinstance(node, Barrier) and node.outside)))
        domain = self._domain(tuple(leaves(tree)), level)

        def role(condition: Set, *, producer: bool) -> Block:
            own = replace(self.launch, tree=of_role(self.launch, tree, producer=producer), statements={
                s: b for s, b in self.launch.statements.items() if self.launch.in_role(s, producer=producer)})
            coder, inside = replace(self, launch=own), level.inside(domain).knowing(condition, axis)
            return as_block(generated(self.kernel, "P0", {"P0": domain}, level.context,
                                      lambda _, values: with_values(coder.of_one_role(inside), values)))
        producers = role(range_condition(axis, place, place), producer=True)
        consumers = role(range_condition(axis, 0, place - 1), producer=False)
        return in_roles(self.launch, start, producers, consumers, end)

    def _region(self, tree: Tree, level: Level) -> Region:
        """Code without barriers, run by each thread."""
        mapping = self.launch.mapping
        inside = replace(level, in_region=True)
        for x in (x for x in mapping.coordinates if x in mapping.thread_inames):
            inside = inside.knowing(condition_along_axis(self.launch, x), x)
        for axis in (axis for axis in BLOCK if axis in mapping.extents):
            extent = mapping.extents[axis]
            last = (extent - 1,) if isinstance(extent, int) else ()
            inside = inside.knowing(range_condition(axis, 0, *last), axis)
        leaf = self._collective_leaf(tree)
        return Region(self._build(tree, inside), None if leaf is None else leaf.instruction)

    def _collective_leaf(self, tree: Tree) -> Leaf | None:
        """The statement of *tree* that an instruction executes, alone or with the nest of loops around it."""
        body = tree
        while isinstance(body, Loop) and (is_collective(tag := self.kernel.tags.get(body.iname)) or is_at_once(tag)):
            body = body.body
        if not isinstance(body, Leaf) or body.instruction is None:
            return None
        # any other instruction executes one iteration at a time, inside of the loops
        return body if body is tree or body.instruction.executes_loops else None

    def _opaque(self, tree: Tree, level: Level) -> Callable[[Level], Node] | None:
        """A function that builds *tree* on its own, for one point of the loops around it; ``None``: isl builds it."""
        if data := self._bounds_from_memory(tree, level):
            return lambda inside: self._build(tree, replace(inside, known=inside.known.union(data)))
        if isinstance(tree, Barrier):
            return lambda _: Sync(tree.serves, tree.scope, tree.instructions, tree.threads)
        if not level.in_region and (isinstance(tree, Leaf) or not has_barrier(tree) or self._collective_leaf(tree)):
            return partial(self._region, tree)

        def in_versions(build: Callable[[Level], Node]) -> Callable[[Level], Node]:
            return partial(self._in_versions, tuple(leaves(tree)), build)

        def spread(bound: BoundStatement, statement: Callable[[Set], Node]) -> Callable[[Level], Node]:
            return in_versions(lambda inside: spread_over_threads(self.launch, bound, inside.context, statement))
        match tree:
            case Leaf(statement) if (bound := self.launch.statements[statement]).auto:
                return spread(bound, partial(self._guarded_statement, bound))
            case Loop(iname) if level.in_region and (around := self._spread_in(tree)) is not None:
                return spread(around, partial(self._vector_of, around, iname))
            case Loop() if level.in_region and (nest := self._unrolled_nest(tree)):
                return in_versions(partial(self._unrolled, nest))
            case Loop() if self._is_cut_off(tree, level):
                return partial(self._unrolled, (tree,))
            case _:
                return None

    # One level: a tree to code, through isl

    def _build(self, tree: Tree, level: Level) -> Block:
        parts: dict[str, Part] = {}
        code = self._code_tree(tree, replace(level, statements=tuple(leaves(tree))), parts)
        return as_block(generated(self.kernel, code, {name: domain for name, (domain, _) in parts.items()},
                                  level.context, lambda name, values: parts[name][1](values)))

    def _code_tree(self, tree: Tree, level: Level, parts: dict[str, Part]) -> CodeTree:
        """*tree* with its leaves named and recorded in *parts*."""
        build = self._opaque(tree, level)
        if build is not None:
            domain = self._domain(self._within(tree) or level.statements, level)
            # a part has its own guards, but none for the side of a split; waits and arrivals have none
            if not level.sides and not (isinstance(tree, Barrier) and tree.instructions):
                domain = domain.named(in_plain_bounds(domain.set, level.context))
            name = f"P{len(parts)}"
            parts[name] = domain, lambda values: with_values(build(level.inside(domain)), values)
            return name
        assert not isinstance(tree, Barrier)
        match tree:
            case Loop(iname, body):
                inside = replace(level, loops=(*level.loops, iname), statements=tuple(leaves(body)))
                return tuple(CodeLoop(iname, self._code_tree(own, side, parts))
                             for own, side in self._sides(tree, inside))
            case Seq(children):
                def group(child: Tree) -> int:
                    return id(self.launch.statements[child.statement].domain
                              if isinstance(child, Leaf) and self._opaque(child, level) is None else child)
                # neighbouring statements with one instance set are one leaf for isl; a region holds all it can
                together = children if level.in_region else tuple(runs_between_barriers(children))
                groups = [tuple(own) for _, own in groupby(together, group)]
                return tuple(self._code_tree(own[0], level, parts) if len(own) == 1 else
                             self._statements(tuple(leaves(Seq(own))), level, parts) for own in groups)
            case Leaf(statement):
                return self._statements((statement,), level, parts)

    def _sides(self, loop: Loop, inside: Level) -> list[tuple[Tree, Level]]:
        """The body of *loop*, once for full tiles and once for the others where the condition splits the loop."""
        condition = self.split.get(loop_place(loop))
        if condition is not None:
            full, rest = (replace(inside, sides=(*inside.sides, (side, condition))) for side in (True, False))
            remainder = self._domain(inside.statements, rest)
            if runs_first(self._domain(inside.statements, full), remainder, loop.iname):
                last = _once(loop.body) if at_most_one(remainder, loop.iname) else loop.body
                return [(loop.body, full), (last, rest)]
        return [(loop.body, inside)]

    def _statements(self, statements: tuple[str, ...], level: Level, parts: dict[str, Part]) -> str:
        def emit(values: Values) -> Node:
            # numbers are substituted, other values become named constants
            numbers = values if all(isinstance(v, int) for v in values.values()) else {}
            node = Block(tuple(self._assignment(self.launch.statements[s], numbers, level) for s in statements))
            return node if numbers else with_values(node, values)
        name = f"P{len(parts)}"
        parts[name] = self._domain(statements, level), emit
        return name

    def _domain(self, statements: tuple[str, ...], level: Level) -> InstanceSet:
        """The points of the loops around *level* at which one of *statements* runs for some thread."""
        def points(domain: InstanceSet) -> InstanceSet:
            known = domain.bound(level.bound).onto(level.loops)
            unknown = [x for x in known.params if x not in level.known]
            return known.without_params(unknown) if unknown else known
        domains = {id(domain): domain for domain in (self.launch.statements[s].domain for s in statements)}
        return level.on_sides(joined([*map(points, domains.values())]))

    # Special parts

    def _in_versions(self, statements: tuple[str, ...], build: Callable[[Level], Node], level: Level) -> Node:
        """The result of *build*, in place with a version for full tiles if such versions are wanted."""
        if not self.in_place:
            return build(level)
        return in_versions(level, lambda: (full_tile_here(self.launch, statements, level.known), build), build)

    def _unrolled_nest(self, tree: Tree) -> tuple[Loop, ...]:
        """The unrolled loops at the top of *tree*, outermost first."""
        loops: list[Loop] = []
        while isinstance(tree, Loop) and is_unrolled(self.kernel.tags.get(tree.iname)) and not self._spread_in(tree):
            if loops and isinstance(tree.body, Leaf) and self.launch.statements[tree.body.statement].partial:
                break
            loops.append(tree)
            tree = tree.body
        return tuple(loops)

    def _unrolled(self, nest: tuple[Loop, ...], level: Level) -> Node:
        """Loops of constant trip count; a guard inside excludes points outside of the domain."""
        ranges = {loop.iname: self._constant_range(loop.iname, tuple(leaves(loop))) for loop in nest}
        inner = replace(level, bound=(*level.bound, *ranges))
        for x, own in ranges.items():
            inner = inner.knowing(range_condition(x, *own), x)
        loops = {x: own for x, own in ranges.items() if not is_at_once(self.kernel.tags.get(x))}
        body = with_limited_conditions(self._build(nest[-1].body, inner), loops, inner.context, self._is_of_threads)
        return reduce(lambda body, x: _unrolled_loop(x, ranges[x], body), reversed(ranges), body)

    def _is_cut_off(self, loop: Loop, level: Level) -> bool:
        """Does an unrolled *loop* around barriers have fewer iterations in partial tiles? It then has guards inside."""
        if level.in_region or not is_unrolled(self.kernel.tags.get(loop.iname)):
            return False
        statements = tuple(leaves(loop))
        low, high = self._constant_range(loop.iname, statements)
        inside = replace(level, bound=(*level.bound, *level.loops), loops=(loop.iname,))
        points = self._domain(statements, inside)
        return not all(level.context.is_subset(params_of(points.where(("==", subtract(p.Variable(loop.iname), end)))))
                       for end in (low, high))

    def _is_of_threads(self, condition: Expression) -> bool:
        """Does *condition* depend on the thread, and not on a parameter?"""
        names = variables(condition) if isinstance(condition, p.Comparison) else frozenset()
        return self.kernel.value_params.isdisjoint(names) and not names.isdisjoint(self.launch.mapping.thread_names)

    def _spread_in(self, loop: Loop) -> BoundStatement | None:
        """The statement in a ``vec`` loop that is distributed over the threads: its rounds are around the loop."""
        if isinstance(loop.body, Leaf) and is_at_once(self.kernel.tags.get(loop.iname)):
            bound = self.launch.statements[loop.body.statement]
            return bound if bound.auto else None
        return None

    def _vector_of(self, bound: BoundStatement, iname: str, context: Set) -> Node:
        """One vector of a statement whose other inames are all parameters."""
        own = self._constant_range(iname, (bound.statement.id,))
        inside = context.intersect(range_condition(iname, *own))
        return _unrolled_loop(iname, own, self._guarded_statement(bound, inside))

    def _constant_range(self, iname: str, statements: tuple[str, ...]) -> tuple[int, int]:
        domains = [self.launch.statements[s].domain for s in statements]
        lows, highs = zip(*(constant_range(self.kernel, domain, iname) for domain in domains), strict=True)
        return min(lows), max(highs)

    def _within(self, tree: Tree) -> tuple[str, ...]:
        """The statements in *tree*, or those with which it runs."""
        return tuple(leaves(tree)) if not isinstance(tree, Barrier) else tuple(
            s for s in tree.runs_with if s in self.launch.statements)

    def _bounds_from_memory(self, tree: Tree, level: Level) -> tuple[str, ...]:
        """Temporaries that bound the statements in *tree* and that are known before it, but not to *level*."""
        if isinstance(tree, Seq):
            return ()
        inside = [self.launch.statements[s].statement for s in self._within(tree)]
        known = level.known.union(s.written for s in inside)
        return tuple(dict.fromkeys(x for s in inside for x in data_params(self.kernel, s.domain) if x not in known))

    # Statements

    def _guarded_statement(self, bound: BoundStatement, context: Set) -> Node:
        """A statement whose inames are all parameters, under the part of its domain that *context* does not imply."""
        name, points = bound.statement.id, InstanceSet((), params_of(bound.domain))
        return generated(self.kernel, name, {name: points}, context,
                         lambda _, values: self._assignment(bound, values, Level(frozenset(), context)))

    def _assignment(self, bound: BoundStatement, values: Values, level: Level) -> Node:
        s = bound.statement

        def placed(expr: Expression) -> Expression:
            # the cells first: their leading subscripts mention the loops that *values* may replace
            cells = in_storage(expr, self.storages)
            return substitute(cells, values) if values else cells
        target = placed(s.assignee)
        assert isinstance(target, p.Variable | p.Subscript)
        value, combine = placed(self._value(bound, level)), s.combine
        if combine is not None and not isinstance(self.kernel.operation(combine), NumberOperation):
            # a user's operation and one on tuples are ordinary expressions
            value, combine = self.kernel.operation(combine).apply(target, value), None
        instance = tuple((x, values.get(x, p.Variable(x))) for x in s.inames)
        node: Node = Assign(target, value, combine, s.id, instance, instructions_of(s, target, value, self.storages))
        for predicate in reversed(s.predicates):
            node = If(placed(predicate), Block((node,)))
        return node

    def _value(self, bound: BoundStatement, level: Level) -> Expression:
        """The statement's expression, without conditions that have one truth value at this place of the text."""
        expression = expanded_expression(self.kernel, bound.statement)
        if not any(isinstance(e, p.If) for e in subexpressions(expression)):
            return expression
        here = level.on_sides(InstanceSet((), params_of(bound.domain).intersect(level.context)))
        points = InstanceSet((), here.set.from_params())
        names, types = integer_names(self.kernel, bound.statement), index_types(self.kernel)
        return affordable(lambda: folded(expression, points, names, types), otherwise=expression)


def in_versions(level: Level, full: Callable[[], tuple[Set, Callable[[Level], Node]]],
                general: Callable[[Level], Node]) -> Node:
    """The result of *general*, beside a version for full tiles: *full* gives its condition and builds it."""
    def for_full_tiles() -> tuple[Expression | None, Node] | None:
        condition, build = full()
        if condition.intersect(level.context).is_empty():
            return None
        return codegen.condition_expression(condition, level.context), build(level.knowing(condition))
    found = affordable(for_full_tiles, otherwise=None, budget=VERSION)
    if found is None:
        return general(level)
    test, node = found
    return node if test is None else If(test, as_block(node), as_block(general(level)), FULL_TILE)


def runs_between_barriers(children: Sequence[Tree]) -> Iterator[Tree]:
    """*children* with the runs between barriers joined."""
    for divided, run in groupby(children, has_barrier):
        if divided:
            yield from run
        else:
            yield seq(*run)


def _once(body: Tree) -> Tree:
    """The body of a loop of one iteration, without its last barrier: no later iteration needs it."""
    match body:
        case Seq((*others, Barrier() as last)) if last.left_out_last:
            return seq(*others)
        case _:
            return body


def _unrolled_loop(iname: str, values: tuple[int, int], body: Node) -> Block:
    return Block((For(iname, values[0], values[1] + 1, 1, as_block(body), unroll=True),))


def condition_along_axis(launch: Launch, iname: str) -> Set:
    """The known condition on the values that *iname* has at the places of its axis."""
    knl, ranges = launch.kernel, launch.mapping.ranges
    if iname in ranges:
        own = ranges[iname]
        return range_condition(iname, *own) if own is not None else \
            params_of(InstanceSet((iname,), plain_hull(iname_span(knl, iname).set)))
    low = iname_range(knl, iname)[0]
    return range_condition(iname, low) if isinstance(low, int) else knl.assumptions


# Isl's program as nodes

def generated(knl: LoopKernel, tree: CodeTree, domains: Mapping[str, InstanceSet], context: Set,
              leaf: Callable[[str, Values], Node], *, on_host: bool = False) -> Node:
    """isl's program for the points of *domains* in the order of *tree*; *leaf* makes the node of a leaf."""
    def loop(iname: str, start: Expression, stop: Expression, step: int, body: Sequence[Node]) -> Node:
        constant = isinstance(start, int) and isinstance(stop, int)
        unroll = constant and not on_host and is_unrolled(knl.tags.get(iname))
        return For(iname, start, stop, step, as_block(_in_order(body)), unroll)

    def branch(condition: Expression, then: Sequence[Node], otherwise: Sequence[Node]) -> Node:
        return If(condition, as_block(_in_order(then)), as_block(_in_order(otherwise)) if otherwise else None)
    return _in_order(codegen.generate(tree, domains, context, knl.fresh_name, Builder(loop, branch, leaf)))


def _in_order(nodes: Sequence[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else Block(tuple(nodes))


def with_values(node: Node, values: Values) -> Node:
    """*node* with *values*, of loops that isl reduced to one iteration, as named constants."""
    return Block((*(Define(x, value) for x, value in values.items()), node)) if values else node
