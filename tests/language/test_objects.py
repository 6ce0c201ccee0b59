"""Kernels from objects: they are the kernels of the texts that the objects print, and a kernel's own ones go back."""
from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pymbolic import var
from pytools.tag import Tag

import loopkit as lk
from loopkit.expr.dtypes import type_of
from tests.property.checks import of_one_reading
from tests.property.kernels import Program
from tests.property.writer import programs


@dataclass(frozen=True)
class Mark(Tag):
    """A tag of a user."""


BOX = "{[i, k]: 0<=i<n and 0<=k<m}"
a, b, f, s, t, x, y, i, k, n = map(var, ["a", "b", "f", "s", "t", "x", "y", "i", "k", "n"])


def of(*instructions: Any, domains: Any = BOX, **others: Any) -> lk.LoopKernel:
    return lk.make_kernel(domains, list(instructions), **others)


def set_(assignee: Any, expression: Any, **others: Any) -> lk.Assignment:
    return lk.Assignment(assignee, expression, **others)


@pytest.mark.parametrize(("objects", "text"), [
    ([set_(y[i], 2*x[i] - 1)], "y[i] = 2*x[i] - 1"),
    ([set_(y[i], p.Sum((2*x[i],)))], "y[i] = 2*x[i]"),
    ([set_("y[i]", "2*x[i]", id="twice")], "y[i] = 2*x[i] {id=twice}"),
    ([set_(y[i], lk.Reduction("sum", ("k",), a[i, k]*x[k]))], "y[i] = sum(k, a[i,k]*x[k])"),
    ([set_(y[i], var("sum")(k, a[i, k]))], "y[i] = sum(k, a[i,k])"),
    ([set_(y[i], p.Call(var("max"), (x[i], 3)))], "y[i] = max(x[i], 3)"),
    ([set_(y[0], p.Call(var("max"), ((i, k), a[i, k])))], "y[0] = max([i, k], a[i,k])"),
    ([set_(y[i], lk.Reduction("sum", ("r",), a[i, var("r")], ("{[r]: 0<=r<=i}",)))],
     "y[i] = sum({[r]: 0<=r<=i}, a[i,r])"),
    ([set_(y[i], p.If(p.Comparison(x[i], "<", 0), 0, var("sqrt")(x[i])))], "y[i] = if(x[i] < 0, 0, sqrt(x[i]))"),
    ([set_(y[i], lk.TypeCast("float32", x[i]))], "y[i] = cast(float32, x[i])"),
    ([set_(y[i], p.Product((np.float32(0.5), x[i])))], "y[i] = 0.5f*x[i]"),
    ([set_(y[i + np.int64(2)], p.Subscript(x, np.int32(3)))], "y[i+2] = x[3]"),
    ([set_(y[i], 1, within_inames=frozenset("ik"), predicates=[p.Comparison(i, "<", np.int64(3)), "x[i] > 0"])],
     "y[i] = 1 {inames=i:k, if=i < 3 and x[i] > 0}"),
    ([set_(t, x[i], temp_var_type="auto"), set_(y[i], t)], "<> t = x[i]\ny[i] = t"),
    ([set_("t", "x[i]", temp_var_type=np.float64), "y[i] = t"], "<float64> t = x[i]\ny[i] = t"),
    ([lk.SubstitutionRule("f", ("u",), var("u")**2), set_(y[i], f(x[i]))], "f(u) := u**2\ny[i] = f(x[i])"),
    (["f(u) := u + 1", set_(y[i], f(x[i]) + f(0))], "f(u) := u + 1\ny[i] = f(x[i]) + f(0)"),
    ([lk.SubstitutionRule("f", (), "3*n"), set_(y[i], f)], "f := 3*n\ny[i] = f"),
    (["for k", "for i", set_(a[i, k], 1, id="A"), "end", "end", set_(y[i], 2, depends_on="A")],
     "for k\nfor i\na[i,k] = 1 {id=A}\nend\nend\ny[i] = 2 {dep=A}"),
    (["if x[i] > 0", set_(y[i], 1), "else", set_(y[i], 2, tags="last"), "end"],
     "if x[i] > 0\ny[i] = 1\nelse\ny[i] = 2 {tags=last}\nend"),
    ([set_(y[x[i]], y[x[i]] + 1, instructions=("atomic",), no_sync_with={"insn_0"}), "b[i] = 1"],
     "y[x[i]] = y[x[i]] + 1 {atomic, nosync=insn_0}\nb[i] = 1"),
])
def test_objects_mean_what_their_text_means(objects: list[Any], text: str) -> None:
    made, written = of(*objects), lk.make_kernel(BOX, text)
    assert made.statements_text == written.statements_text
    assert made == written


