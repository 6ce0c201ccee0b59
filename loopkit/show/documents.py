"""The document of every object that shows itself, and the forms of a document that objects offer."""
from __future__ import annotations

import linecache
import sys
import textwrap
import traceback as python_traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from loopkit.errors import LoopkitError
from loopkit.kernel.history import History
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.lowered import Lowered
from loopkit.poly.limits import bounded
from loopkit.runtime.comparison import EquivalenceReport
from loopkit.runtime.compiled import CompiledKernel
from loopkit.runtime.cuda.resources import Resources
from loopkit.runtime.results import Outputs
from loopkit.show.cards import with_pictures
from loopkit.show.code import code_document
from loopkit.show.diff import Diff, diff_document
from loopkit.show.document import Code, Document, Fold, Paragraph, Picture, Span, Table, table
from loopkit.show.equivalence import equivalence_document
from loopkit.show.explain import Explanation, explanation_document
from loopkit.show.html import as_html
from loopkit.show.kernels import VERDICT_STYLES, kernel_document
from loopkit.show.order_picture import error_plot, ordered_witness
from loopkit.show.plot import Plot
from loopkit.show.steps import Steps, steps_document
from loopkit.show.text import as_rich, as_text
from loopkit.shown import Shown
from loopkit.target.code import GeneratedCode
from loopkit.verification.report import Report

#: The most characters of an order of instances in a traceback.
_LONGEST_ORDER = 160

_PACKAGE = str(Path(__file__).parents[1])


def text(value: Shown) -> str:
    """*value* as plain text: what ``print`` writes."""
    return as_text(document(value))


def html(value: Shown) -> str:
    """*value* as HTML: what a notebook shows."""
    shown, knl = document(value), value.kernel if isinstance(value, CompiledKernel) else value
    return as_html(with_pictures(shown, knl) if isinstance(knl, LoopKernel) else shown)


def rich(value: Shown) -> Any:
    """*value* in colours: what the console of rich prints."""
    return as_rich(document(value))


def document(value: Shown) -> Document:
    """The document of *value*: its type's own, or its text."""
    own = next((_DOCUMENTS[cls] for cls in type(value).__mro__ if cls in _DOCUMENTS), None)
    with bounded(f"showing a {type(value).__name__}"):
        return Document("", (Code(tuple(str(value).splitlines())),)) if own is None else own(value)


def _stage_document(lowered: Lowered) -> Document:
    return Document(f"kernel '{lowered.kernel.name}' after the stage '{lowered.stage}'",
                    (Code(tuple(str(lowered).splitlines())),))


def _report_document(report: Report) -> Document:
    body: list[Table | Paragraph | Fold] = [Table(("", "", ""), tuple(
        (check.name, Span(str(check.verdict), VERDICT_STYLES[str(check.verdict)]), check.summary)
        for check in report.checks))]
    for check in report.checks:
        lines = [line for finding in check.findings for line in finding.lines()]
        if lines or check.notes:
            body.append(Fold(check.name, (Paragraph((*lines, *check.notes)),)))
    return Document(f"kernel '{report.kernel}': {report.verdict}", tuple(body))


def _history_document(history: History) -> Document:
    return Document("", (Code(tuple(str(history).splitlines()), "python"),))


def _error_document(error: LoopkitError) -> Document:
    hints = tuple(Span(f"hint: {hint}", "good") for hint in error.hints)
    lines = Paragraph((Span(error.message, "bad"), *error.details(), *hints))
    return Document(type(error).__name__, (lines, *_order_pictures(error)))


def _order_pictures(error: LoopkitError) -> tuple[Picture, ...]:
    """The picture of the two instances of *error*, if it names two."""
    return () if ordered_witness(error) is None else (error_plot(error).picture,)


def _outputs_document(outputs: Outputs) -> Document:
    rows = [(name, *_array_cells(value)) for name, value in outputs.asdict().items()]
    return Document("Outputs", table("Arrays", ("name", "kind", "dtype", "shape", "values"), rows))


def _array_cells(value: Any) -> tuple[str, str, str, str]:
    kind = f"{type(value).__module__.partition('.')[0]}.{type(value).__name__}"
    values = np.array2string(value.ravel()[:8], precision=4, separator=", ", threshold=8)[1:-1] \
        if isinstance(value, np.ndarray) else ""
    more = ", ..." if isinstance(value, np.ndarray) and value.size > 8 else ""
    return kind, str(getattr(value, "dtype", "")), str(getattr(value, "shape", "")), f"{values}{more}"


def _resources_document(resources: Resources) -> Document:
    head, *rows = resources.rows()
    return Document(f"Resources {resources.headline}", (Table(head, tuple(rows)),))


def _compiled_document(compiled: CompiledKernel) -> Document:
    card = kernel_document(compiled.kernel)
    return Document(f"{card.title} for target '{compiled.target}'", card.body)


def _plot_document(plot: Plot) -> Document:
    return Document(plot.title, (plot.picture,))


_DOCUMENTS: Mapping[type, Callable[[Any], Document]] = {
    LoopKernel: kernel_document, GeneratedCode: code_document, Lowered: _stage_document, Report: _report_document,
    History: _history_document, LoopkitError: _error_document, Outputs: _outputs_document,
    Resources: _resources_document, CompiledKernel: _compiled_document, Diff: diff_document,
    EquivalenceReport: equivalence_document, Steps: steps_document, Explanation: explanation_document,
    Plot: _plot_document}


# Errors in IPython

def traceback(error: LoopkitError) -> Iterator[str]:
    """The lines that IPython shows of *error*: the caller's line, the message, and the orders of its instances if they
    are short, without loopkit's own frames."""
    frames = [frame for frame in python_traceback.extract_tb(error.__traceback__)
              if not frame.filename.startswith((_PACKAGE, sys.prefix, sys.base_prefix)) and frame.lineno is not None]
    for frame in frames[-1:]:
        first, last = frame.lineno or 1, frame.end_lineno or frame.lineno or 1
        is_cell = frame.filename.startswith("<ipython-input") or "ipykernel_" in frame.filename
        yield f"{'In a cell' if is_cell else frame.filename}, line {first}"
        lines = "".join(linecache.getline(frame.filename, number) for number in range(first, last + 1))
        yield textwrap.indent(textwrap.dedent(lines), "    ").rstrip()
        yield ""
    first_line, *rest = str(error).splitlines()
    yield f"{type(error).__name__}: {first_line}"
    yield from rest
    orders = [line for picture in _order_pictures(error) for line in picture.text.splitlines()]
    if all(len(line) <= _LONGEST_ORDER for line in orders):
        yield from (f"  {line}" for line in orders)
