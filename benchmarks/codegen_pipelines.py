"""Deep random pipelines for the codegen benchmark: a kernel, and four to eight steps drawn from what it has."""
from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import loopkit as lk
from loopkit.kernel.tree import Loop, Seq, Tree

LEAST_STEPS, MOST_STEPS = 4, 8
#: A step that is refused is drawn anew, so often in all.
MOST_REFUSED = 12


@dataclass(frozen=True)
class Base:
    """A kernel as it is written down; *arrays* are prefetched, in float32 as all the data."""

    name: str
    domains: str | tuple[str, ...]
    instructions: str
    arrays: tuple[str, ...]
    floats: str
    integers: str = ""
    assumptions: str = ""

    def text(self) -> list[str]:
        """Lines of Python that make it."""
        known = f", assumptions={self.assumptions!r}" if self.assumptions else ""
        dtypes = f'"{self.floats}": np.float32' + (f', "{self.integers}": np.int32' if self.integers else "")
        domains = self.domains if isinstance(self.domains, str) else list(self.domains)
        return [f"knl = lk.make_kernel({domains!r}, {self.instructions!r}{known})",
                f"knl = lk.add_dtypes(knl, {{{dtypes}}})"]


BASES = (
    Base("matmul", "{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<l}", "c[i,j] = sum(k, a[i,k]*b[k,j])", ("a", "b"), "a,b"),
    Base("triangular", "{[i,j,k]: 0<=i<n and i<=j<n and 0<=k<m}",
         "c[i,j] = c[i,j] + a[i,k]*a[j,k] {id=up}\nc[j,i] = c[i,j] {id=mirror,if=j>i}", ("a",), "a,c"),
    Base("strided union", "{[i,j]: (0<=i<n or 2*n<=i<2*n+m) and 0<=j<m and (i+2*j) mod 3 = 1}",
         "y[i,j] = x[i]*j + y[i,j]", ("x",), "x,y", assumptions="n>=1 and m>=1"),
    Base("guarded stencil", "{[i,j]: 1<=i<n-1 and 1<=j<m-1}",
         "b[i,j] = a[i,j] + a[i-1,j] + a[i+1,j] + a[i,j-1] + a[i,j+1] {if=i+j<n+m-4}", ("a",), "a"),
    Base("time stencil", "{[t,i]: 0<=t<s and 1<=i<n-1}", "u[t+1,i] = u[t,i-1] + u[t,i] + u[t,i+1]", ("u",), "u"),
    Base("running sums", "{[i,j]: 0<=i<n and 0<=j<=i}", "y[i] = sum(j, x[j]*w[i-j])", ("x", "w"), "x,w"),
    Base("recurrence", "{[i,j]: 0<=i<n and 0<=j<m}", "s[i,j+1] = 0.5*s[i,j] + x[i,j]", ("x",), "s,x"),
    Base("sparse rows", ("{[i]: 0<=i<n}", "{[k]: 0<=k<length}"),
         "for i\n  <> first = rowptr[i]\n  <> length = rowptr[i+1] - first\n"
         "  y[i] = sum(k, val[first+k]*x[col[first+k]])\nend", ("x", "val"), "val,x", "rowptr,col"),
    Base("two loops", "{[i]: 0<=i<n}", "<> t = x[i]\ny[i] = 2*t", ("x",), "x"),
    Base("normed rows", "{[i,j,e]: 0<=i<n and 0<=j<m and 0<=e<m}",
         "<> top = max(e, x[i,e])\ny[i,j] = exp(x[i,j] - top)", ("x",), "x"),
    Base("contraction", "{[p,q,c,d]: 0<=p<n and 0<=q<m and 0<=c<8 and 0<=d<l}",
         "r[p,q] = sum([c,d], v[p,c,d]*w[q,d,c])", ("v", "w"), "v,w"),
    Base("convolution", "{[i,j,p,q]: 0<=i<n and 0<=j<m and 0<=p,q<3}", "y[i,j] = sum([p,q], x[i+p,j+q]*f[p,q])",
         ("x", "f"), "x,f"),
)


