"""Reindexing changes inames: it applies an instance relation to statements, domains and dependences."""
from __future__ import annotations

from collections.abc import Callable, Iterable, KeysView, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, reduce
from itertools import groupby

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.constructors import Image, reindexed, reordered, rewritten
from loopkit.analysis.legality import require_legal
from loopkit.analysis.order import loops_of
from loopkit.errors import ScheduleError
from loopkit.expr.mappers import map_children, map_subscripts, subexpressions, substitute, variables
from loopkit.expr.nodes import Reduction
from loopkit.kernel.data import SubstitutionRule
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import CallRegion, ReductionNode, Statement, with_expressions
from loopkit.kernel.tree import (
    GivenOrder,
    Loop,
    Tree,
    given,
    leaves,
    nest,
    ordered_pairs,
    restricted,
    rewrite,
    rewrite_over,
    seq,
    still_given,
)
from loopkit.poly.affine import add, quotient_and_rest
from loopkit.poly.limits import coalesced
from loopkit.poly.relations import subscript_relation
from loopkit.poly.sets import Condition, InstanceSet, Map, Set
from loopkit.transform.step import require_whole_reductions
from loopkit.transform.subst import rules_using, without_rules


@dataclass(frozen=True, eq=False)
class Reindexing:
    """Old inames become *new*; each old one is an affine form of the new ones and the unchanged ones.

    Without old inames, the new inames follow the existing inames of a statement.

    :ivar values: for each old iname its value in terms of *new*.
    :ivar conditions: ``(op, e)`` with ``e op 0``, the further conditions on the new inames.
    :ivar cases: if *values* are not affine forms, the steps with affine values, each under its conditions.
    :ivar whole: points of the old inames and their image in *new*, given so that isl need not compute it.
    :ivar extents: the numbers of values of new inames that count from 0.
    """

    new: tuple[str, ...]
    values: Mapping[str, Expression]
    conditions: tuple[Condition, ...] = ()
    cases: tuple[Reindexing, ...] = ()
    whole: tuple[InstanceSet, InstanceSet] | None = None
    extents: Mapping[str, int] = field(default_factory=dict)

    @property
    def old(self) -> KeysView[str]:
        return self.values.keys()

    def relation(self, inames: tuple[str, ...]) -> Map:
        """``{ [old] -> [new] : old = values(new) and conditions(new) }``, the instance relation of the step."""
        if self.cases:
            return reduce(Map.union, (case.relation(inames) for case in self.cases))
        new = self.inames(inames)
        values = subscript_relation(new, tuple(self.values.get(x, p.Variable(x)) for x in inames))
        return values.intersect_domain(InstanceSet.universe(new).where(*self.conditions).set).reverse()

    def image(self, domain: InstanceSet, relation: Map, assumptions: Set) -> InstanceSet:
        """The image of *domain* under *relation*, in the simplest form available."""
        new = self.inames(domain.inames)
        if self.whole is not None:
            before, after = self.whole
            rest = domain.onto([x for x in domain.inames if x not in self.old])
            product = rest.onto(domain.inames).intersect(before)
            if domain.intersect_params(assumptions).is_equal(product.intersect_params(assumptions)):
                return rest.onto(new).intersect(after)
        moved = domain.apply(relation, new)
        return moved.named(coalesced(moved.set))

    @cached_property
    def names(self) -> Mapping[str, str] | None:
        """The new name of each old iname, if the step only renames."""
        found = {x: v.name for x, v in self.values.items() if isinstance(v, p.Variable)}
        plain = not self.conditions and not self.cases
        only = plain and found.keys() == self.old and sorted(found.values()) == sorted(self.new)
        return found if only else None

    def inames(self, inames: tuple[str, ...]) -> tuple[str, ...]:
        """*inames* with the new ones in the place of the first old one, or each in its place if they are renamed."""
        if self.names is not None:
            return tuple(self.names.get(x, x) for x in inames)
        if not self.old:
            return (*inames, *self.new)
        at = next((i for i, x in enumerate(inames) if x in self.old), len(inames))
        return (*inames[:at], *(self.new if at < len(inames) else ()), *(x for x in inames[at:] if x not in self.old))


