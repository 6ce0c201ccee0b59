"""How long code generation takes, stage by stage, beside loopy 2025.2 on the same kernels with the same mapping.

    python benchmarks/codegen.py            every kernel, about five minutes
    python benchmarks/codegen.py --quick    without those on which loopy takes seconds, about one minute
    python benchmarks/codegen.py --deep     loopkit alone on 200 deep random pipelines, with the slowest ten named

Both packages run in processes of their own, loopy in an environment of its own that is made once (``.venv-loopy``),
and take turns. Medians are shown.
"""
from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import venv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codegen_deep import deep
from codegen_kernels import CASES, Case

ROOT = Path(__file__).resolve().parents[1]
LOOPY_ENVIRONMENT = ROOT / ".venv-loopy"

#: The newest versions that work together: loopy 2025.2 breaks on later ones of islpy.
LOOPY_REQUIREMENTS = ("loopy==2025.2", "islpy==2025.2.5", "pymbolic==2025.1", "pytools==2025.2.2")

STAGES = ("make", "transform", "lower", "print")
MOST_IMPORT_SECONDS = 0.5
MOST_MAKING_SECONDS = 1.0                 # of each kernel in _MAKING
MOST_MEAN_RATIO = 1 / 2                   # with all checks on, which loopy does not make
MOST_STEP_SECONDS = 5e-3
MOST_VERIFY = ("matmul tiled", 60e-3)


@dataclass(frozen=True)
class Measurement:
    """One package on one kernel: median seconds of each stage and of the whole, or why there are none.

    :ivar step: of a transformation whose legality is looked at; *verify*: of all checks of the lowered kernel, which
        are part of the stage *print*.
    """

    seconds: Mapping[str, float]
    step: float = 0.0
    verify: float = 0.0
    statements: int = 0
    characters: int = 0
    error: str | None = None


class Worker:
    """A process that answers the name of a case with how long its stages took."""

    def __init__(self, python: Path, package: str) -> None:
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")] if package == "loopkit" else []
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self.package = package
        self.process = subprocess.Popen(
            [python, Path(__file__).with_name("codegen_worker.py"), package], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def sample(self, case: Case) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(case.name + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"the {self.package} process died on '{case.name}'; to see why: "
                     f"echo '{case.name}' | {self.process.args[0]} benchmarks/codegen_worker.py {self.package}")
        return dict(json.loads(answer))

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def loopy_python() -> Path:
    """The interpreter of loopy's environment, which is made if it is not there."""
    python = LOOPY_ENVIRONMENT / "bin" / "python"
    stamp = LOOPY_ENVIRONMENT / "requirements.txt"
    wanted = "\n".join(LOOPY_REQUIREMENTS) + "\n"
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"making {LOOPY_ENVIRONMENT.name} for {', '.join(LOOPY_REQUIREMENTS)}", file=sys.stderr)
        venv.create(LOOPY_ENVIRONMENT, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *LOOPY_REQUIREMENTS],
                       check=True)
        stamp.write_text(wanted)
    return python


# Measuring


def median(samples: Sequence[Mapping[str, Any]]) -> Measurement:
    for s in samples:
        if "error" in s:
            return Measurement({}, error=s["error"])
    def of(what: str) -> float:
        return statistics.median(s[what] for s in samples)
    return Measurement({stage: of(stage) for stage in (*STAGES, "total")}, of("step"), of("verify"),
                       samples[0]["statements"], samples[0]["characters"])


def measure(case: Case, workers: Sequence[Worker], repeats: int) -> list[Measurement]:
    """The workers take turns, who goes first alternates, and the first round does not count."""
    samples: dict[str, list[dict[str, Any]]] = {w.package: [] for w in workers}
    for turn in range(repeats + 1):
        for worker in workers if turn % 2 else reversed(workers):
            sample = worker.sample(case)
            if turn > 0 or "error" in sample:
                samples[worker.package].append(sample)
    return [median(samples[w.package]) for w in workers]


