"""One cache directory and many processes: at once, killed, out of space, without permission, evicting.

The processes are real ones that run kernels through the public interface, forked from one that has imported loopkit.
Their compiler is a script that writes a line to a log and then becomes the real one, so that compilations can be
counted.
"""
from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from loopkit.runtime import cache as cache_module
from loopkit.runtime.cache import DiskCache
from loopkit.runtime.compiler import find_compiler

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals, users and limits of POSIX")

#: Run before each program: ``check(c)`` runs a kernel of its own for each *c*.
PRELUDE = """\
import json, os, resource, signal, sys, time, warnings
from pathlib import Path
import numpy as np
import loopkit as lk
from loopkit.runtime import cache as cache_module, compiler, host

compiler.SAFE = compiler.SAFE[-1:]                     # -O0, which tries a compiler in no time
kept = []

def check(c):
    knl = lk.make_kernel("{[i]: 0<=i<n}", f"y[i] = {c}*x[i] + i")
    kept.append((c, knl))
    x = np.arange(5.0)
    assert (knl(x=x).y == c*x + np.arange(5)).all()

def within_limit(size, write=cache_module._write):
    \"\"\"Files of the cache end after *size* bytes.\"\"\"
    def limited(path, content):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            write(path, content)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    cache_module._write = limited

with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
"""
REPORT = "\nprint(json.dumps([str(w.message) for w in warned]))\n"

#: Starts a process for each line with a program, and waits for it at a line with its number.
SERVER = """
import json, os, sys, traceback
import numpy, loopkit, loopkit.runtime.host, loopkit.verification.checks

for line in sys.stdin:
    request = json.loads(line)
    if isinstance(request, int):
        print(os.waitstatus_to_exitcode(os.waitpid(request, 0)[1]), flush=True)
        continue
    child = os.fork()
    if child:
        print(child, flush=True)
        continue
    for number, name in (1, "out"), (2, "err"):
        os.dup2(os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.chdir(request["place"])
    os.environ.update(request["environment"])
    status = 1
    try:
        exec(compile(request["program"], "<program>", "exec"), {"__name__": "__main__"})
        status = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
"""


@dataclass(frozen=True)
class Ended:
    """A process that is over.

    :ivar warnings: their texts; ``None`` where it was killed.
    """

    status: int
    warnings: list[str] | None


class Processes:
    """Starts programs on one cache directory."""

    def __init__(self, place: Path, server: subprocess.Popen[str]) -> None:
        self.server = server
        self.cache = DiskCache(place / "cache")
        self.place = place
        self._log = place / "compiled"
        self._log.touch()
        self._compiler = place / "logging-cc"
        self._compiler.write_text(f'#!/bin/sh\necho "$*" >> {self._log}\nexec {find_compiler().command[0]} "$@"\n')
        self._compiler.chmod(0o755)

    def at_once(self, programs: Sequence[str]) -> list[Ended]:
        """Run *programs* side by side."""
        started = [self._start(program, number) for number, program in enumerate(programs)]
        return [self._ended(*process) for process in started]

    def run(self, program: str) -> Ended:
        ended, = self.at_once([program])
        return ended

    def compilations(self) -> int:
        """How many translation units were compiled since this was asked last; being asked for a version is none."""
        lines = [line for line in self._log.read_text().splitlines() if ".c" in line]
        self._log.write_text("")
        return len(lines)

    def _start(self, program: str, number: int) -> tuple[int, Path, Path]:
        text = PRELUDE + "".join(f"    {line}\n" for line in program.strip().splitlines()) + REPORT
        out, err = (self.place / f"{name}{number}" for name in ("out", "err"))
        return self._answer({"program": text, "place": str(self.place), "out": str(out), "err": str(err),
                             "environment": {"CC": str(self._compiler), "LOOPKIT_CACHE_DIR": str(self.cache.directory)}
                             }), out, err

    def _ended(self, process: int, out: Path, err: Path) -> Ended:
        status = self._answer(process)
        assert not err.read_text(), err.read_text()
        return Ended(status, json.loads(out.read_text()) if status == 0 else None)

    def _answer(self, request: object) -> int:
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        return int(self.server.stdout.readline())


