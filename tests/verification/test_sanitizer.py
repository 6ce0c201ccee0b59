"""Counts of the reports of NVIDIA's tools, which run on a GPU by ``python -m tests.gpu.sanitizer``."""
from __future__ import annotations

import pytest

import loopkit as lk
from loopkit.ast.nodes import If, Sync
from tests.cases import CASES
from tests.gpu.explained import Allocation, explained, seen
from tests.gpu.sanitizer import MARK, Log, all_faults, divergent


def test_reports_count_for_the_fault_whose_kernel_they_name() -> None:
    log = Log()
    for line in ("clean stencil True", "faulty 0 two_launches_fault2 write-deleted",
                 "========= Uninitialized __global__ memory read of size 4 bytes",
                 "=========     at two_launches_fault2_1+0x60", "found 0 False",
                 "faulty 1 two_launches_fault24 write-deleted", "found 1 True", "done"):
        log.take(line)
    assert log.done
    assert log.clean == ["clean stencil True"]
    assert log.reports == 0
    assert dict(log.reported) == {"two_launches_fault2": 1}
    assert log.results == {0: "False", 1: "True"}
    assert log.faulty[1] == ("two_launches_fault24", "write-deleted")


def test_what_is_said_of_a_kernel_without_faults_is_kept_with_its_place() -> None:
    log = Log()
    for line in ("========= COMPUTE-SANITIZER", "========= Invalid __global__ read of size 4 bytes",
                 "=========     at transpose+0x20", "clean transpose True"):
        log.take(line)
    assert log.reports == 1
    assert log.early[1] == "=========     at transpose+0x20"


def test_a_summary_without_hazards_is_no_report() -> None:
    log = Log()
    log.take("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)")
    assert log.reports == 0
    log.take("========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)")
    assert log.reports == 1


def test_a_divergent_barrier_parts_the_threads_of_a_warp() -> None:
    case = next(case for case in CASES if case.name == "matmul_tiled")
    lowered = lk.lower(case.make())
    found = list(divergent(lowered.program))
    assert found
    text = repr(found[0].program)
    assert text.count(Sync.__name__) == repr(lowered.program).count(Sync.__name__)
    assert text.count(If.__name__ + "(") == repr(lowered.program).count(If.__name__ + "(") + 1


@pytest.mark.parametrize(("kind", "what"), [("guard weakened", "outside of its"),
                                            ("barrier deleted", "which nobody wrote")])
def test_why_a_fault_was_not_reported_is_told_by_running_it(kind: str, what: str) -> None:
    case = next(case for case in CASES if case.name == ("transpose" if kind == "barrier deleted" else "scale_mapped"))
    lowered = lk.lower(case.make())
    number = next(i for i, f in enumerate(all_faults(case, lowered)) if f.kind == kind)
    of, objection = explained(f"{case.name}_{MARK}{number}")
    assert of == kind
    assert what in objection


@pytest.mark.deep
def test_a_run_of_allocations_objects_to_no_golden_kernel_of_functions_and_quotients() -> None:
    for case in CASES:
        if case.name in ("softmax_by_thread", "layer_norm_by_thread"):
            lowered = lk.lower(case.make())
            assert not seen(case, lowered.program, Allocation)
