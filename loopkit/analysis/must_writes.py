"""Must-writes of temporaries: writes after which no read gets an earlier value of the element.

A write under a condition that depends on data is a may-write. It is a must-write for reads under the same condition,
and two writes under a condition and its negation are a must-write together.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, data_params
from loopkit.expr.mappers import conjuncts, opposite, variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tree import meeting
from loopkit.poly.flow import JointMustWrite


def is_must_write(access: Access) -> bool:
    """Does *access* replace the value of its element, whatever the data? An atomic update does not."""
    return access.is_write and access.affine and access.must and access.update is None


def joint_must_writes(knl: LoopKernel, accesses: Sequence[Access]) -> tuple[JointMustWrite, ...]:
    """The may-writes among *accesses*, all to one temporary, that are a must-write together, or for some read."""
    may = {i: flags for i, a in enumerate(accesses) if a.is_write and a.affine and not a.must
           and a.update is None and (flags := _flags(knl, a))}
    if not may:
        return ()
    return (*_implied(knl, accesses, may), *_exhaustive(knl, accesses, may))


#: Conditions that are elements of temporaries, or negations of such elements.
Flags = frozenset[Expression]


def _implied(knl: LoopKernel, accesses: Sequence[Access], may: Mapping[int, Flags]) -> Iterator[JointMustWrite]:
    """May-writes that happen in every iteration in which a read happens, as the read is under the same flags."""
    for i, flags in may.items():
        writer = knl.statement_by_id[accesses[i].statement]
        setters = {flag: _setter(knl, flag, writer) for flag in flags}
        shared = [x for x in writer.inames if any(s is not None and x in s.inames for s in setters.values())]
        for j, read in enumerate(accesses):
            reader = knl.statement_by_id[read.statement]
            # the read runs only if all of the flags hold, each set in the same iteration
            if not read.is_write and flags <= _conditions_of(knl, reader) \
                    and all(s is not None and s is _setter(knl, flag, reader) for flag, s in setters.items()):
                yield JointMustWrite((i,), j, tuple((writer.inames.index(x), reader.inames.index(x)) for x in shared))


def _exhaustive(knl: LoopKernel, accesses: Sequence[Access], may: Mapping[int, Flags]) -> Iterator[JointMustWrite]:
    """May-writes of which one happens in every case, as their flags cover all cases."""
    waiting: list[_Set] = [((i,), flags) for i, flags in may.items()]
    while joined := list(_joined(knl, accesses, waiting)):
        # the fewest flags first: such a join can be joined again
        first, second, both = min(joined, key=lambda j: len(j[2][1]))
        waiting = [s for s in waiting if s is not first and s is not second]
        if both[1]:
            waiting.append(both)
        else:
            yield JointMustWrite(both[0])


#: Writes by index, and flags: one of the writes happens if all the flags hold.
_Set = tuple[tuple[int, ...], Flags]


def _joined(knl: LoopKernel, accesses: Sequence[Access], sets: Sequence[_Set]) -> Iterator[tuple[_Set, _Set, _Set]]:
    """Two of *sets*, one under a flag and one under its negation, and their union without that flag."""
    for a, b in combinations(sets, 2):
        if _same_cell(knl, accesses[a[0][0]], accesses[b[0][0]]):
            for flag in sorted(a[1], key=str):
                if (negated := opposite(flag, ())) in b[1]:
                    yield a, b, ((*a[0], *b[0]), (a[1] - {flag}) | (b[1] - {negated}))


def _same_cell(knl: LoopKernel, a: Access, b: Access) -> bool:
    """Do both write the same cell in each iteration of all their loops?"""
    loops = knl.statement_by_id[a.statement].inames
    return (a.domain is b.domain or a.domain.is_equal(b.domain)) and a.subscripts == b.subscripts \
        and set(meeting(knl.paths[a.statement], knl.paths[b.statement]).loops) == set(loops)


def _flags(knl: LoopKernel, write: Access) -> Flags:
    """The conditions of *write* if all are flags, else none."""
    statement = knl.statement_by_id[write.statement]
    conditions = frozenset(c for predicate in statement.predicates for c in conjuncts(predicate))
    if data_params(knl, statement.domain) or any(_setter(knl, c, statement) is None for c in conditions):
        return frozenset()
    return conditions


def _conditions_of(knl: LoopKernel, user: Statement) -> frozenset[Expression]:
    """The conditions that hold where *user* runs: its predicates, and the conjuncts to which its flags were set."""
    found: set[Expression] = set()
    waiting = [c for predicate in user.predicates for c in conjuncts(predicate)]
    while waiting:
        condition = waiting.pop()
        if condition not in found and not isinstance(condition, p.LogicalNot) \
                and (setter := _setter(knl, condition, user)) is not None:
            waiting += [c for c in conjuncts(setter.expression) if _setter(knl, c, setter) is not None]
        found.add(condition)
    return frozenset(found)


def _setter(knl: LoopKernel, condition: Expression, user: Statement) -> Statement | None:
    """The statement that set the flag *condition* before *user* in the same iteration; ``None``: there is not one."""
    cell = condition.child if isinstance(condition, p.LogicalNot) else condition
    variable = cell.aggregate if isinstance(cell, p.Subscript) else cell
    if not isinstance(variable, p.Variable) or variable.name not in knl.temporaries:
        return None
    writer = _only_writer(knl, variable.name, user)
    # the values in the subscripts must not change between writer and user
    if writer is None or writer.assignee != cell or data_params(knl, writer.domain) \
            or not variables(cell) <= {variable.name, *writer.inames, *knl.value_params} \
            or not set(writer.predicates) <= set(user.predicates):
        return None
    is_set = meeting(knl.paths[writer.id], knl.paths[user.id]).before \
        and (user.domain is writer.domain or user.domain.onto(writer.inames).is_subset(writer.domain))
    return writer if is_set else None


def _only_writer(knl: LoopKernel, name: str, user: Statement) -> Statement | None:
    """The only statement that writes the temporary *name* in loops around *user*; ``None``: there is not one."""
    writers = [s for s in knl.statements if s.written == name]
    around = [w for w in writers if set(w.inames) <= _shared_loops(knl, w, user)]
    # peeling makes several writers in separate loops: in an iteration of one's loops the others do not run
    return around[0] if len(around) == 1 and all(
        w is around[0] or not set(around[0].inames) <= _shared_loops(knl, around[0], w) for w in writers) else None


def _shared_loops(knl: LoopKernel, a: Statement, b: Statement) -> set[str]:
    return set(meeting(knl.paths[a.id], knl.paths[b.id]).loops)
