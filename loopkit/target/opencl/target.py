"""The OpenCL target: one ``__kernel`` function per launch."""
from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_of
from loopkit.ast.nodes import Block, Call, If, Node, Scope, Sync
from loopkit.ast.value_ranges import ValueRanges
from loopkit.ast.walk import nodes_in, rewritten
from loopkit.errors import LimitError, PreconditionError
from loopkit.expr.mappers import subexpressions
from loopkit.instructions.base import OPENCL_MEMORIES
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.target import Machine
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.types import index_types
from loopkit.target.c.combining import combining_functions
from loopkit.target.code import (
    GeneratedCode,
    GeneratedKernel,
    Layout,
    TextTarget,
    assumed_by,
    assumption_lines,
    require_fields,
)
from loopkit.target.emit import Emitter, Hooks, outer_bounds, wrapped
from loopkit.target.memory import Addresses, FunctionText, Nested, array_declaration, function_lines
from loopkit.target.opencl.dialect import FUNCTIONS, OPENCL, RESERVED
from loopkit.target.opencl.limits import OpenCLLimits
from loopkit.target.scalar_functions import preambles

_AXES = {f"{level}.{axis}": f"{level}id({axis})" for level in "gl" for axis in range(3)}


@dataclass(frozen=True, repr=False)
class OpenCLTarget(TextTarget):
    """OpenCL C 1.2, with the options of its compilation.

    Threads are work-items, a block is a work-group, and shared memory is OpenCL's local memory. OpenCL C 1.2 has no
    warps: threads combine their values in shared memory, and asynchronous copies and matrix instructions become plain
    code.

    :ivar limits: those that a text must respect; ``None``: those of the device of each call, and none without a device.
    :ivar options: options for the compiler, passed on unchanged: ``("-cl-fast-relaxed-math",)``.

    >>> lk.OpenCLTarget(options=("-cl-fast-relaxed-math",)).name
    'opencl'
    """

    name: ClassVar[str] = "opencl"
    runner: ClassVar[str] = "loopkit.runtime.opencl.runner:OpenCLRunner"
    libraries: ClassVar[frozenset[str]] = frozenset({"pyopencl"})
    reserved: ClassVar[frozenset[str]] = RESERVED

    limits: OpenCLLimits | None = None
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """:raises PreconditionError: a field has an illegal value."""
        require_fields(self, "limits", self.limits is None or isinstance(self.limits, OpenCLLimits),
                       "give an OpenCLLimits of loopkit.target.opencl.limits, or None")

    @property
    def machine(self) -> Machine:
        # compilers for processors run the threads of a block in loops between barriers, and PoCL 3.0 makes wrong code
        # of barriers in both branches of a condition
        return Machine(warp=1, barriers_in_branches=False, roles=False)

    def function_name(self, launch: str) -> str:
        return f"{launch}_" if launch in RESERVED | FUNCTIONS else launch

    def emit(self, lowered: Lowered, layout: Layout, head: Sequence[str]) -> GeneratedCode:
        functions = [_OpenCLFunction(lowered, launch, function, layout, OPENCL, self.function_name(launch.name))
                     for launch, function in zip(lowered.launches, lowered.program.functions, strict=True)]
        for x in functions:
            x.require_capability()
        texts = ["\n".join(wrapped(list(x.lines()))) for x in functions]
        if self.limits is not None:
            for x, text in zip(functions, texts, strict=True):
                x.require_within(self.limits)
                _require_features(x.launch.name, _preamble(lowered, [text]) + text, self.limits)
        launches = tuple(GeneratedKernel(x.name, x.parameters, x.launch.grid, x.launch.block, x.shared_bytes)
                         for x in functions)
        assumed = assumed_by(lowered.program.functions) if layout.vectors else ()
        sizes = {name: np.dtype(a.dtype).itemsize for name, a in lowered.kernel.array_args.items()}
        comments = "\n".join(f"// {line}" for line in (*head, *assumption_lines(assumed, sizes)))
        texts = [*preambles(lowered, OPENCL.syntax.name), *texts]
        source = "\n\n".join([*filter(None, (comments, _preamble(lowered, texts).rstrip())), *texts]) + "\n"
        order = lowered.program.host_order
        named = order and rewritten(order, lambda node: replace(node, name=self.function_name(node.name))
                                    if isinstance(node, Call) else node)
        return GeneratedCode(self.name, source, launches, "", layout, named, assumed)


#: The class by which ``target="opencl"`` finds the target of this folder.
TARGET = OpenCLTarget


_END_OF_CONDITION = \
    "the condition ends with a barrier, for compilers that run the threads of a block in loops between barriers"


def _closed_by_barrier(node: Node) -> Node:
    """*node*; a condition around barriers also ends with one.

    PoCL 3.0 makes wrong code of a loop between the last barrier of a condition and its end: the loop may read outside
    of its arrays if it has no iteration for some threads.
    """
    inner = node.then.children if isinstance(node, If) else ()
    if not isinstance(node, If) or not any(map(_has_barrier, inner)) or _has_barrier(inner[-1]):
        return node
    end = Sync((_END_OF_CONDITION,))
    return replace(node, then=Block((*inner, end)))


def _has_barrier(node: Node) -> bool:
    return any(isinstance(x, Sync) and x.scope is not Scope.THREAD for x in nodes_in(node))


