"""The choice of tiles for a matrix product: an estimate of its cycles from the blocks of each multiprocessor.

The costs were measured on one device; its data explain them (``devices/h200.toml``).
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from loopkit.library.defaults import DEVICE, items_a_thread, measured
from loopkit.transform.step import require_positive

#: A thread loads so many elements at once.
VECTOR = items_a_thread(np.dtype(np.float32))


@dataclass(frozen=True)
class Tile:
    """The part of a product that one block computes, as the arguments of :func:`~loopkit.library.matmul`."""

    tile: tuple[int, int, int]
    warp: tuple[int, int]
    min_blocks: int


#: The cycles that launches, memory and the blocks of each tile take; the device data explain them.
COSTS = DEVICE["products"]
TILES = {Tile(tuple(x["tile"]), tuple(x["warp"]), x["min_blocks"]): x["costs"] for x in COSTS["tile"]}


@dataclass(frozen=True)
class Plan:
    """The choices for a product of one shape, as arguments of :func:`~loopkit.library.matmul`, and their cycles."""

    tile: Tile
    depth: int | None
    whole: bool
    cycles: float


def best_plan(shape: tuple[int, int, int], multiprocessors: int | None = None) -> Plan:
    """The plan that takes fewest cycles for the product ``c[n, m]`` of ``a[n, l]`` and ``b[l, m]``.

    :arg shape: the lengths ``n, m, l``.
    :raises PreconditionError: a length is no positive integer.

    >>> from loopkit.library.tiles import best_plan
    >>> best_plan((6144, 5632, 4000)).tile.tile        # 8 blocks for each of 132 multiprocessors
    (128, 256, 16)
    >>> best_plan((6272, 5632, 4000)).tile.tile        # a ninth for some of them would leave the others idle
    (64, 128, 16)
    >>> best_plan((256, 512, 16000)).depth is None        # few tiles: several blocks add up each of them
    False
    """
    multiprocessors, = measured("best_plan", multiprocessors=multiprocessors)
    for length in (*shape, multiprocessors):
        require_positive(length, "a length of a product, or a number of multiprocessors,")
    return min((plan for tile in TILES for plan in _plans(tile, shape, multiprocessors)), key=lambda p: p.cycles)


def _plans(tile: Tile, shape: tuple[int, int, int], multiprocessors: int) -> Iterator[Plan]:
    n, m, steps = shape
    costs = TILES[tile]
    rows, columns, strip = tile.tile
    strips = _rounds(steps, strip)
    singly = steps % VECTOR > 0 or m % VECTOR > 0
    cut = steps % strip > 0 and (n % rows > 0 or m % columns > 0)
    tiles = _rounds(n, rows)*_rounds(m, columns)
    launch, slow, fast = COSTS["launch"], COSTS["memory_bytes_per_cycle"], COSTS["cache_bytes_per_cycle"]
    copies = launch + 8*steps*(n + m)/(multiprocessors*slow)
    for parts in range(1, max(strips//COSTS["least_strips"], 1) + 1):
        depth = strip*_rounds(strips, parts)
        if _rounds(strips*strip, depth) < parts:
            continue                                        # as deep as fewer parts
        sums = 0.0
        if parts > 1:
            rate = fast if 4*parts*n*m <= COSTS["cache_bytes"] else slow
            sums = launch + 4*(2*parts + 1)*n*m/(multiprocessors*rate)
        blocks = _rounds(tiles*parts, multiprocessors)
        stores = costs["stores"]*(parts == 1 and m % VECTOR > 0)
        for whole in (False, True) if singly or cut else (False,):
            step = costs["padded_step" if whole else "single_step" if singly else "step"]
            latency = costs["latency"] + costs["partial"]*(cut and not singly and not whole)
            cycles = costs["launch"] + depth*latency + blocks*(costs["block"] + stores + depth*step)
            yield Plan(tile, depth if parts > 1 else None, whole, cycles + sums + copies*whole)


def _rounds(count: int, at_once: int) -> int:
    return -(-count//at_once)
