"""Scalar functions of the user's own: what they compute on the host and in the interpreter, their text and errors."""
from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.expr.functions import FUNCTIONS
from loopkit.interpreter.instances import reference_order
from loopkit.runtime.compiler import undefined_hint
from tests.golden_files import GoldenFiles
from tests.interpreter.test_machine import ran
from tests.nvrtc import compile_cuda

SCALE = lk.ScalarFunction(
    "scaled", 2, {("float32", "int32"): "float32", ("float64", "int32"): "float64"},
    text={"c": {"float32, int32": "scaled_f", "float64, int32": "ldexp({0}, {1})"}, "cuda": "scaled_by_power"},
    preamble={"c": "static inline float scaled_f(float x, int n)\n{\n    return ldexpf(x, n);\n}",
              "cuda": "template <typename T>\n__device__ T scaled_by_power(T x, int n) { return ldexp(x, n); }"},
    reference=np.ldexp)
MINUS = lk.ScalarFunction("minus", 2, text=dict.fromkeys(("c", "cuda"), "{0} - {1}"), reference=np.subtract)
LONGER = lk.ScalarFunction(
    "longer", 2, lambda a, b: np.promote_types(a, np.int16) if a.kind == "i" else np.promote_types(a, b),
    text=dict.fromkeys(("c", "cuda"), "{0} + 2*{1}"), reference=lambda a, b: float(a) + 2*float(b))
INSIDE = lk.ScalarFunction("inside", 2, "predicate", text=dict.fromkeys(("c", "cuda"), "({0}) < 3 && {1} > -3"),
                           reference=lambda a, b: a < 3 and b > -3)
SIZE = lk.ScalarFunction("size", 1, "real", text={"c": "cabs"}, reference=np.abs)
ROOT = lk.ScalarFunction("root", 1, "float", text={"c": {"float32": "sqrtf", "float64": "sqrt"}, "cuda": "sqrt"},
                         reference=np.sqrt)
OWN = [SCALE, MINUS, LONGER, INSIDE, SIZE, ROOT]

DATA: Mapping[str, np.ndarray] = {
    "f": np.array([0.5, -3, 7.25, 1e3], np.float32), "d": np.array([1.5, -2, 0.1, 4]),
    "h": np.array([1, 0.3, -9, 2.5], np.float16), "i": np.array([3, -5, 0, 9], np.int32),
    "b": np.array([100, -100, 5, 127], np.int8), "z": np.array([3 + 4j, -1, 2j, 0.5])}

#: Expressions, and numpy's value of each.
EXPRESSIONS = {
    "scaled(f[p], i[p])": lambda f, i, **_: np.ldexp(f, i), "scaled(d[p], 3)": lambda d, **_: np.ldexp(d, 3),
    "2*minus(f[p] - 1, f[p] - 3)": lambda f, **_: 2*((f - 1) - (f - 3)),
    "minus(b[p], 100)": lambda b, **_: b - np.int8(100), "minus(h[p], h[p]*h[p])": lambda h, **_: h - h*h,
    "minus(f[p], d[p])*d[p]": lambda f, d, **_: (f - d)*d,
    "longer(b[p], b[p])": lambda b, **_: b + 2*b.astype(np.int16),
    "longer(d[p], 2)": lambda d, **_: d + 4, "longer(f[p], f[p])": lambda f, **_: f + 2*f,
    "inside(f[p], i[p])": lambda f, i, **_: (f < 3) & (i > -3), "not inside(b[p], 1)": lambda b, **_: b >= 3,
    "size(z[p]) + d[p]": lambda z, d, **_: np.abs(z) + d, "root(abs(i[p]))": lambda i, **_: np.sqrt(np.abs(i)),
    "root(4)*f[p]": lambda f, **_: 2*f, "root(abs(h[p]))": lambda h, **_: np.sqrt(np.abs(h)),
    "popcount(i[p]) + clz(i[p])": lambda i, **_: np.array(
        [(int(x) % 2**32).bit_count() + 32 - (int(x) % 2**32).bit_length() for x in i], np.int32),
    "popcount(cast(int64, i[p])) - clz(cast(uint64, i[p]))": lambda i, **_: np.array(
        [(int(x) % 2**64).bit_count() - 64 + (int(x) % 2**64).bit_length() for x in i], np.int32),
    "ldexp(f[p], i[p])": lambda f, i, **_: np.ldexp(f, i)}


def kernel(own: list[lk.ScalarFunction] = OWN, names: Mapping[str, str] | None = None) -> lk.LoopKernel:
    text = "\n".join(f"y{k}[p] = {e}" for k, e in enumerate(names or EXPRESSIONS))
    knl = lk.make_kernel("{[p]: 0<=p<q}", text, name="calls", functions=own)
    return lk.add_dtypes(knl, {name: x.dtype for name, x in DATA.items() if name in knl.argument_by_name})


