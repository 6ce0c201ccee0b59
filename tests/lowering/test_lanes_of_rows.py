"""Statements with some of the inames on an axis of the block: each thread of a row has its copy of a value."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from loopkit.kernel.data import AddressSpace
from loopkit.lowering.pipeline import lowered_once
from loopkit.verification.validation import validate
from tests.nvrtc import compile_cuda

F32 = np.dtype(np.float32)


def rows_of_lanes(more: str = "", lanes: int = 4, rows: int = 8, result: str = "top + log(total)") -> lk.LoopKernel:
    """The logarithms of sums of exponentials, in one pass: *lanes* neighbouring threads have a row."""
    knl = lk.make_kernel(f"{{[i, j, t]: 0<=i<n and 0<=j<{4*lanes} and 0<=t<m}}", f"""
        for i
            <> top = -1.0e30f  {{id=first_top}}
            <> total = 0.0f  {{id=first_total}}
            for t
                <> s[j] = a[i, {4*lanes}*t + j]  {{id=s}}
                <> next = fmax(top, max(j, s[j]))  {{id=next}}
                total = total*exp(top - next) + sum(j, exp(s[j] - next))  {{id=total}}
                top = next  {{id=top}}
                {more}
            end
            y[i] = {result}  {{id=result}}
        end
        """, name="rows", assumptions="n, m >= 1")
    knl = lk.add_dtypes(knl, {"a": F32, "y": F32})
    knl = lk.split_iname(knl, "i", rows, outer_tag="g.0", inner_tag="l.0")
    return lk.split_levels(knl, "j", {"j_part": None, "j_lane": lanes, "j_item": 2},
                           tags={"j_part": "unr", "j_lane": "l.0", "j_item": "unr"})


@pytest.mark.deep(every=4)
@pytest.mark.parametrize(("lanes", "rows"), [(4, 8), (4, 32), (8, 4), (32, 2)])
def test_a_value_for_each_row(lanes: int, rows: int) -> None:
    knl = rows_of_lanes(lanes=lanes, rows=rows)
    assert lk.verify(knl, full=True).proven
    low = lowered_once(knl)
    assert validate(low) == ()
    assert {x: low.storages[x].space for x in ("top", "total", "next", "s")} == dict.fromkeys(
        ("top", "total", "next", "s"), AddressSpace.PRIVATE)
    assert low.storages["s"].shape == (2, 2)
    (launch,) = low.launches
    assert str(launch.mapping.coordinates["i_inner"]).replace(" ", "") in (f"l.0//{lanes}", f"FloorDiv(l.0,{lanes})")
    a = np.random.default_rng(0).standard_normal((13, 4*lanes*3)).astype(F32)
    wanted = np.log(np.exp(a.astype(float)).sum(axis=1))
    np.testing.assert_allclose(lk.compile(knl, "c")(a=a, m=3).y, wanted, rtol=1e-5)
    np.testing.assert_allclose(lk.emulate(knl, {"a": a, "m": 3}).y,
                               wanted, rtol=1e-5)


def test_one_thread_of_a_row_stores() -> None:
    source = lk.generate_code(rows_of_lanes(), target="cuda").source
    assert source.count("if (j_lane == 0") == 2                       # in full tiles, and in others
    compile_cuda(source)


def test_a_result_of_each_row() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<8 and 0<=j<4}", "z[i] = x[i]\ny[i, j] = 2*x[j]")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x": F32}), "i:l.0, j:l.0")
    assert lk.verify(knl, full=True).proven
    x = np.random.default_rng(0).standard_normal(8).astype(F32)
    found = lk.emulate(knl, x=x)
    np.testing.assert_array_equal(found.z, x)
    np.testing.assert_array_equal(found.y, np.tile(2*x[:4], (8, 1)))


def test_what_other_rows_read_has_one_copy() -> None:
    """The values of a row are for threads of another one too: one thread of the row stores them in shared memory."""
    knl = lk.make_kernel("{[b, i, j]: 0<=b<n and 0<=i<8 and 0<=j<4}", """
        for b
            for i
                <> u[i] = sum(j, a[b, i, j])  {id=u}
            end
            for i, j
                y[b, i, j] = u[7 - i] + a[b, i, j]  {id=y}
            end
        end
        """, assumptions="n >= 1")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"a": F32, "y": F32}), "b:g.0, i:l.0, j:l.0")
    low = lowered_once(knl)
    assert low.storages["u"].space is AddressSpace.LOCAL
    assert validate(low) == ()
    assert lk.verify(knl, full=True).proven
    assert "if (j == 0) {\n        // u" in lk.generate_code(knl, target="cuda").source
    a = np.random.default_rng(0).integers(-9, 9, (3, 8, 4)).astype(F32)
    np.testing.assert_array_equal(lk.emulate(knl, {"a": a}).y, a.sum(axis=2)[:, ::-1, None] + a)


def test_rows_of_other_lanes() -> None:
    """Inames of rows that lie elsewhere in other statements have no place."""
    knl = rows_of_lanes()
    knl = lk.untag_inames(knl, "j_lane")
    knl = lk.tag_inames(lk.split_iname(knl, "j_lane", 2, inner_tag="l.0"), "j_lane_outer:unr")
    (launch,) = lowered_once(knl).launches
    assert launch.mapping.extents["l.0"] == 16


#: Statements around threads ``l`` of a row, whose values those of the row alone depend on.
SHARED_ROWS = {
    "an atomic sum": """
        <> c = u[b, r]
        for l
            c = c + x[b, r, l]  {atomic}
        end
        y[b, r] = c""",
    "the write of one thread": """
        <> t = u[b, r]  {id=A}
        for l
            t = x[b, r, l]  {id=B, if=l == 3 and x[b, r, 3] > 0}
            z[b, r, l] = x[b, r, l]
        end
        y[b, r] = t""",
    "a value of what one thread writes": """
        <> t = u[b, r]
        for l
            t = x[b, r, l]  {if=l == 3 and x[b, r, 3] > 0}
        end
        <> v = 2*t
        for l
            z[b, r, l] = v*x[b, r, l]
        end
        y[b, r] = v""",
    "elements of several threads": """
        <> T[0] = u[b, r]
        for l
            T[l + 1] = x[b, r, l]
        end
        y[b, r] = T[4] + T[0]""",
    "elements that a loop reads": """
        <> T[0] = u[b, r]
        for l
            T[l + 1] = x[b, r, l]
        end
        y[b, r] = sum(k, T[k])"""}


@pytest.mark.parametrize("name", SHARED_ROWS)
def test_what_threads_of_a_row_write_for_others(name: str) -> None:
    """A thread with a copy of its own would miss what the others write."""
    domains = ["{[b, r, l]: 0<=b<n and 0<=r<8 and 0<=l<4}", *(["{[k]: 0<=k<5}"]*("sum(k" in SHARED_ROWS[name]))]
    plain = lk.make_kernel(domains,
                           f"for b, r\n{SHARED_ROWS[name]}\nend", assumptions="n >= 1")
    plain = lk.add_dtypes(plain, dict.fromkeys(plain.array_args, F32) | {x: F32 for x in ("c", "t", "T", "v")
                                                                       if x in plain.temporaries})
    rng = np.random.default_rng(0)
    given = {x: rng.integers(-9, 9, shape).astype(F32) for x, shape in (("u", (3, 8)), ("x", (3, 8, 4)))}
    wanted = lk.compile(plain, "c")(**given).asdict()
    knl = lk.tag_inames(plain, "b:g.0, r:l.0, l:l.0")
    assert validate(lowered_once(knl)) == ()
    assert lk.verify(knl, full=True).proven
    for order in ("forward", "backward"):
        found = lk.emulate(knl, given, order=order, lockstep=1).asdict()
        for x, value in wanted.items():
            np.testing.assert_array_equal(found[x], value)
