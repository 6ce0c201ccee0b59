"""Loops, bounds and guards from a tree of loops, by ``isl.AstBuild``.

One conversion, no callbacks: the tree becomes a schedule tree in isl's text form, isl builds its AST, and the AST
becomes the plain nodes below with the inames as loop variables.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import InternalError
from loopkit.poly.affine import DIM, TruncatedQuotient, add, arithmetic, from_ast_expr
from loopkit.poly.extents import is_at_least
from loopkit.poly.limits import affordable, coalesced, without_empty_pieces
from loopkit.poly.pieces import has_unknowns, in_polyhedra
from loopkit.poly.sets import InstanceSet, params_of

# {{{ input: the order, by names of leaves


@dataclass(frozen=True)
class CodeLoop:
    """A loop over *iname*, a dimension of every leaf below it."""

    iname: str
    body: CodeTree


@dataclass(frozen=True)
class CodeSeq:
    """Parts one after another."""

    children: tuple[CodeTree, ...]


CodeTree = str | CodeLoop | CodeSeq

# }}}


# {{{ output

@dataclass(frozen=True)
class ForNode:
    """``for (iname = start; iname < stop; iname += step)``; *iname* is the fresh name of a shifted loop's variable."""

    iname: str
    start: Expression
    stop: Expression
    step: int
    body: Node


@dataclass(frozen=True)
class IfNode:
    """``if (condition) then else otherwise``."""

    condition: Expression
    then: Node
    otherwise: Node | None


@dataclass(frozen=True)
class CallNode:
    """Leaf *leaf* with its inames at *values*."""

    leaf: str
    values: tuple[Expression, ...]


@dataclass(frozen=True)
class BlockNode:
    """Nodes one after another; without children it does nothing."""

    children: tuple[Node, ...]


Node = ForNode | IfNode | CallNode | BlockNode

#: Operations of isl for loops that run exactly the points, where looser ones with conditions would do.
LOOPS = 100_000

# }}}


def generate(tree: CodeTree, domains: Mapping[str, InstanceSet], context: isl.Set,
             fresh_name: Callable[[str], str]) -> Node:
    """Code that runs exactly the points of *domains*, in the order of *tree*.

    Each loop of *tree* becomes at most one loop. If leaves of one loop have strides, isl may shift them into one
    iteration (``j`` and ``j + 1`` for even and odd ones); such a loop has a separate counter. isl 0.27 misses points
    if strides leave only one value of a loop and isl writes it as a form of others, and it takes minutes for unions of
    many pieces. In these cases the loops go over a polyhedron around each leaf's points, and the leaf is under a
    condition.

    :arg domains: by leaf; the inames of a leaf are the loops around it, outermost first.
    :arg context: facts about the parameters.
    :arg fresh_name: makes an unused name from a proposal.
    """
    if isinstance(tree, str):
        domain = domains[tree]
        assert not domain.inames
        return guarded(domain.set.params(), context, CallNode(tree, ()))
    if isinstance(tree, CodeSeq) and all(isinstance(c, str) for c in tree.children):
        return block(*(generate(c, domains, context, fresh_name) for c in tree.children))
    loops = _loops_of_leaves(tree)
    back = {_id(x): x for d in domains.values() for x in d.params if "." in x}
    convert = _Conversion(loops, fresh_name, context)
    wide = {name: domain.named(in_polyhedra(domain.set, context)) for name, domain in domains.items()}
    is_bounded = all(d.set.is_bounded() for d in wide.values())
    ast = affordable(lambda: _ast(tree, domains, context), otherwise=None, budget=LOOPS) if is_bounded \
        else _ast(tree, domains, context)
    if ast is not None and not (any(has_unknowns(d.set) for d in domains.values()) and _lacks_loops(ast)):
        return convert.node(ast, back)
    if not is_bounded:
        raise InternalError(f"The loops around {', '.join(domains)} have strides that isl cannot make loops of.")

    def inside(call: CallNode) -> Node:
        known = context.intersect(params_of(wide[call.leaf]))
        values = dict(zip(domains[call.leaf].inames, call.values, strict=True))
        return _with_values(guarded(params_of(domains[call.leaf]), known, call), values)
    return _each_call(convert.node(_ast(tree, wide, context), back), inside)


