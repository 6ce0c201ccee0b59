"""loopkit: array computations as polyhedral loop nests, transformed by proven steps, run on CUDA GPUs or the host."""
from __future__ import annotations

import sys
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from loopkit.analysis.counts import CountGranularity, MemAccess, Op, Synchronization, ToCountMap
from loopkit.analysis.match import find_instructions
from loopkit.errors import (
    AccessWitness,
    BoundsError,
    CallError,
    CompilerError,
    DeviceError,
    EquivalenceError,
    IllegalTransformError,
    LaunchError,
    LimitError,
    LoopkitError,
    LoopkitWarning,
    MisspelledNameWarning,
    NameConflictError,
    ParseError,
    PreconditionError,
    ReplayError,
    ScheduleError,
    ShapeError,
    StorageError,
    TypeInferenceError,
    UndecidedError,
    UnknownNameError,
    UnusedInameWarning,
    VerificationError,
    Witness,
)
from loopkit.expr.functions import ScalarFunction
from loopkit.expr.nodes import Reduction, TypeCast
from loopkit.expr.operations import ReductionOperation
from loopkit.kernel.c_instruction import CInstruction
from loopkit.kernel.data import AddressSpace, GlobalArg, Options, SubstitutionRule, TemporaryVariable, ValueArg
from loopkit.kernel.history import TRANSFORMATIONS, History
from loopkit.kernel.instruction import Assignment, CallInstruction, StatementPlace, SubArrayRef
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.loopy_names import no_attribute
from loopkit.kernel.target import TARGETS
from loopkit.language.einsum import make_einsum
from loopkit.language.make import make_function, make_kernel, merge
from loopkit.lazy import LazyTable, imports_not_run
from loopkit.poly.quasi_polynomials import PiecewiseQuasiPolynomial
from loopkit.shown import ENTRY_POINTS

