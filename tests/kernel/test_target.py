"""Targets by name, and the results that are kept for one of them and not for another."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from loopkit.kernel.target import GPU, TARGETS, resolve_target
from loopkit.target.cuda.limits import DEVICE_LIMITS
from tests.targets import WarpsOf


def row_sums(length: int) -> lk.LoopKernel:
    knl = lk.make_kernel(f"{{[i, k]: 0<=i<n and 0<=k<{length}}}", "y[i] = sum(k, a[i, k])")
    return lk.tag_inames(lk.add_dtypes(knl, {"a": np.float32}), "i:g.0, k:l.0")


def test_names_stand_for_targets() -> None:
    assert [resolve_target(name) for name in TARGETS] == [cls() for cls in TARGETS.values()]
    assert resolve_target(None) == lk.CudaTarget()
    assert resolve_target(lk.CudaTarget(arch="sm_80")) == lk.CudaTarget(arch="sm_80")
    with pytest.raises(lk.PreconditionError, match="'metal' is not a target") as err:
        lk.lower(row_sums(64), "metal")
    assert "'cuda'" in (err.value.hint or "")
    assert "lk.CTarget(...)" in (err.value.hint or "")


def test_what_a_target_has() -> None:
    assert lk.CudaTarget(arch="sm_90a").limits.capability == 90
    assert {limits.warp for limits in DEVICE_LIMITS.values()} == {GPU.warp}


@pytest.mark.deep
def test_loop_programs_of_two_machines_are_kept_apart() -> None:
    knl = row_sums(64)
    usual = str(lk.lower(knl))
    narrow = str(lk.lower(knl, WarpsOf(16)))
    assert "warp barrier" not in usual
    assert usual != narrow
    assert str(lk.lower(knl, "c")) == str(lk.lower(knl, lk.CudaTarget(arch="sm_80"))) == usual == str(lk.lower(knl))
    assert str(lk.lower(knl, WarpsOf(16))) == narrow
    assert lk.verify(knl, WarpsOf(16)).ok
    assert str(lk.lower(knl, stop="binding")) == str(lk.lower(row_sums(64), stop="binding"))
    assert str(lk.lower(knl, WarpsOf(16), "binding")) == str(lk.lower(row_sums(64), WarpsOf(16), "binding"))
