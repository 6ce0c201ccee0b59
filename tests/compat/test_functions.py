"""Kernels that loopy's programs call, registered functions, and steps before lp.merge."""
from __future__ import annotations

import numpy as np
import pytest
from pytools.tag import Tag

import loopkit.compat.loopy as lp

HOST = lp.ExecutableCTarget()


def statements(unit: lp.TranslationUnit, name: str = "loopy_kernel") -> list[str]:
    return [line.strip() for line in unit[name].core.statements_text.splitlines()]


def caller(text: str = "y[j,:] = twice(x[j,:])", **options: object) -> lp.TranslationUnit:
    return lp.make_kernel("{[j]: 0<=j<3}", text, target=HOST, **options)


TWICE = lp.make_function("{[i]: 0<=i<4}", "b[i] = 2*a[i]", name="twice")


def test_a_caller_is_made_when_its_function_is_known() -> None:
    unit = lp.add_dtypes(lp.tag_inames(caller(), "j:unr"), {"x": np.float32})
    with pytest.raises(lp.LoopyError, match="'twice' is not a function"):
        lp.generate_code_v2(unit.with_entrypoints("loopy_kernel"))
    merged = lp.merge([unit, TWICE])
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    _, (y,) = merged(x=x)
    assert np.array_equal(y, 2*x)
    assert y.dtype == np.float32
    assert statements(merged)[0] == "for j [unr], i"


def test_a_step_of_a_function_changes_its_caller() -> None:
    unit = lp.merge([caller(), TWICE])
    unit = unit.with_kernel(lp.tag_inames(unit["loopy_kernel"], "j:unr"))
    unit = lp.split_iname(unit, "i", 2, within="in_kernel:twice")
    assert statements(unit)[0] == "for j [unr], i_outer, i_inner"
    assert "y[j, 2*i_outer + i_inner] = 2*x[j, 2*i_outer + i_inner]  {id=twice_insn}" in statements(unit)
    assert "# y[j,:] = twice(x[j,:])" in statements(unit)
    inline = lp.inline_callable_kernel(unit, "twice")
    assert statements(inline)[0] == "for j [unr], twic_i_outer, twic_i_inner"
    assert "# y[j,:] = twice(x[j,:])" not in statements(inline)


def test_a_function_does_not_change_under_a_step_that_is_not_known() -> None:
    unit = lp.merge([caller(), TWICE])
    unit = unit.with_kernel(unit["loopy_kernel"].with_core(unit["loopy_kernel"].core))
    with pytest.raises(lp.LoopyError, match="'twice' changed"):
        lp.split_iname(unit, "i", 2, within="in_kernel:twice")


def test_functions_that_call_each_other_are_refused() -> None:
    first = lp.make_function("{[i]: 0<=i<4}", "b[:] = second(a[:])", name="first")
    second = lp.make_function("{[i]: 0<=i<4}", "b[:] = first(a[:])", name="second")
    with pytest.raises(lp.LoopyError, match="calls itself"):
        lp.merge([first, second])


class Half(lp.ScalarCallable):
    """Half of a number, by a name of the user's own."""

    def with_types(self, arg_id_to_dtype: dict[int, object], clbl_inf_ctx: object) -> tuple[lp.ScalarCallable, object]:
        dtype = arg_id_to_dtype[0]
        return self.copy(name_in_target="half_of", arg_id_to_dtype={0: dtype, -1: dtype}), clbl_inf_ctx

    def generate_preambles(self, target: object) -> list[tuple[str, str]]:
        return [("00", "static double half_of(double x) { return x/2; }")]


@pytest.mark.parametrize("name", ["halved", "sqrt"])
def test_a_registered_function_is_called(name: str) -> None:
    unit = lp.make_kernel("{[i]: 0<=i<n}", f"y[i] = {name}(x[i])", target=HOST)
    _, (y,) = lp.register_callable(unit, name, Half(name))(x=np.array([1., 4.]))
    assert y.tolist() == [0.5, 2]


def test_the_ends_of_slices_are_those_of_their_arrays() -> None:
    pair = lp.make_function("{:}", "g[0] = 2*e[0] {id=a}\ng[1] = e[1] {dep=a}", name="pair")
    unit = lp.make_kernel(["{[i]: 0<=i<n}", "{[j]: 0<=j<n}"], "[i]: z[i, j] = pair([i]: x[i, j])",
                          [lp.GlobalArg("x,z", np.float64, shape=(3, "n")), ...], target=HOST)
    x = np.arange(3.0).reshape(3, 1)
    _, (z,) = lp.merge([unit, pair])(x=x)
    assert z[:2].tolist() == [[0], [1]]
    wrong = lp.make_function("{:}", "g[0] = e[3]", name="pair")
    with pytest.raises(lp.LoopyError, match="outside its shape"):
        lp.generate_code_v2(lp.merge([unit, wrong]))


class Divided(lp.ScalarCallable):
    """A quotient and a rest: the second result through a pointer. Complex numbers are of the target's own type."""

    def with_types(self, arg_id_to_dtype: dict[int, object], clbl_inf_ctx: object) -> tuple[lp.ScalarCallable, object]:
        if arg_id_to_dtype[1].numpy_dtype.kind != "i":                                         # type: ignore[attr-defined]
            raise TypeError("the divisor is an integer")
        whole, real = lp.NumpyType(np.int32), arg_id_to_dtype[0]
        return self.copy(name_in_target="divided", arg_id_to_dtype={0: real, 1: whole, -1: real, -2: whole}), None

    def generate_preambles(self, target: object) -> list[tuple[str, str]]:
        return [("1", "static double divided(double x, int by, int *rest)\n"
                      "{ *rest = (int)x % by; return (double)((int)x / by); }")]


