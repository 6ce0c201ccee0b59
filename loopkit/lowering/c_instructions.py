"""C instructions in loop programs: the user's code in place of their statements, the last change before the text."""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Block, Define, For, Function, If, Instruction, Node
from loopkit.ast.walk import as_block, child_nodes, map_child_nodes, mentioned, rewritten
from loopkit.errors import PreconditionError
from loopkit.expr.functions import function_of
from loopkit.expr.mappers import array_of, conjunction, subscripts_of, substitute, variables
from loopkit.kernel.c_instruction import CInstruction, OpaqueValue
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import is_parallel
from loopkit.lowering.lowered import Lowered
from loopkit.poly.affine import subtract


@dataclass(frozen=True)
class UserOperand:
    """One operand of the user's code, at its place in a loop program.

    :ivar name: its name in the code, and *local* in the text.
    :ivar element: the temporary with a value that was read, the element that is written, or the first one of a region.
    :ivar steps: for each range of a region, the distance of two elements along each axis of the array.
    :ivar shape: the shape of an array that the function declares.
    """

    name: str
    local: str
    element: p.Variable | p.Subscript
    is_written: bool
    steps: tuple[tuple[int, ...], ...] = ()
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class UserCode(Instruction):
    """The code of *instruction*.

    :ivar parts: its operands at this place; *replaced*: the assignments that the code replaces.
    """

    noun: ClassVar[str] = "a C instruction"

    instruction: CInstruction
    parts: tuple[UserOperand, ...]
    replaced: tuple[Assign, ...]


# The statements of an instruction in a loop program

def with_user_code(lowered: Lowered) -> Lowered:
    """*lowered* with the code of C instructions in place of their statements.

    The sums that stand for regions are dropped. The code is in the place of the accesses to the regions: the updates of
    these sums, and what is written. Values are read before, by ordinary assignments to temporaries.

    :raises PreconditionError: these accesses do not follow each other, or run on several threads.
    """
    own = {f.instruction.id: f.instruction for f in lowered.kernel.functions.values()
           if isinstance(f, OpaqueValue) and f.instruction is not None}
    if not own:
        return lowered
    functions = tuple(_Rewriter(lowered.kernel, own, f).function() for f in lowered.program.functions)
    return replace(lowered, program=replace(lowered.program, functions=functions))


#: The id of an instruction, and one of its operands.
_Role = tuple[str, str]


@dataclass(frozen=True)
class _Found:
    """An assignment of an instruction.

    :ivar path: the names of the loops and definitions around it, the outer ones first, with their first values.
    :ivar conditions: those under which it runs, within these loops.
    """

    node: Assign
    path: tuple[tuple[str, Expression], ...] = ()
    conditions: tuple[Expression, ...] = ()


_NOTHING_AROUND = _Found(Assign(p.Variable(""), 0, None, ""))


