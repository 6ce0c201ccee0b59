"""The review of a kernel: one HTML page with all that is known of it, and a standalone program that checks it."""
from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from os import PathLike
from pathlib import Path

from loopkit.errors import CompilerError, DeviceError, PreconditionError, ReplayError, require_known
from loopkit.kernel.annotations import checked
from loopkit.kernel.history import HistoryStep
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.literals import shown
from loopkit.lowering.pipeline import lowered_once
from loopkit.poly.limits import bounded
from loopkit.runtime.compiled import compile as compiled_kernel
from loopkit.runtime.cuda.resources import KernelResources, Resources
from loopkit.show.code import code_document
from loopkit.show.document import Block, Code, Document, Fold, Line, Paragraph, Span, Table, section
from loopkit.show.documents import document
from loopkit.show.explain import explain
from loopkit.show.html import as_page
from loopkit.show.kernels import VERDICT_STYLES, kernel_document
from loopkit.show.program import build_line, standalone_program
from loopkit.show.steps import change_blocks, shown_steps
from loopkit.show.text import WIDTH
from loopkit.target.code import GeneratedCode
from loopkit.verification.checks import generate_code, verify
from loopkit.verification.report import Report, Verdict

#: Parts of the card, and of the explanation, that a review has in another place.
_ELSEWHERE = ("As written", "Obligations", "Steps")
_ON_THE_CARD = ("Where values live",)

_UNITS = ("registers and stack (in bytes) of a thread; spilled: the bytes that a thread stores and loads for lack of "
          "registers; shared: bytes of a block; blocks: those that run on a multiprocessor at a time",)

_CLAIMS = ("order: every dependence runs forwards; bounds: every access lies inside its array; coverage: every "
           "temporary is written before it is read; races: no two threads access one element without an order if one "
           "of them writes it; barriers: each is needed, and none is missing",)


@checked
def review(knl: LoopKernel, path: str | PathLike[str], *, sizes: Mapping[str, int] | None = None) -> tuple[Path, ...]:
    """Write the review of *knl*: the HTML page *path*, and beside it a standalone CUDA program of the same stem.

    The page begins with the verdict of :func:`loopkit.verify` and the claims that were trusted without a proof. Then it
    shows the kernel as it was made, its card, what each step changed, the checks, the sentences of
    :func:`loopkit.explain`, and the generated code with the launches of the host. If there is a CUDA compiler, it shows
    the resources on the GPU. The page needs no other file.

    The program (``nvcc file.cu``) fills the arrays with fixed data, runs the kernel, checks every output element
    against the plain loops of the kernel as it was made, and measures the time of a call. Its exit status is 0 if all
    elements are right. A kernel whose data must fit together, such as one with index arrays, has a page
    without a program, and the page tells why.

    :arg sizes: values of integer parameters for the program; others get a value that the assumptions allow.
    :returns: the files written.
    :raises PreconditionError: *path* ends in ``.cu``.
    :raises UnknownNameError: a name in *sizes* is not an integer parameter.
    :raises CallError: the assumptions do not allow *sizes*.
    :raises LoopkitError: the errors of :func:`loopkit.generate_code`.
    :raises OSError: a file cannot be written.

    >>> import tempfile
    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="twice")
    >>> knl = lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", 128, outer_tag="g.0", inner_tag="l.0")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print([file.name for file in lk.review(knl, f"{folder}/twice.html", sizes={"n": 1000})])
    ['twice.html', 'twice.cu']
    """
    page, program = Path(path), Path(path).with_suffix(".cu")
    if page == program:
        raise PreconditionError(f"'{page}' is the file of the program of the review, not of its page.",
                                subject=str(page), hint=f"give '{page.with_suffix('.html')}'")
    with bounded(f"reviewing kernel '{knl.name}'"):
        return _reviewed(knl, page, program, sizes)


def _reviewed(knl: LoopKernel, page: Path, program: Path, sizes: Mapping[str, int] | None) -> tuple[Path, ...]:
    """The files written."""
    require_known("size", sizes or {}, knl.value_params, where=f"kernel '{knl.name}'")
    code = generate_code(knl, "cuda")                   # refuses what has no code, before a file is written
    text, command, why_not = "", "", ""
    try:
        text, command = standalone_program(knl, sizes, name=program.stem), build_line(lowered_once(knl), program.stem)
    except PreconditionError as err:
        why_not = f"There is no program for this kernel. {err}"
    shown = Document(f"Review of kernel '{knl.name}'", tuple(_review_parts(knl, code, command, why_not)))
    page.write_text(as_page(shown), encoding="utf-8", newline="\n")
    if text:
        program.write_text(text, encoding="utf-8", newline="\n")
    return (page, program) if text else (page,)


