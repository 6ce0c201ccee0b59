"""Kernels go to other processes as they are: with their history and the dependences that they bring along."""
from __future__ import annotations

import pickle

import pytest

import loopkit as lk
from loopkit.analysis.dependences import dependences
from tests.cases import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_kernels_come_back_as_they_were(case: Case) -> None:
    knl = case.make()
    again = pickle.loads(pickle.dumps(knl))
    assert again == knl
    assert str(again) == str(knl)
    assert again.history == knl.history
    assert str(lk.generate_code(again)) == str(lk.generate_code(knl))


def test_dependences_are_those_that_were_carried() -> None:
    """Not those that the order as transformed would have."""
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<n}", "a[i,j] = a[i,j-1] + 1 {if=j>0}")
    knl = lk.split_iname(lk.tag_inames(knl, {"i": "g.0"}), "j", 4)
    again = pickle.loads(pickle.dumps(knl))
    wanted, found = dependences(knl), dependences(again)
    assert wanted
    assert len(found) == len(wanted)
    for a, b in zip(wanted, found, strict=True):
        assert (a.kind, a.array, a.source, a.sink, a.exact) == (b.kind, b.array, b.source, b.sink, b.exact)
        assert a.relation.is_equal(b.relation)
    with pytest.raises(lk.IllegalTransformError):
        lk.tag_inames(again, {"j_inner": "l.0"})
