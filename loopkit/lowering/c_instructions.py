"""C instructions in loop programs: the user's code in place of their statements, the last change before the text."""
from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Block, Define, For, Function, Instruction, Node
from loopkit.ast.walk import as_block, map_child_nodes, mentioned
from loopkit.errors import PreconditionError
from loopkit.expr.functions import function_of
from loopkit.expr.mappers import array_of, subscripts_of, substitute, variables
from loopkit.kernel.c_instruction import CInstruction, OpaqueValue
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import is_parallel
from loopkit.lowering.lowered import Lowered
from loopkit.poly.affine import subtract


@dataclass(frozen=True)
class UserOperand:
    """One operand of the user's code, at its place in a loop program.

    :ivar name: its name in the code, and *local* in the text.
    :ivar value: a value that was read, the element that is written, or the first element of a region.
    :ivar steps: for each range of a region, the distance of two elements along each axis of the array.
    :ivar shape: the shape of an array that the function declares.
    """

    name: str
    local: str
    value: Expression
    is_written: bool
    steps: tuple[tuple[int, ...], ...] = ()
    shape: tuple[int, ...] | None = None

    @property
    def element(self) -> p.Variable | p.Subscript:
        """Its value, which is an element."""
        assert isinstance(self.value, p.Variable | p.Subscript)
        return self.value


@dataclass(frozen=True)
class UserCode(Instruction):
    """The code of *instruction*, with its *operands* at this place."""

    noun: ClassVar[str] = "a C instruction"

    instruction: CInstruction
    parts: tuple[UserOperand, ...]


# The statements of an instruction in a loop program

def with_user_code(lowered: Lowered) -> Lowered:
    """*lowered* with the code of C instructions in place of their statements.

    :raises PreconditionError: the statements of an instruction do not follow each other, or run on several threads.
    """
    own = {f.instruction.id: f.instruction for f in lowered.kernel.functions.values()
           if isinstance(f, OpaqueValue) and f.instruction is not None}
    if not own:
        return lowered
    functions = tuple(_Rewriter(lowered.kernel, own, f).function() for f in lowered.program.functions)
    return replace(lowered, program=replace(lowered.program, functions=functions))


#: A statement of an instruction: the id, the operand, and its part in reading or writing the operand.
_Role = tuple[str, str, str]


@dataclass(frozen=True)
class _Found:
    """An assignment of an instruction, and the loops and definitions around it, the outer ones first."""

    node: Assign
    path: tuple[tuple[str, Expression], ...]


