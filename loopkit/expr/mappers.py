"""Walks over expressions: children, variables, substitution. Unchanged subtrees are shared, never copied."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.build import power
from loopkit.expr.nodes import Neutral, Reduction, TypeCast


def children(expr: Expression) -> tuple[Expression, ...]:
    """The direct subexpressions of *expr*, the function of a call left out.

    >>> import pymbolic.primitives as p
    >>> children(p.Sum((p.Variable("x"), 1)))
    (Variable('x'), 1)
    """
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
    """*expr* with *f* applied to each direct subexpression; *expr* itself where *f* changes none.

    The function of a call is left alone, the aggregate of a subscript is not.
    """
    match expr:
        case p.Variable() | Neutral():
            return expr
        case p.Sum() | p.Product() | p.Min() | p.Max() | p.LogicalAnd() | p.LogicalOr():
            new = tuple([f(c) for c in expr.children])
            return expr if _same(new, expr.children) else _of_children(type(expr), new)
        case p.Subscript():
            aggregate, index = f(expr.aggregate), _map_index(expr.index, f)
            return expr if aggregate is expr.aggregate and index is expr.index else p.Subscript(aggregate, index)
        case p.Call():
            new = tuple([f(c) for c in expr.parameters])
            return expr if _same(new, expr.parameters) else p.Call(expr.function, new)
        case p.Quotient() | p.FloorDiv() | p.Remainder():
            a, b = f(expr.numerator), f(expr.denominator)
            return expr if a is expr.numerator and b is expr.denominator else _of_two(type(expr), a, b)
        case p.Comparison():
            a, b = f(expr.left), f(expr.right)
            return expr if a is expr.left and b is expr.right else p.Comparison(a, expr.operator, b)
        case p.Power():
            a, b = f(expr.base), f(expr.exponent)
            return expr if a is expr.base and b is expr.exponent else power(a, b)
        case p.LogicalNot():
            a = f(expr.child)
            return expr if a is expr.child else p.LogicalNot(a)
        case TypeCast():
            a = f(expr.child)
            return expr if a is expr.child else TypeCast(expr.dtype_name, a)
        case p.If():
            old = (expr.condition, expr.then, expr.else_)
            new = tuple([f(c) for c in old])
            return expr if _same(new, old) else p.If(*new)
        case Reduction():
            a = f(expr.expr)
            return expr if a is expr.expr else replace(expr, expr=a)
        case tuple():
            new = tuple([f(c) for c in expr])
            return expr if _same(new, expr) else new
        case p.ExpressionNode():
            raise TypeError(f"{type(expr).__name__} is no node of the kernel language: {expr}")
        case _:
            return expr


def _of_children(node: Callable[[Any], Expression], children: tuple[Expression, ...]) -> Expression:
    return node(children)               # pymbolic's types keep truth values out of arithmetic, the language does not


def _of_two(node: Callable[[Any, Any], Expression], a: Expression, b: Expression) -> Expression:
    return node(a, b)


def _same(new: tuple[Expression, ...], old: tuple[Expression, ...]) -> bool:
    return all(map(_is, new, old))


def _is(a: object, b: object) -> bool:
    return a is b


def _map_index(index: Expression, f: Callable[[Expression], Expression]) -> Expression:
    if isinstance(index, tuple):
        new = tuple([f(c) for c in index])
        return index if _same(new, index) else new
    return f(index)


def replaced(expr: Expression, parts: Mapping[Expression, Expression]) -> Expression:
    """*expr* with each of its *parts* replaced, the outer ones first."""
    return parts[expr] if expr in parts else map_children(expr, lambda e: replaced(e, parts))


def head_of(expr: Expression) -> object:
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


def subexpressions(expr: Expression) -> Iterator[Expression]:
    """*expr* and everything in it, each node before its children, from left to right."""
    stack: list[Expression] = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def elements_of(expr: Expression, arrays: Collection[str]) -> Iterator[p.Subscript]:
    """The elements of *arrays* in *expr*."""
    if isinstance(expr, p.Subscript) and isinstance(expr.aggregate, p.Variable) and expr.aggregate.name in arrays:
        yield expr
    for child in children(expr):
        yield from elements_of(child, arrays)


@lru_cache(maxsize=16384)
def variables(expr: Expression) -> frozenset[str]:
    """The free names of *expr*: arrays, scalars and inames; a reduction binds its inames, functions do not count.

    >>> import pymbolic.primitives as p
    >>> sorted(variables(p.Subscript(p.Variable("a"), p.Variable("i"))))
    ['a', 'i']
    """
    if isinstance(expr, p.Variable):
        return frozenset((expr.name,))
    found: frozenset[str] = frozenset().union(*map(variables, children(expr)))
    return found.difference(expr.inames) if isinstance(expr, Reduction) else found


def called(expr: Expression) -> frozenset[str]:
    """The names of the functions and substitution rules that *expr* calls."""
    return frozenset(e.function.name for e in subexpressions(expr)
                     if isinstance(e, p.Call) and isinstance(e.function, p.Variable))


def has_reduction(expr: Expression) -> bool:
    """Is there a :class:`~loopkit.expr.nodes.Reduction` in *expr*?"""
    return any(isinstance(e, Reduction) for e in subexpressions(expr))


def substitute(expr: Expression, mapping: Mapping[str, Expression]) -> Expression:
    """*expr* with each free variable that *mapping* names replaced.

    An array is renamed by a mapping to a variable; names bound by a reduction stay.

    >>> import pymbolic.primitives as p
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
            return substitute_bound(e)
        return map_children(e, walk)

    def substitute_bound(e: Reduction) -> Expression:
        new = substitute(e.expr, {k: v for k, v in mapping.items() if k not in e.inames})
        return e if new is e.expr else replace(e, expr=new)
    return walk(expr)
