"""The emulation of warpgroups: their turns, and products, for which they read the bytes that descriptors name."""
from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from loopkit.ast.nodes import Completion, Region
from loopkit.ast.tensor_maps import LINE, UNIT
from loopkit.emulation.matrices import FactorRegisters, matrix, of_unit, places_in
from loopkit.emulation.memory import EmulatedArray, NumpyArray, Place, SharedArray, fenced
from loopkit.emulation.pending import Effect
from loopkit.emulation.program import Nodes, Step
from loopkit.emulation.strands import Strand
from loopkit.errors import VerificationError
from loopkit.expr.kinds import named_dtype
from loopkit.instructions.fences import ProxyFence
from loopkit.instructions.shared_matrices import MatrixLayout, SharedMatrix
from loopkit.instructions.turns import Turn
from loopkit.instructions.wgmma import Wgmma, WgmmaIssue

#: Threads of a warpgroup.
_THREADS = 128


@lru_cache(maxsize=256)
def _offsets(layout: MatrixLayout, extents: tuple[int, int], size: int, distances: tuple[tuple[str, int], ...]
             ) -> NumpyArray:
    """The bytes from the first element to each element of a matrix, before the swizzle."""
    return np.array([[layout.offset(row, step, size, dict(distances)) for step in range(extents[1])]
                     for row in range(extents[0])])


def product(nodes: Nodes, _: Region, issue: WgmmaIssue) -> Step:
    """The threads start a product. It reads the factors and the sums, and writes the sums, at one moment."""
    wgmma = issue.instruction
    assert isinstance(wgmma, Wgmma)
    rows, columns, steps = wgmma.shape
    matrices = [(part, nodes.expressions.element(part.first), (extent, steps)) for part, extent in (
        (issue.left, rows), (issue.right, columns)) if isinstance(part, SharedMatrix)]
    held = None if isinstance(issue.left, SharedMatrix) else FactorRegisters(nodes, issue.left, wgmma.factor.size)
    sums = [nodes.expressions.element(e) for e in issue.sums]
    whole, dtype = np.dtype(np.int64 if wgmma.sum.ptx == "s32" else np.float64), named_dtype(wgmma.sum.dtype)
    lanes = places_in(wgmma.sums, _THREADS)

    def begin(s: Strand) -> None:
        if len(s.threads) != _THREADS:
            raise VerificationError(f"A warpgroup of block {s.block_number} has fewer than {_THREADS} threads for "
                                    f"{wgmma.noun}.", check="emulation")
        read = [(*_first_element(s, *element(s)), part, extents) for part, element, extents in matrices]
        registers = [place(s) for place in sums]
        words = None if held is None else held.places(s)

        def act(performed: NumpyArray) -> None:
            """Each warp waits for its own rows."""
            own = Strand(s.block, s.threads, performed, {})
            factors = [of_unit(wgmma, _loaded_matrix(*one)).astype(whole) for one in read]
            if held is not None and words is not None:
                factors.insert(0, matrix(wgmma.left, of_unit(wgmma, held.values(s, words)), whole, _THREADS))
            left, right = factors
            found = np.empty((rows, columns), whole)
            found[lanes] = np.stack([s.lanes(cells.load(s, at)) for cells, at in registers], axis=1).astype(whole)
            new = (found + left @ right.T).astype(dtype)[lanes]
            for (cells, at), values in zip(registers, new.T, strict=True):
                cells.store(own, at, values)
        s.block.groups(Completion.PRODUCTS).start(Effect(s.threads, s.mask, act))
    return begin


def _first_element(s: Strand, cells: EmulatedArray, place: Place) -> tuple[SharedArray, int]:
    """The array and the number of the first element; :raises VerificationError: the threads have different ones."""
    assert isinstance(cells, SharedArray)
    (number,) = place
    found = np.unique(s.lanes(number))
    if len(found) > 1:
        raise VerificationError(f"Threads of a warpgroup have different matrices in '{cells.name}'.", check="emulation")
    return cells, int(found[0])


def _loaded_matrix(cells: SharedArray, first: int, part: SharedMatrix, extents: tuple[int, int]) -> NumpyArray:
    """The elements of a matrix; :raises VerificationError: it is not inside of its array."""
    size = cells.data.itemsize
    at = first*size + _offsets(part.layout, extents, size, tuple(part.distances.items()))
    if part.layout.swizzle:
        at ^= at // LINE % (part.layout.swizzle // UNIT)*UNIT
    if (at % size).any() or at.min() < 0 or at.max() >= cells.data.nbytes:
        raise VerificationError(f"A matrix that begins at byte {first*size} of '{cells.name}' ends outside.",
                                check="emulation")
    return fenced(cells, at // size)


def fence(_: Nodes, __: ProxyFence) -> Step:
    """The stores of the threads to shared memory are there for the asynchronous proxy."""
    def run(s: Strand) -> None:
        for cells in s.block.memory.values():
            if isinstance(cells, SharedArray):
                cells.unfenced[np.isin(cells.unfenced, s.threads[s.mask])] = -1
    return run


# Turns

def end_turn(_: Nodes, turn: Turn) -> Step:
    """A strand ends its turn."""
    def end(s: Strand) -> None:
        first = int(s.threads[0])
        s.block.turns[first] = s.block.turns.get(first, 0) + (turn.act == "end")
    return end


def is_turn(_: Nodes, turn: Turn) -> Callable[[Strand], bool]:
    """May a strand begin its turn? All strands of the warpgroup before have ended theirs."""
    def has_begun(s: Strand) -> bool:
        first = int(s.threads[0])
        own, before = s.block.turns.get(first, 0), (first // _THREADS - 1) % turn.warpgroups
        others = range(before*_THREADS, (before + 1)*_THREADS, len(s.threads))
        return turn.act != "begin" or all(s.block.turns.get(x, 0) >= own + (first >= _THREADS) for x in others)
    return has_begun
