"""The inames of a statement, from the names in its text."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.mappers import children
from loopkit.expr.nodes import Reduction
from loopkit.expr.parsing import RULE, InlineReduction, NameUse
from loopkit.language.domains import Domains
from loopkit.language.program import Rule


@dataclass
class Mentions:
    """Finds the inames in expressions, through the substitution rules that they call.

    :ivar in_rules: the free inames of each rule.
    """

    domains: Domains
    in_rules: dict[str, frozenset[str]] = field(default_factory=dict)

    def add_rules(self, rules: Mapping[str, Rule]) -> None:
        """Add the inames of *rules*, in which each rule comes after those that it calls."""
        for name, rule in rules.items():
            self.in_rules[name] = self.free(rule.rule.expr).difference(rule.rule.arguments)

    def free(self, expr: Expression) -> frozenset[str]:
        """The inames that *expr* mentions outside of reductions over them, and those that its reductions' domains
        need.
        """
        match expr:
            case p.Variable(name=name):
                return frozenset((name,)) if name in self.domains.order else frozenset()
            case InlineReduction():
                needed = self.domains.inline(expr.domain_text).points.params
                found = self.free(expr.expr).union(x for x in needed if x in self.domains.order or x in expr.inames)
                # an inline iname of a reduction around this one is no iname of the kernel and falls out there
                return self.domains.ancestors(found.difference(expr.inames))
            case Reduction():
                found = self.free(expr.expr) | self.domains.ancestors(expr.inames)
                return found.difference(expr.inames)
            case _:
                return self._in_children(expr)

    def _in_children(self, expr: Expression) -> frozenset[str]:
        found = frozenset().union(*map(self.free, children(expr)))
        if isinstance(expr, p.Call) and isinstance(expr.function, p.Variable):
            found |= self.in_rules.get(expr.function.name, frozenset())
        return found

    def in_uses(self, uses: Iterable[NameUse]) -> frozenset[str]:
        """The inames among *uses*: the result of :meth:`free` for text without reductions, computed faster."""
        order = self.domains.order
        found = frozenset([u.name for u in uses if u.name in order])
        for use in uses:
            if use.rank == RULE:
                found |= self.in_rules.get(use.name, frozenset())
        return found
