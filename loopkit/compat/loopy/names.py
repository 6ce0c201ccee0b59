"""loopy's public names: for each one where this layer has it; others lead to loopkit's names."""
from __future__ import annotations

from typing import Any

from loopkit.language.loopy_names import LOOPY_NAMES
from loopkit.lazy import LazyTable

_PACKAGE = "loopkit.compat.loopy"

#: The names by the module that has them.
_BY_MODULE = {
    "auto_test": "auto_test_vs_ref",
    "codegen": "CodeGenerationResult GeneratedProgram PreambleInfo generate_body generate_code generate_code_v2",
    "diagnostic": "LoopyError LoopyWarning",
    "kernel.creation": "make_function make_kernel",
    "kernel.data": ("AddressSpace ArrayArg ConstantArg GlobalArg ImageArg KernelArgument SubstitutionRule "
                    "TemporaryVariable ValueArg"),
    "kernel.instruction": "Assignment InstructionBase MultiAssignmentBase",
    "kernel.kernel": "KernelState LoopKernel",
    "options": "Options",
    "target.base": "ASTBuilderBase TargetBase",
    "target.c.target": ("CFamilyTarget CTarget CWithGNULibcTarget ExecutableCTarget ExecutableCWithGNULibcTarget "
                        "generate_header"),
    "target.cuda": "CudaTarget",
    "target.execution": "ExecutorBase",
    "target.opencl": "OpenCLTarget",
    "target.pyopencl": "PyOpenCLTarget",
    "ready": "make_copy_kernel make_einsum",
    "symbolic": "Reduction TypeCast",
    "transform.reduction": "realize_reduction split_reduction_inward split_reduction_outward",
    "transform.data": ("add_and_infer_dtypes add_dtypes add_padding add_prefetch buffer_array infer_unknown_types "
                       "precompute privatize_temporaries_with_inames remove_unused_arguments rename_argument "
                       "set_argument_order set_array_axis_names set_array_dim_names set_temporary_address_space set_temporary_scope tag_array_axes "
                       "tag_data_axes"),
    "tools": "CACHING_ENABLED CacheMode clear_in_mem_caches set_caching_enabled",
    "transform.iname": ("affine_map_inames chunk_iname duplicate_inames get_iname_duplication_options "
                        "has_schedulable_iname_nesting join_inames make_reduction_inames_unique prioritize_loops "
                        "remove_unused_inames rename_iname rename_inames set_loop_priority split_iname tag_inames "
                        "untag_inames"),
    "transform.subst": "add_barrier assume expand_subst extract_subst fix_parameters set_options",
    "translation_unit": "CallableKernel TranslationUnit for_each_kernel make_program",
    "types": "LoopyType NumpyType ToLoopyTypeConvertible to_loopy_type",
    "typing": "auto",
    "version": "MOST_RECENT_LANGUAGE_VERSION VERSION",
}

#: Where the layer has each name.
PLACES = LazyTable[Any]({name: f"{_PACKAGE}.{module}:{name}" for module, names in _BY_MODULE.items()
                         for name in names.split()})

#: Every module of the layer that programs reach as an attribute, ``lp.diagnostic``.
_MODULES = ("auto_test", "codegen", "diagnostic", "kernel", "match", "options", "symbolic", "target", "transform",
            "translation_unit", "types", "typing", "version")
PLACES.addresses.update({name: f"{_PACKAGE}.{name}" for name in _MODULES})

__all__ = sorted({*PLACES.addresses} - {*_MODULES})  # noqa: PLE0605


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
    message = f"{_PACKAGE} has no '{name}'."
    return f"{message} Use {LOOPY_NAMES[name]}." if name in LOOPY_NAMES else message
