"""Runs instances in a given order, on data that do not depend on the order; numpy computes the values."""
from __future__ import annotations

import itertools
import operator
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_of, expand_rules, expanded_expression
from loopkit.analysis.dependences import dependences
from loopkit.errors import CallError, PreconditionError, cell_text
from loopkit.expr.dtypes import (
    BOOL,
    COMPLEX128,
    FLOAT32,
    FLOAT64,
    INT64,
    Type,
    Weak,
    comparison,
    rank_of,
    resolve,
    signature,
    type_of_node,
)
from loopkit.expr.evaluate import COMPARE, truncated_quotient, truncated_remainder
from loopkit.expr.functions import FUNCTIONS, UNKNOWN, ScalarFunction, function_of, power_value
from loopkit.expr.indices import as_index
from loopkit.expr.kinds import is_narrow, is_tuple, kind_of
from loopkit.expr.mappers import array_of, children
from loopkit.expr.nodes import Combined, MakeTuple, Operation, TypeCast
from loopkit.expr.tuples import field_dtypes
from loopkit.interpreter.instances import Half, Instance, instances
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.lowering.types import index_types
from loopkit.poly.affine import TruncatedQuotient, TruncatedRemainder
from loopkit.poly.relations import pair_test

# The value of an expression, in the dtypes of the kernel's rules

#: The value of a scalar or an element: its name and its subscripts.
Read = Callable[[str, tuple[int, ...]], Any]


@dataclass(frozen=True)
class Evaluator:
    """The values of expressions, for the *types* of all names; *read* gives a value from memory."""

    types: Mapping[str, Type]
    read: Read
    _known: dict[int, tuple[Expression, Type]] = field(default_factory=dict, init=False, repr=False)
    _indices: dict[int, tuple[Expression, Expression]] = field(default_factory=dict, init=False, repr=False)
    _merged: dict[tuple[Operation, np.dtype[Any]], tuple[Expression, Evaluator]] = field(
        default_factory=dict, init=False, repr=False)

    def of(self, expr: Expression, names: Mapping[str, Any]) -> Any:
        """The value of *expr*, a Python number if its type is weak; :raises PreconditionError: there is none."""
        with np.errstate(all="ignore"):
            return self._value(expr, names)

    def subscripts(self, target: Expression, names: Mapping[str, Any]) -> tuple[int, ...]:
        """The element of a variable or a subscript."""
        if not isinstance(target, p.Subscript):
            return ()
        return tuple(int(self.of(self._index(i), names)) for i in target.index_tuple)

    def _value(self, expr: Expression, names: Mapping[str, Any]) -> Any:
        match expr:
            case p.Variable(name=name):
                return names[name] if name in names else self.read(name, ())
            case p.Subscript(aggregate=p.Variable(name=name)):
                return self.read(name, tuple(int(self._value(self._index(i), names)) for i in expr.index_tuple))
            case p.If(condition=condition, then=then, else_=else_):
                taken = then if self._value(condition, names) else else_
                return self._typed(expr, self._value(taken, names))
            case p.LogicalAnd():
                return np.bool_(all(self._value(c, names) for c in expr.children))
            case p.LogicalOr():
                return np.bool_(any(self._value(c, names) for c in expr.children))
            case p.LogicalNot(child=child):
                return np.bool_(not self._value(child, names))
            case p.BitwiseNot(child=child):
                return self._typed(expr, ~converted(self._value(child, names), computed_in(self._type(expr))))
            case p.Comparison(left=left, operator=op, right=right):
                return self._compared(str(op), left, right, names)
            case TypeCast(child=child):
                return converted(self._value(child, names), expr.dtype)
            case p.Call(parameters=parameters) if (function := function_of(expr)) is not None:
                return self._called(expr, function, parameters, names)
            case MakeTuple(values=values):
                dtype = resolve(self._type(expr))
                parts = zip(values, field_dtypes(dtype).values(), strict=True)
                return np.array(tuple(converted(self._value(e, names), own) for e, own in parts), dtype)[()]
            case p.Lookup(aggregate=aggregate, name=name):
                return self._value(aggregate, names)[name]
            case Combined():
                return self._combined(expr, names)
            case p.ExpressionNode():
                return self._arithmetic(expr, names)
            case _:
                return expr

    def _arithmetic(self, expr: p.ExpressionNode, names: Mapping[str, Any]) -> Any:
        operation = OPERATIONS.get(type(expr))
        if operation is None:
            raise PreconditionError(f"No value is known for {expr}.", subject=str(expr))
        dtype = computed_in(self._type(expr))
        return self._typed(expr, reduce(operation, [converted(self._value(e, names), dtype) for e in children(expr)]))

    def _compared(self, op: str, left: Expression, right: Expression, names: Mapping[str, Any]) -> Any:
        a, b = self._value(left, names), self._value(right, names)
        common = comparison(self._type(left), self._type(right), (left, right))
        if rank_of(common) > 1:
            a, b = (converted(v, computed_in(common)) for v in (a, b))
        else:
            a, b = int(a), int(b)                      # Python's integers do not wrap around
        return np.bool_(COMPARE[op](a, b))

    def _called(self, expr: Expression, function: ScalarFunction, parameters: tuple[Expression, ...],
                names: Mapping[str, Any]) -> Any:
        if function.dtypes == UNKNOWN:
            return function.value(*(self._value(e, names) for e in parameters))
        given, _ = signature(function, [self._type(e) for e in parameters])
        values = [converted(self._value(e, names), computed_in(x)) for e, x in zip(parameters, given, strict=True)]
        return self._typed(expr, function.value(*values))

    def _combined(self, expr: Combined, names: Mapping[str, Any]) -> Any:
        dtype = resolve(self._type(expr))
        inner = self._merged.get((expr.operation, dtype))
        if inner is None:
            inner = self._merged[expr.operation, dtype] = (
                expr.operation.merged(dtype), Evaluator({"a": dtype, "b": dtype}, self.read))
        merged, evaluator = inner
        a, b = (converted(self._value(e, names), dtype) for e in (expr.left, expr.right))
        return converted(evaluator.of(merged, {"a": a, "b": b}), dtype)

    def _index(self, subscript: Expression) -> Expression:
        if id(subscript) not in self._indices:
            self._indices[id(subscript)] = subscript, as_index(subscript, self._type, INT64)
        return self._indices[id(subscript)][1]

    def _type(self, expr: Expression) -> Type:
        known = self._known.get(id(expr))
        if known is None:
            found = type_of_node(expr, self.types.get, self._type)
            if found is None:
                raise PreconditionError(f"The dtype of {expr} is not known.", subject=str(expr))
            known = self._known[id(expr)] = (expr, found)      # keeps the id alive
        return known[1]

    def _typed(self, expr: Expression, value: Any) -> Any:
        """*value* in the dtype of *expr*; a Python number if that is weak."""
        found = self._type(expr)
        if isinstance(found, Weak):
            return converted(value, computed_in(found)).item()
        return converted(value, found)


