"""Substitution rules of the text: recursive ones are refused, those with a reduction are expanded at every use."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import ParseError
from loopkit.expr.mappers import called, has_reduction, map_children, subexpressions, substitute, variables
from loopkit.expr.nodes import Reduction
from loopkit.expr.parsing import InlineReduction
from loopkit.expr.tokens import Source
from loopkit.kernel.data import SubstitutionRule
from loopkit.language.domains import Domains
from loopkit.language.program import Rule


def in_calling_order(source: Source, rules: Sequence[Rule]) -> list[Rule]:
    """*rules* with every rule after those that it calls; :raises ParseError: one calls itself."""
    by_name = {r.rule.name: r for r in rules}
    done: dict[str, Rule] = {}
    calling: list[str] = []

    def visit(rule: Rule) -> None:
        name = rule.rule.name
        if name in done:
            return
        if name in calling:
            chain = " -> ".join([*calling[calling.index(name):], name])
            raise source.error(rule.start, f"The substitution rule '{name}' calls itself ({chain}).",
                               "a rule that ends")
        calling.append(name)
        for other in sorted(called(rule.rule.expr) & by_name.keys()):
            visit(by_name[other])
        calling.pop()
        done[name] = rule
    for rule in rules:
        visit(rule)
    return list(done.values())


def split_rules(source: Source, rules: Sequence[Rule], domains: Domains) -> tuple[dict[str, Rule], dict[str, Rule]]:
    """The rules to keep, and the rules to expand at every use because they have a reduction.

    A reduction needs separate statements, which a rule cannot have.
    """
    kept: dict[str, Rule] = {}
    written_out: dict[str, Rule] = {}
    for rule in in_calling_order(source, rules):
        _require_fixed_domains(source, rule, domains)
        body = write_out(source, rule.rule.expr, written_out, rule.start)
        rule = replace(rule, rule=SubstitutionRule(rule.rule.name, rule.rule.arguments, body))
        (written_out if has_reduction(body) else kept)[rule.rule.name] = rule
    # in the order of the text
    return {r.rule.name: kept[r.rule.name] for r in rules if r.rule.name in kept}, written_out


def write_out(source: Source, expr: Expression, rules: Mapping[str, Rule], start: int) -> Expression:
    """*expr* with the calls of *rules* replaced by their bodies.

    :raises ParseError: an argument mentions an iname that the body's reduction binds.
    """
    if not rules:
        return expr

    def walk(e: Expression) -> Expression:
        e = map_children(e, walk)
        if isinstance(e, p.Call) and isinstance(e.function, p.Variable) and e.function.name in rules:
            rule = rules[e.function.name].rule
            captured = bound_inames(rule.expr) & frozenset().union(*map(variables, e.parameters))
            if captured:
                raise _captured(source, start, rule.name, min(captured))
            return substitute(rule.expr, dict(zip(rule.arguments, e.parameters, strict=True)))
        return e
    return walk(expr)


def _require_fixed_domains(source: Source, rule: Rule, domains: Domains) -> None:
    """:raises ParseError: the domain of a reduction in *rule* has an argument as a parameter."""
    for e in subexpressions(rule.rule.expr):
        if isinstance(e, InlineReduction):
            for name in domains.inline(e.domain_text).points.params:
                if name in rule.rule.arguments:
                    raise source.error(rule.start, f"The argument '{name}' of '{rule.rule.name}' bounds a domain.",
                                       "bounds in parameters and inames")


def bound_inames(expr: Expression) -> frozenset[str]:
    """Every iname that a reduction in *expr* runs over."""
    return frozenset(x for e in subexpressions(expr) if isinstance(e, Reduction) for x in e.inames)


def _captured(source: Source, start: int, rule: str, iname: str) -> ParseError:
    return source.error(start, f"An argument of '{rule}' uses the iname '{iname}', over which '{rule}' reduces.",
                        f"an argument without '{iname}'")
