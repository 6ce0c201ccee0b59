"""Reductions in two levels, sums that start from an addend, and substitution rules for operands."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.constructors import Image, between_images, rewritten, with_dependences
from loopkit.analysis.dependences import among_updates, reduction_dependences, shared_loops
from loopkit.analysis.legality import require_legal
from loopkit.analysis.match import Within
from loopkit.analysis.order import loops_of
from loopkit.errors import PreconditionError, require_known
from loopkit.expr.mappers import has_reduction, substitute, variables
from loopkit.expr.nodes import Neutral, to_text
from loopkit.kernel.data import SubstitutionRule
from loopkit.kernel.folding import folded, starts_from_addend
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, ReductionNode, owner
from loopkit.kernel.tree import Leaf, Loop, Tree, in_order_of, leaves, nest, rewrite, seq
from loopkit.poly.affine import add
from loopkit.poly.domains import restricted
from loopkit.poly.relations import out_of_time_order
from loopkit.transform.step import known_list, matching_statements, new_name, require_fresh, transform


@transform
def split_reduction_inward(kernel: LoopKernel, inames: str | Iterable[str], within: Within = None, *,
                           assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Split reductions in two levels, the inner one over *inames*.

    ``sum([i, j], x)`` with the inames ``j`` becomes ``sum(i, sum(j, x))``.

    :arg inames: some of the inames of each reduction that has them.
    :arg within: the statements whose reductions are split; default: all.
    :raises UnknownNameError: there is no such iname.
    :raises PreconditionError: no reduction has all of the inames and further ones; its operation is not reorderable, or
        its operands would change an order that they must keep; or its loops also hold other statements.
    :raises IllegalTransformError: the new order of the loops would break a dependence.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y = sum([i, j], a[i, j])")
    >>> print(lk.split_reduction_inward(knl, "j").statements_text)
    y = sum(i, sum(j, a[i, j]))  {id=insn}
    """
    return _in_two_levels(kernel, inames, within, "split_reduction_inward", assume, unsafe)


