"""Definitions: steps that give a kernel other statements. They change its results, and there is nothing to prove."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from loopkit.analysis.accesses import accesses_of
from loopkit.analysis.atomic_stores import claims_of_stores, is_claimed
from loopkit.analysis.constructors import annotated, in_own_order
from loopkit.analysis.dependences import flow_of_values, joined_relations, relations_of
from loopkit.analysis.match import Within
from loopkit.errors import PreconditionError, UndecidedError
from loopkit.expr.mappers import variables
from loopkit.expr.nodes import to_text
from loopkit.kernel.data import SubstitutionRule
from loopkit.kernel.instruction import Assignment
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import owner
from loopkit.kernel.tree import meeting, still_given
from loopkit.language.make import Given, Program, listed_program, remade
from loopkit.language.objects import InstructionObject
from loopkit.poly.domains import AnySet
from loopkit.poly.sets import InstanceSet
from loopkit.transform.step import definition, matching_statements
from loopkit.transform.tags import tagged


@definition
def with_statements(kernel: LoopKernel, instructions: Program,
                    domains: Given | Iterable[Given] | None = None, *, kernel_data: Iterable[object] | None = None,
                    assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Define the kernel with other statements.

    A definition is not proven: the new kernel may compute anything else. Its order is the textual order of
    *instructions*, and its dependences are computed from this order. Later steps are proven for the new kernel. An
    instruction of :attr:`LoopKernel.instructions` keeps its instances and its loops. Arguments, temporaries, rules,
    tags and options of *kernel* stay where the new statements use them.

    Each call reads all statements: pass many new ones in one call.

    :arg instructions: all statements of the new kernel, as for :func:`make_kernel`.
    :arg domains: the domains of new inames; default: those of *kernel*. An instruction of *kernel* keeps its own
        instances, which the domains must contain.
    :arg kernel_data: declarations, as for :func:`make_kernel`; default: those of *kernel*.
    :arg assume: the reason why the tags are legal for the new statements, if this is undecided.
    :raises PreconditionError: the current order of *kernel* cannot be that of a definition, because a read would get
        another value in it; or a reduction shares its loops with other statements.
    :raises IllegalTransformError: a tag would break a dependence of the new statements.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", [])
    >>> knl = lk.with_statements(knl, [lk.Assignment("t[i]", "2*x[i]")])
    >>> knl = lk.with_statements(knl, [*knl.instructions, "y[i] = t[i] + 1"])
    >>> print(knl.statements_text)
    for i
      t[i] = 2*x[i]  {id=insn}
    end
    for i
      y[i] = t[i] + 1  {id=insn_0}
    end
    >>> print([step.verdict for step in knl.history])
    ['defined', 'defined']
    """
    return defined(kernel, instructions, domains, kernel_data, assume, unsafe)


@definition
def map_instructions(kernel: LoopKernel, insn_match: Within,
                     f: Callable[[Assignment], InstructionObject | str]) -> LoopKernel:
    """Define the kernel with *f* applied to its instructions; see :func:`with_statements`.

    :arg insn_match: the instructions that *f* maps, as in ``within=``; ``None``: all.
    :arg f: from an instruction to its replacement, an instruction or a text.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i] {id=twice}\\nz[i] = y[i] {id=copy}")
    >>> knl = lk.map_instructions(knl, "twice", lambda insn: insn.copy(expression=insn.expression + 1))
    >>> print(knl.statements_text)
    for i
      y[i] = 2*x[i] + 1  {id=twice}
      z[i] = y[i]  {id=copy}
    end
    """
    chosen = matching_statements(kernel, insn_match)
    return defined(kernel, [f(insn) if insn.id in chosen else insn for insn in kernel.instructions])


