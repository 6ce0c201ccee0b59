"""Properties of the CUDA text: what a reviewer relies on."""
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.target.code import Layout, Pointer, ScratchPointer, Stride, Value
from loopkit.target.cuda.limits import DEVICE_LIMITS
from loopkit.target.memory import FunctionText
from tests.cases import CASES, Case
from tests.language.outline import text
from tests.lowering.kernels import F32, across_blocks, exchange, make
from tests.nvrtc import compile_cuda
from tests.target.text import cuda_text, lines_with


def affine() -> lk.LoopKernel:
    knl = make("{[i,j]: 0<=i<n and 0<=j<m}", "y[i,j] = a*x[i,j] + 1",
               [lk.GlobalArg("x", F32), lk.GlobalArg("y", F32), lk.ValueArg("a", F32), "..."])
    knl = lk.split_iname(knl, "i", 4, outer_tag="g.1", inner_tag="l.1")
    knl = lk.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")
    return lk.set_options(knl, full_tiles=False)


# The head

def test_the_whole_text_of_a_small_kernel() -> None:
    plain = make("{[i]: 0<=i<n}", "y[i] = 2*x[i]", x=F32)
    knl = lk.split_iname(plain, "i", 128, outer_tag="g.0", inner_tag="l.0")
    assert cuda_text(knl) == text("""
        extern "C" __global__ void __launch_bounds__(128)
        kernel(const float *__restrict__ x, float *__restrict__ y, const int n)
        {
            const int i_outer = blockIdx.x;
            const int i_inner = threadIdx.x;

            if (128*i_outer + 128 <= n) {  // a full tile
                // insn
                y[128*i_outer + i_inner] = 2.0f*x[128*i_outer + i_inner];
            } else if (128*i_outer + i_inner < n) {
                // insn
                y[128*i_outer + i_inner] = 2.0f*x[128*i_outer + i_inner];
            }
        }
        """) + "\n"


@pytest.mark.deep(every=38)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_launch_bounds_are_the_block(case: Case) -> None:
    code = lk.generate_code(case.make(), target="cuda")
    bounds = [int(b) for b in re.findall(r"__launch_bounds__\((\d+)\)", code.source)]
    assert bounds == [int(np.prod(launch.block)) for launch in code.kernels]


@pytest.mark.deep(every=38)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_pointers_are_restrict_and_const_where_only_read(case: Case) -> None:
    knl = case.make()
    code = lk.generate_code(knl, target="cuda")
    heads = re.findall(r"__launch_bounds__\(\d+\)\n(\w+)\(([^)]*)\)", code.source)
    assert [name for name, _ in heads] == [launch.name for launch in code.kernels]
    for (_, head), launch in zip(heads, code.kernels, strict=True):
        updates = any(x.read and x.written for x in launch.parameters if isinstance(x, Pointer))
        for item, parameter in zip(map(str.strip, head.split(",")), launch.parameters, strict=True):
            assert item.split()[-1].lstrip("*") == parameter.name
            if isinstance(parameter, Pointer):
                assert ("*__restrict__ " in item) is (parameter.written or not updates)
                assert item.startswith("const ") is not parameter.written
            else:
                assert item.startswith("const ")


def test_arguments_come_in_the_kernel_s_order() -> None:
    assert [p.name for p in lk.generate_code(affine()).kernels[0].parameters] == ["x", "y", "a", "m", "n"]


def test_what_a_launch_does_not_touch_it_does_not_take() -> None:
    code = lk.generate_code(lk.tag_inames(across_blocks(), "i:g.0, j:g.0"))
    assert [[p.name for p in launch.parameters] for launch in code.kernels] == [["x", "t", "n"], ["y", "t", "n"]]
    assert [p.written for p in code.kernels[0].parameters if isinstance(p, Pointer)] == [False, True]
    assert isinstance(code.kernels[1].parameters[1], ScratchPointer)


# The body

