"""Access relations: the elements of each array that each statement instance reads or writes."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TypeVar

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.dtypes import WEAK_INT, Type, weak
from loopkit.expr.mappers import (
    array_of,
    called,
    children,
    element,
    elements_of,
    map_children,
    subexpressions,
    subscripts_of,
    substitute,
    variables,
)
from loopkit.instructions.base import MemoryInstruction
from loopkit.kernel.c_instruction import OpaqueValue, RegionRead
from loopkit.kernel.data import SubstitutionRule, ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.poly.affine import add, affine_difference, if_affine, is_quasi_affine, names_in
from loopkit.poly.domains import independent_parts
from loopkit.poly.limits import kept, kept_in_memo
from loopkit.poly.piecewise import affine_on, cells, subscripts_on, where_holds
from loopkit.poly.sets import InstanceSet, Map, Set, universe_params

W = TypeVar("W")


@dataclass(frozen=True)
class Access:
    """One reference to an array or a temporary.

    :ivar subscripts: ``()`` for a scalar.
    :ivar domain: the instances that make the access, without bounds that depend on data.
    :ivar known: for each subscript, whether it is quasi-affine in the inames and value arguments. All count as such if
        each of them is quasi-affine for each value of an iname.
    :ivar doubt: the condition or bound because of which an instance of *domain* may not make the access; ``None``:
        each does.
    :ivar update: the operation of the atomic update that this access is a part of; ``None``: it is not part of one.
    :ivar any_order: accesses with one key may run in any order; ``None``: every order with another write counts.
    """

    statement: str
    array: str
    subscripts: tuple[Expression, ...]
    is_write: bool
    domain: InstanceSet
    known: tuple[bool, ...]
    doubt: str | None
    update: str | None = None
    any_order: str | None = None

    @property
    def affine(self) -> bool:
        return all(self.known)

    @property
    def exact(self) -> bool:
        """Is it known which elements every instance of *domain* accesses?"""
        return self.affine and self.doubt is None

    @cached_property
    def subscript_relation(self) -> Map:
        """From instances to subscripts, on *domain* at least; to every value along an axis whose subscript is not
        affine.
        """
        if self.affine:
            return subscripts_on(self.domain, self.subscripts)
        return cells(self.domain.inames, [s if known else None for s, known in zip(self.subscripts, self.known,
                                                                                   strict=True)])

    @cached_property
    def relation(self) -> Map:
        """Instances to elements (the access relation)."""
        return self.subscript_relation.intersect_domain(self.domain.set)


def commute(a: Access, b: Access) -> bool:
    """Are both accesses parts of atomic updates by one operation, or of atomic stores, whose order is free?"""
    return a.any_order is not None and a.any_order == b.any_order


def declared(knl: LoopKernel, name: str) -> Type | None:
    """The type of a name as declared in *knl*: inames and value arguments have weak types."""
    if name in knl.data:
        return knl.data[name].dtype
    argument = knl.argument_by_name.get(name)
    return WEAK_INT if argument is None or argument.dtype is None else weak(argument.dtype)


def expand_rules(expr: Expression, rules: Mapping[str, SubstitutionRule],
                 check: Callable[[SubstitutionRule, Iterable[Expression]], None] = lambda rule, args: None
                 ) -> Expression:
    """*expr* with every use of a substitution rule replaced by the rule's body.

    :arg check: raises an error for a rule that cannot have these arguments.
    """
    if not rules:
        return expr
    name, args = (expr.function, expr.parameters) if isinstance(expr, p.Call) else (expr, ())
    rule = rules.get(name.name) if isinstance(name, p.Variable) else None
    if rule is not None:
        values = {a: expand_rules(v, rules, check) for a, v in zip(rule.arguments, args, strict=True)}
        check(rule, values.values())
        return expand_rules(substitute(rule.expr, values), rules, check)
    return map_children(expr, lambda e: expand_rules(e, rules, check))


def expanded_expression(knl: LoopKernel, statement: Statement) -> Expression:
    """The statement's expression without substitution rules."""
    return expand_rules(statement.expression, knl.substitutions)


def accesses_of(knl: LoopKernel, statement: Statement) -> tuple[Access, ...]:
    """The accesses of *statement*: reads in the order of the text, its write last."""
    return kept(knl.memo.setdefault("accesses", {}), statement.id, lambda: tuple(accesses_as(knl, statement)))


def with_accesses_of(knl: LoopKernel, new: LoopKernel) -> LoopKernel:
    """*new*, which has the statements, the sizes and the dtypes of *knl*: both share the accesses."""
    for results in ("accesses", "analysis_domain"):
        new.memo[results] = knl.memo.setdefault(results, {})
    return new


