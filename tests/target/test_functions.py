"""Calls in generated text: functions in the names of their arguments, and calls that stay in the text."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from tests.golden_files import GoldenFiles
from tests.nvrtc import compile_cuda


def several_calls() -> lk.LoopKernel:
    """Rows, columns, strides, gathered slices, a function in a function, values of the caller under other names."""
    scale = lk.make_function("{[i]: 0<=i<n}", "b[i] = s*a[i]", name="scale")
    total = lk.make_function(
        "{[i, k]: 0<=i<4 and 0<=k<n}",
        "<> part[i] = sum(k, a[i, k])\nfor i\nb[i] = part[i] + part[3 - i]\nend", name="total")
    both = lk.make_function("{[i]: 0<=i<n}", "a[:] = scale(a[:], n, 0.5)\nc[i] = 2*a[i]", name="both",
                            functions=[scale])
    knl = lk.make_kernel(
        "{[r, q, h]: 0<=r<4 and 0<=q<n and 0<=h<k}",
        """
        for r
            <> t = x[r, 0]
            y[r, :] = scale(x[r, :], n, t)
            z[:, r] = scale(y[r, :], n, 2)
            [q]: z[q, 4 + r] = scale([q]: x[r, n - 1 - q], n, t)
            [q]: w[r, at[q]] = scale([q]: x[r, q], n, 2)
        end
        [h]: e[h] = scale([h]: even[2*h, 1], k, 2)
        u[:] = total(x[:, :], n)
        y[0, :], v[:] = both(y[0, :], n)
        """, [lk.GlobalArg("x, y, w", np.float64, ("4", "n")), lk.GlobalArg("z", np.float64, ("n", 8)),
              lk.GlobalArg("at", np.int32, ("n",)), lk.GlobalArg("even", np.float64, ("2*k", "k")), "..."],
        name="several_calls", functions=[scale, total, both], assumptions="n>=1 and k>=2")
    return lk.add_dtypes(knl, {"u,v,e": np.float64})


def expected(x: np.ndarray, at: np.ndarray, even: np.ndarray) -> dict[str, np.ndarray]:
    y = x * x[:, :1]
    z = np.concatenate([2*y.T, (x[:, ::-1] * x[:, :1]).T], axis=1)
    w = np.zeros_like(x)
    w[:, at] = 2*x
    part = x.sum(1)
    y = np.concatenate([y[:1] / 2, y[1:]])
    return {"y": y, "z": z, "w": w, "u": part + part[::-1], "v": 2*y[0], "e": 2*even[::2, 1]}


def test_results_are_those_of_numpy() -> None:
    rng, at = np.random.default_rng(0), np.array([3, 1, 0, 4, 2], np.int32)
    x, even = rng.normal(size=(4, 5)), rng.normal(size=(6, 3))
    found = lk.compile(several_calls(), target="c")(x=x, at=at, even=even, w=np.zeros_like(x))
    for name, values in expected(x, at, even).items():
        np.testing.assert_allclose(getattr(found, name), values, rtol=1e-13, err_msg=name)


@pytest.mark.parametrize("target", ["c", "cuda"])
def test_texts(golden: GoldenFiles, target: str) -> None:
    knl = several_calls()
    if target == "cuda":
        knl = lk.tag_inames(knl, "r:g.0")
    code = lk.generate_code(knl, target=target)
    golden.check(f"functions.{'c' if target == 'c' else 'cu'}", code)
    if target == "cuda":
        compile_cuda(str(code))


def test_equal_functions_are_written_once() -> None:
    scale = lk.make_function("{[i]: 0<=i<n}", "b[i] = s*a[i]", name="scale")
    knl = lk.make_kernel("{[r, i]: 0<=r<m and 0<=i<k}", "y[r, :] = scale(x[r, :], k, 2)\nz[:] = scale(x[0, :], k, 2)\n"
                         "u[i] = 0", [lk.GlobalArg("x, y", np.float64, ("m", "k")), "..."], functions=[scale])
    knl = lk.assume(lk.add_dtypes(knl, {"z": np.float64}), "m>=1")
    code = str(lk.generate_code(knl, target="c"))
    assert code.count("static void scale") == 1
    assert "scale(&y[r*k], &x[r*k], k);" in code
    assert "scale(z, x, k);" in code
    inlined = str(lk.generate_code(lk.inline_callable_kernel(knl, "scale", within="writes:z"), target="c"))
    assert "scale(z, x, k);" not in inlined
    assert "scale(&y[r*k], &x[r*k], k);" in inlined


def with_barrier() -> lk.LoopKernel:
    """A function whose threads share values."""
    f = lk.make_function("{[i]: 0<=i<8}", "<> t[i] = a[i]\nfor i\nb[i] = t[7 - i]\nend", name="f")
    f = lk.tag_inames(lk.set_temporary_address_space(f, "t", "shared"), "i:l.0")
    return lk.add_dtypes(lk.make_kernel("{[r]: 0<=r<m}", "y[r, :] = f(x[r, :])", functions=[f]), {"x": np.float32})


def test_calls_that_stay_in_the_text() -> None:
    """With a barrier inside on the host, and in a text with bounds checks, there is a comment and no function."""
    knl = with_barrier()
    for code in (lk.generate_code(knl, target="c"), lk.generate_code(knl, target=lk.CTarget(check_bounds=True))):
        assert "// y[r, :] = f(x[r, :])" in str(code)
        assert "void f(" not in str(code)


def test_a_loop_of_the_call_inside_of_the_function() -> None:
    """After the interchange no part of the text is one call."""
    add = lk.make_function("{[i]: 0<=i<n}", "b[i] = b[i] + a[i]", name="add")
    knl = lk.make_kernel("{[r]: 0<=r<m}", "y[r, :] = add(x[r, :], y[r, :], n)", functions=[add])
    knl = lk.interchange(lk.add_dtypes(knl, {"x,y": np.float32}), "r", "i")
    assert "void add(" not in str(lk.generate_code(knl, target="c"))


def test_a_function_with_a_barrier(golden: GoldenFiles) -> None:
    code = lk.generate_code(with_barrier(), target="cuda")
    golden.check("function_with_barrier.cu", code)
    compile_cuda(str(code))


def test_a_constant_of_a_function_that_two_versions_of_its_loop_use() -> None:
    weights = lk.TemporaryVariable("w", initializer=np.array([1., 2., 3.]), read_only=True)
    weighted = lk.make_function("{[q, r]: 0<=q<n and 0<=r<3}", "d[q] = sum(r, u[q]*w[r])", ["d", "u", "n", weights],
                                name="weighted")
    knl = lk.make_kernel("{[i, j]: 0<=i<m and 0<=j<n}", "y[i, :] = weighted(p[i, :], n)\nz[i, j] = y[i, n - 1 - j]",
                         functions=[weighted])
    knl = lk.split_iname(lk.interchange(knl, "r", "q"), "i", 2, inner_tag="l.0")
    text = str(lk.generate_code(lk.add_dtypes(knl, {"p": np.float64}), target="cuda"))
    # in the function for full tiles, and in the kernel for the others
    assert text.count("static __constant__ const double w[3] = {1.0, 2.0, 3.0};") == 2
    p = np.arange(15.).reshape(5, 3)
    outputs = lk.compile(knl, target="c")(p=p)
    np.testing.assert_array_equal(outputs.y, 6*p)
    np.testing.assert_array_equal(outputs.z, 6*p[:, ::-1])
