"""The order tree of a kernel, and of its launches."""
from __future__ import annotations

from dataclasses import replace

import pytest

import loopkit as lk
from loopkit.analysis.constructors import reordered
from loopkit.errors import InternalError
from loopkit.kernel.tree import Leaf, Loop, seq


def two_launches() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i,j]: 0<=i,j<64}", "t[i] = 2.0*i\ny[j] = t[63-j]")
    return lk.tag_inames(knl, "i:g.0, j:g.0")


def test_a_statement_stands_in_the_order_once() -> None:
    knl = two_launches()
    with pytest.raises(InternalError, match="order contains 'insn' twice"):
        reordered(knl, seq(knl.tree, Loop("i", Leaf("insn"))))


def test_a_statement_stands_in_one_launch() -> None:
    ordered = lk.lower(two_launches(), stop="schedule").scheduled
    first, second = ordered.launches
    with pytest.raises(InternalError, match="order contains 'insn' twice"):
        replace(ordered, launches=(first, replace(second, tree=seq(first.tree, second.tree))))
