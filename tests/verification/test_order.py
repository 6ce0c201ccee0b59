"""Orders that break a dependence, in the kernel and in its launches."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.constructors import reordered
from loopkit.kernel.tree import Leaf, Loop, Seq, seq
from loopkit.lowering.pipeline import lowered_once
from tests.lowering.kernels import F32, chain, make
from tests.verification.changed import report, with_tree


def skewed() -> lk.LoopKernel:
    return make("{[i,j]: 1<=i<n and 1<=j<m}", "a[i,j] = a[i-1,j+1]", a=F32)


def test_an_order_that_breaks_a_dependence() -> None:
    knl = skewed()
    assert lk.check_legal(knl).proven
    turned = reordered(knl, Loop("j", Loop("i", Leaf("insn"))))
    found = lk.check_legal(turned)
    assert found.verdict is lk.Verdict.REFUTED
    assert found["order"].findings[0].witness == (
        "with m = 3, n = 3: insn[i=1, j=2] writes a[1, 2], which insn[i=2, j=1] reads")
    with pytest.raises(lk.IllegalTransformError):
        found.raise_if_refuted()


def test_the_loops_of_a_launch() -> None:
    knl = skewed()
    lowered = with_tree(lowered_once(knl), 0, Loop("j", Loop("i", Leaf("insn"))))
    found = report(knl, lowered)["order"]
    assert found.verdict is lk.Verdict.REFUTED
    assert found.findings[0].text == "The lowered kernel runs 'insn' and 'insn' in the wrong order, or at once."


def test_the_statements_of_a_launch() -> None:
    knl = chain()
    lowered = lowered_once(knl)
    tree = lowered.launches[0].tree
    assert isinstance(tree, Loop)
    assert isinstance(tree.body, Seq)
    turned = with_tree(lowered, 0, Loop(tree.iname, seq(*reversed(tree.body.children))))
    assert len(report(knl, turned)["order"].findings) == 3


def test_the_launches() -> None:
    knl = make("{[i,j]: 0<=i,j<n}", """
        for i
            t[i] = 2*x[i] {id=write}
        end
        for j
            y[j] = t[n-1-j] {id=read}
        end
        """, [lk.TemporaryVariable("t", F32), "..."], x=F32)
    knl = lk.tag_inames(knl, "i:g.0, j:g.0")
    lowered = lowered_once(knl)
    assert len(lowered.launches) == 2
    assert report(knl, lowered)["order"].verdict is lk.Verdict.PROVEN
    turned = replace(lowered, launches=lowered.launches[::-1])
    assert report(knl, turned)["order"].findings[0].witness == (
        "with n = 1: write[i=0] writes t[0], which read[j=0] reads")


def test_what_is_read_from_memory_is_undecided() -> None:
    knl = make("{[i]: 0<=i<n}", "a[place[i]] = a[i]", a=F32, place=np.int32)
    assert lk.check_legal(knl).proven
    lowered = lowered_once(knl)
    launch = lowered.launches[0]
    assert launch.tree == Loop("i", Leaf("insn"))
    found = report(knl, with_tree(lowered, 0, Leaf("insn")))["order"]
    assert found.verdict is lk.Verdict.UNDECIDED


def test_what_a_step_took_on_trust_is_assumed() -> None:
    """The order that was forced is not called proven, whatever the dependences that are left say."""
    knl = lk.interchange(skewed(), "i", "j", unsafe=True)
    owed, = knl.obligations
    for found in (lk.check_legal(knl), lk.verify(knl), lk.verify(lk.fix_parameters(knl, n=4))):
        assert found.verdict is lk.Verdict.ASSUMED
        assert found["order"].findings[0].text == str(owed)
    head = str(lk.generate_code(knl)).split("\n\n")[0]
    assert "proven: order" not in head
    assert "unsafe: interchange(i, j)" in head
