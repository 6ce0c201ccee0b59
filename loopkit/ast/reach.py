"""Value ranges of the integers of a loop program: bounds, linear in the sizes, of every intermediate result.

isl brings forms to a common shape whose parts may be far larger than the whole: ``(n - m + 255)/256`` comes as
``-m + (255*m + n + 255)/256``. So what is bounded is each expression as it stands, not the values it may have.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Block, Call, Define, For, Function, If, Program, Region, Sync
from loopkit.ast.walk import expressions_of, nodes_in
from loopkit.expr.mappers import children, variables


@dataclass(frozen=True)
class Reach:
    """An upper bound of an absolute value: a constant, and a factor for the absolute value of each size."""

    constant: Fraction = Fraction(0)
    factors: tuple[tuple[str, Fraction], ...] = ()

    def at(self, values: Mapping[str, int]) -> int:
        """The bound for these sizes; of names that have no value here nothing is said."""
        return int(self.constant + sum(f*abs(values[x]) for x, f in self.factors if x in values)) + 1

    def surely_below(self, limit: int) -> int:
        """Sizes that are all smaller than this keep the bound below *limit*; 0 where nothing does."""
        room = limit - 2 - self.constant
        factor = sum(f for _, f in self.factors)
        if not factor:
            return limit if room >= 0 else 0
        return max(int(room/factor), 0)

    def times(self, factor: Fraction) -> Reach:
        return Reach(self.constant*factor, tuple((x, f*factor) for x, f in self.factors))

    def plus(self, constant: int) -> Reach:
        return Reach(self.constant + constant, self.factors)


def together(parts: Iterable[Reach]) -> Reach:
    """The bound of a sum."""
    constant, factors = Fraction(0), dict[str, Fraction]()
    for part in parts:
        constant += part.constant
        for x, f in part.factors:
            factors[x] = factors.get(x, Fraction(0)) + f
    return Reach(constant, tuple(sorted(factors.items())))


def either(parts: Iterable[Reach]) -> Reach:
    """A bound of each."""
    constant, factors = Fraction(0), dict[str, Fraction]()
    for part in parts:
        constant = max(constant, part.constant)
        for x, f in part.factors:
            factors[x] = max(factors.get(x, Fraction(0)), f)
    return Reach(constant, tuple(sorted(factors.items())))


@dataclass(frozen=True)
class Volume:
    """An upper bound of the addresses in an array that no caller passes.

    :ivar beyond: how many steps outside of it a part of a subscript may be, and one more.
    """

    extents: tuple[Expression, ...]
    beyond: int

    def at(self, values: Mapping[str, int]) -> int:
        """The bound for these sizes."""
        return prod(_largest(e, values) + self.beyond for e in self.extents)

    def surely_below(self, limit: int) -> int:
        """Sizes that are all smaller than this keep the bound below *limit*; 0 where nothing does."""
        names = frozenset().union(*map(variables, self.extents))
        below = limit
        while below and self.at(dict.fromkeys(names, below)) >= limit:
            below //= 2
        return below


def _largest(extent: Expression, values: Mapping[str, int]) -> int:
    """A bound of an extent, and of all that is computed on the way to it."""
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
        case p.If(then=then, else_=otherwise):
            return max(_largest(then, values), _largest(otherwise, values))
        case p.Min(children=parts) | p.Max(children=parts):
            return max(_largest(e, values) for e in parts)
        case _:
            raise TypeError(f"{extent} is no extent")


def reaches(program: Program, sizes: Iterable[str]) -> frozenset[Reach]:
    """Bounds of all integers that *program* computes for its loops, guards, grids and subscripts.

    :arg sizes: the names of its integer arguments; what else has a name and no definition is read from memory, and
        stays below the length of an array.
    """
    known = {x: Reach(factors=((x, Fraction(1)),)) for x in sizes}
    found: set[Reach] = set()
    # a launch within a loop of the host sees that loop's iname as a size
    _Walk(known, found).block(program.order)
    for function in program.functions:
        _Walk(dict(known), found).function(function)
    constants = sorted((r for r in found if not r.factors), key=lambda r: r.constant)
    return frozenset([*(r for r in found if r.factors), *constants[-1:]])


@dataclass(frozen=True)
class _Walk:
    """What is known of names, and what was found so far."""

    known: dict[str, Reach]
    found: set[Reach]

    def function(self, function: Function) -> None:
        for axis, extent in function.extents.items():
            self.known[axis] = self.value(extent)
        for iname, coordinate in function.coordinates.items():
            self.known[iname] = self.value(coordinate)
        self.block(function.body)

    def block(self, block: Block) -> None:
        for node in nodes_in(block):
            match node:
                case Assign():
                    self.value(node.target)
                    self.value(node.value)
                case For():
                    start, stop, *operands = expressions_of(node)
                    ends = either((self.value(start), self.value(stop)))
                    self.known[node.iname] = ends
                    self.found.add(ends.plus(node.step))             # where the loop ends, its variable is beyond
                    for operand in operands:
                        self.value(operand)
                case If():
                    self.value(node.condition)
                case Define():
                    self.known[node.name] = self.value(node.value)
                case Region() | Block() | Sync() | Call():
                    pass

    def value(self, expr: Expression) -> Reach:
        """The bound of an expression, noted with those of its parts that are larger than what comes of them."""
        result = self._value(expr)
        self.found.add(result)
        return result

    def _value(self, expr: Expression) -> Reach:
        match expr:
            case bool() | int():
                return Reach(Fraction(abs(int(expr))))
            case p.Variable(name=name):
                return self.known.get(name, Reach())
            case p.Sum(children=terms):
                return together(map(self._value, terms))
            case p.Product(children=factors):
                return self._product(factors)
            case p.FloorDiv(numerator=numerator, denominator=int() as divisor):
                return self.value(numerator).times(Fraction(1, abs(divisor))).plus(1)
            case p.Remainder(numerator=numerator, denominator=int() as divisor):
                self.value(numerator)
                return Reach(Fraction(abs(divisor)))
            case p.Min(children=parts) | p.Max(children=parts):
                return either(map(self.value, parts))
            case p.If():
                self.value(expr.condition)
                return either((self.value(expr.then), self.value(expr.else_)))
            case p.ExpressionNode():
                for child in _parts(expr):
                    self.value(child)
                return Reach()                            # an array's element, or no integer of an index
            case _:
                return Reach()

    def _product(self, factors: tuple[Expression, ...]) -> Reach:
        found = list(map(self._value, factors))
        others = [r for f, r in zip(factors, found, strict=True) if variables(f)]
        constant = prod((r.constant for f, r in zip(factors, found, strict=True) if not variables(f)),
                        start=Fraction(1))
        if len(others) > 1:
            self.found.update(others)
        # a product of sizes is an address, which the arrays' lengths bound, or is computed in 64 bits
        return others[0].times(constant) if len(others) == 1 else Reach() if others else Reach(constant)


def _parts(expr: Expression) -> Iterator[Expression]:
    return iter(expr.index_tuple) if isinstance(expr, p.Subscript) else iter(children(expr))
