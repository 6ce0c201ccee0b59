"""Reductions by shuffles: their conditions, the order of combination, and the code of CUDA's compiler."""
from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any
from unittest import mock

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings

import loopkit as lk
from loopkit.analysis.constructors import annotated
from loopkit.analysis.dependences import dependences, flow_of_values
from loopkit.errors import PreconditionError
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.statement import Dependence
from loopkit.kernel.tags import TAGS, is_collective, is_parallel, of_host
from loopkit.kernel.target import Machine
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lowered_once
from loopkit.poly.sets import Map
from loopkit.transform.data import as_dtype
from loopkit.verification.validation import validate
from tests.deep import amount
from tests.lowering.kernels import F32, make, rows
from tests.lowering.shown import storages
from tests.nvrtc import compile_cuda, nvrtc
from tests.property.machine import execute
from tests.targets import WarpsOf
from tests.transform.same import assert_same

Combine = Callable[[Any, Any], Any]


def mapped(lanes: int, operation: str = "sum", dtype: npt.DTypeLike = F32, **kwargs: Any) -> lk.LoopKernel:
    """A block of *lanes* threads for each row."""
    knl = lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<m}", f"y[i] = {operation}(k, a[i,k])", **kwargs)
    return lk.split_iname(lk.tag_inames(lk.add_dtypes(knl, {"a": dtype}), "i:g.0"), "k", lanes, inner_tag="l.0")


def in_rows(rows_: int, lanes: int) -> lk.LoopKernel:
    """So many rows a block, each with its own threads."""
    return lk.split_iname(lk.split_iname(rows(), "i", rows_, outer_tag="g.0", inner_tag="l.1"), "k", lanes,
                          inner_tag="l.0")


# Which

def note(knl: lk.LoopKernel) -> str:
    """What the text says of how the reduction is done."""
    line = next(line for line in str(lk.generate_code(knl, target="cuda")).split("\n") if "// combined" in line)
    return line.split("// ")[1]


@pytest.mark.deep(every=6)
@pytest.mark.parametrize(("lanes", "how"), [
    (2, "by shuffles in the warp"), (7, "by shuffles in the warp"), (32, "by shuffles in the warp"),
    (33, "by shuffles in warps of 32"), (48, "by shuffles in warps of 32"), (1024, "by shuffles in warps of 32")])
def test_a_row_for_a_block(lanes: int, how: str) -> None:
    assert note(mapped(lanes)) == f"combined {how}"


@pytest.mark.deep
@pytest.mark.parametrize(("rows_", "lanes", "how"), [
    (4, 8, "by shuffles in rows of 8"), (16, 2, "by shuffles in rows of 2"), (3, 32, "by shuffles in rows of 32"),
    (5, 16, "by shuffles in rows of 16"), (2, 64, "by shuffles in warps of 32"), (3, 96, "by shuffles in warps of 32"),
    (1, 48, "by shuffles in warps of 32"),
    (2, 48, "as a tree: rows of 48 threads are neither whole warps nor a part that divides one"),
    (2, 12, "as a tree: rows of 12 threads are neither whole warps nor a part that divides one")])
def test_several_rows_a_block(rows_: int, lanes: int, how: str) -> None:
    knl = in_rows(rows_, lanes)
    assert note(knl) == f"combined {how}"
    for n, m in ((1, 1), (7, 200)):
        assert_same(rows(), knl, n=n, m=m)


