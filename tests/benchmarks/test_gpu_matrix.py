"""The GPU benchmark's rows for the matrix units, on the host: references, both regimes, open goals, Triton's limit."""
from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import loopkit as lk
from tests.deep import DEEP

MODULES = ("gpu", "gpu_matrix", "gpu_matrix_math", "gpu_matrix_peers", "gpu_worker", "gpu_machine", "gpu_row")


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    path = str(Path(__file__).parents[2] / "benchmarks")
    sys.path.insert(0, path)
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    sys.path.remove(path)


def row_named(bench: SimpleNamespace, name: str) -> Any:
    return next(row for row in bench.gpu_matrix.matrix_rows() if row.name == name)


def some_of(rows: Sequence[Any]) -> Sequence[Any]:
    """All of *rows* in a deep run, else one: another one after a change of the library or of the rows.

    Rows of attention take 6 to 17 seconds, and others 1 to 3.
    """
    quick = [row for row in rows if not row.name.startswith("attention")]
    root = Path(__file__).parents[2]
    texts = (path.read_bytes() for pattern in ("loopkit/library/*.py", "benchmarks/gpu_matrix*.py")
             for path in sorted(root.glob(pattern)))
    return rows if DEEP else [quick[crc32(b"".join(texts)) % len(quick)]]


def test_every_row_runs_and_what_the_library_lacks_is_open(bench: SimpleNamespace) -> None:
    rows = bench.gpu_matrix.matrix_rows()
    assert len({row.name for row in rows}) == len(rows)
    lacking = replace(rows[0], ours={"loopkit": bench.gpu_row.library("none")})
    for row in (*some_of(rows), lacking):
        result = bench.gpu_worker.measure(row, row.small[0], bench.gpu_machine.Host(0), 1, variants=False)
        ours, numpy = result["contestants"]
        assert numpy["error"] == 0
        assert numpy["sustained"]["seconds"] > 0
        assert ours["open"] is ours["reason"].startswith("not there yet: ")
        assert ours["open"] or row is not lacking
        assert ours["open"] or ours["error"] <= row.tolerance
        case = bench.gpu.Case(row, "small")
        if ours["open"]:
            goal = row.goals[1]
            assert f"  -> {goal}: open, the library does not have it yet" in bench.gpu.shown(case, result)
            assert "2 goals are open" in [*bench.gpu.summary([(case, result)])][-1]


def test_a_pipeline_that_exists_is_measured_with_its_stages(bench: SimpleNamespace,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    def tiny(dtype: str, *, length: int) -> lk.LoopKernel:
        knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", "c[i, j] = sum(k, a[i, k]*b[k, j])",
                             name="tiny")
        return lk.split_iname(lk.add_dtypes(knl, {"a": dtype, "b": dtype, "c": dtype}), "i", length)
    monkeypatch.setattr(lk.library, "tiny", tiny, raising=False)
    library = bench.gpu_row.library
    row = replace(row_named(bench, "matmul_tf32"), ours={"loopkit": library("tiny", "float32", length=lambda s: 8)},
                  inputs=bench.gpu_matrix.product_inputs(bench.gpu_matrix.KINDS["tf32"], "nn"),
                  reference=lambda xp, p: bench.gpu_matrix_math.product(xp, p, "nn"))
    result = bench.gpu_worker.measure(row, (9, 6, 8), bench.gpu_machine.Host(0), 2, variants=False)
    ours = result["contestants"][0]
    assert ours["error"] < 1e-6
    assert ours["stages"]["calls"] == 2
    assert min(ours["stages"][x] for x in ("transform", "code", "proof")) > 0
    assert any("2 calls; seconds:" in line for line in bench.gpu.shown(bench.gpu.Case(row, "small"), result))
    for wrong in (library("tiny", "float32", width=3), library("none")):
        with pytest.raises(bench.gpu_row.NotThereYetError):
            wrong((9, 6, 8))
    with pytest.raises(TypeError):                       # a fault is no open goal
        library("tiny", "float32", length=lambda s: None + 1)((9, 6, 8))


