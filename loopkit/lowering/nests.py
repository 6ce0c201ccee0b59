"""The stage ``nests``: gives regions the instructions that execute nests of loops, with their operands.

The kernel's own mapping assigns iterations to lanes. It must be that of the instruction. A nest that some threads do
not execute, as in a partial tile, stays a nest of loops if its values do not come from registers of other lanes.
"""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_by_array
from loopkit.analysis.constructors import with_dependences
from loopkit.analysis.dependences import dependences
from loopkit.ast.check import divergent_in, divergent_nodes
from loopkit.ast.nodes import (
    Assign,
    Block,
    Completion,
    Define,
    For,
    Function,
    If,
    Instruction,
    Node,
    Region,
    Scope,
    Sync,
)
from loopkit.ast.tensor_maps import UNIT
from loopkit.ast.walk import as_block, child_nodes, map_child_nodes, mentioned, nodes_in, rewritten, simplified
from loopkit.errors import NameConflictError, PreconditionError, StorageError
from loopkit.expr.mappers import array_of, elements_of, substitute, variables
from loopkit.expr.nodes import to_text
from loopkit.instructions.nests import (
    Issue,
    NestInstruction,
    NoMatchError,
    element_at,
    nest_in,
    statement_of,
)
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import AutoLocalTag, LocalTag
from loopkit.kernel.tree import Leaf, Tree, rewrite
from loopkit.lowering.lowered import GRID, Launch
from loopkit.lowering.nest_data import nest_instruction, nest_of
from loopkit.lowering.stored import Storage
from loopkit.poly.piecewise import known_remainder

Names = Mapping[str, Expression]

_NO_PART = NoMatchError("a thread may have no part in it", "pad_domain lets all threads have one")


def with_collective_leaves(knl: LoopKernel, warp: int) -> LoopKernel:
    """*knl* with the instructions of nests at the statements in the tree.

    Without warps (*warp* is 1), each thread runs the loops, and storage allocation chooses the memory of fragments.
    """
    found = {s.id: i for s in knl.statements if (i := nest_instruction(s)) is not None}
    if not found:
        return knl
    if warp == 1:
        return with_dependences(
            knl, lambda dependences, _: dependences,
            statements=tuple(replace(s, instructions=tuple(i for i in s.instructions if i is not found.get(s.id)))
                             for s in knl.statements),
            temporaries={name: replace(t, address_space=None) if t.address_space is AddressSpace.WARP else t
                         for name, t in knl.temporaries.items()})

    def placed(tree: Tree) -> Tree:
        own = found.get(tree.statement) if isinstance(tree, Leaf) else None
        return tree if own is None or not isinstance(tree, Leaf) else Leaf(tree.statement, own)
    return with_dependences(knl, lambda dependences, _: dependences, tree=rewrite(knl.tree, placed))


def with_fragments_of_instructions(knl: LoopKernel, warp: int) -> LoopKernel:
    """*knl*, whose elements in the registers of other lanes are read by instructions.

    :raises StorageError: another statement reads them.
    """
    for name in (x for x, t in knl.temporaries.items() if t.address_space is AddressSpace.WARP and warp > 1):
        accesses = accesses_by_array(knl).get(name, ())
        readers = [] if any(knl.statement_by_id[a.statement].loads_for_others for a in accesses if not a.is_write) \
            else [a.statement for a in accesses if not a.is_write]          # others may read those of their own lanes
        written = {x: a.statement for a in accesses if a.is_write for e in a.subscripts for x in variables(e)}
        if auto := [x for x in written if isinstance(knl.tags.get(x), AutoLocalTag)]:
            raise StorageError(
                f"'{name}' is in the registers of warps, and the tag l.auto of '{auto[0]}' distributes it over all "
                "threads; default_tag=None leaves the loops of a copy to tensorize.", subject=name,
                hint=f"untag_inames(knl, '{auto[0]}')")
        if readers and any(isinstance(knl.tags.get(x), LocalTag) for x in written):
            raise StorageError(
                f"'{name}' is in the registers of warps, and '{readers[0]}' reads it without an instruction of a warp.",
                subject=name, hint=f"set_temporary_address_space(knl, '{name}', 'shared'), or tensorize '{readers[0]}' "
                                   "before loops of the copy get tags")
    return knl


