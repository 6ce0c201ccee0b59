"""Shows the effect of a refused step: both orders on the same data, and the cells that differ."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from loopkit.analysis.data_constraints import index_names
from loopkit.analysis.sizes import sizes_at_least
from loopkit.errors import CallError, IllegalTransformError, PreconditionError, Witness, cell_text, instance_text
from loopkit.expr.kinds import epsilon, kind_of
from loopkit.interpreter.instances import Instance, broken_orders, reference_order
from loopkit.interpreter.interpreter import Element, InitialData, Interpreter, LoggedAccess
from loopkit.kernel.data import ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.types import infer_types
from loopkit.poly.limits import bounded
from loopkit.runtime.arguments import require_known
from loopkit.runtime.scalars import converter
from loopkit.runtime.typed import closed
from loopkit.shown import Shown
from loopkit.transform.data import with_dtypes

_SHOWN = 10

#: The preferred value of a size that the witness leaves open.
_USUAL_SIZE = 3


@dataclass(frozen=True, repr=False)
class CellDifference(Shown):
    """An element of an argument with different values after the two orders.

    :ivar expected: its value after the reference order.
    :ivar got: its value after the refused order.
    """

    array: str
    element: Element
    expected: Any
    got: Any

    def __str__(self) -> str:
        return f"{cell_text(self.array, self.element)} is {self.expected!s}, and would be {self.got!s}"


@dataclass(frozen=True, repr=False)
class Replay(Shown):
    """The results of both orders of a refused step, run on the same data. It prints as text.

    :ivar witness: the two instances that the step swaps.
    :ivar parameters: the sizes.
    :ivar order: the order of the two in the refused kernel, as text.
    :ivar expected: the value that passes between the two instances in the reference order; *got*: in the refused order.
        ``None``: unknown.
    :ivar differing: the elements that differ in the end.
    :ivar cells: the number of written elements.
    :ivar seed: the seed of the random data.
    """

    witness: Witness
    parameters: Mapping[str, int]
    order: str
    expected: Any
    got: Any
    differing: tuple[CellDifference, ...]
    cells: int
    seed: int

    @property
    def hidden(self) -> bool:
        """Are all elements equal after the two orders?"""
        return not self.differing

    def __str__(self) -> str:
        # the sizes may differ from those of the witness
        lines = [str(replace(self.witness, parameters=self.parameters)), f"  {self.order}"]
        if self.expected is not None and self.got is not None and not _same_value(self.expected, self.got):
            lines.append(f"  {self._passed()}")
        if self.hidden:
            lines.append(f"none of the {self.cells} cells written differs: on these data (seed {self.seed}) the values "
                         "hide the dependence, which binds whatever they are")
            return "\n".join(lines)
        lines.append(f"cells that differ, of {self.cells} written (seed {self.seed}):")
        lines += [f"  {d}" for d in self.differing[:_SHOWN]]
        if len(self.differing) > _SHOWN:
            lines.append(f"  ... and {len(self.differing) - _SHOWN} more")
        return "\n".join(lines)

    def _passed(self) -> str:
        w = self.witness
        if w.kind == "output":
            return f"{cell_text(w.array, w.element)} is left as {self.expected!s}, and would be {self.got!s}"
        reader = instance_text(*(w.sink if w.kind == "flow" else w.source))
        return f"{reader} reads {self.expected!s}, and would read {self.got!s}"


def replay_refusal(err: IllegalTransformError, *, seed: int = 0, **given: Any) -> Replay:
    """Run the order before a refused step and the order after it; see ``IllegalTransformError.replay``."""
    if err.before is None or err.after is None:
        raise PreconditionError("There is nothing to replay: the step failed before it made an order.",
                                subject="replay", hint="the witness names the two instances")
    with bounded(f"replaying a refusal of kernel '{err.before.name}'"):
        before, after = _typed(err.before, err.after, given)
        scalars = _scalars(before, err.witness, seed, given)
        arrays = {k: v for k, v in given.items() if k in before.array_args}
        first = Interpreter(before, scalars, InitialData(seed, arrays, index_names(before)))
        first.run(reference_order(before, first.instances()))
        order, second = _refused(after, err.witness, first)
        expected, got = _passed_values(first, second, err.witness)
        parameters = {k: first.sizes[k] for k in (*err.witness.parameters, *first.sizes) if k in before.value_params}
        return Replay(err.witness, parameters, order, expected, got, tuple(_differences(first, second)),
                      len(first.written | second.written), seed)


# The two runs

def _typed(before: LoopKernel, after: LoopKernel, given: Mapping[str, Any]) -> tuple[LoopKernel, LoopKernel]:
    """Both kernels with all dtypes known: those of the arrays given, else float64, and int32 for index arrays."""
    require_known(before.name, before.argument_by_name.keys(), given)
    indices = index_names(before)

    def chosen(name: str) -> np.dtype[Any]:
        return np.asarray(given[name]).dtype if name in given else np.dtype(np.int32 if name in indices else np.float64)
    typed = infer_types(closed(before, chosen))
    dtypes = {a.name: np.dtype(a.dtype) for a in typed.arguments if a.dtype is not None}
    return typed, infer_types(with_dtypes(after, dtypes))


def _scalars(knl: LoopKernel, witness: Witness, seed: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """A value for each value argument: as given, that of the witness, or one that the assumptions allow."""
    values: dict[str, Any] = {}
    open_sizes = []
    for a in knl.arguments:
        if not isinstance(a, ValueArg):
            continue
        if a.name in given:
            values[a.name] = converter(a.name, a.dtype)(given[a.name])
        elif a.name in witness.parameters:
            values[a.name] = witness.parameters[a.name]
        elif a.name in knl.value_params:
            open_sizes.append(a.name)
        else:
            assert a.dtype is not None
            values[a.name] = InitialData(seed, {}, frozenset()).value(a.name, (), np.dtype(a.dtype)).item()
    known = {k: v for k, v in values.items() if k in knl.value_params}
    return {**values, **sizes_at_least(knl.assumptions, known, dict.fromkeys(open_sizes, _USUAL_SIZE))}


def _refused(knl: LoopKernel, witness: Witness, reference: Interpreter) -> tuple[str, Interpreter]:
    """The effect of the step: the first of its orders with a difference, else the first."""
    if any(s not in knl.statement_by_id or set(values) != set(knl.statement_by_id[s].inames)
           for s, values in (witness.source, witness.sink)):
        raise PreconditionError("There is nothing to replay: the two instances are made by lowering.",
                                subject="replay", hint="the witness names them")
    interpreter = partial(Interpreter, knl, reference.scalars, reference.data)
    found = interpreter().instances()
    source, sink = (Instance(s, tuple(values[x] for x in knl.statement_by_id[s].inames))
                    for s, values in (witness.source, witness.sink))
    missing = next((x for x in (source, sink) if x not in found), None)
    if missing is not None:
        raise CallError(f"{missing.text(knl)} is not an instance at these sizes.",
                        argument=next(iter(witness.parameters), ""), hint="leave the sizes out for the witness' own")
    ran = []
    for title, steps in broken_orders(knl, found, reference.sizes, source, sink):
        ran.append((title, interpreter().run(steps)))
        if _differences(reference, ran[-1][1]):
            return ran[-1]
    if ran:
        return ran[0]
    if witness.array not in knl.temporaries:
        raise PreconditionError("There is nothing to replay: the step does not exchange two instances.",
                                subject="replay", hint="the witness names the two instances")
    # a refused step that keeps the order loses the value between the two
    return "the value would be lost", interpreter((source, sink)).run(reference_order(knl, found))


# The differences

def _differences(first: Interpreter, second: Interpreter) -> list[CellDifference]:
    reordered = bool(first.knl.reductions) or any(s.commutes for s in first.knl.statements)
    cells = [CellDifference(name, element, first.cell(name, element), second.cell(name, element))
             for name, element in sorted(first.written | second.written)]
    return [c for c in cells if not _same_value(c.expected, c.got, reordered=reordered)]


def _same_value(a: Any, b: Any, *, reordered: bool = False) -> bool:
    """Are two values the same? If sums may be *reordered*, up to the rounding of some operations."""
    if a == b or (a != a and b != b):
        return True
    if not reordered or kind_of(np.asarray(a).dtype) not in "fc":
        return False
    return bool(abs(a - b) <= 64*epsilon(np.asarray(a).dtype)*max(abs(a), abs(b)))


def _passed_values(first: Interpreter, second: Interpreter, witness: Witness) -> tuple[Any, Any]:
    """The value that passes between the two instances of *witness* in each order; ``None``: unknown."""
    if witness.kind == "output" and witness.element is not None and witness.array in first.knl.array_args:
        return tuple(m.cell(witness.array, witness.element) for m in (first, second))
    if witness.kind not in ("flow", "anti"):
        return None, None
    statement, values = witness.sink if witness.kind == "flow" else witness.source
    reader = Instance(statement, tuple(values[x] for x in second.knl.statement_by_id[statement].inames))
    got = _read_value(second.accesses[reader], witness)
    # the same instance may have had other inames before the step: it is then the one with the same accesses
    pattern = _pattern(second, reader)
    found = {x: accesses for x, accesses in first.accesses.items() if x.statement == statement
             and _pattern(first, x) == pattern}
    if len(found) > 1 and first.knl.statement_by_id[statement].inames == second.knl.statement_by_id[statement].inames:
        found = {x: accesses for x, accesses in found.items() if x == reader}
    if len(found) != 1:
        return None, got
    [accesses] = found.values()
    return _read_value(accesses, witness), got


def _pattern(interpreter: Interpreter, x: Instance) -> list[tuple[str, Element | None, bool]]:
    """The elements that an instance accessed; a step may give a temporary other axes."""
    return [(t.array, None if t.array in interpreter.knl.temporaries else t.element, t.is_write)
            for t in interpreter.accesses[x]]


def _read_value(accesses: list[LoggedAccess], witness: Witness) -> Any:
    reads = [t for t in accesses if not t.is_write and t.array == witness.array]
    exact = [t for t in reads if witness.element in (None, t.element)]
    return exact[0].value if exact else reads[0].value if len(reads) == 1 else None
