"""The choice of tiles for a matrix product: an estimate of its cycles from the blocks of each multiprocessor.

What a tile costs was measured on an H200, by grids that give all multiprocessors the same number of blocks, from one to
six times as many as run at once, of 512 and of 2048 steps; what a launch before or behind costs, with shapes that were
drawn at random. Of another GPU, its number of multiprocessors is asked alone.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from loopkit.transform.step import require_positive

#: Of an H200.
MULTIPROCESSORS = 132
#: Cycles of one launch more, and bytes that a multiprocessor then reads and writes in one: of the L2 cache, which has
#: what the launch before has written, and of the memory.
LAUNCH = 7000
BYTES_OF_CACHE = 19
BYTES_OF_MEMORY = 15
#: What of one launch is still in the cache in the next: some more than half of it.
CACHE = 32_000_000
#: Of a part of the sums over *k*.
LEAST_STRIPS = 4
#: Elements of a vector that a thread loads.
VECTOR = 4


@dataclass(frozen=True)
class Tile:
    """What a block has of a product in float32, and what it costs a multiprocessor.

    :ivar tile: its rows and columns, and how many steps of *k* are copied at once; *warp*: a warp's rows and columns.
    :ivar min_blocks: that share a multiprocessor.
    :ivar step: cycles of each step of *k* of each block, where other blocks fill its waits.
    :ivar single_step: the same where elements of *a* or *b* are loaded one by one.
    :ivar whole_step: the same of copies that are filled up to whole tiles.
    :ivar block: cycles of the beginning and the end of each block; *stores*: how many more where rows of *c* are no
        vectors, of tiles that are stored in such.
    :ivar waits: cycles of each step of *k*, once: the last blocks have fewer beside them, and nobody fills their waits.
    :ivar cut: how many more where tiles are cut off, and the last strip too: measured, and not understood.
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
        """Of a multiprocessor that has so many *blocks* with *depth* steps each."""
        step = self.whole_step if whole else self.single_step if singly else self.step
        waits = self.waits + self.cut*(cut and not singly and not whole)
        return self.launch + depth*waits + blocks*(self.block + self.stores*odd + depth*step)


#: Large tiles load least for a product, small ones leave least to the last round of blocks.
TILES = (
    Tile((128, 256, 16), (64, 64), 1, 337.0, 370.0, 341.0, 8500.0, 34000.0, 0.0, 15.0, 5300.0),
    Tile((128, 128, 16), (64, 32), 2, 170.5, 186.5, 175.5, 12900.0, 0.0, 17.0, 110.0, 17000.0),
    Tile((64, 128, 16), (64, 32), 4, 85.5, 101.0, 100.0, 3700.0, 0.0, 32.0, 67.0, 12900.0),
    Tile((64, 64, 16), (64, 32), 6, 47.8, 53.3, 51.2, 1640.0, 0.0, 25.0, 40.0, 13300.0),
    Tile((64, 64, 16), (32, 32), 5, 55.0, 57.0, 57.0, 1900.0, 0.0, 23.0, 20.0, 8900.0),
)


@dataclass(frozen=True)
class Plan:
    """How a product of one shape is made.

    :ivar depth: how many steps of *k* a block adds up, with a launch behind that adds up the parts; ``None``: all.
    :ivar whole: is there a launch before, which copies *a* and *b* and fills them up to whole tiles?
    :ivar cycles: that it is expected to take.
    """

    tile: Tile
    depth: int | None
    whole: bool
    cycles: float


def best_plan(shape: tuple[int, int, int], multiprocessors: int = MULTIPROCESSORS) -> Plan:
    """What takes least cycles for ``c[n, m]`` from ``a[n, l]`` and ``b[l, m]``, *shape* being ``n, m, l``.

    A multiprocessor gets a number of blocks, the same for all but for one block. So it counts how far the number of
    blocks is from a multiple of the number of multiprocessors, what a tile computes beyond the edge, and how many
    blocks there are at least to fill each other's waits.

    :raises PreconditionError: a length is no positive integer.

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
    """With one part of the sums, and with more as long as a part has some strips."""
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
    """How often *at_once* of them until *count* are done."""
    return -(-count//at_once)