@pytest.mark.deep
def test_rows_along_the_fastest_axis() -> None:
    """Lanes that are not neighbours are no lanes of one warp."""
    knl = lk.split_iname(rows(), "i", 4, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_iname(knl, "k", 8, inner_tag="l.1")
    assert note(knl) == "combined as a tree: of threads that are not neighbours"
    assert_same(rows(), knl, n=7, m=21)


@pytest.mark.deep
@pytest.mark.parametrize("tags", [("l.0", "l.1"), ("l.1", "l.0"), ("l.0", "l.0")])
@pytest.mark.parametrize("lengths", [(4, 2), (5, 3), (16, 6), (4, 16)])
def test_lanes_on_two_axes(tags: tuple[str, str], lengths: tuple[int, int]) -> None:
    """Their number is that of the thread, whichever iname is first."""
    plain = make("{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<l}", "y[i] = sum([j,k], a[i,j,k])", a=F32)
    knl = plain
    for x, length, tag in zip("jk", lengths, tags, strict=True):
        knl = lk.split_iname(knl, x, length, inner_tag=tag)
    assert "by shuffles" in note(knl)
    assert_same(plain, lk.tag_inames(knl, "i:g.0"), n=2, m=11, l=10)


@pytest.mark.parametrize(("tag", "length", "how"), [
    ("l.0", 96, "as a tree: the block has other threads too"),
    ("l.1", 24, "as a tree: the block has other threads too"),
    ("l.0", 24, "by shuffles in the warp"), ("for", 96, "by shuffles in the warp")])
def test_threads_that_have_no_part(tag: str, length: int, how: str) -> None:
    plain = lk.fix_parameters(make("{[i,k,j]: 0<=i<n and 0<=k<m and 0<=j<l}", """
        for i
            <> s = sum(k, a[i,k])
            z[i,j] = s*b[i,j] {id=other}
        end
        """, a=F32, b=F32), l=length)
    knl = lk.tag_inames(lk.split_iname(plain, "k", 32, inner_tag="l.0"), f"i:g.0, j:{tag}")
    assert note(knl) == f"combined {how}"
    assert_same(plain, knl, n=2, m=70)


@pytest.mark.deep(every=2)
@pytest.mark.parametrize(("lanes", "how"), [(32, "by shuffles in rows of 32"), (64, "by shuffles in warps of 32"), (
    16, "as a tree: the block has other threads too")])
def test_warps_that_have_no_part(lanes: int, how: str) -> None:
    """The first two of four rows of threads: whole warps combine, others have nothing to do with it."""
    plain = lk.fix_parameters(make("{[i,r,j,k,l]: 0<=i<n and 0<=r<2 and 0<=j<4 and 0<=k,l<m}", """
        for i
            <> s[r] = sum(k, a[i,r,k])
            z[i,j,l] = s[0]*b[i,j,l] + s[1] {id=other}
        end
        """, a=F32, b=F32), m=lanes)
    knl = lk.tag_inames(plain, "i:g.0, r:l.1, j:l.1, k:l.0, l:l.0")
    assert note(knl) == f"combined {how}"
    assert validate(lowered_once(knl)) == ()
    assert_same(plain, knl, n=2)


@pytest.mark.deep
def test_threads_of_another_launch_do_not_count() -> None:
    """Blocks of other shapes before and after: those between which a launch must end are others."""
    plain = make("{[i,k,j,l,b]: 0<=i,j,b<n and 0<=k,l<m}", """
        x[b] = 2*a[b,0] {id=before}
        y[i] = sum(k, a[i,k]*x[i]) {id=wide}
        z[j] = sum(l, a[j,l]) {id=narrow}
        """, a=F32)
    knl = lk.split_iname(plain, "b", 64, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_iname(lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.1"), "k", 32, inner_tag="l.0")
    knl = lk.split_iname(lk.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.1"), "l", 8, inner_tag="l.0")
    assert note(knl) == "combined as a tree: the block has other threads too"
    knl = lk.add_barrier(lk.add_barrier(knl, "before", "wide.k.init"), "wide", "narrow.l.init")
    code = lk.generate_code(knl)
    assert [k.block for k in code.kernels] == [(64, 1, 1), (32, 4, 1), (8, 16, 1)]
    assert "as a tree" not in code.source
    assert_same(plain, knl, n=18, m=40)
    # the last two may share a block
    together = lk.add_barrier(annotated(knl, barriers=()), "before", "wide.k.init")
    assert "as a tree" in lk.generate_code(together).source


@pytest.mark.deep
def test_registers_hold_what_lanes_combine() -> None:
    """No element of what is combined is in shared memory; of each warp one is."""
    knl = in_rows(2, 64)
    assert storages(knl) == {"acc_k": "private float32 acc_k",
                             "acc_k_warp": "warp float32 acc_k_warp[2][64]",
                             "acc_k_shared": "shared float32 acc_k_shared[2][2]",
                             "acc_k_all": "private float32 acc_k_all"}
    launch, = lk.generate_code(knl, target="cuda").kernels
    assert launch.shared_bytes == 16



def test_one_lane_has_nothing_to_combine() -> None:
    text = str(lk.generate_code(mapped(1), target="cuda"))
    assert "combined" not in text
    assert "__shfl" not in text


def test_how_it_is_done_is_a_note_of_the_texts() -> None:
    knl = lk.set_options(mapped(64), annotate=False)
    for target in ("c", "cuda"):
        assert "// combined" not in str(lk.generate_code(knl, target=target))


# In which order

def of_threads(values: Sequence[Any], lanes: int, start: Any, combine: Combine) -> list[Any]:
    """What each thread has of a row."""
    parts = []
    for lane in range(lanes):
        part = start
        for value in values[lane::lanes]:
            part = combine(part, value)
        parts.append(part)
    return parts


def of_row(parts: list[Any], combine: Combine) -> Any:
    """The order that the documentation states: lanes 16, 8, 4, 2 and 1 further on, then the warps one after another."""
    parts = list(parts)
    for step in (16, 8, 4, 2, 1):
        for i in range(len(parts)):
            if i % 32 < step and i + step < len(parts):
                parts[i] = combine(parts[i], parts[i + step])
    total = parts[0]
    for other in parts[32::32]:
        total = combine(total, other)
    return total


MODELS: dict[str, tuple[float, Combine]] = {
    "sum": (0, lambda a, b: a + b), "product": (1, lambda a, b: a*b), "max": (-np.inf, max), "min": (np.inf, min),
    "either": (0, lambda a, b: a + b - a*b)}


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: npt.DTypeLike) -> np.ndarray:
    values = rng.uniform(-0.9, 1.1, shape)
    return (values + 1j*rng.uniform(-1, 1, shape) if np.dtype(dtype).kind == "c" else values).astype(dtype)


@pytest.mark.deep
@pytest.mark.parametrize("lanes", [2, 3, 8, 16, 24, 31, 32, 33, 48, 64, 96, 100, 129, 256, 1000, 1024])
def test_the_order_is_as_documented(lanes: int) -> None:
    a = drawn(np.random.default_rng(lanes), (3, 2*lanes + 5), F32)
    got = lk.compile(mapped(lanes), target="c")(a=a).y
    expected = [of_row(of_threads(row, lanes, F32(0), lambda x, y: x + y), lambda x, y: x + y) for row in a]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.deep
@pytest.mark.parametrize(("operation", "dtype"), [
    *((x, d) for x in MODELS for d in (np.float32, np.float64, np.float16)), ("sum", np.complex64),
    ("either", np.complex128)])
def test_every_operation_and_dtype(operation: str, dtype: type) -> None:
    own = [lk.ReductionOperation("either", "a + b - a*b", neutral=0, reorderable=True)]
    knl = mapped(72, operation, dtype, reductions=own)
    start, combine = MODELS[operation]
    a = drawn(np.random.default_rng(5), (2, 150), dtype)
    got = lk.compile(knl, target="c")(a=a).y
    expected = [of_row(of_threads(row, 72, np.dtype(dtype).type(start), combine), combine) for row in a]
    if np.dtype(dtype).kind == "c" or (operation == "either" and dtype is np.float16):
        np.testing.assert_allclose(got, expected, rtol=40*np.finfo(dtype).eps)      # rounded elsewhere in an element
    else:
        np.testing.assert_array_equal(got, expected)
    assert validate(lowered(knl)) == ()


@pytest.mark.deep
def test_rows_have_the_order_of_their_own_threads() -> None:
    a = drawn(np.random.default_rng(1), (5, 40), F32)
    got = lk.compile(in_rows(4, 8), target="c")(a=a).y
    expected = [of_row(of_threads(row, 8, F32(0), lambda x, y: x + y), lambda x, y: x + y) for row in a]
    np.testing.assert_array_equal(got, expected)


# Any block

def lowered(knl: lk.LoopKernel) -> Lowered:
    result = lk.lower(knl)
    return result


@settings(max_examples=amount(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from([1, 2, 4, 8, 32]), st.integers(1, 40), st.integers(1, 6), st.booleans(),
       st.sampled_from(["sum", "max", "min"]), st.sampled_from([np.int64, np.float64]), st.integers(0, 99),
       st.integers(0, 2**32 - 1))
def test_any_block_on_a_machine_of_lanes(warp: int, lanes: int, rows_: int, swapped: bool, operation: str,
                                         dtype: type, m: int, seed: int) -> None:
    """Warps of any length: proven, and right in whatever order warps run; each lane reads what another one holds."""
    plain = lk.add_dtypes(lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<m}", f"y[i] = {operation}(k, a[i,k])",
                                         assumptions="n>=1"), {"a": dtype})
    axes = ("l.0", "l.1") if swapped else ("l.1", "l.0")
    knl = lk.split_iname(plain, "i", rows_, outer_tag="g.0", inner_tag=axes[0])
    knl = lk.split_iname(knl, "k", lanes, inner_tag=axes[1])
    low = lowered_once(knl, Machine(warp))
    assert lk.verify(knl, WarpsOf(warp)).ok
    assert validate(low) == ()
    n = 1 + seed % 9
    a = np.random.default_rng(seed).integers(-9, 9, (n, m)).astype(dtype)
    got = execute(low, {"a": a, "y": np.zeros(n, dtype)}, {"n": n, "m": m}, random.Random(seed))["y"]
    expected = lk.compile(plain, target="c")(a=a).y
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("rows_", "lanes"), [(1, 2), (1, 64), (1, 24), (3, 8), (2, 96), (1, 33)])
def test_values_go_from_step_to_step(rows_: int, lanes: int) -> None:
    """What is put down for the lanes is what isl finds."""
    knl = lk.lower(in_rows(rows_, lanes), stop="reductions").kernel
    found, wanted = (_by_pair(ds) for ds in (dependences(knl), flow_of_values(knl, "acc_k_warp")))
    assert found.keys() == wanted.keys()
    for pair, own in wanted.items():
        assert _union(found[pair]).is_equal(_union(own)), pair
        assert all(d.exact and d.of_value for d in found[pair])


def _by_pair(found: Iterable[Dependence]) -> dict[tuple[str, str], list[Dependence]]:
    result: dict[tuple[str, str], list[Dependence]] = {}
    for d in found:
        if d.array == "acc_k_warp":
            result.setdefault((d.source, d.sink), []).append(d)
    return result


def _union(found: Sequence[Dependence]) -> Map:
    return reduce(Map.union, (d.relation for d in found))


@pytest.mark.deep
def test_in_loops_whose_bounds_depend_on_the_row() -> None:
    """The threads of rows that are done take part in the shuffles of the others."""
    plain = make("{[i,t,k]: 0<=i<n and 0<=t<=i and 0<=k<m}", "y[i,t] = sum(k, a[i,k]*(t + 1))", a=F32)
    knl = lk.split_iname(plain, "i", 4, outer_tag="g.0", inner_tag="l.1")
    knl = lk.split_iname(knl, "k", 8, inner_tag="l.0")
    assert note(knl) == "combined by shuffles in rows of 8"
    assert validate(lowered(knl)) == ()
    for n in (1, 4, 7):
        assert_same(plain, knl, n=n, m=19)


def test_in_unrolled_loops_there_are_registers_for_each_iteration() -> None:
    plain = make("{[i,u,k]: 0<=i<n and 0<=u<3 and 0<=k<m}", """
        for i
            for u
                y[i,u] = sum(k, a[i,u,k])
            end
        end
        """, a=F32)
    for tag in ("unr", "ilp"):
        knl = lk.tag_inames(lk.split_iname(plain, "k", 64, inner_tag="l.0"), {"i": "g.0", "u": tag})
        assert "by shuffles" in note(knl)
        assert validate(lowered(knl)) == ()
        assert_same(plain, knl, n=2, m=70)
        compile_cuda(str(lk.generate_code(knl, target="cuda")))


#: The loops that may be around the statements of a reduction, whichever tag there will be.
LOOPS = sorted(x for x, tag in TAGS.items() if not (is_parallel(tag) or is_collective(tag)) and of_host(tag) is None)


@pytest.mark.parametrize("tag", LOOPS)
@pytest.mark.parametrize(("text", "lanes"), [
    ("y[i] = sum(k, a[i,k])", 8), ("y[i] = max(k, a[i,k])", 40), ("y[i,k] = sum(l, a[i,l])", 8)])
def test_each_iteration_of_any_loop_has_its_own_shuffles(tag: str, text: str, lanes: int) -> None:
    """A shuffle is one assignment: loops are around it, and conditions on their iterations too."""
    scan = "i,k" in text.partition("=")[0]
    plain = make([f"{{[i,k]: 0<=i<n and 0<=k<{lanes}}}", *(["[k] -> {[l]: 0<=l<=k}"]*scan)], text, a=np.int64)
    knl = lk.tag_inames(lk.split_iname(plain, "i", 2, outer_tag="g.0", inner_tag=tag), "k:l.0")
    knl = lk.realize_scan(knl, "l") if scan else knl
    low = lowered(knl)
    assert "shuffle: lane" in str(low)
    assert validate(low) == ()
    for n in (3, 4):
        a = np.random.default_rng(n).integers(-9, 9, (n, lanes))
        wanted = lk.compile(plain, "c")(a=a).y
        got = execute(low, {"a": a, "y": np.zeros_like(wanted)}, {"n": n}, random.Random(n))["y"]
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.deep
def test_a_reduction_whose_result_leads_the_next() -> None:
    plain = make("{[i,j,k]: 0<=i<n and 0<=j,k<m}", """
        for i
            <> top = max(k, x[i,k])
            y[i] = sum(j, (x[i,j] - top)*(x[i,j] - top))
        end
        """, x=F32)
    for lanes in (16, 96):
        knl = lk.split_iname(lk.tag_inames(plain, "i:g.0"), "k", lanes, inner_tag="l.0")
        knl = lk.split_iname(knl, "j", lanes, inner_tag="l.0")
        assert_same(plain, knl, n=3, m=200)
        assert validate(lowered(knl)) == ()


# The text

@pytest.mark.deep
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32",
                                   "int64", "uint64", "complex64", "complex128"])
