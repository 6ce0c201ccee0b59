"""A kernel in sentences: what each launch, loop, barrier and temporary is for, and what looks expensive."""
from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_by_array
from loopkit.ast.nodes import Assign, Block, For, Function, Region, Scope, Sync
from loopkit.ast.walk import nodes_in
from loopkit.expr.mappers import array_of, variables
from loopkit.expr.nodes import to_text
from loopkit.instructions.nests import statement_of
from loopkit.kernel.annotations import checked
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.lowered import Launch, Lowered
from loopkit.lowering.pipeline import lowered_in_one_version
from loopkit.lowering.stored import Storage
from loopkit.poly.limits import bounded
from loopkit.show.document import Document, Span, section
from loopkit.show.kernels import full_tile_conditions, is_fragment, launch_shape, values_table
from loopkit.show.remarks import Remark, remarks_on
from loopkit.show.words import counted, name_list_text
from loopkit.shown import Shown


@dataclass(frozen=True, repr=False)
class Explanation(Shown):
    """The sentences about a kernel, and remarks on its cost.

    :ivar sentences: those of each launch, by its name.
    :ivar temporaries: a sentence on each temporary, by its name.
    :ivar remarks: the costs that may be avoided.
    """

    kernel: LoopKernel
    lowered: Lowered
    sentences: Mapping[str, tuple[str, ...]]
    temporaries: Mapping[str, str]
    remarks: tuple[Remark, ...]

    @property
    def headline(self) -> str:
        return f"of kernel {self.kernel.name!r}, with {counted(len(self.remarks), 'remark')} on its cost"


@checked
def explain(knl: LoopKernel) -> Explanation:
    """Explain in sentences each launch, loop, barrier, version and temporary of *knl*, and what looks expensive.

    Costs are judged by the form of the kernel alone; nothing is measured. Sizes are taken to be large. Each remark
    names calls that may lower the cost. Complete calls against bank conflicts and guards are checked: they
    lower the number of conflicts, or remove the guard.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i, j] = 2*x[i, j]", name="rows")
    >>> knl = lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", 128, outer_tag="g.0", inner_tag="l.0")
    >>> print(lk.explain(knl))
    Explanation of kernel 'rows', with 2 remarks on its cost
    Launch 'rows'
      It runs if(1 <= n and 1 <= m, (n + 127) // 128, 0) blocks of 128 threads: a block for each
          i_outer, a thread for each i_inner.
      It computes y.
      The loop over 0 <= j < m repeats insn.
      Tiles with 128*i_outer + 128 <= n are full and run a version without guards; partial tiles run the
          general version.
    WHAT LOOKS EXPENSIVE
      insn reads x: each thread of a warp reads a sector of memory of its own, 4 of its 32 bytes. Way
          out: lk.tag_inames gives l.0 to the iname of the last axis; lk.add_prefetch(knl, 'x', ...)
          loads tiles through shared memory.
      insn writes y: each thread of a warp writes a sector of memory of its own, 4 of its 32 bytes. Way
          out: lk.tag_inames gives l.0 to the iname of the last axis.

    :raises LoopkitError: *knl* cannot be lowered; the error is that of :func:`loopkit.lower`.
    """
    with bounded(f"explaining kernel '{knl.name}'"):
        lowered = lowered_in_one_version(knl)
        pairs = tuple(zip(lowered.launches, lowered.program.functions, strict=True))
        scratch = [x for x, storage in lowered.storages.items() if storage.space is AddressSpace.GLOBAL]
        sentences = {launch.name: tuple(_launch_sentences(launch, function, scratch,
                                                          full_tile_conditions(knl, launch.name)))
                     for launch, function in pairs}
        temporaries = {name: _temporary_sentence(lowered, storage) for name, storage in lowered.storages.items()}
        return Explanation(knl, lowered, sentences, temporaries, remarks_on(knl))


def _launch_sentences(launch: Launch, function: Function, scratch: Collection[str],
                      conditions: Sequence[Expression]) -> Iterator[str]:
    on_blocks, on_threads = ([x for x, e in launch.mapping.coordinates.items()
                              if any(axis.startswith(kind) for axis in variables(e))] for kind in ("g.", "l."))
    each = [f"a {unit} for each {', '.join(inames)}"
            for unit, inames in (("block", on_blocks), ("thread", on_threads)) if inames]
    hosts = f"For each {', '.join(launch.hosts)} of the host's loops, it" if launch.hosts else "It"
    yield f"{hosts} runs {launch_shape(launch)}{': ' if each else ''}{', '.join(each)}."
    statements = [s.statement for s in launch.statements.values()]
    results = dict.fromkeys(s.written for s in statements if s.written in launch.kernel.array_args)
    passed = dict.fromkeys(s.written for s in statements if s.written in scratch)
    if results or passed:
        yield f"It computes {name_list_text([*results, *(f'the temporary {x}' for x in passed)])}."
    if launch.ticketed:
        yield "Blocks take numbers in the order in which they start, because some wait for earlier ones."
    yield from _block_sentences(function.body)
    if conditions:
        yield (f"Tiles with {' or '.join(dict.fromkeys(map(to_text, conditions)))} are full and run a version without "
               "guards; partial tiles run the general version.")


