"""Temporaries that carry values between the blocks of one launch: a reader waits for an inter-block flag.

Each element that is read has exactly one write. It is a must-write, in a block with a smaller ticket than the reader's,
or earlier in the same block. So no block waits forever, and the value does not depend on the speed of blocks.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import combinations_with_replacement, product

from loopkit.analysis.accesses import Access, accesses_by_array, accesses_to
from loopkit.analysis.dependences import Pair, dependences, joined, relations_of
from loopkit.analysis.legality import across_blocks, is_between_blocks
from loopkit.analysis.must_writes import is_must_write
from loopkit.analysis.values_preserved import beyond
from loopkit.analysis.witnesses import BrokenPairs, parameters_of
from loopkit.ast.nodes import Completion
from loopkit.errors import StorageError, UndecidedError, instance_text, values_text
from loopkit.expr.mappers import variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.relations import other_instance, same_element
from loopkit.poly.sets import Map, lexmin_point


def require_one_write(knl: LoopKernel, name: str) -> None:
    """Check that each read element of the temporary *name* has exactly one write, and that the write is a must-write.

    A waiting reader may find the value of any write of its element, whatever the order: that is the found flow. Two
    writes of an element are refused even if nothing reads it, which is a question about writes and not about a flow.

    :raises StorageError: an element has no write or several writes, or is read before its write.
    :raises UndecidedError: that depends on data.
    """
    accesses = accesses_by_array(knl).get(name, ())
    writes, reads = ([a for a in accesses if a.is_write is kind] for kind in (True, False))
    for a in accesses:
        _require_plain_access(knl, a)
    for a, b in combinations_with_replacement(writes, 2):
        pairs = same_element(a.relation, b.relation)
        _require_none(knl, name, (a.statement, b.statement), other_instance(pairs) if a is b else pairs,
                      "{0} and {1} write one element of it", "let one of them write another temporary")
    for read in reads:
        left = reduce(Map.subtract_range, (a.relation.range() for a in writes),
                      read.relation.intersect_params(knl.assumptions))
        point = lexmin_point(left.domain(), read.domain.inames, parameters_of(knl))
        if point is not None:
            raise StorageError(
                f"{instance_text(read.statement, point[1])} would wait for an element of '{name}' that no statement "
                f"writes{values_text(point[0], ' (with {})')}.", subject=name, hint="write each element that is read")
    found = joined(((a.statement, b.statement), same_element(a.relation, b.relation))
                   for a, b in product(writes, reads))
    for ends, early in beyond(found, relations_of(knl, name, "flow")):
        _require_none(knl, name, ends, early, "{1} reads what {0} writes after it",
                      "read elements that are written before")


def require_one_launch(knl: LoopKernel, name: str, launches: Sequence[tuple[int, tuple[str, ...]]]) -> None:
    """Check that all accesses to the temporary *name*, which carries values between blocks, are in one launch.

    :arg launches: for each access, the launch and the loops of the host around it.
    :raises StorageError: the accesses are in several launches, or the host runs the launch more than once.
    """
    if len(set(launches)) <= 1 and not any(hosts for _, hosts in launches):
        return
    for d in dependences(knl):
        if d.array == name and is_between_blocks(knl, d) and (apart := across_blocks(knl, d)) is not None:
            params, source, sink = BrokenPairs(knl, d.source, d.sink, apart, name, "flow").smallest
            raise StorageError(
                f"Readers of '{name}' may wait only for earlier blocks, but {instance_text(d.source, source)} "
                f"runs in no such block for {instance_text(d.sink, sink)}{values_text(params, ' (with {})')}.",
                subject=name, hint="write it in an earlier block than the reader's, or end the launch between the two")
    raise StorageError(f"Readers of '{name}' wait within one launch, but its statements are in several, or in a "
                       "loop of the host.", subject=name, hint="without add_block_flags a launch ends between the two")


def _require_plain_access(knl: LoopKernel, a: Access) -> None:
    """:raises UndecidedError, StorageError: elements depend on data; *a* is not a plain read or write of a value."""
    s = knl.statement_by_id[a.statement]
    if a.is_write and (s.combine is not None or accesses_to(knl, s.id, a.array, is_write=False)):
        raise StorageError(f"Readers of '{a.array}' wait for a single write, but '{s.id}' updates it.", subject=a.array,
                           hint="compute the value in another temporary, and write it once")
    if not a.is_write and (a.array in set().union(*map(variables, s.predicates)) or a.array in s.domain.params):
        raise StorageError(f"Readers wait for '{a.array}', but a condition or a bound of '{s.id}' reads it.",
                           subject=a.array, hint="read it into a temporary first")
    if not a.is_write and s.completion is not Completion.IMMEDIATE:
        noun = ", ".join(i.noun for i in s.instructions)
        raise StorageError(f"Readers wait for '{a.array}', but '{s.id}' reads it by {noun}.", subject=a.array,
                           hint="read it by a plain load")
    if not a.affine or (a.is_write and not is_must_write(a)):
        raise UndecidedError(
            f"Readers of '{a.array}' may wait forever: its written and read elements depend on data.",
            f"'{s.id}' {'writes' if a.is_write else 'reads'} it, and "
            + (a.doubt or "a subscript is not affine"), hint="write each element independently of the data")


def _require_none(knl: LoopKernel, name: str, statements: Pair, pairs: Map, what: str, hint: str) -> None:
    pairs = pairs.intersect_params(knl.assumptions)
    if not pairs.is_empty():
        params, *instances = BrokenPairs(knl, *statements, pairs, name, "value").smallest
        texts = map(instance_text, statements, instances)
        raise StorageError(f"Readers of '{name}' wait for a single write, but {what.format(*texts)}"
                           f"{values_text(params, ' (with {})')}.", subject=name, hint=hint)
