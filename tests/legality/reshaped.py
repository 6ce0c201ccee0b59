"""Illegal steps and their legal twins: loops that are fused, distributed, skewed, shifted, reversed, rescheduled."""
from __future__ import annotations

from collections.abc import Mapping

import loopkit as lk
from tests.legality.pairs import (
    ANTIDIAGONAL,
    DIAGONAL,
    DOWN,
    FED_BACK,
    FED_FORWARD,
    JACOBI,
    LCS,
    MAP,
    NM,
    READ_AHEAD,
    RECURRENCE,
    SEIDEL,
    SHORT_MAP,
    SHORT_RECURRENCE,
    TN,
    TWO_ARRAYS,
    N,
    Nest,
    Twins,
    nest,
    step,
    tag,
)


def two_loops(first: str, second: str, domain: str = "{[i,j]: 1<=i,j<=n}") -> Nest:
    return nest(domain, f"for i\n {first} {{id=A}}\nend\nfor j\n {second} {{id=B}}\nend", *N)


def one_loop(first: str, second: str) -> Nest:
    return nest("{[i]: 1<=i<=n}", f"for i\n {first} {{id=A}}\n {second} {{id=B}}\nend", *N)


FUSED = step("fuse_loops", ["i", "j"])
CUT = step("distribute_loop", "i", before="B")
NINE = nest("{[t,i]: 1<=t<n-1 and 1<=i<m-1}", "a[t,i] = a[t-1,i-1] - a[t-1,i] + a[t-1,i+1] - a[t,i-1]", *NM)
HORNER = lk.ReductionOperation("horner", "2*a + b")
DIGITS = nest("{[i,k]: 0<=i<n and 0<=k<6}", "y[i] = horner(k, x[i,k])", *N[:3], reductions=(HORNER,))
SUMS = nest("{[i,k]: 0<=i<n and 0<=k<6}", "y[i] = sum(k, x[i,k])", *N[:3])

