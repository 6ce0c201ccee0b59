"""The stage ``loops``: the loop program, in two levels.

isl keeps the *set* of instances, not program points, so a barrier could end under a condition that differs
between threads. Hence the skeleton of loops, barriers and opaque regions is built with the threads projected
out, and each region on its own, with the skeleton's loops as parameters. A part with parameters of its own
(unrolled loops, bounds read from memory, copies distributed over the block) is opaque in the same way.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial, reduce

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import data_params, expanded_expression, integer_names, origin
from loopkit.analysis.ranges import constant_range
from loopkit.ast.nodes import Assign, Block, Define, For, If, Node, Region, Sync
from loopkit.ast.unroll import marked_for_unrolling
from loopkit.ast.walk import as_block
from loopkit.errors import ScheduleError
from loopkit.expr.mappers import substitute, variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import VecTag, is_unrolled
from loopkit.kernel.tree import Barrier, Leaf, Loop, LoopPlace, Seq, Tree, has_barrier, leaves, loop_place, seq
from loopkit.lowering.fetch import spread_over_threads
from loopkit.lowering.full_tiles import VERSION, full_tile_here
from loopkit.lowering.guard_folding import folded, has_branches, with_limited_conditions
from loopkit.lowering.lowered import BLOCK, BoundStatement, Launch, Storage, in_storage, instructions_of
from loopkit.lowering.types import index_types
from loopkit.poly import codegen
from loopkit.poly.codegen import BlockNode, CallNode, CodeLoop, CodeSeq, CodeTree, ForNode, IfNode
from loopkit.poly.limits import affordable
from loopkit.poly.sets import InstanceSet, Set, at_most_one, in_plain_bounds, params_of, range_condition, runs_first


@dataclass(frozen=True)
class Level:
    """The context in which a part of the program is built.

    :ivar known: names that may stand in its bounds and guards.
    :ivar context: the conditions on them that hold.
    :ivar bound: the loops outside of this part, which are parameters here.
    """

    known: frozenset[str]
    context: Set
    bound: tuple[str, ...] = ()

    def inside(self, domain: InstanceSet, *also_known: str) -> Level:
        """The level of a part that runs at one point of *domain*."""
        return Level(self.known | set(domain.inames) | set(also_known),
                     self.context.intersect(params_of(domain)), (*self.bound, *domain.inames))

    def knowing(self, condition: Set, *names: str) -> Level:
        return replace(self, known=self.known | set(names), context=self.context.intersect(condition))


@dataclass(frozen=True)
class Coder:
    """Builds the program of one launch.

    :ivar split: for a loop, the condition under which its tile is full (see full_tiles).
    :ivar in_place: parts with a tile's loops only get a version for full tiles in their place.
    """

    launch: Launch
    storages: Mapping[str, Storage]
    split: Mapping[LoopPlace, Set] = field(default_factory=dict)
    in_place: bool = False

    @property
    def kernel(self) -> LoopKernel:
        return self.launch.kernel

    # {{{ the two levels

    def skeleton(self, level: Level) -> Block:
        """The whole launch: loops with barriers outside, regions inside."""
        if not has_barrier(self.launch.tree):
            return Block((Region(self.region(self.launch.tree, level)),))
        unrolled = frozenset(x for x, tag in self.kernel.tags.items() if is_unrolled(tag))
        return marked_for_unrolling(self._build(self.launch.tree, level, self._skeleton_leaf), unrolled)

    def region(self, tree: Tree, level: Level) -> Block:
        """Code without barriers, run by each thread."""
        threads = [*self.launch.ranges, *(axis for axis in BLOCK if axis in self.launch.extents)]
        context = level.context
        for x, (low, high) in self.launch.ranges.items():
            context = context.intersect(range_condition(x, low, high))
        for axis in BLOCK:
            extent = self.launch.extents.get(axis)
            if isinstance(extent, int):
                context = context.intersect(range_condition(axis, 0, extent - 1))
        return self._build(tree, level.knowing(context, *threads), self._region_leaf)

    def _skeleton_leaf(self, tree: Tree, level: Level) -> _Opaque | None:
        if isinstance(tree, Barrier):
            return _Opaque((), lambda _domain: Sync(tree.serves, tree.scope, tree.instructions))
        if isinstance(tree, Leaf) or not has_barrier(tree):
            own = tree.instruction if isinstance(tree, Leaf) else None
            return _Opaque(tuple(leaves(tree)), lambda domain: Region(self.region(tree, level.inside(domain)),
                                                                      own))
        return None

    def _region_leaf(self, tree: Tree, level: Level) -> _Opaque | None:
        own = tuple(leaves(tree))

        def in_versions(build: Callable[[Level], Node]) -> _Opaque:
            return _Opaque(own, lambda domain: self._in_versions(own, level.inside(domain), build))

        def spread(bound: BoundStatement, statement: Callable[[Set], Node]) -> _Opaque:
            return in_versions(lambda inside: spread_over_threads(self.launch, bound, inside.context, statement))
        match tree:
            case Leaf(statement) if (bound := self.launch.statements[statement]).auto:
                return spread(bound, partial(self._guarded_statement, bound))
            case Loop(iname):
                around = self._spread_in(tree)
                if around is not None:
                    return spread(around, partial(self._vector_of, around, iname))
                unrolled = self._unrolled_nest(tree)
                if unrolled:
                    return in_versions(lambda inside: self._unrolled(tree, unrolled, inside))
                data = self._bounds_from_memory(tree, level)
                if data:
                    return _Opaque(own, lambda domain: self._build(tree, level.inside(domain, *data),
                                                                   self._region_leaf))
            case _:
                pass
        return None

    # }}}

    # {{{ one level: a tree to code, through isl

    def _build(self, tree: Tree, level: Level, opaque: Specials) -> Block:
        parts: dict[str, _Part] = {}
        code = self._code_tree(tree, level, opaque, _Scope(statements=tuple(leaves(tree))), parts)
        domains = {name: part.domain for name, part in parts.items()}
        return as_block(converted(codegen.generate(code, domains, level.context, self.kernel.fresh_name),
                                   lambda call: parts[call.leaf].emit(call.values)))

    def _code_tree(self, tree: Tree, level: Level, opaque: Specials, scope: _Scope,
                   parts: dict[str, _Part]) -> CodeTree:
        """*tree* with its leaves named and recorded in *parts*."""
        special = opaque(tree, level)
        if special is not None:
            name = f"P{len(parts)}"
            domain = self._domain(special.statements or scope.statements, level, scope)
            if not scope.where:             # the part has its own guards, but none for the side of a split
                domain = domain.named(in_plain_bounds(domain.set, level.context))
            parts[name] = _Part(domain, lambda values: with_values(special.emit(domain), domain.inames, values))
            return name
        match tree:
            case Loop(iname, body):
                self._require_uniform(tree, level, opaque)
                inside = replace(scope, loops=(*scope.loops, iname), statements=tuple(leaves(body)))

                def loop(body: Tree, scope: _Scope) -> CodeLoop:
                    return CodeLoop(iname, self._code_tree(body, level, opaque, scope, parts))
                condition = self.split.get(loop_place(tree))
                if condition is None:
                    return loop(body, inside)
                whole, rest = (replace(inside, where=(*scope.where, (side, condition))) for side in (True, False))
                remainder = self._domain(rest.statements, level, rest)
                if not runs_first(self._domain(whole.statements, level, whole), remainder, iname):
                    return loop(body, inside)
                return CodeSeq((loop(body, whole), loop(_once(body) if at_most_one(remainder, iname) else body, rest)))
            case Seq(children):
                codes = [self._statements_part(c, level, scope, parts) if isinstance(c, tuple)
                         else self._code_tree(c, level, opaque, scope, parts)
                         for c in self._grouped(children, level, opaque)]
                return codes[0] if len(codes) == 1 else CodeSeq(tuple(codes))
            case Leaf(statement):
                return self._statements_part((statement,), level, scope, parts)
            case _:
                raise AssertionError(tree)

    def _require_uniform(self, loop: Loop, level: Level, opaque: Specials) -> None:
        """:raises ScheduleError: a loop with a barrier inside, whose bounds are read from memory."""
        if opaque == self._skeleton_leaf and (data := self._bounds_from_memory(loop, level)):
            raise ScheduleError(
                f"A barrier is needed inside the loop over '{loop.iname}', but its bounds ({', '.join(data)}) are "
                f"{origin(self.kernel, data)} and may differ between threads.", subject=loop.iname,
                hint="keep the values that cross threads out of this loop, or bound it by a size parameter")

    def _statements_part(self, statements: tuple[str, ...], level: Level, scope: _Scope,
                         parts: dict[str, _Part]) -> str:
        name = f"P{len(parts)}"
        domain = self._domain(statements[:1], level, scope)

        def emit(values: Mapping[str, Expression]) -> Node:
            return Block(tuple(self._assignment(self.launch.statements[s], values, level.context, scope.where)
                               for s in statements))
        parts[name] = _Part(domain, lambda values: with_values_substituted(emit, domain.inames, values))
        return name

    def _grouped(self, children: tuple[Tree, ...], level: Level, opaque: Specials) -> list[Tree | tuple[str, ...]]:
        """Neighbouring statements with one instance set are one leaf for isl; a region holds all it can."""
        if opaque == self._skeleton_leaf:
            return list(runs_between_barriers(children))
        result: list[Tree | tuple[str, ...]] = []
        bound = self.launch.statements
        for child in children:
            last = result[-1] if result else None
            if not isinstance(child, Leaf) or opaque(child, level) is not None:
                result.append(child)
            elif isinstance(last, tuple) and bound[last[0]].domain is bound[child.statement].domain:
                result[-1] = (*last, child.statement)
            else:
                result.append((child.statement,))
        return result

    def _domain(self, statements: tuple[str, ...], level: Level, scope: _Scope) -> InstanceSet:
        """The points of the surrounding loops at which one of *statements* runs for some thread."""
        def points(domain: InstanceSet) -> InstanceSet:
            known = domain.bound(level.bound).onto(scope.loops)
            unknown = [x for x in known.params if x not in level.known]
            return known.without_params(unknown) if unknown else known
        domains = {id(domain): domain for domain in (self.launch.statements[s].domain for s in statements)}
        return _on_side(reduce(InstanceSet.union, map(points, domains.values())), scope.where)

    # }}}

    # {{{ special parts

    def _in_versions(self, statements: tuple[str, ...], level: Level, build: Callable[[Level], Node]) -> Node:
        """The result of *build* for a part with a tile's loops only, beside a version for full tiles if there is one.
        """
        def in_full_tiles() -> tuple[Expression | None, Node] | None:
            condition = full_tile_here(self.launch, statements, level.known)
            if condition is None or condition.intersect(level.context).is_empty():
                return None
            test = codegen.condition_expression(condition, level.context)
            return test, build(level.knowing(condition))
        found = affordable(in_full_tiles, otherwise=None, budget=VERSION) if self.in_place else None
        if found is None:
            return build(level)
        test, full = found
        return full if test is None else If(test, as_block(full), as_block(build(level)), "a full tile")

    def _unrolled_nest(self, tree: Tree) -> tuple[str, ...]:
        """The inames of the unrolled loops at the top of *tree*."""
        inames: list[str] = []
        while isinstance(tree, Loop) and is_unrolled(self.kernel.tags.get(tree.iname)) and not self._spread_in(tree):
            if inames and isinstance(tree.body, Leaf) and self.launch.statements[tree.body.statement].partial:
                break
            inames.append(tree.iname)
            tree = tree.body
        return tuple(inames)

    def _unrolled(self, tree: Tree, inames: tuple[str, ...], level: Level) -> Node:
        """Loops of constant trip count; a guard inside excludes points outside of the domain."""
        ranges: dict[str, tuple[int, int]] = {}
        inner = replace(level, bound=(*level.bound, *inames))
        for x in inames:
            assert isinstance(tree, Loop)
            ranges[x] = self._constant_range(x, tuple(leaves(tree)))
            inner = inner.knowing(range_condition(x, *ranges[x]), x)
            tree = tree.body
        loops = {x: own for x, own in ranges.items() if not isinstance(self.kernel.tags.get(x), VecTag)}
        body = with_limited_conditions(self._build(tree, inner, self._region_leaf), loops, inner.context,
                                       self._is_of_threads)
        for x in reversed(inames):
            low, high = ranges[x]
            body = Block((For(x, low, high + 1, 1, body, unroll=True),))
        return body

    def _is_of_threads(self, condition: Expression) -> bool:
        """Does *condition* depend on the thread, and not on a parameter?"""
        names = variables(condition) if isinstance(condition, p.Comparison) else frozenset()
        return self.kernel.value_params.isdisjoint(names) and not names.isdisjoint({*self.launch.ranges, *BLOCK})

    def _spread_in(self, loop: Loop) -> BoundStatement | None:
        """The statement in a ``vec`` loop that is distributed over the threads: its rounds are around the loop."""
        match loop.body:
            case Leaf(statement) if isinstance(self.kernel.tags.get(loop.iname), VecTag):
                bound = self.launch.statements[statement]
                return bound if bound.auto else None
            case _:
                return None

    def _vector_of(self, bound: BoundStatement, iname: str, context: Set) -> Node:
        """One vector of a statement whose other inames are all parameters."""
        low, high = self._constant_range(iname, (bound.statement.id,))
        body = self._guarded_statement(bound, context.intersect(range_condition(iname, low, high)))
        return Block((For(iname, low, high + 1, 1, as_block(body), unroll=True),))

    def _constant_range(self, iname: str, statements: tuple[str, ...]) -> tuple[int, int]:
        domains = [self.launch.statements[s].domain for s in statements]
        lows, highs = zip(*(constant_range(self.kernel, domain, iname) for domain in domains), strict=True)
        return min(lows), max(highs)

    def _bounds_from_memory(self, loop: Loop, level: Level) -> tuple[str, ...]:
        """Temporaries that bound the statements in *loop* and are not known outside of it."""
        inside = [self.launch.statements[s].statement for s in leaves(loop)]
        found = dict.fromkeys(x for s in inside for x in data_params(self.kernel, s.domain) if x not in level.known)
        return () if found.keys() & {s.written for s in inside} else tuple(found)

    # }}}

    # {{{ statements

    def _guarded_statement(self, bound: BoundStatement, context: Set) -> Node:
        """A statement whose inames are all parameters, under the part of its domain that *context* does not imply."""
        everything = bound.domain.bound(bound.domain.inames)
        node = codegen.guarded(params_of(everything), context, CallNode("", ()))
        return converted(node, lambda _call: self._assignment(bound, {}, context))

    def _assignment(self, bound: BoundStatement, values: Mapping[str, Expression], context: Set,
                    where: tuple[tuple[bool, Set], ...] = ()) -> Node:
        s = bound.statement

        def placed(expr: Expression) -> Expression:
            # the cells first: their leading subscripts mention the loops that *values* may replace
            cells = in_storage(expr, self.storages)
            return substitute(cells, values) if values else cells
        target = placed(s.assignee)
        assert isinstance(target, p.Variable | p.Subscript)
        value, combine = placed(self._value(bound, context, where)), s.combine
        if combine is not None and combine in self.kernel.operations:
            # a user's operation is an ordinary expression
            value, combine = self.kernel.operations[combine].apply(target, value), None
        instance = tuple((x, values.get(x, p.Variable(x))) for x in s.inames)
        node: Node = Assign(target, value, combine, s.id, instance, instructions_of(s, target, value, self.storages))
        for predicate in reversed(s.predicates):
            node = If(placed(predicate), Block((node,)))
        return node

    def _value(self, bound: BoundStatement, context: Set, where: tuple[tuple[bool, Set], ...]) -> Expression:
        """The statement's expression, without conditions that have one truth value at this place of the text."""
        expression = expanded_expression(self.kernel, bound.statement)
        if not has_branches(expression):
            return expression
        everything = _on_side(InstanceSet((), params_of(bound.domain).intersect(context)), where)
        points = InstanceSet((), everything.set.from_params())
        names, types = integer_names(self.kernel, bound.statement), index_types(self.kernel)
        return affordable(lambda: folded(expression, points, names, types), otherwise=expression)

    # }}}


