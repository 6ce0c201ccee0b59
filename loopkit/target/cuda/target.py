"""The CUDA target: one ``__global__`` function per launch, and a function of the host that launches them."""
from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from math import prod
from typing import ClassVar

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.arrays import Array
from loopkit.ast.nodes import Block, Function, Region, Scope, Sync, Tiles
from loopkit.ast.tensor_maps import MappedArray, requirements
from loopkit.ast.value_ranges import ValueRanges
from loopkit.ast.walk import nodes_in
from loopkit.errors import LimitError, PreconditionError
from loopkit.expr.mappers import variables
from loopkit.expr.nodes import to_text
from loopkit.instructions.base import WIDEST, MemoryInstruction, indented
from loopkit.instructions.block_flag import TICKET_BYTES
from loopkit.instructions.shuffle import comments_of_shuffles, lanes_of
from loopkit.instructions.table import CUDA_TEXTS_IN_CLUSTERS
from loopkit.lowering.lowered import GRID, Launch, Lowered
from loopkit.lowering.types import index_types
from loopkit.target.c.combining import combining_functions
from loopkit.target.code import (
    GeneratedCode,
    GeneratedKernel,
    Layout,
    MapParameter,
    TextTarget,
    assumed_by,
    assumption_lines,
    require_fields,
)
from loopkit.target.cuda.dialect import CUDA
from loopkit.target.cuda.host_text import host_text
from loopkit.target.cuda.limits import DEVICE_LIMITS, DeviceLimits
from loopkit.target.cuda.tensor_maps import CAPABILITY
from loopkit.target.emit import Emitter, Hooks, outer_bounds, wrapped
from loopkit.target.functions import FunctionTexts, LaunchCalls, function_texts
from loopkit.target.memory import (
    Addresses,
    FunctionText,
    Nested,
    array_declaration,
    count_of,
    extents_text,
    function_lines,
)
from loopkit.target.scalar_functions import preambles

_AXES = {"g.0": "blockIdx.x", "g.1": "blockIdx.y", "g.2": "blockIdx.z",
         "l.0": "threadIdx.x", "l.1": "threadIdx.y", "l.2": "threadIdx.z"}
_BARRIERS = {Scope.THREAD: (), Scope.WARP: ("__syncwarp();",), Scope.BLOCK: ("__syncthreads();",),
             Scope.CLUSTER: ("cluster_barrier();",)}

#: The C++ standards for compiling generated text.
STANDARDS = ("c++11", "c++14", "c++17", "c++20")

#: The fewest registers; ptxas raises any smaller number to it.
_FEWEST_REGISTERS = 16

#: The name of the dynamic shared memory; no name of a user equals it (:mod:`loopkit.language.names`).
_DYNAMIC = "shared_memory_"


