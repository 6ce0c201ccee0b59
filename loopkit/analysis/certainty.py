"""Must-writes: writes under conditions after which no earlier value of the element is read.

A write under a condition may leave the old value. It hides it all the same from readers that are under that condition
too; and of two writes under a condition and its opposite one happens.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, data_params
from loopkit.expr.mappers import variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tree import meeting
from loopkit.poly.flow import OneOf


def certain_write(access: Access) -> bool:
    """Does *access* replace what was in the cell, whatever the data? An atomic update adds to it."""
    return access.is_write and access.affine and access.certain and access.update is None


def sure_writes(knl: LoopKernel, accesses: Sequence[Access]) -> tuple[OneOf, ...]:
    """Of which writes under conditions among *accesses*, all to one temporary, one has happened where a read comes."""
    uncertain = {i: flags for i, a in enumerate(accesses) if a.is_write and a.affine and not a.certain
                 and a.update is None and (flags := _flags(knl, a))}
    if not uncertain:
        return ()
    return (*_implied(knl, accesses, uncertain), *_exhaustive(knl, accesses, uncertain))


Flags = frozenset[Expression]


def _implied(knl: LoopKernel, accesses: Sequence[Access], uncertain: Mapping[int, Flags]) -> Iterator[OneOf]:
    """A write that happens in the same iterations as a read: both are under its flags."""
    for i, flags in uncertain.items():
        writer = knl.statement_by_id[accesses[i].statement]
        shared = [x for x in writer.inames if any(x in _set_in(knl, flag, writer) for flag in flags)]
        for j, read in enumerate(accesses):
            reader = knl.statement_by_id[read.statement]
            if not read.is_write and _under(knl, reader, flags) \
                    and all(_writer(knl, flag, writer) is _writer(knl, flag, reader) for flag in flags):
                yield OneOf((i,), j, tuple((writer.inames.index(x), reader.inames.index(x)) for x in shared))


def _exhaustive(knl: LoopKernel, accesses: Sequence[Access], uncertain: Mapping[int, Flags]) -> Iterator[OneOf]:
    """Writes under conditions that leave no case out."""
    waiting: list[_Set] = [((i,), flags) for i, flags in uncertain.items()]
    while joined := list(_joined(knl, accesses, waiting)):
        # the fewest conditions first: they join further
        first, second, both = min(joined, key=lambda j: len(j[2][1]))
        waiting = [s for s in waiting if s is not first and s is not second]
        if both[1]:
            waiting.append(both)
        else:
            yield OneOf(both[0])


#: Writes by index, of which one happens wherever the flags hold.
_Set = tuple[tuple[int, ...], Flags]


def _joined(knl: LoopKernel, accesses: Sequence[Access], sets: Sequence[_Set]) -> Iterator[tuple[_Set, _Set, _Set]]:
    """Two of *sets*, one under a flag and the other under its opposite, and what they are together."""
    for a, b in combinations(sets, 2):
        if _same_cell(knl, accesses[a[0][0]], accesses[b[0][0]]):
            for flag in sorted(a[1], key=str):
                if _negated(flag) in b[1]:
                    yield a, b, ((*a[0], *b[0]), (a[1] - {flag}) | (b[1] - {_negated(flag)}))


def _same_cell(knl: LoopKernel, a: Access, b: Access) -> bool:
    """Do both write the same cell in each iteration of all their loops?"""
    loops = knl.statement_by_id[a.statement].inames
    return (a.domain is b.domain or a.domain.is_equal(b.domain)) and a.subscripts == b.subscripts \
        and set(meeting(knl.paths[a.statement], knl.paths[b.statement]).loops) == set(loops)


# {{{ flags

def _flags(knl: LoopKernel, write: Access) -> frozenset[Expression]:
    """The conditions of *write*, if all are flags or opposites of flags; else nothing."""
    statement = knl.statement_by_id[write.statement]
    conditions = frozenset(c for predicate in statement.predicates for c in _conjuncts(predicate))
    if data_params(knl, statement.domain) or not all(_is_flag(knl, c, statement) for c in conditions):
        return frozenset()
    return conditions


def _under(knl: LoopKernel, user: Statement, flags: frozenset[Expression]) -> bool:
    """Does *user* run only where all of *flags* hold, each of which was set in the same iteration?"""
    return flags <= _conditions(knl, user) and all(_is_flag(knl, flag, user) for flag in flags)


def _conditions(knl: LoopKernel, user: Statement) -> frozenset[Expression]:
    """What holds where *user* runs: its predicates, and what flags among them were set to be no more than."""
    found: dict[Expression, None] = {}
    waiting = [c for predicate in user.predicates for c in _conjuncts(predicate)]
    while waiting:
        condition = waiting.pop()
        if condition in found:
            continue
        found[condition] = None
        writer = _writer(knl, condition, user)
        if writer is not None and not isinstance(condition, p.LogicalNot) and _is_flag(knl, condition, user):
            waiting += [c for c in _conjuncts(writer.expression) if _is_flag(knl, c, writer)]
    return frozenset(found)


def _conjuncts(condition: Expression) -> tuple[Expression, ...]:
    if isinstance(condition, p.LogicalAnd):
        return tuple(c for child in condition.children for c in _conjuncts(child))
    return (condition,)


def _is_flag(knl: LoopKernel, condition: Expression, user: Statement) -> bool:
    """Is *condition* a temporary's cell, or its opposite, set by one statement before *user* in the same iteration?"""
    writer = _writer(knl, condition, user)
    if writer is None or data_params(knl, writer.domain) or not set(writer.predicates) <= set(user.predicates):
        return False
    where = meeting(knl.paths[writer.id], knl.paths[user.id])
    return where.before and set(writer.inames) <= set(where.loops) \
        and (user.domain is writer.domain or user.domain.onto(writer.inames).is_subset(writer.domain))


