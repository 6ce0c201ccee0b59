"""precompute for substitution rules that hold reductions.

While the copy is made, the uses are calls of the rule, and the analyses take the elements that the reduction reads for
unknown ones along its inames. Then the copy gets the statements of the reduction.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.constructors import in_own_order, rewritten
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import children, has_reduction, map_children, replaced, subexpressions
from loopkit.expr.nodes import Neutral, Reduction
from loopkit.kernel.data import SubstitutionRule, TemporaryVariable
from loopkit.kernel.folding import reducing_rules, uses_of_rule
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import ReductionNode, Statement
from loopkit.kernel.tree import Leaf, Tree, in_order_of, nest, rewrite, seq, without
from loopkit.poly.domains import restricted
from loopkit.poly.sets import InstanceSet
from loopkit.transform.subst import with_calls_of


def with_calls(kernel: LoopKernel, rule: SubstitutionRule, chosen: Collection[str]
               ) -> tuple[LoopKernel, tuple[InstanceSet, ...]]:
    """*kernel* with calls of *rule* in place of its uses in the statements *chosen*, and the domain of each reduction.

    :raises PreconditionError: no statement uses the rule; a reduction is in a branch of the rule; or its domain depends
        on other inames.
    """
    _require_unconditional(rule)
    found = {s.id: list(uses_of_rule(kernel, rule, s)) for s in kernel.statements if s.id in chosen}
    if not any(found.values()):
        raise PreconditionError(f"No statement uses '{rule.name}'.", subject=rule.name,
                                hint="earlier steps changed the inames of its reduction: apply precompute before them")
    nodes = [node for uses in found.values() for use, _ in uses for node in _nodes(kernel, rule.expr, use)]
    domains = [_own_domain(kernel, rule, node) for node in nodes]
    count = sum(isinstance(e, Reduction) for e in subexpressions(rule.expr))
    for number, domain in enumerate(domains[count:]):
        if not domain.is_equal(domains[number % count]):
            raise PreconditionError(f"The uses of '{rule.name}' reduce over different domains.", subject=rule.name,
                                    hint="select the uses over one domain by within=")
    gone = {s for node in nodes for s in (node.init, *node.updates)}
    accumulators = {node.accumulator for node in nodes}

    def called(s: Statement) -> Statement:
        calls = {use: p.Call(p.Variable(rule.name), args) for use, args in found.get(s.id, ())}
        return replace(s, expression=replaced(s.expression, calls)) if calls else s
    others = {r.name: replace(r, expr=with_calls_of(rule, r.expr)) for r in reducing_rules(kernel) if r != rule}
    return in_own_order(
        kernel, statements=tuple(called(s) for s in kernel.statements if s.id not in gone),
        tree=without(kernel.tree, gone), substitutions={**kernel.substitutions, **others},
        reductions={name: node for name, node in kernel.reductions.items() if node not in nodes},
        temporaries={name: t for name, t in kernel.temporaries.items() if name not in accumulators}
    ), tuple(domains[:count])


def with_rules_of_copy(kernel: LoopKernel, made: LoopKernel, used: Callable[[Expression], Expression]) -> LoopKernel:
    """*made*, in which statements of *kernel* read a copy, with rules that name the same parts of these statements.

    Rules that hold reductions are names for them, so their bodies read the copy, too. One that holds no reduction any
    more has calls as its uses.

    :arg used: replaces the parts of an expression that the copy holds.
    """
    new = {r.name: changed for r in kernel.substitutions.values() if (changed := replace(r, expr=used(r.expr))) != r}
    for rule in new.values():
        if not has_reduction(rule.expr):
            made = rewritten(made, statements=tuple(replace(s, expression=with_calls_of(rule, s.expression))
                                                    for s in made.statements))
    return rewritten(made, substitutions={**made.substitutions, **new}) if new else made


def _require_unconditional(rule: SubstitutionRule) -> None:
    for e in subexpressions(rule.expr):
        parts = (e.then, e.else_) if isinstance(e, p.If) else children(e)[1:] \
            if isinstance(e, p.LogicalAnd | p.LogicalOr) else ()
        if any(isinstance(inner, Reduction) for part in parts for inner in subexpressions(part)):
            raise PreconditionError(f"A reduction of '{rule.name}' is evaluated only under a condition.",
                                    subject=rule.name, hint="put the condition around the uses of the rule")


def _nodes(kernel: LoopKernel, form: Expression, use: Expression) -> Iterator[ReductionNode]:
    """The reductions of *use*, which has this *form*, in the order of the form."""
    if isinstance(form, Reduction):
        assert isinstance(use, p.Variable)
        node = next(node for node in kernel.reductions.values() if node.accumulator == use.name)
        yield node
        yield from _nodes(kernel, form.expr, kernel.statement_by_id[node.update].expression)
        return
    for inner, part in zip(children(form), children(use), strict=False):
        yield from _nodes(kernel, inner, part)


def _own_domain(kernel: LoopKernel, rule: SubstitutionRule, node: ReductionNode) -> InstanceSet:
    """The domain of the inames of *node*; :raises PreconditionError: it depends on other inames."""
    update = kernel.statement_by_id[node.update]
    domain = update.domain
    own = restricted(domain, node.inames).onto(node.inames)
    others = tuple(x for x in domain.inames if x not in node.inames)
    if update.predicates or not domain.onto(others).onto(domain.inames).intersect(
            own.onto(domain.inames)).is_equal(domain):
        raise PreconditionError(f"The domain of {', '.join(node.inames)} in '{rule.name}' depends on other inames.",
                                subject=rule.name, hint="assign the values to a temporary in the text instead")
    return own


def with_reductions(kernel: LoopKernel, copy: str, domains: Sequence[InstanceSet]) -> LoopKernel:
    """*kernel* with the statements of the reductions in the statement *copy*, over these *domains*."""
    statement, waiting = kernel.statement_by_id[copy], iter(domains)
    parts, nodes, temporaries = list[Statement](), dict[str, ReductionNode](), dict[str, TemporaryVariable]()

    def walk(e: Expression, here: InstanceSet, owner: str, trees: list[Tree]) -> Expression:
        if not isinstance(e, Reduction):
            return map_children(e, lambda part: walk(part, here, owner, trees))
        inames = (*here.inames, *e.inames)
        inner = here.onto(inames).intersect(next(waiting).onto(inames))
        joined = "_".join(e.inames)
        name = next(x for x in (f"{copy}.{joined}{'_'*k}" for k in range(len(domains))) if x not in nodes)
        accumulator = kernel.fresh_name(f"acc_{joined}", *temporaries)
        temporaries[accumulator] = TemporaryVariable(accumulator, shape=())
        node = nodes[name] = ReductionNode(name, e.operation, accumulator, e.inames, f"{name}.init",
                                           (f"{name}.update",), owner)
        target, inside = p.Variable(accumulator), list[Tree]()
        operand = walk(e.expr, inner, node.update, inside)
        parts.append(replace(statement, id=node.init, assignee=target, expression=Neutral(e.operation), domain=here))
        parts.append(replace(statement, id=node.update, assignee=target, expression=operand, domain=inner,
                             combine=e.operation))
        trees += [Leaf(node.init), nest(e.inames, seq(*inside, Leaf(node.update)))]
        return target
    before: list[Tree] = []
    final = replace(statement, expression=walk(statement.expression, statement.domain, copy, before))
    tree = rewrite(kernel.tree, lambda node: seq(*before, node) if node == Leaf(copy) else node)
    rest = [final if s.id == copy else s for s in kernel.statements]
    return in_own_order(kernel, statements=in_order_of(tree, [*parts, *rest]), tree=tree,
                        reductions={**kernel.reductions, **nodes},
                        temporaries={**kernel.temporaries, **temporaries})