if TYPE_CHECKING:
    from loopkit import library
    from loopkit.analysis.fusion import get_kennedy_unweighted_fusion_candidates
    from loopkit.analysis.queries import find_one_rule_matching, find_rules_matching, find_unused_axis_tag
    from loopkit.emulation.emulate import emulate
    from loopkit.interpreter.replay import CellDifference, Replay
    from loopkit.library.elementwise import make_copy_kernel
    from loopkit.lowering.counts import (
        gather_access_footprint_bytes,
        gather_access_footprints,
        get_mem_access_map,
        get_op_map,
        get_synchronization_map,
    )
    from loopkit.lowering.pipeline import lower
    from loopkit.runtime.compiled import (
        CompiledKernel,
        compile,  # noqa: A004
    )
    from loopkit.runtime.equivalence import check_equivalent
    from loopkit.runtime.results import Outputs
    from loopkit.show.diff import Diff, diff
    from loopkit.show.explain import Explanation, explain
    from loopkit.show.golden import assert_golden
    from loopkit.show.review import review
    from loopkit.target.c.target import CTarget
    from loopkit.target.code import GeneratedCode
    from loopkit.target.cuda.target import CudaTarget
    from loopkit.target.opencl.target import OpenCLTarget
    from loopkit.transform.affine import affine_map_inames, map_domain, reverse, shift, skew
    from loopkit.transform.apply_schedule import apply_schedule
    from loopkit.transform.arguments import remove_unused_arguments, set_argument_order
    from loopkit.transform.arithmetic import fold_constants, simplify_indices
    from loopkit.transform.array_axes import split_array_axis
    from loopkit.transform.assignment_to_subst import assignment_to_subst
    from loopkit.transform.base_storage import alias_temporaries, allocate_temporaries_for_base_storage
    from loopkit.transform.batching import to_batched
    from loopkit.transform.buffering import buffer_array
    from loopkit.transform.callables import register_callable
    from loopkit.transform.clusters import cluster
    from loopkit.transform.common_factors import collect_common_factors_on_increment
    from loopkit.transform.concatenation import concatenate_arrays
    from loopkit.transform.data import (
        add_dtypes,
        assume,
        rename_argument,
        set_accumulator_dtype,
        set_cache_policy,
        set_operand_precision,
        set_options,
        set_temporary_address_space,
    )
    from loopkit.transform.definition import map_instructions, remove_instructions, with_statements
    from loopkit.transform.delaying import delay
    from loopkit.transform.derivative import diff_kernel
    from loopkit.transform.domain_padding import pad_domain
    from loopkit.transform.engines import store_via
    from loopkit.transform.expansion import contract, expand, privatize
    from loopkit.transform.fixing import fix_parameters
    from loopkit.transform.functions import inline_callable_kernel
    from loopkit.transform.fusing import fuse_kernels
    from loopkit.transform.iname import (
        chunk_iname,
        duplicate_inames,
        join_inames,
        remove_unused_inames,
        rename_iname,
        split_iname,
        split_levels,
    )
    from loopkit.transform.instructions import (
        add_dependency,
        add_inames_to_insn,
        add_nosync,
        remove_inames_from_insn,
        remove_predicates_from_insn,
    )
    from loopkit.transform.layout import add_padding, swizzle, tag_array_axes
    from loopkit.transform.names import replace_instruction_ids, tag_instructions
    from loopkit.transform.order import (
        distribute_loop,
        fuse_loops,
        interchange,
        prioritize_loops,
        tile,
        unroll_and_jam,
    )
    from loopkit.transform.peel import peel
    from loopkit.transform.pipelining import pipeline
    from loopkit.transform.prefetch import add_prefetch, precompute
    from loopkit.transform.reductions import (
        reduction_arg_to_subst_rule,
        split_reduction_inward,
        split_reduction_outward,
        start_from_addend,
    )
    from loopkit.transform.renaming import rename_inames, rename_inames_in_batch
    from loopkit.transform.scan import make_two_level_scan, realize_scan
    from loopkit.transform.step import replay
    from loopkit.transform.subst import expand_subst, extract_subst
    from loopkit.transform.synchronization import add_barrier, add_block_flags, make_atomic
    from loopkit.transform.tags import tag_inames, tag_kernel, unroll, untag_inames
    from loopkit.transform.tensorize import tensorize
    from loopkit.transform.warps import persistent, specialize_warps, take_turns
    from loopkit.verification.checks import (
        check_barriers,
        check_bounds,
        check_coverage,
        check_legal,
        check_races,
        generate_code,
        verify,
    )
    from loopkit.verification.report import Check, Finding, Report, Verdict

