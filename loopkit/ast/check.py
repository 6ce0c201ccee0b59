"""Well-formedness of a loop program: each name has one meaning where it is used, and all threads reach a barrier."""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import chain

from pymbolic.typing import Expression

from loopkit.ast.nodes import (
    Assign,
    Block,
    ByRole,
    Call,
    Define,
    For,
    Function,
    If,
    Node,
    Region,
    Scope,
    Sync,
    Tiles,
    commuting_of,
    own_instructions,
)
from loopkit.ast.walk import as_block, child_nodes, expressions_of, nodes_in
from loopkit.errors import InternalError
from loopkit.expr.mappers import array_of, elements_of, substitute, variables
from loopkit.poly.affine import add


def require_well_formed(function: Function, outside: Collection[str], divergent: Collection[str]) -> None:
    """Check the names and the barriers of *function*.

    :arg outside: names that a caller gives a value: arguments and global temporaries.
    :arg divergent: names that differ between the threads of a block, and so may all values computed from them.
    :raises InternalError: a name is used without a value, is defined twice in one scope or by itself, or hides the
        variable of a loop around it; a barrier, or an instruction of several threads, is under a condition that may
        differ between threads; a barrier, or a region with an instruction, is in a region; a tensor map describes no
        array from outside; or a thread accesses another thread's element of an array in warp registers without an
        instruction for it.
    """
    checker = _Checker(function, {a.name: a.thread_axes for a in function.arrays if a.thread_axes}, {})
    for node, _ in divergent_nodes(function.body, divergent_names(function, divergent)):
        raise checker.fault(f"{noun_of(node)} is where not all threads of a block come")
    for name, array in _map_uses(function):
        if array is None or array not in outside:
            raise checker.fault(f"the tensor map '{name}' describes no array of the call")
    arrays = {a.name for a in function.arrays}
    axes = {axis for e in function.coordinates.values() for axis in variables(e)} | set(function.extents)
    checker.block(function.body, _NameScope(frozenset({*outside, *arrays, *axes, *function.coordinates})))


def _map_uses(function: Function) -> Iterator[tuple[str, str | None]]:
    """The tensor maps of *function* and those that its instructions use, by name, and the arrays that they describe."""
    arrays = {m.name: m.array for m in function.tensor_maps}
    used = (x for node in nodes_in(function.body) for i in own_instructions(node) for x in i.tensor_maps)
    return ((name, arrays.get(name)) for name in chain(arrays, used))


def divergent_names(function: Function, threads: Collection[str]) -> frozenset[str]:
    """The names *threads*, which differ between the threads of a block, and the private arrays that may."""
    return divergent_in(function.body, threads, {a.name for a in function.arrays if not (a.shared or a.thread_axes)})


def divergent_in(body: Block, threads: Collection[str], private: AbstractSet[str]) -> frozenset[str]:
    """The names *threads*, and those of *private*, arrays of each thread, that may differ between threads in *body*."""
    found, before = frozenset(threads), frozenset[str]()
    while found != before:
        before = found
        found |= frozenset(private).intersection(array_of(node.target) for node, _ in _divergent(body, before)
                                      if isinstance(node, Assign))
    return found


def divergent_nodes(node: Node, divergent: frozenset[str]) -> Iterator[tuple[Sync | Region | For, str]]:
    """The barriers and the warp instructions in *node* that may not be executed equally often by all threads.

    Each comes with the condition or loop around it.

    :arg divergent: names that may differ between threads; names defined by them do so too.
    """
    return ((inner, _in_words(cause)) for inner, cause in _divergent(node, divergent) if not isinstance(inner, Assign))


def _in_words(cause: If | For | Region | None) -> str:
    match cause:
        case If():
            return f"under the condition '{cause.condition}'"
        case For():
            return f"in the loop over '{cause.iname}'"
        case _:
            return "in a part that each thread runs on its own"


def noun_of(node: Sync | Region | For) -> str:
    """The noun for a barrier or an instruction of several threads in messages."""
    if not isinstance(node, Sync) and node.instruction is not None:
        return node.instruction.noun
    return "a warp barrier" if isinstance(node, Sync) and node.scope is Scope.WARP else "a barrier"


