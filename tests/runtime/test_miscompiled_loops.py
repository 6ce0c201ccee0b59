"""Kernels that C compilers got wrong, with the flags that users get."""
from __future__ import annotations

import itertools

import numpy as np
import pytest

import loopkit as lk
from loopkit.errors import CompilerError
from loopkit.runtime.compiler import find_compiler

pytestmark = pytest.mark.optimised

TARGETS = [lk.CTarget(), lk.CTarget(fast=True)]
F32, F64 = np.float32, np.float64


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("target", TARGETS, ids=["default", "fast"])
@pytest.mark.parametrize("size", [(8, 8), (9, 17), (16, 5)])
def test_strided_prefetch(target: lk.CTarget, size: tuple[int, int]) -> None:
    """GCC 12 loses half of the elements that are copied under a condition."""
    n, m = size
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "y[i,j] = x[2*i,3*j]", assumptions="n>=1 and m>=1")
    knl = lk.split_iname(lk.split_iname(lk.add_dtypes(knl, {"x": F32}), "i", 8), "j", 8)
    knl = lk.add_prefetch(knl, "x", ["i_inner", "j_inner"], default_tag="unr")
    x = np.arange(6*n*m, dtype=F32).reshape(2*n, 3*m)
    y, = lk.compile(knl, target=target)(x=x, n=n, m=m)
    np.testing.assert_array_equal(y, x[::2, ::3])


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("target", TARGETS, ids=["default", "fast"])
@pytest.mark.parametrize("value", ["x[j]", "x[j] + x[j + 1] + x[j]", "x[j]*x[i]", "if(x[j] > 3, x[i], x[j])"])
@pytest.mark.parametrize("index", [(1, 1), (1, 2), (2, 1), (1, -1), (0, 1), (1, 0)])
def test_the_last_write_stays(index: tuple[int, int], value: str, target: lk.CTarget) -> None:
    """GCC 12 and 13 mix iterations of a loop in which one statement writes elements again."""
    p, q = index
    shift = f" + {-q}*n" if q < 0 else ""
    args = [lk.GlobalArg("a", F64, "4*n"), lk.GlobalArg("x", F64, "n + 1"), "..."]
    knl = lk.make_kernel("{[j,i]: 0<=j,i<n}", f"for j, i\n a[{p}*j + {q}*i{shift}] = {value}\nend", args)
    python = value.replace("if(x[j] > 3, x[i], x[j])", "x[i] if x[j] > 3 else x[j]")
    for n in (5, 8, 33):
        x = np.arange(1.0, n + 2)
        wanted = np.zeros(4*n)
        for j, i in itertools.product(range(n), repeat=2):
            wanted[p*j + q*i + (-q*n if q < 0 else 0)] = eval(python, {"x": x, "j": j, "i": i})
        found = lk.compile(knl, target=target)(x=x, a=np.zeros(4*n)).a
        np.testing.assert_array_equal(found, wanted)


# Flags

def test_contraction_is_refused() -> None:
    """Products are fused with sums only where loops are optimised; other flags are in test_compiler_trials.py."""
    if not find_compiler().native:
        pytest.skip("no fused multiply-add")
    with pytest.raises(CompilerError, match="with '-ffp-contract=fast' miscompiles rounding"):
        find_compiler(lk.CTarget(options=("-g", "-ffp-contract=fast")))


def test_fast_flags_include_loop_vectors_or_are_dropped() -> None:
    safe, fast = find_compiler(), find_compiler(lk.CTarget(fast=True))
    assert "-fno-tree-vectorize" in safe.flags
    assert "-fno-tree-vectorize" not in fast.flags or fast.dropped
    assert not safe.dropped
