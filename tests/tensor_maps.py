"""Tensor maps without a GPU: a driver that notes what it encodes, and functions with instructions that use a map."""
from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

import loopkit as lk
from loopkit.ast.nodes import Assign, Instruction, Node
from loopkit.ast.tensor_maps import TensorMap
from loopkit.ast.value_ranges import ValueRanges
from loopkit.ast.walk import rewritten
from loopkit.instructions.base import InstructionText, Printer
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lowered_once
from loopkit.target.code import GeneratedCode, Layout, resolve_text_target
from loopkit.target.cuda.dialect import CUDA

INVALID_VALUE = 1


@dataclass(frozen=True)
class MapUse(Instruction):
    """An assignment whose text names a map and assigns as usual; each text has it."""

    noun: ClassVar[str] = "a use of a map"
    name: str

    @property
    def tensor_maps(self) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True)
class OptionalMapUse(MapUse):
    """One that a text for other arrays does without."""


def _used(printer: Printer, node: Assign, use: MapUse, bounds: ValueRanges) -> Iterator[str]:
    yield f'asm volatile("prefetch.tensormap [%0];" :: "l"(&{use.name}) : "memory");'
    yield printer.plain(node, bounds)


def allow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give CUDA the texts of both instructions."""
    monkeypatch.setitem(CUDA.instructions, MapUse, InstructionText(assignment=_used))            # type: ignore[arg-type]
    monkeypatch.setitem(CUDA.instructions, OptionalMapUse,                                       # type: ignore[arg-type]
                        InstructionText(assignment=_used, assumes_layout=True))


def mapped(knl: lk.LoopKernel, *maps: TensorMap, use: type[MapUse] = MapUse) -> Lowered:
    """The lowered *knl*, whose functions have *maps* where they access the arrays, and use them in all assignments."""
    low = lowered_once(knl)

    def change(node: Node) -> Node:
        return replace(node, instructions=tuple(use(m.name) for m in maps if m.array in str(node))) \
            if isinstance(node, Assign) else node
    functions = tuple(replace(f, tensor_maps=maps, body=rewritten(f.body, change)) for f in low.program.functions)
    return replace(low, program=replace(low.program, functions=functions))


def text(low: Lowered, arch: str = "sm_90", layout: Layout | None = None) -> GeneratedCode:
    return replace(lk.CudaTarget(arch).emit(low, layout or Layout.declared(low.kernel), ()), kernel=low.kernel)


class Encoder:
    """``cuTensorMapEncodeTiled``: refuses what the driver refuses, and writes the address and its number of calls.

    :ivar calls: the arguments of each call but the place, as numbers.
    """

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def __call__(self, place: Any, dtype: Any, rank: Any, address: Any, extents: Any, strides: Any, box: Any,
                 steps: Any, interleave: Any, swizzle: Any, promotion: Any, fill: Any) -> int:
        n = rank.value
        self.calls.append({
            "dtype": dtype.value, "address": address.value, "extents": extents[:n], "strides": strides[:n - 1],
            "box": box[:n], "steps": steps[:n], "interleave": interleave.value, "swizzle": swizzle.value,
            "promotion": promotion.value, "fill": fill.value})
        assert place.value % 64 == 0
        ctypes.memset(place.value, 0xBB, 128)
        if address.value % 16 or any(s % 16 or not 0 < s < 2**40 for s in strides[:n - 1]) or 0 in extents[:n]:
            return INVALID_VALUE
        ctypes.memset(place.value, 0xAA, 128)
        ctypes.memmove(place.value, struct.pack("QQ", address.value, len(self.calls)), 16)
        return 0


def encoded(content: bytes) -> tuple[int, int]:
    """The address in a map of an :class:`Encoder`, and the number of its call."""
    assert content[16:] == b"\xaa"*112
    address, number = struct.unpack("QQ", content[:16])
    return address, number


Generate = Callable[..., GeneratedCode]


def generating(plain: Generate, *maps: TensorMap, use: type[MapUse] = MapUse) -> Generate:
    """As *plain*, but texts in CUDA have *maps*."""
    def generate(knl: lk.LoopKernel, target: Any = "c", layout: Layout | None = None, **more: Any) -> GeneratedCode:
        target = resolve_text_target(target)
        if not isinstance(target, lk.CudaTarget):
            return plain(knl, target=target, layout=layout, **more)
        return text(mapped(knl, *maps, use=use), target.architecture, layout)
    return generate
