"""Loops, bounds and guards from a tree of loops, by ``isl.AstBuild``.

The tree becomes isl's schedule tree, isl builds its AST, and a builder makes nodes from that, with the inames as loop
variables.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from types import MappingProxyType
from typing import Generic, TypeVar, cast

import islpy as isl
import pymbolic.primitives as p
from pymbolic import substitute
from pymbolic.typing import Expression

from loopkit.errors import InternalError
from loopkit.poly.affine import DIM, TruncatedQuotient, add, arithmetic, from_ast_expr, to_int
from loopkit.poly.extents import is_at_least
from loopkit.poly.limits import affordable, coalesced, without_empty_pieces
from loopkit.poly.sets import InstanceSet, has_unknowns, in_polyhedra, params_of

N = TypeVar("N")


@dataclass(frozen=True)
class CodeLoop:
    """A loop over *iname*, a dimension of every leaf below it."""

    iname: str
    body: CodeTree


#: The order of a program, by names of leaves; a tuple has parts one after another.
CodeTree = str | CodeLoop | tuple["CodeTree", ...]


@dataclass(frozen=True)
class Builder(Generic[N]):
    """Makes the nodes of a program. A body is a list of nodes, one after another.

    :ivar loop: ``for (iname = start; iname < stop; iname += step) body`` from these five. A shifted loop has a
        variable with a fresh name.
    :ivar branch: ``if (condition) then else otherwise`` from these three; *otherwise* may be empty.
    :ivar leaf: a leaf, from its name and the values of those inames that are not the variables of its loops.
    """

    loop: Callable[[str, Expression, Expression, int, list[N]], N]
    branch: Callable[[Expression, list[N], list[N]], N]
    leaf: Callable[[str, Mapping[str, Expression]], N]


#: Operations of isl for loops that run exactly the points, where looser ones with conditions would do.
LOOPS = 100_000


def generate(tree: CodeTree, domains: Mapping[str, InstanceSet], context: isl.Set,
             fresh_name: Callable[[str], str], builder: Builder[N]) -> list[N]:
    """Nodes that run exactly the points of *domains*, in the order of *tree*.

    Each loop of *tree* becomes at most one loop. If leaves of one loop have strides, isl may shift them into one
    iteration (``j`` and ``j + 1`` for even and odd ones); such a loop has a separate counter. isl 0.27 misses points
    if strides leave only one value of a loop and isl writes it as a form of others, and it takes minutes for unions of
    many pieces. In these cases the loops go over a polyhedron around each leaf's points, and the leaf is under a
    condition.

    :arg domains: the points of each leaf; the inames of a leaf are the loops around it, outermost first.
    :arg fresh_name: makes an unused name from a proposal.
    """
    if isinstance(tree, str):
        domain = domains[tree]
        assert not domain.inames
        condition = condition_expression(domain.set.params(), context)
        return _choice(builder, condition, lambda: [builder.leaf(tree, {})])
    if isinstance(tree, tuple) and all(isinstance(c, str) for c in tree):
        return [node for c in tree for node in generate(c, domains, context, fresh_name, builder)]
    loops = {leaf: domain.inames for leaf, domain in domains.items()}
    wide = {name: domain.named(in_polyhedra(domain.set, context)) for name, domain in domains.items()}
    is_bounded = all(d.set.is_bounded() for d in wide.values())
    ast = affordable(lambda: _ast(tree, domains, context), otherwise=None, budget=LOOPS) if is_bounded \
        else _ast(tree, domains, context)
    # with strides, a coordinate of some leaf may be a form without its loop's variable
    if ast is not None and (not any(has_unknowns(d.set) for d in domains.values()) or all(
            _mentions(call.get_op_arg(1 + k), f"{_ITERATOR}{k}")
            for call in _calls(ast) for k in range(call.get_op_n_arg() - 1))):
        return _Conversion(loops, fresh_name, context, builder, {}).nodes(ast)
    if not is_bounded:
        raise InternalError(f"The loops around {', '.join(domains)} have strides that isl cannot make loops of.")

    conditions = {leaf: condition_expression(params_of(domain), context.intersect(params_of(wide[leaf])))
                  for leaf, domain in domains.items()}
    return _Conversion(loops, fresh_name, context, builder, conditions).nodes(_ast(tree, wide, context))


def _ast(tree: CodeTree, domains: Mapping[str, InstanceSet], context: isl.Set) -> isl.AstNode:
    schedule = _schedule(tree, {leaf: without_empty_pieces(domain.set).set_tuple_name(leaf)
                                for leaf, domain in domains.items()})
    iterators = isl.IdList.alloc(isl.DEFAULT_CONTEXT, 0)
    for i in range(max(len(domain.inames) for domain in domains.values())):
        iterators = iterators.add(isl.Id.read_from_str(isl.DEFAULT_CONTEXT, f"{_ITERATOR}{i}"))
    return isl.AstBuild.from_context(context).set_iterators(iterators).node_from_schedule(schedule)


#: The first part of the names of isl's loop variables, which no kernel has.
_ITERATOR = "_loop"


def _choice(builder: Builder[N], condition: Expression | None, then: Callable[[], list[N]],
            otherwise: Callable[[], list[N]] = list) -> list[N]:
    """A branch, or only one side of it: isl writes a condition that always or never holds as a number."""
    if condition is None or isinstance(condition, int):
        return otherwise() if condition == 0 else then()
    return [builder.branch(condition, then(), otherwise())]


def condition_expression(condition: isl.Set, context: isl.Set) -> Expression | None:
    """*condition* on parameters as an expression; ``None`` where *context* implies it."""
    whole = coalesced(condition)
    needed = affordable(lambda: whole.gist(context), otherwise=whole)
    if needed.plain_is_universe():
        return None
    if needed.is_empty():
        return 0
    found = from_ast_expr(isl.AstBuild.from_context(context).expr_from_set(needed))
    return None if found == 1 else found


def _schedule(tree: CodeTree, domains: Mapping[str, isl.Set], depth: int = 0) -> isl.Schedule:
    """*tree* as isl's schedule tree. The tuples of *domains* are named like the leaves."""
    match tree:
        case CodeLoop(_, body):
            inner = _schedule(body, domains, depth + 1)
            sets = inner.get_domain().get_set_list()
            places = [isl.LocalSpace.from_space(sets.get_at(i).get_space()) for i in range(sets.n_set())]
            iname = reduce(isl.UnionPwAff.union_add, [
                isl.UnionPwAff.from_pw_aff(isl.PwAff.var_on_domain(place, DIM.set, depth)) for place in places],
                isl.UnionPwAff.empty(inner.get_domain().get_space()))
            band = inner.insert_partial_schedule(isl.MultiUnionPwAff.from_union_pw_aff(iname)).get_root().child(0)
            return band.band_member_set_ast_loop_type(0, isl.ast_loop_type.atomic).get_schedule()
        case tuple():
            return _sequence([_schedule(c, domains, depth) for c in tree])
        case leaf:
            return isl.Schedule.from_domain(isl.UnionSet.from_set(domains[leaf]))