@pytest.mark.deep(every=37)
@pytest.mark.parametrize("case", [case for case in CASES if case.dtype != np.float64], ids=lambda case: case.name)
def test_single_precision_stays_single(case: Case) -> None:
    """All these cases compute in float32: no double, no literal without its f, no function of doubles."""
    code = re.sub(r"//.*", "", lk.generate_code(case.make(), target="cuda").source)
    assert "double" not in code
    assert not re.findall(r"(?<![\w.])\d+\.\d*(?:e[+-]?\d+)?(?![\w.])", code)
    assert not re.findall(r"\b(?:sqrt|rsqrt|exp|log|sin|cos|pow|fabs|fmin|fmax|floor)\(", code)


@pytest.mark.deep(every=38)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_inames_and_statement_ids_are_there_to_read(case: Case) -> None:
    knl = case.make()
    code = str(lk.generate_code(knl, target="cuda"))
    for statement in knl.statements:
        assert re.search(rf"// {re.escape(statement.id)}\b", code), statement.id


def test_comments_can_be_left_out() -> None:
    knl = lk.tag_inames(exchange(), "b:g.0, i:l.0, j:l.0")
    assert "// t: write writes, read reads" in cuda_text(knl)
    bare = lk.set_options(knl, annotate=False)
    assert "//" not in cuda_text(bare)
    assert re.sub(r" *//.*\n", "", cuda_text(knl)) == cuda_text(bare)


def test_each_barrier_names_its_dependence() -> None:
    code = cuda_text(lk.tag_inames(exchange(), "i:l.0, j:l.0")).split("\n")
    for number, line in enumerate(code):
        if "__syncthreads" in line:
            assert code[number - 1].strip().startswith("// t: ")


def test_statements_stand_in_textual_order() -> None:
    knl = make("{[i]: 0<=i<n}", """
        for i
            <> c = x[i] {id=first}
            <> b = 2*c {id=second}
            y[i] = b + c {id=third}
        end
        """, x=F32)
    code = cuda_text(lk.tag_inames(knl, "i:g.0"))
    assert re.findall(r"// (\w+)", code) == ["first", "second", "third"]


def test_textual_unrolling_is_asked_for() -> None:
    knl = lk.tag_inames(make("{[i,j]: 0<=i<n and 0<=j<4}", "y[i,j] = 2*x[i,j]", x=F32), "i:g.0, j:unr")
    assert "#pragma unroll" in cuda_text(knl)
    written_out = cuda_text(lk.set_options(knl, textual_unroll=True))
    assert "#pragma unroll" not in written_out
    assert "for (" not in written_out
    assert written_out.count("2.0f*x[") == 4


def test_no_parentheses_that_nobody_needs() -> None:
    knl = make("{[i]: 0<=i<n}", "y[i] = (x[i]*2 + (3*x[i])) + ((x[i]))", x=F32)
    assert lines_with(knl, "y[i]") == ["y[i] = x[i]*2.0f + 3.0f*x[i] + x[i];"]


def test_grid_and_block_are_expressions_of_the_sizes() -> None:
    launch = lk.generate_code(affine()).kernels[0]
    assert launch.block == (32, 4, 1)
    assert "<<<dim3((m + 31) / 32, (n + 3) / 4, 1), dim3(32, 4, 1)>>>" in lk.generate_code(affine()).host


def test_shared_memory_is_counted() -> None:
    code = lk.generate_code(lk.tag_inames(exchange(), "b:g.0, i:l.0, j:l.0"))
    assert code.kernels[0].shared_bytes == 256
    assert "__shared__ float t[64];" in code.source


def test_a_name_of_the_kernel_is_the_function_s() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]", name="copy_it"), {"x": F32})
    assert "\ncopy_it(" in cuda_text(knl)


# Layouts

def test_64_bit_indices() -> None:
    code = lk.generate_code(affine(), layout=Layout(index_bits=64))
    assert "const long long m" in code.source
    assert "const long long i_outer = " in code.source
    assert not re.search(r"\bint (?!\w*stride)\w", code.source)
    assert {p.dtype for p in code.kernels[0].parameters if isinstance(p, Value) and p.name != "a"} == {
        np.dtype(np.int64)}
    assert compile_cuda(code.source).spills == 0


