"""Statements in ``for`` blocks whose ``{inames=}`` leaves out inames of the blocks: loopy runs them after these loops.

Their sums over such inames share the loops of the blocks. So a sum becomes an accumulator with statements of its own.
So does a sum in any statement if another statement in its loop gives the bounds of its inner loop::

    for k
        <> n_k = count[k]
    end
    y = sum([k, j], x[j])           # 0 <= j < n_k
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import Any

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.mappers import conjunction, map_children
from loopkit.expr.nodes import Reduction
from loopkit.expr.tokens import Token
from loopkit.language.names import fresh
from loopkit.language.program import (
    ForBlock,
    FunctionCall,
    IfBlock,
    InstructionOptions,
    ParsedAssignment,
    ProgramNode,
)

_NONE: frozenset[str] = frozenset()

#: The operations with an accumulator in the loops of a block: their functions, and the first values.
_ACCUMULATED: Mapping[str, tuple[Any, int]] = {"sum": (p.Sum, 0), "product": (p.Product, 1)}


def with_loops_of_copies(nodes: Iterable[ProgramNode]) -> tuple[ProgramNode, ...]:
    """*nodes*, in which a statement with ``dup=i`` is in no block over ``i``: it has the loop of its copy instead."""
    return tuple(node for node, _ in _apart(nodes))


def _apart(nodes: Iterable[ProgramNode]) -> Iterator[tuple[ProgramNode, frozenset[str]]]:
    """The *nodes*, each with the inames that no block around it may have."""
    for node in nodes:
        match node:
            case ForBlock():
                for copied, group in groupby(_apart(node.body), key=itemgetter(1)):
                    body = tuple(inner for inner, _ in group)
                    left = tuple(token for token in node.inames if token.text not in copied)
                    yield from ((part, copied) for part in ([replace(node, inames=left, body=body)] if left else body))
            case ParsedAssignment():
                yield node, frozenset(token.text for token, _ in node.options.inames.private)
            case _:
                yield node, _NONE


@dataclass
class Outside:
    """Takes statements out of blocks.

    :ivar generated: the ids of statements that the layer adds, which have the inames of their blocks.
    :ivar names: all names of the text, and *ids* those of its statements; new ones are added.
    :ivar moved: gets the statements, with the conditions of their blocks.
    :ivar left: the inames of the blocks around each of them, by its place.
    """

    generated: frozenset[str]
    names: set[str]
    ids: set[str]
    moved: list[ParsedAssignment | FunctionCall] = field(default_factory=list)
    left: dict[int, frozenset[str]] = field(default_factory=dict)

    def inside(self, nodes: Iterable[ProgramNode], around: frozenset[str] = _NONE,
               conditions: tuple[Expression, ...] = ()) -> tuple[ProgramNode, ...]:
        """The rest of *nodes*, which have blocks over the inames *around*, and *conditions*."""
        return tuple(node for given in nodes for node in self._node(given, around, conditions))

    def _node(self, node: ProgramNode, around: frozenset[str], conditions: tuple[Expression, ...]
              ) -> Iterator[ProgramNode]:
        match node:
            case ForBlock():
                yield replace(node, body=self.inside(node.body, around.union(t.text for t in node.inames), conditions))
            case IfBlock():
                yield replace(node, then=self.inside(node.then, around, (*conditions, node.condition)),
                              otherwise=self.inside(node.otherwise, around,
                                                    (*conditions, p.LogicalNot(node.condition))))
            case ParsedAssignment() | FunctionCall() if self._leaves(node.options, around):
                given = node.options.condition
                every = conditions if given is None else (*conditions, given)
                options = replace(node.options, condition=conjunction(every) if every else None)
                self.moved.append(replace(node, options=options))
                self.left[node.start] = around
            case _:
                yield node

    def _leaves(self, options: InstructionOptions, around: frozenset[str]) -> bool:
        own = frozenset(token.text for token in options.inames.listed)
        return options.inames.alone and not around <= own and (
            options.id is None or options.id.text not in self.generated)

    def parts(self, node: ParsedAssignment | FunctionCall, own: str, is_shared: Callable[[Reduction], bool]
              ) -> Iterator[tuple[str, ParsedAssignment | FunctionCall, frozenset[str]]]:
        """The statements of *node*, called *own*: their ids, and the inames that they have besides those of *node*.

        :arg is_shared: whether a reduction of any statement shares its loop with another statement.
        """
        left = self.left.get(node.start, _NONE)
        if not isinstance(node, ParsedAssignment):
            yield own, node, _NONE
            return
        sums = list[tuple[str, Reduction]]()

        def accumulated(e: Expression) -> Expression:
            if isinstance(e, Reduction) and e.operation in _ACCUMULATED and (
                    left.issuperset(e.inames) or is_shared(e)):
                sums.append((fresh(f"acc_{'_'.join(e.inames)}", self.names), e))
                return p.Variable(sums[-1][0])
            return map_children(e, accumulated)
        value = accumulated(node.expression)
        after = [*node.options.dep]
        for name, e in sums:
            variable, (combined, first) = p.Variable(name), _ACCUMULATED[e.operation]
            init, update = (fresh(f"{own}_{'_'.join(e.inames)}_{part}", self.ids) for part in ("init", "update"))
            plain = replace(node, assignee=variable, written=name, beside=())
            yield init, replace(plain, expression=first, temporary=""), _NONE
            options = replace(node.options, dep=(*node.options.dep, Token("name", init, node.start)))
            yield update, replace(plain, expression=combined((variable, e.expr)), temporary=None,
                                  options=options), frozenset(e.inames)
            after.append(Token("name", update, node.start))
        yield own, replace(node, expression=value, options=replace(node.options, dep=tuple(after))), _NONE
