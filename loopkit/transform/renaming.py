"""One name for several inames, whose loops become one loop."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from loopkit.analysis.constructors import annotated
from loopkit.analysis.match import Within
from loopkit.errors import IllegalTransformError, NameConflictError, PreconditionError, ScheduleError
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import leaves, loops_in
from loopkit.transform.iname import rename_iname, renamed
from loopkit.transform.order import fuse_loops
from loopkit.transform.step import iname_list, known_list, matching_statements, require_fresh, transform


@transform
def rename_inames(kernel: LoopKernel, old_inames: str | Iterable[str], new_iname: str,
                  existing_ok: bool = False, within: Within = None, *, assume: str | None = None,
                  unsafe: bool = False) -> LoopKernel:
    """Rename *old_inames* to *new_iname*, and fuse their loops.

    Loops that get one name become one loop, as by :func:`fuse_loops`. The inames of reductions exist only inside them:
    their loops are fused only if they are adjacent and the dependences allow it, and get one name in any case.

    :arg existing_ok: *new_iname* may be an iname already; its loop is fused with the others.
    :arg within: the statements whose loops are renamed; default: all.
    :raises UnknownNameError: there is no such iname.
    :raises PreconditionError: *new_iname* is one of the old inames, or there is no old iname; inames of reductions have
        different tags.
    :raises NameConflictError: the new name is taken.
    :raises ScheduleError: the loops are not adjacent.
    :raises IllegalTransformError: the fusion would break a dependence; with its witness.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<n}", "y[i] = 2*x[i]\\nz[j] = y[j] + 1")
    >>> print(lk.rename_inames(knl, ["i", "j"], "row").statements_text)
    for row
      y[row] = 2*x[row]  {id=insn}
      z[row] = y[row] + 1  {id=insn_0}
    end
    """
    old = iname_list(kernel, old_inames)
    if not old or new_iname in old:
        raise PreconditionError(f"rename_inames needs old inames other than '{new_iname}'.", subject=new_iname,
                                hint="leave the new name out of the old ones, and pass existing_ok=True")
    if new_iname in kernel.inames and existing_ok:
        old = (new_iname, *old)
    else:
        require_fresh(kernel, new_iname)
    if len(old) == 1:
        return rename_iname(kernel, old[0], new_iname, within=within)
    if all(exists_in_reductions(kernel, x) for x in old):
        return _one_name(kernel, old, new_iname, matching_statements(kernel, within))
    return fuse_loops(kernel, old, new_iname, within=within, assume=assume, unsafe=unsafe)


def exists_in_reductions(kernel: LoopKernel, iname: str) -> bool:
    """Is each loop over *iname* one of a reduction?"""
    loops = [frozenset(leaves(loop)) for loop in loops_in(kernel.tree) if loop.iname == iname]
    return all(any(iname in r.inames and not inside.isdisjoint(r.updates) and r.final not in inside
                   for r in kernel.reductions.values()) for inside in loops)


def _one_name(kernel: LoopKernel, old: tuple[str, ...], new: str, within: frozenset[str]) -> LoopKernel:
    """*kernel* with reductions over *new* in place of those over *old*."""
    tags = {kernel.tags.get(x) for x in old}
    if len(tags) > 1:
        raise PreconditionError(f"'{new}' would have the different tags of {', '.join(old)}.", subject=new,
                                hint="give all of them the same tag first")
    nested = [loop.iname for loop in loops_in(kernel.tree) if loop.iname in old
              and any(x.iname in old for x in loops_in(loop.body))]
    if nested:
        raise NameConflictError(f"A loop over one of {', '.join(old)} is inside the one over '{nested[0]}'.",
                                subject=new, hint="leave one of the two out")
    result = kernel
    for x in old:
        result = result if x == new else renamed(result, x, new, within)
    users = frozenset().union(*(kernel.user_tags.get(x, ()) for x in old))
    [tag] = tags
    result = annotated(result, tags=result.tags if tag is None else {**result.tags, new: tag},
                       user_tags={**kernel.user_tags, new: users} if users else kernel.user_tags)
    with suppress(ScheduleError, IllegalTransformError):
        return fuse_loops(result, new, within=sorted(within))
    return result


@transform
def rename_inames_in_batch(kernel: LoopKernel, batches: Mapping[str, Iterable[str]], *, assume: str | None = None,
                           unsafe: bool = False) -> LoopKernel:
    """Rename several groups of inames, each group to one name; see :func:`rename_inames`.

    :arg batches: from each new iname to the inames that it replaces, as from
        ``get_kennedy_unweighted_fusion_candidates``.
    :raises PreconditionError: an iname is in two groups.

    >>> knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<n and 0<=k<n}", '''
    ...     a[i] = 2*x[i]
    ...     b[j] = a[j] + 1
    ...     c[k] = b[n-1-k]
    ...     ''')
    >>> groups = lk.get_kennedy_unweighted_fusion_candidates(knl, ["i", "j", "k"])
    >>> print(lk.rename_inames_in_batch(knl, groups).statements_text)
    for ifused
      a[ifused] = 2*x[ifused]  {id=insn}
      b[ifused] = a[ifused] + 1  {id=insn_0}
    end
    for ifused_0
      c[ifused_0] = b[n - ifused_0 - 1]  {id=insn_1}
    end
    """
    groups = {new: known_list("iname", old, kernel.inames) for new, old in batches.items()}
    every = [x for old in groups.values() for x in dict.fromkeys(old)]
    if twice := next((x for x in every if every.count(x) > 1), None):
        raise PreconditionError(f"'{twice}' is in two groups.", subject=twice, hint="name each iname once")
    for new, old in groups.items():
        kernel = rename_inames(kernel, old, new, assume=assume, unsafe=unsafe)
    return kernel