def with_nest_instructions(body: Block, launch: Launch, storages: Mapping[str, Storage]) -> Block:
    """*body*, the program of *launch*, where regions with a nest have its instruction with the operands.

    :raises PreconditionError: a nest nowhere matches its instruction; the message has the reason. Or a thread accesses
        an element in warp registers of another one.
    """
    knl = launch.kernel
    meant = {s: i for s, bound in launch.statements.items() if (i := nest_instruction(bound.statement)) is not None}
    if launch.machine.warp == 1:
        return body
    if not meant:
        _require_own_elements(body, launch, storages)
        return body
    finder = _Finder(launch, storages)
    body = as_block(finder.node(body, {}))
    uniform = knl.value_params.union(launch.hosts, GRID, launch.mapping.block_inames)
    private = {x for x, storage in storages.items() if storage.space is AddressSpace.PRIVATE}
    divergent = divergent_in(body, mentioned(body).difference(uniform, knl.data), private)
    guarded = [node for node, _ in divergent_nodes(body, divergent)]

    def checked(node: Node) -> Node:
        """*node*; plain loops if some lanes do not execute its instruction."""
        if not isinstance(node, Region) or not isinstance(node.instruction, Issue) \
                or not any(node is other for other in guarded):
            return node
        finder.reasons.setdefault(statement_of(node), _NO_PART)
        return finder.as_loops(node)
    body = rewritten(rewritten(body, checked), lambda node: node if not isinstance(node, Block) else map_child_nodes(
        node, lambda child: _settled(child) if isinstance(child, _Apart) else child))
    if any(_is_of_one_thread(node) for node in nodes_in(body)):
        body = simplified(_between_meetings(as_block(body)))
    done = {statement_of(node) for node in nodes_in(body)
            if isinstance(node, Region) and isinstance(node.instruction, Issue)}
    for s in sorted(meant.keys() - done):
        raise finder.refusal(s, meant[s])
    _require_own_elements(body, launch, storages)
    return body


def with_tensor_maps(function: Function, launch: Launch, storages: Mapping[str, Storage]) -> Function:
    """*function* with the tensor maps of its instructions.

    :raises NameConflictError: a name of the kernel is that of a tensor map.
    :raises PreconditionError: TMA may not see the elements that the kernel wrote, or rows of a temporary may begin
        where TMA cannot read them.
    """
    found = [(made, statement_of(node)) for node in nodes_in(function.body)
             if isinstance(node, Region) and isinstance(node.instruction, Issue)
             for made in node.instruction.made_maps]
    for made, statement in found:
        _require_no_other(launch, made.array, statement)
        if made.array in storages:
            _require_whole_units(storages[made.array], statement, launch.kernel)
        if made.name in launch.kernel.all_names:
            raise NameConflictError(f"'{made.name}' is the name of the tensor map of '{made.array}'.",
                                    subject=made.name, hint="give it another name")
    maps = dict.fromkeys(made for made, _ in found)
    return replace(function, tensor_maps=tuple(maps)) if maps else function


def _require_no_other(launch: Launch, array: str, statement: str) -> None:
    """:raises PreconditionError: a statement of *launch* writes *array*, which *statement* copies by TMA, or accesses
        what *statement* stores.
    """
    knl = launch.kernel
    writers = [s for s, bound in launch.statements.items() if s != statement and bound.statement.written == array]
    later = [d.sink for d in dependences(knl) if (d.array, d.source) == (array, statement)
             and d.sink in launch.statements]
    for others, does in ((writers, "writes it"), (later, "accesses it later")):
        if others:
            raise PreconditionError(
                f"TMA copies '{array}' in '{statement}', and '{others[0]}' {does} in the same launch.", subject=array,
                hint="let another launch do that (add_barrier between the statements ends a launch), or copy without "
                     "TMA: TMA and the threads of a launch need not see what the other one writes")


