"""Random pipelines of tiles: refused with a reason, or proven, and right whenever their copies land; so are faults."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, reject

import loopkit as lk
from loopkit.ast.nodes import Program
from loopkit.errors import InternalError, LoopkitError
from loopkit.lowering.lowered import Lowered
from loopkit.verification.validation import validate
from tests.deep import DEEP
from tests.property.checks import COUNTS
from tests.property.rings import (
    TARGET,
    Factor,
    Pipeline,
    Product,
    product_sizes,
    ring_pipelines,
    ring_products,
    ring_sizes,
)
from tests.property.test_programs import EXAMPLES, PARTS, examples
from tests.verification.faults import Fault
from tests.verification.ring_faults import ring_faults

#: Ways of an emulation.
WAYS = [*product(("last", "first"), ("forward", "backward"))][::1 if DEEP else 3]


def _lowered(pipeline: Pipeline | Product) -> tuple[lk.LoopKernel, Lowered]:
    """The kernel; :raises hypothesis.UnsatisfiedAssumption: it is refused."""
    try:
        knl = pipeline.kernel()
        return knl, lk.lower(knl, TARGET)
    except LoopkitError as refusal:
        if isinstance(refusal, InternalError):
            raise
        COUNTS[f"refused: {type(refusal).__name__}"] += 1
        reject()


def _results(pipeline: Pipeline | Product, knl: lk.LoopKernel, sizes: Mapping[str, int], program: Program | None = None
             ) -> Iterator[str]:
    """The wrong results, or errors, of the ways of emulation.

    :raises hypothesis.UnsatisfiedAssumption: TMA cannot read rows of these sizes.
    """
    numbers = {x: n for x, n in sizes.items() if x in knl.argument_by_name}
    for completion, order in WAYS:
        arrays = pipeline.arrays(sizes, 0)
        expected = pipeline.expected(arrays, sizes)
        own: Any = next(reversed(arrays))                    # the result comes last
        try:
            found = lk.emulate(knl, {**arrays, **numbers}, target=TARGET, completion=completion, order=order,
                               program=program)[own]
        except lk.CallError:
            COUNTS["refused: a call"] += 1
            reject()
        except lk.VerificationError as error:
            yield f"{completion}, {order}: {error}"
        else:
            if not np.array_equal(found.astype(float), expected.astype(found.dtype).astype(float)):
                yield f"{completion}, {order}: a wrong result"


def _require_right(pipeline: Pipeline | Product, sizes: Mapping[str, int]) -> None:
    knl, _ = _lowered(pipeline)
    report = lk.verify(knl, TARGET, full=True)
    if not report.proven and not pipeline.is_numbered:
        COUNTS["refused: phases without numbers"] += 1
        reject()
    assert report.proven, f"{pipeline}\n{report}"
    wrong = next(_results(pipeline, knl, sizes), None)
    assert wrong is None, f"{pipeline}\n{dict(sizes)}\n{wrong}"
    COUNTS["by TMA" if pipeline.by_tma else "by threads"] += 1


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("part", PARTS)
def test_tiles_arrive(part: int) -> None:
    @examples(part, EXAMPLES // 12)
    @given(ring_pipelines(), st.data())
    def run(pipeline: Pipeline, data: st.DataObject) -> None:
        _require_right(pipeline, data.draw(ring_sizes(pipeline)))
    run()
    assert COUNTS["by TMA"] >= COUNTS.total() // 4, "few pipelines have TMA: this shows little"


@pytest.mark.deep(every=8)
@pytest.mark.parametrize("part", PARTS)
def test_products_of_tiles(part: int) -> None:
    @examples(part, EXAMPLES // 50)
    @given(ring_products(), st.data())
    def run(product: Product, data: st.DataObject) -> None:
        _require_right(product, data.draw(product_sizes(product)))
    run()


def _require_found(pipeline: Pipeline | Product, sizes: Mapping[str, int], fault: Fault, low: Lowered,
                   knl: lk.LoopKernel) -> None:
    """A fault is found in the program, or the program is right all the same."""
    if validate(replace(low, program=fault.program)):
        COUNTS["found"] += 1
        return
    wrong = next(_results(pipeline, knl, sizes, fault.program), None)
    assert wrong is None, f"{pipeline}\n{dict(sizes)}\nmissed: {fault.kind} in {fault.text}\n{wrong}"
    COUNTS[f"harmless: {fault.kind}"] += 1


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("part", PARTS)
def test_faults_are_found(part: int) -> None:
    @examples(part, EXAMPLES // 16)
    @given(ring_pipelines().filter(lambda x: x.by_tma and x.is_numbered), st.data())
    def run(pipeline: Pipeline, data: st.DataObject) -> None:
        knl, low = _lowered(pipeline)
        some = [*ring_faults(low.program)]
        numbers = st.lists(st.sampled_from(range(len(some))), min_size=1, max_size=20 if DEEP else 3, unique=True)
        for number in data.draw(numbers):
            _require_found(pipeline, data.draw(ring_sizes(pipeline)), some[number], low, knl)
    run()
    assert COUNTS["found"] >= COUNTS.total() // 4, "few faults are found: this shows little"


#: Pipelines in which something was wrong once.
FOUND = {
    "a block of one warp": Pipeline((Factor("a", "ik", "tma.load", 2, None),), "sum", "float32", "0<=ko and {s}*ko<l",
                                    32, 32, "g.0", None, "", "ii", "plain", False),
    "a copy under an assumption": Pipeline((Factor("a", "ki", "tma.load", 1, None),), "sum", "float32", "0<=ko<t",
                                           64, 16, "g.0", None, "", "ii", "plain", False),
    "stored integers": Pipeline((Factor("a", "ik", "unstaged", 1, None),), "sum", "int32", "0<=ko and {s}*ko<l",
                                32, 32, "g.0", None, "", "ii", "tma.store", False)}

#: One whose grid has no places for some sizes, in blocks that run several.
WITHOUT_PLACES = Pipeline((Factor("a", "ik", "tma.load", 2, 0),), "elements", "int32", "0<=ko<t", 64, 8, "g.0", None,
                          "", "ii", "buffered", False, True, 2)


def test_no_tile_at_all() -> None:
    for tiles in (0, 2):
        _require_right(WITHOUT_PLACES, {"n": 64, "l": 16, "ne": 1, "t": tiles})


@pytest.mark.parametrize("name", FOUND)
def test_what_was_wrong(name: str) -> None:
    _require_right(FOUND[name], {"n": 36, "l": 100, "ne": 1, "t": 3})


def test_both_versions_of_the_code_expect_the_same_copies() -> None:
    pipeline = Pipeline((Factor("a", "ik", "tma.load", 2, None),), "elements", "float32", "0<=ko and {s}*ko<l", 32, 32,
                        "g.0", None, "", "ii", "plain", True)
    _, low = _lowered(pipeline)
    wrong = [f for f in ring_faults(low.program) if f.kind.endswith("other copies")]
    assert len(wrong) == 4
    for fault in wrong:
        assert "phase" in {m.kind for m in validate(replace(low, program=fault.program))}
