"""Calls in loopy's programs: facts that come later, slices of another rank, C code, side effects, random numbers."""
from __future__ import annotations

import ctypes

import numpy as np
import pytest

import loopkit as lk
import loopkit.compat.loopy as lp
from loopkit.compat.loopy.c_code import call_alone
from loopkit.compat.loopy.dtypes import with_loopy_dtypes
from loopkit.compat.loopy.random123 import threefry_words
from loopkit.expr.random_numbers import philox_words
from loopkit.interpreter.instances import reference_order
from tests.interpreter.test_machine import ran

HOST = lp.ExecutableCTarget()


def statements(unit: lp.TranslationUnit, name: str = "loopy_kernel") -> list[str]:
    return [line.strip() for line in unit[name].core.statements_text.splitlines()]


def written(unit: lp.TranslationUnit, name: str, **arrays: np.ndarray) -> dict[tuple[int, ...], object]:
    """The elements that the interpreter writes to the array *name*."""
    core = with_loopy_dtypes(unit["loopy_kernel"].core)
    return {element: x for (array, element), x in ran(core, arrays, reference_order).cells.items() if array == name}


# Facts of later steps

COUNT = lp.make_function("{[i]: 0<=i<n}", "b[i] = i", name="count")


def counted() -> lp.TranslationUnit:
    unit = lp.make_kernel("{[k]: 0<=k<20}", "[k]: y[k] = count(m)",
                          [lp.GlobalArg("y", shape=(20,)), lp.ValueArg("m", np.int32)])
    return lp.merge([unit, COUNT])


@pytest.mark.parametrize("step", [
    lambda unit: lp.assume(unit, "m <= 20"), lambda unit: lp.fix_parameters(unit, m=5),
    lambda unit: unit.with_kernel(lp.assume(unit["loopy_kernel"], "[m] -> { : m <= 3 or m <= 20 }"))])
def test_the_bounds_of_a_slice_hold_by_a_later_step(step: object) -> None:
    unit = counted()
    with pytest.raises(lp.LoopyError, match="outside of the slice"):
        lp.generate_code_v2(unit)
    assert callable(step)
    assert "y[i] = i  {id=count_insn}" in statements(step(unit))


def test_a_fact_about_a_renamed_argument_is_not_one_about_another() -> None:
    unit = lp.rename_argument(lp.rename_argument(lp.make_kernel(
        "{[k]: 0<=k<20}", "[k]: y[k] = count(m)", [lp.GlobalArg("y", shape=(20,)), lp.ValueArg("m, l", np.int32)]),
        "m", "k0"), "l", "m")
    unit = lp.merge([lp.assume(unit, "m <= 20"), COUNT])
    with pytest.raises(lp.LoopyError, match="outside of the slice"):
        lp.generate_code_v2(unit)


def test_a_fact_about_another_kernel_is_not_one_about_a_temporary() -> None:
    function = lp.make_function("{[i]: 0<=i<n}", "b[i] = a[i]", name="f")
    unit = lp.fix_parameters(lp.merge([lp.make_kernel(
        "{[j]: 0<=j<3}", "for j\n<> n = z[j]\ny[j,:] = f(x[j,:])\nw[j] = n\nend"), function]), n=4)
    assert "w[j] = n  {id=insn_1}" in statements(unit)


def test_a_fault_of_a_function_is_the_one_of_its_caller() -> None:
    inner = lp.make_function("{[i]: 0<=i<4}", "b[:] = nothing(a[:])", name="inner")
    unit = lp.merge([lp.make_kernel("{[i]: 0<=i<4}", "y[:] = inner(x[:])"), inner])
    with pytest.raises(lp.LoopyError, match="'nothing' is not a function"):
        lp.generate_code_v2(unit)


# Slices of another rank

@pytest.mark.parametrize(("inner", "text"), [
    ("{[i]: 0<=i<6}", "b[i] = a[i] + i"), ("{[i,j]: 0<=i<3 and 0<=j<2}", "b[i,j] = a[i,j] + 2*i + j"),
    ("{[i,j,k]: 0<=i<1 and 0<=j<3 and 0<=k<2}", "b[i,j,k] = a[i,j,k] + 2*j + k"),
    ("{[i,j]: 0<=i<2 and 0<=j<3}", "b[i,j] = a[i,j] + 3*i + j")])
