"""Layouts of arguments: declared orders and strides, split axes and separate axes, against numpy."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopkit as lk
from tests.transform.same import step

A = np.arange(12.).reshape(3, 4)


def doubled(**layouts: Any) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "b[i, j] = 2*a[i, j]", [
        *(lk.GlobalArg(name, **layout) for name, layout in layouts.items()), "..."])
    return lk.add_dtypes(knl, {"a": float})


# Declared orders and strides

def test_a_declared_layout_is_checked_and_outputs_get_it() -> None:
    knl = doubled(a={"order": "F"}, b={"strides": "2*m, 2"})
    run = lk.compile(knl, "c")
    result = run(a=np.asfortranarray(A)).b
    assert np.array_equal(result, 2*A)
    assert result.strides == (64, 16)
    with pytest.raises(lk.CallError, match=r"'a' must have the stride 1 along axis 0, in elements, not 4") as refusal:
        run(a=A)
    assert "pass np.asfortranarray(a)" in str(refusal.value)
    with pytest.raises(lk.CallError, match=r"'b' must have the stride 8 \(2\*m\) along axis 0, in elements, not 4"):
        run(a=np.asfortranarray(A), b=np.zeros((3, 4)))
    assert "a: float64 F, b: float64 strides (2*m, 2)" in str(lk.lower(knl, stop="types"))
    lk.check_equivalent(knl, lk.split_iname(knl, "i", 2), {"n": 3, "m": 5}, target="c")
    assert lk.compile(step(doubled(), lk.tag_array_axes, "b", "F"), "c")(a=A).b.flags.f_contiguous


def test_a_call_solves_for_a_stride() -> None:
    knl = doubled(a={"strides": ("lda", 1)}, b={"strides": ("auto", None)})
    wide = np.arange(30.).reshape(3, 10)[:, :4]
    run = lk.compile(knl, "c")
    out = np.zeros((3, 4), order="F")
    assert run(a=wide, b=out).b is out
    assert np.array_equal(out, 2*wide)
    with pytest.raises(lk.CallError, match=r"must have the stride 7 \(lda\) along axis 0, in elements, not 10"):
        run(a=wide, b=out, lda=7)
    with pytest.raises(lk.CallError, match="'b' is missing: its declared strides do not give the layout"):
        run(a=wide)
    with pytest.raises(lk.CallError, match="'lda' is missing"):
        run(a=wide[:1], b=out[:1])
    assert lk.fix_parameters(lk.rename_argument(knl, "lda", "ld"), ld=10).array_args["a"].strides == (10, 1)
    assert step(doubled(), lk.tag_array_axes, "a", "stride:auto,stride:1").array_args["a"].strides == (None, 1)


@pytest.mark.parametrize(("layout", "error"), [
    ({"order": "G"}, "The order of 'a' cannot be 'G'"), ({"strides": (1,)}, "has 2 axes, and its layout has 1"),
    ({"strides": (-1, 1)}, "The strides of 'a' cannot have the stride -1"),
    ({"order": "C", "strides": (1, 1)}, "'a' has an order and strides")])
def test_wrong_layouts_are_refused(layout: dict[str, Any], error: str) -> None:
    with pytest.raises(lk.PreconditionError, match=error):
        doubled(a=layout)


# Split axes

@pytest.mark.parametrize("order", ["C", "F"])
def test_each_element_keeps_a_place_of_its_own(order: str) -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i, j] = x[i+1, j]\nz[4*i] = x[i, 0]")
    x = np.arange(32.).reshape(16, 2)
    new = step(knl, lk.split_array_axis, "x, z", 0, 4, order)
    groups = x.reshape(4, 4, 2) if order == "C" else np.ascontiguousarray(x.reshape(4, 4, 2).transpose(1, 0, 2))
    want, got = (lk.compile(lk.add_dtypes(k, {"x": float}), "c")(x=given, n=15, m=2)
                 for k, given in ((knl, x), (new, groups)))
    assert np.array_equal(got.y, want.y)
    z = got.z if order == "C" else got.z.T
    assert np.array_equal(z.ravel()[:57], want.z)
    assert ("z[i, 0]" if order == "C" else "z[0, i]") in new.statements_text


def test_wrong_splits_are_refused() -> None:
    for call, error in ((("a", 2, 4), "'a' has 2 axes, but no axis 2"), (("b", 0, 4), "The layout of 'b' was declared"),
                        (("a", 0, 4, "A"), "The order of the new axes cannot be 'A'"), (("a", 0, 0), "count")):
        with pytest.raises(lk.PreconditionError, match=error):
            lk.split_array_axis(doubled(b={"order": "F"}), *call)


# Separate axes

def test_an_axis_becomes_arguments() -> None:
    knl = lk.make_kernel("{[k, i]: 0<=k<3 and 1<=i<n}", "a[k, i] = a[k, i-1] + x[i, 2-k] + a[0, i] {id=s}")
    new = step(step(knl, lk.tag_array_axes, "a", "sep,C"), lk.tag_array_axes, "x", "C,sep")
    assert [a.name for a in new.arguments] == ["a_s0", "a_s1", "a_s2", "n", "x_s0", "x_s1", "x_s2"]
    assert lk.check_legal(new).verdict is lk.Verdict.PROVEN
    rows, columns = np.random.default_rng(0).integers(0, 9, (2, 3, 6)).astype(float)
    given = {**{f"a_s{k}": rows[k].copy() for k in range(3)}, **{f"x_s{k}": columns[k] for k in range(3)}}
    want = lk.compile(lk.add_dtypes(knl, {"a,x": float}), "c")(a=rows.copy(), x=np.ascontiguousarray(columns.T)).a
    got = lk.compile(lk.tag_inames(lk.add_dtypes(new, dict.fromkeys(given, float)), "k:unr"), "c")(**given)
    assert np.array_equal(np.array([got.a_s0, got.a_s1, got.a_s2]), want)
    with pytest.raises(lk.IllegalTransformError):
        lk.tag_inames(new, {"i": "g.0"})
    # the rows k > 0 read row 0 of the same iteration, after a barrier
    threads = lk.interchange(lk.add_dtypes(new, dict.fromkeys(given, float)), "k", "i")
    report = lk.verify(lk.tag_inames(threads, {"k": "l.0"}))
    assert report.verdict is lk.Verdict.PROVEN
    assert "a_s0: s_s0 writes, s_s1 reads" in str(report)


@pytest.mark.parametrize("tag", ["unr", "ilp"])
def test_unrolled_separate_elements_are_lines(tag: str) -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<3}", "y[i, j] = j*x[i, j]", [
        lk.GlobalArg("x,y", np.float32, shape="n, 3"), "..."])
    knl = lk.tag_inames(lk.tag_array_axes(knl, "x, y", "N0, sep"), {"j": tag})
    lines = [x.strip() for x in lk.generate_code(knl, target="cuda").source.splitlines()]
    assert not any("j" in x for x in lines if "for" in x or "if" in x)
    assert [x for x in lines if x.startswith("y_")] == [f"y_s{k}[i] = {float(k)}f*x_s{k}[i];" for k in range(3)]


def test_wrong_separations_are_refused() -> None:
    def tagged(tags: str, text: str = "y[i] = x[k, i]", shape: Any = (3, "n")) -> lk.LoopKernel:
        knl = lk.make_kernel("{[k, i, j]: 0<=k,j<3 and 0<=i<n}", text, [lk.GlobalArg("x", shape=shape), "..."])
        return lk.tag_array_axes(knl, "x", tags)
    for given, error in ((("C,vec",), "An axis of 'x' cannot have the tag 'vec'"),
                         (("C,sep",), "its extent is not constant"), (("C",), None),
                         (("sep,C", "y[i] = x[k, i]", (2, "n")), "'insn' accesses 'x' outside of its separate axes"),
                         (("sep,C", "x[k, i] = sum(j, z[j, i])"), "does not allow a statement for each element of 'x'"),
                         (("sep,C", "x_s1[i] = x[k, i]"), "x_s1"), (("N0,N2",), "is not an order of the 2 axes")):
        if error is not None:
            with pytest.raises(lk.PreconditionError, match=error):
                tagged(*given)
    with pytest.raises(lk.UndecidedError, match="It is unknown which of the arrays of 'x'"):
        tagged("sep,C", "y[i] = x[s[k], i]")


ROWS = """
for i
    <> first = ptr[i]
    <> last = ptr[i+1]
    for k
        for c
            <> t[c] = x[k] + c {id=init}
        end
        t[0] = 2*t[0]
        t[1] = 3*t[1]
        for d
            y[d, k] = t[d] {id=out, if=alpha*d < 4}
        end
    end
end"""


def test_bounds_from_memory_are_no_part_of_the_new_dependences() -> None:
    """The values of a loop with such bounds stay in the cells of its iteration."""
    knl = lk.make_kernel(["{[i]: 0<=i<n}", "[first, last] -> {[k, c, d]: first<=k<last and 0<=c<2 and 0<=d<2}"], ROWS,
                         [lk.GlobalArg("y", float, (2, "m")), lk.ValueArg("alpha", np.float32), "..."])
    knl = lk.fix_parameters(lk.add_dtypes(knl, {"ptr": np.int32, "x": float}), alpha=3)
    given = {"ptr": np.array([0, 2, 3], np.int32), "x": np.arange(3.)}
    assert knl(**given, m=3).y.tolist() == [[0, 2, 4], [3, 6, 9]]
    assert np.array_equal(lk.compile(lk.tag_array_axes(knl, "y", "sep,C"), "c")(**given, m=3), [[0, 2, 4], [3, 6, 9]])
