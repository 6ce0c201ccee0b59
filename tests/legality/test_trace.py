"""The judge that enumerates, where steps before have moved what it compares."""
from __future__ import annotations

import pytest

import loopkit as lk
from tests.legality.trace import require_smallest


def test_a_copy_serves_those_whom_it_was_made_for() -> None:
    """A later step gives the copy's iname and its readers' one name."""
    written = lk.make_kernel("{[i]: 0<=i<2}", "a[i] = a[i] + x[i] {id=S}")
    jammed = lk.unroll_and_jam(written, "i", 2)
    copied = lk.add_prefetch(jammed, "a", ["i_inner", "i_outer"], default_tag=None)
    with pytest.raises(lk.IllegalTransformError) as refused:
        lk.fuse_loops(copied, ["a_dim_0", "i_outer"])
    forced = lk.fuse_loops(copied, ["a_dim_0", "i_outer"], unsafe=True)
    require_smallest([written, jammed, copied, forced], refused.value.witness)


def test_the_parts_of_a_reduction_find_each_other_under_any_names() -> None:
    """The start of a reduction is in a loop that takes the name of the reduction's."""
    written = lk.make_kernel("{[i, k, r]: 0<=i,k,r<n}",
                             """
                             for i
                                 a[i] = sum(r, min(2, x[i] + r)) {id=S, inames=k}
                             end
                             """)
    turned = lk.interchange(written, "k", "r")
    with pytest.raises(lk.IllegalTransformError) as refused:
        lk.fuse_loops(turned, ["r", "k"])
    forced = lk.fuse_loops(turned, ["r", "k"], unsafe=True)
    require_smallest([written, turned, forced], refused.value.witness)
