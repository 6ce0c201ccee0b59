"""A size that the assumptions fix is a number to every step and stage, whenever that became known."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import loopkit as lk

Step = Callable[[lk.LoopKernel], lk.LoopKernel]
N = 5

#: How the size 4 becomes known.
FIXED = ("p = 4", "4 <= p <= 4", "2*p >= 7 and 2*p < 10", "p = 4*q and q = 1", "3 < p < n and n < 6")

COPY = "b[g, h] = 2*a[g, h]"
SUM = "b[g, 0] = sum(h, a[g, h]*w[h])"
RULE = "f(x) := w[x] + 1\n b[g, h] = f(h)"
VALUE = "<> t = a[g, h]\n <> s = t*w[h]\n b[g, h] = t + s"
DECLARED = "for g\n for h\n u[h] = a[g, h]\n end\n for h\n b[g, h] = u[h] + u[{p} - 1]\n end\n end"
STRIDED = "b[g, h] = v[{p}*g + h]"

#: What needs a constant range of *h*: the statements, and the step.
NEEDS: Mapping[str, tuple[str, Step]] = {
    "threads": (COPY, lambda k: lk.tag_inames(k, "h: l.0")),
    "blocks and threads": (COPY, lambda k: lk.tag_inames(k, "g: g.0, h: l.0")),
    "unr": (COPY, lambda k: lk.tag_inames(k, "h: unr")),
    "ilp": (COPY, lambda k: lk.tag_inames(k, "h: ilp")),
    "vec": (COPY, lambda k: lk.tag_inames(k, "h: vec")),
    "vectors in blocks": (COPY, lambda k: lk.tag_inames(k, "g: g.0, h: vec")),
    "unroll": (SUM, lambda k: lk.unroll(k, "h")),
    "join": (COPY, lambda k: lk.join_inames(k, "g, h")),
    "join into blocks": (VALUE, lambda k: lk.join_inames(k, "g, h", tag="g.0")),
    "one axis": (COPY, lambda k: lk.tag_inames(k, "g: g.0, h: g.0")),
    "prefetch": (SUM, lambda k: lk.add_prefetch(k, "w", "h")),
    "prefetch by threads": (SUM, lambda k: lk.add_prefetch(lk.split_iname(k, "g", 8, inner_tag="l.0"), "w", "h")),
    "prefetch of rows": (STRIDED, lambda k: lk.add_prefetch(lk.split_iname(k, "g", 2), "v", "g_inner, h")),
    "precompute": (RULE, lambda k: lk.precompute(k, "f", "h")),
    "buffer": (COPY, lambda k: lk.buffer_array(k, "b", "h")),
    "jam": (SUM, lambda k: lk.tag_inames(lk.unroll_and_jam(k, "g", 2), "h: unr")),
    "threads of a sum": (SUM, lambda k: lk.tag_inames(k, "g: g.0, h: l.0")),
    "values of threads": (VALUE, lambda k: lk.tag_inames(k, "g: g.0, h: l.0")),
    "declared in shared memory": (DECLARED, lambda k: lk.set_temporary_address_space(
        lk.tag_inames(k, "g: g.0, h: l.0"), "u", "local")),
    "declared in registers": (DECLARED, lambda k: lk.set_temporary_address_space(
        lk.tag_inames(k, "g: g.0"), "u", "private")),
    "privatize": (VALUE, lambda k: lk.privatize(k, "h", "t")),
    "expand": (VALUE, lambda k: lk.tag_inames(lk.expand(k, "t", "h", trailing=True), "h: unr"))}

BEFORE: Mapping[str, Step] = {
    "nothing": lambda k: k, "peel g": lambda k: lk.peel(k, "g", first=1), "peel h": lambda k: lk.peel(k, "h", last=1),
    "split g": lambda k: lk.rename_iname(lk.split_iname(k, "g", 2), "g_outer", "g"),
    "reverse h": lambda k: lk.reverse(k, "h"), "shift h": lambda k: lk.shift(k, "h", 3)}


#: The needs that sizes of a call meet too: extents of axes, and an array in global memory.
OF_SIZES = ("threads", "blocks and threads", "one axis", "values of threads", "privatize")

#: What bounds the size, and sizes within.
BOUNDED = {"1 <= p <= 8": (1, 4, 8), "p = 4 or p = 8": (4, 8), "p = 4*q and q <= 2": (4, 8)}


def made(text: str, p: str, assumptions: str) -> lk.LoopKernel:
    shapes = {"a": "n, 8", "b": "n, 8", "w": "8", "v": "8*n"}
    declared: list[Any] = [lk.GlobalArg(x, np.float64, shape=e) for x, e in shapes.items() if f"{x}[" in text]
    declared += [lk.TemporaryVariable("u", np.float64, shape=p)] if "u[" in text else []
    sizes = [lk.ValueArg("p", np.int32), lk.ValueArg("q", np.int32)] if p == "p" else []
    return lk.make_kernel(f"{{[g, h]: 0<=g<n and 0<=h<{p}}}", text.replace("{p}", p), [*declared, *sizes, "..."],
                          assumptions=assumptions)


def result(knl: lk.LoopKernel, p: int = 4) -> np.ndarray:
    data = {"a": np.arange(8.*N).reshape(N, 8), "b": np.zeros((N, 8)), "w": np.arange(8.)**2, "v": np.arange(8.*N)}
    given: dict[str, Any] = {x: v for x, v in data.items() if x in knl.argument_by_name}
    given |= {x: v for x, v in (("p", p), ("q", p//4)) if x in knl.argument_by_name}
    return np.array(knl(**given, n=N).b)


def outcome(knl: lk.LoopKernel, step: Step) -> lk.LoopKernel | str:
    """The kernel after *step*, of which both texts can be written; else the name of the error."""
    try:
        knl = step(knl)
        for target in ("cuda", "c"):
            lk.generate_code(knl, target=target)
    except lk.LoopkitError as refusal:
        return type(refusal).__name__
    return knl


@pytest.mark.deep(every=14)
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("need", NEEDS)
def test_a_fixed_size_is_a_number(need: str, before: str) -> None:
    text, step = NEEDS[need]
    number = outcome(BEFORE[before](made(text, "4", "n>=5")), step)
    assert before != "nothing" or not isinstance(number, str)
    for known in FIXED if before == "nothing" else FIXED[:1]:
        early = BEFORE[before](made(text, "p", f"n>=5 and {known}"))
        late = lk.assume(BEFORE[before](made(text, "p", "n>=5 and p>=2")), known)
        for found in (outcome(early, step), outcome(late, step)):
            if isinstance(number, str) or isinstance(found, str):
                assert found == number, known
            elif known == FIXED[0]:
                np.testing.assert_array_equal(result(found), result(number))


@pytest.mark.deep(every=21)
@pytest.mark.parametrize("need", NEEDS)
def test_a_bounded_size_is_none(need: str) -> None:
    """An iname below a size of 1 to 8 has not 8 values: a step refuses it, or the code is right for each size."""
    text, step = NEEDS[need]
    for given, sizes in BOUNDED.items():
        knl = made(text, "p", f"n>=5 and p>=1 and {given}")
        found = outcome(knl, step)
        if need not in OF_SIZES:
            assert found == ("StorageError" if need.startswith("declared") else "PreconditionError")
            continue
        assert isinstance(found, lk.LoopKernel), found
        for p in sizes:
            np.testing.assert_array_equal(result(found, p), result(knl, p))


def test_an_unused_iname_of_one_value() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<p}", "for j\n y[i] = 2*x[i]\nend")
    assert lk.remove_unused_inames(lk.assume(knl, "p = 1")).inames == ("i",)
    assert lk.remove_unused_inames(lk.assume(knl, "0 <= p <= 1")).inames == ("j", "i")


def test_no_value_at_all() -> None:
    """What has no instance at all sizes has any range that is asked for."""
    knl = lk.make_kernel("{[g, h]: 0<=g<n and 0<=h<p}", "for g\n b[g] = 2\n for h\n b[g] = b[g] + h\n end\n end",
                         assumptions="n >= 1")
    for tag in ("unr", "l.0", "vec"):
        found = lk.tag_inames(lk.assume(knl, "p = 0"), f"h: {tag}")
        lk.generate_code(found, target="cuda")
        assert (found(n=3, p=0).b == 2).all()


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("known", ["p = 8", "8 <= p < 9"])
def test_matrix_products_of_a_known_size(known: str) -> None:
    knl = lk.make_kernel("{[r, i, j, k]: 0<=r<n and 0<=i<p and 0<=j<p and 0<=k<p}",
                         "c[r, i, j] = sum(k, a[r, i, k]*b[r, k, j])", assumptions=f"n>=1 and {known}")
    knl = lk.split_iname(lk.add_dtypes(knl, {"a": np.float64, "b": np.float64}), "k", 4)
    knl = lk.tensorize(knl, "insn", "mma.m8n8k4.f64")
    assert "g.0" in str(lk.tag_inames(knl, "r: g.0"))
    a, b = (np.arange(128.).reshape(2, 8, 8) % m for m in (5, 7))
    np.testing.assert_array_equal(knl(a=a, b=b, p=8).c, a@b)


@pytest.mark.deep
def test_a_scan_over_threads_of_a_known_number() -> None:
    knl = lk.make_kernel("{[r, i, j]: 0<=r<n and 0<=i<p and 0<=j<=i}", "y[r, i] = sum(j, x[r, j])",
                         assumptions="n>=1 and p = 16")
    knl = lk.realize_scan(lk.tag_inames(lk.add_dtypes(knl, {"x": np.float64}), "r: g.0, i: l.0"), "j", "i")
    lk.generate_code(knl, target="cuda")
    x = np.arange(48.).reshape(3, 16)
    np.testing.assert_array_equal(knl(x=x, p=16).y, np.cumsum(x, axis=1))


@pytest.mark.deep
def test_launches_in_loops_of_the_host_have_the_same_ranges() -> None:
    """Each launch runs at one iteration of the host's loop, which says nothing more of sizes."""
    knl = lk.make_kernel("{[t, i, j]: 0<=t<m and 0<=i<n and 0<=j<p}", "a[t + 1, i, j] = a[t, n - 1 - i, p - 1 - j] + 1",
                         assumptions="m>=1 and n>=1 and p>=2")
    knl = lk.add_dtypes(lk.tag_inames(lk.assume(knl, "p = 4"), "i: g.0, j: vec"), {"a": np.float64})
    lk.generate_code(knl, target="cuda")
    a = np.zeros((4, 3, 4))
    a[0] = np.arange(12.).reshape(3, 4)
    expected = [a[0]]
    for _ in range(3):
        expected.append(expected[-1][::-1, ::-1] + 1)
    np.testing.assert_array_equal(knl(a=a.copy()).a, expected)


def test_a_call_with_another_size_is_refused() -> None:
    knl = lk.make_kernel("{[g, h]: 0<=g<n and 0<=h<p}", "b[g, h] = 2*a[g, h]", assumptions="n>=1")
    knl = lk.tag_inames(lk.add_dtypes(lk.assume(knl, "p = 4"), {"a": np.float64}), "h: unr")
    assert knl(a=np.ones((3, 4))).b.shape == (3, 4)
    with pytest.raises(lk.CallError, match="p = 4"):
        knl(a=np.ones((3, 5)))
