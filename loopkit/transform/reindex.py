"""The one way in which inames change: an instance relation, applied to everything that mentions them."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import expand_rules
from loopkit.analysis.dependences import carried_from
from loopkit.errors import ScheduleError
from loopkit.expr.mappers import called, substitute, variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tree import Loop, Tree, leaves, rewrite
from loopkit.poly.relations import reindexing
from loopkit.poly.sets import InstanceSet, Map


@dataclass(frozen=True)
class Reindexing:
    """Inames *old* become *new*; each old one is an affine form of the new ones and of those that stay.

    Without *old*, the new ones come behind those that a statement has.

    :ivar values: for each of *old* its value in terms of *new*.
    :ivar conditions: ``(op, e)`` with ``e op 0``, what else holds of the new inames.
    """

    old: tuple[str, ...]
    new: tuple[str, ...]
    values: Mapping[str, Expression]
    conditions: tuple[tuple[str, Expression], ...] = ()

    def inames(self, inames: tuple[str, ...]) -> tuple[str, ...]:
        """*inames* with the new ones in the place of the first old one."""
        if not self.old:
            return (*inames, *self.new)
        result: list[str] = []
        for x in inames:
            if x not in self.old:
                result.append(x)
            elif x == next(y for y in inames if y in self.old):
                result.extend(self.new)
        return tuple(result)


    def relation(self, inames: tuple[str, ...]) -> Map:
        """The instance relation of a statement with *inames*."""
        new = self.inames(inames)
        conditions = InstanceSet.universe(new).where(*self.conditions)
        values = tuple(self.values.get(x, p.Variable(x)) for x in inames)
        return reindexing(new, values, conditions.set)


def reindex(kernel: LoopKernel, step: Reindexing, tree: Tree, within: frozenset[str] | None = None) -> LoopKernel:
    """*kernel* with *step* applied to statements, domains and dependences; *tree* is the new order."""
    relations: dict[tuple[str, ...], Map] = {}
    domains: dict[int, InstanceSet] = {}
    alive: list[InstanceSet] = []

    def relation(inames: tuple[str, ...]) -> Map:
        if inames not in relations:
            relations[inames] = step.relation(inames)
        return relations[inames]

    def touches(statement: Statement) -> bool:
        if within is not None and statement.id not in within:
            return False
        return not step.old or any(x in step.old for x in statement.inames)

    kernel = _rules_written_out(kernel, step, within)

    def moved(statement: Statement) -> Statement:
        if not touches(statement):
            return statement
        old = statement.domain
        if id(old) not in domains:
            alive.append(old)
            domains[id(old)] = old.apply(relation(old.inames), step.inames(old.inames))
        return substituted(replace(statement, domain=domains[id(old)]), step.values)

    moved_statements = tuple(moved(s) for s in kernel.statements)
    left = {x for s in moved_statements if not touches(s) for x in s.inames}
    before = kernel

    def relation_of(statement_id: str) -> Map | None:
        statement = before.statement_by_id[statement_id]
        return relation(statement.inames) if touches(statement) else None

    nodes = {name: replace(node, inames=step.inames(node.inames))
             if step.old and (within is None or node.update in within) else node
             for name, node in kernel.reductions.items()}
    rules = {name: replace(rule, expr=substitute(rule.expr, {x: v for x, v in step.values.items()
                                                             if x not in rule.arguments}))
             for name, rule in kernel.substitutions.items()}
    return kernel.copy(statements=moved_statements, tree=tree, reductions=nodes, substitutions=rules,
                       carried=carried_from(before, relation_of),
                       tags={x: t for x, t in kernel.tags.items() if x not in step.old or x in left})


def substituted(statement: Statement, values: Mapping[str, Expression]) -> Statement:
    """*statement* with variables replaced in all of its expressions."""
    assignee = substitute(statement.assignee, values)
    assert isinstance(assignee, p.Variable | p.Subscript)
    return replace(statement, assignee=assignee,
                   expression=substitute(statement.expression, values),
                   predicates=tuple(substitute(e, values) for e in statement.predicates))


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
        for part in (node.update, node.final):
            missing = [x for x in inames if x not in kernel.statement_by_id[part].inames]
            if missing:
                raise ScheduleError(f"{step} would give the parts of the reduction '{node.name}' different inames: "
                                    f"'{node.init}' has '{missing[0]}', '{part}' has not.", subject=node.name,
                                    hint="let all of its parts have the same iname, under a name of their own")


def _rules_written_out(kernel: LoopKernel, step: Reindexing, within: frozenset[str] | None) -> LoopKernel:
    """Write out the rules that mention an old iname freely and cannot say what it becomes.

    In some statements only, it would have two meanings; and an argument may be called like one of its new inames.
    """
    rules = kernel.substitutions
    new = frozenset().union(*(variables(value) for value in step.values.values()))
    ending = {name for name, rule in rules.items() if variables(rule.expr) & set(step.old) - set(rule.arguments)
              and (within is not None or new & set(rule.arguments))}
    if not ending:
        return kernel
    while callers := {name for name, rule in rules.items() if name not in ending
                      and (variables(rule.expr) | called(rule.expr)) & ending}:
        ending |= callers
    own = {name: rules[name] for name in ending}
    return kernel.copy(
        statements=tuple(replace(s, expression=expand_rules(s.expression, own),
                                 predicates=tuple(expand_rules(e, own) for e in s.predicates))
                         for s in kernel.statements),
        substitutions={name: rule for name, rule in rules.items() if name not in ending}, carried=kernel.carried)