#: The most parts of a sequence for isl, which scans all leaves of a sequence for each of its parts.
_PARTS = 64


def _sequence(parts: Sequence[isl.Schedule]) -> isl.Schedule:
    """*parts* one after another. Those of a long sequence are sequences under marks: isl joins them otherwise."""
    while len(parts) > _PARTS:
        parts = [_marked(_by_halves(parts[k:k + _PARTS])) for k in range(0, len(parts), _PARTS)]
    return _by_halves(parts)


def _by_halves(parts: Sequence[isl.Schedule]) -> isl.Schedule:
    """*parts* as one sequence for isl, made by halves: isl scans all leaves of both sides that it joins."""
    middle = len(parts)//2
    return parts[0] if middle == 0 else _by_halves(parts[:middle]).sequence(_by_halves(parts[middle:]))


def _marked(schedule: isl.Schedule) -> isl.Schedule:
    return schedule.get_root().child(0).insert_mark(isl.Id.read_from_str(isl.DEFAULT_CONTEXT, "part")).get_schedule()


_AST = isl.ast_node_type
# by name, as islpy's stub lacks members that are a Python keyword plus "_"
_FOR, _IF = isl.ast_node_type["for_"], isl.ast_node_type["if_"]


def _node_type(node: isl.AstNode) -> isl.ast_node_type:
    return cast(isl.ast_node_type, node.get_type())      # islpy's stub declares int, here and below


