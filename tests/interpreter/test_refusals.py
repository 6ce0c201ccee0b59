"""err.replay(): each kind of refusal shows cells that differ, and the truth about them."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import loopkit as lk

Transformation = Callable[[lk.LoopKernel], lk.LoopKernel]

LINE, ROW, SQUARE = "{[i]: 0<=i<n}", "{[i]: 1<=i<n}", "{[i,j]: 1<=i<n-1 and 1<=j<m-1}"
BY_BLOCKS = ("{[t,i,j]: 0<=t<2 and 1<=i,j<n-1}", """
    for t
        for i
            v[i] = u[i-1] + u[i+1] {id=A}
        end
        for j
            u[j] = v[j] {id=B}
        end
    end
    """)
CSR = (["{[i]: 0<=i<n}", "{[k]: first<=k<last}"], """
    for i
        <> first = rowptr[i]
        <> last = rowptr[i+1]
        y[i+1] = y[i] + sum(k, val[k]*x[col[k]])
    end
    """)


def refusal(domain: str | list[str], text: str, step: Transformation, data: tuple[Any, ...] | None = None,
            **dtypes: Any) -> lk.IllegalTransformError:
    knl = lk.make_kernel(domain, text, data)
    with pytest.raises(lk.IllegalTransformError) as caught:
        step(lk.add_dtypes(knl, dtypes) if dtypes else knl)
    return caught.value


def tag(text: str) -> Transformation:
    return lambda knl: lk.tag_inames(knl, text)


def split(iname: str, length: int, **tags: Any) -> Transformation:
    return lambda knl: lk.split_iname(knl, iname, length, **tags)


@dataclass(frozen=True)
class Shown:
    """A refused step.

    :ivar cells: the elements that must differ.
    """

    domain: str | list[str]
    text: str
    step: Transformation
    order: str
    cells: tuple[str, ...]
    data: tuple[Any, ...] | None = None


FIRST = "the second instance could run before the first"
LOOPS = "the second instance would run before the first"
STALE = "the second instance could read before the first writes"
SHOWN: Mapping[str, Shown] = {
    "recurrence over blocks": Shown(ROW, "a[i] = a[i-1] + b[i]", tag("i:g.0"), FIRST, ("a[2]",)),
    "recurrence over threads": Shown("{[i]: 1<=i<5}", "a[i] = a[i-1] + b[i]", tag("i:l.0"), FIRST,
                                     ("a[2]", "a[3]", "a[4]")),
    "recurrence, split": Shown(ROW, "a[i] = a[i-1] + b[i]", split("i", 2, outer_tag="g.0"), FIRST, ("a[2]",)),
    "backward recurrence": Shown(LINE, "a[i] = a[i+1] + b[i]", tag("i:g.0"), FIRST, ("a[0]",)),
    "two writers": Shown(LINE, "out[i//2] = b[i]", tag("i:g.0"), FIRST, ("out[0]",)),
    "(1, -1) interchanged": Shown(SQUARE, "a[i,j] = a[i-1,j+1]", lambda knl: lk.interchange(knl, "i", "j"), LOOPS,
                                  ("a[2, 1]",)),
    "(1, -1) tiled": Shown(SQUARE, "a[i,j] = a[i-1,j+1]", lambda knl: lk.tile(knl, {"i": 4, "j": 4}), LOOPS,
                           ("a[2, 3]",)),
    "accumulation": Shown(LINE, "s[0] = s[0] + a[i]", tag("i:g.0"), STALE, ("s[0]",)),
    "unrolled time steps over blocks": Shown(*BY_BLOCKS, tag("t:unr, i:g.0, j:g.0"), FIRST, ("u[2]", "v[2]")),
    "a temporary that is carried": Shown(
        "{[i]: 0<=i<3}", "<> t = 0\nfor i\n t = t + b[i]\n a[i] = t\nend", tag("i:g.0"), FIRST,
        ("a[1]", "a[2]")),
    "ilp": Shown("{[i]: 1<=i<4}", "for i\n a[i] = c[i-1] + b[i]\n c[i] = a[i]\nend", tag("i:ilp"), LOOPS,
                 ("a[2]", "a[3]", "c[2]", "c[3]")),
    "prefetch of what the loop writes": Shown(
        "{[i]: 0<=i<4}", "a[i] = a[3-i] + 1", lambda knl: lk.add_prefetch(knl, "a", "i"), LOOPS, ("a[2]", "a[3]")),
    "privatizing what is left for the next": Shown(
        "{[i]: 0<=i<2}", "for i\n a[i] = t\n t = b[i]\nend", lambda knl: lk.privatize(knl, "i", "t"),
        "the value would be lost", ("a[1]",), (lk.TemporaryVariable("t", np.dtype("float64"), ()), "...")),
    "contracting what outlives its iteration": Shown(
        "{[i]: 0<=i<3}", "for i\n <> t[i] = x[i]\nend\nfor i\n y[i] = 2*t[i]\nend",
        lambda knl: lk.contract(knl, "t", "i"), "the value would be lost", ("y[0]",)),
    "fused over a forward read": Shown(
        "{[i,j]: 0<=i<n and 0<=j<n}", "for i\n a[i] = c[i]\nend\nfor j\n b[j] = a[j+1]\nend",
        lambda knl: lk.fuse_loops(knl, ["i", "j"]), LOOPS, ("b[0]",)),
    "distributed though it feeds back": Shown(
        ROW, "for i\n a[i] = b[i-1] {id=A}\n b[i] = a[i] + 1 {id=B}\nend",
        lambda knl: lk.distribute_loop(knl, "i", before="B"), LOOPS, ("a[2]", "b[2]")),
    "reversed recurrence": Shown(ROW, "a[i] = a[i-1] + b[i]", lambda knl: lk.reverse(knl, "i"), LOOPS, ("a[2]",)),
    "rescheduled": Shown(LINE, "x[i] = b[i] {id=A}\ny[i] = x[i] {id=B}",
                         lambda knl: lk.apply_schedule(knl, {"A": "[1, i]", "B": "[0, i]"}), LOOPS, ("y[0]",)),
    "rows of data-dependent length": Shown(*CSR, tag("i:g.0"), FIRST, ("y[2]",)),
}


@pytest.mark.parametrize("name", SHOWN)
def test_cells_that_differ(name: str) -> None:
    shown = SHOWN[name]
    replay = refusal(shown.domain, shown.text, shown.step, shown.data).replay()
    assert not replay.hidden
    assert tuple(str(d).split(" is ")[0] for d in replay.differing) == shown.cells
    assert replay.order == shown.order
    assert all(d.expected != d.got for d in replay.differing)
    assert all(str(d) in str(replay) for d in replay.differing)


def in_two_launches(knl: lk.LoopKernel) -> lk.LoopKernel:
    """Two loops over blocks that exchange values: a launch ends between them."""
    return lk.tag_inames(knl, "i:g.0, j:g.0")


@pytest.mark.parametrize(("text", "cells"), [
    ("for s, i\n <> t[s, i] = x[s, i]\nend\nfor s, j\n y[s, j] = t[s, 2-j]\nend", ("y[0, 0]", "y[0, 1]", "y[0, 2]")),
    ("for s\n for i\n  <> t[s, i] = x[s, i]\n end\n for j\n  z[s, j] = t[s, 2-j]\n end\nend\n"
     "for s, j\n y[s, j] = t[s, 2-j]\nend", ("y[0, 0]", "y[0, 1]", "y[0, 2]"))])
def test_a_launch_ends_before_the_next_begins(text: str, cells: tuple[str, ...]) -> None:
    """The reader's block does not run ahead of an earlier launch: the value is lost otherwise."""
    knl = in_two_launches(lk.make_kernel("{[s,i,j]: 0<=s<2 and 0<=i,j<3}", text))
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.contract(knl, "t", "s")
    replay = caught.value.replay()
    assert replay.order == "the value would be lost"
    assert not replay.hidden
    assert set(cells) >= {str(d).split(" is ")[0] for d in replay.differing}


