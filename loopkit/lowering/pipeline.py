"""The list of lowering stages, from kernel to loop program; their results have one type, print, and can be checked."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TypeVar

import numpy as np

from loopkit.analysis.accesses import accesses_by_array, accesses_of, analysis_domain, require_operands
from loopkit.analysis.base_storage import in_base_storages
from loopkit.analysis.constructors import annotated, reindexed
from loopkit.analysis.dependences import Pair
from loopkit.analysis.order import require_barriers_in_place
from loopkit.analysis.shapes import array_shapes
from loopkit.ast.check import require_well_formed
from loopkit.ast.nodes import Assign, Block, Call, Program
from loopkit.ast.walk import nodes_in, rewritten, simplified, with_regions_apart, without_unused_names
from loopkit.errors import (
    IllegalTransformError,
    InternalError,
    LoopkitError,
    PreconditionError,
    StorageError,
    TypeInferenceError,
)
from loopkit.kernel.annotations import checked
from loopkit.kernel.cost import Cells, Cost
from loopkit.kernel.data import AddressSpace, GlobalArg, TemporaryVariable
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import LocalTag, is_parallel
from loopkit.kernel.target import GPU, Machine, Target, resolve_target
from loopkit.kernel.tree import leaves, loops_in, without
from loopkit.lowering.auto import without_needless_auto
from loopkit.lowering.barriers import place_barriers
from loopkit.lowering.binding import bind
from loopkit.lowering.functions import with_function_bodies
from loopkit.lowering.lanes import with_lanes
from loopkit.lowering.lowered import FINISHED, Launch, Lowered, Stage
from loopkit.lowering.nests import (
    with_collective_leaves,
    with_fragments_of_instructions,
    with_nest_instructions,
    with_tensor_maps,
)
from loopkit.lowering.program import generate_loops, host_order, unrolled, with_old_values
from loopkit.lowering.reductions import write_out_reductions
from loopkit.lowering.schedule import crossing_pairs, pairs_through_memory, requested_apart, schedule
from loopkit.lowering.storage import allocate_storage, each_storage
from loopkit.lowering.stored import Storage
from loopkit.lowering.types import infer_types
from loopkit.lowering.vectors import with_partial_vectors, with_vectors
from loopkit.poly.limits import affordable, apart, bounded, kept, kept_in_memo
from loopkit.shown import ENTRY_POINTS
from loopkit.transform.tags import require_constant_extents

# The stages

def _types(low: Lowered) -> Lowered:
    require_barriers_in_place(low.kernel)
    shapes = array_shapes(low.kernel)       # of the original kernel: statements dropped later count too
    typed = infer_types(low.kernel)
    require_operands(typed)
    require_constant_extents(typed)
    return replace(low, kernel=typed, shapes=shapes)


def _dead_statements(low: Lowered) -> Lowered:
    """*low* without statements that have no instance, and without writes to temporaries that no other one reads."""
    knl = low.kernel
    while True:
        # updates alone do not make an array live
        read = frozenset(a.array for s in knl.statements for a in accesses_of(knl, s)
                         if not a.is_write and a.array != s.written)
        dead = frozenset(s.id for s in knl.statements if analysis_domain(knl, s).is_empty()
                         or (s.written in knl.temporaries and s.written not in read))
        if not dead:
            return replace(low, kernel=knl)
        tree = without(knl.tree, dead)
        alive = frozenset(leaves(tree))
        reductions = {name: replace(node, updates=tuple(s for s in node.updates if s in alive))
                      for name, node in knl.reductions.items() if {node.init, node.final} <= alive}
        knl = reindexed(
            knl, dict.fromkeys(knl.statement_by_id.keys() - alive, ()),
            statements=tuple(s for s in knl.statements if s.id in alive), tree=tree,
            temporaries={k: t for k, t in knl.temporaries.items() if k in read},
            reductions={name: node for name, node in reductions.items() if node.updates})


def _in_two_launches(low: Lowered, more: frozenset[Pair]) -> Lowered:
    """*low* scheduled again, with *more* pairs of statements in two launches."""
    return replace(low, schedule=schedule(low.kernel, low.scheduled.apart | more))


def _memory(low: Lowered) -> Lowered:
    """The fixpoint of the launches and of the temporaries alive across launches, which are in global memory."""
    while not (scattered := pairs_through_memory(low.scheduled)) <= low.scheduled.apart:
        low = _in_two_launches(low, scattered)
    return replace(low, schedule=with_lanes(low.scheduled))


def _storage(low: Lowered) -> Lowered:
    allocated, storages = allocate_storage(low.scheduled)
    return replace(low, schedule=allocated, storages=storages)


def _binding(low: Lowered) -> Lowered:
    return replace(low, launches=bind(low.scheduled, low.storages, low.machine))


def _launches(low: Lowered) -> Lowered:
    """The fixpoint of the launches and of the values that cross blocks in one, according to storage and binding."""
    while crossing := crossing_pairs(low.launches, low.storages):
        if crossing <= low.scheduled.apart:
            raise InternalError(f"'{low.kernel.name}' has {sorted(crossing)} in one launch, where they must not be.")
        low = _binding(_storage(_memory(_in_two_launches(low, crossing))))
    return replace(low, kernel=low.scheduled.kernel)


def _loops(low: Lowered, *, in_one_version: bool = False) -> Lowered:
    launches = tuple(with_partial_vectors(launch, low.storages) for launch in low.launches)
    functions = tuple(generate_loops(launch, low.storages, launch.kernel.options.full_tiles and not in_one_version)
                      for launch in launches)
    return replace(low, launches=launches, program=replace(low.program, functions=functions))


def _bodies(change: Callable[[Block, Launch, Mapping[str, Storage]], Block]) -> Callable[[Lowered], Lowered]:
    """The ``run`` of a stage that changes the body of each function."""
    def run(low: Lowered) -> Lowered:
        functions = (replace(function, body=change(function.body, launch, low.storages))
                     for launch, function in zip(low.launches, low.program.functions, strict=True))
        return replace(low, program=replace(low.program, functions=tuple(functions)))
    return run


def _with_nests(low: Lowered) -> Lowered:
    new = _bodies(with_nest_instructions)(low)
    functions = (with_tensor_maps(f, launch, low.storages)
                 for f, launch in zip(new.program.functions, new.launches, strict=True))
    return replace(new, program=replace(new.program, functions=tuple(functions)))


# Properties of the results of the stages, for any kernel

def _require(holds: bool, text: str) -> None:
    if not holds:
        raise InternalError(text)


def _require_once(what: str, found: Iterable[str], wanted: Iterable[str]) -> None:
    have, need = Counter(iter(found)), Counter(iter(wanted))
    wrong = sorted((have - need) + (need - have))
    _require(not wrong, f"{what}: {', '.join(wrong)} should be there once")


def _check_types(low: Lowered) -> None:
    """The dtypes of all temporaries and array arguments are known, and each statement is in the tree once."""
    arrays: list[TemporaryVariable | GlobalArg] = [*low.kernel.temporaries.values(), *low.kernel.array_args.values()]
    for a in arrays:
        _require(a.dtype is not None, f"'{a.name}' has no dtype")
    _require_once("the tree", leaves(low.kernel.tree), low.kernel.statement_by_id)


def _check_reductions(low: Lowered) -> None:
    """In addition, no reduction is over threads."""
    _check_types(low)
    for node in low.kernel.reductions.values():
        _require(not any(isinstance(low.kernel.tags.get(x), LocalTag) for x in node.inames),
                 f"the reduction of '{node.final}' is over threads")


def _check_schedule(low: Lowered) -> None:
    """Each statement is in one launch, and no loop of a launch is parallel."""
    trees = [part.tree for part in low.scheduled.launches]
    _require_once("the launches", (s for tree in trees for s in leaves(tree)), low.kernel.statement_by_id)
    for loop in chain.from_iterable(map(loops_in, trees)):
        _require(not is_parallel(low.kernel.tags.get(loop.iname)), f"the loop over '{loop.iname}' is parallel")


def _check_storage(low: Lowered) -> None:
    """Each temporary that is used has cells."""
    knl = low.scheduled.kernel
    _require_once("the storage", low.storages, accesses_by_array(knl).keys() & knl.temporaries.keys())


def _check_launches(low: Lowered) -> None:
    """Each launch has the statements of its part of the schedule, for the block and the grid."""
    for launch, part in zip(low.launches, low.scheduled.launches, strict=True):
        for statements in (leaves(launch.tree), launch.statements):
            _require_once(f"launch '{launch.name}'", statements, leaves(part.tree))


def _check_apart(low: Lowered) -> None:
    """In addition, no value crosses blocks in a launch."""
    _check_launches(low)
    _require(not crossing_pairs(low.launches, low.storages), "values cross blocks in a launch")


def _check_host(low: Lowered) -> None:
    """The host launches each function."""
    called = {node.name for node in nodes_in(low.program.order) if isinstance(node, Call)}
    _require_once("the host's part", called, (launch.name for launch in low.launches))


def _check_program(low: Lowered) -> None:
    """The function of each launch is well-formed (:mod:`loopkit.ast.check`) and assigns what its statements do."""
    _check_host(low)
    outside = {name for name, storage in low.storages.items() if storage.space is AddressSpace.GLOBAL}
    for launch, function in zip(low.launches, low.program.functions, strict=True):
        require_well_formed(function, outside.union(launch.kernel.argument_by_name), launch.mapping.thread_names)
        assigned = {node.statement for node in nodes_in(function.body) if isinstance(node, Assign)}
        _require(assigned <= launch.statements.keys(), f"'{launch.name}' assigns what is not in it")


#: All stages, in order.
STAGES: tuple[Stage, ...] = (
    Stage("types", "kernel", _types, _check_types),
    Stage("dead_statements", "kernel", _dead_statements, _check_types),
    Stage("base_storages", "kernel", lambda low: replace(low, kernel=in_base_storages(low.kernel)), _check_types),
    Stage("auto", "kernel", lambda low: replace(low, kernel=without_needless_auto(low.kernel)), _check_types),
    Stage("reductions", "kernel", lambda low: replace(low, kernel=with_collective_leaves(
        write_out_reductions(with_fragments_of_instructions(low.kernel, low.machine.warp), low.machine.warp),
        low.machine.warp)), _check_reductions),
    Stage("schedule", "schedule", lambda low: replace(low, schedule=schedule(low.kernel, requested_apart(low.kernel))),
          _check_schedule),
    Stage("memory", "schedule", _memory, _check_schedule),
    Stage("storage", "storages", _storage, _check_storage),
    Stage("binding", "launches", _binding, _check_launches),
    Stage("launches", "schedule", _launches, _check_apart),
    Stage("barriers", "launches", lambda low: replace(low, launches=tuple(
        place_barriers(launch, low.storages) for launch in low.launches)), _check_launches),
    Stage("host", "order", lambda low: replace(low, program=Program((), host_order(low.scheduled, low.launches))),
          _check_host),
    Stage("loops", "program", _loops, _check_program),
    Stage("simplify", "program", _bodies(lambda body, *_: simplified(body)), _check_program),
    Stage("unroll", "program", _bodies(lambda body, launch, _: unrolled(body, launch.kernel)), _check_program),
    Stage("nests", "program", _with_nests, _check_program),
    Stage("vectors", "program", _bodies(with_vectors), _check_program),
    Stage("unused_names", "program", _bodies(lambda body, *_: without_unused_names(body)), _check_program),
    Stage(FINISHED, "program", _bodies(lambda body, launch, _: rewritten(with_function_bodies(
        with_regions_apart(body), launch.kernel), with_old_values)), _check_program))

_NUMBER = {stage.name: i for i, stage in enumerate(STAGES)}


def stages(first: str, last: str) -> Sequence[Stage]:
    """The stages from *first* to *last*, both included."""
    return STAGES[_NUMBER[first]:_NUMBER[last] + 1]


def run(low: Lowered, some: Sequence[Stage]) -> Lowered:
    """The result of *some* stages for *low*."""
    for stage in some:
        low = replace(stage.run(low), last=stage)
        if stage.name == FINISHED:
            stage.check(low)
    return low


@checked
def lower(knl: LoopKernel, target: str | Target | None = None, stop: str | None = None) -> Lowered:
    """Lower *knl* for *target*: run the stages of lowering up to *stop*. The result prints the state after that stage.

    The first stages change the kernel: ``types``, ``dead_statements``, ``base_storages`` (makes one temporary of those
    that share memory), ``auto`` (chooses the axes of ``l.auto`` where threads then keep their values) and
    ``reductions``. ``schedule`` cuts the kernel into launches, and ``memory`` ends launches where temporaries are in
    global memory; there, statements with some of the inames on an axis get the others. ``storage`` allocates the cells
    of temporaries. ``binding`` binds inames to axes of the grid and the block. ``launches`` ends launches where
    cross-block dependences remain. ``barriers`` places barriers. ``host`` writes the part of the host in the loop
    program, and ``loops`` the part of each launch. ``simplify``, ``unroll``, ``nests``, ``vectors`` and
    ``unused_names`` then change the loop program. ``ast`` is the finished loop program.

    :arg target: as for :func:`loopkit.generate_code`; ``None`` means ``"cuda"``. Lowering depends only on the machine
        of the target; :func:`loopkit.generate_code` checks its limits.
    :arg stop: the name of the last stage to run; ``None``: all stages.
    :raises PreconditionError: there is no such target, or no stage *stop*.
    :raises TypeInferenceError, StorageError, ScheduleError, IllegalTransformError: a stage cannot lower *knl*.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> knl = lk.add_dtypes(knl, {"x": np.float32})
    >>> print(lk.lower(knl, stop="schedule"))
    launch 0:
      for i
        insn
    """
    if stop is not None and stop not in _NUMBER:
        raise PreconditionError(f"'{stop}' is not a stage of lowering.", subject=stop,
                                hint=f"the stages are {', '.join(_NUMBER)}")
    machine = resolve_target(target).machine
    if stop not in (None, FINISHED):
        return lower_fully(knl, machine, stop)
    low = lowered_once(knl, machine)
    # a step may have lowered its result before it was in the history
    return low if low.kernel.history is knl.history else replace(
        low, kernel=low.kernel.with_history(knl.history, low.kernel.given_pairs))


#: The last stages without versions for full tiles, and with loops in the place of unrolled text.
_IN_ONE_VERSION = (Stage("loops", "program", partial(_loops, in_one_version=True), _check_program),
                   *(stage for stage in stages("simplify", FINISHED) if stage.name != "unroll"))


def lower_fully(knl: LoopKernel, machine: Machine = GPU, stop: str = STAGES[-1].name, *, in_one_version: bool = False
                ) -> Lowered:
    """:func:`lower` for *machine*, through all stages up to *stop*, or to the last one for a text in one version."""
    machine = machine_for(knl, machine)
    try:
        with bounded(f"lowering kernel '{knl.name}'"):
            typed = run(Lowered(knl, machine), stages("types", "types"))
            if _NUMBER[stop] < _NUMBER["launches"]:
                return run(typed, stages("dead_statements", stop))
            if _NUMBER[stop] < _NUMBER["loops"]:
                return run(replace(placed_once(knl, machine), shapes=typed.shapes), stages("barriers", stop))
            before_loops = kept(knl.memo, ("before loops", machine), lambda: run(
                replace(placed_once(knl, machine), shapes=typed.shapes), stages("barriers", "host")))
            return run(before_loops, _IN_ONE_VERSION if in_one_version else stages("loops", stop))
    except IllegalTransformError as refusal:
        refusal.before = refusal.after = knl            # no step: threads of the kernel itself conflict
        raise
    except StorageError as refusal:
        refusal.try_hints(partial(ENTRY_POINTS["storage_hints"], knl, refusal.subject,
                                  partial(lower_fully, machine=machine)))
        raise


def machine_for(knl: LoopKernel, machine: Machine) -> Machine:
    """*machine*, with roles if *knl* has none: targets with and without roles then share its loop program."""
    return machine if any(s.options.producer for s in knl.statements) else replace(machine, roles=True)


def lowered_once(knl: LoopKernel, machine: Machine = GPU) -> Lowered:
    """*knl* through all stages, computed once: its checks, all of its texts and its calls share the result."""
    machine = machine_for(knl, machine)
    with bounded(f"lowering kernel '{knl.name}'"):
        typed = infer_types(knl)
    return kept(typed.memo, ("lowered", machine), lambda: lower_fully(knl, machine))


def lowered_in_one_version(knl: LoopKernel) -> Lowered:
    """*knl* through all stages, for readers: each launch in one version with all of its guards, and no unrolled text.

    The stages up to the loops are shared with :func:`lowered_once`.
    """
    if not (knl.options.full_tiles or knl.options.textual_unroll):
        return lowered_once(knl)
    return kept(knl.memo, "in one version", lambda: lower_fully(knl, in_one_version=True))


def placed_once(knl: LoopKernel, machine: Machine = GPU) -> Lowered:
    """*knl* with its types, up to the stage ``launches``."""
    machine = machine_for(knl, machine)
    return kept(knl.memo, ("placed", machine), lambda: _lowered_as_typed(infer_types(knl), machine, "launches"))


def _lowered_as_typed(typed: LoopKernel, machine: Machine, stop: str) -> Lowered:
    """A kernel of known dtypes, whichever they are, up to the stage *stop*."""
    return run(Lowered(typed, machine), stages("dead_statements", stop))


# The cost of a kernel: its storage and its launches, found by the stages up to "launches"

#: Operations of isl for one answer. Results of earlier questions save operations. An answer that depended on them would
#: change from run to run, so the budget is far larger than the need of the library's kernels: at most 1.7 million.
COST_BUDGET = 6_000_000


@kept_in_memo
def cost_of(knl: LoopKernel) -> Cost:
    """The cells of the temporaries, the launches and the host's loops of *knl*, as far as they are known.

    If one temporary can have no cells as it is, or takes isl more than the budget, those of others are known still. A
    kernel without dtypes has a cost in elements.

    >>> knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, a[i, k])")
    >>> print(cost_of(knl).cells["acc_k"])
    1 element a thread
    """
    def cells_of(storage: Storage) -> Cells:
        known = inferred or any(t.dtype is not None for t in knl.temporaries.values()
                                if storage.name in (t.name, t.base_storage))
        return Cells(storage.space, storage.shape, storage.dtype.itemsize if known else None)

    shown = {*knl.temporaries, *(t.base_storage for t in knl.temporaries.values())}

    def unknown(reason: str) -> Cost:
        return Cost({}, None, unknown=dict.fromkeys(knl.temporaries, reason), reason=reason)
    with apart(f"looking at the storage of kernel '{knl.name}'"):
        found = _attempt(lambda: _with_types(knl))
        if isinstance(found, str):
            return unknown(found)
        typed, inferred = found
        placed = _attempt(lambda: placed_once(knl) if inferred else _lowered_as_typed(typed, GPU, "launches"))
        if isinstance(placed, Lowered):
            cells = {x: cells_of(s) for x, s in placed.storages.items() if x in shown}
            hosts = ((loop.iname, len([*leaves(loop)])) for loop in loops_in(placed.scheduled.order))
            return Cost(cells, len(placed.scheduled.launches), tuple(hosts))
        # of each temporary of a kernel that cannot be lowered as it is, as far as its schedule gives them
        storages = _attempt(lambda: dict(each_storage(_lowered_as_typed(typed, GPU, "memory").scheduled)))
        if isinstance(storages, str):
            return replace(unknown(storages), reason=placed)
        results = {x: _attempt(allocate) for x, allocate in storages.items() if x in shown}
    return Cost({x: cells_of(result[0]) for x, result in results.items() if not isinstance(result, str)}, None,
                unknown={x: result for x, result in results.items() if isinstance(result, str)}, reason=placed)


def _with_types(knl: LoopKernel) -> tuple[LoopKernel, bool]:
    """*knl* with its dtypes, or with ``int32`` for unknown ones of temporaries; are they known?"""
    try:
        return infer_types(knl), True
    except TypeInferenceError:
        temporaries = {name: t if t.dtype is not None else replace(t, dtype=np.dtype(np.int32))
                       for name, t in knl.temporaries.items()}
        return annotated(knl, temporaries=temporaries), False


T = TypeVar("T")


def _attempt(question: Callable[[], T]) -> T | str:
    """The result of *question*, or the reason why there is none."""
    try:
        found = affordable(question, otherwise=None, budget=COST_BUDGET)
    except LoopkitError as error:
        return error.message
    return "It takes too long to find." if found is None else found
