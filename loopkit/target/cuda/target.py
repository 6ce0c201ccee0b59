"""The CUDA target: one ``__global__`` function per launch."""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from loopkit.ast.nodes import Function, Scope, Sync
from loopkit.ast.walk import instructions_in
from loopkit.errors import LimitError, PreconditionError
from loopkit.instructions.base import MemoryInstruction
from loopkit.instructions.block_flag import CUDA_TICKET
from loopkit.instructions.shuffle import lanes_of
from loopkit.instructions.text import indented
from loopkit.kernel.devices import DEVICE_LIMITS, DeviceLimits
from loopkit.lowering.lowered import Launch, Lowered, serves
from loopkit.lowering.types import index_types
from loopkit.target.addresses import Addresses, Register, declared
from loopkit.target.assumptions import assumed_by, assumption_lines
from loopkit.target.c.dialect import Dialect
from loopkit.target.code import GeneratedCode, GeneratedKernel, Layout
from loopkit.target.cuda.dialect import CUDA
from loopkit.target.cuda.host_text import host_text
from loopkit.target.cuda.shared import SharedMemory, shared_memory
from loopkit.target.emit import Emitter, outer_signs, wrapped
from loopkit.target.signature import Signature, count_of, head_lines, signature, type_of
from loopkit.target.text_target import TextTarget

_AXES = {"g.0": "blockIdx.x", "g.1": "blockIdx.y", "g.2": "blockIdx.z",
         "l.0": "threadIdx.x", "l.1": "threadIdx.y", "l.2": "threadIdx.z"}


#: The C++ standards for compiling generated text.
STANDARDS = ("c++11", "c++14", "c++17", "c++20")

#: The fewest registers; ptxas raises any smaller number to it.
_FEWEST_REGISTERS = 16


DEFAULT_ARCHITECTURE = "sm_90"


@dataclass(frozen=True)
class CudaTarget(TextTarget):
    """CUDA C++ for one architecture, with the options of its compilation.

    :ivar arch: ``"sm_80"``, ``"sm_90"``, ``"sm_90a"``, ...; code generation checks its limits. ``None``: that of the
        GPU of each call; without a GPU sm_90.
    :ivar std: the C++ standard: ``"c++11"``, ``"c++14"``, ``"c++17"`` or ``"c++20"``.
    :ivar fast_math: trade accuracy for speed in divisions, square roots and functions, and flush subnormal numbers
        to zero (``--use_fast_math``).
    :ivar line_info: keep the lines of the text in the compiled code, for profilers (``-lineinfo``).
    :ivar max_registers: the most registers per thread, from 16 to 255; the rest is spilled.
    :ivar options: more options for the compiler, passed on unchanged: ``("-fmad=false",)``.

    >>> lk.CudaTarget(arch="sm_80", max_registers=64, options=("-fmad=false",)).limits.shared_bytes
    166912
    """

    name: ClassVar[str] = "cuda"

    arch: str | None = None
    std: str = "c++17"
    fast_math: bool = False
    line_info: bool = False
    max_registers: int | None = None
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """:raises PreconditionError: a field has an illegal value."""
        _require_known("CUDA architecture", self.architecture, DEVICE_LIMITS)
        _require_known("dialect of C++ for CUDA", self.std, STANDARDS)
        for name in ("fast_math", "line_info"):
            if not isinstance(getattr(self, name), bool):
                raise PreconditionError(f"'{name}' of a CudaTarget cannot be {getattr(self, name)!r}.", subject=name,
                                        hint="give True or False")
        most = self.limits.thread_registers
        if self.max_registers is not None and not (
                type(self.max_registers) is int and _FEWEST_REGISTERS <= self.max_registers <= most):
            raise PreconditionError(f"'max_registers' of a CudaTarget cannot be {self.max_registers!r}.",
                                    subject="max_registers",
                                    hint=f"give a number from {_FEWEST_REGISTERS} to {most}, or None for no limit")
        if not isinstance(self.options, tuple) or not all(isinstance(option, str) for option in self.options):
            raise PreconditionError(f"'options' of a CudaTarget cannot be {self.options!r}.", subject="options",
                                    hint="give a tuple of strings, one an option: options=('-fmad=false',)")

    @property
    def architecture(self) -> str:
        """*arch*, or the default without a GPU."""
        return DEFAULT_ARCHITECTURE if self.arch is None else self.arch

    def on(self, arch: str) -> CudaTarget:
        """The same target for the architecture *arch*."""
        return replace(self, arch=arch)

    @property
    def limits(self) -> DeviceLimits:
        """The limits of the architecture."""
        return DEVICE_LIMITS[self.architecture]

    @property
    def dialect(self) -> Dialect:
        return CUDA

    def emit(self, lowered: Lowered, layout: Layout, head: Sequence[str]) -> GeneratedCode:
        return _code(lowered, self, layout, head)


