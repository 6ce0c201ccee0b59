"""tensorize with TMA: what it cannot copy, each with the reason and a way out."""
from __future__ import annotations

import re

import numpy as np
import pytest

import loopkit as lk
from tests.golden_files import GoldenFiles
from tests.nvrtc import compile_cuda
from tests.tma_kernels import product, rowsum

BOX = "0<=i<64 and 0<=k<32"


def _copy(text: str, box: str = BOX, dtype: str = "float32", shape: str = "400, 400") -> lk.LoopKernel:
    """A copy by TMA, and a reader of the copied elements."""
    others = box.replace("i<", "i2<").replace("k<", "k2<")
    knl = lk.make_kernel(f"{{[i, k, i2, k2]: {box} and {others}}}", f"""
        {text}  {{id=copy}}
        y[i2, k2] = t[i2, k2]  {{dep=copy}}
        """, [lk.GlobalArg("a", dtype, shape), "..."])
    return lk.tensorize(lk.tag_inames(knl, "k2:l.0"), "copy", "tma.load")


@pytest.mark.parametrize(("text", "box", "reason", "hint"), [
    ("<> t[k, i] = a[i, k]", "0<=i<32 and 0<=k<32", "in the order k, i, and those of the array in the order i, k",
     "readers may transpose"),
    ("<> t[i, k] = a[i, 2*k]", BOX, "are 2 apart along axis 1, and TMA copies neighbours", "let threads copy"),
    ("<> t[i, k] = a[i + k, k]", BOX, "the subscript i + k of 'a'", "at equal distances"),
    ("<> t[i, k] = a[63 - i, k]", BOX, "of 'a' is not an iname of the box, or a multiple, and a start", "at equal"),
    ("<> t[i, k] = a[i // 2, k]", BOX, "the subscript i // 2 of 'a'", "at equal distances"),
    ("<> t[2*i, k] = a[i, k]", BOX, "the box does not fill axis 0 of 't'", "whole rows"),
    ("<> t[i, k] = 2*a[i, k]", BOX, "does not copy an element", "add_prefetch"),
    ("<> t[i, k] = a[i, k] if k < 20 else 0", BOX, "it stores 0 for some elements of 'a': where k < 20", "pad_domain"),
    ("<> t[i, k] = a[i, k] if k < 20 else 1", BOX, "does not copy an element", "add_prefetch"),
    ("<> t[i, k] = a[i, k]", "0<=i<64 and 0<=k<30", "has 120 bytes, which is not a multiple of 16", "multiple of 4"),
    ("<> t[i, k] = a[i, k]", "0<=i<300 and 0<=k<32", "300 elements along axis 0, and TMA copies 1 to 256", "several"),
    ("<> t[i, k] = a[i, i]", "0<=i<32 and 0<=k<32", "'i' is not in one subscript of 'a'", "around the box")])
def test_what_tma_cannot_copy(text: str, box: str, reason: str, hint: str) -> None:
    with pytest.raises(lk.PreconditionError, match=reason.replace("+", r"\+").replace("*", r"\*")) as caught:
        lk.lower(_copy(text, box))
    assert hint in (caught.value.hint or "")


def test_elements_of_16_bytes() -> None:
    with pytest.raises(lk.PreconditionError, match=r"TMA copies elements of 1, 2, 4 or 8 bytes"):
        lk.lower(_copy("<> t[i, k] = a[i, k]", dtype="complex128"))


def test_each_box_begins_at_a_multiple_of_128_bytes() -> None:
    knl = lk.make_kernel("{[h, k, h2, k2]: 0<=h,h2<4 and 0<=k,k2<16}", """
        <> t[h, k] = a[h, k]  {id=copy}
        y[h2, k2] = t[h2, k2]  {dep=copy}
        """, [lk.GlobalArg("a", np.float32, (4, 16)), "..."])
    with pytest.raises(lk.PreconditionError, match="each of the boxes in 't' has 64 bytes, and those behind the first "
                                                   "would not begin at multiples of 128 bytes") as caught:
        lk.lower(lk.tensorize(lk.tag_inames(knl, "k2:l.0"), "copy", "tma.load", "k"))
    assert "a multiple of 128 bytes, or one box" in (caught.value.hint or "")


