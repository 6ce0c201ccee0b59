"""Programs in the style of projects that use loopy: user tags, sums in blocks, inlined functions, silenced races."""
from __future__ import annotations

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from pymbolic import var
from pytools.tag import Tag

import loopkit.compat.loopy as lp
from loopkit.compat.loopy.kernel.instruction import HappensAfter
from loopkit.compat.loopy.symbolic import ResolvedFunction
from loopkit.compat.loopy.translation_unit import resolve_callables
from loopkit.compat.loopy.types import NumpyType
from loopkit.errors import NameConflictError, PreconditionError, UndecidedError, UnknownNameError
from tests.compat.test_calls import statements, written

HOST = lp.ExecutableCTarget()


@dataclass(frozen=True)
class Scaling(Tag):
    """A user tag."""

    kind: str = "plain"


# User tags of instructions

def test_instructions_keep_their_user_tags_and_steps_find_them() -> None:
    unit = lp.make_kernel("{[i]: 0<=i<n}", [
        "x[i] = 1 {id=x, tags=Scaling}",
        lp.Assignment("y[i]", "2*x[i]", id="y", tags=frozenset([Scaling(), "main"])),
        lp.Assignment("z[i]", "3*x[i]", id="z", tags=frozenset([Scaling("other")]))])
    tags = {insn.id: insn.tags for insn in unit.default_entrypoint.instructions}
    assert tags == {"x": {"Scaling"}, "y": {Scaling(), "main"}, "z": {Scaling("other")}}
    found = lp.find_instructions(unit, lp.match.ObjTagged(Scaling("other"))) if hasattr(lp, "match") else None
    assert found is None or [insn.id for insn in found] == ["z"]
    typed = lp.split_iname(lp.add_dtypes(unit, {"x": "float32"}).copy(target=lp.CTarget()), "i", 4)
    for program in (unit, typed):                       # each keeps the calls of its steps
        found = pickle.loads(pickle.dumps(program)).default_entrypoint
        assert found.instructions[1].tags == {Scaling(), "main"}
        assert found.definition.steps == program.default_entrypoint.definition.steps


# happens_after

def test_happens_after_is_the_newer_name_of_depends_on() -> None:
    a = lp.Assignment("y[i]", "1", id="a", happens_after=frozenset(["b"]))
    assert a.depends_on == {"b"}
    assert a.happens_after == {"b": HappensAfter()}
    assert a.copy(happens_after={"c": HappensAfter("y")}).depends_on == {"c"}
    assert a.copy(depends_on={"d"}).happens_after.keys() == {"d"}
    assert a == lp.Assignment("y[i]", "1", id="a", depends_on="b")
    with pytest.raises(PreconditionError, match="depends_on= and happens_after="):
        lp.Assignment("y[i]", "1", depends_on="a", happens_after=frozenset(["b"]))


def test_parts_of_assignments_given_as_texts_are_expressions() -> None:
    insn = lp.Assignment("y[i]", "2*x[i] + 1j")
    assert insn.assignee == var("y")[var("i")]
    assert insn.copy(expression=insn.expression + 1).expression.children[-1] == 1


# Sums in blocks

SUMS = """
for i, j
    <> t = a[j]*b[i]
    <> u = t*t
    y[i] = c + 3*simul_reduce(sum, j, u) + product(j, 1 + t) {inames=i}
end
"""


def sums(**arrays: np.ndarray) -> np.ndarray:
    t = arrays["a"][None]*arrays["b"][:, None]
    return 2 + 3*(t*t).sum(axis=1) + (1 + t).prod(axis=1)


def test_a_sum_shares_the_loop_of_the_block_that_inames_leave_out() -> None:
    unit = lp.make_kernel("{[i, j]: 0<=i<4 and 0<=j<5}", SUMS, fixed_parameters={"c": 2})
    lines = statements(unit)
    assert lines[:4] == ["for i", "<> acc_j = 0  {id=insn_1_j_init}", "<> acc_j_0 = 1  {id=insn_1_j_init_0}", "for j"]
    assert "acc_j = acc_j + u  {id=insn_1_j_update}" in lines
    arrays = {"a": np.linspace(0, 1, 5), "b": np.linspace(1, 3, 4)}
    new = written(lp.add_dtypes(unit, dict.fromkeys(arrays, np.float64)), "y", **arrays)
    np.testing.assert_allclose([new[k,] for k in range(4)], sums(**arrays))


def test_a_statement_outside_of_a_block_keeps_the_conditions_of_the_block() -> None:
    unit = lp.make_kernel("{[i, j]: 0<=i<4 and 0<=j<5}", """
        for i, j
            <> t = a[j]
            if i < 2
                y[i] = sum(j, t) {inames=i}
            end
        end""")
    unit = lp.add_dtypes(unit, {"a": np.float64})
    assert written(unit, "y", a=np.arange(5.)) == {(0,): 10., (1,): 10.}


def test_a_number_of_all_threads_needs_no_inames_of_the_grid() -> None:
    unit = lp.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", [
        lp.Assignment("s", "3.5", id="s", temp_var_type=lp.Optional(np.float64), tags=frozenset([Scaling()])),
        "for i, j",
        "<> t = a[j]*b[i]", "y[i] = s*simul_reduce(sum, j, t) {inames=i}", "end"], assumptions="n>=1 and m>=1")
    unit = lp.split_iname(unit, "i", 16, outer_tag="g.0", inner_tag="l.0")
    joined = lp.add_inames_for_unused_hw_axes(unit, within=Scaling())
    assert statements(joined)[1].startswith("<float64> s = 3.5")
    unit = lp.prioritize_loops(lp.split_iname(unit, "j", 4), ["j_outer", "i_inner"])
    assert statements(lp.add_inames_to_insn(unit, "i_inner", "id:s"))[0].startswith("<float64> s = 3.5")
    moved = lp.add_inames_for_unused_hw_axes(unit, within=Scaling()).default_entrypoint.id_to_insn["s"]
    assert (moved.within_inames, moved.tags) == ({"i_outer", "i_inner"}, {Scaling()})
    assert lp.add_inames_for_unused_hw_axes(unit, within=Scaling("other")) is not None
    assert lp.tag_inames(unit, {"k*": "unr"}).default_entrypoint.core.tags == unit.default_entrypoint.core.tags


