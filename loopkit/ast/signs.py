"""Lower bounds of integers at a place in the program, which decide whether ``/`` and ``%`` can be those of C."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import For
from loopkit.expr.intervals import Interval, interval

#: Wider than the values of any integer type.
_UNKNOWN = Interval(-2**64, 2**64)


@dataclass(frozen=True)
class Signs:
    """The least value of each integer variable that has a known one."""

    lower: Mapping[str, int] = field(default_factory=dict)

    def nonnegative(self, expr: Expression) -> bool:
        """Is *expr* never negative?"""
        low = self.least(expr)
        return low is not None and low >= 0

    def least(self, expr: Expression) -> int | None:
        """A lower bound of an integer expression; ``None``: none is known."""
        def leaf(e: Expression) -> Interval:
            return Interval(self.lower[e.name], _UNKNOWN.high) if isinstance(e, p.Variable) and e.name in self.lower \
                else _UNKNOWN
        low = interval(expr, leaf).low
        return low if low >= -2**63 else None

    def defining(self, name: str, value: Expression) -> Signs:
        """After ``name = value``."""
        low = self.least(value)
        others = {x: least for x, least in self.lower.items() if x != name}
        return Signs(others if low is None else {**others, name: low})

    def inside(self, loop: For) -> Signs:
        """In the iterations of *loop*."""
        return self.defining(loop.iname, loop.start)

    def where(self, condition: Expression) -> Signs:
        """The bounds at places that *condition* guards."""
        match condition:
            case p.LogicalAnd(children=children):
                return reduce(Signs.where, children, self)
            case p.Comparison(left=int() as least, operator="<=", right=p.Variable(name=name)) \
                    | p.Comparison(left=p.Variable(name=name), operator=">=", right=int() as least):
                return Signs({**self.lower, name: max(least, self.lower.get(name, least))})
            case _:
                return self
