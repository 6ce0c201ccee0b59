"""Classic time-tilings are proven and written within a small budget of isl's operations, and give numpy's numbers.

What is not legal is refused for the dependence that it breaks.
"""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from loopkit.poly import limits
from tests.legality.time_tilings import REFUSED, TIME_TILINGS

#: Operations of isl for each step, for lowering and for each text: a twentieth of what a step may take.
OPERATIONS = 1_000_000

TILED = [pytest.param(name, mapping, id=f"{name}: {mapping}")
         for name, classic in TIME_TILINGS.items() for mapping in classic.mappings]


def require_right(name: str, mapping: str, *, fixed: bool = False) -> None:
    """Both texts, and numpy's numbers on the host; *fixed* sizes are constants of the kernel."""
    classic = TIME_TILINGS[name]
    plain = classic.kernel("tiled")
    knl = lk.fix_parameters(plain, **classic.sizes[-1]) if fixed else plain
    for one in classic.mappings[mapping]:
        knl = one.apply(knl)
    assert not knl.obligations
    assert "__global__" in str(lk.generate_code(knl, target="cuda"))
    compiled = lk.compile(knl, "c")
    for sizes in classic.sizes[-1:] if fixed else classic.sizes:
        wanted = classic.data(plain, sizes)
        arrays = {a: v.copy() for a, v in wanted.items()}
        classic.answer(**wanted, **sizes)
        compiled(**arrays, **{x: v for x, v in sizes.items() if x in knl.argument_by_name})
        for a, want in wanted.items():
            np.testing.assert_allclose(arrays[a], want, rtol=1e-9, atol=1e-9, err_msg=f"{a} with {sizes}")


@pytest.mark.deep
@pytest.mark.parametrize("fixed", [False, True], ids=["symbolic sizes", "constant sizes"])
@pytest.mark.parametrize(("name", "mapping"), TILED)
def test_time_tiling(name: str, mapping: str, fixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BUDGET", OPERATIONS)
    require_right(name, mapping, fixed=fixed)


@pytest.mark.deep
@pytest.mark.parametrize(("name", "mapping"), TILED)
def test_without_an_answer_to_optional_questions(name: str, mapping: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What isl would make nicer stays as it is: the text is longer, and as right."""
    monkeypatch.setattr(limits, "ALL_OPTIONAL", 0)
    require_right(name, mapping)


@pytest.mark.deep(every=9)
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BUDGET", OPERATIONS)
    knl = TIME_TILINGS[name].kernel("tiled")
    *before, last = REFUSED[name]
    for one in before:
        knl = one.apply(knl)
    with pytest.raises(lk.IllegalTransformError) as caught:
        last.apply(knl)
    assert caught.value.witness is not None


def test_all_are_there() -> None:
    assert REFUSED.keys() == TIME_TILINGS.keys()
