"""Transformations of single inames: split, chunk, join, rename, duplicate, remove."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.constructors import annotated
from loopkit.analysis.legality import require_legal
from loopkit.analysis.match import Within, matching_names
from loopkit.analysis.order import loops_of
from loopkit.analysis.ranges import constant_range, iname_range, iname_span
from loopkit.errors import PreconditionError, require_known
from loopkit.expr.mappers import subexpressions
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import TAGS, InameTag
from loopkit.language.names import name_list
from loopkit.poly.affine import (
    TruncatedQuotient,
    TruncatedRemainder,
    add,
    arithmetic,
    digit_of,
    multiply,
    subtract,
)
from loopkit.poly.domains import affine_ends
from loopkit.poly.extents import has_greatest
from loopkit.poly.sets import Condition, InstanceSet, bounded_by
from loopkit.transform.reindex import Reindexing, mentioned, not_nested, reindex, reindex_loops, with_own_loops
from loopkit.transform.step import (
    known_list,
    matching_statements,
    new_name,
    outer_and_inner,
    require_fresh,
    require_iname,
    require_owners,
    require_positive,
    require_untagged,
    require_whole_reductions,
    transform,
)
from loopkit.transform.tags import tagged


@transform
def split_iname(kernel: LoopKernel, split_iname: str, inner_length: int, *, outer_iname: str | None = None,
                inner_iname: str | None = None, outer_tag: str | InameTag | None = None,
                inner_tag: str | InameTag | None = None,
                within: Within = None, assume: str | None = None, unsafe: bool = False
                ) -> LoopKernel:
    """Split *split_iname* into an outer iname and an inner one of length *inner_length*.

    ``split_iname == inner_length*outer_iname + inner_iname`` with ``0 <= inner_iname < inner_length``.

    :arg outer_iname: default ``i_outer`` for an iname ``i``; *inner_iname*: ``i_inner``.
    :arg outer_tag: tag for the outer iname, as for :func:`tag_inames`; likewise *inner_tag*.
    :arg within: the statements whose loops are split; default: all. A loop
        that also holds other statements is distributed, if the dependences allow it.
    :raises UnknownNameError: *split_iname* is not an iname of *kernel*.
    :raises PreconditionError: *inner_length* is not a positive integer, or *split_iname* has a tag.
    :raises NameConflictError: a new name is taken.
    :raises IllegalTransformError: a tag would break a dependence.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> print(knl.domains_text)
    [n] -> { [i] : 0 <= i < n }
    >>> print(lk.split_iname(knl, "i", 4).domains_text)
    [n] -> { [i_outer, i_inner] : i_outer >= 0 and 0 <= i_inner <= 3 and i_inner < n - 4i_outer }
    """
    length = require_positive(inner_length, "inner_length")
    require_untagged(kernel, split_iname, "split")
    outer, inner = outer_and_inner(kernel, split_iname, outer_iname, inner_iname)
    chosen = matching_statements(kernel, within, split_iname)
    result = split_into(kernel, split_iname, outer, {inner: length}, chosen, assume=assume, unsafe=unsafe)
    return tagged(result, {outer: outer_tag, inner: inner_tag}, f"split_iname({split_iname!r}, {length})",
                           assume=assume, unsafe=unsafe)


@transform
def split_levels(kernel: LoopKernel, split_iname: str, factors: Mapping[str, int | None], *,
                 tags: Mapping[str, str | InameTag] | None = None, within: Within = None,
                 assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Split *split_iname* into several inames at once, for example blocks, warps, lanes and elements of a thread.

    The result equals that of repeated :func:`split_iname` of the outer iname, in one step.

    :arg factors: a mapping from each new iname to its extent (the number of its values), outermost first. The extent of
        the first iname is ``None``: it covers all values of *split_iname*.
    :arg tags: tags of the new inames, as for :func:`tag_inames`.
    :arg within: the statements whose loops are split; default: all. A loop
        that also holds other statements is distributed, if the dependences allow it.
    :raises UnknownNameError: *split_iname* is not an iname of *kernel*, or a tag is for an iname that is not new.
    :raises PreconditionError: there are fewer than two new inames, a factor is not a positive integer, the first iname
        has a factor, or *split_iname* has a tag.
    :raises NameConflictError: a new name is taken.
    :raises IllegalTransformError: a tag would break a dependence.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> knl = lk.split_levels(knl, "i", {"block": None, "warp": 4, "lane": 32}, tags={"block": "g.0", "lane": "l.0"})
    >>> print(knl.statements_text)
    for block [g.0], warp, lane [l.0]
      y[128*block + 32*warp + lane] = 2*x[128*block + 32*warp + lane]  {id=insn}
    end
    """
    require_untagged(kernel, split_iname, "split")
    names = tuple(factors)
    if len(names) < 2 or factors[names[0]] is not None:
        raise PreconditionError("split_levels needs two or more new inames, the first with the extent None.",
                                subject=split_iname, hint='{"i_outer": None, "i_middle": 4, "i_inner": 32}')
    lengths = {x: require_positive(factors[x], f"the number of values of '{x}'") for x in names[1:]}
    for x in names:
        require_fresh(kernel, x)
    require_known("iname", tags or (), names)
    chosen = matching_statements(kernel, within, split_iname)
    result = split_into(kernel, split_iname, names[0], lengths, chosen, assume=assume, unsafe=unsafe)
    return tagged(result, tags or {}, f"split_levels({split_iname!r})", assume=assume, unsafe=unsafe)