def test_64_bit_literals_do_not_overflow_on_the_way() -> None:
    """Each product is of a 64-bit variable, so that it is computed in 64 bits."""
    knl = lk.fix_parameters(affine(), m=2**21, n=2**17)
    code = lk.generate_code(knl, layout=Layout(index_bits=64))
    assert [line.strip() for line in code.source.split("\n") if "blockIdx" in line or "threadIdx" in line] == [
        "const long long i_outer = blockIdx.y;", "const long long j_outer = blockIdx.x;",
        "const long long i_inner = threadIdx.y;", "const long long j_inner = threadIdx.x;"]
    assert compile_cuda(code.source).spills == 0


def test_64_bit_indices_below_zero() -> None:
    """The hardware counts in 32 bits without a sign: 0 - 3 would be 4294967293."""
    for tags in ("b: g.0", "b: l.0"):
        knl = lk.make_kernel("{[b]: -3<=b<9}", "y[b + 3] = 2*x[b + 3]")
        knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), tags)
        axis = "blockIdx.x" if "g" in tags else "threadIdx.x"
        wide = lk.generate_code(knl, layout=Layout(index_bits=64))
        assert f"const long long b = (long long){axis} - 3;" in wide.source
        assert f"const int b = {axis} - 3;" in lk.generate_code(knl).source


@pytest.mark.parametrize("bits", [32, 64])
def test_strides_as_parameters(bits: int) -> None:
    code = lk.generate_code(affine(), layout=Layout(bits, frozenset({"x"})))
    strides = [p for p in code.kernels[0].parameters if isinstance(p, Stride)]
    assert [(p.name, p.array, p.axis, p.dtype.itemsize*8) for p in strides] == [
        ("x_stride_0", "x", 0, bits), ("x_stride_1", "x", 1, bits)]
    assert "x_stride_0 + " in re.sub(r"\s+", " ", code.source)
    assert "y_stride" not in code.source
    assert compile_cuda(code.source).spills == 0


def test_a_layout_leaves_the_next_text_alone() -> None:
    before = lk.generate_code(affine())
    lk.generate_code(affine(), layout=Layout(64, frozenset({"x", "y"})))
    assert lk.generate_code(affine()) == before
    assert "stride" not in before.host


# Limits

def swapped(length: int, dtype: type = np.float64) -> lk.LoopKernel:
    """A block that keeps *length* values in shared memory."""
    knl = make(f"{{[b,i,j]: 0<=b<n and 0<=i,j<{length}}}", f"""
        for b
            for i
                <> t[i] = 2*x[b,i]
            end
            for j
                y[b,j] = t[{length - 1}-j]
            end
        end
        """, x=dtype)
    knl = lk.split_iname(lk.tag_inames(knl, "b:g.0"), "i", 128, inner_tag="l.0")
    return lk.split_iname(knl, "j", 128, inner_tag="l.0")


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("length", [1024, 6144])
def test_shared_memory_within_the_limit(length: int) -> None:
    code = lk.generate_code(swapped(length))
    assert code.kernels[0].shared_bytes == 8*length
    assert compile_cuda(code.source).shared == 8*length


@pytest.mark.deep(every=24)
@pytest.mark.parametrize("arch", DEVICE_LIMITS)
def test_more_shared_memory_than_there_is(arch: str) -> None:
    limits = DEVICE_LIMITS[arch]
    length = limits.shared_bytes // 8 + 1
    with pytest.raises(lk.LimitError) as caught:
        lk.generate_code(swapped(length), target=lk.CudaTarget(arch))
    assert "shared memory per block" in caught.value.what
    assert caught.value.required == 8*length
    assert caught.value.limit < caught.value.required
    assert str(8*length) in str(caught.value)
    assert arch in str(caught.value)


@pytest.mark.parametrize(("block", "what", "limit", "required"), [
    ((2048, 1, 1), "threads per block", 1024, 2048), ((33, 32, 1), "threads per block", 1024, 1056),
    ((1, 1, 65), "threads along z", 64, 65), ((16, 16, 8), "threads per block", 1024, 2048)])
def test_more_threads_than_there_are(block: tuple[int, int, int], what: str, limit: int, required: int) -> None:
    x, y, z = block
    knl = make(f"{{[b,i,j,k]: 0<=b<n and 0<=i<{z} and 0<=j<{y} and 0<=k<{x}}}", "y[b,i,j,k] = 2*x[b,i,j,k]", x=F32)
    knl = lk.tag_inames(knl, "b:g.0, i:l.2, j:l.1, k:l.0")
    with pytest.raises(lk.LimitError) as caught:
        lk.generate_code(knl)
    assert (caught.value.what, caught.value.limit, caught.value.required) == (what, limit, required)
    assert caught.value.hint is not None


