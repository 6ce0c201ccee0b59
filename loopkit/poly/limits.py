"""isl's questions can grow without bound: a budget of operations, and an error instead of a hang.

isl counts allocations and pivots: a million a second as a rule, but a pivot of a large tableau takes thirty times as
long, so that the budget is half a minute for most questions, and ten for the worst that are known. Everything that
users call asks isl within one; its context is not limited in between, as it is the one that their own sets live in.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import islpy as isl

from loopkit.errors import UndecidedError

#: Operations of isl that one step may take; the largest cases of the tests need a fifth.
BUDGET = 20_000_000


class _Running(threading.local):
    """Is a bounded step running in this thread?"""

    step: str | None = None


_running = _Running()
#: For each bounded step that runs, of any thread, the limit that there was before it.
_limits: list[int] = []


def gave_up(error: isl.Error) -> bool:
    """Did isl reach the end of its budget? (Other errors say that it cannot do what it was asked for.)"""
    return "maximal number of operations" in str(error)


R = TypeVar("R")
T = TypeVar("T", isl.Set, isl.Map, isl.PwAff, isl.PwMultiAff)


def coalesced(points: T) -> T:
    """*points* in fewer pieces, where isl finds them.

    isl 0.27 fails on some unions with an error of its own ("original tableau does not correspond to original basic
    map"). Those stay as they are: they mean the same.
    """
    try:
        return points.coalesce()
    except isl.Error as err:
        if gave_up(err):
            raise
        return points


@contextmanager
def bounded(what: str) -> Iterator[None]:
    """Run isl under :data:`BUDGET`; *what* names the step and its kernel in the error.

    Inside another bounded step the outer one's budget holds.

    :raises UndecidedError: isl gave up.
    """
    if _running.step is not None:
        yield
        return
    context = isl.DEFAULT_CONTEXT
    _limits.append(context.get_max_operations() if not _limits else _limits[0])
    context.reset_operations()
    context.set_max_operations(BUDGET)
    _running.step = what
    try:
        yield
    except isl.Error as err:
        reason = f"isl gave up after {BUDGET:_} operations" if gave_up(err) else f"isl says: {err}"
        raise UndecidedError(
            f"{what} asks a question that cannot be decided.", reason,
            hint="fix some parameters (fix_parameters), or split the kernel") from err
    finally:
        _running.step = None
        before = _limits.pop()
        if not _limits:
            context.set_max_operations(before)


def affordable(question: Callable[[], R], operations: int) -> R | None:
    """The answer to a *question* that may stay open, within so many *operations*; ``None``: isl gave up.

    A bounded step around it has its whole budget afterwards.
    """
    context = isl.DEFAULT_CONTEXT
    around = context.get_max_operations()
    context.reset_operations()
    context.set_max_operations(operations)
    try:
        return question()
    except isl.Error as err:
        if gave_up(err):
            return None
        raise
    finally:
        context.set_max_operations(around)
        context.reset_operations()