def import_seconds(repeats: int) -> float:
    """``import loopkit`` in a fresh process, numpy and islpy included; with bytecode, as for installed packages."""
    program = "import time; t = time.perf_counter(); import loopkit; print(time.perf_counter() - t)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    _, *seconds = (float(subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, check=True,
                                        text=True, stdout=subprocess.PIPE).stdout) for _ in range(repeats + 1))
    return statistics.median(seconds)

#: Makes a kernel of 1,000 statements: as texts in one loop or in a loop each, and as objects; one that calls a function
#: of 600 statements in two loops; one of 500 domains with sizes of their own. Prints seconds of the processor.
_MAKING = """
import time, loopkit as lk
from pymbolic import var
def text(k, i): return f"a{k}[{i}] = 2*a{k - 1}[{i}] + {k}"
def built(k, i): return lk.Assignment(var(f"a{k}")[var(i)], 2*var(f"a{k - 1}")[var(i)] + k, within_inames={i})
for made in (text, built):
    for names in (["i"]*1000, [f"i{k}" for k in range(1, 1001)]):
        lk.make_kernel("{[i]: 0<=i<n}", [made(1, "i")])
        start = time.process_time()
        lk.make_kernel([f"{{[{i}]: 0<={i}<n}}" for i in dict.fromkeys(names)], list(map(made, range(1, 1001), names)))
        print(time.process_time() - start)
body = ["<> t0 = a[i, j]", *(f"<> t{k} = 0.5*t{k - 1} + a[i, j]" for k in range(1, 599)), "b[i, j] = t598"]
function = lk.make_function("{[i, j]: 0<=i<n and 0<=j<m}", body, name="f")
start = time.process_time()
lk.make_kernel("{[p, q]: 0<=p<n and 0<=q<m}", "[p, q]: y[p, q] = f([p, q]: x[p, q], m, n)", functions=[function])
print(time.process_time() - start)
start = time.process_time()
lk.make_kernel([f"{{[i{k}]: 0<=i{k}<n{k}}}" for k in range(500)], [f"y{k}[i{k}] = {k}" for k in range(500)])
print(time.process_time() - start)
"""


def making_seconds(repeats: int) -> list[float]:
    """Making a kernel of 1,000 statements: texts in one loop and in a loop each, likewise objects; a call; domains."""
    each = [list(map(float, subprocess.run([sys.executable, "-c", _MAKING], cwd=ROOT, check=True, text=True,
                                           stdout=subprocess.PIPE).stdout.split())) for _ in range(repeats)]
    return list(map(statistics.median, zip(*each, strict=True)))

# Showing


def heading() -> str:
    return (f"{'milliseconds (of loopy)':34}{'stmts':>6}" + "".join(f"{stage:>16}" for stage in STAGES)
            + f"{'a step':>8}{'verify':>8}{'total':>10}{'loopy':>10}{'ratio':>8}")


def row(case: Case, ours: Measurement, theirs: Measurement) -> str:
    if ours.error is not None:
        return f"{case.name:34}  loopkit: {ours.error}"
    start = f"{case.name:34}{ours.statements:6}"
    checks = f"{1e3 * ours.step:8.1f}{1e3 * ours.verify:8.1f}"
    if theirs.error is not None:
        cells = "".join(f"{1e3 * ours.seconds[s]:9.1f}       " for s in STAGES)
        return f"{start}{cells}{checks}{1e3 * ours.seconds['total']:10.1f}  loopy: {theirs.error}"
    cells = "".join(f"{1e3 * ours.seconds[s]:9.1f} ({ours.seconds[s] / max(theirs.seconds[s], 1e-6):4.2f})"
                    for s in STAGES)
    return (f"{start}{cells}{checks}{1e3 * ours.seconds['total']:10.1f}{1e3 * theirs.seconds['total']:10.1f}"
            f"{ratio(ours, theirs):8.2f}")


def ratio(ours: Measurement, theirs: Measurement) -> float:
    return ours.seconds["total"] / theirs.seconds["total"]


