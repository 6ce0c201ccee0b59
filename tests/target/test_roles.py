"""Texts of kernels with a producer thread: in CUDA, and for targets whose threads all run all statements."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from loopkit.lowering.pipeline import lowered_once


def reversed_rows(blocks: int = 0, *, size: str = "m") -> lk.LoopKernel:
    knl = lk.make_kernel(f"{{[e, b, t, k, i]: 0<=e<{size} and 0<=b<n and 0<=t<5 and 0<=k,i<32}}", """
        for e, b, t
            for k
                <> tile[k] = x[e, b, t, k]  {id=copy}
            end
            for i
                y[e, b, t, i] = tile[31 - i]
            end
        end""", name="reverse")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "e:g.1, b:g.0, i:l.0")
    knl = lk.pipeline(lk.tensorize(knl, "copy", "tma.load"), "t", 2, ahead=0)
    knl = lk.specialize_warps(knl, "copy")
    return lk.persistent(knl, blocks) if blocks else knl


def test_other_targets_run_the_statements_in_their_order() -> None:
    x = np.random.default_rng(0).random((2, 3, 5, 32), np.float32)
    knl = reversed_rows(4)
    assert np.array_equal(lk.compile(knl, target="c")(x=x).y, x[..., ::-1])
    assert np.array_equal(lk.emulate(knl, x=x).y, x[..., ::-1])
    for target in ("c", "opencl"):
        assert lk.verify(knl, target, full=True).proven
        assert "the producer" not in lk.generate_code(knl, target=target).source


def test_targets_share_loop_programs_of_kernels_without_roles() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), {"x": np.float32})
    assert lowered_once(plain, lk.CTarget().machine) is lowered_once(plain)
    assert lowered_once(reversed_rows(), lk.CTarget().machine).launches[0].threads == 32


def test_other_statements_are_refused() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<32}", """
        <> tile[j] = x[i, j]  {id=copy}
        y[i, j] = 2*tile[j]  {id=use}"""), {"x": np.float32})
    with pytest.raises(lk.PreconditionError, match="'use' is not a copy by TMA"):
        lk.specialize_warps(plain, "use")
    with pytest.raises(lk.UnknownNameError):
        lk.specialize_warps(plain, "nosuch")
    with pytest.raises(lk.PreconditionError, match="blocks would gain nothing"):
        lk.persistent(plain, 132)
    with pytest.raises(lk.PreconditionError, match="'persistent' cannot be -1"):
        lk.set_options(plain, persistent=-1)


def test_names_of_extents_are_new() -> None:
    text = lk.generate_code(reversed_rows(4, size="tiles_along_x")).source
    assert "const int tiles_along_x)" in text or "const int tiles_along_x," in text
    assert "const int b = (int)(tile_0 % tiles_along_x_0);" in text
    assert "const int e = (int)(tile_0 / tiles_along_x_0);" in text
