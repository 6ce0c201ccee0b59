"""Copies of some accesses of an array, and patterns for inames."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk

BODIES = lk.make_kernel(
    "{[i,j,k]: 0<=i,j<n and 0<=k<3}", "y[i] = sum(j, sum(k, (x[i,k] - 2*x[j,k])**2))",
    [lk.GlobalArg("x", np.int32, shape="n,3"), "..."])


def test_one_of_two_accesses() -> None:
    own = lk.add_prefetch(BODIES, "x[i, :]", default_tag=None)
    assert "(x_fetch[k] - 2*x[j, k])**2" in own.statements_text
    split = lk.split_iname(BODIES, "j", 4)
    other = lk.add_prefetch(split, "x[j_inner + 4*j_outer,:]", "j_inner", default_tag=None)
    assert "(x[i, k] - 2*x_fetch[j_inner, k])**2" in other.statements_text
    split = lk.split_iname(split, "j_outer", 8, inner_iname="jj")
    again = lk.add_prefetch(split, "x[j, k]", "j_inner, k", default_tag=None)
    assert "(x[i, k] - 2*x_fetch[j_inner, k])**2" in again.statements_text
    both = lk.add_prefetch(other, "x[i,:]", default_tag=None, temporary_name="own")
    assert "(own[k] - 2*x_fetch[j_inner, k])**2" in both.statements_text
    x = np.arange(21, dtype=np.int32).reshape(7, 3) % 5
    expected = ((x[:, None, :] - 2*x[None, :, :])**2).sum((1, 2))
    np.testing.assert_array_equal(both(x=x).y, expected)


def test_an_access_that_stays_keeps_its_dependences() -> None:
    """The statement writes what the access that stays has read."""
    knl = lk.make_kernel("{[t,k]: 0<=t<n and 0<=k<4}", "a[t+1,k] = a[t,k] + a[0,k]",
                         [lk.GlobalArg("a", np.int32, shape="n+1,4"), "n"])
    copied = lk.add_prefetch(knl, "a[0,:]", fetch_outer_inames="", default_tag=None)
    assert "a[t + 1, k] = a[t, k] + a_fetch[k]" in copied.statements_text
    with pytest.raises(lk.IllegalTransformError):
        lk.tag_inames(copied, "t:g.0")
    a = np.arange(16, dtype=np.int32).reshape(4, 4)
    np.testing.assert_array_equal(copied(a=a.copy()).a, np.outer([1, 2, 3, 4], a[0]))


def test_inames_of_the_grid_are_not_swept() -> None:
    knl = lk.split_iname(lk.make_kernel("{[i]: 0<=i<64}", "y[i] = 2*x[i]"), "i", 16, outer_tag="g.0", inner_tag="l.0")
    assert "x_fetch[i_inner]" in lk.add_prefetch(lk.add_dtypes(knl, {"x": np.int32}), "x[:]").statements_text


@pytest.mark.parametrize(("access", "message"), [
    ("x[k, :]", "No statement reads 'x[k, :]'.\n  hint: 'x' is read as x[i, k], x[j, k]"),
    ("x[:]", "No statement reads 'x[:]'"),
    ("x[i, :", "is never closed"),
    ("x[i, :] + 1", "expected the end of the text"),
    ("q[:]", "'q' is not an array"),
])
def test_refused(access: str, message: str) -> None:
    with pytest.raises(lk.LoopkitError) as refusal:
        lk.add_prefetch(BODIES, access)
    assert message in str(refusal.value)


def test_patterns_for_inames() -> None:
    knl = lk.make_kernel("{[i,j_a,j_b]: 0<=i,j_a,j_b<4}", "y[i,j_a,j_b] = 1")
    tagged = lk.tag_inames(knl, "j_*:unr, j_b:l.0, ?:g.0")
    assert {x: str(t) for x, t in tagged.tags.items()} == {"i": "g.0", "j_a": "unr", "j_b": "l.0"}
    assert lk.unroll(knl, "j_?").tags.keys() == {"j_a", "j_b"}
    assert lk.untag_inames(tagged, "j_*").tags.keys() == {"i"}
    with pytest.raises(lk.UnknownNameError, match=r"'k_\*' is not an iname"):
        lk.tag_inames(knl, {"k_*": "l.0"})
