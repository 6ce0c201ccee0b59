"""Random transformations before and after those of scans."""
from __future__ import annotations

import os
from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

import loopkit as lk
from loopkit.errors import InternalError
from loopkit.lowering.pipeline import lowered_once
from loopkit.verification.validation import validate
from tests.deep import amount
from tests.property.pipelines import Drawer, NothingToDoError, Step
from tests.property.scans import scans
from tests.transform.same import assert_same

EXAMPLES = int(os.environ.get("LOOPKIT_PROPERTY_EXAMPLES", "600"))//10
FIRST_SEED = int(os.environ.get("LOOPKIT_PROPERTY_SEED", "0"))
PARTS = range(2)
#: Steps that change what a kernel asks of its caller.
OTHERS = ("rename_argument", "fix_parameters", "assume", "set_options")
COUNTS: Counter[str] = Counter()


def taken(knl: lk.LoopKernel, step: Step) -> lk.LoopKernel:
    """*knl* with *step*, or without, if that is refused."""
    try:
        result = step.apply(knl)
    except InternalError:
        raise
    except lk.LoopkitError as refusal:
        COUNTS[f"{step.name}: {type(refusal).__name__}"] += 1
        return knl
    COUNTS[f"{step.name}: accepted"] += 1
    return result


@pytest.mark.parametrize("part", PARTS)
def test_among_other_steps(part: int) -> None:
    @seed(FIRST_SEED*len(PARTS) + part)
    @settings(max_examples=amount(EXAMPLES//len(PARTS)), database=None, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))
    @given(scans(), st.data())
    def run(plain: lk.LoopKernel, data: st.DataObject) -> None:
        n = data.draw(st.integers(0, 7))
        sizes = {"n": n, "m": data.draw(st.integers(0, n))}
        fixed = data.draw(st.booleans())
        if fixed:
            plain = lk.fix_parameters(plain, **sizes)
            plain = lk.tag_inames(plain, "i:l.0") if data.draw(st.booleans()) and n else plain
        knl = plain
        for moment in ("before", "", "after"):
            if moment:
                for _ in range(data.draw(st.integers(0, 2))):
                    drawer = Drawer(data.draw, knl, sizes)
                    try:
                        step = drawer.step() if drawer.chance(60) else drawer.mapping()
                    except NothingToDoError:
                        continue
                    knl = knl if step.name in OTHERS else taken(knl, step)
            elif data.draw(st.integers(0, 2)):
                knl = taken(knl, Step("realize_scan", ("j", "i")))
            else:
                knl = taken(knl, Step("make_two_level_scan", ("S", "j", "i", data.draw(st.integers(1, 4)))))
                for x in ("j", "j_before"):
                    knl = taken(knl, Step("realize_scan", (x,)))
        try:
            lowered = lowered_once(knl)
        except InternalError:
            raise AssertionError(knl.history.script()) from None
        except lk.LoopkitError as refusal:
            COUNTS[f"lower: {type(refusal).__name__}"] += 1
            return
        COUNTS["lower: accepted"] += 1
        assert not validate(lowered), knl.history.script()
        assert_same(plain, knl, **({} if fixed else sizes))
    run()
