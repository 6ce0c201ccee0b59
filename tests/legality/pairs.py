"""Illegal steps, each beside a legal twin: data only.

A pair is one kernel and two ways to go on from it; where the twin needs another kernel, it has its own.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import loopkit as lk

F64 = np.float64


@dataclass(frozen=True)
class Step:
    """One call of a transformation: its name, and what it gets beside the kernel."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def apply(self, knl: lk.LoopKernel, **more: Any) -> lk.LoopKernel:
        result = getattr(lk, self.name)(knl, *self.args, **self.kwargs, **more)
        assert isinstance(result, lk.LoopKernel)
        return result


def step(name: str, *args: Any, **kwargs: Any) -> Step:
    return Step(name, args, kwargs)


def tag(text: str) -> Step:
    return step("tag_inames", text)


@dataclass(frozen=True)
class Nest:
    """A kernel as its text, with sizes to run it at."""

    domain: str | tuple[str, ...]
    text: str
    sizes: tuple[Mapping[str, Any], ...]
    data: tuple[Any, ...] = ()
    assumptions: str | None = None
    dtypes: Mapping[str, Any] = field(default_factory=dict)
    reductions: tuple[lk.ReductionOperation, ...] = ()

    def kernel(self) -> lk.LoopKernel:
        domains = [self.domain] if isinstance(self.domain, str) else list(self.domain)
        knl = lk.make_kernel(domains, self.text, [*self.data, "..."], assumptions=self.assumptions,
                             reductions=self.reductions)
        untyped = {a: F64 for a, arg in knl.array_args.items() if arg.dtype is None}
        return lk.add_dtypes(knl, {**untyped, **self.dtypes})


@dataclass(frozen=True)
class Twins:
    """An illegal step and a legal one.

    :ivar nest: what both start from.
    :ivar illegal: the step that is refused, after *before*.
    :ivar legal: the steps of the twin, from the nest, or from *legal_nest*.
    :ivar reach: how far brute force looks beyond the witness' sizes.
    """

    nest: Nest
    illegal: Step
    legal: tuple[Step, ...]
    before: tuple[Step, ...] = ()
    legal_nest: Nest | None = None
    reach: int = 2

    @property
    def twin(self) -> Nest:
        return self.nest if self.legal_nest is None else self.legal_nest


def nest(domain: str | tuple[str, ...], text: str, *sizes: Mapping[str, Any], **more: Any) -> Nest:
    return Nest(domain, text, sizes, **more)


# Nests

N = ({"n": 2}, {"n": 3}, {"n": 17}, {"n": 40})
NM = ({"n": 3, "m": 3}, {"n": 7, "m": 5}, {"n": 10, "m": 18})
TN = ({"T": 1, "n": 3}, {"T": 4, "n": 9}, {"T": 9, "n": 21})

RECURRENCE = nest("{[i]: 0<=i<n}", "a[i+1] = a[i] + b[i]", *N)
SHORT_RECURRENCE = nest("{[i]: 0<=i<12}", "a[i+1] = a[i] + b[i]", {})
MAP = nest("{[i]: 0<=i<n}", "a[i] = 2*b[i]", *N)
SHORT_MAP = nest("{[i]: 0<=i<12}", "a[i] = 2*b[i]", {})
HALVES = nest("{[i]: 0<=i<n}", "out[i//2] = b[i]", *N)
DOUBLES = nest("{[i]: 0<=i<n}", "out[2*i] = b[i]", *N)
INNER = "{[i,j]: 1<=i<n-1 and 1<=j<m-1}"
ANTIDIAGONAL = nest(INNER, "a[i,j] = a[i-1,j+1]", *NM)
DIAGONAL = nest(INNER, "a[i,j] = a[i-1,j-1]", *NM)
DOWN = nest(INNER, "a[i,j] = a[i-1,j]", *NM)
ALONG = nest(INNER, "a[i,j] = a[i,j-1]", *NM)
JACOBI = nest("{[t,i]: 0<=t<T and 1<=i<n-1}", "a[t+1,i] = a[t,i-1] + a[t,i] + a[t,i+1]", *TN)
HEAT = nest("{[t,i]: 0<=t<T and 1<=i<31}", "a[t+1,i] = a[t,i-1] - a[t,i+1]", {"T": 1}, {"T": 5})
ONE_SIDED = nest("{[t,i]: 0<=t<T and 1<=i<n-1}", "a[t+1,i] = a[t,i-1] + a[t,i]", *TN)
TWO_ARRAYS = nest(("{[t]: 0<=t<T}", "{[i,j]: 1<=i,j<n-1}"), """
    for t
        for i
            b[i] = a[i-1] + a[i+1] {id=S}
        end
        for j
            a[j] = b[j] {id=R}
        end
    end
    """, *TN)
