"""The public checks of a kernel, and the report of all of them."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from loopkit.errors import UndecidedError, VerificationError
from loopkit.kernel.annotations import checked
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.target import Machine, Target, resolve_target
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lowered_once
from loopkit.poly.limits import bounded, kept
from loopkit.verification.bounds import bounds
from loopkit.verification.conflicts import Conflicts
from loopkit.verification.coverage import coverage
from loopkit.verification.dependence_order import legal, order
from loopkit.verification.races import barriers, races
from loopkit.verification.report import Check, Report, refuted, undecided
from loopkit.verification.validation import validate


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


# {{{ the checks of a subject

def _program(subject: Subject) -> Check:
    """Translation validation."""
    found = tuple(undecided(str(f)) if f.kind == "undecided" else refuted(VerificationError(str(f), check="program"))
                  for f in validate(subject.lowered))
    return Check("program", "the loop program does what the launches say", found, claim="program")


Checker = Callable[[Subject], Check]

#: The checks before code generation, in this order, and last the additional one of ``verify="full"``.
CHECKS: dict[str, Checker] = {
    "order": lambda subject: order(subject.kernel, subject.lowered),
    "bounds": lambda subject: bounds(subject.lowered),
    "coverage": lambda subject: coverage(subject.lowered),
    "races": lambda subject: races(subject.launches),
    "barriers": lambda subject: barriers(subject.launches, subject.lowered.program.functions),
    "program": _program}

# }}}


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


def _one(knl: LoopKernel, target: str | Target | None, name: str) -> Report:
    subject = subject_of(knl, resolve_target(target).machine)
    return Report(knl.name, (_made(subject, name),))


def subject_of(knl: LoopKernel, machine: Machine) -> Subject:
    """*knl* lowered for *machine*; all callers share the results of its checks."""
    return kept(knl.memo, ("verified subject", machine), lambda: Subject(knl, lowered_once(knl, machine)))


# {{{ public checks

@checked
def verify(knl: LoopKernel, target: str | Target | None = None, *, full: bool = False) -> Report:
    """Check *knl* and its lowered form: order, bounds, coverage, races and barriers.

    A refutation raises nothing: read the report, or call its ``raise_if_refuted``.

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
      races     proven     y: written and seen by several threads
      barriers  proven     none
    """
    return report_of(subject_of(knl, resolve_target(target).machine), full=full)


@checked
def check_legal(knl: LoopKernel) -> Report:
    """Does the order of *knl*, with its parallel inames, keep every dependence?

    >>> knl = lk.make_kernel("{[i]: 1<=i<n}", "a[i] = a[i-1] + b[i]")
    >>> print(lk.check_legal(knl))
    kernel 'kernel': proven
      order     proven     1 dependence
    """
    return Report(knl.name, (_decided(knl, "order", lambda: legal(knl)),))


@checked
def check_races(knl: LoopKernel, target: str | Target | None = None) -> Report:
    """Do two threads access one element without an order, one of them writing?

    The check examines the lowered kernel with its barriers: threads of one block on shared and global memory, and
    blocks of one launch on global memory.

    >>> knl = lk.make_kernel("{[i,j]: 0<=i,j<64}", "<> t[i] = x[i]\\ny[j] = t[63-j]", name="reversed")
    >>> knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "i:l.0, j:l.0")
    >>> print(lk.check_races(knl))
    kernel 'reversed': proven
      races     proven     t, y: written and seen by several threads
    """
    return _one(knl, target, "races")


@checked
def check_bounds(knl: LoopKernel, target: str | Target | None = None) -> Report:
    """Does every access stay inside its array, for all sizes that the assumptions allow?

    Temporaries have the shape of their allocated storage.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i-1]", name="shifted")
    >>> print(lk.check_bounds(lk.add_dtypes(knl, {"x": np.float32})))
    kernel 'shifted': refuted
      bounds    refuted    2 accesses
          refuted: 'insn' accesses 'x' outside its shape.
            with n = 1: insn[i=0] accesses x[-1]
    """
    return _one(knl, target, "bounds")


@checked
def check_coverage(knl: LoopKernel, target: str | Target | None = None) -> Report:
    """List the elements of the outputs that are written, and prove that no temporary is read before it is written.

    An output may be written in part, and an element more than once; the report notes both.

    >>> knl = lk.make_kernel("{[i]: 1<=i<n-1}", "out[i] = a[i-1] + a[i+1]", name="ends")
    >>> print(lk.check_coverage(lk.add_dtypes(knl, {"a": np.float32})))
    kernel 'ends': proven
      coverage  proven     no temporaries
          out: not every element is written; with n = 1: out[0] is not
    """
    return _one(knl, target, "coverage")


@checked
def check_barriers(knl: LoopKernel, target: str | Target | None = None) -> Report:
    """List the conflicts that each barrier of the lowered kernel orders, missing barriers, and needless ones.

    A barrier that not all threads of a block execute is refuted.

    >>> knl = lk.make_kernel("{[i,j]: 0<=i,j<64}", "<> t[i] = x[i]\\ny[j] = t[63-j]", name="reversed")
    >>> knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "i:l.0, j:l.0")
    >>> print(lk.check_barriers(knl))
    kernel 'reversed': proven
      barriers  proven     1, each needed
          reversed: barrier
            t: insn writes, insn_0 reads
    """
    return _one(knl, target, "barriers")

# }}}
