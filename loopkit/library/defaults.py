"""Default sizes of the pipelines: some follow from a dtype and from properties of every GPU, others are measured.

A matrix product gets the tiles with the fewest cycles, by measured costs.
"""
from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt

import loopkit as lk
from loopkit.transform.data import as_dtype
from loopkit.transform.step import require_positive

#: The data of the device for which the pipelines are tuned; they are explained there.
DEVICE = tomllib.loads(files("loopkit.library").joinpath("devices/h200.toml").read_text(encoding="utf-8"))

MOST_THREADS = 1024
#: Bytes of a cache line.
LINE = 128
#: Bytes of a sector, the unit of a read or write of global memory.
SECTOR = 32
#: Bytes of one thread's concurrent loads. Few threads then keep the memory busy.
BYTES_A_THREAD = 16


def measured(pipeline: str, dtype: np.dtype | None = None, /, **given: Any) -> tuple[Any, ...]:
    """The values *given* for arguments of *pipeline*; for ``None``, the device's size of this name.

    >>> measured("histogram", threads=None, items=4)
    (512, 4)
    """
    sizes = {**DEVICE["sizes"], **DEVICE["sizes"].get(pipeline, {})}
    return tuple(_of_dtype(sizes[name], dtype) if value is None else value for name, value in given.items())


def _of_dtype(size: Any, dtype: np.dtype | None) -> Any:
    """*size*, or the entry for *dtype* if *size* depends on the bytes of an element."""
    if isinstance(size, dict) and dtype is not None:
        size = size[max((least for least in size if int(least) <= dtype.itemsize), key=int)]
    return tuple(size) if isinstance(size, list) else size


def known_dtype(dtype: npt.DTypeLike) -> np.dtype:
    """*dtype* as a numpy dtype; :raises PreconditionError: kernels do not support it."""
    return as_dtype(dtype, "An array")


def items_a_thread(dtype: np.dtype) -> int:
    """The number of elements of *dtype* that a thread loads at once."""
    return max(BYTES_A_THREAD // dtype.itemsize, 1)


def vector_of_rows(columns: int, dtype: np.dtype) -> int:
    """The number of elements of the longest vector, of at most 16 bytes, that divides a row of *columns* elements."""
    return gcd(columns, items_a_thread(dtype))


def vector(items: int) -> str:
    """The tag of the iname over the *items* elements that a thread moves at once."""
    return "vec" if items > 1 else "unr"


def before_row(i: str, columns: int, multiple: int) -> str:
    """Text that subtracts the start of row *i* modulo *multiple*: ``- i % 4``; each row has *columns* elements."""
    shift = columns % multiple
    return "" if shift == 0 else f"- {i} % {multiple}" if shift == 1 else f"- ({shift}*{i}) % {multiple}"


def longest_row(columns: int, multiple: int) -> int:
    """The longest row of *columns* elements, counted from the last multiple of *multiple* elements before its start."""
    return columns + multiple - gcd(columns, multiple)


def in_vectors(knl: lk.LoopKernel, iname: str, items: int, threads: int, *, outer_tag: str) -> lk.LoopKernel:
    """Split *iname* into vectors of *items*, one for each of *threads* neighbouring threads."""
    if items > 1:
        knl = lk.split_iname(knl, iname, items, outer_iname=f"{iname}_vec", inner_iname=f"{iname}_item",
                             inner_tag="vec")
        iname = f"{iname}_vec"
    return lk.split_iname(knl, iname, threads, outer_tag=outer_tag, inner_tag="l.0")


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

    :arg shape: the lengths ``(n, m, l)``.
    :arg multiprocessors: the number of multiprocessors of the GPU; default: that of the measured GPU.
    :raises PreconditionError: a length is not a positive integer.

    >>> from loopkit.library.defaults import best_plan
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
    items = items_a_thread(np.dtype(np.float32))
    singly = steps % items > 0 or m % items > 0
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
        stores = costs["stores"]*(parts == 1 and m % items > 0)
        for whole in (False, True) if singly or cut else (False,):
            step = costs["padded_step" if whole else "single_step" if singly else "step"]
            latency = costs["latency"] + costs["partial"]*(cut and not singly and not whole)
            cycles = costs["launch"] + depth*latency + blocks*(costs["block"] + stores + depth*step)
            yield Plan(tile, depth if parts > 1 else None, whole, cycles + sums + copies*whole)


def _rounds(count: int, at_once: int) -> int:
    return -(-count//at_once)
