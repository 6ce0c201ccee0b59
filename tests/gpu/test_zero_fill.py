"""Asynchronous copies with zeros at the edges, also in rows with gaps, whose last vectors are partial."""
from __future__ import annotations

from typing import Any

import pytest

import loopkit as lk
from tests.transform.test_zero_fill import BF16, product


@pytest.mark.parametrize("gap", [0, 3], ids=["rows without gaps", "rows with gaps"])
@pytest.mark.parametrize("sizes", [(37, 72, 48), (64, 128, 96), (5, 29, 45)])
def test_bfloat16(sizes: tuple[int, int, int], gap: int) -> None:
    """What is in a gap would be seen."""
    torch = pytest.importorskip("torch")
    knl = lk.compile(product(BF16, (32, 64, 32), 8, registers=(4, 4)), target="cuda")
    n, m, depth = sizes

    def matrix(rows: int, columns: int) -> Any:
        length = columns if not gap else -(-(columns + gap) // 8)*8
        whole = torch.full((rows, length), float("nan"), dtype=torch.bfloat16, device="cuda")
        whole[:, :columns] = torch.randint(-3, 4, (rows, columns))
        return whole[:, :columns]
    a, b = matrix(n, depth), matrix(depth, m)
    assert torch.equal(knl(a=a, b=b).c, a.float() @ b.float())