@pytest.mark.parametrize("call", ["[p,q]: y[p,q] = f([p,q]: x[p,q])", "y[0:3, 0:2] = f(x[0:3, 0:2])",
                                  "[r]: y[r] = f([p,q]: x[p,q])", "[p,q]: y[r0,p,q] = f([p,q]: x[p,q])"])
def test_slices_have_the_elements_of_the_argument_in_row_major_order(inner: str, text: str, call: str) -> None:
    function = lp.make_function(inner, text, name="f")
    unit = lp.merge([lp.make_kernel("{[p,q,r,r0]: 0<=p<3 and 0<=q<2 and 0<=r<6 and 0<=r0<2}", call), function])
    unit = lp.add_dtypes(lp.pack_and_unpack_args_for_call(unit, "f"), {"x": np.int64})
    x = np.arange(6).reshape(3, 2)*10
    assert [value for _, value in sorted(written(unit, "y", x=x).items())][:6] == (x.ravel() + np.arange(6)).tolist()


def test_slices_that_cannot_be_packed() -> None:
    function = lp.make_function("{[i]: 0<=i<6}", "b[i] = a[i]", name="f")
    unit = lp.make_kernel("{[p,q]: 0<=p<n and 0<=q<2}", "[p,q]: y[p,q] = f([p,q]: x[p,q])")
    with pytest.raises(lp.LoopyError, match="has 1 axis, and this slice of 'y' has 2"):
        lp.generate_code_v2(lp.merge([unit, function]))
    packed = lp.pack_and_unpack_args_for_call(lp.merge([unit, function]), "f")
    with pytest.raises(lp.LoopyError, match="extents of the slice of 'y' for 'b' are not numbers"):
        lp.generate_code_v2(packed)
    few = lp.make_kernel("{[p,q]: 0<=p<2 and 0<=q<2}", "[p,q]: y[p,q] = f([p,q]: x[p,q])")
    larger = lp.make_function("{[i,j,k]: 0<=i<6 and 0<=j<2 and 0<=k<1}", "b[i,j,k] = a[i,j,k]", name="f")
    with pytest.raises(lp.LoopyError, match="has 2x2 elements, and 'b' has 6x2x1"):
        lp.generate_code_v2(lp.pack_and_unpack_args_for_call(lp.merge([few, larger]), "f"))


def test_a_renamed_argument_leaves_the_caller_whole() -> None:
    unit = lp.rename_argument(lp.merge([lp.make_kernel("{[k]: 0<=k<4}", "y[:] = f(x[:])", [
        lp.GlobalArg("x, y", shape=(4,))]), lp.make_function("{[i]: 0<=i<4}", "b[i] = 2*a[i]", name="f")])[
            "loopy_kernel"], "x", "source")
    unit = lp.merge([unit, lp.make_function("{[i]: 0<=i<4}", "b[i] = 3*a[i]", name="f")])
    assert "y[i] = 3*source[i]  {id=f_insn}" in statements(unit)


def test_callables_get_other_names() -> None:
    unit = lp.rename_callable(counted(), "count", "numbers")
    unit = lp.assume(unit, "m <= 20")
    assert sorted(unit.kernels) == ["loopy_kernel", "numbers"]
    assert "# [k]: y[k] = numbers(m)" in statements(unit)
    assert "count_0" in lp.rename_callable(counted(), "count").kernels
    with pytest.raises(lp.LoopyError, match="'loopy_kernel' already"):
        lp.rename_callable(unit, "numbers", "loopy_kernel")


# C code

def in_c(text: str, inames: object = "i", **options: object) -> lp.TranslationUnit:
    data = [lp.GlobalArg("x", np.float64, shape=(4,)), lp.GlobalArg("y", np.float64, shape=(4,)),
            lp.TemporaryVariable("t", np.float64), lp.ValueArg("n", np.int32), lp.GlobalArg("z", np.float64)]
    return lp.make_kernel(
        "{[i]: 0<=i<4}", [lp.CInstruction(inames, text, id="code", **options),
                          lp.Assignment("z[i]", "t + x[i]", depends_on="code")], data, target=HOST,
        preambles=[("2", "#define OF(k) SQUARE(k)")],
        preamble_generators=[lambda _: [("1", "#include <string.h>\n#define SQUARE(k) ((k)*(k))")]])