def reindex(kernel: LoopKernel, step: Reindexing, tree: Tree, within: frozenset[str]) -> LoopKernel:
    """*kernel* with *step* applied to the statements *within*, domains and dependences; *tree* is the new order."""
    return reindex_each(kernel, {s.id: step for s in kernel.statements
                                 if s.id in within and not step.old.isdisjoint(s.inames)}, tree)


def reindex_loops(kernel: LoopKernel, step: Reindexing, within: frozenset[str], *, assume: str | None = None,
                  unsafe: bool = False) -> LoopKernel:
    """:func:`reindex`, with loops over the new inames in the place of the perfect nests over the old ones.

    A loop that also holds other statements is distributed.

    :raises IllegalTransformError: the dependences forbid it; with a witness.
    """
    old = tuple(step.old)
    for x in old:
        tree = with_own_loops(kernel.tree, x, x, within)
        if tree is not kernel.tree:
            require_whole_reductions(kernel, x, within)
            kernel = require_legal(reordered(kernel, tree), f"distributing the loop over '{x}'", assume=assume,
                                   unsafe=unsafe)

    def replaced(loop: Loop) -> Tree:
        body, found = loop.body, [loop.iname]
        while isinstance(body, Loop) and body.iname in old:
            found.append(body.iname)
            body = body.body
        if len(found) == len(old):
            return loop if step.new == old == tuple(found) else nest(step.new, body)
        if loop.iname == next(x for x in loops_of(kernel.paths[next(leaves(loop))]) if x in old):
            raise not_nested(old, old[0])
        return loop                     # the loops around it are looked at next
    return reindex(kernel, step, rewrite_loops(kernel, old, within, replaced), within)


def reindex_each(kernel: LoopKernel, steps: Mapping[str, Reindexing], tree: Tree) -> LoopKernel:
    """*kernel* with one step of *steps* for each statement; inames without statements lose their tags.

    Rules that mention an old iname freely get its new form if it is one for all of their uses; else they are expanded.
    """
    old = frozenset().union(*(step.old for step in steps.values()))
    left = {x for s in kernel.statements if s.id not in steps for x in s.inames}
    values = next(iter(steps.values())).values if len(set(steps.values())) == 1 and old.isdisjoint(left) else {}
    used = frozenset().union(*map(variables, values.values()))
    # an argument may share the name of a new iname
    expanded = {r.name for r in kernel.substitutions.values() if not variables(r.expr).isdisjoint(old - {*r.arguments})
                and (not values or not used.isdisjoint(r.arguments))}
    # a rule whose reduction gets other inames no longer has the form of its uses
    expanded |= {r.name for r in kernel.substitutions.values() for e in subexpressions(r.expr)
                 if isinstance(e, Reduction) and not old.isdisjoint(e.inames)}
    kernel = without_rules(kernel, rules_using(kernel, expanded) | expanded)
    result = _moved(kernel, steps, tree)
    return rewritten(result, substitutions=substituted_rules(kernel.substitutions, values),
                     tags={x: t for x, t in kernel.tags.items() if x in result.inames},
                     declared_domains=tuple(d for d in kernel.declared_domains if old.isdisjoint(d.inames)))


def require_shared_inames(kernel: LoopKernel, step: str) -> LoopKernel:
    """*kernel*; :raises ScheduleError: after *step* the parts of a reduction do not share the inames around it."""
    for node in kernel.reductions.values():
        inames = kernel.statement_by_id[node.init].inames
        for part in (*node.updates, node.final):
            if missing := [x for x in inames if x not in kernel.statement_by_id[part].inames]:
                raise ScheduleError(f"{step} would give the parts of the reduction '{node.name}' different inames: "
                                    f"'{node.init}' has '{missing[0]}', '{part}' has not.", subject=node.name,
                                    hint="give all of its parts the same new iname")
    return kernel