def test_scalars_of_numpy_keep_their_dtype() -> None:
    knl = of(set_(y[i], x[i]*np.float64(0.5)), set_(b[i], x[i]*np.int8(2)))
    assert [type_of(s.expression, lambda e: np.dtype("float32")).name for s in knl.statements] == ["float64", "float32"]


@pytest.mark.parametrize(("objects", "message"), [
    ([set_(y[i], p.Derivative(x, ("t",)))], "The node 'Derivative' has no meaning"),
    ([set_(y[i], p.Sum(()))], "The node 'Sum' has too few operands"),
    ([set_(y[i], p.Max((x[i],)))], "The node 'Max' has too few operands"),
    ([set_(y[i], None)], "An expression cannot contain None"),
    ([set_(y[i], p.Subscript(x[i], (k,)))], "A subscript is of 'Subscript', not of an array"),
    ([set_(y[i], p.Subscript(x, ()))], "'x' has no subscript in its brackets"),
    ([set_(y[i], p.Call(x[i], (k,)))], "A call is of 'Subscript', not of a function"),
    ([set_(y[i], var("sum")(x[i]))], "The reduction 'sum' needs inames and an operand"),
    ([set_(y[i], lk.Reduction("sum", ("k", "k"), x[k]))], "A reduction cannot run over"),
    ([set_(y[i], lk.Reduction("sum", ("k",), lk.Reduction("sum", ("k",), x[k])))],
     "The reduction over 'k' is in one over"),
    ([set_(y[i], lk.Reduction("sum", ("k",), x[k], ("{[k]: 0<=",)))], "isl cannot read the domain"),
    ([set_(y[i], 2**70)], "more than 64 bits"),
    ([set_(y[i], complex("nan"))], r"The number \(?nan\+0j\)? is not finite"),
    ([set_(y[i] + 1, 2)], "The assignee is not an element of an array or a temporary"),
    ([set_(y[i], x[i] + x[i, k])], "'x' is used with 2 subscripts here and with one subscript in 'y\\[i\\] = "),
    ([set_(y[i], 1, id="2x")], "'2x' cannot be the id"),
    ([set_(y[i], 1, within_inames={3})], "3 is not a name"),
    ([set_(t, 1, temp_var_type="nosuch")], "A temporary cannot have the dtype 'nosuch'"),
    ([set_(y[i], 1, tags=(3,))], "cannot have the tag 3"),
    ([lk.SubstitutionRule("f", ("u", "u"), 1), set_(y[i], 1)], "Two arguments of a rule have one name"),
    ([lk.SubstitutionRule("for", (), 1), set_(y[i], 1)], "'for' is a reserved word"),
    ([lk.SubstitutionRule("f", ("u",), var("u")[i]), set_(y[i], f(x))], "The argument 'u' of 'f' is subscripted"),
    (["f(u) := 1", lk.SubstitutionRule("f", (), 1), set_(y[i], 1)], "The substitution rule 'f' is defined twice"),
    ([set_(y[i], 1, id="A"), set_(b[i], 1, id="A")], "Two statements have the id 'A'"),
    ([set_(y[i], 1, depends_on="B"), set_(b[i], 1, id="B")], "cannot depend on 'B', which is not above it"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_wrong_objects(objects: list[Any], message: str) -> None:
    """The error prints the object in place of a line."""
    with pytest.raises(lk.ParseError if "tag" not in message else lk.PreconditionError, match=message) as caught:
        of(*objects)
    if isinstance(caught.value, lk.ParseError):
        assert (caught.value.line, caught.value.column) == (None, None)
        assert caught.value.source in map(str, objects)
        assert f"  {caught.value.source}" in str(caught.value)


@pytest.mark.parametrize(("made", "kind", "name"), [
    (lambda: set_(y[i], 1, within_inames="q"), "iname", "q"),
    (lambda: set_(y[i], var("nosuch")(x[i])), "function", "nosuch"),
    (lambda: set_(y[i], lk.Reduction("total", ("k",), x[k])), "reduction", "total"),
    (lambda: set_(y[i], lk.Reduction("sum", ("q",), x[k])), "iname", "q"),
    (lambda: set_(y[i], lk.TypeCast("float7", x[i])), "dtype", "float7"),
    (lambda: set_(y[i], 1, depends_on={"nosuch"}), "statement", "nosuch"),
    (lambda: set_(y[i], 1, instructions=("nosuch",)), "instruction", "nosuch")])
def test_unknown_names(made: Callable[[], lk.Assignment], kind: str, name: str) -> None:
    with pytest.raises(lk.UnknownNameError, match=r"\('y\[i\] = ") as caught:
        of(made())
    assert (caught.value.kind, caught.value.name) == (kind, name)


def test_texts_in_objects_have_lines() -> None:
    with pytest.raises(lk.ParseError, match="An expression of an object cannot be read at '\\*'") as caught:
        of(set_("y[i]", "2*x[i] + *"))
    assert (caught.value.line, caught.value.column) == (1, 10)


def test_deep_expressions() -> None:
    deep: Any = x[i]
    for _ in range(120):
        deep = p.LogicalNot(deep)
    with pytest.raises(lk.ParseError, match="100 expressions are in each other"):
        of(set_(y[i], deep))


def test_what_is_no_instruction() -> None:
    with pytest.raises(lk.PreconditionError, match="instructions= must be a text"):
        of(3)


# Kernels give their instructions back

def again(knl: lk.LoopKernel, **others: Any) -> lk.LoopKernel:
    """The kernel of the domains, rules, instructions and declarations of *knl*."""
    written = {insn.written for insn in knl.instructions}
    data = [*knl.arguments, *(t for t in knl.temporaries.values() if t.name in written)]
    return lk.make_kernel(knl.domains, [*knl.substitutions.values(), *knl.instructions], data, name=knl.name,
                          assumptions=knl.assumptions, **others)


@settings(max_examples=12, database=None, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck),
          phases=[Phase.generate])
@given(programs())
def test_a_kernel_is_made_again_from_what_it_gives(program: Program) -> None:
    """The same statements with the same instances in the same order: it computes the same."""
    knl = of_one_reading(program)
    new = again(knl)
    assert new.tree == knl.tree
    for one, other in zip(new.statements, knl.statements, strict=True):
        assert one.domain.is_equal(other.domain)
        assert (one.id, one.assignee, one.expression, one.predicates, one.combine, one.options) == (
            other.id, other.assignee, other.expression, other.predicates, other.combine, other.options)
    assert dict(new.reductions) == dict(knl.reductions)
    assert {*new.temporaries.values()} == {*knl.temporaries.values()}


@pytest.mark.parametrize(("domains", "text"), [
    # loops of one iname that are adjacent and apart
    ("{[i]: 0<=i<n}", "for i\ny[i] = x[i]\nend\nfor i\nb[i] = y[n-1-i]\nend"),
    # bounds from memory, and a reduction in a triangle
    (["{[i]: 0<=i<n}", "{[j]: lo<=j<hi}"], "for i\n<> lo = p[i]\n<> hi = p[i+1]\ny[i] = sum(j, x[j])\nend"),
    ("{[i,j]: 0<=i<n and 0<=j<=i}", "y[i] = sum(j, x[j])\nb[i] = if(i > 3, sum(j, x[j]), max(j, x[j]))"),
    # domains in which inames depend on each other differently
    (["{[i]: 0<=i<n}", "[i] -> {[j]: 0<=j<i}", "{[k]: 0<=k<m and k mod 2 = 0}"],
     "for i\nx[i] = i\nend\nfor k, i\ny[i,k] = sum(j, x[j])\nend\nfor i, k\nb[i,k] = 1 {if=k > i}\nend"),
    ("{[i]: 0<=i<n}", "h[b[i]] = h[b[i]] + w[i] {atomic}\ny[i] = 1 {dep=insn, nosync=insn, tags=mine}")])
def test_kernels_made_again(domains: Any, text: str) -> None:
    knl = lk.make_kernel(domains, text)
    new = again(knl)
    assert new.statements_text == knl.statements_text
    assert new == knl


def test_users_reductions_are_made_again() -> None:
    op = lk.ReductionOperation("horner", "2*a + b")
    knl = lk.make_kernel(BOX, "y[i] = horner(k, a[i,k])", reductions=[op])
    assert again(knl, reductions=[op]) == knl


def test_new_texts_beside_a_kernels_instructions() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "for i\ny[i] = x[i] {if=i > 2}\nend")
    new = lk.make_kernel([*knl.domains, "{[j]: 0<=j<m}"], [*knl.instructions, "b[j] = 3", "c[i] = 4"])
    assert new.statements_text.splitlines() == [
        "for i", "  y[i] = x[i]  {id=insn, if=i >= 3}", "end", "for j", "  b[j] = 3  {id=insn_0}", "end",
        "for i", "  c[i] = 4  {id=insn_1}", "end"]
    assert [s.domain.text for s in new.statements] == [
        "[n] -> { [i] : 3 <= i < n }", "[m] -> { [j] : 0 <= j < m }", "[n] -> { [i] : 0 <= i < n }"]


def test_domains_must_contain_the_instances() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]")
    with pytest.raises(lk.ParseError, match=r"This statement runs for .* 0 <= i < n }, and the domains have") as caught:
        lk.make_kernel("{[i]: 0<=i<n-1}", knl.instructions)
    assert caught.value.hints == ("copy(place=None), for the instances of the domains",)
    new = lk.make_kernel("{[i]: 0<=i<n-1}", [insn.copy(place=None) for insn in knl.instructions])
    assert new.domains_text == "[n] -> { [i] : 0 <= i <= -2 + n }"


