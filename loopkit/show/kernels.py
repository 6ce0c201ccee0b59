"""The card of a kernel: what it computes, how it will run, and where its values live."""
from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod

import numpy as np
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_by_array
from loopkit.analysis.shapes import fully_written_outputs
from loopkit.ast.nodes import FULL_TILE, For, Function, If, Node, Region, Scope, Sync
from loopkit.ast.nodes import Block as ProgramBlock
from loopkit.ast.text import block_text
from loopkit.ast.walk import as_block, map_child_nodes, nodes_in
from loopkit.errors import LoopkitError
from loopkit.expr.nodes import to_text
from loopkit.expr.tuples import dtype_text
from loopkit.kernel.cost import Cost, product_text
from loopkit.kernel.data import AddressSpace, Argument, GlobalArg
from loopkit.kernel.history import History
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.printing import integer_arguments, kernel_sections
from loopkit.lowering.lowered import Launch, Lowered
from loopkit.lowering.pipeline import cost_of, lowered_in_one_version, lowered_once
from loopkit.lowering.stored import Storage
from loopkit.poly.limits import bounded
from loopkit.show.document import Block, Code, Document, Fold, Line, Paragraph, Span, Style, section, table
from loopkit.show.words import counted

#: The style of each verdict on a step, a check or a finding.
VERDICT_STYLES: Mapping[str, Style] = {"structural": "note", "proven": "good", "assumed": "warning",
                                       "unsafe": "bad", "defined": "warning", "undecided": "warning", "refuted": "bad"}

#: The meaning of the verdict on a step.
_VERDICTS = {"proven": "no dependence between instances is broken", "structural": "the step reorders nothing",
             "assumed": "the step may break dependences, and assume= gives the reason why this is right",
             "unsafe": "the step may break dependences, and unsafe=True allowed it without a reason",
             "defined": "the step defines another program, and later steps are proven for that one"}

#: The meaning of the tags of axes.
_AXES = "g.0, g.1, g.2: x, y, z of the block in the grid; l.0, l.1, l.2: x, y, z of the thread in its block"

#: Titles of sections of the printed kernel, for the card.
_TITLES = {"TEMPORARIES": "Declared temporaries", "ASSUMPTIONS": "Assumptions",
           "GIVEN ORDER": "Given order", "REDUCTIONS": "Reductions", "FUNCTIONS": "Functions", "RULES": "Rules",
           "STATEMENTS": "Statements", "BARRIERS": "Requested barriers"}


def kernel_document(knl: LoopKernel) -> Document:
    """The card of *knl*; where *knl* cannot be lowered yet, the reason is in the place of what lowering finds.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="twice")
    >>> print(lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", 128, outer_tag="g.0", inner_tag="l.0"))
    KERNEL twice
    1 launch, 128 threads a block, 0 barriers
    AS WRITTEN
      y[i] = 2*x[i]
    ARGUMENTS
      name  dtype    shape  strides  use
      n     int                      size
      x     float32  (n,)   (1,)     read
      y     float32  (n,)   (1,)     written
      strides in elements, of contiguous arrays; other strides are arguments of another version of the
          code
    ASSUMPTIONS
      n >= 0
    DOMAINS
      [n] -> { [i_outer, i_inner] : i_outer >= 0 and 0 <= i_inner <= 127 and i_inner < n - 128i_outer }
    TAGS
      i_outer: g.0, i_inner: l.0
      g.0, g.1, g.2: x, y, z of the block in the grid; l.0, l.1, l.2: x, y, z of the thread in its block
    STATEMENTS
      for i_outer [g.0], i_inner [l.0]
        y[128*i_outer + i_inner] = 2*x[128*i_outer + i_inner]  {id=insn}
      end
    AS IT RUNS
      Launch twice
        (n + 127) // 128 blocks of 128 threads
        i_outer = g.0
        i_inner = l.0
        if 128*i_outer + i_inner < n
          y[128*i_outer + i_inner] = 2*x[128*i_outer + i_inner]  {id=insn}
    STEPS
      step  call                                                          verdict
      1     add_dtypes(knl, {'x': np.float32})                            structural
      2     split_iname(knl, 'i', 128, outer_tag='g.0', inner_tag='l.0')  proven
      proven: no dependence between instances is broken; structural: the step reorders nothing
    """
    with bounded(f"showing kernel '{knl.name}'"):
        found, lowered = kernel_sections(knl), if_lowered(knl)
        shown = {title: section(own, found[title], is_code=title == "STATEMENTS") for title, own in _TITLES.items()}
        tags = section("Tags", [", ".join(found["TAGS"]), *([_AXES] if knl.tags else [])] if found["TAGS"] else ())
        options = section("Options", filter(None, [knl.options.headline]))
        temporaries = shown["TEMPORARIES"] if isinstance(lowered, LoopkitError) else ()
        return Document(f"KERNEL {knl.name}", (
            *_summary(lowered), *_as_written(knl.history), *_argument_table(knl, lowered), *shown["ASSUMPTIONS"],
            *section("Domains", found["DOMAINS"], is_open=False), *tags, *shown["GIVEN ORDER"], *shown["REDUCTIONS"],
            *shown["FUNCTIONS"], *shown["RULES"], *options, *temporaries, *shown["STATEMENTS"], *shown["BARRIERS"],
            Fold("As it runs", tuple(_running(knl, lowered))), *values_table(knl, lowered),
            *section("Obligations", (Span(x, "warning") for x in found["OBLIGATIONS"])), *_step_table(knl.history)))


