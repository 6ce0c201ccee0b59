"""Elements at subscripts that are read from memory: with one value, they differ as the rest of the subscripts does."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk


def _kernel(text: str) -> lk.LoopKernel:
    return lk.make_kernel("{[t, i]: 0<=t<m and 0<=i<64}", text, [
        lk.GlobalArg("c", np.float32, "n"), lk.GlobalArg("tops", np.int32, "m"), "..."], name="kernel")


ONE_VALUE = """
    for t
        <> top = tops[t]
        for i
            c[top + {own}] = i  {{id=store{condition}}}
        end
    end
    """


@pytest.mark.parametrize("own", ["i", "63 - i", "2*i + t"])
def test_threads_store_elements_that_differ_by_their_inames(own: str) -> None:
    knl = lk.tag_inames(_kernel(ONE_VALUE.format(own=own, condition=", if=top + i < n")), "i:l.0")
    assert lk.check_legal(knl).proven
    assert lk.check_races(knl).proven


def test_blocks_have_values_of_their_own() -> None:
    knl = lk.tag_inames(_kernel(ONE_VALUE.format(own="i", condition="")), "i:l.0")
    with pytest.raises(lk.UndecidedError, match="a subscript of 'store' is read from memory"):
        lk.tag_inames(knl, "t:g.0")
    knl = lk.tag_inames(knl, "t:g.0", assume="tops are 64 apart")
    assert [o.reason for o in knl.obligations] == ["tops are 64 apart"]
    assert lk.check_races(knl).verdict is lk.Verdict.ASSUMED


@pytest.mark.parametrize(("own", "other"), [("i // 2", 1), ("i % 32", 32), ("5", 1)])
def test_one_element_of_a_block_is_refuted(own: str, other: int) -> None:
    """Whatever the value is, two threads store the element: assume= does not help."""
    knl = _kernel(ONE_VALUE.format(own=own, condition=""))
    with pytest.raises(lk.IllegalTransformError, match="two writes of one element") as error:
        lk.tag_inames(knl, "i:l.0", assume="the values are right")
    assert str(error.value.witness).endswith(f"store[t=0, i=0] writes c, which store[t=0, i={other}] writes too")


def test_a_condition_on_data_leaves_it_open() -> None:
    knl = _kernel(ONE_VALUE.format(own="i // 2", condition=", if=top + i < n"))
    with pytest.raises(lk.UndecidedError, match="a subscript of 'store' is read from memory"):
        lk.tag_inames(knl, "i:l.0")


def test_equal_texts_may_have_other_values() -> None:
    """A value of each thread is not that of a block, although its name and its subscripts are the same."""
    own = """
        for t
            <> top = tops[t]
            for i
                {}[top + i] = i
            end
        end
        """
    other = """
        for t, i
            top = tops[(t + i) % m]
            {}[top + i] = i
        end
        """
    for first, second in ((own, other), (other, own)):
        knl = lk.make_kernel("{[t, i]: 0<=t<m and 0<=i<64}", (first.format("c") + second.format("d")).replace(
            "top =", "<> top =", 1).replace("<> <>", "<>"), [lk.GlobalArg("c,d", np.float32, "n"), lk.GlobalArg(
                "tops", np.int32, "m"), "..."], name="two")
        with pytest.raises(lk.UndecidedError, match="two instances of"):
            lk.tag_inames(knl, "i:l.0")


@pytest.mark.parametrize("text", [
    # two values of a block
    """
    for t, i
        <> top = tops[t]
        <> other = tops[m - 1 - t]
        c[top + i] = i
        c[other + i] = i
    end
    """,
    # each thread has a value of its own
    """
    for t, i
        <> top = tops[(t + i) % m]
        c[top + i] = i
    end
    """,
    # the value changes
    """
    for t
        <> top = 0
        for i
            c[top + i] = i
            top = top + tops[t]
        end
    end
    """,
    # a condition decides whether there is a new value
    """
    for t
        <> top = 0
        for i
            top = tops[t]  {if=tops[t] < i}
            c[top + i] = i
        end
    end
    """], ids=["two values", "of threads", "changing", "conditional"])
def test_other_elements_are_not_proven_to_differ(text: str) -> None:
    # a value that changes is read by the next thread, too
    with pytest.raises((lk.UndecidedError, lk.IllegalTransformError)):
        lk.tag_inames(_kernel(text), "i:l.0")
