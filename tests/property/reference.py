"""The accesses of a random program's own Python, in execution order, without loopkit."""
from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.property.kernels import FUNCTIONS, Program


@dataclass(frozen=True)
class Event:
    """A statement, at values of the inames around the access, reads or writes an element."""

    statement: str
    point: Mapping[str, int]
    array: str
    element: tuple[int, ...]
    is_write: bool


@dataclass
class Log:
    events: list[Event] = field(default_factory=list)
    statement: str = ""
    point: dict[str, int] = field(default_factory=dict)

    def at(self, statement: str, point: dict[str, int]) -> None:
        self.statement, self.point = statement, point

    def inner(self, point: dict[str, int], operand: Callable[[], Any]) -> Any:
        outer, self.point = self.point, {**self.point, **point}
        value = operand()
        self.point = outer
        return value

    def touch(self, array: str, index: Any, is_write: bool) -> None:
        element = index if isinstance(index, tuple) else (index,)
        self.events.append(Event(self.statement, self.point, array, element, is_write))


@dataclass
class Logged:
    """An array, all of whose elements are 1: no address depends on a value."""

    name: str
    log: Log

    def __getitem__(self, index: Any) -> int:
        self.log.touch(self.name, index, False)
        return 1

    def __setitem__(self, index: Any, value: Any) -> None:
        self.log.touch(self.name, index, True)


class _Instrument(ast.NodeTransformer):
    """Says before each assignment which instance runs, and makes scalars arrays without axes."""

    def __init__(self, ids: list[str], scalars: frozenset[str]) -> None:
        self.ids, self.scalars = ids, scalars
        self.loops: list[str] = []
        self.count = 0

    def visit_For(self, node: ast.For) -> ast.For:
        assert isinstance(node.target, ast.Name)
        self.loops.append(node.target.id)
        node.body = [x for part in node.body for x in _several(self.visit(part))]
        self.loops.pop()
        return node

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        here = ast.parse(f"_log.at({self.ids[self.count]!r}, {_point(self.loops)})").body
        self.count += 1
        self.generic_visit(node)
        return [*here, node]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Subscript(ast.Name(node.id, ast.Load()), ast.Tuple([], ast.Load()), node.ctx) \
            if node.id in self.scalars else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "iff":
            return ast.IfExp(*node.args)                                   # the other branch reads nothing
        return node

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        self.generic_visit(node)
        point = _point([g.target.id for g in node.generators if isinstance(g.target, ast.Name)])
        call = ast.parse(f"_log.inner({point}, lambda: 0)", mode="eval").body
        assert isinstance(call, ast.Call)
        assert isinstance(call.args[1], ast.Lambda)
        call.args[1].body = node.elt
        node.elt = call
        return node


def _point(names: list[str]) -> str:
    return "{" + ", ".join(f"{x!r}: {x}" for x in names) + "}"


def _several(found: Any) -> list[ast.stmt]:
    return found if isinstance(found, list) else [found]


def events(program: Program, sizes: Mapping[str, int]) -> list[Event]:
    """Every access of the program at *sizes*, in order."""
    tree = ast.parse(program.python)
    assigned = [n.targets[0] for n in ast.walk(tree) if isinstance(n, ast.Assign)]
    scalars = frozenset(t.id for t in assigned if isinstance(t, ast.Name))
    ids = re.findall(r"\bid=(\w+)", program.text)
    assert len(ids) == len(assigned)
    log = Log()
    arrays = {*re.findall(r"\b([a-z])\[", program.python), *scalars}
    code = compile(ast.fix_missing_locations(_Instrument(ids, scalars).visit(tree)), "<reference>", "exec")
    exec(code, {**FUNCTIONS, **sizes, **{a: Logged(a, log) for a in arrays}, "_log": log})
    return log.events
