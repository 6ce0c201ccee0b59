"""Engines of copies: one call makes what several steps make, in each layout, and refuses what an engine cannot do."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopkit as lk

F32 = np.dtype(np.float32)


def strips(dtype: Any = F32, length: int = 64, **engine: Any) -> lk.LoopKernel:
    """The sums of rows, from strips of so many columns in shared memory."""
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<l}", "s[i] = sum(k, a[i, k])", name="rowsum",
                         assumptions=f"n % 32 = 0 and l % {length} = 0 and n, l >= 1")
    knl = lk.split_iname(lk.add_dtypes(knl, {"a": dtype}), "i", 32, outer_tag="g.0", inner_tag="l.0")
    return lk.add_prefetch(lk.split_iname(knl, "k", length), "a", "i_inner, k_inner", temporary_name="tile",
                           dim_arg_names="r, c", **engine)


def doubled(**store: Any) -> lk.LoopKernel:
    """Twice a matrix, plus itself if *store* has further arguments, from tiles of 8 rows of 64 columns."""
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i, j] = 2*x[i, j]", name="doubled")
    knl = lk.split_iname(lk.add_dtypes(knl, {"x": F32}), "i", 8, outer_tag="g.1", inner_iname="i_box")
    knl = lk.split_iname(knl, "j", 64, outer_tag="g.0", inner_iname="j_box", inner_tag="l.0")
    return lk.store_via(knl, "y", "i_box, j_box", temporary_name="tile", **store) if store else knl


def same(one: lk.LoopKernel, other: lk.LoopKernel) -> bool:
    return one.statements_text == other.statements_text and str(lk.lower(one, stop="storage")) == str(
        lk.lower(other, stop="storage"))


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_a_load_by_tma_is_a_copy_and_its_instruction(swizzle: int) -> None:
    knl, name = strips(engine="tma", swizzle=swizzle), f"tma.load.swizzle{swizzle}" if swizzle else "tma.load"
    assert same(knl, lk.tensorize(strips(default_tag=None), "tile_rule", name))
    assert [step.name for step in knl.history][-1] == "add_prefetch"


def test_a_load_by_threads_is_a_copy_of_vectors() -> None:
    knl = lk.tag_inames(lk.split_iname(strips(default_tag=None), "c", 4, inner_tag="vec"), "r:l.auto, c_outer:l.auto")
    assert same(lk.pipeline(strips(engine="cp.async"), "k_outer", 3),
                lk.pipeline(knl, "k_outer", 3, asynchronous=True))
    assert strips(engine="register") == strips()


@pytest.mark.deep(every=12)
@pytest.mark.parametrize("swizzle", [128, 64, 32, 0])
@pytest.mark.parametrize("engine", ["cp.async", "register", "tma"])
def test_each_engine_and_layout(engine: str, swizzle: int) -> None:
    knl = lk.pipeline(strips(engine=engine, swizzle=swizzle), "k_outer", 2)
    assert lk.verify(knl, full=True).proven
    a = np.random.default_rng(0).integers(-9, 9, (32, 256)).astype(F32)
    np.testing.assert_array_equal(lk.emulate(knl, a=a, completion="last").s, a.sum(axis=1))


@pytest.mark.deep(every=2)
@pytest.mark.parametrize(("engine", "swizzle"), [("tma", 0), ("tma", 64), ("register", 128), ("register", 0)])
def test_stores(engine: str, swizzle: int) -> None:
    knl = doubled(engine=engine, swizzle=swizzle)
    own = lk.buffer_array(doubled(), "y", "i_box, j_box", temporary_name="tile", default_tag=None)
    if engine == "tma":
        assert same(knl, lk.tensorize(own, "store_y", f"tma.store.swizzle{swizzle}" if swizzle else "tma.store"))
        assert same(knl, lk.store_via(own, "tile", swizzle=swizzle))
    assert lk.verify(knl, full=True).proven
    x = np.random.default_rng(0).integers(-9, 9, (11, 68)).astype(F32)
    np.testing.assert_array_equal(lk.emulate(knl, x=x).y, 2*x)


def test_a_store_to_a_temporary_in_global_memory() -> None:
    knl = lk.make_kernel("{[i, j, p, q]: 0<=i,p<8 and 0<=j,q<32}", """
        whole[i, j] = 2*x[i, j]  {id=fill}
        y[p, q] = whole[7 - p, q]  {id=use}
        """, [lk.TemporaryVariable("whole", F32, (8, 32), lk.AddressSpace.GLOBAL), lk.GlobalArg("x,y", F32, (8, 32))])
    knl = lk.store_via(lk.tag_inames(knl, "j:l.0, q:l.0"), "whole", "i, j", within="fill", temporary_name="tile",
                       allow_launches=True)
    knl = lk.add_barrier(knl, "store_whole", "use")
    assert "{id=store_whole, by=tma.store}" in knl.statements_text
    x = np.arange(256, dtype=F32).reshape(8, 32)
    np.testing.assert_array_equal(lk.emulate(knl, x=x).y, 2*x[::-1])


def test_threads_load_what_a_tile_of_updates_holds() -> None:
    knl = lk.make_kernel("{[i, j, k]: 0<=i<8 and 0<=j<32 and 0<=k<m}", "y[i, j] = y[i, j] + x[i, j, k]", [
        lk.GlobalArg("y", F32, (8, 32)), lk.GlobalArg("x", F32, "8, 32, m"), "..."])
    knl = lk.store_via(lk.tag_inames(knl, "j:l.0"), "y", "i, j", temporary_name="tile")
    assert "y_init_0 [l.auto]" in knl.statements_text
    assert lk.verify(knl, full=True).proven
    x, y = np.arange(8*32*3, dtype=F32).reshape(8, 32, 3), np.ones((8, 32), F32)
    np.testing.assert_array_equal(lk.emulate(knl, x=x, y=y.copy(), m=3).y, y + x.sum(axis=2))


def no_copy() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j]: 0<=i<8 and 0<=j<32}", "f(r, c) := sin(x[r, c])\ny[i, j] = f(i, 31 - j)")
    return lk.precompute(lk.add_dtypes(knl, {"x": F32}), "f", "i, j", engine="tma")


@pytest.mark.parametrize(("make", "reason", "hint"), [
    (lambda: strips(engine="dma"), "'dma' is not an engine of loads", "did you mean 'tma'?"),
    (lambda: doubled(engine="cp.async"), "'cp.async' is not an engine of stores", "there are register, tma"),
    (lambda: strips(engine="tma", swizzle=48), "A swizzle has 32, 64 or 128 bytes, or 0 for none, and not 48",
     "swizzle=128 for rows with a multiple of 128 bytes"),
    (lambda: strips(length=24, engine="tma", swizzle=128), "a multiple of 32 elements, and 'tile' has rows of 24",
     "the last one with a multiple of 32 elements, or use a swizzle of 32 bytes"),
    (lambda: strips(length=24, swizzle=64), "a multiple of 16 elements, and 'tile' has rows of 24", "a swizzle of 32"),
    (lambda: strips(length=30, engine="tma"), "has 120 bytes, which is not a multiple of 16",
     "give its last axis a multiple of 4 elements, or let threads copy it"),
    (lambda: strips(np.float16, 31, engine="cp.async"), "elements of float16 have 2 bytes, and it has no vectors",
     "or copy it through registers"),
    (lambda: strips(engine="tma", default_tag="l.0"), "Copies by TMA, and those of swizzled rows, need loops without "
     "the tag 'l.0'", "leave default_tag out"),
    (lambda: strips(engine="tma", temporary_address_space="private"), "accesses 'tile' in private memory",
     "set_temporary_address_space(knl, 'tile', 'shared')"),
    (no_copy, "'f_0_rule' does not copy an element of an array to a temporary", "add_prefetch and precompute make"),
    (lambda: lk.store_via(strips(), "tile"), "No statement that store_via selects copies 'tile' to an array",
     "name the array and the inames that share a tile")])
def test_refused(make: Callable[[], lk.LoopKernel], reason: str, hint: str) -> None:
    with pytest.raises(lk.LoopkitError) as caught:
        make()
    assert reason in caught.value.message
    assert hint in (caught.value.hint or "")


def test_an_asynchronous_copy_beside_another_one() -> None:
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<l}", "s[i] = sum(k, a[i, k]*b[k])")
    knl = lk.split_iname(lk.add_dtypes(knl, {"a,b": F32}), "i", 32, outer_tag="g.0", inner_tag="l.0")
    knl = lk.add_prefetch(lk.split_iname(knl, "k", 32), "a", "i_inner, k_inner", engine="cp.async")
    knl = lk.add_prefetch(knl, "b", "k_inner")
    with pytest.raises(lk.PreconditionError, match="'a_fetch_rule' is asynchronous, and 'b_fetch_rule' is") as caught:
        lk.pipeline(knl, "k_outer", 2)
    assert "asynchronous=True" in (caught.value.hint or "")
    assert lk.pipeline(knl, "k_outer", 2, asynchronous=True).statements_text.count("async}") == 4
