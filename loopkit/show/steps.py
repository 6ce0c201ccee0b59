"""The steps that made a kernel: as a table, and one after another with what each changed."""
from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from loopkit.errors import LoopkitError, LoopkitWarning, PreconditionError
from loopkit.kernel.history import History, HistoryStep
from loopkit.kernel.kernel import LoopKernel
from loopkit.language.make import make_kernel
from loopkit.show.code import code_document
from loopkit.show.diff import diff, diff_document
from loopkit.show.document import Block, Document, Fold, Paragraph, Span
from loopkit.show.kernels import VERDICT_STYLES, kernel_document
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
    """The steps of *history* one after another; :meth:`loopkit.History.show` says what is shown."""
    if history.made is None:
        raise PreconditionError("The kernel was not made by make_kernel, so that no step can be shown.",
                                subject="history", hint="print(history) lists the steps")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoopkitWarning)     # its author has seen them
        kernels: list[LoopKernel] = [make_kernel(*history.made.args, **dict(history.made.kwargs))]  # type: ignore[arg-type]
    for number in range(len(history)):
        kernels.append(history[number:number + 1].replay(kernels[-1]))
    return Steps(history, tuple(kernels))


def steps_document(steps: Steps) -> Document:
    """Each step: its verdict, its side effects, what differs from the kernel before it, the kernel, and its CUDA."""
    made, *later = steps.kernels
    first = Fold("0: make_kernel", (*kernel_document(made).body,), is_open=False)
    return Document(f"History {steps.headline}", (first, *(
        Fold(f"{number}: {str(step).removeprefix('knl = lk.')}", tuple(_step_blocks(step, before, after)))
        for number, (step, before, after) in enumerate(zip(steps.history, steps.kernels, later, strict=False), 1))))


def _step_blocks(step: HistoryStep, before: LoopKernel, after: LoopKernel) -> Iterator[Block]:
    verdict = Span(step.verdict, VERDICT_STYLES[step.verdict])
    yield Paragraph(((verdict, f", {1000*step.seconds:.1f} ms"),
                     *(Span(f"also changes {effect}", "warning") for effect in step.effects)))
    yield from change_blocks(before, after)
    yield Fold("Kernel", kernel_document(after).body, is_open=False)
    yield Fold("CUDA", code_blocks(after, "cuda"), is_open=False)


def change_blocks(before: LoopKernel, after: LoopKernel) -> tuple[Block, ...]:
    """The differences of the cards of two kernels."""
    return diff_document(diff(before, after)).body or (Paragraph((Span("nothing that is printed differs", "note"),)),)


def code_blocks(knl: LoopKernel, target: str) -> tuple[Block, ...]:
    """The code of *knl* for *target*, or the reason why there is none."""
    try:
        return code_document(generate_code(knl, target)).body
    except LoopkitError as refusal:
        return (Paragraph((Span(f"not generated: {refusal.message}", "note"),)),)
