"""Fragment layouts of the matrix instructions."""
from __future__ import annotations

import pytest

from loopkit.expr.evaluate import evaluate
from loopkit.instructions.mma import Fragment, fragments

LANES = 32


def elements(layout: Fragment, registers: int) -> dict[tuple[int, int], tuple[int, int]]:
    """The lane and the register of each element, as the lanes have them."""
    found = {}
    for lane in range(LANES):
        for register in range(registers):
            row, column = (evaluate(e, {}) for e in layout.element(lane, register))
            found[row, column] = lane, register
    return found


@pytest.mark.deep
@pytest.mark.parametrize(("rows", "steps"), [(1, 4), (2, 4), (2, 8), (2, 16)])
def test_layouts_are_bijections(rows: int, steps: int) -> None:
    """Each element of the three matrices lies in one register of one lane, and is found there."""
    shapes = ((8*rows, steps), (steps, 8), (8*rows, 8))
    for layout, (height, width) in zip(fragments(rows), shapes, strict=True):
        found = elements(layout, height*width//LANES)
        assert found.keys() == {(row, column) for row in range(height) for column in range(width)}
        for (row, column), (lane, register) in found.items():
            holder, number = layout.holder(row, column)
            assert (evaluate(holder, {}), number) == (lane, register)
