"""Access relations: the elements of each array that each statement instance reads or writes."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.dtypes import WEAK_INT, Type, weak
from loopkit.expr.mappers import children, map_children, subexpressions, substitute, variables
from loopkit.kernel.data import SubstitutionRule, ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.poly.affine import NotAffineError, names_in
from loopkit.poly.enumerated import affine_on, subscripts_on, where_holds
from loopkit.poly.limits import kept
from loopkit.poly.relations import any_element, cells, restrict, subscript_relation
from loopkit.poly.sets import InstanceSet, Map


@dataclass(frozen=True)
class Access:
    """One reference to an array or a temporary.

    :ivar subscripts: the subscripts; ``()`` for a scalar.
    :ivar domain: the instances that make the access, without bounds that depend on data.
    :ivar affine: the subscripts are quasi-affine in the inames and value arguments, or are for each value of an iname.
    :ivar known: for each subscript, whether it is quasi-affine; ``()`` if *affine*.
    :ivar doubt: the condition or bound because of which an instance of *domain* may not make the access; ``None``:
        each does.
    :ivar update: the operation of the atomic update that this access is a part of; ``None``: it is not part of one.
    """

    statement: str
    array: str
    subscripts: tuple[Expression, ...]
    is_write: bool
    domain: InstanceSet
    affine: bool
    doubt: str | None
    update: str | None = None
    known: tuple[bool, ...] = ()

    @property
    def must(self) -> bool:
        """Does every instance of *domain* make the access, whatever the data?"""
        return self.doubt is None

    @cached_property
    def subscript_relation(self) -> Map:
        """From instances to subscripts, on *domain* at least; to every value along an axis whose subscript is not
        affine.
        """
        if self.affine:
            return subscripts_on(self.domain, self.subscripts)
        if not any(self.known):
            return any_element(self.domain.inames, len(self.subscripts))
        return cells(self.domain.inames, self.places)

    @property
    def places(self) -> tuple[Expression | None, ...]:
        """The subscripts, with ``None`` for those that are not affine."""
        if self.affine or not self.known:
            return self.subscripts if self.affine else (None,)*len(self.subscripts)
        return tuple(s if known else None for s, known in zip(self.subscripts, self.known, strict=True))

    @cached_property
    def relation(self) -> Map:
        """Instances to elements (the access relation)."""
        return restrict(self.subscript_relation, self.domain)


def commute(a: Access, b: Access) -> bool:
    """Are both accesses parts of atomic updates by one operation, whose order is free?"""
    return a.update is not None and a.update == b.update


def declared(knl: LoopKernel, name: str) -> Type | None:
    """The type of a name as *knl* declares it: inames and value arguments are weak."""
    datum = knl.array_args.get(name) or knl.temporaries.get(name)
    if datum is not None:
        return datum.dtype
    argument = knl.argument_by_name.get(name)
    return WEAK_INT if argument is None or argument.dtype is None else weak(argument.dtype)


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
    return kept(knl.memo.setdefault("accesses", {}), statement.id, lambda: tuple(_accesses(knl, statement)))


def uses_at(knl: LoopKernel, statement: Statement, is_use: Callable[[Expression], tuple[Expression, ...] | None]
            ) -> Iterator[tuple[tuple[Expression, ...], InstanceSet]]:
    """The arguments of each use in *statement*, except in its conditions, and the instances that evaluate it.

    :arg is_use: the arguments of an expression that is a use, else ``None``.
    """
    found: list[tuple[Expression, ...]] = []

    def marked(expr: Expression) -> Expression:
        args = is_use(expr)
        if args is None:
            return map_children(expr, marked)
        found.append(args)
        return p.Subscript(p.Variable(_USE), (len(found) - 1,))
    uses = replace(statement, expression=marked(statement.expression))
    if statement.subscripts:
        uses = replace(uses, assignee=p.Subscript(p.Variable(statement.written),
                                                  tuple(map(marked, statement.subscripts))))
    for a in _accesses(knl, uses):
        match a.subscripts:
            case (int() as number,) if a.array == _USE:
                yield found[number], a.domain
            case _:
                pass


#: The name of an array in expressions, which no user can write.
_USE = "<use>"


def accesses_as(knl: LoopKernel, statement: Statement) -> tuple[Access, ...]:
    """The accesses that *statement* would have as a statement of *knl*."""
    return tuple(_accesses(knl, statement))


def accesses_by_array(knl: LoopKernel) -> Mapping[str, tuple[Access, ...]]:
    """All accesses of the kernel, by array, in textual order."""
    def by_array() -> Mapping[str, tuple[Access, ...]]:
        lists: dict[str, list[Access]] = {}
        for statement in knl.statements:
            for access in accesses_of(knl, statement):
                lists.setdefault(access.array, []).append(access)
        return {k: tuple(v) for k, v in lists.items()}
    return kept(knl.memo, "accesses_by_array", by_array)


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
    waiting, seen = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name in knl.array_args:
            return "read from memory"
        if name in knl.temporaries and name not in seen:
            seen.add(name)
            waiting += [x for s in knl.statements if s.written == name
                        for e in (expanded_expression(knl, s), *s.predicates) for x in variables(e)]
    return "computed in the kernel"


def _unknown(knl: LoopKernel, expr: Expression, allowed: Collection[str]) -> str:
    """The reason why no analysis knows the values of *expr*."""
    names = variables(expr)
    if data := [x for x in names if x in knl.temporaries or x in knl.array_args]:
        return f"is {origin(knl, data)}"
    other = sorted(names.difference(allowed) & knl.argument_by_name.keys())
    if other:
        argument = knl.argument_by_name[other[0]]
        return f"depends on '{other[0]}', which {'may not be' if argument.dtype is None else 'is not'} an integer"
    return "compares real numbers" if any(isinstance(e, float | p.Quotient) for e in subexpressions(expr)) \
        else "is not affine"


def analysis_domain(knl: LoopKernel, statement: Statement) -> InstanceSet:
    """The instances of *statement* under the kernel's assumptions, without bounds that depend on data."""
    def both() -> tuple[InstanceSet, InstanceSet]:
        domain = statement.domain
        unknown = data_params(knl, domain)
        if unknown:
            domain = domain.without_params(unknown)
        return statement.domain, domain.intersect_params(knl.assumptions)    # the first keeps its id alive
    return kept(knl.memo.setdefault("analysis_domain", {}), id(statement.domain), both)[1]


