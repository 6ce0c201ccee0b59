"""Public code generation: lower, check, write the text."""
from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from loopkit.kernel.annotations import checked
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.options import extent_of_checks
from loopkit.kernel.target import Target
from loopkit.lowering.pipeline import lowered_once
from loopkit.poly.limits import bounded
from loopkit.target.code import GeneratedCode, Layout
from loopkit.target.text_target import resolve_text_target, write_code
from loopkit.verification.checks import report_of, subject_of
from loopkit.verification.report import Report, Verdict

_WIDTH = 110


@checked
def generate_code(knl: LoopKernel, target: str | Target = "cuda", *, layout: Layout | None = None,
                  verify: bool | str | None = None) -> GeneratedCode:
    """The source text of *knl* for a target, after the checks of :func:`loopkit.verify`.

    :arg target: ``"cuda"``, ``"c"``, or a target object (``lk.CudaTarget(arch="sm_80")``).
    :arg layout: the arrays' memory layout for the text; default: C order, 32-bit indices.
    :arg verify: ``False`` (or ``"off"``): no checks; ``True`` (or ``"on"``): the checks; ``"full"``: also translation
        validation; ``None``: the kernel's options decide. The head of a CUDA text lists what is proven and what is not.
    :raises PreconditionError: *target* or *verify* does not exist.
    :raises TypeInferenceError: a dtype is not known; see :func:`loopkit.add_dtypes`.
    :raises BoundsError: an access is outside its array for some sizes.
    :raises VerificationError: another check refutes the kernel.
    :raises LimitError: the kernel needs more threads, shared memory or blocks than the target has.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="twice")
    >>> knl = lk.add_dtypes(knl, {"x": np.float32})
    >>> print(lk.generate_code(knl, target="c"))  # doctest: +ELLIPSIS
    #include <math.h>
    ...
    void twice(...
    """
    chosen = resolve_text_target(target)
    extent = knl.options.verify if verify is None else extent_of_checks(verify)
    lowered = lowered_once(knl, chosen.machine)
    report = None
    if extent != "off":
        # texts of one kernel for several targets and layouts share one report
        report = report_of(subject_of(knl, chosen.machine), full=extent == "full").raise_if_refuted()
    head = () if report is None or not knl.options.annotate else tuple(head_lines(knl, report))
    with bounded(f"generating code for kernel '{knl.name}'"):
        return write_code(lowered, chosen, layout if layout is not None else Layout(), head)


def head_lines(knl: LoopKernel, report: Report) -> Iterator[str]:
    """The lines about the checks at the head of a text: one line of proven claims, one for each other finding."""
    proven = [c.claim for c in report.checks if c.verdict is Verdict.PROVEN and c.claim]
    if proven:
        yield from _wrapped(f"proven: {', '.join(proven).replace(', barriers:', '; barriers:')}")
    for finding in report.findings(Verdict.UNDECIDED):
        yield from _wrapped(f"undecided: {finding.text}")
    for obligation in knl.obligations:
        because = "" if obligation.reason is None else f" ({obligation.reason})"
        yield from _wrapped(f"{obligation.verdict}: {obligation.step}: {obligation.claim}{because}")


def _wrapped(text: str) -> list[str]:
    # a backslash at the end of a C comment would join the next line to it
    words = text.replace("\\", "/").split()
    return wrap(" ".join(words), _WIDTH - len("// "), subsequent_indent="  ", break_long_words=False,
                break_on_hyphens=False)
