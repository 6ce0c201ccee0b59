"""Steps on the caller's account: what is undecided may be assumed, what is refuted forced, and both are put down."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from loopkit.kernel.statement import Obligation

F32 = np.float32


def scatter() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "out[index[i]] = x[i]", [
        lk.GlobalArg("index", np.int32, ("n",)), lk.GlobalArg("x,out", F32, ("n",)), "..."])
    return lk.split_iname(knl, "i", 4)


def recurrence() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i]: 0<=i<8}", "a[i+1] = a[i] + b[i]")
    return lk.add_dtypes(knl, {"a,b": F32})


REASON = "index is a permutation"


def test_what_is_undecided_may_be_assumed() -> None:
    knl = scatter()
    with pytest.raises(lk.UndecidedError, match=r"assume=") as caught:
        lk.tag_inames(knl, "i_outer:g.0, i_inner:l.0")
    assert caught.value.hint is not None
    mapped = lk.tag_inames(knl, "i_outer:g.0, i_inner:l.0", assume=REASON)
    assert mapped.obligations == (Obligation(
        "tag_inames(i_outer: g.0, i_inner: l.0)",
        "'insn' and 'insn' never access one element of 'out' in the opposite order", REASON),)
    assert mapped.history[-1].verdict == "assumed"
    assert REASON in str(mapped)
    assert REASON in str(mapped.history[-1])
    index = np.random.default_rng(1).permutation(11).astype(np.int32)
    x = np.arange(11, dtype=F32)
    out, = lk.compile(mapped, target="c")(index=index, x=x)
    assert (out[index] == x).all()


def test_what_was_assumed_binds_no_later_step() -> None:
    mapped = lk.tag_inames(scatter(), "i_inner:l.0", assume=REASON)
    with pytest.raises(lk.UndecidedError):               # of other pairs nothing was said
        lk.tag_inames(mapped, "i_outer:g.0")
    again = lk.tag_inames(mapped, "i_outer:g.0", assume=REASON)
    assert [o.step for o in again.obligations] == ["tag_inames(i_inner: l.0)", "tag_inames(i_outer: g.0)"]
    once_more = lk.untag_inames(again, "i_inner")
    assert once_more.obligations == again.obligations
    assert once_more.history[-1].verdict == "proven"


def test_an_assumption_does_not_overrule_a_refutation() -> None:
    with pytest.raises(lk.IllegalTransformError):
        lk.tag_inames(recurrence(), "i:l.0", assume="it is fine")


@pytest.mark.parametrize("reason", ["", "  "])
def test_an_assumption_gives_a_reason(reason: str) -> None:
    with pytest.raises(lk.PreconditionError, match="the reason why"):
        lk.tag_inames(scatter(), "i_outer:g.0", assume=reason)
    carried = lk.make_kernel("{[i]: 0<=i<8}", "for i\n t[p[i]] = b[i]\n a[i] = t[p[7-i]]\nend", [
        lk.TemporaryVariable("t", F32, (8,)), lk.GlobalArg("p", np.int32, (8,)), "..."])
    with pytest.raises(lk.PreconditionError, match="the reason why"):
        lk.privatize(carried, "i", "t", assume=reason)
    with pytest.raises(lk.PreconditionError, match="the reason why"):
        lk.expand(carried, "t", "i", assume=reason)


@pytest.mark.parametrize("unsafe", ["no", "False", 1, None])
def test_unsafe_is_said_in_so_many_words(unsafe: object) -> None:
    with pytest.raises(lk.PreconditionError, match="unsafe= must be True or False"):
        lk.tag_inames(recurrence(), "i:l.0", unsafe=unsafe)  # type: ignore[arg-type]
    with pytest.raises(lk.PreconditionError, match="unsafe= must be True or False"):
        lk.reverse(recurrence(), "i", unsafe=unsafe)  # type: ignore[arg-type]


def test_nothing_is_owed_for_what_is_proven() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<8}", "y[i] = 2*x[i]"), {"x": F32})
    mapped = lk.tag_inames(knl, "i:l.0", unsafe=True)
    assert mapped.obligations == ()
    assert mapped.history[-1].verdict == "proven"


def test_unsafe_steps_are_put_down_with_the_witness() -> None:
    mapped = lk.tag_inames(recurrence(), "i:g.0", unsafe=True)
    owed, = mapped.obligations
    assert owed.reason is None
    assert "insn[i=0] writes a[1], which insn[i=1] reads" in owed.claim
    assert "(unsafe)" in str(mapped)
    assert mapped.history[-1].verdict == "unsafe"
    assert lk.lower(mapped) is not None                  # it goes all the way


def test_unsafe_waives_every_broken_pair() -> None:
    """Two loops that break, in two ways, one after the other: a later step meets none of them."""
    knl = lk.add_dtypes(lk.make_kernel("{[i, j]: 1<=i,j<8}", "a[i, j] = a[i-1, j+1] + a[i-1, j-1]"), {"a": F32})
    swapped = lk.interchange(knl, "i", "j", unsafe=True)
    assert len(swapped.obligations) >= 1
    assert lk.untag_inames(swapped, "i").obligations == swapped.obligations
    with pytest.raises(lk.IllegalTransformError):        # what was not broken binds still
        lk.tag_inames(swapped, "i:l.0, j:l.1")


def test_equal_kernels_owe_the_same() -> None:
    assert lk.tag_inames(recurrence(), "i:g.0", unsafe=True) != recurrence()
    assert lk.tag_inames(recurrence(), "i:g.0", unsafe=True) == lk.tag_inames(recurrence(), "i:g.0", unsafe=True)


def test_lost_values() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<8}", "for i\n a[i] = t {id=use}\n t = b[i] {id=set}\nend",
                         [lk.TemporaryVariable("t", F32, ()), "..."])
    kept = lk.privatize(knl, "i", "t", unsafe=True)
    assert [o.verdict for o in kept.obligations] == ["unsafe"]


def test_the_error_knows_both_kernels() -> None:
    knl = recurrence()
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.split_iname(knl, "i", 4, outer_tag="g.0")
    assert caught.value.before is knl
    assert "i_outer" in caught.value.after.tags
