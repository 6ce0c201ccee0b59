"""How fast the ready pipelines run on a GPU, beside torch, Triton and CuPy on the same data in the same run.

    python benchmarks/gpu.py                       every row, about ten minutes
    python benchmarks/gpu.py --quick               one size of most rows, about two minutes
    python benchmarks/gpu.py --rows matrix         only the rows for the matrix units
    python benchmarks/gpu.py --only softmax        rows whose name contains a text
    python benchmarks/gpu.py --sizes ragged,drawn  only sizes of these sorts
    python benchmarks/gpu.py --dry                 on the host at small sizes: does the script work?

Medians are shown, with half the distance between the quartiles.
"""
from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_matrix import matrix_rows
from gpu_row import Goal, Row
from gpu_rows import rows
from gpu_worker import ANSWER

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("torch", "triton", "cupy-cuda13x", "pycuda", "cuda-core", "numpy", "islpy")

#: No new case is begun after that many seconds.
MOST_SECONDS = 600

#: A case that takes longer is ended, with its process. The first of a process has the libraries' start too.
MOST_CASE_SECONDS = 120

ROUNDS, QUICK_ROUNDS = 15, 7

#: Of sizes: those that tiles divide, one that they do not, and one drawn at run time.
SORTS = ("even", "ragged", "drawn")

#: Of rows: float32 and memory; the matrix units.
GROUPS = ("general", "matrix")


@dataclass(frozen=True)
class Case:
    """A row at one size."""

    row: Row
    sort: str


@dataclass
class Worker:
    """The process that measures; a new one where it has ended."""

    seed: int
    dry: bool
    about: dict[str, Any] = field(default_factory=dict)
    _process: subprocess.Popen[str] | None = None
    _answers: queue.Queue[str | None] = field(default_factory=queue.Queue)

    def start(self) -> None:
        """:raises RuntimeError: it does not start."""
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("gpu_worker.py"), str(self.seed), "dry" if self.dry else "gpu"],
            env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._answers = queue.Queue()
        threading.Thread(target=_listen, args=(self._process.stdout, self._answers), daemon=True).start()
        self.about = self._answer(MOST_CASE_SECONDS)

    def measure(self, case: Case, rounds: int, variants: bool, quick: bool = False) -> dict[str, Any]:
        """The figures of *case*, or why there are none."""
        if self._process is None:
            try:
                self.start()
            except RuntimeError as err:
                return {"failed": str(err)}
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"row": case.row.name, "sort": case.sort, "rounds": rounds,
                                                  "variants": variants, "quick": quick}) + "\n")
            self._process.stdin.flush()
            answer = self._answer(MOST_CASE_SECONDS)
        except (RuntimeError, BrokenPipeError) as err:
            self.end()
            return {"failed": str(err)}
        if answer.pop("ended", False):
            self.end()
        return answer

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._process is not None
        try:
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise RuntimeError(f"not done after {seconds:.0f} s") from None
        if line is None:
            raise RuntimeError(f"its process ended with {self._process.wait()}")
        return dict(json.loads(line))


def _listen(stream: Any, answers: queue.Queue[str | None]) -> None:
    for line in stream:
        if line.startswith(ANSWER):
            answers.put(line.removeprefix(ANSWER))
    answers.put(None)


# Judging


def seconds(contestant: dict[str, Any], sustained: bool = False) -> float:
    """Of one run, in bursts or in sustained runs."""
    return float((contestant["sustained"] if sustained else contestant)["seconds"])


def rate(result: dict[str, Any], contestant: dict[str, Any], sustained: bool = False) -> float:
    """Bytes a second, or operations a second where those are what it takes."""
    return float(result["flops"] if result["by_flops"] else result["bytes"])/seconds(contestant, sustained)


def of_kind(result: dict[str, Any], kind: str, among: Sequence[str] = (), sustained: bool = False
            ) -> list[dict[str, Any]]:
    """Those with figures, the fastest first."""
    found = [c for c in result.get("contestants", ()) if c["kind"] == kind
             and ("sustained" if sustained else "seconds") in c and (not among or c["name"] in among)]
    return sorted(found, key=lambda c: seconds(c, sustained))


def reached(goal: Goal, result: dict[str, Any], contestant: dict[str, Any]) -> float | None:
    """The result of *contestant* in the unit of *goal*; ``None``: it was not measured."""
    match goal.of:
        case "copy":
            copies = of_kind(result, "copy")
            # the copy moves as many bytes, or as many as were worth it
            return None if not copies else result["bytes"]/seconds(contestant)/copy_rate(copies[0])
        case "peer":
            best = of_kind(result, "peer", goal.among, goal.sustained)
            return None if not best else seconds(best[0], goal.sustained)/seconds(contestant, goal.sustained)
        case _:
            return None if not result.get("peak") else result["flops"]/seconds(contestant)/result["peak"]


