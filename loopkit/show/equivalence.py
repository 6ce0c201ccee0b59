"""The document of an equivalence report: the worst element of each output, the bounds, and the runs."""
from __future__ import annotations

from collections.abc import Iterator

from loopkit.errors import cell_text
from loopkit.runtime.comparison import NO_NUMBERS, EquivalenceReport, EquivalenceRun, OutputComparison
from loopkit.show.document import Document, Fold, Line, section, table

#: The share of the allowed error in a run without finite numbers.
_NO_SHARE = "no numbers"


def equivalence_document(report: EquivalenceReport) -> Document:
    """The document of *report*."""
    outputs = report.outputs
    return Document(report.headline, (
        *table("Outputs", ("output", "worst element", "value", "reference", "error", "ulps", "allowed"),
               map(_output_row, outputs)),
        *section("Bounds", (f"{o.name}: {o.origin}" for o in outputs if o.origin)),
        *_run_folds(report)))


def _output_row(o: OutputComparison) -> tuple[Line, ...]:
    if not o.error:
        return (o.name, "no elements" if o.got is None else "all are equal", "", "", "0", "", f"{o.bound:.3g}")
    ulps = "" if o.ulps is None else f"{o.ulps:.3g}"
    return (o.name, cell_text(o.name, o.index), str(o.got), str(o.expected), f"{o.error:.3g}", ulps, f"{o.bound:.3g}")


def _run_folds(report: EquivalenceReport) -> Iterator[Fold]:
    """A table of all runs: the sizes down, the kinds of data across."""
    sizes = list(dict.fromkeys(name for run in report.runs for name in run.sizes))
    kinds = list(dict.fromkeys(run.data for run in report.runs))
    rows: dict[tuple[int, ...], dict[str, str]] = {}
    for run in report.runs:
        rows.setdefault(tuple(run.sizes[name] for name in sizes), {})[run.data] = _share(run)
    notes = (f"kernel '{report.kernel}' against {report.reference}, with seed {report.seed}",
             "under each kind of data: the largest error, as a part of the allowed one",
             *([f"{_NO_SHARE}: all elements of the reference are NaN or infinite"] if any(
                 _NO_SHARE in row.values() for row in rows.values()) else []))
    yield from table("Runs", (*sizes, *kinds), ((*map(str, key), *(row[kind] for kind in kinds))
                                                for key, row in rows.items()), notes)


def _share(run: EquivalenceRun) -> str:
    """The largest error over the allowed one."""
    if all(o.origin == NO_NUMBERS for o in run.outputs):
        return _NO_SHARE
    return f"{max((o.error/o.bound for o in run.outputs if o.bound), default=0):.2g}"
