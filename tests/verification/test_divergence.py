"""Barriers that not all threads of a block reach, in loop programs made by hand."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.ast.arrays import Array
from loopkit.ast.check import divergent_names, divergent_nodes
from loopkit.ast.nodes import Assign, Block, Define, For, Function, If, Node, Region, Sync
from loopkit.lowering.pipeline import lowered_once
from tests.lowering.kernels import exchange
from tests.verification.changed import report

V = p.Variable
SYNC = Sync(())
THREADS = frozenset({"l.0", "l.1", "i_inner"})


def block(*nodes: Node) -> Block:
    return Block(nodes)


UNIFORM = {
    "a condition on the block": If(p.Comparison(V("g.0"), "<", V("n")), block(SYNC)),
    "a loop of the block": For("k", 0, V("n"), 1, block(SYNC)),
    "after a condition on the thread": block(If(p.Comparison(V("l.0"), "<", 3), block()), SYNC),
    "a name of the block": block(Define("m", p.Sum((V("n"), 1))), If(p.Comparison(V("m"), "<", 3), block(SYNC))),
    "a thread's name, given anew": block(
        Define("m", V("l.0")), Define("m", V("n")), If(p.Comparison(V("m"), "<", 3), block(SYNC))),
}

DIVERGENT = {
    "a condition on the thread": If(p.Comparison(V("l.0"), "<", 3), block(SYNC)),
    "the other branch": If(p.Comparison(V("i_inner"), "<", 3), block(), block(SYNC)),
    "a loop of the thread": For("k", 0, V("l.1"), 1, block(SYNC)),
    "a loop within a loop of the thread": For("k", V("l.1"), 9, 1, block(For("m", 0, V("k"), 1, block(SYNC)))),
    "a name of the thread": block(Define("m", p.Sum((V("l.0"), 1))), If(p.Comparison(V("m"), "<", 3), block(SYNC))),
    "deep below": If(p.Comparison(V("l.0"), "<", 3), block(For("k", 0, 9, 1, block(block(SYNC))))),
    "in a region": Region(block(SYNC)),
}


@pytest.mark.parametrize("node", UNIFORM.values(), ids=UNIFORM)
def test_uniform(node: Node) -> None:
    assert list(divergent_nodes(block(node), THREADS)) == []


@pytest.mark.parametrize("node", DIVERGENT.values(), ids=DIVERGENT)
def test_divergent(node: Node) -> None:
    (found,) = divergent_nodes(block(node), THREADS)
    assert found[0] is SYNC
    assert found[1]


def test_a_name_in_an_inner_block_does_not_reach_out() -> None:
    node = block(block(Define("n", V("l.0"))), If(p.Comparison(V("n"), "<", 3), block(SYNC)))
    assert list(divergent_nodes(node, THREADS)) == []


def assign(target: str, value: p.ExpressionNode | int, combine: str | None = None) -> Assign:
    return Assign(V(target), value, combine, "insn")


#: Programs after which the private variable "a" may differ between threads, and those after which it does not.
VALUES = {
    "a value of the thread": (block(assign("a", V("l.0"))), True),
    "through another variable": (block(assign("a", V("b")), assign("b", V("l.0"))), True),
    "through a constant": (block(Define("m", V("l.0")), assign("a", V("m"))), True),
    "under a condition on the thread": (If(p.Comparison(V("l.0"), "<", 3), block(assign("a", 1))), True),
    "in a loop of the thread": (For("k", 0, V("l.0"), 1, block(assign("a", 1, "sum"))), True),
    "an element at the thread's place": (block(assign("a", V("shared")[V("l.0")])), True),
    "one element for all": (block(assign("a", V("shared")[V("n")])), False),
    "a value of the block": (block(assign("a", V("g.0")), assign("b", V("l.0"))), False),
    "in a loop of the block": (For("k", 0, V("n"), 1, block(assign("a", V("k"), "sum"))), False),
}


@pytest.mark.parametrize(("node", "differs"), VALUES.values(), ids=VALUES)
def test_values_that_differ_between_threads(node: Node, differs: bool) -> None:
    arrays = (*(Array(x, np.dtype(np.int32), (), shared=False) for x in "ab"),
              Array("shared", np.dtype(np.int32), (9,), shared=True))
    names = divergent_names(Function("f", {}, {}, arrays, block(node)), THREADS)
    assert ("a" in names) is differs
    barrier = For("k", 0, V("a"), 1, block(SYNC))
    assert [found for found, _ in divergent_nodes(barrier, names)] == [SYNC]*differs


def test_the_report_refutes_a_divergent_barrier() -> None:
    knl = lk.tag_inames(exchange(), "b:g.0, i:l.0, j:l.0")
    lowered = lowered_once(knl)
    (function,) = lowered.program.functions
    under = If(p.Comparison(V("l.0"), "<", 32), function.body)
    changed = replace(lowered, program=replace(lowered.program, functions=(replace(function, body=block(under)),)))
    found = report(knl, changed)
    assert found["barriers"].verdict is lk.Verdict.REFUTED
    assert found["races"].verdict is lk.Verdict.PROVEN
    with pytest.raises(lk.VerificationError, match=r"under the condition .l\.0 < 32., which may differ"):
        found.raise_if_refuted()
