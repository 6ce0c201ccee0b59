"""extract_subst makes a substitution rule of an expression; expand_subst expands rules in place."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import expand_rules, reached
from loopkit.analysis.constructors import rewritten
from loopkit.analysis.match import Within
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import arguments_of, called, has_reduction, map_children, substitute, variables
from loopkit.expr.parsing import KnownNames, parse_expression
from loopkit.expr.tuple_operations import BUILT_IN
from loopkit.kernel.data import SubstitutionRule
from loopkit.kernel.folding import uses_of_rule
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.language.names import name_list
from loopkit.transform.step import known_list, matching_statements, require_fresh, transform


@transform
def extract_subst(kernel: LoopKernel, subst_name: str, template: str, parameters: str | Iterable[str] = (), *,
                  within: Within = None) -> LoopKernel:
    """Replace every subexpression that matches *template* by a use of the new substitution rule *subst_name*.

    :arg template: an expression in the kernel language. If it holds a reduction, the rule is a name for it: the kernel
        keeps the statements of the reduction.
    :arg parameters: names in the template that match any expression; they become the arguments of the rule.
    :raises NameConflictError: the rule's name is taken.
    :raises PreconditionError: nothing matches, or a parameter does not occur in the template.
    :raises ParseError: the template cannot be read.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i] + sin(x[i])")
    >>> print(lk.extract_subst(knl, "load", "x[s]", "s").statements_text)
    for i
      y[i] = 2*load(i) + sin(load(i))  {id=insn}
    end
    """
    require_fresh(kernel, subst_name, called=True)
    names = name_list(parameters)
    pattern = parse_expression(template, known=KnownNames(
        kernel.inames, operations={**BUILT_IN, **kernel.operations}, functions=kernel.functions))
    for name in names:
        if name not in variables(pattern):
            raise PreconditionError(f"The parameter '{name}' is not in the template '{template}'.",
                                    subject=name)
    chosen = matching_statements(kernel, within)
    rule = SubstitutionRule(subst_name, names, pattern)
    if has_reduction(pattern):
        if within is not None:
            raise PreconditionError(f"The rule '{subst_name}' holds a reduction: it has all statements of its form as "
                                    "uses.", subject=subst_name, hint="leave within= out")
        if not any(True for s in kernel.statements for _ in uses_of_rule(kernel, rule, s)):
            raise PreconditionError(f"Nothing in the kernel matches '{template}'.", subject=template)
        return rewritten(kernel, substitutions={**kernel.substitutions, subst_name: rule})
    statements = tuple(replace(s, expression=with_calls_of(rule, s.expression)) if s.id in chosen else s
                       for s in kernel.statements)
    if all(new.expression is old.expression for new, old in zip(statements, kernel.statements, strict=True)):
        raise PreconditionError(f"Nothing in the kernel matches '{template}'.", subject=template)
    return rewritten(kernel, statements=statements, substitutions={**kernel.substitutions, subst_name: rule})


@transform
def expand_subst(kernel: LoopKernel, subst_names: str | Iterable[str] | None = None, *,
                 within: Within = None, in_rules: str | Iterable[str] | None = None) -> LoopKernel:
    """Replace the uses of substitution rules by the bodies of the rules, and drop rules without further uses.

    :arg subst_names: the names of the rules; default: all.
    :arg in_rules: expand the uses in the bodies of these rules only; the statements keep theirs.
    :raises UnknownNameError: there is no such rule.
    :raises PreconditionError: *within* and *in_rules* are given.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "load(s) := x[s]\\n y[i] = 2*load(i)")
    >>> print(knl.statements_text)
    for i
      y[i] = 2*load(i)  {id=insn}
    end
    >>> print(lk.expand_subst(knl).statements_text)
    for i
      y[i] = 2*x[i]  {id=insn}
    end
    """
    names = kernel.substitutions if subst_names is None else subst_names
    chosen = known_list("substitution rule", names, kernel.substitutions)
    if in_rules is None:
        return without_rules(kernel, chosen, within)
    if within is not None:
        raise PreconditionError("within= selects statements, and in_rules= selects rules.", subject="in_rules",
                                hint="expand in two steps")
    rules, inside = kernel.substitutions, known_list("substitution rule", in_rules, kernel.substitutions)
    own = {name: rules[name] for name in chosen}
    rules = {**rules, **{x: replace(rules[x], expr=expand_rules(rules[x].expr, own)) for x in inside}}
    used = names_used(kernel.statements, rules.values())
    return rewritten(kernel, substitutions={x: rule for x, rule in rules.items() if x not in own or x in used})


def rules_using(kernel: LoopKernel, names: Collection[str]) -> frozenset[str]:
    """The substitution rules in which one of *names* is free, directly or through other rules."""
    free = {r.name: variables(r.expr).difference(r.arguments) | called(r.expr) for r in kernel.substitutions.values()}
    using = reached(names, lambda name: (rule for rule, own in free.items() if name in own))
    return frozenset(rule for rule, own in free.items() if not own.isdisjoint(using))


def with_free_inames(kernel: LoopKernel, rule: SubstitutionRule, inames: Collection[str]
                     ) -> tuple[SubstitutionRule, Collection[str]]:
    """*rule* with the bodies of those rules in it that mention one of *inames* freely, and their names."""
    using = {name: r for name in sorted(rules_using(kernel, inames)) if (r := kernel.substitutions[name]) != rule}
    return replace(rule, expr=expand_rules(rule.expr, using)), [
        name for name, r in using.items() if not variables(r.expr).isdisjoint(inames)]


def with_rules_in(kernel: LoopKernel, statements: Collection[str], names: Collection[str], inames: Sequence[str]
                  ) -> LoopKernel:
    """*kernel* with the unused rules *names* for those parts of *statements* that have their forms.

    :arg inames: inames that the rules mention freely, and in whose places *statements* have others: the rules get
        these. A rule without such parts is dropped.
    """
    for name in names:
        rule, others = kernel.substitutions[name], {x: r for x, r in kernel.substitutions.items() if x != name}
        if name in names_used(kernel.statements, others.values()):
            continue
        free, found = tuple(x for x in inames if x in variables(rule.expr)), dict[Expression, tuple[Expression, ...]]()
        new = {s: with_calls_of(rule, kernel.statement_by_id[s].expression, free, found) for s in statements}
        values = {args[len(rule.arguments):] for args in found.values()}
        if len(values) != 1:
            kernel = rewritten(kernel, substitutions=others)
            continue
        own = replace(rule, expr=substitute(rule.expr, dict(zip(free, values.pop(), strict=True))))
        kernel = rewritten(kernel, substitutions={**others, name: own}, statements=tuple(
            replace(s, expression=new[s.id]) if s.id in new else s for s in kernel.statements))
    return kernel


def with_calls_of(rule: SubstitutionRule, expr: Expression, free: tuple[str, ...] = (),
                  found: dict[Expression, tuple[Expression, ...]] | None = None) -> Expression:
    """*expr* with calls of *rule* in place of the parts that have its form, in which *free* names may be anything.

    :arg found: gets the arguments of each part, and what it has in place of the *free* names.
    """
    args = arguments_of(rule.expr, (*rule.arguments, *free), expr)
    if args is None:
        return map_children(expr, lambda part: with_calls_of(rule, part, free, found))
    if found is not None:
        found[expr] = args
    own = args[:len(rule.arguments)]
    return p.Call(p.Variable(rule.name), tuple(with_calls_of(rule, part, free, found) for part in own))


def names_used(statements: Iterable[Statement], rules: Iterable[SubstitutionRule]) -> frozenset[str]:
    """The names in the values and conditions of *statements* and in the bodies of *rules*."""
    every = (*(e for s in statements for e in (s.expression, *s.predicates)), *(rule.expr for rule in rules))
    return frozenset[str]().union(*(f(e) for e in every for f in (variables, called)))


def without_rules(kernel: LoopKernel, names: Collection[str], within: Within = None
                  ) -> LoopKernel:
    """*kernel* with the substitution rules *names* expanded in place; those without further uses are removed."""
    chosen = matching_statements(kernel, within)
    if not names:
        return kernel
    rules = {name: kernel.substitutions[name] for name in names}
    statements = tuple(s if s.id not in chosen else replace(
        s, expression=expand_rules(s.expression, rules), predicates=tuple(expand_rules(e, rules) for e in s.predicates))
        for s in kernel.statements)
    used = names_used(statements, ())
    return rewritten(kernel, statements=statements, substitutions={
        k: r if k in rules else replace(r, expr=expand_rules(r.expr, rules))
        for k, r in kernel.substitutions.items() if k not in rules or k in used})

