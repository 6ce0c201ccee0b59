"""The picture of an error with two instances: when each of them runs, before the step and after it."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

from loopkit.analysis.accesses import data_params
from loopkit.analysis.sizes import sizes_at_least
from loopkit.errors import (
    IllegalTransformError,
    LoopkitError,
    PreconditionError,
    VerificationError,
    Witness,
    cell_text,
    instance_text,
    values_text,
)
from loopkit.interpreter.instances import Half, Instance, broken_orders, reference_order
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import writing_ends
from loopkit.poly.limits import affordable, bounded
from loopkit.poly.points import all_points
from loopkit.show.document import Picture
from loopkit.show.drawing import FRAME, KINDS, LINE, QUIET, box, head, label, quiet_lines, svg, widest
from loopkit.show.plot import Plot

#: The most instances of a kernel whose orders are found, and the value of a size that the witness leaves open.
_MOST_ORDERED, _USUAL_OPEN_SIZE = 2000, 3

#: The characters of a line in a box, unless an iname alone is longer.
_LONGEST_LINE = 24

_KINDS_OF_ORDER = ("flow", "anti", "output")

#: Colours of the instance that must run first and of the other one.
_FIRST, _SECOND = KINDS[0], KINDS[5]


@dataclass(frozen=True)
class OrderStep:
    """A place in an order.

    :ivar lines: an instance and its action; empty: *left_out* instances.
    :ivar role: 1: it must run first; 2: it must run later; 0: neither.
    """

    lines: tuple[str, ...]
    role: int = 0
    left_out: int = 0

    @property
    def text(self) -> str:
        return " ".join(self.lines) if self.lines else f"... {self.left_out} more ..." if self.left_out else "..."


@dataclass(frozen=True)
class OrderRow:
    """An order of instances under a title."""

    title: str
    steps: tuple[OrderStep, ...]

    @property
    def text(self) -> str:
        return f"{self.title}: {', '.join(step.text for step in self.steps)}"


def ordered_witness(error: LoopkitError) -> Witness | None:
    """The witness of *error*, if the order of its two instances is wrong; the value of a copy may be wrong instead."""
    witness = error.witness if isinstance(error, IllegalTransformError | VerificationError) else None
    return witness if isinstance(witness, Witness) and witness.kind in (*_KINDS_OF_ORDER, "explicit") else None


def error_plot(error: LoopkitError) -> Plot:
    """The two instances of *error* and their order; see :meth:`loopkit.LoopkitError.plot`."""
    witness = ordered_witness(error)
    if witness is None:
        raise PreconditionError("This error does not name two instances with an order, so there is no order to draw.",
                                subject="plot", hint="print(err) shows all that is known")
    if not isinstance(error, IllegalTransformError):
        rows: tuple[OrderRow, ...] = (OrderRow("one thread", (_end_steps(witness)[0],)),
                                      OrderRow("another thread", (_end_steps(witness)[1],)))
    else:
        # lowering finds some conflicts in one kernel, without a step
        titles = ("before", "after") if error.before is not error.after else ("reference order", "as it runs")
        bare = _bare_rows(witness, titles)
        if error.before is not None:
            with bounded(f"drawing an error of kernel '{error.before.name}'"):
                rows = affordable(lambda: _both_rows(error, witness, titles) or bare, otherwise=bare)
        else:
            rows = bare
    words = "\n".join(row.text for row in rows)
    at = values_text(witness.parameters, ", {}")
    (source, _), (sink, _) = witness.source, witness.sink
    ends = f"two instances of {source}" if source == sink else f"instances of {source} and {sink}"
    return Plot(f"Order of {ends}{at}", Picture(_order_drawing(rows, words), words))


# The orders

def _end_steps(witness: Witness) -> tuple[OrderStep, OrderStep]:
    """The two instances with their actions."""
    first, second = (OrderStep((instance_text(*at), *_end_action(witness, role)), role)
                     for role, at in ((1, witness.source), (2, witness.sink)))
    return first, second


def _end_action(witness: Witness, role: int) -> tuple[str, ...]:
    cell = cell_text(witness.array, witness.element)
    if witness.kind == "explicit":
        return ()
    return (f"{'writes' if writing_ends(witness.kind)[role - 1] else 'reads'} {cell}",)


def _bare_rows(witness: Witness, titles: tuple[str, str]) -> tuple[OrderRow, ...]:
    """The two instances alone, where the others are not known."""
    first, second = _end_steps(witness)
    between = OrderStep(())
    return OrderRow(titles[0], (first, between, second)), OrderRow(f"{titles[1]}, possibly", (second, between, first))


def _both_rows(error: IllegalTransformError, witness: Witness, titles: tuple[str, str]) -> tuple[OrderRow, ...] | None:
    """The order before the step, and one that it would allow; ``None``: they are not known."""
    before, after = error.before, error.after
    known = {x: v for x, v in witness.parameters.items() if x in before.value_params}
    sizes = sizes_at_least((after or before).assumptions, known,
                           dict.fromkeys(sorted(before.value_params), _USUAL_OPEN_SIZE))
    found = _every_instance(before, sizes)
    source, sink = (_known_instance(before, at) for at in (witness.source, witness.sink))
    first, second = _bare_rows(witness, titles)
    if found is not None and source in found and sink in found and _same_instances(before, after, witness):
        first = OrderRow(titles[0], _near_steps(before, reference_order(before, found), witness, (source, sink)))
    if after is None:
        return first, second
    found = _every_instance(after, sizes)
    source, sink = (_known_instance(after, at) for at in (witness.source, witness.sink))
    if found is None or source is None or sink is None or source not in found or sink not in found:
        return None
    title, order = next(broken_orders(after, found, sizes, source, sink), ("", ()))
    if not order:
        if witness.array not in after.temporaries:
            return None
        title, order = "the value would be lost", reference_order(after, found)
    return first, OrderRow(f"{titles[1]}, {title}", _near_steps(after, order, witness, (source, sink)))


def _same_instances(before: LoopKernel, after: LoopKernel | None, witness: Witness) -> bool:
    """Do the values of the witness's inames mean the same instances in both kernels?"""
    names = {witness.source[0], witness.sink[0]}
    pairs = [] if after is None else [(before.statement_by_id[x], after.statement_by_id.get(x)) for x in names]
    return all(b is not None and (a.assignee, a.expression) == (b.assignee, b.expression) for a, b in pairs)


