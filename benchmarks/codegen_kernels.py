"""The kernels of the codegen benchmark, written once for loopkit and for loopy.

Each case is a function from an :class:`Api` to the finished kernel; it calls :meth:`Api.made` between writing
the kernel down and transforming it. What loopy needs beyond that is in arguments called ``loopy_...``.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Kernel = Any


class Api(Protocol):
    """What the two packages have in common."""

    def make(self, domains: str | Sequence[str], instructions: str, *, name: str, assumptions: str = "",
             shared: Mapping[str, int] | None = None, loopy_instructions: str | None = None,
             loopy_unshaped: Sequence[str] = ()) -> Kernel:
        """A kernel; *shared* declares float32 temporaries in shared memory and their lengths.

        *loopy_unshaped* are arrays whose extent loopy must not ask for.
        """

    def made(self) -> None:
        """The kernel is written down; what follows transforms it."""

    def dtypes(self, knl: Kernel, dtypes: Mapping[str, Any]) -> Kernel: ...

    def split(self, knl: Kernel, iname: str, length: int, outer_tag: str | None = None,
              inner_tag: str | None = None) -> Kernel: ...

    def tag(self, knl: Kernel, tags: Mapping[str, str]) -> Kernel: ...

    def prefetch(self, knl: Kernel, array: str, inames: Sequence[str], *,
                 loopy_outer: str | None = None, loopy_box: bool = False) -> Kernel:
        """Fetch the footprint of *inames* into shared memory, all threads of the block taking part.

        *loopy_outer* are the inames around the fetch, *loopy_box* asks for the footprint's bounding box.
        """


@dataclass(frozen=True)
class Case:
    """One kernel with its pipeline.

    :ivar family: for the synthetic ones, what grows; *size* is then the number that it grows with.
    :ivar slow: takes loopy seconds; left out by ``--quick``.
    """

    name: str
    build: Callable[[Api], Kernel]
    family: str | None = None
    size: int = 0
    slow: bool = False


def _floats(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, np.float32)


# One and two loops


def vector_add(api: Api) -> Kernel:
    knl = api.make("{[i]: 0<=i<n}", "z[i] = x[i] + y[i]", name="vector_add", assumptions="n>=1")
    api.made()
    knl = api.dtypes(knl, _floats("x", "y"))
    return api.split(knl, "i", 256, "g.0", "l.0")


def scale(api: Api) -> Kernel:
    knl = api.make("{[i]: 0<=i<n}", "out[i] = 2*a[i]", name="scale", assumptions="n>=1")
    api.made()
    knl = api.dtypes(knl, _floats("a"))
    return api.split(knl, "i", 128, "g.0", "l.0")


def transpose(api: Api) -> Kernel:
    knl = api.make("{[i,j]: 0<=i<n and 0<=j<m}", "out[i,j] = a[j,i]", name="transpose",
                   assumptions="n>=1 and m>=1")
    api.made()
    knl = api.dtypes(knl, _floats("a"))
    knl = api.split(knl, "i", 16, "g.1", "l.1")
    knl = api.split(knl, "j", 16, "g.0", "l.0")
    return api.prefetch(knl, "a", ["i_inner", "j_inner"], loopy_outer="i_outer,j_outer")


def conditional(api: Api) -> Kernel:
    knl = api.make(
        "{[i]: 0<=i<n}",
        """
        if i < 10
            out[i] = 2*a[i] {id=low}
        else
            out[i] = if(a[i] > 0, a[i], -a[i]) {id=high}
        end
        """,
        name="conditional", assumptions="n>=1",
        loopy_instructions="""
        if i < 10
            out[i] = 2*a[i] {id=low, nosync=high}
        else
            out[i] = if(a[i] > 0, a[i], -a[i]) {id=high, nosync=low}
        end
        """)
    api.made()
    knl = api.dtypes(knl, _floats("a"))
    return api.split(knl, "i", 128, "g.0", "l.0")


def prefix(api: Api) -> Kernel:
    knl = api.make("{[i]: 1<=i<n}", "a[i] = a[i-1] + b[i]", name="prefix", assumptions="n>=2")
    api.made()
    return api.dtypes(knl, _floats("a", "b"))


def jacobi(api: Api) -> Kernel:
    text = """
        for t
            for i, j
                v[i,j] = 0.25*(u[i-1,j] + u[i+1,j] + u[i,j-1] + u[i,j+1]) {id=relax}
            end
            for p, q
                u[p,q] = v[p,q] {id=back, dep=relax}
            end
        end
        """
    knl = api.make(
        ["{[t]: 0<=t<steps}", "{[i,j]: 1<=i<n-1 and 1<=j<n-1}", "{[p,q]: 1<=p<n-1 and 1<=q<n-1}"], text,
        name="jacobi", assumptions="n>=3 and steps>=1",
        loopy_instructions=text.replace("{id=relax}", "{id=relax, dep=*}"))     # or it makes a cycle of the two
    api.made()
    return api.dtypes(knl, _floats("u", "v"))


def two_launches(api: Api) -> Kernel:
    knl = api.make(
        ["{[i]: 0<=i<n}", "{[j]: 0<=j<n}"],
        """
        t[i] = 2*a[i] {id=first}
        out[j] = t[n-1-j] {id=second}
        """,
        name="two_launches", assumptions="n>=1",
        loopy_instructions="""
        t[i] = 2*a[i] {id=first}
        ... gbarrier {id=sync, dep=first}
        out[j] = t[n-1-j] {id=second, dep=sync}
        """)
    api.made()
    knl = api.dtypes(knl, _floats("a", "t"))
    knl = api.split(knl, "i", 128, "g.0", "l.0")
    return api.split(knl, "j", 128, "g.0", "l.0")

# Matrix products


def _matmul(api: Api) -> Kernel:
    knl = api.make("{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<l}", "c[i,j] = sum(k, a[i,k]*b[k,j])",
                   name="matmul", assumptions="n>=1 and m>=1 and l>=1")
    api.made()
    return api.dtypes(knl, _floats("a", "b"))


def matmul_naive(api: Api) -> Kernel:
    knl = _matmul(api)
    knl = api.split(knl, "i", 16, "g.1", "l.1")
    return api.split(knl, "j", 16, "g.0", "l.0")


def matmul_tiled(api: Api) -> Kernel:
    knl = matmul_naive(api)
    knl = api.split(knl, "k", 16)
    outer = "i_outer,j_outer,k_outer"
    knl = api.prefetch(knl, "a", ["i_inner", "k_inner"], loopy_outer=outer)
    return api.prefetch(knl, "b", ["k_inner", "j_inner"], loopy_outer=outer)


def matmul_blocked(api: Api, *, unroll: bool) -> Kernel:
    knl = _matmul(api)
    for iname, axis in (("i", 1), ("j", 0)):
        knl = api.split(knl, iname, 128, f"g.{axis}")
        knl = api.split(knl, f"{iname}_inner", 8, f"l.{axis}", "ilp")
    knl = api.split(knl, "k", 8, inner_tag="unr" if unroll else None)
    outer = "i_outer,j_outer,k_outer"
    knl = api.prefetch(knl, "a", ["i_inner_outer", "i_inner_inner", "k_inner"], loopy_outer=outer)
    return api.prefetch(knl, "b", ["k_inner", "j_inner_outer", "j_inner_inner"], loopy_outer=outer)


def batched_matmul(api: Api) -> Kernel:
    knl = api.make("{[e,i,x,j]: 0<=e<elements and 0<=i<20 and 0<=x<3 and 0<=j<20}",
                   "out[x,e,i] = sum(j, d[x,i,j]*u[e,j])", name="batched_matmul", assumptions="elements>=1")
    api.made()
    knl = api.dtypes(knl, _floats("d", "u"))
    knl = api.split(knl, "e", 16, "g.0", "l.1")
    knl = api.tag(knl, {"i": "l.0", "x": "unr"})
    return api.prefetch(knl, "u", ["e_inner", "j"], loopy_outer="e_outer")

# Stencils


def stencil_2d(api: Api) -> Kernel:
    knl = api.make("{[i,j]: 0<=i<n and 0<=j<m}",
                   "out[i,j] = u[i+1,j+1] + 0.25*(u[i,j+1] + u[i+2,j+1] + u[i+1,j] + u[i+1,j+2])",
                   name="stencil_2d", assumptions="n>=1 and m>=1")
    api.made()
    knl = api.dtypes(knl, _floats("u"))
    knl = api.split(knl, "i", 16, "g.1", "l.1")
    knl = api.split(knl, "j", 16, "g.0", "l.0")
    return api.prefetch(knl, "u", ["i_inner", "j_inner"], loopy_outer="i_outer,j_outer", loopy_box=True)


def stencil_3d(api: Api) -> Kernel:
    knl = api.make("{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<l}",
                   "out[i,j,k] = -6*u[i+1,j+1,k+1] + u[i,j+1,k+1] + u[i+2,j+1,k+1] + u[i+1,j,k+1] "
                   "+ u[i+1,j+2,k+1] + u[i+1,j+1,k] + u[i+1,j+1,k+2]",
                   name="stencil_3d", assumptions="n>=1 and m>=1 and l>=1")
    api.made()
    knl = api.dtypes(knl, _floats("u"))
    for iname, length, axis in (("i", 4, 2), ("j", 8, 1), ("k", 16, 0)):
        knl = api.split(knl, iname, length, f"g.{axis}", f"l.{axis}")
    return api.prefetch(knl, "u", ["i_inner", "j_inner", "k_inner"], loopy_outer="i_outer,j_outer,k_outer",
                        loopy_box=True)

# Rows


def _softmax(api: Api, width: str, assumptions: str) -> Kernel:
    knl = api.make(
        f"{{[i,j,k,q]: 0<=i<n and 0<=j<{width} and 0<=k<{width} and 0<=q<{width}}}",
        """
        <> top = max(j, a[i,j]) {id=top}
        <> total = sum(k, exp(a[i,k] - top)) {id=total}
        out[i,q] = exp(a[i,q] - top) / total {id=out}
        """,
        name="softmax", assumptions=assumptions)
    api.made()
    return api.dtypes(knl, _floats("a"))


def _layer_norm(api: Api, width: str, assumptions: str) -> Kernel:
    knl = api.make(
        f"{{[i,j,k,q]: 0<=i<n and 0<=j<{width} and 0<=k<{width} and 0<=q<{width}}}",
        f"""
        <> mean = sum(j, a[i,j]) / {width} {{id=mean}}
        <> var = sum(k, (a[i,k] - mean)*(a[i,k] - mean)) / {width} {{id=var}}
        out[i,q] = gain[q]*(a[i,q] - mean) / sqrt(var + eps) + bias[q] {{id=out}}
        """,
        name="layer_norm", assumptions=assumptions)
    api.made()
    return api.dtypes(knl, _floats("a", "gain", "bias", "eps"))


Rows = Callable[[Api, str, str], Kernel]


def thread_a_row(api: Api, rows: Rows) -> Kernel:
    return api.split(rows(api, "m", "n>=1 and m>=1"), "i", 128, "g.0", "l.0")


def block_a_row(api: Api, rows: Rows) -> Kernel:
    """Rows as long as the block: loopy has no parallel reduction of a ragged row, nor of one that is longer."""
    return api.tag(rows(api, "256", "n>=1"), {"i": "g.0", "j": "l.0", "k": "l.0", "q": "l.0"})

# Particles and sparse rows


def n_body(api: Api) -> Kernel:
    knl = api.make(
        "{[i,j]: 0<=i<n and 0<=j<n}",
        "pot[i] = sum(j, q[j] / sqrt((x[i]-x[j])*(x[i]-x[j]) + (y[i]-y[j])*(y[i]-y[j]) "
        "+ (z[i]-z[j])*(z[i]-z[j]) + 0.01))",
        name="n_body", assumptions="n>=1")
    api.made()
    knl = api.dtypes(knl, _floats("x", "y", "z", "q"))
    return api.split(knl, "i", 256, "g.0", "l.0")


def csr(api: Api) -> Kernel:
    knl = api.make(
        ["{[i]: 0<=i<n}", "[first, last] -> {[k]: first<=k<last}"],
        """
        for i
            <> first = row[i] {id=first}
            <> last = row[i+1] {id=last}
            y[i] = sum(k, val[k]*x[col[k]]) {id=y, dep=first:last}
        end
        """,
        name="csr", assumptions="n>=1", loopy_unshaped=("val", "col", "x"))
    api.made()
    knl = api.dtypes(knl, {**_floats("val", "x"), "row": np.int32, "col": np.int32})
    return api.split(knl, "i", 128, "g.0", "l.0")

# Synthetic: what grows


def chain(api: Api, length: int) -> Kernel:
    """*length* statements in one nest, each using the one before it."""
    lines = ["<> t0 = a[i] + 1", *(f"<> t{s} = 0.5*t{s - 1} + a[i]" for s in range(1, length - 1)),
             f"out[i] = t{length - 2}"]
    knl = api.make("{[i]: 0<=i<n}", "\n".join(lines), name="chain", assumptions="n>=1")
    api.made()
    knl = api.dtypes(knl, _floats("a"))
    return api.split(knl, "i", 128, "g.0", "l.0")


def wide(api: Api, chains: int) -> Kernel:
    """*chains* independent chains of three statements each, in one nest."""
    lines = [line for c in range(chains)
             for line in (f"<> p{c} = a[i] + {c}", f"<> q{c} = 0.5*p{c}", f"out{c}[i] = q{c}")]
    knl = api.make("{[i]: 0<=i<n}", "\n".join(["for i", *lines, "end"]), name="wide", assumptions="n>=1")
    api.made()
    knl = api.dtypes(knl, _floats("a"))
    return api.split(knl, "i", 128, "g.0", "l.0")


def stages(api: Api, count: int) -> Kernel:
    """A block's 128 values pass *count* times through shared memory, reversed each time."""
    body = ["for t", "s0[t] = a[g,t] {id=stage0}", "end"]
    for s in range(1, count):
        body += ["for t", f"s{s}[t] = 0.5*s{s - 1}[127-t] {{id=stage{s}}}", "end"]
    body += ["for t", f"out[g,t] = s{count - 1}[127-t] {{id=last}}", "end"]
    knl = api.make("{[g,t]: 0<=g<n and 0<=t<128}", "\n".join(["for g", *body, "end"]), name="stages",
                   assumptions="n>=1", shared={f"s{s}": 128 for s in range(count)})
    api.made()
    knl = api.dtypes(knl, _floats("a"))
    return api.tag(knl, {"g": "g.0", "t": "l.0"})


