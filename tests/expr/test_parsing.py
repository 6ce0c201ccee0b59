"""Text to expressions: precedence, normal forms, reductions, literals, and the printer's inverse."""
from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pymbolic.primitives as p
import pytest
from hypothesis import example, given, reject, settings

from loopkit.errors import ParseError, UnknownNameError
from loopkit.expr.mappers import has_reduction, map_children, subexpressions, substitute, variables
from loopkit.expr.nodes import Reduction, TypeCast, to_text
from loopkit.expr.parsing import KnownNames, parse_expression

a, b, c, i, j, x, y = map(p.Variable, "abcijxy")


def read(text: str) -> Any:
    return parse_expression(text, known=KnownNames({"i", "j"}, {"f": 1, "g": 0}))


@pytest.mark.parametrize(("text", "expected"), [
    ("1 + 2*x", p.Sum((1, p.Product((2, x))))),
    ("a + b + c", p.Sum((a, b, c))),
    ("a + (b + c)", p.Sum((a, p.Sum((b, c))))),
    ("a - b", p.Sum((a, p.Product((-1, b))))),
    ("a - 1", p.Sum((a, -1))),
    ("a - 2*b", p.Sum((a, p.Product((-2, b))))),
    ("a*b/c", p.Quotient(p.Product((a, b)), c)),
    ("a // b % c", p.Remainder(p.FloorDiv(a, b), c)),
    ("-a*b", p.Product((-1, a, b))),
    ("--a", a),
    ("+a", a),
    ("-x**2", p.Product((-1, p.Power(x, 2)))),
    ("x**-y", p.Power(x, p.Product((-1, y)))),
    ("x**y**2", p.Power(x, p.Power(y, 2))),
    ("a + 1 << b & c", p.BitwiseAnd((p.LeftShift(p.Sum((a, 1)), b), c))),
    ("a | b ^ c & x", p.BitwiseOr((a, p.BitwiseXor((b, p.BitwiseAnd((c, x))))))),
    ("a | b | c", p.BitwiseOr((p.BitwiseOr((a, b)), c))),
    ("a >> b << c", p.LeftShift(p.RightShift(a, b), c)),
    ("~a**2 & -~b", p.BitwiseAnd((p.BitwiseNot(p.Power(a, 2)), p.Product((-1, p.BitwiseNot(b)))))),
    ("a & b == c", p.Comparison(p.BitwiseAnd((a, b)), "==", c)),
    ("a if b else c", p.If(b, a, c)),
    ("a + 1 if b or not c else x if y else 2", p.If(p.LogicalOr((b, p.LogicalNot(c))), p.Sum((a, 1)), p.If(y, x, 2))),
    ("(a if b else c) + 1", p.Sum((p.If(b, a, c), 1))),
    ("if(a, b, c if x else y)", p.If(a, b, p.If(x, c, y))),
    ("a < b", p.Comparison(a, "<", b)),
    ("0 <= x < y", p.LogicalAnd((p.Comparison(0, "<=", x), p.Comparison(x, "<", y)))),
    ("not a == b", p.LogicalNot(p.Comparison(a, "==", b))),
    ("a or b and not c", p.LogicalOr((a, p.LogicalAnd((b, p.LogicalNot(c)))))),
    ("true and False", p.LogicalAnd((True, False))),
    ("a[i]", p.Subscript(a, i)),
    ("a[i, j + 1]", p.Subscript(a, (i, p.Sum((j, 1))))),
    ("a[[2*i + 1]]", p.Subscript(a, p.Sum((p.Product((2, i)), 1)))),
    ("2jf*x", p.Product((TypeCast("complex64", 2j), x))),
    ("a[b[i]]", p.Subscript(a, p.Subscript(b, i))),
    ("if(a > 0, b, c)", p.If(p.Comparison(a, ">", 0), b, c)),
    ("sqrt(x)", p.Call(p.Variable("sqrt"), (x,))),
    ("fma(a, b, c)", p.Call(p.Variable("fma"), (a, b, c))),
    ("f(2)", p.Call(p.Variable("f"), (2,))),
    ("g + g()", p.Sum((p.Call(p.Variable("g"), ()), p.Call(p.Variable("g"), ())))),
    ("cast(float32, x)", TypeCast("float32", x)),
    ("cast(np.int64, x)", TypeCast("int64", x)),
    ("double(x)", TypeCast("float64", x)),
    ("1.5f", TypeCast("float32", 1.5)),
    ("3u8", TypeCast("uint8", 3)),
    ("0x1f", 31),
    ("1e-3", 1e-3),
    (".5", 0.5),
    ("2j", 2j),
    ("sum(i, a[i])", Reduction("sum", ("i",), p.Subscript(a, i))),
    ("max([i, j], x)", Reduction("max", ("i", "j"), x)),
    ("any((i, j), x)", Reduction("any", ("i", "j"), x)),
    ("reduce(product, i, x)", Reduction("product", ("i",), x)),
    ("reduce(sum, [i, j], x)", Reduction("sum", ("i", "j"), x)),
    ("simul_reduce(sum, (i,), x)", Reduction("sum", ("i",), x)),
    ("any([], x)", x),
    ("cse(x + 1, again)*cse(y)", p.Product((p.Sum((x, 1)), y))),
    ("reduce(max, (), x)", x),
    ("maximum(x, y) + minimum(x, 1)", p.Sum((p.Max((x, y)), p.Min((x, 1))))),
    ("min(x, y)", p.Min((x, y))),
    ("max(3, i)", p.Max((3, i))),
    ("max(i, j, 3)", p.Max((i, j, 3))),
    ("max(i + 0, 3)", p.Max((p.Sum((i, 0)), 3))),
    ("a +\n b", None),
    ("(a +\n b)  # the sum", p.Sum((a, b))),
    ("a + \\\n b", p.Sum((a, b))),
])
def test_expressions(text: str, expected: object) -> None:
    if expected is None:
        with pytest.raises(ParseError):
            read(text)
        return
    assert read(text) == expected


