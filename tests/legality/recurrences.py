"""Classic dynamic programs and recurrences."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.legality.classics import Classic, blocks, order, split, swap, threads, tile

N = ({"n": 2}, {"n": 3}, {"n": 12})
NM = ({"n": 2, "m": 2}, {"n": 6, "m": 5}, {"n": 9, "m": 11})


# Numpy's answers

def prefix_sum(a: Any, b: Any, n: int) -> None:
    a[1:n] = a[0] + np.cumsum(b[1:n])


def row_sums(a: Any, **_: int) -> None:
    a[:] = np.cumsum(a, axis=1)


def area_sums(a: Any, **_: int) -> None:
    a[:] = np.cumsum(np.cumsum(a, axis=0), axis=1)


def common_subsequence(c: Any, s: Any, n: int, m: int) -> None:
    for i, j in np.ndindex(n - 1, m - 1):
        c[i+1, j+1] = max(c[i, j+1], c[i+1, j], c[i, j] + s[i+1, j+1])


def edit_distance(d: Any, s: Any, n: int, m: int) -> None:
    for i in range(n):
        d[i, 0] = i
    for j in range(m):
        d[0, j] = j
    for i, j in np.ndindex(n - 1, m - 1):
        d[i+1, j+1] = min(d[i, j+1] + 1, d[i+1, j] + 1, d[i, j] + s[i+1, j+1])


def shortest_paths(d: Any, n: int) -> None:
    for k, i, j in np.ndindex(n, n, n):
        d[i, j] = min(d[i, j], d[i, k] + d[k, j])


def shortest_paths_copied(d: Any, r: Any, c: Any, n: int) -> None:
    for k in range(n):
        r[:], c[:] = d[k], d[:, k]
        d[:] = np.minimum(d, c[:, None] + r)


def folding(w: Any, e: Any, n: int) -> None:
    for i in reversed(range(n)):
        for j in range(i + 1, n):
            best = w[i+1, j-1] + e[i, j] if i + 1 < n and j - 1 >= 0 else e[i, j]
            for k in range(i, j):
                best = max(best, w[i, k] + w[k+1, j])
            w[i, j] = best


def chain(c: Any, p: Any, n: int) -> None:
    for width in range(1, n):
        for i in range(n - width):
            c[i, i+width] = min(c[i, k] + c[k+1, i+width] + p[i]*p[k+1]*p[i+width+1] for k in range(i, i + width))


def knapsack(f: Any, v: Any, n: int, m: int) -> None:
    for i in range(1, n):
        for w in range(m):
            f[i, w] = f[i-1, w]
        for w in range(2*i + 1, m):
            f[i, w] = max(f[i, w], f[i-1, w-2*i-1] + v[i])


def pascal(c: Any, n: int) -> None:
    for i in range(n):
        c[i, 0] = c[i, i] = 1
        for j in range(1, i):
            c[i, j] = c[i-1, j-1] + c[i-1, j]


def filtered(x: Any, y: Any, z: Any, n: int, m: int) -> None:
    for j in range(2, m):
        y[:, j] = x[:, j] - y[:, j-1] + y[:, j-2]
    for j in reversed(range(m - 2)):
        z[:, j] = y[:, j] - z[:, j+1]


def horner(c: Any, x: Any, y: Any, n: int, m: int) -> None:
    y[:] = 0
    for k in reversed(range(m)):
        y[:] = y*x + c[k]


def path_cost(c: Any, g: Any, n: int, m: int) -> None:
    for i in range(1, n):
        for j in range(1, m - 1):
            c[i, j] = g[i, j] + min(c[i-1, j-1], c[i-1, j], c[i-1, j+1])


def partitions(p: Any, n: int, m: int) -> None:
    for k in range(1, m):
        for s in range(k, n):
            p[s] += p[s-k]


def running(x: Any, y: Any, n: int) -> None:
    total = x[0]
    for i in range(n):
        total = total + x[i]
        y[i] = total


def tridiagonal(a: Any, b: Any, c: Any, d: Any, n: int, m: int) -> None:
    for i in range(1, n):
        b[i, :] -= a[i, :] * c[i-1, :]
        d[i, :] -= a[i, :] * d[i-1, :]
    for i in range(1, n):
        d[n-1-i, :] -= c[n-1-i, :] * d[n-i, :]


RECURRENCES: Mapping[str, Classic] = {
    "prefix sum": Classic("{[i]: 1<=i<n}", "a[i] = a[i-1] + b[i]", N, prefix_sum, {
        "in strips": (split("i", 4),), "unrolled": (split("i", 4, None, "unr"),),
        "by ilp": (split("i", 2, None, "ilp"),)}),
    "running total": Classic(
        "{[i]: 0<=i<n}", "<> t = x[0]\nfor i\n t = t + x[i]\n y[i] = t\nend", N, running, {
            "in strips": (split("i", 3),), "unrolled": (split("i", 4, None, "unr"),)}),
    "prefix sums of rows": Classic("{[i,j]: 0<=i<n and 1<=j<m}", "a[i,j] = a[i,j] + a[i,j-1]", NM, row_sums, {
        "rows over threads": threads("i"), "columns first": swap("i", "j"), "tiled": tile(i=2, j=3),
        "columns first, rows over blocks": (*swap("i", "j"), *blocks("i"))}),
    "summed areas": Classic(
        ("{[i,j]: 0<=i<n and 1<=j<m}", "{[p,q]: 1<=p<n and 0<=q<m}"), """
        for i, j
            a[i,j] = a[i,j] + a[i,j-1]
        end
        for p, q
            a[p,q] = a[p,q] + a[p-1,q]
        end
        """, NM, area_sums, {
            "rows, then columns, over threads": (*threads("i"), *threads("q")),
            "all turned": (*swap("i", "j"), *swap("p", "q"))}),
    "longest common subsequence": Classic(
        "{[i,j]: 1<=i<n and 1<=j<m}", "c[i,j] = max(max(c[i-1,j], c[i,j-1]), c[i-1,j-1] + s[i,j])", NM,
        common_subsequence, {
            "columns first": swap("i", "j"), "tiled": tile(i=2, j=3), "in strips": (split("j", 4),),
            "tiled, columns first": (*tile(i=2, j=2), *order("j_outer, i_outer, i_inner, j_inner"))}),
    "edit distance": Classic(
        ("{[p,q]: 0<=p<n and 0<=q<m}", "{[i,j]: 1<=i<n and 1<=j<m}"), """
        for p
            d[p,0] = p
        end
        for q
            d[0,q] = q
        end
        for i, j
            d[i,j] = min(min(d[i-1,j] + 1, d[i,j-1] + 1), d[i-1,j-1] + s[i,j])
        end
        """, NM, edit_distance, {
            "columns first": swap("i", "j"), "tiled": tile(i=2, j=3),
            "borders over threads": (*threads("p"), *threads("q"))}),
    "shortest paths": Classic("{[k,i,j]: 0<=k,i,j<n}", "d[i,j] = min(d[i,j], d[i,k] + d[k,j])", N, shortest_paths, {
        "relays in strips": (split("k", 2),), "columns in strips": (split("j", 3),)}),
    "shortest paths through a copied row and column": Classic(
        ("{[k,i,j]: 0<=k,i,j<n}", "{[p,q]: 0<=p,q<n}"), """
        for k
            for p
                r[p] = d[k,p]
            end
            for q
                c[q] = d[q,k]
            end
            for i, j
                d[i,j] = min(d[i,j], c[i] + r[j])
            end
        end
        """, N, shortest_paths_copied, {
            "columns first": swap("i", "j"), "tiled": tile(i=2, j=3),
            "in one block": (split("p", 16, None, "l.0"), split("q", 16, None, "l.0"), split("j", 16, None, "l.0"))}),
    "folding": Classic(
        ("{[i0]: 0<=i0<n}", "[i0] -> {[j]: n-i0<=j<n}", "[i0,j] -> {[k]: n-1-i0<=k<j}"), """
        for i0, j
            w[n-1-i0,j] = w[n-i0,j-1] + e[n-1-i0,j] {id=P}
            for k
                w[n-1-i0,j] = max(w[n-1-i0,j], w[n-1-i0,k] + w[k+1,j]) {id=C}
            end
        end
        """, N, folding, {
            "rows in strips": (split("i0", 2),), "splits in strips": (split("k", 3),),
            "tiled": (split("i0", 2), split("j", 3), *order("i0_outer, j_outer, i0_inner, j_inner"))}),
    "matrix chain": Classic(
        ("{[w,i]: 1<=w<n and 0<=i<n-w}", "[w,i] -> {[k]: i<=k<i+w}"),
        "c[i,i+w] = min(k, c[i,k] + c[k+1,i+w] + p[i]*p[k+1]*p[i+w+1])", N, chain, {
            "in one block": (split("i", 16, None, "l.0"),), "splits over threads": (split("k", 4, None, "l.0"),),
            "widths in strips": (split("w", 2),), "starts by ilp": (split("i", 2, None, "ilp"),)}),
    "knapsack": Classic(
        ("{[i,w]: 1<=i<n and 0<=w<m}", "[i] -> {[u]: 2*i+1<=u<m}"), """
        for i
            for w
                f[i,w] = f[i-1,w]
            end
            for u
                f[i,u] = max(f[i,u], f[i-1,u-2*i-1] + v[i])
            end
        end
        """, NM, knapsack, {
            "in one block": (split("w", 16, None, "l.0"), split("u", 16, None, "l.0")),
            "weights in strips": (split("w", 4), split("u", 3))}),
    "Pascal's triangle": Classic(
        ("{[i]: 0<=i<n}", "[i] -> {[j]: 1<=j<i}"), """
        for i
            c[i,0] = 1
            c[i,i] = 1
            for j
                c[i,j] = c[i-1,j-1] + c[i-1,j]
            end
        end
        """, N, pascal, {
            "a row over threads": (split("j", 16, None, "l.0"),), "rows in strips": (split("i", 4),)}),
    "a recursive filter": Classic(
        ("{[i,j]: 0<=i<n and 2<=j<m}", "{[p,q]: 0<=p<n and 2<=q<m}"), """
        for i, j
            y[i,j] = x[i,j] - y[i,j-1] + y[i,j-2]
        end
        for p, q
            z[p,m-1-q] = y[p,m-1-q] - z[p,m-q]
        end
        """, NM[1:], filtered, {
            "rows over threads": (*threads("i"), *threads("p")), "columns first": (*swap("i", "j"), *swap("p", "q")),
            "tiled": (*tile(i=2, j=2), *tile(p=3, q=4))}),
    "Horner": Classic("{[i,k]: 0<=i<n and 0<=k<m}", """
        for i
            <> h = 0*x[i]
            for k
                h = h*x[i] + c[m-1-k]
            end
            y[i] = h
        end
        """, NM, horner, {
            "points over threads": threads("i"), "points over blocks": blocks("i"),
            "terms unrolled": (split("k", 2, None, "unr"),), "points by ilp": (split("i", 1, None, "unr"),)}),
    "the cheapest path": Classic(
        "{[i,j]: 1<=i<n and 1<=j<m-1}", "c[i,j] = g[i,j] + min(min(c[i-1,j-1], c[i-1,j]), c[i-1,j+1])", NM[1:],
        path_cost, {
            "a row over threads": (split("j", 16, None, "l.0"),), "rows in strips": (split("i", 2),),
            "a row by ilp": (split("j", 3, None, "ilp"),)}),
    "partitions": Classic(
        ("{[k]: 1<=k<m}", "[k] -> {[s]: k<=s<n}"), "for k, s\n p[s] = p[s] + p[s-k]\nend", NM, partitions, {
            "parts in strips": (split("k", 2),), "sums in strips": (split("s", 3),), "sums unrolled": (
                split("s", 2, None, "unr"),)}),
    "tridiagonal systems": Classic(
        ("{[i,s]: 1<=i<n and 0<=s<m}", "{[p,q]: 1<=p<n and 0<=q<m}"), """
        for i, s
            b[i,s] = b[i,s] - a[i,s]*c[i-1,s]
            d[i,s] = d[i,s] - a[i,s]*d[i-1,s]
        end
        for p, q
            d[n-1-p,q] = d[n-1-p,q] - c[n-1-p,q]*d[n-p,q]
        end
        """, NM, tridiagonal, {
            "one for each thread": (*threads("s"), *threads("q")), "systems first": (*swap("i", "s"), *swap("p", "q")),
            "tiled": (*tile(i=2, s=3), *tile(p=4, q=2))}),
}
