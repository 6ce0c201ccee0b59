"""loopy's linear form of a kernel: its launches, loops, statements and barriers, one after another."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

from loopkit.ast.nodes import Scope
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.target import resolve_target
from loopkit.kernel.tree import Barrier as CoreBarrier
from loopkit.kernel.tree import Leaf, Loop, Tree, parts_of
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import run, stages
from loopkit.poly.limits import bounded


@dataclass(frozen=True)
class ScheduleItem:
    """One line of the linear form."""

    def copy(self, **changes: Any) -> Self:
        return replace(self, **changes)


@dataclass(frozen=True)
class BeginBlockItem(ScheduleItem):
    """The begin of a launch or a loop."""


@dataclass(frozen=True)
class EndBlockItem(ScheduleItem):
    """The end of a launch or a loop."""


@dataclass(frozen=True)
class EnterLoop(BeginBlockItem):
    """The begin of a loop over *iname*."""

    iname: str


@dataclass(frozen=True)
class LeaveLoop(EndBlockItem):
    """The end of a loop over *iname*."""

    iname: str


@dataclass(frozen=True)
class CallKernel(BeginBlockItem):
    """The begin of a launch."""

    kernel_name: str


@dataclass(frozen=True)
class ReturnFromKernel(EndBlockItem):
    """The end of a launch."""

    kernel_name: str


@dataclass(frozen=True)
class RunInstruction(ScheduleItem):
    """A statement; the parts of a reduction have the ids ``insn.k.init``, ``insn.k.update`` and ``insn``."""

    insn_id: str


@dataclass(frozen=True)
class Barrier(ScheduleItem):
    """A barrier between launches (``"global"``) or between the threads of a block (``"local"``).

    :ivar comment: the dependences that need it.
    """

    comment: str
    synchronization_kind: str
    mem_kind: str
    originating_insn_id: str | None = None


def linear_form(kernel: LoopKernel, target: Any = None) -> tuple[ScheduleItem, ...]:
    """The launches of *kernel* on *target*, with their sequential loops, statements and barriers.

    A statement whose value nothing reads is in it, although the generated text leaves such statements out.

    >>> import loopkit as lk
    >>> knl = lk.make_kernel("{[i,j]: 0<=i,j<8}", "<> a[i] = i\\n... gbarrier\\ny[j] = a[7-j] {id=y}", name="turn")
    >>> for item in linear_form(lk.tag_inames(knl, "i:g.0")):
    ...     print(item)
    CallKernel(kernel_name='turn_0')
    RunInstruction(insn_id='insn')
    ReturnFromKernel(kernel_name='turn_0')
    Barrier(comment='', synchronization_kind='global', mem_kind='global', originating_insn_id=None)
    CallKernel(kernel_name='turn_1')
    EnterLoop(iname='j')
    RunInstruction(insn_id='y')
    LeaveLoop(iname='j')
    ReturnFromKernel(kernel_name='turn_1')
    """
    machine = resolve_target(target).machine
    with bounded(f"linearizing kernel '{kernel.name}'"):
        typed = run(Lowered(kernel, machine), stages("types", "types"))
        low = run(typed, stages("base_storages", "barriers"))
        return tuple(_host_items(low, low.scheduled.order, first=True))


def _host_items(low: Lowered, order: Tree, *, first: bool) -> Iterator[ScheduleItem]:
    """The launches and the loops of the host in *order*; *first*: no launch runs before."""
    for node in parts_of(order):
        if isinstance(node, Loop):
            yield EnterLoop(node.iname)
            yield from _host_items(low, node.body, first=False)
            yield LeaveLoop(node.iname)
        elif isinstance(node, Leaf):
            launch = low.launches[int(node.statement)]
            if not first:
                yield Barrier("", "global", "global")
            yield CallKernel(launch.name)
            yield from _items_in(launch.tree)
            yield ReturnFromKernel(launch.name)
        first = False


def _items_in(tree: Tree) -> Iterator[ScheduleItem]:
    """The loops, statements and barriers of a launch."""
    for node in parts_of(tree):
        match node:
            case Loop(iname=iname, body=body):
                yield EnterLoop(iname)
                yield from _items_in(body)
                yield LeaveLoop(iname)
            case Leaf(statement=statement):
                yield RunInstruction(statement)
            case CoreBarrier() if node.scope is not Scope.THREAD:
                yield Barrier("; ".join(node.serves), "local", "local")
