"""pipeline: software pipelining; copies for later iterations overlap the computation of the current iteration."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pymbolic.primitives as p

from loopkit.analysis.accesses import accesses_by_array, accesses_of, data_params, fastest_last
from loopkit.analysis.constructors import annotated, rewritten, with_axes, with_dependences, with_other_axes
from loopkit.analysis.dependences import identity_pairs
from loopkit.analysis.order import loops_of
from loopkit.analysis.ranges import iname_range
from loopkit.analysis.shapes import array_shapes
from loopkit.ast.nodes import Completion
from loopkit.errors import PreconditionError, ScheduleError, StorageError
from loopkit.kernel.data import AddressSpace, TemporaryVariable
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, Statement
from loopkit.kernel.tags import AutoLocalTag, InameTag, LocalTag, UnrollTag, is_parallel
from loopkit.kernel.tree import Loop, in_order_of, leaves, loops_in, parts_of, rewrite_over, seq, with_ids
from loopkit.poly.affine import add, remainder, subtract
from loopkit.transform.engines import with_asynchronous_copies
from loopkit.transform.expansion import require_cells, require_not_carried
from loopkit.transform.peel import peel
from loopkit.transform.reindex import Reindexing, reindex
from loopkit.transform.side_effects import Allowed, side_effect
from loopkit.transform.step import known_list, require_positive, require_untagged, transform
from loopkit.transform.tags import tagged
from loopkit.transform.thread_distribution import block_of, distributed


@transform
def pipeline(kernel: LoopKernel, iname: str, stages: int = 2, *, temporaries: str | Iterable[str] | None = None,
             registers: bool | None = None, asynchronous: bool = False, ahead: int | None = None,
             allow_global_storage: bool = False, allow_launches: bool = False, assume: str | None = None,
             unsafe: bool = False) -> LoopKernel:
    """Overlap the copies for later iterations of the loop over *iname* with the computation of the current iteration.

    A copy is a statement of the loop that writes a temporary read in the same iteration; ``add_prefetch``,
    ``precompute`` and ``buffer_array`` make copies. Each copy runs *ahead* iterations ahead. Its first instances run
    before the loop, in a loop over ``k_first`` for an iname ``k``. Each temporary gains a leading axis of *stages*
    cells, subscripted by ``k % stages``, so no value is clobbered before it is read.

    With *registers*, each thread loads its elements into a private temporary (``a_next`` for ``a``) at the beginning of
    an iteration and stores them at its end. One stage needs two barriers around the store, two stages need one. This
    step distributes ``l.auto`` inames over the ``l`` axes of the loop, so that a thread stores what it loaded.

    With *asynchronous*, ``cp.async`` (sm_80 and later) copies to shared memory, and waits leave as many commit groups
    pending as possible. Copies that already have an asynchronous engine (:func:`add_prefetch`) need no such argument.

    :arg stages: the number of tiles held at once.
    :arg temporaries: default: all copied from arrays alone, by a copy that shares no inner loop with other statements.
    :arg registers: hold a tile in registers from its load to its store; default: yes, unless *asynchronous*.
    :arg asynchronous: use ``cp.async`` for 4, 8 or 16 bytes, also of vectors. It can transpose and fill with 0 only.
    :arg ahead: default: *stages* - 1, or one for one stage. With fewer, asynchronous readers of a tile may run longer.
        0: copies stay in their iterations, and a producer thread runs ahead by itself (:func:`specialize_warps`).
    :arg allow_global_storage: as for :func:`add_prefetch`, for other temporaries; so is *allow_launches*.
    :raises UnknownNameError, PreconditionError: an unknown name; *iname* has a tag; no copy can be pipelined this way.
    :raises ScheduleError: the copies are in several loops over *iname*, or in an inner loop with other statements.
    :raises StorageError: a temporary's shape and address space were declared, or another one would get more cells.
    :raises IllegalTransformError: an iteration that a copy would run ahead of writes the copied elements, or a value is
        read in another iteration; with its witness.

    >>> knl = lk.make_kernel("{[k, i, j]: 0<=k<n and 0<=i,j<16}", '''
    ...     for k
    ...         for i
    ...             <> t[i] = a[k, i]  {id=copy}
    ...         end
    ...         for j
    ...             c[k, j] = t[15 - j]  {id=use}
    ...         end
    ...     end''')
    >>> print(lk.pipeline(knl, "k").statements_text)
    for k_first, i
      t[k_first, i] = a[k_first, i]  {id=copy_first}
    end
    for k
      for i
        t_next[i] = a[k + 1, i]  {id=t_load}
      end
      for j
        c[k, j] = t[k % 2, 15 - j]  {id=use}
      end
      for i
        t[(k + 1) % 2, i] = t_next[i]  {id=copy}
      end
    end
    """
    _require_loop(kernel, iname, ahead)
    copies = _copies(kernel, iname, temporaries, moves=ahead != 0)
    asynchronous |= bool(own := _asynchronous(kernel, iname, copies, asynchronous))
    way = count, _, in_registers = _require_stages(iname, stages, ahead, registers, asynchronous)
    step = f"pipeline({iname}, stages={count})"
    allowed = Allowed(False, allow_global_storage, allow_launches, assume, unsafe)
    _require_open_storage(kernel, names := frozenset(copies.values()), count)
    before, kernel = kernel, require_not_carried(kernel, (iname,), names, step, assume, unsafe)
    kernel = with_asynchronous_copies(kernel, copies.keys() - own) if asynchronous else kernel
    kernel = _distributed_over_threads(kernel, iname, copies, step, allowed) if in_registers else kernel
    result = _overlapped(kernel, iname, copies, way, allowed, step)
    if (effect := side_effect(before, result, step, allowed, names)) is not None:
        raise effect
    return result


def _require_loop(kernel: LoopKernel, iname: str, ahead: int | None) -> None:
    """:raises PreconditionError: *iname* has a tag; copies that stay in their iterations may be unrolled with them."""
    if ahead != 0 or not isinstance(kernel.tags.get(iname), UnrollTag):
        require_untagged(kernel, iname, "pipelined")


def _overlapped(kernel: LoopKernel, iname: str, copies: _Copies, way: tuple[int, int, bool], allowed: Allowed, step: str
                ) -> LoopKernel:
    """*kernel* with its *copies* in stages and ahead of their readers.

    :arg way: the result of :func:`_require_stages`.
    """
    count, distance, in_registers = way
    result = _in_stages(kernel, iname, frozenset(copies.values()), count)
    result = _moved_ahead(result, iname, copies, distance, last=in_registers) if distance else result
    result = allowed.legal(result, step)
    result = _with_prologue(result, iname, copies, distance) if distance else result
    return allowed.legal(_through_registers(result, iname, copies), step) if in_registers else result


def _require_stages(iname: str, stages: object, ahead: object, registers: bool | None, asynchronous: bool
                    ) -> tuple[int, int, bool]:
    """The numbers of *stages* and of iterations *ahead*; do the copies go through registers?

    :raises PreconditionError: the loop cannot be pipelined in the requested way.
    """
    count = require_positive(stages, "stages")
    if registers and asynchronous:
        raise PreconditionError("pipeline: an asynchronous copy bypasses registers, so registers=True and "
                                "asynchronous=True exclude each other.", subject="registers",
                                hint=f"pipeline(knl, '{iname}', stages={count}, asynchronous=True)")
    if count == 1 and (asynchronous or registers is False):
        raise PreconditionError("With one stage and without registers, no copy can run ahead of its use.",
                                subject="stages", hint=f"pipeline(knl, '{iname}', stages=2)")
    most = max(count - 1, 1)
    distance = most if ahead is None else 0 if ahead == 0 else require_positive(ahead, "iterations ahead")
    if distance > most:
        raise PreconditionError(f"With {count} stages, copies run at most {most} iterations ahead, and not {distance}: "
                                "the cells of the tile are still read.", subject="ahead",
                                hint=f"pipeline(knl, '{iname}', {distance + 1}, ahead={distance})")
    return count, distance, not asynchronous and registers is not False


#: The temporary that each copy writes, by the id of the copy.
_Copies = Mapping[str, str]


def _asynchronous(kernel: LoopKernel, iname: str, copies: _Copies, asynchronous: bool) -> set[str]:
    """The copies that are asynchronous; :raises PreconditionError: the others would go through registers."""
    found = {c for c in copies if kernel.statement_by_id[c].completion is not Completion.IMMEDIATE}
    other = next((c for c in copies if c not in found), None)
    if found and other is not None and not asynchronous:
        raise PreconditionError(f"The copy '{min(found)}' is asynchronous, and '{other}' is not.", subject=other,
                                hint=f"pipeline(knl, '{iname}', ..., asynchronous=True)")
    return found


def _copies(kernel: LoopKernel, iname: str, temporaries: str | Iterable[str] | None, *, moves: bool) -> _Copies:
    """The copies of the loop over *iname*, those into *temporaries* or all.

    :arg moves: copies move to other iterations, so that their number must be known.
    """
    names = () if temporaries is None else known_list("temporary", temporaries, kernel.temporaries)
    loops = [loop for loop in loops_in(kernel.tree) if loop.iname == iname]
    found: list[tuple[Loop, _Copies]] = []
    for loop in loops:
        candidates = {t: _copy_into(kernel, t, loop, moves=moves)
                      for t in (kernel.temporaries if temporaries is None else names)}
        copies: _Copies = {s.id: t for t, s in candidates.items() if isinstance(s, Statement)
                           and (t in names or _is_load(kernel, s, loop))}
        if temporaries is None:
            copies = {c: t for c, t in copies.items() if _beside(loop, c, copies) is None}
        if copies:
            found.append((loop, copies))
    for t in names:
        if not any(t in copies.values() for _, copies in found):
            raise PreconditionError(f"No copy in the loop over '{iname}' writes '{t}': "
                                    f"{_copy_into(kernel, t, loops[0], moves=moves)}.", subject=t,
                                    hint="name temporaries with one writer in the loop, and with readers there")
    if not found:
        raise PreconditionError(f"No copy in the loop over '{iname}' can be pipelined.", subject=iname,
                                hint="make one first: add_prefetch, precompute or buffer_array")
    if len(found) > 1:
        raise ScheduleError(f"Several loops over '{iname}' have copies.", subject=iname,
                            hint="name the temporaries of one of them with temporaries=")
    [(loop, copies)] = found
    for c in copies:
        if (other := _beside(loop, c, copies)) is not None:
            raise ScheduleError(f"The copy '{c}' and '{other}' share a loop inside the loop over '{iname}'.",
                                subject=iname, hint="distribute_loop puts the copy into a separate loop")
    return copies


def _loop(kernel: LoopKernel, iname: str, copies: _Copies) -> Loop:
    return next(x for x in loops_in(kernel.tree) if x.iname == iname and not copies.keys().isdisjoint(leaves(x)))


def _read(kernel: LoopKernel, s: Statement) -> set[str]:
    return {a.array for a in accesses_of(kernel, s) if not a.is_write}


def _copy_into(kernel: LoopKernel, temporary: str, loop: Loop, *, moves: bool) -> Statement | str:
    """The statement of *loop* that copies into *temporary* for others of that loop, or the reason why there is none."""
    inside = set(leaves(loop))
    accesses = accesses_by_array(kernel).get(temporary, ())
    outside = next((a.statement for a in accesses if a.statement not in inside), None)
    if outside is not None:
        return f"'{outside}' uses it outside of the loop"
    found = [s for s in kernel.statements if s.written == temporary]
    if len(found) > 1:              # the copy is the writer that loads from arrays and does not read the temporary
        found = [s for s in found if temporary not in (read := _read(kernel, s))
                 and not read.isdisjoint(kernel.array_args)]
    if len(found) != 1:
        return f"{' and '.join(repr(s.id) for s in found)} copy into it" if found else "no statement copies into it"
    [s] = found
    readers = {a.statement for a in accesses if not a.is_write}
    if s.combine is not None or s.id in kernel.reduction_of:
        return f"'{s.id}' combines into it"
    if s.predicates or (moves and data_params(kernel, s.domain)):
        return f"whether '{s.id}' runs depends on data"
    if s.id in readers:
        return f"'{s.id}' reads it too"
    return s if readers else "nothing reads it"


def _is_load(kernel: LoopKernel, s: Statement, loop: Loop) -> bool:
    """Does *s* get its values from arrays in global memory only, and from no value that *loop* computes?"""
    read, written = _read(kernel, s), {kernel.statement_by_id[x].written for x in leaves(loop)}
    return not read.isdisjoint(kernel.array_args) and (read & written).isdisjoint(kernel.temporaries)


def _beside(loop: Loop, copy: str, copies: _Copies) -> str | None:
    """A statement other than a copy that shares an inner loop with *copy*."""
    inside = next((ids for child in parts_of(loop.body) if copy in (ids := list(leaves(child)))), [])
    return next((s for s in inside if s not in copies), None)


def _require_open_storage(kernel: LoopKernel, names: frozenset[str], stages: int) -> None:
    require_cells(kernel, names, "pipeline temporaries that do not bound loops")
    for t in sorted(names):
        if kernel.temporaries[t].fixed and stages > 1:
            raise StorageError(f"The shape and the address space of '{t}' were declared, so they cannot change.",
                               subject=t, hint="declare no address space, or pipeline with stages=1")


def _distributed_over_threads(kernel: LoopKernel, iname: str, copies: _Copies, step: str, allowed: Allowed
                              ) -> LoopKernel:
    """*kernel* where the ``l.auto`` inames of copies are inames on the axes of the block, and unrolled rounds.

    The threads are those of the computation; without such threads, loops over the inames remain.
    """
    block = block_of(kernel, set(leaves(_loop(kernel, iname, copies))) - copies.keys())
    for c in copies:
        s = kernel.statement_by_id[c]
        auto = fastest_last(kernel, s.expression, [x for x in s.inames if isinstance(kernel.tags.get(x), AutoLocalTag)])
        kernel, axes = distributed(kernel, auto, block)
        tags: dict[str, InameTag] = {x: UnrollTag() if axis is None else LocalTag(axis) for x, axis in axes.items()}
        kernel = tagged(kernel, tags, step, assume=allowed.assume, unsafe=allowed.unsafe)
    return kernel


def _through_registers(kernel: LoopKernel, iname: str, copies: _Copies) -> LoopKernel:
    """*kernel* where each copy of the loop is a load into a private temporary, first, and a store from there, last."""
    own = [s for s in kernel.statements if s.id in copies and iname in s.inames]
    loads = {s.id: kernel.fresh_name(f"{s.written}_load") for s in own}
    registers = {s.id: kernel.fresh_name(f"{s.written}_next") for s in own}

    tree = rewrite_over(kernel.tree, iname, lambda loop: Loop(iname, seq(with_ids(loop.body, loads), loop.body)))
    statements = [replace(s, expression=p.Variable(registers[s.id])) if s.id in registers else s
                  for s in kernel.statements]
    statements += [replace(s, id=loads[s.id], assignee=p.Variable(registers[s.id])) for s in own]
    cells = {name: TemporaryVariable(name, None, (), AddressSpace.PRIVATE) for name in registers.values()}
    result = with_dependences(kernel, partial(_between_load_and_store, copies, loads), tree=tree,
                              statements=in_order_of(tree, statements), temporaries={**kernel.temporaries, **cells})
    for s in own:
        around = loops_of(kernel.paths[s.id])
        inames = tuple(x for x in around[around.index(iname) + 1:] if not is_parallel(kernel.tags.get(x)))
        if wide := next((x for x in inames if not iname_range(kernel, x)[1]), None):
            raise PreconditionError(
                f"'{wide}' has no constant range, so registers cannot hold what '{s.id}' copies.", subject=wide,
                hint="split the iname, or pipeline with registers=False")
        result = with_axes(result, [registers[s.id]], inames)
    return result


def _between_load_and_store(copies: _Copies, loads: Mapping[str, str], found: Sequence[Dependence], after: LoopKernel
                            ) -> Iterator[Dependence]:
    """The dependences of a copy, moved to its load; those of the temporary's values move to the store."""
    for d in found:
        # sinks of a copy follow its store, sources of a copy precede its load
        source = d.source if d.source not in loads or d.kind == "explicit" \
            or d.array == copies[d.source] else loads[d.source]
        sink = d.sink if d.sink not in loads or d.array == copies[d.sink] else loads[d.sink]
        yield d if (source, sink) == (d.source, d.sink) else replace(d, source=source, sink=sink)
    for store, load in loads.items():
        register = after.statement_by_id[load].written
        yield Dependence("flow", register, load, store, identity_pairs(after, load, store), of_value=True)


