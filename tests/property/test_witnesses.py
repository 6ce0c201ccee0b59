"""Witnesses are true and smallest, whatever the subscripts and conditions are.

Random small programs have conditions with parameters that bound nothing else, subscripts and conditions that are no
affine forms, and accesses that depend on data. Each witness of a refused step is looked at three times. The two
instances exist, by evaluating the conditions, and touch the element that is named. The same program with these very
sizes, in which nothing is open any more, is refused too. And it is refused at no sizes that are smaller.

``LOOPKIT_PROPERTY_EXAMPLES`` and ``LOOPKIT_PROPERTY_SEED`` are as in ``test_programs``.
"""
from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.witnesses import accesses_at
from loopkit.errors import InternalError, Witness
from tests.legality.trace import instances_of
from tests.property.checks import COUNTS, crash
from tests.property.pipelines import Step
from tests.property.test_programs import EXAMPLES, FIRST_SEED, PARTS

#: Smaller sizes are tried up to this much above those of the witness, and none above the second.
REACH, LARGEST = 1, 5


@dataclass(frozen=True)
class Text:
    """A program: what :func:`loopkit.make_kernel` is given."""

    domain: str
    text: str
    parameters: tuple[str, ...]

    def kernel(self, assumptions: str | None = None) -> lk.LoopKernel:
        shapes = {a: np.int32 if a == "idx" else np.float32 for a in ("b", "x", "y", "idx") if f"{a}[" in self.text}
        data = [*(lk.ValueArg(q, np.dtype(np.int32)) for q in self.parameters),
                *(lk.GlobalArg(a, np.dtype(t), shape=(200,)) for a, t in shapes.items()),
                *([lk.TemporaryVariable("t", np.dtype(np.float32), shape=(200,))] if "t[" in self.text else []), "..."]
        return lk.make_kernel(self.domain, self.text, data, assumptions=assumptions)

    def script(self) -> str:
        return f"{self.domain}\n{self.text}\nparameters {self.parameters}"


# Drawing

def program(rng: random.Random) -> Text:
    inames = ["i"] if rng.random() < 0.6 else ["i", "j"]
    bounds = rng.choice(("0<=i<m", "0<=i<m", "1<=i<m", "0<=i<4"))
    if "j" in inames:
        bounds += rng.choice((" and 0<=j<m", " and 0<=j<=i", " and 0<=j<3"))
    arrays = ["b", "b", "y", *(["t", "t"] if rng.random() < 0.5 else [])]
    lines = []
    for k in range(rng.choice((1, 2, 2, 3))):
        reads = " + ".join(f"{rng.choice(['x', *arrays, *arrays])}[{subscript(rng, inames)}]"
                           for _ in range(rng.choice((1, 1, 2))))
        condition = f", if={conditional(rng, inames)}" if rng.random() < 0.5 else ""
        lines.append(f"{rng.choice(arrays)}[{subscript(rng, inames)}] = {reads} {{id=S{k}{condition}}}")
    cut = rng.randrange(1, len(lines)) if len(lines) > 1 and rng.random() < 0.4 else len(lines)
    blocks = ["\n".join((f"for {', '.join(inames)}", *part, "end")) for part in (lines[:cut], lines[cut:]) if part]
    parameters = ("n", "m") if "m" in bounds else ("n",)
    return Text(f"{{[{', '.join(inames)}]: {bounds}}}", "\n".join(blocks),
                parameters if rng.random() < 0.5 else parameters[::-1])


def subscript(rng: random.Random, inames: Sequence[str]) -> str:
    x, y = rng.choice(inames), rng.choice(inames)
    plain = (x, x, f"{x}+1", f"{x}+2", "3", "1", f"2*{x}", f"{x}+{y}", f"{x}//2", f"{x}+n")
    return rng.choice((*plain, *plain, f"{x}*{x}", f"{x}*{y}", f"{x}*n", f"idx[{x}]"))


def conditional(rng: random.Random, inames: Sequence[str]) -> str:
    x = rng.choice(inames)
    return rng.choice((f"2*{x} <= n", f"{x}*n > 3", f"{x}*{x} <= n", f"{x} < n", "n > 2", "n*n > 3", f"{x} > 1",
                       f"{x} != n", f"{x} + n > 2", f"x[{x}] > 0", f"{x} >= n"))


