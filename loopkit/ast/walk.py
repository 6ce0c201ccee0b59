"""Walks over the nodes of a loop program: children, all nodes in order, rewriting, the host's calls.

Unchanged nodes are shared. Simplification and unrolling change no instance.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, assert_never, overload

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Block, Call, Define, For, If, Node, Region, Sync, Tiles
from loopkit.expr.evaluate import evaluate
from loopkit.expr.mappers import array_of, conjuncts, map_children, substitute, variables
from loopkit.poly.affine import add, is_quasi_affine

Change = Callable[[Node], Node]
Names = Mapping[str, Expression]


def child_nodes(node: Node) -> tuple[Node, ...]:
    """The nodes directly in *node*, in textual order: the children of a block, or the block of a loop.

    >>> child_nodes(For("i", 0, 4, 1, Block((Call("f"),))))
    (Block(children=(Call(name='f'),)),)
    """
    match node:
        case Block():
            return node.children
        case For() | Region() | Tiles():
            return (node.body,)
        case If():
            return (node.then,) if node.otherwise is None else (node.then, node.otherwise)
        case Assign() | Define() | Sync() | Call():
            return ()
        case _:
            assert_never(node)


def expressions_of(node: Node) -> tuple[Expression, ...]:
    """The expressions of *node* itself, and not of those in it; the operands of its instruction among them.

    >>> expressions_of(For("i", 0, 4, 1, Block((Define("j", 5),))))
    (0, 4)
    """
    match node:
        case Assign():
            return (node.target, node.value)
        case For():
            return (node.start, node.stop, *(() if node.instruction is None else node.instruction.operands))
        case Region():
            return () if node.instruction is None else node.instruction.operands
        case If():
            return (node.condition,)
        case Define():
            return (node.value,)
        case Sync():
            return tuple(e for i in node.instructions for e in i.operands)
        case Call() | Block() | Tiles():
            return ()
        case _:
            assert_never(node)


def nodes_in(node: Node) -> Iterator[Node]:
    """*node* and every node in it, in textual order: each before those in it.

    >>> loop = For("i", 0, 4, 1, Block((Call("f"), Call("g"))))
    >>> [type(node).__name__ for node in nodes_in(loop)]
    ['For', 'Block', 'Call', 'Call']
    """
    ahead = [node]
    while ahead:
        node = ahead.pop()
        yield node
        ahead.extend(reversed(child_nodes(node)))


def mentioned(node: Node) -> frozenset[str]:
    """The names in the expressions of *node* and of the nodes in it."""
    return frozenset().union(*(variables(e) for inner in nodes_in(node) for e in expressions_of(inner)))


def assigned(node: Node) -> frozenset[str]:
    """The variables and arrays that *node* writes."""
    return frozenset(array_of(inner.target) for inner in nodes_in(node) if isinstance(inner, Assign))


@overload
def map_child_nodes(node: Block, f: Change) -> Block: ...
@overload
def map_child_nodes(node: Node, f: Change) -> Node: ...
def map_child_nodes(node: Node, f: Change) -> Node:
    """*node* with *f* applied to each node directly in it, in textual order; *node* itself if *f* changes none.

    If *f* replaces the block of a loop, a branch or a region by another node, the result has that node in a block.
    """
    match node:
        case Block():
            new = tuple([f(child) for child in node.children])
            return node if all(a is b for a, b in zip(new, node.children, strict=True)) else replace(node, children=new)
        case For() | Region() | Tiles():
            body = as_block(f(node.body))
            return node if body is node.body else replace(node, body=body)
        case If():
            then = as_block(f(node.then))
            otherwise = None if node.otherwise is None else as_block(f(node.otherwise))
            same = then is node.then and otherwise is node.otherwise
            return node if same else replace(node, then=then, otherwise=otherwise)
        case Assign() | Define() | Sync() | Call():
            return node
        case _:
            assert_never(node)


@overload
def rewritten(node: Block, f: Change) -> Block: ...
@overload
def rewritten(node: Node, f: Change) -> Node: ...
def rewritten(node: Node, f: Change) -> Node:
    """*node* with *f* applied to every node in it, the inner ones first; *node* itself if *f* changes none.

    >>> twice = rewritten(Block((Call("f"),)), lambda node: Block((node, node)) if isinstance(node, Call) else node)
    >>> [type(node).__name__ for node in nodes_in(twice)]
    ['Block', 'Block', 'Call', 'Call']
    """
    new = f(map_child_nodes(node, lambda child: rewritten(child, f)))
    return as_block(new) if isinstance(node, Block) else new


def as_block(node: Node) -> Block:
    """*node* as a block."""
    return node if isinstance(node, Block) else Block((node,))


def calls(order: Block, values: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The functions to call at the sizes *values*, each with those values and the ones of the host's loops around its
    call.

    >>> from pymbolic.primitives import Variable
    >>> order = Block((Call("begin"), For("t", 0, Variable("n"), 1, Block((Call("step"),)))))
    >>> [(name, dict(seen)) for name, seen in calls(order, {"n": 2})]
    [('begin', {'n': 2}), ('step', {'n': 2, 't': 0}), ('step', {'n': 2, 't': 1})]
    """
    for node in order.children:
        match node:
            case Call():
                yield node.name, values
            case Define():
                values = {**values, node.name: evaluate(node.value, values)}
            case For():
                for x in range(evaluate(node.start, values), evaluate(node.stop, values), node.step):
                    yield from calls(node.body, {**values, node.iname: x})
            case If():
                holds = evaluate(node.condition, values)
                yield from calls(node.then if holds else node.otherwise or Block(), values)
            case Block():
                yield from calls(node, values)
            case Assign() | Region() | Sync() | Tiles():
                raise AssertionError(node)


