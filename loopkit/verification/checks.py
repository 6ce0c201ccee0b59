"""The public checks of a kernel, their report, and code generation after the checks."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from textwrap import wrap

from loopkit.analysis.accesses import why_undecided
from loopkit.analysis.dependences import dependences, is_reorderable, shared_loops
from loopkit.analysis.legality import is_between_blocks, not_to_later_blocks, violations
from loopkit.analysis.order import execution_paths, meeting_of
from loopkit.analysis.witnesses import Violation
from loopkit.errors import IllegalTransformError, UndecidedError, VerificationError
from loopkit.kernel.annotations import checked
from loopkit.kernel.data import extent_of_checks
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.target import Machine, Target, resolve_target
from loopkit.kernel.tree import meeting, paths
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lowered_once, machine_for
from loopkit.lowering.types import infer_types
from loopkit.poly.limits import bounded, kept
from loopkit.poly.relations import out_of_time_order
from loopkit.poly.sets import Map
from loopkit.target.code import GeneratedCode, Layout, resolve_text_target, write_code
from loopkit.verification.accesses import bounds, coverage
from loopkit.verification.conflicts import Conflicts
from loopkit.verification.races import barriers, races
from loopkit.verification.report import Check, Finding, Report, Verdict, refuted, undecided
from loopkit.verification.validation import unended_phases, validate


@dataclass(frozen=True)
class Subject:
    """A kernel and its lowered form, which the checks examine.

    :ivar made: results of earlier checks, by name.
    """

    kernel: LoopKernel
    lowered: Lowered
    made: dict[str, Check] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def launches(self) -> tuple[Conflicts, ...]:
        """The launches with the conflicts of their instances, computed once for all checks."""
        return tuple(Conflicts(launch, self.lowered.storages) for launch in self.lowered.launches)


# The order of dependences

def _legal(knl: LoopKernel) -> Check:
    """Does the order of *knl*, with its parallel inames, keep every dependence?

    Assumed dependences are not among them: each has an obligation instead.
    """
    found = []
    for v in violations(knl):
        how = "in different blocks at once" if v.reason == "blocks" else "in the wrong order, or at once"
        found.append(_misordered(knl, v, f"'{v.dependence.source}' and '{v.dependence.sink}' run {how}."))
    found += [Finding(Verdict.ASSUMED, str(obligation)) for obligation in knl.obligations]
    number = len(dependences(knl))
    counted = f"{number or 'no'} dependence{'s' if number != 1 else ''}"
    return Check("order", counted, tuple(found), claim=f"order ({counted})")


def _misordered(knl: LoopKernel, v: Violation, text: str) -> Finding:
    if not (d := v.dependence).exact:
        return undecided(f"whether '{d.source}' and '{d.sink}' keep their order on '{d.array}': "
                         f"{why_undecided(knl, d.array, d.source, d.sink)}.")
    return refuted(IllegalTransformError(text, v.broken(knl).witness()))


def _launch_order(lowered: Lowered) -> Iterator[Finding]:
    """The dependences that are broken by the order of the launches, or of the loops inside one."""
    knl = lowered.kernel
    places = {s: (i, way) for i, launch in enumerate(lowered.launches) for s, way in paths(launch.tree).items()}
    cache: dict[object, Map | None] = {}
    for d in dependences(knl):
        if is_reorderable(knl, d):
            continue
        (first, source), (second, sink) = places[d.source], places[d.sink]
        # the host's loops around both launches, then the loops inside a launch
        hosts = set(lowered.launches[first].hosts) & set(lowered.launches[second].hosts)
        shared = [x for x in meeting_of(execution_paths(knl), d.source, d.sink).loops if x in hosts]
        before = first < second
        if first == second:
            where = meeting(source, sink)
            shared, before = [*shared, *where.loops], where.before
        loops = shared_loops(knl, d.source, d.sink, shared)
        key = (id(d.relation), loops, before, is_between_blocks(knl, d))
        if key not in cache:
            cache[key] = out_of_time_order(not_to_later_blocks(knl, d), loops, before)
        late = cache[key]
        if late is not None:
            yield _misordered(knl, Violation(d, late, "order"), f"The lowered kernel runs '{d.source}' and '{d.sink}' "
                              "in the wrong order, or at once.")


# The checks of a subject

def _order_check(subject: Subject) -> Check:
    check = _legal(subject.kernel)
    return replace(check, findings=(*check.findings, *_launch_order(subject.lowered)))


def _barriers(subject: Subject) -> Check:
    """Also of waits for phases, in the loop program: a mistake there could let a GPU wait forever."""
    check = barriers(subject.launches, subject.lowered.program.functions)
    found = tuple(refuted(VerificationError(str(f), check="barriers", hint="this is a bug of loopkit: please report it "
                                                                           "with the kernel"))
                  for f in unended_phases(subject.lowered))
    return replace(check, findings=(*check.findings, *found))


def _program(subject: Subject) -> Check:
    """Translation validation."""
    found = tuple(undecided(str(f)) if f.kind == "undecided" else refuted(VerificationError(str(f), check="program"))
                  for f in validate(subject.lowered))
    return Check("program", "the loop program executes the launches", found, claim="program")


#: The checks before code generation, in this order, and last the additional one of ``verify="full"``.
CHECKS: dict[str, Callable[[Subject], Check]] = {
    "order": _order_check,
    "bounds": lambda subject: bounds(subject.lowered),
    "coverage": lambda subject: coverage(subject.lowered),
    "races": lambda subject: races(subject.launches),
    "barriers": _barriers,
    "program": _program}


def report_of(subject: Subject, *, full: bool = False) -> Report:
    """All checks of *subject*; a question beyond isl's budget is undecided."""
    return Report(subject.kernel.name, tuple(_made(subject, name) for name in CHECKS if full or name != "program"))