@dataclass
class _Rewriter:
    """Replaces the statements of *instructions* in *of*, a function of *kernel*."""

    kernel: LoopKernel
    instructions: Mapping[str, CInstruction]
    of: Function
    dropped: set[str] = field(default_factory=set)

    def function(self) -> Function:
        body = self._block(self.of.body)
        gone = self.dropped - mentioned(body)
        return replace(self.of, body=body, arrays=tuple(a for a in self.of.arrays if a.name not in gone))

    @cached_property
    def roles(self) -> Mapping[str, _Role]:
        """The statements of instructions."""
        found: dict[str, _Role] = {}
        for given in self.instructions.values():
            for name in given.operands:
                temporary = f"{given.id}_{name}"
                found.update((s.id, (given.id, name, "value")) for s in self.kernel.statements if s.written == temporary)
            for node in self.kernel.reductions.values():
                name = node.operation.removeprefix(f"{given.id}_reads_")
                if name in given.operands and node.operation != name:
                    found.update({node.init: (given.id, name, "init"),
                                  **dict.fromkeys(node.updates, (given.id, name, "update"))})
        for s in self.kernel.statements:
            function = function_of(s.expression)
            if isinstance(function, OpaqueValue) and function.instruction is not None:
                name = function.name.removeprefix(f"{function.instruction.id}_writes_")
                found[s.id] = (function.instruction.id, name, "write")
        return found

    def _block(self, block: Block) -> Block:
        result: list[Node] = []
        group: dict[_Role, _Found] = {}
        for child in (*block.children, None):
            members = [] if child is None else self._members(child, ())
            roles = [self.roles[m.node.statement] for m in members]
            if group and (not members or roles[0][0] != next(iter(group))[0] or not group.keys().isdisjoint(roles)):
                result.append(self._code(group))
                group = {}
            if members:
                group.update(zip(roles, members, strict=True))
            elif child is not None:
                result.append(self._inside(child))
        return Block(tuple(result))

    def _inside(self, node: Node) -> Node:
        if isinstance(node, Assign) and node.statement in self.roles:
            raise self._scattered(self.instructions[self.roles[node.statement][0]])
        return self._block(node) if isinstance(node, Block) else map_child_nodes(
            node, lambda inner: self._block(as_block(inner)))

    def _members(self, node: Node, path: tuple[tuple[str, Expression], ...]) -> list[_Found]:
        """The assignments in *node* if all are of one instruction, and its loops run over regions; else none."""
        match node:
            case Assign() if node.statement in self.roles:
                return [_Found(node, path)]
            case For() if node.instruction is None:
                inner = self._sequence(node.body, (*path, (node.iname, node.start)))
                return inner if all(node.iname in self._region(m.node) for m in inner) else []
            case _:
                return []

    def _sequence(self, block: Block, path: tuple[tuple[str, Expression], ...]) -> list[_Found]:
        result: list[_Found] = []
        for node in block.children:
            if isinstance(node, Define):
                path = (*path, (node.name, node.value))
                continue
            found = self._members(node, path)
            if not found:
                return []
            result += found
        return result if len({self.roles[m.node.statement][0] for m in result}) == 1 else []

    def _region(self, node: Assign) -> Collection[str]:
        """The inames over which the statement of *node* runs through a region."""
        s, (given, _, role) = self.kernel.statement_by_id[node.statement], self.roles[node.statement]
        if role == "update":
            return self.kernel.reduction_of[s.id].inames
        assert isinstance(s.expression, p.Call) or role != "write"
        count = len(self.instructions[given].operands)
        return variables(s.expression.parameters[count:]) if role == "write" else ()      # type: ignore[union-attr]

    def _scattered(self, given: CInstruction) -> PreconditionError:
        return PreconditionError(
            f"The statements of the C instruction '{given.id}' do not follow each other in one thread, so that its code "
            "cannot replace them.", subject=given.id,
            hint=f"leave the inames of its regions, '{given.id}_...', without tags, and split or tag its other inames "
                 "without ilp, vec and unroll_and_jam")

    def _code(self, group: Mapping[_Role, _Found]) -> Assign:
        """The node with the user's code for a *group* of statements."""
        given = self.instructions[next(iter(group))[0]]
        needed = {(given.id, name, role) for name, text in given.operands.items()
                  for role in ("value", *(("init", "update") if given.region(text)[1] else ()))}
        needed.update((given.id, name, "write") for name in given.writes)
        places = {role: number for number, role in enumerate(group)}
        last_read = max((n for role, n in places.items() if role[2] != "write"), default=-1)
        if needed != group.keys() or any(places[role] < last_read for role in needed if role[2] == "write") or any(
                is_parallel(self.kernel.tags.get(x)) for m in group.values() for x in self._region(m.node)):
            raise self._scattered(given)
        parts = [self._operand(given, name, group) for name in (*given.operands, *given.writes)]
        for role, found in group.items():
            if role[2] != "write":
                self.dropped.add(array_of(found.node.target))
        last = group[given.id, next(iter(given.writes)), "write"].node
        value = p.Call(p.Variable(given.id), tuple(x.value for x in parts))
        target = next(x.value for x in parts if x.is_written)
        assert isinstance(target, p.Variable | p.Subscript)
        return Assign(target, value, None, last.statement, (), (UserCode(given, tuple(parts)),))

    def _operand(self, given: CInstruction, name: str, group: Mapping[_Role, _Found]) -> UserOperand:
        is_written, local = name in given.writes, f"{given.id}_{name}"
        text = given.writes[name] if is_written else given.operands[name]
        ranges = given.region(text.strip())[1]
        found = group[given.id, name, "write" if is_written else "update" if ranges else "value"]
        element = found.node.target if is_written else found.node.value
        if not ranges:
            return UserOperand(name, local, element, is_written)
        if not is_written:
            assert isinstance(element, p.Sum)
            element = element.children[-1]                 # what the digest 3*a + b combines
        assert isinstance(element, p.Subscript)
        subscripts = subscripts_of(element)
        steps = []
        for axis in ranges:
            iname = p.Variable(f"{local}_{axis}")
            changes = [subtract(substitute(e, {iname.name: iname + 1}), e) for e in subscripts]
            if not any(changes) or not all(isinstance(x, int) for x in changes):
                raise PreconditionError(f"The region '{name}' of the C instruction '{given.id}' has no single stride, "
                                        f"because '{iname.name}' was split or the array's layout changed.",
                                        subject=given.id, hint="leave the inames of its regions as they are")
            steps.append(tuple(x for x in changes if isinstance(x, int)))
        for iname_or_name, value in reversed(found.path):
            element = substitute(element, {iname_or_name: value})
        array = next((a for a in self.of.arrays if a.name == array_of(element)), None)
        if array is not None and (array.thread_axes or array.swizzle):
            raise PreconditionError(f"The C instruction '{given.id}' has no pointer to '{array.name}', whose elements are "
                                    "permuted or in registers.", subject=given.id)
        return UserOperand(name, local, element, is_written, tuple(steps), None if array is None else array.shape)
