"""add_padding: results stay as they are, the text has longer rows, and what cannot be padded is refused."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopkit as lk
from tests.transform.same import assert_same, step

F32 = np.float32


def transposed(dtype: Any = F32) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "b[j, i] = a[i, j]", name="transpose")
    knl = lk.add_dtypes(knl, {"a": dtype})
    knl = lk.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.0")
    knl = lk.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.1")
    return lk.add_prefetch(knl, "a", ["i_inner", "j_inner"])


def cube() -> lk.LoopKernel:
    knl = lk.make_kernel("{[b, i, j, k]: 0<=b<n and 0<=i<4 and 0<=j<6 and 0<=k<8}",
                         "y[b, k, j, i] = x[b, i, j, k] + x[b, 3-i, 5-j, 7-k]", name="cube")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x": F32}), {"b": "g.0", "k": "l.0", "j": "l.1"})
    return lk.add_prefetch(knl, "x", ["i", "j", "k"])


def registers() -> lk.LoopKernel:
    knl = lk.make_kernel("{[b, i, j]: 0<=b<n and 0<=i,j<4}", """
        for b
            for i, j
                <> t[i, j] = x[b, i, j]
            end
            for i, j
                y[b, i, j] = t[j, i]
            end
        end
        """)
    return lk.tag_inames(lk.add_dtypes(knl, {"x": F32}), {"b": "g.0"})


@pytest.mark.deep
@pytest.mark.parametrize("by", [1, 3, 16])
def test_results_stay(by: int) -> None:
    knl = step(transposed(), lk.add_padding, "a_fetch", 0, by=by)
    assert_same(transposed(), knl, n=37, m=21)
    assert f"__shared__ float a_fetch[16][{16 + by}];" in lk.generate_code(knl, target="cuda").source
    assert lk.verify(knl).proven


@pytest.mark.deep
@pytest.mark.parametrize(("axis", "shape"), [(0, (4, 8, 8)), (1, (4, 6, 10)), (-2, (4, 6, 10)), (-3, (4, 8, 8))])
def test_the_axis_behind_becomes_longer(axis: int, shape: tuple[int, ...]) -> None:
    knl = step(cube(), lk.add_padding, "x_fetch", axis, by=2)
    assert knl.temporaries["x_fetch"].shape == shape
    assert_same(cube(), knl, n=3)


@pytest.mark.deep
@pytest.mark.parametrize(("dtype", "align", "row"), [(F32, 64, 16), (F32, 128, 32), (F32, 96, 24),
                                                     (np.float64, 96, 24)])
def test_steps_become_multiples(dtype: Any, align: int, row: int) -> None:
    knl = step(transposed(dtype), lk.add_padding, "a_fetch", 0, align)
    assert knl.temporaries["a_fetch"].shape == (16, row)
    assert_same(transposed(dtype), knl, n=20, m=17)


@pytest.mark.deep
def test_a_temporary_in_registers() -> None:
    plain = registers()
    knl = step(plain, lk.add_padding, "t", 0, by=1)
    assert str(lk.lower(knl, stop="storage")) == "private float32 t[4][5]"
    assert_same(plain, knl, n=3)


def test_padding_a_second_time_adds_to_the_first() -> None:
    knl = lk.add_padding(lk.add_padding(transposed(), "a_fetch", 0, by=1), "a_fetch", 0, by=2)
    assert knl.temporaries["a_fetch"].shape == (16, 19)
    assert lk.add_padding(knl, "a_fetch", 0, 32).temporaries["a_fetch"].shape == (16, 24)


# What is refused

def test_an_argument_or_nothing() -> None:
    for name in ("a", "nothing"):
        with pytest.raises(lk.UnknownNameError, match=name):
            lk.add_padding(transposed(), name, 0, by=1)


@pytest.mark.parametrize("axis", [2, -3])
def test_an_axis_that_is_none(axis: Any) -> None:
    with pytest.raises(lk.PreconditionError, match="has 2 axes, but no axis"):
        lk.add_padding(transposed(), "a_fetch", axis, by=1)


@pytest.mark.parametrize("axis", [1, -1])
def test_the_last_axis(axis: int) -> None:
    with pytest.raises(lk.PreconditionError, match="is its last"):
        lk.add_padding(transposed(), "a_fetch", axis, by=1)


@pytest.mark.parametrize("amounts", [{}, {"align_bytes": 64, "by": 1}])
def test_one_amount(amounts: dict[str, int]) -> None:
    with pytest.raises(lk.PreconditionError, match="one of align_bytes= and by="):
        lk.add_padding(transposed(), "a_fetch", 0, **amounts)


@pytest.mark.parametrize("amount", [0, -1])
def test_an_amount_that_is_none(amount: Any) -> None:
    for name in ("by", "align_bytes"):
        with pytest.raises(lk.PreconditionError, match=f"{name} must be a positive integer"):
            lk.add_padding(transposed(), "a_fetch", 0, **{name: amount})


def test_bytes_that_are_no_multiple_of_an_element() -> None:
    with pytest.raises(lk.PreconditionError, match=r"align_bytes=6 is not a multiple of 4, (?s:.*)hint: align_bytes=8"):
        lk.add_padding(transposed(), "a_fetch", 0, 6)
    with pytest.raises(lk.PreconditionError, match="align_bytes=48 is not a multiple of 32"):
        lk.add_padding(cube(), "x_fetch", 0, 48)


def test_bytes_of_an_unknown_dtype() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i,j<4}", "for i,j\n<> t[i, j] = x[i, j]\nend\nfor i,j\ny[i, j] = t[j, i]\nend")
    with pytest.raises(lk.PreconditionError, match="dtype of 't' is unknown"):
        lk.add_padding(knl, "t", 0, 64)
    assert lk.add_padding(knl, "t", 0, by=1).temporaries["t"].shape == (4, 5)


def test_a_shape_that_depends_on_sizes() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i,j<n}", "for i,j\n<> t[i, j] = x[i, j]\nend\nfor i,j\ny[i, j] = t[j, i]\nend")
    with pytest.raises(lk.PreconditionError, match="is not constant"):
        lk.add_padding(knl, "t", 0, by=1)


def test_a_scalar() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "<> t = x[i]\ny[i] = t")
    with pytest.raises(lk.PreconditionError, match="has 0 axes"):
        lk.add_padding(knl, "t", 0, by=1)


def test_what_was_declared_is_kept() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i,j<4}", "t[i, j] = x[i, j] {id=w}\ny[i, j] = t[i, j]",
                         [lk.TemporaryVariable("t", F32, (4, 4), lk.AddressSpace.PRIVATE), "..."])
    with pytest.raises(lk.StorageError, match="were declared"):
        lk.add_padding(knl, "t", 0, by=1)
