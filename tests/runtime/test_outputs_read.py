"""Outputs that the kernel reads itself: demanded only where it reads what it has not written."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk


@pytest.mark.parametrize("text", ["y[i] = 2*x[i]\nz[i] = y[i] + 1", "y[i] = 2*x[i]\nz[j] = y[n-1-j] + 1"])
def test_what_is_written_first_is_allocated(text: str) -> None:
    found = lk.make_kernel("{[i,j]: 0<=i,j<n}", text)(x=np.arange(4.0))
    np.testing.assert_array_equal(np.sort(found.z), 2*np.arange(4.0) + 1)


@pytest.mark.parametrize("text", ["y[i] = y[i] + x[i]", "y[i] = x[i] {if=x[i] > 0}\nz[i] = y[i] + x[i]",
                                  "z[i] = y[i] + x[i]\ny[i] = x[i]"])
def test_what_is_read_first_is_demanded(text: str) -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", text), {"y": np.float64})
    with pytest.raises(lk.CallError) as caught:
        knl(x=np.arange(4.0))
    assert caught.value.argument == "y"