def accesses_to(knl: LoopKernel, statement: str, array: str, *, is_write: bool | None = None) -> list[Access]:
    """The accesses to *array* by the *statement* of this id, or only its writes or its reads."""
    return [a for a in accesses_of(knl, knl.statement_by_id[statement])
            if a.array == array and is_write in (None, a.is_write)]


def uses_at(knl: LoopKernel, statement: Statement, is_use: Callable[[Expression], tuple[Expression, ...] | None]
            ) -> Iterator[tuple[tuple[Expression, ...], InstanceSet]]:
    """The arguments of each use in *statement*, except in its conditions, and the instances that evaluate it.

    :arg is_use: the arguments of an expression that is a use, else ``None``.
    """
    def marked(expr: Expression) -> Expression:
        args = is_use(expr)     # with a further one: without subscripts, a name is not an access
        return map_children(expr, marked) if args is None else p.Subscript(p.Variable(_USE), (*args, 0))
    uses = replace(statement, expression=marked(statement.expression),
                   assignee=element(statement.written, tuple(map(marked, statement.subscripts))))
    accesses = accesses_as(knl, uses) if _USE in variables(uses.expression) | variables(uses.assignee) else ()
    return ((a.subscripts[:-1], a.domain) for a in accesses if a.array == _USE)


#: The name of an array in expressions, which no user can write.
_USE = "<use>"


@kept_in_memo
def accesses_by_array(knl: LoopKernel) -> Mapping[str, tuple[Access, ...]]:
    """All accesses of the kernel, by array, in textual order."""
    lists: dict[str, list[Access]] = {}
    for statement in knl.statements:
        for access in accesses_of(knl, statement):
            lists.setdefault(access.array, []).append(access)
    return {k: tuple(v) for k, v in lists.items()}


def data_params(knl: LoopKernel, domain: InstanceSet) -> tuple[str, ...]:
    """The parameters of *domain* that are temporaries: its bounds depend on data."""
    return tuple(x for x in domain.params if x in knl.temporaries)


def why_inexact(knl: LoopKernel, access: Access) -> str | None:
    """The reason why the elements of *access*, or whether it is made, depend on data; ``None``: they do not."""
    if access.affine:
        return access.doubt
    allowed = knl.value_params | set(access.domain.inames)
    unknown = next((s for s in access.subscripts if not variables(s) <= allowed), access.subscripts[0])
    return f"a subscript {_unknown(knl, unknown, allowed)}"


def why_undecided(knl: LoopKernel, array: str, *statements: str) -> str:
    """The reason why it is undecided which instances of *statements* access one element of *array*."""
    accesses = (a for x in dict.fromkeys(statements) for a in accesses_of(knl, knl.statement_by_id[x]))
    reasons = dict.fromkeys(doubt for a in accesses if a.array == array and (doubt := doubt_of(knl, a)) is not None)
    # a copy may have replaced the access
    return ", and ".join(reasons) or \
        "a subscript, condition or bound of theirs is read from memory or is not affine"


def doubt_of(knl: LoopKernel, *accesses: Access) -> str | None:
    """The reason why one of *accesses* is inexact, with its statement; ``None``: all are exact."""
    for a in accesses:
        doubt = why_inexact(knl, a)
        if doubt is not None:
            # "a bound is read from memory" becomes "a bound of 'S' is read from memory"
            article, noun, rest = doubt.split(" ", 2)
            return f"{article} {noun} of '{a.statement}' {rest}"
    return None


def origin(knl: LoopKernel, names: Iterable[str]) -> str:
    """``read from memory`` if a value of *names* is, directly or through temporaries; else ``computed in the kernel``.
    """
    def read(name: str) -> Iterator[str]:
        return (x for s in (knl.writers.get(name, ()) if name in knl.temporaries else ())
                for e in (expanded_expression(knl, s), *s.predicates) for x in variables(e))
    is_read = not reached(names, read).isdisjoint(knl.array_args)
    return "read from memory" if is_read else "computed in the kernel"


def reached(start: Iterable[str], further: Callable[[str], Iterable[str]]) -> set[str]:
    """The names *start* and those to which *further* leads from them."""
    found, waiting = set[str](), list(start)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += further(name)
    return found


def _unknown(knl: LoopKernel, expr: Expression, allowed: Collection[str]) -> str:
    """The reason why the values of *expr* are unknown to analyses."""
    names = variables(expr)
    if data := names & knl.data.keys():
        return f"is {origin(knl, data)}"
    if other := sorted(names.difference(allowed) & knl.argument_by_name.keys()):
        argument = knl.argument_by_name[other[0]]
        return f"depends on '{other[0]}', which {'may not be' if argument.dtype is None else 'is not'} an integer"
    return "compares real numbers" if any(isinstance(e, float | p.Quotient) for e in subexpressions(expr)) \
        else "is not affine"


