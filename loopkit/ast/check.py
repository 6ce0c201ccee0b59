"""Well-formedness of a loop program: each name has one meaning where it is used, and all threads reach a barrier."""
from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Block, Call, Define, For, Function, If, Instruction, Region, Scope, Sync
from loopkit.ast.walk import as_block, child_nodes, expressions_of, nodes_in
from loopkit.errors import InternalError
from loopkit.expr.mappers import array_of, elements_of, variables


def require_well_formed(function: Function, outside: Collection[str], divergent: Collection[str]) -> None:
    """Check the names and the barriers of *function*.

    :arg outside: names that a caller gives a value: arguments and global temporaries.
    :arg divergent: names that may differ between the threads of a block, and so may all values computed from them.
    :raises InternalError: a name is used without a value, is defined twice in one scope or by itself, or hides the
        variable of a loop around it; a barrier, or an instruction of several threads, is under a condition that may
        differ between threads; a barrier, or a region with an instruction, is in a region; or a thread accesses
        another thread's element of an array in warp registers without an instruction for it.
    """
    arrays = {a.name for a in function.arrays}
    axes = {axis for e in function.coordinates.values() for axis in variables(e)} | set(function.extents)
    _Checker(function.name, {a.name: a.thread_axes for a in function.arrays if a.thread_axes}, {}).block(
        function.body, _NameScope(frozenset({*outside, *arrays, *axes, *function.coordinates}), frozenset(divergent)))


@dataclass(frozen=True)
class _NameScope:
    """The facts that hold at a place of the program.

    :ivar divergent: the names that may differ between threads.
    :ivar uniform: all threads of the block reach it.
    :ivar together: it is the code of an instruction, whose elements are checked with the instruction.
    """

    names: frozenset[str]
    divergent: frozenset[str]
    loops: frozenset[str] = frozenset()
    uniform: bool = True
    in_region: bool = False
    together: bool = False

    def under(self, *expressions: Expression) -> _NameScope:
        """The scope in code that runs, or ends, by the values of *expressions*."""
        return replace(self, uniform=self.uniform and not any(variables(e) & self.divergent for e in expressions))

    def naming(self, name: str, *values: Expression) -> _NameScope:
        """The scope after a definition of *name* by *values*."""
        differs = any(variables(e) & self.divergent for e in values)
        return replace(self, names=self.names | {name},
                       divergent=self.divergent | {name} if differs else self.divergent - {name})


@dataclass(frozen=True)
class _Checker:
    """The state of the check of one function.

    :ivar thread_axes: the arrays in warp registers, and the number of subscripts that name the thread of an element.
    :ivar own: for each array in warp registers, these subscripts in the first access to a thread's own element.
    """

    function: str
    thread_axes: Mapping[str, int]
    own: dict[str, tuple[Expression, ...]]

    def block(self, block: Block, scope: _NameScope, own: set[str] | None = None) -> None:
        """Check a block in a new scope, or in one that already defines *own*."""
        own = set() if own is None else own
        for node in block.children:
            match node:
                case Define(name=name, value=value):
                    if name in own:
                        raise self._fault(f"'{name}' is defined twice in one block")
                    if name in scope.loops:
                        raise self._fault(f"'{name}' hides the variable of a loop around it")
                    if name in variables(value):
                        raise self._fault(f"'{name}' is defined by itself")
                    own.add(name)
                    scope = scope.naming(name, value)
                case Assign():
                    if not scope.together:
                        self._own_elements(node)
                case For(iname=iname):
                    if iname in scope.loops:
                        raise self._fault(f"a loop over '{iname}' stands in another one")
                    inside = scope.under(node.start, node.stop)
                    if node.instruction is not None:
                        self._require_all(node.instruction, inside.uniform)
                    inside = inside.naming(iname, node.start, node.stop)
                    self.block(node.body, replace(inside, loops=scope.loops | {iname}))
                case If():
                    for branch in child_nodes(node):
                        self.block(as_block(branch), scope.under(node.condition))
                case Region(instruction=instruction):
                    # one target prints regions in braces of their own and another does not: right in both
                    together = scope.together if instruction is None else self._executes(instruction, node, scope)
                    self.block(node.body, replace(scope, in_region=True, together=together), own)
                case Sync():
                    if not scope.uniform or scope.in_region:
                        raise self._fault("a barrier stands where not all threads of a block come")
                case Block():
                    self.block(node, scope)
                case Call():
                    raise AssertionError(node)
            for e in expressions_of(node):
                if missing := variables(e) - scope.names:
                    raise self._fault(f"'{min(missing)}' has no value in '{e}'")

    def _executes(self, instruction: Instruction, region: Region, scope: _NameScope) -> bool:
        self._require_all(instruction, scope.uniform and not scope.in_region)
        foreign = set(instruction.foreign_elements(region, self.thread_axes))
        for inner in nodes_in(region.body):
            if isinstance(inner, Assign):
                self._own_elements(inner, foreign)
        for fault in instruction.faults(region, self.thread_axes):
            raise self._fault(fault)
        return True

    def _require_all(self, instruction: Instruction, all_come: bool) -> None:
        if instruction.scope is not Scope.THREAD and not all_come:
            raise self._fault(f"{instruction.noun} stands where not all threads of a block come")

    def _own_elements(self, assign: Assign, foreign: Collection[Expression] = ()) -> None:
        """Check that all elements in warp registers but the *foreign* ones are the thread's own."""
        for e in (e for part in (assign.target, assign.value) for e in elements_of(part, self.thread_axes)):
            name = array_of(e)
            index = e.index_tuple[-self.thread_axes[name]:]
            if e not in foreign and self.own.setdefault(name, index) != index:
                raise self._fault(f"'{e}' is read from another lane without an instruction that does so")

    def _fault(self, what: str) -> InternalError:
        return InternalError(f"In the loop program of '{self.function}' {what}.")
