"""Beside its statements a text has the helper functions that it calls, and one comment for all shuffles of a reduction.
"""
from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import loopkit as lk
from tests.nvrtc import compile_cuda


def unused(text: str) -> list[str]:
    """The functions, types and macros before the launches of *text* that nothing in it names again."""
    code = re.sub(r"//.*", "", text)
    helpers = re.findall(r"(?m)^(?:template <.*?> )?(?:__device__ __forceinline__|static inline) .*?\b(\w+)\(", code)
    types = re.findall(r"(?m)^(?:template <.*?> )?struct (?:__align__\(\d+\) )?(\w+)|^typedef .* (\w+);", code)
    macros = re.findall(r"(?m)^#define (\w+)", code)
    names = [*(x for x in helpers if x != "operator"), *(a or b for a, b in types)]
    return [name for name in {*names} if len(re.findall(rf"\b{name}\b", code)) <= names.count(name)] + [
        name for name in macros if len(re.findall(rf"\b{name}\b", code)) <= 2]      # it is asked for before


GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("suffix", ["cu", "c"])
def test_every_helper_of_a_golden_text_is_called_in_it(suffix: str) -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in GOLDEN.rglob(f"*.{suffix}")}
    assert len(texts) > 30
    assert sum("inline" in text for text in texts.values()) > 8
    assert {name: found for name, text in texts.items() if (found := unused(text))} == {}


@pytest.mark.parametrize(("expression", "helpers"), [
    ("2*x[i]", set()), ("conj(x[i])", {"conj"}), ("sqrt(x[i])", {"csqrt", "cabs"}),
    ("x[i]**x[i]", {"cpow", "cexp", "clog", "cabs"}), ("tan(x[i])", {"ctan", "ctanh"})])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_functions_come_with_those_that_they_call(expression: str, helpers: set[str], dtype: type) -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", f"y[i] = {expression}"), {"x": dtype})
    source = str(lk.generate_code(knl))
    found = {*re.findall(r"(?m)^__device__ .*?\b(\w+)\(", source)}
    assert found - {"operator", np.dtype(dtype).name} == helpers
    assert not unused(source)
    compile_cuda(source)


def test_one_comment_is_for_all_shuffles_of_a_reduction() -> None:
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<64}", "y[i] = sum(k, x[i, k]) + max(k, x[i, k])", name="both")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "i: g.0, k: l.0")
    comments = re.findall(r"// (.*): shuffles combine (.*)", str(lk.generate_code(knl)))
    assert comments == [(f"insn.{k}.store ... insn.{k}.step4", f"acc_{k} of 32 lanes; the first one gets the result")
                        for k in ("k", "k_0")]
    assert ".step" not in re.sub(r"// .* shuffles combine .*", "", str(lk.generate_code(knl)))
    assert "// insn" not in str(lk.generate_code(lk.set_options(knl, annotate=False)))