def step(rng: random.Random, knl: lk.LoopKernel) -> Step:
    x, s = rng.choice(knl.inames), rng.choice(knl.statements).id
    arrays = sorted({s.written for s in knl.statements if s.id not in knl.reduction_of})
    a, some = rng.choice(arrays), rng.sample(knl.inames, rng.choice((0, 1, len(knl.inames))))
    within = (("within", s),) if rng.random() < 0.4 else ()
    plain = (("default_tag", None),)
    choices = [
        Step("tag_inames", ({x: rng.choice(("g.0", "l.0"))},)), Step("split_iname", (x, 2), (("inner_tag", "l.0"),)),
        Step("split_iname", (x, 2), (("outer_tag", "g.0"),)), Step("shift", (x, rng.choice((1, -1))), (("within", s),)),
        Step("buffer_array", (a, some), (*plain, *within)), Step("buffer_array", (a, some), (*plain, *within)),
        Step("add_prefetch", (a, some), (*plain, *within)), Step("add_prefetch", (a, some), (*plain, *within)),
        Step("duplicate_inames", (x, s)), Step("distribute_loop", (x, s)), Step("unroll_and_jam", (x, 2))]
    if len(knl.inames) > 1:
        choices += [Step("interchange", ("i", "j")), Step("skew", ("j", {"i": -1})), Step("tile", ({"i": 2, "j": 2},))]
    if "t" in knl.temporaries:
        choices += [Step("privatize", ([x],)), Step("expand", ("t", [x])),
                    Step("expand", ("t", [x]), (("trailing", True),))]
    if sum(line.startswith("for") for line in str(knl.statements_text).splitlines()) > 1:
        choices.append(Step("fuse_loops", (["i", "i"],)))
    return rng.choice(choices)


@dataclass(frozen=True)
class Refused:
    """A program, and a step that is refused with *witness*."""

    program: Text
    step: Step
    witness: Witness

    def fail(self, what: str) -> AssertionError:
        return AssertionError(f"{what}\n{self.program.script()}\n{self.step}\n{self.witness}")

    @property
    def sizes(self) -> tuple[int, ...]:
        """The witness's sizes in order; one that it leaves out does not matter."""
        return tuple(self.witness.parameters.get(x, 0) for x in self.program.parameters)

    def at(self, sizes: Sequence[int]) -> str | lk.IllegalTransformError:
        """What is said of the step where the sizes are known."""
        pinned = " and ".join(f"{x} = {v}" for x, v in zip(self.program.parameters, sizes, strict=True))
        try:
            self.step.apply(self.program.kernel(pinned))
        except lk.IllegalTransformError as error:
            return error
        except lk.LoopkitError as error:
            return type(error).__name__
        return "accepted"

    def require_true(self) -> None:
        """:raises AssertionError: an instance is not there, or does not touch the element."""
        witness, knl = self.witness, self.program.kernel()
        kinds = {"flow": (True, False), "anti": (False, True), "output": (True, True)}.get(witness.kind)
        params = dict(zip(self.program.parameters, self.sizes, strict=True))
        for k, (name, values) in enumerate((witness.source, witness.sink)):
            s = knl.statement_by_id.get(name)
            if s is None or set(values) != set(s.inames) or self.step.name == "shift":
                continue                        # a copy, or in inames that the step would have made
            instances = [i.point for i in instances_of(knl, s, params)]
            if dict(values) not in instances:
                raise self.fail(f"{name} has no instance {dict(values)}")
            touched = None if kinds is None or witness.array not in (*knl.array_args, *knl.temporaries) else \
                accesses_at(knl, s, witness.array, {**params, **values}, is_write=kinds[k])
            if touched is not None and tuple(witness.element or ()) not in touched:
                raise self.fail(f"{name} does not touch {witness.element} there, but {touched}")
        found = self.at(self.sizes)
        if found != "PreconditionError" and isinstance(found, str):
            raise self.fail(f"with these sizes alone: {found}")

    def require_smallest(self) -> None:
        """:raises AssertionError: the step is refuted at smaller sizes."""
        for sizes in smaller(self.sizes):
            found = self.at(sizes)
            if not isinstance(found, str) and self.witness.smallest:
                raise self.fail(f"{found.witness} is smaller")


