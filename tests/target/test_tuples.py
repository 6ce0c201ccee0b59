"""Structs in the texts of CUDA and C: their golden files, and what compilers make of all kinds of fields."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from tests.golden_files import GoldenFiles
from tests.nvrtc import compile_cuda


def argmin() -> lk.LoopKernel:
    """A block of 64 threads for each row."""
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "least[i], place[i] = argmin(j, x[i, j])",
                         name="argmin_of_rows")
    knl = lk.add_dtypes(knl, {"x": np.float32})
    return lk.split_iname(lk.tag_inames(knl, "i:g.0"), "j", 64, inner_tag="l.0")


@pytest.mark.parametrize(("target", "suffix"), [("cuda", "cu"), ("c", "c")])
def test_argmin(target: str, suffix: str, golden: GoldenFiles) -> None:
    golden.check(f"tuples/argmin.{suffix}", lk.generate_code(argmin(), target=target))


def all_fields() -> lk.LoopKernel:
    """A scan in the threads of a block whose tuples have fields of many dtypes."""
    keep = lk.ReductionOperation("keep", {x: f"a.{x} + b.{x}" for x in "ahzkwu"}, dict.fromkeys("ahzkwu", 0),
                                 reorderable=True)
    knl = lk.make_kernel(
        "{[i, j, r]: 0<=i<64 and 0<=j<=i and 0<=r<n}", """
        for r, i
            <> t[r, i] = keep(j, a[r, j], h[r, j], z[r, j], k[r, j], w[r, j], u[r, j])
            y[r, i] = real(t[r, i].z) + t[r, i].a + t[r, i].h + t[r, i].k + t[r, i].w + t[r, i].u
        end
        """, reductions=[keep], name="all_fields")
    knl = lk.add_dtypes(knl, {"a": np.int8, "h": np.float16, "z": np.complex64, "k": np.int64, "w": np.float64,
                              "u": np.uint16, "y": np.float64})
    return lk.realize_scan(lk.tag_inames(knl, "i:l.0, r:g.0"), "j")


def test_all_fields_on_the_host() -> None:
    knl, data = all_fields(), {x: np.ones((2, 64), a.dtype) for x, a in all_fields().array_args.items() if x != "y"}
    y, = lk.compile(knl, "c")(**data)
    np.testing.assert_array_equal(y, [6.0*np.arange(1, 65)]*2)


def test_all_fields_in_cuda() -> None:
    """``argmin`` among them: its text is in one translation unit with the other one."""
    texts = (str(lk.generate_code(knl, target="cuda")) for knl in (all_fields(), argmin()))
    compile_cuda("\n".join(texts))