def test_literals_keep_their_type() -> None:
    assert type(read("1")) is int
    assert type(read("1.")) is float
    assert type(read("1e2")) is float
    assert type(read("true")) is bool


@pytest.mark.parametrize(("text", "column", "expected"), [
    ("1 +", 4, "an expression"),
    ("(a", 1, "')' after it"),
    ("a]", 2, "no closing bracket"),
    ("a[i)", 4, "']'"),
    ("a b", 3, "an operator or the end"),
    ("a[i][j]", 5, "an operator"),
    ("a[[i, j]]", 5, "']]'"),
    ("a[[i]", 2, "']' after it"),
    ("f$two(x)", 2, "an operator or the end"),
    ("a ? b", 3, "an operator or the end"),
    ("3x", 1, "a number"),
    ("sqrt(x, y)", 1, "one argument"),
    ("f()", 1, "one argument"),
    ("min(x)", 1, "two values, or an iname and an expression, for min"),
    ("sum(x + 1, y)", 5, "an iname and an expression: sum(k, expression)"),
    ("sum([i, i], x)", 9, "an iname that is not in the list yet"),
    ("a if b", 7, "'else': a if condition else b"),
    ("a && b", 4, "an expression"),
    ("a <<= b", 5, "an expression"),
    ("1 + not x", 5, "an expression"),
])
def test_faults_have_a_place(text: str, column: int, expected: str) -> None:
    with pytest.raises(ParseError) as caught:
        read(text)
    assert (caught.value.line, caught.value.column, caught.value.expected) == (1, column, expected)
    assert str(caught.value).splitlines()[-1 if caught.value.hint is None else -2] == "    " + " " * (column - 1) + "^"


def test_unknown_names() -> None:
    with pytest.raises(UnknownNameError) as caught:
        read("sqr(x)")
    assert (caught.value.kind, caught.value.name, caught.value.close[0]) == ("function", "sqr", "sqrt")
    with pytest.raises(UnknownNameError) as caught:
        read("sum(k, x)")
    assert (caught.value.kind, caught.value.name) == ("iname", "k")


def test_walks_share_what_does_not_change() -> None:
    expr = read("if(a[i] > 0, sqrt(b[i, j]) + cast(float32, x), min(x, y)**2 // 3 - sum(i, a[i]))")
    assert substitute(expr, {"q": 1}) is expr
    assert map_children(expr, lambda e: e) is expr
    assert variables(expr) == {"a", "b", "i", "j", "x", "y"}
    assert has_reduction(expr)
    assert sum(isinstance(e, p.Subscript) for e in subexpressions(expr)) == 3


def test_substitution_leaves_bound_inames() -> None:
    expr = read("a[i] + sum(i, a[i])")
    assert substitute(expr, {"i": 3}) == p.Sum((p.Subscript(a, 3), Reduction("sum", ("i",), p.Subscript(a, i))))
    assert substitute(expr, {"a": p.Variable("b")}) == read("b[i] + sum(i, b[i])")


# The printer is the inverse of the parser

def _texts() -> st.SearchStrategy[str]:
    atoms = st.sampled_from(["x", "y", "a[i]", "a[i - 1]", "b[i, 2*j]", "0", "1", "7", "2.5", "1e-3", "2j", "true"])

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        two = st.tuples(inner, inner)
        operators = st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", "!=", "and", "or",
                                     "|", "^", "&", "<<", ">>"])
        return st.one_of(
            st.tuples(inner, operators, inner).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
            st.tuples(atoms, operators, atoms).map(" ".join),
            inner.map(lambda t: f"-({t})"),
            inner.map(lambda t: f"not ({t})"),
            inner.map(lambda t: f"~({t})"),
            st.tuples(inner, inner, inner).map(lambda t: f"({t[0]}) if ({t[1]}) else ({t[2]})"),
            two.map(lambda t: f"if({t[0]} > 0, {t[1]}, x)"),
            two.map(lambda t: f"max(0, {t[0]}, {t[1]})"),
            inner.map(lambda t: f"sqrt({t})"),
            inner.map(lambda t: f"f({t}) + g"),
            inner.map(lambda t: f"cast(float32, {t})"),
            inner.map(lambda t: f"sum(i, {t})"),
            inner.map(lambda t: f"max([i, j], {t})"),
            st.tuples(inner, inner, inner).map(lambda t: f"({t[0]}) - ({t[1]}) + ({t[2]})"))
    return st.recursive(atoms, larger, max_leaves=12)


@settings(max_examples=300, deadline=None)
@example("x - 1*0")
@example("-(5*x)")
@example("-(1*5)*x")
@given(_texts())
def test_what_is_printed_reads_back(text: str) -> None:
    try:
        expr = read(text)
    except ParseError:
        reject()                # an iname reduced inside its own reduction
    assert read(to_text(expr)) == expr