def test_numpy_the_host_and_the_interpreter_agree() -> None:
    knl = lk.split_iname(kernel(), "p", 2, outer_tag="g.0", inner_tag="l.0")
    found, machine = knl(**DATA), ran(kernel(), {**DATA, "q": 4}, reference_order)
    for k, (text, value) in enumerate(EXPRESSIONS.items()):
        with np.errstate(over="ignore"):
            expected = value(**DATA)
        got = getattr(found, f"y{k}")
        assert got.dtype == expected.dtype, text
        np.testing.assert_array_equal(got, expected, err_msg=text)
        for p in range(4):
            assert machine.cell(f"y{k}", (p,)) == expected[p], text


def test_bessel_functions_of_the_host_and_the_interpreter() -> None:
    knl = lk.make_kernel("{[p]: 0<=p<q}", "y[p] = bessel_jn(n[p], x[p]) + bessel_yn(n[p], x[p])\n"
                         "z[p] = bessel_jn(2, f[p])")
    random = np.random.default_rng(4)
    n, x = random.integers(-6, 7, 9).astype(np.int32), random.uniform(0.2, 20, 9)
    found = lk.add_dtypes(knl, {"x": np.float64, "f": np.float32, "n": np.int32})(n=n, x=x, f=x.astype(np.float32))
    j, y = FUNCTIONS["bessel_jn"].value, FUNCTIONS["bessel_yn"].value
    np.testing.assert_allclose(found.y, [j(*at) + y(*at) for at in zip(n, x, strict=True)], rtol=1e-9)
    np.testing.assert_allclose(found.z, [j(2, at) for at in x], rtol=1e-4, atol=1e-6)


def test_text(golden: GoldenFiles) -> None:
    knl = lk.split_iname(kernel(names=dict.fromkeys((
        "scaled(f[p], i[p]) + scaled(d[p], 3)", "2*minus(f[p] - 1, f[p] - 3)", "minus(h[p], h[p]*h[p])",
        "if(inside(b[p], 1), root(h[p]), root(4))", "popcount(i[p]) + clz(cast(int64, b[p]))",
        "bessel_jn(i[p], f[p])*ldexp(d[p], i[p])"), "")), "p", 64, outer_tag="g.0", inner_tag="l.0")
    code = lk.generate_code(knl, target="cuda")
    golden.check("calls.cu", code)
    golden.check("calls.c", lk.generate_code(knl, target="c"))
    golden.check("calls.kernel.txt", knl)
    compile_cuda(str(code), "sm_80")


def test_a_function_returns_a_tuple() -> None:
    dtype = np.dtype([("q", "i4"), ("r", "f8")], align=True)
    text = "static tuple_q_i32_r_f64 both(double x)\n{ tuple_q_i32_r_f64 t = {(int)x / 4, 0.5}; return t; }"
    both = lk.ScalarFunction("both", 1, lambda _: dtype, text={"c": "both"}, preamble=text, reference=lambda x: x)
    knl = lk.make_kernel("{[i]: 0<=i<n}", "<> t = both(x[i])\ny[i] = t.q + t.r", functions=[both])
    knl = lk.add_dtypes(knl, {"x": np.float64})
    assert lk.compile(knl, "c")(x=np.array([9.0, 2.0])).y.tolist() == [2.5, 0.5]
    with pytest.raises(lk.PreconditionError, match="no text for the language 'cuda'"):
        lk.generate_code(knl, target="cuda")


def test_the_text_of_a_function_is_compared_with_its_reference() -> None:
    """Complex numbers and functions without a reference are left out."""
    others = [SIZE, lk.ScalarFunction("plain", 1, text={"c": "{0} + {0}"})]
    def kernel_of(text: str) -> lk.LoopKernel:
        square = lk.ScalarFunction("square", 1, text={"c": text}, reference=lambda x: x*x)
        knl = lk.make_kernel("{[p]: 0<=p<q}", "r(a) := plain(square(a)) + size(z[p])\n"
                             "y[p] = r(d[p]) {if=square(i[p]) > 0}", functions=[*others, square])
        return lk.add_dtypes(knl, {name: DATA[name].dtype for name in "dzi"})
    right, wrong = kernel_of("{0}*{0}"), kernel_of("{0} + {0}")
    assert lk.check_equivalent(right, right, {"q": 4}, target="c").error == 0
    with pytest.raises(lk.EquivalenceError, match="the kernel with the Python references of 'square' in place"):
        lk.check_equivalent(wrong, wrong, {"q": 4}, target="c")


def test_a_name_that_the_preamble_does_not_define() -> None:
    with pytest.raises(lk.CompilerError) as caught:
        of(lk.ScalarFunction("f", 1, text={"c": "unknown_f({0})"}))(x=np.ones(1, np.float32))
    assert caught.value.hint.startswith("define 'unknown_f' in the preamble= of the function whose text has it")


