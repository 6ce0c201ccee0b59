"""Each matrix instruction on the device: the numbers of numpy, which are exact."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from loopkit.expr.kinds import named_dtype
from loopkit.instructions.mma import MMA
from loopkit.runtime.cuda.devices import find_gpu
from tests.matrix_kernels import PRODUCTS, data, product
from tests.transform.test_tensorize import ragged

BF16 = named_dtype("bfloat16")


def require_capability(name: str) -> None:
    major, minor = find_gpu().capability
    if 10*major + minor < MMA[name].capability:
        pytest.skip(f"the GPU has no {name}")


@pytest.mark.parametrize(("name", "way"), PRODUCTS)
def test_each_instruction(name: str, way: str) -> None:
    """The result array is full of other numbers before."""
    require_capability(name)
    knl = lk.compile(product(name, way), target="cuda")
    for seed in range(3):
        given, expected = data(name, seed)
        found = knl(**given, c=np.full_like(expected, 77)).c
        np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("pipelined", [False, True])
def test_partial_tiles(pipelined: bool) -> None:
    knl = lk.compile(ragged(pipelined), target="cuda")
    rng = np.random.default_rng(0)
    for n, m, length in ((1, 1, 1), (19, 9, 21), (64, 48, 80), (65, 33, 100)):
        a, b = (rng.integers(-4, 5, shape) for shape in ((n, length), (length, m)))
        found = knl(a=a.astype(BF16), b=b.astype(BF16)).c
        np.testing.assert_array_equal(np.asarray(found), a @ b)
