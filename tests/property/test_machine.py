"""The simulated machine finds the faults that it is made for."""
from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.ast.nodes import Block, For, If, Node, Scope, Sync
from loopkit.instructions.vector_access import Vector, vectors_of, with_vector_access
from loopkit.lowering.lowered import Lowered
from tests.property.machine import MachineError, execute
from tests.vector_kernels import axpy_vec
from tests.verification.changed import changed

SIZES = {"n": 5, "m": 4, "l": 5}


def matmul() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", "c[i, j] = sum(k, a[i, k]*b[k, j])",
                         [lk.GlobalArg("a", np.dtype("int64")), lk.GlobalArg("b", np.dtype("int64")), "..."],
                         assumptions="n>=1 and m>=1 and l>=1")
    knl = lk.split_iname(knl, "i", 2, outer_tag="g.1", inner_tag="l.1")
    knl = lk.split_iname(knl, "j", 2, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_iname(knl, "k", 2)
    knl = lk.add_prefetch(knl, "a", ["i_inner", "k_inner"])
    return lk.add_prefetch(knl, "b", ["k_inner", "j_inner"])


def run(lowered: Lowered, warp: int = 32) -> tuple[np.ndarray, np.ndarray]:
    """What the machine computes, and what numpy does."""
    rng = np.random.default_rng(0)
    arrays = {"a": rng.integers(-5, 5, (5, 5)), "b": rng.integers(-5, 5, (5, 4)), "c": np.zeros((5, 4), np.int64)}
    return execute(lowered, arrays, SIZES, random.Random(0), warp=warp)["c"], arrays["a"] @ arrays["b"]


def lowered_matmul(f: Callable[[Sync], list[Node]] = lambda barrier: [barrier]) -> Lowered:
    """The tiled matrix product, each barrier of its program replaced by what *f* gives."""
    result = lk.lower(matmul())
    return changed(result, lambda node: Block(tuple(f(node))) if isinstance(node, Sync) else node)


def test_a_right_program_runs() -> None:
    got, expected = run(lowered_matmul())
    assert (got == expected).all()


def test_a_missing_barrier_is_seen() -> None:
    with pytest.raises(MachineError, match=r"race|nobody wrote"):
        run(lowered_matmul(lambda barrier: []))


def test_a_barrier_of_warps_orders_no_other_warps() -> None:
    run(lowered_matmul(lambda barrier: [replace(barrier, scope=Scope.WARP)]), warp=4)
    with pytest.raises(MachineError, match=r"race|nobody wrote"):
        run(lowered_matmul(lambda barrier: [replace(barrier, scope=Scope.WARP)]), warp=2)


def test_a_barrier_that_some_threads_do_not_meet() -> None:
    lone = p.Comparison(p.Variable("l.0"), "==", 0)
    with pytest.raises(MachineError, match="meet"):
        run(lowered_matmul(lambda barrier: [barrier, If(lone, Block((barrier,)))]))


def copied(use: str) -> Lowered:
    """A value that nobody wrote is copied within the kernel, and then used as *use* says."""
    data = [lk.TemporaryVariable("u", np.float64, (2,)), *(lk.GlobalArg(a, np.float64) for a in "yz"), "..."]
    result = lk.lower(lk.make_kernel([], f"u[0] = 1 {{if=y[0] > 5}}\n<> t = u[0]\n{use}", data))
    return result


@pytest.mark.parametrize("use", [
    "z[0] = t", "z[0] = t + 1", "z[0] = max(t, y[0])", "z[0] = 1 {if=t > 0}", "u[1] = 2*t\nz[0] = u[1]"])
def test_what_nobody_wrote_may_be_copied_but_not_used(use: str) -> None:
    arrays = {"y": np.zeros(1), "z": np.zeros(1)}
    execute(copied("u[1] = t\nz[0] = 1"), arrays, {}, random.Random(0))
    with pytest.raises(MachineError, match=r"nobody wrote|did not write"):
        execute(copied(use), arrays, {}, random.Random(0))


def with_vectors(change: Callable[[Vector], Vector]) -> Lowered:
    """``y = 3*x + y`` in vectors of four, which *change* may spoil."""
    result = lk.lower(axpy_vec())
    return changed(result, lambda node: with_vector_access(node, tuple(map(change, vectors_of(node))))
                   if isinstance(node, For) else node)


def shifted(v: Vector) -> Vector:
    return replace(v, element=p.Subscript(v.element.aggregate, (p.Sum((v.element.index_tuple[0], 1)),)))


@pytest.mark.parametrize("n", [128, 131])
def test_vectors_run_as_the_text_moves_them(n: int) -> None:
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    arrays, sizes = {"x": x, "y": y}, {"n": n, "a": 3}
    right = execute(with_vectors(lambda v: v), arrays, sizes, random.Random(0))["y"]
    np.testing.assert_array_equal(right, 3*x + 1)
    lost = execute(with_vectors(lambda v: replace(v, stored=False)), arrays, sizes, random.Random(0))["y"]
    assert (lost != right).any()
    with pytest.raises(MachineError, match="is not aligned"):
        execute(with_vectors(shifted), arrays, sizes, random.Random(0))


def test_a_block_hides_names_for_itself_only() -> None:
    """Behind it they are what they were; such texts are rare, and right."""
    knl = lk.make_kernel("{[i, j, k]: 0<=i<5 and 0<=j<2 and 0<=k<n}", "y[i, j] = sum(k, x[i + k]*z[k])",
                         [lk.GlobalArg("x,y,z", np.dtype("int64")), "..."])
    knl = lk.split_iname(lk.split_iname(lk.unroll(knl, "j"), "k", 2, inner_tag="unr"), "i", 3, inner_tag="l.0")
    knl = lk.prioritize_loops(knl, "k_outer, k_inner, i_outer, j")
    lowered = lk.lower(lk.add_prefetch(knl, "z", "i_inner", default_tag="unr"))
    assert str(lowered).count("let i_outer = 0") < str(lowered).count("let i_outer = 1")
    arrays = {"x": np.arange(9), "z": np.ones(4, np.int64), "y": np.zeros((5, 2), np.int64)}
    wanted = [[sum(range(i, i + 4))]*2 for i in range(5)]
    assert execute(lowered, arrays, {"n": 4}, random.Random(0))["y"].tolist() == wanted
