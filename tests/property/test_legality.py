"""Random affine programs and random orders of them: what is accepted is right, what is refused is really wrong.

An accepted pipeline leaves bit for bit what the program leaves, on the host target. A refused step has a witness: a run
of the program's own Python touches that element from these two instances in that order, and the step runs them the
other way round, or at once. Where sizes are small, enumeration finds no smaller one.

``LOOPKIT_PROPERTY_EXAMPLES``, ``LOOPKIT_PROPERTY_SEED`` and ``LOOPKIT_PROPERTY_COUNTS`` are as in ``test_programs``.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, reject, seed, settings

import loopkit as lk
from loopkit.errors import InternalError, Witness
from tests.legality.trace import Instance, Judged, Pair, require_smallest
from tests.property.affine import AffineWriter, Reshaper
from tests.property.checks import COUNTS, crash, of_one_reading
from tests.property.kernels import Draw, Program
from tests.property.pipelines import ALLOWANCES, STAGING, NothingToDoError, Step
from tests.property.reference import Event, events
from tests.property.test_programs import EXAMPLES, FIRST_SEED, PARTS
from tests.property.writer import programs
from tests.transform.same import assert_bounded

#: Enumeration looks for smaller witnesses below this many sizes times instances.
MOST_WORK = 3000
#: Of a hundred refusals at most one may be counted so.
UNJUDGED = "witness: not judged, isl gave up on the step by force"


@dataclass
class Trial:
    """A program on its way through a pipeline.

    :ivar kernels: the program's kernel, and the kernel after each accepted step.
    """

    program: Program
    kernels: list[lk.LoopKernel]
    steps: list[Step] = field(default_factory=list)

    @property
    def knl(self) -> lk.LoopKernel:
        return self.kernels[-1]

    def fail(self, what: str, last: Step | None = None) -> AssertionError:
        steps = [*self.steps, *([last] if last is not None else [])]
        return AssertionError(f"{what}\n{self.program.script()}" + "\n".join(map(str, steps)))

    def transform(self, draw: Draw, count: int) -> None:
        for _ in range(count):
            drawer = Reshaper(draw, self.knl, self.program.sizes[0])
            try:
                step = drawer.reshaping()
            except NothingToDoError:
                continue
            try:
                self.kernels.append(step.apply(self.knl))
                assert_bounded(self.knl)
                self.steps.append(step)
                COUNTS[f"accepted: {step.name}"] += 1
            except lk.IllegalTransformError as refusal:
                COUNTS[f"refused: {step.name}"] += 1
                self.require_true(step, refusal.witness)
            except lk.UndecidedError as undecided:
                if any(s.predicates for s in self.knl.statements):
                    COUNTS["undecided: a condition on a number of open dtype"] += 1      # it need not be an integer
                    continue
                raise self.fail(f"undecided, and all is affine: {undecided}", step) from None
            except InternalError as broken:
                raise self.fail(f"{step.name} broke: {crash(broken)}", step) from None
            except lk.LoopkitError as other:
                COUNTS[f"impossible: {step.name}: {type(other).__name__}"] += 1

    # Refusals

    def require_true(self, step: Step, witness: Witness) -> None:
        """:raises AssertionError: the reference run does not confirm *witness*, or the step does not break it."""
        try:
            kwargs = {**dict(step.kwargs), "unsafe": True}
            if step.name in STAGING:                      # a forced step moves the loops, whoever gave their order
                kwargs |= dict.fromkeys(ALLOWANCES, True)
            forced = Step(step.name, step.args, tuple(kwargs.items())).apply(self.knl)
        except lk.UndecidedError as undecided:            # what it loses besides takes isl too long
            if "isl gave up" not in str(undecided):
                raise
            COUNTS[UNJUDGED] += 1
            return
        try:
            self.require_broken(forced, witness)
        except AssertionError as false:
            raise self.fail(f"{witness}\nis no true alarm: {false}", step) from None

    def require_broken(self, forced: lk.LoopKernel, witness: Witness) -> None:
        sizes = {**dict.fromkeys(("n", "m"), 0), **witness.parameters}
        judged = Judged((*self.kernels, forced), {x: v for x, v in sizes.items() if x in forced.value_params})
        source, sink = (Instance(s, tuple(values.items())) for s, values in (witness.source, witness.sink))
        assert {source, sink} <= set(judged.instances), "an instance does not exist"
        pair = Pair(source, sink, witness.array, tuple(witness.element or ()), witness.kind)
        assert not judged.in_order(pair), "the step keeps the order of the two"
        if {source.statement, sink.statement} & judged.new:
            COUNTS["witness: with a copy"] += 1
            assert pair in list(judged.pairs())
        elif witness.array in {node.accumulator for node in self.kernels[0].reductions.values()}:
            COUNTS["witness: in a reduction"] += 1
            assert pair in list(judged.pairs())
        else:
            COUNTS[f"witness: {witness.kind}"] += 1
            self.require_in_reference(judged, pair, sizes)
        if witness.parameters.keys() == judged.params.keys() and self.work(judged) < MOST_WORK:
            COUNTS["witness: none is smaller"] += 1
            require_smallest([*self.kernels, forced], witness, reach=1)

    @staticmethod
    def work(judged: Judged) -> int:
        below = np.prod([v + 1 for v in judged.params.values()], initial=1)
        return int(below) * len(judged.instances)

    def require_in_reference(self, judged: Judged, pair: Pair, sizes: Mapping[str, int]) -> None:
        """The program itself touches the element from both instances, in that order."""
        trace = events(self.program, sizes)
        first, second = {"flow": (True, False), "anti": (False, True), "output": (True, True)}[pair.kind]

        def places(instance: Instance, is_write: bool) -> list[int]:
            point = judged.origin.point(instance.statement, instance.point)
            wanted = Event(instance.statement.split(".")[0], point, pair.array, pair.element, is_write)
            return [i for i, event in enumerate(trace) if event == wanted]
        sources, sinks = places(pair.source, first), places(pair.sink, second)
        assert sources, f"{pair.source} does not touch {pair.array}{list(pair.element)} in the reference run"
        assert sinks, f"{pair.sink} does not touch {pair.array}{list(pair.element)} in the reference run"
        assert sources[0] < sinks[-1], "the source does not run first in the reference run"
        if pair.array in judged.knl.temporaries and pair.kind == "flow":
            between = [e for e in trace[sources[-1] + 1:sinks[0]] if e.is_write
                       and (e.array, e.element) == (pair.array, pair.element)]
            assert not between, f"{between[0]} writes in between"

    def require_right(self) -> None:
        """:raises AssertionError: the kernel leaves on the host what the program does not."""
        for sizes in self.program.sizes[:2]:
            if self.program.assumptions is not None and not eval(self.program.assumptions, dict(sizes)):
                continue
            wanted = self.program.expected(sizes)
            if wanted is None:
                continue
            arrays = {k: v.copy() for k, v in self.program.inputs().items() if k in self.knl.argument_by_name}
            try:
                self.knl(**arrays, **{k: v for k, v in sizes.items() if k in self.knl.argument_by_name})
            except InternalError as broken:
                raise self.fail(f"running broke: {crash(broken)}") from None
            except lk.LoopkitError as refusal:
                COUNTS[f"not lowered: {type(refusal).__name__}"] += 1
                return
            COUNTS["ran"] += 1
            for name, found in arrays.items():
                wrong = np.argwhere(found != wanted[name])
                if len(wrong):
                    at = tuple(map(int, wrong[0]))
                    raise self.fail(f"{name}{list(at)} is {found[at]} instead of {wanted[name][at]} with {dict(sizes)}")


# The test

def examples(part: int) -> Any:
    fixed = settings(max_examples=max(1, EXAMPLES // len(PARTS)), database=None, deadline=None, print_blob=False,
                     suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink])
    return lambda test: seed(1000 + FIRST_SEED * len(PARTS) + part)(fixed(test))


@pytest.mark.deep(every=8)
@pytest.mark.parametrize("part", PARTS)
def test_accepted_is_right_and_refused_is_wrong(part: int) -> None:
    @examples(part)
    @given(programs(kind=AffineWriter), st.data(), st.integers(1, 5))
    def run(program: Program, data: st.DataObject, steps: int) -> None:
        if program.expected(program.sizes[0]) is None:
            reject()
        trial = Trial(program, [of_one_reading(program)])
        if not trial.knl.written_names & set(trial.knl.argument_by_name):
            reject()
        COUNTS["programs"] += 1
        trial.transform(data.draw, steps)
        trial.require_right()
    run()
    assert 100*COUNTS[UNJUDGED] <= sum(n for what, n in COUNTS.items() if what.startswith("refused: "))
