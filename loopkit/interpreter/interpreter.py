"""Runs instances in a given order, on data that do not depend on the order."""
from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from loopkit.analysis.accesses import accesses_of, expand_rules, expanded_expression
from loopkit.analysis.dependences import dependences
from loopkit.errors import CallError, PreconditionError
from loopkit.expr.kinds import kind_of
from loopkit.interpreter.instances import Half, Instance, instances
from loopkit.interpreter.values import Evaluator, converted
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.lowering.types import index_types
from loopkit.poly.points import pair_test

Element = tuple[int, ...]

#: The writer of a temporary, and the value.
_Written = tuple[Instance, Any]


@dataclass(frozen=True)
class InitialData:
    """The content of arrays before a kernel runs: as given, or random, each element on its own.

    :ivar given: arrays by name.
    :ivar index_names: arrays that subscripts and bounds are read from; random ones increase along their first axis, so
        that row bounds are ordered.
    """

    seed: int
    given: Mapping[str, Any]
    index_names: frozenset[str]

    def value(self, name: str, element: Element, dtype: np.dtype[Any]) -> Any:
        """:raises CallError: the element is outside the given array."""
        if name in self.given:
            array = np.asarray(self.given[name])
            if len(element) != array.ndim or not all(0 <= i < n for i, n in zip(element, array.shape, strict=True)):
                raise CallError(f"the replay reads {element_text(name, element)}, which the given array of shape "
                                f"{array.shape} does not have.", argument=name,
                                hint="pass a larger array, or leave it out for random data")
            return converted(array[element], dtype)
        # numpy ignores zeros at the end of a seed
        place = (1 + 2*abs(i) + (i < 0) for i in element)
        random = np.random.default_rng([self.seed, zlib.crc32(name.encode()), *place])
        if name in self.index_names and dtype.kind in "iu":
            return converted(2*(element[0] if element else 1) + int(random.integers(0, 2)), dtype)
        match kind_of(dtype):
            case "b":
                return converted(random.integers(0, 2), dtype)
            case "i" | "u":
                return converted(random.integers(1, 100), dtype)
            case "c":
                return converted(complex(*(random.integers(1, 1000, 2)/64)), dtype)
            case _:
                # few binary places, so that sums of a few values do not depend on their order
                return converted(random.integers(1, 1000)/64, dtype)


def element_text(name: str, element: Element) -> str:
    """``a[0, 1]``."""
    return f"{name}[{', '.join(map(str, element))}]" if element else name


@dataclass(frozen=True)
class LoggedAccess:
    """One access of an instance, with the value that it read or wrote."""

    array: str
    element: Element
    value: Any
    is_write: bool


