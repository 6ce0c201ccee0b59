"""loopy's steps for fusion: of kernels, and of loops that a search finds."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import loopkit as lk
from loopkit.analysis.dependences import dependences
from loopkit.analysis.order import loops_of
from loopkit.analysis.ranges import iname_span
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.translation_unit import TranslationUnit, core_of, for_each_kernel, make_program, single_kernel
from loopkit.errors import IllegalTransformError, PreconditionError
from loopkit.kernel.statement import owner
from loopkit.kernel.tree import leaves, loops_in
from loopkit.transform.renaming import exists_in_reductions


def get_kennedy_unweighted_fusion_candidates(kernel: Any, candidates: Collection[str], *, prefix: str = "ifused",
                                             force_infusible: Collection[tuple[str, str]] = frozenset()
                                             ) -> Mapping[str, frozenset[str]]:
    """:func:`loopkit.get_kennedy_unweighted_fusion_candidates`, also of inames of reductions.

    loopy gives no order of loops in a nest. So a loop is a candidate outside of those around it alone, if the
    dependences allow it. Two loops stay apart if ``dep=`` puts a statement between them.
    """
    core = core_of(kernel)
    chosen = [*(x for x in core.inames if x in candidates), *sorted(x for x in candidates if x not in core.inames)]
    reduced = [x for x in chosen if x in core.inames and exists_in_reductions(core, x)]
    loops = [x for x in chosen if x not in reduced]
    force_infusible = {*force_infusible, *_with_statements_between(single_kernel(kernel), loops)}
    groups = [frozenset(old) for old in lk.get_kennedy_unweighted_fusion_candidates(
        _with_outer_loops(core, loops), loops, force_infusible=force_infusible).values()] if loops else []
    groups += map(frozenset, _groups_of_reductions(core, reduced, frozenset(map(frozenset, force_infusible))))
    names: list[str] = []
    for _ in groups:
        names.append(core.fresh_name(prefix, *names))
    return dict(zip(names, groups, strict=True))


def _with_statements_between(kernel: LoopKernel, inames: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Two of *inames* and a statement outside of their loops: it runs after one of the first, before one of the other.

    The dependences are those of the text.
    """
    order, inside = kernel.origin.order, {str(s.id): frozenset(s.within_inames or ()) for s in kernel.core.instructions}
    for x, y in combinations(inames, 2):
        outside = {name for name, own in inside.items() if own.isdisjoint((x, y))}
        for first, second in ((x, y), (y, x)):
            before = frozenset[str]().union(*(order.before(s) for s, own in inside.items() if second in own))
            if any(first in inside.get(s, ()) for b in outside & before for s in order.before(b)):
                yield x, y


def _groups_of_reductions(core: lk.LoopKernel, inames: Iterable[str], apart: Collection[frozenset[str]]
                          ) -> Iterable[Sequence[str]]:
    """Groups of inames of reductions: with the same values, tag and loops around, and no dependence between them."""
    after: dict[str, set[str]] = {}
    for d in dependences(core):
        after.setdefault(owner(d.source), set()).add(owner(d.sink))
    for _ in after:
        for later in after.values():
            later |= {z for y in tuple(later) for z in after.get(y, ())}

    def same(x: str, y: str) -> bool:
        (a, around_a), (b, around_b) = _places(core, x), _places(core, y)
        return around_a == around_b and core.tags.get(x) == core.tags.get(y) and frozenset((x, y)) not in apart \
            and iname_span(core, x).set.is_equal(iname_span(core, y).set) \
            and not any(s != t and (t in after.get(s, ()) or s in after.get(t, ())) for s in a for t in b)
    groups: list[list[str]] = []
    for x in inames:
        group = next((g for g in groups if all(same(x, y) for y in g)), None)
        if group is None:
            groups.append([x])
        else:
            group.append(x)
    return groups


