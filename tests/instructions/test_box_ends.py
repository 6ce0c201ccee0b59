"""Boxes that end at a row read from memory: TMA copies zeros behind it, and stores nothing there."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from loopkit.ast.tensor_maps import TensorMap
from tests.deep import shared

#: First rows of boxes of 32 rows, and their ends: full boxes, partial ones, one row, none, and up to the last row.
FIRST, STOP = (0, 5, 45, 50, 90, 64), (64, 20, 46, 50, 60, 100)


def _copy(load: str, store: str, condition: str = "", shape: str = "n, 32") -> lk.LoopKernel:
    knl = lk.make_kernel("{[g, i, k, y, x]: 0<=g<groups and 0<=i,y<32 and 0<=k,x<32}", f"""
        for g
            <> top = first[g]
            <> bottom = stop[g]
            for i, k
                <> tile[i, k] = {load}  {{id=load}}
            end
            for y, x
                {store} = tile[y, x]  {{id=store{condition}}}
            end
        end
        """, [lk.GlobalArg("a", np.float32, shape), lk.GlobalArg("first, stop", np.int32, "groups"),
              *([lk.GlobalArg("c", np.float32, "n, 32")] if "top" in store else []), "..."], name="copy",
        assumptions="groups >= 1 and n >= 32")
    return lk.tag_inames(knl, "g:g.0", assume="boxes have rows of their own")


@shared
def _loaded() -> lk.LoopKernel:
    knl = _copy("a[top + i, k] if top + i < bottom else 0", "c[g, y, x]")
    return lk.tensorize(lk.tag_inames(knl, "x:l.0"), "load", "tma.load")


@shared
def _stored() -> lk.LoopKernel:
    knl = _copy("a[i, k]", "c[top + y, x]", ", if=top + y < bottom")
    return lk.tensorize(lk.tag_inames(knl, "k:l.0"), "store", "tma.store")


def _ends(*which: int) -> dict[str, np.ndarray]:
    return {name: np.array([values[k] for k in which], np.int32) for name, values in (("first", FIRST), ("stop", STOP))}


def test_rows_behind_the_end_are_loaded_as_zeros() -> None:
    found = lk.verify(_loaded(), full=True)
    assert {x.name for x in found.checks if x.verdict is not lk.Verdict.PROVEN} == {"bounds"}, found
    a = np.random.default_rng(0).integers(1, 4, (100, 32)).astype(np.float32)
    for k, (top, end) in enumerate(zip(FIRST, STOP, strict=True)):
        rows, behind = min(max(end - top, 0), 32), a.copy()
        behind[end:] = np.nan
        got = lk.emulate(_loaded(), {"a": behind, **_ends(k)}).c[0]
        np.testing.assert_array_equal(got[:rows], a[top:top + rows])
        assert not got[rows:].any(), (top, end)


def test_rows_behind_the_end_are_not_stored() -> None:
    found = lk.verify(_stored(), full=True)
    assert {x.name: x.verdict for x in found.checks if x.verdict is not lk.Verdict.PROVEN} == {
        "order": lk.Verdict.ASSUMED, "races": lk.Verdict.ASSUMED, "bounds": lk.Verdict.UNDECIDED}, found
    a = np.random.default_rng(0).integers(1, 4, (100, 32)).astype(np.float32)
    expected = np.full((100, 32), 7, np.float32)
    for top, end in zip(FIRST[1:], STOP[1:], strict=True):
        rows = min(max(end - top, 0), 32)
        expected[top:top + rows] = a[:rows]
    for completion in ("last", "first"):
        c = np.full((100, 32), 7, np.float32)
        lk.emulate(_stored(), {"a": a, "c": c, **_ends(*range(1, 6))}, completion=completion)
        np.testing.assert_array_equal(c, expected)


def test_the_text_gives_an_end_as_a_coordinate() -> None:
    code = lk.generate_code(_loaded(), target="cuda")
    assert "load_box_3d(&tile[0][0], a_map_32x32_to_end, 4096, &tile_full[0], min(bottom, top + 32)," in str(code)
    assert "of a[n][32], each up to an end of its own along axis 0" in str(code)
    assert "a_map_32x32_to_end_extents[] = {cuuint64_t(32), cuuint64_t(32), cuuint64_t(n + 1)};" in code.host
    assert "const_cast<float *>(a - 32*32)" in code.host


def test_rows_at_equal_distances() -> None:
    knl = _copy("a[top + 2*i, k] if top + 2*i < bottom else 0", "c[g, y, x]")
    knl = lk.tensorize(lk.tag_inames(knl, "x:l.0"), "load", "tma.load")
    assert lk.verify(knl, full=True).checks[-1].verdict is lk.Verdict.PROVEN
    a = np.random.default_rng(0).integers(1, 4, (100, 32)).astype(np.float32)
    got = lk.emulate(knl, {"a": a, **_ends(0, 1)}).c
    np.testing.assert_array_equal(got[0], a[0:64:2])
    np.testing.assert_array_equal(got[1], np.pad(a[5:20:2], ((0, 24), (0, 0))))
    code = lk.generate_code(knl, target="cuda")
    assert "min(bottom, top + 64), top - min(bottom, top + 64) + 64, 0);" in " ".join(str(code).split())
    for part in ("extents[] = {cuuint64_t(32), cuuint64_t(64), cuuint64_t(n + 1)}", "box[] = {32, 64, 1}",
                 "steps[] = {1, 2, 1}", "const_cast<float *>(a - 64*32)"):
        assert part in " ".join(code.host.split())


def test_elements_before_the_array_are_refused() -> None:
    """TMA would copy what lies before the array in place of zeros."""
    knl = _copy("a[top + i - 3, k] if 0 <= top + i - 3 and top + i - 3 < bottom else 0", "c[g, y, x]")
    with pytest.raises(lk.PreconditionError, match="begin before element 0 of axis 0 of 'a'"):
        lk.generate_code(lk.tensorize(lk.tag_inames(knl, "x:l.0"), "load", "tma.load"), target="cuda")


@pytest.mark.parametrize(("condition", "shape"), [
    ("top + 2*i < bottom", "n, 32"), ("top + i < bottom and k < first[0]", "n, 32"), ("top + i > bottom", "n, 32"),
    ("k < bottom", "n, 32"), ("a[top + i, k] > 0", "n, 32")])
def test_other_elements_are_refused(condition: str, shape: str) -> None:
    knl = _copy(f"a[top + i, k] if {condition} else 0", "c[g, y, x]", shape=shape)
    with pytest.raises(lk.LoopkitError) as error:
        lk.generate_code(lk.tensorize(lk.tag_inames(knl, "x:l.0"), "load", "tma.load"), target="cuda")
    assert any(x in str(error.value) for x in ("it stores 0 for some elements of 'a'", "is not known"))


def test_axes_of_a_map_with_ends() -> None:
    ends = TensorMap("a_map", "a", (1, 32, 64), open_axis=1)
    assert ends.axes(["g", "i", "k"], "end", "rest") == ["g", "end", "rest", "k"]
    assert TensorMap("a_map", "a", (1, 32, 64)).axes(["g", "i", "k"], "end", "rest") == ["g", "i", "k"]