def if_lowered(knl: LoopKernel) -> Lowered | LoopkitError:
    """*knl* through all stages, each launch in one version with all of its guards; or the reason why it is refused."""
    try:
        return lowered_in_one_version(knl)
    except LoopkitError as refusal:
        return refusal


def _summary(lowered: Lowered | LoopkitError) -> tuple[Block, ...]:
    """The size of the kernel in a line."""
    if isinstance(lowered, LoopkitError):
        return ()
    barriers = sum(map(barriers_of, lowered.program.functions))
    scratch = any(s.space is AddressSpace.GLOBAL for s in lowered.storages.values())
    each = [f"{to_text(launch.threads)} thread{'' if launch.threads == 1 else 's'} a block"
            for launch in lowered.launches]
    hosts = dict.fromkeys(f"a loop over {x.iname} on the host" for x in nodes_in(lowered.program.order)
                          if isinstance(x, For))
    line: list[str | Span] = [", ".join((counted(len(lowered.launches), "launch"), *hosts, *dict.fromkeys(each),
                                         counted(barriers, "barrier")))]
    if scratch:
        line.append(Span(", temporaries in global memory", "warning"))
    return (Paragraph((tuple(line),)),)


def barriers_of(function: Function) -> int:
    """The number of barriers in the text of *function*."""
    return sum(isinstance(node, Sync) and node.scope is not Scope.THREAD for node in nodes_in(function.body))


def shared_bytes(function: Function) -> int:
    """The bytes of shared memory of a block."""
    return sum(prod(a.shape)*a.dtype.itemsize for a in function.arrays if a.shared)


def full_tile_conditions(knl: LoopKernel, launch: str) -> tuple[Expression, ...]:
    """The conditions under which *launch* runs a version without guards for full tiles."""
    function = next(f for f in lowered_once(knl).program.functions if f.name == launch)
    return tuple(node.condition for node in nodes_in(function.body)
                 if isinstance(node, If) and node.comment == FULL_TILE)


def _as_written(history: History) -> tuple[Block, ...]:
    """The instructions as the user wrote them, if steps changed them since."""
    if history.made is None or not history:
        return ()
    _, instructions = history.made.args
    lines = instructions if isinstance(instructions, str) else "\n".join(map(str, instructions))  # type: ignore[call-overload]
    return section("As written", textwrap.dedent(lines).strip("\n").splitlines(), is_code=True)


# Arguments

def _argument_table(knl: LoopKernel, lowered: Lowered | LoopkitError) -> tuple[Block, ...]:
    known = knl if isinstance(lowered, LoopkitError) else lowered.kernel
    shapes = {} if isinstance(lowered, LoopkitError) else lowered.shapes
    sizes = integer_arguments(knl)
    dtypes = {a.name: dtype_text(np.dtype(a.dtype)) for a in known.arguments if a.dtype is not None}
    rows = [(a.name, dtypes.get(a.name, "int" if a.name in sizes else ""), *_layout(a, shapes.get(a.name)),
             _use(known, a, sizes), str(getattr(a, "cache_policy", None) or "")) for a in known.arguments]
    notes = {"strides in elements, of contiguous arrays; other strides are arguments of another version of the code":
             any(shapes.get(name) and a.strides is None for name, a in known.array_args.items()),
             "?: the extent depends on data": any("?" in shape for _, _, shape, _, _, _ in rows)}
    return table("Arguments", ("name", "dtype", "shape", "strides", "use", "cache policy"), rows,
                 [note for note, has_it in notes.items() if has_it])