def test_every_dtype_compiles_without_memory(arch: str, dtype: str) -> None:
    for lanes, elements in ((8, 0), (96, 3)):
        knl = mapped(lanes, dtype=as_dtype(dtype, "a"))
        done = compile_cuda(str(lk.generate_code(knl, target="cuda")), arch)
        assert done.stack == done.spills == 0
        assert done.shared == elements*as_dtype(dtype, "a").itemsize


def test_the_binary_has_a_shuffle_a_step() -> None:
    text = str(lk.generate_code(lk.fix_parameters(mapped(256), m=256), target="cuda"))
    ptx = nvrtc().ptx(text, "text", lk.CudaTarget("sm_90"))
    assert ptx.count("shfl.sync.down") == 5
    assert ptx.count("bar.sync") == 1
    assert "st.local" not in ptx


def steps(lanes: int, dtype: npt.DTypeLike = F32, operation: str = "sum") -> list[str]:
    """The lines of a text with what other lanes hold."""
    own = [lk.ReductionOperation("either", "a + b - a*b", neutral=0, reorderable=True)]
    text = str(lk.generate_code(mapped(lanes, operation, dtype, reductions=own), target="cuda", verify=False))
    return [line.strip() for line in text.split("\n") if "__shfl" in line or "_other" in line]


