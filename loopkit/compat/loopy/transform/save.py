"""loopy's step for temporaries that outlive a launch."""
from __future__ import annotations

import loopkit as lk
from loopkit.analysis.accesses import accesses_by_array
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.translation_unit import for_each_kernel
from loopkit.kernel.data import AddressSpace
from loopkit.lowering.schedule import launches_of
from loopkit.poly.limits import bounded


@for_each_kernel
def save_and_reload_temporaries(kernel: LoopKernel) -> LoopKernel:
    """Put the private and local temporaries that several launches access in global memory.

    Storage allocation does this for temporaries without a declared address space.

    >>> import loopkit.compat.loopy as lp
    >>> text = "for i\\n <> t[i] = i\\n ... gbarrier\\n y[i] = t[i]\\nend"
    >>> knl = lp.make_kernel("{[i]: 0<=i<8}", text, seq_dependencies=True, target=lp.ExecutableCTarget())
    >>> knl = lp.save_and_reload_temporaries(lp.set_temporary_address_space(knl, "t", "private"))
    >>> knl["loopy_kernel"].temporary_variables["t"].address_space
    <AddressSpace.GLOBAL: 2>
    >>> knl()[1][0]
    array([0, 1, 2, 3, 4, 5, 6, 7], dtype=int32)
    """
    core = kernel.core
    with bounded(f"finding the launches of kernel '{core.name}'"):
        launch = {s: place.launch for s, place in launches_of(core).items()}
        lasting = [name for name, accesses in accesses_by_array(core).items()
                   if name in core.temporaries
                   and core.temporaries[name].address_space in (AddressSpace.PRIVATE, AddressSpace.SHARED)
                   and len({launch[a.statement] for a in accesses}) > 1]
    return kernel.with_core(lk.set_temporary_address_space(core, lasting, "global")) if lasting else kernel
