"""Lower bounds of integers at a place in the program, which decide whether ``/`` and ``%`` can be those of C."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pymbolic.primitives as p
from pymbolic.typing import Expression


@dataclass(frozen=True)
class Signs:
    """Lower bounds of integer variables.

    :ivar lower: the least value of each name that has a known one.
    """

    lower: Mapping[str, int] = field(default_factory=dict)

    def nonnegative(self, expr: Expression) -> bool:
        """Is *expr* never negative?"""
        low = self.least(expr)
        return low is not None and low >= 0

    def least(self, expr: Expression) -> int | None:
        """A lower bound of an integer expression; ``None``: none is known."""
        match expr:
            case bool():
                return int(expr)
            case int():
                return expr
            case p.Variable(name=name):
                return self.lower.get(name)
            case p.Sum(children=children):
                return self._sum([self.least(c) for c in children])
            case p.Product(children=children):
                lows = [self.least(c) for c in children]
                if all(v is not None and v >= 0 for v in lows):
                    result = 1
                    for v in lows:
                        result *= v or 0
                    return result
                return None
            case p.FloorDiv(numerator=a, denominator=b):
                low, divisor = self.least(a), self.least(b)
                return low // b if low is not None and isinstance(b, int) and b > 0 else (
                    0 if low is not None and low >= 0 and divisor is not None and divisor > 0 else None)
            case p.Remainder(denominator=b):
                divisor = self.least(b)
                return 0 if divisor is not None and divisor > 0 else None
            case p.Min(children=children):
                lows = [self.least(c) for c in children]
                return None if any(v is None for v in lows) else min(v for v in lows if v is not None)
            case p.Max(children=children):
                known = [v for v in map(self.least, children) if v is not None]
                return max(known) if known else None
            case _:
                return None

    @staticmethod
    def _sum(lows: list[int | None]) -> int | None:
        known = [v for v in lows if v is not None]
        return sum(known) if len(known) == len(lows) else None

    def defining(self, name: str, value: Expression) -> Signs:
        """After ``name = value``."""
        low = self.least(value)
        others = {x: least for x, least in self.lower.items() if x != name}
        return replace(self, lower=others if low is None else {**others, name: low})

    def where(self, condition: Expression) -> Signs:
        """The bounds at places that *condition* guards."""
        match condition:
            case p.LogicalAnd(children=children):
                result = self
                for c in children:
                    result = result.where(c)
                return result
            case p.Comparison(left=int() as least, operator="<=", right=p.Variable(name=name)) \
                    | p.Comparison(left=p.Variable(name=name), operator=">=", right=int() as least):
                return replace(self, lower={**self.lower, name: max(least, self.lower.get(name, least))})
            case _:
                return self

    def from_start(self, name: str, start: Expression) -> Signs:
        """Inside a loop from *start*."""
        return self.defining(name, start)
