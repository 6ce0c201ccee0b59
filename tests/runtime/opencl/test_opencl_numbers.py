"""OpenCL computes what the host computes: functions, dtypes, atomic updates, the real cases and random programs."""
from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

import loopkit as lk
from loopkit.expr.functions import FUNCTIONS
from loopkit.expr.kinds import epsilon
from tests.cases import CASES, Case
from tests.deep import amount
from tests.gpu.test_cases import check
from tests.opencl import opencl
from tests.property.checks import COUNTS, Trial
from tests.property.kernels import Program
from tests.property.writer import programs
from tests.transform.test_zero_fill import strips

pytestmark = pytest.mark.usefixtures("device")

BF16 = np.dtype(ml_dtypes.bfloat16)


@pytest.fixture(name="device")
def _device() -> None:
    opencl()


def require_like_host(text: str, dtypes: dict[str, Any], *, ulps: float = 0, **arguments: Any) -> None:
    """Run a kernel of one thread for each element on both targets; results may differ by some *ulps*."""
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", text), dtypes)
    found, wanted = (lk.compile(knl, target=target)(**arguments).asdict() for target in ("opencl", "c"))
    for name, want in wanted.items():
        got = found[name]
        assert got.dtype == want.dtype
        if not ulps or got.dtype.kind in "iub":
            assert np.array_equal(got, want, equal_nan=got.dtype.kind == "f"), name
            continue
        wide = np.result_type(got.dtype, np.complex128) if got.dtype.kind == "c" else np.float64
        got, want = got.astype(wide), want.astype(wide)
        assert np.array_equal(np.isnan(got), np.isnan(want)), name
        error = np.abs(got - want)[~np.isnan(want)] / np.maximum(np.abs(want), 1)[~np.isnan(want)]
        assert error.max(initial=0) <= ulps*epsilon(found[name].dtype), name


def uniform(low: float, high: float, dtype: Any) -> np.ndarray:
    return np.random.default_rng(int(10*high)).uniform(low, high, 30).astype(dtype)


@pytest.mark.deep(every=2)
def test_halves_that_a_condition_replaces() -> None:
    """The compiler may not move the bytes of a half past their conversion."""
    knl = lk.pipeline(strips(np.float16), "k", asynchronous=True)
    a = np.arange(1, 3).astype(np.float16)
    assert (lk.compile(knl, target="opencl")(a=a).c == np.pad(a, (0, 62)).reshape(4, 16)[:, ::-1]).all()


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions(dtype: type) -> None:
    names = [x for x, f in FUNCTIONS.items() if isinstance(f.dtypes, str) and x not in ("real", "imag", "conj")]
    lines = [f"{x}_[i] = {x}({', '.join(['x[i]', 'y[i]', 'z[i]'][:FUNCTIONS[x].arity])})" for x in names]
    lines += ["special[i] = max(x[i], if(x[i] < 0, cast(float32, 0)/0, y[i])) - 2**0.5",
              "above[i] = cast(bool, fmin(x[i], 1e300*1e300)) and y[i] > z[i]"]
    require_like_host("\n".join(lines), {"x,y,z": dtype}, ulps=8, x=uniform(-1, 1, dtype), y=uniform(-2, 2, dtype),
                      z=uniform(-3, 3, dtype))


@pytest.mark.deep(every=2)
@pytest.mark.parametrize(("dtype", "part"), [(np.complex64, np.float32), (np.complex128, np.float64)])
def test_complex_numbers(dtype: type, part: type) -> None:
    values = ["c[i]*d[i]", "c[i]/d[i]", "c[i] + r[i]", "r[i] + c[i]", "c[i] - r[i]", "r[i] - c[i]", "r[i]*c[i]",
              "c[i] / r[i]", "r[i] / c[i]", "2*c[i] - 1", "c[i]**3", "c[i]**5", "1 / c[i]", "exp(c[i])", "log(c[i])",
              "sqrt(c[i])", "sin(c[i])*tan(d[i]) + cos(c[i])", "sinh(c[i])*tanh(d[i]) + cosh(c[i])", "c[i]**d[i]",
              *(f"{x}(c[i])" for x in ("asin", "acos", "atan", "asinh", "acosh", "atanh")),
              "conj(c[i])", "abs(c[i]) + real(c[i])*imag(d[i])", "if(r[i] > 0, c[i], d[i])", "-c[i]*p + q",
              "cast(complex64, c[i])", "cast(complex128, c[i])", "if(c[i] == d[i] or c[i] == r[i], c[i], r[i])",
              "if(c[i] != d[i] and r[i] != d[i], c[i], 0)", "sum(k, c[k])"]
    text = "\n".join(f"y{number}[i] = {value}" for number, value in enumerate(values))
    c, d = (uniform(-2, 2, part) + 1j*uniform(-high, high, part) for high in (2, 3))
    knl = lk.add_dtypes(lk.make_kernel(["{[i]: 0<=i<n}", "{[k]: 0<=k<4}"], text), {"c,d,p": dtype, "r,q": part})
    found, wanted = (lk.compile(knl, target=target)(c=c.astype(dtype), d=d.astype(dtype), r=uniform(-1, 1, part),
                                                    p=2 - 1j, q=0.5) for target in ("opencl", "c"))
    for name, got, want in zip(found._fields, found, wanted, strict=True):
        assert got.dtype == want.dtype, name
        np.testing.assert_allclose(got, want, rtol=0, atol=30*epsilon(np.dtype(dtype))*np.abs(want).max(), err_msg=name)


