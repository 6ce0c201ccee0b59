"""Kernels that grow from objects; keys, pickles and source text of programs; loopy's mappers and forms."""
from __future__ import annotations

import pickle
from typing import Any

import islpy as isl
import numpy as np
import pymbolic.primitives as p
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytools.persistent_dict import KeyBuilder
from pytools.tag import Tag

import loopkit.compat.loopy as lp
from loopkit.compat.loopy import symbolic
from loopkit.compat.loopy.kernel.array import ArrayBase
from loopkit.compat.loopy.kernel.instruction import CallInstruction, make_assignment
from loopkit.compat.loopy.symbolic import SubArrayRef
from loopkit.compat.loopy.tools import LoopyKeyBuilder
from loopkit.compat.loopy.transform.instruction import uniquify_instruction_ids
from loopkit.errors import PreconditionError, UndecidedError, UnknownNameError

HOST = lp.ExecutableCTarget()
ROW, J = p.variables("i j")
A, B, X, Y = p.variables("a b x y")


class Rows(Tag):
    """The rows of a matrix."""


def empty(**options: Any) -> Any:
    return lp.make_kernel("{:}", [], target=HOST, **options)


def arrays(*names: str, **fields: Any) -> list[lp.GlobalArg]:
    return [lp.GlobalArg(name, np.float64, shape=8, **fields) for name in names]


# Growth

def test_a_kernel_grows_in_any_order() -> None:
    unit = empty(options="return_dict")
    knl = unit["loopy_kernel"].copy(instructions=[lp.Assignment(
        Y[ROW], 2*p.Variable("t")[ROW] + lp.Reduction("sum", "j", X[J]), depends_on="first")])
    unit = unit.with_kernel(lp.tag_inames(knl, {"i": Rows()}))       # it has no domain of i yet
    knl = unit["loopy_kernel"]
    knl = knl.copy(domains=[*knl.domains, isl.BasicSet("{ [i] : 0 <= i < 8 }"), isl.Set("{ [j] : j = 3 }")],
                   args=[lp.GlobalArg(x, float, shape=(np.int64(8),)) for x in "xy"])
    knl = knl.copy(instructions=[*knl.instructions, lp.Assignment("t[i]", "f(i)", id="first")], temporary_variables={
        "t": lp.TemporaryVariable("t", np.float64, shape=8)})
    knl = knl.copy(substitutions={"f": lp.SubstitutionRule("f", ("k",), X[p.Variable("k")] + 1)}, name="grown")
    assert [a.name for a in knl.args] == ["x", "y"]
    assert knl.name == "grown"
    assert lp.make_program(knl)(x=np.arange(8.))[1]["y"].tolist() == [2*k + 5 for k in range(8)]
    assert knl.inames["i"].tags_of_type(Rows)
    assert "first" in knl.get_instruction_id_generator().existing_names
    assert knl.get_var_name_generator()("x") != "x"


def test_the_steps_before_the_growth_apply_to_the_grown_kernel() -> None:
    knl = empty(default_order="F", tags=Rows(), options="return_dict")["loopy_kernel"].copy(
        domains=["{[i, j]: 0<=i<2 and 0<=j<3}"], args=[lp.GlobalArg(x, np.float64, shape=(2, 3)) for x in "xy"],
        instructions=[lp.Assignment("y[i, j]", "2*x[i, j]")])
    given = np.asfortranarray(np.arange(6.).reshape(2, 3))
    assert [a.order for a in knl.core.array_args.values()] == ["F", "F"]
    assert (lp.make_program(knl)(x=given)[1]["y"] == 2*given).all()
    assert knl.core.kernel_tags == {Rows()}
    assert knl != knl.copy(target=lp.CTarget())


def test_a_growing_kernel_gets_steps() -> None:
    knl = empty()["loopy_kernel"].copy(domains=["{[i]: 0<=i<8}"], args=arrays("x", "y"), instructions=[
        lp.Assignment(Y[ROW], 2*X[ROW], id=lp.UniqueName("twice"))])
    unit = uniquify_instruction_ids(lp.split_iname(lp.make_program(knl), "i", 4))
    assert sorted(unit["loopy_kernel"].inames) == ["i_inner", "i_outer"]
    assert [i.id for i in unit["loopy_kernel"].instructions] == ["twice"]
    with pytest.raises(PreconditionError, match="keeps its statements"):
        unit["loopy_kernel"].copy(instructions=[])


def test_faults_of_a_growing_kernel_appear_when_it_is_used() -> None:
    knl = lp.make_kernel("{:}", [], [], target=HOST)["loopy_kernel"]
    unit = lp.make_program(knl.copy(instructions=[lp.Assignment(Y[ROW], 2*X[J])]))
    with pytest.raises(UnknownNameError, match="is not an argument"):
        unit(x=np.arange(8.))