def converted(value: Any, dtype: np.dtype[Any]) -> Any:
    """*value* as a scalar of *dtype*, converted like numpy's astype."""
    given = np.asarray(value)
    if is_tuple(dtype) and given.dtype != dtype:
        parts = ((converted(given[name][()], own)) for name, own in field_dtypes(dtype).items())
        return np.array(tuple(parts), dtype)[()]
    if given.dtype.kind == "c" and dtype.kind not in "cb":
        given = given.real
    if given.dtype.kind == "O":                        # an integer of more than 64 bits
        given = np.asarray(int(value) % 2**64, np.uint64)
    with np.errstate(all="ignore"):
        return given.astype(dtype)[()]


def computed_in(found: Type) -> np.dtype[Any]:
    """The dtype in which an operation is computed: halves in float32, as in texts; weak numbers in the widest one."""
    if isinstance(found, Weak):
        return (BOOL, INT64, FLOAT64, COMPLEX128)[rank_of(found)]
    return FLOAT32 if is_narrow(found) else found


def function_value(name: str, *arguments: Any) -> Any:
    """The value of the language's function *name* for numpy scalars.

    >>> function_value("rsqrt", np.float64(4))
    np.float64(0.5)
    """
    return FUNCTIONS[name].value(*arguments)


OPERATIONS: Mapping[type, Callable[[Any, Any], Any]] = {
    p.Sum: operator.add, p.Product: operator.mul, p.Quotient: operator.truediv, p.FloorDiv: operator.floordiv,
    p.Remainder: operator.mod, TruncatedQuotient: truncated_quotient, TruncatedRemainder: truncated_remainder,
    p.Power: power_value, p.Min: np.fmin, p.Max: np.fmax, p.LeftShift: np.left_shift, p.RightShift: np.right_shift,
    p.BitwiseAnd: operator.and_, p.BitwiseOr: operator.or_, p.BitwiseXor: operator.xor}


# The memory, and the instances that change it

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
                raise CallError(f"the replay reads {cell_text(name, element)}, which the given array of shape "
                                f"{array.shape} does not have.", argument=name,
                                hint="pass a larger array, or leave it out for random data")
            return converted(array[element], dtype)
        if is_tuple(dtype):
            return np.array(tuple(self.value(f"{name}.{field}", element, own)
                                  for field, own in field_dtypes(dtype).items()), dtype)[()]
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
            halves: tuple[Half, ...] = ((step, False), (step, True)) if isinstance(step, Instance) else (step,)
            for instance, writes in halves:
                if writes:
                    self._finish(instance)
                else:
                    self._read_all(instance)
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
        return a.commutes and a.combine is not None and b.commuting is not None \
            and (a.written, a.combine) == (array_of(b.commuting[0]), b.commuting[1])

    def _part(self, accumulator: str, x: Instance) -> tuple[str, tuple[int | None, ...]]:
        values = x.inames(self.knl)
        return accumulator, tuple(map(values.get, self._around[accumulator]))

    def _temporary(self, name: str, element: Element) -> Any:
        constant = self.knl.temporaries[name].initializer
        if constant is not None:
            return np.asarray(constant)[element]
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
