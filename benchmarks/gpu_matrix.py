"""The rows for the matrix units: products, attention and convolution of narrow numbers, and their goals."""
from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import gpu_matrix_math as reference
import gpu_matrix_peers as peers
import numpy as np
from gpu_peers import Peer
from gpu_row import Goal, Relaxed, Row, Size, library

#: The options of the library's pipelines for Hopper, and of those for all GPUs from sm_80 on.
HOPPER = {"wgmma": True}
AMPERE = {"mma": True}


class Kind(NamedTuple):
    """The dtypes of operands and result, and the largest error of a right result."""

    operands: str
    result: str
    tolerance: float


KINDS = {
    "bf16": Kind("bfloat16", "bfloat16", 4e-3),
    "f16": Kind("float16", "float16", 1e-3),
    "tf32": Kind("float32", "float32", 1e-3),
    # the matrix units of Hopper keep 14 bits of the sums of 8-bit floats
    "e4m3": Kind("float8_e4m3fn", "bfloat16", 1e-2),
    "int8": Kind("int8", "int32", 0.0),
}

WIDTHS = {"bfloat16": 2, "float16": 2, "float32": 4, "float8_e4m3fn": 1, "int8": 1, "int32": 4}


def goals(must: float | tuple[float, float], stretch: float | tuple[float, float], *among: str) -> list[Goal]:
    """In bursts and in sustained runs; one number: the same in both."""
    low, high = (x if isinstance(x, tuple) else (x, x) for x in (must, stretch))
    return [Goal("peer", low[0], high[0], among), Goal("peer", low[1], high[1], among, sustained=True)]


def count(*lengths: int) -> float:
    return float(math.prod(lengths))


def values(shape: Size, dtype: str, deviation: float = 1.0) -> Callable[[Any], Any]:
    """Random numbers, not zeros: a GPU takes less power for zeros, and its clock is higher."""
    if dtype == "int8":
        return lambda machine: machine.integers(np.random.default_rng(shape).integers(-128, 128, shape, np.int8), dtype)
    return lambda machine: machine.normal(shape, dtype, deviation)


