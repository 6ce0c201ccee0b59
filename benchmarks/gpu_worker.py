"""A process that measures cases: one line of JSON in, one out.

What a case does to this process (a fault on the GPU, say) ends it and no other case.
"""
from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

from gpu_machine import Gpu, Host, Machine, Run
from gpu_row import Problem, Row, Size, bound
from gpu_rows import rows

#: Before an answer; libraries write to the same stream.
ANSWER = "@@ "

#: Seconds of a sample, and at most that many launches in it.
SAMPLE = 4e-3
MOST_LAUNCHES = 200

#: Runs take turns among so many sets of arguments at least, which are copies of one, and among so many that the others
#: are so many times as large as the cache, together: no run finds its input there from the last time.
SETS = 3
CACHES = 3
MOST_SETS = 64


class Contestant:
    """Somebody with a run for each set of arguments.

    :ivar moved: bytes of a run, where they are not the row's.
    :ivar samples: seconds of one run.
    :ivar reason: why there are no figures; empty where there are.
    :ivar error: of the result, relative to that in float64.
    """

    def __init__(self, name: str, kind: str, make: Callable[[], Callable[[Problem], Run]], moved: float = 0.0
                 ) -> None:
        self.name, self.kind, self.moved = name, kind, moved
        self._make = make
        self.runs: list[Run] = []
        self.samples: list[float] = []
        self.reason = ""
        self.error: float | None = None
        self.ready = 0.0

    def prepare(self, problems: Sequence[Problem], row: Row, expected: Any, machine: Machine) -> None:
        """Compile, run once, compare."""
        start = time.perf_counter()
        run_of = self._make()
        self.runs = [run_of(p) for p in problems]
        for p in problems:
            for output in p.outputs.values():
                machine.poison(output)
        result = self.runs[0]()
        machine.wait()
        self.ready = time.perf_counter() - start
        if expected is not None:
            found = problems[0].outputs[row.result] if result is None else machine.own(result)
            if row.compared is not None and self.kind != "reference":
                found = row.compared(found)
            self.error = machine.error(found, expected)
            if not self.error <= row.tolerance:
                self.reason = f"wrong: its error is {self.error:.1e}"

    def give_up(self, err: Exception) -> None:
        text = (str(err).strip() or type(err).__name__).splitlines()[0][:160]
        self.reason = f"left out: {text}" if isinstance(err, ImportError) else f"failed: {type(err).__name__}: {text}"

    def asdict(self) -> dict[str, Any]:
        answer: dict[str, Any] = {"name": self.name, "kind": self.kind, "error": self.error, "ready": self.ready,
                                  "reason": self.reason, "moved": self.moved}
        if not self.reason and self.samples:
            low, middle, high = quartiles(self.samples)
            answer |= {"seconds": middle, "low": low, "high": high, "samples": len(self.samples)}
        return answer


def quartiles(samples: Sequence[float]) -> tuple[float, float, float]:
    if len(samples) < 2:
        return samples[0], samples[0], samples[0]
    first, second, third = statistics.quantiles(samples, n=4, method="inclusive")
    return first, second, third


def contestants(row: Row, size: Size, machine: Machine, variants: bool) -> list[Contestant]:
    """Ours, the others, and a copy of as many bytes."""
    found = [Contestant(label if label == "loopkit" else f"  {label}", "ours" if label == "loopkit" else "variant",
                        lambda make=make: bound(make(size), machine))
             for label, make in row.ours.items() if variants or label == "loopkit"]
    if machine.target == "c":
        def numpy_peer(p: Problem) -> Run:
            return lambda: row.reference(machine.xp, p)
        found.append(Contestant("numpy", "reference", lambda: numpy_peer))
    else:
        found += [Contestant(name, "peer", lambda peer=peer: peer) for name, peer in row.peers.items()]
    if any(g.of == "copy" for g in row.goals) or row.flops(size) < 50*row.bytes(size):
        # as many bytes as the row moves, but more than a cache holds
        count = int(min(max(row.bytes(size)/8, machine.cache), 1 << 29))
        found.append(Contestant("a copy", "copy", lambda: _copies(count, machine), 8.0*count))
    return found