SEIDEL = nest("{[i,j]: 1<=i<n-1 and 1<=j<n-1}", "u[i,j] = u[i-1,j] + u[i+1,j] - u[i,j-1] - u[i,j+1]",
              {"n": 3}, {"n": 4}, {"n": 9})
RED_BLACK = nest("{[i]: 1<=i<n-1}", "if i % 2 == 0\n u[i] = u[i-1] + u[i+1]\nend", {"n": 3}, {"n": 16})
SYMMETRIC = nest("{[i,j]: 0<=i,j<n}", "a[i,j] = a[j,i] + 1", *N[:3])
LOWER = nest("{[i,j]: 0<=j<i<n}", "a[i,j] = a[j,i] + 1", *N[:3])
SOLVE = nest("{[i,j]: 0<=j<i<n}", "x[i] = x[i] - l[i,j]*x[j]", *N[:3])
COLUMN_SUMS = nest("{[i,j]: 0<=i<n and 0<=j<m}", "s[j] = s[j] + a[i,j]", *NM)
SHORT_SUMS = nest("{[i,j]: 0<=i<6 and 0<=j<5}", "s[j] = s[j] + a[i,j]", {})
REDUCED_SUMS = nest("{[i,j]: 0<=i<n and 0<=j<m}", "s[j] = sum(i, a[i,j])", *NM)
TOTAL = nest("{[i]: 0<=i<n}", "s[0] = s[0] + a[i]", *N)
REDUCED_TOTAL = nest("{[i]: 0<=i<12}", "s[0] = sum(i, a[i])", {})
CARRIED = nest("{[i]: 0<=i<12}", """
    <> t = b[0] {id=start}
    for i
        t = t + b[i] {id=add}
        a[i] = t {id=use}
    end
    """, {})
FRESH = nest("{[i]: 0<=i<12}", """
    for i
        <> t = b[i] {id=add}
        a[i] = t*t {id=use}
    end
    """, {})
LEFT_BEHIND = nest("{[i]: 0<=i<12}", """
    for i
        a[i] = t {id=use}
        t = b[i] {id=set}
    end
    """, {}, data=(lk.TemporaryVariable("t", F64, ()),))
FED_BACK = nest("{[i]: 1<=i<9}", """
    for i
        a[i] = c[i-1] + b[i] {id=A}
        c[i] = 2*a[i] {id=C}
    end
    """, {})
FED_FORWARD = nest("{[i]: 1<=i<9}", """
    for i
        a[i] = b[i] {id=A}
        c[i] = 2*a[i-1] {id=C}
    end
    """, {})
READ_AHEAD = nest("{[i]: 0<=i<9}", """
    for i
        a[i] = b[i] {id=A}
        c[i] = a[i+1] {id=C}
    end
    """, {})
TWO_LOOPS = nest("{[i,j]: 0<=i,j<n}", """
    for i
        t[i] = 2*x[i] {id=W}
    end
    for j
        y[j] = t[n-1-j] {id=R}
    end
    """, *N)
IN_BLOCKS = nest("{[b,i,j]: 0<=b<n and 0<=i,j<8}", """
    for b
        for i
            t[b,i] = 2*x[b,i] {id=W}
        end
        for j
            y[b,j] = t[n-1-b,j] {id=R}
        end
    end
    """, *N[:3])
IN_OWN_BLOCK = nest("{[b,i,j]: 0<=b<n and 0<=i,j<8}", """
    for b
        for i
            t[b,i] = 2*x[b,i] {id=W}
        end
        for j
            y[b,j] = t[b,7-j] {id=R}
        end
    end
    """, *N[:3])
