"""The accesses of a kernel, instance by instance, and the pairs of instances that a step breaks: by enumeration.

Nothing here uses relations: instances are points of small domains, an order is a comparison of two tuples. It shares no
code with the analysis that it judges.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import pymbolic.primitives as p
from pymbolic.typing import Expression

import loopkit as lk
from loopkit.errors import Witness
from loopkit.expr.evaluate import evaluate, known_value
from loopkit.expr.mappers import children
from loopkit.kernel.statement import Statement
from loopkit.kernel.tree import Step as PathStep
from loopkit.poly.affine import DIM
from loopkit.poly.sets import fix_params
from tests.legality.origin import Origin, Point, Undo

Values = Mapping[str, int]


@dataclass(frozen=True)
class Instance:
    """One run of a statement: its id and the values of its inames."""

    statement: str
    values: tuple[tuple[str, int], ...]

    @property
    def point(self) -> dict[str, int]:
        return dict(self.values)


@dataclass(frozen=True)
class Touch:
    """An instance reads or writes an element.

    :ivar update: the operation of the atomic update that it is a half of.
    """

    instance: Instance
    array: str
    element: tuple[int, ...]
    is_write: bool
    update: str | None = None

    def any_order(self, other: Touch) -> bool:
        """Are both halves of updates that may come in any order?"""
        return self.update is not None and self.update == other.update


@dataclass(frozen=True)
class Pair:
    """Two instances of which the second must run later, as both touch an element."""

    source: Instance
    sink: Instance
    array: str
    element: tuple[int, ...]
    kind: str


def instances_of(knl: lk.LoopKernel, s: Statement, params: Values) -> list[Instance]:
    """The points of a statement's domain at *params* at which its conditions hold, in no order that matters.

    Conditions that are read from memory may hold.
    """
    points = fix_params(s.domain.set.intersect_params(knl.assumptions), params)
    found: list[Instance] = []

    def take(point: object) -> None:
        values = (int(point.get_coordinate_val(DIM.set, i).to_python())         # type: ignore[attr-defined]
                  for i in range(len(s.inames)))
        instance = Instance(s.id, tuple(zip(s.inames, values, strict=True)))
        if all(_may_hold(e, {**params, **instance.point}) for e in s.predicates):
            found.append(instance)
    points.foreach_point(take)
    return found


def _may_hold(condition: Expression, values: Values) -> bool:
    return _truth(condition, values) is not False


def _truth(condition: Expression, values: Values) -> bool | None:
    """Whether *condition* holds; ``None``: it is read from memory."""
    value = known_value(condition, values)
    return None if value is None else bool(value)


def is_sure(knl: lk.LoopKernel, pair: Pair, params: Values) -> bool:
    """Do the conditions of both instances hold whatever the data?"""
    sizes = {**dict.fromkeys(knl.value_params, 0), **params}
    return all(_truth(e, {**sizes, **i.point}) for i in (pair.source, pair.sink)
               for e in knl.statement_by_id[i.statement].predicates)


def touches_of(knl: lk.LoopKernel, instance: Instance, params: Values) -> Iterator[Touch]:
    """What an instance reads, then what it writes; only for affine subscripts and conditions."""
    s = knl.statement_by_id[instance.statement]
    at = {**params, **instance.point}

    def touch(e: Expression, is_write: bool, update: str | None = None) -> Iterator[Touch]:
        name = e.aggregate.name if isinstance(e, p.Subscript) else e.name
        if name in knl.array_args or name in knl.temporaries:
            subscripts = e.index_tuple if isinstance(e, p.Subscript) else ()
            yield Touch(instance, name, tuple(evaluate(x, at) for x in subscripts), is_write, update)

    def reads(e: Expression) -> Iterator[Touch]:
        match e:
            case p.Subscript() | p.Variable():
                yield from touch(e, False)
            case p.Call(parameters=arguments):
                rule = knl.substitutions.get(getattr(e.function, "name", ""))
                assert rule is None, "write substitution rules out"
                for x in arguments:
                    yield from reads(x)
            case p.If(condition=condition, then=then, else_=else_):
                yield from reads(then if evaluate(condition, at) else else_)
            case _:
                for child in children(e):
                    yield from reads(child)
    yield from reads(s.expression)
    update = s.combine if s.commutes else None
    if s.combine is not None:
        yield from touch(s.assignee, False, update)
    yield from touch(s.assignee, True, update)


def matched(before: lk.LoopKernel, after: lk.LoopKernel, params: Values) -> Undo:
    """The instances of *before* by those of *after*.

    A step that moves one iname keeps the order along it, or turns it around. After others, who touches the same
    elements in the same way is the same.

    :raises AssertionError: several instances of a statement touch the same, and the step did more than rename inames.
    """
    step = after.history[-1]

    def lines(knl: lk.LoopKernel, statement: str) -> dict[object, list[Instance]]:
        found: dict[object, list[Instance]] = {}
        for i in instances_of(knl, knl.statement_by_id[statement], params):
            found.setdefault(tuple((x, v) for x, v in i.values if x != step.args[0]), []).append(i)
        return {rest: sorted(line, key=lambda i: i.values) for rest, line in found.items()}

    def along_lines(statement: str) -> dict[Instance, Instance]:
        old, new = lines(before, statement), lines(after, statement)
        # a statement that does not mention the iname may look the same from both ends
        changed = before.statement_by_id[statement] != after.statement_by_id[statement]
        turned = changed or "within" not in dict(step.kwargs)
        turn = -1 if step.name == "reverse" and turned else 1
        return {i: was for rest, line in new.items() for i, was in zip(line, old[rest][::turn], strict=True)}

    def signatures(knl: lk.LoopKernel, statement: str) -> tuple[dict[object, Instance], bool]:
        found: dict[object, Instance] = {}
        instances = instances_of(knl, knl.statement_by_id[statement], params)
        for i in instances:
            found[tuple((t.array, t.element, t.is_write) for t in touches_of(knl, i, params))] = i
        return found, len(found) == len(instances)

    def pairs(statement: str) -> dict[Instance, Instance]:
        (old, clear), (new, _) = signatures(before, statement), signatures(after, statement)
        if clear:
            return {i: old[signature] for signature, i in new.items()}
        # renamed, if anything: the same numbers in the same places
        first, second = ({tuple(v for _, v in i.values): i for i in instances_of(
            knl, knl.statement_by_id[statement], params)} for knl in (before, after))
        assert first.keys() == second.keys(), f"instances of {statement} that touch the same, and moved"
        return {i: first[numbers] for numbers, i in second.items()}
    known: dict[str, dict[Instance, Instance]] = {}

    def undo(statement: str, point: Point) -> Point:
        if statement not in known:
            known[statement] = (along_lines if step.name in ("skew", "shift", "reverse") else pairs)(statement)
        inames = after.statement_by_id[statement].inames
        return known[statement][Instance(statement, tuple((x, point[x]) for x in inames))].point
    return undo


@dataclass(frozen=True)
class Judged:
    """A kernel as it was written, and what steps made of it, with all their orders compared at *params*.

    :ivar kernels: the written kernel, then the kernel after each step; the last one may be wrong.
    """

    kernels: tuple[lk.LoopKernel, ...]
    params: Values

    @property
    def written(self) -> lk.LoopKernel:
        return self.kernels[0]

    @property
    def knl(self) -> lk.LoopKernel:
        return self.kernels[-1]

    @cached_property
    def origin(self) -> Origin:
        return Origin(self.kernels, lambda before, after: matched(before, after, self.params))

    @cached_property
    def instances(self) -> list[Instance]:
        return [i for s in self.knl.statements for i in instances_of(self.knl, s, self.params)]

    @cached_property
    def touches(self) -> dict[str, list[Touch]]:
        """By array."""
        found: dict[str, list[Touch]] = {}
        for i in self.instances:
            for t in touches_of(self.knl, i, self.params):
                found.setdefault(t.array, []).append(t)
        return found

    # The order as written

    def time(self, instance: Instance) -> tuple[int, ...]:
        """When an instance ran in the kernel as it was written."""
        point = self.origin.point(instance.statement, instance.point)
        return tuple(step.position if step.iname is None else point[step.iname]
                     for step in self.written.paths[instance.statement])

    @cached_property
    def new(self) -> frozenset[str]:
        """Statements that the steps made: copies."""
        return frozenset(self.knl.statement_by_id) - frozenset(self.written.statement_by_id)

    @cached_property
    def served(self) -> dict[Instance, list[Instance]]:
        """The readers of the values that each instance of a copy has copied.

        A copy and its readers share the inames that the copying step gave to both. Later steps may add others.
        """
        writes = {}
        for array, touches in self.touches.items():
            writes[array] = [t for t in touches if t.is_write and t.instance.statement in self.new]
        result: dict[Instance, list[Instance]] = {}
        for array, copies in writes.items():
            for t in self.touches[array] if copies else ():
                for c in copies if not t.is_write else ():
                    if c.element != t.element:
                        continue
                    here, there = (self._when_made(c.instance.statement, i) for i in (c.instance, t.instance))
                    if all(there[x] == v for x, v in here.items() if x in there):
                        result.setdefault(c.instance, []).append(t.instance)
        return result

    def _when_made(self, copy: str, instance: Instance) -> Point:
        """The inames of an instance in the first kernel that has the statement *copy*."""
        first = next(n for n, knl in enumerate(self.kernels) if copy in knl.statement_by_id)
        return self.origin.point(instance.statement, instance.point, first)

    def times(self, instance: Instance) -> list[tuple[tuple[int, ...], Instance]]:
        """When an instance, or those whom a copy serves, ran."""
        if instance.statement not in self.new:
            return [(self.time(instance), instance)]
        return [when for reader in self.served.get(instance, ()) for when in self.times(reader)]

    # What must stay in order

    def pairs(self) -> Iterator[Pair]:
        """Every pair of instances that binds: of storage all that meet, of a value its last write and its reads."""
        accumulators = {node.accumulator for node in self.written.reductions.values()}
        for array, touches in self.touches.items():
            cells: dict[tuple[int, ...], list[Touch]] = {}
            for t in touches:
                cells.setdefault(t.element, []).append(t)
            if array in accumulators:
                yield from self._parts_of_a_reduction(array)
            elif array in self.knl.temporaries:
                for cell in cells.values():
                    yield from self._values(cell)
            else:
                for cell in cells.values():
                    yield from self._storage(cell)
        for sink in self.instances:
            for before in sorted(self.knl.statement_by_id[sink.statement].options.depends_on):
                for source in self.instances:
                    if source.statement == before and all(
                            source.point[x] == v for x, v in sink.values if x in source.point):
                        yield Pair(source, sink, "", (), "explicit")

    def _storage(self, cell: Sequence[Touch]) -> Iterator[Pair]:
        timed = [(when, who, t) for t in cell for when, who in self.times(t.instance)]
        for when, who, a in timed:
            for later, other, b in timed:
                if (a.is_write or b.is_write) and a.instance != b.instance and not a.any_order(b) and (
                        when < later or (who == other and b.is_write and not a.is_write)):
                    kind = ("output" if b.is_write else "flow") if a.is_write else "anti"
                    yield Pair(a.instance, b.instance, a.array, a.element, kind)

    def _values(self, cell: Sequence[Touch]) -> Iterator[Pair]:
        writes = [(self.time(t.instance), t) for t in cell if t.is_write and t.instance.statement not in self.new]
        for t in cell:
            for time, _ in () if t.is_write else self.times(t.instance):
                plain = [w for w in writes if w[0] < time and w[1].update is None]
                last = [max(plain, key=lambda found: found[0])] if plain else []
                added = [w for w in writes if w[1].update is not None and (not last or w[0] > last[0][0])]
                for _, w in [*last, *(w for w in added if w[0] < time)]:
                    if not w.any_order(t):
                        yield Pair(w.instance, t.instance, t.array, t.element, "flow")
                # an update goes on from the value that was read before it, until another write begins a new one
                over = min((w[0] for w in writes if w[0] >= time and w[1].update is None), default=None)
                for when, w in added:
                    if t.update is None and when >= time and w.instance != t.instance and (over is None or when < over):
                        yield Pair(t.instance, w.instance, t.array, t.element, "anti")
        for t in cell:
            for reader in self.served.get(t.instance, ()) if t.is_write else ():
                yield Pair(t.instance, reader, t.array, t.element, "flow")

    def _parts_of_a_reduction(self, array: str) -> Iterator[Pair]:
        node = next(n for n in self.written.reductions.values() if n.accumulator == array)
        own = self.written.statement_by_id[node.init].inames
        cells: dict[tuple[int, ...], dict[str, list[Instance]]] = {}
        for i in self.instances:
            if i.statement in (node.init, node.update, node.final):
                point = self.origin.point(i.statement, i.point)
                cell = cells.setdefault(tuple(point[x] for x in own), {})
                cell.setdefault(i.statement, []).append(i)
        for cell in cells.values():
            for first, second in ((node.init, node.update), (node.update, node.final), (node.init, node.final)):
                for a, b in product(cell.get(first, ()), cell.get(second, ())):
                    yield Pair(a, b, array, (), "flow")
            if not self.written.operation(node.operation).reorderable:
                updates = sorted((self.time(i), n, i) for n, i in enumerate(cell.get(node.update, ())))
                for n, (_, _, a) in enumerate(updates):
                    for _, _, b in updates[n + 1:]:
                        yield Pair(a, b, array, (), "flow")

    # The order now

    def broken(self) -> list[Pair]:
        """The pairs that do not run one after the other any more."""
        return [pair for pair in self.pairs() if not self.in_order(pair)]

    def in_order(self, pair: Pair) -> bool:
        """Does the source run before the sink, surely?

        Threads of a block wait for each other between two statements; blocks never do, unless a launch ends.
        """
        a, b = pair.source, pair.sink
        return self._runs_first(a, b) and not self._in_one_vector(pair) and not (
            self._in_other_blocks(pair) and not self._launch_ends_between(a, b))

    def _in_one_vector(self, pair: Pair) -> bool:
        """Would the second read before the first writes what it reads, or are they of two threads, made at once?"""
        tags = {x: str(tag) for x, tag in self.knl.tags.items()}
        lanes = {x for x, _ in pair.source.values if tags.get(x) == "vec"}
        places = [(i.statement, {x: v for x, v in i.values if x not in lanes and not
                                 tags.get(x, "").startswith(("g.", "l."))}) for i in (pair.source, pair.sink)]
        one_thread = all(v == w or x in lanes for (x, v), (_, w) in zip(
            pair.source.values, pair.sink.values, strict=False))
        return bool(lanes) and places[0] == places[1] and (pair.kind == "flow" or not one_thread)

    def _runs_first(self, a: Instance, b: Instance) -> bool:
        for x, y in zip(self._sequential(a.statement), self._sequential(b.statement), strict=False):
            if x != y:
                return x.position < y.position
            if x.iname is not None and a.point[x.iname] != b.point[x.iname]:
                return a.point[x.iname] < b.point[x.iname]
        return False

    def _launch_ends_between(self, a: Instance, b: Instance) -> bool:
        """The host runs plain loops, one launch or more in each iteration."""
        for x, y in zip(self._sequential(a.statement), self._sequential(b.statement), strict=False):
            if x != y:
                return x.position < y.position
            if x.iname is not None:
                if str(self.knl.tags.get(x.iname, "for")) != "for":
                    return False
                if a.point[x.iname] != b.point[x.iname]:
                    return True
        return False

    def _sequential(self, statement: str) -> list[PathStep]:
        """The way to a statement without its parallel loops, those of ``ilp`` and then ``vec`` innermost."""
        kept, inner, lanes = [], [], []
        for step in self.knl.paths[statement]:
            tag = str(self.knl.tags.get(step.iname, "")) if step.iname is not None else ""
            if tag.startswith("ilp"):
                inner.append(step)
            elif tag == "vec":
                lanes.append(step)
            elif not tag.startswith(("g.", "l.")):
                kept.append(step)
        return [*kept, *inner, *lanes]

    def _in_other_blocks(self, pair: Pair) -> bool:
        a, b = self._block(pair.source), self._block(pair.sink)
        # a value that is computed outside of an axis is there in each block along it
        axes = {*a} if pair.array in self.knl.temporaries else {*a, *b}
        return any(a.get(axis) != b.get(axis) for axis in axes)

    def _block(self, instance: Instance) -> dict[str, tuple[int, ...]]:
        """Coordinates by axis, each counted from the least value of its iname."""
        result: dict[str, tuple[int, ...]] = {}
        for x, value in instance.values:
            axis = str(self.knl.tags.get(x, ""))
            if axis.startswith("g."):
                result[axis] = (*result.get(axis, ()), value - self._least[x])
        return result

    @cached_property
    def _least(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for i in self.instances:
            for x, value in i.values:
                found[x] = min(value, found.get(x, value))
        return found


# The smallest

def key(knl: lk.LoopKernel, pair: Pair) -> tuple[object, ...]:
    """What orders the pairs of one size: the source's place in the text and its inames, then the sink's."""
    place = [s.id for s in knl.statements].index
    return (place(pair.source.statement), [v for _, v in pair.source.values],
            place(pair.sink.statement), [v for _, v in pair.sink.values])


def require_smallest(kernels: Sequence[lk.LoopKernel], witness: Witness, reach: int = 2) -> None:
    """*witness* is a pair that the last of *kernels* breaks, and none that runs whatever the data is smaller.

    :arg reach: how far above the witness' parameters those that follow a smaller one are tried.
    :raises AssertionError: it is not, or one is.
    """
    last = kernels[-1]
    names = [a.name for a in last.arguments if a.name in witness.parameters]
    assert list(witness.parameters) == names, "the parameters are not in the order of the arguments"
    judged = Judged(tuple(kernels), witness.parameters)
    broken = judged.broken()
    source, sink = (Instance(name, tuple(values.items())) for name, values in (witness.source, witness.sink))
    same = [b for b in broken if (b.source, b.sink) == (source, sink)]
    assert same, f"the step does not break {witness}"
    assert any((b.array, b.element, b.kind) == (witness.array, witness.element or (), witness.kind) for b in same), \
        f"{witness}, but they meet at {same}"
    least = min((b for b in broken if b in same or is_sure(last, b, witness.parameters)), key=lambda b: key(last, b))
    assert key(last, least) == key(last, same[0]), f"{least} is smaller than {witness} at the same sizes"
    for values in smaller(list(witness.parameters.values()), reach):
        params = dict(zip(names, values, strict=True))
        found = [b for b in Judged(tuple(kernels), params).broken() if is_sure(last, b, params)]
        assert not found, f"{found[0]} with {params} is smaller than {witness}"


def require_smallest_loss(kernels: Sequence[lk.LoopKernel], witness: Witness) -> None:
    """The last step gives the two instances of *witness* different cells, so that a value is lost.

    :raises AssertionError: it does not, or a smaller pair loses one, too.
    """
    before, after = (Judged(tuple(k), witness.parameters) for k in (kernels[:-1], kernels))
    cells = {(t.instance, t.is_write): t.element for t in after.touches[witness.array]}
    lost = [pair for pair in before.pairs() if pair.array == witness.array
            and cells[pair.source, True] != cells[pair.sink, False]]
    least = min(lost, key=lambda pair: key(kernels[-2], pair))
    assert (least.source.statement, least.source.point) == witness.source
    assert (least.sink.statement, least.sink.point) == witness.sink


def smaller(values: Sequence[int], reach: int) -> Iterator[tuple[int, ...]]:
    """Tuples of numbers from 0 up that come before *values*, each entry at most *reach* above its."""
    for found in product(*(range(v + reach + 1) for v in values)):
        if found < tuple(values):
            yield found
