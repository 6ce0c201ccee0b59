"""loopy's public names: for each one where this layer has it; others lead to loopkit's names."""
from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import loopkit as lk
from loopkit.kernel.loopy_names import LOOPY_NAMES
from loopkit.lazy import LazyTable

_PACKAGE = "loopkit.compat.loopy"

#: The names by the module that has them.
_BY_MODULE = {
    "auto_test": "auto_test_vs_ref",
    "codegen": ("CodeGenerationResult GeneratedProgram PreambleInfo generate_body generate_code generate_code_v2"),
    "diagnostic": "LoopyError LoopyWarning",
    "kernel.creation": "make_copy_kernel make_einsum make_function make_kernel",
    "kernel.data": ("AddressSpace ArrayArg ConstantArg GlobalArg ImageArg KernelArgument SubstitutionRule "
                    "TemporaryVariable ValueArg"),
    "kernel.function_interface": "ScalarCallable",
    "kernel.instruction": ("Assignment BarrierInstruction CInstruction CallInstruction InstructionBase "
                           "LegacyStringInstructionTag MultiAssignmentBase NoOpInstruction UniqueName"),
    "kernel.kernel": "KernelState LoopKernel",
    "kernel.tools": "find_most_recent_global_barrier get_global_barrier_order",
    "options": "Options",
    "schedule.tools": "get_subkernel_to_insn_id_map get_subkernels",
    "target.base": "ASTBuilderBase TargetBase",
    "target.c.target": ("CFamilyTarget CTarget CWithGNULibcTarget ExecutableCTarget ExecutableCWithGNULibcTarget "
                        "generate_header"),
    "target.cuda": "CudaTarget",
    "target.execution": "ExecutorBase",
    "target.opencl": "OpenCLTarget",
    "target.pyopencl": "PyOpenCLTarget",
    "python_text": "t_unit_to_python",
    "statistics": ("CountGranularity MemAccess Op Sync ToCountMap ToCountPolynomialMap gather_access_footprint_bytes "
                   "gather_access_footprints get_mem_access_map get_op_map get_synchronization_map"),
    "symbolic": "Reduction TypeCast",
    "transform.layouts": ("add_padding alias_temporaries allocate_temporaries_for_base_storage concatenate_arrays "
                          "find_padding_multiple split_arg_axis split_array_axis split_array_dim to_batched"),
    "transform.callable": ("inline_callable_kernel merge pack_and_unpack_args_for_call register_callable "
                           "register_preamble_generators register_symbol_manglers rename_callable"),
    "transform.fusion": "fuse_kernels get_kennedy_unweighted_fusion_candidates rename_inames_in_batch",
    "transform.reduction": "realize_reduction split_reduction_inward split_reduction_outward",
    "transform.save": "save_and_reload_temporaries",
    "transform.data": ("add_and_infer_dtypes add_dtypes add_prefetch buffer_array infer_unknown_types precompute "
                       "privatize_temporaries_with_inames remove_unused_arguments rename_argument set_argument_order "
                       "set_array_axis_names set_array_dim_names set_temporary_address_space set_temporary_scope "
                       "tag_array_axes tag_data_axes unprivatize_temporaries_with_inames"),
    "tools": "CACHING_ENABLED CacheMode Optional clear_in_mem_caches memoize_on_disk set_caching_enabled",
    "transform.iname": ("add_inames_for_unused_hw_axes add_inames_to_insn affine_map_inames chunk_iname "
                        "duplicate_inames find_unused_axis_tag get_iname_duplication_options "
                        "has_schedulable_iname_nesting join_inames make_reduction_inames_unique map_domain "
                        "prioritize_loops remove_unused_inames rename_iname rename_inames set_loop_priority "
                        "split_iname tag_inames untag_inames"),
    "transform.instruction": ("add_dependency add_nosync find_instructions get_one_linearized_kernel "
                              "get_one_scheduled_kernel infer_arg_descr linearize map_instructions preprocess_kernel "
                              "preprocess_program remove_inames_from_insn remove_instructions "
                              "remove_predicates_from_insn replace_instruction_ids set_instruction_priority "
                              "tag_instructions"),
    "transform.subst": ("add_barrier assignment_to_subst assume collect_common_factors_on_increment expand_subst "
                        "extract_subst find_one_rule_matching find_rules_matching fix_parameters fold_constants "
                        "set_options simplify_indices"),
    "translation_unit": "CallableKernel TranslationUnit for_each_kernel make_program",
    "types": "LoopyType NumpyType ToLoopyTypeConvertible to_loopy_type",
    "typing": "auto",
    "version": "MOST_RECENT_LANGUAGE_VERSION VERSION",
}

#: The place of each name in the layer.
PLACES = LazyTable[Any]({name: f"{_PACKAGE}.{module}:{name}" for module, names in _BY_MODULE.items()
                         for name in names.split()})

#: Every module of the layer that programs reach as an attribute, ``lp.diagnostic``.
_MODULES = ("auto_test", "codegen", "diagnostic", "kernel", "match", "options", "schedule", "statistics", "symbolic",
            "target", "tools", "transform", "translation_unit", "types", "typing", "version")
PLACES.addresses.update({name: f"{_PACKAGE}.{name}" for name in _MODULES})

#: Advice for the names of loopy that the layer does not have.
ADVICE: Mapping[str, str] = {name: advice for name, advice in {
    **LOOPY_NAMES,
    "AtomicInit": "the option {atomic} of a statement",
    "AtomicUpdate": "the option {atomic} of a statement",
    "CallMangleInfo": "lp.ScalarCallable",
    "HappensAfter": "dep= in the text",
    "ISPCTarget": "lp.ExecutableCTarget",
    "InKernelCallable": "lp.ScalarCallable",
    "LinearSubscript": "a[[i]] in the text",
    "MemoryOrdering": "the option {atomic} of a statement",
    "MemoryScope": "the option {atomic} of a statement",
    "OrderedAtomic": "the option {atomic} of a statement",
    "TaggedVariable": "a$t in the text",
    "UseStreamingStoreTag": "lk.set_cache_policy(knl, 'y', 'streaming')",
    "VarAtomicity": "the option {atomic} of a statement",
    "c_preprocess": "the kernel language",
    "change_arg_to_image": "lp.GlobalArg",
    "generate_loop_schedules": "lp.linearize",
    "get_dot_dependency_graph": "unit.default_entrypoint.core.plot('dependences')",
    "parse_transformed_fortran": "the kernel language",
    "register_function_id_to_in_knl_callable_mapper": "lp.register_callable",
    "set_default_target": "target= of lp.make_kernel",
    "show_dependency_graph": "unit.default_entrypoint.core.plot('dependences')",
}.items() if name not in PLACES.addresses}

__all__ = sorted({*PLACES.addresses} - {*_MODULES})


def __getattr__(name: str) -> Any:
    if name in PLACES.addresses:
        return PLACES[name]
    raise AttributeError(missing(name), name=name)


def __dir__() -> list[str]:
    return [*__all__, *_MODULES]


def missing(name: str) -> str:
    """The message about a *name* that the layer does not have.

    >>> missing("parse_fortran")
    "loopkit.compat.loopy has no 'parse_fortran'. Use the kernel language."
    """
    advice, close = ADVICE.get(name), get_close_matches(name, __all__, n=2)
    if advice is None and name in lk.__all__:
        advice = f"lk.{name} with the kernel of loopkit, unit.default_entrypoint.core"
    if advice is None and close:
        advice = " or ".join(close)
    return f"{_PACKAGE} has no '{name}'." + (f" Use {advice}." if advice else "")