# Simplification: merged ifs and flat blocks

def simplified(block: Block, names: Names | None = None) -> Block:
    """*block* with nested blocks flattened, empty parts dropped, and neighbours under one condition joined.

    A nested block keeps its braces only if it gives a name another value. *names* are defined around the block.
    """
    known = dict(names or {})
    own: set[str] = set()
    children: list[Node] = []
    for node in _flattened(block, known, own):
        if isinstance(node, Define):
            if known.get(node.name) == node.value:
                continue
            _forget(known, node.name)
            known[node.name] = node.value
            own.add(node.name)
            children.append(node)
            continue
        for inner in nodes_in(node):
            if isinstance(inner, For):
                _forget(known, inner.iname)     # a constant of this name has no meaning after the loop
        for new in _simplified(node, known):
            last = children[-1] if children else None
            if isinstance(new, If) and isinstance(last, If) and (one := _one_if(last, new, known)) is not None:
                children[-1] = one
            else:
                children.append(new)
    return Block(tuple(children))


def _forget(known: dict[str, Expression], name: str) -> None:
    """Remove from *known* the name *name*, which gets another value, and all values computed from it."""
    known.pop(name, None)
    for x in [x for x, value in known.items() if name in variables(value)]:
        _forget(known, x)


def _one_if(first: If, second: If, known: Names) -> If | None:
    """Two neighbours as one ``if``: under one condition, or under a condition and its negation."""
    if second.otherwise is not None or variables(first.condition) & assigned(first):
        return None
    if second.condition == first.condition:
        return replace(first, then=simplified(Block((first.then, second.then)), known))
    if second.condition == p.LogicalNot(first.condition) and first.otherwise is None:
        return replace(first, otherwise=second.then)
    return None


def with_regions_apart(block: Block) -> Block:
    """*block* with braces in regions that define a constant of the same name as another region.

    A target may print regions one after another in one scope.
    """
    def defined(block: Block) -> set[str]:
        return {node.name for node in block.children if isinstance(node, Define)}
    own = defined(block)

    def apart(node: Node) -> Node:
        if isinstance(node, Block):
            return with_regions_apart(node)
        if not isinstance(node, Region):
            return map_child_nodes(node, apart)
        hides = not own.isdisjoint(defined(node.body))
        own.update(defined(node.body))
        return replace(node, body=Block((node.body,))) if hides else node
    return map_child_nodes(block, apart)


def without_unused_names(block: Block) -> Block:
    """*block* without constants that no later node mentions; the instances of statements get their values."""
    def used(node: Node) -> Node:
        if not isinstance(node, Block):
            return node
        kept: list[Node] = []
        names = set[str]()
        for child in reversed(node.children):
            if isinstance(child, Define) and child.name not in names:
                kept = list(_with_instances(kept, child.name, child.value))
            else:
                names |= mentioned(child)
                kept.insert(0, child)
        return Block(tuple(kept))
    return rewritten(block, used)


def _with_instances(nodes: Iterable[Node], name: str, value: Expression) -> Iterator[Node]:
    """*nodes* with *value* for *name* in the instances of statements, up to a redefinition of *name*."""
    meant = True
    for node in nodes:
        yield _with_instance(node, name, value) if meant else node
        meant = meant and not (isinstance(node, Define) and node.name == name)


def _with_instance(node: Node, name: str, value: Expression) -> Node:
    match node:
        case Assign():
            return replace(node, instance=tuple((x, substitute(v, {name: value})) for x, v in node.instance))
        case Block():
            return Block(tuple(_with_instances(node.children, name, value)))
        case For() if node.iname == name:
            return node
        case For() | If() | Region() | Define() | Sync() | Call() | Tiles():
            return map_child_nodes(node, lambda child: _with_instance(child, name, value))


