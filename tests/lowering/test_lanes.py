"""Partial vectors: loaded whole if that is harmless, stored element by element."""
from __future__ import annotations

import random
import re
from dataclasses import replace
from math import gcd

import numpy as np
import pytest

import loopkit as lk
from loopkit.ast.nodes import For
from loopkit.ast.walk import nodes_in
from loopkit.instructions.vector_access import VectorAccess, vectors_of
from loopkit.runtime.typed import serves
from loopkit.runtime.views import ArrayView
from loopkit.target.code import Layout
from loopkit.verification.validation import findings
from tests.property.machine import execute
from tests.transform.kernels import F32
from tests.vector_kernels import anywhere, neighbours_anywhere
from tests.verification.changed import changed

LOADED = "const float4 *>(&a["


def along_rows(first: int, behind: int, offsets: list[int], length: int = 4, text: str = "") -> lk.LoopKernel:
    """Rows from *first* to *behind* before their end, of ``a`` at *offsets* from there; ``a`` has whole rows."""
    text = text or "out[i, j] = " + " + ".join(f"{k + 2}*a[i, j + {o}]" for k, o in enumerate(offsets))
    knl = lk.make_kernel(f"{{[i, j]: 0<=i<n and {first}<=j<m-{behind}}}", text, [
        lk.GlobalArg("a", F32, ("n", "m")), lk.GlobalArg("out", F32, ("n", "m")), "..."], name="along_rows")
    knl = lk.split_iname(knl, "j", length, inner_tag="vec")
    knl = lk.split_iname(knl, "j_outer", 3, outer_tag="g.0", inner_tag="l.0")
    return lk.split_iname(knl, "i", 2, outer_tag="g.1", inner_tag="unr")


@pytest.mark.parametrize("seed", range(8))
def test_what_runs_is_the_kernel(seed: int) -> None:
    """Loads that leave an array, lanes that nobody computed and stores of too many lanes would all be seen."""
    r = random.Random(seed)
    first, behind = r.randrange(7), r.randrange(1, 7)
    offsets = [0, *r.sample(range(-first, behind + 1), r.randrange(first + behind + 1))]
    low = lk.lower(along_rows(first, behind, offsets, r.choice([2, 4, 8])))
    assert not list(findings(low))
    for m in (4, 8, 11, 12, 16, 24, 30, 40):
        a = np.random.default_rng(seed).integers(-9, 9, (5, m)).astype(F32)
        expected = np.zeros_like(a)
        inner = slice(first, max(m - behind, first))
        for k, o in enumerate(offsets):
            expected[:, inner] += (k + 2)*a[:, inner.start + o:inner.stop + o]
        found = execute(low, {"a": a, "out": np.zeros_like(a)}, {"n": 5, "m": m}, r)["out"]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("knl", "cut"), [
    (along_rows(1, 1, [-1, 0, 1]), True),
    (along_rows(1, 0, [0]), True),
    (along_rows(0, 0, [0]), False),                                             # whole rows are whole vectors
    (along_rows(1, 1, [], text="out[i, j] = 2*out[i, j]"), False),              # others may write what is cut off
    (along_rows(1, 1, [], text="out[i, j] = if(a[i, j] > 0, a[i, j], 1)"), True),
    (along_rows(1, 1, [], text="out[i, j] = if(i % 3 > 1, a[i, j], 1)"), False)])
def test_what_is_loaded_whole(knl: lk.LoopKernel, cut: bool) -> None:
    code = lk.generate_code(knl)
    assert ("m divisible by 4" in map(str, code.assumed)) == cut
    assert LOADED not in lk.generate_code(knl, layout=Layout(vectors=False)).source
    assert (code.source.count("*reinterpret_cast<float4 *>(&out[") == 2) == cut, code.source


