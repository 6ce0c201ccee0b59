"""Written elements of the outputs, and temporaries that are read too early."""
from __future__ import annotations

import pytest

import loopkit as lk
import loopkit.verification.accesses as verification_accesses
from tests.lowering.kernels import F32, make


def coverage(knl: lk.LoopKernel) -> lk.Check:
    return lk.check_coverage(knl)["coverage"]


def test_a_note_that_isl_cannot_afford_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification_accesses, "IMPORTANT", 0)
    check = coverage(make("{[i]: 0<=i<n}", "y[i] = x[i]", x=F32))
    assert check.verdict is lk.Verdict.PROVEN
    assert check.notes == ("y: whether every element is written is unknown: isl stopped after 0 operations",)


@pytest.mark.parametrize(("domain", "text", "note"), [
    ("{[i]: 0<=i<n}", "y[i] = x[i]", "y: every element is written once"),
    ("{[i]: 1<=i<n}", "y[i] = x[i]", "y: not every element is written; with n = 1: y[0] is not"),
    ("{[i]: 0<=i<n}", "y[2*i] = x[i]", "y: not every element is written; with n = 2: y[1] is not"),
    ("{[i]: 0<=i<n}", "y[i] = x[i]\ny[i] = 2*y[i]", "y: every element is written, some more than once"),
    ("{[i]: 0<=i<n}", "y[i] = x[i] {if=x[i] > 0}",
     "y: which elements are written is unknown, because a condition is read from memory"),
    ("{[i]: 0<=i<n}", "y[i] = x[i]\ny[i] = 1 {if=x[i] > 0}",
     "y: every element is written whatever the data, some more than once"),
    ("{[i,j]: 0<=i,j<n}", "y[i] = sum(j, x[i,j])", "y: every element is written once"),
])
def test_outputs(domain: str, text: str, note: str) -> None:
    check = coverage(make(domain, text, x=F32))
    assert check.verdict is lk.Verdict.PROVEN
    assert check.notes == (note,)


EARLY = {
    "a part that nobody writes": ("{[i,j]: 1<=i<8 and 0<=j<8}", """
        for i
            <> t[i] = x[i]
        end
        for j
            y[j] = t[j] {id=read}
        end
        """, "read[j=0] reads t[0]"),
    "an element of the iteration to come": ("{[i]: 0<=i<n}", """
        for i
            y[i] = t[i+1] {id=read}
            t[i] = x[i]
        end
        """, "with n = 1: read[i=0] reads t[1]"),
    "one of two reads": ("{[i,j]: 0<=i<8 and 0<=j<8}", """
        for i
            <> t[i] = x[i]
        end
        for j
            y[j] = t[j] + t[j+1] {id=read}
        end
        """, "read[j=7] reads t[8]"),
    "a loop without iterations": ("{[i]: 0<=i<n}", """
        for i
            <> t = x[i]
        end
        y[0] = t {id=read, inames=}
        """, "with n = 0: read reads t"),
}


@pytest.mark.parametrize(("domain", "text", "witness"), EARLY.values(), ids=EARLY)
def test_early_reads(domain: str, text: str, witness: str) -> None:
    knl = make(domain, text, [lk.TemporaryVariable("t", F32), "..."], x=F32)
    check = coverage(knl)
    assert check.verdict is lk.Verdict.REFUTED
    assert [f.witness for f in check.findings] == [witness]
    assert check.findings[0].text == "'read' reads 't' before anything is written there."
    with pytest.raises(lk.VerificationError, match="before anything is written") as caught:
        lk.generate_code(knl)
    assert isinstance(caught.value.witness, lk.AccessWitness)


@pytest.mark.parametrize("text", [
    """
    for i
        <> t = x[i]
        y[i] = t
    end
    """, """
    for i
        <> t = 0
        t = x[i] {if=x[i] > 0}
        y[i] = t
    end
    """, """
    for i
        <> c = x[i] > 0
        if c
            <> t = x[i]
        else
            t = -x[i]
        end
        y[i] = t
    end
    """, """
    for i
        if x[i] > 0
            <> t = x[i]
            y[i] = t
        end
    end
    """])
def test_what_is_written_in_time(text: str) -> None:
    assert coverage(make("{[i]: 0<=i<n}", text, x=F32)).verdict is lk.Verdict.PROVEN


def test_a_write_under_a_condition_is_undecided() -> None:
    check = coverage(make("{[i]: 0<=i<n}", """
        for i
            <> t = x[i] {if=x[i] > 0}
            y[i] = t {id=read}
        end
        """, x=F32))
    assert check.verdict is lk.Verdict.UNDECIDED
    assert [f.text for f in check.findings] == [
        "whether 't' is written before 'read' reads it: a condition of 'insn' is read from memory."]


def test_sizes_may_be_assumed() -> None:
    domain, text, _ = EARLY["a loop without iterations"]
    knl = lk.add_dtypes(lk.make_kernel(domain, text, assumptions="n >= 1"), {"x": F32})
    assert coverage(knl).verdict is lk.Verdict.PROVEN


def test_a_shape_that_is_no_affine_form() -> None:
    check = coverage(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2.0", [lk.GlobalArg("y", F32, ("n*m",)), "..."]))
    assert check.verdict is lk.Verdict.PROVEN
    assert check.notes == ("y: whether every element is written is unknown, because its shape is not an affine form",)