# Names

def test_names_that_c_reserves_are_other_ones_in_the_core() -> None:
    unit = lp.make_kernel("{[__dim0]: 0<=__dim0<3}", "y[__dim0] = const*x[__dim0] + dim0",
                          [lp.ValueArg("dim0", np.int32), ...], fixed_parameters={"const": 2.5, "unused": 3})
    unit = lp.add_dtypes(unit, {"x": np.float64})
    assert written(unit, "y", x=np.arange(3.), dim0=1) == {(0,): 1., (1,): 3.5, (2,): 6.}
    assert "const" not in unit.default_entrypoint.arg_dict


# Functions

class Root(lp.ScalarCallable):
    def with_types(self, arg_id_to_dtype, clbl_inf_ctx):  # type: ignore[no-untyped-def]
        dtype = arg_id_to_dtype[0]
        return self.copy(name_in_target="sqrt", arg_id_to_dtype={0: dtype, -1: NumpyType(np.float64)}), clbl_inf_ctx


def test_a_function_may_be_registered_before_a_statement_calls_it() -> None:
    empty = lp.register_callable(lp.make_kernel("{[i]: 0<=i<3}", "z[i] = x[i]", name="other"), "root", Root("root"))
    assert "root" in empty.callables_table
    with pytest.raises(NameConflictError, match="'root'"):
        lp.register_callable(empty, "root", Root("root"))
    unit = lp.merge([empty, lp.make_kernel("{[i]: 0<=i<3}", "y[i] = root(x[i])", name="caller")])
    assert statements(unit, "caller") == ["for i", "y[i] = root(x[i])  {id=insn}", "end"]
    with pytest.raises(PreconditionError, match="different numbers of arguments"):
        lp.merge([unit, lp.make_function("{[i]: 0<=i<3}", "y[i] = root(x[i], 1)", name="third"), lp.register_callable(
            lp.make_function("{[i]: 0<=i<3}", "y[i] = x[i]", name="fourth"), "root", Root("root"))])


def test_the_functions_of_calls_are_in_the_table_and_have_resolved_names() -> None:
    unit = lp.register_callable(lp.make_kernel("{[i]: 0<=i<3}", "t(u) := sin(u)\ny[i] = root(x[i]) + t(i)"), "root",
                                Root("root"))
    unit = resolve_callables(unit)
    assert {"sin", "root", "loopy_kernel"} == unit.callables_table.keys()
    called, _ = unit["loopy_kernel"].instructions[0].expression.children
    assert isinstance(called.function, ResolvedFunction)
    assert isinstance(ResolvedFunction("exp"), ResolvedFunction)
    assert not isinstance(var("x"), ResolvedFunction)
    with pytest.raises(UnknownNameError, match="'sin'"):
        lp.rename_callable(unit, "sin", "sine")


SCALED = "b[i] = b[i] + v[0, k]*a[i] {id=s}\nb[i] = b[i] + v[1, k] {dep=s}"


def test_an_inlined_function_leaves_the_program_and_separate_axes_are_those_of_callers() -> None:
    function = lp.make_function("{[i]: 0<=i<m}", SCALED, [
        lp.GlobalArg("b, a", shape=("m",)), lp.ValueArg("k", np.int32),
        lp.GlobalArg("v", shape=(2, "n")), lp.ValueArg("n, m", np.int32)], name="f")
    function = lp.tag_array_axes(function, "v", "sep,C")                    # its callers pass the whole array
    unit = lp.make_kernel("{[i, k]: 0<=i<size and 0<=k<n}", """
        for k
            [i]: y[i] = f([i]: y[i], [i]: x[i], k, v, n, size)
        end""", [lp.GlobalArg("y, x", shape=("size",)), lp.GlobalArg("v", shape=(2, "n")), ...],
        fixed_parameters={"size": 3})
    unit = lp.inline_callable_kernel(lp.merge([unit, function]), "f")
    assert "f" not in unit.callables_table
    for _ in range(2):
        unit = lp.tag_array_axes(unit, "v", "sep,C")
    assert {"v_s0", "v_s1"} <= unit.default_entrypoint.arg_dict.keys()
    unit = lp.register_preamble_generators(unit, [lambda info: [("a", "// a")]])       # the kernel is made again
    assert {"v_s0", "v_s1"} <= unit.default_entrypoint.arg_dict.keys()


# Silenced races

def test_a_silenced_write_race_is_an_assumption_of_a_tag() -> None:
    def made(silenced: str) -> lp.TranslationUnit:
        unit = lp.make_kernel("{[i]: 0<=i<n}", "<> k = index[i]\ny[k] = x[i] {id=store}\nz[k] = x[i] {id=other}",
                              silenced_warnings=silenced)
        return lp.tag_inames(unit, {"i": "g.0"})
    unit = made("write_race(*)")
    assert [o.verdict for o in unit.default_entrypoint.core.obligations] == ["assumed"]*2
    for silenced in ("", "write_race(store)", "variable_access_ordered"):
        with pytest.raises(UndecidedError):
            made(silenced)
