"""The host's C compiler: search, trial of its flags, and compilation; what all compilers share.

A compiler gets the fastest flags with which it compiles the trial loops correctly. By default loops stay as the text
has them. GCC's transformations of loops rest on a dependence analysis with repeated faults (12 and 13: iterations that
write one element are mixed; 12: elements written under a condition are lost), and results must not depend on it.
Straight-line code becomes vectors, and so does a loop over a ``vec`` iname after unrolling.
"""
from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Generic, ParamSpec, TypeVar

from loopkit.errors import CompilerError
from loopkit.runtime.cache import DiskCache
from loopkit.target.c.target import CTarget

#: Contraction to fused multiply-adds is off, so one expression gives one result for any tiling: variants of a kernel
#: can be compared bit for bit. Signed integers wrap around like numpy's. ``errno`` is not set.
BASE_FLAGS = ("-std=c11", "-fPIC", "-shared", "-ffp-contract=off", "-fwrapv", "-fno-math-errno")
LIBRARIES = ("-lm",)
Rungs = tuple[tuple[str, ...], ...]
P = ParamSpec("P")
T = TypeVar("T")

#: Tells of each kernel, at the level DEBUG, whether it is compiled or taken from memory or from the disk.
LOG = logging.getLogger("loopkit")
COMPILED, FROM_CACHE = "Kernel %s compiled", "Kernel %s retrieved from cache"

OPENMP = "-fopenmp"
NATIVE = "-march=native"
#: Fused multiply-adds, for ``CTarget(contract=True)``.
CONTRACT = "-ffp-contract=fast"

#: No transformation that moves iterations of a loop or an access between iterations. Clang accepts the first two: they
#: turn off its loop vectorizer and keep its vectorizer of straight-line code. SIMD loops become vectors
#: nevertheless, and GCC computes both values of a conditional expression there (if-conversion).
_LOOPS_AS_WRITTEN = ("-fno-tree-vectorize", "-ftree-slp-vectorize", "-fno-loop-interchange", "-fno-loop-unroll-and-jam",
                     "-fno-tree-loop-distribution", "-fno-tree-loop-distribute-patterns", "-fno-predictive-commoning")
_NO_VECTORS = (*_LOOPS_AS_WRITTEN, "-fno-tree-slp-vectorize")

#: Faulty transformations of GCC 12.
_RISKY_OFF = ("-fno-loop-unroll-and-jam", "-fno-tree-loop-if-convert")

#: Flags to try, the fastest first: everything at ``-O3``, for ``CTarget(fast=True)``,
FAST: Rungs = (("-O3", NATIVE), ("-O3", NATIVE, *_RISKY_OFF), ("-O3", *_RISKY_OFF))
#: and the default.
SAFE: Rungs = (("-O3", NATIVE, *_LOOPS_AS_WRITTEN), ("-O3", *_LOOPS_AS_WRITTEN), ("-O2", *_NO_VECTORS),
               ("-O1", *_NO_VECTORS), ("-O0",))

#: Time limits in seconds of the trial program, which normally takes 0.01, and of compilers.
_TIMEOUT, _LONGEST = 60, 300
#: Most lines of a compiler's log in an error.
_MOST_LINES = 40

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
    """Flags with which a compiler fails its trial: *faults* are the miscompiled loops; none if no program ran."""

    flags: tuple[str, ...]
    faults: tuple[str, ...]

    def __str__(self) -> str:
        return f"{' '.join(self.flags)} {self.reason}"

    @property
    def reason(self) -> str:
        return f"miscompiles {', '.join(self.faults)}" if self.faults else "gives no program that runs"


@dataclass(frozen=True)
class HostCompiler:
    """A C compiler after its trial.

    :ivar command: the command (``("gcc",)``, ``(python, "-m", "ziglang", "cc")``).
    :ivar chosen: its flags beyond ``BASE_FLAGS``.
    :ivar dropped: the flags with which it fails, the plainest last.
    :ivar fit: it passes with *chosen*; else it fails with all flags.
    """

    command: tuple[str, ...]
    version: str
    chosen: tuple[str, ...]
    dropped: tuple[Dropped, ...] = ()
    fit: bool = True

    def __str__(self) -> str:
        return f"The C compiler '{' '.join(self.command)}' ({self.version})"

    @property
    def flags(self) -> tuple[str, ...]:
        return (*BASE_FLAGS, *self.chosen)

    @property
    def openmp(self) -> bool:
        """Does a program with ``-fopenmp`` link and run?"""
        return OPENMP in self.chosen

    @property
    def native(self) -> bool:
        """Are programs compiled for the machine's own processor?"""
        return NATIVE in self.chosen

    @property
    def identity(self) -> str:
        """Everything but the source that the compiled object depends on."""
        return "\n".join([*self.command, self.version, *self.flags, platform.platform(), platform.machine(),
                          _processor() if self.native else ""])

    def compile(self, source: str, kernel: str) -> bytes:
        """The shared object of *source*; :raises CompilerError: the compiler rejects it or does not run."""
        content, log = translated([*self.command, *self.flags], source, "kernel.c", LIBRARIES)
        if content is None:
            raise rejected(f"The C compiler ({self.version or self.command[0]})", kernel, source, log,
                           r"kernel\.c:(\d+):(?:\d+:)? (?:fatal )?error",
                           hint="generate_code(knl, target='c') shows the whole text")
        return content