def _require_known(what: str, value: object, known: Collection[str]) -> None:
    if not isinstance(value, str) or value not in known:
        raise PreconditionError(f"{value!r} is no known {what}.", subject=str(value),
                                hint=f"known are {', '.join(known)}")


def _code(lowered: Lowered, target: CudaTarget, layout: Layout, head: Sequence[str]) -> GeneratedCode:
    """The translation unit, with *head* as comments at its top, and the launches."""
    used: set[str] = set()
    functions: list[str] = []
    launches: list[GeneratedKernel] = []
    for launch, function in zip(lowered.launches, lowered.program.functions, strict=True):
        own = signature(lowered, launch, function, layout, CUDA)
        used.update(d.name for d in (*(x.dtype for x in own.parameters), *(a.dtype for a in function.arrays)))
        number = CUDA_TICKET.shared_bytes if function.ticketed else 0
        shared = shared_memory(function.arrays, target.limits.static_shared_bytes - number, number)
        _require_within(lowered, launch, shared, target.limits)
        _require_capability(lowered, launch, target.limits)
        functions.append("\n".join(wrapped([*_function_lines(lowered, launch, function, own, layout, shared, used,
                                                             target.limits)])))
        launches.append(GeneratedKernel(launch.name, own.parameters, launch.grid, launch.block, shared.total,
                                        shared.dynamic_bytes))
    preamble = CUDA.preamble(used)
    assumed = assumed_by(lowered.program.functions) if layout.vectors else ()
    sizes = {name: np.dtype(a.dtype).itemsize for name, a in lowered.kernel.array_args.items()}
    comments = "\n".join(f"// {line}" for line in (*head, *assumption_lines(assumed, sizes)))
    parts = [*filter(None, (comments, preamble.rstrip())), *functions]
    host = host_text(lowered, launches, layout)
    return GeneratedCode(target.name, "\n\n".join(parts) + "\n", tuple(launches), host, layout,
                         lowered.program.host_order, assumed)


def _require_within(lowered: Lowered, launch: Launch, shared: SharedMemory, limits: DeviceLimits) -> None:
    where = f"'{launch.name}' on {limits.arch}"
    if launch.threads > limits.threads:
        raise LimitError("threads per block", limits.threads, launch.threads, where=where,
                         hint="split the l.* inames by smaller lengths")
    for axis, own, most in zip("xyz", launch.block, limits.block, strict=True):
        if own > most:
            raise LimitError(f"threads along {axis}", most, own, where=where, hint="use another l.* axis")
    if shared.total > limits.shared_bytes:
        raise LimitError("bytes of shared memory per block", limits.shared_bytes, shared.total, where=where,
                         hint="use smaller tiles")
    for axis, own_extent, most in zip("xyz", launch.grid, limits.grid, strict=True):
        if isinstance(own_extent, int) and own_extent > most:
            raise LimitError(f"blocks along {axis}", most, own_extent, where=where, hint="use g.0 for this iname")
    if isinstance(blocks := lowered.kernel.options.min_blocks, int):
        _require_room(blocks, launch, shared, limits)


def _require_capability(lowered: Lowered, launch: Launch, limits: DeviceLimits) -> None:
    """:raises PreconditionError: a statement's instruction does not support its memory, or the device lacks it."""
    for s in (bound.statement for bound in launch.statements.values()):
        for i in s.instructions:
            if isinstance(i, MemoryInstruction):
                if not serves(i, s, lowered.storages):
                    i.refuse_memory(s, str(lowered.storages[s.written].space))
                if limits.capability < i.capability:
                    raise PreconditionError(f"'{s.id}' needs {i.noun}, which {limits.arch} does not have.",
                                            subject=s.id, hint=f"target sm_{i.capability} or later{i.alternative}")


