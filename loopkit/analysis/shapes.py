"""Shapes of arrays: as declared, or as the accesses need them."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array
from loopkit.analysis.ranges import known_value
from loopkit.errors import ShapeError
from loopkit.kernel.data import GlobalArg, TemporaryVariable
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.affine import NotAffineError
from loopkit.poly.elements import axis_extent, constant_extent, missed, reached_within
from loopkit.poly.limits import affordable, kept
from loopkit.poly.sets import Set

#: isl's budget, in operations, for deciding whether an output is written everywhere.
COVERING = 500_000

Shape = tuple[Expression | None, ...]

#: The greatest constant extent, in elements, that a temporary's axis gets in the place of one that depends on sizes:
#: the number of float32 that shared memory holds.
MOST_CONSTANT = 12288


def array_shapes(knl: LoopKernel) -> Mapping[str, Shape]:
    """The shape of every array argument and temporary: declared, or the smallest that holds all accesses.

    The inferred extent of an argument is exact. That of a temporary is a constant if its bounds give one that is not
    too large, so that it fits into registers or shared memory: ``0<=j<32 and 32*b + j < n`` gives ``s[j]`` 32
    elements. A declared extent of a temporary is a number if the assumptions fix its sizes. An unknown extent is
    ``None``: a subscript of that axis is read from memory or unbounded. An array without a declared shape and without
    accesses has no entry.

    :raises ShapeError: an array is subscripted with different numbers of subscripts.
    """
    return kept(knl.memo, "array_shapes", lambda: _shapes(knl))


def _shapes(knl: LoopKernel) -> Mapping[str, Shape]:
    by_array = accesses_by_array(knl)
    cache: dict[object, Expression | None] = {}
    shapes: dict[str, Shape] = {}
    data: list[GlobalArg | TemporaryVariable] = [*knl.array_args.values(), *knl.temporaries.values()]
    for name, declared in ((datum.name, datum.shape) for datum in data):
        accesses = by_array.get(name, ())
        _require_one_rank(name, declared, accesses)
        if declared is not None:
            shapes[name] = declared if name not in knl.temporaries else tuple(
                e if e is None else known_value(knl, e) for e in declared)
        elif accesses:
            known = knl.array_args[name].inferred if name in knl.array_args else None
            shapes[name] = known if known is not None else _inferred(knl, accesses, cache, name in knl.temporaries)
    for name, other in output_shape_like(knl).items():
        if other in shapes:
            shapes[name] = shapes[other]
    return shapes


def _require_one_rank(name: str, declared: Shape | None, accesses: Sequence[Access]) -> None:
    ranks = {len(a.subscripts) for a in accesses}
    if declared is not None:
        ranks.add(len(declared))
    if len(ranks) > 1:
        raise ShapeError(f"'{name}' is used with {' and with '.join(map(str, sorted(ranks)))} subscripts.",
                         subject=name, hint="an array has one number of axes, the same wherever it is used")


def _inferred(knl: LoopKernel, accesses: Sequence[Access], cache: dict[object, Expression | None],
              temporary: bool) -> Shape:
    extents: list[Expression | None] = []
    for axis in range(len(accesses[0].subscripts)):
        extent = _extent(knl, accesses, axis, cache)
        if temporary and extent is not None and not isinstance(extent, int):
            most = constant_extent([(a.domain, a.subscripts[axis]) for a in accesses])
            extent = most if most is not None and most <= MOST_CONSTANT else extent
        extents.append(extent)
    return tuple(extents)


def _extent(knl: LoopKernel, accesses: Sequence[Access], axis: int,
            cache: dict[object, Expression | None]) -> Expression | None:
    if not all(a.affine for a in accesses):
        return None
    key = tuple(sorted({(id(a.domain), a.subscripts[axis]) for a in accesses}, key=repr))
    if key not in cache:
        cache[key] = axis_extent([(a.domain, a.subscripts[axis]) for a in accesses], knl.assumptions)
    return cache[key]


def output_shape_like(knl: LoopKernel) -> Mapping[str, str]:
    """The input whose shape each output is allocated with, for outputs that have one."""
    return {a.name: a.shape_like for a in knl.array_args.values() if a.shape_like is not None}


def fully_written_outputs(knl: LoopKernel) -> frozenset[str]:
    """The array arguments of which the kernel writes every element, for all sizes and data.

    Leaves out an array if isl's budget ends before it is decided; such an output is initialized with zeros.
    """
    return kept(knl.memo, "fully_written_outputs", lambda: frozenset(
        name for name in knl.array_args if name in knl.written_names and _filled(knl, name)))


def _filled(knl: LoopKernel, name: str) -> bool:
    writes = [a.relation for a in accesses_by_array(knl)[name] if a.is_write and a.affine and a.must]
    extents = [e for e in array_shapes(knl)[name] if e is not None]
    if not writes or len(extents) != len(array_shapes(knl)[name]):
        return False
    try:
        return affordable(lambda: missed(writes, extents, knl.assumptions) is None, otherwise=False, budget=COVERING)
    except NotAffineError:
        return False


def reached_elements(knl: LoopKernel, accesses: Sequence[Access]) -> Set:
    """The elements that *accesses* to one array access within its shape.

    A transformed kernel's accesses may have a form from which the shape no longer follows.
    """
    name = accesses[0].array
    declared = knl.array_args[name].shape if name in knl.array_args else knl.temporaries[name].shape
    shape = array_shapes(knl)[name] if declared is None else (None,)
    return reached_within([a.relation for a in accesses], shape, knl.assumptions)
