"""Bounds that loopy leaves to the caller: the layer assumes them, and each call checks them."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
import loopkit.compat.loopy as lp
from loopkit.compat.loopy.bounds import without_divisibility


def shifted(text: str) -> lp.TranslationUnit:
    data = [lp.GlobalArg("y", np.float64, shape="m"), lp.ValueArg("s,m", np.int32), "..."]
    return lp.make_kernel("{[i]: 0<=i<n}", text, data, target=lp.ExecutableCTarget())


def test_a_call_checks_what_loopy_leaves_to_it() -> None:
    knl = shifted("y[i + s] = i")
    y = np.zeros(8)
    knl(y=y, s=3, n=5, m=8)
    np.testing.assert_array_equal(y, [0, 0, 0, 0, 1, 2, 3, 4])
    knl(y=y, s=100, n=0, m=8)
    for s in (-1, 4):
        with pytest.raises(lk.CallError, match="assumes"):
            knl(y=y, s=s, n=5, m=8)


def test_no_statement_is_outside_at_all_sizes() -> None:
    with pytest.raises(lk.BoundsError):
        lp.generate_code_v2(shifted("y[i + m] = i"))


def test_domains_with_the_sizes_are_checked_before_a_call() -> None:
    knl = lp.make_kernel("{[i]: 0<=i<n and s<m}", "y[i] = s",
                         [lp.GlobalArg("y", np.float64, shape="m"), lp.ValueArg("s,m", np.int32), "..."])
    with pytest.raises(lk.BoundsError):
        lp.generate_code_v2(knl)


def test_subscripts_from_memory_do_not_count_for_a_shape() -> None:
    unit = lp.make_kernel("{[i,j]: 0<=i<4 and 0<=j<2}", """
        x[i] = i {id=a}
        x[map[j]] = -1 {id=b, dep=a}
        <> t[i] = 2*x[i] {id=t, dep=b}
        y[j] = t[map[j] + 1] {dep=t}""", target=lp.ExecutableCTarget())
    _, (x, y) = unit(map=np.array([2, 0]))
    assert (x.tolist(), y.tolist()) == ([-1, 1, -1, 3], [6, 2])
    with pytest.raises(lk.CallError, match="too small"):
        unit(map=np.array([2, 0]), x=np.zeros(3, np.int32))


def test_a_divisibility_is_a_hint() -> None:
    """A call without it runs the kernel made without it, if the steps do not need it; other assumptions bind."""
    unit = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", assumptions="n >= 4", target=lp.ExecutableCTarget())
    unit = lp.assume(lp.split_iname(lp.assume(unit, "n mod 4 = 0"), "i", 4), "n % 2 = 0 and n < 100")
    for n in (8, 7):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(unit(x=x)[1][0], 2*x)
        typed = lp.add_dtypes(unit, {"x": np.float32})
        assert lp.auto_test_vs_ref(typed, None, typed, parameters={"n": n}) == {}
    with pytest.raises(lk.CallError, match="n <= 99"):
        unit(x=np.arange(101, dtype=np.float32))
    core = unit.default_entrypoint.core
    shifted_by_parity = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = y[i + n % 2] + 1", assumptions="n mod 4 = 0")
    assert without_divisibility(shifted_by_parity) is not None
    assert without_divisibility(lk.tag_inames(shifted_by_parity, "i:g.0")) is None
    assert without_divisibility(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 1", assumptions="n > 2")) is None
    assert without_divisibility(core).history[-1].args == ("n < 100",)          # type: ignore[union-attr]
