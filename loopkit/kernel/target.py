"""Targets: the part of a target that lowering and the checks need, and the limits of CUDA devices by architecture."""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from loopkit.errors import PreconditionError
from loopkit.lazy import LazyTable

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


@dataclass(frozen=True)
class Machine:
    """The properties of a target that lowering uses; lowered kernels are kept by their machine.

    Targets of one machine share their loop programs: the loop program for a GPU runs as C on the host, too.
    """

    warp: int = WARP


#: A CUDA GPU of any architecture.
GPU = Machine()


class Target:
    """A code generator and a device for its code. Subclasses are frozen dataclasses of compiler options."""

    #: The name in ``target="..."``.
    name: ClassVar[str]

    @property
    def machine(self) -> Machine:
        return GPU

    @property
    def limits(self) -> DeviceLimits | None:
        """The limits of a launch; ``None``: it has none."""
        return None

    @property
    def capability(self) -> int | None:
        """The number of the architecture, 80 for sm_80; ``None``: it has no architectures."""
        return None if self.limits is None else self.limits.capability


#: The targets by name; ``loopkit/__init__.py`` gives the addresses of ours.
TARGETS = LazyTable[type[Target]]()

#: The target of a kernel for which none is named.
DEFAULT_TARGET = "cuda"


def resolve_target(target: object) -> Target:
    """The target object for a name (``None``: the default); :raises PreconditionError: there is no such target."""
    if isinstance(target, Target):
        return target
    name = DEFAULT_TARGET if target is None else target
    if isinstance(name, str) and name in TARGETS:
        return TARGETS[name]()
    raise PreconditionError(
        f"{target!r} is no target.", subject=str(target),
        hint=f"the targets are {', '.join(f'{known!r}' for known in TARGETS)}, and objects with options, such as "
             f"{', '.join(f'lk.{cls.__name__}(...)' for cls in TARGETS.values())}")
