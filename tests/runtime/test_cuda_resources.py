"""Occupancy by NVIDIA's rules, worked out by hand."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from loopkit.runtime.cuda.resources import Binary, PtxasUsage, kernel_resources, residency
from loopkit.target.code import GeneratedKernel
from loopkit.target.cuda.limits import DEVICE_LIMITS


@pytest.mark.parametrize(("arch", "threads", "registers", "shared", "expected"), [
    # nothing but threads: 2048, 1536 and 1024 of them
    ("sm_80", 256, 32, 0, (8, "threads")),
    ("sm_86", 256, 32, 0, (6, "threads")),
    ("sm_90", 256, 32, 0, (8, "threads")),
    ("sm_75", 256, 32, 0, (4, "threads")),
    ("sm_86", 1024, 32, 0, (1, "threads")),
    ("sm_90", 1024, 32, 0, (2, "threads")),
    # small blocks: 32, 16 and 24 of them at most
    ("sm_80", 32, 16, 0, (32, "blocks")),
    ("sm_86", 64, 16, 0, (16, "blocks")),
    ("sm_89", 32, 16, 0, (24, "blocks")),
    # a block that is no multiple of a warp: 33 threads are 2 warps, 64 // 2 = 32
    ("sm_80", 33, 16, 0, (32, "threads")),
    ("sm_90", 96, 16, 0, (21, "threads")),
    # registers: 65 a thread are 2080 a warp, given as 2304; 16384 // 2304 = 7 warps a partition, 28 in all, 8 a block
    ("sm_80", 256, 65, 0, (3, "registers")),
    ("sm_90", 256, 65, 0, (3, "registers")),
    ("sm_86", 256, 65, 0, (3, "registers")),
    # 64 a thread: 8 warps a partition, 32 in all
    ("sm_90", 256, 64, 0, (4, "registers")),
    # 40 a thread: 1280 a warp, 12 warps a partition, 48 in all
    ("sm_90", 256, 40, 0, (6, "registers")),
    ("sm_86", 256, 40, 0, (6, "threads")),
    # 168 a thread: 5376 a warp, 3 a partition, 12 in all; a block of 3 warps fits 4 times
    ("sm_90", 96, 168, 0, (4, "registers")),
    ("sm_90", 128, 168, 0, (3, "registers")),
    ("sm_90", 256, 255, 0, (1, "registers")),
    ("sm_90", 512, 255, 0, (0, "registers")),
    # 5 warps of 8192 registers need 40960, but the launch is checked for 8 warps: 65536, which is all
    ("sm_90", 160, 255, 0, (1, "registers")),
    # 9 warps of 8192 are checked as 12
    ("sm_90", 288, 255, 0, (0, "registers")),
    # shared memory, with a KiB that the system takes: 164, 100 and 228 KiB
    ("sm_80", 128, 32, 48*1024, (3, "shared memory")),
    ("sm_86", 128, 32, 48*1024, (2, "shared memory")),
    ("sm_90", 128, 32, 48*1024, (4, "shared memory")),
    ("sm_90", 128, 32, 227*1024, (1, "shared memory")),
    ("sm_90", 128, 32, 227*1024 + 1, (0, "shared memory")),
    # 113 KiB and the reserve are half of 228 KiB; a byte more is given as 128
    ("sm_90", 128, 32, 113*1024, (2, "shared memory")),
    ("sm_90", 128, 32, 113*1024 + 1, (1, "shared memory")),
    # without a reserve: 64 KiB in units of 256 bytes
    ("sm_75", 64, 32, 16*1024, (4, "shared memory")),
    ("sm_75", 64, 32, 16*1024 + 1, (3, "shared memory")),
])
def test_blocks_on_a_multiprocessor(arch: str, threads: int, registers: int, shared: int, expected: tuple[int, str]
                                    ) -> None:
    assert residency(DEVICE_LIMITS[arch], threads, registers, shared) == expected


@pytest.mark.parametrize("arch", DEVICE_LIMITS)
def test_an_empty_block_of_one_warp_is_limited_by_blocks_alone(arch: str) -> None:
    limits = DEVICE_LIMITS[arch]
    assert residency(limits, 32, 16, 0)[0] == limits.resident_blocks
    assert residency(limits, 32, 16, limits.shared_bytes) == (1, "shared memory")


def test_report() -> None:
    launches = [GeneratedKernel("first", (), block=(16, 16, 1), shared_bytes=70000, dynamic_shared_bytes=70000),
                GeneratedKernel("a_second_one", (), block=(128, 1, 1), shared_bytes=1024)]
    binary = Binary(b"", "", {"a_second_one": PtxasUsage(255, 8, 12, 16, static_shared=1024),
                              "first": PtxasUsage(32)})
    found = kernel_resources(launches, binary, lk.CudaTarget("sm_90"))
    assert list(found) == ["first", "a_second_one"]
    first, second = found.values()
    assert (first.dynamic_shared, first.blocks_per_multiprocessor, first.limited_by) == (70000, 3, "shared memory")
    assert first.occupancy == 3*256 / 2048
    assert (second.threads, second.occupancy, second.limited_by) == (128, 2*128 / 2048, "registers")
    assert repr(found) == "<Resources of first, a_second_one>"
    assert str(found) == """\
kernel        arch   threads  registers  spilled  stack  shared  blocks  occupancy  limited by
first         sm_90      256         32        0      0   70000       3        38%  shared memory
a_second_one  sm_90      128        255     8+12     16    1024       2        12%  registers"""
    assert found == kernel_resources(launches, binary, lk.CudaTarget("sm_90"))
    assert found != kernel_resources(launches, binary, lk.CudaTarget("sm_80"))


def test_a_function_of_which_nothing_is_known() -> None:
    with pytest.raises(lk.CompilerError, match="did not report the resources of kernel 'lost'") as caught:
        kernel_resources([GeneratedKernel("lost", ())], Binary(b"", "another log", {}), lk.CudaTarget())
    assert "another log" in str(caught.value)


def test_occupancy_of_half_a_warp_counts_whole_warps() -> None:
    found = kernel_resources([GeneratedKernel("k", (), block=(16, 1, 1))], Binary(b"", "", {"k": PtxasUsage(16)}),
                             lk.CudaTarget("sm_80"))
    assert found["k"].occupancy == 32*32 / 2048
    assert np.isclose(found["k"].occupancy, 0.5)
