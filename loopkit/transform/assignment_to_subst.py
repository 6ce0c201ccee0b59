"""assignment_to_subst makes a substitution rule of an assignment: readers compute its value again."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_to, declared, expanded_expression, why_inexact
from loopkit.analysis.constructors import with_dependences
from loopkit.analysis.dependences import flow_of_values, joined_relations, relations_of
from loopkit.analysis.legality import require_legal
from loopkit.analysis.match import Within
from loopkit.analysis.values_preserved import wrong_values
from loopkit.analysis.witnesses import BrokenPairs, Refusal, parameters_of, refuse_smallest
from loopkit.errors import PreconditionError, UndecidedError, instance_text, require_known, values_text
from loopkit.expr.dtypes import Type, Weak, resolve, type_of
from loopkit.expr.mappers import map_children, subexpressions, variables
from loopkit.expr.nodes import TypeCast
from loopkit.kernel.data import SubstitutionRule
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, Statement
from loopkit.kernel.tree import without
from loopkit.language.names import name_list
from loopkit.poly.affine import subtract
from loopkit.poly.relations import differing, same_element
from loopkit.poly.sets import Map, Set, lexmin_point
from loopkit.transform.step import matching_statements, require_no_rule, transform

#: For each reader the definition that it reads, and the pairs of their instances.
_Reads = Mapping[str, tuple[str, Map]]


@transform
def assignment_to_subst(kernel: LoopKernel, lhs_name: str, extra_arguments: str | Iterable[str] = (),
                        within: Within = None, *, assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Make a substitution rule ``a_subst`` of the assignment to *lhs_name*, and use it in place of the reads.

    Each reader then computes the value again. The operands must have the same values there: no statement writes them
    between the assignment and the reader. If no read of a temporary is left, its assignment is removed. An argument
    keeps its assignment, because the caller gets its values.

    The inames in the subscripts of the assignment are the arguments of the rule. Other inames keep their names in the
    rule, and must have the same values at the assignment and at the reader. If several statements assign *lhs_name*,
    each of them whose value is read becomes a rule (``a_subst``, ``a_subst_0``, ...).

    :arg lhs_name: a temporary or an argument.
    :arg extra_arguments: other inames of the assignment that also become arguments of the rule.
    :arg within: the readers; default: all.
    :raises UnknownNameError: there is no such array or iname.
    :raises PreconditionError: nothing reads *lhs_name*; a read may get the value of several statements, or of none; or
        the assignment is an update, is conditional, holds a reduction, or reads *lhs_name*.
    :raises UndecidedError: a subscript or condition depends on data.
    :raises IllegalTransformError: an operand has another value at a reader; with its witness.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<n}", '''
    ...     <> t[i] = 2*x[i]
    ...     y[j] = t[j] + t[n-1-j]
    ...     ''')
    >>> knl = lk.assignment_to_subst(knl, "t")
    >>> print(knl.statements_text)
    for j
      y[j] = t_subst(j) + t_subst(n - j - 1)  {id=insn_0}
    end
    >>> print(lk.expand_subst(knl).statements_text)
    for j
      y[j] = 2*x[j] + 2*x[n - j - 1]  {id=insn_0}
    end
    """
    require_known("array or temporary", [lhs_name], kernel.data)
    require_no_rule(kernel, frozenset([lhs_name]))
    reads = _single_reads(kernel, lhs_name, matching_statements(kernel, within))
    extra = name_list(extra_arguments)
    require_known("iname", extra, kernel.inames)
    rules: dict[str, _Rule] = {}
    for definition in dict.fromkeys(source for source, _ in reads.values()):
        taken = [rule.rule.name for rule in rules.values()]
        rule = kernel.fresh_name(f"{lhs_name}_subst", *taken)
        rules[definition] = _rule_of(kernel, kernel.statement_by_id[definition], rule, extra,
                                     _indexing_reader(kernel, reads, lhs_name))
    for reader, (definition, pairs) in reads.items():
        _require_same_inames(kernel, rules[definition], reader, pairs)
    step = f"assignment_to_subst({lhs_name!r})"
    result = require_legal(_with_rules(kernel, lhs_name, reads, rules), step, assume=assume, unsafe=unsafe)
    for definition in rules:
        for operand in sorted(_operands(kernel, definition) & kernel.written_names & kernel.temporaries.keys()):
            _require_values(kernel, result, operand, step)
    return result


