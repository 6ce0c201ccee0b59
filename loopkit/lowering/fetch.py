"""Thread distribution of ``l.auto``: maps a box of instances to block axes and a loop of rounds.

All threads take part, neighbouring threads take neighbouring points along one iname of the box, and the number of
rounds is constant. That iname has the smallest stride in the loaded array; without a load it is the last one. If its
length is that of ``l.0``, it is bound to ``l.0``.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate
from math import prod
from operator import mul

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import fastest_last
from loopkit.analysis.ranges import constant_range
from loopkit.ast.nodes import Block, Define, For, If, Node
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.lowered import BLOCK, BoundStatement, Launch
from loopkit.poly.affine import add, floor_div, multiply, remainder
from loopkit.poly.sets import Set, range_condition

#: Rounds of a fetch loop that are still unrolled.
MOST_UNROLLED = 32


def spread_over_threads(launch: Launch, bound: BoundStatement, context: Set, statement: Callable[[Set], Node]) -> Node:
    """Code that runs *statement* once for each point of its box, each by one thread.

    :arg statement: gives the guarded statement, from what is known of the box's inames.
    """
    knl = launch.kernel
    box = {x: _values(knl, bound, x) for x in fastest_last(knl, bound.statement.expression, bound.auto)}
    for x, values in box.items():
        context = context.intersect(range_condition(x, values.start, values.stop - 1))
    body = statement(context)
    # the statement's own inames have their axes; the box is distributed over the others
    taken = {axis for x in bound.hardware for axis in variables(launch.mapping.coordinates[x])}
    axes = {axis: extent for axis, extent in zip(BLOCK, launch.block, strict=True) if axis not in taken}
    here: list[Node] = []
    last = [*box][-1]
    if axes.get("l.0") == len(box[last]):
        here.append(Define(last, add(_thread_id({"l.0": axes.pop("l.0")}), box.pop(last).start)))
    threads = prod(axes.values())
    return _rounds(box, threads, _thread_id(axes), Block((*here, body)), bound.statement.id.replace(".", "_"), knl)


def _values(knl: LoopKernel, bound: BoundStatement, iname: str) -> range:
    low, high = constant_range(knl, bound.statement.domain, iname)
    if low is None or high is None:
        raise PreconditionError(f"'{iname}' has no constant range, which the tag 'l.auto' needs.", subject=iname,
                                hint="split the iname, or fix the parameter")
    return range(low, high + 1)


def _thread_id(axes: Mapping[str, int]) -> Expression:
    """The number of a thread along *axes* with their extents, the first fastest."""
    strides = accumulate(axes.values(), mul, initial=1)
    return add(*reversed([multiply(stride, p.Variable(axis))
                          for (axis, n), stride in zip(axes.items(), strides, strict=False) if n > 1]))


def _rounds(box: Mapping[str, range], threads: int, thread: Expression, body: Block, name: str, knl: LoopKernel
            ) -> Node:
    """*body* for each point of *box*, distributed over *threads* threads; this thread has the number *thread*."""
    if not box:
        return body if threads == 1 else If(p.Comparison(thread, "==", 0), body)
    points = prod(map(len, box.values()))
    count = -(-points // threads)
    counter = knl.fresh_name(f"{name}_round")
    number = thread if count == 1 else add(multiply(threads, p.Variable(counter)), thread)
    if len(box) == 1:
        (x, values), = box.items()
        named: list[Node] = [Define(x, add(number, values.start))]
        number, digits = add(p.Variable(x), -values.start), []
    else:
        point = knl.fresh_name(f"{name}_point")
        named, number = [Define(point, number)], p.Variable(point)
        digits = _digits(box, number)
    inner = Block((*digits, *body.children))
    if count * threads != points:
        inner = Block((If(p.Comparison(number, "<", points), inner),))
    inner = Block((*named, *inner.children))
    return inner if count == 1 else For(counter, 0, count, 1, inner, unroll=count <= MOST_UNROLLED)


def _digits(box: Mapping[str, range], number: Expression) -> list[Node]:
    """Each coordinate of a box as a digit of the number of its point, the last one fastest."""
    result: list[Node] = []
    for x, values in reversed([*box.items()]):
        last = len(result) == len(box) - 1
        result.append(Define(x, add(number if last else remainder(number, len(values)), values.start)))
        number = floor_div(number, len(values))
    return result[::-1]
