"""The parts of the expression parser that read tuples, and the operands of reductions over tuples."""
from __future__ import annotations

from collections.abc import Callable

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.nodes import MakeTuple, Operation
from loopkit.expr.tokens import Cursor
from loopkit.expr.tuple_operations import Extremum
from loopkit.expr.tuples import field_fault, fields_of, place_names


def tuple_of(values: list[Expression]) -> MakeTuple:
    """``(x, y)``: a tuple without names."""
    return MakeTuple(place_names(len(values)), tuple(values))


def segmented_name(cursor: Cursor) -> str:
    """The name of a segmented reduction, after ``segmented``."""
    cursor.take("(")
    inner = cursor.name("a reduction: segmented(sum)")
    cursor.take(")")
    return f"segmented({inner})"


def read_tuple(cursor: Cursor, read: Callable[[], Expression], at: int) -> MakeTuple:
    """``make_tuple(x, i)`` or ``make_tuple(value=x, index=i)``, the token at *at*, after its parenthesis.

    :arg read: reads an expression.
    :raises ParseError: it has one value, or only some of its values have names.
    """
    names: list[str] = []

    def value() -> Expression:
        if cursor.kind == "name" and cursor.tokens[cursor.at + 1].text == "=":
            name, fault = cursor.text, field_fault(cursor.text)
            if fault is not None or name in names:
                raise cursor.error("another name", message=f"The field '{name}' {fault or 'is named twice'}.")
            names.append(name)
            cursor.at += 2
        return read()
    values = [] if cursor.text == ")" else cursor.separated(value)
    cursor.take(")", "',' or ')'")
    if len(values) < 2 or len(names) not in (0, len(values)):
        raise cursor.error("two values or more, all or none of them with a name", at=at, message="This is not a tuple.",
                           hint="make_tuple(value=x[i], index=i)")
    return MakeTuple(tuple(names), tuple(values)) if names else tuple_of(values)


def with_fields(cursor: Cursor, operation: Operation, inames: tuple[str, ...], operands: list[Expression], at: int
                ) -> Expression:
    """The operand of a reduction from the *operands* in the text: a tuple of them, if *operation* combines tuples.

    :arg at: the token that names the reduction.
    :raises ParseError: there is not one operand for each field.
    """
    fields = operation.fields
    if not fields or (len(operands) == 1 and fields_of(operands[0]) == fields):
        return operands[0]
    if len(operands) == 1 and isinstance(operands[0], MakeTuple):
        operands = [*operands[0].values]
    elif len(operands) == 1 and not isinstance(operation, Extremum):
        return operands[0]                              # the dtype rules tell whether it is such a tuple
    elif len(operands) == len(inames) == 1:
        operands = [operands[0], p.Variable(inames[0])]
    if len(operands) != len(fields):
        raise cursor.error(f"an operand for each of {', '.join(fields)}", at=at,
                           message=f"The reduction '{operation.name}' combines tuples of {len(fields)} values, not of "
                                   f"{len(operands)}.", hint=f"{operation.name}({', '.join(('k', *fields))})")
    return MakeTuple(fields, tuple(operands))