def _moved(kernel: LoopKernel, steps: Mapping[str, Reindexing], tree: Tree) -> LoopKernel:
    """*kernel* with the statements of *steps* moved; equal steps should share one object, which is handled once."""
    relation = cache(Reindexing.relation)
    images = {s: (Image(s, relation(step, kernel.statement_by_id[s].inames)),) for s, step in steps.items()}
    domains: dict[tuple[Reindexing, int], InstanceSet] = {}
    alike = {(d.inames, hash(d.set)): d for s in kernel.statements if s.id not in steps for d in [s.domain]}

    def moved(statement: Statement) -> Statement:
        if statement.id not in steps:
            return statement
        step, old = steps[statement.id], statement.domain
        key = step, id(old)
        if key not in domains:
            new = step.image(old, relation(step, old.inames), kernel.assumptions)
            first = alike.setdefault((new.inames, hash(new.set)), new)
            domains[key] = first if first.is_equal(new) else new  # equal sets share one object, for caches
        return substituted(replace(statement, domain=domains[key]), step.values, step.extents)

    nodes = {name: _reduced(kernel, node, steps) for name, node in kernel.reductions.items()}
    return reindexed(kernel, images, statements=tuple(map(moved, kernel.statements)), tree=tree, reductions=nodes,
                     given_pairs=_order_after(kernel, steps, tree), calls=_calls_after(kernel, steps))


def _calls_after(kernel: LoopKernel, steps: Mapping[str, Reindexing]) -> dict[str, CallRegion]:
    """The calls of functions, with the new inames around those of which all statements have one step."""
    calls = dict(kernel.calls)
    for name, region in calls.items():
        own = {steps.get(s.id) for s in kernel.statements if name in s.options.calls}
        (step, *others) = own or {None}
        if step is not None and not others and not step.old.isdisjoint(region.inames):
            arrays = tuple(replace(a, subscripts=tuple(folded(substitute(e, step.values)) for e in a.subscripts))
                           for a in region.arrays)
            values = {x: folded(substitute(e, step.values)) for x, e in region.values.items()}
            calls[name] = replace(region, inames=step.inames(region.inames), arrays=arrays, values=values)
    return calls


def _order_after(kernel: LoopKernel, steps: Mapping[str, Reindexing], tree: Tree) -> GivenOrder:
    """The given orders with the new inames in place of the old ones; an old iname stays if loops over it stay."""
    order = kernel.given_pairs
    for step in dict.fromkeys(steps.values()) if order else ():
        moved = [step.inames(c) for c in kernel.given_pairs if not step.old.isdisjoint(c)]
        # several replaced inames take the order of the tree
        order |= ordered_pairs(moved) if step.names is not None or len(step.old) == 1 else given(tree, moved)
    return still_given(tree, kernel.tags, order)


def _reduced(kernel: LoopKernel, node: ReductionNode, steps: Mapping[str, Reindexing]) -> ReductionNode:
    """*node* with its new inames, and the sweep of a scan under its new name; lowering detects that a sweep is gone."""
    result: dict[str, None] = {}
    for update in node.updates:
        own = tuple(x for x in node.inames if x in kernel.statement_by_id[update].inames)
        if update in steps and not steps[update].old.isdisjoint(own):
            own = steps[update].inames(own)
        result.update(dict.fromkeys(own))
    names = (steps[node.init].names if node.init in steps else None) or {}
    return replace(node, inames=tuple(result), sweep=node.sweep and names.get(node.sweep, node.sweep))


