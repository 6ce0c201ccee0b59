"""take_turns: warpgroups run a part of a loop one after another; its faults are found, and what it refuses."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import loopkit as lk
from loopkit.ast.nodes import Block, Node, Scope, Sync
from loopkit.ast.walk import as_block, nodes_in, rewritten
from loopkit.instructions.turns import Turn
from loopkit.lowering.lowered import Lowered
from loopkit.verification.validation import validate
from tests.tma_kernels import rowsum


def tripled(blocks: int = 0, *, threads: int = 256) -> lk.LoopKernel:
    """``y[b, t, i] = 3*x[b, t, threads - 1 - i] + 1`` by way of tiles that a producer copies."""
    knl = lk.make_kernel(f"{{[b, t, k, i]: 0<=b<n and 0<=t<m and 0<=k,i<{threads}}}", f"""
        for b, t
            for k
                <> tile[k] = x[b, t, k]  {{id=copy}}
            end
            for i
                <> s = tile[{threads - 1} - i]  {{id=load}}
                <> u = 3*s  {{id=triple}}
                y[b, t, i] = u + 1  {{id=store}}
            end
        end""", assumptions="n, m >= 1")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "b:g.0, i:l.0")
    knl = lk.specialize_warps(lk.pipeline(lk.tensorize(knl, "copy", "tma.load"), "t", 2, ahead=0), "copy")
    return lk.persistent(knl, blocks) if blocks else knl


@cache
def lowered(blocks: int = 0) -> Lowered:
    return lk.lower(lk.take_turns(tripled(blocks), "triple", "store"))


@pytest.mark.parametrize("blocks", [0, 2])
def test_warpgroups_take_turns(blocks: int) -> None:
    knl = lk.take_turns(tripled(blocks), "triple", "store")
    assert [str(x) for x in knl.barriers] == ["turns from triple to store"]
    assert lk.verify(knl).proven
    (function,) = lowered(blocks).program.functions
    titles = [x.title for x in nodes_in(function.body) if isinstance(x, Sync)]
    assert titles[-3:] == ["arrive for phase t of tile_empty", "begin of a turn", "end of a turn"]
    assert titles.count("turns of 2 warpgroups") == 1
    x = np.random.default_rng(0).integers(-9, 9, (3, 3, 256)).astype(np.float32)
    for completion, order in (("first", "forward"), ("last", "backward")):
        found = lk.emulate(knl, x=x, completion=completion, order=order).y
        np.testing.assert_array_equal(found, 3*x[..., ::-1] + 1)


def _faults(node: Node) -> Iterator[tuple[str, Node]]:
    """What may be in place of *node*, with what is wrong."""
    match node:
        case Sync(instructions=(Turn(act, count) as turn,)):
            yield f"no {act}", Block()
            yield from ((f"{other} for {act}", replace(node, instructions=(replace(turn, act=other),)))
                        for other in ("start", "begin", "end") if other != act)
            yield f"{act} of other threads", replace(node, instructions=(replace(turn, warpgroups=count + 1),))
            if act != "start":
                yield f"two of {act}", Block((node, node))
            if act == "begin":
                yield "a barrier in a turn", Block((node, Sync(threads=256)))
                yield "all begins again", Block((Sync((), Scope.THREAD, (replace(turn, act="start"),)), node))
        case _:
            pass


def test_faults_are_found() -> None:
    """A turn that does not begin ends no wait of the others, but they may then run at once."""
    low = lowered()
    (function,) = low.program.functions
    kinds = set[str]()
    for node in nodes_in(function.body):
        for kind, wrong in _faults(node):
            body = as_block(rewritten(function.body, lambda x, node=node, wrong=wrong: wrong if x is node else x))
            program = replace(low.program, functions=(replace(function, body=body),))
            assert any(found.kind == "turns" for found in validate(replace(low, program=program))), kind
            kinds.add(kind)
    assert len(kinds) == 3 + 6 + 3 + 2 + 2


def test_a_turn_that_does_not_end_lasts_forever() -> None:
    low = lowered()
    (function,) = low.program.functions
    body = as_block(rewritten(function.body, lambda x: Block() if isinstance(x, Sync) and any(
        isinstance(i, Turn) and i.act == "end" for i in x.instructions) else x))
    program = replace(low.program, functions=(replace(function, body=body),))
    with pytest.raises(lk.VerificationError, match="nothing ends a turn of a warpgroup"):
        lk.emulate(low.kernel, x=np.zeros((1, 1, 256), np.float32), program=program)


def _no_turn_of_one() -> object:
    return lk.lower(lk.take_turns(tripled(threads=128), "triple", "store"))


def _in_two_launches() -> object:
    knl = lk.make_kernel("{[b, k, i, a, j]: 0<=b,a<n and 0<=k,i,j<256}", """
        for b
            for k
                <> tile[k] = x[b, k]  {id=copy}
            end
            for i
                y[b, i] = tile[255 - i]  {id=use}
            end
        end
        ... gbarrier
        z[a, j] = y[a, j]  {id=next}""", [lk.GlobalArg("x, y, z", np.float32, "n, 256")])
    knl = lk.tensorize(lk.tag_inames(knl, "b:g.0, a:g.0, i:l.0, j:l.0"), "copy", "tma.load")
    return lk.lower(lk.take_turns(lk.specialize_warps(knl, "copy"), "use", "next"))


REFUSED: dict[str, tuple[Callable[[], object], type[lk.LoopkitError], str, str]] = {
    "no producer": (lambda: lk.take_turns(rowsum(1), "insn", "insn"), lk.PreconditionError,
                    "No statement runs in a producer thread", "specialize_warps(knl, copies) first"),
    "an arrival": (lambda: lk.lower(lk.take_turns(tripled(), "load", "store")), lk.PreconditionError,
                   "The turn from 'load' to 'store' contains a synchronization with other threads, which can deadlock: "
                   "arrive for phase t of tile_empty.", "let the turn end earlier, or begin later"),
    "two launches": (_in_two_launches, lk.PreconditionError, "turns from 'use' to 'next', and no loop has both",
                     "two statements of one loop"),
    "one warpgroup": (_no_turn_of_one, lk.PreconditionError, "the block has 128 consumers", "2 to 14 warpgroups"),
    "the other order": (lambda: lk.take_turns(tripled(), "store", "triple"), lk.ScheduleError,
                        "'triple' does not follow 'store'", "pass the two statements in their order"),
    "no statement": (lambda: lk.take_turns(tripled(), "nothing", "store"), lk.UnknownNameError,
                     "'nothing' is not a statement of the kernel", "")}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    make, error, reason, hint = REFUSED[case]
    with pytest.raises(error) as caught:
        make()
    assert reason in str(caught.value)
    assert hint in (getattr(caught.value, "hint", "") or "")