def test_the_swizzle_is_that_of_tma() -> None:
    knl = lk.set_temporary_address_space(lk.add_dtypes(_copy("<> t[i, k] = a[i, k]"), {"t": np.float32}), "t", "shared")
    (function,) = lk.lower(lk.swizzle(knl, "t", chunk=4)).program.functions
    assert [m.swizzle for m in function.tensor_maps] == [128]
    with pytest.raises(lk.PreconditionError, match="TMA cannot store 't' with the swizzle") as caught:
        lk.lower(lk.swizzle(knl, "t", chunk=2))
    assert "swizzle(knl, 't', chunk=4) for rows of 32 elements" in (caught.value.hint or "")


def test_golden_product(golden: GoldenFiles) -> None:
    """One version of the text for all tiles: TMA fills partial ones, and only the stores at the end have guards."""
    code = lk.generate_code(product(3, b_transposed=True), target=lk.CudaTarget("sm_90"))
    golden.check("product_by_tma.cu", code)
    assert compile_cuda(str(code), "sm_90").spills == 0


def test_older_gpus_have_no_tma() -> None:
    with pytest.raises(lk.PreconditionError, match="copied by TMA, which sm_80 does not have"):
        lk.generate_code(rowsum(2), target=lk.CudaTarget("sm_80"))


def test_copies_through_registers_beside_tma() -> None:
    """Threads cannot hold in registers what TMA copies, and other copies do not become asynchronous unasked."""
    with pytest.raises(lk.PreconditionError, match="registers=True and asynchronous=True exclude"):
        lk.pipeline(rowsum(1), "k_outer", 2, registers=True)


def test_an_unrolled_loop_over_tiles() -> None:
    """Each wait in the text has its own parity."""
    knl = lk.tag_inames(lk.fix_parameters(rowsum(1), l=96), "k_outer:unr")
    knl = lk.set_options(knl, textual_unroll=True)
    report = lk.verify(knl, full=True)
    assert report.proven, report
    text = str(lk.generate_code(knl, target=lk.CudaTarget("sm_90")))
    assert re.findall(r"wait_for_phase\((.*)\);", text) == [f"&tile_full[0], {parity}" for parity in (0, 1, 0)]


