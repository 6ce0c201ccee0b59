"""Substitution rules of the text: recursive ones are refused, those with a reduction are expanded at every use."""
from __future__ import annotations

import graphlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.mappers import called, children, has_reduction, map_children, subexpressions, substitute, variables
from loopkit.expr.nodes import Reduction
from loopkit.expr.tokens import Source
from loopkit.kernel.data import SubstitutionRule
from loopkit.language.domains import Domains
from loopkit.language.program import ParsedProgram, Rule

#: A name in an expression, and the reduction inames around it.
Mention = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class Rules:
    """The substitution rules, and the inames that expressions mention through them.

    :ivar known: the rules, with the calls of reducing ones expanded: a reduction needs separate statements, which a
        rule of the kernel cannot have.
    """

    source: Source
    domains: Domains
    known: dict[str, SubstitutionRule] = field(default_factory=dict)

    def add(self, rule: Rule) -> None:
        """Add *rule*, which calls only rules that were added before."""
        name, arguments = rule.rule.name, rule.rule.arguments
        texts = [text for e in subexpressions(rule.rule.expr) if isinstance(e, Reduction) for text in e.declared]
        for bound in (x for text in texts for x in self.domains.inline[text].params if x in arguments):
            raise self.source.error(rule.start, f"The argument '{bound}' of '{name}' bounds a domain.",
                                    "bounds in parameters and inames")
        self.known[name] = replace(rule.rule, expr=self.expanded(rule.rule.expr, rule.start, only_reducing=True))

    def expanded(self, expr: Expression, start: int, *, only_reducing: bool = False) -> Expression:
        """*expr*, at the place *start*, with the calls of all rules replaced by their bodies, or of those *reducing*.

        :raises ParseError: an argument mentions an iname that the body's reduction binds.
        """
        rules = {name: rule for name, rule in self.known.items() if has_reduction(rule.expr) or not only_reducing}
        if not rules:
            return expr

        def walk(e: Expression) -> Expression:
            e = map_children(e, walk)
            if not (isinstance(e, p.Call) and isinstance(e.function, p.Variable) and e.function.name in rules):
                return e
            rule = rules[e.function.name]
            captured = bound_inames(rule.expr) & frozenset().union(*map(variables, e.parameters))
            if captured:
                iname = min(captured)
                raise self.source.error(
                    start, f"An argument of '{rule.name}' uses the iname '{iname}', over which '{rule.name}' reduces.",
                    f"an argument without '{iname}'")
            return walk(substitute(rule.expr, dict(zip(rule.arguments, e.parameters, strict=True))))
        return walk(expr)

    def mentions(self, expr: Expression, around: tuple[str, ...] = ()) -> Iterator[Mention]:
        """The names in *expr* and in the rules that it calls, and those that bound the domains of its reductions."""
        match expr:
            case p.Variable(name=name):
                yield name, around
            case Reduction():
                bounds = self.domains.bounds(expr.inames, expr.declared).difference(expr.inames)
                yield from ((name, around) for name in bounds)
                yield from self.mentions(expr.expr, around + expr.inames)
            case _:
                if isinstance(expr, p.Call) and isinstance(expr.function, p.Variable) and (
                        rule := self.known.get(expr.function.name)):
                    yield from (found for found in self.mentions(rule.expr, around) if found[0] not in rule.arguments)
                for child in children(expr):
                    yield from self.mentions(child, around)

    def free_inames(self, mentions: Iterable[Mention]) -> frozenset[str]:
        """The inames among *mentions*, those left out that a reduction around them binds."""
        # an inline iname of a reduction is no iname of the kernel
        return frozenset(x for x, around in mentions if x in self.domains.parents and x not in around)


def read_rules(program: ParsedProgram, domains: Domains) -> Rules:
    """The rules of *program*; :raises ParseError: one calls itself, or its argument bounds a domain."""
    by_name = {r.rule.name: r for r in program.rules}
    calls = {name: sorted(called(r.rule.expr) & by_name.keys()) for name, r in by_name.items()}
    rules = Rules(program.source, domains)
    try:
        for name in graphlib.TopologicalSorter(calls).static_order():
            rules.add(by_name[name])
    except graphlib.CycleError as err:
        *cycle, _ = reversed(err.args[1])
        at = cycle.index(min(cycle, key=list(by_name).index))
        chain = [*cycle[at:], *cycle[:at + 1]]
        raise program.source.error(by_name[chain[0]].start, f"The substitution rule '{chain[0]}' calls itself "
                                   f"({' -> '.join(chain)}).", "a rule that ends") from None
    return replace(rules, known={name: rules.known[name] for name in by_name})


def bound_inames(expr: Expression) -> frozenset[str]:
    """Every iname that a reduction in *expr* runs over."""
    return frozenset(x for e in (subexpressions(expr) if has_reduction(expr) else ()) if isinstance(e, Reduction)
                     for x in e.inames)
