"""The lowered kernel as data: its launches, and the results of the stages, which verification checks."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import mul
from typing import Literal

from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_by_array, assumptions_on
from loopkit.analysis.shapes import Shape
from loopkit.ast.assumed import DivisibleSize
from loopkit.ast.nodes import Block, Program
from loopkit.ast.text import block_text, program_text
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import variables
from loopkit.instructions.role_registers import registers_of_roles
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.printing import kernel_text
from loopkit.kernel.statement import Statement
from loopkit.kernel.target import Machine
from loopkit.kernel.tree import Barrier, Tree, leaves
from loopkit.lowering.scheduled import Schedule, tree_lines
from loopkit.lowering.stored import Storage
from loopkit.poly.affine import NotAffineError, add, multiply, remainder, subtract
from loopkit.poly.limits import bounded
from loopkit.poly.sets import InstanceSet, Set, bounded_by, param_range, params_of
from loopkit.shown import Shown

GRID = ("g.0", "g.1", "g.2")
BLOCK = ("l.0", "l.1", "l.2")


@dataclass(frozen=True)
class PartialVectors:
    """The elements *low* to *high* of a statement's vectors along *iname*, some of which *domain* lacks.

    :ivar vectors: the places at which *domain* has at least one element.
    """

    iname: str
    low: int
    high: int
    domain: InstanceSet
    vectors: InstanceSet

    def are_partial(self, given: Sequence[DivisibleSize]) -> bool:
        """Does *domain* lack an element somewhere, even if *given* holds?"""
        elements = self.vectors.onto(self.domain.inames).where(*bounded_by(self.iname, self.low, self.high + 1))
        return not elements.subtract(self.domain).where(*_conditions(given)).is_empty()

    def lie_in(self, extent: Expression, first: Expression, last: Expression, where: Set,
               given: Sequence[DivisibleSize] = ()) -> bool:
        """Is every vector from the subscript *first* to *last* in an axis of *extent* elements, if these hold?"""
        with suppress(NotAffineError):
            return all(self.places(where).where(*_conditions(given), beyond).is_empty()
                       for beyond in (("<", first), (">=", subtract(last, extent))))
        return False

    def places(self, where: Set) -> InstanceSet:
        """The vectors at which *where* holds, as parameters."""
        return InstanceSet((), params_of(self.vectors).intersect(where).from_params())


def _conditions(given: Sequence[DivisibleSize]) -> list[tuple[str, Expression]]:
    return [("==", remainder(g.size, g.divisor)) for g in given]


@dataclass(frozen=True)
class BoundStatement:
    """A statement at its place in a launch.

    :ivar domain: the instances: dimensions are the sequential loops around it, outermost first; its hardware
        inames, and the axes on which only coordinate 0 runs it, are parameters.
    :ivar hardware: its inames on ``g`` and ``l`` axes.
    :ivar auto: its ``l.auto`` inames, distributed over the threads of the block.
    :ivar alone_on: axes on which only one coordinate runs it: 0, but for the producer thread.
    :ivar producer: the axis of the block and the place on it of the producer thread, if that alone runs it.
    :ivar in_both_roles: the producer thread and the consumers run it, each for its own registers.
    :ivar partial: the vectors of which its domain lacks elements, if they are loaded whole; found by the stage
        ``loops``.
    """

    statement: Statement
    domain: InstanceSet
    hardware: tuple[str, ...]
    auto: tuple[str, ...]
    alone_on: tuple[str, ...]
    producer: tuple[str, int] | None = None
    in_both_roles: bool = False
    partial: PartialVectors | None = None

    def place_on(self, axis: str) -> int:
        """The coordinate of *axis*, one of :attr:`alone_on`, that runs it."""
        return self.producer[1] if self.producer is not None and self.producer[0] == axis else 0


@dataclass(frozen=True)
class HardwareMapping:
    """The axes of a launch and the inames on them.

    :ivar extents: the extent of each axis that is used, in the kernel's parameters. The condition of a conditional one
        tells for which sizes the grid has blocks.
    :ivar coordinates: each hardware iname in terms of the axes (``p.Variable("g.0")``).
    :ivar thread_inames: the inames on axes of the block.
    :ivar ranges: for each hardware iname its least value and the largest that a thread can have, where they are
        constant; ``None``: each value of the place on the axis is one that occurs, whatever the sizes.
    :ivar producer: the axis of the block and the place on it of the producer thread, the first one of a last warp;
        ``None``: there is none. *ranges* are those of the other threads.
    :ivar cluster: the number of blocks along ``g.0`` that share copies; 1: each block is on its own.
    """

    extents: Mapping[str, Expression]
    coordinates: Mapping[str, Expression]
    thread_inames: frozenset[str]
    ranges: Mapping[str, tuple[int, int] | None]
    producer: tuple[str, int] | None = None
    cluster: int = 1

    @property
    def block_inames(self) -> tuple[str, ...]:
        """The inames on axes of the grid."""
        return tuple(x for x in self.coordinates if x not in self.thread_inames)

    @property
    def thread_names(self) -> frozenset[str]:
        """The names that differ between the threads of a block."""
        return self.thread_inames.union(BLOCK)


@dataclass(frozen=True, repr=False)
class Launch(Shown):
    """One launch: its tree of sequential loops, its statements, and the axes on which they run.

    :ivar hosts: inames of the host's loops around it, outermost first: parameters here.
    :ivar kernel: the kernel of this launch, with *hosts* as arguments.
    """

    name: str
    tree: Tree
    statements: Mapping[str, BoundStatement]
    mapping: HardwareMapping
    hosts: tuple[str, ...]
    kernel: LoopKernel
    machine: Machine

    @property
    def block(self) -> tuple[Expression, Expression, Expression]:
        x, y, z = (self.mapping.extents.get(axis, 1) for axis in BLOCK)
        return x, y, z

    @property
    def grid(self) -> tuple[Expression, Expression, Expression]:
        x, y, z = (self.mapping.extents.get(axis, 1) for axis in GRID)
        return x, y, z

    @property
    def producer(self) -> tuple[str, int] | None:
        """The axis of the block and the place on it of the producer thread."""
        return self.mapping.producer

    @property
    def persistent(self) -> int:
        """The number of blocks that run all places of the grid, each several ones; 0: each block runs one."""
        return 0 if self.producer is None else self.kernel.options.persistent

    @property
    def group(self) -> int:
        """In a grid of three axes: the places along the first two that persistent blocks run together; 0: all."""
        return self.kernel.options.persistent_group if self.persistent and {*GRID} <= self.mapping.extents.keys() else 0

    @property
    def consumers(self) -> int:
        """The number of the first threads of the block, that run what the producer does not; 0: there is none."""
        return 0 if self.producer is None else reduce(mul, (n for n in map(self.length, BLOCK) if isinstance(n, int)))

    @property
    def registers(self) -> tuple[int, int] | None:
        """The registers of a thread of the producer's warpgroup, and of a consumer; ``None``: all have as many.

        :raises PreconditionError: consumers would not have more than without the step.
        """
        own = self.kernel.options.producer_registers
        return registers_of_roles(own, self.threads, self.consumers) if own and self.producer is not None else None

    def length(self, axis: str) -> Expression:
        """The extent of *axis*, of the block, without the warp of the producer."""
        return self.producer[1] if self.producer is not None and self.producer[0] == axis else \
            self.mapping.extents.get(axis, 1)

    def in_two_roles(self, first: str, second: str) -> bool:
        """Does the producer run one of two statements, and other threads the other one?"""
        return not any(self.in_role(first, producer=x) and self.in_role(second, producer=x) for x in (False, True))

    def in_role(self, statement: str, *, producer: bool) -> bool:
        """Does the producer thread run *statement*, or do the others?"""
        bound = self.statements[statement]
        return bound.in_both_roles or (bound.producer is not None) is producer

    def beside(self, barrier: Barrier, body: Tree) -> list[str]:
        """The statements of *body* that the threads of *barrier* run: it runs if one of them does."""
        return [s for s in barrier.runs_with or leaves(body)
                if self.producer is None or self.in_role(s, producer=barrier.producer)]

    @property
    def started(self) -> tuple[Expression, Expression, Expression]:
        """The blocks along the axes that the host starts."""
        return (self.persistent, 1, 1) if self.persistent else self.grid

    @cached_property
    def ticketed(self) -> bool:
        """Are blocks numbered in the order in which they start, because some wait for earlier ones?"""
        accesses = accesses_by_array(self.kernel)
        return any(a.statement in self.statements for t in self.kernel.temporaries.values() if t.between_blocks
                   for a in accesses.get(t.name, ()))

    @cached_property
    def least_sizes(self) -> Mapping[str, int]:
        """The least values of sizes, *hosts* among them, where the assumptions of the kernel make them constant."""
        sizes = InstanceSet((), self.kernel.assumptions).params
        lows = {x: param_range(assumptions_on(self.kernel, [x]), x)[0] for x in sizes}
        return {x: low for x, low in lows.items() if low is not None}

    @property
    def threads(self) -> Expression:
        """The threads of a block; a number, unless it depends on the sizes."""
        return reduce(multiply, self.block)

    def within_warp(self) -> bool:
        """Is a block surely one warp, or a part of one?"""
        return isinstance(self.threads, int) and self.threads <= self.machine.warp

    def axes_for(self, bound: BoundStatement) -> tuple[dict[str, int], list[str]]:
        """The axes of the block over which the ``l.auto`` inames of *bound* are distributed, with their extents.

        Its own ``l`` inames have their axes. An extent must be constant; along the other axes, which come second, the
        threads at 0 do all the work.
        """
        taken = {axis for x in bound.hardware for axis in variables(self.mapping.coordinates[x])}
        free = {axis: self.length(axis) for axis in BLOCK if axis not in taken}
        constant = {axis: n for axis, n in free.items() if isinstance(n, int)}
        return constant, [axis for axis in free if axis not in constant]

    def thread_number(self, along: Iterable[Expression]) -> Expression:
        """The number in its block of the thread at these coordinates *along* the axes, ``l.0`` fastest."""
        x, y, _ = self.block
        strides: list[Expression] = [1, x, multiply(x, y)]
        return add(*(multiply(stride, coordinate) for stride, coordinate in zip(strides, along, strict=False)))

    def __str__(self) -> str:
        inside = f" for each {', '.join(self.hosts)}" if self.hosts else ""
        how = (" by tickets" if self.ticketed else "") + (
            f" of clusters of {self.mapping.cluster}" if self.mapping.cluster > 1 else "")
        grid, block = (", ".join(map(str, extents)) for extents in (self.grid, self.block))
        return "\n".join([
            f"launch {self.name}{inside}: grid ({grid}){how}, block ({block})",
            *(f"  {x} = {e}" for x, e in self.mapping.coordinates.items()), *tree_lines(self.tree, 1),
            *(f"  {s.statement.id}: {s.domain.text}"
              + (" only at " if s.alone_on else "") + ", ".join(f"{x} = {s.place_on(x)}" for x in s.alone_on)
              + (f" distributed over threads: {', '.join(s.auto)}" if s.auto else "")
              for s in self.statements.values())])


#: The name of the last stage.
FINISHED = "ast"

_NO_PROGRAM = Program((), Block(()))


@dataclass(frozen=True)
class Stage:
    """One step of lowering.

    :ivar result: the part of a lowered kernel that it changes, which prints as its result.
    :ivar check: raises an :class:`InternalError` if the result is not well-formed; tests check each stage.
    """

    name: str
    result: Literal["kernel", "schedule", "storages", "launches", "order", "program"]
    run: Callable[[Lowered], Lowered]
    check: Callable[[Lowered], None]


@dataclass(frozen=True, repr=False)
class Lowered(Shown):
    """A kernel at a stage of lowering: the results of the stages up to *last*; the fields of later stages are empty.

    :ivar shapes: the shapes of the arrays and temporaries of the kernel that was lowered.
    """

    kernel: LoopKernel
    machine: Machine
    last: Stage | None = None
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    schedule: Schedule | None = None
    storages: dict[str, Storage] = field(default_factory=dict)
    launches: tuple[Launch, ...] = ()
    program: Program = _NO_PROGRAM

    @property
    def stage(self) -> str:
        """The name of *last*."""
        return "" if self.last is None else self.last.name

    def __str__(self) -> str:
        """The result of *last*."""
        with bounded(f"printing stage '{self.stage}' of kernel '{self.kernel.name}'"):
            match "kernel" if self.last is None else self.last.result:
                case "kernel":
                    return kernel_text(self.kernel)
                case "schedule":
                    return str(self.schedule)
                case "storages":
                    return "\n".join(map(str, self.storages.values())) or "no temporaries"
                case "launches":
                    return "\n".join(map(str, self.launches))
                case "order":
                    return block_text(self.program.order)
                case "program":
                    return program_text(self.program)

    @property
    def scheduled(self) -> Schedule:
        """:attr:`schedule`, where there is one."""
        assert self.schedule is not None, f"'{self.stage}' comes before 'schedule'"
        return self.schedule

    def require_finished(self) -> None:
        """:raises PreconditionError: stages are missing, so that the loop program is absent or not final."""
        if self.stage != FINISHED:
            raise PreconditionError(f"Kernel '{self.kernel.name}' was lowered only to the stage '{self.stage}'.",
                                    subject=self.stage, hint="lower(knl) runs all stages")
