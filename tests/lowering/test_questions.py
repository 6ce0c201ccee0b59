"""Computations of isl that grow with a pipeline's depth have a form in which they stay small."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis import dependences
from loopkit.analysis.constructors import specialized
from loopkit.analysis.shapes import array_shapes
from loopkit.expr.evaluate import evaluate
from loopkit.kernel.data import GlobalArg
from loopkit.poly import limits

#: Operations of isl for one step, or all of lowering and one text: a second on a quiet core as a rule.
FEW = 2_000_000

Build = Callable[[], lk.LoopKernel]


def _typed(domains: str, instructions: str, assumptions: str = "n>=1 and m>=1") -> lk.LoopKernel:
    knl = lk.make_kernel(domains, instructions, assumptions=assumptions)
    return lk.add_dtypes(knl, dict.fromkeys(knl.array_args, np.float64))


def _chunks_filled() -> lk.LoopKernel:
    knl = _typed("{[i]: 0<=i<n}", "<> t = x[i]\ny[i] = t", "n>=1")
    return lk.pad_domain(lk.split_iname(lk.chunk_iname(knl, "i", 5), "i_inner", 8), {"i_inner_outer": 4})


def _last_row_filled() -> lk.LoopKernel:
    knl = lk.peel(_typed("{[i,j]: 0<=i<n and 0<=j<=i}", "y[i] = sum(j, x[j]*w[i-j])", "n>=1"), "i", 0, 1)
    return lk.pad_domain(lk.chunk_iname(lk.split_iname(knl, "j", 4), "j_outer", 5), {"i_last": 4})


def _triangle() -> lk.LoopKernel:
    return _typed("{[i,j,k]: 0<=i<n and i<=j<n and 0<=k<m}",
                  "c[i,j] = c[i,j] + a[i,k]*a[j,k] {id=up}\nc[j,i] = c[i,j] {id=mirror,if=j>i}")


def _triangular() -> lk.LoopKernel:
    return lk.tile(lk.split_iname(_triangle(), "j", 3), {"j_outer": 4, "i": 8})


def _strided_union() -> lk.LoopKernel:
    return _typed("{[i,j]: (0<=i<n or 2*n<=i<2*n+m) and 0<=j<m and (i+2*j) mod 3 = 1}", "y[i,j] = x[i]*j + y[i,j]")


def _union_tiled() -> lk.LoopKernel:
    return lk.unroll_and_jam(lk.peel(lk.tile(_strided_union(), {"j": 5, "i": 8}), "j_outer", 1, 1), "i_inner", 3)


def _union_split() -> lk.LoopKernel:
    return lk.peel(lk.split_iname(_strided_union(), "i", 16), "i_outer", 1, 1)


def _guarded_stencil() -> lk.LoopKernel:
    knl = _typed("{[i,j]: 1<=i<n-1 and 1<=j<m-1}",
                 "b[i,j] = a[i,j] + a[i-1,j] + a[i+1,j] + a[i,j-1] + a[i,j+1] {if=i+j<n+m-4}")
    knl = lk.split_iname(knl, "j", 5, outer_tag="g.1", inner_tag="l.1")
    knl = lk.split_iname(lk.split_iname(knl, "i", 4, inner_tag="unr"), "i_outer", 8)
    knl = lk.add_prefetch(lk.unroll_and_jam(knl, "i_outer_outer", 2), "a", ["i_outer_inner", "i_outer_outer_inner"],
                          allow_reordering=True)
    return lk.split_iname(knl, "i_outer_inner", 4)


def _union_on_two_axes() -> lk.LoopKernel:
    knl = lk.split_iname(lk.skew(_strided_union(), "j", by={"i": 1}), "i", 3, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_iname(knl, "j", 16, outer_tag="g.1", inner_tag="l.1")
    return lk.interchange(lk.add_prefetch(knl, "x", ["j_inner"], default_tag="l.auto"), "i_outer", "i_inner")


def _union_with_a_barrier() -> lk.LoopKernel:
    knl = lk.split_iname(lk.tile(_strided_union(), {"i": 5, "j": 8}), "j_outer", 8, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_iname(knl, "i_inner", 4, inner_tag="unr")
    knl = lk.split_iname(knl, "i_inner_outer", 4, outer_tag="g.1", inner_tag="l.1")
    knl = lk.add_prefetch(knl, "x", ["i_inner_inner", "i_inner_outer_inner"], default_tag="l.auto")
    return lk.skew(lk.unroll_and_jam(knl, "i_outer", 4), "j_inner", by={"j_outer_outer": 2})


def _union_chunked() -> lk.LoopKernel:
    knl = lk.skew(lk.tile(lk.shift(_strided_union(), "j", 2), {"j": 8, "i": 8}), "i_outer", by={"j_outer": 2})
    return lk.reverse(lk.chunk_iname(knl, "j_inner", 5), "i_outer")


def _union_peeled() -> lk.LoopKernel:
    knl = lk.unroll_and_jam(lk.chunk_iname(_strided_union(), "i", 3), "j", 2)
    knl = lk.tile(lk.tile(knl, {"j_outer": 5, "i_outer": 2}), {"j_outer_outer": 2, "i_outer_outer": 3})
    return lk.peel(knl, "i_inner", 0, 1)


def _triangle_chunked() -> lk.LoopKernel:
    knl = lk.reverse(lk.distribute_loop(lk.tile(_triangle(), {"j": 4, "k": 16}), "j_outer", "mirror"), "i")
    knl = lk.chunk_iname(lk.peel(lk.unroll_and_jam(knl, "i", 4), "j_inner", 1, 1), "j_outer", 3)
    return lk.split_iname(lk.tile(knl, {"i_outer": 4, "j_inner_last": 5}), "k_inner", 2)


def _time_stencil() -> lk.LoopKernel:
    return _typed("{[t,i]: 0<=t<s and 1<=i<n-1}", "u[t+1,i] = u[t,i-1] + u[t,i] + u[t,i+1]", "n>=3 and s>=1")


def _time_chunked() -> lk.LoopKernel:
    knl = lk.join_inames(lk.split_iname(lk.skew(_time_stencil(), "i", by={"t": 2}), "i", 3), ["i_outer", "i_inner"])
    knl = lk.tile(lk.split_iname(knl, "t", 16, inner_tag="l.0"), {"t_outer": 4, "i_outer_i_inner": 8})
    return lk.chunk_iname(lk.tile(knl, {"t_outer_inner": 4, "i_outer_i_inner_inner": 2}), "t_outer_outer", 5)


BUILDS: tuple[Build, ...] = (_chunks_filled, _last_row_filled, _triangular, _union_tiled, _union_split,
                             _guarded_stencil, _union_on_two_axes, _union_with_a_barrier, _union_chunked,
                             _union_peeled, _triangle_chunked, _time_chunked)


@pytest.mark.deep
@pytest.mark.parametrize("build", BUILDS)
def test_deep_pipelines_ask_little(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BUDGET", FEW)
    knl = build()
    for target in ("cuda", "c"):
        lk.generate_code(knl, target=target)


@pytest.mark.deep(every=3)
@pytest.mark.parametrize(("start", "build"), [
    (_strided_union, _union_on_two_axes), (_strided_union, _union_with_a_barrier), (_strided_union, _union_chunked),
    (_strided_union, _union_peeled),
    (_triangle, _triangle_chunked), (_time_stencil, _time_chunked)])
def test_loops_and_axes_that_are_wider_than_need_be_run_the_same(start: Build, build: Build) -> None:
    knl = build()
    for sizes in ({"n": 7, "m": 5, "s": 4}, {"n": 4, "m": 1, "s": 1}):
        lk.check_equivalent(start(), knl, {x: v for x, v in sizes.items() if x in knl.value_params}, target="c")


@pytest.mark.deep
def test_what_must_be_passed_is_found_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependences, "affordable", lambda compute, **_: compute())
    assert dependences.needed_inputs(_time_chunked()) == {"u"}


@pytest.mark.deep(every=11)
@pytest.mark.parametrize("build", BUILDS)
def test_steps_keep_the_shapes_of_arguments(build: Build) -> None:
    """What the accesses of the transformed kernel need, where isl can still tell, is what the first kernel needed."""
    knl = build()
    kept = array_shapes(knl)
    anew = specialized(knl, arguments=tuple(replace(a, inferred=None) if isinstance(a, GlobalArg) else a
                                    for a in knl.arguments))
    fixed = lk.fix_parameters(anew, **{x: 23 for x in ("n", "m", "s") if x in knl.value_params})
    for name in knl.array_args:
        known = [evaluate(e, {"n": 23, "m": 23, "s": 23}) for e in kept[name] if e is not None]
        assert known == list(array_shapes(fixed)[name])


def test_assumptions_may_make_a_shape_simpler() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i, j] = x[i] + x[j]")
    assert str(array_shapes(knl)["x"][0]) != "n"
    assert str(array_shapes(lk.assume(knl, "n >= m and m >= 1"))["x"][0]) == "n"


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_fixed_kernel_needs_what_a_kernel_with_that_size_needs(n: int) -> None:
    text = "y[i] = x[i+2]"
    fixed = lk.fix_parameters(lk.make_kernel("{[i]: 0<=i<n}", text), n=n)
    again = lk.make_kernel(f"{{[i]: 0<=i<{n}}}", text)
    assert array_shapes(fixed) == array_shapes(again)
