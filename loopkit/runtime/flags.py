"""The flags of a host compiler: the fastest with which it compiles the trial loops correctly.

By default loops stay as the text has them. GCC's transformations of loops rest on a dependence analysis with repeated
faults (12 and 13: iterations that write one element are mixed; 12: elements written under a condition are lost), and
results must not depend on it. Straight-line code becomes vectors, and so does a loop over a ``vec`` iname after
unrolling.
"""
from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loopkit.runtime import miscompiled_loops
from loopkit.runtime.processes import run_quietly

#: Contraction to fused multiply-adds is off, so one expression gives one result for any tiling: variants of a kernel
#: can be compared bit for bit. Signed integers wrap around like numpy's. ``errno`` is not set.
BASE_FLAGS = ("-std=c11", "-fPIC", "-shared", "-ffp-contract=off", "-fwrapv", "-fno-math-errno")
LIBRARIES = ("-lm",)
Rungs = tuple[tuple[str, ...], ...]
OPENMP = "-fopenmp"
NATIVE = "-march=native"

#: No transformation that moves iterations of a loop or an access between iterations. Clang accepts the first two: they
#: turn off its loop vectorizer and keep its vectorizer of straight-line code.
_LOOPS_AS_WRITTEN = ("-fno-tree-vectorize", "-ftree-slp-vectorize", "-fno-loop-interchange", "-fno-loop-unroll-and-jam",
                     "-fno-tree-loop-if-convert", "-fno-tree-loop-distribution", "-fno-tree-loop-distribute-patterns",
                     "-fno-predictive-commoning")
_NO_VECTORS = (*_LOOPS_AS_WRITTEN, "-fno-tree-slp-vectorize")

#: Faulty transformations of GCC 12.
_RISKY_OFF = ("-fno-loop-unroll-and-jam", "-fno-tree-loop-if-convert")

#: Flags to try, the fastest first: everything at ``-O3``, for ``CTarget(fast=True)``,
FAST: Rungs = (("-O3", NATIVE), ("-O3", NATIVE, *_RISKY_OFF), ("-O3", *_RISKY_OFF))
#: and the default.
SAFE: Rungs = (("-O3", NATIVE, *_LOOPS_AS_WRITTEN), ("-O3", *_LOOPS_AS_WRITTEN), ("-O2", *_NO_VECTORS),
               ("-O1", *_NO_VECTORS), ("-O0",))

#: Time limit of the trial program in seconds; it normally takes 0.01.
_TIMEOUT = 60

_SMALL = """\
#include <math.h>
#ifdef _OPENMP
#include <omp.h>
#endif
int main(int argc, char **argv)
{
    (void)argv;
    double total = 0;
    #pragma omp parallel for reduction(+: total)
    for (int i = 0; i < 64; ++i) total += sqrt((double)(i * argc));
    return !(total > 0);
}
"""


@dataclass(frozen=True)
class Dropped:
    """Flags with which a compiler fails its trial.

    :ivar faults: the miscompiled loops; empty if the program was not compiled, or did not run.
    """

    flags: tuple[str, ...]
    faults: tuple[str, ...]

    def __str__(self) -> str:
        return f"{' '.join(self.flags)} {self.reason}"

    @property
    def reason(self) -> str:
        return f"miscompiles {', '.join(self.faults)}" if self.faults else "gives no program that runs"


@dataclass(frozen=True)
class Trial:
    """The result of a compiler's trial.

    :ivar flags: the flags with which it passes, beyond ``BASE_FLAGS``; ``None``: there are none.
    :ivar dropped: the faster flags with which it fails.
    """

    flags: tuple[str, ...] | None
    dropped: tuple[Dropped, ...] = ()

    @property
    def reproducible(self) -> bool:
        """Is the result reproducible? A full disk or a killed process is not."""
        return all(d.faults for d in self.dropped)


def tried(command: Sequence[str], rungs: Rungs, options: tuple[str, ...] = ()) -> Trial:
    """Try *rungs* of flags, from the first to the first that passes the trial.

    :arg options: more flags, added to each rung. A flag of a rung that the compiler does not accept is left out; such a
        flag among *options* is a failure.
    """
    known = set(accepted(command, [*dict.fromkeys(f for rung in rungs for f in (*rung, OPENMP))], strict=True))
    dropped: list[Dropped] = []
    for rung in dict.fromkeys(tuple(dict.fromkeys(f for f in (*rung, OPENMP) if f in known)) for rung in rungs):
        faults = faults_of(command, (*rung, *options))
        if faults == ():
            return Trial((*rung, *options), tuple(dropped))
        dropped.append(Dropped((*rung, *options), faults or ()))
    return Trial(None, tuple(dropped))


def faults_of(command: Sequence[str], flags: Sequence[str]) -> tuple[str, ...] | None:
    """The loops that a compiler miscompiles with *flags*; ``None``: there is no program, or it does not run."""
    with tempfile.TemporaryDirectory(prefix="loopkit-") as place:
        program = _built(Path(place), command, miscompiled_loops.program(), flags)
        if program is None:
            return None
        done = run_quietly([program], timeout=_TIMEOUT)
        faults = miscompiled_loops.faults(done.stdout)
        return faults if faults or done.returncode == 0 else None


def accepted(command: Sequence[str], flags: Sequence[str], *, strict: bool) -> tuple[str, ...]:
    """The *flags* with which a small program compiles and runs.

    :arg strict: reject a flag that the compiler warns about because it has no effect.
    """
    with tempfile.TemporaryDirectory(prefix="loopkit-") as place:
        return tuple(_accepted(Path(place), command, tuple(flags), ("-Werror",) if strict else ()))


def _accepted(place: Path, command: Sequence[str], flags: tuple[str, ...], strict: tuple[str, ...]) -> Iterator[str]:
    program = _built(place, command, _SMALL, (*flags, *strict))
    if program is not None and run_quietly([program], timeout=_TIMEOUT).returncode == 0:
        yield from flags
    elif len(flags) > 1:                               # usually all are accepted, or none of one compiler's spelling
        middle = len(flags) // 2
        yield from _accepted(place, command, flags[:middle], strict)
        yield from _accepted(place, command, flags[middle:], strict)


def _built(place: Path, command: Sequence[str], text: str, flags: Sequence[str]) -> str | None:
    source, program = place / "probe.c", place / "probe"
    source.write_text(text)
    program.unlink(missing_ok=True)
    base = [f for f in BASE_FLAGS if f != "-shared"]
    done = run_quietly([*command, *base, *flags, "-o", str(program), str(source), *LIBRARIES])
    return str(program) if done.returncode == 0 and program.exists() else None