@cache
def trial_program() -> str:
    """The C text of the trial; the program prints a line for each loop: its name, then ``right`` or ``wrong``."""
    return Path(__file__).with_name("miscompiled_loops.c").read_text(encoding="utf-8")


def faults_in(printed: str) -> tuple[str, ...]:
    """The miscompiled loops in the trial program's output, and the last one if the program crashed in it."""
    lines = (line.partition(" ") for line in printed.splitlines())
    return tuple(name for name, _, verdict in lines if verdict != "right")


def tried(command: tuple[str, ...], version: str, rungs: Rungs, options: tuple[str, ...] = ()) -> HostCompiler:
    """Try *rungs* of flags, from the first to the first that passes the trial.

    :arg options: more flags, added to each rung. A flag of a rung that the compiler does not accept is left out; such a
        flag among *options* is a failure.
    """
    known = set(accepted(command, [*dict.fromkeys(f for rung in rungs for f in (*rung, OPENMP))], strict=True))
    dropped: list[Dropped] = []
    for rung in dict.fromkeys(tuple(dict.fromkeys(f for f in (*rung, OPENMP) if f in known)) for rung in rungs):
        faults = faults_of(command, (*rung, *options))
        if faults == ():
            return HostCompiler(command, version, (*rung, *options), tuple(dropped))
        dropped.append(Dropped((*rung, *options), faults or ()))
    return HostCompiler(command, version, (), tuple(dropped), fit=False)


def faults_of(command: Sequence[str], flags: Sequence[str]) -> tuple[str, ...] | None:
    """The loops that a compiler miscompiles with *flags*; ``None``: there is no program, or it does not run."""
    done = _run(command, trial_program(), flags)
    faults = faults_in(done.stdout)
    return faults if faults or done.returncode == 0 else None


def accepted(command: Sequence[str], flags: Sequence[str], *, strict: bool) -> tuple[str, ...]:
    """The *flags* with which a small program compiles and runs; *strict*: and without a warning."""
    if _run(command, _SMALL, (*flags, "-Werror") if strict else flags).returncode == 0:
        return tuple(flags)
    if len(flags) <= 1:
        return ()
    middle = len(flags) // 2                           # usually all are accepted, or none of one compiler's spelling
    return accepted(command, flags[:middle], strict=strict) + accepted(command, flags[middle:], strict=strict)


