"""Transformations that divide the statements or the iterations of a loop: duplicate_inames, chunk_iname."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.legality import iname_span, require_legal
from loopkit.errors import PreconditionError
from loopkit.kernel.kernel import LoopKernel, unknown
from loopkit.kernel.tags import InameTag
from loopkit.kernel.tree import Leaf, Loop, Seq, Tree, leaves, nest, rewrite, seq
from loopkit.language.names import name_list
from loopkit.poly.affine import TruncatedQuotient, TruncatedRemainder, add, arithmetic, multiply, subtract
from loopkit.poly.bijections import affine_ends
from loopkit.poly.sets import InstanceSet
from loopkit.transform.reindex import Case, Reindexing, reindex, rewrite_loops
from loopkit.transform.step import (
    matching_statements,
    outer_and_inner,
    require_fresh,
    require_iname,
    require_positive,
    require_untagged,
    require_whole_reductions,
    transform,
)
from loopkit.transform.tags import tagged


@transform
def duplicate_inames(kernel: LoopKernel, inames: str | Iterable[str], within: str | Collection[str] | None,
                     new_inames: str | Sequence[str | None] | None = None, suffix: str | None = None,
                     tags: Mapping[str, str | InameTag] | None = None, *, assume: str | None = None,
                     unsafe: bool = False) -> LoopKernel:
    """Give the statements of *within* new inames in place of *inames*.

    A loop that also holds other statements is distributed: each run of statements of *within* gets a loop over the new
    iname, each run of others one over the old iname, in textual order. A temporary that carries a value from one loop
    to a later one needs a cell for each iteration (:func:`privatize`).

    :arg within: ids (or globs) of statements.
    :arg new_inames: names for *inames*, one each; ``None`` stands for a generated name.
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
    old = name_list(inames)
    chosen = matching_statements(kernel, within)
    for x in old:
        require_iname(kernel, x)
        require_whole_reductions(kernel, x, chosen)
        if not any(x in s.inames and (chosen is None or s.id in chosen) for s in kernel.statements):
            raise PreconditionError(f"None of the statements that within= names has the iname '{x}'.", subject=x)
    if not old or len(set(old)) != len(old):
        raise PreconditionError("duplicate_inames needs one or more different inames.", subject=", ".join(old))
    new = _new_names(kernel, old, new_inames, suffix)
    for x in tags or {}:
        if x not in old:
            raise unknown("iname", x, old, where="those to duplicate")
    result = kernel
    for x, own in zip(old, new, strict=True):
        tree = _with_own_loops(result.tree, x, own, chosen)
        result = reindex(result, Reindexing((x,), (own,), {x: p.Variable(own)}), tree,
                         chosen if chosen is not None else frozenset(result.statement_by_id))
    step = f"duplicate_inames({', '.join(old)})"
    result = require_legal(result, step, assume=assume, unsafe=unsafe)
    wanted = {own: tags[x] for x, own in zip(old, new, strict=True) if x in tags} if tags else {}
    return tagged(result, wanted, step, assume=assume, unsafe=unsafe) if wanted else result


