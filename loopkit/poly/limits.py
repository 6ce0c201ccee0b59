"""isl's questions can grow without bound: a budget of operations, and an error instead of a hang."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import islpy as isl

from loopkit.errors import UndecidedError

#: Operations of isl that one step may take; the largest cases of the tests need less than a thousandth.
BUDGET = 500_000_000

_active: list[str] = []


def _reason(error: str) -> str:
    if "maximal number of operations" in error:
        return f"isl gave up after {BUDGET:_} operations"
    return f"isl says: {error}"


@contextmanager
def bounded(what: str) -> Iterator[None]:
    """Run isl under :data:`BUDGET`; *what* names the step and its kernel in the error.

    Inside another bounded step the outer one's budget holds.

    :raises UndecidedError: isl gave up.
    """
    if _active:
        yield
        return
    context = isl.DEFAULT_CONTEXT
    context.reset_operations()
    context.set_max_operations(BUDGET)
    _active.append(what)
    try:
        yield
    except isl.Error as err:
        raise UndecidedError(
            f"{what} asks a question that cannot be decided.", _reason(str(err)),
            hint="fix some parameters (fix_parameters), or split the kernel") from err
    finally:
        _active.pop()
        context.set_max_operations(0)
