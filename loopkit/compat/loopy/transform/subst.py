"""loopy's steps for substitution rules, parameters and assumptions."""
from __future__ import annotations

import re
from typing import Any

import loopkit as lk
from loopkit.compat.loopy.kernel.definition import condition_of
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.match import as_within
from loopkit.compat.loopy.transform.data import separated
from loopkit.compat.loopy.translation_unit import for_each_kernel
from loopkit.expr.nodes import to_text


@for_each_kernel
def extract_subst(kernel: LoopKernel, subst_name: str, template: Any, parameters: Any = (), within: Any = None
                  ) -> LoopKernel:
    """:func:`loopkit.extract_subst`."""
    text = template if isinstance(template, str) else to_text(template)
    return kernel.with_core(lk.extract_subst(kernel.core, subst_name, text, parameters, within=as_within(within)))


@for_each_kernel
def expand_subst(kernel: LoopKernel, within: Any = None) -> LoopKernel:
    """:func:`loopkit.expand_subst`."""
    return kernel.with_core(lk.expand_subst(kernel.core, within=as_within(within)))


@for_each_kernel
def assume(kernel: LoopKernel, assumptions: Any) -> LoopKernel:
    """:func:`loopkit.assume`, in the kernels that have the parameters."""
    if {*re.findall(r"[A-Za-z_]\w*", condition_of(assumptions))}.isdisjoint(kernel.core.value_params):
        return kernel
    return kernel.with_core(lk.assume(kernel.core, assumptions))


@for_each_kernel
def fix_parameters(kernel: LoopKernel, /, *, within: Any = None, **value_dict: Any) -> LoopKernel:
    """:func:`loopkit.fix_parameters` of the arguments that the kernel has."""
    own = {name: value for name, value in value_dict.items() if name in kernel.core.argument_by_name}
    return separated(kernel.with_core(lk.fix_parameters(kernel.core, **own))) if own else kernel


@for_each_kernel
def add_barrier(kernel: LoopKernel, insn_before: Any = "", insn_after: Any = "", id_based_on: str | None = None,
                tags: Any = None, synchronization_kind: str = "global", mem_kind: str | None = None,
                within_inames: Any = None) -> LoopKernel:
    """:func:`loopkit.add_barrier`."""
    return kernel.with_core(lk.add_barrier(kernel.core, _id(insn_before), _id(insn_after),
                                           synchronization_kind=synchronization_kind))


@for_each_kernel
def set_options(kernel: LoopKernel, /, *args: Any, **options: Any) -> LoopKernel:
    """loopy's options; loopkit's own are set by :func:`loopkit.set_options`."""
    words = {} if not args else {k.strip(): True for k in args[0].split(",")} if isinstance(args[0], str) else dict(
        args[0])
    return kernel.copy(options=kernel.options.changed({**words, **options}))


def _id(match: Any) -> str:
    return str(match).removeprefix("id:")
