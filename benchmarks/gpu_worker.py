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
from gpu_matrix import matrix_rows
from gpu_row import NotThereYetError, Problem, Row, Size, Stages, bound
from gpu_rows import rows

#: Before an answer; libraries write to the same stream.
ANSWER = "@@ "

#: Seconds of a sample, and at most that many launches in it. Rows that are measured in sustained runs too have bursts.
SAMPLE = 4e-3
BURST = 8e-3
MOST_LAUNCHES = 200

#: Seconds of a contestant's own runs before its sustained samples: the power limit then sets the clock.
SUSTAINED = 0.12

#: Runs take turns among so many sets of arguments at least, which are copies of one, and among so many that the others
#: are so many times as large as the cache, together: no run finds its input there from the last time.
SETS = 3
CACHES = 3
MOST_SETS = 64


class Contestant:
    """Somebody with a run for each set of arguments.

    :ivar moved: bytes of a run, where they are not the row's.
    :ivar samples: seconds of one run; *sustained*: in sustained runs.
    :ivar reason: why there are no figures; empty where there are.
    :ivar open: the library does not have it yet.
    :ivar error: of the result, relative to that in float64.
    """

    def __init__(self, name: str, kind: str, make: Callable[[], Callable[[Problem], Run]], moved: float = 0.0,
                 stages: Stages | None = None) -> None:
        self.name, self.kind, self.moved, self.stages = name, kind, moved, stages
        self._make = make
        self.runs: list[Run] = []
        self.samples: list[float] = []
        self.sustained: list[float] = []
        self.reason = ""
        self.open = False
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
            found = parts(tuple(problems[0].outputs.values()) if result is None else result)
            if row.compared is not None and self.kind != "reference":
                found = [row.compared(machine.own(part)) for part in found]
            self.error = max(machine.error(machine.own(a), b) for a, b in zip(found, parts(expected), strict=True))
            if not self.error <= row.tolerance:
                self.reason = f"wrong: its error is {self.error:.1e}"

    def give_up(self, err: Exception) -> None:
        self.open = isinstance(err, NotThereYetError)
        text = (str(err).strip() or type(err).__name__).splitlines()[0][:160]
        self.reason = (f"not there yet: {text}" if self.open else f"left out: {text}" if isinstance(err, ImportError)
                       else f"failed: {type(err).__name__}: {text}")

    def asdict(self) -> dict[str, Any]:
        answer: dict[str, Any] = {"name": self.name, "kind": self.kind, "error": self.error, "ready": self.ready,
                                  "reason": self.reason, "moved": self.moved, "open": self.open}
        if self.stages is not None:
            answer |= {"stages": vars(self.stages)}
        if not self.reason and self.samples:
            answer |= figures(self.samples)
        if not self.reason and self.sustained:
            answer |= {"sustained": figures(self.sustained)}
        return answer


def parts(result: Any) -> list[Any]:
    """The arrays of a result of one array, or of several."""
    return [*result] if isinstance(result, tuple) else [result]


def figures(samples: Sequence[float]) -> dict[str, float]:
    low, middle, high = quartiles(samples)
    return {"seconds": middle, "low": low, "high": high, "samples": len(samples)}


def quartiles(samples: Sequence[float]) -> tuple[float, float, float]:
    if len(samples) < 2:
        return samples[0], samples[0], samples[0]
    first, second, third = statistics.quantiles(samples, n=4, method="inclusive")
    return first, second, third


def _ours(label: str, row: Row, size: Size, machine: Machine) -> Contestant:
    stages = Stages()
    named = (label, "ours") if label == "loopkit" else (f"  {label}", "variant")
    return Contestant(*named, lambda: bound(lambda: row.ours[label](size), machine, stages, row.sustained),
                      stages=stages)


def contestants(row: Row, size: Size, machine: Machine, variants: bool, quick: bool = False) -> list[Contestant]:
    """Ours, the others, and a copy of as many bytes."""
    found = [_ours(label, row, size, machine) for label in row.ours if variants or label == "loopkit"]
    if machine.target == "c":
        def numpy_peer(p: Problem) -> Run:
            return lambda: row.reference(machine.xp, p)
        found.append(Contestant("numpy", "reference", lambda: numpy_peer))
    else:
        found += [Contestant(name, "peer", lambda peer=peer: peer) for name, peer in row.peers.items()
                  if not (quick and name in row.slow)]
    if any(g.of == "copy" for g in row.goals) or not row.by_flops(size):
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


