"""The printed kernel reads well, and reads back where nothing was transformed."""
from __future__ import annotations

import numpy as np
import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.analysis.constructors import reordered
from loopkit.kernel.printing import kernel_text
from loopkit.kernel.statement import Obligation
from loopkit.kernel.tree import Barrier, Leaf, seq


def matmul() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", "c[i, j] = sum(k, a[i, k]*b[k, j])",
                         name="matmul", assumptions="n>=1 and m>=1 and l>=1")
    return lk.add_dtypes(knl, {"a,b": np.float32})


def statements(text: str) -> str:
    """The statement part of a printed kernel."""
    return text.partition("STATEMENTS\n")[2].partition("\nOBLIGATIONS")[0]


def test_matmul() -> None:
    assert kernel_text(matmul()) == """\
KERNEL matmul(a: float32, b: float32, c: ?, l: int, m: int, n: int)
ASSUMPTIONS
  n > 0 and m > 0 and l > 0
DOMAINS
  [l, m, n] -> { [i, j, k] : 0 <= i < n and 0 <= j < m and 0 <= k < l }
STATEMENTS
  for i, j
    c[i, j] = sum(k, a[i, k]*b[k, j])  {id=insn}
  end"""


def test_tiled_matmul() -> None:
    knl = lk.split_iname(matmul(), "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = lk.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_iname(knl, "k", 16)
    knl = lk.add_prefetch(knl, "a", ["i_inner", "k_inner"])
    text = kernel_text(knl)
    assert "  a_fetch: float32 [16, 16]" in text.splitlines()
    assert "  i_outer: g.1" in text.splitlines()
    # a reduction that shares its loops with a prefetch stands as what it is
    assert statements(text) == """\
  for i_outer [g.1], j_outer [g.0]
    for i_inner [l.1], j_inner [l.0]
      <> acc_k = 0  {id=insn.k.init}
    end
    for k_outer
      for a_dim_0 [l.auto], a_dim_1 [l.auto]
        a_fetch[a_dim_0, a_dim_1] = a[16*i_outer + a_dim_0, 16*k_outer + a_dim_1]  {id=a_fetch_rule}
      end
      for i_inner [l.1], j_inner [l.0]
        acc_k = acc_k + sum(k_inner, a_fetch[i_inner, k_inner]*b[16*k_outer + k_inner, 16*j_outer + j_inner])  \
{id=insn.k.update}
      end
    end
    for i_inner [l.1], j_inner [l.0]
      c[16*i_outer + i_inner, 16*j_outer + j_inner] = acc_k  {id=insn}
    end
  end"""


def test_split_matmul() -> None:
    knl = lk.split_iname(lk.split_iname(matmul(), "i", 16, outer_tag="g.0", inner_tag="l.0"), "k", 8, inner_tag="unr")
    assert statements(kernel_text(knl)) == """\
  for i_outer [g.0], i_inner [l.0], j
    c[16*i_outer + i_inner, j] = sum([k_outer, k_inner], a[16*i_outer + i_inner, 8*k_outer + k_inner]\
*b[8*k_outer + k_inner, j])  {id=insn}
  end"""


EVERYTHING = """
f(x) := x*x + 1
for i
  <> t = sum(k, a[i, k]*max(j, b[j])) {id=one, tags=hot}
  if i < 3
    y[i] = t + f(i) {dep=one}
  else
    y[i] = 0 {nosync=one}
  end
  if a[i, 0] > 0
    z[i] = min(k, a[i, k])
  end
end
"""


def test_everything() -> None:
    knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", EVERYTHING)
    text = kernel_text(knl)
    assert "RULES\n  f(x) := x*x + 1\n" in text
    assert statements(text) == """\
  for i
    <> t = sum(k, a[i, k]*max(j, b[j]))  {id=one, tags=hot}
    y[i] = t + f(i)  {id=insn, if=i <= 2, dep=one}
    y[i] = 0  {id=insn_0, if=i >= 3, nosync=one}
    <bool> cond = a[i, 0] > 0  {id=insn_cond}
    z[i] = min(k, a[i, k])  {id=insn_1, if=cond}
  end"""


@pytest.mark.parametrize(("domains", "text"), [
    ("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", EVERYTHING),
    ("{[i, j]: 0<=i<n and 0<=j<=i}", "y[i] = sum(j, a[i, j])\nfor i\n<float32> s = y[i]/2\nx[i] = s\nend"),
    ("{[i]: 0<=i<n}", "x[i] = -y[i] + 2**i {if=y[i] > 0 and i > 2}")])
def test_statements_read_back(domains: str, text: str) -> None:
    knl = lk.make_kernel(domains, text)
    printed = kernel_text(knl)
    rules = printed.partition("RULES\n")[2].partition("STATEMENTS")[0]
    sets = printed.partition("DOMAINS\n")[2].partition("RULES" if rules else "STATEMENTS")[0].splitlines()
    again = lk.make_kernel(sets, rules + statements(printed))
    assert kernel_text(again) == printed
    assert [s.id for s in again.statements] == [s.id for s in knl.statements]
    assert all(a.domain.is_equal(b.domain) and a.expression == b.expression
               for a, b in zip(knl.statements, again.statements, strict=True))


def test_loops_of_reductions_alone_are_hidden() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "s = sum(i, x[i])")
    assert statements(kernel_text(knl)) == "  s = sum(i, x[i])  {id=insn}"


def test_barriers_and_obligations() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "s = 0 {id=a}\nr = 1 {id=b}")
    obligations = (Obligation("tag_inames(i: g.0)", "'S' never meets itself on 'a'", "row is sorted"),
                   Obligation("interchange(i, j)", "'S' may run late"))
    knl = reordered(knl, seq(Leaf("a"), Barrier(("flow a -> b",)), Leaf("b")), obligations=obligations)
    text = kernel_text(knl)
    assert "  ... barrier  # flow a -> b" in text.splitlines()
    assert text.endswith("OBLIGATIONS\n"
                         "  tag_inames(i: g.0): 'S' never meets itself on 'a' (assumed: row is sorted)\n"
                         "  interchange(i, j): 'S' may run late (unsafe)")


def test_long_titles_wrap_and_nothing_trails() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = " + " + ".join(f"argument_{k}[i]" for k in range(20)))
    text = kernel_text(knl)
    title = text.partition("DOMAINS")[0].splitlines()
    assert len(title) > 2
    assert max(map(len, title)) <= 110
    assert not [line for line in text.splitlines() if line != line.rstrip()]


def test_declared_shapes_and_address_spaces() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "t[i] = x[i]\ny[i] = t[i]", [
        lk.GlobalArg("x", np.dtype("float32"), (p.Variable("n"),)), lk.GlobalArg("y", np.dtype("float32")),
        lk.TemporaryVariable("t", shape=(p.Sum((p.Variable("n"), 1)),), address_space=lk.AddressSpace.GLOBAL), "..."])
    text = kernel_text(knl)
    assert text.startswith("KERNEL kernel(x: float32 [n], y: float32, n: int)\nTEMPORARIES\n  t: ? [n + 1] global\n")


def test_a_kernel_among_other_values() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    assert knl != "kernel"
    assert hash(knl) == hash(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"))
    assert repr(knl) == "<LoopKernel 'kernel': 1 statement>"
    assert "0 &lt;= i &lt; n" in knl._repr_html_()
