"""precompute for substitution rules that hold reductions.

While the copy is made, the uses are calls of the rule, and the analyses take the elements that the reduction reads for
unknown ones along its inames. Then the copy gets the statements of the reduction.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_to, is_known
from loopkit.analysis.constructors import Image, between_images, rewritten, with_dependences
from loopkit.analysis.dependences import End, identity_pairs, moved_dependences, reduction_dependences
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import (
    arguments_of,
    children,
    has_reduction,
    map_children,
    replaced,
    subexpressions,
    variables,
)
from loopkit.expr.nodes import Neutral, Reduction
from loopkit.kernel.data import SubstitutionRule, TemporaryVariable
from loopkit.kernel.folding import reducing_rules, uses_of_rule
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, ReductionNode, Statement
from loopkit.kernel.tags import AutoLocalTag, InameTag, LocalTag
from loopkit.kernel.tree import Leaf, Tree, in_order_of, nest, rewrite, seq, without
from loopkit.poly.piecewise import subscripts_on
from loopkit.poly.relations import other_instance
from loopkit.poly.sets import InstanceSet, with_dim_names
from loopkit.transform.step import as_tag
from loopkit.transform.subst import with_calls_of


@dataclass(frozen=True)
class _Reduced:
    """The values of the inames of a reduction in a rule.

    :ivar points: for values of the names that the rule mentions, and of the reductions around it.
    :ivar at: all values of these names.
    """

    points: InstanceSet
    at: InstanceSet

    def joined(self, other: _Reduced) -> _Reduced | None:
        """The values of both; ``None``: they differ for some names."""
        same = self.points.intersect(other.at).is_equal(other.points.intersect(self.at))
        return _Reduced(self.points.union(other.points), self.at.union(other.at)) if same else None


def with_calls(kernel: LoopKernel, rule: SubstitutionRule, chosen: Collection[str]
               ) -> tuple[LoopKernel, tuple[InstanceSet, ...]]:
    """*kernel* with calls of *rule* in place of its uses in the statements *chosen*, and the domain of each reduction.

    The dimensions of a domain are the names that the rule mentions, the inames of the reductions around it in the rule,
    and its own.

    :raises PreconditionError: no statement uses the rule; a reduction is in a branch of the rule; or its domain depends
        on other inames.
    """
    _require_unconditional(rule)
    found = {s.id: list(uses_of_rule(kernel, rule, s)) for s in kernel.statements if s.id in chosen}
    if not any(found.values()):
        raise PreconditionError(f"No statement uses '{rule.name}'.", subject=rule.name,
                                hint="earlier steps changed the inames of its reduction: apply precompute before them")
    nodes, domains = list[ReductionNode](), list[_Reduced | None]()
    for use, args in (one for uses in found.values() for one in uses):
        own = list(_nodes(kernel, rule.expr, use))
        new = [_own_domain(kernel, rule, args, node, around) for node, around in own]
        domains = [None if a is None else a.joined(b) for a, b in zip(domains, new, strict=True)] if nodes else [*new]
        nodes += [node for node, _ in own]
    if None in domains:
        raise PreconditionError(f"The uses of '{rule.name}' reduce over different domains.", subject=rule.name,
                                hint="select the uses over one domain by within=")
    gone = {s for node in nodes for s in (node.init, *node.updates)}
    accumulators = {node.accumulator for node in nodes}

    def called(s: Statement) -> Statement:
        calls = {use: p.Call(p.Variable(rule.name), args) for use, args in found.get(s.id, ())}
        return replace(s, expression=replaced(s.expression, calls)) if calls else s
    others = {r.name: replace(r, expr=with_calls_of(rule, r.expr)) for r in reducing_rules(kernel) if r != rule}
    return with_dependences(
        kernel, partial(_of_users, kernel, nodes),
        statements=tuple(called(s) for s in kernel.statements if s.id not in gone),
        tree=without(kernel.tree, gone), substitutions={**kernel.substitutions, **others},
        reductions={name: node for name, node in kernel.reductions.items() if node not in nodes},
        temporaries={name: t for name, t in kernel.temporaries.items() if name not in accumulators}
    ), tuple(d.points for d in domains if d is not None)


def _of_users(kernel: LoopKernel, nodes: Collection[ReductionNode], found: Sequence[Dependence], _: LoopKernel
              ) -> Iterator[Dependence]:
    """*found* with the statement that uses the value of each of *nodes* in the place of the reduction's updates."""
    user = {node.update: node.final for node in nodes}
    images: dict[str, Sequence[Image]] = {node.init: () for node in nodes}
    for update, final in user.items():
        while final in user:
            final = user[final]
        images[update] = [Image(final, identity_pairs(kernel, update, final))]
    accumulators = {node.accumulator for node in nodes}
    for d in between_images((d for d in found if d.array not in accumulators), images):
        # an instance reads before it writes
        relation = other_instance(d.relation) if d.source == d.sink else d.relation
        if not relation.is_empty():
            yield replace(d, relation=relation)


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


def tag_of_values(kernel: LoopKernel, rule: SubstitutionRule, tag: str | InameTag | None) -> str | InameTag | None:
    """*tag* for the inames of values of *rule*; none for ``l.auto`` if the threads of a block compute each together."""
    together = any(isinstance(kernel.tags.get(x), LocalTag) for e in subexpressions(rule.expr)
                   if isinstance(e, Reduction) for x in e.inames)
    return None if together and tag is not None and as_tag(tag) == AutoLocalTag() else tag


