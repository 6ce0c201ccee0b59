"""The card of a kernel: what it computes, how it will run, and where its values live."""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod

from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_by_array
from loopkit.errors import LoopkitError
from loopkit.expr.nodes import to_text
from loopkit.kernel.cost import MEMORIES, OWNERS, Cost, product_text
from loopkit.kernel.data import AddressSpace, Argument, GlobalArg
from loopkit.kernel.history import History
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.printing import integer_arguments, kernel_sections, loop_lines
from loopkit.lowering.lowered import Launch, Lowered, Storage
from loopkit.lowering.pipeline import cost_of, lowered_once
from loopkit.poly.limits import bounded
from loopkit.show.document import Block, Code, Document, Fold, Line, Paragraph, Span, Style, section, table

#: The style of each verdict on a step, a check or a finding.
VERDICT_STYLES: Mapping[str, Style] = {"structural": "note", "proven": "good", "assumed": "warning",
                                       "unsafe": "bad", "undecided": "warning", "refuted": "bad"}

#: Titles of sections of the printed kernel, for the card.
_TITLES = {"TEMPORARIES": "Declared temporaries", "ASSUMPTIONS": "Assumptions",
           "GIVEN ORDER": "Given order", "REDUCTIONS": "Reductions", "RULES": "Rules", "STATEMENTS": "Statements",
           "BARRIERS": "Requested barriers"}


def kernel_document(knl: LoopKernel) -> Document:
    """The card of *knl*; what lowering finds is left out, with the reason, where *knl* cannot be lowered yet.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="twice")
    >>> print(lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", 128, outer_tag="g.0", inner_tag="l.0"))
    KERNEL twice
    ARGUMENTS
      name  dtype    shape  strides  use
      n     int                      size
      x     float32  (n,)   (1,)     read
      y     float32  (n,)   (1,)     written
      Strides of contiguous arrays, in elements; a call with other strides runs a text that takes them.
    ASSUMPTIONS
      n >= 0
    DOMAINS
      [n] -> { [i_outer, i_inner] : i_outer >= 0 and 0 <= i_inner <= 127 and i_inner < n - 128i_outer }
    TAGS
      i_outer: g.0, i_inner: l.0
    STATEMENTS
      for i_outer [g.0], i_inner [l.0]
        y[128*i_outer + i_inner] = 2*x[128*i_outer + i_inner]  {id=insn}
      end
    AS IT RUNS
      LAUNCH TWICE
        grid ((n + 127) // 128, 1, 1), block (128, 1, 1)
        i_outer = g.0, i_inner = l.0
        y[128*i_outer + i_inner] = 2*x[128*i_outer + i_inner]  {id=insn}
    STEPS
      step  call                                                          verdict
      1     add_dtypes(knl, {'x': np.float32})                            structural
      2     split_iname(knl, 'i', 128, outer_tag='g.0', inner_tag='l.0')  proven
    """
    with bounded(f"showing kernel '{knl.name}'"):
        found = kernel_sections(knl)
        lowered = _if_lowered(knl)
        shown = {title: section(own, found[title], is_code=title == "STATEMENTS") for title, own in _TITLES.items()}
        tags = section("Tags", filter(None, [", ".join(found["TAGS"])]))
        return Document(f"KERNEL {knl.name}", (
            *_argument_table(knl, lowered), *shown["ASSUMPTIONS"], *section("Domains", found["DOMAINS"], is_open=False),
            *tags, *shown["GIVEN ORDER"], *shown["REDUCTIONS"], *shown["RULES"], *shown["TEMPORARIES"],
            *shown["STATEMENTS"], *shown["BARRIERS"],
            Fold("As it runs", tuple(_running(knl, lowered))), *_values(knl, lowered),
            *section("Obligations", (Span(x, "warning") for x in found["OBLIGATIONS"])),
            *_steps(knl.history)))


def _if_lowered(knl: LoopKernel) -> Lowered | LoopkitError:
    try:
        return lowered_once(knl)
    except LoopkitError as refusal:
        return refusal


# Arguments

def _argument_table(knl: LoopKernel, lowered: Lowered | LoopkitError) -> tuple[Block, ...]:
    known = knl if isinstance(lowered, LoopkitError) else lowered.kernel
    shapes = {} if isinstance(lowered, LoopkitError) else lowered.shapes
    sizes = integer_arguments(knl)
    rows = [(a.name, str(a.dtype or ("int" if a.name in sizes else "")), *_layout(a, shapes.get(a.name)),
             _use(known, a, sizes), str(getattr(a, "cache_policy", None) or "")) for a in known.arguments]
    notes = ["Strides of contiguous arrays, in elements; a call with other strides runs a text that takes them."]
    return table("Arguments", ("name", "dtype", "shape", "strides", "use", "cache policy"), rows,
                 notes if any(strides for _, _, _, strides, _, _ in rows) else ())


def _layout(argument: Argument, shape: Sequence[Expression | None] | None) -> tuple[str, str]:
    """The shape, and the strides of a contiguous array."""
    if not isinstance(argument, GlobalArg) or shape is None:
        return "", ""
    extents = ["?" if e is None else to_text(e) for e in shape]
    inner = [shape[i + 1:] for i in range(len(shape))]
    strides = [product_text(e for e in rest if e is not None) if None not in rest else "?" for rest in inner]
    return _tuple(extents), _tuple(strides)


