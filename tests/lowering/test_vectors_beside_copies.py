"""Vectors beside copies whose storage is expanded, and storage that is counted from the least value of a union."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk

BODIES = {
    "two rows": ("{[i,j]: 0<=i<n and 0<=j<m}", "y[i,j] = x[i+1,j+1] + x[i+4,j]",
                 lambda x, n, m: x[1:n + 1, 1:m + 1] + x[4:n + 4, :m]),
    "one row": ("{[i,j]: 0<=i<n and 0<=j<m}", "y[i,j] = x[i,j] + x[i,j+4]", lambda x, n, m: x[:n, :m] + x[:n, 4:m + 4]),
    "strided": ("{[i,j]: 0<=i<n and 0<=j<m}", "y[i,j] = x[2*i,3*j]", lambda x, n, m: x[:2*n:2, :3*m:3]),
    "a reduction": ("{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<3}", "y[i,j] = sum(k, x[i+k,j+1])",
                    lambda x, n, m: sum(x[k:n + k, 1:m + 1] for k in range(3)))}


@pytest.mark.deep(every=16)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("tag", ["l.auto", "unr"])
@pytest.mark.parametrize("mapped", [{"outer_tag": "g.1", "inner_tag": "l.1"}, {}])
def test_a_vector_beside_a_prefetch(body: str, tag: str | None, mapped: dict[str, str]) -> None:
    domain, text, expected = BODIES[body]
    data = [lk.GlobalArg("x", np.float32), lk.GlobalArg("y", np.float32, ("n", "m")), "..."]
    knl = lk.make_kernel(domain, text, data)
    knl = lk.split_iname(knl, "i", 3, **mapped)
    knl = lk.split_iname(knl, "j", 4, inner_tag="vec")
    try:
        knl = lk.add_prefetch(knl, "x", ["j_inner"], default_tag=tag)
    except lk.LoopkitError:
        pytest.skip("refused with a reason")
    assert "x_fetch" in str(lk.generate_code(knl, target="cuda"))
    for n, m in ((7, 6), (3, 8)):
        x = np.random.default_rng(0).random((40, 40), np.float32)
        y = np.zeros((n, m), np.float32)
        knl(x=x, y=y, n=n, m=m)
        np.testing.assert_allclose(y, expected(x, n, m), rtol=1e-6)


@pytest.mark.deep(every=8)
@pytest.mark.parametrize(("domain", "body"), [
    ("(0<=i<n or 2*n<=i<2*n+m) and 0<=j<m and (i+2*j) mod 3 = 1", "y[i,j] = x[i]*j + y[i,j]"),
    ("(0<=i<n or 2*n<=i<2*n+m) and 0<=j<m", "y[i,j] = x[i]*j + y[i,j]"),
    ("(n<=i<n+3 or m<=i<m+2) and 0<=j<4", "y[i,j] = x[i] + j"),
    ("m<=i<m+n and 0<=j<4", "y[i,j] = x[i] + j")])
@pytest.mark.parametrize("how", ["after", "kept"])
def test_expansion_over_a_union(domain: str, body: str, how: str) -> None:
    """The least value of the union has cases, and the copy is counted from it."""
    knl = lk.make_kernel(f"{{[i,j]: {domain}}}", body,
                         [lk.GlobalArg("x", np.float32, ("q",)), lk.GlobalArg("y", np.float32, ("q", 8)), "..."],
                         assumptions="n>=0 and 0<=m<=8 and q>=2*n+m+4")
    before = knl
    knl = lk.add_prefetch(knl, "x", [], fetch_bounding_box=True, box_multiples=3)
    knl = lk.tag_inames(knl, {"i": "g.1"})
    knl = lk.expand(knl, "x_fetch", ["i"], trailing=how == "after")
    for target in ("c", "cuda"):
        assert "x_fetch" in str(lk.generate_code(knl, target=target))
    for n, m in ((3, 3), (0, 2), (4, 1), (5, 0)):
        lk.check_equivalent(before, knl, {"n": n, "m": m, "q": 2*n + m + 4})