def contestant(name: str, kind: str, bursts: float, sustained: float) -> dict[str, Any]:
    figures = [{"seconds": x, "low": x, "high": x} for x in (bursts, sustained)]
    return {"name": name, "kind": kind, "error": 0.0, "ready": 0.0, "reason": "", "open": False, **figures[0],
            "sustained": figures[1], "stages": {"calls": 12, "transform": 1.0, "code": 1.0, "proof": 1.0}}


def test_each_regime_has_its_goal_and_its_best_peer(bench: SimpleNamespace) -> None:
    row = row_named(bench, "matmul_bf16")
    result = {"size": (4096,)*3, "bytes": 1e8, "flops": 1.375e11, "by_flops": True, "sets": 3, "contestants": [
        contestant("loopkit", "ours", 2.0e-4, 2.2e-4), contestant("cuBLAS", "peer", 2.1e-4, 2.0e-4),
        contestant("Triton", "peer", 2.4e-4, 2.05e-4)]}
    case = bench.gpu.Case(row, "0")
    assert bench.gpu.judged(case, result) == [
        "0.98 of the best peer: met, 1.050, the stretch too",
        "0.95 of the best peer, sustained: missed by 4 %, 0.909"]
    line = [*bench.gpu.shown(case, result)][1]
    assert "687.50 TFLOP/s  of best peer  1.050 | sustained" in line
    assert "625.00 TFLOP/s  of best peer  0.909" in line
    assert "12   0.98 of the best peer: met" in [*bench.gpu.summary([(case, result)])][1]


def test_a_sustained_sample_follows_the_contestants_own_runs(bench: SimpleNamespace) -> None:
    """Without a pause: a GPU that waits cools down, and its clock rises."""
    log: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            self.at = 0

        def record(self) -> None:
            self.at = log.count("run")
            log.append("event")

        def synchronize(self) -> None:
            log.append("wait")

        def elapsed_time(self, end: Any) -> float:
            return 2.0*(end.at - self.at)                # milliseconds

    gpu = object.__new__(bench.gpu_machine.Gpu)
    gpu.xp = SimpleNamespace(cuda=SimpleNamespace(Event=Event, synchronize=lambda: log.append("wait")))
    assert gpu.sustained([lambda: log.append("run")]*3, 4, 7, 2) == [2e-3, 2e-3]
    assert log == ["wait", *["run"]*7, "event", *["run"]*4, "event", *["run"]*4, "event", "wait"]

    asked: list[tuple[str, int, int]] = []
    machine = SimpleNamespace(cache=1, sustained=lambda runs, *how: asked.append((runs[0], *how[:2])) or [1.0]*how[2])
    entrants = [bench.gpu_worker.Contestant(name, "peer", lambda: None) for name in "ab"]
    for c, seconds in zip(entrants, (1e-3, 1e-2), strict=True):
        c.runs, c.samples = [c.name], [seconds]
    bench.gpu_worker._sustain(entrants, machine, 5, {"a": 8, "b": 1})
    assert [name for name, *_ in asked] == ["a", "b", "b", "a"]
    assert all(first*seconds[name] >= 0.12 for name, _, first in asked for seconds in [{"a": 1e-3, "b": 1e-2}])
    assert [len(c.sustained) for c in entrants] == [6, 6]


def test_a_quick_run_is_short(bench: SimpleNamespace) -> None:
    args = bench.gpu.arguments(["--quick", "--rows", "matrix"])
    chosen = bench.gpu.cases(args, bench.gpu.known_rows())
    assert {"matmul_bf16", "ragged_bf16", "sm80_bf16"} <= {c.row.name for c in chosen}
    assert len(chosen) <= 6
    for case in chosen:
        entrants = bench.gpu_worker.contestants(case.row, case.row.even[0], SimpleNamespace(target="cuda"), False, True)
        assert {c.kind for c in entrants} == {"ours", "peer"}
        assert not {c.name for c in entrants} & set(bench.gpu_matrix_peers.SLOW)
    chosen = bench.gpu.cases(bench.gpu.arguments(["--sizes", "ragged,drawn"]), bench.gpu.known_rows())
    assert all(c.row.ragged if c.sort == "ragged" else c.row.draw for c in chosen)


