"""Fragment layouts, against the conditions of the "PTX ISA" for each register, written as they stand there."""
from __future__ import annotations

from collections.abc import Callable

import pymbolic.primitives as p
import pytest

from loopkit.expr.evaluate import evaluate
from loopkit.instructions.fragments import Fragment
from loopkit.instructions.mma import MMA, Mma
from tests.property.matrix_units import IN_A_REGISTER, element_of_sums, left_holder, right_holder

LANES = 32

#: The row and the column of element *i* in a lane of group *g*, which is thread *t* of it.
Element = Callable[[int, int, int], tuple[int, int]]

#: The left and the right factor by the steps and the bytes of a number; with 16 rows.
FACTORS: dict[tuple[int, int], tuple[Element, Element]] = {
    (4, 8): (lambda g, t, i: (g if i == 0 else g + 8, t), lambda g, t, i: (t, g)),
    (8, 8): (lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4),
             lambda g, t, i: (t if i == 0 else t + 4, g)),
    (16, 8): (lambda g, t, i: (g if i % 2 == 0 else g + 8, t + i // 2*4), lambda g, t, i: (t + 4*i, g)),
    (4, 4): (lambda g, t, i: (g if i == 0 else g + 8, t), lambda g, t, i: (t, g)),
    (8, 4): (lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4),
             lambda g, t, i: (t if i == 0 else t + 4, g)),
    (8, 2): (lambda g, t, i: (g if i < 2 else g + 8, 2*t + (i & 1)), lambda g, t, i: (2*t + i, g)),
    (16, 2): (lambda g, t, i: (g if i < 2 or 4 <= i < 6 else g + 8, 2*t + (i & 1) + (0 if i < 4 else 8)),
              lambda g, t, i: (2*t + (i & 1) + (0 if i < 2 else 8), g)),
    (16, 1): (lambda g, t, i: (g if i < 4 else g + 8, 4*t + (i & 3)), lambda g, t, i: (4*t + i, g)),
    (32, 1): (lambda g, t, i: (g if i < 4 or 8 <= i < 12 else g + 8, 4*t + (i & 3) + (0 if i < 8 else 16)),
              lambda g, t, i: (4*t + (i & 3) + (0 if i < 4 else 16), g))}


def of_ptx(mma: Mma) -> tuple[Element, Element, Element]:
    if mma.shape == (8, 8, 4):
        return lambda g, t, i: (g, t), lambda g, t, i: (t, g), lambda g, t, i: (g, 2*t + i)
    return *FACTORS[mma.shape[2], mma.factor.size], lambda g, t, i: (g if i < 2 else g + 8, 2*t + (i & 1))


@pytest.mark.parametrize("name", MMA)
def test_layouts_are_those_of_the_instruction(name: str) -> None:
    """Each element lies in one register of one lane, the same as in the test machine, and is found there."""
    mma = MMA[name]
    rows, columns, steps = mma.shape
    numbers = IN_A_REGISTER[mma.factor.ptx]
    for layout, shape, expected, holder in (
            (mma.left, (rows, steps), of_ptx(mma)[0], lambda r, s: left_holder(r, s, numbers, rows)),
            (mma.right, (steps, columns), of_ptx(mma)[1], lambda s, c: right_holder(s, c, numbers)),
            (mma.sums, (rows, columns), of_ptx(mma)[2], None)):
        assert layout.extents == shape
        found = {}
        for lane in range(LANES):
            for register in range(layout.registers):
                element = layout.element(lane, register)
                assert element == expected(lane // 4, lane % 4, register)
                assert layout.holder(*element) == (lane, register)
                assert (holder(*element) == (lane, register)) if holder else element_of_sums(lane, register) == element
                found[element] = lane, register
        assert len(found) == rows*steps if layout is mma.left else len(found) == layout.registers*LANES


def test_expressions_have_the_values_of_numbers() -> None:
    layout = Fragment.of("r1*2 t1*8", "r2*2 t0*4 r0*2")
    lane, row, column = map(p.Variable, ("lane", "row", "column"))
    for t in (0, 5, 31):
        for register in range(layout.registers):
            i, j = layout.element(t, register)
            assert tuple(evaluate(e, {"lane": t}) for e in layout.element(lane, register)) == (i, j)
            assert tuple(evaluate(e, {"row": i, "column": j}) for e in layout.holder(row, column)) == (t, register)


def test_digits_from_a_text() -> None:
    layout = Fragment.of("r1*2 t1*8", "t0*4 r0*2")
    assert layout.extents == (16, 8)
    assert [(d.extent, d.place) for d in layout.lanes] == [(8, 1), (4, 0)]
    assert layout.registers == 4