def _ast(tree: CodeTree, domains: Mapping[str, InstanceSet], context: isl.Set) -> isl.AstNode:
    plain = {name: domain.named(_plain_params(without_empty_pieces(domain.set))) for name, domain in domains.items()}
    schedule = isl.Schedule.read_from_str(isl.DEFAULT_CONTEXT, _schedule_text(tree, plain))
    loops = _loops_of_leaves(tree)
    build = isl.AstBuild.from_context(_plain_params(context)).set_iterators(
        _iterators(max(map(len, loops.values()), default=0)))
    return build.node_from_schedule(schedule)


def _lacks_loops(node: isl.AstNode) -> bool:
    """Is a coordinate of some leaf a form without its loop's variable?"""
    return any(not _mentions(call.get_op_arg(1 + k), f"{_ITERATOR}{k}")
               for call in _calls(node) for k in range(call.get_op_n_arg() - 1))


def _each_call(node: Node, f: Callable[[CallNode], Node]) -> Node:
    match node:
        case CallNode():
            return f(node)
        case ForNode():
            return replace(node, body=_each_call(node.body, f))
        case IfNode(condition, then, otherwise):
            return IfNode(condition, _each_call(then, f), None if otherwise is None else _each_call(otherwise, f))
        case BlockNode(children):
            return block(*(_each_call(c, f) for c in children))


def _with_values(node: Node, values: Mapping[str, Expression]) -> Node:
    """A call under conditions on the inames at its place."""
    if isinstance(node, IfNode):
        return IfNode(_replaced(node.condition, values), node.then, node.otherwise)
    return node


_ITERATOR = "_loop"


def _iterators(count: int) -> isl.IdList:
    """Names for isl's loop variables that no kernel has."""
    names = isl.IdList.alloc(isl.DEFAULT_CONTEXT, count)
    for i in range(count):
        names = names.add(isl.Id.read_from_str(isl.DEFAULT_CONTEXT, f"{_ITERATOR}{i}"))
    return names


def _plain_params(points: isl.Set) -> isl.Set:
    """*points* with parameters that isl's text form can hold: axes are called ``l.0``."""
    for i in range(points.dim(DIM.param)):
        name = points.get_dim_name(DIM.param, i)
        if name is not None and "." in name:
            points = points.set_dim_name(DIM.param, i, _id(name))
    return points


def guarded(condition: isl.Set, context: isl.Set, body: Node) -> Node:
    """*body* under the part of *condition* that *context* does not imply."""
    needed = _beyond(condition, context)
    if needed.is_empty():
        return BlockNode(())
    if needed.plain_is_universe():
        return body
    build = isl.AstBuild.from_context(context)
    return _if(from_ast_expr(build.expr_from_set(needed)), body, None)


def _beyond(condition: isl.Set, context: isl.Set) -> isl.Set:
    """The part of *condition* that *context* does not imply; all of it if isl's budget ends."""
    whole = coalesced(condition)
    return affordable(lambda: whole.gist(context), otherwise=whole)


def _if(condition: Expression, then: Node, otherwise: Node | None) -> Node:
    """A choice, unless there is none: isl writes what always or never holds as a number."""
    if isinstance(condition, int):
        return then if condition else otherwise if otherwise is not None else BlockNode(())
    return IfNode(condition, then, otherwise)


def condition_expression(condition: isl.Set, context: isl.Set) -> Expression | None:
    """*condition* on parameters as an expression; ``None`` where *context* implies it."""
    needed = _beyond(condition, context)
    if needed.plain_is_universe():
        return None
    found = from_ast_expr(isl.AstBuild.from_context(context).expr_from_set(needed))
    return None if found == 1 else found


def block(*nodes: Node) -> Node:
    """*nodes* in order: nested blocks flattened, a single node left as it is."""
    flat: list[Node] = []
    for node in nodes:
        if isinstance(node, BlockNode):
            flat.extend(node.children)
        else:
            flat.append(node)
    return flat[0] if len(flat) == 1 else BlockNode(tuple(flat))


# {{{ to isl

