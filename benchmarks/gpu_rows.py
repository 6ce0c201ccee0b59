"""What is measured: a row each, with its sizes, data, float64 reference, contestants and goals."""
from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gpu_peers as peers
import numpy as np
from gpu_machine import Machine, Run

Size = tuple[int, ...]
Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class Problem:
    """One set of arrays; its attributes are the arrays and scalars by name."""

    size: Size
    inputs: Arrays
    outputs: Arrays
    scalars: Mapping[str, float]

    def __getattr__(self, name: str) -> Any:
        for values in (self.inputs, self.outputs, self.scalars):
            if name in values:
                return values[name]
        raise AttributeError(name)


@dataclass(frozen=True)
class Goal:
    """What ours is held to.

    :ivar of: ``"copy"``: bytes a second over those of a copy of as many bytes; ``"peer"``: the best peer's time over
        ours; ``"peak"``: operations a second over the GPU's of float32.
    :ivar among: names of the peers that are meant; none: all.
    """

    of: str
    must: float
    stretch: float
    among: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = {"copy": "the copy rate", "peak": "the peak", "peer": " or ".join(self.among) or "the best peer"}
        return f"{self.must:.2f} of {what[self.of]}"


@dataclass(frozen=True)
class Row:
    """One line of work.

    :ivar even: sizes that tiles divide, *ragged*: one that they do not; *draw* gives one at run time.
    :ivar small: sizes for the host.
    :ivar inputs: shape of each input, or a function that makes its values; *outputs*: shape of each output.
    :ivar reference: the result from inputs in float64, with numpy's functions or torch's.
    :ivar compared: the part of a result that the reference gives; default: all of it.
    :ivar bytes: the least that one run has to move, *flops*: its operations.
    :ivar ours: kernels by label, each a function of the size; the first is the one with the library's defaults.
    :ivar result: the output that the reference gives.
    """

    name: str
    even: Sequence[Size]
    ragged: Size
    draw: Callable[[random.Random], Size]
    small: Sequence[Size]
    inputs: Callable[[Size], Mapping[str, Any]]
    outputs: Callable[[Size], Mapping[str, Size]]
    reference: Callable[[Any, Any], Any]
    bytes: Callable[[Size], float]
    flops: Callable[[Size], float]
    peers: Mapping[str, peers.Peer]
    goals: Sequence[Goal]
    ours: Mapping[str, Callable[[Size], Any]] = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)
    compared: Callable[[Any], Any] | None = None
    dtype: str = "float32"
    low: float = -1.0
    tolerance: float = 2e-6

    @property
    def result(self) -> str:
        return next(iter(self.outputs(self.even[0])))

    def problem(self, size: Size, machine: Machine) -> Problem:
        """Random inputs, and outputs of NaN."""
        inputs = {x: shape(machine) if callable(shape) else machine.random(shape, self.dtype, self.low)
                  for x, shape in self.inputs(size).items()}
        outputs = {x: machine.nothing(shape, self.dtype) for x, shape in self.outputs(size).items()}
        return Problem(size, inputs, outputs, self.scalars)


def loopkit(make: Callable[..., Any], **options: Any) -> Callable[[Size], Any]:
    """A pipeline that serves all sizes."""
    return lambda size: make(np.float32, **options)


def bound(knl: Any, machine: Machine) -> Callable[[Problem], Run]:
    """From a problem to its run, all arguments fixed: what is timed is launches and no checks."""
    import loopkit as lk
    compiled = lk.compile(knl, target=machine.target)

    def run_of(p: Problem) -> Run:
        call = compiled.bind(**p.inputs, **p.outputs, **p.scalars)

        def run() -> None:
            call()
        return run
    return run_of


# {{{ sizes


def _lines(r: random.Random) -> Size:
    return (r.randrange(1 << 27, 1 << 29),)


def _squares(r: random.Random) -> Size:
    return (r.randrange(8000, 20000), r.randrange(8000, 20000))


def _cubes(r: random.Random) -> Size:
    return (r.randrange(400, 900), r.randrange(400, 900), r.randrange(400, 900))


