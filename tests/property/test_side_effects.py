"""Random pipelines: a copy that is placed by default keeps given orders, storage of temporaries and launches."""
from __future__ import annotations

from math import prod

import hypothesis.strategies as st
import pytest
from hypothesis import given

import loopkit as lk
from loopkit.expr.evaluate import evaluate
from loopkit.expr.mappers import variables
from loopkit.kernel.tags import is_innermost, is_parallel
from loopkit.kernel.tree import loops_in, ordered_pairs
from tests.following import followed
from tests.property.checks import COUNTS, Trial
from tests.property.kernels import Program
from tests.property.pipelines import STAGING, Drawer, Step
from tests.property.staged import PLAN, Stager, staged_programs
from tests.property.test_programs import EXAMPLES, PARTS, examples
from tests.property.writer import programs

SPACES = ("private", "shared", "global")
SIZES = (1, 2, 3, 7, 64, 1000)


class Watching(Trial):
    """A trial that looks at each copy that was placed without an argument that allows more."""

    def _accepted(self, step: Step, new: lk.LoopKernel) -> None:
        before = self.knl
        super()._accepted(step, new)
        assert "STATEMENTS" in str(new), "a kernel prints, whether it can be lowered or not"
        assert all(isinstance(line, str) for line in new.history[-1].effects)
        if step.name in STAGING and not any(name.startswith("allow_") for name, _ in step.kwargs):
            COUNTS["copies by default"] += 1
            self._require_orders(before)
            self._require_cost(before)

    def _refused(self, step: Step, error: lk.LoopkitError) -> None:
        super()._refused(step, error)
        if step.name in STAGING and isinstance(error, lk.ScheduleError | lk.StorageError):
            words = error.message.split(" the loop over ")[0]
            for way in self._followed(error.hint or ""):
                COUNTS["hints followed"] += 1
                try:
                    step.apply(way)
                except lk.LoopkitError as other:
                    if other.message.split(" the loop over ")[0] == words and other.hint == error.hint:
                        raise self.fail(f"{error}\nis followed and comes again", step) from None

    def _followed(self, hint: str) -> list[lk.LoopKernel]:
        try:
            return followed(self.knl, hint)
        except (lk.IllegalTransformError, lk.UndecidedError):      # other statements do not allow it
            COUNTS["hints that others forbid"] += 1
            return []

    def _require_orders(self, before: lk.LoopKernel) -> None:
        given_pairs = ordered_pairs(before.given_order)
        COUNTS["copies in given orders"] += bool(given_pairs)
        for s in before.statements:
            if s.id in self.knl.statement_by_id:
                old, now = (_loops(knl, s.id) for knl in (before, self.knl))
                for x, y in given_pairs:
                    if x in old and y in old and old.index(x) < old.index(y) and now.index(x) > now.index(y):
                        raise self.fail(f"the loops over {x} and {y} around {s.id} changed places")

    def _require_cost(self, before: lk.LoopKernel) -> None:
        old = _cost(before)
        if isinstance(old, lk.LoopkitError):
            COUNTS["copies in a kernel whose mapping is refused"] += 1
            return
        now = _cost(self.knl)
        if isinstance(now, lk.LoopkitError):
            COUNTS["copies whose mapping is refused"] += 1
            # the copy's own loops may need tags like those of the statements beside it, or fewer
            if "hardware axis" not in now.message and "is declared private" not in now.message:
                raise self.fail(f"the kernel could be lowered, and cannot now: {now}")
            return
        if now[1] > old[1] or not now[2] <= old[2]:
            raise self.fail(f"{old[1]} launches became {now[1]}, the host's loops {old[2]} {now[2]}")
        for name in old[0].keys() & now[0].keys():
            COUNTS["temporaries kept"] += 1
            if any(a > b for a, b in zip(now[0][name], old[0][name], strict=True)):
                raise self.fail(f"'{name}' has {now[0][name]} cells after {old[0][name]}")


def _loops(knl: lk.LoopKernel, statement: str) -> list[str]:
    loops = [step.iname for step in knl.paths[statement] if step.iname is not None]
    return [x for x in loops if not is_parallel(knl.tags.get(x)) and not is_innermost(knl.tags.get(x))]


def _cost(knl: lk.LoopKernel) -> tuple[dict[str, list[tuple[int, int]]], int, set[str]] | lk.LoopkitError:
    """The address space and the number of cells of each temporary for some sizes; the launches; the host's loops.

    Of a kernel that cannot be lowered, why not.
    """
    try:
        stored = lk.lower(knl, stop="storage")
    except lk.LoopkitError as refusal:
        return refusal
    cells = {name: [(space, prod(max(evaluate(e, dict.fromkeys(variables(e), size)), 0) for e in s.shape))
                    for size in SIZES for space in [SPACES.index(str(s.space))]]
             for name, s in stored.storages.items() if name in knl.temporaries}
    return cells, len(stored.schedule.launches), {loop.iname for loop in loops_in(stored.schedule.order)}


@pytest.mark.deep(every=3)
@pytest.mark.parametrize("part", PARTS)
def test_copies_keep_what_they_do_not_name(part: int) -> None:
    @examples(part, EXAMPLES // 4)
    @given(programs(), st.data(), st.integers(1, 4))
    def run(program: Program, data: st.DataObject, steps: int) -> None:
        trial = Watching.of(program)
        trial.transform(data.draw, steps)
        trial.draw_steps(data.draw, [lambda drawer: drawer.one((Drawer.prefetch, Drawer.buffer))(drawer)]*2, Drawer)
    run()


@pytest.mark.deep(every=3)
@pytest.mark.parametrize("part", PARTS)
def test_copies_of_tiles_keep_what_they_do_not_name(part: int) -> None:
    @examples(part, EXAMPLES // 4)
    @given(staged_programs(), st.data())
    def run(program: Program, data: st.DataObject) -> None:
        trial = Watching.of(program)
        trial.follow(data.draw, PLAN, (), 0, Stager)
    run()
    refused = COUNTS["copies in a kernel whose mapping is refused"] + COUNTS["copies whose mapping is refused"]
    assert COUNTS["copies by default"] > 3*refused, "few costs are known: this shows little"
