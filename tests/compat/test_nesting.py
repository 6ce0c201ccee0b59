"""The order of loops that the text leaves open."""
from __future__ import annotations

import itertools

import numpy as np
import pytest

import loopkit as lk
import loopkit.compat.loopy as lp

DOMAIN = "{[i,t]: 1<=i<n-1 and 0<=t<m}"
WAVE = "u[t+1,i] = u[t,i-1] + u[t,i+1]"


def wave(text: str = WAVE, **options: object) -> lp.TranslationUnit:
    unit = lp.make_kernel(DOMAIN, text, target=lp.ExecutableCTarget(), **options)
    return lp.add_dtypes(unit, {"u": np.int64})


def values(unit: lp.TranslationUnit) -> np.ndarray:
    u = np.arange(28, dtype=np.int64).reshape(4, 7) % 5
    return unit(u=u, m=3, n=7)[1][0]


def expected(*order: str) -> np.ndarray:
    u = np.arange(28, dtype=np.int64).reshape(4, 7) % 5
    for point in itertools.product(*({"i": range(1, 6), "t": range(3)}[x] for x in order)):
        at = dict(zip(order, point, strict=True))
        u[at["t"] + 1, at["i"]] = u[at["t"], at["i"] - 1] + u[at["t"], at["i"] + 1]
    return u


def test_the_first_order_is_a_definition() -> None:
    assert not np.array_equal(expected("t", "i"), expected("i", "t"))
    np.testing.assert_array_equal(values(lp.prioritize_loops(wave(), "t,i")), expected("t", "i"))
    np.testing.assert_array_equal(values(lp.prioritize_loops(wave(), "i,t")), expected("i", "t"))
    np.testing.assert_array_equal(values(wave(loop_priority=[("t", "i")])), expected("t", "i"))


def test_a_definition_after_steps_that_rename_instances() -> None:
    unit = lp.prioritize_loops(lp.split_iname(wave(), "i", 2), "t,i_outer,i_inner")
    np.testing.assert_array_equal(values(unit), expected("t", "i"))
    assert [s.verdict for s in unit["loopy_kernel"].core.history][-1] == "defined"


@pytest.mark.parametrize(("unit", "chain"), [
    (lp.prioritize_loops(wave(), "t,i"), "i,t"),                                     # given by an earlier step
    (lp.split_iname(lp.prioritize_loops(wave(), "t,i"), "i", 2), "i_outer,t,i_inner"),
    (lp.prioritize_loops(wave(), "i,t"), "t,i"),                                     # also where it changed nothing
    (wave(f"for i, t\n{WAVE}\nend"), "t,i"),                                         # given by the text
    (wave(f"for i\nfor t\n{WAVE}\nend\nend"), "t,i"),
    (wave(f"for i\nif n > 3\nfor t\n{WAVE}\nend\nend\nend"), "t,i"),
    (lp.duplicate_inames(wave(), "i", "id:insn"), "t,i_0"),                          # after a step of another kind
])
def test_a_later_order_is_proven(unit: lp.TranslationUnit, chain: str) -> None:
    with pytest.raises(lk.IllegalTransformError):
        lp.prioritize_loops(unit, chain)


def test_new_loops_need_an_order_where_a_dependence_needs_one() -> None:
    skewed = lp.map_domain(wave(), "{[i,t] -> [k,w]: w = t and k = i - 2*t}")
    with pytest.raises(lk.ScheduleError, match="The loops over k, w have no order"):
        lp.generate_code_v2(skewed)
    split = lp.split_iname(skewed, "k", 2)
    for unit, order in ((skewed, "w,k"), (split, "w,k_outer,k_inner")):
        np.testing.assert_array_equal(values(lp.prioritize_loops(unit, order)), expected("t", "i"))
    mapped = lp.affine_map_inames(wave(), "i", "k", "k = i - 2*t")
    with pytest.raises(lk.ScheduleError, match="The loops over k have no order"):
        values(mapped)
    np.testing.assert_array_equal(values(lp.prioritize_loops(mapped, "t,k")), expected("t", "i"))


def test_new_loops_keep_an_order_that_no_dependence_contradicts() -> None:
    unit = lp.map_domain(wave(), "{[i,t] -> [k,w]: k = i and w = t}")
    np.testing.assert_array_equal(values(unit), expected("i", "t"))


def test_mapped_loops_need_not_be_next_to_each_other() -> None:
    unit = lp.make_kernel("{[x,y,z,t]: 0<=x,y,z<n and 0<=t<m}", "a[y,x,t,z] = b[y,x,t,z]",
                          [lp.GlobalArg("a,b", np.int64, shape=lp.auto), ...], target=lp.ExecutableCTarget())
    new = lp.map_domain(unit, "{[t,y] -> [w,v]: w = t + y and v = y}")
    new = lp.prioritize_loops(new, "z,v,x,w")
    assert new.default_entrypoint.core.statements_text.startswith("for z, v, x, w\n")
    b = np.arange(3*3*2*3, dtype=np.int64).reshape(3, 3, 2, 3)
    np.testing.assert_array_equal(new(b=b)[1][0], b)
    with pytest.raises(lk.ScheduleError, match="not perfectly nested"):
        lp.map_domain(lp.prioritize_loops(unit, "x,y,z,t"), "{[t,y] -> [w,v]: w = t + y and v = y}")