@transform
def chunk_iname(kernel: LoopKernel, split_iname: str, num_chunks: int, outer_iname: str | None = None,
                inner_iname: str | None = None, outer_tag: str | InameTag | None = None,
                inner_tag: str | InameTag | None = None, do_tagged_check: bool = True,
                within: str | Collection[str] | None = None, *, assume: str | None = None, unsafe: bool = False
                ) -> LoopKernel:
    """Split *split_iname* into *num_chunks* consecutive chunks of nearly equal length.

    For ``n`` values each chunk has ``n // num_chunks``, and the first ``n % num_chunks`` chunks have one more. The
    whole range of the iname is split, even if other inames bound it further.

    The start of a chunk is an affine form for each chunk separately. The proofs treat up to 32 chunks one by one; more
    chunks need declared array shapes.

    :arg outer_iname: the number of the chunk, default ``i_outer`` for an iname ``i``; *inner_iname*: counts from 0 in
        each chunk, default ``i_inner``.
    :arg outer_tag: tag for the outer iname, as for :func:`tag_inames`; likewise *inner_tag*.
    :arg do_tagged_check: refuse an iname with a tag; otherwise the step removes the tag.
    :arg within: ids (or globs) of the statements whose loops are split; default: all.
    :raises UnknownNameError: *split_iname* is not an iname of *kernel*.
    :raises PreconditionError: *num_chunks* is not a positive integer, *split_iname* has a tag, or its range does not
        begin and end at affine forms in the parameters.
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
    chosen = matching_statements(kernel, within)
    ends = affine_ends(iname_span(kernel, split_iname), kernel.assumptions)
    if ends is None:
        raise PreconditionError(
            f"The range of '{split_iname}' does not begin and end at one affine form in the parameters each.",
            subject=split_iname, hint=f"assume(knl, ...) which bound holds, or split_iname(knl, '{split_iname}', 128)")
    tree = rewrite_loops(kernel, (split_iname,), chosen, lambda loop: nest((outer, inner), loop.body))
    result = reindex(kernel, _chunks(split_iname, outer, inner, ends, count), tree, chosen)
    step = f"chunk_iname({split_iname!r}, {count})"
    result = require_legal(result, step, assume=assume, unsafe=unsafe)
    tags = {x: t for x, t in ((outer, outer_tag), (inner, inner_tag)) if t is not None}
    return tagged(result, tags, step, assume=assume, unsafe=unsafe) if tags else result


def _chunks(iname: str, outer: str, inner: str, ends: tuple[Expression, Expression], count: int) -> Reindexing:
    """Chunk ``k`` starts at ``low + k*(extent // count) + min(k, extent % count)``, an affine form for each ``k``."""
    low, high = ends
    extent = add(high, multiply(-1, low), 1)
    chunk, at = p.Variable(outer), p.Variable(inner)
    # no instance runs where the extent is negative, so that C's own division serves
    length, longer = divmod(extent, count) if isinstance(extent, int) else (
        node(arithmetic(extent), count) for node in (TruncatedQuotient, TruncatedRemainder))
    cases: list[Case] = []
    for k in range(count):
        start, own = add(low, multiply(k, length), at), (("==", add(chunk, -k)), (">=", at))
        cases.append(Case({iname: add(start, k)}, (*own, (">", add(longer, -k)), ("<=", subtract(at, length)))))
        cases.append(Case({iname: add(start, longer)}, (*own, ("<=", add(longer, -k)), ("<", subtract(at, length)))))
    value = add(low, multiply(chunk, length), 0 if longer == 0 else p.Min((chunk, longer)), at)
    old, new = InstanceSet.universe((iname,)), InstanceSet.universe((outer, inner))
    new = new.where((">=", chunk), ("<", add(chunk, -count)), (">=", at))
    new = new.where(("<", subtract(chunk, longer)), ("<=", subtract(at, length))).union(
        new.where((">=", subtract(chunk, longer)), ("<", subtract(at, length))))
    old = old.where((">=", subtract(p.Variable(iname), low)), ("<=", subtract(p.Variable(iname), high)))
    return Reindexing((iname,), (outer, inner), {iname: value}, cases=tuple(cases), whole=(old, new))


def _new_names(kernel: LoopKernel, old: tuple[str, ...], new: str | Sequence[str | None] | None,
               suffix: str | None) -> tuple[str, ...]:
    given = (None,)*len(old) if new is None else name_list(new) if isinstance(new, str) else new
    if len(given) != len(old):
        raise PreconditionError(f"duplicate_inames needs as many new inames as old ones ({', '.join(old)}).",
                                subject="new_inames")
    result: list[str] = []
    for x, name in zip(old, given, strict=True):
        if name is not None or suffix is not None:
            name = name if name is not None else f"{x}{suffix}"
            require_fresh(kernel, name)
        else:
            name = kernel.fresh_name(x, *result)
        result.append(name)
    if len(set(result)) != len(result):
        raise PreconditionError("duplicate_inames needs a new name for each iname.", subject="new_inames")
    return tuple(result)


def _with_own_loops(tree: Tree, iname: str, new: str, chosen: frozenset[str] | None) -> Tree:
    """*tree* with loops over *new* around the statements of *chosen* inside loops over *iname*."""
    def own(statement: str) -> bool:
        return chosen is None or statement in chosen

    def one(node: Tree) -> Tree:
        if not isinstance(node, Loop) or node.iname != iname:
            return node
        runs = [(mine, frozenset(run)) for mine, run in groupby(leaves(node), own)]
        return seq(*(Loop(new if mine else iname, _only(node.body, run)) for mine, run in runs))
    return rewrite(tree, one)


def _only(tree: Tree, statements: frozenset[str]) -> Tree:
    """*tree* restricted to *statements*, some of which it holds."""
    match tree:
        case Loop(iname, body):
            return Loop(iname, _only(body, statements))
        case Seq(children):
            return seq(*(_only(c, statements) for c in children if not statements.isdisjoint(leaves(c))))
        case _:
            assert isinstance(tree, Leaf)
            return tree
