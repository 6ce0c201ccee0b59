"""A graph as a drawing: its nodes in layers, the edges to later layers between them, and the others at the side."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from loopkit.show.drawing import FRAME, LINE, QUIET, TEXT, box, head, label, quiet_lines, svg, widest

#: Pixels between neighbours in a layer, beside the text of a node, and between layers.
_GAP, _PAD, _BETWEEN = 28, 8, 24

#: Sweeps down and up that bring nodes near to their neighbours.
_SWEEPS = 6


@dataclass(frozen=True)
class GraphNode:
    """A node with the lines of its box; *loop* are those of the edge from it to itself."""

    name: str
    lines: tuple[str, ...]
    loop: tuple[str, ...] = ()
    colour: str = TEXT


@dataclass(frozen=True)
class GraphEdge:
    """An edge and its lines."""

    source: str
    sink: str
    lines: tuple[str, ...]
    colour: str


@dataclass
class _Item:
    """A thing in a layer: a node, the label of an edge, or a place through which an edge passes.

    :ivar own: the height of its box or label, at its top.
    :ivar anchor: the horizontal distance from its left side to the middle of its box, where edges arrive.
    :ivar above: the items of the layer above that it is joined to; *below*: likewise.
    :ivar x: its left side; *y*: its top.
    """

    width: float
    height: float
    own: float
    anchor: float
    above: list[_Item] = field(default_factory=list)
    below: list[_Item] = field(default_factory=list)
    x: float = 0
    y: float = 0

    @property
    def centre(self) -> float:
        return self.x + self.anchor

    @property
    def bottom(self) -> float:
        return self.y + self.own


@dataclass(frozen=True)
class _Layout:
    """The layers of a graph, the item of each node, and the chain of items of each edge between layers."""

    layers: Sequence[list[_Item]]
    nodes: Mapping[str, _Item]
    chains: Sequence[tuple[GraphEdge, Sequence[_Item]]]


def graph_drawing(nodes: Sequence[GraphNode], edges: Sequence[GraphEdge], notes: Sequence[str], words: str) -> str:
    """The drawing of a graph whose *nodes* are in order: an edge to an earlier one is drawn at the side."""
    number = {node.name: i for i, node in enumerate(nodes)}
    ahead = [e for e in edges if number[e.source] < number[e.sink]]
    back = sorted((e for e in edges if number[e.source] > number[e.sink]),
                  key=lambda e: number[e.source] - number[e.sink])
    layout = _layered(nodes, ahead)
    _place_items(layout)
    right = max(item.x + item.width for layer in layout.layers for item in layer)
    bottom = max(item.y + item.height for layer in layout.layers for item in layer)
    parts = [part for edge, chain in layout.chains for part in _edge_parts(edge, chain)]
    parts += [part for node in nodes for part in _node_parts(node, layout.nodes[node.name])]
    lane = right + 12
    for edge in back:
        parts += _back_parts(edge, layout.nodes[edge.source], layout.nodes[edge.sink], lane)
        lane += widest(edge.lines) + 24
    bottom += 26 if back else 8
    parts += quiet_lines(bottom, notes)
    width = max(lane if back else right + 8, widest(notes) + 8)
    return svg(width, bottom + len(notes)*LINE + 4, parts, words)


# The layout

def _layered(nodes: Sequence[GraphNode], edges: Sequence[GraphEdge]) -> _Layout:
    """Nodes on even layers, each below those with an edge to it; labels of edges on odd layers."""
    level = dict.fromkeys((node.name for node in nodes), 0)
    for node in nodes:
        level[node.name] = max((level[e.source] + 2 for e in edges if e.sink == node.name), default=0)
    layers: list[list[_Item]] = [[] for _ in range(max(level.values()) + 1)]
    items = {node.name: _node_item(node) for node in nodes}
    for node in nodes:
        layers[level[node.name]].append(items[node.name])
    chains: list[tuple[GraphEdge, list[_Item]]] = []
    for edge in edges:
        first, last = level[edge.source], level[edge.sink]
        inside = [_Item(12, 0, 0, 6) for _ in range(first + 1, last)]
        inside[0] = _Item(widest(edge.lines) + 14, LINE*len(edge.lines), LINE*len(edge.lines), 4)
        for at, item in enumerate(inside, first + 1):
            layers[at].append(item)
        chain = [items[edge.source], *inside, items[edge.sink]]
        for a, b in pairwise(chain):
            a.below.append(b)
            b.above.append(a)
        chains.append((edge, chain))
    return _Layout(layers, items, chains)


def _node_item(node: GraphNode) -> _Item:
    own = widest(node.lines) + 2*_PAD
    beside = widest(node.loop) + 40 if node.loop else 0
    return _Item(own + beside, LINE*max(len(node.lines), len(node.loop)) + 6, LINE*len(node.lines) + 6, own/2)


def _place_items(layout: _Layout) -> None:
    """Give each item its place: layers under each other, each item near those that it is joined to."""
    y = 12.0
    for layer in layout.layers:
        height = max(item.height for item in layer)
        for item in layer:
            item.y, item.own = y, item.own or height        # an edge passes the layer straight
        y += height + _BETWEEN
        _set_apart(layer, [sum(item.width for item in layer[:i]) for i in range(len(layer))])
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for layer in layout.layers if down else reversed(layout.layers):
            wanted = {id(item): _wanted_place(item.above if down else item.below, item) for item in layer}
            layer.sort(key=lambda item: wanted[id(item)])
            _set_apart(layer, [wanted[id(item)] for item in layer])
    left = min(item.x for layer in layout.layers for item in layer)
    for layer in layout.layers:
        for item in layer:
            item.x += 4 - left


def _wanted_place(joined: Sequence[_Item], item: _Item) -> float:
    """The left side of *item* at which its anchor is in the middle of those of the *joined* ones."""
    return item.x if not joined else sum(other.centre for other in joined)/len(joined) - item.anchor


def _set_apart(layer: Sequence[_Item], wanted: Sequence[float]) -> None:
    """Put the items of *layer* at the *wanted* places, moved as far as they would overlap."""
    end = float("-inf")
    for item, x in zip(layer, wanted, strict=True):
        item.x = max(x, end)
        end = item.x + item.width + _GAP
    if layer:
        shift = sum(item.x - x for item, x in zip(layer, wanted, strict=True))/len(layer)
        for item in layer:
            item.x -= shift


# The drawing

def _node_parts(node: GraphNode, item: _Item) -> Iterator[str]:
    width, high = 2*item.anchor, item.own
    yield box(item.x, item.y, width, high, fill=node.colour, opacity=.1, stroke=FRAME)
    for i, line in enumerate(node.lines):
        yield label(item.x + _PAD, item.y + 3 + (i + .5)*LINE, line, bold=i == 0, colour=QUIET if i else TEXT)
    if node.loop:
        x, y, up, down = item.x + width, item.y + high/2, item.y + high/2 - 8, item.y + high/2 + 8
        curve = f"C{x + 26:.1f} {up - 6:.1f} {x + 26:.1f} {down + 6:.1f} {x + 5:.1f} {down:.1f}"
        yield f'<path d="M{x:.1f} {up:.1f}{curve}" stroke="{node.colour}" stroke-width="1.5" fill="none"/>'
        yield head(x, down, -1, 0, colour=node.colour)
        for i, line in enumerate(node.loop):
            yield label(x + 30, y + (i - min(1, len(node.loop) - 1)/2)*LINE, line)


def _edge_parts(edge: GraphEdge, chain: Sequence[_Item]) -> Iterator[str]:
    """A curve through the items between the two nodes, with an arrow's head at the last one, and the label."""
    points = [(_port(chain[0], chain[0].below, chain[1]), chain[0].bottom)]
    for item in chain[1:-1]:
        points += [(item.centre, item.y), (item.centre, item.bottom)]
    points.append((_port(chain[-1], chain[-1].above, chain[-2]), chain[-1].y))
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x, y), (to_x, to_y) in pairwise(points):
        end = to_y - 6 if (to_x, to_y) == points[-1] else to_y
        middle = (y + to_y)/2
        path += f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {end:.1f}"
    yield f'<path d="{path}" stroke="{edge.colour}" stroke-width="1.5" fill="none"/>'
    yield head(*points[-1], 0, 1, colour=edge.colour)
    for i, line in enumerate(edge.lines):
        yield label(chain[1].centre + 6, chain[1].y + (i + .5)*LINE, line)


def _port(item: _Item, joined: Sequence[_Item], other: _Item) -> float:
    """The place on the side of *item* of its edge to *other*: edges lie side by side in the order of their nodes."""
    order = sorted(joined, key=lambda x: x.centre)
    place = next(i for i, x in enumerate(order) if x is other)
    return item.x + 2*item.anchor*(place + 1)/(len(order) + 1)


def _back_parts(edge: GraphEdge, source: _Item, sink: _Item, lane: float) -> Iterator[str]:
    """An edge to an earlier node: out below its source, up at the side, and into its sink from above."""
    start, end = source.x + 2*source.anchor - 6, sink.x + 2*sink.anchor - 6
    low, high = source.y + source.height + 7, sink.y - 9
    yield (f'<path d="M{start:.1f} {source.bottom:.1f}V{low:.1f}H{lane:.1f}V{high:.1f}H{end:.1f}V'
           f'{sink.y - 5:.1f}" stroke="{edge.colour}" stroke-width="1.5" stroke-dasharray="5 3" fill="none"/>')
    yield head(end, sink.y, 0, 1, colour=edge.colour)
    for i, line in enumerate(edge.lines):
        yield label(lane + 6, (low + high)/2 + (i - (len(edge.lines) - 1)/2)*LINE, line)