def _made(subject: Subject, name: str) -> Check:
    return kept(subject.made, name, lambda: _decided(subject.kernel, name, lambda: CHECKS[name](subject)))


def _decided(knl: LoopKernel, name: str, check: Callable[[], Check]) -> Check:
    try:
        with bounded(f"checking kernel '{knl.name}' ({name})"):
            return check()
    except UndecidedError as err:
        return Check(name, "", (undecided(f"{err.message} {err.reason}"),))


def _one_report(knl: LoopKernel, target: str | Target | None, name: str) -> Report:
    subject = subject_of(knl, resolve_target(target).machine)
    return Report(knl.name, (_made(subject, name),))


def subject_of(knl: LoopKernel, machine: Machine) -> Subject:
    """*knl* lowered for *machine*; all callers share the results of its checks."""
    machine = machine_for(knl, machine)
    typed = infer_types(knl)
    return kept(typed.memo, ("verified subject", machine), lambda: Subject(knl, lowered_once(knl, machine)))


# Public checks

@checked
def verify(knl: LoopKernel, target: str | Target | None = None, *, full: bool = False) -> Report:
    """Check *knl* and its lowered form: order, bounds, coverage, races and barriers.

    The result is a :class:`loopkit.Report`. A refuted check raises no error: print the report, or call
    ``raise_if_refuted`` of the report.

    :arg target: the target that *knl* is lowered for, as in :func:`loopkit.lower`.
    :arg full: also prove that the loop program executes the lowered kernel (translation validation).
    :raises TypeInferenceError, StorageError, IllegalTransformError: the kernel cannot be lowered.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="twice")
    >>> knl = lk.add_dtypes(knl, {"x": np.float32})
    >>> print(lk.verify(lk.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")))
    kernel 'twice': proven
      order     proven     no dependences
      bounds    proven     2 accesses
      coverage  proven     no temporaries
          y: every element is written once
      races     proven     y: written, and shared between threads
      barriers  proven     none
    """
    return report_of(subject_of(knl, resolve_target(target).machine), full=full)


@checked
def check_legal(knl: LoopKernel) -> Report:
    """Check that the order of *knl*, with its parallel inames, keeps every dependence.

    >>> knl = lk.make_kernel("{[i]: 1<=i<n}", "a[i] = a[i-1] + b[i]")
    >>> print(lk.check_legal(knl))
    kernel 'kernel': proven
      order     proven     1 dependence
    """
    return Report(knl.name, (_decided(knl, "order", lambda: _legal(knl)),))