def smaller(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for found in product(*(range(min(v, LARGEST) + REACH + 1) for v in sizes)):
        if found < tuple(sizes):
            yield found


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("part", PARTS)
def test_witnesses_are_true_and_smallest(part: int) -> None:
    counts: Counter[str] = Counter()
    for number in range(max(1, EXAMPLES // len(PARTS))):
        rng = random.Random(f"{FIRST_SEED} {part} {number}")
        text = program(rng)
        try:
            knl = text.kernel()
        except lk.PreconditionError:            # a declared shape is too small, whatever the sizes
            continue
        drawn = step(rng, knl)
        try:
            drawn.apply(knl)
        except lk.IllegalTransformError as error:
            refused = Refused(text, drawn, error.witness)
            if min(refused.sizes, default=0) >= 0:
                counts["refused"] += 1
                counts["one of several"] += not error.witness.smallest
                refused.require_true()
                refused.require_smallest()
        except InternalError as broken:
            raise AssertionError(f"{crash(broken)}\n{text.script()}\n{drawn}") from None
        except lk.LoopkitError:
            pass
    COUNTS.update(counts)
    assert counts["refused"] * 32 >= EXAMPLES // len(PARTS)
    assert counts["one of several"] * 8 <= counts["refused"] + 8


# Single ones

def refusal(text: Text, drawn: Step) -> Refused:
    with pytest.raises(lk.IllegalTransformError) as error:
        drawn.apply(text.kernel())
    return Refused(text, drawn, error.value.witness)


def test_a_condition_with_a_parameter_that_bounds_nothing_else() -> None:
    text = Text("{[i]: 0<=i<m}", "a[i+1] = a[i] {if=2*i <= n}".replace("a[", "b["), ("m", "n"))
    refused = refusal(text, Step("tag_inames", ({"i": "g.0"},)))
    assert refused.witness.parameters == {"m": 2, "n": 2}
    refused.require_true()
    refused.require_smallest()


def test_a_pair_on_a_subscript_that_is_not_affine_may_be_the_smallest() -> None:
    """That ``b[i+2]`` meets ``b[i]`` takes three iterations, that ``b[i*n]`` meets it takes two."""
    text = Text("{[i]: 0<=i<m}", "b[i+2] = b[i] {id=A}\nb[i*n] = x[i] {id=B}", ("m", "n"))
    refused = refusal(text, Step("tag_inames", ({"i": "g.0"},)))
    assert refused.witness.smallest
    assert refused.witness.parameters == {"m": 2, "n": 0}
    assert refused.witness.element == (0,)
    refused.require_true()
    refused.require_smallest()


def test_a_pair_that_data_decide_does_not_end_the_search() -> None:
    """With two iterations, the second reads an element that ``idx`` gives."""
    text = Text("{[i]: 0<=i<n}", "y[i] = if((i-1)*n < 1, b[idx[i]], b[3])\nb[i*n] = x[i]\nz[i+5] = z[i]", ("n",))
    refused = refusal(text, Step("tag_inames", ({"i": "g.0"},)))
    assert refused.witness.smallest
    assert refused.witness.parameters == {"n": 3}
    assert refused.witness.element == (3,)
    refused.require_true()
    refused.require_smallest()


def test_a_buffer_beside_an_access_that_is_not_affine_is_undecided() -> None:
    """Which element the other statement touches was named all the same."""
    knl = Text("{[i]: 0<=i<m}", "b[i*i] = x[i*i] {id=A, if=i*n > 3}\nb[8] = x[i*i] {id=B}", ("n", "m")).kernel()
    with pytest.raises(lk.UndecidedError):
        lk.buffer_array(knl, "b", ["i"], within="B", default_tag=None)


def test_what_is_too_much_to_look_at_says_so() -> None:
    witness = Witness({"n": 3}, ("A", {"i": 0}), ("B", {"i": 1}), "a", (1,), "flow")
    assert str(witness).startswith("with n = 3: A[i=0] writes a[1]")
    assert str(replace(witness, smallest=False)).startswith("one of several, with n = 3: A[i=0] writes a[1]")
    assert str(replace(witness, smallest=False, parameters={})).startswith("one of several: A[i=0]")
