"""Classic nests of linear algebra."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.legality.classics import Classic, blocks, fetch, order, split, swap, threads, tile
from tests.legality.pairs import step

NML = ({"n": 1, "m": 1, "l": 1}, {"n": 5, "m": 7, "l": 6}, {"n": 9, "m": 4, "l": 13})
NM = ({"n": 1, "m": 1}, {"n": 5, "m": 7}, {"n": 10, "m": 9})
N = ({"n": 1}, {"n": 2}, {"n": 9})


# Numpy's answers

def gemm(a: Any, b: Any, c: Any, **_: int) -> None:
    c[:] = 3*c + 2*a @ b


def gemm_update(a: Any, b: Any, c: Any, **_: int) -> None:
    c += a @ b


def gemv(a: Any, x: Any, y: Any, **_: int) -> None:
    y[:] = a @ x


def gesummv(a: Any, b: Any, x: Any, y: Any, **_: int) -> None:
    y[:] = 2*a @ x + 3*b @ x


def gemver(a: Any, u: Any, v: Any, x: Any, y: Any, w: Any, **_: int) -> None:
    a += np.outer(u, v)
    x += a.T @ y
    w[:] = a @ x


def syrk(a: Any, c: Any, **_: int) -> None:
    c += np.tril(a @ a.T)


def syr2k(a: Any, b: Any, c: Any, **_: int) -> None:
    c += np.tril(a @ b.T + b @ a.T)


def symm(a: Any, b: Any, c: Any, **_: int) -> None:
    c[:] = (np.tril(a) + np.tril(a, -1).T) @ b


def trmm(a: Any, b: Any, n: int, **_: int) -> None:
    for i in range(n - 1):
        b[i] += a[i+1:n, i] @ b[i+1:n]


def solve_lower(l: Any, x: Any, n: int) -> None:                      # noqa: E741
    for i in range(n):
        x[i] = (x[i] - l[i, :i] @ x[:i]) / l[i, i]


def solve_upper(u: Any, x: Any, n: int) -> None:
    for i in reversed(range(n)):
        x[i] = (x[i] - u[i, i+1:n] @ x[i+1:n]) / u[i, i]


def solve_many(l: Any, x: Any, n: int, m: int) -> None:                # noqa: E741
    for c in range(m):
        solve_lower(l, x[:, c], n)


def cholesky(a: Any, n: int) -> None:
    a[np.tril_indices(n)] = np.linalg.cholesky(np.tril(a) + np.tril(a, -1).T)[np.tril_indices(n)]


def lu(a: Any, n: int) -> None:
    for k in range(n):
        a[k+1:, k] /= a[k, k]
        a[k+1:, k+1:] -= np.outer(a[k+1:, k], a[k, k+1:])


def gram_schmidt(a: Any, q: Any, r: Any, n: int, **_: int) -> None:
    for k in range(n):
        r[k, k] = np.sqrt(a[:, k] @ a[:, k])
        q[:, k] = a[:, k] / r[k, k]
        for j in range(k + 1, n):
            r[k, j] = q[:, k] @ a[:, j]
            a[:, j] -= q[:, k] * r[k, j]


def two_products(a: Any, b: Any, c: Any, d: Any, t: Any, **_: int) -> None:
    t[:] = a @ b
    d[:] = 2*d + t @ c


def three_products(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, **_: int) -> None:
    e[:], f[:] = a @ b, c @ d
    g[:] = e @ f


def atax(a: Any, x: Any, y: Any, t: Any, **_: int) -> None:
    t[:] = a @ x
    y[:] = a.T @ t


def bicg(a: Any, d: Any, r: Any, q: Any, s: Any, **_: int) -> None:
    q[:], s[:] = a @ d, a.T @ r


def mvt(a: Any, x: Any, y: Any, u: Any, v: Any, **_: int) -> None:
    x += a @ u
    y += a.T @ v


def doitgen(a: Any, b: Any, l: int, **_: int) -> None:                # noqa: E741
    a[:] = a @ b


def transposition(a: Any, b: Any, **_: int) -> None:
    b[:] = a.T


def turned_in_place(a: Any, n: int) -> None:
    a[:] = a.T


def covariance(x: Any, mean: Any, cov: Any, n: int, m: int) -> None:
    mean[:] = x.mean(axis=0)
    x -= mean
    cov[:] = x.T @ x / n


def correlation(x: Any, mean: Any, dev: Any, corr: Any, n: int, m: int) -> None:
    mean[:] = x.mean(axis=0)
    dev[:] = np.sqrt(((x - mean)**2).mean(axis=0)) + 1
    corr[:] = ((x - mean)/dev).T @ ((x - mean)/dev) / n


def outer_product(a: Any, u: Any, v: Any, **_: int) -> None:
    a += np.outer(u, v)


def kronecker(a: Any, b: Any, c: Any, n: int) -> None:
    for i, j, k, q in np.ndindex(n, n, 3, 2):
        c[3*i + k, 2*j + q] = a[i, j] * b[k, q]


IJK = "{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<l}"
IJ = "{[i,j]: 0<=i<n and 0<=j<m}"

LINEAR_ALGEBRA: Mapping[str, Classic] = {
    "gemm": Classic(
        IJK, "c[i,j] = 3*c[i,j] + 2*sum(k, a[i,k]*b[k,j])", NML, gemm, {
            "columns first": swap("i", "j"), "tiled": tile(i=3, j=2), "rows over blocks": blocks("i"),
            "points over blocks": blocks("i", "j"), "points over threads": threads("i", "j"),
            "transposed threads": threads("j", "i"),
            "with tiles in shared memory": (
                *threads("i", "j"), split("k", 4), *fetch("a", "i_inner", "k_inner"),
                *fetch("b", "k_inner", "j_inner")),
            "register blocked": (split("i", 4, "g.0"), split("i_inner", 2, "l.0", "unr"), split("j", 2, None, "unr"),
                                 *order("j_outer, i_inner_inner, j_inner")),
            "terms unrolled": (split("k", 4, None, "unr"),), "terms by ilp": (split("k", 4, None, "ilp"),),
            "terms over threads": (*blocks("i", "j"), split("k", 8, None, "l.0"))}),
    "gemm as an update": Classic(
        IJK, "c[i,j] = c[i,j] + a[i,k]*b[k,j]", NML, gemm_update, {
            **{f"order {o}": order(o) for o in ("i, k, j", "j, i, k", "j, k, i", "k, i, j", "k, j, i")},
            "tiled": tile(i=2, j=3, k=4), "tiles of terms outside": (split("k", 4), *order("k_outer, i, j, k_inner")),
            "points over threads": threads("i", "j"), "rows over threads, terms unrolled": (
                *threads("i"), split("k", 4, None, "unr")), "columns by ilp": (split("j", 4, None, "ilp"),)}),
    "gemv": Classic(IJ, "y[i] = sum(j, a[i,j]*x[j])", NM, gemv, {
        "rows over threads": threads("i"), "a row over threads": (*blocks("i"), split("j", 8, None, "l.0")),
        "two lanes": (split("j", 2, None, "unr"),),
        "x in shared memory": (*threads("i"), split("j", 8), *fetch("x", "j_inner"))}),
    "gesummv": Classic(
        "{[i,j,k]: 0<=i<n and 0<=j,k<m}", "y[i] = 2*sum(j, a[i,j]*x[j]) + 3*sum(k, b[i,k]*x[k])", NM, gesummv, {
            "rows over threads": threads("i"), "tiles of rows": (split("i", 3),),
            "both rows over threads": (*blocks("i"), split("j", 4, None, "l.0"), split("k", 4, None, "l.0"))}),
    "gemver": Classic(
        ("{[i,j]: 0<=i,j<n}", "{[p,q]: 0<=p,q<n}", "{[r,s]: 0<=r,s<n}"), """
        for i, j
            a[i,j] = a[i,j] + u[i]*v[j]
        end
        for p
            x[p] = x[p] + sum(q, a[q,p]*y[q])
        end
        for r
            w[r] = sum(s, a[r,s]*x[s])
        end
        """, N, gemver, {
            "three launches": (*threads("i", "j"), *threads("p"), *threads("r")),
            "columns first": swap("i", "j"), "tiled": tile(i=2, j=4)}),
    "syrk": Classic(
        "{[i,j,k]: 0<=j<=i<n and 0<=k<m}", "c[i,j] = c[i,j] + sum(k, a[i,k]*a[j,k])", NM, syrk, {
            "columns first": swap("i", "j"), "tiled": tile(i=2, j=3), "points over threads": threads("i", "j"),
            "rows over blocks": blocks("i"), "columns over blocks": blocks("j")}),
    "syr2k": Classic(
        "{[i,j,k]: 0<=j<=i<n and 0<=k<m}", "c[i,j] = c[i,j] + a[i,k]*b[j,k] + b[i,k]*a[j,k]", NM, syr2k, {
            "terms outermost": order("k, i, j"), "tiled": tile(i=2, j=3, k=4),
            "points over threads": threads("i", "j")}),
    "symm": Classic(
        ("{[i,j]: 0<=i<n and 0<=j<m}", "[i] -> {[k]: 0<=k<=i}", "[i] -> {[q]: i<q<n}"),
        "c[i,j] = sum(k, a[i,k]*b[k,j]) + sum(q, a[q,i]*b[q,j])", NM, symm, {
            "points over threads": threads("i", "j"), "columns first": swap("i", "j"), "tiled": tile(i=4, j=2)}),
    "trmm": Classic(
        ("{[i,j]: 0<=i<n and 0<=j<m}", "[i] -> {[k]: i<k<n}"),
        "b[i,j] = b[i,j] + sum(k, a[k,i]*b[k,j])", NM[1:], trmm, {
            "columns over blocks": blocks("j"), "columns over threads": threads("j"), "columns first": swap("i", "j"),
            "tiled": tile(i=2, j=2)}),
    "forward substitution": Classic(
        ("{[i]: 0<=i<n}", "[i] -> {[j]: 0<=j<i}"), "x[i] = (x[i] - sum(j, l[i,j]*x[j])) / l[i,i]", N, solve_lower, {
            "rows in strips": (split("i", 3),), "a row over threads": (split("j", 4, None, "l.0"),),
            "a row unrolled": (split("j", 2, None, "unr"),)}, dominant=("l",)),
    "forward substitution by columns": Classic(
        ("{[j]: 0<=j<n}", "[j] -> {[i]: j<i<n}"), """
        for j
            x[j] = x[j] / l[j,j] {id=D}
            for i
                x[i] = x[i] - l[i,j]*x[j] {id=U}
            end
        end
        """, N, solve_lower, {
            "columns in strips": (split("j", 2),), "a column over threads": (split("i", 32, None, "l.0"),),
            "a column by ilp": (split("i", 4, None, "ilp"),)}, dominant=("l",)),
    "backward substitution": Classic(
        ("{[i]: 0<=i<n}", "[i] -> {[j]: n-i<=j<n}"),
        "x[n-1-i] = (x[n-1-i] - sum(j, u[n-1-i,j]*x[j])) / u[n-1-i,n-1-i]", N, solve_upper, {
            "rows in strips": (split("i", 3),), "a row over threads": (split("j", 4, None, "l.0"),)},
        dominant=("u",)),
    "many forward substitutions": Classic(
        ("{[c,i]: 0<=c<m and 0<=i<n}", "[i] -> {[j]: 0<=j<i}"),
        "for c, i\n x[i,c] = (x[i,c] - sum(j, l[i,j]*x[j,c])) / l[i,i]\nend", NM, solve_many, {
            "one for each thread": threads("c"), "rows first": swap("c", "i"),
            "rows first, one for each thread": (*swap("c", "i"), *threads("c")), "tiled": tile(c=2, i=3)},
        dominant=("l",)),
    "cholesky": Classic(
        ("{[k]: 0<=k<n}", "[k] -> {[i]: k<i<n}", "[k] -> {[p,q]: k<q<=p<n}"), """
        for k
            a[k,k] = sqrt(a[k,k]) {id=D}
            for i
                a[i,k] = a[i,k] / a[k,k] {id=C}
            end
            for p, q
                a[p,q] = a[p,q] - a[p,k]*a[q,k] {id=U}
            end
        end
        """, N, cholesky, {
            "update by columns": swap("p", "q"), "update tiled": tile(p=2, q=3),
            "a column over threads": (split("i", 32, None, "l.0"),),
            "update over threads": (split("i", 32, None, "l.0"), split("q", 32, None, "l.0"))}, dominant=("a",)),
    "LU": Classic(
        ("{[k]: 0<=k<n}", "[k] -> {[i]: k<i<n}", "[k] -> {[p,q]: k<p<n and k<q<n}"), """
        for k
            for i
                a[i,k] = a[i,k] / a[k,k] {id=C}
            end
            for p, q
                a[p,q] = a[p,q] - a[p,k]*a[k,q] {id=U}
            end
        end
        """, N, lu, {
            "update by columns": swap("p", "q"), "update tiled": tile(p=2, q=3),
            "in one block": (split("i", 32, None, "l.0"), split("q", 32, None, "l.0"))}, dominant=("a",)),
    "Gram-Schmidt": Classic(
        ("{[k]: 0<=k<n}", "{[i,u,s,v]: 0<=i,u,s,v<m}", "[k] -> {[j]: k<j<n}"), """
        for k
            r[k,k] = sqrt(sum(i, a[i,k]*a[i,k])) {id=N}
            for u
                q[u,k] = a[u,k] / r[k,k] {id=Q}
            end
            for j
                r[k,j] = sum(s, q[s,k]*a[s,j]) {id=P}
                for v
                    a[v,j] = a[v,j] - q[v,k]*r[k,j] {id=U}
                end
            end
        end
        """, ({"n": 1, "m": 1}, {"n": 2, "m": 3}, {"n": 4, "m": 8}), gram_schmidt, {
            "columns over threads": (split("j", 16, None, "l.0"),),
            "rows over threads": (split("u", 8, None, "l.0"), split("v", 8, None, "l.0")),
            "sums over threads": (split("i", 8, None, "l.0"), split("s", 8, None, "l.0")),
            "rows in strips": (split("v", 2),)}, dominant=("a",)),
    "two products": Classic(
        ("{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<l}", "{[p,q,r]: 0<=p<n and 0<=q<l and 0<=r<m}"), """
        for i, j
            t[i,j] = sum(k, a[i,k]*b[k,j])
        end
        for p, q
            d[p,q] = 2*d[p,q] + sum(r, t[p,r]*c[r,q])
        end
        """, NML, two_products, {
            "two launches": (*threads("i", "j"), *threads("p", "q")),
            "columns first": (*swap("i", "j"), *swap("p", "q")), "both tiled": (*tile(i=2, j=3), *tile(p=3, q=2)),
            "rows over blocks": (*blocks("i"), *blocks("p"))}),
    "three products": Classic(
        ("{[i,j,k]: 0<=i,j,k<n}", "{[p,q,r]: 0<=p,q,r<n}", "{[s,t,u]: 0<=s,t,u<n}"), """
        for i, j
            e[i,j] = sum(k, a[i,k]*b[k,j])
        end
        for p, q
            f[p,q] = sum(r, c[p,r]*d[r,q])
        end
        for s, t
            g[s,t] = sum(u, e[s,u]*f[u,t])
        end
        """, N, three_products, {
            "over threads": (*threads("i", "j"), *threads("p", "q"), *threads("s", "t")),
            "last columns first": swap("s", "t"), "last tiled": tile(s=4, t=2)}),
    "atax": Classic(
        ("{[i,j]: 0<=i<n and 0<=j<m}", "{[p,q]: 0<=p<m and 0<=q<n}"),
        "t[i] = sum(j, a[i,j]*x[j])\ny[p] = sum(q, a[q,p]*t[q])", NM, atax, {
            "two launches": (*threads("i"), *threads("p")), "t in shared memory": (
                *threads("i"), *threads("p"), split("q", 4), *fetch("t", "q_inner"))}),
    "bicg": Classic(
        ("{[i,j]: 0<=i<n and 0<=j<m}", "{[p,t]: 0<=p<m and 0<=t<n}"),
        "q[i] = sum(j, a[i,j]*d[j])\ns[p] = sum(t, a[t,p]*r[t])", NM, bicg, {
            "both over threads": (*threads("i"), *threads("p")), "in strips": (split("i", 2), split("p", 3))}),
    "mvt": Classic(
        ("{[i,j]: 0<=i,j<n}", "{[p,q]: 0<=p,q<n}"), """
        for i, j
            x[i] = x[i] + a[i,j]*u[j]
        end
        for p, q
            y[p] = y[p] + a[q,p]*v[q]
        end
        """, N, mvt, {
            "rows over threads": (*threads("i"), *threads("p")), "terms outermost": (*swap("i", "j"), *swap("p", "q")),
            "tiled": (*tile(i=2, j=2), *tile(p=3, q=4))}),
    "doitgen": Classic(
        ("{[r,q,p]: 0<=r<n and 0<=q<m and 0<=p<l}", "{[s]: 0<=s<l}", "{[p2]: 0<=p2<l}"), """
        for r, q
            for p
                t[r,q,p] = sum(s, a[r,q,s]*b[s,p])
            end
            for p2
                a[r,q,p2] = t[r,q,p2]
            end
        end
        """, NML, doitgen, {
            "matrices over blocks": blocks("r", "q"), "vectors over threads": threads("r", "q"),
            "second axis first": swap("r", "q"), "tiled": tile(r=2, q=2),
            "a matrix over threads": (*blocks("r", "q"), split("p", 32, None, "l.0"), split("p2", 32, None, "l.0"))},
        temporaries=("t",)),
    "transposition": Classic(IJ, "b[j,i] = a[i,j]", NM, transposition, {
        "columns first": swap("i", "j"), "tiled": tile(i=4, j=4), "points over threads": threads("i", "j"),
        "through shared memory": (split("i", 4, "g.1", "l.0"), split("j", 4, "g.0", "l.1"),
                                  *fetch("a", "i_inner", "j_inner"))}),
    "transposition in place": Classic("{[i,j]: 0<=j<i<n}", """
        for i, j
            <> t = a[i,j]
            a[i,j] = a[j,i]
            a[j,i] = t
        end
        """, N, turned_in_place, {
            "rows over blocks": blocks("i"), "columns over blocks": blocks("j"),
            "points over threads": threads("i", "j"), "columns first": swap("i", "j"), "tiled": tile(i=2, j=3)}),
    "outer product": Classic(IJ, "a[i,j] = a[i,j] + u[i]*v[j]", NM, outer_product, {
        "columns first": swap("i", "j"), "tiled": tile(i=2, j=5), "points over threads": threads("i", "j"),
        "vectors in shared memory": (*threads("i", "j"), *fetch("u", "i_inner"), *fetch("v", "j_inner")),
        "columns by ilp": (split("j", 2, None, "ilp"),)}),
    "Kronecker product": Classic(
        "{[i,j,k,q]: 0<=i,j<n and 0<=k<3 and 0<=q<2}", "c[3*i+k,2*j+q] = a[i,j]*b[k,q]", N, kronecker, {
            "blocks of one factor": (*blocks("i", "j"), step("tag_inames", "k:l.1, q:l.0")),
            "small axes first": order("k, q, i, j"), "tiled": tile(i=2, j=2)}),
    "covariance": Classic(
        ("{[i,j]: 0<=i<n and 0<=j<m}", "{[p,q]: 0<=p<n and 0<=q<m}", "{[r,s,t]: 0<=r,s<m and 0<=t<n}"), """
        for j
            mean[j] = sum(i, x[i,j]) / n
        end
        for p, q
            x[p,q] = x[p,q] - mean[q]
        end
        for r, s
            cov[r,s] = sum(t, x[t,r]*x[t,s]) / n
        end
        """, NM, covariance, {
            "over threads": (*threads("j"), *threads("p", "q"), *threads("r", "s")),
            "columns first": (*swap("p", "q"), *swap("r", "s")), "tiled": (*tile(p=2, q=3), *tile(r=2, s=2))}),
    "correlation": Classic(
        ("{[i,p,j,q]: 0<=i,p<n and 0<=j,q<m}", "{[r,s,t]: 0<=r,s<m and 0<=t<n}"), """
        for j
            mean[j] = sum(i, x[i,j]) / n
        end
        for q
            dev[q] = sqrt(sum(p, (x[p,q] - mean[q])*(x[p,q] - mean[q])) / n) + 1
        end
        for r, s
            corr[r,s] = sum(t, (x[t,r] - mean[r])/dev[r]*((x[t,s] - mean[s])/dev[s])) / n
        end
        """, NM, correlation, {
            "over threads": (*threads("j"), *threads("q"), *threads("r", "s")), "columns first": swap("r", "s")}),
}
