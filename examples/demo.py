"""A tiled matrix product from text to numbers: the kernel, its steps, the CUDA C++, and a comparison with numpy."""
from __future__ import annotations

import numpy as np

import loopkit as lk

#: Rows of a, columns of b, and the length of the sums: full tiles, partial tiles, and less than one tile.
SIZES = [(1, 1, 1), (5, 3, 2), (37, 41, 29), (128, 64, 96), (253, 187, 301)]


def main() -> None:
    heading("The kernel as written")
    knl = matmul()
    print(knl)

    heading("Its transformations")
    tiled = tile_for_gpu(knl)
    for step in tiled.history:
        print(step)

    heading("The kernel after them")
    print(tiled)

    heading("CUDA C++")
    code = lk.generate_code(tiled, target="cuda")
    print(code)
    print(f"// launch\n{code.host}")

    compiled = lk.compile(tiled)
    heading(f"Run on the target '{compiled.target}' and compared with numpy in double precision")
    for n, m, length in SIZES:
        report = lk.check_equivalent(numpy_matmul, tiled, {"n": n, "m": m, "l": length}, target=compiled.target)
        print(f"({n:3} x {length:3}) * ({length:3} x {m:3})    {report.headline}")

    heading("Called with arrays")
    rng = np.random.default_rng(seed=1)
    n, m, length = SIZES[-1]
    a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in [(n, length), (length, m)])
    c, = compiled(a=a, b=b)
    print(f"c, = compiled(a=a, b=b)    # {c.dtype}, shape {c.shape}")
    print(f"largest error {np.abs(c - numpy_matmul(a, b)).max():.3g} in {compiled.time(a=a, b=b)} a call")


def matmul() -> lk.LoopKernel:
    """``c = a @ b`` in single precision."""
    knl = lk.make_kernel(
        "{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<l}",
        "c[i,j] = sum(k, a[i,k]*b[k,j])",
        name="matmul", assumptions="n>=1 and m>=1 and l>=1")
    return lk.add_dtypes(knl, {"a": np.float32, "b": np.float32})


def tile_for_gpu(knl: lk.LoopKernel) -> lk.LoopKernel:
    """A block of 16 x 16 threads for each tile of ``c``; tiles of ``a`` and ``b`` in shared memory."""
    knl = lk.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = lk.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_iname(knl, "k", 16)
    knl = lk.add_prefetch(knl, "a", ["i_inner", "k_inner"], default_tag="l.auto")
    return lk.add_prefetch(knl, "b", ["k_inner", "j_inner"], default_tag="l.auto")


def numpy_matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The reference, in double precision."""
    return np.asarray(a.astype(np.float64) @ b)


def heading(text: str) -> None:
    print(f"\n{text}\n{'=' * len(text)}\n")


if __name__ == "__main__":
    main()
