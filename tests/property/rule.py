"""The rule of the semantics page for the values of temporaries, written down once more.

Over nested tuples and with dictionaries for cells; it shares no code with loopkit. It says which inames come to a
statement through temporaries, which loops statements share, and that a read in another loop over an iname of a value
finds the value of the same iteration.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.property.kernels import UnwrittenError

#: The inames in the order of their domains; *n* is 4 at least where it is looked at which values go where.
RANGES = {"i": "0<=i<3", "j": "1<=j<=n", "k": "0<=k<2"}
LOOKED_AT = 4

Expr = tuple[Any, ...]
Env = Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Statement:
    """``target[subscripts] = expr {if=condition, inames=inames}``; *inames* ``None``: the option is not given."""

    id: str
    target: str
    subscripts: tuple[str, ...]
    expr: Expr
    condition: Expr | None = None
    inames: tuple[str, ...] | None = None

    @property
    def is_temporary(self) -> bool:
        return self.target not in ("a", "b", "c")


@dataclass(frozen=True, eq=False)
class Block:
    """``for iname ... end``."""

    iname: str
    body: tuple[Node, ...]


Node = Statement | Block


class RefusedError(Exception):
    """The text leaves two readings, so that an error is what it means."""


# Inames

def mentioned(e: Expr) -> frozenset[str]:
    match e:
        case ("iname", str() as name):
            return frozenset([name])
        case ("read", _, subscripts):
            return frozenset(x for x in subscripts if x in RANGES)
        case ("sum", str() as iname, operand):
            return mentioned(operand) - {iname}
        case ("number", _):
            return frozenset()
        case (_, left, right):
            return mentioned(left) | mentioned(right)
        case _:
            raise TypeError(e)


def reads_of(e: Expr, reducing: frozenset[str] = frozenset()) -> Iterator[tuple[str, frozenset[str]]]:
    """Every name that is read, with the reduction inames around it."""
    match e:
        case ("read", str() as name, _):
            yield name, reducing
        case ("sum", str() as iname, operand):
            yield from reads_of(operand, reducing | {iname})
        case ("number" | "iname", _):
            pass
        case (_, left, right):
            yield from reads_of(left, reducing)
            yield from reads_of(right, reducing)


def reductions_of(e: Expr) -> frozenset[str]:
    match e:
        case ("sum", str() as iname, operand):
            return reductions_of(operand) | {iname}
        case ("number" | "iname", _) | ("read", _, _):
            return frozenset()
        case (_, left, right):
            return reductions_of(left) | reductions_of(right)
        case _:
            raise TypeError(e)


@dataclass
class Meaning:
    """What the text means.

    :ivar opened: the blocks around each statement, outermost first.
    :ivar inames: of each statement, through temporaries too.
    :ivar axes: the inames over which each temporary has values that another loop reads.
    """

    nodes: tuple[Node, ...]
    opened: dict[str, tuple[str, ...]] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    inames: dict[str, frozenset[str]] = field(default_factory=dict)
    axes: dict[str, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._collect(self.nodes, ())
        own = {s.id: self._own(s) for s in self.statements}
        self.inames = {s.id: own[s.id] if s.inames is not None else frozenset(RANGES) for s in self.statements}
        while True:
            new = {s.id: own[s.id] | self._gain(s, own[s.id]) for s in self.statements}
            if new == self.inames:
                break
            self.inames = new
        for s in self.statements:
            gained = self.inames[s.id] - own[s.id]
            if gained and (self.opened[s.id] or gained & frozenset().union(*map(reductions_of, self._expressions(s)))):
                raise RefusedError(f"{s.id} gains {sorted(gained)}")
            if self.inames[s.id] & frozenset().union(*map(reductions_of, self._expressions(s))):
                raise RefusedError(f"{s.id} has an iname over which it reduces")

    def _collect(self, nodes: Sequence[Node], opened: tuple[str, ...]) -> None:
        for node in nodes:
            if isinstance(node, Block):
                self._collect(node.body, (*opened, node.iname))
            else:
                self.opened[node.id] = opened
                self.statements.append(node)

    def _own(self, s: Statement) -> frozenset[str]:
        return frozenset().union(self.opened[s.id], s.subscripts, s.inames or (), *map(mentioned, self._expressions(s)))

    @staticmethod
    def _expressions(s: Statement) -> list[Expr]:
        return [s.expr] if s.condition is None else [s.expr, s.condition]

    def writers(self, name: str) -> list[Statement]:
        return [s for s in self.statements if s.is_temporary and s.target == name]

    def reads(self, s: Statement) -> list[tuple[str, frozenset[str]]]:
        return [(name, reducing) for e in self._expressions(s) for name, reducing in reads_of(e)
                if self.writers(name)]

    def values(self, name: str, writers: Sequence[Statement] | None = None) -> frozenset[str]:
        """The inames that all writers have and do not subscript the temporary with."""
        return frozenset.intersection(*(self.inames[w.id].difference(w.subscripts)
                                        for w in writers or self.writers(name)))

    def _gain(self, s: Statement, own: frozenset[str]) -> frozenset[str]:
        if s.inames is not None:
            return frozenset()
        found: set[str] = set()
        for name, reducing in self.reads(s):
            new = self.values(name) - reducing - own
            if self.opened[s.id]:
                # after the end of a block the last value is meant
                new = frozenset(x for x in new if any(x not in self.opened[w.id] for w in self.writers(name)))
            found |= new
        return frozenset(found)

    def order(self, s: Statement) -> tuple[str, ...]:
        """The loops around *s*: those of its blocks, then the others as the domains are."""
        opened = self.opened[s.id]
        return (*opened, *(x for x in RANGES if x in self.inames[s.id] and x not in opened))


# Running

@dataclass(frozen=True, eq=False)
class Loop:
    iname: str
    body: tuple[Loop | Statement, ...]


def tree_of(meaning: Meaning, nodes: Sequence[Node], depth: int = 0) -> tuple[Loop | Statement, ...]:
    """The loops: one for each block, and shared by neighbours where no block says otherwise."""
    items: list[tuple[tuple[str, ...], Loop | Statement]] = []
    for node in nodes:
        if isinstance(node, Block):
            items.append(((), Loop(node.iname, tree_of(meaning, node.body, depth + 1))))
        else:
            items.append((meaning.order(node)[depth:], node))
    return _shared(items)


def _shared(items: Sequence[tuple[tuple[str, ...], Loop | Statement]]) -> tuple[Loop | Statement, ...]:
    result: list[Loop | Statement] = []
    while items:
        inames, body = items[0]
        stop = 1
        if not inames:
            result.append(body)
        else:
            while stop < len(items) and items[stop][0][:1] == inames[:1]:
                stop += 1
            result.append(Loop(inames[0], _shared([(rest[1:], inner) for rest, inner in items[:stop]])))
        items = items[stop:]
    return tuple(result)


Reader = tuple[Statement, frozenset[str]]


@dataclass(frozen=True)
class Value:
    """A value of a temporary, and where it was written."""

    number: int
    writer: Statement
    env: Env
    loops: Mapping[str, object]


@dataclass
class Run:
    """One run over concrete sizes.

    :ivar crossed: for each temporary the inames in two loops between a value's writer and its reader.
    :ivar carried: for each temporary the inames of a loop that writer and reader share, in unlike iterations.
    :ivar flows: pairs of writer and reader, by temporary; a reader is a statement and the reductions around the read.
    :ivar apart: those whose loops over an iname are not one.
    """

    meaning: Meaning
    n: int
    arrays: dict[str, np.ndarray]
    cells: dict[tuple[Any, ...], Value] = field(default_factory=dict)
    crossed: dict[str, set[str]] = field(default_factory=dict)
    carried: dict[str, set[str]] = field(default_factory=dict)
    flows: set[tuple[str, Statement, Reader]] = field(default_factory=set)
    apart: set[tuple[str, Statement, Reader, str]] = field(default_factory=set)

    def values(self, iname: str) -> range:
        return {"i": range(3), "j": range(1, self.n + 1), "k": range(2)}[iname]

    def all(self, body: Sequence[Loop | Statement], env: Env, loops: Mapping[str, object]) -> None:
        for part in body:
            if isinstance(part, Loop):
                for value in self.values(part.iname):
                    self.all(part.body, {**env, part.iname: value}, {**loops, part.iname: part})
            else:
                self.one(part, env, loops)

    def one(self, s: Statement, env: Env, loops: Mapping[str, object]) -> None:
        if s.condition is not None and not self.evaluate(s.condition, s, env, loops):
            return
        number = self.evaluate(s.expr, s, env, loops)
        place = tuple(self.index(x, env) for x in s.subscripts)
        if s.is_temporary:
            self.cells[(s.target, *place, *self.iteration(s.target, env))] = Value(number, s, env, loops)
        else:
            self.arrays[s.target][place] = number

    @staticmethod
    def index(x: str, env: Env) -> int:
        return env[x] if x in RANGES else int(x)

    def iteration(self, name: str, env: Env) -> tuple[int, ...]:
        return tuple(env[x] for x in sorted(self.meaning.axes.get(name, ())))

    def evaluate(self, e: Expr, s: Statement, env: Env, loops: Mapping[str, object]) -> int:
        match e:
            case ("number", int() as value):
                return value
            case ("iname", str() as name):
                return env[name]
            case ("read", str() as name, subscripts):
                place = tuple(self.index(x, env) for x in subscripts)
                if name in self.arrays:
                    return int(self.arrays[name][place])
                return self.read(name, place, s, env, loops)
            case ("sum", str() as iname, operand):
                own = object()
                return sum(self.evaluate(operand, s, {**env, iname: v}, {**loops, iname: own})
                           for v in self.values(iname))
            case (str() as operator, left, right):
                a, b = self.evaluate(left, s, env, loops), self.evaluate(right, s, env, loops)
                return {"+": a + b, "-": a - b, "*": a*b, ">": int(a > b), "<": int(a < b)}[operator]
            case _:
                raise TypeError(e)

    def read(self, name: str, place: tuple[int, ...], s: Statement, env: Env, loops: Mapping[str, object]) -> int:
        try:
            value = self.cells[(name, *place, *self.iteration(name, env))]
        except KeyError:
            raise UnwrittenError(name) from None
        reader = s, frozenset(x for x in env if x not in self.meaning.inames[s.id])
        self.flows.add((name, value.writer, reader))
        for x in env:
            if x in value.env and value.loops[x] is not loops[x]:
                self.apart.add((name, value.writer, reader, x))
                if x in self.meaning.values(name) - self.meaning.axes.get(name, frozenset()):
                    self.crossed.setdefault(name, set()).add(x)
            elif x in value.env and value.env[x] != env[x]:
                self.carried.setdefault(name, set()).add(x)
        return value.number


def understood(nodes: tuple[Node, ...], inputs: Mapping[str, np.ndarray]) -> Meaning:
    """What *nodes* mean, with the axes that their values need.

    :raises RefusedError: two readings; :raises UnwrittenError: a value is read that nothing wrote.
    """
    meaning = Meaning(nodes)
    run = run_of(meaning, LOOKED_AT, inputs)
    _require_one_meaning(meaning, run)
    while run.crossed:
        for name, crossed in run.crossed.items():
            if crossed & run.carried.get(name, set()):
                raise RefusedError(f"{name} is carried")
            for s in meaning.statements:
                if any(read == name and not crossed <= meaning.inames[s.id] | reducing
                       for read, reducing in meaning.reads(s)):
                    raise RefusedError(f"{s.id} reads {name} outside of {sorted(crossed)}")
            meaning.axes[name] = meaning.axes.get(name, frozenset()) | crossed
        run = run_of(meaning, LOOKED_AT, inputs)
    return meaning


def _require_one_meaning(meaning: Meaning, run: Run) -> None:
    """Of scalars: all values that may reach a read have the inames that all values of that name have.

    A value that is written outside of blocks has its own inames in another loop, whatever else may reach the read.
    """
    for name, writer, (reader, reducing) in run.flows:
        begun = {meaning.values(name, [w]) for w in meaning.writers(name)
                 if (name, frozenset()) not in meaning.reads(w)}
        if writer.subscripts or len(begun) < 2:
            continue
        reaching = {a for other, a, b in run.flows if other == name and b == (reader, reducing)}
        while more := {a for other, a, b in run.flows if other == name and b[0] in reaching and not b[1]} - reaching:
            reaching |= more
        if not reducing and reader.target == name:
            reaching.add(reader)
        extra = meaning.values(name, [w for w in meaning.writers(name) if w in reaching]) - meaning.values(name)
        own = meaning.values(name, [writer]) - meaning.values(name) - set(meaning.opened[writer.id]) \
            if (name, frozenset()) not in meaning.reads(writer) else frozenset()
        for x in extra | own:
            lacks = x in extra and x not in meaning.inames[reader.id] | reducing and reader.inames is None \
                and x not in meaning.opened[writer.id]
            if lacks or (name, writer, (reader, reducing), x) in run.apart:
                raise RefusedError(f"{name} is two values for {reader.id}")


def run_of(meaning: Meaning, n: int, inputs: Mapping[str, np.ndarray]) -> Run:
    run = Run(meaning, n, {k: v.copy() for k, v in inputs.items()})
    run.all(tree_of(meaning, meaning.nodes), {}, {})
    return run
