"""Shapes of arrays: the declared shapes, or the smallest that contain all accesses."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, reduce

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array, assumptions_on, with_accesses_of
from loopkit.analysis.constructors import specialized
from loopkit.analysis.ranges import known_sizes
from loopkit.errors import ShapeError
from loopkit.expr.mappers import subexpressions, variables
from loopkit.kernel.data import Argument, GlobalArg, ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.affine import affine_difference, if_affine
from loopkit.poly.elements import axis_extent, extended_within, missed, outside, reached_within, subscript_range
from loopkit.poly.limits import IMPORTANT, affordable, kept_in_memo
from loopkit.poly.piecewise import known_value
from loopkit.poly.sets import InstanceSet, Set, range_condition

Shape = tuple[Expression | None, ...]

#: The greatest constant extent, in elements, that a temporary's axis gets in the place of one that depends on sizes:
#: the number of float32 that shared memory holds.
MOST_CONSTANT = 12288


@kept_in_memo
def array_shapes(knl: LoopKernel) -> Mapping[str, Shape]:
    """The shape of every array argument and temporary: declared, or the smallest that holds all accesses.

    The inferred extent of an argument is exact. That of a temporary is a constant if its bounds give one that is not
    too large, so that it fits into registers or shared memory: ``0<=j<32 and 32*b + j < n`` gives ``s[j]`` 32
    elements. A declared extent of a temporary is a number if the assumptions fix its sizes. An unknown extent is
    ``None``: a subscript of that axis is read from memory or unbounded. An array without a declared shape and without
    accesses has no entry.

    :raises ShapeError: an array is subscripted with different numbers of subscripts.
    """
    by_array = accesses_by_array(knl)
    shapes: dict[str, Shape] = {}
    for name, declared in ((name, datum.shape) for name, datum in knl.data.items()):
        accesses = by_array.get(name, ())
        ranks = {len(a.subscripts) for a in accesses} | ({len(declared)} if declared is not None else set())
        if len(ranks) > 1:
            raise ShapeError(f"'{name}' is used with {' and with '.join(map(str, sorted(ranks)))} subscripts.",
                             subject=name, hint="use an array with the same number of subscripts everywhere")
        if declared is not None:
            shapes[name] = declared if name not in knl.temporaries else tuple(_known_extent(knl, e) for e in declared)
        elif accesses:
            known = knl.array_args[name].inferred if name in knl.array_args else None
            shapes[name] = known if known is not None else _inferred(knl, accesses, name in knl.temporaries)
    for name, other in output_shape_like(knl).items():
        if other in shapes:
            shapes[name] = shapes[other]
    return shapes


def _known_extent(knl: LoopKernel, extent: Expression | None) -> Expression | None:
    """*extent*, or its number if the assumptions fix the sizes in it."""
    if extent is None or isinstance(extent, int) or known_sizes(knl).plain_is_universe():
        return extent
    number = known_value(extent, known_sizes(knl))
    return extent if number is None else number


def with_shapes_of_affine_accesses(knl: LoopKernel) -> LoopKernel:
    """*knl* with the extents that the affine accesses of an array or a temporary need, where other subscripts of it
    come from memory.
    """
    accesses = {name: [a for a in found if a.affine] for name, found in accesses_by_array(knl).items()}
    found = {name: _inferred(knl, accesses[name], name in knl.temporaries) for name, shape in array_shapes(knl).items()
             if None in shape and knl.data[name].shape is None and accesses.get(name)}
    if not found:
        return knl
    known = {name: tuple(e for e in shape if e is not None) for name, shape in found.items() if None not in shape}
    return with_accesses_of(knl, specialized(
        knl, arguments=tuple(replace(a, inferred=found[a.name]) if isinstance(a, GlobalArg) and a.name in found else a
                             for a in knl.arguments),
        temporaries={name: replace(t, shape=known.get(name, t.shape)) for name, t in knl.temporaries.items()}))


def _inferred(knl: LoopKernel, accesses: Sequence[Access], temporary: bool) -> Shape:
    rank = len(accesses[0].subscripts)
    if not all(a.affine for a in accesses):
        return (None,)*rank
    extents: list[Expression | None] = []
    for axis in range(rank):
        uses = tuple(dict.fromkeys((a.domain, a.subscripts[axis]) for a in accesses))
        extent = _extent(knl, uses)
        if temporary and extent is not None and not isinstance(extent, int):
            last = subscript_range(uses)[1]
            extent = last + 1 if last is not None and last < MOST_CONSTANT else extent
        extents.append(extent)
    return tuple(extents)


# many arrays are subscripted alike
@kept_in_memo
def _extent(knl: LoopKernel, uses: tuple[tuple[InstanceSet, Expression], ...]) -> Expression | None:
    return axis_extent(uses, assumptions_on(knl, {x for domain, e in uses for x in (*domain.params, *variables(e))}))


def output_shape_like(knl: LoopKernel) -> Mapping[str, str]:
    """The input whose shape each output is allocated with, for outputs that have one."""
    return {a.name: a.shape_like for a in knl.array_args.values() if a.shape_like is not None}


@kept_in_memo
def fully_written_outputs(knl: LoopKernel) -> frozenset[str]:
    """The array arguments of which the kernel writes every element, for all sizes and data.

    An array is left out if isl's budget ends before the question is decided. Such an output is initialized with zeros.
    """
    return frozenset(name for name in knl.array_args if name in knl.written_names and _is_fully_written(knl, name))


def _is_fully_written(knl: LoopKernel, name: str) -> bool:
    writes = [a.relation for a in accesses_by_array(knl)[name] if a.is_write and a.exact]
    shape = array_shapes(knl)[name]
    return bool(writes and if_affine(lambda: affordable(
        lambda: missed(writes, shape, knl.assumptions) is None, otherwise=False, budget=IMPORTANT)))


def reached_elements(knl: LoopKernel, accesses: Sequence[Access]) -> Set:
    """The elements that *accesses* to one array access within its shape.

    Accesses of a transformed kernel may have a form from which the shape cannot be inferred.
    """
    name = accesses[0].array
    shape = array_shapes(knl)[name] if knl.data[name].shape is None else (None,)
    return reached_within([a.relation for a in accesses], shape, knl.assumptions)


def existing_elements(knl: LoopKernel, accesses: Sequence[Access], axes: Collection[int]) -> Set:
    """The elements of an array that *accesses* reach, and others that its declared shape has, along *axes*."""
    reached, shape = reached_elements(knl, accesses), knl.data[accesses[0].array].shape
    if shape is None or not axes:
        return reached
    found = if_affine(lambda: affordable(lambda: extended_within(reached, axes, shape, knl.assumptions),
                                         otherwise=reached))
    return reached if found is None else found


def with_shapes_like_inputs(knl: LoopKernel) -> LoopKernel:
    """*knl* with each output that leaves a margin bound to an input accessed by the same inames, axis by axis."""
    by_array = accesses_by_array(knl)
    # the inames in each subscript
    patterns = {name: {tuple(variables(s) & set(a.domain.inames) for s in a.subscripts)
                       for a in by_array.get(name, ()) if a.affine} for name in knl.array_args}

    def like(arg: GlobalArg) -> str | None:
        if arg.name not in knl.written_names or arg.shape is not None or len(patterns[arg.name]) != 1:
            return None
        if any(not a.is_write for a in by_array[arg.name]):
            return None
        # an access that starts above 0 does not use the first elements along its axis
        margin = any((subscript_range([(a.domain, s)])[0] or 0) > 0
                     for a in by_array[arg.name] if a.affine for s in a.subscripts)
        return next((other for other in sorted(knl.array_args)
                     if other not in knl.written_names and knl.array_args[other].shape is None
                     and patterns[other] == patterns[arg.name]
                     and (elements(other) == elements(arg.name) or (margin and are_apart(other, arg.name)))
                     and holds(other, by_array[arg.name])), None)

    @cache
    def elements(name: str) -> set[object]:
        return {a.subscripts for a in by_array.get(name, ())}

    def are_apart(other: str, name: str) -> bool:
        """Are the elements of both a constant apart, as those of a stencil?"""
        return any(all(affine_difference(x, y) is not None for x, y in zip(a.subscripts, b.subscripts, strict=True))
                   for a in by_array[other] if a.affine for b in by_array[name][:1])

    @cache
    def inside(name: str) -> set[object]:
        return {(a.domain, a.subscripts) for a in by_array[name]}

    def holds(other: str, accesses: Sequence[Access]) -> bool:
        shape = array_shapes(knl)[other]
        return all(a.affine and ((a.domain, a.subscripts) in inside(other)
                                 or outside(a.relation, shape, knl.assumptions) is None) for a in accesses)
    return with_accesses_of(knl, specialized(knl, arguments=tuple(
        replace(a, shape_like=like(a)) if isinstance(a, GlobalArg) else a for a in knl.arguments)))


def with_sizes_nonnegative(knl: LoopKernel) -> LoopKernel:
    """*knl* with the assumption that a size is not negative if it is an array's extent or has an unsigned dtype."""
    shapes = array_shapes(knl)
    extents = {e.name for shape in shapes.values() for e in shape if isinstance(e, p.Variable)}
    unsigned = {a.name for a in knl.arguments if isinstance(a, ValueArg) and a.dtype is not None
                and np.dtype(a.dtype).kind == "u"}
    if unsigned:
        subscripts = (i for found in accesses_by_array(knl).values() for a in found for i in a.subscripts)
        extents |= unsigned & frozenset().union(*(s.domain.params for s in knl.statements), *map(variables, subscripts))
    sizes = [range_condition(name, 0) for name in sorted(extents & knl.value_params)]
    assumptions = reduce(Set.intersect, sizes, knl.assumptions)
    if knl.assumptions.is_subset(assumptions):
        return with_accesses_of(knl, specialized(knl, assumptions=assumptions))
    # no fact makes these extents simpler
    known = {name: shape for name, shape in shapes.items() if None not in shape and all(map(_is_linear, shape))}
    return specialized(knl, assumptions=assumptions, arguments=tuple(
        replace(a, inferred=known.get(a.name)) if isinstance(a, GlobalArg) and a.shape is None else a
        for a in knl.arguments))


def with_inferred_shapes(knl: LoopKernel) -> LoopKernel:
    """*knl* with the inferred shapes of its array arguments stored: later steps may give accesses a form that hides
    them.
    """
    shapes = array_shapes(knl)
    return with_accesses_of(knl, specialized(knl, arguments=tuple(
        replace(a, inferred=shapes.get(a.name)) if isinstance(a, GlobalArg) and a.shape is None else a
        for a in knl.arguments)))


def without_inferred_shapes(arguments: Iterable[Argument], *, but_linear: bool = False) -> tuple[Argument, ...]:
    """*arguments* without inferred shapes, to infer them again with more facts about sizes.

    :arg but_linear: keep extents without cases and quotients, as no fact makes them simpler.
    """
    return tuple(replace(a, inferred=None) if isinstance(a, GlobalArg) and a.inferred is not None
                 and not (but_linear and all(map(_is_linear, a.inferred))) else a for a in arguments)


def _is_linear(extent: Expression | None) -> bool:
    return extent is None or not any(isinstance(e, p.Min | p.Max | p.If | p.FloorDiv | p.Remainder)
                                     for e in subexpressions(extent))
