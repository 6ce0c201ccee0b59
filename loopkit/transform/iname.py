"""Transformations of single inames: split, join, rename, remove."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.constructors import annotated
from loopkit.analysis.legality import require_legal
from loopkit.analysis.ranges import constant_range
from loopkit.errors import PreconditionError, ScheduleError
from loopkit.expr.mappers import variables
from loopkit.kernel.kernel import LoopKernel, unknown
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import InameTag
from loopkit.kernel.tree import Loop, Tree, nest
from loopkit.language.names import name_list
from loopkit.poly.affine import add, floor_div, multiply, remainder
from loopkit.transform.reindex import Reindexing, reindex, rewrite_loops
from loopkit.transform.step import (
    given_or_fresh,
    matching_statements,
    outer_and_inner,
    require_fresh,
    require_iname,
    require_positive,
    require_untagged,
    transform,
)
from loopkit.transform.tags import tagged


@transform
def split_iname(kernel: LoopKernel, split_iname: str, inner_length: int, *, outer_iname: str | None = None,
                inner_iname: str | None = None, outer_tag: str | InameTag | None = None,
                inner_tag: str | InameTag | None = None,
                within: str | Collection[str] | None = None, assume: str | None = None, unsafe: bool = False
                ) -> LoopKernel:
    """Split *split_iname* into an outer iname and an inner one of length *inner_length*.

    ``split_iname == inner_length*outer_iname + inner_iname`` with ``0 <= inner_iname < inner_length``.

    :arg outer_iname: default ``i_outer`` for an iname ``i``; *inner_iname*: ``i_inner``.
    :arg outer_tag: tag for the outer iname, as for :func:`tag_inames`; likewise *inner_tag*.
    :arg within: ids (or globs) of the statements whose loops are split; default: all.
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
    require_iname(kernel, split_iname)
    length = require_positive(inner_length, "inner_length")
    require_untagged(kernel, split_iname, "split")
    outer, inner = outer_and_inner(kernel, split_iname, outer_iname, inner_iname)
    chosen = matching_statements(kernel, within)
    at = p.Variable(inner)
    step = Reindexing((split_iname,), (outer, inner),
                      {split_iname: add(multiply(length, p.Variable(outer)), at)},
                      ((">=", at), ("<", add(at, -length))))
    tree = rewrite_loops(kernel, (split_iname,), chosen, lambda loop: nest((outer, inner), loop.body))
    result = reindex(kernel, step, tree, chosen)
    tags = {x: t for x, t in ((outer, outer_tag), (inner, inner_tag)) if t is not None}
    return tagged(result, tags, f"split_iname({split_iname!r}, {length})", assume=assume, unsafe=unsafe) if tags \
        else result


