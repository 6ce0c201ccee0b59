"""Questions about the dependences of a kernel."""
from __future__ import annotations

from itertools import pairwise
from typing import Any

from loopkit.compat.loopy.order import Order
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
    order = _order(kernel)
    barriers = sorted(order.barriers, key=lambda x: (len(order.before(x) & order.barriers), x))
    for first, second in pairwise(barriers):
        if first not in order.before(second):
            raise ScheduleError(f"The dependences do not order the global barriers '{first}' and '{second}'.",
                                hint=f"{{dep={first}}} after '{second}'")
    return tuple(barriers)


def find_most_recent_global_barrier(kernel: Any, insn_id: str) -> str | None:
    """The last global barrier on which the statement *insn_id* depends; ``None``: there is none."""
    order = _order(kernel)
    require_known("statement", [insn_id], order.after)
    return next((x for x in reversed(get_global_barrier_order(kernel)) if x in order.before(insn_id)), None)


def _order(kernel: Any) -> Order:
    """:raises PreconditionError: *kernel* does not come from one text."""
    order: Order = kernel.origin.order
    if not order.after:
        raise PreconditionError(f"'{kernel.name}' does not come from one text, so its barriers have no ids.",
                                subject=kernel.name, hint="ask each kernel before they are joined")
    return order