@dataclass(frozen=True, repr=False)
class CudaTarget(TextTarget):
    """CUDA C++ for one architecture, with the options of its compilation.

    :ivar arch: ``"sm_80"``, ``"sm_90"``, ``"sm_90a"``, ...; code generation checks its limits. ``None``: that of the
        GPU of each call; without a GPU sm_90.
    :ivar std: the C++ standard: ``"c++11"``, ``"c++14"``, ``"c++17"`` or ``"c++20"``.
    :ivar fast_math: trade accuracy for speed in divisions, square roots and functions, and flush subnormal numbers
        to zero (``--use_fast_math``).
    :ivar line_info: keep the lines of the text in the compiled code, for profilers (``-lineinfo``).
    :ivar max_registers: the most registers per thread, from 16 to 255; the rest is spilled. The registers of a block
        must have room for it. ``set_options(knl, min_blocks=...)`` requests a number of blocks instead.
    :ivar options: more options for the compiler, passed on unchanged: ``("-fmad=false",)``.

    >>> lk.CudaTarget(arch="sm_80", max_registers=64, options=("-fmad=false",)).limits.shared_bytes
    166912
    """

    name: ClassVar[str] = "cuda"
    runner: ClassVar[str] = "loopkit.runtime.cuda.runner:CudaRunner"

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
        most = self.limits.thread_registers
        is_number = self.max_registers is None or (
            type(self.max_registers) is int and _FEWEST_REGISTERS <= self.max_registers <= most)
        require_fields(self, "max_registers", is_number,
                       f"give a number from {_FEWEST_REGISTERS} to {most}, or None for no limit")

    @property
    def architecture(self) -> str:
        """*arch*, or that of a text without a GPU."""
        return "sm_90" if self.arch is None else self.arch

    @property
    def limits(self) -> DeviceLimits:
        """The limits of the architecture."""
        return DEVICE_LIMITS[self.architecture]

    def emit(self, lowered: Lowered, layout: Layout, head: Sequence[str]) -> GeneratedCode:
        called = function_texts(lowered, "static __device__")
        most = self.max_registers or 0
        functions = [_CudaFunction(lowered, launch, function, layout, CUDA, called, self.limits, most)
                     for launch, function in zip(lowered.launches, lowered.program.functions, strict=True)]
        for x in functions:
            x.require_within()
            x.require_capability()
            x.require_tensor_maps()
        texts = ["\n".join(wrapped(list(x.lines()))) for x in functions]
        texts = [*("\n".join(wrapped(list(lines))) for lines in called.texts()), *texts]
        launches = tuple(GeneratedKernel(x.launch.name, x.parameters, x.launch.started, x.launch.block,
                                         x.shared.total, x.shared.dynamic_bytes) for x in functions)
        mapped = _described_arrays(functions)
        assumed = (*(assumed_by(lowered.program.functions) if layout.vectors else ()), *mapped)
        plain = _described_arrays(replace(x, layout=replace(layout, vectors=False)) for x in functions)
        sizes = {name: np.dtype(a.dtype).itemsize for name, a in lowered.kernel.array_args.items()}
        comments = "\n".join(f"// {line}" for line in (*head, *assumption_lines(assumed, sizes, plain)))
        texts = [*preambles(lowered, CUDA.syntax.name), *texts]
        preamble = CUDA.preamble("\n".join(texts), combining_functions(lowered.kernel, CUDA)).rstrip()
        source = "\n\n".join([*filter(None, (comments, preamble)), *texts]) + "\n"
        memory = {m.array: x.places[m.array] for x in functions for m in x.tensor_maps}
        return GeneratedCode(self.name, source, launches, host_text(lowered, launches, layout, memory), layout,
                             lowered.program.host_order, assumed)


#: The class by which ``target="cuda"`` finds the target of this folder.
TARGET = CudaTarget


def _require_known(what: str, value: object, known: Collection[str]) -> None:
    if not isinstance(value, str) or value not in known:
        raise PreconditionError(f"{value!r} is not a known {what}.", subject=str(value),
                                hint=f"known are {', '.join(known)}")


