"""Synchronization that the user requests: atomic updates, further barriers, inter-block flags."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from loopkit.analysis.accesses import commute
from loopkit.analysis.atomic_stores import claims_of_stores
from loopkit.analysis.between_blocks import require_one_write
from loopkit.analysis.constructors import annotated, reference_pairs, with_dependences
from loopkit.analysis.dependences import flow_of_values, joined_relations, order_of_values, relations_of
from loopkit.analysis.legality import require_legal, require_reason
from loopkit.analysis.match import Within
from loopkit.analysis.order import require_barriers_in_place
from loopkit.analysis.values_preserved import wrong_values
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import update_of
from loopkit.instructions.atomic_update import AtomicUpdate
from loopkit.instructions.block_flag import BlockFlag
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, RequestedBarrier, Statement
from loopkit.poly.relations import same_element
from loopkit.transform.step import known_list, matching_statements, transform


@transform
def make_atomic(kernel: LoopKernel, within: Within = None, *, assume: str | None = None,
                unsafe: bool = False) -> LoopKernel:
    """Execute updates ``a[f] = a[f] + e`` as atomic read-modify-write operations, as the option ``{atomic}`` does.

    Atomic updates of one array by one operation may run in any order and concurrently, in one statement or in several.
    The operations are ``+``, ``*``, ``min``, ``max``, ``and``, ``or``, ``&``, ``|``, ``^``, and the user's reorderable
    ones. Sums of real numbers are rounded in the order of execution, as in a reduction. Every other access to the array
    keeps its order with each update.

    A statement without such an operation becomes an atomic store, or an update by compare-and-swap. Its instances may
    run in any order too, if all that store into one element store equal values, or on the caller's word.

    :arg within: the statements that become atomic; default: all that update an element of an array by an operation.
    :arg assume: the reason why each of several stored values will do, or why undecided pairs are legal.
    :raises UnknownNameError: a pattern matches no name of the kernel.
    :raises PreconditionError: every update is atomic already; an update of a temporary has no operation; or earlier
        steps changed the order in which values of a temporary flow.
    :raises IllegalTransformError: a reader of a temporary would miss an earlier update.
    :raises UndecidedError: the order of stores may decide which value remains.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "h[i // 4] = h[i // 4] + w[i]")
    >>> print(lk.make_atomic(knl, "insn").statements_text)
    for i
      h[i // 4] = h[i // 4] + w[i]  {id=insn, atomic}
    end
    >>> dict(lk.tag_inames(lk.make_atomic(knl), "i:g.0").tags)
    {'i': GroupTag(axis=0)}
    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "last[0] = x[i] {id=last}")
    >>> print(lk.make_atomic(knl, "last", assume="x has one value").statements_text)
    for i
      last[0] = x[i]  {id=last, atomic}
    end
    """
    new = _atomic(kernel, within)
    step = f"make_atomic({', '.join(map(repr, new))})"
    require_reason(step, assume)
    claims = claims_of_stores(kernel, new.values(), step, assume, unsafe=unsafe)
    arrays = {s.written for s in new.values()}
    for name in sorted(arrays & kernel.temporaries.keys()):
        if any(wrong_values(relations_of(kernel, name, "flow"), joined_relations(flow_of_values(kernel, name)))):
            raise PreconditionError(
                f"Earlier steps changed the order of '{name}': one cell for each element cannot hold its values.",
                subject=name, hint=f"make the updates of '{name}' atomic before these steps, or write {{atomic}}")
    result = with_dependences(kernel, partial(_once_atomic, arrays),
                              statements=tuple(new.get(s.id, s) for s in kernel.statements),
                              obligations=(*kernel.obligations, *claims))
    return require_legal(result, step, assume=assume, unsafe=unsafe)


def _atomic(kernel: LoopKernel, within: Within) -> dict[str, Statement]:
    """The updates to make atomic, as they are then."""
    chosen = matching_statements(kernel, within)
    # the init and the updates of a reduction belong to its statement, whose operand they make
    named = [s for s in kernel.statements if s.id in chosen and s.id not in kernel.reduction_of and not s.commutes]
    operations = [o for o in kernel.operations.values() if o.reorderable]
    updates = {s.id: update_of(s.assignee, s.expression, operations) for s in named}
    found = {s.id: replace(s, combine=update[0], expression=update[1], instructions=(AtomicUpdate(),))
             for s in named if (update := updates[s.id]) is not None}
    if within is not None:
        found |= {s.id: replace(s, instructions=(AtomicUpdate(),)) for s in named if updates[s.id] is None}
    if not found:
        raise PreconditionError(f"'{kernel.name}' has no update, except atomic ones.", subject=kernel.name,
                                hint="write an update as a[f] = a[f] + e, or with *, min, max, and, or, &, |, ^; name "
                                     "the statements that store")
    return found


def _once_atomic(arrays: Collection[str], found: Sequence[Dependence], after: LoopKernel) -> Iterator[Dependence]:
    """The dependences that remain once updates of *arrays* are atomic."""
    values = sorted(arrays & after.temporaries.keys())
    for d in found:
        if d.array in values:
            continue
        pairs = reference_pairs(after, d) if d.array in arrays else []
        bound = [(a, b) for a, b in pairs if not commute(a, b)]
        if len(bound) == len(pairs):
            yield d
            continue
        for a, b in bound:
            relation = d.relation.intersect(same_element(a.relation, b.relation))
            if not relation.is_empty():
                yield replace(d, relation=relation)
    for name in values:
        yield from order_of_values(after, name)


@transform
def add_barrier(kernel: LoopKernel, insn_before: str, insn_after: str, *, synchronization_kind: str = "global"
                ) -> LoopKernel:
    """Add a barrier between two statements.

    Lowering places all barriers that correctness needs. A further barrier may make the kernel faster or its text
    clearer.

    :arg insn_before: the id of the statement before the barrier; it includes all parts of the reductions of that
        statement. The barrier is in the innermost loop around both statements.
    :arg insn_after: the id of the statement after the barrier.
    :arg synchronization_kind: ``"global"`` ends the launch, so that all blocks wait; the host then runs the loops
        around both statements. ``"local"``: the threads of a block wait.
    :raises UnknownNameError: there is no such statement.
    :raises PreconditionError: there is no such kind of barrier.
    :raises ScheduleError: *insn_after* does not follow *insn_before*, or the host cannot run a loop around both.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i,j<n}", '''
    ...     a[i] = 2*x[i]  {id=first}
    ...     b[j] = 3*x[j]  {id=second}
    ...     ''')
    >>> print(lk.lower(lk.add_dtypes(knl, {"x": np.float32}), stop="schedule"))
    launch 0:
      for i
        first
      for j
        second
    >>> knl = lk.add_barrier(knl, "first", "second")
    >>> print(lk.lower(lk.add_dtypes(knl, {"x": np.float32}), stop="schedule"))
    launch 0:
      for i
        first
    launch 1:
      for j
        second
    """
    for s in (insn_before, insn_after):
        kernel.statement(s)
    if synchronization_kind not in ("local", "global"):
        raise PreconditionError(f"{synchronization_kind!r} is not a kind of barrier.",
                                subject="synchronization_kind", hint="the kinds are local and global")
    barrier = RequestedBarrier(insn_before, insn_after, synchronization_kind)
    if barrier in kernel.barriers:
        return annotated(kernel)
    result = annotated(kernel, barriers=(*kernel.barriers, barrier))
    require_barriers_in_place(result)
    return result


@transform
def add_block_flags(kernel: LoopKernel, temporary_names: str | Iterable[str]) -> LoopKernel:
    """Let blocks wait for values of the temporaries *temporary_names* that other blocks of the same launch compute.

    Without this step, a cross-block dependence ends the launch. With it, the writer sets an inter-block flag for each
    element as soon as the element is written, and a reader waits for the flag. Blocks take tickets in the order in
    which they start (along ``g.0`` first). A value may flow only within a block or to a block with a greater ticket. So
    the first unfinished block never waits, and no deadlock is possible. The C target runs blocks in ticket order.

    Each element is written once, by a statement that runs regardless of the data. Results therefore do not depend on
    the speed of blocks and are the same to the last bit in every run.

    :raises UnknownNameError: a name is not a temporary.
    :raises StorageError: an element is read that no statement writes, is read before it is written, or is written
        twice. Lowering checks this again, and that no value flows to a block before the writer's.
    :raises UndecidedError: one of these conditions depends on data.

    >>> knl = lk.make_kernel(
    ...     "{[b, i]: 0<=b<n and 0<=i<256}",
    ...     '''for b
    ...            <> part[b] = sum(i, x[b, i])  {id=part}
    ...            y[b] = if(b > 0, part[b - 1], part[b])
    ...        end''')
    >>> knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "b:g.0, i:l.0")
    >>> len(lk.generate_code(knl, target="cuda").kernels)
    2
    >>> len(lk.generate_code(lk.add_block_flags(knl, "part"), target="cuda").kernels)
    1
    """
    names = known_list("temporary", temporary_names, kernel.temporaries)
    for name in names:
        require_one_write(kernel, name)
    result = annotated(kernel, temporaries={t.name: replace(t, instruction=BlockFlag()) if t.name in names else t
                                            for t in kernel.temporaries.values()})
    return require_legal(result, f"add_block_flags({', '.join(map(repr, names))})")