def _divergent(node: Node, divergent: frozenset[str], cause: If | For | None = None, alone: Region | None = None
               ) -> Iterator[tuple[Sync | Region | For | Assign, If | For | Region | None]]:
    """:func:`divergent_nodes`, and the assignments whose values may differ between threads, each with the cause.

    :arg cause: the condition or loop around *node* that differs between threads.
    :arg alone: the part without barriers around *node*, which each thread runs on its own.
    """
    match node:
        case Assign():
            if cause or not divergent.isdisjoint(chain.from_iterable(map(variables, expressions_of(node)))):
                yield node, cause
        case Sync():
            if cause or alone:
                yield node, cause or alone
        case ByRole(then=producers, otherwise=Block((If(then=others),)), threads=threads):
            # the producer is one thread, whose registers no other one reads
            yield from ((x, c) for x, c in _divergent(producers, divergent, node, alone)
                        if not (isinstance(x, Assign) or (isinstance(x, Sync) and x.scope is Scope.THREAD)))
            yield from ((x, node) for x in nodes_in(others)
                        if isinstance(x, Sync) and x.scope >= Scope.BLOCK and x.threads != threads)
            yield from _divergent(others, divergent, cause, alone)
        case If():
            inside = cause or (node if variables(node.condition) & divergent else None)
            for branch in (node.then, node.otherwise):
                if branch is not None:
                    yield from _divergent(branch, divergent, inside, alone)
        case For():
            differs = (variables(node.start) | variables(node.stop)) & divergent
            inside = cause or (node if differs else None)
            if inside and node.instruction is not None and node.instruction.scope is not Scope.THREAD:
                yield node, inside
            names = divergent | {node.iname} if differs else divergent - {node.iname}
            yield from _divergent(node.body, names, inside, alone)
        case Region(body):
            if node.instruction is not None and node.instruction.scope is not Scope.THREAD and (cause or alone):
                yield node, cause or alone
            yield from _divergent(body, divergent, cause, node)
        case Tiles(body):
            yield from _divergent(body, divergent, cause, alone)
        case Block(children):
            for child in children:
                if isinstance(child, Define):
                    differs = variables(child.value) & divergent
                    divergent = divergent | {child.name} if differs else divergent - {child.name}
                else:
                    yield from _divergent(child, divergent, cause, alone)
        case Define() | Call():
            pass


def operation_of_load(node: Assign) -> str | None:
    """The operation of the update in one step with which *node* loads an element; ``None``: it may stand alone."""
    found = commuting_of(node.instructions, node.target, node.value, node.combine)
    return None if found is None or found[0] == node.target else found[1]


def is_one_step(nodes: Sequence[Node]) -> bool:
    """Are *nodes* the load of an element and its update, which does not use the place that keeps the old value?"""
    match nodes:
        case [Assign(instructions=(_,)) as load, Assign(instructions=() | (_,)) as update]:
            return load.value == update.target and operation_of_load(load) == update.combine is not None \
                and array_of(load.target) not in variables(update.target) | variables(update.value)
        case _:
            return False


@dataclass(frozen=True)
class _NameScope:
    """The facts that hold at a place of the program.

    :ivar foreign: the elements in warp registers that an instruction reads from other lanes.
    """

    names: frozenset[str]
    loops: frozenset[str] = frozenset()
    foreign: frozenset[Expression] = frozenset()


@dataclass(frozen=True)
class _Checker:
    """The state of the check of one function.

    :ivar thread_axes: the arrays in warp registers, and the number of subscripts that name the thread of an element.
    :ivar own: for each array in warp registers, these subscripts in the first access to a thread's own element.
    """

    function: Function
    thread_axes: Mapping[str, int]
    own: dict[str, tuple[Expression, ...]]

    def block(self, block: Block, scope: _NameScope, own: set[str] | None = None) -> None:
        """Check a block in a new scope, or in one that already defines *own*."""
        own = set() if own is None else own
        for node in block.children:
            match node:
                case Define(name=name, value=value):
                    if name in own:
                        raise self.fault(f"'{name}' is defined twice in one block")
                    if name in scope.loops:
                        raise self.fault(f"'{name}' hides the variable of a loop around it")
                    if name in variables(value):
                        raise self.fault(f"'{name}' is defined by itself")
                    own.add(name)
                    scope = replace(scope, names=scope.names | {name})
                case Assign():
                    self._own_elements(node, scope.foreign)
                case For(iname=iname):
                    if iname in scope.loops:
                        raise self.fault(f"a loop over '{iname}' is in another one")
                    self.block(node.body, replace(scope, names=scope.names | {iname}, loops=scope.loops | {iname}))
                case Region(instruction=instruction):
                    foreign = () if instruction is None else instruction.foreign_elements(node, self.thread_axes)
                    # one target prints regions in braces of their own and another does not: right in both
                    self.block(node.body, replace(scope, foreign=frozenset(foreign)), own)
                case If() | Block() | Tiles():
                    for part in (node,) if isinstance(node, Block) else child_nodes(node):
                        self.block(as_block(part), scope)
                case Sync():
                    pass
                case Call():
                    raise AssertionError(node)
            for e in expressions_of(node):
                if missing := variables(e) - scope.names:
                    raise self.fault(f"'{min(missing)}' has no value in '{e}'")

    def _own_elements(self, assign: Assign, foreign: Collection[Expression]) -> None:
        """Check that all elements in warp registers but the *foreign* ones are the thread's own."""
        for e in (e for part in (assign.target, assign.value) for e in elements_of(part, self.thread_axes)):
            name = array_of(e)
            # the same lanes may have several inames
            index = tuple(add(substitute(i, self.function.coordinates))
                          for i in e.index_tuple[-self.thread_axes[name]:])
            if e not in foreign and self.own.setdefault(name, index) != index:
                raise self.fault(f"'{e}' is read from another lane without an instruction that does so")

    def fault(self, what: str) -> InternalError:
        return InternalError(f"In the loop program of '{self.function.name}' {what}.")
