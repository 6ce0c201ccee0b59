"""Expansion and contraction of temporaries: adds an axis for each iname, or removes axes."""
from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.constructors import rewritten
from loopkit.analysis.legality import iname_extent, iname_range
from loopkit.expr.mappers import element, map_children
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import with_expressions
from loopkit.poly.affine import subtract

#: Subscripts or extents, one for each axis.
_Axes = tuple[Expression, ...]


def with_axes(kernel: LoopKernel, names: Collection[str], inames: tuple[str, ...], *, trailing: bool = False
              ) -> LoopKernel:
    """*kernel* with an axis over each of *inames* for the temporaries *names*, before their axes or, *trailing*, after
    them.

    The dependences stay the same: the caller has checked that values stay within an iteration of *inames*. All
    statements that use the temporaries must have the inames.
    """
    places = tuple(subtract(p.Variable(x), iname_range(kernel, x)[0]) for x in inames)

    def joined(new: _Axes, own: _Axes) -> _Axes:
        return (*own, *new) if trailing else (*new, *own)
    return with_other_axes(kernel, names, lambda _, own: joined(places, own),
                           lambda _, own: joined(tuple(iname_extent(kernel, x) for x in inames), own))


def without_axes(kernel: LoopKernel, axes: Mapping[str, Collection[int]]) -> LoopKernel:
    """*kernel* without the *axes* of each temporary. The dependences stay the same, as values do."""
    def rest(name: str, own: _Axes) -> _Axes:
        return tuple(e for k, e in enumerate(own) if k not in axes[name])
    return with_other_axes(kernel, axes.keys(), rest, rest)


def with_other_axes(kernel: LoopKernel, names: Collection[str], subscripts: Callable[[str, _Axes], _Axes],
                    shape: Callable[[str, _Axes], _Axes]) -> LoopKernel:
    """*kernel* with other *subscripts* and *shape* of the temporaries *names*, made from those that they have."""
    def indexed(expr: Expression, hidden: tuple[str, ...] = ()) -> Expression:
        match expr:
            case p.Subscript(aggregate=p.Variable(name=name)) if name in names:
                index = subscripts(name, tuple(indexed(e, hidden) for e in expr.index_tuple))
            case p.Variable(name=name) if name in names and name not in hidden:
                index = subscripts(name, ())
            case _:
                return map_children(expr, lambda e: indexed(e, hidden))
        return element(name, index)
    return rewritten(
        kernel, statements=tuple(with_expressions(s, indexed) for s in kernel.statements),
        substitutions={name: replace(rule, expr=indexed(rule.expr, rule.arguments))
                       for name, rule in kernel.substitutions.items()},
        temporaries={t.name: replace(t, shape=shape(t.name, t.shape)) if t.name in names and t.shape is not None else t
                     for t in kernel.temporaries.values()})
