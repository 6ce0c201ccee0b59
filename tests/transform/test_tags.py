"""tag_inames, untag_inames, unroll."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from loopkit.kernel.tags import AutoLocalTag, ForTag, GroupTag, IlpTag, LocalTag, UnrollTag, VecTag
from tests.transform.kernels import F32, matvec, scaled_matrix, twice
from tests.transform.same import assert_same, step


def boxed() -> lk.LoopKernel:
    return lk.fix_parameters(scaled_matrix(), n=6, m=5)


@pytest.mark.deep(every=13)
@pytest.mark.parametrize(("text", "tag"), [
    ("g.0", GroupTag(0)), ("g.1", GroupTag(1)), ("g.2", GroupTag(2)), ("l.0", LocalTag(0)), ("l.1", LocalTag(1)),
    ("l.2", LocalTag(2)), ("l.auto", AutoLocalTag()), ("unr", UnrollTag()), ("ilp", IlpTag()), ("ilp.unr", IlpTag()),
    ("ilp.seq", IlpTag(unroll=False)), ("vec", VecTag()), ("for", ForTag())])
def test_every_tag_by_its_name(text: str, tag: object) -> None:
    knl = step(boxed(), lk.tag_inames, {"i": text})
    assert dict(knl.tags) == {"i": tag}
    assert str(knl.tags["i"]) == {"ilp.unr": "ilp"}.get(text, text)
    assert_same(boxed(), knl)


def test_ways_to_write_tags() -> None:
    wanted = {"i": GroupTag(0), "j": LocalTag(0)}
    for tags in ({"i": "g.0", "j": "l.0"}, "i:g.0, j:l.0", "i:g.0,j:l.0", [("i", "g.0"), ("j", "l.0")],
                 {"i": GroupTag(0), "j": LocalTag(0)}):
        assert dict(step(boxed(), lk.tag_inames, tags).tags) == wanted


def test_a_tag_is_not_taken_twice_but_by_force() -> None:
    knl = lk.tag_inames(boxed(), "i:g.0")
    assert dict(lk.tag_inames(knl, "i:g.0").tags) == {"i": GroupTag(0)}
    with pytest.raises(lk.PreconditionError, match=r"has the tag 'g\.0' already") as caught:
        lk.tag_inames(knl, "i:g.1")
    assert caught.value.subject == "i"
    assert "force=True" in (caught.value.hint or "")
    assert dict(step(knl, lk.tag_inames, "i:g.1", force=True).tags) == {"i": GroupTag(1)}


def test_tags_show_in_the_printed_kernel() -> None:
    assert "for i [g.0], j [l.0]" in str(lk.tag_inames(boxed(), "i:g.0, j:l.0"))


def test_untag() -> None:
    knl = lk.tag_inames(boxed(), "i:g.0, j:l.0")
    back = step(knl, lk.untag_inames, "j")
    assert dict(back.tags) == {"i": GroupTag(0)}
    assert dict(lk.untag_inames(knl, ["i", "j"]).tags) == {}
    assert_same(boxed(), back)


def test_unroll() -> None:
    knl = step(boxed(), lk.unroll, "i, j")
    assert dict(knl.tags) == {"i": UnrollTag(), "j": UnrollTag()}
    assert_same(boxed(), knl)


def test_unroll_keeps_a_carried_order() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 1<=i<9}", "a[i] = 2*a[i-1] - 1"), {"a": F32})
    assert_same(knl, lk.unroll(knl, "i"))


def test_unrolled_inames_need_constant_ranges_even_where_the_domain_is_ragged() -> None:
    knl = lk.unroll(lk.split_iname(twice(), "i", 4), "i_inner")
    for n in (1, 4, 6):
        assert_same(twice(), knl, n=n)


@pytest.mark.parametrize(("call", "error", "fields"), [
    (lambda: lk.tag_inames(boxed(), "q:g.0"), lk.UnknownNameError, {"kind": "iname", "name": "q"}),
    (lambda: lk.tag_inames(boxed(), "i:g.3"), lk.PreconditionError, {"subject": "g.3"}),
    (lambda: lk.tag_inames(boxed(), "i:vector"), lk.PreconditionError, {"subject": "vector"}),
    (lambda: lk.tag_inames(boxed(), "i"), lk.PreconditionError, {"subject": "i"}),
    (lambda: lk.lower(lk.tag_inames(twice(), "i:unr")), lk.PreconditionError, {"subject": "i"}),
    (lambda: lk.lower(lk.tag_inames(twice(), "i:ilp")), lk.PreconditionError, {"subject": "i"}),
    (lambda: lk.tag_inames(matvec(), "k:g.0"), lk.PreconditionError, {"subject": "k"}),
    (lambda: lk.untag_inames(boxed(), "q"), lk.UnknownNameError, {"kind": "iname", "name": "q"}),
    (lambda: lk.lower(lk.unroll(twice(), "i")), lk.PreconditionError, {"subject": "i"}),
    (lambda: lk.unroll(boxed(), "q"), lk.UnknownNameError, {"kind": "iname", "name": "q"}),
    (lambda: lk.unroll(lk.tag_inames(boxed(), "i:l.0"), "i"), lk.PreconditionError, {"subject": "i"}),
])
def test_refused(call: object, error: type[lk.LoopkitError], fields: dict[str, object]) -> None:
    with pytest.raises(lk.LoopkitError) as caught:
        call()                                                     # type: ignore[operator]
    assert type(caught.value) is error, caught.value
    assert {f: getattr(caught.value, f) for f in fields} == fields
    if error is lk.PreconditionError:
        assert caught.value.hint is not None


# Several inames of parametric extent on one axis

def packed(text: str, *arrays: str) -> lk.LoopKernel:
    return lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", text, [*(lk.GlobalArg(a, np.float64) for a in arrays), "..."])


@pytest.mark.deep
def test_they_are_told_apart_one_by_one() -> None:
    knl = packed("y[i,j] = x[i,j] + x[0,j]", "x", "y")
    assert_same(knl, lk.tag_inames(knl, "i:g.0, j:g.0"), n=3, m=4)
    knl = packed("<> t = 2*x[i,j]\ny[i,j] = t*t", "x", "y")
    assert_same(knl, lk.tag_inames(knl, "i:g.0, j:g.0"), n=3, m=4)


@pytest.mark.parametrize("text", ["y[j] = x[i,j]", "y[i] = x[i,j]", "y[i] = y[i] + x[i,j]", "y[i+j] = x[i,j]"])
def test_what_different_blocks_write_is_refused(text: str) -> None:
    with pytest.raises(lk.IllegalTransformError):
        lk.tag_inames(packed(text, "x", "y"), "i:g.0, j:g.0")


def test_blocks_that_write_one_cell_of_a_temporary_are_refused() -> None:
    knl = packed("<> u[j] = x[i,j]\nz[0] = u[2]", "x", "z")
    with pytest.raises(lk.LoopkitError):
        lk.lower(lk.tag_inames(knl, "i:g.0, j:g.0"))


PACKED = ["{[t]: 0<=t<3}", "{[i,j]: 0<=i<n and 0<=j<m}", "{[k]: 0<=k<n}"]


@pytest.mark.deep
def test_packings_of_one_axis_may_differ_in_extents_that_are_parametric() -> None:
    knl = lk.make_kernel(PACKED, "y[i,j] = x[i]\nz[k] = y[k,0]", [*(lk.GlobalArg(a, np.float64) for a in "xyz"), "..."])
    assert_same(knl, lk.tag_inames(knl, "i:g.0, j:g.0, k:g.0"), n=3, m=2)
    fixed = lk.fix_parameters(knl, m=4)
    assert_same(fixed, lk.tag_inames(fixed, "i:g.0, j:g.0, k:g.0"), n=3)


def test_blocks_of_different_packings_are_undecided_where_no_launch_can_end_between() -> None:
    knl = lk.make_kernel(PACKED, """
        for t
            for i, j
                y[i,j] = x[i] + z[i] {id=A}
            end
            for k
                z[k] = y[k,0] {id=B}
            end
        end
        """, [*(lk.GlobalArg(a, np.float64) for a in "xyz"), "..."])
    mapped = lk.tag_inames(knl, "i:g.0, j:g.0, k:g.0")
    assert_same(knl, mapped, n=3, m=2)
    with pytest.raises(lk.UndecidedError, match="their blocks are not known; put one of them on another axis"):
        lk.tag_inames(mapped, "t:unr")


def test_each_iname_of_a_text_needs_its_tag() -> None:
    with pytest.raises(lk.PreconditionError, match=r"'j' has no tag in 'i:g\.0, j, k:l\.0'\.") as caught:
        lk.tag_inames(boxed(), "i:g.0, j, k:l.0")
    assert caught.value.hint == "each iname has its own tag: 'j:l.0'"


def test_any_tag_replaces_l_auto() -> None:
    knl = lk.tag_inames(lk.make_kernel("{[i]: 0<=i<64}", "y[i] = 2*x[i]"), "i:l.auto")
    assert lk.tag_inames(knl, "i:l.0").tags["i"] == LocalTag(0)
    with pytest.raises(lk.PreconditionError, match=r"has the tag 'l\.0' already"):
        lk.tag_inames(lk.tag_inames(knl, "i:l.0"), "i:l.auto")
