"""Races: conflicts without an order. Barriers: what each orders, and that all threads run it.

A conflict with an asynchronous access needs a wait between that covers the access.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce

from loopkit.analysis.accesses import Access, accesses_of, why_undecided
from loopkit.analysis.dependences import dependences, without_assumed
from loopkit.analysis.witnesses import BrokenPairs
from loopkit.ast.check import divergent_names, divergent_nodes, noun_of
from loopkit.ast.nodes import BEFORE_END, FENCES, Completion, Function, Scope, covering, wait_for
from loopkit.errors import VerificationError, values_text
from loopkit.instructions.groups import pending
from loopkit.instructions.phases import StartPhases
from loopkit.instructions.table import WAITS
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import Barrier, leaves, parts_of
from loopkit.lowering.hazards import Hazard, hazards, scope_between_places, tile_reads, unfinished
from loopkit.lowering.lowered import Launch
from loopkit.lowering.waits import Waits
from loopkit.poly.limits import kept_in_memo
from loopkit.poly.relations import differing_first_at, union_of_some
from loopkit.poly.sets import Map
from loopkit.verification.conflicts import Candidate, Conflicts, kind_between
from loopkit.verification.phases import rings_of
from loopkit.verification.report import Check, Finding, Verdict, refuted, undecided
from loopkit.verification.threads import TOGETHER, PlacedBarrier


def races(launches: Iterable[Conflicts]) -> Check:
    """Do two threads access one element without an order, one of them writing?"""
    findings: dict[Finding, None] = {}
    shared: dict[str, None] = {}
    for conflicts in launches:
        if conflicts.launch.mapping.extents:
            shared.update(dict.fromkeys(conflicts.shared))
        missing, early = _unordered(conflicts)
        findings.update(dict.fromkeys((*missing, *_at_once(conflicts), *_across_blocks(conflicts), *early)))
    summary = (f"{', '.join(shared)}: written, and shared between threads" if shared
               else "no written array is shared between threads")
    return Check("races", summary, tuple(findings), claim="no races")


@kept_in_memo
def _unordered(conflicts: Conflicts) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """The conflicts that lack a barrier, and those that lack a wait."""
    return tuple(_missing_barriers(conflicts)), (
        *_early_accesses(conflicts), *_between_roles(conflicts), *_conflicts_of_tiles(conflicts),
        *_out_of_place(conflicts), *_faults_of_phases(conflicts), *_running_at_end(conflicts))


def _missing_barriers(conflicts: Conflicts) -> Iterator[Finding]:
    """Conflicts within a block that a barrier would order."""
    for c in conflicts.candidates:
        pairs = None if c.at_once else conflicts.unseparated(c)
        if pairs is not None:
            yield _race(conflicts.kernel, c, pairs, "with no barrier between", "put a barrier between the two")


def _at_once(conflicts: Conflicts) -> Iterator[Finding]:
    """Conflicting instances of one statement that run at once, so that no barrier can run between."""
    once: dict[frozenset[int], Candidate] = {}
    for c in conflicts.candidates:
        if c.at_once:
            once.setdefault(frozenset({id(c.source), id(c.sink)}), c)
    for c in once.values():
        pairs = conflicts.unseparated(c)
        if pairs is not None:
            yield _race(conflicts.kernel, c, pairs, "at once", "keep one of the inames sequential", ordered=False)


def _across_blocks(conflicts: Conflicts) -> Iterator[Finding]:
    for c, pairs in conflicts.across_blocks():
        yield _race(conflicts.kernel, c, pairs, "in different blocks, which nothing orders",
                    "keep the iname on the grid sequential, or end the launch between the two", ordered=False)


def _race(knl: LoopKernel, c: Candidate, pairs: Map, how: str, hint: str, *, ordered: bool = True) -> Finding:
    """The finding for *pairs* of *c*; if they are not *ordered*, either instance may come first."""
    a, b = c.source, c.sink
    ways = [(x, y, bound) for x, y, some in ((a, b, pairs), *(() if ordered else ((b, a, pairs.reverse()),)))
            if (bound := _not_assumed(knl, x, y, some)) is not None]
    if not ways:
        return Finding(Verdict.ASSUMED, f"that threads may access one element of '{a.array}' {how} ({a.statement}, "
                                        f"{b.statement}) is an obligation of the kernel.")
    if not (a.exact and b.exact):
        return undecided(f"whether two threads access one element of '{a.array}' {how} ({a.statement}, "
                         f"{b.statement}): {why_undecided(knl, a.array, a.statement, b.statement)}.")
    found = (BrokenPairs.on_one_element(knl, x.array, kind_between(x, y), x.statement, y.statement, some)
             for x, y, some in ways)
    witness = min((broken.witness() for broken in found), key=lambda w: [tuple(at.values()) for at in (
        w.parameters, w.source[1], w.sink[1])])
    what = f"Two threads access one element of '{a.array}'" if a.array else \
        f"'{b.statement}' and '{a.statement}', which dep= orders, run on two threads"
    return refuted(VerificationError(f"{what} {how}.", check="races", witness=witness, hint=hint))


def _not_assumed(knl: LoopKernel, a: Access, b: Access, pairs: Map) -> Map | None:
    """The *pairs* that no obligation covers: the kernel's dependences omit assumed ones. ``None`` if there are none.
    """
    if not knl.obligations:
        return pairs
    if a.array in knl.temporaries:
        bound = without_assumed(knl, a.array, a.statement, b.statement, pairs)
    else:
        own = [d for d in dependences(knl) if d.array == a.array]
        bound = pairs.intersect(reduce(Map.union, [
            *(d.relation for d in own if (d.source, d.sink) == (a.statement, b.statement)),
            *(d.relation.reverse() for d in own if (d.sink, d.source) == (a.statement, b.statement))],
            Map.empty(pairs.get_space())))
    return None if bound.is_empty() else bound


# Completion of asynchronous accesses

def _early_accesses(conflicts: Conflicts) -> Iterator[Finding]:
    """Conflicts with asynchronous accesses without a wait between that covers the asynchronous access."""
    knl = conflicts.kernel
    narrow = any(b.barrier.scope is not Scope.BLOCK and b.barrier.instructions for b in conflicts.ways.places)
    for u in _unfinished(conflicts):
        pairs = next((left for scope, some in ((Scope.THREAD, u), *(_of_others(conflicts, u) if narrow else ()))
                      if (left := _not_covered(conflicts, some, scope)) is not None), None)
        if pairs is not None:
            does = f"access an element of '{u.array}'" if u.array else "start"
            own = (i.noun for i in knl.statement_by_id[u.source].instructions if i.completion is u.completion)
            noun, fence = next(own, ""), u.completion in FENCES
            yield refuted(VerificationError(
                f"'{u.sink}' may {does} before '{u.source}'{f', {noun},' if noun else ''} "
                f"{'has its effect there' if fence else 'is performed'}.", check="races",
                hint=f"{'put a' if fence else 'wait for its'} {u.completion.value} between the two",
                witness=BrokenPairs.on_one_element(knl, u.array, u.kind, u.source, u.sink, pairs).witness()))


def _between_roles(conflicts: Conflicts) -> Iterator[Finding]:
    """Conflicts of the producer thread with others that no phase orders."""
    launch, waits = conflicts.launch, _waits(conflicts)
    for h in hazards(launch, conflicts.storages) if launch.producer is not None else ():
        if not launch.in_two_roles(h.source, h.sink) or launch.statements[h.source].statement.completion.needs_wait:
            continue
        if waits.blocks is None or waits.places is None:
            yield undecided("whether phases order the two roles of a block is not known: when some statements run "
                            "depends on data.")
            return
        if (pairs := waits.unordered(h)) is not None:
            yield refuted(VerificationError(
                f"'{h.sink}' and '{h.source}' access an element of '{h.array}' in two roles, with no phase between.",
                check="races", witness=BrokenPairs.on_one_element(
                    conflicts.kernel, h.array, h.kind, h.source, h.sink, pairs).witness()))


def _out_of_place(conflicts: Conflicts) -> Iterator[Finding]:
    """Synchronisations that a block executes once, but not before or after all the rest."""
    children = parts_of(conflicts.launch.tree)
    once = [isinstance(x, Barrier) and x.outside for x in children]
    if conflicts.launch.producer is not None and any(
            own and i and not all(once[i:]) for i, own in enumerate(once)):
        yield refuted(VerificationError(f"In '{conflicts.launch.name}' a synchronisation that a block executes once is "
                                        "between parts of its work.", check="races",
                                        hint="this is a bug of loopkit: please report it with the kernel"))


def _conflicts_of_tiles(conflicts: Conflicts) -> Iterator[Finding]:
    """Accesses of a block at one place of the grid that may conflict with those at its next place."""
    launch, waits, knl = conflicts.launch, _waits(conflicts), conflicts.kernel
    if not launch.persistent or waits.places is None:
        return
    for h in tile_reads(launch):
        left = waits.unreleased(h, [wait_for(h.completion, place.node.instructions) for place in waits.places])
        if left is not None:
            yield refuted(VerificationError(
                f"The next tile may overwrite '{h.array}' at another place of the grid before '{h.sink}' has read it.",
                check="races", hint="let the warp arrive after the read",
                witness=BrokenPairs.on_one_element(knl, h.array, h.kind, h.source, h.sink, left).witness()))
    users, _ = _users_of_shared_memory(conflicts)
    events = {knl.statement_by_id[s].completion for s in users if knl.statement_by_id[s].completion in BEFORE_END}
    if users and not any(all(pending(b.instructions, e) == 0 for e in events) for b in _before(conflicts)):
        yield refuted(VerificationError(
            f"'{users[0]}' accesses shared memory that threads may still use at another place of the grid.",
            check="races", hint="put a barrier before it, with a wait for asynchronous accesses"))
    for s, b in launch.statements.items():
        event = b.statement.completion
        if event in BEFORE_END and waits.uncommitted(s):
            yield refuted(VerificationError(
                f"A block may go to its next place of the grid before '{s}' is in a group.", check="races",
                hint=f"commit its {event.value} at the end of each place"))
        if event.needs_wait and event not in (Completion.PHASE, *BEFORE_END) and waits.still_running(s):
            yield refuted(VerificationError(
                f"A block may go to its next place of the grid before '{s}' is performed.", check="races",
                hint=f"wait for its {event.value} at the end"))


def _users_of_shared_memory(conflicts: Conflicts) -> tuple[list[str], list[str]]:
    """The statements that access shared arrays, but for those of copies by phases, which rings protect; the arrays."""
    own = conflicts.launch.statements
    in_rings = {b.statement.written for b in own.values() if b.statement.completion is Completion.PHASE}
    arrays = [x for x, storage in conflicts.storages.items() if storage.space is AddressSpace.SHARED
              and x not in in_rings]
    return [s for s, b in own.items() if any(
        a.array in arrays for a in accesses_of(conflicts.kernel, b.statement))], arrays


def _before(conflicts: Conflicts) -> list[Barrier]:
    """The barriers before all accesses to shared arrays at each place of the grid, for the accesses at the last one."""
    launch, (users, arrays) = conflicts.launch, _users_of_shared_memory(conflicts)
    children = parts_of(launch.tree)
    first = next((i for i, child in enumerate(children) if not {*users}.isdisjoint(leaves(child))), 0)
    least = scope_between_places(launch, conflicts.storages, arrays)
    return [b for b in children[:first] if isinstance(b, Barrier) and b.scope >= least
            and (b.scope is not Scope.BLOCK or b.threads == launch.consumers) and not b.outside and not b.producer]


def _running_at_end(conflicts: Conflicts) -> Iterator[Finding]:
    """Accesses to shared memory that may be performed after the block ends."""
    own = [(s, bound.statement.completion) for s, bound in conflicts.launch.statements.items()
           if bound.statement.completion in BEFORE_END]
    for s, event in own:
        if _waits(conflicts).still_running(s):
            yield refuted(VerificationError(f"The block may end before '{s}' has read its shared memory.",
                                            check="races", hint=f"wait for its {event.value} at the end"))


def _faults_of_phases(conflicts: Conflicts) -> Iterator[Finding]:
    """Waits that may take one phase of an mbarrier for another, or wait for one that does not end."""
    if not any(u.completion is Completion.PHASE for u in _unfinished(conflicts)):
        return
    waits = _waits(conflicts)
    if waits.blocks is None or waits.places is None:
        yield undecided("whether threads wait for the right phases is not known: when some statements run depends on "
                        "data.")
        return
    for fault in rings_of(conflicts.launch, waits.tree, waits.blocks).faults():
        at = values_text({**fault.parameters, **fault.place}, " with {}")
        yield refuted(VerificationError(f"{fault.text[0].upper()}{fault.text[1:]}{at}.", check="races",
                                        hint="pipeline(knl, iname, stages) gives each tile a cell of its own"))


def _is_for_completion(conflicts: Conflicts, place: PlacedBarrier) -> bool:
    """Does *place* make the completion of asynchronous accesses visible to other threads?"""
    return any(_not_covered(conflicts, some, scope, place) is not None for u in _unfinished(conflicts)
               if wait_for(u.completion, place.barrier.instructions) for scope, some in _of_others(conflicts, u)) \
        or any(isinstance(i, StartPhases) for i in place.barrier.instructions)


@kept_in_memo
def _unfinished(conflicts: Conflicts) -> tuple[Hazard, ...]:
    return tuple(unfinished(conflicts.launch, conflicts.storages))


@kept_in_memo
def _waits(conflicts: Conflicts) -> Waits:
    return Waits(conflicts.launch, conflicts.launch.tree)


def _of_others(conflicts: Conflicts, u: Hazard) -> Iterator[tuple[Scope, Hazard]]:
    """The pairs of *u* on two threads, and those in two warps, with the scope of the wait that they need."""
    a, b = (conflicts.launch.statements[s] for s in (u.source, u.sink))
    if conflicts.in_registers(u.array):
        return
    accesses_for = max(x.statement.accesses_for(is_write=u.kind != read) for x, read in ((a, "anti"), (b, "flow")))
    for scope, apart in ((Scope.WARP, conflicts.threads.on_two_threads),
                         (Scope.BLOCK, conflicts.threads.in_two_warps)):
        pairs = apart(a, b, u.pairs, accesses_for=accesses_for)
        if pairs is not None:
            yield scope, replace(u, pairs=pairs)


def _not_covered(conflicts: Conflicts, u: Hazard, scope: Scope, but: PlacedBarrier | None = None) -> Map | None:
    """The pairs of *u* without a covering wait of *scope* between, ignoring the wait *but*; ``None``: none."""
    waits, source = _waits(conflicts), conflicts.launch.statements[u.source].statement.completion
    if waits.places is None:
        return _not_surely_waited_for(conflicts, u, scope, but)
    return waits.left(u, scope, [None if but is not None and place.way == but.way else
                                 covering(u.completion, source, place.node.instructions) for place in waits.places])


def _not_surely_waited_for(conflicts: Conflicts, u: Hazard, scope: Scope, but: PlacedBarrier | None) -> Map | None:
    """For waits at unknown times: the pairs of *u* without a must-run wait for all accesses between."""
    source = conflicts.launch.statements[u.source].statement.completion
    waits = [b for b in conflicts.ways.places if b is not but and b.barrier.scope >= scope
             and (wait := covering(u.completion, source, b.barrier.instructions)) is not None
             and wait in (WAITS.get(u.completion), WAITS.get(source))]
    loops = conflicts.loops(u.source, u.sink)
    return union_of_some([differing_first_at(u.pairs, loops, level) for level in conflicts.levels(u.source, u.sink)
                          if not any(b.must_separate(u.source, u.sink, level) for b in waits)])


# Barriers

def barriers(launches: Sequence[Conflicts], functions: Sequence[Function]) -> Check:
    """Does a barrier or a wait order each conflict, and does every thread of the block execute each barrier? Lists the
    conflicts of each barrier."""
    findings = [f for conflicts in launches for found in _unordered(conflicts) for f in found]
    notes: list[str] = []
    count = needless = 0
    for conflicts in launches:
        for i, barrier in enumerate(conflicts.ways.barriers):
            if barrier.barrier is TOGETHER:
                continue
            lines = [f"  {c.what}" for c in conflicts.served_by(i)]
            for_tiles = bool(conflicts.launch.persistent) and any(
                barrier.barrier is b for b in _before(conflicts))
            needed = bool(lines) or for_tiles or _is_for_completion(conflicts, barrier)
            count += 1
            needless += not needed
            why = "" if lines else ", for accesses at the previous place of the grid" if for_tiles else \
                ", for asynchronous accesses of other threads" if needed else ", not needed"
            notes += [f"{conflicts.launch.name}: {barrier}{why}", *lines]
    for conflicts, function in zip(launches, functions, strict=True):
        findings += _divergent_barriers(conflicts.launch, function)
    summary = "none" if not count else f"{count}, {needless} not needed" if needless else \
        f"{count}, each needed"
    return Check("barriers", summary, tuple(findings), tuple(notes), claim=f"barriers: {summary}" if count else "")


def _divergent_barriers(launch: Launch, function: Function) -> Iterator[Finding]:
    for node, why in divergent_nodes(function.body, divergent_names(function, launch.mapping.thread_names)):
        yield refuted(VerificationError(
            f"In '{function.name}' {noun_of(node)} is {why}, which may differ between the threads of a block.",
            check="barriers", hint="this is a bug of loopkit: please report it with the kernel"))