def measure(row: Row, size: Size, machine: Machine, rounds: int, variants: bool, quick: bool = False
            ) -> dict[str, Any]:
    """All contestants are right, and fast in bursts; those of some rows also in sustained runs."""
    problem = row.problem(size, machine)
    moved = row.bytes(size)
    sets = sets_for(moved, machine.cache)
    problems = [problem, *(problem.copied(machine) for _ in range(sets - 1))]
    expected = row.reference(machine.xp, row.wide(problem, machine))
    entrants = contestants(row, size, machine, variants, quick)
    for c in entrants:
        try:
            c.prepare(problems, row, None if c.kind == "copy" else expected, machine)
        except Exception as err:  # noqa: BLE001  # whatever a library raises is its result
            c.give_up(err)
    del expected
    machine.forget()
    launches = _bursts(entrants, machine, rounds, BURST if row.sustained else SAMPLE)
    if row.sustained:
        _sustain(entrants, machine, rounds, launches)
    return {"row": row.name, "size": size, "bytes": moved, "flops": row.flops(size), "by_flops": row.by_flops(size),
            "sets": sets, "peak": machine.peak, "contestants": [c.asdict() for c in entrants]}


def _bursts(entrants: Sequence[Contestant], machine: Machine, rounds: int, seconds: float) -> dict[str, int]:
    """The contestants take turns, who goes first alternates, and the first round does not count.

    :returns: how many launches a sample of each has.
    """
    launches: dict[str, int] = {}
    for turn in range(rounds + 1):
        for c in entrants if turn % 2 else reversed(entrants):
            if c.reason:
                continue
            try:
                if turn == 0:
                    once = machine.sample(c.runs, max(2, len(c.runs)))
                    launches[c.name] = max(min(int(seconds/max(once, 1e-9)) + 1, MOST_LAUNCHES), 1)
                else:
                    c.samples.append(machine.sample(c.runs, launches[c.name]))
            except Exception as err:  # noqa: BLE001  # whatever a library raises is its result
                c.give_up(err)
    return launches


def _sustain(entrants: Sequence[Contestant], machine: Machine, rounds: int, launches: dict[str, int]) -> None:
    """Each contestant alone, in one order and then in the other, so that a drift of the clock is in the spread."""
    for order in (entrants, entrants[::-1]):
        for c in order:
            if c.reason:
                continue
            try:
                first = int(SUSTAINED/statistics.median(c.samples)) + 1 if machine.cache else 0
                c.sustained += machine.sustained(c.runs, launches[c.name], first, -(-rounds//2))
            except Exception as err:  # noqa: BLE001  # whatever a library raises is its result
                c.give_up(err)


def sets_for(moved: float, cache: int) -> int:
    """Among how many sets of arguments runs of so many bytes take turns; one where there is no cache."""
    return min(max(-(-CACHES*cache//max(int(moved), 1)) + 1, SETS), MOST_SETS) if cache else 1


def size_of(row: Row, sort: str, seed: int) -> Size:
    """A size by its name: a number of the even ones, ``ragged``, ``drawn`` or ``small``."""
    match sort:
        case "ragged":
            assert row.ragged is not None
            return row.ragged
        case "drawn":
            assert row.draw is not None
            return row.draw(random.Random(f"{seed} {row.name}"))
        case "small":
            return row.small[0]
        case _:
            return row.even[int(sort)]


def main() -> None:
    seed, dry = int(sys.argv[1]), sys.argv[2] == "dry"
    machine: Machine = Host(seed) if dry else Gpu(seed)
    by_name = {row.name: row for row in (*rows(), *matrix_rows())}
    print(ANSWER + json.dumps({"machine": machine.name, "peak": machine.peak, "cache": machine.cache}), flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        row = by_name[wanted["row"]]
        answer = {}
        try:
            answer = measure(row, size_of(row, wanted["sort"], seed), machine, wanted["rounds"], wanted["variants"],
                             wanted["quick"])
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