def test_pairs_are_those_of_the_mask(bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = bench.gpu_matrix
    monkeypatch.setattr(matrix, "WINDOW", 5)
    stops = matrix.ends(matrix.SEQUENCES, 23)
    p = SimpleNamespace(sequence=np.searchsorted(stops, np.arange(23), side="right"))
    i, j = np.ogrid[:23, :23]
    for name, mask in matrix.MASKS.items():
        assert matrix.pairs(name, 23) == (23*23 if mask is None else np.count_nonzero(mask(p, i, j)))


def test_references_are_their_definitions(bench: SimpleNamespace) -> None:
    math, rng = bench.gpu_matrix_math, np.random.default_rng(0)
    q, k, v, go = (rng.normal(size=(1, heads, 6, 3)) for heads in (4, 2, 2, 4))
    causal = bench.gpu_matrix.MASKS["causal"]

    def loss(**changed: Any) -> float:
        p = SimpleNamespace(**{"q": q, "k": k, "v": v, **changed})
        return float((math.attention(np, p, causal, None)[0]*go).sum())
    gradients = math.attention_gradients(np, SimpleNamespace(q=q, k=k, v=v, go=go), causal)
    for name, array, gradient in zip("qkv", (q, k, v), gradients, strict=True):
        step = rng.normal(size=array.shape)*1e-5
        change = loss(**{name: array + step}) - loss(**{name: array - step})
        assert change == pytest.approx(2*(gradient*step).sum(), rel=1e-6)
    assert np.allclose(math.attention(np, SimpleNamespace(q=q, k=k, v=v), causal, None)[0][0, 3, 0], v[0, 1, 0])
    x, w = rng.normal(size=(1, 5, 6, 2)), rng.normal(size=(3, 3, 3, 2))
    y = math.convolution(np, SimpleNamespace(size=(1, 5, 6, 2, 3, 2, 2), x=x, w=w))
    assert y.shape == (1, 3, 3, 3)
    # the point (1, 1) of the result has (2, 2) of the image in its middle
    assert np.allclose(y[0, 1, 1], sum(w[:, r, s] @ x[0, 2*r, 2*s] for r in range(3) for s in range(3)))


def test_triton_is_held_to_instructions_of_sm_80(bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = SimpleNamespace(asm={})
    variable = "DISABLE_MMA_V3"
    seen: list[str | None] = []

    class Kernel:
        def __getitem__(self, grid: Any) -> Any:
            def launch(*_: Any) -> Any:
                seen.append(os.environ.get(variable))
                return compiled
            return launch
    triton = ModuleType("triton")
    language = ModuleType("triton.language")
    vars(triton).update(Config=lambda *_, **__: None, jit=lambda f: f, autotune=lambda **_: lambda f: Kernel(),
                        language=language, cdiv=lambda a, b: -(-a//b))
    monkeypatch.setitem(sys.modules, "triton", triton)
    monkeypatch.setitem(sys.modules, "triton.language", language)
    monkeypatch.delitem(sys.modules, "gpu_triton_matrix", raising=False)
    monkeypatch.delenv(variable, raising=False)
    array = SimpleNamespace(shape=(4, 4), stride=lambda: (4, 1))
    product = importlib.import_module("gpu_triton_matrix").product_by_mma_sync
    sys.modules.pop("gpu_triton_matrix")
    compiled.asm["ptx"] = "cp.async.cg mma.sync"
    product(array, array, array)()
    assert seen == ["1", None]
    compiled.asm["ptx"] = "mma.sync wgmma.mma_async"
    with pytest.raises(RuntimeError, match="does not obey"):
        product(array, array, array)
    assert variable not in os.environ
