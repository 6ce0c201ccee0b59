"""Simpler expressions with the same values: constants and subscripts."""
from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import analysis_domain
from loopkit.analysis.constructors import rewritten
from loopkit.expr.mappers import children, map_children, map_subscripts, replaced, subexpressions, with_children
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import with_expressions
from loopkit.poly.affine import is_quasi_affine
from loopkit.poly.piecewise import simplest_form
from loopkit.poly.sets import InstanceSet
from loopkit.transform.step import transform

#: The operations on two numbers.
_OPERATIONS: Mapping[type, Callable[[Fraction, Fraction], Fraction | int]] = {
    p.Sum: operator.add, p.Product: operator.mul, p.Quotient: operator.truediv, p.FloorDiv: operator.floordiv,
    p.Remainder: operator.mod, p.Min: min, p.Max: max}
_DIVISIONS = (operator.truediv, operator.floordiv, operator.mod)


@transform
def fold_constants(kernel: LoopKernel) -> LoopKernel:
    """Replace operations on numbers by their results.

    A result replaces an operation only if it is the same in each dtype that the numbers may get: the numbers are below
    2**15, and real ones are exact in float16. Numbers that other operands separate stay, because a real result
    would be rounded at another place: ``x[i]*2*3`` is ``(x[i]*2)*3``.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*3*x[i] + (1 + 0.5)*0.1")
    >>> print(lk.fold_constants(knl).statements_text)
    for i
      y[i] = 6*x[i] + 1.5*0.1  {id=insn}
    end
    """
    return rewritten(
        kernel, statements=tuple(with_expressions(s, _with_numbers_folded) for s in kernel.statements),
        substitutions={name: replace(rule, expr=_with_numbers_folded(rule.expr))
                       for name, rule in kernel.substitutions.items()})


def _with_numbers_folded(expr: Expression) -> Expression:
    """*expr* with the numbers with which an operation begins combined, from left to right."""
    expr = map_children(expr, _with_numbers_folded)
    operation = _OPERATIONS.get(type(expr))
    if operation is None:
        return expr
    first, *rest = children(expr)
    while rest and (value := _exact(operation, first, rest[0], isinstance(expr, p.Quotient))) is not None:
        first, rest = value, rest[1:]
    if not rest:
        return first
    return expr if len(rest) + 1 == len(children(expr)) else with_children(expr, (first, *rest))


def _exact(operation: Callable[[Fraction, Fraction], Fraction | int], first: Expression, second: Expression,
           divides: bool) -> Expression | None:
    """The result of *operation* of two numbers, if it is the same in each dtype; else ``None``."""
    numbers = [Fraction(x) for x in (first, second) if isinstance(x, int | float) and not isinstance(x, bool)
               and abs(x) < _LARGEST]
    if len(numbers) < 2 or (numbers[1] == 0 and operation in _DIVISIONS):
        return None
    value = Fraction(operation(numbers[0], numbers[1]))
    if not (divides or isinstance(first, float) or isinstance(second, float)):
        return int(value)
    # the sign of a zero is not that of the exact result
    exact = all(Fraction(float(np.float16(float(x)))) == x for x in (*numbers, value) if abs(x) < _LARGEST)
    return float(value) if exact and value != 0 and abs(value) < _LARGEST else None


#: Products of two integers below it are in int32, and real numbers below it in float16.
_LARGEST = 2**15

@transform
def simplify_indices(kernel: LoopKernel) -> LoopKernel:
    """Simplify the subscripts: the form with the fewest quotients and operations in the domain of each statement.

    Values that are read from memory count as unknown integers. A subscript stays if isl finds no simpler form.

    >>> knl = lk.make_kernel("{[j]: 0<=j<10}", "<int32> b = z[0]\\ny[j] = x[10*(j//10 + b) + j - 10*b]")
    >>> print(lk.simplify_indices(knl).statements_text)
    <int32> b = z[0]  {id=insn}
    for j
      y[j] = x[j]  {id=insn_0}
    end
    """
    anywhere = InstanceSet.universe(())
    return rewritten(
        kernel, statements=tuple(
            with_expressions(s, partial(map_subscripts, f=partial(_with_simplest_form, analysis_domain(kernel, s))))
            for s in kernel.statements),
        substitutions={name: replace(rule, expr=map_subscripts(rule.expr, partial(_with_simplest_form, anywhere)))
                       for name, rule in kernel.substitutions.items()})


def _with_simplest_form(points: InstanceSet, index: Expression) -> Expression:
    """The simplest form of the subscript *index* at *points*."""
    # isl's parameters may have any names; a subscript may be a tuple of one
    elements = [e for e in subexpressions(index) if isinstance(e, p.Subscript)]
    keys = list(dict.fromkeys((e.aggregate, e.index_tuple) for e in elements))
    names: dict[Expression, Expression] = {
        e: p.Variable(f"<{keys.index((e.aggregate, e.index_tuple))}>") for e in elements}
    form = replaced(index, names)
    if not is_quasi_affine(form, points.inames):
        return index
    found = simplest_form(points, form)
    if found is None or _operations(found) >= _operations(form):
        return index
    return replaced(found, {v: e for e, v in names.items()})


def _operations(expr: Expression) -> tuple[int, int]:
    """The number of divisions in *expr*, and of all nodes."""
    nodes = [*subexpressions(expr)]
    return sum(isinstance(e, p.FloorDiv | p.Remainder) for e in nodes), len(nodes)
