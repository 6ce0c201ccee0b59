"""loopkit's own expression nodes beside pymbolic's, the reductions of the language, and constructors of any nodes."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pymbolic.primitives as p
from pymbolic.mapper.stringifier import PREC_NONE, StringifyMapper
from pymbolic.typing import ArithmeticExpression, Expression

from loopkit.expr.kinds import kind_of, named_dtype


class _NodeStringifier(StringifyMapper[[]]):
    """Gives our nodes a ``str``: enough for a message, also for nodes inside pymbolic's."""

    def map_reduction(self, expr: Reduction, enclosing_prec: int) -> str:
        inames = expr.inames[0] if len(expr.inames) == 1 else f"[{', '.join(expr.inames)}]"
        return f"{expr.operation}({inames}, {self.rec(expr.expr, PREC_NONE)})"

    def map_type_cast(self, expr: TypeCast, enclosing_prec: int) -> str:
        return f"cast({expr.dtype_name}, {self.rec(expr.child, PREC_NONE)})"

    def map_neutral(self, expr: Neutral, enclosing_prec: int) -> str:
        return f"neutral({expr.operation})"


class _Node(p.ExpressionNode):
    """Base of our nodes; it teaches them to print."""

    def make_stringifier(self, originating_stringifier: object = None) -> StringifyMapper[[]]:
        return _NodeStringifier()


@p.expr_dataclass()
class Reduction(_Node):
    """``sum([i, j], expr)``: *operation* over *inames* of *expr*.

    It exists only between parsing and the making of the kernel. A kernel has its reductions as statements (init,
    update, final): :class:`loopkit.kernel.statement.ReductionNode`.

    :ivar declared: the text of the domain that it declares for its inames, ``sum({[k]: 0<=k<i}, expr)``, if it does.
    """

    operation: str
    inames: tuple[str, ...]
    expr: Expression
    declared: tuple[str, ...] = ()


@p.expr_dataclass()
class TypeCast(_Node):
    """``cast(float32, child)``: *child* converted to the dtype called *dtype_name*."""

    dtype_name: str
    child: Expression

    @property
    def dtype(self) -> np.dtype:
        return named_dtype(self.dtype_name)


@p.expr_dataclass()
class Neutral(_Node):
    """The neutral element of a reduction operation; it gets its value with the accumulator's dtype."""

    operation: str


#: The node that combines two operands, by the names of :class:`Operation`.
COMBINED: Mapping[str, Callable[[Any], Expression]] = {
    "+": p.Sum, "*": p.Product, "min": p.Min, "max": p.Max, "and": p.LogicalAnd, "or": p.LogicalOr}


@dataclass(frozen=True)
class Operation:
    """The operation of a reduction; a new one is one frozen value.

    :ivar name: its name in the language.
    :ivar combine: the two-operand form: ``"+"``, ``"*"``, ``"min"``, ``"max"``, ``"and"``, ``"or"``; for a user's
        operation, an expression.
    :cvar reorderable: operands may be combined in any order and grouping.
    """

    name: str
    combine: str
    reorderable = True

    def neutral_of(self, dtype: np.dtype) -> object:
        """The neutral element as a numpy scalar of *dtype*."""
        if self.combine in ("+", "*"):
            return dtype.type(1 if self.combine == "*" else 0)
        largest = self.combine in ("min", "and")
        if self.combine in ("and", "or") or dtype.kind == "b":
            return np.bool_(largest)
        if kind_of(dtype) == "f":
            return dtype.type(np.inf if largest else -np.inf)
        return dtype.type(np.iinfo(dtype).max if largest else np.iinfo(dtype).min)

    def apply(self, a: Expression, b: Expression) -> Expression:
        """``a combined with b`` as an expression."""
        return COMBINED[self.combine]((a, b))


REDUCTIONS = {op.name: op for op in (
    Operation("sum", "+"), Operation("product", "*"), Operation("min", "min"), Operation("max", "max"),
    Operation("any", "or"), Operation("all", "and"))}


# pymbolic's types keep truth values out of arithmetic; the kernel language allows them there, as C and numpy do

def product_of(*factors: Expression) -> p.Product:
    """``a * b * ...``, as one node."""
    return p.Product(cast("tuple[ArithmeticExpression, ...]", factors))


def onto(node: Callable[[Any], Expression], left: Expression, right: Expression) -> Expression:
    """``left + right`` (or another operation of several operands) with the operands of *left* taken in."""
    taken_in = left.children if isinstance(left, p.Sum | p.Product | p.LogicalAnd | p.LogicalOr) \
        and type(left) is node else (left,)
    return node((*taken_in, right))


def negated(expr: Expression) -> Expression:
    """``-expr`` with the sign in the leading constant: ``-2*x`` for ``2*x``, ``-1*x`` for ``x``."""
    first, *rest = expr.children if isinstance(expr, p.Product) else (expr,)
    if not isinstance(first, int | float | complex | np.number) or isinstance(first, bool):
        return product_of(-1, first, *rest)
    if not rest:
        return -first
    if first == -1 and isinstance(first, int):
        return rest[0] if len(rest) == 1 else product_of(*rest)
    return product_of(-first, *rest)