# {{{ parts

@dataclass(frozen=True)
class _Scope:
    """The place of a part in the tree of one level.

    :ivar loops: the loops of this level around it.
    :ivar where: its side of the condition of a split loop.
    :ivar statements: all statements of the innermost loop: threads reach a barrier whenever one of them may run.
    """

    loops: tuple[str, ...] = ()
    where: tuple[tuple[bool, Set], ...] = ()
    statements: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Opaque:
    """A subtree that is built on its own, once for each point of its domain."""

    statements: tuple[str, ...]
    emit: Callable[[InstanceSet], Node]


@dataclass(frozen=True)
class _Part:
    """A leaf of the tree that isl gets."""

    domain: InstanceSet
    emit: Callable[[tuple[Expression, ...]], Node]


def _on_side(points: InstanceSet, where: tuple[tuple[bool, Set], ...]) -> InstanceSet:
    """The *points* on the given sides of conditions."""
    for whole, condition in where:
        tile = InstanceSet((), condition)
        points = points.intersect(tile) if whole else points.subtract(tile)
    return points


def _once(body: Tree) -> Tree:
    """The body of a loop of one iteration, without its last barrier: no later iteration needs it."""
    match body:
        case Seq((*others, Barrier() as last)) if last.left_out_last:
            return seq(*others)
        case _:
            return body


