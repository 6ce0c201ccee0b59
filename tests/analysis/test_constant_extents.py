"""Inferred shapes of temporaries: constants where the bounds have any; those of arguments stay exact."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.shapes import MOST_CONSTANT, array_shapes
from loopkit.kernel.data import AddressSpace

TILES = ("{[kb,j,l]: 0<=kb and 0<=j,l<32 and 32*kb+j<nk and 32*kb+l<nk}",
         "for kb\n for j\n  <> s[j] = x[32*kb+j]\n end\n for l\n  y[32*kb+l] = 2*s[l]\n end\nend")


def shape(domains: str, body: str, name: str, assumptions: str | None = None) -> str:
    knl = lk.make_kernel(domains, body, assumptions=assumptions)
    return ", ".join(map(str, array_shapes(knl)[name]))


@pytest.mark.parametrize(("domain", "subscript", "extent"), [
    ("0<=j<32 and 32*3+j<n", "j", "32"), ("0<=j<n and j<5", "j", "5"), ("0<=j<n", "j", "n"), ("0<=j<8", "j", "8"),
    ("0<=j<n and n<=16", "2*j", "31"), ("0<=j<n and j<5", "n - j", "n + 1"), ("2<=j<5 and j<n", "j - 2", "3"),
    ("0<=j<5 or n<=j<2*n and j<20", "j", "20"), ("0<=j<n and j mod 3 = 1 and j<9", "j // 3", "3"),
    (f"0<=j<n and j<{MOST_CONSTANT}", "j", str(MOST_CONSTANT))])
def test_bounded_by_constants(domain: str, subscript: str, extent: str) -> None:
    assert shape(f"{{[j]: {domain}}}", f"<> s[{subscript}] = x[j]\ny[j] = s[{subscript}]", "s") == extent


def test_a_strided_union_has_a_shape() -> None:
    """isl has a bound of a constraint only if the space has no unknowns."""
    points = "{[i, j]: (0<=i<n or 2*n<=i<2*n+m) and 0<=j<m and (i + 2*j) mod 3 = 1}"
    assert shape(points, "y[i, j] = x[i]*j + y[i, j]", "y", "n>=1 and m>=1").endswith(", m")


def test_a_long_axis_has_what_the_sizes_ask_for() -> None:
    """Constant, it would lie on a stack."""
    assert "n" in shape("{[j]: 0<=j<n and j<1000000}", "<> s[j] = x[j]\ny[j] = s[j]", "s")


def test_an_assumption_is_a_bound() -> None:
    assert shape("{[j]: 0<=j<n}", "<> s[j] = x[j]\ny[j] = s[j]", "s", "n <= 1000") == "1000"


@pytest.mark.deep
def test_arguments_are_exact() -> None:
    assert "n" in shape("{[j]: 0<=j<n and j<5}", "y[j] = x[j]", "y")
    x = np.arange(3.)
    y, = lk.make_kernel("{[j]: 0<=j<n and j<5}", "y[j] = x[j]", assumptions="n>=0")(x=x, n=3)
    np.testing.assert_array_equal(y, x)


@pytest.mark.deep
def test_a_tile_lies_in_shared_memory_or_registers() -> None:
    """Also if the size is not a multiple of the tile."""
    knl = lk.add_dtypes(lk.make_kernel(*TILES), {"x": np.float32})
    knl = lk.tag_inames(knl, {"kb": "g.0", "j": "l.0"})
    lowered = lk.lower(knl, stop="storage")
    assert "global" not in str(lowered)
    for size in (0, 1, 31, 32, 70):
        x = np.arange(size, dtype=np.float32)
        y, = knl(x=x)
        np.testing.assert_array_equal(y, 2*x)
    declared = lk.set_temporary_address_space(knl, "s", "local")
    assert declared.temporaries["s"].address_space is AddressSpace.LOCAL
    y, = declared(x=np.ones(40, np.float32))
    np.testing.assert_array_equal(y, np.full(40, 2, np.float32))
