"""extract_subst makes a substitution rule of an expression; expand_subst expands rules in place."""
from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import expand_rules, reached
from loopkit.analysis.constructors import rewritten
from loopkit.analysis.match import Within
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import arguments_of, called, has_reduction, map_children, variables
from loopkit.expr.parsing import KnownNames, parse_expression
from loopkit.expr.tuple_operations import BUILT_IN
from loopkit.kernel.data import SubstitutionRule
from loopkit.kernel.folding import uses_of_rule
from loopkit.kernel.kernel import LoopKernel
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

    def replaced(expr: Expression) -> Expression:
        found = arguments_of(pattern, names, expr)
        if found is not None:
            return p.Call(p.Variable(subst_name), tuple(map(replaced, found)))
        return map_children(expr, replaced)
    statements = tuple(replace(s, expression=replaced(s.expression)) if s.id in chosen else s
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
    used = {x for rule in rules.values() for x in called(rule.expr) | variables(rule.expr)} | {
        x for s in kernel.statements for e in (s.expression, *s.predicates) for x in called(e) | variables(e)}
    return rewritten(kernel, substitutions={x: rule for x, rule in rules.items() if x not in own or x in used})


def rules_using(kernel: LoopKernel, names: Collection[str]) -> frozenset[str]:
    """The substitution rules in which one of *names* is free, directly or through other rules."""
    free = {r.name: variables(r.expr).difference(r.arguments) | called(r.expr) for r in kernel.substitutions.values()}
    using = reached(names, lambda name: (rule for rule, own in free.items() if name in own))
    return frozenset(rule for rule, own in free.items() if not own.isdisjoint(using))


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
    used = frozenset[str]().union(*(f(e) for s in statements for e in (s.expression, *s.predicates)
                                    for f in (variables, called)))
    return rewritten(kernel, statements=statements, substitutions={
        k: r if k in rules else replace(r, expr=expand_rules(r.expr, rules))
        for k, r in kernel.substitutions.items() if k not in rules or k in used})

