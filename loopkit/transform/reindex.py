"""Reindexing, the one way to change inames: an instance relation, applied to statements, domains and dependences."""
from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import expand_rules
from loopkit.analysis.constructors import Image, annotated, reindexed, rewritten
from loopkit.errors import ScheduleError
from loopkit.expr.mappers import called, map_children, substitute, variables
from loopkit.kernel.given_order import Chain, given, still_given
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import ReductionNode, Statement, with_expressions
from loopkit.kernel.tree import Loop, Tree, leaves, rewrite
from loopkit.poly.affine import add
from loopkit.poly.limits import coalesced
from loopkit.poly.relations import reindexing
from loopkit.poly.sets import InstanceSet, Map, Set


@dataclass(frozen=True)
class Case:
    """Values of old inames, and the conditions on new ones under which the old inames have these values."""

    values: Mapping[str, Expression]
    conditions: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True)
class Reindexing:
    """Inames *old* become *new*; each old one is an affine form of the new ones and the unchanged ones.

    Without *old*, the new inames follow the existing inames of a statement.

    :ivar values: for each of *old* its value in terms of *new*.
    :ivar conditions: ``(op, e)`` with ``e op 0``, the further conditions on the new inames.
    :ivar cases: if *values* are no affine forms, affine values and the conditions under which each applies.
    :ivar whole: points of *old* and their image in *new*, given so that isl need not compute it.
    """

    old: tuple[str, ...]
    new: tuple[str, ...]
    values: Mapping[str, Expression]
    conditions: tuple[tuple[str, Expression], ...] = ()
    cases: tuple[Case, ...] = ()
    whole: tuple[InstanceSet, InstanceSet] | None = None

    def relation(self, inames: tuple[str, ...]) -> Map:
        """``{ [inames] -> [new inames] }`` for a statement with *inames*."""
        new = self.inames(inames)
        result: Map | None = None
        for case in self.cases or (Case(self.values, self.conditions),):
            values = tuple(case.values.get(x, p.Variable(x)) for x in inames)
            part = reindexing(new, values, InstanceSet.universe(new).where(*case.conditions).set)
            result = part if result is None else result.union(part)
        assert result is not None
        return result

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
        only = plain and found.keys() == set(self.old) and sorted(found.values()) == sorted(self.new)
        return found if only else None

    def inames(self, inames: tuple[str, ...]) -> tuple[str, ...]:
        """*inames* with the new ones in the place of the first old one, or each in its place if they are renamed."""
        if self.names is not None:
            return tuple(self.names.get(x, x) for x in inames)
        if not self.old:
            return (*inames, *self.new)
        result: list[str] = []
        for x in inames:
            if x not in self.old:
                result.append(x)
            elif x == next(y for y in inames if y in self.old):
                result.extend(self.new)
        return tuple(result)


def reindex(kernel: LoopKernel, step: Reindexing, tree: Tree, within: frozenset[str] | None = None) -> LoopKernel:
    """*kernel* with *step* applied to statements, domains and dependences; *tree* is the new order."""
    used = frozenset().union(*(variables(value) for value in step.values.values()))
    kernel = _rules_written_out(kernel, step.old, used if within is None else None)
    chosen = (s for s in kernel.statements if within is None or s.id in within)
    steps = {s.id: step for s in chosen if not step.old or any(x in step.old for x in s.inames)}
    rules = {name: replace(rule, expr=substitute(rule.expr, {x: v for x, v in step.values.items()
                                                             if x not in rule.arguments}))
             for name, rule in kernel.substitutions.items()}
    left = {x for s in kernel.statements if s.id not in steps for x in s.inames}
    return rewritten(_moved(kernel, steps, tree), substitutions=rules,
                     tags={x: t for x, t in kernel.tags.items() if x not in step.old or x in left})


def reindex_each(kernel: LoopKernel, steps: Mapping[str, Reindexing], tree: Tree) -> LoopKernel:
    """*kernel* with one step of *steps* for each statement; inames without statements lose their tags."""
    kernel = _rules_written_out(kernel, {x for step in steps.values() for x in step.old}, None)
    result = _moved(kernel, steps, tree)
    return annotated(result, tags={x: t for x, t in kernel.tags.items() if x in result.inames})


def _moved(kernel: LoopKernel, steps: Mapping[str, Reindexing], tree: Tree) -> LoopKernel:
    """*kernel* with the statements of *steps* moved; equal steps should share one object, which is handled once."""
    relations: dict[tuple[int, tuple[str, ...]], Map] = {}
    domains: dict[tuple[int, int], InstanceSet] = {}
    alike = {(d.inames, hash(d.set)): d for s in kernel.statements if s.id not in steps for d in [s.domain]}

    images: dict[str, tuple[Image]] = {}
    for s, step in steps.items():
        inames = kernel.statement_by_id[s].inames
        key = (id(step), inames)
        if key not in relations:
            relations[key] = step.relation(inames)
        images[s] = (Image(s, relations[key]),)

    def moved(statement: Statement) -> Statement:
        if statement.id not in steps:
            return statement
        step, old = steps[statement.id], statement.domain
        key = (id(step), id(old))
        if key not in domains:
            new = step.image(old, relations[id(step), old.inames], kernel.assumptions)
            first = alike.setdefault((new.inames, hash(new.set)), new)
            domains[key] = first if first.is_equal(new) else new      # equal sets are one, as analyses like them
        return substituted(replace(statement, domain=domains[key]), step.values)

    nodes = {name: replace(node, inames=_reduced(kernel, node, steps), sweep=_sweep(node, steps))
             for name, node in kernel.reductions.items()}
    return reindexed(kernel, images, statements=tuple(map(moved, kernel.statements)), tree=tree, reductions=nodes,
                     given_order=_order_after(kernel, steps, tree))