def runs_between_barriers(children: tuple[Tree, ...]) -> Iterator[Tree]:
    """*children* with the runs between barriers joined."""
    run: list[Tree] = []
    for child in children:
        if has_barrier(child):
            if run:
                yield seq(*run)
                run = []
            yield child
        else:
            run.append(child)
    if run:
        yield seq(*run)

# }}}


Specials = Callable[[Tree, Level], _Opaque | None]


# {{{ isl's program as nodes

def with_values(node: Node, inames: tuple[str, ...], values: tuple[Expression, ...]) -> Node:
    """*node* with loops that isl reduced to one iteration replaced by named constants."""
    defines = tuple(Define(x, v) for x, v in zip(inames, values, strict=True) if v != p.Variable(x))
    return Block((*defines, node)) if defines else node


def with_values_substituted(emit: Callable[[Mapping[str, Expression]], Node], inames: tuple[str, ...],
                            values: tuple[Expression, ...]) -> Node:
    """The result of *emit* for *values*: numbers are substituted, other values become named constants."""
    moved = {x: v for x, v in zip(inames, values, strict=True) if v != p.Variable(x)}
    if all(isinstance(v, int) for v in moved.values()):
        return emit(moved)
    return with_values(emit({}), inames, values)


def converted(node: codegen.Node, call: Callable[[CallNode], Node]) -> Node:
    """isl's program as nodes; *call* makes the node of a leaf."""
    match node:
        case ForNode():
            return For(node.iname, node.start, node.stop, node.step, as_block(converted(node.body, call)))
        case IfNode():
            otherwise = as_block(converted(node.otherwise, call)) if node.otherwise is not None else None
            return If(node.condition, as_block(converted(node.then, call)), otherwise)
        case BlockNode():
            return Block(tuple(converted(c, call) for c in node.children))
        case CallNode():
            return call(node)

# }}}
