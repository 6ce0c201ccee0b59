"""Grouped products: ragged and empty groups, on the host, as the plain formula, and in the emulation of Hopper."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import loopkit as lk
from tests.deep import shared

HOPPER = lk.CudaTarget("sm_90a")

#: Ends of groups of 150 rows: ragged ones, of one row, empty ones; the last group ends with the array, or before.
ENDS = [[1, 1, 70, 150], [0, 64, 128, 129], [0, 0, 0, 0], [150]]


@shared
def _kernel(*, b_transposed: bool = False) -> lk.LoopKernel:
    return lk.library.grouped_matmul(tile=(64, 64), stages=2, b_transposed=b_transposed)


def arrays_of(ends: Sequence[int], *, b_transposed: bool = False) -> dict[str, np.ndarray]:
    bfloat16, rng, b = lk.library.defaults.known_dtype("bfloat16"), np.random.default_rng(0), (len(ends), 136, 72)
    return {"a": rng.integers(-2, 3, (150, 136)).astype(bfloat16), "ends": np.array(ends, np.int32),
            "b": rng.integers(-2, 3, (b[0], *b[:0:-1]) if b_transposed else b).astype(bfloat16),
            "c": np.full((150, 72), 7, bfloat16)}


def expected_of(arrays: dict[str, np.ndarray], *, b_transposed: bool = False) -> np.ndarray:
    c, start = arrays["c"].astype(np.float32), 0
    for end, b in zip(arrays["ends"], arrays["b"].astype(np.float32), strict=True):
        c[start:end] = arrays["a"][start:end].astype(np.float32) @ (b.T if b_transposed else b)
        start = end
    return c.astype(arrays["c"].dtype)


@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_blocks_are_proven(full: bool) -> None:
    found = lk.verify(_kernel(), HOPPER, full=full)
    verdicts = {x.name: x.verdict for x in found.checks}
    # rows of two tiles differ if ends does not decrease, and rows exist if the last end is not beyond them
    assert verdicts.pop("order") is verdicts.pop("races") is lk.Verdict.ASSUMED, found
    assert verdicts.pop("bounds") is lk.Verdict.UNDECIDED, found
    assert {*verdicts.values()} == {lk.Verdict.PROVEN}, found
    assert [o.reason for o in _kernel().obligations] == ["tiles have rows of their own if ends does not decrease"]


@pytest.mark.parametrize("ends", [ENDS[0], *(pytest.param(x, marks=pytest.mark.deep) for x in ENDS[1:])], ids=str)
def test_groups_of_any_lengths_are_emulated(ends: Sequence[int]) -> None:
    arrays = arrays_of(ends)
    expected = expected_of(arrays)
    assert lk.emulate(_kernel(), arrays, target=HOPPER).c is arrays["c"]
    np.testing.assert_array_equal(arrays["c"], expected)


@pytest.mark.deep
@pytest.mark.parametrize("ends", ENDS, ids=str)
def test_groups_of_any_lengths_are_right_on_the_host(ends: Sequence[int]) -> None:
    arrays = arrays_of(ends)
    expected = expected_of(arrays)
    lk.compile(_kernel(), "c")(**arrays)
    np.testing.assert_array_equal(arrays["c"], expected)


@pytest.mark.deep
def test_a_transposed_matrix_of_each_group() -> None:
    arrays = arrays_of(ENDS[0], b_transposed=True)
    expected = expected_of(arrays, b_transposed=True)
    lk.emulate(_kernel(b_transposed=True), arrays, target=HOPPER)
    np.testing.assert_array_equal(arrays["c"], expected)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"dtype": "float32"}, "bfloat16 or float16, and not float32"), ({"tile": (64, 72)}, "multiple of 64 columns"),
    ({"stages": 1}, "two strips of each factor or more")])
def test_arguments_that_a_grouped_product_cannot_have(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(lk.PreconditionError, match=message):
        lk.library.grouped_matmul(**arguments)      # type: ignore[arg-type]
