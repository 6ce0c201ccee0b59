"""Reductions whose conditions are made of other reductions."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk

DOMAINS = "{[i,j,k,l]: 0<=i<n and 0<=j<m and 0<=k<m and 0<=l<m}"

#: What ``y[i]`` is, and the same of the row ``r`` in Python.
FORMS = {
    "one": ("if(max(j, x[i,j]) > 0.5, sum(k, x[i,k]), 0)", lambda r: r.sum() if r.max() > 0.5 else 0),
    "otherwise": ("if(max(j, x[i,j]) > 0.5, 2, sum(k, x[i,k]))", lambda r: 2 if r.max() > 0.5 else r.sum()),
    "both": ("if(max(j, x[i,j]) > 0.5, sum(k, x[i,k]), product(l, x[i,l]))",
             lambda r: r.sum() if r.max() > 0.5 else r.prod()),
    "nested": ("if(max(j, x[i,j]) > 0.2, if(sum(k, x[i,k]) > 1, sum(l, x[i,l]*x[i,l]), 1), 2)",
               lambda r: ((r*r).sum() if r.sum() > 1 else 1) if r.max() > 0.2 else 2),
    "nested otherwise": ("if(max(j, x[i,j]) > 0.8, 1, if(min(k, x[i,k]) > 0.1, sum(l, x[i,l]), 2))",
                         lambda r: 1 if r.max() > 0.8 else r.sum() if r.min() > 0.1 else 2),
    "affine around": ("if(i > 0, if(max(j, x[i,j]) > 0.5, sum(k, x[i - 1,k]), 0), 7)", None),
    "and": ("if(max(j, x[i,j]) > 0.5 and min(k, x[i,k]) < 0.3, sum(l, x[i,l]), 3)",
            lambda r: r.sum() if r.max() > 0.5 and r.min() < 0.3 else 3),
    "or": ("if(max(j, x[i,j]) > 0.9 or not min(k, x[i,k]) < 0.3, sum(l, x[i,l]), 3)",
           lambda r: r.sum() if r.max() > 0.9 or not r.min() < 0.3 else 3),
    "minimum of two": ("if(min(max(j, x[i,j]), 0.6) > 0.5, max(sum(k, x[i,k]), 1), 0)",
                       lambda r: max(r.sum(), 1) if min(r.max(), 0.6) > 0.5 else 0),
    "a number": ("if(sum(j, if(x[i,j] > 0.7, 1, 0)), sum(k, x[i,k]), 0)",
                 lambda r: r.sum() if (r > 0.7).sum() else 0),
    "inside": ("sum(j, if(max(k, x[i,k]) > x[i,j] + 0.3, sum(l, x[i,l]), 1))",
               lambda r: sum(r.sum() if r.max() > v + 0.3 else 1 for v in r)),
    "of the statement": ("sum(k, x[i,k]) {if=max(j, x[i,j]) > 0.5}", lambda r: r.sum() if r.max() > 0.5 else 0),
    "two of the statement": ("sum(l, x[i,l]) {if=max(j, x[i,j]) > 0.5 and min(k, x[i,k]) < 0.3}",
                             lambda r: r.sum() if r.max() > 0.5 and r.min() < 0.3 else 0),
    "data and reduction": ("if(max(j, x[i,j]) > 0.5, sum(k, x[i,k]), 0) {if=x[i,0] > 0.4}",
                           lambda r: (r.sum() if r.max() > 0.5 else 0) if r[0] > 0.4 else 0)}


def _made(form: str) -> lk.LoopKernel:
    return lk.make_kernel(DOMAINS, f"y[i] = {form}", [lk.GlobalArg("x", np.float64, ("n", "m")),
                                                       lk.GlobalArg("y", np.float64, ("n",)), "..."],
                          assumptions="m >= 1")


def _expected(x: np.ndarray, form: str) -> np.ndarray:
    row = FORMS[form][1]
    if row is not None:
        return np.array([row(r) for r in x])
    return np.array([7 if i == 0 else x[i - 1].sum() if x[i].max() > 0.5 else 0 for i in range(len(x))])


@pytest.mark.deep(every=13)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mapped", ["as it is", "threads", "blocks"])
def test_right(form: str, mapped: str) -> None:
    knl = _made(FORMS[form][0])
    if mapped == "threads":
        knl = lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    if mapped == "blocks":
        knl = lk.tag_inames(knl, {"i": "g.0"})
    x = np.random.default_rng(1).random((9, 5))
    y = np.zeros(9)
    knl(x=x, y=y)
    np.testing.assert_allclose(y, _expected(x, form))
    assert lk.verify(knl).ok
    assert "y[" in str(lk.generate_code(knl, target="cuda"))


@pytest.mark.deep
def test_over_threads() -> None:
    """Threads share both the reduction of the condition and the one that it guards."""
    knl = _made(FORMS["both"][0])
    knl = lk.tag_inames(knl, {"i": "g.0"})
    knl = lk.add_dtypes(knl, {"x": np.float64})
    knl = lk.fix_parameters(knl, m=5)
    knl = lk.tag_inames(knl, {"j": "l.0", "k": "l.0"})
    x = np.random.default_rng(1).random((9, 5))
    y, = knl(x=x)
    np.testing.assert_allclose(y, _expected(x, "both"))


def test_what_is_not_chosen_is_not_read() -> None:
    """No element outside of the array is read by a condition, or a reduction, whose branch is not chosen."""
    knl = lk.make_kernel(
        "{[i,j,k]: 0<=i<n and 0<=j<2 and 0<=k<2}",
        "y[i] = if(i < n - 1, if(max(j, x[i + j]) > 0.5, sum(k, x[i + k]), 0), 7)",
        [lk.GlobalArg("x", np.float64, ("n",)), lk.GlobalArg("y", np.float64, ("n",)), "..."])
    report = lk.verify(knl)
    assert report.ok, report
    x = np.array([0.1, 0.2, 0.9, 0.3])
    y, = knl(x=x)
    np.testing.assert_allclose(y, [0, 1.1, 1.2, 7])


def test_a_condition_is_computed_once() -> None:
    text = str(_made(FORMS["both"][0]))
    assert text.count("max(j, x[i, j])") == 1
    assert "<bool> cond = max(j, x[i, j]) > 0.5" in text
