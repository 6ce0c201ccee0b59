"""Random pipelines of tiles in shared memory: copies by TMA and by threads, products of tiles, and their stores."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor
from typing import Any

import hypothesis.strategies as st
import numpy as np

import loopkit as lk
from loopkit.ast.nodes import Completion
from loopkit.expr.kinds import named_dtype
from tests import tma_kernels
from tests.property.kernels import Draw

#: The target of all of them, which has all instructions.
TARGET = lk.CudaTarget("sm_90a")

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Factor:
    """An array whose elements are read from tiles.

    :ivar axes: its axes: ``"ik"``, ``"ki"`` or ``"k"``, or these behind an axis ``e``.
    :ivar engine: an instruction of TMA, or the tag of inames of copies by threads; ``"unstaged"``: there is no tile.
    """

    name: str
    axes: str
    engine: str
    stages: int
    ahead: int | None

    @property
    def by_tma(self) -> bool:
        return self.engine.startswith("tma")


#: The tiles ``ko`` of rows ``io``: all, from the second one, those below or above the diagonal, or as many as *t*.
#: Also of sizes that are rounded down.
TILES = (*["0<=ko and {s}*ko<l"]*6, *["0<=ko<=io and {s}*ko<l", "0<=ko<t", "0<=ko<3",
                                      "0<=ko and io + ko <= 2*floor((n - 1)/{r}) + 1"]*2, "1<=ko and {s}*ko<l",
         "io<=ko and {s}*ko<l")


@dataclass(frozen=True)
class Pipeline:
    """Products of the elements of *factors*, tile by tile, in blocks of rows.

    :ivar result: ``"sum"``: the sum of the products of a row; ``"elements"``: each product; ``"deviations"``: the
        elements of the first factor less the sum of a row of the others.
    :ivar tiles: the condition for the tiles ``ko`` of the rows ``io``.
    :ivar rows: the rows of a block; *steps*: the columns of a tile.
    :ivar blocks: the tag of ``io``; *around*: that of ``e``, ``None``: there is no such iname.
    :ivar loop: the tag of ``ko``; *thread*: the iname of the threads.
    :ivar stored: the condition for the tiles whose elements are results; ``""``: all.
    :ivar store: the way of the results to memory; *full_tiles*: full tiles have a version of the code.
    :ivar producer: a thread of its own starts the copies by TMA.
    :ivar persistent: then so many blocks run all places of the grid; 0: a block for each.
    """

    factors: tuple[Factor, ...]
    result: str
    dtype: str
    tiles: str
    rows: int
    steps: int
    blocks: str
    around: str | None
    loop: str
    thread: str
    store: str
    full_tiles: bool
    producer: bool = False
    persistent: int = 0
    stored: str = ""

    # The kernel

    def kernel(self) -> lk.LoopKernel:
        """:raises LoopkitError: a step is refused."""
        knl = self._plain()
        tags = {"io": self.blocks, "e": self.around, self.thread: "l.0", "ko": self.loop}
        knl = lk.tag_inames(knl, {x: tag for x, tag in tags.items() if tag and x in knl.inames})
        if self.result == "elements":
            knl = lk.prioritize_loops(knl, [x for x in ("e", "io", "ko", "ii", "ki") if x in knl.inames])
        for f in self.factors:
            if f.engine != "unstaged":
                knl = self._staged(knl, f)
        return self._in_roles(self._stored(self._in_rings(knl)))

    def _plain(self) -> lk.LoopKernel:
        r, s = self.rows, self.steps
        lengths = {"e": "ne", "i": "n", "k": "l"}
        rules = [f"{f.name}_at({', '.join(f.axes)}) := {f.name}[{', '.join(f.axes)}] if "
                 f"{' and '.join(f'{x} < {lengths[x]}' for x in f.axes if x != 'e')} else 0" for f in self.factors]
        first, *others = [f"{f.name}_at({', '.join(f.axes)})".replace("i", f"{r}*io + ii").replace("k", f"{s}*ko + ki")
                          for f in self.factors]
        e = "e, "*(self.around is not None)
        tiles = self.tiles.format(s=s, r=r)
        domains = [f"{{[{e}io, ii]: 0<={r}*io<n and 0<=ii<{r}{' and 0<=e<ne'*bool(e)}}}",
                   f"[io] -> {{[ko, ki]: 0<=ki<{s} and {tiles}}}"]
        row, column = f"{r}*io + ii < n", f"{s}*ko + ki < l"
        place, condition = f"{r}*io + ii, {s}*ko + ki", " and ".join(filter(None, (row, column, self.stored)))
        match self.result:
            case "sum":
                rules.append(f"<> v = sum([ko, ki], {'*'.join([first, *others])})")
                place, condition = f"{r}*io + ii", row
            case "elements":
                rules.append(f"<> v = {'*'.join([first, *others])} + 1")
            case _:
                sum_of = "*".join(others).replace("k", "q")
                rules += [f"<> total = sum([qo, qi], {sum_of})", f"<> v = {first} - total"]
                domains.append(domains[1].replace("k", "q"))
        shapes = {f.name: f.axes for f in self.factors} | {"y": self.axes}
        return lk.make_kernel(domains, "\n".join([
            *rules, f"y[{e}{place}] = v  {{id=insn, if={condition}}}"]), [
            *(lk.GlobalArg(x, self.dtype, ", ".join(lengths[a] for a in axes)) for x, axes in shapes.items()), "..."],
            name="ring", assumptions="n>=1 and l>=1", options=lk.Options(full_tiles=self.full_tiles, verify="off"))

    @property
    def by_tma(self) -> bool:
        return self.store.startswith("tma") or any(f.by_tma for f in self.factors)

    @property
    def is_numbered(self) -> bool:
        """Do phases have numbers? Not in rings inside of other loops, or in loops that do not start at 0."""
        return not any(f.by_tma for f in self.factors) or (
            bool(self.blocks) and self.around != "" and self.tiles.startswith("0<=ko"))

    @property
    def axes(self) -> str:
        """Of the result."""
        return "e"*(self.around is not None) + ("i" if self.result == "sum" else "ik")

    def _loop_of(self, f: Factor) -> str:
        return "q" if self.result == "deviations" and f is not self.factors[0] else "k"

    def _staged(self, knl: lk.LoopKernel, f: Factor) -> lk.LoopKernel:
        axes = [x for x in f.axes if x != "e"]
        inner = {"i": "ii", "k": f"{self._loop_of(f)}i"}
        knl = lk.precompute(knl, f"{f.name}_at", [inner[x] for x in axes], temporary_name=f"{f.name}_tile",
                            precompute_inames=[f"{f.name}_{x}" for x in axes],
                            default_tag=None if f.by_tma else f.engine, dtype=self.dtype)
        return lk.tensorize(knl, f"{f.name}_tile_rule", f.engine) if f.by_tma else knl

    def _in_rings(self, knl: lk.LoopKernel) -> lk.LoopKernel:
        """Factors with the same number of tiles in the same loop are pipelined in one step."""
        steps: dict[tuple[str, int, int | None], list[Factor]] = {}
        for f in self.factors:
            if f.stages > 1 and f.engine != "unstaged":
                steps.setdefault((f"{self._loop_of(f)}o", f.stages, f.ahead), []).append(f)
        for (iname, stages, ahead), own in steps.items():
            knl = lk.pipeline(knl, iname, stages, temporaries=[f"{f.name}_tile" for f in own], ahead=ahead,
                              asynchronous=not all(f.by_tma for f in own))
        return knl

    def _stored(self, knl: lk.LoopKernel) -> lk.LoopKernel:
        if self.store == "plain":
            return knl
        knl = lk.buffer_array(knl, "y", ["ii"] if self.result == "sum" else ["ii", "ki"], temporary_name="y_tile",
                              default_tag=None if self.store.startswith("tma") else "l.auto")
        return lk.tensorize(knl, "store_y", self.store) if self.store.startswith("tma") else knl

    def _in_roles(self, knl: lk.LoopKernel) -> lk.LoopKernel:
        if not self.producer:
            return knl
        knl = lk.specialize_warps(knl, [s.id for s in knl.statements if s.completion is Completion.PHASE])
        return lk.persistent(knl, self.persistent) if self.persistent else knl

    # What it computes

    def arrays(self, sizes: Mapping[str, int], seed: int) -> Arrays:
        """Whole numbers, whose sums are exact, and a result of -1."""
        rng, dtype = np.random.default_rng(seed), named_dtype(self.dtype)
        lengths = {"e": sizes["ne"], "i": sizes["n"], "k": sizes["l"]}
        found = {f.name: rng.integers(-2, 3, [lengths[x] for x in f.axes]).astype(dtype) for f in self.factors}
        return found | {"y": np.full([lengths[x] for x in self.axes], -1, dtype)}

    def expected(self, arrays: Arrays, sizes: Mapping[str, int]) -> np.ndarray:
        """By numpy."""
        i, k = (np.arange(sizes[x]) for x in ("n", "l"))
        condition = compile(self.tiles.format(s=self.steps, r=self.rows), "tiles", "eval")
        ran = np.array([[eval(condition, {**sizes, "floor": floor, "io": row // self.rows, "ko": column // self.steps})
                         for column in k] for row in i])
        values = [_over(arrays[f.name].astype(np.float64), f.axes, self.axes) for f in self.factors]
        if self.result == "deviations":
            found = values[0] - (_product(ran, values[1:])*ran).sum(axis=-1, keepdims=True)
        else:
            found = _product(ran, values)
        if self.result == "sum":
            return np.broadcast_to((found*ran).sum(axis=-1), arrays["y"].shape)
        if self.stored:
            stored = compile(self.stored, "stored", "eval")
            ran = ran & np.array([eval(stored, {"ko": column // self.steps}) for column in k])
        return np.where(ran, found + (self.result == "elements"), arrays["y"])


def _product(like: np.ndarray, values: list[np.ndarray]) -> np.ndarray:
    """The product of *values*, at least as many as *like* has."""
    return np.prod(np.broadcast_arrays(like, *values)[1:], axis=0)


def _over(array: np.ndarray, axes: str, result: str) -> np.ndarray:
    """*array* with the axes ``i`` and ``k``, behind an axis ``e`` if the *result* has one."""
    every = "eik" if "e" in result else "ik"
    own = [x for x in every if x in axes]
    array = array.transpose([axes.index(x) for x in own])
    return array.reshape([array.shape[own.index(x)] if x in own else 1 for x in every])


@st.composite
def ring_pipelines(draw: Draw) -> Pipeline:
    """Most are accepted; the others show what is refused."""
    def one(*choices: Any) -> Any:
        return draw(st.sampled_from(choices))
    result, around = one("sum", "sum", "elements", "deviations"), one(None, None, None, None, "g.1", "g.1", "")
    dtype = one("float32", "float32", "float32", "float16", "int32", "float64", "int8")
    size = named_dtype(dtype).itemsize
    producer, persistent = one((False, 0), (False, 0), (False, 0), (True, 0), (True, 1), (True, 2))
    # the consumers are whole warps
    rows = one(*(32, 64, 64) if producer else (8, 16, 32, 64, 64))
    steps = one(16 // size, 32 // size, 32 // size, 128 // size, 4)
    swizzled = [f"swizzle{row}" for row in (32, 64, 128) if steps*size % row == 0]
    factors = list[Factor]()
    for name in ("ab" if result == "deviations" else one("a", "ab", "ab", "abc")):
        engine = one("tma.load", "tma.load", "tma.load", *(f"tma.load.{x}" for x in swizzled), "l.auto", "unstaged")
        stages = one(1, 2, 2, 3, 4)
        if factors and one(True, True, False):          # one ring
            engine, stages = factors[0].engine, factors[0].stages
        # all blocks run all statements: phases of other copies are refused
        e = "e"*(around == "g.1" or (around == "" and one(True, False)))
        axes = e + one("ik", "ik", "ki", *["k"]*(len(factors) > 1))
        ahead = one(None, None, 1, 2) if stages > 2 else None
        # the producer runs ahead by itself
        factors.append(Factor(name, axes, engine, stages, 0 if producer and engine.startswith("tma") else ahead))
    tiles = one(*TILES)
    return Pipeline(
        tuple(factors), result, dtype, tiles, rows, steps, one(*["g.0"]*7, ""), around,
        one("", "unr") if tiles == "0<=ko<3" and all(f.stages == 1 for f in factors) else "",
        one("ii", "ii", "ki") if result == "elements" else "ii",
        one("plain", "plain", "buffered", "tma.store", "tma.store", *(f"tma.store.{x}" for x in swizzled)),
        one(False, False, True), producer and any(f.by_tma for f in factors), persistent,
        one("", "ko<=1", "ko>=1") if result == "elements" else "")


@st.composite
def ring_sizes(draw: Draw, pipeline: Pipeline) -> dict[str, int]:
    """Around the edges of tiles. TMA can read most rows."""
    rows, steps = pipeline.rows, pipeline.steps
    unit = 16 // named_dtype(pipeline.dtype).itemsize
    n = draw(st.sampled_from((1, rows - 1, rows, rows + 3, 2*rows, *[5*rows]*(pipeline.persistent > 0))))
    length = max(steps*draw(st.integers(0, 4)) + draw(st.sampled_from((0, 0, 1, steps - 1))), 1)
    whole = draw(st.sampled_from((True, True, True, False)))
    n, length = (-(-x // unit)*unit if whole else x for x in (n, length))
    return {"n": n, "l": length, "ne": draw(st.integers(1, 2)), "t": draw(st.integers(0, 4))}


@dataclass(frozen=True)
class Product:
    """A matrix product by ``mma`` or ``wgmma``, whose tiles TMA copies.

    :ivar store: the way of the results to memory, and *epilogue* their formula; only for ``wgmma``.
    :ivar persistent: two blocks run all tiles.
    """

    unit: str
    dtype: str
    stages: int
    a_transposed: bool
    b_transposed: bool
    store: str
    epilogue: str | None
    persistent: bool = False

    by_tma = is_numbered = True

    def kernel(self) -> lk.LoopKernel:
        """:raises LoopkitError: the product is refused."""
        if self.unit == "mma":
            return tma_kernels.product(self.stages, b_transposed=self.b_transposed)
        return lk.library.matmul(self.dtype, wgmma=True, tile=(64, 64, 64), stages=self.stages, store=self.store,
                                 a_transposed=self.a_transposed, b_transposed=self.b_transposed, result="float32",
                                 epilogue=self.epilogue, **(
                                     {"shape": (256, 256, 256), "multiprocessors": 2} if self.persistent else {}))

    def arrays(self, sizes: Mapping[str, int], seed: int) -> Arrays:
        """Whole numbers, whose sums are exact, and a result of -1."""
        rng, dtype = np.random.default_rng(seed), named_dtype(self.dtype)
        n, m, length = (sizes[x] for x in ("n", "m", "l"))
        a, b = rng.integers(-2, 3, (n, length)), rng.integers(-2, 3, (length, m))
        return {"a": np.ascontiguousarray(a.T if self.a_transposed else a).astype(dtype),
                "b": np.ascontiguousarray(b.T if self.b_transposed else b).astype(dtype),
                "c": np.full((n, m), -1, dtype if self.unit == "mma" else np.float32)}

    def expected(self, arrays: Arrays, sizes: Mapping[str, int]) -> np.ndarray:
        """By numpy."""
        a, b = (arrays[x].astype(np.float64) for x in "ab")
        total = (a.T if self.a_transposed else a) @ (b.T if self.b_transposed else b)
        return total if self.epilogue is None else np.maximum(total, np.arange(sizes["n"])[:, None] - 2)


@st.composite
def ring_products(draw: Draw) -> Product:
    def one(*choices: Any) -> Any:
        return draw(st.sampled_from(choices))
    unit = one("mma", "wgmma", "wgmma")
    dtype = "bfloat16" if unit == "mma" else one("bfloat16", "float16", "int8", "float8_e4m3fn", "float32")
    b_transposed, two = one(True, False), dtype.endswith("16")
    return Product(unit, dtype, one(2, 2, 3, 4), two and unit == "wgmma" and one(True, False), b_transposed or not two,
                   one("tma", "shared", "registers"), one(None, "max(total, i - 2)") if unit == "wgmma" else None,
                   unit == "wgmma" and one(True, False))


@st.composite
def product_sizes(draw: Draw, product: Product) -> dict[str, int]:
    """Around the edges of tiles. TMA can read most rows."""
    unit = 16 // named_dtype(product.dtype).itemsize
    sizes = {x: draw(st.sampled_from((1, 63, 64, 65))) for x in "nm"}
    sizes["l"] = draw(st.sampled_from((1, 63, 64, 200)))
    whole = draw(st.sampled_from((True, True, True, False)))
    return {x: -(-size // unit)*unit if whole else size for x, size in sizes.items()}