def _require_unconditional(rule: SubstitutionRule) -> None:
    for e in subexpressions(rule.expr):
        parts = (e.then, e.else_) if isinstance(e, p.If) else children(e)[1:] \
            if isinstance(e, p.LogicalAnd | p.LogicalOr) else ()
        if any(isinstance(inner, Reduction) for part in parts for inner in subexpressions(part)):
            raise PreconditionError(f"A reduction of '{rule.name}' is evaluated only under a condition.",
                                    subject=rule.name, hint="put the condition around the uses of the rule")


def _nodes(kernel: LoopKernel, form: Expression, use: Expression, around: tuple[str, ...] = ()
           ) -> Iterator[tuple[ReductionNode, tuple[str, ...]]]:
    """The reductions of *use*, which has this *form*, in the order of the form, with the reduction inames around."""
    if isinstance(form, Reduction):
        assert isinstance(use, p.Variable)
        node = next(node for node in kernel.reductions.values() if node.accumulator == use.name)
        yield node, around
        yield from _nodes(kernel, form.expr, kernel.statement_by_id[node.update].expression, (*around, *node.inames))
        return
    for inner, part in zip(children(form), children(use), strict=False):
        yield from _nodes(kernel, inner, part, around)


def _mentioned(kernel: LoopKernel, rule: SubstitutionRule) -> tuple[str, ...]:
    """The arguments and the inames that the body of *rule* mentions."""
    own = variables(rule.expr)
    return tuple(x for x in (*rule.arguments, *(x for x in kernel.inames if x not in rule.arguments)) if x in own)


def _own_domain(kernel: LoopKernel, rule: SubstitutionRule, args: Sequence[Expression], node: ReductionNode,
                around: tuple[str, ...]) -> _Reduced:
    """The values of the inames of *node* in a use of *rule* with *args*, inside reductions over the inames *around*.

    :raises PreconditionError: they depend on other names than those that the rule mentions.
    """
    given, init, domain = dict(zip(rule.arguments, args, strict=True)), *(
        kernel.statement_by_id[s].domain for s in (node.init, node.update))
    names = _mentioned(kernel, rule)
    values = [given.get(x, p.Variable(x)) for x in names]
    if not is_known(init, kernel.value_params, *values):
        names, values = (), []
    outer = (*values, *map(p.Variable, around))
    inner = (*outer, *map(p.Variable, node.inames))
    # the dimensions have no names of parameters
    dims = tuple(f"{x}_{k}_" for k, x in enumerate((*names, *around, *node.inames)))
    points = domain.apply(subscripts_on(domain, inner), dims)
    every = init.onto(domain.inames)
    if kernel.statement_by_id[node.update].predicates or not _where(every, inner, points).is_equal(domain):
        raise PreconditionError(f"The domain of {', '.join(node.inames)} in '{rule.name}' depends on other inames.",
                                subject=rule.name, hint="assign the values to a temporary in the text instead")
    return _Reduced(points, init.apply(subscripts_on(init, outer), dims[:len(outer)]))


def _where(every: InstanceSet, places: tuple[Expression, ...], points: InstanceSet) -> InstanceSet:
    """Those of *every* at which *places* are among *points*."""
    found = subscripts_on(every, places).intersect_range(points.set).domain()
    return every.intersect(every.named(with_dim_names(found, every.inames)))


def with_reductions(kernel: LoopKernel, copy: str, rule: SubstitutionRule, domains: Sequence[InstanceSet]
                    ) -> LoopKernel:
    """*kernel* with the statements of the reductions in the statement *copy*, over *domains*: it computes *rule*."""
    statement, waiting = kernel.statement_by_id[copy], iter(domains)
    values = arguments_of(rule.expr, _mentioned(kernel, rule), statement.expression) or ()
    parts, nodes, temporaries = list[Statement](), dict[str, ReductionNode](), dict[str, TemporaryVariable]()

    def walk(e: Expression, here: InstanceSet, owner: str, trees: list[Tree]) -> Expression:
        if not isinstance(e, Reduction):
            return map_children(e, lambda part: walk(part, here, owner, trees))
        inames = (*here.inames, *e.inames)
        points, own = next(waiting), (*here.inames[len(statement.inames):], *e.inames)
        given = values if len(points.inames) > len(own) else ()
        inner = _where(here.onto(inames), (*given, *map(p.Variable, own)), points)
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
    return with_dependences(
        kernel, lambda _, new: _read_by_parts(kernel, new, (copy, *(s.id for s in parts)), nodes.values()),
        statements=in_order_of(tree, [*parts, *rest]), tree=tree, reductions={**kernel.reductions, **nodes},
        temporaries={**kernel.temporaries, **temporaries})


def _read_by_parts(kernel: LoopKernel, new: LoopKernel, parts: Sequence[str], nodes: Collection[ReductionNode]
              ) -> Iterator[Dependence]:
    """The dependences of *kernel* with the reads of a copy, the first of *parts*, at those that read in *new*."""
    copy = parts[0]

    def ends(d: Dependence, statement: str, is_write: bool) -> list[End]:
        return [(statement, is_write, None)] if statement != copy or is_write else [
            (s, False, identity_pairs(new, copy, s)) for s in parts if accesses_to(new, s, d.array, is_write=False)]
    for moved in moved_dependences(kernel, kernel.data.keys(), ends):
        d = moved.after if moved.after is moved.d else moved.on_one_element(new)
        if not d.relation.is_empty():
            yield d
    for node in nodes:
        yield from reduction_dependences(new, node)
