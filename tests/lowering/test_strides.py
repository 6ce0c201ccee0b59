"""Statements of one loop that run at every second or third iteration, in every combination.

isl shifts such statements into common iterations of one loop, so the loop's variable is not the iname there. Each
instance folds its inames into one number in an order that matters, so a lost, doubled, misnamed or misplaced
instance shows.
"""
from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import loopkit as lk
from loopkit.ast.nodes import For
from tests.lowering.shown import nodes
from tests.property.machine import execute

STRIDES = [(s, r) for s in (1, 2, 3) for r in range(s)]

#: What is in a branch, and how often it folds what into the number: by text, from j and n.
BODIES: dict[str, tuple[str, Callable[[int, int], Iterator[int]]]] = {
    "statement": ("h[0] = (3*h[0] + j + {c}) % 9973", lambda j, n: iter([j])),
    "inner loop": ("for k{c}\n h[0] = (3*h[0] + 2*j + k{c} + {c}) % 9973\nend",
                   lambda j, n: (2*j + k for k in range(j, j + 3))),
    "reduction": ("h[0] = (3*h[0] + sum(s, x[s]*j) + {c}) % 9973", lambda j, n: iter([j*sum(range(n))])),
    "two": ("h[0] = (3*h[0] + j + {c}) % 9973\nh[0] = (3*h[0] - j + {c}) % 9973", lambda j, n: iter([j, -j])),
    "temporary": ("<> t{c} = 5*j\nh[0] = (3*h[0] + t{c} + {c}) % 9973", lambda j, n: iter([5*j])),
    "strided again": ("h[0] = (3*h[0] + j + {c}) % 9973 {{if=j % 4 == 2}}",
                      lambda j, n: iter([j] if j % 4 == 2 else [])),
}


def kernel(parts: list[tuple[str, tuple[int, int]]], *, nested: bool) -> lk.LoopKernel:
    """One loop over j with a branch for each of *parts*: its body, stride and remainder."""
    lines = []
    for c, (body, (stride, rest)) in enumerate(parts):
        text = BODIES[body][0].format(c=c).splitlines()
        lines += [f"if j % {stride} == {rest}", *text, "end"] if stride > 1 else text
    domains = ["{[i]: 0<=i<2}", "{[j]: 0<=j<n}", "[j] -> {[k0]: j<=k0<=j+2}", "[j] -> {[k1]: j<=k1<=j+2}",
               "[j] -> {[k2]: j<=k2<=j+2}", "{[s]: 0<=s<n}"]
    loops = ["for i", "for j"] if nested else ["for j"]
    return lk.make_kernel(domains, "\n".join([*loops, *lines, *["end"]*len(loops)]),
                          [lk.GlobalArg("h", np.int64), lk.GlobalArg("x", np.int64), "..."], assumptions="n>=0")


def expected(parts: list[tuple[str, tuple[int, int]]], n: int, *, nested: bool) -> int:
    h = 1
    for _, j in itertools.product(range(2 if nested else 1), range(n)):
        for c, (body, (stride, rest)) in enumerate(parts):
            if j % stride == rest:
                for value in BODIES[body][1](j, n):
                    h = (3*h + value + c) % 9973
    return h


def computed(knl: lk.LoopKernel, n: int) -> int:
    lowered = lk.lower(knl)
    arrays = {"h": np.ones(1, np.int64), "x": np.arange(n)}
    return int(execute(lowered, arrays, {"n": n}, random.Random(0))["h"][0])


@pytest.mark.deep
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("second", STRIDES, ids=str)
def test_pairs(body: str, second: tuple[int, int]) -> None:
    """A branch of every stride before one of stride *second*, alone and under another loop."""
    for first, nested in itertools.product(STRIDES, (False, True)):
        parts = [("statement", first), (body, second)]
        knl = kernel(parts, nested=nested)
        for n in (0, 1, 2, 5, 9):
            assert computed(knl, n) == expected(parts, n, nested=nested), str(lk.lower(knl))


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(40))
def test_triples_in_pipelines(seed: int) -> None:
    """Three branches, split, unrolled, renamed or written out."""
    pick = random.Random(seed)
    parts = [(pick.choice(list(BODIES)), pick.choice(STRIDES)) for _ in range(3)]
    nested = pick.random() < 0.5
    knl = kernel(parts, nested=nested)
    knl = pick.choice([
        lambda k: lk.split_iname(k, "j", pick.choice((2, 3, 4)), inner_tag=pick.choice((None, "unr"))),
        lambda k: lk.rename_iname(k, "j", "j_base"),
        lambda k: lk.split_iname(k, "j", 3, outer_iname="j_base", inner_iname="rest"),
        lambda k: lk.set_options(lk.split_iname(k, "j", 2, inner_tag="unr"), textual_unroll=True),
    ])(knl)
    for n in (0, 1, 2, 5, 9):
        assert computed(knl, n) == expected(parts, n, nested=nested), str(lk.lower(knl))


def test_a_barrier_in_every_second_iteration() -> None:
    knl = lk.make_kernel(
        ["{[j]: 0<=j<n}", "{[l,q]: 0<=l,q<4}"], """
        for j
            if j % 2 == 0
                y[j, 0] = 1
            else
                for l
                    <> t[l] = x[j, l]
                end
                for q
                    y[j, q] = t[3-q]
                end
            end
        end
        """, [lk.GlobalArg("x", np.float64), lk.GlobalArg("y", np.float64), "..."])
    knl = lk.tag_inames(knl, "l:l.0, q:l.0")
    lowered = lk.lower(knl)
    x = np.arange(28.).reshape(7, 4)
    y = execute(lowered, {"x": x, "y": np.zeros((7, 4))}, {"n": 7}, random.Random(0))["y"]
    want = np.zeros((7, 4))
    want[0::2, 0] = 1
    want[1::2] = x[1::2, ::-1]
    np.testing.assert_array_equal(y, want)
    got, = knl(x=x, n=7)
    np.testing.assert_array_equal(got, want)


def test_the_variable_of_a_shifted_loop_has_a_name_of_its_own() -> None:
    knl = kernel([("statement", (2, 0)), ("statement", (2, 1))], nested=False)
    assert [node.iname for node in nodes(knl) if isinstance(node, For)] == ["j_base"]
    assert [node.iname for node in nodes(lk.rename_iname(knl, "j", "j_base")) if isinstance(node, For)] == [
        "j_base_base"]
    plain = kernel([("statement", (2, 0)), ("statement", (2, 0))], nested=False)
    assert [node.iname for node in nodes(plain) if isinstance(node, For)] == ["j"]
