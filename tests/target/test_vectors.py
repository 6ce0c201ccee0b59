"""Vector loads and stores in CUDA's text, and in what NVIDIA's compiler makes of it."""
from __future__ import annotations

import random
import re
from collections import Counter

import numpy as np
import pytest

import loopkit as lk
from loopkit.runtime.cuda.compiler import find_cuda_compiler
from loopkit.target.code import Layout
from tests.nvrtc import compile_cuda
from tests.property.machine import execute
from tests.transform.kernels import F32
from tests.vector_kernels import axpy_vec, matmul_vec, stencil_2d_vec


def vectors(text: str, dtype: object = F32, length: int = 4, **more: object) -> lk.GeneratedCode:
    """A kernel over ``i``, split by *length*, in blocks of threads."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", text, name="kernel", assumptions="n>=0")
    knl = lk.add_dtypes(knl, dict.fromkeys(knl.array_args, dtype) | more)
    knl = lk.split_iname(knl, "i", length, inner_tag="vec")
    return lk.generate_code(lk.split_iname(knl, "i_outer", 32, outer_tag="g.0", inner_tag="l.0"))


def full(code: lk.GeneratedCode) -> str:
    """The version for full tiles, spaces and line ends as one space."""
    return " ".join(code.source.split("} else ")[0].split())


def accesses(source: str, arch: str) -> Counter[str]:
    """Vector loads and stores of PTX, by kind and width."""
    ptx = find_cuda_compiler().ptx(source, "kernel", lk.CudaTarget(arch))
    return Counter(re.findall(r"\b(ld\.global|st\.global|ld\.shared|st\.shared)(?:\.nc)?(\.v\d\.\w+)", ptx))


# What the compiler makes of it

@pytest.mark.deep(every=12)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("code", "wanted"), [
    (lk.generate_code(axpy_vec()), {("ld.global", ".v4.f32"): 2, ("st.global", ".v4.f32"): 1}),
    (lk.generate_code(axpy_vec(np.float64, 2)), {("ld.global", ".v2.f64"): 2, ("st.global", ".v2.f64"): 1}),
    (lk.generate_code(axpy_vec(np.float16, 8)), {("ld.global", ".v4.u32"): 2, ("st.global", ".v4.u32"): 1}),
    (lk.generate_code(axpy_vec(np.int32, 4)), {("ld.global", ".v4.u32"): 2, ("st.global", ".v4.u32"): 1}),
    (lk.generate_code(axpy_vec(F32, 8)), {("ld.global", ".v4.f32"): 4, ("st.global", ".v4.f32"): 2}),
    (lk.generate_code(stencil_2d_vec()), {("ld.global", ".v4.f32"): 6, ("st.global", ".v4.f32"): 2})],
    ids=["float32", "float64", "float16", "int32", "two vectors", "stencil"])
def test_accesses_are_vectors(code: lk.GeneratedCode, wanted: dict[tuple[str, str], int], arch: str) -> None:
    assert accesses(code.source, arch) == wanted
    compiled = compile_cuda(code.source, arch)
    assert (compiled.stack, compiled.spills) == (0, 0)


@pytest.mark.deep
def test_shared_memory_is_filled_and_read_in_vectors() -> None:
    code = lk.generate_code(matmul_vec())
    found = accesses(code.source, "sm_90")
    assert all(found[kind, ".v4.f32"] for kind in ("ld.global", "st.global", "ld.shared", "st.shared"))
    assert "__shared__ __align__(16) float b_fetch[8][32];" in code.source
    assert "__shared__ float a_fetch[16][8];" in code.source
    assert compile_cuda(code.source).stack == 0


@pytest.mark.deep
def test_neighbours_come_from_registers() -> None:
    """Only two of the eight loads of neighbours remain: those beyond the vector's ends."""
    ptx = find_cuda_compiler().ptx(lk.generate_code(stencil_2d_vec()).source, "kernel", lk.CudaTarget("sm_90"))
    whole = ptx.split("st.global.v4.f32")[0]
    assert len(re.findall(r"ld\.global\.nc\.f32", whole)) == 2


@pytest.mark.parametrize("bits", [32, 64])
def test_the_text_without_vectors(bits: int) -> None:
    code = lk.generate_code(axpy_vec(), layout=Layout(bits, vectors=False))
    assert code.assumed == ()
    assert "vector accesses" not in code.source
    assert "reinterpret_cast" not in code.source
    assert not accesses(code.source, "sm_90")


# Which accesses are vectors