QUIET = Ended(0, [])


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", SERVER], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}) as found:
        yield found


@pytest.fixture
def processes(tmp_path: Path, server: subprocess.Popen[str]) -> Processes:
    return Processes(tmp_path, server)


@pytest.fixture
def open_place() -> Iterator[Path]:
    """Where other users may go too, which pytest's own directories do not allow."""
    with tempfile.TemporaryDirectory(prefix="loopkit-test-") as name:
        place = Path(name)
        place.chmod(0o755)
        yield place


def leftovers(cache: DiskCache) -> list[Path]:
    return [p for p in cache.directory.iterdir() if p.name.startswith(cache_module._TEMPORARY)]


def objects(cache: DiskCache) -> list[Path]:
    return [p for p in cache.directory.glob("*.loopkit") if not p.name.startswith("compiler-")]


def test_second_process_compiles_nothing(processes: Processes) -> None:
    assert processes.run("check(1); check(2)") == QUIET
    assert processes.compilations() >= 2
    assert processes.run("check(1); check(2)") == QUIET
    assert processes.compilations() == 0


@pytest.mark.deep
def test_eight_processes_on_a_cold_cache(processes: Processes) -> None:
    assert processes.at_once(["check(1)"] * 8) == [QUIET] * 8
    assert not leftovers(processes.cache)
    processes.compilations()
    assert processes.run("check(1)") == QUIET
    assert processes.compilations() == 0


# Killed

@pytest.mark.parametrize(("when", "left"), [
    # the default action of the signal for a file that grows too large is the end of the process, amid the write
    pytest.param("signal.signal(signal.SIGXFSZ, signal.SIG_DFL); within_limit(4096)", 4096, id="amid-the-object"),
    pytest.param("""\
def kill(self, target, replace=Path.replace):
    if not target.name.startswith("compiler-"):
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(self, target)
Path.replace = kill""", None, id="before-the-object"),
])
@pytest.mark.deep(every=3)
def test_killed_writer(processes: Processes, when: str, left: int | None) -> None:
    # the core of a killed process would be written to the directory that the tests are run in
    ended = processes.run(f"resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n{when}\ncheck(1)")
    assert ended.status in (-signal.SIGKILL, -signal.SIGXFSZ)
    leftover, = leftovers(processes.cache)
    assert left is None or leftover.stat().st_size == left
    processes.compilations()
    assert processes.run("check(1); host.load_library.cache_clear(); check(1)") == QUIET
    assert processes.compilations() == 1
    assert leftovers(processes.cache) == [leftover]

# Places that cannot be used

def test_files_that_cannot_grow(processes: Processes) -> None:
    ended = processes.run("""
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
within_limit(4096)
check(1); check(2); check(1)""")
    assert ended.warnings is not None
    assert len(ended.warnings) == 1
    assert "cannot be written (File too large); compiled kernels are not kept." in ended.warnings[0]
    assert not leftovers(processes.cache)
    assert not objects(processes.cache)


@contextlib.contextmanager
def mounted(place: Path, options: str) -> Iterator[None]:
    """A file system of its own in memory."""
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=700,{options}", "tmpfs", str(place)],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_full_disk(processes: Processes) -> None:
    cache = processes.cache
    with mounted(cache.directory, "size=48k"):
        ended = processes.run("for c in range(5): check(c)")
        assert ended.warnings is not None
        assert len(ended.warnings) == 1
        assert "cannot be written (No space left on device)" in ended.warnings[0]
        assert not leftovers(cache)
        fitting = len(objects(cache))
        assert 1 <= fitting < 5
        processes.compilations()
        assert len(processes.run("for c in range(5): check(c)").warnings or []) == 1
        assert processes.compilations() == 5 - fitting


def test_directory_from_which_nothing_may_be_executed(processes: Processes) -> None:
    with mounted(processes.cache.directory, "size=1m,noexec"):
        assert processes.run("check(1)") == QUIET
        processes.compilations()
        assert processes.run("check(1)") == QUIET
        assert processes.compilations() == 0


