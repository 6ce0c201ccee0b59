"""delay: the order of the statements, the values, and what it refuses, each with a way out."""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.order import loops_of
from loopkit.kernel.tree import leaves, loops_in, parts_of
from tests.transform.same import assert_same


def recurrence() -> lk.LoopKernel:
    """A running sum of sums, whose scale depends on what was read so far."""
    knl = lk.make_kernel("{[t, k]: 0<=t<n and 0<=k<8}", """
        <> x = 0  {id=first_x}
        <> s = 0  {id=first_s}
        for t
            <> y = max(x, a[t, 0])  {id=y}
            <> u = y - x  {id=u}
            s = s*u + sum(k, a[t, k]*y)  {id=s}
            x = y  {id=x}
            b[t] = y  {id=b}
        end
        c = s + x  {id=c}
        """, assumptions="n>=1")
    return lk.add_dtypes(knl, {"a,b,c": np.int64})


def three() -> lk.LoopKernel:
    return lk.make_kernel("{[t, i]: 0<=t<n and 0<=i<8}", """
        for t
            <> x[i] = a[t, i]  {id=load}
            <> y[i] = 2*x[i]  {id=double}
            b[t, i] = y[i] + x[i]  {id=store}
        end""")


#: The sum is of the iteration before, and its scale too.
LATER = {"s.k.init": "y", "s.k.update": "y", "s": "u"}


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_values_stay_the_same(n: int) -> None:
    knl = recurrence()
    result = lk.delay(knl, "t", LATER)
    assert result.history[-1].verdict == "proven"
    assert_same(knl, result, n=n)


@pytest.mark.parametrize(("order", "overwritten"), [({"s": "b"}, "y"), ({**LATER, "s": "x"}, "u"),
                                                    ({**LATER, "s.k.update": "u"}, "y")])
def test_a_value_is_overwritten_before_a_delayed_statement_reads_it(order: Mapping[str, str], overwritten: str) -> None:
    """Values keep their order in the proof; lowering finds no cells that hold both."""
    result = lk.delay(recurrence(), "t", order)
    with pytest.raises(lk.StorageError, match=f"cells of '{overwritten}' cannot hold all values"):
        lk.lower(result)


def test_the_order_within_an_iteration() -> None:
    result = lk.delay(recurrence(), "t", LATER)
    own = [s for s in leaves(result.tree) if "t" in loops_of(result.paths[s])]
    assert own == ["s.k.init", "s.k.update", "y", "s", "u", "x", "b"]
    first = [s for s in leaves(result.tree) if "t_first" in loops_of(result.paths[s])]
    assert first == ["y_first", "u_first", "x_first", "b_first"]
    assert [s for s in leaves(result.tree) if "t_last" in loops_of(result.paths[s])] == [
        "s_last.k.init", "s_last.k.update", "s_last"]


