"""Walks over expressions: children, variables, substitution, updates. Unchanged subtrees are shared, never copied."""
from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.nodes import COMBINED, REDUCTIONS, Neutral, Reduction, TypeCast


def children(expr: Expression) -> tuple[Expression, ...]:
    """The direct subexpressions of *expr*, the function of a call left out."""
    match expr:
        case p.Variable() | Neutral():
            return ()
        case p.Sum() | p.Product() | p.Min() | p.Max() | p.LogicalAnd() | p.LogicalOr():
            return expr.children
        case p.Subscript():
            return (expr.aggregate, *expr.index_tuple)
        case p.Call():
            return expr.parameters
        case p.Quotient() | p.FloorDiv() | p.Remainder():
            return (expr.numerator, expr.denominator)
        case p.Comparison():
            return (expr.left, expr.right)
        case p.Power():
            return (expr.base, expr.exponent)
        case p.LogicalNot() | TypeCast():
            return (expr.child,)
        case p.If():
            return (expr.condition, expr.then, expr.else_)
        case Reduction():
            return (expr.expr,)
        case tuple():
            return expr
        case p.ExpressionNode():
            raise TypeError(f"{type(expr).__name__} is no node of the kernel language: {expr}")
        case _:
            return ()


def map_children(expr: Expression, f: Callable[[Expression], Expression]) -> Expression:
    """*expr* with *f* applied to each of its :func:`children`; *expr* itself where *f* changes none."""
    old = children(expr)
    new = tuple([f(c) for c in old])
    return expr if all(map(operator.is_, new, old)) else with_children(expr, new)


def with_children(expr: Expression, new: tuple[Expression, ...]) -> Expression:
    """A node as *expr* with other :func:`children`."""
    make: Callable[..., Expression] = type(expr)    # pymbolic's types keep truth values out of arithmetic
    match expr:
        case p.Sum() | p.Product() | p.Min() | p.Max() | p.LogicalAnd() | p.LogicalOr():
            return make(new)
        case p.Quotient() | p.FloorDiv() | p.Remainder() | p.Power() | p.LogicalNot() | p.If():
            return make(*new)
        case p.Subscript():
            return make(new[0], new[1:] if isinstance(expr.index, tuple) else new[1])
        case p.Call():
            return p.Call(expr.function, new)
        case p.Comparison():
            return p.Comparison(new[0], expr.operator, new[1])
        case TypeCast():
            return TypeCast(expr.dtype_name, new[0])
        case Reduction():
            return replace(expr, expr=new[0])
        case _:
            return new


def map_subscripts(expr: Expression, f: Callable[[Expression], Expression]) -> Expression:
    """*expr* with *f* applied to each index of its subscripts, the inner ones first; *expr* itself where none changes.
    """
    expr = map_children(expr, lambda e: map_subscripts(e, f))
    index = tuple(map(f, expr.index_tuple)) if isinstance(expr, p.Subscript) else ()
    return p.Subscript(expr.aggregate, index) if isinstance(expr, p.Subscript) and index != expr.index_tuple else expr


def replaced(expr: Expression, parts: Mapping[Expression, Expression]) -> Expression:
    """*expr* with each of its *parts* replaced, the outer ones first."""
    return parts[expr] if expr in parts else map_children(expr, lambda e: replaced(e, parts))


def _head_of(expr: Expression) -> object:
    """The parts of a node that are not among its children."""
    match expr:
        case p.Comparison():
            return expr.operator
        case p.Call():
            return expr.function
        case TypeCast():
            return expr.dtype_name
        case _:
            return None


def alike(a: Expression, b: Expression) -> bool:
    """Are both nodes with children, alike but for these?"""
    return type(a) is type(b) and len(children(a)) == len(children(b)) > 0 and _head_of(a) == _head_of(b)


def subexpressions(expr: Expression) -> Iterator[Expression]:
    """*expr* and everything in it, each node before its children, from left to right."""
    stack: list[Expression] = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def elements_of(expr: Expression, arrays: Collection[str]) -> Iterator[p.Subscript]:
    """The elements of *arrays* in *expr*."""
    return (e for e in subexpressions(expr) if isinstance(e, p.Subscript) and isinstance(e.aggregate, p.Variable)
            and e.aggregate.name in arrays)


def array_of(element: Expression) -> str:
    """The name of the array of *element*, or of a scalar."""
    array = element.aggregate if isinstance(element, p.Subscript) else element
    assert isinstance(array, p.Variable)
    return array.name


@lru_cache(maxsize=16384)
def variables(expr: Expression) -> frozenset[str]:
    """The free names of *expr*: arrays, scalars and inames; a reduction binds its inames, functions do not count."""
    if isinstance(expr, p.Variable):
        return frozenset((expr.name,))
    found: frozenset[str] = frozenset().union(*map(variables, children(expr)))
    return found.difference(expr.inames) if isinstance(expr, Reduction) else found


def conjuncts(condition: Expression) -> tuple[Expression, ...]:
    """The conditions that must all hold."""
    if isinstance(condition, p.LogicalAnd):
        return tuple(part for child in condition.children for part in conjuncts(child))
    return (condition,)


def conjunction(conditions: Iterable[Expression]) -> Expression:
    """The inverse of :func:`conjuncts`."""
    parts = tuple(conditions)
    return parts[0] if len(parts) == 1 else p.LogicalAnd(parts)


@lru_cache(maxsize=16384)
def called(expr: Expression) -> frozenset[str]:
    """The names of the functions and substitution rules that *expr* calls."""
    own = (expr.function.name,) if isinstance(expr, p.Call) and isinstance(expr.function, p.Variable) else ()
    return frozenset(own).union(*map(called, children(expr)))


@lru_cache(maxsize=16384)
def has_reduction(expr: Expression) -> bool:
    """Is there a :class:`~loopkit.expr.nodes.Reduction` in *expr*?"""
    return isinstance(expr, Reduction) or any(map(has_reduction, children(expr)))


def substitute(expr: Expression, mapping: Mapping[str, Expression]) -> Expression:
    """*expr* with each free variable that *mapping* names replaced.

    An array is renamed by a mapping to a variable; names bound by a reduction stay.

    >>> x, i, j = map(p.Variable, "xij")
    >>> print(substitute(p.Subscript(x, i), {"i": p.Sum((j, 1))}))
    x[j + 1]
    """
    if not mapping:
        return expr

    def walk(e: Expression) -> Expression:
        if isinstance(e, p.Variable):
            return mapping.get(e.name, e)
        if isinstance(e, Reduction) and not mapping.keys().isdisjoint(e.inames):
            free = {k: v for k, v in mapping.items() if k not in e.inames}
            return map_children(e, lambda operand: substitute(operand, free))
        return map_children(e, walk)
    return walk(expr)


#: The reductions by the nodes of their operations.
_REDUCTIONS = {COMBINED[operation.combine]: name for name, operation in REDUCTIONS.items()}


def update_of(target: Expression, expression: Expression) -> tuple[str, Expression] | None:
    """The reduction operation and its operand, if *expression* is *target* combined with an operand; else ``None``.

    >>> h, w = map(p.Variable, "hw")
    >>> update_of(h, p.Sum((h, w, 1))), update_of(h, 2*w)
    (('sum', Sum((Variable('w'), 1))), None)
    """
    name, operands = _REDUCTIONS.get(type(expression)), list(children(expression))
    if name is None or target not in operands:
        return None
    operands.remove(target)
    return name, operands[0] if len(operands) == 1 else with_children(expression, tuple(operands))