def _every_instance(knl: LoopKernel, sizes: dict[str, int]) -> list[Instance] | None:
    """All instances of *knl*; ``None``: they are too many, or depend on data."""
    found: list[Instance] = []
    for s in knl.statements:
        points = None if data_params(knl, s.domain) else all_points(s.domain, sizes, _MOST_ORDERED)
        if points is None or len(found) + len(points) > _MOST_ORDERED:
            return None
        found += [Instance(s.id, x) for x in points]
    return found


def _known_instance(knl: LoopKernel, at: tuple[str, Mapping[str, int]]) -> Instance | None:
    """The instance *at* of *knl*; ``None``: its statement is not in *knl*, or has other inames."""
    statement, values = at
    s = knl.statement_by_id.get(statement)
    if s is None or values.keys() != set(s.inames):
        return None
    return Instance(statement, tuple(values[x] for x in s.inames))


def _near_steps(knl: LoopKernel, order: Sequence[Instance | Half], witness: Witness, ends: Sequence[Instance | None]
                ) -> tuple[OrderStep, ...]:
    """The steps of *order* near the two *ends*, with its first and its last one."""
    every = [_order_step(knl, x, witness, ends) for x in order]
    marked = [i for i, step in enumerate(every) if step.role]
    near = sorted({0, len(every) - 1, *(j for i in marked for j in (i - 1, i, i + 1) if 0 <= j < len(every))})
    shown: list[OrderStep] = []
    last = -1
    for i in near:
        if i > last + 1:
            shown.append(OrderStep((), left_out=i - last - 1))
        shown.append(every[i])
        last = i
    return tuple(shown)


