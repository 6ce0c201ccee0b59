"""The picture of a launch's mapping: the blocks of the grid, and one of them opened into warps and threads."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from loopkit.ast.nodes import Define
from loopkit.ast.walk import nodes_in
from loopkit.expr.mappers import variables
from loopkit.expr.nodes import to_text
from loopkit.kernel.annotations import checked
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.lowered import BLOCK, GRID
from loopkit.lowering.pipeline import lowered_in_one_version
from loopkit.poly.limits import bounded
from loopkit.show.document import Picture
from loopkit.show.drawing import FRAME, KINDS, LINE, QUIET, TEXT, box, label, quiet_lines, svg, widest
from loopkit.show.launches import (
    Coordinates,
    LaunchAt,
    chosen_launch,
    extents_text,
    launch_at,
    place_text,
)
from loopkit.show.plot import Plot
from loopkit.show.words import counted, ranges_text

#: The most blocks across and down, rows of threads, and lines about warps and names.
_MOST_ACROSS, _MOST_DOWN, _MOST_THREAD_ROWS, _MOST_WARP_LINES, _MOST_NAMES = 16, 8, 32, 8, 6

#: Width and height of a block, and of a thread.
_BLOCK_CELL, _THREAD_CELL = (52, 26), (28, 22)


@checked
def grid_picture(knl: LoopKernel, *, launch: str | None = None, parameters: Mapping[str, int] | None = None,
                 block: Sequence[int] = (0, 0, 0)) -> Plot:
    """Blocks and threads of a launch, with the values of their inames; see :meth:`loopkit.LoopKernel.plot`."""
    with bounded(f"drawing kernel '{knl.name}'"):
        lowered = lowered_in_one_version(knl)
        at = launch_at(lowered, *chosen_launch(lowered, launch, "a picture of its grid"), parameters or {})
        opened = at.require_block(block)
        words = "\n".join(_mapping_lines(at, opened))
        return Plot(f"Blocks and threads of launch {at.function.name}{at.where}",
                    Picture(_grid_drawing(at, opened, words), words))


# In words

def _mapping_lines(at: LaunchAt, opened: Coordinates) -> Iterator[str]:
    yield (f"{counted(prod(at.grid), 'block', extents_text(at.grid))} of "
           f"{counted(prod(at.block), 'thread', extents_text(at.block))}, {counted(at.warps, 'warp')} a block")
    for axis, extent in (*zip(GRID, at.grid, strict=True), *zip(BLOCK, at.block, strict=True)):
        own = _inames_along(at, axis)
        if own:
            yield f"{axis} from 0 to {extent - 1}: {', '.join(own)}"
    yield f"block {place_text(opened, at.grid)}{_values_on(at, opened, (0, 0, 0), GRID)}"
    warp = at.launch.machine.warp
    for number in range(min(at.warps, _MOST_WARP_LINES)):
        threads = [at.thread(x) for x in range(number*warp, min(number*warp + warp, prod(at.block)))]
        inames = [x for axis in BLOCK for x in _inames_on(at, axis)]
        values = {x: [at.at(opened, thread)[x] for thread in threads] for x in inames}
        each = ", ".join(f"{x} = {ranges_text(found)}" for x, found in values.items())
        yield f"  warp {number}: threads {number*warp}-{number*warp + len(threads) - 1}{': ' if each else ''}{each}"
    if at.warps > _MOST_WARP_LINES:
        yield f"  and {at.warps - _MOST_WARP_LINES} more warps"
    yield from _notes_below(at)


def _inames_on(at: LaunchAt, axis: str) -> list[str]:
    return [x for x, e in at.function.coordinates.items() if variables(e) == {axis}]


def _inames_along(at: LaunchAt, *axes: str) -> list[str]:
    """The inames that depend on one of *axes*, with their values in terms of them."""
    return [f"{x} = {to_text(e)}" for x, e in at.function.coordinates.items() if variables(e) & {*axes}]


def _values_on(at: LaunchAt, block: Coordinates, thread: Coordinates, axes: Sequence[str]) -> str:
    values = at.at(block, thread)
    found = [f"{x} = {values[x]}" for axis in axes for x in _inames_on(at, axis)]
    return f": {', '.join(found)}" if found else ""


def _notes_below(at: LaunchAt) -> Iterator[str]:
    """Names that a thread computes from its place, and the parts that are too large to draw."""
    names = {f"{x.name} = {to_text(x.value)}": None for x in nodes_in(at.function.body)
             if isinstance(x, Define) and variables(x.value) & {*BLOCK}}
    if names:
        more = len(names) - _MOST_NAMES
        yield f"copies: {', '.join([*names][:_MOST_NAMES])}{f' and {more} more' if more > 0 else ''}"
    x, y, z = at.grid
    drawn = min(x, _MOST_ACROSS)*min(y, _MOST_DOWN)
    if drawn < x*y*z:
        yield f"not drawn: {x*y*z - drawn} more blocks; pass smaller sizes (parameters=)"
    hidden = len(_thread_rows(at)) - _MOST_THREAD_ROWS
    if hidden > 0:
        yield f"not drawn: {hidden} more rows of threads"


# The drawing

def _grid_drawing(at: LaunchAt, opened: Coordinates, words: str) -> str:
    """The grid, and below it the threads of one block."""
    head = [f"blocks: {', '.join(_inames_along(at, *GRID)) or 'one'}"]
    parts, (width, y) = _cells_of(_block_table(at, opened), head, 0)
    title = f"threads of block {place_text(opened, at.grid)}: {', '.join(_inames_along(at, *BLOCK)) or 'one'}"
    more, (other, bottom) = _cells_of(_thread_table(at), [title, "a colour and an outline for each warp"], y + 12)
    notes = list(_notes_below(at))
    parts = [*parts, *more, *quiet_lines(bottom + 4, notes)]
    return svg(max(width, other, widest(notes) + 8), bottom + LINE*len(notes) + 8, parts, words)


@dataclass(frozen=True)
class _Cells:
    """Cells in rows and columns.

    :ivar cells: by row and column, the number of their colour and a text.
    :ivar columns: for each name of the columns the values; *rows*: a text for each row.
    """

    cells: Mapping[tuple[int, int], tuple[int, str]]
    columns: Mapping[str, Sequence[int]]
    rows: Sequence[str]
    size: tuple[float, float]
    marked: tuple[int, int] | None = None


def _block_table(at: LaunchAt, opened: Coordinates) -> _Cells:
    across, down = min(at.grid[0], _MOST_ACROSS), min(at.grid[1], _MOST_DOWN)
    cells = {(y, x): (0, place_text((x, y, opened[2]), at.grid)) for y in range(down) for x in range(across)}
    columns = {name: [at.at((x, 0, 0), (0, 0, 0))[name] for x in range(across)] for name in _inames_on(at, GRID[0])}
    rows = [", ".join(f"{name}={at.at((0, y, 0), (0, 0, 0))[name]}" for name in _inames_on(at, GRID[1]))
            for y in range(down)]
    marked = (opened[1], opened[0]) if (opened[1], opened[0]) in cells else None
    wide = widest(text for _, text in cells.values()) + 4
    return _Cells(cells, columns, rows, (max(_BLOCK_CELL[0], wide), _BLOCK_CELL[1]), marked)


def _thread_rows(at: LaunchAt) -> list[tuple[int, int]]:
    """The first thread of each row, and the number of threads in it: of one value of ``l.1``, at most a warp."""
    x, warp = at.block[0], at.launch.machine.warp
    return [(line*x + start, min(warp, x - start)) for line in range(prod(at.block[1:])) for start in range(0, x, warp)]


def _thread_table(at: LaunchAt) -> _Cells:
    x, warp = at.block[0], at.launch.machine.warp
    shown = _thread_rows(at)[:_MOST_THREAD_ROWS]
    cells = {(row, i): ((first + i)//warp, str(first + i)) for row, (first, count) in enumerate(shown)
             for i in range(count)}
    fits = x <= warp
    columns = {name: [at.at((0, 0, 0), (i, 0, 0))[name] for i in range(x)] for name in _inames_on(at, BLOCK[0])
               } if fits else {}
    rows = []
    for first, count in shown:
        values, last = (at.at((0, 0, 0), at.thread(number)) for number in (first, first + count - 1))
        own = [f"{name}={values[name]}" for axis in BLOCK[:0:-1] for name in _inames_on(at, axis)]
        own += [] if fits else [f"{name}={values[name]}..{last[name]}" for name in _inames_on(at, BLOCK[0])]
        rows.append(", ".join(own))
    return _Cells(cells, columns, rows, _THREAD_CELL)


def _cells_of(table: _Cells, titles: Sequence[str], top: float) -> tuple[list[str], tuple[float, float]]:
    """The drawing of *table* under *titles* from the height *top* on, and its right and lower ends."""
    wide, high = table.size
    left = widest((*table.rows, *table.columns)) + 16
    parts = [label(4, top + (i + .5)*LINE, title, colour=QUIET if i else TEXT) for i, title in enumerate(titles)]
    top += len(titles)*LINE
    for name, values in table.columns.items():
        parts.append(label(left - 8, top + LINE/2, name, colour=QUIET, anchor="end"))
        parts += [label(left + (i + .5)*wide, top + LINE/2, str(v), colour=QUIET, anchor="middle", size=11)
                  for i, v in enumerate(values)]
        top += LINE
    parts += [label(left - 8, top + (i + .5)*high, row, colour=QUIET, anchor="end", size=11)
              for i, row in enumerate(table.rows)]
    for (row, column), (number, text) in table.cells.items():
        x, y, marked = left + column*wide, top + row*high, (row, column) == table.marked
        parts.append(box(x + 1, y + 1, wide - 2, high - 2, fill=KINDS[number % len(KINDS)],
                         opacity=.6 if marked else .3))
        parts.append(label(x + wide/2, y + high/2, text, anchor="middle", size=10, bold=marked))
    parts.append(_outline(table, left, top))
    right = left + (max(column for _, column in table.cells) + 1)*wide + 8
    return parts, (max(right, widest(titles) + 8), top + len(table.rows)*high)


def _outline(table: _Cells, left: float, top: float) -> str:
    """The borders between cells of different colours."""
    wide, high = table.size
    lines = []
    for (row, column), (number, _) in table.cells.items():
        x, y = left + column*wide, top + row*high
        for dr, dc, line in ((-1, 0, f"M{x:g} {y:g}h{wide:g}"), (1, 0, f"M{x:g} {y + high:g}h{wide:g}"),
                             (0, -1, f"M{x:g} {y:g}v{high:g}"), (0, 1, f"M{x + wide:g} {y:g}v{high:g}")):
            if table.cells.get((row + dr, column + dc), (None,))[0] != number:
                lines.append(line)
    return f'<path d="{"".join(lines)}" stroke="{FRAME}" stroke-width="2" fill="none"/>'