def assumptions_on(knl: LoopKernel, names: Iterable[str]) -> Set:
    """The kernel's assumptions; of many parameters, only the constraints that concern *names*.

    A set with all parameters of a kernel makes each operation of isl as slow as the kernel is large.
    """
    parts = _parts_of_assumptions(knl)
    if parts is None:
        return knl.assumptions
    return reduce(Set.intersect, {id(parts[x]): parts[x] for x in names if x in parts}.values(), universe_params())


@kept_in_memo
def _parts_of_assumptions(knl: LoopKernel) -> Mapping[str, Set] | None:
    return independent_parts(knl.assumptions)


def analysis_domain(knl: LoopKernel, statement: Statement) -> InstanceSet:
    """The instances of *statement* under the kernel's assumptions, without bounds that depend on data."""
    def both() -> tuple[InstanceSet, InstanceSet]:
        known = statement.domain.without_params(data_params(knl, statement.domain))
        # the first keeps its id alive
        return statement.domain, known.intersect_params(assumptions_on(knl, known.params))
    return kept(knl.memo.setdefault("analysis_domain", {}), id(statement.domain), both)[1]


def is_of_c_code(knl: LoopKernel, statement: Statement) -> bool:
    """Does *statement* stand for an operand of the user's C code, which may have a pointer to the elements?"""
    names = {*called(statement.expression), *([statement.combine] if statement.combine is not None else [])}
    return any(isinstance(table.get(x), OpaqueValue | RegionRead) for table in (knl.functions, knl.operations)
               for x in names)


def accesses_as(knl: LoopKernel, statement: Statement) -> Iterator[Access]:
    """The accesses that *statement* would have as a statement of *knl*."""
    data = data_params(knl, statement.domain)
    allowed = knl.value_params | set(statement.inames)
    integers = integer_names(knl, statement)
    free = statement.commuting
    own = None if free is None else (array_of(free[0]), subscripts_of(free[0]))

    def access(name: str, subscripts: tuple[Expression, ...], where: _Where, *, is_write: bool = False,
               is_own: bool = False) -> Access:
        """:arg is_own: it may be in any order among others."""
        domain, doubt = where
        known = (True,)*len(subscripts) if not subscripts or is_known(domain, allowed, *subscripts) \
            else tuple(is_quasi_affine(s, domain.inames, allowed) for s in subscripts)
        update = statement.combine if is_own and statement.commutes else None
        return Access(statement.id, name, subscripts, is_write, domain, known, doubt, update,
                      statement.any_order if is_own else None)

    def branch(condition: Expression, where: _Where, holds: bool) -> _Where:
        domain, doubt = where
        found, unknown = _branch(condition, domain, integers, holds)
        return found, doubt if doubt or unknown is None else f"a condition {_unknown(knl, unknown, integers)}"
    domain, doubt = analysis_domain(knl, statement), f"a bound is {origin(knl, data)}" if data else None
    for name in data:
        yield access(name, (), (domain, None))
    predicates = [expand_rules(e, knl.substitutions) for e in statement.predicates]
    for predicate in predicates:
        inside, reason = branch(predicate, (domain, None), True)
        domain, doubt = inside if reason is None else domain, doubt or reason
    for expr in (*predicates, expanded_expression(knl, statement), *statement.subscripts):
        for name, subscripts, at in references(expr, (domain, doubt), branch):
            if subscripts or name in knl.data:
                yield access(name, subscripts, at, is_own=statement.combine is None and (name, subscripts) == own)
    for is_write in (True,) if statement.combine is None else (False, True):
        yield access(statement.written, statement.subscripts, (domain, doubt), is_write=is_write,
                     is_own=statement.commutes)


#: The instances that evaluate an expression, and the reason why not all of them do (``None``: all).
_Where = tuple[InstanceSet, str | None]


