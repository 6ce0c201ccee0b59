"""What texts may say beyond numbers and loops gives on the GPU what it gives on the host."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopkit as lk

F = np.float32


def same(knl: lk.LoopKernel, **arguments: Any) -> None:
    """The kernel gives the same on the GPU as on the host, bit for bit."""
    host, device = (lk.compile(knl, target=target)(**arguments).asdict() for target in ("c", "cuda"))
    assert host.keys() == device.keys()
    for name, value in host.items():
        np.testing.assert_array_equal(value, device[name], err_msg=name)


@pytest.mark.parametrize("length", [32, 64, 1024])
def test_tuples_over_threads(length: int) -> None:
    knl = lk.make_kernel(f"{{[i, j]: 0<=i<n and 0<=j<{length}}}", "v[i], k[i] = argmin(j, a[i, j])")
    x = np.random.default_rng(1).integers(0, 30, (50, length)).astype(F)
    x[3, 5] = np.nan
    same(lk.tag_inames(knl, "i:g.0, j:l.0"), a=x)
    same(lk.tag_inames(lk.split_iname(knl, "j", 32, outer_tag="l.1", inner_tag="l.0"), "i:g.0"), a=x)


def test_functions() -> None:
    turned = lk.make_function("{[j, k]: 0<=j,k<64}", "s[j] = 2*a[j]\nb[k] = s[63-k] + (k & 3)", [
        lk.TemporaryVariable("s", F, shape=(64,), address_space="shared"), "..."], name="turned")
    turned = lk.tag_inames(turned, "j:l.0, k:l.0")
    knl = lk.make_kernel("{[i]: 0<=i<m}", "y[i, :] = turned(x[i, :])", functions=[turned])
    knl = lk.tag_inames(knl, "i:g.0")
    assert "turned(" in str(lk.generate_code(lk.add_dtypes(knl, {"x": F})))
    same(knl, x=np.random.default_rng(2).random((5, 64), F))


def test_random_numbers() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "x[i] = philox(7, i, 0, 1)\ny[i] = philox_f32(7, i, 0, 0)\n"
                         "z[i] = philox_f64(7, i, 0, 0)")
    same(lk.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0"), n=1000)
    normal = lk.split_iname(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = philox_normal_f64(7, i, 0, 0)"), "i", 128,
                            outer_tag="g.0", inner_tag="l.0")
    host, device = (lk.compile(normal, target=target)(n=1000) for target in ("c", "cuda"))
    np.testing.assert_allclose(host.y, device.y, rtol=1e-12)


@pytest.mark.parametrize("value", ["min(h[b[i]], w[i])", "h[b[i]]*w[i]", "h[b[i]] + w[i]"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
def test_atomic_updates(value: str, dtype: Any) -> None:
    knl = lk.split_iname(lk.make_kernel("{[i]: 0<=i<n}", f"h[b[i]] = {value} {{atomic}}"), "i", 128,
                         outer_tag="g.0", inner_tag="l.0")
    rng = np.random.default_rng(3)
    places, weights = rng.integers(0, 50, 2000).astype(np.int32), np.ones(2000, dtype)
    weights[::400] = 2
    starts = [np.ones(50, dtype), np.ones(50, dtype)]
    for start, target in zip(starts, ("c", "cuda"), strict=True):
        lk.compile(knl, target=target)(h=start, b=places, w=weights)
    np.testing.assert_array_equal(*starts)


def test_constants_and_temporaries_that_share_memory() -> None:
    weights = lk.TemporaryVariable("w", F, shape=(4,), initializer=np.array([1, 2, 4, 8], F), read_only=True)
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<4}", "y[i] = sum(k, w[k]*x[i + k])", [weights, "..."])
    same(lk.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0"),
         x=np.random.default_rng(4).integers(0, 9, 500).astype(F))
    s, t = (lk.TemporaryVariable(name, F, shape=(64,), address_space="shared", base_storage="both") for name in "st")
    knl = lk.make_kernel("{[b, i]: 0<=b<n and 0<=i<64}", """
        for b
            for i
                s[i] = 2*x[b, i]
            end
            for i
                y[b, i] = s[63 - i]
            end
            for i
                t[i] = 3*x[b, i]
            end
            for i
                z[b, i] = t[63 - i]
            end
        end
        """, [s, t, "..."])
    same(lk.tag_inames(knl, "b:g.0, i:l.0"), x=np.random.default_rng(5).random((7, 64), F))
