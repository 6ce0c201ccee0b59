"""Random sums of products, padded to full tiles, tiled, staged and mapped: the results stay the same."""
from __future__ import annotations

from contextlib import suppress

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import loopkit as lk
from loopkit.lowering import guards
from tests.deep import amount
from tests.property.test_programs import EXAMPLES, examples
from tests.transform.same import assert_same

#: Arrays by how they are read.
FACTORS = {"a[i, k]": "a", "b[k, j]": "b", "x[k]": "x", "w[i]": "w", "v[i + k]": "v", "d[j, i]": "d", "u[2*k + 1]": "u",
           "2": "", "k": ""}


@st.composite
def kernels(draw: st.DrawFn) -> lk.LoopKernel:
    lows = {x: draw(st.sampled_from((0, 0, 0, 1, 3))) for x in "ijk"}
    bounds = " and ".join(f"{low}<={x}<{size}" for (x, low), size in zip(lows.items(), "nml", strict=True))
    factors = draw(st.lists(st.sampled_from(list(FACTORS)), min_size=1, max_size=3, unique=True))
    operand = "*".join(dict.fromkeys([*(["a[i, k]"] if draw(st.booleans()) else []), *factors]))
    if draw(st.integers(0, 3)) == 0:
        operand = f"if(i < k, {operand}, b[k, j])"
    text = draw(st.sampled_from((
        f"c[i, j] = sum(k, {operand})", f"for i, j\n<> t = w[i] + 1\nc[i, j] = t*sum(k, {operand})\nend",
        f"for i, j\n<> s = sum(k, {operand})\nc[i, j] = s*s + d[j, i]\nend")))
    knl = lk.make_kernel(f"{{[i, j, k]: {bounds}}}", text)
    return lk.add_dtypes(knl, dict.fromkeys(knl.array_args, np.float64))


def tiled(draw: st.DrawFn, knl: lk.LoopKernel) -> lk.LoopKernel:
    """*knl* filled up, split by the same lengths or parts of them, with some of what it reads staged."""
    inames = draw(st.lists(st.sampled_from("ijk"), min_size=1, unique=True))
    lengths = {x: draw(st.sampled_from((2, 4, 6))) for x in inames}
    knl = lk.pad_domain(knl, lengths)
    parallel = draw(st.booleans())
    for x, length in lengths.items():
        outer, inner = (f"g.{'ij'.index(x)}", f"l.{'ij'.index(x)}") if parallel and x != "k" else (
            None, draw(st.sampled_from(("unr", None))))
        knl = lk.split_iname(knl, x, draw(st.sampled_from((length, length//2))), outer_tag=outer, inner_tag=inner)
    for rule in [r for r in knl.substitutions if r.endswith("_padded")]:
        used = {s: [x for x in s.inames if x.endswith("_inner")] for s in knl.statements if rule in str(s.expression)}
        if used and draw(st.booleans()):
            with suppress(lk.PreconditionError, lk.IllegalTransformError):
                knl = lk.precompute(knl, rule, next(iter(used.values())), default_tag="l.auto" if parallel else None)
    if "k" in lengths and draw(st.booleans()):
        with suppress(lk.PreconditionError):
            knl = lk.pipeline(knl, "k_outer", draw(st.sampled_from((1, 2))))
    return knl


def require_beyond_the_edge(knl: lk.LoopKernel, refusal: lk.IllegalTransformError) -> None:
    """What is refused is a step of the sum that was not there."""
    name, values = refusal.witness.source
    low = knl.statement_by_id[name].domain.constant_range("k")[0]
    assert "neutral" in str(refusal)
    assert not low <= values["k"] < refusal.witness.parameters["l"]


@pytest.mark.parametrize("part", range(2))
def test_complete_outputs_tiles_keep_results(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With versions of the whole text, and with versions of its parts."""
    if part:
        monkeypatch.setattr(guards, "LONG", 0)

    outcomes = []

    @examples(part, amount(7*EXAMPLES // 6))
    @given(kernels(), st.data(), st.tuples(*[st.integers(0, 9)]*3))
    def run(knl: lk.LoopKernel, data: st.DataObject, sizes: tuple[int, int, int]) -> None:
        try:
            other = tiled(data.draw, knl)
        except lk.IllegalTransformError as err:
            require_beyond_the_edge(knl, err)
            outcomes.append("refused")
            return
        assert_same(knl, other, **dict(zip("nml", sizes, strict=True)))
        outcomes.append("compared")
    run()
    assert 4*outcomes.count("compared") >= len(outcomes), "most are refused: this shows little"