def _in_stages(kernel: LoopKernel, iname: str, names: frozenset[str], stages: int) -> LoopKernel:
    """*kernel* with a leading axis of *stages* for the temporaries *names*, subscripted by the iteration."""
    if stages == 1:
        return kernel
    shapes = {t: tuple(e for e in shape if e is not None) for t, shape in array_shapes(kernel).items()
              if t in names and None not in shape}
    shaped = annotated(kernel, temporaries={
        t: replace(v, shape=shapes.get(t, v.shape), layout=v.layout.behind(1)) if t in names else v
        for t, v in kernel.temporaries.items()})
    stage = remainder(p.Variable(iname), stages)
    return with_other_axes(shaped, names, lambda _, own: (stage, *own), lambda _, own: (stages, *own))


def _moved_ahead(kernel: LoopKernel, iname: str, copies: _Copies, ahead: int, *, last: bool) -> LoopKernel:
    """*kernel* with its copies *ahead* iterations earlier, at the start of the loop's body or as its *last* part."""
    ids = copies.keys()
    tree = rewrite_over(kernel.tree, iname, lambda loop: loop if ids.isdisjoint(leaves(loop)) else Loop(
        iname, seq(*sorted(parts_of(loop.body), key=lambda part: last == (ids >= set(leaves(part)))))))
    step = Reindexing((iname,), {iname: add(p.Variable(iname), ahead)})
    result = reindex(kernel, step, tree, frozenset(ids))
    return rewritten(result, statements=in_order_of(result.tree, result.statements))


