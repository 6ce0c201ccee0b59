"""Arguments, temporaries, rules, dependences, and the speed of reading."""
from __future__ import annotations

from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

from loopkit.errors import PreconditionError
from loopkit.kernel.data import AddressSpace, GlobalArg, Options, TemporaryVariable, ValueArg
from loopkit.language.make import make_kernel

LINE = "{[i]: 0<=i<n}"
n, m = p.Variable("n"), p.Variable("m")


# Arguments

def test_arguments_are_found_in_the_text() -> None:
    knl = make_kernel(LINE, "y[i] = alpha*x[i]\ns = 2\nf(t) := t*w[0]")
    assert knl.arguments == (ValueArg("alpha"), ValueArg("n"), GlobalArg("s", shape=()), GlobalArg("w"),
                             GlobalArg("x"), GlobalArg("y", shape_like="x"))


@pytest.mark.parametrize(("given", "names"), [
    (None, ["n", "x", "y", "z"]),
    ("...", ["n", "x", "y", "z"]),
    (["z", "..."], ["z", "n", "x", "y"]),
    (["z", "...", "n"], ["z", "x", "y", "n"]),
    (["z,y", "x"], ["z", "y", "x", "n"]),
    ([GlobalArg("x, y"), ..., "n"], ["x", "y", "z", "n"]),
    ([TemporaryVariable("t"), "n", "..."], ["n", "x", "y", "z"]),
])
def test_order_of_arguments(given: object, names: list[str]) -> None:
    knl = make_kernel(LINE, "<> t = 1\nz[i] = x[i] + y[i] + t", given)         # type: ignore[arg-type]
    assert [a.name for a in knl.arguments] == names


def test_declarations_in_normal_form() -> None:
    loose: Any = GlobalArg          # text and numpy's classes are welcome where the record has their normal form
    given = [loose("y", np.float32, "n+1, max(m, 2)"), loose("x", "f8", ("n",)), ValueArg("n", np.dtype("int64")),
             "..."]
    knl = make_kernel(LINE, "y[i,0] = x[i]", given)
    y, x, size, other = knl.arguments
    assert y == GlobalArg("y", np.dtype("float32"), (p.Sum((n, 1)), p.Max((m, 2))))
    assert x == GlobalArg("x", np.dtype("float64"), (n,))
    assert size == ValueArg("n", np.dtype("int64"))
    assert other == ValueArg("m")


def test_temporaries() -> None:
    knl = make_kernel(LINE, "<> t = 1\n<int32> u[i] = 2\nv[i] = t + u[i]\nw = 3\nx[i] = v[i] + w",
                      [TemporaryVariable("v", shape=(n,)), "..."], temporary_variables={"w": TemporaryVariable("w")})
    assert knl.temporaries == {
        "v": TemporaryVariable("v", shape=(n,)), "w": TemporaryVariable("w", shape=()),
        "t": TemporaryVariable("t", shape=()), "u": TemporaryVariable("u", np.dtype("int32"), None)}
    assert [a.name for a in knl.arguments] == ["n", "x"]


@pytest.mark.parametrize("space", ["private", "warp", "local", "shared", "global", AddressSpace.SHARED])
def test_address_spaces_by_name(space: Any) -> None:
    knl = make_kernel(LINE, "t = 1\nx[i] = t", [TemporaryVariable("t", address_space=space), "..."])
    assert knl.temporaries["t"].address_space is AddressSpace("shared" if space == "local" else space)


@pytest.mark.parametrize("space", ["register", "LOCAL", 3, [], True, "constant", AddressSpace.CONSTANT])
def test_what_is_no_address_space(space: Any) -> None:
    with pytest.raises(PreconditionError, match="'t' cannot have the address space") as caught:
        make_kernel(LINE, "t = 1\nx[i] = t", [TemporaryVariable("t", address_space=space), "..."])
    assert caught.value.hint == "the address spaces are private, warp, shared (or local) and global"


