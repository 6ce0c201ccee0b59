"""One execution of a statement: the operations of its expressions, and the elements that it accesses."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import expanded_expression, references
from loopkit.expr.dtypes import Type, resolve, type_of
from loopkit.expr.functions import function_of
from loopkit.expr.mappers import children
from loopkit.kernel.c_instruction import OpaqueValue, RegionRead
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement

Types = Callable[[str], Type | None]

#: A kind of operation, the dtype of its result, and a number of such operations.
Operations = Iterator[tuple[str, np.dtype, int]]

#: The next operand of a reduction; no name is equal.
_OPERAND = "<operand>"

#: Nodes with one operation, and nodes with one operation less than operands.
_SINGLE_OPERATIONS: dict[type, str] = {
    p.Quotient: "div", p.FloorDiv: "div", p.Remainder: "div", p.Power: "pow", p.LeftShift: "shift",
    p.RightShift: "shift", p.BitwiseNot: "bw"}
_CHAINED_OPERATIONS: dict[type, str] = {
    p.Sum: "add", p.Product: "mul", p.Min: "maxmin", p.Max: "maxmin", p.BitwiseAnd: "bw", p.BitwiseOr: "bw",
    p.BitwiseXor: "bw"}


def operations_of(expr: Expression, types: Types, *, in_subscripts: bool = True) -> Operations:
    """The operations of *expr*: both branches of a choice, and no comparisons, conversions or logical operations.

    >>> from loopkit.expr.parsing import parse_expression
    >>> float32 = dict.fromkeys("xy", np.dtype("float32")).get
    >>> for name, dtype, times in operations_of(parse_expression("exp(x) - 2*x + y/3"), float32):
    ...     print(times, name, dtype)
    2 add float32
    1 func:exp float32
    1 mul float32
    1 div float32
    """
    # of a - b only the sum counts: its second term is -1*b
    operands = [e for e in children(expr) if not (isinstance(expr, p.Product) and isinstance(e, int) and e == -1)]
    single, chained = _operation_name(_SINGLE_OPERATIONS, expr), _operation_name(_CHAINED_OPERATIONS, expr)
    times = 1 if single else max(len(operands) - 1, 0) if chained else 0
    name, function = single or chained, function_of(expr)
    if function is not None:
        name, times = f"func:{function.name}", 1
    if name is not None and times:
        yield name, resolve(_require_type(type_of(expr, types))), times
    if not isinstance(expr, p.Subscript) or in_subscripts:
        for e in operands:
            if isinstance(e, p.ExpressionNode | tuple):
                yield from operations_of(e, types, in_subscripts=in_subscripts)


def _require_type(found: Type | None) -> Type:
    assert found is not None, "all dtypes of a lowered kernel are known"
    return found


def _operation_name(table: dict[type, str], expr: Expression) -> str | None:
    # subclasses too: C's division is one of the quotients
    return next((name for node, name in table.items() if isinstance(expr, node)), None)


def operations_in(knl: LoopKernel, s: Statement, types: Types, *, in_subscripts: bool) -> Operations:
    """The operations of an execution of *s*: its expression, the combination of an update, and its subscripts."""
    expr = expanded_expression(knl, s)
    if isinstance(opaque := function_of(expr), OpaqueValue) and opaque.instruction is not None:
        # the operations of C code are unknown: it counts as one function of the values that it reads
        yield f"func:{opaque.instruction.id}", resolve(_require_type(types(s.written))), 1
        expr = children(expr)
    yield from operations_of(expr, types, in_subscripts=in_subscripts)
    if in_subscripts:
        for e in s.subscripts:
            yield from operations_of(e, types)
    if s.combine is None or isinstance(operation := knl.operation(s.combine), RegionRead):
        return
    combined = operation.apply(p.Variable(s.written), p.Variable(_OPERAND))
    own = types(s.written)
    operand = type_of(expr, types)
    yield from operations_of(combined, lambda name: operand if name == _OPERAND else own if name == s.written else None)


@dataclass(frozen=True)
class Reference:
    """An element that a statement loads or stores in each execution."""

    array: str
    subscripts: tuple[Expression, ...]
    direction: str


def references_of(knl: LoopKernel, s: Statement) -> Iterator[Reference]:
    """The loads and the store of an execution of *s*, each occurrence in the text once; both branches of a choice."""
    for expr in (expanded_expression(knl, s), *s.subscripts):
        for name, subscripts, _ in references(expr, None, lambda _condition, where, _holds: where):
            if name in knl.data:
                yield Reference(name, subscripts, "load")
    if s.combine is not None:
        yield Reference(s.written, s.subscripts, "load")
    yield Reference(s.written, s.subscripts, "store")