def copy_rate(copy: dict[str, Any]) -> float:
    return float(copy["moved"])/float(copy["seconds"])


def verdict(goal: Goal, value: float | None) -> str:
    if value is None:
        return f"{goal}: not measured"
    if value >= goal.must:
        return f"{goal}: met, {value:.3f}" + (", the stretch too" if value >= goal.stretch else "")
    return f"{goal}: missed by {100*(1 - value/goal.must):.0f} %, {value:.3f}"

# Showing


def shown(case: Case, result: dict[str, Any]) -> Iterator[str]:
    size = "x".join(map(str, result.get("size", ())))
    if "failed" in result:
        yield f"{case.row.name} {size or case.sort}: {result['failed']}"
        return
    yield (f"{case.row.name} {size} ({case.sort}): at least {result['bytes']*1e-9:.2f} GB, "
           f"{result['flops']*1e-9:.1f} Gflop"
           + (f"; {result['sets']} sets of arguments" if result["sets"] > 1 else ""))
    for c in result["contestants"]:
        if "seconds" not in c:
            yield f"  {c['name']:20} {c['reason'] or 'no samples'}"
            continue
        line = f"  {c['name']:20}{_regime(result, c, sustained=False)}"
        if c["kind"] == "copy":
            yield line
            continue
        if "sustained" in c:
            line += f" | sustained{_regime(result, c, sustained=True)}"
        yield f"{line}  error {c['error']:.0e}  ready {c['ready']:.1f} s"
        if case.row.sustained and "stages" in c:
            yield ("  {0:20}{calls:10} calls; seconds: transformed in {transform:.2f}, text in {code:.2f}, "
                   "proofs {proof:.2f}").format("", **c["stages"])
    for line in judged(case, result):
        yield f"  -> {line}"


def _regime(result: dict[str, Any], c: dict[str, Any], sustained: bool) -> str:
    """Time, spread, rate, and the ratios to a copy and to the best peer."""
    found, taken = c["sustained"] if sustained else c, seconds(c, sustained)
    line = f"{1e3*taken:10.4f} ms +-{50*(found['high'] - found['low'])/taken:4.1f} %"
    if c["kind"] == "copy":
        return f"{line}{copy_rate(c)*1e-9:9.0f} GB/s"
    line += (f"{rate(result, c, sustained)*1e-12:9.2f} TFLOP/s" if result["by_flops"]
             else f"{rate(result, c)*1e-9:9.0f} GB/s")
    copies = of_kind(result, "copy")
    if copies:
        line += f"  of copy {result['bytes']/taken/copy_rate(copies[0]):6.3f}"
    best = of_kind(result, "peer", (), sustained) or of_kind(result, "reference", (), sustained)
    return line + (f"  of best peer {seconds(best[0], sustained)/taken:6.3f}" if best else "")


def judged(case: Case, result: dict[str, Any]) -> list[str]:
    """Each goal of the row; ours is the library's default, or its best variant while there is no default."""
    ours = of_kind(result, "ours") or (of_kind(result, "variant") if is_open(result) else [])
    why = "open, the library does not have it yet" if is_open(result) else "ours has no figure"
    return [verdict(goal, reached(goal, result, ours[0])) if ours else f"{goal}: {why}" for goal in case.row.goals]


def is_open(result: dict[str, Any]) -> bool:
    """The library has no such pipeline yet."""
    return any(c["open"] for c in result.get("contestants", ()) if c["kind"] == "ours")


def summary(results: Sequence[tuple[Case, dict[str, Any]]]) -> Iterator[str]:
    """One line a case: ours, and each goal."""
    yield f"{'':36}{'ours, ms':>10}{'calls':>7}   goals"
    for case, result in results:
        label = f"{case.row.name} {'x'.join(map(str, result.get('size', ())))}"
        ours, others = of_kind(result, "ours"), of_kind(result, "variant")
        found = ours or (others if is_open(result) else [])
        if not found:
            yield f"{label:36}{'-':>10}{'':7}   {result.get('failed') or no_figure(result)}"
            continue
        goals = "; ".join(judged(case, result))
        if ours and others and seconds(others[0]) < seconds(ours[0]):
            goals += f"; {others[0]['name'].strip()}: {100*(seconds(ours[0])/seconds(others[0]) - 1):.0f} % faster"
        yield f"{label:36}{1e3*seconds(found[0]):10.4f}{found[0]['stages']['calls']:7}   {goals}"
    unmet = sum(len(case.row.goals) for case, result in results if is_open(result) and not of_kind(result, "variant"))
    if unmet:
        yield f"{unmet} goals are open: the library does not have these pipelines yet"


