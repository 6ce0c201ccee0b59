"""specialize_warps and persistent: what they do to a kernel, and what they refuse, each with a way out."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import loopkit as lk
from loopkit.ast.nodes import Block, ByRole, Function, Node, Region, Sync, Tiles
from loopkit.ast.walk import nodes_in
from loopkit.emulation.program import places_of
from loopkit.instructions.phases import ArrivePhase, StartPhases, WaitPhase
from loopkit.instructions.role_registers import SetRegisters
from loopkit.instructions.tma import TmaLoadIssue
from loopkit.lowering.lowered import Lowered
from tests.role_kernels import rows
from tests.tma_kernels import box, rowdot, rowsum


def _titles(part: Node | None) -> list[str]:
    return [] if part is None else [x.title for x in nodes_in(part) if isinstance(x, Sync)]


def _tiles(function: Function) -> list[Tiles]:
    return [x for x in nodes_in(function.body) if isinstance(x, Tiles)]


def test_the_producer_has_a_warp_of_its_own() -> None:
    knl = rows(2, "ab")
    assert [s.id for s in knl.statements if s.options.producer] == ["a_tile_rule", "b_tile_rule"]
    (function,) = lk.lower(knl).program.functions
    assert function.extents["l.0"] == 64 + 32
    (roles,) = (x for x in nodes_in(function.body) if isinstance(x, ByRole))
    assert roles.threads == 64
    assert _titles(roles.then) == ["wait for phase k_outer - 2 of tiles_empty"]
    assert _titles(roles.otherwise) == ["wait for phase k_outer of tiles_full",
                                        "arrive for phase k_outer of tiles_empty"]
    assert not _tiles(function)


def test_blocks_run_all_places_of_the_grid() -> None:
    (function,) = lk.lower(rows(3, blocks=5)).program.functions
    (tiles,) = _tiles(function)
    assert tiles.blocks == 5
    assert [i.ring for x in nodes_in(function.body.children[0]) if isinstance(x, Sync) for i in x.instructions
            if isinstance(i, StartPhases)] == ["a_tile_full", "a_tile_empty"]
    phases = [i.phase for x in nodes_in(tiles) if isinstance(x, Sync) for i in x.instructions
              if isinstance(i, WaitPhase | ArrivePhase)]
    assert len(phases) == 3
    assert all(phase.in_tile for phase in phases)


def test_each_role_has_its_own_loop_over_places_if_it_changes_its_registers() -> None:
    (function,) = lk.lower(rows(3, blocks=5, height=256, registers=32)).program.functions
    (roles,) = (x for x in nodes_in(function.body) if isinstance(x, ByRole))
    assert roles.otherwise is not None
    for role in (roles.then, roles.otherwise):
        first, second = (x for x in nodes_in(role) if isinstance(x, Tiles) or (isinstance(x, Sync) and any(
            isinstance(i, SetRegisters) for i in x.instructions)))
        assert isinstance(first, Sync)
        assert isinstance(second, Tiles)


@pytest.mark.parametrize("group", [0, 2, 3, 50])
def test_each_place_of_the_grid_has_a_block(group: int) -> None:
    """And blocks share every *blocks* places, with the last ones of one round first in the next."""
    tiles, grid = Tiles(Block(), 4, group), (3, 2, 5)
    places = [list(places_of(tiles, block, grid)) for block in range(4)]
    assert sorted(x for own in places for x in own) == [(*x,) for x in np.ndindex(grid)]
    assert [len(own) for own in places] == [7, 7, 8, 8]
    assert [own[:2] for own in places] == {
        0: [[(0, 0, 0), (1, 0, 1)], [(1, 0, 0), (0, 0, 1)], [(2, 0, 0), (2, 1, 0)], [(0, 1, 0), (1, 1, 0)]],
        2: [[(0, 0, 0), (1, 0, 3)], [(1, 0, 0), (0, 0, 3)], [(0, 0, 1), (1, 0, 2)], [(1, 0, 1), (0, 0, 2)]],
        3: [[(0, 0, 0), (1, 0, 2)], [(1, 0, 0), (0, 0, 2)], [(2, 0, 0), (2, 0, 1)], [(0, 0, 1), (1, 0, 1)]],
        50: [[(0, 0, 0), (1, 0, 1)], [(1, 0, 0), (0, 0, 1)], [(2, 0, 0), (2, 1, 0)], [(0, 1, 0), (1, 1, 0)]]}[group]


def test_each_warp_that_has_read_a_tile_arrives() -> None:
    (function,) = lk.lower(rows(2, height=96)).program.functions
    starts = [i for x in nodes_in(function.body) if isinstance(x, Sync) for i in x.instructions
              if isinstance(i, StartPhases)]
    assert {i.ring: i.arrivals for i in starts} == {"a_tile_full": 1, "a_tile_empty": 3}


def test_pipelines_whose_copies_stay_in_their_iterations() -> None:
    """Copies ahead of their iterations are further statements; the producer runs ahead by itself."""
    assert [s.id for s in rows(3).statements if s.id.startswith("a_tile")] == ["a_tile_rule"]
    knl = lk.specialize_warps(rowsum(3), ["tile_rule", "tile_rule_first"])
    assert lk.verify(knl).proven


def test_the_other_threads_may_copy_too() -> None:
    """Another temporary, in a ring of its own."""
    knl = lk.specialize_warps(rowdot(2, 2), ["a_tile_rule", "a_tile_rule_first"])
    report = lk.verify(knl, full=True)
    assert report.proven, report
    (function,) = lk.lower(knl).program.functions
    (roles,) = (x for x in nodes_in(function.body) if isinstance(x, ByRole))
    assert roles.otherwise is not None
    copies = [[x.instruction.box.tile.aggregate.name for x in nodes_in(part) if isinstance(x, Region) and isinstance(
        x.instruction, TmaLoadIssue)] for part in (roles.then, roles.otherwise)]
    assert copies == [["a_tile"]*2, ["b_tile"]*2]
    x = np.random.default_rng(0).integers(-3, 4, (70, 100)).astype(np.float32)
    for completion in ("last", "first"):
        np.testing.assert_array_equal(lk.emulate(knl, a=x, b=x, completion=completion).s, (x*x).sum(axis=1))


def _on_many_threads() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, k, i2, k2]: 0<=i,i2<64 and 0<=k,k2<32}", """
        <> t[i, k] = a[i, k]  {id=copy}
        y[i2, k2] = t[i2, k2]  {dep=copy}
        """, [lk.GlobalArg("a", np.float32, (64, 32)), "..."])
    return lk.tensorize(lk.tag_inames(knl, "k2:l.0, i:l.1, i2:l.1"), "copy", "tma.load", "k")


def _lowered(knl: lk.LoopKernel, producers: str) -> Lowered:
    return lk.lower(lk.specialize_warps(knl, producers))


def _written_before() -> lk.LoopKernel:
    knl = lk.make_kernel([f"{{[i{k}, j{k}]: 0<=i{k}<4 and 0<=j{k}<32}}" for k in range(3)], """
        x[i0, j0] = 2*w[i0, j0]  {id=fill}
        <> t[i1, j1] = x[i1, j1]  {id=copy, dep=fill}
        y[i2, j2] = t[i2, j2]  {dep=copy}
        """, [lk.GlobalArg("w, x, y", np.float32, (4, 32)), "..."])
    return lk.tensorize(lk.tag_inames(knl, "j0:l.0, j2:l.0"), "copy", "tma.load", "i1, j1")


def test_cells_that_another_warp_has_at_another_place() -> None:
    """At each place, a thread reads only what it wrote; at the next one, a thread of another warp has its cell."""
    knl = lk.make_kernel("{[b, k, i]: 0<=b<n and 0<=k,i<64}", """
        for b
            for k
                <> tile[k] = x[b, k]  {id=copy}
            end
            for i
                u[(i + 32*b) % 64] = tile[63 - i]
                y[b, i] = 2*u[(i + 32*b) % 64]
            end
        end""", [lk.TemporaryVariable("u", np.float32, (64,), "shared"), lk.GlobalArg("x", np.float32, "n, 64"), "..."])
    knl = lk.tensorize(lk.tag_inames(knl, "b:g.0, i:l.0"), "copy", "tma.load")
    knl = lk.persistent(lk.specialize_warps(knl, "copy"), 2)
    assert lk.verify(knl, full=True).proven
    assert "the block's previous place of the grid may still use it\n            barrier_of_consumers<64>();" in str(
        lk.generate_code(knl, target="cuda"))


REFUSED: dict[str, tuple[Callable[[], object], str, str]] = {
    "no copy": (
        lambda: lk.specialize_warps(rowsum(1), "insn"),
        "'insn' is not a copy by TMA, and the producer thread starts nothing else",
        "tensorize(knl, 'insn', 'tma.load')"),
    "many threads": (
        lambda: lk.specialize_warps(_on_many_threads(), "copy"),
        "'copy' runs on many threads, by 'i', and the producer is one thread", "untag_inames(knl, 'i')"),
    "no producer": (
        lambda: lk.persistent(rowsum(1), 2),
        "No statement runs in a producer thread", "specialize_warps(knl, copies) first"),
    "no blocks": (lambda: lk.persistent(rows(2), 0), "blocks must be a positive integer, not 0", ""),
    "a group in a grid of one axis": (
        lambda: lk.persistent(rows(2), 2, group=3), "The grid has no three axes", "tag inames 'g.0', 'g.1' and 'g.2'"),
    "a negative group": (lambda: lk.persistent(rows(2), 2, group=-1), "'persistent_group' cannot be -1", "or 0"),
    "part of a warp": (
        lambda: _lowered(box((4, 6, 16)), "copy"),
        "the block's other statements have 16 threads, not whole warps of 32", "a multiple of 32 threads"),
    "one thread": (
        lambda: _lowered(lk.untag_inames(box((4, 6, 32)), "j2"), "copy"),
        "have 1 threads, not whole warps", "a multiple of 32 threads"),
    "an array that the launch writes": (
        lambda: _lowered(_written_before(), "copy"),
        "'copy' and 'fill' run in two roles of a block, and no phase orders their accesses to 'x'", "does not write"),
    "two roles": (
        lambda: _lowered(rowsum(3), "tile_rule"),
        "'tile_rule_first' runs in other threads than the producer's, and the producer copies to 'tile' too",
        "specialize_warps(knl, 'tile_rule_first')"),
    "many cells": (
        lambda: lk.lower(lk.library.matmul("float16", wgmma=True, tile=(64, 64, 64), stages=33, shape=(256, 256, 64),
                                           multiprocessors=2)),
        "at most 32 cells at several places of the grid, and 'a_tile' has 33", "pipeline(knl, iname, 32, ahead=0)"),
    "several places": (
        lambda: lk.lower(lk.persistent(lk.specialize_warps(rowdot(2, 2), "a_tile_rule, a_tile_rule_first"), 2)),
        "only the producer copies by TMA", "specialize_warps(knl, 'b_tile_rule')")}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    make, reason, hint = REFUSED[case]
    with pytest.raises(lk.PreconditionError) as caught:
        make()
    assert reason in str(caught.value)
    assert hint in (caught.value.hint or "")


def test_unknown_statements() -> None:
    with pytest.raises(lk.UnknownNameError, match="'nothing' is not a statement of the kernel"):
        lk.specialize_warps(rowsum(1), "nothing")