def test_a_block_around_a_kernels_instruction() -> None:
    knl = lk.make_kernel("{[i,j]: 0<=i,j<n}", "for i, j\ny[i,j] = x[i]\nend")
    inside = lk.make_kernel("{[i,j]: 0<=i,j<n}", ["for i", *knl.instructions, "b[i] = 1", "end"])
    assert inside.statements_text.splitlines()[::2] == [
        "for i", "    y[i, j] = x[i]  {id=insn}", "  b[i] = 1  {id=insn_0}"]
    with pytest.raises(lk.ParseError, match="This statement has loops over i, j, and its block has loops over j"):
        lk.make_kernel("{[i,j]: 0<=i,j<n}", ["for j", *knl.instructions, "end"])
    moved = lk.make_kernel("{[i,j,l]: 0<=i,j,l<n}", [insn.copy(within_inames="i,j,l") for insn in knl.instructions])
    assert moved.statements[0].inames == ("i", "j", "l")


def test_instructions_print_and_pickle() -> None:
    [insn] = lk.make_kernel(BOX, "y[i] = sum(k, a[i,k]) {id=row, if=i > 2}").instructions
    assert str(insn) == "y[i] = sum(k, a[i, k])  {id=row, inames=i}"
    assert (insn.domain.text, insn.written) == ("[n] -> { [i] : 3 <= i < n }", "y")           # type: ignore[union-attr]
    assert pickle.loads(pickle.dumps(insn)) == insn
    assert set_("y[i]", 2, tags="a:b", depends_on=None).tags == {"a", "b"}


