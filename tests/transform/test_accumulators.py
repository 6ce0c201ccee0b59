"""set_accumulator_dtype: reductions of halves in float32."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import loopkit as lk
from tests.target.text import lines_with
from tests.transform.same import step

HALF, BFLOAT = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)


def matvec(dtype: object = HALF) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<m}", "y[i] = 2*sum(k, a[i,k]*x[k])")
    return lk.add_dtypes(knl, {"a,x,y": dtype})        # type: ignore[dict-item]


@pytest.mark.parametrize("dtype", [HALF, BFLOAT], ids=str)
def test_the_sum_is_float32_s(dtype: np.dtype) -> None:
    knl = step(matvec(dtype), lk.set_accumulator_dtype, np.float32)
    rng = np.random.default_rng(0)
    a, x = rng.uniform(-1, 1, (5, 300)).astype(dtype), rng.uniform(-1, 1, 300).astype(dtype)
    total = np.zeros(5, np.float32)
    for k in range(300):
        total = total + a[:, k].astype(np.float32)*x[k].astype(np.float32)
    y = lk.compile(knl, "c")(a=a, x=x).y
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.astype(float), (2*total).astype(dtype).astype(float))


def test_the_text() -> None:
    knl = lk.set_accumulator_dtype(lk.tag_inames(matvec(), "i:g.0"), "float32")
    assert lines_with(knl, "acc_k") == [
        "float acc_k;", "acc_k = 0.0f;", "acc_k += (float)a[i*m + k]*(float)x[k];", "y[i] = (__half)(2.0f*acc_k);"]


def test_after_a_prefetch() -> None:
    knl = lk.split_iname(matvec(), "k", 16)
    knl = lk.tag_inames(knl, "i:g.0")
    knl = lk.set_accumulator_dtype(lk.add_prefetch(knl, "x", ["k_inner"]), np.float32)
    assert "acc_k += (float)a[i*m + 16*k_outer + k_inner]*(float)x_fetch[k_inner];" in str(lk.generate_code(knl))
    assert "__half x_fetch[16];" in str(lk.generate_code(knl))


def test_sums_of_integers_in_int32() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(-128, 128, (7, 300)).astype(np.int8), rng.integers(0, 256, (300, 6)).astype(np.uint8)
    knl = lk.make_kernel("{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<l}", "c[i,j] = sum(k, a[i,k]*b[k,j])")
    knl = step(lk.add_dtypes(knl, {"a": np.int8, "b": np.uint8}), lk.set_accumulator_dtype, np.int32)
    assert "sum(k, cast(int32, a[i, k])*cast(int32, b[k, j]))" in knl.statements_text
    for each in (knl, lk.tag_inames(knl, "i:g.0, k:l.auto")):
        c = lk.compile(lk.fix_parameters(each, l=300), "c")(a=a, b=b).c
        assert c.dtype == np.int32
        np.testing.assert_array_equal(c, a.astype(np.int64) @ b.astype(np.int64))
    assert "acc_k += (int)a[i*l + k]*(int)b[k*m + j];" in str(lk.generate_code(knl))


def test_integers_that_will_not_do() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y = sum(i, a[i]*x[i])"), {"a": np.int8, "x": np.uint8})
    for dtype, match in ((np.uint32, "uint32 cannot hold all values of 'a'"), (np.int8, "int8 cannot hold all values"),
                         (np.bool_, "a real or an integer dtype"), (np.float32, "loads real numbers narrower")):
        with pytest.raises(lk.PreconditionError, match=match):
            lk.set_accumulator_dtype(knl, dtype)


def test_a_typed_accumulator_follows() -> None:
    knl = matvec()
    typed = lk.add_dtypes(knl, {"acc_k": HALF})
    assert lk.set_accumulator_dtype(typed, np.float32).temporaries["acc_k"].dtype == np.float32


def test_within_and_what_is_converted_already() -> None:
    knl = lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<m}", """
        y[i] = sum(k, a[i,k]) {id=first}
        z[i] = max(k, a[i,k]) {id=second}
        w[i] = sum(k, cast(float32, a[i,k])*k) {id=third}
        """)
    knl = lk.add_dtypes(knl, {"a": HALF})
    only = lk.set_accumulator_dtype(knl, np.float64, within="first")
    assert "y[i] = sum(k, cast(float64, a[i, k]))" in only.statements_text
    assert "z[i] = max(k, a[i, k])" in only.statements_text
    for again in (lambda: lk.set_accumulator_dtype(only, np.float64, within="first or third"),
                  lambda: lk.set_accumulator_dtype(knl, np.float32, within="third")):
        with pytest.raises(lk.PreconditionError, match="narrower than float"):
            again()


def test_history_replays_as_a_script() -> None:
    plain = lk.make_kernel("{[i]: 0<=i<n}", "y = sum(i, a[i])", [lk.GlobalArg("a", BFLOAT), "..."])
    knl = lk.set_accumulator_dtype(plain, np.float32)
    assert [str(s) for s in knl.history] == ["knl = lk.set_accumulator_dtype(knl, np.float32)"]
    for dtype in ("bfloat16", BFLOAT, ml_dtypes.bfloat16):
        typed = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = a[i]"), {"a": dtype})
        assert [str(s) for s in typed.history] == ["knl = lk.add_dtypes(knl, {'a': 'bfloat16'})"]


@pytest.mark.parametrize(("dtype", "subject"), [
    (np.int32, "int32"), (np.complex64, "complex64"), (BFLOAT, "a"), (np.float16, "float16"), ("nonsense", "An acc")])
def test_dtypes_that_will_not_do(dtype: object, subject: str) -> None:
    with pytest.raises(lk.PreconditionError) as caught:
        lk.set_accumulator_dtype(matvec(), dtype)              # type: ignore[arg-type]
    assert caught.value.subject.startswith(subject)
    assert caught.value.hint


def test_what_must_be_known() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y = sum(i, a[i])")
    with pytest.raises(lk.PreconditionError, match="'a' is unknown"):
        lk.set_accumulator_dtype(knl, np.float32)
    with pytest.raises(lk.PreconditionError, match="cannot hold all values of 'a'"):
        lk.set_accumulator_dtype(lk.add_dtypes(knl, {"a": np.float64}), np.float32)
    rule = lk.make_kernel("{[i]: 0<=i<n}", "f(j) := a[j]*a[j]\ny = sum(i, f(i))")
    rule = lk.add_dtypes(rule, {"a": HALF})
    with pytest.raises(lk.PreconditionError, match="calls the rule 'f'"):
        lk.set_accumulator_dtype(rule, np.float32)
    assert "cast(float32, a[i])*cast(float32, a[i])" in lk.set_accumulator_dtype(
        lk.expand_subst(rule, "f"), np.float32).statements_text
    with pytest.raises(lk.UnknownNameError):
        lk.set_accumulator_dtype(matvec(), np.float32, within="nothing")