__all__ = [
    "AccessWitness", "AddressSpace", "Assignment", "BoundsError", "CInstruction", "CTarget", "CallError",
    "CallInstruction", "CellDifference", "Check", "CompiledKernel", "CompilerError", "CountGranularity", "CudaTarget",
    "DeviceError", "Diff", "EquivalenceError", "Explanation", "Finding", "GeneratedCode", "GlobalArg", "History",
    "IllegalTransformError", "LaunchError", "LimitError", "LoopKernel", "LoopkitError", "LoopkitWarning", "MemAccess",
    "MisspelledNameWarning", "NameConflictError", "Op", "OpenCLTarget", "Options", "Outputs", "ParseError",
    "PiecewiseQuasiPolynomial", "PreconditionError", "Reduction", "ReductionOperation", "Replay", "ReplayError",
    "Report", "ScalarFunction", "ScheduleError", "ShapeError", "StatementPlace", "StorageError", "SubArrayRef",
    "SubstitutionRule",
    "Synchronization", "TemporaryVariable", "ToCountMap", "TypeCast", "TypeInferenceError", "UndecidedError",
    "UnknownNameError", "UnusedInameWarning", "ValueArg", "Verdict", "VerificationError", "Witness", "add_barrier",
    "add_block_flags", "add_dependency", "add_dtypes", "add_inames_to_insn", "add_nosync", "add_padding",
    "add_prefetch", "affine_map_inames", "alias_temporaries", "allocate_temporaries_for_base_storage", "apply_schedule",
    "assert_golden", "assignment_to_subst", "assume", "buffer_array", "check_barriers", "check_bounds",
    "check_coverage", "check_equivalent", "check_legal", "check_races", "chunk_iname", "cluster",
    "collect_common_factors_on_increment", "compile", "concatenate_arrays", "contract", "delay", "diff", "diff_kernel",
    "distribute_loop", "duplicate_inames", "emulate", "expand", "expand_subst", "explain", "extract_subst",
    "find_instructions",
    "find_one_rule_matching", "find_rules_matching", "find_unused_axis_tag", "fix_parameters", "fold_constants",
    "fuse_kernels", "fuse_loops", "gather_access_footprint_bytes", "gather_access_footprints", "generate_code",
    "get_kennedy_unweighted_fusion_candidates", "get_mem_access_map", "get_op_map", "get_synchronization_map",
    "inline_callable_kernel", "interchange", "join_inames", "library", "lower", "make_atomic", "make_copy_kernel",
    "make_einsum",
    "make_function", "make_kernel", "make_two_level_scan", "map_domain", "map_instructions", "merge", "pad_domain",
    "peel", "persistent", "pipeline", "precompute", "prioritize_loops", "privatize", "realize_scan",
    "reduction_arg_to_subst_rule",
    "register_callable", "remove_inames_from_insn", "remove_instructions", "remove_predicates_from_insn",
    "remove_unused_arguments", "remove_unused_inames", "rename_argument", "rename_iname", "rename_inames",
    "rename_inames_in_batch", "replace_instruction_ids", "replay", "reverse", "review", "set_accumulator_dtype",
    "set_argument_order", "set_cache_policy", "set_operand_precision", "set_options", "set_temporary_address_space",
    "shift", "simplify_indices",
    "skew", "specialize_warps",
    "split_array_axis", "split_iname", "split_levels", "split_reduction_inward", "split_reduction_outward",
    "start_from_addend", "store_via",
    "swizzle", "tag_array_axes", "tag_inames", "tag_instructions", "tag_kernel", "take_turns", "tensorize", "tile",
    "to_batched",
    "unroll", "unroll_and_jam", "untag_inames", "verify", "with_statements",
]

__version__ = "0.1.0"

#: The names above that type checkers import: others import them by asking for them.
_LATER = LazyTable[Any](imports_not_run(__name__, sys._getframe().f_code, globals().keys()))  # noqa: SLF001

TRANSFORMATIONS.addresses.update({name: address for name, address in _LATER.addresses.items()
                                  if address.startswith("loopkit.transform.") and name not in (
                                      "diff_kernel", "fuse_kernels", "replay")})
# the folder loopkit/target/opencl has the module target.py, which calls the class of the target TARGET
TARGETS.addresses.update({folder.name: f"loopkit.target.{folder.name}.target:TARGET"
                          for folder in iter_modules([f"{__path__[0]}/target"]) if folder.ispkg})
ENTRY_POINTS.addresses.update({
    "call": "loopkit.runtime.compiled:call",
    "cost": "loopkit.lowering.pipeline:cost_of",
    "dependences": "loopkit.analysis.dependences:with_assumed",
    "hints": "loopkit.transform.hints:tried_hints",
    "html": "loopkit.show.documents:html",
    "instructions": "loopkit.kernel.printing:instructions",
    "plot": "loopkit.show.pictures:plot",
    "plot_error": "loopkit.show.order_picture:error_plot",
    "replay": "loopkit.interpreter.replay:replay_refusal",
    "rich": "loopkit.show.documents:rich",
    "statements": "loopkit.kernel.printing:statements_text",
    "steps": "loopkit.show.steps:shown_steps",
    "storage_hints": "loopkit.transform.hints:storage_hints",
    "tag_kernel": "loopkit.transform.tags:tag_kernel",
    "text": "loopkit.show.documents:text",
    "traceback": "loopkit.show.documents:traceback",
    "types": "loopkit.lowering.types:infer_types",
})

if not TYPE_CHECKING:              # a type checker would take any name for one of ours
    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(no_attribute(name), name=name, obj=sys.modules[__name__])
        return globals().setdefault(name, _LATER[name])

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATER})
