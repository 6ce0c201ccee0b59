"""Tuples in the text: their forms, their dtypes, multiple assignment, and what is refused."""
from __future__ import annotations

from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.expr.kinds import struct_of
from loopkit.expr.nodes import MakeTuple, to_text
from loopkit.expr.parsing import KnownNames, parse_expression
from loopkit.expr.tuples import STRUCT, struct_dtype, struct_name, tuple_dtype
from loopkit.interpreter.instances import reference_order
from loopkit.lowering.types import infer_types
from loopkit.runtime.cuda.memory import export_capsule
from loopkit.runtime.rounding import error_bound
from loopkit.runtime.views import ArrayView
from tests.interpreter.test_machine import ran
from tests.nvrtc import compile_cuda

PAIR = np.dtype([("value", np.float32), ("index", np.int32)])


def kernel(text: str, domain: str = "{[i, j]: 0<=i<n and 0<=j<m}") -> lk.LoopKernel:
    return lk.make_kernel(domain, text, [lk.GlobalArg("s", PAIR), "..."])


@pytest.mark.parametrize("text", [
    "make_tuple(x, 2)", "make_tuple(value=x, index=2*k)", "t.value", "t[k].value + u.f0", "(x + 1).f0",
    "argmin(k, x[k], k)", "argmax([k, l], x[k, l], k).index", "segmented(sum)(k, x[k], y[k])", "argmin(t, u)",
    "argmin(k, x[k], k).value**2", "segmented(max)(t, make_tuple(value=x, flag=1))"])
def test_the_text_is_read_back(text: str) -> None:
    known = KnownNames(("k", "l"))
    assert to_text(parse_expression(text, known=known)) == text


@pytest.mark.parametrize(("text", "same"), [
    ("argmin(k, x[k])", "argmin(k, x[k], k)"), ("reduce(argmin, k, x[k], k)", "argmin(k, x[k], k)"),
    ("reduce(argmin, k, (x[k], k))", "argmin(k, x[k], k)"), ("(x, y)", "make_tuple(x, y)"),
    ("reduce(segmented(sum), k, x[k], y[k])", "segmented(sum)(k, x[k], y[k])"),
    ("argmax(k, argmax(l, x[k, l], k))", "argmax(k, argmax(l, x[k, l], k))"),
    ("argmin((k, l), x[k, l], k)", "argmin([k, l], x[k, l], k)"),
    ("reduce(argmin, (k, l), (x[k, l], k))", "argmin([k, l], x[k, l], k)"),
    ("simul_reduce(argmin, (k,), x[k])", "argmin(k, x[k], k)"), ("argmin((), (x, y))", "make_tuple(value=x, index=y)"),
    ("(x, 2) if y else (2, x)", "if(y, make_tuple(x, 2), make_tuple(2, x))")])
def test_other_forms(text: str, same: str) -> None:
    known = KnownNames(("k", "l"))
    assert parse_expression(text, known=known) == parse_expression(same, known=known)


def test_fields_are_substituted_and_compared() -> None:
    made = parse_expression("make_tuple(value=x, index=i)")
    assert made == MakeTuple(("value", "index"), (p.Variable("x"), p.Variable("i")))
    assert made != parse_expression("make_tuple(value=x, place=i)")


@pytest.mark.parametrize("fields", [("a", "b"), ("a_b", "c"), ("a", "b_c"), ("n", "mean", "m2"), ("f0", "f1")])
def test_a_struct_has_one_name(fields: tuple[str, ...]) -> None:
    dtype = tuple_dtype(fields, map(np.dtype, ("int8", "complex64", "bool", "float16")))\
        if len(fields) == 4 else tuple_dtype(fields, [np.dtype("int8"), *[np.dtype("complex64")]*(len(fields) - 1)])
    assert STRUCT.fullmatch(struct_name(dtype))
    assert struct_dtype(struct_name(dtype)) == dtype


@pytest.mark.parametrize(("text", "dtype"), [
    ("make_tuple(value=1.5f, index=i)", PAIR), ("argmin(j, s[j].value)", PAIR), ("s[i]", PAIR),
    ("if(i > 0, s[i], make_tuple(value=0.5f, index=2))", PAIR), ("argmin(s[i], s[0])", PAIR),
    ("s[i].value*2", "float32"), ("segmented(sum)(j, s[j].index > 1, 1)", [("value", "i4"), ("flag", "i4")]),
    ("make_tuple(2, 1.5)", [("f0", "i4"), ("f1", "f8")])])
