"""A kernel with a size fixed later behaves like one with the size fixed from the start, whatever the steps between."""
from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, reject

import loopkit as lk
from loopkit.analysis.dependences import dependences
from tests.property.machine import MachineError, execute
from tests.property.test_programs import EXAMPLES, examples

LENGTH, N = 400, 5

#: Subscripts and conditions in which the size *p* stands, most of which are affine for a number alone.
SUBSCRIPTS = ("p*g + h", "2*p*g + h", "p*h + g", "p*p*g + h", "g", "h", "g + 1", "p*g + h + p", "40 - p*g", "p*g*g + h",
              "(p*g + h) % (2*p)", "i[g]")
CONDITIONS = ("", "", "", " {if=p*g < n}", " {if=p*h + g < 9}", " {if=p*p*g + h > 3}", " {if=i[g] > 1}")
FORMS = ("b[{0}] = a[{1}]", "b[{0}] = b[{1}] + 1", "c[{0}] = b[{1}]", "t[{0}] = a[{1}]", "c[{0}] = t[{1}]",
         "t[{0}] = t[{1}] + 2", "c[{0}] = c[{0}] + t[{1}]")
Step = Callable[[lk.LoopKernel], lk.LoopKernel]

STEPS: Mapping[str, Step] = {
    "blocks of g": lambda k: lk.tag_inames(k, {"g": "g.0"}), "threads of h": lambda k: lk.tag_inames(k, {"h": "l.0"}),
    "unrolled h": lambda k: lk.tag_inames(k, {"h": "unr"}), "g inside": lambda k: lk.prioritize_loops(k, "h, g"),
    "h inside": lambda k: lk.prioritize_loops(k, "g, h"), "split g": lambda k: lk.split_iname(k, "g", 2),
    "split h": lambda k: lk.split_iname(k, "h", 2), "reverse g": lambda k: lk.reverse(k, "g"),
    "reverse h": lambda k: lk.reverse(k, "h"), "shift g": lambda k: lk.shift(k, "g", 3),
    "prefetch a": lambda k: lk.add_prefetch(k, "a", "h"), "prefetch b": lambda k: lk.add_prefetch(k, "b", "g"),
    "part g": lambda k: lk.distribute_loop(k, "g", k.statements[-1].id),
    "part h": lambda k: lk.distribute_loop(k, "h", k.statements[-1].id),
    "peel g": lambda k: lk.peel(k, "g", first=1), "outer blocks": lambda k: lk.tag_inames(k, {"g_outer": "g.0"}),
    "inner threads": lambda k: lk.tag_inames(k, {"g_inner": "l.0"}), "skew h": lambda k: lk.skew(k, "h", by={"g": 1}),
    "copies of t": lambda k: lk.privatize(k, "g", "t")}


@st.composite
def texts(draw: st.DrawFn) -> str:
    picked = st.sampled_from(SUBSCRIPTS)
    lines = [draw(st.sampled_from(FORMS)).format(draw(picked), draw(picked)) + draw(st.sampled_from(CONDITIONS))
             for _ in range(draw(st.integers(1, 3)))]
    if any("t[" in line for line in lines):
        lines.insert(0, f"t[{draw(picked)}] = a[{draw(picked)}]")
    return "\n".join(lines)


def made(text: str, p: str, assumptions: str) -> lk.LoopKernel:
    def numbered(part: str) -> str:
        return part.replace("p", p)
    data: list[Any] = [lk.GlobalArg(x, np.int32 if x == "i" else np.float64, shape=LENGTH)
                       for x in "abci" if f"{x}[" in text]
    data += [lk.TemporaryVariable("t", np.float64, shape=(LENGTH,))] if "t[" in text else []
    return lk.make_kernel(f"{{[g, h]: 0<=g<n and 0<=h<{p}}}", numbered(text), [*data, "..."],
                          assumptions=numbered(assumptions))