def _block_sentences(block: Block) -> Iterator[str]:
    """The loops and barriers in *block*."""
    executed: set[int] = set()                              # loops that an instruction executes
    for node in nodes_in(block):
        match node:
            case Region(instruction=instruction) if instruction is not None and instruction.scope is Scope.WARP:
                own = [x for x in nodes_in(node) if isinstance(x, For)]
                executed |= set(map(id, own))
                if own:
                    yield (f"The lanes of a warp execute the iterations of {statement_of(node)} over "
                           f"{name_list_text([x.iname for x in own])} together, by {instruction.noun}.")
            case For() if id(node) not in executed:
                inside = dict.fromkeys(x.statement for x in nodes_in(node.body) if isinstance(x, Assign))
                unrolled = ", unrolled," if node.unroll else ""
                steps = f", in steps of {node.step}" if node.step != 1 else ""
                yield (f"The loop over {to_text(node.start)} <= {node.iname} < {to_text(node.stop)}{steps}{unrolled} "
                       f"repeats {', '.join(inside)}.")
            case Sync():
                yield _sync_sentence(node)
            case _:
                pass


#: A dependence that a barrier serves.
_SERVED = re.compile(r"(\S+): (\S+) (reads|writes), (\S+) (\S+)")


def _sync_sentence(sync: Sync) -> str:
    """The purpose of a barrier, or of instructions that threads execute at such a place."""
    group = "" if sync.scope is Scope.THREAD else f" of a {sync.scope.name.lower()}"
    titles = [f"'{title}'" for i in sync.instructions for title in i.titles]
    acts = [f"executes {name_list_text(titles)}"] if titles else []
    acts += ["waits for all others at a barrier"] if group else []
    kept = [_SERVED.sub(r"\2 \3 \1 before \4 \5 it", x) for x in sync.serves]
    return f"Each thread{group} {name_list_text(acts)}{': ' if kept else ''}{'; '.join(kept)}."


# Temporaries

def _temporary_sentence(lowered: Lowered, storage: Storage) -> str:
    """The purpose of a temporary."""
    knl, name = lowered.kernel, storage.name
    accesses = accesses_by_array(knl).get(name, ())
    writers, every = (list(dict.fromkeys(a.statement for a in accesses if a.is_write is kind))
                      for kind in (True, False))
    readers = [s for s in every if s not in writers] or every
    if not writers:
        return f"{name} is constant, for {name_list_text(readers)}."
    makers, users = name_list_text(writers), name_list_text(readers)
    accumulated = [node.name for node in knl.reductions.values() if node.accumulator == name]
    if accumulated:
        return f"{name} holds the partial results of {name_list_text(accumulated)}, for {users}."
    owners = dict.fromkeys(s.rpartition(".")[0] for s in writers)   # insn.k of insn.k.step0, which lowering made
    whole = name_list_text(owners)
    if is_fragment(knl, storage):
        return f"{name} holds fragments in the registers of warps, from {makers} for {users}."
    if storage.space is AddressSpace.WARP:
        return f"{name} holds values that the lanes of a warp combine, for {whole}."
    if owners.keys() <= knl.reductions.keys():
        return f"{name} holds the results of {whole}, for {users}." if storage.space is AddressSpace.PRIVATE else \
            f"{name} passes values between the threads that compute {whole}."
    values = [knl.statement_by_id[s].expression for s in writers]
    copied = dict.fromkeys(array_of(e) for e in values if isinstance(e, p.Subscript))
    if all(isinstance(e, p.Subscript) for e in values) and copied.keys() <= knl.array_args.keys():
        return f"{name} holds copies of elements of {name_list_text(copied)}, from {makers} for {users}."
    stores = [knl.statement_by_id[s] for s in readers]
    if all(s.written in knl.array_args and isinstance(s.expression, p.Subscript | p.Variable)
           and array_of(s.expression) == name for s in stores):
        collected = name_list_text(dict.fromkeys(s.written for s in stores))
        return f"{name} collects elements of {collected}, from {makers} for {users}."
    return f"{name} passes values from {makers} to {users}."


# Showing

def explanation_document(found: Explanation) -> Document:
    """The sentences of each launch, the memory of the temporaries, and the remarks with ways out."""
    launches = (block for name, lines in found.sentences.items() for block in section(f"Launch '{name}'", lines))
    remarks = section("What looks expensive", (
        (Span(remark.text, "warning"), f" Way out: {remark.way_out}.") for remark in found.remarks))
    return Document(f"Explanation {found.headline}",
                    (*launches, *section("Temporaries", found.temporaries.values()),
                     *values_table(found.kernel, found.lowered), *remarks))
