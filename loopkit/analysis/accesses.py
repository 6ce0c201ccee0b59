"""Which statement touches which elements of which array."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.mappers import children, map_children, substitute, variables
from loopkit.kernel.data import SubstitutionRule
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.poly.affine import NotAffineError, names_in
from loopkit.poly.enumerated import affine_on, subscripts_on, where_holds
from loopkit.poly.relations import any_element, restrict, subscript_relation
from loopkit.poly.sets import InstanceSet, Map


@dataclass(frozen=True)
class Access:
    """One reference to an array or a temporary.

    :ivar subscripts: the subscripts; ``()`` for a scalar.
    :ivar domain: the instances that make the access, where data-dependent bounds are forgotten.
    :ivar affine: the subscripts are quasi-affine in the inames and value arguments, or are for each value of an iname.
    :ivar certain: every instance of *domain* does make the access (no predicate, no bound from memory).
    """

    statement: str
    array: str
    subscripts: tuple[Expression, ...]
    is_write: bool
    domain: InstanceSet
    affine: bool
    certain: bool

    @cached_property
    def subscript_relation(self) -> Map:
        """Instances to subscripts, on *domain* at least; everything where not affine."""
        if self.affine:
            return subscripts_on(self.domain, self.subscripts)
        return any_element(self.domain.inames, len(self.subscripts))

    @cached_property
    def relation(self) -> Map:
        """Instances to elements (the access relation)."""
        return restrict(self.subscript_relation, self.domain)


def expand_rules(expr: Expression, rules: Mapping[str, SubstitutionRule]) -> Expression:
    """*expr* with every use of a substitution rule replaced by the rule's body."""
    if not rules:
        return expr
    name: str | None = None
    args: tuple[Expression, ...] = ()
    if isinstance(expr, p.Call) and isinstance(expr.function, p.Variable):
        name, args = expr.function.name, expr.parameters
    elif isinstance(expr, p.Variable):
        name = expr.name
    rule = rules.get(name) if name is not None else None
    if rule is not None:
        values = {a: expand_rules(v, rules) for a, v in zip(rule.arguments, args, strict=True)}
        return expand_rules(substitute(rule.expr, values), rules)
    return map_children(expr, lambda e: expand_rules(e, rules))


def expanded_expression(knl: LoopKernel, statement: Statement) -> Expression:
    """The statement's expression without substitution rules."""
    return expand_rules(statement.expression, knl.substitutions)


def accesses_of(knl: LoopKernel, statement: Statement) -> tuple[Access, ...]:
    """The accesses of *statement*: reads in the order of the text, its write last."""
    memo: dict[str, tuple[Access, ...]] = knl.memo.setdefault("accesses", {})
    found = memo.get(statement.id)
    if found is None:
        found = memo[statement.id] = tuple(_accesses(knl, statement))
    return found


def accesses_by_array(knl: LoopKernel) -> Mapping[str, tuple[Access, ...]]:
    """All accesses of the kernel, by array, in textual order."""
    found: Mapping[str, tuple[Access, ...]] | None = knl.memo.get("accesses_by_array")
    if found is None:
        lists: dict[str, list[Access]] = {}
        for statement in knl.statements:
            for access in accesses_of(knl, statement):
                lists.setdefault(access.array, []).append(access)
        found = knl.memo["accesses_by_array"] = {k: tuple(v) for k, v in lists.items()}
    return found


def data_params(knl: LoopKernel, domain: InstanceSet) -> tuple[str, ...]:
    """The parameters of *domain* that are temporaries: bounds read from memory."""
    return tuple(x for x in domain.params if x in knl.temporaries)


def unknown_subscript(knl: LoopKernel, access: Access) -> str:
    """Why it is not known which elements *access* touches, its subscripts not being affine: what a subscript is."""
    allowed = knl.value_params | set(access.domain.inames)
    if all(variables(s) <= allowed for s in access.subscripts):
        return "no affine form"
    return "read from memory"


def analysis_domain(knl: LoopKernel, statement: Statement) -> InstanceSet:
    """The instances with everything forgotten that depends on data, under the kernel's assumptions."""
    memo: dict[int, tuple[InstanceSet, InstanceSet]] = knl.memo.setdefault("analysis_domain", {})
    found = memo.get(id(statement.domain))
    if found is None:
        domain = statement.domain
        unknown = data_params(knl, domain)
        if unknown:
            domain = domain.without_params(unknown)
        domain = domain.intersect_params(knl.assumptions)
        found = memo[id(statement.domain)] = (statement.domain, domain)    # keeps the id alive
    return found[1]