def _single_reads(kernel: LoopKernel, name: str, chosen: Collection[str]) -> _Reads:
    """The readers of *name* among *chosen*, each with the one statement whose values it reads."""
    flows = relations_of(kernel, name, "flow") if name in kernel.temporaries else \
        joined_relations(flow_of_values(kernel, name))
    result: dict[str, tuple[str, Map]] = {}
    for s in kernel.statements:
        own = accesses_to(kernel, s.id, name, is_write=False)
        if s.id not in chosen or not own or (s.combine is not None and s.written == name):
            continue
        if name in s.domain.params or any(name in variables(index) for index in s.subscripts):
            raise PreconditionError(f"'{name}' is in a bound or in the written element of '{s.id}', where a rule "
                                    "cannot stand.", subject=name, hint="leave this statement out with within=")
        sources = {source: pairs for (source, sink), pairs in flows.items() if sink == s.id}
        if len(sources) > 1:
            raise PreconditionError(f"'{s.id}' reads values of '{name}' from several statements: "
                                    f"{', '.join(sorted(sources))}.", subject=name,
                                    hint="leave this statement out with within=")
        for a in (*own, *(w for x in sources for w in accesses_to(kernel, x, name, is_write=True))):
            if (why := why_inexact(kernel, a)) is not None and not (a.affine and not a.is_write):
                raise UndecidedError(f"Whether '{s.id}' reads the values of one assignment cannot be decided.", why,
                                     hint="leave this statement out with within=")
        for a in own:
            # a dependence does not tell the reads of one statement apart
            written = [pairs.intersect(same_element(w.relation, a.relation)).range() for x, pairs in sources.items()
                       for w in accesses_to(kernel, x, name, is_write=True)]
            rest = reduce(Set.subtract, written, a.domain.set)
            point = lexmin_point(rest, s.inames, parameters_of(kernel))
            if point is not None:
                raise PreconditionError(
                    f"{instance_text(s.id, point[1])}{values_text(point[0], ' (with {})')} reads an element of "
                    f"'{name}' that no statement assigns before.", subject=name,
                    hint="leave this statement out with within=")
        if sources:
            result[s.id] = next(iter(sources.items()))
    if not result:
        raise PreconditionError(f"No statement that within= selects reads '{name}'.", subject=name)
    return result


@dataclass(frozen=True)
class _Rule:
    """The rule of one assignment.

    :ivar offsets: for each argument from a subscript, the axis and the rest of the subscript beside the iname.
    :ivar free: the inames of the assignment in the rule that have no subscript.
    """

    rule: SubstitutionRule
    offsets: tuple[tuple[int, Expression], ...]
    free: tuple[str, ...]
    definition: Statement

    def use(self, subscripts: Sequence[Expression]) -> Expression:
        """The use of the rule for the element with these *subscripts*."""
        values = [subtract(subscripts[axis], rest) for axis, rest in self.offsets]
        others = [p.Variable(x) for x in self.rule.arguments[len(values):]]
        name = p.Variable(self.rule.name)
        return p.Call(name, (*values, *others)) if self.rule.arguments else name


def _indexing_reader(kernel: LoopKernel, reads: _Reads, name: str) -> str | None:
    """A reader of *name* in a subscript, which is computed with wider integers than other expressions."""
    return next((s.id for s in map(kernel.statement, reads) for e in (s.expression, s.assignee, *s.predicates)
                 for part in subexpressions(e) if isinstance(part, p.Subscript)
                 if any(name in variables(index) for index in part.index_tuple)), None)


