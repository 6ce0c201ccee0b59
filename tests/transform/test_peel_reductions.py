"""peel of reduction inames: the first and the last terms in statements of their own, in the order of the reference."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import loopkit as lk
from tests.transform.kernels import F32
from tests.transform.same import assert_same, step

SIZES = [(1, 0), (2, 1), (3, 2), (4, 3), (5, 9)]


def matvec() -> lk.LoopKernel:
    return lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, a[i, k]*x[k]) + 1",
                          [lk.GlobalArg("a", F32), lk.GlobalArg("x", F32), "..."])


def nested() -> lk.LoopKernel:
    """The inner sum is empty for the first term of the outer one."""
    return lk.make_kernel(["{[i, k]: 0<=i<n and 0<=k<m}", "[k] -> {[j]: 0<=j<k}"],
                          "y[i] = sum(k, x[k]*sum(j, a[i, j])) + 1",
                          [lk.GlobalArg("a", F32), lk.GlobalArg("x", F32), "..."])


def assert_equal(reference: lk.LoopKernel, knl: lk.LoopKernel) -> None:
    for n, m in SIZES:
        assert_same(reference, knl, n=n, m=m)


def test_both_ends() -> None:
    knl = step(matvec(), lk.peel, "k", first=2, last=1)
    assert knl.statements_text == """\
for i
  <> acc_k = 0  {id=insn.k.init}
  for k_first
    acc_k = acc_k + a[i, k_first]*x[k_first]  {id=insn.k.update_first}
  end
  for k
    acc_k = acc_k + a[i, k]*x[k]  {id=insn.k.update}
  end
  for k_last
    acc_k = acc_k + a[i, k_last]*x[k_last]  {id=insn.k.update_last}
  end
  y[i] = acc_k + 1  {id=insn}
end"""
    node = knl.reductions["insn.k"]
    assert node.inames == ("k", "k_first", "k_last")
    assert node.updates == ("insn.k.update", "insn.k.update_first", "insn.k.update_last")
    assert_equal(matvec(), knl)


@pytest.mark.deep
def test_the_order_of_the_terms_is_kept() -> None:
    """Terms of which the second cancels the first, and the third would be lost in either: bit for bit."""
    x, a = np.array([1e8, -1e8, 1, 1e8, 1, -1e8], F32), np.ones((1, 6), F32)
    wanted, = lk.compile(matvec(), target="c")(a=a, x=x)
    for first, last in ((1, 0), (2, 0), (0, 2), (3, 2), (9, 9)):
        y, = lk.compile(lk.peel(matvec(), "k", first, last), target="c")(a=a, x=x)
        assert y.tobytes() == wanted.tobytes()


def test_an_operation_whose_order_counts() -> None:
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", "y[i] = mix(k, x[k])", [lk.GlobalArg("x", F32), "..."],
                         reductions=[lk.ReductionOperation("mix", "2*a + b", neutral=0)])
    peeled = lk.peel(knl, "k", first=1, last=2)
    assert_equal(knl, peeled)
    with pytest.raises(lk.IllegalTransformError):
        lk.reverse(peeled, "k")


@pytest.mark.deep(every=8)
@pytest.mark.parametrize("then", [
    lambda k: lk.split_iname(k, "i", 4, outer_tag="g.0", inner_tag="l.0"),
    lambda k: lk.add_prefetch(lk.split_iname(k, "k", 4), "x", ["k_inner"], within="insn.k.update"),
    lambda k: lk.tag_inames(lk.split_iname(k, "k", 4), "k_inner:unr"),
    lambda k: lk.tag_inames(k, "k_first:unr, i:g.0"),
    lambda k: lk.peel(lk.peel(k, "k", first=1), "i", last=1),
    lambda k: lk.peel(k, "k_first", last=1),
    lambda k: lk.prioritize_loops(lk.split_iname(k, "i", 2, outer_tag="g.0"), "k, i_inner"),
    lambda k: lk.replay(matvec(), k.history),
])
def test_steps_behind_it(then: Callable[[lk.LoopKernel], lk.LoopKernel]) -> None:
    assert_equal(matvec(), then(lk.peel(matvec(), "k", first=2, last=1)))


@pytest.mark.deep(every=6)
@pytest.mark.parametrize("steps", [("k",), ("j",), ("j", "k"), ("k", "j"), ("j", "k", "i"), ("k", "i")])
def test_sums_of_sums(steps: tuple[str, ...]) -> None:
    knl = nested()
    for iname in steps:
        knl = lk.peel(knl, iname, first=1, last=1)
    assert_equal(nested(), knl)
    accumulators = [node.accumulator for node in knl.reductions.values()]
    assert len(set(accumulators)) == len(accumulators)
    assert {s.id for s in knl.statements} >= knl.reduction_of.keys()


def test_the_first_terms_alone() -> None:
    """Nothing is left between the ends."""
    knl = lk.fix_parameters(matvec(), m=2)
    peeled = lk.peel(knl, "k", first=1, last=1)
    assert set(peeled.reductions["insn.k"].updates) == {"insn.k.update_first", "insn.k.update_last"}
    assert_same(knl, peeled, n=5)


def test_accumulated_in_another_dtype() -> None:
    knl = lk.make_kernel("{[k]: 0<=k<m}", "y[0] = sum(k, x[k])", [lk.GlobalArg("x", np.float16), "..."])
    wide = lk.set_accumulator_dtype(lk.peel(knl, "k", first=1), np.float32)
    assert wide.statements_text.count("cast(float32, x") == 2
    assert_same(lk.set_accumulator_dtype(knl, np.float32), wide, m=7)


def test_threads_cannot_share_what_was_peeled() -> None:
    knl = lk.tag_inames(lk.split_iname(lk.peel(matvec(), "k", first=1), "k", 32), "k_inner:l.0")
    with pytest.raises(lk.PreconditionError, match="was peeled, so threads cannot share it") as err:
        lk.lower(lk.add_dtypes(knl, {"y": F32}))
    assert err.value.subject == "k_inner"


def test_around_a_reduction_in_pieces() -> None:
    with pytest.raises(lk.ScheduleError, match="different loops"):
        lk.peel(lk.peel(lk.prioritize_loops(matvec(), "k, i"), "k", 1), "i", 1)
