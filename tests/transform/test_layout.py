"""swizzle and tag_array_axes: results stay, cells move, and what does not fit is refused."""
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loopkit as lk
from tests.deep import amount
from tests.transform.same import assert_same, step
from tests.transform.test_padding import cube, registers

F32 = np.float32


def transposed(rows: int = 16, columns: int = 16, dtype: Any = F32) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "b[j, i] = a[i, j]", name="transpose")
    knl = lk.add_dtypes(knl, {"a": dtype})
    knl = lk.split_iname(knl, "i", rows, outer_tag="g.1", inner_tag="l.0")
    knl = lk.split_iname(knl, "j", columns, outer_tag="g.0", inner_tag="l.1")
    return lk.add_prefetch(knl, "a", ["i_inner", "j_inner"])


def cuda(knl: lk.LoopKernel) -> str:
    return lk.generate_code(knl, target="cuda").source


# A swizzle

@given(st.sampled_from([(8, 8), (4, 16), (16, 4), (5, 8), (8, 12)]), st.sampled_from(["C", "F"]), st.booleans(),
       st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4, 8]))
@settings(max_examples=amount(100))
def test_results_stay_and_cells_are_a_permutation(shape: tuple[int, int], order: str, by_default: bool, chunk: int,
                                                  period: int) -> None:
    plain = transposed(*shape)
    tagged = lk.tag_array_axes(plain, "a_fetch", order)
    columns = shape[1] if order == "C" else shape[0]
    if columns % (chunk*period):
        with pytest.raises(lk.PreconditionError, match=f"{columns} columns of 'a_fetch' are not a multiple"):
            lk.swizzle(tagged, "a_fetch", chunk=chunk, period=period)
        return
    knl = step(tagged, lk.swizzle, "a_fetch", None if by_default else -2 if order == "C" else 1, chunk=chunk,
               period=period)
    assert_same(plain, knl, n=11, m=13)
    assert lk.verify(knl).proven


def test_a_column_lies_in_all_banks() -> None:
    knl = lk.swizzle(transposed(32, 32), "a_fetch")
    (read,) = set(re.findall(r"= a_fetch\[i_inner\]\[([^]]*)\]", cuda(knl)))
    for j in range(32):
        assert sorted(eval(read, {"i_inner": i, "j_inner": j}) for i in range(32)) == list(range(32))
    assert "__shared__ float a_fetch[32][32];  // column c of row r is at c ^ r" in cuda(knl)


@pytest.mark.deep(every=2)
@pytest.mark.parametrize(("chunk", "access"), [(4, "float4"), (2, "float2")])
def test_vectors_stay_within_a_chunk(chunk: int, access: str) -> None:
    plain = lk.make_kernel("{[b, i, j]: 0<=b<n and 0<=i,j<16}", "y[b, i, j] = 2*x[b, 15-i, j]", name="flipped")
    plain = lk.tag_inames(lk.add_dtypes(plain, {"x": F32}), {"b": "g.0", "i": "l.1"})
    plain = lk.split_iname(plain, "j", 4, outer_tag="l.0", inner_tag="vec")
    plain = lk.add_prefetch(plain, "x", ["i", "j_outer", "j_inner"], default_tag=None)
    plain = lk.tag_inames(plain, {"x_dim_1": "l.1"})
    plain = lk.split_iname(plain, "x_dim_2", 4, outer_tag="l.0", inner_tag="vec")
    knl = step(plain, lk.swizzle, "x_fetch", chunk=chunk)
    assert_same(plain, knl, n=3)
    found = re.findall(r"reinterpret_cast<(?:const )?(\w+) \*>\(&x_fetch", cuda(knl))
    assert set(found) == {access}
    assert set(re.findall(r"reinterpret_cast<(?:const )?(\w+) \*>\(&x_fetch", cuda(plain))) == {"float4"}


@pytest.mark.deep
def test_rows_by_any_axis() -> None:
    for axis in (0, -3, 1):
        knl = step(cube(), lk.swizzle, "x_fetch", axis, period=4)
        assert_same(cube(), knl, n=3)
    assert "x_fetch[i][j][k ^ i]" in cuda(lk.swizzle(cube(), "x_fetch", 0, period=4))


def test_rows_of_several_axes() -> None:
    """Two rows of four planes have eight permutations, those of the number of the row in memory."""
    plain = lk.make_kernel("{[b, i, j, k]: 0<=b<n and 0<=i<4 and 0<=j<2 and 0<=k<8}", "y[b, i, j, k] = 2*x[b, i, k, j]")
    plain = lk.tag_inames(lk.add_dtypes(plain, {"x": F32}), "b:g.0, k:l.0")
    plain = lk.add_prefetch(plain, "x", ["i", "j", "k"], dim_arg_names=["p", "q", "r"])
    plain = lk.tag_array_axes(plain, "x_fetch", "N2,N0,N1")
    knl = step(plain, lk.swizzle, "x_fetch", period=8, row_axes=2)
    assert "columns ^ (row of the 2 axes up to 1 mod 8)" in str(lk.lower(knl, stop="storage"))
    source = cuda(knl)
    assert "__shared__ float x_fetch[4][2][8];  // column c of row r of 2 axes is at c ^ r" in source
    assert "x_fetch[i][j][k ^ (2*i + j)]" in source
    assert_same(plain, knl, n=3)
    assert lk.emulate(knl, x=np.arange(3*64, dtype=F32).reshape(3, 4, 8, 2), target=lk.CudaTarget("sm_80")).y[
        2, 3, 1, 5] == 2*(2*64 + 3*16 + 5*2 + 1)


