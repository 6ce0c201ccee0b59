"""Programs whose temporaries carry values from loop to loop; :mod:`tests.property.rule` defines their meaning."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
import numpy as np

from tests.property.kernels import Draw, Program, UnwrittenError
from tests.property.rule import (
    RANGES,
    Block,
    Expr,
    Meaning,
    Node,
    Statement,
    reads_of,
    reductions_of,
    run_of,
    understood,
)

# Text

def text_of(e: Expr) -> str:
    match e:
        case ("number", int() as value):
            return str(value)
        case ("iname", str() as name):
            return name
        case ("read", str() as name, subscripts):
            return f"{name}[{', '.join(subscripts)}]" if subscripts else name
        case ("sum", str() as iname, operand):
            return f"sum({iname}, {text_of(operand)})"
        case (str() as operator, left, right):
            return f"({text_of(left)} {operator} {text_of(right)})"
        case _:
            raise TypeError(e)


def lines_of(nodes: Sequence[Node], declared: set[str]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, Block):
            yield f"for {node.iname}"
            yield from (f"    {line}" for line in lines_of(node.body, declared))
            yield "end"
            continue
        options = [f"id={node.id}"]
        if node.inames is not None:
            options.append(f"inames={':'.join(node.inames)}")
        if node.condition is not None:
            options.append(f"if={text_of(node.condition)}")
        new = node.is_temporary and node.target not in declared
        declared.add(node.target)
        place = text_of(("read", node.target, node.subscripts))
        yield f"{'<> ' if new else ''}{place} = {text_of(node.expr)} {{{', '.join(options)}}}"


@dataclass(frozen=True)
class Crossing(Program):
    """A program with its nodes; its oracle is the rule."""

    nodes: tuple[Node, ...] = ()

    @property
    def depends_on_data(self) -> bool:
        """Does the data say which of several writes a read finds, or whether there is a read?"""
        return any(s.condition is not None and any(True for _ in reads_of(s.condition))
                   for s in _statements(self.nodes))

    def meaning(self) -> Meaning:
        return understood(self.nodes, self.inputs())

    def expected(self, sizes: Mapping[str, int]) -> dict[str, np.ndarray] | None:
        try:
            return run_of(self.meaning(), sizes["n"], self.inputs()).arrays
        except UnwrittenError:
            return None


def _statements(nodes: Sequence[Node]) -> Iterator[Statement]:
    for node in nodes:
        if isinstance(node, Block):
            yield from _statements(node.body)
        else:
            yield node


# Drawing

@dataclass
class Drawing:
    draw: Draw
    known: list[str] = field(default_factory=list)
    count: int = 0

    def chance(self, percent: int) -> bool:
        return bool(self.draw(st.integers(0, 99)) >= 100 - percent)

    def one(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def nodes(self, around: tuple[str, ...], depth: int, most: int) -> tuple[Node, ...]:
        result: list[Node] = []
        for _ in range(self.draw(st.integers(1, most))):
            free = [x for x in RANGES if x not in around]
            if depth and free and self.chance(35):
                iname = self.one(*free)
                result.append(Block(iname, self.nodes((*around, iname), depth - 1, 3)))
            else:
                result.append(self.statement(around))
        return tuple(result)

    def statement(self, around: tuple[str, ...]) -> Statement:
        self.count += 1
        # texts that leave two readings are most of those that mention others than their blocks have
        own = around or (self.one(*RANGES),)
        near = (*own, *own, *own, *own, self.one(*RANGES))
        name = self.one("s", "s", "t", "t", "u", "a", "b", "c", "c")
        axes = {"u": 1, "a": 1, "b": 1, "c": 2}.get(name, 0)
        expr = self.expression(near, 2)
        new = name not in ("a", "b", "c") and name not in self.known
        subscripts = tuple(self.one(*near) for _ in range(axes))
        bound = reductions_of(expr)
        subscripts = tuple("0" if x in bound else x for x in subscripts)
        condition = None if new or not self.chance(15) else self.one(
            ("<", ("iname", near[0]), ("number", 2)), (">", ("read", "x", (near[0],)), ("number", 0)))
        inames = self.one((), (near[0],)) if self.chance(10) else None
        if name not in ("a", "b", "c") and new:
            self.known.append(name)
        return Statement(f"S{self.count}", name, subscripts, expr, condition, inames)

    def result(self) -> Statement:
        """An output that shows a value."""
        x, y = self.one(*RANGES), self.one(*RANGES)
        name = self.one(*(self.known or ["x"]))
        value = ("read", name, () if name in "st" else (x,))
        free = [z for z in RANGES if z not in (x, y)]
        return Statement("last", "c", (x, y), value if self.chance(50) else ("sum", self.one(*free), value))

    def expression(self, near: tuple[str, ...], depth: int) -> Expr:
        kind = self.one("x", "z", "value", "value", "value", "sum", "both", "number")
        if kind == "value" and self.known:
            name = self.one(*self.known)
            return ("read", name, (self.one(*near),) if name == "u" else ())
        free = [x for x in RANGES if x not in near]
        if kind == "sum" and depth and free:
            iname = self.one(*free)
            return ("sum", iname, self.expression((iname,), 0) if self.chance(50) else ("read", "x", (iname,)))
        if kind == "both" and depth:
            return (self.one("+", "-"), self.expression(near, depth - 1), self.expression(near, depth - 1))
        if kind == "z":
            return ("read", "z", (self.one(*near), self.one(*near)))
        if kind == "number":
            return ("+", ("number", self.draw(st.integers(1, 3))), ("iname", self.one(*near)))
        return ("read", "x", (self.one(*near),))


@st.composite
def crossings(draw: Draw) -> Crossing:
    drawing = Drawing(draw)
    nodes = (*drawing.nodes((), 2, 6), drawing.result())
    text = "\n".join(lines_of(nodes, set()))
    used = [x for x in RANGES if any(x in part for part in _words(text))]
    temporaries = tuple(dict.fromkeys(s.target for s in _statements(nodes) if s.is_temporary))
    return Crossing("knl", tuple(f"{{[{x}]: {RANGES[x]}}}" for x in used), text, "", "float64", temporaries,
                    "n>=1" if "j" in used else None, ({"n": 5, "m": 3}, {"n": 4, "m": 2}), draw(st.integers(0, 5)),
                    nodes=nodes)


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() else " " for c in text).split())
