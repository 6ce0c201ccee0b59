"""Value ranges of the integers of a loop program: those at a place, and upper bounds of all absolute values.

The ranges decide whether ``/`` and ``%`` can be those of C, the upper bounds whether 32 bits are enough. isl's
normal form of an expression may have parts far larger than its value: ``(n - m + 255)/256`` becomes
``-m + (255*m + n + 255)/256``. So each part of an expression as written has an upper bound.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import prod

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Block, Define, For, Program
from loopkit.ast.walk import expressions_of, nodes_in
from loopkit.expr.intervals import ANY, Interval, interval
from loopkit.expr.mappers import children, variables
from loopkit.poly.affine import without_bits


@dataclass(frozen=True)
class ValueRanges:
    """The known least values of integer variables, and the greatest ones of those that the text defines."""

    lower: Mapping[str, int] = field(default_factory=dict)
    upper: Mapping[str, int] = field(default_factory=dict)

    def nonnegative(self, expr: Expression) -> bool:
        """Is *expr* never negative?"""
        low = self.least(expr)
        return low is not None and low >= 0

    def below(self, expr: Expression, stop: int) -> bool:
        """Is *expr* always one of 0, 1, ..., *stop* - 1?"""
        return self.nonnegative(expr) and self._interval(expr).high < stop

    def least(self, expr: Expression) -> int | None:
        """A lower bound of an integer expression; ``None``: none is known."""
        low = self._interval(expr).low
        return low if low >= -2**63 else None

    def _interval(self, expr: Expression) -> Interval:
        def leaf(e: Expression) -> Interval:
            return Interval(self.lower.get(e.name, ANY.low), self.upper.get(e.name, ANY.high)) \
                if isinstance(e, p.Variable) else ANY
        return interval(expr, leaf)

    def defining(self, name: str, value: Expression) -> ValueRanges:
        """After ``name = value``."""
        own = self._interval(value)
        return self._between(name, own.low, own.high)

    def _between(self, name: str, low: int, high: int) -> ValueRanges:
        """With a new value of *name* from *low* to *high*, as far as these fit into 64 bits."""
        lower, upper = ({x: bound for x, bound in own.items() if x != name} for own in (self.lower, self.upper))
        lower |= {name: low} if low >= -2**63 else {}
        upper |= {name: high} if high < 2**63 else {}
        return ValueRanges(lower, upper)

    def renamed(self, names: Mapping[str, str]) -> ValueRanges:
        """The bounds of the variables *names* under their new names."""
        return ValueRanges(*({new: own[x] for x, new in names.items() if x in own} for own in (self.lower, self.upper)))

    def inside(self, loop: For) -> ValueRanges:
        """In the iterations of *loop*."""
        return self._between(loop.iname, self._interval(loop.start).low, self._interval(loop.stop).high - 1)

    def where(self, condition: Expression) -> ValueRanges:
        """The bounds at places that *condition* guards."""
        match condition:
            case p.LogicalAnd(children=children):
                return reduce(ValueRanges.where, children, self)
            case p.Comparison(left=int() as least, operator="<=" | "<" as operator, right=expr) \
                    | p.Comparison(left=expr, operator=">=" | ">" as operator, right=int() as least):
                return self._from(expr, least + (operator in "<>"))
            case _:
                return self

    def _from(self, expr: Expression, least: int) -> ValueRanges:
        """The bounds where *expr* is *least* or more."""
        match expr:
            case p.Variable(name=name):
                return replace(self, lower={**self.lower, name: max(least, self.lower.get(name, least))})
            case p.FloorDiv(numerator=numerator, denominator=int() as divisor) if divisor > 0:
                return self._from(numerator, least*divisor)
            case p.Sum(children=(term, int() as constant)):
                return self._from(term, least - constant)
            case _:
                return self


# Upper bounds

def largest_magnitude(program: Program, sizes: Mapping[str, int]) -> int:
    """A bound of all integers that *program* computes for its loops, guards, grids and subscripts.

    It grows with the absolute values of the sizes.

    :arg sizes: the values of its integer arguments. Other names without a definition are read from memory; their
        values are subscripts, which the length of an array bounds.

    >>> i, n = p.Variable("i"), p.Variable("n")
    >>> largest_magnitude(Program((), Block((For("i", 0, n, 1, Block((Define("x", 4*i),))),))), {"n": 100})
    400
    """
    host = _Magnitudes({x: abs(value) for x, value in sizes.items()})
    # the iname of a loop that the host runs is a size of the launches in it
    host.block(program.order)
    for function in program.functions:
        launch = replace(host, known=dict(host.known))
        for name, value in (*function.extents.items(), *function.coordinates.items()):
            launch.known[name] = launch.value(value)
        launch.block(function.body)
    return max(host.found)


def largest_address(extents: Sequence[Expression], beyond: int, sizes: Mapping[str, int]) -> int:
    """A bound of the addresses in an array that is not an argument.

    :arg beyond: 1 plus the greatest number of elements by which a part of a subscript may leave the array.
    """
    result = 1
    for extent in extents:
        parts = _Magnitudes({x: abs(value) for x, value in sizes.items()}, of_products=True)
        parts.value(extent)
        result *= max(parts.found) + beyond
    return result


@dataclass(frozen=True)
class _Magnitudes:
    """The bounds of names, and of all expressions so far; *of_products*: also of products of several names."""

    known: dict[str, int]
    of_products: bool = False
    found: set[int] = field(default_factory=lambda: {0})

    def block(self, block: Block) -> None:
        for node in nodes_in(block):
            parts = expressions_of(node)
            if isinstance(node, For):
                self.known[node.iname] = max(map(self.value, parts[:2]))
                self.found.add(self.known[node.iname] + node.step)      # the loop variable passes its last value
                parts = parts[2:]
            bounds = list(map(self.value, parts))
            if isinstance(node, Define):
                self.known[node.name], = bounds

    def value(self, expr: Expression) -> int:
        """The bound of an expression. Collects it, and those of its parts that may be greater."""
        result = self._value(expr)
        self.found.add(result)
        return result

    def _value(self, expr: Expression) -> int:
        match expr:
            case int():
                return abs(expr)
            case p.Variable(name=name):
                return self.known.get(name, 0)
            case p.Sum(children=terms):
                return sum(map(self._value, terms))
            case p.Product(children=factors):
                others = [self._value(f) for f in factors if variables(f)]
                if len(others) > 1 and not self.of_products:
                    self.found.update(others)
                    return 0            # it is an address, bounded by the arrays' lengths, or has 64 bits
                return prod((self._value(f) for f in factors if not variables(f)), start=prod(others))
            case p.FloorDiv(numerator=numerator, denominator=int() as divisor):
                return self.value(numerator)//abs(divisor) + 1
            case p.Remainder(numerator=numerator, denominator=int() as divisor):
                self.value(numerator)
                return abs(divisor)
            case p.LeftShift() if (plain := without_bits(expr)) is not None:
                return self._value(plain)
            case p.RightShift() | p.BitwiseAnd() | p.BitwiseOr() | p.BitwiseXor() | p.BitwiseNot():
                return sum(map(self.value, children(expr))) + 1
            case p.Min(children=parts) | p.Max(children=parts):
                return max(map(self.value, parts))
            case p.If():
                self.value(expr.condition)
                return max(self.value(expr.then), self.value(expr.else_))
            case _:
                for child in children(expr):
                    self.value(child)
                return 0                # an element of an array, or a number that is not an integer
