"""Illegal steps are refused with their smallest witness, their legal twins are proven and compute the same.

Witnesses are judged by enumeration: :mod:`tests.legality.trace`.
"""
from __future__ import annotations

import pytest

import loopkit as lk
from loopkit.errors import Witness
from loopkit.expr.evaluate import evaluate
from tests.golden_files import GoldenFiles
from tests.legality.pairs import LOOPS, LOWERED, UNDECIDED, Nest, Step, Twins
from tests.legality.reshaped import RESHAPED
from tests.legality.stored import BOUNDS, STORED
from tests.legality.trace import Judged, require_smallest, require_smallest_loss, smaller
from tests.legality.updated import UPDATED
from tests.transform.same import assert_same

TWINS = {**LOOPS, **RESHAPED, **UPDATED}


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


@pytest.mark.deep
@pytest.mark.parametrize("name", [*TWINS, *STORED, *UNDECIDED])
def test_legal(name: str) -> None:
    twins = {**TWINS, **STORED, **UNDECIDED}[name]
    require_proven_and_right(twins.twin, twins.legal)


def require_proven_and_right(nest: Nest, steps: tuple[Step, ...]) -> None:
    knl = nest.kernel()
    result = steps_of(knl, steps)[-1]
    assert {h.verdict for h in result.history} <= {"proven", "structural"}
    assert not result.obligations
    for given in nest.sizes:
        assert_same(knl, result, **given)


@pytest.mark.parametrize("name", STORED)
def test_illegal_storage(name: str) -> None:
    """What the two instances touch is looked up; the copies that a step would make are not there yet."""
    kernels, error = refusal(STORED[name])
    witness = error.witness
    judged = Judged((kernels[0], *kernels[1:]), witness.parameters)
    kinds = {"flow": (True, False), "anti": (False, True), "output": (True, True)}[witness.kind]
    found = 0
    for (statement, point), is_write in zip((witness.source, witness.sink), kinds, strict=True):
        if statement in kernels[0].statement_by_id:
            found += 1
            assert any(t.instance.point == point and t.instance.statement == statement and t.is_write == is_write
                       and t.element == (witness.element or ()) for t in judged.touches[witness.array])
    assert found


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


@pytest.mark.deep(every=2)
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


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("name", BOUNDS)
def test_out_of_bounds(name: str) -> None:
    """Refused with the smallest sizes, and at these the first instance of the statement."""
    illegal, legal = BOUNDS[name]
    knl = illegal.kernel()
    with pytest.raises(lk.BoundsError) as caught:
        lk.generate_code(knl)
    witness = caught.value.witness
    assert isinstance(witness, lk.AccessWitness)
    values = [witness.parameters[a.name] for a in knl.arguments if a.name in witness.parameters]
    for sizes in [*smaller(values, 1), tuple(values)]:
        at = dict(zip((a.name for a in knl.arguments if a.name in witness.parameters), sizes, strict=True))
        shape = [evaluate(e, at) for e in knl.array_args[witness.array].shape or ()]
        outside = [t for t in Judged((knl,), at).touches.get(witness.array, ())
                   if not all(0 <= k < extent for k, extent in zip(t.element, shape, strict=True))]
        if sizes == tuple(values):
            first = min(outside, key=lambda t: t.instance.values)
            assert (first.instance.statement, first.instance.point) == witness.instance
            assert witness.element in [t.element for t in outside if t.instance == first.instance]
        else:
            assert not outside, f"{outside[0]} with {at} is smaller than {caught.value}"
    require_proven_and_right(legal, ())


def test_there_are_enough() -> None:
    assert len(TWINS) == len(LOOPS) + len(RESHAPED) + len(UPDATED)
    assert len(TWINS) + len(STORED) + len(UNDECIDED) + len(LOWERED) >= 60
