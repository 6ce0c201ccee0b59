"""Random kernels with temporaries that loops carry, and forced steps: all values without assumed dependences stay
right.

Every instance whose value does not come, by whatever way, from a pair that was given up must compute what it computed
before; and code is made or refused, never broken.
"""
from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pymbolic.primitives as p
import pytest
from pymbolic.typing import Expression

import loopkit as lk
from loopkit.analysis.accesses import accesses_of
from loopkit.analysis.dependences import with_assumed
from loopkit.analysis.legality import violations
from loopkit.expr.evaluate import evaluate
from loopkit.interpreter.instances import Instance, instances
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lower_fully
from loopkit.poly.relations import element_at, pair_test
from loopkit.verification.validation import validate
from tests.property.machine import MachineError, execute
from tests.property.test_programs import EXAMPLES, FIRST_SEED, PARTS

I64 = np.dtype("int64")
N = 5
#: What a statement of a loop over i may be, and of one after it over j.
IN_LOOP = ("t = t + x[i]", "t = 2*x[i]", "y[i] = t", "a[i] = x[i]", "a[i+1] = x[i] + t", "a[i] = a[i] + t",
           "z[i] = a[i]", "a[i+1] = a[i] + x[i]", "z[i] = a[i] + t", "t = a[i]", "t = t + a[4-i]", "a[4-i] = t")
BEHIND = ("p[j] = a[j]", "p[j] = t + x[j]", "t = a[j]", "a[j] = a[j] + 1", "p[j] = a[4-j]")
STEPS: Sequence[tuple[str, Callable[..., lk.LoopKernel]]] = (
    ("i:l.0", lambda k, **w: lk.tag_inames(k, "i:l.0", **w)), ("i:g.0", lambda k, **w: lk.tag_inames(k, "i:g.0", **w)),
    ("both:l.0", lambda k, **w: lk.tag_inames(k, "i:l.0, j:l.0", **w)),
    ("both:g.0", lambda k, **w: lk.tag_inames(k, "i:g.0, j:g.0", **w)),
    ("reverse", lambda k, **w: lk.reverse(k, "i", **w)), ("ilp", lambda k, **w: lk.tag_inames(k, "i:ilp", **w)),
    ("split", lambda k, **w: lk.split_iname(k, "i", 2, inner_tag="l.0", **w)),
    ("split g", lambda k, **w: lk.split_iname(k, "i", 2, outer_tag="g.0", inner_tag="l.0", **w)),
    ("fuse", lambda k, **w: lk.fuse_loops(k, ["i", "j"], **w)),
    ("distribute", lambda k, **w: lk.distribute_loop(k, "i", before="s1", **w)),
    ("privatize", lambda k, **w: lk.privatize(k, "i", "t", **w)))


#: The same with elements that memory decides.
INDIRECT = ("a[idx[i]] = x[i]", "z[i] = a[idx[i]]", "a[idx[i]] = a[idx[i]] + x[i]", "a[idx[i]] = a[idx[i]] + t",
            "t = a[idx[i]]", "a[idx[4-i]] = x[i]", "z[i] = a[idx[i]] + a[i]")


def kernel(draw: random.Random, loop: Sequence[str] = IN_LOOP) -> lk.LoopKernel:
    inside = [draw.choice(loop) for _ in range(draw.randint(2, 4))]
    behind = [draw.choice(BEHIND) for _ in range(draw.randint(1, 2))]
    lines = ["t = 7 {id=first}", "for k", "a[k] = 3*k {id=clear}", "end", "for i",
             *(f"{s} {{id=s{n}}}" for n, s in enumerate(inside)), "end", "for j",
             *(f"{s} {{id=b{n}}}" for n, s in enumerate(behind)), "end", "q[0] = t {id=last}"]
    return lk.make_kernel(f"{{[i, j, k]: 0<=i,j<{N} and 0<=k<={N}}}", "\n".join(lines), [
        lk.TemporaryVariable("t", I64, ()), lk.TemporaryVariable("a", I64, (N + 1,)), lk.GlobalArg("x", I64, (N,)),
        *([lk.GlobalArg("idx", I64, (N,))] if any("idx" in s for s in inside) else []),
        *(lk.GlobalArg(y, I64, (N,)) for y in "yzpq" if any(s.startswith(f"{y}[") for s in (*inside, *behind, "q["))),
        "..."])


def ran(low: Lowered, idx: Sequence[int] = ()) -> dict[str, np.ndarray]:
    inputs = {"x": np.arange(10, 10 + N), "idx": np.array(idx, I64)}
    arrays = {a.name: inputs.get(a.name, np.zeros(N, I64)) for a in low.kernel.arguments}
    return execute(low, arrays, {}, random.Random(1))


def without_races(low: Lowered) -> tuple[dict[str, np.ndarray] | None, str]:
    """What the machine computes, or nothing and where it saw a race."""
    try:
        return ran(low), ""
    except MachineError as race:
        return None, str(race)


def spoilt(knl: lk.LoopKernel) -> set[tuple[str, tuple[int, ...]]]:
    """The elements that may hold anything: some value on the way to them was given up."""
    found = instances(knl, {}, lambda s, x: 0)
    by_statement: dict[str, list[Instance]] = {}
    for x in found:
        by_statement.setdefault(x.statement, []).append(x)
    bad: set[Instance] = set()
    follows: list[tuple[Instance, Instance]] = []
    for d in with_assumed(knl):
        if d.kind == "flow":
            meets = pair_test(d.relation, {})
            pairs = [(x, y) for x in by_statement.get(d.source, ()) for y in by_statement.get(d.sink, ())
                     if meets(x.point, y.point)]
            follows += pairs
            bad.update(y for _, y in pairs if d.assumed)
    while new := {y for x, y in follows if x in bad} - bad:
        bad |= new
    return {(a.array, element_at(a.relation, {}, x.point)) for x in bad
            for a in accesses_of(knl, knl.statement_by_id[x.statement]) if a.is_write}


