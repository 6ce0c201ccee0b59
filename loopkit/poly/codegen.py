"""Loops, bounds and guards from a tree of loops, by ``isl.AstBuild``.

One conversion, no callbacks: the tree becomes a schedule tree in isl's text form, isl builds its AST, and the AST
becomes the plain nodes below with the inames as loop variables.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import DIM, TruncatedQuotient, add, arithmetic, from_ast_expr
from loopkit.poly.sets import InstanceSet, param_name

# {{{ what goes in: the order, by names of leaves


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


# {{{ what comes out

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

# }}}


def generate(tree: CodeTree, domains: Mapping[str, InstanceSet], context: isl.Set,
             fresh_name: Callable[[str], str]) -> Node:
    """Code that runs exactly the points of *domains*, in the order of *tree*.

    Each loop of *tree* becomes at most one loop. Where leaves of one loop have strides, isl may shift them into one
    iteration (``j`` and ``j + 1`` for even and odd ones); such a loop counts by a variable of its own.

    :arg domains: by leaf; the inames of a leaf are the loops around it, outermost first.
    :arg context: what is known about the parameters.
    :arg fresh_name: makes a name that nothing has from a proposal.
    """
    if isinstance(tree, str):
        domain = domains[tree]
        assert not domain.inames
        return guarded(domain.set.params(), context, CallNode(tree, ()))
    if isinstance(tree, CodeSeq) and all(isinstance(c, str) for c in tree.children):
        return block(*(generate(c, domains, context, fresh_name) for c in tree.children))
    plain = {name: domain.named(_plain_params(domain.set)) for name, domain in domains.items()}
    schedule = isl.Schedule.read_from_str(isl.DEFAULT_CONTEXT, _schedule_text(tree, plain))
    loops = _loops_of_leaves(tree)
    build = isl.AstBuild.from_context(_plain_params(context)).set_iterators(
        _iterators(max(map(len, loops.values()), default=0)))
    back = {_id(name): name for domain in domains.values() for name in domain.params if "." in name}
    return _Conversion(loops, fresh_name).node(build.node_from_schedule(schedule), back)


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
    needed = condition.coalesce().gist(context)
    if needed.is_empty():
        return BlockNode(())
    if needed.plain_is_universe():
        return body
    build = isl.AstBuild.from_context(context)
    return _if(from_ast_expr(build.expr_from_set(needed)), body, None)


def _if(condition: Expression, then: Node, otherwise: Node | None) -> Node:
    """A choice, unless there is none: isl writes what always or never holds as a number."""
    if isinstance(condition, int):
        return then if condition else otherwise if otherwise is not None else BlockNode(())
    return IfNode(condition, then, otherwise)


def condition_expression(condition: isl.Set, context: isl.Set) -> Expression | None:
    """*condition* on parameters as an expression; ``None`` where *context* implies it."""
    needed = condition.coalesce().gist(context)
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
# by name where islpy's stub lacks the member: it is a word of the language plus "_"
_FOR, _IF = isl.ast_node_type["for_"], isl.ast_node_type["if_"]


def _kind(node: isl.AstNode) -> isl.ast_node_type:
    return cast(isl.ast_node_type, node.get_type())      # islpy's stub says int, here and below


def _expr_kind(expr: isl.AstExpr) -> isl.ast_expr_type:
    return cast(isl.ast_expr_type, expr.get_type())


@dataclass(frozen=True)
class _Conversion:
    """isl's nodes as ours.

    :ivar loops: the inames of the loops around each leaf, outermost first.
    """

    loops: Mapping[str, tuple[str, ...]]
    fresh_name: Callable[[str], str]

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
        return ForNode(variable, _named(node.for_get_init(), names), _stop(node, iterator, inner), step,
                       self.node(node.for_get_body(), inner))

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


def _stop(node: isl.AstNode, iterator: str, names: Mapping[str, str]) -> Expression:
    """The exclusive upper bound of a loop whose condition is ``iterator < e`` or ``iterator <= e``."""
    condition = _named(node.for_get_cond(), names)
    assert isinstance(condition, p.Comparison)
    assert condition.left == p.Variable(names[iterator])
    if condition.operator == "<":
        return condition.right
    assert condition.operator == "<="
    return plus(condition.right, 1)


def plus(expr: Expression, constant: int) -> Expression:
    """``expr + constant``, brought inside ``min`` and ``max``."""
    match expr:
        case p.Min(children=children):
            return p.Min(tuple(plus(c, constant) for c in children))
        case p.Max(children=children):
            return p.Max(tuple(plus(c, constant) for c in children))
        case TruncatedQuotient(numerator=a, denominator=int() as b) if constant == 1:
            return TruncatedQuotient(arithmetic(add(a, b)), b)      # a is not negative: (l - 1)/16 + 1 = (l + 15)/16
        case _:
            return add(expr, constant)


def _identifier(expr: isl.AstExpr) -> str:
    return str(expr.get_id().name)


def _named(expr: isl.AstExpr, names: Mapping[str, str]) -> Expression:
    return _renamed(from_ast_expr(expr), names)


def _renamed(expr: Expression, names: Mapping[str, str]) -> Expression:
    match expr:
        case p.Variable(name=name):
            return p.Variable(names[name]) if name in names else expr
        case p.Sum() | p.Product():
            return type(expr)(tuple(arithmetic(_renamed(c, names)) for c in expr.children))
        case p.Min() | p.Max() | p.LogicalAnd() | p.LogicalOr():
            return type(expr)(tuple(_renamed(c, names) for c in expr.children))
        case p.FloorDiv() | p.Remainder():
            return type(expr)(arithmetic(_renamed(expr.numerator, names)),
                              arithmetic(_renamed(expr.denominator, names)))
        case p.Comparison():
            return p.Comparison(_renamed(expr.left, names), expr.operator, _renamed(expr.right, names))
        case p.If():
            return p.If(_renamed(expr.condition, names), _renamed(expr.then, names), _renamed(expr.else_, names))
        case _:
            return expr

# }}}


# {{{ full tiles

def worst_corner(points: isl.Set, inames: Sequence[str], box: Mapping[str, tuple[int, int]],
                 involving: Sequence[str], free_of: Sequence[str]) -> isl.Set | None:
    """Where all of *box* satisfies the constraints that couple it to the rest.

    Looks at each constraint that mentions a name of *box*, one of *involving* (where it is not empty) and
    none of *free_of*, and takes the least value over the box. The result is a condition on the other names,
    as parameters; ``None`` if no constraint couples them, or the set is no single polyhedron.
    """
    pieces = points.coalesce().get_basic_sets()
    if len(pieces) != 1:
        return None
    piece = pieces[0].remove_redundancies()
    result: isl.Set | None = None
    for constraint in piece.get_constraints():
        if constraint.is_equality() or any(
                constraint.involves_dims(DIM.div, i, 1) for i in range(constraint.dim(DIM.div))):
            continue
        coefficients = _coefficients(constraint, inames)
        boxed = {x: c for x, c in coefficients.items() if x in box}
        if not boxed or (involving and not any(x in coefficients for x in involving)) \
                or any(x in coefficients for x in free_of):
            continue
        rest = {x: c for x, c in coefficients.items() if x not in box}
        if not rest:
            continue
        constant = int(constraint.get_constant_val().to_python())
        constant += sum(c * (box[x][0] if c > 0 else box[x][1]) for x, c in boxed.items())
        condition = _param_condition(rest, constant)
        result = condition if result is None else result.intersect(condition)
    return result


def _coefficients(constraint: isl.Constraint, inames: Sequence[str]) -> dict[str, int]:
    result: dict[str, int] = {}
    for i, x in enumerate(inames):
        value = int(constraint.get_coefficient_val(DIM.set, i).to_python())
        if value:
            result[x] = value
    for i in range(constraint.dim(DIM.param)):
        value = int(constraint.get_coefficient_val(DIM.param, i).to_python())
        if value:
            result[param_name(constraint, i)] = value
    return result


def _param_condition(coefficients: Mapping[str, int], constant: int) -> isl.Set:
    space = isl.Space.params_alloc(isl.DEFAULT_CONTEXT, len(coefficients))
    for i, x in enumerate(coefficients):
        space = space.set_dim_name(DIM.param, i, x)
    aff = isl.Aff.zero_on_domain(isl.LocalSpace.from_space(space)).set_constant_val(
        isl.Val.int_from_si(isl.DEFAULT_CONTEXT, constant))
    for i, c in enumerate(coefficients.values()):
        aff = aff.set_coefficient_val(DIM.param, i, isl.Val.int_from_si(isl.DEFAULT_CONTEXT, c))
    return isl.PwAff.from_aff(aff).ge_set(isl.PwAff.from_aff(
        isl.Aff.zero_on_domain(isl.LocalSpace.from_space(space))))

# }}}