@pytest.mark.parametrize(("axis", "length", "limit"), [("g.1", 65536, 65535), ("g.2", 70000, 65535)])
def test_more_blocks_than_there_are(axis: str, length: int, limit: int) -> None:
    knl = make(f"{{[i]: 0<=i<{length}}}", "y[i] = 2*x[i]", x=F32)
    with pytest.raises(lk.LimitError) as caught:
        lk.generate_code(lk.tag_inames(knl, {"i": axis}))
    assert (caught.value.limit, caught.value.required) == (limit, length)
    assert lk.generate_code(lk.tag_inames(knl, "i:g.0")).kernels[0].grid == (length, 1, 1)


def test_the_host_has_no_such_limits() -> None:
    knl = lk.split_iname(make("{[i]: 0<=i<n}", "y[i] = 2*x[i]", x=F32), "i", 2048, outer_tag="g.0", inner_tag="l.0")
    x = np.arange(5000, dtype=F32)
    np.testing.assert_array_equal(lk.compile(knl, "c")(x=x).y, 2*x)


def test_the_same_kernel_gives_the_same_text() -> None:
    assert lk.generate_code(affine()) == lk.generate_code(affine())
    assert hash(str(lk.generate_code(affine(), "c"))) == hash(str(lk.generate_code(affine(), "c")))


def test_numbers_keep_their_value() -> None:
    knl = make("{[i]: 0<=i<n}", "y[i] = x[i] + 0.1 + 1e30 + 3 + 1e-40", x=F32)
    [line] = lines_with(knl, "y[i]")
    literals = [np.float32(number) for number in re.findall(r"([\d.e+-]+)f", line)]
    assert np.float32(0.1) in literals
    assert np.float32(1e30) in literals
    assert np.float32(1e-40) in literals


def test_double_precision_has_no_f() -> None:
    knl = make("{[i]: 0<=i<n}", "y[i] = sqrt(x[i]) + 0.1", x=np.float64)
    assert lines_with(knl, "y[i]") == ["y[i] = sqrt(x[i]) + 0.1;"]


# Dynamic shared memory

def three_shared(length: int) -> lk.LoopKernel:
    """A block that keeps a row of floats, a number and a row of doubles in shared memory."""
    knl = lk.make_kernel(f"{{[b,i,j]: 0<=b<n and 0<=i,j<{length}}}", f"""
        for b
            scale = x[b,0]
            for i
                t[i] = x[b,i]
                u[i] = w[b,i]
            end
            for j
                y[b,j] = scale*t[{length - 1}-j] + u[{length - 1}-j]
            end
        end
        """, [lk.GlobalArg("x", F32), lk.GlobalArg("w", np.float64), lk.GlobalArg("y", np.float64),
              lk.TemporaryVariable("t", F32, address_space=lk.AddressSpace.LOCAL),
              lk.TemporaryVariable("scale", F32, address_space=lk.AddressSpace.LOCAL),
              lk.TemporaryVariable("u", np.float64, address_space=lk.AddressSpace.LOCAL), "..."])
    knl = lk.split_iname(lk.tag_inames(knl, "b:g.0"), "i", 128, inner_tag="l.0")
    return lk.split_iname(knl, "j", 128, inner_tag="l.0")


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_more_shared_memory_than_a_function_can_declare(arch: str) -> None:
    code = lk.generate_code(three_shared(4097), target=lk.CudaTarget(arch))
    launch, = code.kernels
    assert launch.shared_bytes == launch.dynamic_shared_bytes == 16 + 16400 + 32776
    assert [line.strip() for line in code.source.splitlines() if "shared_memory_" in line] == [
        "extern __shared__ __align__(16) unsigned char shared_memory_[];",
        "float &scale = *reinterpret_cast<float *>(shared_memory_);",
        "float (&t)[4097] = *reinterpret_cast<float (*)[4097]>(shared_memory_ + 16);",
        "double (&u)[4097] = *reinterpret_cast<double (*)[4097]>(shared_memory_ + 16416);"]
    assert compile_cuda(code.source, arch).shared == 0
    assert "kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 49192);" in code.host
    assert ", dim3(128, 1, 1), 49192>>>(" in code.host


