"""Properties of random programs and of random transformations of them; the outcomes are counted."""
from __future__ import annotations

import random
import re
import shlex
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

import hypothesis.strategies as st
import numpy as np
from hypothesis import reject

import loopkit as lk
from loopkit.analysis.dependences import needed_inputs
from loopkit.analysis.shapes import array_shapes, fully_written_outputs
from loopkit.errors import InternalError
from loopkit.expr.evaluate import evaluate
from loopkit.kernel.tags import of_host
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.types import infer_types
from loopkit.poly.piecewise import is_piecewise
from loopkit.runtime.compiler import SAFE, HostCompiler, accepted, available_compilers, find_compiler
from loopkit.verification.validation import validate
from tests.property.kernels import Draw, Program
from tests.property.machine import MachineError, execute, thread_count
from tests.property.pipelines import Drawer, NothingToDoError, Step
from tests.property.witness import require_real
from tests.targets import WarpsOf
from tests.transform.same import assert_bounded

#: What a program may be refused for, by what the refusal says.
ALLOWED: tuple[tuple[str, str], ...] = (
    # the one write has no instance, and the read is under a condition that never holds
    (r"StorageError: The temporary '\w+' is read by '\w+' but never written", "a read of what nobody writes"),
    # a value argument's dtype does not follow from what it is compared with; a call gives it
    (r"TypeInferenceError: The dtype of the argument 'n'", "open dtype of a value argument"),
)

D = TypeVar("D", bound=Drawer)

#: What happened, over all examples of this process.
COUNTS: Counter[str] = Counter()


def of_one_reading(program: Program) -> lk.LoopKernel:
    """The kernel of *program*.

    :raises hypothesis.UnsatisfiedAssumption: its text leaves two readings, and is refused.
    """
    try:
        return program.kernel()
    except lk.PreconditionError as refusal:
        if "or the last one" not in str(refusal):
            raise
        COUNTS["program: two readings"] += 1
        reject()


