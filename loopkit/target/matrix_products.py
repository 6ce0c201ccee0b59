"""Matrix instructions as CUDA text: functions that the lanes of a warp call together, spelled in PTX here alone."""
from __future__ import annotations

from collections.abc import Iterator, Sequence

#: Rows and columns of the left matrix that an instruction takes, the largest first, and from which architecture on.
_SHAPES = {(16, 16): 90, (16, 8): 90, (16, 4): 90, (8, 4): 80}


def shapes_of(arch: str) -> frozenset[tuple[int, int]]:
    """What the tensor cores of *arch* take in float64; without any, loops stay as they are."""
    number = int("".join(c for c in arch if c.isdigit()))
    return frozenset(shape for shape, first in _SHAPES.items() if number >= first)


def product_calls(sums: Sequence[str], left: Sequence[str], right: Sequence[str], shapes: frozenset[tuple[int, int]],
                  used: set[str]) -> Iterator[str]:
    """The calls that add the product of *left* and *right* to *sums*, by the largest of *shapes*; *used*: functions."""
    rows, steps = len(left) // len(right), len(right)
    depth = next((k // 4 for m, k in _SHAPES if (m, k) in shapes and m == 8*rows and k <= 4*steps), None)
    if depth is None:                            # two rows one by one
        for r in range(rows):
            yield from product_calls(sums[2*r:2*r + 2], left[r::rows], right, shapes, used)
        return
    name = _name(8*rows, 4*depth)
    used.add(name)
    for q in range(0, steps, depth):
        arguments = (*sums, *left[rows*q:rows*(q + depth)], *right[q:q + depth])
        yield f"{name}({', '.join(arguments)});"


def _name(m: int, k: int) -> str:
    return f"mma_m{m}n8k{k}_f64"


def _text(m: int, k: int) -> str:
    """The function for one shape; a lane has elements of rows 8 apart and of columns, or steps, 4 apart."""
    counts = {"c": 2*(m // 8), "a": m // 8*(k // 4), "b": k // 4}
    names = {x: [f"{x}{i}" if n > 1 else x for i in range(n)] for x, n in counts.items()}
    places = iter(range(sum(counts.values())))
    c, a, b = ("{" + ", ".join(f"%{next(places)}" for _ in range(n)) + "}" for n in counts.values())
    parameters = [*(f"double &{x}" for x in names["c"]), *(f"double {x}" for x in (*names["a"], *names["b"]))]
    out = ", ".join(f'"+d"({x})' for x in names["c"])
    into = ", ".join(f'"d"({x})' for x in (*names["a"], *names["b"]))
    more = [" and 8 more" if m > 8 else "", f", {', '.join(f'{q} more' for q in range(4, k, 4))}" if k > 4 else ""]
    return f"""
// all lanes of a warp: c += a*b of an {m}x{k} and a {k}x8 matrix. Lane t has of a row t / 4{more[0]},
// column t % 4{more[1]}; of b column t / 4, these rows; of c these rows, columns 2*(t % 4) and the next
__device__ __forceinline__ void {_name(m, k)}({', '.join(parameters[:2*(m // 8)])},
    {', '.join(parameters[2*(m // 8):])})
{{
    asm volatile("mma.sync.aligned.m{m}n8k{k}.row.col.f64.f64.f64.f64 {c}, {a}, {b}, {c};"
        : {out}
        : {into});
}}
"""


#: The functions by name.
TEXT = {_name(m, k): _text(m, k) for m, k in _SHAPES}
