"""The functions of loopy that have another name in loopkit, or none."""
from __future__ import annotations

#: For each name of loopy, what to use instead.
LOOPY_NAMES = {
    "ConstantArg": "lk.GlobalArg",
    "ImageArg": "lk.GlobalArg",
    "ISPCTarget": "lk.CTarget",
    "PyOpenCLTarget": "lk.OpenCLTarget",
    "ScalarCallable": "lk.make_kernel(..., functions=[lk.ScalarFunction(...)])",
    "Sync": "lk.Synchronization",
    "add_and_infer_dtypes": "lk.add_dtypes, which leaves other dtypes to be inferred when they are needed",
    "add_inames_for_unused_hw_axes": "nothing: a statement outside of an axis runs on coordinate 0 of it",
    "alias_temporaries": "nothing: each temporary has memory of its own",
    "auto_test_vs_ref": "lk.check_equivalent(ref, knl, {'n': 1000})",
    "distribute_loops": "lk.distribute_loop",
    "generate_code_v2": "lk.generate_code(knl, target='cuda'), whose text is str(...)",
    "get_dot_dependency_graph": "knl.plot('dependences')",
    "get_iname_duplication_options": "nothing: each kernel has an order of its loops",
    "has_schedulable_iname_nesting": "nothing: each kernel has an order of its loops",
    "infer_unknown_types": "lk.add_dtypes for the arguments: other dtypes are inferred when they are needed",
    "linearize": "lk.lower(knl, stop='ast')",
    "make_copy_kernel": "lk.library.copy",
    "make_reduction_inames_unique": "nothing: the inames of a reduction exist only inside it",
    "parse_fortran": "the kernel language",
    "privatize_temporaries_with_inames": "lk.privatize",
    "realize_reduction": "lk.realize_scan for a scan; other reductions need no step",
    "register_function_id_to_in_knl_callable_mapper": "lk.make_kernel(..., functions=[lk.ScalarFunction(...)])",
    "register_reduction_parser": "lk.make_kernel(..., reductions=[lk.ReductionOperation(...)])",
    "save_and_reload_temporaries": "nothing: a temporary that two launches share is in global memory",
    "set_instruction_priority": "nothing: statements run in the order of the text",
    "set_loop_priority": "lk.prioritize_loops",
    "set_temporary_scope": "lk.set_temporary_address_space",
    "split_array_dim": "lk.tag_array_axes, lk.swizzle or lk.add_padding of a temporary",
    "tag_data_axes": "lk.tag_array_axes",
    "unprivatize_temporaries_with_inames": "lk.contract of each temporary",
}


def no_attribute(name: str) -> str:
    """The message about a *name* that loopkit does not have.

    >>> no_attribute("set_loop_priority")
    "module 'loopkit' has no attribute 'set_loop_priority', a name of loopy. Use lk.prioritize_loops."
    """
    message = f"module 'loopkit' has no attribute '{name}'"
    return f"{message}, a name of loopy. Use {LOOPY_NAMES[name]}." if name in LOOPY_NAMES else message