@definition
def remove_instructions(kernel: LoopKernel, insn_ids: Within) -> LoopKernel:
    """Define the kernel without the instructions *insn_ids*; see :func:`with_statements`.

    A statement with ``dep=`` on a removed one depends on the statements on which that one depends.

    :arg insn_ids: ids, or match expressions as in ``within=``; ``None``: all.
    :raises PreconditionError: a statement that stays reads a temporary that only removed ones write.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i] {id=twice}\\nz[i] = y[i] {id=copy}")
    >>> print(lk.remove_instructions(knl, "copy").statements_text)
    for i
      y[i] = 2*x[i]  {id=twice}
    end
    """
    gone = frozenset(map(owner, matching_statements(kernel, insn_ids)))
    left_over = [s for s in kernel.statements if owner(s.id) not in gone]
    lost = kernel.temporaries.keys() & kernel.written_names - {s.written for s in left_over}
    for s in left_over:
        if own := [a.array for a in accesses_of(kernel, s) if a.array in lost]:
            raise PreconditionError(
                f"'{owner(s.id)}' reads the temporary '{own[0]}', which no statement would write.", subject=own[0],
                hint=f"remove '{owner(s.id)}' too, or give all statements of the new kernel to with_statements")
    above: dict[str, frozenset[str]] = {}

    def left(ids: Collection[str]) -> frozenset[str]:
        return frozenset().union(*(above[x] if x in gone else {x} for x in ids if x not in gone or x in above))
    kept: list[Assignment] = []
    for insn in kernel.instructions:
        new = insn.copy(depends_on=left(insn.depends_on), no_sync_with=insn.no_sync_with - gone)
        if insn.id in gone:
            above[str(insn.id)] = new.depends_on
        else:
            kept.append(new)
    return defined(kernel, kept, [d for d in kernel.domains if lost.isdisjoint(d.params)])


