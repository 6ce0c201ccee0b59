"""The host C target: an OpenMP loop over the blocks, and in each region a loop over the threads of a block.

Private data that are alive in several regions become an array over the threads; a barrier ends a region. A kernel
mapped to a GPU thus runs on any machine.
"""
from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Function, Region, Sync
from loopkit.errors import PreconditionError
from loopkit.instructions.atomic_update import has_openmp
from loopkit.instructions.text import InstructionTexts, indented
from loopkit.kernel.data import AddressSpace
from loopkit.lowering.lowered import BLOCK, GRID, Launch, Lowered
from loopkit.lowering.types import index_types
from loopkit.target.addresses import Addresses, Flat, Nested, declared
from loopkit.target.c.declarations import array_declaration, note_of
from loopkit.target.c.dialect import Dialect
from loopkit.target.code import GeneratedCode, GeneratedKernel, Layout, split_condition
from loopkit.target.emit import Emitter, outer_signs, wrapped
from loopkit.target.host.dialect import C
from loopkit.target.signature import Signature, head_lines, signature
from loopkit.target.text_target import TextTarget

_AXES = {axis: axis.replace(".", "") + "_" for axis in (*GRID, *BLOCK)}


@dataclass(frozen=True)
class CTarget(TextTarget):
    """C11 for the machine's own compiler, with the options of its compilation. All compilers get the same text.

    :ivar compiler: the compiler's command, ``"clang"`` or ``"gcc-13 -m32"``; ``None``: the first that works.
    :ivar fast: let the compiler vectorize loops and reorder their iterations, if it passes the trial with the flags for
        this. By default it leaves loops as they are written.
    :ivar options: more options for the compiler, passed on unchanged: ``("-funroll-loops",)``. Compiling a kernel
        rejects options with which the compiler fails the trial.

    >>> lk.CTarget(fast=True, options=("-funroll-loops",)).name
    'c'
    """

    name: ClassVar[str] = "c"

    compiler: str | None = None
    fast: bool = False
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """:raises PreconditionError: a field has an illegal value."""
        if not (self.compiler is None or (isinstance(self.compiler, str) and self.compiler.strip())):
            raise PreconditionError(f"'compiler' of a CTarget cannot be {self.compiler!r}.", subject="compiler",
                                    hint="give a command, such as 'gcc-13', or None to have one found")
        if not isinstance(self.fast, bool):
            raise PreconditionError(f"'fast' of a CTarget cannot be {self.fast!r}.", subject="fast",
                                    hint="give True or False")
        if not isinstance(self.options, tuple) or not all(isinstance(option, str) for option in self.options):
            raise PreconditionError(f"'options' of a CTarget cannot be {self.options!r}.", subject="options",
                                    hint="give a tuple of strings, one an option: options=('-funroll-loops',)")

    @property
    def dialect(self) -> Dialect:
        return C

    def emit(self, lowered: Lowered, layout: Layout, head: Sequence[str]) -> GeneratedCode:
        return _code(lowered, layout)


def _code(lowered: Lowered, layout: Layout) -> GeneratedCode:
    """The translation unit: one function per launch."""
    used: set[str] = set()
    functions: list[str] = []
    launches: list[GeneratedKernel] = []
    for launch, function in zip(lowered.launches, lowered.program.functions, strict=True):
        own = signature(lowered, launch, function, layout, C)
        used.update(d.name for d in (*(x.dtype for x in own.parameters), *(a.dtype for a in function.arrays)))
        functions.append("\n".join(wrapped([*_function_lines(lowered, launch, function, own, layout, used)])))
        launches.append(GeneratedKernel(launch.name, own.parameters, launch.grid, launch.block))
    preamble = C.preamble(used)
    parts = [*([preamble.rstrip()] if preamble else []), *functions]
    return GeneratedCode(CTarget.name, "\n\n".join(parts) + "\n", tuple(launches), "", layout,
                         lowered.program.host_order)


def _function_lines(lowered: Lowered, launch: Launch, function: Function, own: Signature, layout: Layout,
                    used: set[str]) -> Iterator[str]:
    blocks = [axis for axis in reversed(GRID) if axis in launch.extents]
    threads = [axis for axis in reversed(BLOCK) if axis in launch.extents]
    lead = "".join(f"[{_AXES[axis]}]" for axis in threads)
    places: dict[str, Flat | Nested] = dict(own.places)
    for a in function.arrays:
        if a.across_regions and not (a.shared or a.lanes):
            places[a.name] = declared(a, lead)
        elif a.shape:
            places[a.name] = declared(a)
    index = np.dtype(np.int64 if layout.index_bits == 64 else np.int32)

    def region(_node: Region, lines: list[str]) -> list[str]:
        return list(_thread_loops(emitter, launch, function, threads, lines))
    emitter = Emitter(lowered, function, C, Addresses(places, _AXES), index, {}, region,
                      lambda sync: _sync_lines(lowered, sync), index_types(launch.kernel, index), used,
                      _texts(lowered, launch))
    yield from head_lines(f"void {launch.name}", own.parameters, C)
    yield "{"
    yield from indented(list(_block_loops(emitter, launch, function, blocks, threads)))
    yield "}"