REWRITTEN = nest("{[t,i]: 0<=t<T and 0<=i<16}", """
    for t
        for i
            a[i] = 2*t + x[i] {id=W}
        end
        for i
            b[t,i] = a[15-i] {id=R}
        end
    end
    """, {"T": 1}, {"T": 4})
TURNED = nest("{[i]: 0<=i<16}", "a[i] = a[15-i] + 1", {})
TURNED_COPY = nest("{[i]: 0<=i<16}", "c[i] = a[15-i] + 1", {})
STRIDED = nest("{[i]: 2<=i<n and exists k: i=2*k}", "a[i] = a[i-2]", *N)
STRIDED_APART = nest("{[i]: 2<=i<n and exists k: i=2*k}", "a[i] = a[i-1]", *N)
UNION = nest("{[i]: 0<=i<n; [i]: 2*n<=i<3*n}", "a[i] = a[i+2*n]", {"n": 1}, {"n": 5}, assumptions="n >= 1")
UNION_APART = nest("{[i]: 0<=i<n; [i]: 2*n<=i<3*n}", "a[i] = a[i+n]", {"n": 1}, {"n": 5}, assumptions="n >= 1")
FLOYD = nest("{[k,i,j]: 0<=k,i,j<n}", "d[i,j] = min(d[i,j], d[i,k] + d[k,j])", *N[:2], {"n": 6})
LCS = nest("{[i,j]: 1<=i<n and 1<=j<m}", "c[i,j] = max(max(c[i-1,j], c[i,j-1]), c[i-1,j-1] + s[i,j])", *NM)
PREFIX_ROWS = nest("{[i,j]: 0<=i<n and 1<=j<m}", "a[i,j] = a[i,j] + a[i,j-1]", *NM)
ORDERED = nest("{[i,j]: 0<=i<n and 0<=j<n}", "for i\n x[i] = b[i] {id=A}\nend\nfor j\n y[j] = b[j] {id=B, dep=A}\nend",
               *N)
SHIFTED_ROWS = nest("{[i,j]: 0<=i<n and 0<=j<m}", "a[i+1,j] = a[i,j+1] + b[i,j]", *NM)
MATMUL = nest("{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<l}", "c[i,j] = c[i,j] + a[i,k]*b[k,j]",
              {"n": 3, "m": 4, "l": 5}, {"n": 7, "m": 2, "l": 9})
SELF_COPY = nest("{[i]: 0<=i<n}", "a[2*i] = a[i]", *N)
FOLDED = nest("{[i]: 0<=i<n}", "a[i] = a[n-1-i]", *N)
HALF_FOLDED = nest("{[i]: 0<=2*i<n-1}", "a[i] = a[n-1-i]", *N)
BROADCAST = nest("{[i]: 0<=i<n}", "a[0] = b[i]", *N)
LAST_ROW = nest("{[i,j]: 0<=i<n and 0<=j<m}", "a[j] = b[i,j]", *NM)
STAIRS = nest("{[i,j]: 0<=i<n and i<=j<i+3}", "a[j] = a[j] + b[i]", *N)


# Twins

#: Blocks of 4 threads along i, and one axis of the grid.
GRID_I = step("split_iname", "i", 4, outer_tag="g.0", inner_tag="l.0")