@pytest.mark.parametrize("log", [
    "kernel.c:3:9: error: implicit declaration of function \u2018f_2\u2019", "<kernel>:3:9: error: 'f_2' undeclared",
    "kernel.cl:3:9: error: use of undeclared identifier 'f_2'", 'kernel.cu(3): error: identifier "f_2" is undefined'])
def test_names_that_compilers_do_not_know(log: str) -> None:
    assert undefined_hint(log) == "define 'f_2' in the preamble= of the function whose text has it"
    assert undefined_hint("kernel.c:3:9: error: expected ';' before 'f_2'") is None


def test_an_exception_of_a_reference_names_the_function_and_the_operands() -> None:
    quotient = lk.ScalarFunction("quotient", 2, reference=lambda x, y: int(x)/int(y))
    knl = of(quotient, call="quotient(x[i], 0)")
    message = r"The Python reference of 'quotient' has no value for \(2.0, 0.0\): ZeroDivisionError: division by zero."
    for run in (lambda: lk.compile(knl, target="c")(x=np.full(1, 2, np.float32)),
                lambda: ran(knl, {"x": np.full(1, 2, np.float32), "n": 1}, reference_order)):
        with pytest.raises(lk.PreconditionError, match=message) as caught:
            run()
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert caught.value.subject == "quotient"
    text = of(lk.ScalarFunction("f", 1, reference=lambda x: "text"))
    with pytest.raises(lk.PreconditionError, match=r"of 'f' has no value for \(2.0\): ValueError: could not convert"):
        lk.compile(text, target="c")(x=np.full(1, 2, np.float32))


# Errors

@pytest.mark.parametrize(("arguments", "message"), [
    (("1f", 1), "The name of a function cannot be '1f'"), (("f", -1), "must not be negative, and not -1"),
    (("f", 0), "has no arguments, from which 'promoted' follows"),
    (("f", 1, "int"), "dtypes= cannot be 'int'\\."),
    (("f", 2, {("f4",): "f4"}), "has 2 arguments, but dtypes= has an entry"),
    (("f", 1, {"float99": "f4"}), "an entry 'float99': 'float99'|is not of dtypes"),
    (("f", 1, "float", "f"), "maps languages to texts, and cannot be 'f'"),
    (("f", 1, "float", {"c": "f({0}"}), "has brackets that do not match"),
    (("f", 1, "float", {"c": "{0"}), "wrong braces"),
    (("f", 1, "float", {"c": "f({0}); g()"}), "not one expression of C"),
    (("f", 1, "float", {"c": "{0} // x"}), "not one expression of C"),
    (("f", 2, "float", {"c": "{0}"}), "leaves the argument {1}"),
    (("f", 1, "float", {"c": "{x}"}), "has the placeholder '{x}', but the arguments are {0}"),
    (("f", 1, "float", {"c": {"float32": "{0!r}"}}), "has the placeholder"),
    (("f", 1, "float", {"c": 3}), "is 3, and not a string"),
    (("f", 1, "float", {"c": "f"}, {"cuda": "..."}), "has a preamble, but no text for cuda"),
    (("f", 1, "float", {"c": "f"}, {"c": 1}), "preamble= is a text"),
    (("f", 1, "float", {}, {}, 3), "reference= cannot be 3"),
    (("f", 1, "float", {}, {}, None, "xy"), "letters of 'biufc'")])
