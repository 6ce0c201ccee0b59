"""Copies that go to shared memory by themselves, and the waits for them."""
from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import loopkit as lk
from loopkit.instructions.asynchronous_copy import AsynchronousCopy
from loopkit.instructions.groups import commits, group_instructions, pending
from loopkit.kernel.tree import Barrier
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lowered_once
from loopkit.verification.validation import validate
from tests.property.machine import MachineError, execute
from tests.transform.same import assert_same, step
from tests.transform.test_pipelining import BODY
from tests.verification.changed import built, report, with_one_changed


def reversed_rows(body: str = BODY, dtype: type = np.float32) -> lk.LoopKernel:
    knl = lk.make_kernel("{[k, i, j]: 0<=k<n and 0<=i,j<8}", body, assumptions="n>=0")
    knl = lk.add_dtypes(knl, {"a": dtype})
    return lk.tag_inames(knl, {x: "l.0" for x in "ij" if x in knl.inames})


def in_place() -> lk.LoopKernel:
    return reversed_rows(BODY.replace("c[k, j]", "a[k, j]"))


def piped(stages: int, **sizes: int) -> lk.LoopKernel:
    return lk.pipeline(lk.fix_parameters(reversed_rows(), **sizes), "k", stages, asynchronous=True)


def places(knl: lk.LoopKernel) -> list[str]:
    """What threads do at each place for groups and barriers."""
    return [line.split("  #")[0].strip() for line in str(lk.lower(knl, stop="barriers")).splitlines()
            if "group" in line or "barrier" in line]


# What it makes

@pytest.mark.deep
@pytest.mark.parametrize("make", [reversed_rows, in_place])
@pytest.mark.parametrize("stages", [2, 3])
def test_the_result_stays(make: object, stages: int) -> None:
    assert callable(make)
    plain = make()
    knl = step(plain, lk.pipeline, "k", stages, asynchronous=True)
    assert lk.verify(knl, full=True).verdict is lk.Verdict.PROVEN
    for n in (0, 1, 2, 7):
        assert_same(plain, knl, n=n)
        run(lowered_once(knl), n)


def test_the_copies_come_first_and_say_what_they_are() -> None:
    plain = lk.make_kernel("{[k, i, j]: 0<=k<n and 0<=i,j<8}", BODY)
    assert lk.pipeline(plain, "k", 3, asynchronous=True).statements_text == """\
for k_first, i
  t[k_first, i] = a[k_first, i]  {id=copy_first, async}
end
for k
  for i
    t[(k + 2) % 3, i] = a[k + 2, i]  {id=copy, async}
  end
  for j
    c[k, j] = t[k % 3, 7 - j]  {id=use}
  end
end"""


def test_the_language_has_a_word_for_it() -> None:
    knl = reversed_rows(BODY.replace("{id=copy}", "{id=copy, async}"))
    assert knl.statement("copy").instructions == (AsynchronousCopy(),)
    assert places(knl) == ["commit group, wait for all groups, warp barrier", "warp barrier"]


def test_waits_leave_as_much_under_way_as_they_may() -> None:
    loop = "commit group, wait for all groups but 2, warp barrier"
    assert places(piped(4, n=9)) == ["commit group", "wait for all groups but 2, warp barrier", loop]
    # of two iterations the first copies may be one group, and the loop's waits would leave both under way
    assert places(piped(4)) == ["commit group", "wait for all groups, warp barrier", loop]
    assert places(piped(2)) == ["commit group, wait for all groups, warp barrier"]*2


def test_the_text_for_cuda() -> None:
    source = lk.generate_code(piped(3, n=9), target="cuda").source
    assert "copy_async<4>(&t[k_first][i], &a[8*k_first + i]);" in source
    assert "    wait_for_copies<1>();\n    __syncwarp();\n    for (int k = 0;" in source
    assert "        end_copy_group();\n        wait_for_copies<1>();\n        __syncwarp();\n    }" in source


# What is refused

def refused(body: str, dtype: type = np.float32) -> lk.PreconditionError:
    with pytest.raises(lk.PreconditionError) as caught:
        lk.pipeline(reversed_rows(body, dtype), "k", asynchronous=True)
    return caught.value


def test_a_copy_moves_bits() -> None:
    assert "'copy' cannot be asynchronous: it is not a copy" in str(refused(BODY.replace("a[k, i]", "2*a[k, i]")))
    assert "elements of int16 have 2 bytes" in str(refused(BODY, np.int16))
    assert "converts float32 to float64" in str(refused(BODY.replace("<>", "<float64>")))


def test_types_that_are_known_later() -> None:
    knl = lk.make_kernel("{[k, i, j]: 0<=k<n and 0<=i,j<8}", BODY)
    knl = lk.pipeline(lk.tag_inames(knl, "i:l.0, j:l.0"), "k", asynchronous=True)
    with pytest.raises(lk.PreconditionError, match="2 bytes"):
        lk.lower(lk.add_dtypes(knl, {"a": np.int16}))


def test_one_stage() -> None:
    with pytest.raises(lk.PreconditionError, match="without registers"):
        lk.pipeline(reversed_rows(), "k", 1, asynchronous=True)


def test_what_the_hardware_has() -> None:
    with pytest.raises(lk.PreconditionError, match="needs an asynchronous copy, which sm_75 does not have"):
        lk.generate_code(piped(2), target=lk.CudaTarget(arch="sm_75"))
    own = reversed_rows("<> t = a[k, i]  {id=copy, async}\nc[k, i] = t")
    with pytest.raises(lk.PreconditionError, match="'t' is private and not in shared memory"):
        lk.generate_code(own, target="cuda")
    assert_same(reversed_rows("c[k, i] = a[k, i]"), own, n=5)


# Wrong waits are found

def run(lowered: Lowered, n: int) -> np.ndarray:
    rng = np.random.default_rng(n)
    arrays = {name: rng.integers(-9, 9, (n, 8)) for name in lowered.kernel.array_args}
    return execute(lowered, arrays, {"n": n}, random.Random(n))[max(arrays)]


def breaks(lowered: Lowered, n: int) -> bool:
    try:
        run(lowered, n)
    except MachineError as err:
        return "a copy is under way" in str(err)
    return False


def wrong(wait: Barrier) -> Iterator[Barrier]:
    """A wait dropped or one group weaker, or a group not ended."""
    ends, left = commits(wait.instructions), pending(wait.instructions)
    if left is not None:
        yield replace(wait, instructions=group_instructions(commit=ends, leaving=None))
        yield replace(wait, instructions=group_instructions(commit=ends, leaving=left + 1))
    if ends:
        yield replace(wait, instructions=group_instructions(commit=False, leaving=left))


@pytest.mark.deep
@pytest.mark.parametrize("sizes", [{}, {"n": 9}], ids=["any size", "known size"])
@pytest.mark.parametrize("stages", [2, 3])
def test_every_wrong_wait_is_found(stages: int, sizes: dict[str, int]) -> None:
    """By the check of the tree, by that of the program, and by a machine where copies are as late as may be."""
    knl = piped(stages, **sizes)
    count = 0
    for lowered in map(built, with_one_changed(lowered_once(knl), wrong)):
        races = report(knl, lowered)["races"]
        assert races.verdict is lk.Verdict.REFUTED, lowered
        assert "an asynchronous copy, is performed" in str(races)
        assert {f.kind for f in validate(lowered)} == {"group"}
        count += 1
        assert any(breaks(lowered, n) for n in sizes.values() or range(8))
    assert count >= 6