RESHAPED: Mapping[str, Twins] = {
    # fusion
    "fused over a forward read": Twins(
        two_loops("a[i] = x[i]", "b[j] = a[j+1]"), FUSED, (FUSED,),
        legal_nest=two_loops("a[i] = x[i]", "b[j] = a[j-1]")),
    "fused over a forward read, shifted": Twins(
        two_loops("a[i] = x[i]", "b[j] = a[j+1]"), FUSED, (step("shift", "j", 1), FUSED)),
    "fused over a write before a read": Twins(
        two_loops("b[i] = a[i-1]", "a[j] = x[j]"), FUSED, (FUSED,),
        legal_nest=two_loops("b[i] = a[i+1]", "a[j] = x[j]")),
    "fused over writes of one element": Twins(
        two_loops("a[i] = x[i]", "a[j+1] = y[j]"), FUSED, (FUSED,),
        legal_nest=two_loops("a[i] = x[i]", "a[j-1] = y[j]")),
    "fused with a turned reader": Twins(
        two_loops("a[i] = x[i]", "b[j] = a[n-j+1]"), FUSED, (step("reverse", "j"), FUSED)),
    "fused with different bounds": Twins(
        two_loops("a[i] = x[i]", "b[j] = a[2*j]", "{[i,j]: 0<=i<2*n and 0<=j<n}"), FUSED, (FUSED,),
        legal_nest=two_loops("a[i] = x[i]", "b[j] = a[j-1]", "{[i,j]: 0<=i<2*n and 1<=j<n}")),
    "fused with a sum of all": Twins(
        nest("{[i,j,k]: 0<=i,j,k<n}", "for i\n a[i] = x[i] {id=A}\nend\nfor j\n b[j] = sum(k, a[k]) {id=B}\nend", *N),
        FUSED, (FUSED,), legal_nest=nest(
            "{[i,j,k]: 0<=i,j,k<n}",
            "for i\n a[i] = x[i] {id=A}\nend\nfor j\n b[j] = a[j]*sum(k, x[k]) {id=B}\nend", *N)),
    "fused in a time loop": Twins(TWO_ARRAYS, FUSED, (step("split_iname", "t", 2), step("shift", "j", 1), FUSED)),
    # distribution
    "distributed over what feeds back": Twins(
        one_loop("a[i] = c[i-1] + b[i]", "c[i] = 2*a[i]"), CUT, (CUT,),
        legal_nest=one_loop("a[i] = b[i]", "c[i] = 2*a[i-1]")),
    "distributed over a read ahead": Twins(
        one_loop("a[i] = b[i]", "c[i] = a[i+1]"), CUT, (CUT,), legal_nest=one_loop("c[i] = a[i+1]", "a[i] = b[i]")),
    "distributed over two writes": Twins(
        one_loop("a[i-1] = x[i]", "a[i] = y[i]"), CUT, (CUT,), legal_nest=one_loop("a[i+1] = x[i]", "a[i] = y[i]")),
    "own inames for what feeds back": Twins(
        FED_BACK, step("duplicate_inames", "i", within="C"), (step("duplicate_inames", "i", within="C"),),
        legal_nest=FED_FORWARD),
    # skewing
    "Jacobi's time tiled, not skewed": Twins(
        JACOBI, step("tile", {"t": 2, "i": 3}), (step("skew", "i", by={"t": 1}), step("tile", {"t": 2, "i": 3}))),
    "Jacobi's time tiled, skewed the wrong way": Twins(
        JACOBI, step("tile", {"t": 2, "i": 3}), (step("skew", "i", by={"t": 2}), step("tile", {"t": 2, "i": 3})),
        before=(step("skew", "i", by={"t": -1}),)),
    "nine points tiled, not skewed": Twins(
        NINE, step("interchange", "t", "i"), (step("skew", "i", by={"t": 1}), step("interchange", "t", "i"))),
    "(1, -1) interchanged, not skewed": Twins(
        ANTIDIAGONAL, step("interchange", "i", "j"), (step("skew", "j", by={"i": 1}), step("interchange", "i", "j"))),
    "Seidel over blocks, along no wave": Twins(
        SEIDEL, tag("j:g.0"), (step("affine_map_inames", "i, j", "wave, k", ["wave = i + j", "k = j"]), tag("k:g.0"))),
    # shifting
    "a writer shifted after its reader": Twins(
        one_loop("a[i] = x[i]", "b[i] = a[i]"), step("shift", "i", 1, within="A"),
        (step("shift", "i", 1, within="B"),)),
    "a reader shifted too far ahead": Twins(
        one_loop("a[i] = x[i]", "b[i] = a[i-1]"), step("shift", "i", -2, within="B"), (
            step("shift", "i", -1, within="B"),)),
    "a write shifted before a read": Twins(
        READ_AHEAD, step("shift", "i", 2, within="C"), (step("shift", "i", -1, within="C"),),
        legal_nest=nest("{[i]: 0<=i<9}", "for i\n c[i] = b[i] {id=C}\n a[i] = b[i+1] {id=A}\nend", {})),
    # reversing
    "a recurrence reversed": Twins(RECURRENCE, step("reverse", "i"), (step("reverse", "i"),), legal_nest=MAP),
    "a short recurrence reversed": Twins(
        SHORT_RECURRENCE, step("reverse", "i"), (step("reverse", "i"),), legal_nest=SHORT_MAP),
    "(1, 0), its rows reversed": Twins(DOWN, step("reverse", "i"), (step("reverse", "j"),)),
    "(1, 1), its rows reversed": Twins(DIAGONAL, step("reverse", "i"), (step("reverse", "j"),)),
    "(1, -1) interchanged, not reversed": Twins(
        ANTIDIAGONAL, step("interchange", "i", "j"), (step("reverse", "j"), step("interchange", "i", "j"))),
    "edit distance, a row reversed": Twins(LCS, step("reverse", "j"), (step("split_iname", "j", 2),)),
    # other maps and whole schedules
    "edit distance along the wrong wave": Twins(
        LCS, step("affine_map_inames", "i, j", "wave, k", ["wave = i - j", "k = j"]),
        (step("affine_map_inames", "i, j", "wave, k", ["wave = i + j", "k = j"]),)),
    "edit distance over blocks, not along a wave": Twins(
        LCS, tag("j:g.0"), (
            step("affine_map_inames", "i, j", "wave, k", ["wave = i + j", "k = j"]), tag("k:g.0"))),
    "the copy back scheduled first": Twins(
        TWO_ARRAYS, step("apply_schedule", {"S": "[t, 1, i]", "R": "[t, 0, j]"}), (
            step("apply_schedule", {"S": "[2*t + i, t, 0]", "R": "[2*t + j + 1, t, 1]"}),)),
    "a wave that is too steep": Twins(
        TWO_ARRAYS, step("apply_schedule", {"S": "[t + i, t, 0]", "R": "[t + j, t, 1]"}), (
            step("apply_schedule", {"S": "[t, 0, i]", "R": "[t, 1, j]"}),)),
    # jamming
    "(1, -1) unrolled and jammed": Twins(
        ANTIDIAGONAL, step("unroll_and_jam", "i", 2), (step("unroll_and_jam", "i", 2),), legal_nest=DIAGONAL),
    "Jacobi's time unrolled and jammed": Twins(
        JACOBI, step("unroll_and_jam", "t", 2), (step("unroll_and_jam", "t", 2),),
        legal_nest=nest("{[t,i]: 0<=t<T and 1<=i<n-1}", "a[t+1,i] = a[t,i-1] + a[t,i]", *TN)),
    # reductions in order
    "an ordered reduction over threads": Twins(DIGITS, tag("k:l.0"), (tag("k:l.0"),), legal_nest=SUMS),
    "an ordered reduction's tiles over threads": Twins(
        DIGITS, step("split_iname", "k", 2, outer_tag="l.0"), (step("split_iname", "k", 2, inner_tag="unr"),)),
    "an ordered reduction in another order": Twins(
        nest("{[i,k,q]: 0<=i<n and 0<=k,q<3}", "y[i] = horner([k,q], x[i,k,q])", *N[:2], reductions=(HORNER,)),
        step("interchange", "k", "q"), (step("interchange", "k", "q"),),
        legal_nest=nest("{[i,k,q]: 0<=i<n and 0<=k,q<3}", "y[i] = sum([k,q], x[i,k,q])", *N[:2])),
}