def test_blocks_of_one_launch_run_in_any_order_still() -> None:
    """The loop over t cannot be the host's, so that the refused order has all of it in one launch."""
    replay = refusal(*BY_BLOCKS, tag("t:unr, i:g.0, j:g.0")).replay()
    assert replay.order == FIRST


def test_it_prints() -> None:
    err = refusal(LINE, "a[i+1] = a[i] + b[i]", tag("i:g.0"))
    a, b = np.array([1.0, 0.25, 0]), np.array([2.0, 4.0])
    replay = err.replay(a=a, b=b)
    assert str(replay) == """\
with n = 2: insn[i=0] writes a[1], which insn[i=1] reads
  the second instance could run before the first
  insn[i=1] reads 3.0, and would read 0.25
cells that differ, of 2 written (seed 0):
  a[2] is 7.0, and would be 4.25"""
    assert list(a) == [1, 0.25, 0]                       # what was given stays as it was
    assert (replay.witness, replay.parameters, replay.seed) == (err.witness, {"n": 2}, 0)
    assert (replay.expected, replay.got) == (3.0, 0.25)
    assert replay.differing == (lk.CellDifference("a", (2,), 7.0, 4.25),)


@pytest.mark.parametrize("text", ["a[i+1] = 0*a[i] + b[i]", "a[i+1] = min(b[i], 100 + a[i])"])
def test_values_that_hide_the_dependence(text: str) -> None:
    replay = refusal(LINE, text, tag("i:g.0")).replay()
    assert replay.hidden
    assert "none of the 2 cells written differs: on these data (seed 0) the values hide the dependence" in str(replay)


