"""loopy's steps for reductions and scans."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

import loopkit as lk
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.match import as_within, ordered_names
from loopkit.compat.loopy.translation_unit import for_each_kernel
from loopkit.kernel.statement import owner


@for_each_kernel
def realize_reduction(kernel: LoopKernel, insn_id_filter: Any = None, unknown_types_ok: bool = True,
                      automagic_scans_ok: bool = False, force_scan: bool = False,
                      force_outer_iname_for_scan: str | None = None) -> LoopKernel:
    """Show the statements of reductions as instructions; with *force_scan* :func:`loopkit.realize_scan`.

    Nothing else changes: loopkit's kernel has these statements from the start.

    >>> import loopkit.compat.loopy as lp
    >>> knl = lp.make_kernel("{[k]: 0<=k<8}", "s = sum(k, x[k])")
    >>> for insn in lp.realize_reduction(knl).default_entrypoint.instructions:
    ...     print(insn.id, insn.assignee, sorted(insn.within_inames))
    insn_k_init acc_k []
    insn_k_update acc_k ['k']
    insn s []
    """
    ids = None if insn_id_filter is None else [insn_id_filter] if isinstance(insn_id_filter, str) else insn_id_filter
    core = kernel.core
    if not force_scan:
        found = frozenset(owner(node.final) for node in core.reductions.values())
        found = found if ids is None else found.intersection(ids)
        return replace(kernel, origin=replace(kernel.origin, realized=kernel.origin.realized | found))
    for node in kernel.core.reductions.values():
        if ids is None or node.final.partition(".")[0] in ids:
            core = lk.realize_scan(core, node.inames[0], force_outer_iname_for_scan, within=node.final)
    return kernel.with_core(core)


@for_each_kernel
def split_reduction_inward(kernel: LoopKernel, inames: Any, within: Any = None) -> LoopKernel:
    """:func:`loopkit.split_reduction_inward` of the reductions that also have other inames."""
    return _in_levels(kernel, lk.split_reduction_inward, inames, within)


@for_each_kernel
def split_reduction_outward(kernel: LoopKernel, inames: Any, within: Any = None) -> LoopKernel:
    """:func:`loopkit.split_reduction_outward` of the reductions that also have other inames."""
    return _in_levels(kernel, lk.split_reduction_outward, inames, within)


def _in_levels(kernel: LoopKernel, step: Any, inames: Any, within: Any) -> LoopKernel:
    own = ordered_names(inames)
    if any({*own} < {*node.inames} for node in kernel.core.reductions.values()):
        return kernel.with_core(step(kernel.core, own, as_within(within)))
    return kernel
