"""Kernels go to other processes as they are: with their history and the dependences that they bring along."""
from __future__ import annotations

import pickle

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.dependences import dependences
from tests.cases import CASES, Case


@pytest.mark.deep(every=38)
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


def test_what_was_accepted_on_trust_stays_so() -> None:
    """The pairs in question bind no later step there either, and the others do."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", "out[index[i]] = x[i]", [
        lk.GlobalArg("index", np.int32, ("n",)), lk.GlobalArg("x,out", np.float32, ("n",)), "..."])
    knl = lk.tag_inames(lk.split_iname(knl, "i", 4), "i_inner:l.0", assume="index is a permutation")
    again = pickle.loads(pickle.dumps(knl))
    assert again == knl
    assert again.obligations == knl.obligations
    assert str(lk.verify(again)) == str(lk.verify(knl))
    assert lk.untag_inames(again, "i_inner").history[-1].verdict == "proven"
    with pytest.raises(lk.UndecidedError):
        lk.tag_inames(again, "i_outer:g.0")