def test_dtypes(text: str, dtype: object) -> None:
    found = infer_types(kernel(f"y[i] = {text}"))
    assert found.argument_by_name["y"].dtype == np.dtype(dtype, align=True)         # type: ignore[call-overload]


@pytest.mark.parametrize(("text", "message"), [
    ("y[i] = s[i] + 1", "no common dtype"), ("y[i] = s[i].foo", "no field 'foo'"), ("y[i] = -s[i]", "no common"),
    ("y[s[i]] = 1.0", "used as a number"), ("y[i] = s[i].value.f0", "A number of dtype float32 has no field"),
    ("y[i] = sum(j, s[j])", "used as a number"), ("y[i] = argmin(j, s[j])", "The field 'value' of a tuple is a tuple"),
    ("y[i] = argmin(j, 1j*s[j].value)", "is complex"), ("y[i] = if(i > 0, s[i], 2)", "no common dtype"),
    ("y[i] = s[i]\ny[i] = make_tuple(a=1, b=2)", "no common dtype"),
    ("y[i] = segmented(sum)(j, s[j].value, 0.5)", "The flag of 'segmented\\(sum\\)'"),
    ("y[i] = segmented(sum)(j, s[j])", "combines tuples with the fields value, flag"),
    ("y[i] = min(s[i], s[0])", "used as a number"), ("y[i] = s[i] {if=s[i]}", "used as a number")])
def test_refused_dtypes(text: str, message: str) -> None:
    with pytest.raises(lk.TypeInferenceError, match=message):
        lk.generate_code(kernel(text), target="c")


@pytest.mark.parametrize(("text", "message"), [
    ("a, b = s[i]", "2 targets are assigned no tuple"), ("a, b = 1, 2, 3", "2 targets are assigned a tuple of 3"),
    ("a, b = argmin(j, s[j].value, j, 1)", "combines tuples of 2 values, not of 3"), ("a, b += 1, 2", r"at '\+='"),
    ("a[i], b[i] = 1, 2 {atomic}", "An atomic assignment of several values keeps"),
    ("a[i], b[i] = b[i], 2 {atomic}", "expected 'old, h"), ("y[i] = make_tuple(1)", "not a tuple"),
    ("y[i] = make_tuple(a=1, 2)", "not a tuple"), ("y[i] = make_tuple(a=1, a=2)", "named twice"),
    ("y[i] = make_tuple(x_f32=1, b=2)", "has the part 'f32'"), ("y[i] = segmented(foo)(j, 1, 2)", "segmented"),
    ("s[i].value = 1", r"s\[i\] = make_tuple\(value=..., other=s\[i\].other\)"),
    ("x_f32_i32[i] = 1", "is used in generated code")])
def test_refused_texts(text: str, message: str) -> None:
    with pytest.raises(lk.LoopkitError) as caught:
        kernel(text)
    caught.match(message)


def test_a_field_that_c_reserves() -> None:
    with pytest.raises(lk.NameConflictError, match="The field 'double' of a tuple is a reserved word"):
        lk.generate_code(kernel("<> t = make_tuple(double=1, x=2)\ny[i] = t.x"), target="c")


@pytest.mark.parametrize("dtype", [[("a", "i1"), ("b", "f4")], [("a", "i1")], [("a", PAIR), ("b", "f4")]])
def test_refused_structs(dtype: object) -> None:
    with pytest.raises(lk.PreconditionError, match="cannot have the dtype"):
        lk.make_kernel("{[i]: 0<=i<n}", "y[i] = t[i].a", [lk.GlobalArg("t", dtype), "..."])     # type: ignore[arg-type]
    with pytest.raises(lk.PreconditionError, match="cannot be a tuple"):
        lk.make_kernel("{[i]: 0<=i<n}", "y[i] = t.value", [lk.ValueArg("t", PAIR), "..."])


# Multiple assignment

