"""The text of a call: with vector accesses, or without them if an address, a stride or a size does not permit them."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.runtime.views import ArrayView
from tests.runtime.cuda.conftest import Lab
from tests.runtime.cuda.work import KINDS, F, make, read
from tests.vector_kernels import axpy_vec


def rows_vec() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i, j] = 2*x[i, j]", name="rows")
    knl = lk.add_dtypes(knl, {"x": F})
    knl = lk.tag_inames(lk.split_iname(knl, "j", 4, inner_tag="vec"), {"i": "g.1"})
    return lk.split_iname(knl, "j_outer", 8, outer_tag="g.0", inner_tag="l.0")


def texts(lab: Lab) -> list[bool]:
    """Of the texts that were compiled so far, in order: have they vector accesses?"""
    return [layout.vectors for layout in lab.codes.compiled]


@pytest.mark.deep(every=7)
@pytest.mark.parametrize("kind", KINDS)
def test_aligned_arrays_take_vectors(lab: Lab, kind: str) -> None:
    compiled = lk.compile(axpy_vec(), target="cuda")
    x, y = np.arange(300, dtype=F), np.ones(300, F)
    for n in (300, 7, 256):
        ours = make(lab, kind, y[:n])
        compiled(x=make(lab, kind, x[:n]), y=ours, a=3)
        np.testing.assert_array_equal(read(lab, ours), 3*x[:n] + 1)
    assert texts(lab) == [True]


@pytest.mark.deep(every=7)
@pytest.mark.parametrize("start", [1, 2, 3, 4])
@pytest.mark.parametrize("which", ["x", "y"])
def test_an_address_decides_for_each_call(lab: Lab, start: int, which: str) -> None:
    """Calls that differ in an address alone: what is remembered of one decides about no other."""
    compiled = lk.compile(axpy_vec(), target="cuda")
    whole = {name: make(lab, "torch", np.arange(304, dtype=F)) for name in "xy"}
    before = {name: read(lab, x).copy() for name, x in whole.items()}
    expected = before["y"].copy()
    for at in (0, start, 0, start):
        places = {name: at if name == which else 0 for name in "xy"}
        given = {name: whole[name][places[name]:places[name] + 300] for name in "xy"}
        mine, theirs = (slice(places[name], places[name] + 300) for name in "yx")
        compiled(**given, a=1)
        expected[mine] += before["x"][theirs]
        np.testing.assert_array_equal(read(lab, whole["y"]), expected)
    assert texts(lab) == ([True] if start == 4 else [True, False])


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("start", [0, 1])
def test_a_call_with_fixed_arguments(lab: Lab, start: int) -> None:
    compiled = lk.compile(axpy_vec(), target="cuda")
    x, y = (make(lab, "torch", np.ones(304, F)) for _ in range(2))
    bound = compiled.bind(x=x[start:300 + start], y=y[:300], a=2)
    for k in range(1, 4):
        bound()
        np.testing.assert_array_equal(read(lab, y)[:300], 2*k + 1)
    assert texts(lab)[-1] is (start == 0)


def test_rows_of_any_length(lab: Lab) -> None:
    """A row length that is no multiple of the vector's runs the plain text; it is looked at once for a shape."""
    compiled = lk.compile(rows_vec(), target="cuda")
    for n, m, vectors in ((5, 64, True), (5, 66, False), (5, 65, False), (1, 65, True), (3, 4, True), (3, 64, True)):
        x, y = np.arange(n*m, dtype=F).reshape(n, m), make(lab, "torch", np.zeros((n, m), F))
        compiled(x=make(lab, "torch", x), y=y)
        np.testing.assert_array_equal(read(lab, y), 2*x)
        assert chosen(compiled, (n, m), y) is vectors


def chosen(compiled: lk.CompiledKernel, shape: tuple[int, int], y: Any) -> bool:
    """Does a call with arrays in C order of *shape* take the text with vectors?"""
    typed = compiled._runner.kernels.of({"x": y, "y": y})
    bound = typed.plan.bind(dict.fromkeys("xy", ArrayView.packed(shape, np.dtype(F))))
    return typed.fitting(lk.CudaTarget("sm_90"), bound).code.layout.vectors


@pytest.mark.deep(every=3)
@pytest.mark.parametrize(("width", "vectors"), [(64, True), (68, True), (67, False)])
def test_rows_in_a_wider_array(lab: Lab, width: int, vectors: bool) -> None:
    """Strides are parameters of that text; its rows may be aligned all the same."""
    compiled = lk.compile(rows_vec(), target="cuda")
    x = np.arange(5*width, dtype=F).reshape(5, width)
    y = make(lab, "torch", np.zeros((5, width), F))
    compiled(x=make(lab, "torch", x)[:, :60], y=y[:, :60])
    np.testing.assert_array_equal(read(lab, y)[:, :60], 2*x[:, :60])
    assert texts(lab) == [vectors]


def test_other_steps_along_a_row(lab: Lab) -> None:
    compiled = lk.compile(rows_vec(), target="cuda")
    x = np.arange(5*64, dtype=F).reshape(5, 64)
    y = make(lab, "torch", np.zeros((5, 64), F))
    compiled(x=make(lab, "torch", x)[:, ::2], y=y[:, ::2])
    np.testing.assert_array_equal(read(lab, y)[:, ::2], 2*x[:, ::2])
    assert texts(lab) == [False]


def test_arrays_of_the_host_are_copied_to_aligned_places(lab: Lab) -> None:
    compiled = lk.compile(axpy_vec(), target="cuda")
    x, y = np.arange(304, dtype=F), np.ones(304, F)
    compiled(x=x[1:301], y=y[3:303], a=2)
    np.testing.assert_array_equal(y[3:303], 2*x[1:301] + 1)
    assert texts(lab) == [True]


def test_what_is_timed_is_what_runs(lab: Lab) -> None:
    """Copies of arrays lie no better than the arrays."""
    compiled = lk.compile(axpy_vec(), target="cuda")
    x, y = (make(lab, "torch", np.ones(304, F)) for _ in range(2))
    compiled.time(x=x[:300], y=y[:300], a=2, duration=1e-3)
    assert texts(lab) == [True]
    compiled.time(x=x[:300], y=y[1:301], a=2, duration=1e-3)
    assert texts(lab) == [True, False]


def test_an_offset_that_is_no_multiple(lab: Lab) -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i + k]", name="shifted", assumptions="k>=0")
    knl = lk.split_iname(lk.add_dtypes(knl, {"x": F}), "i", 4, inner_tag="vec")
    compiled = lk.compile(lk.split_iname(knl, "i_outer", 8, outer_tag="g.0", inner_tag="l.0"), target="cuda")
    x = np.arange(100, dtype=F)
    for k, seen in ((8, [True]), (3, [True, False]), (4, [True, False])):
        y = make(lab, "torch", np.zeros(64, F))
        compiled(x=make(lab, "torch", x), y=y, k=k, n=64)
        np.testing.assert_array_equal(read(lab, y), x[k:k + 64])
        assert texts(lab) == seen