@pytest.mark.deep(every=5)
@pytest.mark.parametrize(("m", "length", "threads"), [(25, 4, 2), (29, 4, 2), (30, 4, 2), (27, 4, 2), (21, 2, 4)])
def test_conditions_say_in_which_iterations_they_may_fail(m: int, length: int, threads: int) -> None:
    """A compiler that unrolls the loop has to ask about the first and the last vector of a row only."""
    knl = anywhere(m, length, m % length, threads=threads)
    low = lk.lower(knl)
    assert not list(findings(low))
    asked = {iteration for iteration, _ in re.findall(r"(\w+ < \w+) \|\| (.*?) <= ", lk.generate_code(knl).source)}
    last = -(-(m + length - gcd(m, length)) // (length*threads)) - 1
    assert asked == {"0 < q_outer", f"q_outer < {last}"}
    for n in (1, 2, 7):
        a = np.arange(n*m).reshape(n, m).astype(F32)
        found = execute(low, {"a": a, "out": np.zeros_like(a)}, {"n": n}, random.Random(n))["out"]
        np.testing.assert_array_equal(found, 2*a)


@pytest.mark.deep(every=8)
@pytest.mark.parametrize(("m", "length"), [(4, 8), (5, 4), (7, 4), (9, 2), (11, 8), (13, 4), (14, 4), (2, 4)])
def test_vectors_where_rows_begin_anywhere(m: int, length: int) -> None:
    """They are aligned, and nothing outside of the array is read, of arrays with any number of rows."""
    knl = anywhere(m, length, m % length, dtype={2: np.float64, 4: F32, 8: np.float16}[length])
    low = lk.lower(knl)
    assert not list(findings(low))
    gaps = f"aligned to {length} elements, rows without gaps"
    assert sorted(map(str, lk.generate_code(knl).assumed)) == [f"a {gaps}", f"out {gaps}"]
    for n in (0, 1, 2, 5, 9):
        a = np.arange(n*m).reshape(n, m).astype(F32)
        found = execute(low, {"a": a, "out": np.zeros_like(a)}, {"n": n}, random.Random(n))["out"]
        np.testing.assert_array_equal(found, 2*a)


@pytest.mark.deep(every=2)
@pytest.mark.parametrize(("k", "m"), [(3, 7), (2, 9)])
def test_rows_of_planes_begin_anywhere_too(k: int, m: int) -> None:
    """All rows before count, and only the last row of the last plane has nothing after it."""
    column = f"4*q - ({k*m % 4}*i + {m % 4}*j) % 4 + v"
    knl = lk.make_kernel(f"{{[i, j, q, v]: 0<=i<n and 0<=j<{k} and 0<=v<4 and 0<=q and 0<={column}<{m}}}",
                         f"out[i, j, {column}] = 2*a[i, j, {column}]", [
                             lk.GlobalArg("a", F32, ("n", k, m)), lk.GlobalArg("out", F32, ("n", k, m)), "..."])
    knl = lk.tag_inames(knl, {"i": "g.0", "j": "l.1", "q": "l.0", "v": "vec"})
    assert f"if (i < n - 1 || j < {k - 1} || 4*q" in lk.generate_code(knl).source
    low = lk.lower(knl)
    assert not list(findings(low))
    for n in (1, 3):
        a = np.arange(n*k*m).reshape(n, k, m).astype(F32)
        found = execute(low, {"a": a, "out": np.zeros_like(a)}, {"n": n}, random.Random(n))["out"]
        np.testing.assert_array_equal(found, 2*a)


@pytest.mark.deep(every=5)
@pytest.mark.parametrize(("knl", "vectors"), [
    (anywhere(None, 4, 1, assumptions="m % 4 = 1 and m >= 5"), True),
    (anywhere(None, 4, 1, assumptions="m % 4 = 1 and m >= 1"), False),      # three elements may be three rows
    (anywhere(None, 4, 1), False),                                          # rows of a multiple of 4 do not begin so
    (anywhere(13, 4, 2), False),                                            # nor rows of 13
    (anywhere(13, 4, 1, text="a[{}] = 2*a[{}]"), False)])                   # the row before is written meanwhile
def test_what_is_aligned_counted_through_all_rows(knl: lk.LoopKernel, vectors: bool) -> None:
    assert ("_vec[" in lk.generate_code(knl).source) == vectors
    low = lk.lower(knl)
    assert not list(findings(low))


@pytest.mark.deep(every=2)
@pytest.mark.parametrize(("row", "served"), [(13, True), (14, False), (17, False)])
def test_a_call_with_gaps_between_rows_has_no_vectors(row: int, served: bool) -> None:
    """Though rows of 17 would begin as those of 13 do: what is between them need not belong to the array."""
    assumed = lk.generate_code(anywhere(13, 4, 1)).assumed
    strided = ArrayView(np.dtype(F32), (5, 13), (4*row, 4), 0, 0)
    assert serves(assumed, {"a": strided, "out": replace(strided, strides=(52, 4))}, {"n": 5}) == served


@pytest.mark.parametrize(("m", "rows", "beside"), [
    (14, 2, 2), *(pytest.param(*case, marks=pytest.mark.deep) for case in (
        (13, 2, 1), (15, 2, 1), (61, 2, 1), (59, 2, 1), (13, 1, 1), (12, 2, 0), (23, 4, 1), (9, 3, 1)))])
def test_rows_above_and_below_come_from_vectors_beside_what_is_read(m: int, rows: int, beside: int) -> None:
    """Their elements begin at no multiple of four, but always at the same distance from one."""
    knl = neighbours_anywhere(m, rows)
    low = lk.lower(knl)
    assert not list(findings(low))
    shown = str(lk.lower(knl, stop="ast"))
    assert shown.count("at a time for a[") == 2*beside*shown.count("for j_inner in"), shown
    for n in (0, 2, 3, 4, 5, 12):
        a = np.random.default_rng(n).integers(-9, 9, (n, m)).astype(F32)
        expected = np.zeros_like(a)
        expected[1:-1, 1:-1] = a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] - 4*a[1:-1, 1:-1]
        found = execute(low, {"a": a, "out": np.zeros_like(a)}, {"n": n}, random.Random(n))["out"]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.deep(every=3)
