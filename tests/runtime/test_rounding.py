"""The accumulation length of an error bound, and the index arrays that random numbers would break."""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pymbolic.primitives as p

from loopkit.analysis.data_constraints import index_names
from loopkit.kernel.data import GlobalArg, TemporaryVariable, ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import ReductionNode, Statement
from loopkit.kernel.tree import Leaf, seq
from loopkit.poly.sets import InstanceSet
from loopkit.runtime.rounding import error_bound

REAL, INTEGER = np.dtype("f4"), np.dtype("i4")
a, b, x, y, acc = (p.Variable(s) for s in ("a", "b", "x", "y", "acc"))
i, j = p.Variable("i"), p.Variable("j")
SQUARE = InstanceSet.parse("[n, m] -> { [i, j]: 0 <= i < n and 0 <= j < m }")
LINE = InstanceSet.parse("[n, m] -> { [i]: 0 <= i < n }")
SIZES = {"n": 10, "m": 7}


def kernel(*statements: Statement, temporaries: Mapping[str, np.dtype[np.generic]] = {},
           reductions: tuple[ReductionNode, ...] = ()) -> LoopKernel:
    arrays = tuple(GlobalArg(name, REAL) for name in ("a", "b", "x", "y"))
    return LoopKernel(name="knl", arguments=(*arrays, ValueArg("n", INTEGER), ValueArg("m", INTEGER)),
                      temporaries={k: TemporaryVariable(k, v, ()) for k, v in temporaries.items()},
                      statements=statements, tree=seq(*(Leaf(s.id) for s in statements)), derived=None,
                      reductions={r.name: r for r in reductions})


def length(*statements: Statement) -> int:
    return error_bound(kernel(*statements), SIZES).length


def test_elementwise() -> None:
    assert length(Statement("S", y[i], 2 * a[i], LINE)) == 1
    assert length(Statement("S", y[i], y[i] + a[i], LINE)) == 1


def test_accumulation() -> None:
    assert length(Statement("S", y[i], y[i] + a[i, j], SQUARE)) == 7
    assert length(Statement("S", y[0], y[0] + a[i, j], SQUARE)) == 70


def test_recurrence() -> None:
    assert length(Statement("S", y[i], y[i - 1] + a[i], LINE)) == 10
    assert length(Statement("S", x[i], y[i], LINE), Statement("T", y[i], x[i - 1] + a[i], LINE)) == 20


def test_reduction() -> None:
    node = ReductionNode("S.j", "sum", "acc", ("j",), "S.j.init", ("S.j.update",), "S")
    knl = kernel(Statement("S.j.init", acc, 0, LINE),
                 Statement("S.j.update", acc, a[i, j], SQUARE, combine="sum"),
                 Statement("S", y[i], acc, LINE), temporaries={"acc": REAL}, reductions=(node,))
    assert error_bound(knl, SIZES).length == 7


def test_index_arrays() -> None:
    assert index_names(kernel(Statement("S", y[i], a[i], LINE))) == frozenset()
    assert index_names(kernel(Statement("S", y[i], a[p.Subscript(b, (i,))], LINE))) == {"b"}
    assert index_names(kernel(Statement("S", y[p.Subscript(b, (i,))], a[i], LINE))) == {"b"}


def test_index_array_behind_a_bound() -> None:
    rows = InstanceSet.parse("[n, hi] -> { [i, j]: 0 <= i < n and 0 <= j < hi }")
    knl = kernel(Statement("S", p.Variable("hi"), p.Subscript(b, (i,)), LINE),
                 Statement("T", y[i], y[i] + a[j], rows), temporaries={"hi": INTEGER})
    assert index_names(knl) == {"b"}
    assert error_bound(knl, SIZES).length == 10                # how long a row is depends on data