@dataclass
class Course:
    """A kernel on its way, and what became of each step."""

    knl: lk.LoopKernel
    outcomes: list[str] = field(default_factory=list)

    def take(self, names: Sequence[str]) -> None:
        for name in names:
            try:
                self.knl = STEPS[name](self.knl)
                self.outcomes.append(f"{name}: accepted")
            except lk.LoopkitError as refusal:
                self.outcomes.append(f"{name}: {type(refusal).__name__}")

    def arrays(self) -> dict[str, np.ndarray]:
        every = {x: np.arange(LENGTH) % 7 + k for k, x in enumerate("abci")}
        return {x: v.astype(np.int32 if x == "i" else np.float64) for x, v in every.items()
                if x in self.knl.argument_by_name}

    def result(self, p: int) -> Any:
        given = {"p": p} if "p" in self.knl.argument_by_name else {}
        try:
            return [np.array(v) for v in self.knl(**self.arrays(), **given, n=N)]
        except lk.LoopkitError as refusal:
            return type(refusal).__name__

    def reads_what_nobody_wrote(self) -> bool:
        """Does it read a cell of 't' that has no value? Where data decide whether it is read, nobody else sees that."""
        try:
            lowered = lk.lower(self.knl)
            execute(lowered, self.arrays(), {"n": N}, random.Random(0))
        except MachineError as found:
            return "nobody wrote" in str(found) or "did not write" in str(found)
        except lk.LoopkitError:
            pass
        return False


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("way", ["a number", "an assumption"])
@pytest.mark.parametrize("part", range(4))
def test_what_is_known_later_is_known(part: int, way: str) -> None:
    """Steps are accepted and refused as if it had been known from the start, and results agree."""
    @examples(part, EXAMPLES // 2)
    @given(texts(), st.integers(1, 4), st.lists(st.sampled_from(list(STEPS)), max_size=2),
           st.lists(st.sampled_from(list(STEPS)), min_size=1, max_size=3), st.integers(0, 5))
    def run(text: str, p: int, before: list[str], behind: list[str], lot: int) -> None:
        try:
            later = Course(made(text, "p", "n>=1 and p>=1"))
        except lk.PreconditionError:            # the values of 't' are in another loop than their readers
            reject()
        first = Course(made(text, str(p), "n>=1") if way == "a number" else made(text, "p", f"n>=1 and p={p}"))
        later.take(before)
        # with a number more may be accepted before
        accepted = [name for name, outcome in zip(before, later.outcomes, strict=True) if outcome.endswith("accepted")]
        first.take(accepted)
        assert all(o.endswith("accepted") for o in first.outcomes), (text, before, first.outcomes)
        later.knl = lk.fix_parameters(later.knl, p=p) if way == "a number" else lk.assume(later.knl, f"p = {p}")
        later.outcomes.clear()
        first.outcomes.clear()
        later.take(behind)
        first.take(behind)
        shown = f"{text}\np = {p}, {accepted}"
        assert later.outcomes == first.outcomes, shown
        if lot == 0:
            # steps before may have been told less, and so have kept more apart: what both give must be right
            untransformed = Course(made(text, str(p), "n>=1"))
            if untransformed.reads_what_nobody_wrote():
                reject()
            wanted, found, plain = (course.result(p) for course in (first, later, untransformed))
            assert isinstance(wanted, str) or not isinstance(found, str), f"{shown}: {found}"
            for result in (wanted, found):
                if not isinstance(result, str) and not isinstance(plain, str):
                    np.testing.assert_equal(result, plain, shown)
            if not isinstance(wanted, str):
                np.testing.assert_equal(found, wanted, shown)
    run()


@pytest.mark.parametrize("known", [
    lambda k: lk.fix_parameters(k, hs=32), lambda k: lk.assume(k, "hs = 32"), lambda k: lk.fix_parameters(k, hs=1)])
@pytest.mark.parametrize("text", ["b[2*hs*g + h] = a[2*hs*g + h]", "b[2*hs*g + h] = b[2*hs*g + h] + a[g]",
                                  "<> t[h] = a[hs*g + h]\n b[hs*g + h] = t[h]"])
def test_steps_before_hide_nothing(text: str, known: Step) -> None:
    """Blocks write different elements, whatever happened to the loops before that was known."""
    knl = lk.make_kernel("{[g,h]: 0<=g<n and 0<=h<hs}", text, assumptions="n>=1 and hs>=1")
    steps: list[Step] = [lambda k: k, lambda k: lk.split_iname(k, "h", 4), lambda k: lk.shift(k, "h", 3)]
    for step in steps:
        assert "g" in lk.tag_inames(known(step(knl)), "g:g.0").tags


def test_a_condition_that_is_decided_hides_what_was_written_before() -> None:
    """The second write may be the last one, or not; once it is, the first one has no readers."""
    text = "t[g] = a[g] {id=first}\n t[g] = 2*a[g] {id=second, if=p*p*g + 1 > q*g}\n b[g] = t[g]"
    knl = lk.make_kernel("{[g]: 0<=g<n}", text, [lk.TemporaryVariable("t", np.float64, shape="n"), "..."])
    knl = lk.split_iname(knl, "g", 4)
    assert {d.source for d in dependences(knl) if d.kind == "flow"} == {"first", "second"}
    known = lk.fix_parameters(knl, p=2, q=3)
    assert [(d.source, d.kind, d.exact) for d in dependences(known)] == [("second", "flow", True)]