@pytest.mark.parametrize(("text", "rows"), [
    ("a[i, j-1] + 2*a[i, j]", (0, 0)),
    ("2*a[i, j] + a[i, j+1] + 3*a[i, j-1]", (0, 0)),
    ("2*a[i, j] + if(a[i, j] > 0, a[i, j+1], 3*a[i, j-1])", (0, 0)),       # who may not read it has it from memory
    ("a[i-1, j-1] + 2*a[i-1, j] + 3*a[i-1, j+1] + 4*a[i, j] + 5*a[i+1, j-1] + 6*a[i+1, j] + 7*a[i+1, j+1]", (1, 1))])
@pytest.mark.parametrize("m", [21, 22, 23])
def test_lanes_that_load_one_by_one_load_what_lanes_beside_them_need(text: str, rows: tuple[int, int], m: int) -> None:
    """Where a vector would begin before an array: a lane that is cut off loads nothing, but its element is read."""
    first, behind = rows
    knl = lk.make_kernel(f"{{[i, j]: {first}<=i<n-{behind} and 1<=j<m-1}}", f"out[i, j] = {text}", [
        lk.GlobalArg("a", F32, ("n", "m")), lk.GlobalArg("out", F32, ("n", "m")), "..."])
    knl = lk.skew(lk.fix_parameters(knl, m=m), "j", f"{m % 4}*i % 4")
    knl = lk.tag_inames(lk.split_iname(knl, "j", 4, inner_tag="vec"), {"i": "g.0", "j_outer": "l.0"})
    low = lk.lower(knl)
    assert not list(findings(low))
    assert any(v.inside is not None for node in nodes_in(low.program.functions[0].body) if isinstance(node, For)
               for v in vectors_of(node))
    for n in (1, 2, 3, 5):
        a = np.random.default_rng(n).integers(-9, 9, (n, m)).astype(F32)
        expected = np.zeros_like(a)
        for i, j in np.ndindex(n, m):
            if first <= i < n - behind and 1 <= j < m - 1:
                python = text.replace("if(a[i, j] > 0,", "(lambda x, y: x if a[i, j] > 0 else y)(")
                expected[i, j] = eval(python, {"a": a, "i": i, "j": j})
        found = execute(low, {"a": a, "out": np.zeros_like(a)}, {"n": n}, random.Random(n))["out"]
        np.testing.assert_array_equal(found, expected)


def test_a_thread_in_rows_without_gaps_has_no_branch_for_the_end_of_a_row() -> None:
    """Lanes that are cut off are computed with what is there; where the array may end, they are not."""
    whole, others = str(lk.lower(lk.library.stencil_2d(columns=69, threads=(32, 2)), stop="ast")).split("else\n", 1)
    assert "# all iterations are computed" in whole
    assert "# all iterations are computed" not in others
    low = lk.lower(neighbours_anywhere(12, 2))
    wrong = changed(low, lambda node: replace(node, instruction=replace(node.instruction, computes_all=True))
                    if isinstance(node, For) and isinstance(node.instruction, VectorAccess) else node)
    found = {f.text for f in findings(wrong)}
    assert any("need not read" in text for text in found), found


def test_a_row_with_more_behind_it_is_not_asked_for_its_length() -> None:
    """The accessed part of a row and the whole row are not both a multiple of vectors: no assumption on m serves."""
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 1<=j<m-3}", "out[i, j] = a[i, j]", [
        lk.GlobalArg("a", F32), lk.GlobalArg("out", F32, ("n", "m")), "..."])
    knl = lk.split_iname(lk.split_iname(knl, "j", 4, inner_tag="vec"), "j_outer", 3, outer_tag="g.0", inner_tag="l.0")
    code = lk.generate_code(knl)
    assert sorted(map(str, code.assumed)) == ["a aligned to 4 elements", "out aligned to 4 elements"]


def test_bounds_from_memory_cut_no_vectors() -> None:
    """Nothing is known of them where a guard might have to be before the loads."""
    knl = lk.make_kernel(["{[i]: 0<=i<n}", "[first] -> {[j]: 0<=j<m and first<=j<m-1}"], """
        for i
            <> first = start[i]
            for j
                out[i, j] = a[i, j]
            end
        end""", [lk.GlobalArg("a", F32, ("n", "m")), lk.GlobalArg("out", F32), lk.GlobalArg("start", np.int32), "..."])
    knl = lk.tag_inames(lk.split_iname(knl, "j", 4, inner_tag="vec"), {"i": "g.0"})
    assert not lk.generate_code(knl).assumed


def test_where_all_lanes_are_in_nothing_is_asked() -> None:
    """The version for full tiles is as it is without lanes that are cut off; the other one asks once a lane."""
    source = " ".join(lk.generate_code(along_rows(1, 1, [-1, 0, 1])).source.split())
    whole, generic = source.split("} else ")
    assert whole.count("if (") == 1
    assert generic.count(LOADED) == whole.count(LOADED) == 1
    whole_vector = "12*j_outer_outer + 4*j_outer_inner + 4 < m && 1 <= 12*j_outer_outer + 4*j_outer_inner"
    assert f"if ({whole_vector}) {{" in generic
    assert f"if (!({whole_vector}) &&" in generic