@dataclass
class Interpreter:
    """The memory, and the log of its accesses.

    Arguments are cells. Temporaries are values: a read gets the value of the write that it depends on, as after an
    expansion or privatization by a later step. If that write has not run yet, the read gets the last written value, or
    a random one.

    :ivar knl: all dtypes are known.
    :ivar lost: two instances between which no value of a temporary passes.
    :ivar cells: the accessed elements of arguments; *accesses*: those of each instance that ran.
    """

    knl: LoopKernel
    scalars: Mapping[str, Any]
    data: InitialData
    lost: tuple[Instance, Instance] | None = None
    cells: dict[tuple[str, Element], Any] = field(default_factory=dict)
    written: set[tuple[str, Element]] = field(default_factory=set)
    accesses: dict[Instance, list[LoggedAccess]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._values = Evaluator(index_types(self.knl), self._read)
        self._now = Instance("", ())
        self._pending: dict[Instance, LoggedAccess] = {}
        self._temporaries: dict[tuple[str, Element], list[_Written]] = {}
        # among a reduction's parts, those that agree in the inames around it come first
        self._around = {r.accumulator: self.knl.statement_by_id[r.init].inames for r in self.knl.reductions.values()}
        self._partial: dict[tuple[str, tuple[int | None, ...]], list[_Written]] = {}
        self._sources: dict[tuple[str, str, str], list[Any]] = {}
        for d in dependences(self.knl):
            if d.kind == "flow" and d.of_value:
                self._sources.setdefault((d.array, d.source, d.sink), []).append(pair_test(d.relation, self.sizes))

    @property
    def sizes(self) -> dict[str, int]:
        return {k: v for k, v in self.scalars.items() if isinstance(v, int)}

    def instances(self) -> list[Instance]:
        """All instances of its kernel; bounds from memory are computed by another interpreter."""
        bounds = Interpreter(self.knl, self.scalars, self.data)
        return instances(self.knl, self.sizes, partial(bound_value, bounds))

    def run(self, order: Iterable[Instance | Half]) -> Interpreter:
        """Run the instances in this *order*; returns the interpreter itself."""
        for step in order:
            instance = step if isinstance(step, Instance) else step.instance
            if isinstance(step, Instance) or not step.writes:
                self._read_all(instance)
            if isinstance(step, Instance) or step.writes:
                self._finish(instance)
        return self

    def cell(self, name: str, element: Element) -> Any:
        """The current value of an element of an argument."""
        if (name, element) in self.cells:
            return self.cells[name, element]
        return self.data.value(name, element, self._dtype(name))

    def _read_all(self, instance: Instance) -> None:
        s = self.knl.statement_by_id[instance.statement]
        self._now = instance
        self.accesses[instance] = []
        names = {**self.scalars, **instance.inames(self.knl)}
        if all(self._values.of(expand_rules(e, self.knl.substitutions), names) for e in s.predicates):
            expression = expanded_expression(self.knl, s)
            if s.combine is not None:
                expression = self.knl.operation(s.combine).apply(s.assignee, expression)
            value = converted(self._values.of(expression, names), self._dtype(s.written))
            element = self._values.subscripts(s.assignee, names)
            self._pending[instance] = LoggedAccess(s.written, element, value, is_write=True)

    def _finish(self, instance: Instance) -> None:
        write = self._pending.pop(instance, None)
        if write is None:
            return
        self.accesses[instance].append(write)
        place = (write.array, write.element)
        if write.array in self.knl.temporaries:
            self._temporaries.setdefault(place, []).append((instance, write.value))
            if write.array in self._around:
                self._partial.setdefault(self._part(write.array, instance), []).append((instance, write.value))
        else:
            self.cells[place] = write.value
            self.written.add(place)

    def _dtype(self, name: str) -> np.dtype[Any]:
        datum = self.knl.temporaries[name] if name in self.knl.temporaries else self.knl.argument_by_name[name]
        assert datum.dtype is not None
        return np.dtype(datum.dtype)

    def _read(self, name: str, element: Element) -> Any:
        if name in self.knl.temporaries:
            value = self._temporary(name, element)
        else:
            value = self.cells[name, element] = self.cell(name, element)
        self.accesses[self._now].append(LoggedAccess(name, element, value, is_write=False))
        return value

    def _go_on(self, writer: str) -> bool:
        """Does the current statement continue from *writer*'s value, both being updates of it in any order?"""
        a, b = (self.knl.statement_by_id[s] for s in (writer, self._now.statement))
        return a.commutes and b.commutes and (a.written, a.combine) == (b.written, b.combine)

    def _part(self, accumulator: str, x: Instance) -> tuple[str, tuple[int | None, ...]]:
        values = x.inames(self.knl)
        return accumulator, tuple(map(values.get, self._around[accumulator]))

    def _temporary(self, name: str, element: Element) -> Any:
        writes = self._temporaries.get((name, element), [])
        partial = self._partial.get(self._part(name, self._now), ()) if name in self._around else ()
        for writer, value in itertools.chain(reversed(partial), reversed(writes)):
            if self.lost == (writer, self._now):
                # the cell has another value, or none
                last, other = writes[-1]
                return other if last != writer else self.data.value(name, element, self._dtype(name))
            tests = self._sources.get((name, writer.statement, self._now.statement), ())
            if self._go_on(writer.statement) or any(t(writer.point, self._now.point) for t in tests):
                return value
        return writes[-1][1] if writes else self.data.value(name, element, self._dtype(name))


def bound_value(interpreter: Interpreter, s: Statement, instance: Instance) -> int:
    """The value of a temporary bound, before all else ran; :raises PreconditionError: the kernel writes its data."""
    knl = interpreter.knl
    own = [a.array for a in accesses_of(knl, s) if not a.is_write and a.array in knl.written_names]
    if own or s.predicates:
        raise PreconditionError(f"The bound '{s.written}' depends on what the kernel computes; such kernels are not "
                                "run one instance at a time.", subject=s.written)
    interpreter.run([instance])
    return int(interpreter.accesses[instance][-1].value)
