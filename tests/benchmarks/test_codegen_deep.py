"""The benchmark of deep pipelines measures every stage, and distinguishes errors that are not loopkit's."""
from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def deep(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import codegen_deep
    yield codegen_deep
    for name in ("codegen_deep", "codegen_pipelines"):
        sys.modules.pop(name, None)


def test_all_of_a_pipeline_is_measured(deep: ModuleType) -> None:
    lines, found = deep.timings(0)
    told = {t.what.removeprefix("stage ") for t in found}
    assert {"schedule", "storage", "binding", "barriers", "loops", "vectors", "check_races", "text c"} <= told
    assert set(lines[2:]) <= told
    assert not [t for t in found if t.ended.startswith(("INTERNAL", "ended", "an error"))]


def test_a_measurement_that_fails_is_told(deep: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep, "CHECKS", ("no check",))
    assert [t.what for t in deep.timings(0)[1] if t.ended == "an error of ours"] == ["measuring"]
