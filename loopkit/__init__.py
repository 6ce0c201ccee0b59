"""loopkit: array computations as polyhedral loop nests, transformed by proven steps, run on CUDA GPUs or the host."""
from __future__ import annotations

import sys
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

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
from loopkit.kernel.instruction import Assignment
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.target import TARGETS
from loopkit.language.loopy_names import no_attribute
from loopkit.language.make import make_kernel
from loopkit.lazy import LazyTable, imports_not_run
from loopkit.shown import ENTRY_POINTS

if TYPE_CHECKING:
    from loopkit import library
    from loopkit.interpreter.replay import CellDifference, Replay
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
    from loopkit.transform.affine import affine_map_inames, reverse, shift, skew
    from loopkit.transform.apply_schedule import apply_schedule
    from loopkit.transform.array_axes import split_array_axis
    from loopkit.transform.base_storage import alias_temporaries, allocate_temporaries_for_base_storage
    from loopkit.transform.buffering import buffer_array
    from loopkit.transform.callables import register_callable
    from loopkit.transform.data import (
        add_dtypes,
        assume,
        rename_argument,
        set_accumulator_dtype,
        set_cache_policy,
        set_options,
        set_temporary_address_space,
    )
    from loopkit.transform.definition import map_instructions, remove_instructions, with_statements
    from loopkit.transform.domain_padding import pad_domain
    from loopkit.transform.expansion import contract, expand, privatize
    from loopkit.transform.fixing import fix_parameters
    from loopkit.transform.iname import (
        chunk_iname,
        duplicate_inames,
        join_inames,
        remove_unused_inames,
        rename_iname,
        split_iname,
        split_levels,
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
    from loopkit.transform.scan import make_two_level_scan, realize_scan
    from loopkit.transform.step import replay
    from loopkit.transform.subst import expand_subst, extract_subst
    from loopkit.transform.synchronization import add_barrier, add_block_flags, make_atomic
    from loopkit.transform.tags import tag_inames, tag_kernel, unroll, untag_inames
    from loopkit.transform.tensorize import tensorize
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
    "CellDifference", "Check", "CompiledKernel", "CompilerError", "CudaTarget", "DeviceError", "Diff",
    "EquivalenceError", "Explanation", "Finding", "GeneratedCode", "GlobalArg", "History", "IllegalTransformError",
    "LaunchError", "LimitError", "LoopKernel", "LoopkitError", "LoopkitWarning", "MisspelledNameWarning",
    "NameConflictError", "Options", "Outputs", "ParseError", "PreconditionError", "Reduction", "ReductionOperation",
    "Replay", "ReplayError", "Report", "ScalarFunction", "ScheduleError", "ShapeError", "StorageError",
    "SubstitutionRule", "TemporaryVariable", "TypeCast", "TypeInferenceError", "UndecidedError", "UnknownNameError",
    "UnusedInameWarning", "ValueArg", "Verdict", "VerificationError", "Witness", "add_barrier", "add_block_flags",
    "add_dtypes", "add_padding", "add_prefetch", "affine_map_inames", "alias_temporaries",
    "allocate_temporaries_for_base_storage", "apply_schedule", "assert_golden", "assume", "buffer_array",
    "check_barriers", "check_bounds", "check_coverage", "check_equivalent", "check_legal", "check_races", "chunk_iname",
    "compile", "contract", "diff", "distribute_loop", "duplicate_inames", "expand", "expand_subst", "explain",
    "extract_subst", "fix_parameters", "fuse_loops", "generate_code", "interchange", "join_inames", "library", "lower",
    "make_atomic", "make_kernel", "make_two_level_scan", "map_instructions", "pad_domain", "peel", "pipeline",
    "precompute", "prioritize_loops", "privatize", "realize_scan", "register_callable", "remove_instructions",
    "remove_unused_inames", "rename_argument", "rename_iname", "replace_instruction_ids", "replay", "reverse", "review",
    "set_accumulator_dtype", "set_cache_policy", "set_options", "set_temporary_address_space", "shift", "skew",
    "split_array_axis", "split_iname", "split_levels", "swizzle", "tag_array_axes", "tag_inames", "tag_instructions",
    "tag_kernel", "tensorize", "tile", "unroll", "unroll_and_jam", "untag_inames", "verify", "with_statements",
]

__version__ = "0.1.0"

#: The names above that type checkers import: others import them by asking for them.
_LATER = LazyTable[Any](imports_not_run(__name__, sys._getframe().f_code, globals().keys()))  # noqa: SLF001

TRANSFORMATIONS.addresses.update({name: address for name, address in _LATER.addresses.items()
                                  if address.startswith("loopkit.transform.") and name != "replay"})
# the folder loopkit/target/opencl has the class OpenclTarget in target.py
TARGETS.addresses.update({folder.name: f"loopkit.target.{folder.name}.target:{folder.name.title()}Target"
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
})

if not TYPE_CHECKING:              # a type checker would take any name for one of ours
    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(no_attribute(name), name=name, obj=sys.modules[__name__])
        return globals().setdefault(name, _LATER[name])

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATER})