def _flattened(block: Block, known: Names, own: set[str]) -> Iterator[Node]:
    """The nodes of *block*, those of nested blocks among them unless they redefine a name."""
    for node in block.children:
        if isinstance(node, Block):
            defined = {c.name: c.value for c in node.children if isinstance(c, Define)}
            if any(x in own and known.get(x) != v for x, v in defined.items()):
                yield node
            else:
                yield from _flattened(node, known, own)
        else:
            yield node


def _simplified(node: Node, names: Names) -> Iterator[Node]:
    """*node* with its parts simplified, unless it is empty."""
    if isinstance(node, Assign | Define | Sync | Call):
        yield node
        return
    new = simplified(node, names) if isinstance(node, Block) else \
        map_child_nodes(node, lambda part: simplified(as_block(part), names))
    if isinstance(new, If) and new.otherwise == Block():
        new = replace(new, otherwise=None)
    if any(part != Block() for part in child_nodes(new)):
        yield _under_its_condition(new)


def _under_its_condition(node: Node) -> Node:
    """*node*; but a loop whose whole body is under a condition that does not change is under that condition."""
    match node:
        case For(instruction=None, body=Block((If(condition, then, None) as inner,))) \
                if not variables(condition) & {node.iname, *assigned(then)} and _is_affine(condition):
            return replace(inner, then=Block((replace(node, body=then),)))
        case _:
            return node


def _is_affine(condition: Expression) -> bool:
    """Does a comparison, or several of them, of affine expressions make up *condition*? Any place can evaluate it."""
    return all(isinstance(c, p.Comparison) and is_quasi_affine(c.left) and is_quasi_affine(c.right)
               for c in conjuncts(condition))


# Unrolling

def unrolled_loops(node: Node, values: Names | None = None, kept: frozenset[str] = frozenset()) -> Node:
    """*node* with each loop that has an unroll directive replaced by its iterations, one after another.

    :arg values: the values of the loop variables around it.
    :arg kept: variables of loops that are not replaced.
    """
    known = values or {}
    if isinstance(node, For) and node.unroll and isinstance(node.start, int) and isinstance(node.stop, int) \
            and node.iname not in kept:
        return Block(tuple(unrolled_loops(node.body, {**known, node.iname: i}, kept)
                           for i in range(node.start, node.stop, node.step)))
    node = map_child_nodes(node, lambda child: unrolled_loops(child, known, kept))
    match node:
        case For():
            return replace(node, start=_put(node.start, known), stop=_put(node.stop, known))
        case If():
            return replace(node, condition=_put(node.condition, known))
        case Assign():
            target = _put(node.target, known)
            assert isinstance(target, p.Variable | p.Subscript)
            instance = tuple((x, _put(value, known)) for x, value in node.instance)
            return replace(node, target=target, value=_put(node.value, known), instance=instance)
        case Define():
            return Define(node.name, add(_put(node.value, known)))
        case Sync():
            return replace(node, instructions=tuple(
                i.with_values(lambda e: _put(e, known)) for i in node.instructions))
        case Region() | Block() | Call() | Tiles():
            return node


def with_separate_iterations(loop: For) -> Node:
    """*loop*, if it has an unroll directive and each part of its body belongs to one iteration, without the loop."""
    if not loop.unroll or loop.instruction is not None or not isinstance(loop.start, int) \
            or not isinstance(loop.stop, int):
        return loop
    iterations = range(loop.start, loop.stop, loop.step)
    parts: list[tuple[int, Block]] = []
    for node in loop.body.children if len(iterations) > 1 else ():
        match node:
            case If(p.Comparison(left=p.Variable(name=loop.iname), operator="==", right=int() as at), then, None, ""):
                parts.append((at, then))
            case _:
                return loop
    if len(iterations) == 1:
        parts = [(loop.start, loop.body)]
    inner = frozenset(node.iname for node in nodes_in(loop.body) if isinstance(node, For))
    return Block(tuple(unrolled_loops(part, {loop.iname: at}, inner)
                       for at, part in sorted(parts, key=lambda x: x[0]) if at in iterations))


def _put(expr: Expression, values: Names) -> Expression:
    """*expr* with loop variables replaced and sums of integers folded."""
    if isinstance(expr, p.Variable):
        return values.get(expr.name, expr)
    new = map_children(expr, lambda e: _put(e, values))
    return p.Subscript(new.aggregate, tuple(map(add, new.index_tuple))) \
        if isinstance(new, p.Subscript) and new is not expr else new
