"""The required shapes of a kernel's arrays stay the same under any one-to-one reindexing.

Random kernels whose reads are guarded by conditions, and random pipelines of steps that count the same instances
anew: what is touched does not change, so neither do shapes, required arguments, and the sizes that shapes determine.
"""
from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

import loopkit as lk
from loopkit.analysis.accesses import accesses_by_array
from loopkit.analysis.dependences import needed_inputs
from loopkit.analysis.shapes import array_shapes, fully_written_outputs
from loopkit.expr.evaluate import evaluate, parameter_plus_constant
from loopkit.poly.sets import holds
from tests.property.kernels import Draw
from tests.property.pipelines import Drawer, NothingToDoError
from tests.property.test_programs import EXAMPLES, PARTS, examples

DOMAINS = ("0<=i<n and 0<=j<m", "0<=i<n and 0<=j<6", "0<=i<n and 0<=j<=i", "1<=i<n and i<=j<n", "0<=i<9 and 0<=j<m",
           "0<=i<n and 0<=j<m and i+j<n", "0<=i<n and 0<=j<n and i % 2 = 0", "2<=i<n-1 and 0<=j<5")
CONDITIONS = ("i < n-1", "i > 0", "j > 0", "j < i", "i + j < n", "i % 2 == 0", "j % 3 != 1", "2*i < n", "i == j",
              "i < min(n - 1, 5)", "max(0, i - j) < n - 2", "z[i, j] > 0")
SUBSCRIPTS = ("i", "j", "i + 1", "i - 1", "j + 2", "i + j", "2*i + 1", "i // 2", "3")
WRITES = ("y[i, j]", "y[j, i]", "y[i + 1, j]", "y[i]", "y[2*i, j]", "y[i + j, j]")
REINDEXINGS = (Drawer.split, Drawer.join, Drawer.skew, Drawer.shift, Drawer.reverse, Drawer.affine_map, Drawer.chunk,
               Drawer.chunk, Drawer.duplicate, Drawer.peel, Drawer.tile, Drawer.jam, Drawer.interchange)
SIZES = [{"n": n, "m": m} for n, m in itertools.product((0, 1, 2, 3, 4, 5, 7, 8, 11), (0, 1, 3, 6))]


@st.composite
def conditions(draw: Draw) -> str:
    some = [draw(st.sampled_from(CONDITIONS)) for _ in range(draw(st.sampled_from((1, 1, 2))))]
    some = [f"not ({c})" if draw(st.integers(0, 4)) == 4 else c for c in some]
    return draw(st.sampled_from((" and ", " or "))).join(some)


@st.composite
def guarded(draw: Draw) -> tuple[str, str]:
    """Domain and text: one or two statements that read under conditions."""
    def value() -> str:
        read = f"x[{draw(st.sampled_from(SUBSCRIPTS))}]"
        other = draw(st.sampled_from(("0", "0", f"w[{draw(st.sampled_from(SUBSCRIPTS))}]")))
        return draw(st.sampled_from((read, f"if({draw(conditions())}, {read}, {other})",
                                     f"if({draw(conditions())}, {read}, {other})")))

    def statement(array: str) -> str:
        guard = f" {{if={draw(conditions())}}}" if draw(st.integers(0, 3)) == 3 else ""
        return f"{draw(st.sampled_from(WRITES)).replace('y', array)} = {value()} + {value()}{guard}"
    text = "\n".join(statement(array) for array in draw(st.sampled_from(("y", "yv"))))
    return f"{{[i, j]: {draw(st.sampled_from(DOMAINS))}}}", text


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("part", PARTS)
def test_reindexing_asks_nothing_else_of_a_caller(part: int) -> None:
    @examples(part, EXAMPLES // 4)
    @given(guarded(), st.data(), st.integers(1, 3))
    def run(text: tuple[str, str], data: st.DataObject, steps: int) -> None:
        knl = first = lk.make_kernel(*text)
        before = asked(knl)
        done = []
        for _ in range(steps):
            try:
                step = data.draw(st.sampled_from(REINDEXINGS))(Drawer(data.draw, knl, {}))
                knl = step.apply(knl)
            except (NothingToDoError, lk.LoopkitError):
                continue
            done.append(str(step))
        after = asked(knl)
        for what, found in before.items():
            assert after[what] == found, "\n".join([*text, *done, what])
        if extents(knl) == extents(first):
            assert fully_written_outputs(knl) == fully_written_outputs(first), "\n".join([*text, *done])
    run()


def asked(knl: lk.LoopKernel) -> Mapping[str, Any]:
    """What a caller has to know of *knl*: arrays to be passed, how sizes are found, and extents at some sizes.

    Only the extents of axes that are touched count; for other sizes a form may ask for more than nothing.
    """
    solved = {axis: found for axis, (_, e) in axes(knl).items()
              if e is not None and (found := parameter_plus_constant(e))}
    needed = {f"{axis} at {SIZES[i]}": extent for axis, (a, _) in axes(knl).items()
              for i, extent in enumerate(extents(knl)[axis]) if touched(knl, a, SIZES[i])}
    return {"required": needed_inputs(knl), "solved": solved, **needed}


def axes(knl: lk.LoopKernel) -> Mapping[str, tuple[str, Any]]:
    return {f"{a}, axis {i}": (a, e) for a, shape in array_shapes(knl).items() if a in knl.array_args
            for i, e in enumerate(shape)}


def extents(knl: lk.LoopKernel) -> Mapping[str, list[int | None]]:
    return {axis: [None if e is None else evaluate(e, sizes) for sizes in SIZES]
            for axis, (_, e) in axes(knl).items()}


def touched(knl: lk.LoopKernel, array: str, sizes: Mapping[str, int]) -> bool:
    """Is any element of *array* touched for these *sizes*?"""
    return any(holds(a.relation.domain().params().intersect(knl.assumptions), sizes)
               for a in accesses_by_array(knl)[array])
