"""loopy's steps for domains, fusion, assignments, expressions and reductions."""
from __future__ import annotations

from typing import Any

import loopkit as lk
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.match import as_within
from loopkit.compat.loopy.spelling import INAMES
from loopkit.compat.loopy.transform.edits import ordered_names
from loopkit.compat.loopy.transform.iname import with_new_loops
from loopkit.compat.loopy.translation_unit import core_of, for_each_kernel, same_step
from loopkit.errors import PreconditionError
from loopkit.language.names import name_list


@for_each_kernel
def map_domain(kernel: LoopKernel, transform_map: Any) -> LoopKernel:
    """:func:`loopkit.map_domain`; where the text leaves the order of loops open, the new ones may need one."""
    text = str(transform_map)
    mapped = INAMES.search(text)
    return with_new_loops(kernel, () if mapped is None else name_list(mapped[1]),
                          lambda core, **how: lk.map_domain(core, text, **how))


@for_each_kernel
def assignment_to_subst(kernel: LoopKernel, lhs_name: str, extra_arguments: Any = (), within: Any = None,
                        force_retain_argument: bool = False) -> LoopKernel:
    """:func:`loopkit.assignment_to_subst`; an argument keeps its assignment, because a call returns its values."""
    return kernel.with_core(lk.assignment_to_subst(kernel.core, lhs_name, extra_arguments, as_within(within)))


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


@for_each_kernel
def unprivatize_temporaries_with_inames(kernel: LoopKernel, privatizing_inames: Any, only_var_names: Any = None
                                        ) -> LoopKernel:
    """:func:`loopkit.contract` of each temporary."""
    names = kernel.core.temporaries if only_var_names is None else ordered_names(only_var_names)
    core = kernel.core
    for name in sorted(names):
        try:
            core = lk.contract(core, name, ordered_names(privatizing_inames))
        except PreconditionError:
            if only_var_names is not None:
                raise
    return kernel.with_core(core)


def find_rules_matching(kernel: Any, pattern: str) -> list[str]:
    """:func:`loopkit.find_rules_matching`."""
    return lk.find_rules_matching(core_of(kernel), pattern)


def find_one_rule_matching(program: Any, pattern: str) -> str:
    """:func:`loopkit.find_one_rule_matching`."""
    return lk.find_one_rule_matching(core_of(program), pattern)


def find_unused_axis_tag(kernel: Any, kind: Any, insn_match: Any = None) -> Any:
    """:func:`loopkit.find_unused_axis_tag`."""
    return lk.find_unused_axis_tag(core_of(kernel), kind, as_within(insn_match))


collect_common_factors_on_increment = same_step(lk.collect_common_factors_on_increment)
fold_constants = same_step(lk.fold_constants)
simplify_indices = same_step(lk.simplify_indices)
