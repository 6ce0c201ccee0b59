"""The picture of the dependences between statements: kinds, arrays and distances."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopkit.analysis.dependences import is_reorderable, with_assumed
from loopkit.errors import require_known
from loopkit.expr.nodes import to_text
from loopkit.kernel.annotations import checked
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, Statement
from loopkit.kernel.tree import leaves
from loopkit.poly.limits import bounded
from loopkit.poly.relations import distances, shared_dims
from loopkit.show.document import Picture
from loopkit.show.drawing import KINDS
from loopkit.show.graph import GraphEdge, GraphNode, graph_drawing
from loopkit.show.plot import Plot
from loopkit.show.words import counted

#: The most statements and pairs of dependent statements of a drawing, lines of a label, and characters of a statement.
MOST_NODES, MOST_EDGES = 16, 40
_MOST_LABEL_LINES, _LONGEST_STATEMENT = 4, 36

_COLOURS: Mapping[str, str] = {"flow": KINDS[0], "anti": KINDS[1], "output": KINDS[5], "explicit": KINDS[7]}


@dataclass(frozen=True)
class Arc:
    """The dependences from a statement to another or to itself, each in words, and the kind of the first."""

    source: str
    sink: str
    kind: str
    texts: tuple[str, ...]


@checked
def dependences_picture(knl: LoopKernel, *, statements: Sequence[str] | None = None) -> Plot:
    """The dependences between statements; see :meth:`loopkit.LoopKernel.plot`."""
    with bounded(f"drawing kernel '{knl.name}'"):
        order = list(leaves(knl.tree))
        if statements is not None:
            require_known("statement", statements, order)
            order = [x for x in order if x in statements]
        return dependences_plot(knl, order)


def dependences_plot(knl: LoopKernel, order: Sequence[str]) -> Plot:
    """The dependences between the statements *order*, which are in the reference order."""
    found = arcs(knl, order)
    words = "\n".join(_arc_lines(knl, order, found))
    shown = order[:MOST_NODES]
    drawn = [arc for arc in found if arc.source in shown and arc.sink in shown][:MOST_EDGES]
    notes = ["dashed: to a statement that is not later in the reference order"] if any(
        order.index(arc.source) > order.index(arc.sink) for arc in drawn) else []
    if len(order) > len(shown) or len(found) > len(drawn):
        notes.append(f"not drawn: {len(order) - len(shown)} statements and {len(found) - len(drawn)} pairs; "
                     "choose statements with statements=[...]")
    loops = {arc.source: arc for arc in drawn if arc.source == arc.sink}
    nodes = [GraphNode(x, (x, _short(knl.statement_by_id[x])), _label(loops[x]) if x in loops else (),
                       _COLOURS[loops[x].kind] if x in loops else KINDS[7]) for x in shown]
    edges = [GraphEdge(arc.source, arc.sink, _label(arc), _COLOURS[arc.kind]) for arc in drawn if
             arc.source != arc.sink]
    return Plot(f"Dependences of kernel '{knl.name}'", Picture(graph_drawing(nodes, edges, notes, words), words))


def arcs(knl: LoopKernel, order: Sequence[str]) -> list[Arc]:
    """The dependences between the statements *order*, by their ends, in this order."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for d in with_assumed(knl):
        if d.source in order and d.sink in order:
            found.setdefault((d.source, d.sink), {})[_dependence_text(knl, d)] = d.kind
    number = {x: i for i, x in enumerate(order)}
    return [Arc(*ends, next(iter(texts.values())), tuple(texts))
            for ends, texts in sorted(found.items(), key=lambda x: (number[x[0][0]], number[x[0][1]]))]


# In words

def _dependence_text(knl: LoopKernel, d: Dependence) -> str:
    """``flow of a: i +1, j -1``."""
    parts = [f"{d.kind} of {d.array}" if d.array else "dep=", *_distance_texts(knl, d)]
    parts += ["in any order"] if is_reorderable(knl, d) else []
    parts += ["assumed not to bind"] if d.assumed else []
    parts += [] if d.exact else ["at most"]
    return f"{parts[0]}{': ' if len(parts) > 1 else ''}{', '.join(parts[1:])}"


def _distance_texts(knl: LoopKernel, d: Dependence) -> Iterator[str]:
    """The distance in each iname of both statements, unless it is 0."""
    a, b = (knl.statement_by_id[x].inames for x in (d.source, d.sink))
    both = [x for x in a if x in b]
    found = distances(d.relation, shared_dims(a, b, both))
    if found is None:
        yield "distances unknown"
    for iname, (low, high) in zip(both, found, strict=True) if found is not None else ():
        if low is not None and low == high:
            if low:
                yield f"{iname} {low:+d}"
        elif low is not None and high is not None:
            yield f"{iname} {low:+d} to {high:+d}"
        elif low is not None:
            yield f"{iname} {low:+d} or more"
        elif high is not None:
            yield f"{iname} {high:+d} or less"
        else:
            yield f"{iname} any"


def _arc_lines(knl: LoopKernel, order: Sequence[str], found: Sequence[Arc]) -> Iterator[str]:
    between = sum(arc.source != arc.sink for arc in found)
    yield (f"{counted(len(order), 'statement')}, {between} dependent pairs, "
           f"{len(found) - between} dependent on themselves; distances are 0 where none is named")
    for arc in found:
        yield f"{arc.source} -> {arc.sink}: {'; '.join(arc.texts)}"
    if knl.obligations:
        yield "without the pairs that an obligation of the kernel covers, except for those of temporaries"
    apart = [x for x in order if not any(x in (arc.source, arc.sink) for arc in found)]
    if apart:
        yield f"without dependences: {', '.join(apart)}"


def _label(arc: Arc) -> tuple[str, ...]:
    shown = arc.texts[:_MOST_LABEL_LINES]
    more = len(arc.texts) - len(shown)
    return (*shown, f"... {more} more") if more else shown


def _short(s: Statement) -> str:
    target, value = to_text(s.assignee), to_text(s.expression)
    text = f"{target} = {value}" if s.combine is None else f"{target} = {s.combine}({target}, {value})"
    return text if len(text) <= _LONGEST_STATEMENT else f"{text[:_LONGEST_STATEMENT - 3]}..."