@dataclass(frozen=True)
class _CudaFunction(FunctionText):
    called: FunctionTexts
    limits: DeviceLimits
    max_registers: int

    @cached_property
    def shared(self) -> _SharedMemory:
        offsets: dict[str, int] = {}
        end = total = 0
        arrays = [a for a in self.function.arrays if a.shared]
        for array in sorted(arrays, key=lambda a: -max(self.alignments.get(a.name, 0), WIDEST)):
            own = max(self.alignments.get(array.name, 0), WIDEST)
            offsets[array.name] = -(-end // own) * own
            size = prod(array.shape) * array.dtype.itemsize
            end = offsets[array.name] + size
            total += size
        others = TICKET_BYTES if self.function.ticketed else 0
        dynamic = end + others > self.limits.static_shared_bytes
        return _SharedMemory(offsets, self.alignments, (end if dynamic else total) + others, end if dynamic else 0)

    @property
    def threads(self) -> int:
        """The threads of a block, or the most that a block can have if their number depends on sizes."""
        return self.launch.threads if isinstance(self.launch.threads, int) else self.limits.threads

    # Limits

    def require_within(self) -> None:
        """:raises LimitError: the launch needs more than the device has."""
        limits, launch, total = self.limits, self.launch, self.shared.total
        asked = self.lowered.kernel.options.min_blocks
        blocks = asked if isinstance(asked, int) else 0
        options, hint = f" with min_blocks={asked}", "set_options(knl, min_blocks=...) with less, or use smaller blocks"
        checks: list[tuple[str, int, Expression, str, str]] = [
            ("threads per block", limits.threads, self.threads, "", "split the l.* inames by smaller lengths"),
            *((f"threads along {x}", most, own, "", "use another l.* axis")
              for x, own, most in zip("xyz", launch.block, limits.block, strict=True)),
            ("bytes of shared memory per block", limits.shared_bytes, total, "", "use smaller tiles"),
            ("bytes of constant memory", limits.constant_bytes, sum(
                prod(a.shape)*a.dtype.itemsize for a in self.function.arrays if a.initializer), "",
             "pass large arrays as arguments"),
            *((f"blocks along {x}", most, own, "", "use g.0 for this iname")
              for x, own, most in zip("xyz", launch.grid, limits.grid, strict=True)),
            ("blocks per multiprocessor", limits.resident_blocks, blocks, options, hint),
            ("threads per multiprocessor", limits.resident_threads,
             blocks * limits.warps(self.threads) * limits.warp, options, hint),
            ("registers per thread", limits.block_thread_registers(self.threads), self.max_registers,
             f" with max_registers={self.max_registers} in blocks of {self.threads} threads",
             "CudaTarget(max_registers=...) with less, or use smaller blocks"),
            ("bytes of shared memory per multiprocessor", limits.resident_shared_bytes,
             blocks * limits.allocated_shared_bytes(total), options, hint)]
        for what, most, own, where, way_out in checks:
            if isinstance(own, int) and own > most:
                raise LimitError(what, most, own, where=f"'{launch.name}' on {limits.arch}{where}", hint=way_out)

    def require_capability(self) -> None:
        """:raises PreconditionError: a statement's instruction does not support its memory, or the device lacks it."""
        together = ((bound.statement, i) for bound in self.launch.statements.values()
                    for i in bound.statement.instructions if i.scope is not Scope.THREAD)
        for s, i in (*self.memory_instructions(), *together):
            if self.limits.capability < i.capability or i.only_on not in ("", self.limits.arch):
                way_out = i.alternative if isinstance(i, MemoryInstruction) else ""
                hint = f"target=lk.CudaTarget({i.only_on!r})" if i.only_on else \
                    f"target sm_{i.capability} or later{way_out}"
                raise PreconditionError(f"'{s.id}' needs {i.noun}, which {self.limits.arch} does not have.",
                                        subject=s.id, hint=hint)

    def require_tensor_maps(self) -> None:
        """:raises PreconditionError: the device or TMA lacks a copy of the function, or a shape is not known."""
        for x in self.parameters:
            if not isinstance(x, MapParameter):
                continue
            m, memory = x.tensor_map, self.places[x.tensor_map.array]
            if self.limits.capability < CAPABILITY:
                raise PreconditionError(f"'{m.array}' is copied by TMA, which {self.limits.arch} does not have.",
                                        subject=m.array, hint=f"target sm_{CAPABILITY} or later")
            requirements(m, x.dtype, len(memory.shape))
            if None in memory.shape:
                raise PreconditionError(f"'{m.array}' is copied by TMA, and its first extent depends on data.",
                                        subject=m.array, hint=f"declare the shape of '{m.array}'")

    def _blocks(self) -> int:
        """The number of blocks on a multiprocessor: the user's, else as many as fit, ignoring registers."""
        asked, limits = self.lowered.kernel.options.min_blocks, self.limits
        if self.launch.registers is not None:
            return 1                        # the threads of a block share all registers
        return asked if isinstance(asked, int) else min(
            limits.resident_blocks, limits.resident_threads // (limits.warps(self.threads) * limits.warp),
            limits.resident_shared_bytes // max(limits.allocated_shared_bytes(self.shared.total), 1))

    def lines(self) -> Iterator[str]:
        launch = self.launch
        blocks = self._blocks()
        bounds = f"{self.threads}, {blocks}" if blocks else str(self.threads)
        if self.lowered.kernel.options.annotate:
            yield from self._launch_comments()
        cluster = f"__cluster_dims__({self.function.cluster}, 1, 1) " if self.function.cluster > 1 else ""
        yield f'extern "C" __global__ void {cluster}__launch_bounds__({bounds})'
        yield from function_lines(launch.name, self.parameters, self._body(), CUDA)

    def _launch_comments(self) -> Iterator[str]:
        """The parts of a launch that the text of the function does not have."""
        for m in self.tensor_maps:
            # extents are not negative: the floor division is that of C
            shape = "".join(f"[{to_text(e)}]" for e in self.lowered.shapes[m.array] if e is not None).replace("//", "/")
            apart = f", {' x '.join(map(str, m.steps))} apart," if m.steps else ""
            ends = "" if m.open_axis is None else f", each up to an end of its own along axis {m.open_axis}"
            yield f"// {m.name}: boxes of {' x '.join(map(str, m.box))} elements{apart} of {m.array}{shape}{ends}"
        if self.shared.dynamic_bytes:
            yield f"// the launch gives {self.shared.dynamic_bytes} bytes of dynamic shared memory"

    def _body(self) -> list[str]:
        launch, function = self.launch, self.function
        number = launch.kernel.fresh_name("tile" if launch.persistent else "block")
        lanes = lanes_of(launch.kernel, function, CUDA.type_name)
        arrays_at = {a.name: Nested("", a, a.thread_axes) for a in function.arrays if a.shape}
        shuffled = comments_of_shuffles(function)
        emitter = Emitter(
            self.lowered.kernel, replace(CUDA, instructions={
                **self.instruction_texts, **(CUDA_TEXTS_IN_CLUSTERS if function.cluster > 1 else {})}),
            Addresses({**self.places, **arrays_at}), self.layout.index,
            {**index_types(launch.kernel, self.layout.index), **lanes.types},
            Hooks(list, lambda sync, comments, own: [*comments, *own, *_barrier_of(sync)], lanes.shuffle,
                  tiles=lambda emitter, node, bounds: _in_each_tile(node, number, launch, emitter, bounds, places),
                  comment=lambda statement: shuffled.get(statement, statement)),
            {**_AXES, **_ticket_coordinates(number, launch)} if function.ticketed else
            {**_AXES, **_tile_coordinates(number, launch)} if launch.persistent else _AXES,
            LaunchCalls.of(self.called, function, barriers=True))
        body, bounds = list[str](), outer_bounds(launch)
        if function.ticketed:
            body.append(f"const unsigned int {number} = take_ticket({count_of(launch)});")
        places, uniform = dict[str, str](), _of_warps(launch, function)
        for x, value in launch.mapping.coordinates.items():
            is_of_tile = launch.persistent and isinstance(value, p.Variable) and value.name in GRID
            text = f"{'(int)'*is_of_tile}{emitter.text(value, bounds)}"
            # the compiler then keeps what depends on it in the registers of the warp
            end = ";  // the same in a warp" if x in uniform else ";"
            places[x] = f"const {emitter.index} {x} = " + (
                f"__shfl_sync(0xffffffff, {text}, 0)" if x in uniform else text) + end
            bounds = bounds.defining(x, value)
        nodes = function.body.children
        once = [*takewhile(lambda node: isinstance(node, Sync), nodes)] if launch.persistent else []
        start, inner = ([*emitter.lines(Block(tuple(own)), bounds)] for own in (once, nodes[len(once):]))
        # an instruction finds the lanes of its statement without their inames
        body += _lines_for(places, [x for x in places if not (launch.persistent and x in launch.mapping.block_inames)],
                           inner)
        inner = [*start, "", *_grid_of_tiles(launch, emitter), *inner] if launch.persistent else inner
        assert emitter.calls is not None
        arrays = [a for a in function.arrays if a.name not in emitter.calls.inside and a.name not in lanes.arrays]
        body += [*self.shared.declarations(arrays), *lanes.declarations()]
        body += ["const LoadEvictLast load_evict_last;"] if "load_evict_last" in "".join(inner) else []
        return [*body, *([""] if body else []), *inner]


def _of_warps(launch: Launch, function: Function) -> set[str]:
    """The coordinates that the operands of warpgroups depend on, and that all lanes of a warp share."""
    used = {x for node in nodes_in(function.body) if isinstance(node, Region) and node.instruction is not None
            and node.instruction.scope is Scope.WARPGROUP for e in node.instruction.operands for x in variables(e)}
    warp = launch.machine.warp
    return {x for x, value in launch.mapping.coordinates.items() if x in used and isinstance(value, p.FloorDiv)
            and value.numerator == p.Variable("l.0") and isinstance(value.denominator, int)
            and value.denominator % warp == 0}


def _lines_for(places: Mapping[str, str], names: Iterable[str], inner: Sequence[str]) -> list[str]:
    """The lines that define those of *names* which *inner* mentions."""
    mentioned = set(re.findall(r"\w+", "\n".join(inner)))
    return [places[x] for x in names if x in mentioned]


def _barrier_of(sync: Sync) -> Iterable[str]:
    """The lines by which the threads of *sync* wait for each other."""
    return (f"barrier_of_consumers<{sync.threads}>();",) if sync.threads else _BARRIERS[sync.scope]


def _ticket_coordinates(number: str, launch: Launch) -> Mapping[str, str]:
    """The coordinate of the block with this *number* along each axis of the grid, as text."""
    return {"g.0": number, "g.1": "0", "g.2": "0"} if not {"g.1", "g.2"} & launch.mapping.extents.keys() else {
        "g.0": f"({number} % gridDim.x)", "g.1": f"({number} / gridDim.x % gridDim.y)",
        "g.2": f"({number} / gridDim.x / gridDim.y)"}


def _tile_coordinates(number: str, launch: Launch) -> Mapping[str, str]:
    """The coordinate along each axis of the place of the grid with this *number*, as text."""
    if not {"g.1", "g.2"} & launch.mapping.extents.keys():
        return {"g.0": number}
    along_x, along_y, _ = _tiles_along(launch)
    if launch.group:
        _, across, rest, column = _in_group(launch)
        return {"g.0": f"({column} % {along_x})", "g.1": f"({column} / {along_x})", "g.2": f"({rest} / {across})"}
    rest = f"{number} / {along_x}"
    return {"g.0": f"({number} % {along_x})", **({"g.1": f"({rest})"} if "g.2" not in launch.mapping.extents else
            {"g.1": f"({rest} % {along_y})", "g.2": f"({rest} / {along_y})"})}


def _tiles_along(launch: Launch) -> tuple[str, str, str]:
    """The names of the extents of the grid along its axes."""
    along_x, along_y, along_z = (launch.kernel.fresh_name(f"tiles_along_{x}") for x in "xyz")
    return along_x, along_y, along_z


def _in_group(launch: Launch) -> tuple[str, str, str, str]:
    """The names of the first column of a group, the number of its columns, the place in it, and the column of that."""
    first, across, rest, column = (launch.kernel.fresh_name(x) for x in (
        "first_column", "columns", "place_in_group", "column"))
    return first, across, rest, column


def _grid_of_tiles(launch: Launch, emitter: Emitter) -> Iterator[str]:
    """The lines before the loops over the places of a block: their number, and extents that give coordinates."""
    extents = {axis: emitter.text(launch.mapping.extents[axis], outer_bounds(launch)) for axis in GRID
               if axis in launch.mapping.extents}
    for axis, name in zip(GRID, _tiles_along(launch) if len(extents) > 1 else (), strict=False):
        if axis in extents and (axis == "g.0" or "g.2" in extents) and (axis != "g.2" or launch.group):
            yield f"const long long {name} = {extents[axis]};"
            extents[axis] = name
    count = " * ".join(extents.values() if len(extents) == 1 else (
        e if e.isidentifier() else f"({e})" for e in extents.values())) or "1"
    yield f"const long long {launch.kernel.fresh_name('tiles')} = {count};"
    if emitter.annotate:
        order = f"along z for each {launch.group} along x and y" if launch.group else "along x first"
        yield (f"// a tile is a place of the grid, {order}; "
               f"each block runs one in {launch.persistent}, in serpentine order")


def _lines_of_group(number: str, launch: Launch) -> Iterator[str]:
    """The lines that find the column of the tile *number*."""
    if launch.group:
        (along_x, along_y, along_z), (first, across, rest, column) = _tiles_along(launch), _in_group(launch)
        yield f"const long long {first} = {number} / ({launch.group} * {along_z}) * {launch.group};"
        yield f"const long long {across} = min({launch.group}LL, {along_x} * {along_y} - {first});"
        yield f"const long long {rest} = {number} - {first} * {along_z};"
        yield f"const long long {column} = {first} + {rest} % {across};"


def _in_each_tile(tiles: Tiles, number: str, launch: Launch, emitter: Emitter, bounds: ValueRanges,
                  places: Mapping[str, str]) -> Iterator[str]:
    """The loop of a role over the places of its block. The lines *places* define coordinates."""
    inner, count = [*emitter.lines(tiles.body, bounds)], launch.kernel.fresh_name("tiles")
    own = [*_lines_of_group(number, launch), *_lines_for(places, launch.mapping.block_inames, inner)]
    # the order of the blocks turns after each round
    step = f"{2*tiles.blocks - 1} - 2 * ({number} % {tiles.blocks})"
    yield f"for (long long {number} = blockIdx.x; {number} < {count}; {number} += {step}) {{"
    yield from indented([*own, *([""] if own else []), *inner])
    yield "}"


def _described_arrays(functions: Iterable[_CudaFunction]) -> tuple[MappedArray, ...]:
    """The assumptions of the tensor maps of *functions*, each once."""
    return tuple(dict.fromkeys(MappedArray(m.array) for x in functions for m in x.tensor_maps))


# Shared memory of a block: declared arrays, or one dynamic piece with the arrays in it

@dataclass(frozen=True)
class _SharedMemory:
    """The layout of a function's shared arrays.

    :ivar offsets: their offsets in bytes, by name.
    :ivar alignments: multiples of bytes at which some of them begin.
    :ivar total: bytes of all of them, and of those that are declared elsewhere.
    :ivar dynamic_bytes: the bytes that the launch must request, because a function cannot declare this much; else 0.
    """

    offsets: Mapping[str, int]
    alignments: Mapping[str, int]
    total: int
    dynamic_bytes: int

    def declarations(self, arrays: Sequence[Array]) -> Iterator[str]:
        """The lines that declare *arrays*, shared or not."""
        first = next((a for a in arrays if a.shared), None)
        for array in arrays:
            if array.shared and self.dynamic_bytes:
                offset, type_name, extents = self.offsets[array.name], CUDA.type_name(array.dtype), extents_text(array)
                if array is first:
                    most = max((WIDEST, *self.alignments.values()))
                    yield f"extern __shared__ __align__({most}) unsigned char {_DYNAMIC}[];"
                yield from [f"// {array.note}"] if array.note else ()
                place = f"{_DYNAMIC} + {offset}" if offset else _DYNAMIC
                own, pointer = (f"(&{array.name}){extents}", f"(*){extents}") if extents else (f"&{array.name}", "*")
                yield f"{type_name} {own} = *reinterpret_cast<{type_name} {pointer}>({place});"
            else:
                align = f"__align__({self.alignments[array.name]}) " if array.name in self.alignments else ""
                # instructions take words from fragments
                start = f"__shared__ {align}" if array.shared else "alignas(4) " \
                    if (array.thread_axes or align) and array.dtype.itemsize < 4 else ""
                registers = array.shape[:len(array.shape) - array.thread_axes]
                yield start + array_declaration(replace(array, shape=registers), CUDA)
