"""Random nests whose inames share an axis of the grid, in parts of symbolic lengths."""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st

from tests.property.kernels import Draw, Iname, Program
from tests.property.pipelines import Drawer, Step

#: Where a loop may begin and end, as a domain and as Python, and the loop on which that depends; all values are below
#: 6, those of the inner ones below 5.
OUTER = (("0<={x}<n", "range(n)", ""), ("0<={x}<n", "range(n)", ""), ("0<={x}<m", "range(m)", ""),
         ("1<={x}<n", "range(1, n)", ""), ("0<={x}<4", "range(4)", ""), ("m<={x}<=n", "range(m, n + 1)", ""),
         ("0<={x}<n and {x} mod 2 = 0", "range(0, n, 2)", ""),
         ("0<={x}<2 or 3<={x}<n", "[*range(2), *range(3, n)]", ""))
INNER = (("0<={x}<m", "range(m)", ""), ("0<={x}<m", "range(m)", ""), ("0<={x}<n", "range(n)", ""),
         ("0<={x}<3", "range(3)", ""), ("{y}<={x}<n", "range({y}, n)", "y"), ("0<={x}<=m", "range(m + 1)", ""),
         ("0<={x}<{y}", "range({y})", "y"), ("{y}<={x}<={y}+2", "range({y}, {y} + 3)", "y"),
         ("1<={x}<m", "range(1, m)", ""))
#: What a nest of one, two or three loops writes: an element for each instance.
TARGETS = (("a[{i}]", "b[{i}]", "c[{i}, 2]"), ("c[{i}, {j}]", "c[{j}, {i}]", "c[{j}, 2*{i} + 1]"),
           ("c[{i}, 8*{k} + {j}]", "c[{j} + 9*{k}, {i}]"))
GUARDS = ("", "", "", "", "{i} > 0", "{i} + 1 < n", "{i} < 2", "x[{i}] > 0")


@dataclass
class Nests:
    """Draws the loops and statements of one program."""

    draw: Draw
    inames: list[Iname] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    python: list[str] = field(default_factory=list)

    def one(self, choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def line(self, depth: int, text: str, python: str | None = None) -> None:
        self.text.append("  "*depth + text)
        self.python.append("  "*depth + (text if python is None else python))

    def loops(self, count: int) -> list[str]:
        """New inames, each within those before it."""
        found: list[str] = []
        for depth in range(count):
            x = "ijklpqrs"[len(self.inames)]
            domain, values, of_outer = self.one(OUTER if depth == 0 else INNER) if depth < 2 else \
                ("0<={x}<2", "range(2)", "")
            y = found[0] if found else ""
            self.inames.append(Iname(x, domain.format(x=x, y=y), values.format(y=y), (y,) if of_outer else (), 0))
            found.append(x)
        return found

    def nest(self) -> None:
        """Loops around an assignment; at times a value that the inner ones share, or an own statement of the outer."""
        count = self.one((1, 2, 2, 2, 3))
        loops = self.loops(count)
        named = dict(zip("ijk", loops, strict=False))
        scalar = ""
        for depth, (x, iname) in enumerate(zip(loops, self.inames[-count:], strict=True)):
            self.line(depth, f"for {x}", f"for {x} in {iname.values}:")
            if depth + 1 < count and not scalar and self.draw(st.integers(0, 3)) == 0:
                scalar = f"t{x}"
                self.line(depth + 1, f"<> {scalar} = x[{x}] + 1", f"{scalar} = x[{x}] + 1")
        target = self.one(TARGETS[count - 1]).format(**named)
        value = f"x[{self.one(loops)}] + {self.one((*loops, f'z[{loops[-1]}, {loops[0]}]', '3'))}"
        value += f" + {scalar}" if scalar else ""
        value += self.one(("", "", "", f" + {target}"))
        guard = self.one(GUARDS).format(i=self.one(loops))
        self.line(count, f"{target} = {value}" + (f" {{if={guard}}}" if guard else ""),
                  (f"if {guard}: " if guard else "") + f"{target} = {value}")
        self.text += ["  "*depth + "end" for depth in reversed(range(count))]


@st.composite
def sharing_programs(draw: Draw) -> Program:
    """One nest to three, and statements beside them."""
    nests = Nests(draw)
    for beside in ("a[20] = x[0]", "b[21] = x[1] + 1", "c[22, 22] = 3")[:draw(st.integers(0, 1)) + 1]:
        if draw(st.integers(0, 3)) == 0:
            nests.line(0, beside)
        nests.nest()
    if draw(st.integers(0, 3)) == 0:
        nests.line(0, "a[22] = x[2]")
    sizes = tuple({"n": draw(st.integers(0, 6)), "m": draw(st.integers(0, 5))} for _ in range(2))
    text = "\n".join(nests.text) + "\n"
    whole = text + " ".join(x.domain for x in nests.inames)
    assumed = [f"{q}>={draw(st.integers(0, 2))}" for q in "nm" if re.search(rf"\b{q}\b", whole) and draw(st.booleans())]
    return Program("sharing", tuple(x.text for x in nests.inames), text, "\n".join(nests.python) + "\n",
                   nests.one(("int64", "float64")), (), " and ".join(assumed) or None, ({"n": 5, "m": 3}, *sizes),
                   draw(st.integers(0, 99)))


def on_blocks(drawer: Drawer) -> Step:
    """An iname onto blocks, most often those of one axis."""
    x = drawer.one(drawer.untagged)
    axis = drawer.one(("g.0", "g.0", "g.0", "g.1"))
    if drawer.chance(60):
        return Step("tag_inames", ({x: axis},))
    inner = (("inner_tag", "l.0"),) if drawer.chance(50) else ()
    return Step("split_iname", (x, drawer.one((2, 3))), (("outer_tag", axis), *inner))
