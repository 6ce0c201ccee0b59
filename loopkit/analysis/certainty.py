"""Which writes to a temporary certainly happen, and so hide what was there before.

A write under a condition may leave the old value. It hides it all the same from readers that are under that condition
too; and of two writes under a condition and its opposite one happens.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, data_params
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tree import meeting


def kills(knl: LoopKernel, write: Access, accesses: Sequence[Access]) -> bool:
    """Does *write* hide earlier values from the reads among *accesses*, all to one temporary?

    A certain write does. So does one under flags that every reader is under too, where each flag is set once in the
    iteration before: whoever reads runs only where the write has happened.
    """
    if not write.affine or write.certain:
        return write.affine
    flags = _flags(knl, write)
    return bool(flags) and all(_under(knl, knl.statement_by_id[a.statement], flags)
                               for a in accesses if not a.is_write)


def complete_writes(knl: LoopKernel, accesses: Sequence[Access]) -> tuple[tuple[Access, ...], ...]:
    """Sets of writes under conditions that leave no case out, each in textual order.

    Of a set one happens in every iteration, so at its first write the old value ends for all who read behind that:
    whoever reads between its writes is under the flags of one that stands before.
    """
    uncertain = [a for a in accesses if a.is_write and a.affine and not a.certain]
    if len(uncertain) < 2:
        return ()
    open_sets = [_Set(flags, (a,)) for a in uncertain if (flags := _flags(knl, a))]
    found: list[tuple[Access, ...]] = []
    while (joined := next(_joined(knl, open_sets), None)) is not None:
        first, second, both = joined
        open_sets = [s for s in open_sets if s is not first and s is not second]
        if both.flags:
            open_sets.append(both)
        elif _hides(knl, both, accesses):
            found.append(both.writes)
    return tuple(found)


@dataclass(frozen=True)
class _Set:
    """Writes to one cell, in textual order, of which one happens wherever *flags* hold."""

    flags: frozenset[Expression]
    writes: tuple[Access, ...]


def _joined(knl: LoopKernel, sets: Sequence[_Set]) -> Iterator[tuple[_Set, _Set, _Set]]:
    """Two of *sets* that differ in one flag, which one has and the other negates, and what they are together."""
    for a, b in combinations(sets, 2):
        only_a, only_b = a.flags - b.flags, b.flags - a.flags
        if len(only_a) == len(only_b) == 1 and _negated(*only_a) == next(iter(only_b)) \
                and _same_cell(knl, a.writes[0], b.writes[0]):
            places = {x.id: i for i, x in enumerate(knl.statements)}
            writes = sorted((*a.writes, *b.writes), key=lambda w: places[w.statement])
            yield a, b, _Set(a.flags & b.flags, tuple(writes))


def _same_cell(knl: LoopKernel, a: Access, b: Access) -> bool:
    """Do both write the same cell in each iteration of all their loops?"""
    loops = knl.statement_by_id[a.statement].inames
    return a.domain is b.domain and a.subscripts == b.subscripts \
        and set(meeting(knl.paths[a.statement], knl.paths[b.statement]).loops) == set(loops)


def _hides(knl: LoopKernel, whole: _Set, accesses: Sequence[Access]) -> bool:
    """Is everyone who reads between the writes of *whole* under the flags of one that stands before?"""
    first, last = (knl.paths[whole.writes[i].statement] for i in (0, -1))
    for reader in {a.statement for a in accesses if not a.is_write}:
        way = knl.paths[reader]
        if not meeting(first, way).before or not (meeting(way, last).before or way == last):
            continue
        earlier = [w for w in whole.writes if meeting(knl.paths[w.statement], way).before]
        if not any(_under(knl, knl.statement_by_id[reader], _flags(knl, w)) for w in earlier):
            return False
    return True


# {{{ flags

def _flags(knl: LoopKernel, write: Access) -> frozenset[Expression]:
    """The conditions of *write*, if all are flags or opposites of flags; else nothing."""
    statement = knl.statement_by_id[write.statement]
    conditions = _conditions(knl, statement)
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
        writer = _writer(knl, condition)
        if writer is not None and isinstance(condition, p.Variable) and _is_flag(knl, condition, user):
            waiting += [c for c in _conjuncts(writer.expression) if _is_flag(knl, c, writer)]
    return frozenset(found)


def _conjuncts(condition: Expression) -> tuple[Expression, ...]:
    if isinstance(condition, p.LogicalAnd):
        return tuple(c for child in condition.children for c in _conjuncts(child))
    return (condition,)


def _is_flag(knl: LoopKernel, condition: Expression, user: Statement) -> bool:
    """Is *condition* a temporary, or its opposite, that one statement sets before *user* in the same iteration?"""
    writer = _writer(knl, condition)
    if writer is None or data_params(knl, writer.domain) or not set(writer.predicates) <= set(user.predicates):
        return False
    where = meeting(knl.paths[writer.id], knl.paths[user.id])
    return where.before and set(writer.inames) <= set(where.loops)


def _writer(knl: LoopKernel, condition: Expression) -> Statement | None:
    """The one statement that sets the scalar temporary which *condition* is, or negates."""
    if isinstance(condition, p.LogicalNot):
        condition = condition.child
    if not isinstance(condition, p.Variable) or condition.name not in knl.temporaries:
        return None
    writers = [s for s in knl.statements if s.written == condition.name]
    return writers[0] if len(writers) == 1 else None


def _negated(flag: Expression) -> Expression:
    return flag.child if isinstance(flag, p.LogicalNot) else p.LogicalNot(flag)

# }}}