def forced(draw: random.Random, knl: lk.LoopKernel, counts: Counter[str]) -> lk.LoopKernel | None:
    """*knl* after one or two steps, of which those that are refused for a temporary are forced."""
    for name, step in (draw.choice(STEPS) for _ in range(draw.randint(1, 2))):
        try:
            knl = step(knl)
        except lk.IllegalTransformError as refusal:
            if refusal.after is None or not {v.dependence.array for v in violations(refusal.after)} <= {"t", "a"}:
                continue
            knl = step(knl, unsafe=True)
            counts[f"forced: {name}"] += 1
        except lk.LoopkitError:
            continue
    return knl if knl.obligations else None


def require_right(draw: random.Random, counts: Counter[str]) -> None:
    plain = kernel(draw)
    try:
        expected = ran(lower_fully(plain))
        knl = forced(draw, plain, counts)
    except lk.StorageError:
        return                                          # t is read before anything is written, say
    if knl is None:
        return
    try:
        low = lower_fully(knl)
    except (lk.PreconditionError, lk.IllegalTransformError) as refusal:
        counts[f"refused: {type(refusal).__name__}"] += 1
        return
    script = knl.history.script()
    assert validate(low) == (), script
    report = lk.verify(knl)
    assert report.verdict is lk.Verdict.ASSUMED, f"{report}\n{script}"
    got, race = without_races(low)
    if got is None:
        counts["raced, as was given up"] += 1
        assert any(f.verdict is lk.Verdict.ASSUMED for f in report["races"].findings), f"{race}\n{script}"
        return
    counts["ran"] += 1
    free = spoilt(knl)
    for name, values in expected.items():
        for at, value in np.ndenumerate(values):
            if (name, at) not in free:
                counts["elements that are bound"] += 1
                assert got[name][at] == value, f"{name}{list(at)} is {got[name][at]}, not {value}\n{script}"


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("part", PARTS)
def test_what_was_not_given_up_stays_right(part: int) -> None:
    counts: Counter[str] = Counter()
    for number in range(max(1, EXAMPLES // 4 // len(PARTS))):
        require_right(random.Random(f"{FIRST_SEED} {part} {number}"), counts)
    if EXAMPLES >= 2000:
        assert counts["ran"], counts
        assert counts["elements that are bound"], counts


# What is assumed, with data for which it holds

def promised(knl: lk.LoopKernel, idx: Sequence[int]) -> bool:
    """Do the pairs that were given up never meet, with *idx* in memory?"""
    def elements(x: Instance, array: str) -> set[int]:
        inames = x.inames(knl)
        return {value(s, inames) for a in accesses_of(knl, knl.statement_by_id[x.statement]) if a.array == array
                for s in a.subscripts or (0,)}

    def value(subscript: Expression, inames: Mapping[str, int]) -> int:
        if isinstance(subscript, p.Subscript):
            return idx[evaluate(subscript.index_tuple[0], inames)]
        return evaluate(subscript, inames)
    found = instances(knl, {}, lambda s, x: 0)
    for d in with_assumed(knl):
        if d.assumed:
            meets = pair_test(d.relation, {})
            if any(x.statement == d.source and y.statement == d.sink and meets(x.point, y.point)
                   and elements(x, d.array) & elements(y, d.array) for x in found for y in found):
                return False
    return True


def assumed(draw: random.Random, knl: lk.LoopKernel) -> lk.LoopKernel | None:
    for _, step in (draw.choice(STEPS) for _ in range(draw.randint(1, 2))):
        try:
            knl = step(knl)
        except lk.UndecidedError:
            knl = step(knl, assume="the data are made so")
        except lk.LoopkitError:
            continue
    return knl if knl.obligations else None


def require_as_promised(draw: random.Random, counts: Counter[str]) -> None:
    plain = kernel(draw, (*INDIRECT, *INDIRECT, "y[i] = t", "t = 2*x[i]", "z[i] = a[i]"))
    try:
        before = lower_fully(plain)
        knl = assumed(draw, plain)
        low = None if knl is None else lower_fully(knl)
    except (lk.PreconditionError, lk.IllegalTransformError):
        counts["refused"] += 1
        return
    if knl is None or low is None:
        return
    script = knl.history.script()
    assert validate(low) == (), script
    assert lk.verify(knl).ok, script
    for _ in range(4):
        idx = draw.choice((range(N), draw.sample(range(N), N), [draw.randrange(N) for _ in range(N)]))
        if promised(knl, idx):
            counts["ran"] += 1
            expected, got = ran(before, idx), ran(low, idx)
            assert all((got[name] == expected[name]).all() for name in expected), f"idx = {list(idx)}\n{script}"


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("part", PARTS)
def test_what_is_assumed_and_true_changes_nothing(part: int) -> None:
    counts: Counter[str] = Counter()
    for number in range(max(1, EXAMPLES // 4 // len(PARTS))):
        require_as_promised(random.Random(f"{FIRST_SEED} {part} {number}"), counts)
    if EXAMPLES >= 2000:
        assert counts["ran"], counts