def test_a_growing_kernel_calls_functions() -> None:
    twice = lp.make_function("{[i]: 0<=i<8}", "b[i] = 2*a[i]", arrays("a", "b"), name="twice", target=HOST)
    unit = lp.merge([empty(), twice])
    call = make_assignment((SubArrayRef((ROW,), Y[ROW]),), p.Variable("twice")(SubArrayRef((J,), X[J])))
    assert isinstance(call, CallInstruction)
    unit = unit.with_kernel(unit["loopy_kernel"].copy(
        domains=["{[i]: 0<=i<8}", "{[j]: 0<=j<8}"], args=arrays("x", "y"), instructions=[call]))
    assert unit(x=np.arange(8.))[1][0].tolist() == [2*k for k in range(8)]


def test_numbers_that_are_not_numbers() -> None:
    value = p.CommonSubexpression(p.If(p.Comparison(ROW, "<", 4), p.NaN(np.float32), 1.0))
    unit = lp.make_kernel("{[i]: 0<=i<8}", [lp.Assignment(Y[ROW], value)], [lp.GlobalArg("y", np.float32, shape=8)],
                          target=HOST)
    assert np.isnan(unit()[1][0]).tolist() == [True]*4 + [False]*4


# Keys, pickles and texts

def made(factor: int = 2) -> Any:
    return lp.make_kernel("{[i]: 0<=i<n}", f"y[i] = f(i)\nf(k) := {factor}*x[k]", [
        lp.GlobalArg("x", np.float32, shape="n"), ...])


def test_keys_tell_programs_apart() -> None:
    key, base = LoopyKeyBuilder(), made()
    others = [made(3), lp.split_iname(base, "i", 4), lp.set_options(base, "return_dict"), lp.tag_inames(base, "i:g.0"),
              base.copy(target=HOST), lp.assume(base, "n >= 4"), base.with_entrypoints([])]
    assert len({key(x) for x in (base, *others)}) == 1 + len(others)
    assert key(made()) == key(base) == KeyBuilder()(made())
    assert len({key(lp.Assignment("y[i]", f"{k}*x[i]")) for k in range(3)}) == 3
    assert len({key(lp.GlobalArg("x", shape=4, address_space=space)) for space in lp.AddressSpace}) == 3
    assert key(isl.Set("{[i]: 0<=i<4}")) != key(isl.Set("{[i]: 0<=i<5}"))


def test_pickles() -> None:
    unit = lp.split_iname(made(), "i", 4)
    again = pickle.loads(pickle.dumps(unit))
    assert again == unit
    assert LoopyKeyBuilder()(again) == LoopyKeyBuilder()(unit)
    assert not pickle.loads(pickle.dumps(lp.Optional())).has_value
    with pytest.raises(AttributeError, match="missing"):
        assert lp.Optional().value


def test_the_source_of_a_program() -> None:
    twice = lp.make_function("{[i]: 0<=i<4}", "b[i] = 2*a[i]", name="twice")
    unit = lp.merge([lp.make_kernel("{[j]: 0<=j<n}", "y[j,:] = twice(x[j,:])", target=HOST), twice])
    names = dict[str, Any]()
    exec("\n".join(lp.t_unit_to_python(unit, "again", return_preamble_and_body_separately=True)), names)
    for name, knl in unit.kernels.items():
        assert names["again"][name].core == knl.core
    assert names["again"].entrypoints == unit.entrypoints
    assert names["again"].target == HOST


def other_order() -> Any:
    """The layer puts the two statements into loops of their own for the tag."""
    unit = lp.make_kernel("{[t,i]: 0<=t<n and 0<=i<8}", "<> s[i] = x[t,i] {id=a}\ny[t,i] = s[7-i] {id=b, nosync=a}", [
        lp.GlobalArg("y", np.float64, is_input=False, tags=frozenset([Rows()])), "..."], options="return_dict")
    unit = lp.set_temporary_address_space(lp.tag_inames(unit, {"i": "l.0"}), "s", lp.AddressSpace.LOCAL)
    return lp.map_instructions(unit, "id:b", lambda insn: insn.copy(expression=2*insn.expression))


def unknown_function() -> Any:
    unit = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = g(x[i])", [lp.GlobalArg("x", shape=("n + 1",)), lp.ValueArg("n"),
                                                              ...], assumptions="n > 3", target=HOST)
    return lp.merge([unit, lp.make_function("{[i]: 0<=i<4}", "b[i] = 2*a[i]", name="twice")])


