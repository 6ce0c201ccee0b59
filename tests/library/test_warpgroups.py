"""The library's products by warpgroups: text, proofs, emulated results, and what they refuse."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopkit as lk
from loopkit.expr.kinds import named_dtype
from tests.deep import shared
from tests.golden_files import GoldenFiles
from tests.nvrtc import compile_cuda

BF16 = np.dtype(ml_dtypes.bfloat16)
BOTH = ["a_whole", "b_whole"]
HOPPER = lk.CudaTarget("sm_90a")


def test_golden_cuda(golden: GoldenFiles) -> None:
    """The matrix units work on one group of products while threads wait for the tiles of the next one."""
    code = lk.generate_code(lk.library.matmul("bfloat16", wgmma=True), target=HOPPER)
    golden.check("library/matmul_by_warpgroups.cu", code)
    compiled = compile_cuda(code.source, "sm_90a")
    assert not compiled.spills
    assert "serialized" not in compiled.binary.log
    assert "wait_for_products<1>();" in code.source
    assert re.search(r"keep_below\(acc_k\);\n *register_fence\(\);", code.source)


def test_golden_cuda_of_persistent_blocks(golden: GoldenFiles) -> None:
    """The producer copies the first tiles of the next place while the others store parts of the result."""
    code = lk.generate_code(lk.library.matmul("bfloat16", wgmma=True, shape=(4096, 4096, 4096)), target=HOPPER)
    golden.check("library/matmul_by_persistent_blocks.cu", code)
    compiled = compile_cuda(code.source, "sm_90a")
    assert not compiled.spills
    assert "serialized" not in compiled.binary.log


@pytest.mark.parametrize("given", [{"group": 1}, {"b_transposed": True}, {"a_transposed": True, "store": "registers"},
                                   {"epilogue": "max(total + bias[j], 0)"}], ids=str)
def test_the_pipeline_is_short_and_proven(given: dict[str, Any]) -> None:
    knl = lk.library.matmul("float16", wgmma=True, tile=(64, 64, 64), **given)
    assert len(knl.history) <= 20
    report = lk.verify(lk.add_dtypes(knl, {"bias": "float16"}) if "epilogue" in given else knl, full=True)
    assert report.proven, report


EPILOGUES: dict[str, Callable[..., Any]] = {
    "max(total + bias[j], 0)": lambda total, bias, **_: np.maximum(total + bias, 0),
    "total*scale[i] + residual[i, j]": lambda total, scale, residual, **_: total*scale[:, None] + residual}


@pytest.mark.parametrize("epilogue", EPILOGUES)
@pytest.mark.parametrize("store", ["registers", "tma"])
def test_epilogues(epilogue: str, store: str) -> None:
    """By emulation; the numbers are small, so that the results are exact."""
    rng, n, m, length = np.random.default_rng(0), 72, 80, 40
    a, b, bias, scale, residual = (rng.integers(-3, 4, shape).astype(named_dtype("bfloat16"))
                                   for shape in ((length, n), (length, m), (m,), (n,), (n, m)))
    knl = lk.library.matmul("bfloat16", wgmma=True, tile=(64, 64, 64), a_transposed=True, result="float32",
                            epilogue=epilogue, store=store)
    arrays = {"bias": bias, "scale": scale, "residual": residual}
    given = {x: v for x, v in arrays.items() if x in epilogue}
    expected = EPILOGUES[epilogue](a.T.astype(float) @ b.astype(float), **{
        x: v.astype(float) for x, v in given.items()})
    np.testing.assert_array_equal(lk.emulate(knl, a=a, b=b, **given, target=HOPPER).c, expected)


@shared
def product(dtype: str, *, b_transposed: bool) -> lk.LoopKernel:
    return lk.library.matmul(dtype, wgmma=True, b_transposed=b_transposed, tile=(64, 64, 64))


@pytest.mark.deep(every=2)
@pytest.mark.parametrize(("dtype", "b_transposed"), [("bfloat16", False), ("int8", True)])
@pytest.mark.parametrize("completion", ["first", "last"])
def test_partial_tiles(dtype: str, b_transposed: bool, completion: str) -> None:
    """By emulation, with tiles beyond all edges."""
    knl = product(dtype, b_transposed=b_transposed)
    rng, n, m, length = np.random.default_rng(0), 5, 72, 208
    a, b = (rng.integers(-4, 5, shape).astype(named_dtype(dtype)) for shape in ((n, length), (length, m)))
    found = lk.emulate(knl, a=a, b=np.ascontiguousarray(b.T) if b_transposed else b, completion=completion,
                       target=HOPPER).c
    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(found.dtype).astype(np.float64))


def parts_of_larger(rng: np.random.Generator) -> tuple[dict[str, Any], np.ndarray]:
    """A call for a part of larger arrays, and all of *c* after it."""
    a, b = (rng.integers(-4, 5, shape).astype(BF16) for shape in ((7, 40), (48, 40)))
    c = np.full((9, 48), 7, BF16)
    expected = c.astype(np.float64)
    expected[:5, :24] = a[:5, :16].astype(np.float64) @ b[:16, :24].astype(np.float64)
    return {"a": a, "b": b, "c": c, "n": 5, "m": 24, "l": 16}, expected.astype(BF16).astype(np.float64)


def test_arrays_may_be_larger_than_the_sizes() -> None:
    """TMA loads zeros beyond the sizes, and stores nothing there."""
    given, expected = parts_of_larger(np.random.default_rng(0))
    knl = product("bfloat16", b_transposed=False)
    np.testing.assert_array_equal(lk.emulate(knl, target=HOPPER, **given).c.astype(np.float64), expected)


def test_golden_cuda_of_odd_rows(golden: GoldenFiles) -> None:
    """A launch copies the factors with padding; no array of a call needs an alignment, and there is one text."""
    code = lk.generate_code(lk.library.matmul("bfloat16", wgmma=True, whole=True), target=HOPPER)
    golden.check("library/matmul_of_odd_rows.cu", code)
    compiled = compile_cuda(code.source, "sm_90a")
    assert not compiled.spills
    assert "serialized" not in compiled.binary.log
    assert "other calls" not in code.source


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("form", [
    {}, {"b_transposed": True, "store": "registers"}, {"a_transposed": True, "epilogue": "max(total, j)"}], ids=str)
def test_odd_rows(form: dict[str, Any]) -> None:
    """From copies that are padded to full tiles."""
    knl = lk.library.matmul("bfloat16", wgmma=True, whole=True, **{"tile": (64, 64, 64), **form})
    report = lk.verify(knl, full=True)
    assert report.proven, report
    rng, n, m, length = np.random.default_rng(0), 5, 67, 133
    a, b = (rng.integers(-4, 5, shape).astype(BF16) for shape in ((n, length), (length, m)))
    found = lk.emulate(knl, a=a.T.copy() if "a_transposed" in form else a,
                       b=b.T.copy() if "b_transposed" in form else b, target=HOPPER).c
    expected = a.astype(np.float64) @ b.astype(np.float64)
    expected = np.maximum(expected, np.arange(m)) if "epilogue" in form else expected
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(BF16).astype(np.float64))


@pytest.mark.deep(every=4)
@pytest.mark.parametrize(("shape", "b_transposed", "copies", "by_tma"), [
    ((64, 65, 64), False, ["b_whole"], False), ((64, 64, 64), False, [], True), ((63, 65, 67), False, BOTH, False),
    ((64, 64, 67), True, BOTH, True), ((64, 65, 64), True, [], False),
    ((4088, 4104, 4072), False, [], True)])
def test_a_shape_chooses_copies_and_stores(shape: tuple[int, int, int], b_transposed: bool, copies: list[str],
                                           by_tma: bool) -> None:
    """TMA reads and stores rows that begin at multiples of 16 bytes."""
    knl = lk.library.matmul("bfloat16", wgmma=True, shape=shape, b_transposed=b_transposed)
    assert [x for x in BOTH if x in knl.temporaries] == copies
    assert ("by=tma.store" in knl.statements_text) == by_tma


@pytest.mark.deep(every=7)
@pytest.mark.parametrize(("shape", "given", "blocks"), [
    ((4088, 4104, 4072), {}, 8), ((2056, 3080, 4104), {}, 2), ((8200, 8200, 8200), {}, 4),
    ((4096, 4096, 4072), {"b_transposed": True}, 8),
    # rows of b are fast, few tiles read b, the groups of rows are no multiple of clusters
    ((4096, 4096, 4072), {}, 1), ((264, 8200, 8200), {}, 1), ((4088, 4104, 4072), {"group": 3}, 1)])
def test_clusters_share_copies_for_which_tma_is_slow(shape: tuple[int, int, int], given: dict[str, Any],
                                                     blocks: int) -> None:
    """Rows of an odd multiple of 16 bytes."""
    knl = lk.library.matmul("bfloat16", wgmma=True, shape=shape, **given)
    text = lk.generate_code(knl, target=HOPPER).source
    assert re.findall(r"__cluster_dims__\((\d), 1, 1\)", text) == ([] if blocks == 1 else [str(blocks)])
    assert (knl.options.persistent == 0) == (blocks > 1 or shape[0] < 1024)


@pytest.mark.deep
def test_clusters_have_the_results_of_the_product() -> None:
    """By emulation, with rows of tiles that no cluster divides, and proven."""
    knl = lk.library.matmul("bfloat16", wgmma=True, shape=(1032, 72, 40), tile=(256, 64, 64))
    assert "cluster" in str(knl.history)
    report = lk.verify(knl, full=True)
    assert report.proven, report
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype(BF16) for s in ((1032, 40), (40, 72)))
    for completion in ("first", "last"):
        found = lk.emulate(knl, a=a, b=b, target=HOPPER, completion=completion).c.astype(np.float64)
        np.testing.assert_array_equal(found, (a.astype(float) @ b.astype(float)).astype(BF16).astype(float))


@pytest.mark.deep(every=4)
@pytest.mark.parametrize(("dtype", "shape", "given"), [
    ("bfloat16", (5, 72, 40), {}), ("bfloat16", (40, 130, 72), {"b_transposed": True, "epilogue": "total + j"}),
    ("int8", (17, 70, 160), {"b_transposed": True}), ("float16", (3, 67, 35), {})], ids=str)
def test_few_rows(dtype: str, shape: tuple[int, int, int], given: dict[str, Any]) -> None:
    """Warpgroups compute the transposed result, without rows of zeros up to 64. By emulation, and proven."""
    knl = lk.library.matmul(dtype, wgmma=True, shape=shape, **given)
    assert f"wgmma.m64n{-(-shape[0] // 16)*16}k" in str(knl.history)
    report = lk.verify(knl, full=True)
    assert report.proven, report
    rng, (n, m, length) = np.random.default_rng(0), shape
    a, b = (rng.integers(-4, 5, s).astype(named_dtype(dtype)) for s in ((n, length), (length, m)))
    found = lk.emulate(knl, a=a, b=b.T.copy() if "b_transposed" in given else b, target=HOPPER).c
    expected = a.astype(np.float64) @ b.astype(np.float64) + ("epilogue" in given)*np.arange(m)
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(found.dtype).astype(np.float64))


@pytest.mark.parametrize(("given", "message"), [
    ({"tile": (24, 64, 64)}, "a multiple of 16 rows, at most 48, and not 24."),
    ({"tile": (16, 64, 64), "store": "tma"}, "Tiles of 16 rows go to memory by registers, and not by 'tma'."),
    ({"tile": (16, 64, 64), "a_transposed": True}, "Tiles of 16 rows need an 'a' that is stored along the sums."),
    ({"tile": (100, 256, 64)}, "a multiple of 64 rows, at most 256, and not 100."),
    ({"tile": (128, 512, 64)}, "a multiple of 64 columns, at most 256, and not 512."),
    ({"dtype": "int8", "a_transposed": True, "b_transposed": True}, "wgmma multiplies factors of int8 only if both"),
    ({"wgmma": False, "epilogue": "2*total"}, "The argument 'epilogue' does not apply to products without wgmma."),
    ({"epilogue": "total + bias[k]"}, "The epilogue 'total + bias[k]' cannot have 'k', which belongs to the sum."),
    ({"dtype": "float64"}, "wgmma does not multiply factors of float64."),
    ({"stages": 1}, "Warpgroups need two strips of each factor or more, and not 1."),
    ({"mma": False}, "The argument 'mma' does not apply to warpgroups."),
    ({"dtype": "int8"}, "wgmma multiplies factors of int8 only if both are K-major."),
    ({"store": "disk"}, "The result goes to memory by tma, shared, registers, and not by 'disk'."),
    ({"depth": 64}, "The argument 'depth' does not apply to warpgroups.")])
def test_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(lk.PreconditionError) as caught:
        lk.library.matmul(**{"dtype": "bfloat16", "wgmma": True, **given})        # type: ignore[arg-type]
    assert message in str(caught.value)


#: All tiles; a block of 256 rows and columns would have too many sums.
TILES = [(rows, columns) for rows in (64, 128, 192, 256) for columns in (64, 128, 192, 256) if rows*columns < 256*256]


@pytest.mark.parametrize(("tile", "how"), [
    pytest.param(tile, how, marks=() if tile == (192, 64) and not how else pytest.mark.deep)
    for tile in TILES for how in ({}, {"result": "float32"}, {"store": "shared"}, {"store": "registers"})], ids=str)
def test_strips_of_each_tile_fit(tile: tuple[int, int], how: dict[str, Any]) -> None:
    """In shared memory, beside two parts of the result, however narrow it is."""
    lk.generate_code(lk.library.matmul("bfloat16", wgmma=True, tile=(*tile, 64), **how), target=HOPPER)


def test_arrays_of_batches_have_the_sizes() -> None:
    with pytest.raises(lk.PreconditionError, match="The argument 'size' does not apply to warpgroups"):
        lk.library.batched_matmul("bfloat16", wgmma=True, size=512)


def test_a_shape_of_batches_gives_persistent_blocks() -> None:
    """Several blocks run all products; those of few tiles have a block each. By emulation."""
    knl = lk.library.batched_matmul("bfloat16", wgmma=True, shape=(64, 512, 512, 512))
    assert (knl.options.persistent, "m64n256" in str(knl.history)) == (132, True)
    knl = lk.library.batched_matmul("bfloat16", wgmma=True, shape=(2, 65, 64, 24), tile=(64, 64))
    assert knl.options.persistent == 0
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype(BF16) for s in ((2, 65, 24), (2, 24, 64)))
    found = lk.emulate(lk.persistent(knl, 2), a=a, b=b, target=HOPPER).c.astype(np.float64)
    np.testing.assert_array_equal(found, (a.astype(float) @ b.astype(float)).astype(BF16).astype(float))