def _accesses(knl: LoopKernel, statement: Statement) -> Iterator[Access]:
    domain = analysis_domain(knl, statement)
    data = data_params(knl, statement.domain)
    certain = not statement.predicates and not data
    allowed = knl.value_params | set(statement.inames)

    def access(name: str, subscripts: tuple[Expression, ...], where: InstanceSet, sure: bool,
               *, is_write: bool) -> Access:
        affine = _affine(subscripts, allowed) or _affine_by_value(where, subscripts, allowed)
        return Access(statement.id, name, subscripts, is_write, where, affine, sure)

    def walk(expr: Expression, where: InstanceSet, sure: bool) -> Iterator[Access]:
        match expr:
            case p.Subscript(aggregate=p.Variable(name=name)):
                subscripts = expr.index_tuple
                for s in subscripts:
                    yield from walk(s, where, sure)
                yield access(name, subscripts, where, sure, is_write=False)
            case p.Variable(name=name):
                if name in knl.temporaries or name in knl.array_args:
                    yield access(name, (), where, sure, is_write=False)
            case p.If(condition=condition, then=then, else_=else_):
                yield from walk(condition, where, sure)
                taken = _branches(condition, where, allowed)
                yield from walk(then, taken.yes, sure and taken.exact)
                if variables(else_):                         # else 0 is no reason to ask where that is
                    yield from walk(else_, taken.no, sure and taken.exact)
            case p.LogicalAnd() | p.LogicalOr():
                # an operand is evaluated where those before it leave the value open
                for child in expr.children:
                    yield from walk(child, where, sure)
                    taken = _branches(child, where, allowed)
                    where = taken.yes if isinstance(expr, p.LogicalAnd) else taken.no
                    sure = sure and taken.exact
            case p.Call(parameters=parameters):
                for arg in parameters:
                    yield from walk(arg, where, sure)
            case _:
                for child in children(expr):
                    yield from walk(child, where, sure)

    for name in data:
        yield access(name, (), domain, True, is_write=False)
    for predicate in statement.predicates:
        yield from walk(expand_rules(predicate, knl.substitutions), domain, False)
    yield from walk(expanded_expression(knl, statement), domain, certain)
    target = statement.assignee
    subscripts = target.index_tuple if isinstance(target, p.Subscript) else ()
    for s in subscripts:
        yield from walk(s, domain, certain)
    if statement.combine is not None:
        yield access(statement.written, subscripts, domain, certain, is_write=False)
    yield access(statement.written, subscripts, domain, certain, is_write=True)


def _affine(subscripts: tuple[Expression, ...], allowed: frozenset[str]) -> bool:
    try:
        return all(names_in(s) <= allowed and _convertible(s) for s in subscripts)
    except NotAffineError:
        return False


def _affine_by_value(where: InstanceSet, subscripts: tuple[Expression, ...], allowed: frozenset[str]) -> bool:
    try:
        return all(names_in(s) <= allowed for s in subscripts) and affine_on(where, subscripts)
    except NotAffineError:
        return False


def _convertible(subscript: Expression) -> bool:
    subscript_relation((), (subscript,))
    return True


@dataclass(frozen=True)
class _Branches:
    """The instances at which a condition may hold, and may fail.

    :ivar where: the instances at which it is tested.
    :ivar yes: those at which it may hold.
    :ivar exact: it is known of each instance which of the two.
    :ivar may_fail: those at which it may fail; ``None``: where it does not hold.
    """

    where: InstanceSet
    yes: InstanceSet
    exact: bool
    may_fail: InstanceSet | None = None

    @cached_property
    def no(self) -> InstanceSet:
        return self.where.subtract(self.yes) if self.may_fail is None else self.may_fail


def _branches(condition: Expression, where: InstanceSet, allowed: frozenset[str]) -> _Branches:
    """What is known of *condition* at the instances *where*: affine parts narrow them, others may hold and fail."""
    yes = where_holds(where, condition, allowed)
    if yes is not None:
        return _Branches(where, yes, exact=True)
    match condition:
        case p.LogicalNot(child=child):
            found = _branches(child, where, allowed)
            return _Branches(where, found.no, found.exact, found.yes)
        case p.LogicalAnd(children=parts):
            yes = where
            for part in parts:
                yes = _branches(part, yes, allowed).yes
            return _Branches(where, yes, exact=False, may_fail=where)
        case p.LogicalOr(children=parts):
            no = where
            for part in parts:
                no = _branches(part, no, allowed).no
            return _Branches(where, where, exact=False, may_fail=no)
        case _:
            return _Branches(where, where, exact=False, may_fail=where)