def test_the_statements_of_a_multiple_assignment() -> None:
    knl = kernel("a[i], <> k = argmin(j, x[i, j])  {id=S, tags=t}\nb[i] = k  {dep=S}")
    assert [s.id for s in knl.instructions] == ["S", "S_0", "S_1", "insn"]
    assert [sorted(s.tags) for s in knl.instructions[:3]] == [["t"]]*3
    assert knl.statements_text == (
        "for i\n  <> a_k = argmin(j, x[i, j], j)  {id=S, tags=t}\n  a[i] = a_k.value  {id=S_0, tags=t}\n"
        "  <> k = a_k.index  {id=S_1, tags=t}\n  b[i] = k  {id=insn, dep=S}\nend")
    again = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", knl.statements_text)
    assert again.statements_text == knl.statements_text


def test_all_values_come_before_all_writes() -> None:
    """As in Python, with subscripts, conditions and names that the first target writes."""
    knl = kernel("a[i], a[n - 1 - i], i2[i] = a[n - 1 - i], a[i], i  {if=2*i < n - 1}\n"
                 "b[i], last = a[i], b[i]", "{[i]: 0<=i<n}")
    a, b = np.arange(5.0), np.full(5, 7.0)
    got = lk.compile(knl, "c")(a=a, b=b).asdict()
    np.testing.assert_array_equal(got["a"], np.arange(5.0)[::-1])
    np.testing.assert_array_equal(got["b"], got["a"])
    assert got["i2"].tolist() == [0, 1]
    assert got["last"] == 7


def test_the_temporary_has_a_new_name() -> None:
    assert list(kernel("a[i], b[i] = a_b[i], 1", "{[i]: 0<=i<n}").temporaries) == ["a_b_0"]


def test_every_statement_has_the_inames_of_all() -> None:
    knl = kernel("a[i], c[j] = 1, 2\nfor i\n d[i], <> t = x[i, j], 3\nend")
    assert {s.inames for s in knl.statements} == {("i", "j")}


def test_a_condition_is_evaluated_once() -> None:
    knl = kernel("a[i], b[i] = b[i], a[i]  {if=a[i] > 0}", "{[i]: 0<=i<n}")
    a, b = np.array([1.0, -2.0, 3.0]), np.array([-10.0, -20.0, -30.0])
    lk.compile(knl, "c")(a=a, b=b)
    assert (a.tolist(), b.tolist()) == ([-10, -2, -30], [1, -20, 3])