LOOPS: Mapping[str, Twins] = {
    # one loop over hardware
    "a recurrence over blocks": Twins(RECURRENCE, tag("i:g.0"), (tag("i:g.0"),), legal_nest=MAP),
    "a recurrence over threads": Twins(SHORT_RECURRENCE, tag("i:l.0"), (tag("i:l.0"),), legal_nest=SHORT_MAP),
    "a recurrence over l.auto": Twins(SHORT_RECURRENCE, tag("i:l.auto"), (tag("i:l.auto"),), legal_nest=SHORT_MAP),
    "a recurrence over blocks of threads": Twins(RECURRENCE, GRID_I, (GRID_I,), legal_nest=MAP),
    "the tiles of a recurrence over blocks": Twins(
        RECURRENCE, step("split_iname", "i", 4, outer_tag="g.0"), (step("split_iname", "i", 4),)),
    "the insides of a recurrence's tiles over threads": Twins(
        RECURRENCE, step("split_iname", "i", 4, inner_tag="l.0"), (step("split_iname", "i", 4, inner_tag="unr"),)),
    "two writers of an element over blocks": Twins(HALVES, tag("i:g.0"), (tag("i:g.0"),), legal_nest=DOUBLES),
    "two writers of an element over threads": Twins(
        HALVES, step("split_iname", "i", 4, inner_tag="l.0"), (step("split_iname", "i", 4, inner_tag="l.0"),),
        legal_nest=DOUBLES),
    "two writers in different blocks": Twins(
        HALVES, step("split_iname", "i", 3, outer_tag="g.0"), (step("split_iname", "i", 4, outer_tag="g.0"),)),
    "all write one element": Twins(BROADCAST, tag("i:g.0"), (tag("i:g.0"),), legal_nest=MAP),
    "what is read at half the place": Twins(SELF_COPY, tag("i:g.0"), (tag("i:g.0"),), legal_nest=DOUBLES),
    "an array folded onto itself": Twins(FOLDED, tag("i:g.0"), (tag("i:g.0"),), legal_nest=HALF_FOLDED),
    "a recurrence with a stride": Twins(STRIDED, tag("i:g.0"), (tag("i:g.0"),), legal_nest=STRIDED_APART),
    "a union whose parts meet": Twins(UNION, tag("i:g.0"), (tag("i:g.0"),), legal_nest=UNION_APART),
    "a Gauss-Seidel line": Twins(
        nest("{[i]: 1<=i<n-1}", "u[i] = u[i-1] + u[i+1]", {"n": 9}), tag("i:g.0"), (tag("i:g.0"),),
        legal_nest=RED_BLACK),
    "every third, read two later": Twins(
        nest("{[i]: 1<=i<n}", "a[3*i] = a[3*i-6]", {"n": 3}), tag("i:g.0"), (tag("i:g.0"),),
        legal_nest=nest("{[i]: 1<=i<n}", "a[3*i] = a[3*i-2]", {"n": 2}, {"n": 9})),
    # two loops, hardware
    "(1, 1), both over blocks": Twins(DIAGONAL, tag("i:g.0, j:g.1"), (tag("i:g.0"),)),
    "(0, 1), its columns over blocks": Twins(ALONG, tag("j:g.0"), (tag("i:g.0"),)),
    "(1, 0), its rows over blocks": Twins(DOWN, tag("i:g.0"), (tag("j:g.0"),)),
    "(1, -1), both over blocks": Twins(ANTIDIAGONAL, tag("i:g.0, j:g.1"), (tag("j:g.0"),)),
    "(1, 1), rows over blocks, columns unrolled": Twins(
        nest("{[i,j]: 1<=i<n and 1<=j<8}", "a[i,j] = a[i-1,j-1]", *N[:3]), tag("i:g.0"), (tag("i:g.0"), ),
        before=(tag("j:unr"),), legal_nest=nest("{[i,j]: 1<=i<n and 1<=j<8}", "a[i,j] = a[i-1,j-1]", *N[:3])),
    "Seidel, rows over blocks": Twins(SEIDEL, tag("i:g.0"), (step("interchange", "i", "j"),)),
    "Seidel, columns over blocks": Twins(SEIDEL, tag("j:g.0"), (step("tile", {"i": 3, "j": 2}),)),
    "a square read across its diagonal": Twins(SYMMETRIC, tag("i:g.0"), (tag("i:g.0"),), legal_nest=LOWER),
    "forward substitution, all over blocks": Twins(SOLVE, tag("i:g.0, j:g.1"), (tag("i:g.0"),)),
    "forward substitution, a row's terms over blocks": Twins(
        SOLVE, tag("j:g.0"), (step("interchange", "i", "j"), step("split_iname", "i", 4, outer_tag="g.0")),
        legal_nest=nest("{[i,j]: 0<=j<i<n}", "x[i,j] = l[i,j]*y[j]", *N[:3])),
    "the last row wins": Twins(LAST_ROW, tag("i:g.0"), (tag("j:g.0"),)),
    "overlapping windows": Twins(STAIRS, tag("i:g.0"), (step("split_iname", "i", 2),)),
    "rows of a prefix sum, the wrong axis": Twins(PREFIX_ROWS, tag("j:g.0"), (tag("i:g.0"),)),
    "edit distance, rows over blocks": Twins(LCS, tag("i:g.0"), (step("tile", {"i": 2, "j": 3}),)),
    "shortest paths, the relay over blocks": Twins(
        FLOYD, tag("k:g.0"), (step("interchange", "i", "j"),)),
    # accumulations
    "an accumulation over blocks": Twins(COLUMN_SUMS, tag("i:g.0"), (tag("j:g.0"),)),
    "an accumulation over threads": Twins(
        SHORT_SUMS, tag("i:l.0"), (step("split_iname", "i", 8, inner_tag="l.0"),), legal_nest=REDUCED_SUMS),
    "a total over blocks": Twins(TOTAL, tag("i:g.0"), (tag("i:l.0"),), legal_nest=REDUCED_TOTAL),
    "the terms of products over blocks": Twins(MATMUL, tag("k:g.0"), (tag("i:g.1, j:g.0"),)),
    "a carried temporary over blocks": Twins(CARRIED, tag("i:g.0"), (tag("i:g.0"),), legal_nest=FRESH),
    "a carried temporary over threads": Twins(CARRIED, tag("i:l.0"), (tag("i:l.0"),), legal_nest=FRESH),
    "a temporary that is left for the next over blocks": Twins(
        LEFT_BEHIND, tag("i:g.0"), (tag("i:g.0"),), legal_nest=FRESH),
    # order
    "(1, -1) interchanged": Twins(
        ANTIDIAGONAL, step("interchange", "i", "j"), (step("interchange", "i", "j"),), legal_nest=DIAGONAL),
    "(1, -1) by priority": Twins(
        ANTIDIAGONAL, step("prioritize_loops", "j, i"), (step("prioritize_loops", "i, j"),)),
    "(1, -1) tiled": Twins(
        ANTIDIAGONAL, step("tile", {"i": 2, "j": 3}), (step("tile", {"i": 2, "j": 3}),), legal_nest=DIAGONAL),
    "(1, -1), strips of columns outside": Twins(
        ANTIDIAGONAL, step("prioritize_loops", "j_outer, i, j_inner"), (
            step("split_iname", "j", 3), step("prioritize_loops", "i, j_outer, j_inner")),
        before=(step("split_iname", "j", 3),)),
    "rows shifted against each other": Twins(
        SHIFTED_ROWS, step("interchange", "i", "j"), (step("split_iname", "i", 3),)),
    "Jacobi's time loop tiled": Twins(
        JACOBI, step("tile", {"t": 2, "i": 4}), (step("tile", {"t": 2, "i": 4}),), legal_nest=ONE_SIDED),
    "Jacobi's time loop inside": Twins(
        JACOBI, step("interchange", "t", "i"), (step("split_iname", "t", 2),)),
    "Jacobi's time and space over blocks": Twins(JACOBI, tag("i:g.0, t:g.1"), (tag("i:g.0"),)),
    "Jacobi's space over blocks, time unrolled": Twins(
        nest("{[t,i]: 0<=t<4 and 1<=i<n-1}", "a[t+1,i] = a[t,i-1] + a[t,i+1]", *N), tag("i:g.0"), (tag("i:l.0"),),
        before=(step("unroll", "t"),), legal_nest=HEAT),
    "Jacobi's time over threads": Twins(
        JACOBI, step("split_iname", "t", 4, inner_tag="l.0"), (step("split_iname", "t", 4, inner_tag="unr"),)),
    "one-sided Jacobi, time inside": Twins(
        nest("{[t,i]: 0<=t<T and 1<=i<n-1}", "a[t+1,i] = a[t,i+1]", *TN), step("interchange", "t", "i"),
        (step("interchange", "t", "i"),), legal_nest=ONE_SIDED),
    "two arrays in turns, time inside": Twins(
        TWO_ARRAYS, step("prioritize_loops", "i, t"), (step("split_iname", "i", 4), step("split_iname", "j", 3))),
    "shortest paths, the relay inside": Twins(
        FLOYD, step("prioritize_loops", "i, j, k"), (step("prioritize_loops", "k, j, i"),)),
    "a loop distributed over what feeds back": Twins(
        nest(("{[i]: 1<=i<n}", "{[j]: 0<=j<m}"), "for i\n for j\n  a[i,j] = c[i-1] + b[j] {id=A}\n end\n"
             " c[i] = 2*a[i,0] {id=C}\nend", *NM), step("interchange", "i", "j"),
        (step("interchange", "i", "j"),),
        legal_nest=nest(("{[i]: 1<=i<n}", "{[j]: 0<=j<m}"), "for i\n for j\n  a[i,j] = b[j] {id=A}\n end\n"
                        " c[i] = 2*a[i-1,0] {id=C}\nend", {"n": 3, "m": 2}, {"n": 7, "m": 5})),
    # ilp and unrolling
    "ilp of what feeds back": Twins(FED_BACK, tag("i:ilp"), (tag("i:unr"),)),
    "ilp.seq of what feeds back": Twins(FED_BACK, tag("i:ilp.seq"), (tag("i:ilp.seq"),), legal_nest=FED_FORWARD),
    "ilp of a read ahead": Twins(READ_AHEAD, tag("i:ilp"), (tag("i:ilp"),), legal_nest=FED_FORWARD),
    "vec of what feeds back": Twins(FED_BACK, tag("i:vec"), (tag("i:unr"),)),
    "vec of a recurrence": Twins(
        nest("{[i]: 1<=i<9}", "a[i] = a[i-1] + b[i]", {}), tag("i:vec"), (tag("i:vec"),),
        legal_nest=nest("{[i]: 1<=i<9}", "a[i] = a[i+1] + b[i]", {})),
    "unroll and interchange a carried loop": Twins(
        nest("{[i,j]: 1<=i<8 and 0<=j<7}", "a[i,j] = a[i-1,j+1]", {}), step("interchange", "i", "j"),
        (step("unroll", "j"),), before=(step("unroll", "j"),)),
    "threads of what feeds back": Twins(FED_BACK, tag("i:l.0"), (tag("i:l.0"),), legal_nest=FED_FORWARD),
    # several blocks at once
    "a read of another block's element": Twins(IN_BLOCKS, tag("b:g.0"), (tag("b:g.0"),), legal_nest=IN_OWN_BLOCK),
    "two arrays in turns, their time over threads": Twins(
        TWO_ARRAYS, step("split_iname", "t", 2, inner_tag="l.0"),
        (step("split_iname", "i", 16, outer_tag="g.0", inner_tag="l.0"),
         step("split_iname", "j", 16, outer_tag="g.0", inner_tag="l.0"))),
    # copies
    "a copy of what the loop itself writes": Twins(
        TURNED, step("add_prefetch", "a", "i"), (step("add_prefetch", "a", "i"),), legal_nest=TURNED_COPY),
    "a copy before the writes of a time step": Twins(
        REWRITTEN, step("add_prefetch", "a", "i", within="R", fetch_outer_inames=(), allow_reordering=True),
        (step("add_prefetch", "a", "i", within="R"),)),
    "privatising what is left for the next": Twins(
        LEFT_BEHIND, step("privatize", "i", "t"), (step("privatize", "i", "t"),), legal_nest=FRESH),
}


