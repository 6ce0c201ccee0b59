"""What a launch costs on the host, and what the first result costs, beside the other libraries on the same kernel.

    python benchmarks/launch.py            both tables, about three minutes
    python benchmarks/launch.py --quick    fewer samples, about one minute

The kernel is z = alpha*x + y on a thousand numbers. What is not installed is left out. Medians are shown.
"""
from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import launch_first
from launch_peers import BLOCK, CONTESTANTS, PREPARED, Contestant, Launch, N, Problem, make_problem, reason

from loopkit.runtime.cuda.devices import find_gpu, why_not

ROOT = Path(__file__).resolve().parents[1]

#: Launches between two waits: the driver's queue holds 1024, and a call may put two things into it.
LAUNCHES = 200

#: No new contestant is begun after that many seconds; what there is by then is shown.
MOST_SECONDS = 210

#: A process that takes longer is ended; towards the end of the time, one that takes as long as the second says.
MOST_PROCESS_SECONDS = 60
LEAST_PROCESS_SECONDS = 15

PACKAGES = ("pycuda", "cuda-core", "cuda-bindings", "cupy-cuda13x", "numba", "numba-cuda", "torch", "triton",
            "numpy")


# Host time of one launch


@dataclass
class Entrant:
    """A contestant that is being measured.

    :ivar launch: what is timed; ``None``: there is no such thing here.
    :ivar samples: microseconds of one launch.
    :ivar reason: why there is no figure; empty where there is one.
    """

    contestant: Contestant
    launch: Launch | None = None
    samples: list[float] = field(default_factory=list)
    reason: str = ""

    @cached_property
    def timer(self) -> timeit.Timer:
        assert self.launch is not None
        return timeit.Timer(self.launch.call, globals=dict(self.launch.names))

    @property
    def quartiles(self) -> tuple[float, float, float] | None:
        """The second is the median."""
        if self.reason or len(self.samples) < 2:
            return None
        first, second, third = statistics.quantiles(self.samples, n=4, method="inclusive")
        return first, second, third

    def asdict(self) -> dict[str, Any]:
        return {"name": self.contestant.name, "call": self.launch and self.launch.call, "microseconds": self.quartiles,
                "reason": self.reason}


def entrant(contestant: Contestant, p: Problem) -> Entrant:
    """*contestant* compiled, launched once and compared with numpy."""
    try:
        launch = contestant.make(p)
        launch.arrays.poison()
        launch.arrays.wait()
        outcome = eval(launch.call, dict(launch.names))
        launch.arrays.wait()
        p.check(launch.arrays.to_host(launch.result(outcome)))
    except Exception as err:  # noqa: BLE001  # whatever a library raises is its result
        return Entrant(contestant, reason=reason(err))
    return Entrant(contestant, launch)


def sample(e: Entrant) -> float:
    """Microseconds of one launch, the mean of many in a row; the GPU has nothing else to do."""
    assert e.launch is not None
    e.launch.arrays.wait()
    seconds = e.timer.timeit(LAUNCHES)
    e.launch.arrays.wait()
    return 1e6*seconds/LAUNCHES


def measure_launches(contestants: Iterable[Contestant], repeats: int) -> list[Entrant]:
    """The contestants take turns, who goes first alternates, and the first round does not count."""
    p = make_problem()
    entrants = [entrant(c, p) for c in contestants]
    for turn in range(repeats + 1):
        for e in entrants if turn % 2 else reversed(entrants):
            if e.reason:
                continue
            try:
                microseconds = sample(e)
            except Exception as err:  # noqa: BLE001  # whatever a library raises is its result
                e.reason = reason(err)
                continue
            if turn > 0:
                e.samples.append(microseconds)
    return entrants


def goals(c: Contestant, microseconds: float, ratio: float | None) -> str:
    """Ours for *c*, and whether they are met."""
    judged = [(f"<= {c.most_microseconds} us", c.most_microseconds, microseconds),
              (f"<= {c.most_ratio} of it", c.most_ratio, ratio)]
    return ", ".join(f"{goal} {'met' if value <= most else 'missed'}" for goal, most, value in judged
                     if most is not None and value is not None)


def launch_table(entrants: Sequence[Entrant], repeats: int) -> Iterator[str]:
    yield (f"host time of one launch, microseconds: z = alpha*x + y, float32, n = {N}, blocks of {BLOCK}; "
           f"median of {repeats} samples of {LAUNCHES} launches")
    yield f"{'':34}{'us':>8}{'quartiles':>18}{'of prepared':>13}   goals"
    prepared = next((e.quartiles for e in entrants if e.contestant.name == PREPARED), None)
    for e in entrants:
        start = f"{e.contestant.name:34}"
        if e.quartiles is None:
            yield start + e.reason
            continue
        lower, median, upper = e.quartiles
        ratio = None if prepared is None else median/prepared[1]
        cells = f"{median:8.2f}{f'{lower:.2f} - {upper:.2f}':>18}{'-' if ratio is None else f'{ratio:.2f}':>13}"
        yield f"{start}{cells}   {goals(e.contestant, median, ratio) or e.contestant.remark}".rstrip()