@pytest.mark.parametrize("by", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_several_iterations(by: int, n: int) -> None:
    """Each iteration keeps the values that a later one reads."""
    knl = lk.add_dtypes(three(), {"a": np.int64})
    knl = lk.expand(lk.expand(knl, "x", "t"), "y", "t")
    assert_same(knl, lk.delay(knl, "t", {"store": "load"}, by=by), n=n)


@pytest.mark.parametrize(("statements", "by", "error", "message", "hint"), [
    ({}, 1, lk.PreconditionError, "delay needs the statements that run later.", 'for example {"store": "load"}'),
    ({"stor": "load"}, 1, lk.UnknownNameError, "'stor' is not a statement of the kernel.", "did you mean 'store'?"),
    ({"store": "load", "double": "store"}, 1, lk.PreconditionError,
     "'store' is delayed itself, so that nothing runs right before it.", "name a statement that keeps its iteration"),
    ({"store": "load"}, -1, lk.PreconditionError, "iterations must be a positive integer, not -1.", ""),
    ({"store": "load"}, 0, lk.IllegalTransformError, "would run a value's reader before its writer",
     "store[t=0, i=0] reads"),
    ({"double": "store"}, 1, lk.IllegalTransformError,
     "would run a value's reader before its writer", "double[t=1, i=0] writes")])
def test_what_it_refuses(statements: dict[str, str], by: int, error: type[lk.LoopkitError], message: str, hint: str
                         ) -> None:
    knl = three()
    with pytest.raises(error) as caught:
        lk.delay(knl, "t", statements, by=by)
    assert message in str(caught.value)
    assert hint in str(caught.value)


def test_statements_of_two_loops() -> None:
    knl = lk.distribute_loop(lk.expand(lk.expand(three(), "x", "t"), "y", "t"), "t", "store")
    with pytest.raises(lk.ScheduleError, match="not all in one loop over 't'"):
        lk.delay(knl, "t", {"store": "load"})


def test_a_loop_with_a_tag() -> None:
    knl = lk.tag_inames(lk.expand(lk.expand(three(), "x", "t"), "y", "t"), "t:g.0")
    with pytest.raises(lk.PreconditionError, match=r"'t' has the tag 'g\.0'"):
        lk.delay(knl, "t", {"store": "load"})


def test_a_part_of_a_reduction_without_a_place() -> None:
    with pytest.raises(lk.PreconditionError) as caught:
        lk.delay(recurrence(), "t", {"s.k.update": "y"})
    assert caught.value.message == "'s' is a part of a reduction, and its place is not given."
    assert caught.value.hint == "name 's' too"


def two_sums() -> lk.LoopKernel:
    return lk.add_dtypes(lk.make_kernel("{[t, k, l]: 0<=t<n and 0<=k,l<8}", """
        for t
            <> x = sum(k, a[t, k])  {id=x}
            <> y = sum(l, a[t, l]*a[t, l])  {id=y}
            <> z = x*x  {id=z}
            b[t] = y*z  {id=b}
        end"""), {"a": np.int64})


@pytest.mark.parametrize(("order", "expected"), [
    ({"y.l.update": "x"}, "x.k.init x.k.update y.l.init y.l.update x y z b"),
    ({"y.l.update": "x", "y": "b"}, "x.k.init x.k.update y.l.init y.l.update x z y b"),
    ({"y": "x"}, "x.k.init x.k.update y.l.init y.l.update y x z b")])
def test_in_the_same_iteration(order: Mapping[str, str], expected: str) -> None:
    """Parts of sums move apart; the last parts stay if they are not named."""
    knl = two_sums()
    result = lk.delay(knl, "t", order, by=0)
    assert " ".join(leaves(result.tree)) == expected
    assert_same(knl, result, n=3)


def one_sum() -> lk.LoopKernel:
    """A sum over rows, which are copied first; the last element of a row is added by a statement of its own."""
    knl = lk.make_kernel("{[t, k]: 0<=t<n and 0<=k<4}", "c = sum([t, k], a[t, k]*(k + 1))  {id=c}", assumptions="n>=1")
    knl = lk.prioritize_loops(lk.add_dtypes(knl, {"a": np.int64}), "t, k")
    knl = lk.add_prefetch(knl, "a", "k", temporary_name="x", default_tag=None, temporary_address_space="private")
    return lk.peel(knl, "k", last=1)


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize(("place", "expected"), [
    ("x_rule", "c.t_k.update_last x_rule c.t_k.update"), ("c.t_k.update", "x_rule c.t_k.update_last c.t_k.update")])
def test_a_part_of_a_sum_over_the_loop(place: str, expected: str, n: int) -> None:
    """The other parts stay. With two cells, a row is loaded before the last product of the row before it."""
    knl = one_sum()
    two = lk.pipeline(knl, "t", 2, temporaries=["x"], ahead=0, registers=False)
    result = lk.delay(two, "t", {"c.t_k.update_last": place})
    assert [s for s in leaves(result.tree) if "t" in loops_of(result.paths[s])] == expected.split()
    assert_same(knl, result, n=n)


def test_the_cell_of_a_delayed_part_of_a_sum_is_overwritten() -> None:
    result = lk.delay(one_sum(), "t", {"c.t_k.update_last": "c.t_k.update"})
    with pytest.raises(lk.StorageError, match="cells of 'x' cannot hold all values"):
        lk.lower(result)


@pytest.mark.parametrize(("place", "loops"), [("load", [["store"], ["load", "double"]]),
                                              ("double", [["load"], ["store"], ["double"]])])
def test_a_loop_is_cut_at_the_place_of_a_delayed_statement_only(place: str, loops: list[list[str]]) -> None:
    knl = lk.make_kernel("{[t, i]: 0<=t<n and 0<=i<8}", """
        for t
            for i
                <> x[i] = a[t, i]  {id=load}
                <> y[t, i] = 2*x[i]  {id=double}
            end
            b[t, 7 - i] = y[t, i]  {id=store}
        end""")
    knl = lk.add_dtypes(knl, {"a": np.int64})
    result = lk.delay(knl, "t", {"store": place})
    [own] = [loop for loop in loops_in(result.tree) if loop.iname == "t"]
    assert [[*leaves(part)] for part in parts_of(own.body)] == loops
    assert_same(knl, result, n=3)