def _places(core: lk.LoopKernel, iname: str) -> tuple[frozenset[str], frozenset[frozenset[str]]]:
    """The statements whose reductions have *iname*, and the loops around these."""
    inside = [next(leaves(loop)) for loop in loops_in(core.tree) if loop.iname == iname]
    around = [loops_of(core.paths[s]) for s in inside]
    return frozenset(map(owner, inside)), frozenset(frozenset(x[:x.index(iname)]) for x in around)


def _with_outer_loops(core: lk.LoopKernel, inames: Collection[str]) -> lk.LoopKernel:
    """*core* with the loops over *inames* outside of those around them alone, where this is legal."""
    for x in inames:
        while around := [loop.iname for loop in loops_in(core.tree) for y in loops_in(loop.body)
                         if y.iname == x and [*leaves(y)] == [*leaves(loop)]]:
            try:
                core = lk.interchange(core, around[-1], x)
            except IllegalTransformError:
                break
    return core


@for_each_kernel
def rename_inames_in_batch(kernel: LoopKernel, batches: Mapping[str, Collection[str]]) -> LoopKernel:
    """:func:`loopkit.rename_inames_in_batch`."""
    order = kernel.core.inames
    groups = {new: sorted(old, key=order.index) if set(old) <= {*order} else sorted(old)
              for new, old in batches.items()}
    core = kernel.core
    for old in groups.values():
        loops = [x for x in old if x in order and not exists_in_reductions(core, x)]
        core = _with_outer_loops(core, loops) if len(loops) > 1 else core
    return kernel.with_core(lk.rename_inames_in_batch(core, groups))


def fuse_kernels(kernels: Sequence[Any], suffixes: Iterable[str] | None = None,
                 data_flow: Iterable[tuple[str, int, int]] | None = None) -> TranslationUnit:
    """:func:`loopkit.fuse_kernels`: a program of one kernel, with the target and the options of the first one.

    A kernel runs after those from which *data_flow* gives it an array.

    >>> import loopkit.compat.loopy as lp
    >>> twice = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="twice")
    >>> add = lp.make_kernel("{[j]: 0<=j<n}", "z[j] = y[j] + 1", name="add")
    >>> fused = lp.fuse_kernels([twice, add], data_flow=[("y", 0, 1)])
    >>> print(fused.default_entrypoint.core.statements_text)
    for i
      y[i] = 2*x[i]  {id=insn}
    end
    for j
      z[j] = y[j] + 1  {id=insn_0, dep=insn}
    end

    :raises PreconditionError: *data_flow* has a number without a kernel.
    """
    given, flow = [single_kernel(kernel) for kernel in kernels], list(data_flow or ())
    _require_places(flow, len(given))
    order = _writers_first(len(given), {(source, sink) for _, source, sink in flow})
    own, names = [given[k] for k in order], None if suffixes is None else list(suffixes)
    if names is not None and len(names) == len(given):
        names = [names[k] for k in order]
    fused = lk.fuse_kernels([kernel.core for kernel in own], names, [
        (name, order.index(source), order.index(sink)) for name, source, sink in flow])
    declared = {name: d for kernel in reversed(given) for name, d in kernel.declared.items() if name in fused.data
                or name in fused.argument_by_name}
    first = given[0]
    return make_program(LoopKernel(fused, first.target, first.options, declared, first.silenced_warnings))


def _require_places(flow: Iterable[tuple[str, int, int]], count: int) -> None:
    """:raises PreconditionError: *flow* has a number that is not one of *count* kernels."""
    for name, *places in flow:
        for k in places:
            if not 0 <= k < count:
                raise PreconditionError(f"data_flow gives '{name}' to or from kernel {k}, and there are {count}.",
                                        subject=name, hint="the numbers of the kernels begin with 0")


def _writers_first(count: int, flow: Collection[tuple[int, int]]) -> list[int]:
    """The numbers of kernels, each after those from which it gets data; in a circle, in the given order."""
    order: list[int] = []
    while len(order) < count:
        left = [k for k in range(count) if k not in order]
        order.append(next((k for k in left if not any((j, k) in flow for j in left if j != k)), left[0]))
    return order
