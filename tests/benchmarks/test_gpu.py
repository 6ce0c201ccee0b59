"""The GPU benchmark's script, on the host: every row runs, is right, and is judged; what fails is a line."""
from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.deep import DEEP

ROOT = Path(__file__).parents[2]
#: The names of the rows that are run contain this text.
SOME = "" if DEEP else "ma"


def benchmark(*args: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run([sys.executable, ROOT / "benchmarks" / "gpu.py", *args], check=False, text=True,
                          capture_output=True, env=environment)


def said(*args: str) -> str:
    done = benchmark(*args)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dry(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("gpu") / "figures.json"
    text = said("--dry", "--rows", "general", "--json", str(file), "--seed", "3", "--only", SOME)
    return {"text": text, **json.loads(file.read_text(encoding="utf-8"))}


@pytest.fixture(scope="module")
def listed() -> list[str]:
    return [line.split()[0] for line in said("--list", "--rows", "general").splitlines()]


def test_every_row_is_measured(dry: dict[str, Any], listed: list[str]) -> None:
    assert [case["row"] for case in dry["cases"]] == [row for row in listed if SOME in row]
    assert {"copy", "transpose", "stencil_2d", "softmax", "matmul"} <= set(listed)


def test_everybody_is_right(dry: dict[str, Any]) -> None:
    for case in dry["cases"]:
        assert {"copy", "reference"} & {c["kind"] for c in case["contestants"]}
        assert "ours" in {c["kind"] for c in case["contestants"]}
        for contestant in case["contestants"]:
            assert not contestant["reason"], (case["row"], contestant)
            assert contestant["seconds"] > 0
            assert contestant["kind"] == "copy" or contestant["error"] < 1e-5


def test_goals_are_judged(dry: dict[str, Any]) -> None:
    for case in dry["cases"]:
        assert case["goals"]
        assert f"{case['row']} {'x'.join(map(str, case['size']))} (small)" in dry["text"]
    assert "of the copy rate: missed by" in dry["text"]            # the host's loops are no match for a copy
    assert "0.92 of cuBLAS: not measured" in dry["text"]


def test_without_a_gpu_it_says_so() -> None:
    done = benchmark("--quick", "--only", "copy")
    assert done.returncode != 0
    assert "nothing to measure" in done.stderr


def test_no_run_finds_its_input_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    worker = importlib.import_module("gpu_worker")
    for moved in (1.0, 1e6, 1e8, 4e8, 1e10):
        sets = worker.sets_for(moved, 1 << 26)
        others = (sets - 1)*moved
        assert sets >= 3
        assert others >= 3*(1 << 26) or sets == worker.MOST_SETS
    assert worker.sets_for(1e6, 0) == 1                            # the host, whose times mean nothing
    row = importlib.import_module("gpu_row")
    first = row.Problem((3,), {"x": np.arange(3)}, {"y": np.zeros(3)}, {"alpha": 2.0})
    second = first.copied(importlib.import_module("gpu_machine").Host(0))
    assert (second.x == first.x).all()
    assert second.alpha == 2
    assert not any(np.shares_memory(getattr(first, x), getattr(second, x)) for x in "xy")