def test_read_only_directory(open_place: Path, server: subprocess.Popen[str]) -> None:
    processes = Processes(open_place, server)
    (open_place / "compiled").chmod(0o666)
    assert processes.run("check(1)") == QUIET
    processes.cache.directory.chmod(0o555)
    for file in processes.cache.directory.iterdir():
        file.chmod(0o444)
    # no mode keeps root from writing. Another user may not be able to read Python's files: all are imported before
    warm = open_place / "warm"
    become_another = f"""
os.environ["LOOPKIT_CACHE_DIR"] = {str(warm)!r}
check(0)
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
os.environ["LOOPKIT_CACHE_DIR"] = {str(processes.cache.directory)!r}
host.load_library.cache_clear()
"""
    assert processes.run(become_another) == QUIET
    processes.compilations()
    assert processes.run(f"{become_another}check(1)") == QUIET
    assert processes.compilations() == 0               # what is there is used, also where it is root's
    ended = processes.run(f"{become_another}check(1); check(2); check(3)")
    assert ended.warnings is not None
    assert len(ended.warnings) == 1
    assert "cannot be written (Permission denied)" in ended.warnings[0]
    assert processes.compilations() == 2
    processes.cache.directory.chmod(0o755)


def test_directory_that_others_can_write_to(processes: Processes) -> None:
    processes.cache.directory.mkdir()
    processes.cache.directory.chmod(0o777)
    ended = processes.run("check(1); check(2)")
    assert ended.warnings is not None
    assert len(ended.warnings) == 1
    assert "can be written to by others (mode 777" in ended.warnings[0]
    assert not list(processes.cache.directory.iterdir())

# Damage

@pytest.mark.deep
def test_garbage_in_every_file(processes: Processes) -> None:
    three = "for c in range(3): check(c)"
    assert processes.run(three) == QUIET
    dice = random.Random(0)
    for file in processes.cache.directory.iterdir():
        file.write_bytes(dice.randbytes(dice.choice([0, 10, 20_000])))
    processes.compilations()
    assert processes.run(three) == QUIET
    assert processes.compilations() > 3                # what was known about the compiler is damaged too
    assert processes.run(three) == QUIET
    assert processes.compilations() == 0


@pytest.mark.deep
def test_directory_that_vanishes_between_calls(processes: Processes) -> None:
    assert processes.run("""
import shutil
for c in range(2):
    check(c)
    shutil.rmtree(os.environ["LOOPKIT_CACHE_DIR"])
for c, knl in kept:
    assert (knl(x=np.ones(3)).y == c + np.arange(3)).all()
check(2)""") == QUIET
    assert stat.S_IMODE(processes.cache.directory.stat().st_mode) == 0o700
    assert len(objects(processes.cache)) == 1

EVICT = """
until = time.time() + 2
cache = cache_module.DiskCache(cache_module.cache_directory(), limit=20_000)
rounds = 0
while time.time() < until:
    for key in ("a", "b", "c"):
        content = bytes([rounds % 256]) * 6000
        cache.put(key, content, {"first": content[0]})
        entry = cache.lookup(key)
        assert entry is None or entry[0] == bytes([entry[1]["first"]]) * 6000
    rounds += 1
"""
LOAD = """
until = time.time() + 2
rounds = 0
while time.time() < until or rounds < 3:
    host.load_library.cache_clear()
    for c in range(2):
        check(c)
    rounds += 1
    for c, knl in kept:      # evicted long since, and in use
        assert (knl(x=np.ones(3)).y == c + np.arange(3)).all()
"""


@pytest.mark.deep
def test_two_evict_while_two_load(processes: Processes) -> None:
    assert processes.run("check(0); check(1)") == QUIET
    processes.compilations()
    assert processes.at_once([EVICT, EVICT, LOAD, LOAD]) == [QUIET] * 4
    assert not leftovers(processes.cache)
    assert processes.compilations() > 2                # entries did go, and came back
    DiskCache(processes.cache.directory, limit=20_000).put("last", b"x" * 1000, {})
    assert processes.cache.size()[1] <= 20_000