def _accesses(knl: LoopKernel, statement: Statement) -> Iterator[Access]:
    domain = analysis_domain(knl, statement)
    data = data_params(knl, statement.domain)
    doubt = f"a bound is {origin(knl, data)}" if data else None
    allowed = knl.value_params | set(statement.inames)
    integers = integer_names(knl, statement)

    def access(name: str, subscripts: tuple[Expression, ...], where: InstanceSet, doubt: str | None,
               *, is_write: bool, update: str | None = None) -> Access:
        affine = _affine(subscripts, allowed) or _affine_by_value(where, subscripts, allowed)
        known = () if affine or len(subscripts) < 2 else tuple(_affine((s,), allowed) for s in subscripts)
        return Access(statement.id, name, subscripts, is_write, where, affine, doubt, update, known)

    def doubted(unknown: Expression | None) -> str | None:
        return None if unknown is None else f"a condition {_unknown(knl, unknown, integers)}"

    def walk(expr: Expression, where: InstanceSet, doubt: str | None) -> Iterator[Access]:
        match expr:
            case p.Subscript(aggregate=p.Variable(name=name)):
                subscripts = expr.index_tuple
                for s in subscripts:
                    yield from walk(s, where, doubt)
                yield access(name, subscripts, where, doubt, is_write=False)
            case p.Variable(name=name):
                if name in knl.temporaries or name in knl.array_args:
                    yield access(name, (), where, doubt, is_write=False)
            case p.If(condition=condition, then=then, else_=else_):
                yield from walk(condition, where, doubt)
                taken = _branches(condition, where, integers)
                inside = doubt or doubted(taken.unknown)
                yield from walk(then, taken.yes, inside)
                if variables(else_):                         # the instances of a constant are not needed
                    yield from walk(else_, taken.no, inside)
            case p.LogicalAnd() | p.LogicalOr():
                # an operand is evaluated if those before it do not decide the value
                for child in expr.children:
                    yield from walk(child, where, doubt)
                    taken = _branches(child, where, integers)
                    where = taken.yes if isinstance(expr, p.LogicalAnd) else taken.no
                    doubt = doubt or doubted(taken.unknown)
            case p.Call(parameters=parameters):
                for arg in parameters:
                    yield from walk(arg, where, doubt)
            case _:
                for child in children(expr):
                    yield from walk(child, where, doubt)

    for name in data:
        yield access(name, (), domain, None, is_write=False)
    predicates = [expand_rules(e, knl.substitutions) for e in statement.predicates]
    for predicate in predicates:
        taken = _branches(predicate, domain, integers)
        doubt = doubt or doubted(taken.unknown)
        domain = taken.yes if taken.unknown is None else domain
    for predicate in predicates:
        yield from walk(predicate, domain, doubt)
    yield from walk(expanded_expression(knl, statement), domain, doubt)
    subscripts = statement.subscripts
    for s in subscripts:
        yield from walk(s, domain, doubt)
    update = statement.combine if statement.commutes else None
    if statement.combine is not None:
        yield access(statement.written, subscripts, domain, doubt, is_write=False, update=update)
    yield access(statement.written, subscripts, domain, doubt, is_write=True, update=update)


