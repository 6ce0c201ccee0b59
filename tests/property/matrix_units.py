"""What the matrix instructions compute, lane by lane: the layouts of the "PTX ISA", written down for the tests.

Lane ``t`` of a warp is in group ``t // 4``, and the thread ``t % 4`` of it. A register of 4 bytes, or a number of 8,
has 1, 2 or 4 numbers that follow each other in a row of the left matrix, and in a column of the right one. Registers of
the left matrix change their row first: by 8 from one to the next.
"""
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

#: Numbers in a register, by their name in PTX.
IN_A_REGISTER = {"f64": 1, "tf32": 1, "f16": 2, "bf16": 2, "e4m3": 4, "e5m2": 4, "s8": 4, "u8": 4}

#: For each lane, the numbers in its registers.
Given = Mapping[int, Sequence[Any]]


def left_holder(row: int, step: int, numbers: int, rows: int) -> tuple[int, int]:
    """The lane and the place of an element of the left matrix."""
    half, own = divmod(step, 4*numbers)
    return row % 8*4 + own // numbers, (half*(rows // 8) + row // 8)*numbers + own % numbers


def right_holder(step: int, column: int, numbers: int) -> tuple[int, int]:
    """The lane and the place of an element of the right matrix."""
    half, own = divmod(step, 4*numbers)
    return column*4 + own // numbers, half*numbers + own % numbers


def element_of_sums(lane: int, register: int) -> tuple[int, int]:
    """The row and the column of a sum."""
    return lane // 4 + register // 2*8, lane % 4*2 + register % 2


def added(name: str, lane: int, left: Given, right: Given) -> list[Any]:
    """What the instruction adds to the sums of *lane*; those of 32 lanes from *lane* ``// 32*32`` on belong together.
    """
    rows, steps, factor = re.fullmatch(r"mma\.m(\d+)n8k(\d+)\.(?:\w+\.)?(\w+)", name).groups()   # type: ignore[union-attr]
    numbers, first = IN_A_REGISTER[factor], lane // 32*32

    def at(given: Given, holder: tuple[int, int]) -> Any:
        value = given[first + holder[0]][holder[1]]
        return with_ten_bits(value) if factor == "tf32" else value
    found = []
    for register in range(int(rows) // 4):
        row, column = element_of_sums(lane % 32, register)
        factors = ((left_holder(row, step, numbers, int(rows)), right_holder(step, column, numbers))
                   for step in range(int(steps)))
        found.append(sum(at(left, one)*at(right, other) for one, other in factors))
    return found


def with_ten_bits(value: Any) -> float:
    """A factor in tf32: the instruction ignores the other 13 bits of a float32."""
    return float((np.float32(float(value)).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32))


def loaded(name: str, lane: int, rows: Given) -> list[Any]:
    """What ``ldmatrix`` gives to *lane*, if each lane provides the 16 bytes of a row."""
    count, transposed = re.fullmatch(r"ldmatrix\.x(\d)(\.trans)?", name).groups()                # type: ignore[union-attr]
    first, (group, thread) = lane // 32*32, divmod(lane % 32, 4)
    found = list[Any]()
    for matrix in range(int(count)):
        begin = first + 8*matrix
        if transposed:
            found += [rows[begin + 2*thread + k][group] for k in range(2)]
        else:
            row = rows[begin + group]
            numbers = len(row) // 4
            found += row[thread*numbers:(thread + 1)*numbers]
    return found
