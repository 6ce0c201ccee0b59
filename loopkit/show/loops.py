"""The picture of the loop tree: launches, the host's loops, blocks, threads, loops, barriers and statements."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from loopkit.ast.nodes import (
    Assign,
    Block,
    Call,
    Define,
    For,
    If,
    Region,
    Scope,
    Sync,
    Tiles,
    own_instructions,
)
from loopkit.ast.text import block_text
from loopkit.expr.mappers import variables
from loopkit.expr.nodes import to_text
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lowered_in_one_version
from loopkit.poly.limits import bounded
from loopkit.show.document import Picture
from loopkit.show.drawing import KINDS, LINE, QUIET, box, label, quiet_lines, rule, svg, widest, width_of
from loopkit.show.kernels import launch_shape
from loopkit.show.plot import Plot

Kind = Literal["host", "launch", "blocks", "threads", "loop", "together", "barrier", "statement"]

#: The colour of each kind of row that contains others.
_FRAMES: Mapping[Kind, str] = {"host": KINDS[7], "launch": KINDS[5], "blocks": KINDS[0], "threads": KINDS[4],
                               "loop": KINDS[2], "together": KINDS[3]}

#: The most rows of a picture, and the most characters of a row.
_MOST_ROWS, _LONGEST_ROW = 120, 100

#: The columns of a level in the words, and its pixels in the drawing.
_INDENT, _STEP = 2, 16


@dataclass(frozen=True)
class TreeRow:
    """A row of the picture: *text*, and a *note* of less interest."""

    depth: int
    kind: Kind
    text: str
    note: str = ""

    @property
    def line(self) -> str:
        return f"{' '*_INDENT*self.depth}{self.text}{f'  # {self.note}' if self.note else ''}"


def loops_picture(knl: LoopKernel) -> Plot:
    """The loop tree of *knl* as it will run; see :meth:`loopkit.LoopKernel.plot`."""
    with bounded(f"drawing kernel '{knl.name}'"):
        return loops_plot(lowered_in_one_version(knl))


def loops_plot(lowered: Lowered) -> Plot:
    """The loop tree of *lowered*."""
    rows = list(tree_rows(lowered)) or [TreeRow(0, "statement", "no launch: no statement runs")]
    notes = []
    if any("guarded" in row.note for row in rows):
        notes.append("guarded: runs under conditions, which print(knl) shows")
    if len(rows) > _MOST_ROWS:
        notes.append(f"not drawn: {len(rows) - _MOST_ROWS} more rows")
    shown = rows[:_MOST_ROWS]
    words = "\n".join([*(row.line for row in shown), *notes])
    return Plot(f"Loop tree of kernel '{lowered.kernel.name}'", Picture(_tree_drawing(shown, notes, words), words))


# The rows

def tree_rows(lowered: Lowered) -> Iterator[TreeRow]:
    """The rows of the loop tree of *lowered*, from top to bottom."""
    yield from _host_rows(lowered, lowered.program.order, 0)


def _host_rows(lowered: Lowered, block: Block, depth: int) -> Iterator[TreeRow]:
    for node in block.children:
        match node:
            case Call(name):
                yield from _launch_rows(lowered, name, depth)
            case For():
                yield TreeRow(depth, "host", f"host: {_loop_text(node)}")
                yield from _host_rows(lowered, node.body, depth + 1)
            case If():
                yield TreeRow(depth, "host", f"host: if {to_text(node.condition)}")
                yield from _host_rows(lowered, node.then, depth + 1)
                if node.otherwise is not None:
                    yield TreeRow(depth, "host", "host: else")
                    yield from _host_rows(lowered, node.otherwise, depth + 1)
            case Block():
                yield from _host_rows(lowered, node, depth)
            case Assign() | Define() | Region() | Sync() | Tiles():
                pass


def _launch_rows(lowered: Lowered, name: str, depth: int) -> Iterator[TreeRow]:
    pairs = zip(lowered.launches, lowered.program.functions, strict=True)
    launch, function = next(pair for pair in pairs if pair[1].name == name)
    yield TreeRow(depth, "launch", f"launch {name}: {launch_shape(launch)}",
                  "blocks by tickets" if function.ticketed else "")
    places: tuple[tuple[Kind, str, str], ...] = (("blocks", "block", "g."), ("threads", "thread", "l."))
    for kind, noun, start in places:
        own = ", ".join(f"{x} = {to_text(e)}" for x, e in function.coordinates.items()
                        if any(axis.startswith(start) for axis in variables(e)))
        is_alone = not any(axis.startswith(start) for axis in function.extents)
        depth += 1
        yield TreeRow(depth, kind, f"one {noun}" if is_alone else f"each {noun}{': ' if own else ''}{own}")
    yield from _node_rows(function.body, depth + 1, "")


def _node_rows(block: Block, depth: int, note: str) -> Iterator[TreeRow]:
    """The rows of *block*; *note* holds for its statements."""
    for node in block.children:
        titles = ", ".join(title for i in own_instructions(node) for title in i.titles)
        match node:
            case Assign():
                text = block_text(Block((node,))).rpartition("  {")[0]
                yield TreeRow(depth, "statement", f"{node.statement}: {text}", ", ".join(filter(None, (note, titles))))
            case For():
                yield TreeRow(depth, "loop", _loop_text(node), titles)
                yield from _node_rows(node.body, depth + 1, note)
            case If():
                yield from _node_rows(node.then, depth, "guarded")
                yield from _node_rows(node.otherwise or Block(), depth, "guarded")
            case Region() if titles:
                yield TreeRow(depth, "together", titles)
                yield from _node_rows(node.body, depth + 1, note)
            case Region(body):
                yield from _node_rows(body, depth, note)
            case Sync():
                yield _barrier_row(node, depth)
            case Tiles(body):
                yield from _node_rows(body, depth, note)
            case Block():
                yield from _node_rows(node, depth, note)
            case Define() | Call():
                pass


def _loop_text(node: For) -> str:
    first, *_ = block_text(Block((replace(node, body=Block(), instruction=None),))).splitlines()
    return first


def _barrier_row(node: Sync, depth: int) -> TreeRow:
    first, *others = node.serves or ("",)
    more = f"; and {len(others)} more" if others else ""
    return TreeRow(depth, "statement" if node.scope is Scope.THREAD else "barrier", node.title, f"{first}{more}")


# The drawing

def _tree_drawing(rows: Sequence[TreeRow], notes: Sequence[str], words: str) -> str:
    """Rows under each other; a bar at the left of each loop, launch, block and thread spans what is in it."""
    texts = [_cut_row(row) for row in rows]
    width = max(_left_of(row) + width_of(text + note) + 30 for row, (text, note) in zip(rows, texts, strict=True))
    parts: list[str] = []
    for number, (row, (text, note)) in enumerate(zip(rows, texts, strict=True)):
        x, y = _left_of(row), number*LINE + LINE/2
        if row.kind in _FRAMES:
            inside = _rows_inside(rows, number)
            parts += [box(x, y - LINE/2 + 1, width - x - 4, inside*LINE + LINE - 2, fill=_FRAMES[row.kind],
                          opacity=.08), box(x, y - LINE/2 + 1, 4, inside*LINE + LINE - 2, fill=_FRAMES[row.kind])]
        if row.kind == "barrier":
            parts.append(rule(x + 2, y, x + 14, y, colour=KINDS[1], thick=3))
        parts.append(label(x + (20 if row.kind == "barrier" else 10), y, text, bold=row.kind != "statement"))
        parts.append(label(x + (24 if row.kind == "barrier" else 14) + width_of(text), y, note, colour=QUIET))
    parts += quiet_lines(len(rows)*LINE, notes)
    return svg(max(width, widest(notes) + 8), (len(rows) + len(notes))*LINE + 4, parts, words)


def _left_of(row: TreeRow) -> int:
    return 2 + row.depth*_STEP


def _cut_row(row: TreeRow) -> tuple[str, str]:
    """The text and the note of *row*, together not too long."""
    text = row.text if len(row.text) <= _LONGEST_ROW else f"{row.text[:_LONGEST_ROW - 3]}..."
    room = _LONGEST_ROW - len(text)
    note = f" {row.note}" if row.note else ""
    return text, note if len(note) <= room + 20 else f"{note[:room + 17]}..."


def _rows_inside(rows: Sequence[TreeRow], number: int) -> int:
    """How many rows follow that are in the row *number*."""
    rest = rows[number + 1:]
    return next((i for i, row in enumerate(rest) if row.depth <= rows[number].depth), len(rest))
