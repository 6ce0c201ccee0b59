"""Loop programs with one fault each: a guard, a bound, a box, an index, a barrier or a vector that is off by one."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.arrays import Array
from loopkit.ast.nodes import (
    Assign,
    Block,
    Define,
    For,
    Function,
    If,
    Instruction,
    Node,
    OneStep,
    Program,
    Region,
    Scope,
    Sync,
)
from loopkit.ast.text import block_text
from loopkit.expr.mappers import children, conjuncts, map_children, substitute, variables
from loopkit.instructions.asynchronous_copy import AsynchronousCopy
from loopkit.instructions.atomic_update import AtomicFetch, AtomicUpdate
from loopkit.instructions.block_flag import BlockFlag
from loopkit.instructions.groups import commits, group_instructions, pending
from loopkit.instructions.ldmatrix import LDMATRIX, LdMatrixIssue
from loopkit.instructions.mma import MmaIssue
from loopkit.instructions.nests import Issue
from loopkit.instructions.shuffle import Excluded, Shuffle
from loopkit.instructions.stmatrix import STMATRIX, StMatrixIssue
from loopkit.instructions.vector_access import Vector, VectorAccess
from loopkit.poly.affine import add, floor_div, remainder


@dataclass(frozen=True)
class Fault:
    """A program with one fault; *kind* and *text* say what was done."""

    kind: str
    text: str
    program: Program


def faults(program: Program) -> Iterator[Fault]:
    """Every program that is one fault away from *program*."""
    for number, function in enumerate(program.functions):
        for kind, text, wrong in _of_function(function):
            functions = (*program.functions[:number], wrong, *program.functions[number + 1:])
            yield Fault(kind, f"{function.name}: {text}", replace(program, functions=functions))


Found = Iterator[tuple[str, str, Any]]


def _of_function(function: Function) -> Found:
    for kind, text, body in _of_block(function.body):
        yield kind, text, replace(function, body=body)
    for i, array in enumerate(function.arrays):
        for axis in range(len(array.shape)):
            shape = (*array.shape[:axis], array.shape[axis] - 1, *array.shape[axis + 1:])
            arrays: tuple[Array, ...] = (*function.arrays[:i], replace(array, shape=shape), *function.arrays[i + 1:])
            yield "box shrunk", f"{array.name} along {axis}", replace(function, arrays=arrays)
    if function.ticketed:
        yield "blocks without tickets", function.name, replace(function, ticketed=False)
    for kind, text, coordinates in _of_coordinates(function.coordinates):
        yield kind, text, replace(function, coordinates=coordinates)
    for axis, extent in function.extents.items():
        if axis.startswith("g"):
            yield "grid shrunk", axis, replace(function, extents={**function.extents, axis: add(extent, -1)})


def _of_coordinates(coordinates: Mapping[str, Expression]) -> Found:
    """An iname that is one off, and parts of an axis that are of another length, in one coordinate or in all."""
    for x, value in coordinates.items():
        yield "coordinate shifted", x, {**coordinates, x: add(value, 1)}
        for wrong in _changed(value, _of_other_length):
            yield "part of another length", f"{x} = {wrong}", {**coordinates, x: wrong}
    lengths = {e.denominator: None for value in coordinates.values() for e in _remainders(value)}
    for length in lengths:
        for by in (1, -1):
            longer: Mapping[Expression, Expression] = {length: add(length, by)}
            yield "part of another length", f"{length} as {longer[length]}", {
                x: _replaced(value, longer) for x, value in coordinates.items()}


def _of_other_length(expr: Expression) -> Iterator[Expression]:
    match expr:
        case p.Remainder():
            yield expr.numerator
            yield remainder(expr.numerator, add(expr.denominator, 1))
        case p.FloorDiv(numerator=p.Variable()):
            yield floor_div(expr.numerator, add(expr.denominator, 1))
        case _:
            pass


def _remainders(expr: Expression) -> Iterator[p.Remainder]:
    """The remainders in a coordinate that are parts of its axis."""
    for part in expr.children if isinstance(expr, p.Sum) else (expr,):
        if isinstance(part, p.Remainder) and any(x.startswith(("g.", "l.")) for x in variables(part)):
            yield part


def _replaced(expr: Expression, names: Mapping[Expression, Expression]) -> Expression:
    return names[expr] if expr in names else map_children(expr, lambda e: _replaced(e, names))


def _of_block(block: Block) -> Found:
    nodes = block.children
    for i, node in enumerate(nodes):
        for kind, text, wrong in _of_node(node):
            yield kind, text, replace(block, children=(*nodes[:i], wrong, *nodes[i + 1:]))
        if isinstance(node, OneStep):
            for kind, wrong in _in_other_steps(node):
                yield kind, block_text(node), Block((*nodes[:i], *wrong, *nodes[i + 1:]))
        if isinstance(node, Region) and isinstance(node.instruction, Shuffle):
            yield "shuffle deleted", str(node.instruction), Block((*nodes[:i], *nodes[i + 1:]))
            for kind, wrong in _shuffled_wrongly(node, node.instruction):
                yield kind, f"{node.instruction} as {wrong}", Block((*nodes[:i], wrong, *nodes[i + 1:]))
        if isinstance(node, Sync):
            served = "; ".join(node.serves)
            kind = "group" if pending(node.instructions) is None else "wait"
            kind = kind if node.scope is Scope.THREAD else "barrier"
            yield f"{kind} deleted", served, Block((*nodes[:i], *nodes[i + 1:]))
            if kind == "group":
                continue
            for where, before, after in _moved(nodes[:i], nodes[i + 1:]):
                yield f"{kind} moved", f"{where}: {served}", Block((*before, node, *after))
            for kind, wrong in _waiting_wrongly(node):
                yield kind, f"{node.title} as {wrong.title or 'nothing'}", Block((*nodes[:i], wrong, *nodes[i + 1:]))


def _waiting_wrongly(node: Sync) -> Iterator[tuple[str, Sync]]:
    """No wait for asynchronous copies, one that leaves a group more under way, one of fewer threads, and no new group.
    """
    ends, left = commits(node.instructions), pending(node.instructions)
    if left is not None:
        yield "wait deleted", replace(node, instructions=group_instructions(commit=ends, leaving=None))
        yield "wait weakened", replace(node, instructions=group_instructions(commit=ends, leaving=left + 1))
        for scope in (x for x in (Scope.THREAD, Scope.WARP) if x < node.scope):
            yield "wait of fewer threads", replace(node, scope=scope)
    if ends:
        yield "group not ended", replace(node, instructions=group_instructions(commit=False, leaving=left))


def _in_other_steps(step: OneStep) -> Iterator[tuple[str, tuple[Node, ...]]]:
    """The load of an old value apart from its update, or after it."""
    load, update = step.children
    yield "step taken apart", step.children
    yield "step of the load alone", (OneStep((load,)), update)
    yield "step of the update alone", (load, OneStep((update,)))
    yield "step turned round", (OneStep((update, load)),)
    yield "step taken apart and turned round", (update, load)


def _shuffled_wrongly(node: Region, shuffle: Shuffle) -> Iterator[tuple[str, Node]]:
    """Another lane, threads that do not read at once, and threads that do not take part."""
    if shuffle.offset is None:
        yield "shuffle shifted", replace(node, instruction=replace(shuffle, width=2*shuffle.width))
        yield "shuffle shifted", replace(node, instruction=replace(shuffle, offset=1))
    else:
        for offset in (shuffle.offset + 1, 2*shuffle.offset, None):
            yield "shuffle shifted", replace(node, instruction=replace(shuffle, offset=offset))
    if shuffle.excluded is Excluded.KEPT:
        yield "shuffle spoils", replace(node, instruction=replace(shuffle, excluded=Excluded.UNUSED))
    if shuffle.is_butterfly:
        yield "butterfly in one direction", replace(node, instruction=replace(shuffle, excluded=Excluded.UNUSED))
    if shuffle.excluded is Excluded.SAME:
        yield "butterfly of other lanes", replace(node, instruction=replace(shuffle, width=2*shuffle.width))
    else:
        yield "result of no butterfly", replace(node, instruction=replace(shuffle, excluded=Excluded.SAME))
    yield "shuffle as a region", replace(node, instruction=None)
    match node.body.children:
        case (If() as guard,):
            yield "shuffle divergent", replace(guard, then=Block((replace(node, body=guard.then),)))


def _moved(before: tuple[Node, ...], after: tuple[Node, ...]
           ) -> Iterator[tuple[str, tuple[Node, ...], tuple[Node, ...]]]:
    """The neighbouring gaps of a barrier: a statement or, where a region does not come apart, a region further."""
    if before:
        first, second = _cut(before[-1], -1)
        yield "up", (*before[:-1], *first), (*second, *after)
    if after:
        first, second = _cut(after[0], 1)
        yield "down", (*before, *first), (*second, *after[1:])


def _cut(node: Node, at: int) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """*node* before and after a barrier that comes from below (*at* = -1) or from above."""
    if isinstance(node, Region) and len(node.body.children) > 1 \
            and not any(isinstance(c, Define) for c in node.body.children):
        return (Region(Block(node.body.children[:at])),), (Region(Block(node.body.children[at:])),)
    return ((), (node,)) if at == -1 else ((node,), ())


def _of_node(node: Node) -> Found:
    match node:
        case For():
            for kind, text, body in _of_block(node.body):
                yield kind, text, replace(node, body=body)
            name, step = node.iname, node.step
            yield "bound weakened", f"start of {name}", replace(node, start=add(node.start, -step))
            yield "bound weakened", f"stop of {name}", replace(node, stop=_plus(node.stop, 1))
            yield "footprint shrunk", f"start of {name}", replace(node, start=add(node.start, step))
            # the last iteration, where the step is more than one
            yield "footprint shrunk", f"stop of {name}", replace(node, stop=_plus(node.stop, -step))
            own = node.instruction
            for kind, text, vectors in _of_vectors(own.vectors) if isinstance(own, VectorAccess) else ():
                yield kind, f"{text} along {name}", replace(node, instruction=replace(own, vectors=vectors))
            if isinstance(own, VectorAccess) and own.copied is not None:
                for wrong in _of_number(own.copied):
                    yield "copied otherwise", f"{own.copied} as {wrong}", replace(
                        node, instruction=replace(own, copied=wrong))
        case If():
            for kind, text, then in _of_block(node.then):
                yield kind, text, replace(node, then=then)
            if node.otherwise is not None:
                for kind, text, otherwise in _of_block(node.otherwise):
                    yield kind, text, replace(node, otherwise=otherwise)
            for kind, change in (("guard weakened", _weaker), ("guard tightened", _tighter)):
                for wrong in _changed(node.condition, change):
                    yield kind, f"{node.condition} as {wrong}", replace(node, condition=wrong)
        case Region():
            for kind, text, body in _of_block(node.body):
                yield kind, text, replace(node, body=body)
            if isinstance(node.instruction, Issue):
                for kind, text, issue in _of_issue(node.instruction):
                    yield kind, text, replace(node, instruction=issue)
                first = p.Comparison(p.Variable("l.0"), "!=", 0)
                for way, other in (("without the first thread", None), ("in two branches", Block((node,)))):
                    yield "nest divergent", f"{node.instruction.instruction.name} {way}", If(
                        first, Block((node,)), other)
        case Block():
            yield from _of_block(node)
        case Assign():
            for target in _changed(node.target, _shifted):
                yield "index shifted", f"{node.statement}: {target} = ...", replace(node, target=target)
            for value in _changed(node.value, _shifted):
                yield "index shifted", f"{node.statement}: ... = {value}", replace(node, value=value)
            for i, own in enumerate(node.instructions):
                for kind, wrong in _of_instruction(own):
                    yield kind, node.statement, replace(node, instructions=(
                        *node.instructions[:i], *wrong, *node.instructions[i + 1:]))
        case Define() | Sync():
            pass


def _of_instruction(instruction: Instruction) -> Iterator[tuple[str, tuple[Instruction, ...]]]:
    """Plain accesses in its place, and flags of which one is left out."""
    match instruction:
        case AtomicUpdate():
            yield "update not atomic", ()
        case AtomicFetch():
            yield "old value loaded plainly", ()
            yield "old value of another update", (AtomicFetch("max"),)
        case AsynchronousCopy():
            yield "copy at once", ()
        case BlockFlag():
            if instruction.stores:
                yield "value stored without its flag", (replace(instruction, stores=False),)
            if instruction.loads:
                yield "value read without a wait", (replace(instruction, loads=()),)
        case _:
            raise AssertionError(instruction)


def _of_issue(issue: Issue) -> Found:
    match issue:
        case MmaIssue():
            for which in ("left", "right", "sums"):
                for text, wrong in _of_registers(getattr(issue, which)):
                    yield "operand changed", f"{which}: {text}", replace(issue, **{which: wrong})
        case LdMatrixIssue() | StMatrixIssue():
            for text, wrong in _of_registers(issue.registers):
                yield "operand changed", f"registers: {text}", replace(issue, registers=wrong)
            *others, row, first = issue.row.index_tuple
            for index in ((*others, add(row, 1), first), *((*others, row, add(first, by)) for by in (1, 8))):
                wrong_row = p.Subscript(issue.row.aggregate, index)
                yield "row changed", f"{issue.row} as {wrong_row}", replace(issue, row=wrong_row)
            for name, other in (LDMATRIX if isinstance(issue, LdMatrixIssue) else STMATRIX).items():
                if other is not issue.instruction:
                    yield "move of another kind", f"{issue.instruction.name} as {name}", replace(
                        issue, instruction=other)
        case _:
            raise AssertionError(issue)


def _of_registers(elements: tuple[p.Subscript, ...]) -> Iterator[tuple[str, tuple[p.Subscript, ...]]]:
    """Another element in a register, those of other lanes, and elements in another order."""
    for i, e in enumerate(elements):
        others = [e for k, e in enumerate(elements) if k != i]
        for wrong in (*_shifted(e), *others[:1]):
            if wrong != e:
                yield f"{e} as {wrong}", (*elements[:i], wrong, *elements[i + 1:])
    if len(elements) > 1:
        yield "turned round", elements[::-1]
    lanes = sorted(variables(elements[0]) & {x for e in elements for x in variables(e) if x.endswith("lane")})
    for one, other in combinations(lanes, 2):
        swapped = {one: p.Variable(other), other: p.Variable(one)}
        yield f"{one} and {other} swapped", tuple(substitute(e, swapped) for e in elements)
    for one in lanes:
        yield f"of {one} 0", tuple(substitute(e, {one: 0}) for e in elements)


def _of_vectors(vectors: tuple[Vector, ...]) -> Found:
    """One of *vectors* off by one element, too long, moved in one way less or more, or with less assumed."""
    for i, v in enumerate(vectors):
        index = v.element.index_tuple
        elements = [p.Subscript(v.element.aggregate, (*index[:k], add(index[k], 1), *index[k + 1:]))
                    for k in range(len(index))]
        wrong = [("vector shifted", replace(v, element=e)) for e in elements]
        wrong.append(("vector lengthened", replace(v, length=2*v.length)))
        if v.stored:
            wrong.append(("vector not moved", replace(v, stored=False)))
        if v.loaded:
            wrong.append(("vector not moved", replace(v, loaded=False)))
        else:
            wrong.append(("vector not moved", replace(v, stored=False, loaded=True)))
        if v.inside is not None:
            wrong += [("vector outside", replace(v, inside=e)) for e in (None, *_changed(v.inside, _weaker))]
        for a in v.assumed:
            wrong.append(("alignment dropped", replace(v, assumed=tuple(b for b in v.assumed if b != a))))
        for kind, other in wrong:
            yield kind, f"{v.name} as {other}", (*vectors[:i], other, *vectors[i + 1:])


def _of_number(copied: Expression) -> Iterator[Expression | None]:
    """The elements of a vector that are copied and not replaced by zeros: all, one more or less, on other conditions.
    """
    condition, number = (copied.condition, copied.then) if isinstance(copied, p.If) else (True, copied)
    counts = number.children if isinstance(number, p.Min) else (number,)
    yield None
    for wrong in _changed(condition, _tighter):
        yield p.If(wrong, number, 0)
    parts = [] if condition is True else conjuncts(condition)
    for i in range(len(parts)):
        yield p.If(p.LogicalAnd((True, *parts[:i], *parts[i + 1:])), number, 0)
    for i, count in enumerate(counts):
        for by in (-1, 1):
            yield p.If(condition, p.Min((*counts[:i], add(count, by), *counts[i + 1:])), 0)
        if len(counts) > 1:
            yield p.If(condition, count, 0)


def _changed(expr: Expression, change: Callable[[Expression], Iterator[Expression]]) -> Iterator[Expression]:
    """*expr* with *change* done at one place in it, for every place and every change."""
    yield from change(expr)
    for i, child in enumerate(children(expr)):
        for wrong in _changed(child, change):
            count = iter(range(len(children(expr))))
            yield map_children(expr, lambda c, wrong=wrong, i=i, count=count: wrong if next(count) == i else c)


def _weaker(expr: Expression) -> Iterator[Expression]:
    if isinstance(expr, p.Comparison):
        left, op, right = expr.left, str(expr.operator), expr.right
        match op:
            case "<" | "<=":
                yield p.Comparison(left, op, _plus(right, 1))
            case ">" | ">=":
                yield p.Comparison(left, op, _plus(right, -1))
            case "==":
                yield p.LogicalOr((expr, p.Comparison(left, "==", _plus(right, 1))))
            case _:
                yield p.Comparison(0, "==", 0)


def _tighter(expr: Expression) -> Iterator[Expression]:
    if isinstance(expr, p.Comparison):
        left, op, right = expr.left, str(expr.operator), expr.right
        match op:
            case "<" | "<=":
                yield p.Comparison(left, op, _plus(right, -1))
            case ">" | ">=":
                yield p.Comparison(left, op, _plus(right, 1))
            case "==":
                yield p.Comparison(0, "!=", 0)
            case _:
                yield p.LogicalAnd((expr, p.Comparison(left, "!=", _plus(right, 1))))


def _shifted(expr: Expression) -> Iterator[Expression]:
    if isinstance(expr, p.Subscript):
        index = expr.index_tuple
        for i in range(len(index)):
            yield p.Subscript(expr.aggregate, (*index[:i], add(index[i], 1), *index[i + 1:]))


def _plus(expr: Expression, constant: int) -> Expression:
    return add(expr, constant) if not isinstance(expr, float) else expr + constant