def _require_room(blocks: int, launch: Launch, shared: SharedMemory, limits: DeviceLimits) -> None:
    """:raises LimitError: *blocks* blocks do not fit on a multiprocessor, for any number of registers."""
    for what, most, wanted in (
            ("blocks per multiprocessor", limits.resident_blocks, blocks),
            ("threads per multiprocessor", limits.resident_threads,
             blocks * limits.warps(launch.threads) * limits.warp),
            ("bytes of shared memory per multiprocessor", limits.resident_shared_bytes,
             blocks * limits.allocated_shared_bytes(shared.total))):
        if wanted > most:
            raise LimitError(what, most, wanted, where=f"'{launch.name}' on {limits.arch} with min_blocks={blocks}",
                             hint="set_options(knl, min_blocks=...) with less, or use smaller blocks")


def _most_blocks(launch: Launch, shared: SharedMemory, limits: DeviceLimits) -> int:
    """The number of blocks that fit on a multiprocessor, ignoring registers."""
    return min(limits.resident_blocks, limits.resident_threads // (limits.warps(launch.threads) * limits.warp),
               limits.resident_shared_bytes // max(limits.allocated_shared_bytes(shared.total), 1))


def _function_lines(lowered: Lowered, launch: Launch, function: Function, own: Signature, layout: Layout,
                    shared: SharedMemory, used: set[str], limits: DeviceLimits) -> Iterator[str]:
    lanes = lanes_of(launch.kernel, function, CUDA.type_name)
    own_arrays = {a.name: declared(a) for a in function.arrays if a.shape}
    places = Addresses({**own.places, **own_arrays, **{name: Register(a.lanes) for name, a in lanes.arrays.items()}})
    index = np.dtype(np.int64 if layout.index_bits == 64 else np.int32)
    number = launch.kernel.fresh_name("block")
    axes = {**_AXES, **_ticket_coordinates(number, launch)} if function.ticketed else _AXES
    own_used: set[str] = set()
    texts = {i: text for i, text in CUDA.instructions.items() if layout.vectors or not text.assumes_layout}
    emitter = Emitter(lowered, function, CUDA, places, index, axes, lambda _node, lines: lines,
                      lambda sync: _sync_lines(lowered, sync, own_used),
                      {**index_types(launch.kernel, index), **lanes.types}, own_used, texts, lanes.shuffle)
    asked = lowered.kernel.options.min_blocks
    blocks = asked if isinstance(asked, int) else _most_blocks(launch, shared, limits)
    bounds = f"{launch.threads}, {blocks}" if blocks else str(launch.threads)
    yield f'extern "C" __global__ void __launch_bounds__({bounds})'
    yield from head_lines(launch.name, own.parameters, CUDA)
    yield "{"
    signs = outer_signs(launch)
    body: list[str] = []
    if function.ticketed:
        used.add(CUDA_TICKET.function)
        body.append(f"const unsigned int {number} = {CUDA_TICKET.function}({count_of(launch)});")
    used.update(name for x in own.parameters if x.instruction is not None
                for name in CUDA.instructions[type(x.instruction)].helpers if f"{name}<" in type_of(x, CUDA))
    for x, value in launch.coordinates.items():
        body.append(f"const {emitter.index} {x} = {emitter.text(value, signs)};")
        signs = signs.defining(x, value)
    aligned = frozenset[str]().union(*(i.aligned for i in instructions_in(function.body) if type(i) in texts))
    body += shared.declarations(function.arrays, CUDA, aligned)
    body += lanes.declarations()
    inner = list(emitter.lines(function.body, signs))
    body += [CUDA.policies.evict_last_start] if CUDA.policies.evict_last_load in own_used else []
    if body:
        body.append("")
    yield from indented([*body, *inner])
    yield "}"
    used |= own_used


def _ticket_coordinates(number: str, launch: Launch) -> Mapping[str, str]:
    """The coordinate of the block with this *number* along each axis of the grid, as text."""
    return {"g.0": number, "g.1": "0", "g.2": "0"} if not {"g.1", "g.2"} & launch.extents.keys() else {
        "g.0": f"({number} % gridDim.x)", "g.1": f"({number} / gridDim.x % gridDim.y)",
        "g.2": f"({number} / gridDim.x / gridDim.y)"}


def _sync_lines(lowered: Lowered, sync: Sync, used: set[str]) -> list[str]:
    comments = [f"// {reason}" for reason in sync.serves] if lowered.kernel.options.annotate else []
    lines = [line for i in sync.instructions if (text := CUDA.instructions[type(i)].sync) is not None
             for line in text(used, i)]
    if sync.scope is not Scope.THREAD:
        lines.append("__syncwarp();" if sync.scope is Scope.WARP else "__syncthreads();")
    return [*comments, *lines]

