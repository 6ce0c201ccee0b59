"""split_reduction_inward, split_reduction_outward, reduction_arg_to_subst_rule and start_from_addend."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import loopkit as lk
from tests.transform.same import assert_same, step


def kernel(text: str, domain: str = "{[i,j,k,l]: 0<=i<n and 0<=j<m and 0<=k<3 and 0<=l<=k}") -> lk.LoopKernel:
    knl = lk.make_kernel(domain, text)
    return lk.add_dtypes(knl, dict.fromkeys(set(knl.array_args) - {"y", "z"}, np.float32))


SPLIT = {
    "two of three": ("y[i] = sum([j,k,l], a[i,j]*b[k,l]) {id=S}", "k", "sum([j, l], sum(k, a[i, j]*b[k, l]))"),
    "a triangle": ("y[i] = sum([k,l], b[k,l]) {id=S}", "l", "sum(k, sum(l, b[k, l]))"),
    "a part of an expression": ("y[i] = 2*max([j,k], a[i,j] + b[k,0]) + 1 {id=S}", "k",
                                "2*max(j, max(k, a[i, j] + b[k, 0])) + 1"),
    "a nested reduction": ("y[i] = sum([j,k], a[i,j]*sum(l, b[k,l])) {id=S}", "k",
                           "sum(j, sum(k, a[i, j]*sum(l, b[k, l])))"),
    "a condition": ("if i > 1\ny[i] = sum([j,k], if(a[i,j] > 2, b[k,0], 1)) {id=S}\nend", "k", "sum(j, sum(k, "),
}


@pytest.mark.parametrize("name", SPLIT)
def test_split(name: str) -> None:
    text, inner, wanted = SPLIT[name]
    knl = kernel(text)
    after = step(knl, lk.split_reduction_inward, inner)
    assert wanted in after.statements_text
    assert after.history[-1].verdict == "proven"
    outer = ", ".join(x for x in next(node for node in knl.reductions.values() if inner in node.inames).inames
                      if x != inner)
    assert lk.split_reduction_outward(knl, outer).statements_text == after.statements_text
    assert_same(knl, after, n=3, m=4)


def test_the_sums_of_blocks() -> None:
    """A sum over all blocks: each block has its sum, and the second level adds these."""
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<96}", "z[0] = sum(i, a[i])"), {"a": np.float32})
    done = lk.split_iname(lk.split_iname(knl, "i", 32), "i_inner", 8, inner_tag="l.0")
    done = lk.split_reduction_inward(lk.split_reduction_outward(done, "i_outer"), "i_inner_outer")
    done = lk.reduction_arg_to_subst_rule(done, "i_outer")
    assert "sum(i_outer, red_i_outer_arg(i_outer))" in done.statements_text
    done = lk.precompute(done, "red_i_outer_arg", "i_outer", temporary_address_space="global", default_tag="g.0")
    assert_same(knl, done)
    assert "red_i_outer_arg" in "".join(done.temporaries)


def test_rules_of_operands() -> None:
    knl = kernel("y[i] = sum(j, a[i,j]*x[j])\nz[i] = sum(j, a[i,j])")
    after = step(knl, lk.reduction_arg_to_subst_rule, "j")
    assert {name: str(rule.expr) for name, rule in after.substitutions.items()} == {
        "red_j_arg": "a[i, j]*x[j]", "red_j_arg_0": "a[i, j]"}
    assert_same(knl, after, n=3, m=4)
    one = lk.reduction_arg_to_subst_rule(knl, "j", "insn_0", "row")
    assert "sum(j, row(j))" in one.statements_text


REFUSED: dict[str, tuple[Callable[[], object], type[lk.LoopkitError], str]] = {
    "an unknown iname": (lambda: lk.split_reduction_inward(kernel("y[0] = sum([j,k], b[j,k])"), "q"),
                         lk.UnknownNameError, "'q'"),
    "all inames": (lambda: lk.split_reduction_inward(kernel("y[0] = sum([j,k], b[j,k])"), "j, k"),
                   lk.PreconditionError, "and further ones"),
    "no reduction": (lambda: lk.split_reduction_outward(kernel("y[i] = b[i,0]"), "i"), lk.PreconditionError,
                     "and further ones"),
    "a loop with other statements": (lambda: lk.split_reduction_inward(lk.add_prefetch(
        kernel("y[0] = sum([j,k], b[j,k])"), "b", "k"), "k"), lk.PreconditionError, "also hold other statements"),
    "no operand": (lambda: lk.reduction_arg_to_subst_rule(kernel("y[0] = sum([j,k], b[j,k])"), "k"),
                   lk.PreconditionError, "No reductions are over just k"),
    "one name for two": (lambda: lk.reduction_arg_to_subst_rule(
        kernel("y[0] = sum(j, x[j])\nz[0] = sum(j, x[j])"), "j", subst_rule_name="f"), lk.PreconditionError,
        "2 reductions"),
    "a name that is taken": (lambda: lk.reduction_arg_to_subst_rule(kernel("y[0] = sum(j, x[j])"), "j", None, "x"),
                             lk.NameConflictError, "'x' is taken"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, error, pattern = REFUSED[name]
    with pytest.raises(error, match=pattern):
        call()


# Sums that start from an addend

def with_addend(text: str = "y[i] = 2*x[i] + sum(k, a[i, k]) {id=insn}") -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", text)
    return lk.add_dtypes(knl, {x: np.int64 for x in ("x", "y", "a") if x in knl.array_args})


@pytest.mark.parametrize("text", [
    "y[i] = 2*x[i] + sum(k, a[i, k]) {id=insn}", "y[i] = sum(k, a[i, k]) - x[i] + i {id=insn}",
    "y[i] = y[i]*x[i] + sum(k, a[i, k]) {id=insn}"])
def test_a_sum_that_starts_from_an_addend(text: str) -> None:
    knl = with_addend(text)
    result = lk.start_from_addend(knl, "insn")
    assert result.history[-1].verdict == "proven"
    assert "insn.k.init" in result.statements_text
    for n, m in ((3, 4), (2, 0), (0, 3)):
        assert_same(knl, result, n=n, m=m)


def test_an_addend_that_is_written_after_the_start_of_the_sum() -> None:
    """The sum starts before a statement that computes the addend."""
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m}", """
        x[i] = 3*x[i]  {id=triple}
        y[i] = x[i] + sum(k, a[i, k])  {id=insn}
        """)
    knl = lk.apply_schedule(knl, {"insn.k.init": "[i, 0]", "triple": "[i, 1]", "insn.k.update": "[i, 2, k]",
                                  "insn": "[i, 3]"})
    with pytest.raises(lk.IllegalTransformError, match=r"triple\[i=0\]"):
        lk.start_from_addend(knl, "insn")


@pytest.mark.parametrize(("text", "message"), [
    ("y[i] = sum(k, a[i, k]) {id=insn}", "'insn' does not add something to a sum."),
    ("y[i] = x[i]*sum(k, a[i, k]) {id=insn}", "'insn' does not add something to a sum."),
    ("y[i] = x[i] + max(k, a[i, k]) {id=insn}", "'insn' does not add something to a sum."),
    ("y[i] = 1 + sum(k, a[i, k]) {id=insn}", "The sum of 'insn' cannot start from 1")])
def test_statements_that_add_nothing(text: str, message: str) -> None:
    with pytest.raises(lk.PreconditionError) as caught:
        lk.start_from_addend(with_addend(text), "insn")
    assert message in caught.value.message


def test_an_addend_once_only_and_in_one_thread() -> None:
    result = lk.start_from_addend(with_addend(), "insn")
    with pytest.raises(lk.PreconditionError, match="does not add something"):
        lk.start_from_addend(result, "insn")
    with pytest.raises(lk.PreconditionError, match="'insn' adds up several sums"):
        lk.start_from_addend(with_addend("y[i] = x[i] + sum(k, a[i, k]) + sum(k, 2*a[i, k]) {id=insn}"), "insn")
    with pytest.raises(lk.PreconditionError, match="starts from an addend, so threads cannot share it") as caught:
        lk.lower(lk.tag_inames(lk.split_iname(result, "k", 32), "k_inner:l.0"))
    assert caught.value.hint == "leave out start_from_addend"