def substituted(statement: Statement, values: Mapping[str, Expression], extents: Mapping[str, int] | None = None
                ) -> Statement:
    """*statement* with variables replaced in all of its expressions, and like terms of subscripts collected.

    :arg extents: the numbers of values of some variables that count from 0.
    """
    def replaced(e: Expression) -> Expression:
        new = substitute(e, values)
        # y[n - (n - i - 1) - 1] is y[i], and y[(8*i + j) // 64] is y[i // 8] for j < 8
        return new if new == e else map_subscripts(new, lambda i: folded(with_few_terms(i, extents or {})))
    return with_expressions(statement, replaced)


def with_few_terms(expr: Expression, extents: Mapping[str, int]) -> Expression:
    """*expr* with the quotients and remainders of :func:`~loopkit.poly.affine.quotient_and_rest`."""
    match expr:
        case p.FloorDiv(numerator=number, denominator=int() as count) if count > 0:
            return quotient_and_rest(with_few_terms(number, extents), count, extents)[0]
        case p.Remainder(numerator=number, denominator=int() as count) if count > 0:
            return quotient_and_rest(with_few_terms(number, extents), count, extents)[1]
        case _:
            return map_children(expr, lambda e: with_few_terms(e, extents))


def substituted_rules(rules: Mapping[str, SubstitutionRule], values: Mapping[str, Expression]
                      ) -> dict[str, SubstitutionRule]:
    """*rules* with *values* for their free variables."""
    return {r.name: replace(r, expr=substitute(r.expr, {k: v for k, v in values.items() if k not in r.arguments}))
            for r in rules.values()}


def mentioned(statement: Statement) -> frozenset[str]:
    """The names in the expressions of *statement*."""
    return frozenset().union(*map(variables, (statement.assignee, statement.expression, *statement.predicates)))


def with_domains(statements: Iterable[Statement], f: Callable[[InstanceSet], InstanceSet]) -> tuple[Statement, ...]:
    """*statements* with *f* applied to their domains; those that share a domain still share one."""
    own = tuple(statements)
    new = {x: f(domain) for x, domain in {id(s.domain): s.domain for s in own}.items()}
    return tuple(replace(s, domain=new[id(s.domain)]) for s in own)


def folded(expr: Expression) -> Expression:
    """*expr* with like terms collected, if it is a sum or a product."""
    return add(expr) if isinstance(expr, p.Sum | p.Product) else expr


def with_own_loops(tree: Tree, iname: str, new: str, chosen: frozenset[str]) -> Tree:
    """*tree* with loops over *new* around the statements of *chosen* inside loops over *iname*."""
    def one(loop: Loop) -> Tree:
        runs = [(mine, list(run)) for mine, run in groupby(leaves(loop), chosen.__contains__)]
        if len(runs) == 1 and (new == iname or not runs[0][0]):
            return loop
        return seq(*(Loop(new if mine else iname, restricted(loop.body, run)) for mine, run in runs))
    return rewrite_over(tree, iname, one)


def rewrite_loops(kernel: LoopKernel, inames: tuple[str, ...], within: frozenset[str],
                  f: Callable[[Loop], Tree]) -> Tree:
    """The tree with *f* for loops over *inames* around *within*; :raises ScheduleError: one holds other statements."""
    def one(node: Tree) -> Tree:
        if not isinstance(node, Loop) or node.iname not in inames or within.isdisjoint(leaves(node)):
            return node
        if others := {*leaves(node)} - within:
            raise ScheduleError(
                f"within= selects only some statements of the loop over '{node.iname}': it also encloses "
                f"'{min(others)}'.", subject=node.iname, hint="select all of them, or distribute the loop")
        return f(node)
    return rewrite(kernel.tree, one)


def not_nested(inames: Sequence[str], subject: str) -> ScheduleError:
    """The error for loops that are not perfectly nested."""
    return ScheduleError(f"The loops over {', '.join(inames)} are not perfectly nested.",
                         subject=subject, hint="make them adjacent by prioritize_loops first")