def _tuple(parts: Sequence[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _use(knl: LoopKernel, argument: Argument, sizes: Collection[str]) -> str:
    if not isinstance(argument, GlobalArg):
        return "size" if argument.name in sizes else "number"
    accesses = accesses_by_array(knl).get(argument.name, ())
    return ", ".join(word for word, is_write in (("read", False), ("written", True))
                     if any(a.is_write is is_write for a in accesses))


# The order in which it runs

def _running(knl: LoopKernel, lowered: Lowered | LoopkitError) -> Iterator[Block]:
    if isinstance(lowered, LoopkitError):
        yield Paragraph((Span(f"not known yet: {lowered.message}", "note"),))
        return
    cost: Cost = cost_of(knl)
    host = tuple(Span(line, "warning" if "on the host" in line else "") for line in cost.launch_lines())
    yield from (Paragraph(host),) if host else ()
    for launch in lowered.launches:
        order = tuple(Span(line, "note" if line.lstrip().startswith("...") else "")
                      for line in loop_lines(launch.kernel, launch.tree))
        yield Fold(f"Launch {launch.name}", (Paragraph(tuple(_launch_shape(launch))), Code(order)))


def _launch_shape(launch: Launch) -> Iterator[Line]:
    hosts = f"for each {', '.join(launch.hosts)}: " if launch.hosts else ""
    tickets = ", blocks by tickets" if launch.ticketed else ""
    yield f"{hosts}grid ({', '.join(map(to_text, launch.grid))}), block {launch.block}{tickets}"
    if launch.mapping.coordinates:
        yield ", ".join(f"{x} = {to_text(e)}" for x, e in launch.mapping.coordinates.items())


# The memory of its temporaries

def _values(knl: LoopKernel, lowered: Lowered | LoopkitError) -> tuple[Block, ...]:
    if isinstance(lowered, LoopkitError):
        return ()
    rows = [_value(knl, lowered, storage) for storage in lowered.storages.values()]
    return table("Where values live", ("temporary", "memory", "because", "a thread", "a block", "a call"), rows,
                 _totals(lowered))


def _value(knl: LoopKernel, lowered: Lowered, storage: Storage) -> tuple[Line, ...]:
    users = [x for x in lowered.launches
             if any(a.statement in x.statements for a in accesses_by_array(lowered.kernel).get(storage.name, ()))]
    element, threads = storage.dtype.itemsize, users[0].threads if users else 1
    own = (element, *storage.shape)
    sizes = {AddressSpace.PRIVATE: (own, (*own, threads), ()), AddressSpace.WARP: ((element,), own, ()),
             AddressSpace.SHARED: ((), own, ()), AddressSpace.GLOBAL: ((), (), own)}[storage.space]
    style: Style = "warning" if storage.space is AddressSpace.GLOBAL else ""
    texts = (f"{storage.dtype} {storage.name}{''.join(f'[{to_text(e)}]' for e in storage.in_memory)}",
             MEMORIES[storage.space], _reason(knl, storage, users),
             *(f"{product_text(factors)} bytes" if factors else "" for factors in sizes))
    return tuple(Span(text, style) for text in texts)


def _reason(knl: LoopKernel, storage: Storage, users: Sequence[Launch]) -> str:
    given = knl.temporaries.get(storage.name)
    if given is not None and given.address_space is not None:
        reason = f"declared {given.address_space}"
    elif storage.space is AddressSpace.GLOBAL and len(users) > 1:
        reason = f"the launches {', '.join(x.name for x in users)} use it"
    else:
        reason = {AddressSpace.PRIVATE: "each thread reads its own values alone",
                  AddressSpace.WARP: "the threads of a warp combine their values",
                  AddressSpace.SHARED: "threads of a block read each other's values",
                  AddressSpace.GLOBAL: "blocks, or iterations of the host's loops, read each other's values",
                  }[storage.space]
    return reason + (f"; a value for each {', '.join(storage.lead)} at a time" if storage.lead else "")


def _totals(lowered: Lowered) -> Iterator[Line]:
    for function in lowered.program.functions:
        shared = [a for a in function.arrays if a.shared]
        private = [a for a in function.arrays if a.shape and not (a.shared or a.thread_axes)]
        for what, arrays in (("shared memory a block", shared), ("register arrays a thread", private)):
            if arrays:
                yield f"{function.name}: {sum(prod(a.shape)*a.dtype.itemsize for a in arrays)} bytes of {what}"
    scratch = [s for s in lowered.storages.values() if s.space is AddressSpace.GLOBAL]
    if scratch:
        total = " + ".join(product_text((s.dtype.itemsize, *s.shape)) for s in scratch)
        yield Span(f"global memory for temporaries: {total} bytes a {OWNERS[AddressSpace.GLOBAL]}", "warning")


# Its steps

def _steps(history: History) -> tuple[Block, ...]:
    rows = [(str(number), str(step).removeprefix("knl = lk."), Span(step.verdict, VERDICT_STYLES[step.verdict]),
             Span("; ".join(step.effects), "warning")) for number, step in enumerate(history, 1)]
    return table("Steps", ("step", "call", "verdict", "also changes"), rows)