def test_a_lost_update() -> None:
    """Both threads read the sum before either adds to it."""
    replay = refusal(LINE, "s[0] = s[0] + a[i]", tag("i:g.0")).replay(s=np.array([1.0]), a=np.array([10.0, 100.0]))
    assert [(d.expected, d.got) for d in replay.differing] == [(111.0, 101.0)]


def test_an_update_that_overwrites() -> None:
    replay = refusal(LINE, "s[0] = max(s[0], a[i])", tag("i:g.0")).replay(s=np.array([1.0]), a=np.array([100.0, 10.0]))
    assert replay.order == STALE
    assert [(d.expected, d.got) for d in replay.differing] == [(100.0, 10.0)]
    other = refusal(LINE, "s[0] = max(s[0], a[i])", tag("i:g.0")).replay(s=np.array([1.0]), a=np.array([10.0, 100.0]))
    assert other.order == "the first instance could read before the second writes, and write after it"
    assert [(d.expected, d.got) for d in other.differing] == [(100.0, 10.0)]


def test_other_sizes_and_seeds() -> None:
    err = refusal(LINE, "a[i+1] = a[i] + b[i]", tag("i:g.0"))
    large = err.replay(n=20)
    assert large.parameters == {"n": 20}
    assert str(large).startswith("with n = 20: ")
    assert [d.element for d in large.differing] == [(i,) for i in range(2, 21)]
    assert "... and 9 more" in str(large)
    assert err.replay(seed=1).differing != err.replay().differing
    assert err.replay(seed=1) == err.replay(seed=1)


def test_sizes_without_the_witness() -> None:
    err = refusal(LINE, "a[i+1] = a[i] + b[i]", tag("i:g.0"))
    with pytest.raises(lk.CallError, match=r"insn\[i=1\] is not an instance at these sizes"):
        err.replay(n=1)
    with pytest.raises(lk.CallError, match=r"^The kernel's assumptions exclude n = -1: they are n >= 0"):
        err.replay(n=-1)
    with pytest.raises(lk.PreconditionError, match="too many instances") as caught:
        err.replay(n=10**6)
    assert caught.value.subject == "insn"


def test_given_arrays_must_fit() -> None:
    err = refusal(LINE, "a[i+1] = a[i] + b[i]", tag("i:g.0"))
    with pytest.raises(lk.CallError, match=r"reads b\[1\], which the given array of shape \(1,\) does not have"):
        err.replay(b=np.zeros(1))
    with pytest.raises(lk.CallError, match="'c' is not an argument of kernel"):
        err.replay(c=np.zeros(1))
    with pytest.raises(lk.CallError, match="'n'"):
        err.replay(n=1.5)


