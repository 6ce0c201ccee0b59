"""Substitution rules that hold reductions: their uses, and precompute of them."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from tests.golden_files import GoldenFiles

ARRAYS = [lk.GlobalArg("a,b,c,y", np.int32), "..."]


def _kernel(text: str, domains: str | list[str] = "{[i,j,k]: 0<=i<16 and 0<=j<m and 0<=k<n}") -> lk.LoopKernel:
    return lk.make_kernel(domains, text, ARRAYS)


ROWS = _kernel("f(x) := sum(j, a[x,j]*b[j])\ny[k,i] = 2*f(i) + c[k]")


def test_the_printed_form_has_the_use() -> None:
    assert ROWS.statements_text == "for i, k\n  y[k, i] = 2*f(i) + c[k]  {id=insn}\nend"
    assert "RULES\n  f(x) := sum(j, a[x, j]*b[j])" in str(ROWS)
    again = _kernel("f(x) := sum(j, a[x, j]*b[j])\n" + ROWS.statements_text)
    assert again.statements == ROWS.statements
    split = lk.split_iname(ROWS, "j", 4)            # the reduction no longer has the form of the rule
    assert "2*sum([j_outer, j_inner]" in split.statements_text
    assert not split.substitutions
    assert "2*f(4*i_outer + i_inner)" in lk.split_iname(ROWS, "i", 4).statements_text


def test_one_value_serves_many_readers(golden: GoldenFiles) -> None:
    knl = lk.precompute(ROWS, "f", "i", default_tag=None)
    assert knl.statements_text == ("for f_dim_0\n  f_0[f_dim_0] = sum(j, a[f_dim_0, j]*b[j])  {id=f_0_rule}\nend\n"
                                   "for i, k\n  y[k, i] = 2*f_0[i] + c[k]  {id=insn}\nend")
    assert not knl.substitutions
    rng = np.random.default_rng(1)
    a, b, c = (rng.integers(0, 9, shape).astype(np.int32) for shape in ((16, 5), 5, 7))
    np.testing.assert_array_equal(knl(a=a, b=b, c=c).y, 2*(a @ b)[None, :] + c[:, None])
    mapped = lk.split_iname(ROWS, "k", 4, outer_tag="g.0", inner_tag="l.0")
    mapped = lk.precompute(mapped, "f", "i", default_tag="l.0")
    golden.check("language/rule_with_reduction.cu", lk.generate_code(mapped, target="cuda"))
    np.testing.assert_array_equal(mapped(a=a, b=b, c=c).y, 2*(a @ b)[None, :] + c[:, None])


def test_several_reductions_and_uses() -> None:
    """The uses f(i) and f(i+1) share a box; one reduction is within the other."""
    knl = _kernel("f(x) := sum(j, a[x,j]*max(k, b[j]*c[k])) + product(j, a[x,j] % 2)\n"
                  "y[i] = f(i+1) - f(i)*f(i)", "{[i,j,k]: 0<=i<4 and 0<=j<m and 0<=k<3}")
    assert "f(i + 1) - f(i)*f(i)" in knl.statements_text
    made = lk.precompute(knl, "f", "i", default_tag=None)
    assert "y[i] = f_0[i + 1] - f_0[i]*f_0[i]" in made.statements_text
    assert len(made.reductions) == 3
    rng = np.random.default_rng(2)
    a, b, c = (rng.integers(0, 9, shape).astype(np.int32) for shape in ((5, 6), 6, 3))
    f = a @ (b[:, None]*c[None, :]).max(1) + (a % 2).prod(1)
    np.testing.assert_array_equal(made(a=a, b=b, c=c).y, f[1:] - f[:-1]**2)


def test_values_are_computed_after_the_writes_that_they_read() -> None:
    knl = _kernel("f(x) := sum(j, a[x,j])\na[i,j] = b[i]*j {id=w}\ny[i] = f(i)")
    made = lk.precompute(knl, "f", "i", default_tag=None)
    b = np.arange(16, dtype=np.int32)
    np.testing.assert_array_equal(made(b=b, a=np.zeros((16, 5), np.int32), n=1).y, b*10)
    chain = _kernel("f(x) := sum(j, a[x,j])\nfor i\n y[i] = f(i)\n a[i+1,k] = y[i]\nend",
                    "{[i,j,k]: 0<=i<8 and 0<=j,k<4}")
    with pytest.raises((lk.IllegalTransformError, lk.UndecidedError)):
        lk.precompute(chain, "f", "i", default_tag=None)


def test_some_statements_alone() -> None:
    knl = _kernel("f(x) := sum(j, a[x,j])\nfor i\n y[i] = f(i) {id=first}\nend\nfor i\n c[i] = f(i) {id=second}\nend")
    made = lk.precompute(knl, "f", "i", default_tag=None, within="first")
    assert "y[i] = f_0[i]  {id=first}" in made.statements_text
    assert "c[i] = f(i)  {id=second}" in made.statements_text


def test_rules_are_made_and_removed() -> None:
    plain = lk.expand_subst(ROWS)
    assert "2*sum(j, a[i, j]*b[j]) + c[k]" in plain.statements_text
    found = lk.extract_subst(plain, "g", "sum(j, a[x, j]*b[j])", "x")
    assert "2*g(i) + c[k]" in found.statements_text
    assert found.statements == plain.statements
    assert "g_0[i]" in lk.precompute(found, "g", "i", default_tag=None).statements_text
    for template, within, message in (("sum(j, b[x])", None, "Nothing in the kernel matches"),
                                      ("sum(j, a[x, x])", None, "Nothing in the kernel matches"),
                                      ("sum(j, a[i, j]*x)", None, "Nothing in the kernel matches"),
                                      ("sum(j, a[x, j]*b[j])", "insn", "leave within= out")):
        with pytest.raises(lk.PreconditionError) as refusal:
            lk.extract_subst(plain, "g", template, "x", within=within)
        assert message in str(refusal.value)


@pytest.mark.parametrize(("text", "message"), [
    ("f(x) := if(b[x] > 0, sum(j, a[x,j]), 0)\ny[i] = f(i)", "evaluated only under a condition"),
    ("f(x) := sum(j, a[x,j])\ny[i] = f(b[i])", "needs affine subscripts"),
    ("f(x) := sum(j, a[x,j])\ny[i] = 1", "No statement uses 'f'"),
])
def test_refused(text: str, message: str) -> None:
    with pytest.raises(lk.LoopkitError) as refusal:
        lk.precompute(_kernel(text), "f", "i", default_tag=None)
    assert message in str(refusal.value)


@pytest.mark.parametrize("loops", ["fused", "distributed", "spread"])
def test_values_that_loops_carry_to_later_ones_stay(loops: str) -> None:
    """s has a value for each i, whether a step before precompute or the place of the copy separates its loops."""
    knl = _kernel("""f(x) := sum(j, a[x,j]*c[x])
        for i
          c[i] = 3*b[i]
          <> s = b[i] + 1
          y[i] = s*f(i) {id=y}
        end""", "{[i,j]: 0<=i<8 and 0<=j<4}")
    a, b = np.arange(32, dtype=np.int32).reshape(8, 4), np.arange(8, dtype=np.int32)
    if loops != "fused":
        knl = lk.distribute_loop(knl, "i", "y")
    if loops == "spread":
        knl = lk.tag_inames(knl, "i: l.0")
    knl = lk.precompute(knl, "f", "i", default_tag=None, allow_reordering=True, allow_global_storage=True)
    assert "f_0[i]" in knl.statements_text
    np.testing.assert_array_equal(knl(a=a, b=b).y, (b + 1)*3*b*a.sum(1))


# Bounds that depend on the rule's arguments

def test_bounds_may_depend_on_the_arguments() -> None:
    """f(0) has no operands."""
    knl = _kernel("f(x) := sum({[q]: 0<=q<i}, a[x,q]*b[q])\ny[i] = f(i) + 1", "{[i]: 0<=i<6}")
    made = lk.precompute(knl, "f", "i", default_tag=None)
    assert "f_0[f_dim_0] = sum(q, a[f_dim_0, q]*b[q])" in made.statements_text
    a, b = np.arange(49, dtype=np.int32).reshape(7, 7), np.arange(7, dtype=np.int32)
    np.testing.assert_array_equal(made(a=a, b=b).y, [a[i, :i] @ b[:i] + 1 for i in range(6)])


@pytest.mark.parametrize(("domains", "text", "message"), [
    # the bounds depend on an iname beside the argument
    ("{[i,k]: 0<=i<16 and 0<=k<n}", "f(x) := sum({[q]: 0<=q<=k}, a[x,q])\ny[k,i] = f(i)", "depends on other inames"),
    # where k = 0, the reduction is empty
    ("{[i,k]: 0<=i<16 and 0<=k<n}", "f(x) := sum({[q]: 0<=q<4 and k>0}, a[x,q])\ny[k,i] = f(i)",
     "depends on other inames"),
    # f(1) has two operands in the first use, and three in the second one
    ("{[i]: 0<=i<16}", "f(x) := sum({[q]: 0<=q<=i}, a[x,q])\ny[i] = f(i)*f(i+1)", "reduce over different domains"),
])
def test_bounds_that_the_arguments_do_not_decide(domains: str, text: str, message: str) -> None:
    with pytest.raises(lk.PreconditionError, match=message):
        lk.precompute(_kernel(text, domains), "f", "i", default_tag=None)


# Other steps keep the rules

def test_a_prefetch_keeps_the_rule_that_reads_the_array() -> None:
    knl = _kernel("f(x) := sum(j, a[x,j]*b[j])\ny[i] = f(i)", "{[i,j]: 0<=i<16 and 0<=j<4}")
    knl = lk.add_prefetch(knl, "b", "j", default_tag=None)
    assert "y[i] = f(i)" in knl.statements_text
    assert str(knl.substitutions["f"].expr.expr) == "a[x, j]*b_fetch[j]"        # type: ignore[attr-defined]
    knl = lk.precompute(knl, "f", "i", default_tag=None)
    assert "f_0[f_dim_0] = sum(j, a[f_dim_0, j]*b_fetch[j])" in knl.statements_text
    a, b = np.arange(64, dtype=np.int32).reshape(16, 4), np.arange(4, dtype=np.int32)
    np.testing.assert_array_equal(knl(a=a, b=b).y, a @ b)


def test_a_rule_around_a_computed_one() -> None:
    knl = _kernel("f(x) := sum(j, a[x,j])\ng(s) := b[s]*f(s) + 1\ny[i] = g(i) + c[i]*g(i)",
                  "{[i,j]: 0<=i<8 and 0<=j<4}")
    knl = lk.precompute(knl, "f", "i", default_tag=None)
    assert "y[i] = g(i) + c[i]*g(i)" in knl.statements_text
    assert str(knl.substitutions["g"].expr) == "b[s]*f_0[s] + 1"
    knl = lk.precompute(knl, "g", "i", default_tag=None)
    a, b = np.arange(32, dtype=np.int32).reshape(8, 4), np.arange(8, dtype=np.int32)
    np.testing.assert_array_equal(knl(a=a, b=b, c=b).y, (b*a.sum(1) + 1)*(b + 1))


def test_partial_sums_of_blocks_in_global_memory(golden: GoldenFiles) -> None:
    """The number of blocks depends on n; a second launch adds their sums."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[0] = sum(i, a[i])", [lk.GlobalArg("a,y", np.int32), "..."])
    knl = lk.split_reduction_outward(lk.split_iname(knl, "i", 32, inner_tag="l.0"), "i_outer")
    knl = lk.reduction_arg_to_subst_rule(knl, "i_outer", subst_rule_name="part")
    with pytest.raises(lk.PreconditionError, match="'i_outer' has no constant range"):
        lk.precompute(knl, "part", "i_outer")
    knl = lk.precompute(knl, "part", "i_outer", precompute_inames="block", temporary_address_space="global",
                        allow_global_storage=True, allow_launches=True)
    knl = lk.tag_inames(knl, "block:g.0")
    golden.check("language/partial_sums.cu", lk.generate_code(knl, target="cuda"))
    for n in (0, 1, 100):
        a = np.arange(n, dtype=np.int32)
        np.testing.assert_array_equal(knl(a=a, n=n).y, a.sum())


