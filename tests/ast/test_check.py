"""Malformed loop programs are refused, each with the name at fault."""
from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pymbolic.primitives as p
import pytest
from pymbolic.typing import Expression

from loopkit.ast.arrays import Array
from loopkit.ast.check import require_well_formed
from loopkit.ast.nodes import Assign, Block, Define, For, Function, If, Node, Region, Sync
from loopkit.errors import InternalError
from loopkit.instructions.shuffle import Excluded, Shuffle

AT, NEXT, N, LANE = (p.Variable(name) for name in ("i", "j", "n", "lane"))
SYNC = Sync(())


def write(value: Expression) -> Assign:
    return Assign(p.Subscript(p.Variable("y"), value), 1, None, "S")


def loop(iname: str, *body: Node) -> For:
    return For(iname, 0, N, 1, Block(body))


def when(condition: Expression, *body: Node) -> If:
    return If(condition, Block(body))


def above(value: Expression, least: int) -> Expression:
    return p.Comparison(value, ">", least)


def checked(*body: Node) -> None:
    function = Function("f", {"l.0": 8}, {"lane": p.Variable("l.0")}, (), Block(body))
    require_well_formed(function, {"y", "n"}, {"lane", "l.0"})


RIGHT = {
    "nested loops": (loop("i", loop("j", write(AT + NEXT))),),
    "one name in two loops": (loop("i", write(AT)), loop("i", write(AT))),
    "one name in two blocks": (when(above(N, 1), Define("i", 1), write(AT)),
                               when(above(N, 2), Define("i", 2), write(AT))),
    "a loop over the name of a constant": (Define("i", 3), write(AT), loop("i", write(AT))),
    "a constant from the loop around it": (loop("i", Define("j", AT + 1), write(NEXT)),),
    "an axis": (Region(Block((write(p.Variable("l.0")),))),),
    "a barrier under a name that is uniform here": (
        when(above(N, 1), Region(Block((Define("i", LANE),)))), Define("i", N), when(above(AT, 3), SYNC)),
    "a barrier in a uniform loop": (loop("i", Region(Block((write(AT),))), SYNC),),
}

WRONG = {
    "no loop around it": ((write(AT),), "'i' has no value"),
    "after its loop": ((loop("i", write(AT)), write(AT)), "'i' has no value"),
    "after its block": ((when(above(N, 1), Define("i", 1)), write(AT)), "'i' has no value"),
    "in the bounds of its own loop": ((For("i", AT, N, 1, Block((write(AT),))),), "'i' has no value"),
    "in a condition": ((when(above(AT, 1), write(N)),), "'i' has no value"),
    "two meanings in one block": ((Define("i", 1), write(AT), Define("i", 2)), "'i' is defined twice"),
    "two meanings in regions, which may be printed without braces": (
        (Region(Block((Define("i", 1),))), SYNC, Region(Block((Define("i", 2),)))), "'i' is defined twice"),
    "a constant of one region in the next": (
        (Region(Block((Define("i", 1),))), SYNC, Region(Block((write(AT),)))), "'i' has no value"),
    "hidden loop variable": ((loop("i", Define("i", N + 1), write(AT)),), "'i' hides the variable of a loop"),
    "hidden loop variable, further in": (
        (loop("i", when(above(AT, 1), Define("i", N), write(AT))),), "'i' hides the variable of a loop"),
    "a constant of itself": ((Define("i", 0), when(above(N, 0), Define("i", AT + 1))), "'i' is defined by itself"),
    "one loop in another": ((loop("i", loop("i", write(AT))),), "a loop over 'i' is in another one"),
    "a barrier for some threads": ((when(above(LANE, 3), SYNC),), "a barrier is where not all"),
    "a barrier for some threads, by another name": (
        (Define("i", LANE + 1), when(above(AT, 3), SYNC)), "a barrier is where not all"),
    "a barrier in a loop of some threads": (
        (For("i", 0, LANE, 1, Block((SYNC,))),), "a barrier is where not all"),
    "a barrier in a region": ((Region(Block((SYNC,))),), "a barrier is where not all"),
}


def shuffled(target: Expression, distance: int) -> Region:
    """A read of the register of the lane that is two lanes further on, by a shuffle over *distance* lanes."""
    read = p.Subscript(p.Variable("w"), LANE + 2)
    return Region(Block((Assign(p.Subscript(p.Variable("w"), target), read, None, "S"),)), Shuffle(distance, 32))


def exchanged(combine: str | None, width: int) -> Region:
    """An exchange with the lane two lanes further on, in groups of *width*."""
    own = p.Subscript(p.Variable("w"), LANE)
    read = p.Subscript(p.Variable("w"), p.Sum((LANE, 2)))
    return Region(Block((Assign(own, read, combine, "S"),)), Shuffle(2, width, Excluded.SAME))


@pytest.mark.parametrize(("body", "fault"), [
    (shuffled(LANE, 2), None), (shuffled(LANE, 1), "'w.lane . 2.' is not held 1 lanes further on than 'w.lane.'"),
    (exchanged("sum", 32), None), (exchanged("sum", 2), "The lanes of a group of 2 cannot exchange"),
    (exchanged(None, 32), "The lanes of a group of 32 cannot exchange the values of 'w.lane.' 2 lanes further on"),
    (when(above(LANE, 3), shuffled(LANE, 2)), "a shuffle is where not all threads of a block come")])
def test_shuffles(body: Node, fault: str | None) -> None:
    warp = Array("w", np.dtype(np.float32), (32,), shared=False, thread_axes=1)
    function = Function("f", {"l.0": 32}, {"lane": p.Variable("l.0")}, (warp,), Block((body,)))
    with nullcontext() if fault is None else pytest.raises(InternalError, match=fault):
        require_well_formed(function, {"y", "n"}, {"lane", "l.0"})


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT.keys())
def test_what_is_right_passes(body: tuple[Node, ...]) -> None:
    checked(*body)


@pytest.mark.parametrize(("body", "fault"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_named(body: tuple[Node, ...], fault: str) -> None:
    with pytest.raises(InternalError, match=fault):
        checked(*body)