def test_sizes_that_the_witness_leaves_open() -> None:
    """A statement beside, over another size, runs too; what nothing is said of gets a value."""
    err = refusal("{[i,j]: 0<=i<n and 0<=j<m}", "a[i+1] = a[i] + b[i]\nc[j] = s*k*b[j]", tag("i:g.0"),
                  (lk.ValueArg("k", np.dtype("int32")), lk.ValueArg("s", np.dtype("float32")), "..."))
    assert "k" not in err.witness.parameters
    replay = err.replay(m=4)
    assert (replay.parameters["m"], replay.parameters["k"]) == (4, 3)
    assert replay.cells == 2 + 4


def test_dtypes_are_the_kernel_s() -> None:
    err = refusal(LINE, "a[i+1] = a[i]*2 + b[i]", tag("i:g.0"), a=np.int8, b=np.int8)
    replay = err.replay(a=np.array([100, 1, 0], np.int8), b=np.array([0, 0], np.int8))
    assert replay.expected == np.int8(-56)               # as in the kernel, 200 does not fit
    assert replay.expected.dtype == np.int8
    z = refusal(LINE, "z[i+1] = z[i]*2j + exp(real(z[i]))", tag("i:g.0"), z=np.complex64).replay()
    assert z.expected.dtype == np.complex64
    assert not z.hidden


def test_dtypes_of_given_arrays() -> None:
    err = refusal(LINE, "a[i+1] = a[i] + b[i]", tag("i:g.0"))
    assert err.replay(a=np.zeros(3, np.float32), b=np.ones(2, np.float32)).expected.dtype == np.float32


def test_reorderable_sums_round_alike() -> None:
    """Sums whose order is free differ by rounding, which is no difference; the broken one shows."""
    knl = lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<l}", "y[i+1] = y[i] + sum(k, a[i,k]/3)")
    knl = lk.split_iname(lk.add_dtypes(knl, {"a,y": np.float32}), "k", 2)
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.tag_inames(lk.tag_inames(knl, "k_inner:l.0"), "i:g.0")
    replay = caught.value.replay(l=40)
    assert [d.element for d in replay.differing] == [(2,)]


def test_a_bound_that_the_kernel_computes() -> None:
    err = refusal(["{[i]: 0<=i<n}", "{[k]: 0<=k<count}"], """
        for i
            length[i] = 2*given[i] {id=make}
            <> count = length[i] {dep=make}
            y[i+1] = y[i] + sum(k, x[k])
        end
        """, tag("i:g.0"), y=np.float64, given=np.int32)
    with pytest.raises(lk.PreconditionError, match="'count' depends on what the kernel computes"):
        err.replay()


def test_a_race_that_nosync_hides() -> None:
    """Found by lowering: of the kernel itself, two threads meet where no barrier is to be."""
    knl = lk.make_kernel("{[i,j]: 0<=i,j<32}", """
        for i
            <> t[i] = 2*x[i] {id=write}
        end
        for j
            y[j] = t[31-j] {id=read, nosync=write}
        end
        """)
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "i:l.0, j:l.0")
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.lower(knl)
    replay = caught.value.replay()
    assert replay.order == FIRST
    assert [str(d).split(" is ")[0] for d in replay.differing] == ["y[31]"]
    assert "read[j=31] reads" in str(replay)


def test_before_an_order_was_made() -> None:
    err = refusal(LINE, "a[i+1] = a[i] + b[i]", tag("i:g.0"))
    with pytest.raises(lk.PreconditionError, match="nothing to replay"):
        lk.IllegalTransformError(err.message, err.witness).replay()


def test_a_mapped_kernel_before_the_step() -> None:
    """Its temporaries are expanded, private and shared by then: values, not cells."""
    knl = lk.make_kernel("{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<l}",
                         "c[i,j+1] = c[i,j] + sum(k, a[i,k]*b[k,j])", name="chain")
    knl = lk.split_iname(lk.add_dtypes(knl, {"a,b": np.float32}), "i", 2, outer_tag="g.0", inner_tag="l.0")
    knl = lk.add_prefetch(lk.split_iname(knl, "k", 2), "a", ["i_inner", "k_inner"])
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.tag_inames(knl, "j:g.1")
    replay = caught.value.replay(n=3, l=3)
    assert [d.element for d in replay.differing] == [(0, 2)]