@dataclass(frozen=True)
class _Conversion(Generic[N]):
    """Converts isl's nodes. Leaves with *conditions* do not run at all points of their *loops*."""

    loops: Mapping[str, tuple[str, ...]]
    fresh_name: Callable[[str], str]
    context: isl.Set
    builder: Builder[N]
    conditions: Mapping[str, Expression | None]

    @cached_property
    def _inames(self) -> frozenset[str]:
        return frozenset(x for loops in self.loops.values() for x in loops)

    def nodes(self, node: isl.AstNode, names: Mapping[str, p.Variable] = MappingProxyType({})) -> list[N]:
        """*node*; *names* gives the variable for each of isl's iterators."""
        kind = _node_type(node)
        if kind == _AST.block:
            children = node.block_get_children()
            return [made for i in range(children.n_ast_node()) for made in self.nodes(children.get_at(i), names)]
        if kind == _IF:
            return _choice(self.builder, _named(node.if_get_cond(), names),
                           lambda: self.nodes(node.if_get_then(), names),
                           lambda: self.nodes(node.if_get_else(), names) if node.if_has_else() else [])
        if kind == _FOR:
            return [self._for(node, names)]
        if kind == _AST.mark:
            return self.nodes(node.mark_get_node(), names)
        assert kind == _AST.user
        call = node.user_get_expr()
        leaf = _identifier(call.get_op_arg(0))
        values = {x: value for i, x in enumerate(self.loops[leaf])
                  if (value := self._value(call.get_op_arg(1 + i), i, names)) != p.Variable(x)}
        condition = self.conditions.get(leaf)
        return _choice(self.builder, None if condition is None else substitute(condition, values),
                       lambda: [self.builder.leaf(leaf, values)])

    def _for(self, node: isl.AstNode, names: Mapping[str, p.Variable]) -> N:
        iterator = _identifier(node.for_get_iterator())
        level = int(iterator.removeprefix(_ITERATOR))
        calls = _calls(node.for_get_body())
        variable = self.loops[_identifier(calls[0].get_op_arg(0))][level]
        step = to_int(node.for_get_inc().get_val())
        # without a stride a leaf runs where its iname is the iterator, though isl may print that as another form
        if any(from_ast_expr(value) != p.Variable(iterator) and (step > 1 or _mentions(value, iterator))
               for value in (call.get_op_arg(1 + level) for call in calls)):
            variable = self.fresh_name(f"{variable}_base")
        inner = {**names, iterator: p.Variable(variable)}
        return self.builder.loop(variable, _named(node.for_get_init(), names), self._stop(node, iterator, inner), step,
                                 self.nodes(node.for_get_body(), inner))

    def _stop(self, node: isl.AstNode, iterator: str, names: Mapping[str, p.Variable]) -> Expression:
        """The exclusive upper bound of a loop whose condition is ``iterator < e`` or ``iterator <= e``."""
        condition = _named(node.for_get_cond(), names)
        assert isinstance(condition, p.Comparison)
        assert condition.left == names[iterator]
        if condition.operator == "<":
            return condition.right
        assert condition.operator == "<="
        return plus(condition.right, 1, self.context)

    def _value(self, expr: isl.AstExpr, level: int, names: Mapping[str, p.Variable]) -> Expression:
        """The value of a leaf's iname: that of its loop, in whatever form isl found it, unless the loop is shifted."""
        variable = names.get(f"{_ITERATOR}{level}")
        if variable is not None and variable.name in self._inames:
            return variable
        return _named(expr, names)


def _calls(node: isl.AstNode) -> list[isl.AstExpr]:
    calls: list[isl.AstExpr] = []

    def found(each: isl.AstNode) -> bool:
        if _node_type(each) == _AST.user:
            calls.append(each.user_get_expr())
        return True
    node.foreach_descendant_top_down(found)
    return calls


def _mentions(expr: isl.AstExpr, iterator: str) -> bool:
    if cast(isl.ast_expr_type, expr.get_type()) == isl.ast_expr_type.op:
        return any(_mentions(expr.get_op_arg(i), iterator) for i in range(expr.get_op_n_arg()))
    return from_ast_expr(expr) == p.Variable(iterator)


def plus(expr: Expression, constant: int, context: isl.Set) -> Expression:
    """``expr + constant``, brought inside ``min`` and ``max``."""
    match expr:
        case p.Min(children=children) | p.Max(children=children):
            return type(expr)(tuple(plus(c, constant, context) for c in children))
        case p.FloorDiv(numerator=a, denominator=int() as b) if constant == 1 and (
                isinstance(expr, TruncatedQuotient) or is_at_least(add(a, b), 0, context)):
            return TruncatedQuotient(arithmetic(add(a, b)), b)      # not of a negative: (l - 1)/16 + 1 = (l + 15)/16
        case _:
            return add(expr, constant)


def _identifier(expr: isl.AstExpr) -> str:
    return str(expr.get_id().name)


def _named(expr: isl.AstExpr, names: Mapping[str, Expression]) -> Expression:
    return cast(Expression, substitute(from_ast_expr(expr), names))     # pymbolic's type is Any
