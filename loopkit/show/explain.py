"""A kernel in sentences: what each launch, loop, barrier and temporary is for, and what looks expensive."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.shapes import Shape
from loopkit.ast.nodes import Assign, Block, Define, For, Function, Sync
from loopkit.ast.walk import expressions_of, nodes_in
from loopkit.errors import LoopkitError
from loopkit.expr.evaluate import NoValueError, evaluate
from loopkit.expr.mappers import elements_of, substitute, variables
from loopkit.expr.nodes import to_text
from loopkit.kernel.annotations import checked
from loopkit.kernel.cost import Cost, product_text
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.lowered import Launch, Lowered
from loopkit.lowering.pipeline import cost_of
from loopkit.poly.limits import bounded
from loopkit.show.document import Document, Span, section
from loopkit.show.kernels import has_versions, if_lowered, launch_shape, values_table
from loopkit.shown import Shown

#: The most bytes that a thread loads at once: neighbouring threads may be so far apart.
_WIDEST = 16


@dataclass(frozen=True)
class Remark:
    """Something that looks expensive, and a call that may change it."""

    text: str
    way_out: str


@dataclass(frozen=True, repr=False)
class Explanation(Shown):
    """The sentences about a kernel, and remarks on its cost.

    :ivar sentences: of each launch, by its name.
    :ivar remarks: what looks expensive.
    """

    kernel: LoopKernel
    lowered: Lowered
    sentences: Mapping[str, tuple[str, ...]]
    remarks: tuple[Remark, ...]

    @property
    def headline(self) -> str:
        number = len(self.remarks)
        return f"of kernel {self.kernel.name!r}, with {number} remark{'' if number == 1 else 's'} on its cost"


@checked
def explain(knl: LoopKernel) -> Explanation:
    """Explain in sentences each launch, loop, barrier and temporary of *knl*, with remarks on what looks expensive.

    Costs are judged by the form of the kernel alone; nothing is measured. Sizes are taken to be large.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i, j] = 2*x[i, j]", name="rows")
    >>> knl = lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", 128, outer_tag="g.0", inner_tag="l.0")
    >>> print(lk.explain(knl))
    Explanation of kernel 'rows', with 2 remarks on its cost
    LAUNCH ROWS
      It runs if(1 <= n and 1 <= m, (n + 127) // 128, 0) blocks of 128 threads: a block for each
          i_outer, a thread for each i_inner.
      The loop over j from 0 to m repeats insn.
      Full tiles have a version without guards.
    WHAT LOOKS EXPENSIVE
      insn writes y: neighbouring threads are m elements apart, so that each writes memory of its own.
          Way out: lk.tag_inames gives l.0 to the iname of the last axis.
      insn reads x: neighbouring threads are m elements apart, so that each reads memory of its own. Way
          out: lk.tag_inames gives l.0 to the iname of the last axis; lk.add_prefetch(knl, 'x', ...)
          loads tiles through shared memory.

    :raises LoopkitError: *knl* cannot be lowered; the error is that of :func:`loopkit.lower`.
    """
    with bounded(f"explaining kernel '{knl.name}'"):
        lowered = if_lowered(knl)
        if isinstance(lowered, LoopkitError):
            raise lowered
        pairs = tuple(zip(lowered.launches, lowered.program.functions, strict=True))
        sentences = {launch.name: tuple(_launch_sentences(launch, function, has_versions(knl, launch.name)))
                     for launch, function in pairs}
        remarks = (*_cost_remarks(knl, lowered),
                   *(remark for launch, function in pairs for remark in _launch_remarks(launch, function, lowered)))
        return Explanation(knl, lowered, sentences, tuple(dict.fromkeys(remarks)))


def _launch_sentences(launch: Launch, function: Function, in_versions: bool) -> Iterator[str]:
    on_blocks, on_threads = ([x for x, e in launch.mapping.coordinates.items()
                              if any(axis.startswith(kind) for axis in variables(e))] for kind in ("g.", "l."))
    each = [f"a {unit} for each {', '.join(inames)}"
            for unit, inames in (("block", on_blocks), ("thread", on_threads)) if inames]
    yield f"It runs {launch_shape(launch)}{': ' if each else ''}{', '.join(each)}."
    if launch.ticketed:
        yield "Blocks take numbers in the order in which they start, because some wait for earlier ones."
    yield from _block_sentences(function.body)
    if in_versions:
        yield "Full tiles have a version without guards."


def _block_sentences(block: Block) -> Iterator[str]:
    """The loops and barriers in *block*."""
    for node in nodes_in(block):
        match node:
            case For():
                inside = dict.fromkeys(x.statement for x in nodes_in(node.body) if isinstance(x, Assign))
                unrolled = ", unrolled," if node.unroll else ""
                yield (f"The loop over {node.iname} from {to_text(node.start)} to {to_text(node.stop)}{unrolled} "
                       f"repeats {', '.join(inside)}.")
            case Sync() if node.serves:
                yield f"A {node.title}: {'; '.join(node.serves)}."
            case _:
                pass


# What looks expensive

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
        apart = _step_between(element, function, lowered.shapes[_array_of(element)])
        if apart is None:
            continue
        elements, is_known = apart
        itemsize = lowered.kernel.array_args[_array_of(element)].dtype.itemsize     # type: ignore[union-attr]
        if is_known and abs(int(elements))*itemsize <= _WIDEST:
            continue
        name, verb = _array_of(element), "writes" if is_write else "reads"
        ways = ["lk.tag_inames gives l.0 to the iname of the last axis"]
        ways += [] if is_write else [f"lk.add_prefetch(knl, '{name}', ...) loads tiles through shared memory"]
        yield Remark(f"{statement} {verb} {name}: neighbouring threads are {elements} elements apart, so that each "
                     f"{verb} memory of its own.", "; ".join(ways))


def _array_of(element: p.Subscript) -> str:
    assert isinstance(element.aggregate, p.Variable)
    return element.aggregate.name


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
    text = " + ".join(map(product_text, terms))
    return text, text.lstrip("-").isdigit()


def _place_of(subscript: Expression, thread: int) -> int:
    """The subscript of a thread in the middle of large sizes."""
    return evaluate(subscript, {**dict.fromkeys(variables(subscript), 4096), "l.0": thread})


# Showing

def explanation_document(found: Explanation) -> Document:
    """The sentences of each launch, the memory of the temporaries, and the remarks with ways out."""
    launches = (block for name, lines in found.sentences.items() for block in section(f"Launch {name}", lines))
    remarks = section("What looks expensive", (
        (Span(remark.text, "warning"), f" Way out: {remark.way_out}.") for remark in found.remarks))
    return Document(f"Explanation {found.headline}",
                    (*launches, *values_table(found.kernel, found.lowered), *remarks))