def test_c_code_has_loopys_names() -> None:
    """Scalars, elements, whole arrays, inames and expressions; names in texts stay."""
    unit = in_c('t = x[i]*n; y[i] = x[0] + twice + strlen("t x i") + OF(i);', inames=["i", ("twice", "2*i")],
                read_variables=["n", "x"], assignees=["t", "y[i]"])
    x, i = np.array([1., 2, 3, 4]), np.arange(4)
    _, (y, z) = unit(x=x, n=3)
    assert y.tolist() == (x[0] + 2*i + 5 + i*i).tolist()
    assert z.tolist() == (4*x).tolist()


@pytest.mark.parametrize(("text", "options", "message"), [
    ("t = x[i];", {"assignees": "t"}, r"names 'x' in its code.*\n.*\n.*read_variables="),
    ("t = z[i];", {"assignees": "t", "read_variables": ["z"]}, "'z', whose shape is not declared"),
    ("continue;", {}, "ends an iteration"),
    ("y[0] = 1; t = 2;", {"assignees": ["y[i]", "t"]}, "names 'y' in its code")])
def test_undeclared_accesses_are_undecided(text: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(lk.UndecidedError, match=message):
        in_c(text, **options)


def test_a_break_ends_the_loop_of_the_statements_that_depend_on_it() -> None:
    def stopping(*others: object, inames: object = "i") -> lp.TranslationUnit:
        data = [lp.GlobalArg("x", np.float64), lp.GlobalArg("z", np.float64), lp.GlobalArg("last", np.int32), "..."]
        return lp.make_kernel("{[i,j]: 0<=i<4 and 0<=j<2}", [
            lp.CInstruction(inames, "break;", id="stop", predicates={"x[i] < 0"}), *others], data, target=HOST)
    unit = stopping("z[i] = 2*x[i] {id=z, dep=stop}", "last[0] = i {dep=stop:z}")
    _, (z, last) = unit(x=np.array([1., 2., -1., 3.]))
    assert (z.tolist(), last.tolist()) == ([2, 4, 0, 0], [1])
    for others, message in ((["z[i] = x[i]"], "that of 'z"), (["last[0] = 1 {dep=stop}"], "that of 'last"),
                            ([lp.CInstruction("i", "f();", id="f", depends_on="stop")], "that of 'f'")):
        with pytest.raises(lk.UndecidedError, match=message):
            stopping(*others)
    with pytest.raises(lk.UndecidedError, match=r"which loop the C instruction 'stop' ends.*\n.*i, j"):
        stopping(inames=["i", "j"])


def test_side_effects_keep_their_order(capfd: pytest.CaptureFixture[str]) -> None:
    """Code without assignees, a function without a result, and a kernel without results, in one program."""
    printing = lp.make_function("{:}", [lp.CInstruction("", 'printf("f %d ", m);', ["m"], ())],
                                [lp.ValueArg("m", np.int32)], name="printing",
                                preambles=[("1", "#include <stdio.h>")])
    unit = lp.make_kernel("{[i,j]: 0<=i<2 and 0<=j<2}", [
        "for i", lp.CInstruction("i", r'printf("%d: ", (int) i);', id="a"),
        "put(x[i], 1) {id=b, dep=a}", "printing(i) {id=c, dep=b}",
        lp.CallInstruction((), "put(sum(j, x[j]), i)", id="d", depends_on="c", predicates={"i >= 1"}), "end"],
        target=HOST, preambles=[("1", "#include <stdio.h>")])

    class Put(lp.ScalarCallable):
        def with_types(self, arg_id_to_dtype: dict[int, object], context: object) -> tuple[object, object]:
            if arg_id_to_dtype[0].numpy_dtype != np.float64:                                   # type: ignore[attr-defined]
                raise RuntimeError("only float64")
            return self.copy(name_in_target="put_it", arg_id_to_dtype=dict(arg_id_to_dtype)), context

        def generate_preambles(self, target: object) -> list[tuple[str, str]]:
            assert isinstance(target, lp.ExecutableCTarget)
            return [("2", 'static void put_it(double x, int k) { printf("%g %d ", x, k); }')]

    with pytest.raises(lp.LoopyError, match="'put' is not a function"):
        lp.generate_code_v2(unit)
    unit = lp.add_dtypes(lp.register_callable(lp.merge([unit, printing]), "put", Put("put")), {"x": np.float64})
    unit(x=np.array([0.5, 2]))
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out.split() == ["0:", "0.5", "1", "f", "0", "1:", "2", "1", "f", "1", "2.5", "1"]
    with pytest.raises(lk.IllegalTransformError, match="c_effects"):
        lk.tag_inames(unit["loopy_kernel"].core, "i:g.0")


def test_names_of_the_layer_are_not_those_of_the_user() -> None:
    with pytest.raises(lp.LoopyError, match="needs the name 'code_i'"):
        in_c("t = i;", assignees="t", inames=["i", ("k", "code_i")])
    with pytest.raises(lp.LoopyError, match="needs the name 'c_effects'"):
        lp.make_kernel("{[i]: 0<=i<4}", [lp.CInstruction("i", "f();"), "<> c_effects = i"])


def test_calls_without_results_are_found() -> None:
    assert call_alone("  f(a[i, :], g(2)) {dep=x} # why") == ("f", "a[i, :], g(2)", "dep=x")
    assert [call_alone(line) for line in ("f(x) := x", "y = f(x)", "f(x) + 1", "f(", "y[i] = 1")] == [None]*5


def test_symbols_of_c() -> None:
    unit = lp.make_kernel("{[i]: 0<=i<2}", "y[i] = 2*X + i", [lp.GlobalArg("y", shape=lp.auto)], target=HOST)
    with pytest.raises(lp.LoopyError, match="'X' is not an argument"):
        lp.generate_code_v2(unit)
    unit = lp.register_symbol_manglers(unit, [
        lambda _, name: (lp.NumpyType(np.float32), "HALF") if name == "X" else None])
    unit = lp.register_preamble_generators(unit, [lambda _: [("1", "#define HALF 0.5f")]])
    _, (y,) = unit()
    assert y.tolist() == [1, 2]
    assert y.dtype == np.float32


class OfDoubles(lp.ScalarCallable):
    """A function with a fault of its own for other dtypes than float64."""

    def with_types(self, arg_id_to_dtype: dict[int, object], context: object) -> tuple[object, object]:
        if arg_id_to_dtype[0].numpy_dtype != np.float64:                                       # type: ignore[attr-defined]
            raise ZeroDivisionError("a fault of the user")
        return self.copy(name_in_target="floor", arg_id_to_dtype={
            0: arg_id_to_dtype[0], -1: lp.NumpyType(np.int32)}), context


def test_a_fault_of_the_user_reaches_the_user() -> None:
    unit = lp.register_callable(lp.make_kernel("{[i]: 0<=i<n}", "y[i] = low(x[i])"), "low", OfDoubles("low"))
    with pytest.raises(ZeroDivisionError, match="a fault of the user"):
        lp.generate_code_v2(lp.add_dtypes(unit, {"x": np.float32}))
    good = lp.add_and_infer_dtypes(unit, {"x": np.float64})
    assert good["loopy_kernel"].arg_dict["y"].dtype.numpy_dtype == np.int32


def test_the_statements_of_a_random_number_have_the_inames_of_their_call() -> None:
    """The counter alone depends on no iname but that of its first writer."""
    unit = lp.make_kernel("{[i]: 0<=i<n}", """
        <> key = make_uint2(i, 32)
        <> ctr = make_uint4(0, 1, 2, 3) {inames=i, id=first}
        <> real, ctr = philox4x32_f32(ctr, key) {id=number, dep=first}
        out[i] = real.s0 {dep=number}""", target=lp.ExecutableCTarget())
    assert unit.default_entrypoint.core.statements_text.count("for i") == 1



# Random numbers, and names

@pytest.mark.parametrize(("name", "kind"), [("philox", ""), ("threefry", "_f32"), ("philox", "_f64")])
def test_random_numbers_are_those_of_random123(name: str, kind: str) -> None:
    words = ["i", "7", "4294967295", "1"][:2 if name == "philox" else 4]
    unit = lp.make_kernel("{[i]: 0<=i<3}", f"""
        <> key = make_uint{len(words)}({', '.join(words)}) {{inames=i}}
        <> counter = make_uint4(4294967295, 4294967295, 2, 3) {{inames=i, id=start}}
        <> real, counter = {name}4x32{kind}(counter, key) {{id=random, dep=start}}
        y[i, 0] = real.s0 {{dep=random}}
        y[i, 1] = real.s3 {{dep=random}}
        z[i] = counter.s2 {{dep=random}}
        """, [lp.GlobalArg("y", np.float64, shape=(3, 2)), lp.GlobalArg("z", np.uint32, shape=(3,)), "..."])
    y, z = written(unit, "y"), written(unit, "z")
    for i in range(3):
        key = (i, 7, 2**32 - 1, 1)

        def drawn(*counter: int, key: tuple[int, ...] = key) -> np.ndarray:
            found = philox_words(key[0] | key[1] << 32, counter[0] | counter[1] << 32, counter[2] | counter[3] << 32) \
                if name == "philox" else threefry_words(key, counter)
            return np.array(found, np.uint32)[[0, 3]]
        first = drawn(2**32 - 1, 2**32 - 1, 2, 3)
        wanted = {"": first, "_f32": first.astype(np.float32)*np.float32(2**-32),
                  "_f64": first*2.**-32 + drawn(0, 0, 3, 3)*2.**-64}[kind]
        assert [y[i, 0], y[i, 1]] == wanted.tolist()
        assert z[i,] == 3
    with pytest.raises(lp.LoopyError, match="loopkit has no"):
        lp.make_kernel("{[i]: 0<=i<3}", "<> c = make_uint2(0, 1)\n<> v, c = philox2x64(c, c)\ny[i] = v.s0")


def test_fields_of_structs_are_assigned() -> None:
    """Adjacent assignments are one, also for dependences; other fields keep their values."""
    box = np.dtype([("low", np.float32), ("high", np.float32), ("at", np.int32)])
    unit = lp.make_kernel("{[i]: 0<=i<n}", """
        for i
            r[i].at = i % 2 {id=first}
            r[i].low = x[i]/4 {id=second, nosync_query=writes:r}
            r[i].high = 2.5 {id=third}
            p[i].low = p[i].low + 1 {id=low}
            p[i].high = p[i].low {id=own, dep=third:low}
        end
        """, [lp.GlobalArg("r", box, shape=("n",)), lp.GlobalArg("p", box, shape=("n",)), "..."], target=HOST)
    assert sum("make_tuple" in line for line in statements(unit)) == 3
    p = np.array([(1, 2, 3), (4, 5, 6)], box)
    _, (r, p) = unit(p=p, x=np.array([2, 6], np.int32))
    assert p.tolist() == [(2, 2, 3), (5, 5, 6)]
    assert r.tolist() == [(0.5, 2.5, 0), (1.5, 2.5, 1)]


def test_names_of_functions_that_are_not_called() -> None:
    unit = lp.make_kernel("{[i]: 0<=i<2}", "exp[i] = pow(E, z[i])", target=HOST)
    _, (own,) = unit(E=2., z=np.array([1., 3]))
    assert own.tolist() == [2, 8]
    both = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<2}", "exp[i] = exp(z[i])"), {"z": np.float64})
    with pytest.raises(lk.NameConflictError, match="'exp' is an array or a number, and also a function"):
        lk.generate_code(both, "c")


