"""The benchmark of code generation measures kernels that the process has not seen."""
from __future__ import annotations

import functools
import sys
from pathlib import Path

import pytest

from loopkit.poly.limits import kept_results


def test_no_result_is_remembered_between_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import codegen_worker
    asked: list[int] = []
    for kept in (kept_results, functools.lru_cache):
        function = kept(asked.append)
        function(1)
        codegen_worker.empty_caches()
        function(1)
    assert asked == [1]*4
    for name in ("codegen_worker", "codegen_kernels"):
        sys.modules.pop(name, None)