def no_figure(result: dict[str, Any]) -> str:
    """Why ours has none."""
    return next((str(c["reason"]) for c in result["contestants"] if c["kind"] == "ours"), "")[:90]


def known_rows() -> tuple[Row, ...]:
    return (*rows(), *matrix_rows())


def cases(args: argparse.Namespace, known: Sequence[Row]) -> list[Case]:
    chosen = [r for r in known if args.only in r.name and args.rows in ("all", r.group)]
    if args.dry:
        return [Case(r, "small") for r in chosen]
    if args.quick:
        return [Case(r, "0") for r in chosen if r.quick]
    # first what matters most, should time run out
    ordered = [*(Case(r, "0") for r in chosen), *(Case(r, "ragged") for r in chosen if r.ragged),
               *(Case(r, "drawn") for r in chosen if r.draw),
               *(Case(r, str(k)) for r in chosen for k in range(1, len(r.even)))]
    return [case for case in ordered if (case.sort if case.sort in SORTS else "even") in args.sizes]


def sorts(text: str) -> list[str]:
    """:raises ArgumentTypeError: there is no such sort of sizes."""
    given = text.split(",")
    unknown = [x for x in given if x not in SORTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no sort of sizes: {unknown[0]!r}; there are {', '.join(SORTS)}")
    return given


def versions() -> str:
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{package} not installed")
    return ", ".join(found)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one size a row, fewer samples, and no slow peers")
    parser.add_argument("--rows", choices=("all", *GROUPS), default="all", help="the group of rows; default: all")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name contains TEXT")
    parser.add_argument("--sizes", type=sorts, default=list(SORTS), metavar="SORTS",
                        help=f"which sizes of a row, of {','.join(SORTS)}; default: all")
    parser.add_argument("--variants", action="store_true", help="ours with other tiles and blocks too")
    parser.add_argument("--dry", action="store_true", help="on the host, at small sizes, with numpy as the peer")
    parser.add_argument("--seed", type=int, help="of the data and the drawn sizes; default: the clock")
    parser.add_argument("--seconds", type=float, default=MOST_SECONDS, help="begin no case after that many (600)")
    parser.add_argument("--summary", action="store_true", help="only the last table")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE too")
    parser.add_argument("--list", action="store_true", help="show the rows, their sizes and goals, and measure nothing")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> None:
    args = arguments(given)
    start = time.monotonic()
    known = known_rows()
    if args.list:
        for row in (r for r in known if args.rows in ("all", r.group)):
            sizes = (*row.even, *([row.ragged] if row.ragged else []))
            print(f"{row.name:24} {', '.join('x'.join(map(str, s)) for s in sizes)}; {'; '.join(map(str, row.goals))}")
        return
    seed = time.time_ns() % (1 << 31) if args.seed is None else args.seed
    worker = Worker(seed, args.dry)
    results: list[tuple[Case, dict[str, Any]]] = []
    try:
        worker.start()
        print(f"{worker.about['machine']}, Python {platform.python_version()}, {versions()}; --seed {seed}", end="\n\n",
              flush=True)
        for case in cases(args, known):
            if time.monotonic() - start > args.seconds:
                results.append((case, {"failed": "no time left"}))
                continue
            rounds = 1 if args.dry else QUICK_ROUNDS if args.quick else ROUNDS
            result = worker.measure(case, rounds, args.variants, args.quick)
            results.append((case, result))
            if not args.summary:
                print(*shown(case, result), "", sep="\n", flush=True)
            if args.json is not None:
                args.json.write_text(json.dumps({
                    "machine": worker.about, "versions": versions(), "seed": seed, "seconds": time.monotonic() - start,
                    "cases": [{"sort": c.sort, "goals": [vars(g) for g in c.row.goals], **r} for c, r in results]},
                    indent=1) + "\n")
    except RuntimeError as err:
        sys.exit(f"nothing to measure: {err}")
    finally:
        worker.end()
    print(*summary(results), f"{time.monotonic() - start:.0f} s", sep="\n", flush=True)


if __name__ == "__main__":
    main()