def _require_whole_units(storage: Storage, statement: str, knl: LoopKernel) -> None:
    """:raises PreconditionError: a stride of the temporary in *storage* may be no multiple of TMA's unit."""
    inner, size = 1, storage.dtype.itemsize
    for extent in storage.in_memory[:0:-1]:
        inner *= next((n for n in (16, 8, 4, 2) if known_remainder(extent, n, knl.assumptions) == 0), 1)
        if inner*size % UNIT:
            raise PreconditionError(
                f"TMA copies '{storage.name}' in '{statement}', and its rows of {to_text(extent)} elements are not "
                f"always a multiple of {UNIT} bytes.", subject=storage.name,
                hint=f"declare the shape of '{storage.name}', with a last extent that is a multiple of "
                     f"{UNIT // size}")


@dataclass(frozen=True)
class _Apart(Block):
    """A region that was taken apart: its conditions and constants, around a region for each nest."""


def _settled(node: Node) -> Node:
    """*node* of a region apart, where all that no instruction executes is in one region again.

    The C target runs the threads inside of regions, and only there conditions may depend on them.
    """
    if isinstance(node, Define) or (isinstance(node, Region) and node.instruction is not None):
        return node
    if any(isinstance(inner, Region) and inner.instruction is not None for inner in nodes_in(as_block(node))):
        if not isinstance(node, Block):
            return map_child_nodes(node, _settled)
        children = tuple(map(_settled, node.children))
        return children[0] if len(children) == 1 else Block(children)
    return Region(as_block(rewritten(Block((node,)), lambda x: x.body if isinstance(x, Region) else x)))


def _is_of_one_thread(node: Node) -> bool:
    return isinstance(node, Region) and node.instruction is not None and node.instruction.scope is Scope.THREAD


def _meets(node: Node) -> bool:
    """Do threads wait for each other, or execute an instruction together, in *node*?"""
    return any(isinstance(x, Sync) or (isinstance(x, Region | For) and x.instruction is not None
                                       and x.instruction.scope is not Scope.THREAD) for x in nodes_in(node))


def _between_meetings(block: Block) -> Block:
    """*block* with one region for all nodes from one place where threads meet to the next, if one thread alone executes
    an instruction there.

    One condition on threads then serves for several instructions, and for the loops around them.
    """
    children: list[Node] = []
    for apart, run in groupby(block.children, lambda node: isinstance(node, Define) or _meets(node)):
        nodes = Block(tuple(run))
        if apart:
            children += (map_child_nodes(x, lambda part: _between_meetings(as_block(part))) for x in nodes.children)
        elif any(map(_is_of_one_thread, nodes_in(nodes))):
            children.append(Region(as_block(rewritten(
                nodes, lambda x: x.body if isinstance(x, Region) and x.instruction is None else x))))
        else:
            children += nodes.children
    return Block(tuple(children))


def _require_own_elements(body: Block, launch: Launch, storages: Mapping[str, Storage]) -> None:
    """:raises PreconditionError: a thread accesses an element in warp registers that it may not hold."""
    lanes = {x: len(s.lanes) for x, s in storages.items() if s.lanes}
    found: dict[str, tuple[Expression, ...]] = {}
    for statement, element in _own_accesses(body, launch.mapping.coordinates, lanes) if lanes else ():
        name = array_of(element)
        index = element.index_tuple[-lanes[name]:]
        if found.setdefault(name, index) != index:
            raise PreconditionError(
                f"'{statement}' accesses elements of '{name}', in warp registers, that other lanes may hold.",
                subject=statement, hint="leave the inames of lanes as tensorize sets them, and let other statements "
                                        f"read '{name}' by the same lanes; or declare it shared")


