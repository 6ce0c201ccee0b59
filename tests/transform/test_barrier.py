"""Barriers that the user requests: their places, unchanged results, and other steps after them."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.constructors import annotated
from loopkit.ast.nodes import Scope
from loopkit.kernel.statement import RequestedBarrier
from loopkit.kernel.tree import Barrier, Loop, Seq, Tree
from tests.lowering.kernels import F32, make


def barriers(knl: lk.LoopKernel) -> list[tuple[int, Barrier]]:
    """Those of the lowered kernel, with the number of their launch."""
    bound = lk.lower(knl, stop="barriers")

    def inside(tree: Tree) -> list[Barrier]:
        match tree:
            case Barrier():
                return [tree]
            case Loop(_, body):
                return inside(body)
            case Seq(children):
                return [b for c in children for b in inside(c)]
            case _:
                return []
    return [(i, b) for i, launch in enumerate(bound.launches) for b in inside(launch.tree)]


def two_parts() -> lk.LoopKernel:
    """Each thread for itself: nothing needs a barrier."""
    return lk.tag_inames(make("{[b, i]: 0<=b<n and 0<=i<64}", """
        for b, i
            y[b, i] = 2*x[b, i] {id=first}
            z[b, i] = 3*x[b, i] {id=second}
        end
        """, x=F32), "b:g.0, i:l.0")


def steps() -> lk.LoopKernel:
    return lk.tag_inames(make("{[t, b, i]: 0<=t<T and 0<=b<n and 0<=i<64}", """
        for t, b, i
            y[b, i] = y[b, i] + x[b, i] {id=first}
            z[b, i] = z[b, i] + y[b, i] {id=second}
        end
        """, x=F32, y=F32, z=F32), "b:g.0, i:l.0")


def test_a_barrier_of_the_block() -> None:
    assert barriers(two_parts()) == []
    knl = lk.add_barrier(two_parts(), "first", "second", synchronization_kind="local")
    (launch, barrier), = barriers(knl)
    assert launch == 0
    assert barrier.serves == ("requested between first and second",)
    assert barrier.scope is Scope.BLOCK
    text = str(lk.generate_code(knl))
    assert text.index("// first") < text.index("// requested between first and second") < text.index("__syncthreads")
    assert "barriers: 1, 1 not needed" in text
    assert lk.verify(knl, full=True).proven


def test_one_that_is_needed_anyhow_stands_once() -> None:
    knl = lk.tag_inames(make("{[b, i, j]: 0<=b<n and 0<=i,j<64}", """
        for b
            for i
                <> t[i] = x[b, i] {id=first}
            end
            for j
                y[b, j] = t[63 - j] {id=second}
            end
        end
        """, x=F32), "b:g.0, i:l.0, j:l.0")
    (_, before), = barriers(knl)
    (_, after), = barriers(lk.add_barrier(knl, "first", "second", synchronization_kind="local"))
    assert after.serves == before.serves                 # what a value needs tells more


def test_the_end_of_a_launch() -> None:
    knl = lk.add_barrier(two_parts(), "first", "second")
    assert len(lk.generate_code(two_parts()).kernels) == 1
    assert len(lk.generate_code(knl).kernels) == 2
    assert barriers(knl) == []


def sums() -> lk.LoopKernel:
    return make("{[b, i, j]: 0<=b<n and 0<=i<64 and 0<=j<n}", """
        p[b] = sum(i, x[b, i]) {id=partial}
        y[0] = sum(j, p[j]) {id=total}
        """, x=F32)


def test_a_statement_stands_for_the_parts_of_its_reductions() -> None:
    rows = lk.tag_inames(make("{[b, i, j]: 0<=b<n and 0<=i<64 and 0<=j<8}", """
        for b, i
            <> p = 2*x[b, i] {id=partial}
            y[b, i] = sum(j, p*j) {id=total}
        end
        """, x=F32), "b:g.0, i:l.0")
    local = str(lk.lower(lk.add_barrier(rows, "partial", "total", synchronization_kind="local"), stop="barriers"))
    assert local.index("  partial\n") < local.index("requested between") < local.index("total.j.init")
    apart = lk.lower(lk.add_barrier(sums(), "partial", "total"), stop="schedule")
    assert str(apart).split("launch 1:")[1].split() == ["total.j.init", "for", "j", "total.j.update", "total"]


def test_a_launch_ends_where_fewest_values_cross_it() -> None:
    """The sum over what all blocks have written starts after them: what adds it up stays in a register."""
    knl = lk.tag_inames(sums(), "b:g.0, i:l.0")
    assert str(lk.lower(knl, stop="schedule")).split("launch 1:")[1].split()[0] == "total.j.init"
    assert "private float32 acc_j\n" in f"{lk.lower(knl, stop='storage')}\n"


def test_fewer_values_do_not_cost_a_launch() -> None:
    """One end between the second statement and the third serves both readers, though two values cross it."""
    knl = lk.tag_inames(make("{[i, j]: 0<=i,j<n}", """
        for i
            a[i] = x[i] {id=first}
        end
        for i
            b[i] = 2*x[i] {id=second}
        end
        for j
            y[j] = a[n-1-j] {id=third}
            z[j] = b[n-1-j] {id=fourth}
        end
        """, [lk.TemporaryVariable("a,b", F32), "..."], x=F32), "i:g.0, j:g.0")
    assert str(lk.lower(knl, stop="schedule")).split() == [
        "launch", "0:", "first", "second", "launch", "1:", "third", "fourth"]


def test_the_loops_around_it_are_the_hosts() -> None:
    knl = lk.add_barrier(steps(), "first", "second")
    assert str(lk.lower(knl, stop="schedule")).splitlines() == [
        "on the host, for t:", "  launch 0:", "    first", "  launch 1:", "    second"]


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["local", "global"])
@pytest.mark.parametrize("make_kernel", [two_parts, steps])
def test_results_stay(make_kernel: object, kind: str) -> None:
    assert callable(make_kernel)
    knl = make_kernel()
    rng = np.random.default_rng(1)
    arrays = {a: rng.uniform(-1, 1, (3, 64)).astype(F32) for a in knl.array_args}
    sizes = {"T": 4} if "T" in knl.argument_by_name else {}
    expected = lk.compile(knl, target="c")(**{k: v.copy() for k, v in arrays.items()}, **sizes)
    found = lk.compile(lk.add_barrier(knl, "first", "second", synchronization_kind=kind), target="c")(
        **{k: v.copy() for k, v in arrays.items()}, **sizes)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_it_stays_through_other_steps() -> None:
    knl = lk.add_barrier(two_parts(), "first", "second", synchronization_kind="local")
    knl = lk.rename_iname(knl, "b", "block")
    assert knl.barriers == (RequestedBarrier("first", "second", "local"),)
    assert len(barriers(knl)) == 1
    assert "local barrier between first and second" in str(knl)
    assert lk.add_barrier(knl, "first", "second", synchronization_kind="local") == knl


def test_kernels_with_and_without_differ() -> None:
    assert lk.add_barrier(two_parts(), "first", "second") != two_parts()


def test_a_statement_that_is_gone() -> None:
    knl = annotated(two_parts(), barriers=(RequestedBarrier("first", "third", "local"),))
    with pytest.raises(lk.ScheduleError, match=r"next to 'third', which is no longer a statement"):
        lk.lower(knl)


def test_refusals() -> None:
    with pytest.raises(lk.UnknownNameError):
        lk.add_barrier(two_parts(), "first", "third")
    with pytest.raises(lk.PreconditionError, match="not a kind of barrier"):
        lk.add_barrier(two_parts(), "first", "second", synchronization_kind="warp")
    with pytest.raises(lk.ScheduleError, match="does not follow"):
        lk.add_barrier(two_parts(), "second", "first")
    with pytest.raises(lk.ScheduleError, match="does not follow"):
        lk.add_barrier(two_parts(), "first", "first")


def test_no_launch_ends_in_a_loop_whose_bounds_are_read() -> None:
    knl = make(["{[b]: 0<=b<n}", "[count] -> {[k]: 0<=k<count}"], """
        for b
            <int32> count = length[b]
            for k
                y[b, k] = 2*x[b, k] {id=first}
                z[b, k] = 3*x[b, k] {id=second}
            end
        end
        """, x=F32, length=np.int32)
    with pytest.raises(lk.ScheduleError, match="read from memory"):
        lk.add_barrier(knl, "first", "second")