@pytest.mark.deep(every=9)
@pytest.mark.parametrize(("text", "loaded", "others"), [
    ("y[i] = x[i]", ["x_vec"], []),
    ("y[i] = x[i+4]", ["x_vec"], []),
    ("y[i] = x[i+1]", [], ["x[128*i_outer_outer + 4*i_outer_inner + i_inner + 1]"]),
    ("y[i] = x[2*i]", [], ["x[256*i_outer_outer + 8*i_outer_inner + 2*i_inner]"]),
    ("y[i] = x[8*n]", [], ["x[8*n]"]),
    ("y[i] = x[i] + x[i+8]", ["x_vec", "x_vec_0"], []),
    ("y[i] = if(i > 7, x[i], 0)", ["x_vec"], []),                   # full tiles lie after it
    ("y[i] = if(i % 3 > 1, x[i], 0)", [], ["x[128*i_outer_outer + 4*i_outer_inner + i_inner]"]),
    ("y[i] = if(x[i] > 0, x[i], 0)", ["x_vec"], [])])
def test_what_is_loaded_in_vectors(text: str, loaded: list[str], others: list[str]) -> None:
    found = full(vectors(text))
    assert re.findall(r"\*>\((\w+)\) =", found) == loaded
    body = found.split("// insn")[1].split("}")[0]
    assert all(x in body for x in others)
    assert ("x[" in body) == bool(others)


def test_an_offset_of_half_a_vector_makes_shorter_ones() -> None:
    found = full(vectors("y[i] = x[i+2]"))
    assert "*reinterpret_cast<float2 *>(&x_vec[i_inner]) = *reinterpret_cast<const float2 *>(&x[" in found
    assert "*reinterpret_cast<float4 *>(&y[" in found


def test_an_offset_by_a_size_is_assumed_to_be_aligned() -> None:
    code = vectors("y[i] = x[i + 3*n]")
    assert "x_vec" in code.source
    assert "3*n is a multiple of 4" in code.source
    assert sorted(map(str, code.assumed)) == [
        "3*n divisible by 4", "x aligned to 4 elements", "y aligned to 4 elements"]


def test_rows_of_a_constant_length_must_be_aligned() -> None:
    def copy(length: int) -> str:
        knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<16}", "y[i, j] = x[i, j]", [
            lk.GlobalArg("x", F32, ("n", length)), lk.GlobalArg("y", F32), "..."])
        return str(lk.generate_code(lk.split_iname(knl, "j", 4, inner_tag="vec")))
    assert "const float4 *>(&x[20*i + 4*j_outer])" in copy(20)
    assert "const float2 *>(&x[18*i + 4*j_outer + j_inner])" in copy(18)
    assert "x_vec" not in copy(17)


def test_shared_rows_with_padding_are_read_one_by_one() -> None:
    def tile(padding: int) -> str:
        knl = lk.make_kernel("{[i, j, k, l]: 0<=i,k<8 and 0<=j,l<128}", "t[i, j] = x[i, j]\ny[l, k] = t[7-k, l]",
                             [lk.GlobalArg("x", F32), lk.GlobalArg("y", F32),
                              lk.TemporaryVariable("t", F32, (8, 128 + padding), lk.AddressSpace.LOCAL),
                              "..."])
        knl = lk.tag_inames(lk.split_iname(knl, "j", 4, inner_tag="vec"), {"i": "l.1", "j_outer": "l.0"})
        knl = lk.tag_inames(lk.split_iname(knl, "l", 4, inner_tag="vec"), {"k": "l.1", "l_outer": "l.0"})
        return str(lk.generate_code(knl))
    assert "float4 *>(&t[i][4*j_outer])" in tile(0)
    assert "__shared__ __align__(16) float t[8][132];" in tile(4)
    assert "t_vec" not in tile(1)


def test_conditions_that_hold_for_a_whole_vector_come_before_it() -> None:
    """Rows are there or not; only the guard of the last vector of a row is one for each element."""
    text = str(lk.generate_code(lk.set_options(stencil_2d_vec(), full_tiles=False), target="c"))
    before = text.split("for (int j_inner")[0]
    assert "4*i_outer + i_inner + 2 <= n" in before


@pytest.mark.deep(every=3)
@pytest.mark.parametrize("threads", [8, 32, 128])
def test_what_is_loaded_in_vectors_is_combined_by_shuffles(threads: int) -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<1024}", "s[i] = sum(j, x[i, j])", name="rows_vec")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), {"i": "g.0"})
    knl = lk.split_iname(knl, "j", 4, inner_tag="vec")
    knl = lk.split_iname(knl, "j_outer", threads, inner_tag="l.0")
    source = lk.generate_code(knl, target="cuda").source
    assert "const float4 *>(&x[1024*i + " in source
    way = "down" if threads > 32 else "xor"
    assert source.count("__shfl") == source.count(f"__shfl_{way}_sync") == min(threads, 32).bit_length() - 1
    x = np.arange(3*1024, dtype=np.float32).reshape(3, 1024) % 7
    np.testing.assert_array_equal(lk.compile(knl, target="c")(x=x).s, x.sum(1))
    got = execute(lk.lower(knl), {"x": x, "s": np.zeros(3, np.float32)}, {"n": 3}, random.Random(threads))["s"]
    np.testing.assert_array_equal(got, x.sum(1))