def split_into(kernel: LoopKernel, iname: str, outer: str, lengths: Mapping[str, int], chosen: frozenset[str],
               start: Expression = 0, *, assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """*kernel* with *iname*, counted from *start*, split into *outer* and inner inames of these *lengths*."""
    names = (outer, *lengths)
    value: Expression = p.Variable(outer)
    for x, length in lengths.items():
        value = add(multiply(length, value), p.Variable(x))
    conditions = [c for x, length in lengths.items() for c in bounded_by(x, 0, length)]
    step = Reindexing(names, {iname: add(value, start)}, tuple(conditions), extents=lengths)
    return reindex_loops(kernel, step, chosen, assume=assume, unsafe=unsafe)


@transform
def chunk_iname(kernel: LoopKernel, split_iname: str, num_chunks: int, outer_iname: str | None = None,
                inner_iname: str | None = None, outer_tag: str | InameTag | None = None,
                inner_tag: str | InameTag | None = None, do_tagged_check: bool = True,
                within: Within = None, *, assume: str | None = None, unsafe: bool = False
                ) -> LoopKernel:
    """Split *split_iname* into *num_chunks* consecutive chunks of nearly equal length.

    For ``n`` values each chunk has ``n // num_chunks``, and the first ``n % num_chunks`` chunks have one more. The
    whole range of the iname is split, even if other inames bound it further.

    The start of a chunk is an affine form only if the number of the chunk is fixed. Proofs therefore treat the chunks
    one by one, up to 32 of them. With more chunks, declare the shapes of the arrays.

    :arg outer_iname: the number of the chunk, default ``i_outer`` for an iname ``i``; *inner_iname*: counts from 0 in
        each chunk, default ``i_inner``.
    :arg outer_tag: tag for the outer iname, as for :func:`tag_inames`; likewise *inner_tag*.
    :arg do_tagged_check: refuse an iname with a tag; otherwise the step removes the tag.
    :arg within: the statements whose loops are split; default: all. A loop
        that also holds other statements is distributed, if the dependences allow it.
    :raises UnknownNameError: *split_iname* is not an iname of *kernel*.
    :raises PreconditionError: *num_chunks* is not a positive integer, *split_iname* has a tag, or its first or last
        value is not an affine form in the parameters.
    :raises NameConflictError: a new name is taken.
    :raises IllegalTransformError: a tag would break a dependence.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = i")
    >>> print(lk.chunk_iname(knl, "i", 4, inner_iname="k").statements_text)
    for i_outer, k
      y[i_outer*(n // 4) + min(i_outer, n % 4) + k] = i_outer*(n // 4) + min(i_outer, n % 4) + k  {id=insn}
    end
    """
    require_iname(kernel, split_iname)
    count = require_positive(num_chunks, "num_chunks")
    if do_tagged_check:
        require_untagged(kernel, split_iname, "chunked")
    outer, inner = outer_and_inner(kernel, split_iname, outer_iname, inner_iname)
    chosen = matching_statements(kernel, within, split_iname)
    ends = affine_ends(iname_span(kernel, split_iname), kernel.assumptions)
    if ends is None:
        raise PreconditionError(
            f"The first and the last value of '{split_iname}' are not affine forms in the parameters.",
            subject=split_iname, hint=f"assume which bound holds, or split_iname(knl, '{split_iname}', 128)")
    result = reindex_loops(kernel, _chunks(split_iname, outer, inner, ends, count), chosen, assume=assume,
                           unsafe=unsafe)
    step = f"chunk_iname({split_iname!r}, {count})"
    result = require_legal(result, step, assume=assume, unsafe=unsafe)
    return tagged(result, {outer: outer_tag, inner: inner_tag}, step, assume=assume, unsafe=unsafe)


def _chunks(iname: str, outer: str, inner: str, ends: tuple[Expression, Expression], count: int) -> Reindexing:
    """Chunk ``k`` starts at ``low + k*(extent // count) + min(k, extent % count)``, an affine form for each ``k``."""
    low, high = ends
    extent = add(high, multiply(-1, low), 1)
    chunk, at = p.Variable(outer), p.Variable(inner)
    # no instance runs if the extent is negative, so truncating division is correct
    length, longer = divmod(extent, count) if isinstance(extent, int) else (
        node(arithmetic(extent), count) for node in (TruncatedQuotient, TruncatedRemainder))
    names, cases = (outer, inner), list[Reindexing]()
    for k in range(count):
        start, own = add(low, multiply(k, length), at), (("==", add(chunk, -k)), (">=", at))
        long, short = (">", add(longer, -k)), ("<=", add(longer, -k))
        cases += [Reindexing(names, {iname: add(start, k)}, (*own, long, ("<=", subtract(at, length)))),
                  Reindexing(names, {iname: add(start, longer)}, (*own, short, ("<", subtract(at, length))))]
    value = add(low, multiply(chunk, length), 0 if longer == 0 else p.Min((chunk, longer)), at)
    old, new = InstanceSet.universe((iname,)), InstanceSet.universe(names)
    new = new.where((">=", chunk), ("<", add(chunk, -count)), (">=", at))
    new = new.where(("<", subtract(chunk, longer)), ("<=", subtract(at, length))).union(
        new.where((">=", subtract(chunk, longer)), ("<", subtract(at, length))))
    old = old.where(*bounded_by(iname, low, add(high, 1)))
    return Reindexing(names, {iname: value}, cases=tuple(cases), whole=(old, new))


@transform
def join_inames(kernel: LoopKernel, inames: str | Iterable[str], new_iname: str | None = None, *,
                tag: str | InameTag | None = None, within: Within = None,
                assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Join perfectly nested *inames* (outermost first) into one iname that runs through all their points.

    If a quotient of sizes bounds the first iname, an upper bound of the new one keeps its loop free of a condition.

    :arg new_iname: default: the names joined by ``_``.
    :arg tag: its tag; default: ``l.auto`` if all of *inames* have this tag, else none.
    :raises UnknownNameError: there is no such iname.
    :raises NameConflictError: the new name is taken.
    :raises PreconditionError: an iname has a tag, or an iname other than the first has no constant range.
    :raises ScheduleError: the loops are not nested directly in one another, in that order.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<8}", "y[i, j] = 2*x[i, j]")
    >>> print(lk.join_inames(knl, ["i", "j"]).domains_text)
    [n] -> { [i_j] : 0 <= i_j < 8n }
    """
    inames = matching_names(inames, kernel.inames)
    auto = TAGS["l.auto"]
    if inames and all(kernel.tags.get(x) == auto for x in inames):
        tag = auto if tag is None else tag
    else:
        for x in inames:
            require_untagged(kernel, x, "joined")
    if len(inames) < 2 or len(set(inames)) != len(inames):
        raise PreconditionError("join_inames needs two or more different inames.", subject=", ".join(inames))
    new = new_name(kernel, new_iname, "_".join(inames))
    chosen = matching_statements(kernel, within)
    for s in require_owners(kernel, inames, chosen, "join"):
        loops = loops_of(kernel.paths[s.id])
        for x, inner in pairwise(inames):
            if loops.index(inner) != loops.index(x) + 1:
                raise not_nested(inames, inner)
    values: dict[str, Expression] = {}
    number, count = p.Variable(new), 1
    for x in reversed(inames[1:]):
        low, extent = iname_range(kernel, x)
        if not extent:
            raise PreconditionError(f"'{x}' has no constant range.", subject=x,
                                    hint="only the first joined iname may have a parametric extent; fix the "
                                         "parameter or split the iname first")
        values[x] = add(digit_of(number, count, extent), low)
        count *= extent
    values[inames[0]] = digit_of(number, count, 0)
    step = Reindexing((new,), values, _end_of_joined(kernel, inames[0], new, count))
    result = reindex_loops(kernel, step, chosen, assume=assume, unsafe=unsafe)
    return tagged(result, {new: tag}, f"join_inames({list(inames)})", assume=assume, unsafe=unsafe)


def _end_of_joined(kernel: LoopKernel, first: str, new: str, count: int) -> tuple[Condition, ...]:
    """An upper bound of *new*, with *count* values for each value of *first*, that isl would only find as a condition.

    isl makes exact loops of ``0 <= i < n``, but not of ``64*i < n`` once ``new // count`` is in the place of *i*.
    """
    span = iname_span(kernel, first)
    ends = affine_ends(span, kernel.assumptions) if has_greatest(span) else None
    if ends is None or not any(isinstance(e, p.FloorDiv) for e in subexpressions(ends[1])):
        return ()
    return (bounded_by(new, 0, multiply(count, add(ends[1], 1)))[1],)


@transform
def rename_iname(kernel: LoopKernel, old_iname: str, new_iname: str, *,
                 within: Within = None) -> LoopKernel:
    """Rename *old_iname* to *new_iname*, in all loops or in the loops around the statements of *within*.

    :raises UnknownNameError: there is no such iname.
    :raises NameConflictError: the new name is taken.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> print(lk.rename_iname(knl, "i", "row").domains_text)
    [n] -> { [row] : 0 <= row < n }
    """
    require_iname(kernel, old_iname)
    require_fresh(kernel, new_iname)
    result = renamed(kernel, old_iname, new_iname, matching_statements(kernel, within, old_iname))
    tags, users = kernel.tags, kernel.user_tags
    return annotated(result, tags={**result.tags, **({new_iname: tags[old_iname]} if old_iname in tags else {})},
                     user_tags={**users, **({new_iname: users[old_iname]} if old_iname in users else {})})


def renamed(kernel: LoopKernel, old: str, new: str, within: frozenset[str]) -> LoopKernel:
    """*kernel* with *new*, without a tag, in place of *old* in the statements *within*."""
    return reindex_loops(kernel, Reindexing((new,), {old: p.Variable(new)}), within)


@transform
def duplicate_inames(kernel: LoopKernel, inames: str | Iterable[str], within: Within,
                     new_inames: str | Sequence[str | None] | None = None, suffix: str | None = None,
                     tags: Mapping[str, str | InameTag] | None = None, *, assume: str | None = None,
                     unsafe: bool = False) -> LoopKernel:
    """Give the statements of *within* new inames in place of *inames*.

    A loop that also holds other statements is distributed: each run of statements of *within* gets a loop over the new
    iname, each run of others one over the old iname, in textual order. A temporary that carries a value from one loop
    to a later one needs a cell for each iteration (:func:`privatize`).

    :arg within: the statements; ``None``: all.
    :arg new_inames: names for *inames*, one each; ``None`` gives a generated name.
    :arg suffix: appended to a name to make the new one; default: ``_`` and the first free number.
    :arg tags: tags of the new inames, by old iname; the new inames do not inherit tags.
    :raises UnknownNameError: an iname or a statement is unknown, or *tags* has an iname that is not duplicated.
    :raises PreconditionError: no statement of *within* has an iname, or there are not as many new names as old ones.
    :raises NameConflictError: a new name is taken.
    :raises ScheduleError: *within* names a part of a reduction.
    :raises IllegalTransformError: a loop cannot be distributed, as dependences between its statements form a cycle;
        with its witness.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "for i\\n y[i] = x[i] {id=A}\\n z[i] = 2*y[i] {id=B}\\nend")
    >>> print(lk.duplicate_inames(knl, "i", within="B").statements_text)
    for i
      y[i] = x[i]  {id=A}
    end
    for i_0
      z[i_0] = 2*y[i_0]  {id=B}
    end
    """
    old = known_list("iname", inames, kernel.inames)
    chosen = matching_statements(kernel, within)
    for x in old:
        require_whole_reductions(kernel, x, chosen)
        require_owners(kernel, (x,), chosen, "duplicate")
    if not old or len(set(old)) != len(old):
        raise PreconditionError("duplicate_inames needs one or more different inames.", subject=", ".join(old))
    new = _new_names(kernel, old, new_inames, suffix)
    require_known("iname", tags or (), old, where="those to duplicate")
    result = kernel
    for x, own in zip(old, new, strict=True):
        tree = with_own_loops(result.tree, x, own, chosen)
        result = reindex(result, Reindexing((own,), {x: p.Variable(own)}), tree, chosen)
    step = f"duplicate_inames({', '.join(old)})"
    result = require_legal(result, step, assume=assume, unsafe=unsafe)
    return tagged(result, {own: (tags or {}).get(x) for x, own in zip(old, new, strict=True)}, step,
                           assume=assume, unsafe=unsafe)


def _new_names(kernel: LoopKernel, old: tuple[str, ...], new: str | Sequence[str | None] | None,
               suffix: str | None) -> tuple[str, ...]:
    given = (None,)*len(old) if new is None else name_list(new) if isinstance(new, str) else new
    if len(given) != len(old):
        raise PreconditionError(f"duplicate_inames needs as many new inames as old ones ({', '.join(old)}).",
                                subject="new_inames")
    result: list[str] = []
    for x, name in zip(old, given, strict=True):
        if name is None:
            name = kernel.fresh_name(x, *result) if suffix is None else f"{x}{suffix}"
        require_fresh(kernel, name)
        result.append(name)
    if len(set(result)) != len(result):
        raise PreconditionError("duplicate_inames needs a new name for each iname.", subject="new_inames")
    return tuple(result)


@transform
def remove_unused_inames(kernel: LoopKernel, inames: str | Iterable[str] | None = None, *, assume: str | None = None,
                         unsafe: bool = False) -> LoopKernel:
    """Remove inames from the statements that run only one instance along them and do not mention them.

    :arg inames: the candidates; default: all.
    :raises UnknownNameError: one of *inames* is not an iname.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and j=0}", "for j\\n y[i] = 2*x[i]\\nend")
    >>> print(lk.remove_unused_inames(knl).domains_text)
    [n] -> { [i] : 0 <= i < n }
    """
    for x in kernel.inames if inames is None else known_list("iname", inames, kernel.inames):
        owners = [s for s in kernel.statements if x in s.inames]
        bounds = {bound for s in owners for bound in constant_range(kernel, s.domain, x)}
        if len(bounds) == 1 and (value := bounds.pop()) is not None and not any(x in mentioned(s) for s in owners):
            kernel = reindex_loops(kernel, Reindexing((), {x: value}), frozenset(kernel.statement_by_id))
    return require_legal(kernel, "remove_unused_inames", assume=assume, unsafe=unsafe)