def test_shared_arrays_begin_where_instructions_need_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """In dynamic memory, those with the largest alignment come first."""
    monkeypatch.setattr(FunctionText, "alignments", {"u": 1024, "t": 16})
    code = lk.generate_code(three_shared(4097), target="cuda")
    assert [line.strip() for line in code.source.splitlines() if "shared_memory_" in line] == [
        "extern __shared__ __align__(1024) unsigned char shared_memory_[];",
        "float &scale = *reinterpret_cast<float *>(shared_memory_ + 32784);",
        "float (&t)[4097] = *reinterpret_cast<float (*)[4097]>(shared_memory_ + 32800);",
        "double (&u)[4097] = *reinterpret_cast<double (*)[4097]>(shared_memory_);"]
    assert code.kernels[0].shared_bytes == 32800 + 4*4097
    declared = lk.generate_code(three_shared(97), target="cuda").source
    assert [line.strip() for line in declared.splitlines() if "__shared__" in line] == [
        "__shared__ float scale;", "__shared__ __align__(16) float t[97];", "__shared__ __align__(1024) double u[97];"]
    compile_cuda(declared)


def test_as_much_as_a_function_can_declare_is_declared() -> None:
    code = lk.generate_code(three_shared(4094))
    assert (code.kernels[0].shared_bytes, code.kernels[0].dynamic_shared_bytes) == (12*4094 + 4, 0)
    assert "__shared__ float t[4094];" in code.source
    assert "cudaFuncSetAttribute" not in code.host
    assert compile_cuda(code.source).shared >= 12*4094 + 4


@pytest.mark.deep
def test_the_host_needs_no_dynamic_memory() -> None:
    x, w = (np.arange(8194, dtype=F32) % 7).reshape(2, -1), np.ones((2, 4097))
    y = lk.compile(three_shared(4097), "c")(x=x, w=w).y
    np.testing.assert_array_equal(y, x[:, :1].astype(np.float64)*x[:, ::-1] + 1)


def test_nothing_else_is_called_like_the_memory() -> None:
    with pytest.raises(lk.ParseError, match="'shared_memory_' is used in generated code"):
        lk.make_kernel("{[i]: 0<=i<n}", "y[i] = shared_memory_[i]")


# How it is compiled