def _copies(count: int, machine: Machine) -> Callable[[Problem], Run]:
    pairs = cycle([(machine.random((count,), "float32"), machine.nothing((count,), "float32")) for _ in range(SETS)])

    def run_of(_: Problem) -> Run:
        source, target = next(pairs)

        def run() -> None:
            machine.copy(source, target)
        return run
    return run_of


def measure(row: Row, size: Size, machine: Machine, rounds: int, variants: bool) -> dict[str, Any]:
    """The contestants take turns, who goes first alternates, and the first round does not count."""
    problem = row.problem(size, machine)
    moved = row.bytes(size)
    sets = sets_for(moved, machine.cache)
    problems = [problem, *(problem.copied(machine) for _ in range(sets - 1))]
    wide = Problem(size, {x: machine.wide(a) for x, a in problem.inputs.items()}, {}, row.scalars)
    expected = row.reference(machine.xp, wide)
    del wide
    entrants = contestants(row, size, machine, variants)
    for c in entrants:
        try:
            c.prepare(problems, row, None if c.kind == "copy" else expected, machine)
        except Exception as err:  # noqa: BLE001  # whatever a library raises is its result
            c.give_up(err)
    del expected
    machine.forget()
    launches: dict[str, int] = {}
    for turn in range(rounds + 1):
        for c in entrants if turn % 2 else reversed(entrants):
            if c.reason:
                continue
            try:
                if turn == 0:
                    once = machine.sample(c.runs, max(2, len(c.runs)))
                    launches[c.name] = max(min(int(SAMPLE/max(once, 1e-9)) + 1, MOST_LAUNCHES), 1)
                else:
                    c.samples.append(machine.sample(c.runs, launches[c.name]))
            except Exception as err:  # noqa: BLE001  # whatever a library raises is its result
                c.give_up(err)
    return {"row": row.name, "size": size, "bytes": moved, "flops": row.flops(size), "sets": sets, "peak": machine.peak,
            "contestants": [c.asdict() for c in entrants], "calls": calls(row, size)}


def sets_for(moved: float, cache: int) -> int:
    """Among how many sets of arguments runs of so many bytes take turns; one where there is no cache."""
    return min(max(-(-CACHES*cache//max(int(moved), 1)) + 1, SETS), MOST_SETS) if cache else 1


def calls(row: Row, size: Size) -> int | None:
    """How many transformations ours is made of."""
    return len(row.ours["loopkit"](size).history) if "loopkit" in row.ours else None


def size_of(row: Row, sort: str, seed: int) -> Size:
    """A size by its name: a number of the even ones, ``ragged``, ``drawn`` or ``small``."""
    match sort:
        case "ragged":
            return row.ragged
        case "drawn":
            return row.draw(random.Random(f"{seed} {row.name}"))
        case "small":
            return row.small[0]
        case _:
            return row.even[int(sort)]


def main() -> None:
    seed, dry = int(sys.argv[1]), sys.argv[2] == "dry"
    machine: Machine = Host(seed) if dry else Gpu(seed)
    by_name = {row.name: row for row in rows()}
    print(ANSWER + json.dumps({"machine": machine.name, "peak": machine.peak, "cache": machine.cache}), flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        row = by_name[wanted["row"]]
        answer = {}
        try:
            answer = measure(row, size_of(row, wanted["sort"], seed), machine, wanted["rounds"], wanted["variants"])
        except Exception as err:  # noqa: BLE001  # one row's end is not the run's
            answer = {"row": row.name, "size": size_of(row, wanted["sort"], seed),
                      "failed": f"{type(err).__name__}: {str(err).strip()[:300]}"}
        try:
            machine.forget()
            machine.wait()
        except Exception:  # noqa: BLE001  # a kernel has left the GPU unusable for this process
            print(ANSWER + json.dumps({**answer, "ended": True}), flush=True)
            return
        print(ANSWER + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