def integer_names(knl: LoopKernel, statement: Statement) -> frozenset[str]:
    """The names in conditions of *statement* that are integers and not data."""
    return knl.value_params.union(statement.inames) - maybe_real(knl)


def maybe_real(knl: LoopKernel) -> frozenset[str]:
    """The value arguments without a dtype that no use shows to be integers: a call may pass 0.5."""
    found: frozenset[str] | None = knl.memo.get("maybe_real")
    if found is None:
        untyped = {a.name for a in knl.arguments if isinstance(a, ValueArg) and a.dtype is None}
        untyped = untyped.difference(InstanceSet((), knl.assumptions).params,
                                     *(s.domain.params for s in knl.statements))
        if untyped:
            untyped -= {x for s in knl.statements for e in (s.assignee, expanded_expression(knl, s), *s.predicates)
                        for part in subexpressions(e) if isinstance(part, p.Subscript)
                        for index in part.index_tuple for x in variables(index)}
            untyped -= {x for a in knl.array_args.values() for e in a.shape or () if e is not None
                        for x in variables(e)}
        found = knl.memo["maybe_real"] = frozenset(untyped)
    return found


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
    """The instances at which a condition may hold and at which it may fail.

    :ivar where: the instances that test the condition.
    :ivar yes: those at which it may hold.
    :ivar unknown: a part of the condition that is undecided at some instance; ``None``: all is decided.
    :ivar may_fail: those at which it may fail; ``None``: all at which it does not hold.
    """

    where: InstanceSet
    yes: InstanceSet
    unknown: Expression | None
    may_fail: InstanceSet | None = None

    @cached_property
    def no(self) -> InstanceSet:
        return self.where.subtract(self.yes) if self.may_fail is None else self.may_fail


def _branches(condition: Expression, where: InstanceSet, allowed: frozenset[str]) -> _Branches:
    """The branches of *condition* at *where*: its affine parts narrow them, its other parts may hold or fail."""
    yes = where_holds(where, condition, allowed)
    if yes is not None:
        return _Branches(where, yes, None)
    match condition:
        case p.LogicalNot(child=child):
            found = _branches(child, where, allowed)
            return _Branches(where, found.no, found.unknown, found.yes)
        case p.LogicalAnd(children=parts):
            yes, unknown = where, list[Expression]()
            for part in parts:
                found = _branches(part, yes, allowed)
                yes = found.yes
                unknown += () if found.unknown is None else (found.unknown,)
            return _Branches(where, yes, unknown[0], may_fail=where)
        case p.LogicalOr(children=parts):
            no, unknown = where, list[Expression]()
            for part in parts:
                found = _branches(part, no, allowed)
                no = found.no
                unknown += () if found.unknown is None else (found.unknown,)
            return _Branches(where, where, unknown[0], may_fail=no)
        case _:
            return _Branches(where, where, condition, may_fail=where)