def test_tma_need_not_see_what_the_same_launch_writes() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i,j<64}", """
        z[i] = 2*x[i]  {id=write}
        <> t[j] = z[j]  {id=copy, dep=write}
        y[i] = t[63 - i]  {dep=copy}
        """, [lk.GlobalArg("x, y, z", np.float32, (64,))])
    knl = lk.tensorize(lk.tag_inames(knl, "i:l.0"), "copy", "tma.load")
    with pytest.raises(lk.PreconditionError, match="'z' in 'copy', and 'write' writes it in the same launch"):
        lk.lower(knl)


def _through_memory(width: str, *, launches: bool = True) -> lk.LoopKernel:
    """Rows of a temporary in global memory with this *width*, copied by TMA."""
    knl = lk.make_kernel("{[r, q, i, k, i2, k2]: 0<=r,i,i2<64 and 0<=q<m and 0<=k,k2<32}", """
        whole[r, q] = 2*a[r, q]  {id=write}
        <> t[i, k] = whole[i, k]  {id=copy}
        y[i2, k2] = t[i2, 31 - k2]  {id=use}
        """, [lk.TemporaryVariable("whole", np.float32, f"64, {width}", lk.AddressSpace.GLOBAL), "..."],
        assumptions="m >= 32")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"a": np.float32}), "q:l.0, k2:l.0" if not launches else "q:g.0, k2:l.0")
    knl = lk.add_barrier(knl, "write", "copy") if launches else knl
    return lk.tensorize(knl, "copy", "tma.load")


@pytest.mark.parametrize("completion", ["first", "last"])
def test_tma_copies_what_an_earlier_launch_wrote(completion: str) -> None:
    """The library chooses the strides of a temporary, so that a call needs no assumption about them."""
    knl = _through_memory("4*((m + 3)//4)")
    a = np.arange(64*35, dtype=np.float32).reshape(64, 35)
    np.testing.assert_array_equal(lk.emulate(knl, a=a, completion=completion).y, 2*a[:, 31::-1])
    assert "other calls" not in lk.generate_code(knl, target="cuda").source


@pytest.mark.parametrize(("width", "launches", "reason", "hint"), [
    ("m", True, "its rows of m elements are not always a multiple of 16 bytes", "last extent that is a multiple of 4"),
    ("2*m", True, r"its rows of 2\*m elements are not always a multiple", "a multiple of 4"),
    ("4*m", False, "'write' writes it in the same launch", "add_barrier")])
def test_temporaries_that_tma_cannot_read(width: str, launches: bool, reason: str, hint: str) -> None:
    with pytest.raises(lk.PreconditionError, match=f"TMA copies 'whole' in 'copy', and {reason}") as caught:
        lk.lower(_through_memory(width, launches=launches))
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(("stages", "ahead"), [(3, 1), (4, 2)])
def test_fewer_tiles_ahead(stages: int, ahead: int) -> None:
    knl = lk.pipeline(rowsum(1), "k_outer", stages, ahead=ahead)
    report = lk.verify(knl, full=True)
    assert report.proven, report
    a = np.random.default_rng(0).integers(-9, 9, (70, 420)).astype(np.float32)
    np.testing.assert_array_equal(lk.compile(knl, target="c")(a=a).s, a.sum(axis=1))


def test_more_tiles_ahead_than_there_are() -> None:
    with pytest.raises(lk.PreconditionError, match="copies run at most 1 iterations ahead, and not 2") as caught:
        lk.pipeline(rowsum(1), "k_outer", 2, ahead=2)
    assert "pipeline(knl, 'k_outer', 3, ahead=2)" in (caught.value.hint or "")


def test_the_host_runs_the_loops() -> None:
    a = np.random.default_rng(0).integers(-9, 9, (70, 36)).astype(np.float32)
    np.testing.assert_array_equal(lk.compile(rowsum(3), target="c")(a=a).s, a.sum(axis=1))


# Stores

def _stored(text: str, box: str = "0<=i<8 and 0<=j<32", *arrays: str) -> lk.LoopKernel:
    knl = lk.make_kernel(f"[r] -> {{[i, j, p, q]: {box} and 0<=p<8 and 0<=q<32}}", text, [
        lk.TemporaryVariable("t", np.float32, (8, 32), address_space="shared"),
        *(lk.GlobalArg(x, np.float32, (8, 32)) for x in ("x", "y", *arrays)),
        lk.ValueArg("r", np.int32)])
    return lk.tensorize(lk.tag_inames(knl, "j:l.0"), "store", "tma.store", "p, q")


FILL = "t[i, j] = 2*x[i, j]  {id=fill}\n"


@pytest.mark.parametrize(("text", "reason", "hint"), [
    (FILL + "y[p, q] = t[p, q]  {id=store, dep=fill, if=q < r}", "it leaves out some elements of 'y': where q < r",
     "all elements of the box"),
    (FILL + "y[p, q] = t[p, q] if q < 20 else 0  {id=store, dep=fill}", "it stores 0 where q < 20 does not hold",
     "in shared memory"),
    (FILL + "y[p, q] = t[p, q]  {id=store, dep=fill}\nz[i, j] = y[i, 0]  {dep=store}",
     "TMA copies 'y' in 'store', and 'insn' accesses it later in the same launch", "another launch"),
    (FILL + "y[i, j] = 1  {id=first}\ny[p, q] = t[p, q]  {id=store, dep=fill:first}",
     "TMA copies 'y' in 'store', and 'first' writes it in the same launch", "another launch")])
def test_what_tma_does_not_store(text: str, reason: str, hint: str) -> None:
    with pytest.raises(lk.PreconditionError) as caught:
        lk.lower(_stored(text, "0<=i<8 and 0<=j<32", *(["z"] if "z[" in text else [])))
    assert reason in caught.value.message
    assert hint in (caught.value.hint or "")


def test_threads_may_read_what_tma_overwrites() -> None:
    """An update in place: each thread reads its element before TMA stores the tile."""
    knl = _stored("t[i, j] = 2*y[i, j] + x[i, j]  {id=fill}\ny[p, q] = t[p, q]  {id=store, dep=fill}")
    x, y = np.arange(512, dtype=np.float32).reshape(2, 8, 32)
    assert lk.verify(knl, full=True).proven
    np.testing.assert_array_equal(lk.emulate(knl, x=x, y=y.copy(), r=0).y, 2*y + x)


def test_a_temporary_that_only_tensor_maps_use_is_no_parameter() -> None:
    """TMA stores it in one launch and loads it in the next one; the host's function allocates it."""
    knl = lk.make_kernel("{[i, j, p, q, i2, j2, i3, j3]: 0<=i,p,i2,i3<8 and 0<=j,q,j2,j3<32}", """
        t[i, j] = 2*x[i, j]  {id=fill}
        whole[p, q] = t[p, q]  {id=store}
        <> u[i2, j2] = whole[i2, j2]  {id=load}
        y[i3, j3] = u[7 - i3, j3]
        """, [lk.TemporaryVariable("t", np.float32, (8, 32), address_space="shared"),
              lk.TemporaryVariable("whole", np.float32, (8, 32), lk.AddressSpace.GLOBAL),
              *(lk.GlobalArg(x, np.float32, (8, 32)) for x in "xy")])
    knl = lk.tensorize(lk.tag_inames(knl, "j:l.0, j3:l.0"), "store", "tma.store", "p, q")
    knl = lk.tensorize(lk.add_barrier(knl, "store", "load"), "load", "tma.load", "i2, j2")
    code = lk.generate_code(knl, target=lk.CudaTarget("sm_90"))
    assert "*whole" not in code.source.replace("*__restrict__ ", "*")
    assert "cudaMalloc(&whole" in code.host
    x = np.arange(256, dtype=np.float32).reshape(8, 32)
    np.testing.assert_array_equal(lk.emulate(knl, x=x).y, 2*x[::-1])