# What data decides

IDX = {"idx": np.int32}
PERMUTED = {"n": 4, "idx": np.array([3, 0, 2, 1], np.int32)}
SCATTER = nest("{[i]: 0<=i<n}", "a[idx[i]] = b[i]", {**PERMUTED, "a": np.zeros(4)}, dtypes=IDX)
GATHER = nest("{[i]: 0<=i<n}", "a[i] = b[idx[i]]", {**PERMUTED, "b": np.arange(4.0)}, dtypes=IDX)
GATHER_OWN = nest("{[i]: 0<=i<n}", "a[i] = a[idx[i]] + b[i]", {**PERMUTED, "a": np.arange(4.0)}, dtypes=IDX)
SHORT_SCATTER = nest("{[i]: 0<=i<4}", "a[idx[i]] = b[i]", {"idx": PERMUTED["idx"], "a": np.zeros(4)}, dtypes=IDX)
SHORT_GATHER = nest("{[i]: 0<=i<4}", "a[i] = b[idx[i]]", {"idx": PERMUTED["idx"], "b": np.arange(4.0)}, dtypes=IDX)
TWICE = nest("{[i,j]: 0<=i<n and 0<=j<m}", "a[idx[i]] = b[i,j]", {**PERMUTED, "m": 3, "a": np.zeros(4)}, dtypes=IDX)
TWICE_APART = nest("{[i,j]: 0<=i<n and 0<=j<m}", "a[i,j] = b[idx[i],j]", {**PERMUTED, "m": 3, "b": np.ones((4, 3))},
                   dtypes=IDX)
