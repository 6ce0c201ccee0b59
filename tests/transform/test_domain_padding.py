"""pad_domain: what comes out is what came out, and what would not is refused."""
from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.analysis.constructors import rewritten
from loopkit.expr.kinds import named_dtype
from loopkit.expr.nodes import to_text
from loopkit.transform.domain_padding import require_extended
from tests.transform.same import assert_domain, assert_same, step

MATVEC = "y[i] = sum(k, a[i, k]*x[k])"
BOX = "{[i, k]: 0<=i<n and 0<=k<l}"


def kernel(statements: str = MATVEC, domain: str = BOX, **dtypes: object) -> lk.LoopKernel:
    knl = lk.make_kernel(domain, statements)
    return lk.add_dtypes(knl, {x: dtypes.get(x, np.float32) for x in knl.array_args if x not in knl.written_names})


# What runs on

def test_what_fills_temporaries_runs_on() -> None:
    knl = step(kernel(), lk.pad_domain, {"i": 4, "k": 3})
    assert_domain(knl, "[n] -> { [i] : 0 <= i < 4*floor((n + 3)/4) }",
                  "[n, l] -> { [i, k] : 0 <= i < 4*floor((n + 3)/4) and 0 <= k < 3*floor((l + 2)/3) }",
                  "[n] -> { [i] : 0 <= i < n }")


def test_whole_tiles_stay() -> None:
    knl = kernel(domain="{[i, k]: 0<=i<8 and 0<=k<6}")
    filled = step(knl, lk.pad_domain, {"i": 4, "k": 3})
    assert filled == knl


@pytest.mark.deep
@pytest.mark.parametrize(("statements", "domain", "lengths", "value"), [
    (MATVEC, BOX, {"i": 4, "k": 3}, 0),
    ("y[i] = sum(k, a[i, k]*x[i])", BOX, {"i": 4}, 0),
    ("y[i] = product(k, a[i, k]*x[k])", BOX, {"i": 2, "k": 3}, 1),
    ("y[i] = sum(k, a[i, k] - x[k])", "{[i, k]: 2<=i<n and 1<=k<l}", {"i": 4, "k": 3}, 0),
    ("y[i] = sum(k, a[i, k]*x[i + k])", BOX, {"i": 4}, 0),
    ("f(r) := a[r, 0]*x[r]\n for i\n <> t = f(i)\n <> u = t + 1\n y[i] = u*t\n end", "{[i]: 0<=i<n}", {"i": 4}, 0),
    ("<> s = x[0]\n y[i] = sum(k, s*a[i, k])", BOX, {"i": 4}, 0),
    ("y[i] = max(k, a[i, k]*x[k])", BOX, {"i": 4}, 0),
])
def test_the_same_comes_out(statements: str, domain: str, lengths: dict[str, int], value: int) -> None:
    knl = kernel(statements, domain)
    filled = step(knl, lk.pad_domain, lengths, value=value)
    tiled = filled
    for x, length in lengths.items():
        tiled = lk.split_iname(tiled, x, length, inner_tag="unr")
    for sizes in ({"n": 1, "l": 1}, {"n": 6, "l": 7}, {"n": 8, "l": 6}):
        given = {k: v for k, v in sizes.items() if k in knl.argument_by_name}
        assert_same(knl, filled, **given)
        assert_same(knl, tiled, **given)


def test_infinities_stay_where_they_are() -> None:
    # 0*inf is no neutral element: beyond the end of k both factors are 0, beyond that of i nobody stores
    knl = kernel()
    filled = lk.split_iname(lk.pad_domain(knl, {"i": 4, "k": 4}), "k", 4)
    a, x = np.ones((5, 6), np.float32), np.ones(6, np.float32)
    a[4, :], a[:3, 5], x[2] = np.inf, np.nan, -np.inf
    for given in ({"a": a, "x": np.ones_like(x)}, {"a": np.ones_like(a), "x": x}, {"a": a, "x": 0*np.ones_like(x)}):
        np.testing.assert_array_equal(lk.compile(filled, "c")(**given).y, lk.compile(knl, "c")(**given).y)


@pytest.mark.deep
def test_a_tile_of_filled_values() -> None:
    knl = kernel()
    tiled = lk.split_iname(lk.pad_domain(knl, {"i": 8, "k": 4}), "i", 8, outer_tag="g.0", inner_tag="l.0")
    tiled = lk.split_iname(tiled, "k", 4, inner_tag="unr")
    tiled = lk.precompute(tiled, "a_padded", ["i_inner", "k_inner"], temporary_name="a_tile")
    tiled = lk.pipeline(lk.precompute(tiled, "x_padded", "k_inner"), "k_outer")
    update = str(lk.generate_code(tiled, target="cuda")).split("// insn.k.update")[1].split(";")[0]
    assert "?" not in update
    for sizes in ({"n": 1, "l": 1}, {"n": 13, "l": 7}, {"n": 16, "l": 8}):
        assert_same(knl, tiled, **sizes)


