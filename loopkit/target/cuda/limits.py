"""The limits of CUDA devices by architecture."""
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loopkit.kernel.target import GPU

_KIB = 1024


@dataclass(frozen=True)
class DeviceLimits:
    """Limits of one launch and of one multiprocessor on one CUDA architecture, from the CUDA programming guide.

    :ivar resident_shared_bytes: shared memory of one multiprocessor.
    :ivar resident_threads: on one multiprocessor at a time, as *resident_blocks*.
    :cvar registers: 32-bit registers of one multiprocessor, and of a block; *thread_registers*: of a thread.
    :cvar register_unit: the allocation unit of registers per warp.
    :cvar partitions: parts of a multiprocessor; each has its share of the registers and runs its share of the warps.
    :cvar static_shared_bytes: shared memory of a block without an opt-in by the launch; *shared_bytes*: with one.
    :cvar constant_bytes: constant memory of a program.
    :cvar threads: threads in a block; *block*: threads along x, y, z.
    :cvar grid: blocks along x, y, z.
    """

    arch: str
    resident_shared_bytes: int
    resident_threads: int
    resident_blocks: int

    registers: ClassVar[int] = 64 * _KIB
    thread_registers: ClassVar[int] = 255
    register_unit: ClassVar[int] = 256
    partitions: ClassVar[int] = 4
    static_shared_bytes: ClassVar[int] = 48 * _KIB
    constant_bytes: ClassVar[int] = 64 * _KIB
    threads: ClassVar[int] = 1024
    block: ClassVar[tuple[int, int, int]] = (1024, 1024, 64)
    grid: ClassVar[tuple[int, int, int]] = (2**31 - 1, 65535, 65535)
    warp: ClassVar[int] = GPU.warp

    @property
    def capability(self) -> int:
        """The compute capability as a number, 80 for sm_80."""
        return int("".join(filter(str.isdigit, self.arch)))

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a block: that of a multiprocessor without the reserve of one block."""
        return self.resident_shared_bytes - self._reserved_shared_bytes

    @property
    def _reserved_shared_bytes(self) -> int:
        """The shared memory that the system reserves for each block."""
        return _KIB if self.capability >= 80 else 0

    def warps(self, threads: int) -> int:
        """The warps of a block of *threads*."""
        return -(-threads // self.warp)

    def block_thread_registers(self, threads: int) -> int:
        """The most registers of a thread in a block of *threads*, if each partition has its share of the warps."""
        warps = -(-self.warps(threads) // self.partitions)
        most = self.registers // self.partitions // warps // self.register_unit * self.register_unit
        return min(self.thread_registers, most // self.warp)

    def allocated_shared_bytes(self, size: int) -> int:
        """The bytes of shared memory that its multiprocessor allocates for a block with *size* bytes."""
        unit = 128 if self.capability >= 80 else 256
        return -(-(size + self._reserved_shared_bytes) // unit) * unit


#: KiB of shared memory, threads and blocks of one multiprocessor.
_RESIDENT = {
    "sm_70": (96, 2048, 32), "sm_75": (64, 1024, 16), "sm_80": (164, 2048, 32), "sm_86": (100, 1536, 16),
    "sm_87": (164, 1536, 16), "sm_88": (100, 1536, 16), "sm_89": (100, 1536, 24), "sm_90": (228, 2048, 32),
    "sm_100": (228, 2048, 32), "sm_103": (228, 2048, 32), "sm_110": (228, 1536, 24), "sm_120": (100, 1536, 24),
    "sm_121": (100, 1536, 24)}

#: Suffixes of an architecture: ``a`` adds architecture-specific instructions; ``f``, those of its family.
_SUFFIXES = {"sm_90": "a", **dict.fromkeys(("sm_100", "sm_103", "sm_110", "sm_120", "sm_121"), "af")}

#: The limits by architecture.
DEVICE_LIMITS = {plain + suffix: DeviceLimits(plain + suffix, shared*_KIB, threads, blocks)
                 for plain, (shared, threads, blocks) in _RESIDENT.items()
                 for suffix in ("", *_SUFFIXES.get(plain, ""))}
