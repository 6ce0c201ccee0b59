"""The results of ``show``, ``diff``, ``review`` and ``check`` for a kernel, and their exit statuses."""
from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from loopkit.analysis.sizes import sizes_at_least
from loopkit.command.load import UsageError, load_kernel
from loopkit.errors import EquivalenceError, LoopkitError, UndecidedError, require_known
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.limits import bounded
from loopkit.runtime.comparison import EquivalenceRun
from loopkit.runtime.equivalence import check_equivalent
from loopkit.show.diff import diff
from loopkit.show.document import Document, Fold, Paragraph
from loopkit.show.documents import document
from loopkit.show.json import as_data
from loopkit.show.review import review
from loopkit.show.steps import code_blocks
from loopkit.verification.checks import generate_code, verify
from loopkit.verification.report import Check, Finding, Report, refuted, undecided


class Status(IntEnum):
    """The exit status; a shell takes all but ``FINE`` for a failure."""

    FINE = 0
    REFUTED = 1
    MISUSED = 2
    UNDECIDED = 3


@dataclass(frozen=True)
class Answer:
    """The result of an action.

    :ivar kernel: the name of the kernel.
    :ivar data: for JSON; empty: that of the document.
    """

    kernel: str
    status: Status
    document: Document
    data: Mapping[str, Any]


def status_of(refusal: LoopkitError) -> Status:
    """The exit status of an action that ends in *refusal*."""
    return Status.UNDECIDED if isinstance(refusal, UndecidedError) else Status.REFUTED


def show(asked: Namespace) -> Answer:
    """The card of a kernel and its code."""
    knl = load_kernel(asked.kernel)
    target = asked.target or "cuda"
    card = document(knl)
    shown = Document(card.title, (*card.body, Fold(f"Code for {target}", code_blocks(knl, target))))
    return Answer(knl.name, Status.FINE, shown, as_data(shown))


def differ(asked: Namespace) -> Answer:
    """The differences of a kernel from another one; with a target, those of their codes."""
    old, new = load_kernel(asked.against), load_kernel(asked.kernel)
    found = diff(old, new) if asked.target is None else \
        diff(generate_code(old, asked.target), generate_code(new, asked.target))
    return Answer(new.name, Status.REFUTED if found else Status.FINE, document(found), as_data(document(found)))


def write_review(asked: Namespace) -> Answer:
    """The review of a kernel as files."""
    knl = load_kernel(asked.kernel)
    page = asked.output or asked.kernel.path.with_name(f"{knl.name}.html")
    if page.suffix == ".cu":
        raise UsageError(f"'{page}' is the name of a program, and the review writes one beside its page.",
                         hint=f"--output {page.with_suffix('.html')}")
    if asked.output is None:
        _require_own(page, "<title>Review of kernel ")
        _require_own(page.with_suffix(".cu"), "// Runs kernel ")
    files = [str(file) for file in review(knl, page, sizes=_sizes(asked, knl))]
    lines = tuple(f"wrote {file}" for file in files)
    return Answer(knl.name, Status.FINE, Document("", (Paragraph(lines),)), {"files": files})


def _require_own(path: Path, mark: str) -> None:
    """:raises UsageError: the file *path* is there and a review, whose files have *mark*, did not write it."""
    if path.exists() and mark not in path.read_text(encoding="utf-8", errors="replace"):
        raise UsageError(f"'{path}' is there already, and a review did not write it.",
                         hint="--output PATH names the page")


def check(asked: Namespace) -> Answer:
    """The checks of a kernel, and its comparison with another one."""
    knl, old = load_kernel(asked.kernel), None if asked.against is None else load_kernel(asked.against)
    if old is None and asked.size:
        raise UsageError("check takes --size only for the comparison with --against.", hint="add --against, or drop it")
    sizes, report = _sizes(asked, knl), _report(knl, asked.target or "cuda")
    shown = document(report)
    data: dict[str, Any] = {"verdict": str(report.verdict), "checks": list(map(_check_data, report.checks))}
    found = [str(report.verdict)]
    if old is not None and report.ok:
        compared, data["comparison"] = _comparison(old, knl, sizes)
        shown = Document(shown.title, (*shown.body, Fold(f"Compared with {asked.against}", compared.body)))
        found.append(data["comparison"]["result"])
    status = Status.REFUTED if {"refuted", "different"} & {*found} else \
        Status.UNDECIDED if "undecided" in found else Status.FINE
    return Answer(knl.name, status, shown, data)


def _sizes(asked: Namespace, knl: LoopKernel) -> dict[str, int]:
    """The sizes on the command line; :raises CallError: the assumptions do not allow them."""
    sizes = dict(asked.size)
    require_known("size", sizes, knl.value_params, where=f"kernel '{knl.name}'")
    with bounded(f"choosing sizes of kernel '{knl.name}'"):
        return sizes_at_least(knl.assumptions, sizes, {})


def _report(knl: LoopKernel, target: str) -> Report:
    """The report of :func:`loopkit.verify`; if there is no code for *target*, the reason is one more finding."""
    checks: tuple[Check, ...] = ()
    try:
        checks = verify(knl, target).checks
        generate_code(knl, target)
    except UndecidedError as err:
        checks = (*checks, Check("code", f"for {target}", (undecided(f"{err.message} {err.reason}"),)))
    except LoopkitError as err:
        known = {finding.text for found in checks for finding in found.findings}
        checks = checks if err.message in known else (*checks, Check("code", f"for {target}", (refuted(err),)))
    return Report(knl.name, checks)


def _comparison(old: LoopKernel, new: LoopKernel, sizes: Mapping[str, int]) -> tuple[Document, dict[str, Any]]:
    """The report of :func:`loopkit.check_equivalent` on the host, or the reason why there is none, and its data."""
    try:
        report = check_equivalent(old, new, sizes, target="c")
    except LoopkitError as err:
        result = "different" if isinstance(err, EquivalenceError) else "undecided"
        return document(err), {"result": result, "reason": str(err), "runs": []}
    return document(report), {"result": "equal", "reason": "", "runs": list(map(_run_data, report.runs))}


def _run_data(run: EquivalenceRun) -> dict[str, Any]:
    return {"sizes": dict(run.sizes), "outputs": [{"name": x.name, "error": x.error, "bound": x.bound}
                                                  for x in run.outputs]}


def _check_data(found: Check) -> dict[str, Any]:
    return {"name": found.name, "verdict": str(found.verdict), "summary": found.summary,
            "findings": list(map(_finding_data, found.findings)), "notes": list(found.notes)}


def _finding_data(found: Finding) -> dict[str, Any]:
    return {"verdict": str(found.verdict), "text": found.text, "witness": found.witness,
            "hints": [] if found.error is None else list(found.error.hints)}
