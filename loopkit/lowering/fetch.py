"""Thread distribution of ``l.auto``: a box of instances over the threads of a block, in axes and rounds.

All threads take part, neighbouring threads take neighbouring points along one iname of the box, and the number of
rounds is constant. That iname has the smallest stride in the loaded array; without a load it is the last one. If it
is as long as ``l.0``, it is ``l.0``.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

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


@dataclass(frozen=True)
class _Dim:
    iname: str
    low: int
    extent: int


def spread_over_threads(launch: Launch, bound: BoundStatement, context: Set, statement: Callable[[Set], Node]) -> Node:
    """Code that runs *statement* once for each point of its box, each by one thread.

    :arg statement: gives the guarded statement, from what is known of the box's inames.
    """
    knl = launch.kernel
    dims = [_dim(knl, bound, x) for x in fastest_last(knl, bound.statement.expression, bound.auto)]
    for d in dims:
        context = context.intersect(range_condition(d.iname, d.low, d.low + d.extent - 1))
    body = statement(context)
    # the statement's own inames have their axes; the box is distributed over the others
    taken = {axis for x in bound.hardware for axis in variables(launch.coordinates[x])}
    axes = [(axis, extent) for axis, extent in zip(BLOCK, launch.block, strict=True) if axis not in taken]
    here: list[Node] = []
    last = dims[-1]
    if axes and axes[0][0] == "l.0" and last.extent == axes[0][1]:
        here.append(Define(last.iname, add(_thread_id(axes[0]), last.low)))
        axes, dims = axes[1:], dims[:-1]
    threads = prod(extent for _, extent in axes)
    return _rounds(dims, threads, _thread_id(*axes), Block((*here, body)), bound.statement.id.replace(".", "_"), knl)


def _dim(knl: LoopKernel, bound: BoundStatement, iname: str) -> _Dim:
    low, high = constant_range(knl, bound.statement.domain, iname)
    if low is None or high is None:
        raise PreconditionError(f"'{iname}' has no constant range, which the tag 'l.auto' needs.", subject=iname,
                                hint="split the iname, or fix the parameter")
    return _Dim(iname, low, high - low + 1)


def _thread_id(*axes: tuple[str, int]) -> Expression:
    """The number of a thread along *axes*, the first fastest."""
    result: Expression = 0
    stride = 1
    for axis, extent in axes:
        if extent > 1:
            result = add(multiply(stride, p.Variable(axis)), result)
        stride *= extent
    return result


def _rounds(dims: Sequence[_Dim], threads: int, thread: Expression, body: Block, name: str,
            knl: LoopKernel) -> Node:
    """*body* for each point of *dims*, distributed over *threads* threads; this thread has the number *thread*."""
    if not dims:
        return body if threads == 1 else If(p.Comparison(thread, "==", 0), body)
    points = prod(d.extent for d in dims)
    count = -(-points // threads)
    counter = knl.fresh_name(f"{name}_round")
    number = thread if count == 1 else add(multiply(threads, p.Variable(counter)), thread)
    if len(dims) == 1:
        named: list[Node] = [Define(dims[0].iname, add(number, dims[0].low))]
        number, digits = add(p.Variable(dims[0].iname), -dims[0].low), []
    else:
        point = knl.fresh_name(f"{name}_point")
        named, number = [Define(point, number)], p.Variable(point)
        digits = _digits(dims, number)
    inner = Block((*digits, *body.children))
    if count * threads != points:
        inner = Block((If(p.Comparison(number, "<", points), inner),))
    inner = Block((*named, *inner.children))
    return inner if count == 1 else For(counter, 0, count, 1, inner, unroll=count <= MOST_UNROLLED)


def _digits(dims: Sequence[_Dim], number: Expression) -> list[Node]:
    """Each coordinate of a box as a digit of the number of its point, the last one fastest."""
    result: list[Node] = []
    for d in reversed(dims[1:]):
        result.append(Define(d.iname, add(remainder(number, d.extent), d.low)))
        number = floor_div(number, d.extent)
    result.append(Define(dims[0].iname, add(number, dims[0].low)))
    return result[::-1]