def _branch_condition(emitter: Emitter, node: If, bounds: ValueRanges) -> str:
    """The condition of *node*; without ``&&`` and ``||`` if barriers are in it.

    These operators are branches of their own. PoCL 3.0, which runs the threads of a block in loops between barriers,
    makes wrong code of barriers behind several branches.
    """
    if not any(isinstance(x, Sync) for x in nodes_in(node.then if node.otherwise is None else Block(
            (node.then, node.otherwise)))):
        return emitter.condition(node.condition, bounds)

    def text(e: Expression) -> str:
        match e:
            case p.LogicalAnd(children=children) | p.LogicalOr(children=children) if not subscripts:
                operator = " & " if isinstance(e, p.LogicalAnd) else " | "
                return operator.join(f"({text(x)})" for x in children)
            case _:
                return emitter.condition(e, bounds)
    # an element may exist only where the conditions before it hold
    subscripts = any(isinstance(x, p.Subscript) for x in subexpressions(node.condition))
    return text(node.condition)


def _require_features(launch: str, text: str, limits: OpenCLLimits) -> None:
    """:raises PreconditionError: *text* needs what the device does not have."""
    text = re.sub(r"//.*", "", text)
    for has, pattern, noun, way_out in (
            (limits.float64, r"\bdouble\d*\b", "float64", "use float32, or another device"),
            (limits.atomics64, r"\batom_\w+", "atomic updates of 64 bits", "use 32 bits, or another device")):
        if not has and re.search(pattern, text):
            raise PreconditionError(f"'{launch}' needs {noun}, which {limits.name} does not have.", subject=launch,
                                    hint=way_out)


def _preamble(lowered: Lowered, texts: Sequence[str]) -> str:
    return OPENCL.preamble("\n".join(texts), combining_functions(lowered.kernel, OPENCL))


@dataclass(frozen=True)
class _OpenCLFunction(FunctionText):
    name: str

    @property
    def shared_bytes(self) -> int:
        return sum(prod(a.shape) * a.dtype.itemsize for a in self.function.arrays if a.shared)

    def require_within(self, limits: OpenCLLimits) -> None:
        """:raises LimitError: the launch needs more than the device has."""
        launch = self.launch
        for what, most, own, way_out in (
                ("threads per block", limits.threads, launch.threads, "split the l.* inames by smaller lengths"),
                *((f"threads along {x}", most, own, "use another l.* axis")
                  for x, own, most in zip("xyz", launch.block, limits.block, strict=True)),
                ("bytes of shared memory per block", limits.shared_bytes, self.shared_bytes, "use smaller tiles")):
            if isinstance(own, int) and own > most:
                raise LimitError(what, most, own, where=f"'{launch.name}' on {limits.name}", hint=way_out)

    def require_capability(self) -> None:
        """:raises PreconditionError: a statement's instruction does not support its memory, or is not in OpenCL."""
        deque(self.memory_instructions(), maxlen=0)
        if self.function.ticketed:
            raise PreconditionError(
                f"'{self.launch.name}' needs inter-block flags, which OpenCL does not have: it does not promise that "
                "a work-group runs while another one waits for it.", subject=self.launch.name,
                hint="leave out add_block_flags: a dependence across blocks then ends a launch")

    @property
    def barrier(self) -> str:
        """A barrier after which the threads of a block see their writes to each array that may be read again."""
        accesses = [a for bound in self.launch.statements.values()
                    for a in accesses_of(self.launch.kernel, bound.statement)]
        number = Counter(a.array for a in accesses)
        is_global = any(a.is_write and number[a.array] > 1 and a.array in self.places for a in accesses)
        return f"barrier(CLK_LOCAL_MEM_FENCE{' | CLK_GLOBAL_MEM_FENCE' if is_global else ''});"

    def lines(self) -> Iterator[str]:
        block = self.launch.block
        fixed = f" __attribute__((reqd_work_group_size({', '.join(map(str, block))})))"
        yield f"__kernel{fixed if all(isinstance(extent, int) for extent in block) else ''}"
        yield from function_lines(f"void {self.name}", self.parameters, self._body(), OPENCL)

    def _body(self) -> list[str]:
        launch, function, barrier = self.launch, self.function, self.barrier
        assert not any(a.thread_axes for a in function.arrays)
        places = {a.name: Nested("", a) for a in function.arrays if a.shape or a.shared}

        def sync(node: Sync, comments: list[str], own: list[str]) -> list[str]:
            return [*comments, *own, *([] if node.scope is Scope.THREAD else [barrier])]
        emitter = Emitter(self.lowered.kernel, replace(OPENCL, instructions=self.instruction_texts),
                          Addresses({**self.places, **places}), self.layout.index,
                          index_types(launch.kernel, self.layout.index), Hooks(sync=sync, condition=_branch_condition),
                          _AXES)
        body, bounds = list[str](), outer_bounds(launch)
        for x, value in launch.mapping.coordinates.items():
            body.append(f"const {emitter.index} {x} = {emitter.text(value, bounds)};")
            bounds = bounds.defining(x, value)
        for a in function.arrays:
            align = f"__attribute__((aligned({self.alignments[a.name]}))) " if a.name in self.alignments else ""
            memory = OPENCL_MEMORIES[AddressSpace.SHARED if a.shared else AddressSpace.PRIVATE]
            body.append(f"{memory}{align}{array_declaration(a, OPENCL)}")
        inner = list(emitter.lines(rewritten(function.body, _closed_by_barrier), bounds))
        return [*body, *([""] if body else []), *inner]
