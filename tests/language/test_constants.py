"""Temporaries with an initializer: constants in the generated text."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopkit as lk
from tests.golden_files import GoldenFiles
from tests.nvrtc import compile_cuda

WEIGHTS = np.array([[1.5, 2.0, 3.0], [0.1, 1e-30, -7.0]], np.float32)
LARGEST = np.array([-2**31, 2**31 - 1, 2**40, -2**63])


def constant(name: str, values: Any, **declared: Any) -> lk.TemporaryVariable:
    return lk.TemporaryVariable(name, initializer=values, read_only=True, **declared)


def weighted() -> lk.LoopKernel:
    knl = lk.make_kernel(
        "{[i, j]: 0<=i<n and 0<=j<3}", "y[i] = sum(j, t[i%2, j]*x[i]) + c\nz[i] = if(flag, large[i%4], 0)",
        [constant("t", WEIGHTS), constant("large", LARGEST), constant("c", np.float64(0.5)), constant("flag", True),
         "..."], name="weighted")
    return lk.add_dtypes(knl, {"x": np.float32})


def test_the_text_has_the_exact_elements(golden: GoldenFiles) -> None:
    plain = weighted()
    knl = lk.split_iname(plain, "i", 32, outer_tag="g.0", inner_tag="l.0")
    source = lk.generate_code(knl, target="cuda").source
    golden.check("constants.cu", source)
    compile_cuda(source)
    golden.check("constants.c", lk.generate_code(plain, target="c"))
    golden.check("constants.kernel.txt", lk.lower(plain, stop="types"))
    x = np.arange(6, dtype=np.float32)
    for kernel in (plain, lk.tag_array_axes(knl, "t", "F")):
        result = lk.compile(kernel, "c")(x=x)
        assert np.array_equal(result.z, LARGEST[np.arange(6) % 4])
        assert np.allclose(result.y, WEIGHTS.astype(float).sum(1)[np.arange(6) % 2]*x + 0.5)
    report = lk.verify(knl)
    assert report.verdict is lk.Verdict.PROVEN


def test_the_interpreter_reads_constants_and_a_history_holds_them() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<4}", "a[i+1] = a[i] + t[i]", [constant("t", [1., 2., 3., 4.]), "..."])
    assert "initializer=np.array([1.0, 2.0, 3.0, 4.0], np.float64), read_only=True" in str(knl.history)
    with pytest.raises(lk.IllegalTransformError) as refusal:
        lk.tag_inames(knl, {"i": "l.0"})
    assert "insn[i=1] reads 1.0" in str(refusal.value.replay(a=np.zeros(5)))


@pytest.mark.parametrize(("declared", "error"), [
    (constant("t", np.zeros(4, np.float16)), "has the dtype float16"),
    (constant("t", [0., np.inf, 0., 0.]), "has elements that are not finite"),
    (constant("t", np.zeros((0,))), "has no elements"),
    (constant("t", np.zeros(4), shape=(5,)), r"has the shape \(4,\), not \(5,\)"),
    (constant("t", np.zeros(4), dtype=np.float32), "has the dtype float64, not float32"),
    (lk.TemporaryVariable("t", initializer=np.zeros(4)), "declared without read_only=True"),
    (lk.TemporaryVariable("t", read_only=True), "declared without initializer="),
])
def test_wrong_constants_are_refused(declared: lk.TemporaryVariable, error: str) -> None:
    with pytest.raises(lk.PreconditionError, match=error):
        lk.make_kernel("{[i]: 0<=i<4}", "y[i] = t[i]", [declared, "..."])


def test_constants_stay_as_they_are() -> None:
    table = constant("t", np.arange(4.))
    with pytest.raises(lk.ParseError, match="The constant 't' is written"):
        lk.make_kernel("{[i]: 0<=i<4}", "t[i] = x[i]", [table, "..."])
    knl = lk.make_kernel("{[i]: 0<=i<5}", "y[i] = t[i]", [table, "..."])
    with pytest.raises(lk.BoundsError, match="accesses 't' outside its shape"):
        lk.generate_code(knl)
    with pytest.raises(lk.PreconditionError, match="'t' is constant, so its axes cannot change"):
        lk.expand(knl, "t", "i")
    with pytest.raises(lk.PreconditionError, match="'t' is constant: the target chooses its memory"):
        lk.set_temporary_address_space(knl, "t", "shared")
    large = lk.make_kernel("{[i]: 0<=i<9000}", "y[i] = t[i]", [constant("t", np.zeros(9000)), "..."])
    with pytest.raises(lk.LimitError, match="bytes of constant memory"):
        lk.generate_code(large, target="cuda")
    assert "large is constant, for" in str(lk.explain(weighted()))