@dataclass
class Trial:
    """A program on its way through a pipeline.

    :ivar names: the arguments' present names by their first ones.
    :ivar steps: the accepted steps.
    """

    program: Program
    knl: lk.LoopKernel
    sizes: list[Mapping[str, int]]
    expected: list[dict[str, np.ndarray]]
    names: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    @classmethod
    def of(cls, program: Program) -> Trial:
        """:raises hypothesis.UnsatisfiedAssumption: the program has no exact meaning."""
        allowed = [s for s in program.sizes if program.assumptions is None or eval(program.assumptions, dict(s))]
        expected = [program.expected(s) for s in allowed]
        known = [e for e in expected if e is not None]
        if not known or len(known) < len(expected):
            COUNTS["program: without an exact meaning"] += 1
            reject()
        trial = cls(program, of_one_reading(program), allowed, known)
        if not trial.knl.written_names & set(trial.knl.argument_by_name):
            COUNTS["program: without a result"] += 1
            reject()
        trial.names = {a: a for a in trial.knl.argument_by_name}
        COUNTS["program: used"] += 1
        return trial

    def script(self, last: Step | None = None) -> str:
        """Python text that does it all again."""
        steps = [*self.steps, *([last] if last is not None else [])]
        return self.program.script() + "\n".join(map(str, steps)) + "\n"

    def fail(self, what: str, last: Step | None = None) -> AssertionError:
        """The error to raise; for an allowed refusal the example is left instead."""
        for pattern, name in ALLOWED:
            if re.search(pattern, what):
                COUNTS[f"refused: {name}"] += 1
                reject()
        return AssertionError(f"{what}\n{self.script(last)}# sizes {[dict(s) for s in self.sizes]}, "
                              f"seed {self.program.seed}, warps of {self.warp}")

    @property
    def warp(self) -> int:
        """How long warps are in this trial: blocks are small here, and some should have several."""
        return (1, 2, 4, 32)[self.program.seed % 4]

    # Steps

    def transform(self, draw: Draw, count: int) -> None:
        """Apply up to *count* random steps."""
        for number in range(count):
            drawer = Drawer(draw, self.knl, self.sizes[0])
            try:
                step = drawer.mapping() if number == 0 and drawer.chance(60) else drawer.step()
            except NothingToDoError:
                continue
            self.take(step)

    def follow(self, draw: Draw, plan: Sequence[tuple[Callable[[D], Step], int]],
               behind: Sequence[Callable[[D], Step]], more: int, drawer: Callable[..., D]) -> None:
        """Apply the steps of *plan*, each with its chance in percent, and *more* of those of *behind*."""
        chosen = [step for step, percent in plan if draw(st.integers(1, 100)) <= percent]
        self.draw_steps(draw, [*chosen, *(draw(st.sampled_from(behind)) for _ in range(more))], drawer)

    def draw_steps(self, draw: Draw, steps: Iterable[Callable[[D], Step]], drawer: Callable[..., D]) -> None:
        """Apply each of *steps* for which the kernel, as it is then, has something to do."""
        for step in steps:
            try:
                self.take(step(drawer(draw, self.knl, self.sizes[0])))
            except NothingToDoError:
                continue

    def take(self, step: Step) -> None:
        """Apply *step*; a refusal must be a :class:`loopkit.LoopkitError` with a true witness."""
        try:
            new = step.apply(self.knl)
        except lk.LoopkitError as error:
            self._refused(step, error)
        except Exception as error:                    # noqa: BLE001 (anything else is a fault)
            raise self.fail(f"{step.name} broke: {crash(error)}", step) from None
        else:
            self._accepted(step, new)

    def _accepted(self, step: Step, new: lk.LoopKernel) -> None:
        COUNTS[f"{step.name}: accepted"] += 1
        self.steps.append(step)
        self.knl = new
        assert_bounded(new)
        if step.name == "rename_argument":
            old, name = step.args
            first = next(k for k, v in self.names.items() if v == old)
            self.names[first] = name
        if step.name in ("assume", "fix_parameters"):
            # the steps were drawn for the first sizes
            keep = [i for i, s in enumerate(self.sizes) if i == 0 or s == self.sizes[0]]
            self.sizes, self.expected = [self.sizes[i] for i in keep], [self.expected[i] for i in keep]

    def _refused(self, step: Step, error: lk.LoopkitError) -> None:
        if isinstance(error, InternalError):
            raise self.fail(f"{step.name} broke: {crash(error)}", step) from None
        COUNTS[f"{step.name}: {type(error).__name__}"] += 1
        if isinstance(error, lk.IllegalTransformError) and step.name not in ("privatize", "pipeline", "pad_domain"):
            try:
                require_real(self.knl, step, error.witness)
            except AssertionError as false:
                raise self.fail(f"{error}\nis no true alarm: {false}", step) from None

    # Results

    def lowered(self) -> Lowered | None:
        """The kernel lowered; ``None`` if it is refused, which a kernel without steps must not be."""
        try:
            result = lk.lower(self.knl, WarpsOf(self.warp))
            report = lk.verify(self.knl, WarpsOf(self.warp))
            on_host = any(of_host(tag) is not None for tag in self.knl.tags.values())
            for target in ("c",) if on_host else ("c", "cuda"):
                str(lk.generate_code(self.knl, target=target, verify=False))
        except lk.LoopkitError as error:
            if isinstance(error, InternalError) or not self.steps:
                raise self.fail(f"lowering broke: {crash(error)}") from None
            COUNTS[f"lower: {type(error).__name__}"] += 1
            return None
        except Exception as error:                    # noqa: BLE001 (anything else is a fault)
            raise self.fail(f"lowering broke: {crash(error)}") from None
        COUNTS[f"verify: {report.verdict}"] += 1
        if not report.ok:
            self._require_true(report)
        if not self.knl.barriers and "not needed" in str(report):
            raise self.fail(f"a barrier that nothing needs: {report}")
        self.validate(result)
        COUNTS[f"lower: accepted, {'threads' if thread_count(result) > 1 else 'one thread'}"] += 1
        if result.program.host_order is not None:
            COUNTS["lower: accepted, loops on the host"] += 1
        return result

    def _require_true(self, report: lk.Report) -> None:
        """What is refuted may only be a stray access or an early read, at sizes that are none of the program's."""
        for finding in report.findings(lk.Verdict.REFUTED):
            witness = getattr(finding.error, "witness", None)
            if not isinstance(witness, lk.AccessWitness) or any(
                    all(sizes.get(k) == v for k, v in witness.parameters.items()) for sizes in self.sizes):
                raise self.fail(f"a false alarm, or worse: {report}")
            COUNTS["verify: refuted at other sizes"] += 1

    def validate(self, lowered: Lowered) -> None:
        """Prove the loop program, which must cause no alarm."""
        try:
            findings = validate(lowered)
        except lk.UndecidedError as error:
            COUNTS["validation: isl gave up"] += 1
            if "isl gave up" not in str(error) or 20*COUNTS["validation: isl gave up"] > 40 + COUNTS["program: used"]:
                raise self.fail(f"too much is not validated: {error}") from None
            return
        except Exception as error:                    # noqa: BLE001 (anything is a fault)
            raise self.fail(f"validation broke: {crash(error)}") from None
        if any(not is_piecewise(value) for launch in lowered.launches for value in launch.mapping.coordinates.values()):
            COUNTS["validation: an axis shared in parts that sizes give"] += 1
        if findings:
            raise self.fail(f"validation alarms: {findings[0].kind}: {findings[0]}")

    def require_right(self, *, compiled: bool) -> None:
        """Run the kernel on the machine of this package, and if *compiled* as C, and compare with the program.

        :raises AssertionError: it is wrong, with a script that shows it.
        """
        lowered = self.lowered()
        if lowered is None:
            return
        for sizes, expected in zip(self.sizes, self.expected, strict=True):
            inputs = {self.names[k]: v for k, v in self.program.inputs().items()}
            values = {self.names[k]: v for k, v in sizes.items() if k in self.names}
            wanted = {self.names[k]: v for k, v in expected.items()}
            boxes = self.boxes(values) if self.program.seed % 2 else {}
            COUNTS["run: arrays cut to their shapes"] += bool(boxes)
            try:
                left = execute(lowered, cut(inputs, boxes), values, random.Random(self.program.seed))
            except MachineError as error:
                raise self.fail(f"with {values}: {error}") from None
            except Exception as error:                    # noqa: BLE001 (anything else is a fault)
                raise self.fail(f"with {values}: {crash(error)}") from None
            self.compare("the machine", values, pasted(inputs, boxes, left), wanted)
            if compiled:
                COUNTS["run: compiled"] += 1
                given = {k: v for k, v in values.items() if k in self.knl.argument_by_name}
                for target in (lk.CTarget(), other_target(self.program.seed)):
                    arrays = {k: v.copy() for k, v in inputs.items() if k in self.knl.argument_by_name}
                    self.spoil(arrays, values)
                    parts = cut(arrays, boxes)
                    try:
                        lk.compile(self.knl, target=target, verify="off")(**parts, **given)
                    except Exception as error:                    # noqa: BLE001 (anything else is a fault)
                        raise self.fail(f"with {values} for {target}: {crash(error)}") from None
                    self.compare(f"the host, by {target},", values, pasted(arrays, boxes, parts), wanted)

    def spoil(self, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> None:
        """Put rubbish where the kernel is said to write everything, which then does not show in the result."""
        knl, boxes = infer_types(self.knl), self.boxes(sizes)
        for name in fully_written_outputs(knl) - needed_inputs(knl):
            if arrays[name][boxes[name]].size:
                COUNTS["written as a whole"] += 1
                arrays[name][boxes[name]] = 99

    def boxes(self, sizes: Mapping[str, int]) -> dict[str, tuple[slice, ...]]:
        """The part of each array that its inferred shape covers."""
        return {name: tuple(slice(None) if e is None else slice(0, max(evaluate(e, sizes), 0)) for e in extents)
                for name, extents in array_shapes(infer_types(self.knl)).items()}

    def compare(self, who: str, sizes: Mapping[str, int], got: Mapping[str, np.ndarray],
                 wanted: Mapping[str, np.ndarray]) -> None:
        for name, values in got.items():
            wrong = np.argwhere(values != wanted[name])
            if len(wrong):
                at = tuple(map(int, wrong[0]))
                raise self.fail(f"{who} computes {name}{list(at)} = {values[at]} instead of {wanted[name][at]} "
                                f"with {dict(sizes)}")


def cut(arrays: Mapping[str, np.ndarray], boxes: Mapping[str, tuple[slice, ...]]) -> dict[str, np.ndarray]:
    """Copies of *arrays* without gaps, of those in *boxes* of these parts alone."""
    return {name: a[boxes.get(name, ...)].copy() for name, a in arrays.items()}


def pasted(arrays: Mapping[str, np.ndarray], boxes: Mapping[str, tuple[slice, ...]], parts: Mapping[str, np.ndarray]
           ) -> dict[str, np.ndarray]:
    """*arrays* with the *parts* that :func:`cut` took put in their place."""
    result = {name: a.copy() for name, a in arrays.items()}
    for name, part in parts.items():
        result[name][boxes.get(name, ...)] = part
    return result


def other_target(lot: int) -> lk.CTarget:
    """One of the other ways to compile for the host: other flags, and other compilers where there are any."""
    name, target = host_targets()[lot % len(host_targets())]
    COUNTS[f"run: compiled by {name}"] += 1
    return target


@lru_cache(maxsize=1)
def host_targets() -> tuple[tuple[str, lk.CTarget], ...]:
    """By name. Tests run with ``-O1`` where they do not say otherwise; the first has the flags that users get."""
    used = find_compiler()
    others = {c.version.partition(" ")[2]: c for c in available_compilers() if isinstance(c, HostCompiler)}
    others.pop(used.version.partition(" ")[2], None)   # "cc" and "gcc" are often one program
    return (("default flags", lk.CTarget(options=accepted(used.command, SAFE[0], strict=True))),
            ("fast flags", lk.CTarget(fast=True)), ("-O0", lk.CTarget(options=("-O0",))),
            *((c.version, lk.CTarget(compiler=shlex.join(c.command))) for c in others.values()))


def crash(error: BaseException) -> str:
    """What was raised, and where."""
    last: Sequence[traceback.FrameSummary] = traceback.extract_tb(error.__traceback__)[-2:]
    return f"{type(error).__name__}: {error} at {' > '.join(f'{f.filename}:{f.lineno} {f.name}' for f in last)}"
