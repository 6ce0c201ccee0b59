"""The limits of an OpenCL device."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OpenCLLimits:
    """Limits of one work-group, and the optional features of a device.

    :ivar name: the device, as messages call it.
    :ivar threads: the most work-items of a work-group; *block*: along each of its three dimensions.
    :ivar shared_bytes: the local memory of a work-group.
    :ivar float64: the device computes in float64.
    :ivar atomics64: the device updates 64 bits atomically.
    """

    name: str
    threads: int = 1024
    block: tuple[int, int, int] = (1024, 1024, 64)
    shared_bytes: int = 32 << 10
    float64: bool = True
    atomics64: bool = True
