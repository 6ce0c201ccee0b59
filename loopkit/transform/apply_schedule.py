"""apply_schedule: a new order of all statements, given by a schedule for each statement."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import analysis_domain
from loopkit.analysis.legality import require_legal
from loopkit.analysis.match import matching
from loopkit.analysis.order import loops_of
from loopkit.errors import PreconditionError, ScheduleError, instance_text, require_known, values_text
from loopkit.expr.mappers import substitute
from loopkit.expr.parsing import ExpressionParser, parse_expression
from loopkit.expr.tokens import Source, tokenize
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement, owner
from loopkit.kernel.tree import Leaf, Loop, Tree, leaves, loops_in, restricted, seq
from loopkit.poly.affine import NotAffineError, add, names_in, subtract, to_aff
from loopkit.poly.domains import inverse, two_with_one_image
from loopkit.poly.relations import subscript_relation
from loopkit.poly.sets import InstanceSet
from loopkit.transform.reindex import Reindexing, reindex_each, require_shared_inames
from loopkit.transform.step import transform, with_given_order

#: The times of a statement's instances: constants, and affine forms of its inames and of value arguments.
Vector = tuple[Expression, ...]

Given = Mapping[str, str | Sequence[str | int]]


@transform
def apply_schedule(kernel: LoopKernel, schedules: Given, *, assume: str | None = None,
               unsafe: bool = False) -> LoopKernel:
    """Replace the whole order of execution: give each statement a schedule of its instances.

    A schedule is a vector of times: constants, and affine forms of the statement's inames and of sizes. Instances run
    in lexicographic order of their vectors. The dimensions are read from left to right, each for the statements
    that agree so far. If all of these have constants in a dimension, the constants put them in sequence; else the
    dimension is a loop over their forms, in which a constant runs its statement in one iteration. A loop keeps an iname
    if all its statements have that iname as their form. Any other form makes a new iname (``t_i`` for ``t + i``), and
    the old inames become affine forms of the new ones.

    A reduction runs at the time of its statement, with its loops inside. To schedule its parts one by one, name them
    all: ``"S.k.init"``, ``"S.k.update"`` and ``"S"``.

    :arg schedules: a mapping from a match expression of statements (as *within* takes elsewhere) to a schedule, a text
        ``"[t, 0, i]"`` or a list ``["t", 0, "i"]``. Each statement needs exactly one schedule.
    :raises ParseError: a schedule cannot be read.
    :raises UnknownNameError: a pattern matches no statement, or a form has an unknown name.
    :raises PreconditionError: a statement has no schedule or two schedules, a form is not affine, or the schedule of an
        iname with a tag does not keep that iname.
    :raises ScheduleError: two instances of a statement would run at the same time, or the inames are not affine forms
        of the times.
    :raises IllegalTransformError: the order would break a dependence; with its witness.

    >>> knl = lk.make_kernel("{[t, i]: 0<=t<T and 1<=i<n-1}", '''
    ...     for t
    ...         for i
    ...             b[i] = a[i-1] + a[i+1]  {id=half}
    ...         end
    ...         for i
    ...             a[i] = b[i]  {id=back}
    ...         end
    ...     end
    ...     ''')
    >>> wave = lk.apply_schedule(knl, {"half": "[2*t + i, t, 0]", "back": "[2*t + i + 1, t, 1]"})
    >>> print(wave.statements_text)
    for t_i, t
      b[t_i - 2*t] = a[t_i - 2*t - 1] + a[t_i - 2*t + 1]  {id=half}
      a[t_i - 2*t - 1] = b[t_i - 2*t - 1]  {id=back}
    end
    """
    units = [*_units(kernel, _schedules_by_statement(kernel, schedules))]
    order = _Order(kernel)
    tree = order.of(units, 0)
    result = reindex_each(kernel, _all_steps(kernel, units, order.dims), tree)
    result = require_shared_inames(result, "apply_schedule")
    result = with_given_order(result, *map(loops_of, result.paths.values()))
    return require_legal(result, "apply_schedule", assume=assume, unsafe=unsafe)


def _schedules_by_statement(kernel: LoopKernel, given: Given) -> dict[str, Vector]:
    """The schedule of each statement that *given* names; :raises PreconditionError: a statement is named twice."""
    if not given:
        raise PreconditionError("apply_schedule needs the schedule of at least one statement.", subject="schedules",
                                hint='for example {"S1": "[t, 0, i]", "S2": "[t, 1, i]"}')
    result: dict[str, Vector] = {}
    named: dict[str, str] = {}
    for pattern, entry in given.items():
        vector = tuple(_entries(pattern, entry))
        found = matching(kernel, pattern)
        # parts of reductions are named one by one, with a dot
        for s in [x for x in kernel.statement_by_id if x in found and (owner(x) == x or "." in pattern)]:
            if s in result:
                raise PreconditionError(f"'{s}' has two schedules, from '{named[s]}' and from '{pattern}'.", subject=s,
                                        hint="let one pattern match each statement")
            result[s] = tuple(_affine(kernel, s, form) for form in vector)
            named[s] = pattern
    return result


def _entries(pattern: str, entry: str | Sequence[str | int]) -> Iterator[Expression]:
    what = f"the schedule of '{pattern}'"
    if not isinstance(entry, str):
        yield from (parse_expression(item, what=what) if isinstance(item, str) else int(item) for item in entry)
        return
    source = Source(entry, what)
    parser = ExpressionParser(source, tokenize(source))
    parser.take("[", "'[', as in \"[t, 0, i]\"")
    if not parser.accept("]"):
        yield from parser.separated(parser.expression)
        parser.take("]", "',', ']' or an operator")
    parser.end()


def _affine(kernel: LoopKernel, statement: str, form: Expression) -> Expression:
    """*form* with like terms collected: an ``int`` where it is constant."""
    inames = kernel.statement_by_id[statement].inames
    try:
        require_known("iname", sorted(names_in(form) - kernel.value_params), inames, where=f"statement '{statement}'")
        to_aff(form, inames)
    except NotAffineError:
        raise PreconditionError(f"'{form}' in the schedule of '{statement}' is not an affine form of its inames.",
                                subject=statement,
                                hint="use sums of inames and sizes, their multiples, and // and % by numbers") from None
    return add(form)


@dataclass(frozen=True)
class _Unit:
    """A statement with the parts of its reductions, or one part; *body* is the tree that runs at each of its times."""

    statement: Statement
    parts: tuple[str, ...]
    times: Vector
    body: Tree
    is_part: bool = False


def _units(kernel: LoopKernel, vectors: Mapping[str, Vector]) -> Iterator[_Unit]:
    """One unit for each statement and its reductions, or one for each of its parts if *vectors* name them."""
    groups: dict[str, list[str]] = {}
    for s in leaves(kernel.tree):
        groups.setdefault(owner(s), []).append(s)
    in_parts = {s for s, parts in groups.items() if any(x in vectors for x in parts if x != s)}
    missing = [x for s, parts in groups.items() for x in (parts if s in in_parts else [s]) if x not in vectors]
    if missing:
        raise PreconditionError(f"'{missing[0]}' has no schedule.", subject=missing[0],
                                hint=f"give schedules for {', '.join(missing)} too")
    for s, parts in groups.items():
        if s in in_parts:
            yield from (_Unit(kernel.statement_by_id[x], (x,), vectors[x], Leaf(x), is_part=True) for x in parts)
            continue
        own, body = kernel.statement_by_id[s], restricted(kernel.tree, parts)
        while isinstance(body, Loop) and body.iname in own.inames:
            body = body.body
        if any(loop.iname in own.inames for loop in loops_in(body)) or any(
                not set(own.inames) <= set(kernel.statement_by_id[x].inames) for x in parts):
            raise ScheduleError(f"The parts of '{s}' are in separate loops.", subject=s,
                                hint=f"give each part a schedule: {', '.join(parts)}")
        yield _Unit(own, tuple(parts), vectors[s], body)


@dataclass
class _Order:
    """Makes the tree of a schedule, and names its loops; *dims*: for each unit its loops and forms, outermost first."""

    kernel: LoopKernel
    dims: dict[str, list[tuple[str, Expression]]] = field(default_factory=dict)

    def of(self, units: Sequence[_Unit], depth: int) -> Tree:
        """The order of *units*, whose schedules agree before dimension *depth*."""
        if ended := [u.statement.id for u in units if len(u.times) == depth]:
            if len(units) == 1:
                return units[0].body
            other = next(u.statement.id for u in units if u.statement.id != ended[0])
            raise ScheduleError(
                f"'{ended[0]}' and '{other}' have no order: their schedules agree in all {depth} dimensions of "
                f"'{ended[0]}'.", subject=ended[0],
                hint="add a dimension with different constants to both: [..., 0] and [..., 1]")
        times = [u.times[depth] for u in units]
        constants = sorted({t for t in times if isinstance(t, int)})
        if all(isinstance(t, int) for t in times):
            return seq(*(self.of([u for u in units if u.times[depth] == c], depth + 1) for c in constants))
        name = self._name(units, depth)
        for u in units:
            self.dims.setdefault(u.statement.id, []).append((name, u.times[depth]))
        return Loop(name, self.of(units, depth + 1))

    def _name(self, units: Sequence[_Unit], depth: int) -> str:
        forms = [u.times[depth] for u in units]
        first = next(f for f in forms if not isinstance(f, int))
        if isinstance(first, p.Variable) and first.name in self.kernel.inames \
                and not any(self._is_taken(first.name, u, depth) for u in units) \
                and (first.name not in self.kernel.tags or all(f == first for f in forms)):
            return first.name
        base = "_".join(x for x in self.kernel.inames if x in names_in(first)) or "time"
        return self.kernel.fresh_name(base, *(x for own in self.dims.values() for x, _ in own))

    def _is_taken(self, name: str, unit: _Unit, depth: int) -> bool:
        """Has *unit* an iname *name* for something else than dimension *depth*?"""
        if any(name == x for x, _ in self.dims.get(unit.statement.id, ())):
            return True
        own = {x for s in unit.parts for x in self.kernel.statement_by_id[s].inames}
        return name in own and unit.times[depth] != p.Variable(name)


Dims = Sequence[tuple[str, Expression]]


def _all_steps(kernel: LoopKernel, units: Sequence[_Unit], dims: Mapping[str, Dims]) -> dict[str, Reindexing]:
    """The reindexing of each statement to its new inames; units alike in domain and schedule share one step."""
    result: dict[str, Reindexing] = {}
    known: dict[object, Reindexing] = {}
    for unit in units:
        own = tuple(dims.get(unit.statement.id, ()))
        key = (unit.statement.inames, own, unit.is_part, *(id(kernel.statement_by_id[s].domain) for s in unit.parts))
        if key not in known:
            known[key] = _step(kernel, unit, own)
        if known[key].old or known[key].new:
            result.update(dict.fromkeys(unit.parts, known[key]))
    return result


def _step(kernel: LoopKernel, unit: _Unit, dims: Dims) -> Reindexing:
    """The reindexing of *unit* to the inames of its loops *dims*."""
    name, inames = unit.statement.id, unit.statement.inames
    kept = [x for x, form in dims if form == p.Variable(x)]
    for x in inames:
        if x in kernel.tags and x not in kept:
            raise PreconditionError(f"'{x}' has the tag '{kernel.tags[x]}', but the schedule of '{name}' does not keep "
                                    "it.", subject=x, hint=f"untag_inames(knl, '{x}') first, or keep it as a form of "
                                                           "each statement in its loop")
    domain = reduce(InstanceSet.union, (analysis_domain(kernel, kernel.statement_by_id[s]).onto(inames)
                                        for s in unit.parts))
    times = subscript_relation(inames, tuple(form for _, form in dims))
    if domain.inames and (met := two_with_one_image(times, domain)) is not None:
        sizes, first, second = met
        raise ScheduleError(
            f"The schedule of '{name}' runs {instance_text(name, first)} and {instance_text(name, second)} at the same "
            f"time{values_text(sizes, ', with {}')}.", subject=name,
            hint=f"add a dimension that differs for the two, such as "
                               f"{' or '.join(x for x in first if first[x] != second[x])}")
    old = tuple(x for x in inames if x not in kept)
    new = {x: form for x, form in dims if x not in kept}
    renamed = {form.name: p.Variable(x) for x, form in new.items() if isinstance(form, p.Variable)}
    if renamed.keys() == set(old) and len(old) == len(new):
        return Reindexing(tuple(new), renamed)
    if unit.is_part:
        raise ScheduleError(f"The schedule of '{name}', a part of a reduction, makes new inames.",
                            subject=name, hint="make the new inames first, in a separate step "
                                               "that schedules the whole statement")
    forms = inverse(times, domain, [x for x, _ in dims]) if old else tuple(map(p.Variable, inames))
    if forms is None:
        raise ScheduleError(f"The inames of '{name}' are not affine forms of the times in its schedule.", subject=name,
                            hint="use forms such as t + i, i // 16 and i % 16")
    values = {x: form for x, form in zip(inames, forms, strict=True) if x in old}
    equal = {x: subtract(p.Variable(x), substitute(form, values)) for x, form in new.items()}
    return Reindexing(tuple(new), values, tuple(("==", form) for form in equal.values() if form != 0))
