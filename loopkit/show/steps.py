"""The steps that made a kernel: as a table, and one after another with what each changed."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from loopkit.errors import LoopkitError
from loopkit.kernel.cost import product_text
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.history import History, HistoryStep
from loopkit.kernel.kernel import LoopKernel
from loopkit.show.code import source_blocks
from loopkit.show.diff import diff, diff_document
from loopkit.show.document import Block, Document, Fold, Line, Paragraph, Span, table
from loopkit.show.kernels import (
    VERDICT_STYLES,
    barriers_of,
    full_tile_conditions,
    if_lowered,
    kernel_document,
    shared_bytes,
)
from loopkit.show.statement_steps import kernels_of
from loopkit.shown import Shown
from loopkit.verification.checks import generate_code


@dataclass(frozen=True, repr=False)
class Steps(Shown):
    """A history with the kernel after each of its steps.

    :ivar kernels: the kernel as it was made, and after each step.
    """

    history: History
    kernels: tuple[LoopKernel, ...]

    @property
    def headline(self) -> str:
        return self.history.headline


def shown_steps(history: History) -> Steps:
    """The steps of *history* one after another; :meth:`loopkit.History.show` lists the parts."""
    return Steps(history, kernels_of(history))


def steps_document(steps: Steps) -> Document:
    """The cost after each step; then of each its verdict, its side effects, the changes, the kernel, and its CUDA."""
    calls = ["make_kernel", *(str(step).removeprefix("knl = lk.") for step in steps.history)]
    names = ["make_kernel", *(step.name for step in steps.history)]
    costs = table("Cost", ("step", "", "launches", "threads a block", "barriers", "shared bytes a block",
                           "scratch bytes", "full tiles"),
                  ((str(number), names[number], *_cost_cells(knl)) for number, knl in enumerate(steps.kernels)))
    first = Fold(f"0: {calls[0]}", kernel_document(steps.kernels[0]).body, is_open=False)
    return Document(f"History {steps.headline}", (*costs, first, *(
        Fold(f"{number}: {calls[number]}", tuple(_step_blocks(step, steps.kernels[:number + 1])))
        for number, step in enumerate(steps.history, 1))))


def _cost_cells(knl: LoopKernel) -> tuple[Line, ...]:
    lowered = if_lowered(knl)
    if isinstance(lowered, LoopkitError):
        return (Span("not known", "note", lowered.message), *[""]*5)
    functions = lowered.program.functions
    scratch = [product_text((s.dtype.itemsize, *s.shape)) for s in lowered.storages.values()
               if s.space is AddressSpace.GLOBAL]
    return (str(len(functions)), _each(launch.threads for launch in lowered.launches),
            _each(map(barriers_of, functions)), _each(map(shared_bytes, functions)),
            Span(" + ".join(scratch) or "0", "warning" if scratch else ""),
            _each("without guards" if full_tile_conditions(knl, f.name) else "" for f in functions))


def _each(values: Iterable[object]) -> str:
    """The value of all launches, or that of each."""
    texts = [str(value) for value in values]
    return ", ".join(texts if len(set(texts)) > 1 else texts[:1])


def _step_blocks(step: HistoryStep, kernels: Sequence[LoopKernel]) -> Iterator[Block]:
    """*kernels*: those up to the result of the step."""
    verdict, (before, after) = Span(step.verdict, VERDICT_STYLES[step.verdict]), kernels[-2:]
    yield Paragraph(((verdict, f", {1000*step.seconds:.1f} ms"),
                     *(Span(f"also changes {effect}", "warning") for effect in step.effects)))
    yield from change_blocks(before, after)
    yield Fold("Kernel", kernel_document(after).body, is_open=False)
    yield Fold("CUDA", code_blocks(after, "cuda", kernels), is_open=False)


def change_blocks(before: LoopKernel, after: LoopKernel) -> tuple[Block, ...]:
    """The differences of the cards of two kernels."""
    return diff_document(diff(before, after)).body or (Paragraph((Span("nothing that is printed differs", "note"),)),)


def code_blocks(knl: LoopKernel, target: str, kernels: Sequence[LoopKernel] = ()) -> tuple[Block, ...]:
    """The code of *knl* for *target*, or the reason why there is none; *kernels*: the results of its steps, if any."""
    try:
        return source_blocks(generate_code(knl, target), kernels)
    except LoopkitError as refusal:
        return (Paragraph((Span(f"not generated: {refusal.message}", "note"),)),)
