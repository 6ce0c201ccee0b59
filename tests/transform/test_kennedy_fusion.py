"""get_kennedy_unweighted_fusion_candidates, rename_inames and rename_inames_in_batch."""
from __future__ import annotations

import random

import numpy as np
import pytest

import loopkit as lk
from tests.transform.same import assert_same, step


def chain(seed: int) -> tuple[lk.LoopKernel, list[str], int]:
    """Loops in sequence, some statements between them, and the least number of groups.

    A loop that reads the next element of an earlier one cannot be fused with it, and neither can one that reads it
    through a statement outside of loops. So the least number is the longest path by such reads.
    """
    chosen, lines, depth = random.Random(seed), list[str](), list[int]()
    inames = list[str]()
    for k in range(5):
        alone = chosen.random() < 0.25 and k > 0
        reads = chosen.sample(range(k), min(k, chosen.choice([0, 1, 1, 2])))
        level, terms = 0, [f"{k}"]
        for other in reads:
            shift = chosen.choice([-1, 0, 0, 1])
            is_loop = f"i{other}" in inames
            terms.append(f"a{other}[0]" if not is_loop else f"a{other}[1]" if alone else f"a{other}[i{k} + {shift}]")
            # a statement outside of loops is behind its level, half a step
            level = max(level, depth[other] + (1 if not alone and is_loop and shift > 0 else 0)
                        + (1 if alone and is_loop else 0))
        lines.append(f"a{k}[{0 if alone else f'i{k}'}] = {' + '.join(terms)} {{id=S{k}}}")
        depth.append(level)
        inames += [] if alone else [f"i{k}"]
    domains = [f"{{[{x}]: 1<={x}<n-1}}" for x in inames]
    knl = lk.make_kernel(domains, "\n".join(lines), assumptions="n>=3")
    return knl, inames, 1 + max(depth[int(x[1:])] for x in inames)


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("seed", range(16))
def test_the_groups_are_legal_and_as_few_as_possible(seed: int) -> None:
    knl, inames, least = chain(seed)
    groups = lk.get_kennedy_unweighted_fusion_candidates(knl, inames)
    assert sorted(x for own in groups.values() for x in own) == sorted(inames)
    assert len(groups) == least
    fused = step(knl, lk.rename_inames_in_batch, groups)
    assert set(fused.inames) == set(groups)
    data = {name: np.zeros(9) for name in knl.array_args}
    assert_same(lk.add_dtypes(knl, dict.fromkeys(data, np.float64)),
                lk.add_dtypes(fused, dict.fromkeys(data, np.float64)), n=8)


def three(first: str = "a[i0] = x[i0]", second: str = "b[i1] = a[i1]", third: str = "c[i2] = b[i2]",
          domain: str = "{[i0,i1,i2]: 0<=i0,i1,i2<n}") -> lk.LoopKernel:
    return lk.make_kernel(domain, f"{first} {{id=S0}}\n{second} {{id=S1}}\n{third} {{id=S2}}")


GROUPS = {
    "no dependence is against it": (three(), [("i0", "i1", "i2")]),
    "a later element is read": (three(second="b[i1] = a[i1+1]"), [("i0",), ("i1", "i2")]),
    "an element is overwritten too early": (three("a[i0] = x[i0+1]", "x[i1] = 1"), [("i0", "i1", "i2")]),
    "an element is overwritten before it is read": (three("a[i0] = x[i0]", "x[i1+1] = 1", "c[i2] = 2"),
                                                    [("i0", "i2"), ("i1",)]),
    "a subscript is data": (three(second="a[where[i1]] = 1", third="c[i2] = 2"), [("i0", "i2"), ("i1",)]),
    "other values": (three(domain="{[i0,i1,i2]: 0<=i0,i2<n and 0<=i1<m}", second="b[i1] = 1", third="c[i2] = a[i2]"),
                     [("i0", "i2"), ("i1",)]),
    "other tags": (lk.tag_inames(three(second="b[i1] = 1", third="c[i2] = a[i2]"), {"i0": "g.0", "i2": "g.0"}),
                   [("i0", "i2"), ("i1",)]),
    "another thread": (lk.tag_inames(lk.fix_parameters(three(third="c[i2] = b[7-i2]"), n=8), "i0:l.0, i1:l.0, i2:l.0"),
                       [("i0", "i1"), ("i2",)]),
    "a barrier": (lk.add_barrier(three(), "S0", "S1"), [("i0",), ("i1", "i2")]),
}


