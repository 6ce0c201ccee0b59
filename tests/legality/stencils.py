"""Classic stencils."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.legality.classics import Classic, blocks, fetch, order, split, swap, threads, tile

N = ({"n": 3}, {"n": 4}, {"n": 13})
NM = ({"n": 3, "m": 3}, {"n": 6, "m": 9}, {"n": 11, "m": 8})
TN = ({"nt": 1, "n": 3}, {"nt": 2, "n": 6}, {"nt": 5, "n": 9})


# Numpy's answers

def smooth(a: Any, b: Any, n: int) -> None:
    b[1:n-1] = a[:-2] + a[1:-1] + a[2:]


def jacobi_1d(a: Any, b: Any, nt: int, n: int) -> None:
    for _t in range(nt):
        b[1:n-1] = a[:-2] + a[1:-1] - a[2:]
        a[1:-1] = b[1:n-1]


def jacobi_over_time(a: Any, nt: int, n: int) -> None:
    for t in range(nt):
        a[t+1, 1:n-1] = a[t, :n-2] + a[t, 1:n-1] - a[t, 2:n]


def sweep_2d(a: Any, b: Any, n: int, m: int) -> None:
    b[1:n-1, 1:m-1] = a[1:-1, 1:-1] - a[:-2, 1:-1] + a[2:, 1:-1] - a[1:-1, :-2] + a[1:-1, 2:]


def jacobi_2d(a: Any, b: Any, nt: int, n: int) -> None:
    for _t in range(nt):
        sweep_2d(a, b, n, n)
        a[1:-1, 1:-1] = b[1:n-1, 1:n-1]


def seidel(a: Any, nt: int, n: int) -> None:
    for _t, i, j in np.ndindex(nt, n - 2, n - 2):
        a[i+1, j+1] = a[i, j+1] - a[i+1, j] + a[i+2, j+1] - a[i+1, j+2]


def seidel_9(a: Any, nt: int, n: int) -> None:
    for _t, i, j in np.ndindex(nt, n - 2, n - 2):
        a[i+1, j+1] = (a[i, j] + a[i, j+1] + a[i, j+2] - a[i+1, j] - a[i+1, j+2] - a[i+2, j] + a[i+2, j+1]
                       - a[i+2, j+2])


def heat_3d(a: Any, b: Any, nt: int, n: int) -> None:
    c = slice(1, n - 1)
    for _t in range(nt):
        b[c, c, c] = (a[2:, c, c] - 2*a[c, c, c] + a[:-2, c, c] + a[c, 2:, c] - a[c, :-2, c] + a[c, c, 2:]
                      - a[c, c, :-2])
        a[c, c, c] = b[c, c, c]


def fdtd_2d(ex: Any, ey: Any, hz: Any, nt: int, n: int, m: int) -> None:
    for t in range(nt):
        ey[0, :m] = t
        ey[1:n, :m] -= hz[1:n, :m] - hz[:n-1, :m]
        ex[:n, 1:m] -= hz[:n, 1:m] - hz[:n, :m-1]
        hz[:n-1, :m-1] -= ex[:n-1, 1:m] - ex[:n-1, :m-1] + ey[1:n, :m-1] - ey[:n-1, :m-1]


def alternating(u: Any, v: Any, n: int, **_: int) -> None:
    for j in range(1, n):
        v[:, j] = u[:, j] - v[:, j-1]
    for i in range(1, n):
        u[i, :] = v[i, :] - u[i-1, :]


def convolution(a: Any, w: Any, b: Any, n: int) -> None:
    for i in range(n):
        b[i] = a[i:i+5] @ w


def convolution_2d(a: Any, w: Any, b: Any, n: int, m: int) -> None:
    for i, j in np.ndindex(n, m):
        b[i, j] = (a[i:i+3, j:j+3]*w).sum()


def pooled(a: Any, b: Any, n: int, m: int) -> None:
    for i, j in np.ndindex(n, m):
        b[i, j] = a[2*i:2*i+2, 2*j:2*j+2].max()


def red_black(u: Any, n: int) -> None:
    for colour in (1, 0):
        for i in range(1, n - 1):
            if i % 2 == colour:
                u[i] = u[i-1] + u[i+1]


def upsampled(a: Any, b: Any, n: int) -> None:
    b[0:2*n:2] = a[:n]
    b[1:2*n:2] = a[:n] + a[1:n+1]


def framed(a: Any, n: int, **_: int) -> None:
    a[0, :], a[n+1, :] = a[1, :], a[n, :]


def advected(a: Any, nt: int, n: int) -> None:
    for t in range(nt):
        a[t+1, 1:n] = a[t, 1:n] - a[t, :n-1]


def swept(u: Any, f: Any, n: int, m: int) -> None:
    for i, j in np.ndindex(n - 1, m - 1):
        u[i+1, j+1] = f[i, j] + u[i, j+1] - u[i+1, j]


LINE = ("{[t]: 0<=t<nt}", "{[i,j]: 1<=i,j<n-1}")

STENCILS: Mapping[str, Classic] = {
    "smoothing": Classic("{[i]: 1<=i<n-1}", "b[i] = a[i-1] + a[i] + a[i+1]", N, smooth, {
        "over blocks": blocks("i"), "over threads": threads("i"), "by ilp": (split("i", 4, None, "ilp"),),
        "in shared memory": (*threads("i"), *fetch("a", "i_inner")), "unrolled": (split("i", 2, None, "unr"),)}),
    "Jacobi 1D": Classic(LINE, """
        for t
            for i
                b[i] = a[i-1] + a[i] - a[i+1] {id=S}
            end
            for j
                a[j] = b[j] {id=R}
            end
        end
        """, TN, jacobi_1d, {
            "time in strips": (split("t", 2),), "space in strips": (split("i", 3), split("j", 4)),
            "in one block": (split("i", 16, None, "l.0"), split("j", 16, None, "l.0"))}),
    "Jacobi 1D over time": Classic(
        "{[t,i]: 0<=t<nt and 1<=i<n-1}", "a[t+1,i] = a[t,i-1] + a[t,i] - a[t,i+1]", TN, jacobi_over_time, {
            "time in strips": (split("t", 2),), "in one block": (split("i", 16, None, "l.0"),),
            "unrolled": (split("i", 2, None, "unr"),), "lanes": (split("i", 4, None, "ilp"),)}),
    "Jacobi 2D": Classic(("{[t]: 0<=t<nt}", "{[i,j,p,q]: 1<=i,j,p,q<n-1}"), """
        for t
            for i, j
                b[i,j] = a[i,j] - a[i-1,j] + a[i+1,j] - a[i,j-1] + a[i,j+1] {id=S}
            end
            for p, q
                a[p,q] = b[p,q] {id=R}
            end
        end
        """, TN, jacobi_2d, {
            "columns first": (*swap("i", "j"), *swap("p", "q")), "tiled": (*tile(i=2, j=3), *tile(p=4, q=2)),
            "in one block": (split("i", 8, None, "l.1"), split("j", 8, None, "l.0"), split("p", 8, None, "l.1"),
                             split("q", 8, None, "l.0"))}),
    "a Jacobi sweep 2D": Classic(
        "{[i,j]: 1<=i<n-1 and 1<=j<m-1}", "b[i,j] = a[i,j] - a[i-1,j] + a[i+1,j] - a[i,j-1] + a[i,j+1]", NM,
        sweep_2d, {
            "columns first": swap("i", "j"), "tiled": tile(i=3, j=4), "over threads": threads("i", "j"),
            "in shared memory": (*threads("i", "j"), *fetch("a", "i_inner", "j_inner")),
            "rolling": (*threads("j"), split("i", 2, None, "unr"))}),
    "Seidel 2D": Classic(
        "{[t,i,j]: 0<=t<nt and 1<=i,j<n-1}",
        "for t, i, j\n a[i,j] = a[i-1,j] - a[i,j-1] + a[i+1,j] - a[i,j+1]\nend", TN, seidel, {
            "columns first": swap("i", "j"), "space tiled": tile(i=2, j=3), "time in strips": (split("t", 2),),
            "unrolled": (split("j", 2, None, "unr"),)}),
    "Seidel 2D, nine points": Classic(
        "{[t,i,j]: 0<=t<nt and 1<=i,j<n-1}", "for t, i, j\n a[i,j] = a[i-1,j-1] + a[i-1,j] + a[i-1,j+1]"
        " - a[i,j-1] - a[i,j+1] - a[i+1,j-1] + a[i+1,j] - a[i+1,j+1]\nend", TN, seidel_9, {
            "rows in strips": (split("i", 2),), "columns in strips": (split("j", 3),)}),
    "heat 3D": Classic(("{[t]: 0<=t<nt}", "{[i,j,k,p,q,r]: 1<=i,j,k,p,q,r<n-1}"), """
        for t
            for i, j, k
                b[i,j,k] = a[i+1,j,k] - 2*a[i,j,k] + a[i-1,j,k] + a[i,j+1,k] - a[i,j-1,k] + a[i,j,k+1] - a[i,j,k-1]
            end
            for p, q, r
                a[p,q,r] = b[p,q,r]
            end
        end
        """, ({"nt": 1, "n": 3}, {"nt": 3, "n": 6}), heat_3d, {
            "inside out": (*order("k, j, i"), *order("r, q, p")), "tiled": tile(i=2, j=2, k=2),
            "in one block": (split("j", 4, None, "l.1"), split("k", 4, None, "l.0"), split("q", 4, None, "l.1"),
                             split("r", 4, None, "l.0"))}),
    "FDTD 2D": Classic(
        ("{[t]: 0<=t<nt}", "{[j0]: 0<=j0<m}", "{[i,j]: 1<=i<n and 0<=j<m}", "{[p,q]: 0<=p<n and 1<=q<m}",
         "{[r,s]: 0<=r<n-1 and 0<=s<m-1}"), """
        for t
            for j0
                ey[0,j0] = t
            end
            for i, j
                ey[i,j] = ey[i,j] - (hz[i,j] - hz[i-1,j])
            end
            for p, q
                ex[p,q] = ex[p,q] - (hz[p,q] - hz[p,q-1])
            end
            for r, s
                hz[r,s] = hz[r,s] - (ex[r,s+1] - ex[r,s] + ey[r+1,s] - ey[r,s])
            end
        end
        """, ({"nt": 1, "n": 2, "m": 2}, {"nt": 3, "n": 5, "m": 7}), fdtd_2d, {
            "columns first": (*swap("i", "j"), *swap("p", "q"), *swap("r", "s")),
            "tiled": (*tile(i=2, j=3), *tile(p=2, q=3), *tile(r=4, s=2)),
            "in one block": (split("j0", 8, None, "l.0"), split("j", 8, None, "l.0"), split("q", 8, None, "l.0"),
                             split("s", 8, None, "l.0"))}),
    "alternating directions": Classic(
        ("{[i,j]: 0<=i<n and 1<=j<n}", "{[p,q]: 1<=p<n and 0<=q<n}"), """
        for i, j
            v[i,j] = u[i,j] - v[i,j-1]
        end
        for p, q
            u[p,q] = v[p,q] - u[p-1,q]
        end
        """, N, alternating, {
            "rows, then columns, over threads": (*threads("i"), *threads("q")), "all turned": (
                *swap("i", "j"), *swap("p", "q")), "tiled": (*tile(i=3, j=2), *tile(p=2, q=3))}),
    "convolution": Classic("{[i,k]: 0<=i<n and 0<=k<5}", "b[i] = sum(k, a[i+k]*w[k])", N, convolution, {
        "over threads": threads("i"), "taps unrolled": (*threads("i"), split("k", 5, None, "unr")),
        "in shared memory": (*threads("i"), *fetch("a", "i_inner", "k"), *fetch("w", "k")),
        "lanes": (split("i", 4, None, "ilp"),)}),
    "convolution 2D": Classic(
        "{[i,j,k,q]: 0<=i<n and 0<=j<m and 0<=k,q<3}", "b[i,j] = sum([k,q], a[i+k,j+q]*w[k,q])", NM, convolution_2d, {
            "over threads": threads("i", "j"), "tiled": tile(i=2, j=4), "columns first": swap("i", "j"),
            "in shared memory": (*threads("i", "j"), *fetch("a", "i_inner", "j_inner", "k", "q"))}),
    "pooling": Classic(
        "{[i,j,k,q]: 0<=i<n and 0<=j<m and 0<=k,q<2}", "b[i,j] = max([k,q], a[2*i+k,2*j+q])", NM, pooled, {
            "over threads": threads("i", "j"), "columns first": swap("i", "j"), "over blocks": blocks("i", "j")}),
    "red and black": Classic("{[i,j]: 1<=i,j<n-1}", """
        for i
            u[i] = u[i-1] + u[i+1] {if=i % 2 == 1}
        end
        for j
            u[j] = u[j-1] + u[j+1] {if=j % 2 == 0}
        end
        """, N, red_black, {
            "over blocks": (*blocks("i"), *blocks("j")), "over threads": (*threads("i"), *threads("j")),
            "in strips": (split("i", 3), split("j", 4))}),
    "upsampling": Classic("{[i]: 0<=i<n}", "b[2*i] = a[i]\nb[2*i+1] = a[i] + a[i+1]", N, upsampled, {
        "over blocks": blocks("i"), "over threads": threads("i"), "by ilp": (split("i", 2, None, "ilp"),)}),
    "a frame": Classic(
        "{[j]: 0<=j<m}", "a[0,j] = a[1,j]\na[n+1,j] = a[n,j]", NM, framed, {
            "over blocks": blocks("j"), "over threads": threads("j"), "by ilp": (split("j", 4, None, "ilp"),)},
        assumptions="n >= 1"),
    "advection": Classic("{[t,i]: 0<=t<nt and 1<=i<n}", "a[t+1,i] = a[t,i] - a[t,i-1]", TN, advected, {
        "time inside": swap("t", "i"), "tiled": tile(t=2, i=3), "in one block": (split("i", 16, None, "l.0"),),
        "tiles of space outside": (split("i", 4), *order("i_outer, t, i_inner"))}),
    "a sweep": Classic(
        "{[i,j]: 1<=i<n and 1<=j<m}", "u[i,j] = f[i-1,j-1] + u[i-1,j] - u[i,j-1]", NM, swept, {
            "columns first": swap("i", "j"), "tiled": tile(i=3, j=2), "tiled, columns first": (
                *tile(i=2, j=2), *order("j_outer, i_outer, j_inner, i_inner"))}),
}