def _with_prologue(kernel: LoopKernel, iname: str, copies: _Copies, ahead: int) -> LoopKernel:
    """*kernel* with the first *ahead* iterations of its loop, counted from its former start, in a separate loop."""
    first = kernel.fresh_name(f"{iname}_first")
    result = peel(kernel, iname, first=ahead, within=list(leaves(_loop(kernel, iname, copies))))
    own = frozenset(s.id for s in result.statements if first in s.inames)
    result = reindex(result, Reindexing((first,), {first: add(p.Variable(first), -ahead)}), result.tree, own)
    return rewritten(result, statements=tuple(_in_plain_stage(s) if s.id in own else s for s in result.statements))


def _in_plain_stage(s: Statement) -> Statement:
    """The copy *s* with its stage simplified: ``k % 2`` is ``k`` below 2."""
    match s.assignee:
        case p.Subscript(aggregate=temporary, index_tuple=(p.Remainder(numerator=number, denominator=stages), *rest)):
            iteration = add(number)
            outside = s.domain.where(("<", iteration)), s.domain.where((">=", subtract(iteration, stages)))
            stage = iteration if all(points.is_empty() for points in outside) else remainder(iteration, stages)
            return replace(s, assignee=p.Subscript(temporary, (stage, *rest)))
        case _:
            return s