# Time to the first result


@dataclass
class FirstResults:
    """One contestant's answers, one for each process; without caches and with those that the process before filled."""

    name: str
    cold: list[dict[str, Any]] = field(default_factory=list)
    warm: list[dict[str, Any]] = field(default_factory=list)
    reason: str = ""


def first_result(name: str, caches: Path, timeout: float) -> dict[str, Any]:
    """The figures that a new process measures; :raises RuntimeError: it measures nothing."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    # files, not pipes: helpers that a library starts may hold a pipe open after the process has ended
    with (caches / "out").open("w+") as out, (caches / "err").open("w+") as err:
        done = subprocess.run([sys.executable, launch_first.__file__, name, str(caches)], env=environment, stdout=out,
                              stderr=err, timeout=timeout, check=False)
        out.seek(0)
        err.seek(0)
        lines, words = out.read().splitlines(), err.read().splitlines()
    if not lines or not lines[-1].startswith("{"):
        raise RuntimeError(f"failed: ended with {done.returncode}: {words[-1] if words else 'without a word'}")
    answer: dict[str, Any] = json.loads(lines[-1])
    if "reason" in answer:
        raise RuntimeError(answer["reason"])
    return answer


def cold_and_warm(r: FirstResults, deadline: float) -> None:
    """Two processes, the second with the caches that the first has filled."""
    with tempfile.TemporaryDirectory(prefix="launch-", ignore_cleanup_errors=True) as caches:
        try:
            for answers in (r.cold, r.warm):
                timeout = min(MOST_PROCESS_SECONDS, max(deadline - time.perf_counter(), LEAST_PROCESS_SECONDS))
                answers.append(first_result(r.name, Path(caches), timeout))
        except (RuntimeError, subprocess.TimeoutExpired) as err:
            r.reason = str(err) if isinstance(err, RuntimeError) else f"failed: not done after {timeout:.0f} s"


def measure_first_results(names: Iterable[str], repeats: int, deadline: float) -> list[FirstResults]:
    """The contestants take turns; what is slow or has failed has none after its first."""
    results = [FirstResults(name) for name in names]
    for turn in range(repeats):
        for r in results:
            over = turn > 0 and (r.reason or r.name in launch_first.SLOW)
            if not over and time.perf_counter() < deadline:
                cold_and_warm(r, deadline)
    return results


def cell(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):8.3f}" if seconds else f"{'-':>8}"


def first_table(results: Sequence[FirstResults]) -> Iterator[str]:
    yield "time to the first result, seconds, in new processes: with empty caches, and with those of the process before"
    yield f"{'':34}{'cold':>8}{'warm':>8}{'processes':>11}"
    for r in results:
        if not r.cold:
            yield f"{r.name:34}{r.reason or 'left out: no time left'}"
            continue
        cells = "".join(cell([a["seconds"] for a in answers]) for answers in (r.cold, r.warm))
        yield f"{r.name:34}{cells}{f'{len(r.cold)} + {len(r.warm)}':>11}   {r.reason}".rstrip()
        for stage in r.cold[0]["stages"]:
            cells = "".join(cell([a["stages"][stage] for a in answers]) for answers in (r.cold, r.warm))
            yield f"{'    ' + stage:34}{cells}"


def versions(packages: Iterable[str]) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true",
                        help="20 samples of a launch; one process of each sort, without torch.compile")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE too")
    return parser.parse_args()


def show(lines: Iterable[str]) -> None:
    print(*lines, "", sep="\n", flush=True)


def main() -> None:
    deadline = time.perf_counter() + MOST_SECONDS
    args = arguments()
    missing = why_not()
    if missing is not None:
        print(f"nothing to measure: {missing}", file=sys.stderr)
        sys.exit(2)
    repeats = 20 if args.quick else 100
    print(f"{find_gpu()}, Python {platform.python_version()}, "
          + ", ".join(f"{name} {version}" for name, version in versions(PACKAGES).items()), end="\n\n", flush=True)
    launches = measure_launches(CONTESTANTS, repeats)
    show(launch_table(launches, repeats))
    names = [n for n in launch_first.CONTESTANTS if not (args.quick and n in launch_first.SLOW)]
    firsts = measure_first_results(names, 1 if args.quick else 3, deadline)
    show(first_table(firsts))
    if args.json is not None:
        args.json.write_text(json.dumps({
            "gpu": find_gpu().name, "python": platform.python_version(), "versions": versions(PACKAGES),
            "launch": [e.asdict() for e in launches], "first": [asdict(r) for r in firsts]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