def test_elements_of_a_declared_shape_need_no_reader() -> None:
    """Rows between those that are read exist, and steps beyond the end have zeros nevertheless."""
    knl = lk.make_kernel("{[i, k]: 0<=3*i<n and 0<=k<l}", "y[i] = sum(k, a[3*i, k]*x[k])",
                         [lk.GlobalArg("a", np.float32, "n, l + 2"), lk.GlobalArg("x", np.float32), "..."])
    filled = step(knl, lk.pad_domain, {"i": 4, "k": 4})
    assert to_text(filled.substitutions["a_padded"].expr) == \
        "if(a_axis_0 < n and a_axis_1 < l, a[a_axis_0, a_axis_1], 0)"
    for sizes in ({"n": 1, "l": 1}, {"n": 13, "l": 7}, {"n": 16, "l": 8}):
        assert_same(knl, filled, **sizes)
    # rows that exist for all sizes need no condition
    inside = lk.make_kernel("{[i, k]: 0<=i<6 and 0<=k<5}", "y[i] = sum(k, a[i, k])",
                            [lk.GlobalArg("a", np.float32, (8, 5)), "..."])
    assert not lk.pad_domain(inside, {"i": 4}).substitutions


# What is refused

@pytest.mark.parametrize(("statements", "lengths", "value"), [
    ("y[i] = sum(k, a[i, k]*x[i])", {"k": 4}, 0),           # x may be infinite
    ("y[i] = sum(k, a[i, k] + 1)", {"k": 4}, 0),
    (MATVEC, {"k": 4}, 1),
    ("y[i] = product(k, a[i, k]*x[k])", {"k": 4}, 0),
    ("y[i] = max(k, a[i, k]*x[k])", {"k": 4}, 0),
    ("y[i] = sum(k, a[i, k]*x[i + k])", {"k": 4}, 0),       # other readers need what lies beyond the end here
    ("for i\n <> t = 0 {id=zero}\n for k\n t = t + a[i, k]*x[k] {id=add}\n end\n y[i] = t\n end", {"k": 4}, 0),
])
def test_what_readers_would_see(statements: str, lengths: dict[str, int], value: int) -> None:
    with pytest.raises(lk.IllegalTransformError) as err:
        lk.pad_domain(kernel(statements), lengths, value=value)
    source, sink = err.value.witness.source[1], err.value.witness.sink[1]
    assert source["k"] >= err.value.witness.parameters["l"]
    assert sink["i"] < err.value.witness.parameters["n"]


@pytest.mark.parametrize(("statements", "match"), [
    ("y[i] = sum(k, a[i, k]//x[k])", "divide by zero"),
    ("y[i] = sum(k, a[x[i], k])", "not affine"),
    ("<> t = a[i, 0] {if=x[i] > 0}\n y[i] = t", "depends on data"),
    ("for i\n <> t = a[i, 0]\n a[i, 0] = 2*t\n end", "which the kernel writes"),
    ("y[i] = a[i, 0]*x[i]", "writes a temporary"),
])
def test_what_cannot_run_on(statements: str, match: str) -> None:
    domain = BOX if "k" in statements else "{[i]: 0<=i<n}"
    with pytest.raises(lk.PreconditionError, match=match):
        lk.pad_domain(kernel(statements, domain, a=np.int32, x=np.int32), {"i": 4})


def test_bad_arguments() -> None:
    with pytest.raises(lk.UnknownNameError):
        lk.pad_domain(kernel(), {"j": 4})
    with pytest.raises(lk.PreconditionError, match="positive"):
        lk.pad_domain(kernel(), {"i": 0})
    with pytest.raises(lk.PreconditionError, match="finite"):
        lk.pad_domain(kernel(), {"i": 4}, value=float("nan"))
    with pytest.raises(lk.PreconditionError, match="'a' has elements of int32"):
        lk.pad_domain(kernel(a=np.int32), {"i": 4}, value=0.5)
    with pytest.raises(lk.PreconditionError, match="dtype of 'a' is unknown"):
        lk.pad_domain(lk.make_kernel(BOX, MATVEC), {"i": 4})
    with pytest.raises(lk.PreconditionError, match="writes the array 'y'"):
        lk.pad_domain(kernel(), {"i": 4}, within="id:insn")


