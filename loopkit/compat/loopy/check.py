"""loopy's checks of the order of statements, before a text is generated."""
from __future__ import annotations

import warnings
from collections.abc import Iterator
from fnmatch import fnmatchcase

from loopkit.analysis.accesses import accesses_by_array
from loopkit.analysis.dependences import dependences
from loopkit.compat.loopy.diagnostic import LoopyWarning, VariableAccessNotOrdered
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.order import Order
from loopkit.errors import PreconditionError
from loopkit.kernel.statement import owner
from loopkit.poly.limits import bounded


def check_order(kernel: LoopKernel) -> None:
    """Require an order of the statements of *kernel*.

    :raises DependencyCycleFound: statements depend on each other in a circle.
    :raises ScheduleError: loops need an order that no step gave.
    :raises VariableAccessNotOrdered: see :func:`check_variable_access_ordered`.
    """
    if (fault := kernel.origin.order.fault) is not None:
        raise fault
    kernel.origin.nesting.require_order()
    check_variable_access_ordered(kernel)


def check_variable_access_ordered(kernel: LoopKernel) -> None:
    """Require a chain of dependences between each two statements if one writes an element that the other accesses.

    The option ``enforce_variable_access_ordered=False`` makes the error a warning, and ``"no_check"`` checks nothing:
    the statements run in the order of the text.

    :raises VariableAccessNotOrdered: two statements have no order.
    :raises PreconditionError: the option has another value.
    """
    mode = kernel.options.enforce_variable_access_ordered
    if mode not in (True, False, "no_check"):
        raise PreconditionError(f"enforce_variable_access_ordered={mode!r} is not a value of this option.",
                                subject="enforce_variable_access_ordered", hint='True, False or "no_check"')
    pairs = frozenset() if mode == "no_check" else frozenset(_without_order(kernel))
    if not pairs:
        return
    with bounded(f"checking the order of the statements of kernel '{kernel.name}'"):
        found = next((d for d in dependences(kernel.core)
                      if d.array and frozenset((owner(d.source), owner(d.sink))) in pairs), None)
    if found is None:
        return
    source, sink = owner(found.source), owner(found.sink)
    error = VariableAccessNotOrdered(
        f"No chain of dependences orders '{source}' and '{sink}', which access the same elements of '{found.array}'.",
        hint=f"write dep={source} in '{sink}' or the reverse, or nosync= with the other's id in both; with the option "
        'enforce_variable_access_ordered="no_check" they run in the order of the text')
    if mode:
        raise error
    if not any(fnmatchcase("variable_access_ordered", pattern) for pattern in kernel.silenced_warnings):
        warnings.warn(str(error), LoopyWarning, stacklevel=2)


def _without_order(kernel: LoopKernel) -> Iterator[frozenset[str]]:
    """Pairs of statements of the text that access one array, and that no chain of dependences orders."""
    order = kernel.origin.order
    if len(order.after) < 2:
        return
    own = {str(s.id): s.depends_on for s in kernel.core.instructions}          # also those that steps added
    every = Order({name: own.get(name, frozenset()) | order.after.get(name, frozenset())
                   for name in {*own, *order.after}})
    before = {name: every.before(name) for name in own if name in order.after}
    # loopy does not compare the accesses of scalars
    scalars = {name for name, accesses in accesses_by_array(kernel.core).items()
               if not all(access.subscripts for access in accesses)}
    readers = kernel.reader_map()
    for array, writers in kernel.writer_map().items():
        writers = frozenset() if array in scalars else writers
        for writer in writers & before.keys():
            for other in (writers | readers.get(array, frozenset())) & before.keys() - {writer}:
                apart = other in order.claimed(writer) and writer in order.claimed(other)
                if not apart and writer not in before[other] and other not in before[writer]:
                    yield frozenset((writer, other))
