"""Matrix products by the matrix units of sm_80."""
from __future__ import annotations

import random

import ml_dtypes
import numpy as np
import pytest

import loopkit as lk
from loopkit.lowering.pipeline import lowered_once
from loopkit.verification.validation import validate
from tests.golden_files import GoldenFiles
from tests.nvrtc import compile_cuda

BF16, E4M3 = np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn)
SMALL = {"warp": (16, 16), "stages": 3, "group": 2}

#: The factors' dtype, the second factor's layout, and the largest relative error: that of the result's rounding.
CASES = [(BF16, False, 2.0**-8), (np.dtype(np.float16), True, 2.0**-11), (np.dtype(np.float32), False, 2.0**-9),
         (E4M3, True, 2.0**-20), (np.dtype(np.int8), True, 0.0)]


def make(dtype: np.dtype, *, b_transposed: bool) -> lk.LoopKernel:
    return lk.library.matmul(dtype, mma=True, b_transposed=b_transposed, tile=(32, 32, 128 // dtype.itemsize), **SMALL)


def factors(dtype: np.dtype, size: tuple[int, int, int], *, b_transposed: bool) -> tuple[np.ndarray, np.ndarray]:
    n, m, length = size
    rng = np.random.default_rng(n)
    shapes = (n, length), ((m, length) if b_transposed else (length, m))
    a, b = (rng.integers(-128, 128, s).astype(dtype) if dtype.kind == "i" else rng.standard_normal(s).astype(dtype)
            for s in shapes)
    return a, b


@pytest.mark.deep(every=5)
@pytest.mark.parametrize(("dtype", "b_transposed", "error"), CASES)
def test_products_of_any_size(dtype: np.dtype, b_transposed: bool, error: float) -> None:
    """On the host; the loop program is proven to execute the kernel, fragments and all."""
    knl = make(dtype, b_transposed=b_transposed)
    assert validate(lowered_once(knl)) == ()
    compiled = lk.compile(knl, target="c")
    rng = random.Random(str(dtype))
    for size in ((1, 1, 1), (32, 64, 128), tuple(rng.randrange(1, 90) for _ in range(3))):
        a, b = factors(dtype, size, b_transposed=b_transposed)
        wide = [x.astype(np.float64) for x in (a, b.T if b_transposed else b)]
        found = compiled(a=a, b=b).c.astype(np.float64)
        assert np.abs(found - wide[0] @ wide[1]).max() <= error*(np.abs(wide[0]) @ np.abs(wide[1])).max()


def test_the_pipeline_is_short() -> None:
    assert len(make(BF16, b_transposed=False).history) <= 20


def test_golden_cuda(golden: GoldenFiles) -> None:
    code = lk.generate_code(lk.library.matmul(BF16), target="cuda")
    golden.check("library/matmul_of_bfloat16.cu", code)
    for arch in ("sm_80", "sm_90"):
        assert not compile_cuda(code.source, arch).spills


@pytest.mark.parametrize(("given", "message"), [
    ({"tile": (100, 128, 64)}, "100 rows are not a multiple of 64."),
    ({"tile": (128, 128, 32)}, "64 bytes of a strip are not a multiple of 128."),
    ({"warp": (64, 24)}, "128 columns are not a multiple of 24."),
    ({"depth": 64}, "The argument 'depth' does not apply to matrix instructions."),
    ({"mma": False, "result": np.float32}, "The argument 'result' does not apply to products without matrix")])
def test_parts_that_do_not_divide_a_product(given: dict[str, object], message: str) -> None:
    with pytest.raises(lk.PreconditionError) as err:
        lk.library.matmul(BF16, **given)
    assert str(err.value).startswith(message)
