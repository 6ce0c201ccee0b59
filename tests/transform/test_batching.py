"""A loop over batches around a kernel, and temporaries put one behind the other."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.dependences import dependences

SQUARE = "{[i, j]: 0<=i,j<n}"


TWO = "<> p[i] = x[i]\n<> s[i] = x[i]\n"


def product(**options: Any) -> lk.LoopKernel:
    return lk.add_dtypes(lk.make_kernel(SQUARE, """
        twice(u) := 2*u + x[0]
        <> t = alpha*sum(j, a[i, j]*x[j])  {id=row}
        y[i] = twice(t)  {id=out, if=t > 0}
        """, **options), {"x,a,alpha": np.float64})


def test_each_batch_computes_what_the_kernel_computes() -> None:
    """For arrays, a number, a rule, a reduction and a condition, in a mapped kernel."""
    knl = lk.split_iname(product(), "i", 2, outer_tag="g.0", inner_tag="l.0")
    batched = lk.to_batched(knl, "m", "x, y, alpha")
    assert [a.name for a in batched.arguments] == ["m", "a", "alpha", "n", "x", "y"]
    assert [s.verdict for s in batched.history][-1] == "defined"
    rng = np.random.default_rng(1)
    a, x, alpha = (rng.integers(-3, 4, shape).astype(np.float64) for shape in ((3, 3), (4, 3), 4))
    y = np.full((4, 3), 7.0)
    out = lk.compile(batched, "c")(a=a, x=x, alpha=alpha, y=y.copy()).y
    t = alpha[:, None]*(x @ a.T)
    np.testing.assert_array_equal(out, np.where(t > 0, 2*t + x[:, :1], y))


def test_inames_sizes_and_shapes() -> None:
    knl = lk.make_kernel("{[ibatch]: 0<=ibatch<n}", "y[ibatch] = 2*x[ibatch] {id=A}", [
        lk.GlobalArg("x", np.float32, shape="n"), "..."])
    new = lk.to_batched(knl, 4, "x", sequential=True)
    assert new.statement("A").inames == ("ibatch_0", "ibatch")
    assert (str(new.tags["ibatch_0"]), str(new.array_args["x"].shape)) == ("for", "(4, Variable('n'))")
    assert new.array_args["y"].inferred is not None
    assert len(new.array_args["y"].inferred) == 1
    same = lk.to_batched(knl, "n", ["x", "y"], "batch")
    assert [a.name for a in same.arguments] == [a.name for a in knl.arguments]
    assert same.statement("A").inames == ("batch", "ibatch")


def test_temporaries_without_an_axis_are_storage_of_a_batch() -> None:
    batched = lk.to_batched(product(), "m", "x, y")
    assert batched.temporaries["t"].shape == ()
    mapped = lk.tag_inames(batched, "ibatch:g.0")
    assert lk.verify(mapped).verdict.name == "PROVEN"
    assert lk.to_batched(product(), "m", "x, y, t").temporaries["t"].shape is not None


def parts(**options: Any) -> lk.LoopKernel:
    return lk.add_dtypes(lk.make_kernel(["{[i, j]: 0<=i<8 and 0<=j<3}", "{[k]: 0<=k<4}"], """
        g(u) := s[u, 1] + 1
        p[i, j] = x[i] + j  {id=P}
        s[k, j] = 2*x[k]  {id=S}
        y[i] = sum(j, p[7 - i, j])*g(i//2)
        """, [lk.TemporaryVariable("p", **options), lk.TemporaryVariable("s"), "..."]), {"x": np.float64})


def test_values_stay_in_their_parts() -> None:
    knl = parts()
    joint = lk.concatenate_arrays(knl, ["p", "s"])
    assert joint.temporaries["concatenated_array"].shape == (12, 3)
    assert joint.temporaries["concatenated_array"].dtype == np.float64
    assert joint.history[-1].verdict == "proven"
    assert {(d.kind, d.source, d.sink, d.array) for d in dependences(joint)} == {
        (d.kind, d.source, d.sink, "concatenated_array" if d.array in "ps" else d.array) for d in dependences(knl)}
    lk.check_equivalent(knl, joint, {}, target="c")
    other = lk.concatenate_arrays(parts(), "s, p", "p")
    assert list(other.temporaries) == ["p", *(x for x in knl.temporaries if x not in "ps")]
    assert "p[i + 4, j] = x[i] + j" in other.statements_text


def test_the_last_axis() -> None:
    knl = lk.add_dtypes(lk.make_kernel(SQUARE, "<> a[i, j] = x[i]\n<> b[i] = 2*x[i]\n<> c[i, 0] = 1.0*x[i]\n"
                                       "y[i, j] = a[i, j] + b[i] + c[i, 0]"), {"x": np.float32})
    joint = lk.concatenate_arrays(knl, "a, c", axis_nr=-1)
    shape = joint.temporaries["concatenated_array"].shape
    assert [str(e) for e in shape or ()] == ["n", "n + 1"]
    assert "concatenated_array[i, n] = 1.0*x[i]" in joint.statements_text


@pytest.mark.parametrize(("act", "error", "message"), [
    (lambda: lk.to_batched(product(), "m", "z"), lk.UnknownNameError, "'z' is not an argument or temporary"),
    (lambda: lk.to_batched(product(), "m", "n"), lk.PreconditionError, "'n' bounds loops or is in the assumptions"),
    (lambda: lk.to_batched(product(), -1, "x"), lk.PreconditionError, "number of batches cannot be -1"),
    (lambda: lk.to_batched(product(), "x", "x"), lk.NameConflictError, "The name 'x' is taken"),
    (lambda: lk.to_batched(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]", [
        lk.GlobalArg("x", shape=("n",), strides=(2,)), "..."]), 3, "x"), lk.PreconditionError, "has declared strides"),
    (lambda: lk.concatenate_arrays(parts(), "p"), lk.PreconditionError, "needs two or more different temporaries"),
    (lambda: lk.concatenate_arrays(parts(), "p, x"), lk.UnknownNameError, "'x' is not a temporary"),
    (lambda: lk.concatenate_arrays(parts(), "p, s", axis_nr=1), lk.PreconditionError,
     r"'p' and 's' differ: float64\[8, ...\], and float64\[4, ...\]"),
    (lambda: lk.concatenate_arrays(parts(), "p, s", axis_nr=2), lk.PreconditionError, "'p' has 2 axes, but no axis 2"),
    (lambda: lk.concatenate_arrays(parts(), "p, s", "x"), lk.NameConflictError, "The name 'x' is taken"),
    (lambda: lk.concatenate_arrays(parts(address_space="global"), "p, s"), lk.PreconditionError, "in global memory"),
    (lambda: lk.concatenate_arrays(parts(shape=(5, 3)), "p, s"), lk.PreconditionError,
     "'P' accesses 'p' outside of its shape"),
    (lambda: lk.concatenate_arrays(lk.make_kernel(SQUARE, f"{TWO}y[i] = p[i] + s[i]"), "p, s"), lk.TypeInferenceError,
     "cannot be inferred"),
    (lambda: lk.concatenate_arrays(lk.add_dtypes(lk.make_kernel(SQUARE, f"{TWO}y[i] = p[m[i]] + s[i]"), {
        "x": np.float32, "m": np.int32}), "p, s"), lk.PreconditionError, "The shape of 'p' is unknown"),
    (lambda: lk.concatenate_arrays(lk.add_dtypes(lk.make_kernel(SQUARE, f"{TWO}y[i] = p[m[i]] + s[i]", [
        lk.TemporaryVariable("p", shape="n"), "..."]), {"x": np.float32, "m": np.int32}), "p, s"), lk.UndecidedError,
     "Whether 'insn_1' stays within 'p' cannot be decided")])
def test_refused(act: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        act()
