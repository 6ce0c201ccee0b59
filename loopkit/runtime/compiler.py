"""The host's C compiler: finding it, asking what it can do, and calling it."""
from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import sys
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from loopkit.errors import CompilerError
from loopkit.runtime.cache import DiskCache
from loopkit.runtime.processes import run_quietly
from loopkit.runtime.rejection import rejected

#: Contraction to fused multiply-adds is off so that one expression gives one result whatever the tiling:
#: "bit for bit" comparisons between variants of a kernel mean something. Signed integers wrap around, as
#: numpy's do. ``errno`` is never read. Loops stay as they are written, as GCC miscompiles plain loops when it makes
#: vectors of them.
BASE_FLAGS = ("-O3", "-std=c11", "-fPIC", "-shared", "-ffp-contract=off", "-fwrapv",
              "-fno-math-errno", "-fno-tree-vectorize", "-ftree-slp-vectorize")
_LIBRARIES = ("-lm",)

_PROBE = """\
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
class HostCompiler:
    """A C compiler that was found and tried.

    :ivar command: how it is called (``("gcc",)``, ``(python, "-m", "ziglang", "cc")``).
    :ivar version: the first line that it says about itself.
    :ivar openmp: a program with ``-fopenmp`` links and runs.
    :ivar native: it knows ``-march=native``.
    """

    command: tuple[str, ...]
    version: str
    openmp: bool
    native: bool

    @property
    def flags(self) -> tuple[str, ...]:
        return (*BASE_FLAGS, *(("-march=native",) if self.native else ()), *(("-fopenmp",) if self.openmp else ()))

    @property
    def identity(self) -> str:
        """Everything but the source that the compiled object depends on."""
        return "\n".join([*self.command, self.version, *self.flags, platform.platform(), platform.machine(),
                          _processor() if self.native else ""])

    def compile(self, source: str, kernel: str) -> bytes:
        """The shared object of a translation unit.

        :arg kernel: the kernel's name, for the message.
        :raises CompilerError: the compiler refuses the text or does not run.
        """
        with tempfile.TemporaryDirectory(prefix="loopkit-") as place:
            text, result = Path(place, "kernel.c"), Path(place, "kernel.so")
            text.write_text(source)
            done = run_quietly([*self.command, *self.flags, "-o", str(result), str(text), *_LIBRARIES])
            if done.returncode != 0 or not result.exists():
                raise _rejected(self, kernel, source, done.stderr.replace(str(text), "kernel.c"))
            return result.read_bytes()


def find_compiler(explicit: str | None = None, cache: DiskCache | None = None) -> HostCompiler:
    """The host's C compiler: *explicit*, else the first that works of ``$CC``, ``cc``, ``gcc``, ``clang`` and the
    ``ziglang`` wheel.

    :arg cache: keeps what was found out about each compiler.
    :raises CompilerError: there is none, or *explicit* does not work.
    """
    return _find(explicit, os.environ.get("CC"), os.environ.get("PATH"), cache)


@lru_cache(maxsize=32)
def _find(explicit: str | None, chosen: str | None, path: str | None, cache: DiskCache | None) -> HostCompiler:
    # the environment is part of the key, so that a change to it is seen
    candidates = [tuple(shlex.split(explicit))] if explicit else list(_candidates(chosen))
    for command in candidates:
        compiler = _probe(command, cache)
        if compiler is not None:
            return compiler
    if explicit:
        raise CompilerError(f"The C compiler '{explicit}' does not compile a small program.",
                            hint="check its name, or leave it out to have one found")
    raise CompilerError("No C compiler was found, and the host C target needs one.",
                        hint="install gcc or clang (on Debian: apt install gcc), set $CC, or take the compiler that "
                             "comes as a wheel: pip install 'loopkit[host]'")


def available_compilers(cache: DiskCache | None = None) -> tuple[HostCompiler, ...]:
    """Every compiler that :func:`find_compiler` could take, in its order."""
    found = (_probe(command, cache) for command in _candidates(os.environ.get("CC")))
    return tuple(c for c in found if c is not None)


def _candidates(chosen: str | None) -> list[tuple[str, ...]]:
    commands = [tuple(shlex.split(chosen))] if chosen else []
    commands += [(name,) for name in ("cc", "gcc", "clang")]
    if importlib.util.find_spec("ziglang") is not None:
        commands.append((sys.executable, "-m", "ziglang", "cc"))
    return [c for c in dict.fromkeys(commands) if c]


def _probe(command: tuple[str, ...], cache: DiskCache | None) -> HostCompiler | None:
    """*command* with what it can do, or ``None`` if it cannot compile and run a program."""
    executable = shutil.which(command[0])
    if executable is None:
        return None
    command = (executable, *command[1:])
    said = run_quietly([*command, "--version"])
    if said.returncode != 0:
        return None
    version = (said.stdout.splitlines() or [""])[0].strip()
    key = "compiler-" + _hash(*command, version, platform.platform(), _processor())
    known = cache.get_record(key) if cache is not None else None
    if known is not None and isinstance(known.get("openmp"), bool) and isinstance(known.get("native"), bool):
        return HostCompiler(command, version, bool(known["openmp"]), bool(known["native"]))
    for openmp, native in ((True, True), (False, True), (True, False), (False, False)):
        compiler = HostCompiler(command, version, openmp, native)
        if _works(compiler):
            if cache is not None:
                cache.put_record(key, {"command": list(command), "version": version, "openmp": openmp,
                                       "native": native})
            return compiler
    return None


def _works(compiler: HostCompiler) -> bool:
    flags = [f for f in compiler.flags if f not in ("-shared", "-fPIC")]
    with tempfile.TemporaryDirectory(prefix="loopkit-") as place:
        source, program = Path(place, "probe.c"), Path(place, "probe")
        source.write_text(_PROBE)
        built = run_quietly([*compiler.command, *flags, "-o", str(program), str(source), *_LIBRARIES])
        return built.returncode == 0 and run_quietly([str(program)]).returncode == 0


@lru_cache(maxsize=1)
def _processor() -> str:
    """What tells processors apart: an object made with ``-march=native`` on one may not run on another."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return platform.processor()
    first = text.split("\n\n", 1)[0]
    return "\n".join(line for line in first.splitlines()
                     if line.startswith(("model name", "flags", "Features", "CPU part")))


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _rejected(compiler: HostCompiler, kernel: str, source: str, log: str) -> CompilerError:
    found = re.search(r"kernel\.c:(\d+):(?:\d+:)? (?:fatal )?error", log)
    line = None if found is None else int(found[1])
    return rejected(f"The C compiler ({compiler.version or compiler.command[0]})", kernel, source, log, line,
                    hint="generate_code(knl, target='c') shows the whole text")
