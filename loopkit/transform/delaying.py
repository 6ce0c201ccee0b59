"""delay: lets some statements of a loop run one or more iterations later, among statements of later iterations."""
from __future__ import annotations

from collections.abc import Iterator, Mapping

import pymbolic.primitives as p

from loopkit.analysis.constructors import rewritten
from loopkit.analysis.legality import require_legal
from loopkit.errors import PreconditionError, ScheduleError, require_known
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import Loop, Tree, in_order_of, leaves, loops_in, parts_of, restricted, rewrite, seq, without
from loopkit.poly.affine import subtract
from loopkit.transform.peel import peel
from loopkit.transform.reindex import Reindexing, reindex
from loopkit.transform.step import require_positive, require_untagged, transform


@transform
def delay(kernel: LoopKernel, iname: str, statements: Mapping[str, str], by: int = 1, *, assume: str | None = None,
          unsafe: bool = False) -> LoopKernel:
    """Let *statements* of the loop over *iname* run *by* iterations later, among statements of later iterations.

    Software pipelining of a computation: matrix units multiply for one iteration while threads compute the factors of
    the next one. The first and the last iterations become loops of their own, over ``t_first`` and ``t_last`` for an
    iname ``t``. By 0 iterations, statements only change their places in an iteration: the parts of a sum move apart, so
    that threads compute while matrix units multiply. The step does not check whether a temporary is overwritten too
    early: lowering does, with a :class:`StorageError`. :func:`pipeline` gives a temporary several cells.

    :arg statements: for the id of each delayed statement, the id of that before which it runs. Several before one run
        in the order of the mapping. The parts of a reduction (``"S.k.init"``, ``"S.k.update"``, ``"S"``) are all
        delayed; by 0 iterations, those behind the last named one stay. A part that is not named runs right before the
        next named part of its reduction. Only the named parts of a reduction over *iname* itself are delayed.
    :arg by: the number of iterations, or 0.
    :raises UnknownNameError: there is no such statement or iname.
    :raises PreconditionError: *iname* has a tag, a mapping is empty, or a statement would run before a delayed one.
    :raises ScheduleError: the statements are not in one loop over *iname*.
    :raises IllegalTransformError: a statement in between needs what a delayed one computes; with its witness.

    >>> knl = lk.make_kernel("{[t, i]: 0<=t<n and 0<=i<8}", '''
    ...     for t
    ...         <> x[i] = a[t, i]  {id=load}
    ...         <> y[i] = 2*x[i]  {id=double}
    ...         b[t, i] = y[i]  {id=store}
    ...     end''')
    >>> print(lk.delay(knl, "t", {"store": "double"}).statements_text)
    for t_first
      for i
        <> x[i] = a[t_first, i]  {id=load_first}
      end
      for i
        <> y[i] = 2*x[i]  {id=double_first}
      end
    end
    for t
      for i
        x[i] = a[t, i]  {id=load}
      end
      for i
        b[t - 1, i] = y[i]  {id=store}
      end
      for i
        y[i] = 2*x[i]  {id=double}
      end
    end
    for t_last, i
      b[t_last - 1, i] = y[i]  {id=store_last}
    end
    """
    require_untagged(kernel, iname, "delayed")
    count, step = 0 if by == 0 else require_positive(by, "iterations"), f"delay({iname!r}, by={by})"
    require_known("statement", [*statements, *statements.values()], kernel.statement_by_id)
    if not statements:
        raise PreconditionError("delay needs the statements that run later.", subject="statements",
                                hint='for example {"store": "load"}')
    loop = _loop_around(kernel, iname, statements)
    moved = _delayed(kernel, statements, count, frozenset(leaves(loop)))
    tree = rewrite(kernel.tree, lambda node: Loop(iname, _reordered(loop, moved)) if node == loop else node)
    result = reindex(kernel, Reindexing((iname,), {iname: subtract(p.Variable(iname), count)}), tree,
                     frozenset(moved))
    result = rewritten(result, statements=in_order_of(tree, result.statements))
    result = require_legal(result, step, assume=assume, unsafe=unsafe)
    return result if count == 0 else peel(result, iname, first=count, last=count, within=list(leaves(loop)),
                                          assume=assume, unsafe=unsafe)


def _delayed(kernel: LoopKernel, statements: Mapping[str, str], count: int, inside: frozenset[str]) -> dict[str, str]:
    """All delayed statements, each with that before which it runs.

    :arg inside: the statements of the loop.
    :raises PreconditionError: a statement would run before a delayed one, or a part of a reduction has no place.
    """
    moved = dict(_with_parts(kernel, statements, count, inside))
    if late := next((s for s in moved.values() if s in moved), None):
        raise PreconditionError(f"'{late}' is delayed itself, so that nothing runs right before it.", subject=late,
                                hint="name a statement that keeps its iteration")
    return moved


def _loop_around(kernel: LoopKernel, iname: str, moved: Mapping[str, str]) -> Loop:
    """The loop over *iname* with all statements of *moved*; :raises ScheduleError: there is none."""
    found = [loop for loop in loops_in(kernel.tree) if loop.iname == iname
             and not moved.keys().isdisjoint(leaves(loop))]
    own = {*leaves(found[0])} if found else set()
    outside = next((s for pair in moved.items() for s in pair if s not in own), "")
    if len(found) != 1 or outside:
        raise ScheduleError(f"The statements are not all in one loop over '{iname}'"
                            + (f": '{outside}' is not." if outside else "."), subject=iname,
                            hint="fuse_loops makes one loop of several")
    return found[0]


def _with_parts(kernel: LoopKernel, statements: Mapping[str, str], count: int, inside: frozenset[str]
                ) -> Iterator[tuple[str, str]]:
    """*statements* with the parts of their reductions, each before what the next named one runs before.

    In the same iteration, with *count* 0, the parts behind the last named one stay. A reduction with parts outside of
    the loop, whose statements are *inside*, goes on from iteration to iteration, so that its parts move by themselves.
    """
    order = [*leaves(kernel.tree)]
    families = {s: frozenset(_family(kernel, s)) for s in statements}
    whole = {s: own if own <= inside else frozenset({s}) for s, own in families.items()}
    before = dict[str, str]()
    for family in dict.fromkeys(whole.values()):
        target = ""
        for s in sorted(family, key=order.index, reverse=True):
            target = statements.get(s, target)
            if target:
                before[s] = target
            elif count:
                raise PreconditionError(f"'{s}' is a part of a reduction, and its place is not given.", subject=s,
                                        hint=f"name '{s}' too")
    every = [x for s in statements for x in sorted(whole[s], key=order.index) if x == s or x not in statements]
    yield from ((s, before[s]) for s in dict.fromkeys(every) if s in before)


def _family(kernel: LoopKernel, statement: str) -> Iterator[str]:
    """*statement*, and the other parts of the reductions that it is a part of."""
    own, new = set[str](), {statement}
    while new:
        own |= new
        new = {s for node in kernel.reductions.values() if not node.parts.isdisjoint(own) for s in node.parts} - own
    yield from own


def _reordered(loop: Loop, moved: Mapping[str, str]) -> Tree:
    """The body of *loop* with the statements *moved*, each in loops of its own, before others."""
    alone = {s: restricted(loop.body, {s}) for s in moved}
    rest = [*parts_of(without(loop.body, moved))]
    for s, target in moved.items():
        at = next(n for n, part in enumerate(rest) if target in leaves(part))
        order = [*leaves(rest[at])]
        earlier = order[:order.index(target)]
        rest[at:at + 1] = [restricted(rest[at], earlier), alone[s], without(rest[at], earlier)]
    return seq(*rest)