def _order_after(kernel: LoopKernel, steps: Mapping[str, Reindexing], tree: Tree) -> tuple[Chain, ...]:
    """The given orders with the new inames in place of the old ones; an old iname stays if loops over it stay."""
    chains = list(kernel.given_order)
    for step in {id(s): s for s in steps.values()}.values() if chains else ():
        moved = [step.inames(c) for c in kernel.given_order if any(x in step.old for x in c)]
        # several replaced inames take the order of the tree
        chains += moved if step.names is not None or len(step.old) == 1 else given(tree, moved)
    return still_given(tree, kernel.tags, chains)


def _reduced(kernel: LoopKernel, node: ReductionNode, steps: Mapping[str, Reindexing]) -> tuple[str, ...]:
    """The inames of a reduction after each of its updates moved."""
    result: dict[str, None] = {}
    for update in node.updates:
        own = node.inames if not node.others else tuple(
            x for x in node.inames if x in kernel.statement_by_id[update].inames)
        if update in steps and any(x in own for x in steps[update].old):
            own = steps[update].inames(own)
        result.update(dict.fromkeys(own))
    return tuple(result)


def _sweep(node: ReductionNode, steps: Mapping[str, Reindexing]) -> str | None:
    """The sweep of a scan under its new name; lowering detects that a sweep is gone."""
    step = steps.get(node.init)
    return node.sweep if node.sweep is None or step is None or step.names is None \
        else step.names.get(node.sweep, node.sweep)


def substituted(statement: Statement, values: Mapping[str, Expression]) -> Statement:
    """*statement* with variables replaced in all of its expressions, and like terms of subscripts collected."""
    def replaced(e: Expression) -> Expression:
        new = substitute(e, values)
        return new if new == e else _collected(new)
    return with_expressions(statement, replaced)


def _collected(expr: Expression) -> Expression:
    """*expr* with like terms of its subscripts combined: ``y[n - (n - i - 1) - 1]`` is ``y[i]``."""
    expr = map_children(expr, _collected)
    if not isinstance(expr, p.Subscript):
        return expr
    index = tuple(add(e) if isinstance(e, p.Sum | p.Product) else e for e in expr.index_tuple)
    return expr if index == expr.index_tuple else p.Subscript(expr.aggregate, index)


def rewrite_loops(kernel: LoopKernel, inames: tuple[str, ...], within: frozenset[str] | None,
                  f: Callable[[Loop], Tree]) -> Tree:
    """The kernel's tree with *f* applied to each loop over one of *inames* around statements of *within*.

    :raises ScheduleError: a loop holds statements of which only some are in *within*.
    """
    def one(node: Tree) -> Tree:
        if not isinstance(node, Loop) or node.iname not in inames:
            return node
        if within is not None:
            inside = set(leaves(node))
            if not inside & within:
                return node
            if not inside <= within:
                other = sorted(inside - within)[0]
                raise ScheduleError(
                    f"within= names only some of the statements of the loop over '{node.iname}': it also holds "
                    f"'{other}'.", subject=node.iname, hint="name all of them, or end the loop between them")
        return f(node)
    return rewrite(kernel.tree, one)


def require_whole_reductions(kernel: LoopKernel, step: str) -> None:
    """:raises ScheduleError: the parts of a reduction no longer share the inames around it."""
    for node in kernel.reductions.values():
        inames = kernel.statement_by_id[node.init].inames
        for part in (*node.updates, node.final):
            missing = [x for x in inames if x not in kernel.statement_by_id[part].inames]
            if missing:
                raise ScheduleError(f"{step} would give the parts of the reduction '{node.name}' different inames: "
                                    f"'{node.init}' has '{missing[0]}', '{part}' has not.", subject=node.name,
                                    hint="let all of its parts have the same iname, under a name of their own")


def _rules_written_out(kernel: LoopKernel, old: Collection[str], used: Collection[str] | None) -> LoopKernel:
    """Expand the rules that mention an iname of *old* freely and cannot express its new form.

    :arg used: the inames that replace the old ones; an argument may share the name of one of them. ``None``: the old
        inames change in some statements only, or in several ways.
    """
    rules = kernel.substitutions
    ending = {name for name, rule in rules.items() if variables(rule.expr) & set(old) - set(rule.arguments)
              and (used is None or set(used) & set(rule.arguments))}
    if not ending:
        return kernel
    while callers := {name for name, rule in rules.items() if name not in ending
                      and (variables(rule.expr) | called(rule.expr)) & ending}:
        ending |= callers
    own = {name: rules[name] for name in ending}
    return rewritten(
        kernel, statements=tuple(replace(s, expression=expand_rules(s.expression, own),
                                         predicates=tuple(expand_rules(e, own) for e in s.predicates))
                                  for s in kernel.statements),
        substitutions={name: rule for name, rule in rules.items() if name not in ending})