def _review_parts(knl: LoopKernel, code: GeneratedCode, command: str, why_not: str) -> Iterator[Block]:
    """The parts of a page; *command* builds the program, or *why_not* is the reason for its absence."""
    report, card, resources = verify(knl), kernel_document(knl), _resources(knl)
    trusted = (*map(str, knl.obligations), *(f"undecided: {f.text}" for f in report.findings(Verdict.UNDECIDED)))
    yield Table(("", ""), tuple(_overview(report, trusted, card, resources, command)))
    yield from section("Trusted without a proof", (Span(x, "warning") for x in trusted))
    made = knl.history.made
    yield Fold("Algorithm", (Paragraph(("The kernel was not made by make_kernel.",)),) if made is None else
               (Code(tuple(_call_lines(made)), "python"),))
    yield Fold("Kernel", _without(card, _ELSEWHERE))
    yield from _step_parts(knl, card)
    verdicts, *details = document(report).body
    yield Fold("Checks", (verdicts, Paragraph(_CLAIMS), *details))
    yield Fold("In sentences", _without(document(explain(knl)), _ON_THE_CARD))
    yield Fold("Resources", (document(resources).body if isinstance(resources, Resources) else ())
               + (Paragraph(_UNITS if isinstance(resources, Resources) else (resources,)),))
    about = (f"The program beside this page runs the kernel and checks every element of its results: {command}",)
    yield Fold("Program", (Paragraph(about if command else tuple(why_not.splitlines())),))
    shown = code_document(code)
    yield Fold(f"Code {shown.title}", shown.body)


def _without(own: Document, titles: Collection[str]) -> tuple[Block, ...]:
    return tuple(block for block in own.body if not (isinstance(block, Fold) and block.title in titles))


def _overview(report: Report, trusted: Sequence[str], card: Document, resources: Resources | str, command: str
           ) -> Iterator[tuple[Line, ...]]:
    """The first lines of a page, for the reviewer who reads no more."""
    yield "checks", Span(str(report.verdict), VERDICT_STYLES[str(report.verdict)])
    yield "trusted without a proof", Span(str(len(trusted)), "warning") if trusted else "nothing"
    for block in card.body[:1]:
        if isinstance(block, Paragraph):
            yield from (("launches", line) for line in block.lines)
    if isinstance(resources, str):
        yield "GPU", Span(resources, "note")
    else:
        yield from (("GPU", _usage(x)) for x in resources.values())
    yield "program", command or Span("none", "note")


def _usage(x: KernelResources) -> Line:
    spilled = x.spill_stores + x.spill_loads
    spills = Span(f"{spilled} bytes spilled", "warning") if spilled else "no spills"
    return (f"{x.name} on {x.arch}: {x.registers} registers a thread, ", spills,
            f", {x.static_shared + x.dynamic_shared} bytes of shared memory a block, occupancy {x.occupancy:.0%}")


def _call_lines(made: HistoryStep) -> Iterator[str]:
    """The call of ``make_kernel``, in one line or an argument a line."""
    texts = [shown(_without_indentation(x)) for x in made.args] + [f"{k}={shown(v)}" for k, v in made.kwargs]
    line = f"knl = lk.make_kernel({', '.join(texts)})"
    if "\n" not in line and len(line) <= WIDTH:
        yield line
        return
    yield "knl = lk.make_kernel("
    for number, text in enumerate(texts, 1):
        yield from textwrap.indent(f"{text}{',' if number < len(texts) else ')'}", "    ").splitlines()


def _without_indentation(text: object) -> object:
    return f"\n{textwrap.dedent(text).strip()}\n" if isinstance(text, str) and "\n" in text else text


def _step_parts(knl: LoopKernel, card: Document) -> Iterator[Block]:
    """The table of the steps, and what each changed, folded away."""
    for block in card.body:
        if isinstance(block, Fold) and block.title == "Steps":
            yield Fold("Steps", (*block.body, *_changes_of(knl)))


def _changes_of(knl: LoopKernel) -> Iterator[Block]:
    try:
        steps = shown_steps(knl.history)
    except (PreconditionError, ReplayError) as err:
        yield Paragraph((Span(f"The differences of the steps are not known: {err.message}", "note"),))
        return
    for number, (before, after) in enumerate(pairwise(steps.kernels), 1):
        yield Fold(f"Step {number}: {knl.history[number - 1].name}", change_blocks(before, after), is_open=False)


def _resources(knl: LoopKernel) -> Resources | str:
    """The resources on the GPU, or why they are not known."""
    try:
        return compiled_kernel(knl, "cuda").resources
    except (CompilerError, DeviceError) as err:
        return f"not known: {err.message}"