@pytest.mark.parametrize(("threads", "rounds"), [(16, 1), (6, 3)])
def test_each_thread_sums_in_a_register_under_l_auto(threads: int, rounds: int) -> None:
    """Only the sums are in shared memory, as other threads read them: one barrier before, one after."""
    plain = _kernel("f(x) := sum(j, a[x,j]*b[j])\ny[k,i,p] = f(i)*f(15-i) + c[k]*p",
                    ["{[i,j,k]: 0<=i<16 and 0<=j<m and 0<=k<n}", f"{{[p]: 0<=p<{threads}}}"])
    knl = lk.precompute(lk.tag_inames(plain, "p: l.0, k: g.0"), "f", "i")
    shown = {name: (str(s.space), s.shape) for name, s in lk.lower(knl).storages.items()}
    assert shown == {"acc_j": ("private", ()), "f_0": ("shared", (16,))}
    text = lk.generate_code(knl, target="cuda").source
    assert text.count("__syncwarp();") == 1
    assert ("f_dim_0_round < 3" in text) == (rounds > 1)
    rng = np.random.default_rng(1)
    a, b, c = (rng.integers(0, 9, shape).astype(np.int32) for shape in ((16, 5), 5, 2))
    f = a @ b
    np.testing.assert_array_equal(lk.compile(knl, target="c")(a=a, b=b, c=c).y, (f*f[::-1])[None, :, None]
                                  + c[:, None, None]*np.arange(threads, dtype=np.int32))
