"""Reductions in one loop with the statements that give their bounds."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
import loopkit.compat.loopy as lp

COUNT, START = np.array([2, 0, 3], np.int32), np.array([4, 0, 1], np.int32)
X, T = np.arange(6.0) + 0.5, np.array([1.0, 2.0])


def boxes(line: str) -> lp.TranslationUnit:
    """For each target *line*, where box ``b`` has the sources ``s`` from ``start`` on."""
    domains = ["{[t]: 0<=t<nt}", "{[b]: 0<=b<nb}", "{[s]: 0<=s<n}"]
    text = f"for t\nfor b\n<> n = count[b]\n<> start = starts[b]\nend\n{line}\nend"
    data = [lp.GlobalArg("count,starts", np.int32, shape="nb"), lp.GlobalArg("x,q", np.float64, shape=None), "..."]
    return lp.make_kernel(domains, text, data, target=lp.ExecutableCTarget())


SUM = sum(X[i] for first, n in zip(START, COUNT, strict=True) for i in range(first, first + n))
PRODUCT = np.prod([X[i] for first, n in zip(START, COUNT, strict=True) for i in range(first, first + n)])


def test_the_values_of_reductions_in_shared_loops() -> None:
    unit = boxes("""
        y[t] = q[t]*sum((b, s), x[start+s]) + sum(b, sum(s, 1)) {id=y}
        z[t] = product([b, s], x[start+s]) {id=z}
        """)
    _, (y, z) = unit(count=COUNT, starts=START, x=X, q=T, y=np.zeros(2), z=np.zeros(2), nt=2)
    np.testing.assert_allclose(y, T*SUM + 5)
    np.testing.assert_allclose(z, [PRODUCT, PRODUCT])
    inames = unit["loopy_kernel"].insn_inames
    assert (inames("y_b_s_init"), inames("y_b_s_update"), inames("y")) == ({"t"}, {"t", "b", "s"}, {"t"})


def test_other_reductions_have_their_own_loops() -> None:
    unit = lp.make_kernel("{[j,k]: 0<=j,k<4}", "for j\n<> a = x[j]\nend\ny = sum(k, x[k])")
    assert {*unit["loopy_kernel"].id_to_insn} == {"insn", "insn_0"}


def test_only_sums_and_products_are_written_out() -> None:
    with pytest.raises(lk.PreconditionError, match="needs the value of each 'b'"):
        boxes("y[t] = max((b, s), x[s]) {id=y}")


def test_a_sum_shares_a_loop_whose_bounds_come_from_memory() -> None:
    """A statement whose copied iname is that of its block has the loop of the copy alone."""
    unit = lp.make_kernel(["{[t]: 0<=t<nt}", "{[b]: first<=b<stop}", "{[c]: 0<=c<2}"], """
        for t
            <> first = starts[t]
            <> stop = starts[t+1]
            for c
                <> scale[c] = c + 1 {id=scale, dup=c}
                z[t, c] = 1 {id=z, if=t > c}
            end
            for b
                <> term = x[b]*x[b]
            end
            y[t] = simul_reduce(sum, b, term) + scale[1] {id=y}
        end""", target=lp.ExecutableCTarget())
    inames = unit["loopy_kernel"].insn_inames
    assert (inames("scale"), inames("z"), inames("y_b_update")) == ({"t", "c_0"}, {"t", "c"}, {"t", "b"})
    _, (y, z) = unit(starts=np.array([0, 2, 2, 6], np.int32), x=X, nt=3)
    np.testing.assert_allclose(y, [2.0 + X[:2] @ X[:2], 2.0, 2.0 + X[2:] @ X[2:]])
    assert z.tolist() == [[0, 0], [1, 0], [1, 1]]


def test_a_number_between_two_statements_of_an_iteration_is_in_their_loop() -> None:
    unit = lp.make_kernel("{[j,i,k]: 0<=j<n and 0<=i,k<3}", """
        t[i] = x[j, i] {id=copy}
        <int32> at = 2 - k {id=at, dep=copy}
        y[j, k] = t[at] {id=y, dep=at}""", [lp.TemporaryVariable("t", np.float64, (3,)), "..."],
        target=lp.ExecutableCTarget())
    assert unit["loopy_kernel"].insn_inames("at") == {"j", "k"}
    _, (y,) = unit(x=X.reshape(2, 3))
    assert np.array_equal(y, X.reshape(2, 3)[:, ::-1])
