"""find_rules_matching, find_one_rule_matching and find_unused_axis_tag."""
from __future__ import annotations

import pytest

import loopkit as lk
from loopkit.kernel.tags import GroupTag, LocalTag


def kernel() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<8}", """
        load_x(s) := x[s]
        load_w(s) := w[s]
        y[i,j] = load_x(i) + load_w(j) {id=both}
        z[i] = load_x(i) {id=one}
        """)
    return lk.tag_inames(knl, "i:g.0, j:l.1")


def test_rules() -> None:
    assert lk.find_rules_matching(kernel(), "load_*") == ["load_x", "load_w"]
    assert lk.find_rules_matching(kernel(), "q*") == []
    assert lk.find_one_rule_matching(kernel(), "*_w") == "load_w"
    with pytest.raises(lk.PreconditionError, match=r"matches 2 of .*\n.*these match: load_x, load_w"):
        lk.find_one_rule_matching(kernel(), "*")
    with pytest.raises(lk.PreconditionError, match=r"matches none of .*\n.*the rules are: load_x, load_w"):
        lk.find_one_rule_matching(kernel(), "q")


def test_axes() -> None:
    assert lk.find_unused_axis_tag(kernel(), "l") == LocalTag(0)
    assert lk.find_unused_axis_tag(kernel(), GroupTag) == GroupTag(1)
    assert lk.find_unused_axis_tag(kernel(), "g", "one") == GroupTag(1)
    assert lk.find_unused_axis_tag(lk.tag_inames(lk.untag_inames(kernel(), "j"), "j:l.0"), "l") == LocalTag(1)
    assert lk.find_unused_axis_tag(lk.tag_inames(lk.untag_inames(kernel(), "j"), "j:l.0"), "l", "one") == LocalTag(0)
    with pytest.raises(lk.PreconditionError, match="kind='q' is not a kind of axis"):
        lk.find_unused_axis_tag(kernel(), "q")