def test_options_of_blocks_around_a_multiple_assignment() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<2}", """
        s[i] = x[i] {groups=g, id=s}
        with {dep=s, tags=t, id_prefix=w, inames=+j}
            with {if=c[i] > 0}
                a[i,j], c[i] = 3*c[i], -1 {conflicts=g, tags=u, priority=2}
            end
            d[i,j], e[i,j] = s[i] & 1, ~s[i] if s[i] > 1 else j << 2 {id=q, nosync=w*@any}
        end
        """, [lk.GlobalArg("x", np.int32), "..."])
    assert [s.id for s in knl.statements] == ["s", "insn_cond", "w", "w_0", "w_1", "q", "q_0", "q_1"]
    own = [(s.inames, s.options.tags, s.options.depends_on) for s in knl.statements if s.id[0] in "wq"]
    assert own == [(("i", "j"), tags, {"s"}) for tags in [{"t", "u"}]*3 + [{"t"}]*3]
    assert knl.statement("q_0").options.no_sync_with == {"w", "w_0", "w_1"}
    x, c, a = np.array([0, 1, 2], np.int32), np.array([2.0, -1.0, 4.0]), np.zeros((3, 2))
    got = lk.compile(knl, "c")(x=x, c=c, a=a)
    assert a.tolist() == [[6, 0], [0, 0], [12, 0]]
    assert (c.tolist(), got.d[:, 0].tolist()) == ([-1, -1, -1], [0, 1, 0])
    assert got.e.tolist() == [[0, 4], [0, 4], [-3, -3]]


def test_the_statements_share_private_inames() -> None:
    """``if=`` and the operands of all statements have the copies; a block around them cannot."""
    knl = kernel("f(r) := argmin(j, x[r, j])\n"
                 "a[i], b[i] = (b[i], f(i).index) if i > 0 else (1, 7) {dup=i->k:j, if=a[i] > 0, id=S}\nc[i] = a[i]")
    assert knl.statements_text == (
        "for k\n  <bool> cond = a[k] > 0  {id=insn_cond}\n"
        "  <> a_b = if(k > 0, make_tuple(b[k], argmin(j_0, x[k, j_0], j_0).index), make_tuple(1, 7))  {id=S, if=cond}\n"
        "  a[k] = a_b.f0  {id=S_0, if=cond}\n  b[k] = a_b.f1  {id=S_1, if=cond}\nend\n"
        "for i\n  c[i] = a[i]  {id=insn}\nend")
    with pytest.raises(lk.ParseError, match="A block around the statement is over 'i'"):
        kernel("if a[i] > 0\n a[i], b[i] = b[i], a[i] {dup=i}\nend")


def test_functions_of_the_user_in_tuples() -> None:
    root = lk.ScalarFunction("root", 1, "float", {"c": {"float32": "sqrtf", "float64": "sqrt"}, "cuda": "sqrt"},
                             reference=np.sqrt)
    twice = lk.ScalarFunction("twice", 1, "promoted", {"c": "2*{0}", "cuda": "dup_of"}, reference=lambda x: 2*x,
                              preamble={"cuda": "template <typename T>\n__device__ T dup_of(T x) { return 2*x; }"})
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", """
        f(r) := root(y[r])
        a[i], b[i] = argmax(j, -root(x[i,j]), twice(j))
        c[i], d[i] = f(i), twice(b[i])
        """, [lk.GlobalArg("x", np.float32), lk.GlobalArg("y", np.int32), "..."], functions=[root, twice])
    x, y = np.array([[4, 1, 9], [1, 4, 1]], np.float32), np.array([16, 25], np.int32)
    plain = ran(knl, {"x": x, "y": y, "m": 3, "n": 2}, reference_order)
    mapped = lk.split_iname(lk.tag_inames(knl, "i:g.0"), "j", 2, inner_tag="l.0")
    got = lk.compile(mapped, "c")(x=x, y=y).asdict()
    for name, want in {"a": [-1, -1], "b": [2, 0], "c": [4, 5], "d": [4, 0]}.items():
        assert got[name].tolist() == want == [plain.cells[name, (k,)] for k in range(2)]
    compile_cuda(str(lk.generate_code(mapped, target="cuda")))


@pytest.mark.parametrize("dtypes", [{"float64": PAIR}, lambda _: "pair"])
def test_functions_of_the_user_are_of_numbers(dtypes: Any) -> None:
    with pytest.raises((lk.PreconditionError, lk.TypeInferenceError), match=r"dtypes= .* not .* of numbers"):
        infer_types(lk.make_kernel("{[i]: 0<=i<n}", "a[i] = f(x[i])", [lk.GlobalArg("x", np.float64), "..."],
                                   functions=[lk.ScalarFunction("f", 1, dtypes)]))
    with pytest.raises(lk.TypeInferenceError, match=r"A tuple .* is used as a number"):
        infer_types(lk.make_kernel("{[i]: 0<=i<n}", "a[i] = f(s[i])", [lk.GlobalArg("s", PAIR), "..."],
                                   functions=[lk.ScalarFunction("f", 1)]))


def test_rules_that_hold_reductions_over_tuples() -> None:
    text = "f(r) := argmin(j, x[r,j])\na[i] = f(i).value + f(i).index"
    knl = lk.make_kernel("{[i, j]: 0<=i<4 and 0<=j<m}", text, [lk.GlobalArg("x", np.int32), "..."])
    made = lk.precompute(knl, "f", "i", default_tag=None)
    assert "f_0[f_dim_0] = argmin(j, x[f_dim_0, j], j)" in made.statements_text
    assert "a[i] = f_0[i].value + f_0[i].index" in made.statements_text
    x = np.random.default_rng(3).integers(0, 5, (4, 6)).astype(np.int32)
    assert lk.compile(made, "c")(x=x).a.tolist() == (x.min(1) + x.argmin(1)).tolist()
    plain = lk.make_kernel("{[i, j]: 0<=i<4 and 0<=j<m}", "a[i], b[i] = argmin(j, x[i,j])")
    assert "<> a_b = best(i)" in lk.extract_subst(plain, "best", "reduce(argmin, j, (x[r,j], j))", "r").statements_text


def test_nothing_to_combine() -> None:
    """Operations that change a single operand, as these do, need an iname."""
    half = lk.ReductionOperation("halved", "a + b/2")
    for text in ("a = halved((), x)", "a, b = segmented(sum)((), x, 2)"):
        with pytest.raises(lk.ParseError, match="is over no iname"):
            lk.make_kernel("{:}", text, reductions=[half])


# Arrays of structs

@pytest.mark.parametrize("fields", [
    [("a", "f8"), ("b", "i1")], [("a", "i1"), ("z", "c8")], [("a", "f4"), ("z", "c16"), ("b", "?")]])
def test_structs_in_a_script(fields: list[tuple[str, str]]) -> None:
    """Complex numbers are aligned to their size, as CUDA aligns them, which numpy does not do."""
    dtype = struct_of(fields)
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = t[i]"), {"t": dtype})
    space: dict[str, object] = {"lk": lk, "np": np}
    exec(str(knl.history), space)
    assert space["knl"] == knl
    t = np.zeros(3, dtype)
    t["a"] = [1, 2, 3]
    assert lk.compile(knl, "c")(t=t).y.tolist() == t.tolist()


def test_arrays_of_structs() -> None:
    plain = kernel("z[i] = make_tuple(value=s[i].value + 1, index=s[i].index*i)", "{[i]: 0<=i<n}")
    s = np.zeros(5, PAIR)
    s["value"], s["index"] = np.arange(5), 7
    z, = lk.compile(plain, "c")(s=s[::-1][::2])
    assert z.dtype == PAIR
    assert z.tolist() == [(5.0, 0), (3.0, 7), (1.0, 14)]
    report = lk.check_equivalent(plain, lk.split_iname(plain, "i", 2, outer_tag="g.0", inner_tag="l.0"), {"n": 7})
    assert [o.name for o in report.outputs] == ["z.value", "z.index"]
    bound = error_bound(infer_types(plain), {"n": 5})
    assert bound.precision is not None
    assert bound.precision.name == "float32"
    with pytest.raises(lk.EquivalenceError, match=r"z\.index"):
        lk.check_equivalent(plain, kernel("z[i] = make_tuple(value=s[i].value + 1, index=s[i].index)",
                                          "{[i]: 0<=i<n}"), {"n": 7})


def test_structs_stay_out_of_other_libraries() -> None:
    with pytest.raises(BufferError, match="DLPack has no arrays of structs"):
        export_capsule(ArrayView(PAIR, (3,), (8,), 0, 0), None)


# Operations of the user

@pytest.mark.parametrize(("arguments", "message"), [
    ({"combine": {"n": "a.n + b.n", "m": "a.k"}, "neutral": {"n": 0, "m": 0}}, "reads the field 'k'"),
    ({"combine": {"n": "a + b.n", "m": "a.m"}, "neutral": {"n": 0, "m": 0}}, "computes a field from a whole operand"),
    ({"combine": {"n": "a.n"}, "neutral": {"n": 0, "m": 0}}, "the field 'm' only in one of"),
    ({"combine": {"n": "a.n", "m": "a.m"}, "neutral": 0}, "combines fields, but starts from a number"),
    ({"combine": "a", "neutral": {"n": 0}}, "is its only one"), ({"combine": "a.n"}, "no fields"),
    ({"combine": "a", "neutral": {"n": 0, "x_i8": 1}}, "has the part 'i8'"),
    ({"combine": "a", "neutral": {"n": 0, "m": "1"}}, "must be a number"),
    ({"combine": "if(b.v < a.v, b, a)", "neutral": {"v": 0, "k": 0}, "reorderable": True}, "is not reorderable: f"),
    ({"combine": {"v": "if(b.k, b.v, a.v + b.v)", "k": "a.k or b.k"}, "neutral": {"v": 0, "k": 0},
      "reorderable": True}, "is not reorderable")])
def test_refused_operations(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(lk.PreconditionError, match=message):
        lk.ReductionOperation("f", **arguments)                                     # type: ignore[arg-type]


def test_operations_on_tuples_are_values() -> None:
    def operation(m: str, start: float = 0) -> lk.ReductionOperation:
        return lk.ReductionOperation("f", {"m": m, "n": "a.n + b.n"}, neutral={"n": start, "m": 1})
    assert operation("a.m*b.m") == operation("a.m*b.m")
    assert len({operation("a.m*b.m"), operation("a.m*b.m"), operation("a.m"), operation("a.m*b.m", 1)}) == 3
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y = f(i, 1, x[i])", reductions=[operation("a.m*b.m")])
    space: dict[str, object] = {"lk": lk, "np": np}
    exec(str(knl.history), space)
    assert space["knl"] == knl
    assert infer_types(lk.add_dtypes(knl, {"x": np.int8})).argument_by_name["y"].dtype == np.dtype(
        [("n", np.int32), ("m", np.int8)], align=True)


# Arithmetic of declared tuples

FLOAT4 = np.dtype([((name, f"s{k}"), np.float32) for k, name in enumerate("xyzw")])


def vectors(random: np.random.Generator, *shape: int) -> np.ndarray:
    data = np.zeros(shape, FLOAT4)
    for name in "xyzw":
        data[name] = random.integers(-5, 6, shape)
    return data


def test_arithmetic_of_vectors_is_that_of_their_fields() -> None:
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", """
        f(i) := x[i]*y[i]
        z[i] = a*x[i] + 2*y[i]
        <> t = sum(k, d[i, k]*x[i])
        u[i] = dot(t, y[i]) + t.s0 + (x[i] - y[i]).y
        e[i] = f(i) if u[i] > 0 else x[i]
        g[i] = -x[i]*fabs(y[i])
        """, [lk.GlobalArg("x,y,z,e,g", FLOAT4, ("n",)), lk.GlobalArg("a", FLOAT4, ()),
              lk.GlobalArg("d", np.float32), "..."])
    assert not knl.obligations
    random = np.random.default_rng(0)
    x, y, a = vectors(random, 5), vectors(random, 5), vectors(random)
    d = random.integers(0, 4, (5, 3)).astype(np.float32)
    out = knl(x=x, y=y, a=a, d=d)
    t = {c: d.sum(axis=1)*x[c] for c in "xyzw"}
    u = sum(t[c]*y[c] for c in "xyzw") + t["x"] + x["y"] - y["y"]
    assert out.u.tolist() == u.tolist()
    assert out.z.dtype == FLOAT4
    for c in "xyzw":
        assert out.z[c].tolist() == (a[c]*x[c] + 2*y[c]).tolist()
        assert out.e[c].tolist() == np.where(u > 0, x[c]*y[c], x[c]).tolist()
        assert out.g[c].tolist() == (-x[c]*abs(y[c])).tolist()


@pytest.mark.parametrize(("text", "error"), [
    ("z[i] = x[i] + p[i]", "combines tuples with the fields s0, s1, s2, s3 and others"),
    ("y[i] = dot(q[i], 2)", "is not of vectors"), ("y[i] = x[i].t", "has no field 't'"),
    ("y[i] = dot(x[i])", "takes 2 arguments"), ("w[i] = x[i]*2", "no common dtype")])
def test_wrong_arithmetic_of_vectors_is_refused(text: str, error: str) -> None:
    pair = np.dtype([("a", np.float32), ("b", np.float32)])
    data = [lk.GlobalArg("x,z", FLOAT4), lk.GlobalArg("p", pair), lk.GlobalArg("q,w,y", np.float32), "..."]
    with pytest.raises(lk.LoopkitError, match=error):
        lk.generate_code(lk.make_kernel("{[i]: 0<=i<n}", text, data), target="c")


def test_vectors_go_through_shared_memory() -> None:
    data = [lk.GlobalArg("a,b,c", FLOAT4, (16, 16))]
    plain = lk.make_kernel("{[i, j, k]: 0<=i,j,k<16}", "c[i, j] = sum(k, a[i, k]*b[k, j])", data, name="matmul")
    knl = lk.tag_inames(lk.split_iname(plain, "k", 4), "i:l.1, j:l.0")
    knl = lk.add_prefetch(knl, "a", ["i", "k_inner"], default_tag="l.auto")
    assert lk.verify(knl).verdict is lk.Verdict.PROVEN
    lk.check_equivalent(plain, knl, target="c")
