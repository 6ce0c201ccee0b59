"""Questions about the dependences of a kernel."""
from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from loopkit.errors import PreconditionError, ScheduleError, require_known


def get_global_barrier_order(kernel: Any) -> tuple[str, ...]:
    """The ids of the global barriers of *kernel*, each after those that it depends on.

    :raises ScheduleError: the dependences leave the order of two barriers open.

    >>> import loopkit.compat.loopy as lp
    >>> text = "a[i] = i {id=a}\\n... gbarrier {id=one, dep=a}\\n... gbarrier {id=two, dep=one}"
    >>> knl = lp.make_kernel("{[i]: 0<=i<8}", text)["loopy_kernel"]
    >>> lp.get_global_barrier_order(knl)
    ('one', 'two')
    """
    before = _all_before(kernel)
    every = kernel.definition.barriers
    barriers = sorted(every, key=lambda x: (len(before[x] & every), x))
    for first, second in pairwise(barriers):
        if first not in before[second]:
            raise ScheduleError(f"The dependences do not order the global barriers '{first}' and '{second}'.",
                                hint=f"{{dep={first}}} after '{second}'")
    return tuple(barriers)


def find_most_recent_global_barrier(kernel: Any, insn_id: str) -> str | None:
    """The last global barrier on which the statement *insn_id* depends; ``None``: there is none."""
    before = _all_before(kernel)
    require_known("statement", [insn_id], before)
    return next((x for x in reversed(get_global_barrier_order(kernel)) if x in before[insn_id]), None)


def _all_before(kernel: Any) -> Mapping[str, frozenset[str]]:
    """For each statement and marker of the text all of those that it depends on, directly or through others.

    :raises PreconditionError: *kernel* does not come from one text.
    """
    if kernel.definition is None:
        raise PreconditionError(f"'{kernel.name}' does not come from one text, so its barriers have no ids.",
                                subject=kernel.name, hint="ask each kernel before they are joined")
    direct = kernel.definition.dependences
    every: dict[str, frozenset[str]] = {}
    for name in direct:
        found: set[str] = set()
        waiting = [name]
        while waiting:
            waiting += (new := direct.get(waiting.pop(), frozenset()) - found)
            found |= new
        every[name] = frozenset(found)
    return every