def references(expr: Expression, where: W, branch: Callable[[Expression, W, bool], W]
               ) -> Iterator[tuple[str, tuple[Expression, ...], W]]:
    """The names that *expr* reads, each with its subscripts (``()`` of a variable) and the place of its evaluation.

    :arg branch: from a condition, the place of its evaluation and a truth value, the place at which it has that value.
    """
    match expr:
        case p.Subscript(aggregate=p.Variable(name=name)):
            for s in expr.index_tuple:
                yield from references(s, where, branch)
            yield name, expr.index_tuple, where
        case p.Variable(name=name):
            yield name, (), where
        case p.If(condition=condition, then=then, else_=else_):
            yield from references(condition, where, branch)
            yield from references(then, branch(condition, where, True), branch)
            if variables(else_):                             # the place of a constant is not needed
                yield from references(else_, branch(condition, where, False), branch)
        case p.LogicalAnd() | p.LogicalOr():
            # an operand is evaluated if those before it do not decide the value
            for child in expr.children:
                yield from references(child, where, branch)
                where = branch(child, where, isinstance(expr, p.LogicalAnd))
        case _:
            for child in children(expr):
                if not isinstance(child, int | float):      # a number reads nothing
                    yield from references(child, where, branch)


def integer_names(knl: LoopKernel, statement: Statement) -> frozenset[str]:
    """The names in conditions of *statement* that are integers and not data."""
    return knl.value_params.union(statement.inames) - maybe_real(knl)


@kept_in_memo
def maybe_real(knl: LoopKernel) -> frozenset[str]:
    """The value arguments without a dtype that no use shows to be integers: a call may pass 0.5."""
    untyped = {a.name for a in knl.arguments if isinstance(a, ValueArg) and a.dtype is None}
    untyped = untyped.difference(InstanceSet((), knl.assumptions).params, *(s.domain.params for s in knl.statements))
    if untyped:
        untyped -= {x for s in knl.statements for e in (s.assignee, expanded_expression(knl, s), *s.predicates)
                    for part in subexpressions(e) if isinstance(part, p.Subscript)
                    for index in part.index_tuple for x in variables(index)}
        untyped -= {x for a in knl.array_args.values() for e in a.shape or () if e is not None for x in variables(e)}
    return frozenset(untyped)


def is_known(points: InstanceSet, params: frozenset[str], *expressions: Expression) -> bool:
    """Are *expressions* affine in the inames of *points* and in *params*, at least for each value of an iname?"""
    names = params.union(points.inames)
    return bool(if_affine(lambda: all(names_in(e) <= names for e in expressions) and affine_on(points, expressions)))


def _branch(condition: Expression, where: InstanceSet, allowed: frozenset[str], holds: bool
            ) -> tuple[InstanceSet, Expression | None]:
    """The instances of *where* at which *condition* may have the truth value *holds*, and a part of it that is
    undecided at one of them; ``None``: all is decided.

    Its affine parts narrow the instances, its other parts may hold or fail.
    """
    decided = where_holds(where, condition, allowed)
    if decided is not None:
        return decided if holds else where.subtract(decided), None
    match condition:
        case p.LogicalNot(child=child):
            return _branch(child, where, allowed, not holds)
        case p.LogicalAnd(children=parts) | p.LogicalOr(children=parts):
            all_hold, narrowed, unknown = isinstance(condition, p.LogicalAnd), where, list[Expression]()
            for part in parts:
                narrowed, undecided = _branch(part, narrowed, allowed, all_hold)
                unknown += () if undecided is None else (undecided,)
            return narrowed if holds is all_hold else where, unknown[0]
        case _:
            return where, condition


def fastest_last(knl: LoopKernel, loaded: Expression, inames: Sequence[str]) -> tuple[str, ...]:
    """*inames* with the one of the smallest stride in global memory last, over the subscripts that *loaded* reads.

    The order stays if *loaded* has no such subscript, or if subscripts disagree. Strides of several elements count
    too: vectors have them.
    """
    rows = {e.index_tuple[-1] for e in elements_of(expand_rules(loaded, knl.substitutions), knl.array_args)}
    found = {_fastest(subscript, inames) for subscript in rows} - {None}
    return tuple(sorted(inames, key=found.__contains__)) if len(found) == 1 else tuple(inames)


def _fastest(subscript: Expression, inames: Sequence[str]) -> str | None:
    """The one of *inames* with the smallest stride in *subscript*, if one has a stride."""
    steps = {x: affine_difference(substitute(subscript, {x: add(p.Variable(x), 1)}), subscript)
             for x in inames if x in variables(subscript)}
    lengths = {x: abs(step) for x, step in steps.items() if step}
    return min(lengths, key=lengths.__getitem__, default=None)


def require_operands(knl: LoopKernel) -> None:
    """Check that every instruction of *knl* can execute its statement, as far as dtypes are known.

    :raises PreconditionError: one cannot, with the reason.
    """
    for s in knl.statements:
        for instruction in s.instructions:
            if isinstance(instruction, MemoryInstruction):
                instruction.require_operands(knl, s, expanded_expression(knl, s))
