"""Inames, conditions and orders of single instructions: definitions, and steps that add orders and claims."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.constructors import reordered, rewritten, with_dependences
from loopkit.analysis.dependences import dependences, explicit_dependences
from loopkit.analysis.legality import require_legal
from loopkit.analysis.match import Within
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import conjuncts, has_reduction, map_children, variables
from loopkit.expr.nodes import Reduction, to_text
from loopkit.expr.parsing import parse_expression
from loopkit.kernel.instruction import Assignment, StatementPlace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import owner
from loopkit.kernel.tree import LoopPlace, Seq, Tree, leaves, rewrite, seq
from loopkit.language.domains import Domains, read_domains
from loopkit.poly.domains import restricted
from loopkit.poly.piecewise import constrained, is_affine_condition
from loopkit.poly.sets import InstanceSet, depends_on
from loopkit.transform.definition import defined
from loopkit.transform.step import definition, known_list, matching_statements, transform

#: The scopes of a claim that two instructions need no synchronization.
_SCOPES = ("local", "global", "any")


@definition
def add_inames_to_insn(kernel: LoopKernel, inames: str | Iterable[str], insn_match: Within) -> LoopKernel:
    """Define the kernel with further inames of instructions: each runs once for each of their values.

    The new loops are inside the loops of the instruction. If the instruction above or below it has loops over the new
    inames, the instruction joins them as far as its own loops nest in the same way.

    :arg inames: ``"i, j"`` or a sequence of inames.
    :arg insn_match: the instructions, as in ``within=``; ``None``: all.
    :raises UnknownNameError: a name is neither an iname of a statement nor of a domain.
    :raises PreconditionError: the bounds of a new iname depend on an iname that an instruction does not have.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "t[i] = 2*x[i] {id=twice}\\ny[i, j] = t[i] + j {id=use}")
    >>> print(lk.add_inames_to_insn(knl, "j", "twice").statements_text)
    for i, j
      t[i] = 2*x[i]  {id=twice}
      y[i, j] = t[i] + j  {id=use}
    end
    """
    domains = read_domains(kernel.domains)
    names = known_list("iname", inames, domains.parents)
    chosen = matching_statements(kernel, insn_match)
    found = list(kernel.instructions)
    left = [k for k, insn in enumerate(found) if insn.id in chosen]
    new = domains.sorted(frozenset(names))
    while left:
        # those beside a loop over a new iname are first
        nests = {k: max((_shared_with(place_of(found[k]).loops, new, place_of(other).loops) for other in (
            *found[max(k - 1, 0):k], *found[k + 1:k + 2])), key=len, default=()) for k in left}
        k = next((k for k, loops in nests.items() if not set(loops) <= set(place_of(found[k]).loops)), left[0])
        found[k] = _with_inames(found[k], new, domains, nests[k])
        left.remove(k)
    return defined(kernel, found)


@definition
def remove_inames_from_insn(kernel: LoopKernel, inames: str | Iterable[str], insn_match: Within) -> LoopKernel:
    """Define the kernel with instructions outside of loops over *inames*: each runs once for all of their values.

    :arg inames: ``"i, j"`` or a sequence of inames.
    :arg insn_match: the instructions, as in ``within=``; ``None``: all.
    :raises UnknownNameError: a name is not an iname.
    :raises PreconditionError: an instruction does not have an iname, or its expressions use it.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", '''
    ...     t[i] = 2*x[i] {id=twice, inames=i:j}
    ...     y[i, j] = t[i] + j {id=use}
    ...     ''')
    >>> print(lk.remove_inames_from_insn(knl, "j", "twice").statements_text)
    for i
      t[i] = 2*x[i]  {id=twice}
      for j
        y[i, j] = t[i] + j  {id=use}
      end
    end
    """
    gone = known_list("iname", inames, kernel.inames)
    chosen = matching_statements(kernel, insn_match)
    return defined(kernel, [_without_inames(insn, gone) if insn.id in chosen else insn
                            for insn in kernel.instructions])


@definition
def remove_predicates_from_insn(kernel: LoopKernel, predicates: str | p.ExpressionNode | Iterable[Expression | str],
                                insn_match: Within) -> LoopKernel:
    """Define the kernel with instructions that run without the conditions *predicates*.

    :arg predicates: conditions of the instructions, expressions or texts.
    :arg insn_match: the instructions, as in ``within=``; ``None``: all.
    :raises PreconditionError: an instruction does not have such a condition.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i] {id=twice, if=x[i] > 0 and i < 4}\\nz[i] = x[i]")
    >>> print(lk.remove_predicates_from_insn(knl, "x[i] > 0", "twice").statements_text)
    for i
      y[i] = 2*x[i]  {id=twice, if=i <= 3}
      z[i] = x[i]  {id=insn}
    end
    >>> print(lk.remove_predicates_from_insn(knl, ["x[i] > 0", "i < 4"], "twice").statements_text)
    for i
      y[i] = 2*x[i]  {id=twice}
      z[i] = x[i]  {id=insn}
    end
    """
    listed = [predicates] if isinstance(predicates, str | p.ExpressionNode) else list(predicates)
    gone = [c for e in listed for c in conjuncts(parse_expression(e, what="a condition") if isinstance(e, str) else e)]
    domains, chosen = read_domains(kernel.domains), matching_statements(kernel, insn_match)
    return defined(kernel, [_without_conditions(insn, gone, domains) if insn.id in chosen else insn
                            for insn in kernel.instructions])


@transform
def add_dependency(kernel: LoopKernel, insn_match: Within, depends_on: Within, *, allow_reordering: bool = False
                   ) -> LoopKernel:
    """Add ``dep=`` to instructions: later steps keep them after the instructions *depends_on*, iteration by iteration.

    :arg insn_match: the instructions that run later, as in ``within=``; *depends_on*: those that run earlier.
    :arg allow_reordering: move the earlier instructions, with the loops around them alone, in front of the later ones.
    :raises IllegalTransformError: the present order is another one, or the new order would break a dependence.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i] {id=twice}\\nz[i] = x[i] {id=copy}")
    >>> knl = lk.add_dependency(knl, "copy", "twice")
    >>> print(knl.statements_text)
    for i
      y[i] = 2*x[i]  {id=twice}
      z[i] = x[i]  {id=copy, dep=twice}
    end
    """
    sinks = matching_statements(kernel, insn_match)
    if allow_reordering:
        kernel = reordered(kernel, _with_earlier_first(kernel.tree, matching_statements(kernel, depends_on), sinks))
    sources = frozenset(map(owner, matching_statements(kernel, depends_on)))
    added = {s.id: sources - {owner(s.id)} - s.options.depends_on for s in kernel.statements if s.id in sinks}
    statements = tuple(
        replace(s, options=replace(s.options, depends_on=s.options.depends_on | added.get(s.id, frozenset())))
        for s in kernel.statements)
    result = with_dependences(
        kernel, lambda found, new: (*found, *explicit_dependences(new, added)), statements=statements)
    return require_legal(result, f"add_dependency({insn_match!r}, {depends_on!r})")


def _with_earlier_first(tree: Tree, earlier: frozenset[str], later: frozenset[str]) -> Tree:
    """*tree* with the nodes of each sequence that hold *earlier* in front of those that hold *later*."""
    def at(node: Tree) -> Tree:
        if not isinstance(node, Seq):
            return node
        holds = [({*leaves(c)} & earlier, {*leaves(c)} & later) for c in node.children]
        first = next((k for k, (_, own) in enumerate(holds) if own), len(holds))
        moved = [k for k, (sources, sinks) in enumerate(holds) if k > first and sources and not sinks]
        order = [*range(first), *moved, *(k for k in range(first, len(holds)) if k not in moved)]
        return seq(*(node.children[k] for k in order)) if moved else node
    return rewrite(tree, at)


@transform
def add_nosync(kernel: LoopKernel, scope: str, source: Within, sink: Within, bidirectional: bool = False,
               force: bool = False, empty_ok: bool = False) -> LoopKernel:
    """Add ``nosync=`` to instructions: a claim that they need no barrier after others.

    Code generation refuses a claim that a dependence contradicts.

    :arg scope: ``"local"`` (barriers of a block), ``"global"`` or ``"any"``. A claim about launches alone is not
        recorded, because launches follow from the accesses.
    :arg source: the instructions that run earlier, as in ``within=``; *sink*: those that get the claim.
    :arg bidirectional: give *source* the claim too.
    :arg force: also for two instructions without a dependence.
    :arg empty_ok: accept that no two instructions get a claim.
    :raises PreconditionError: there is no such scope, or no two instructions get a claim.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i] {id=twice}\\nz[i] = y[i] {id=copy}")
    >>> print(lk.add_nosync(knl, "local", "twice", "copy").statements_text)
    for i
      y[i] = 2*x[i]  {id=twice}
      z[i] = y[i]  {id=copy, nosync=twice}
    end
    """
    if scope not in _SCOPES:
        raise PreconditionError(f"'{scope}' is not a scope of synchronization.", subject=scope,
                                hint=f"the scopes are {', '.join(_SCOPES)}")
    sources, sinks = (frozenset(map(owner, matching_statements(kernel, x))) for x in (source, sink))
    related = {(owner(d.source), owner(d.sink)) for d in dependences(kernel)}
    claims = {(x, y) for x in sources for y in sinks if x != y and (force or (x, y) in related)}
    if not claims and not empty_ok:
        raise PreconditionError("No instruction of the sinks depends on one of the sources.", subject=str(sink),
                                hint="pass force=True for a claim without a dependence, or empty_ok=True")
    claims |= {(y, x) for x, y in claims} if bidirectional else set()
    if scope == "global":
        return kernel
    return rewritten(kernel, statements=tuple(
        replace(s, options=replace(s.options, no_sync_with=s.options.no_sync_with | {
            x for x, y in claims if y == owner(s.id)})) for s in kernel.statements))



# Places of instructions

def place_of(insn: Assignment) -> StatementPlace:
    """The instances and the loops of *insn*, an instruction of a kernel."""
    assert insn.place is not None
    return insn.place


def _with_inames(insn: Assignment, new: Sequence[str], domains: Domains, joined: Sequence[LoopPlace]) -> Assignment:
    """*insn* with the inames *new*, in the loops *joined* of an instruction beside it and in further ones."""
    place = place_of(insn)
    added = [x for x in new if x not in place.domain.inames]
    for x in added:
        if missing := domains.sorted(_bounding(x, domains).difference(place.domain.inames, added)):
            raise PreconditionError(f"The bounds of '{x}' depend on '{missing[0]}', which '{insn.id}' does not have.",
                                    subject=x, hint=f"add '{missing[0]}' too")
    known = {x for x, _ in joined}
    loops = (*joined, *(loop for loop in place.loops if loop[0] not in known),
             *((x, str(insn.id)) for x in added if x not in known))
    inames = tuple(x for x, _ in loops)
    return insn.copy(within_inames=inames, place=StatementPlace(
        domains.instances(inames).intersect(place.domain.onto(inames)), loops))


def _bounding(iname: str, domains: Domains) -> frozenset[str]:
    """The inames before *iname*, in its domain or around it, on which its bounds depend."""
    points = domains.domains[domains.owner[iname]]
    before = points.inames[:points.inames.index(iname)]
    return domains.parents[iname].union(x for x in before if depends_on(points.onto((x, iname)).bound([x]), [x]))


def _shared_with(loops: Sequence[LoopPlace], added: Sequence[str], beside: Sequence[LoopPlace]
                 ) -> tuple[LoopPlace, ...]:
    """The outer loops of those *beside* that a statement in *loops* and in new loops over *added* shares."""
    found: list[LoopPlace] = []
    rest = list(loops)
    for loop in beside:
        if rest[:1] == [loop]:
            rest.pop(0)
        elif loop[0] not in added:
            break
        found.append(loop)
    return tuple(found)


def _without_inames(insn: Assignment, gone: Sequence[str]) -> Assignment:
    """*insn* without the inames *gone*, which its expressions do not use."""
    place = place_of(insn)
    used = frozenset().union(*map(variables, (insn.assignee, insn.expression, *insn.predicates)))

    def require_unused(x: str, unused: bool) -> None:
        if not unused:
            raise PreconditionError(f"'{insn.id}' uses the iname '{x}' in its expressions.", subject=x,
                                    hint=f"give '{insn.id}' other expressions by map_instructions")
    for x in gone:
        if x not in place.domain.inames:
            raise PreconditionError(f"'{insn.id}' does not have the iname '{x}'.", subject=x,
                                    hint=f"its inames are {', '.join(place.domain.inames) or 'none'}")
        require_unused(x, x not in used)

    def smaller(points: InstanceSet) -> InstanceSet:
        for x in gone:
            require_unused(x, not depends_on(points, [x]))
        return points.without_params(gone)
    left = [x for x in place.domain.inames if x not in gone]
    loops = tuple(loop for loop in place.loops if loop[0] not in gone)
    return _with_reductions(insn.copy(
        within_inames=left, place=StatementPlace(restricted(place.domain, left), loops)), smaller)


def _without_conditions(insn: Assignment, gone: Sequence[Expression], domains: Domains) -> Assignment:
    """*insn* without the conditions *gone*; those that are affine restrict its instances."""
    place = place_of(insn)
    listed = [c for e in insn.predicates for c in conjuncts(e)]
    for c in (c for c in gone if c not in listed):
        inames, names = place.domain.inames, {*place.domain.inames, *place.domain.params}
        wider = _without_condition(place.domain, c, domains) if is_affine_condition(c, names) else place.domain
        if wider.is_equal(place.domain):
            raise PreconditionError(f"'{insn.id}' does not have the condition '{to_text(c)}'.", subject=str(insn.id),
                                    hint="the printed kernel shows its domains, and conditions under if=")

        def widened(points: InstanceSet, c: Expression = c, inames: tuple[str, ...] = inames) -> InstanceSet:
            return _without_condition(points.onto((*inames, *points.inames)), c, domains).bound(inames)
        insn = _with_reductions(insn.copy(place=replace(place, domain=wider)), widened)
        place = place_of(insn)
    return insn.copy(predicates=tuple(c for c in listed if c not in gone))


def _without_condition(points: InstanceSet, condition: Expression, domains: Domains) -> InstanceSet:
    """*points* without *condition*: those that fulfil the other conditions, and are in the *domains*."""
    whole = domains.instances(points.inames)
    under = constrained(whole, (condition,))
    return points.named(points.set.gist(under.set)).intersect(whole) if points.is_subset(under) else points


def _with_reductions(insn: Assignment, f: Callable[[InstanceSet], InstanceSet]) -> Assignment:
    """*insn* with *f* applied to the domain of each reduction in it, whose parameters are the inames around it."""
    def walk(e: Expression) -> Expression:
        new = map_children(e, walk) if has_reduction(e) else e
        return replace(new, declared=tuple(f(InstanceSet.parse(text)).text for text in new.declared)) if isinstance(
            new, Reduction) else new
    assert not isinstance(insn.assignee, str)
    assert not isinstance(insn.expression, str)
    return insn.copy(assignee=walk(insn.assignee), expression=walk(insn.expression),
                     predicates=tuple(map(walk, insn.predicates)))
