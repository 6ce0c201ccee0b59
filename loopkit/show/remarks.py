"""What looks expensive in a kernel, each with a call that may change it."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.shapes import Shape
from loopkit.ast.nodes import FULL_TILE, Assign, Define, For, Function, If, Node
from loopkit.ast.walk import child_nodes, expressions_of, nodes_in
from loopkit.errors import LoopkitError, PreconditionError
from loopkit.expr.evaluate import NoValueError, evaluate
from loopkit.expr.mappers import array_of, elements_of, subexpressions, substitute, variables
from loopkit.expr.nodes import to_text
from loopkit.kernel.cost import Cost, product_text
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.lowered import Launch, Lowered
from loopkit.lowering.pipeline import cost_of, lowered_once
from loopkit.poly.affine import integer_factor
from loopkit.poly.limits import affordable
from loopkit.show.launches import launch_at
from loopkit.show.warp_access import Memory, WarpAccess, accessed_arrays, accesses_at
from loopkit.transform.data import assume, set_options
from loopkit.transform.layout import swizzle
from loopkit.transform.peel import peel

#: The size of each parameter at which accesses are judged, and the most calls that are tried.
_SIZE, _MOST_TRIALS = 1024, 4

#: Operations of isl for one of these calls and the lowering of its result.
_TRIAL = 2_000_000

#: The most bytes that a thread loads at once: neighbouring threads may be so far apart.
_WIDEST = 16


@dataclass(frozen=True)
class Remark:
    """Something that looks expensive, and a call that may change it."""

    text: str
    way_out: str


def remarks_on(knl: LoopKernel) -> tuple[Remark, ...]:
    """What looks expensive in *knl*, which can be lowered."""
    lowered = lowered_once(knl)
    pairs = tuple(zip(lowered.launches, lowered.program.functions, strict=True))
    found = (*_cost_remarks(knl, lowered),
             *(remark for launch, function in pairs for remark in _launch_remarks(launch, function, lowered)),
             *(remark for launch, function in pairs for remark in _bank_remarks(knl, launch, function, lowered)),
             *_guard_remarks(knl, lowered))
    return tuple(dict.fromkeys(found))


def _cost_remarks(knl: LoopKernel, lowered: Lowered) -> Iterator[Remark]:
    for storage in lowered.storages.values():
        if storage.space is AddressSpace.GLOBAL:
            size = product_text((storage.dtype.itemsize, *storage.shape))
            yield Remark(f"The temporary {storage.name} is in global memory, with {size} bytes a call.",
                         "lk.fuse_loops may bring its writers and readers into one launch")
    cost: Cost = cost_of(knl)
    for iname, count in cost.hosts:
        launches = "a launch" if count == 1 else f"{count} launches"
        yield Remark(f"The host runs the loop over {iname}, with {launches} in each iteration.",
                     "lk.skew and lk.tile may put several iterations into one launch")


def _launch_remarks(launch: Launch, function: Function, lowered: Lowered) -> Iterator[Remark]:
    if (*launch.grid, *launch.block) == (1,)*6:
        yield Remark(f"One thread runs all of launch {launch.name}.",
                     "lk.split_iname(knl, iname, 128, outer_tag='g.0', inner_tag='l.0') spreads an iname over threads")
        return
    if launch.threads % launch.machine.warp:
        yield Remark(f"A block of launch {launch.name} has {launch.threads} threads: its last warp is not full.",
                     f"lengths whose product is a multiple of {launch.machine.warp} fill all warps")
    for statement, is_write, element in _global_elements(function, lowered):
        apart = _step_between(element, function, lowered.shapes[array_of(element)])
        if apart is None:
            continue
        elements, is_known = apart
        itemsize = lowered.kernel.array_args[array_of(element)].dtype.itemsize     # type: ignore[union-attr]
        if is_known and abs(int(elements))*itemsize <= _WIDEST:
            continue
        name, verb = array_of(element), "writes" if is_write else "reads"
        ways = ["lk.tag_inames gives l.0 to the iname of the last axis"]
        ways += [] if is_write else [f"lk.add_prefetch(knl, '{name}', ...) loads tiles through shared memory"]
        yield Remark(f"{statement} {verb} {name}: neighbouring threads are {elements} elements apart, so that each "
                     f"{verb} memory of its own.", "; ".join(ways))


def _global_elements(function: Function, lowered: Lowered) -> Iterator[tuple[str, bool, p.Subscript]]:
    """Each element of an array argument: its statement, whether it is written, and it."""
    for node in nodes_in(function.body):
        if isinstance(node, Assign):
            for expr in expressions_of(node):
                for element in elements_of(expr, lowered.kernel.array_args):
                    yield node.statement, expr is node.target, element


def _step_between(element: p.Subscript, function: Function, shape: Shape) -> tuple[str, bool] | None:
    """The distance in elements between those of neighbouring threads along ``l.0``, and whether it is a number.

    ``None``: the threads access one element, or their distance depends on data.
    """
    values = dict(function.coordinates)
    values |= {node.name: node.value for node in nodes_in(function.body) if isinstance(node, Define)}
    index = element.index_tuple
    for _ in values:                                    # names may be defined by names
        index = tuple(substitute(e, values) for e in index)
    try:
        steps = [_place_of(e, 1) - _place_of(e, 0) for e in index]
    except NoValueError:
        return None
    moved = [(step, shape[axis + 1:]) for axis, step in enumerate(steps) if step]
    if not moved or any(extent is None for _, rest in moved for extent in rest):
        return None
    terms: Sequence[Sequence[Expression]] = [(step, *(e for e in rest if e is not None)) for step, rest in moved]
    text = " + ".join(map(product_text, terms)).replace("+ -", "- ")
    return text, text.lstrip("-").isdigit()


def _place_of(subscript: Expression, thread: int) -> int:
    """The subscript of a thread in the middle of large sizes."""
    return evaluate(subscript, {**dict.fromkeys(variables(subscript), 4096), "l.0": thread})


# Conflicts between threads that access shared memory

def _bank_remarks(knl: LoopKernel, launch: Launch, function: Function, lowered: Lowered) -> Iterator[Remark]:
    shared = {a.name for a in function.arrays if a.shared}
    accesses: dict[str, list[WarpAccess]] = {}
    for statement, name in accessed_arrays(lowered):
        if name in shared and statement in launch.statements:
            with suppress(PreconditionError):           # addresses that depend on data are not judged
                at = launch_at(lowered, launch, function, {}, (_SIZE,))
                inner = tuple(min(1, extent - 1) for extent in at.grid)
                found = accesses_at(at, statement, name, at.require_block(inner), 0, {})
                accesses.setdefault(name, []).extend(found)
    for name, own in accesses.items():
        worst = max((x.worst_conflict for x in own), default=1)        # no thread may run it
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
