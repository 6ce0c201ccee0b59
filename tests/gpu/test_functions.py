"""Functions on the GPU: a shorter text of one has the same bits."""
from __future__ import annotations

import numpy as np

import loopkit as lk


def test_roots_of_numbers_that_are_not_subnormal() -> None:
    """Each mantissa with an even and an odd exponent, the ends of the range, and random patterns; NaN stays NaN."""
    tiny = np.finfo(np.float32).tiny
    patterns = np.concatenate([np.arange(1 << 24) + (127 << 23),
                               np.random.default_rng(2).integers(0, 1 << 31, 1 << 22)]).astype(np.uint32)
    ends = np.array([0, tiny, np.finfo(np.float32).max, np.inf, np.nan], np.float32)
    x = np.concatenate([patterns.view(np.float32), ends])
    x = np.where(np.isnan(x), np.float32("nan"), x)      # numpy adds signalling ones under protest
    kernels = (lk.make_kernel("{[i]: 0<=i<n}", f"y[i] = rsqrt({argument})")
               for argument in (f"{float(tiny)!r} + abs(x[i])", "x[i]"))
    one, other = (lk.split_iname(lk.add_dtypes(knl, {"x": x.dtype}), "i", 256, outer_tag="g.0", inner_tag="l.0")
                  for knl in kernels)
    assert "rsqrt_normal_f32(" in str(lk.generate_code(one, target="cuda"))
    assert "rsqrt_normal_f32(" not in str(lk.generate_code(other, target="cuda"))
    short = lk.compile(one, target="cuda")(x=x).y
    full = lk.compile(other, target="cuda")(x=tiny + np.abs(x)).y
    assert (np.isnan(short) == np.isnan(x)).all()
    number = ~np.isnan(x)
    assert (short[number].view(np.uint32) == full[number].view(np.uint32)).all()
