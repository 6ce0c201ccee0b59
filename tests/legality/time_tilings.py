"""Classic time-tilings: loop nests over time whose tiles hold several steps of it.

Skewing makes the dependences point forwards along every loop, so that boxes of the skewed loops run one after another.
A diamond has its sides along two slanted directions of time and space instead.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.legality.classics import Classic, Steps, tile
from tests.legality.pairs import step
from tests.legality.stencils import fdtd_2d, heat_3d, jacobi_1d, jacobi_2d, jacobi_over_time, seidel

TN: tuple[Mapping[str, int], ...] = ({"nt": 1, "n": 3}, {"nt": 5, "n": 9})
AXES = "ijk"


# Numpy's answers

def seidel_1d(a: Any, nt: int, n: int) -> None:
    for _t in range(nt):
        for i in range(1, n - 1):
            a[i] = a[i-1] + a[i] - a[i+1]


def plane_over_time(a: Any, nt: int, n: int) -> None:
    c = slice(1, n - 1)
    for t in range(nt):
        a[t+1, c, c] = a[t, c, c] - a[t, :n-2, c] + a[t, 2:n, c] - a[t, c, :n-2] + a[t, c, 2:n]


def shortest_paths(path: Any, n: int) -> None:
    for k in range(n):
        for i in range(n):
            for j in range(n):
                path[i, j] = min(path[i, j], path[i, k] + path[k, j])


# Steps

def skewed(*inames: str, by: int = 1) -> Steps:
    return tuple(step("skew", x, by={"t": by}) for x in inames)


def fused(rank: int) -> Steps:
    """The loops of the second sweep of a step, one further, in the same loops as those of the first."""
    return tuple(one for x in AXES[:rank] for one in (
        step("shift", f"{x}2", 1), step("fuse_loops", [x, f"{x}2"], new_iname=x)))


def unequal(rank: int) -> dict[str, int]:
    """Sizes of tiles in time and space."""
    return dict(zip(("t", *AXES[:rank]), (2, 3, 4, 5), strict=False))


def diamond(*new: str, **values: str) -> Steps:
    """Tiles along *new* directions, which are forms of time and space."""
    old = ["t", *AXES[:len(new) - 1]]
    return (step("affine_map_inames", old, list(new), [f"{x} = {form}" for x, form in values.items()]),
            *tile(**dict(zip(new, (3, 4, 5), strict=False))))


def two_sweeps(rank: int, first: str) -> tuple[str, str]:
    """Domains and text of a step of time in two sweeps: *first* makes ``b`` of ``a``, the second copies it back."""
    one, two = AXES[:rank], [f"{x}2" for x in AXES[:rank]]
    inner = ", ".join(two)
    return (f"{{[t,{','.join(one)},{','.join(two)}]: 0<=t<nt and 1<={','.join(one)}<n-1 and 1<={','.join(two)}<n-1}}",
            f"for t\n for {', '.join(one)}\n b[{','.join(one)}] = {first} {{id=there}}\n end\n"
            f" for {inner}\n a[{inner}] = b[{inner}] {{id=back}}\n end\nend")


JACOBI = {
    1: two_sweeps(1, "a[i-1] + a[i] - a[i+1]"),
    2: two_sweeps(2, "a[i,j] - a[i-1,j] + a[i+1,j] - a[i,j-1] + a[i,j+1]"),
    3: two_sweeps(3, "a[i+1,j,k] - 2*a[i,j,k] + a[i-1,j,k] + a[i,j+1,k] - a[i,j-1,k] + a[i,j,k+1] - a[i,j,k-1]"),
}

TIME_TILINGS: Mapping[str, Classic] = {
    "Jacobi 1D": Classic(*JACOBI[1], TN, jacobi_1d, {
        "time-skewed": (*fused(1), *skewed("i", by=2), *tile(**unequal(1)))}),
    "Jacobi 1D over time": Classic(
        "{[t,i]: 0<=t<nt and 1<=i<n-1}", "a[t+1,i] = a[t,i-1] + a[t,i] - a[t,i+1]", TN, jacobi_over_time, {
            "time-skewed": (*skewed("i"), *tile(**unequal(1))),
            "diamond": diamond("p", "q", p="t + i", q="t - i")}),
    "Jacobi 2D": Classic(*JACOBI[2], TN, jacobi_2d, {
        "time-skewed": (*fused(2), *skewed("i", "j", by=2), *tile(**unequal(2)))}),
    "Jacobi 2D over time": Classic(
        "{[t,i,j]: 0<=t<nt and 1<=i,j<n-1}",
        "a[t+1,i,j] = a[t,i,j] - a[t,i-1,j] + a[t,i+1,j] - a[t,i,j-1] + a[t,i,j+1]", TN, plane_over_time, {
            "time-skewed": (*skewed("i", "j"), *tile(**unequal(2))),
            "diamond": diamond("p", "q", "r", p="t + i", q="t - i", r="t + j")}),
    "Jacobi 3D": Classic(*JACOBI[3], ({"nt": 1, "n": 3}, {"nt": 3, "n": 6}), heat_3d, {
        "time-skewed": (*fused(3), *skewed("i", "j", "k", by=2), *tile(**unequal(3)))}),
    "Seidel 1D": Classic(
        "{[t,i]: 0<=t<nt and 1<=i<n-1}", "for t, i\n a[i] = a[i-1] + a[i] - a[i+1]\nend", TN, seidel_1d, {
            "time-skewed": (*skewed("i"), *tile(**unequal(1)))}),
    "Seidel 2D": Classic(
        "{[t,i,j]: 0<=t<nt and 1<=i,j<n-1}",
        "for t, i, j\n a[i,j] = a[i-1,j] - a[i,j-1] + a[i+1,j] - a[i,j+1]\nend", TN, seidel, {
            "rectangular in space": tile(i=3, j=4), "time-skewed": (*skewed("i", "j"), *tile(**unequal(2)))}),
    "FDTD 2D": Classic(
        ("{[t]: 0<=t<nt}", "{[j0]: 0<=j0<m}", "{[i,j]: 1<=i<n and 0<=j<m}", "{[i2,j2]: 0<=i2<n and 1<=j2<m}",
         "{[i3,j3]: 0<=i3<n-1 and 0<=j3<m-1}"), """
        for t
            for j0
                ey[0,j0] = t {id=edge}
            end
            for i, j
                ey[i,j] = ey[i,j] - (hz[i,j] - hz[i-1,j]) {id=rows}
            end
            for i2, j2
                ex[i2,j2] = ex[i2,j2] - (hz[i2,j2] - hz[i2,j2-1]) {id=columns}
            end
            for i3, j3
                hz[i3,j3] = hz[i3,j3] - (ex[i3,j3+1] - ex[i3,j3] + ey[i3+1,j3] - ey[i3,j3]) {id=field}
            end
        end
        """, ({"nt": 1, "n": 2, "m": 2}, {"nt": 3, "n": 5, "m": 7}), fdtd_2d, {
            "rectangular in space": (*tile(i=2, j=3), *tile(i2=2, j2=3), *tile(i3=4, j3=2)),
            "time-skewed": (step("apply_schedule", {
                "edge": "[t, t, t + j0, 0]", "rows": "[t, t + i, t + j, 1]", "columns": "[t, t + i2, t + j2, 2]",
                "field": "[t, t + i3 + 1, t + j3 + 1, 3]"}), step("tile", {"t": 2, "t_0": 3, "t_j0": 4}))}),
    "Floyd and Warshall": Classic(
        "{[k,i,j]: 0<=k,i,j<n}", "for k, i, j\n path[i,j] = min(path[i,j], path[i,k] + path[k,j])\nend",
        ({"n": 1}, {"n": 7}), shortest_paths, {"rectangular in space": tile(i=3, j=4)}),
}

#: Tiles over time without the skew that they need, or along directions that dependences go against.
REFUSED: Mapping[str, Steps] = {
    "Jacobi 1D": (*fused(1), *tile(**unequal(1))), "Jacobi 1D over time": tile(**unequal(1)),
    "Jacobi 2D": (*fused(2), *skewed("i", by=2), *tile(**unequal(2))),
    "Jacobi 2D over time": diamond("p", "q", "r", p="t + i", q="t - i", r="j"),
    "Jacobi 3D": (*fused(3), *skewed("i", "j", "k"), *tile(**unequal(3))),
    "Seidel 1D": tile(**unequal(1)), "Seidel 2D": (*skewed("i"), *tile(**unequal(2))),
    "FDTD 2D": (step("apply_schedule", {
        "edge": "[t, t, j0, 0]", "rows": "[t, t + i, j, 1]", "columns": "[t, t + i2, j2, 2]",
        "field": "[t, t + i3 + 1, j3 + 1, 3]"}), step("tile", {"t": 2, "t_0": 3, "j0": 4})),
    "Floyd and Warshall": tile(k=2, i=3, j=4),
}