def _texts(lowered: Lowered, launch: Launch) -> InstructionTexts:
    """Updates are atomic if blocks run concurrently; everything else is emitted as plain code."""
    at_once = any(axis in launch.extents for axis in GRID) and not _blocks_in_order(lowered, launch)
    return C.instructions if at_once else {}


def _blocks_in_order(lowered: Lowered, launch: Launch) -> bool:
    """Must the blocks run in order? They wait for each other, or have an update that OpenMP lacks."""
    if launch.ticketed:
        return True
    for s in (bound.statement for bound in launch.statements.values()):
        storage = lowered.storages.get(s.written)
        if s.commutes and (storage is None or storage.space is AddressSpace.GLOBAL):
            dtype = lowered.kernel.array_args[s.written].dtype if storage is None else storage.dtype
            assert s.combine is not None
            assert dtype is not None
            if not has_openmp(s.combine, np.dtype(dtype)):
                return True
    return False


def _block_loops(emitter: Emitter, launch: Launch, function: Function, blocks: list[str], threads: list[str]
                 ) -> Iterator[str]:
    """Loops over the blocks around the body of one block."""
    signs = outer_signs(launch)
    body: list[str] = []
    for x, value in launch.coordinates.items():
        if x not in launch.ranges:
            body.append(f"const {emitter.index} {x} = {emitter.text(value, signs)};")
            signs = signs.defining(x, value)
    lanes = "".join(f"[{launch.extents[axis]}]" for axis in threads)
    for a in function.arrays:
        if a.shared or a.lanes:
            body.append(f"{array_declaration(a, C)};{note_of(a)}")
        elif a.across_regions:
            body.append(f"{array_declaration(a, C, lanes)};")
    for x, value in launch.coordinates.items():
        if x in launch.ranges:
            signs = signs.defining(x, value)
    if body:
        body.append("")
    body += list(emitter.lines(function.body, signs))
    if not blocks:
        yield from body
        return
    condition, extents = split_condition(launch.extents[axis] for axis in blocks)
    if condition is not None:
        yield f"if ({emitter.condition(_negated(condition), signs)})"
        yield "    return;"
    if not _blocks_in_order(emitter.lowered, launch):
        yield f"#pragma omp parallel for{f' collapse({len(blocks)})' if len(blocks) > 1 else ''}"
    lines = body
    for axis, extent in zip(reversed(blocks), reversed(extents), strict=True):
        name, end = _AXES[axis], emitter.text(extent, signs)
        if isinstance(extent, p.If):                    # a choice has lower precedence than a comparison
            end = f"({end})"
        lines = [f"for ({emitter.index} {name} = 0; {name} < {end}; ++{name}) {{", *indented(lines), "}"]
    yield from lines


def _negated(condition: Expression) -> Expression:
    match condition:
        case p.LogicalAnd(children=children):
            return p.LogicalOr(tuple(map(_negated, children)))
        case p.Comparison(left=a, operator="<=", right=b):
            return p.Comparison(b, "<", a)
        case p.Comparison(left=a, operator="<", right=b):
            return p.Comparison(b, "<=", a)
        case _:
            return p.LogicalNot(condition)


def _thread_loops(emitter: Emitter, launch: Launch, function: Function, threads: list[str], lines: list[str]
                  ) -> Iterator[str]:
    """Loops over the threads of a block around a region."""
    text = "\n".join(lines)
    own = [f"{array_declaration(a, C)};" for a in function.arrays
           if not (a.shared or a.lanes or a.across_regions) and _mentions(text, a.name)]
    signs = outer_signs(launch)
    heads = [f"const {emitter.index} {x} = {emitter.text(value, signs)};"
             for x, value in launch.coordinates.items() if x in launch.ranges and _mentions(text, x)]
    lines = [*heads, *own, *([""] if own else []), *lines]
    for axis in reversed(threads):
        name = _AXES[axis]
        lines = [f"for ({emitter.index} {name} = 0; {name} < {launch.extents[axis]}; ++{name}) {{",
                 *indented(lines), "}"]
    yield from lines


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def _sync_lines(lowered: Lowered, sync: Sync) -> list[str]:
    if not lowered.kernel.options.annotate or not sync.serves:
        return []
    return ["// barrier: the threads' loops end here", *(f"// {reason}" for reason in sync.serves)]
