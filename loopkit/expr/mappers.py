"""Walks over expressions: children, variables, substitution, updates, parts of conditions.

Unchanged subtrees are shared, never copied.
"""
from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.nodes import COMBINED, REDUCTIONS, Combined, MakeTuple, Neutral, Operation, Reduction, TypeCast
from loopkit.poly.piecewise import is_affine_condition

#: The fields with the subexpressions of each node; the function of a call is none.
_OPERANDS: Mapping[type, tuple[str, ...]] = {
    p.Variable: (), Neutral: (), Reduction: ("expr",), p.Call: ("parameters",), p.Subscript: ("aggregate", "index"),
    p.Comparison: ("left", "right"), p.Power: ("base", "exponent"), p.If: ("condition", "then", "else_"),
    MakeTuple: ("values",), p.Lookup: ("aggregate",), Combined: ("left", "right"),
    **dict.fromkeys((p.Sum, p.Product, p.Min, p.Max, p.LogicalAnd, p.LogicalOr, p.BitwiseAnd, p.BitwiseOr,
                     p.BitwiseXor), ("children",)),
    **dict.fromkeys((p.LeftShift, p.RightShift), ("shiftee", "shift")),
    **dict.fromkeys((p.Quotient, p.FloorDiv, p.Remainder), ("numerator", "denominator")),
    **dict.fromkeys((p.LogicalNot, p.BitwiseNot, TypeCast), ("child",))}


class _Fields(dict[type, tuple[tuple[str, ...], tuple[str, ...]]]):
    """For each class of nodes, the fields with subexpressions, and all fields."""

    def __missing__(self, node: type) -> tuple[tuple[str, ...], tuple[str, ...]]:
        operands = next((held for known, held in _OPERANDS.items() if issubclass(node, known)), None)
        if operands is None:
            raise TypeError(f"{node.__name__} is not a node of the kernel language")
        self[node] = operands, tuple(f.name for f in fields(node))
        return self[node]


_FIELDS = _Fields()


def is_node(expr: object) -> bool:
    """Is *expr* a node of the kernel language?"""
    return type(expr) in _FIELDS or isinstance(expr, tuple(_OPERANDS))


def children(expr: Expression) -> tuple[Expression, ...]:
    """The direct subexpressions of *expr*, the function of a call left out."""
    if not isinstance(expr, p.ExpressionNode):
        return expr if isinstance(expr, tuple) else ()
    found: tuple[Expression, ...] = ()
    for name in _FIELDS[type(expr)][0]:
        part = getattr(expr, name)
        found += part if isinstance(part, tuple) else (part,)
    return found


def map_children(expr: Expression, f: Callable[[Expression], Expression]) -> Expression:
    """*expr* with *f* applied to each of its :func:`children`; *expr* itself where *f* changes none."""
    old = children(expr)
    new = tuple([f(c) for c in old])
    return expr if not old or all(map(operator.is_, new, old)) else with_children(expr, new)


def with_children(expr: Expression, new: tuple[Expression, ...]) -> Expression:
    """A node as *expr* with other :func:`children`."""
    if not isinstance(expr, p.ExpressionNode):
        return new
    operands, every = _FIELDS[type(expr)]
    rest, old = iter(new), [(name, getattr(expr, name)) for name in every]
    make: Callable[..., Expression] = type(expr)    # pymbolic's types keep truth values out of arithmetic
    return make(*(part if name not in operands else tuple(rest) if isinstance(part, tuple) else next(rest)
                  for name, part in old))


def map_subscripts(expr: Expression, f: Callable[[Expression], Expression]) -> Expression:
    """*expr* with *f* applied to each index of its subscripts, the inner ones first; *expr* itself where none changes.
    """
    expr = map_children(expr, lambda e: map_subscripts(e, f))
    index = tuple(map(f, expr.index_tuple)) if isinstance(expr, p.Subscript) else ()
    return p.Subscript(expr.aggregate, index) if isinstance(expr, p.Subscript) and index != expr.index_tuple else expr


def replaced(expr: Expression, parts: Mapping[Expression, Expression]) -> Expression:
    """*expr* with each of its *parts* replaced, the outer ones first."""
    return parts[expr] if expr in parts else map_children(expr, lambda e: replaced(e, parts))


