"""Fragment layouts: the lanes and the registers that hold the elements of a small matrix.

The number of a row, or of a column, is written in digits of mixed radix. Each digit is also a digit of the lane's
number, or of the register's. So a layout is a bijection, and a nest of loops over the digits visits all elements.
"""
from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from pymbolic.typing import Expression

from loopkit.poly.affine import add, digit_of, multiply


@dataclass(frozen=True)
class Digit:
    """A digit of the number of a row or a column, with *extent* values.

    :ivar of_lanes: it is a digit of the lane's number, else of the register's.
    :ivar place: its place in that number; 0 is the fastest.
    """

    extent: int
    of_lanes: bool
    place: int


#: The digits of a number, the slowest first.
Digits = tuple[Digit, ...]


@dataclass(frozen=True)
class Fragment:
    """A fragment layout: the digits of the rows and of the columns of a matrix."""

    rows: Digits
    columns: Digits

    @classmethod
    def of(cls, rows: str, columns: str) -> Fragment:
        """A layout from texts: ``t1*8`` is a digit of 8 values at place 1 of the lane's number, ``r0*2`` one of 2
        values at place 0 of the register's.

        >>> sums = Fragment.of("r1*2 t1*8", "t0*4 r0*2")
        >>> sums.extents, sums.registers, sums.element(5, 3)        # the sum that lane 5 holds in register 3
        ((16, 8), 4, (9, 3))
        """
        def digits(text: str) -> Digits:
            return tuple(Digit(int(extent), kind == "t", int(place))
                         for kind, place, extent in re.findall(r"([rt])(\d)\*(\d+)", text))
        return cls(digits(rows), digits(columns))

    @property
    def extents(self) -> tuple[int, int]:
        """The numbers of rows and of columns."""
        rows, columns = (prod(d.extent for d in axis) for axis in (self.rows, self.columns))
        return rows, columns

    @property
    def registers(self) -> int:
        """The number of elements that a lane holds."""
        return prod(d.extent for d in self.digits_of_registers)

    @cached_property
    def digits_of_registers(self) -> Digits:
        """The digits of the register's number, the slowest first."""
        return self._number(of_lanes=False)

    def register_digits(self, register: int) -> tuple[int, ...]:
        """The values of these digits for a *register*."""
        found = dict(_values_of(register, self.digits_of_registers))
        return tuple(value for d in self.digits_of_registers if isinstance(value := found[d], int))

    @cached_property
    def lanes(self) -> Digits:
        """The digits of the lane's number, the slowest first."""
        return self._number(of_lanes=True)

    def _number(self, *, of_lanes: bool) -> Digits:
        own = (d for d in (*self.rows, *self.columns) if d.of_lanes == of_lanes)
        return tuple(sorted(own, key=lambda d: -d.place))

    def values(self, lanes: Sequence[Expression], register: Expression) -> dict[Digit, Expression]:
        """The value of each digit for a lane with these digits *lanes*, the slowest first, in a *register*."""
        found = dict(zip(self.lanes, lanes, strict=True))
        return found | dict(_values_of(register, self._number(of_lanes=False)))

    def element(self, lane: Expression, register: Expression) -> tuple[Expression, Expression]:
        """The row and the column of the element that a lane holds in a register."""
        found = self.values([value for _, value in _values_of(lane, self.lanes)], register)
        row, column = (combined(axis, [found[d] for d in axis]) for axis in (self.rows, self.columns))
        return row, column

    def holder(self, row: Expression, column: Expression) -> tuple[Expression, Expression]:
        """The lane and the register of the element in *row* and *column*."""
        found = dict([*_values_of(row, self.rows), *_values_of(column, self.columns)])
        lane, register = (combined(own, [found[d] for d in own])
                          for own in (self.lanes, self._number(of_lanes=False)))
        return lane, register


def combined(digits: Digits, values: Sequence[Expression]) -> Expression:
    """The number with these *values* of its *digits*, the slowest first."""
    number: Expression = 0
    for digit, value in zip(digits, values, strict=True):
        number = add(multiply(digit.extent, number), value)
    return number


def _values_of(number: Expression, digits: Digits) -> Iterator[tuple[Digit, Expression]]:
    """Each of the *digits* of *number* with its value."""
    weight = prod(d.extent for d in digits)
    for first, digit in enumerate(digits):
        weight //= digit.extent
        yield digit, digit_of(number, weight, 0 if not first else digit.extent)
