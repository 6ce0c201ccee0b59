"""The functions of loopy, and their arguments, that have another name in loopkit, or none."""
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
    "auto_test_vs_ref": "lk.check_equivalent(ref, knl, {'n': 1000})",
    "distribute_loops": "lk.distribute_loop",
    "generate_code_v2": "lk.generate_code(knl, target='cuda'), whose text is str(...)",
    "get_dot_dependency_graph": "knl.plot('dependences')",
    "get_iname_duplication_options": "nothing: each kernel has an order of its loops",
    "has_schedulable_iname_nesting": "nothing: each kernel has an order of its loops",
    "infer_unknown_types": "lk.add_dtypes for the arguments: other dtypes are inferred when they are needed",
    "linearize": "lk.lower(knl, stop='ast')",
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
    "tag_data_axes": "lk.tag_array_axes",
    "unprivatize_temporaries_with_inames": "lk.contract of each temporary",
}

#: For arguments of loopy's functions, what to use instead.
LOOPY_ARGUMENTS = {
    "make_kernel": {
        "default_offset": "nothing: a call passes views, such as a[3:]",
        "fixed_parameters": "lk.fix_parameters(knl, n=16)",
        "lang_version": "nothing: there is one language",
        "seq_dependencies": "nothing: statements run in the order of the text",
        "silenced_warnings": "the module warnings of Python, with lk.LoopkitWarning",
        "target": "the target of lk.generate_code or lk.compile"},
    "split_iname": {"slabs": "lk.peel for sequential loops; the code of blocks has a version for full tiles anyway"},
    "assignment_to_subst": {"force_retain_argument": "nothing: an argument keeps its assignment"},
}


def no_argument(function: str, name: str) -> str:
    """The message about an argument *name* of loopy's that *function* does not have.

    >>> no_argument("make_kernel", "fixed_parameters")
    "make_kernel() does not have the argument 'fixed_parameters' of loopy. Use lk.fix_parameters(knl, n=16)."
    >>> no_argument("make_kernel", "lang_version")
    "make_kernel() does not have the argument 'lang_version' of loopy. Leave it out: there is one language."
    """
    return f"{function}() does not have the argument '{name}' of loopy. {_way_out(LOOPY_ARGUMENTS[function][name])}"


def no_attribute(name: str) -> str:
    """The message about a *name* that loopkit does not have.

    >>> no_attribute("set_loop_priority")
    "module 'loopkit' has no attribute 'set_loop_priority', a name of loopy. Use lk.prioritize_loops."
    """
    message = f"module 'loopkit' has no attribute '{name}'"
    return f"{message}, a name of loopy. {_way_out(LOOPY_NAMES[name])}" if name in LOOPY_NAMES else message


def _way_out(advice: str) -> str:
    before, nothing, why = advice.partition("nothing: ")
    return f"Leave it out: {why}." if nothing and not before else f"Use {advice}."