def test_neighbouring_rows_with_one_permutation() -> None:
    """Two rows of eight columns have 64 bytes: four rows are in different banks."""
    plain = lk.make_kernel("{[b, i, j]: 0<=b<n and 0<=i<16 and 0<=j<8}", "y[b, i, j] = 2*x[b, j, i]")
    plain = lk.add_prefetch(lk.tag_inames(lk.add_dtypes(plain, {"x": F32}), "b:g.0, i:l.0"), "x", ["j", "i"])
    plain = lk.tag_array_axes(plain, "x_fetch", "F")
    knl = step(plain, lk.swizzle, "x_fetch", 1, period=4, every=4)
    source = cuda(knl)
    assert "float x_fetch[16][8];  // column c of row r is at c ^ (r / 4)" in source
    assert "x_fetch[i][j ^ (i / 4)]" in source
    assert_same(plain, knl, n=3)
    assert lk.emulate(knl, x=np.arange(3*128, dtype=F32).reshape(3, 8, 16), target=lk.CudaTarget("sm_80")).y[
        2, 9, 5] == 2*(2*128 + 5*16 + 9)


@pytest.mark.deep
def test_buffers_of_a_pipeline_are_swizzled_each() -> None:
    knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<16 and 0<=k<l}", "c[i, j] = sum(k, a[i, k]*b[k, j])", name="mm")
    knl = lk.add_dtypes(knl, {"a,b": F32})
    knl = lk.split_iname(knl, "k", 8)
    knl = lk.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.1")
    knl = lk.tag_inames(knl, {"j": "l.0"})
    knl = lk.add_prefetch(knl, "b", ["k_inner", "j"])
    knl = lk.add_prefetch(knl, "a", ["i_inner", "k_inner"])
    plain = knl
    knl = step(step(lk.pipeline(knl, "k_outer", 2), lk.swizzle, "a_fetch"), lk.swizzle, "b_fetch", chunk=4)
    assert_same(plain, knl, n=18, l=25)


def test_only_shared_memory_has_banks() -> None:
    with pytest.raises(lk.StorageError, match="'t' is swizzled, but it is in registers, and only shared memory has"):
        lk.lower(lk.swizzle(registers(), "t", period=4))
    with pytest.raises(lk.PreconditionError, match="The dtype of 't' is unknown"):
        lk.swizzle(registers(), "t")


def test_axes_that_change_behind_it() -> None:
    knl = lk.add_padding(lk.swizzle(transposed(), "a_fetch"), "a_fetch", 0, by=1)
    with pytest.raises(lk.StorageError, match=r"swizzled by 16 columns, and its axes changed.*\[16, 17\]"):
        lk.lower(knl)


@pytest.mark.parametrize(("arguments", "options", "text"), [
    (("a",), {}, "'a' is an argument"), (("nothing",), {}, "nothing"),
    (("a_fetch", 1), {}, "Axis 1 of 'a_fetch' is the fastest"), (("a_fetch", 2), {}, "no axis 2"),
    (("a_fetch",), {"chunk": 3}, "chunk=3 is not a power of two"), (("a_fetch",), {"period": 0}, "period"),
    (("a_fetch",), {"period": 32}, "16 columns of 'a_fetch' are not a multiple of 32"),
    (("a_fetch",), {"row_axes": 2}, "'a_fetch' has 1 axes up to axis 0 in memory, and not 2 that count rows"),
    (("a_fetch",), {"row_axes": 0}, "row_axes"), (("a_fetch",), {"every": 3}, "every=3 is not a power of two"),
])
def test_refused(arguments: Any, options: Any, text: str) -> None:
    with pytest.raises(lk.LoopkitError, match=text):
        lk.swizzle(transposed(), *arguments, **options)


def test_too_few_axes() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<16}", "<> t[i] = x[i] {id=t}\ny[i] = t[15-i] {dep=t}")
    with pytest.raises(lk.PreconditionError, match="'t' has 1 axes"):
        lk.swizzle(lk.add_dtypes(knl, {"x": F32}), "t")


# The order of axes

@pytest.mark.deep(every=5)
@pytest.mark.parametrize(("tags", "shape"), [("C", (4, 6, 8)), ("N2,N1,N0", (4, 6, 8)), ("F", (8, 6, 4)),
                                             ("N1, N2, N0", (6, 4, 8)), ("N0,N2,N1", (6, 8, 4))])
