"""loopkit: array computations as polyhedral loop nests, transformed by proven steps, run on CUDA GPUs or the host."""
from __future__ import annotations

from loopkit import library
from loopkit.analysis.dependences import with_waived
from loopkit.errors import (
    ENTRY_POINTS,
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
    VerificationError,
    Witness,
)
from loopkit.expr.operations import ReductionOperation
from loopkit.kernel.data import AddressSpace, GlobalArg, SubstitutionRule, TemporaryVariable, ValueArg
from loopkit.kernel.history import History
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.options import Options
from loopkit.kernel.printing import kernel_text, statements_text
from loopkit.language.make import make_kernel
from loopkit.lowering.cost import cost_of
from loopkit.lowering.pipeline import lower
from loopkit.notebook.html import code_html, kernel_html, report_html
from loopkit.runtime.compiled import (
    CompiledKernel,
    call,
    compile,  # noqa: A004
)
from loopkit.runtime.cuda.timing import ON_GPUS
from loopkit.runtime.equivalence import check_equivalent
from loopkit.runtime.execution import EXECUTIONS
from loopkit.runtime.host import ON_THE_HOST
from loopkit.runtime.outputs import Outputs
from loopkit.runtime.replay.refusal import CellDifference, Replay, replay_refusal
from loopkit.target.code import GeneratedCode
from loopkit.target.cuda import CudaTarget
from loopkit.target.host import CTarget
from loopkit.transform.affine import affine_map_inames, reverse, shift, skew
from loopkit.transform.atomics import make_atomic
from loopkit.transform.awaited import await_values
from loopkit.transform.barrier import add_barrier
from loopkit.transform.buffering import buffer_array
from loopkit.transform.data import (
    add_dtypes,
    assume,
    rename_argument,
    set_cache_policy,
    set_options,
    set_temporary_address_space,
)
from loopkit.transform.distribution import distribute_loop, unroll_and_jam
from loopkit.transform.expansion import contract, expand, privatize
from loopkit.transform.fixing import fix_parameters
from loopkit.transform.fusion import fuse_loops
from loopkit.transform.hints import storage_hint, tried_hints
from loopkit.transform.history import replay
from loopkit.transform.iname import join_inames, remove_unused_inames, rename_iname, split_iname, split_levels
from loopkit.transform.layout import swizzle, tag_array_axes
from loopkit.transform.matrix_products import use_mma
from loopkit.transform.order import interchange, prioritize_loops, tile
from loopkit.transform.padding import add_padding
from loopkit.transform.partition import chunk_iname, duplicate_inames
from loopkit.transform.peel import peel
from loopkit.transform.pipelining import pipeline
from loopkit.transform.precision import accumulate_in
from loopkit.transform.prefetch import add_prefetch, precompute
from loopkit.transform.reschedule import reschedule
from loopkit.transform.scan import realize_scan
from loopkit.transform.subst import expand_subst, extract_subst
from loopkit.transform.tags import tag_inames, unroll, untag_inames
from loopkit.transform.two_level_scan import make_two_level_scan
from loopkit.transform.whole_tiles import fill_tiles
from loopkit.verification.checks import check_barriers, check_bounds, check_coverage, check_legal, check_races, verify
from loopkit.verification.code import generate_code
from loopkit.verification.report import Check, Finding, Report, Verdict

__all__ = [
    "AccessWitness", "AddressSpace", "BoundsError", "CTarget", "CallError", "CellDifference", "Check", "CompiledKernel",
    "CompilerError", "CudaTarget", "DeviceError", "EquivalenceError", "Finding", "GeneratedCode", "GlobalArg",
    "History", "IllegalTransformError", "LaunchError", "LimitError", "LoopKernel", "LoopkitError", "NameConflictError",
    "Options", "Outputs", "ParseError", "PreconditionError", "ReductionOperation", "Replay", "ReplayError", "Report",
    "ScheduleError", "ShapeError", "StorageError", "SubstitutionRule", "TemporaryVariable", "TypeInferenceError",
    "UndecidedError", "UnknownNameError", "ValueArg", "Verdict", "VerificationError", "Witness", "accumulate_in",
    "add_barrier", "add_dtypes", "add_padding", "add_prefetch", "affine_map_inames", "assume", "await_values",
    "buffer_array", "check_barriers", "check_bounds", "check_coverage", "check_equivalent", "check_legal",
    "check_races", "chunk_iname", "compile", "contract", "distribute_loop", "duplicate_inames", "expand",
    "expand_subst", "extract_subst", "fill_tiles", "fix_parameters", "fuse_loops", "generate_code", "interchange",
    "join_inames", "library", "lower", "make_atomic", "make_kernel", "make_two_level_scan", "peel", "pipeline",
    "precompute", "prioritize_loops", "privatize", "realize_scan", "remove_unused_inames", "rename_argument",
    "rename_iname", "replay", "reschedule", "reverse", "set_cache_policy", "set_options", "set_temporary_address_space",
    "shift", "skew", "split_iname", "split_levels", "swizzle", "tag_array_axes", "tag_inames", "tile", "unroll",
    "unroll_and_jam", "untag_inames", "use_mma", "verify",
]

__version__ = "0.1.0"

EXECUTIONS.update({CTarget: ON_THE_HOST, CudaTarget: ON_GPUS})
ENTRY_POINTS.update({"call": call, "str": kernel_text, "statements": statements_text, "html": kernel_html,
                     "code_html": code_html, "cost": cost_of, "dependences": with_waived, "hints": tried_hints,
                     "storage_hint": storage_hint, "replay": replay_refusal, "report_html": report_html})