@dataclass
class _Rewriter:
    """Replaces the statements of *instructions* in *of*, a function of *kernel*."""

    kernel: LoopKernel
    instructions: Mapping[str, CInstruction]
    of: Function
    dropped: set[str] = field(default_factory=set)

    def function(self) -> Function:
        body = self._block(rewritten(self.of.body, self._without_sums))
        gone = self.dropped - mentioned(body)
        return replace(self.of, body=body, arrays=tuple(a for a in self.of.arrays if a.name not in gone))

    @cached_property
    def roles(self) -> Mapping[str, _Role]:
        """The operand that each statement of an instruction accesses; ``""``: it computes a sum and is dropped."""
        found: dict[str, _Role] = {}
        sums = {f"{x.id}_reads_{name}": (x.id, name) for x in self.instructions.values() for name in x.operands}
        for node in self.kernel.reductions.values():
            if role := sums.get(node.operation):
                found |= {node.init: (role[0], ""), node.final: (role[0], ""), **dict.fromkeys(node.updates, role)}
        for s in self.kernel.statements:
            function = function_of(s.expression)
            if isinstance(function, OpaqueValue) and function.instruction is not None:
                own = function.instruction.id
                found[s.id] = (own, function.name.removeprefix(f"{own}_writes_"))
        return found

    def _block(self, block: Block) -> Block:
        result: list[Node] = []
        group: dict[_Role, _Found] = {}
        for child in (*block.children, None):
            members = [] if child is None else self._members(child, _NOTHING_AROUND)
            roles = [self.roles[m.node.statement] for m in members]
            if group and (not members or roles[0][0] != next(iter(group))[0] or not group.keys().isdisjoint(roles)):
                result.append(self._code(group))
                group = {}
            if members:
                group.update(zip(roles, members, strict=True))
            elif child is not None:
                result.append(self._inside(child))
        return replace(block, children=tuple(result))

    def _without_sums(self, node: Node) -> Node:
        """*node* without the assignments that no code replaces, and without what is empty then."""
        match node:
            case Assign() if node.statement in self.roles and not self.roles[node.statement][1]:
                self.dropped.add(array_of(node.target))
                return Block()
            case Block():
                kept = (x for x in node.children if not isinstance(x, Block | If | For) or any(
                    not isinstance(y, Block) or y.children for y in (x, *child_nodes(x))[not isinstance(x, Block):]))
                return replace(node, children=tuple(kept))
            case _:
                return node

    def _inside(self, node: Node) -> Node:
        if isinstance(node, Assign) and node.statement in self.roles:
            raise self._scattered(self.instructions[self.roles[node.statement][0]])
        return self._block(node) if isinstance(node, Block) else map_child_nodes(
            node, lambda inner: self._block(as_block(inner)))

    def _members(self, node: Node, around: _Found) -> list[_Found]:
        """The assignments in *node* if all are of one instruction, and its loops run over regions; else none.

        Conditions may not depend on the place in a region.
        """
        match node:
            case Assign() if node.statement in self.roles:
                return [replace(around, node=node)]
            case For() if node.instruction is None:
                inner = self._sequence(node.body, replace(around, path=(*around.path, (node.iname, node.start))))
                return inner if all(node.iname in self._region(m.node) for m in inner) else []
            case If(condition=condition, otherwise=None) if variables(condition).isdisjoint(dict(around.path)):
                inner = self._sequence(node.then, replace(around, conditions=(*around.conditions, condition)))
                return inner if all(variables(condition).isdisjoint(self._region(m.node)) for m in inner) else []
            case _:
                return []

    def _sequence(self, block: Block, around: _Found) -> list[_Found]:
        result: list[_Found] = []
        for node in block.children:
            if isinstance(node, Define):
                around = replace(around, path=(*around.path, (node.name, node.value)))
                continue
            found = self._members(node, around)
            if not found:
                return []
            result += found
        return result if len({self.roles[m.node.statement][0] for m in result}) == 1 else []

    def _region(self, node: Assign) -> Collection[str]:
        """The inames over which the statement of *node* runs through a region."""
        s, given = self.kernel.statement_by_id[node.statement], self.instructions[self.roles[node.statement][0]]
        if s.id in self.kernel.reduction_of:
            return self.kernel.reduction_of[s.id].inames
        assert isinstance(s.expression, p.Call)
        return frozenset[str]().union(*map(variables, s.expression.parameters[len(given.operands):]))

    def _scattered(self, given: CInstruction) -> PreconditionError:
        return PreconditionError(
            f"The accesses of the C instruction '{given.id}' do not follow each other in one thread, so that its code "
            "cannot be in their place.", subject=given.id,
            hint=f"leave the inames of its regions, '{given.id}_...', without tags, and split or tag its other inames "
                 "without ilp, vec, cpu.simd and unroll_and_jam")

    def _code(self, group: Mapping[_Role, _Found]) -> Node:
        """The node with the user's code for a *group* of statements, under their condition."""
        given = self.instructions[next(iter(group))[0]]
        regions = [name for name, text in given.operands.items() if given.region(text.strip())[1]]
        names = [name for _, name in group]
        conditions, *others = {found.conditions for found in group.values()}
        written = {array_of(group[role].node.target) for role in group if role[1] in given.writes}
        in_order = {*names} == {*regions, *given.writes} and {*names[:len(regions)]} == {*regions}
        if others or not in_order or any(written & variables(x) for x in conditions) or any(
                is_parallel(self.kernel.tags.get(x)) for m in group.values() for x in self._region(m.node)):
            raise self._scattered(given)
        given.require_undeclared({*self.kernel.all_names, *(a.name for a in self.of.arrays)})
        parts = [self._operand(given, name, group) for name in (*given.operands, *given.writes)]
        value = p.Call(p.Variable(given.id), tuple(x.element for x in parts))
        replaced = tuple(found.node for found in group.values())
        self.dropped.update(array_of(x.target) for x in replaced[:len(regions)])
        node = Assign(parts[-1].element, value, None, replaced[-1].statement, replaced[-1].instance,
                      (UserCode(given, tuple(parts), replaced),))
        return If(conjunction(conditions), Block((node,))) if conditions else node

    def _operand(self, given: CInstruction, name: str, group: Mapping[_Role, _Found]) -> UserOperand:
        is_written, local = name in given.writes, f"{given.id}_{name}"
        text = given.writes[name] if is_written else given.operands[name]
        ranges = given.region(text.strip())[1]
        if not ranges and not is_written:
            write = next(found.node for role, found in group.items() if role[1] in given.writes).value
            assert isinstance(write, p.Call)
            element = write.parameters[list(given.operands).index(name)]
            assert isinstance(element, p.Variable | p.Subscript)
            return UserOperand(name, local, element, is_written)
        found = group[given.id, name]
        element = found.node.target
        if not is_written:
            assert isinstance(found.node.value, p.Sum)
            element = found.node.value.children[-1]         # the one that the sum 3*a + b combines
        assert isinstance(element, p.Variable | p.Subscript)
        if not ranges:
            return UserOperand(name, local, element, is_written)
        steps = self._steps(given, name, self._places(given, found.node), subscripts_of(element), dict(found.path))
        for iname_or_name, value in reversed(found.path):
            element = substitute(element, {iname_or_name: value})
        assert isinstance(element, p.Subscript)
        array = next((a for a in self.of.arrays if a.name == array_of(element)), None)
        if array is not None and (array.thread_axes or array.swizzle):
            raise PreconditionError(f"The elements of '{array.name}' are permuted or in registers, so that the C "
                                    f"instruction '{given.id}' cannot have a pointer to them.", subject=given.id)
        return UserOperand(name, local, element, is_written, steps, None if array is None else array.shape)

    def _places(self, given: CInstruction, node: Assign) -> tuple[Expression, ...]:
        """The subscripts in a region of the element that *node* accesses, one for each range."""
        if node.statement in self.kernel.reduction_of:
            return tuple(map(p.Variable, self.kernel.reduction_of[node.statement].inames))
        assert isinstance(node.value, p.Call)
        return node.value.parameters[len(given.operands):]

    def _steps(self, given: CInstruction, name: str, places: Sequence[Expression], subscripts: Sequence[Expression],
               around: Collection[str]) -> tuple[tuple[int, ...], ...]:
        """The distances of neighbouring elements in each range; 0 for a range with one element, which has no loop.

        :raises PreconditionError: the loops do not run through the ranges element by element, upwards.
        """
        steps = list[tuple[int, ...]]()
        for k, place in enumerate(places):
            inames = variables(place) & {*around}
            # a loop may run downwards, or in steps: the code counts from the first element of the region
            changes, moves = ([subtract(substitute(e, {x: p.Variable(x) + 1 for x in inames}), e) for e in forms]
                              for forms in (subscripts, places))
            is_unit = all(move == (bool(inames) and k == other) for other, move in enumerate(moves))
            if len(inames) > 1 or not is_unit or not all(isinstance(x, int) for x in changes):
                raise PreconditionError(
                    f"The region '{name}' of the C instruction '{given.id}' has no single stride from its first "
                    "element on, because a loop over it was changed, or the array's layout.", subject=given.id,
                    hint=f"leave the inames of its regions, '{given.id}_{name}_...', as they are")
            steps.append(tuple(x for x in changes if isinstance(x, int)))
        return tuple(steps)