@pytest.mark.deep
def test_lanes_without_a_part_combine_where_nobody_reads_what_they_find() -> None:
    shuffled = "__shfl_down_sync(0xffffffff, acc_k_warp, {})".format
    assert steps(64) == [f"acc_k_warp += {shuffled(s)};" for s in (16, 8, 4, 2, 1)]
    # of 24 lanes the first 8 have one 16 further on: the others' own parts are still to be read
    assert steps(24) == [
        "float acc_k_warp{}, acc_k_warp_other;  // combined by shuffles in the warp",
        f"acc_k_warp_other = {shuffled(16)};", "acc_k_warp += acc_k_warp_other;",
        *(f"acc_k_warp += {shuffled(s)};" for s in (8, 4, 2, 1)),
        "acc_k_all = __shfl_sync(0xffffffff, acc_k_warp, 0, 32);"]


@pytest.mark.parametrize(("dtype", "operation"), [(np.int32, "sum"), (np.float32, "either")])
def test_what_could_go_wrong_in_them_is_guarded(dtype: type, operation: str) -> None:
    """A sum of integers that nobody reads could overflow, and an operation of the user's do anything."""
    lines = steps(64, dtype, operation)
    assert [line for line in lines if "__shfl" in line] == [
        f"acc_k_warp_other = __shfl_down_sync(0xffffffff, acc_k_warp, {s});" for s in (16, 8, 4, 2, 1)]