def alike(a: Expression, b: Expression) -> bool:
    """Are both nodes with children, alike but for these?"""
    if type(a) is not type(b) or not len(children(a)) == len(children(b)) > 0:
        return False
    operands, every = _FIELDS[type(a)]
    return all(getattr(a, name) == getattr(b, name) for name in every if name not in operands)


def arguments_of(pattern: Expression, names: Sequence[str], expr: Expression) -> tuple[Expression, ...] | None:
    """The parts of *expr* in the places of *names*, if it has the form of *pattern* but for these; else ``None``.

    >>> x, y, s = map(p.Variable, "xys")
    >>> arguments_of(2*p.Subscript(x, s), ["s"], 2*p.Subscript(x, y + 1))
    (Sum((Variable('y'), 1)),)
    """
    found: dict[str, Expression] = {}

    def matches(a: Expression, b: Expression, bound: frozenset[str]) -> bool:
        if isinstance(a, p.Variable) and a.name in names:
            # a part with an iname that a reduction binds has no value outside of it
            return found.setdefault(a.name, b) == b and bound.isdisjoint(variables(b))
        if not alike(a, b):
            return a == b
        inner = bound.union(a.inames) if isinstance(a, Reduction) else bound
        return all(matches(c, d, inner) for c, d in zip(children(a), children(b), strict=True))
    # a name that the pattern does not have may be anything
    return tuple(found.get(x, 0) for x in names) if matches(pattern, expr, frozenset()) else None


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


def element(name: str, subscripts: tuple[Expression, ...]) -> p.Variable | p.Subscript:
    """An element of an array, or a scalar."""
    return p.Subscript(p.Variable(name), subscripts) if subscripts else p.Variable(name)


def array_of(element: Expression) -> str:
    """The name of the array of *element*, or of a scalar."""
    array = element.aggregate if isinstance(element, p.Subscript) else element
    assert isinstance(array, p.Variable)
    return array.name


def subscripts_of(element: Expression) -> tuple[Expression, ...]:
    """The subscripts of *element*; none of a scalar."""
    return element.index_tuple if isinstance(element, p.Subscript) else ()


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


def without_declared_domains(expr: Expression) -> Expression:
    """*expr* with its reductions as a kernel has them, whose statements have the domains."""
    new = map_children(expr, without_declared_domains) if has_reduction(expr) else expr
    return Reduction(new.operation, new.inames, new.expr) if isinstance(new, Reduction) and new.declared else new


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


def update_of(target: Expression, expression: Expression, operations: Iterable[Operation] = ()
              ) -> tuple[str, Expression] | None:
    """The reduction operation and its operand, if *expression* is *target* combined with an operand; else ``None``.

    :arg operations: further operations than the language's.

    >>> h, w = map(p.Variable, "hw")
    >>> update_of(h, p.Sum((h, w, 1))), update_of(h, 2*w)
    (('sum', Sum((Variable('w'), 1))), None)
    """
    name, operands = _REDUCTIONS.get(type(expression)), list(children(expression))
    update: tuple[str, Expression] | None = None
    if name is not None and target in operands:
        operands.remove(target)
        update = name, operands[0] if len(operands) == 1 else with_children(expression, tuple(operands))
        if target not in subexpressions(update[1]):
            return update
    operand = p.Variable("<operand>")           # of an operation such as a + b - a*b
    found = ((o.name, arguments_of(o.apply(target, operand), [operand.name], expression)) for o in operations)
    return next(((own, parts[0]) for own, parts in found if parts is not None), update)


_NEGATED = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def split_affine(condition: Expression, names: Collection[str]
                 ) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    """The conjuncts of *condition* that are affine in *names*, and the others."""
    affine = tuple(c for c in conjuncts(condition) if is_affine_condition(c, names))
    return affine, tuple(c for c in conjuncts(condition) if c not in affine)


def opposite(condition: Expression, names: Collection[str]) -> Expression:
    """The negation of *condition*. Comparisons that are affine in *names* are inverted; others may compare a NaN."""
    if isinstance(condition, p.Comparison) and is_affine_condition(condition, names):
        return p.Comparison(condition.left, _NEGATED[condition.operator], condition.right)
    return condition.child if isinstance(condition, p.LogicalNot) else p.LogicalNot(condition)