def _schedule_text(tree: CodeTree, domains: Mapping[str, InstanceSet]) -> str:
    names = list(domains)
    union = isl.UnionSet.from_set(domains[names[0]].set.set_tuple_name(_id(names[0])))
    for name in names[1:]:
        union = union.union(isl.UnionSet.from_set(domains[name].set.set_tuple_name(_id(name))))
    return f'{{ domain: "{union}", child: {_node_text(tree, domains)} }}'


def _id(leaf: str) -> str:
    """Leaf names may hold dots; isl's identifiers may not."""
    return leaf.replace(".", "__")


def _node_text(tree: CodeTree, domains: Mapping[str, InstanceSet]) -> str:
    match tree:
        case CodeLoop(iname, body):
            parts = []
            for leaf in leaves(body):
                inames = domains[leaf].inames
                dims = ", ".join(f"i{k}" for k in range(len(inames)))
                parts.append(f"{_id(leaf)}[{dims}] -> [(i{inames.index(iname)})]")
            child = _node_text(body, domains)
            rest = f", child: {child}" if child else ""
            return f'{{ schedule: "[{{ {"; ".join(parts)} }}]", options: "{{ atomic[0] }}"{rest} }}'
        case CodeSeq(children):
            filters = []
            for c in children:
                spaces = "; ".join(f"{_id(x)}[{', '.join(f'i{k}' for k in range(len(domains[x].inames)))}]"
                                   for x in leaves(c))
                child = _node_text(c, domains)
                rest = f", child: {child}" if child else ""
                filters.append(f'{{ filter: "{{ {spaces} }}"{rest} }}')
            return f"{{ sequence: [ {', '.join(filters)} ] }}"
        case _:
            return ""


def leaves(tree: CodeTree) -> Sequence[str]:
    """The leaves of *tree*, in order."""
    match tree:
        case CodeLoop(_, body):
            return leaves(body)
        case CodeSeq(children):
            return [x for c in children for x in leaves(c)]
        case _:
            return [tree]


def _loops_of_leaves(tree: CodeTree) -> dict[str, tuple[str, ...]]:
    result: dict[str, tuple[str, ...]] = {}

    def walk(node: CodeTree, loops: tuple[str, ...]) -> None:
        match node:
            case CodeLoop(iname, body):
                walk(body, (*loops, iname))
            case CodeSeq(children):
                for c in children:
                    walk(c, loops)
            case _:
                result[_id(node)] = loops
    walk(tree, ())
    return result

# }}}


# {{{ from isl

_AST = isl.ast_node_type
# by name, as islpy's stub lacks members that are a Python keyword plus "_"
_FOR, _IF = isl.ast_node_type["for_"], isl.ast_node_type["if_"]


def _kind(node: isl.AstNode) -> isl.ast_node_type:
    return cast(isl.ast_node_type, node.get_type())      # islpy's stub says int, here and below


def _expr_kind(expr: isl.AstExpr) -> isl.ast_expr_type:
    return cast(isl.ast_expr_type, expr.get_type())


