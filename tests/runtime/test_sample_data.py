"""The data of comparisons, kind by kind."""
from __future__ import annotations

import numpy as np
import pytest

from loopkit.expr.kinds import named_dtype
from loopkit.runtime.sample_data import KINDS, PRIMES, kinds_of_data, random_array

DTYPES = ["float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "int64",
          "uint16", "uint64", "bool", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "i8", "u2", "?", "c8", "c16"])
def test_data(dtype: str) -> None:
    data = random_array((1000,), np.dtype(dtype), np.random.default_rng(0))
    assert data.dtype == dtype
    if dtype != "?":
        assert np.all(data != 0)
    if dtype[0] == "f":
        assert data.min() >= 0.5
        assert data.max() <= 1.5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_kind_has_every_dtype(kind: str, dtype: str) -> None:
    if dtype == "bfloat16" or dtype.startswith("float8"):
        pytest.importorskip("ml_dtypes")
    for shape in ((), (0, 3), (1,), (5, 7)):
        data = KINDS[kind](shape, named_dtype(dtype), np.random.default_rng(0))
        again = KINDS[kind](shape, named_dtype(dtype), np.random.default_rng(0))
        assert (data.shape, data.dtype) == (shape, named_dtype(dtype))
        assert data.tobytes() == again.tobytes()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_special_numbers(dtype: str) -> None:
    def data(kind: str, *shape: int) -> np.ndarray:
        return KINDS[kind](shape, np.dtype(dtype), np.random.default_rng(1))
    assert np.isnan(data("nan", 9, 9)).sum() == 3
    assert np.isnan(data("nan", 2)).sum() == 2
    assert not np.isnan(data("nan"))
    infinite = data("infinities", 9, 9).real
    assert (np.isposinf(infinite).sum(), np.isneginf(infinite).sum()) == (2, 1)
    tiny = data("denormals", 99).real
    assert np.all((tiny > 0) & (tiny < np.finfo(dtype).smallest_normal))
    large = data("large", 99)
    assert np.isfinite(large*large).all()
    assert np.abs(large).min() > (3 if dtype == "float16" else 1e17)


def test_large_integers_cover_their_range() -> None:
    data = KINDS["large"]((9999,), np.dtype(np.int8), np.random.default_rng(0))
    assert (data.min(), data.max()) == (-128, 127)


def test_primes_repeat_at_no_length_of_a_tile() -> None:
    data = KINDS["primes"]((62,), np.dtype(np.float32), np.random.default_rng(0))
    assert set(data) == set(PRIMES)
    assert len(PRIMES) == 31
    assert all(p % q for p in PRIMES for q in range(2, p))
    assert np.array_equal(data[:31], data[31:])


def test_the_kinds_of_an_argument() -> None:
    assert kinds_of_data("ones") == ("ones",)
    assert kinds_of_data(["ones", "random", "ones"]) == ("ones", "random")
    assert kinds_of_data("adversarial") == tuple(KINDS)
    assert kinds_of_data(["nan", "adversarial"])[0] == "nan"