@transform
def split_levels(kernel: LoopKernel, split_iname: str, factors: Mapping[str, int | None], *,
                 tags: Mapping[str, str | InameTag] | None = None, within: str | Collection[str] | None = None,
                 assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Split *split_iname* into several inames at once, for example blocks, warps, lanes and elements of a thread.

    The result equals that of repeated :func:`split_iname` of the outer iname, in one step.

    :arg factors: the extents by new iname, outermost first; the extent of the first is ``None``, the remaining number
        of values.
    :arg tags: tags of the new inames, as for :func:`tag_inames`.
    :arg within: ids (or globs) of the statements whose loops are split; default: all.
    :raises UnknownNameError: *split_iname* is not an iname of *kernel*, or a tag is for none of the new ones.
    :raises PreconditionError: fewer than two new inames, a factor that is no positive integer, one for the first, or
        *split_iname* has a tag.
    :raises NameConflictError: a new name is taken.
    :raises IllegalTransformError: a tag would break a dependence.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> knl = lk.split_levels(knl, "i", {"block": None, "warp": 4, "lane": 32}, tags={"block": "g.0", "lane": "l.0"})
    >>> print(knl.statements_text)
    for block [g.0], warp, lane [l.0]
      y[128*block + 32*warp + lane] = 2*x[128*block + 32*warp + lane]  {id=insn}
    end
    """
    require_iname(kernel, split_iname)
    require_untagged(kernel, split_iname, "split")
    names = tuple(factors)
    if len(names) < 2 or factors[names[0]] is not None:
        raise PreconditionError("split_levels needs two or more new inames, the first without a number of values.",
                                subject=split_iname, hint='{"i_outer": None, "i_middle": 4, "i_inner": 32}')
    lengths = {x: require_positive(factors[x], f"the number of values of '{x}'") for x in names[1:]}
    for x in names:
        require_fresh(kernel, x)
    for x in tags or {}:
        if x not in names:
            raise unknown("iname", str(x), names)
    chosen = matching_statements(kernel, within)
    value: Expression = p.Variable(names[0])
    for x, length in lengths.items():
        value = add(multiply(length, value), p.Variable(x))
    conditions = [c for x, length in lengths.items()
                  for c in ((">=", p.Variable(x)), ("<", add(p.Variable(x), -length)))]
    tree = rewrite_loops(kernel, (split_iname,), chosen, lambda loop: nest(names, loop.body))
    result = reindex(kernel, Reindexing((split_iname,), names, {split_iname: value}, tuple(conditions)), tree, chosen)
    return tagged(result, tags, f"split_levels({split_iname!r})", assume=assume, unsafe=unsafe) if tags else result


@transform
def join_inames(kernel: LoopKernel, inames: str | Iterable[str], new_iname: str | None = None, *,
                tag: str | InameTag | None = None, within: str | Collection[str] | None = None,
                assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Join perfectly nested *inames* (outermost first) into one that runs through all their points.

    :arg new_iname: default: the names joined by ``_``.
    :raises PreconditionError: an iname but the first has no constant range, or has a tag.
    :raises ScheduleError: the loops are not nested directly in one another, in that order.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<8}", "y[i, j] = 2*x[i, j]")
    >>> print(lk.join_inames(knl, ["i", "j"]).domains_text)
    [n] -> { [i_j] : 0 <= i_j < 8n }
    """
    inames = name_list(inames)
    for x in inames:
        require_iname(kernel, x)
        require_untagged(kernel, x, "join")
    if len(inames) < 2 or len(set(inames)) != len(inames):
        raise PreconditionError("join_inames needs two or more different inames.", subject=", ".join(inames))
    new = given_or_fresh(kernel, new_iname, "_".join(inames))
    require_fresh(kernel, new)
    chosen = matching_statements(kernel, within)
    for s in kernel.statements:
        own = [x for x in inames if x in s.inames]
        if own and len(own) < len(inames) and (chosen is None or s.id in chosen):
            raise ScheduleError(f"'{s.id}' has only {', '.join(own)} of the inames to join.", subject=s.id,
                                hint="join inames that all their statements share, or name some with within=")
    ranges = {x: _constant_range(kernel, x) for x in inames[1:]}
    values: dict[str, Expression] = {}
    rest: Expression = p.Variable(new)
    for x in reversed(inames[1:]):
        low, extent = ranges[x]
        values[x] = add(remainder(rest, extent), low)
        rest = floor_div(rest, extent)
    values[inames[0]] = rest

    def joined(loop: Loop) -> Tree:
        body: Tree = loop
        for x in inames:
            if not isinstance(body, Loop) or body.iname != x:
                raise ScheduleError(f"The loops over {', '.join(inames)} are not nested directly in one another.",
                                    subject=x, hint="bring them together with prioritize_loops first")
            body = body.body
        return Loop(new, body)
    tree = rewrite_loops(kernel, inames[:1], chosen, joined)
    result = reindex(kernel, Reindexing(inames, (new,), values), tree, chosen)
    return tagged(result, {new: tag}, f"join_inames({list(inames)})", assume=assume, unsafe=unsafe) if tag is not None \
        else result


@transform
def rename_iname(kernel: LoopKernel, old_iname: str, new_iname: str, *,
                 within: str | Collection[str] | None = None) -> LoopKernel:
    """Rename *old_iname* to *new_iname*, in all loops or in those that *within* selects.

    :raises UnknownNameError: there is no such iname.
    :raises NameConflictError: the new name is taken.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> print(lk.rename_iname(knl, "i", "row").domains_text)
    [n] -> { [row] : 0 <= row < n }
    """
    require_iname(kernel, old_iname)
    require_fresh(kernel, new_iname)
    chosen = matching_statements(kernel, within)
    tree = rewrite_loops(kernel, (old_iname,), chosen, lambda loop: Loop(new_iname, loop.body))
    result = reindex(kernel, Reindexing((old_iname,), (new_iname,), {old_iname: p.Variable(new_iname)}), tree, chosen)
    tag = kernel.tags.get(old_iname)
    return annotated(result, tags={**result.tags, new_iname: tag}) if tag is not None else result


@transform
def remove_unused_inames(kernel: LoopKernel, inames: str | Iterable[str] | None = None, *, assume: str | None = None,
                         unsafe: bool = False) -> LoopKernel:
    """Remove inames from the statements that run only one instance along them and do not mention them.

    :arg inames: the candidates; default: all.
    :raises UnknownNameError: one of *inames* is no iname.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and j=0}", "for j\\n y[i] = 2*x[i]\\nend")
    >>> print(lk.remove_unused_inames(knl).domains_text)
    [n] -> { [i] : 0 <= i < n }
    """
    for x in (name_list(inames) if inames is not None else kernel.inames):
        require_iname(kernel, x)
        owners = [s for s in kernel.statements if x in s.inames]
        ranges = {constant_range(kernel, s.domain, x) for s in owners}
        if len(ranges) != 1 or any(x in _mentioned(s) for s in owners):
            continue
        low, high = ranges.pop()
        if low is None or low != high:
            continue
        tree = rewrite_loops(kernel, (x,), None, lambda loop: loop.body)
        kernel = reindex(kernel, Reindexing((x,), (), {x: low}), tree)
    return require_legal(kernel, "remove_unused_inames", assume=assume, unsafe=unsafe)


def _mentioned(statement: Statement) -> frozenset[str]:
    return frozenset().union(*(variables(e) for e in (
        statement.assignee, statement.expression, *statement.predicates)))


def _constant_range(kernel: LoopKernel, iname: str) -> tuple[int, int]:
    """The least value and the extent of *iname*, over all of its statements."""
    owners = [s for s in kernel.statements if iname in s.inames]
    lows, highs = zip(*(constant_range(kernel, s.domain, iname) for s in owners), strict=True)
    if any(v is None for v in (*lows, *highs)):
        raise PreconditionError(f"'{iname}' has no constant range.", subject=iname,
                                hint="only the first of the joined inames may have a parametric extent; fix the "
                                     "parameter or split the iname first")
    return min(lows), max(highs) - min(lows) + 1
