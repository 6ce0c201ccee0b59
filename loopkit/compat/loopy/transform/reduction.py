"""loopy's step for reductions and scans."""
from __future__ import annotations

from typing import Any

import loopkit as lk
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.translation_unit import for_each_kernel


@for_each_kernel
def realize_reduction(kernel: LoopKernel, insn_id_filter: Any = None, unknown_types_ok: bool = True,
                      automagic_scans_ok: bool = False, force_scan: bool = False,
                      force_outer_iname_for_scan: str | None = None) -> LoopKernel:
    """Nothing changes, as a reduction is complete from the start; with *force_scan* :func:`loopkit.realize_scan`."""
    if not force_scan:
        return kernel
    ids = None if insn_id_filter is None else [insn_id_filter] if isinstance(insn_id_filter, str) else insn_id_filter
    core = kernel.core
    for node in kernel.core.reductions.values():
        if ids is None or node.final.partition(".")[0] in ids:
            core = lk.realize_scan(core, node.inames[0], force_outer_iname_for_scan, within=node.final)
    return kernel.with_core(core)
