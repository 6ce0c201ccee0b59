"""Expansion and contraction of temporaries: an axis for each iteration of an iname, and its removal."""
from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.constructors import rewritten
from loopkit.analysis.legality import iname_extent, iname_range
from loopkit.expr.mappers import map_children
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import with_expressions
from loopkit.poly.affine import subtract


def with_axes(kernel: LoopKernel, names: Collection[str], inames: tuple[str, ...], *, behind: bool = False
              ) -> LoopKernel:
    """*kernel* with an axis over each of *inames* for the temporaries *names*, before their axes or *behind* them.

    The dependences stay the same: the caller has checked that values stay within an iteration of *inames*. All
    statements that use the temporaries must have the inames.
    """
    places = tuple(subtract(p.Variable(x), iname_range(kernel, x)[0]) for x in inames)

    def joined(new: tuple[Expression, ...], own: tuple[Expression, ...]) -> tuple[Expression, ...]:
        return (*own, *new) if behind else (*new, *own)

    def indexed(expr: Expression, hidden: tuple[str, ...] = ()) -> Expression:
        match expr:
            case p.Subscript(aggregate=p.Variable(name=name)) if name in names:
                return p.Subscript(expr.aggregate, joined(places, tuple(indexed(e, hidden) for e in expr.index_tuple)))
            case p.Variable(name=name) if name in names and name not in hidden:
                return p.Subscript(expr, places)
            case _:
                return map_children(expr, lambda e: indexed(e, hidden))

    def grown(shape: tuple[Expression, ...] | None) -> tuple[Expression, ...] | None:
        return None if shape is None else joined(tuple(iname_extent(kernel, x) for x in inames), shape)
    return rewritten(
        kernel, statements=tuple(with_expressions(s, indexed) for s in kernel.statements),
        substitutions={name: replace(rule, expr=indexed(rule.expr, rule.arguments))
                       for name, rule in kernel.substitutions.items()},
        temporaries={t.name: replace(t, shape=grown(t.shape)) if t.name in names else t
                     for t in kernel.temporaries.values()})


def without_axes(kernel: LoopKernel, axes: Mapping[str, Collection[int]]) -> LoopKernel:
    """*kernel* without the *axes* of each temporary. The dependences stay the same, as values do."""
    def rest(values: tuple[Expression, ...], gone: Collection[int]) -> tuple[Expression, ...]:
        return tuple(e for k, e in enumerate(values) if k not in gone)

    def contracted(expr: Expression) -> Expression:
        match expr:
            case p.Subscript(aggregate=p.Variable(name=name)) if name in axes:
                kept = tuple(map(contracted, rest(expr.index_tuple, axes[name])))
                return p.Subscript(expr.aggregate, kept) if kept else expr.aggregate
            case _:
                return map_children(expr, contracted)
    return rewritten(
        kernel, statements=tuple(with_expressions(s, contracted) for s in kernel.statements),
        temporaries={t.name: replace(t, shape=rest(t.shape, axes[t.name]))
                     if t.name in axes and t.shape is not None else t for t in kernel.temporaries.values()})