def _synthetic(family: str, build: Callable[[Api, int], Kernel], sizes: Sequence[int], slow_from: int) -> list[Case]:
    return [Case(f"{family} {n}", lambda api, n=n: build(api, n), family, n, slow=n >= slow_from)  # type: ignore[misc]
            for n in sizes]


CASES: list[Case] = [
    Case("vector add", vector_add),
    Case("scale", scale),
    Case("conditional", conditional),
    Case("prefix recurrence", prefix),
    Case("jacobi, time loop", jacobi),
    Case("two launches", two_launches),
    Case("transpose, shared tile", transpose),
    Case("matmul naive", matmul_naive),
    Case("matmul tiled, two prefetches", matmul_tiled),
    Case("matmul 8x8 registers", lambda api: matmul_blocked(api, unroll=False), slow=True),
    Case("matmul 8x8 registers, k unrolled", lambda api: matmul_blocked(api, unroll=True), slow=True),
    Case("batched small matmul", batched_matmul),
    Case("stencil 2-D, halo prefetch", stencil_2d),
    Case("stencil 3-D, halo prefetch", stencil_3d),
    Case("softmax, thread a row", lambda api: thread_a_row(api, _softmax)),
    Case("softmax, block a row", lambda api: block_a_row(api, _softmax)),
    Case("layer norm, thread a row", lambda api: thread_a_row(api, _layer_norm)),
    Case("layer norm, block a row", lambda api: block_a_row(api, _layer_norm)),
    Case("n-body", n_body),
    Case("CSR matrix-vector", csr),
    *_synthetic("chain", chain, (10, 30, 100, 300), slow_from=300),
    *_synthetic("chains of three", wide, (10, 30, 100, 300), slow_from=100),
    *_synthetic("shared stages", stages, (4, 16, 64), slow_from=64),
]
