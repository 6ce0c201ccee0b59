"""loopy's steps that define a kernel from others: fusion, batches, derivatives, other inames and conditions."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import loopkit as lk
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.translation_unit import (
    TranslationUnit,
    make_program,
    same_step,
    single_kernel,
)
from loopkit.errors import PreconditionError
from loopkit.language.names import name_list


def fuse_kernels(kernels: Sequence[Any], suffixes: Iterable[str] | None = None,
                 data_flow: Iterable[tuple[str, int, int]] | None = None) -> TranslationUnit:
    """:func:`loopkit.fuse_kernels`: a program of one kernel, with the target and the options of the first one.

    A kernel runs after those from which *data_flow* gives it an array.

    >>> import loopkit.compat.loopy as lp
    >>> twice = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="twice")
    >>> add = lp.make_kernel("{[j]: 0<=j<n}", "z[j] = y[j] + 1", name="add")
    >>> fused = lp.fuse_kernels([twice, add], data_flow=[("y", 0, 1)])
    >>> print(fused.default_entrypoint.core.statements_text)
    for i
      y[i] = 2*x[i]  {id=insn}
    end
    for j
      z[j] = y[j] + 1  {id=insn_0, dep=insn}
    end

    :raises PreconditionError: *data_flow* has a number without a kernel.
    """
    given, flow = [single_kernel(kernel) for kernel in kernels], list(data_flow or ())
    _require_places(flow, len(given))
    order = _writers_first(len(given), {(source, sink) for _, source, sink in flow})
    own, names = [given[k] for k in order], None if suffixes is None else list(suffixes)
    if names is not None and len(names) == len(given):
        names = [names[k] for k in order]
    fused = lk.fuse_kernels([kernel.core for kernel in own], names, [
        (name, order.index(source), order.index(sink)) for name, source, sink in flow])
    declared = {name: d for kernel in reversed(given) for name, d in kernel.declared.items() if name in fused.data
                or name in fused.argument_by_name}
    first = given[0]
    return make_program(LoopKernel(fused, first.target, first.options, declared, first.silenced_warnings))


def _require_places(flow: Iterable[tuple[str, int, int]], count: int) -> None:
    """:raises PreconditionError: *flow* has a number that is not one of *count* kernels."""
    for name, *places in flow:
        for k in places:
            if not 0 <= k < count:
                raise PreconditionError(f"data_flow gives '{name}' to or from kernel {k}, and there are {count}.",
                                        subject=name, hint="the numbers of the kernels begin with 0")


def _writers_first(count: int, flow: Collection[tuple[int, int]]) -> list[int]:
    """The numbers of kernels, each after those from which it gets data; in a circle, in the given order."""
    order: list[int] = []
    while len(order) < count:
        left = [k for k in range(count) if k not in order]
        order.append(next((k for k in left if not any((j, k) in flow for j in left if j != k)), left[0]))
    return order


def ordered_names(names: Any) -> tuple[str, ...]:
    """*names* of a text, a sequence, or a set, which gets the order of the alphabet."""
    if isinstance(names, str):
        return name_list(names)
    return tuple(sorted(names)) if isinstance(names, set | frozenset) else tuple(names)


remove_inames_from_insn = same_step(lk.remove_inames_from_insn)
remove_predicates_from_insn = same_step(lk.remove_predicates_from_insn)
to_batched = same_step(lk.to_batched)