@pytest.mark.parametrize("field", ["tags", "depends_on", "no_sync_with", "within_inames"])
@pytest.mark.parametrize("made", [lambda **own: lk.Assignment("y[i]", 1, **own),
                                  lambda **own: lk.CallInstruction("y[i]", "f", (), **own)])
def test_names_of_an_instruction_are_names(field: str, made: Any) -> None:
    with pytest.raises(lk.PreconditionError, match=f"{field}= must be a text or a list of names, not 5"):
        made(**{field: 5})


def test_a_kernel_with_declared_temporaries_is_made_again_from_its_parts() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "t[i] = x[i]\nfor i\n<> u = t[i]\ny[i] = u\nend", [
        lk.TemporaryVariable("t", np.float64, shape="n", address_space="global"), "..."])
    parts = knl.domains, knl.instructions, knl.arguments
    again = lk.make_kernel(*parts, temporary_variables=knl.temporary_variables)
    assert (again.statements, again.temporaries) == (knl.statements, knl.temporaries)
    with pytest.raises(lk.UnknownNameError, match="'t' is not an argument") as caught:
        lk.make_kernel(*parts)
    assert "temporary_variables=[TemporaryVariable('t', ...)] declares a temporary" in caught.value.hint


def test_a_kernel_without_statements() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", [])
    assert (knl.instructions, [d.text for d in knl.domains]) == ((), ["[n] -> { [i] : 0 <= i < n }"])
    assert knl(n=3) == ()
    with pytest.raises(lk.ParseError, match="contain no statement"):
        lk.make_kernel("{[i]: 0<=i<n}", ["# a comment"])


@pytest.mark.parametrize("value", [
    p.Variable("argmin")(p.Variable("j"), p.CommonSubexpression(p.Variable("a")[p.Variable("i"), p.Variable("j")])),
    p.Variable("argmin")(p.Variable("j"), p.Variable("a")[p.Variable("i"), p.Variable("j")], p.Variable("j")),
    lk.Reduction("argmin", ("j",), p.Variable("a")[p.Variable("i"), p.Variable("j")]), "argmin(j, a[i, j])"])
def test_reductions_of_tuples(value: Any) -> None:
    text = "y[i], z[i] = t.value, t.index"
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", [lk.Assignment("t", value, temp_var_type="auto", id="t"), text])
    assert knl == lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", ["<> t = argmin(j, a[i, j]) {id=t}", text])
    assert lk.make_kernel(knl.domains, knl.instructions, knl.arguments).statements == knl.statements


