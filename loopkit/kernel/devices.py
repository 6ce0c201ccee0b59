"""Limits of CUDA devices by architecture: a frozen table."""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

_KIB = 1024

#: Threads of a warp, on every architecture.
WARP = 32


@dataclass(frozen=True)
class DeviceLimits:
    """Limits of one launch and of one multiprocessor on one CUDA architecture, from the CUDA programming guide.

    :ivar shared_bytes: shared memory of a block with an opt-in by the launch; *static_shared_bytes*: without.
    :ivar resident_threads: on one multiprocessor at a time, as *resident_blocks* and *resident_shared_bytes*.
    :ivar reserved_shared_bytes: shared memory that the system reserves for each block.
    :ivar shared_unit: the allocation unit of shared memory, in bytes.
    :cvar registers: 32-bit registers of one multiprocessor, and of a block; *thread_registers*: of a thread.
    :cvar register_unit: the allocation unit of registers per warp.
    :cvar partitions: parts of a multiprocessor; each has its share of the registers and runs its share of the warps.
    :cvar threads: threads in a block; *block*: threads along x, y, z.
    :cvar grid: blocks along x, y, z.
    """

    arch: str
    shared_bytes: int
    resident_threads: int
    resident_blocks: int
    resident_shared_bytes: int
    reserved_shared_bytes: int
    shared_unit: int

    registers: ClassVar[int] = 64 * _KIB
    thread_registers: ClassVar[int] = 255
    register_unit: ClassVar[int] = 256
    partitions: ClassVar[int] = 4
    static_shared_bytes: ClassVar[int] = 48 * _KIB
    threads: ClassVar[int] = 1024
    block: ClassVar[tuple[int, int, int]] = (1024, 1024, 64)
    grid: ClassVar[tuple[int, int, int]] = (2**31 - 1, 65535, 65535)
    warp: ClassVar[int] = WARP

    @property
    def capability(self) -> int:
        """The compute capability as a number, 80 for sm_80."""
        return int("".join(filter(str.isdigit, self.arch)))

    def warps(self, threads: int) -> int:
        """The warps of a block of *threads*."""
        return -(-threads // self.warp)

    def allocated_shared_bytes(self, size: int) -> int:
        """The bytes of shared memory that its multiprocessor allocates for a block with *size* bytes."""
        return -(-(size + self.reserved_shared_bytes) // self.shared_unit) * self.shared_unit


#: KiB of shared memory, threads and blocks of one multiprocessor.
_RESIDENT = {
    "sm_70": (96, 2048, 32), "sm_75": (64, 1024, 16), "sm_80": (164, 2048, 32), "sm_86": (100, 1536, 16),
    "sm_87": (164, 1536, 16), "sm_88": (100, 1536, 16), "sm_89": (100, 1536, 24), "sm_90": (228, 2048, 32),
    "sm_100": (228, 2048, 32), "sm_103": (228, 2048, 32), "sm_110": (228, 1536, 24), "sm_120": (100, 1536, 24),
    "sm_121": (100, 1536, 24)}

#: Suffixes of an architecture: ``a`` adds architecture-specific instructions; ``f``, those of its family.
_SUFFIXES = {"sm_90": "a", **dict.fromkeys(("sm_100", "sm_103", "sm_110", "sm_120", "sm_121"), "af")}


def _limits(arch: str, shared: int, threads: int, blocks: int) -> DeviceLimits:
    """A block may use all of the shared memory but the reserve of one block; before sm_80 there is no reserve."""
    reserved, unit = (0, 256) if arch in ("sm_70", "sm_75") else (_KIB, 128)
    return DeviceLimits(arch, shared*_KIB - reserved, threads, blocks, shared*_KIB, reserved, unit)


#: The limits by architecture.
DEVICE_LIMITS = {plain + suffix: replace(_limits(plain, *resident), arch=plain + suffix)
                 for plain, resident in _RESIDENT.items() for suffix in ("", *_SUFFIXES.get(plain, ""))}
