"""Walks over loop programs: every node class has its case, and what does not change is the same object."""
from __future__ import annotations

import re
from dataclasses import Field, dataclass, fields, is_dataclass, replace
from typing import Any, get_args

import pymbolic.primitives as p
import pytest
from pymbolic.typing import Expression

from loopkit.ast import nodes
from loopkit.ast.nodes import (
    Assign,
    Block,
    ByRole,
    Call,
    Define,
    For,
    FunctionBody,
    If,
    Node,
    OneStep,
    Region,
    Sync,
    Tiles,
)
from loopkit.ast.walk import as_block, child_nodes, expressions_of, map_child_nodes, nodes_in, rewritten, simplified
from loopkit.instructions.mma import MMA, MmaIssue

X = p.Variable("x")
F, G, H = (Block((Call(name),)) for name in "fgh")

#: One node of each class, with all that it may have in it.
EXAMPLES: tuple[Node, ...] = (
    Assign(X, 1, None, "insn"), For("i", 0, 4, 1, F), If(X, F, G), Define("x", 1), Sync(()), Region(F), Call("f"),
    Block((Call("f"), Sync(()), Call("g"))), FunctionBody((Call("f"), Call("g")), "insn"),
    OneStep((Call("f"), Call("g"))), ByRole(X, F, G, threads=32), Tiles(F, 4))

each_example = pytest.mark.parametrize("node", EXAMPLES, ids=lambda node: type(node).__name__)


def _marked(node: Node) -> Node:
    return Block((node, Call("mark")))


def test_every_node_class_has_an_example() -> None:
    assert {type(node) for node in EXAMPLES} == set(get_args(Node))


def test_every_class_with_nodes_in_it_is_a_node() -> None:
    """But a function and a program, which are around the nodes."""
    around = {cls for cls in vars(nodes).values()
              if isinstance(cls, type) and is_dataclass(cls) and any(map(_holds_nodes, fields(cls)))}
    assert around - set(get_args(Node)) == {nodes.Function, nodes.Program}


def _holds_nodes(field: Field[Any]) -> bool:
    names = {"Node", *(cls.__name__ for cls in get_args(Node))}
    return not names.isdisjoint(re.findall(r"\w+", str(field.type)))


@each_example
def test_what_is_in_a_node_is_all_that_its_fields_hold(node: Node) -> None:
    held = [getattr(node, f.name) for f in fields(node) if _holds_nodes(f)]
    flat = [x for part in held for x in (part if isinstance(part, tuple) else (part,))]
    assert list(child_nodes(node)) == flat


@each_example
def test_a_node_in_which_nothing_changes_is_itself(node: Node) -> None:
    assert map_child_nodes(node, lambda child: child) is node
    assert rewritten(node, lambda inner: inner) is node


@each_example
def test_each_part_of_a_node_is_mapped_once_and_in_order(node: Node) -> None:
    seen: list[Node] = []

    def marked(child: Node) -> Node:
        seen.append(child)
        return _marked(child)
    new = map_child_nodes(node, marked)
    assert seen == list(child_nodes(node))
    assert child_nodes(new) == tuple(map(_marked, child_nodes(node)))
    assert type(new) is type(node)


@each_example
def test_the_expressions_of_a_node_are_all_that_its_fields_hold(node: Node) -> None:
    held = tuple(getattr(node, f.name) for f in fields(node) if f.type in ("Expression", "p.Variable | p.Subscript"))
    assert expressions_of(node) == held


def test_the_operands_of_an_instruction_are_of_its_region() -> None:
    left, right, total = (p.Subscript(p.Variable(name), X) for name in "abc")
    product = MmaIssue(MMA["mma.m8n8k4.f64"], (left,), (right,), (total, total))
    assert expressions_of(Region(F, product)) == (left, right, total, total)


def test_what_is_no_node_is_refused() -> None:
    @dataclass(frozen=True)
    class While:
        body: Block
    other: Any = While(F)
    with pytest.raises(AssertionError, match="While"):
        child_nodes(other)
    with pytest.raises(AssertionError, match="While"):
        expressions_of(other)
    with pytest.raises(AssertionError, match="While"):
        list(nodes_in(Block((other,))))
    with pytest.raises(AssertionError, match="While"):
        map_child_nodes(other, lambda child: child)


def test_nodes_come_in_textual_order_each_before_those_in_it() -> None:
    branch, region = If(X, F, G), Region(H)
    loop = For("i", 0, 4, 1, Block((branch, Sync(()))))
    program = Block((Define("x", 1), loop, region))
    assert list(nodes_in(program)) == [
        program, Define("x", 1), loop, loop.body, branch, F, Call("f"), G, Call("g"), Sync(()), region, H, Call("h")]


def test_all_but_the_change_and_what_is_around_it_is_shared() -> None:
    left, right = For("i", 0, 4, 1, F), For("j", 0, 4, 1, G)
    program = Block((left, right, Region(H)))
    new = rewritten(program, lambda node: Call("k") if node == Call("g") else node)
    assert new == Block((left, replace(right, body=Block((Call("k"),))), Region(H)))
    assert new.children[0] is left
    assert new.children[2] is program.children[2]


def test_inner_nodes_are_rewritten_before_those_around_them() -> None:
    seen: list[Node] = []

    def number(node: Node) -> Node:
        seen.append(node)
        return replace(node, name=f"{node.name}{len(seen)}") if isinstance(node, Call) else node
    new = rewritten(If(X, F, G), number)
    assert new == If(X, Block((Call("f1"),)), Block((Call("g3"),)))
    assert seen == [Call("f"), Block((Call("f1"),)), Call("g"), Block((Call("g3"),)), new]


def test_one_node_for_a_body_is_put_in_a_block() -> None:
    assert map_child_nodes(If(X, F, G), lambda block: Call("k")) == If(X, Block((Call("k"),)), Block((Call("k"),)))
    assert rewritten(F, lambda node: Call("k")) == Block((Call("k"),))


def test_a_block_is_its_own_block() -> None:
    assert as_block(F) is F
    assert as_block(Call("f")) == F


INAME, SIZE = p.Variable("i"), p.Variable("n")


def test_a_condition_that_a_loop_does_not_change_is_around_it() -> None:
    first, loop = If(p.Comparison(SIZE, ">", 2), G), For("i", 0, SIZE, 1, Block((If(p.Comparison(SIZE, ">", 2), F),)))
    assert simplified(Block((first, loop))) == Block((
        If(p.Comparison(SIZE, ">", 2), Block((Call("g"), For("i", 0, SIZE, 1, F)))),))


@pytest.mark.parametrize("condition", [
    p.Comparison(INAME, ">", 2), p.Comparison(p.Variable("s"), ">", 2), p.Comparison(p.Subscript(X, (0,)), ">", 2),
    p.Comparison(p.Remainder(7, SIZE), ">", 2)], ids=str)
def test_a_condition_stays_in_a_loop(condition: Expression) -> None:
    """It may change there, or only the loop guarantees that it has a value."""
    then = Block((Assign(p.Variable("s"), 1, None, "insn"),))
    program = Block((For("i", 0, SIZE, 1, Block((If(condition, then),))),))
    assert simplified(program) == program