def test_deep_expressions_have_an_error() -> None:
    value = p.Variable("x")[p.Variable("i")]
    for _ in range(2000):
        value = p.Variable("sin")(value)
    with pytest.raises(lk.ParseError, match="100 expressions are in each other"):
        lk.make_kernel("{[i]: 0<=i<n}", [lk.Assignment("y[i]", value)])


def test_casts_take_dtypes() -> None:
    cast: Any = np.dtype("float32")
    knl = lk.make_kernel("{[i]: 0<=i<n}", [lk.Assignment("y[i]", lk.TypeCast(cast, p.Variable("x")[p.Variable("i")]))])
    assert "cast(float32, x[i])" in knl.statements_text


# Calls

TWICE = lk.make_function("{[r]: 0<=r<n}", "b[r] = s*a[r]", name="twice")


def called(*instructions: Any, **others: Any) -> lk.LoopKernel:
    return of(*instructions, domains="{[i, j]: 0<=i<m and 0<=j<4}", functions=[TWICE], **others)


@pytest.mark.parametrize("call", [
    lk.CallInstruction("y[i, :]", "twice", ("x[i, :]", 4, np.float32(0.5)), predicates=(i.gt(2),), id="c"),
    lk.CallInstruction((lk.SubArrayRef(("j",), y[i, var("j")]),), "twice",
                       (lk.SubArrayRef("j", x[i, var("j")]), 4, np.float32(0.5)), predicates="i > 2", id="c"),
    lk.CallInstruction(p.Subscript(y, (i, p.Slice((None, 4, None)))), "twice",
                       (p.Subscript(x, (i, p.Slice((0, None, 1)))), 4, np.float32(0.5)), predicates="i > 2", id="c")])
def test_calls_are_what_their_text_is(call: lk.CallInstruction) -> None:
    knl = called("z[i] = 1", call.copy(depends_on="insn", tags="labelled"))
    text = called("z[i] = 1", "y[i, :] = twice(x[i, :], 4, 0.5f) {id=c, dep=insn, if=i > 2, tags=labelled}")
    assert list(map(str, knl.instructions)) == list(map(str, text.instructions))
    assert [s.domain.text for s in knl.statements] == [s.domain.text for s in text.statements]
    assert [s.options for s in knl.statements] == [s.options for s in text.statements]
    values = np.arange(20, dtype=np.float32).reshape(5, 4)
    found = knl(x=values, y=np.zeros_like(values), m=5).y
    np.testing.assert_array_equal(found[3:], values[3:]/2)
    assert not found[:3].any()
    assert call == pickle.loads(pickle.dumps(call))


def test_user_tags_of_a_call() -> None:
    tag = Mark()
    knl = called(lk.CallInstruction("y[i, :]", "twice", ("x[i, :]", 4, 1), tags=tag))
    assert [s.options.tags for s in knl.statements] == [frozenset({tag})]
    assert "Mark()" in str(knl.history)


def test_a_call_with_several_results() -> None:
    knl = of(lk.CallInstruction((y[0], b[0]), "argmin", (i, x[i], i)), domains="{[i]: 0<=i<n}")
    found = knl(x=np.array([3., 1., 2.]), n=3)
    assert (found.y[0], found.b[0]) == (1, 1)


@pytest.mark.parametrize(("call", "message"), [
    (lk.CallInstruction("y[i, :]", "twice", ("x[i, :]", 4)), "has 3 arguments (a, n, s), and this call has 2"),
    (lk.CallInstruction("y[i, :]", "twice", (4, "x[i, :]", 1)), "an array for 'a' of the function 'twice'"),
    (lk.CallInstruction("y[i, :]\nz[i] = 1", "twice", ()), "does not fit in a line"),
    (lk.CallInstruction("y[i, :]", "twice", "x[i, :]"), "has 3 arguments (a, n, s), and this call has 1"),
    (lk.CallInstruction(None, "twice", ["x[i, :]", 4, 1]), "A call cannot have None"),  # type: ignore[arg-type]
    (lk.CallInstruction("y[i, :]", TWICE, ()), "A call cannot have"),  # type: ignore[arg-type]
    (lk.CallInstruction(lk.SubArrayRef(3, "y[i, 0]"), "twice"), "A call cannot have"),  # type: ignore[arg-type]
    (lk.CallInstruction("y[i, :]", "twice", ("x[i, :]", 4, p.Derivative(x, ("t",)))), "Derivative")])
def test_wrong_calls(call: lk.CallInstruction, message: str) -> None:
    with pytest.raises(lk.ParseError, match=re.escape(message)):
        called(call)