@pytest.mark.parametrize(("dtype", "operation", "first", "others"), [
    ("float32", "sum", "acc_k_warp = __fadd_rn(acc_k_warp, {})", "acc_k_warp += {}"),
    ("float64", "sum", "acc_k_warp = __dadd_rn(acc_k_warp, {})", "acc_k_warp += {}"),
    ("bfloat16", "sum", "acc_k_warp = __hadd_rn(acc_k_warp, {})", "acc_k_warp += {}"),
    ("float32", "max", *["acc_k_warp = fmaxf(acc_k_warp, {})"]*2), ("float64", "product", *["acc_k_warp *= {}"]*2),
    ("int32", "sum", *["acc_k_warp += {}"]*2), ("uint8", "bit_xor", *["acc_k_warp ^= {}"]*2)])
def test_lanes_that_all_need_the_result_exchange_their_values(dtype: str, operation: str, first: str, others: str
                                                              ) -> None:
    """No guard, as no lane combines other values, and no shuffle brings the result."""
    for lanes in (8, 32):
        knl = mapped(lanes, operation, as_dtype(dtype, "a"))
        text = str(lk.generate_code(knl, target="cuda"))
        offsets = [1 << k for k in reversed(range(lanes.bit_length() - 1))]
        lines = [line.strip() for line in text.split("\n")]
        start = lines.index("acc_k_warp = acc_k;") + 1
        assert lines[start:start + len(offsets) + 1] == [
            *(f"{(first if s == lanes // 2 else others).format(f'__shfl_xor_sync(0xffffffff, acc_k_warp, {s})')};"
              for s in offsets), "acc_k_all = acc_k_warp;"]
        assert text.count("__shfl") == len(offsets)
        compile_cuda(text)


