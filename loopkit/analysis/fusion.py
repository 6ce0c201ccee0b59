"""Kennedy's typed fusion: the loops that can be fused in groups, by the dependences between loops in sequence."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count

from loopkit.analysis.dependences import dependences, shared_loops
from loopkit.analysis.match import matching_names
from loopkit.analysis.order import execution_paths, meeting_of
from loopkit.analysis.ranges import iname_span
from loopkit.errors import PreconditionError, ScheduleError, require_known
from loopkit.kernel.annotations import checked
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence
from loopkit.kernel.tags import InameTag, is_parallel
from loopkit.kernel.tree import Loop, Seq, Tree, leaves, loops_in, nodes_in
from loopkit.poly.limits import bounded
from loopkit.poly.relations import differing, in_one_iteration, out_of_time_order
from loopkit.poly.sets import Map, Set

#: Two inames.
Pair = tuple[str, str]


@checked
def get_kennedy_unweighted_fusion_candidates(
        kernel: LoopKernel, candidates: str | Iterable[str], *,
        force_infusible: Iterable[Pair] = frozenset(), prefix: str = "ifused") -> dict[str, tuple[str, ...]]:
    """Groups of loops that can be fused, as few as possible if all loops have the same values and tag.

    The algorithm is the typed fusion of Kennedy and McKinley, *Maximizing Loop Parallelism and Improving Data Locality
    via Loop Fusion and Distribution* (1993). The loops of a group are in one sequence and have the same values and the
    same tag. No dependence is against their fusion, directly or through other statements of the sequence. These
    are the exact dependences of the kernel.

    The nest of loops is that of the kernel. Loops inside different loops are in different groups, so that outer loops
    must be fused before the loops inside them.

    :arg candidates: inames, each of one loop. No loop is inside another one.
    :arg force_infusible: pairs of inames that no group may have together.
    :arg prefix: the start of the new names.
    :returns: for each group a new name and its inames in the order of the text; :func:`rename_inames_in_batch` takes
        this mapping. An iname without partners has a group of its own.
    :raises UnknownNameError: there is no such iname.
    :raises PreconditionError: several loops have one of the inames, or *prefix* cannot be the start of a name.
    :raises ScheduleError: one of the loops is inside another one.

    >>> knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<n and 0<=k<n}", '''
    ...     a[i] = 2*x[i]
    ...     b[j] = a[j] + 1
    ...     c[k] = b[n-1-k]
    ...     ''')
    >>> lk.get_kennedy_unweighted_fusion_candidates(knl, ["i", "j", "k"])
    {'ifused': ('i', 'j'), 'ifused_0': ('k',)}
    """
    chosen = tuple(dict.fromkeys(matching_names(candidates, kernel.inames)))
    if not prefix.isidentifier():
        raise PreconditionError(f"prefix={prefix!r} cannot be the start of a name.", subject="prefix",
                                hint="a name has letters, digits and underscores, and does not begin with a digit")
    apart = frozenset(frozenset(pair) for pair in force_infusible)
    require_known("iname", [*chosen, *sorted(frozenset[str]().union(*apart))], kernel.inames)
    with bounded(f"finding loops of kernel '{kernel.name}' to fuse"):
        _require_separate_loops(kernel.tree, chosen)
        found = [group for bodies in _sequences(kernel.tree)
                 if any(isinstance(body, Loop) and body.iname in chosen for body in bodies)
                 for group in _groups(kernel, bodies, chosen, apart)]
    names: list[str] = []
    for _ in found:
        names.append(kernel.fresh_name(prefix, *names))
    return dict(zip(names, found, strict=True))


def _require_separate_loops(tree: Tree, inames: Collection[str]) -> None:
    """:raises PreconditionError, ScheduleError: one of *inames* has several loops, or one is inside another."""
    loops = [loop for loop in loops_in(tree) if loop.iname in inames]
    for loop in loops:
        if sum(other.iname == loop.iname for other in loops) > 1:
            raise PreconditionError(f"There are several loops over '{loop.iname}'.", subject=loop.iname,
                                    hint=f"rename_iname(knl, '{loop.iname}', ..., within=...) gives each its own name")
        inner = next((x.iname for x in loops_in(loop.body) if x.iname in inames), None)
        if inner is not None:
            raise ScheduleError(f"Loops that can be nested within one another cannot be fused: '{inner}' is inside "
                                f"'{loop.iname}'.", subject=inner, hint="leave one of the two out")


def _sequences(tree: Tree) -> Iterable[Sequence[Tree]]:
    """The children of each sequence of *tree*, a loop without siblings alone."""
    bodies = chain([tree], (node.body for node in nodes_in(tree) if isinstance(node, Loop)))
    return (body.children if isinstance(body, Seq) else (body,) for body in bodies)


@dataclass(frozen=True)
class _Graph:
    """The dependences among nodes in sequence, within an iteration of the loops around them.

    :ivar before: for each node, those that must run before it; *against*: the pairs of loops whose fusion would break
        a dependence.
    """

    before: Mapping[int, Collection[int]]
    against: Collection[tuple[int, int]]


def _groups(kernel: LoopKernel, bodies: Sequence[Tree], chosen: Collection[str], apart: Collection[frozenset[str]]
            ) -> list[tuple[str, ...]]:
    """The groups of loops over *chosen* among *bodies*: each loop joins the first group that its dependences allow."""
    graph = _graph(kernel, bodies)
    loops = {k: body.iname for k, body in enumerate(bodies) if isinstance(body, Loop) and body.iname in chosen}
    kinds = _kinds(kernel, loops)
    group_of: dict[int, int] = {}
    last: dict[int, int] = {}                   # the last group that each node must follow
    for node in range(len(bodies)):
        behind = {-1}
        for other in graph.before[node]:
            fusible = node in loops and other in loops and kinds[node] == kinds[other] \
                and (other, node) not in graph.against
            behind.add(group_of[other] if other in loops and not fusible else last[other])
        last[node] = max(behind)
        if node in loops:
            unlike = {group for other, group in group_of.items() if kinds[other] != kinds[node]
                      or frozenset((loops[other], loops[node])) in apart}
            group_of[node] = next(group for group in count(last[node] + 1) if group not in unlike)
            # a group is where its loops run: no later node may run before it
            last[node] = max(last[node], group_of[node] - 1)
    return [tuple(loops[k] for k, own in group_of.items() if own == group) for group in sorted({*group_of.values()})]


def _kinds(kernel: LoopKernel, loops: Mapping[int, str]) -> dict[int, int]:
    """A number for each of *loops*, the same for loops with one tag and the same values."""
    found: list[tuple[InameTag | None, Set]] = []
    result: dict[int, int] = {}
    for k, iname in loops.items():
        tag, values = kernel.tags.get(iname), iname_span(kernel, iname).set.intersect_params(kernel.assumptions)
        at = next((n for n, (other, points) in enumerate(found) if other == tag and values.is_equal(points)), None)
        result[k] = len(found) if at is None else at
        found += [(tag, values)] if at is None else []
    return result


def _graph(kernel: LoopKernel, bodies: Sequence[Tree]) -> _Graph:
    place = {s: k for k, body in enumerate(bodies) for s in leaves(body)}
    before: dict[int, set[int]] = {k: set() for k in range(len(bodies))}
    against: set[tuple[int, int]] = set()
    for d in dependences(kernel):
        pair = place.get(d.source, -1), place.get(d.sink, -1)
        if -1 in pair or pair[0] >= pair[1]:            # some updates of a reduction may run in any order
            continue
        pairs = in_sequence(kernel, d)
        if pairs.is_empty():
            continue
        before[pair[1]].add(pair[0])
        first, second = (bodies[k] for k in pair)
        if isinstance(first, Loop) and isinstance(second, Loop) and pair not in against:
            own = [(kernel.statement_by_id[d.source].inames.index(first.iname),
                    kernel.statement_by_id[d.sink].inames.index(second.iname))]
            parallel = is_parallel(kernel.tags.get(first.iname)) or is_parallel(kernel.tags.get(second.iname))
            broken = differing(pairs, own) if parallel else out_of_time_order(pairs, own, before=True)
            against |= set() if broken is None else {pair}
    for barrier in kernel.barriers:
        pair = place.get(barrier.first, -1), place.get(barrier.second, -1)
        if -1 not in pair and pair[0] < pair[1]:
            before[pair[1]].add(pair[0])
            against.add(pair)
    return _Graph(before, against)


def in_sequence(kernel: LoopKernel, d: Dependence) -> Map:
    """The pairs of *d* within one iteration of the loops that both statements share."""
    loops = meeting_of(execution_paths(kernel), d.source, d.sink).loops
    return in_one_iteration(d.relation, shared_loops(kernel, d.source, d.sink, loops))
