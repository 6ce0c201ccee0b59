"""The functions of loopy that have another name in loopkit, or none."""
from __future__ import annotations

#: For each name of loopy, what to use instead.
LOOPY_NAMES = {
    "ConstantArg": "lk.GlobalArg",
    "ImageArg": "lk.GlobalArg",
    "ISPCTarget": "lk.CTarget",
    "OpenCLTarget": "lk.CudaTarget or lk.CTarget",
    "ScalarCallable": "lk.make_kernel(..., functions=[lk.ScalarFunction(...)])",
    "add_and_infer_dtypes": "lk.add_dtypes, which leaves other dtypes to be inferred when they are needed",
    "add_dependency": "the order of the text, or dep= in it",
    "add_inames_to_insn": "'for' blocks or inames= in the text",
    "add_nosync": "nosync= in the text",
    "auto_test_vs_ref": "lk.check_equivalent(ref, knl, {'n': 1000})",
    "distribute_loops": "lk.distribute_loop",
    "fold_constants": "nothing: a kernel keeps the expressions of its text",
    "fuse_kernels": "one text for both kernels, and lk.fuse_loops",
    "generate_code_v2": "lk.generate_code(knl, target='cuda'), whose text is str(...)",
    "get_dot_dependency_graph": "knl.plot('dependences')",
    "get_mem_access_map": "knl.plot('access') or lk.explain",
    "get_op_map": "nothing: operations are not counted",
    "infer_unknown_types": "lk.add_dtypes for the arguments: other dtypes are inferred when they are needed",
    "linearize": "lk.lower(knl, stop='ast')",
    "make_copy_kernel": "lk.library.copy",
    "make_reduction_inames_unique": "nothing: the inames of a reduction exist only inside it",
    "parse_fortran": "the kernel language",
    "privatize_temporaries_with_inames": "lk.privatize",
    "realize_reduction": "lk.realize_scan for a scan; other reductions need no step",
    "register_function_id_to_in_knl_callable_mapper": "lk.make_kernel(..., functions=[lk.ScalarFunction(...)])",
    "register_reduction_parser": "lk.make_kernel(..., reductions=[lk.ReductionOperation(...)])",
    "rename_inames": "lk.fuse_loops",
    "save_and_reload_temporaries": "nothing: a temporary that two launches share is in global memory",
    "set_argument_order": "kernel_data of lk.make_kernel",
    "set_loop_priority": "lk.prioritize_loops",
    "set_temporary_scope": "lk.set_temporary_address_space",
    "split_reduction_inward": "lk.split_iname of the reduction's iname",
    "split_reduction_outward": "lk.split_iname of the reduction's iname",
    "tag_data_axes": "lk.tag_array_axes",
    "to_batched": "the batch as an iname in the text",
}


def no_attribute(name: str) -> str:
    """The message about a *name* that loopkit does not have.

    >>> no_attribute("rename_inames")
    "module 'loopkit' has no attribute 'rename_inames', a name of loopy. Use lk.fuse_loops."
    """
    message = f"module 'loopkit' has no attribute '{name}'"
    return f"{message}, a name of loopy. Use {LOOPY_NAMES[name]}." if name in LOOPY_NAMES else message
