"""Blocks with a producer thread: proofs for rings of each length, and a finding for each fault that does harm."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod

import numpy as np
import pytest

import loopkit as lk
from loopkit.ast.nodes import For, Node, Program, Scope, Sync, Tiles
from loopkit.ast.walk import as_block, rewritten
from loopkit.ast.walk import nodes_in as ast_nodes
from loopkit.instructions.fences import ProxyFence
from loopkit.instructions.groups import CommitGroup
from loopkit.instructions.phases import ArrivePhase, StartPhases, WaitPhase
from loopkit.kernel.tree import Barrier, nodes_in, parts_of, rewrite, seq
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lowered_in_one_version
from loopkit.poly.affine import add
from loopkit.verification.validation import unended_phases, validate
from tests.deep import DEEP, shared
from tests.role_kernels import rows, twice_read
from tests.verification.changed import built, report, with_tree
from tests.verification.faults import Fault
from tests.verification.ring_faults import of_instruction, ring_faults

#: Ways of an emulation, and the two that differ most.
WAYS = [*product(("last", "first"), ("backward", "forward"))]
SOME_WAYS = WAYS if DEEP else WAYS[::3]

#: Numbers of rows, and lengths of them: no strip, one, fewer than slots, and no multiple of the slots.
SIZES = [(64, 0), (65, 4), (200, 64), (330, 100)] if DEEP else [(65, 0), (200, 100)]

#: Factors, slots, slots of the last factor, blocks for all places of the grid, and the way of the sums to memory.
KERNELS = [(factors, slots, last, blocks, store)
           for factors, slots, last in (("a", 1, 0), ("a", 2, 0), ("a", 3, 0), ("ab", 2, 0), ("ab", 3, 2))
           for blocks in (0, 2) for store in ("plain", "tma")]

Kernel = tuple[str, int, int, int, str]


@shared
def _kernel(kernel: Kernel) -> lk.LoopKernel:
    factors, slots, last, blocks, store = kernel
    return rows(slots, factors, blocks, store=store, slots_of_last=last)


@shared
def _lowered(kernel: Kernel) -> Lowered:
    low = lowered_in_one_version(_kernel(kernel))
    assert validate(low) == ()
    return low


def _traces(kernel: Kernel, sizes: tuple[int, int], program: Program | None = None) -> Iterator[str]:
    """The wrong results, or errors, of the ways of emulation."""
    factors, rng = kernel[0], np.random.default_rng(0)
    arrays: Mapping[str, np.ndarray] = {x: rng.integers(-3, 4, sizes).astype(np.float32) for x in factors}
    expected = prod(arrays.values()).sum(axis=1)
    for completion, order in SOME_WAYS if program is None else WAYS:
        try:
            found = lk.emulate(_kernel(kernel), {**arrays}, completion=completion, order=order, program=program).s
        except lk.VerificationError as error:
            yield error.message
        else:
            if not np.array_equal(found, expected):
                yield f"a wrong result: {completion}, {order}"


@pytest.mark.parametrize("kernel", [pytest.param(x, marks=pytest.mark.deep(every=5)) for x in KERNELS], ids=str)
def test_two_roles_are_proven_and_right(kernel: Kernel) -> None:
    found = lk.verify(_kernel(kernel), full=True)
    assert found.proven, found
    for sizes in SIZES:
        assert not (wrong := [*_traces(kernel, sizes)]), f"{sizes}: {wrong}"


#: Those whose faults are tried.
OF_FAULTS: list[Kernel] = [
    ("a", 2, 0, 2, "tma"), ("a", 2, 0, 0, "tma"), ("ab", 3, 2, 2, "plain"), ("a", 1, 0, 2, "plain")]


@pytest.mark.parametrize("kernel", [pytest.param(x, marks=pytest.mark.deep) if k > 1 else x
                                    for k, x in enumerate(OF_FAULTS)], ids=str)
def test_faults_of_a_program_are_found(kernel: Kernel) -> None:
    """Or they are harmless: a wait for more than it must, and a wait or a fence between the same accesses."""
    low = _lowered(kernel)
    every = [*ring_faults(low.program)]
    assert len(every) > 50
    for fault in every[::1 if DEEP else 9]:
        if not validate(replace(low, program=fault.program)):
            wrong = next((x for sizes in SIZES for x in _traces(kernel, sizes, fault.program)), None)
            assert wrong is None, f"missed: {fault.kind} in {fault.text}: {wrong}"


@pytest.mark.parametrize("kernel", OF_FAULTS[:2], ids=str)
def test_a_wait_without_end_is_found_before_the_code_is_made(kernel: Kernel) -> None:
    """Not only by full verification: an arrival or a copy left out, and one iteration more of the consumers."""
    low = _lowered(kernel)
    assert not [*unended_phases(low)]
    faults = [f for f in ring_faults(low.program) if (f.kind == "a box left out" and "load" in f.text) or (
        f.kind == "left out" and f.text.startswith("arrive"))]
    loops = [node for node in ast_nodes(low.program.functions[0].body) if isinstance(node, For)
             and any(isinstance(x, Sync) and any(isinstance(i, ArrivePhase) for i in x.instructions)
                     for x in ast_nodes(node))]
    faults += [Fault("one iteration more", node.iname, replace(low.program, functions=(replace(
        function, body=as_block(rewritten(function.body, lambda x, node=node: replace(
            node, stop=add(node.stop, 1)) if x is node else x))),)))
        for function in low.program.functions for node in loops]
    assert len(faults) >= 3
    for fault in faults:
        assert [*unended_phases(replace(low, program=fault.program))], f"{fault.kind} in {fault.text}"


#: Faults in what a role or a block of several places of the grid does, and where.
WHERE = ("counted otherwise", "another start", "a role of other threads", "of other threads", "roles exchanged",
         "in the other role")


@pytest.mark.parametrize("kind", WHERE)
def test_a_fault_of_roles_is_found(kind: str) -> None:
    low = _lowered(OF_FAULTS[0])
    faults = [f for f in ring_faults(low.program) if f.kind.endswith(kind)]
    assert faults
    assert all(validate(replace(low, program=f.program)) for f in faults)


#: Faults in loops over the places of the grid.
LOOPS = {"at each place", "once", "one place only", "every place again", "two loops over places", "not at each place",
         "other blocks"}


@pytest.mark.parametrize("registers", [0, 32])
def test_a_fault_of_places_is_found(registers: int) -> None:
    """All roles have one loop, or one each if they change their registers. Some faults are none: a last wait for stores
    at each place, which waits earlier than it must, and one more change to the same number of registers.
    """
    low = lowered_in_one_version(rows(2, blocks=2, store="tma", height=256 if registers else 64, registers=registers))
    assert validate(low) == ()
    assert sum(isinstance(x, Tiles) for x in ast_nodes(low.program.functions[0].body)) == 1 + (registers > 0)
    faults = [f for f in ring_faults(low.program) if f.kind in LOOPS]
    assert LOOPS - {f.kind for f in faults} == (set() if registers else {"once", "two loops over places"})
    missed = [(f.kind, f.text) for f in faults if not validate(replace(low, program=f.program))]
    assert [kind for kind, _ in missed] == ["at each place"]*(1 + (registers > 0)), missed


def _wrong_barriers(own: Barrier) -> Iterator[tuple[str, tuple[Barrier, ...]]]:
    if own.instructions:
        yield "left out", ()
    if not own.outside:
        yield "in the other role", (replace(own, producer=not own.producer),)
    for kind, some in ((kind, some) for i in own.instructions for kind, some in of_instruction(i)):
        others = tuple(x for x in own.instructions if type(x) not in {type(i) for i in some})
        if some:
            yield kind, (replace(own, instructions=(*others, *some)),)


#: That which is harmless: a wait for more, or an arrival for less.
MORE = {"another phase"}


@pytest.mark.parametrize("kernel", OF_FAULTS[:2], ids=str)
def test_faults_of_a_tree_are_found(kernel: Kernel) -> None:
    low = _lowered(kernel)
    tree, missed = low.launches[0].tree, list[str]()
    places = [x for x in nodes_in(tree) if isinstance(x, Barrier)]
    faults = [(kind, place, new) for place in places for kind, new in _wrong_barriers(place)]
    for kind, place, new in faults[::1 if DEEP else 3]:
        wrong = rewrite(tree, lambda node, place=place, new=new: seq(*new) if node is place else node)
        if report(_kernel(kernel), with_tree(low, 0, wrong)).proven and kind not in MORE:
            missed.append(f"{kind} in {place.title}")
    assert not missed


@pytest.mark.parametrize("what", ["a fence", "a commit", "a start"])
def test_what_runs_once_or_at_each_place(what: str) -> None:
    low, kind = _lowered(OF_FAULTS[0]), {"a fence": ProxyFence, "a commit": CommitGroup, "a start": StartPhases}[what]
    wrong = rewrite(low.launches[0].tree, lambda node: replace(node, outside=not node.outside) if isinstance(
        node, Barrier) and any(isinstance(i, kind) for i in node.instructions) else node)
    assert not report(_kernel(OF_FAULTS[0]), with_tree(low, 0, wrong)).proven
    if what != "a start":                           # of which there is no program
        assert validate(built(with_tree(low, 0, wrong)))


def test_two_roles_that_wait_for_each_other() -> None:
    """The producer waits until a tile is read before it copies this tile: the order of the tree has no such place."""
    kernel = OF_FAULTS[1]
    low = _lowered(kernel)

    def later(node: Node) -> Node:
        return replace(node, instructions=tuple(
            replace(i, of=replace(i.of, number=add(i.of.number, i.of.slots))) if isinstance(i, WaitPhase)
            and i.of.ring.endswith("_empty") else i for i in node.instructions)) if isinstance(node, Sync) else node
    (function,) = low.program.functions
    wrong = replace(low.program, functions=(replace(function, body=as_block(rewritten(function.body, later))),))
    assert wrong != low.program
    assert any("before it in the order that both roles can keep" in str(m)
               for m in validate(replace(low, program=wrong)))
    assert any("wait" in trace for trace in _traces(kernel, SIZES[-1], wrong))


@pytest.mark.parametrize(("make", "scope"), [
    (partial(rows, 2, blocks=2, store="tma"), Scope.BLOCK),
    (partial(lk.library.matmul, "bfloat16", wgmma=True, shape=(300, 80, 80), tile=(64, 64, 64), multiprocessors=2),
     Scope.WARP)], ids=["one thread stores the tile of all", "a thread of each warp stores its part"])
def test_who_waits_for_the_place_before(make: Callable[[], lk.LoopKernel], scope: Scope) -> None:
    """The threads that access the same shared cells at several places of the grid; no fewer would do."""
    knl = make()
    low = lowered_in_one_version(knl)
    place, = (x for x in nodes_in(low.launches[0].tree) if isinstance(x, Barrier) and "previous place" in str(x.serves))
    assert place.scope is scope
    narrow = replace(place, scope=Scope(max(x for x in (Scope.THREAD, Scope.WARP) if x < scope)), threads=0)
    wrong = with_tree(low, 0, rewrite(low.launches[0].tree, lambda node: narrow if node is place else node))
    assert not report(knl, wrong).proven
    assert validate(built(wrong))


def test_a_start_behind_a_statement() -> None:
    low = _lowered(OF_FAULTS[0])
    start, first, *others = parts_of(low.launches[0].tree)
    wrong = with_tree(low, 0, seq(first, start, *others))
    assert not report(_kernel(OF_FAULTS[0]), wrong).proven
    assert validate(built(wrong))


def test_two_loops_that_read_a_tile() -> None:
    """Each thread waits for the tile once, before the first one."""
    knl = twice_read(2, 2)
    found = lk.verify(knl, full=True)
    assert found.proven, found
    a = np.random.default_rng(0).integers(-3, 4, (200, 100)).astype(np.float32)
    sums = np.concatenate([a.sum(axis=1), np.zeros(56, np.float32)]).reshape(-1, 64)
    expected = (sums + 2*np.roll(sums, -1, axis=1)).reshape(-1)[:200]
    for completion, order in SOME_WAYS:
        np.testing.assert_array_equal(lk.emulate(knl, a=a, completion=completion, order=order).s, expected)


@pytest.mark.parametrize("doubled", ["t <= 1", "t <= 1 and a <= 1"])
def test_a_role_waits_for_copied_tiles_only(doubled: str) -> None:
    """Where a statement runs in a part of a loop whose last iteration is rounded, plain bounds lie around the two."""
    knl = lk.make_kernel(
        "{[a, t, i]: 0<=a and 12*a<n and 0<=t and 2*a + t <= 2*floor((n - 1)/12) + 1 and 0<=i<32}", f"""
        tile_of(a, t, i) := x[2*a + t, i]
        for a, i
            <> s = 0
            for t
                s = s + tile_of(a, t, i)
                s = 2*s  {{if={doubled}}}
            end
            y[a, i] = s
        end""", [lk.GlobalArg("x", np.float32, "r, 32"), "..."], assumptions="n>=1 and r>=n+1")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"y,s": np.float32}), "a:g.0, i:l.0")
    knl = lk.precompute(knl, "tile_of", "i", temporary_name="tile", engine="tma")
    knl = lk.specialize_warps(lk.pipeline(knl, "t", 2, temporaries=["tile"], ahead=0), "tile_rule")
    target = lk.CudaTarget("sm_90")
    found = lk.verify(knl, target, full=True)
    assert found.proven, found
    for n in (1, 7, 12, 13, 30):
        x = np.random.default_rng(n).integers(-4, 5, (n + 1, 32)).astype(np.float32)
        expected = np.zeros((-(-n // 12), 32), np.float32)
        for a, row in enumerate(expected):
            for t in range(2*((n - 1) // 12) + 2 - 2*a):
                row += x[2*a + t]
                row *= 1 + (t <= 1 and (a <= 1 or doubled == "t <= 1"))
        for completion in ("first", "last"):
            found = lk.emulate(knl, x=x, n=n, completion=completion, target=target).y
            np.testing.assert_array_equal(found, expected)
