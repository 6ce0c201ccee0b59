"""Programs whose subscripts, bounds and conditions are all affine, and steps that change their order."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from loopkit.kernel.tree import Leaf, Loop, Seq, Tree
from tests.property.kernels import ARRAYS, TEMPORARIES, Both, both, plain
from tests.property.pipelines import Drawer, Step
from tests.property.writer import Line, Scope, Writer


@dataclass
class AffineWriter(Writer):
    """Draws programs in which nothing is read from memory but values.

    All start with loops, and most of their instances depend on one another.
    """

    def block(self, scope: Scope, depth: int, conditional: bool = False) -> list[Line]:
        if scope.loops or conditional:
            lines = super().block(scope, depth, conditional)
            if len(scope.loops) == 1 and self.may_open(scope) and not conditional and self.chance(60):
                lines.append(self.loop(scope, 1))
            return lines
        return [self.loop(scope, depth) for _ in range(self.number(1, 2))]

    def read(self, scope: Scope, *names: str) -> Both:
        written = ("a", "b", "c", "c") if not self.independent or self.chance(25) else ()
        name = self.word(*(names or ("x", *written, *self.temporaries)))
        axes = {**ARRAYS, **TEMPORARIES}[name]
        if name in TEMPORARIES and scope.known and self.chance(75):
            parts = [plain(self.word(*scope.known)) for _ in range(axes)]
        else:
            parts = [self.subscript(scope) for _ in range(axes)]
        return both(f"{name}[{', '.join(['{}']*axes)}]", *parts)

    def use_of_rule(self, scope: Scope) -> Both:
        return self.read(scope)

    def target_subscript(self, scope: Scope) -> Both:
        return self.subscript(replace(scope, reducing=()))

    def condition(self, scope: Scope, *, affine: bool | None = None) -> Both:
        if not scope.known:
            return plain(self.word("n > 1", "n < 4"))
        x, y = self.word(*scope.known), self.word(*scope.known)
        return plain(self.word(f"{x} < 2", f"{x} >= 1", f"{x} % 2 == 0", f"{x} + {y} <= n", f"{x} != {y}"))


@dataclass
class Reshaper(Drawer):
    """Draws steps that change an order, and no data."""

    def reshaping(self) -> Step:
        return RESHAPING[self.one(list(RESHAPING))](self)

    def skew(self) -> Step:
        outer, inner = self.one(sorted(_nested(self.knl.tree)))
        by = self.one(({outer: 1}, {outer: 1}, {outer: 2}, {outer: -1}, f"3*{outer} % 4"))
        return Step("skew", (inner,), (("by", by),))

    def shift(self) -> Step:
        iname = self.one(self.untagged)
        owners = [s.id for s in self.knl.statements if iname in s.inames and s.id not in self.knl.reduction_of]
        within = (("within", self.one(owners)),) if owners and self.chance(60) else ()
        return Step("shift", (iname, self.one((1, -1, 2, "n"))), within)

    def reverse(self) -> Step:
        return Step("reverse", (self.one(self.untagged),))

    def fuse(self) -> Step:
        return Step("fuse_loops", (list(self.one(sorted(_neighbours(self.knl.tree)))),))

    def distribute(self) -> Step:
        s = self.one(self.knl.statement_by_id)
        return Step("distribute_loop", (self.one(self.knl.statement_by_id[s].inames), s))

    def jam(self) -> Step:
        return Step("unroll_and_jam", (self.one(self.untagged), self.one((2, 3))))

    def copy(self) -> Step:
        """A prefetch into plain loops or over threads, at its default place."""
        readers = self._readers([*self.knl.array_args])
        array = self.one(sorted(readers))
        inames = sorted({x for s in readers[array] for x in self.knl.statement_by_id[s].inames})
        tag = (("default_tag", self.one((None, "l.0"))), ("within", self.one(readers[array])))
        return Step("add_prefetch", (array, self.some(inames, 2) if inames else []), tag)


RESHAPING: Mapping[str, Callable[[Any], Step]] = {
    "map": Drawer.mapping, "map again": Drawer.mapping, "tag": Drawer.tag, "split": Drawer.split,
    "interchange": Drawer.interchange, "interchange again": Drawer.interchange, "prioritize": Drawer.prioritize,
    "tile": Drawer.tile, "tile again": Drawer.tile, "join": Drawer.join, "rename": Drawer.rename,
    "untag": Drawer.untag, "unroll": Drawer.unroll, "skew": Reshaper.skew, "shift": Reshaper.shift,
    "reverse": Reshaper.reverse, "fuse": Reshaper.fuse, "fuse again": Reshaper.fuse,
    "distribute": Reshaper.distribute, "jam": Reshaper.jam, "copy": Reshaper.copy}


def _nested(tree: Tree, around: tuple[str, ...] = ()) -> set[tuple[str, str]]:
    """Loops and loops inside them."""
    match tree:
        case Loop(iname, body):
            return {(x, iname) for x in around if x != iname} | _nested(body, (*around, iname))
        case Seq(children):
            return {pair for c in children for pair in _nested(c, around)}
        case Leaf() | _:
            return set()


def _neighbours(tree: Tree) -> set[tuple[str, ...]]:
    """Inames of loops that are side by side."""
    match tree:
        case Loop(_, body):
            return _neighbours(body)
        case Seq(children):
            here = {tuple(dict.fromkeys((a.iname, b.iname))) for a, b in pairwise(children)
                    if isinstance(a, Loop) and isinstance(b, Loop)}
            return {pair for c in children for pair in _neighbours(c)} | here
        case Leaf() | _:
            return set()