IN_COLUMNS = nest("{[i,j]: 0<=i<n and 0<=j<m}", "a[idx[i],j] = a[idx[i],j] + b[i,j]",
                  {**PERMUTED, "m": 3, "a": np.zeros((4, 3))}, dtypes=IDX)
GUARDED = nest("{[i]: 1<=i<n}", "a[i] = a[i-1] {if=b[i] > 0}", *N)
GUARDED_APART = nest("{[i]: 1<=i<n}", "a[i] = c[i-1] {if=b[i] > 0}", *N)
ROWS = ("{[i]: 0<=i<n}", "{[k]: first<=k<last}")
ROW_DATA = {"n": 3, "rowptr": np.array([0, 2, 2, 5], np.int32)}
ROWS_WRITTEN = nest(ROWS, """
    for i
        <> first = rowptr[i]
        <> last = rowptr[i+1]
        for k
            val[k] = i
        end
    end
    """, {**ROW_DATA, "val": np.zeros(5)}, dtypes={"rowptr": np.int32})
ROWS_READ = nest(ROWS, """
    for i
        <> first = rowptr[i]
        <> last = rowptr[i+1]
        y[i] = sum(k, val[k])
    end
    """, {**ROW_DATA, "val": np.arange(5.0)}, dtypes={"rowptr": np.int32})

