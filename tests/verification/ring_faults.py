"""Loop programs with one fault in what orders asynchronous copies: a wait, a fence, a phase, a group, or a box."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Block, ByRole, For, If, Instruction, Node, Program, Region, Scope, Sync, Tiles
from loopkit.ast.walk import as_block, nodes_in, rewritten
from loopkit.expr.mappers import map_children
from loopkit.instructions.boxes import BoxIssue, TmaBox
from loopkit.instructions.groups import WaitGroup
from loopkit.instructions.phases import ArrivePhase, StartPhases, WaitPhase
from loopkit.instructions.tma import TmaLoadIssue
from loopkit.poly.affine import add, remainder
from tests.verification.faults import Fault

#: Nodes in place of one, each with what is wrong.
Wrong = Iterator[tuple[str, Node]]


def ring_faults(program: Program) -> Iterator[Fault]:
    """Every program that is one such fault away from *program*."""
    for number, function in enumerate(program.functions):
        for k, node in enumerate(nodes_in(function.body)):
            for kind, wrong in _of_node(node):
                body = as_block(_with(function.body, k, wrong))
                functions = (*program.functions[:number], replace(function, body=body), *program.functions[number + 1:])
                yield Fault(kind, _text(node), replace(program, functions=functions))


def _with(body: Block, number: int, wrong: Node) -> Node:
    """*body* with its node of this *number* replaced."""
    nodes = list(nodes_in(body))
    chosen = [k for k, node in enumerate(nodes) if node is nodes[number]].index(number)
    seen = -1

    def change(node: Node) -> Node:
        nonlocal seen
        seen += node is nodes[number]
        return wrong if node is nodes[number] and seen == chosen else node
    return rewritten(body, change)


def _text(node: Node) -> str:
    match node:
        case Sync():
            return f"{node.title}: {'; '.join(node.serves)}"
        case Region(instruction=BoxIssue() as issue):
            return issue.titles[0]
        case _:
            return type(node).__name__


def _of_node(node: Node) -> Wrong:
    match node:
        case Sync():
            yield "left out", Block(())
            yield from (("of fewer threads", replace(node, scope=scope))
                        for scope in (Scope.THREAD, Scope.WARP) if scope < node.scope)
            if node.scope is Scope.BLOCK:
                yield from (("of other threads", replace(node, threads=other))
                            for other in {0, 32, 64, node.threads + 32} - {node.threads})
            for k, own in enumerate(node.instructions):
                before, after = node.instructions[:k], node.instructions[k + 1:]
                for kind, new in of_instruction(own):
                    yield f"{own.noun}: {kind}", replace(node, instructions=(*before, *new, *after))
        case Region(instruction=BoxIssue() as issue):
            yield "a box left out", Block(())
            for kind, other in _of_issue(issue):
                yield kind, replace(node, instruction=other)
        case If(condition=p.Comparison(left=p.Variable(name="l.0"), right=0), then=then):
            yield "by all threads", then
        case ByRole(then=then, otherwise=Block() as otherwise):
            yield "roles exchanged", replace(node, then=otherwise, otherwise=then)
            yield from (("a role of other threads", replace(node, threads=node.threads + by)) for by in (-32, 32))
            for k, child in enumerate(then.children):
                yield "in the other role", replace(node, then=_left_out(then, k),
                                                   otherwise=Block((child, *otherwise.children)))
            for k, child in enumerate(otherwise.children):
                yield "in the other role", replace(node, then=Block((*then.children, child)),
                                                   otherwise=_left_out(otherwise, k))
        case Tiles():
            yield from (("other blocks", replace(node, blocks=node.blocks + by)) for by in (-1, 1))
            yield "other blocks", replace(node, group=node.group + 1)
            yield "one place only", node.body
            yield "every place again", replace(node, body=Block((node,)))
            children = node.body.children
            if len(children) > 1:
                yield "two loops over places", Block((replace(node, body=Block(children[:1])),
                                                      replace(node, body=Block(children[1:]))))
            yield "not at each place", If(p.Comparison(p.Variable("g.0"), ">=", 1), Block((node,)))
        case Block():
            yield from _moved(node)
            yield from _moved_over_loops(node)
        case _:
            pass


def _moved(block: Block) -> Wrong:
    """A wait or a barrier one place further up or down."""
    children = block.children
    for k, (a, b) in enumerate(pairwise(children)):
        if isinstance(a, Sync) != isinstance(b, Sync):
            yield "moved", Block((*children[:k], b, a, *children[k + 2:]))


def _moved_over_loops(block: Block) -> Wrong:
    """A wait or a barrier that goes into a loop beside it, or out of one; what runs once, at each place of the grid."""
    children = block.children
    for k, loop in enumerate(children):
        others = children[:k], children[k + 1:]
        match loop:
            case For(body=body):
                for at, child in ((0, body.children[0]), (-1, body.children[-1])):
                    if isinstance(child, Sync):
                        rest = replace(loop, body=_left_out(body, at % len(body.children)))
                        both = (rest, child) if at else (child, rest)
                        yield "out of the loop", Block((*others[0], *both, *others[1]))
                if k and isinstance(wait := children[k - 1], Sync):
                    inner = replace(loop, body=Block((wait, *body.children)))
                    yield "into the loop", Block((*children[:k - 1], inner, *others[1]))
                if k + 1 < len(children) and isinstance(wait := children[k + 1], Sync):
                    inner = replace(loop, body=Block((*body.children, wait)))
                    yield "into the loop", Block((*others[0], inner, *children[k + 2:]))
            case Tiles(body=body):
                if k:
                    yield "at each place", Block((*children[:k - 1], replace(
                        loop, body=Block((children[k - 1], *body.children))), *others[1]))
                if others[1]:
                    yield "at each place", Block((*others[0], replace(
                        loop, body=Block((*body.children, others[1][0]))), *others[1][1:]))
                for at, child in ((0, body.children[0]), (-1, body.children[-1])):
                    if isinstance(child, Sync):
                        rest = replace(loop, body=_left_out(body, at % len(body.children)))
                        yield "once", Block((*others[0], *((rest, child) if at else (child, rest)), *others[1]))
            case ByRole(then=then, otherwise=Block() as otherwise) if k and isinstance(children[k - 1], Sync):
                for inner in (then, otherwise):
                    for tiles in (x for x in nodes_in(inner) if isinstance(x, Tiles)):
                        again = replace(tiles, body=Block((children[k - 1], *tiles.body.children)))
                        new = rewritten(loop, lambda node, tiles=tiles, again=again: again if node is tiles else node)
                        yield "at each place", Block((*children[:k - 1], new, *others[1]))
            case _:
                pass


def _left_out(block: Block, number: int) -> Block:
    return Block((*block.children[:number], *block.children[number + 1:]))


def of_instruction(instruction: Instruction) -> Iterator[tuple[str, tuple[Instruction, ...]]]:
    """Instructions in place of one of a synchronisation, each with what is wrong."""
    yield "left out", ()
    match instruction:
        case WaitGroup(pending=pending):
            yield from (("another depth", (replace(instruction, pending=n),)) for n in (pending + 1, pending - 1)
                        if n >= 0)
        case WaitPhase(of=phase) | ArrivePhase(of=phase):
            for by in (-1, 1, phase.slots):
                yield "another phase", (replace(instruction, of=replace(phase, number=add(phase.number, by))),)
            for slots in (phase.slots - 1, phase.slots + 1):
                if slots:
                    yield "another ring", (replace(instruction, of=replace(phase, slots=slots)),)
            yield "counted otherwise", (replace(instruction, of=replace(phase, in_tile=not phase.in_tile)),)
        case StartPhases(slots=slots, arrivals=copies):
            yield "another start", (replace(instruction, empty=not instruction.empty),)
            yield "counted otherwise", (replace(instruction, in_tiles=not instruction.in_tiles),)
            for other in (slots - 1, slots + 1):
                yield "other slots", (replace(instruction, slots=other),)
            for other in (copies - 1, copies + 1):
                yield "other copies", (replace(instruction, arrivals=other),)
        case _:
            pass


def _of_issue(issue: BoxIssue) -> Iterator[tuple[str, BoxIssue]]:
    box = issue.box
    for k, i in enumerate(box.start):
        yield "another place in the array", replace(issue, box=replace(
            box, start=(*box.start[:k], add(i, 1), *box.start[k + 1:])))
    yield from (("another tile", replace(issue, box=other)) for other in _other_tiles(box))
    if isinstance(issue, TmaLoadIssue):
        phase = issue.of
        for by in (-1, 1, phase.slots):
            yield "a copy of another phase", replace(issue, of=replace(phase, number=add(phase.number, by)))
        for slots in (phase.slots - 1, phase.slots + 1):
            if slots:
                yield "a copy in another ring", replace(issue, of=replace(phase, slots=slots))


def _other_tiles(box: TmaBox) -> Iterator[TmaBox]:
    """The next place in shared memory, the same one always, and a ring with a cell less."""
    first, *others = box.tile.index_tuple
    shorter = _changed(first, lambda e: remainder(e.numerator, e.denominator - 1) if isinstance(
        e, p.Remainder) and isinstance(e.denominator, int) and e.denominator > 1 else e)
    for other in (add(first, 1), 0, shorter):
        if other != first:
            yield replace(box, tile=p.Subscript(box.tile.aggregate, (other, *others)))


def _changed(expr: Expression, change: Callable[[Expression], Expression]) -> Expression:
    return change(map_children(expr, lambda e: _changed(e, change)))