def test_orders(tags: str, shape: tuple[int, ...]) -> None:
    knl = step(cube(), lk.tag_array_axes, "x_fetch", tags)
    assert f"x_fetch{''.join(f'[{e}]' for e in shape)}" in str(lk.lower(knl, stop="storage"))
    assert knl.temporaries["x_fetch"].shape == (4, 6, 8)
    assert_same(cube(), knl, n=3)


@pytest.mark.deep
def test_in_registers_and_padded() -> None:
    knl = step(registers(), lk.tag_array_axes, ["t"], "F")
    assert_same(registers(), knl, n=3)
    knl = lk.add_padding(lk.tag_array_axes(transposed(16, 8), "a_fetch", "F"), "a_fetch", 1, by=1)
    assert str(lk.lower(knl, stop="storage")) == "shared float32 a_fetch[8][17] axes 1, 0"
    assert_same(transposed(16, 8), knl, n=37, m=21)
    assert lk.add_padding(knl, "a_fetch", 1, 128).temporaries["a_fetch"].shape == (32, 8)
    with pytest.raises(lk.PreconditionError, match="Axis 0 of 'a_fetch' is its last"):
        lk.add_padding(knl, "a_fetch", 0, by=1)


def test_vectors_go_along_the_fastest_axis() -> None:
    plain = lk.make_kernel("{[b, i, j]: 0<=b<n and 0<=i,j<16}", "y[b, i, j] = x[b, i, j] + x[b, 15-i, j]", name="sums")
    plain = lk.tag_inames(lk.add_dtypes(plain, {"x": F32}), {"b": "g.0", "j": "l.0"})
    plain = lk.add_prefetch(plain, "x", ["i", "j"])
    plain = lk.split_iname(plain, "i", 4, inner_tag="vec")
    assert "reinterpret_cast" not in cuda(plain)
    knl = step(plain, lk.tag_array_axes, "x_fetch", "F")
    assert "reinterpret_cast<const float4 *>(&x_fetch" in cuda(knl)
    assert_same(plain, knl, n=3)


@pytest.mark.parametrize(("name", "tags", "order"), [
    ("x", "C,C,vec", "C"), ("x", "N0,N1,vec", (1, 0, 2)), ("x", "F,F,vec", (1, 0, 2)), ("y", "C,vec,C", (0, 2, 1)),
    ("z", "vec,F,F", "F"), ("z", "vec,C,C", (1, 2, 0))])
def test_the_axis_of_vectors_is_the_fastest(name: str, tags: str, order: Any) -> None:
    knl = lk.make_kernel("{[b, i, j]: 0<=b,i<n and 0<=j<4}", "y[b, j, i] = 2*x[b, i, j]\nz[j, b, i] = x[b, i, j]")
    assert lk.tag_array_axes(knl, name, tags).array_args[name].order == order


@pytest.mark.parametrize(("name", "tags", "text"), [
    ("a", "vec,C", "cannot have the tag 'vec': its extent is not constant"), ("a_fetch", "vec,vec", "is not an order"),
    ("a_fetch", "vec,N1", "is not an order"), ("nothing", "F", "nothing"),
    ("a_fetch", "N0", "'N0' is not an order of the 2 axes"), ("a_fetch", "N0,N0", "is not an order"),
    ("a_fetch", "stride:1,stride:8", "is not an order"), ("a_fetch", "3", "'3' is not an order"),
])
def test_refused_orders(name: str, tags: Any, text: str) -> None:
    with pytest.raises(lk.LoopkitError, match=text):
        lk.tag_array_axes(transposed(), name, tags)


def test_an_axis_more_behind_it() -> None:
    knl = lk.split_iname(lk.tag_array_axes(lk.untag_inames(registers(), "b"), "t", "F"), "b", 4)
    assert lk.privatize(knl, "b_inner", "t").temporaries["t"].layout.order == (0, 2, 1)
    with pytest.raises(lk.StorageError, match="The 2 axes of 't' were tagged, but it now has 3"):
        lk.lower(lk.expand(knl, "t", "b_inner", trailing=True))


def test_copies_between_layouts() -> None:
    x = np.arange(12.).reshape(3, 4)
    for new, old in (("F,F", "C,C"), ("C", "C"), ("N0,N1", "N1,N0"), ("C,C", "F,F")):
        given = x[0] if new == "C" else np.asfortranarray(x) if old == "F,F" else x
        copied = lk.make_copy_kernel(new, old)(input=given).output
        np.testing.assert_array_equal(copied, given)
        assert copied.flags.f_contiguous is (new not in ("C", "C,C")) or new == "C"
    parts = lk.make_copy_kernel("sep,C", shape=(3, "n"))(input=x)
    np.testing.assert_array_equal([parts.output_s0, parts.output_s1, parts.output_s2], x)
    with pytest.raises(lk.PreconditionError, match="'C,F' is not an order of the 2 axes of 'output'"):
        lk.make_copy_kernel("C,F")
    with pytest.raises(lk.PreconditionError, match="extent is not constant"):
        lk.make_copy_kernel("sep,C")
