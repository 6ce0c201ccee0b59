"""Asynchronous copies of vectors of small elements, with zeros beyond the edges of an array."""
from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopkit as lk
from loopkit.target.code import Layout
from loopkit.verification.validation import validate
from tests.deep import shared
from tests.golden_files import GoldenFiles
from tests.nvrtc import compile_cuda
from tests.property.machine import execute
from tests.verification.faults import faults

BF16 = np.dtype(ml_dtypes.bfloat16)


def product(dtype: Any, tile: Sequence[int], length: int, *, registers: tuple[int, int] = (1, 1)) -> lk.LoopKernel:
    """A tiled product of matrices; copies of *length* elements fill a ring of three strips of each matrix.

    :arg registers: rows and columns of each thread.
    """
    knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", """
        a_rows(row, column) := a[row, column]
        b_rows(row, column) := b[row, column]
        c[i, j] = sum(k, a_rows(i, k)*b_rows(k, j))
        """, name="product", assumptions="n>=1 and m>=1 and l>=1")
    knl = lk.add_dtypes(knl, {"a,b": dtype, "c": np.float32})
    knl = lk.pad_domain(knl, dict(zip("ijk", tile, strict=True)))
    for x, axis, size, own in zip("ij", (1, 0), tile, registers, strict=False):
        knl = lk.split_levels(knl, x, {f"{x}_block": None, f"{x}_reg": own, f"{x}_thread": size // own}, tags={
            f"{x}_block": f"g.{axis}", f"{x}_reg": "unr", f"{x}_thread": f"l.{axis}"})
    knl = lk.split_iname(knl, "k", tile[2])
    knl = lk.prioritize_loops(knl, "i_block, j_block, i_thread, j_thread, k_outer, k_inner, i_reg, j_reg")
    for x, sweep, rows, columns in (("a", ["i_reg", "i_thread", "k_inner"], "a_i", "a_k"),
                                    ("b", ["k_inner", "j_reg", "j_thread"], "b_k", "b_j")):
        knl = lk.precompute(knl, f"{x}_rows", sweep, temporary_name=f"{x}_tile", precompute_inames=[rows, columns],
                            default_tag=None)
        knl = lk.split_iname(knl, columns, length, outer_iname=f"{columns}_vec", inner_iname=f"{columns}_item",
                             outer_tag="l.auto", inner_tag="vec")
        knl = lk.tag_inames(knl, {rows: "l.auto"})
    if np.dtype(dtype).itemsize < 4:
        knl = lk.set_accumulator_dtype(lk.add_dtypes(knl, {"a_tile,b_tile": dtype}), np.float32)
    return lk.pipeline(knl, "k_outer", 3, asynchronous=True)


def strips(dtype: Any, condition: str = "16*k + i < n", *, length: int = 8, value: str = "a[16*k + i]",
           fill: str = "0") -> lk.LoopKernel:
    """Strips of 16 elements of one row, the last of which may be partial."""
    knl = lk.make_kernel("{[k, i, j]: 0<=k<4 and 0<=i,j<16}", f"""
        for k
            for i
                <> t[i] = if({condition}, {value}, {fill})  {{id=copy}}
            end
            for j
                c[k, j] = t[15 - j]
            end
        end""", assumptions="0<n<=64")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"a,t": dtype}), {"j": "l.0"})
    if length > 1:
        knl = lk.split_iname(knl, "i", length, outer_tag="l.auto", inner_tag="vec")
    return knl if length > 1 else lk.tag_inames(knl, {"i": "l.auto"})


def piped(*args: Any, **options: Any) -> lk.LoopKernel:
    return lk.pipeline(strips(*args, **options), "k", asynchronous=True)


def copies(knl: lk.LoopKernel, **layout: Any) -> list[str]:
    """The last arguments of the copies in the text: the address, or an index and a number of bytes."""
    code = lk.generate_code(knl, target="cuda", layout=Layout(**layout)).source
    text = " ".join(code[code.index("extern"):].split())
    return [part.split(";")[0] for part in text.split("copy_async")[1:]]


@shared
def small() -> lk.LoopKernel:
    return product(BF16, (4, 16, 16), 8)


# Results

def test_a_product_in_bfloat16(golden: GoldenFiles) -> None:
    """Without the last three iterations, the loop over strips copies full ones: no copy there has a condition."""
    knl = lk.peel(product(BF16, (32, 64, 32), 8, registers=(4, 4)), "k_outer", last=3)
    code = lk.generate_code(knl, target="cuda").source
    golden.check("bfloat16_product_asynchronous.cu", code)
    for arch in ("sm_80", "sm_90"):
        assert compile_cuda(code, arch).spills == 0


def test_products_of_partial_tiles() -> None:
    """Also where rows are not aligned, so that elements are copied one by one."""
    lowered = lk.lower(small())
    assert validate(lowered) == ()
    for n, m, depth in ((3, 24, 40), (3, 7, 19)):
        rng = np.random.default_rng(depth)
        a, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((n, depth), (depth, m)))
        arrays = {"a": a, "b": b, "c": np.full((n, m), np.nan, np.float32)}
        assert (execute(lowered, arrays, {"n": n, "m": m, "l": depth}, random.Random(n))["c"] == a @ b).all()


@pytest.mark.deep
@pytest.mark.parametrize("dtype", [BF16, np.float16, np.float32])
def test_products_on_the_host(dtype: Any) -> None:
    knl = product(dtype, (4, 16, 16), 16 // np.dtype(dtype).itemsize)
    assert lk.verify(knl, full=True).verdict is lk.Verdict.PROVEN
    for n, m, depth in ((1, 1, 1), (5, 24, 40), (4, 7, 19)):
        a, b = (np.random.default_rng(depth).integers(-3, 4, shape).astype(dtype) for shape in ((n, depth), (depth, m)))
        assert (knl(a=a, b=b).c == a.astype(np.float32) @ b.astype(np.float32)).all()


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
def test_a_partial_vector_ends_with_zeros(dtype: Any) -> None:
    lowered = lk.lower(piped(dtype))
    assert validate(lowered) == ()
    for n in (1, 15, 16, 29, 64):
        a = np.arange(1, n + 1)
        found = execute(lowered, {"a": a, "c": np.full((4, 16), -1)}, {"n": n}, random.Random(n))["c"]
        assert (found == np.pad(a, (0, 64 - n)).reshape(4, 16)[:, ::-1]).all()


# The text

def test_one_instruction_for_each_vector() -> None:
    first = "16*k + 8*i_outer + 16"
    assert copies(piped(np.int16))[-1] == (f"_or_zeros<16>(&t[(k + 1) % 2][8*i_outer], a, {first}, {first} < n ? "
                                           "2*min(8, n - 16*k - 8*i_outer - 16) : 0)")
    assert copies(piped(np.int8))[-1].startswith(f"_or_zeros<8>(&t[(k + 1) % 2][8*i_outer], a, {first},")
    assert copies(piped(np.int8, length=16))[-1].endswith(
        "16*k + 16*i_outer + 16 < n ? min(16, n - 16*k - 16*i_outer - 16) : 0)")


def test_elements_alone() -> None:
    """Those of four bytes are copies, too."""
    assert copies(piped(np.int32, length=1))[-1] == \
        "_or_zeros<4>(&t[(k + 1) % 2][i], a, 16*k + i + 16, 16*k + i + 16 < n ? 4 : 0)"
    assert copies(piped(np.int16), vectors=False) == []


def test_all_or_none_of_a_vector() -> None:
    divided = lk.assume(piped(np.int16), "n mod 8 = 0")
    assert copies(divided)[-1].endswith("16*k + 8*i_outer + 16 < n ? 16 : 0)")
    rows = strips(np.int16, "k < n", value="a[k, i]")
    assert copies(lk.pipeline(rows, "k", asynchronous=True))[-1].endswith("k + 1 < n ? 16 : 0)")


def test_no_condition_where_it_always_holds() -> None:
    full = lk.assume(piped(np.int16), "n = 64")
    assert [text.split("(")[0] for text in copies(full)] == ["<16>", "<16>"]


def test_vectors_that_source_and_target_share() -> None:
    knl = piped(np.int16, "k < n", value="a[k, i + 4]")
    assert copies(knl)[-1].startswith("_or_zeros<8>(")
    assert validate(lk.lower(knl)) == ()


def test_other_targets_have_vectors_without_copies() -> None:
    text = lk.generate_code(piped(np.int16), target="opencl").source
    assert "if (16*k + 8*i_outer + 23 < n) {" in text           # the whole vector is in the array


# Faults

def test_wrong_numbers_of_elements_are_found() -> None:
    require_found(lk.set_options(piped(np.int16), full_tiles=False), ("copied otherwise", "vector outside"))


@pytest.mark.deep
def test_wrong_numbers_of_elements_of_matrices_are_found() -> None:
    require_found(small(), ("copied otherwise",))


def require_found(knl: lk.LoopKernel, kinds: tuple[str, ...]) -> None:
    """Every fault of *kinds* in the program of *knl* is one of its vectors."""
    lowered = lk.lower(knl)
    wrong = [f for f in faults(lowered.program) if f.kind in kinds]
    assert {f.kind for f in wrong} == {*kinds}
    for fault in wrong:
        assert {f.kind for f in validate(replace(lowered, program=fault.program))} == {"vector"}, fault.text


# What is refused

def test_zeros_only() -> None:
    with pytest.raises(lk.PreconditionError, match="an asynchronous copy can fill with 0 only, and not with 1"):
        piped(np.int32, fill="1")
    with pytest.raises(lk.PreconditionError, match="not a copy of an array's element"):
        piped(np.int32, fill="b[k]")


def test_small_elements_need_vectors() -> None:
    with pytest.raises(lk.PreconditionError, match="elements of int16 have 2 bytes, and it has no vectors of 4, 8 or"):
        piped(np.int16, length=1)
    with pytest.raises(lk.PreconditionError, match="split the iname of the last axis by 16 with inner_tag='vec'"):
        piped(np.int8, length=2)


@pytest.mark.parametrize("knl", [
    lambda: piped(np.int16, value="a[16*k + i + 1]"), lambda: piped(np.int16, "n <= 16*k + i", value="a[16*k + i]")],
    ids=["not aligned", "zeros come first"])
def test_no_vector_is_a_copy(knl: Any) -> None:
    with pytest.raises(lk.PreconditionError, match="it has no vectors of 4, 8 or 16 bytes"):
        lk.generate_code(knl(), target="cuda")
