"""From kernel to loop program: one list of named stages, each of which prints."""
from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from loopkit.analysis.hosts import require_barriers_in_place
from loopkit.analysis.instructions import require_operands
from loopkit.analysis.shapes import array_shapes
from loopkit.errors import ENTRY_POINTS, IllegalTransformError, InternalError, PreconditionError, StorageError
from loopkit.kernel.annotations import checked
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.target import GPU, Machine, Target, resolve_target
from loopkit.lowering.barriers import place_barriers
from loopkit.lowering.binding import bind
from loopkit.lowering.crossing import Pair, crossing_pairs, pairs_through_memory
from loopkit.lowering.dead import without_dead_statements
from loopkit.lowering.host_order import host_order
from loopkit.lowering.lowered import Launch, Lowered, Storage
from loopkit.lowering.program import build_program
from loopkit.lowering.reductions import write_out_reductions
from loopkit.lowering.schedule import Schedule, asked_apart, schedule, without_idle_auto
from loopkit.lowering.storage import settle_storage
from loopkit.lowering.types import infer_types
from loopkit.poly.limits import bounded, kept

STAGES = ("types", "reductions", "schedule", "storage", "binding", "barriers", "ast")


@dataclass(frozen=True)
class Stored:
    """A schedule and the storage of its temporaries."""

    schedule: Schedule
    storages: dict[str, Storage]

    def __str__(self) -> str:
        return "\n".join(map(str, self.storages.values()))


@dataclass(frozen=True)
class Bound:
    """The launches of a kernel, bound to the grid and the block."""

    kernel: LoopKernel
    storages: dict[str, Storage]
    launches: tuple[Launch, ...]

    def __str__(self) -> str:
        with bounded(f"printing the launches of kernel '{self.kernel.name}'"):
            return "\n".join(map(str, self.launches))


#: A kernel ready for its schedule, that, its storage and its launches.
Placed = tuple[LoopKernel, Schedule, dict[str, Storage], tuple[Launch, ...]]


@checked
def lower(knl: LoopKernel, target: str | Target | None = None, stop: str | None = None
          ) -> LoopKernel | Schedule | Stored | Bound | Lowered:
    """Lower *knl* for *target*, as far as the stage *stop*; every stage's result prints.

    The stages: ``types`` and ``reductions`` (kernels), ``schedule`` (the trees of the launches), ``storage``
    (the cells of the temporaries), ``binding`` and ``barriers`` (launches), ``ast`` (the loop program).

    :arg target: as for :func:`loopkit.generate_code`; ``None`` stands for ``"cuda"``.
    :raises PreconditionError: there is no such target, or no stage *stop*.
    :raises TypeInferenceError, StorageError, IllegalTransformError, LimitError: what a stage refuses.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> knl = lk.add_dtypes(knl, {"x": np.float32})
    >>> print(lk.lower(knl, stop="schedule"))
    launch 0:
      for i
        insn
    """
    if stop is not None and stop not in STAGES:
        raise PreconditionError(f"'{stop}' is no stage of lowering.", subject=stop,
                                hint=f"the stages are {', '.join(STAGES)}")
    return _lower(knl, resolve_target(target).machine, stop)


def _lower(knl: LoopKernel, machine: Machine, stop: str | None = None
           ) -> LoopKernel | Schedule | Stored | Bound | Lowered:
    try:
        with bounded(f"lowering kernel '{knl.name}'"):
            return _through_stages(knl, machine, stop)
    except IllegalTransformError as refusal:
        refusal.before = refusal.after = knl            # no step: threads of the kernel itself meet
        raise
    except StorageError as refusal:
        refusal.try_hint(partial(ENTRY_POINTS["storage_hint"], knl, refusal.subject,
                                 partial(_lower, machine=machine)))
        raise


def _through_stages(knl: LoopKernel, machine: Machine, stop: str | None
                    ) -> LoopKernel | Schedule | Stored | Bound | Lowered:
    require_barriers_in_place(knl)
    shapes = array_shapes(knl)              # of the kernel as it was given: what is dropped below had its part
    typed = infer_types(knl)
    require_operands(typed)
    if stop == "types":
        return typed
    if stop == "reductions":
        return _without_reductions(typed, machine)
    knl, ordered, storages, launches = placed_once(knl, machine)
    if stop == "schedule":
        return ordered
    if stop == "storage":
        return Stored(ordered, storages)
    if stop == "binding":
        return Bound(knl, storages, launches)
    launches = tuple(place_barriers(launch.kernel, launch, storages) for launch in launches)
    if stop == "barriers":
        return Bound(knl, storages, launches)
    program = build_program(launches, storages, host_order(ordered, launches))
    return Lowered(knl, storages, launches, program, shapes)


def placed_once(knl: LoopKernel, machine: Machine = GPU) -> Placed:
    """*knl* with its types, and without what lowering writes out; its schedule, its storage and its binding."""
    return kept(knl.memo, ("placed", machine), lambda: placed_as_typed(infer_types(knl), machine))


def placed_as_typed(typed: LoopKernel, machine: Machine) -> Placed:
    """:func:`placed_once` of a kernel of known dtypes, whichever they are."""
    return _placed(_without_reductions(typed, machine), machine)


def scheduled_as_typed(typed: LoopKernel, machine: Machine) -> Schedule:
    """The schedule of a kernel of known dtypes without its storage, which may add launches."""
    ready = _without_reductions(typed, machine)
    return _scheduled(ready, asked_apart(ready))[0]


def _without_reductions(typed: LoopKernel, machine: Machine) -> LoopKernel:
    return write_out_reductions(without_idle_auto(without_dead_statements(typed)), machine.warp)


def _placed(knl: LoopKernel, machine: Machine) -> Placed:
    """The launches, the storage, and the binding; the last may show that a launch must end earlier."""
    apart = asked_apart(knl)
    while True:
        ordered, apart = _scheduled(knl, apart)
        ordered, storages = settle_storage(ordered)
        launches = bind(ordered, storages, machine)
        crossing = crossing_pairs(launches, storages)
        if not crossing:
            return ordered.kernel, ordered, storages, launches
        if crossing <= apart:
            raise InternalError(f"'{knl.name}' has {sorted(crossing)} in one launch, where they must not be.")
        apart |= crossing


def _scheduled(knl: LoopKernel, apart: frozenset[Pair]) -> tuple[Schedule, frozenset[Pair]]:
    """The launches, at least *apart* in several; and what is, which a temporary in global memory may add to."""
    while True:
        ordered = schedule(knl, apart)
        scattered = pairs_through_memory(ordered)
        if scattered <= apart:
            return ordered, apart
        apart |= scattered


def lowered_once(knl: LoopKernel, machine: Machine = GPU) -> Lowered:
    """*knl* through all stages; its checks, and its texts for several targets and layouts, have this in common."""
    return kept(knl.memo, ("lowered", machine), lambda: lower_fully(knl, machine))


def lower_fully(knl: LoopKernel, machine: Machine = GPU) -> Lowered:
    """:func:`lower` through all stages, for *machine*."""
    result = _lower(knl, machine)
    assert isinstance(result, Lowered)
    return result