def test_parts_of_a_peeled_reduction() -> None:
    with pytest.raises(lk.PreconditionError, match="peeled"):
        lk.pad_domain(lk.peel(kernel(), "k", first=1), {"i": 4})


def test_who_shares_a_rule_computes_the_same() -> None:
    knl = kernel("f(r) := x[r]\n y[i] = sum(k, a[i, k]*f(k)) {id=y}\n z[i] = f(i + l) {id=z}")
    for lengths in ({"i": 4}, {"k": 4}):
        with pytest.raises(lk.IllegalTransformError) if "k" in lengths else nullcontext():
            assert_same(knl, lk.pad_domain(knl, lengths), n=5, l=3)


def test_after_the_order_of_values_changed() -> None:
    knl = kernel("for i\n <> t = a[i, 0] {id=t}\n y[i] = t {id=y}\n end", "{[i]: 0<=i<n}")
    with pytest.raises(lk.ScheduleError, match="earlier steps"):
        lk.pad_domain(lk.distribute_loop(knl, "i", "y"), {"i": 4})


def test_tiles_of_a_product_in_chunks_are_filled_up_to_the_ends_of_its_arrays() -> None:
    """Each chunk reaches a part of the array of its own, which is no reason for conditions that tell these apart."""
    knl = lk.make_kernel("{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<l}", "c[i,j] = sum(k, a[i,k]*b[k,j])")
    knl = lk.add_dtypes(knl, {"a,b": np.float32})
    knl = lk.chunk_iname(lk.split_iname(lk.split_iname(knl, "i", 3), "k", 8), "k_outer", 5)
    rule = lk.pad_domain(knl, {"i_inner": 2}).substitutions["a_padded"].expr
    assert isinstance(rule, p.If)
    assert isinstance(rule.condition, p.LogicalAnd)
    assert {to_text(c) for c in rule.condition.children} <= {"a_axis_0 < n", "a_axis_1 < l", "0 <= a_axis_1"}


# The proof looks at the two kernels alone

@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("by", "kind"), [(1, "missing"), (-1, "value")])
def test_wrong_conditions_are_found(axis: int, by: int, kind: str) -> None:
    knl = kernel()
    filled = lk.pad_domain(knl, {"i": 4, "k": 4})
    rule = filled.substitutions["a_padded"]
    assert isinstance(rule.expr, p.If)
    assert isinstance(rule.expr.condition, p.LogicalAnd)
    parts = list(rule.expr.condition.children)
    assert isinstance(parts[axis], p.Comparison)
    parts[axis] = replace(parts[axis], right=p.Sum((parts[axis].right, by)))
    broken = replace(rule, expr=replace(rule.expr, condition=p.LogicalAnd(tuple(parts))))
    after = rewritten(filled, substitutions={**filled.substitutions, rule.name: broken})
    require_extended(knl, filled, "step")
    with pytest.raises(lk.IllegalTransformError) as err:
        require_extended(knl, after, "step")
    assert err.value.witness.kind == kind


def test_hints_name_what_was_asked_for() -> None:
    """The hint for a triangle names statements that were padded along *i*, not those of the other iname."""
    knl = lk.make_kernel(["{[i]: 0<=i<n}", "[i] -> {[k]: 0<=k<=i}"], "y[i] = sum(k, x[k])")
    knl = lk.add_dtypes(knl, {"x": np.float32})
    with pytest.raises(lk.IllegalTransformError, match="neutral") as one:
        lk.pad_domain(knl, {"i": 4})
    assert one.value.hints[-1] == "select the statements to pad by within=, without 'insn.k.update'"
    assert not any("leave" in hint for hint in one.value.hints)
    assert lk.pad_domain(knl, {"i": 4}, within="id:insn.k.init").history
    with pytest.raises(lk.IllegalTransformError) as both:
        lk.pad_domain(knl, {"i": 4, "k": 4})
    assert [str(h) for h in both.value.hints] == ["leave 'k' out"]


@pytest.mark.parametrize(("dtype", "change"), [
    ("bfloat16", lambda knl: lk.set_accumulator_dtype(knl, np.float32)),
    ("int8", lambda knl: lk.set_accumulator_dtype(knl, np.int32)),
    ("float32", lambda knl: lk.set_operand_precision(knl, "tf32"))])
def test_zeros_stay_zeros_in_converted_factors(dtype: str, change: Callable[[lk.LoopKernel], lk.LoopKernel]) -> None:
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<l}", "y[i] = sum(k, a[i, k]*b[k])", assumptions="n>=1 and l>=1")
    plain = change(lk.add_dtypes(knl, {"a,b": named_dtype(dtype), "y": np.float32}))
    assert_same(plain, lk.pad_domain(plain, {"i": 4, "k": 8}), n=5, l=11)
