"""From kernel to loop program: one list of named stages, whose results have one type, print, and can be checked."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from loopkit.analysis.host_loops import require_barriers_in_place
from loopkit.analysis.instructions import require_operands
from loopkit.analysis.shapes import array_shapes
from loopkit.ast.nodes import Block, Program
from loopkit.ast.printing import block_text, program_text
from loopkit.ast.simplify import simplified, with_regions_apart, without_unused_names
from loopkit.errors import ENTRY_POINTS, IllegalTransformError, InternalError, PreconditionError, StorageError
from loopkit.kernel.annotations import checked
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.target import GPU, Machine, Target, resolve_target
from loopkit.lowering import stage_checks
from loopkit.lowering.barriers import place_barriers
from loopkit.lowering.binding import bind
from loopkit.lowering.cross_block import crossing_pairs, pairs_through_memory
from loopkit.lowering.dead import without_dead_statements
from loopkit.lowering.host_order import host_order
from loopkit.lowering.lowered import FINISHED, Launch, Lowered
from loopkit.lowering.mma import with_mma
from loopkit.lowering.program import generate_loops, unrolled
from loopkit.lowering.reductions import write_out_reductions
from loopkit.lowering.schedule import asked_apart, schedule, without_idle_auto
from loopkit.lowering.storage import allocate_storage
from loopkit.lowering.types import infer_types
from loopkit.lowering.vectors import cut_statements, with_vectors
from loopkit.poly.limits import bounded, kept


@dataclass(frozen=True)
class Stage:
    """One step of lowering.

    :ivar run: takes what the stages before it found.
    :ivar check: raises an :class:`InternalError` if the result is not well-formed; tests check each stage.
    :ivar show: the result as text.
    :ivar always: *check* runs outside of tests, too.
    """

    name: str
    run: Callable[[Lowered], Lowered]
    check: Callable[[Lowered], None]
    show: Callable[[Lowered], str]
    always: bool = False


# {{{ what the stages do

def _types(low: Lowered) -> Lowered:
    require_barriers_in_place(low.kernel)
    shapes = array_shapes(low.kernel)       # of the kernel as it was given: what is dropped later had its part
    typed = infer_types(low.kernel)
    require_operands(typed)
    return replace(low, kernel=typed, shapes=shapes)


def _schedule(low: Lowered) -> Lowered:
    apart = low.apart | asked_apart(low.kernel)
    return replace(low, apart=apart, schedule=schedule(low.kernel, apart))


def _memory(low: Lowered) -> Lowered:
    """The fixpoint of the launches and of which temporaries live from one to the next: these lie in global memory."""
    while not (scattered := pairs_through_memory(low.scheduled)) <= low.apart:
        low = _schedule(replace(low, apart=low.apart | scattered))
    return low


def _storage(low: Lowered) -> Lowered:
    settled, storages = allocate_storage(low.scheduled)
    return replace(low, schedule=settled, storages=storages)


def _binding(low: Lowered) -> Lowered:
    return replace(low, launches=bind(low.scheduled, low.storages, low.machine))


def _launches(low: Lowered) -> Lowered:
    """The fixpoint of the launches and of which values cross blocks in one, as storage and binding show."""
    while crossing := crossing_pairs(low.launches, low.storages):
        if crossing <= low.apart:
            raise InternalError(f"'{low.kernel.name}' has {sorted(crossing)} in one launch, where they must not be.")
        low = replace(low, apart=low.apart | crossing)
        for place in (_schedule, _memory, _storage, _binding):
            low = place(low)
    return replace(low, kernel=low.scheduled.kernel)


def _barriers(low: Lowered) -> Lowered:
    return replace(low, launches=tuple(place_barriers(launch.kernel, launch, low.storages) for launch in low.launches))


def _host(low: Lowered) -> Lowered:
    return replace(low, program=Program((), host_order(low.scheduled, low.launches)))


def _loops(low: Lowered) -> Lowered:
    cut = {launch.name: cut_statements(launch.kernel, launch, low.storages) for launch in low.launches}
    functions = tuple(generate_loops(launch, low.storages, cut[launch.name]) for launch in low.launches)
    return replace(low, cut=cut, program=replace(low.program, functions=functions))


def _bodies(change: Callable[[Lowered, Launch, Block], Block]) -> Callable[[Lowered], Lowered]:
    """The ``run`` of a stage that changes the body of each function."""
    def run(low: Lowered) -> Lowered:
        functions = (replace(function, body=change(low, launch, function.body))
                     for launch, function in zip(low.launches, low.program.functions, strict=True))
        return replace(low, program=replace(low.program, functions=tuple(functions)))
    return run


def _unroll(low: Lowered, launch: Launch, body: Block) -> Block:
    return unrolled(body, launch.kernel) if launch.kernel.options.textual_unroll else body


def _mma(low: Lowered, launch: Launch, body: Block) -> Block:
    return with_mma(body, launch.kernel, launch, low.storages)


def _vectors(low: Lowered, launch: Launch, body: Block) -> Block:
    return with_vectors(body, launch.kernel, launch, low.storages, low.cut[launch.name])

# }}}


def _changing(name: str, change: Callable[[LoopKernel, Machine], LoopKernel],
              check: Callable[[LoopKernel], None]) -> Stage:
    """A stage that changes the kernel."""
    return Stage(name, lambda low: replace(low, kernel=change(low.kernel, low.machine)), lambda low: check(low.kernel),
                 lambda low: str(low.kernel))


def _scheduling(name: str, run: Callable[[Lowered], Lowered]) -> Stage:
    """A stage that decides where launches end."""
    return Stage(name, run, lambda low: stage_checks.schedule(low.kernel, low.scheduled),
                 lambda low: str(low.scheduled))


def _placing(name: str, run: Callable[[Lowered], Lowered]) -> Stage:
    """A stage that changes the bound launches."""
    return Stage(name, run, lambda low: stage_checks.launches(low.scheduled, low.launches),
                 lambda low: "\n".join(map(str, low.launches)))


def _writing(name: str, run: Callable[[Lowered], Lowered], *, always: bool = False) -> Stage:
    """A stage that changes the loop program."""
    return Stage(name, run, lambda low: stage_checks.program(low.launches, low.storages, low.program),
                 lambda low: program_text(low.program), always)


#: All stages, in order.
STAGES: tuple[Stage, ...] = (
    Stage("types", _types, lambda low: stage_checks.types(low.kernel), lambda low: str(low.kernel)),
    _changing("dead_statements", lambda knl, _: without_dead_statements(knl), stage_checks.types),
    _changing("auto", lambda knl, _: without_idle_auto(knl), stage_checks.types),
    _changing("reductions", lambda knl, machine: write_out_reductions(knl, machine.warp), stage_checks.reductions),
    _scheduling("schedule", _schedule),
    _scheduling("memory", _memory),
    Stage("storage", _storage, lambda low: stage_checks.storage(low.scheduled, low.storages),
          lambda low: "\n".join(map(str, low.storages.values()))),
    _placing("binding", _binding),
    Stage("launches", _launches, lambda low: stage_checks.apart(low.scheduled, low.launches, low.storages),
          lambda low: str(low.scheduled)),
    _placing("barriers", _barriers),
    Stage("host", _host, lambda low: stage_checks.host(low.launches, low.program.order),
          lambda low: block_text(low.program.order)),
    _writing("loops", _loops),
    _writing("simplify", _bodies(lambda _low, _launch, body: simplified(body))),
    _writing("unroll", _bodies(_unroll)),
    _writing("mma", _bodies(_mma)),
    _writing("vectors", _bodies(_vectors)),
    _writing("unused_names", _bodies(lambda _low, _launch, body: without_unused_names(body))),
    _writing(FINISHED, _bodies(lambda _low, _launch, body: with_regions_apart(body)), always=True))

_NUMBER = {stage.name: i for i, stage in enumerate(STAGES)}


def stages(first: str, last: str) -> Sequence[Stage]:
    """The stages from *first* to *last*, both included."""
    return STAGES[_NUMBER[first]:_NUMBER[last] + 1]


def run(low: Lowered, some: Sequence[Stage]) -> Lowered:
    """The result of *some* stages for *low*."""
    for stage in some:
        low = replace(stage.run(low), stage=stage.name, show=stage.show)
        if stage.always:
            stage.check(low)
    return low


@checked
def lower(knl: LoopKernel, target: str | Target | None = None, stop: str | None = None) -> Lowered:
    """Lower *knl* for *target*, as far as the stage *stop*, and no further; the result prints as that stage leaves it.

    The first stages change the kernel: ``types``, ``dead_statements``, ``auto`` (drops idle ``l.auto`` tags) and
    ``reductions``. ``schedule`` cuts it into launches, and ``memory`` ends launches where temporaries come to lie in
    global memory. ``storage`` gives temporaries their cells, ``binding`` gives inames their places in the grid and the
    block, and ``launches`` ends launches where values still cross blocks. ``barriers`` places barriers, ``host`` writes
    the host's part of the loop program and ``loops`` that of each launch, which ``simplify``, ``unroll``,
    ``mma``, ``vectors`` and ``unused_names`` change. ``ast`` is the finished loop program.

    :arg target: as for :func:`loopkit.generate_code`; ``None`` stands for ``"cuda"``. Lowering depends on the warp
        size only; :func:`loopkit.generate_code` checks the limits.
    :raises PreconditionError: there is no such target, or no stage *stop*.
    :raises TypeInferenceError, StorageError, ScheduleError, IllegalTransformError: a stage refuses *knl*.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> knl = lk.add_dtypes(knl, {"x": np.float32})
    >>> print(lk.lower(knl, stop="schedule"))
    launch 0:
      for i
        insn
    """
    if stop is not None and stop not in _NUMBER:
        raise PreconditionError(f"'{stop}' is no stage of lowering.", subject=stop,
                                hint=f"the stages are {', '.join(_NUMBER)}")
    return lower_fully(knl, resolve_target(target).machine, stop or STAGES[-1].name)


def lower_fully(knl: LoopKernel, machine: Machine = GPU, stop: str = STAGES[-1].name) -> Lowered:
    """:func:`lower` for *machine*, through all stages up to *stop*."""
    try:
        with bounded(f"lowering kernel '{knl.name}'"):
            typed = run(Lowered(knl, machine), stages("types", "types"))
            if _NUMBER[stop] < _NUMBER["launches"]:
                return run(typed, stages("dead_statements", stop))
            placed = replace(placed_once(knl, machine), shapes=typed.shapes)
            return run(placed, stages("barriers", stop))
    except IllegalTransformError as refusal:
        refusal.before = refusal.after = knl            # no step: threads of the kernel itself meet
        raise
    except StorageError as refusal:
        refusal.try_hint(partial(ENTRY_POINTS["storage_hint"], knl, refusal.subject,
                                 partial(lower_fully, machine=machine)))
        raise


def lowered_once(knl: LoopKernel, machine: Machine = GPU) -> Lowered:
    """*knl* through all stages, from its memo: its checks and all of its texts share the result."""
    return kept(knl.memo, ("lowered", machine), lambda: lower_fully(knl, machine))


def placed_once(knl: LoopKernel, machine: Machine = GPU) -> Lowered:
    """*knl* with its types, as far as the stage ``launches``."""
    return kept(knl.memo, ("placed", machine), lambda: lowered_as_typed(infer_types(knl), machine, "launches"))


def lowered_as_typed(typed: LoopKernel, machine: Machine, stop: str) -> Lowered:
    """A kernel of known dtypes, whichever they are, as far as the stage *stop*."""
    return run(Lowered(typed, machine, "types"), stages("dead_statements", stop))


def with_program(low: Lowered) -> Lowered:
    """*low* with the stages from ``loops`` on run again; the host's part stays."""
    return run(low, stages("loops", FINISHED))