@pytest.mark.parametrize("name", GROUPS)
def test_groups(name: str) -> None:
    knl, wanted = GROUPS[name]
    assert [*lk.get_kennedy_unweighted_fusion_candidates(knl, ["i0", "i1", "i2"]).values()] == wanted


def test_pairs_that_are_forced_apart() -> None:
    found = lk.get_kennedy_unweighted_fusion_candidates(three(), ["i0", "i1", "i2"], force_infusible={("i2", "i0")},
                                                        prefix="q")
    assert found == {"q": ("i0", "i1"), "q_0": ("i2",)}


def test_reductions() -> None:
    knl = lk.make_kernel("{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<m}", """
        y[i] = sum(j, 2*a[i,j]) {id=first}
        z[i] = sum(k, 3*a[i,k]) {id=second}
        """)
    knl = lk.add_dtypes(knl, {"a": np.float32})
    groups = lk.get_kennedy_unweighted_fusion_candidates(knl, {"k", "j"})
    assert groups == {"ifused": ("j", "k")}
    fused = lk.rename_inames_in_batch(knl, groups)
    assert [node.inames for node in fused.reductions.values()] == [("ifused",)]*2
    assert_same(knl, fused, n=3, m=4)
    # the second sum needs the first one
    chained = lk.make_kernel("{[j,k]: 0<=j<m and 0<=k<m}", "<> s = sum(j, x[j])\ny = sum(k, s*x[k])")
    assert len(lk.get_kennedy_unweighted_fusion_candidates(chained, ["j", "k"])) == 2
    # one name needs no common loop
    named = lk.rename_inames(lk.add_dtypes(chained, {"x": np.float64}), "j, k", "q")
    assert named.statements_text.count("sum(q, ") == 2
    assert_same(lk.add_dtypes(chained, {"x": np.float64}), named, m=4)
    nested = lk.make_kernel("{[j,k]: 0<=j,k<m}", "y = sum(j, sum(k, x[j,k]))")
    with pytest.raises(lk.NameConflictError, match="is inside the one over 'j'"):
        lk.rename_inames(nested, "j, k", "q")
    with pytest.raises(lk.PreconditionError, match="'q' would have the different tags of j, k"):
        lk.rename_inames(lk.tag_inames(lk.fix_parameters(chained, m=4), "k:unr"), "j, k", "q")


def test_rename_inames() -> None:
    knl = lk.make_kernel("{[i,j]: 0<=i,j<n}", "y[i] = 2\nz[j] = 3")
    assert lk.rename_inames(knl, ["i", "j"], "k").inames == ("k",)
    assert lk.rename_inames(knl, "j", "i", existing_ok=True).inames == ("i",)
    assert lk.rename_inames(knl, "j", "k").inames == ("i", "k")


def test_refused() -> None:
    nest = lk.make_kernel("{[i,j]: 0<=i,j<n}", "y[i,j] = 1")
    with pytest.raises(lk.ScheduleError, match="can be nested within one another cannot be fused: 'j' is inside 'i'"):
        lk.get_kennedy_unweighted_fusion_candidates(nest, {"i", "j"})
    twice = lk.make_kernel("{[i]: 0<=i<n}", "for i\ny[i] = 1\nend\nfor i\nz[i] = 2\nend")
    with pytest.raises(lk.PreconditionError, match="several loops over 'i'"):
        lk.get_kennedy_unweighted_fusion_candidates(twice, ["i"])
    with pytest.raises(lk.UnknownNameError, match="'q'"):
        lk.get_kennedy_unweighted_fusion_candidates(nest, ["q"])
    with pytest.raises(lk.NameConflictError, match="'i0' is taken"):
        lk.rename_inames(three(), ["i1"], "i0")
    with pytest.raises(lk.PreconditionError, match="other than 'i1'"):
        lk.rename_inames(three(), ["i1"], "i1")
    with pytest.raises(lk.PreconditionError, match="'i1' is in two groups"):
        lk.rename_inames_in_batch(three(), {"q": ["i0", "i1"], "r": ["i1"]})
    with pytest.raises(lk.IllegalTransformError):
        lk.rename_inames(three(second="b[i1] = a[i1+1]"), ["i0", "i1"], "q")
