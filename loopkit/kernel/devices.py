"""What devices have, by architecture: a frozen table."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceLimits:
    """Limits of one launch on one CUDA architecture, from the CUDA programming guide.

    :ivar threads: threads in a block; *block*: threads along x, y, z.
    :ivar grid: blocks along x, y, z.
    :ivar shared_bytes: shared memory of a block that a launch can ask for; *static_shared_bytes*: without asking.
    """

    arch: str
    shared_bytes: int
    static_shared_bytes: int = 48 * 1024
    threads: int = 1024
    block: tuple[int, int, int] = (1024, 1024, 64)
    grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)


#: Threads of a warp, on every architecture.
WARP = 32

_KIB = 1024

#: Shared memory of a block by architecture.
DEVICE_LIMITS = {limits.arch: limits for limits in (
    DeviceLimits("sm_70", 96 * _KIB), DeviceLimits("sm_75", 64 * _KIB), DeviceLimits("sm_80", 163 * _KIB),
    DeviceLimits("sm_86", 99 * _KIB), DeviceLimits("sm_87", 163 * _KIB), DeviceLimits("sm_89", 99 * _KIB),
    DeviceLimits("sm_90", 227 * _KIB), DeviceLimits("sm_90a", 227 * _KIB), DeviceLimits("sm_100", 227 * _KIB),
    DeviceLimits("sm_103", 227 * _KIB), DeviceLimits("sm_120", 99 * _KIB))}