def _writer(knl: LoopKernel, condition: Expression, user: Statement) -> Statement | None:
    """The one statement that sets the temporary's cell which *condition* is, or negates, in the loops around *user*."""
    cell = condition.child if isinstance(condition, p.LogicalNot) else condition
    variable = cell.aggregate if isinstance(cell, p.Subscript) else cell
    if not isinstance(variable, p.Variable) or variable.name not in knl.temporaries:
        return None
    writer = _only_writer(knl, variable.name, user)
    if writer is None or writer.assignee != cell:
        return None
    # what the subscripts are of may not change between the two
    return writer if variables(cell) <= {variable.name, *writer.inames, *knl.value_params} else None


def _only_writer(knl: LoopKernel, name: str, user: Statement) -> Statement | None:
    """The one statement that writes the temporary *name* in the loops around *user*."""
    writers = [s for s in knl.statements if s.written == name]
    if len(writers) == 1:
        return writers[0]
    around = [w for w in writers if set(w.inames) <= _shared_loops(knl, w, user)]
    # peeling makes several, each in a loop of its own: in an iteration of the one's loops the others do not run
    if len(around) == 1 and all(w is around[0] or not set(around[0].inames) <= _shared_loops(knl, around[0], w)
                                for w in writers):
        return around[0]
    return None


def _shared_loops(knl: LoopKernel, a: Statement, b: Statement) -> set[str]:
    return set(meeting(knl.paths[a.id], knl.paths[b.id]).loops)


def _set_in(knl: LoopKernel, flag: Expression, user: Statement) -> tuple[str, ...]:
    """The inames of the loops in each iteration of which the *flag* of *user* is set."""
    writer = _writer(knl, flag, user)
    return () if writer is None else writer.inames


def _negated(flag: Expression) -> Expression:
    return flag.child if isinstance(flag, p.LogicalNot) else p.LogicalNot(flag)

# }}}