def multiples(of: int, *ranges: tuple[int, int]) -> Callable[[random.Random], Size]:
    """A size of such multiples between the ends of *ranges*."""
    return lambda r: tuple(of*r.randint(-(-low//of), high//of) for low, high in ranges)

# Products


SQUARES = [(4096, 4096, 4096), (2048, 2048, 2048), (8192, 8192, 8192), (8192, 28672, 8192)]
LARGE = [(8192, 8192, 8192)]
DRAWN = multiples(64, *[(1024, 8192)]*3)
SMALL = [(72, 48, 64)]


def product_inputs(kind: Kind, layout: str, deviation: float = 1.0) -> Callable[[Size], Mapping[str, Any]]:
    """:arg layout: ``"t"`` for each operand that is stored transposed, else ``"n"``."""
    def inputs(s: Size) -> Mapping[str, Any]:
        n, m, k = s
        a, b = (k, n) if layout[0] == "t" else (n, k), (m, k) if layout[1] == "t" else (k, m)
        return {"a": values(a, kind.operands), "b": values(b, kind.operands, deviation)}
    return inputs


def product_bytes(kind: Kind) -> Callable[[Size], float]:
    return lambda s: (WIDTHS[kind.operands]*(count(s[0], s[2]) + count(s[2], s[1]))
                      + WIDTHS[kind.result]*count(s[0], s[1]))


def product(name: str, of: str, wanted: Sequence[Goal], others: Mapping[str, Peer], *, layout: str = "nn",
            even: Sequence[Size] = SQUARES, ragged: Size | None = None,
            draw: Callable[[random.Random], Size] | None = DRAWN, options: Mapping[str, Any] = HOPPER,
            small: Sequence[Size] = SMALL, quick: bool = False) -> Row:
    """A row for ``c = a @ b``."""
    kind = KINDS[of]
    where: dict[str, Any] = {f"{x}_transposed": True for x, how in zip("ab", layout, strict=True) if how == "t"}

    def ours(**how: Any) -> Callable[[Size], Any]:
        return library("matmul", kind.operands, shape=lambda s: s, result=kind.result, **where, **how)
    return Row(
        name, even, ragged, draw, small, product_inputs(kind, layout), lambda s: {"c": s[:2]},
        lambda xp, p: reference.product(xp, p, layout), product_bytes(kind), lambda s: 2*count(*s), others, wanted,
        {"loopkit": ours(**options), **({} if options is AMPERE else {"mma.sync": ours(**AMPERE)})},
        dtype=kind.result, tolerance=kind.tolerance, group="matrix", quick=quick, slow=peers.SLOW, sustained=True)


def squares(of: str) -> list[Row]:
    """The layouts of a dtype of two bytes."""
    wanted = goals((0.98, 0.95), (1.02, 1.00))
    return [product(f"matmul_{of}{suffix}", of, wanted,
                    {"cuBLAS": peers.cublas(layout), "Triton": peers.triton_product("product", layout)},
                    layout=layout, ragged=(4088, 4104, 4072), quick=of + suffix == "bf16")
            for layout, suffix in (("nn", ""), ("nt", "_b_nk"), ("tn", "_a_km"))]


class Epilogue(NamedTuple):
    """A formula of the elements of a product.

    :ivar arrays: the shape of each further input.
    :ivar text: the formula in the kernel language.
    :ivar approximate: it has exponentials and divisions, which Triton computes with an error of some units in the last
        place of float32. Ours does so too.
    """

    arrays: Callable[[Size], Mapping[str, Size]]
    formula: Callable[[Any, Any, Any], Any]
    text: str
    approximate: bool = False


EPILOGUES = {
    "bias": Epilogue(lambda s: {"bias": s[1:2]}, lambda xp, c, p: c + p.bias, "total + bias[j]"),
    "gelu": Epilogue(lambda s: {"bias": s[1:2]}, lambda xp, c, p: reference.gelu(xp, c + p.bias),
                     "(total + bias[j])*(1 + erf((total + bias[j])*0.7071067811865476))/2"),
    "silu": Epilogue(lambda s: {}, lambda xp, c, p: c/(1 + xp.exp(-c)), "total/(1 + exp(-total))", approximate=True),
    "residual": Epilogue(lambda s: {"residual": s[:2]}, lambda xp, c, p: c + p.residual,
                         "total + residual[i, j]"),
    "row_scale": Epilogue(lambda s: {"scale": s[:1]}, lambda xp, c, p: c*p.scale[:, None], "total*scale[i]"),
}


def with_dtypes(dtypes: Mapping[str, str], make: Callable[[Size], Any]) -> Callable[[Size], Any]:
    """*make* whose kernels have *dtypes* for further arrays."""
    def made(size: Size) -> Any:
        import loopkit as lk
        return lk.add_dtypes(make(size), dtypes) if dtypes else make(size)
    return made


def fused(name: str, epilogue: Epilogue) -> Row:
    kind, size = KINDS["bf16"], (4096, 4096, 4096)

    def inputs(s: Size) -> Mapping[str, Any]:
        more = {x: values(shape, kind.operands) for x, shape in epilogue.arrays(s).items()}
        return {**product_inputs(kind, "nn", s[2]**-0.5)(s), **more}
    names = ("a", "b", *epilogue.arrays(size))
    ours = with_dtypes(dict.fromkeys(names[2:], kind.operands), library(
        "matmul", kind.operands, shape=lambda s: s, epilogue=epilogue.text, **HOPPER))
    return Row(
        f"epilogue_{name}", [size], None, DRAWN, SMALL, inputs, lambda s: {"c": s[:2]},
        lambda xp, p: epilogue.formula(xp, reference.product(xp, p, "nn"), p),
        lambda s: product_bytes(kind)(s) + sum(2*count(*shape) for shape in epilogue.arrays(s).values()),
        lambda s: 2*count(*s),
        {"torch": peers.eager(name, names), "torch.compile": peers.max_autotuned(name, names)},
        goals(1.05, 1.10, "torch.compile"),
        {"loopkit": lambda s: Relaxed(ours(s)), "exact": ours} if epilogue.approximate else {"loopkit": ours},
        # torch rounds the product before the formula
        dtype=kind.result, tolerance=2*kind.tolerance, group="matrix", quick=False, slow=peers.SLOW, sustained=True)


def scaled() -> Row:
    """8-bit floats with a scale for each row of *a* and each column of *b*."""
    kind = KINDS["e4m3"]

    def inputs(s: Size) -> Mapping[str, Any]:
        scales = {x: lambda machine, n=n: machine.random((n,), "float32", 0.5)
                  for x, n in (("row_scale", s[0]), ("column_scale", s[1]))}
        return {**product_inputs(kind, "nt")(s), **scales}
    return Row(
        "matmul_e4m3_scaled", LARGE, None, DRAWN, SMALL, inputs, lambda s: {"c": s[:2]},
        lambda xp, p: reference.product(xp, p, "nt")*p.row_scale[:, None]*p.column_scale, product_bytes(kind),
        lambda s: 2*count(*s), {"torch": peers.scaled}, goals(1.00, 1.02),
        {"loopkit": with_dtypes(dict.fromkeys(("row_scale", "column_scale"), "float32"), library(
            "matmul", kind.operands, shape=lambda s: s, b_transposed=True, result=kind.result,
            epilogue="total*row_scale[i]*column_scale[j]", **HOPPER))},
        dtype=kind.result, tolerance=kind.tolerance, group="matrix", quick=False, slow=peers.SLOW, sustained=True)


def batched() -> Row:
    """Many small products; a size is their number and the length of each."""
    kind = KINDS["bf16"]
    return Row(
        "batched_bf16", [(64, 512)], (63, 504), lambda r: (r.randint(16, 128), 64*r.randint(4, 16)), [(3, 32)],
        lambda s: {x: values((*s, s[1]), kind.operands) for x in "ab"}, lambda s: {"c": (*s, s[1])},
        lambda xp, p: reference.product(xp, p, "nn"), lambda s: 3*2*count(*s, s[1]), lambda s: 2*count(*s, s[1], s[1]),
        {"cuBLAS": peers.batched}, goals(1.00, 1.15),
        {"loopkit": library("batched_matmul", kind.operands, shape=lambda s: (*s, s[1], s[1]), **HOPPER),
         "mma.sync": library("batched_matmul", kind.operands, size=lambda s: s[1], **AMPERE)},
        dtype=kind.result, tolerance=kind.tolerance, group="matrix", quick=False, slow=peers.SLOW, sustained=True)


def ends(groups: int, total: int) -> np.ndarray:
    """Where each of so many ragged parts of *total* ends; some may be empty."""
    rng = np.random.default_rng([groups, total])
    return np.cumsum(rng.multinomial(total, rng.dirichlet(np.full(groups, 2.0))))


def grouped() -> Row:
    """A matrix for each group of rows, as of experts; a size is groups, all rows, columns, steps of *k*."""
    kind = KINDS["bf16"]
    return Row(
        "grouped_bf16", [(32, 16384, 4096, 2048), (8, 8192, 4096, 4096), (64, 16384, 4096, 4096)], None,
        lambda r: (r.randint(4, 64), r.randint(2048, 32768), *multiples(64, (1024, 4096), (1024, 4096))(r)),
        [(4, 50, 32, 48)],
        lambda s: {"a": values((s[1], s[3]), kind.operands), "b": values((s[0], s[2], s[3]), kind.operands),
                   "ends": lambda machine: machine.integers(ends(s[0], s[1]))},
        lambda s: {"c": s[1:3]}, reference.grouped,
        lambda s: 2*(count(s[1], s[3]) + count(s[0], s[2], s[3]) + count(s[1], s[2])), lambda s: 2*count(*s[1:]),
        {"torch": peers.grouped, "cuBLAS in turn": peers.grouped_in_turn}, goals(1.00, 1.15),
        {"loopkit": library("grouped_matmul", kind.operands, b_transposed=True)},
        dtype=kind.result, tolerance=kind.tolerance, group="matrix", quick=False, slow=peers.SLOW, sustained=True)

# Attention


WINDOW, CAP, SEQUENCES = 1024, 30.0, 8

#: Tests of the indices of a query and of a key.
MASKS: dict[str, reference.Mask] = {
    "full": None,
    "causal": lambda p, i, j: i >= j,
    "window": lambda p, i, j: (i >= j) & (i - j < WINDOW),
    "lengths": lambda p, i, j: (p.sequence[i] == p.sequence[j]) & (i >= j),
}


def pairs(mask: str, s: int) -> float:
    """How many pairs of *s* queries and keys count."""
    match mask:
        case "full":
            return float(s)*s
        case "window":
            return sum(min(i + 1, WINDOW) for i in range(s))
        case "lengths":
            return sum(n*(n + 1)/2 for n in np.diff(ends(SEQUENCES, s), prepend=0).tolist())
        case _:
            return s*(s + 1)/2


def attention(name: str, d: int, mask: str, wanted: Sequence[Goal], others: Mapping[str, Peer],
              even: Sequence[Size], *, share: Callable[[int], int] = lambda heads: 1, score: reference.Score = None,
              backward: bool = False, quick: bool = False, **options: Any) -> Row:
    """A size is the batch, the heads and the length of a sequence.

    :arg share: how many of so many heads share a head of *k* and *v*.
    """
    def inputs(s: Size) -> Mapping[str, Any]:
        batch, heads, length = s
        shapes = {"q": (*s, d), **dict.fromkeys("kv", (batch, heads//share(heads), length, d)),
                  **({"go": (*s, d)} if backward else {}),
                  **({"bias": (1, *s[1:], length)} if "bias" in options else {})}
        made: dict[str, Any] = {x: values(shape, "bfloat16") for x, shape in shapes.items()}
        if mask == "lengths":
            stops = ends(SEQUENCES, length)
            sequence = np.searchsorted(stops, np.arange(length), side="right")
            made |= {"sequence": lambda machine: machine.integers(sequence),
                     "starts": lambda machine: machine.integers(np.concatenate([[0], stops]))}
        return made

    def derived(machine: Any, p: Any) -> Mapping[str, Any]:
        o, log_sum = reference.attention(machine.xp, p, MASKS[mask], score)
        return {"o": machine.narrow(o, "bfloat16"), "log_sum": machine.narrow(log_sum, "float32")}

    def wanted_result(xp: Any, p: Any) -> Any:
        return (reference.attention_gradients(xp, p, MASKS[mask]) if backward
                else reference.attention(xp, p, MASKS[mask], score)[0])
    return Row(
        f"attention_{name}", even, None if mask == "lengths" else (3, 12, 2023),
        lambda r: (r.randint(1, 4), 4*r.randint(2, 8), r.randint(1024, 8192)) if mask != "lengths"
        else (1, 16, r.randint(4096, 16384)), [(1, 4, 70)], inputs,
        lambda s: ({"dq": (*s, d), **{f"d{x}": (s[0], s[1]//share(s[1]), s[2], d) for x in "kv"}} if backward
                   else {"o": (*s, d)}),
        wanted_result, lambda s: 2*(3 if backward else 2)*count(*s, d)*(1 + 1/share(s[1])),
        lambda s: (10 if backward else 4)*count(s[0], s[1], d)*pairs(mask, s[2]), others, wanted,
        {"loopkit": library("packed_attention", "bfloat16", head=d) if mask == "lengths" else
                    library("attention_backward", "bfloat16", head=d, mask=mask) if backward else
                    library("attention", "bfloat16", head=d, mask=mask, length=lambda s: s[2], **options)},
        dtype="bfloat16", tolerance=1e-2 if backward else 5e-3, derived=derived if backward else None, group="matrix",
        quick=quick, slow=peers.SLOW, sustained=True)


def attentions() -> list[Row]:
    long, short = [(4, 32, 4096), (1, 32, 16384)], [(16, 16, 1024)]
    usual, found = goals(1.00, (1.12, 1.06)), []
    for d in (128, 64):
        for mask in ("full", "causal"):
            both = {"cuDNN": peers.attention("CUDNN_ATTENTION", mask),
                    "FlashAttention-2": peers.attention("FLASH_ATTENTION", mask)}
            suffix = f"d{d}" + ("_causal" if mask == "causal" else "")
            found += [attention(suffix, d, mask, usual, both, long, quick=suffix == "d128"),
                      attention(f"{suffix}_short", d, mask, goals(0.94, 1.00), both, short)]
    both = {"cuDNN": peers.attention("CUDNN_ATTENTION", "causal"),
            "FlashAttention-2": peers.attention("FLASH_ATTENTION", "causal")}
    found += [attention("gqa", 128, "causal", usual, both, long[:1], share=lambda heads: 4, heads_shared=4),
              attention("mqa", 128, "causal", usual, both, long[:1], share=lambda heads: heads, heads_shared="all")]
    found.append(attention(
        "bias", 128, "full", usual, {"cuDNN": peers.attention("CUDNN_ATTENTION", "full"),
                                     "CUTLASS": peers.attention("EFFICIENT_ATTENTION", "full")},
        [(4, 16, 4096)], score=lambda xp, x, p, h: x + p.bias[0, h], bias=True))
    found.append(attention("window", 128, "window", usual, {"torch.compile": peers.flex(MASKS["window"])},
                           long[:1], window=WINDOW))
    found.append(attention("softcap", 128, "causal", usual, {"torch.compile": peers.flex(MASKS["causal"], CAP)},
                           long[:1], score=lambda xp, x, p, h: CAP*xp.tanh(x/CAP), softcap=CAP))
    found.append(attention("lengths", 128, "lengths", usual,
                           {"torch.compile": peers.flex(MASKS["lengths"]), "FlashAttention-2": peers.varlen},
                           [(1, 16, 16384)]))
    found += [attention(f"backward_d{d}", d, mask, goals(0.75, 1.00),
                        {"cuDNN": peers.attention_backward("CUDNN_ATTENTION", mask),
                         "FlashAttention-2": peers.attention_backward("FLASH_ATTENTION", mask)},
                        long[:1], backward=True)
              for d, mask in ((64, "full"), (128, "causal"))]
    return found

# Convolution


def convolution() -> Row:
    """3x3, with zeros around the image; a size is images, rows, columns, channels in and out, stride, dilation."""
    kind, image = KINDS["bf16"], (64, 56, 56, 256, 256)

    def outputs(s: Size) -> Size:
        return (s[0], (s[1] - 1)//s[5] + 1, (s[2] - 1)//s[5] + 1, s[4])
    return Row(
        "conv2d_bf16", [(*image, 1, 1), (*image, 2, 1), (*image, 1, 2)], (63, 55, 57, 248, 264, 1, 1),
        lambda r: (r.randint(8, 64), r.randint(20, 80), r.randint(20, 80), *multiples(8, (64, 512), (64, 512))(r),
                   r.randint(1, 2), r.randint(1, 2)), [(2, 7, 9, 16, 8, 2, 1)],
        lambda s: {"x": values(s[:4], kind.operands), "w": values((s[4], 3, 3, s[3]), kind.operands, s[3]**-0.5)},
        lambda s: {"y": outputs(s)}, reference.convolution,
        lambda s: 2*(count(*s[:4]) + 9*count(s[3], s[4]) + count(*outputs(s))),
        lambda s: 2*9*count(*outputs(s), s[3]), {"cuDNN": peers.convolution}, goals(0.90, 1.00),
        {"loopkit": library("conv2d", kind.operands, shape=lambda s: s[:5], stride=lambda s: s[5],
                            padding=lambda s: s[6], dilation=lambda s: s[6])},
        dtype=kind.result, tolerance=kind.tolerance, group="matrix", quick=False, slow=peers.SLOW, sustained=True)


def matrix_rows() -> tuple[Row, ...]:
    """All of them, in the order in which they are measured."""
    odd = [(4093, 4099, 4101), (8191, 8193, 8195)]
    nn = {"cuBLAS": peers.cublas("nn")}
    return (
        *squares("bf16"), *squares("f16"),
        *(fused(name, epilogue) for name, epilogue in EPILOGUES.items()),
        product("ragged_bf16", "bf16", goals((4.0, 3.3), (4.5, 3.6), "cuBLAS"),
                {**nn, "Triton": peers.triton_product("product", "nn")}, even=odd, small=[(71, 47, 65)],
                draw=lambda r: (r.randrange(1001, 8192, 2), r.randrange(1001, 8192, 2), r.randrange(1001, 8192, 2)),
                quick=True),
        product("thin_bf16", "bf16", goals(0.95, 1.02), nn, even=[(256, 8192, 8192), (16, 8192, 8192)],
                draw=multiples(16, (16, 512), (1024, 8192), (1024, 8192))),
        batched(), grouped(),
        product("matmul_tf32", "tf32", goals(0.95, 1.00), {"cuBLAS": peers.tf32("nt")}, layout="nt", even=LARGE),
        product("matmul_e4m3", "e4m3", goals(1.00, 1.02), {"cuBLAS": peers.unscaled}, layout="nt", even=LARGE),
        scaled(),
        product("matmul_int8", "int8", goals(1.45, 1.70), {"cuBLAS": peers.int8("nt")}, layout="nt", even=LARGE,
                quick=True),
        *attentions(), convolution(),
        product("sm80_bf16", "bf16", goals(0.60, 0.70, "cuBLAS"),
                {**nn, "Triton, mma.sync": peers.triton_product("product_by_mma_sync", "nn")},
                even=[(4096, 4096, 4096)], ragged=(4088, 4104, 4072), options=AMPERE, quick=True),
    )
