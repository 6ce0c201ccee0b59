"""Sizes to run a kernel at: usual ones, and ragged ones that leave partial tiles."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from math import prod

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_by_array
from loopkit.analysis.data_constraints import divisors
from loopkit.analysis.shapes import array_shapes
from loopkit.errors import CallError, values_text
from loopkit.expr.evaluate import evaluate
from loopkit.expr.mappers import subexpressions, variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.affine import integer_factor
from loopkit.poly.sets import Set, fix_params, lexmin_point, params_text, range_condition

#: The length of a tile in the sizes of an axis that has none.
_UNTILED = 8

#: Small sizes, one for each parameter in turn, so that exchanged sizes differ.
_PRIMES = (5, 3, 7, 11, 13)

#: Most points of an iteration space over all parameters.
_MOST_POINTS = 2**24

#: Most elements of all arrays together.
_MOST_ELEMENTS = 2**22

#: Sets of sizes in which one parameter is 0 and others are not.
_MOST_ZEROS = 3


def sizes_at_least(assumptions: Set, known: Mapping[str, int], wanted: Mapping[str, int]) -> dict[str, int]:
    """The *known* sizes, and for each other name the least allowed size from the *wanted* one on, if there is one.

    :arg assumptions: the allowed sizes; a name without a larger one gets its least.
    :raises CallError: the known sizes are not allowed.
    """
    allowed = fix_params(assumptions, known)
    if allowed.is_empty():
        raise CallError(f"The kernel's assumptions exclude {values_text(known)}: they are {params_text(assumptions)}.",
                        argument=next(iter(known), ""), hint="pass other sizes, or none: allowed ones are then chosen")
    others = {name: size for name, size in wanted.items() if name not in known}
    for name, size in others.items():
        larger = allowed.intersect(range_condition(name, size))
        allowed = allowed if larger.is_empty() else larger
    point = lexmin_point(allowed.from_params(), ())
    assert point is not None
    return {**known, **{name: point[0].get(name, size) for name, size in others.items()}}


def ragged_sizes(knl: LoopKernel, assumptions: Set, known: Mapping[str, int], names: Sequence[str]
                 ) -> list[dict[str, int]]:
    """A few small sets of sizes, each with the *known* ones, that are likely to show a fault of *knl*.

    Each of *names* is 0, 1, a prime, one less than a tile, a full tile, one more, and a little more than two tiles, as
    far as *assumptions* allow it. Each of the first names is also 0 alone. A size that divides an integer is not 0.
    Sets with too many elements are left out, except for the first.

    :raises CallError: the known sizes are not allowed.
    """
    found: list[dict[str, int]] = []
    divide = divisors(knl)
    for wanted in _wanted_sizes(knl, [name for name in names if name not in known]):
        sizes = sizes_at_least(assumptions, known, {k: max(v, 1) if k in divide else v for k, v in wanted.items()})
        if sizes not in found and (not found or _elements(knl, sizes) <= _MOST_ELEMENTS):
            found.append(sizes)
    return found


def _elements(knl: LoopKernel, sizes: Mapping[str, int]) -> int:
    """The number of elements of all array arguments; an extent that depends on data counts as 1."""
    return sum(prod(max(evaluate(e, sizes), 0) for e in shape if e is not None)
               for name, shape in array_shapes(knl).items() if name in knl.array_args)


def _wanted_sizes(knl: LoopKernel, names: Sequence[str]) -> Iterator[dict[str, int]]:
    """Sizes to ask for, the most telling ones last."""
    if not names:
        yield {}
        return
    primes = dict(zip(names, cycle(_PRIMES), strict=False))
    tiles = _tiles_of_sizes(knl, names)
    yield dict.fromkeys(names, 0)
    yield dict.fromkeys(names, 1)
    yield primes
    if len(names) > 1:
        yield from ({**primes, name: 0} for name in names[:_MOST_ZEROS])
    for some in (-1, 0, 1):
        yield _affordable({name: own[-1] + some for name, own in tiles.items()}, primes)
    yield _affordable({name: 2*own[-1] + own[0] % own[-1] + primes[name] for name, own in tiles.items()}, primes)


def _affordable(wanted: Mapping[str, int], primes: Mapping[str, int]) -> dict[str, int]:
    """*wanted*, with small primes for the smallest sizes while the points are too many."""
    sizes = dict(wanted)
    for name in sorted(wanted, key=lambda x: wanted[x])[:-1]:
        if prod(sizes.values()) > _MOST_POINTS:
            sizes[name] = primes[name]
    return sizes


def _tiles_of_sizes(knl: LoopKernel, names: Sequence[str]) -> dict[str, list[int]]:
    """For each of *names*, the tile lengths along the axes of arrays that it is the extent of, ascending.

    A name without such an axis gets the longest tile of the kernel.
    """
    shapes = array_shapes(knl)
    found: dict[str, set[int]] = {name: set() for name in names}
    for array, axes in tile_lengths(knl).items():
        for extent, lengths in zip(shapes.get(array, ()), axes, strict=False):
            for name in found.keys() & (variables(extent) if extent is not None else frozenset()):
                found[name].update(lengths)
    longest = max((length for own in found.values() for length in own), default=_UNTILED)
    return {name: sorted(own) or [longest] for name, own in found.items()}


def tile_lengths(knl: LoopKernel) -> dict[str, tuple[frozenset[int], ...]]:
    """For each array argument and each of its axes, the lengths of tiles: the factors of inames in its subscripts.

    The subscript ``16*i_outer + i_inner`` has tiles of 16 elements.
    """
    found: dict[str, tuple[frozenset[int], ...]] = {}
    for name in knl.array_args:
        accesses = [a for a in accesses_by_array(knl).get(name, ()) if a.subscripts]
        rank = max((len(a.subscripts) for a in accesses), default=0)
        found[name] = tuple(frozenset().union(*(_tile_factors(a.subscripts[axis]) for a in accesses
                                                if axis < len(a.subscripts))) for axis in range(rank))
    return found


def _tile_factors(subscript: Expression) -> frozenset[int]:
    products = (e for e in subexpressions(subscript) if isinstance(e, p.Product))
    return frozenset(factor for e in products if (factor := abs(integer_factor(e))) > 1)
