"""Illegal steps are refused with their smallest witness, their legal twins are proven and compute the same.

Witnesses are judged by enumeration: :mod:`tests.legality.trace`.
"""
from __future__ import annotations

import pytest

import loopkit as lk
from loopkit.errors import Witness
from tests.golden_files import GoldenFiles
from tests.legality.pairs import LOOPS, LOWERED, UNDECIDED, Nest, Step, Twins
from tests.legality.reshaped import RESHAPED
from tests.legality.trace import Judged, require_smallest, require_smallest_loss
from tests.transform.same import assert_same

TWINS = {**LOOPS, **RESHAPED}


def steps_of(knl: lk.LoopKernel, steps: tuple[Step, ...]) -> list[lk.LoopKernel]:
    """*knl*, and the kernel after each step."""
    kernels = [knl]
    for one in steps:
        kernels.append(one.apply(kernels[-1]))
    return kernels


def refusal(twins: Twins) -> tuple[list[lk.LoopKernel], lk.IllegalTransformError]:
    kernels = steps_of(twins.nest.kernel(), twins.before)
    with pytest.raises(lk.IllegalTransformError) as caught:
        twins.illegal.apply(kernels[-1])
    return kernels, caught.value


@pytest.mark.parametrize("name", TWINS)
def test_illegal(name: str) -> None:
    twins = TWINS[name]
    kernels, error = refusal(twins)
    assert isinstance(error.witness, Witness)
    assert str(error.witness) in str(error)
    forced = twins.illegal.apply(kernels[-1], unsafe=True)
    assert forced.history[-1].verdict == "unsafe"
    if twins.illegal.name == "privatize":
        require_smallest_loss([*kernels, forced], error.witness)
    else:
        require_smallest([*kernels, forced], error.witness, twins.reach)


@pytest.mark.parametrize("name", [*TWINS, *UNDECIDED])
def test_legal(name: str) -> None:
    twins = {**TWINS, **UNDECIDED}[name]
    require_proven_and_right(twins.twin, twins.legal)


def require_proven_and_right(nest: Nest, steps: tuple[Step, ...]) -> None:
    knl = nest.kernel()
    result = steps_of(knl, steps)[-1]
    assert {h.verdict for h in result.history} <= {"proven", "structural"}
    assert not result.obligations
    for given in nest.sizes:
        assert_same(knl, result, **given)


def test_refusals_read_well(golden: GoldenFiles) -> None:
    """One line each: the step, and its smallest witness."""
    golden.check("refusals.txt", "\n".join(f"{name}: {refusal(twins)[1].witness}" for name, twins in TWINS.items()))


@pytest.mark.parametrize("name", UNDECIDED)
def test_undecided(name: str) -> None:
    twins = UNDECIDED[name]
    knl = twins.nest.kernel()
    with pytest.raises(lk.UndecidedError) as caught:
        twins.illegal.apply(knl)
    assert "read from memory" in caught.value.reason
    assumed = twins.illegal.apply(knl, assume="the data are such that it holds")
    assert assumed.history[-1].verdict == "assumed"
    assert assumed.obligations


@pytest.mark.parametrize("name", LOWERED)
def test_illegal_when_lowered(name: str) -> None:
    twins = LOWERED[name]
    knl = twins.illegal.kernel()
    kernels = steps_of(knl, twins.steps)
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.lower(kernels[-1])
    judged = Judged(tuple(kernels), {})
    witness = caught.value.witness
    meeting = [p for p in judged.pairs() if dict(p.source.values) == witness.source[1]
               and dict(p.sink.values) == witness.sink[1] and (p.array, p.element) == (witness.array, witness.element)]
    assert meeting
    assert witness.source[1] != witness.sink[1]                     # two threads
    assert_same(twins.legal.kernel(), steps_of(twins.legal.kernel(), twins.steps)[-1])


def test_there_are_enough() -> None:
    assert len(TWINS) == len(LOOPS) + len(RESHAPED)
    assert len(TWINS) + len(UNDECIDED) + len(LOWERED) >= 60
