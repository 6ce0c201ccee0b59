"""Matrix instructions as CUDA text: functions that the lanes of a warp call together, spelled in PTX here alone.

One text serves all architectures: what one has no instruction for it does by several smaller ones, or by shuffles.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence

#: Rows and columns of the left matrix that an instruction in float64 takes; all but the first are there from sm_90 on.
_SMALLEST = (8, 4)
_SHAPES = (_SMALLEST, (16, 4), (16, 8), (16, 16))


def product_calls(sums: Sequence[str], left: Sequence[str], right: Sequence[str], used: set[str]) -> Iterator[str]:
    """The calls that add the product of *left* and *right* to *sums*; *used*: functions that are."""
    rows, steps = len(left) // len(right), len(right)
    depth = steps if (8*rows, 4*steps) in _SHAPES else 1
    name = _name(8*rows, 4*depth)
    used |= {name, _name(*_SMALLEST)}
    for q in range(0, steps, depth):
        arguments = (*sums, *left[rows*q:rows*(q + depth)], *right[q:q + depth])
        yield f"{name}({', '.join(arguments)});"


def _name(m: int, k: int) -> str:
    return f"mma_m{m}n8k{k}_f64"


#: Where there is no instruction, each step is handed round.
_BY_SHUFFLES = """\
    const int lane = threadIdx.x % 32;
    for (int k = 0; k < 4; ++k) {
        const double left = __shfl_sync(0xffffffff, a, k, 4);
        c0 += left*__shfl_sync(0xffffffff, b, 8*(lane % 4) + k);
        c1 += left*__shfl_sync(0xffffffff, b, 8*(lane % 4) + 4 + k);
    }"""


def _text(m: int, k: int) -> str:
    """The function for one shape; a lane has rows that are 8 apart, and columns of *a* and rows of *b* 4 apart."""
    rows, quads = m // 8, k // 4
    c = [f"c{i}" for i in range(2*rows)]
    a, b = ([f"{x}{i}" if n > 1 else x for i in range(n)] for x, n in (("a", rows*quads), ("b", quads)))
    places = iter(range(len(c) + len(a) + len(b)))
    sums, left, right = ("{" + ", ".join(f"%{next(places)}" for _ in part) + "}" for part in (c, a, b))
    written, read = ", ".join(f'"+d"({x})' for x in c), ", ".join(f'"d"({x})' for x in (*a, *b))
    if (m, k) == _SMALLEST:
        first, other = 800, _BY_SHUFFLES
    else:
        first = 900
        other = "\n".join(f"    {_name(*_SMALLEST)}({c[2*r]}, {c[2*r + 1]}, {a[rows*q + r]}, {b[q]});"
                          for q in range(quads) for r in range(rows))
    row = "row t / 4" + (" and 8 more" if rows > 1 else "")
    column = " and ".join(["column t % 4", *(f"{4*q} more" for q in range(1, quads))])
    return f"""
// all lanes of a warp: c += a*b, {m}x8 by {m}x{k} and {k}x8. Lane t has {row} of a and c,
// {column} of a, and of b these as rows, column t / 4; and columns 2*(t % 4) and the next of c
__device__ __forceinline__ void {_name(m, k)}({', '.join(f'double &{x}' for x in c)},
    {', '.join(f'double {x}' for x in (*a, *b))})
{{
#if __CUDA_ARCH__ >= {first}
    asm volatile("mma.sync.aligned.m{m}n8k{k}.row.col.f64.f64.f64.f64 "
        "{sums}, {left}, {right}, {sums};"
        : {written}
        : {read});
#else
{other}
#endif
}}
"""


#: The functions by name, the smallest first, which the others call.
TEXT = {_name(m, k): _text(m, k) for m, k in _SHAPES}