def _rule_of(kernel: LoopKernel, s: Statement, name: str, extra: Sequence[str], indexing: str | None) -> _Rule:
    """The rule *name* for the assignment *s*; *indexing*: a reader that uses its value in a subscript."""
    reason = "is an update" if s.combine is not None else "is conditional" if s.predicates else \
        f"reads '{s.written}' itself" if accesses_to(kernel, s.id, s.written, is_write=False) else \
        "holds a reduction" if any(node.final == s.id for node in kernel.reductions.values()) or \
        s.id in kernel.reduction_of else None
    if reason is not None:
        raise PreconditionError(f"'{s.id}' cannot become a rule, because it {reason}.", subject=s.id,
                                hint="precompute and extract_subst make and remove other copies")
    offsets: dict[str, tuple[int, Expression]] = {}
    for axis, subscript in enumerate(s.subscripts):
        own = [x for x in s.inames if x in variables(subscript)]
        if len(own) == 1 and own[0] not in offsets and variables(
                rest := subtract(subscript, p.Variable(own[0]))).isdisjoint(s.inames):
            offsets[own[0]] = axis, rest
    used = variables(expanded_expression(kernel, s)).intersection(s.inames)
    more = tuple(x for x in dict.fromkeys(extra) if x not in offsets)
    if missing := [x for x in more if x not in s.inames]:
        raise PreconditionError(f"'{missing[0]}' is not an iname of '{s.id}'.", subject=missing[0],
                                hint="extra_arguments= are inames of the assignment")
    expression = expanded_expression(kernel, s) if offsets or more else s.expression
    return _Rule(SubstitutionRule(name, (*offsets, *more), _with_dtype(kernel, s, expression, indexing)),
                 tuple(offsets.values()), tuple(x for x in s.inames if x in used and x not in offsets), s)


def _with_dtype(kernel: LoopKernel, s: Statement, expression: Expression, indexing: str | None) -> Expression:
    """*expression* with the dtype that the assignment gives its value."""
    own: Type | None = kernel.data[s.written].dtype
    given = type_of(expanded_expression(kernel, s), lambda name: declared(kernel, name))
    if own is None:
        own = resolve(given) if isinstance(given, Weak) else None
    known = given if own is None else own
    if indexing is not None and known is None:
        raise PreconditionError(f"'{s.written}' is a part of a subscript of '{indexing}', and its dtype is unknown.",
                                subject=s.written, hint=f"declare it first: add_dtypes(knl, {{'{s.written}': ...}})")
    if known is None or (indexing is None and (own is None or given == own)):
        return expression
    return TypeCast(resolve(known).name, expression)


def _require_same_inames(kernel: LoopKernel, rule: _Rule, reader: str, pairs: Map) -> None:
    """:raises PreconditionError: a free iname of *rule* has another value at the *reader* than at the assignment."""
    inames = kernel.statement_by_id[reader].inames
    for x in (*rule.free, *rule.rule.arguments[len(rule.offsets):]):
        if x not in inames or differing(pairs, [(rule.definition.inames.index(x), inames.index(x))]) is not None:
            raise PreconditionError(
                f"'{reader}' reads values of '{rule.definition.written}' from other iterations of '{x}'.", subject=x,
                hint=f"expand(knl, '{rule.definition.written}', '{x}') makes '{x}' a subscript")


def _operands(kernel: LoopKernel, statement: str) -> frozenset[str]:
    return variables(expanded_expression(kernel, kernel.statement_by_id[statement])) & kernel.data.keys()


