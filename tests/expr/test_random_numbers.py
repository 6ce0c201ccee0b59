"""Philox's known answers, its numbers in the interpreter and in C, their distribution, and their mapping."""
from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.expr.functions import FUNCTIONS
from loopkit.expr.random_numbers import RANDOM
from loopkit.interpreter.instances import reference_order
from tests.deep import amount
from tests.golden_files import GoldenFiles
from tests.interpreter.test_machine import ran
from tests.nvrtc import compile_cuda

#: Key, both halves of the counter, and the four words, as in the known answers of Random123.
KNOWN = [
    (0, 0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (2**64 - 1, 2**64 - 1, 2**64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e, "d16cfe09 94fdcceb 5001e420 24126ea1")]
NORMALS = ("philox_normal_f32", "philox_normal_f64")


def every_function() -> lk.LoopKernel:
    """All functions of the elements of three arrays and of a word."""
    text = "\n".join(f"{name}_[i,w] = {name}(key[i], low[i], high[i], w)" for name in RANDOM)
    knl = lk.make_kernel("{[i,w]: 0<=i<n and 0<=w<4}", text, name="numbers")
    return lk.add_dtypes(knl, {"key,low,high": np.uint64})


def references(name: str, key: Any, low: Any, high: Any) -> np.ndarray:
    counters = zip(key, low, high, strict=True)
    return np.array([[FUNCTIONS[name].value(*given, w) for w in range(4)] for given in counters])


def test_known_answers_and_the_bits_of_the_reference() -> None:
    rng = np.random.default_rng(0)
    key, low, high = (np.array([*known, *rng.integers(0, 2**64, 40, np.uint64)], np.uint64)
                      for known in zip(*((a, b, c) for a, b, c, _ in KNOWN), strict=True))
    outputs = every_function()(key=key, low=low, high=high)
    assert [" ".join(f"{x:08x}" for x in row) for row in outputs.philox_[:3]] == [words for *_, words in KNOWN]
    for name, (dtype, _) in RANDOM.items():
        found, wanted = getattr(outputs, f"{name}_"), references(name, key, low, high)
        assert found.dtype == wanted.dtype == dtype
        if name in NORMALS:                     # the libraries of C and numpy round log, sin and cos differently
            np.testing.assert_allclose(found, wanted, atol=1e-6 if dtype == "float32" else 1e-14)
        else:
            assert (found == wanted).all()


def test_the_interpreter_has_the_same_numbers() -> None:
    key, low, high = (np.array(x, np.uint64) for x in zip(*(given for *given, _ in KNOWN), strict=True))
    knl = every_function()
    machine = ran(knl, {"key": key, "low": low, "high": high, "n": 3}, reference_order)
    for name in RANDOM:
        found = [[machine.cell(f"{name}_", (i, w)) for w in range(4)] for i in range(3)]
        assert (np.array(found) == references(name, key, low, high)).all()


def test_their_texts(golden: GoldenFiles) -> None:
    knl = lk.tag_inames(every_function(), "i:g.0, w:l.0")
    source = str(lk.generate_code(knl, target="cuda"))
    compile_cuda(source)
    golden.check("random_numbers.cu", source)
    golden.check("random_numbers.c", str(lk.generate_code(knl, target="c")))


def test_a_text_has_the_functions_that_it_needs() -> None:
    source = str(lk.generate_code(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = philox_f32(1, i, 0, 0)"), target="c"))
    assert [f"{name}(" in source for name in RANDOM] == [True, True, False, False, False]


def test_any_mapping_gives_the_same_numbers() -> None:
    """Random splits and tags move the calls between threads, and change no number."""
    plain = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "y[i,j] = philox_f64(seed, i, j, 1) + philox(seed, j, i, 2)",
                           name="mapped")
    wanted = plain(seed=-3, n=7, m=11).y
    assert len(np.unique(wanted)) == wanted.size
    rng = random.Random(1)
    tags = [("g.0", "l.0"), ("g.1", "l.1"), (None, "unr"), (None, "ilp"), (None, None)]
    for _ in range(amount(12)):
        knl = plain
        for iname, (outer, inner) in zip("ij", rng.sample(tags, 2), strict=True):
            knl = lk.split_iname(knl, iname, rng.choice([2, 3, 4]), outer_tag=outer, inner_tag=inner)
        assert (knl(seed=-3, n=7, m=11).y == wanted).all()


def test_their_distribution() -> None:
    """Mean and variance within five standard deviations, chi-square of 64 classes and of pairs within wide bounds."""
    knl = lk.make_kernel("{[i,w]: 0<=i<n and 0<=w<4}", "\n".join(
        f"{name}_[i,w] = {name}(12345, i, 6, w)" for name in RANDOM))
    outputs, count = knl(n=5000), 20000
    half = outputs.philox_f64_[:, :2].ravel()           # two numbers of 53 bits for each counter
    for x, mean, variance, fourth in [
            (outputs.philox_/2**32, 1/2, 1/12, 1/80), (outputs.philox_f32_, 1/2, 1/12, 1/80), (half, 1/2, 1/12, 1/80),
            (outputs.philox_normal_f32_, 0, 1, 3), (outputs.philox_normal_f64_[:, :2], 0, 1, 3)]:
        assert abs(x.mean(dtype=float) - mean) < 5*np.sqrt(variance/x.size)
        assert abs(x.var(dtype=float) - variance) < 5*np.sqrt((fourth - variance**2)/x.size)
    for x in (outputs.philox_f32_.ravel(), half):
        assert x.min() >= 0
        assert x.max() < 1
        for classes in (np.bincount((64*x).astype(int), minlength=64),
                        np.bincount((8*x[:-1]).astype(int)*8 + (8*x[1:]).astype(int), minlength=64)):
            expected = classes.sum()/64
            assert 20 < ((classes - expected)**2/expected).sum() < 130
    assert np.unique(outputs.philox_).size > count - 5
    pairs = outputs.philox_normal_f32_.reshape(-1, 2)
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 0.05


@pytest.mark.parametrize(("text", "error", "message"), [
    ("y[i] = philox(1, i, 0)", lk.ParseError, "philox"),
    ("y[i] = philox(1, i, 0.5, 0)", lk.TypeInferenceError, "takes no arguments"),
    ("y[i] = philox(1, x[i], 0, 0)", lk.TypeInferenceError, "cast the arguments"),
    ("philox[i] = 1", lk.ParseError, "is a function of the kernel language")])
def test_what_is_no_random_number(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lk.lower(lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", text), {"x": np.int32} if "x[" in text else {}))
