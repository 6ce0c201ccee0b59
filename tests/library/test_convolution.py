"""The library's convolution by warpgroups: text, proofs, emulated results, and what it refuses."""
from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.expr.kinds import named_dtype
from tests.golden_files import GoldenFiles
from tests.nvrtc import compile_cuda

HOPPER = lk.CudaTarget("sm_90a")

#: A small tile.
SMALL = {"tile": (1, 8, 8, 64)}


def data(size: tuple[int, int, int, int, int], dtype: str = "bfloat16", filter_shape: tuple[int, int] = (3, 3)
         ) -> tuple[np.ndarray, np.ndarray]:
    """Images and filters; *size*: images, rows, columns, channels and filters. The sums of small numbers are exact."""
    rng = np.random.default_rng(size)
    *image, filters = size
    return (rng.integers(-2, 3, image).astype(named_dtype(dtype)),
            rng.integers(-2, 3, (filters, *filter_shape, size[3])).astype(named_dtype(dtype)))


def expected(x: np.ndarray, w: np.ndarray, stride: int = 1, padding: int = 0, dilation: int = 1) -> np.ndarray:
    """As a sum of products of shifted images, rounded to the dtype of the images."""
    r, s = w.shape[1:3]
    around = np.pad(x.astype(float), ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    rows, columns = (max((around.shape[axis] - dilation*(n - 1) - 1)//stride + 1, 0) for axis, n in ((1, r), (2, s)))
    y = np.zeros((len(x), rows, columns, len(w)))
    for i in range(r):
        for j in range(s):
            part = around[:, dilation*i:, dilation*j:][:, ::stride, ::stride][:, :rows, :columns]
            y += part @ w[:, i, j].astype(float).T
    return y


def require_right(knl: lk.LoopKernel, x: np.ndarray, w: np.ndarray, wanted: np.ndarray, **how: str) -> None:
    found = lk.emulate(knl, x=x, w=w, target=HOPPER, **how).y                       # type: ignore[arg-type]
    np.testing.assert_array_equal(found.astype(float), wanted.astype(found.dtype).astype(float))


@pytest.mark.deep(every=2)
@pytest.mark.parametrize(("name", "given"), [
    ("conv2d", {"padding": 1}), ("conv2d_strided", {"padding": 1, "stride": 2, "filter_layout": "rscf"})])
def test_golden_cuda(golden: GoldenFiles, name: str, given: dict[str, Any]) -> None:
    """One loop over all factors of a tile, without a condition, and a producer that runs ahead of it."""
    code = lk.generate_code(lk.library.conv2d(shape=(64, 56, 56, 256, 256), **given), target=HOPPER)
    golden.check(f"library/{name}.cu", code)
    compiled = compile_cuda(code.source, "sm_90a")
    assert not compiled.spills
    assert "serialized" not in compiled.binary.log
    assert "wait_for_products<1>();" in code.source


@pytest.mark.deep
@pytest.mark.parametrize("given", [
    {"padding": 1}, {"stride": (1, 3), "dilation": (2, 1), "filter_shape": (1, 2)},
    {"shape": (3, 16, 16, 64, 64), "multiprocessors": 2, "filter_layout": "rsfc"}], ids=str)
def test_the_pipeline_is_proven(given: dict[str, Any]) -> None:
    report = lk.verify(lk.library.conv2d("float16", **SMALL, **given), full=True)
    assert report.proven, report


DRAWS = random.Random(2)
TILES = [(1, 8, 8, 64), (2, 4, 8, 64), (4, 4, 4, 64), (1, 32, 2, 64), (64, 1, 1, 64)]


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("given", [{
    "filter_shape": (DRAWS.randint(1, 3), DRAWS.randint(1, 3)), "stride": DRAWS.randint(1, 3),
    "padding": DRAWS.randint(0, 3), "dilation": DRAWS.randint(1, 3),
    "size": (DRAWS.randint(1, 2), DRAWS.randint(1, 12), DRAWS.randint(1, 12), 8*DRAWS.randint(1, 2), 8),
    "tile": DRAWS.choice(TILES)} for _ in range(12)], ids=str)
def test_windows(given: dict[str, Any]) -> None:
    """By emulation, with boxes beyond all edges of the images, and results without elements."""
    size, filter_shape, tile = (given[what] for what in ("size", "filter_shape", "tile"))
    window = {what: given[what] for what in ("stride", "padding", "dilation")}
    x, w = data(size, filter_shape=filter_shape)
    knl = lk.library.conv2d(filter_shape=filter_shape, tile=tile, **window)
    require_right(knl, x, w, expected(x, w, **window), completion="first")


@pytest.mark.deep(every=3)
@pytest.mark.parametrize(("dtype", "layout", "store"), [
    ("bfloat16", "rscf", "tma"), ("float16", "crsf", "tma"), ("float16", "rsfc", "registers"),
    ("int8", "frsc", "registers"), ("float8_e4m3fn", "rsfc", "tma"), ("float32", "frsc", "tma")])
def test_filters_in_other_layouts(dtype: str, layout: str, store: str) -> None:
    x, w = data((1, 4, 5, 16, 16), dtype, (2, 1))
    axes = ["frsc".index(axis) for axis in layout]
    knl = lk.library.conv2d(dtype, filter_shape=(2, 1), filter_layout=layout, store=store, padding=1, **SMALL)
    require_right(knl, x, np.ascontiguousarray(w.transpose(axes)), expected(x, w, padding=1), completion="last")


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("order", ["forward", "backward"])
def test_blocks_that_run_several_tiles(order: str) -> None:
    """One of the tiles is partial along each axis."""
    x, w = data(size := (2, 9, 10, 40, 8))
    knl = lk.library.conv2d(padding=1, shape=size, multiprocessors=3, **SMALL)
    assert knl.options.persistent == 3
    require_right(knl, x, w, expected(x, w, padding=1), order=order)


def test_an_epilogue_of_any_number_of_filters() -> None:
    """Threads store rows that TMA could not."""
    x, w = data(size := (1, 4, 5, 8, 5))
    bias = np.arange(5, dtype=np.float32)
    knl = lk.library.conv2d(shape=size, epilogue="max(total + bias[f], 0)", **SMALL)
    assert "by=tma.store" not in knl.statements_text
    found = lk.emulate(lk.add_dtypes(knl, {"bias": np.float32}), x=x, w=w, bias=bias, target=HOPPER).y
    np.testing.assert_array_equal(found.astype(float), np.maximum(expected(x, w) + bias, 0).astype(found.dtype)
                                  .astype(float))


@pytest.mark.deep(every=3)
@pytest.mark.parametrize(("size", "stride", "tile"), [
    ((64, 56, 56, 256, 256), 1, "'n': 2, 'h': 8, 'q': 8, 'f': 256"),
    ((64, 56, 56, 256, 256), 2, "'n': 8, 'h': 4, 'q': 4, 'f': 256"),
    ((1, 64, 64, 64, 64), 1, "'n': 1, 'h': 8, 'q': 8, 'f': 128")])
def test_a_shape_chooses_the_tile(size: tuple[int, int, int, int, int], stride: int, tile: str) -> None:
    """The one with the fewest positions beyond the edges, in a compact box."""
    assert tile in str(lk.library.conv2d(padding=1, stride=stride, shape=size).history)


@pytest.mark.parametrize(("given", "message"), [
    ({"dtype": "float64"}, "wgmma does not multiply factors of float64."),
    ({"stride": 9}, "TMA copies every element up to every 8th, and the stride is 9."),
    ({"padding": (1, -1)}, "The argument 'padding' is 0 or more along each axis, and not -1."),
    ({"filter_shape": 0}, "The argument 'filter_shape' is 1 or more along each axis, and not 0."),
    ({"filter_layout": "fcrs"}, "A filter has the axes f, r, s and c, the last one c or f, and not 'fcrs'."),
    ({"dtype": "int8", "filter_layout": "rscf"}, "wgmma multiplies factors of int8 only if both are K-major"),
    ({"tile": (1, 7, 8, 64)}, "a multiple of 64 rows, at most 256, and not 56."),
    ({"tile": (1, 8, 8, 512)}, "a multiple of 64 columns, at most 256, and not 512."),
    ({"stages": 1}, "Warpgroups need two strips of each factor or more, and not 1."),
    ({"epilogue": "total + x[n, h, q, f]"}, "The epilogue 'total + x[n, h, q, f]' cannot have 'x'"),
    ({"store": "disk"}, "The result goes to memory by tma or registers, and not by 'disk'.")])
def test_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(lk.PreconditionError) as caught:
        lk.library.conv2d(**given)
    assert message in str(caught.value)
