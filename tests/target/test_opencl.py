"""OpenCL's texts: their form, what they refuse, and that a compiler accepts them."""
from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import loopkit as lk
from loopkit.runtime.opencl.compiler import build_program
from loopkit.target.opencl.dialect import OPENCL
from loopkit.target.opencl.limits import OpenCLLimits
from tests.cases import CASES
from tests.opencl import opencl

GOLDEN = Path(__file__).parents[1] / "golden"
KERNELS = {case.name: case.make for case in CASES}


def mapped(text: str, name: str = "knl", dtype: type = np.float32, threads: int = 32) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i]: 0<=i<n}", text, name=name)
    knl = lk.add_dtypes(knl, dict.fromkeys(knl.array_args, dtype))
    return lk.split_iname(knl, "i", threads, outer_tag="g.0", inner_tag="l.0")


def text_of(knl: lk.LoopKernel, limits: OpenCLLimits | None = None) -> str:
    return lk.generate_code(knl, target=lk.OpenCLTarget(limits)).source


def test_a_compiler_accepts_the_golden_texts() -> None:
    """All of them as one program, so that its compiler starts once."""
    device = opencl()
    texts = []
    for case in CASES:
        golden = (GOLDEN / f"{case.name}.cl").read_text()
        texts += [re.sub(r"(?m)^void (\w+)\(", rf"void {case.name}_\1(", golden[at:])
                  for at in [golden.find("__kernel")] if at >= 0]
    source = "\n".join(texts)
    program = build_program(OPENCL.preamble(source) + source, "all of them", device, ("-cl-opt-disable",))
    assert len(program.kernel_names.split(";")) == source.count("__kernel") >= len(CASES)


# Barriers

def test_a_barrier_orders_the_memory_that_is_read_again() -> None:
    assert "barrier(CLK_LOCAL_MEM_FENCE);" in text_of(KERNELS["matmul_tiled"]())
    knl = lk.make_kernel("{[i, j]: 0<=i,j<64}", "y[i] = x[i] {id=first}\nz[j] = y[63-j] {dep=first}", name="reversed")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "i:l.0, j:l.0")
    assert "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);" in text_of(knl)


def test_branches_around_barriers_have_one_condition() -> None:
    knl = lk.make_kernel("{[b, i, j]: 0<=b<n and 0<=i,j<64 and m<=b<k}", "<> t[i] = x[b, i]\ny[b, j] = t[63-j]",
                         name="reversed")
    source = text_of(lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "b:g.0, i:l.0, j:l.0"))
    around = source[:source.index("barrier(")].splitlines()
    assert [line for line in around if "if (" in line and " & " in line]
    assert not any("&&" in line for line in around)
    assert source.count("barrier(") == 2                   # the condition ends with one


def test_without_warps_threads_combine_values_in_shared_memory() -> None:
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<64}", "y[i] = sum(k, a[i, k])", name="row_sums")
    source = text_of(lk.tag_inames(lk.add_dtypes(knl, {"a": np.float32}), "i:g.0, k:l.0"))
    assert "combined as a tree: the target has no warps" in source
    assert source.count("barrier(") == 6            # 64 values in six steps


def test_asynchronous_copies_are_plain_ones() -> None:
    source = text_of(KERNELS["matmul_asynchronous"]())
    assert "copy_async" not in source
    assert "(__local float4 *)&b_fetch[" in source


def test_work_groups_do_not_wait_for_each_other() -> None:
    with pytest.raises(lk.PreconditionError, match="needs inter-block flags, which OpenCL does not have") as err:
        text_of(KERNELS["chained_scan"]())
    assert "a dependence across blocks then ends a launch" in (err.value.hint or "")


# Names and limits

def test_a_function_gets_another_name_where_opencl_has_it() -> None:
    for name in ("kernel", "step"):
        code = lk.generate_code(mapped("length[i] = 2*x[i]", name), target="opencl")
        assert [k.name for k in code.kernels] == [f"{name}_"]
        assert f"void {name}_(" in code.source
    with pytest.raises(lk.NameConflictError, match="'global' is a reserved word of the target 'opencl'"):
        text_of(mapped("global[i] = 2*x[i]"))
    # the macros of the axes hide no variable
    gid = lk.make_kernel("{[gid]: 0<=gid<n}", "<> lid = 2*x[gid]\ny[gid] = lid", name="gid")
    text = text_of(lk.tag_inames(lk.add_dtypes(gid, {"x": np.float32}), "gid:g.0"))
    assert "const int gid = gid(0);" in text
    assert "gid_(" in text