def _order_step(knl: LoopKernel, x: Instance | Half, witness: Witness, ends: Sequence[Instance | None]) -> OrderStep:
    """An instance, or one half of it: of a vector that reads all of its elements before it writes them."""
    instance, half = (x, None) if isinstance(x, Instance) else x
    role = ends.index(instance) + 1 if instance in ends else 0
    action = _end_action(witness, role) if role else ()
    if half is None:
        return OrderStep((instance.text(knl), *action), role)
    verb = "writes" if half else "reads"
    is_end = not action or action[0].startswith(verb)
    return OrderStep((instance.text(knl), *(action if is_end and action else (verb,))), role if is_end else 0)


# The drawing

def _order_drawing(rows: Sequence[OrderRow], words: str) -> str:
    """The rows under each other; in each an arrow from the instance that must run first to the other one."""
    parts: list[str] = []
    y, right = 0.0, 0.0
    for row in rows:
        parts.append(label(4, y + LINE/2, row.title, bold=True))
        high = LINE*max(len(_box_lines(step)) for step in row.steps) + 6
        top, x = y + LINE + (18 if len(row.steps) > 1 else 4), 8.0
        middles: dict[int, float] = {}
        for step in row.steps:
            wide = widest(_box_lines(step) or (step.text,)) + 16
            parts += _step_box(step, x, top, wide, high)
            if step.role:
                middles[step.role] = x + wide/2
            x += wide + 10
        if len(middles) == 2:
            parts += _arc_between(middles[1], middles[2], top)
        right, y = max(right, x, widest((row.title,)) + 8), top + high + 14
    notes = list(_order_notes(rows))
    parts += quiet_lines(y - 4, notes)
    return svg(max(right, widest(notes) + 8), y + LINE*len(notes), parts, words)


def _order_notes(rows: Sequence[OrderRow]) -> Iterator[str]:
    if any(len(row.steps) > 1 for row in rows):
        yield "arrow: from the instance that must run first to the other; time runs from left to right"
    else:
        yield "nothing makes one of the threads wait for the other"


def _step_box(step: OrderStep, x: float, y: float, wide: float, high: float) -> Iterator[str]:
    if not step.lines:
        yield label(x + wide/2, y + high/2, step.text, anchor="middle", colour=QUIET)
        return
    colour = (None, _FIRST, _SECOND)[step.role]
    yield box(x, y, wide, high, fill=colour or "none", opacity=.25, stroke=colour or FRAME)
    lines = _box_lines(step)
    for i, line in enumerate(lines):
        yield label(x + wide/2, y + high/2 + (i - (len(lines) - 1)/2)*LINE, line, anchor="middle",
                    bold=line not in step.lines[1:] and bool(step.role))


def _box_lines(step: OrderStep) -> list[str]:
    """The lines of *step*, those of long instances broken between inames."""
    return [part for line in step.lines for part in wrap(line, _LONGEST_LINE, break_long_words=False)]


def _arc_between(start: float, end: float, y: float) -> Iterator[str]:
    """The arrow above two boxes; one that goes back in time is red."""
    colour = _FIRST if start < end else _SECOND
    dashes = "" if start < end else ' stroke-dasharray="5 3"'
    yield (f'<path d="M{start:.1f} {y:.1f}C{start:.1f} {y - 20:.1f} {end:.1f} {y - 20:.1f} {end:.1f} {y - 5:.1f}" '
           f'stroke="{colour}" stroke-width="1.5"{dashes} fill="none"/>')
    yield head(end, y, 0, 1, colour=colour)
