"""Lanes that exchange values: each fault of a step is found, and gives some lane a wrong result."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.ast.nodes import Block, For, If, Node, Region
from loopkit.errors import InternalError
from loopkit.instructions.shuffle import Excluded, Shuffle
from loopkit.lowering import shuffles
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lower_fully, lowered_once
from loopkit.lowering.shuffles import OverThreads, Part
from loopkit.verification.validation import validate
from tests.deep import shared
from tests.lowering.kernels import F32, make
from tests.verification.changed import changed

OFFSETS = (16, 8, 4, 2, 1)
X = np.arange(64, dtype=np.float32).reshape(2, 32)**2
WANTED = X - X.sum(axis=1, keepdims=True)


def centred(operation: str = "sum", lanes: int = 32, dtype: type = F32, **kwargs: Any) -> lk.LoopKernel:
    """Each lane needs the result, for an element of its own."""
    knl = lk.make_kernel(f"{{[i,k,j]: 0<=i<n and 0<=k,j<{lanes}}}", f"""
        for i
            <> s = {operation}(k, x[i,k])
            for j
                y[i,j] = x[i,j] - s
            end
        end
        """, **kwargs)
    return lk.tag_inames(lk.add_dtypes(knl, {"x": dtype}), "i:g.0, k:l.0, j:l.0")


@shared
def usual() -> lk.LoopKernel:
    return centred()


def kinds(lowered: Lowered) -> set[str]:
    return {found.kind for found in validate(lowered)}


def test_each_lane_has_the_result() -> None:
    for lockstep in (32, 4):
        assert (lk.emulate(usual(), x=X, lockstep=lockstep).y == WANTED).all()
    assert kinds(lowered_once(usual())) == set()


# Faults of an instruction

def with_shuffles(change: Callable[[Shuffle], Shuffle]) -> Lowered:
    def one(node: Node) -> Node:
        if isinstance(node, Region) and isinstance(node.instruction, Shuffle):
            return replace(node, instruction=change(node.instruction))
        return node
    return changed(lowered_once(usual()), one)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("change", [
    lambda shuffle: replace(shuffle, offset=shuffle.offset // 2 or 16),
    lambda shuffle: replace(shuffle, offset=2*shuffle.offset % 31),
    lambda shuffle: replace(shuffle, excluded=Excluded.UNUSED),
    lambda shuffle: replace(shuffle, excluded=Excluded.KEPT)])
def test_a_wrong_mask_or_a_step_in_one_direction(offset: int, change: Callable[[Shuffle], Shuffle]) -> None:
    wrong = with_shuffles(lambda shuffle: change(shuffle) if shuffle.offset == offset else shuffle)
    assert kinds(wrong) == {"lane"}
    assert not (lk.emulate(usual(), x=X, program=wrong.program).y == WANTED).all()


def test_a_result_from_the_own_register_needs_all_steps() -> None:
    wrong = with_shuffles(lambda shuffle: shuffle if shuffle.offset is None
                          else replace(shuffle, excluded=Excluded.UNUSED))
    (found,) = validate(wrong)
    assert found.text == ("'insn.k.result' reads 'acc_k_warp[0]' in a lane that may hold another element of 32 lanes")


@pytest.mark.parametrize("width", [16, 64])
def test_groups_of_another_width(width: int) -> None:
    for here in (lambda offset: offset is None, lambda offset: offset == 16, lambda offset: offset == 4):
        wrong = with_shuffles(lambda shuffle, here=here: replace(shuffle, width=width) if here(shuffle.offset)
                              else shuffle)
        assert kinds(wrong) == {"lane"}


# Faults of lowering, of which the kernel's own statements have the same

def lowered_with(steps: Callable[[list[Part]], list[Part]]) -> Lowered:
    right = shuffles._halving_steps

    def wrong(threads: OverThreads, array: str, together: int, why: str) -> Iterator[Part]:
        yield from steps([*right(threads, array, together, why)])
    with mock.patch.object(shuffles, "_halving_steps", wrong):
        return lower_fully(centred())


@pytest.mark.parametrize("number", range(5))
def test_a_missing_step(number: int) -> None:
    wrong = lowered_with(lambda parts: parts[:number] + parts[number + 1:])
    assert "lane" in kinds(wrong)
    assert not (lk.emulate(usual(), x=X, program=wrong.program).y == WANTED).all()


def test_steps_in_another_order() -> None:
    for wrong in (lowered_with(lambda parts: parts[::-1]), lowered_with(lambda p: [p[1], p[0], *p[2:]])):
        assert "lane" in kinds(wrong)


@pytest.mark.parametrize(("options", "patched"), [
    ({"dtype": np.complex64}, "may_exchange"), ({"lanes": 24}, "_in_butterflies")])
def test_reductions_that_cannot_exchange_values(options: dict[str, Any], patched: str) -> None:
    """The order of two values may change the bits, or a lane has no other one."""
    assert kinds(lower_fully(centred(**options))) == set()
    with mock.patch.object(shuffles, patched, return_value=True):
        assert kinds(lower_fully(centred(**options))) == {"lane"}


def test_an_operation_of_the_user_cannot() -> None:
    own = lk.ReductionOperation("either", "a + b - a*b", neutral=0, reorderable=True)
    with mock.patch.object(shuffles, "may_exchange", return_value=True), \
            pytest.raises(InternalError, match="lanes of a group of 32 cannot exchange the values"):
        lower_fully(centred("either", reductions=[own]))


# Other places of the program

def of_three(tag: str, **options: Any) -> lk.LoopKernel:
    """Three sums in one after another, or each step of all three at once."""
    knl = make("{[i,u,k]: 0<=i<n and 0<=u<3 and 0<=k<32}", "y[i,u] = sum(k, x[i,u,k])", x=F32)
    return lk.set_options(lk.tag_inames(knl, f"i:g.0, k:l.0, u:{tag}"), **options)


@pytest.mark.parametrize("knl", [of_three("unr"), of_three("ilp"), of_three("ilp", textual_unroll=True)],
                         ids=["unr", "ilp", "text"])
def test_registers_for_each_iteration(knl: lk.LoopKernel) -> None:
    assert "__shfl_xor_sync" in lk.generate_code(knl).source
    assert kinds(lower_fully(knl)) == set()
    x = np.arange(192, dtype=np.float32).reshape(2, 3, 32)
    assert (lk.emulate(knl, x=x).y == x.sum(axis=2)).all()


def is_step(node: Node, offset: int) -> bool:
    return isinstance(node, Region) and isinstance(node.instruction, Shuffle) and node.instruction.offset == offset


def test_a_step_of_some_iterations_only() -> None:
    def shorter(node: Node) -> Node:
        if isinstance(node, For) and is_step(node.body.children[0], 8):
            return replace(node, stop=2)
        return node
    assert kinds(changed(lower_fully(of_three("ilp")), shorter)) == {"missing", "lane"}


def test_a_step_under_a_condition() -> None:
    def sometimes(node: Node) -> Node:
        return Block((If(p.Comparison(p.Variable("i"), "<", 1), Block((node,))),)) if is_step(node, 8) else node
    assert {"missing", "lane"} <= kinds(changed(lowered_once(usual()), sometimes))


def test_a_condition_around_all_steps() -> None:
    knl = make("{[i,j,k]: 0<=i<n and 0<=j<l and 0<=k<8}", """
        for i
            for j
                if j >= 3
                    y[i,j] = sum(k, x[i,j,k])
                end
                z[i,j] = 2*y[i,j]
            end
        end
        """, x=F32)
    knl = lk.split_iname(lk.tag_inames(knl, "k:l.0"), "i", 4, outer_tag="g.0", inner_tag="l.1")
    assert "__shfl_xor_sync" in lk.generate_code(knl).source
    assert kinds(lower_fully(knl)) == set()