def test_wrong_functions(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(lk.PreconditionError, match=message):
        lk.ScalarFunction(*arguments)


def of(function: lk.ScalarFunction, dtype: object = np.float32, call: str = "f(x[i])") -> lk.LoopKernel:
    return lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", f"y[i] = {call}", functions=[function]), {"x": dtype})


@pytest.mark.parametrize(("function", "dtype", "error", "message"), [
    (lk.ScalarFunction("f", 1, text={"c": "sqrt"}), "f4", lk.PreconditionError,
     "The function 'f' has no text for the language 'cuda'.\n  hint: ScalarFunction\\('f', ..., text={'cuda': ...}\\)"),
    (lk.ScalarFunction("f", 1, text={"cuda": {"float64": "sqrt"}}), "f4", lk.PreconditionError,
     "no text for the language 'cuda' and arguments of float32"),
    (lk.ScalarFunction("f", 1, {"int32": "int32"}), "f4", lk.TypeInferenceError,
     r"'f' takes no arguments \(float32\).\n  hint: it takes \(int32\): cast the arguments"),
    (lk.ScalarFunction("f", 1, lambda x: "text"), "f4", lk.TypeInferenceError, "gives 'text' for \\(float32\\)"),
    (lk.ScalarFunction("f", 1, operands="iu"), "f4", lk.TypeInferenceError,
     "'f' takes no real numbers.\n  hint: write f\\(cast\\(int32, x\\)\\)"),
    (lk.ScalarFunction("f", 1, "float", operands="f"), "c8", lk.TypeInferenceError, "'f' takes no complex numbers"),
    (lk.ScalarFunction("f", 1, text={"cuda": "g({0} + x)"}), "f4", lk.NameConflictError,
     "uses the name 'x', which has another"),
    (lk.ScalarFunction("f", 1, text={"cuda": "g"}, preamble="float g(float x);\nint kernel(int);"), "f4",
     lk.NameConflictError, "uses the name 'kernel'")])
def test_refusals(function: lk.ScalarFunction, dtype: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lk.generate_code(of(function, dtype), target="cuda")


def test_the_host_calls_a_reference_without_a_text() -> None:
    def own(x: Any, n: Any) -> Any:
        if n == 7:
            raise ArithmeticError("seven")
        return np.sinc(x) + n
    f = lk.ScalarFunction("f", 2, {("float32", "int32"): "float64", ("float16", "int32"): "float16"}, reference=own)
    knl = lk.split_iname(of(f, call="2*f(x[i], i)"), "i", 4, outer_tag="g.0", inner_tag="l.0")
    x = np.linspace(-1, 1, 7, dtype=np.float32)
    lk.check_equivalent(lambda x: 2*(np.sinc(x).astype(np.float64) + np.arange(len(x))), knl, {"n": 7})
    with pytest.raises(lk.PreconditionError, match=r"'f' has no value for \(0.0, 7\): ArithmeticError: seven."):
        knl(x=np.zeros(9, np.float32))
    assert knl(x=x).y[3] == 2*(1 + 3)                # an error of one call is not one of the next
    assert of(f, np.float16, "f(x[i], 2)")(x=x.astype(np.float16)).y[3] == 3
    with pytest.raises(lk.PreconditionError, match="no text for the language 'cuda'"):
        lk.generate_code(knl, target="cuda")


def test_names() -> None:
    f = lk.ScalarFunction("f", 2)
    for call, error, message in (("f(x[i])", lk.ParseError, "takes 2 arguments, not 1"),
                                 ("g(x[i], 2)", lk.UnknownNameError, "'g' is not a function"),
                                 ("f[i] + f(x[i], 2)", lk.NameConflictError, "'f' is already in use")):
        with pytest.raises(error, match=message):
            of(f, call=call)
    with pytest.raises(lk.NameConflictError, match="The function 'sqrt' is a function of the kernel language"):
        of(lk.ScalarFunction("sqrt", 1))
    with pytest.raises(lk.PreconditionError, match="has no value in Python"):
        ran(of(lk.ScalarFunction("f", 1)), {"x": np.ones(2, np.float32), "n": 2}, reference_order)


# Values

def test_a_kernel_with_functions_is_a_value() -> None:
    f, other = (lk.ScalarFunction("f", 1, text={"c": text}, reference=np.exp) for text in ("expf", "exp"))
    knl = of(f)
    assert knl == of(f) != of(other)
    assert pickle.loads(pickle.dumps(knl)) == knl
    assert "functions=(lk.ScalarFunction('f', 1, text={'c': 'expf'}, reference=np.exp),)" in knl.history.script()
    names: dict[str, Any] = {}
    exec(knl.history.script(), names)
    assert names["knl"] == knl
    (claim,) = knl.obligations
    assert "'f' has no side effects" in str(claim)


def test_a_registered_function_is_for_later_steps() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    f = lk.ScalarFunction("f", 1)
    with pytest.raises(lk.UnknownNameError, match="'f' is not a function"):
        lk.extract_subst(knl, "rule", "f(a)", "a")
    with pytest.raises(lk.PreconditionError, match="Nothing in the kernel matches"):
        lk.extract_subst(lk.register_callable(knl, "f", f), "rule", "f(a)", "a")
    assert lk.extract_subst(of(f), "rule", "f(a)", "a").statements_text == "for i\n  y[i] = rule(x[i])  {id=insn}\nend"
    with pytest.raises(lk.NameConflictError, match="'x' is taken"):
        lk.register_callable(knl, "x", lk.ScalarFunction("x", 1))
    with pytest.raises(lk.PreconditionError, match="'f' cannot be called 'g'"):
        lk.register_callable(knl, "g", f)


def test_functions_without_arguments() -> None:
    half = lk.ScalarFunction("half_of", 0, {(): "float32"}, text={"c": "(0.5f)"}, reference=lambda: np.float32(0.5))
    knl = lk.make_kernel("{[i]: 0<=i<2}", "y[i] = i + half_of()", functions=[half])
    assert "i + (float)((0.5f));" in str(lk.generate_code(knl, "c"))