@dataclass
class Pipelines:
    """Draws steps for *knl*."""

    lot: random.Random
    base: Base
    knl: Any

    def step(self) -> str | None:
        """A step as Python, or ``None``: the kernel has nothing for the kind that was drawn."""
        try:
            return self.lot.choice(KINDS)(self)
        except IndexError:                     # of choosing from nothing
            return None

    @property
    def plain(self) -> list[str]:
        return [x for x in self.knl.inames if x not in self.knl.tags]

    def length(self) -> int:
        return self.lot.choice((2, 3, 4, 5, 8, 16))

    def split(self) -> str:
        return f'lk.split_iname(knl, "{self.lot.choice(self.plain)}", {self.length()})'

    def mapped(self) -> str:
        axis = self.lot.choice("001")
        return (f'lk.split_iname(knl, "{self.lot.choice(self.plain)}", {self.length()}, outer_tag="g.{axis}", '
                f'inner_tag="l.{axis}")')

    def split_tagged(self) -> str:
        tag, length = self.lot.choice((("unr", 4), ("vec", 4), ("vec", 2), ("l.0", 16), ("unr", 3)))
        return f'lk.split_iname(knl, "{self.lot.choice(self.plain)}", {length}, inner_tag="{tag}")'

    def tile(self) -> str:
        chosen = self.lot.sample(self.plain, min(2, len(self.plain)))
        return f"lk.tile(knl, {({x: self.length() for x in chosen})!r})"

    def fill(self) -> str:
        return f'lk.pad_domain(knl, {{"{self.lot.choice(self.plain)}": {self.length()}}})'

    def peel(self) -> str:
        first, last = self.lot.choice(((1, 0), (0, 1), (1, 1), (2, 1)))
        return f'lk.peel(knl, "{self.lot.choice(self.plain)}", {first}, {last})'

    def jam(self) -> str:
        return f'lk.unroll_and_jam(knl, "{self.lot.choice(self.plain)}", {self.lot.choice((2, 3, 4))})'

    def chunk(self) -> str:
        return f'lk.chunk_iname(knl, "{self.lot.choice(self.plain)}", {self.lot.choice((2, 3, 5))})'

    def skew(self) -> str:
        outer, inner = self.lot.choice(self.nests())
        return f'lk.skew(knl, "{inner}", by={{"{outer}": {self.lot.choice((1, 2, -1))}}})'

    def interchange(self) -> str:
        outer, inner = self.lot.choice(self.nests())
        return f'lk.interchange(knl, "{outer}", "{inner}")'

    def shift(self) -> str:
        return f'lk.shift(knl, "{self.lot.choice(self.plain)}", {self.lot.choice((1, 2, -1))})'

    def reverse(self) -> str:
        return f'lk.reverse(knl, "{self.lot.choice(self.plain)}")'

    def prefetch(self) -> str:
        array = self.lot.choice(self.base.arrays)
        inner = [x for x in self.knl.inames if x.endswith(("_inner", "_m", "_h"))] or list(self.knl.inames)
        swept = self.lot.sample(inner, min(self.lot.choice((1, 2)), len(inner)))
        tag = self.lot.choice((', default_tag="l.auto"', "", ', default_tag="unr"'))
        box = self.lot.choice(("", "", ", fetch_bounding_box=True"))
        return f'lk.add_prefetch(knl, "{array}", {swept!r}{tag}{box})'

    def buffer(self) -> str:
        array = self.lot.choice(sorted(self.knl.written_names & self.knl.array_args.keys()))
        swept = self.lot.sample(list(self.knl.inames), 1)
        return f'lk.buffer_array(knl, "{array}", {swept!r})'

    def join(self) -> str:
        return f"lk.join_inames(knl, {list(self.lot.choice(self.neighbours()))!r})"

    def distribute(self) -> str:
        iname, statement = self.lot.choice(self.plain), self.lot.choice(self.knl.statements)
        return f'lk.distribute_loop(knl, "{iname}", "{statement.id}")'

    def pipeline(self) -> str:
        return f'lk.pipeline(knl, "{self.lot.choice(self.plain)}", 2)'

    def nests(self) -> list[tuple[str, str]]:
        """Loops and loops inside of them."""
        found = []
        for way in self.knl.paths.values():
            loops = [step.iname for step in way if step.iname is not None]
            found += [(x, y) for at, x in enumerate(loops) for y in loops[at + 1:]]
        return sorted(set(found))

    def neighbours(self) -> list[tuple[str, str]]:
        """Loops and the loop that is all of their body."""
        def walk(tree: Tree) -> list[tuple[str, str]]:
            match tree:
                case Loop(iname, body):
                    return [*([(iname, body.iname)] if isinstance(body, Loop) else []), *walk(body)]
                case Seq(children):
                    return [x for c in children for x in walk(c)]
                case _:
                    return []
        return sorted(set(walk(self.knl.tree)))


#: What is drawn from, some kinds twice as often.
KINDS: tuple[Callable[[Pipelines], str], ...] = (
    Pipelines.split, Pipelines.split, Pipelines.mapped, Pipelines.mapped, Pipelines.split_tagged, Pipelines.tile,
    Pipelines.tile, Pipelines.fill, Pipelines.peel, Pipelines.jam, Pipelines.chunk, Pipelines.skew,
    Pipelines.interchange, Pipelines.shift, Pipelines.reverse, Pipelines.prefetch, Pipelines.prefetch,
    Pipelines.buffer, Pipelines.join, Pipelines.distribute, Pipelines.pipeline)


def run(lines: list[str], knl: Any = None) -> Any:
    """The kernel that *lines* of Python make."""
    names: dict[str, Any] = {"lk": lk, "np": np, "knl": knl}
    for line in lines:
        exec(line, names)
    return names["knl"]


def draw(seed: int, timed: Callable[[str, Callable[[], Any]], Any]) -> tuple[list[str], Any]:
    """The text and the kernel of pipeline *seed*.

    :arg timed: ``timed(text, call)`` runs a call, which may raise a LoopkitError, and remembers how long it took.
    """
    lot = random.Random(seed)
    base = lot.choice(BASES)
    lines = base.text()
    knl = timed(lines[0], lambda: run(lines))
    pipelines, refused, wanted = Pipelines(lot, base, knl), 0, lot.randint(LEAST_STEPS, MOST_STEPS) + len(lines)
    while len(lines) < wanted and refused < MOST_REFUSED:
        call = pipelines.step()
        if call is None:
            refused += 1
            continue
        line = f"knl = {call}"
        try:
            pipelines.knl = timed(line, lambda line=line: run([line], pipelines.knl))  # type: ignore[misc]
            lines.append(line)
        except lk.LoopkitError:
            refused += 1
    return lines, pipelines.knl