def test_a_launch_must_be_within_the_limits() -> None:
    knl, plenty = KERNELS["matmul_tiled"](), OpenCLLimits("D")
    assert text_of(knl, plenty)
    for few, what in ((replace(plenty, threads=128), "256 threads per block; the target has 128"),
                      (replace(plenty, block=(1024, 8, 1)), "16 threads along y"),
                      (replace(plenty, shared_bytes=1024), "2048 bytes of shared memory per block")):
        with pytest.raises(lk.LimitError, match=f"'matmul' on D needs {what}"):
            text_of(knl, few)


def test_a_device_may_lack_features() -> None:
    doubles = mapped("y[i] = 2*x[i]", dtype=np.float64)
    assert "cl_khr_fp64" in text_of(doubles)
    assert "cl_khr_fp64" not in text_of(mapped("y[i] = 2*x[i]"))
    with pytest.raises(lk.PreconditionError, match="'knl' needs float64, which D does not have"):
        text_of(doubles, OpenCLLimits("D", float64=False))
    update = mapped("y[i % 2] = y[i % 2] + x[i] {atomic}", dtype=np.int64)
    with pytest.raises(lk.PreconditionError, match="'knl' needs atomic updates of 64 bits, which D does not have"):
        text_of(update, OpenCLLimits("D", atomics64=False))
    with pytest.raises(lk.PreconditionError, match="OpenCL has no atomic sum of complex64, as 'insn' needs it"):
        text_of(mapped("y[i % 2] = y[i % 2] + x[i] {atomic}", dtype=np.complex64))


def test_features_that_the_language_lacks() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = bessel_jn(2, x[i])")
    with pytest.raises(lk.PreconditionError, match="'bessel_jn' has no text for the language 'opencl'") as caught:
        text_of(lk.add_dtypes(knl, {"x": np.float32}))
    assert caught.value.hint == "ScalarFunction('own_bessel_jn', ..., text={'opencl': ...})"
    own = lk.ScalarFunction("f", 1, "float", text={"c": "f"}, reference=abs)
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = f(x[i])", functions=[own])
    with pytest.raises(lk.PreconditionError, match="'f' has no text for the language 'opencl'") as caught:
        text_of(lk.add_dtypes(knl, {"x": np.float32}))
    assert caught.value.hint == "ScalarFunction('f', ..., text={'opencl': ...}); it has texts for 'c'"
    code = lk.CInstruction("i", {"opencl": "$y = $x > 0;"}, {"x": "x[i]"}, {"y": "y[i]"}, id="sign")
    with pytest.raises(lk.PreconditionError, match="'sign' writes a truth value, which the language 'opencl' has no"):
        text_of(lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", [code]), {"x": np.int32, "y": np.bool_}))
    with pytest.raises(lk.PreconditionError, match=r"'i' has the tag 'cpu\.simd', which is for the host, and the "
                                                   "target 'opencl' is not"):
        text_of(lk.tag_inames(lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<8}", "y[i] = x[i]"), {"x": np.int32}),
                              "i:cpu.simd"))


def test_pointers_of_c_code_name_their_memory() -> None:
    code = lk.CInstruction("i", "$y = $s[0] + $t[$t.stride];", {"s": "s[0:4]", "t": "x[i, 0:2]"}, {"y": "y[i]"}, id="c")
    knl = lk.make_kernel("{[i, j]: 0<=i,j<4}", ["s[j] = 2*x[j, 0]", code], kernel_data=[
        lk.TemporaryVariable("s", np.float32, shape=(4,), address_space=lk.AddressSpace.LOCAL), "..."])
    text = text_of(lk.tag_inames(lk.add_dtypes(knl, {"x,y": np.float32}), "i:l.0, j:l.0"))
    assert "__local const float *c_s = &s[0];" in text
    assert "__global const float *c_t = &x[" in text
    assert "__global float *c_y = &y[i];" in text


@pytest.mark.parametrize(("value", "fence"), [
    ("x[i]", "CLK_LOCAL_MEM_FENCE"), ("y[i]", "CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE")])
def test_a_requested_barrier(value: str, fence: str) -> None:
    """There is one, and it orders global memory if both sides access an array there."""
    knl = lk.make_kernel("{[i]: 0<=i<32}", f"""
        for i
            y[i] = 2*x[i] {{id=w}}
            ... lbarrier {{id=b, dep=w}}
            z[i] = {value} {{dep=b}}
        end
        """)
    text = text_of(lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "i:l.0"))
    assert re.findall(r"barrier\((.*)\);", text) == [fence]


def test_options_are_checked() -> None:
    with pytest.raises(lk.PreconditionError, match="'limits' of a OpenCLTarget cannot be 3"):
        lk.OpenCLTarget(limits=3)                       # type: ignore[arg-type]
    with pytest.raises(lk.PreconditionError, match="'options' of a OpenCLTarget cannot be '-g'"):
        lk.OpenCLTarget(options="-g")                   # type: ignore[arg-type]
