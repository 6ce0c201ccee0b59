"""Reductions in one loop with other statements.

In loopy a loop is entered once, so that a reduction shares its loop with the statements that have its iname. loopkit
runs a reduction on its own. The layer writes a reduction out as updates of a temporary if another statement in its loop
computes the bounds of its inner loop::

    for k                                       for k
        <> n_k = count[k]                           <> n_k = count[k]
    end                                             for j
    y = sum([k, j], x[j])                               acc = acc + x[j]
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import pymbolic.primitives as p
from pymbolic.typing import ArithmeticExpression, Expression

from loopkit.errors import UndecidedError
from loopkit.expr.mappers import map_children, subexpressions, variables
from loopkit.expr.nodes import Reduction
from loopkit.expr.tokens import Token
from loopkit.language.domains import Domains
from loopkit.language.names import fresh
from loopkit.language.program import FunctionCall, Marker, ParsedAssignment


@dataclass(frozen=True)
class LoopyStatement:
    """One assignment or call of the program, or a line that only orders others.

    :ivar conditions: those of its blocks and of its own.
    :ivar reads: every name that it reads, also through substitution rules; *writes*: every name that it writes.
    """

    id: str
    node: ParsedAssignment | FunctionCall | Marker
    inames: frozenset[str] = frozenset()
    conditions: tuple[Expression, ...] = ()
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()


def with_shared_loops(statements: Sequence[LoopyStatement], domains: Domains, taken: Collection[str]
                      ) -> tuple[LoopyStatement, ...]:
    """*statements* with the reductions written out whose bounds other statements in their loops compute.

    :arg taken: the names of the program.
    :raises UndecidedError: such a reduction is not a sum or a product.
    """
    inside: dict[str, set[str]] = {}
    for s in statements:
        for name in s.writes:
            inside.setdefault(name, set()).update(s.inames)

    def is_shared(node: Expression) -> bool:
        every = {x for e in subexpressions(node) if isinstance(e, Reduction) for x in e.inames}
        return isinstance(node, Reduction) and any(
            not inside.get(name, set()).isdisjoint(node.inames) for name in domains.bounds(every))
    names = {*taken}
    return tuple(new for s in statements for new in _WrittenOut(s, domains, names).parts(is_shared))


#: The neutral elements of the reductions that are written out.
_NEUTRAL = {"sum": 0, "product": 1}


@dataclass(frozen=True)
class _WrittenOut:
    """A statement whose reductions are written out.

    :ivar taken: the names and ids of the program, which grow.
    """

    statement: LoopyStatement
    domains: Domains
    taken: set[str]
    before: list[LoopyStatement] = field(default_factory=list)

    def parts(self, is_shared: Callable[[Expression], bool]) -> Iterator[LoopyStatement]:
        """The statements in place of this one; :raises UndecidedError: a reduction is not a sum or a product."""
        node = self.statement.node
        if not isinstance(node, ParsedAssignment) or not any(map(is_shared, subexpressions(node.expression))):
            yield self.statement
            return

        def without(expr: Expression) -> Expression:
            return self._value(expr) if isinstance(expr, Reduction) and is_shared(expr) else map_children(expr, without)
        expression = without(node.expression)
        own = replace(self.statement, reads=self.statement.reads | variables(expression))
        yield from self.before
        yield replace(own, node=_after(replace(node, expression=expression), self.before))

    def _value(self, reduction: Reduction) -> Expression:
        """The temporary that holds the value of *reduction*."""
        s, label = self.statement, "_".join(reduction.inames)
        if reduction.operation not in _NEUTRAL or reduction.declared:
            raise UndecidedError(
                f"'{s.id}' computes the {reduction.operation} over {', '.join(reduction.inames)} in one loop with the "
                "statement that gives its bounds.", "only a sum or a product over declared inames is written out",
                hint="write it as a loop that updates a temporary")
        acc = p.Variable(fresh(f"acc_{label}", self.taken))
        neutral = _NEUTRAL[reduction.operation]
        operands = (acc, cast("ArithmeticExpression", reduction.expr))
        combined = p.Sum(operands) if neutral == 0 else p.Product(operands)
        inames = self.domains.ancestors(s.inames.union(reduction.inames))
        init = self._part(f"{s.id}_{label}_init", acc, neutral, s.inames, frozenset(), temporary="")
        update = self._part(f"{s.id}_{label}_update", acc, combined, inames,
                            s.reads | self.domains.bounds(inames) | {acc.name}, after=[init])
        self.before.extend((init, update))
        return acc

    def _part(self, name: str, acc: p.Variable, value: Expression, inames: frozenset[str], reads: frozenset[str], *,
              temporary: str | None = None, after: Iterable[LoopyStatement] = ()) -> LoopyStatement:
        node = self.statement.node
        assert isinstance(node, ParsedAssignment)
        new = replace(node, assignee=acc, written=acc.name, expression=value, temporary=temporary, beside=())
        return LoopyStatement(fresh(name, self.taken), _after(new, after), inames, self.statement.conditions, reads,
                              frozenset({acc.name}))


def _after(node: ParsedAssignment, others: Iterable[LoopyStatement]) -> ParsedAssignment:
    """*node* with ``dep=`` on *others*."""
    dep = (*node.options.dep, *(Token("name", s.id, node.start) for s in others))
    return replace(node, options=replace(node.options, dep=dep))