@dataclass(frozen=True)
class _Conversion:
    """Converts isl's nodes to loopkit's.

    :ivar loops: the inames of the loops around each leaf, outermost first.
    :ivar context: facts about the parameters.
    """

    loops: Mapping[str, tuple[str, ...]]
    fresh_name: Callable[[str], str]
    context: isl.Set

    @cached_property
    def inames(self) -> frozenset[str]:
        return frozenset(x for loops in self.loops.values() for x in loops)

    def node(self, node: isl.AstNode, names: Mapping[str, str]) -> Node:
        """*node*; *names* gives the variable for each of isl's iterators."""
        kind = _kind(node)
        if kind == _AST.block:
            children = node.block_get_children()
            return block(*(self.node(children.get_at(i), names) for i in range(children.n_ast_node())))
        if kind == _AST.mark:
            return self.node(node.mark_get_node(), names)
        if kind == _IF:
            otherwise = self.node(node.if_get_else(), names) if node.if_has_else() else None
            return _if(_named(node.if_get_cond(), names), self.node(node.if_get_then(), names), otherwise)
        if kind == _FOR:
            return self._for(node, names)
        if kind == _AST.user:
            call = node.user_get_expr()
            leaf = _identifier(call.get_op_arg(0))
            values = tuple(self._value(call.get_op_arg(1 + i), i, names) for i in range(call.get_op_n_arg() - 1))
            return CallNode(leaf.replace("__", "."), values)
        raise ValueError(f"isl AST node {kind}")

    def _for(self, node: isl.AstNode, names: Mapping[str, str]) -> ForNode:
        iterator = _identifier(node.for_get_iterator())
        level = int(iterator.removeprefix(_ITERATOR))
        calls = list(_calls(node.for_get_body()))
        variable = self.loops[_identifier(calls[0].get_op_arg(0))][level]
        step = int(node.for_get_inc().get_val().to_python())
        # without a stride a leaf runs where its iname is the iterator, though isl may print that as another form
        if any(not _is_iterator(value, iterator) and (step > 1 or _mentions(value, iterator))
               for value in (call.get_op_arg(1 + level) for call in calls)):
            variable = self.fresh_name(f"{variable}_base")
        inner = {**names, iterator: variable}
        return ForNode(variable, _named(node.for_get_init(), names), self._stop(node, iterator, inner), step,
                       self.node(node.for_get_body(), inner))

    def _stop(self, node: isl.AstNode, iterator: str, names: Mapping[str, str]) -> Expression:
        """The exclusive upper bound of a loop whose condition is ``iterator < e`` or ``iterator <= e``."""
        condition = _named(node.for_get_cond(), names)
        assert isinstance(condition, p.Comparison)
        assert condition.left == p.Variable(names[iterator])
        if condition.operator == "<":
            return condition.right
        assert condition.operator == "<="
        return plus(condition.right, 1, self.context)

    def _value(self, expr: isl.AstExpr, level: int, names: Mapping[str, str]) -> Expression:
        """The value of a leaf's iname: that of its loop, in whatever form isl found it, unless the loop is shifted."""
        variable = names.get(f"{_ITERATOR}{level}")
        if variable is None or variable not in self.inames:
            return _named(expr, names)
        return p.Variable(variable)


def _calls(node: isl.AstNode) -> Iterator[isl.AstExpr]:
    """The calls of leaves in *node*."""
    kind = _kind(node)
    if kind == _AST.block:
        children = node.block_get_children()
        for i in range(children.n_ast_node()):
            yield from _calls(children.get_at(i))
    elif kind == _AST.mark:
        yield from _calls(node.mark_get_node())
    elif kind == _IF:
        yield from _calls(node.if_get_then())
        if node.if_has_else():
            yield from _calls(node.if_get_else())
    elif kind == _FOR:
        yield from _calls(node.for_get_body())
    else:
        yield node.user_get_expr()


def _is_iterator(expr: isl.AstExpr, iterator: str) -> bool:
    return _expr_kind(expr) == isl.ast_expr_type.id and _identifier(expr) == iterator


def _mentions(expr: isl.AstExpr, iterator: str) -> bool:
    if _expr_kind(expr) == isl.ast_expr_type.op:
        return any(_mentions(expr.get_op_arg(i), iterator) for i in range(expr.get_op_n_arg()))
    return _is_iterator(expr, iterator)


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


def _named(expr: isl.AstExpr, names: Mapping[str, str]) -> Expression:
    return _replaced(from_ast_expr(expr), {old: p.Variable(new) for old, new in names.items()})


def _replaced(expr: Expression, names: Mapping[str, Expression]) -> Expression:
    match expr:
        case p.Variable(name=name):
            return names.get(name, expr)
        case p.Sum() | p.Product():
            return type(expr)(tuple(arithmetic(_replaced(c, names)) for c in expr.children))
        case p.Min() | p.Max() | p.LogicalAnd() | p.LogicalOr():
            return type(expr)(tuple(_replaced(c, names) for c in expr.children))
        case p.FloorDiv() | p.Remainder():
            return type(expr)(arithmetic(_replaced(expr.numerator, names)),
                              arithmetic(_replaced(expr.denominator, names)))
        case p.Comparison():
            return p.Comparison(_replaced(expr.left, names), expr.operator, _replaced(expr.right, names))
        case p.If():
            return p.If(_replaced(expr.condition, names), _replaced(expr.then, names), _replaced(expr.else_, names))
        case _:
            return expr

# }}}