#: The first step of each cannot be decided: it is refused without a witness, and accepted with ``assume=``.
UNDECIDED: Mapping[str, Twins] = {
    "a scatter over blocks": Twins(SCATTER, tag("i:g.0"), (tag("i:g.0"),), legal_nest=GATHER),
    "a scatter over threads": Twins(SHORT_SCATTER, tag("i:l.0"), (tag("i:l.0"),), legal_nest=SHORT_GATHER),
    "a scatter of rows, and its columns": Twins(IN_COLUMNS, tag("i:g.0"), (tag("j:g.0"),)),
    "a gather from what is written": Twins(GATHER_OWN, GRID_I, (GRID_I,), legal_nest=GATHER),
    "a scatter, its loops interchanged": Twins(
        TWICE, step("interchange", "i", "j"), (step("interchange", "i", "j"),), legal_nest=TWICE_APART),
    "a scatter, tiled": Twins(
        TWICE, step("tile", {"i": 2, "j": 2}), (step("tile", {"i": 2, "j": 2}),), legal_nest=TWICE_APART),
    "a recurrence under a condition on data": Twins(GUARDED, tag("i:g.0"), (tag("i:g.0"),), legal_nest=GUARDED_APART),
    "rows that may overlap": Twins(ROWS_WRITTEN, tag("i:g.0"), (tag("i:g.0"),), legal_nest=ROWS_READ),
}


# What lowering decides

def in_one_block(read: str, options: str = "") -> Nest:
    return nest("{[i,j]: 0<=i,j<32}", f"""
        for i
            t[i] = 2*x[i] {{id=W}}
        end
        for j
            y[j] = t[{read}] {{id=R{options}}}
        end
        """, {}, data=(lk.TemporaryVariable("t", F64),))


@dataclass(frozen=True)
class LoweredTwins:
    """A kernel that no launch can run as it claims to, and one that does; both after *steps*."""

    illegal: Nest
    legal: Nest
    steps: tuple[Step, ...]


LOWERED: Mapping[str, LoweredTwins] = {
    "nosync between threads that meet in shared memory": LoweredTwins(
        in_one_block("31-j", ", nosync=W"), in_one_block("31-j"), (tag("i:l.0, j:l.0"),)),
    "nosync over a neighbour": LoweredTwins(
        in_one_block("(j+1) % 32", ", nosync=W"), in_one_block("j", ", nosync=W"), (tag("i:l.0, j:l.0"),)),
}