def _with_rules(kernel: LoopKernel, name: str, reads: _Reads, rules: Mapping[str, _Rule]) -> LoopKernel:
    """*kernel* with uses of *rules* in place of the *reads*, and without definitions that nothing reads."""
    def used(s: Statement) -> Statement:
        if s.id not in reads:
            return s
        rule = rules[reads[s.id][0]]

        def walk(e: Expression) -> Expression:
            if isinstance(e, p.Subscript) and e.aggregate == p.Variable(name):
                return rule.use(tuple(map(walk, e.index_tuple)))
            return rule.use(()) if e == p.Variable(name) else map_children(e, walk)
        return replace(s, expression=walk(s.expression), predicates=tuple(map(walk, s.predicates)))
    statements = tuple(map(used, kernel.statements))
    left = {s.id for s in statements if s.id not in reads and accesses_to(kernel, s.id, name, is_write=False)}
    gone = frozenset(s.id for s in statements if s.written == name and name in kernel.temporaries and not left)
    for b in kernel.barriers:
        if at := gone & {b.first, b.second}:
            raise PreconditionError(f"'{min(at)}' would be removed, but the user requested a barrier at it.",
                                    subject=min(at), hint="request the barrier after this step")
    return with_dependences(
        kernel, lambda found, _: _moved_dependences(list(found), name, reads, gone),
        statements=tuple(_without_deps(s, kernel, gone) for s in statements if s.id not in gone),
        tree=without(kernel.tree, gone),
        temporaries={k: t for k, t in kernel.temporaries.items() if not gone or k != name},
        substitutions={**kernel.substitutions, **{rule.rule.name: rule.rule for rule in rules.values()}})


def _without_deps(s: Statement, kernel: LoopKernel, gone: frozenset[str]) -> Statement:
    """*s* with ``dep=`` on what the removed statements depend on, in place of these."""
    def above(ids: Iterable[str]) -> frozenset[str]:
        return frozenset().union(*(above(kernel.statement_by_id[x].options.depends_on) if x in gone else {x}
                                   for x in ids))
    own = s.options
    return s if gone.isdisjoint(own.depends_on | own.no_sync_with) else replace(s, options=replace(
        own, depends_on=above(own.depends_on), no_sync_with=own.no_sync_with.difference(gone)))


def _moved_dependences(found: Sequence[Dependence], name: str, reads: _Reads, gone: Collection[str]
                       ) -> Iterator[Dependence]:
    """The dependences after the step: a reader has those of the operands of its definition, and none of *name*."""
    for d in found:
        reader = {"flow": d.sink, "anti": d.source}.get(d.kind)
        if not (d.array == name and reader in reads) and d.source not in gone and d.sink not in gone:
            yield d
    for reader, (definition, pairs) in reads.items():
        for d in found:
            if d.array != name and d.kind == "flow" and d.sink == definition:
                yield from _some(replace(d, sink=reader, relation=d.relation.apply_range(pairs)))
            if d.array != name and d.kind == "anti" and d.source == definition:
                yield from _some(replace(d, source=reader, relation=pairs.reverse().apply_range(d.relation)))
    for statement in gone:
        for d in found:
            for other in found if d.kind == "explicit" and d.sink == statement else ():
                if other.kind == "explicit" and other.source == statement:
                    yield from _some(replace(other, source=d.source, relation=d.relation.apply_range(other.relation)))


def _some(d: Dependence) -> Iterator[Dependence]:
    if not d.relation.is_empty():
        yield d


def _require_values(before: LoopKernel, after: LoopKernel, operand: str, step: str) -> None:
    """:raises IllegalTransformError: a reader would get another value of the temporary *operand* than its definition.

    If values are in the order of the text before the step, they must be so after it. Otherwise storage allocation
    decides where each value is kept.
    """
    if any(wrong_values(relations_of(before, operand, "flow"), joined_relations(flow_of_values(before, operand)))):
        return
    found = joined_relations(flow_of_values(after, operand))
    refuse_smallest([
        Refusal(BrokenPairs.on_one_element(after, operand, "flow", wrong.source, wrong.sink, wrong.pairs),
                f"{step} would read '{operand}' in '{wrong.sink}', where it has a later value.",
                ["leave this statement out with within="], after)
        for wrong in wrong_values(relations_of(after, operand, "flow"), found)], step)
