"""Remarks on costs of a kernel that may be avoided, each with a call that may avoid it."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.ranges import iname_extent
from loopkit.ast.nodes import FULL_TILE, For, Function, If, Node
from loopkit.ast.walk import child_nodes
from loopkit.errors import LoopkitError, PreconditionError
from loopkit.expr.evaluate import NoValueError, evaluate
from loopkit.expr.mappers import array_of, subexpressions, variables
from loopkit.expr.nodes import to_text
from loopkit.kernel.cost import Cost, product_text
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.lowering.lowered import Launch, Lowered
from loopkit.lowering.pipeline import cost_of, lowered_once
from loopkit.poly.affine import integer_factor
from loopkit.poly.limits import affordable
from loopkit.show.launches import launch_at
from loopkit.show.warp_access import SECTOR_BYTES, Memory, WarpAccess, accessed_arrays, accesses_at
from loopkit.transform.data import assume, set_options
from loopkit.transform.layout import swizzle
from loopkit.transform.peel import peel

#: The size of each parameter at which accesses are judged, and the most calls that are tried.
_SIZE, _MOST_TRIALS = 1024, 4

#: The call of a launch in the host's loops at which accesses are judged: the first ones often have few threads.
_CALL = 512

#: Operations of isl for one of these calls and the lowering of its result.
_TRIAL = 2_000_000


@dataclass(frozen=True)
class Remark:
    """Something that looks expensive, and a call that may change it."""

    text: str
    way_out: str


def remarks_on(knl: LoopKernel) -> tuple[Remark, ...]:
    """The remarks on *knl*, which can be lowered."""
    lowered = lowered_once(knl)
    pairs = tuple(zip(lowered.launches, lowered.program.functions, strict=True))
    found = [*_cost_remarks(knl, lowered)]
    for launch, function in pairs:
        found += _launch_remarks(launch)
        accesses = list(_warp_accesses(launch, function, lowered))
        found += (*_sector_remarks(knl, accesses), *_bank_remarks(knl, lowered, accesses))
    found += _guard_remarks(knl, lowered)
    return tuple(dict.fromkeys(found))


def _cost_remarks(knl: LoopKernel, lowered: Lowered) -> Iterator[Remark]:
    for storage in lowered.storages.values():
        if storage.space is AddressSpace.GLOBAL:
            size = product_text((storage.dtype.itemsize, *storage.shape))
            effect = "bring its writers and readers into one launch" if storage.needed is AddressSpace.GLOBAL else \
                "join the loops of its writers and readers, so that it has one value at a time"
            yield Remark(f"The temporary {storage.name} is in global memory, with {size} bytes a call.",
                         f"lk.fuse_loops may {effect}")
    yield from _overlap_remarks(lowered)
    cost: Cost = cost_of(knl)
    for iname, count in cost.hosts:
        launches = "a launch" if count == 1 else f"{count} launches"
        yield Remark(f"The host runs the loop over {iname}, with {launches} in each iteration.",
                     "lk.skew and lk.tile may put several iterations into one launch")


def _overlap_remarks(lowered: Lowered) -> Iterator[Remark]:
    """Those on copies into shared memory that a short loop repeats for tiles that overlap."""
    knl = lowered.kernel
    for s in knl.statements:
        storage = lowered.storages.get(s.written)
        if storage is None or storage.space is not AddressSpace.LOCAL or not isinstance(s.expression, p.Subscript) \
                or array_of(s.expression) not in knl.array_args:
            continue
        lengths = {x: extent for x in s.inames if isinstance(extent := iname_extent(knl, x), int)}
        loops = [x for x in lengths if x not in variables(s.assignee) and x not in knl.tags
                 and _tiles_overlap(s, x, lengths)]
        if loops:
            name, inames = array_of(s.expression), ", ".join(loops)
            yield Remark(f"{s.id} copies a tile of {name} in each iteration of {inames}, and the tiles overlap, so "
                         "that it copies most elements several times.",
                         f"lk.add_prefetch(knl, '{name}', ...) may sweep over {inames} too, and copies the tiles of "
                         "all iterations once")


def _tiles_overlap(copy: Statement, loop: str, lengths: Mapping[str, int]) -> bool:
    """Does the *copy* of the next iteration of *loop* begin within the tile of this one, along each axis that moves?"""
    assert isinstance(copy.expression, p.Subscript)
    own = variables(copy.assignee)
    overlaps = []
    for subscript in copy.expression.index_tuple:
        zero = dict.fromkeys(variables(subscript), 0)
        try:
            factors = {x: abs(evaluate(subscript, {**zero, x: 1}) - evaluate(subscript, zero)) for x in zero}
        except NoValueError:
            return False
        if not own & factors.keys() <= lengths.keys():
            return False
        if factors.get(loop):
            overlaps.append(factors[loop] < 1 + sum(factors[x]*(lengths[x] - 1) for x in own & factors.keys()))
    return bool(overlaps) and all(overlaps)


def _launch_remarks(launch: Launch) -> Iterator[Remark]:
    if (*launch.grid, *launch.block) == (1,)*6:
        yield Remark(f"One thread runs all of launch {launch.name}.",
                     "lk.split_iname(knl, iname, 128, outer_tag='g.0', inner_tag='l.0') spreads an iname over threads")
    elif isinstance(launch.threads, int) and launch.threads % launch.machine.warp:
        yield Remark(f"A block of launch {launch.name} has {launch.threads} threads: its last warp is not full.",
                     f"lengths whose product is a multiple of {launch.machine.warp} fill all warps")


# Threads that access memory at once

def _warp_accesses(launch: Launch, function: Function, lowered: Lowered) -> Iterator[WarpAccess]:
    """The accesses of a warp inside the grid, at large sizes; not those whose addresses depend on data."""
    try:
        at = launch_at(lowered, launch, function, {}, (_SIZE,), _CALL)
    except PreconditionError:                           # it has no blocks at these sizes
        return
    inner = at.require_block(tuple(min(1, extent - 1) for extent in at.grid))
    for statement, name in accessed_arrays(lowered):
        if statement in launch.statements:
            with suppress(PreconditionError):
                yield from accesses_at(at, statement, name, inner, 0, {})


def _sector_remarks(knl: LoopKernel, accesses: Sequence[WarpAccess]) -> Iterator[Remark]:
    """Those on global memory."""
    for x in accesses:
        threads = len(x.elements)
        used = x.bytes_used//threads
        # two threads side by side are in two sectors, too, if they begin in the middle of one
        if x.memory.is_shared or threads <= 2 or used >= SECTOR_BYTES or len(x.units(SECTOR_BYTES)) < threads:
            continue
        verb, name = "writes" if x.is_write else "reads", x.memory.name
        ways = ["lk.tag_inames gives l.0 to the iname of the last axis"]
        if not x.is_write and name in knl.array_args:
            ways.append(f"lk.add_prefetch(knl, '{name}', ...) loads tiles through shared memory")
        yield Remark(f"{x.statement} {verb} {name}: each thread of a warp {verb} a sector of memory of its own, {used} "
                     f"of its {SECTOR_BYTES} bytes.", "; ".join(ways))


def _bank_remarks(knl: LoopKernel, lowered: Lowered, accesses: Sequence[WarpAccess]) -> Iterator[Remark]:
    """Those on shared memory."""
    by_array: dict[str, list[WarpAccess]] = {}
    for x in accesses:
        if x.memory.is_shared:
            by_array.setdefault(x.memory.name, []).append(x)
    for name, own in by_array.items():
        worst = max(x.worst_conflict for x in own)
        if worst == 1:
            continue
        where = [f"{x.statement} {'writes' if x.is_write else 'reads'}" for x in own if x.worst_conflict > 1]
        ways_out = [text for text, memory in _other_layouts(knl, lowered, own)
                    if _passes(own, memory) < _passes(own, own[0].memory)]
        yield Remark(
            f"Accesses of {name} have bank conflicts ({', '.join(dict.fromkeys(where))}): up to {worst} threads of a "
            "warp access different words of one bank of shared memory, one after another.",
            "; ".join(ways_out) or "lk.tag_inames gives other inames to neighbouring threads")


def _passes(accesses: Iterable[WarpAccess], memory: Memory) -> int:
    """How often shared memory is accessed, if the array has the layout of *memory*."""
    return sum(replace(x, memory=memory).passes for x in accesses)


def _other_layouts(knl: LoopKernel, lowered: Lowered, accesses: Sequence[WarpAccess]) -> Iterator[tuple[str, Memory]]:
    """Calls that change the layout of the array of *accesses*, and the layouts that they give it."""
    memory, name = accesses[0].memory, accesses[0].memory.name
    temporary, storage = knl.temporaries.get(name), lowered.storages[name]
    axes = len(storage.shape) - len(storage.lead)
    if temporary is None or axes < 2 or temporary.layout.swizzle is not None:
        return
    chunk = max(len(own) for x in accesses for own in x.elements.values())      # whole vectors stay side by side
    if not temporary.fixed:
        axis = (temporary.layout.order or range(axes))[-2]
        yield (f"lk.add_padding(knl, '{name}', {axis}, by={chunk})",
               replace(memory, extents=(*memory.extents[:-1], memory.extents[-1] + chunk)))
    with suppress(PreconditionError):                   # the columns are not a power of two
        layout = swizzle(knl, name, chunk=chunk).temporaries[name].layout
        swizzled = replace(storage, temporary=replace(storage.temporary, layout=layout)).swizzle
        yield (f"lk.swizzle(knl, '{name}'{f', chunk={chunk}' if chunk > 1 else ''})",
               replace(memory, swizzle=swizzled))


# Guards that a loop tests in each iteration

def _guard_remarks(knl: LoopKernel, lowered: Lowered) -> Iterator[Remark]:
    """Those on guards that a call removes; calls are tried."""
    guards, trials = dict.fromkeys(_inner_guards(lowered)), 0
    for iname, guard in guards:
        ways_out = []
        for text, change in _changes_of_guard(knl, iname, guard):
            trials += 1
            if trials <= _MOST_TRIALS and _has_fewer_guards(change, len(guards)):
                ways_out.append(text)
        if ways_out:
            yield Remark(f"The innermost loop over {iname} tests '{to_text(guard)}' in each iteration.",
                         "; ".join(ways_out))


def _inner_guards(lowered: Lowered) -> Iterator[tuple[str, Expression]]:
    """Each condition in an innermost loop that blocks with full tiles run, and the iname of the loop."""
    for function in lowered.program.functions:
        for loop in _usual_nodes(function.body):
            inside = [*_usual_nodes(loop.body)] if isinstance(loop, For) and not loop.unroll else []
            if isinstance(loop, For) and not any(isinstance(x, For) and not x.unroll for x in inside):
                yield from ((loop.iname, x.condition) for x in inside if isinstance(x, If) and x.comment != FULL_TILE)


def _usual_nodes(node: Node) -> Iterator[Node]:
    """*node* and the nodes in it, without those for partial tiles."""
    yield node
    for child in (node.then,) if isinstance(node, If) and node.comment == FULL_TILE else child_nodes(node):
        yield from _usual_nodes(child)


def _changes_of_guard(knl: LoopKernel, iname: str, guard: Expression
                      ) -> Iterator[tuple[str, Callable[[], LoopKernel]]]:
    """Calls that may remove *guard*."""
    if variables(guard) & knl.value_params and not knl.options.full_tiles:
        yield ("lk.set_options(knl, full_tiles=True) makes a version for full tiles",
               lambda: set_options(knl, full_tiles=True))
    text = " and ".join(dict.fromkeys(
        f"{size} % {length} = 0" for e in subexpressions(guard) if isinstance(e, p.Comparison)
        for size in sorted(variables(e) & knl.value_params)
        if (length := max((integer_factor(x) for x in subexpressions(e)), default=1)) > 1))
    if text:
        yield f"lk.assume(knl, '{text}') if this always holds", lambda: assume(knl, text)
    match guard:
        case p.Comparison(left=int(first), operator="<=", right=p.Variable(name=name)) if name == iname and first > 0:
            yield f"lk.peel(knl, '{iname}', first={first})", lambda: peel(knl, iname, first=first)
        case _:
            pass


def _has_fewer_guards(change: Callable[[], LoopKernel], number: int) -> bool:
    """Does *change* succeed, and give a kernel with less than this *number* of guards in innermost loops?"""
    def found() -> bool:
        try:
            return len({*_inner_guards(lowered_once(change()))}) < number
        except LoopkitError:
            return False
    return affordable(found, otherwise=False, budget=_TRIAL)