@checked
def check_races(knl: LoopKernel, target: str | Target | None = None) -> Report:
    """Check that no two threads access one element without an order between them, if one of them writes.

    The check examines the lowered kernel with its barriers: threads of one block on shared and global memory, and
    blocks of one launch on global memory.

    >>> knl = lk.make_kernel("{[i,j]: 0<=i,j<64}", "<> t[i] = x[i]\\ny[j] = t[63-j]", name="reversed")
    >>> knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "i:l.0, j:l.0")
    >>> print(lk.check_races(knl))
    kernel 'reversed': proven
      races     proven     t, y: written, and shared between threads
    """
    return _one_report(knl, target, "races")


@checked
def check_bounds(knl: LoopKernel, target: str | Target | None = None) -> Report:
    """Check that every access stays inside its array, for all sizes that the assumptions allow.

    Temporaries have the shape of their allocated storage.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i-1]", name="shifted")
    >>> print(lk.check_bounds(lk.add_dtypes(knl, {"x": np.float32})))
    kernel 'shifted': refuted
      bounds    refuted    2 accesses
          refuted: 'insn' accesses 'x' outside its shape.
            with n = 1: insn[i=0] accesses x[-1]
    """
    return _one_report(knl, target, "bounds")


@checked
def check_coverage(knl: LoopKernel, target: str | Target | None = None) -> Report:
    """Check that no temporary is read before it is written, and list the written elements of the outputs.

    An output may be written in part, and an element more than once; the notes of the report list both.

    >>> knl = lk.make_kernel("{[i]: 1<=i<n-1}", "out[i] = a[i-1] + a[i+1]", name="ends")
    >>> print(lk.check_coverage(lk.add_dtypes(knl, {"a": np.float32})))
    kernel 'ends': proven
      coverage  proven     no temporaries
          out: not every element is written; with n = 1: out[0] is not
    """
    return _one_report(knl, target, "coverage")


@checked
def check_barriers(knl: LoopKernel, target: str | Target | None = None) -> Report:
    """Check the barriers of the lowered kernel: list those that are missing or not needed, and the conflicts of each.

    A barrier that not all threads of a block execute is refuted.

    >>> knl = lk.make_kernel("{[i,j]: 0<=i,j<64}", "<> t[i] = x[i]\\ny[j] = t[63-j]", name="reversed")
    >>> knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "i:l.0, j:l.0")
    >>> print(lk.check_barriers(knl))
    kernel 'reversed': proven
      barriers  proven     1, each needed
          reversed: barrier
            t: insn writes, insn_0 reads
    """
    return _one_report(knl, target, "barriers")


# Code generation

_WIDTH = 110


@checked
def generate_code(knl: LoopKernel, target: str | Target = "cuda", *, layout: Layout | None = None,
                  verify: bool | str | None = None) -> GeneratedCode:
    """Generate the source text of *knl* for a target, after the checks of :func:`loopkit.verify`.

    :arg target: ``"cuda"``, ``"opencl"``, ``"c"``, or a target object (``lk.CudaTarget(arch="sm_80")``).
    :arg layout: the memory layout of the arrays; default: the declared one, else C order; 32-bit indices.
    :arg verify: ``False`` (or ``"off"``): no checks; ``True`` (or ``"on"``): the checks; ``"full"``: also translation
        validation; ``None``: as set in the options of the kernel. The head of a CUDA text lists the claims that are
        proven, and those that are not.
    :raises PreconditionError: *target* or *verify* does not exist.
    :raises TypeInferenceError: a dtype is unknown; see :func:`loopkit.add_dtypes`.
    :raises BoundsError: an access is outside its array for some sizes.
    :raises VerificationError, IllegalTransformError: another check refutes the kernel; also the errors of
        :func:`loopkit.lower`.
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
        code = write_code(lowered, chosen, layout if layout is not None else Layout.declared(lowered.kernel), head)
        # a step may have lowered its result before it was in the history
        return replace(code, kernel=lowered.kernel.with_history(knl.history, lowered.kernel.given_pairs))


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
