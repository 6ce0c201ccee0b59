"""How long each step, stage and check of deep random pipelines takes: ``python benchmarks/codegen.py --deep``.

A pipeline runs in a process of its own, and is measured by the processor's time: other load does not count. A process
that takes longer than :data:`MOST_PIPELINE_SECONDS` is ended, and what it was at is shown with that time.
"""
from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Any
from unittest.mock import patch

import codegen_pipelines

import loopkit as lk
from loopkit.lowering import pipeline

MOST_SECONDS = 1.0                        # of a step, a stage or a check
MOST_PIPELINE_SECONDS = 60
SHOWN = 10

CHECKS = (lk.check_legal, lk.check_bounds, lk.check_coverage, lk.check_races, lk.check_barriers)


@dataclass(frozen=True)
class Timing:
    """One question: a step, a stage, a check or a text, and its seconds."""

    what: str
    seconds: float
    ended: str = ""


@dataclass
class Clock:
    """Tells *answers* what it begins, and how long that took."""

    answers: Connection

    def timed(self, what: str, call: Callable[[], Any]) -> Any:
        self.answers.send((what, None, ""))
        start, ended = time.process_time(), ""
        try:
            return call()
        except lk.LoopkitError as err:
            ended = f"{type(err).__name__}: {str(err).splitlines()[0]}"
            raise
        except Exception as err:
            # a stage stands within the step that gives isl its budget, and says it in an error of ours
            ended = "isl gave up" if "maximal number of operations" in str(err) \
                else f"INTERNAL {type(err).__name__}: {err}"
            raise
        finally:
            self.answers.send((what, time.process_time() - start, ended))

    def stage(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.timed(f"stage {name}", lambda: function(*args, **kwargs))


def measure(seed: int, answers: Connection) -> None:
    """All that pipeline *seed* asks, in this process; at its end *answers* is told its text."""
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_PIPELINE_SECONDS, MOST_PIPELINE_SECONDS))
    clock = Clock(answers)
    lines, knl = codegen_pipelines.draw(seed, clock.timed)
    answers.send((lines, None, ""))
    try:
        timed = tuple(replace(stage, run=clock.stage(stage.name, stage.run)) for stage in pipeline.STAGES)
        with patch.object(pipeline, "STAGES", timed):
            pipeline.lowered_once(knl)
        for check in CHECKS:
            clock.timed(check.__name__, partial(check, knl))
        for target in ("cuda", "c"):
            clock.timed(f"text {target}", partial(lk.generate_code, knl, target=target))
    except lk.LoopkitError:
        pass                                  # told by the clock, and a result as any other


def timings(seed: int) -> tuple[list[str], list[Timing]]:
    """The text of pipeline *seed*, and how long each of its questions took."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=measure, args=(seed, there))
    process.start()
    there.close()
    lines: list[str] = []
    found: list[Timing] = []
    begun: list[str] = []
    while True:
        try:
            what, seconds, ended = here.recv()
        except EOFError:
            break
        if isinstance(what, list):
            lines = what
        elif seconds is None:
            begun.append(what)
        else:
            begun.pop()
            found.append(Timing(what, seconds, ended))
    process.join()
    if process.exitcode:
        how = f"ended by signal {-process.exitcode}" if process.exitcode < 0 else "an error of ours"
        found += [Timing(what, MOST_PIPELINE_SECONDS, how) for what in begun[-1:] or ['measuring']]
    made = [t.what for t in found if t.what.startswith("knl = ") and not t.ended]
    return lines or made, found


def report(results: Sequence[tuple[int, list[str], list[Timing]]]) -> Iterator[str]:
    """The slowest questions, and those above the goal."""
    every = sorted(((t, seed, lines) for seed, lines, found in results for t in found), key=lambda x: -x[0].seconds)
    if not every:
        return
    seconds = [t.seconds for t, _, _ in every]
    above = [x for x in every if x[0].seconds > MOST_SECONDS]
    yield (f"{len(results)} pipelines, {len(every)} steps, stages, checks and texts, in seconds of the processor: "
           f"median {1e3*seconds[len(seconds)//2]:.1f} ms, 99 of 100 below {1e3*seconds[len(seconds)//100]:.0f} ms, "
           f"{sum(seconds):.0f} s in all")
    yield f"above {MOST_SECONDS:.0f} s: {len(above)}, in {len({seed for _, seed, _ in above})} pipelines (goal: 0)"
    yield from (f"{t.seconds:8.2f} s  pipeline {seed:5}  {t.what}{'  ' + t.ended if t.ended else ''}"
                for t, seed, _ in above[SHOWN:])
    yield f"\nthe slowest {SHOWN}"
    for t, seed, lines in every[:SHOWN]:
        yield f"{t.seconds:8.2f} s  pipeline {seed}: {t.what}{'  ' + t.ended if t.ended else ''}"
        yield from (f"              {line}" for line in lines)
    broken = [x for x in every if x[0].ended.startswith(("INTERNAL", "ended", "an error"))]
    if broken:
        yield "\nerrors that are none of loopkit's"
        yield from (f"          pipeline {seed}: {t.what}  {t.ended}" for t, seed, _ in broken)


def deep(count: int, first_seed: int) -> None:
    """Measure *count* pipelines and print the report."""
    results = []
    for seed in range(first_seed, first_seed + count):
        lines, found = timings(seed)
        results.append((seed, lines, found))
        slowest = max(found, key=lambda t: t.seconds, default=Timing("", 0.0))
        print(f"pipeline {seed:5} {sum(t.seconds for t in found):8.2f} s, of which {slowest.seconds:6.2f} s "
              f"{slowest.what[:80]}", flush=True)
    print("", *report(results), sep="\n")
