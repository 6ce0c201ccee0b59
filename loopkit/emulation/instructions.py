"""The emulations of instructions: copies, commit groups, flags, atomic updates, vectors and shuffles."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pymbolic.primitives as p

from loopkit.ast.nodes import Assign, Completion, For, Region
from loopkit.ast.walk import rewritten
from loopkit.emulation import boxes, matrices, phases, warpgroups
from loopkit.emulation.expressions import Element
from loopkit.emulation.memory import EmulatedArray, FlaggedArray, Lanes, NumpyArray, Place, PrivateArray, poisoned
from loopkit.emulation.pending import Effect
from loopkit.emulation.program import Emulation, Emulations, Nodes, Step
from loopkit.emulation.strands import Strand
from loopkit.expr.mappers import array_of, replaced
from loopkit.instructions.asynchronous_copy import AsynchronousCopy, number_at
from loopkit.instructions.atomic_update import AtomicFetch, AtomicUpdate
from loopkit.instructions.block_flag import BlockFlag
from loopkit.instructions.fences import ProxyFence, RegisterFence
from loopkit.instructions.groups import CommitGroup, WaitGroup
from loopkit.instructions.ldmatrix import LdMatrixIssue
from loopkit.instructions.mma import MmaIssue
from loopkit.instructions.phases import ArrivePhase, StartPhases, WaitPhase
from loopkit.instructions.role_registers import SetRegisters
from loopkit.instructions.shuffle import Shuffle, read_of_other_lane
from loopkit.instructions.simd_loop import SimdLoop
from loopkit.instructions.stmatrix import StMatrixIssue
from loopkit.instructions.tma import TmaLoadIssue
from loopkit.instructions.tma_multicast import TmaMulticastIssue
from loopkit.instructions.tma_store import TmaStoreIssue
from loopkit.instructions.turns import Turn
from loopkit.instructions.vector_access import (
    Vector,
    VectorAccess,
    assignment_of,
    copied_by,
    copied_element,
    for_all,
    in_registers,
    iterations,
    loaded_by_elements,
    stored_by_elements,
    vectors_of,
)
from loopkit.instructions.wgmma import WgmmaIssue


def _in_branches(condition: Callable[[Strand], Lanes], then: Step, other: Step) -> Step:
    """*then* for the threads for which *condition* holds, and *other* for the rest."""
    def run(s: Strand) -> None:
        holds, outer = s.lanes(condition(s)), s.mask
        for step, mask in ((then, outer & holds), (other, outer & ~holds)):
            if mask.any():
                s.mask = mask
                step(s)
        s.mask = outer
    return run


def _nothing(_: Strand) -> None:
    pass


# Asynchronous copies

def _restricted(s: Strand, place: Place, lanes: NumpyArray) -> tuple[Place, Strand]:
    """*place* and *s* for the threads *lanes* only."""
    own = Strand(s.block, s.threads[lanes], np.ones(int(lanes.sum()), bool), {})
    return tuple(x[lanes] if isinstance(x, np.ndarray) else x for x in place), own


def _start_copy(s: Strand, ends: Sequence[Element], length: int, number: Lanes) -> None:
    """Start the copy of *length* elements from the second of *ends* on to the first: *number* of them, then zeros."""
    target, to = ends[0](s)
    counts, outer = s.lanes(number), s.mask
    s.mask = outer & (counts > 0)
    source, start = ends[1](s) if s.mask.any() else (target, to)
    s.mask = outer

    def act(lanes: NumpyArray) -> None:
        for k in range(length):
            for own, is_copied in ((lanes & (counts > k), True), (lanes & (counts <= k), False)):
                if own.any():
                    there, who = _restricted(s, start, own)
                    value = source.load(who, EmulatedArray.after(there, k)) if is_copied else target.data.dtype.type(0)
                    here, _ = _restricted(s, to, own)
                    target.store(who, EmulatedArray.after(here, k), value)
    s.block.groups(Completion.GROUP).start(Effect(s.threads, outer, act))


def _copied_at_once(nodes: Nodes, node: Assign, _: AsynchronousCopy) -> Step | None:
    copied, dtype = copied_element(node.value), nodes.expressions.dtype_of(node.target)
    if copied is None or dtype.itemsize not in AsynchronousCopy.sizes:
        return None
    element, condition = copied
    ends = nodes.expressions.element(node.target), nodes.expressions.element(element)
    holds = (lambda _: True) if condition is None else nodes.expressions.condition(condition)
    return lambda s: _start_copy(s, ends, 1, s.lanes(holds(s)).astype(int))


def _copied_by_vectors(nodes: Nodes, loop: For) -> Step | None:
    loaded, stored = ([v for v in vectors_of(loop) if getattr(v, which)] for which in ("loaded", "stored"))
    if not len(loaded) == len(stored) == 1 or loaded[0].length != stored[0].length:
        return None
    (source,), (target,), compiler = loaded, stored, nodes.expressions
    copied, every = copied_by(loop), iterations(loop)
    starts = range(every.start, every.stop, source.length)
    parts = [([compiler.element(v.at(loop.iname, at), vector=True) for v in (target, source)],
              compiler.value(source.length if copied is None else number_at(copied, loop.iname, at))) for at in starts]

    def copy(s: Strand) -> None:
        for ends, number in parts:
            _start_copy(s, ends, source.length, number(s))
    return copy


def _commit(_nodes: Nodes, commit: CommitGroup) -> Step:
    return lambda s: s.block.groups(commit.of).commit(s.active)


def _wait(_: Nodes, wait: WaitGroup) -> Step:
    return lambda s: s.block.groups(wait.of).wait(s.active, wait.pending)


# Flags between blocks

def _flagged(nodes: Nodes, node: Assign, flag: BlockFlag) -> Step:
    own = nodes.with_expressions(nodes.expressions.waiting_for(flag.loads))
    assign, place = own.plain(node), own.expressions.element(node.target)

    def run(s: Strand) -> None:
        assign(s)
        cells, at = place(s)
        if flag.stores and isinstance(cells, FlaggedArray):
            cells.set_flags(s, at)
    return run


# Vectors

def _vector_moves(nodes: Nodes, loop: For, v: Vector, *, load: bool) -> Step:
    """The loads or stores of a vector between memory and its registers."""
    every = iterations(loop)
    parts = [(nodes.expressions.element(v.at(loop.iname, at), vector=True), at - every.start)
             for at in range(every.start, every.stop, v.length)]

    def move(s: Strand) -> None:
        registers = s.block.memory[v.name]
        for element, first in parts:
            cells, place = element(s)
            for k in range(v.length):
                ends = [(cells, EmulatedArray.after(place, k)), (registers, (s.threads, first + k))]
                (source, start), (target, to) = ends if load else ends[::-1]
                target.store(s, to, source.load(s, start))
    return move


def _with_vectors(nodes: Nodes, loop: For, access: VectorAccess) -> Step:
    """Vector loads into registers, the loop on these, and vector stores: as in the text."""
    assign, condition = assignment_of(loop)
    assert assign is not None
    for i in assign.instructions:
        vectors = nodes.emulation(i).vectors
        if vectors is not None and (step := vectors(nodes, loop)) is not None:
            return step
    dtypes = {v.name: nodes.expressions.dtype_of(v.element) for v in access.vectors}
    extent, inner = len(iterations(loop)), nodes.with_expressions(nodes.expressions.with_names(dtypes, dtypes))
    steps = list[Step]()
    for v in access.vectors:
        if v.loaded:
            loads = _vector_moves(nodes, loop, v, load=True)
            steps.append(loads if v.inside is None else _in_branches(
                nodes.expressions.condition(v.inside), loads, inner.step(loaded_by_elements(loop, v))))
    steps.append(inner.step(in_registers(loop)))
    for v in access.vectors:
        if v.stored and condition is None:
            steps.append(_vector_moves(nodes, loop, v, load=False))
        elif v.stored and condition is not None:
            steps += [_in_branches(nodes.expressions.condition(for_all(condition, loop)),
                                   _vector_moves(nodes, loop, v, load=False), _nothing),
                      inner.step(stored_by_elements(loop, v))]

    def run(s: Strand) -> None:
        for name, dtype in dtypes.items():
            s.block.memory[name] = PrivateArray(name, poisoned((s.block.threads, extent), dtype), (extent,))
        for step in steps:
            step(s)
    return run


# Shuffles

def _shuffle(nodes: Nodes, region: Region, shuffle: Shuffle) -> Step:
    """All lanes pass their registers; then the region runs with the value of the other lane."""
    node, read = read_of_other_lane(region, nodes.warp_arrays)
    other, compiler = f"{array_of(read)} of another lane", nodes.expressions
    own = replace(node, value=replaced(node.value, {read: p.Variable(other)}))
    body = own if shuffle.all_write else rewritten(region.body, lambda inner: own if inner is node else inner)
    registers = compiler.read(read)
    step = nodes.with_expressions(compiler.with_names({other: compiler.dtype_of(read)})).step(body)

    def run(s: Strand) -> None:
        lane = np.arange(len(s.threads))
        if shuffle.offset is None:
            # where all lanes hold the value, each reads its own register, as in the text
            source = lane if shuffle.reads_own else lane // shuffle.width*shuffle.width
        else:
            source = lane ^ shuffle.offset if shuffle.is_butterfly else lane + shuffle.offset
        # a lane that no lane is so far from keeps its own value
        source = np.where((source < 0) | (source >= len(lane)), lane, source)
        s.names[other] = registers(s)[source]
        step(s)
        del s.names[other]
    return run


#: The emulations of all instructions of GPUs.
EMULATIONS: Emulations = {
    AsynchronousCopy: Emulation(_copied_at_once, vectors=_copied_by_vectors),
    CommitGroup: Emulation(sync=_commit), WaitGroup: Emulation(sync=_wait),
    BlockFlag: Emulation(_flagged), VectorAccess: Emulation(loop=_with_vectors, assumes_layout=True),
    AtomicUpdate: Emulation(one_by_one=True), AtomicFetch: Emulation(), SimdLoop: Emulation(),
    StartPhases: Emulation(sync=phases.start), WaitPhase: Emulation(ended=phases.ended),
    ArrivePhase: Emulation(sync=phases.arrive),
    TmaLoadIssue: Emulation(region=boxes.load), TmaMulticastIssue: Emulation(region=boxes.multicast),
    TmaStoreIssue: Emulation(region=boxes.store),
    Shuffle: Emulation(region=_shuffle), MmaIssue: Emulation(region=matrices.product),
    LdMatrixIssue: Emulation(region=matrices.load), StMatrixIssue: Emulation(region=matrices.store),
    WgmmaIssue: Emulation(region=warpgroups.product), ProxyFence: Emulation(sync=warpgroups.fence),
    RegisterFence: Emulation(), SetRegisters: Emulation(),
    Turn: Emulation(sync=warpgroups.end_turn, ended=warpgroups.is_turn)}
