"""Machine code, and the resources of its kernels: those that ptxas reports, and the resulting occupancy."""
from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from loopkit.errors import CompilerError
from loopkit.shown import Shown
from loopkit.target.code import GeneratedKernel
from loopkit.target.cuda.limits import DeviceLimits
from loopkit.target.cuda.target import CudaTarget


@dataclass(frozen=True)
class PtxasUsage:
    """The resources of one function.

    :ivar registers: 32-bit registers per thread.
    :ivar spill_stores: bytes that a thread stores for lack of registers; *spill_loads*: bytes that it loads back.
    :ivar stack: bytes of a thread's stack, for arrays outside registers.
    :ivar constant: bytes of constant memory, including parameters; 0 if ptxas does not report them.
    """

    registers: int
    spill_stores: int = 0
    spill_loads: int = 0
    stack: int = 0
    static_shared: int = 0
    barriers: int = 0
    constant: int = 0


@dataclass(frozen=True)
class Binary:
    """Machine code of one translation unit."""

    cubin: bytes
    log: str
    resources: Mapping[str, PtxasUsage]


_FUNCTION = re.compile(
    r"Compiling entry function '(?P<name>\w+)' for '\w+'"
    r".*?(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads"
    r".*?Used (?P<registers>\d+) registers(?P<rest>[^\n]*)", re.DOTALL)


def parse_ptxas_log(log: str) -> dict[str, PtxasUsage]:
    """The resources in the output of ``ptxas -v``, by function."""
    return {m["name"]: PtxasUsage(
        int(m["registers"]), int(m["stores"]), int(m["loads"]), int(m["stack"]),
        static_shared=_total(r"(\d+) bytes smem", m["rest"]), barriers=_total(r"used (\d+) barriers", m["rest"]),
        constant=_total(r"(\d+) bytes cmem", m["rest"])) for m in _FUNCTION.finditer(log)}


def _total(pattern: str, text: str) -> int:
    return sum(map(int, re.findall(pattern, text)))


@dataclass(frozen=True, kw_only=True, repr=False)
class KernelResources(PtxasUsage, Shown):
    """The resources of one kernel on one architecture.

    :ivar threads: those of a block, or the most that a block can have if their number depends on the sizes of a call.
    :ivar dynamic_shared: bytes of shared memory that the launch adds.
    :ivar blocks_per_multiprocessor: blocks that run on one multiprocessor at a time.
    :ivar occupancy: the warps of these blocks as a fraction (0 to 1) of the most warps of a multiprocessor.
    :ivar limited_by: the scarce resource: ``"threads"``, ``"registers"``, ``"shared memory"`` or ``"blocks"``.
    """

    name: str
    arch: str
    threads: int
    dynamic_shared: int
    blocks_per_multiprocessor: int
    occupancy: float
    limited_by: str

    def __str__(self) -> str:
        return ", ".join(f"{head} {cell}" for head, cell in zip(_HEAD, _row(self), strict=True))


class Resources(dict[str, KernelResources], Shown):
    """The resources of the kernels of one program, by name and in the order of their launches; prints as a table."""

    @property
    def headline(self) -> str:
        return f"of {', '.join(self) or 'no kernel'}"

    __repr__ = Shown.__repr__

    def rows(self) -> list[tuple[str, ...]]:
        """The table: a head, and a row for each kernel."""
        return [_HEAD, *map(_row, self.values())]

    def __str__(self) -> str:
        rows = self.rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(
            cell.ljust(width) if head in ("kernel", "arch", "limited by") else cell.rjust(width)
            for head, cell, width in zip(_HEAD, row, widths, strict=True)).rstrip() for row in rows)


def residency(limits: DeviceLimits, threads: int, registers: int, shared: int) -> tuple[int, str]:
    """The number of blocks that run on a multiprocessor at a time, by NVIDIA's rules, and the scarce resource.

    Warps get registers in units, from their partition's register file. A block gets shared memory in units, including
    the system's reserved part. The result assumes the largest configurable share of shared memory instead of cache.

    :arg shared: bytes of shared memory of a block, declared and dynamic.
    """
    warps = limits.warps(threads)
    by_registers = _by_registers(limits, warps, registers)
    allocated = limits.allocated_shared_bytes(shared)
    by_shared = limits.resident_shared_bytes // allocated if allocated else limits.resident_blocks
    if shared > limits.shared_bytes:
        by_shared = 0
    # the first of equal limits is reported: resources that a user can change come last
    found = {"threads": limits.resident_threads // limits.warp // warps if threads <= limits.threads else 0,
             "blocks": limits.resident_blocks, "registers": by_registers, "shared memory": by_shared}
    limited_by = min(found, key=lambda what: found[what])
    return found[limited_by], limited_by


def _by_registers(limits: DeviceLimits, warps: int, registers: int) -> int:
    if registers > limits.thread_registers:
        return 0
    unit = limits.register_unit
    per_warp = -(-max(registers, 1) * limits.warp // unit) * unit
    # the driver checks a launch as if the block had equally many warps in each partition
    if -(-warps // limits.partitions) * limits.partitions * per_warp > limits.registers:
        return 0
    return limits.registers // limits.partitions // per_warp * limits.partitions // warps


def kernel_resources(launches: Iterable[GeneratedKernel], binary: Binary, target: CudaTarget) -> Resources:
    """The resources of *launches* in *binary*; :raises CompilerError: the compiler did not report a function's."""
    limits, found = target.limits, Resources()
    for launch in launches:
        usage = binary.resources.get(launch.name)
        if usage is None:
            raise CompilerError(f"The compiler did not report the resources of kernel '{launch.name}'.", log=binary.log)
        sizes = [extent for extent in launch.block if isinstance(extent, int)]
        threads = prod(sizes) if len(sizes) == 3 else limits.threads
        shared = usage.static_shared + launch.dynamic_shared_bytes
        blocks, limited_by = residency(limits, threads, usage.registers, shared)
        found[launch.name] = KernelResources(
            **vars(usage), name=launch.name, arch=limits.arch, threads=threads,
            dynamic_shared=launch.dynamic_shared_bytes, blocks_per_multiprocessor=blocks, limited_by=limited_by,
            occupancy=blocks * limits.warps(threads) * limits.warp / limits.resident_threads)
    return found


_HEAD = ("kernel", "arch", "threads", "registers", "spilled", "stack", "shared", "blocks", "occupancy", "limited by")


def _row(kernel: KernelResources) -> tuple[str, ...]:
    spilled = f"{kernel.spill_stores}+{kernel.spill_loads}" if kernel.spill_stores or kernel.spill_loads else "0"
    return (kernel.name, kernel.arch, str(kernel.threads), str(kernel.registers), spilled, str(kernel.stack),
            str(kernel.static_shared + kernel.dynamic_shared), str(kernel.blocks_per_multiprocessor),
            f"{kernel.occupancy:.0%}", kernel.limited_by)
