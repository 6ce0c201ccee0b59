"""float8_e4m3fn and float8_e5m2: bit for bit what ml_dtypes computes, on the host and in the interpreter."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopkit as lk
from loopkit.expr.kinds import named_dtype
from loopkit.interpreter.interpreter import InitialData, Interpreter, converted
from loopkit.lowering.types import infer_types
from tests.nvrtc import compile_cuda

Array = np.ndarray[Any, np.dtype[Any]]

NAMES = ("float8_e4m3fn", "float8_e5m2")
each_format = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(autouse=True)
def no_warnings_of_nan() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def every(name: str) -> Array:
    return np.arange(256, dtype=np.uint8).view(named_dtype(name))


def same_bits(got: Array, expected: Array) -> None:
    """Equal but for the payloads of NaNs."""
    assert got.dtype == expected.dtype
    number = ~np.isnan(expected.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(got.astype(np.float64)), ~number)
    bits = np.dtype(f"u{got.dtype.itemsize}")
    np.testing.assert_array_equal(got.view(bits)[number], expected.view(bits)[number])


def hard(name: str) -> Array:
    """Every number in float32, the middles of two, and the next numbers to all of these; numbers of all exponents."""
    a = every(name)
    a = np.unique(a[np.isfinite(a)].astype(np.float32))
    beyond = a[-1] + (a[-1] - a[-2])*np.array([0.5, 1, 2], np.float32)
    near = np.concatenate([a, (a[:-1] + a[1:]) / 2, beyond, -beyond])
    inf = np.float32(np.inf)
    any_exponent = np.random.default_rng(0).integers(0, 1 << 32, 20_000, dtype=np.uint32).view(np.float32)
    return np.concatenate([near, np.nextafter(near, inf), np.nextafter(near, -inf), any_exponent,
                           np.array([0, np.inf, np.nan, 1e-45, 3e38], np.float32), np.float32(-0.0)[None]])


#: Of a numbers of 8 bits, b and c all pairs of them; f in float32, d in float64, i integers.
def program(name: str, other: str) -> str:
    return f"""
        for k
            wide[k] = cast(float32, a[k])
            back[k] = cast({name}, cast(float64, a[k]))
            changed[k] = cast({other}, a[k])
            sixteen[k] = cast(float16, a[k])
            bf[k] = cast(bfloat16, a[k])
            <> of_half = cast({name}, sixteen[k])
            halfway[k] = of_half
            negative[k] = -a[k]
            root[k] = sqrt(a[k])
            down[k] = floor(a[k])
        end
        for m
            total[m] = b[m] + c[m]
            product[m] = b[m]*c[m]
            several[m] = b[m]*c[m] - 0.75*b[m] + 1
            chosen[m] = if(b[m] < c[m], b[m]*c[m], c[m])
            quotient[m] = b[m] / c[m]
        end
        for i
            rounded[i] = f[i]
            rounded_twice[i] = d[i]
            of_integer[i] = n64[i]
        end"""


@each_format
def test_host_computes_what_ml_dtypes_does(name: str) -> None:
    own, other = named_dtype(name), named_dtype(next(x for x in NAMES if x != name))
    a = every(name)
    b, c = (x.ravel().copy() for x in np.meshgrid(a, a))
    f = hard(name)
    d = np.concatenate([f.astype(np.float64), np.nextafter(f[:2000].astype(np.float64), np.inf)])[-len(f):]
    n64 = np.random.default_rng(1).integers(-2**62, 2**62, len(f)) >> np.random.default_rng(2).integers(0, 62, len(f))
    written = ("back", "halfway", "negative", "root", "down", "total", "product", "several", "chosen", "quotient",
               "rounded", "rounded_twice", "of_integer")
    arrays = [lk.GlobalArg(x, own) for x in ("a", "b", "c", *written)]
    knl = lk.make_kernel("{[k, m, i]: 0<=k<256 and 0<=m<65536 and 0<=i<s}", program(name, other.name), [
        *arrays, lk.GlobalArg("f", np.float32), lk.GlobalArg("d", np.float64), lk.GlobalArg("n64", np.int64), "..."])
    got = lk.compile(knl, "c")(a=a, b=b, c=c, f=f, d=d, n64=n64)
    expected = {
        "wide": a.astype(np.float32), "back": a, "changed": a.astype(other), "sixteen": a.astype(np.float16),
        "bf": a.astype(np.float32).astype(ml_dtypes.bfloat16), "halfway": a, "negative": -a, "root": np.sqrt(a),
        "down": np.floor(a), "total": b + c, "product": b*c, "several": b*c - own.type(0.75)*b + own.type(1),
        "chosen": np.where(b < c, b*c, c), "quotient": b / c, "rounded": f.astype(own), "rounded_twice": d.astype(own),
        "of_integer": n64.astype(own)}
    assert set(got.asdict()) == set(expected)
    for key, value in expected.items():
        same_bits(getattr(got, key), value)


@each_format
def test_interpreter_converts_and_computes_alike(name: str) -> None:
    own, a = named_dtype(name), every(name)
    f = hard(name)[::7]
    same_bits(np.array([converted(x, own) for x in f]), f.astype(own))
    same_bits(np.array([converted(x, np.dtype(np.float32)) for x in a]), a.astype(np.float32))
    a, b = a[::3], np.roll(a, 77)[::3]
    knl = infer_types(lk.make_kernel("{[i]: 0<=i<86}", "y[i] = a[i]*b[i] + 0.75*a[i]", [
        lk.GlobalArg("a", own), lk.GlobalArg("b", own), "..."]))
    machine = Interpreter(knl, {}, InitialData(0, {"a": a, "b": b}, frozenset()))
    machine.run(machine.instances())
    same_bits(np.array([machine.cell("y", (i,)) for i in range(len(a))], own), a*b + own.type(0.75)*a)



@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_cuda_needs_no_header(arch: str) -> None:
    """From ``sm_89`` on, instructions convert; before, the same bit arithmetic as on the host."""
    e4m3, e5m2 = map(named_dtype, NAMES)
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = a[i]*b[i]\nw[i] = d[i]\na[i] = if(a[i] < b[i], a[i], exp(a[i]))", [
        lk.GlobalArg("a,w", e4m3), lk.GlobalArg("b,y", e5m2), lk.GlobalArg("d", np.float64), "..."])
    source = lk.generate_code(knl, target="cuda").source
    assert "#include" not in source
    assert "w[i] = to_e4m3((float)d[i]);" in source
    compile_cuda(source, arch)


@each_format
def test_extrema_of_numbers_without_infinities(name: str) -> None:
    own = named_dtype(name)
    a = np.random.default_rng(0).uniform(-9, -1, (3, 24)).astype(own)
    knl = lk.make_kernel("{[i,j]: 0<=i<3 and 0<=j<24}", """
        most[i] = max(j, a[i,j])
        place[i] = argmax(j, a[i,j]).index""", [lk.GlobalArg("a", own), "..."])
    got = lk.compile(knl, "c")(a=a)
    np.testing.assert_array_equal(got.most.astype(np.float32), a.astype(np.float32).max(axis=1))
    np.testing.assert_array_equal(got.place, a.astype(np.float32).argmax(axis=1))
    with pytest.raises(lk.PreconditionError, match="which its dtype float8_e4m3fn cannot hold"):
        lk.ReductionOperation("top", "max(a, b)", float("-inf")).neutral_of(named_dtype("float8_e4m3fn"))