def test_a_bound_read_from_memory() -> None:
    knl = make_kernel([LINE, "{[k]: lo<=k<hi}"],
                      "for i\n <> lo = p[i]\n <> hi = p[i+1]\n y[i] = sum(k, a[k])\nend")
    assert [a.name for a in knl.arguments] == ["a", "n", "p", "y"]
    assert set(knl.statement("insn_1.k.update").domain.params) == {"lo", "hi", "n"}
    assert set(knl.statement("insn_1").domain.params) == {"n"}


# Statements

def test_updates() -> None:
    knl = make_kernel(LINE, "y[i] += x[i]\ny[i] -= 2*x[i]\ny[i] *= x[i]\ny[i] /= x[i]")
    y, x = (p.Subscript(p.Variable(a), p.Variable("i")) for a in "yx")
    assert [s.expression for s in knl.statements] == [
        p.Sum((y, x)), p.Sum((y, p.Product((-2, x)))), p.Product((y, x)), p.Quotient(y, x)]
    assert all(s.combine is None for s in knl.statements)


def test_ids_dependences_and_tags() -> None:
    knl = make_kernel(LINE, """
        a[i] = 1                                        # insn
        b[i] = 2    {id=insn_0, tags=x:y}
        c[i] = 3
        d[i] = 4    {id=last, dep=insn:b*:insn_[0-9], nosync=insn*}
        """.replace(":b*", ""))
    assert [s.id for s in knl.statements] == ["insn", "insn_0", "insn_1", "last"]
    last = knl.statement("last")
    assert last.options.depends_on == last.options.no_sync_with == {"insn", "insn_0", "insn_1"}
    assert knl.statement("insn_0").options.tags == {"x", "y"}


def test_a_glob_means_what_stands_above() -> None:
    knl = make_kernel(LINE, "a[i] = 1\nb[i] = 2 {dep=*}\nc[i] = 3")
    assert knl.statement("insn_0").options.depends_on == {"insn"}


def test_lines_continue_in_brackets_and_behind_backslashes() -> None:
    knl = make_kernel(LINE, "a[i] = (1 +   # one\n   2)\nb[i] = 3 + \\\n  4 {id=x,\n    tags=t}")
    assert [str(s.expression) for s in knl.statements] == ["1 + 2", "3 + 4"]


def test_instructions_as_a_list() -> None:
    knl = make_kernel([LINE], ["for i", "a[i] = 1", "b[i] = 2", "end"])
    assert [s.id for s in knl.statements] == ["insn", "insn_0"]


def test_rules_stay() -> None:
    knl = make_kernel(LINE, "f(x) := x*w[i] + g\ny[i] = f(2)\ng := 3 + h(1)\nh(x) := x")
    assert list(knl.substitutions) == ["f", "g", "h"]
    assert knl.statement("insn").expression == p.Call(p.Variable("f"), (2,))
    assert knl.substitutions["g"].expr == p.Sum((3, p.Call(p.Variable("h"), (1,))))
    assert knl.substitutions["f"].arguments == ("x",)


def test_name_options_and_assumptions() -> None:
    knl = make_kernel(LINE, "y[i] = 1", name="ones", assumptions="n >= 1 and n mod 4 = 0",
                      options=Options(annotate=False))
    assert knl.name == "ones"
    assert not knl.options.annotate
    assert str(knl.assumptions) == "[n] -> {  : (n) mod 4 = 0 and n > 0 }"


def test_user_text_is_never_evaluated() -> None:
    with pytest.raises(Exception, match="not a function"):
        make_kernel(LINE, "y[i] = __import__(0)")


def test_a_temporary_gets_its_dtype_where_it_is_declared_again() -> None:
    knl = make_kernel("{[i]: 0<=i<n}", "<float32> t = x[i]\ny[i] = t", [TemporaryVariable("t"), "..."])
    assert knl.temporaries["t"].dtype == np.float32