def summary(results: Sequence[tuple[Case, Measurement, Measurement]]) -> list[str]:
    """Goals, each with what was reached."""
    both = [(case, ratio(a, b)) for case, a, b in results if a.error is None and b.error is None]
    if not both:
        return ["no kernel went through both packages"]
    mean = statistics.geometric_mean(r for _, r in both)
    worst, most = max(both, key=lambda pair: pair[1])
    slower = sum(r > 1 for _, r in both)
    steps = [ours.step for _, ours, _ in results if ours.step]
    verified = [ours.verify for case, ours, _ in results if case.name.startswith(MOST_VERIFY[0])]
    return [f"geometric mean of the ratios: {mean:.2f} over {len(both)} kernels (goal: {MOST_MEAN_RATIO:.2f})",
            f"largest ratio: {most:.2f}, {worst.name} (goal: 1; above it: {slower})",
            *([f"a step whose legality is looked at: {1e3 * statistics.median(steps):.1f} ms in the median, "
               f"{1e3 * max(steps):.1f} at most (goal: {1e3 * MOST_STEP_SECONDS:.0f} in the median)"] if steps else []),
            *(f"verify on {MOST_VERIFY[0]}: {1e3 * v:.1f} ms (goal: {1e3 * MOST_VERIFY[1]:.0f})" for v in verified)]


def linearity(results: Iterable[tuple[Case, Measurement, Measurement]]) -> list[str]:
    """Milliseconds a statement, as kernels grow."""
    families: dict[str, list[str]] = {}
    for case, ours, theirs in results:
        if case.family is not None and ours.error is None:
            loopy = "" if theirs.error is not None else f" ({1e3 * theirs.seconds['total'] / ours.statements:.2f})"
            cell = f"{ours.statements}: {1e3 * ours.seconds['total'] / ours.statements:.2f}{loopy}"
            families.setdefault(case.family, []).append(cell)
    return ["", "milliseconds a statement, by number of statements (loopy's)",
            *(f"  {family:20} {'   '.join(cells)}" for family, cells in families.items())] if families else []


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="leave out the kernels on which loopy takes seconds")
    parser.add_argument("--only", default="", metavar="TEXT", help="kernels whose name contains TEXT")
    parser.add_argument("--repeats", type=int, default=5, help="samples a kernel and package (5)")
    parser.add_argument("--deep", action="store_true", help="measure deep random pipelines instead")
    parser.add_argument("--count", type=int, default=200, help="pipelines of --deep (200)")
    parser.add_argument("--seed", type=int, default=0, help="the first pipeline of --deep (0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE too")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    if args.deep:
        deep(args.count, args.seed)
        return
    cases = [c for c in CASES if args.only in c.name and not (args.quick and c.slow)]
    workers = [Worker(Path(sys.executable), "loopkit"), Worker(loopy_python(), "loopy")]
    results = []
    print(heading(), flush=True)
    for case in cases:
        ours, theirs = measure(case, workers, args.repeats)
        results.append((case, ours, theirs))
        print(row(case, ours, theirs), flush=True)
    for worker in workers:
        worker.close()
    seconds, making = import_seconds(args.repeats), making_seconds(args.repeats)
    one, each, *objects, call, domains = (f"{s:.2f}" for s in making)
    print("", *summary(results), f"import loopkit: {seconds:.2f} s (goal: {MOST_IMPORT_SECONDS})",
          f"1,000 statements in one loop, and in a loop each: texts {one} and {each} s, objects "
          f"{' and '.join(objects)} s (goal: {MOST_MAKING_SECONDS:.0f})",
          f"a call of a function of 600 statements in two loops: {call} s, 500 domains with sizes of their own: "
          f"{domains} s (goal: {MOST_MAKING_SECONDS:.0f})", *linearity(results), sep="\n")
    if args.json is not None:
        kernels = [{"kernel": c.name, "loopkit": vars(ours), "loopy": vars(theirs)} for c, ours, theirs in results]
        args.json.write_text(json.dumps({"python": platform.python_version(), "loopy": LOOPY_REQUIREMENTS,
                                         "import": seconds, "making": making, "kernels": kernels}, indent=2) + "\n")


if __name__ == "__main__":
    main()
