"""The work of a launch in the host's terms: whether it is enough to be worth more than one thread.

The work is the number of statement executions, counted from above: a guard may exclude some.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Block, Call, Define, For, If, Node, Region, Sync, Tiles
from loopkit.expr.mappers import variables
from loopkit.poly.affine import add, floor_div, subtract

#: The least work that the host divides among threads. One thread does it in 10 to 30 microseconds. Several threads take
#: 2 microseconds to begin and to end if every processor is free, and 10 milliseconds if another process has one.
LEAST = 2**15

#: The iterations that a loop counts for if their number depends on data or on other loops.
_UNKNOWN = 64

#: A number of executions: the coefficients of the products of sizes, by their factors.
_Work = Counter[tuple[Expression, ...]]


@dataclass(frozen=True)
class Work:
    """The product of *coefficient* and *factors*, which are expressions in the sizes of the call."""

    coefficient: int
    factors: tuple[Expression, ...]

    @property
    def is_small(self) -> bool:
        """Is it small for all sizes?"""
        return not self.factors and self.coefficient < LEAST


def work_of(body: Block, extents: Sequence[Expression], sizes: frozenset[str]) -> Work:
    """The work of a launch, or its greatest term.

    :arg body: one thread's program.
    :arg extents: those of the grid and of the block.
    :arg sizes: names that may be in its factors.
    """
    terms = _work(body, sizes).items()
    factors, coefficient = max(terms, key=lambda term: (len(term[0]), term[1]), default=((), 0))
    return Work(coefficient*prod(e for e in extents if isinstance(e, int)),
                (*(e for e in extents if not isinstance(e, int)), *factors))


def _work(node: Node, sizes: frozenset[str]) -> _Work:
    match node:
        case Assign():
            return Counter({(): 1})
        case For():
            trips = _trips(node, sizes)
            body = _work(node.body, sizes)
            return Counter({factors: n*trips for factors, n in body.items()} if isinstance(trips, int) else
                           {(trips, *factors): n for factors, n in body.items()})
        case If():
            return _work(node.then, sizes) | (Counter() if node.otherwise is None else _work(node.otherwise, sizes))
        case Region() | Tiles():
            return _work(node.body, sizes)
        case Block():
            return sum((_work(child, sizes) for child in node.children), Counter())
        case Define() | Sync() | Call():
            return Counter()


def _trips(loop: For, sizes: frozenset[str]) -> Expression:
    """A bound of the iterations of *loop*.

    It is at least one more than their number in *sizes*: iterations before and after the loop are work, too.
    """
    ends = loop.stop.children if isinstance(loop.stop, p.Min) else (loop.stop,)
    known = [e for e in ends if isinstance(e, int)]
    if isinstance(loop.start, int) and known:
        return max(-(-(min(known) - loop.start)//loop.step), 0)
    length = subtract(loop.stop, loop.start)
    if not variables(length) <= sizes:
        return _UNKNOWN
    constant = sum(e for e in length.children if isinstance(e, int)) if isinstance(length, p.Sum) else 0
    return add(length if loop.step == 1 else floor_div(length, loop.step), 1 + max(-constant, 0))
