"""Kernels with facts about their sizes: shapes of arguments, and extents that are not negative."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array
from loopkit.analysis.constructors import specialized
from loopkit.analysis.shapes import array_shapes
from loopkit.expr.mappers import subexpressions, variables
from loopkit.kernel.data import Argument, GlobalArg, ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.elements import leaves_a_margin, outside
from loopkit.poly.sets import range_from


def with_shapes_like_inputs(knl: LoopKernel) -> LoopKernel:
    """*knl* with each output that leaves a margin bound to an input accessed by the same inames, axis by axis."""
    by_array = accesses_by_array(knl)
    # the inames in each subscript
    patterns = {name: {tuple(variables(s) & set(a.domain.inames) for s in a.subscripts)
                       for a in by_array.get(name, ()) if a.affine} for name in knl.array_args}

    def like(arg: GlobalArg) -> str | None:
        if arg.name not in knl.written_names or arg.shape is not None or len(patterns[arg.name]) != 1:
            return None
        margin = any(leaves_a_margin(a.domain, s) for a in by_array[arg.name] if a.affine for s in a.subscripts)
        if any(not a.is_write for a in by_array[arg.name]):
            return None
        return next((other for other in sorted(knl.array_args)
                     if other not in knl.written_names and knl.array_args[other].shape is None
                     and patterns[other] == patterns[arg.name] and (margin or elements(other) == elements(arg.name))
                     and holds(other, by_array[arg.name])), None)

    def elements(name: str) -> set[object]:
        return {a.subscripts for a in by_array.get(name, ())}

    def holds(other: str, accesses: Sequence[Access]) -> bool:
        shape = array_shapes(knl)[other]
        return all(a.affine and outside(a.relation, shape, knl.assumptions) is None for a in accesses)
    return specialized(knl, arguments=tuple(
        replace(a, shape_like=like(a)) if isinstance(a, GlobalArg) else a for a in knl.arguments))


def with_sizes_nonnegative(knl: LoopKernel) -> LoopKernel:
    """*knl* with the assumption that a size is not negative if it is an array's extent or has an unsigned dtype."""
    extents = {e.name for shape in array_shapes(knl).values() for e in shape if isinstance(e, p.Variable)}
    unsigned = {a.name for a in knl.arguments if isinstance(a, ValueArg) and a.dtype is not None
                and np.dtype(a.dtype).kind == "u"}
    if unsigned:
        subscripts = (i for found in accesses_by_array(knl).values() for a in found for i in a.subscripts)
        extents |= unsigned & frozenset().union(*(s.domain.params for s in knl.statements), *map(variables, subscripts))
    assumptions = knl.assumptions
    for name in sorted(extents & knl.value_params):
        assumptions = assumptions.intersect(range_from(name, 0))
    return specialized(knl, assumptions=assumptions)


def with_inferred_shapes(knl: LoopKernel) -> LoopKernel:
    """*knl* with the inferred shapes of its array arguments stored: later steps may give accesses a form that hides
    them.
    """
    shapes = array_shapes(knl)
    return specialized(knl, arguments=tuple(
        replace(a, inferred=shapes.get(a.name)) if isinstance(a, GlobalArg) and a.shape is None else a
        for a in knl.arguments))


def without_inferred_shapes(arguments: Iterable[Argument], *, but_linear: bool = False) -> tuple[Argument, ...]:
    """*arguments* without inferred shapes, to infer them again with more facts about sizes.

    :arg but_linear: keep extents without cases and quotients, as no fact makes them simpler.
    """
    return tuple(replace(a, inferred=None) if isinstance(a, GlobalArg) and a.inferred is not None
                 and not (but_linear and all(map(_is_linear, a.inferred))) else a for a in arguments)


def _is_linear(extent: Expression | None) -> bool:
    return extent is None or not any(isinstance(e, p.Min | p.Max | p.If | p.FloorDiv | p.Remainder)
                                     for e in subexpressions(extent))