@pytest.mark.parametrize(("lanes", "dtype", "operation"), [
    (24, "float32", "sum"),             # some lanes have no other one
    (64, "float32", "sum"),             # one lane of each warp needs the result
    (32, "complex64", "sum"), (32, "float32", "argmin"), (32, "float32", "either"),   # the order may change bits
    (32, "int32", "any")])              # the text of truth values reads the second one only if it must
def test_lanes_do_not_exchange_values(lanes: int, dtype: str, operation: str) -> None:
    lines = steps(lanes, as_dtype(dtype, "a"), operation)
    assert any("__shfl_down_sync" in line for line in lines)
    assert not any("__shfl_xor_sync" in line for line in lines)


def test_integers_of_rows_without_work_are_not_added_up() -> None:
    """A row that takes no part has the values of an earlier iteration, whose sums could overflow."""
    for dtype, way in ((np.int32, "down"), (np.float32, "xor")):
        knl = lk.add_dtypes(lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, a[i,k])"), {"a": dtype})
        knl = lk.split_iname(lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.1"), "k", 8, inner_tag="l.0")
        source = lk.generate_code(knl).source
        assert source.count(f"__shfl_{way}_sync") == 3*(1 + source.count("// a full tile"))


def test_no_lane_fuses_its_product_into_a_sum() -> None:
    """Of two lanes, each would round the other one's product and not its own."""
    text = str(lk.generate_code(lk.fix_parameters(mapped(32), m=32), target="cuda"))
    ptx = nvrtc().ptx(text, "text", lk.CudaTarget("sm_90"))
    after = ptx.partition("shfl.sync.bfly")[2]
    assert re.findall(r"\b(?:add|fma)\S*\.f32", after)[0] == "add.rn.f32"
    assert ptx.count("shfl.sync.bfly") == 5
    assert ptx.count("shfl.sync") == 5


def test_the_text_of_complex_numbers() -> None:
    text = str(lk.generate_code(mapped(8, dtype=np.complex64), target="cuda"))
    words = " ".join(text.split())
    parts = [f"__shfl_down_sync(0xffffffff, acc_k_warp.{part}, 4)" for part in ("re", "im")]
    assert f"acc_k_warp = acc_k_warp + complex64({', '.join(parts)});" in words
    assert "acc_k_all = complex64(__shfl_sync(0xffffffff, acc_k_warp.re, 0, 8)," in words

@pytest.mark.deep
def test_a_loop_around_barriers_is_unrolled() -> None:
    """It was a loop, and what is private and has an element for each iteration lay in memory."""
    knl = lk.make_kernel("{[i,j,k]: 0<=i<n and 0<=j<4 and 0<=k<m}", "y[i,j] = sum(k, a[i,j,k])")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"a": np.float32}), "i:g.0, j:unr")
    knl = lk.split_iname(knl, "k", 64, inner_tag="l.0")
    assert "#pragma unroll\n    for (int j = 0; j < 4; ++j) {" in str(lk.generate_code(knl, target="cuda"))
    text = str(lk.generate_code(lk.set_options(knl, textual_unroll=True), target="cuda"))
    assert "int j" not in text
    assert [text.count(f"__shfl_down_sync(0xffffffff, acc_k_warp, {s})") for s in (16, 1)] == [4, 4]


@pytest.mark.parametrize("space", ["warp", AddressSpace.WARP])
@pytest.mark.parametrize("tag", ["i: l.0", "i: g.0"])
def test_values_of_one_thread_in_the_registers_of_warps_are_its_own(space: str | AddressSpace, tag: str) -> None:
    """No shuffle moves them."""
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<64}", "<> t = 2*x[i]\ny[i] = t"), {"x": np.float64})
    knl = lk.set_temporary_address_space(lk.tag_inames(knl, tag), "t", space)
    assert validate(lk.lower(knl)) == ()
    assert "shfl" not in lk.generate_code(knl, target="cuda").source


def test_the_program_is_refused_when_a_lane_is_read_without_a_shuffle() -> None:
    with mock.patch("loopkit.lowering.shuffles.Shuffle", return_value=None), \
            pytest.raises(PreconditionError, match="in warp registers, that other lanes may hold"):
        lk.lower(mapped(64))