@pytest.mark.parametrize(("changes", "message", "hint"), [
    ({"arch": "sm_13"}, "'sm_13' is not a known CUDA architecture", "sm_121f"),
    ({"arch": 90}, "90 is not a known CUDA architecture", "sm_90"),
    ({"std": "c++98"}, "'c\\+\\+98' is not a known dialect", "c++17"),
    ({"fast_math": 1}, "'fast_math' of a CudaTarget cannot be 1", "True or False"),
    ({"line_info": "yes"}, "'line_info' of a CudaTarget cannot be 'yes'", "True or False"),
    ({"max_registers": 8}, "'max_registers' of a CudaTarget cannot be 8", "from 16 to 255"),
    ({"max_registers": 256}, "cannot be 256", "from 16 to 255"),
    ({"max_registers": 32.0}, "cannot be 32.0", "from 16 to 255"),
    ({"max_registers": True}, "cannot be True", "from 16 to 255"),
    ({"options": "-G"}, "'options' of a CudaTarget cannot be '-G'", "a tuple of strings"),
    ({"options": ["-G"]}, "cannot be \\['-G'\\]", "a tuple of strings"),
    ({"options": ("-G", 3)}, "cannot be \\('-G', 3\\)", "a tuple of strings"),
])
def test_a_target_that_cannot_be(changes: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(lk.PreconditionError, match=message) as caught:
        lk.CudaTarget(**changes)
    assert caught.value.hint is not None
    assert hint in caught.value.hint


def test_targets_are_values() -> None:
    one, same = (lk.CudaTarget("sm_90a", options=("-G",), max_registers=32) for _ in range(2))
    assert one == same
    assert len({one, same, lk.CudaTarget("sm_90a")}) == 2
    assert one.name == "cuda"
    assert one.limits.arch == "sm_90a"


def test_a_number_of_blocks_that_shall_fit() -> None:
    knl = lk.set_options(swapped(1024), min_blocks=2)
    source = lk.generate_code(knl).source
    assert "__launch_bounds__(128, 2)" in source
    assert compile_cuda(source).spills == 0


@pytest.mark.parametrize(("length", "blocks", "what", "limit", "required"), [
    (64, 33, "blocks per multiprocessor", 32, 33), (128, 20, "threads per multiprocessor", 2048, 2560),
    (6144, 5, "bytes of shared memory per multiprocessor", 233472, 5*50176)])
def test_more_blocks_than_fit(length: int, blocks: int, what: str, limit: int, required: int) -> None:
    with pytest.raises(lk.LimitError, match=f"min_blocks={blocks}") as caught:
        lk.generate_code(lk.set_options(swapped(length), min_blocks=blocks))
    assert (caught.value.what, caught.value.limit, caught.value.required) == (what, limit, required)


@pytest.mark.parametrize(("threads", "most"), [(1024, 64), (992, 64), (288, 168), (256, 255)])
def test_more_registers_than_a_block_has(threads: int, most: int) -> None:
    """The compiler would keep to the limit of the option, and the GPU would refuse the launch."""
    knl = lk.tag_inames(make(f"{{[b,i]: 0<=b<n and 0<=i<{threads}}}", "y[b,i] = 2*x[b,i]", x=F32), "b:g.0, i:l.0")
    plain = lk.generate_code(knl).source
    assert lk.generate_code(knl, target=lk.CudaTarget(max_registers=most)).source == plain
    if most < 255:
        with pytest.raises(lk.LimitError, match=f"in blocks of {threads} threads needs {most + 1} registers") as caught:
            lk.generate_code(knl, target=lk.CudaTarget(max_registers=most + 1))
        assert caught.value.limit == most


@pytest.mark.deep(every=4)
@pytest.mark.parametrize(("arch", "length", "blocks"), [
    ("sm_90", 1024, 16), ("sm_89", 1024, 11), ("sm_75", 1024, 8), ("sm_90", 6144, 4)])
def test_as_many_blocks_as_there_are_threads_for(arch: str, length: int, blocks: int) -> None:
    """One more is refused: some limit is reached."""
    knl, target = swapped(length), lk.CudaTarget(arch)
    source = lk.generate_code(lk.set_options(knl, min_blocks="max"), target=target).source
    assert f", {blocks})" in source
    assert lk.generate_code(lk.set_options(knl, min_blocks=blocks), target=target).source == source
    with pytest.raises(lk.LimitError, match=f"min_blocks={blocks + 1}"):
        lk.generate_code(lk.set_options(knl, min_blocks=blocks + 1), target=target)
    alone = lk.tag_inames(lk.make_kernel("{[i]: 0<=i<64}", "y[i] = 2*x[i]"), "i:l.0")      # no shared memory at all
    assert ", 16)" in lk.generate_code(lk.set_options(lk.add_dtypes(alone, {"x": F32}), min_blocks="max"),
                                       target=lk.CudaTarget("sm_75")).source


@pytest.mark.parametrize("blocks", [-1, True, 1.0, None, "most"])
def test_a_number_of_blocks_that_cannot_be(blocks: object) -> None:
    with pytest.raises(lk.PreconditionError, match=rf"min_blocks.* .?{re.escape(str(blocks))}"):
        lk.set_options(swapped(64), min_blocks=blocks)


@pytest.mark.parametrize("layout", [{"order": "F"}, {"order": (1, 0)}, {"strides": "ldx, 1"}, {"order": "C"}, {}])
def test_a_text_has_the_layout_that_an_argument_declares(layout: dict[str, Any]) -> None:
    """Another program that calls it passes arrays of this layout."""
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i, j] = 2*x[i, j]", [
        lk.GlobalArg("x", np.float32, **layout), "..."])
    for target in ("cuda", "c"):
        source = lk.generate_code(knl, target=target).source
        assert ("x_stride_0" in source) is ("order" in layout and layout["order"] != "C")
        assert ("ldx" in source) is ("strides" in layout)
