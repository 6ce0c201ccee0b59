"""Host loops: sequential loops whose iterations are launches, which order cross-block dependences."""
from __future__ import annotations

from collections.abc import Sequence

from loopkit.analysis.accesses import data_params, origin
from loopkit.analysis.dependences import shared_loops
from loopkit.analysis.order import execution_paths, loops_of, loops_to, meeting_of
from loopkit.errors import ScheduleError
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import ForTag
from loopkit.kernel.tree import Meeting
from loopkit.poly.relations import in_one_iteration
from loopkit.poly.sets import Map, depends_on


def not_separable(knl: LoopKernel, d: Dependence, where: Meeting, pairs: Map) -> Map | None:
    """The *pairs* of *d* between which no launch can end; ``None`` if there are none.

    A launch can end between two iterations of a loop that the host runs, and between two parts of its body.

    :arg where: the sequential loops around both statements.
    """
    for iname in where.loops:
        if pairs.is_empty():
            return None                     # no need to test the inner loops
        if _why_not(knl, d.source, iname) is not None:
            return pairs
        pairs = in_one_iteration(pairs, shared_loops(knl, d.source, d.sink, [iname]))
    return None if where.before or pairs.is_empty() else pairs


def obstacle(knl: LoopKernel, statement: str, loops: Sequence[str]) -> str | None:
    """The reason why the host cannot run *loops*, the outermost ones around *statement*; ``None``: it can."""
    reasons = (_why_not(knl, statement, iname) for iname in loops)
    return next((why for why in reasons if why is not None), None)


def require_barriers_in_place(knl: LoopKernel) -> None:
    """Each barrier of *knl* is between its two statements, and at each global one a launch can end.

    :raises ScheduleError: one is not; or the host cannot run the loops around a global one.
    """
    for barrier in knl.barriers:
        for s in (barrier.first, barrier.second):
            if s not in knl.statement_by_id:
                raise ScheduleError(f"'{s}', next to which a barrier was added, is not a statement any more.",
                                    subject=s, hint="add the barrier after the steps that give statements new names")
        where = meeting_of(execution_paths(knl), barrier.first, barrier.second)
        if not where.before:
            raise ScheduleError(f"'{barrier.second}' does not follow '{barrier.first}', so no barrier can be between "
                                "the two.", subject=barrier.second, hint="name the two in their order")
        why = obstacle(knl, barrier.first, where.loops) if barrier.kind == "global" else None
        if why is not None:
            raise ScheduleError(
                f"No launch can end between '{barrier.first}' and '{barrier.second}': the host would have to run the "
                f"loops around both, but {why}.", subject=barrier.first,
                hint="synchronization_kind='local' lets the threads of a block wait, or distribute_loop first")


def _why_not(knl: LoopKernel, statement: str, iname: str) -> str | None:
    """The reason why the host cannot run the loop around *statement*, if it runs those around it; ``None``: it can."""
    loop = loops_to(execution_paths(knl)[statement])[iname]
    tag = knl.tags.get(iname)
    if tag is not None and not isinstance(tag, ForTag):
        return f"'{iname}' is tagged {tag}"
    domains = (knl.statement_by_id[s].domain for s, path in execution_paths(knl).items() if path[:len(loop)] == loop)
    for domain in {id(domain): domain for domain in domains}.values():
        data = data_params(knl, domain)
        if data and depends_on(domain.onto(loops_of(loop)), data):
            return f"the bounds of '{iname}' are {origin(knl, data)} ({', '.join(data)})"
    return None
