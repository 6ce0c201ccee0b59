"""The CUDA target: one ``__global__`` function a launch."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from loopkit.ast.nodes import Array, Function, Sync
from loopkit.ast.signs import Signs
from loopkit.errors import LimitError, PreconditionError
from loopkit.expr.c import Dialect
from loopkit.kernel.devices import DEVICE_LIMITS, DeviceLimits
from loopkit.lowering.binding import BLOCK, GRID, Launch
from loopkit.lowering.pipeline import Lowered
from loopkit.lowering.types import index_types
from loopkit.target.addresses import Addresses, Nested
from loopkit.target.code import GeneratedCode, Layout
from loopkit.target.code import Launch as CodeLaunch
from loopkit.target.dialects import CUDA
from loopkit.target.emit import Emitter, indented, wrapped
from loopkit.target.host_text import host_text
from loopkit.target.signature import Signature, head_lines, signature

_AXES = {"g.0": "blockIdx.x", "g.1": "blockIdx.y", "g.2": "blockIdx.z",
         "l.0": "threadIdx.x", "l.1": "threadIdx.y", "l.2": "threadIdx.z"}


@dataclass(frozen=True)
class CudaTarget:
    """CUDA C++ for one architecture.

    :ivar arch: ``"sm_80"``, ``"sm_90"``, ...; its limits are checked when code is generated.
    """

    arch: str = "sm_90"

    @property
    def limits(self) -> DeviceLimits:
        """:raises PreconditionError: the architecture is not in the table."""
        try:
            return DEVICE_LIMITS[self.arch]
        except KeyError:
            raise PreconditionError(f"'{self.arch}' is no known CUDA architecture.", subject=self.arch,
                                    hint=f"known are {', '.join(DEVICE_LIMITS)}") from None


def cuda_code(lowered: Lowered, target: CudaTarget, layout: Layout) -> GeneratedCode:
    """The translation unit, and the launches."""
    used: set[str] = set()
    functions: list[str] = []
    launches: list[CodeLaunch] = []
    for launch, function in zip(lowered.launches, lowered.program.functions, strict=True):
        own = signature(lowered, launch, layout)
        used.update(d.name for d in (*(x.dtype for x in own.parameters), *(a.dtype for a in function.arrays)))
        _require_within(launch, function, target.limits)
        functions.append("\n".join(wrapped([*_function_lines(lowered, launch, function, own, layout, used)])))
        launches.append(CodeLaunch(launch.name, own.parameters, launch.grid, launch.block, _shared_bytes(function)))
    preamble = CUDA.preamble(used)
    parts = [*([preamble.rstrip()] if preamble else []), *functions]
    return GeneratedCode("cuda", "\n\n".join(parts) + "\n", tuple(launches), host_text(lowered, launches), layout)


def _shared_bytes(function: Function) -> int:
    return sum(prod(a.shape) * a.dtype.itemsize for a in function.arrays if a.shared)


def _require_within(launch: Launch, function: Function, limits: DeviceLimits) -> None:
    where = f"'{launch.name}' on {limits.arch}"
    if launch.threads > limits.threads:
        raise LimitError("threads per block", limits.threads, launch.threads, where=where,
                         hint="split the l.* inames by smaller lengths")
    for axis, own, most in zip("xyz", launch.block, limits.block, strict=True):
        if own > most:
            raise LimitError(f"threads along {axis}", most, own, where=where, hint="use another l.* axis")
    shared = _shared_bytes(function)
    if shared > limits.static_shared_bytes:
        raise LimitError("bytes of static shared memory per block", limits.static_shared_bytes, shared, where=where,
                         hint="use smaller tiles")
    for axis, own_extent, most in zip("xyz", launch.grid, limits.grid, strict=True):
        if isinstance(own_extent, int) and own_extent > most:
            raise LimitError(f"blocks along {axis}", most, own_extent, where=where, hint="use g.0 for this iname")


def _function_lines(lowered: Lowered, launch: Launch, function: Function, own: Signature, layout: Layout,
                    used: set[str]) -> Iterator[str]:
    places = Addresses({**own.places, **{a.name: Nested() for a in function.arrays if a.shape}})
    index = np.dtype(np.int64 if layout.index_bits == 64 else np.int32)
    emitter = Emitter(lowered, function, CUDA, places, index, _AXES, lambda _node, lines: lines,
                      lambda sync: _sync_lines(lowered, sync), index_types(lowered.kernel, index), used)
    yield f'extern "C" __global__ void __launch_bounds__({launch.threads})'
    yield from head_lines(launch.name, own.parameters, CUDA)
    yield "{"
    signs = outer_signs()
    body: list[str] = []
    for x, value in launch.coordinates.items():
        body.append(f"const {emitter.index} {x} = {emitter.text(value, signs)};")
        signs = signs.defining(x, value)
    body += [f"{'__shared__ ' if a.shared else ''}{array_declaration(a, CUDA)};" for a in function.arrays]
    if body:
        body.append("")
    body += list(emitter.lines(function.body, signs))
    yield from indented(body)
    yield "}"


def outer_signs() -> Signs:
    """Hardware axes count from 0, and so does everything that is known to."""
    return Signs(dict.fromkeys((*GRID, *BLOCK), 0))


def array_declaration(array: Array, dialect: Dialect, lead: str = "") -> str:
    """``float acc[4][4]``."""
    return f"{dialect.type_name(array.dtype)} {array.name}{lead}{''.join(f'[{e}]' for e in array.shape)}"


def _sync_lines(lowered: Lowered, sync: Sync) -> list[str]:
    comments = [f"// {reason}" for reason in sync.serves] if lowered.kernel.options.annotate else []
    return [*comments, "__syncwarp();" if sync.warp else "__syncthreads();"]

