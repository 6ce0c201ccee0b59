"""Statements whose inames lie on one axis of the grid in different ways, with bounds that depend on sizes.

Each launch has as many blocks as the statement that needs most; the others are guarded. Where two statements of which
one needs the other lie on an axis in ways that cannot be compared, a launch ends between them.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

import loopkit as lk
from loopkit.verification.validation import validate
from tests.nvrtc import compile_cuda

F64 = np.float64
Arrays = Mapping[str, np.ndarray]


def made(domains: list[str], text: str, **arrays: tuple[object, ...]) -> lk.LoopKernel:
    data = [*(lk.GlobalArg(name, np.dtype(F64), shape) for name, shape in arrays.items()), "..."]
    return lk.make_kernel(domains, text, data, assumptions="n>=1 and m>=1" if "m" in "".join(domains) else "n>=1")


def gramschmidt() -> lk.LoopKernel:
    return made(["{[k]: 0<=k<n}", "[k] -> {[i]: 0<=i<m}", "[k] -> {[i1]: 0<=i1<m}", "[k] -> {[j]: k+1<=j<n}",
                 "[k, j] -> {[i2]: 0<=i2<m}", "[k, j] -> {[i3]: 0<=i3<m}"], """
        for k
            r[k,k] = sqrt(sum(i, a[i,k]*a[i,k])) {id=norm}
            for i1
                q[i1,k] = a[i1,k]/r[k,k] {id=column}
            end
            for j
                r[k,j] = sum(i2, q[i2,k]*a[i2,j]) {id=dot}
                for i3
                    a[i3,j] = a[i3,j] - q[i3,k]*r[k,j] {id=update}
                end
            end
        end
        """, a=("m", "n"), q=("m", "n"), r=("n", "n"))


def cholesky() -> lk.LoopKernel:
    return made(["{[k]: 0<=k<n}", "[k] -> {[i]: k+1<=i<n}", "[k] -> {[p, q]: k+1<=p<n and k+1<=q<=p}"], """
        for k
            a[k,k] = sqrt(a[k,k]) {id=root}
            for i
                a[i,k] = a[i,k]/a[k,k] {id=scale}
            end
            for p, q
                a[p,q] = a[p,q] - a[p,k]*a[q,k] {id=update}
            end
        end
        """, a=("n", "n"))


def lu() -> lk.LoopKernel:
    return made(["{[k]: 0<=k<n}", "[k] -> {[i]: k+1<=i<n}", "[k] -> {[p, q]: k+1<=p<n and k+1<=q<n}"], """
        for k
            for i
                a[i,k] = a[i,k]/a[k,k] {id=scale}
            end
            for p, q
                a[p,q] = a[p,q] - a[p,k]*a[k,q] {id=update}
            end
        end
        """, a=("n", "n"))


def trisolv() -> lk.LoopKernel:
    """The columns of the matrix are done one after the other."""
    return made(["{[k]: 0<=k<n}", "[k] -> {[c]: 0<=c<m}", "[k] -> {[i, d]: k+1<=i<n and 0<=d<m}"], """
        for k
            for c
                x[k,c] = x[k,c]/l[k,k] {id=solve}
            end
            for i, d
                x[i,d] = x[i,d] - l[i,k]*x[k,d] {id=update}
            end
        end
        """, x=("n", "m"), l=("n", "n"))


def correlation() -> lk.LoopKernel:
    return made(["{[j]: 0<=j<m}", "[j] -> {[i]: 0<=i<n}", "{[i1, j1]: 0<=i1<n and 0<=j1<m}",
                 "{[u, v]: 0<=u<m and 0<=v<m}", "[u, v] -> {[w]: 0<=w<n}"], """
        for j
            mean[j] = sum(i, a[i,j])/n {id=mean}
        end
        for i1, j1
            b[i1,j1] = a[i1,j1] - mean[j1] {id=center}
        end
        for u, v
            c[u,v] = sum(w, b[w,u]*b[w,v]) {id=product}
        end
        """, a=("n", "m"), b=("n", "m"), c=("m", "m"), mean=("m",))


def well_conditioned(rng: np.random.Generator, n: int, m: int) -> dict[str, dict[str, np.ndarray]]:
    square = rng.random((n, n)) + n*np.eye(n)
    return {
        "gramschmidt": {"a": rng.random((m, n)) + np.eye(m, n), "q": np.zeros((m, n)), "r": np.zeros((n, n))},
        "cholesky": {"a": square + square.T}, "lu": {"a": square},
        "trisolv": {"l": np.tril(square), "x": rng.random((n, m))},
        "correlation": {"a": rng.random((n, m)), "b": np.zeros((n, m)), "c": np.zeros((m, m)), "mean": np.zeros(m)}}


def triangle(a: np.ndarray) -> np.ndarray:
    return np.tril(np.linalg.cholesky(np.tril(a) + np.tril(a, -1).T)) + np.triu(a, 1)


def factors(a: np.ndarray) -> np.ndarray:
    result = a.copy()
    for k in range(len(a)):
        result[k+1:, k] /= result[k, k]
        result[k+1:, k+1:] -= np.outer(result[k+1:, k], result[k, k+1:])
    return result


#: The kernel, the result that numpy has too, and how its inames lie on the grid.
KERNELS: Mapping[str, tuple[Callable[[], lk.LoopKernel], Callable[[Arrays], Mapping[str, np.ndarray]],
                            tuple[Mapping[str, str], ...]]] = {
    "gramschmidt": (gramschmidt, lambda x: {"a": x["a"]}, (
        {"i1": "g.0", "j": "g.0"}, {"i1": "g.0", "j": "g.0", "i3": "g.1"}, {"i1": "g.0", "j": "g.0", "i3": "g.0"})),
    "cholesky": (cholesky, lambda x: {"a": triangle(x["a"])}, (
        {"i": "g.0", "p": "g.0"}, {"i": "g.0", "p": "g.0", "q": "g.1"}, {"i": "g.0", "p": "g.0", "q": "g.0"},
        {"i": "g.0", "q": "g.0"})),
    "lu": (lu, lambda x: {"a": factors(x["a"])}, (
        {"i": "g.0", "q": "g.0"}, {"i": "g.0", "p": "g.0", "q": "g.0"}, {"i": "g.0", "p": "g.1", "q": "g.0"})),
    "trisolv": (trisolv, lambda x: {"x": np.linalg.solve(x["l"], x["x"])}, (
        {"c": "g.0", "i": "g.0"}, {"c": "g.0", "i": "g.0", "d": "g.0"}, {"c": "g.0", "d": "g.0"})),
    "correlation": (correlation, lambda x: {"c": (x["a"] - x["a"].mean(0)).T @ (x["a"] - x["a"].mean(0))}, (
        {"j": "g.0", "i1": "g.0", "u": "g.0"}, {"j": "g.0", "i1": "g.0", "j1": "g.0", "u": "g.0", "v": "g.0"},
        {"j": "g.0", "j1": "g.0", "u": "g.0", "v": "g.1"}))}
CASES = [(name, i) for name, (_, _, tags) in KERNELS.items() for i in range(len(tags))]


@pytest.mark.deep
@pytest.mark.parametrize(("name", "number"), CASES)
def test_ranges_that_differ_share_an_axis(name: str, number: int) -> None:
    make, expected, tags = KERNELS[name]
    plain, knl = make(), lk.tag_inames(make(), dict(tags[number]))
    report = lk.verify(knl)
    assert report.ok, str(report)
    lowered = lk.lower(knl)
    assert validate(lowered) == ()
    for n, m in ((1, 1), (4, 6), (7, 3)):
        if name == "gramschmidt" and m < n:
            continue                            # the columns would depend on one another
        arrays = well_conditioned(np.random.default_rng(n), n, m)[name]
        first, second = ({k: v.copy() for k, v in arrays.items()} for _ in range(2))
        plain(**first)
        knl(**second)
        for array in first:
            np.testing.assert_allclose(second[array], first[array], rtol=1e-12, atol=1e-12)
        for array, value in expected({**arrays, **({"a": first["a"]} if name == "gramschmidt" else {})}).items():
            np.testing.assert_allclose(second[array], value, rtol=1e-9, atol=1e-9)


@pytest.mark.optimised
@pytest.mark.parametrize(("name", "number"), CASES)
def test_cuda_text_compiles(name: str, number: int) -> None:
    make, _, tags = KERNELS[name]
    compile_cuda(lk.generate_code(lk.tag_inames(make(), dict(tags[number])), target="cuda").source)


@pytest.mark.deep
def test_one_launch_takes_the_larger_extent() -> None:
    """Two statements that need nothing of each other."""
    plain = made(["{[i]: 0<=i<n}", "{[j]: 0<=j<m}"], """
        for i
            y[i] = 2*x[i]
        end
        for j
            z[j] = x[0] + j
        end
        """, x=("n",), y=("n",), z=("m",))
    knl = lk.tag_inames(plain, {"i": "g.0", "j": "g.0"})
    assert "grid (Max((n, m)), 1, 1)" in str(lk.lower(knl, stop="binding")).replace("max(n, m)", "Max((n, m))")
    for n, m in ((5, 2), (2, 5), (3, 3)):
        x, y, z = np.arange(float(n)), np.zeros(n), np.zeros(m)
        knl(x=x, y=y, z=z)
        np.testing.assert_array_equal(y, 2*x)
        np.testing.assert_array_equal(z, np.arange(float(m)))


@pytest.mark.deep(every=9)
@pytest.mark.parametrize("inner", ["0<=k<2", "0<=k<l", "m<=k<m+2"])
@pytest.mark.parametrize(("outer", "length"), [("m<=i<=n", 2), ("m<=i<=n", 3), ("m-1<=i<n and i mod 2 = 0", 2)])
def test_the_extent_counts_from_where_places_do(outer: str, inner: str, length: int) -> None:
    """In an iteration *i_inner* of the host the blocks begin at a later ``i_outer``; places count from the first."""
    def nest() -> lk.LoopKernel:
        knl = lk.make_kernel([f"{{[i]: {outer}}}", "{[j]: 0<=j<n}", f"{{[k]: {inner}}}"], """
            for i
                for j
                    <> t = x[j] + 1
                    for k
                        c[i, 10*k + j] = i + t
                    end
                end
            end
            """, [lk.GlobalArg("x", F64, ("n",)), lk.GlobalArg("c", F64, ("n + 1", "100")), "..."],
            assumptions="m>=1 and n>=1 and n<=8 and m<=5")
        return lk.assume(knl, "l>=0 and l<=3") if "l" in inner else knl
    knl = lk.split_iname(lk.tag_inames(nest(), {"k": "g.0"}), "i", length, outer_tag="g.0")
    lowered = lk.lower(knl)
    assert any(len(launch.mapping.coordinates) == 2 and launch.hosts for launch in lowered.launches)
    assert validate(lowered) == ()
    for n, m in ((2, 1), (5, 3), (4, 1), (3, 3), (2, 5)):
        values = {"n": n, "m": m} | ({"l": 3} if "l" in inner else {})
        first, second = np.zeros((n + 1, 100)), np.zeros((n + 1, 100))
        nest()(x=np.arange(float(n)), c=first, **values)
        knl(x=np.arange(float(n)), c=second, **values)
        np.testing.assert_array_equal(second, first)


@pytest.mark.deep
@pytest.mark.parametrize("most", [2, 3, 5])
def test_a_part_with_a_length_in_each_launch_only(most: int) -> None:
    """The host's loop over *j_inner* leaves few values to ``k_outer``, of which the whole kernel has as many as n."""
    def nest() -> lk.LoopKernel:
        return lk.make_kernel(["{[j]: m<=j<=n}", "[j] -> {[k]: j<=k<n}"], f"""
            for j
                <> t = x[j] + 1
                for k
                    c[j, k] = j + t {{if=k < {most}}}
                end
            end
            """, [lk.GlobalArg("x", F64, ("n + 1",)), lk.GlobalArg("c", F64, ("n + 1", "n + 1")), "..."],
            assumptions="m>=0 and n>=0")
    knl = lk.split_iname(lk.split_iname(nest(), "j", 2, outer_tag="g.0"), "k", 2, outer_tag="g.0")
    lowered = lk.lower(knl)
    assert validate(lowered) == ()
    for n, m in ((1, 0), (5, 1), (4, 4), (6, 0), (2, 5)):
        first, second = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1))
        nest()(x=np.arange(n + 1.0), c=first, n=n, m=m)
        knl(x=np.arange(n + 1.0), c=second, n=n, m=m)
        np.testing.assert_array_equal(second, first)


def test_the_same_inames_on_an_axis_of_the_block() -> None:
    lowered = lk.lower(lk.tag_inames(gramschmidt(), {"i1": "l.0", "j": "l.0"}))
    assert "block (max(1, m, n - 1), 1, 1)" in str(lk.generate_code(lowered.kernel).kernels[0])
    assert validate(lowered) == ()