@transform
def split_reduction_outward(kernel: LoopKernel, inames: str | Iterable[str], within: Within = None, *,
                            assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Split reductions in two levels, the outer one over *inames*; see :func:`split_reduction_inward`.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y = sum([i, j], a[i, j])")
    >>> print(lk.split_reduction_outward(knl, "j").statements_text)
    y = sum(j, sum(i, a[i, j]))  {id=insn}
    """
    return _in_two_levels(kernel, inames, within, "split_reduction_outward", assume, unsafe)


@transform
def reduction_arg_to_subst_rule(kernel: LoopKernel, inames: str | Iterable[str], insn_match: Within = None,
                                subst_rule_name: str | None = None) -> LoopKernel:
    """Make a substitution rule of the operand of each reduction over *inames*, with these as arguments.

    :arg insn_match: the statements of the reductions; default: all.
    :arg subst_rule_name: default: ``red_i_arg``, with a number after it for further reductions.
    :raises UnknownNameError: there is no such iname.
    :raises PreconditionError: no reduction is over just these inames, or several need a name each.
    :raises NameConflictError: the name is taken.

    >>> knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, a[i, k]*x[k])")
    >>> knl = lk.reduction_arg_to_subst_rule(knl, "k")
    >>> print(knl.statements_text)
    for i
      y[i] = sum(k, red_k_arg(k))  {id=insn}
    end
    >>> print(knl.substitutions["red_k_arg"].expr)
    a[i, k]*x[k]
    """
    own = known_list("iname", inames, kernel.inames)
    chosen = matching_statements(kernel, insn_match)
    nodes = [node for node in kernel.reductions.values() if {*node.inames} == {*own} and node.final in chosen]
    if not nodes or (subst_rule_name is not None and len(nodes) > 1):
        raise PreconditionError(f"{len(nodes) or 'No'} reductions are over just {', '.join(own)}.",
                                subject=", ".join(own),
                                hint="name the inames of one reduction, or select its statement by insn_match=")
    values, _ = folded(kernel)
    accumulators = {node.accumulator for node in kernel.reductions.values()}
    statements, rules = dict(kernel.statement_by_id), dict(kernel.substitutions)
    for node in nodes:
        if subst_rule_name is not None:
            require_fresh(kernel, subst_rule_name, called=True)
        name = subst_rule_name or kernel.fresh_name(f"red_{'_'.join(own)}_arg", *rules)
        update = statements[node.update]
        operand = substitute(update.expression, values)
        if node.others or not variables(operand).isdisjoint(accumulators):
            raise PreconditionError(f"The operand of the reduction '{node.name}' is in several statements.",
                                    subject=node.name, hint="make the rule before other steps")
        rules[name] = SubstitutionRule(name, own, operand)
        # a rule that holds a reduction is a name for it: the kernel keeps the statements of the reduction
        if not has_reduction(operand):
            statements[update.id] = replace(update, expression=p.Call(p.Variable(name), tuple(map(p.Variable, own))))
    return rewritten(kernel, statements=tuple(statements.values()), substitutions=rules)


@transform
def start_from_addend(kernel: LoopKernel, statement: str, *, assume: str | None = None, unsafe: bool = False
                      ) -> LoopKernel:
    """Let the sum in *statement* start from what the statement adds to it, in place of 0.

    ``y = x + sum(k, a[k])`` needs no registers for *x* beside those of the sum, and matrix units add up in place. The
    terms are added in another order, so that results may differ by rounding.

    The sum gets the dtype of the addend, unless it is declared.

    :arg statement: the id of a statement whose expression is one sum and further terms.
    :raises UnknownNameError: there is no such statement.
    :raises PreconditionError: it adds nothing to a sum, or the sum has other loops or another condition.
    :raises IllegalTransformError: something writes to an addend after the start of the sum; with its witness.

    >>> knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", "y[i] = x[i] + sum(k, a[i, k])")
    >>> print(knl.statements_text)
    for i
      y[i] = x[i] + sum(k, a[i, k])  {id=insn}
    end
    >>> print(lk.start_from_addend(knl, "insn").statements_text)
    for i
      <> acc_k = x[i]  {id=insn.k.init}
      for k
        acc_k = acc_k + a[i, k]  {id=insn.k.update}
      end
      y[i] = acc_k  {id=insn}
    end
    """
    require_known("statement", [statement], kernel.statement_by_id)
    final = kernel.statement_by_id[statement]
    terms = final.expression.children if isinstance(final.expression, p.Sum) else (final.expression,)
    nodes = [node for node in kernel.reductions.values() if node.final == statement and node.operation == "sum"
             and p.Variable(node.accumulator) in terms and node.sweep is None]
    if len(nodes) != 1 or len(terms) < 2:
        what = "adds up several sums" if len(nodes) > 1 else "does not add something to a sum"
        raise PreconditionError(f"'{statement}' {what}.", subject=statement,
                                hint="this step is for a statement such as y = x + sum(k, a[k])")
    node = nodes[0]
    init, addend = kernel.statement_by_id[node.init], _without_term(terms, p.Variable(node.accumulator))
    if starts_from_addend(kernel, node) or not variables(addend):
        why = "starts from another one" if starts_from_addend(kernel, node) else "is a number"
        raise PreconditionError(f"The sum of '{statement}' cannot start from {to_text(addend)}: it {why}.",
                                subject=statement, hint="leave it as it is")
    if init.inames != final.inames or init.predicates != final.predicates or init.domain.set != final.domain.set:
        raise PreconditionError(f"The sum of '{statement}' starts in other loops, or under another condition, than "
                                "those of the statement.", subject=statement, hint="take this step before others")
    new = {init.id: replace(init, expression=addend),
           statement: replace(final, expression=p.Variable(node.accumulator))}
    result = with_dependences(kernel, partial(_of_addend, node, frozenset(variables(addend))),
                              statements=tuple(new.get(s.id, s) for s in kernel.statements))
    return require_legal(result, f"start_from_addend({statement!r})", assume=assume, unsafe=unsafe)


def _without_term(terms: Sequence[Expression], term: Expression) -> Expression:
    at = [*terms].index(term)
    rest = (*terms[:at], *terms[at + 1:])
    return add(*rest)


def _of_addend(node: ReductionNode, read: frozenset[str], found: Sequence[Dependence], new: LoopKernel
               ) -> Iterator[Dependence]:
    """The dependences *found*, where the start of the sum *node* reads the addend, which has the names *read*."""
    final = new.statement_by_id[node.final]
    others = frozenset[str]().union(*map(variables, (*final.subscripts, *final.predicates)))
    for d in found:
        own = {"flow": d.sink, "anti": d.source}.get(d.kind)
        if own != node.final or d.array not in read:
            yield d
            continue
        yield replace(d, sink=node.init) if d.kind == "flow" else replace(d, source=node.init)
        if d.array in others:
            yield d


def _in_two_levels(kernel: LoopKernel, inames: str | Iterable[str], within: Within, step: str, assume: str | None,
                   unsafe: bool) -> LoopKernel:
    own = known_list("iname", inames, kernel.inames)
    chosen = matching_statements(kernel, within)
    nodes = [node for node in kernel.reductions.values() if {*own} < {*node.inames} and node.final in chosen]
    if not own or not nodes:
        raise PreconditionError(f"No reduction has the inames {', '.join(own)} and further ones.",
                                subject=", ".join(own), hint="name some of the inames of one reduction")
    for node in (kernel.reductions[node.name] for node in nodes):
        inner = tuple(x for x in node.inames if (x in own) is (step == "split_reduction_inward"))
        kernel = _split_node(kernel, node, inner, step)
    return require_legal(kernel, f"{step}({', '.join(own)})", assume=assume, unsafe=unsafe)


def _split_node(kernel: LoopKernel, node: ReductionNode, inner: tuple[str, ...], step: str) -> LoopKernel:
    """*kernel* with another reduction over the inames *inner* as the operand of the reduction *node*."""
    operation = kernel.operation(node.operation)
    reason = "its operation is not reorderable" if not operation.associative else \
        "its loops also hold other statements" if node.accumulator not in folded(kernel)[0] else \
        "it is a scan" if node.sweep is not None else None
    if reason is not None:
        raise PreconditionError(f"{step} cannot split the reduction '{node.name}': {reason}.", subject=node.name,
                                hint="split the reduction before other steps")
    if not operation.reorderable and _in_another_order(kernel, node, inner):
        raise PreconditionError(f"{step} cannot split the reduction '{node.name}': its operands would have another "
                                "order.", subject=node.name, hint="the inner level takes the innermost of its loops")
    joined = "_".join(inner)
    name = next(x for x in (f"{owner(node.final)}.{joined}{'_'*k}" for k in range(len(kernel.reductions) + 1))
                if x not in kernel.reductions)
    accumulator = new_name(kernel, None, f"acc_{joined}")
    old = kernel.statement_by_id[node.update]
    below = ReductionNode(name, node.operation, accumulator, inner, f"{name}.init", (f"{name}.update",), old.id)
    above = replace(node, inames=tuple(x for x in node.inames if x not in inner))
    outside = restricted(old.domain, [x for x in old.domain.inames if x not in inner])
    target = p.Variable(accumulator)
    parts = {old.id: replace(old, expression=target, domain=outside, predicates=()),
             below.init: replace(old, id=below.init, assignee=target, expression=Neutral(node.operation),
                                 domain=outside, predicates=(), combine=None),
             below.update: replace(old, id=below.update, assignee=target)}
    tree = _two_nests(kernel.tree, node, below)
    nodes = {other.name: replace(other, final=below.update) if other.final == old.id else other
             for other in kernel.reductions.values()}
    return with_dependences(
        kernel, partial(_dependences_of_levels, above, below),
        statements=in_order_of(tree, ({**kernel.statement_by_id, **parts}).values()), tree=tree,
        reductions={**nodes, above.name: above, below.name: below},
        temporaries={**kernel.temporaries, accumulator: replace(kernel.temporaries[node.accumulator],
                                                                name=accumulator)})


def _in_another_order(kernel: LoopKernel, node: ReductionNode, inner: Sequence[str]) -> bool:
    """Do operands of *node* change their order if the loops over *inner* stand inside its others?"""
    around = loops_of(kernel.paths[node.update])
    loops = shared_loops(kernel, node.update, node.update, sorted(around, key=inner.__contains__))
    return out_of_time_order(among_updates(kernel, node).relation, loops, before=False) is not None


def _two_nests(tree: Tree, node: ReductionNode, below: ReductionNode) -> Tree:
    """*tree* with the loops of *node* outside of those of *below*, which gets its init and its update."""
    def levels(loop: Tree) -> Tree:
        if not isinstance(loop, Loop) or loop.iname not in node.inames or node.update not in leaves(loop):
            return loop
        inames, body = [loop.iname], loop.body
        while isinstance(body, Loop) and body.iname in node.inames:
            inames.append(body.iname)
            body = body.body
        if len(inames) < len(node.inames):
            return loop                         # an inner one of these loops
        body = rewrite(body, lambda part: Leaf(below.update) if part == Leaf(node.update) else part)
        inside = nest(tuple(x for x in inames if x in below.inames), body)
        return nest(tuple(x for x in inames if x not in below.inames),
                    seq(Leaf(below.init), inside, Leaf(node.update)))
    return rewrite(tree, levels)


def _dependences_of_levels(above: ReductionNode, below: ReductionNode, found: Sequence[Dependence], after: LoopKernel
                           ) -> Iterator[Dependence]:
    """The dependences after the split: the operands are those of *below*, and each level has its own order."""
    operands = [d for d in found if d.array != above.accumulator]
    yield from between_images(operands, {above.update: (Image(below.update),)})
    for node in (above, below):
        yield from reduction_dependences(after, node)
