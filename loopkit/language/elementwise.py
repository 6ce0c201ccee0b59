"""Arithmetic of vectors, declared tuples of numbers of one dtype: each operation is one of the fields.

``a*x[i] + b*y[i]`` of tuples with the fields ``x`` and ``y`` becomes ``make_tuple(x=a.x*x[i].x + b.x*y[i].x, ...)``.
A sum or product over an iname becomes a reduction over tuples, which :func:`fieldwise` makes. A number is an operand of
each field. Everything after parsing has arithmetic of numbers only.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import PreconditionError
from loopkit.expr.functions import ScalarFunction, function_of
from loopkit.expr.kinds import titles
from loopkit.expr.mappers import children, map_children, with_children
from loopkit.expr.nodes import REDUCTIONS, MakeTuple, Reduction, TypeCast, product_of, to_text
from loopkit.expr.operations import ReductionOperation
from loopkit.expr.tuples import field_dtypes, field_names, fields_of
from loopkit.language.arguments import Declared
from loopkit.language.program import ForBlock, IfBlock, ParsedAssignment, ParsedProgram, ProgramNode, assignments

#: The inner product of two vectors, for the parser; no call of it remains.
DOT = ScalarFunction("dot", 2)

_ARITHMETIC = (p.Sum, p.Product, p.Quotient, p.FloorDiv, p.Remainder, p.Power, p.Min, p.Max, TypeCast)

#: The operator and the neutral number of the reductions that :func:`fieldwise` makes.
_FIELDWISE = {"sum": ("+", 0), "product": ("*", 1)}

_Fields = tuple[str, ...]


class _Parts(NamedTuple):
    """The fields of a tuple, and their values."""

    fields: _Fields
    values: tuple[Expression, ...]


def declared_vectors(declared: Declared) -> dict[str, _Fields]:
    """The fields of each array or temporary that is declared as a tuple of numbers of one dtype."""
    return {name: field_names(d.dtype) for name, d in declared.items()
            if not isinstance(d, str) and d.dtype is not None and len({*field_dtypes(d.dtype).values()}) == 1}


def functions_with_dot(declared: Declared, others: Mapping[str, ScalarFunction]) -> Mapping[str, ScalarFunction]:
    """*others*, with ``dot`` if there are vectors and no function of the user has this name."""
    return {DOT.name: DOT, **others} if declared_vectors(declared) else others


def fieldwise(operation: str, fields: Sequence[str]) -> ReductionOperation:
    """The sum or the product of tuples with *fields*.

    >>> fieldwise("sum", ["x", "y"]).name
    'sum_of_x_y'
    """
    sign, neutral = _FIELDWISE[operation]
    return ReductionOperation("_".join([operation, "of", *fields]), {x: f"a.{x} {sign} b.{x}" for x in fields},
                              neutral=dict.fromkeys(fields, neutral), reorderable=True)


def is_fieldwise(operation: ReductionOperation) -> bool:
    """Is *operation* one that :func:`fieldwise` makes? It is surely reorderable."""
    inner = operation.name.partition("_of_")[0]
    return inner in _FIELDWISE and bool(operation.fields) and operation == fieldwise(inner, operation.fields)


def in_fields(parsed: ParsedProgram, declared: Declared) -> tuple[ParsedProgram, Mapping[str, ReductionOperation]]:
    """*parsed* with the arithmetic of vectors, and of temporaries that get it, as arithmetic of their fields.

    The second result are the reductions of tuples that it needs, by name.

    :raises PreconditionError: two tuples of one operation have different fields.
    """
    known = declared_vectors(declared)
    if not known:
        return parsed, {}
    others = {title: name for d in declared.values() if not isinstance(d, str) and d.dtype is not None
              for name, title in titles(d.dtype).items()}
    rules = {rule.rule.name: rule.rule.expr for rule in parsed.rules}
    while True:
        reader, before = _Fielded(known, others), len(known)
        written = {s.written: s.expression for s in assignments(parsed.body) if s.written not in declared}
        for name, expr in {**rules, **written}.items():
            if name not in known and (found := reader.parts(expr)) is not None:
                known[name] = found.fields
        if len(known) == before:
            break
    new = replace(parsed, body=tuple(_changed(node, reader.value) for node in parsed.body), rules=tuple(
        replace(rule, rule=replace(rule.rule, expr=reader.value(rule.rule.expr))) for rule in parsed.rules))
    return new, {x.name: x for x in reader.reductions.values()}


def _changed(node: ProgramNode, change: Callable[[Expression], Expression]) -> ProgramNode:
    match node:
        case ParsedAssignment():
            condition = node.options.condition
            options = node.options if condition is None else replace(node.options, condition=change(condition))
            return replace(node, expression=change(node.expression), options=options)
        case ForBlock():
            return replace(node, body=tuple(_changed(x, change) for x in node.body))
        case IfBlock():
            return replace(node, condition=change(node.condition), then=tuple(_changed(x, change) for x in node.then),
                           otherwise=tuple(_changed(x, change) for x in node.otherwise))
        case _:
            return node


@dataclass(frozen=True)
class _Fielded:
    """Replaces arithmetic of tuples.

    :ivar known: the fields of arrays, temporaries and rules whose values are tuples.
    :ivar others: the fields by their other names.
    :ivar reductions: the reductions of tuples so far.
    """

    known: Mapping[str, _Fields]
    others: Mapping[str, str]
    reductions: dict[tuple[str, _Fields], ReductionOperation] = field(default_factory=dict)

    def value(self, e: Expression) -> Expression:
        """*e* with arithmetic of numbers only; a tuple that is computed is made of its fields."""
        match e:
            case p.Call(parameters=(left, right)) if function_of(e) is DOT:
                return self._dot(left, right)
            case p.Lookup(aggregate=aggregate, name=name) if (found := self.parts(aggregate)) is not None:
                name = name if name in found.fields else self.others.get(name, name)
                return found.values[found.fields.index(name)] if name in found.fields else p.Lookup(
                    self.value(aggregate), name)
            case Reduction(operation=operation) if operation in _FIELDWISE and (whole := self._whole(e)) is not None:
                return whole
            case _ if isinstance(e, (Reduction, p.Call, *_ARITHMETIC)) and not self._is_known(e):
                made = self.parts(e)
                return map_children(e, self.value) if made is None else MakeTuple(*made)
            case _:
                return map_children(e, self.value)

    def _is_known(self, e: Expression) -> bool:
        match e:
            case p.Variable() | p.Subscript(aggregate=p.Variable()) | p.Call(function=p.Variable()):
                return _read_name(e) in self.known
            case _:
                return False

    def parts(self, e: Expression) -> _Parts | None:
        """The fields of *e* as numbers; ``None``: it is not a tuple, or its fields are unknown."""
        match e:
            case _ if self._is_known(e):
                whole, fields = map_children(e, self.value), self.known[_read_name(e)]
                return _Parts(fields, tuple(p.Lookup(whole, x) for x in fields))
            case MakeTuple(fields=fields, values=values):
                return _Parts(fields, tuple(map(self.value, values)))
            case p.If(condition=condition, then=then, else_=otherwise):
                test = self.value(condition)
                return self._each(e, (then, otherwise), lambda a, b: p.If(test, a, b))
            case Reduction(operation=operation) if operation in _FIELDWISE:
                total = self._whole(e)
                return None if total is None else _Parts(fields_of(total), tuple(
                    p.Lookup(total, x) for x in fields_of(total)))
            case Reduction(operation=operation) if operation in REDUCTIONS:
                return self._each(e, (e.expr,), lambda a: replace(e, expr=a))
            case p.Call() if function_of(e) is not DOT:
                return self._each(e, e.parameters, lambda *own: p.Call(e.function, own))
            case _ if isinstance(e, _ARITHMETIC):
                return self._each(e, children(e), lambda *own: with_children(e, own))
            case _:
                return None

    def _whole(self, e: Reduction) -> Reduction | None:
        """*e*, a sum or product of tuples, as one reduction; ``None``: it is of numbers."""
        operand = self.parts(e.expr)
        if operand is None:
            return None
        key = e.operation, operand.fields
        if key not in self.reductions:
            self.reductions[key] = fieldwise(*key)
        return replace(e, operation=self.reductions[key].name, expr=MakeTuple(*operand))

    def _each(self, e: Expression, operands: Sequence[Expression], made: Callable[..., Expression]) -> _Parts | None:
        """The operation *made* for each field of *operands*, some of which may be numbers."""
        found = [self.parts(x) for x in operands]
        tuples = [x for x in found if x is not None]
        if not tuples:
            return None
        fields = tuples[0].fields
        if any(x.fields != fields for x in tuples):
            raise PreconditionError(f"{to_text(e)} combines tuples with the fields {', '.join(fields)} and others.",
                                    subject=to_text(e), hint="write the fields of the result: make_tuple(x=..., ...)")
        numbers = [None if x is not None else self.value(given) for x, given in zip(found, operands, strict=True)]
        return _Parts(fields, tuple(made(*(numbers[j] if x is None else x.values[k] for j, x in enumerate(found)))
                                    for k in range(len(fields))))

    def _dot(self, left: Expression, right: Expression) -> Expression:
        found = self._each(p.Product((left, right)), (left, right), product_of)           # type: ignore[arg-type]
        if found is None:
            raise PreconditionError(f"dot({to_text(left)}, {to_text(right)}) is not of vectors.", subject="dot",
                                    hint="declare the dtype of the arrays")
        return p.Sum(found.values)                                                        # type: ignore[arg-type]


def _read_name(e: Expression) -> str:
    """The name of the array, the temporary or the rule that *e* reads."""
    inner = e.aggregate if isinstance(e, p.Subscript) else e.function if isinstance(e, p.Call) else e
    assert isinstance(inner, p.Variable)
    return inner.name