@pytest.mark.parametrize("make", [other_order, unknown_function])
def test_the_source_of_a_program_makes_an_equal_one(make: Any) -> None:
    unit, names = make(), dict[str, Any]()
    exec(lp.t_unit_to_python(unit), names)
    assert names["t_unit"] == unit
    assert str(names["t_unit"]) == str(unit)


def test_a_program_without_a_source_is_an_error() -> None:
    with pytest.raises(PreconditionError, match="calls a function that is not known, and has steps"):
        lp.t_unit_to_python(lp.split_iname(unknown_function(), "i", 4))


def test_a_memo_of_the_process() -> None:
    calls = []

    @lp.memoize_on_disk
    def step(unit: Any, iname: str) -> Any:
        calls.append(iname)
        return lp.split_iname(unit, iname, 4)
    assert step(made(), "i") == step(made(), iname="i") == step(made(), "i")
    assert calls == ["i", "i"]                         # an argument by its name is another call


# Expressions

NAMES = {"i": ROW, "j": J, "m": p.Variable("m"), "n": p.Variable("n")}
FORMS = st.recursive(st.one_of(st.integers(-9, 9), st.sampled_from(list(NAMES.values()))), lambda e: st.one_of(
    st.builds(lambda a, b: a + b, e, e), st.builds(lambda a, c: c*a, e, st.integers(-4, 4)),
    st.builds(lambda a, d: p.FloorDiv(a, d), e, st.integers(1, 5)),
    st.builds(lambda a, d: p.Remainder(a, d), e, st.integers(1, 5))), max_leaves=6)


@settings(max_examples=25)
@given(FORMS, st.lists(st.integers(-20, 20), min_size=4, max_size=4))
def test_forms_of_isl(expr: Any, values: list[int]) -> None:
    space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=["i", "j"], params=["m", "n"])
    at = dict(zip(NAMES, values, strict=True))
    form = symbolic.aff_from_expr(space, expr)
    same = [symbolic.aff_to_expr(form), symbolic.pw_aff_to_expr(form.to_pw_aff()), symbolic.simplify_via_aff(expr)]
    assert form.get_domain_space().is_equal(space)
    expected = eval(str(expr), at.copy())
    assert [eval(str(e), at.copy()) for e in same] == [expected]*3
    zero = symbolic.aff_to_expr(symbolic.aff_from_expr(space, expr, ["i"]))
    assert eval(str(zero), at.copy()) == eval(str(expr), {**at, "i": 0})


@pytest.mark.parametrize("expr", [ROW*J, p.Variable("k"), p.Quotient(ROW, 2), X[ROW]])
def test_others_have_no_form_of_isl(expr: Any) -> None:
    space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=["i", "j"])
    with pytest.raises(UndecidedError, match="no form of isl"):
        symbolic.aff_from_expr(space, expr)
    assert symbolic.simplify_via_aff(ROW*J) == ROW*J


def test_equal_expressions() -> None:
    for a, b in ((X + 2, 2 + X), ((X + Y)**2, X**2 + 2*X*Y + Y**2), (A[ROW + 1], A[ROW + 1])):
        assert symbolic.is_expression_equal(a, b)
    assert not symbolic.is_expression_equal((X + 2)**2, X**2 + 4)
    assert not symbolic.is_expression_equal(A[ROW], A[J])


def test_mappers_know_the_nodes() -> None:
    expr = lp.Reduction("sum", "j", lp.TypeCast(np.float32, A[ROW, J])) + p.Variable("f")(SubArrayRef((J,), B[J, ROW]))
    found = symbolic.SubstitutionMapper(lambda e: X if e == ROW else None)(expr)
    assert str(found.children[0]) == "sum(j, cast(float32, a[x, j]))"
    assert found.children[1].parameters[0].subscript == B[J, X]
    assert symbolic.IdentityMapper()(expr) == expr
    names = symbolic.DependencyMapper(composite_leaves=False)
    assert names(expr.children[0]) == {A, ROW}

    class Names(symbolic.WalkMapper):
        def __init__(self) -> None:
            self.found: list[str] = []

        def map_variable(self, e: p.Variable) -> None:
            self.found.append(e.name)

    class Count(symbolic.CombineMapper):
        def combine(self, values: Any) -> int:
            return sum(values)

        def map_constant(self, e: object) -> int:
            return 0

        def map_variable(self, e: p.Variable) -> int:
            return 1
    walk = Names()
    walk(expr)
    assert walk.found == ["a", "i", "j", "f", "b", "j", "i"]
    assert Count()(expr) == 7


def test_arrays_have_a_base_and_tags() -> None:
    x = lp.GlobalArg("x", tags=frozenset([Rows()]))
    assert isinstance(x, ArrayBase)
    assert x.tags_of_type(Rows)
    assert not x.tags_of_type(int)
