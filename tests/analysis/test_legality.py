"""Legality: each refusal with its smallest witness, each accepted step run against the untransformed kernel."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.errors import Witness
from tests.transform.same import assert_same

F32 = np.float32
Transformation = Callable[[lk.LoopKernel], lk.LoopKernel]


@dataclass(frozen=True)
class Pair:
    """A kernel and a transformation of it.

    :ivar sizes: the calls to compare, for a legal one.
    :ivar witness: (parameters, source, its inames, sink, its inames, array, element, kind) for a refuted one.
    """

    domain: str | list[str]
    text: str
    transformation: Transformation
    sizes: tuple[dict[str, Any], ...] = ()
    witness: tuple[Any, ...] | None = None
    dtypes: Mapping[str, Any] = field(default_factory=dict)
    kernel_data: tuple[Any, ...] | None = None
    assumptions: str | None = None

    def kernel(self) -> lk.LoopKernel:
        knl = lk.make_kernel(self.domain, self.text, self.kernel_data, assumptions=self.assumptions)
        known = {a: self.dtypes.get(a, F32) for a in knl.array_args if a in self.dtypes or not self.dtypes}
        return lk.add_dtypes(knl, {**known, **self.dtypes})


def tag(text: str) -> Transformation:
    return lambda knl: lk.tag_inames(knl, text)


def interchange(knl: lk.LoopKernel) -> lk.LoopKernel:
    return lk.interchange(knl, "i", "j")


def tile(knl: lk.LoopKernel) -> lk.LoopKernel:
    return lk.tile(knl, {"i": 4, "j": 4})


def split_tag(iname: str, length: int, **tags: str) -> Transformation:
    return lambda knl: lk.split_iname(knl, iname, length, **tags)       # type: ignore[arg-type]


def fixed(sizes: dict[str, int], then: Transformation) -> Transformation:
    return lambda knl: then(lk.fix_parameters(knl, **sizes))


LINE, ROW, SQUARE = "{[i]: 0<=i<n}", "{[i]: 1<=i<n}", "{[i,j]: 0<=i<n and 0<=j<m}"
INNER = "{[i,j]: 1<=i<n-1 and 1<=j<m-1}"
JACOBI = ("{[t,i]: 0<=t<T and 1<=i<n-1}", "a[t+1,i] = a[t,i-1] + a[t,i] + a[t,i+1]")
SEIDEL = ("{[i,j]: 1<=i<n-1 and 1<=j<n-1}", "u[i,j] = u[i-1,j] + u[i+1,j] - u[i,j-1] - u[i,j+1]")
ACCUMULATE = (SQUARE, "s[j] = s[j] + a[i,j]")
REDUCE = (SQUARE, "s[j] = sum(i, a[i,j])")
SUBSTITUTE = ("{[i,j]: 0<=i<n and 0<=j<i}", "x[i] = x[i] - l[i,j]*x[j]")
CARRIED = ("{[i]: 0<=i<8}", """
    <float32> t = 0 {id=start}
    for i
        t = t + b[i] {id=add}
        a[i] = t {id=use}
    end
    """)
CSR = (["{[i]: 0<=i<n}", "{[k]: first<=k<last}"], """
    for i
        <> first = rowptr[i]
        <> last = rowptr[i+1]
        y[i] = sum(k, val[k]*x[col[k]])
    end
    """)
CSR_DTYPES = {"val": F32, "x": F32, "rowptr": np.int32, "col": np.int32}
CSR_DATA: dict[str, Any] = {
    "n": 5, "rowptr": np.array([0, 2, 2, 5, 6, 9], np.int32), "col": np.array([3, 0, 1, 1, 2, 0, 3, 2, 1], np.int32),
    "val": np.arange(-3, 6).astype(F32), "x": np.arange(4).astype(F32), "y": np.zeros(5, F32)}
TWO_LOOPS = ("{[i,j]: 0<=i<n and 0<=j<n}", """
    for i
        t[i] = 2*x[i] {id=write}
    end
    for j
        y[j] = t[n-1-j] {id=read}
    end
    """)
IN_BLOCKS = ("{[b,i,j]: 0<=b<n and 0<=i,j<8}", """
    for b
        for i
            t[b,i] = 2*x[b,i] {id=write}
        end
        for j
            y[b,j] = t[n-1-b,j] {id=read}
        end
    end
    """)
REWRITTEN = ("{[t,i]: 0<=t<T and 0<=i<16}", """
    for t
        for i
            a[i] = 2*t + x[i] {id=write}
        end
        for i
            b[t,i] = a[15-i] {id=read}
        end
    end
    """)


# Refuted, each with its witness

REFUTED: Mapping[str, Pair] = {
    "recurrence over blocks": Pair(
        ROW, "a[i] = a[i-1] + b[i]", tag("i:g.0"),
        witness=({"n": 3}, "insn", {"i": 1}, "insn", {"i": 2}, "a", (1,), "flow")),
    "recurrence over threads": Pair(
        "{[i]: 1<=i<64}", "a[i] = a[i-1] + b[i]", tag("i:l.0"),
        witness=({}, "insn", {"i": 1}, "insn", {"i": 2}, "a", (1,), "flow")),
    "recurrence, inner half over threads": Pair(
        ROW, "a[i] = a[i-1] + b[i]", split_tag("i", 16, inner_tag="l.0"),
        witness=({"n": 3}, "insn", {"i_outer": 0, "i_inner": 1}, "insn", {"i_outer": 0, "i_inner": 2}, "a", (1,),
                 "flow")),
    "recurrence, outer half over blocks": Pair(
        ROW, "a[i] = a[i-1] + b[i]", split_tag("i", 16, outer_tag="g.0"),
        witness=({"n": 17}, "insn", {"i_outer": 0, "i_inner": 15}, "insn", {"i_outer": 1, "i_inner": 0}, "a", (15,),
                 "flow")),
    "backward recurrence": Pair(
        LINE, "a[i] = a[i+1] + b[i]", tag("i:g.0"),
        witness=({"n": 2}, "insn", {"i": 0}, "insn", {"i": 1}, "a", (1,), "anti")),
    "two writers of one element, blocks": Pair(
        LINE, "out[i//2] = b[i]", tag("i:g.0"),
        witness=({"n": 2}, "insn", {"i": 0}, "insn", {"i": 1}, "out", (0,), "output")),
    "two writers of one element, threads": Pair(
        "{[i]: 0<=i<64}", "out[i//2] = b[i]", tag("i:l.0"),
        witness=({}, "insn", {"i": 0}, "insn", {"i": 1}, "out", (0,), "output")),
    "reads what is at half the place": Pair(
        LINE, "a[2*i] = a[i]", tag("i:g.0"),
        witness=({"n": 3}, "insn", {"i": 1}, "insn", {"i": 2}, "a", (2,), "flow")),
    "(1, -1) interchanged": Pair(
        INNER, "a[i,j] = a[i-1,j+1]", interchange,
        witness=({"n": 4, "m": 4}, "insn", {"i": 1, "j": 2}, "insn", {"i": 2, "j": 1}, "a", (1, 2), "flow")),
    "(1, -1) tiled": Pair(
        INNER, "a[i,j] = a[i-1,j+1]", tile,
        witness=({"n": 4, "m": 6}, "insn", {"i_outer": 0, "i_inner": 1, "j_outer": 1, "j_inner": 0}, "insn",
                 {"i_outer": 0, "i_inner": 2, "j_outer": 0, "j_inner": 3}, "a", (1, 4), "flow")),
    "(0, 1), inner over blocks": Pair(
        INNER, "a[i,j] = a[i,j-1]", tag("j:g.0"),
        witness=({"n": 3, "m": 4}, "insn", {"i": 1, "j": 1}, "insn", {"i": 1, "j": 2}, "a", (1, 1), "flow")),
    "Jacobi's time loop tiled": Pair(
        *JACOBI, lambda knl: lk.tile(knl, {"t": 4, "i": 8}),
        witness=({"n": 10, "T": 2}, "insn", {"t_outer": 0, "t_inner": 0, "i_outer": 1, "i_inner": 0}, "insn",
                 {"t_outer": 0, "t_inner": 1, "i_outer": 0, "i_inner": 7}, "a", (1, 8), "flow")),
    "Jacobi's time loop inside": Pair(
        *JACOBI, lambda knl: lk.interchange(knl, "t", "i"),
        witness=({"n": 4, "T": 2}, "insn", {"t": 0, "i": 2}, "insn", {"t": 1, "i": 1}, "a", (1, 2), "flow")),
    "Seidel, rows over blocks": Pair(
        *SEIDEL, tag("i:g.0"),
        witness=({"n": 4}, "insn", {"i": 1, "j": 1}, "insn", {"i": 2, "j": 1}, "u", (2, 1), "anti")),
    "Seidel, columns over blocks": Pair(
        *SEIDEL, tag("j:g.0"),
        witness=({"n": 4}, "insn", {"i": 1, "j": 1}, "insn", {"i": 1, "j": 2}, "u", (1, 2), "anti")),
    "accumulation over blocks": Pair(
        *ACCUMULATE, tag("i:g.0"),
        witness=({"n": 2, "m": 1}, "insn", {"i": 0, "j": 0}, "insn", {"i": 1, "j": 0}, "s", (0,), "anti")),
    "accumulation into one element": Pair(
        LINE, "s[0] = s[0] + a[i]", tag("i:g.0"),
        witness=({"n": 2}, "insn", {"i": 0}, "insn", {"i": 1}, "s", (0,), "anti")),
    "carried temporary over blocks": Pair(
        *CARRIED, tag("i:g.0"), dtypes={"b": F32},
        witness=({}, "add", {"i": 0}, "add", {"i": 1}, "t", (), "flow")),
    "(1, 1), inner over blocks, the other unrolled": Pair(
        "{[i,j]: 1<=i<8 and 1<=j<m-1}", "a[i,j] = a[i-1,j-1]", tag("i:unr, j:g.0"),
        witness=({"m": 4}, "insn", {"i": 1, "j": 1}, "insn", {"i": 2, "j": 2}, "a", (1, 1), "flow")),
    "ilp on a loop that carries an array": Pair(
        "{[i]: 1<=i<9}", "for i\n a[i] = c[i-1] + b[i] {id=A}\n c[i] = a[i] {id=C}\nend", tag("i:ilp"),
        witness=({}, "C", {"i": 1}, "A", {"i": 2}, "c", (1,), "flow")),
    "a square read across its diagonal": Pair(
        "{[i,j]: 0<=i,j<n}", "a[i,j] = a[j,i] + 1", tag("i:g.0"),
        witness=({"n": 2}, "insn", {"i": 0, "j": 1}, "insn", {"i": 1, "j": 0}, "a", (1, 0), "anti")),
    "strided recurrence": Pair(
        "{[i]: 2<=i<n and exists k: i=2*k}", "a[i] = a[i-2]", tag("i:g.0"),
        witness=({"n": 5}, "insn", {"i": 2}, "insn", {"i": 4}, "a", (2,), "flow")),
    "union whose parts meet": Pair(
        "{[i]: 0<=i<n; [i]: 2*n<=i<3*n}", "a[i] = a[i+2*n]", tag("i:g.0"), assumptions="n >= 1",
        witness=({"n": 1}, "insn", {"i": 0}, "insn", {"i": 2}, "a", (2,), "anti")),
    "within a block, read of another block's element": Pair(
        *IN_BLOCKS, tag("b:g.0"), kernel_data=(lk.GlobalArg("t", F32), "..."),
        witness=({"n": 2}, "read", {"b": 0, "j": 0}, "write", {"b": 1, "i": 0}, "t", (1, 0), "anti")),
    "prefetch of what the loop itself writes": Pair(
        "{[i]: 0<=i<16}", "a[i] = a[15-i] + 1", lambda knl: lk.add_prefetch(knl, "a", "i"),
        witness=({}, "insn", {"i": 0}, "a_fetch_rule", {"a_dim_0": 0}, "a", (0,), "flow")),
    "prefetch before the writes of a time step": Pair(
        *REWRITTEN, lambda knl: lk.add_prefetch(knl, "a", "i", within="read", fetch_outer_inames=()),
        witness=({"T": 2}, "a_fetch_rule", {"a_dim_0": 0}, "write", {"t": 1, "i": 0}, "a", (0,), "anti")),
    "privatizing a value that is left for the next": Pair(
        "{[i]: 0<=i<8}", "for i\n a[i] = t {id=use}\n t = b[i] {id=set}\nend",
        lambda knl: lk.privatize(knl, "i", "t"), kernel_data=(lk.TemporaryVariable("t", F32, ()), "..."),
        witness=({}, "set", {"i": 0}, "use", {"i": 1}, "t", (), "flow")),
}


@pytest.mark.deep(every=27)
@pytest.mark.parametrize("name", REFUTED)
def test_refuted(name: str) -> None:
    pair = REFUTED[name]
    knl = pair.kernel()
    with pytest.raises(lk.IllegalTransformError) as caught:
        pair.transformation(knl)
    assert pair.witness is not None
    params, source, at_source, sink, at_sink, array, element, kind = pair.witness
    assert caught.value.witness == Witness(params, (source, at_source), (sink, at_sink), array, element, kind)
    message = str(caught.value)
    assert str(caught.value.witness) in message
    assert caught.value.hints
    assert all(hint in message for hint in caught.value.hints)


@pytest.mark.parametrize("name", ["accumulation over blocks", "accumulation into one element"])
def test_an_accumulation_is_told_to_be_a_reduction(name: str) -> None:
    with pytest.raises(lk.IllegalTransformError, match=r"hint: .*reduction, sum"):
        REFUTED[name].transformation(REFUTED[name].kernel())


@pytest.mark.parametrize("name", ["recurrence over blocks", "(1, -1) interchanged", "Jacobi's time loop tiled",
                                  "Seidel, rows over blocks", "carried temporary over blocks"])
def test_what_is_no_accumulation_is_not(name: str) -> None:
    with pytest.raises(lk.IllegalTransformError) as caught:
        REFUTED[name].transformation(REFUTED[name].kernel())
    assert "as a reduction, " not in str(caught.value)


# Undecided

INDEX = {"a": F32, "b": F32, "idx": np.int32}
UNDECIDED: Mapping[str, Pair] = {
    "scatter over blocks": Pair(LINE, "a[idx[i]] = b[i]", tag("i:g.0"), dtypes=INDEX),
    "scatter over threads": Pair("{[i]: 0<=i<64}", "a[idx[i]] = b[i]", tag("i:l.0"), dtypes=INDEX),
    "gather from what is written": Pair(LINE, "a[i] = a[idx[i]] + b[i]", tag("i:g.0"), dtypes=INDEX),
    "recurrence under a condition on data": Pair(ROW, "a[i] = a[i-1] {if=b[i] > 0}", tag("i:g.0")),
    "rows that may overlap": Pair(
        CSR[0], "for i\n <> first = rowptr[i]\n <> last = rowptr[i+1]\n for k\n val[k] = i\n end\nend", tag("i:g.0"),
        dtypes={"val": F32, "rowptr": np.int32}),
    "time steps over blocks, their number read from memory": Pair(
        ["{[i]: 1<=i<n-1}", "{[t]: 0<=t<steps}"], "<> steps = count[0]\nfor t, i\n a[t+1,i] = a[t,i-1] + a[t,i+1]\nend",
        tag("i:g.0"), dtypes={"a": F32, "count": np.int32}),
    "scatter reversed": Pair(SQUARE, "a[idx[i]] = b[j]", interchange, dtypes=INDEX),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_undecided(name: str) -> None:
    pair = UNDECIDED[name]
    knl = pair.kernel()
    with pytest.raises(lk.UndecidedError) as caught:
        pair.transformation(knl)
    assert "read from memory" in caught.value.reason
    assert "condition or bound" not in caught.value.reason
    assert caught.value.reason in str(caught.value)
    assert caught.value.hint is not None


# Accepted, each run

SIZES_N = ({"n": 1}, {"n": 2}, {"n": 9}, {"n": 33})
SIZES_NM = ({"n": 3, "m": 3}, {"n": 7, "m": 5}, {"n": 10, "m": 18})
ACCEPTED: Mapping[str, Pair] = {
    "recurrence unrolled": Pair("{[i]: 1<=i<64}", "a[i] = a[i-1] + b[i]", tag("i:unr"), ({},)),
    "recurrence split": Pair(ROW, "a[i] = a[i-1] + b[i]", split_tag("i", 4), SIZES_N),
    "recurrence split and unrolled": Pair(ROW, "a[i] = a[i-1] + b[i]", split_tag("i", 4, inner_tag="unr"), SIZES_N),
    "carried temporary unrolled": Pair(*CARRIED, tag("i:unr"), ({},), dtypes={"b": F32}),
    "ilp on one statement": Pair("{[i]: 1<=i<64}", "a[i] = a[i-1] + b[i]", tag("i:ilp"), ({},)),
    "every second element": Pair(LINE, "a[2*i] = a[2*i+1]", tag("i:g.0"), SIZES_N),
    "strided write": Pair(LINE, "out[2*i] = b[i]", tag("i:g.0"), SIZES_N),
    "(1, 1) interchanged": Pair(INNER, "a[i,j] = a[i-1,j-1]", interchange, SIZES_NM),
    "(1, 0) interchanged": Pair(INNER, "a[i,j] = a[i-1,j]", interchange, SIZES_NM),
    "(1, 1) tiled": Pair(INNER, "a[i,j] = a[i-1,j-1]", tile, SIZES_NM),
    "(1, 0), inner over blocks": Pair(INNER, "a[i,j] = a[i-1,j]", tag("j:g.0"), SIZES_NM),
    "(0, 1), outer over blocks": Pair(INNER, "a[i,j] = a[i,j-1]", tag("i:g.0"), SIZES_NM),
    "Jacobi's time loop split": Pair(*JACOBI, split_tag("t", 4), ({"n": 9, "T": 6},)),
    "Jacobi in one block": Pair(*JACOBI, fixed({"n": 34}, tag("i:l.0")), ({"T": 5, "n": 34},)),
    "Seidel interchanged": Pair(*SEIDEL, interchange, ({"n": 3}, {"n": 8})),
    "accumulation, its elements over blocks": Pair(*ACCUMULATE, tag("j:g.0"), SIZES_NM),
    "accumulation, its elements over blocks and threads": Pair(
        *ACCUMULATE, split_tag("j", 4, outer_tag="g.0", inner_tag="l.0"), SIZES_NM),
    "reduction, its elements over blocks": Pair(*REDUCE, tag("j:g.0"), SIZES_NM),
    "reduction over threads": Pair(*REDUCE, split_tag("i", 8, inner_tag="l.0"), SIZES_NM),
    "reduction unrolled": Pair(*REDUCE, fixed({"n": 5}, tag("i:unr")), ({"n": 5, "m": 4},)),
    "reduction by ilp": Pair(*REDUCE, fixed({"n": 5}, tag("i:ilp")), ({"n": 5, "m": 4},)),
    "gather": Pair(LINE, "a[i] = b[idx[i]]", tag("i:g.0"), dtypes=INDEX, sizes=(
        {"n": 4, "idx": np.array([3, 0, 0, 1], np.int32), "b": np.arange(4).astype(F32)},)),
    "rows of data-dependent length": Pair(*CSR, tag("i:g.0"), (CSR_DATA,), dtypes=CSR_DTYPES),
    "rows of data-dependent length, threads": Pair(
        *CSR, split_tag("i", 4, outer_tag="g.0", inner_tag="l.0"), (CSR_DATA,), dtypes=CSR_DTYPES),
    "conditional write": Pair(LINE, "a[i] = b[i] {if=b[i] > 0}", tag("i:g.0"), SIZES_N),
    "writes and reads under disjoint conditions": Pair(
        LINE, "if i % 2 == 0\n a[i] = a[i+1] + b[i]\nend", tag("i:g.0"), SIZES_N),
    "explicit order within an instance": Pair(
        LINE, "x[i] = 1 {id=A}\ny[i] = 2 + b[i] {id=B, dep=A}", tag("i:g.0"), SIZES_N),
    "explicit order between two loops": Pair(
        "{[i,j]: 0<=i<n and 0<=j<n}", "for i\n x[i] = b[i] {id=A}\nend\nfor j\n y[j] = b[j] {id=B, dep=A}\nend",
        tag("i:g.0, j:g.0"), SIZES_N),
    "triangle read below its diagonal": Pair("{[i,j]: 0<=i<n and 0<=j<=i}", "a[i,j] = a[j,i] + 1", tag("i:g.0"),
                                             ({"n": 1}, {"n": 7})),
    "triangle over blocks and threads": Pair(
        "{[i,j]: 0<=i<n and 0<=j<=i}", "a[i,j] = b[i] - b[j]",
        lambda knl: lk.split_iname(lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.1"), "j", 4,
                                   outer_tag="g.1", inner_tag="l.0"), ({"n": 1}, {"n": 10})),
    "forward substitution by columns": Pair(*SUBSTITUTE, interchange, ({"n": 2}, {"n": 6})),
    "strided domain": Pair("{[i]: 0<=i<n and exists k: i=2*k}", "a[i] = a[i+1] + b[i]", tag("i:g.0"), SIZES_N),
    "strided domain over threads": Pair(
        "{[i]: 0<=i<n and exists k: i=3*k+1}", "a[i] = b[i]", split_tag("i", 8, outer_tag="g.0", inner_tag="l.0"),
        SIZES_N),
    "union whose parts stay apart": Pair(
        "{[i]: 0<=i<n; [i]: 2*n<=i<3*n}", "a[i] = a[i+n] + 1", tag("i:g.0"), SIZES_N, assumptions="n >= 1"),
    "private value": Pair(LINE, "<> t = b[i]\na[i] = t", tag("i:g.0"), SIZES_N),
    "private value, privatized": Pair("{[i]: 0<=i<8}", "<> t = b[i]\na[i] = t", lambda knl: lk.privatize(knl, "i"),
                                      ({},)),
    "private value by ilp": Pair("{[i]: 0<=i<8}", "<> t = b[i]\na[i] = t", tag("i:ilp"), ({},)),
    "two loops over blocks: two launches": Pair(
        *TWO_LOOPS, lambda knl: lk.split_iname(lk.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0"), "j", 16,
                                               outer_tag="g.0", inner_tag="l.0"),
        SIZES_N, kernel_data=(lk.GlobalArg("t", F32), "...")),
    "two loops in one block: a barrier": Pair(
        *TWO_LOOPS, fixed({"n": 33}, tag("i:l.0, j:l.0")), ({"n": 33},), kernel_data=(lk.GlobalArg("t", F32), "...")),
    "prefetch of what each time step writes anew": Pair(
        *REWRITTEN, lambda knl: lk.add_prefetch(knl, "a", "i", within="read"), ({"T": 1}, {"T": 4})),
    "(1, -1) with nothing in common": Pair(INNER, "c[i,j] = a[i-1,j+1]", tile, SIZES_NM),
    "(1, 1), outer over blocks, the other on the host": Pair(INNER, "a[i,j] = a[i-1,j-1]", tag("i:g.0"), SIZES_NM),
    "(1, 1), inner over blocks, the other on the host": Pair(INNER, "a[i,j] = a[i-1,j-1]", tag("j:g.0"), SIZES_NM),
    "Jacobi's space over blocks, time on the host": Pair(*JACOBI, tag("i:g.0"), ({"n": 9, "T": 6},)),
    "forward substitution, rows over blocks, columns on the host": Pair(
        *SUBSTITUTE, tag("i:g.0"), ({"n": 2}, {"n": 6})),
}


@pytest.mark.deep(every=7)
@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    pair = ACCEPTED[name]
    knl = pair.kernel()
    transformed = pair.transformation(knl)
    for given in pair.sizes:
        assert_same(knl, transformed, **given)


# Decided in lowering

def two_loops_in_a_block(attribute: str) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i,j]: 0<=i,j<32}", f"""
        for i
            t[i] = 2*x[i] {{id=write}}
        end
        for j
            y[j] = t[31-j] {{id=read{attribute}}}
        end
        """, [lk.GlobalArg("x", F32), lk.GlobalArg("y", F32), lk.TemporaryVariable("t", F32), "..."])
    return lk.tag_inames(knl, "i:l.0, j:l.0")


def test_nosync_is_never_believed() -> None:
    with pytest.raises(lk.IllegalTransformError, match="nosync= claims") as caught:
        lk.lower(two_loops_in_a_block(", nosync=write"))
    assert caught.value.witness == Witness({}, ("write", {"i": 0}), ("read", {"j": 31}), "t", (0,), "flow")
    assert caught.value.hints == ("drop nosync=",)


def test_nosync_that_holds_is_no_trouble() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<32}", "<> t[i] = 2*x[i] {id=write}\ny[i] = t[i] {id=read, nosync=write}")
    knl = lk.add_dtypes(knl, {"x": F32})
    assert_same(knl, lk.tag_inames(knl, "i:l.0"))


@pytest.mark.parametrize("ilp", ["ilp", "ilp.seq"])
def test_ilp_needs_values_that_stay_in_their_iteration(ilp: str) -> None:
    knl = lk.tag_inames(Pair(*CARRIED, tag(""), dtypes={"b": F32}).kernel(), {"i": ilp})
    with pytest.raises(lk.StorageError) as caught:
        lk.lower(knl)
    assert caught.value.subject == "t"


def test_a_reduction_over_blocks_is_refused() -> None:
    with pytest.raises(lk.PreconditionError, match=r"cannot have the tag 'g\.0'") as caught:
        lk.tag_inames(Pair(*REDUCE, tag("")).kernel(), "i:g.0")
    assert caught.value.subject == "i"
    assert caught.value.hint is not None


# The verdict on a step

def test_untagging_is_checked_too() -> None:
    """Within one statement instance order, a tag may have stood where a loop may not."""
    knl = Pair(*JACOBI, tag("")).kernel()
    knl = lk.fix_parameters(knl, n=34)
    back = lk.untag_inames(lk.tag_inames(knl, "i:l.0"), "i")
    assert_same(knl, back, T=3)


def test_a_legal_order_stays_legal_after_more_steps() -> None:
    knl = Pair(INNER, "a[i,j] = a[i-1,j-1]", tag("")).kernel()
    tiled = lk.tile(knl, {"i": 3, "j": 5})
    again = lk.split_iname(tiled, "j_inner", 2)
    assert_same(knl, again, n=11, m=13)
    with pytest.raises(lk.IllegalTransformError):
        lk.tag_inames(again, {"i_outer": "g.0"})


@pytest.mark.parametrize("text", [
    "a[i] = if(alpha > 0 and alpha < 1, a[i-1], 0)", "a[i] = a[i-1] {if=alpha > 0 and alpha < 1}"])
def test_an_argument_without_a_dtype_may_be_real(text: str) -> None:
    """No integer lies between 0 and 1, but 0.5 does."""
    knl = lk.make_kernel("{[i]: 1<=i<64}", text)
    with pytest.raises(lk.UndecidedError, match="depends on 'alpha', which may not be an integer"):
        lk.tag_inames(knl, "i:l.0")
    assert lk.tag_inames(lk.add_dtypes(knl, {"alpha": np.int32}), "i:l.0").history[-1].verdict == "proven"


def test_an_argument_in_a_subscript_is_an_integer() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<64}", "a[i] = if(k > 64, a[i+k], 0)")
    assert lk.tag_inames(knl, "i:l.0").history[-1].verdict == "proven"
