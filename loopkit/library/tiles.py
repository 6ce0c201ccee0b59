"""The cost model of tiles of a matrix product: the time of each tile by the number of blocks of each multiprocessor.

The costs of a tile were measured on an H200, with grids of one to six times as many blocks as run at once, equally many
on each multiprocessor, and 512 and 2048 steps. The costs of the padding launch and of the adding launch were measured
with random shapes. For another GPU the model uses only its number of multiprocessors.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from loopkit.transform.step import require_positive

#: Multiprocessors of an H200.
MULTIPROCESSORS = 132
#: Cycles of one more launch, and bytes per cycle that a multiprocessor then reads and writes: in the L2 cache, which
#: holds the output of the launch before, and in memory.
LAUNCH = 7000
BYTES_OF_CACHE = 19
BYTES_OF_MEMORY = 15
#: Bytes of one launch's output that the next launch finds in the cache: a little more than half of the cache.
CACHE = 32_000_000
#: Least number of strips of a part of the sums over *k*.
LEAST_STRIPS = 4
#: Elements of a vector that a thread loads.
VECTOR = 4


@dataclass(frozen=True)
class Tile:
    """A block's tile of a product in float32, and its cost on a multiprocessor.

    :ivar tile: rows, columns, and the steps of *k* that are copied at once; *warp*: rows and columns of a warp.
    :ivar min_blocks: blocks that share a multiprocessor.
    :ivar step: cycles of each step of *k* of each block, if other blocks hide its latency.
    :ivar single_step: the same if elements of *a* or *b* are loaded one by one.
    :ivar whole_step: the same for copies that are padded to full tiles.
    :ivar block: cycles of the beginning and the end of each block; *stores*: additional cycles if vectors do not divide
        the rows of *c*, for tiles that are stored in vectors.
    :ivar waits: cycles of each step of *k*, once: no other blocks hide the latency of the last blocks.
    :ivar cut: additional cycles if both the tiles and the last strip are partial: measured, without an explanation.
    :ivar launch: cycles, once.
    """

    tile: tuple[int, int, int]
    warp: tuple[int, int]
    min_blocks: int
    step: float
    single_step: float
    whole_step: float
    block: float
    stores: float
    waits: float
    cut: float
    launch: float

    def cycles(self, depth: int, blocks: int, *, singly: bool, cut: bool, whole: bool, odd: bool) -> float:
        """The cycles of a multiprocessor that has *blocks* blocks with *depth* steps each."""
        step = self.whole_step if whole else self.single_step if singly else self.step
        waits = self.waits + self.cut*(cut and not singly and not whole)
        return self.launch + depth*waits + blocks*(self.block + self.stores*odd + depth*step)


#: Large tiles need the fewest loads per product, small ones balance the last round of blocks.
TILES = (
    Tile((128, 256, 16), (64, 64), 1, 337.0, 370.0, 341.0, 8500.0, 34000.0, 0.0, 15.0, 5300.0),
    Tile((128, 128, 16), (64, 32), 2, 170.5, 186.5, 175.5, 12900.0, 0.0, 17.0, 110.0, 17000.0),
    Tile((64, 128, 16), (64, 32), 4, 85.5, 101.0, 100.0, 3700.0, 0.0, 32.0, 67.0, 12900.0),
    Tile((64, 64, 16), (64, 32), 6, 47.8, 53.3, 51.2, 1640.0, 0.0, 25.0, 40.0, 13300.0),
    Tile((64, 64, 16), (32, 32), 5, 55.0, 57.0, 57.0, 1900.0, 0.0, 23.0, 20.0, 8900.0),
)


@dataclass(frozen=True)
class Plan:
    """The choices for a product of one shape.

    :ivar depth: steps of *k* that a block adds up, with a second launch that adds up the parts; ``None``: all.
    :ivar whole: does a first launch copy *a* and *b* and pad them to full tiles?
    :ivar cycles: expected time.
    """

    tile: Tile
    depth: int | None
    whole: bool
    cycles: float


def best_plan(shape: tuple[int, int, int], multiprocessors: int = MULTIPROCESSORS) -> Plan:
    """The plan with the fewest cycles for ``c[n, m]`` from ``a[n, l]`` and ``b[l, m]``; *shape* is ``n, m, l``.

    All multiprocessors get the same number of blocks, or one block more. The cost therefore depends on the number of
    blocks modulo the number of multiprocessors, on the points that tiles compute beyond the edge, and on the number of
    blocks that hide each other's latency.

    :raises PreconditionError: a length is not a positive integer.

    >>> from loopkit.library.tiles import best_plan
    >>> best_plan((6144, 5632, 4000)).tile.tile        # 8 blocks for each of 132 multiprocessors
    (128, 256, 16)
    >>> best_plan((6272, 5632, 4000)).tile.tile        # a ninth for some of them would leave the others idle
    (64, 128, 16)
    >>> best_plan((256, 512, 16000)).depth is None        # of few tiles, each is computed by several blocks
    False
    """
    for length in (*shape, multiprocessors):
        require_positive(length, "a length of a product, or a number of multiprocessors,")
    return min((plan for tile in TILES for plan in _plans(tile, shape, multiprocessors)), key=lambda plan: plan.cycles)


def _plans(tile: Tile, shape: tuple[int, int, int], multiprocessors: int) -> Iterator[Plan]:
    """The plan with one part of the sums, and plans with more parts as long as a part has enough strips."""
    n, m, steps = shape
    rows, columns, strip = tile.tile
    strips = _rounds(steps, strip)
    singly = steps % VECTOR > 0 or m % VECTOR > 0
    cut = steps % strip > 0 and (n % rows > 0 or m % columns > 0)
    tiles = _rounds(n, rows)*_rounds(m, columns)
    copies = LAUNCH + 8*steps*(n + m)/(multiprocessors*BYTES_OF_MEMORY)
    for parts in range(1, max(strips//LEAST_STRIPS, 1) + 1):
        depth = strip*_rounds(strips, parts)
        if _rounds(strips*strip, depth) < parts:
            continue                                        # as deep as fewer parts
        sums = 0.0
        if parts > 1:
            rate = BYTES_OF_CACHE if 4*parts*n*m <= CACHE else BYTES_OF_MEMORY
            sums = LAUNCH + 4*(2*parts + 1)*n*m/(multiprocessors*rate)
        blocks = _rounds(tiles*parts, multiprocessors)
        for whole in (False, True) if singly or cut else (False,):
            cycles = tile.cycles(depth, blocks, singly=singly, cut=cut, whole=whole,
                                 odd=parts == 1 and m % VECTOR > 0)
            yield Plan(tile, depth if parts > 1 else None, whole, cycles + sums + copies*whole)


def _rounds(count: int, at_once: int) -> int:
    """The number of rounds for *count* blocks, *at_once* of which run concurrently."""
    return -(-count//at_once)
