"""The picture of a statement's points: blocks, threads or times in colours, tiles, and dependences as arrows."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from loopkit.analysis.dependences import dependences
from loopkit.errors import values_text
from loopkit.expr.nodes import to_text
from loopkit.kernel.annotations import checked
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.limits import bounded
from loopkit.show.document import Picture
from loopkit.show.drawing import (
    CHARACTER,
    FRAME,
    KINDS,
    LINE,
    QUIET,
    TEXT,
    arrow,
    box,
    label,
    moved,
    quiet_lines,
    svg,
    widest,
    width_of,
)
from loopkit.show.plot import Plot
from loopkit.show.points import MOST_LINKED, Colouring, Links, Point, PointGrid, colouring, grid_of, links

#: The most arrows of a picture.
_MOST_ARROWS = 150


@checked
def domain_picture(knl: LoopKernel, *, statement: str | None = None, inames: Sequence[str] | None = None,
                   parameters: Mapping[str, int] | None = None, fixed: Mapping[str, int] | None = None,
                   colour: str | None = None) -> Plot:
    """The points of a statement; see :meth:`loopkit.LoopKernel.plot`."""
    with bounded(f"drawing kernel '{knl.name}'"):
        s = knl.statement(str(knl.instructions[0].id) if statement is None else statement)
        grid = grid_of(knl, knl.statement_by_id[s.id], inames, parameters or {}, fixed or {})
        return grid_plot(grid, colouring(grid, colour))


def grid_plot(grid: PointGrid, colours: Colouring) -> Plot:
    """The picture of *grid*."""
    shown = list(links(grid)) if len(grid.points) <= MOST_LINKED else []
    words = "\n".join(_words(grid, colours, shown))
    return Plot(_picture_title(grid), Picture(_drawing(grid, colours, shown, words), words))


def _picture_title(grid: PointGrid) -> str:
    sizes = {x: v for x, v in grid.sizes.items() if x in grid.statement.domain.params}
    return f"Points of {grid.statement.id} in kernel '{grid.knl.name}'{values_text(sizes, ', {}')}"


# In words

def _words(grid: PointGrid, colours: Colouring, shown: Sequence[Links]) -> Iterator[str]:
    down, across, panels = (", ".join(axis) for axis in grid.axes)
    sides = [f"{names} {side}" for names, side in ((down, "down"), (across, "across"), (panels, "by panels")) if names]
    yield f"{len(grid.points)} points, {', '.join(sides)}{values_text(grid.fixed, ', at {}')}"
    yield _legend(colours)
    for panel, points in groupby(sorted(grid.points, key=lambda x: grid.place(x)[::-1]), lambda x: grid.place(x)[2]):
        if grid.axes[2]:
            yield _panel_title(grid, panel)
        yield from _table(grid, colours, [*points])
    yield from _notes(grid, shown)


def _legend(colours: Colouring) -> str:
    kind, names = colours.kind, colours.names
    if len(names) == 1:
        return f"all points: {names[0]}"
    each = [f"{i}: {name}" for i, name in enumerate(names)]
    listed = ", ".join(each if len(names) <= len(KINDS) else [*each[:3], "...", each[-1]])
    return f"the number of a point is its {kind}: {listed}"


def _table(grid: PointGrid, colours: Colouring, points: Sequence[Point]) -> Iterator[str]:
    """The number of each point in its row and its column."""
    at = {grid.place(x)[:2]: str(colours.of[x]) for x in points}
    rows, columns = grid.places[0], grid.places[1]
    names = [", ".join(f"{x}={v}" for x, v in zip(grid.axes[0], values, strict=True)) for values in rows]
    wide = max(map(len, (*names, *grid.axes[1])))
    cell = max(len(text) for text in (*at.values(), *(str(v) for values in columns for v in values)))
    for depth, iname in enumerate(grid.axes[1]):
        yield f"  {iname:{wide}}  {' '.join(f'{values[depth]:>{cell}}' for values in columns)}"
    for row, name in enumerate(names):
        numbers = [at.get((row, i), ".") for i in range(len(columns))]
        yield f"  {name:{wide}}  {' '.join(f'{text:>{cell}}' for text in numbers)}"


def _panel_title(grid: PointGrid, panel: int) -> str:
    values = next(v for v, place in grid.places[2].items() if place == panel)
    return values_text(dict(zip(grid.axes[2], values, strict=True)))


def _notes(grid: PointGrid, shown: Sequence[Links]) -> Iterator[str]:
    """The lines below the picture: its tiles and dependences, and the points and arrows that it leaves out."""
    outer = [", ".join(axis[:-1]) for axis in grid.axes[:2] if len(axis) > 1]
    if outer:
        yield f"outlined: one tile for each {', '.join(outer)}"
    for condition in grid.statement.predicates:
        yield f"the condition {to_text(condition)} depends on data: not all of these points may run"
    for found in shown:
        d = found.dependence
        colour, between = ("", "") if d.source == d.sink else ("red ", f" from {d.source} to {d.sink}")
        of = f" of {d.array}" if d.array else ""
        yield f"{colour}arrows: {d.kind} dependence{of}{between}, {_distances(grid, found)}"
    others = _others_not_drawn(grid, shown)
    if others and len(grid.points) <= MOST_LINKED:
        yield f"not drawn: dependences on {', '.join(others)}, which join no two of these points"
    hidden = sum(len(found.pairs) for found in shown) - len(_drawn_arrows(shown))
    if hidden:
        yield f"not drawn: the {hidden} longest arrows"
    if len(grid.points) > MOST_LINKED:
        yield f"dependences are drawn between up to {MOST_LINKED} points: pass smaller sizes (parameters=)"
    if grid.left_out:
        yield f"not drawn: {grid.left_out} more points; pass smaller sizes (parameters=)"


def _others_not_drawn(grid: PointGrid, shown: Sequence[Links]) -> list[str]:
    """The other statements with dependences, none of which is drawn."""
    own = grid.statement.id
    drawn = {x for found in shown for x in (found.dependence.source, found.dependence.sink)}
    ends = [(d.source, d.sink) for d in dependences(grid.knl) if own in (d.source, d.sink)]
    return [x for x in dict.fromkeys(x for pair in ends for x in pair) if x != own and x not in drawn]


def _distances(grid: PointGrid, found: Links) -> str:
    inames = grid.statement.inames
    counts = Counter(tuple(b - a for a, b in zip(*pair, strict=True)) for pair in found.pairs).most_common()

    def text(gap: Point) -> str:
        return ", ".join(f"{x} {v:+d}" for x, v in zip(inames, gap, strict=True) if v)
    several = [f"({text(gap)}) {count} times" for gap, count in counts[:3]]
    others = len(counts) - 3
    more = f" and {others} other distance{'s' if others > 1 else ''}" if others > 0 else ""
    return f"distance {', '.join(several)}{more}"


# As a drawing

def _drawn_arrows(shown: Sequence[Links]) -> list[tuple[tuple[Point, Point], str]]:
    """The arrows and their colours, the short ones first: all of one length or none, if they are too many."""
    arrows = sorted(((pair, TEXT if d.dependence.source == d.dependence.sink else KINDS[5])
                     for d in shown for pair in d.pairs), key=lambda x: _length(*x[0]))
    if len(arrows) <= _MOST_ARROWS:
        return arrows
    end, _ = _length(*arrows[_MOST_ARROWS][0])
    return [x for x in arrows if _length(*x[0])[0] < end] or arrows[:_MOST_ARROWS]


def _drawing(grid: PointGrid, colours: Colouring, shown: Sequence[Links], words: str) -> str:
    rows, columns, panels = (len(places) for places in grid.places)
    longest = len(str(len(colours.names) - 1))
    cell = (36 if shown else 26) if max(rows, columns) <= 24 and longest <= 3 else 14
    left = max(width_of(", ".join(map(str, values))) for values in grid.places[0]) + 12 if grid.axes[0] else 4
    left = max(left, width_of(", ".join(grid.axes[0])) + 16)
    top = LINE*(2 + bool(grid.axes[2])) + 4
    wide, high = left + max(columns*cell, width_of(", ".join(grid.axes[1]))) + 24, top + rows*cell + 14
    notes = [_legend(colours), *_notes(grid, shown)]
    width = max(wide*min(panels, 3), widest(notes) + 30)
    parts: list[str] = []
    arrows = _drawn_arrows(shown)
    is_at_top = _are_lower_left_corners_crossed(grid, [pair for pair, _ in arrows])
    for panel in range(panels):
        inside = [x for x in grid.points if grid.place(x)[2] == panel]
        own = [(pair, colour) for pair, colour in arrows if grid.place(pair[0])[2] == panel]
        frame = (left, top, cell)
        parts.append(moved(panel % 3*wide, panel//3*high, (
            *_sides(grid, *frame, panel), *_point_cells(grid, colours, inside, frame, is_at_top),
            *_tiles(grid, inside, frame), *_arrows(grid, own, frame))))
    below = (panels + 2)//3*high + 10
    parts += _key(colours, below)
    parts += quiet_lines(below + LINE/2, notes[1:])
    return svg(width, below + LINE*len(notes), parts, words)


#: The left and the top of the cells, and the side of one.
Frame = tuple[float, float, float]


def _length(source: Point, sink: Point) -> tuple[int, Point]:
    return sum(abs(a - b) for a, b in zip(source, sink, strict=True)), source


def _centre(grid: PointGrid, x: Point, frame: Frame) -> tuple[float, float]:
    row, column, _ = grid.place(x)
    left, top, cell = frame
    return left + (column + .5)*cell, top + (row + .5)*cell


def _sides(grid: PointGrid, left: float, top: float, cell: float, panel: int) -> Iterator[str]:
    """The names and the values of the axes; values of outer inames where they change."""
    if grid.axes[2]:
        yield label(4, 10, _panel_title(grid, panel))
    yield label(left, top - LINE*1.5, ", ".join(grid.axes[1]), colour=QUIET)
    yield label(left - 8, top - LINE*.5, ", ".join(grid.axes[0]), colour=QUIET, anchor="end")
    step = 1 if cell > 20 else 4
    for values, place in grid.places[1].items():
        if place % step == 0:
            yield label(left + (place + .5)*cell, top - LINE*.5, str(values[-1] if values else ""), colour=QUIET,
                        anchor="middle", size=11)
    for values, place in grid.places[0].items():
        if values and place % (1 if cell > 20 else 2) == 0:
            yield label(left - 8, top + (place + .5)*cell, ", ".join(map(str, values)), colour=QUIET, anchor="end",
                        size=11)


def _shade(colours: Colouring, number: int) -> tuple[str, float]:
    """The colour of a number and its strength: one colour from light to dark for many and for times."""
    many = len(colours.names)
    if colours.kind == "time" or many > len(KINDS):
        return KINDS[0], .12 + .6*number/max(1, many - 1)
    return KINDS[number], .45


def _are_lower_left_corners_crossed(grid: PointGrid, pairs: Sequence[tuple[Point, Point]]) -> bool:
    """Whether arrows cross the lower left corners of cells, and none crosses the upper left ones."""
    places = [(grid.place(source), grid.place(sink)) for source, sink in pairs]
    slopes = {(b[0] - a[0])*(b[1] - a[1]) for a, b in places}
    return min(slopes, default=0) < 0 and max(slopes) <= 0


def _point_cells(grid: PointGrid, colours: Colouring, points: Sequence[Point], frame: Frame,
                 is_at_top: bool) -> Iterator[str]:
    """The cells with their numbers in a corner on the left."""
    cell = frame[2]
    for x in points:
        (centre, middle), number = _centre(grid, x, frame), colours.of[x]
        fill, strength = _shade(colours, number)
        yield box(centre - cell/2 + 1, middle - cell/2 + 1, cell - 2, cell - 2, fill=fill, opacity=strength)
        if cell > 20 and len(colours.names) > 1:
            yield label(centre - cell/2 + 3, middle + (7 - cell/2 if is_at_top else cell/2 - 7), str(number), size=9)


def _tiles(grid: PointGrid, points: Sequence[Point], frame: Frame) -> Iterator[str]:
    """A frame around the points of each value of the outer inames of the axes."""
    if all(len(axis) < 2 for axis in grid.axes[:2]):
        return
    tiles: dict[tuple[Point, Point], list[Point]] = {}
    for x in points:
        tiles.setdefault((grid.values(x, 0)[:-1], grid.values(x, 1)[:-1]), []).append(x)
    left, top, cell = frame
    for inside in tiles.values():
        rows, columns = ([grid.place(x)[axis] for x in inside] for axis in (0, 1))
        yield box(left + min(columns)*cell, top + min(rows)*cell, (max(columns) - min(columns) + 1)*cell,
                  (max(rows) - min(rows) + 1)*cell, stroke=TEXT)


def _arrows(grid: PointGrid, pairs: Sequence[tuple[tuple[Point, Point], str]], frame: Frame) -> Iterator[str]:
    for (source, sink), colour in pairs:
        yield arrow(*_centre(grid, source, frame), *_centre(grid, sink, frame), colour=colour, short=frame[2]*.12)


def _key(colours: Colouring, y: float) -> Iterator[str]:
    """The legend of the colours: a square beside each name, or the least and the greatest of many."""
    names = colours.names
    if len(names) == 1:
        yield label(4, y, _legend(colours), colour=QUIET)
        return
    each = range(len(names)) if len(names) <= len(KINDS) else (0, len(names) - 1)
    at = 4.0
    for i in each:
        fill, strength = _shade(colours, i)
        yield box(at, y - 7, 14, 14, fill=fill, opacity=strength, stroke=FRAME)
        yield label(at + 20, y, f"{i}: {names[i]}")
        at += 34 + width_of(f"{i}: {names[i]}")
        if len(each) < len(names) and i == 0:
            yield label(at, y, "to", colour=QUIET)
            at += 4*CHARACTER