def test_a_registered_function_has_several_results() -> None:
    text = "<> q, r[i] = div(x[i] + 1, 4) {id=d}\ny[i] = 10*q {dep=d}"
    unit = lp.register_callable(lp.make_kernel("{[i]: 0<=i<n}", text, target=HOST), "div", Divided("div"))
    _, (r, y) = unit(x=np.array([10., 2.]))
    assert (r.tolist(), y.tolist(), r.dtype) == ([3, 3], [20, 0], np.int32)
    with pytest.raises(lp.LoopyError, match="has 2 results, and 'a, b, c = div"):
        lp.register_callable(lp.make_kernel("{[i]: 0<=i<n}", "a, b, c = div(1, 4)"), "div", Divided("div"))
    text = text.replace("id=d", "id_prefix=d").replace("dep=d", "dep=ddiv*")
    unit = lp.make_kernel("{[i]: 0<=i<n}", text, target=lp.PyOpenCLTarget())
    unit = lp.register_callable(unit, "div", Divided("div"))
    made = lp.generate_code_v2(lp.add_dtypes(unit, {"x": np.complex128})).device_code()
    for line in ("#include <pyopencl-complex.h>", "    r0 = divided(cdouble_new(a0.x, a0.y), a1, &r1);",
                 "    found.f0 = (double2)(r0.real, r0.imag);"):
        assert line in made.splitlines()


def test_multiple_assignments_keep_their_parts_together() -> None:
    """All values are computed before the first target is written, whatever depends on the statement."""
    unit = lp.make_kernel("{[i]: 0<=i<n}", "z[i] = a[i] {dep=swap}\na[i], b[i] = b[i], a[i] {id=swap}", target=HOST)
    _, (a, b, z) = unit(a=np.array([1., 2.]), b=np.array([3., 4.]))
    assert (a.tolist(), b.tolist(), z.tolist()) == ([3, 4], [1, 2], [3, 4])


def test_argmin_has_loopys_dtypes() -> None:
    unit = lp.make_kernel("{[i]: 0<=i<n}", "least, at = argmin(i, abs(x[i]), i)", target=HOST)
    unit = lp.set_options(unit, return_dict=True)
    _, found = unit(x=np.array([3, -1, 2], np.float32))
    assert (found["least"], found["at"]) == (1, 1)
    assert (found["least"].dtype, found["at"].dtype) == (np.float32, np.int32)


def test_match_expressions_order_statements() -> None:
    unit = lp.make_kernel("{[i]: 0<=i<n}", "c[i] = 1 {dep_query=writes:a}\na[i] = 2")
    assert statements(unit)[1:3] == ["a[i] = 2  {id=insn_0}", "c[i] = 1  {id=insn}"]


def test_private_inames_have_loops_of_their_own() -> None:
    unit = lp.make_kernel("{[i]: 0<=i<4}", "t[i] = i {dup=i, id=t}\ny[i] = t[3-i] {dep=t}", target=HOST)
    _, (_, y) = lp.add_dtypes(unit, {"t": np.int32})()
    assert y.tolist() == [3, 2, 1, 0]


def test_objects_are_instructions() -> None:
    unit = lp.make_kernel("{[i]: 0<=i<2}", [
        lp.Assignment("y[i]", "t[1-i]", depends_on="wait"), lp.BarrierInstruction(id="wait", depends_on="t"),
        lp.Assignment("t[i]", "3", id="t"), lp.NoOpInstruction(id="last")], target=HOST)
    assert [line for line in statements(unit) if "=" in line] == ["t[i] = 3  {id=t}", "y[i] = t[1 - i]  {id=insn}"]


def test_instructions_are_mapped_and_removed() -> None:
    unit = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i] {id=y}\nz[i] = x[i] {id=z}")
    unit = lp.map_instructions(unit, "id:y", lambda insn: insn.copy(expression=2*insn.expression))
    assert statements(lp.remove_instructions(unit, {"z"}))[1] == "y[i] = 2*x[i]  {id=y}"


class Hot(Tag):
    """A user's tag."""


def test_kernels_and_inames_have_user_tags() -> None:
    unit = lp.make_kernel("{[i]: 0<=i<16}", "y[i] = x[i]", tags=frozenset([Hot()]))
    kernel = lp.tag_inames(lp.tag_inames(unit, {"i": Hot()}), "i:unr").default_entrypoint
    assert kernel.tags == {Hot()}
    assert kernel.without_tags(Hot()).tags == frozenset()
    assert kernel.iname_tags_of_type("i", Hot) == {Hot()}
    assert len(kernel.iname_tags("i")) == 2


def test_an_offset_is_not_ignored() -> None:
    target, y = lp.ExecutableCTarget(), np.arange(5, dtype=np.int32)
    unit = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*y[i]", [lp.GlobalArg("y", offset=3), ...], target=target)
    unit(y=y, n=2)
    assert y.tolist() == [0, 1, 2, 6, 8]
    with pytest.raises(lp.LoopyError, match="offset=3"):
        lp.make_kernel("{[i]: 0<=i<7}", "t[i] = 2", [lp.TemporaryVariable("t", offset=3, shape=10)])
    with pytest.raises(lp.LoopyError, match="default_offset=3"):
        lp.make_kernel("{[i]: 0<=i<7}", "y[i] = 2", default_offset=3)


def test_domains_know_the_domains_around_them() -> None:
    kernel = lp.make_kernel(["{[i]: 0<=i<n}", "{[j]: 0<=j<=i}"], "a[i] = 1\nb[i,j] = 2").default_entrypoint
    assert sorted(map(str, kernel.parents_per_domain())) == ["0", "None"]