def defined(kernel: LoopKernel, instructions: Program,
             domains: Given | Iterable[Given] | None = None, kernel_data: Iterable[object] | None = None,
             assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """The kernel with the statements *instructions* and what stays of *kernel*."""
    require_own_order(kernel)
    _require_whole_reductions(kernel)
    listed = listed_program(instructions)
    new_rules = {rule.name for rule in listed if isinstance(rule, SubstitutionRule)}
    rules = [rule for rule in kernel.substitutions.values() if rule.name not in new_rules]
    accumulators = {node.accumulator for node in kernel.reductions.values()}
    temporaries = {name: t for name, t in kernel.temporaries.items() if name not in accumulators}
    given = kernel.domains if domains is None else [domains] if isinstance(domains, str | AnySet | InstanceSet) \
        else domains
    result = remade(kernel, [*rules, *listed],
                    [d if isinstance(d, InstanceSet) else str(d) for d in given],
                    [*kernel.arguments, *temporaries.values(), "..."] if kernel_data is None else kernel_data)
    result = _with_parts_of(kernel, result, temporaries if kernel_data is None else None)
    # a new writer of an array that a store reads may contradict its proof, but no claim about a store that stays
    claimed = {s.id: (s.assignee, s.expression) for s in kernel.statements if is_claimed(kernel, s)}
    claims = claims_of_stores(result, [s for s in result.statements if claimed.get(s.id) != (s.assignee, s.expression)],
                              "with_statements", assume, unsafe=unsafe)
    result = annotated(result, obligations=(*result.obligations, *claims))
    tags = {x: tag for x, tag in kernel.tags.items() if x in result.inames}
    try:
        return tagged(result, tags, "with_statements", assume=assume, unsafe=unsafe)
    except UndecidedError:
        new = None if assume is not None else _under_old_claims(kernel, result, tags)
        if new is None:
            raise
        return new


def _under_old_claims(kernel: LoopKernel, result: LoopKernel, tags: Mapping[str, Any]) -> LoopKernel | None:
    """*result* with the *tags* of *kernel*, if the obligations of *kernel* cover its undecided pairs of statements that
    stay; else ``None``.
    """
    claims = {o.claim for o in kernel.obligations}
    if not claims:
        return None
    new = tagged(result, tags, "with_statements", assume="the obligations of the kernel")
    other = [s for s in new.statement_by_id if _elements_of(new, s) != _elements_of(kernel, s)]
    added = [o.claim for o in new.obligations if o not in result.obligations]
    if not claims.issuperset(added) or any(f"'{s}'" in claim for claim in added for s in other):
        return None
    return annotated(new, obligations=result.obligations)


def _elements_of(kernel: LoopKernel, statement: str) -> Mapping[str, object]:
    """The instances and the accesses of *statement*, and the texts and places of the statements on whose values they
    depend.
    """
    found: dict[str, object] = {}
    waiting = [s for s in kernel.statements if s.id == statement]
    while waiting:
        s = waiting.pop()
        accesses, conditions = accesses_of(kernel, s), frozenset(map(to_text, s.predicates))
        names = {*s.domain.params}.union(*map(variables, (*s.predicates, *(e for a in accesses for e in a.subscripts))))
        names |= variables(s.expression) if found else set()
        found[s.id] = (s.domain.text, s.inames, conditions, frozenset((a.array, a.subscripts) for a in accesses),
                       to_text(s.expression) if found else s.written)
        writers = [w for name in names & kernel.data.keys() for w in kernel.writers.get(name, ())]
        found |= {f"{w.id} {s.id}": meeting(kernel.paths[w.id], kernel.paths[s.id]) for w in writers}
        waiting += [w for w in writers if w.id not in found]
    return found


def _with_parts_of(kernel: LoopKernel, new: LoopKernel, temporaries: Collection[str] | None) -> LoopKernel:
    """*new* with the barriers, obligations, tags and given orders of *kernel* that fit it.

    :arg temporaries: those that *new* takes from *kernel* if its statements use them; ``None``: the user declared them.
    """
    old = kernel.temporaries if temporaries is not None else {}
    accumulators = {node.accumulator for node in kernel.reductions.values()}
    known = {name: old[name] if name in old and name in (temporaries or ()) and t.shape == old[name].shape else t
             for name, t in new.temporaries.items() if name in new.written_names or (
                 temporaries is None and name not in accumulators)}
    statements = new.statement_by_id
    pairs = new.given_pairs | {(x, y) for x, y in kernel.given_pairs if (y, x) not in new.given_pairs}
    return annotated(
        new, temporaries=known, given_pairs=still_given(new.tree, kernel.tags, pairs),
        barriers=tuple(b for b in kernel.barriers if b.first in statements and b.second in statements),
        obligations=kernel.obligations, user_tags=kernel.user_tags, kernel_tags=kernel.kernel_tags)


def require_own_order(kernel: LoopKernel) -> None:
    """:raises PreconditionError: a read gets another value in the current order than by the dependences."""
    if kernel.derivation is None:
        return
    for node in kernel.reductions.values():
        if node.others or node.sweep is not None:
            raise PreconditionError(
                f"The reduction '{node.name}' of '{node.final}' has peeled iterations or is a scan, so that the "
                "present order cannot be that of a definition.", subject=node.name,
                hint="define the statements before that step")
    own = in_own_order(kernel)
    sums = {node.accumulator: kernel.operation(node.operation) for node in kernel.reductions.values()}
    for name in (x for x in kernel.temporaries if x not in sums or not sums[x].reorderable):
        flows = relations_of(own, name, "flow") if name in sums else joined_relations(flow_of_values(own, name))
        carried = relations_of(kernel, name, "flow")
        for pair in [*flows, *carried]:
            if pair not in flows or pair not in carried or not flows[pair].is_equal(carried[pair]):
                raise PreconditionError(
                    f"The present order of '{kernel.name}' cannot be that of a definition, because '{pair[1]}' would "
                    f"read another value of '{name}' in it.", subject=name,
                    hint=f"define the statements before the steps, or privatize(knl, '{name}') where the value is "
                         "carried from loop to loop")


def _require_whole_reductions(kernel: LoopKernel) -> None:
    """:raises PreconditionError: a reduction of *kernel* is not an expression of one of its instructions."""
    shown = {insn.id for insn in kernel.instructions} if kernel.reductions else set()
    for node in kernel.reductions.values():
        if node.sweep is not None or not shown.isdisjoint((node.init, *node.updates)):
            raise PreconditionError(
                f"The reduction '{node.name}' of '{node.final}' shares its loops with other statements, or is a scan, "
                "so that it is not an expression of an instruction.", subject=node.name,
                hint="define the statements before that step")