def _rows(r: random.Random) -> Size:
    columns = r.randrange(256, 16385)
    return ((1 << 28)//columns, columns)


def _products(r: random.Random) -> Size:
    return (r.randrange(2000, 8000), r.randrange(2000, 8000), r.randrange(2000, 8000))


def of_width(size: Size, width: int = 4) -> float:
    return float(np.prod(size, dtype=np.float64))*width


# }}}

# {{{ references


def laplacian(xp: Any, a: Any) -> Any:
    """Of the inner points; the others are not written."""
    inner = (slice(1, -1),)*a.ndim
    result = -2.0*a.ndim*a[inner]
    for axis in range(a.ndim):
        for neighbour in (slice(None, -2), slice(2, None)):
            result = result + a[tuple(neighbour if k == axis else s for k, s in enumerate(inner))]
    return result


def inner_part(out: Any) -> Any:
    return out[(slice(1, -1),)*out.ndim]


def softmax(xp: Any, p: Any) -> Any:
    e = xp.exp(p.x - xp.amax(p.x, 1)[:, None])
    return e/e.sum(1)[:, None]


def layer_norm(xp: Any, p: Any) -> Any:
    d = p.x - p.x.mean(1)[:, None]
    return d/xp.sqrt((d*d).mean(1) + 1e-5)[:, None]*p.weight + p.bias


# }}}

COPY = Goal("peer", 0.98, 1.0, ("torch", "Triton"))


def _elementwise(name: str, inputs: str, output: str, make: str, reference: Callable[[Any, Any], Any],
                 flops: int, others: Mapping[str, peers.Peer], even: Size, scalars: Mapping[str, float]) -> Row:
    import loopkit as lk
    function = getattr(lk.library, make)
    return Row(
        name, [even], (even[0] - 4099,), _lines, [(5000,)],
        lambda s: dict.fromkeys(inputs, s), lambda s: {output: s}, reference,
        lambda s: of_width(s)*(len(inputs) + 1), lambda s: of_width(s, flops), others, [COPY],
        {"loopkit": loopkit(function), "items=1": loopkit(function, items=1), "items=8": loopkit(function, items=8),
         "threads=512": loopkit(function, threads=512)}, scalars)


def _stencil(name: str, even: Size, draw: Callable[[random.Random], Size], small: Size, flops: int,
             variants: Mapping[str, Callable[[Size], Any]]) -> Row:
    return Row(
        name, [even], tuple(e - 5 - 2*k for k, e in enumerate(even)), draw, [small],
        lambda s: {"a": s}, lambda s: {"out": s}, lambda xp, p: laplacian(xp, p.a),
        lambda s: of_width(s)*2, lambda s: of_width(s, flops),
        {"torch.compile": getattr(peers, f"inductor_{name}"), "Triton": peers.triton_peer(name)},
        [Goal("copy", 0.90, 0.94)], variants, compared=inner_part)


def _by_rows(name: str, inputs: Callable[[Size], Mapping[str, Size]], reference: Callable[[Any, Any], Any], flops: int,
             others: Mapping[str, peers.Peer]) -> Row:
    import loopkit as lk
    make = getattr(lk.library, name)

    def fixed(threads: int | None) -> Callable[[Size], Any]:
        return lambda s: make(np.float32, columns=s[1], threads=threads)
    return Row(
        name, [((1 << 28)//m, m) for m in (4096, 256, 1024, 16384)], (65537, 4093), _rows, [(7, 300)],
        inputs, lambda s: {"y": s}, reference, lambda s: of_width(s)*2, lambda s: of_width(s, flops), others,
        [Goal("peer", 1.0, 1.02, ("Triton", "torch.compile")), Goal("copy", 0.96, 0.99)],
        {"loopkit": fixed(None), "any length": lambda s: make(np.float32), "threads=128": fixed(128),
         "threads=256": fixed(256), "threads=512": fixed(512), "threads=1024": fixed(1024)})


def rows() -> tuple[Row, ...]:
    """All of them, in the order in which they are measured."""
    import loopkit as lk
    lib = lk.library
    line, square = (1 << 29,), (16384, 16384)
    return (
        _elementwise("copy", "x", "y", "copy", lambda xp, p: p.x, 0,
                     {"torch": peers.torch_copy, "Triton": peers.triton_peer("copy")}, (1 << 30,), {}),
        _elementwise("axpy", "xy", "z", "axpy", lambda xp, p: p.alpha*p.x + p.y, 2,
                     {"torch": peers.torch_axpy, "Triton": peers.triton_peer("axpy")}, line, {"alpha": 2.5}),
        _elementwise("add", "xy", "z", "add", lambda xp, p: p.x + p.y, 1,
                     {"torch": peers.torch_add, "Triton": peers.triton_peer("add")}, line, {}),
        Row("transpose", [square], (16381, 16411), _squares, [(70, 100)],
            lambda s: {"a": s}, lambda s: {"b": s[::-1]}, lambda xp, p: p.a.T, lambda s: of_width(s)*2, lambda s: 0.0,
            {"torch": peers.torch_transpose, "Triton": peers.triton_peer("transpose")}, [Goal("copy", 0.95, 0.98)],
            {"loopkit": loopkit(lib.transpose), "tile=32, 32x8": loopkit(lib.transpose, tile=32, threads=(32, 8)),
             "64, 32x8": loopkit(lib.transpose, threads=(32, 8)),
             "64, 64x8": loopkit(lib.transpose, threads=(64, 8))}),
        _stencil("stencil_2d", square, _squares, (30, 300), 6, {
            "loopkit": loopkit(lib.stencil_2d), "rows=4": loopkit(lib.stencil_2d, rows=4),
            "rows=16": loopkit(lib.stencil_2d, rows=16), "rows=32": loopkit(lib.stencil_2d, rows=32),
            "8, 128 threads": loopkit(lib.stencil_2d, threads=128)}),
        _stencil("stencil_3d", (768, 768, 768), _cubes, (20, 20, 40), 8, {
            "loopkit": loopkit(lib.stencil_3d), "planes=4": loopkit(lib.stencil_3d, planes=4),
            "planes=16": loopkit(lib.stencil_3d, planes=16), "64x4": loopkit(lib.stencil_3d, threads=(64, 4)),
            "128x2": loopkit(lib.stencil_3d, threads=(128, 2))}),
        Row("full_sum", [line], (line[0] - 4099,), _lines, [(50000,)],
            lambda s: {"x": s}, lambda s: {"s": (1,)}, lambda xp, p: p.x.sum().reshape(1), of_width,
            lambda s: of_width(s, 1),
            {"torch": peers.torch_full_sum, "Triton": peers.triton_peer("full_sum"), "CuPy": peers.cupy_full_sum},
            [Goal("peer", 0.95, 1.0)],
            {"loopkit": loopkit(lib.full_sum), "items=4": loopkit(lib.full_sum, items=4),
             "items=16": loopkit(lib.full_sum, items=16), "2048 blocks": loopkit(lib.full_sum, blocks=2048)}, low=0.0),
        Row("row_sum", [(65536, 4096)], (65537, 4093), _rows, [(9, 300)],
            lambda s: {"x": s}, lambda s: {"s": s[:1]}, lambda xp, p: p.x.sum(1), of_width, lambda s: of_width(s, 1),
            {"torch": peers.torch_row_sum, "Triton": peers.triton_peer("row_sum"), "CuPy": peers.cupy_row_sum},
            [Goal("peer", 0.95, 1.0, ("torch",))],
            {"loopkit": lambda s: lib.row_sum(columns=s[1]), "any length": loopkit(lib.row_sum),
             "threads=128": lambda s: lib.row_sum(columns=s[1], threads=128),
             "threads=512": lambda s: lib.row_sum(columns=s[1], threads=512)}, low=0.0),
        Row("column_sum", [(65536, 4096)], (65537, 4093), _rows, [(600, 45)],
            lambda s: {"x": s}, lambda s: {"s": s[1:]}, lambda xp, p: p.x.sum(0), of_width, lambda s: of_width(s, 1),
            {"torch": peers.torch_column_sum, "Triton": peers.triton_peer("column_sum")},
            [Goal("peer", 0.95, 1.0, ("torch",))],
            {"loopkit": loopkit(lib.column_sum), "rows=512": loopkit(lib.column_sum, rows=512),
             "items=8": loopkit(lib.column_sum, items=8), "64x4": loopkit(lib.column_sum, threads=(64, 4))}, low=0.0),
        _by_rows("softmax", lambda s: {"x": s}, softmax, 6,
                 {"torch": peers.torch_softmax, "torch.compile": peers.inductor_softmax,
                  "Triton": peers.triton_peer("softmax")}),
        _by_rows("layer_norm", lambda s: {"x": s, "weight": s[1:], "bias": s[1:]}, layer_norm, 8,
                 {"torch": peers.torch_layer_norm, "torch.compile": peers.inductor_layer_norm,
                  "Triton": peers.triton_peer("layer_norm")}),
        Row("matmul", [(4096, 4096, 4096), (8192, 8192, 8192), (16384, 1024, 4096), (1024, 16384, 4096),
                       (2048, 2048, 32768)], (4093, 4099, 4101), _products, [(130, 70, 40)],
            lambda s: {"a": (s[0], s[2]), "b": (s[2], s[1])}, lambda s: {"c": s[:2]}, lambda xp, p: p.a @ p.b,
            lambda s: 4.0*(s[0]*s[2] + s[2]*s[1] + s[0]*s[1]), lambda s: of_width(s, 2),
            {"cuBLAS": peers.torch_matmul, "Triton": peers.triton_peer("matmul")},
            [Goal("peer", 0.92, 1.0, ("cuBLAS",))],
            {"loopkit": loopkit(lib.matmul), "no limit": loopkit(lib.matmul, min_blocks=0),
             "128x128x16": loopkit(lib.matmul, tile=(128, 128, 16)),
             "128x256x8": loopkit(lib.matmul, tile=(128, 256, 8), min_blocks=1),
             "64x128x16": loopkit(lib.matmul, tile=(64, 128, 16), threads=(16, 8))}, tolerance=5e-6),
    )