def _run(command: Sequence[str], text: str, flags: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """The run of the program *text*; a failure without output if it is not compiled."""
    with tempfile.TemporaryDirectory(prefix="loopkit-") as place:
        source, program = Path(place, "probe.c"), Path(place, "probe")
        source.write_text(text)
        base = [f for f in BASE_FLAGS if f != "-shared"]
        done = run_quietly([*command, *base, *flags, "-o", str(program), str(source), *LIBRARIES])
        if done.returncode != 0:
            return subprocess.CompletedProcess(command, done.returncode, "")
        return run_quietly([str(program)], timeout=_TIMEOUT)


def find_compiler(target: CTarget | None = None, cache: DiskCache | None = None) -> HostCompiler:
    """The host's C compiler for *target*: the target's own, else the first that works of ``$CC``, ``cc``, ``gcc``,
    ``clang`` and the ``ziglang`` wheel.

    :raises CompilerError: there is none, the target's own does not work, or it fails the trial loops with the options
        of *target*.
    """
    return _find(target or CTarget(), os.environ.get("CC"), os.environ.get("PATH"), cache, SAFE, FAST)


@lru_cache(maxsize=64)
def _find(target: CTarget, chosen: str | None, path: str | None, cache: DiskCache | None, safe: Rungs, fast: Rungs
          ) -> HostCompiler:
    # the environment is part of the key, so that a change of it has an effect
    rungs = (*fast, *safe) if target.fast else safe
    candidates = [tuple(shlex.split(target.compiler))] if target.compiler else list(_compiler_commands(chosen))
    unfit: list[HostCompiler] = []
    for command in candidates:
        found = _probe(command, cache, rungs)
        if found is not None and found.fit:
            own = _with_options(found, target.options, cache) if target.options else found
            # the trial compares bits, which differ by the rounding of products
            return replace(own, chosen=(*own.chosen, CONTRACT)) if target.contract else own
        unfit += [found] if found is not None else []
    if unfit:
        raise CompilerError(f"{unfit[0]} cannot be used: {unfit[0].dropped[-1]}.",
                            hint="take another one: CTarget(compiler='clang'), or $CC")
    if target.compiler:
        raise CompilerError(f"The C compiler '{target.compiler}' does not compile a small program.",
                            hint="check its name, or leave it out to have one found")
    raise CompilerError("No C compiler was found, and the host C target needs one.",
                        hint="install gcc or clang (on Debian: apt install gcc), set $CC, or take the compiler that "
                             "comes as a wheel: pip install 'loopkit[host]'")


def available_compilers(cache: DiskCache | None = None, *, fast: bool = False) -> tuple[HostCompiler, ...]:
    """Every compiler that :func:`find_compiler` tries, in its order; it takes the first that passes its trial."""
    rungs = (*FAST, *SAFE) if fast else SAFE
    found = (_probe(command, cache, rungs) for command in _compiler_commands(os.environ.get("CC")))
    return tuple(c for c in found if c is not None)


def _compiler_commands(chosen: str | None) -> list[tuple[str, ...]]:
    commands = [tuple(shlex.split(chosen or "")), ("cc",), ("gcc",), ("clang",)]
    if importlib.util.find_spec("ziglang") is not None:
        commands.append((sys.executable, "-m", "ziglang", "cc"))
    return [c for c in dict.fromkeys(commands) if c]


def _probe(command: tuple[str, ...], cache: DiskCache | None, rungs: Rungs) -> HostCompiler | None:
    """*command* after its trial, or ``None`` if it cannot compile and run a program."""
    executable = shutil.which(command[0])
    if executable is None:
        return None
    command = (executable, *command[1:])
    shown = run_quietly([*command, "--version"])
    if shown.returncode != 0:
        return None
    version = (shown.stdout.splitlines() or [""])[0].strip()
    found = _trial(command, version, cache, rungs)
    return found if found.fit or found.dropped[-1].faults else None


def _with_options(compiler: HostCompiler, options: tuple[str, ...], cache: DiskCache | None) -> HostCompiler:
    """*compiler* with the user's *options*, if it passes the trial loops with them."""
    trial = _trial(compiler.command, compiler.version, cache, (compiler.chosen,), options)
    if trial.fit:
        return replace(compiler, chosen=trial.chosen)
    if not trial.dropped[-1].faults:
        known = accepted(compiler.command, options, strict=False)
        unknown = [o for o in options if o not in known] or options
        raise CompilerError(f"{compiler} cannot build a program with {', '.join(map(repr, unknown))}.",
                            hint="leave that out of CTarget(options=...)")
    guilty = [o for o in options if faults_of(compiler.command, (*compiler.chosen, o))] or options
    raise CompilerError(f"{compiler} with {', '.join(map(repr, guilty))} {trial.dropped[-1].reason}.",
                        hint="leave that out of CTarget(options=...): results would be wrong")


#: Trials of this process, by the same keys as on the disk.
_trials: dict[str, HostCompiler] = {}


def _trial(command: tuple[str, ...], version: str, cache: DiskCache | None, rungs: Rungs,
           options: tuple[str, ...] = ()) -> HostCompiler:
    """The compiler after its trial, whose result is kept for later processes."""
    parts = (*command, version, platform.platform(), _processor(), trial_program(), *BASE_FLAGS,
             *(" ".join(rung) for rung in rungs), "", *options, loopkit_version())
    key = "compiler-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()
    entry = cache.lookup(key) if cache is not None else None
    if entry is not None:
        _, kept = entry
        dropped = tuple(Dropped(tuple(flags), tuple(faults)) for flags, faults in kept["dropped"])
        return HostCompiler(command, version, tuple(kept["flags"]), dropped, kept["fit"])
    found = _trials.get(key) or tried(command, version, rungs, options)
    # no program at all is not reproducible: the disk was full, or a process was killed
    if all(d.faults for d in found.dropped):
        _trials[key] = found
        if cache is not None:
            cache.put(key, b"", {"command": list(command), "version": version, "flags": found.chosen, "fit": found.fit,
                                 "dropped": [[d.flags, d.faults] for d in found.dropped]})
    return found


@lru_cache(maxsize=1)
def _processor() -> str:
    """The identity of the processor: an object made with ``-march=native`` on one may not run on another."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return platform.processor()
    first = text.split("\n\n", 1)[0]
    return "\n".join(line for line in first.splitlines()
                     if line.startswith(("model name", "flags", "Features", "CPU part")))


# Shared by all compilers: running them, the text shown to the user, the error if it is rejected

def run_quietly(command: Sequence[str], timeout: float = _LONGEST) -> subprocess.CompletedProcess[str]:
    """Run *command* with messages in English; a start that fails, or more than *timeout* seconds, is an exit status."""
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout, check=False,
                              stdin=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"})
    except (subprocess.TimeoutExpired, OSError) as err:
        output = getattr(err, "stdout", None) or ""
        text = output if isinstance(output, str) else output.decode(errors="replace")
        return subprocess.CompletedProcess(command, 127, text, str(err))


def translated(command: Sequence[str], source: str, name: str, libraries: Sequence[str] = ()
               ) -> tuple[bytes | None, str]:
    """The file that a compiler makes of *source*, or ``None``, and the log, in which the text is called *name*."""
    with tempfile.TemporaryDirectory(prefix="loopkit-") as place:
        text, result = Path(place, name), Path(place, "kernel.so")
        text.write_text(source, encoding="utf-8")
        done = run_quietly([*command, "-o", str(result), str(text), *libraries])
        log = (done.stdout + done.stderr).replace(str(text), name)
        return result.read_bytes() if done.returncode == 0 and result.exists() else None, log


def rejected(compiler: str, kernel: str, source: str, log: str, error: str, *, hint: str) -> CompilerError:
    """The error for kernel *kernel* whose text is *source*.

    :arg error: a pattern of the log's first error, with a group for the number of its line.
    """
    lines, where = log.strip().splitlines()[:_MOST_LINES], ""
    found = re.search(error, log)
    if found is not None:
        line = int(found[found.lastindex or 0])
        where = f" at line {line}"
        text = source.splitlines()
        near = range(max(line - 3, 0), min(line + 2, len(text)))
        lines = [*(f"{'>' if i + 1 == line else ' '} {i + 1:4} | {text[i]}" for i in near), "", *lines]
    return CompilerError(f"{compiler} rejects the code of kernel '{kernel}'{where}.", log="\n".join(lines),
                         hint="; ".join(filter(None, (undefined_hint(log), hint))) or None)


def undefined_hint(log: str) -> str | None:
    """The hint for an unknown name in the user's code, by the *log* of a compiler or of a loader.

    >>> undefined_hint("kernel.so: undefined symbol: softplusf")
    "define 'softplusf' in the preamble= of the function whose text has it"
    """
    found = re.search(r"(?:implicit declaration of function|undeclared (?:function|identifier)|undefined symbol:|"
                      r"identifier) [\"'\u2018]?(\w+)|[\"'\u2018](\w+)[\"'\u2019] undeclared", log)
    return None if found is None else \
        f"define '{found[1] or found[2]}' in the preamble= of the function whose text has it"


class KeptInMemory(Generic[P, T]):
    """*load*, which compiles a text for the kernel that its second argument names, with its last 1024 results.

    Messages of :data:`LOG` tell whether a kernel is compiled or not: *load* logs the other ones.
    """

    def __init__(self, load: Callable[P, T]) -> None:
        self._load = lru_cache(maxsize=1024)(load)
        self.cache_clear = self._load.cache_clear

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        hits = self._load.cache_info().hits
        found = self._load(*args, **kwargs)             # type: ignore[arg-type]  # they are hashable
        if self._load.cache_info().hits > hits:
            LOG.debug(FROM_CACHE, args[1])
        return found


def dump(source: str, kernel: str, suffix: str) -> None:
    """Write a text before its compilation to ``$LOOPKIT_DUMP``, if that is set."""
    directory = os.environ.get("LOOPKIT_DUMP")
    if directory:
        place = Path(directory)
        digest = hashlib.sha256(source.encode()).hexdigest()[:12]
        try:
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{kernel}-{digest}{suffix}").write_text(source)
        except OSError as err:
            raise CompilerError(f"The text of kernel '{kernel}' cannot be written to $LOOPKIT_DUMP: {err}.",
                                hint="set it to a directory that can be written, or unset it") from None


@lru_cache(maxsize=1)
def loopkit_version() -> str:
    """The installed version of loopkit."""
    try:
        return metadata.version("loopkit")
    except metadata.PackageNotFoundError:
        return "unknown"
