"""Must-writes of temporaries: writes after which no read gets an earlier value of the element.

A write under a condition or in bounds that depend on data is a may-write. It is a must-write for reads under the same
condition and in the same bounds, and two writes under a condition and its negation are a must-write together.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, analysis_domain, data_params
from loopkit.expr.mappers import conjuncts, opposite, variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tree import meeting
from loopkit.poly.flow import JointMustWrite
from loopkit.poly.limits import kept


def is_must_write(access: Access) -> bool:
    """Does *access* replace the value of its element, independently of the data? An atomic update does not."""
    return access.is_write and access.exact and access.update is None


def joint_must_writes(knl: LoopKernel, accesses: Sequence[Access]) -> tuple[JointMustWrite, ...]:
    """The may-writes among *accesses*, all to one temporary, that are a must-write together, or for some read."""
    waiting: list[_Set] = [((i,), flags) for i, a in enumerate(accesses) if a.is_write and a.affine and not a.exact
                           and a.update is None and (flags := _flags(knl, a))]
    found = list(waiting)
    while joined := list(_joined(knl, accesses, waiting)):
        # the fewest flags first: such a join can be joined again
        first, second, both = min(joined, key=lambda j: len(j[2][1]))
        waiting = [s for s in waiting if s is not first and s is not second]
        found.append(both)
        waiting += [both] if both[1] else []
    return tuple(one for writes, flags in found for one in (
        _implied(knl, accesses, writes, flags) if flags else (JointMustWrite(writes),)))


#: Conditions that are elements of temporaries, or negations of such elements, and the temporaries that are bounds.
Flags = frozenset[Expression | str]
#: Writes by index, and flags: one of the writes happens if all the flags hold.
_Set = tuple[tuple[int, ...], Flags]


def _implied(knl: LoopKernel, accesses: Sequence[Access], writes: tuple[int, ...], flags: Flags
             ) -> Iterator[JointMustWrite]:
    """A joint must-write for each read that happens only where *flags* hold; one of *writes* happens there."""
    writers = [knl.statement_by_id[accesses[i].statement] for i in writes]
    inames = writers[0].inames
    setters = {flag: setter_of(knl, flag, writers[0]) for flag in flags}
    shared = [x for x in inames if any(s is not None and x in s.inames for s in setters.values())]
    for j, read in enumerate(accesses):
        reader = knl.statement_by_id[read.statement]
        # the read runs only if all of the flags hold, each set in the same iteration
        if not read.is_write and flags <= _conditions_of(knl, reader) \
                and all(s is not None and s is setter_of(knl, flag, reader) for flag, s in setters.items()) \
                and (loops := _in_bounds(knl, writers, reader, shared)) is not None:
            yield JointMustWrite(writes, j, tuple((inames.index(x), reader.inames.index(x)) for x in loops))


def _in_bounds(knl: LoopKernel, writers: Sequence[Statement], reader: Statement, shared: Sequence[str]
               ) -> Sequence[str] | None:
    """The inames in which *writers* and *reader* have to agree, so that all writers run if the reader does.

    They are *shared* and as few others as possible; ``None``: a writer may not run although the reader does.
    """
    bounds = {x for w in writers for x in data_params(knl, w.domain)}
    if not bounds:
        return shared
    # many statements have the same instances
    key = (tuple(id(w.domain) for w in writers), id(reader.domain), tuple(shared))
    return kept(knl.memo.setdefault("in bounds", {}), key,
                lambda: _loops_in_bounds(knl, writers, reader, shared, bounds))


def _loops_in_bounds(knl: LoopKernel, writers: Sequence[Statement], reader: Statement, shared: Sequence[str],
                     bounds: set[str]) -> Sequence[str] | None:
    known = reader.domain.without_params(set(data_params(knl, reader.domain)) - bounds)

    def suffice(inames: Sequence[str]) -> bool:
        points = known.onto(inames)
        return all(analysis_domain(knl, w).intersect(points.onto(w.inames)).is_subset(w.domain) for w in writers)
    inames = [x for x in writers[0].inames if x in reader.inames]
    if not suffice(inames):
        return None
    for x in [x for x in inames if x not in shared]:
        fewer = [y for y in inames if y != x]
        inames = fewer if suffice(fewer) else inames
    return inames


def _joined(knl: LoopKernel, accesses: Sequence[Access], sets: Sequence[_Set]) -> Iterator[tuple[_Set, _Set, _Set]]:
    """Two of *sets*, one under a flag and one under its negation, and their union without that flag."""
    for a, b in combinations(sets, 2):
        if _same_cell(knl, accesses[a[0][0]], accesses[b[0][0]]):
            for flag in sorted(a[1], key=str):
                if not isinstance(flag, str) and (negated := opposite(flag, ())) in b[1]:
                    yield a, b, ((*a[0], *b[0]), (a[1] - {flag}) | (b[1] - {negated}))


def _same_cell(knl: LoopKernel, a: Access, b: Access) -> bool:
    """Do both write the same cell in each iteration of all their loops?"""
    loops = knl.statement_by_id[a.statement].inames
    return (a.domain is b.domain or a.domain.is_equal(b.domain)) and a.subscripts == b.subscripts \
        and set(meeting(knl.paths[a.statement], knl.paths[b.statement]).loops) == set(loops)


def _flags(knl: LoopKernel, write: Access) -> Flags:
    """The conditions and bounds of *write* if all are flags, else none."""
    statement = knl.statement_by_id[write.statement]
    flags = frozenset[Expression | str](c for predicate in statement.predicates for c in conjuncts(predicate))
    flags = flags.union(data_params(knl, statement.domain))
    return frozenset() if any(setter_of(knl, flag, statement) is None for flag in flags) else flags


def _conditions_of(knl: LoopKernel, user: Statement) -> Flags:
    """The flags that hold where *user* runs: its bounds and predicates, and the conjuncts to which these were set."""
    found: set[Expression | str] = {*data_params(knl, user.domain)}
    waiting = [c for predicate in user.predicates for c in conjuncts(predicate)]
    while waiting:
        condition = waiting.pop()
        if condition not in found and not isinstance(condition, p.LogicalNot) \
                and (setter := setter_of(knl, condition, user)) is not None:
            waiting += [c for c in conjuncts(setter.expression) if setter_of(knl, c, setter) is not None]
        found.add(condition)
    return frozenset(found)


def setter_of(knl: LoopKernel, flag: Expression | str, user: Statement) -> Statement | None:
    """The statement that set *flag* before *user* in the same iteration; ``None``: there is not one."""
    return kept(knl.memo.setdefault("setters", {}), (flag, user.id), lambda: _found_setter(knl, flag, user))


def _found_setter(knl: LoopKernel, flag: Expression | str, user: Statement) -> Statement | None:
    cell = p.Variable(flag) if isinstance(flag, str) else flag.child if isinstance(flag, p.LogicalNot) else flag
    variable = cell.aggregate if isinstance(cell, p.Subscript) else cell
    if not isinstance(variable, p.Variable) or variable.name not in knl.temporaries:
        return None
    writer = _only_writer(knl, variable.name, user)
    # the values in the subscripts must not change between writer and user
    if writer is None or writer.assignee != cell \
            or any((s := setter_of(knl, x, writer)) is None or s is not setter_of(knl, x, user)
                   for x in data_params(knl, writer.domain)) \
            or not variables(cell) <= {variable.name, *writer.inames, *knl.value_params} \
            or not set(writer.predicates) <= set(user.predicates):
        return None
    is_set = meeting(knl.paths[writer.id], knl.paths[user.id]).before \
        and (user.domain is writer.domain or user.domain.onto(writer.inames).is_subset(writer.domain))
    return writer if is_set else None


def _only_writer(knl: LoopKernel, name: str, user: Statement) -> Statement | None:
    """The only statement that writes the temporary *name* in loops around *user*; ``None``: there is not one."""
    writers = knl.writers.get(name, ())
    around = [w for w in writers if set(w.inames) <= _shared_loops(knl, w, user)]
    # peeling makes several writers in separate loops: in an iteration of one's loops the others do not run
    return around[0] if len(around) == 1 and all(
        w is around[0] or not set(around[0].inames) <= _shared_loops(knl, around[0], w) for w in writers) else None


def _shared_loops(knl: LoopKernel, a: Statement, b: Statement) -> set[str]:
    return set(meeting(knl.paths[a.id], knl.paths[b.id]).loops)