def test_expressions_have_any_functions() -> None:
    assert str(lp.symbolic.parse("f(1, g(2)) + sum([i, j], x[i, j])")) == "f(1, g(2)) + sum([i, j], x[i, j])"
    assert isinstance(lp.symbolic.parse("reduce(argmax, i, reduce(argmax, j, i, j))").expr, lp.Reduction)


def test_a_ring_turns_over_threads() -> None:
    text = "for i\n<> t = a[i] {id=get, dep=*}\n%s\na[(i+1) % n] = t {id=put, dep=*%s}\nend"
    def turned(*parts: str) -> lp.TranslationUnit:
        unit = lp.make_kernel("{[i]: 0<=i<n}", text.replace("% n", "%% n") % parts,
                              [lp.GlobalArg("a", np.int32, "n"), ...], target=HOST)
        return lp.split_iname(unit, "i", 4, outer_tag="g.0", inner_tag="l.0")
    with pytest.raises(lk.IllegalTransformError, match=r"writes a\[1\], which get"):
        turned("", "get")
    unit = turned("... gbarrier {id=all, dep=*get}", "all")
    assert "None" not in str(unit)
    _, (a,) = unit(a=np.arange(6, dtype=np.int32))
    assert a.tolist() == [5, 0, 1, 2, 3, 4]
