"""loopy's checks of a kernel, before it is linearized and a text is generated."""
from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import combinations

from loopkit.analysis.accesses import accesses_by_array
from loopkit.analysis.base_storage import in_base_storages
from loopkit.analysis.dependences import dependences
from loopkit.compat.loopy.diagnostic import LoopyWarning, VariableAccessNotOrdered, WriteRaceConditionWarning
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.order import Order
from loopkit.errors import LoopkitWarning, PreconditionError
from loopkit.expr.mappers import variables
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.statement import owner
from loopkit.kernel.tags import GroupTag, IlpTag, LocalTag
from loopkit.poly.limits import bounded
from loopkit.poly.relations import same_element


def check_kernel(kernel: LoopKernel) -> None:
    """Require an order of the statements of *kernel*, and at most one iname for each axis around a statement.

    A statement that writes an element again and again along an ``ilp`` iname gives a warning.

    :raises DependencyCycleFound: statements depend on each other in a circle.
    :raises ScheduleError: loops need an order that no step gave.
    :raises VariableAccessNotOrdered: see :func:`check_variable_access_ordered`.
    :raises PreconditionError: a statement has two inames for one axis.
    """
    if (fault := kernel.origin.order.fault) is not None:
        raise fault
    kernel.origin.nesting.require_order()
    _require_one_iname_per_axis(kernel)
    check_variable_access_ordered(kernel)
    _warn_of_write_races(kernel)


def check_index_dtypes(kernels: Iterable[LoopKernel]) -> None:
    """:raises PreconditionError: a function has another ``index_dtype=`` than the kernels that call it."""
    named = {kernel.index_dtype.numpy_dtype: kernel.name for kernel in kernels}
    if len(named) > 1:
        (one, a), (other, b) = [*named.items()][:2]
        raise PreconditionError(f"'{a}' has the index_dtype {one}, and '{b}' has {other}.", subject="index_dtype",
                                hint="give both kernels the same")


def _require_one_iname_per_axis(kernel: LoopKernel) -> None:
    tags = kernel.core.tags
    for s in kernel.core.statements:
        on_axis: dict[str, str] = {}
        for x in (x for x in s.inames if isinstance(tags.get(x), GroupTag | LocalTag)):
            if (other := on_axis.setdefault(str(tags[x]), x)) != x:
                raise PreconditionError(f"'{owner(s.id)}' has two inames for the axis {tags[x]}: '{other}' and '{x}'.",
                                        subject=x, hint="tag one of them with another axis")


def _warn_of_write_races(kernel: LoopKernel) -> None:
    """loopy gives the iterations of ``ilp`` no order; loopkit runs them upwards."""
    core = kernel.core
    private = {name for name, t in core.temporaries.items() if t.address_space in (None, AddressSpace.PRIVATE)}
    for s in core.statements:
        for x in (x for x in s.inames if isinstance(core.tags.get(x), IlpTag)):
            if x not in variables(s.assignee) and s.written not in private:
                _warn(kernel, f"write_race({owner(s.id)})", WriteRaceConditionWarning(
                    f"'{owner(s.id)}' writes an element of '{s.written}' for several values of the ilp iname '{x}': "
                    "the value of the last one stays."))


def _warn(kernel: LoopKernel, identifier: str, warning: LoopkitWarning) -> None:
    if not any(fnmatchcase(identifier, pattern) for pattern in kernel.silenced_warnings):
        warnings.warn(warning, stacklevel=2)


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
        found = next(((source, sink, array) for source, sink, array in _conflicts(kernel)
                      if frozenset((source, sink)) in pairs), None)
    if found is None:
        return
    source, sink, array = found
    error = VariableAccessNotOrdered(
        f"No chain of dependences orders '{source}' and '{sink}', which access the same elements of '{array}'.",
        hint=f"write dep={source} in '{sink}' or the reverse, or nosync= with the other's id in both; with the option "
        'enforce_variable_access_ordered="no_check" they run in the order of the text')
    if mode:
        raise error
    _warn(kernel, "variable_access_ordered", LoopyWarning(str(error)))


def _bases(kernel: LoopKernel) -> Mapping[str, str]:
    """The base storages that the text declares: steps prove those that they add."""
    return {name: base for name in kernel.core.temporaries
            if (base := getattr(kernel.declared.get(name), "base_storage", None)) is not None}


def _conflicts(kernel: LoopKernel) -> Iterator[tuple[str, str, str]]:
    """Pairs of statements that access one element, and the array or the base storage.

    Dependences order the values of a temporary, and each other pair of accesses to the cells of a base storage counts.
    """
    yield from ((owner(d.source), owner(d.sink), d.array) for d in dependences(kernel.core) if d.array)
    bases = sorted({*_bases(kernel).values()})
    accesses = accesses_by_array(in_base_storages(kernel.core)) if bases else {}
    for base in bases:
        for a, b in combinations(accesses.get(base, ()), 2):
            if (a.is_write or b.is_write) and not same_element(a.relation, b.relation).is_empty():
                yield owner(a.statement), owner(b.statement), base


def _without_order(kernel: LoopKernel) -> Iterator[frozenset[str]]:
    """Pairs of statements of the text that access one memory, and that no chain of dependences orders."""
    order = kernel.origin.order
    if len(order.after) < 2:
        return
    own = {str(i.id): i.depends_on for i in kernel.core.instructions}          # also those that steps added
    every = Order({name: own.get(name, frozenset()) | order.after.get(name, frozenset())
                   for name in {*own, *order.after}})
    before = {name: every.before(name) for name in own if name in order.after}
    # loopy does not compare the accesses of scalars
    scalars = {name for name, accesses in accesses_by_array(kernel.core).items()
               if not all(access.subscripts for access in accesses)}
    writers, users, bases = dict[str, set[str]](), dict[str, set[str]](), _bases(kernel)
    maps = ((writers, kernel.writer_map()), (users, kernel.writer_map()), (users, kernel.reader_map()))
    for found, accessors in maps:
        for name in accessors.keys() - scalars:
            found.setdefault(bases.get(name, name), set()).update(accessors[name] & before.keys())
    for memory, own_writers in writers.items():
        for writer in own_writers:
            for other in users[memory] - {writer}:
                apart = other in order.claimed(writer) and writer in order.claimed(other)
                if not apart and writer not in before[other] and other not in before[writer]:
                    yield frozenset((writer, other))
