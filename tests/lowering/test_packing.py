"""Several inames on one hardware axis."""
from __future__ import annotations

import pytest

import loopkit as lk
from tests.lowering.kernels import F32, make
from tests.target.text import lines_with
from tests.transform.same import assert_same


@pytest.mark.deep
@pytest.mark.parametrize("axes", ["i_warp, j_warp, i_lane, j_lane", "j_lane, i_lane, j_warp, i_warp"])
def test_inames_of_an_axis_are_packed_as_their_loops_nest(axes: str) -> None:
    plain = make("{[i,j]: 0<=i<n and 0<=j<16}", "y[i,j] = x[j,i] {id=first}\nz[i,j] = 2*y[i,j] {id=second}", x=F32)
    knl = lk.split_levels(plain, "i", {"i_outer": None, "i_warp": 2, "i_lane": 4}, tags={"i_outer": "g.0"})
    knl = lk.split_levels(knl, "j", {"j_outer": None, "j_warp": 2, "j_lane": 2})
    knl = lk.tag_inames(knl, dict.fromkeys(("i_warp", "j_warp", "i_lane", "j_lane"), "l.0"))
    knl = lk.prioritize_loops(knl, axes)
    strides = {"i_warp": 2, "j_warp": 2, "i_lane": 4, "j_lane": 2}
    below = 1
    for x in reversed(axes.split(", ")):
        [line] = lines_with(knl, f"const int {x} =")
        digit = f" % {strides[x]}" if x != axes.split(", ")[0] else ""
        assert line.endswith(f"threadIdx.x{f' / {below}' if below > 1 else ''}{digit};")
        below *= strides[x]
    for n in (1, 8, 13):
        assert_same(plain, knl, n=n)


@pytest.mark.deep
def test_blocks_run_in_groups() -> None:
    """The axis of the grid has a part of constant extent inside one that depends on sizes."""
    plain = make("{[i,j]: 0<=i<n and 0<=j<m}", "y[i,j] = x[i,j] + i - j", x=F32)
    knl = lk.split_levels(plain, "i", {"i_group": None, "i_block": 3, "i_thread": 4},
                          tags={"i_group": "g.1", "i_block": "g.0", "i_thread": "l.1"})
    knl = lk.split_iname(knl, "j", 4, outer_tag="g.0", inner_tag="l.0")
    knl = lk.prioritize_loops(knl, "i_group, j_outer, i_block")
    assert lines_with(knl, "const int i_block =")[0].endswith("blockIdx.x % 3;")
    assert "i_block <" not in lk.generate_code(knl).source         # what a remainder says already
    for n, m in ((1, 1), (13, 9), (24, 8), (25, 3)):
        assert_same(plain, knl, n=n, m=m)


def test_a_value_passes_between_threads_of_an_axis_whose_inner_extent_depends_on_sizes() -> None:
    plain = make("{[i,j]: 0<=i<4 and m<=j<n}", """
        for i
            for j
                <> t[i,j] = x[i,j]
            end
            for j
                y[i,j] = t[i,n+m-1-j]
            end
        end
        """, x=F32)
    plain = lk.assume(plain, "0 <= m < n")
    knl = lk.tag_inames(plain, "i: l.0, j: l.0")
    assert len(lines_with(knl, "__syncthreads();")) == 1
    assert_same(plain, knl, n=7, m=2)
    constant = lk.tag_inames(lk.fix_parameters(plain, n=8, m=4), "i: l.0, j: l.0")
    assert len(lines_with(constant, "__syncwarp();")) == 1
    assert_same(plain, constant, n=8, m=4)


def test_the_constant_extent_between_two_sizes_packs_a_warp() -> None:
    knl = lk.tag_inames(make("{[i,j]: 0<=i<4 and m<=j<m+4}", """
        for i
            for j
                <> t[i,j] = x[i,j]
            end
            for j
                y[i,j] = t[i,2*m+3-j]
            end
        end
        """, x=F32), "i: l.0, j: l.0")
    assert len(lines_with(knl, "__syncwarp();")) == 1
