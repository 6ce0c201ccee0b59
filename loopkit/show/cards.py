"""Pictures in the card of a kernel, where they are small and known without further analysis."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from loopkit.errors import LoopkitError
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import leaves
from loopkit.lowering.pipeline import lowered_in_one_version
from loopkit.poly.limits import bounded
from loopkit.show.dependence_graph import dependences_plot
from loopkit.show.document import Block, Document, Fold, Paragraph, Span
from loopkit.show.loops import loops_plot, tree_rows
from loopkit.show.plot import Plot

#: The most rows of the loop tree, and the most statements of the dependences, in a card.
_MOST_CARD_ROWS, _MOST_CARD_STATEMENTS = 80, 12


def with_pictures(card: Document, knl: LoopKernel) -> Document:
    """The *card* of *knl* with its pictures, folded. The text of a card has no pictures: it shows the same in words."""
    with bounded(f"drawing kernel '{knl.name}'"):
        body = tuple(_picture_blocks(knl))
    return replace(card, body=(*card.body, Fold("Pictures", body, is_open=False))) if body else card


def _picture_blocks(knl: LoopKernel) -> Iterator[Block]:
    try:
        lowered = lowered_in_one_version(knl)
    except LoopkitError:                    # the card shows the reason
        return
    names = []
    if len(list(tree_rows(lowered))) <= _MOST_CARD_ROWS:
        yield from _picture_under_title(loops_plot(lowered))
    else:
        names.append("loops")
    order = list(leaves(knl.tree))
    if len(order) <= _MOST_CARD_STATEMENTS:
        yield from _picture_under_title(dependences_plot(knl, order))
    else:
        names.append("dependences")
    others = ", ".join(f'knl.plot("{name}")' for name in (*names, "domain", "grid", "access"))
    yield Paragraph((Span(f"more pictures: {others}", "note"),))


def _picture_under_title(plot: Plot) -> tuple[Block, ...]:
    return Paragraph((plot.title,)), plot.picture
