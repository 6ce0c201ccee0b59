"""Bounds, linear in the sizes, of the absolute values of all integers that a loop program computes.

isl's normal form of an expression may have parts far larger than its value: ``(n - m + 255)/256`` becomes
``-m + (255*m + n + 255)/256``. So each part of an expression as written has a bound.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Block, Define, For, Program
from loopkit.ast.walk import expressions_of, nodes_in
from loopkit.expr.mappers import children, variables


@dataclass(frozen=True)
class MagnitudeBound:
    """An upper bound of an absolute value: a constant plus, for each size, a factor times its absolute value."""

    constant: Fraction = Fraction(0)
    factors: tuple[tuple[str, Fraction], ...] = ()

    def at(self, values: Mapping[str, int]) -> int:
        """The bound at the sizes *values*; sizes without a value count as 0."""
        return int(self.constant + sum(f*abs(values.get(x, 0)) for x, f in self.factors)) + 1

    def size_limit(self, limit: int) -> int:
        """A number such that the bound is below *limit* if all sizes are smaller; 0: there is none."""
        room = limit - 2 - self.constant
        factor = sum(f for _, f in self.factors)
        if not factor:
            return limit if room >= 0 else 0
        return max(int(room/factor), 0)

    def scaled(self, factor: Fraction, constant: int = 0) -> MagnitudeBound:
        """*factor* times the bound, plus *constant*."""
        return MagnitudeBound(self.constant*factor + constant, tuple((x, f*factor) for x, f in self.factors))


def _joined(parts: list[MagnitudeBound], join: Callable[[Iterable[Fraction]], Fraction | int]) -> MagnitudeBound:
    """The bound of the sum of *parts* by ``sum``, of any of them by ``max``."""
    factors = [dict(part.factors) for part in parts]
    names = sorted(set().union(*factors))
    return MagnitudeBound(Fraction(join(part.constant for part in parts)),
                          tuple((x, Fraction(join(own.get(x, Fraction(0)) for own in factors))) for x in names))


@dataclass(frozen=True)
class AddressBound:
    """An upper bound of the addresses in an array that is not an argument.

    :ivar beyond: 1 plus the greatest number of elements by which a part of a subscript may leave the array.
    """

    extents: tuple[Expression, ...]
    beyond: int

    def at(self, values: Mapping[str, int]) -> int:
        return prod(_largest(e, values) + self.beyond for e in self.extents)

    def size_limit(self, limit: int) -> int:
        names = frozenset().union(*map(variables, self.extents))
        below = limit
        while below and self.at(dict.fromkeys(names, below)) >= limit:
            below //= 2
        return below


def _largest(extent: Expression, values: Mapping[str, int]) -> int:
    """A bound of an extent and of its intermediate results."""
    match extent:
        case int():
            return abs(extent)
        case p.Variable(name=name):
            return abs(values.get(name, 0))
        case p.Product(children=parts):
            return prod(_largest(e, values) for e in parts)
        case p.Sum(children=parts):
            return sum(_largest(e, values) for e in parts)
        case p.FloorDiv(numerator=numerator) | p.Remainder(numerator=numerator):
            return _largest(numerator, values) + 1
        case _:
            assert isinstance(extent, p.If | p.Min | p.Max), f"{extent} is not an extent"
            cases = (extent.then, extent.else_) if isinstance(extent, p.If) else extent.children
            return max(_largest(e, values) for e in cases)


def magnitude_bounds(program: Program, sizes: Iterable[str]) -> frozenset[MagnitudeBound]:
    """Bounds of all integers that *program* computes for its loops, guards, grids and subscripts.

    :arg sizes: the names of its integer arguments. Other names without a definition are read from memory; their values
        are subscripts, which the length of an array bounds.
    """
    known = {x: MagnitudeBound(factors=((x, Fraction(1)),)) for x in sizes}
    found: set[MagnitudeBound] = set()
    # the iname of a loop that the host runs is a size of the launches in it
    _BoundCollector(known, found).block(program.order)
    for function in program.functions:
        collector = _BoundCollector(dict(known), found)
        for name, value in (*function.extents.items(), *function.coordinates.items()):
            collector.known[name] = collector.value(value)
        collector.block(function.body)
    constants = sorted((r for r in found if not r.factors), key=lambda r: r.constant)
    return frozenset([*(r for r in found if r.factors), *constants[-1:]])


@dataclass(frozen=True)
class _BoundCollector:
    """Walks a loop program: the bounds of its names, and of all expressions so far."""

    known: dict[str, MagnitudeBound]
    found: set[MagnitudeBound]

    def block(self, block: Block) -> None:
        for node in nodes_in(block):
            parts = expressions_of(node)
            if isinstance(node, For):
                ends = _joined(list(map(self.value, parts[:2])), max)
                self.known[node.iname] = ends
                self.found.add(ends.scaled(Fraction(1), node.step))     # the loop variable passes its last value
                parts = parts[2:]
            bounds = list(map(self.value, parts))
            if isinstance(node, Define):
                self.known[node.name], = bounds

    def value(self, expr: Expression) -> MagnitudeBound:
        """The bound of an expression. Collects it, and those of its parts that may be greater."""
        result = self._value(expr)
        self.found.add(result)
        return result

    def _value(self, expr: Expression) -> MagnitudeBound:
        match expr:
            case int():
                return MagnitudeBound(Fraction(abs(expr)))
            case p.Variable(name=name):
                return self.known.get(name, MagnitudeBound())
            case p.Sum(children=terms):
                return _joined(list(map(self._value, terms)), sum)
            case p.Product(children=factors):
                return self._product(factors)
            case p.FloorDiv(numerator=numerator, denominator=int() as divisor):
                return self.value(numerator).scaled(Fraction(1, abs(divisor)), 1)
            case p.Remainder(numerator=numerator, denominator=int() as divisor):
                self.value(numerator)
                return MagnitudeBound(Fraction(abs(divisor)))
            case p.Min(children=parts) | p.Max(children=parts):
                return _joined(list(map(self.value, parts)), max)
            case p.If():
                self.value(expr.condition)
                return _joined([self.value(expr.then), self.value(expr.else_)], max)
            case _:
                for child in children(expr):
                    self.value(child)
                return MagnitudeBound()              # an element of an array, or a number that is not an integer

    def _product(self, factors: tuple[Expression, ...]) -> MagnitudeBound:
        constant = prod((self._value(f).constant for f in factors if not variables(f)), start=Fraction(1))
        others = [self._value(f) for f in factors if variables(f)]
        if not others:
            return MagnitudeBound(constant)
        if len(others) == 1:
            return others[0].scaled(constant)
        self.found.update(others)
        return MagnitudeBound()     # a product of sizes is an address, bounded by the arrays' lengths, or has 64 bits
