"""SVG elements as text, in colours that can be read on light and on dark pages."""
from __future__ import annotations

from collections.abc import Iterable
from html import escape
from math import hypot
from pathlib import Path

#: Width of a character of the pictures' font, and the height of a line, in pixels.
CHARACTER, LINE = 7.3, 20

#: Colours of a page's own style, with a colour for pictures that stand alone.
TEXT, QUIET, FRAME = "currentColor", "var(--lk-note,#7d8590)", "var(--lk-line,#8b949e)"

#: Colours of things of several kinds; a number beside each tells them apart too.
KINDS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#8a8a8a")

#: A picture becomes smaller on a narrow page, but not so small that its texts cannot be read: its box scrolls then.
_SMALLEST = .75

#: For a picture that stands alone: a page gives its pictures the colour of its text.
_ALONE = "<style>svg{color:#1f2328}@media(prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"


def width_of(text: str) -> float:
    """The width of *text* in pixels."""
    return len(text)*CHARACTER


def box(x: float, y: float, width: float, height: float, *, fill: str = "none", opacity: float = 1,
        stroke: str = "none") -> str:
    """A rectangle; *opacity* is that of its inside."""
    return (f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="2" fill="{fill}" '
            f'fill-opacity="{opacity:.2f}" stroke="{stroke}"/>')


def label(x: float, y: float, text: str, *, colour: str = TEXT, anchor: str = "start", size: int = 12,
          bold: bool = False) -> str:
    """A line of text with its middle at the height *y*; *anchor*: ``"start"``, ``"middle"`` or ``"end"`` is at *x*."""
    weight = ' font-weight="600"' if bold else ""
    return (f'<text x="{x:g}" y="{y + size*.35:g}" fill="{colour}" text-anchor="{anchor}" font-size="{size}"{weight} '
            f'xml:space="preserve">{escape(text)}</text>') if text else ""


def quiet_lines(y: float, lines: Iterable[str]) -> list[str]:
    """*lines* of less interest under each other from the height *y* on, at the left."""
    return [label(4, y + (i + .5)*LINE, line, colour=QUIET) for i, line in enumerate(lines)]


def widest(lines: Iterable[str]) -> float:
    """The width of the longest of *lines*."""
    return max(map(width_of, lines), default=0)


def rule(x: float, y: float, to_x: float, to_y: float, *, colour: str = TEXT, thick: float = 1) -> str:
    """A straight line."""
    return f'<path d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}" stroke="{colour}" fill="none" stroke-width="{thick:g}"/>'


def arrow(x: float, y: float, to_x: float, to_y: float, *, colour: str = TEXT, short: float = 0) -> str:
    """A straight arrow between two different points, without its first and last *short* pixels."""
    length = hypot(to_x - x, to_y - y)
    dx, dy = (to_x - x)/length, (to_y - y)/length
    x, y, to_x, to_y = x + short*dx, y + short*dy, to_x - short*dx, to_y - short*dy
    return rule(x, y, to_x - 3*dx, to_y - 3*dy, colour=colour) + head(to_x, to_y, dx, dy, colour=colour)


def head(x: float, y: float, dx: float, dy: float, *, colour: str = TEXT) -> str:
    """The head of an arrow that ends at a point in the direction (*dx*, *dy*), of length 1."""
    back, side = 6, 3
    corners = [(x, y), *((x - back*dx + s*side*dy, y - back*dy - s*side*dx) for s in (1, -1))]
    return f'<path d="M{"L".join(f"{a:.1f} {b:.1f}" for a, b in corners)}Z" fill="{colour}"/>'


def moved(x: float, y: float, parts: Iterable[str]) -> str:
    """*parts* with their origin at the point."""
    return f'<g transform="translate({x:g} {y:g})">{"".join(parts)}</g>'


def svg(width: float, height: float, parts: Iterable[str], words: str) -> str:
    """A whole picture; *words* are its content for those who cannot see it.

    >>> svg(10, 10, [label(0, 5, "a < b")], "a & b").partition("<desc>")[2]
    'a &amp; b</desc><text x="0" y="9.2" ... xml:space="preserve">a &lt; b</text></svg>'
    """
    return (f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:.0f}" height="{height:.0f}" '
            f'style="min-width:{width*_SMALLEST:.0f}px;max-width:100%;height:auto" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="ui-monospace,Menlo,Consolas,monospace">'
            f'<desc>{escape(words)}</desc>{"".join(parts)}</svg>')


def write_svg(picture: str, title: str, path: str | Path) -> None:
    """Write *picture* to a file of its own, with its *title*, in colours for light and for dark surroundings."""
    start, desc, rest = picture.partition("<desc>")
    whole = f"{start}<title>{escape(title)}</title>{_ALONE}{desc}{rest}\n"
    Path(path).write_text(whole, encoding="utf-8", newline="\n")