@pytest.mark.parametrize(("swizzle", "storage"), [
    (128, "tile[2][8][32] axes 1, 0, 2, columns ^ 4*(axis 1 mod 8)"),
    (64, "tile[4][8][16] axes 1, 0, 2, columns ^ 4*(axis 1 // 2 mod 4)"),
    (32, "tile[8][8][8] axes 1, 0, 2, columns ^ 4*(axis 1 // 4 mod 2)")])
def test_wide_tiles_become_boxes_of_swizzled_rows(swizzle: int, storage: str) -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i, j] = 2*x[i, j]")
    knl = lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", 8, outer_tag="g.1", inner_iname="i_box")
    knl = lk.split_iname(knl, "j", 64, outer_tag="g.0", inner_iname="j_box", inner_tag="l.0")
    knl = lk.buffer_array(knl, "y", "i_box, j_box", temporary_name="tile", default_tag=None)
    knl = lk.tensorize(knl, "store_y", f"tma.store.swizzle{swizzle}")
    assert str(lk.lower(knl, stop="storage")).endswith(storage)
    x = np.arange(11*72, dtype=np.float32).reshape(11, 72)
    np.testing.assert_array_equal(lk.emulate(knl, x=x).y, 2*x)


def test_swizzled_rows_have_128_bytes() -> None:
    with pytest.raises(lk.PreconditionError, match="multiple of 32 elements, and 't' has rows of 40") as caught:
        lk.tensorize(lk.make_kernel("{[i, k]: 0<=i<8 and 0<=k<40}", "<> t[i, k] = a[i, k]  {id=copy}", [
            lk.GlobalArg("a", np.float32, (8, 40))]), "copy", "tma.load.swizzle128")
    assert "a multiple of 32 elements" in (caught.value.hint or "")


def test_swizzled_boxes_have_two_axes() -> None:
    with pytest.raises(lk.PreconditionError, match=r"128 bytes needs rows .* and 'copy' copies fewer than two axes"):
        lk.tensorize(lk.make_kernel("{[k]: 0<=k<64}", "<> t[k] = a[k]  {id=copy}", [
            lk.GlobalArg("a", np.float32, (64,))]), "copy", "tma.load.swizzle128")
