"""The order in which statement instances run: sequential loops, those that a step moved, and those of the host.

The iterations of a host loop are launches, which order cross-block dependences.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from loopkit.analysis.accesses import data_params, origin
from loopkit.errors import ScheduleError
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence
from loopkit.kernel.tags import ForTag, InameTag, is_at_once, is_innermost, is_parallel
from loopkit.kernel.tree import Loop, Meeting, Path, Seq, Tree, meeting, nest, paths, seq
from loopkit.poly.limits import kept_in_memo
from loopkit.poly.relations import in_one_iteration, shared_dims
from loopkit.poly.sets import Map, depends_on


@kept_in_memo
def execution_paths(knl: LoopKernel) -> Mapping[str, Path]:
    """The path to each statement through its *sequential* loops."""
    return paths(sequential(knl.tree, knl.tags)) if knl.tags else knl.paths


def sequential(tree: Tree, tags: Mapping[str, InameTag], innermost: tuple[str, ...] = ()) -> Tree:
    """*tree* without parallel loops, and with ``ilp`` and ``vec`` loops around single statements."""
    match tree:
        case Loop(iname, body):
            tag = tags.get(iname)
            if is_parallel(tag):
                return sequential(body, tags, innermost)
            if is_innermost(tag):
                return sequential(body, tags, (*innermost, iname))
            return Loop(iname, sequential(body, tags, innermost))
        case Seq(children):
            return seq(*(sequential(c, tags, innermost) for c in children))
        case _:
            return nest(tuple(sorted(innermost, key=lambda x: is_at_once(tags.get(x)))), tree)


def meeting_of(paths: Mapping[str, Path], source: str, sink: str) -> Meeting:
    """The loops that two statements share along *paths*, and whether *source* comes first in them."""
    return meeting(paths[source], paths[sink])


def loops_of(path: Path) -> tuple[str, ...]:
    """The inames of the loops on *path*, outermost first."""
    return tuple(step.iname for step in path if step.iname is not None)


def loops_to(path: Path) -> dict[str, Path]:
    """The path to each loop on *path*, by iname, outermost first."""
    return {step.iname: path[:i + 1] for i, step in enumerate(path) if step.iname is not None}


@dataclass(frozen=True)
class Moves:
    """The changes of the loops around the statements of two kernels.

    :ivar sunk: pairs of inames ``(x, y)``: around some statement the loop over *x* was outside that over *y*, and is
        inside now.
    :ivar order: the inames of *sunk* around one statement as they nest now, outermost first.
    :ivar distributed: inames whose loop became several, each with the first statement of the second loop.
    """

    sunk: tuple[tuple[str, str], ...] = ()
    order: tuple[str, ...] = ()
    distributed: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.sunk or self.distributed)

    def beside(self, given: Collection[tuple[str, str]]) -> Moves:
        """These changes without the pairs that now nest as in *given*, the outer iname first."""
        return replace(self, sunk=tuple((x, y) for x, y in self.sunk if (y, x) not in given))

    def __str__(self) -> str:
        inside: dict[str, list[str]] = {}
        for x, y in self.sunk:
            inside.setdefault(x, []).append(y)
        parts = [f"{x} moved inside {', '.join(around)}" for x, around in inside.items()]
        return ", ".join([*parts, *([f"{' and '.join(self.distributed)} distributed"] if self.distributed else [])])


def moves(before: LoopKernel, after: LoopKernel) -> Moves:
    """The changes of the sequential loops of *before* in *after*.

    Parallel loops do not count; ``ilp`` and ``vec`` loops count as innermost, wherever their nodes are.
    """
    if before.tree is after.tree and before.tags == after.tags:
        return Moves()
    old, new = execution_paths(before), execution_paths(after)
    inner = {x for knl in (before, after) for x, tag in knl.tags.items() if is_innermost(tag)}
    sunk: dict[tuple[str, str], None] = {}
    order: tuple[str, ...] = ()
    became: dict[Path, Path] = {}
    distributed: dict[str, str] = {}
    for s in [s for s in old if s in new]:
        now = loops_to(new[s])
        loops = {x: place for x, place in loops_to(old[s]).items() if x in now and x not in inner}
        pairs = [(x, y) for x, y in combinations(loops, 2) if len(now[x]) > len(now[y])]
        sunk.update(dict.fromkeys(pairs))
        order = order or tuple(x for x in now if any(x in pair for pair in pairs))
        for x, place in loops.items():
            if became.setdefault(place, now[x]) != now[x]:
                distributed.setdefault(x, s)
    return Moves(tuple(sunk), order, distributed)


# Host loops

def not_separable(knl: LoopKernel, d: Dependence, where: Meeting, pairs: Map) -> Map | None:
    """The *pairs* of *d* between which no launch can end; ``None`` if there are none.

    A launch can end between two iterations of a loop that the host runs, and between two parts of its body.

    :arg where: the sequential loops around both statements.
    """
    source, sink = (knl.statement_by_id[s].inames for s in (d.source, d.sink))
    for iname in where.loops:
        if pairs.is_empty():
            return None                     # no need to test the inner loops
        if _why_not(knl, d.source, iname) is not None:
            return pairs
        pairs = in_one_iteration(pairs, shared_dims(source, sink, [iname]))
    return None if where.before or pairs.is_empty() else pairs


def obstacle(knl: LoopKernel, statement: str, loops: Sequence[str]) -> str | None:
    """The reason why the host cannot run *loops*, the outermost ones around *statement*; ``None``: it can."""
    reasons = (_why_not(knl, statement, iname) for iname in loops)
    return next((why for why in reasons if why is not None), None)


def require_barriers_in_place(knl: LoopKernel) -> None:
    """Check that each barrier of *knl* is between its two statements, and that a launch can end at each global barrier.

    :raises ScheduleError: a barrier is not; or the host cannot run the loops around a global barrier.
    """
    for barrier in knl.barriers:
        for s in (barrier.first, barrier.second):
            if s not in knl.statement_by_id:
                raise ScheduleError(f"A barrier was added next to '{s}', which is no longer a statement.",
                                    subject=s, hint="add the barrier after the steps that rename statements")
        where = meeting_of(execution_paths(knl), barrier.first, barrier.second)
        if not where.before:
            raise ScheduleError(f"'{barrier.second}' does not follow '{barrier.first}', so no barrier can be between "
                                "the two.", subject=barrier.second, hint="pass the two statements in their order")
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
