"""The elements that one instance accesses, by evaluation: for subscripts and conditions that are not affine."""
from __future__ import annotations

from collections.abc import Iterator, Mapping

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import data_params, expand_rules, expanded_expression
from loopkit.expr.evaluate import known_value
from loopkit.expr.mappers import children
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement

#: An element (``None``: it depends on data), and whether it is written.
EvaluatedAccess = tuple[tuple[int, ...] | None, bool]


def accesses_at(knl: LoopKernel, statement: Statement, array: str, point: Mapping[str, int]
               ) -> frozenset[EvaluatedAccess] | None:
    """The elements of *array* that one instance of *statement* reads and writes.

    Empty if a condition of the statement fails; ``None`` if data decides whether the instance runs.

    :arg point: the values of parameters and inames.
    """
    if data_params(knl, statement.domain):
        return None
    holds = [known_value(expand_rules(e, knl.substitutions), point) for e in statement.predicates]
    if 0 in holds:
        return frozenset()
    return None if None in holds else frozenset(_evaluated(knl, statement, array, point))


def _evaluated(knl: LoopKernel, s: Statement, array: str, point: Mapping[str, int]) -> Iterator[EvaluatedAccess]:
    def element(e: Expression) -> tuple[int, ...] | None:
        values = [known_value(x, point) for x in e.index_tuple] if isinstance(e, p.Subscript) else []
        known = tuple(v for v in values if v is not None)
        return known if len(known) == len(values) else None

    def reads(e: Expression) -> Iterator[EvaluatedAccess]:
        match e:
            case p.Subscript(aggregate=p.Variable(name=name)):
                for x in e.index_tuple:
                    yield from reads(x)
                if name == array:
                    yield element(e), False
            case p.Variable(name=name):
                if name == array:
                    yield (), False
            case p.Call(parameters=arguments):
                for x in arguments:
                    yield from reads(x)
            case p.If(condition=condition, then=then, else_=else_):
                yield from reads(condition)
                holds = known_value(condition, point)
                if holds is not None:
                    yield from reads(then if holds else else_)
                else:
                    yield None, False
            case p.LogicalAnd() | p.LogicalOr():
                for x in e.children:
                    yield from reads(x)
                    value = known_value(x, point)
                    if value is None or bool(value) == isinstance(e, p.LogicalOr):
                        break
            case _:
                for x in children(e):
                    yield from reads(x)
    for e in (*s.predicates, expanded_expression(knl, s), *s.subscripts):
        yield from reads(expand_rules(e, knl.substitutions))
    if s.written == array:
        if s.combine is not None:
            yield element(s.assignee), False
        yield element(s.assignee), True