def _own_accesses(node: Node, names: Names, arrays: Collection[str], foreign: Collection[Expression] = ()
                  ) -> Iterator[tuple[str, p.Subscript]]:
    """The elements of *arrays* but the *foreign* ones that *node* accesses, in terms of the axes, and the statements.

    A region with an instruction has those that a thread accesses itself.
    """
    def of(statement: str, *given: Expression) -> Iterator[tuple[str, p.Subscript]]:
        return ((statement, element_at(e, names)) for part in given for e in elements_of(part, arrays)
                if e not in foreign)
    match node:
        case Region(instruction=Issue() as issue):
            yield from of(statement_of(node), *issue.operands)
            return
        case Assign():
            yield from of(node.statement, node.target, node.value)
        case For():
            names = {x: value for x, value in names.items() if x != node.iname}
        case Region(instruction=Instruction() as instruction):
            foreign = {*instruction.foreign_elements(node, arrays)}
        case _:
            pass
    for child in child_nodes(node):
        if isinstance(child, Define):
            names = {**names, child.name: substitute(child.value, names)}
        yield from _own_accesses(child, names, arrays, foreign)


@dataclass(frozen=True)
class _Finder:
    """Finds the operands of the instructions of one launch.

    :ivar reasons: why instructions cannot execute the nests of statements.
    """

    launch: Launch
    storages: Mapping[str, Storage]
    reasons: dict[str, NoMatchError] = field(default_factory=dict)

    @property
    def kernel(self) -> LoopKernel:
        return self.launch.kernel

    def refusal(self, statement: str, instruction: NestInstruction) -> PreconditionError:
        reason = self.reasons.get(statement, _NO_PART)
        return PreconditionError(f"'{instruction.name}' cannot execute '{statement}': {reason}.", subject=statement,
                                 hint=reason.hint)

    def node(self, node: Node, names: Names) -> Node:
        """*node* with operands of its instructions, also where some threads do not execute them; *names*: constants."""
        match node:
            case Region(instruction=NestInstruction() as instruction):
                return _Apart((self._apart(node.body, instruction, names),))
            case For():
                names = {x: value for x, value in names.items() if x != node.iname}
            case Block():
                result: list[Node] = []
                for child in node.children:
                    if isinstance(child, Define):
                        names = {**names, child.name: substitute(child.value, names)}
                    result.append(self.node(child, names))
                return Block(tuple(result))
            case _:
                pass
        return map_child_nodes(node, lambda child: self.node(child, names))

    def _apart(self, node: Node, instruction: NestInstruction, names: Names) -> Node:
        """The regions of the nests in *node*: conditions and constants around them go outside."""
        match node:
            case Block(children=(child,)):
                return self._apart(child, instruction, names)
            case Block(children=(Define() as constant, *others)):
                inside = {**names, constant.name: substitute(constant.value, names)}
                return Block((constant, self._apart(Block(tuple(others)), instruction, inside)))
            case If():
                then, otherwise = (None if branch is None else as_block(self._apart(branch, instruction, names))
                                   for branch in (node.then, node.otherwise))
                assert then is not None
                return replace(node, then=then, otherwise=otherwise)
            case _:
                return self._region(Region(as_block(node)), instruction, names)

    def _region(self, region: Region, instruction: NestInstruction, names: Names) -> Region:
        *_, assign = nest_in(region)
        if assign is None:
            statement = next(n.statement for n in nodes_in(region.body) if hasattr(n, "statement"))
            self.reasons.setdefault(statement, NoMatchError("a condition in its loops excludes some iterations",
                                                            "pad_domain lets loops run over whole boxes"))
            return self.as_loops(region, statement)
        try:
            return replace(region, instruction=instruction.issue(nest_of(self.launch, self.storages, region, names)))
        except NoMatchError as reason:
            self.reasons.setdefault(assign.statement, reason)
            return self.as_loops(region)

    def as_loops(self, region: Region, statement: str | None = None) -> Region:
        """*region* without its instruction; :raises PreconditionError: loops cannot replace the instruction."""
        *_, assign = nest_in(region)
        statement = statement or (assign.statement if assign is not None else "")
        fragments = {x for x, storage in self.storages.items() if storage.space is AddressSpace.WARP}
        s = self.kernel.statement_by_id[statement]
        instruction = nest_instruction(s)
        assert instruction is not None
        # threads wait for the phase of the instruction, which plain loops would not end
        if instruction.completion in (Completion.PHASE, Completion.STORES) or any(
                True for _ in elements_of(s.expression, fragments)):
            raise self.refusal(statement, instruction)
        return replace(region, instruction=None)