def _layout(argument: Argument, shape: Sequence[Expression | None] | None) -> tuple[str, str]:
    """The shape, and the declared strides, or those of a contiguous array."""
    if not isinstance(argument, GlobalArg) or shape is None:
        return "", ""
    extents = ["?" if e is None else to_text(e) for e in shape]
    if argument.strides is not None:
        return _tuple(extents), _tuple(["any" if e is None else to_text(e) for e in argument.strides])
    axes = tuple(range(len(shape)))
    order = axes[::-1] if argument.order == "F" else axes if isinstance(argument.order, str | None) else argument.order
    inner = [[shape[k] for k in order[order.index(axis) + 1:]] for axis in axes]
    strides = [product_text(e for e in rest if e is not None) if None not in rest else "?" for rest in inner]
    return _tuple(extents), _tuple(strides)


def _tuple(parts: Sequence[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _use(knl: LoopKernel, argument: Argument, sizes: Collection[str]) -> str:
    if not isinstance(argument, GlobalArg):
        return "size" if argument.name in sizes else "number"
    accesses = accesses_by_array(knl).get(argument.name, ())
    written = "written" if argument.name in fully_written_outputs(knl) else "written in part"
    return ", ".join(word for word, is_write in (("read", False), (written, True))
                     if any(a.is_write is is_write for a in accesses))


# The order in which it runs

def _running(knl: LoopKernel, lowered: Lowered | LoopkitError) -> Iterator[Block]:
    if isinstance(lowered, LoopkitError):
        yield Paragraph((Span(f"not known yet: {lowered.message}", "note"),))
        return
    cost: Cost = cost_of(knl)
    host = tuple(Span(line, "warning" if "on the host" in line else "") for line in cost.launch_lines())
    yield from (Paragraph(host),) if host else ()
    for launch, function in zip(lowered.launches, lowered.program.functions, strict=True):
        lines = [f"{x} = {to_text(e)}" for x, e in function.coordinates.items()]
        lines += block_text(_in_one_part(function.body)).splitlines()
        code = tuple(Span(line, "note" if line.lstrip().startswith("#") else "") for line in lines)
        yield Fold(f"Launch {launch.name}", (Paragraph(tuple(_launch_shape(launch))), Code(code)))


def _launch_shape(launch: Launch) -> Iterator[Line]:
    hosts = f"for each {', '.join(launch.hosts)}: " if launch.hosts else ""
    tickets = ", blocks by tickets" if launch.ticketed else ""
    yield f"{hosts}{launch_shape(launch)}{tickets}"
    if (*launch.grid, *launch.block) == (1,)*6:
        yield Span("one thread runs all of it: no iname is on an axis of blocks or threads", "warning")


def launch_shape(launch: Launch) -> str:
    """``(n + 127) // 128 blocks of 128 threads``."""
    grid, block = (" x ".join(map(to_text, _long_extents(x))) for x in (launch.grid, launch.block))
    return f"{grid} block{'' if grid == '1' else 's'} of {block} thread{'' if block == '1' else 's'}"


def _long_extents(extents: Sequence[Expression]) -> Sequence[Expression]:
    """*extents* without the last ones that are 1."""
    return extents[:1] if all(e == 1 for e in extents[1:]) else (*extents[:1], *_long_extents(extents[1:]))


def _in_one_part(block: ProgramBlock) -> ProgramBlock:
    """*block* without the borders of regions, which are there for the host."""
    def opened(node: Node) -> Iterator[Node]:
        match node:
            case Region(body) if node.instruction is None:
                for child in body.children:
                    yield from opened(child)
            case _:
                yield map_child_nodes(node, lambda child: _in_one_part(as_block(child)))
    return ProgramBlock(tuple(new for node in block.children for new in opened(node)))


# The memory of its temporaries

def values_table(knl: LoopKernel, lowered: Lowered | LoopkitError) -> tuple[Block, ...]:
    """The memory of each temporary, and why it is there."""
    if isinstance(lowered, LoopkitError):
        return ()
    rows: dict[tuple[object, ...], tuple[Span, ...]] = {}
    for storage in lowered.storages.values():
        name = f"{dtype_text(storage.dtype)} {storage.name}{''.join(f'[{to_text(e)}]' for e in storage.in_memory)}"
        place = _memory_of(knl, lowered, storage)
        # scalars of one kind share a row
        key = (storage.dtype, place) if storage.space is AddressSpace.PRIVATE and not storage.shape else (name,)
        names = f"{rows[key][0].text}, {storage.name}" if key in rows else name
        rows[key] = (Span(names, place[0].style), *place)
    sizes = ("bytes a thread", "bytes a block", "bytes a call")
    return table("Where values live", ("temporary", "memory", "because", *sizes), rows.values(), _totals(lowered))


def _memory_of(knl: LoopKernel, lowered: Lowered, storage: Storage) -> tuple[Span, ...]:
    """Its memory, the reason, and the bytes of each thread, block and call."""
    size = product_text((storage.dtype.itemsize, *storage.shape))
    own = storage.in_memory[:len(storage.shape) - len(storage.lanes)]
    memory, sizes = {
        AddressSpace.PRIVATE: ("registers", (size, "", "")),
        AddressSpace.WARP: ("registers, exchanged within a warp",
                            (product_text((storage.dtype.itemsize, *own)), "", "")),
        AddressSpace.SHARED: ("shared memory", ("", size, "")),
        AddressSpace.GLOBAL: ("global memory", ("", "", size)),
        AddressSpace.CONSTANT: ("constant memory", ("", "", ""))}[storage.space]
    style: Style = "warning" if storage.space is AddressSpace.GLOBAL else ""
    return tuple(Span(text, style) for text in (memory, _reason(knl, lowered, storage), *sizes))


def _reason(knl: LoopKernel, lowered: Lowered, storage: Storage) -> str:
    given, accesses = knl.temporaries.get(storage.name), accesses_by_array(lowered.kernel).get(storage.name, ())
    writers, readers = ([x.name for x in lowered.launches if any(
        a.statement in x.statements and a.is_write is is_write for a in accesses)] for is_write in (True, False))
    if storage.space is AddressSpace.CONSTANT:
        reason = f"{product_text((storage.dtype.itemsize, *storage.shape))} bytes of the generated text"
    elif is_fragment(lowered.kernel, storage):
        reason = "fragments of matrix instructions"
    elif given is not None and given.address_space is not None:
        reason = f"declared {given.address_space}"
    elif storage.space is AddressSpace.GLOBAL and len({*writers, *readers}) > 1:
        reason = f"written by {' and '.join(writers)}, read by {' and '.join(readers)}"
    elif storage.space is AddressSpace.GLOBAL and storage.needed is not AddressSpace.GLOBAL:
        reading = "each thread reads its own values" if storage.needed is AddressSpace.PRIVATE else \
            "threads of a block read each other's values"
        reason = f"{reading}, whose number depends on the sizes"
    else:
        reason = {AddressSpace.PRIVATE: "private to each thread",
                  AddressSpace.WARP: "the threads of a warp combine their values",
                  AddressSpace.SHARED: "threads of a block read each other's values",
                  AddressSpace.GLOBAL: "blocks, or iterations of the host's loops, read each other's values",
                  }[storage.space]
    return reason + (f"; a value for each {', '.join(storage.lead)} at a time" if storage.lead else "")


def is_fragment(knl: LoopKernel, storage: Storage) -> bool:
    """Does it hold fragments, which an instruction reads in the registers of a warp?"""
    readers = (a.statement for a in accesses_by_array(knl).get(storage.name, ()) if not a.is_write)
    return storage.space is AddressSpace.WARP and any(knl.statement_by_id[s].loads_for_others for s in readers)


def _totals(lowered: Lowered) -> Iterator[Line]:
    for function in lowered.program.functions:
        own = [(a, a.shape[:len(a.shape) - a.thread_axes]) for a in function.arrays if not (a.shared or a.initializer)]
        private = sum(prod(shape)*a.dtype.itemsize for a, shape in own if shape)
        for what, size in (("shared memory a block", shared_bytes(function)), ("register arrays a thread", private)):
            if size:
                yield f"{function.name}: {size} bytes of {what}"


# Its steps

def _step_table(history: History) -> tuple[Block, ...]:
    rows = [(str(number), str(step).removeprefix("knl = lk."), Span(step.verdict, VERDICT_STYLES[step.verdict]),
             Span("; ".join(step.effects), "warning")) for number, step in enumerate(history, 1)]
    found = {step.verdict for step in history}
    return table("Steps", ("step", "call", "verdict", "also changes"), rows, [
        "; ".join(f"{verdict}: {text}" for verdict, text in _VERDICTS.items() if verdict in found)])