def test_halves_truth_values_and_integers() -> None:
    lines, dtypes, arguments = [], dict[str, Any](), dict[str, Any]()
    for x, half in (("f", np.dtype(np.float16)), ("b", BF16)):
        values = ["{0}[i]*{0}2[i] + {0}[i]", "{0}[i]/{0}2[i]", "max({0}[i], {0}2[i])", "w[i]", "g[i]", "{0}s*{0}[i]",
                  "if({0}[i] > {0}2[i], 1, {0}[i])"]
        lines += [f"{x}_{number}[i] = {value.format(x)}" for number, value in enumerate(values)]
        lines += [f"t_{x}[i] = cast(bool, {x}[i])", f"i_{x}[i] = cast(int32, {x}[i])"]
        dtypes |= {f"{x},{x}2,{x}s,{','.join(f'{x}_{k}' for k in range(len(values)))}": half}
        arguments |= {x: uniform(-3, 3, half), f"{x}2": uniform(-2, 2, half), f"{x}s": half.type(0.3)}
    truths = ["t[i] and u[i]", "t[i] or w[i] > 0", "not t[i]", "t[i] + u[i]", "cast(bool, w[i])", "isnan(w[i])", "s",
              "min(t[i], u[i])"]
    lines += [f"t{number}[i] = {value}" for number, value in enumerate(truths)]
    lines += ["i_t[i] = t[i]*3 + u[i]"]
    dtypes |= {f"t,u,s,{','.join(f't{k}' for k in range(len(truths)))}": np.bool_, "w": np.float32, "g": np.float64}
    rng = np.random.default_rng(3)
    arguments |= {"t": rng.integers(0, 2, 30).astype(bool), "u": rng.integers(0, 2, 30).astype(bool), "s": True,
                  "w": uniform(-0.5, 0.5, np.float32), "g": uniform(-7e4, 7e4, np.float64)}
    for dtype in map(np.dtype, ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")):
        x, info = f"{dtype.kind}{8*dtype.itemsize}", np.iinfo(dtype)
        values = ["{0}_[i] // {0}d[i]", "{0}_[i] % {0}d[i]", "{0}_[i]*{0}d[i] + {0}_[i]", "min({0}_[i], {0}d[i])",
                  "max({0}_[i], 3)", "{0}_[i]**3", "abs({0}_[i])", "cast(float32, {0}_[i])", "cast(bool, {0}_[i])",
                  "{0}_[i] - i*{0}d[i]"]
        lines += [f"{x}_{number}[i] = {value.format(x)}" for number, value in enumerate(values)]
        dtypes |= {f"{x}_,{x}d": dtype}
        arguments |= {f"{x}_": rng.integers(info.min, info.max, 30, dtype=dtype),
                      f"{x}d": rng.integers(1, info.max, 30, dtype=dtype)}
    require_like_host("\n".join(lines), dtypes, **arguments)


def test_functions_and_operators_of_bits() -> None:
    """Beside those of the language, functions of the user and C code, in one program."""
    lines, dtypes, arguments = [], dict[str, Any](), dict[str, Any]()
    rng = np.random.default_rng(6)
    for dtype in map(np.dtype, ("?", "i1", "u1", "i2", "i4", "u4", "i8", "u8")):
        x = dtype.char
        values = ["{0}_[i] & {0}d[i]", "{0}_[i] | {0}d[i]", "{0}_[i] ^ {0}d[i]", "~{0}_[i]"]
        values += ["{0}_[i] << {0}s[i]", "{0}_[i] >> {0}s[i]", "{0}_[i] >> 3", "{0}_[i] << 2",
                   "{0}_[i] + ({0}_[i] << i % 9)"] if x != "?" else []
        values += ["popcount({0}_[i]) + clz({0}_[i])", "clz({0}_[i] >> 5)*i"] if dtype.itemsize >= 4 else []
        x = x.replace("?", "t")
        lines += [f"{x}{number}[i] = {value.format(x)}" for number, value in enumerate(values)]
        names = [f"{x}_", f"{x}d", *([f"{x}s"] if x != "t" else [])]
        dtypes |= dict.fromkeys(names, dtype)
        arguments |= {name: np.frombuffer(rng.bytes(30*dtype.itemsize), dtype) for name in names[:2]}
        arguments |= {name: rng.integers(0, 70, 30).astype(dtype) for name in names[2:]}
    arguments |= {x: rng.integers(0, 2, 30).astype(bool) for x in ("t_", "td")}
    lines += ["scaled[i] = ldexp(r[i], i_[i] & 3)", "mean[i] = 2*middle(r[i], 0.5) - r[i]", "odd_[i] = odd(i_[i])",
              "both[i] = odd(i_[i]) & odd(b_[i] | 1)"]
    text = "static inline float middle_of(float a, float b) { return (a + b)/2; }"
    middle = lk.ScalarFunction("middle", 2, "float", text={"c": "middle_of", "opencl": "middle_of"}, preamble=text)
    odd = lk.ScalarFunction("odd", 1, lambda _: np.dtype(bool), text=dict.fromkeys(("c", "opencl"), "{0} & 0xff01"))
    rows = lk.CInstruction("i", "$y = 0; for (int k = 0; k < 4; ++k) $y += $row[k*$row.stride];",
                           {"row": "a[0:4, i]"}, {"y": "sums[i]"}, id="rows")
    knl = lk.make_kernel("{[i]: 0<=i<n}", ["\n".join(lines), rows], functions=[middle, odd])
    knl = lk.add_dtypes(knl, {**dtypes, "r": np.float32, "a,sums": np.float64})
    arguments |= {"r": uniform(-1, 1, np.float32), "a": np.arange(120.).reshape(4, 30)}
    found, wanted = (lk.compile(knl, target=target)(**arguments).asdict() for target in ("opencl", "c"))
    for name, want in wanted.items():
        assert found[name].dtype == want.dtype
        assert np.array_equal(found[name], want), name
    bits = arguments["I_"].tolist()
    assert found["I9"].tolist() == [x.bit_count() + 32 - x.bit_length() for x in bits]


def test_atomic_updates() -> None:
    """Every operation of every dtype that OpenCL has, of global and of local memory, in one kernel."""
    dtypes = {"i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64, "f32": np.float32,
              "f64": np.float64}
    form = {"add": "{0} + {1}", "multiply": "{0}*(1 + {1} % 2)", "minimum": "min({0}, {1})",
            "maximum": "max({0}, {1})"}
    cells = [(function, x) for function in form for x in dtypes]
    lines = [f"{function}_{x}[at[i]] = {form[function].format(f'{function}_{x}[at[i]]', f'{x}_[i]')} "
             f"{{id={function}_{x}_, atomic}}" for function, x in cells]
    arrays = [lk.GlobalArg(f"{function}_{x}", dtypes[x], shape=(5,)) for function, x in cells]
    knl = lk.make_kernel("{[i]: 0<=i<n}", "\n".join(lines), name="updates", kernel_data=[*arrays, "..."])
    knl = lk.add_dtypes(knl, {"at": np.int32, **{f"{x}_": dtype for x, dtype in dtypes.items()}})
    knl = lk.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    rng = np.random.default_rng(5)
    at, given_ = rng.integers(0, 5, 60, dtype=np.int32), rng.integers(0, 50, 60)
    before = {f"{function}_{x}": np.full(5, 3, dtypes[x]) for function, x in cells}
    found = lk.compile(knl, target="opencl")(at=at, **{k: v.copy() for k, v in before.items()},
                                             **{f"{x}_": given_.astype(dtype) for x, dtype in dtypes.items()})
    for function, x in cells:
        wanted, operand = before[f"{function}_{x}"], given_.astype(dtypes[x])
        getattr(np, function).at(wanted, at, 1 + operand % 2 if function == "multiply" else operand)
        np.testing.assert_allclose(found[f"{function}_{x}"], wanted, rtol=1e-6)


# Programs

@pytest.mark.deep(every=38)
@pytest.mark.parametrize("case", [c for c in CASES if c.name != "chained_scan"], ids=lambda c: c.name)
def test_cases(case: Case) -> None:
    knl = lk.compile(case.make(), target="opencl")
    for sizes in case.sizes:
        arguments = case.data(np.random.default_rng(7), *sizes)
        expected = case.expected({k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()})
        check(case, knl(**arguments), expected, arguments, str(sizes))


@seed(1)
@settings(max_examples=amount(12), database=None, deadline=None, suppress_health_check=list(HealthCheck),
          phases=[Phase.generate])
@given(programs(), st.data(), st.integers(1, 6))
def test_random_programs(program: Program, data: st.DataObject, steps: int) -> None:
    trial = Trial.of(program)
    trial.transform(data.draw, steps)
    if trial.lowered() is None:
        return
    compiled = lk.compile(trial.knl, target="opencl", verify=False)
    for sizes, expected in zip(trial.sizes, trial.expected, strict=True):
        known = trial.knl.argument_by_name
        arguments: dict[str, Any] = {trial.names[k]: v for k, v in sizes.items() if trial.names.get(k) in known}
        arguments |= {trial.names[k]: v.copy() for k, v in program.inputs().items() if trial.names[k] in known}
        COUNTS["run by OpenCL"] += 1
        trial.compare("OpenCL", sizes, dict(compiled(**arguments).asdict()),
                      {trial.names[k]: v for k, v in expected.items()})
