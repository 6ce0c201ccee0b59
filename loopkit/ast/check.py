"""What must hold of a loop program, whatever target prints it: each name has one meaning where it is used."""
from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Block, Define, For, Function, If, Node, Region, Sync
from loopkit.errors import InternalError
from loopkit.expr.mappers import variables


def require_well_formed(function: Function, outside: Collection[str], divergent: Collection[str]) -> None:
    """Check the names and the barriers of *function*.

    :arg outside: names that a caller gives a value: arguments and global temporaries.
    :arg divergent: names that may differ between the threads of a block, apart from what is computed from them.
    :raises InternalError: a name is used where it has no value, is defined twice in one scope or by itself, hides the
        variable of a loop around it; or a barrier is under a condition that may differ between threads, or in a
        region.
    """
    arrays = {a.name for a in function.arrays}
    axes = {axis for e in function.coordinates.values() for axis in variables(e)} | set(function.extents)
    _Check(function.name, frozenset(divergent)).block(
        function.body, _Scope(frozenset({*outside, *arrays, *axes, *function.coordinates})))


@dataclass(frozen=True)
class _Scope:
    """What holds at a place.

    :ivar names: those that have a value.
    :ivar loops: the variables of the loops around it.
    :ivar uniform: do all threads of the block come here?
    """

    names: frozenset[str]
    loops: frozenset[str] = frozenset()
    uniform: bool = True
    in_region: bool = False


@dataclass(frozen=True)
class _Check:
    function: str
    divergent: frozenset[str]

    def block(self, block: Block, scope: _Scope) -> None:
        """Check what is in braces of its own."""
        self._nodes(block, scope, set())

    def _nodes(self, block: Block, scope: _Scope, own: set[str]) -> None:
        for node in block.children:
            if isinstance(node, Define):
                self._define(node, scope, own)
                scope = _Scope(scope.names | {node.name}, scope.loops, scope.uniform, scope.in_region)
            else:
                self._node(node, scope, own)

    def _define(self, node: Define, scope: _Scope, own: set[str]) -> None:
        if node.name in own:
            raise self._fault(f"'{node.name}' is defined twice in one block")
        if node.name in scope.loops:
            raise self._fault(f"'{node.name}' hides the variable of a loop around it")
        if node.name in variables(node.value):
            raise self._fault(f"'{node.name}' is defined by itself")
        self._use(node.value, scope)
        own.add(node.name)

    def _node(self, node: Node, scope: _Scope, own: set[str]) -> None:
        match node:
            case Assign():
                self._use(node.target, scope)
                self._use(node.value, scope)
            case For():
                self._use(node.start, scope)
                self._use(node.stop, scope)
                if node.iname in scope.loops:
                    raise self._fault(f"a loop over '{node.iname}' stands in another one")
                uniform = scope.uniform and self._uniform(node.start) and self._uniform(node.stop)
                self.block(node.body, _Scope(scope.names | {node.iname}, scope.loops | {node.iname}, uniform,
                                             scope.in_region))
            case If():
                self._use(node.condition, scope)
                inside = _Scope(scope.names, scope.loops, scope.uniform and self._uniform(node.condition),
                                scope.in_region)
                self.block(node.then, inside)
                if node.otherwise is not None:
                    self.block(node.otherwise, inside)
            case Region():
                # one target prints regions in braces of their own and another does not: right in both
                self._nodes(node.body, _Scope(scope.names, scope.loops, scope.uniform, True), own)
            case Sync():
                if not scope.uniform or scope.in_region:
                    raise self._fault("a barrier stands where not all threads of a block come")
            case Block():
                self.block(node, scope)
            case Define():
                raise AssertionError(node)

    def _use(self, expr: Expression, scope: _Scope) -> None:
        missing = variables(expr) - scope.names
        if missing:
            raise self._fault(f"'{min(missing)}' has no value in '{expr}'")

    def _uniform(self, expr: Expression) -> bool:
        return not variables(expr) & self.divergent

    def _fault(self, what: str) -> InternalError:
        return InternalError(f"In the loop program of '{self.function}' {what}.")
